"""A finished fit in a few lines, as a terminal shows it."""

from collections.abc import Iterator

from labeldp.workflows.estimated import amount
from labeldp.workflows.summary import FitSummary
from labeldp.workflows.summary_numbers import Numbers


def spoken_lines(summary: FitSummary) -> Iterator[str]:
    """The certificate's sentence, how good the model is, and what to know before believing that."""
    yield summary.sentence
    if summary.numbers is not None:
        yield from _errors(summary.numbers)
    if summary.test is not None:
        yield f"Accuracy on {summary.test.file}: {summary.test.accuracy:.3f}."
    if summary.accuracy is not None:
        found = summary.accuracy
        yield f"Accuracy, estimated from released labels: {found.value:.3f} ({found.low:.3f} to {found.high:.3f})."
    for warning in summary.warnings:
        yield f"Note: {warning}"


def _errors(numbers: Numbers) -> Iterator[str]:
    """How far off predicted numbers are."""
    test, error, constant, gain = numbers.test, numbers.error, numbers.constant, numbers.gain
    if test is not None:
        explained = "" if test.explained is None else f", R² {test.explained:.3f}"
        yield (
            f"Error on {test.file}: {amount(test.error)} (root mean square), {amount(test.absolute)} (mean absolute)"
            f"{explained}."
        )
    found = f"{amount(error.value)} ({amount(error.low)} to {amount(error.high)})"
    found = found if error.low > 0 else f"below {amount(error.high)}, too noisy to say how much"
    yield (
        f"Error (root mean square), estimated from released labels: {found}; always answering the mean: "
        f"{amount(constant.value)} ({amount(constant.low)} to {amount(constant.high)})."
    )
    yield (
        f"Squared error below that of always answering the mean: {amount(gain.value)} ({amount(gain.low)} to "
        f"{amount(gain.high)})."
    )

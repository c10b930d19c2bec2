"""labeldp fit, predict, demo."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from labeldp.cli.ledger import describe_budget
from labeldp.cli.options import (
    FILE,
    PATH,
    curator_options,
    domain_options,
    flags_in_errors,
    held_label_options,
    note,
    program,
    remote_curator,
    user_options,
    warn_if_weak,
)
from labeldp.cli.options import progress as _progress
from labeldp.learners import LEARNERS, TRUSTS

if TYPE_CHECKING:
    from labeldp.fit import Estimated, FitSummary, Numbers


def summary_lines(summary: FitSummary) -> Iterator[str]:
    """Yield the certificate's sentence, how good the model is, and what to know before believing that."""
    yield summary.sentence
    if summary.numbers is not None:
        yield from _errors(summary.numbers)
    if summary.test is not None:
        yield f"Accuracy on {summary.test.file}: {summary.test.accuracy:.3f}."
    if summary.accuracy is not None:
        found = summary.accuracy
        whose = ", of models that each learned from a part of the records" if summary.crossed else ""
        if summary.held_out:
            whose = f", of this model, on {summary.held_out:,} records that it did not learn from"
        value = f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})"
        yield f"Accuracy, estimated from released labels: {value}{whose}."
    for warning in summary.warnings:
        yield f"Note: {warning}"


def _errors(numbers: Numbers) -> Iterator[str]:
    """Yield the errors of predicted numbers, a sentence each."""
    from labeldp.learners import format_number

    def interval(estimate: Estimated) -> str:
        value, low, high = map(format_number, (estimate.value, estimate.low, estimate.high))
        return f"{value} ({low} to {high})"

    test, error = numbers.test, numbers.error
    if test is not None:
        square, absolute = format_number(test.error), format_number(test.absolute)
        explained = "" if test.explained is None else f", R² {test.explained:.3f}"
        yield f"Error on {test.file}: {square} (root mean square), {absolute} (mean absolute){explained}."
    found = interval(error)
    if error.low <= 0:
        found = f"at most {format_number(error.high)} (95 % confidence); too noisy for a better estimate"
    yield (
        f"Error (root mean square), estimated from what was released: {found}; always answering the mean: "
        f"{interval(numbers.constant)}."
    )
    yield f"Squared error below that of always answering the mean: {interval(numbers.gain)}."


def _choices_help(data: str) -> str:
    """Return what each `--model` for "tables" or "images" is."""
    choices = [f"{name} ({entry.help})" for name, entry in LEARNERS.items() if data in entry.data]
    return f"For {data}: {', '.join(choices)}."


FIT_EXAMPLES = """\b
Examples:
  labeldp fit people.parquet --label bought --classes no,yes --epsilon 1 \\
      --ledger people.ledger --dataset bought --id id --out model
  labeldp fit people.csv --label bought --classes no,yes --epsilon 2 --features age,job \\
      --model boosting --test public.csv --test-labels-are-public --ledger people.ledger --dataset bought --out model2
  labeldp fit people.csv --label bought --classes no,yes --epsilon 0.5 --delta 1e-6 --trust central \\
      --model linear --ledger people.ledger --dataset bought --id id --out model3
  labeldp fit homes.csv --label price --range 0,500000 --epsilon 1 --trust central \\
      --ledger homes.ledger --dataset homes --out model6
  labeldp fit digits.npz --label labels --classes 10 --epsilon 1 --model cnn --stages 2 \\
      --ledger digits.ledger --dataset digits --out model4
  labeldp fit digits.npz --label labels --classes 10 --epsilon 1 --delta 1e-6 --trust central \\
      --model distilled --ledger digits.ledger --dataset digits --out model5
  LABELDP_TOKEN=… labeldp fit features.csv --curator https://labels.example:8443 --dataset bought --epsilon 1 \\
      --id id --out model7
"""


@click.command(epilog=FIT_EXAMPLES)
@click.argument("data", type=PATH, required=False)
@held_label_options
@domain_options
@curator_options
@click.option("--epsilon", required=True, metavar="NUMBER", help="The privacy parameter that this fit costs.")
@click.option(
    "--delta",
    default="0",
    show_default=True,
    metavar="NUMBER",
    help="With --trust central: the delta that this fit costs; 0 is a pure guarantee, which needs more noise.",
)
@click.option("--out", required=True, type=click.Path(path_type=str), help="A new directory for model and report.")
@click.option("--features", metavar="COLUMNS", help="Feature columns, separated by commas; all others by default.")
@click.option(
    "--trust",
    type=click.Choice(TRUSTS),
    default="local",
    show_default=True,
    help="local randomizes each label; central adds noise to sums or counts over labels, which somebody must see.",
)
@click.option(
    "--model",
    type=click.Choice(list(LEARNERS)),
    default="auto",
    show_default=True,
    help=f"What is learned. {_choices_help('tables')} {_choices_help('images')} Networks need the extra torch.",
)
@click.option(
    "--stages",
    type=click.IntRange(1, 5),
    help="Stages of training; the default of one did best in our measurements.",
)
@click.option(
    "--prior",
    type=click.Choice(["none", "clusters"]),
    default="none",
    show_default=True,
    help="With --trust central: first spend part of epsilon on class counts of feature clusters; seldom helps.",
)
@click.option("--network", metavar="MODEL", help="With --model distilled: the network; cnn by default.")
@click.option("--epochs", type=click.IntRange(1), metavar="N", help="Networks: epochs of each stage.")
@click.option(
    "--init",
    type=click.Path(path_type=str),
    metavar="MODEL",
    help="A directory with a network of other labels to start from.",
)
@click.option(
    "--cells", type=click.IntRange(1), metavar="N", help="How many cells (see labeldp plan); chosen by default."
)
@click.option("--neighbors", type=click.IntRange(1), metavar="K", help="How many neighbors; chosen by default.")
@click.option(
    "--evaluation",
    metavar="SHARE",
    help="Measure the model on this share of the records, such as 0.2, and learn from the others. It costs records "
    "and no epsilon. By default 0.1; but where all labels are randomized at once the model learns from every record, "
    "models of cross-validation are measured, and no interval is known for the model itself.",
)
@click.option(
    "--test",
    type=PATH,
    metavar="FILE",
    help="Other records with public labels, to measure the model on; for images, the test part.",
)
@click.option(
    "--test-labels-are-public",
    is_flag=True,
    help="Required with --test: labels of FILE are used without noise. A held-out part of DATA is not public.",
)
@click.option(
    "--id",
    "id_column",
    metavar="COLUMN",
    help="Distinct record ids, not a feature. Noise follows the ids, not the row order.",
)
@user_options
@flags_in_errors(domain="--classes or --range", address="--curator", token="the token")
def fit(data: str | None, **options: Any) -> None:
    """Learn a classifier, or a regression with --range, from DATA whose labels are private.

    The labels are a column of DATA, and their releases are charged to --ledger. Or a server holds both (--curator):
    then DATA has features alone, in the order of its labels, or is left out where the server has features, too.

    DATA is a table (CSV, CSV.gz or Parquet) with a column of labels, or holds images: an .npz file, or a folder of
    MNIST's or CIFAR's files or of a folder of pictures for each class.

    Writes the model, certificate.json and report.html into a new directory. The same command again costs nothing: it
    resumes an interrupted run and leaves a finished model unchanged. All columns are features but the label and the
    index of pandas, unless --features, --id or --user say otherwise.
    """
    from labeldp.fit import FitSettings, fit_file
    from labeldp.report import render_report

    server = remote_curator(options)
    if server is not None:
        options |= {"held": server.domain, "label": options["label"] or server.dataset}
    files = {name: options.pop(name) for name in ("ledger", "out", "test", "test_labels_are_public")}
    settings = FitSettings.parse(**options)
    warn_if_weak(settings.epsilon)
    with _progress("reading", lines=True) as progress:
        summary = fit_file(
            data,
            settings,
            **files,
            curator=server,
            render=render_report,
            note=note,
            progress=progress,
        )
    for line in summary_lines(summary):
        click.echo(line)
    click.echo(describe_budget(files["ledger"], settings.dataset) if server is None else server.budget["words"])
    click.echo(f"Report: {files['out'].rstrip('/')}/report.html")


@click.command(epilog="\b\nExample:\n  labeldp predict model new_people.csv --out predictions.csv --id id\n")
@click.argument("model", type=click.Path(path_type=str))
@click.argument("data", type=PATH)
@click.option("--out", required=True, type=FILE, help="A new CSV or Parquet file.")
@click.option("--id", "id_column", metavar="COLUMN", help="A column to carry along.")
@flags_in_errors(data="DATA")
def predict(model: str, data: str, out: str, id_column: str | None) -> None:
    """Predict the classes or numbers of the rows or images of DATA with the model in directory MODEL.

    Writes a column `prediction` with class names and one column of probabilities for each class, or with numbers; for
    images their places in a column `row`.
    """
    from labeldp.fit import predict_file

    with _progress("predicting") as progress:
        rows = predict_file(model, data, out=out, id_column=id_column, progress=progress)
    click.echo(f"{rows} predictions in {out}")


@click.command(epilog="\b\nExample:\n  labeldp demo\n")
@click.option("--out", default="demo-output", show_default=True, type=click.Path(path_type=str), help="A directory.")
@click.option("--epsilon", default="1", show_default=True, type=str)
@flags_in_errors()
def demo(out: str, epsilon: str) -> None:
    """Learn from a table that scikit-learn ships, with a ledger, a model and a report."""
    from labeldp.fit import run_demo
    from labeldp.report import render_report

    with _progress("preparing", lines=True) as progress:
        report = run_demo(out, epsilon, program=program(), render=render_report, note=click.echo, progress=progress)
    click.echo(f"Report: {report}")

"""Tables and figures of `labeldp reproduce multistage`, made of the files of its runs alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from labeldp.report.noises import by, dataset_of, point, sweep_of, value_of, way_of
from labeldp.report.reproduced_figures import figures
from labeldp.tables import whole_or_nothing
from labeldp.workflows import Result

SIMULATED = (
    "Every run is a simulation: labels are given, noise comes from public seeds. Test records are measured on, and "
    "nothing is chosen by them. Mean ± standard deviation over noises, their number in parentheses."
)
TABLE = "results.md"


def write_reproduced(results: Sequence[Result], folder: str | os.PathLike[str]) -> list[str]:
    """Write `results.md` and one SVG for each figure that the runs allow; what stood there is replaced.

    Returns:
        The paths.
    """
    pictures = {name: picture for found in by(results, dataset_of) for name, picture in figures(found)}
    texts = {TABLE: markdown(results), **{f"{name}.svg": f"{picture}\n" for name, picture in pictures.items()}}
    for name, text in texts.items():
        with whole_or_nothing(Path(folder) / name, overwrite=True) as hidden:
            hidden.write_text(text, encoding="utf-8")
    return [str(Path(folder) / name) for name in texts]


def markdown(results: Sequence[Result]) -> str:
    """All results as Markdown tables, data set by data set."""
    text = ["# Multi-stage training and linear models", "", SIMULATED, ""]
    for found in by(results, dataset_of):
        text += [f"## {dataset_of(found[0])}", "", _where(found), ""]
        main = [each for each in found if not each.run.settings]
        if main:
            text += [*_main_table(main), ""]
        for group in by([each for each in found if each.run.settings], sweep_of):
            text += [*_sweep_table(group), ""]
    return "\n".join(text)


def _where(results: Sequence[Result]) -> str:
    """Records, machines, versions and dates of runs."""
    dates = sorted(each.date[:10] for each in results)
    machines = {
        f"{each.hardware['processor']}, {each.hardware['cores']} cores"
        + (f", {each.hardware['accelerator']}" if each.hardware.get("accelerator") else "")
        for each in results
    }
    programs = {", ".join(f"{name} {number}" for name, number in each.versions.items()) for each in results}
    train, test = results[0].records
    days = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    made = "; ".join([days, *sorted(machines), *sorted(programs)])
    return f"{train:,} training and {test:,} test records. {made}."


def _cell(results: Sequence[Result], value: Callable[[Result], float | None], factor: float, digits: int) -> str:
    """Mean ± standard deviation (number of noises)."""
    found = point(results, 0.0, value)
    if found is None:
        return ""
    spread = f" ± {factor * found.spread:.{digits}f}" if len(results) > 1 else ""
    return f"{factor * found.value:.{digits}f}{spread} ({len(results)})"


def _measure(result: Result) -> tuple[float, int]:
    """Factor and digits of a metric."""
    return (1.0, 4) if result.metric == "RMSE" else (100.0, 2)


def _main_table(results: Sequence[Result]) -> Iterator[str]:
    """A row for each method, a column for each epsilon; candidates and seconds below."""
    epsilons = sorted({each.run.epsilon for each in results})
    unit = "" if results[0].metric == "RMSE" else " in percent"
    yield f"Test {results[0].metric}{unit}."
    yield ""
    yield f"| method | network | preset | trust | δ | {' | '.join(f'ε = {each:g}' for each in epsilons)} |"
    yield "|---|---|---|---|---|" + "---:|" * len(epsilons)
    notes: dict[str, tuple[Callable[[Result], float | None], float, int]] = {
        "mean k\\*": (lambda each: each.candidates, 1.0, 2),
        "stage-1 top-k accuracy in percent": (lambda each: each.covered, 100.0, 2),
        "seconds": (lambda each: each.seconds, 1.0, 0),
        "seconds of processors": (lambda each: each.processor_seconds, 1.0, 0),
    }
    for found in by(results, way_of):
        method, network, preset, delta, trust, _ = way_of(found[0])
        row = _row(found, epsilons, value_of, *_measure(found[0]))
        yield f"| **{method}** | {network} | {preset} | {trust} | {delta:g} | {row}"
        for step in dict.fromkeys(each["step"] for result in found for each in result.steps):
            row = _row(found, epsilons, partial(_after, step), *_measure(found[0]))
            yield f"| {method}: after {step} | | | | | {row}"
        for name, (value, factor, digits) in notes.items():
            if any(value(each) is not None for each in found):
                yield f"| {method}: {name} | | | | | {_row(found, epsilons, value, factor, digits)}"


def _after(step: str, result: Result) -> float | None:
    """What was measured after a step on the way."""
    return next((float(each["value"]) for each in result.steps if each["step"] == step), None)


def _row(
    results: Sequence[Result],
    epsilons: Sequence[float],
    value: Callable[[Result], float | None],
    factor: float,
    digits: int,
) -> str:
    cells = [_cell([each for each in results if each.run.epsilon == e], value, factor, digits) for e in epsilons]
    return " | ".join(cells) + " |"


def _sweep_table(results: Sequence[Result]) -> Iterator[str]:
    """A row for each setting, a column for each epsilon."""
    epsilons = sorted({each.run.epsilon for each in results})
    names = [name for name, _ in results[0].run.settings]
    run, metric = results[0].run, results[0].metric
    what = f"Test {metric}" if metric == "accuracy" else metric.capitalize()
    way = ", ".join(filter(None, (run.method, run.network, run.preset)))
    yield f"{what} in percent: {way}, by {' and '.join(names)}."
    yield ""
    yield f"| {' | '.join(names)} | {' | '.join(f'ε = {each:g}' for each in epsilons)} |"
    yield "|" + "---:|" * (len(names) + len(epsilons))
    by_setting = sorted({each.run.settings for each in results}, key=repr)
    for settings in sorted(by_setting, key=lambda given: [(isinstance(v, str), v) for _, v in given]):
        found = [each for each in results if each.run.settings == settings]
        values = " | ".join(f"{value:g}" if isinstance(value, float) else value for _, value in settings)
        yield f"| {values} | {_row(found, epsilons, value_of, *_measure(found[0]))}"

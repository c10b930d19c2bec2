"""Tables and figures."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from markupsafe import Markup

from labeldp.reproduce.multistage.run import Result
from labeldp.reproduce.plots import Axis, Point, Series, grid, lines, panel, stacked
from labeldp.tables import whole_or_nothing

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


EPSILON = Axis("ε, logarithmic scale", log=True)


def figures(results: Sequence[Result]) -> Iterator[tuple[str, Markup]]:
    """Names and pictures."""
    name, main = dataset_of(results[0]), [each for each in results if not each.run.settings]
    if main:
        error = main[0].metric == "RMSE"
        test = Axis("RMSE on the test part" if error else "test accuracy", share=not error)
        yield f"{name}-accuracy", lines(name, _by_epsilon(main, value_of), EPSILON, test)
        yield from _staged(name, main, test)
    for found in by([each for each in results if len(each.run.settings) == 1], sweep_of):
        yield f"{name}-clusters", _clusters(name, found)
    for found in by([each for each in results if len(each.run.settings) == 2], sweep_of):
        for same in by(found, lambda each: each.run.epsilon):
            names = [name for name, _ in same[0].run.settings]
            yield f"{name}-{'-'.join(names)}-{_file_name(same[0])}", _grid(name, same)


def _staged(name: str, main: list[Result], test: Axis) -> Iterator[tuple[str, Markup]]:
    """Learning curves, and what candidate sets say of the stage before."""
    if learnt := [each for each in main if each.curve]:
        panels = [_curves(found) for found in by(learnt, way_of)]
        yield f"{name}-learning", stacked(f"Learning curves of {name}: loss on released labels by epoch.", panels)
    if staged := [each for each in main if each.candidates is not None]:
        mean = Axis("mean k*, classes that an answer may take")
        yield f"{name}-candidates", lines(name, _by_epsilon(staged, lambda each: each.candidates), EPSILON, mean)
        covered = Axis("stage-1 top-k accuracy, at each record's own k", share=True)
        yield f"{name}-topk", lines(name, _pairs(staged), covered, test)


Value = Callable[[Result], float | None]


def _by_epsilon(results: Sequence[Result], value: Value) -> list[Series]:
    """A series for each way, by epsilon."""
    found = []
    for same in by(results, way_of):
        points = [point(group, group[0].run.epsilon, value) for group in by(same, lambda each: each.run.epsilon)]
        found.append(Series(_named(same[0], results), tuple(each for each in points if each is not None)))
    return found


def _named(result: Result, among: Sequence[Result]) -> str:
    """The method, and network or preset where these differ among the others."""
    run = result.run
    parts = [run.method]
    for name in ("network", "preset"):
        if len({getattr(each.run, name) for each in among if each.run.method == run.method}) > 1:
            parts.append(str(getattr(run, name)))
    if len({each.run.delta for each in among if each.run.method == run.method}) > 1:
        parts.append(f"δ = {run.delta:g}")
    return " ".join(parts)


def _pairs(results: Sequence[Result]) -> list[Series]:
    """The final number against stage 1's top-k accuracy: a point for each run, a series for each way and epsilon."""
    found = []
    for same in by(results, lambda each: (way_of(each), each.run.epsilon)):
        points = tuple(Point(each.covered or 0.0, each.value) for each in same)
        found.append(Series(f"{_named(same[0], results)}, ε = {same[0].run.epsilon:g}", points, joined=False))
    return found


def _curves(results: Sequence[Result]) -> Markup:
    """The mean loss at each epoch, steps one after the other; a line for each epsilon."""
    series = []
    for same in by(results, lambda each: each.run.epsilon):
        series.append(Series(f"ε = {same[0].run.epsilon:g}", tuple(_losses([each.curve for each in same]))))
    steps = list(dict.fromkeys(entry["step"] for entry in results[0].curve))
    title = f"{_named(results[0], results)}: {', then '.join(steps)}"
    return panel(title, series, Axis("epoch"), Axis("loss on released labels"))


def _losses(curves: Sequence[Sequence[dict[str, Any]]]) -> Iterator[Point]:
    """Mean losses of runs by the number of the epoch, counted over all steps."""
    for place in range(max(map(len, curves))):
        yield Point(float(place + 1), fmean(curve[place]["loss"] for curve in curves if place < len(curve)))


def _clusters(name: str, results: Sequence[Result]) -> Markup:
    """The accuracy of noisy majorities by the number of clusters; a line for each epsilon."""
    series = []
    for same in by(results, lambda each: each.run.epsilon):
        counts = sorted({each.run.settings[0][1] for each in same}, key=float)
        points = [
            point([each for each in same if each.run.settings[0][1] == count], float(count), value_of)
            for count in counts
        ]
        series.append(Series(f"ε = {same[0].run.epsilon:g}", tuple(each for each in points if each is not None)))
    y = Axis("accuracy of noisy majorities on the training labels", share=True)
    return lines(name, series, Axis("clusters, logarithmic scale", log=True), y)


def _grid(name: str, results: Sequence[Result]) -> Markup:
    """Two settings of one method at one epsilon."""
    axes = [
        sorted({each.run.settings[place][1] for each in results}, key=lambda value: (isinstance(value, str), value))
        for place in range(2)
    ]
    cells = {}
    for place, row in enumerate(axes[0]):
        for other, column in enumerate(axes[1]):
            found = [each for each in results if tuple(value for _, value in each.run.settings) == (row, column)]
            if (mean := point(found, 0.0, value_of)) is not None:
                cells[place, other] = mean
    run = results[0].run
    error = results[0].metric == "RMSE"
    title = f"{name}, {run.method}, ε = {run.epsilon:g}: test {'RMSE' if error else 'accuracy in percent'}"
    named = [(setting, [_text(value) for value in axis]) for (setting, _), axis in zip(run.settings, axes, strict=True)]
    return grid(title, named, cells, share=not error)


def _text(value: float | str) -> str:
    return f"{value:g}" if isinstance(value, float) else value


def _file_name(result: Result) -> str:
    """What tells one grid from another."""
    run = result.run
    return "-".join(filter(None, (run.method, run.network, run.preset, f"epsilon{run.epsilon:g}")))


Key = tuple[object, ...]


def dataset_of(result: Result) -> str:
    """What a section is about."""
    return result.run.dataset


def way_of(result: Result) -> Key:
    """What a row of the main table is about."""
    run = result.run
    return (run.method, run.network or "", run.preset or "", run.delta, result.trust, result.metric)


def sweep_of(result: Result) -> Key:
    """Which sweep: the settings that it changes, and how."""
    return (tuple(name for name, _ in result.run.settings), *way_of(result))


def value_of(result: Result) -> float:
    """The number itself."""
    return result.value


def by(results: Iterable[Result], key: Callable[[Result], Any]) -> Iterator[list[Result]]:
    """Groups of one key, in the order of the keys."""
    for _, found in groupby(sorted(results, key=key), key=key):
        yield list(found)


def point(results: Iterable[Result], x: float, value: Value) -> Point | None:
    """Mean and standard deviation of a value over noises; None where no run has it."""
    found = [number for each in results if (number := value(each)) is not None]
    return Point(x, fmean(found), stdev(found) if len(found) > 1 else 0.0) if found else None

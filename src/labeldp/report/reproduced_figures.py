"""The figures of one data set, each from the runs that it needs; what has no runs has no figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from markupsafe import Markup

from labeldp.report.noises import Value, by, dataset_of, point, sweep_of, value_of, way_of
from labeldp.report.plots import Axis, Point, Series, grid, lines, panel, stacked
from labeldp.workflows import Result

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

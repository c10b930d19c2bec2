"""Tables and figures of multi-stage training and linear models."""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from statistics import fmean
from typing import Any

from papers.harness import markdown_table, write_files
from papers.multistage.grid import setting_text
from papers.multistage.published import PRINTED, UNPROTECTED
from papers.multistage.run import Result
from papers.plots import Axis, Panel, Point, Series, grid, lines

SIMULATED = (
    "Every run is a simulation: labels are given, noise comes from public seeds. Test records are measured on, and "
    "nothing is chosen by them. Mean ± standard deviation over noises, their number in parentheses."
)

TABLE = "results.md"
EPSILON = Axis("ε, logarithmic scale", log=True)
Key = tuple[object, ...]
Value = Callable[[Result], float | None]
"""A number of a result; None where it has none."""


def dataset_of(result: Result) -> str:
    """Return what a section is about."""
    return result.run.dataset


def epsilon_of(result: Result) -> float:
    """Return what a column is about."""
    return result.run.epsilon


def value_of(result: Result) -> float:
    """Return the number itself."""
    return result.value


def method_of(result: Result) -> Key:
    """Return what a row of the main table is about."""
    run = result.run
    return run.method, run.network or "", run.preset or "", run.delta, result.trust, result.metric


def sweep_of(result: Result) -> Key:
    """Return which sweep it is: the settings that it changes, and how."""
    return tuple(name for name, _ in result.run.settings), *method_of(result)


def by(results: Iterable[Result], key: Callable[[Result], Any]) -> Iterator[list[Result]]:
    """Yield groups of one key, in the order of the keys."""
    for _, found in groupby(sorted(results, key=key), key=key):
        yield list(found)


def point(results: Iterable[Result], x: float, value: Value) -> Point | None:
    """Return mean and standard deviation of a value over noises; None where no run has it."""
    found = [number for each in results if (number := value(each)) is not None]
    return Point.of(x, found) if found else None


def write_reproduced(results: Sequence[Result], folder: str | os.PathLike[str]) -> list[str]:
    """Write `results.md` and one SVG for each figure that the runs allow, over what was there; return the paths."""
    pictures = {f"{name}.svg": picture for found in by(results, dataset_of) for name, picture in figures(found)}
    return write_files(folder, {TABLE: markdown(results), **pictures})


def markdown(results: Sequence[Result]) -> str:
    """Return all results as Markdown tables, data set by data set."""
    text = ["# Multi-stage training and linear models", "", SIMULATED, ""]
    for found in by(results, dataset_of):
        text += [f"## {dataset_of(found[0])}", "", _origin(found), ""]
        main = [each for each in found if not each.run.settings]
        if main:
            text += [*_main_table(main), ""]
            if dataset_of(found[0]) in PRINTED:
                text += [*beside_the_paper(dataset_of(found[0]), main), ""]
        for group in by([each for each in found if each.run.settings], sweep_of):
            text += [*_sweep_table(group), ""]
    return "\n".join(text)


def _origin(results: Sequence[Result]) -> str:
    """Return records, machines, versions and dates of runs."""
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


def _measure(result: Result) -> tuple[float, int]:
    """Return factor and digits of a metric."""
    return (1.0, 4) if result.metric == "RMSE" else (100.0, 2)


def _cells(
    results: Sequence[Result], epsilons: Sequence[float], value: Value, factor: float, digits: int
) -> Iterator[str]:
    """Yield mean ± standard deviation (number of noises) for each epsilon."""
    for epsilon in epsilons:
        own = [each for each in results if each.run.epsilon == epsilon]
        if (found := point(own, 0.0, value)) is None:
            yield ""
        else:
            spread = f" ± {factor * found.spread:.{digits}f}" if len(own) > 1 else ""
            yield f"{factor * found.value:.{digits}f}{spread} ({len(own)})"


def _main_table(results: Sequence[Result]) -> Iterator[str]:
    """Yield a row for each method, a column for each epsilon; candidates and seconds below."""
    epsilons = sorted({each.run.epsilon for each in results})
    notes: dict[str, tuple[Value, float, int]] = {
        "mean k\\*": (lambda each: each.candidates, 1.0, 2),
        "stage-1 top-k accuracy in percent": (lambda each: each.covered, 100.0, 2),
        "seconds": (lambda each: each.seconds, 1.0, 0),
        "seconds of processors": (lambda each: each.processor_seconds, 1.0, 0),
    }
    rows: list[str] = []
    for found in by(results, method_of):
        method, network, preset, delta, trust, _ = method_of(found[0])
        cells = " | ".join(_cells(found, epsilons, value_of, *_measure(found[0])))
        rows.append(f"| **{method}** | {network} | {preset} | {trust} | {delta:g} | {cells} |")
        more: dict[str, tuple[Value, float, int]] = {}
        for step in dict.fromkeys(each["step"] for result in found for each in result.steps):
            more[f"after {step}"] = (partial(_after, step), *_measure(found[0]))
        more |= {name: note for name, note in notes.items() if any(note[0](each) is not None for each in found)}
        for name, note in more.items():
            rows.append(f"| {method}: {name} | | | | | {' | '.join(_cells(found, epsilons, *note))} |")
    yield f"Test {results[0].metric}{'' if results[0].metric == 'RMSE' else ' in percent'}."
    yield ""
    heads = ["method", "network", "preset", "trust", "δ", *(f"ε = {each:g}" for each in epsilons)]
    yield from markdown_table(heads, "lllll" + "r" * len(epsilons), ())
    yield from rows


def beside_the_paper(dataset: str, results: Sequence[Result]) -> Iterator[str]:
    """Yield the printed figures of a data set with ours beside them: empty where there was no run.

    Args:
        dataset: a key of `PRINTED`.
        results: of this data set, without sweeps.

    Source: Ghazi, Tables 1 to 5.
    """
    columns: list[tuple[str, Callable[[float], str]]] = []
    for method, figures in PRINTED[dataset].items():
        columns.append(
            (f"{method.upper()}, published", partial(_figure_text, figures, 3 if dataset == "movielens" else 2))
        )
        own = [each for each in results if each.run.method == method]
        for found in by(own, method_of):
            columns.append((_named(found[0], own), partial(_cell, found)))
        if not own:
            columns.append((method, lambda epsilon: ""))
    epsilons = sorted({epsilon for figures in PRINTED[dataset].values() for epsilon in figures})
    rows = [[_epsilon_text(epsilon), *(cell(epsilon) for _, cell in columns)] for epsilon in epsilons]
    yield from markdown_table(["ε", *(head for head, _ in columns)], "r" * (1 + len(columns)), rows)


def _figure_text(figures: dict[float, float], digits: int, epsilon: float) -> str:
    """Return a printed figure, or nothing."""
    return f"{figures[epsilon]:.{digits}f}" if epsilon in figures else ""


def _cell(results: Sequence[Result], epsilon: float) -> str:
    """Return ours at a printed epsilon."""
    return next(_cells(results, [min(epsilon, UNPROTECTED)], value_of, *_measure(results[0])))


def _epsilon_text(epsilon: float) -> str:
    """Return a printed epsilon; infinity is no protection."""
    return "none" if epsilon == math.inf else f"{epsilon:g}"


def _after(step: str, result: Result) -> float | None:
    """Return what was measured after a step on the way."""
    return next((float(each["value"]) for each in result.steps if each["step"] == step), None)


def _sweep_table(results: Sequence[Result]) -> Iterator[str]:
    """Yield a row for each setting, a column for each epsilon."""
    run, metric = results[0].run, results[0].metric
    epsilons = sorted({each.run.epsilon for each in results})
    names = [name for name, _ in run.settings]
    rows = []
    for settings in sorted({each.run.settings for each in results}, key=lambda given: [_order(v) for _, v in given]):
        found = [each for each in results if each.run.settings == settings]
        values = [setting_text(value) for _, value in settings]
        rows.append([*values, *_cells(found, epsilons, value_of, *_measure(found[0]))])
    what = f"Test {metric}" if metric == "accuracy" else metric.capitalize()
    how = ", ".join(filter(None, (run.method, run.network, run.preset)))
    yield f"{what} in percent: {how}, by {' and '.join(names)}."
    yield ""
    heads = [*names, *(f"ε = {each:g}" for each in epsilons)]
    yield from markdown_table(heads, "r" * len(heads), rows)


def _order(value: float | str) -> tuple[bool, float | str]:
    """Return the place of a setting's value: numbers first."""
    return isinstance(value, str), value


def figures(results: Sequence[Result]) -> Iterator[tuple[str, str]]:
    """Yield names and SVG texts of one data set's figures."""
    name, main = dataset_of(results[0]), [each for each in results if not each.run.settings]
    if main:
        error = main[0].metric == "RMSE"
        test = Axis("RMSE on the test part" if error else "test accuracy", share=not error)
        yield f"{name}-accuracy", _figure(name, _by_epsilon(main, value_of), EPSILON, test)
        yield from _staged(name, main, test)
    for found in by([each for each in results if len(each.run.settings) == 1], sweep_of):
        yield f"{name}-{found[0].run.method}", _clusters(name, found)
    for found in by([each for each in results if len(each.run.settings) == 2], sweep_of):
        for same in by(found, epsilon_of):
            run = same[0].run
            words = [name, *(setting for setting, _ in run.settings), run.method, run.network, run.preset]
            place = "-".join([*filter(None, words), f"epsilon{run.epsilon:g}"])
            yield place, _grid(name, same)
            if any(each.covered is not None for each in same):
                yield f"{place}-topk", _topk(name, same)


def _figure(name: str, series: Sequence[Series], x: Axis, y: Axis) -> str:
    """Draw one panel."""
    names = ", ".join(each.name for each in series)
    return lines(f"{name}: {y.title} against {x.title}; {names}.", [Panel(name, series, x, y)])


def _staged(name: str, main: list[Result], test: Axis) -> Iterator[tuple[str, str]]:
    """Yield learning curves, and what candidate sets say of the stage before."""
    if curves := [each for each in main if each.curve]:
        panels = [_curves(found) for found in by(curves, method_of)]
        yield f"{name}-learning", lines(f"Learning curves of {name}: loss on released labels by epoch.", panels)
    if staged := [each for each in main if each.candidates is not None]:
        mean = Axis("mean k*, classes that an answer may take")
        yield f"{name}-candidates", _figure(name, _by_epsilon(staged, lambda each: each.candidates), EPSILON, mean)
        covered = Axis("stage-1 top-k accuracy, at each record's own k", share=True)
        yield f"{name}-topk", _figure(name, _pairs(staged), covered, test)


def _by_epsilon(results: Sequence[Result], value: Value) -> list[Series]:
    """Return a series for each method, by epsilon."""
    found = []
    for same in by(results, method_of):
        points = [point(group, group[0].run.epsilon, value) for group in by(same, epsilon_of)]
        found.append(Series(_named(same[0], results), tuple(each for each in points if each is not None)))
    return found


def _named(result: Result, among: Sequence[Result]) -> str:
    """Return the method, and network, preset or delta where these differ among the others of this method."""
    run, others = result.run, [each.run for each in among if each.run.method == result.run.method]
    parts = [run.method]
    parts += [str(getattr(run, name)) for name in ("network", "preset") if len({getattr(o, name) for o in others}) > 1]
    if len({each.delta for each in others}) > 1:
        parts.append(f"δ = {run.delta:g}")
    return " ".join(parts)


def _pairs(results: Sequence[Result]) -> list[Series]:
    """Return the final number against stage 1's top-k accuracy: a point for each run."""
    found = []
    for same in by(results, lambda each: (method_of(each), each.run.epsilon)):
        points = tuple(Point(each.covered or 0.0, each.value) for each in same)
        found.append(Series(f"{_named(same[0], results)}, ε = {same[0].run.epsilon:g}", points, joined=False))
    return found


def _topk(name: str, results: Sequence[Result]) -> str:
    """Draw the final accuracy against stage 1's top-k accuracy: a point for each run of a sweep."""
    setting = results[0].run.settings[-1][0]
    series = []
    for value in sorted({each.run.settings[-1][1] for each in results}, key=_order):
        own = [each for each in results if each.run.settings[-1][1] == value and each.covered is not None]
        points = tuple(Point(each.covered or 0.0, each.value) for each in own)
        series.append(Series(f"{setting} {setting_text(value)}", points, joined=False))
    covered = Axis("stage-1 top-k accuracy, at each record's own k", share=True)
    return _figure(name, series, covered, Axis("test accuracy", share=True))


def _curves(results: Sequence[Result]) -> Panel:
    """Return the mean loss at each epoch, steps one after the other; a line for each epsilon."""
    series = []
    for same in by(results, epsilon_of):
        curves = [each.curve for each in same]
        points = tuple(
            Point(place + 1.0, fmean(curve[place]["loss"] for curve in curves if place < len(curve)))
            for place in range(max(map(len, curves)))
        )
        series.append(Series(f"ε = {same[0].run.epsilon:g}", points))
    steps = list(dict.fromkeys(entry["step"] for entry in results[0].curve))
    title = f"{_named(results[0], results)}: {', then '.join(steps)}"
    return Panel(title, series, Axis("epoch"), Axis("loss on released labels"))


def _clusters(name: str, results: Sequence[Result]) -> str:
    """Draw the accuracy of noisy majorities by the number of clusters; a line for each epsilon."""
    series = []
    for same in by(results, epsilon_of):
        groups = by(same, lambda each: float(each.run.settings[0][1]))
        points = [Point.of(float(group[0].run.settings[0][1]), [each.value for each in group]) for group in groups]
        series.append(Series(f"ε = {same[0].run.epsilon:g}", tuple(points)))
    y = Axis("accuracy of noisy majorities of clusters on test images", share=True)
    return _figure(name, series, Axis("clusters, logarithmic scale", log=True), y)


def _grid(name: str, results: Sequence[Result]) -> str:
    """Draw two settings of one method at one epsilon."""
    run, error = results[0].run, results[0].metric == "RMSE"
    axes = [sorted({each.run.settings[place][1] for each in results}, key=_order) for place in range(2)]
    cells = {}
    for place, row in enumerate(axes[0]):
        for other, column in enumerate(axes[1]):
            values = [each.value for each in results if [v for _, v in each.run.settings] == [row, column]]
            if values:
                cells[place, other] = Point.of(0.0, values)
    title = f"{name}, {run.method}, ε = {run.epsilon:g}: test {'RMSE' if error else 'accuracy in percent'}"
    named = [(setting, list(map(setting_text, axis))) for (setting, _), axis in zip(run.settings, axes, strict=True)]
    return grid(title, named, cells, share=not error)

"""The figures of online learning: exponents, and regret by losses and by epsilon."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import log, log10
from statistics import fmean, stdev

from markupsafe import Markup

from labeldp.report.plots import Axis, Point, Series, lines, panel, stacked
from labeldp.workflows import OnlineCell, OnlinePoint, OnlineResult, online_cells

SHOWN = {
    "multiplicative-weights": "no privacy",
    "dartboard": "dartboard",
    "l2p": "l2p",
    "l2p-printed": "l2p-printed",
    "matrix-factorization": "matrix-factorization",
    "doubling": "doubling",
    "redraw": "redraw",
    "shrinking-dartboard": "shrinking-dartboard",
    "tree": "tree",
    "better-of-two": "better-of-two",
}
"""Learners and their names in figures."""

FAR = 20.0
"""Regrets are shown on a logarithmic scale from this ratio on."""

APART = 0.08
"""Of learners on the same losses, where losses are 1 apart."""

TITLES = {"a": "(a) convex losses, d = polylog T", "b": "(b) convex losses, d = T^(1/3)", "c": "(c) experts, d = T"}
EXPONENT = Axis("exponent β of the regret T^β"), Axis("α of ε = T^−α")
REGRET, EPSILON = Axis("regret; none is shown below 1", powers=True), Axis("ε, logarithmic scale", log=True)


def online_figures(results: Sequence[OnlineResult]) -> Iterator[tuple[str, Markup]]:
    """Names and pictures."""
    for each in results:
        if each.run.table == "exponents":
            yield "exponents", _exponents(each.points)
    made = [each for each in results if each.run.table == "regret"]
    for size in sorted({each.size for each in made}):
        own = [each for each in made if each.size == size]
        panels = [
            _by_losses([each for each in own if each.run.epsilon == epsilon], epsilon)
            for epsilon in sorted({each.run.epsilon for each in own})
        ]
        key = [Series(label, (), joined=False) for label in SHOWN.values()]
        yield (
            f"regret-T{size[0]}-d{size[1]}",
            stacked(f"Regret in {size[0]} rounds with {size[1]} experts, by losses.", panels, key),
        )
    for data in dict.fromkeys(each.run.data for each in results if each.run.table in ("stocks", "elec2")):
        yield data, _by_epsilon(data, [each for each in results if each.run.data == data])


def _exponents(points: Sequence[OnlinePoint]) -> Markup:
    """β against α, a panel for each setting."""
    panels = []
    for letter, title in TITLES.items():
        own = [point for point in points if point.setting[0] == letter]
        series = [
            Series(
                f"{name}, {setting[3:]}" if name == "L2P" else name, tuple(Point(each.at, each.value) for each in group)
            )
            for (name, setting), group in groupby(own, lambda point: (point.name, point.setting))
        ]
        panels.append(panel(title, series, *reversed(EXPONENT)))
    return stacked("Exponents of regret against exponents of epsilon.", panels)


def _by_losses(results: Sequence[OnlineResult], epsilon: float) -> Markup:
    """Regret on every kind of losses, a series for each learner, with points or without; none is below 1."""
    kinds = tuple(dict.fromkeys(each.run.data for each in results))
    cells, size = online_cells(results), results[0].size
    series = []
    for aside, (name, label) in enumerate(SHOWN.items()):
        own = {each.data: fmean(each.values) for each in cells if each.name == name}
        shift = APART * (aside - (len(SHOWN) - 1) / 2)
        places = [(place + shift, kind) for place, kind in enumerate(kinds) if own.get(kind, 0.0) >= 1]
        series.append(Series(label, tuple(Point(at, log10(own[kind])) for at, kind in places), joined=False))
    title = f"T = {size[0]:,}, d = {size[1]:,}, ε = {epsilon:g}"
    return panel(title, series, Axis("losses", names=kinds), REGRET, named=False)


def _by_epsilon(data: str, results: Sequence[OnlineResult]) -> Markup:
    """Regret on real losses, with the spread of plays, and that of any expert."""
    cells = online_cells(results)
    means = [fmean(each.values) for each in cells if each.name in SHOWN or each.name == "blind"]
    far = min(means) > 0 and max(means) > FAR * min(means)
    shown = [(label, [each for each in cells if each.name == name]) for name, label in SHOWN.items()]
    series = [Series("", _points([each for each in cells if each.name == "blind"], far), reference=True)]
    series += [Series(label, _points(own, far)) for label, own in shown if own]
    title = "regret; bars: deviation of single plays; dashed: any expert, at random"
    return lines(f"Regret on {data}", series, EPSILON, Axis(title, powers=far), key=True)


def _points(cells: Sequence[OnlineCell], far: bool) -> tuple[Point, ...]:
    """Means by epsilon, as logarithms where asked for; learners without kernels have no spread."""
    found = []
    for each in sorted(cells, key=lambda each: each.epsilon):
        mean, spread = fmean(each.values), stdev(each.played) if len(each.played) > 1 else 0.0
        found.append(Point(each.epsilon, *((log10(mean), spread / mean / log(10)) if far else (mean, spread))))
    return tuple(found)

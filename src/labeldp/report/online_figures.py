"""The figures of online learning: exponents, and regret by losses and by epsilon."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import log10
from statistics import fmean, stdev

from markupsafe import Markup

from labeldp.report.plots import Axis, Point, Series, lines, panel, stacked
from labeldp.workflows import OnlineCell, OnlinePoint, OnlineResult, online_cells

SHOWN = ("multiplicative-weights", "dartboard", "l2p", "l2p-printed", "matrix-factorization", "doubling")
"""As many as there are colors; tables have all."""

TITLES = {"a": "(a) convex losses, d = polylog T", "b": "(b) convex losses, d = T^(1/3)", "c": "(c) experts, d = T"}
EXPONENT = Axis("exponent β of the regret T^β"), Axis("α of ε = T^−α")
REGRET, EPSILON = Axis("regret", powers=True), Axis("ε, logarithmic scale", log=True)


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
        yield f"regret-d{size[1]}", stacked(f"Regret in {size[0]} rounds with {size[1]} experts, by losses.", panels)
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
    """Regret on every kind of losses, a series for each learner."""
    kinds = tuple(dict.fromkeys(each.run.data for each in results))
    cells, size = online_cells(results), results[0].size
    series = []
    for name in SHOWN:
        own = {each.data: each for each in cells if each.name == name and fmean(each.values) >= 1}
        points = tuple(Point(place, log10(fmean(own[k].values))) for place, k in enumerate(kinds) if k in own)
        series += [Series(name, points)] if points else []
    title = f"T = {size[0]:,}, d = {size[1]:,}, ε = {epsilon:g}"
    return panel(title, series, Axis("losses", names=kinds), REGRET)


def _by_epsilon(data: str, results: Sequence[OnlineResult]) -> Markup:
    """Regret on real losses, with the spread of plays."""
    cells, blind = online_cells(results), "blind"
    series = [_line(name, [each for each in cells if each.name == name]) for name in (*SHOWN, blind)]
    drawn = [each for each in series if each.points]
    return lines(f"Regret on {data}", drawn, EPSILON, Axis("regret; bars: deviation of single plays"))


def _line(name: str, cells: Sequence[OnlineCell]) -> Series:
    """Means by epsilon; learners without kernels have no spread."""
    found = [(each.epsilon, fmean(each.values), each.played) for each in cells]
    points = tuple(Point(e, mean, stdev(played) if len(played) > 1 else 0.0) for e, mean, played in sorted(found))
    return Series(name, points)

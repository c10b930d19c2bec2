"""The figures of measured exponents: a file for each row of Table I, and one for the number of classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import log10
from statistics import fmean

from markupsafe import Markup

from labeldp.report.plots import Axis, Point, Series, lines, panel, stacked
from labeldp.workflows import ClassCurve, Slope

RISK = Axis("excess risk on the hardest instance", powers=True)
RECORDS = Axis("records N; dashed: the predicted slope", powers=True)
METHODS = {"unary": "unary bits", "response": "response", "prior": "response, prior"}
"""Of classes: bits for each class, randomized response, and the same with a prior that its first part shows."""


def rate_figures(found: Sequence[Slope], curves: Sequence[ClassCurve]) -> Iterator[tuple[str, Markup]]:
    """Names and pictures."""
    for row in dict.fromkeys(each.row for each in found if not each.printed):
        own = [each for each in found if each.row in (row, f"{row}-printed")]
        panels = [_by_records(row, group) for group in _dimensions(own)]
        exact = [each for each in own if not each.printed]
        if len({each.epsilon for each in exact}) > 1:
            panels += [_by_strength(row, group) for group in _dimensions(exact)]
        yield row, stacked(f"Excess risk of {row} against the number of records.", panels)
    if curves:
        axes = Axis("classes K, logarithmic scale", log=True), RISK
        yield "classes", lines("Excess risk by the number of classes", [_curve(each, curves) for each in curves], *axes)


def _dimensions(found: Sequence[Slope]) -> list[list[Slope]]:
    """Slopes of each dimension."""
    return [[each for each in found if each.dimension == d] for d in sorted({each.dimension for each in found})]


def _by_records(row: str, found: Sequence[Slope]) -> Markup:
    """Risks against records, each with a line of the predicted slope through its middle."""
    series = [part for each in found for part in (_line(each, _name(each), lambda n, _: n), _predicted(each))]
    return panel(f"{row}, d = {found[0].dimension}", series, RECORDS, RISK)


def _by_strength(row: str, found: Sequence[Slope]) -> Markup:
    """Risks against what privacy leaves of the records: one curve for all epsilon where privacy rules the risk."""
    if found[0].trust == "local":
        title, strength = "N (ε ∧ 1)²", lambda n, epsilon: n * min(epsilon, 1.0) ** 2
    else:
        title, strength = "εN", lambda n, epsilon: n * epsilon
    series = [_line(each, _name(each), strength) for each in found]
    return panel(f"{row}, d = {found[0].dimension}, by {title}", series, Axis(title, powers=True), RISK)


def _line(slope: Slope, name: str, strength: Callable[[float, float], float]) -> Series:
    """What was measured."""
    pairs = zip(slope.records, slope.risks, strict=True)
    return Series(name, tuple(Point(log10(strength(n, slope.epsilon)), log10(risk)) for n, risk in pairs))


def _predicted(slope: Slope) -> Series:
    """A line of the predicted slope through the middle of what was measured."""
    places = [log10(n) for n in slope.records]
    middle, height = fmean(places), fmean(log10(risk) for risk in slope.risks)
    ends = (places[0], places[-1])
    points = tuple(Point(end, height + slope.predicted * (end - middle)) for end in ends)
    return Series("", points, reference=True)


def _name(slope: Slope) -> str:
    """Epsilon, and whether the tuning is the printed one."""
    words = [*([f"ε = {slope.epsilon:g}"] if slope.epsilon else []), *(["printed"] if slope.printed else [])]
    return ", ".join(words) or "no privacy"


def _curve(curve: ClassCurve, among: Sequence[ClassCurve]) -> Series:
    """Risks by the number of classes."""
    epsilon = f", ε = {curve.epsilon:g}" if len({each.epsilon for each in among}) > 1 else ""
    pairs = zip(curve.classes, curve.risks, strict=True)
    points = tuple(Point(float(size), log10(risk)) for size, risk in pairs)
    return Series(METHODS[curve.method] + epsilon, points)

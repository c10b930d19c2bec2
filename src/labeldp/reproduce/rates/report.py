"""Tables and figures."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from math import log10
from pathlib import Path
from statistics import fmean

from markupsafe import Markup

from labeldp.report import fixed
from labeldp.reproduce.plots import Axis, Point, Series, lines, panel, stacked
from labeldp.reproduce.rates.run import ClassCurve, RateResult, Slope, class_curves, slopes
from labeldp.tables import whole_or_nothing

TABLE = "rates.md"

INTRODUCTION = """\
Slopes of log excess risk against log N, for the rows of Table I of Zhao et al., beside the slopes of the corrected
rates over the same N. Every run is a simulation: labels are made up, noise comes from public seeds."""


def write_rates(results: Sequence[RateResult], folder: str | os.PathLike[str]) -> list[str]:
    """Write `rates.md` and an SVG for each row and for the classes; what stood there is replaced.

    Returns:
        The paths.
    """
    found, curves = slopes(results), class_curves(results)
    pictures = {f"{name}.svg": f"{picture}\n" for name, picture in rate_figures(found, curves)}
    texts = {TABLE: rates_markdown(found, curves), **pictures}
    for name, text in texts.items():
        with whole_or_nothing(Path(folder) / name, overwrite=True) as hidden:
            hidden.write_text(text, encoding="utf-8")
    return [str(Path(folder) / name) for name in texts]


def rates_markdown(found: Sequence[Slope], curves: Sequence[ClassCurve]) -> str:
    """All slopes, task by task, and the risks by the number of classes, as Markdown."""
    text = ["# Measured exponents", "", INTRODUCTION, ""]
    for task, group in groupby(found, lambda each: each.task):
        text += [f"## {task.capitalize()}", "", *_slope_table(list(group)), ""]
    if curves:
        text += ["## Number of classes", "", *_class_table(curves), ""]
    return "\n".join(text)


def _slope_table(found: Sequence[Slope]) -> Iterator[str]:
    """A line for each row, dimension and epsilon; slopes that are not reached are flagged."""
    yield "| row | d | ε | N | noises | measured | 95 % | predicted | as N grows | |"
    yield "|---|---:|---:|---|---:|---:|---|---:|---:|---|"
    for each in found:
        epsilon = f"{each.epsilon:g}" if each.epsilon else ""
        interval = "" if math.isnan(each.low) else f"{_signed(each.low)} to {_signed(each.high)}"
        numbers = f"{_signed(each.measured)} | {interval} | {_signed(each.predicted)} | {_signed(each.limit)}"
        flag = "" if each.reached else f"**off by {_signed(each.measured - each.predicted)}**"
        records = f"{each.records[0]:.0e} to {each.records[-1]:.0e}".replace("e+0", "e").replace("e+", "e")
        yield f"| {each.row} | {each.dimension} | {epsilon} | {records} | {each.noises} | {numbers} | {flag} |"


def _class_table(curves: Sequence[ClassCurve]) -> Iterator[str]:
    """A line for each way and epsilon, a column for each number of classes."""
    sizes = curves[0].classes
    yield f"| labels | ε | noises | {' | '.join(f'K = {size}' for size in sizes)} |"
    yield "|---|---:|---:|" + "---:|" * len(sizes)
    for each in curves:
        cells = [
            f"{fixed(risk, 4)} ± {fixed(spread, 4)}" for risk, spread in zip(each.risks, each.spreads, strict=True)
        ]
        yield f"| {each.method} | {each.epsilon:g} | {each.noises} | {' | '.join(cells)} |"


def _signed(value: float) -> str:
    """Three decimals, with a true minus sign."""
    return f"{value:.3f}".replace("-", "−")


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

"""Tables and figures of measured exponents."""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from statistics import geometric_mean

from labeldp.report import fixed
from papers.harness import markdown_table, write_files
from papers.plots import Axis, Panel, Point, Series, lines
from papers.rates.rows import FAMILIES
from papers.rates.run import CONSTANTS, SMOOTH, ClassCurve, RateResult, Slope, class_curves, slopes

TABLE = "rates.md"
INTRODUCTION = """\
Slopes of log excess risk against log N, for the rows of Table I of Zhao et al., beside the slopes of the corrected
rates over the same N. Every run is a simulation: labels are made up, noise comes from public seeds."""


def write_rates(results: Sequence[RateResult], folder: str | os.PathLike[str]) -> list[str]:
    """Write `rates.md` and an SVG for each row and for the classes, over what was there; return the paths."""
    found, curves = slopes(results), class_curves(results)
    pictures = {f"{name}.svg": picture for name, picture in rate_figures(found, curves)}
    return write_files(folder, {TABLE: rates_markdown(found, curves), **pictures})


def rates_markdown(found: Sequence[Slope], curves: Sequence[ClassCurve]) -> str:
    """Return all slopes, task by task, and the risks by the number of classes, as Markdown."""
    text = ["# Measured exponents", "", INTRODUCTION, ""]
    for (family, task), group in groupby(found, lambda each: (each.family, each.task)):
        own = list(group)
        rest = "" if family == SMOOTH else f", {family}: {FAMILIES[family].title}"
        text += [f"## {task.capitalize()}{rest}", "", *_slope_table(own), "", _held(own), ""]
    if curves:
        text += ["## Number of classes", "", *_class_table(curves), ""]
    return "\n".join(text)


def _slope_table(found: Sequence[Slope]) -> Iterator[str]:
    """Return a line for each row, dimension and epsilon; slopes that are not reached are flagged."""
    heads = ["row", "d", "ε", "N", "noises", "measured", "95 %", "predicted", "as N grows", ""]
    rows = []
    for each in found:
        epsilon = f"{each.epsilon:g}" if each.epsilon else ""
        records = f"{each.records[0]:.0e} to {each.records[-1]:.0e}".replace("e+0", "e").replace("e+", "e")
        interval = "" if math.isnan(each.low) else f"{_signed(each.low)} to {_signed(each.high)}"
        numbers = [_signed(each.measured), interval, _signed(each.predicted), _signed(each.limit)]
        flag = "" if each.reached else f"**off by {_signed(each.measured - each.predicted)}**"
        rows.append([each.row, each.dimension, epsilon, records, each.noises, *numbers, flag])
    return markdown_table(heads, "lrrlrrlrrl", rows)


def _held(found: Sequence[Slope]) -> str:
    """Say how many intervals hold the predicted slope, of the corrected tunings."""
    own = [each for each in found if not each.printed]
    held, possibly = (sum(getattr(each, name) for each in own) for name in ("held", "held_possibly"))
    return (
        f"{held} of {len(own)} intervals hold the predicted slope; {possibly} hold the slope of a rate "
        f"whose terms of data and of privacy have constants up to {CONSTANTS:g} times apart."
    )


def _class_table(curves: Sequence[ClassCurve]) -> Iterator[str]:
    """Return a line for each way and epsilon, a column for each number of classes."""
    sizes = curves[0].classes
    rows = [
        [
            each.method,
            f"{each.epsilon:g}",
            each.noises,
            *(f"{fixed(risk, 4)} ± {fixed(spread, 4)}" for risk, spread in zip(each.risks, each.spreads, strict=True)),
        ]
        for each in curves
    ]
    return markdown_table(["labels", "ε", "noises", *(f"K = {size}" for size in sizes)], "lrr" + "r" * len(sizes), rows)


def _signed(value: float) -> str:
    """Return three decimals, with a true minus sign."""
    return f"{value:.3f}".replace("-", "−")


RISK = Axis("excess risk on the hardest instance", powers=True)
RECORDS = Axis("records N; dashed: the predicted slope", powers=True)
METHODS = {"unary": "unary bits", "response": "response", "prior": "response, prior"}
"""Of classes: bits for each class, randomized response, and the same with a prior that its first part shows."""

Strength = Callable[[float, float], float]
"""What privacy leaves of N records at some epsilon."""


def rate_figures(found: Sequence[Slope], curves: Sequence[ClassCurve]) -> Iterator[tuple[str, str]]:
    """Yield names and SVG texts."""
    for family, row in dict.fromkeys((each.family, each.row) for each in found if not each.printed):
        own = [each for each in found if each.row in (row, f"{row}-printed") and each.family == family]
        panels = [_by_records(row, group) for group in _dimensions(own)]
        exact = [each for each in own if not each.printed]
        if len({each.epsilon for each in exact}) > 1:
            panels += [_by_strength(row, group) for group in _dimensions(exact)]
        name = row if family == SMOOTH else f"{row}-{family}"
        yield name, lines(f"Excess risk of {name} against the number of records.", panels)
    if curves:
        title, classes = "Excess risk by the number of classes", Axis("classes K, logarithmic scale", log=True)
        yield "classes", lines(f"{title}.", [Panel(title, [_curve(each, curves) for each in curves], classes, RISK)])


def _dimensions(found: Sequence[Slope]) -> list[list[Slope]]:
    """Return the slopes of each dimension."""
    return [[each for each in found if each.dimension == d] for d in sorted({each.dimension for each in found})]


def _by_records(row: str, found: Sequence[Slope]) -> Panel:
    """Return risks against records, each with a line of the predicted slope through its middle."""
    series = [part for each in found for part in (_line(each, lambda n, _: n), _predicted(each))]
    return Panel(f"{row}, d = {found[0].dimension}", series, RECORDS, RISK)


def _by_strength(row: str, found: Sequence[Slope]) -> Panel:
    """Return risks against what privacy leaves of the records: one curve for all epsilon where privacy rules."""
    strengths: dict[str, tuple[str, Strength]] = {
        "local": ("N (ε ∧ 1)²", lambda n, epsilon: n * min(epsilon, 1.0) ** 2),
        "central": ("εN", lambda n, epsilon: n * epsilon),
    }
    title, strength = strengths[found[0].trust]
    series = [_line(each, strength) for each in found]
    return Panel(f"{row}, d = {found[0].dimension}, by {title}", series, Axis(title, powers=True), RISK)


def _line(slope: Slope, strength: Strength) -> Series:
    """Return what was measured."""
    words = [*([f"ε = {slope.epsilon:g}"] if slope.epsilon else []), *(["printed"] if slope.printed else [])]
    pairs = zip(slope.records, slope.risks, strict=True)
    points = tuple(Point(strength(n, slope.epsilon), risk) for n, risk in pairs)
    return Series(", ".join(words) or "no privacy", points)


def _predicted(slope: Slope) -> Series:
    """Return a line of the predicted slope through the middle of what was measured."""
    middle, height = geometric_mean(slope.records), geometric_mean(slope.risks)
    ends = slope.records[0], slope.records[-1]
    return Series("", tuple(Point(n, height * (n / middle) ** slope.predicted) for n in ends), reference=True)


def _curve(curve: ClassCurve, among: Sequence[ClassCurve]) -> Series:
    """Return risks by the number of classes."""
    epsilon = f", ε = {curve.epsilon:g}" if len({each.epsilon for each in among}) > 1 else ""
    pairs = zip(curve.classes, curve.risks, strict=True)
    return Series(METHODS[curve.method] + epsilon, tuple(Point(size, risk) for size, risk in pairs))

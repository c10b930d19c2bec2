"""Tables and figures of `labeldp reproduce rates`, made of the files of its runs alone."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from labeldp.report.rates_figures import rate_figures
from labeldp.report.words import fixed
from labeldp.tables import whole_or_nothing
from labeldp.workflows import ClassCurve, RateResult, Slope, class_curves, slopes

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

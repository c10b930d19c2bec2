"""Figures as SVG files, drawn by matplotlib: lines with their spread, and grids of numbers.

The same numbers give the same file: no date, no version, and identifiers from a fixed salt. Text stays text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import cycle
from statistics import fmean, stdev
from typing import Any
from xml.sax.saxutils import quoteattr

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis as Direction
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import Bbox, ScaledTranslation

from labeldp.report import fixed

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "labeldp",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "figure.constrained_layout.use": True,
}

COLORS = ("#0072b2", "#d55e00", "#008060", "#aa3377", "#8f6c00", "#222222")
"""Told apart by readers with any kind of color vision; contrast with white is at least 3 to 1."""

GRAY = "#666666"
"""Of a reference that belongs to no series."""

MARKERS = "osD^vPX<>*"
"""A marker for each series: colors come again, the second time with open markers and a dotted line."""

MAX_MARKERS = 12
"""Points of a line from which on it has no markers."""

WIDTH, HEIGHT, KEY_HEIGHT, KEY_COLUMNS = 8.0, 4.0, 0.28, 4
"""Inches of a panel and of a line of names above, and columns of these."""

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Point:
    """A mean and how far single values lie from it.

    Args:
        x: where.
        value: mean.
        spread: standard deviation; 0 for a single value.
    """

    x: float
    value: float
    spread: float = 0.0

    @classmethod
    def of(cls, x: float, values: Sequence[float]) -> Point:
        """Return mean and standard deviation of values."""
        return cls(x, fmean(values), stdev(values) if len(values) > 1 else 0.0)


@dataclass(frozen=True)
class Series:
    """Points under one name.

    Args:
        name: shown in the legend.
        points: by x, where they are joined.
        joined: by a line.
        reference: to compare the series before it with: dashed, in its color, without markers and name.
    """

    name: str
    points: tuple[Point, ...]
    joined: bool = True
    reference: bool = False


@dataclass(frozen=True)
class Axis:
    """What a direction means.

    Args:
        title: in words.
        log: logarithmic, with ticks at the points.
        powers: logarithmic, with ticks at powers of ten.
        share: values are shares of one, shown in percent.
        names: of the values 0, 1, 2, …, where these are no numbers.
    """

    title: str
    log: bool = False
    powers: bool = False
    share: bool = False
    names: tuple[str, ...] = ()

    def text(self, value: float) -> str:
        """Return a tick's label."""
        if self.names:
            return self.names[round(value)]
        if self.powers:
            power = math.floor(math.log10(value) + 1e-9)
            lead = round(value / 10.0**power)
            return f"{f'{lead}·' if lead > 1 else ''}10{str(power).translate(SUPERSCRIPTS)}"
        return f"{100 * value:.6g}%" if self.share else f"{value:.6g}"


@dataclass(frozen=True)
class Panel:
    """Series over two axes, under a title."""

    title: str
    series: Sequence[Series]
    x: Axis
    y: Axis


def lines(label: str, panels: Sequence[Panel], *, key_above: bool = False) -> str:
    """Return panels below each other, as the text of an SVG file.

    Args:
        label: what the picture shows, for readers who do not see it.
        panels: at least one.
        key_above: all panels have the same series, whose names stand above them once.
    """
    with rc_context(STYLE):
        return _svg(panels_figure(panels, key_above=key_above), label)


def panels_figure(panels: Sequence[Panel], *, key_above: bool = False) -> Figure:
    """Return panels below each other; the arguments are those of `lines`."""
    named = sum(not each.reference for each in panels[0].series) if key_above else 0
    figure = Figure(figsize=(WIDTH, HEIGHT * len(panels) + KEY_HEIGHT * math.ceil(named / KEY_COLUMNS)))
    for axes, panel in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True):
        _draw(axes, panel)
        if not key_above:
            axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    if key_above:
        figure.legend(
            *figure.axes[0].get_legend_handles_labels(), loc="outside upper left", ncols=KEY_COLUMNS, frameon=False
        )
    return figure


def _draw(axes: Axes, panel: Panel) -> None:
    """Draw axes and series, a little beside each other where spreads at the same place would hide one another."""
    axes.set_title(panel.title, pad=24)
    axes.annotate(panel.y.title, (0, 1), (0, 8), xycoords="axes fraction", textcoords="offset points")
    axes.set_xlabel(panel.x.title)
    axes.grid(axis="y")
    points = [point for each in panel.series for point in each.points]
    if panel.x.log or panel.x.powers:
        axes.set_xscale("log")
    if panel.y.log or panel.y.powers:
        axes.set_yscale("log")
    _ticks(axes.xaxis, panel.x, [point.x for point in points], 8)
    _ticks(axes.yaxis, panel.y, [point.value for point in points], 6)
    beside = min(4.0, 32 / len(panel.series)) if any(point.spread for point in points) else 0.0
    styles = zip(cycle(COLORS), cycle(MARKERS), strict=False)
    color, marker, drawn = GRAY, "", 0
    for place, each in enumerate(panel.series):
        if not each.reference:
            (color, marker), drawn = next(styles), drawn + 1
        shift = ScaledTranslation(beside * (place - (len(panel.series) - 1) / 2) / 72, 0, axes.figure.dpi_scale_trans)
        again = drawn > len(COLORS)
        axes.errorbar(
            [point.x for point in each.points],
            [point.value for point in each.points],
            [point.spread for point in each.points] if any(point.spread for point in each.points) else None,
            label="_" if each.reference else each.name,
            color=color,
            linestyle=("--" if each.reference else ":" if again else "-") if each.joined else "",
            linewidth=1.0 if each.reference else 1.6,
            marker="" if each.reference or len(each.points) > MAX_MARKERS else marker,
            markersize=5,
            markerfacecolor="white" if again else color,
            transform=axes.transData + shift if beside else axes.transData,
        )
    ends = [(point.x, end) for point in points for end in (point.value - point.spread, point.value + point.spread)]
    axes.dataLim = Bbox.null()  # matplotlib takes the shift for data
    axes.update_datalim(ends)
    axes.autoscale_view()
    if panel.y.share:
        low, high = axes.get_ylim()
        air = 0.02 * (high - low)
        axes.set_ylim(max(low, -air), min(high, 1 + air))


def _ticks(direction: Direction, axis: Axis, values: Sequence[float], most: int) -> None:
    """Put ticks at names, at values, at powers of ten with multiples where there is room, or at round numbers."""
    if axis.names:
        direction.set_major_locator(FixedLocator(range(len(axis.names))))
    elif axis.log:
        direction.set_major_locator(FixedLocator(_apart(sorted(set(values)))))
    elif axis.powers and values:
        decades = math.log10(max(values) / min(values))
        direction.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 1.5 else (1, 3) if decades < 3 else (1,)))
    else:
        direction.set_major_locator(MaxNLocator(most, steps=[1, 2, 5, 10]))
    direction.set_minor_locator(NullLocator())
    direction.set_major_formatter(FuncFormatter(lambda value, _: axis.text(value)))


def _apart(values: Sequence[float]) -> list[float]:
    """Return those of the sorted values that are far enough apart on a logarithmic scale; the last one always."""
    kept: list[float] = []
    for value in reversed(values):
        if not kept or math.log(kept[-1] / value) >= 0.08 * math.log(values[-1] / values[0]):
            kept.append(value)
    return kept


def grid(
    title: str,
    axes: Sequence[tuple[str, Sequence[str]]],
    cells: Mapping[tuple[int, int], Point],
    *,
    share: bool = True,
) -> str:
    """Return numbers by two settings as the text of an SVG file: a deeper tint is a higher number.

    Args:
        title: what is shown.
        axes: name and values of the setting that goes down, and of the one that goes across.
        cells: what was measured, by row and column.
        share: whether numbers are shares of one, shown in percent.
    """
    (down, rows), (across, columns) = axes
    table = [[math.nan] * len(columns) for _ in rows]
    for (row, column), point in cells.items():
        table[row][column] = point.value
    with rc_context({**STYLE, "axes.spines.left": False, "axes.spines.bottom": False}):
        figure = Figure(figsize=(max(1.5 * len(columns) + 1.5, 7.5), 0.6 * len(rows) + 1.4))
        plot = figure.subplots()
        plot.pcolormesh(
            table, cmap=LinearSegmentedColormap.from_list("tint", ("#f4f8fb", "#7fb4d8")), edgecolor="white"
        )
        plot.set_title(title, pad=12)
        plot.set(xlabel=across, ylabel=down)
        plot.xaxis.set_label_position("top")
        plot.set_xticks([place + 0.5 for place in range(len(columns))], columns)
        plot.set_yticks([place + 0.5 for place in range(len(rows))], rows)
        plot.tick_params(length=0, top=False, labeltop=True, labelbottom=False)
        plot.invert_yaxis()
        for (row, column), point in cells.items():
            plot.text(column + 0.5, row + 0.5, _number(point, share), ha="center", va="center")
        return _svg(figure, f"{title}, {down} down, {across} across.")


def _number(point: Point, share: bool) -> str:
    """Return mean ± standard deviation."""
    factor, digits = (100.0, 2) if share else (1.0, 4)
    spread = f" ± {fixed(factor * point.spread, digits)}" if point.spread else ""
    return fixed(factor * point.value, digits) + spread


def _svg(figure: Figure, label: str) -> str:
    """Return a figure as an SVG that a screen reader announces by its label."""
    written = StringIO()
    figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None, "Title": label})
    return written.getvalue().replace("<svg ", f'<svg role="img" aria-label={quoteattr(label)} ', 1)

"""Pictures that stand alone in a file: lines with their spread, and grids of numbers, both as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from labeldp.report import Scale, apart, figure, fixed, round_ticks, tag

WIDTH, HEIGHT = 720.0, 380.0

LEFT, RIGHT, TOP, BOTTOM = 76.0, 560.0, 64.0, 316.0

LABEL_GAP = 18.0

KEY_LEFT, KEY_WIDTH, KEY_LINE, KEY_COLUMNS = 24.0, 172.0, 22.0, 4

CELL_WIDTH, CELL_HEIGHT = 104.0, 44.0

STYLE = """
svg { background: var(--paper);
  --paper: #fdfcf9; --ink: #20242a; --muted: #5b626a; --hair: #ddd8ce; --heat: 29 92 120; --depth: .55;
  --c0: #1d5c78; --c1: #9c4a17; --c2: #4d7031; --c3: #7a3b72; --c4: #8a6d1a; --c5: #5b626a; }
@media (prefers-color-scheme: dark) { svg {
  --paper: #16191c; --ink: #e3e1da; --muted: #a2a8ae; --hair: #363b41; --heat: 92 160 192; --depth: .6;
  --c0: #86bdd6; --c1: #e3a276; --c2: #a8c98a; --c3: #d3a0cc; --c4: #d9c27a; --c5: #a2a8ae; } }
text { font: 14px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; fill: var(--muted);
  font-variant-numeric: tabular-nums; }
.title { fill: var(--ink); font-size: 15px; font-weight: 600; }
.value { fill: var(--ink); }
.grid { stroke: var(--hair); } .axis, .tick { stroke: var(--muted); }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; } .spread { stroke-width: 1.5; }
.dashed { stroke-width: 1; stroke-dasharray: 5 4; }
.cell { fill: rgb(var(--heat) / calc(var(--tint) * var(--depth))); stroke: var(--paper); stroke-width: 2; }
""" + "".join(
    f".s{n} .line, .s{n} .spread, .s{n}.open .dot {{ stroke: var(--c{n}); }} "
    f".s{n} .dot, .s{n} text {{ fill: var(--c{n}); }}\n"
    for n in range(6)
)

STYLE += ".open .dot { fill: var(--paper); stroke-width: 1.5; } .open .line:not(.dashed) { stroke-dasharray: 2 3; }\n"

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

COLORS = 6
"""What has a color a second time has open dots, and dots for a line."""

MOST_DOTS = 12


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


Cells = dict[tuple[int, int], Point]


@dataclass(frozen=True)
class Series:
    """Points under one name.

    Args:
        name: shown at the last point.
        points: by x, where they are joined.
        joined: by a line.
        reference: to compare the series before it with: dashed, without dots and name.
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
        log: logarithmic.
        share: values are shares of one, shown in percent.
        powers: values are logarithms to base 10, shown as powers.
        names: of the values 0, 1, 2, …, where these are no numbers.
    """

    title: str
    log: bool = False
    share: bool = False
    powers: bool = False
    names: tuple[str, ...] = ()

    def text(self, value: float) -> str:
        """A tick's label."""
        if self.names:
            return self.names[round(value)]
        if self.powers:
            whole = math.floor(value + 1e-9)
            lead = "" if value - whole < 1e-9 else f"{10 ** (value - whole):.0f}·"
            return f"{lead}10{str(whole).translate(SUPERSCRIPTS)}"
        return f"{100 * value:.6g}%" if self.share else f"{value:.6g}"


def lines(title: str, series: Sequence[Series], x: Axis, y: Axis, *, key: bool = False) -> Markup:
    """A picture of series, as an SVG file; with `key` their names stand above it, and not at their last points."""
    names = ", ".join(each.name for each in series if each.name)
    shown = panel(title, series, x, y, named=not key)
    return stacked(f"{title}: {y.title} against {x.title}; {names}.", [shown], series if key else ())


def stacked(title: str, panels: Sequence[Markup], key: Sequence[Series] = ()) -> Markup:
    """Panels below each other, as an SVG file; above them the names of series that all of them have, if given."""
    named = [each for each in key if not each.reference]
    above = KEY_LINE * -(-len(named) // KEY_COLUMNS) + (16.0 if named else 0.0)
    names = [_key_entry(place, each) for place, each in enumerate(named)]
    placed = [tag("g", each, transform=f"translate(0 {above + HEIGHT * place:g})") for place, each in enumerate(panels)]
    return _file(title, WIDTH, above + HEIGHT * len(panels), *names, *placed)


def panel(title: str, series: Sequence[Series], x: Axis, y: Axis, *, named: bool = True) -> Markup:
    """Axes, series and, unless these stand elsewhere, their names."""
    points = [point for each in series for point in each.points]
    right = RIGHT if named else WIDTH - 16.0
    across = _across([point.x for point in points], x, right)
    up = _up([end for p in points for end in (p.value - p.spread, p.value + p.spread)], y)
    shown = [each for each in series if named and not each.reference]
    ends = dict(zip(map(id, shown), _placed([up(each.points[-1].value) for each in shown]), strict=True))
    aside = min(4.0, 32 / len(series)) if any(point.spread for point in points) else 0.0
    shifts = [aside * (n - (len(series) - 1) / 2) for n in range(len(series))]
    drawn, color = list[Markup](), -1
    for each, shift in zip(series, shifts, strict=True):
        color += not each.reference
        names = (_name(each, ends[id(each)]),) if id(each) in ends else ()
        drawn.append(tag("g", *_series(each, across, up, shift), *names, class_=_kind(color)))
    return tag(
        "g",
        tag("text", title, class_="title", x=LEFT, y=TOP - 40),
        _axes(across, up, x, y, sorted({point.x for point in points}), right),
        *drawn,
    )


def grid(title: str, axes: Sequence[tuple[str, Sequence[str]]], cells: Cells, *, share: bool = True) -> Markup:
    """Numbers by two settings: a deeper tint is a higher number.

    Args:
        title: what is shown.
        axes: name and values of the setting that goes down, and of the one that goes across.
        cells: what was measured, by row and column.
        share: whether numbers are shares of one, shown in percent.
    """
    (down, rows), (across, columns) = axes
    left, top = 84.0, 118.0
    tint = Scale(min(p.value for p in cells.values()), max(p.value for p in cells.values()), 0.05, 1.0)
    pieces = [
        tag("text", title, class_="title", x=16, y=30),
        tag("text", across, x=left + len(columns) * CELL_WIDTH / 2, y=68, text_anchor="middle"),
        tag("text", down, x=left - 12, y=top - 12, text_anchor="end"),
    ]
    for place, name in enumerate(columns):
        pieces.append(tag("text", name, x=left + (place + 0.5) * CELL_WIDTH, y=top - 12, text_anchor="middle"))
    for place, name in enumerate(rows):
        pieces.append(tag("text", name, x=left - 12, y=top + (place + 0.5) * CELL_HEIGHT + 5, text_anchor="end"))
    for (row, column), point in cells.items():
        x, y = left + column * CELL_WIDTH, top + row * CELL_HEIGHT
        pieces.append(_cell(x, y, _number(point, share), tint(point.value)))
    size = max(left + len(columns) * CELL_WIDTH + 16, 560.0), top + len(rows) * CELL_HEIGHT + 16
    return _file(f"{title}, {down} down, {across} across.", *size, *pieces)


def _number(point: Point, share: bool) -> str:
    """Mean ± standard deviation."""
    factor, digits = (100.0, 2) if share else (1.0, 4)
    spread = f" ± {fixed(factor * point.spread, digits)}" if point.spread else ""
    return fixed(factor * point.value, digits) + spread


def _cell(x: float, y: float, text: str, tint: float) -> Markup:
    """One number on its tint."""
    middle = x + CELL_WIDTH / 2
    box = tag("rect", class_="cell", x=x, y=y, width=CELL_WIDTH, height=CELL_HEIGHT, style=f"--tint: {tint:.2f}")
    return tag("g", box, tag("text", text, class_="value", x=middle, y=y + CELL_HEIGHT / 2 + 5, text_anchor="middle"))


def _file(label: str, width: float, height: float, *children: str) -> Markup:
    style = tag("style", Markup(STYLE))
    return figure(label, width, height, style, *children, xmlns="http://www.w3.org/2000/svg")


def _across(values: list[float], axis: Axis, right: float) -> Scale:
    return Scale(min(values), max(values), LEFT + 16, right - 16, log=axis.log)


def _up(values: list[float], axis: Axis) -> Scale:
    """A vertical scale with a little air; shares stay between 0 and 1."""
    low, high = min(values), max(values)
    air = 0.06 * max(high - low, 0.02 if axis.share else 1e-6)
    low, high = low - air, high + air
    return Scale(max(low, 0.0), min(high, 1.0), BOTTOM, TOP) if axis.share else Scale(low, high, BOTTOM, TOP)


def _axes(across: Scale, up: Scale, x: Axis, y: Axis, values: list[float], right: float) -> Markup:
    """Hairlines with numbers at the left, ticks below, and what the two directions mean."""
    pieces = [tag("text", y.title, x=LEFT, y=TOP - 16)]
    for value in _ticks(up, y):
        pieces.append(tag("line", class_="grid", x1=LEFT, x2=right, y1=up(value), y2=up(value)))
        pieces.append(tag("text", y.text(value), x=LEFT - 8, y=up(value) + 5, text_anchor="end"))
    at = [*range(len(x.names))] or (apart(values, across, 52) if x.log else _ticks(across, x, 9))
    for value in at:
        place = across(value)
        pieces.append(tag("line", class_="tick", x1=place, x2=place, y1=BOTTOM, y2=BOTTOM + 5))
        pieces.append(tag("text", x.text(value), x=place, y=BOTTOM + 22, text_anchor="middle"))
    pieces.append(tag("line", class_="axis", x1=LEFT, x2=right, y1=BOTTOM, y2=BOTTOM))
    middle = (LEFT + right) / 2
    pieces.append(tag("text", x.title, x=middle, y=BOTTOM + 46, text_anchor="middle"))
    return tag("g", *pieces)


def _ticks(scale: Scale, axis: Axis, most: int = 6) -> list[float]:
    """Round numbers; of powers of ten all, and multiples of them where there is room."""
    if not axis.powers:
        return round_ticks(scale.start, scale.end, most)
    first, last = math.floor(scale.start), math.floor(scale.end)
    leads = (1, 2, 5) if scale.end - scale.start < 1.5 else (1, 3) if scale.end - scale.start < 3 else (1,)
    places = [whole + math.log10(lead) for whole in range(first, last + 1) for lead in leads]
    return [place for place in places if scale.start <= place <= scale.end]


def _series(series: Series, across: Scale, up: Scale, shift: float) -> list[Markup]:
    """A line and its points with their spreads, a little aside so that spreads at the same place are all seen."""
    places = [(across(point.x) + shift, up(point.value)) for point in series.points]
    pieces = []
    if series.joined:
        kind = "line dashed" if series.reference else "line"
        pieces.append(tag("polyline", class_=kind, points=" ".join(f"{x:.1f},{y:.1f}" for x, y in places)))
    for (x, y), point in zip(places, series.points, strict=True):
        if point.spread:
            low, high = up(point.value - point.spread), up(point.value + point.spread)
            pieces.append(tag("line", class_="spread", x1=x, x2=x, y1=low, y2=high))
        if len(places) <= MOST_DOTS and not series.reference:
            pieces.append(tag("circle", class_="dot", cx=x, cy=y, r=3.5))
    return pieces


def _kind(color: int) -> str:
    """The classes of a series: its color, and open dots where another one has this color already."""
    return f"s{color % COLORS}{' open' if color >= COLORS else ''}"


def _key_entry(place: int, series: Series) -> Markup:
    """A name beside its dot, line by line above all panels."""
    x, y = KEY_LEFT + KEY_WIDTH * (place % KEY_COLUMNS), KEY_LINE * (place // KEY_COLUMNS + 1)
    line = [tag("polyline", class_="line", points=f"{x - 8:g},{y:g} {x + 8:g},{y:g}")] if series.joined else []
    dot = tag("circle", class_="dot", cx=x, cy=y, r=3.5)
    return tag("g", *line, dot, tag("text", series.name, x=x + 12, y=y + 5), class_=_kind(place))


def _name(series: Series, height: float) -> Markup:
    """At the right of the plot."""
    return tag("text", series.name, x=RIGHT + 8, y=height + 5)


def _placed(heights: list[float]) -> list[float]:
    """Heights for names: near the given ones, far enough apart to be read, none below the plot."""
    order = sorted(range(len(heights)), key=heights.__getitem__)
    found, last, limit = dict[int, float](), -LABEL_GAP, BOTTOM
    for place in order:
        last = found[place] = max(heights[place], last + LABEL_GAP)
    for place in reversed(order):
        found[place] = min(found[place], limit)
        limit = found[place] - LABEL_GAP
    return [found[place] for place in range(len(heights))]

"""Elements of SVG, scales and axes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from markupsafe import Markup, escape

from labeldp.fit import Across
from labeldp.report.words import exponent_of, fixed, percent, shortened, thousands


def tag(name: str, *children: str, **attributes: object) -> Markup:
    """Return an element; `class_` becomes class, `stroke_width` stroke-width, and plain text is escaped."""
    written = Markup("")
    for key, value in attributes.items():
        if isinstance(value, float):  # with at most two decimals it is the same picture in half the bytes
            value = f"{value:.2f}".rstrip("0").rstrip(".")
        written += Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), value)
    inside = Markup("").join(map(escape, children))
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), written, inside)


def figure(label: str, width: float, height: float, *children: str, **attributes: object) -> Markup:
    """Return an SVG that scales to its box and that a screen reader announces by its label."""
    box = f"0 0 {width:g} {height:g}"
    shown = {"role": "img", "aria_label": label, **attributes}
    picture = tag("svg", *children, **shown)
    # the attribute name is case-sensitive in SVG, so it cannot be written as a keyword of `tag`
    return Markup('<svg viewBox="{}"').format(box) + Markup(picture[len("<svg") :])


@dataclass(frozen=True)
class AxisScale:
    """A monotone map from [start, end] of the data to [first, last] of the picture, clipped at both ends."""

    start: float
    end: float
    first: float
    last: float
    log: bool = False

    def __call__(self, value: float) -> float:
        start, end, at = self.start, self.end, value
        if self.log:
            start, end, at = map(math.log, (start, end, at))
        share = (at - start) / (end - start) if end > start else 0.5
        return self.first + (self.last - self.first) * min(1.0, max(0.0, share))


def round_ticks(low: float, high: float, limit: int = 6) -> list[float]:
    """Return at most `limit` multiples of 1, 2 or 5 times a power of ten in [low, high]."""
    span = max(high - low, 1e-9 * max(abs(low), abs(high), 1e-9))
    smallest = math.floor(math.log10(span)) - 1
    for power in range(smallest, smallest + 4):
        for lead in (1, 2, 5):
            step = lead * 10.0**power
            first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
            if last - first < limit:
                return [count * step for count in range(first, last + 1)]
    return []


def apart(values: list[float], scale: AxisScale, gap: float) -> list[float]:
    """Return sorted values that are at least `gap` apart in the picture, the last one always among them."""
    chosen: list[float] = []
    for value in reversed(values):
        if not chosen or abs(scale(chosen[-1]) - scale(value)) >= gap:
            chosen.append(value)
    return chosen[::-1]


LEFT, RIGHT, TOP, BOTTOM = 104.0, 646.0, 40.0, 296.0

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

LONGEST = 48
"""Most characters of an axis title; the caption below a figure has names in full."""

BELOW, BESIDE = 14, 9
"""Most characters of a category's label below a picture, and at its left."""

LETTER = 11.5
"""Width of a letter on a small screen, with some room beside it."""

DATES = 1000.0
"""A time feature of at least this many days is shown as dates since 1970; a smaller one as a number of days."""


@dataclass(frozen=True)
class ChartAxis:
    """A scale with its title and ticks.

    Args:
        title: what it measures.
        scale: maps values to the picture.
        ticks: values and their labels.
        slanted: whether the labels below the axis are long, and so are slanted.
    """

    title: str
    scale: AxisScale
    ticks: tuple[tuple[float, str], ...]
    slanted: bool = False

    @classmethod
    def of_numbers(cls, title: str, values: list[float], first: float, last: float) -> ChartAxis:
        """Return an axis that holds all of these numbers."""
        scale, (factor, suffix) = _around(values, first, last), _factor(values)
        ticks = tuple((value, _tick_text(value / factor)) for value in round_ticks(scale.start, scale.end))
        return cls(shortened(title, LONGEST) + suffix, scale, ticks)

    @classmethod
    def of_shares(cls, title: str, first: float, last: float) -> ChartAxis:
        """Return an axis from 0 to 100%."""
        ticks = tuple((value, percent(value, 0)) for value in (0.0, 0.25, 0.5, 0.75, 1.0))
        return cls(title, AxisScale(0.0, 1.0, first, last), ticks)

    @classmethod
    def of_feature(cls, across: Across, first: float, last: float, *, longest: int = BELOW) -> ChartAxis:
        """Return an axis along a feature: numbers, dates, false and true, or categories cut to `longest` letters."""
        places = list(across.places)
        low, high = min(places), max(places)
        if across.names:
            scale = AxisScale(low - 0.5, high + 0.5, first, last)
            named = tuple(
                (value, shortened(name, longest) or "(blank)")
                for value, name in zip(across.places, across.names, strict=True)
            )
            return cls(
                shortened(across.feature, LONGEST),
                scale,
                named,
                slanted=LETTER * max(len(name) for _, name in named) * len(named) > abs(last - first),
            )
        if across.kind == "boolean":
            scale = AxisScale(-0.5, 1.5, first, last)
            return cls(shortened(across.feature, LONGEST), scale, ((0.0, "false"), (1.0, "true")))
        if across.kind == "time" and low >= DATES:
            scale = AxisScale(low, high, first, last)
            dates = tuple((day, f"{EPOCH + timedelta(days=day):%Y-%m-%d}") for day in round_ticks(low, high, 5))
            return cls(shortened(across.feature, LONGEST), scale, dates)
        unit = " (days)" if across.kind == "time" else ""
        factor, suffix = _factor(places)
        ticks = tuple((value, _tick_text(value / factor)) for value in round_ticks(low, high))
        return cls(shortened(across.feature, LONGEST) + unit + suffix, AxisScale(low, high, first, last), ticks)

    def below(self, base: float) -> Markup:
        """Draw the axis below a picture: its line, ticks, labels and title."""
        gap = 20.0 if self.slanted else max(62.0, LETTER * max((len(label) for _, label in self.ticks), default=0))
        chosen = set(apart([value for value, _ in self.ticks], self.scale, gap))
        pieces = [tag("line", class_="axis", x1=self.scale.first, x2=self.scale.last, y1=base, y2=base)]
        for value, label in self.ticks:
            if value not in chosen:
                continue
            x = self.scale(value)
            pieces.append(tag("line", class_="tick", x1=x, x2=x, y1=base, y2=base + 5))
            pieces.append(_label(label, x, base, self.slanted))
        middle = (self.scale.first + self.scale.last) / 2
        under = base + (88 if self.slanted else 50)
        pieces.append(tag("text", self.title, class_="below", x=middle, y=under, text_anchor="middle"))
        return tag("g", *pieces)

    def beside(self, left: float, right: float, *, grid: bool = True) -> Markup:
        """Draw the axis at the left of a picture: its labels, its title on top and, with `grid`, lines across."""
        pieces = []
        for value, label in self.ticks:
            y = self.scale(value)
            if grid:
                pieces.append(tag("line", class_="grid", x1=left, x2=right, y1=y, y2=y))
            pieces.append(tag("text", label, x=left - 8, y=y + 5, text_anchor="end"))
        pieces.append(tag("text", self.title, class_="strong", x=0, y=16))
        return tag("g", *pieces)


def _label(text: str, x: float, base: float, slanted: bool) -> Markup:
    """Draw a tick's label below the tick, slanted if it is long."""
    if not slanted:
        return tag("text", text, class_="below", x=x, y=base + 23, text_anchor="middle")
    turned = f"rotate(-38 {x:.1f} {base + 18:.1f})"
    return tag("text", text, class_="below", x=x, y=base + 18, text_anchor="end", transform=turned)


def _around(values: list[float], first: float, last: float) -> AxisScale:
    """Return a scale that holds all values, with some space at both ends."""
    low, high = min(values), max(values)
    air = 0.06 * (high - low) or 0.5 * abs(high) or 0.5
    return AxisScale(low - air, high + air, first, last)


def _factor(values: list[float]) -> tuple[float, str]:
    """Return the power of a thousand that tick labels leave out, and how the title says so."""
    power = thousands(max(map(abs, values)))
    return 10.0**power, f" (× 10{exponent_of(power)})" if power else ""


def _tick_text(value: float) -> str:
    """Write a round number with up to six significant digits, without trailing zeros."""
    digits = max(0, 6 - math.floor(math.log10(abs(value))) - 1) if value else 0
    text = fixed(value, min(digits, 6))
    return text.rstrip("0").rstrip(".") if "." in text else text

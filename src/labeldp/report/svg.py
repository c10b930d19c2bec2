"""The few pieces of SVG that the charts are made of; every attribute and text is escaped."""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup, escape


def tag(name: str, *children: str, **attributes: object) -> Markup:
    """One element; `class_` becomes class, `stroke_width` becomes stroke-width, plain text children are escaped."""
    written = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), _short(value)) for key, value in attributes.items()
    )
    inside = Markup("").join(escape(child) for child in children)
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), written, inside)


def figure(label: str, width: float, height: float, *children: str, **attributes: object) -> Markup:
    """An SVG that scales to its box and that a screen reader announces by its label."""
    box = f"0 0 {width:g} {height:g}"
    shown = {"role": "img", "aria_label": label, **attributes}
    picture = tag("svg", *children, **shown)
    # the attribute name is case-sensitive in SVG, so it cannot be written as a keyword of `tag`
    return Markup('<svg viewBox="{}"').format(box) + Markup(picture[len("<svg") :])


def _short(value: object) -> object:
    """A number with at most two decimals: the same picture in half the bytes."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


@dataclass(frozen=True)
class Scale:
    """A monotone map from [start, end] of the data to [first, last] of the picture, clipped at both ends."""

    start: float
    end: float
    first: float
    last: float
    log: bool = False

    def __call__(self, value: float) -> float:
        start, end, at = (math.log(v) if self.log else v for v in (self.start, self.end, value))
        share = (at - start) / (end - start) if end > start else 0.5
        return self.first + (self.last - self.first) * min(1.0, max(0.0, share))


def round_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten inside [low, high], at most `most` of them."""
    span = max(high - low, 1e-9 * max(abs(low), abs(high), 1e-9))
    smallest = math.floor(math.log10(span)) - 1
    for power in range(smallest, smallest + 4):
        for lead in (1, 2, 5):
            step = lead * 10.0**power
            first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
            if last - first < most:
                return [count * step for count in range(first, last + 1)]
    return []


def apart(values: list[float], scale: Scale, gap: float) -> list[float]:
    """Those of the sorted values that stand at least `gap` apart in the picture, the last one always kept."""
    kept: list[float] = []
    for value in reversed(values):
        if not kept or abs(scale(kept[-1]) - scale(value)) >= gap:
            kept.append(value)
    return kept[::-1]

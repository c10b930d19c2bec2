"""A forest plot as SVG text: a point and an interval in each row, over one axis."""

from collections.abc import Sequence
from html import escape
from math import ceil, floor, isfinite, log10

LEFT, RIGHT, ROW, TOP = 220.0, 620.0, 24.0, 34.0
LONGEST = 30
"""Characters of a row's name that are shown: from its beginning and its end."""


def forest(title: str, names: Sequence[str], points: Sequence[tuple[float, float, float]]) -> str:
    """Return a forest plot.

    Args:
        title: what the axis measures; screen readers announce it.
        names: of the rows.
        points: value, low and high of each row. An end that is infinite reaches the border of the picture.
    """
    numbers = [number for point in points for number in point if isfinite(number)] or [0.0, 1.0]
    low, high = min(numbers), max(numbers)
    margin = 0.06 * (high - low) or 0.5 * abs(high) or 0.5
    low, high = low - margin, high + margin
    bottom = TOP + ROW * len(names)

    def across(number: float) -> float:
        return LEFT + (RIGHT - LEFT) * min(max((number - low) / (high - low), 0.0), 1.0)

    lines = [f'<text x="{LEFT:g}" y="18" font-weight="bold">{escape(title)}</text>']
    for tick in ticks(low, high):
        x = across(tick)
        lines.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6:g}" y2="{bottom:g}" class="grid" stroke="#ddd"/>')
        lines.append(f'<text x="{x:.1f}" y="{bottom + 18:g}" text-anchor="middle">{tick:.6g}</text>')
    for row, (name, (value, start, end)) in enumerate(zip(names, points, strict=True)):
        y = TOP + ROW * (row + 0.5)
        short = name if len(name) <= LONGEST else f"{name[: LONGEST // 2]}…{name[1 - LONGEST // 2 :]}"
        lines.append(f'<text x="{LEFT - 10:g}" y="{y + 4:g}" text-anchor="end">{escape(short)}</text>')
        lines.append(
            f'<line x1="{across(start):.1f}" x2="{across(end):.1f}" y1="{y:g}" y2="{y:g}" class="whisker" '
            'stroke="#357" stroke-width="2"/>'
        )
        if isfinite(value):
            lines.append(f'<circle cx="{across(value):.1f}" cy="{y:g}" r="4" class="dot" fill="#357"/>')
    box = f"0 0 {RIGHT + 40:g} {bottom + 30:g}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" role="img" aria-label="{escape(title)}" '
        f'font-family="sans-serif" font-size="12">{"".join(lines)}</svg>'
    )


def ticks(low: float, high: float, count: int = 6) -> list[float]:
    """Return at most `count` multiples of 1, 2 or 5 times a power of ten in [low, high]."""
    power = 10.0 ** floor(log10((high - low) / count))
    for step in (power, 2 * power, 5 * power, 10 * power, 20 * power):
        first, last = ceil(low / step), floor(high / step)
        if last - first < count:
            return [step * number for number in range(first, last + 1)]
    return []

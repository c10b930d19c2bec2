"""What a model answers along one feature or over two, and how far off it is: drawn as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from labeldp.report.axes import BESIDE, BOTTOM, LEFT, RIGHT, TOP, Axis
from labeldp.report.svg import Scale, figure, tag
from labeldp.report.words import percent, shortened, signed
from labeldp.workflows import Bin, Picture, amount

WIDTH = 680.0
PLAIN, TALL = 360.0, 400.0
"""Heights: with labels below an axis, and with long ones that stand aslant."""
STEPS = 16
"""Strengths of a color in a map."""
HUES = 5
"""Classes that have a color of their own; the others share a gray."""
MAP_RIGHT = 516.0


def residual_chart(residuals: Sequence[Bin]) -> Markup:
    """Mean difference of labels and predictions with its interval, by prediction; a line where it is nothing."""
    y = Axis.of_numbers(
        "released label − prediction, mean", [0.0, *(end for each in residuals for end in (each.low, each.high))],
        BOTTOM, TOP,
    )  # fmt: skip
    x = Axis.of_numbers("prediction", [each.middle for each in residuals], LEFT + 16, RIGHT - 16)
    zero = y.scale(0.0)
    clear = sum(each.low > 0 or each.high < 0 for each in residuals)
    label = (
        f"Mean of released labels minus predictions in {len(residuals)} groups of records by prediction; the interval "
        f"of {clear} of them leaves out 0."
    )
    base = tag("line", class_="base", x1=LEFT, x2=RIGHT, y1=zero, y2=zero)
    return figure(
        label,
        WIDTH,
        PLAIN,
        y.beside(LEFT, RIGHT),
        x.below(BOTTOM),
        base,
        *_whiskers(residuals, x, y),
        class_="plot spare",
    )


def picture_chart(picture: Picture, classes: Sequence[str], label: str) -> Markup:
    """What a model answers: a line for one feature, a map for two.

    Args:
        picture: the answers.
        classes: names, none where answers are numbers.
        label: name of what is predicted.
    """
    if len(picture.axes) == 1:
        return _curves(picture, classes, label)
    return _map(picture, classes)


def _curves(picture: Picture, classes: Sequence[str], label: str) -> Markup:
    """A line for numbers or for each of a few classes, and what released labels say."""
    (across,) = picture.axes
    right = MAP_RIGHT if len(classes) > 2 else RIGHT
    x = Axis.of_feature(across, LEFT, right)
    chosen = _most_answered(picture)[:HUES] if len(classes) > 2 else [len(picture.answers) - 1]
    if classes:
        named = f"probability of {classes[1]}" if len(classes) == 2 else "probability"
        y = Axis.of_shares(shortened(named, 60), BOTTOM, TOP)
    else:
        ends = [end for each in picture.seen for end in (each.low, each.high)]
        y = Axis.of_numbers(label, [*picture.answers[0], *ends], BOTTOM, TOP)
    words = "What the model answers along its feature"
    words += f", from {amount(min(picture.answers[0]))} to {amount(max(picture.answers[0]))}." if not classes else "."
    lines = [piece for hue, row in enumerate(chosen) for piece in _line(picture.answers[row], x, y, across, hue)]
    seen = [each for each in picture.seen if across.places[0] <= each.middle <= across.places[-1]]
    height = TALL if x.slanted else PLAIN
    marks = _keys([(hue, classes[row]) for hue, row in enumerate(chosen)]) if len(classes) > 2 else []
    pieces = [y.beside(LEFT, right), x.below(BOTTOM), *_whiskers(seen, x, y), *lines, *marks]
    return figure(words, WIDTH, height, *pieces, class_="plot spare")


def _line(answers: Sequence[float], x: Axis, y: Axis, across: object, hue: int) -> list[Markup]:
    """Answers joined, or as points where the feature has no order."""
    places = getattr(across, "places", ())
    points = [(x.scale(place), y.scale(value)) for place, value in zip(places, answers, strict=True)]
    if getattr(across, "kind", "") in ("category", "boolean"):
        return [tag("circle", class_=f"dot hue{hue}", cx=cx, cy=cy, r=5) for cx, cy in points]
    path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
    return [tag("polyline", class_=f"line hue{hue}", points=path)]


def _whiskers(bins: Sequence[Bin], x: Axis, y: Axis) -> list[Markup]:
    """Means with their intervals."""
    pieces = []
    for each in bins:
        across = x.scale(each.middle)
        pieces.append(tag("line", class_="seen", x1=across, x2=across, y1=y.scale(each.low), y2=y.scale(each.high)))
        pieces.append(tag("circle", class_="seen-dot", cx=across, cy=y.scale(each.value), r=3.5))
    return pieces


@dataclass(frozen=True)
class _Shade:
    """What stands in a cell of a map: a color and its strength."""

    hue: int
    step: int


def _map(picture: Picture, classes: Sequence[str]) -> Markup:
    """A tinted cell for each pair of places, and what the tints mean."""
    first, second = picture.axes
    x, y = Axis.of_feature(first, LEFT, MAP_RIGHT), Axis.of_feature(second, BOTTOM, TOP, longest=BESIDE)
    xs, ys = _edges(first.places, x.scale), _edges(second.places, y.scale)
    shades, legend = _shades(picture, classes)
    paths: dict[_Shade, list[str]] = {}
    for i in range(len(first.places)):
        column = shades[i * len(second.places) : (i + 1) * len(second.places)]
        for start, end in _runs(column):
            low, high = ys[start], ys[end]
            place = f"M{xs[i]:.1f} {low:.1f}H{xs[i + 1]:.1f}V{high:.1f}H{xs[i]:.1f}z"
            paths.setdefault(column[start], []).append(place)
    cells = [
        tag("path", class_=f"tint hue{shade.hue}", opacity=shade.step / STEPS, d="".join(path))
        for shade, path in sorted(paths.items(), key=lambda item: (item[0].hue, item[0].step))
    ]
    words = "What the model answers over its two features, the first across and the second up."
    height = TALL if x.slanted else PLAIN
    return figure(
        words,
        WIDTH,
        height,
        *cells,
        y.beside(LEFT, MAP_RIGHT, grid=False),
        x.below(BOTTOM),
        *legend,
        class_="plot spare map",
    )


def _shades(picture: Picture, classes: Sequence[str]) -> tuple[list[_Shade], list[Markup]]:
    """The tint of every cell, and the legend."""
    if len(classes) > 2:
        order = _most_answered(picture)
        hue = {row: min(place, HUES) for place, row in enumerate(order)}
        cells = list(zip(*picture.answers, strict=True))
        likeliest = [max(range(len(classes)), key=cell.__getitem__) for cell in cells]
        shades = [
            _Shade(hue[row], max(1, round(STEPS * cell[row]))) for row, cell in zip(likeliest, cells, strict=True)
        ]
        shown = [(place, classes[row]) for place, row in enumerate(order[:HUES]) if row in likeliest]
        rest = [(HUES, "others")] if any(hue[row] == HUES for row in likeliest) else []
        return shades, _keys([*shown, *rest])
    values = picture.answers[-1]
    low, high = (0.0, 1.0) if classes else (min(values), max(values))
    span = (high - low) or 1.0
    shades = [_Shade(0, 1 + round((STEPS - 1) * (value - low) / span)) for value in values]
    ends = (percent(low, 0), percent(high, 0)) if classes else (signed(low), signed(high))
    return shades, _ramp(*ends)


def _edges(places: Sequence[float], scale: Scale) -> list[float]:
    """The ends of the cells around places, in the picture."""
    middles = [(one + other) / 2 for one, other in pairwise(places)]
    first, last = 2 * places[0] - middles[0], 2 * places[-1] - middles[-1]
    return [scale(value) for value in (first, *middles, last)]


def _runs(column: Sequence[_Shade]) -> list[tuple[int, int]]:
    """Stretches of equal neighbors: their first place and the one after their last."""
    starts = [place for place in range(len(column)) if place == 0 or column[place] != column[place - 1]]
    return list(zip(starts, [*starts[1:], len(column)], strict=True))


def _most_answered(picture: Picture) -> list[int]:
    """The classes, those with the largest mean probability in the picture first."""
    means = [-sum(row) for row in picture.answers]
    return sorted(range(len(means)), key=means.__getitem__)


def _ramp(low: str, high: str) -> list[Markup]:
    """From the faintest tint to the strongest, at the right of a map."""
    size = (BOTTOM - TOP - 60) / STEPS
    pieces = [
        tag("rect", class_="tint hue0", opacity=step / STEPS, x=MAP_RIGHT + 24, y=BOTTOM - 30 - step * size, width=18,
            height=size)
        for step in range(1, STEPS + 1)
    ]  # fmt: skip
    texts = [(TOP + 42, high), (BOTTOM - 30, low)]
    return [*pieces, *(tag("text", text, x=MAP_RIGHT + 50, y=y) for y, text in texts)]


def _keys(shown: Sequence[tuple[int, str]]) -> list[Markup]:
    """A colored square for each class, at the right of a picture."""
    pieces = []
    for place, (hue, name) in enumerate(shown):
        top = TOP + 26 * place
        pieces.append(tag("rect", class_=f"tint hue{hue}", x=MAP_RIGHT + 20, y=top, width=14, height=14))
        pieces.append(tag("text", shortened(name, 10), x=MAP_RIGHT + 40, y=top + 12))
    return pieces

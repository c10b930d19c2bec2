"""Draw the figures of the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from labeldp.fit import Across, Bin, BudgetUse, Confusion, Curve, Estimated, Importance, Picture
from labeldp.learners import format_number
from labeldp.report.svg import BESIDE, BOTTOM, LEFT, RIGHT, TOP, AxisScale, ChartAxis, figure, round_ticks, tag
from labeldp.report.words import percent, shortened, signed, spent

WIDTH = 680.0
PLAIN, TALL = 360.0, 400.0
"""Heights of a figure: with short labels below its axis, and with long, slanted ones."""


def curve_chart(
    curve: Curve, epsilon: float, accuracy: Estimated, baseline: float, measured: float | None = None
) -> Markup:
    """Plot accuracy against epsilon with its band, this model with its interval, and the accuracy of a constant answer.

    If `measured` is given, the accuracy on public labels, a point shows it.
    """
    points = sorted(curve.points, key=lambda point: point.epsilon)
    epsilons = sorted({*(point.epsilon for point in points), epsilon})
    x = AxisScale(min(epsilons), max(epsilons), LEFT + 22, RIGHT - 22, log=True)
    shown = accuracy.value if measured is None else measured
    y = _shares([*(v for p in points for v in (p.low, p.value, p.high)), accuracy.low, accuracy.high, baseline, shown])
    band = [(x(p.epsilon), y(p.high)) for p in points] + [(x(p.epsilon), y(p.low)) for p in reversed(points)]
    line = [(x(p.epsilon), y(p.value)) for p in points]
    label = (
        f"Accuracy against epsilon: {percent(points[0].value)} at {spent(points[0].epsilon)}, "
        f"{percent(points[-1].value)} at {spent(points[-1].epsilon)}; this model, at {spent(epsilon)}, "
        f"has {percent(shown)}; the most frequent class has {percent(baseline)}."
    )
    return figure(
        label,
        WIDTH,
        PLAIN,
        ChartAxis("", y, tuple((v, f"{100 * v:g}%") for v in round_ticks(y.start, y.end))).beside(LEFT, RIGHT),
        ChartAxis("ε, logarithmic scale", x, tuple((e, spent(e)) for e in epsilons)).below(BOTTOM),
        _level(y(baseline), f"majority class, {percent(baseline)}"),
        tag("polygon", class_="band", points=_path(band)),
        tag("polyline", class_="line", points=_path(line)),
        *(tag("circle", class_="dot", cx=cx, cy=cy, r=4) for cx, cy in line),
        _here(x(epsilon), [y(v) for v in (accuracy.value, accuracy.low, accuracy.high)], shown),
        *(() if measured is None else (tag("circle", class_="measured", cx=x(epsilon), cy=y(measured), r=5),)),
        class_="plot",
    )


def _shares(values: list[float]) -> AxisScale:
    """Return a vertical scale that holds these shares, with space below them for a label."""
    low, high = max(0.0, min(values)), min(1.0, max(values))
    span = max(high - low, 0.05)
    return AxisScale(max(0.0, low - 0.18 * span), min(1.0, high + 0.05 * span), BOTTOM, TOP)


def _path(points: list[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _level(height: float, label: str) -> Markup:
    """Draw a dashed horizontal line, with its label below its right end."""
    line = tag("line", class_="base", x1=LEFT, x2=RIGHT, y1=height, y2=height)
    return tag("g", line, tag("text", label, class_="halo", x=RIGHT, y=height + 20, text_anchor="end"))


def _here(across: float, heights: list[float], accuracy: float) -> Markup:
    """Mark this model: a thin line labeled on top, a ring at its accuracy and a bar along the interval of it."""
    middle, low, high = heights
    share = (across - LEFT) / (RIGHT - LEFT)
    anchor = "start" if share < 0.25 else "end" if share > 0.75 else "middle"
    return tag(
        "g",
        tag("line", class_="here", x1=across, x2=across, y1=TOP - 8, y2=BOTTOM),
        tag("line", class_="span", x1=across, x2=across, y1=high, y2=low),
        tag("circle", class_="ring", cx=across, cy=middle, r=7),
        tag("text", f"this model, {percent(accuracy)}", class_="strong", x=across, y=TOP - 17, text_anchor=anchor),
    )


def strip(value: float, low: float | None = None, high: float | None = None) -> Markup:
    """Draw a share and its interval on a line from 0 to 100%; screen readers skip it, the numbers is next to it."""
    x = AxisScale(0.0, 1.0, 1.0, 199.0)
    whisker = () if low is None or high is None else (_span(x(low), x(high), "whisker"),)
    rule = tag("line", class_="rail", x1=1, x2=199, y1=6, y2=6)
    ends = [tag("line", class_="rail", x1=mark, x2=mark, y1=3, y2=9) for mark in (1, 100, 199)]
    return _wordless(200, 12, rule, *ends, *whisker, tag("line", class_="pin", x1=x(value), x2=x(value), y1=0, y2=12))


def importance_scale(importance: tuple[Importance, ...]) -> AxisScale:
    """Return one horizontal scale for all bars, which holds zero and every interval."""
    ends = [end for item in importance for end in (item.low, item.drop, item.high)]
    return AxisScale(min(0.0, *ends), max(1e-9, *ends), 1.0, 199.0)


def importance_bar(item: Importance, scale: AxisScale) -> Markup:
    """Draw a bar from zero to the drop, and over it the drop's interval as a thin line."""
    zero, end = scale(0.0), scale(item.drop)
    bar = tag("rect", class_="bar", x=min(zero, end), y=2, width=abs(end - zero), height=8)
    origin = tag("line", class_="rail", x1=zero, x2=zero, y1=0, y2=12)
    return _wordless(200, 12, bar, origin, _span(scale(item.low), scale(item.high), "whisker"))


def budget_bar(budget: BudgetUse) -> Markup:
    """Draw the budget in epsilon as one bar: earlier charges, what this fit spent, and what is left."""
    parts = (("before", budget.before), ("run", budget.run), ("left", budget.left))
    total = max(budget.total.epsilon, sum(cost.epsilon for _, cost in parts), 1e-12)
    start, pieces = 0.0, []
    for name, cost in parts:
        width = 1000 * cost.epsilon / total
        pieces.append(tag("rect", class_=f"budget-{name}", x=start, y=0, width=width, height=20))
        start += width
    label = "Budget in epsilon: " + ", ".join(f"{spent(cost.epsilon)} {name}" for name, cost in parts) + "."
    return figure(label, 1000, 20, *pieces, class_="budget", preserveAspectRatio="none")


def _span(start: float, end: float, kind: str) -> Markup:
    return tag("line", class_=kind, x1=start, x2=end, y1=6, y2=6)


def _wordless(width: float, height: float, *children: str) -> Markup:
    """Return a small picture that fills its table cell; screen readers skip it, since the row says it in words."""
    box = f"0 0 {width:g} {height:g}"
    opening = Markup('<svg viewBox="{}" class="strip" preserveAspectRatio="none" aria-hidden="true">').format(box)
    return opening + Markup("").join(children) + Markup("</svg>")


STEPS = 16
"""How many strengths of a color a map has."""

HUES = 5
"""How many classes have a color of their own; the others share gray."""

MAP_RIGHT = 516.0


def residual_chart(residuals: Sequence[Bin]) -> Markup:
    """Plot the mean of label minus prediction with its interval, by prediction, and a line at zero."""
    y = ChartAxis.of_numbers(
        "released label − prediction, mean", [0.0, *(end for group in residuals for end in (group.low, group.high))],
        BOTTOM, TOP,
    )  # fmt: skip
    x = ChartAxis.of_numbers("prediction", [group.middle for group in residuals], LEFT + 16, RIGHT - 16)
    zero = y.scale(0.0)
    clear = sum(group.low > 0 or group.high < 0 for group in residuals)
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
    """Plot what a model predicts: lines along one feature, or a map over two.

    Args:
        picture: the predictions.
        classes: the names of the classes; empty if numbers are predicted.
        label: the name of the label column.
    """
    if len(picture.axes) == 1:
        return _curves(picture, classes, label)
    return _map(picture, classes)


def _curves(picture: Picture, classes: Sequence[str], label: str) -> Markup:
    """Draw a line for numbers, or one for each of a few classes, and the means of released labels."""
    (across,) = picture.axes
    right = MAP_RIGHT if len(classes) > 2 else RIGHT
    x = ChartAxis.of_feature(across, LEFT, right)
    chosen = _most_answered(picture)[:HUES] if len(classes) > 2 else [len(picture.answers) - 1]
    if classes:
        named = f"probability of {classes[1]}" if len(classes) == 2 else "probability"
        y = ChartAxis.of_shares(shortened(named, 60), BOTTOM, TOP)
    else:
        ends = [end for group in picture.seen for end in (group.low, group.high)]
        y = ChartAxis.of_numbers(label, [*picture.answers[0], *ends], BOTTOM, TOP)
    words = "Predictions along the feature"
    if not classes:
        low, high = (format_number(end(picture.answers[0])) for end in (min, max))
        words += f", from {low} to {high}"
    lines = [piece for hue, row in enumerate(chosen) for piece in _line(picture.answers[row], x, y, across, hue)]
    seen = [group for group in picture.seen if across.places[0] <= group.middle <= across.places[-1]]
    height = TALL if x.slanted else PLAIN
    marks = _keys([(hue, classes[row]) for hue, row in enumerate(chosen)]) if len(classes) > 2 else []
    pieces = [y.beside(LEFT, right), x.below(BOTTOM), *_whiskers(seen, x, y), *lines, *marks]
    return figure(f"{words}.", WIDTH, height, *pieces, class_="plot spare")


def _line(answers: Sequence[float], x: ChartAxis, y: ChartAxis, across: Across, hue: int) -> list[Markup]:
    """Draw predictions along a feature: joined by a line, or as points if the feature has no order."""
    points = [(x.scale(at), y.scale(value)) for at, value in zip(across.places, answers, strict=True)]
    if across.kind in ("category", "boolean"):
        return [tag("circle", class_=f"dot hue{hue}", cx=cx, cy=cy, r=5) for cx, cy in points]
    return [tag("polyline", class_=f"line hue{hue}", points=_path(points))]


def _whiskers(bins: Sequence[Bin], x: ChartAxis, y: ChartAxis) -> list[Markup]:
    """Draw means with their intervals."""
    pieces = []
    for group in bins:
        across = x.scale(group.middle)
        pieces.append(tag("line", class_="seen", x1=across, x2=across, y1=y.scale(group.low), y2=y.scale(group.high)))
        pieces.append(tag("circle", class_="seen-dot", cx=across, cy=y.scale(group.value), r=3.5))
    return pieces


@dataclass(frozen=True)
class _Shade:
    """A color and its strength, for a cell of a map."""

    hue: int
    step: int


def _map(picture: Picture, classes: Sequence[str]) -> Markup:
    """Draw a tinted cell for each pair of feature values, and a legend."""
    first, second = picture.axes
    x, y = ChartAxis.of_feature(first, LEFT, MAP_RIGHT), ChartAxis.of_feature(second, BOTTOM, TOP, longest=BESIDE)
    xs, ys = _edges(first.places, x.scale), _edges(second.places, y.scale)
    shades, legend = _shades(picture, classes)
    paths: dict[_Shade, list[str]] = {}
    for i in range(len(first.places)):
        column = shades[i * len(second.places) : (i + 1) * len(second.places)]
        for start, end in _runs(column):
            low, high = ys[start], ys[end]
            path = f"M{xs[i]:.1f} {low:.1f}H{xs[i + 1]:.1f}V{high:.1f}H{xs[i]:.1f}z"
            paths.setdefault(column[start], []).append(path)
    cells = [
        tag("path", class_=f"tint hue{shade.hue}", opacity=shade.step / STEPS, d="".join(path))
        for shade, path in sorted(paths.items(), key=lambda item: (item[0].hue, item[0].step))
    ]
    words = "Predictions over two features, the first across and the second up."
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
    if len(classes) > 2:
        order = _most_answered(picture)
        hue = {row: min(rank, HUES) for rank, row in enumerate(order)}
        cells = list(zip(*picture.answers, strict=True))
        likeliest = [max(range(len(classes)), key=cell.__getitem__) for cell in cells]
        shades = [
            _Shade(hue[row], max(1, round(STEPS * cell[row]))) for row, cell in zip(likeliest, cells, strict=True)
        ]
        shown = [(rank, classes[row]) for rank, row in enumerate(order[:HUES]) if row in likeliest]
        gray = [(HUES, "others")] if any(hue[row] == HUES for row in likeliest) else []
        return shades, _keys([*shown, *gray])
    values = picture.answers[-1]
    low, high = (0.0, 1.0) if classes else (min(values), max(values))
    span = (high - low) or 1.0
    shades = [_Shade(0, 1 + round((STEPS - 1) * (value - low) / span)) for value in values]
    ends = (percent(low, 0), percent(high, 0)) if classes else (signed(low), signed(high))
    return shades, _ramp(*ends)


def _edges(places: Sequence[float], scale: AxisScale) -> list[float]:
    """Return the borders, in the picture, of the cells around places."""
    middles = [(one + other) / 2 for one, other in pairwise(places)]
    first, last = 2 * places[0] - middles[0], 2 * places[-1] - middles[-1]
    return [scale(value) for value in (first, *middles, last)]


def _runs(column: Sequence[_Shade]) -> list[tuple[int, int]]:
    """Return (start, end) of each run of equal shades; the end is excluded."""
    starts = [row for row in range(len(column)) if row == 0 or column[row] != column[row - 1]]
    return list(zip(starts, [*starts[1:], len(column)], strict=True))


def _most_answered(picture: Picture) -> list[int]:
    """Return the classes by their mean probability in the picture, largest first."""
    means = [-sum(row) for row in picture.answers]
    return sorted(range(len(means)), key=means.__getitem__)


def _ramp(low: str, high: str) -> list[Markup]:
    """Draw the scale of tints, faintest to strongest, at the right of a map."""
    size = (BOTTOM - TOP - 60) / STEPS
    pieces = [
        tag("rect", class_="tint hue0", opacity=step / STEPS, x=MAP_RIGHT + 24, y=BOTTOM - 30 - step * size, width=18,
            height=size)
        for step in range(1, STEPS + 1)
    ]  # fmt: skip
    texts = [(TOP + 42, high), (BOTTOM - 30, low)]
    return [*pieces, *(tag("text", text, x=MAP_RIGHT + 50, y=y) for y, text in texts)]


def _keys(shown: Sequence[tuple[int, str]]) -> list[Markup]:
    """Draw a legend at the right of a picture: a colored square and a name for each class."""
    pieces = []
    for line, (hue, name) in enumerate(shown):
        top = TOP + 26 * line
        pieces.append(tag("rect", class_=f"tint hue{hue}", x=MAP_RIGHT + 20, y=top, width=14, height=14))
        pieces.append(tag("text", shortened(name, 10), x=MAP_RIGHT + 40, y=top + 12))
    return pieces


FULL_TABLE = 12
"""The largest number of classes whose matrix is a table of numbers; a larger one does not fit on a page."""

PICTURE = 200
"""The largest number of classes whose matrix is drawn; the cells of a larger one are smaller than a pixel."""

PAIRS = 15
"""How many pairs of confused classes are listed."""

_MOSAIC_STEPS = 6
"""Strengths of a color in the picture of a confusion matrix."""


@dataclass(frozen=True)
class GridCell:
    """A share of the confusion matrix, and how strongly its background is tinted, in [0, 1]."""

    share: float
    tint: float
    right: bool


@dataclass(frozen=True)
class ClassPair:
    """A share of records of class `true` predicted as `predicted`; `clear` if it exceeds its margin of error."""

    true: str
    predicted: str
    share: float
    clear: bool


def cells(confusion: Confusion) -> list[list[GridCell]]:
    """Return the matrix with a tint for each cell."""
    largest = max(max(row) for row in confusion.shares)
    return [
        [GridCell(share, _tint(share, largest), i == j) for j, share in enumerate(row)]
        for i, row in enumerate(confusion.shares)
    ]


def _tint(share: float, largest: float) -> float:
    """Return the square root of share / largest, so that mistakes, which are rarer than right answers, stay visible."""
    return round(math.sqrt(max(0.0, share) / largest), 2) if largest > 0 else 0.0


def most_confused(confusion: Confusion, classes: tuple[str, ...]) -> list[ClassPair]:
    """Return the largest shares of mistakes, largest first, at most `PAIRS`; ties are in the order of the classes."""
    margin = confusion.margin or 0.0
    mistakes = [
        (-share, i, j) for i, row in enumerate(confusion.shares) for j, share in enumerate(row) if i != j and share > 0
    ]
    return [ClassPair(classes[i], classes[j], -share, -share > margin) for share, i, j in sorted(mistakes)[:PAIRS]]


def mosaic(confusion: Confusion) -> Markup:
    """Draw the whole matrix with one path for each kind and strength, so that 200 classes still make a small file."""
    paths: dict[tuple[bool, int], list[str]] = {}
    for i, row in enumerate(cells(confusion)):
        for j, cell in enumerate(row):
            step = round(_MOSAIC_STEPS * cell.tint)
            if step:
                paths.setdefault((cell.right, step), []).append(f"M{j} {i}h1v1h-1z")
    count = len(confusion.shares)
    drawn = [
        tag("path", class_="hit" if right else "miss", opacity=step / _MOSAIC_STEPS, d="".join(path))
        for (right, step), path in sorted(paths.items())
    ]
    frame = tag("rect", class_="frame", x=0, y=0, width=count, height=count)
    label = f"Confusion matrix of {count} classes: true class down, predicted across, stronger color is more frequent."
    return figure(label, count, count, frame, *drawn, class_="mosaic")

"""The report's charts, drawn by hand as inline SVG; colors come from the page's classes, so both schemes work."""

from __future__ import annotations

from markupsafe import Markup

from labeldp.report.svg import Scale, apart, figure, round_ticks, tag
from labeldp.report.words import percent, spent
from labeldp.workflows import BudgetUse, Curve, Estimated, Importance

WIDTH, HEIGHT = 680.0, 360.0
LEFT, RIGHT, TOP, BOTTOM = 84.0, 668.0, 40.0, 296.0


def curve_chart(
    curve: Curve, epsilon: float, accuracy: Estimated, baseline: float, measured: float | None = None
) -> Markup:
    """Accuracy against epsilon with its band, this model with its interval, and the accuracy of a constant answer.

    Where the model was measured on public labels, a point says how well it did.
    """
    points = sorted(curve.points, key=lambda point: point.epsilon)
    epsilons = [*(point.epsilon for point in points), epsilon]
    x = Scale(min(epsilons), max(epsilons), LEFT + 22, RIGHT - 22, log=True)
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
        HEIGHT,
        _axes(x, y, [p.epsilon for p in points]),
        _level(y(baseline), f"most frequent class, {percent(baseline)}"),
        tag("polygon", class_="band", points=_path(band)),
        tag("polyline", class_="line", points=_path(line)),
        *(tag("circle", class_="dot", cx=cx, cy=cy, r=4) for cx, cy in line),
        _here(x(epsilon), [y(v) for v in (accuracy.value, accuracy.low, accuracy.high)], shown),
        *(() if measured is None else (tag("circle", class_="measured", cx=x(epsilon), cy=y(measured), r=5),)),
        class_="plot",
    )


def _shares(values: list[float]) -> Scale:
    """A vertical scale for shares that keeps a little air, above for nothing and below for a label."""
    low, high = max(0.0, min(values)), min(1.0, max(values))
    span = max(high - low, 0.05)
    return Scale(max(0.0, low - 0.18 * span), min(1.0, high + 0.05 * span), BOTTOM, TOP)


def _path(places: list[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _axes(x: Scale, y: Scale, epsilons: list[float]) -> Markup:
    """Horizontal hairlines with percentages, the tried epsilons below, and what the two directions mean."""
    pieces = []
    for share in round_ticks(y.start, y.end):
        pieces.append(tag("line", class_="grid", x1=LEFT, x2=RIGHT, y1=y(share), y2=y(share)))
        pieces.append(tag("text", f"{100 * share:g}%", x=LEFT - 8, y=y(share) + 5, text_anchor="end"))
    for epsilon in apart(sorted(set(epsilons)), x, 72):
        pieces.append(tag("line", class_="tick", x1=x(epsilon), x2=x(epsilon), y1=BOTTOM, y2=BOTTOM + 5))
        pieces.append(tag("text", spent(epsilon), class_="below", x=x(epsilon), y=BOTTOM + 23, text_anchor="middle"))
    pieces.append(tag("line", class_="axis", x1=LEFT, x2=RIGHT, y1=BOTTOM, y2=BOTTOM))
    title, middle = "ε, logarithmic scale", (LEFT + RIGHT) / 2
    pieces.append(tag("text", title, class_="below", x=middle, y=HEIGHT - 12, text_anchor="middle"))
    return tag("g", *pieces)


def _level(height: float, label: str) -> Markup:
    """A dashed horizontal line with its name below it, at the right."""
    line = tag("line", class_="base", x1=LEFT, x2=RIGHT, y1=height, y2=height)
    return tag("g", line, tag("text", label, class_="halo", x=RIGHT, y=height + 20, text_anchor="end"))


def _here(across: float, heights: list[float], accuracy: float) -> Markup:
    """This model: a hairline through the plot, its name on top, a ring at its accuracy and a bar along its interval."""
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
    """A share with its interval on a line from 0 to 100%; the numbers stand beside it, so readers skip it."""
    x = Scale(0.0, 1.0, 1.0, 199.0)
    whisker = () if low is None or high is None else (_span(x(low), x(high), "whisker"),)
    rule = tag("line", class_="rail", x1=1, x2=199, y1=6, y2=6)
    ends = [tag("line", class_="rail", x1=place, x2=place, y1=3, y2=9) for place in (1, 100, 199)]
    return _wordless(200, 12, rule, *ends, *whisker, tag("line", class_="pin", x1=x(value), x2=x(value), y1=0, y2=12))


def importance_scale(importance: tuple[Importance, ...]) -> Scale:
    """One horizontal scale for all bars, that holds every interval and zero."""
    ends = [end for item in importance for end in (item.low, item.drop, item.high)]
    return Scale(min(0.0, *ends), max(1e-9, *ends), 1.0, 199.0)


def importance_bar(item: Importance, scale: Scale) -> Markup:
    """A bar from zero to the drop, and the drop's interval as a thin line over it."""
    zero, end = scale(0.0), scale(item.drop)
    bar = tag("rect", class_="bar", x=min(zero, end), y=2, width=abs(end - zero), height=8)
    origin = tag("line", class_="rail", x1=zero, x2=zero, y1=0, y2=12)
    return _wordless(200, 12, bar, origin, _span(scale(item.low), scale(item.high), "whisker"))


def budget_bar(budget: BudgetUse) -> Markup:
    """One bar of the whole budget in epsilon: spent before, by this fit, and left."""
    parts = (("before", budget.before), ("run", budget.run), ("left", budget.left))
    whole = max(budget.total.epsilon, sum(cost.epsilon for _, cost in parts), 1e-12)
    place, pieces = 0.0, []
    for name, cost in parts:
        width = 1000 * cost.epsilon / whole
        pieces.append(tag("rect", class_=f"budget-{name}", x=place, y=0, width=width, height=20))
        place += width
    label = "Budget in epsilon: " + ", ".join(f"{spent(cost.epsilon)} {name}" for name, cost in parts) + "."
    return figure(label, 1000, 20, *pieces, class_="budget", preserveAspectRatio="none")


def _span(start: float, end: float, kind: str) -> Markup:
    return tag("line", class_=kind, x1=start, x2=end, y1=6, y2=6)


def _wordless(width: float, height: float, *children: str) -> Markup:
    """A small picture that stretches with its cell and repeats what the row says in words."""
    box = f"0 0 {width:g} {height:g}"
    opening = Markup('<svg viewBox="{}" class="strip" preserveAspectRatio="none" aria-hidden="true">').format(box)
    return opening + Markup("").join(children) + Markup("</svg>")

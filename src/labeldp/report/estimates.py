"""Estimates from private outcomes: one page with a forest plot or a sequence, curves of a model, gaps, certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from labeldp.privacy import InputError, NotInvertibleError
from labeldp.report.render import environment
from labeldp.report.svg import BOTTOM, LEFT, RIGHT, TOP, AxisScale, ChartAxis, figure, tag

if TYPE_CHECKING:  # what estimates load, a report of a fit does not need
    from labeldp.inference import CalibrationBins, Estimate, PredictionSets, Scores, ThresholdCurve

WIDTH, HEIGHT = RIGHT + 24, BOTTOM + 66

COUNTED = ("records", "pairs")
"""The axis of a sequence of intervals."""

GAPS = ("accuracy", "precision", "recall")

MANY_ROWS = 40
"""A table of more estimates is folded."""

Point = tuple[float, float, float]
"""Value, low and high, within what is possible."""


def render_estimate(estimate: Estimate, scores: Scores | None = None) -> str:
    """Return an estimate as one HTML document: the sentence, a picture, all numbers, conditions and certificate.

    Args:
        estimate: what was estimated.
        scores: of the model that was evaluated: the page then has its reliability diagram and its curves, or with
            groups the gaps between them, as far as the release tells them.
    """
    sequence = bool(estimate.axes) and estimate.axes[0][0] in COUNTED
    picture = sequence_chart(estimate) if sequence else Markup(estimate.plot())
    rows = [{"names": [row[axis] for axis, _ in estimate.axes], **row} for row in estimate.table().to_pylist()]
    shown = _at_the_end(estimate) if sequence else estimate
    return (
        environment()
        .get_template("estimate.html")
        .render(
            e=estimate,
            title=estimate.quantity,
            sentence=str(shown),
            many=MANY_ROWS,
            axes=[axis for axis, _ in estimate.axes],
            picture=picture,
            rows=rows,
            certificate=None if estimate.certificate is None else estimate.certificate.at(0),
            **_of_model(scores),
        )
    )


def render_sets(result: PredictionSets, sets: Any = None) -> str:
    """Return prediction sets as one HTML document: the guarantee, thresholds, conditions and certificate.

    Args:
        result: the thresholds.
        sets: which classes are in the set of each record of the calibration, shape (n, K); None for numbers.
    """
    counts = [] if sets is None else sets.sum(axis=1).tolist()
    sizes = [(size, counts.count(size) / len(counts)) for size in sorted(set(counts))]
    return (
        environment()
        .get_template("estimate.html")
        .render(
            e=result,
            title="Prediction sets",
            sentence=str(result),
            sizes=sizes,
            axes=[axis for axis, _ in result.axes],
            rows=result.table().to_pylist(),
            certificate=result.certificate.at(0),
            **_of_model(None),
        )
    )


def _at_the_end(estimate: Estimate) -> Estimate:
    axis, names = estimate.axes[0]
    quantity = f"{estimate.quantity} after {int(names[-1]):,} {axis}"
    return replace(estimate.at(**{axis: names[-1]}), quantity=quantity)


def _of_model(scores: Scores | None) -> dict[str, Any]:
    """Return the pictures of a model, and the gaps between groups; empty where the release does not tell them."""
    charts: list[dict[str, Any]] = []
    gaps: list[Estimate] = []
    if scores is not None and scores.cells.count > 1:
        for name in GAPS:
            try:
                gaps.append(scores.gap(name))
            except (InputError, NotInvertibleError):  # sums that were planned for another score
                continue
    elif scores is not None:
        for title, draw in (("Reliability", _reliability), ("ROC curve", _roc), ("Precision and recall", _recall)):
            try:
                picture, sentence = draw(scores)
            except (InputError, NotInvertibleError):
                continue
            charts.append({"title": title, "picture": picture, "sentence": sentence})
    return {"charts": charts, "gaps": gaps}


def _reliability(scores: Scores) -> tuple[Markup, str]:
    bins = scores.calibration()
    return reliability_diagram(bins), (
        f"{bins.observed.quantity} by mean prediction; all intervals hold together. On the dashed line both are equal."
    )


def _roc(scores: Scores) -> tuple[Markup, str]:
    return rates_chart(scores.roc(10), diagonal=True), str(scores.auc())


def _recall(scores: Scores) -> tuple[Markup, str]:
    return rates_chart(scores.precision_recall(10)), str(scores.average_precision())


def sequence_chart(estimate: Estimate) -> Markup:
    """Draw intervals over the number of records on a logarithmic scale: all hold together."""
    (axis, names), points = estimate.axes[0], possible(estimate)
    counts = [float(name) for name in names]
    x = AxisScale(counts[0], max(counts[-1], counts[0] + 1), LEFT, RIGHT, log=True)
    y = ChartAxis.of_numbers(estimate.quantity, [end for point in points for end in point], BOTTOM, TOP)
    ticks = tuple((count, f"{count:,.0f}") for count in (10.0**power for power in range(10)) if count <= counts[-1])
    band = [(x(at), y.scale(point[2])) for at, point in zip(counts, points, strict=True)]
    band += [(x(at), y.scale(point[1])) for at, point in reversed(list(zip(counts, points, strict=True)))]
    line = [(x(at), y.scale(point[0])) for at, point in zip(counts, points, strict=True)]
    last = points[-1]
    return figure(
        f"{estimate.quantity} by {axis}: {last[1]:.4g} to {last[2]:.4g} after {names[-1]}",
        WIDTH,
        HEIGHT,
        y.beside(LEFT, RIGHT),
        ChartAxis(f"{axis}, logarithmic scale", x, ticks).below(BOTTOM),
        tag("polygon", class_="band", points=_path(band)),
        tag("polyline", class_="line", points=_path(line)),
        class_="spare plot",
    )


def reliability_diagram(bins: CalibrationBins) -> Markup:
    """Draw the observed share of each bin with its interval over the mean prediction, next to the diagonal."""
    x, y = AxisScale(0, 1, LEFT, RIGHT), AxisScale(0, 1, BOTTOM, TOP)
    points = possible(bins.observed)
    return figure(
        f"{bins.observed.quantity} in {len(points)} bins of predictions",
        WIDTH,
        HEIGHT,
        ChartAxis.of_shares("observed share", BOTTOM, TOP).beside(LEFT, RIGHT),
        ChartAxis.of_shares("mean prediction", LEFT, RIGHT).below(BOTTOM),
        tag("line", class_="base", x1=x(0), y1=y(0), x2=x(1), y2=y(1)),
        *(mark for at, point in zip(bins.predicted, points, strict=True) for mark in _upright(x(at), point, y)),
        class_="spare plot",
    )


def rates_chart(curve: ThresholdCurve, *, diagonal: bool = False) -> Markup:
    """Draw two rates at each threshold, with both intervals; `diagonal` is where a ROC curve says nothing."""
    x, y = AxisScale(0, 1, LEFT, RIGHT), AxisScale(0, 1, BOTTOM, TOP)
    across, up = possible(curve.across), possible(curve.up)
    marks = [
        mark
        for one, other in zip(across, up, strict=True)
        for mark in (*_upright(x(one[0]), other, y), tag("line", class_="whisker", x1=x(one[1]), x2=x(one[2]),
                                                         y1=y(other[0]), y2=y(other[0])))
    ]  # fmt: skip
    return figure(
        f"{curve.up.quantity} against {curve.across.quantity} at {len(up)} thresholds",
        WIDTH,
        HEIGHT,
        ChartAxis.of_shares(curve.up.quantity, BOTTOM, TOP).beside(LEFT, RIGHT),
        ChartAxis.of_shares(curve.across.quantity, LEFT, RIGHT).below(BOTTOM),
        *([tag("line", class_="base", x1=x(0), y1=y(0), x2=x(1), y2=y(1))] if diagonal else []),
        *marks,
        class_="spare plot",
    )


def possible(estimate: Estimate) -> list[Point]:
    """Return value, low and high of each entry, the value at the nearer end where it lies outside."""
    rows = estimate.table().to_pylist()
    return [
        (min(max(row["value"], row["low"]), row["high"]) if isfinite(row["value"]) else row["low"], row["low"],
         row["high"])
        for row in rows
    ]  # fmt: skip


def _upright(x: float, point: Point, y: AxisScale) -> list[Markup]:
    value, low, high = point
    return [
        tag("line", class_="whisker", x1=x, x2=x, y1=y(low), y2=y(high)),
        tag("circle", class_="dot", cx=x, cy=y(value), r=4),
    ]


def _path(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)

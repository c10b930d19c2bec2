"""Curves of a score over thresholds, and the areas below them, as sums and pairs of unbiased indicators."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from labeldp.inference.estimate import Estimate
from labeldp.privacy import Floats


@dataclass(frozen=True)
class ThresholdCurve:
    """Two rates of a classifier at thresholds that were fixed by its public probabilities.

    Args:
        thresholds: a record is flagged from this probability on, falling, shape (T,).
        across: false-positive rate of a ROC curve, recall of a precision-recall curve.
        up: true-positive rate of a ROC curve, precision of a precision-recall curve.
    """

    thresholds: Floats = field(repr=False)
    across: Estimate
    up: Estimate


def area_terms(second: Floats, scores: Floats) -> tuple[Floats, Floats]:
    """Return the terms of both U-statistics whose ratio is an area, shape (n, 2), and both statistics, shape (2,).

    They add up pairs of a record of each class, weighted by unbiased indicators: those in order, ties half, and all. A
    record is in no pair with itself.

    Args:
        second: unbiased indicators of the second class, shape (n,).
        scores: larger where the second class is likelier, shape (n,).
    """
    count, first = len(second), 1 - second
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    left, right = np.searchsorted(ordered, scores, "left"), np.searchsorted(ordered, scores, "right")
    below, above = (_between(weights[order], left, right) / count for weights in (first, second))
    above = second.mean() - above
    alone = float(second @ first)
    pairs = count * max(count - 1, 1)
    statistics = np.array([count * float(second @ below) - alone / 2, second.sum() * first.sum() - alone]) / pairs
    terms = np.column_stack([second * below + first * above, second * first.mean() + first * second.mean()])
    return terms, statistics


def _between(weights: Floats, left: Any, right: Any) -> Floats:
    """Return the sum of sorted weights before each place, where ties count half."""
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    return np.asarray((sums[left] + sums[right]) / 2)


def precision_terms(second: Floats, scores: Floats) -> tuple[Floats, Floats]:
    """Return the terms of both statistics whose ratio is an average precision, (n, 2), and both statistics, (2,).

    The first one is the mean over records of the indicator times the precision at the record's own score. A pair of
    records is weighted by the product of its indicators, a record and itself by the one indicator: that is unbiased.
    How many records are flagged at a score is public, and varies with the records.

    Args:
        second: unbiased indicators of the second class, shape (n,).
        scores: larger where the second class is likelier, shape (n,).
    """
    count = len(second)
    order = np.argsort(-scores, kind="stable")
    falling, weights = -scores[order], second[order]
    first, last = np.searchsorted(falling, falling, "left"), np.searchsorted(falling, falling, "right")
    flagged = last.astype(np.float64)
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    precision = (sums[last] - weights + 1) / flagged
    # a record moves the precision at every score that is not above its own
    shares, products = weights / flagged, weights * precision / flagged
    below, moved = (
        after[-1] - after[first] - own
        for own, after in ((part, np.concatenate([[0.0], np.cumsum(part)])) for part in (shares, products))
    )
    terms = np.empty((count, 2))
    terms[order] = np.column_stack([weights * precision + weights * below - moved, weights])
    return terms, np.array([float(weights @ precision) / count, float(weights.mean())])

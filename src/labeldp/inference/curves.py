"""Curves of a score over thresholds, and the areas below them, as sums and pairs of unbiased indicators."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labeldp.inference.groups import BLOCK, Codes, covariance_of
from labeldp.inference.intervals import fieller
from labeldp.privacy import Floats


class PairTerms(NamedTuple):
    """Two statistics of pairs of records, whose ratio is an area.

    Args:
        of: the terms of a block of records in their order here, whose sums the statistics are about, shape (m, 2).
        statistics: shape (2,).
        order: which record stands where, shape (n,).
    """

    of: Callable[[slice], Floats]
    statistics: Floats
    order: NDArray[np.int32]


def area_terms(second: Floats, scores: Any) -> PairTerms:
    """Return the two U-statistics whose ratio is the area under a ROC curve.

    They add up pairs of a record of each class, weighted by unbiased indicators: those in order, ties half, and all. A
    record is in no pair with itself.

    Args:
        second: unbiased indicators of the second class, shape (n,).
        scores: larger where the second class is likelier, shape (n,).
    """
    count = len(second)
    order, left, right = _sorted(scores)
    weights = second[order]
    del second
    sums = _summed(weights)
    total = float(sums[-1])
    alone = total - float(weights @ weights)  # of records with themselves

    def of(rows: slice) -> Floats:
        start, end, weight = left[rows], right[rows], weights[rows]
        below = (sums[start] + sums[end]) / 2  # weights of the second class at lower scores, where ties count half
        first_below = (start + end.astype(np.float64)) / 2 - below
        pairs = weight * first_below + (1 - weight) * (total - below)
        return np.column_stack([pairs, weight * (count - total) + (1 - weight) * total]) / count

    pairs = count * max(count - 1, 1)
    # each pair is in the terms of both of its records
    inside = sum(float(of(rows)[:, 0].sum()) for rows in _blocks(count)) * count / 2
    return PairTerms(of, np.array([inside - alone / 2, total * (count - total) - alone]) / pairs, order)


def precision_terms(second: Floats, scores: Any) -> PairTerms:
    """Return the two statistics whose ratio is an average precision.

    The first one is the mean over records of the indicator times the precision at the record's own score. A pair of
    records is weighted by the product of its indicators, a record and itself by the one indicator: that is unbiased.
    How many records are flagged at a score is public, and varies with the records.

    Args:
        second: unbiased indicators of the second class, shape (n,).
        scores: larger where the second class is likelier, shape (n,).
    """
    count = len(second)
    order, first, last = _sorted(-scores)
    weights = second[order]
    del second
    sums = _summed(weights)
    parts = (sums[last] - weights + 1) / last  # the precision at each score
    value = float(weights @ parts) / count
    # a record moves the precision at every score that is not above its own
    parts *= weights
    parts /= last
    moved = _summed(parts)
    shares = _summed(np.divide(weights, last, out=parts))
    del parts

    def of(rows: slice) -> Floats:
        weight, end, start = weights[rows], last[rows], first[rows]
        at, alone = (sums[end] - weight + 1) / end, weight / end
        below, less = shares[-1] - shares[start] - alone, moved[-1] - moved[start] - alone * at
        return np.column_stack([weight * at + weight * below - less, weight])

    return PairTerms(of, np.array([value, float(sums[-1]) / count]), order)


def ratio_of_pairs(pairs: PairTerms, users: Codes | None, level: float) -> tuple[float, float, float, float]:
    """Return the ratio of two statistics, Fieller's interval and the variance.

    Args:
        pairs: the statistics.
        users: whose each record is, where users have several, shape (n,).
        level: coverage.

    Returns:
        Value, low, high and variance; NaN and infinite ends where the second statistic may be 0.
    """
    covariance = covariance_of(pairs.of, len(pairs.order), None if users is None else users[pairs.order])
    top, bottom = pairs.statistics.tolist()
    low, high = (float(end) for end in fieller(pairs.statistics, covariance, level))
    if bottom <= 0:
        return np.nan, low, high, np.nan
    slope = np.array([1, -top / bottom])
    return top / bottom, low, high, float(slope @ covariance @ slope) / bottom**2


def _sorted(scores: Any) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return the order of scores, and in that order where equal ones begin and end, each shape (n,)."""
    order = np.argsort(scores, kind="stable").astype(np.int32)
    ordered = scores[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])).astype(np.int32)
    del ordered  # of many records an array of them is large
    ends = np.append(starts[1:], np.int32(len(order)))
    sizes = ends - starts
    starts = np.repeat(starts, sizes)
    return order, starts, np.repeat(ends, sizes)


def _summed(weights: Floats) -> Floats:
    """Return the sums of the weights before each place, shape (n + 1,)."""
    sums = np.empty(len(weights) + 1)
    sums[0] = 0.0
    np.cumsum(weights, out=sums[1:])
    return sums


def _blocks(records: int) -> Iterator[slice]:
    return (slice(start, start + BLOCK) for start in range(0, records, BLOCK))

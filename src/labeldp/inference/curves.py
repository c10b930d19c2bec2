"""Curves of a score over thresholds, and the areas below them, as sums and pairs of unbiased indicators."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labeldp.inference.groups import BLOCK, Codes, covariance_of
from labeldp.inference.intervals import ratio_within
from labeldp.privacy import Floats


class PairTerms(NamedTuple):
    """Two statistics of pairs of records; their ratio is an area.

    Args:
        of: the terms of a block of records in their order here, whose sums the statistics are about, shape (m, 2).
        statistics: shape (2,).
        order: the index of the record at each place, shape (n,).
        more: the second term of one more record of the class that matters more.
        noise_skew: what products of the noise of two records add to the sum of cubed terms of a ratio.
    """

    of: Callable[[slice], Floats]
    statistics: Floats
    order: NDArray[np.int32]
    more: float
    noise_skew: float = 0.0


def area_terms(second: Floats, scores: Any) -> PairTerms:
    """Return the two U-statistics whose ratio is the area under a ROC curve.

    They sum pairs with one record of each class, weighted by unbiased indicators. The first statistic counts the
    pairs in order, and ties as half. The second one counts all pairs. A record is in no pair with itself.

    Args:
        second: unbiased indicators of the second class, shape (n,).
        scores: larger where the second class is likelier, shape (n,).
    """
    count = len(second)
    order, fresh = _sorted(scores)
    weights = second[order]
    ranks = TiedSums(lambda rows: np.column_stack([np.ones(rows.stop - rows.start), weights[rows]]), fresh)
    total = float(ranks.total[1])
    alone = total - float(weights @ weights)  # of records with themselves

    def of(rows: slice) -> Floats:
        # records and weights of the second class at lower scores, where ties count half
        lower, below = ((ranks.before(rows) + ranks.through(rows)) / 2).T
        weight = weights[rows]
        pairs = weight * (lower - below) + (1 - weight) * (total - below)
        return np.column_stack([pairs, weight * (count - total) + (1 - weight) * total]) / count

    pairs = count * max(count - 1, 1)
    # each pair is in the terms of both of its records
    inside = sum(float(of(rows)[:, 0].sum()) for rows in _blocks(count)) * count / 2
    statistics = np.array([inside - alone / 2, total * (count - total) - alone]) / pairs
    more = min(max(total, count - total, 0.0), count) / count
    return PairTerms(_of_any(of, count), statistics, order, more)


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
    order, fresh = _sorted(-scores)
    weights = second[order]
    ranks = TiedSums(lambda rows: np.column_stack([np.ones(rows.stop - rows.start), weights[rows]]), fresh)

    def precision(rows: slice) -> tuple[Floats, Floats]:
        """Return the precision at the score of each record of a block, and its weight by how many are flagged."""
        flagged, hits = ranks.through(rows).T
        return (hits - weights[rows] + 1) / flagged, weights[rows] / flagged

    def moved(rows: slice) -> Floats:
        at, alone = precision(rows)
        return np.column_stack([alone, alone * at])

    # a record moves the precision at every score that is not above its own
    moves = TiedSums(moved, fresh)
    value = sum(float(weights[rows] @ precision(rows)[0]) for rows in _blocks(count)) / count
    share = float(ranks.total[1]) / count

    def slopes(rows: slice) -> tuple[Floats, Floats]:
        """Return by how much the sum grows with the indicators of a block, and what their places take from it."""
        (at, alone), (below, less) = precision(rows), (moves.total - moves.before(rows)).T
        return at + below - alone, less - alone * at

    def of(rows: slice) -> Floats:
        slope, less = slopes(rows)
        return np.column_stack([weights[rows] * slope - less, weights[rows]])

    skew = 0.0
    noise = max(float(weights @ weights) / count - share, 0.0)  # an indicator is its own square
    if noise > 0 and share > 0:
        ratio = min(max(value / share, 0.0), 1.0)
        above = TiedSums(lambda rows: slopes(rows)[0][:, None], fresh)
        for rows in _blocks(count):
            slope, flagged = slopes(rows)[0] - ratio, ranks.through(rows)[:, 0]
            sums = above.through(rows)[:, 0] - ratio * flagged - slope
            skew += 4 * noise**2 * float(slope / flagged @ sums)
    return PairTerms(_of_any(of, count), np.array([value, share]), order, 1.0, skew)


def ratio_of_pairs(pairs: PairTerms, users: Codes | None, level: float) -> tuple[float, float, float, float]:
    """Return the ratio of two statistics, Fieller's interval and the variance.

    The variance is estimated by squared terms, which vary themselves: it has fewer degrees of freedom than there are
    records where a few terms are large, and it moves with the ratio where terms are skewed. Both widen the interval.

    Args:
        pairs: the statistics.
        users: the user of each record, if users have several, shape (n,).
        level: coverage.

    Returns:
        Value, low, high and variance; NaN and infinite ends where the second statistic may be 0.

    Source: Fieller, Section 3; Satterthwaite for the degrees of freedom; Johnson for skewness.
    """
    order = None if users is None else users[pairs.order]
    covariance = covariance_of(pairs.of, len(pairs.order), order)
    top, bottom = pairs.statistics.tolist()
    if bottom <= 0:
        return np.nan, -np.inf, np.inf, np.nan
    ratio = top / bottom
    units, second, third, fourth = _powers(pairs, order, min(max(ratio, 0.0), 1.0))
    kurtosis = units * fourth / second**2 if second > 0 else 1.0
    freedom = 2 * units / (kurtosis - 1) if kurtosis > 1 else np.inf
    alone, joint = (skew / (second * units) if second > 0 else 0.0 for skew in (third, third + pairs.noise_skew))
    slopes = (min(alone, joint, 0.0), max(alone, joint, 0.0))
    terms = sum((pairs.of(rows).sum(axis=0) for rows in _blocks(len(pairs.order))), np.zeros(2)) / len(pairs.order)
    low, high = (
        float(end)
        for end in ratio_within(pairs.statistics, terms, covariance, units, pairs.more, level, freedom, slopes)
    )
    slope = np.array([1, -ratio])
    return ratio, low, high, float(slope @ covariance @ slope) / bottom**2


def _powers(pairs: PairTerms, users: Codes | None, ratio: float) -> tuple[int, float, float, float]:
    """Return how many users there are, and sums of powers of their centered terms of top - ratio * bottom: 2, 3, 4."""
    count, direction = len(pairs.order), np.array([1.0, -ratio])
    middle = sum(float((pairs.of(rows) @ direction).sum()) for rows in _blocks(count)) / count
    totals, powers = np.zeros(0 if users is None else int(users.max()) + 1), np.zeros(3)
    for rows in _blocks(count):
        terms = pairs.of(rows) @ direction - middle
        if users is None:
            powers += [float((terms**power).sum()) for power in (2, 3, 4)]
        else:
            totals += np.bincount(users[rows], weights=terms, minlength=len(totals))
    if users is not None:
        powers += [float((totals**power).sum()) for power in (2, 3, 4)]
    units = count if users is None else int(np.count_nonzero(np.bincount(users)))
    second, third, fourth = powers.tolist()
    return units, second, third, fourth


class TiedSums:
    """Sums of terms over sorted records, before and through the ties of each one, without an array of all sums.

    For each block, it keeps the sums before the block, before the ties of its first record, and through the ties of its
    last record.

    Args:
        terms: of the records of a block, shape (m, t).
        fresh: whether a record ties with none before it, shape (n,).
    """

    def __init__(self, terms: Callable[[slice], Floats], fresh: NDArray[np.bool_]) -> None:
        self._terms, self._fresh = terms, fresh
        self._starts: list[Floats] = []
        self._heads: list[Floats] = []
        self._tails: list[Floats] = []
        blocks = list(_blocks(len(fresh)))
        self.total, head = (np.zeros(terms(blocks[0]).shape[1]) for _ in range(2))
        for rows in blocks:
            self._starts.append(self.total)
            self._heads.append(head)
            head = self.before(rows)[-1].copy()
            self.total = self.total + terms(rows).sum(axis=0)
        tail = self.total
        for number, rows in reversed(list(enumerate(blocks))):
            self._tails.insert(0, tail)
            if fresh[rows].any():
                tail = self._starts[number] + terms(rows)[: fresh[rows].argmax()].sum(axis=0)

    def before(self, rows: slice) -> Floats:
        """Return the sums of all records below each one of a block, without those that tie with it, shape (m, t)."""
        fresh, number = self._fresh[rows], rows.start // BLOCK
        firsts = np.maximum.accumulate(np.where(fresh, np.arange(1, len(fresh) + 1), 0))
        return np.concatenate([self._heads[number][None], self._up_to(rows)])[firsts]

    def through(self, rows: slice) -> Floats:
        """Return the sums of all records up to each one of a block, with those that tie with it, shape (m, t)."""
        fresh, number = self._fresh[rows], rows.start // BLOCK
        nexts = np.append(np.where(fresh, np.arange(len(fresh)), len(fresh))[1:], len(fresh))
        lasts = np.minimum.accumulate(nexts[::-1])[::-1]
        return np.concatenate([self._up_to(rows), self._tails[number][None]])[lasts]

    def _up_to(self, rows: slice) -> Floats:
        """Return the sums of all records before each record of a block, shape (m, t)."""
        sums = np.empty((rows.stop - rows.start, len(self.total)))
        sums[0] = 0.0
        np.cumsum(self._terms(rows)[:-1], axis=0, out=sums[1:])
        sums += self._starts[rows.start // BLOCK]
        return sums


def _sorted(scores: Any) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Return the order of scores, and whether each in that order ties with none before it, each shape (n,)."""
    order = np.argsort(scores, kind="stable").astype(np.int32)
    fresh = np.ones(len(order), dtype=np.bool_)
    for rows in _blocks(len(order)):
        start = max(rows.start - 1, 0)
        ordered = scores[order[start : rows.stop]]
        fresh[start + 1 : rows.stop] = ordered[1:] != ordered[:-1]
    return order, fresh


def _of_any(of: Callable[[slice], Floats], records: int) -> Callable[[slice], Floats]:
    """Return the terms of any records in a row, from a function of the blocks that `_blocks` gives."""

    def terms(rows: slice) -> Floats:
        start, stop, _ = rows.indices(records)
        first = start // BLOCK
        blocks = [of(block) for block in list(_blocks(records))[first : -(-stop // BLOCK)]]
        return np.concatenate(blocks)[start - first * BLOCK : stop - first * BLOCK]

    return terms


def _blocks(records: int) -> Iterator[slice]:
    return (slice(start, min(start + BLOCK, records)) for start in range(0, records, BLOCK))

"""Pick a class by its count: the exponential mechanism and permute-and-flip, for counts that are given."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.coins import WordStream, exp_coins, uniform
from labeldp.privacy import InputError


def select(stream: WordStream, counts: NDArray[np.int64], unit: Fraction, *, again: bool) -> NDArray[np.intp]:
    """One class for each group: try classes, accept each with probability e^(-unit * deficit), shape (groups,).

    Args:
        stream: as many cells as groups.
        counts: shape (groups, K). They are private.
        unit: the exponent that one missing count costs.
        again: whether a rejected class may be tried again, as the exponential mechanism wants it;
            permute-and-flip tries each once.
    """
    deficits = counts.max(axis=1, keepdims=True) - counts
    chosen = np.zeros(len(counts), dtype=np.intp)
    untried = np.ones(counts.shape, dtype=np.bool_)
    active = np.arange(len(counts))
    while active.size:
        tried = _next(stream, active, untried)
        accepted = exp_coins(stream, active, deficits[active, tried], unit)
        chosen[active[accepted]] = tried[accepted]
        untried[active, tried] = again
        active = active[~accepted]
    return chosen


def _next(stream: WordStream, active: NDArray[np.intp], untried: NDArray[np.bool_]) -> NDArray[np.intp]:
    """A uniform class among those that may still be tried, for each active group."""
    ranks = np.cumsum(untried[active], axis=1)
    picks = uniform(stream, active, int(ranks[0, -1]))
    return np.argmax(ranks > picks[:, None], axis=1)


def selection_law(counts: Any, unit: Fraction, *, again: bool) -> NDArray[np.float64]:
    """P(class) under `select` for the counts (K,) of one group, in doubles; without trying again K is at most 16."""
    accepted = _acceptance(counts, unit)
    if again:
        return accepted / accepted.sum()
    if len(accepted) > 16:
        raise InputError("counts must hold at most 16 classes: the sum goes over all subsets")
    result = np.zeros(len(accepted))
    for j in range(len(accepted)):
        others = np.delete(accepted, j)
        result[j] = accepted[j] * sum(_rejections(others, size) for size in range(len(others) + 1))
    return result


def _acceptance(counts: Any, unit: Fraction) -> NDArray[np.float64]:
    array = np.asarray(counts, dtype=np.int64)
    return np.array([exp(-float(unit) * int(deficit)) for deficit in array.max() - array])


def _rejections(others: NDArray[np.float64], size: int) -> float:
    """P(exactly `size` others are tried before a class, and all are rejected)."""
    total = sum(float(np.prod(1 - others[list(subset)])) for subset in _subsets(len(others), size))
    orders = 1.0
    for i in range(size):
        orders *= (i + 1) / (len(others) - i)
    return total * orders / (len(others) + 1)


def _subsets(count: int, size: int) -> Iterator[tuple[int, ...]]:
    return combinations(range(count), size)

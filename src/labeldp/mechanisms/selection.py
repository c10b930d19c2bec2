"""The choice of one class for each public group, by its counts: the exponential mechanism and permute-and-flip."""

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import exp
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.base import word_stream
from labeldp.mechanisms.histograms import CountMechanism, Counts
from labeldp.privacy import InputError, PrivacyLoss, RandomSource, positive_epsilon
from labeldp.sampling import MIN_RATE, WordStream, exp_coins, uniform


def select(stream: WordStream, counts: NDArray[np.int64], unit: Fraction, *, again: bool) -> NDArray[np.intp]:
    """Choose one class for each group: try classes, accept each with probability e^(-unit * deficit), shape (groups,).

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
    array = np.asarray(counts, dtype=np.int64)
    accepted = np.array([exp(-float(unit) * int(deficit)) for deficit in array.max() - array])
    if again:
        return accepted / accepted.sum()
    if len(accepted) > 16:
        raise InputError("counts must hold at most 16 classes: the sum goes over all subsets")
    result = np.zeros(len(accepted))
    for j in range(len(accepted)):
        others = np.delete(accepted, j)
        result[j] = accepted[j] * sum(_rejections(others, size) for size in range(len(others) + 1))
    return result


def _rejections(others: NDArray[np.float64], size: int) -> float:
    """Return P(exactly `size` others are tried before a class, and all are rejected)."""
    total = sum(float(np.prod(1 - others[list(subset)])) for subset in combinations(range(len(others)), size))
    orders = 1.0
    for i in range(size):
        orders *= (i + 1) / (len(others) - i)
    return total * orders / (len(others) + 1)


class _Selection(CountMechanism):
    """Pick a class for each group by its count; see `select`."""

    @property
    @abstractmethod
    def tries_again(self) -> bool:
        """Whether a rejected class may be tried again."""

    def _calibrate(self) -> None:
        if self.unit < MIN_RATE:
            raise InputError("is too small for a choice by counts: take at least 1e-9", argument="epsilon")

    def privacy_loss(self) -> PrivacyLoss:
        """Pure epsilon: exact at delta = 0, an upper bound elsewhere."""
        return PrivacyLoss.pure(self.epsilon)

    def law(self, counts: Any) -> NDArray[np.float64]:
        """Return P(class) for the counts of one group, shape (K,); K up to 16 where classes are tried once."""
        return selection_law(counts, self.unit, again=self.tries_again)

    def outcome(self, released: NDArray[Any], counts: Any) -> NDArray[np.intp]:
        """Return the class that was chosen."""
        return released.astype(np.intp)

    @property
    def unit(self) -> Fraction:
        """The exponent that one missing count costs."""
        return positive_epsilon(self.epsilon) / 2

    @property
    def published(self) -> str:
        """What leaves, in words."""
        return f"one class for each of {self.partition.count} groups of records, by {self}"

    def release_counts(self, counts: Counts, *, rng: RandomSource) -> NDArray[Any]:
        """Return the code of one class for each group, shape (groups,)."""
        return select(word_stream(rng, len(counts)), counts, self.unit, again=self.tries_again).astype(
            self.domain.dtype
        )


@final
@dataclass(frozen=True, kw_only=True)
class ExponentialMechanism(_Selection):
    """For each group a class, with probability proportional to e^(epsilon * count / 2).

    `PermuteAndFlip` never does worse; this one is the textbook's.

    Guarantee (pure): epsilon-DP for each label.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, eq. (17).
    """

    @property
    def tries_again(self) -> bool:
        """Independent of what was rejected: the same class may come up again."""
        return True


@final
@dataclass(frozen=True, kw_only=True)
class PermuteAndFlip(_Selection):
    """For each group a class: classes are tried in random order, each once, until one is accepted.

    Its choice is never worse on average than the exponential mechanism's at the same epsilon.

    Guarantee (pure): epsilon-DP for each label.

    Source: McKenna and Sheldon, Permute-and-Flip (2020), Algorithm 1.
    """

    @property
    def tries_again(self) -> bool:
        """A class is tried once."""
        return False

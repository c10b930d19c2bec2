"""Mechanisms of a trusted curator: class counts of public groups of records, selected from or published with noise."""

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.coins import MIN_RATE, WordStream, discrete_laplace, geometric_law
from labeldp.mechanisms.groups import CountMechanism, Counts
from labeldp.mechanisms.selection import select, selection_law
from labeldp.privacy import InputError, PrivacyLoss, as_bound, positive_epsilon

SEEN = 8
"""Noisy counts are told apart from -SEEN to SEEN where a law over outcomes is asked for."""


@final
@dataclass(frozen=True, kw_only=True)
class LaplaceHistogram(CountMechanism):
    """Class counts of each group, each with two-sided geometric noise of rate epsilon / 2.

    Use it for priors and for tables of counts. Counts may come out negative; clipping them is post-processing.

    Guarantee: epsilon-DP for each label: a replaced label moves two counts by one, each at epsilon / 2.

    Source: Ghazi et al., Deep Learning with Label Differential Privacy, Algorithm 4.
    """

    def __post_init__(self, groups: Any) -> None:
        super().__post_init__(groups)
        self._calibrate()

    def _calibrate(self) -> None:
        if self.rate < MIN_RATE:
            raise InputError("epsilon is too small for integer noise of 64 bits: take at least 1e-9")

    def privacy_loss(self) -> PrivacyLoss:
        """Two binary randomized responses at epsilon / 2, exactly."""
        return PrivacyLoss.response(self.rate, 2) * 2

    @property
    def rate(self) -> Fraction:
        """Noise i has probability proportional to e^(-rate |i|)."""
        return positive_epsilon(self.epsilon) / 2

    @property
    def published(self) -> str:
        """What leaves, in words."""
        return f"noisy class counts of {self.partition.count} groups of records, by {self}"

    def law(self, counts: Any) -> NDArray[np.float64]:
        """The joint law of the first two classes' noisy counts, each clipped to -`SEEN` … `SEEN`."""
        places = np.arange(-SEEN, SEEN)
        first, second = (geometric_law(float(self.rate), places - int(count)) for count in np.asarray(counts)[:2])
        return np.outer(first, second).ravel()

    def outcome(self, released: NDArray[Any], counts: Any) -> NDArray[np.intp]:
        """The first two noisy counts as one index."""
        places = np.clip(released[:, :2], -SEEN, SEEN) + SEEN
        return (places @ np.array([2 * SEEN + 1, 1])).astype(np.intp)

    def release_counts(self, counts: Counts, *, rng: Any) -> Counts:
        """Noisy counts, shape (groups, K)."""
        randomness = as_bound(rng)
        noise = discrete_laplace(WordStream(randomness, randomness.record_ids(None, counts.size)), self.rate)
        return counts + noise.reshape(counts.shape)


class _Selection(CountMechanism):
    """Pick a class for each group by its count; see `select`."""

    @property
    @abstractmethod
    def tries_again(self) -> bool:
        """Whether a rejected class may be tried again."""

    def __post_init__(self, groups: Any) -> None:
        super().__post_init__(groups)
        self._calibrate()

    def _calibrate(self) -> None:
        if self.unit < MIN_RATE:
            raise InputError("epsilon is too small for a choice by counts: take at least 1e-9")

    def privacy_loss(self) -> PrivacyLoss:
        """Pure epsilon: exact at delta = 0, an upper bound elsewhere."""
        return PrivacyLoss.pure(self.epsilon)

    def law(self, counts: Any) -> NDArray[np.float64]:
        """P(class) for the counts of one group, shape (K,); K up to 16 where classes are tried once."""
        return selection_law(counts, self.unit, again=self.tries_again)

    def outcome(self, released: NDArray[Any], counts: Any) -> NDArray[np.intp]:
        """The class that was chosen."""
        return released.astype(np.intp)

    @property
    def unit(self) -> Fraction:
        """The exponent that one missing count costs."""
        return positive_epsilon(self.epsilon) / 2

    @property
    def published(self) -> str:
        """What leaves, in words."""
        return f"one class for each of {self.partition.count} groups of records, by {self}"

    def release_counts(self, counts: Counts, *, rng: Any) -> NDArray[Any]:
        """The code of one class for each group, shape (groups,)."""
        randomness = as_bound(rng)
        stream = WordStream(randomness, randomness.record_ids(None, len(counts)))
        return select(stream, counts, self.unit, again=self.tries_again).astype(self.domain.dtype)


@final
@dataclass(frozen=True, kw_only=True)
class ExponentialMechanism(_Selection):
    """For each group a class, with probability proportional to e^(epsilon * count / 2).

    `PermuteAndFlip` never does worse; this one is the textbook's.

    Guarantee: epsilon-DP for each label.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, eq. (17).
    """

    @property
    def tries_again(self) -> bool:
        """Yes."""
        return True


@final
@dataclass(frozen=True, kw_only=True)
class PermuteAndFlip(_Selection):
    """For each group a class: classes are tried in random order, each once, until one is accepted.

    Its choice is never worse on average than the exponential mechanism's at the same epsilon.

    Guarantee: epsilon-DP for each label.

    Source: McKenna and Sheldon, Permute-and-Flip (2020), Algorithm 1.
    """

    @property
    def tries_again(self) -> bool:
        """No: each class is tried once."""
        return False

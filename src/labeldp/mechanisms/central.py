"""Mechanisms of a trusted curator: class counts of public groups of records, selected from or published with noise."""

import hashlib
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field
from fractions import Fraction
from itertools import combinations
from math import exp
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.base import EpsilonMechanism
from labeldp.mechanisms.candidates import basis_of
from labeldp.mechanisms.coins import MIN_RATE, WordStream, discrete_laplace, exp_coins, uniform
from labeldp.mechanisms.domains import Classes
from labeldp.privacy import (
    Certificate,
    InputError,
    PrivacyLoss,
    Public,
    Release,
    Trust,
    as_randomness,
    positive_epsilon,
)

Counts = NDArray[np.int64]

SEEN = 8
"""Noisy counts are told apart from -SEEN to SEEN where a law over outcomes is asked for."""


@dataclass(frozen=True, eq=False)
class Groups:
    """A public group for each record.

    Args:
        of_record: group numbers 0 to count - 1, shape (n,).
        count: how many groups there are; some may be empty.
    """

    of_record: NDArray[np.int64] = field(repr=False)
    count: int

    @classmethod
    def of(cls, groups: Any) -> "Groups":
        """Groups that were declared public or were released.

        Raises:
            InputError: a bare array, or not one non-negative integer for each record.
        """
        if not isinstance(groups, Public | Release):
            raise InputError(
                'groups must be Public(array, why="…") or a Release: groups may not depend on private labels'
            )
        array = np.asarray(groups.value)
        if array.ndim != 1 or array.dtype.kind not in "iu" or (array.size and array.min() < 0):
            raise InputError("groups must be one non-negative integer for each record")
        array = array.astype(np.int64)
        array.flags.writeable = False
        return cls(array, int(array.max(initial=-1)) + 1)

    @property
    def digest(self) -> str:
        """SHA-256 of the groups, in the order of the records."""
        return hashlib.sha256(self.of_record.astype("<i8").tobytes()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Groups) and bool(np.array_equal(self.of_record, other.of_record))

    def __hash__(self) -> int:
        return hash(self.digest)


@dataclass(frozen=True, kw_only=True)
class CountMechanism(EpsilonMechanism):
    """A mechanism on the class counts of public groups; replacing a label moves two counts of one group by one.

    Args:
        domain: `Classes`, K = its size.
        epsilon: privacy parameter, positive.
        groups: a public group for each record, shape (n,), `Public(array, why="…")` or a `Release`.
    """

    groups: InitVar[Any]
    partition: Groups = field(init=False)
    why: str = field(init=False, compare=False)
    sources: tuple[Certificate, ...] = field(init=False, compare=False, repr=False)
    trust: ClassVar[Trust] = Trust.CENTRAL

    def __post_init__(self, groups: Any) -> None:
        super().__post_init__()
        if not isinstance(self.domain, Classes):
            raise InputError("domain must be Classes, such as Classes(10)")
        object.__setattr__(self, "partition", Groups.of(groups))
        object.__setattr__(self, "why", getattr(groups, "why", ""))
        object.__setattr__(self, "sources", basis_of(groups))

    @property
    def basis(self) -> tuple[Certificate, ...]:
        """The certificate of the groups, where they were released."""
        return self.sources

    @property
    def assumptions(self) -> tuple[str, ...]:
        """That the groups were public, in the caller's words."""
        return (f"the groups do not depend on the private labels ({self.why})",) if self.why else ()

    def arrays(self) -> NDArray[np.int64]:
        """The group of each record, shape (n,)."""
        return self.partition.of_record

    def restored(self, arrays: NDArray[Any]) -> "CountMechanism":
        """The same mechanism with groups that were stored."""
        why = "the groups were fixed by an earlier release, whose certificate says what they rest on"
        again = type(self)(domain=self.domain, epsilon=self.epsilon, groups=Public(np.array(arrays), why=why))
        object.__setattr__(again, "sources", self.sources)
        return again

    @property
    def records(self) -> int:
        """One for each entry of `groups`."""
        return len(self.partition.of_record)

    def parameters(self) -> dict[str, Any]:
        """The exact epsilon and a digest of the groups."""
        return {**super().parameters(), "groups": self.partition.digest}

    def counts(self, labels: Any) -> Counts:
        """Class counts of each group, shape (groups, K). They are private."""
        codes = self.domain.check_codes(labels)
        self.check_records(len(codes))
        size = self.domain.size
        flat = np.bincount(self.partition.of_record * size + codes, minlength=self.partition.count * size)
        return flat.reshape(-1, size)

    def randomize(self, labels: Any, *, rng: Any, ids: Any = None) -> NDArray[Any]:
        """The released result for each group; record ids are not used. See `Mechanism.randomize`."""
        counts = self.counts(labels)
        bound = self.bound(rng)
        return self.release_counts(counts, rng=bound)

    @abstractmethod
    def law(self, counts: Any) -> NDArray[np.float64]:
        """The probability of each outcome for the counts (K,) of one group, in doubles: for tests and planning."""

    @abstractmethod
    def outcome(self, released: NDArray[Any], counts: Any) -> NDArray[np.intp]:
        """The outcome, an index into `law(counts)`, of each released result for groups that all have these counts."""

    @abstractmethod
    def release_counts(self, counts: Counts, *, rng: Any) -> NDArray[Any]:
        """The released result for counts (groups, K) that are given: the bare map, for whoever has counts."""


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
        first, second = (self._clipped(int(count)) for count in np.asarray(counts)[:2])
        return np.outer(first, second).ravel()

    def _clipped(self, count: int) -> NDArray[np.float64]:
        """The law of one noisy count, clipped, shape (2 * SEEN + 1,)."""
        decay = exp(-float(self.rate))
        noise = np.arange(-SEEN, SEEN + 1) - count
        masses = (1 - decay) / (1 + decay) * decay ** np.abs(noise.astype(np.float64))
        masses[0] = _tail(decay, noise[0])
        masses[-1] = _tail(decay, -noise[-1])
        return masses

    def outcome(self, released: NDArray[Any], counts: Any) -> NDArray[np.intp]:
        """The first two noisy counts as one index."""
        places = np.clip(released[:, :2], -SEEN, SEEN) + SEEN
        return (places @ np.array([2 * SEEN + 1, 1])).astype(np.intp)

    def release_counts(self, counts: Counts, *, rng: Any) -> Counts:
        """Noisy counts, shape (groups, K)."""
        randomness = as_randomness(rng)
        noise = discrete_laplace(WordStream(randomness, randomness.record_ids(None, counts.size)), self.rate)
        return counts + noise.reshape(counts.shape)


class _Selection(CountMechanism):
    """Pick a class for each group: try classes, accept each with probability e^(-epsilon * deficit / 2)."""

    returns_tried: ClassVar[bool]

    def privacy_loss(self) -> PrivacyLoss:
        """Pure epsilon: exact at delta = 0, an upper bound elsewhere."""
        return PrivacyLoss.pure(self.epsilon)

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
        randomness = as_randomness(rng)
        stream = WordStream(randomness, randomness.record_ids(None, len(counts)))
        deficits = counts.max(axis=1, keepdims=True) - counts
        chosen = np.zeros(len(counts), dtype=self.domain.dtype)
        untried = np.ones(counts.shape, dtype=np.bool_)
        active = np.arange(len(counts))
        while active.size:
            tried = self._next(stream, active, untried)
            accepted = exp_coins(stream, active, deficits[active, tried], self.unit)
            chosen[active[accepted]] = tried[accepted]
            untried[active, tried] = self.returns_tried
            active = active[~accepted]
        return chosen

    def _next(self, stream: WordStream, active: NDArray[np.intp], untried: NDArray[np.bool_]) -> NDArray[np.intp]:
        """A uniform class among those that may still be tried, for each active group."""
        ranks = np.cumsum(untried[active], axis=1)
        picks = uniform(stream, active, int(ranks[0, -1]))
        return np.argmax(ranks > picks[:, None], axis=1)


@final
@dataclass(frozen=True, kw_only=True)
class ExponentialMechanism(_Selection):
    """For each group a class, with probability proportional to e^(epsilon * count / 2).

    `PermuteAndFlip` never does worse; this one is the textbook's.

    Guarantee: epsilon-DP for each label.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, eq. (17).
    """

    returns_tried: ClassVar[bool] = True

    def law(self, counts: Any) -> NDArray[np.float64]:
        """P(class) for the counts of one group, shape (K,)."""
        accepted = _acceptance(counts, self.unit)
        return accepted / accepted.sum()


@final
@dataclass(frozen=True, kw_only=True)
class PermuteAndFlip(_Selection):
    """For each group a class: classes are tried in random order, each once, until one is accepted.

    Its choice is never worse on average than the exponential mechanism's at the same epsilon.

    Guarantee: epsilon-DP for each label.

    Source: McKenna and Sheldon, Permute-and-Flip (2020), Algorithm 1.
    """

    returns_tried: ClassVar[bool] = False

    def law(self, counts: Any) -> NDArray[np.float64]:
        """P(class) for the counts of one group, shape (K,), summed over all sets of rejected classes; K up to 16."""
        accepted = _acceptance(counts, self.unit)
        if len(accepted) > 16:
            raise InputError("counts must hold at most 16 classes: the sum goes over all subsets")
        result = np.zeros(len(accepted))
        for j in range(len(accepted)):
            others = np.delete(accepted, j)
            result[j] = accepted[j] * sum(_rejections(others, size) for size in range(len(others) + 1))
        return result


def _tail(decay: float, top: int) -> float:
    """P(noise <= top) for two-sided geometric noise."""
    return float(decay ** -int(top) / (1 + decay)) if top <= 0 else 1 - float(decay ** (int(top) + 1) / (1 + decay))


def _rejections(others: NDArray[np.float64], size: int) -> float:
    """P(exactly `size` others are tried before a class, and all are rejected)."""
    total = sum(float(np.prod(1 - others[list(subset)])) for subset in _subsets(len(others), size))
    orders = 1.0
    for i in range(size):
        orders *= (i + 1) / (len(others) - i)
    return total * orders / (len(others) + 1)


def _subsets(count: int, size: int) -> Iterator[tuple[int, ...]]:
    return combinations(range(count), size)


def _acceptance(counts: Any, unit: Fraction) -> NDArray[np.float64]:
    array = np.asarray(counts, dtype=np.int64)
    return np.array([exp(-float(unit) * int(deficit)) for deficit in array.max() - array])

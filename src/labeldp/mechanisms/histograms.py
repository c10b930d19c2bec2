"""Noisy counts, noisy sums and chosen classes of public groups, from a trusted curator."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from fractions import Fraction
from itertools import combinations
from math import exp
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.base import Mechanism, word_stream, words_of
from labeldp.mechanisms.domains import Domain
from labeldp.mechanisms.inputs import Groups, GroupSizes, PublicInput
from labeldp.privacy import (
    UNTIL_MADE,
    Floats,
    InputError,
    NotInvertibleError,
    PrivacyLoss,
    RandomSource,
    Trust,
    positive_epsilon,
    set_fields,
)
from labeldp.sampling import (
    MIN_RATE,
    ExponentialWeights,
    discrete_laplace,
    fresh_words,
    keep_coins,
    laplace_law,
    uniform,
)

Counts = NDArray[np.int64]

MAX_SUM = 1 << 53
"""Sums of codes up to this are exact in doubles."""

MAX_COUNTS = 1 << 24
"""The most counts of a mechanism that a stranger described."""


@dataclass(frozen=True, kw_only=True)
class CountMechanism(Mechanism):
    """A mechanism on the class counts of public groups; replacing a label moves two counts of one group by one.

    `LaplaceSum` has sums over the groups in place of counts.

    Args:
        domain: `Classes`, K = its size; an `Interval`, or two classes, for sums.
        groups: a public group for each record, shape (n,), `Public(array, why="…")` or a `Release`.
    """

    domain: Domain = field(kw_only=False)
    epsilon: float = field(kw_only=False)
    stored: ClassVar[str] = "groups"
    groups: InitVar[Any]
    partition: Groups | GroupSizes = field(init=False, default=UNTIL_MADE)
    trust: ClassVar[Trust] = Trust.CENTRAL
    contract: ClassVar[str] = "labeldp.testing.checks:check_counts"
    domain_wanted: ClassVar[str] = "Classes, such as Classes(10)"
    has_estimates: ClassVar[bool] = False
    """Whether `estimates` makes unbiased means or shares of what was released."""
    by_class: ClassVar[bool] = True
    """Whether `counts` are class counts, shape (groups, K), and not sums of codes, shape (groups, 1)."""

    def __post_init__(self, groups: Any) -> None:
        super().__post_init__()
        if not isinstance(self.domain, Domain) or not self.takes(self.domain):
            raise InputError(f"must be {self.domain_wanted}", argument="domain")
        set_fields(self, partition=Groups.of(groups), public_inputs=(PublicInput.of(groups, "groups"),))
        self._calibrate()

    def privacy_loss(self) -> PrivacyLoss:
        """Pure epsilon: exact at delta = 0, an upper bound elsewhere."""
        return PrivacyLoss.pure(self.epsilon)

    @classmethod
    def takes(cls, domain: Domain) -> bool:
        """Whether it is a mechanism on such labels."""
        return domain.target == "classes"

    def estimates(self, released: Any, sizes: Any) -> Floats:
        """Return noisy means, shape (groups, 1), or class shares that sum to 1, shape (groups, K), not clipped.

        Args:
            released: what this mechanism released.
            sizes: how many records each group has, public, shape (groups,).

        Raises:
            NotInvertibleError: what it releases is a choice.
        """
        raise NotInvertibleError(f"{type(self).__name__} has no unbiased estimates")

    @property
    def noise_variance(self) -> float:
        """The variance of the noise on one sum, in the unit of the labels, or on one count."""
        raise NotInvertibleError(f"{type(self).__name__} adds no noise")

    def packed(self) -> dict[str, NDArray[Any] | None]:
        """Return the group of each record, shape (n,); None where only the sizes of groups are known."""
        return {"groups": self.partition.of_record}

    @classmethod
    def limited(cls, arrays: Mapping[str, NDArray[Any]], domain: Domain) -> Mapping[str, NDArray[Any]]:
        """Refuse group numbers so large that their counts do not fit into memory; some groups may be empty."""
        groups = arrays["groups"]
        if groups.dtype.kind not in "iu" or int(groups.max(initial=0) + 1) * domain.size > MAX_COUNTS:
            raise InputError(
                f"must be integers of so few groups that there are at most {MAX_COUNTS:,} counts", argument="groups"
            )
        return arrays

    @property
    def records(self) -> int:
        return self.partition.records

    def parameters(self) -> dict[str, Any]:
        return {**super().parameters(), "groups": self.partition.digest}

    def counts(self, labels: Any) -> Counts:
        """Return class counts of each group, shape (groups, K). They are private."""
        codes = self.domain.check_codes(labels)
        self.check_records(len(codes))
        size, of_record = self.domain.size, self._of_record
        flat = np.bincount(of_record * size + codes, minlength=self.partition.count * size)
        return flat.reshape(-1, size)

    @property
    def _of_record(self) -> NDArray[np.int64]:
        if self.partition.of_record is None:
            raise InputError("groups are known by their sizes: give counts to release_counts, and not labels")
        return self.partition.of_record

    def randomize(self, labels: Any, *, rng: RandomSource, ids: Any = None) -> NDArray[Any]:
        """Return the released result for each group; record ids are not used. See `Mechanism.randomize`."""
        counts = self.counts(labels)
        bound = self.bound(rng)
        return self.release_counts(counts, rng=bound)

    @abstractmethod
    def law(self, counts: Any) -> NDArray[np.float64]:
        """Return the probability of each outcome for the counts (K,) of one group, in doubles."""

    @abstractmethod
    def outcome(self, released: NDArray[Any], counts: Any) -> NDArray[np.intp]:
        """Return the outcome, an index into `law(counts)`, of each result for groups that all have these counts."""

    @abstractmethod
    def release_counts(self, counts: Counts, *, rng: RandomSource) -> NDArray[Any]:
        """Return the released result for counts, shape (groups, K), without labels."""


TOLD_APART = 8
"""Noisy counts are told apart from -TOLD_APART to TOLD_APART where a law over outcomes is asked for."""


@final
@dataclass(frozen=True, kw_only=True)
class LaplaceHistogram(CountMechanism):
    """Class counts of each group, each with two-sided geometric noise of rate epsilon / 2.

    Use it for priors and for tables of counts. Counts may come out negative; clipping them is post-processing.

    Guarantee (pure): epsilon-DP for each label: a replaced label moves two counts by one, each at epsilon / 2.

    Source: Ghazi et al., Deep Learning with Label Differential Privacy, Algorithm 4.
    """

    has_estimates: ClassVar[bool] = True

    def _calibrate(self) -> None:
        if self.rate < MIN_RATE:
            raise InputError("is too small for integer noise of 64 bits: take at least 1e-9", argument="epsilon")

    def privacy_loss(self) -> PrivacyLoss:
        """Return the loss of two binary randomized responses at epsilon / 2, exactly."""
        return PrivacyLoss.response(self.rate, 2) * 2

    @property
    def rate(self) -> Fraction:
        """Noise i has probability proportional to e^(-rate |i|)."""
        return positive_epsilon(self.epsilon) / 2

    @property
    def noise_variance(self) -> float:
        return 2 / float(self.rate) ** 2

    def estimates(self, released: Any, sizes: Any) -> Floats:
        """Return class shares; the noise in the sum of a group's counts is subtracted equally from all counts."""
        shares = released / np.asarray(sizes)[:, None]
        return np.asarray(shares + (1 - shares.sum(axis=1, keepdims=True)) / shares.shape[1])

    @property
    def published(self) -> str:
        scale = f"scale {1 / float(self.rate):.3g}"
        return f"class counts of {self.partition.count:,} public groups (discrete Laplace noise, {scale})"

    def law(self, counts: Any) -> NDArray[np.float64]:
        """Return the joint law of the first two classes' noisy counts, each clipped to -`TOLD_APART` … `TOLD_APART`."""
        places = np.arange(-TOLD_APART, TOLD_APART)
        first, second = (laplace_law(float(self.rate), places - int(count)) for count in np.asarray(counts)[:2])
        return np.outer(first, second).ravel()

    def outcome(self, released: NDArray[Any], counts: Any) -> NDArray[np.intp]:
        """Return the first two noisy counts as one index."""
        places = np.clip(released[:, :2], -TOLD_APART, TOLD_APART) + TOLD_APART
        return (places @ np.array([2 * TOLD_APART + 1, 1])).astype(np.intp)

    def release_counts(self, counts: Counts, *, rng: RandomSource) -> Counts:
        """Return noisy counts, shape (groups, K)."""
        noise = discrete_laplace(word_stream(rng, counts.size), self.rate)
        return counts + noise.reshape(counts.shape)


@final
@dataclass(frozen=True, kw_only=True)
class LaplaceSum(CountMechanism):
    """The sum of the labels of each group, in grid steps above the low end, with two-sided geometric noise.

    Use it for the mean label of cells: group sizes are public, so `means` costs no epsilon. With two classes the sum
    counts the records of the second one, at half the noise of `LaplaceHistogram`, which counts both.

    Guarantee (pure): epsilon-DP for each label: a replaced label moves the sum of one group by at most grid - 1 steps.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, eq. (23), on a grid and with
    the right scale (`docs/theory/corrections.md`).
    """

    contract: ClassVar[str] = "labeldp.testing.checks:check_sums"
    has_estimates: ClassVar[bool] = True
    by_class: ClassVar[bool] = False
    domain_wanted: ClassVar[str] = "Interval, such as Interval(0, 100, grid=1025), or two classes"

    def _calibrate(self) -> None:
        if self.rate < MIN_RATE:
            raise InputError("is too small for a grid as fine as this one: take fewer grid points", argument="epsilon")
        if self.records * self.sensitivity > MAX_SUM:
            raise InputError("the sums are not exact in doubles: take a coarser grid of labels")

    @classmethod
    def takes(cls, domain: Domain) -> bool:
        return domain.has_sums

    @property
    def sensitivity(self) -> int:
        """The steps by which one label can move a sum."""
        return self.domain.size - 1

    @property
    def rate(self) -> Fraction:
        """Noise i has probability proportional to e^(-rate |i|)."""
        return positive_epsilon(self.epsilon) / self.sensitivity

    @property
    def scale(self) -> float:
        """The noise scale of each sum, in the unit of the labels: (high - low) / epsilon, over n_l for a mean."""
        return self.domain.step / float(self.rate)

    @property
    def noise_variance(self) -> float:
        return 2 * self.scale**2

    def estimates(self, released: Any, sizes: Any) -> Floats:
        """Return means, or the shares of both classes."""
        means = self.means(released, sizes)[:, None]
        return means if self.domain.columns == 1 else np.hstack([1 - means, means])

    @property
    def published(self) -> str:
        return f"label sums of {self.partition.count:,} public groups (discrete Laplace noise, scale {self.scale:.3g})"

    def counts(self, labels: Any) -> Counts:
        """Return sums of codes of each group, shape (groups, 1). They are private."""
        codes = self.domain.check_codes(labels)
        self.check_records(len(codes))
        # Sums of integers are exact in doubles up to MAX_SUM.
        sums = np.bincount(self._of_record, weights=codes, minlength=self.partition.count)
        return sums.astype(np.int64)[:, None]

    def release_counts(self, counts: Counts, *, rng: RandomSource) -> Counts:
        """Return noisy sums, shape (groups,)."""
        noise = discrete_laplace(word_stream(rng, counts.size), self.rate)
        return counts[:, 0] + noise

    def means(self, released: Any, sizes: Any) -> NDArray[np.float64]:
        """Noisy mean labels of groups, or shares of the second class, not clipped, shape (groups,); NaN if empty.

        Args:
            released: the released sums, shape (groups,).
            sizes: the public number of records of each group, shape (groups,).
        """
        count = np.where(np.asarray(sizes) > 0, sizes, np.nan)
        return np.asarray(self.domain.ends[0] + self.domain.step * np.asarray(released) / count, dtype=np.float64)

    def law(self, counts: Any) -> NDArray[np.float64]:
        """Return the law of a noisy sum between `edges`, for the sum (1,) of one group."""
        return self.law_between(self.edges(), counts)

    def law_between(self, edges: NDArray[np.int64], counts: Any) -> NDArray[np.float64]:
        """Return the law of a noisy sum between other edges."""
        return laplace_law(float(self.rate), edges - int(np.asarray(counts)[0]))

    def edges(self) -> NDArray[np.int64]:
        """Return the edges of bins of a noisy sum: about three scales of the noise around zero."""
        return np.unique(np.rint(np.linspace(-3, 3, 13) / float(self.rate)).astype(np.int64))

    def outcome(self, released: NDArray[Any], counts: Any) -> NDArray[np.intp]:
        """Return the bin between `edges` of each noisy sum."""
        return np.searchsorted(self.edges(), released)


def select(counts: NDArray[np.int64], unit: Fraction, *, again: bool, rng: RandomSource) -> NDArray[np.intp]:
    """Choose one class for each group, as if classes were tried and accepted with probability e^(-unit * deficit).

    The number of words, and the work, is the same for all counts, except about once in 2**39 coins.

    Args:
        counts: shape (groups, K). They are private.
        unit: the exponent that one missing count costs.
        again: whether a rejected class may be tried again, as the exponential mechanism wants it;
            permute-and-flip tries each once.
        rng: bound to what it is for.
    """
    words = words_of(rng)
    deficits = counts.max(axis=1, keepdims=True) - counts
    if again:
        return ExponentialWeights(unit).indices(deficits, fresh_words(words, len(counts)), words)
    # The first class that is accepted, in random order, is a uniform one of all that would be.
    accepted = keep_coins(deficits, unit, Fraction(1), rng=words)
    ranks = accepted.astype(np.int64).cumsum(axis=1)
    return np.argmax(ranks > uniform(ranks[:, -1], words)[:, None], axis=1)


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
        chances = np.delete(accepted, j)
        result[j] = accepted[j] * sum(_rejections(chances, size) for size in range(len(chances) + 1))
    return result


def _rejections(chances: NDArray[np.float64], size: int) -> float:
    """Return P(exactly `size` others are tried before a class, and all are rejected)."""
    total = sum(float(np.prod(1 - chances[list(subset)])) for subset in combinations(range(len(chances)), size))
    orders = 1.0
    for i in range(size):
        orders *= (i + 1) / (len(chances) - i)
    return total * orders / (len(chances) + 1)


class _Selection(CountMechanism):
    """Pick a class for each group by its count; see `select`."""

    rule: ClassVar[str]

    @property
    @abstractmethod
    def tries_again(self) -> bool:
        """Whether a rejected class may be tried again."""

    def _calibrate(self) -> None:
        if self.unit < MIN_RATE:
            raise InputError("is too small for a choice by counts: take at least 1e-9", argument="epsilon")

    def law(self, counts: Any) -> NDArray[np.float64]:
        """Return P(class) for the counts of one group, shape (K,); K up to 16 where classes are tried once."""
        return selection_law(counts, self.unit, again=self.tries_again)

    def outcome(self, released: NDArray[Any], counts: Any) -> NDArray[np.intp]:
        return released.astype(np.intp)

    @property
    def unit(self) -> Fraction:
        """The exponent that one missing count costs."""
        return positive_epsilon(self.epsilon) / 2

    @property
    def published(self) -> str:
        return f"one selected class for each of {self.partition.count:,} public groups ({self.rule})"

    def release_counts(self, counts: Counts, *, rng: RandomSource) -> NDArray[Any]:
        """Return the code of one class for each group, shape (groups,)."""
        return select(counts, self.unit, again=self.tries_again, rng=rng).astype(self.domain.dtype)


@final
@dataclass(frozen=True, kw_only=True)
class ExponentialMechanism(_Selection):
    """For each group a class, with probability proportional to e^(epsilon * count / 2).

    `PermuteAndFlip` has never a larger error. This is the mechanism of textbooks.

    Guarantee (pure): epsilon-DP for each label. In composition it costs less than pure epsilon-DP in general,
        because its log-ratios lie in an interval of length epsilon.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, eq. (17).
    """

    rule: ClassVar[str] = "exponential mechanism"

    def privacy_loss(self) -> PrivacyLoss:
        """Return the loss of a bounded range of length epsilon."""
        return PrivacyLoss.bounded_range(positive_epsilon(self.epsilon))

    def user_loss(self, users: Groups) -> PrivacyLoss:
        """Return the loss of a bounded range: counts move by the labels of a user, one up and one down for each."""
        return PrivacyLoss.bounded_range(users.most * positive_epsilon(self.epsilon))

    @property
    def tries_again(self) -> bool:
        return True


@final
@dataclass(frozen=True, kw_only=True)
class PermuteAndFlip(_Selection):
    """For each group a class: classes are tried in random order, each once, until one is accepted.

    Its choice is never worse on average than the exponential mechanism's at the same epsilon.

    Guarantee (pure): epsilon-DP for each label.

    Source: McKenna and Sheldon, Permute-and-Flip (2020), Algorithm 1.
    """

    rule: ClassVar[str] = "permute-and-flip"

    @property
    def tries_again(self) -> bool:
        return False

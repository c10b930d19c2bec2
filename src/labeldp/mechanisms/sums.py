"""Mechanism of a trusted curator: sums of numbers over public groups of records, published with noise."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.coins import MIN_RATE, WordStream, discrete_laplace, geometric_law
from labeldp.mechanisms.domains import Classes, Domain, Interval
from labeldp.mechanisms.groups import CountMechanism, Counts
from labeldp.privacy import InputError, PrivacyLoss, as_bound, positive_epsilon


@final
@dataclass(frozen=True, kw_only=True)
class LaplaceSum(CountMechanism):
    """The sum of the labels of each group, in grid steps above the low end, with two-sided geometric noise.

    Use it for the mean label of cells: group sizes are public, so `means` costs nothing more. Of two classes it is the
    number of records of the second one, at half the noise of `LaplaceHistogram`, which counts both.

    Guarantee: epsilon-DP for each label: a replaced label moves the sum of one group by at most grid - 1 steps.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, eq. (23), on a grid and with
    the right scale (`docs/corrections.md`).
    """

    domain_wanted: ClassVar[str] = "Interval, such as Interval(0, 100, grid=1025), or two classes"

    def __post_init__(self, groups: Any) -> None:
        super().__post_init__(groups)
        self._calibrate()

    def _calibrate(self) -> None:
        if self.rate < MIN_RATE:
            raise InputError("epsilon is too small for a grid as fine as this one: take fewer grid points")

    @classmethod
    def takes(cls, domain: Domain) -> bool:
        """Whether it is a mechanism on such labels."""
        return isinstance(domain, Interval) or (isinstance(domain, Classes) and domain.size == 2)

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
        """Of the noise on each sum, in the unit of the labels: (high - low) / epsilon; of a mean, that over n_l."""
        return self._step / float(self.rate)

    @property
    def _low(self) -> float:
        """The label with the code 0; of two classes it is 0, and the other 1."""
        return self.domain.low if isinstance(self.domain, Interval) else 0.0

    @property
    def _step(self) -> float:
        """The distance of two codes."""
        return self.domain.step if isinstance(self.domain, Interval) else 1.0

    @property
    def published(self) -> str:
        """What leaves, in words."""
        return f"noisy sums of {self.partition.count} groups of records, by {self}"

    def privacy_loss(self) -> PrivacyLoss:
        """Pure epsilon: exact at delta = 0, an upper bound elsewhere."""
        return PrivacyLoss.pure(self.epsilon)

    def counts(self, labels: Any) -> Counts:
        """Sums of codes of each group, shape (groups, 1). They are private."""
        codes = self.domain.check_codes(labels)
        self.check_records(len(codes))
        # Sums of integers below 2**53 are exact in doubles.
        sums = np.bincount(self.partition.of_record, weights=codes, minlength=self.partition.count)
        return sums.astype(np.int64)[:, None]

    def release_counts(self, counts: Counts, *, rng: Any) -> Counts:
        """Noisy sums, shape (groups,)."""
        randomness = as_bound(rng)
        noise = discrete_laplace(WordStream(randomness, randomness.record_ids(None, counts.size)), self.rate)
        return counts[:, 0] + noise

    def means(self, released: Any, sizes: Any) -> NDArray[np.float64]:
        """Noisy mean labels of groups, or shares of the second class, not clipped, shape (groups,); NaN if empty.

        Args:
            released: what this mechanism released, shape (groups,).
            sizes: how many records each group has, public, shape (groups,).
        """
        count = np.where(np.asarray(sizes) > 0, sizes, np.nan)
        return np.asarray(self._low + self._step * np.asarray(released) / count, dtype=np.float64)

    def law(self, counts: Any) -> NDArray[np.float64]:
        """The law of a noisy sum between `edges`, for the sum (1,) of one group."""
        return self.law_between(self.edges(), counts)

    def law_between(self, edges: NDArray[np.int64], counts: Any) -> NDArray[np.float64]:
        """The same between other edges."""
        return geometric_law(float(self.rate), edges - int(np.asarray(counts)[0]))

    def edges(self) -> NDArray[np.int64]:
        """Places between which a noisy sum is told apart: about three scales of the noise around zero."""
        return np.unique(np.rint(np.linspace(-3, 3, 13) / float(self.rate)).astype(np.int64))

    def outcome(self, released: NDArray[Any], counts: Any) -> NDArray[np.intp]:
        """Between which edges each noisy sum lies."""
        return np.searchsorted(self.edges(), released)

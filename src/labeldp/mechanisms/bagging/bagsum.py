"""Noisy sums over bags: the aggregation that is worth having where bags are alike in their features."""

from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.aggregation.checks import one_of
from labeldp.mechanisms.bagging.bags import Bagged
from labeldp.mechanisms.coins import MIN_RATE, Integers, WordStream, discrete_laplace, geometric_law
from labeldp.mechanisms.discrete_gaussian import discrete_gaussian, gaussian_law, gaussian_loss, smallest_stddev
from labeldp.privacy import (
    InputError,
    PrivacyLoss,
    all_digits,
    as_bound,
    decimal,
    float_within,
    positive_epsilon,
)

NOISES = "laplace", "gaussian"
FINE = 1 << 10
"""Gaussian sums have at least so many steps in the range of a label: rounding costs a millionth of the variance."""


@final
@dataclass(frozen=True)
class BagSum(Bagged):
    """The sum of the labels of each bag, with integer noise.

    Use it with bags that are alike in their features: then a bag's mean says nearly what each label would, and its
    noise is that of one label divided by the size. With random bags, aggregation buys nothing.

    Args:
        domain, size, bags, features, seed: as in `Bagged`.
        noise: "laplace" for the pure guarantee, or "gaussian".
        epsilon: privacy parameter, positive.
        delta: of Gaussian noise, in (0, 1); 0 with Laplace noise.

    Guarantee: (epsilon, delta)-DP for each label, for the emitted bits, whatever the labels are: bags do not overlap,
    so a replaced label moves one sum by at most the width of the range. With Laplace noise delta is 0.

    Raises:
        InputError: bags that overlap or are smaller than asked, or a parameter out of range.

    Source: Canonne, Algorithm 2 and Definition 1, for the noise. Proof: `docs/proofs/bags.md`.

    Examples:
        >>> from labeldp.mechanisms import Interval
        >>> from labeldp.privacy import Public
        >>> rows = Public(np.arange(256.0)[:, None], why="made up")
        >>> sums = BagSum(64, bags="median", noise="laplace", domain=Interval(0, 10), epsilon=1.0, features=rows)
        >>> sums.partition.count, round(sums.noise_stddev, 2)
        (4, 14.14)
    """

    noise: str = "laplace"
    _: KW_ONLY
    epsilon: float
    delta: float = 0.0

    def __post_init__(self, bags: Any, features: Any, seed: int) -> None:
        super().__post_init__(bags, features, seed)
        object.__setattr__(self, "epsilon", float_within(positive_epsilon(self.epsilon)))
        one_of(self.noise, "noise", NOISES)
        delta = decimal(self.delta, "delta")
        object.__setattr__(self, "delta", float_within(delta) if delta > 0 else float(delta))
        if not 0 <= delta < 1 or (self.noise == "gaussian") != (delta > 0):
            raise InputError('delta must lie in (0, 1) with noise="gaussian", and be 0 with noise="laplace"')
        self._calibrate()

    def _calibrate(self) -> None:
        """Refuse what no noise of 64 bits can promise."""
        if self.noise == "laplace" and self.rate < MIN_RATE:
            raise InputError("epsilon is too small for a grid as fine as this one: take fewer grid points")
        if self.records * self.sensitivity >= 1 << 62:
            raise InputError("the sums do not fit into 64 bits: take a coarser grid of labels")
        self.noise_stddev  # refuses what does not fit  # noqa: B018

    def with_epsilon(self, epsilon: float) -> "BagSum":
        """The same description at another epsilon."""
        other = self.replaced(epsilon=float_within(positive_epsilon(epsilon)))
        other._calibrate()
        return other

    @property
    def fine(self) -> int:
        """Steps of the released sums in one step of the labels."""
        return 1 if self.noise == "laplace" else -(-FINE // (self.domain.size - 1))

    @property
    def sensitivity(self) -> int:
        """The steps by which one label can move a sum."""
        return self.fine * (self.domain.size - 1)

    @property
    def rate(self) -> Fraction:
        """Laplace noise i has probability proportional to e^(-rate |i|)."""
        return positive_epsilon(self.epsilon) / self.sensitivity

    @cached_property
    def stddev(self) -> int:
        """Of Gaussian noise, in steps."""
        exact = positive_epsilon(self.epsilon), decimal(self.delta, "delta")
        return smallest_stddev(self.sensitivity**2, 1, *exact)

    @property
    def noise_stddev(self) -> float:
        """The standard deviation of the noise on each sum, in the unit of the labels."""
        steps = 2**0.5 / (2 * np.sinh(float(self.rate) / 2)) if self.noise == "laplace" else self.stddev
        return float(steps * float(self.step / self.fine))

    def privacy_loss(self) -> PrivacyLoss:
        """Pure epsilon, or a Gaussian loss and a failure below 10^-33 that stands for the integers."""
        if self.noise == "laplace":
            return PrivacyLoss.pure(self.epsilon)
        return gaussian_loss(self.sensitivity**2, self.stddev, 1)

    def parameters(self) -> dict[str, Any]:
        """Size, bags, noise, epsilon and delta."""
        own = {"noise": self.noise, "epsilon": str(positive_epsilon(self.epsilon))}
        gaussian = {"delta": str(decimal(self.delta, "delta")), "stddev": self.stddev} if self.delta else {}
        return {**super().parameters(), **own, **gaussian}

    @property
    def published(self) -> str:
        """What leaves, in words."""
        return (
            f"the noisy sum of the labels of each of {self.partition.count} bags, and who is in which, of "
            f"{self.labels_in_words}, by {self}"
        )

    def sums(self, labels: Any) -> Integers:
        """Sums of the codes of each bag in fine steps, shape (bags,). They are private."""
        codes = self.domain.check_codes(labels)
        self.check_records(len(codes))
        total = np.zeros(self.partition.count, dtype=np.int64)
        np.add.at(total, self.partition.of_record, codes.astype(np.int64))
        return total * self.fine

    def randomize(self, labels: Any, *, rng: Any, ids: Any = None) -> Integers:
        """Noisy sums in fine steps, shape (bags,); record ids are not used. See `Mechanism.randomize`."""
        sums = self.sums(labels)
        return sums + self.drawn(len(sums), rng=self.bound(rng))

    def drawn(self, count: int, *, rng: Any) -> Integers:
        """Noise in fine steps, shape (count,): the bare map, without labels."""
        randomness = as_bound(rng)
        stream = WordStream(randomness, randomness.record_ids(None, count))
        return (
            discrete_laplace(stream, self.rate) if self.noise == "laplace" else discrete_gaussian(stream, self.stddev)
        )

    def noise_law(self, edges: NDArray[np.int64]) -> NDArray[np.float64]:
        """P(noise <= edges[0]), P(edges[0] < noise <= edges[1]), …, P(noise > edges[-1]): for tests and planning."""
        laplace = self.noise == "laplace"
        return geometric_law(float(self.rate), edges) if laplace else gaussian_law(self.stddev, edges)

    def totals(self, released: Any) -> NDArray[np.float64]:
        """Noisy sums in the unit of the labels, unbiased, shape (bags,)."""
        steps = np.asarray(released, dtype=np.float64)
        return np.asarray(float(self.low) * self.sizes + float(self.step / self.fine) * steps, dtype=np.float64)

    def means(self, released: Any) -> NDArray[np.float64]:
        """Noisy mean labels, unbiased and not clipped, shape (bags,)."""
        return self.totals(released) / self.sizes

    def __str__(self) -> str:
        delta = f", delta = {all_digits(self.delta)}" if self.delta else ""
        return f"BagSum of {self.size} records with {self.noise} noise, epsilon = {all_digits(self.epsilon)}{delta}"

"""One noisy indicator for each class: Gaussian noise on the label itself."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.base import EpsilonMechanism
from labeldp.mechanisms.coins import Integers, RecordStream
from labeldp.mechanisms.debias import Debiased
from labeldp.mechanisms.discrete_gaussian import discrete_gaussian, gaussian_law, gaussian_loss, smallest_stddev
from labeldp.mechanisms.domains import Classes, Codes
from labeldp.privacy import (
    BLOCK,
    Ids,
    InputError,
    PrivacyLoss,
    Randomness,
    all_digits,
    decimal,
    positive_epsilon,
)

STEPS = 1 << 10
"""Grid steps in one indicator: the rounding of the noise to integers costs less than a millionth of its variance."""


@final
@dataclass(frozen=True, kw_only=True)
class GaussianOneHot(EpsilonMechanism):
    """The indicators of the classes with Gaussian noise on integers, as small as (epsilon, delta) allows.

    Use it where labels enter linearly: gradients of a loss, sums. The noise of a sum of vectors, one for each class,
    depends on how far they are apart and not on their dimension. As single labels the numbers are harder to use than
    `RandomizedResponse`.

    Args:
        domain: `Classes`, K = its size.
        epsilon: privacy parameter, positive.
        delta: in (0, 1), the decimal as written.

    Guarantee: (epsilon, delta)-DP for each label, for the emitted bits: two labels lie at a distance of exactly √2.

    Source: Ghazi, Algorithm 6, with the noise moved from the gradients to the label, by Canonne, Kamath, Steinke (2020)
    in integers. Proof: `docs/proofs/cross_moment.md`.

    Examples:
        >>> mechanism = GaussianOneHot(domain=Classes(10), epsilon=1.0, delta=1e-6)
        >>> round(mechanism.noise_stddev, 3)
        5.975
    """

    domain: Classes
    delta: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.domain, Classes):
            raise InputError("domain must be Classes, such as Classes(10)")
        if not 0 < decimal(self.delta, "delta") < 1:
            raise InputError("delta must lie in (0, 1), such as delta=1e-6; RandomizedResponse has delta = 0")
        self._calibrate()

    def _calibrate(self) -> None:
        self.stddev  # refuses what does not fit  # noqa: B018

    @property
    def sensitivity_square(self) -> int:
        """The squared distance of two labels, in squared steps: exact."""
        return 2 * STEPS**2

    @cached_property
    def stddev(self) -> int:
        """Of the noise, in steps."""
        exact = positive_epsilon(self.epsilon), decimal(self.delta, "delta")
        return smallest_stddev(self.sensitivity_square, self.domain.size, *exact)

    @property
    def noise_stddev(self) -> float:
        """The standard deviation of the noise on each indicator."""
        return self.stddev / STEPS

    def privacy_loss(self) -> PrivacyLoss:
        """A Gaussian loss, and a failure probability below 10^-25 that stands for the integers."""
        return gaussian_loss(self.sensitivity_square, self.stddev, self.domain.size)

    def parameters(self) -> dict[str, Any]:
        """Epsilon, delta and the noise."""
        return {**super().parameters(), "delta": str(decimal(self.delta, "delta")), "stddev": self.stddev}

    @property
    def published(self) -> str:
        """What leaves, in words."""
        return f"{self.domain.size} noisy class indicators for each record, by {self}"

    def encoded(self, codes: Codes) -> Integers:
        """The indicators in steps, shape (n, K). They are private."""
        return STEPS * (codes[:, None] == np.arange(self.domain.size)).astype(np.int64)

    def randomize(self, labels: Any, *, rng: Any, ids: Any = None) -> Integers:
        """Noisy indicators in steps, shape (n, K); see `Mechanism.randomize`."""
        codes = self.domain.check_codes(labels)
        randomness = self.bound(rng, ids)
        names = randomness.record_ids(ids, len(codes))
        noisy = np.empty((len(codes), self.domain.size), dtype=np.int64)
        for start in range(0, len(codes), BLOCK):
            part = slice(start, start + BLOCK)
            noisy[part] = self.encoded(codes[part]) + self._noise(randomness, names[part])
        return noisy

    def _noise(self, randomness: Randomness, names: Ids) -> Integers:
        """Noise in steps, shape (n, K): each class has randomness of its own."""
        sources = (randomness.bind(f"class {j}".encode()) for j in range(self.domain.size))
        return np.stack([discrete_gaussian(RecordStream(each, names), self.stddev) for each in sources], axis=1)

    def indicators(self, noisy: Any) -> NDArray[np.float64]:
        """What was released, one for an indicator, shape (n, K): unbiased, and not yet with rows that sum to 1.

        Raises:
            InputError: not integers of this shape.
        """
        array = np.asarray(noisy)
        if array.dtype.kind != "i" or array.ndim != 2 or array.shape[1] != self.domain.size:
            raise InputError(f"noisy must be integers of this mechanism, shape (n, {self.domain.size})")
        return array / STEPS

    def unbiased(self, noisy: Any) -> Debiased:
        """Unbiased indicators, shape (n, K), rows sum to 1: the noise in their common part is taken out."""
        values = self.indicators(noisy)
        return Debiased(values - (values.sum(axis=1, keepdims=True) - 1) / self.domain.size, 1.0)

    def log_likelihood(self, noisy: Any) -> NDArray[np.float64]:
        """log P(noisy | class), shape (n, K), up to a constant in each row: with a prior's logarithm, a posterior's.

        Source: `docs/proofs/cross_moment.md`: -(1/2σ²)|v - e_k|² is v_k / σ² and a part that all classes share.
        """
        return self.indicators(noisy) / self.noise_stddev**2

    def noise_law(self, edges: NDArray[np.int64]) -> NDArray[np.float64]:
        """P(noise <= edges[0]), P(edges[0] < noise <= edges[1]), …, P(noise > edges[-1]): for tests and planning."""
        return gaussian_law(self.stddev, edges)

    def __str__(self) -> str:
        return f"{type(self).__name__} with epsilon = {all_digits(self.epsilon)}, delta = {all_digits(self.delta)}"

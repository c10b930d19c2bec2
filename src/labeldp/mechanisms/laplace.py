"""Additive noise for numeric labels on a grid."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import exp, expm1
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.base import FiniteMechanism, Table, Weights, refuse_large, words_for
from labeldp.mechanisms.debias import Debiased
from labeldp.mechanisms.domains import Codes, Interval
from labeldp.mechanisms.sampler import AliasTable
from labeldp.privacy import WORD, Ids, InputError, PrivacyLoss, Randomness, exp_bounds, positive_epsilon

MAX_GRID = (1 << 20) + 1
_PRECISION = 192


@final
@dataclass(frozen=True, kw_only=True)
class DiscreteLaplace(FiniteMechanism):
    """Two-sided geometric noise on the grid of an interval, then clipped to the interval.

    The noise has scale (high - low) / epsilon. Clipping is part of the mechanism and loses nothing
    that `debias` cannot give back: it moves what lies at the two ends.

    Args:
        domain: `Interval`, with at most 2**20 + 1 grid points.
        epsilon: privacy parameter, positive.

    Guarantee: epsilon-DP for each label, exactly, for the emitted bits.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, eq. (20), on a grid;
    Ghosh, Roughgarden, Sundararajan (2009) for the clipped geometric mechanism.
    Proof: `docs/proofs/discrete_laplace.md`.
    """

    domain: Interval

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.domain, Interval):
            raise InputError("domain must be an Interval, such as Interval(0, 100, grid=1025)")
        if self.domain.grid > MAX_GRID:
            raise InputError(f"domain must have a grid of at most {MAX_GRID} points for DiscreteLaplace")
        self._calibrate()

    def _calibrate(self) -> None:
        self.half  # refuses an epsilon too small for the grid  # noqa: B018

    @property
    def reach(self) -> int:
        """N: the largest noise, in grid steps."""
        return self.domain.size - 1

    @property
    def rate(self) -> Fraction:
        """The noise i has probability proportional to e^(-rate |i|)."""
        return positive_epsilon(self.epsilon) / self.reach

    @property
    def scale(self) -> float:
        """The scale of the noise before clipping, in the unit of the labels: (high - low) / epsilon."""
        return self.domain.step / float(self.rate)

    @cached_property
    def half(self) -> list[int]:
        """Weights of the noise 0, 1, …, N, where N stands for everything beyond; the negative side is the same.

        All but the peak are rounded up, the peak takes what is left.
        """
        one = 1 << _PRECISION
        low, high = exp_bounds(-self.rate, bits=_PRECISION + 64)
        decay = -(-one * high.numerator // high.denominator)
        tail = Fraction(1) / (1 + low)
        power, weights = one, []
        for _ in range(1, self.reach):
            power = -(-power * decay // one)
            weights.append(_rounded_up(power, (1 - low) * tail))
        weights.append(_rounded_up(-(-power * decay // one), tail))
        half = [WORD - 2 * sum(weights), *weights]
        self._check(half, exp_bounds(positive_epsilon(self.epsilon))[0])
        return half

    def _check(self, half: list[int], growth: Fraction) -> None:
        """The guarantee in integers: the worst ratios are at the clipped ends and beside them."""
        at_end = WORD - sum(half[1:])
        falling = all(a >= b for a, b in pairwise(half[:-1]))
        inner = half[0] <= growth * half[-2] if self.reach > 1 else True
        if not (half[0] > 0 and falling and inner and at_end <= growth * half[-1]):
            raise InputError("epsilon is too small for a grid as fine as this one: take fewer grid points")

    @cached_property
    def _alias(self) -> AliasTable:
        return AliasTable.of([*self.half[:0:-1], *self.half])

    def privacy_loss(self) -> PrivacyLoss:
        """Pure epsilon: exact at delta = 0, an upper bound elsewhere."""
        return PrivacyLoss.pure(self.epsilon)

    def tables(self) -> list[Table]:
        """One row: the noise -N to N, which is added and clamped."""
        return [Table(np.array([[*self.half[:0:-1], *self.half]], dtype=object), "noise and clamp")]

    def weights(self) -> Weights:
        """Exact weights over the grid, shape (grid, grid)."""
        size, reach = self.domain.size, self.reach
        refuse_large(size**2)
        noise = [*self.half[:0:-1], *self.half]
        weights = np.zeros((size, size), dtype=object)
        for y in range(size):
            weights[y, 1:reach] = noise[reach + 1 - y : 2 * reach - y]
            weights[y, 0] = sum(noise[: reach - y + 1])
            weights[y, reach] = sum(noise[2 * reach - y :])
        return weights

    def sample(self, codes: Codes, start: int, randomness: Randomness, ids: Ids) -> Codes:
        """One block of noisy codes, shape (n,)."""
        noise = self._alias.draw(words_for(randomness, ids)) - self.reach
        return np.clip(codes + noise, 0, self.reach).astype(codes.dtype)

    def unbiased(self, noisy: Any) -> Debiased:
        """Unbiased labels, shape (n,), in their unit: the ends of the range move outwards by a / (1 - a) steps."""
        decay, lost = exp(-float(self.rate)), -expm1(-float(self.rate))
        values = self.domain.decode(noisy)
        codes = self.domain.check_codes(noisy)
        outwards = (codes == self.reach).astype(np.float64) - (codes == 0)
        step: float = self.domain.step
        # The rows of the inverse in the middle of the grid sum up to more than the two at its ends.
        condition = ((1 + decay) / lost) ** (2 if self.reach > 1 else 1)
        return Debiased(values + outwards * step * decay / lost, condition)

    def unbiased_squares(self, noisy: Any, centers: Any) -> NDArray[np.float64]:
        """Unbiased squared distances of the true labels from numbers, shape (n,), in the square of their unit.

        Of a function f of the label, f(z) - a / (1 - a)^2 (f(z + 1) - 2 f(z) + f(z - 1)) is unbiased inside of the
        grid, and at an end f(z) - a / (1 - a) times what f grows by, one step inwards.

        Args:
            noisy: codes, shape (n,).
            centers: one number for each, made without these labels, shape (n,), in the unit of the labels.
        """
        rate, step = float(self.rate), self.domain.step
        decay, lost = exp(-rate), -expm1(-rate)
        codes = self.domain.check_codes(noisy)
        away = (self.domain.decode(codes) - np.asarray(centers, dtype=np.float64)) / step
        outwards = (codes == self.reach).astype(np.float64) - (codes == 0)
        inner, end = 2 * decay / lost**2, decay / lost * (1 - 2 * outwards * away)
        return np.asarray((away**2 - np.where(outwards, end, inner)) * step**2)


def _rounded_up(power: int, factor: Fraction) -> int:
    """power / 2**_PRECISION * factor, in units of 2**-64, rounded up."""
    return -(-power * factor.numerator * WORD // (factor.denominator << _PRECISION))

"""A square root of the matrix that sums up rounds, as a sum of few exponentials, and both norms that noise needs."""

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from labeldp.online.checks import whole

Floats = NDArray[np.float64]

STEP, REACH = 2.5, 4.0
"""Distance of the nodes of the quadrature, in the logarithm, and how far they go beyond 1 / horizon and 1."""


def square_root_norm(horizon: int) -> float:
    """c_T: the sum of the squares of C(2k, k) / 4^k for k < horizon, the product of both norms of the true square root.

    Source: Fichtenberger (2023), Theorem 1, and Henzinger (2023); the first 4096 terms, and the integral of the others.
    """
    head = min(horizon, 4096)
    numbers = np.arange(1, head)
    squares = float((np.cumprod(np.r_[1.0, (2 * numbers - 1) / (2 * numbers)]) ** 2).sum())
    # C(2k, k)^2 / 16^k = (1 - 1 / (4 k) + O(1 / k^2)) / (pi k), and so 1 / (pi (k + 1/4)) up to O(1 / k^3).
    return squares + math.log((horizon - 0.25) / (head - 0.25)) / math.pi


@final
@dataclass(frozen=True)
class ToeplitzFactor:
    """A factorization A = B C of the matrix that sums up rounds, C a sum of exponentials near the square root of A.

    C is lower triangular and Toeplitz with coefficients c_k = sum_j weights[j] (1 - gaps[j])^k, a quadrature of
    C(2k, k) / 4^k = 1/pi int_0^1 t^k (t (1 - t))^(-1/2) dt, so that few numbers sum up all rounds that went by. What is
    released is C x + noise, and B only follows from it.

    Guarantee: `column` is never below the norm of the first column of C.

    Source: Henzinger (2023), for the square root; Dvijotham (2024), for sums of exponentials.
    """

    horizon: int
    gaps: Floats = field(repr=False)
    weights: Floats = field(repr=False)

    def column(self, rounds: int | None = None) -> float:
        """Norm of the longest column of C among its first `rounds` rows (default: the horizon), rounded up."""
        count = self.horizon if rounds is None else rounds
        return (1 + 1e-9) * math.sqrt(_gram(self.weights, self.gaps, count)) if count else 0.0

    @cached_property
    def row(self) -> float:
        """Norm of the longest row of B: standard deviation of the last sum's noise, of noise with deviation 1."""
        gaps, weights = _inverse(self.gaps, self.weights)
        first = 1 / self.weights.sum()
        return math.sqrt(_gram(weights, gaps, self.horizon) - weights.sum() ** 2 + first**2)

    @property
    def product(self) -> float:
        """The product of both norms, at least `square_root_norm(horizon)`."""
        return self.column() * self.row

    @property
    def reach(self) -> float:
        """A bound of what the sum of |C x| over exponentials can be where no |x| exceeds 1."""
        return float((self.weights * np.minimum(1 / self.gaps, self.horizon)).sum())


@lru_cache(maxsize=64)
def toeplitz_factor(horizon: int) -> ToeplitzFactor:
    """The factor that is used for so many rounds: its product is within 1 % of `square_root_norm(horizon)`.

    Takes microseconds for any horizon: both norms are closed forms.

    Raises:
        InputError: the horizon is not an integer of at least 1.
    """
    whole("horizon", horizon, 1)
    low = -(math.log(horizon) + REACH)
    places = low + STEP * np.arange(math.ceil((REACH - low) / STEP) + 1)
    gaps, rest = 1 / (1 + np.exp(-places)), 1 / (1 + np.exp(places))
    return ToeplitzFactor(horizon, gaps, STEP / math.pi * np.sqrt(gaps * rest))


def _gram(weights: Floats, gaps: Floats, count: int) -> float:
    """Sum over k < count of (sum_j weights[j] (1 - gaps[j])^k)^2, from geometric sums of non-negative terms."""
    both = gaps[:, None] + gaps - gaps[:, None] * gaps
    with np.errstate(divide="ignore", invalid="ignore"):
        sums = np.where(both > 0, -np.expm1(count * np.log1p(-both)) / both, count)
    return float((weights[:, None] * weights * sums).sum())


def _inverse(gaps: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """The exponentials of B = A C^-1, whose coefficients after the first are sums of them.

    1 / sum_j weights[j] / (gaps[j] - s) has one pole between every two gaps; that of the sum, at 0, joins them.
    """
    low, high = gaps[:-1].copy(), gaps[1:].copy()
    for _ in range(80):
        middle = (low + high) / 2
        above = (weights / (gaps - middle[:, None])).sum(axis=1) > 0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    poles = (low + high) / 2
    slopes = (weights / (gaps - poles[:, None]) ** 2).sum(axis=1)
    return np.r_[0.0, poles], np.r_[1 / (weights / gaps).sum(), 1 / (poles * slopes * (1 - poles))]

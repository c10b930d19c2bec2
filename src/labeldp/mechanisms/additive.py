"""Noise added to each label: on the grid of an interval, and on indicators of classes; integer Gaussian noise."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.base import Debiased, FiniteMechanism, Mechanism, Table, Weights, refuse_large, words_for
from labeldp.mechanisms.domains import Classes, Codes, Interval, require_domain
from labeldp.privacy import (
    BLOCK,
    WORD,
    Argument,
    Ids,
    InputError,
    Integers,
    PrivacyLoss,
    Randomness,
    RandomSource,
    check_delta,
    decimal,
    exp_bounds,
    largest,
    positive_epsilon,
    set_fields,
    sqrt_above,
)
from labeldp.sampling import (
    MAX_CELLS,
    MAX_STDDEV,
    MIN_STDDEV,
    SMOOTHING,
    AliasTable,
    RecordStream,
    discrete_gaussian,
    gaussian_law,
)

CELL_FAILURE = Fraction(1, 1 << 110)
"""What each integer adds to delta: how far the proof's noise is from the exact one, 2 exp(-2 pi^2 SMOOTHING) or so."""

MIN_MU = 2.0**-60
"""No Gaussian loss of a mechanism has a smaller mu."""

MAX_MU = 2.0**10
"""No Gaussian loss of a mechanism has a larger mu."""


def gaussian_loss(sensitivity_square: int, stddev: int, cells: int) -> PrivacyLoss:
    """Return what `cells` integers reveal of an integer vector that moves by at most a given length.

    Args:
        sensitivity_square: squared Euclidean length of the largest move.
        stddev: of `discrete_gaussian`, added to each integer; at least `MIN_STDDEV`.
        cells: how many integers.

    Guarantee (dominates): the loss dominates that of the exact integer noise for every pair of vectors so close.

    Source: `docs/proofs/sums-and-counts.md`: mu = sensitivity / sqrt(stddev^2 - SMOOTHING), and `CELL_FAILURE` each.
    """
    square = Fraction(sensitivity_square, stddev**2 - SMOOTHING)
    return PrivacyLoss.gaussian(sqrt_above(square)) + PrivacyLoss.failure(cells * CELL_FAILURE)


@lru_cache
def largest_mu(epsilon: Fraction, delta: Fraction) -> float:
    """Return mu of the largest Gaussian loss that keeps (epsilon, delta) with the failure of `MAX_CELLS` integers.

    It depends on nothing else: a charge of this loss is fixed before earlier outputs may decide what is summed.
    """
    mu = largest(lambda mu: loss_of(mu).within(epsilon, delta), 0.0, MAX_MU, tol=1e-9, lowest=MIN_MU)
    if not mu:
        raise _too_small("take larger ones")
    return mu


def loss_of(mu: float) -> PrivacyLoss:
    """Return a Gaussian loss, and the failure of `MAX_CELLS` integers."""
    return PrivacyLoss.gaussian(mu) + PrivacyLoss.failure(MAX_CELLS * CELL_FAILURE)


def stddev_within(sensitivity_square: int, mu: float) -> int:
    """Return the smallest integer standard deviation at which `gaussian_loss` has at most this mu."""
    stddev = max(math.isqrt(math.ceil(sensitivity_square / Fraction(mu) ** 2) + SMOOTHING - 1) + 1, MIN_STDDEV)
    if stddev > MAX_STDDEV:
        raise _too_small("take a coarser resolution")
    return stddev


def smallest_stddev(sensitivity_square: int, cells: int, epsilon: Fraction, delta: Fraction) -> int:
    """Return the smallest integer standard deviation that keeps (epsilon, delta), by bisection.

    Raises:
        InputError: no noise that fits into 64 bits does.

    Source: Balle and Wang (2018), Algorithm 1, for the continuous part of `gaussian_loss`.
    """
    if not gaussian_loss(sensitivity_square, MAX_STDDEV, cells).within(epsilon, delta):
        raise _too_small("take a coarser resolution")
    # Not `smallest_integer`: where rounding blurs the border, its other path gives another integer, and other noise.
    low, high = MIN_STDDEV - 1, MAX_STDDEV
    while high - low > 1:
        middle = (low + high) // 2
        fits = gaussian_loss(sensitivity_square, middle, cells).within(epsilon, delta)
        low, high = (low, middle) if fits else (middle, high)
    return high


def _too_small(advice: str) -> InputError:
    problem = f" is too small for integer noise of 64 bits: {advice}"
    return InputError(Argument("epsilon"), " or ", Argument("delta"), problem)


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

    Guarantee (pure): epsilon-DP for each label, exactly, for the emitted bits.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, eq. (20), on a grid;
    Ghosh, Roughgarden, Sundararajan (2009) for the clipped geometric mechanism.
    Proof: `docs/proofs/finite-mechanisms.md`.
    """

    domain: Interval = field(kw_only=False)
    half: list[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_domain(self.domain, "numbers")
        if self.domain.grid > MAX_GRID:
            raise InputError(f"must have a grid of at most {MAX_GRID} points for DiscreteLaplace", argument="domain")
        self._calibrate()

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

    def _calibrate(self) -> None:
        """Compute the weights of the noise 0, 1, …, N, where N stands for everything beyond: `half`.

        The negative side is the same. All weights but the peak are rounded up, the peak takes what is left. The
        guarantee is checked in integers: the worst ratios are at the clipped ends and beside them.
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
        growth = exp_bounds(positive_epsilon(self.epsilon))[0]
        at_end = WORD - sum(half[1:])
        falling = all(a >= b for a, b in pairwise(half[:-1]))
        inner = half[0] <= growth * half[-2] if self.reach > 1 else True
        if not (half[0] > 0 and falling and inner and at_end <= growth * half[-1]):
            raise InputError("is too small for a grid as fine as this one: take fewer grid points", argument="epsilon")
        set_fields(self, half=half)

    @cached_property
    def _alias(self) -> AliasTable:
        return AliasTable.of([*self.half[:0:-1], *self.half])

    def privacy_loss(self) -> PrivacyLoss:
        """Pure epsilon: exact at delta = 0, an upper bound elsewhere."""
        return PrivacyLoss.pure(self.epsilon)

    def describe_noise(self, number: Callable[[float], str] = str) -> str:
        return (
            f"Each label has discrete Laplace noise of scale {number(self.scale)}, in the unit of the labels, and is "
            "clipped to the range."
        )

    @property
    def published(self) -> str:
        return f"one noisy number per record (discrete Laplace noise, scale {self.scale:.3g}, clipped to the range)"

    def tables(self) -> list[Table]:
        return [Table(np.array([[*self.half[:0:-1], *self.half]], dtype=object), "noise and clamp")]

    def weights(self) -> Weights:
        """Return exact weights over the grid, shape (grid, grid)."""
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
        noise = self._alias.draw(words_for(randomness, ids)) - self.reach
        return np.clip(codes + noise, 0, self.reach).astype(codes.dtype)

    def unbiased(self, noisy: Any) -> Debiased:
        """Unbiased labels, shape (n,), in their unit: the ends of the range move outwards by a / (1 - a) steps."""
        decay, lost = math.exp(-float(self.rate)), -math.expm1(-float(self.rate))
        values = self.domain.decode(noisy)
        codes = self.domain.check_codes(noisy)
        outwards = (codes == self.reach).astype(np.float64) - (codes == 0)
        step: float = self.domain.step
        # The rows of the inverse in the middle of the grid sum up to more than the two at its ends.
        condition = ((1 + decay) / lost) ** (2 if self.reach > 1 else 1)
        return Debiased(values + outwards * step * decay / lost, condition)

    def unbiased_squares(self, noisy: Any, centers: Any) -> NDArray[np.float64]:
        """Return unbiased squared distances of the true labels from numbers, shape (n,), in the square of their unit.

        Of a function f of the label, f(z) - a / (1 - a)^2 (f(z + 1) - 2 f(z) + f(z - 1)) is unbiased inside of the
        grid, and at an end f(z) - a / (1 - a) times what f grows by, one step inwards.

        Args:
            noisy: codes, shape (n,).
            centers: one number for each, made without these labels, shape (n,), in the unit of the labels.
        """
        rate, step = float(self.rate), self.domain.step
        decay, lost = math.exp(-rate), -math.expm1(-rate)
        codes = self.domain.check_codes(noisy)
        away = (self.domain.decode(codes) - np.asarray(centers, dtype=np.float64)) / step
        outwards = (codes == self.reach).astype(np.float64) - (codes == 0)
        inner, end = 2 * decay / lost**2, decay / lost * (1 - 2 * outwards * away)
        return np.asarray((away**2 - np.where(outwards, end, inner)) * step**2)


def _rounded_up(power: int, factor: Fraction) -> int:
    return -(-power * factor.numerator * WORD // (factor.denominator << _PRECISION))


STEPS_IN_INDICATOR = 1 << 10
"""Grid steps in one indicator: the rounding of the noise to integers costs less than a millionth of its variance."""


@final
@dataclass(frozen=True, kw_only=True)
class GaussianOneHot(Mechanism):
    """The indicators of the classes with Gaussian noise on integers, as small as (epsilon, delta) allows.

    Use it for sums and gradients, which are linear in the labels: their noise depends on the distances of the vectors
    of the classes and not on their dimension. Single answers are harder to use than those of `RandomizedResponse`.

    Args:
        delta: in (0, 1), the decimal as written.

    Guarantee (approximate): (epsilon, delta)-DP for each label, for the emitted bits: two labels lie at a distance of
        exactly √2.

    Source: Ghazi, Algorithm 6, with the noise moved from the gradients to the label, by Canonne, Kamath, Steinke (2020)
    in integers. Proof: `docs/proofs/sums-and-counts.md`.

    Examples:
        >>> mechanism = GaussianOneHot(domain=Classes(10), epsilon=1.0, delta=1e-6)
        >>> round(mechanism.noise_stddev, 3)
        5.975
    """

    domain: Classes = field(kw_only=False)
    epsilon: float = field(kw_only=False)
    plain: ClassVar[tuple[str, ...]] = ("epsilon", "delta")
    delta: float
    stddev: int = field(init=False, repr=False, compare=False)
    contract: ClassVar[str] = "labeldp.testing.contract:check_indicators"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_domain(self.domain, "classes")
        check_delta(self.delta, advice="; RandomizedResponse has delta = 0")
        self._calibrate()

    def _calibrate(self) -> None:
        exact = positive_epsilon(self.epsilon), decimal(self.delta, "delta")
        set_fields(self, stddev=smallest_stddev(self.sensitivity_square, self.domain.size, *exact))

    @property
    def sensitivity_square(self) -> int:
        """The squared distance of two labels, in squared steps: exact."""
        return 2 * STEPS_IN_INDICATOR**2

    @property
    def noise_stddev(self) -> float:
        """The standard deviation of the noise on each indicator."""
        return self.stddev / STEPS_IN_INDICATOR

    def privacy_loss(self) -> PrivacyLoss:
        """Return a Gaussian loss, and a failure probability below 10^-25 that stands for the integers."""
        return gaussian_loss(self.sensitivity_square, self.stddev, self.domain.size)

    def parameters(self) -> dict[str, Any]:
        return {**super().parameters(), "delta": str(decimal(self.delta, "delta")), "stddev": self.stddev}

    @property
    def published(self) -> str:
        return f"{self.domain.size} noisy class indicators per record (Gaussian noise, sd {self.noise_stddev:.3g})"

    def encoded(self, codes: Codes) -> Integers:
        """Return the indicators in steps, shape (n, K). They are private."""
        return STEPS_IN_INDICATOR * (codes[:, None] == np.arange(self.domain.size)).astype(np.int64)

    def randomize(self, labels: Any, *, rng: RandomSource, ids: Any = None) -> Integers:
        """Return noisy indicators in steps, shape (n, K); see `Mechanism.randomize`."""
        codes = self.domain.check_codes(labels)
        randomness = self.bound(rng, ids)
        names = randomness.record_ids(ids, len(codes))
        noisy = np.empty((len(codes), self.domain.size), dtype=np.int64)
        for start in range(0, len(codes), BLOCK):
            part = slice(start, start + BLOCK)
            noisy[part] = self.encoded(codes[part]) + self._noise(randomness, names[part])
        return noisy

    def _noise(self, randomness: Randomness, names: Ids) -> Integers:
        """Draw noise in steps, shape (n, K), from separate randomness for each class."""
        sources = (randomness.bind(f"class {j}".encode()) for j in range(self.domain.size))
        return np.stack([discrete_gaussian(RecordStream(source, names), self.stddev) for source in sources], axis=1)

    def indicators(self, noisy: Any) -> NDArray[np.float64]:
        """Return unbiased indicators, shape (n, K), whose rows do not sum to 1 yet.

        Raises:
            InputError: not integers of this shape.
        """
        array = np.asarray(noisy)
        if array.dtype.kind != "i" or array.ndim != 2 or array.shape[1] != self.domain.size:
            raise InputError(f"must be integers of this mechanism, shape (n, {self.domain.size})", argument="noisy")
        return array / STEPS_IN_INDICATOR

    def unbiased(self, noisy: Any) -> Debiased:
        """Return unbiased indicators, shape (n, K), rows sum to 1: the noise in their common part is taken out."""
        values = self.indicators(noisy)
        return Debiased(values - (values.sum(axis=1, keepdims=True) - 1) / self.domain.size, 1.0)

    def noise_law(self, edges: NDArray[np.int64]) -> NDArray[np.float64]:
        """P(noise <= edges[0]), P(edges[0] < noise <= edges[1]), …, P(noise > edges[-1]): for tests and planning."""
        return gaussian_law(self.stddev, edges)

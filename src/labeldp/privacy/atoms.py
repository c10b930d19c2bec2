"""The pieces that privacy losses are made of."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from labeldp.privacy.exact import MAX_EPSILON, WORD, exp_bounds, float_above, float_below
from labeldp.privacy.validate import Floats, stored_fraction

Json = dict[str, Any]

# How a field of a declared type is written to JSON and read from it, exactly.
_FIELDS: dict[Any, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    int: (int, lambda value: _count(value)),
    str: (str, str),
    float: (float.hex, lambda text: _ordinary(float.fromhex(text))),
    Fraction: (str, lambda text: _ordinary(stored_fraction(text))),
    int | None: (lambda value: value, lambda value: None if value is None else _count(value)),
    tuple[Fraction, ...]: (
        lambda values: [str(value) for value in values],
        lambda texts: tuple(map(stored_fraction, texts)),
    ),
}


class Atom(ABC):
    """The privacy loss of one release, a frozen dataclass; a `PrivacyLoss` is made of sequences of atoms.

    Its constructor raises ValueError where no such loss exists, or where its curve could not be computed.
    """

    kind: ClassVar[str]
    """Its name in JSON."""

    @property
    @abstractmethod
    def max_loss(self) -> Fraction | None:
        """The largest privacy loss of an output, or None where it is unbounded."""

    @abstractmethod
    def least(self, epsilon: Fraction) -> float:
        """Return a lower end of its delta at one epsilon >= 0: no sequence with this atom has a smaller delta."""

    def to_json(self) -> Json:
        """Return plain JSON values, exact."""
        values = {part.name: _FIELDS[part.type][0](getattr(self, part.name)) for part in fields(self)}  # type: ignore[arg-type]
        return {"kind": self.kind, **values}

    @classmethod
    def from_json(cls, value: Json) -> Self:
        """Return the atom that `to_json` wrote.

        Raises:
            ValueError: no such loss exists.
        """
        return cls(**{part.name: _FIELDS[part.type][1](value[part.name]) for part in fields(cls)})  # type: ignore[arg-type]


@dataclass(frozen=True)
class Response(Atom):
    """K-ary randomized response: the privacy loss is +epsilon, -epsilon or, for K > 2, zero.

    With K = 2 it dominates every epsilon-DP mechanism, so it also stands for a pure guarantee.

    Source: Kairouz, Oh, Viswanath, The composition theorem for differential privacy (2015), Theorem 3.3, for K = 2;
    for K > 2 `docs/proofs/finite-mechanisms.md`.
    """

    kind = "response"
    epsilon: Fraction
    classes: int

    def __post_init__(self) -> None:
        _require(0 < self.epsilon <= MAX_EPSILON and 2 <= self.classes <= MOST)

    @property
    def max_loss(self) -> Fraction:
        return self.epsilon

    def masses(self) -> list[tuple[Fraction, Fraction]]:
        """Return pairs (loss, mass), each mass rounded up."""
        low, high = exp_bounds(self.epsilon)
        alternatives = self.classes - 1
        keep, lie = high / (high + alternatives), 1 / (low + alternatives)
        return [(self.epsilon, keep), (-self.epsilon, lie), (Fraction(0), (self.classes - 2) * lie)]

    def least(self, epsilon: Fraction) -> float:
        gained = -math.expm1(min(0.0, float(epsilon - self.epsilon)))
        return gained / (1 + (self.classes - 1) * math.exp(-float(self.epsilon))) * (1 - _LEAST_ERROR)

    def __str__(self) -> str:
        return f"randomized response over {self.classes} answers with epsilon = {float_above(self.epsilon):g}"


@dataclass(frozen=True)
class Discrete(Atom):
    """A finite privacy loss distribution: `losses[i]` happens with probability `probabilities[i]`.

    It must be the loss ln(P/Q) of a pair of distributions, with its probabilities under P: they sum to 1, and those
    under Q, probability * e^-loss, to at most 1. Both hold in exact arithmetic, without a tolerance. Rounding may raise
    the first sum by `MOST_ADDED`. An infinite loss is a `Failure`.

    Guarantee (of_a_pair): no accepted list has a smaller delta than some pair of distributions, at any epsilon.

    Source: `docs/proofs/composition.md`, finite lists.
    """

    kind = "discrete"
    losses: tuple[Fraction, ...]
    probabilities: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        _require(0 < len(self.losses) == len(self.probabilities) <= MAX_MASSES)
        _require(max(map(abs, self.losses)) <= 2 * MAX_EPSILON and min(self.probabilities) >= 0)
        numbers, common = (*self.losses, *self.probabilities), 1
        _require(max(max(map(int.bit_length, number.as_integer_ratio())) for number in numbers) <= MAX_BITS)
        for mass in self.probabilities:
            common = math.lcm(common, mass.denominator)
            _require(common.bit_length() <= 2 * MAX_BITS)
        total = Fraction(sum(int(mass * common) for mass in self.probabilities), common)
        _require(1 <= total <= 1 + MOST_ADDED and self._other_sum() <= 1)

    def _other_sum(self) -> Fraction:
        """Return the sum of the probabilities under Q, rounded up."""
        level = sum((mass for loss, mass in self.masses() if not loss), Fraction(0))
        above = sum(math.ceil(mass * exp_bounds(-loss)[1] * _GRID) for loss, mass in self.masses() if loss and mass)
        return level + Fraction(above, _GRID)

    @classmethod
    def rounded(cls, losses: tuple[Fraction, ...], probabilities: tuple[Fraction, ...]) -> Self:
        """Return a list that was made of a pair, or one with larger losses where rounding kept it from being accepted.

        Probabilities of smaller losses are rounded down to multiples of 2^-64. What is cut off, and what is missing of
        1, goes to the largest loss. If that is not enough, the smallest loss gives one more 2^-64.

        Args:
            losses: at least one, rounded up.
            probabilities: one for each loss; they sum to 1, or to less by at most `MOST_ADDED`.

        Raises:
            ValueError: it is not the loss of a pair of distributions.
        """
        total, top = sum(probabilities, Fraction(0)), losses.index(max(losses))
        _require(total >= 1 - MOST_ADDED)
        floors = [Fraction(math.floor(mass * WORD), WORD) for mass in probabilities]
        floors[top] = max(total, Fraction(1)) - sum(floors[:top] + floors[top + 1 :])
        bottom = min((index for index, mass in enumerate(floors) if mass), key=losses.__getitem__)
        moved = [mass + Fraction((index == top) - (index == bottom), WORD) for index, mass in enumerate(floors)]
        for masses in (probabilities, tuple(floors)):
            with suppress(ValueError):
                return cls(losses, masses)
        return cls(losses, tuple(moved))

    @property
    def max_loss(self) -> Fraction:
        return max(self.losses)

    def masses(self) -> list[tuple[Fraction, Fraction]]:
        """Return pairs (loss, mass)."""
        return list(zip(self.losses, self.probabilities, strict=True))

    @cached_property
    def _floats(self) -> tuple[Floats, Floats]:
        return np.array([*map(float, self.losses)]), np.array([*map(float, self.probabilities)])

    def least(self, epsilon: Fraction) -> float:
        losses, masses = self._floats
        gaps = losses - float(epsilon)
        gaps -= 2.0**-50 * (np.abs(losses) + float(epsilon))
        return float(masses @ -np.expm1(-np.maximum(gaps, 0.0))) * (1 - _LEAST_ERROR)

    def __str__(self) -> str:
        return f"a discrete loss of at most {float_above(self.max_loss):g}"


@dataclass(frozen=True)
class Gaussian(Atom):
    """Gaussian differential privacy: no easier to tell apart than N(0, 1) from N(mu, 1).

    Source: Dong, Roth, Su, Gaussian differential privacy (2019), Definition 2.1.
    """

    kind = "gaussian"
    mu: float

    def __post_init__(self) -> None:
        _require(0 < self.mu < math.inf)

    @property
    def max_loss(self) -> None:
        return None

    def least(self, epsilon: Fraction) -> float:
        gained, lost = gaussian_terms(float(epsilon), self.mu, -1.0)
        return max(0.0, gained - lost - SMALLEST)

    def __str__(self) -> str:
        return f"a Gaussian loss with mu = {self.mu:g}"


@dataclass(frozen=True)
class Failure(Atom):
    """With probability delta everything may be revealed: the loss is infinite."""

    kind = "failure"
    delta: Fraction

    def __post_init__(self) -> None:
        _require(0 <= self.delta <= 1)

    @property
    def max_loss(self) -> Fraction | None:
        return None if self.delta > 0 else Fraction(0)

    def least(self, epsilon: Fraction) -> float:
        return float_below(self.delta)

    def __str__(self) -> str:
        return f"a failure probability of {float_above(self.delta):g}"


Ends = tuple[Floats, Floats]
"""Lower and upper ends of a curve, shape as the epsilons that were asked for."""


class NumericAtom(Atom):
    """An atom whose delta(epsilon) is computed between certified ends; its loss may be unbounded."""

    @abstractmethod
    def ends(self, epsilons: Floats) -> Ends:
        """Return the lower and upper ends of delta at each epsilon >= 0, shape as given."""

    def upper(self, epsilons: Floats) -> Floats:
        """Return the upper ends alone: no guarantee needs the others."""
        return self.ends(epsilons)[1]

    @abstractmethod
    def reversed(self) -> "NumericAtom":
        """Return the loss of the same pair of laws, exchanged."""

    @property
    def max_loss(self) -> Fraction | None:
        return None

    @cached_property
    def reach(self) -> float:
        """A loss beyond which nothing that matters is left; at most 64."""
        reach = 1.0
        while reach < _MAX_REACH and self.upper(np.array([reach]))[0] > NEGLIGIBLE_DELTA:
            reach *= 2
        return reach

    @cached_property
    def _lowest(self) -> tuple[Floats, Floats]:
        """A few epsilons, and a lower end of delta at each; zero for the last."""
        epsilons = np.linspace(0.0, self.reach, LOWEST_POINTS)
        lower = np.nan_to_num(self.ends(epsilons)[0], nan=0.0) * (1 - _LEAST_ERROR)
        return epsilons, np.append(lower, 0.0)

    def least(self, epsilon: Fraction) -> float:
        epsilons, lower = self._lowest
        return float(lower[np.searchsorted(epsilons, math.nextafter(float(epsilon), math.inf))])

    def delta(self, epsilon: Fraction) -> float:
        """Return the upper end of delta at one epsilon >= 0."""
        below = min(max(0.0, math.nextafter(float(epsilon), -math.inf)), _MAX_EPSILON)  # delta falls with epsilon
        return min(1.0, float(self.upper(np.array([below]))[0]))


@dataclass(frozen=True)
class BoundedRange(NumericAtom):
    """The loss of any mechanism whose log-ratios under two labels lie in an interval of length eta.

    The exponential mechanism is one. Its curve is that of logistic noise moved by eta, and is its own exchange.

    Guarantee (bounded_range): no such mechanism has a larger delta, and it composes like any other curve.

    Source: DongDurfeeRogers, the reduction to generalized randomized response; `docs/proofs/composition.md`.
    """

    kind = "bounded range"
    eta: Fraction

    def __post_init__(self) -> None:
        _require(0 < self.eta <= MAX_EPSILON)

    def ends(self, epsilons: Floats) -> Ends:
        """Return the lower and upper ends of delta at each epsilon >= 0, shape as given."""
        eta = max(float_above(self.eta), SMALLEST)
        gaps, error = eta - epsilons, 2.0**-50 * (eta + epsilons)
        lower, upper = (
            np.expm1(-np.maximum(gap, 0) / 2) ** 2 / -np.expm1(-eta) for gap in (gaps - error, gaps + error)
        )
        return lower * (1 - _CURVE_ERROR), np.where(gaps + error > 0, upper * (1 + _CURVE_ERROR), 0.0)

    def reversed(self) -> "BoundedRange":
        """Return the loss itself: its curve is its own exchange."""
        return self

    @property
    def max_loss(self) -> Fraction:
        return self.eta

    @cached_property
    def reach(self) -> float:
        """The largest loss."""
        return min(float_above(self.eta), _MAX_REACH)

    def __str__(self) -> str:
        return f"a loss within a range of {float_above(self.eta):g}"


def normal_cdf(x: float) -> float:
    """Return P(N(0, 1) <= x), within a relative error of 1e-12 for |x| <= 37 (tested against 50 digits)."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def gaussian_terms(epsilon: float, mu: float, side: float) -> tuple[float, float]:
    """Return Phi(mu/2 - epsilon/mu) and e^epsilon Phi(-mu/2 - epsilon/mu), so that their difference is rounded.

    Args:
        epsilon: of any sign.
        side: 1 to round the difference up, -1 to round it down.

    Source: Balle and Wang (2018), Theorem 8.
    """
    half, ratio = mu / 2, epsilon / mu
    shift = side * 2.0**-51 * (half + abs(ratio)) if max(half, abs(ratio)) > _EXACT_ARGUMENT else 0.0
    if not math.isfinite(shift):
        return (1.0, 0.0) if side > 0 else (0.0, 0.0)
    gained, reach = normal_cdf(half - ratio + shift) * (1 + side * _NORMAL_ERROR), -half - ratio - shift
    if epsilon < _LARGE_EXPONENT and reach > _FAR:
        return gained, math.exp(epsilon) * normal_cdf(reach) * (1 - side * _NORMAL_ERROR)
    if side > 0:
        return gained, 0.0
    return gained, math.exp(_FAR) if epsilon < min(_LARGE_EXPONENT, reach * reach / 4) else 1.0


def _count(value: Any) -> int:
    """Return a count that a file holds; raise ValueError if it is none, or larger than any of a release."""
    _require(type(value) is int)
    return int(_ordinary(value))


def _ordinary(value: Any) -> Any:
    """Return a number that a file holds; raise ValueError if no parameter of a release is so large."""
    _require(abs(value) <= MOST)
    return value


def _require(possible: bool) -> None:
    if not possible:
        raise ValueError("the parameters of a privacy loss are out of range")


NEGLIGIBLE_DELTA = 1e-20
"""A curve ends where its upper delta is at most this."""

SMALLEST = 1e-300
"""Added to upper ends, in place of what underflows."""

MOST = 10**18
"""No count, and no parameter of a release, is larger."""

MAX_MASSES, MAX_BITS = 4096, 1 << 12
"""The most masses of a finite list, and the most bits of one of its numbers."""

MOST_ADDED = Fraction(1, 1 << 40)
"""By so much the masses of a finite list may exceed 1."""

LOWEST_POINTS = 64
"""Places at which the lower end of a curve is kept."""

_GRID = 1 << 256

_CURVE_ERROR, _NORMAL_ERROR, _LEAST_ERROR = 1e-14, 1e-12, 1e-9

_EXACT_ARGUMENT, _LARGE_EXPONENT, _FAR = 74.0, 700.0, -37.0
"""Up to which arguments are rounded within `_NORMAL_ERROR`; beyond which exponentials and tails are left out."""

_MAX_REACH = 64.0

_MAX_EPSILON = 1e6

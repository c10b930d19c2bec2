"""The pieces that privacy losses are made of."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from labeldp.privacy.exact import exp_bounds, float_above
from labeldp.privacy.validate import Floats, stored_fraction

Json = dict[str, Any]

# How a field of a declared type is written to JSON and read from it, exactly.
_FIELDS: dict[Any, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    int: (int, int),
    str: (str, str),
    float: (float.hex, lambda text: _ordinary(float.fromhex(text))),
    Fraction: (str, lambda text: _ordinary(stored_fraction(text))),
    int | None: (lambda value: value, lambda value: None if value is None else int(value)),
    tuple[Fraction, ...]: (
        lambda values: [str(value) for value in values],
        lambda texts: tuple(map(stored_fraction, texts)),
    ),
}


class Atom(ABC):
    """The privacy loss of one release, a frozen dataclass; a `PrivacyLoss` is made of sequences of atoms.

    Its constructor raises ValueError where no such loss exists.
    """

    kind: ClassVar[str]
    """Its name in JSON."""

    @property
    @abstractmethod
    def max_loss(self) -> Fraction | None:
        """The largest privacy loss of an output, or None where it is unbounded."""

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
        _require(self.epsilon > 0 and self.classes >= 2)

    @property
    def max_loss(self) -> Fraction:
        return self.epsilon

    def masses(self) -> list[tuple[Fraction, Fraction]]:
        """Return pairs (loss, mass), each mass rounded up."""
        low, high = exp_bounds(self.epsilon)
        alternatives = self.classes - 1
        keep, lie = high / (high + alternatives), 1 / (low + alternatives)
        return [(self.epsilon, keep), (-self.epsilon, lie), (Fraction(0), (self.classes - 2) * lie)]

    def __str__(self) -> str:
        return f"randomized response over {self.classes} answers with epsilon = {float_above(self.epsilon):g}"


@dataclass(frozen=True)
class Discrete(Atom):
    """A finite privacy loss distribution: `losses[i]` happens with probability `probabilities[i]`."""

    kind = "discrete"
    losses: tuple[Fraction, ...]
    probabilities: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        _require(len(self.losses) == len(self.probabilities) > 0 <= min(self.probabilities) and max(self.losses) >= 0)

    @property
    def max_loss(self) -> Fraction:
        return max(self.losses)

    def masses(self) -> list[tuple[Fraction, Fraction]]:
        """Return pairs (loss, mass)."""
        return list(zip(self.losses, self.probabilities, strict=True))

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
        _require(self.eta > 0)

    def ends(self, epsilons: Floats) -> Ends:
        """Return the lower and upper ends of delta at each epsilon >= 0, shape as given."""
        eta = float(self.eta)
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


def _ordinary(value: Any) -> Any:
    """Return a number that a file holds; raise ValueError if no parameter of a release is so large."""
    _require(abs(value) <= _MOST)
    return value


def _require(possible: bool) -> None:
    if not possible:
        raise ValueError("the parameters of a privacy loss are out of range")


NEGLIGIBLE_DELTA = 1e-20
"""A curve ends where its upper delta is at most this."""

_CURVE_ERROR = 1e-14

_MOST = 10**18

_MAX_REACH = 64.0

_MAX_EPSILON = 1e6

"""Pieces of a loss: Response, Discrete, Gaussian, Failure, Curve."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from labeldp.privacy.arrays import Floats
from labeldp.privacy.exact import exp_bounds, shortest_float

Json = dict[str, Any]


@dataclass(frozen=True)
class Response:
    """K-ary randomized response: the privacy loss is +epsilon, -epsilon or, for K > 2, zero.

    With K = 2 it dominates every epsilon-DP mechanism, so it also stands for a pure guarantee.

    Source: Kairouz, Oh, Viswanath, The composition theorem for differential privacy (2015), Theorem 3.3, for K = 2;
    for K > 2 `docs/proofs/randomized_response.md`.
    """

    epsilon: Fraction
    classes: int

    @property
    def max_loss(self) -> Fraction:
        """The largest privacy loss of an output."""
        return self.epsilon

    def masses(self) -> list[tuple[Fraction, Fraction]]:
        """Pairs (loss, mass), each mass rounded up."""
        low, high = exp_bounds(self.epsilon)
        others = self.classes - 1
        keep, lie = high / (high + others), 1 / (low + others)
        return [(self.epsilon, keep), (-self.epsilon, lie), (Fraction(0), (self.classes - 2) * lie)]

    def covers(self, other: "Atom") -> bool:
        """True when every composition with `other` is dominated by the same one with `self`."""
        return isinstance(other, Response) and other.epsilon <= self.epsilon and other.classes >= self.classes

    def to_json(self) -> Json:
        """As plain JSON values, exact."""
        return {"kind": "response", "epsilon": str(self.epsilon), "classes": self.classes}

    def __str__(self) -> str:
        return f"randomized response over {self.classes} answers with epsilon = {shortest_float(self.epsilon):g}"


@dataclass(frozen=True)
class Discrete:
    """A finite privacy loss distribution: `losses[i]` happens with probability `probabilities[i]`."""

    losses: tuple[Fraction, ...]
    probabilities: tuple[Fraction, ...]

    @property
    def max_loss(self) -> Fraction:
        """The largest privacy loss of an output."""
        return max(self.losses)

    def masses(self) -> list[tuple[Fraction, Fraction]]:
        """Pairs (loss, mass)."""
        return list(zip(self.losses, self.probabilities, strict=True))

    def covers(self, other: "Atom") -> bool:
        """True only for the same distribution: a shortcut, never needed for correctness."""
        return self == other

    def to_json(self) -> Json:
        """As plain JSON values, exact."""
        return {"kind": "discrete", "losses": _texts(self.losses), "probabilities": _texts(self.probabilities)}

    def __str__(self) -> str:
        return f"a discrete loss of at most {shortest_float(self.max_loss):g}"


@dataclass(frozen=True)
class Gaussian:
    """Gaussian differential privacy: no easier to tell apart than N(0, 1) from N(mu, 1).

    Source: Dong, Roth, Su, Gaussian differential privacy (2019), Definition 2.1.
    """

    mu: float

    @property
    def max_loss(self) -> None:
        """The loss is unbounded."""
        return None

    def covers(self, other: "Atom") -> bool:
        """A larger mu covers a smaller one."""
        return isinstance(other, Gaussian) and other.mu <= self.mu

    def to_json(self) -> Json:
        """As plain JSON values, exact."""
        return {"kind": "gaussian", "mu": self.mu.hex()}

    def __str__(self) -> str:
        return f"a Gaussian loss with mu = {self.mu:g}"


@dataclass(frozen=True)
class Failure:
    """With probability delta everything may be revealed: the loss is infinite."""

    delta: Fraction

    @property
    def max_loss(self) -> Fraction | None:
        """Unbounded, unless delta is zero."""
        return None if self.delta > 0 else Fraction(0)

    def covers(self, other: "Atom") -> bool:
        """A larger delta covers a smaller one."""
        return isinstance(other, Failure) and other.delta <= self.delta

    def to_json(self) -> Json:
        """As plain JSON values, exact."""
        return {"kind": "failure", "delta": str(self.delta)}

    def __str__(self) -> str:
        return f"a failure probability of {shortest_float(self.delta):g}"


Ends = tuple[Floats, Floats]
"""Lower and upper ends of a curve, shape as the epsilons that were asked for."""


class Curve(ABC):
    """An atom whose delta(epsilon) is computed between certified ends; its loss is unbounded."""

    @abstractmethod
    def ends(self, epsilons: Floats) -> Ends:
        """Lower and upper ends of delta at each epsilon >= 0, shape as given."""

    @abstractmethod
    def reversed(self) -> "Curve":
        """The loss of the same pair with its two laws exchanged."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """As plain JSON values, exact."""

    @property
    def max_loss(self) -> None:
        """The loss is unbounded."""
        return None

    @cached_property
    def reach(self) -> float:
        """A loss beyond which nothing that matters is left; at most 64."""
        reach = 1.0
        while reach < _LARGEST and self.ends(np.array([reach]))[1][0] > _NEGLIGIBLE:
            reach *= 2
        return reach

    def covers(self, other: object) -> bool:
        """True only for the same loss: a shortcut, never needed for correctness."""
        return self == other

    def delta(self, epsilon: Fraction) -> float:
        """The upper end of delta at one epsilon >= 0."""
        below = min(max(0.0, math.nextafter(float(epsilon), -math.inf)), _LAST)  # delta falls with epsilon
        return min(1.0, float(self.ends(np.array([below]))[1][0]))


Atom = Response | Discrete | Gaussian | Failure | Curve


def normal_cdf(x: float) -> float:
    """P(N(0, 1) <= x), within a relative error of 1e-12 for |x| <= 37 (tested against 50 digits)."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def _texts(values: tuple[Fraction, ...]) -> list[str]:
    return [str(value) for value in values]


def _fractions(texts: list[str]) -> tuple[Fraction, ...]:
    return tuple(Fraction(text) for text in texts)


ROUNDING = 3e-11
"""Relative error of the floating-point sums below, at most (tested against 40 digits)."""

_CELLS = 1024

_ENTRIES = 1 << 18

_NEGLIGIBLE = 1e-20

_LARGEST = 64.0

_LAST = 1e6

"""The pieces that a privacy loss is made of: each the loss of one dominating pair of distributions."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from labeldp.privacy.bags import Curve, HiddenWeights, NoisyBag
from labeldp.privacy.exact import exp_bounds, shortest_float
from labeldp.privacy.switching import Switching

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


Atom = Response | Discrete | Gaussian | Failure | Curve


def atom_from_json(value: Json) -> Atom:
    """The inverse of `to_json`.

    Raises:
        ValueError: no such loss exists.
    """
    atom = _atom(value)
    if not _possible(atom):
        raise ValueError("the parameters of a privacy loss are out of range")
    return atom


def _possible(atom: Atom) -> bool:
    """True when the parameters are those of a loss that never goes below zero cost."""
    if isinstance(atom, Response):
        return atom.epsilon > 0 and atom.classes >= 2
    if isinstance(atom, Gaussian):
        return 0 < atom.mu < math.inf
    if isinstance(atom, Failure):
        return 0 <= atom.delta <= 1
    if isinstance(atom, Curve):
        return True  # Its constructor has refused what is not.
    return len(atom.losses) == len(atom.probabilities) > 0 and min(atom.probabilities) >= 0


def _atom(value: Json) -> Atom:
    kind = value["kind"]
    if kind == "response":
        return Response(Fraction(value["epsilon"]), int(value["classes"]))
    if kind == "discrete":
        return Discrete(_fractions(value["losses"]), _fractions(value["probabilities"]))
    if kind == "gaussian":
        return Gaussian(float.fromhex(value["mu"]))
    if kind == "failure":
        return Failure(Fraction(value["delta"]))
    if kind == "noisy bag":
        records = None if value["records"] is None else int(value["records"])
        ratio = float.fromhex(value["ratio"])
        return NoisyBag(str(value["weights"]), ratio, int(value["size"]), int(value["noisy"]), records)
    if kind == "hidden weights":
        return HiddenWeights(float.fromhex(value["stretch"]), float.fromhex(value["shrink"]), int(value["rows"]))
    if kind == "switching":
        counts = (int(value[name]) for name in ("batch", "batches", "swing", "chains"))
        return Switching(float.fromhex(value["rate"]), float.fromhex(value["redraw"]), *counts)
    raise ValueError(f"unknown kind of privacy loss: {kind}")


def normal_cdf(x: float) -> float:
    """P(N(0, 1) <= x), within a relative error of 1e-12 for |x| <= 37 (tested against 50 digits)."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def _texts(values: tuple[Fraction, ...]) -> list[str]:
    return [str(value) for value in values]


def _fractions(texts: list[str]) -> tuple[Fraction, ...]:
    return tuple(Fraction(text) for text in texts)

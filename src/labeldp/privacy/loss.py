"""The privacy loss of releases: how it composes, what it guarantees, and budgets for it."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from labeldp.privacy.atoms import Atom, BoundedRange, Discrete, Ends, Failure, Gaussian, Json, NumericAtom, Response
from labeldp.privacy.composition import Sequence, delta_of, failures, finite_losses, max_loss, within
from labeldp.privacy.errors import Argument, InputError
from labeldp.privacy.exact import decimal, decimal_text, float_above, positive_epsilon, smallest
from labeldp.privacy.validate import Floats


@dataclass(frozen=True)
class Largest(NumericAtom):
    """The pointwise maximum of curves: each record meets one of them, and which one may depend on earlier outputs.

    Args:
        curves: at least one.

    Guarantee (largest): it composes like any other curve, and no release that one of them dominates costs more.

    Source: `docs/proofs/composition.md`, the largest of curves.
    """

    kind = "largest"
    curves: tuple[NumericAtom, ...]

    def __post_init__(self) -> None:
        if not 0 < len(self.curves) <= MOST_CURVES:
            raise ValueError("the largest of no curves is none, and that of too many is not computed")

    def reversed(self) -> "Largest":
        """Return the largest of the reversed curves."""
        return Largest(tuple(curve.reversed() for curve in self.curves))

    def ends(self, epsilons: Floats) -> Ends:
        """Return the lower and upper ends of delta at each epsilon >= 0, shape as given."""
        lower, upper = zip(*(curve.ends(epsilons) for curve in self.curves), strict=True)
        return np.max(lower, axis=0), np.max(upper, axis=0)

    def upper(self, epsilons: Floats) -> Floats:
        """Return the upper ends alone."""
        return np.asarray(np.max([curve.upper(epsilons) for curve in self.curves], axis=0))

    def to_json(self) -> Json:
        """Return plain JSON values, exact."""
        return {"kind": self.kind, "curves": [curve.to_json() for curve in self.curves]}

    @classmethod
    def from_json(cls, value: Json) -> "Largest":
        """Return the atom that `to_json` wrote; raise ValueError if no such loss exists."""
        curves = tuple(_atom_from_json(curve) for curve in value["curves"])
        if not all(isinstance(curve, NumericAtom) and not isinstance(curve, Largest) for curve in curves):
            raise ValueError("the largest is one of curves")
        return cls(curves)  # type: ignore[arg-type]

    def __str__(self) -> str:
        return f"the largest of {', '.join(map(str, self.curves))}"


_OWN = (Response, Discrete, Gaussian, Failure, BoundedRange, Largest)

ATOMS = {
    **{atom.kind: f"{atom.__module__}:{atom.__name__}" for atom in _OWN},
    "noisy bag": "labeldp.bags.losses:NoisyBag",
    "hidden weights": "labeldp.bags.losses:HiddenWeights",
    "switching": "labeldp.online.experts.renyi:Switching",
}
"""Where each kind of atom is defined, by its name in JSON."""


@dataclass(frozen=True)
class PrivacyLoss:
    """The privacy loss of a release, or of many: composable, and always rounded against us.

    It is a sequence of atoms; `a + b` releases both about the same label.

    Guarantee (never_below): `delta(epsilon)` is never below the true one. Proof: `docs/proofs/composition.md`.

    Examples:
        >>> ten = PrivacyLoss.response(0.1, classes=10) * 10
        >>> ten.epsilon(delta=0.0)
        1.0
        >>> round(PrivacyLoss.response(1.0, classes=10).delta(0.5), 4)
        0.0913
    """

    atoms: Sequence = ()

    @classmethod
    def zero(cls) -> "PrivacyLoss":
        """Return the loss of releases that do not depend on labels."""
        return cls()

    @classmethod
    def pure(cls, epsilon: Any) -> "PrivacyLoss":
        """Return the loss of any epsilon-DP mechanism: that of binary randomized response, which dominates it."""
        return cls.response(epsilon, classes=2)

    @classmethod
    def response(cls, epsilon: Any, classes: int) -> "PrivacyLoss":
        """Return the exact loss of randomized response over `classes` noisy labels; a single one costs nothing."""
        if classes < 1:
            raise InputError("must be at least 1", argument="classes")
        return cls(((Response(positive_epsilon(epsilon), classes), 1),)) if classes > 1 else cls()

    @classmethod
    def bounded_range(cls, eta: Any) -> "PrivacyLoss":
        """Return the loss of any mechanism whose log-ratios under two labels lie in an interval of length eta."""
        return cls.curve(BoundedRange(positive_epsilon(eta)))

    @classmethod
    def failure(cls, delta: Any) -> "PrivacyLoss":
        """Return the loss of revealing everything with probability delta, and otherwise nothing."""
        exact = decimal(delta, "delta")
        if not 0 <= exact <= 1:
            raise InputError("must lie in [0, 1]", argument="delta")
        return cls(((Failure(exact), 1),)) if exact else cls()

    @classmethod
    def approximate(cls, epsilon: Any, delta: Any) -> "PrivacyLoss":
        """Return the loss of any (epsilon, delta)-DP mechanism."""
        return cls.pure(epsilon) + cls.failure(delta)

    @classmethod
    def gaussian(cls, mu: float) -> "PrivacyLoss":
        """Return the loss of Gaussian differential privacy with mu = sensitivity / stddev."""
        if not (mu > 0 and math.isfinite(mu)):
            raise InputError("mu must be positive and finite")
        return cls(((Gaussian(float(mu)), 1),))

    @classmethod
    def curve(cls, curve: NumericAtom) -> "PrivacyLoss":
        """Return the loss of a pair of laws whose curve is computed, such as `NoisyBag` or `HiddenWeights`."""
        return cls(((curve, 1),))

    @classmethod
    def discrete(cls, losses: Iterable[Any], probabilities: Iterable[Any]) -> "PrivacyLoss":
        """Return the loss ln(P/Q) of a dominating pair of distributions (P, Q) on finitely many outputs.

        Where rounding keeps a list from being accepted, up to 2^-64 of each probability goes to the largest loss. An
        infinite loss is a `failure`.

        Args:
            losses: from -2000 to 2000, rounded up; at most 4096.
            probabilities: of the losses under P; they sum to 1.

        Raises:
            InputError: no pair of distributions has this loss.
        """
        pairs = sorted(
            (decimal(a, "losses"), decimal(b, "probabilities")) for a, b in zip(losses, probabilities, strict=True)
        )
        if not pairs or any(mass < 0 for _, mass in pairs):
            raise InputError("probabilities must not be negative, one for each of one or more losses")
        try:
            atom = Discrete.rounded(*map(tuple, zip(*pairs, strict=True)))
        except ValueError:
            raise InputError(
                "losses and probabilities must be those of a pair of distributions: probabilities sum to 1, and "
                "probabilities * exp(-losses) to at most 1. Round losses up, and all probabilities but that of the "
                "largest loss down; an infinite loss is PrivacyLoss.failure"
            ) from None
        return cls(((atom, 1),))

    def __add__(self, other: "PrivacyLoss") -> "PrivacyLoss":
        """Return the loss of both releases about the same labels."""
        return PrivacyLoss.total([(self, 1), (other, 1)])

    def __mul__(self, times: int) -> "PrivacyLoss":
        """Return the loss of the same release `times` times, with fresh noise."""
        if not isinstance(times, int) or not 1 <= times <= MOST_TIMES:
            raise InputError(f"times must be an integer, at least 1 and at most {MOST_TIMES}")
        return PrivacyLoss(tuple((atom, count * times) for atom, count in self.atoms))

    @classmethod
    def total(cls, counted: Iterable[tuple["PrivacyLoss", int]]) -> "PrivacyLoss":
        """Return the loss of many releases about the same labels, as (loss, how many of it)."""
        atoms: Counter[Atom] = Counter()
        for loss, times in counted:
            for atom, count in loss.atoms:
                atoms[atom] += count * times
        return cls(_canonical(atoms))

    def covers(self, other: "PrivacyLoss") -> bool:
        """Return True only if this loss is that of another one and of more releases."""
        return Counter(dict(other.atoms)) <= Counter(dict(self.atoms))

    @classmethod
    def covering(cls, losses: Iterable["PrivacyLoss"]) -> "PrivacyLoss":
        """Return a loss that covers each of several. An atom occurs as often as in the loss that has it most often."""
        atoms: Counter[Atom] = Counter()
        for loss in losses:
            atoms |= Counter(dict(loss.atoms))
        return cls(_canonical(atoms))

    @property
    def max_loss(self) -> Fraction | None:
        """The exact pure epsilon, or None where there is none."""
        return max_loss(self.atoms)

    def delta(self, epsilon: Any) -> float:
        """Return the smallest delta in [0, 1] that this bound can guarantee at `epsilon` >= 0, rounded up."""
        exact = decimal(epsilon, "epsilon")
        if exact < 0:
            raise InputError("must not be negative", argument="epsilon")
        return delta_of(self.atoms, exact)

    def epsilon(self, delta: Any = 0.0) -> float:
        """Return the smallest epsilon that this bound can guarantee at `delta` in [0, 1], rounded up, or infinity."""
        exact = decimal(delta, "delta")
        if not 0 <= exact <= 1:
            raise InputError("must lie in [0, 1]", argument="delta")
        bound = self.max_loss
        if exact == 0:
            return math.inf if bound is None else float_above(bound)
        return _invert(self.atoms, exact)

    def within(self, epsilon: Any, delta: Any) -> bool:
        """Return whether (epsilon, delta) covers this loss; in exact decimals where no bound of a curve is needed."""
        return within(self.atoms, decimal(epsilon, "epsilon"), decimal(delta, "delta"))

    def kinks(self) -> list[Fraction]:
        """Return every non-negative epsilon at which a curve of finite atoms can change its slope in e^epsilon."""
        return sorted({Fraction(0), *(loss for loss in finite_losses(self.atoms) if loss > 0)})

    def to_json(self) -> list[Any]:
        """Return plain JSON values, exact: one row of atoms."""
        return [[{**atom.to_json(), "times": count} for atom, count in self.atoms]]

    @classmethod
    def from_json(cls, value: list[Any]) -> "PrivacyLoss":
        """Return the loss that `to_json` wrote."""
        [row] = value
        atoms: Counter[Atom] = Counter()
        for part in row:
            atom = {name: part[name] for name in part if name != "times"}
            atoms[_atom_from_json(atom)] += checked_times(part["times"])
        return cls(_canonical(atoms))

    def __str__(self) -> str:
        return " and ".join(f"{count} times {atom}" for atom, count in self.atoms) or "nothing"


@dataclass(frozen=True)
class RecordLoss:
    """The privacy loss of the record that pays most: one loss for each place that a record may have.

    It is read and not composed. The place of a record does not depend on other releases.

    Args:
        losses: of the places, at least one.
        max_loss: the exact pure epsilon, or None where there is none.
    """

    losses: tuple[PrivacyLoss, ...]
    max_loss: Fraction | None

    @classmethod
    def worst(cls, several: Iterable["RecordLoss"]) -> "RecordLoss":
        """Return the loss of the record that pays most of several groups of records."""
        groups = list(several)
        bounds = [group.max_loss for group in groups]
        largest = None if None in bounds else max((bound for bound in bounds if bound is not None), default=Fraction(0))
        return cls(tuple(dict.fromkeys(loss for group in groups for loss in group.losses)), largest)

    def delta(self, epsilon: Any) -> float:
        """Return the largest delta of the places; see `PrivacyLoss.delta`."""
        return max((loss.delta(epsilon) for loss in self.losses), default=0.0)

    def epsilon(self, delta: Any = 0.0) -> float:
        """Return the largest epsilon of the places; see `PrivacyLoss.epsilon`."""
        pure = math.inf if self.max_loss is None else float_above(self.max_loss)
        return min(pure, max((loss.epsilon(delta) for loss in self.losses), default=0.0))

    def within(self, epsilon: Any, delta: Any) -> bool:
        """Return whether (epsilon, delta) covers the loss of every place."""
        if self.max_loss is not None and self.max_loss <= decimal(epsilon, "epsilon"):
            return True
        return all(loss.within(epsilon, delta) for loss in self.losses)


MOST_TIMES = 10**12
"""How often a loss may occur: the longest horizon of a learner."""

MOST_CURVES = 64
"""The most curves of a `Largest`."""


def checked_times(value: Any) -> int:
    """Return how often something occurs in what a file holds; raise ValueError for more than anyone could release."""
    if type(value) is not int or not 1 <= value <= MOST_TIMES:
        raise ValueError("a loss occurs at least once, and at most as often as anyone could release")
    return value


def _atom_from_json(value: Json) -> Atom:
    if value["kind"] not in ATOMS:
        raise ValueError(f"unknown kind of privacy loss: {value['kind']}")
    module, _, name = ATOMS[value["kind"]].partition(":")
    atom: Atom = getattr(import_module(module), name).from_json(value)
    names = [part.name for part in fields(atom)]  # type: ignore[arg-type]
    if value.keys() != {"kind", *names}:  # other readers would see two unlike losses
        raise ValueError("a loss has the fields of its kind, and no others")
    return atom


def _canonical(atoms: Counter[Atom]) -> Sequence:
    return tuple(sorted(atoms.items(), key=repr))


@lru_cache(maxsize=256)
def _invert(sequence: Sequence, delta: Fraction) -> float:
    """Return the smallest epsilon with delta_of <= delta, from above."""
    if failures(sequence) > delta:
        return math.inf
    if within(sequence, Fraction(0), delta):
        return 0.0
    bound = max_loss(tuple(pair for pair in sequence if not isinstance(pair[0], Failure)))
    low, high = 0.0, float_above(bound) if bound is not None else 1.0
    while not within(sequence, decimal(high, "epsilon"), delta):
        low, high = high, 2 * high
        if high > 1e6:
            return math.inf
    return smallest(lambda epsilon: within(sequence, decimal(epsilon, "epsilon"), delta), low, high, tol=1e-12)


@dataclass(frozen=True)
class Budget:
    """The most that all releases about one set of labels may cost together.

    Args:
        epsilon: positive, at most 1000; the decimal as written counts.
        delta: in [0, 1); 0 admits pure guarantees only.

    Examples:
        >>> Budget(epsilon=1.0).admits(PrivacyLoss.pure(0.1) * 10)
        True
    """

    epsilon: Any
    delta: Any = 0

    def __post_init__(self) -> None:
        positive_epsilon(self.epsilon)
        if not 0 <= decimal(self.delta, "delta") < 1:
            raise InputError("must lie in [0, 1), such as ", Argument("delta", "1e-6"), argument="delta")

    def admits(self, loss: PrivacyLoss | RecordLoss) -> bool:
        """Return whether `loss` stays within the budget, in exact decimals where the guarantee is pure."""
        return loss.within(self.epsilon, self.delta)

    def __str__(self) -> str:
        return f"epsilon = {decimal_text(self.epsilon)}, delta = {decimal_text(self.delta)}"


def numbers_of(budget: Budget) -> tuple[Fraction, Fraction]:
    """Return epsilon and delta of a budget, exact."""
    return decimal(budget.epsilon, "epsilon"), decimal(budget.delta, "delta")


def whole_cost(loss: PrivacyLoss) -> Budget | None:
    """Return the budget that admits one release and nothing more; None if its loss has a delta."""
    return None if loss.max_loss is None else Budget(float_above(loss.max_loss))

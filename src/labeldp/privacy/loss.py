"""The privacy loss of releases: how it composes, and what it promises."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest
from typing import Any

from labeldp.privacy.atoms import Atom, Curve, Discrete, Failure, Gaussian, Response
from labeldp.privacy.bag_loss import HiddenWeights, NoisyBag
from labeldp.privacy.composition import Sequence, delta_of, failures, finite_losses, max_loss, within
from labeldp.privacy.errors import InputError
from labeldp.privacy.exact import decimal, float_above, positive_epsilon
from labeldp.privacy.renyi import Switching
from labeldp.privacy.search import smallest

ATOMS: dict[str, type[Atom]] = {
    each.kind: each for each in (Response, Discrete, Gaussian, Failure, NoisyBag, HiddenWeights, Switching)
}
"""Every kind of atom, by its name in JSON."""

MAX_ALTERNATIVES = 32
"""More alternatives than this are joined, two at a time, into one that covers both."""


@dataclass(frozen=True)
class PrivacyLoss:
    """The privacy loss of a release, or of many: composable, and always rounded against us.

    It is a set of alternatives, each a sequence of atoms. `a + b` releases both about the same
    label; `a | b` means that each label meets one of the two, so the worse counts. Alternatives
    stay apart until the end, because the pointwise maximum of two curves cannot be composed further.

    Guarantee (never_below): `delta(epsilon)` is never below the true one. Proof: `docs/proofs/composition.md`.

    Examples:
        >>> ten = PrivacyLoss.response(0.1, classes=10) * 10
        >>> ten.epsilon(delta=0.0)
        1.0
        >>> round(PrivacyLoss.response(1.0, classes=10).delta(0.5), 4)
        0.0913
    """

    alternatives: tuple[Sequence, ...] = ((),)

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
        """Return the exact loss of randomized response over `classes` answers; one answer costs nothing."""
        if classes < 1:
            raise InputError("must be at least 1", argument="classes")
        return cls(((((Response(positive_epsilon(epsilon), classes)), 1),),)) if classes > 1 else cls()

    @classmethod
    def failure(cls, delta: Any) -> "PrivacyLoss":
        """Return the loss of revealing everything with probability delta, and otherwise nothing."""
        exact = decimal(delta, "delta")
        if not 0 <= exact <= 1:
            raise InputError("must lie in [0, 1]", argument="delta")
        return cls((((Failure(exact), 1),),)) if exact else cls()

    @classmethod
    def approximate(cls, epsilon: Any, delta: Any) -> "PrivacyLoss":
        """Return the loss of any (epsilon, delta)-DP mechanism."""
        return cls.pure(epsilon) + cls.failure(delta)

    @classmethod
    def gaussian(cls, mu: float) -> "PrivacyLoss":
        """Return the loss of Gaussian differential privacy with mu = sensitivity / stddev."""
        if not (mu > 0 and math.isfinite(mu)):
            raise InputError("mu must be positive and finite")
        return cls((((Gaussian(float(mu)), 1),),))

    @classmethod
    def curve(cls, curve: Curve) -> "PrivacyLoss":
        """Return the loss of a pair of laws whose curve is computed, such as `NoisyBag` or `HiddenWeights`."""
        return cls((((curve, 1),),))

    @classmethod
    def discrete(cls, losses: Iterable[Any], probabilities: Iterable[Any]) -> "PrivacyLoss":
        """Return a finite loss distribution of a dominating pair; its masses are rounded up and need not sum to 1."""
        pairs = sorted(
            (decimal(a, "losses"), decimal(b, "probabilities")) for a, b in zip(losses, probabilities, strict=True)
        )
        if not pairs or any(mass < 0 for _, mass in pairs):
            raise InputError("probabilities must not be negative, one for each of one or more losses")
        return cls((((Discrete(tuple(a for a, _ in pairs), tuple(b for _, b in pairs)), 1),),))

    def __add__(self, other: "PrivacyLoss") -> "PrivacyLoss":
        """Return the loss of both releases about the same labels; the second may be chosen after seeing the first."""
        return PrivacyLoss(_reduced(_joined(a, b) for a in self.alternatives for b in other.alternatives))

    def __or__(self, other: "PrivacyLoss") -> "PrivacyLoss":
        """Return the loss of two releases about disjoint groups of labels."""
        return PrivacyLoss(_reduced((*self.alternatives, *other.alternatives)))

    def __mul__(self, times: int) -> "PrivacyLoss":
        """Return the loss of the same release `times` times, with fresh noise."""
        if not isinstance(times, int) or times < 1:
            raise InputError("times must be an integer, at least 1")
        if len(self.alternatives) == 1:
            return PrivacyLoss((tuple((atom, count * times) for atom, count in self.alternatives[0]),))
        half = self * (times // 2) if times > 1 else PrivacyLoss.zero()
        return half + half + (self if times % 2 else PrivacyLoss.zero())

    @classmethod
    def total(cls, counted: Iterable[tuple["PrivacyLoss", int]]) -> "PrivacyLoss":
        """Return the loss of many releases about the same labels, as (loss, how many of it)."""
        atoms: Counter[Atom] = Counter()
        several = []
        for loss, times in counted:
            if len(loss.alternatives) > 1:
                several.append(loss * times)
                continue
            for atom, count in loss.alternatives[0]:
                atoms[atom] += count * times
        total = cls((_canonical(atoms),))
        for loss in several:
            total = total + loss
        return total

    @classmethod
    def worst(cls, losses: Iterable["PrivacyLoss"]) -> "PrivacyLoss":
        """Return the loss of releases about any number of disjoint groups of labels; `|` rounds up beyond 32."""
        rows = {row for loss in losses for row in loss.alternatives}
        return cls(tuple(sorted(rows, key=repr))) if rows else cls()

    @property
    def max_loss(self) -> Fraction | None:
        """The exact pure epsilon, or None where there is none."""
        bounds = [max_loss(sequence) for sequence in self.alternatives]
        return None if None in bounds else max(bound for bound in bounds if bound is not None)

    def delta(self, epsilon: Any) -> float:
        """Return the smallest delta in [0, 1] that this bound can promise at `epsilon` >= 0, rounded up."""
        exact = decimal(epsilon, "epsilon")
        if exact < 0:
            raise InputError("must not be negative", argument="epsilon")
        return max(delta_of(sequence, exact) for sequence in self.alternatives)

    def epsilon(self, delta: Any = 0.0) -> float:
        """Return the smallest epsilon that this bound can promise at `delta` in [0, 1], rounded up, or infinity."""
        exact = decimal(delta, "delta")
        if not 0 <= exact <= 1:
            raise InputError("must lie in [0, 1]", argument="delta")
        bound = self.max_loss
        if exact == 0:
            return math.inf if bound is None else float_above(bound)
        largest = 0.0
        for sequence in self.alternatives:
            if not math.isinf(largest) and not within(sequence, decimal(largest, "epsilon"), exact):
                largest = _invert(sequence, exact)
        return largest

    def within(self, epsilon: Any, delta: Any) -> bool:
        """Return whether (epsilon, delta) covers this loss; in exact decimals where no bound of a curve is needed."""
        limit, share = decimal(epsilon, "epsilon"), decimal(delta, "delta")
        return all(within(sequence, limit, share) for sequence in self.alternatives)

    def kinks(self) -> list[Fraction]:
        """Return every non-negative epsilon at which a curve of finite atoms can change its slope in e^epsilon."""
        found = {Fraction(0)}
        for sequence in self.alternatives:
            found.update(loss for loss in finite_losses(sequence) if loss > 0)
        return sorted(found)

    def to_json(self) -> list[Any]:
        """Return plain JSON values, exact."""
        return [[{**atom.to_json(), "times": count} for atom, count in sequence] for sequence in self.alternatives]

    @classmethod
    def from_json(cls, value: list[Any]) -> "PrivacyLoss":
        """Return the loss that `to_json` wrote."""
        if not value:
            raise ValueError("a privacy loss has at least one alternative")
        return cls(_reduced(map(_row_from_json, value)))

    def __str__(self) -> str:
        return " or ".join(
            " and ".join(f"{count} times {atom}" for atom, count in row) or "nothing" for row in self.alternatives
        )


MOST_TIMES = 10**12
"""How often an atom may occur in what a file holds: the longest horizon of a learner."""


def _row_from_json(row: list[Any]) -> Sequence:
    atoms: Counter[Atom] = Counter()
    for value in row:
        if not 1 <= int(value["times"]) <= MOST_TIMES:
            raise ValueError("an atom occurs at least once, and not more often than anybody could release")
        if value["kind"] not in ATOMS:
            raise ValueError(f"unknown kind of privacy loss: {value['kind']}")
        atoms[ATOMS[value["kind"]].from_json(value)] += int(value["times"])
    return _canonical(atoms)


def _joined(left: Sequence, right: Sequence) -> Sequence:
    return _canonical(Counter(dict(left)) + Counter(dict(right)))


def _canonical(atoms: Counter[Atom]) -> Sequence:
    return tuple(sorted(atoms.items(), key=repr))


def _reduced(rows: Iterable[Sequence]) -> tuple[Sequence, ...]:
    """The alternatives without those that another one covers, and at most `MAX_ALTERNATIVES` of them."""
    kept: list[Sequence] = []
    for row in rows:
        if not any(_covers(other, row) for other in kept):
            kept = [other for other in kept if not _covers(row, other)] + [row]
        if len(kept) > MAX_ALTERNATIVES:
            first, second, *rest = sorted(kept, key=repr)
            kept = [*rest, _both(first, second)]
    return tuple(sorted(kept, key=repr))


def _both(one: Sequence, other: Sequence) -> Sequence:
    """A sequence that covers two: what they share, and for the rest a larger atom in place of one of each."""
    more, less = Counter(dict(one)), Counter(dict(other))
    shared = more & less
    left, right = (sorted((rest - shared).elements(), key=_size, reverse=True) for rest in (more, less))
    pairs = zip_longest(left, right)
    return _canonical(shared + sum((Counter(_larger(a, b)) for a, b in pairs), Counter()))


def _larger(one: Atom | None, other: Atom | None) -> list[Atom]:
    """Atoms that cover each of two: one where they are of a kind, else both."""
    if isinstance(one, Response) and isinstance(other, Response):
        return [Response(max(one.epsilon, other.epsilon), min(one.classes, other.classes))]
    if one is not None and other is not None and (one.covers(other) or other.covers(one)):
        return [one if one.covers(other) else other]
    return [atom for atom in (one, other) if atom is not None]


def _size(atom: Atom) -> tuple[str, Fraction | float]:
    """Atoms of a kind together, and by how much they reveal."""
    return type(atom).__name__, atom.mu if isinstance(atom, Gaussian) else atom.max_loss or Fraction(0)


def _covers(large: Sequence, small: Sequence) -> bool:
    """True when `large` is `small` with one atom replaced by one that covers it, or with atoms added."""
    more, less = Counter(dict(large)), Counter(dict(small))
    surplus, missing = more - less, less - more
    if not missing:
        return True
    wanted = next(iter(missing))
    return missing.total() == 1 and any(atom.covers(wanted) for atom in surplus)


def _invert(sequence: Sequence, delta: Fraction) -> float:
    """The smallest epsilon with delta_of <= delta, from above."""
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

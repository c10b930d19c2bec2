"""What many charges cost together: kept as they come, and never less than the truth."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from labeldp.privacy.atoms import Failure
from labeldp.privacy.charges import Path, joint_loss
from labeldp.privacy.composition import concentrated_delta, failures, max_loss, total_concentration
from labeldp.privacy.exact import decimal
from labeldp.privacy.loss import PrivacyLoss, RecordLoss

GRAIN = 1 << 80
"""Sums are rounded up to a multiple of 1/GRAIN where their denominators grow longer."""


@dataclass(frozen=True)
class Bound:
    """Three sums over releases that bound their joint loss, so that one more costs no look at the others.

    Args:
        pure: sum of the largest losses, failures aside; None where one is unbounded.
        rho: sum of the rates of zero-concentrated privacy, failures aside; None where one is not known.
        failures: sum of the probabilities of failure.

    Guarantee (sound, incomplete): what `admits` affirms is true; what it denies may be true.

    Source: BunSteinke, Proposition 1.3 and Lemma 1.7.
    """

    pure: Fraction | None = Fraction(0)
    rho: Fraction | None = Fraction(0)
    failures: Fraction = Fraction(0)

    @classmethod
    def of(cls, loss: PrivacyLoss) -> "Bound":
        """Return the sums for one release."""
        rest = tuple(pair for pair in loss.atoms if not isinstance(pair[0], Failure))
        return cls(max_loss(rest), total_concentration(rest), failures(loss.atoms))

    def __add__(self, other: "Bound") -> "Bound":
        return Bound(add_up(self.pure, other.pure), add_up(self.rho, other.rho), self.failures + other.failures)

    def __mul__(self, times: int) -> "Bound":
        pure, rho = (None if each is None else each * times for each in (self.pure, self.rho))
        return Bound(pure, rho, self.failures * times)

    def admits(self, epsilon: Any, delta: Any) -> bool:
        """Return True only if the sums alone show that the loss stays within (epsilon, delta)."""
        limit, share = decimal(epsilon, "epsilon"), decimal(delta, "delta")
        if self.pure is not None and self.pure <= limit:
            return self.failures <= share
        return self.rho is not None and concentrated_delta(self.rho, limit, self.failures) <= share

    def to_texts(self) -> tuple[str | None, str | None, str]:
        """Return the sums as exact texts."""
        pure, rho = (None if each is None else str(each) for each in (self.pure, self.rho))
        return pure, rho, str(self.failures)

    @classmethod
    def from_texts(cls, pure: str | None, rho: str | None, failures: str) -> "Bound":
        """Return the inverse of `to_texts`."""
        return cls(None if pure is None else Fraction(pure), None if rho is None else Fraction(rho), Fraction(failures))


def add_up(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    """Return a sum, rounded up to a multiple of 1/GRAIN where it grows too long; None stands for infinity."""
    if one is None or other is None:
        return None
    total = one + other
    return total if total.denominator <= GRAIN else Fraction(math.ceil(total * GRAIN), GRAIN)


@final
class Totals:
    """The charges about one set of labels, equal ones counted, with a `Bound` that is kept.

    Args:
        counted: how many charges of each (path, loss) there are.

    Guarantee (never_less): the loss is never less than that of any single record.
    """

    def __init__(self, counted: Mapping[tuple[Path, PrivacyLoss], int] | None = None) -> None:
        self._counted = Counter(dict(counted or {}))
        self.bound = Bound()
        for (_, loss), times in self._counted.items():
            self.bound += Bound.of(loss) * times

    def add(self, path: Path, loss: PrivacyLoss) -> None:
        """Count one more charge."""
        self._counted[path, loss] += 1
        self.bound += Bound.of(loss)

    @property
    def counted(self) -> Mapping[tuple[Path, PrivacyLoss], int]:
        """How many charges of each path and loss there are."""
        return self._counted

    def loss(self, more: Iterable[tuple[Path, PrivacyLoss]] = ()) -> RecordLoss:
        """Return the privacy loss of all of them, and of more, together."""
        return joint_loss((self._counted + Counter(more)).items())

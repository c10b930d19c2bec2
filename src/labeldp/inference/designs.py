"""Labels that were randomized elsewhere: survey designs and matrices, with declared noise."""

import hashlib
import json
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Any, ClassVar

import numpy as np

from labeldp.mechanisms import Classes, Debiased
from labeldp.privacy import (
    Certificate,
    Charge,
    Flags,
    Floats,
    InputError,
    NotInvertibleError,
    PrivacyLoss,
    RandomnessKind,
    Release,
    Trust,
    Unit,
    set_fields,
)

DECLARED = "noise as declared: each answer was randomized independently (UNCHECKED: the noise was drawn elsewhere)"
"""The condition of everything that is computed from them."""

MAX_CONDITION = 1e6
"""Matrices that amplify noise by more count as singular."""


@dataclass(frozen=True, eq=False)
class Design:
    """How likely each answer is for each class: P(answer | class), as someone declared it.

    Args:
        matrix: shape (K, K), rows are classes and sum to 1; or (n, K, K), one matrix for each record.
        name: of the design, in words.

    Raises:
        InputError: not such matrices.
        NotInvertibleError: a matrix from whose answers no share can be computed.
    """

    matrix: Floats = field(repr=False)
    name: str = "a matrix"
    trust: ClassVar[Trust] = Trust.LOCAL

    def __post_init__(self) -> None:
        matrix = np.array(self.matrix, dtype=np.float64)
        if matrix.ndim not in (2, 3) or matrix.shape[-1] != matrix.shape[-2] or matrix.shape[-1] < 2 or not matrix.size:
            raise InputError("must be P(answer | class), shape (K, K), or (n, K, K) for each record", argument="matrix")
        if not np.all(matrix >= 0) or not np.allclose(matrix.sum(axis=-1), 1, atol=1e-9):
            raise InputError("must have probabilities in rows that sum to 1", argument="matrix")
        if np.linalg.cond(matrix).max() > MAX_CONDITION:
            raise NotInvertibleError("matrix has no inverse: its answers say nothing about some share")
        matrix.flags.writeable = False
        set_fields(self, matrix=matrix)

    @property
    def classes(self) -> int:
        """K."""
        return self.matrix.shape[-1]

    @property
    def records(self) -> int | None:
        """How many records it is for; None for any number."""
        return len(self.matrix) if self.matrix.ndim == 3 else None

    @property
    def epsilon(self) -> float:
        """The privacy loss of an answer if the design was followed; infinite where an answer excludes a class."""
        if np.any((self.matrix.min(axis=-2) == 0) & (self.matrix.max(axis=-2) > 0)):
            return float("inf")
        lowest = np.where(self.matrix.max(axis=-2) > 0, self.matrix.min(axis=-2), 1.0)
        highest = np.where(self.matrix.max(axis=-2) > 0, self.matrix.max(axis=-2), 1.0)
        return float(np.log(highest / lowest).max())

    @cached_property
    def inverse(self) -> Floats:
        """Row z holds the unbiased class indicators of the answer z, shape (K, K), or (n, K, K)."""
        return np.asarray(np.linalg.inv(self.matrix), dtype=np.float64)

    def specification(self) -> dict[str, Any]:
        """Return what the certificate says of the design."""
        digest = hashlib.sha256(repr(self.matrix.shape).encode() + self.matrix.tobytes()).hexdigest()
        return {"design": self.name, "matrix": digest}


@dataclass(frozen=True, eq=False)
class DeclaredAnswers:
    """The mechanism of labels that were randomized elsewhere.

    Args:
        domain: `Classes`, also of the answers.
        design: what was declared.
    """

    domain: Classes
    design: Design
    trust: ClassVar[Trust] = Trust.LOCAL

    def named(self, noisy: Any) -> Flags:
        """Return which class each answer names, shape (n, K)."""
        return np.asarray(self.domain.check_codes(noisy)[:, None] == np.arange(self.domain.size))

    def unbiased(self, noisy: Any, start: int = 0) -> Debiased:
        """Return unbiased class indicators, shape (n, K).

        Args:
            noisy: codes of answers.
            start: the record of the first of them.
        """
        codes, inverse = self.domain.check_codes(noisy), self.design.inverse
        values = inverse[codes] if inverse.ndim == 2 else inverse[np.arange(start, start + len(codes)), codes]
        return Debiased(values, float(np.abs(inverse).sum(axis=-1).max()))


def warner(truth: float) -> Design:
    """Return Warner's design: a card says "I am" with probability `truth`, else "I am not".

    Classes are no and yes, in this order.

    Source: Warner.
    """
    share = _probability(truth, "truth")
    return Design(np.array([[share, 1 - share], [1 - share, share]]), f"Warner's with {share:g}")


def forced(truth: float, yes: float = 0.5) -> Design:
    """Return a forced response design: the truth with probability `truth`, else "yes" with probability `yes`."""
    return _mixed(_probability(truth, "truth"), _probability(yes, "yes"), "forced response")


def unrelated(truth: float, prevalence: float) -> Design:
    """Return an unrelated question design: the sensitive question with probability `truth`, else a harmless one.

    Args:
        truth: probability of the sensitive question.
        prevalence: how many say "yes" to the harmless one: known, such as a month of birth.
    """
    return _mixed(_probability(truth, "truth"), _probability(prevalence, "prevalence"), "unrelated question")


def crosswise(prevalence: float) -> Design:
    """Return the crosswise model: "yes" says that both statements are true, or none.

    Args:
        prevalence: how often the harmless statement is true: known, and not one half.
    """
    share = _probability(prevalence, "prevalence")
    return Design(np.array([[share, 1 - share], [1 - share, share]]), f"the crosswise model with {share:g}")


def matrix(chances: Any) -> Design:
    """Return any design: P(answer | class), shape (K, K), or (n, K, K) with a matrix for each record."""
    return Design(np.asarray(chances, dtype=np.float64), "a matrix")


def answers(column: Any, design: Design, domain: Classes | None = None, dataset: str = "answers") -> Release[Any]:
    """Read labels that were randomized elsewhere as a release; its certificate says that the noise is declared.

    Args:
        column: an answer for each record, as the domain has them, shape (n,).
        design: how they were randomized, such as `designs.warner(0.7)`.
        domain: the classes, in the order of the matrix; by default no and yes of two.
        dataset: its name in the certificate.

    Raises:
        InputError: answers outside of the domain, or not as many classes or records as the matrix has.
    """
    classes = Classes(("no", "yes")) if domain is None else domain
    if classes.size != design.classes:
        raise InputError(f"must have the {design.classes} classes of the design", argument="domain")
    codes = classes.encode(column)
    if design.records not in (None, len(codes)):
        raise InputError(f"must hold {design.records} answers, one for each matrix of the design", argument="column")
    epsilon = design.epsilon
    above = None if np.isinf(epsilon) else Fraction(ceil(epsilon * 10**9), 10**9)
    loss = PrivacyLoss.failure(1) if above is None else PrivacyLoss.pure(above)
    text = json.dumps([dataset, len(codes), design.specification()], sort_keys=True).encode() + codes.tobytes()
    charge = Charge(hashlib.sha256(text).hexdigest()[:16], (), loss, design.specification())
    certificate = Certificate(
        entries=(charge,),
        dataset=dataset,
        neighbors=Unit.ONE_LABEL,
        trust=Trust.LOCAL,
        randomness=RandomnessKind.DECLARED,
        published=f"one answer per record ({design.name})",
        assumptions=(DECLARED,),
    )
    return Release(codes, certificate, DeclaredAnswers(classes, design))


def _mixed(truth: float, yes: float, name: str) -> Design:
    lies = (1 - truth) * yes
    return Design(np.array([[1 - lies, lies], [1 - truth - lies, truth + lies]]), f"{name} with {truth:g} and {yes:g}")


def _probability(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise InputError("must lie between 0 and 1", argument=name)
    return float(value)

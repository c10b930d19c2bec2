"""Likelihoods of released labels; class probabilities."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import Classes
from labeldp.privacy import WORD, InputError, NotInvertibleError, Release

CLASS_PRIOR_ROUNDS = 200

WORST = 1e12
"""Noise that multiplies an error by more than this when it is undone has no inverse in doubles."""

Probabilities = NDArray[np.float64]


@dataclass(frozen=True)
class Evidence:
    """Released codes and what they say.

    Args:
        codes: released codes, shape (n,).
        likelihood: P(released code | true class), shape (n, K).
        matrix: P(z | y), shape (K, K), where one law with an inverse made all records; else None.
    """

    codes: NDArray[Any] = field(repr=False)
    likelihood: NDArray[np.float64] = field(repr=False)
    matrix: NDArray[np.float64] | None = field(repr=False)

    @classmethod
    def of(cls, release: Release[Any]) -> Self:
        """The evidence of a release that answers each record with a class.

        Raises:
            InputError: not the direct output of such a mechanism.
        """
        mechanism = release.mechanism if isinstance(release, Release) else None
        if mechanism is None or not isinstance(mechanism.domain, Classes):
            raise InputError("release must be what Curator.release returned for a mechanism on Classes")
        return cls.made_by(mechanism, release.value)

    @classmethod
    def made_by(cls, mechanism: Any, noisy: Any) -> Self:
        """The evidence of codes that a mechanism answered."""
        codes, likelihood = answers(mechanism, noisy)
        return cls(codes, likelihood, _invertible_matrix(mechanism))

    @property
    def classes(self) -> int:
        """K."""
        return self.likelihood.shape[1]

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: Any) -> "Evidence":
        """The evidence of some of the records."""
        return Evidence(self.codes[rows], self.likelihood[rows], self.matrix)

    def joined(self, other: "Evidence") -> "Evidence":
        """The evidence of these records, then of others."""
        same = self.matrix is not None and other.matrix is not None and np.array_equal(self.matrix, other.matrix)
        return Evidence(
            np.concatenate([self.codes, other.codes]),
            np.concatenate([self.likelihood, other.likelihood]),
            self.matrix if same else None,
        )

    def posterior(self, prior: Any) -> Probabilities:
        """P(y | z, x), proportional to prior times likelihood, shape (n, K)."""
        return normalized(np.asarray(prior) * self.likelihood)

    def score(self, probabilities: Any) -> float:
        """Mean log probability of the released codes under a model of the true labels: larger is better.

        A proper score: in expectation no model beats the true class probabilities.
        """
        explained = (np.asarray(probabilities) * self.likelihood).sum(axis=1)
        return float(np.log(np.maximum(explained, np.finfo(np.float64).tiny)).mean())

    def class_prior(self) -> NDArray[np.float64]:
        """The class frequencies that explain the released codes best, shape (K,): expectation-maximization."""
        prior = np.full(self.classes, 1.0 / self.classes)
        for _ in range(CLASS_PRIOR_ROUNDS):
            prior = self.posterior(prior[None, :]).mean(axis=0)
        return prior


def released_codes(domain: Classes, labels: Any) -> NDArray[Any]:
    """Codes of released labels, which may be names, or codes already, shape (n,).

    Integers are codes where all names are texts in sorted order. In any other order they might as well be
    scikit-learn's own numbers, which count names as sorted: then names are asked for.
    """
    given = np.asarray(labels)
    if given.dtype.kind not in "iu" or not all(isinstance(name, str) for name in domain.names):
        return domain.encode(labels)
    if list(domain.names) != sorted(map(str, domain.names)):
        raise InputError(
            "labels must be class names, as in domain.decode(release.value), or the release itself: integers could "
            "mean the order of the domain or scikit-learn's sorted one"
        )
    return domain.check_codes(given)


def answers(mechanism: Any, noisy: Any) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Released codes, checked, and their likelihood under each true class, shapes (n,) and (n, K)."""
    tables = mechanism.tables() if hasattr(mechanism, "tables") else []
    codes = mechanism.domain.check_codes(noisy)
    mechanism.check_records(len(codes))
    if len(tables) == 1 and tables[0].kind == "table":
        return codes, (tables[0].weights.astype(np.float64) / WORD).T[codes]
    if not tables or {table.kind for table in tables} != {"subset response"}:
        raise InputError("release must answer each record with one class, as the randomized response family does")
    members = np.broadcast_to(mechanism.membership(), (len(codes), mechanism.domain.size))
    sizes = members.sum(axis=1)
    rates = np.zeros((mechanism.domain.size + 1, 3))
    for table in tables:
        weights = table.weights.astype(np.float64) / WORD
        size = weights.shape[1]
        rates[size] = weights[0, 0], weights[0, 1] if size > 1 else 0.0, weights[-1].mean()
    keep, lie, outside = rates[sizes].T
    likelihood = np.where(members, lie[:, None], outside[:, None])
    likelihood[np.arange(len(codes)), codes] = keep
    return codes, likelihood


def _invertible_matrix(mechanism: Any) -> NDArray[np.float64] | None:
    """P(z | y), shape (K, K), of a mechanism that `debias` inverts with one law for all records."""
    try:
        inverse = inverse_table(mechanism)
    except NotInvertibleError:
        return None
    if np.abs(inverse).sum(axis=1).max() > WORST:
        return None
    return np.asarray(np.linalg.inv(inverse), dtype=np.float64)


def inverse_table(mechanism: Any) -> NDArray[np.float64]:
    """Row z holds the unbiased class indicators that the answer z, or bits of z alone, stands for, shape (K, K).

    Raises:
        NotInvertibleError: some record had fewer candidates than classes.
    """
    size = mechanism.domain.size
    answers = np.packbits(np.eye(size, dtype=np.bool_), axis=1) if hasattr(mechanism, "bits") else np.arange(size)
    return np.asarray(mechanism.unbiased(answers).values)


FLOOR = 1e-3
"""The least probability that a corrected model gives to a class: no learner from noisy labels may exclude one."""

TEMPERATURES = np.geomspace(0.25, 2.0, 13)
"""Tried where probabilities are calibrated: below 1 sharpens."""


def normalized(values: Any, floor: float = 0.0) -> Probabilities:
    """Rows raised to at least `floor` and scaled to sum to 1; a row without mass becomes uniform."""
    raised = np.maximum(np.asarray(values, dtype=np.float64), floor)
    totals = raised.sum(axis=1, keepdims=True)
    return np.where(totals > 0, raised / np.where(totals > 0, totals, 1.0), 1.0 / raised.shape[1])


def tempered(probabilities: Any, temperature: float) -> Probabilities:
    """Probabilities to the power of 1 / temperature: below 1 it sharpens, above 1 it flattens.

    Source: Ghazi et al., Deep Learning with Label Differential Privacy, section 4 (LP-MST).
    """
    logs = np.log(normalized(probabilities, np.finfo(np.float64).tiny)) / temperature
    return normalized(np.exp(logs - logs.max(axis=1, keepdims=True)))


def unmixed(noisy: Any, matrix: NDArray[np.float64]) -> Probabilities:
    """Probabilities of the true label from those of the noisy one: the noise `matrix` (K, K) undone, then clipped."""
    return normalized(np.linalg.solve(matrix.T, np.asarray(noisy, dtype=np.float64).T).T, FLOOR)


def expanded(estimator: Any, features: Any, classes: int) -> Probabilities:
    """A fitted classifier's probabilities for all K codes: 0 for classes that it never met."""
    given = np.asarray(estimator.predict_proba(features), dtype=np.float64)
    result = np.zeros((len(given), classes))
    result[:, np.asarray(estimator.classes_, dtype=np.intp)] = given
    return normalized(result)


def projected(shares: Any) -> Probabilities:
    """The nearest probabilities to class shares that may be negative or too large: for each row the closest point.

    All entries of a row are moved by the same amount, and negative ones set to 0, so the largest stays the largest.

    Source: Duchi, Shalev-Shwartz, Singer and Chandra (2008), the projection onto the simplex by sorting.
    """
    rows = np.asarray(shares, dtype=np.float64)
    falling = -np.sort(-rows, axis=1)
    excess = (np.cumsum(falling, axis=1) - 1) / np.arange(1, rows.shape[1] + 1)
    kept = np.count_nonzero(falling > excess, axis=1)
    return np.maximum(rows - excess[np.arange(len(rows)), kept - 1][:, None], 0.0)

"""The likelihood of released values, for classes one by one and for a softmax of linear scores."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import softmax

from labeldp import inference
from labeldp.mechanisms import Classes
from labeldp.privacy import AnyFloats, Flags, Floats, InputError, NotInvertibleError, Release

CLASS_PRIOR_ROUNDS = 200

MAX_AMPLIFICATION = 1e12
"""Noise counts as not invertible if its inverse multiplies errors by more than this."""

CHANCE = 1e-12
"""Features that agree with released labels by a smaller chance are refused: a fit that was charged must not fail."""

refuse_reused = partial(inference.refuse_reused, chance=CHANCE)
"""Refuse features, weights or priors that are made of the released labels: see `labeldp.inference.refuse_reused`."""

Probabilities = NDArray[np.float64]


@dataclass(frozen=True)
class Evidence:
    """What released answers say of the classes of their records.

    Args:
        codes: released classes, shape (n,), where each record was answered by one; None for sets of classes and bits.
        likelihood: P(answer | true class), up to a factor of each record, shape (n, K).
        matrix: of one law with an inverse that answered all records, else None, shape (K, K): P(z | y), or how often a
            set names the class z, as a share of all that it names.
        named: which classes each answer names, shape (n, K), of answers without codes; None for others.
        indicators: unbiased indicators of the true classes, shape (n, K), of answers without codes; None for others.
        weights: public weights of the records in training, shape (n,); None where all count alike.
    """

    codes: NDArray[Any] | None = field(repr=False)
    likelihood: Floats = field(repr=False)
    matrix: Floats | None = field(repr=False)
    named: Flags | None = field(default=None, repr=False)
    indicators: Floats | None = field(default=None, repr=False)
    weights: Floats | None = field(default=None, repr=False)

    @classmethod
    def of(cls, release: Release[Any]) -> Self:
        """Return the evidence of a release that answers each record with a class.

        Raises:
            InputError: not the direct output of such a mechanism.
        """
        mechanism = release.mechanism if isinstance(release, Release) else None
        if mechanism is None or mechanism.domain.target != "classes":
            raise InputError("release must be what Curator.release returned for a mechanism on Classes")
        return cls.made_by(mechanism, release.value)

    @classmethod
    def made_by(cls, mechanism: Any, noisy: Any) -> Self:
        """Return the evidence of what a mechanism answered.

        Raises:
            InputError: not its answers, or a mechanism that does not answer each record about its class.
        """
        if not hasattr(mechanism, "likelihood"):
            raise InputError("release must answer each record with a class, a set of classes or a bit for each class")
        likelihood = mechanism.likelihood(noisy)
        if np.ndim(noisy) == 1:
            return cls(mechanism.domain.check_codes(noisy), likelihood, _invertible_matrix(mechanism))
        hit, other = mechanism.answers.own, mechanism.answers.other
        shares = np.full((mechanism.domain.size,) * 2, other) + (hit - other) * np.eye(mechanism.domain.size)
        matrix = shares / shares.sum(axis=1, keepdims=True)
        return cls(None, likelihood, matrix, mechanism.named(noisy), mechanism.unbiased(noisy).values)

    @property
    def classes(self) -> int:
        """Number of classes, K."""
        return self.likelihood.shape[1]

    def __len__(self) -> int:
        return len(self.likelihood)

    def take(self, rows: Any) -> "Evidence":
        """Return the evidence of some of the records."""
        arrays = self.codes, self.named, self.indicators, self.weights
        codes, named, indicators, weights = (None if array is None else array[rows] for array in arrays)
        return Evidence(codes, self.likelihood[rows], self.matrix, named, indicators, weights)

    def joined(self, other: "Evidence") -> "Evidence":
        """Return the evidence of these records, followed by that of others."""
        kind = (self.codes is None) == (other.codes is None)
        same = self.matrix is not None and other.matrix is not None and np.array_equal(self.matrix, other.matrix)
        return Evidence(
            _both(self.codes, other.codes),
            np.concatenate([self.likelihood, other.likelihood]),
            self.matrix if same and kind else None,
            _both(self.named, other.named),
            _both(self.indicators, other.indicators),
            _both(self.weights, other.weights),
        )

    def names(self, classes: NDArray[Any]) -> Flags:
        """Return of which records the answer names a class, one for each record, both of shape (n,)."""
        if self.codes is not None:
            return np.asarray(self.codes == classes)
        if self.named is None:
            return self.likelihood[np.arange(len(self)), classes] >= self.likelihood.max(axis=1)
        return self.named[np.arange(len(self)), classes]

    def codes_for(self, method: str) -> NDArray[Any]:
        """Return the released classes, shape (n,), which a method of training takes for the true ones.

        Raises:
            InputError: the answers are sets of classes or bits.
        """
        if self.codes is None:
            raise InputError(
                f"{method} takes one released class for each record, as of RandomizedResponse: these answers are sets "
                "of classes"
            )
        return self.codes

    def unbiased(self) -> Floats | None:
        """Return unbiased indicators of the true classes, shape (n, K), or None where the noise has no inverse."""
        if self.codes is None or self.matrix is None:
            return self.indicators
        return np.asarray(np.linalg.inv(self.matrix)[self.codes], dtype=np.float64)

    def posterior(self, prior: Any) -> Probabilities:
        """Return P(y | z, x), proportional to prior times likelihood, shape (n, K)."""
        return normalized(np.asarray(prior) * self.likelihood)

    def score(self, probabilities: Any) -> float:
        """Return the mean log probability of the released codes under a model of the true labels; larger is better.

        This is a proper score: in expectation no model beats the true class probabilities.
        """
        explained = (np.asarray(probabilities) * self.likelihood).sum(axis=1)
        return float(np.log(np.maximum(explained, np.finfo(np.float64).tiny)).mean())

    def class_prior(self) -> NDArray[np.float64]:
        """Return the class frequencies that best explain the codes, by expectation-maximization, shape (K,)."""
        prior = np.full(self.classes, 1.0 / self.classes)
        likelihood, counts = np.unique(normalized(self.likelihood), axis=0, return_counts=True)
        for _ in range(CLASS_PRIOR_ROUNDS):
            prior = prior * (counts / (likelihood @ prior) @ likelihood) / counts.sum()
        return prior


def released_codes(domain: Classes, labels: Any) -> NDArray[Any]:
    """Return codes of released labels, which may be names, or codes already, shape (n,).

    Integers are codes if all names are texts in sorted order. In any other order they could be scikit-learn's own
    codes, which follow the sorted order, so that names are required.
    """
    array = np.asarray(labels)
    if array.dtype.kind not in "iu" or not all(isinstance(name, str) for name in domain.names):
        return domain.encode(labels)
    if list(domain.names) != sorted(map(str, domain.names)):
        raise InputError(
            "labels must be class names, as in domain.decode(release.value), or the release itself: integers could "
            "mean the order of the domain or scikit-learn's sorted one"
        )
    return domain.check_codes(array)


def _both(one: NDArray[Any] | None, other: NDArray[Any] | None) -> NDArray[Any] | None:
    """Two arrays, one after the other; None where one is missing."""
    return None if one is None or other is None else np.concatenate([one, other])


def _invertible_matrix(mechanism: Any) -> NDArray[np.float64] | None:
    """Return P(z | y), shape (K, K), of a mechanism that `debias` inverts with one law for all records, else None."""
    try:
        inverse = inverse_table(mechanism)
    except NotInvertibleError:
        return None
    if np.abs(inverse).sum(axis=1).max() > MAX_AMPLIFICATION:
        return None
    return np.asarray(np.linalg.inv(inverse), dtype=np.float64)


def are_sets(mechanism: Any) -> bool:
    """Return whether the outputs of a mechanism are sets of classes or bits, and not single classes."""
    return np.ndim(mechanism.singles()) == 2 if hasattr(mechanism, "singles") else False


def inverse_table(mechanism: Any) -> Floats:
    """Row z holds the unbiased class indicators that an answer stands for which names the class z alone, shape (K, K).

    Raises:
        NotInvertibleError: some record had fewer candidates than classes.
    """
    return np.asarray(mechanism.unbiased(mechanism.singles()).values)


MIN_PROBABILITY = 1e-3
"""The smallest probability that a corrected model gives to a class: noisy labels never exclude one."""

TEMPERATURES = np.geomspace(0.25, 2.0, 13)
"""The temperatures that calibration tries: below 1 sharpens."""


def normalized(values: Any, floor: float = 0.0) -> Probabilities:
    """Raise entries to at least `floor` and scale rows to sum 1; a row of zeros becomes uniform."""
    raised = np.maximum(np.asarray(values, dtype=np.float64), floor)
    totals = raised.sum(axis=1, keepdims=True)
    return np.where(totals > 0, raised / np.where(totals > 0, totals, 1.0), 1.0 / raised.shape[1])


def tempered(probabilities: Any, temperature: float) -> Probabilities:
    """Return probabilities to the power of 1 / temperature: below 1 sharpens, above 1 flattens.

    Source: Ghazi et al., Deep Learning with Label Differential Privacy, section 4 (LP-MST).
    """
    logs = np.log(normalized(probabilities, np.finfo(np.float64).tiny)) / temperature
    return normalized(np.exp(logs - logs.max(axis=1, keepdims=True)))


def unmixed(noisy: Any, matrix: NDArray[np.float64]) -> Probabilities:
    """Return probabilities of the true label from the noisy label's, by the inverse of `matrix`, clipped."""
    return normalized(np.linalg.solve(matrix.T, np.asarray(noisy, dtype=np.float64).T).T, MIN_PROBABILITY)


def expanded(estimator: Any, features: Any, classes: int) -> Probabilities:
    """Return a fitted classifier's probabilities for all K codes, 0 for classes that it never met."""
    columns = np.asarray(estimator.predict_proba(features), dtype=np.float64)
    result = np.zeros((len(columns), classes))
    result[:, np.asarray(estimator.classes_, dtype=np.intp)] = columns
    return normalized(result)


def projected(shares: Any) -> Probabilities:
    """Return the nearest probabilities to each row of class shares, which may be negative or too large.

    All entries of a row move by the same amount, and negative ones become 0, so the largest stays the largest.

    Source: Duchi, Shalev-Shwartz, Singer and Chandra (2008), the projection onto the simplex by sorting.
    """
    rows = np.asarray(shares, dtype=np.float64)
    falling = -np.sort(-rows, axis=1)
    excess = (np.cumsum(falling, axis=1) - 1) / np.arange(1, rows.shape[1] + 1)
    count = np.count_nonzero(falling > excess, axis=1)
    return np.maximum(rows - excess[np.arange(len(rows)), count - 1][:, None], 0.0)


BLOCK_ROWS = 8192

STEPS = 150
"""Most iterations of L-BFGS."""

FACTORS = np.geomspace(0.25, 8, 41)
"""Factors on fitted scores among which calibration chooses."""


@dataclass(frozen=True)
class SumsTerm:
    """Noisy sums of public rows times class indicators.

    Args:
        rows: what was multiplied by the indicators, shape (n, r).
        moment: the released sums, shape (r, K).
        variance: of each row of sums around its expectation: of the noise, and of labels that are drawn, shape (r,).
    """

    rows: AnyFloats = field(repr=False)
    moment: AnyFloats = field(repr=False)
    variance: AnyFloats = field(repr=False)

    @classmethod
    def of(cls, rows: AnyFloats, moment: AnyFloats, spread: float, doubt: float, factor: float = 1.0) -> "SumsTerm":
        """Return the term of sums with noise of standard deviation `spread`.

        Args:
            doubt: the mean variance p (1 - p) of a label around its probability.
            factor: records for each row, where rows are those of a sample: sums and noise are divided by it.
        """
        squares = np.zeros(rows.shape[1])
        for start in range(0, len(rows), BLOCK_ROWS):
            part = rows[start : start + BLOCK_ROWS]
            squares += np.einsum("ij,ij->j", part, part, dtype=np.float64)
        return cls(rows, moment / factor, (spread / factor) ** 2 + doubt * squares / factor)


def fit_softmax(
    rows: AnyFloats,
    *,
    start: AnyFloats,
    precision: AnyFloats,
    sums: Sequence[SumsTerm] = (),
    likelihood: AnyFloats | None = None,
    soft: AnyFloats | None = None,
    offset: AnyFloats | None = None,
    steps: int = STEPS,
) -> AnyFloats:
    """Return the coefficients of largest posterior density, shape (d, K).

    Args:
        rows: what the scores are linear in, shape (n, d), float32 for speed.
        start: coefficients to start from, shape (d, K).
        precision: of the prior on the coefficients of each row of `start`, shape (d,).
        sums: terms of released sums over the same records.
        likelihood: P(released label | class) up to a factor of each record, shape (n, K), or None.
        soft: soft labels, rows of sum 1, shape (n, K), or None.
        offset: added to the scores, shape (n, K), such as the log of another model's probabilities.
        steps: most iterations.
    """
    shape, kind = start.shape, rows.dtype
    penalty = np.asarray(precision, dtype=np.float64)[:, None]
    # Products and sums are quick where the numbers of a column, or of a class, lie one after the other.
    columns = np.asfortranarray(rows) if rows.nbytes < 1 << 27 else rows

    def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        coefficients = flat.reshape(shape)
        probabilities = (coefficients.T.astype(kind) @ columns.T).T
        if offset is not None:
            probabilities += offset
        probabilities -= probabilities.max(axis=1, keepdims=True)
        np.exp(probabilities, out=probabilities)
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        value = 0.5 * float(np.sum(penalty * coefficients**2))
        slope = np.zeros_like(probabilities)
        for term in sums:
            gap = term.rows.T @ probabilities - term.moment
            pull = gap / term.variance[:, None]
            value += 0.5 * float(np.sum(gap * pull))
            slope += term.rows @ pull.astype(kind)
        if sums:
            slope = probabilities * (slope - np.einsum("ij,ij->i", probabilities, slope)[:, None])
        if likelihood is not None:
            joint = probabilities * likelihood
            total = joint.sum(axis=1, keepdims=True)
            value -= float(np.log(np.maximum(total, np.finfo(kind).tiny)).sum(dtype=np.float64))
            slope += probabilities - joint / np.maximum(total, np.finfo(kind).tiny)
        if soft is not None:
            value -= float(np.sum(soft * np.log(np.maximum(probabilities, np.finfo(kind).tiny)), dtype=np.float64))
            slope += probabilities - soft
        gradient = (np.ascontiguousarray(slope).T @ rows).T.astype(np.float64) + penalty * coefficients
        return value, gradient.ravel()

    first = np.asarray(start, dtype=np.float64).ravel()
    optimum = minimize(objective, first, jac=True, method="L-BFGS-B", options={"maxiter": steps})
    return np.asarray(optimum.x.reshape(shape))


@dataclass(frozen=True)
class Posterior:
    """The evidence in all releases about some records, as a log density of a softmax's coefficients.

    It is one objective of three terms, for coefficients W, rows x and probabilities p(x) = softmax(x W + offset).

    The term of noisy sums is half the squared distance of the sum of r p(x) from each released sum of r y, over the
    variance of its noise and of the labels around their probabilities. The term of noisy labels is minus the log of the
    sum over classes of P(released | class) p(class), added over records; soft labels have their cross-entropy. The term
    of coefficients is half their squares times the precision of a Gaussian prior.

    Args:
        rows: what the scores are linear in, shape (n, d).
        precision: of the prior on the coefficients of each row, shape (d,).
        sums, likelihood, soft: what was released, as `fit_softmax` takes it.
    """

    rows: AnyFloats = field(repr=False)
    precision: AnyFloats = field(repr=False)
    sums: Sequence[SumsTerm] = field(default=(), repr=False)
    likelihood: AnyFloats | None = field(default=None, repr=False)
    soft: AnyFloats | None = field(default=None, repr=False)

    def discrepancy(self, probabilities: AnyFloats) -> float:
        """Return how far a model of these records is from the release, in units of what chance makes of it.

        It is a chi-square over its degrees of freedom: near 1 for the true probabilities, below for a model that was
        fitted to the same release, and above for one that the release contradicts. For sums it is the mean square of
        their distances in standard deviations. For labels it is that of the slopes along each of the rows, in standard
        deviations of the sums that they are: the mean of P(class | label) over labels is the model's own probability.

        Args:
            probabilities: of the model, shape (n, K).
        """
        distances = []
        for term in self.sums:
            gap = term.rows.T @ np.asarray(probabilities, dtype=term.rows.dtype) - term.moment
            distances.append(float((gap**2 / term.variance[:, None]).mean()))
        if self.likelihood is not None:
            posterior = np.asarray(probabilities) * self.likelihood
            posterior /= posterior.sum(axis=1, keepdims=True)
            distances.append(_of_slopes(self.rows, posterior - probabilities))
        return float(np.mean(distances))

    def largest(self, start: AnyFloats, *, offset: AnyFloats | None = None, ridge: float = 1.0) -> AnyFloats:
        """Return the coefficients of largest density, shape (d, K).

        Args:
            start: coefficients to start from, shape (d, K).
            offset: added to the scores, shape (n, K).
            ridge: factor on the precision of the prior.
        """
        return fit_softmax(
            self.rows,
            start=start,
            precision=ridge * self.precision,
            sums=self.sums,
            likelihood=self.likelihood,
            soft=self.soft,
            offset=offset,
        )

    def confidence(self, weights: AnyFloats, *, offset: AnyFloats | None = None, ridge: float = 1.0) -> float:
        """Return the factor on fitted scores under which noisy labels are likeliest, each by what others tell of it.

        A prior that shrinks scores by as much as noise asks for shrinks right ones, too; the factor makes up for it. To
        first order, a record that is left out takes its leverage times the slope of its likelihood from its scores.
        Rows must be uncorrelated with mean square one, so that leverages are sums of squares; the mean square of the
        slopes stands for the curvature. Without noisy labels the factor is 1.

        Args:
            weights: what `largest` returned with the same offset and ridge.
            offset, ridge: as there.
        """
        if self.likelihood is None:
            return 1.0
        scores = self.rows @ weights.astype(self.rows.dtype)
        chances = softmax(scores if offset is None else scores + offset, axis=1)
        joint = chances * self.likelihood
        slopes = chances - joint / np.maximum(joint.sum(axis=1, keepdims=True), np.finfo(joint.dtype).tiny)
        curvature = max(float(np.mean(slopes**2)), float(np.finfo(slopes.dtype).tiny))
        leverages = self.rows**2 @ (1 / (curvature * len(scores) + ridge * self.precision)).astype(self.rows.dtype)
        return likeliest_factor(FACTORS, scores + leverages[:, None] * slopes, self.likelihood, offset)


def likeliest_factor(
    factors: AnyFloats, scores: AnyFloats, likelihood: AnyFloats, offset: AnyFloats | None = None
) -> float:
    """Return the factor on scores, before the offset is added, under which noisy labels are likeliest."""
    explained = []
    for factor in factors.tolist():
        chances = softmax(factor * scores if offset is None else factor * scores + offset, axis=1)
        total = np.einsum("ij,ij->i", chances, likelihood)
        explained.append(np.log(np.maximum(total, np.finfo(total.dtype).tiny)).mean(dtype=np.float64))
    return float(factors[np.argmax(explained)])


def _of_slopes(rows: AnyFloats, residuals: AnyFloats) -> float:
    """Return the mean square of sums of rows times residuals (n, K), over the sum of their squares."""
    shape = rows.shape[1], residuals.shape[1]
    sums, squares = np.zeros(shape), np.zeros(shape)
    for start in range(0, len(rows), BLOCK_ROWS):
        part = rows[start : start + BLOCK_ROWS]
        block = residuals[start : start + BLOCK_ROWS].astype(part.dtype)
        sums += part.T @ block
        squares += (part**2).T @ block**2
    return float((sums**2 / np.maximum(squares, np.finfo(np.float64).tiny)).mean())

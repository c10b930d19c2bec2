"""The likelihood of all that was released under a softmax of linear scores: noisy sums, noisy labels, and a prior.

One objective of three terms, for coefficients W, rows x and probabilities p(x) = softmax(x W + offset):

* noisy sums: half the squared distance of the sum of r p(x) from each released sum of r y, over the variance of its
  noise and of the labels around their probabilities;
* noisy labels: minus the log of the sum over classes of P(released | class) p(class), added over records; or soft
  labels: their cross-entropy;
* coefficients: half their squares times the precision of a Gaussian prior.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import softmax

from labeldp.privacy import AnyFloats

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
        """The term of sums with noise of standard deviation `spread`.

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

    def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        coefficients = flat.reshape(shape)
        probabilities = rows @ coefficients.astype(kind)
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
        slope = probabilities * (slope - np.einsum("ij,ij->i", probabilities, slope)[:, None])
        if likelihood is not None:
            joint = probabilities * likelihood
            total = joint.sum(axis=1, keepdims=True)
            value -= float(np.log(np.maximum(total, np.finfo(kind).tiny)).sum(dtype=np.float64))
            slope += probabilities - joint / np.maximum(total, np.finfo(kind).tiny)
        if soft is not None:
            value -= float(np.sum(soft * np.log(np.maximum(probabilities, np.finfo(kind).tiny)), dtype=np.float64))
            slope += probabilities - soft
        gradient = (rows.T @ slope).astype(np.float64) + penalty * coefficients
        return value, gradient.ravel()

    found = minimize(
        objective, np.asarray(start, dtype=np.float64).ravel(), jac=True, method="L-BFGS-B", options={"maxiter": steps}
    )
    return np.asarray(found.x.reshape(shape))


@dataclass(frozen=True)
class Posterior:
    """What was released about some records, as the log density of the coefficients of a softmax sees it.

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
        """Return how far a model of these records is from what was released, in units of what chance makes of it.

        It is a chi-square over its degrees of freedom: near 1 for the true probabilities, below for a model that was
        fitted to the same release, and above for one that the release contradicts. For sums it is the mean square of
        their distances in standard deviations. For labels it is that of the slopes along each of the rows, in standard
        deviations of the sums that they are: the mean of P(class | label) over labels is the model's own probability.

        Args:
            probabilities: what the model says, shape (n, K).
        """
        found = [_of_sums(term, probabilities) for term in self.sums]
        if self.likelihood is not None:
            known = np.asarray(probabilities) * self.likelihood
            known /= known.sum(axis=1, keepdims=True)
            found.append(_of_slopes(self.rows, known - probabilities))
        return float(np.mean(found))

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

    def explained(factor: float) -> float:
        chances = softmax(factor * scores if offset is None else factor * scores + offset, axis=1)
        total = np.einsum("ij,ij->i", chances, likelihood)
        return float(np.log(np.maximum(total, np.finfo(total.dtype).tiny)).mean(dtype=np.float64))

    return max(factors.tolist(), key=explained)


def _of_sums(term: SumsTerm, probabilities: AnyFloats) -> float:
    """Return the mean square of the distances of sums, in standard deviations."""
    gap = term.rows.T @ np.asarray(probabilities, dtype=term.rows.dtype) - term.moment
    return float((gap**2 / term.variance[:, None]).mean())


def _of_slopes(rows: AnyFloats, residuals: AnyFloats) -> float:
    """Return the mean square of sums of rows times residuals (n, K), over the sum of their squares."""
    shape = rows.shape[1], residuals.shape[1]
    sums, squares = np.zeros(shape), np.zeros(shape)
    for start in range(0, len(rows), BLOCK_ROWS):
        part = rows[start : start + BLOCK_ROWS]
        rest = residuals[start : start + BLOCK_ROWS].astype(part.dtype)
        sums += part.T @ rest
        squares += (part**2).T @ rest**2
    return float((sums**2 / np.maximum(squares, np.finfo(np.float64).tiny)).mean())

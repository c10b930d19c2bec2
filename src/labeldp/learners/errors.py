"""How far off predicted numbers are, from noisy labels alone: debiased errors with confidence intervals."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from labeldp.learners.evaluation import LEVEL, Estimate, Evaluation, mean_estimate
from labeldp.mechanisms import DiscreteLaplace, Interval, RandomizedResponse, debias
from labeldp.privacy import InputError, NotInvertibleError, Release

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NumberEvaluation:
    """Records with numbers that were released with noise on the grid, and a model's predictions of them.

    Absolute errors have no estimate of use: taking noise out of a function with a kink costs more than the noise.

    Args:
        release: the released codes, shape (n,).
        predictions: of the model, in the unit of the labels, shape (n,); it never met these labels.
        of: what was evaluated, in words.
        rows: which records of the training table these are, shape (n,).
    """

    release: Release[Any] = field(repr=False)
    predictions: Floats = field(repr=False)
    of: str
    rows: NDArray[np.intp] | None = field(default=None, repr=False)

    def __str__(self) -> str:
        found = self.error()
        return (
            f"estimated root mean squared error {found.value:.4g}, {100 * found.level:g} % interval {found.low:.4g} to "
            f"{found.high:.4g}, from {len(self.release.value):,} released labels; what was evaluated: {self.of}"
        )

    def squared_error(self, level: float = LEVEL) -> Estimate:
        """See `debiased_squared_error`."""
        return debiased_squared_error(self.release, self.predictions, level=level)

    def error(self, level: float = LEVEL) -> Estimate:
        """The root of the mean squared error, in the unit of the labels; not below 0."""
        return _root(self.squared_error(level))

    def constant_error(self, level: float = LEVEL) -> Estimate:
        """The root mean squared error of always answering the mean, which is learned from other released labels."""
        return _root(debiased_squared_error(self.release, self.constant(), level=level))

    def gain(self, level: float = LEVEL) -> Estimate:
        """By how much the mean squared error is smaller than that of always answering the mean.

        Record by record most of the noise cancels out: the interval is far narrower than those of the two errors.
        """
        return mean_estimate(self._gains(), level)

    def explained(self, level: float = LEVEL) -> Estimate:
        """See `debiased_share`: the gain as a share of the mean's squared error, known as R squared."""
        return debiased_share(self._gains(), _squares(self.release, self.constant()), level=level)

    def constant(self) -> Floats:
        """For each record the mean of released labels that are not its own, shape (n,).

        A half of the records, drawn without looking at them, gets the mean of the others, and the other way round.
        """
        labels = debias(self.release.mechanism, self.release.value).values
        low, high = self.release.mechanism.domain.low, self.release.mechanism.domain.high
        first = np.random.default_rng(0).permutation(len(labels)) % 2 == 0
        if first.all():
            return np.full(len(labels), (low + high) / 2)
        means = [float(np.clip(labels[half].mean(), low, high)) for half in (first, ~first)]
        return np.where(first, means[1], means[0])

    def residuals(self) -> Floats:
        """Unbiased labels minus predictions, shape (n,): of use in means over many records only."""
        return debias(self.release.mechanism, self.release.value).values - self.predictions

    def take(self, rows: Any) -> "NumberEvaluation":
        """The evaluation on some of its records."""
        release = replace(self.release, value=self.release.value[rows])
        return replace(
            self,
            release=release,
            predictions=self.predictions[rows],
            rows=None if self.rows is None else self.rows[rows],
        )

    def _gains(self) -> Floats:
        return _squares(self.release, self.constant()) - _squares(self.release, self.predictions)


def measuring(domain: Any, epsilon: float) -> RandomizedResponse | DiscreteLaplace:
    """What answers records that a model is measured on: plain randomized response, or for numbers noise on the grid."""
    if isinstance(domain, Interval):
        return DiscreteLaplace(domain=domain, epsilon=epsilon)
    return RandomizedResponse(domain=domain, epsilon=epsilon)


def judged(release: Release[Any], predicted: Any, of: str, rows: NDArray[np.intp]) -> Evaluation | NumberEvaluation:
    """The evaluation of class probabilities, or of predictions, kept in range, on records with released labels."""
    domain = release.mechanism.domain
    if isinstance(domain, Interval):
        return NumberEvaluation(release, np.clip(predicted, domain.low, domain.high), of, rows)
    return Evaluation(release, predicted, of, rows)


def debiased_squared_error(release: Release[Any], predictions: Any, *, level: float = LEVEL) -> Estimate:
    """The mean squared error that predictions would show on the true labels, in the square of their unit.

    Args:
        release: n numbers, released by `DiscreteLaplace`.
        predictions: numbers, shape (n,), made without these labels.
        level: coverage of the interval.

    Returns:
        Unbiased; the estimate itself may be negative where n or epsilon is small. The interval is the normal one.

    Guarantee: over the noise, the estimate's mean is the error on the true labels, also at the ends of the range.

    Raises:
        InputError: another release, or not one finite prediction for each label.
        NotInvertibleError: the release has no unbiased squares.
    """
    return mean_estimate(_squares(release, predictions), level)


def debiased_share(gains: Floats, totals: Floats, *, level: float = LEVEL) -> Estimate:
    """The mean of some numbers as a share of the mean of others that belong to the same records, at most 1.

    Args:
        gains, totals: shape (n,).
        level: coverage of the interval: the shares for which the mean of gains - share * totals could be 0.

    Returns:
        The share; from -infinity to 1 where the totals could have mean 0, so that the share could be anything.

    Source: Fieller, Some Problems in Interval Estimation, Section 3.
    """
    gain, total = float(gains.mean()), float(totals.mean())
    if len(gains) < 2 or total <= 0:
        return Estimate(float("nan"), -np.inf, 1.0, level)
    spread = np.cov(gains, totals) * ndtri((1 + level) / 2) ** 2 / len(gains)
    square, middle, rest = total**2 - spread[1, 1], gain * total - spread[0, 1], gain**2 - spread[0, 0]
    if square <= 0:
        return Estimate(min(gain / total, 1.0), -np.inf, 1.0, level)
    half = np.sqrt(max(middle**2 - square * rest, 0.0))
    low, value, high = np.minimum([(middle - half) / square, gain / total, (middle + half) / square], 1.0)
    return Estimate(float(value), float(low), float(high), level)


def _squares(release: Release[Any], predictions: Any) -> Floats:
    """Unbiased squared errors, shape (n,)."""
    mechanism = release.mechanism if isinstance(release, Release) else None
    if mechanism is None:
        raise InputError("release must be what Curator.release returned for a mechanism on an Interval")
    if not hasattr(mechanism, "unbiased_squares"):
        raise NotInvertibleError(f"{type(mechanism).__name__} has no unbiased squared errors: take DiscreteLaplace")
    values = np.asarray(predictions, dtype=np.float64)
    if values.shape != np.shape(release.value) or not np.all(np.isfinite(values)):
        raise InputError("predictions must be one finite number for each released label")
    if not len(values):
        raise InputError("release must hold at least one record")
    return np.asarray(mechanism.unbiased_squares(release.value, values))


def _root(square: Estimate) -> Estimate:
    """The root of an estimate of a number that cannot be negative."""
    value, low, high = (float(np.sqrt(max(each, 0.0))) for each in (square.value, square.low, square.high))
    return Estimate(value, low, high, square.level)

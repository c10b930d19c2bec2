"""How good a given regressor is, from released numbers that it never saw: squared errors, and what it explains."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np

from labeldp.inference.catalog import RULES
from labeldp.inference.estimate import INDEPENDENT, LEVEL, Estimate
from labeldp.inference.groups import Codes
from labeldp.inference.intervals import fieller, laplace_quantile, normal_quantile, student
from labeldp.inference.reuse import refuse_reused
from labeldp.mechanisms import debias
from labeldp.privacy import Certificate, Floats, InputError, NotInvertibleError, Release


@dataclass(frozen=True, kw_only=True)
class Errors(ABC):
    """A regressor's predictions for records whose numbers it never saw, and its errors.

    There is no useful estimate of absolute errors: debiasing a function with a kink adds more than the noise.

    Args:
        predictions: in the unit of the labels, shape (n,).
        about: what was evaluated, in words.
        rows: places of these records in the table that a learner trained on, shape (n,).
        fold: one of the models of a cross-validation, and the places, among these records, of those whose labels it
            did not see; None where there is none.
        level: coverage of the intervals.
    """

    predictions: Floats = field(repr=False)
    about: str = ""
    rows: Codes | None = field(default=None, repr=False)
    fold: Any = field(default=None, repr=False)
    level: float = LEVEL

    def __str__(self) -> str:
        error = self.error()
        return (
            f"estimated root mean squared error {error.value:.4g}, {100 * self.level:g} % interval {error.low:.4g} to "
            f"{error.high:.4g}, from {self.measured}; what was evaluated: {self.about}"
        )

    @property
    @abstractmethod
    def measured(self) -> str:
        """What the errors are from, in words."""

    @property
    @abstractmethod
    def certificate(self) -> Certificate:
        """Of the release."""

    @abstractmethod
    def squared_error(self) -> Estimate:
        """Estimate the mean squared error, in the square of the unit of the labels."""

    @abstractmethod
    def constant_squared_error(self) -> Estimate:
        """Estimate the mean squared error of a constant that was learned without these labels."""

    @abstractmethod
    def gain(self) -> Estimate:
        """Estimate by how much the mean squared error is below the error of the constant."""

    @abstractmethod
    def explained(self) -> Estimate:
        """Estimate R squared, the gain as a share of the squared error of the constant, at most 1."""

    @final
    def error(self) -> Estimate:
        """Estimate the root mean squared error, in the unit of the labels, at least 0."""
        return _root(self.squared_error())

    @final
    def constant_error(self) -> Estimate:
        """Estimate the root mean squared error of the constant."""
        return _root(self.constant_squared_error())

    def _estimate(self, key: str, quantity: str, value: float, low: float, high: float) -> Estimate:
        rule, why = RULES[key], f"the predictions were not computed from these labels ({self.about})"
        return Estimate(
            quantity=quantity, value=value, low=low, high=high, level=self.level, records=len(self.predictions),
            guarantee=rule.guarantee, method=rule.method, certificate=self.certificate,
            assumptions=(why, INDEPENDENT, *self.certificate.assumptions),
        )  # fmt: skip


def _root(square: Estimate) -> Estimate:
    """Return the root of an estimate of a number that cannot be negative; one below 0 counts as 0, with its margin."""
    moved = max(-square.value, 0.0)
    value, low, high = (float(np.sqrt(max(end + moved, 0.0))) for end in (square.value, square.low, square.high))
    return replace(square, quantity=f"root {square.quantity}", value=value, low=low, high=high)


@final
@dataclass(frozen=True, kw_only=True)
class DebiasedErrors(Errors):
    """The errors of a regressor on records whose numbers were released one by one.

    Args:
        release: released codes, shape (n,), of a mechanism with noise on the grid.

    Guarantee (unbiased): over the noise, the mean of the squared error is that on the true labels, also at the ends of
        the range.
    """

    release: Release[Any] = field(repr=False)

    @property
    def measured(self) -> str:
        """What the errors are from, in words."""
        return f"{len(self.release.value):,} released labels"

    @property
    def certificate(self) -> Certificate:
        """Of the release."""
        return self.release.certificate

    def squared_error(self) -> Estimate:
        """Estimate the mean squared error, in the square of the unit of the labels; it may be negative."""
        return self._mean("squared error", "mean squared error", self._squares(self.predictions))

    def constant_squared_error(self) -> Estimate:
        """Estimate the mean squared error of the constant mean, which is learned from other released labels."""
        return self._mean("squared error", "mean squared error of a constant", self._squares(self.constant()))

    def gain(self) -> Estimate:
        """Estimate by how much the mean squared error is below the error of the constant mean.

        Most of the noise cancels record by record, so the interval is far narrower than those of the two errors.
        """
        return self._mean("squared error", "reduction of the mean squared error", self._gains())

    def explained(self) -> Estimate:
        """Estimate R squared, the gain as a share of the squared error of the mean, at most 1.

        The interval holds the shares for which the mean of gains - share * squares could be 0. It is from -infinity to
        1 if the mean of the squares could be 0.

        Source: Fieller, Section 3.
        """
        value, low, high = share_of(self._gains(), self._squares(self.constant()), self.level)
        return self._estimate("explained share", "R squared", value, low, high)

    def constant(self) -> Floats:
        """Return for each record the mean of released labels that are not its own, shape (n,).

        Each random half of the records gets the mean of the other half.
        """
        labels = debias(self.release.mechanism, self.release.value).values
        low, high = self.release.mechanism.domain.low, self.release.mechanism.domain.high
        first = np.random.default_rng(0).permutation(len(labels)) % 2 == 0
        if first.all():
            return np.full(len(labels), (low + high) / 2)
        means = [float(np.clip(labels[half].mean(), low, high)) for half in (first, ~first)]
        return np.where(first, means[1], means[0])

    def residuals(self) -> Floats:
        """Return unbiased labels minus predictions, shape (n,), which are useful in means over many records only."""
        return debias(self.release.mechanism, self.release.value).values - self.predictions

    def _gains(self) -> Floats:
        return self._squares(self.constant()) - self._squares(self.predictions)

    def _squares(self, predictions: Any) -> Floats:
        """Return unbiased squared errors, shape (n,)."""
        mechanism, values = self.release.mechanism, np.asarray(predictions, dtype=np.float64)
        refuse_reused(mechanism, self.release.value, predictions=values)
        return np.asarray(mechanism.unbiased_squares(self.release.value, values))

    def _mean(self, key: str, quantity: str, values: Floats) -> Estimate:
        """Return the mean of independent numbers with Student's interval, which is infinite for one number."""
        value, count = float(values.mean()), len(values)
        low, high = student(value, values.var(ddof=1) / count if count > 1 else np.inf, count - 1, self.level)
        return self._estimate(key, quantity, value, float(low), float(high))


def evaluate_numbers(release: Any, predictions: Any, *, about: str = "", level: float = LEVEL) -> DebiasedErrors:
    """Measure a regressor on released numbers that it never saw.

    Args:
        release: n numbers, released by `DiscreteLaplace`.
        predictions: numbers, shape (n,), made without these labels.
        about: what is evaluated, in words.
        level: coverage of the intervals.

    Raises:
        InputError: the release is of another kind, or there is not one finite prediction for each label.
        NotInvertibleError: the release has no unbiased squares.
    """
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
    refuse_reused(mechanism, release.value, predictions=values)
    return DebiasedErrors(release=release, predictions=values, about=about, level=level)


def share_of(gains: Floats, totals: Floats, level: float) -> tuple[float, float, float]:
    """Return the mean of gains as a share of the mean of totals of the same records, with its ends, at most 1.

    Args:
        gains, totals: numbers, shape (n,).
        level: coverage of the interval.

    Returns:
        Value, low and high. The value is NaN and the interval from -infinity to 1 if the mean of the totals could be 0.

    Source: Fieller, Some Problems in Interval Estimation, Section 3.
    """
    means = np.array([gains.mean(), totals.mean()])
    if len(gains) < 2 or means[1] <= 0:
        return float("nan"), -np.inf, 1.0
    ends = fieller(means, np.cov(gains, totals) / len(gains), level)
    low, value, high = np.minimum([ends[0], means[0] / means[1], ends[1]], 1.0)
    return float(value), float(low), float(high)


@final
@dataclass(frozen=True, kw_only=True)
class SummedErrors(Errors):
    """The errors of a regressor on records whose squared errors a trusted curator summed.

    Nothing is known of single records. The constant is the mean prediction.

    Args:
        errors: what `SquaredErrors` released of the predictions.
        constant_errors: the same of the constant.
        constant: the mean prediction.
    """

    errors: Release[Any] = field(repr=False)
    constant_errors: Release[Any] = field(repr=False)
    constant: float

    @property
    def measured(self) -> str:
        """What the errors are from, in words."""
        return f"a noisy sum over {len(self.predictions):,} records"

    @property
    def certificate(self) -> Certificate:
        """Of the release."""
        return self.errors.certificate

    def squared_error(self) -> Estimate:
        """Estimate the mean squared error, in the square of the unit of the labels; see `summed_error`."""
        return self._estimate("squared error, sums", "mean squared error", *summed_error(self.errors, self.level))

    def constant_squared_error(self) -> Estimate:
        """Estimate the mean squared error of the constant."""
        ends = summed_error(self.constant_errors, self.level)
        return self._estimate("squared error, sums", "mean squared error of a constant", *ends)

    def gain(self) -> Estimate:
        """Estimate by how much the mean squared error is below the error of the constant.

        The interval takes errors of predictions that are far from the constant to be as large as others.
        """
        value = _mean(self.constant_errors) - _mean(self.errors)
        noise = np.hypot(_noise_quantile(self.errors, self.level), _noise_quantile(self.constant_errors, self.level))
        error = max(_mean(self.errors), 0.0) + _noise_quantile(self.errors, self.level)
        # A record's gain is twice the distance of both predictions times that of the label from their middle.
        away = (self.predictions - self.constant) ** 2
        spread = np.sqrt(np.mean(4 * away * error + away**2) / len(away))
        half = float(np.hypot(noise, normal_quantile(self.level) * spread))
        title = "reduction of the mean squared error"
        return self._estimate("squared error, sums", title, value, value - half, value + half)

    def explained(self) -> Estimate:
        """Estimate R squared, the gain as a share of the squared error of the constant, at most 1.

        The interval holds both estimates at half the risk each.
        """
        half = (1 + self.level) / 2
        gain, (total, *ends) = replace(self, level=half).gain(), summed_error(self.constant_errors, half)
        value, low, high = float("nan"), -np.inf, 1.0
        if ends[0] > 0 and total > 0:
            value = min(gain.value / total, 1.0)
            low, high = gain.low / ends[gain.low > 0], min(gain.high / ends[gain.high <= 0], 1.0)
        return self._estimate("explained share, sums", "R squared", value, low, high)


def summed_error(release: Release[Any], level: float) -> tuple[float, float, float]:
    """Return a mean squared error from a noisy sum over records: value, low and high.

    The value is unbiased and may be negative. The interval holds the error on other records of the same kind: it adds
    up, as independent, the quantile of the noise and that of the sampling at the largest variance of errors with this
    mean and this range.

    Source: BhatiaDavis for that variance.
    """
    mechanism = release.mechanism
    value, noise = _mean(release), _noise_quantile(release, level)
    likely = float(np.clip(max(value, mechanism.noise_stddev), 0, mechanism.largest))
    spread = np.sqrt(likely * (mechanism.largest - likely) / mechanism.records)
    half = float(np.hypot(noise, normal_quantile(level) * spread))
    return value, value - half, value + half


def _mean(release: Release[Any]) -> float:
    return float(release.mechanism.mean(release.value))


def _noise_quantile(release: Release[Any], level: float) -> float:
    """Return what the noise on a mean squared error exceeds with probability 1 - level, as of a Laplace law."""
    return float(laplace_quantile(release.mechanism.noise_stddev, level))

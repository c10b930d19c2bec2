"""Debiased scores of predicted classes and numbers, from released labels alone."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

from labeldp.learners.evidence import MIN_PROBABILITY, Probabilities, inverse_table, normalized
from labeldp.mechanisms import Classes, DiscreteLaplace, Interval, RandomizedResponse, debias
from labeldp.privacy import Floats, InputError, NotInvertibleError, Release

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """An estimate from noisy labels: a number or an array.

    Args:
        value: the estimate.
        low, high: confidence interval.
        level: coverage of the interval, in (0, 1); for an array, of each entry on its own.
    """

    value: Any
    low: Any
    high: Any
    level: float = LEVEL

    def __str__(self) -> str:
        if np.ndim(self.value):
            return repr(self)
        return f"{self.value:.4g} ({100 * self.level:g} % interval {self.low:.4g} to {self.high:.4g})"


@dataclass(frozen=True)
class Evaluation:
    """A classifier's probabilities for records whose labels were released, and its debiased scores.

    Args:
        release: released codes, shape (n,), or packed bits, of an invertible mechanism.
        probabilities: probabilities of a model that never saw these labels, shape (n, K).
        source: what was evaluated, in words.
        rows: places of these records in the training table, shape (n,).
        fold: one of the models of a cross-validation, and the places, among these records, of those whose labels it
            did not see; None where there is none.
    """

    release: Release[Any] = field(repr=False)
    probabilities: Probabilities = field(repr=False)
    source: str
    rows: NDArray[np.intp] | None = field(default=None, repr=False)
    fold: Any = field(default=None, repr=False)

    @property
    def predictions(self) -> NDArray[np.intp]:
        """Predicted codes, shape (n,)."""
        return self.probabilities.argmax(axis=1)

    def __str__(self) -> str:
        found = self.accuracy()
        value = np.clip(found.value, found.low, found.high)  # a debiased value may lie outside of its interval
        percent = [f"{100 * share:.1f} %" for share in (value, found.low, found.high)]
        return (
            f"estimated accuracy {percent[0]}, {100 * found.level:g} % interval {percent[1]} to {percent[2]}, from "
            f"{len(self.release.value):,} released labels; what was evaluated: {self.source}"
        )

    def accuracy(self, level: float = LEVEL) -> Estimate:
        """See `debiased_accuracy`."""
        return debiased_accuracy(self.release, self.predictions, level=level)

    def log_loss(self, level: float = LEVEL) -> Estimate:
        """See `debiased_log_loss`."""
        return debiased_log_loss(self.release, self.probabilities, level=level)

    def confusion(self, level: float = LEVEL) -> Estimate:
        """See `debiased_confusion`."""
        return debiased_confusion(self.release, self.predictions, level=level)

    def auc(self, level: float = LEVEL) -> Estimate:
        """See `debiased_auc`."""
        return debiased_auc(self.release, self.probabilities[:, 1], level=level)


def debiased_accuracy(release: Release[Any], predictions: Any, *, level: float = LEVEL) -> Estimate:
    """Estimate the accuracy that predictions would show on the true labels.

    Args:
        release: answers for n records that may name any class, or bits for all classes.
        predictions: predicted codes, shape (n,), made without these labels.
        level: coverage of the interval.

    Returns:
        An unbiased estimate, which may lie outside of [0, 1] if n or epsilon is small. The interval is exact (Clopper
        and Pearson's, for how often released answers name the predicted class) and clipped to [0, 1].

    Raises:
        NotInvertibleError: some record had fewer candidates than classes.
    """
    found = _Answers.of(release)
    predicted = _predicted(predictions, *found.answers.shape)
    agreements = int(found.answers[np.arange(len(predicted)), predicted].sum())
    return accuracy_of_agreements(release.mechanism, agreements, len(predicted), level=level)


def accuracy_of_agreements(mechanism: Any, agreements: int, records: int, *, level: float = LEVEL) -> Estimate:
    """Estimate the accuracy that predictions would show on the true labels, from how often answers name them.

    Args:
        mechanism: what answered each record, on `Classes`.
        agreements: for how many records the answer names the predicted class.
        records: how many there are.
        level: coverage of the interval.

    Returns:
        What `debiased_accuracy` returns.
    """
    hit, miss = _hit_and_miss(inverse_table(mechanism))
    rates = np.array([agreements / records, *clopper_pearson(agreements, records, level)])
    value, low, high = miss + (hit - miss) * rates
    return Estimate(float(value), float(np.clip(low, 0, 1)), float(np.clip(high, 0, 1)), level)


def debiased_log_loss(release: Release[Any], probabilities: Any, *, level: float = LEVEL) -> Estimate:
    """Estimate the mean of -ln P(true class), in nats, of probabilities (n, K) on the true labels.

    Probabilities are raised to at least 0.001, as the estimate would vary too much without a bound. The interval is the
    normal one.

    Raises:
        NotInvertibleError: some record had fewer candidates than classes.
    """
    found = _Answers.of(release)
    losses = log_losses(_rows(probabilities, *found.answers.shape))
    return mean_estimate((found.indicators * losses).sum(axis=1), level)


def debiased_confusion(release: Release[Any], predictions: Any, *, level: float = LEVEL) -> Estimate:
    """Estimate the share of records with true class i (row) and predicted class j (column), shape (K, K), sum 1.

    Each entry is unbiased and may be negative. Intervals are exact for each entry given the predictions, clipped
    to what is possible.

    Raises:
        NotInvertibleError: some record had fewer candidates than classes.
    """
    found = _Answers.of(release)
    records, classes = found.answers.shape
    predicted = _predicted(predictions, records, classes)
    hit, miss = _hit_and_miss(found.inverse)
    counts = np.array([np.bincount(predicted[column], minlength=classes) for column in found.answers.T], dtype=float)
    totals = np.bincount(predicted, minlength=classes)
    shares = totals / records
    low, high = clopper_pearson(counts, totals[None, :], level)
    value = miss * shares + (hit - miss) * counts / records
    bounds = [np.clip(miss + (hit - miss) * rate, 0, 1) * shares for rate in (low, high)]
    return Estimate(value, bounds[0], bounds[1], level)


def debiased_auc(release: Release[Any], scores: Any, *, level: float = LEVEL) -> Estimate:
    """Estimate the area under the ROC curve that scores would show on the true labels, for two classes.

    Each pair of records is weighted by the product of its unbiased class indicators. The interval is normal, by the
    delta method; if the released labels do not show that both classes occur, it is [0, 1].

    Args:
        release: n released codes, or packed bits.
        scores: scores, larger where the second class is likelier, shape (n,).
        level: coverage of the interval.

    Raises:
        NotInvertibleError: some record had fewer candidates than classes.
    """
    weights = _Answers.of(release).indicators
    if weights.shape[1] != 2:
        raise InputError("the area under the ROC curve needs two classes")
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != weights.shape[:1] or not np.all(np.isfinite(values)):
        raise InputError("scores must be one finite number for each released label")
    shares = weights.mean(axis=0)
    if not np.all(shares > 0):
        return Estimate(0.5, 0.0, 1.0, level)
    above, below = _masses(values, weights)
    value = auc_estimate(weights, values)
    terms = weights[:, 1] * (below[:, 0] - value * shares[0]) + weights[:, 0] * (above[:, 1] - value * shares[1])
    half = ndtri((1 + level) / 2) * np.std(terms) / shares.prod() / np.sqrt(len(values))
    return Estimate(value, float(np.clip(value - half, 0, 1)), float(np.clip(value + half, 0, 1)), level)


def auc_estimate(weights: NDArray[np.float64], scores: NDArray[np.float64]) -> float:
    """Return the share of pairs of a record of each class that scores (n,) put in order, where ties count half.

    Pairs are weighted by the product of their unbiased class indicators, `weights`, shape (n, 2).
    """
    count = len(weights)
    _, below = _masses(scores, weights)
    own = (weights[:, 0] * weights[:, 1]).sum()
    ordered = count * (weights[:, 1] * below[:, 0]).sum() - own / 2
    pairs = weights[:, 0].sum() * weights[:, 1].sum() - own
    return float(ordered / pairs) if pairs > 0 else 0.5


def log_losses(probabilities: Any) -> NDArray[np.float64]:
    """Return -ln of probabilities, in nats, each raised to at least 0.001 so that debiased means vary less."""
    return -np.log(np.maximum(probabilities, MIN_PROBABILITY))


def clopper_pearson(hits: Any, trials: Any, level: float) -> tuple[Any, Any]:
    """Return the exact confidence interval of a binomial rate, [0, 1] without trials: Clopper and Pearson (1934)."""
    hits, trials, tail = np.asarray(hits, float), np.asarray(trials, float), (1 - level) / 2
    misses = trials - hits
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), misses + 1, tail), 0.0)
    high = np.where(misses > 0, betaincinv(hits + 1, np.maximum(misses, 1), 1 - tail), 1.0)
    return low, high


def mean_estimate(values: NDArray[np.float64], level: float) -> Estimate:
    """Return the mean of independent numbers with its normal interval, which is infinite for one number."""
    value = float(values.mean())
    half = float(ndtri((1 + level) / 2) * values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.inf
    return Estimate(value, value - half, value + half, level)


def _masses(
    scores: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return for each record the mean class weights of the records above and below its score, ties half, (n, 2)."""
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    sums = np.vstack([np.zeros((1, weights.shape[1])), np.cumsum(weights[order], axis=0)]) / len(scores)
    left, right = (sums[np.searchsorted(ordered, scores, side)] for side in ("left", "right"))
    below = (left + right) / 2
    return sums[-1] - below, below


@dataclass(frozen=True)
class _Answers:
    """Released answers, each one class or a bit for each class.

    Args:
        answers: whether the answer names the class, shape (n, K).
        inverse: see `inverse_table`.
        indicators: unbiased class indicators, shape (n, K).
    """

    answers: NDArray[np.bool_]
    inverse: NDArray[np.float64]
    indicators: NDArray[np.float64]

    @classmethod
    def of(cls, release: Release[Any]) -> "_Answers":
        mechanism = release.mechanism if isinstance(release, Release) else None
        if mechanism is None or not isinstance(mechanism.domain, Classes):
            raise InputError("release must be what Curator.release returned for a mechanism on Classes")
        inverse = inverse_table(mechanism)
        if not len(release.value):
            raise InputError("release must hold at least one record")
        return cls(mechanism.named(release.value), inverse, debias(mechanism, release.value).values)


def _hit_and_miss(inverse: NDArray[np.float64]) -> tuple[float, float]:
    """Return the unbiased indicators of an agreement and of a disagreement, if the noise treats classes alike."""
    hit, miss = float(inverse[0, 0]), float(inverse[0, 1])
    if not np.allclose(inverse, miss + (hit - miss) * np.eye(len(inverse))):
        raise InputError("release must be of a mechanism that treats all classes alike, such as RandomizedResponse")
    return hit, miss


def _predicted(predictions: Any, count: int, classes: int) -> NDArray[np.intp]:
    array = np.asarray(predictions)
    if array.shape != (count,) or array.dtype.kind not in "iu":
        raise InputError("predictions must be one integer code for each released label")
    if np.any(array < 0) or np.any(array >= classes):
        raise InputError(f"predictions must be codes from 0 to {classes - 1}")
    return array.astype(np.intp)


def _rows(probabilities: Any, count: int, classes: int) -> Probabilities:
    rows = np.asarray(probabilities, dtype=np.float64)
    if rows.shape != (count, classes) or not np.all(rows >= 0):
        raise InputError("probabilities must have one row for each released label and one column for each class")
    return normalized(rows)


HELD_OUT = "the model, on records that it was not trained on"


@dataclass(frozen=True)
class NumberEvaluation:
    """A regressor's predictions for records whose numbers were released, and its debiased errors.

    There is no useful estimate of absolute errors: debiasing a function with a kink adds more than the noise.

    Args:
        release: released codes, shape (n,), of a mechanism with noise on the grid.
        predictions: predictions of a model that never saw these labels, in their unit, shape (n,).
        source: what was evaluated, in words.
        rows: places of these records in the training table, shape (n,).
    """

    release: Release[Any] = field(repr=False)
    predictions: Floats = field(repr=False)
    source: str
    rows: NDArray[np.intp] | None = field(default=None, repr=False)

    def __str__(self) -> str:
        found = self.error()
        return (
            f"estimated root mean squared error {found.value:.4g}, {100 * found.level:g} % interval {found.low:.4g} to "
            f"{found.high:.4g}, from {len(self.release.value):,} released labels; what was evaluated: {self.source}"
        )

    def squared_error(self, level: float = LEVEL) -> Estimate:
        """See `debiased_squared_error`."""
        return debiased_squared_error(self.release, self.predictions, level=level)

    def error(self, level: float = LEVEL) -> Estimate:
        """Estimate the root mean squared error, in the unit of the labels, at least 0."""
        return _root(self.squared_error(level))

    def constant_error(self, level: float = LEVEL) -> Estimate:
        """Estimate the root mean squared error of the constant mean, which is learned from other released labels."""
        return _root(debiased_squared_error(self.release, self.constant(), level=level))

    def gain(self, level: float = LEVEL) -> Estimate:
        """Estimate by how much the mean squared error is below that of the constant mean.

        Most of the noise cancels record by record, so the interval is far narrower than those of the two errors.
        """
        return mean_estimate(self._gains(), level)

    def explained(self, level: float = LEVEL) -> Estimate:
        """Estimate R squared, the gain as a share of the squared error of the mean; see `debiased_share`."""
        return debiased_share(self._gains(), _squares(self.release, self.constant()), level=level)

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

    def take(self, rows: Any) -> "NumberEvaluation":
        """Return the evaluation on some of its records."""
        release, own = replace(self.release, value=self.release.value[rows]), self.rows
        kept = None if own is None else own[rows]
        return replace(self, release=release, predictions=self.predictions[rows], rows=kept)

    def _gains(self) -> Floats:
        return _squares(self.release, self.constant()) - _squares(self.release, self.predictions)


def evaluation_mechanism(domain: Any, epsilon: float) -> RandomizedResponse | DiscreteLaplace:
    """Return the mechanism for labels of an evaluation: plain randomized response, or for numbers noise on the grid."""
    if isinstance(domain, Interval):
        return DiscreteLaplace(domain=domain, epsilon=epsilon)
    return RandomizedResponse(domain=domain, epsilon=epsilon)


def evaluate(
    release: Release[Any], predicted: Any, source: str, rows: NDArray[np.intp]
) -> Evaluation | NumberEvaluation:
    """Return the evaluation of class probabilities, or of predictions, clipped to the range, on released labels."""
    domain = release.mechanism.domain
    if isinstance(domain, Interval):
        return NumberEvaluation(release, np.clip(predicted, domain.low, domain.high), source, rows)
    return Evaluation(release, predicted, source, rows)


def debiased_squared_error(release: Release[Any], predictions: Any, *, level: float = LEVEL) -> Estimate:
    """Estimate the mean squared error that predictions would show on the true labels, in the square of their unit.

    Args:
        release: n numbers, released by `DiscreteLaplace`.
        predictions: numbers, shape (n,), made without these labels.
        level: coverage of the interval.

    Returns:
        An unbiased estimate, which may be negative if n or epsilon is small. The interval is the normal one.

    Guarantee: over the noise, the estimate's mean is the error on the true labels, also at the ends of the range.

    Raises:
        InputError: the release is of another kind, or there is not one finite prediction for each label.
        NotInvertibleError: the release has no unbiased squares.
    """
    return mean_estimate(_squares(release, predictions), level)


def debiased_share(gains: Floats, totals: Floats, *, level: float = LEVEL) -> Estimate:
    """Estimate the mean of gains as a share of the mean of totals of the same records, at most 1.

    Args:
        gains, totals: numbers, shape (n,).
        level: coverage of the interval: the shares for which the mean of gains - share * totals could be 0.

    Returns:
        The share; its interval is from -infinity to 1 if the mean of the totals could be 0.

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
    """Return unbiased squared errors, shape (n,)."""
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
    """Return the root of an estimate of a number that cannot be negative."""
    value, low, high = (float(np.sqrt(max(each, 0.0))) for each in (square.value, square.low, square.high))
    return Estimate(value, low, high, square.level)

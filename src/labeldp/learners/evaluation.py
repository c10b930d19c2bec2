"""Debiased scores of predicted classes and numbers, from released labels alone."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.inference import (
    Estimate,
    Outcomes,
    PublicGroups,
    Scores,
    area_terms,
    clopper_pearson,
    fieller,
    laplace_quantile,
    normal_quantile,
    student,
    student_within,
    within_shares,
)
from labeldp.learners.evidence import Probabilities, inverse_table, normalized, refuse_reused
from labeldp.mechanisms import DiscreteLaplace, RandomizedResponse, debias
from labeldp.privacy import (
    CuratorLike,
    Floats,
    InputError,
    NotInvertibleError,
    RandomSource,
    Release,
    check_integer,
    float_below,
    positive_epsilon,
)

LEVEL = 0.95


@dataclass(frozen=True)
class ScoreEstimate:
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

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise InputError("must lie between 0 and 1, such as 0.95", argument="level")

    @classmethod
    def of(cls, estimate: Estimate) -> "ScoreEstimate":
        """Return the numbers of an estimate."""
        return cls(estimate.value, estimate.low, estimate.high, estimate.level)

    def __str__(self) -> str:
        if np.ndim(self.value):
            return repr(self)
        value = np.clip(self.value, self.low, self.high)  # a debiased value may lie outside of its interval
        return f"{value:.4g} ({100 * self.level:g} % interval {self.low:.4g} to {self.high:.4g})"


@dataclass(frozen=True)
class Evaluation:
    """A classifier's probabilities for records whose labels were released, and its debiased scores.

    Scores of a release where some record had fewer candidates than classes raise a NotInvertibleError.

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

    def accuracy(self, level: float = LEVEL) -> ScoreEstimate:
        """See `debiased_accuracy`."""
        return debiased_accuracy(self.release, self.predictions, level=level)

    def log_loss(self) -> ScoreEstimate:
        """Estimate the mean of -ln P(true class), in nats, with Student's interval, within what is possible.

        Probabilities are raised to at least 0.001, as the estimate would vary too much without a bound.
        """
        return ScoreEstimate.of(self._scores().log_loss())

    def confusion(self) -> ScoreEstimate:
        """Estimate the share of records with true class i (row) and predicted class j (column), shape (K, K), sum 1.

        Each entry is unbiased and may be negative. Its interval holds the share on all records of the same kind: it
        adds up, as independent, the exact intervals of how often the class is predicted and of which part of these
        records is of the true class, within what is possible.
        """
        return ScoreEstimate.of(self._scores().confusion())

    def recall(self) -> ScoreEstimate:
        """Estimate for each class the share of its records that predictions would find, shape (K,).

        This is a ratio of two unbiased estimates. Its interval is Fieller's, within [0, 1]: all of it where the
        released labels do not show that the class occurs; the estimate is NaN where there seem to be none.
        """
        return ScoreEstimate.of(self._scores().recall())

    def precision(self) -> ScoreEstimate:
        """Estimate for each class the share of records for which it is predicted that are of this class, shape (K,).

        It is `debiased_accuracy` of these records, with its exact interval; NaN and [0, 1] where there are none.
        """
        return ScoreEstimate.of(self._scores().precision())

    def f1(self) -> ScoreEstimate:
        """Estimate for each class the harmonic mean of precision and recall, shape (K,), as `recall` does."""
        return ScoreEstimate.of(self._scores().f1())

    def calibration(self, bins: int = 10) -> "Calibration":
        """Estimate how often predictions are right where the model is so and so sure of them.

        Args:
            bins: the largest number of bins of about equally many records; equal confidences stay together.

        Returns:
            Shares with the intervals of `debiased_accuracy`.
        """
        count, scores = check_integer(bins, "bins"), self._scores()
        sure = scores.probabilities.max(axis=1)
        edges = np.unique(np.sort(sure)[np.arange(1, count) * len(sure) // count])
        cells = PublicGroups.of(np.searchsorted(edges, sure, side="right"), len(sure))
        accuracy = replace(scores, cells=cells).accuracy()
        value, low, high = (np.atleast_1d(number) for number in (accuracy.value, accuracy.low, accuracy.high))
        whole, mean = scores.accuracy(), float(sure.mean())
        return Calibration(
            np.bincount(cells.block(slice(None), len(sure)), weights=sure) / cells.sizes,
            cells.sizes,
            ScoreEstimate(value, low, high),
            ScoreEstimate(mean - whole.value, mean - whole.high, mean - whole.low),
        )

    def auc(self) -> ScoreEstimate:
        """Estimate the area under the ROC curve of the second of two classes.

        Each pair of records is weighted by the product of its unbiased class indicators. The interval is Fieller's,
        within [0, 1]: all of it where the released labels do not show that both classes occur.
        """
        area = ScoreEstimate.of(self._scores().auc())
        return ScoreEstimate(0.5, 0.0, 1.0) if np.isnan(area.value) else area

    def _scores(self) -> Scores:
        """Return the scores, after a check of the release and of the shape of the probabilities."""
        check_release(self.release)
        records, rows = len(self.release.value), np.asarray(self.probabilities, dtype=np.float64)
        shape = (records, self.release.mechanism.domain.size)
        if rows.shape != shape or not np.all((rows >= 0) & (rows < np.inf)):
            raise InputError("must have one row for each released label and one column for each class",
                             argument="probabilities")  # fmt: skip
        outcomes, cells = Outcomes(self.release), PublicGroups.of(None, records)
        return Scores(outcomes, normalized(rows), "", cells, LEVEL, simultaneous=False)


def debiased_accuracy(release: Release[Any], predictions: Any, *, level: float = LEVEL) -> ScoreEstimate:
    """Estimate the accuracy that predictions would show on the true labels.

    Args:
        release: answers for n records that may name any class, or bits for all classes.
        predictions: predicted codes or class names, shape (n,), made without these labels.
        level: coverage of the interval.

    Returns:
        An unbiased estimate, which may lie outside of [0, 1] if n or epsilon is small. The interval is exact (Clopper
        and Pearson's, for how often released answers name the predicted class) and clipped to [0, 1].

    Raises:
        NotInvertibleError: some record had fewer candidates than classes.
    """
    check_release(release)
    predicted = predicted_codes(predictions, release)
    refuse_reused(release.mechanism, release.value, predictions=predicted)
    agreements, step = 0, max((1 << 22) // release.mechanism.domain.size, 1)
    for start in range(0, len(predicted), step):
        some = predicted[start : start + step]
        named = release.mechanism.named(release.value[start : start + step])
        agreements += int(named[np.arange(len(some)), some].sum())
    return accuracy_of_agreements(release.mechanism, agreements, len(predicted), level=level)


def accuracy_of_agreements(mechanism: Any, agreements: int, records: int, *, level: float = LEVEL) -> ScoreEstimate:
    """Estimate the accuracy of predictions from how often answers name them; see `debiased_accuracy`.

    Args:
        mechanism: the mechanism that answered each record, on `Classes`.
        agreements: the number of records whose answer names the predicted class.
        records: the number of records.
        level: coverage of the interval.
    """
    rates = mechanism.naming_rates() if hasattr(mechanism, "naming_rates") else None
    if rates is None or rates[0] == rates[1]:  # an arbitrary table, declared answers, or rates that doubles cannot tell
        inverse = inverse_table(mechanism)
        hit, miss = float(inverse[0, 0]), float(inverse[0, 1])
        alike = np.allclose(inverse, miss + (hit - miss) * np.eye(len(inverse)))
    else:
        (own, other), alike = rates, True
        hit, miss = (1 - other) / (own - other), -other / (own - other)
    if not alike:
        raise InputError("release must be of a mechanism that treats all classes alike, such as RandomizedResponse")
    rates = np.array([agreements / records, *clopper_pearson(agreements, records, level)])
    value, low, high = miss + (hit - miss) * rates
    low, high = within_shares(low, high)
    return ScoreEstimate(float(value), float(np.clip(low, 0, 1)), float(np.clip(high, 0, 1)), level)


@dataclass(frozen=True)
class Calibration:
    """How sure a model was of its answers, and how often they were right, in bins of records.

    Args:
        confidence: mean probability of the predicted class in each bin, shape (B,), rising.
        records: how many records each bin holds, shape (B,).
        accuracy: the debiased share of right answers in each bin.
        gap: by how much the model is too sure of itself over all records: mean confidence less accuracy.
    """

    confidence: NDArray[np.float64] = field(repr=False)
    records: NDArray[np.intp] = field(repr=False)
    accuracy: ScoreEstimate = field(repr=False)
    gap: ScoreEstimate


def debiased_difference(release: Release[Any], predictions: Any, others: Any, *, level: float = LEVEL) -> ScoreEstimate:
    """Estimate by how much predictions are right more often than others of the same records, on the true labels.

    Records on which both agree cancel, noise included, so that the interval is narrower than those of two accuracies.
    It is Student's, widened for differences that are too rare to have occurred.

    Args:
        release: n released codes, or packed bits.
        predictions, others: predicted codes or class names, shape (n,), made without these labels.
        level: coverage of the interval.

    Raises:
        NotInvertibleError: some record had fewer candidates than classes.
    """
    check_release(release)
    indicators = debias(release.mechanism, release.value).values
    records = np.arange(len(indicators))
    one, other = (predicted_codes(each, release) for each in (predictions, others))
    refuse_reused(release.mechanism, release.value, predictions=one, others=other)
    return mean_estimate(indicators[records, one] - indicators[records, other], level, (-1.0, 1.0))


def auc_estimate(weights: NDArray[np.float64], scores: NDArray[np.float64]) -> float:
    """Return the share of pairs of a record of each class that scores (n,) put in order, where ties count half.

    Pairs are weighted by the product of their unbiased class indicators, `weights`, shape (n, 2).
    """
    ordered, pairs = area_terms(weights[:, 1], scores).statistics.tolist()
    return float(ordered / pairs) if pairs > 0 else 0.5


def mean_estimate(values: NDArray[np.float64], level: float, reach: tuple[float, float] | None = None) -> ScoreEstimate:
    """Return the mean of independent numbers with Student's interval, which is infinite for one number.

    With the `reach` of the true values the interval is that of `student_within`.
    """
    value, count = float(values.mean()), len(values)
    variance = values.var(ddof=1) / count if count > 1 else np.inf
    if reach is None:
        low, high = student(value, variance, count - 1, level)
    else:
        low, high = student_within(np.asarray(value), np.asarray(variance), count, count - 1, reach, level)
    return ScoreEstimate(value, float(low), float(high), level)


def check_release(release: Any) -> None:
    """Raise an error unless an object is a release of classes with at least one record."""
    mechanism = release.mechanism if isinstance(release, Release) else None
    if mechanism is None or mechanism.domain.target != "classes":
        raise InputError("release must be what Curator.release returned for a mechanism on Classes")
    if not len(release.value):
        raise InputError("release must hold at least one record")


def predicted_codes(predictions: Any, release: Release[Any]) -> NDArray[np.intp]:
    """Return predictions for released labels as codes, shape (n,): integers are codes, everything else is names.

    Raises:
        InputError: there is not one for each label, or one is neither a code nor the name of a class.
    """
    domain, given = release.mechanism.domain, np.asarray(predictions)
    if given.shape != (len(release.value),):
        raise InputError("predictions must be one code, or one class name, for each released label")
    if given.dtype.kind not in "iu":
        try:
            given = domain.encode(predictions)
        except InputError:
            raise InputError(f"predictions must be names of {domain!r}, or their codes") from None
    if np.any(given < 0) or np.any(given >= domain.size):
        raise InputError(f"predictions must be codes from 0 to {domain.size - 1}, or names of classes")
    return given.astype(np.intp)


HELD_OUT = "the model, on records that it was not trained on"
"""What is evaluated where a part of the records is kept for it."""


@dataclass(frozen=True)
class NumberEvaluation:
    """A regressor's predictions for records whose numbers were released, and its debiased errors.

    There is no useful estimate of absolute errors: debiasing a function with a kink adds more than the noise.

    Args:
        release: released codes, shape (n,), of a mechanism with noise on the grid.
        predictions: predictions of a model that never saw these labels, in their unit, shape (n,).
        source: what was evaluated, in words.
        rows: places of these records in the training table, shape (n,).
        fold: as in `Evaluation`.
    """

    release: Release[Any] = field(repr=False)
    predictions: Floats = field(repr=False)
    source: str
    rows: NDArray[np.intp] | None = field(default=None, repr=False)
    fold: Any = field(default=None, repr=False)

    def __str__(self) -> str:
        found = self.error()
        return (
            f"estimated root mean squared error {found.value:.4g}, {100 * found.level:g} % interval {found.low:.4g} to "
            f"{found.high:.4g}, from {len(self.release.value):,} released labels; what was evaluated: {self.source}"
        )

    def squared_error(self, level: float = LEVEL) -> ScoreEstimate:
        """See `debiased_squared_error`."""
        return debiased_squared_error(self.release, self.predictions, level=level)

    def error(self, level: float = LEVEL) -> ScoreEstimate:
        """Estimate the root mean squared error, in the unit of the labels, at least 0."""
        return _root(self.squared_error(level))

    def constant_error(self) -> ScoreEstimate:
        """Estimate the root mean squared error of the constant mean, which is learned from other released labels."""
        return _root(debiased_squared_error(self.release, self.constant()))

    def gain(self, level: float = LEVEL) -> ScoreEstimate:
        """Estimate by how much the mean squared error is below the error of the constant mean.

        Most of the noise cancels record by record, so the interval is far narrower than those of the two errors.
        """
        return mean_estimate(self._gains(), level)

    def explained(self, level: float = LEVEL) -> ScoreEstimate:
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
        return replace(self, release=release, predictions=self.predictions[rows], rows=kept, fold=None)

    def _gains(self) -> Floats:
        return _squares(self.release, self.constant()) - _squares(self.release, self.predictions)


@dataclass(frozen=True)
class SummedErrors:
    """A regressor's predictions for records whose squared errors a trusted curator summed, and its errors.

    Nothing is known of single records.

    Args:
        errors: what `SquaredErrors` released of the predictions.
        constant_errors: the same of a constant: the mean prediction.
        predictions: predictions of a model that never saw these labels, in their unit, shape (n,).
        constant: the mean prediction.
        source: what was evaluated, in words.
        rows: places of these records in the training table, shape (n,).
    """

    errors: Release[Any] = field(repr=False)
    constant_errors: Release[Any] = field(repr=False)
    predictions: Floats = field(repr=False)
    constant: float
    source: str
    rows: NDArray[np.intp] = field(repr=False)

    def __str__(self) -> str:
        found = self.error()
        return (
            f"estimated root mean squared error {found.value:.4g}, {100 * found.level:g} % interval {found.low:.4g} to "
            f"{found.high:.4g}, from a noisy sum over {len(self.rows):,} records; what was evaluated: {self.source}"
        )

    def squared_error(self, level: float = LEVEL) -> ScoreEstimate:
        """See `summed_error`."""
        return summed_error(self.errors, level=level)

    def error(self, level: float = LEVEL) -> ScoreEstimate:
        """Estimate the root mean squared error, in the unit of the labels, at least 0."""
        return _root(self.squared_error(level))

    def constant_error(self) -> ScoreEstimate:
        """Estimate the root mean squared error of the constant."""
        return _root(summed_error(self.constant_errors))

    def gain(self, level: float = LEVEL) -> ScoreEstimate:
        """Estimate by how much the mean squared error is below the error of the constant.

        The interval takes errors of predictions that are far from the constant to be as large as others.
        """
        value = _mean(self.constant_errors) - _mean(self.errors)
        noise = np.hypot(_noise_quantile(self.errors, level), _noise_quantile(self.constant_errors, level))
        error = max(_mean(self.errors), 0.0) + _noise_quantile(self.errors, level)
        # A record's gain is twice the distance of both predictions times that of the label from their middle.
        away = (self.predictions - self.constant) ** 2
        spread = np.sqrt(np.mean(4 * away * error + away**2) / len(away))
        half = float(np.hypot(noise, normal_quantile(level) * spread))
        return ScoreEstimate(value, value - half, value + half, level)

    def explained(self, level: float = LEVEL) -> ScoreEstimate:
        """Estimate R squared, the gain as a share of the squared error of the constant, at most 1.

        The interval holds both estimates at half the risk each.
        """
        half = (1 + level) / 2
        gain, whole = self.gain(half), summed_error(self.constant_errors, level=half)
        if whole.low <= 0 or whole.value <= 0:
            return ScoreEstimate(float("nan"), -np.inf, 1.0, level)
        low = gain.low / (whole.high if gain.low > 0 else whole.low)
        high = gain.high / (whole.low if gain.high > 0 else whole.high)
        return ScoreEstimate(min(gain.value / whole.value, 1.0), low, min(high, 1.0), level)


def summed_error(release: Release[Any], *, level: float = LEVEL) -> ScoreEstimate:
    """Estimate the mean squared error of predictions from a noisy sum over records, in the square of their unit.

    Args:
        release: what `SquaredErrors` released.
        level: coverage of the interval.

    Returns:
        An unbiased estimate, which may be negative. The interval holds the error on other records of the same kind: it
        adds up, as independent, the quantile of the noise and that of the sampling at the largest variance of errors
        with this mean and this range.

    Source: BhatiaDavis for that variance.
    """
    mechanism = release.mechanism
    value, noise = _mean(release), _noise_quantile(release, level)
    likely = float(np.clip(max(value, mechanism.noise_stddev), 0, mechanism.largest))
    spread = np.sqrt(likely * (mechanism.largest - likely) / mechanism.records)
    half = float(np.hypot(noise, normal_quantile(level) * spread))
    return ScoreEstimate(value, value - half, value + half, level)


def _mean(release: Release[Any]) -> float:
    return float(release.mechanism.mean(release.value))


def _noise_quantile(release: Release[Any], level: float) -> float:
    """Return what the noise on a mean squared error exceeds with probability 1 - level, as of a Laplace law."""
    return float(laplace_quantile(release.mechanism.noise_stddev, level))


CONSTANT_SHARE = 0.25
"""The share of epsilon of a sum of squared errors that goes to those of the constant, in an evaluation of numbers."""


def release_errors(
    curator: CuratorLike, predicted: Any, *, epsilon: float, source: str, rows: NDArray[np.intp], rng: RandomSource
) -> SummedErrors:
    """Release the noisy sums of squared errors of predictions and of their mean, from a trusted curator."""
    from labeldp.mechanisms import SquaredErrors  # a fit of classes needs no sums of errors

    domain = curator.domain
    predictions = np.clip(predicted.value, domain.low, domain.high)
    codes = np.rint((predictions - domain.low) / domain.step).astype(np.int64)
    level = int(np.rint(codes.mean()))
    shares = error_shares(epsilon)
    found = {}
    for step, places in (("errors", codes), ("errors of the mean", np.full_like(codes, level))):
        given = predicted.map(lambda _, places=places: places)
        mechanism = SquaredErrors(domain=domain, epsilon=shares[step], predictions=given)
        found[step] = curator.release(mechanism, rng=rng, step=step)
    constant = float(domain.low + level * domain.step)
    return SummedErrors(found["errors"], found["errors of the mean"], predictions, constant, source, rows)


def error_shares(epsilon: float) -> dict[str, float]:
    """Return the epsilon of each step of `release_errors`."""
    whole = positive_epsilon(epsilon)
    constant = positive_epsilon(float_below(whole * positive_epsilon(CONSTANT_SHARE)))
    return {"errors": float_below(whole - constant), "errors of the mean": float(constant)}


def evaluation_mechanism(domain: Any, epsilon: float) -> RandomizedResponse | DiscreteLaplace:
    """Return the mechanism for labels of an evaluation: plain randomized response, or for numbers noise on the grid."""
    if domain.target == "numbers":
        return DiscreteLaplace(domain=domain, epsilon=epsilon)
    return RandomizedResponse(domain=domain, epsilon=epsilon)


def evaluate(
    release: Release[Any], predicted: Any, source: str, rows: NDArray[np.intp], fold: Any = None
) -> Evaluation | NumberEvaluation:
    """Return the evaluation of class probabilities, or of predictions, clipped to the range, on released labels."""
    domain = release.mechanism.domain
    if domain.target == "numbers":
        return NumberEvaluation(release, np.clip(predicted, *domain.ends), source, rows, fold)
    return Evaluation(release, predicted, source, rows, fold)


def debiased_squared_error(release: Release[Any], predictions: Any, *, level: float = LEVEL) -> ScoreEstimate:
    """Estimate the mean squared error that predictions would show on the true labels, in the square of their unit.

    Args:
        release: n numbers, released by `DiscreteLaplace`.
        predictions: numbers, shape (n,), made without these labels.
        level: coverage of the interval.

    Returns:
        An unbiased estimate, which may be negative if n or epsilon is small. The interval is Student's.

    Guarantee (unbiased): over the noise, the estimate's mean is the error on the true labels, also at the ends of the
        range.

    Raises:
        InputError: the release is of another kind, or there is not one finite prediction for each label.
        NotInvertibleError: the release has no unbiased squares.
    """
    return mean_estimate(_squares(release, predictions), level)


def debiased_share(gains: Floats, totals: Floats, *, level: float = LEVEL) -> ScoreEstimate:
    """Estimate the mean of gains as a share of the mean of totals of the same records, at most 1.

    Args:
        gains, totals: numbers, shape (n,).
        level: coverage of the interval: the shares for which the mean of gains - share * totals could be 0.

    Returns:
        The share; its interval is from -infinity to 1 if the mean of the totals could be 0.

    Source: Fieller, Some Problems in Interval Estimation, Section 3.
    """
    means = np.array([gains.mean(), totals.mean()])
    if len(gains) < 2 or means[1] <= 0:
        return ScoreEstimate(float("nan"), -np.inf, 1.0, level)
    ends = fieller(means, np.cov(gains, totals) / len(gains), level)
    low, value, high = np.minimum([ends[0], means[0] / means[1], ends[1]], 1.0)
    return ScoreEstimate(float(value), float(low), float(high), level)


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
    refuse_reused(mechanism, release.value, predictions=values)
    return np.asarray(mechanism.unbiased_squares(release.value, values))


def _root(square: ScoreEstimate) -> ScoreEstimate:
    """Return the root of an estimate of a number that cannot be negative; one below 0 counts as 0, with its margin."""
    moved = max(-square.value, 0.0)
    value, low, high = (float(np.sqrt(max(each + moved, 0.0))) for each in (square.value, square.low, square.high))
    return ScoreEstimate(value, low, high, square.level)

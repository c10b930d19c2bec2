"""How good a given classifier is, from released outcomes that it never saw: scores, and gaps between groups."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.inference.catalog import RULES, SCORES
from labeldp.inference.comparison import compare_answers
from labeldp.inference.curves import PairTerms, area_terms, precision_terms, ratio_of_pairs
from labeldp.inference.estimate import INDEPENDENT, LEVEL, TARGETS, Estimate, check_level
from labeldp.inference.groups import Codes, Means, PublicGroups
from labeldp.inference.intervals import (
    Ends,
    detection,
    exact_shares,
    mean_of_cells,
    ratio_within,
    recovered,
    rectangle,
    sidak,
    student_within,
)
from labeldp.inference.released import (
    NoisySums,
    Outcomes,
    entry_level,
    equal_rates,
    estimate_of,
    precision,
    public_numbers,
)
from labeldp.inference.reuse import refuse_reused
from labeldp.inference.sums import (
    area_of_sums,
    cell_means,
    is_sums,
    predicted_cells,
    refuse_users,
)
from labeldp.privacy import Floats, InputError, NotInvertibleError, Public, Release, check_choice, check_integer

FLOOR = 1e-3
"""Probabilities are raised to it in a log loss: without a bound its debiased terms vary too much."""


def log_losses(probabilities: Any) -> Floats:
    """Return -ln of probabilities, in nats, each raised to at least `FLOOR`."""
    return np.asarray(-np.log(np.maximum(probabilities, FLOOR)))


RATIO_TERMS: Mapping[str, Callable[[Floats, Floats], tuple[Floats, Floats]]] = {
    "recall": lambda true, hit: (true * hit, true),
    "precision": lambda true, hit: (true * hit, hit),
    "F1": lambda true, hit: (2 * true * hit, true + hit),
}
"""Scores of classes as ratios of sums of terms, from unbiased indicators and who is predicted, each shape (n, K)."""

FEW = 30
"""A class and a prediction with fewer answers that name the class, or that do not, have exact intervals."""


def evaluate(
    release: Any,
    probabilities: Any,
    *,
    groups: Any = None,
    users: Any = None,
    target: str = "population",
    level: float = LEVEL,
    simultaneous: bool = True,
) -> "Scores":
    """Measure a classifier on released outcomes, overall or by public group; all scores are free after the release.

    Args:
        release: answers by classes, or the sums of `plan_sums("evaluate", …)` or `plan_sums("auc", …)`.
        probabilities: `Public(array, why="…")` of a model that saw none of these labels, shape (n, K), or (n,) for the
            probability of the second of two classes.
        groups: a public group for each record, shape (n,).
        users, level: see `mean`.
        target: "population", new records like these, or "records", records with these predictions. The second one
            narrows the intervals of accuracy and recall from sums.
        simultaneous: whether the intervals of all groups and classes of one score hold together.

    Raises:
        InputError: probabilities that are not public or do not fit the release.
    """
    check_level(level)
    check_choice(target, "target", TARGETS)
    public = {"groups": groups, "probabilities": probabilities}
    source = NoisySums.of(release, **public) if is_sums(release) else Outcomes.of(release, users, **public)
    if isinstance(source, NoisySums):
        refuse_users(users)
    records = source.mechanism.records if isinstance(source, NoisySums) else source.records
    classes = len(source.names)
    if not classes:
        raise InputError("must be of classes: the outcome is a number", argument="release")
    single = isinstance(probabilities, Public) and np.ndim(probabilities.value) == 1 and classes == 2
    shape = (records,) if single else (records, classes)
    table, _ = public_numbers(probabilities, "probabilities", shape, "a row for each record", as_given=True)
    if table.min() < 0 or (table.max() > 1 if single else np.abs(table.sum(axis=1) - 1).max() > 1e-3):
        raise InputError("must be at least 0, in rows that sum to 1", argument="probabilities")
    cells = PublicGroups.of(groups, records)
    scores = Scores(source, table, probabilities.why, cells, level, simultaneous, target)
    if isinstance(source, Outcomes):
        refuse_reused(source.mechanism, release.value, probabilities=scores.predictions)
    return scores


def score(
    release: Any,
    probabilities: Any,
    score: str = "accuracy",
    *,
    gap: bool = False,
    groups: Any = None,
    users: Any = None,
    level: float = LEVEL,
) -> tuple[Estimate, "Scores"]:
    """Return one score of a classifier, or its gaps between groups, and all scores; see `evaluate`.

    Args:
        release, probabilities, groups, users, level: see `evaluate`.
        score: the name of a method of `Scores`.
        gap: whether to return `Scores.gap` of the score.
    """
    check_choice(score, "score", SCORES)
    scores = evaluate(release, probabilities, groups=groups, users=users, level=level)
    return scores.gap(score) if gap else getattr(scores, score)(), scores


@dataclass(frozen=True)
class ThresholdCurve:
    """Two rates of a classifier at thresholds that were fixed by its public probabilities.

    Args:
        thresholds: a record is flagged from this probability on, falling, shape (T,).
        across: false-positive rate of a ROC curve, recall of a precision-recall curve.
        up: true-positive rate of a ROC curve, precision of a precision-recall curve.
    """

    thresholds: Floats = field(repr=False)
    across: Estimate
    up: Estimate


@dataclass(frozen=True)
class CalibrationBins:
    """How often a model is right where it is so and so sure.

    Args:
        predicted: the mean prediction in each bin, shape (B,).
        records: how many records each bin holds, shape (B,).
        observed: the share in each bin: of the second of two classes, or of right answers.
    """

    predicted: Floats = field(repr=False)
    records: Codes = field(repr=False)
    observed: Estimate


@dataclass(frozen=True)
class Scores:
    """A classifier's scores on released outcomes: each method is one `Estimate`, by group where there are groups.

    Args:
        source: the outcomes.
        probabilities: shape (n, K), or (n,) for the second of two classes.
        about: what was evaluated, and why these labels did not make its probabilities, in words.
        cells: the groups.
        level: coverage.
        simultaneous: whether the intervals of one score hold together.
        target: "population" or "records"; see `evaluate`.
        rows: places of these records in the table that a learner trained on, shape (n,).
        fold: one of the models of a cross-validation, and the places, among these records, of those whose labels it
            did not see; None where there is none.
    """

    source: Any = field(repr=False)
    probabilities: NDArray[Any] = field(repr=False)
    about: str
    cells: PublicGroups = field(repr=False)
    level: float = LEVEL
    simultaneous: bool = True
    target: str = "population"
    rows: Codes | None = field(default=None, repr=False)
    fold: Any = field(default=None, repr=False)

    @property
    def release(self) -> Any:
        """What was released of these records."""
        return self.source.release

    def __str__(self) -> str:
        """Return the accuracy of all records as a sentence."""
        accuracy = replace(self, cells=PublicGroups.of(None, self.source.records)).accuracy()
        value = np.clip(accuracy.value, accuracy.low, accuracy.high)  # a debiased value may lie outside
        percent = [f"{100 * share:.1f} %" for share in (value, accuracy.low, accuracy.high)]
        of = "released labels" if isinstance(self.source, Outcomes) else "records, by noisy sums"
        return (
            f"estimated accuracy {percent[0]}, {100 * self.level:g} % interval {percent[1]} to {percent[2]}, from "
            f"{self.source.records:,} {of}; what was evaluated: {self.about}"
        )

    @property
    def predictions(self) -> Any:
        """Predicted codes, shape (n,)."""
        if self.probabilities.ndim == 1:
            return (self.probabilities > 0.5).astype(np.uint8)
        return self.probabilities.argmax(axis=1).astype(np.int32)

    def _rows(self, rows: slice) -> Floats:
        """Return probabilities of a block, shape (m, K)."""
        block = self.probabilities[rows].astype(np.float64)
        return np.column_stack([1 - block, block]) if block.ndim == 1 else block

    @property
    def _scores(self) -> NDArray[Any]:
        """The probability of the second of two classes, shape (n,)."""
        return self.probabilities if self.probabilities.ndim == 1 else self.probabilities[:, 1]

    @property
    def _exact(self) -> bool:
        return exact_rates(self.source) is not None

    @property
    def _answer_rates(self) -> tuple[float, float]:
        """What `exact_rates` returns where intervals are exact."""
        rates = exact_rates(self.source)
        assert rates is not None
        return rates

    def accuracy(self) -> Estimate:
        """Estimate how often the predicted class is the true one."""
        if isinstance(self.source, NoisySums):
            return self._accuracy_of_sums()
        entry = entry_level(self.source, self.cells, self.level, self.simultaneous)
        value, low, high, variance = hits_of(self.source, self.cells, entry, self.predictions)
        sizes = np.maximum(self.cells.sizes, 1)
        noise, effective = precision_of_shares(value, variance, sizes)
        return self._estimate("accuracy", "accuracy", self.cells.axes, value, low, high, variance, noise, effective)

    def precision(self) -> Estimate:
        """Estimate for each class how often it is the true one where it is predicted."""
        classes = len(self.source.names)
        predicted = predicted_cells(self.predictions, len(self.probabilities), classes)
        cells = self.cells.crossed(predicted)
        entry = entry_level(self.source, cells, self.level, self.simultaneous)
        axes = (*self.cells.axes, ("class", self.source.names))
        if isinstance(self.source, NoisySums):
            value, low, high, variance, sampling = self._of_cells(cells, entry)
            sizes = np.maximum(cells.sizes, 1)
            noise, effective = precision(variance, sampling, sizes)
            return self._estimate("share, sums", "precision", axes, value, low, high, variance, noise, effective)
        chosen = self.predictions

        value, low, high, variance = hits_of(self.source, cells, entry, chosen)
        noise, effective = precision_of_shares(value, variance, np.maximum(cells.sizes, 1))
        return self._estimate("precision", "precision", axes, value, low, high, variance, noise, effective)

    def recall(self) -> Estimate:
        """Estimate for each class how many of its records are predicted as it.

        Of two classes the second has the true-positive rate, and the first one minus the false-positive rate.
        """
        if isinstance(self.source, NoisySums):
            return self._recall_of_sums()
        return self._ratios("recall")

    def f1(self) -> Estimate:
        """Estimate for each class the harmonic mean of its precision and recall."""
        self._need_answers("F1")
        return self._ratios("F1")

    def _ratios(self, key: str) -> Estimate:
        classes, chosen = len(self.source.names), self.predictions

        def of_block(rows: slice) -> Floats:
            hit = (chosen[rows, None] == np.arange(classes)).astype(np.float64)
            return np.stack(RATIO_TERMS[key](self.source.indicators(rows), hit), axis=2)

        result = self.source.means(of_block, self.cells)
        entry = entry_level(self.source, self.cells, self.level, self.simultaneous, classes)
        axes = (*self.cells.axes, ("class", self.source.names))
        value, low, high, variance = _ratio(result, entry)
        if self._exact:
            cells = self.cells.crossed(predicted_cells(chosen, len(self.probabilities), classes))
            named = self.source.counts(cells).reshape(-1, classes, classes)  # group, predicted, named
            right = np.diagonal(named, axis1=1, axis2=2)
            low, high = self._where_few(
                (low, high), right, cells.sizes.reshape(-1, classes), named.sum(axis=1) - right,
                self.cells.sizes[:, None], entry, key,
            )  # fmt: skip
        return self._estimate(key, key, axes, value, low, high, variance)

    def _where_few(
        self, ends: Ends, right: Any, predicted: Any, missed: Any, records: Any, entry: float, key: str
    ) -> Ends:
        """Return ends of recall or F1, exact ones where answers are few.

        How often a class is predicted, its share among these records, and its share among the others have exact
        intervals, which hold together.

        Args:
            ends: of many answers.
            right, predicted: how many answers name the class among the records for which it is predicted, and how many
                such records there are.
            missed: how many answers name it among the others.
            records: how many there are.
            entry: coverage.
            key: "recall" or "F1".
        """
        unflagged, root = records - predicted, rectangle(entry, 3)
        few = np.minimum.reduce([right, predicted - right, missed, unflagged - missed]) < FEW
        part = exact_shares(predicted, records, (1.0, 0.0), root)[1:3]
        inside, outside = (
            np.clip(exact_shares(hits, sizes, self._answer_rates, root)[1:3], 0, 1)
            for hits, sizes in ((right, predicted), (missed, unflagged))
        )
        score = 0 if key == "recall" else 1
        low, high = (detection(part[end], inside[end], outside[1 - end])[score] for end in (0, 1))
        return np.where(few, np.nan_to_num(low, nan=0.0), ends[0]), np.where(few, np.nan_to_num(high, nan=1.0), ends[1])

    def confusion(self) -> Estimate:
        """Estimate the share of records of each true class (first axis) that are predicted as each class; sum 1."""
        self._need_answers("the confusion matrix")
        classes, chosen = len(self.source.names), self.predictions
        entry = entry_level(self.source, self.cells, self.level, self.simultaneous, classes**2)
        axes = (*self.cells.axes, ("class", self.source.names), ("predicted", self.source.names))
        if self._exact:
            return self._estimate("confusion", "share", axes, *self._exact_confusion(entry))

        def of_block(rows: slice) -> Floats:
            hit = (chosen[rows, None] == np.arange(classes)).astype(np.float64)
            return (self.source.indicators(rows)[:, :, None] * hit[:, None, :]).reshape(-1, classes**2, 1)

        result = self.source.means(of_block, self.cells, classes**2)
        value, variance = result.mean[..., 0], result.covariance[..., 0, 0]
        ends = student_within(value, variance, result.units[:, None], result.freedom[:, None], (0, 1), entry)
        return self._estimate("confusion, normal", "share", axes, value, *ends, variance)

    def _exact_confusion(self, entry: float) -> tuple[Floats, Floats, Floats, Floats]:
        """Return shares by group, true and predicted class, with the ends of products of two exact intervals.

        A share is how often the class is predicted, times which part of these records is of the true class.

        Source: Zou (MOVER), for a product.
        """
        classes = len(self.source.names)
        cells = self.cells.crossed(predicted_cells(self.predictions, len(self.probabilities), classes))
        totals, records = cells.sizes.reshape(-1, 1, classes), self.cells.sizes[:, None, None]
        counts = self.source.counts(cells).reshape(-1, classes, classes).swapaxes(1, 2)
        part, part_low, part_high, part_variance = exact_shares(counts, totals, self._answer_rates, entry)
        share, share_low, share_high, share_variance = exact_shares(totals, records, (1.0, 0.0), entry)
        part = np.where(totals > 0, part, 0.0)
        inside = np.clip(part, 0, 1)
        below = np.hypot((part - part_low) * share, inside * (share - share_low))
        # where both are small, so is the product of both distances, but not beside the others
        above = np.hypot((part_high - part) * share, inside * (share_high - share))
        above += (part_high - part) * (share_high - share)
        high = np.minimum(part * share + np.where(totals > 0, above, share_high), share_high)
        return part * share, part * share - below, high, part_variance * share**2 + inside**2 * share_variance

    def log_loss(self) -> Estimate:
        """Estimate the mean of -ln P(true class), in nats; probabilities are raised to at least 0.001."""
        return self._losses("log loss", log_losses)

    def brier(self) -> Estimate:
        """Estimate the mean squared distance of the probabilities from the indicators of the true class, in [0, 2]."""
        return self._losses("Brier score", lambda chances: (chances**2).sum(axis=1, keepdims=True) - 2 * chances + 1)

    def _losses(self, key: str, losses: Callable[[Floats], Floats]) -> Estimate:
        self._need_answers(f"the {key}")

        def of_block(rows: slice) -> Floats:
            return (self.source.indicators(rows) * losses(self._rows(rows))).sum(axis=1)[:, None, None]

        result = self.source.means(of_block, self.cells)
        value, variance = result.mean[:, 0, 0], result.covariance[:, 0, 0, 0]
        entry = entry_level(self.source, self.cells, self.level, self.simultaneous)
        worst = max(float(losses(self._rows(rows)).max()) for rows in self.source.blocks())
        ends = student_within(value, variance, result.units, result.freedom, (0, worst), entry)
        reach = float(-np.log(FLOOR)) if key == "log loss" else 2.0
        return self._estimate(key, key, self.cells.axes, value, *ends, variance, reach=reach)

    def auc(self) -> Estimate:
        """Estimate the area under the ROC curve of the second of two classes, overall or by group.

        Each pair of records is weighted by the product of its unbiased indicators.
        """
        self._need_two("an area under the ROC curve")
        if isinstance(self.source, NoisySums):
            if self.cells.codes is not None:
                raise InputError("must be left out: the sums of an area are over all records", argument="groups")
            return area_of_sums(self.source.release, self._scores, self.level)
        return self._areas("area under the ROC curve", area_terms)

    def average_precision(self) -> Estimate:
        """Estimate the average precision of the second of two classes: the area under its precision-recall curve.

        It is the mean, over the records of the class, of the precision at each one's own score, as in scikit-learn.
        """
        self._need_two("an average precision")
        self._need_answers("average precision")
        return self._areas("average precision", precision_terms)

    def _areas(self, name: str, terms_of: Callable[[Floats, Any], PairTerms]) -> Estimate:
        """Return by group the ratio of two statistics of pairs of records, with Fieller's interval."""
        entry = entry_level(self.source, self.cells, self.level, self.simultaneous)
        value, low, high, variance = (np.full(self.cells.count, np.nan) for _ in range(4))
        for group in range(self.cells.count):
            rows = slice(None) if self.cells.codes is None else self.cells.codes == group
            users = None if self.source.users is None else self.source.users[rows]
            pairs = terms_of(self._second(rows), self._scores[rows])
            value[group], low[group], high[group], variance[group] = ratio_of_pairs(pairs, users, entry)
        return self._estimate(name, name, self.cells.axes, value, low, high, variance)

    def _second(self, chosen: Any) -> Floats:
        """Return unbiased indicators of the second class of chosen records."""
        second = np.empty(len(self.probabilities))
        for rows in self.source.blocks():
            second[rows] = self.source.indicators(rows, 1)
        return second[chosen]

    def roc(self, points: int = 20) -> ThresholdCurve:
        """Estimate the false- and the true-positive rate of the second of two classes at several thresholds.

        Args:
            points: the largest number of thresholds, between which about equally many records lie.
        """
        thresholds, flags = self._thresholds(points)
        across, up = (
            self._rate_of(name, "recall", thresholds, self._flagged(code, thresholds, flags))
            for code, name in enumerate(("false-positive rate", "true-positive rate"))
        )
        return ThresholdCurve(thresholds, across, up)

    def _flagged(self, code: int, thresholds: Floats, flags: Callable[[slice], Floats]) -> list[Floats]:
        """Return the part of a class that is flagged at each threshold, its ends and variance, shape (T,)."""

        def of_block(rows: slice) -> Floats:
            indicator, flag = self.source.indicators(rows, [code]), flags(rows)
            return np.stack([indicator * flag, np.broadcast_to(indicator, flag.shape)], axis=2)

        value, low, high, variance = self._rates(of_block)
        if self._exact:
            hits, flagged, every = self._hits_above(code, thresholds)
            low, high = self._where_few(
                (low, high), hits, flagged, every - hits, len(self.probabilities), self._entry(thresholds), "recall"
            )
        return [value, low, high, variance]

    def _entry(self, thresholds: Floats) -> float:
        return sidak(self.level, 1, len(thresholds)) if self.simultaneous else self.level

    def _hits_above(self, code: int, thresholds: Floats) -> tuple[Any, Any, Any]:
        """Return how many answers name a class among the flagged records, how many these are, and how many name it."""
        bins = np.searchsorted(-thresholds, -self._scores)  # the first threshold that flags the record
        hits, flagged = np.zeros(len(thresholds) + 1), np.bincount(bins, minlength=len(thresholds) + 1)
        chosen = np.full(len(bins), code, dtype=np.int64)
        for rows in self.source.blocks():
            hits += np.bincount(bins[rows], weights=named_of(self.source, chosen, rows), minlength=len(hits))
        return np.cumsum(hits)[:-1], np.cumsum(flagged)[:-1], hits.sum()

    def precision_recall(self, points: int = 20) -> ThresholdCurve:
        """Estimate recall and precision of the second of two classes at several thresholds.

        Args:
            points: see `roc`.
        """
        thresholds, flags = self._thresholds(points)
        across = self._rate_of("recall", "recall", thresholds, self._flagged(1, thresholds, flags))
        if self._exact:
            hits, flagged, _ = self._hits_above(1, thresholds)
            numbers = list(exact_shares(hits, flagged, self._answer_rates, self._entry(thresholds)))
        else:

            def precise(rows: slice) -> Floats:
                flag = flags(rows)
                return np.stack([self.source.indicators(rows)[:, 1:] * flag, flag], axis=2)

            numbers = self._rates(precise)
        return ThresholdCurve(thresholds, across, self._rate_of("precision", "precision", thresholds, numbers))

    def _thresholds(self, points: int) -> tuple[Floats, Callable[[slice], Floats]]:
        """Return falling thresholds, and who is flagged at each in a block, shape (m, T)."""
        self._need_two("a curve")
        self._need_answers("a curve")
        if self.cells.codes is not None:
            raise InputError("must be left out for a curve: evaluate the records of one group", argument="groups")
        scores, count = self._scores, check_integer(points, "points")
        thresholds = np.unique(np.quantile(scores, np.arange(count) / count, method="lower"))[::-1]
        return thresholds, lambda rows: (scores[rows, None] >= thresholds).astype(np.float64)

    def _rates(self, terms: Callable[[slice], Floats]) -> list[Floats]:
        """Return value, low, high and variance of ratios of two means, of terms (m, T, 2), each shape (T,)."""
        result = self.source.means(terms, PublicGroups.of(None, len(self.probabilities)))
        return [number[0] for number in _ratio(result, self._entry(result.mean[0]))]

    def _rate_of(self, name: str, key: str, thresholds: Floats, numbers: list[Floats]) -> Estimate:
        axes = (("threshold", tuple(f"{number:.4g}" for number in thresholds)),)
        value, low, high, variance = numbers
        return self._estimate(key, name, axes, value, low, high, variance)

    def calibration(self, bins: int = 10) -> CalibrationBins:
        """Estimate the share of the second of two classes, or of right answers, in bins of alike predictions.

        Args:
            bins: the largest number of bins of about equally many records; equal predictions stay together.
        """
        self._need_answers("calibration")
        if self.cells.codes is not None:
            raise InputError("must be left out for calibration: evaluate the records of one group", argument="groups")
        binary = len(self.source.names) == 2
        sure = self._scores if binary else self.probabilities.max(axis=1)
        chosen = np.ones(len(sure), dtype=np.int64) if binary else self.predictions
        ordered = np.sort(sure)
        count = check_integer(bins, "bins")
        edges = np.unique(ordered[np.arange(1, count) * len(ordered) // count])
        cells = PublicGroups.of(np.searchsorted(edges, sure, side="right"), len(sure))
        mean = np.bincount(cells.block(slice(None), len(sure)), weights=sure) / cells.sizes

        entry = entry_level(self.source, cells, self.level, self.simultaneous)
        value, low, high, variance = hits_of(self.source, cells, entry, chosen)
        noise, effective = precision_of_shares(value, variance, cells.sizes)
        name = f"share of {self.source.names[1]}" if binary else "share of right answers"
        axes = (("mean prediction", tuple(f"{number:.4f} (bin {index})" for index, number in enumerate(mean, 1))),)
        observed = self._estimate("calibration", name, axes, value, low, high, variance, noise, effective)
        return CalibrationBins(mean, cells.sizes, observed)

    def overconfidence(self) -> Estimate:
        """Estimate by how much the mean probability of the predicted class exceeds the accuracy, over all records."""
        self._need_answers("overconfidence")
        sure = (
            float(self.probabilities.max(axis=1).mean())
            if self.probabilities.ndim == 2
            else float(np.maximum(self.probabilities, 1 - self.probabilities).mean())
        )
        accuracy = replace(self, cells=PublicGroups.of(None, len(self.probabilities))).accuracy()
        ends = {"value": sure - accuracy.value, "low": sure - accuracy.high, "high": sure - accuracy.low}
        return replace(accuracy, quantity="mean probability of the predicted class less accuracy", **ends)

    def compare(self, other: Any) -> Estimate:
        """Estimate by how much more often the predicted class is right than other predictions; see `compare`.

        Args:
            other: predicted codes of the same records, shape (n,), made without these labels.
        """
        self._need_answers("a comparison")
        refuse_reused(self.source.mechanism, self.release.value, other=other)
        codes = self.predictions, np.asarray(other)
        reasons = (f"the predictions were not computed from these labels ({self.about})",)
        return compare_answers(self.source, codes, reasons, self.level, self.target)

    def gap(self, score: str, reference: Any = None) -> Estimate:
        """Estimate the difference between a score of each group and the score of a reference group.

        The gap of recall of the second of two classes is that of equal opportunity; those of both are equalized odds.

        Args:
            score: a method, such as "recall", "precision", "accuracy", "auc" or "brier".
            reference: the group that others are compared with; by default the one with the most records.
        """
        choices = ("accuracy", "precision", "recall", "f1", "auc", "average_precision", "log_loss", "brier")
        check_choice(score, "score", choices)
        if self.cells.count < 2:
            raise InputError("must be given to evaluate for a gap between them", argument="groups")
        names = self.cells.names
        if reference is not None and str(reference) not in names:
            raise InputError(f"must be one of the groups {', '.join(names[:10])}", argument="reference")
        base = int(self.cells.sizes.argmax()) if reference is None else names.index(str(reference))
        other = [group for group in range(len(names)) if group != base]
        columns = len(self.source.names) if score in ("precision", "recall", "f1") else 1
        # every comparison shares the reference, so that levels are Bonferroni's
        entry = sidak(self.level, 1, len(other) * columns) if self.simultaneous else self.level
        single = replace(self, level=entry, simultaneous=False)
        overall: Estimate = getattr(single, score)()
        first, second = (
            (overall.value[rows], overall.low[rows], overall.high[rows]) for rows in (other, [base] * len(other))
        )
        low, high = recovered(first, second, dependent=self.source.clustered)
        variance = (
            None if overall.stderr is None else overall.stderr[other] ** 2 + overall.stderr[[base] * len(other)] ** 2
        )
        axes = (("group", tuple(names[group] for group in other)), *overall.axes[1:])
        title = f"gap of {overall.quantity} to {names[base]}"
        reach = {"log_loss": float(-np.log(FLOOR)), "brier": 2.0}.get(score, 1.0)
        return self._estimate(
            "gap", title, axes, first[0] - second[0], low, high, variance, low_end=-reach, reach=reach
        )

    def _of_cells(self, cells: PublicGroups, entry: float, *, within: bool = True) -> list[Floats]:
        """Return numbers of the predicted class in each cell of group and predicted class, from sums."""
        classes = len(self.source.names)
        chosen = np.tile(np.arange(classes), self.cells.count)
        value, low, high, variance, sampling = cell_means(self.source, cells, entry, within=within)
        if value.shape[1] == 1:  # of two classes the share of the second one
            flip = chosen == 0
            value, low, high = value[:, 0], low[:, 0], high[:, 0]
            ends = np.where(flip, 1 - high, low), np.where(flip, 1 - low, high)
            return [np.where(flip, 1 - value, value), *ends, variance[:, 0], sampling[:, 0]]
        rows = np.arange(len(chosen))
        return [number[rows, chosen] for number in (value, low, high, variance, sampling)]

    def _accuracy_of_sums(self) -> Estimate:
        """Return accuracies from counts by predicted class."""
        classes = len(self.source.names)
        cells = self.cells.crossed(predicted_cells(self.predictions, len(self.probabilities), classes))
        entry = entry_level(self.source, self.cells, self.level, self.simultaneous)
        numbers = [number.reshape(-1, classes) for number in self._of_cells(cells, entry, within=False)]
        sizes, (value, low, high, variance, sampling) = cells.sizes.reshape(-1, classes), numbers
        total, lower, upper, moved = mean_of_cells((value, low, high), sizes, entry, (0.0, 1.0), self.target)
        part = sizes / np.maximum(self.cells.sizes, 1)[:, None]
        spread, without = ((part**2 * number).sum(axis=1) + moved for number in (variance, sampling))
        noise, effective = precision(spread, without, np.maximum(self.cells.sizes, 1))
        return self._estimate(
            "accuracy, sums", "accuracy", self.cells.axes, total, lower, upper, spread, noise, effective
        )

    def _recall_of_sums(self) -> Estimate:
        """Return recall of two classes from exact shares that hold together."""
        if len(self.source.names) != 2:
            raise InputError("must be of two classes for recall from sums: release answers", argument="release")
        cells = self.cells.crossed(predicted_cells(self.predictions, len(self.probabilities), 2))
        fixed = self.target == "records"
        entry = rectangle(entry_level(self.source, self.cells, self.level, self.simultaneous, 2), 2 if fixed else 3)
        second = [number[:, 0].reshape(-1, 2) for number in cell_means(self.source, cells, entry)[:3]]
        second[0] = np.nan_to_num(second[0])
        first = [1 - second[0], 1 - second[2], 1 - second[1]]
        part, *ends, _ = exact_shares(cells.sizes.reshape(-1, 2), self.cells.sizes[:, None], (1.0, 0.0), entry)
        lower, upper = (part, part) if fixed else ends
        numbers = []
        for code, (value, low, high) in enumerate((first, second)):
            other = 1 - code
            triples = (
                (part[:, code], value[:, code], value[:, other]),
                (lower[:, code], low[:, code], high[:, other]),
                (upper[:, code], high[:, code], low[:, other]),
            )
            numbers.append([detection(*triple)[0] for triple in triples])
        value, low, high = np.moveaxis(np.array(numbers), 0, -1)
        axes = (*self.cells.axes, ("class", self.source.names))
        low, high = np.nan_to_num(low, nan=0.0), np.nan_to_num(high, nan=1.0)
        return self._estimate("recall, sums", "recall", axes, value, low, high, None)

    def _need_two(self, score: str) -> None:
        if len(self.source.names) != 2:
            raise InputError(f"must be of two classes for {score}", argument="release")

    def _need_answers(self, score: str) -> None:
        if isinstance(self.source, NoisySums):
            raise NotInvertibleError(f"sums by predicted class do not tell {score}: release answers one by one")

    def _estimate(
        self, key: str, name: str, axes: Any, value: Any, low: Any, high: Any, variance: Any, noise: Any = None,
        effective: Any = None, low_end: float = 0.0, reach: float = 1.0,
    ) -> Estimate:  # fmt: skip
        if key in ("accuracy", "precision", "calibration") and not self._exact:
            key = "share, normal"
        return estimate_of(
            self.source, RULES[key], name, axes, value, np.clip(low, low_end, reach), np.clip(high, low_end, reach),
            variance, self.level, self.simultaneous, noise, effective,
            (f"the probabilities were not computed from these labels ({self.about})", *self.source.conditions),
            target=self.target,
        )  # fmt: skip


def exact_rates(source: Outcomes) -> tuple[float, float] | None:
    """Return how often answers name the true class and any other, equally often for all; None without exact intervals.

    Exact intervals need independent records, too.
    """
    return None if source.clustered else equal_rates(source.mechanism)


def precision_of_shares(value: Any, variance: Any, sizes: Any) -> tuple[Any, Any]:
    """Return which part of the variance of shares is noise, and how many records without privacy are as precise."""
    share = np.clip(np.nan_to_num(value), 0, 1)
    return precision(variance, np.maximum(share * (1 - share), 1 / sizes) / sizes, sizes)


def named_of(source: Outcomes, chosen: Any, rows: slice) -> Any:
    """Return whether the answers of a block name the class that is chosen for each record, shape (m,)."""
    if source.release.value.ndim == 1 and source.mechanism.domain.size == len(source.names):
        return source.release.value[rows] == chosen[rows]
    return source.names_of(rows, chosen[rows])


def hits_of(source: Outcomes, cells: PublicGroups, entry: float, chosen: Any) -> tuple[Floats, Floats, Floats, Floats]:
    """Return by cell the share of records of the chosen class, its ends and variance: exact where it can be."""
    if (rates := exact_rates(source)) is not None:
        hits = np.zeros(cells.count)
        for rows in source.blocks():
            codes = cells.block(rows, rows.stop - rows.start)
            hits += np.bincount(codes, weights=named_of(source, chosen, rows), minlength=cells.count)
        return exact_shares(hits, cells.sizes, rates, entry)

    def debiased(rows: slice) -> Floats:
        indicators = source.indicators(rows)
        return indicators[np.arange(len(indicators)), chosen[rows], None, None]

    result = source.means(debiased, cells)
    value, variance = result.mean[:, 0, 0], result.covariance[:, 0, 0, 0]
    return value, *student_within(value, variance, result.units, result.freedom, (0, 1), entry), variance


def _ratio(result: Means, level: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the ratio of both means of each group and column, Fieller's interval, and the variance, shape (G, C)."""
    low, high = ratio_within(
        result.mean, result.mean, result.covariance, result.units[:, None], 1.0, level, result.freedom[:, None]
    )
    bottom = result.mean[..., 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(bottom > 0, result.mean[..., 0] / bottom, np.nan)
        slope = np.stack([np.ones_like(value), -value], axis=-1)
        variance = np.einsum("gcs,gcst,gct->gc", slope, result.covariance, slope) / bottom**2
    return value, low, high, variance


def debiased_accuracy(release: Any, predictions: Any, *, level: float = LEVEL) -> Estimate:
    """Estimate the accuracy that predictions would show on the true labels; see `evaluate` for probabilities.

    Args:
        release: answers for n records that may name any class, or bits for all classes.
        predictions: predicted codes or class names, shape (n,), made without these labels.
        level: coverage of the interval.

    Returns:
        An unbiased estimate, which may lie outside of [0, 1] if n or epsilon is small. The interval is exact (Clopper
        and Pearson's, for how often released answers name the predicted class) and clipped to [0, 1]. If answers name
        some classes more often than others, it is Student's.

    Raises:
        NotInvertibleError: some record had fewer candidates than classes.
    """
    check_release(release)
    chosen = predicted_codes(predictions, release)
    refuse_reused(release.mechanism, release.value, predictions=chosen)
    source, cells = Outcomes(release), PublicGroups.of(None, len(chosen))
    value, low, high, variance = hits_of(source, cells, check_level(level), chosen)
    rule = RULES["accuracy" if exact_rates(source) else "share, normal"]
    ends, worth = np.clip([low, high], 0, 1), precision_of_shares(value, variance, cells.sizes)
    return estimate_of(source, rule, "accuracy", (), value, ends[0], ends[1], variance, level, False, *worth)


def accuracy_of_agreements(mechanism: Any, agreements: int, records: int, *, level: float = LEVEL) -> Estimate:
    """Estimate the accuracy of predictions from how often answers name them; see `debiased_accuracy`.

    Args:
        mechanism: the mechanism that answered each record, on `Classes`.
        agreements: the number of records whose answer names the predicted class.
        records: the number of records.
        level: coverage of the interval.
    """
    rates = equal_rates(mechanism)
    if rates is None:
        raise InputError("release must be of a mechanism that treats all classes alike, such as RandomizedResponse")
    value, low, high, variance = exact_shares(agreements, records, rates, check_level(level))
    rule, ends = RULES["accuracy"], np.clip([low, high], 0, 1)
    return Estimate(
        quantity="accuracy", value=value, low=ends[0], high=ends[1], level=level, stderr=np.sqrt(variance),
        records=records, guarantee=rule.guarantee, method=rule.method, assumptions=(INDEPENDENT,),
    )  # fmt: skip


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
    domain, codes = release.mechanism.domain, np.asarray(predictions)
    if codes.shape != (len(release.value),):
        raise InputError("predictions must be one code, or one class name, for each released label")
    if codes.dtype.kind not in "iu":
        try:
            codes = domain.encode(predictions)
        except InputError:
            raise InputError(f"predictions must be names of {domain!r}, or their codes") from None
    if np.any(codes < 0) or np.any(codes >= domain.size):
        raise InputError(f"predictions must be codes from 0 to {domain.size - 1}, or names of classes")
    return codes.astype(np.intp)

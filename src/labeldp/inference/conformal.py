"""Prediction sets that hold the private label as often as was asked, calibrated on released answers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import ndtri

from labeldp.inference.catalog import Rule
from labeldp.inference.estimate import CLUSTERED
from labeldp.inference.groups import PublicGroups, means_of
from labeldp.inference.intervals import clopper_pearson, earlier_variances
from labeldp.inference.released import Outcomes, public_numbers
from labeldp.inference.reuse import refuse_reused
from labeldp.inference.shares import ORDER
from labeldp.mechanisms import ResponseOnBins
from labeldp.privacy import Certificate, Flags, Floats, InputError, Public, check_choice, check_integer

METHODS: dict[str, Rule] = {
    "betting": Rule("fixed sequence of betting tests", "finite sample"),
    "exact": Rule("fixed sequence of Clopper-Pearson tests, for records with these features", "finite sample"),
    "normal": Rule("fixed sequence of normal tests", "asymptotic"),
}
"""The tests of a threshold. Bets are the default; bins and classes of their own have "exact" and "normal"."""


@dataclass(frozen=True, kw_only=True)
class PredictionSets:
    """A threshold whose sets hold the label with probability `coverage`, but for a `risk` over the calibration.

    Args:
        threshold: the largest score in a set, shape of the axes; infinite where no smaller one was shown to be enough.
        coverage: how often a set holds the label, at least.
        risk: probability, over the records of the calibration, that the threshold is too small.
        guarantee, method, assumptions, certificate: see `Estimate`.
        axes: groups or classes that have a threshold each, and the promise each.
    """

    threshold: Any = field(repr=False)
    coverage: float
    risk: float
    guarantee: str
    method: str
    assumptions: tuple[str, ...]
    certificate: Certificate = field(repr=False)
    axes: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __str__(self) -> str:
        several = f" in each {self.axes[0][0]}" if self.axes else ""
        return (
            f"sets hold the label in {100 * self.coverage:g} %{several}, but for a risk of {100 * self.risk:g} % over "
            f"the calibration ({self.guarantee}: {self.method})"
        )

    def table(self) -> Any:
        """Return an Arrow table with a row for each threshold, and what is guaranteed of it."""
        import pyarrow as pa

        thresholds = np.ravel(self.threshold).tolist()
        columns: dict[str, Any] = {axis: list(names) for axis, names in self.axes}
        columns["threshold"] = pa.array(thresholds, pa.float64())
        for name in ("coverage", "risk", "guarantee", "method"):
            columns[name] = [getattr(self, name)] * len(thresholds)
        return pa.table(columns)

    def sets(self, scores: Any, groups: Any = None) -> Flags:
        """Return which classes are in the set of each record, shape (n, K).

        Args:
            scores: as in the calibration, shape (n, K).
            groups: the group of each record where groups have thresholds of their own.

        Raises:
            InputError: groups are missing, or one has no threshold.
        """
        table = np.asarray(scores, dtype=np.float64)
        if not self.axes or self.axes[0][0] == "class":
            return np.asarray(table <= self.threshold)
        names = self.axes[0][1]
        if groups is None or np.shape(groups) != table.shape[:1]:
            raise InputError("must be given, one for each record: thresholds differ", argument="groups")
        listed = [str(name) for name in np.asarray(groups).tolist()]
        if not set(listed) <= set(names):
            raise InputError("must be groups of the calibration", argument="groups")
        rows = np.array([names.index(name) for name in listed])
        return np.asarray(table <= np.asarray(self.threshold)[rows, None])


def conformal(
    release: Any,
    scores: Any = None,
    *,
    coverage: float = 0.9,
    risk: float = 0.05,
    by_class: bool = False,
    groups: Any = None,
    users: Any = None,
    method: str = "auto",
    thresholds: int = 100,
) -> PredictionSets:
    """Find the smallest threshold whose sets are shown to hold the label often enough.

    Thresholds are tested from the largest down, and the search stops at the first that may cover too little: a fixed
    sequence needs no correction.

    Args:
        release: answers by classes. For intervals of numbers: answers by bins of the absolute residuals of a public
            model, without `scores`; the threshold is then half the width of the interval.
        scores: `Public(array, why="…")`: how badly each class fits, such as 1 - probability, of a model that saw none
            of these labels, shape (n, K).
        coverage: wanted coverage, in (0, 1).
        risk: probability that the sets cover less, over the records of the calibration.
        by_class: whether each class has a threshold of its own, which covers its records.
        groups: a public group for each record: a threshold for each.
        users: see `mean`; tests are then normal.
        method: "auto", or one of `METHODS`.
        thresholds: how many are tested.

    Raises:
        InputError: scores that do not fit or are not public, or a method that does not go with them.

    Source: Bates for risk control by tests; Hoeffding for unlike rates in the exact test.
    """
    for name, number in (("coverage", coverage), ("risk", risk)):
        if not 0 < number < 1:
            raise InputError("must lie between 0 and 1", argument=name)
    check_choice(method, "method", ("auto", *METHODS))
    outcomes = Outcomes.of(release, users, groups=groups, scores=scores)
    cells = PublicGroups.of(groups, outcomes.records)
    if by_class and groups is not None:
        raise InputError("must be left out where each class has its threshold", argument="groups")
    if outcomes.clustered or by_class:
        if method not in ("auto", "normal"):
            raise InputError(
                "must be 'normal' with by_class=True and for users with several records", argument="method"
            )
        method = "normal"
    if scores is None:
        return _half_width(outcomes, cells, coverage, risk, method)
    if isinstance(outcomes.mechanism, ResponseOnBins) or not outcomes.names:
        raise InputError("must be left out: answers are bins of residuals, and no classes", argument="scores")
    rates = outcomes.rates()
    if rates is None or max(np.ptp(rates[0]), np.ptp(rates[1])) > 1e-12 or np.ndim(release.value) != 1:
        if method not in ("auto", "normal"):
            raise InputError(
                "must be 'normal' where answers are sets or treat classes unlike each other", argument="method"
            )
        method = "normal"
    table, public = public_numbers(scores, "scores", (outcomes.records, len(outcomes.names)), "a row for each record")
    refuse_reused(outcomes.mechanism, release.value, scores=table.argmin(axis=1))
    count = check_integer(thresholds, "thresholds")
    method = "betting" if method == "auto" else method
    if by_class:
        bounds = [_of_class(outcomes, table[:, code], code, coverage, risk, count) for code in range(table.shape[1])]
        return _sets(outcomes, np.array(bounds), coverage, risk, method, (("class", outcomes.names),), public)
    limits = []
    for group in range(cells.count):
        rows = np.arange(outcomes.records) if cells.codes is None else np.flatnonzero(cells.codes == group)
        limits.append(_threshold(outcomes, table[rows], rows, coverage, risk, method, count))
    threshold = np.array(limits) if cells.codes is not None else limits[0]
    return _sets(outcomes, threshold, coverage, risk, method, cells.axes, public)


def _threshold(
    outcomes: Outcomes, table: Floats, rows: Any, goal: float, risk: float, method: str, count: int
) -> float:
    users = None if outcomes.users is None else outcomes.users[rows]
    if method == "normal":
        indicators = np.concatenate([outcomes.indicators(block) for block in outcomes.blocks()])[rows]

        def shown(threshold: float) -> bool:
            values = (indicators * (table <= threshold)).sum(axis=1)
            return _normal(values - goal, users, risk)

    else:
        rates = outcomes.rates()
        assert rates is not None
        miss, gap = rates[1][0], rates[0][0] - rates[1][0]
        answers = np.asarray(outcomes.release.value)[rows]
        scored = table[np.arange(len(table)), answers]

        def shown(threshold: float) -> bool:
            inside = (table <= threshold).sum(axis=1)
            if method == "exact":
                # a design whose answers name the class less often than others needs the upper end
                rate = clopper_pearson(int((scored <= threshold).sum()), len(table), 1 - 2 * risk)[int(gap < 0)]
                return bool((rate - miss * inside.mean()) / gap >= goal)
            # an answer in the set has a class in it, and one outside has a class outside
            ends = sorted((-miss * (table.shape[1] - 1) / gap, (1 - miss) / gap))
            return bets_exceed(((scored <= threshold) - miss * inside) / gap, goal, ends[0], ends[1], risk)

    return _lowest(shown, table, count)


def _lowest(shown: Callable[[float], bool], scores: Floats, count: int) -> float:
    """Return the last of a falling sequence of thresholds before one that is not shown to cover; infinite for none."""
    grid = np.unique(np.quantile(scores, np.linspace(0, 1, count)))[::-1]
    last = float("inf")
    for threshold in grid.tolist():
        if not shown(threshold):
            break
        last = threshold
    return last


def bets_exceed(values: Floats, goal: float, low: float, high: float, risk: float) -> bool:
    """Whether bets show at this risk that the mean of independent numbers in [low, high] is at least a goal.

    Source: WaudbySmith.
    """
    x, mean = (values - low) / (high - low), (goal - low) / (high - low)
    bets = np.minimum(np.sqrt(2 * np.log(1 / risk) / (len(x) * earlier_variances(x))), 0.5 / mean)
    return bool(np.cumsum(np.log1p(bets * (x - mean))).max() >= np.log(1 / risk))


def _normal(values: Floats, users: Any, risk: float) -> bool:
    """Whether a normal test shows at this risk that the mean of numbers is at least 0."""
    result = means_of(lambda rows: values[rows, None, None], PublicGroups.of(None, len(values)), users, len(values))
    return bool(result.mean[0, 0, 0] >= ndtri(1 - risk) * np.sqrt(result.covariance[0, 0, 0, 0]))


def _of_class(outcomes: Outcomes, scores: Floats, code: int, goal: float, risk: float, count: int) -> float:
    indicator = np.concatenate([outcomes.indicators(rows, code) for rows in outcomes.blocks()])
    return _lowest(
        lambda threshold: _normal(indicator * ((scores <= threshold) - goal), outcomes.users, risk), scores, count
    )


def _half_width(outcomes: Outcomes, cells: PublicGroups, goal: float, risk: float, method: str) -> PredictionSets:
    """Return the upper edge of the first bin of residuals below which enough of them are shown to lie."""
    if not isinstance(outcomes.mechanism, ResponseOnBins):
        raise InputError('must be Public(array, why="…"), a score for each record and class', argument="scores")
    if method == "betting":
        raise InputError("must be 'exact' or 'normal' for bins of residuals", argument="method")
    rates = outcomes.rates()
    assert rates is not None
    hit, miss = rates[0][0], rates[1][0]
    bins = len(outcomes.names)
    if outcomes.clustered or method == "normal":
        result = outcomes.means(lambda rows: np.cumsum(outcomes.indicators(rows), axis=1)[:, :, None], cells)
        low = result.mean[..., 0] - ndtri(1 - risk) * np.sqrt(result.covariance[..., 0, 0])
        method = "normal"
    else:
        counts = np.cumsum(outcomes.counts(cells), axis=1)
        rate = clopper_pearson(counts, cells.sizes[:, None], 1 - 2 * risk)[0]
        low = (rate - miss * np.arange(1, bins + 1)) / (hit - miss)
        method = "exact"
    low[:, -1] = 1.0
    enough = np.minimum.accumulate((low >= goal)[:, ::-1], axis=1)[:, ::-1]
    first = enough.argmax(axis=1)
    edges = outcomes.mechanism.edges[first + 1]
    return _sets(outcomes, edges if cells.codes is not None else edges[0], goal, risk, method, cells.axes, None)


def prediction_sets(
    release: Any, probabilities: Any = None, *, groups: Any = None, **options: Any
) -> tuple[PredictionSets, Flags | None]:
    """Return thresholds, and of classes the set of each record, shape (n, K); see `conformal`.

    Args:
        release, groups: see `conformal`.
        probabilities: `Public(array, why="…")` of a model that saw none of these labels, shape (n, K); None for bins.
        options: of `conformal`.
    """
    scores = None if probabilities is None else Public(1 - probabilities.value, why=probabilities.why)
    result = conformal(release, scores, groups=groups, **options)
    return result, None if scores is None else result.sets(scores.value, groups)


def _sets(
    outcomes: Outcomes, threshold: Any, coverage: float, risk: float, method: str, axes: Any, public: str | None
) -> PredictionSets:
    rule = METHODS[method]
    return PredictionSets(
        threshold=threshold,
        coverage=coverage,
        risk=risk,
        guarantee=rule.guarantee,
        method=rule.method + (f", {CLUSTERED}" if outcomes.clustered else ""),
        assumptions=(
            "later records are of the same law as these",
            *((ORDER,) if method == "betting" else ()),
            *((public,) if public else ()),
            *outcomes.conditions,
        ),
        certificate=outcomes.release.certificate,
        axes=axes,
    )

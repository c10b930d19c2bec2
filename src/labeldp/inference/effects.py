"""Effects of public treatments on a private outcome: by arm, adjusted, or weighted by a public propensity."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from labeldp.inference.catalog import RULES
from labeldp.inference.estimate import LEVEL, Estimate
from labeldp.inference.groups import Codes, PublicGroups, means_of
from labeldp.inference.intervals import (
    Ends,
    clopper_pearson,
    recovered,
    spread_of,
    student_or_more,
    student_within,
)
from labeldp.inference.released import (
    NoisySums,
    Outcomes,
    entry_level,
    estimate_of,
    outcome_code,
    precision,
    public_numbers,
)
from labeldp.inference.sums import (
    BY_LOT,
    arm_means_of_sums,
    arms,
    from_control,
    is_sums,
    orthonormal,
    refuse_users,
)
from labeldp.privacy import Floats, InputError, Public

MEASURED_BEFORE = "covariates are public and were measured before the treatment"
PROPER = "the propensity is right: the treatment depends on nothing else that the outcome depends on"


@dataclass(frozen=True)
class Experiment:
    """Outcomes of the arms of an experiment, in public groups.

    Args:
        source: answers or sums.
        cells: the public groups.
        arms: the control first.
        outcome: the class that is meant; None for a number, and for the second one of two.
        level: coverage.
        simultaneous: whether all intervals hold together.
    """

    source: Outcomes | NoisySums
    cells: PublicGroups
    arms: PublicGroups
    outcome: Any
    level: float
    simultaneous: bool

    @classmethod
    def of(
        cls,
        release: Any,
        treated: Any,
        control: Any,
        outcome: Any,
        groups: Any,
        users: Any,
        level: float,
        simultaneous: bool,
        **adjusting: Any,
    ) -> "Experiment":
        """Return the experiment that a release and public columns describe.

        Raises:
            InputError: columns that do not fit, an arm or group without enough records, or columns that adjust sums.
        """
        public = {"treated": treated, "groups": groups, **adjusting}
        source: Outcomes | NoisySums
        if is_sums(release):
            for name, column in adjusting.items():
                if column is not None:
                    raise InputError("must be left out: sums by arm are not adjusted", argument=name)
            source = NoisySums.of(release, **public)
            refuse_users(users)
        else:
            source = Outcomes.of(release, users, **public)
        ordered = from_control(arms(treated, source.records), control)
        cells = PublicGroups.of(groups, source.records)
        if outcome is not None and not source.names:
            raise InputError("must be left out: the outcome is a number", argument="outcome")
        experiment = cls(source, cells, ordered, outcome, level, simultaneous)
        _, _ = experiment.code, experiment.entry  # is refused before anything is computed
        few = 1 if isinstance(source, NoisySums) else 2
        if experiment.sizes.min() < few:
            many = "two records" if few == 2 else "a record"
            raise InputError(
                f"must have {many} of each arm in each group", argument="groups" if groups is not None else "treated"
            )
        return experiment

    @cached_property
    def code(self) -> int | None:
        """The class that is meant; None for a number."""
        return outcome_code(self.source, self.outcome) if self.source.names else None

    @cached_property
    def crossed(self) -> PublicGroups:
        """Groups by arms."""
        return self.cells.crossed(self.arms)

    @property
    def sizes(self) -> Codes:
        """The records of each arm in each group, shape (G, arms)."""
        return self.crossed.sizes.reshape(-1, self.arms.count)

    @property
    def entry(self) -> float:
        """The level of each interval: those of one group share its control."""
        return entry_level(self.source, self.cells, self.level, self.simultaneous, self.arms.count - 1)

    @property
    def width(self) -> float:
        """The largest effect that is possible."""
        domain = self.source.mechanism.domain
        return 1.0 if self.code is not None else float(domain.high - domain.low)

    def stated(
        self,
        key: str,
        quantity: str,
        value: Floats,
        ends: Ends,
        variance: Any,
        noise: Any = None,
        effective: Any = None,
        conditions: tuple[str, ...] = (BY_LOT,),
    ) -> Estimate:
        """Return an estimate for each group, and each arm but the control where there are several: (G, arms - 1)."""
        axes = self.cells.axes if self.arms.count == 2 else (*self.cells.axes, ("arm", self.arms.names[1:]))
        return estimate_of(
            self.source, RULES[key], quantity, axes, value, *ends, variance, self.level, self.simultaneous, noise,
            effective, (*conditions, *self.source.conditions),
        )  # fmt: skip


@dataclass(frozen=True)
class ArmMeans:
    """Shares of a class or mean numbers of arms, in public groups, independent of each other; shape (G, arms).

    Args:
        kind: "answers" with two outputs, "numbers" of any answers, "sums" of classes, or "number sums".
        value, low, high, variance: of the means.
        sampling: the variance without privacy; None where the release does not tell it.
    """

    kind: str
    value: Floats = field(repr=False)
    low: Floats = field(repr=False)
    high: Floats = field(repr=False)
    variance: Floats = field(repr=False)
    sampling: Floats | None = field(default=None, repr=False)

    @classmethod
    def of(cls, experiment: Experiment) -> "ArmMeans":
        """Return the means of the arms; ends may lie outside of what is possible.

        Records of one user in two arms make means depend on each other: who calls this excludes that.
        """
        source, code, shape = experiment.source, experiment.code, experiment.sizes.shape
        if isinstance(source, NoisySums):
            value, low, high, variance, sampling = arm_means_of_sums(
                source, experiment.crossed, shape[1], experiment.outcome, experiment.entry, within=False
            )
            if source.names:
                return cls("sums", value, low, high, variance, sampling)
            return cls("number sums", value, low, high, variance)
        rates = source.rates() if code is not None else None
        binary = rates is not None if code is not None else source.two_outputs
        if binary and not source.clustered:
            if rates is not None and code is not None:
                start, gap = rates[1][code], rates[0][code] - rates[1][code]
            else:
                gap = 1 / (source.outputs[1] - source.outputs[0])
                start = -source.outputs[0] * gap
            hits = source.counts(experiment.crossed)[:, 1 if code is None else code].reshape(shape)
            rate = hits / experiment.sizes
            ends = [(end - start) / gap for end in clopper_pearson(hits, experiment.sizes, experiment.entry)]
            value, variance = (rate - start) / gap, rate * (1 - rate) / experiment.sizes / gap**2
            share = np.clip(value, 0, 1)
            sampling = np.maximum(share * (1 - share), 1 / experiment.sizes) / experiment.sizes
            return cls(
                "answers", value, np.minimum(*ends), np.maximum(*ends), variance, None if code is None else sampling
            )
        result = source.means(lambda rows: values_of(source, code, rows)[:, None, None], experiment.crossed)
        mean, squares = result.mean[:, 0, 0], result.covariance[:, 0, 0, 0]
        reach = (0.0, 1.0) if code is not None else tuple(source.outputs.tolist())
        low, high = student_within(mean, squares, result.units, result.freedom, (reach[0], reach[1]), experiment.entry)
        value, low, high, variance = (number.reshape(shape) for number in (mean, low, high, squares))
        return cls("numbers", value, low, high, variance)

    def ends(self, arm: slice) -> tuple[Floats, Floats, Floats]:
        """Return value, low and high of some arms."""
        return self.value[:, arm], self.low[:, arm], self.high[:, arm]


CONTROL, OTHERS = slice(0, 1), slice(1, None)
"""The arms of `ArmMeans`."""

DIFFERENCES = {
    "answers": "difference",
    "numbers": "difference, numbers",
    "sums": "difference, sums",
    "number sums": "difference, number sums",
}
"""The rule of a difference, by the kind of its means."""


def difference(
    release: Any,
    treated: Any,
    *,
    control: Any = None,
    outcome: Any = None,
    groups: Any = None,
    covariates: Any = None,
    propensity: Any = None,
    users: Any = None,
    level: float = LEVEL,
    simultaneous: bool = True,
) -> Estimate:
    """Estimate by how much treatments change the share of a class, or the mean number, overall or by public group.

    Args:
        release: single answers, or the sums of `plan_sums("difference", …)`.
        treated: who was treated, true or false, or the arm of each record by number or name, shape (n,).
        control: the arm that others are compared with; 0 by default.
        outcome: the class; of two classes the second one by default.
        groups: a public group for each record, shape (n,): an effect for each.
        covariates: public numbers, shape (n, d). The gain in precision is small for single answers at a small epsilon.
            New records have other covariates: where effects depend on them, this widens the interval.
        propensity: P(treated | covariates), `Public(number or array, why="…")`: weights the records of two arms by it,
            which needs no draw by lot. Outcomes are predicted by least squares on the covariates of the other half.
        users, level, simultaneous: see `mean`. The intervals of several arms hold together, too (Bonferroni).

    Returns:
        An effect for each group; with more than two arms, for each arm but the control.

    Raises:
        InputError: columns that do not fit, an arm or group without enough records, or a propensity outside of (0, 1).

    Source: Newcombe; LinAdjusted for the adjusted effect; Robins for the weighted one.
    """
    experiment = Experiment.of(
        release, treated, control, outcome, groups, users, level, simultaneous, covariates=covariates,
        propensity=propensity,
    )  # fmt: skip
    if isinstance(experiment.source, Outcomes):
        if propensity is not None:
            return _weighted(experiment, experiment.source, covariates, propensity)
        if covariates is not None:
            return _adjusted(experiment, experiment.source, covariates)
        if experiment.source.clustered:
            return _of_users(experiment, experiment.source)
    means = ArmMeans.of(experiment)
    variance = means.variance[:, OTHERS] + means.variance[:, CONTROL]
    noise = effective = None
    if means.sampling is not None:
        sizes = experiment.sizes[:, OTHERS] + experiment.sizes[:, CONTROL]
        noise, effective = precision(variance, means.sampling[:, OTHERS] + means.sampling[:, CONTROL], sizes)
    ends = _possible(experiment, recovered(means.ends(OTHERS), means.ends(CONTROL)))
    value = means.value[:, OTHERS] - means.value[:, CONTROL]
    return experiment.stated(DIFFERENCES[means.kind], "effect", value, ends, variance, noise, effective)


def _possible(experiment: Experiment, ends: Ends) -> Ends:
    """Return the ends of effects within what is possible."""
    width = experiment.width
    return np.clip(ends[0], -width, width), np.clip(ends[1], -width, width)


def values_of(outcomes: Outcomes, code: int | None, rows: slice) -> Floats:
    """Return unbiased indicators of a class, or unbiased numbers, of a block, shape (m,)."""
    return outcomes.numbers(rows) if code is None else outcomes.indicators(rows, code)


def _of_users(experiment: Experiment, outcomes: Outcomes) -> Estimate:
    """Return differences of ratios of sums, linearized: both arms may hold records of one user."""
    codes, count = experiment.arms.codes, experiment.arms.count
    assert codes is not None

    def arm_terms(rows: slice) -> Floats:
        members = (codes[rows, None] == np.arange(count)).astype(float)
        sums = members * values_of(outcomes, experiment.code, rows)[:, None]
        first = np.ones((1, count - 1))
        return np.stack(
            [sums[:, OTHERS], members[:, OTHERS], sums[:, CONTROL] * first, members[:, CONTROL] * first], axis=2
        )

    result = outcomes.means(arm_terms, experiment.cells)
    a, b, c, d = np.moveaxis(result.mean, -1, 0)
    value = a / b - c / d
    slope = np.stack([1 / b, -a / b**2, -1 / d, c / d**2], axis=-1)
    variance = np.einsum("gas,gast,gat->ga", slope, result.covariance, slope)
    units, freedom = result.units[:, None] * np.minimum(b, d), result.freedom[:, None]
    reach = (-experiment.width, experiment.width)
    ends = student_within(value, variance, units, freedom, reach, experiment.entry)
    return experiment.stated("difference, numbers", "effect", value, _possible(experiment, ends), variance)


def _adjusted(experiment: Experiment, outcomes: Outcomes, covariates: Any) -> Estimate:
    table, number = covariate_table(covariates, outcomes.records), values_of(outcomes, experiment.code, slice(None))
    cells, codes, others = experiment.cells, experiment.arms.codes, experiment.arms.count - 1
    assert codes is not None
    value, variance, freedom, more = np.zeros((4, cells.count, others))
    for group in range(cells.count):
        rows = slice(None) if cells.codes is None else cells.codes == group
        centered = table[rows] - table[rows].mean(axis=0)
        members = (codes[rows, None] == np.arange(1, others + 1)).astype(np.float64)
        crossed = (centered[:, None, :] * members[:, :, None]).reshape(len(centered), -1)
        design = np.column_stack([np.ones(len(members)), members, centered, crossed])
        users = None if outcomes.users is None else outcomes.users[rows]
        coefficients, spread, degrees, added = least_squares(design, number[rows], users)
        effects = slice(1, others + 1)
        slopes = coefficients[1 + others + table.shape[1] :].reshape(others, -1)
        moved = centered @ slopes.T / len(centered)  # by covariates of other records
        if users is not None:
            moved = sums_by_user(moved, users)[0]
        value[group], freedom[group], more[group] = coefficients[effects], degrees[effects], added[effects]
        variance[group] = spread[effects] + (moved**2).sum(axis=0)
    ends = student_or_more(value, variance, experiment.width**2 * more, freedom, experiment.entry)
    return experiment.stated(
        "difference, adjusted", "effect", value, _possible(experiment, ends), variance,
        conditions=(BY_LOT, MEASURED_BEFORE),
    )  # fmt: skip


def least_squares(design: Floats, number: Floats, users: Codes | None) -> tuple[Floats, Floats, Floats, Floats]:
    """Return coefficients of least squares, their variances, and what `spread_of` says, each shape (d,).

    Errors are HC2, or clustered by user. A coefficient that few records decide has few degrees of freedom.

    Args:
        design: shape (n, d).
        number: shape (n,).
        users: the user of each record, if users have several.

    Raises:
        InputError: fewer records than columns, or columns that depend on each other.

    Source: MacKinnon, the estimator HC2; Satterthwaite for the degrees of freedom.
    """
    basis = orthonormal(design) if len(design) > design.shape[1] else None
    if basis is None:
        raise InputError(
            "must have more records than columns in each group, and columns that differ", argument="covariates"
        )
    columns, back = basis
    fit = columns.T @ number / len(design)
    residual = number - columns @ fit
    leverage, weights = (columns**2).sum(axis=1) / len(design), columns @ back.T / len(design)
    if users is None:
        scores = columns * (residual / np.sqrt(np.maximum(1 - leverage, 1e-9)) / len(design))[:, None]
        shares, most = weights**2, float(len(design) - design.shape[1])
    else:
        scores, _ = sums_by_user(columns * residual[:, None] / len(design), users)
        clusters = int(np.count_nonzero(np.bincount(users)))
        if clusters < 2:
            raise InputError("must be several in each group", argument="users")
        scores *= np.sqrt(clusters / (clusters - 1) * (len(design) - 1) / (len(design) - design.shape[1]))
        total, alone = sums_by_user(weights, users)
        shares, most = np.maximum(total**2, alone), float(clusters - 1)
    freedom, more = spread_of(shares)
    moves = scores @ back.T
    # a variance that few residuals make is as uncertain as their kurtosis says
    second, fourth = ((moves**power).sum(axis=0) for power in (2, 4))
    units = len(moves) if users is None else most + 1
    excess = np.maximum(units * fourth / np.maximum(second, 1e-300) ** 2 - 1, 1e-9)
    return back @ fit, second, np.minimum.reduce([freedom, 2 * units / excess, np.full(len(freedom), most)]), more


def sums_by_user(columns: Floats, users: Codes) -> tuple[Floats, Floats]:
    """Return the sums of columns by user, and of their squares, each shape (users, d)."""
    sums, squares = np.zeros((2, int(users.max()) + 1, columns.shape[1]))
    np.add.at(sums, users, columns)
    np.add.at(squares, users, columns**2)
    return sums, squares


def _weighted(experiment: Experiment, outcomes: Outcomes, covariates: Any, propensity: Any) -> Estimate:
    """Return the mean of doubly robust scores by group; the model of one half of the records predicts the other."""
    if experiment.arms.count > 2:
        raise InputError("must be left out: it is the chance of one of two arms", argument="propensity")
    records, cells, flags = outcomes.records, experiment.cells, experiment.arms.codes
    assert flags is not None
    if isinstance(propensity, Public) and np.ndim(propensity.value) == 0:
        propensity = Public(np.full(records, propensity.value), why=propensity.why)
    chance, public = public_numbers(propensity, "propensity", (records,), "one number, or one for each record")
    if not np.all((chance > 0) & (chance < 1)):
        raise InputError(
            "must lie between 0 and 1 for each record: each record can be in either arm",
            argument="propensity",
        )
    table = np.ones((records, 1))
    if covariates is not None:
        table = np.column_stack([table, covariate_table(covariates, records)])
    number = values_of(outcomes, experiment.code, slice(None))
    half = _halves(flags, outcomes.users)
    fitted = np.zeros((2, records))
    for fold in (0, 1):
        for arm in (0, 1):
            rows = (half != fold) & (flags == arm)
            if rows.sum() <= table.shape[1]:
                raise InputError(
                    "must have more records than covariates in each arm of each half", argument="covariates"
                )
            fitted[arm, half == fold] = table[half == fold] @ np.linalg.lstsq(table[rows], number[rows], rcond=None)[0]
    weight = np.where(flags, 1 / chance, -1 / (1 - chance))
    scores = fitted[1] - fitted[0] + weight * (number - np.where(flags, fitted[1], fitted[0]))
    result = means_of(lambda rows: scores[rows, None, None], cells, outcomes.users, records)
    value, variance = result.mean[:, 0, 0], result.covariance[:, 0, 0, 0]
    codes = cells.block(slice(None), records)
    squares, fourths = (np.bincount(codes, weight**power, minlength=cells.count) for power in (2, 4))
    more = experiment.width**2 * fourths / squares / cells.sizes**2
    freedom = np.minimum(result.freedom, np.maximum(squares**2 / fourths - 1, 1.0))
    ends = _possible(experiment, student_or_more(value, variance, more, freedom, experiment.entry))
    conditions = (PROPER, public)
    return experiment.stated("difference, propensity", "effect", value, ends, variance, conditions=conditions)


def _halves(flags: Codes, users: Codes | None) -> Codes:
    """Return the half of each record, 0 or 1: in turn within each arm, so that the estimate has no seed.

    All records of a user are in one half, that of the user's first record.
    """
    firsts = np.arange(len(flags)) if users is None else np.unique(users, return_index=True)[1]
    half = np.zeros(len(firsts), dtype=np.int64)
    for arm in (0, 1):
        members = np.flatnonzero(flags[firsts] == arm)
        half[members] = np.arange(len(members)) % 2
    return half if users is None else half[users]


def covariate_table(covariates: Any, records: int) -> Floats:
    """Return public covariates with the mean 0, each at most 1 in size, shape (n, d)."""
    table = np.asarray(covariates.value if isinstance(covariates, Public) else covariates)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or len(table) != records or table.dtype.kind not in "biuf" or not np.all(np.isfinite(table)):
        raise InputError("must be finite numbers, a row for each record", argument="covariates")
    table = table.astype(np.float64) - table.mean(axis=0)
    return table / np.maximum(np.abs(table).max(axis=0), np.finfo(np.float64).tiny)  # unit and origin have no effect

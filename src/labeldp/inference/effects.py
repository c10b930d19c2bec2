"""Effects of public treatments on a private outcome: by arm, adjusted, or weighted by a public propensity."""

from typing import Any

import numpy as np

from labeldp.inference.cells import CellContrast, CellOutcomes, source_of, values_of
from labeldp.inference.estimate import LEVEL, Estimate
from labeldp.inference.groups import Codes, PublicGroups, means_of
from labeldp.inference.intervals import spread_of, student_or_more
from labeldp.inference.released import Outcomes, public_numbers
from labeldp.inference.sums import BY_LOT, arms, from_control, is_sums, orthonormal
from labeldp.privacy import Floats, InputError, Public

MEASURED_BEFORE = "covariates are public and were measured before the treatment"
PROPER = "the propensity is right: the treatment depends on nothing else that the outcome depends on"


def experiment_of(
    release: Any,
    treated: Any,
    control: Any,
    outcome: Any,
    groups: Any,
    users: Any,
    level: float,
    simultaneous: bool,
    **adjusting: Any,
) -> CellOutcomes:
    """Return the outcomes of the arms, the control first, by public group; its axis has the other arms.

    Raises:
        InputError: columns that do not fit, an arm or group without enough records, or columns that adjust sums.
    """
    if is_sums(release):
        for name, column in adjusting.items():
            if column is not None:
                raise InputError("must be left out: sums by arm are not adjusted", argument=name)
    source = source_of(release, users, treated=treated, groups=groups, **adjusting)
    ordered = from_control(arms(treated, source.records), control)
    return CellOutcomes.of(
        source, PublicGroups.of(groups, source.records), ordered, ("arm", ordered.names[1:]), outcome, level,
        simultaneous, ("arm", "groups" if groups is not None else "treated"),
    )  # fmt: skip


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
        control: the arm that others are compared with; by default 0, or the first number or name.
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
    experiment = experiment_of(
        release, treated, control, outcome, groups, users, level, simultaneous, covariates=covariates,
        propensity=propensity,
    )  # fmt: skip
    if isinstance(experiment.source, Outcomes):
        if propensity is not None:
            return _weighted(experiment, experiment.source, covariates, propensity)
        if covariates is not None:
            return _adjusted(experiment, experiment.source, covariates)
    others = experiment.columns.count - 1
    found = experiment.contrast(np.column_stack([-np.ones(others), np.eye(others)]))
    return experiment.stated(DIFFERENCES[found.kind], experiment.against("effect"), found, (BY_LOT,))


def _adjusted(experiment: CellOutcomes, outcomes: Outcomes, covariates: Any) -> Estimate:
    table, number = covariate_table(covariates, outcomes.records), values_of(outcomes, experiment.code, slice(None))
    cells, codes, others = experiment.groups, experiment.columns.codes, experiment.columns.count - 1
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
    found = CellContrast("adjusted", value, *experiment.possible(ends), variance)
    return experiment.stated("difference, adjusted", experiment.against("effect"), found, (BY_LOT, MEASURED_BEFORE))


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
    second, certain = certain_squares(scores @ back.T, len(scores) if users is None else most + 1)
    return back @ fit, second, np.minimum.reduce([freedom, certain, np.full(len(freedom), most)]), more


def certain_squares(moves: Floats, units: float) -> tuple[Floats, Floats]:
    """Return sums of squares over units, and their degrees of freedom: few large squares make them uncertain.

    Args:
        moves: shape (n, ...).
        units: how many are not 0 by themselves.
    """
    second, fourth = ((moves**power).sum(axis=0) for power in (2, 4))
    excess = np.maximum(units * fourth / np.maximum(second, 1e-150) ** 2 - 1, 1e-9)
    return second, 2 * units / excess


def sums_by_user(columns: Floats, users: Codes) -> tuple[Floats, Floats]:
    """Return the sums of columns by user, and of their squares, each shape (users, d)."""
    sums, squares = np.zeros((2, int(users.max()) + 1, columns.shape[1]))
    np.add.at(sums, users, columns)
    np.add.at(squares, users, columns**2)
    return sums, squares


def _weighted(experiment: CellOutcomes, outcomes: Outcomes, covariates: Any, propensity: Any) -> Estimate:
    """Return the mean of doubly robust scores by group; the model of one half of the records predicts the other."""
    if experiment.columns.count > 2:
        raise InputError("must be left out: it is the chance of one of two arms", argument="propensity")
    records, cells, flags = outcomes.records, experiment.groups, experiment.columns.codes
    assert flags is not None
    chance, public = propensities(propensity, records)
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
    ends = experiment.possible(student_or_more(value, variance, more, freedom, experiment.entry))
    found = CellContrast("weighted", value, *ends, variance)
    return experiment.stated("difference, propensity", experiment.against("effect"), found, (PROPER, public))


def propensities(propensity: Any, records: int) -> tuple[Floats, str]:
    """Return the public chance of each record to be treated, shape (n,), and why it is public.

    Raises:
        InputError: not `Public`, not one number or one for each record, or outside of (0, 1).
    """
    if isinstance(propensity, Public) and np.ndim(propensity.value) == 0:
        propensity = Public(np.full(records, propensity.value), why=propensity.why)
    chance, public = public_numbers(propensity, "propensity", (records,), "one number, or one for each record")
    if not np.all((chance > 0) & (chance < 1)):
        raise InputError(
            "must lie between 0 and 1 for each record: each record can be in either arm",
            argument="propensity",
        )
    return chance, public


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

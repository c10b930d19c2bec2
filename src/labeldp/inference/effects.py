"""Effects of a public treatment on a private outcome: by arm, adjusted, or weighted by a public propensity."""

from typing import Any

import numpy as np

from labeldp.inference.catalog import RULES
from labeldp.inference.estimate import LEVEL, Estimate
from labeldp.inference.groups import Codes, PublicGroups, means_of
from labeldp.inference.intervals import (
    clopper_pearson,
    recovered,
    spread_of,
    student_or_more,
    student_within,
)
from labeldp.inference.released import (
    Outcomes,
    entry_level,
    estimate_of,
    outcome_code,
    precision,
    public_numbers,
    treated_column,
)
from labeldp.inference.sums import BY_LOT, arms, difference_of_sums, is_sums, orthonormal
from labeldp.privacy import Flags, Floats, InputError, Public

MEASURED_BEFORE = "covariates are public and were measured before the treatment"
PROPER = "the propensity is right: the treatment depends on nothing else that the outcome depends on"


def difference(
    release: Any,
    treated: Any,
    *,
    outcome: Any = None,
    groups: Any = None,
    covariates: Any = None,
    propensity: Any = None,
    users: Any = None,
    level: float = LEVEL,
    simultaneous: bool = True,
) -> Estimate:
    """Estimate by how much a treatment changes the share of a class, or the mean number, overall or by public group.

    Args:
        release: single answers, or the sums of `plan_sums("difference", …)`.
        treated: who was treated, true or false, shape (n,).
        outcome: the class; of two classes the second one by default.
        groups: a public group for each record, shape (n,): an effect for each.
        covariates: public numbers, shape (n, d). The gain in precision is small for single answers at a small epsilon.
            New records have other covariates: where effects depend on them, this widens the interval.
        propensity: P(treated | covariates), `Public(number or array, why="…")`: weights records by it, which needs no
            draw by lot. Outcomes are predicted by least squares on the covariates of the other half of the records.
        users, level, simultaneous: see `mean`.

    Raises:
        InputError: columns that do not fit, an arm or group without enough records, or a propensity outside of (0, 1).

    Source: Newcombe; LinAdjusted for the adjusted effect; Robins for the weighted one.
    """
    if is_sums(release):
        for name, columns in (("covariates", covariates), ("propensity", propensity)):
            if columns is not None:
                raise InputError("must be left out: sums by arm are not adjusted", argument=name)
        return difference_of_sums(release, treated, groups, outcome, users, level, simultaneous)
    public = {"treated": treated, "groups": groups, "covariates": covariates, "propensity": propensity}
    outcomes = Outcomes.of(release, users, **public)
    flags = treated_column(treated, outcomes.records)
    cells = PublicGroups.of(groups, outcomes.records)
    code = outcome_code(outcomes, outcome) if outcomes.names else None
    if outcome is not None and code is None:
        raise InputError("must be left out: the outcome is a number", argument="outcome")
    crossed = cells.crossed(arms(flags, outcomes.records))
    if crossed.sizes.min() < 2:
        raise InputError(
            "must have two records of each arm in each group", argument="groups" if groups is not None else "treated"
        )
    entry = entry_level(outcomes, cells, level, simultaneous)
    if propensity is not None:
        return _weighted(outcomes, cells, flags, code, covariates, propensity, entry, level, simultaneous)
    if covariates is not None:
        return _adjusted(outcomes, cells, flags, code, covariates, entry, level, simultaneous)
    return _by_arm(outcomes, cells, crossed, code, entry, level, simultaneous)


def values_of(outcomes: Outcomes, code: int | None, rows: slice) -> Floats:
    """Return unbiased indicators of a class, or unbiased numbers, of a block, shape (m,)."""
    return outcomes.numbers(rows) if code is None else outcomes.indicators(rows, code)


def _by_arm(
    outcomes: Outcomes,
    cells: PublicGroups,
    crossed: PublicGroups,
    code: int | None,
    entry: float,
    level: float,
    simultaneous: bool,
) -> Estimate:
    rates = outcomes.rates() if code is not None else None
    binary = rates is not None if code is not None else outcomes.two_outputs
    if binary and not outcomes.clustered:
        if rates is not None and code is not None:
            start, gap = rates[1][code], rates[0][code] - rates[1][code]
        else:
            start, gap = 0.0, 1 / (outcomes.outputs[1] - outcomes.outputs[0])
        hits = outcomes.counts(crossed)[:, 1 if code is None else code].reshape(-1, 2)
        sizes = crossed.sizes.reshape(-1, 2)
        rate = hits / sizes
        low, high = clopper_pearson(hits, sizes, entry)
        ends = recovered((rate[:, 1], low[:, 1], high[:, 1]), (rate[:, 0], low[:, 0], high[:, 0]))
        value, mapped = (rate[:, 1] - rate[:, 0]) / gap, [end / gap for end in ends]
        lower, upper = np.minimum(*mapped), np.maximum(*mapped)
        variance = (rate * (1 - rate) / sizes).sum(axis=1) / gap**2
        share = np.clip((rate - start) / gap, 0, 1)
        sampling = (np.maximum(share * (1 - share), 1 / sizes) / sizes).sum(axis=1)
        noise, effective = precision(variance, sampling, cells.sizes) if code is not None else (None, None)
        return _stated(
            outcomes, "difference", cells, value, lower, upper, variance, level, simultaneous, noise, effective, code
        )
    control = crossed.codes
    assert control is not None
    if not outcomes.clustered:
        result = outcomes.means(lambda rows: values_of(outcomes, code, rows)[:, None, None], crossed)
        mean, squares = result.mean[:, 0, 0], result.covariance[:, 0, 0, 0]
        reach = (0.0, 1.0) if code is not None else tuple(outcomes.outputs.tolist())
        ends = student_within(mean, squares, result.units, result.freedom, (reach[0], reach[1]), entry)
        control_arm, treated_arm = np.moveaxis(np.stack([mean, *ends]).reshape(3, -1, 2), 2, 0)
        value, variance = treated_arm[0] - control_arm[0], squares.reshape(-1, 2).sum(axis=1)
        low, high = recovered(tuple(treated_arm), tuple(control_arm))
    else:  # both arms may hold records of one user: ratios of sums, linearized

        def arm_terms(rows: slice) -> Floats:
            mail = (control[rows] % 2).astype(float)
            number = values_of(outcomes, code, rows)
            return np.stack([number * mail, mail, number * (1 - mail), 1 - mail], axis=1)[:, None, :]

        result = outcomes.means(arm_terms, cells)
        a, b, c, d = np.moveaxis(result.mean[:, 0], -1, 0)
        value = a / b - c / d
        slope = np.stack([1 / b, -a / b**2, -1 / d, c / d**2], axis=1)
        variance = np.einsum("gs,gst,gt->g", slope, result.covariance[:, 0], slope)
        low, high = student_within(
            value, variance, result.units * np.minimum(b, d), result.freedom, _reach_of(outcomes, code), entry
        )
    return _stated(
        outcomes, "difference, numbers", cells, value, low, high, variance, level, simultaneous, None, None, code,
    )  # fmt: skip


def _adjusted(
    outcomes: Outcomes, cells: PublicGroups, flags: Flags, code: int | None, covariates: Any, entry: float,
    level: float, simultaneous: bool,
) -> Estimate:  # fmt: skip
    table, number = _covariates(covariates, outcomes.records), values_of(outcomes, code, slice(None))
    value, variance, freedom, more = (np.zeros(cells.count) for _ in range(4))
    for group in range(cells.count):
        rows = slice(None) if cells.codes is None else cells.codes == group
        centered = table[rows] - table[rows].mean(axis=0)
        mail = flags[rows].astype(np.float64)
        design = np.column_stack([np.ones(len(mail)), mail, centered, centered * mail[:, None]])
        users = None if outcomes.users is None else outcomes.users[rows]
        coefficients, spread, degrees, added = least_squares(design, number[rows], users)
        freedom[group], more[group] = degrees[1], added[1]
        moved = centered @ coefficients[2 + table.shape[1] :] / len(mail)  # by covariates of other records
        if users is not None:
            moved = np.bincount(users, weights=moved)
        value[group], variance[group] = coefficients[1], spread[1] + moved @ moved
    reach = _reach_of(outcomes, code)[1]
    low, high = student_or_more(value, variance, reach**2 * more, freedom, entry)
    return _stated(
        outcomes, "difference, adjusted", cells, value, low, high, variance, level, simultaneous, None, None, code,
        (BY_LOT, MEASURED_BEFORE),
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
        scores, _ = _by_user(columns * residual[:, None] / len(design), users)
        clusters = int(np.count_nonzero(np.bincount(users)))
        if clusters < 2:
            raise InputError("must be several in each group", argument="users")
        scores *= np.sqrt(clusters / (clusters - 1) * (len(design) - 1) / (len(design) - design.shape[1]))
        total, alone = _by_user(weights, users)
        shares, most = np.maximum(total**2, alone), float(clusters - 1)
    freedom, more = spread_of(shares)
    moves = scores @ back.T
    # a variance that few residuals make is as uncertain as their kurtosis says
    second, fourth = ((moves**power).sum(axis=0) for power in (2, 4))
    units = len(moves) if users is None else most + 1
    excess = np.maximum(units * fourth / np.maximum(second, 1e-300) ** 2 - 1, 1e-9)
    return back @ fit, second, np.minimum.reduce([freedom, 2 * units / excess, np.full(len(freedom), most)]), more


def _by_user(columns: Floats, users: Codes) -> tuple[Floats, Floats]:
    """Return the sums of columns by user, and of their squares, each shape (users, d)."""
    sums, squares = np.zeros((2, int(users.max()) + 1, columns.shape[1]))
    np.add.at(sums, users, columns)
    np.add.at(squares, users, columns**2)
    return sums, squares


def _weighted(
    outcomes: Outcomes, cells: PublicGroups, flags: Flags, code: int | None, covariates: Any, propensity: Any,
    entry: float, level: float, simultaneous: bool,
) -> Estimate:  # fmt: skip
    """Return the mean of doubly robust scores by group; the model of one half of the records predicts the other."""
    records = outcomes.records
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
        table = np.column_stack([table, _covariates(covariates, records)])
    number = values_of(outcomes, code, slice(None))
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
    more = _reach_of(outcomes, code)[1] ** 2 * fourths / squares / cells.sizes**2
    freedom = np.minimum(result.freedom, np.maximum(squares**2 / fourths - 1, 1.0))
    low, high = student_or_more(value, variance, more, freedom, entry)
    return _stated(
        outcomes, "difference, propensity", cells, value, low, high, variance, level, simultaneous,
        None, None, code, (PROPER, public),
    )  # fmt: skip


def _halves(flags: Flags, users: Codes | None) -> Codes:
    """Return the half of each record, 0 or 1: in turn within each arm, so that the estimate has no seed.

    All records of a user are in one half, that of the user's first record.
    """
    firsts = np.arange(len(flags)) if users is None else np.unique(users, return_index=True)[1]
    half = np.zeros(len(firsts), dtype=np.int64)
    for arm in (False, True):
        members = np.flatnonzero(flags[firsts] == arm)
        half[members] = np.arange(len(members)) % 2
    return half if users is None else half[users]


def _covariates(covariates: Any, records: int) -> Floats:
    table = np.asarray(covariates.value if isinstance(covariates, Public) else covariates)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or len(table) != records or table.dtype.kind not in "biuf" or not np.all(np.isfinite(table)):
        raise InputError("must be finite numbers, a row for each record", argument="covariates")
    table = table.astype(np.float64) - table.mean(axis=0)
    return table / np.maximum(np.abs(table).max(axis=0), np.finfo(np.float64).tiny)  # unit and origin have no effect


def _reach_of(outcomes: Outcomes, code: int | None) -> tuple[float, float]:
    """Return the lowest and the highest effect that is possible."""
    width = 1.0 if code is not None else float(outcomes.mechanism.domain.high - outcomes.mechanism.domain.low)
    return -width, width


def _stated(
    outcomes: Outcomes, key: str, cells: PublicGroups, value: Floats, low: Floats, high: Floats, variance: Floats,
    level: float, simultaneous: bool, noise: Any, effective: Any, code: int | None, more: tuple[str, ...] = (BY_LOT,),
) -> Estimate:  # fmt: skip
    reach = _reach_of(outcomes, code)
    return estimate_of(
        outcomes, RULES[key], "effect", cells.axes, value, np.clip(low, *reach), np.clip(high, *reach),
        variance, level, simultaneous, noise, effective, (*more, *outcomes.conditions),
    )  # fmt: skip

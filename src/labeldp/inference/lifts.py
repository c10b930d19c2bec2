"""Relative effects of public treatments on a private outcome."""

from typing import Any

import numpy as np

from labeldp.inference.cells import CellContrast, CellOutcomes, values_of
from labeldp.inference.effects import MEASURED_BEFORE, covariate_table, experiment_of, least_squares, sums_by_user
from labeldp.inference.estimate import LEVEL, Estimate
from labeldp.inference.intervals import Ends, ratio_recovered, student_or_more
from labeldp.inference.released import Outcomes
from labeldp.inference.sums import BY_LOT
from labeldp.privacy import Floats, InputError

CONTROL, OTHERS = slice(0, 1), slice(1, None)
"""The columns of an experiment."""

LIFTS = {"answers": "lift", "numbers": "lift, numbers", "sums": "lift, sums", "number sums": "lift, number sums"}
"""The rule of a lift, by the kind of the means of its arms."""


def lift(
    release: Any,
    treated: Any,
    *,
    control: Any = None,
    outcome: Any = None,
    groups: Any = None,
    covariates: Any = None,
    users: Any = None,
    level: float = LEVEL,
    simultaneous: bool = True,
) -> Estimate:
    """Estimate the relative lift: by which part of the control's share or mean a treatment raises it.

    Args:
        release: single answers by classes, or of numbers that are at least 0; or the sums of
            `plan_sums("difference", …)`.
        treated, control, outcome, groups, level, simultaneous: see `difference`.
        covariates: public numbers, shape (n, d): the means of the arms are adjusted to the covariates of all records.
        users: see `mean`. All records of a user must be in one arm.

    Returns:
        The lift, 0.2 for 20 %; its upper end is infinite where the control's mean may be 0.

    Raises:
        InputError: see `difference`; numbers below 0, or a user in two arms.

    Source: DonnerZou; LinAdjusted for adjusted means.
    """
    experiment = experiment_of(
        release, treated, control, outcome, groups, users, level, simultaneous, covariates=covariates
    )
    source = experiment.source
    if not source.names and source.mechanism.domain.low < 0:
        raise InputError("must be of numbers that are at least 0: others have no relative lift", argument="release")
    if isinstance(source, Outcomes) and source.users is not None:
        _refuse_users_of_two_arms(experiment, source.users)
    if covariates is not None and isinstance(source, Outcomes):
        key, value, ends = "lift, adjusted", *_adjusted(experiment, source, covariates)
    else:
        means = experiment.means
        others, first = ((means.value[:, arm], means.low[:, arm], means.high[:, arm]) for arm in (OTHERS, CONTROL))
        key, value, ends = LIFTS[means.kind], means.value, ratio_recovered(others, first)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(value[:, CONTROL] > 0, value[:, OTHERS] / value[:, CONTROL], np.nan)
    conditions = (BY_LOT,) if covariates is None else (BY_LOT, MEASURED_BEFORE)
    return experiment.stated(
        key, experiment.against("relative lift"), CellContrast(key, ratio - 1, ends[0] - 1, ends[1] - 1), conditions
    )


def _refuse_users_of_two_arms(experiment: CellOutcomes, users: Any) -> None:
    pairs = np.unique(np.stack([users, experiment.columns.block(slice(None), len(users))], axis=1), axis=0)
    if len(pairs) > len(np.unique(users)):
        raise InputError("must each have all records in one arm", argument="users")


def _adjusted(experiment: CellOutcomes, outcomes: Outcomes, covariates: Any) -> tuple[Floats, Ends]:
    """Return the adjusted means, shape (G, arms), and the ends of ratios.

    Each arm has its own regression. New records have other covariates, which move the means of two arms together.
    """
    table, number = covariate_table(covariates, outcomes.records), values_of(outcomes, experiment.code, slice(None))
    cells = experiment.crossed.block(slice(None), outcomes.records)
    value, variance, freedom, more = np.zeros((4, *experiment.sizes.shape))
    shared = np.zeros_like(value)
    for group in range(experiment.groups.count):
        first = group * experiment.columns.count
        members = (cells >= first) & (cells < first + experiment.columns.count)
        center, moves = table[members].mean(axis=0), []
        for arm in range(experiment.columns.count):
            rows = cells == first + arm
            design = np.column_stack([np.ones(rows.sum()), table[rows] - center])
            users = None if outcomes.users is None else outcomes.users[rows]
            coefficients, spread, degrees, added = least_squares(design, number[rows], users)
            moved = (table[members] - center) @ coefficients[1:] / members.sum()
            if outcomes.users is not None:
                moved = sums_by_user(moved[:, None], outcomes.users[members])[0][:, 0]
            moves.append(moved)
            value[group, arm], freedom[group, arm], more[group, arm] = coefficients[0], degrees[0], added[0]
            variance[group, arm] = spread[0] + moved @ moved
            shared[group, arm] = moved @ moves[0]
    ends = student_or_more(value, variance, experiment.width**2 * more, freedom, experiment.entry)
    correlation = shared[:, OTHERS] / np.sqrt(np.maximum(variance[:, OTHERS] * variance[:, CONTROL], 1e-300))
    others, control = ((value[:, arm], ends[0][:, arm], ends[1][:, arm]) for arm in (OTHERS, CONTROL))
    return value, ratio_recovered(others, control, correlation)

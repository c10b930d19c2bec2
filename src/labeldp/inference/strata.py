"""Shares and means of a population of which the records are a sample with public weights, or of known strata."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from labeldp.inference.catalog import RULES
from labeldp.inference.cells import CellOutcomes, source_of, values_of
from labeldp.inference.effects import certain_squares
from labeldp.inference.estimate import LEVEL, Estimate, check_level
from labeldp.inference.groups import PublicGroups, public_column
from labeldp.inference.intervals import spread_of, student_or_more
from labeldp.inference.released import Outcomes, estimate_of, outcome_code
from labeldp.inference.sums import is_sums
from labeldp.privacy import Floats, InputError

WEIGHTS = "the weights say how many people each record stands for, and do not depend on these labels"
STRATA = "the shares of the strata are those of the population, and records of a stratum are a random sample of it"


def weighted_mean(
    release: Any, weights: Any, *, outcome: Any = None, users: Any = None, level: float = LEVEL
) -> Estimate:
    """Estimate the share of a class, or the mean number, in a population that the records represent with weights.

    Args:
        release: single answers.
        weights: public survey weights, at least 0, shape (n,); their unit does not matter.
        outcome: the class; of two classes the second one by default.
        users: the user of each record, where users have several, shape (n,).
        level: coverage.

    Raises:
        InputError: weights that do not fit, or less than two that are positive; noisy sums, which are not weighted.

    Source: Hajek; Satterthwaite for the degrees of freedom.
    """
    check_level(level)
    if is_sums(release):
        raise InputError("must be of single answers: noisy sums are not weighted", argument="release")
    outcomes = Outcomes.of(release, users, weights=weights)
    column = public_column(weights, outcomes.records, "weights")
    if column.dtype.kind not in "biuf" or not np.all(np.isfinite(column)) or column.min() < 0:
        raise InputError("must be finite numbers that are at least 0", argument="weights")
    if outcome is not None and not outcomes.names:
        raise InputError("must be left out: the outcome is a number", argument="outcome")
    code = outcome_code(outcomes, outcome) if outcomes.names else None
    owners = np.arange(outcomes.records) if outcomes.users is None else outcomes.users
    parts = column / max(float(column.max()), np.finfo(np.float64).tiny)
    parts = parts / max(float(parts.sum()), np.finfo(np.float64).tiny)
    held: Floats = np.bincount(owners, weights=parts).astype(np.float64)
    if np.count_nonzero(held) < 2:
        raise InputError("must be positive for two records, of two users, or more", argument="weights")
    number = np.concatenate([values_of(outcomes, code, rows) for rows in outcomes.blocks()])
    value = float(parts @ number)
    # a heavy record draws the mean to itself: this is what its squared distance lacks, where all have one variance
    kept = 1 - 2 * held + (held**2).sum()
    moves = np.bincount(owners, weights=parts * (number - value)) / np.sqrt(np.maximum(kept, 1e-9))
    variance, certain = certain_squares(moves[held > 0], float(np.count_nonzero(held)))
    freedom, more = spread_of(held**2)
    domain = outcomes.mechanism.domain
    reach = (0.0, 1.0) if code is not None else (float(domain.low), float(domain.high))
    low, high = student_or_more(
        np.asarray(value), variance, (reach[1] - reach[0]) ** 2 * more, np.minimum(freedom, certain), level
    )
    name = "mean" if code is None else f"share of {outcomes.names[code]}"
    return estimate_of(
        outcomes, RULES["weighted mean"], f"weighted {name}", (), value, np.clip(low, *reach), np.clip(high, *reach),
        variance, level, False, None, None, (WEIGHTS, *outcomes.conditions),
    )  # fmt: skip


def stratified_mean(
    release: Any,
    strata: Any,
    population: Mapping[Any, float],
    *,
    outcome: Any = None,
    users: Any = None,
    level: float = LEVEL,
) -> Estimate:
    """Estimate the share of a class, or the mean number, in a population whose strata have known sizes.

    It does not matter how many records of each stratum there are: by design, or by who answered (post-stratification).

    Args:
        release: single answers, or the sums of `plan_sums("mean", …)` with the strata as groups.
        strata: the public stratum of each record, shape (n,).
        population: the share or size of each stratum in the population, by its name.
        outcome: the class; of two classes the second one by default.
        users: the user of each record, where users have several, shape (n,).
        level: coverage.

    Raises:
        InputError: a stratum without a share or without enough records, or shares that are not positive.

    Source: Cochran, Chapter 5; Zou for the interval.
    """
    source = source_of(release, users, strata=strata)
    columns = PublicGroups.of(strata, source.records, "strata")
    sizes = {str(name): float(size) for name, size in population.items()}
    if sizes.keys() != set(columns.names):
        wrong = sorted(sizes.keys() ^ set(columns.names))
        raise InputError(
            f"must name each stratum of the records, and no others: see {wrong[0]!r}", argument="population"
        )
    weights = np.array([[sizes[name] for name in columns.names]])
    if not np.all(np.isfinite(weights)) or not np.all(weights > 0):
        raise InputError("must be positive shares or sizes", argument="population")
    cells = CellOutcomes.of(
        source, PublicGroups.of(None, source.records), columns, ("mean", ("mean",)), outcome, level, False,
        ("stratum", "strata"),
    )  # fmt: skip
    domain, code = source.mechanism.domain, cells.code
    reach = (0.0, 1.0) if code is not None else (float(domain.low), float(domain.high))
    name = "mean" if code is None else f"share of {source.names[code]}"
    key = "stratified mean, users" if source.clustered else "stratified mean"
    return cells.stated(key, f"stratified {name}", cells.contrast(weights / weights.sum(), reach), (STRATA,))

"""Which of two models is right more often, from released outcomes that neither of them saw."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from labeldp.inference.catalog import RULES
from labeldp.inference.estimate import LEVEL, TARGETS, Estimate, check_level
from labeldp.inference.groups import PublicGroups
from labeldp.inference.intervals import exact_shares, student_within
from labeldp.inference.released import NoisySums, Outcomes, equal_rates, estimate_of, public_numbers
from labeldp.inference.sums import comparison_of_sums, is_sums
from labeldp.privacy import Floats, InputError, check_choice

DIFFER_SHARE = 0.2
"""The part of the risk of an exact comparison that goes to how often the models differ."""


def compare(
    release: Any, one: Any, other: Any, *, users: Any = None, target: str = "population", level: float = LEVEL
) -> Estimate:
    """Estimate by how much more often one model is right than another.

    Records on which both agree say nothing, noise included. Of two classes exactly one model is right where they
    differ. So two exact intervals, of how often they differ and of which one is right then, give an exact interval.

    Args:
        release: answers by classes, or the sums of `plan_sums("compare", …)`.
        one, other: `Public(codes, why="…")` of predicted classes, shape (n,), of models that saw none of these labels.
        users, level: see `mean`.
        target: "population", new records like these, or "records", records with these predictions.

    Source: McNemar, with answers in place of labels.
    """
    check_level(level)
    check_choice(target, "target", TARGETS)
    summed = is_sums(release)
    outcomes: Any = (
        NoisySums.of(release, one=one, other=other) if summed else Outcomes.of(release, users, one=one, other=other)
    )
    classes, records = len(outcomes.names), outcomes.mechanism.records if summed else outcomes.records
    if not classes:
        raise InputError("must be of classes: the outcome is a number", argument="release")
    codes, reasons = [], []
    for argument, predictions in (("one", one), ("other", other)):
        numbers, why = public_numbers(predictions, argument, (records,), "a predicted code for each record")
        if not np.isin(numbers, np.arange(classes)).all():
            raise InputError(f"must be codes from 0 to {classes - 1}, one for each record", argument=argument)
        codes.append(numbers.astype(np.int64))
        reasons.append(why)
    if summed:
        return comparison_of_sums(release, codes, users, reasons, level, target)
    return compare_answers(outcomes, codes, reasons, level, target)


def compare_answers(
    source: Outcomes, codes: Sequence[Any], reasons: Sequence[str], level: float, target: str
) -> Estimate:
    """Return by how much more often one model is right, from single answers; see `compare`.

    Args:
        source: the answers.
        codes: what both models predict, shape (n,) each.
        reasons: why these labels did not make them.
        level, target: see `compare`.
    """
    differ = np.flatnonzero(codes[0] != codes[1])
    part = len(differ) / source.records
    rates = None if source.clustered or len(source.names) > 2 else equal_rates(source.mechanism)
    conditions = (*reasons, *source.conditions)
    if rates is not None:
        named = source.mechanism.named(source.release.value[differ])
        agree = int(named[np.arange(len(differ)), codes[0][differ]].sum())
        parts: list[Any] = [part, part]
        entry = level
        if target == "population":
            entry = 1 - (1 - level) * (1 - DIFFER_SHARE)
            _, *parts, _ = exact_shares(len(differ), source.records, (1.0, 0.0), level / entry)
        share, *ends, spread = exact_shares(agree, len(differ), rates, entry)
        low, high = 2 * np.clip(ends, 0, 1) - 1
        low, high = min(low * parts[0], low * parts[1]), max(high * parts[0], high * parts[1])
        gain = 2 * share - 1
        value = gain * part if part else 0.0
        variance = 4 * part**2 * spread
        if target == "population" and part:
            variance += np.clip(gain, -1, 1) ** 2 * part * (1 - part) / source.records
        return estimate_of(
            source, RULES["comparison"], "difference of accuracies", (), value, low, high, variance, level, False,
            None, None, conditions, target=target,
        )  # fmt: skip

    def terms(rows: slice) -> Floats:
        indicators = source.indicators(rows)
        index = np.arange(len(indicators))
        return (indicators[index, codes[0][rows]] - indicators[index, codes[1][rows]])[:, None, None]

    result = source.means(terms, PublicGroups.of(None, source.records))
    value, variance = result.mean[0, 0, 0], result.covariance[0, 0, 0, 0]
    reach = 1.0 if target == "population" else part
    within = student_within(value, variance, result.units[0], result.freedom[0], (-1, 1), level)
    low, high = np.clip(within, -reach, reach)
    return estimate_of(
        source, RULES["comparison, classes"], "difference of accuracies", (), value, low, high, variance, level,
        False, None, None, conditions, target=target,
    )  # fmt: skip

"""Shares of classes, means and quantiles of a private outcome, overall and by public group."""

from typing import Any

import numpy as np

from labeldp.inference.catalog import RULES, Rule
from labeldp.inference.estimate import LEVEL, TARGETS, Estimate, check_level
from labeldp.inference.groups import PublicGroups
from labeldp.inference.intervals import betting, clopper_pearson, exact_shares, normal_quantile, student_within
from labeldp.inference.released import NoisySums, Outcomes, entry_level, estimate_of, outcome_code, precision
from labeldp.inference.sums import is_sums, mean_of_sums, quantile_of_sums
from labeldp.mechanisms import DiscreteLaplace, Interval, ResponseOnBins
from labeldp.privacy import Floats, InputError, NotInvertibleError, check_choice

FEW = 500
"""Below so many records, the mean of numbers with many outputs has a betting interval."""

MIXED = f"{RULES['mean'].method}; below {FEW} records {RULES['mean, few records'].method}"

ORDER = "the order of records does not depend on their outcomes"


def mean(
    release: Any,
    *,
    outcome: Any = None,
    groups: Any = None,
    users: Any = None,
    target: str = "population",
    level: float = LEVEL,
    simultaneous: bool = True,
    method: str = "auto",
) -> Estimate:
    """Estimate the share of each class, or the mean number, of everyone or of public groups.

    Args:
        release: single answers, or the sums of `plan_sums("mean", …)`.
        outcome: one class; all classes by default, and bins where answers are bins.
        groups: a public group for each record, shape (n,).
        users: the user of each record, where users have several, shape (n,).
        target: "population", the law that records come from, or "records", these records alone: then only the noise
            counts. With method="exact", and for numbers answered one by one, the interval of the population is taken,
            which is wider and holds both.
        level: coverage.
        simultaneous: whether all intervals hold together with this probability, or each by itself.
        method: "auto" is the default of `RULES`; "exact" and "normal" for shares and for two outputs.

    Raises:
        InputError: an outcome, groups or users that do not fit; an exact interval where users have several records.
        NotInvertibleError: answers from which no share can be computed.
    """
    check_choice(target, "target", TARGETS)
    check_level(level)
    if is_sums(release):
        return mean_of_sums(release, groups, outcome, users, target, level, simultaneous)
    outcomes = Outcomes.of(release, users, groups=groups)
    check_choice(method, "method", ("auto", "exact", "normal"))
    if method == "exact" and outcomes.clustered:
        raise InputError(
            "cannot be exact: users have several records, and records of a user may depend on each other; take "
            "method='auto', with errors clustered by user",
            argument="method",
        )
    cells = PublicGroups.of(groups, outcomes.records)
    if outcomes.names:
        return _shares(outcomes, cells, outcome, target, level, simultaneous, method)
    if outcome is not None:
        raise InputError("must be left out: the outcome is a number", argument="outcome")
    return _numbers(outcomes, cells, target, level, simultaneous, method)


def _shares(
    outcomes: Outcomes, cells: PublicGroups, outcome: Any, target: str, level: float, simultaneous: bool, method: str
) -> Estimate:
    columns = range(len(outcomes.names)) if outcome is None else [outcome_code(outcomes, outcome)]
    entry = entry_level(outcomes, cells, level, simultaneous, len(columns) if len(outcomes.names) > 2 else 1)
    sizes = np.maximum(cells.sizes, 1)[:, None]
    rates = outcomes.rates()
    rule = RULES["share"]
    conditions = outcomes.conditions
    if rates is None or outcomes.clustered or method == "normal":
        if method == "exact":
            raise InputError("cannot be exact where answers treat classes unlike each other", argument="method")
        key = "share, declared for each record" if outcomes.by_record and not outcomes.clustered else "share, normal"
        value, variance, units, freedom = (
            number[:, None] if number.ndim == 1 else number
            for number in _debiased_shares(outcomes, cells, list(columns))
        )
        low, high = student_within(value, variance, units, freedom, (0, 1), entry)
        rule = RULES[key]
    else:
        hit, miss = (rate[list(columns)] for rate in rates)
        hits = outcomes.counts(cells)[:, list(columns)]
        value, low, high, variance = exact_shares(hits, cells.sizes[:, None], (hit, miss), entry)
        if target == "records" and method == "auto":
            share = np.clip(value, 0, 1)
            variance = (share * hit * (1 - hit) + (1 - share) * miss * (1 - miss)) / sizes / (hit - miss) ** 2
            half = normal_quantile(entry) * np.sqrt(variance)
            low, high, rule = value - half, value + half, RULES["share of these records"]
            conditions = outcomes.release.certificate.assumptions
    value = np.where(cells.sizes[:, None] > 0, value, np.nan)
    share = np.clip(value, 0, 1)
    sampling = np.maximum(share * (1 - share), 1 / sizes) / sizes
    noise, effective = precision(variance, sampling, sizes)
    axis = ("bin" if isinstance(outcomes.mechanism, ResponseOnBins) else "class", tuple(outcomes.names))
    name = "share" if outcome is None else f"share of {outcome}"
    return estimate_of(
        outcomes, rule, name, (*cells.axes, axis), value, np.clip(low, 0, 1), np.clip(high, 0, 1), variance, level,
        simultaneous, noise if target == "population" else None, effective if target == "population" else None,
        conditions, keep_axis=outcome is None, target=target,
    )  # fmt: skip


def _debiased_shares(
    outcomes: Outcomes, cells: PublicGroups, columns: list[int]
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return shares and their variances, shape (G, columns), weighted if records have separate matrices.

    Then follow units and degrees of freedom, each shape (G,); see `Means`.
    """
    if outcomes.by_record and outcomes.mechanism.domain.size == 2:
        matrix = outcomes.mechanism.design.matrix
        yes, no = matrix[:, 1, 1], matrix[:, 0, 1]
        weights = (yes - no) ** 2 / np.maximum(no * (1 - no) + yes * (1 - yes), 1e-12)

        def weighted(rows: slice) -> Floats:
            block = outcomes.indicators(rows, columns)
            return np.stack([block * weights[rows, None], np.repeat(weights[rows, None], len(columns), axis=1)], axis=2)

        result = outcomes.means(weighted, cells)
        value = result.mean[..., 0] / result.mean[..., 1]
        left = np.stack([np.ones_like(value), -value], axis=-1)
        variance = np.einsum("gcs,gcst,gct->gc", left, result.covariance, left) / result.mean[..., 1] ** 2
        return value, variance, result.units, result.freedom
    result = outcomes.means(lambda rows: outcomes.indicators(rows, columns)[:, :, None], cells)
    return result.mean[..., 0], result.covariance[..., 0, 0], result.units, result.freedom


def _numbers(
    outcomes: Outcomes, cells: PublicGroups, target: str, level: float, simultaneous: bool, method: str
) -> Estimate:
    mechanism, entry = outcomes.mechanism, entry_level(outcomes, cells, level, simultaneous)
    domain, sizes = mechanism.domain, np.maximum(cells.sizes, 1)
    noise = effective = None
    if outcomes.two_outputs and not outcomes.clustered and method != "normal":
        lowest, highest = outcomes.outputs
        hits = outcomes.counts(cells)[:, 1]
        low, high = (lowest + (highest - lowest) * end for end in clopper_pearson(hits, cells.sizes, entry))
        value = lowest + (highest - lowest) * hits / sizes
        variance, rule = (highest - value) * (value - lowest) / sizes, RULES["mean, two outputs"]
    else:
        if method == "exact":
            raise InputError("is exact for shares and for two outputs alone; take method='auto'", argument="method")
        result = outcomes.means(lambda rows: outcomes.numbers(rows)[:, None, None], cells)
        value, variance = result.mean[:, 0, 0], result.covariance[:, 0, 0, 0]
        ends = (float(outcomes.outputs[0]), float(outcomes.outputs[1]))
        low, high = student_within(value, variance, result.units, result.freedom, ends, entry)
        rule = RULES["mean"]
        few = cells.sizes < FEW
        if few.any() and not outcomes.clustered and method == "auto":
            rule = RULES["mean, few records"] if few.all() else Rule(MIXED, RULES["mean"].guarantee)
            for group in np.flatnonzero(few):
                rows = slice(None) if cells.codes is None else cells.codes == group
                numbers = np.asarray(mechanism.unbiased(outcomes.release.value[rows]).values)
                low[group], high[group] = betting(numbers, *ends, entry)
        if isinstance(mechanism, DiscreteLaplace):
            # the variance of the labels, without a bias: squared distances from the middle of the range
            middle = (domain.low + domain.high) / 2
            squares = outcomes.means(
                lambda rows: mechanism.unbiased_squares(
                    outcomes.release.value[rows], np.full(rows.stop - rows.start, middle)
                )[:, None, None],
                cells,
            ).mean[:, 0, 0]
            labels = np.clip(squares - (value - middle) ** 2, 0, (domain.high - domain.low) ** 2 / 4)
            noise, effective = precision(variance, np.maximum(labels, 0) / sizes, sizes)
    conditions = (*outcomes.conditions, *((ORDER,) if RULES["mean, few records"].method in rule.method else ()))
    return estimate_of(
        outcomes, rule, "mean", cells.axes, value, np.clip(low, domain.low, domain.high),
        np.clip(high, domain.low, domain.high), variance, level, simultaneous, noise, effective, conditions,
        target=target,
    )  # fmt: skip


def quantile(
    release: Any,
    *,
    at: float = 0.5,
    groups: Any = None,
    users: Any = None,
    level: float = LEVEL,
    simultaneous: bool = True,
) -> Estimate:
    """Estimate a quantile of ordered classes, or of a number that was randomized by bins.

    Args:
        release: answers by classes in their order, or by `ResponseOnBins`; or the sums of `plan_sums("mean", …)`.
        at: the share of records at or below the quantile, in (0, 1): one half is the median.
        groups, users, level, simultaneous: see `mean`.

    Returns:
        For classes their places in the order, from 0. For bins the upper edge of the bin that holds the quantile; the
        interval reaches from the lower edge of its first bin to the upper edge of its last.

    Raises:
        NotInvertibleError: answers that say nothing of a quantile, such as outputs that average to a number.
    """
    if not 0 < at < 1:
        raise InputError("must lie between 0 and 1, such as 0.5", argument="at")
    if is_sums(release):
        counted = quantile_of_sums(release, at, groups, users, level, simultaneous)
        return _in_order(*counted, RULES["quantile, sums"], at, level, simultaneous)
    outcomes = Outcomes.of(release, users, groups=groups)
    if not outcomes.names:
        raise NotInvertibleError(
            f"{type(outcomes.mechanism).__name__} has no quantiles: its answers say nothing but the mean. Release bins "
            "by ResponseOnBins"
        )
    cells = PublicGroups.of(groups, outcomes.records)
    entry, rates = entry_level(outcomes, cells, level, simultaneous), outcomes.rates()
    single = np.ndim(outcomes.release.value) == 1
    if rates is None or outcomes.clustered or not single:

        def cumulated(rows: slice) -> Floats:
            return np.cumsum(outcomes.indicators(rows), axis=1)[:, :, None]

        result, rule = outcomes.means(cumulated, cells), RULES["quantile, normal"]
        below = result.mean[..., 0]
        low, high = student_within(
            below, result.covariance[..., 0, 0], result.units[:, None], result.freedom[:, None], (0, 1), entry
        )
    else:
        # each row of the matrix sums to 1, so the gap is the same for all classes
        down, gap = np.cumsum(rates[1]), rates[0][0] - rates[1][0]
        counts = np.cumsum(outcomes.counts(cells), axis=1)
        below = (counts / np.maximum(cells.sizes, 1)[:, None] - down) / gap
        ends = [(end - down) / gap for end in clopper_pearson(counts, cells.sizes[:, None], entry)]
        low, high = np.minimum(*ends), np.maximum(*ends)
        rule = RULES["quantile"]
    return _in_order(outcomes, cells, below, low, high, rule, at, level, simultaneous)


def _in_order(
    source: Outcomes | NoisySums, cells: PublicGroups, below: Floats, low: Floats, high: Floats, rule: Rule, at: float,
    level: float, simultaneous: bool,
) -> Estimate:  # fmt: skip
    """Return the quantile whose classes are not refused: one is where the share up to it may be `at` or more."""
    classes = below.shape[1]
    low[:, -1] = high[:, -1] = below[:, -1] = 1.0
    before = np.concatenate([np.zeros((cells.count, 1)), low[:, :-1]], axis=1)
    possible = (high >= at) & (before <= at)
    first, last = possible.argmax(axis=1), classes - 1 - possible[:, ::-1].argmax(axis=1)
    value = np.clip((below >= at).argmax(axis=1), first, last)
    numbers: tuple[Floats, Floats, Floats] = (value.astype(float), first.astype(float), last.astype(float))
    if isinstance(source.mechanism.domain, Interval):
        edges = source.mechanism.edges
        numbers = (edges[value + 1], edges[first], edges[last + 1])
    name = "median" if at == 0.5 else f"{at:g} quantile"
    return estimate_of(source, rule, name, cells.axes, *numbers, None, level, simultaneous)

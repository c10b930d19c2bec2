"""Sentences of a report: better models, narrower intervals, and features that copy the label."""

from dataclasses import replace
from math import exp, expm1, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.fit.choice import Expected, advise
from labeldp.fit.settings import FitSettings
from labeldp.inference import DebiasedErrors, Estimate, Scores, SummedErrors
from labeldp.learners import Model
from labeldp.mechanisms import debias
from labeldp.privacy import decimal_text
from labeldp.tables import TableEncoder

MORE_RECORDS, MORE_EPSILON = 4, 2
"""So many times the records, or the epsilon, are compared with what there is."""

MOST_EPSILON = 8.0
"""No larger epsilon is suggested."""

CLEAR = 0.5
"""A loss that is expected to fall by fewer points is not worth a sentence."""

LARGEST_SHARE = 0.5
"""A larger part of the records is not suggested for the evaluation."""


def better_models(settings: FitSettings, records: int, dimension: int, categories: int = 0) -> tuple[str, ...]:
    """Return the cost of noise with more records, another epsilon or another trust, by the rule of `labeldp choose`."""
    if settings.target == "numbers":  # public numbers cannot tell
        return ()

    def best(records: int, epsilon: float, trust: str) -> Expected | None:
        task = settings.domain, epsilon, settings.delta, trust
        options = advise(records, dimension, *task, categories=categories).options
        return options[0].expected if options else None

    epsilon, trust = settings.epsilon, settings.trust
    now = best(records, epsilon, trust)
    alternatives = {
        f"with {MORE_RECORDS * records:,} records": best(MORE_RECORDS * records, epsilon, trust),
        f"with ε = {decimal_text(MORE_EPSILON * epsilon)}": best(records, MORE_EPSILON * epsilon, trust),
        "with central trust at this ε": best(records, epsilon, "central") if trust == "local" else None,
    }
    gains = [
        f"{result.cost if now is None else f'it costs {round(result.value)}'} {what}"
        for what, result in alternatives.items()
        if result and (now is None or now.value - result.value >= CLEAR)
    ]
    if now is None and not gains:
        return ()
    cost = "no method learns more than a constant" if now is None else now.cost
    changes = (
        ", ".join(gains) or "neither more records nor a larger ε nor another trust is expected to change that much"
    )
    return (f"On average over other tables of this size and ε, {cost}; {changes}. labeldp choose compares methods.",)


def narrower_interval(
    settings: FitSettings, accuracy: Estimate, measured: int, records: int, *, one_by_one: bool
) -> tuple[str, ...]:
    """Return what would halve the interval of an accuracy that was estimated from `measured` released labels."""
    ways = [f"{4 * records:,} records"]
    if 4 * measured <= LARGEST_SHARE * records:
        ways.append(f"--evaluation {4 * measured / records:.2g} (with fewer records to learn from)")
    size, value = settings.domain.size, min(max(accuracy.value, 0.0), 1.0)
    enough = _spread(settings.epsilon, size, value) / 2
    epsilons = [settings.epsilon * 1.1**step for step in range(1, 60)]
    larger = [
        number
        for number in epsilons
        if number <= MOST_EPSILON and one_by_one and _spread(number, size, value) <= enough
    ]
    ways += [f"ε = {larger[0]:.2g}"] if larger else []
    width = 100 * (accuracy.high - accuracy.low) / 2
    return (f"To halve the confidence interval of the accuracy, to {width:.1f} points: {', or '.join(ways)}.",)


def _spread(epsilon: float, size: int, accuracy: float) -> float:
    """Return the standard deviation of a debiased agreement under randomized response over so many classes."""
    total = exp(epsilon) + size - 1
    gap, lie = expm1(epsilon) / total, 1 / total
    agrees = lie + gap * accuracy
    return sqrt(agrees * (1 - agrees)) / gap


NEARLY_ALL = 0.9
"""A feature is named if it explains more than this share of what a constant gets wrong, beyond the noise."""

RISK = 0.01
"""The chance that a fit names a feature that explains less, over all its features."""

BINS, RECORDS_IN_BIN = 64, 50
"""Bins of a numeric feature at most, and records in each at least."""

LEAST_RECORDS, MOST_RECORDS = 200, 100_000
"""Fewer released labels decide nothing, and more are not looked at."""


def copy_warnings(model: Model, features: NDArray[Any], encoder: Any) -> tuple[str, ...]:
    """Return a sentence on each feature that explains the labels nearly alone.

    Each half of the released labels is predicted from one feature by the other half. Where only sums were released, the
    model must explain nearly all, and one feature nearly all of the model's predictions.
    """
    evaluation = model.evaluation
    if not isinstance(encoder, TableEncoder) or evaluation is None or evaluation.rows is None:
        return ()
    count = len(evaluation.rows)
    if count < LEAST_RECORDS:
        return ()
    some = np.random.default_rng(0).permutation(count)[:MOST_RECORDS]
    first = np.arange(len(some)) % 2 == 0
    table = features[evaluation.rows[some]]
    if isinstance(evaluation, SummedErrors):
        if not _explains(evaluation):
            return ()
        predictions = evaluation.predictions[some]

        def margins(bins: NDArray[np.intp]) -> NDArray[np.float64]:
            errors = (predictions - _means(bins, predictions[:, None], first)[:, 0]) ** 2
            return (1 - NEARLY_ALL) * (predictions - predictions.mean()) ** 2 - errors
    else:
        released = replace(evaluation.release, value=evaluation.release.value[some])

        def margins(bins: NDArray[np.intp]) -> NDArray[np.float64]:
            return _margins(evaluation, released, bins, first)

    surely = NormalDist().inv_cdf(1 - RISK / len(encoder.names))
    warnings = []
    for name, categorical, values in zip(encoder.names, encoder.categorical, table.T, strict=True):
        margin = margins(_bins(values, categorical=bool(categorical)))
        if margin.mean() > surely * margin.std() / np.sqrt(len(margin)):
            warnings.append(
                f"{name!r} alone explains nearly all of the label: check that {name!r} is not a copy of it."
            )
    return tuple(warnings)


def _explains(evaluation: SummedErrors) -> bool:
    """Return whether a model explains nearly all of the labels that it was measured on, beyond the Laplace noise."""
    parts = (evaluation.errors, 1.0), (evaluation.constant_errors, 1 - NEARLY_ALL)
    error, limit = (weight * release.mechanism.mean(release.value) for release, weight in parts)
    noise = np.hypot(*(weight * release.mechanism.noise_stddev for release, weight in parts))
    return bool(limit - error > -np.log(2 * RISK) / np.sqrt(2) * noise)


def _margins(
    evaluation: Scores | DebiasedErrors, released: Any, bins: NDArray[np.intp], first: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return for each record by how much a feature's prediction gains more than it must, unbiased, shape (n,)."""
    unbiased = debias(released.mechanism, released.value).values
    nothing = np.zeros_like(bins)
    if isinstance(evaluation, DebiasedErrors):
        domain = released.mechanism.domain
        by_feature, constant = (
            released.mechanism.unbiased_squares(
                released.value, np.clip(_means(groups, unbiased[:, None], first)[:, 0], domain.low, domain.high)
            )
            for groups in (bins, nothing)
        )
        return np.asarray((1 - NEARLY_ALL) * constant - by_feature)
    rows = np.arange(len(bins))
    right, constant = (unbiased[rows, _means(groups, unbiased, first).argmax(axis=1)] for groups in (bins, nothing))
    return np.asarray(right - (1 - NEARLY_ALL) * constant - NEARLY_ALL)


def _means(bins: NDArray[np.intp], values: NDArray[np.float64], first: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return for each record the mean of values, shape (n, k), in its bin of the half that it is not in."""
    means = np.empty_like(values)
    for half in (first, ~first):
        sizes = np.bincount(bins[half], minlength=bins.max() + 1)
        columns = (np.bincount(bins[half], weights=column[half], minlength=len(sizes)) for column in values.T)
        sums = np.stack(list(columns), axis=1)
        by_bin = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], values[half].mean(axis=0))
        means[~half] = by_bin[bins[~half]]
    return means


def _bins(values: NDArray[np.float64], *, categorical: bool) -> NDArray[np.intp]:
    """Return the bin of each value: equal ones share it, and missing ones have their own, shape (n,)."""
    distinct, places = np.unique(values, return_inverse=True)
    if categorical or len(distinct) <= BINS:
        return places
    count = int(np.clip(len(values) // RECORDS_IN_BIN, 2, BINS))
    ranks = np.concatenate([[0], np.cumsum(np.bincount(places))[:-1]])
    bins = ranks * count // len(values)
    bins[np.isnan(distinct)] = count
    return np.asarray(bins[places])

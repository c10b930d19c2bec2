"""Features that explain the labels nearly alone, as a copy of them would: from the release."""

from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.learners import Evaluation, Model, NumberEvaluation, SummedErrors
from labeldp.mechanisms import debias
from labeldp.tables import TableEncoder

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

    Args:
        model: with its evaluation.
        features: public, shape (n, d).
        encoder: of the table; images have no such features.
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
    found = []
    for name, categorical, values in zip(encoder.names, encoder.categorical, table.T, strict=True):
        margin = margins(_bins(values, categorical=bool(categorical)))
        if margin.mean() > surely * margin.std() / np.sqrt(len(margin)):
            found.append(f"{name!r} alone explains nearly all of the label: check that {name!r} is not a copy of it.")
    return tuple(found)


def _explains(evaluation: SummedErrors) -> bool:
    """Return whether a model explains nearly all of the labels that it was measured on, beyond the Laplace noise."""
    parts = (evaluation.errors, 1.0), (evaluation.constant_errors, 1 - NEARLY_ALL)
    error, most = (weight * release.mechanism.mean(release.value) for release, weight in parts)
    noise = np.hypot(*(weight * release.mechanism.noise_stddev for release, weight in parts))
    return bool(most - error > -np.log(2 * RISK) / np.sqrt(2) * noise)


def _margins(
    evaluation: Evaluation | NumberEvaluation, released: Any, bins: NDArray[np.intp], first: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return for each record by how much a feature's prediction gains more than it must, unbiased, shape (n,)."""
    unbiased = debias(released.mechanism, released.value).values
    nothing = np.zeros_like(bins)
    if isinstance(evaluation, NumberEvaluation):
        domain = released.mechanism.domain
        by_feature, constant = (
            released.mechanism.unbiased_squares(
                released.value, np.clip(_means(each, unbiased[:, None], first)[:, 0], domain.low, domain.high)
            )
            for each in (bins, nothing)
        )
        return np.asarray((1 - NEARLY_ALL) * constant - by_feature)
    rows = np.arange(len(bins))
    right, constant = (unbiased[rows, _means(each, unbiased, first).argmax(axis=1)] for each in (bins, nothing))
    return np.asarray(right - (1 - NEARLY_ALL) * constant - NEARLY_ALL)


def _means(bins: NDArray[np.intp], values: NDArray[np.float64], first: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return for each record the mean of values, shape (n, k), in its bin of the half that it is not in."""
    means = np.empty_like(values)
    for half in (first, ~first):
        sizes = np.bincount(bins[half], minlength=bins.max() + 1)
        columns = (np.bincount(bins[half], weights=column[half], minlength=len(sizes)) for column in values.T)
        sums = np.stack(list(columns), axis=1)
        own = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], values[half].mean(axis=0))
        means[~half] = own[bins[~half]]
    return means


def _bins(values: NDArray[np.float64], *, categorical: bool) -> NDArray[np.intp]:
    """Return the bin of each value: equal ones share it, and missing ones have their own, shape (n,)."""
    distinct, places = np.unique(values, return_inverse=True)
    if categorical or len(distinct) <= BINS:
        return places
    most = int(np.clip(len(values) // RECORDS_IN_BIN, 2, BINS))
    ranks = np.concatenate([[0], np.cumsum(np.bincount(places))[:-1]])
    bins = ranks * most // len(values)
    bins[np.isnan(distinct)] = most
    return np.asarray(bins[places])

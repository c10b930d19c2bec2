"""The answers of a model of one or two features, where a page has room for them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.learners import Model, NumberEvaluation
from labeldp.mechanisms import Interval, debias
from labeldp.tables import TableEncoder
from labeldp.workflows.summarize_numbers import binned
from labeldp.workflows.summary_numbers import Across, Bin, Picture

PLACES = {1: 121, 2: 41}
"""Places along each feature, for one feature and for two."""

TAILS = 0.005
"""The share of the records beyond each end of a picture: a single far one would squeeze all the others."""

MANY = 30
"""Categories that a picture has room for."""


def pictured(model: Model, encoder: Any, features: NDArray[Any]) -> Picture | None:
    """What a model answers along its one feature or over its two; None for images, more features or many categories.

    Args:
        model: with its evaluation.
        encoder: of the table.
        features: public, shape (n, d).
    """
    if not isinstance(encoder, TableEncoder) or len(encoder.columns) not in PLACES:
        return None
    axes = tuple(_across(*pair, PLACES[len(encoder.columns)]) for pair in zip(encoder.columns, features.T, strict=True))
    if not all(len(axis.places) > 1 and len(axis.names) <= MANY for axis in axes):
        return None
    table = np.stack(np.meshgrid(*(axis.places for axis in axes), indexing="ij"), axis=-1).reshape(-1, len(axes))
    numbers = isinstance(model.domain, Interval)
    answers = model.predict(table)[None, :] if numbers else model.predict_proba(table).T
    seen = _seen(model, features[:, 0]) if len(axes) == 1 else ()
    return Picture(axes, tuple(tuple(float(value) for value in row) for row in answers), seen)


def _across(column: Any, values: NDArray[np.float64], count: int) -> Across:
    """Where a feature is looked at: between its tails, or at each of its categories."""
    known = values[np.isfinite(values)]
    if column.kind == "category":
        names = (*column.categories, *(("the rest",) if column.rest else ()))
        return Across(column.name, column.kind, tuple(map(float, range(len(names)))), names)
    low, high = np.quantile(known, [TAILS, 1 - TAILS])
    low, high = (low, high) if low < high else (known.min(), known.max())
    count = 2 if column.kind == "boolean" else count
    return Across(column.name, column.kind, tuple(np.linspace(low, high, count).tolist()))


def _seen(model: Model, feature: NDArray[np.float64]) -> tuple[Bin, ...]:
    """What released labels say along a feature; nothing where a chart has no place for it."""
    evaluation = model.evaluation
    assert evaluation is not None and evaluation.rows is not None
    labels = debias(evaluation.release.mechanism, evaluation.release.value).values
    if isinstance(evaluation, NumberEvaluation):
        return binned(feature[evaluation.rows], labels)
    return binned(feature[evaluation.rows], labels[:, 1]) if model.domain.size == 2 else ()

"""The part of a summary that is about predicted numbers: computed from releases, features and public files."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.learners import Estimate, Model, NumberEvaluation
from labeldp.mechanisms import Interval
from labeldp.workflows.estimated import Estimated
from labeldp.workflows.summary_numbers import Bin, Numbers, NumberTest

BINS = 20
"""Stretches of equally many records: each mean is over so many that the noise is legible."""

LEAST = 25
"""Records in a stretch, at least."""

TWO_SIDED = 1.96

UNSURE = 0.5
"""An error whose interval is wider than this share of the range is called too wide to tell."""


def numbers_of(model: Model, public: Any) -> Numbers:
    """Everything about predicted numbers that a report says.

    Args:
        model: with its evaluation.
        public: `PublicRows` of a test file whose labels are public, or None.
    """
    seen, domain = model.evaluation, model.domain
    assert isinstance(seen, NumberEvaluation) and isinstance(domain, Interval)
    many = f"debiased from {len(seen.release.value):,} released labels; what was evaluated: {seen.of}"
    explained = seen.explained()
    known = bool(np.isfinite([explained.value, explained.low]).all())
    other = "debiased; the mean is learnt from one half of the released labels and measured on the other"
    return Numbers(
        start=float(domain.low),
        end=float(domain.high),
        grid=domain.grid,
        clip=domain.clip,
        error=_inside(seen.error(), many),
        constant=_inside(seen.constant_error(), other),
        gain=_inside(seen.gain(), "debiased, record by record, so that most of the noise cancels out"),
        explained=_inside(explained, "the same as a share of that constant's squared error") if known else None,
        residuals=binned(seen.predictions, seen.residuals()),
        test=None if public is None else _tested(model, public.file, public.features, public.labels),
    )


def number_warnings(numbers: Numbers) -> tuple[str, ...]:
    """What a reader must know before believing a number."""
    found = []
    if numbers.error.high - numbers.error.low > UNSURE * numbers.constant.high:
        found.append(
            "The interval of the error is wide next to what always answering the mean would miss: more records, a "
            "larger epsilon, or public test labels would narrow it."
        )
    if numbers.gain.low <= 0:
        found.append("The released labels do not show that the model is better than always answering the mean.")
    return tuple(found)


def binned(along: NDArray[np.float64], values: NDArray[np.float64]) -> tuple[Bin, ...]:
    """Means of debiased values in stretches of equally many records along a quantity, with normal intervals.

    Args:
        along: what records are put in order by, shape (n,); those without a finite value are left out.
        values: unbiased numbers, shape (n,).
    """
    known = np.flatnonzero(np.isfinite(along))
    order = known[np.argsort(along[known], kind="stable")]
    ordered = along[order]
    count = max(min(BINS, len(order) // LEAST), 1)
    # Equal quantities stay together, so that a stretch does not depend on how records lie in the file.
    edges = np.unique(np.searchsorted(ordered, ordered[np.arange(1, count) * len(order) // count]))
    return tuple(_bin(along[rows], values[rows]) for rows in np.split(order, edges) if len(rows) > 1)


def _bin(along: NDArray[np.float64], values: NDArray[np.float64]) -> Bin:
    value = float(values.mean())
    half = TWO_SIDED * float(values.std(ddof=1)) / len(values) ** 0.5
    start, middle, end = float(along.min()), float(along.mean()), float(along.max())
    return Bin(start, end, len(values), middle, value, value - half, value + half)


def _inside(estimate: Estimate, method: str) -> Estimated:
    """An estimate as it is shown, moved into its interval where a limit of what is possible cut that."""
    value = float(np.clip(estimate.value, estimate.low, estimate.high))
    return Estimated(value, float(estimate.low), float(estimate.high), float(estimate.level), method)


def _tested(model: Model, file: str, features: NDArray[Any], labels: NDArray[np.float64]) -> NumberTest:
    """Plain errors on public labels."""
    away = labels - model.predict(features)
    spread = float(labels.var())
    explained = 1 - float(np.mean(away**2)) / spread if spread > 0 else None
    return NumberTest(file, len(labels), float(np.sqrt(np.mean(away**2))), float(np.mean(np.abs(away))), explained)

"""Small operations on class probabilities, shape (n, K), rows sum to 1."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Probabilities = NDArray[np.float64]

FLOOR = 1e-3
"""The least probability that a corrected model gives to a class: no learner from noisy labels may exclude one."""

TEMPERATURES = np.geomspace(0.25, 2.0, 13)
"""Tried where probabilities are calibrated: below 1 sharpens."""


def normalized(values: Any, floor: float = 0.0) -> Probabilities:
    """Rows raised to at least `floor` and scaled to sum to 1; a row without mass becomes uniform."""
    raised = np.maximum(np.asarray(values, dtype=np.float64), floor)
    totals = raised.sum(axis=1, keepdims=True)
    return np.where(totals > 0, raised / np.where(totals > 0, totals, 1.0), 1.0 / raised.shape[1])


def tempered(probabilities: Any, temperature: float) -> Probabilities:
    """Probabilities to the power of 1 / temperature: below 1 it sharpens, above 1 it flattens.

    Source: Ghazi et al., Deep Learning with Label Differential Privacy, section 4 (LP-MST).
    """
    logs = np.log(normalized(probabilities, np.finfo(np.float64).tiny)) / temperature
    return normalized(np.exp(logs - logs.max(axis=1, keepdims=True)))


def unmixed(noisy: Any, matrix: NDArray[np.float64]) -> Probabilities:
    """Probabilities of the true label from those of the noisy one: the noise `matrix` (K, K) undone, then clipped."""
    return normalized(np.linalg.solve(matrix.T, np.asarray(noisy, dtype=np.float64).T).T, FLOOR)


def expanded(estimator: Any, features: Any, classes: int) -> Probabilities:
    """A fitted classifier's probabilities for all K codes: 0 for classes that it never met."""
    given = np.asarray(estimator.predict_proba(features), dtype=np.float64)
    result = np.zeros((len(given), classes))
    result[:, np.asarray(estimator.classes_, dtype=np.intp)] = given
    return normalized(result)


def projected(shares: Any) -> Probabilities:
    """The nearest probabilities to class shares that may be negative or too large: for each row the closest point.

    All entries of a row are moved by the same amount, and negative ones set to 0, so the largest stays the largest.

    Source: Duchi, Shalev-Shwartz, Singer and Chandra (2008), the projection onto the simplex by sorting.
    """
    rows = np.asarray(shares, dtype=np.float64)
    falling = -np.sort(-rows, axis=1)
    excess = (np.cumsum(falling, axis=1) - 1) / np.arange(1, rows.shape[1] + 1)
    kept = np.count_nonzero(falling > excess, axis=1)
    return np.maximum(rows - excess[np.arange(len(rows)), kept - 1][:, None], 0.0)

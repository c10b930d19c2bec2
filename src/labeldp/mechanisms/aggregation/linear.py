"""Linear sums with published coefficients and Gaussian noise: the Gaussian loss of each record."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.aggregation.checks import label_width
from labeldp.privacy import InputError, shortest_float

_NULL, _CLEAR = 2.0**-46, 2.0**-30
"""Eigenvalues of correlations, as a share of the largest: those below the first, for each sum, are zero up to rounding;
between the two nobody can tell."""


def linear_release_gdp(coefficients: Any, noise: Any, label_range: Any) -> NDArray[np.float64]:
    """The mu of every record's Gaussian loss where `coefficients @ labels` is released with Gaussian noise.

    The largest of them is what the release costs, given coefficients that depend on no label: they may have been drawn
    again and again until this was small.

    Args:
        coefficients: shape (sums, records), an array or a scipy sparse matrix; published.
        noise: variances of independent noise on the sums, shape (sums,), or a covariance, shape (sums, sums), of
            sums that share noise.
        label_range: the lowest and the highest label.

    Returns:
        shape (records,); infinite for a record that some combination of the sums shows without noise.

    Guarantee: no mu is below the exact one; sums whose noise is dependent up to rounding count as dependent.

    Raises:
        InputError: shapes that do not fit, or a noise that is no covariance.

    Source: Dong, Theorem 2.7; Balle, Theorem 8. Proof: `docs/proofs/aggregation.md`.

    Examples:
        >>> linear_release_gdp([[1, -1, 0], [0, 0, 1]], [4, 0], (-1, 1)).round(3)
        array([ 1.,  1., inf])
    """
    width = shortest_float(label_width(label_range))
    matrix, spread = _checked(coefficients, noise)
    squares = _independent(matrix, spread) if spread.ndim == 1 else _shared(matrix, spread)
    return np.asarray(width * np.sqrt(squares) * (1 + 2.0**-48 * (matrix.shape[0] + 4)))


def _checked(coefficients: Any, noise: Any) -> tuple[Any, NDArray[np.float64]]:
    """Coefficients and noise of shapes that fit."""
    matrix = coefficients.tocsr() if hasattr(coefficients, "tocsr") else np.asarray(coefficients, dtype=np.float64)
    spread = np.asarray(noise, dtype=np.float64)
    if matrix.ndim != 2 or spread.shape not in ((matrix.shape[0],), (matrix.shape[0],) * 2):
        raise InputError("noise must hold one variance for each row of coefficients, or their covariance")
    values = matrix.data if hasattr(matrix, "tocsr") else matrix
    if not (np.isfinite(values).all() and np.isfinite(spread).all()):
        raise InputError("coefficients and noise must be finite numbers")
    if (spread.ndim == 1 and (spread < 0).any()) or (spread.ndim == 2 and not np.array_equal(spread, spread.T)):
        raise InputError("noise must hold variances of at least zero, or a symmetric covariance")
    return matrix, spread


def _independent(matrix: Any, variances: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum of squares of each column, each over its variance."""
    squares = matrix.multiply(matrix) if hasattr(matrix, "tocsr") else matrix**2
    noisy = variances > 0
    total = np.asarray(squares.T @ np.where(noisy, 1 / np.where(noisy, variances, 1.0), 0.0), dtype=np.float64)
    bare = np.asarray(squares.T @ (~noisy).astype(np.float64)) > 0
    return np.where(bare, np.inf, total)


def _shared(matrix: Any, covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """The quadratic form of each column in the pseudo-inverse of a covariance, from eigenvectors of its correlations.

    Raises:
        InputError: no covariance, or one of sums that are nearly, but not exactly, dependent.
    """
    stddevs = np.sqrt(np.maximum(np.diag(covariance), 0))
    scale = np.where(stddevs > 0, stddevs, 1.0)
    values, vectors = np.linalg.eigh(covariance / scale / scale[:, None])
    largest, none = float(values.max(initial=0.0)), len(values) * _NULL
    kept = values > none * largest
    if (values < -none * (largest or 1.0)).any() or (covariance[stddevs == 0] != 0).any():
        raise InputError("noise must be a covariance: it has a negative eigenvalue")
    smallest = float(values[kept].min(initial=largest or 1.0))
    if smallest < _CLEAR * largest:
        raise InputError("noise must be clearly dependent or clearly not: a combination of the sums has next to none")
    dense = matrix.toarray() if hasattr(matrix, "tocsr") else matrix
    turned = vectors.T @ (dense / scale[:, None])
    error = len(values) * 2.0**-50 * largest / smallest
    bare = (turned[~kept] ** 2).sum(axis=0) > (4 * error) ** 2 * (turned**2).sum(axis=0)
    total = (turned[kept] ** 2 / values[kept, None]).sum(axis=0) / max(1 - error, 0.5)
    return np.where(bare, np.inf, total)

"""Hat matrices of bags: how much one record's features can weigh."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.aggregation.lba import cross_bound
from labeldp.mechanisms.groups import Groups
from labeldp.privacy import InputError, Public, Release

Floats = NDArray[np.float64]

WHOLE = 2048
"""Hat matrices of larger bags are not formed: a bound stands for the sums of their rows."""

LARGEST = 1e100
"""No feature is larger."""

_NULL = 2.0**-46
"""Columns have unit length; a direction in which they are shorter than this is left out, and counts as lost."""

_ASKEW = 2.0**-36
"""So far from the identity, in norm, the products of basis vectors may be; the margins of leverages cover it."""

_UP = 1 + 2.0**-30


@dataclass(frozen=True)
class Leverages:
    """The largest of all bags, rounded up.

    Args:
        largest: diagonal entry of a hat matrix.
        cross: sum of the other entries of a row, in absolute values.
        full: whether the features of some bag span all its records, so that no residual is left.
        lost: how far a column may lie outside of the span whose hat matrix it is, as a share of its length.
    """

    largest: float
    cross: float
    full: bool
    lost: float

    @classmethod
    def of(cls, table: Floats, partition: Groups) -> "Leverages":
        """From the rows (n, d) of all bags."""
        order = np.argsort(partition.of_record, kind="stable")
        sizes = np.bincount(partition.of_record, minlength=partition.count)
        largest, cross, full, lost = 0.0, 0.0, False, 0.0
        for rows in np.split(order, np.cumsum(sizes)[:-1]):
            basis, outside = span(table[rows])
            shares = (basis**2).sum(axis=1)
            own = min(1.0, float(shares.max(initial=0.0)) * _UP + 2.0**-40)
            largest, full = max(largest, own), full or basis.shape[1] >= len(rows)
            cross, lost = max(cross, _row_sum(basis, shares, own)), max(lost, outside)
        return cls(largest, cross, full, lost)


def _row_sum(basis: Floats, shares: Floats, largest: float) -> float:
    """The largest sum of the other entries of a row."""
    size = len(basis)
    if size > WHOLE:
        # h (1 - h) is largest at 1/2.
        return cross_bound(size, min(largest, 0.5))
    return float((np.abs(basis @ basis.T).sum(axis=1) - shares).max(initial=0.0)) * _UP + 2.0**-30


def span(rows: Floats) -> tuple[Floats, float]:
    """An orthonormal basis of the columns of a matrix (k, d), whatever their units are, and how much it misses.

    Returns:
        The basis, shape (k, rank), and twice the largest share of a column's length that lies outside of it.
    """
    lengths = np.sqrt((rows**2).sum(axis=0))
    columns = rows / np.where(lengths > 0, lengths, 1.0)
    left, sizes, right = np.linalg.svd(columns, full_matrices=False)
    kept = sizes > _NULL
    # Combinations of the columns themselves lie in their span to the last bit, unless they nearly cancel.
    basis: Floats = (columns.astype(np.longdouble) @ (right[kept].T / sizes[kept])).astype(np.float64)
    if np.abs(basis.T @ basis - np.eye(basis.shape[1])).max(initial=0.0) * len(basis.T) > _ASKEW:
        basis = left[:, kept]
    return basis, 2 * math.sqrt((_outside(columns, basis) ** 2).sum(axis=0).max())


def _outside(columns: Floats, basis: Floats) -> Floats:
    """What is left of the columns (k, d) after the nearest combinations of a basis (k, rank).

    The first difference is of nearly equal numbers, so it is taken in extended precision.
    """
    inside = (basis.T @ columns).astype(np.longdouble)
    rest: Floats = (columns.astype(np.longdouble) - basis.astype(np.longdouble) @ inside).astype(np.float64)
    return rest - basis @ (basis.T @ rest)


def finite_rows(features: Any, records: int) -> Floats:
    """A finite public row for each record, not to be written to.

    Raises:
        InputError: anything else.
    """
    if not isinstance(features, Public | Release):
        raise InputError('features must be Public(array, why="…") or a Release: they may not depend on private labels')
    try:
        if np.asarray(features.value).dtype.kind == "c":
            raise TypeError("complex numbers would lose their imaginary part")
        table = np.array(features.value, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise InputError("features must be real numbers: map tables to numbers first") from None
    if table.ndim != 2 or not table.shape[1] or len(table) != records or not np.isfinite(table).all():
        raise InputError("features must be a finite array, shape (n, d), one row for each record: fill gaps first")
    if np.abs(table).max(initial=0.0) > LARGEST:
        raise InputError(f"features must be at most {LARGEST:g}: their squares are summed")
    table.flags.writeable = False
    return table

"""The cells of a partition that hold records, and what becomes of records in the others."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from labeldp.learners.features import column_medians, number_table, rows_of, take_rows
from labeldp.learners.partitions import Floats, Keys

DENSE_CELLS = 1 << 20
"""So many possible cells, or four for each record, are counted in an array; beyond, keys are sorted."""

SCALE_ROWS = 1 << 16
"""Features are scaled by the spread of so many records."""


@dataclass(frozen=True)
class Occupied:
    """The non-empty cells of one partition, in the order of their keys: nothing is kept of the others.

    A record whose own cell is empty is answered by the non-empty cell with the nearest center, where features are
    scaled to unit spread and a gap counts as the median.

    Args:
        keys: of the cells, rising, shape (cells,).
        sizes: records in each, shape (cells,).
        centers: of the cells, scaled, shape (cells, d).
    """

    keys: Keys = field(repr=False)
    sizes: NDArray[np.int64] = field(repr=False)
    centers: Floats = field(repr=False)

    @classmethod
    def of(cls, partition: Any, keys: Keys, scale: "Scale") -> tuple[Self, Keys]:
        """The cells of records with these keys, and the number of each record's own, shape (n,)."""
        found, sizes, cells = numbered(keys, partition.size_)
        return cls(found, sizes, scale.apply(partition.centers(found))), cells

    def locate(self, keys: Keys, features: Any, scale: "Scale") -> Keys:
        """The number of the cell that answers for each of other records, shape (n,)."""
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        missed = np.flatnonzero(self.keys[places] != keys)
        if missed.size:
            rows = scale.apply(number_table(take_rows(features, missed)))
            places[missed] = cKDTree(self.centers).query(rows)[1]
        return places.astype(np.int64)


@dataclass(frozen=True)
class Scale:
    """Medians and spreads of features, shape (d,): public."""

    median: Floats = field(repr=False)
    spread: Floats = field(repr=False)

    @classmethod
    def of(cls, features: Any) -> Self:
        """Those of a regular sample of records."""
        step = -(-rows_of(features) // SCALE_ROWS)
        sample = number_table(take_rows(features, np.arange(0, rows_of(features), step))).astype(np.float64)
        median = column_medians(sample)
        spread = np.where(np.isnan(sample), median, sample).std(axis=0)
        return cls(median, np.where(spread > 0, spread, 1.0))

    def apply(self, table: Floats) -> Floats:
        """Features scaled, gaps at the median, shape (n, d)."""
        return np.nan_to_num((table - self.median) / self.spread)


def numbered(keys: Keys, size: int) -> tuple[Keys, NDArray[np.int64], Keys]:
    """The distinct keys, how often each occurs, and the number of each record's among them.

    Args:
        keys: from 0 to size - 1, shape (n,).
        size: how many keys there could be.
    """
    if size > max(DENSE_CELLS, 4 * len(keys)):
        found, cells, sizes = np.unique(keys, return_inverse=True, return_counts=True)
        return found, sizes, cells
    counts = np.bincount(keys, minlength=size)
    found = np.flatnonzero(counts)
    if len(found) == size:
        return found, counts, keys
    places = np.cumsum(counts > 0) - 1
    return found, counts[found], places[keys]


def columns(keys: Keys) -> list[Keys]:
    """The keys in each tree: one column, but for a forest."""
    return [keys] if keys.ndim == 1 else list(keys.T)

"""Cells of equal count: a k-d tree on public features."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from labeldp.learners.features import BLOCK_ROWS, column_medians, number_table, positive_integer
from labeldp.learners.partitions import Floats, Keys

SAMPLED_ROWS = 1 << 20
"""Median cells of more records than this are cut at the medians of a regular sample of so many."""


class MedianPartition(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Cells of equal count: a k-d tree that halves each cell at the median of the feature that spreads widest in it.

    What works beyond a handful of features: no cell is empty, and constant features are never cut. Spread is measured
    in quantiles, so units do not matter, and NaN counts as the median of its column.

    Args:
        cells: so many where values do not repeat, else at most; one that is to hold an odd number of them is not cut in
            half, so that all have equal counts.

    Examples:
        >>> MedianPartition(4).fit([[1.0], [2.0], [3.0], [4.0]]).transform([[0.0], [2.2], [9.0]])
        array([0, 1, 3])
    """

    def __init__(self, cells: int) -> None:
        self.cells = cells

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cut at medians; labels are not looked at.

        Raises:
            InputError: infinite features, or `cells` is no number of cells from 1 to the number of records.
        """
        table = number_table(X, self, fit=True)
        cells = positive_integer(self.cells, "cells", most=len(table), of="the number of records")
        sample = table[:: -(-len(table) // SAMPLED_ROWS)]
        self.median_ = column_medians(sample)
        filled = np.where(np.isnan(sample), self.median_, sample)
        tree = _Cuts.of(filled, cells)
        self.features_, self.thresholds_, self.children_ = tree.arrays()
        leaves = tree.leaves
        self.middles_ = np.array([filled[rows].mean(axis=0) for rows in leaves])
        self.size_ = len(leaves)
        return self

    def transform(self, X: Any) -> Keys:
        """The cell of each record, shape (n,)."""
        check_is_fitted(self, "children_")
        table = number_table(X, self)
        keys = np.empty(len(table), dtype=np.int64)
        for start in range(0, len(table), BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            block = np.where(np.isnan(table[rows]), self.median_, table[rows])
            keys[rows] = self._descend(block)
        return keys

    def _descend(self, block: Floats) -> Keys:
        """Leaves of records without gaps: at each node the smaller values go to the first child."""
        nodes = np.zeros(len(block), dtype=np.int64)
        active = np.arange(len(block))
        while True:
            active = active[self.features_[nodes[active]] >= 0]
            if not active.size:
                return -1 - self.children_[nodes, 0]
            at = nodes[active]
            right = block[active, self.features_[at]] > self.thresholds_[at]
            nodes[active] = self.children_[at, right.astype(np.intp)]

    def centers(self, keys: Keys) -> Floats:
        """Mean features of the records of cells, shape (len(keys), d)."""
        return self.middles_[keys]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        tags.input_tags.allow_nan = True
        return tags


@dataclass
class _Cuts:
    """A k-d tree as it grows: for each node the feature and the place of its cut, and its two children.

    A leaf has the feature -1, and -1 - its number for a child.
    """

    nodes: list[tuple[int, float, int, int]] = field(default_factory=list)
    leaves: list[NDArray[np.intp]] = field(default_factory=list)

    @classmethod
    def of(cls, table: Floats, cells: int) -> "_Cuts":
        """Cut the rows of a table into at most `cells` leaves."""
        tree = cls()
        tree.grow(table, _places(table), np.arange(len(table)), cells)
        return tree

    def grow(self, table: Floats, places: Floats, rows: NDArray[np.intp], cells: int) -> int:
        """Add the subtree of some rows, and return the number of its root."""
        node = len(self.nodes)
        self.nodes.append((-1, 0.0, -1 - len(self.leaves), 0))
        more = cells // 2
        cut = _cut(table, places, rows, 1 - more / cells) if cells > 1 and len(rows) > 1 else None
        if cut is None:
            self.leaves.append(rows)
            return node
        feature, threshold = cut
        right = table[rows, feature] > threshold
        children = [
            self.grow(table, places, rows[~right], cells - more),
            self.grow(table, places, rows[right], more),
        ]
        self.nodes[node] = (feature, float(threshold), children[0], children[1])
        return node

    def arrays(self) -> tuple[Keys, NDArray[np.float64], Keys]:
        """Features and thresholds of the nodes, shape (nodes,), and children, shape (nodes, 2)."""
        features, thresholds, first, second = zip(*self.nodes, strict=True)
        return np.array(features), np.array(thresholds), np.column_stack([first, second]).astype(np.int64)


def _cut(table: Floats, places: Floats, rows: NDArray[np.intp], share: float) -> tuple[int, np.float64] | None:
    """The widest feature, and the gap between two of its values that leaves nearest to a share of the rows below.

    None where all rows are alike.
    """
    spread = places[rows].std(axis=0)
    for feature in np.argsort(-spread):
        if spread[feature] <= 0:
            return None
        values = np.sort(table[rows, feature])
        gaps = np.flatnonzero(values[1:] > values[:-1])
        if gaps.size:
            at = gaps[np.abs(gaps + 1 - share * len(values)).argmin()]
            middle = values[at] + (values[at + 1] - values[at]) / 2
            return int(feature), np.float64(min(middle, np.nextafter(values[at + 1], values[at])))
    return None


def _places(table: Floats) -> Floats:
    """Each value as the share of values of its column below it, ties in the middle, shape (n, d)."""
    places = np.empty(table.shape, dtype=np.float32)
    for j, column in enumerate(table.T):
        ordered = np.sort(column)
        sides = (np.searchsorted(ordered, column, side) for side in ("left", "right"))
        places[:, j] = sum(sides) / (2 * len(column))
    return places

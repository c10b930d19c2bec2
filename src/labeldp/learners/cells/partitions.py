"""Partition, CubePartition, MedianPartition."""

from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from labeldp.learners.features import BLOCK_ROWS, column_medians, number_table, positive_integer
from labeldp.mechanisms import CubeGrid
from labeldp.privacy import AnyFloats, InputError, smallest

Keys = NDArray[np.int64]


OUTSIDE = -1
"""The key of a record that no cell of the fitted records can hold."""

SIDE_BY_SIDE = 64

SINGLE = 1 << 24
"""Integers below are exact in single precision."""

KEY_BITS = 62
"""Keys are 64-bit integers."""


class Partition(Protocol):
    """A rule that gives every record a cell, learned from features alone.

    A cell is a key from 0 to `size_` - 1; most keys may be of empty cells. A forest gives each record one cell in each
    of its trees: a column of keys each. Where `source` is a `Release`, cells rest on it, and its charges belong to
    every model of them.
    """

    size_: int

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the rule from features, shape (n, d); labels are not looked at."""

    def transform(self, X: Any) -> Keys:
        """The key of each record, shape (n,), or (n, trees); -1 outside of all cells."""

    def centers(self, keys: Keys) -> AnyFloats:
        """A point in the middle of cells, shape (len(keys), d), for records whose own cell is empty."""


class CubePartition(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Cubes of one side length, as in the paper: what its rates hold for, and no more than a few features bear.

    Use it where features are few, have one scale, and full DP or a rate matters; else `MedianPartition`.

    Args:
        side: of a cube, in units of the features; or one side for each feature, shape (d,).
        bounds: (low, high) for all features or for each, shape (d, 2). The cubes begin there, and records of the fit
            outside are refused. Without, cubes begin at the least value of each feature.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, section IV.

    Examples:
        >>> CubePartition(0.5, bounds=(0, 1)).fit([[0.1, 0.2], [0.7, 0.9]]).transform([[0.1, 0.6], [0.9, 0.9]])
        array([1, 3])
    """

    def __init__(self, side: Any, bounds: Any = None) -> None:
        self.side = side
        self.bounds = bounds

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the cubes that records can lie in; labels are not looked at.

        Raises:
            InputError: records are not finite or lie outside of the bounds, or there are 2**62 cubes or more.
        """
        table = number_table(X, self, fit=True)
        if self.bounds is None:
            low, high = _extent(table)
            # A constant feature has one cube.
            box = np.column_stack([low, np.maximum(high, low + _sides(self.side, table.shape[1]) / 2)])
        else:
            box = _box(self.bounds, table.shape[1])
            if not _within(table, box):
                raise InputError("bounds must hold all features: take wider ones, or clip the features to them")
        grid = _grid(self.side, box)
        self.low_, self.high_, self.shape_ = np.array(grid.low), np.array(grid.high), np.array(grid.shape)
        self.size_ = grid.cells
        return self

    def transform(self, X: Any) -> Keys:
        """The key of the cube of each record, shape (n,): its place in the grid, the last feature fastest.

        A record beyond the outermost cubes has the key -1.
        """
        check_is_fitted(self, "shape_")
        table = number_table(X, self)
        keys = np.empty(len(table), dtype=np.int64)
        # Space that every block uses again: fresh pages cost more than the arithmetic.
        exact = self.size_ < SINGLE and table.dtype == np.float32
        kind = np.float32 if exact else np.float64
        space = np.empty((2, min(len(table), BLOCK_ROWS) * table.shape[1]), dtype=kind)
        for start in range(0, len(table), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            self._find(table[block], keys[block], space)
        return keys

    def _find(self, rows: AnyFloats, keys: Keys, space: AnyFloats) -> None:
        """The keys of a block of rows: what `CubeGrid.index` computes, several rows at a time.

        In single precision, where features are given so, a record on the face of a cube may count as its neighbor's.
        """
        wide = _wide(rows)
        places, beyond = (part[: rows.size].reshape(wide.shape) for part in space)
        parts = (self.low_, self.shape_ / (self.high_ - self.low_), self.shape_ - 1.0)
        low, scale, top = (_repeated(part.astype(space.dtype), wide) for part in parts)
        np.subtract(wide, low, out=places)
        np.multiply(places, scale, out=places)
        np.floor(places, out=places)
        np.subtract(places, top, out=beyond)
        # One comparison for all features; a missing number fails it, too.
        within = bool(places.min() >= 0 and beyond.max() <= 0)
        inside = None if within else self._inside(rows)
        if not within:
            np.clip(places, 0, top, out=places)
        strides = np.append(np.cumprod(self.shape_[:0:-1])[::-1], 1)
        # Sums of integers below 2**53 are exact in doubles, and fast.
        exact, found = self.size_ < 1 << 53, places.reshape(rows.shape)
        keys[:] = found @ strides.astype(space.dtype) if exact else found.astype(np.int64) @ strides
        if inside is not None:
            keys[~inside] = OUTSIDE

    def _inside(self, rows: AnyFloats) -> NDArray[np.bool_]:
        """Which rows lie within the outermost cubes, their upper faces included.

        Raises:
            InputError: a number is missing.
        """
        _extent(rows)
        return np.asarray(np.all((rows >= self.low_) & (rows <= self.high_), axis=1))

    def centers(self, keys: Keys) -> AnyFloats:
        """The middles of cubes, shape (len(keys), d)."""
        return self._fitted().centers(keys)

    def grid(self, dimension: int) -> CubeGrid:
        """The cubes over the bounds, fixed without a look at the data: for mechanisms that protect features, too.

        Raises:
            InputError: no bounds were given: where records lie is private there.
        """
        if self.bounds is None:
            raise InputError("bounds must be given where features are private: cubes may not follow them")
        return _grid(self.side, _box(self.bounds, positive_integer(dimension, "dimension")))

    def _fitted(self) -> CubeGrid:
        return CubeGrid(tuple(self.low_.tolist()), tuple(self.high_.tolist()), tuple(self.shape_.tolist()))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags


def _within(table: AnyFloats, box: AnyFloats) -> bool:
    """Whether all features lie in their bounds; the extremes of the whole table, which are quick to find, often tell.

    Raises:
        InputError: a number is missing.
    """
    if table.min() >= box[:, 0].max() and table.max() <= box[:, 1].min():
        return True
    low, high = _extent(table)
    return bool(np.all(low >= box[:, 0]) and np.all(high <= box[:, 1]))


def _extent(table: AnyFloats) -> tuple[AnyFloats, AnyFloats]:
    """Least and largest value of each feature.

    Raises:
        InputError: a number is missing.
    """
    ends = []
    for start in range(0, len(table), BLOCK_ROWS):
        wide = _wide(table[start : start + BLOCK_ROWS])
        ends.append([part.reshape(-1, table.shape[1]) for part in (wide.min(axis=0), wide.max(axis=0))])
    low, high = (np.vstack(part).astype(np.float64) for part in zip(*ends, strict=True))
    if np.isnan(low).any():
        raise InputError(
            "features must be finite, without NaN: fill in the gaps first, or take MedianPartition, which allows them"
        )
    return low.min(axis=0), high.max(axis=0)


def _wide(rows: AnyFloats) -> AnyFloats:
    """Rows side by side where they fit: numpy is slow along short axes."""
    count, width = rows.shape
    return np.ascontiguousarray(rows).reshape(-1, SIDE_BY_SIDE * width) if count % SIDE_BY_SIDE == 0 else rows


def _repeated(values: AnyFloats, wide: AnyFloats) -> AnyFloats:
    """One value for each feature, as often as rows stand side by side."""
    return np.tile(values, wide.shape[1] // len(values))


def _sides(side: Any, dimension: int) -> AnyFloats:
    """One side for each feature.

    Raises:
        InputError: a side is not positive and finite, or there are not as many as features.
    """
    try:
        sides = np.broadcast_to(np.asarray(side, dtype=np.float64), (dimension,))
    except (TypeError, ValueError):
        sides = np.zeros(1)
    if not np.all((sides > 0) & np.isfinite(sides)):
        raise InputError("side must be a positive length, or one for each feature")
    return sides


def _box(bounds: Any, dimension: int) -> AnyFloats:
    """Lower and upper bound of each feature, shape (d, 2)."""
    try:
        box = np.broadcast_to(np.asarray(bounds, dtype=np.float64), (dimension, 2))
    except (TypeError, ValueError):
        box = np.full((1, 2), np.nan)
    if not np.all(np.isfinite(box)) or not np.all(box[:, 0] < box[:, 1]):
        raise InputError("bounds must be (low, high) with low < high, for all features or for each, shape (d, 2)")
    return box


def _grid(side: Any, box: AnyFloats) -> CubeGrid:
    """Cubes that cover a box, where they can be numbered.

    Raises:
        InputError: there are too many; the message says how long a side, or how few features, would do.
    """
    sides = _sides(side, len(box))
    counts = np.maximum((box[:, 1] - box[:, 0]) / sides, 1.0)
    bits = np.cumsum(np.log2(np.ceil(counts)))
    if bits[-1] < KEY_BITS:
        return CubeGrid.of_side(sides, box)
    times = smallest(
        lambda times: np.log2(np.ceil(np.maximum(counts / times, 1.0))).sum() < KEY_BITS, 1.0, counts.max(), tol=1e-6
    )
    fewer = int(np.searchsorted(bits, KEY_BITS))
    raise InputError(
        f"side is too small for {len(box)} features: 2**{bits[-1]:.0f} cubes, of which 2**{KEY_BITS} can be numbered; "
        f"it would need sides {times:.3g} times as long" + f", or no more than {fewer} features" * (fewer > 0) + " "
        "(MedianPartition has no empty cells and no such limit)"
    )


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

    def _descend(self, block: AnyFloats) -> Keys:
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

    def centers(self, keys: Keys) -> AnyFloats:
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
    def of(cls, table: AnyFloats, cells: int) -> "_Cuts":
        """Cut the rows of a table into at most `cells` leaves."""
        tree = cls()
        tree.grow(table, _places(table), np.arange(len(table)), cells)
        return tree

    def grow(self, table: AnyFloats, places: AnyFloats, rows: NDArray[np.intp], cells: int) -> int:
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


def _cut(table: AnyFloats, places: AnyFloats, rows: NDArray[np.intp], share: float) -> tuple[int, np.float64] | None:
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


def _places(table: AnyFloats) -> AnyFloats:
    """Each value as the share of values of its column below it, ties in the middle, shape (n, d)."""
    places = np.empty(table.shape, dtype=np.float32)
    for j, column in enumerate(table.T):
        ordered = np.sort(column)
        sides = (np.searchsorted(ordered, column, side) for side in ("left", "right"))
        places[:, j] = sum(sides) / (2 * len(column))
    return places

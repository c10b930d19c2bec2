"""Partitions of the features into cells: the protocol, cubes, and cells of equal counts."""

from dataclasses import dataclass, field
from math import ceil, isfinite, prod
from typing import Any, Protocol, Self, final

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from labeldp.features import BLOCK_ROWS, TableTransformer, check_count, column_medians, number_table
from labeldp.privacy import AnyFloats, DomainError, InputError, check_integer, smallest

MAX_CUBES = 1 << 62


@final
@dataclass(frozen=True)
class CubeGrid:
    """A grid of equal boxes over a box that was declared, not looked up.

    Args:
        low, high: the box, one number for each feature.
        shape: how many intervals each feature has.

    Examples:
        >>> CubeGrid.of_side(0.5, [(0, 1), (0, 2)]).index([[0.2, 1.7], [9.0, -4.0]])
        array([3, 4])
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if not (self.shape and len(self.low) == len(self.high) == len(self.shape)):
            raise InputError("bounds must be one pair (low, high) for each feature")
        if not all(isfinite(a) and isfinite(b - a) and a < b for a, b in zip(self.low, self.high, strict=True)):
            raise InputError("bounds must be finite pairs (low, high) with low < high")
        if not all(count >= 1 for count in self.shape) or self.cells > MAX_CUBES:
            raise InputError(
                f"{len(self.shape)} features with up to {max(self.shape):,} intervals each make more than 2**62 cubes: "
                "take a larger side or fewer features"
            )

    @classmethod
    def of_side(cls, side: Any, bounds: Any) -> Self:
        """Cubes of one side that cover the bounds; the last ones may stick out.

        Args:
            side: in the unit of the features, positive; one number, or one for each feature.
            bounds: (low, high) of each feature, shape (d, 2).

        Raises:
            InputError: a side or bounds that make no grid.
        """
        try:
            box = np.asarray(bounds, dtype=np.float64)
            sides = np.broadcast_to(np.asarray(side, dtype=np.float64), len(box))
        except (TypeError, ValueError):
            raise InputError(
                "side and bounds must be numbers: one side, and a pair (low, high) for each feature"
            ) from None
        if box.ndim != 2 or box.shape[1] != 2 or not np.all(np.isfinite(box)) or not np.all(box[:, 0] < box[:, 1]):
            raise InputError("bounds must be finite pairs (low, high) with low < high, one for each feature")
        if not np.all((sides > 0) & np.isfinite(sides)):
            raise InputError("side must be a positive number")
        # A last cube that would hold less than a billionth of a side is rounding.
        pairs = list(zip(box.tolist(), sides.tolist(), strict=True))
        counts = [(high - low) / length - 1e-9 for (low, high), length in pairs]
        if not all(map(isfinite, counts)):
            raise InputError("side must not be so small, or bounds so wide, that their ratio is infinite")
        shape = tuple(max(1, ceil(count)) for count in counts)
        top = tuple(low + count * length for ((low, _), length), count in zip(pairs, shape, strict=True))
        return cls(tuple(box[:, 0].tolist()), top, shape)

    @property
    def cells(self) -> int:
        """How many boxes there are, empty or not."""
        return prod(self.shape)

    @property
    def dimension(self) -> int:
        """d: how many features."""
        return len(self.shape)

    def index(self, features: Any) -> NDArray[np.int64]:
        """Return the box of each row, 0 to cells - 1, the last feature fastest, shape (n,); rows outside are clamped.

        Raises:
            InputError: another number of features.
            DomainError: a value is missing, infinite or no number; the message does not say which.
        """
        rows = _positions(features)
        if rows is None:
            raise DomainError("features must be a table of finite numbers; at least one value is none")
        if rows.ndim != 2 or rows.shape[1] != self.dimension:
            raise InputError(f"features must have {self.dimension} columns, one for each pair of bounds")
        if not np.all(np.isfinite(rows)):
            raise DomainError("features must be finite numbers; at least one is missing or infinite")
        places = np.zeros(len(rows), dtype=np.int64)
        for j, count in enumerate(self.shape):
            # Clamped first: a warning that some number is too large would tell that there is one.
            inside = np.clip(rows[:, j], self.low[j], self.high[j]) - self.low[j]
            scaled = inside * (count / (self.high[j] - self.low[j]))
            places *= count
            places += np.clip(np.floor(scaled), 0, count - 1).astype(np.int64)
        return places

    def centers(self, cells: Any) -> NDArray[np.float64]:
        """Return the middle of boxes, shape (len(cells), d), in the unit of the features."""
        parts = np.stack(np.unravel_index(np.asarray(cells), self.shape), axis=1)
        low, high = np.array(self.low), np.array(self.high)
        return np.asarray(low + (parts + 0.5) * (high - low) / np.array(self.shape), dtype=np.float64)

    def to_json(self) -> dict[str, Any]:
        """Bounds and shape."""
        return {"low": list(self.low), "high": list(self.high), "shape": list(self.shape)}


def _positions(features: Any) -> NDArray[np.float64] | None:
    """Return features as doubles; None where that is impossible, as errors that quote a feature must go no further."""
    try:
        array = np.asarray(features)
        return None if array.dtype.kind in "cmM" else array.astype(np.float64)
    except MemoryError:
        raise
    except Exception:  # features may be objects of any kind, and raise what they like
        return None


Keys = NDArray[np.int64]


OUTSIDE = -1
"""The key of a record outside of all cells."""

ROWS_IN_LINE = 64
"""Rows that are handled as one: NumPy is slow along short axes."""

EXACT_IN_SINGLE = 1 << 24
"""Smaller integers are exact in single precision."""

KEY_BITS = 62
"""Keys are 64-bit integers: there may be fewer than 2**62."""


class Partition(Protocol):
    """A rule that assigns each record to a cell, learned from features alone.

    A cell has a key from 0 to `size_` - 1; most cells may be empty. A forest assigns each record to one cell in each of
    its trees, with a column of keys for each tree. If `source` is a `Release`, its charges belong to every model of the
    cells.
    """

    size_: int

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the rule from features, shape (n, d); labels are ignored."""

    def transform(self, X: Any) -> Keys:
        """Return the key of each record, shape (n,) or (n, trees); -1 outside of all cells."""

    def centers(self, keys: Keys) -> AnyFloats:
        """Return a point in the middle of each cell, shape (len(keys), d), for records whose own cell is empty."""


def keys_by_tree(keys: Keys) -> list[Keys]:
    """Return the keys in each tree of a forest; any other partition counts as one tree."""
    return [keys] if keys.ndim == 1 else list(keys.T)


class MeansPartition(TableTransformer):
    """The base of partitions whose cells have their mean features, `middles_`, as centers."""

    middles_: AnyFloats

    def centers(self, keys: Keys) -> AnyFloats:
        """Return the mean features of the records of cells, shape (len(keys), d)."""
        return self.middles_[keys]


def cell_means(keys: Keys, table: AnyFloats, size: int) -> AnyFloats:
    """Return the mean row of each of `size` cells, shape (size, d); 0 where a cell is empty."""
    means = np.zeros((size, table.shape[1]))
    for tree in keys_by_tree(keys):
        counts = np.maximum(np.bincount(tree, minlength=size), 1)
        for j, column in enumerate(table.T):
            means[:, j] += np.bincount(tree, column, size) / counts
    return means


def filled_sample(table: AnyFloats, count: int) -> tuple[AnyFloats, AnyFloats]:
    """Return the medians of a regular sample of at most `count` rows, and the sample with gaps at the medians."""
    sample = table[:: -(-len(table) // count)]
    medians = column_medians(sample)
    return medians, np.where(np.isnan(sample), medians, sample)


def ranks(table: AnyFloats, ordered: AnyFloats) -> AnyFloats:
    """Return the share of the values of each sorted column below each value, ties in the middle, shape (n, d)."""
    result = np.empty(table.shape)
    for j, column in enumerate(np.ascontiguousarray(ordered.T)):
        order = np.argsort(table[:, j])  # looked up in order, neighbors are near each other in memory
        values = table[order, j]
        sides = (np.searchsorted(column, values, side) for side in ("left", "right"))
        result[order, j] = sum(sides) / (2 * len(column))
    return result


class CubePartition(TableTransformer):
    """Cubes of one side length, for which the paper's rates hold; for a few features only.

    Use it where features are few and have one scale, and full DP or a rate matters; else use `MedianPartition`.

    Args:
        side: side of a cube, in units of the features; or one for each feature, shape (d,).
        bounds: (low, high) for all features, or for each, shape (d, 2). The cubes begin at `low`; `fit` refuses records
            outside. By default cubes begin at the smallest value of each feature.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, section IV.

    Examples:
        >>> CubePartition(0.5, bounds=(0, 1)).fit([[0.1, 0.2], [0.7, 0.9]]).transform([[0.1, 0.6], [0.9, 0.9]])
        array([1, 3])
    """

    _takes_gaps = False

    def __init__(self, side: Any, bounds: Any = None) -> None:
        self.side = side
        self.bounds = bounds

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the cubes that records can lie in; labels are ignored.

        Raises:
            InputError: records are not finite or lie outside of the bounds, or there would be 2**62 cubes or more.
        """
        table = number_table(X, self, fit=True)
        if self.bounds is None:
            low, high = _extent(table)
            one_cube = low + _sides(self.side, table.shape[1]) / 2  # for a constant feature
            box = np.column_stack([low, np.maximum(high, one_cube)])
        else:
            box = _box(self.bounds, table.shape[1])
            if not _within(table, box):
                raise InputError("bounds must hold all features: take wider ones, or clip the features to them")
        grid = _grid(self.side, box)
        self.low_, self.high_, self.shape_ = np.array(grid.low), np.array(grid.high), np.array(grid.shape)
        self.size_ = grid.cells
        return self

    def transform(self, X: Any) -> Keys:
        """Return the key of each record's cube, shape (n,): its place in the grid, the last feature fastest.

        The key is -1 beyond the outermost cubes.
        """
        check_is_fitted(self, "shape_")
        table = number_table(X, self)
        keys = np.empty(len(table), dtype=np.int64)
        kind = np.float32 if self.size_ < EXACT_IN_SINGLE and table.dtype == np.float32 else np.float64
        # All blocks share this space: fresh pages would cost more than the arithmetic.
        space = np.empty((2, min(len(table), BLOCK_ROWS) * table.shape[1]), dtype=kind)
        for start in range(0, len(table), BLOCK_ROWS):
            self._find(table[start : start + BLOCK_ROWS], keys[start : start + BLOCK_ROWS], space)
        return keys

    def _find(self, rows: AnyFloats, keys: Keys, space: AnyFloats) -> None:
        """Write the keys of a block of rows to `keys`: what `CubeGrid.index` computes, several rows at a time.

        In single precision, if features have it, a record on the face of a cube may fall into the cube beside it.
        """
        wide = _wide(rows)
        places, beyond = (part[: rows.size].reshape(wide.shape) for part in space)
        parts = (self.low_, self.shape_ / (self.high_ - self.low_), self.shape_ - 1.0)
        repeats = wide.shape[1] // rows.shape[1]
        low, scale, top = (np.tile(part.astype(space.dtype), repeats) for part in parts)
        np.subtract(wide, low, out=places)
        np.multiply(places, scale, out=places)
        np.floor(places, out=places)
        np.subtract(places, top, out=beyond)
        inside = None
        if not (places.min() >= 0 and beyond.max() <= 0):  # NaN fails this, too
            _extent(rows)  # refuses NaN
            inside = np.all((rows >= self.low_) & (rows <= self.high_), axis=1)
            np.clip(places, 0, top, out=places)
        strides = np.append(np.cumprod(self.shape_[:0:-1])[::-1], 1)
        # Sums of integers below 2**53 are exact in doubles, and fast.
        exact, result = self.size_ < 1 << 53, places.reshape(rows.shape)
        keys[:] = result @ strides.astype(space.dtype) if exact else result.astype(np.int64) @ strides
        if inside is not None:
            keys[~inside] = OUTSIDE

    def centers(self, keys: Keys) -> AnyFloats:
        """Return the middles of cubes, shape (len(keys), d)."""
        grid = CubeGrid(tuple(self.low_.tolist()), tuple(self.high_.tolist()), tuple(self.shape_.tolist()))
        return grid.centers(keys)

    def grid(self, dimension: int) -> CubeGrid:
        """Return the cubes over the bounds, which no data changed: for mechanisms that protect features, too.

        Raises:
            InputError: no bounds were given.
        """
        if self.bounds is None:
            raise InputError("bounds must be given where features are private: cubes may not follow them")
        return _grid(self.side, _box(self.bounds, check_integer(dimension, "dimension")))


def _within(table: AnyFloats, box: AnyFloats) -> bool:
    """Return whether all features lie in their bounds, or raise an `InputError` if a number is missing."""
    if table.min() >= box[:, 0].max() and table.max() <= box[:, 1].min():
        return True  # the extremes of the whole table are quick to find
    low, high = _extent(table)
    return bool(np.all(low >= box[:, 0]) and np.all(high <= box[:, 1]))


def _extent(table: AnyFloats) -> tuple[AnyFloats, AnyFloats]:
    """Return the smallest and the largest value of each feature, or raise an `InputError` if a number is missing."""
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
    """Return `ROWS_IN_LINE` rows next to each other in each row, if the count allows it."""
    count, width = rows.shape
    return np.ascontiguousarray(rows).reshape(-1, ROWS_IN_LINE * width) if count % ROWS_IN_LINE == 0 else rows


def _sides(side: Any, dimension: int) -> AnyFloats:
    """Return one side for each feature, or raise an `InputError` if these are no sides."""
    try:
        sides = np.broadcast_to(np.asarray(side, dtype=np.float64), (dimension,))
    except (TypeError, ValueError):
        sides = np.zeros(1)
    if not np.all((sides > 0) & np.isfinite(sides)):
        raise InputError("side must be a positive length, or one for each feature")
    return sides


def _box(bounds: Any, dimension: int) -> AnyFloats:
    """Return lower and upper bound of each feature, shape (d, 2), or raise an `InputError` if these are no bounds."""
    try:
        box = np.broadcast_to(np.asarray(bounds, dtype=np.float64), (dimension, 2))
    except (TypeError, ValueError):
        box = np.full((1, 2), np.nan)
    if not np.all(np.isfinite(box)) or not np.all(box[:, 0] < box[:, 1]):
        raise InputError("bounds must be (low, high) with low < high, for all features or for each, shape (d, 2)")
    return box


def _grid(side: Any, box: AnyFloats) -> CubeGrid:
    """Return cubes that cover a box; refuse too many, in a message that says which sides would do."""
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
"""Of more records, a regular sample of about this many decides where median cells are cut."""


class MedianPartition(MeansPartition):
    """Cells of equal count: a k-d tree that halves each cell at the median of the feature that spreads widest in it.

    Use it for more than a few features: no cell is empty, and constant features are never cut. Spread is measured in
    quantiles, so units do not matter, and NaN counts as the median of its column.

    Args:
        cells: number of cells, if values do not repeat, else an upper bound. It need not be a power of 2: uneven cuts
            keep the counts equal.

    Examples:
        >>> MedianPartition(4).fit([[1.0], [2.0], [3.0], [4.0]]).transform([[0.0], [2.2], [9.0]])
        array([0, 1, 3])
    """

    def __init__(self, cells: int) -> None:
        self.cells = cells

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cut at medians; labels are ignored.

        Raises:
            InputError: features are not finite, or `cells` is not from 1 to the number of records.
        """
        table = number_table(X, self, fit=True)
        cells = check_count(self.cells, "cells", len(table))
        self.median_, filled = filled_sample(table, SAMPLED_ROWS)
        tree = _Cuts(filled, ranks(filled, np.sort(filled, axis=0)).astype(np.float32))
        tree.grow(np.arange(len(filled)), cells)
        features, thresholds, first, second = zip(*tree.nodes, strict=True)
        self.features_, self.thresholds_ = np.array(features), np.array(thresholds)
        self.children_ = np.column_stack([first, second]).astype(np.int64)
        self.middles_ = np.array([filled[rows].mean(axis=0) for rows in tree.leaves])
        self.size_ = len(tree.leaves)
        return self

    def transform(self, X: Any) -> Keys:
        """Return the cell of each record, shape (n,)."""
        check_is_fitted(self, "children_")
        table = number_table(X, self)
        keys = np.empty(len(table), dtype=np.int64)
        for start in range(0, len(table), BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            keys[rows] = self._descend(np.where(np.isnan(table[rows]), self.median_, table[rows]))
        return keys

    def _descend(self, block: AnyFloats) -> Keys:
        """Return the leaves of records without gaps: at each node the smaller values go to the first child."""
        nodes = np.zeros(len(block), dtype=np.int64)
        active = np.arange(len(block))
        while True:
            active = active[self.features_[nodes[active]] >= 0]
            if not active.size:
                return -1 - self.children_[nodes, 0]
            at = nodes[active]
            right = block[active, self.features_[at]] > self.thresholds_[at]
            nodes[active] = self.children_[at, right.astype(np.intp)]


@dataclass
class _Cuts:
    """A k-d tree as it grows.

    Args:
        table, places: values of the records, and their ranks, shape (n, d).
        nodes: feature and threshold of each cut, and the numbers of its two children. A leaf has the feature -1, and
            -1 minus its own number in place of the first child.
        leaves: the rows in each leaf.
    """

    table: AnyFloats
    places: AnyFloats
    nodes: list[tuple[int, float, int, int]] = field(default_factory=list)
    leaves: list[NDArray[np.intp]] = field(default_factory=list)

    def grow(self, rows: NDArray[np.intp], cells: int) -> int:
        """Add the subtree of some rows with at most `cells` leaves, and return the number of its root."""
        node = len(self.nodes)
        self.nodes.append((-1, 0.0, -1 - len(self.leaves), 0))
        more = cells // 2
        cut = self._cut(rows, 1 - more / cells) if cells > 1 and len(rows) > 1 else None
        if cut is None:
            self.leaves.append(rows)
            return node
        feature, threshold = cut
        right = self.table[rows, feature] > threshold
        first, second = self.grow(rows[~right], cells - more), self.grow(rows[right], more)
        self.nodes[node] = (feature, float(threshold), first, second)
        return node

    def _cut(self, rows: NDArray[np.intp], share: float) -> tuple[int, np.float64] | None:
        """Return the widest feature and the gap between two of its values that leaves about `share` of the rows below.

        None if all rows are alike.
        """
        spread = self.places[rows].std(axis=0)
        for feature in np.argsort(-spread):
            if spread[feature] <= 0:
                return None
            values = np.sort(self.table[rows, feature])
            gaps = np.flatnonzero(values[1:] > values[:-1])
            if gaps.size:
                at = gaps[np.abs(gaps + 1 - share * len(values)).argmin()]
                middle = values[at] + (values[at + 1] - values[at]) / 2
                return int(feature), np.float64(min(middle, np.nextafter(values[at + 1], values[at])))
        return None

"""Whole records as private labels: a fixed grid of cubes over a declared box, and the label within its cube."""

from dataclasses import dataclass
from math import ceil, isfinite, prod
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.domains import MAX_SIZE, Codes, Domain, silent
from labeldp.privacy import DomainError, InputError

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
        each = list(zip(box.tolist(), sides.tolist(), strict=True))
        counts = [(high - low) / length - 1e-9 for (low, high), length in each]
        if not all(map(isfinite, counts)):
            raise InputError("side must not be so small, or bounds so wide, that their ratio is infinite")
        shape = tuple(max(1, ceil(count)) for count in counts)
        top = tuple(low + count * length for ((low, _), length), count in zip(each, shape, strict=True))
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
        """The box of each row, 0 to cells - 1, the last feature fastest, shape (n,); a row outside counts as clamped.

        Raises:
            InputError: another number of features.
            DomainError: a value is missing, infinite or no number; the message does not say which.
        """
        rows = _numbers(features)
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
        """The middle of boxes, shape (len(cells), d), in the unit of the features."""
        parts = np.stack(np.unravel_index(np.asarray(cells), self.shape), axis=1)
        low, high = np.array(self.low), np.array(self.high)
        return np.asarray(low + (parts + 0.5) * (high - low) / np.array(self.shape), dtype=np.float64)

    def to_json(self) -> dict[str, Any]:
        """Bounds and shape."""
        return {"low": list(self.low), "high": list(self.high), "shape": list(self.shape)}


def _numbers(features: Any) -> NDArray[np.float64] | None:
    """Features as doubles; None where that is impossible, as errors that quote a feature must go no further."""
    array = silent(lambda: np.asarray(features))
    if array is None or array.dtype.kind in "cmM":
        return None
    return silent(lambda: array.astype(np.float64))


@final
@dataclass(frozen=True)
class Located(Domain):
    """Records whose features are private, too: a cell of a fixed grid and a label.

    A curator over this domain holds `(features, labels)`, and its mechanisms protect both. Features outside of the
    grid count as clamped to it, silently, because their number is private.

    Args:
        grid: fixed without a look at the data.
        labels: the domain of the labels.

    Examples:
        >>> from labeldp.mechanisms import Classes
        >>> domain = Located(CubeGrid.of_side(0.5, [(0, 1)]), Classes(("no", "yes")))
        >>> domain.encode(([[0.2], [7.0]], ["yes", "no"]))
        array([1, 2], dtype=uint8)
    """

    grid: CubeGrid
    labels: Domain

    def __post_init__(self) -> None:
        if not isinstance(self.grid, CubeGrid):
            raise InputError("grid must be a CubeGrid: cells that looked at the data tell something about the features")
        if not isinstance(self.labels, Domain) or isinstance(self.labels, Located):
            raise InputError("labels must be the domain of the labels, such as Classes(2)")
        if self.size > MAX_SIZE:
            raise InputError(
                f"{self.grid.cells:,} cells of {self.labels.size:,} labels are more than the {MAX_SIZE:,} that fit, "
                "as every cell is released, empty or not: take larger cubes, fewer features or fewer grid points"
            )

    @property
    def size(self) -> int:
        """Cells times labels."""
        return self.grid.cells * self.labels.size

    def encode(self, labels: Any) -> Codes:
        """Codes cell * size of the labels + code of the label, shape (n,).

        Args:
            labels: the pair (features, labels), of shapes (n, d) and (n,).
        """
        if not isinstance(labels, tuple | list) or len(labels) != 2:
            raise InputError("labels must be the pair (features, labels), because both are private")
        features, own = labels
        cells, codes = self.grid.index(features), self.labels.encode(own)
        if len(cells) != len(codes):
            raise InputError("features must have one row for each label")
        return (cells * self.labels.size + codes).astype(self.dtype)

    def decode(self, codes: Any) -> NDArray[Any]:
        """Cell and code of the label of each record, shape (n, 2)."""
        return np.stack(np.divmod(self.check_codes(codes).astype(np.int64), self.labels.size), axis=1)

    def table(self, codes: Any) -> NDArray[np.int64]:
        """How many records each cell has of each label, shape (cells, size of the labels): private."""
        counts = np.bincount(self.check_codes(codes), minlength=self.size)
        return counts.astype(np.int64).reshape(self.grid.cells, self.labels.size)

    def to_json(self) -> dict[str, Any]:
        """The grid and the domain of the labels."""
        return {"cells": self.grid.to_json(), "labels": self.labels.to_json()}

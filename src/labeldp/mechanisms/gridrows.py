"""Public feature rows on a grid of integers, whose sums are exact."""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import BLOCK, InputError, Public, Release

RESOLUTION = 1 << 12
MAX_RESOLUTION = 1 << 14
"""Entries of a row, in grid steps, fit into 16 bits."""


@dataclass(frozen=True, eq=False)
class GridRows:
    """Public feature rows on a grid of integers.

    Args:
        steps: the rows in grid steps, shape (n, d).
        unit: one step in the unit of the features.
    """

    steps: NDArray[np.int16] = field(repr=False)
    unit: float

    @classmethod
    def of(cls, features: Any, clip: float | None, resolution: int) -> "GridRows":
        """Rows scaled down to norm `clip` where they are longer, then rounded to multiples of clip / resolution.

        Raises:
            InputError: a bare array, numbers that are not finite, or a clip or resolution out of range.
        """
        if not isinstance(features, Public | Release):
            raise InputError(
                'features must be Public(array, why="…") or a Release: features may not depend on private labels'
            )
        rows = _finite_rows(features.value)
        if isinstance(resolution, bool) or not isinstance(resolution, int) or not 1 <= resolution <= MAX_RESOLUTION:
            raise InputError(f"resolution must be an integer number of grid steps from 1 to {MAX_RESOLUTION}")
        norms = np.linalg.norm(rows, axis=1)
        longest = float(norms.max(initial=0.0)) if clip is None else float(clip)
        if not 0 < longest < np.inf:
            raise InputError("clip must be a positive finite norm, and some row must not be zero")
        scale = resolution / longest * np.minimum(1.0, longest / np.maximum(norms, longest))
        steps = np.empty(rows.shape, dtype=np.int16)
        for start in range(0, len(rows), BLOCK):
            part = slice(start, start + BLOCK)
            steps[part] = np.rint(rows[part] * scale[part, None])
        steps.flags.writeable = False
        return cls(steps, longest / resolution)

    @cached_property
    def square(self) -> int:
        """The largest squared length of a row, in squared steps: exact."""
        return max((int((wide(part) ** 2).sum(axis=1).max(initial=0)) for part in self._parts()), default=0)

    @cached_property
    def length(self) -> int:
        """The largest sum of absolute entries of a row, in steps: exact."""
        return max((int(np.abs(wide(part)).sum(axis=1).max(initial=0)) for part in self._parts()), default=0)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the rows, in the order of the records."""
        found = hashlib.sha256(repr((self.steps.shape, self.unit.hex())).encode())
        for part in self._parts():
            found.update(part.astype("<i2").tobytes())
        return found.hexdigest()

    def _parts(self) -> list[NDArray[np.int16]]:
        return [self.steps[start : start + BLOCK] for start in range(0, len(self.steps), BLOCK)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GridRows) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def _finite_rows(value: Any) -> NDArray[np.float64]:
    """A matrix of finite numbers.

    Raises:
        InputError: anything else.
    """
    try:
        if np.asarray(value).dtype.kind == "c":
            raise TypeError("complex numbers would lose their imaginary part")
        rows = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("features must be real numbers: map tables to numbers first") from None
    if rows.ndim != 2 or not rows.size or not np.all(np.isfinite(rows)):
        raise InputError("features must be a finite array of numbers, shape (n, d), with at least one row and column")
    return rows


def wide(rows: NDArray[np.int16]) -> NDArray[np.int64]:
    """Rows as 64-bit integers, whose products and sums do not overflow."""
    return rows.astype(np.int64)

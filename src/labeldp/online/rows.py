"""Rounds of integer losses, dense or sparse: their number, a slice, one expert's losses, and the sums of all."""

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import InputError

Integers = NDArray[np.int64]

LEVELS: dict[int, np.dtype[Any]] = {255: np.dtype(np.uint8), 65535: np.dtype(np.uint16)}
"""How losses in [0, 1] may be counted, and the integers that hold exactly those levels."""

BLOCK = 257
"""Rounds whose levels are surely summed without overflow in integers twice as wide."""


@final
@dataclass(frozen=True)
class DenseRows:
    """Rounds as a matrix of levels."""

    values: NDArray[Any] = field(repr=False)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, part: slice) -> "DenseRows":
        return DenseRows(self.values[part])

    def column(self, expert: int) -> Integers:
        """One expert's level in every round."""
        return self.values[:, expert].astype(np.int64)

    def sums(self) -> Integers:
        """The sum over all rounds for every expert."""
        total = np.zeros(self.values.shape[1], dtype=np.int64)
        wide = np.uint16 if self.values.dtype == np.uint8 else np.uint32
        for start in range(0, len(self.values), BLOCK):
            total += np.add.reduce(self.values[start : start + BLOCK], axis=0, dtype=wide)
        return total


@final
@dataclass(frozen=True)
class SparseRows:
    """The same where most levels are zero: for each round a stretch of experts and their levels, as in a CSR array."""

    starts: NDArray[Any] = field(repr=False)
    experts: NDArray[Any] = field(repr=False)
    values: NDArray[Any] = field(repr=False)
    width: int

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, part: slice) -> "SparseRows":
        first, last, _ = part.indices(len(self))
        return SparseRows(self.starts[first : max(first, last) + 1], self.experts, self.values, self.width)

    def column(self, expert: int) -> Integers:
        """One expert's level in every round."""
        found = np.flatnonzero(self.experts[self._inside] == expert) + self.starts[0]
        column = np.zeros(len(self), dtype=np.int64)
        column[np.searchsorted(self.starts, found, side="right") - 1] = self.values[found]
        return column

    def sums(self) -> Integers:
        """The sum over all rounds for every expert."""
        # Doubles hold these sums exactly: below 2**53, by far.
        total = np.bincount(self.experts[self._inside], weights=self.values[self._inside], minlength=self.width)
        return total.astype(np.int64)

    @property
    def _inside(self) -> slice:
        return slice(int(self.starts[0]), int(self.starts[-1]))


Rows = DenseRows | SparseRows


def rows_of(losses: Any, experts: int, levels: int) -> Rows:
    """Checked levels, shape (rounds, experts), as rows.

    Raises:
        InputError: not a matrix of this width, or not the unsigned integers that hold exactly these levels.
    """
    dtype = LEVELS[levels]
    if getattr(losses, "ndim", 0) != 2 or losses.shape[1] != experts or losses.dtype != dtype:
        raise InputError(
            f"losses must be a matrix of {dtype.name} levels with one row for each round and "
            f"{experts} columns, one for each expert, such as `quantize` makes"
        )
    if not hasattr(losses, "indptr"):
        return DenseRows(np.asarray(losses))
    if losses.format != "csr" or not losses.has_canonical_format:
        raise InputError("sparse losses must be in canonical CSR format, such as `quantize` makes")
    return SparseRows(losses.indptr, losses.indices, losses.data, experts)

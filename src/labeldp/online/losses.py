"""Losses in [0, 1] as integer levels: what every online learner counts."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import InputError

Levels = Any
"""Levels 0 … 2**bits - 1 as unsigned integers of `bits` bits, shape (rounds, experts): dense, or a CSR array."""

BITS: dict[int, np.dtype[Any]] = {8: np.dtype(np.uint8), 16: np.dtype(np.uint16)}
CELLS = 1 << 16
"""Losses that are rounded at a time: they stay in cache."""

_SHAPE = "one round, or a matrix with one row for each round and one column for each {experts}, dense or scipy.sparse"
_WRONG = "losses must be numbers in [0, 1], none of them missing: " + _SHAPE
_WRONG_LEVELS = "losses that are levels must be integers from 0 to {most}: " + _SHAPE


def quantize(losses: Any, bits: int = 8, *, experts: int | None = None) -> Levels:
    """Losses in [0, 1] as the nearest of 2**bits levels, one row for each round.

    Rounding moves a loss by at most half a level, so it moves the regret by at most T levels in T rounds.

    Args:
        losses: floats, or truth values; (experts,) for one round, or (rounds, experts); where most are zero any
            scipy.sparse array of that shape.
        bits: 8 or 16.
        experts: d, the only width that is right; any by default.

    Returns:
        Unsigned integers, shape (rounds, experts); in canonical CSR format where losses were sparse.

    Guarantee: a loss becomes a level that is nearest to it; an error shows no loss and not where it stands.

    Raises:
        InputError: losses outside of [0, 1], missing, of another width, none at all, or not floats: integers are
            levels, `check_levels`.

    Examples:
        >>> quantize([0.0, 0.25, 1.0])
        array([[  0,  64, 255]], dtype=uint8)
    """
    dtype, wrong = _dtype(bits), InputError(_WRONG.format(experts=_each(experts)))
    values, sparse = _matrix(losses, experts, wrong)
    if values.dtype.kind not in "fb":
        raise wrong
    levels = _rounded(values, dtype, wrong)
    return levels if sparse is None else _csr(sparse, levels)


def check_levels(levels: Any, bits: int = 8, *, experts: int | None = None) -> Levels:
    """Integers that are levels already, one row for each round; without a copy where their type fits.

    Args:
        levels: integers from 0 to 2**bits - 1 of any integer type, shaped as for `quantize`.
        bits: 8 or 16.
        experts: d, the only width that is right; any by default.

    Returns:
        As `quantize`.

    Raises:
        InputError: other numbers, another width, none at all, or not integers: losses in [0, 1] are for `quantize`.

    Examples:
        >>> check_levels([[0, 255], [255, 0]])
        array([[  0, 255],
               [255,   0]], dtype=uint8)
    """
    dtype, most = _dtype(bits), (1 << bits) - 1
    wrong = InputError(_WRONG_LEVELS.format(most=most, experts=_each(experts)))
    values, sparse = _matrix(levels, experts, wrong)
    if values.dtype.kind not in "iu":
        raise wrong
    if values.size and values.dtype != dtype and not 0 <= values.min() <= values.max() <= most:
        raise wrong
    checked = values.astype(dtype, copy=False)
    return checked if sparse is None else _csr(sparse, checked)


def _each(experts: int | None) -> str:
    """What has a column."""
    return f"of {experts} experts" if experts else "expert"


def _dtype(bits: int) -> np.dtype[Any]:
    """The unsigned integers that hold exactly the levels."""
    if bits not in BITS:
        raise InputError("bits must be 8 or 16")
    return BITS[bits]


def _matrix(losses: Any, experts: int | None, wrong: InputError) -> tuple[NDArray[Any], Any]:
    """All losses as a matrix; or those that a sparse array holds, and the array in canonical CSR format."""
    if np.ma.isMaskedArray(losses):
        raise wrong
    try:
        rows = _canonical(losses) if hasattr(losses, "tocsr") else np.asarray(losses)
    except (TypeError, ValueError):
        raise wrong from None
    if isinstance(rows, np.ndarray) and rows.ndim == 1:
        rows = rows[np.newaxis]
    if rows.ndim != 2 or 0 in rows.shape or rows.shape[1] != (experts or rows.shape[1]):
        raise wrong
    if isinstance(rows, np.ndarray):
        return rows, None
    # A sparse array may be made of columns that it does not have: scipy does not look.
    if rows.nnz and not 0 <= rows.indices.min() <= rows.indices.max() < rows.shape[1]:
        raise wrong
    return rows.data, rows


def _canonical(losses: Any) -> Any:
    """A sparse array in CSR format with every entry once; a copy where it is not."""
    if losses.format == "csr" and losses.has_canonical_format:
        return losses
    # Repeated entries are summed, which must not overflow.
    rows = losses.astype(np.int64 if losses.dtype.kind in "iu" else losses.dtype).tocsr()
    rows.sum_duplicates()
    return rows


def _rounded(values: NDArray[Any], dtype: np.dtype[Any], wrong: InputError) -> NDArray[Any]:
    """The nearest levels, of any shape, some rows at a time."""
    levels = np.empty(values.shape, dtype=dtype)
    most = np.iinfo(dtype).max
    step = max(1, CELLS // max(1, values[:1].size))
    for start in range(0, len(values), step):
        part = values[start : start + step].astype(np.float64)
        if not (part.min() >= 0 and part.max() <= 1):
            raise wrong
        levels[start : start + step] = np.rint(part * most)
    return levels


def _csr(like: Any, levels: NDArray[Any]) -> Any:
    """A CSR array with these levels where the other has its losses."""
    return type(like)((levels, like.indices, like.indptr), shape=like.shape)

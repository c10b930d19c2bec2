"""What is asked of a table of features before anything is learnt or charged."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import _safe_indexing

from labeldp.privacy import InputError

REHEARSED = 1000
"""Records on which a classifier is tried before anything is charged, at most."""

BLOCK_ROWS = 1 << 15
"""Rows handled at a time: what is computed from them stays in cache."""

LARGEST = float(np.finfo(np.float32).max)
"""Trees see features in single precision; what they cannot see is refused before anything is charged."""

MIXED = "turn a table with texts or dates into numbers with labeldp.tables.TableEncoder"


def rows_of(features: Any) -> int:
    """How many records a table or an array holds."""
    shape = getattr(features, "shape", None)
    if not shape and not hasattr(features, "__len__"):
        raise InputError("features must be a table with one row for each record")
    return int(shape[0]) if shape else len(features)


def check_rows(features: Any, count: int) -> None:
    """Refuse features of another number of records than there are labels."""
    if rows_of(features) != count:
        raise InputError("features must have one row for each record of the labels")


def check_numbers(features: Any) -> None:
    """Refuse features that the default classifiers cannot take, and say what makes numbers of them."""
    if not are_numbers(features):
        raise InputError(f"features must be numbers where no classifier is named: {MIXED}, or name a classifier")


def telling_rows(features: Any, seed: int) -> NDArray[np.intp]:
    """The rows of a rehearsal: some at random, among them of each column a gap, the smallest and the largest number.

    At most `REHEARSED`, half of which are such ends; a table that an array does not hold has none.
    """
    count, rng = rows_of(features), np.random.default_rng(seed)
    if count <= REHEARSED:
        return np.arange(count)
    found = [] if issparse(features) else sorted(_ends(features))
    ends = rng.permutation(np.array(found, dtype=np.intp))[: REHEARSED // 2]
    others = np.setdiff1d(rng.permutation(count)[:REHEARSED], ends)
    return np.sort(np.concatenate([ends, rng.permutation(others)[: REHEARSED - len(ends)]]))


def _ends(features: Any) -> set[int]:
    """Of each column the first row with a gap, with the smallest and with the largest number, where it has them."""
    found: set[int] = set()
    names = getattr(features, "columns", None)
    for column in _columns(features) if names is None else (features[name] for name in names):
        if np.ndim(column) != 1:
            continue
        if hasattr(column, "isna"):
            found.add(int(np.argmax(column.isna())))
        try:
            numbers = np.asarray(column, dtype=np.float64)
        except (TypeError, ValueError):
            continue
        gaps = np.isnan(numbers)
        known = np.where(gaps, 0.0, numbers)
        found |= {int(gaps.argmax()), int(known.argmin()), int(known.argmax())}
    return found


def _columns(features: Any) -> Any:
    """Those of a table in an array; anything else has none."""
    array = np.asarray(features)
    return array.T if array.ndim == 2 else ()


def are_numbers(features: Any) -> bool:
    """Whether the first records are numbers, gaps included."""
    if issparse(features):
        return True
    head = _safe_indexing(features, np.arange(min(rows_of(features), REHEARSED)))
    try:
        np.asarray(head, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True


def number_table(features: Any, width: int | None = None) -> NDArray[np.floating[Any]]:
    """Features as a table of floats, shape (n, d), gaps as NaN; floats are not copied.

    Raises:
        InputError: not such a table, of another width, empty, or with infinite or huge numbers in it.
    """
    try:
        table = np.asarray(features)
        table = table if table.dtype in (np.float32, np.float64) else table.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"features must be numbers: {MIXED}") from None
    if table.ndim != 2 or not table.size:
        raise InputError("features must be a table of numbers, shape (n, d), with at least one row and one column")
    if width is not None and table.shape[1] != width:
        raise InputError(f"features must have {width} columns, as those of the fit had")
    if any(_has_huge(table[start : start + BLOCK_ROWS]) for start in range(0, len(table), BLOCK_ROWS)):
        raise InputError(
            f"features must be finite, and no larger than {LARGEST:.1e}: clip them, which costs no privacy"
        )
    return table


def _has_huge(block: NDArray[np.floating[Any]]) -> bool:
    """Whether a number is too large; the extremes, which are quick to find, say that none is where none is missing."""
    return not (block.max() <= LARGEST and block.min() >= -LARGEST) and bool((np.abs(block) > LARGEST).any())


def finite_table(features: Any, width: int | None = None) -> NDArray[np.floating[Any]]:
    """The same without gaps.

    Raises:
        InputError: a number is missing, too.
    """
    table = number_table(features, width)
    if any(np.isnan(table[start : start + BLOCK_ROWS]).any() for start in range(0, len(table), BLOCK_ROWS)):
        raise InputError("features must be finite: fill in the gaps first, or take MedianPartition, which allows them")
    return table


def column_medians(table: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """The median of the known values of each column, 0 where there are none, shape (d,)."""
    known = [column[~np.isnan(column)] for column in table.T]
    return np.array([np.median(column) if column.size else 0.0 for column in known])


def positive_integer(value: Any, argument: str, *, most: int | None = None, of: str = "") -> int:
    """A positive integer, at most as many as there are of something.

    Raises:
        InputError: it is none; the message names the argument.
    """
    fitting = not isinstance(value, bool) and isinstance(value, int | np.integer) and value >= 1
    if not fitting or (most is not None and value > most):
        raise InputError(
            f"{argument} must be a positive integer"
            if most is None
            else f"{argument} must be an integer from 1 to {of}"
        )
    return int(value)

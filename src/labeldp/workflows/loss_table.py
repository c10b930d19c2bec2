"""The columns of a file of losses: which of them are experts, and their cells as levels."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.online import check_levels, quantize
from labeldp.privacy import DomainError, InputError
from labeldp.tables import TableFile, label_numbers

PANDAS_INDEX = "__index_level_0__"
"""What pandas calls an index without a name in a Parquet file."""

_TAKE = "`experts` names the columns to take, where others are no losses"
_TWO = "experts must be the names of at least two columns"


_NUMERIC = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)


def experts_of(table: TableFile, named: tuple[str, ...] | None) -> tuple[str, ...]:
    """The columns that are experts: those that are named, else all. Their names are published.

    Raises:
        InputError: fewer than two, one that is not there or holds no numbers by its type, one without a name, or
            a CSV file whose first row looks like losses.
    """
    if not table.declares_names and all(_is_number(name) for name in table.columns):
        raise InputError(
            f"the columns of {table.path} have numbers for names, and names are published: does it have a header row?"
        )
    names = tuple(table.require(name, "experts") for name in named or table.columns)
    if len(set(names)) < len(names):
        raise InputError("experts must be different columns")
    if not all(name.strip() for name in names):
        raise InputError(f"{table.path} has a column without a name, and the names of experts are published; {_TAKE}")
    if len(names) < 2:
        raise InputError(f"{table.path} has one column; at least two experts are needed" if named is None else _TWO)
    for name, kind in zip(names, table.schema(names).types, strict=True):
        if table.declares_names and not any(test(kind) for test in _NUMERIC):
            raise InputError(f"column {name!r} holds {kind}, and losses must be numbers; {_TAKE}")
        if name == PANDAS_INDEX and named is None:
            raise InputError(f"column {name!r} is an index that pandas wrote, and no expert; {_TAKE}")
    return names


def levels_of(batch: pa.RecordBatch, names: tuple[str, ...], *, bits: int, levels: bool) -> NDArray[Any]:
    """The losses of a block as levels.

    Raises:
        DomainError: a loss is missing, no number or out of range; the message says neither which nor where.
    """
    try:
        return _levels(np.column_stack([_numbers(batch, name) for name in names]), bits, levels)
    except InputError:
        pass
    most = 2**bits - 1
    wanted = f"integers from 0 to {most}" if levels else "numbers in [0, 1]"
    others = "" if levels else f"`levels` takes integers from 0 to {most}, and "
    raise DomainError(f"losses must be {wanted}, in every row of every column, none of them missing; {others}{_TAKE}")


def _levels(matrix: NDArray[np.float64], bits: int, levels: bool) -> NDArray[Any]:
    """Rounded, or whole numbers already."""
    if not levels:
        return np.asarray(quantize(matrix, bits))
    if not (np.isfinite(matrix).all() and (matrix == np.rint(matrix)).all()):
        raise InputError("not whole")
    return np.asarray(check_levels(matrix.astype(np.int64), bits))


def _numbers(batch: pa.RecordBatch, name: str) -> NDArray[np.float64]:
    """A column as numbers; truth values are 0 and 1."""
    values = batch.column(name)
    if pa.types.is_boolean(values.type):
        batch = pa.RecordBatch.from_arrays([values.cast(pa.uint8())], names=[name])
    return label_numbers(batch, name)


def _is_number(name: str) -> bool:
    """Whether a name reads as a cell of losses: a number, or nothing."""
    try:
        float(name.strip() or "0")
    except ValueError:
        return False
    return True

"""Columns of a block as the values that the core takes: label texts, numbers, their plain text form."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.privacy import DomainError, InputError
from labeldp.tables.quiet import quietly


def distinct_labels(batch: pa.RecordBatch, column: str) -> tuple[NDArray[np.str_], NDArray[np.int32]]:
    """The labels of a block as its few distinct texts and, for each row, which of them.

    `domain.encode(texts)[places]` are the codes: few texts are looked up, however many rows there are.
    Integers read '0', booleans 'true' and 'false', whole floats '1'; texts stay as they are, spaces
    included. Both arrays are as private as the labels.

    Args:
        batch: a block of a table.
        column: the name of the label column; it may be dictionary-encoded.

    Returns:
        texts, shape (d,), in order of appearance, and places, shape (batch.num_rows,), in [0, d).

    Raises:
        DomainError: a label is missing (null, an empty cell, NaN). The message says neither where nor how many.
        InputError: the column is not there, or holds lists, structures or raw bytes.
    """
    encoded = as_text(_whole_column(batch, column), column).dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    if any("\0" in text for text in texts):  # numpy would drop it at the end of a text
        raise InputError(f"column {column!r} holds NUL characters")
    return np.array(texts, dtype=np.str_), encoded.indices.to_numpy(zero_copy_only=False)


def label_numbers(batch: pa.RecordBatch, column: str) -> NDArray[np.float64]:
    """The labels of a block as floats, for an `Interval`.

    Args:
        batch: a block of a table.
        column: the name of the label column: integers, floats, decimals, or texts that read as such.

    Returns:
        Numbers, shape (batch.num_rows,), none of them NaN; infinities are left to the domain to refuse.

    Raises:
        DomainError: a label is missing (null, an empty cell, NaN).
        InputError: the column is not there, or does not hold numbers only.
    """
    values = _whole_column(batch, column)
    problem = f"the label column {column!r} must hold numbers only"
    if not (is_text(values.type) or is_number(values.type)):
        raise InputError(problem)
    numbers = quietly(lambda: values.cast(pa.float64(), safe=False), lambda error: problem)
    floats: NDArray[np.float64] = numbers.to_numpy(zero_copy_only=False)
    if np.isnan(floats).any():
        raise DomainError(_missing(column))
    return floats


def column_of(batch: pa.RecordBatch | pa.Table, column: str) -> Any:
    """One column, decoded if it is a dictionary; refused where the name is not there exactly once."""
    if batch.schema.names.count(column) != 1:
        raise InputError(f"the table needs exactly one column {column!r}")
    return plain(batch.column(column))


def plain(values: Any) -> Any:
    """The same values, not dictionary-encoded."""
    return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values


def as_text(values: Any, column: str) -> Any:
    """Values as text, one way for every file format: '0', 'true', '0.1', '2026-01-31'; missing stays missing."""
    kind = values.type
    if is_text(kind):
        texts = values.cast(pa.large_string())
        quietly(lambda: texts.validate(full=True), lambda error: f"column {column!r} holds text that is not UTF-8")
        return texts
    if pa.types.is_floating(kind):
        unsigned_zero = pc.add(values.cast(pa.float64()), 0.0)
        return unsigned_zero.cast(pa.large_string())
    if is_number(kind) or pa.types.is_boolean(kind) or pa.types.is_temporal(kind) or pa.types.is_null(kind):
        problem = f"column {column!r} holds {kind}, which cannot be written as text: is its time zone known here?"
        return quietly(lambda: values.cast(pa.large_string()), lambda error: problem)
    raise InputError(f"column {column!r} holds {kind}; texts, numbers, booleans or dates are needed")


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is one of Arrow's text types."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether a type is an integer, a float or a decimal."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _whole_column(batch: pa.RecordBatch, column: str) -> Any:
    """A label column without a missing value."""
    values = column_of(batch, column)
    missing = values.null_count > 0 or (pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py())
    if missing:
        raise DomainError(_missing(column))
    return values


def _missing(column: str) -> str:
    return f"the label column {column!r} has a missing label; every record needs one"

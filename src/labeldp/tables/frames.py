"""Data frames as Arrow tables, one column at a time: what is not asked for is never converted."""

import json
import math
from collections.abc import Callable, Collection
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.privacy import InputError, without_traceback

UNREADABLE = (
    "{}: column {!r} cannot be read. Convert it to numbers, texts, truth values or dates, all of one kind, or leave it "
    "out"
)


def is_frame(data: Any) -> bool:
    """Return whether data are a data frame of pandas or polars."""
    return hasattr(data, "columns") and (hasattr(data, "iloc") or hasattr(data, "get_columns"))


def as_table(data: Any, columns: Collection[str] | None = None) -> pa.Table:
    """Return a table or data frame as an Arrow table.

    Args:
        data: a table or record batch of pyarrow, a data frame of pandas or polars, or an object that gives an Arrow
            stream.
        columns: those that are converted, by default all with the index of pandas. Columns that are missing are left
            out.

    Raises:
        InputError: something else, or a column that Arrow cannot hold; the message has no cell.
    """
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if not isinstance(data, pa.Table) and not is_frame(data):
        if not hasattr(data, "__arrow_c_stream__"):
            raise InputError("table must be a pyarrow table, or a data frame that Arrow can take (polars, pandas)")
        data = without_traceback(lambda: pa.table(data))
        if data is None:
            raise InputError(f"the {type(data).__name__} given as table could not be read")
    source, index = data, _index(data)
    names = column_names(source)
    chosen = (
        [number for number, name in enumerate(names) if name in columns] if columns is not None else range(len(names))
    )
    arrays = [_checked(partial(_column, source, number, index), source, names[number]) for number in chosen]
    fields = [pa.field(names[number], array.type) for number, array in zip(chosen, arrays, strict=True)]
    metadata = {b"pandas": json.dumps({"index_columns": list(index)}).encode()} if index else None
    if isinstance(source, pa.Table):
        metadata = source.schema.metadata
    empty = pa.table({"": pa.nulls(len(source))}).select([])
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata)) if arrays else empty


def column_names(data: Any) -> list[str]:
    """Return the names of the columns of a table or data frame, index levels of pandas last."""
    if isinstance(data, pa.Table | pa.RecordBatch):
        return list(data.schema.names)
    return [str(name) for name in data.columns] + list(_index(data))


def readable(values: Any) -> Any:
    """Return Arrow values in a plain type: no views, no runs, no extensions; categories of texts and numbers stay.

    Raises:
        Exception: what Arrow raises.
    """
    kind = values.type
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([readable(chunk) for chunk in values.chunks], _plain_type(kind))
    if isinstance(kind, pa.BaseExtensionType):
        return readable(values.storage)
    if pa.types.is_run_end_encoded(kind):
        return readable(pc.run_end_decode(values))
    if pa.types.is_dictionary(kind):
        words = readable(values.dictionary)
        if _keeps_codes(words.type):
            return pa.DictionaryArray.from_arrays(values.indices, words)
        return words.take(values.indices)
    return values if _plain_type(kind) == kind else values.cast(_plain_type(kind))


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return _plain_type(kind.storage_type)
    if pa.types.is_run_end_encoded(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_dictionary(kind):
        words = _plain_type(kind.value_type)
        return pa.dictionary(kind.index_type, words) if _keeps_codes(words) else words
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    return pa.float32() if pa.types.is_float16(kind) else kind


def _keeps_codes(kind: pa.DataType) -> bool:
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(text or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _index(frame: Any) -> dict[str, Any]:
    """Return the index of a data frame of pandas by the names that Arrow gives it; none where it counts the rows."""
    index = frame.index if hasattr(frame, "iloc") else None
    if index is None or type(index).__name__ == "RangeIndex":
        return {}
    levels = [index.get_level_values(level) for level in range(index.nlevels)]
    return {
        f"__index_level_{number}__" if level.name is None else str(level.name): level
        for number, level in enumerate(levels)
    }


def _column(data: Any, number: int, index: dict[str, Any]) -> Any:
    """Return a column of a table or data frame, or a level of an index of pandas, as Arrow values."""
    if isinstance(data, pa.Table):
        return readable(data.column(number))
    if number >= len(data.columns):
        column = list(index.values())[number - len(data.columns)].to_series()
    else:
        column = data.iloc[:, number] if hasattr(data, "iloc") else data.get_columns()[number]
    kind = type(column.dtype).__name__
    if kind == "Object" or (getattr(column.dtype, "kind", None) == "O" and kind not in OF_PANDAS):
        cells = column.tolist() if hasattr(column, "tolist") else column.to_list()
        array = without_traceback(lambda: pa.array(cells, from_pandas=True))
        # Cells that Arrow does not take are the texts that they have in a CSV file.
        return pa.array(_texts(cells), pa.large_string()) if array is None else readable(array)
    return readable(_of_series(column, kind) if hasattr(column, "iloc") else column.to_arrow())


OF_PANDAS = ("CategoricalDtype", "IntervalDtype", "PeriodDtype", "SparseDtype")
"""Types of pandas that are no objects, although they say that they hold such."""


def _of_series(column: Any, kind: str) -> Any:
    """Return a column of pandas as Arrow values, by the name of its type."""
    if kind == "SparseDtype":
        return pa.array(column.sparse.to_dense(), from_pandas=True)
    if kind == "PeriodDtype":
        return pa.array(column.dt.to_timestamp(), from_pandas=True)
    if kind == "IntervalDtype":
        return pa.array(_texts(column.tolist()), pa.large_string())
    if kind == "CategoricalDtype" and column.cat.categories.dtype.kind not in "iufb":
        words = pa.array(_texts(column.cat.categories.tolist()), pa.large_string())
        codes = column.cat.codes.to_numpy()
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), words)
    return pa.array(column, from_pandas=True)


def _texts(cells: list[Any]) -> list[str | None]:
    """Return cells as texts, alike for every format; see `as_text`.

    Raises:
        TypeError: a cell has no text.
    """
    return [_text(cell) for cell in cells]


TEXTS: tuple[tuple[Any, Callable[[Any], str]], ...] = (
    (str, str.__str__),
    ((bool, np.bool_), lambda cell: "true" if cell else "false"),
    ((int, np.integer), lambda cell: str(int(cell))),
    ((float, np.floating), lambda cell: str(int(cell)) if cell == int(cell) else repr(float(cell))),
    ((Decimal, Fraction, datetime, date, time, timedelta), str),
)


def _text(cell: Any) -> str | None:
    kind = type(cell).__name__
    if cell is None or kind in ("NAType", "NaTType") or (isinstance(cell, float | np.floating) and math.isnan(cell)):
        return None
    if isinstance(cell, float | np.floating) and math.isinf(cell):
        return repr(float(cell))
    if kind == "Interval":
        return str(cell)
    return next(write for kinds, write in TEXTS if isinstance(cell, kinds))(cell)


def _checked(action: Callable[[], Any], data: Any, name: str) -> Any:
    """Return Arrow values; raise InputError that names the column for whatever was raised."""
    array = without_traceback(action)
    if array is None:
        raise InputError(UNREADABLE.format(f"the {type(data).__name__} given as table", name))
    return array

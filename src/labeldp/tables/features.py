"""A mixed-type table of public features as a matrix of floats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, final, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.privacy import InputError
from labeldp.tables.columns import KINDS, MAX_CATEGORIES, FeatureColumn, Kind, clean, has_numbers, recognize
from labeldp.tables.reading import index_of
from labeldp.tables.values import is_text

FORMAT = 1

INDEX = "it is the index of a pandas data frame"
"""Why such a column is left out."""


@final
@dataclass(frozen=True)
class TableEncoder:
    """Turns the feature columns of a table into float64 columns, the same way every time.

    Numbers, booleans, dates and categories are told apart from the table itself: features are public
    here. Never give it the label column.

    Fields:
        columns: the columns that are used, in order.
        notes: sentences on what was left out or simplified, for people.

    Example:
        >>> table = pa.table({"age": ["31", "?", "58"], "job": ["smith", "baker", "smith"], "id": ["a", "b", "c"]})
        >>> encoder = TableEncoder.fit(table)
        >>> encoder.names, encoder.categorical.tolist()
        (('age', 'job'), [False, True])
        >>> encoder.transform(table).tolist()
        [[31.0, 0.0], [nan, 1.0], [58.0, 0.0]]
        >>> encoder.notes
        ("left out 'id': no two rows share a value",)
    """

    columns: tuple[FeatureColumn, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def fit(cls, table: Any, *, columns: Sequence[str] | None = None) -> Self:
        """Look at a table and decide how each column is encoded.

        Constant columns, texts of which no two are equal, and types without a way to a float (lists,
        structures, bytes) are left out, with a note.

        Args:
            table: a pyarrow table, or anything that Arrow can take (a polars or pandas data frame).
            columns: which columns are features; by default all but the index of a pandas data frame.

        Returns:
            The encoder.

        Raises:
            InputError: a column is not there or there twice, or no column is left to use.
        """
        source = as_table(table)
        index = index_of(source.schema) if columns is None else ()
        kept, notes = [], [f"left out {name!r}: {INDEX}" for name in index]
        for name in source.column_names if columns is None else columns:
            if name in index:
                continue
            values = _column(source, name)
            column = recognize(name, values)
            if reason := _useless(column, values):
                notes.append(f"left out {name!r}: {reason}")
                continue
            assert column is not None
            kept.append(column)
            notes.extend(_remarks(column, values))
        if not kept:
            raise InputError("the table has no feature column that can be used; " + "; ".join(notes))
        return cls(tuple(kept), tuple(notes))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the matrix columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def categorical(self) -> NDArray[np.bool_]:
        """Which matrix columns hold category codes, shape (d,); such codes are at most 254."""
        return np.array([column.kind == "category" for column in self.columns], dtype=np.bool_)

    def transform(self, table: Any) -> NDArray[np.float64]:
        """Encode a table, or a block of one.

        Args:
            table: as for `fit`. It may come from another file format and have further columns.

        Returns:
            Shape (n, d). Missing cells are NaN, and so are single cells of another kind; a category that was not seen
            in `fit` has the code of the rest where there is one, else NaN.

        Raises:
            InputError: a column is missing, or holds nothing but another kind of values than when fitted.
        """
        blocks = Blocks(self)
        matrix = blocks.transform(as_table(table))
        blocks.require_kinds()
        return matrix

    def to_json(self) -> dict[str, Any]:
        """The encoder as a JSON object."""
        columns = [
            {"name": column.name, "kind": column.kind, "categories": list(column.categories), "rest": column.rest}
            for column in self.columns
        ]
        return {"format": FORMAT, "columns": columns, "notes": list(self.notes)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """The encoder of `to_json`, refused where it is not one."""
        try:
            if content["format"] != FORMAT:
                raise InputError("the table encoder was written by another version of labeldp")
            columns = tuple(_read_column(entry) for entry in content["columns"])
            return cls(columns, tuple(str(note) for note in content["notes"]))
        except (KeyError, TypeError):
            raise InputError("this is not a table encoder of labeldp") from None


class Blocks:
    """Encodes a table block by block, and tells at its end whether each column was of the kind that it was fitted on.

    Args:
        encoder: fitted.
    """

    def __init__(self, encoder: TableEncoder) -> None:
        self._columns = encoder.columns
        self._others: dict[str, str] = {}
        self._settled: set[str] = set()

    def transform(self, table: Any) -> NDArray[np.float64]:
        """One block; see `TableEncoder.transform`."""
        source = as_table(table)
        matrix = np.empty((source.num_rows, len(self._columns)))
        for place, column in enumerate(self._columns):
            values = _column(source, column.name)
            if column.name not in self._settled:
                self._look(column, values)
            matrix[:, place] = column.encode(values)
        return matrix

    def _look(self, column: FeatureColumn, values: pa.ChunkedArray) -> None:
        """Whether the block has a cell of the column's kind, or what it has in its place; empty cells say nothing."""
        other = column.other_kind(values)
        if other is None:
            self._settled.add(column.name)
        elif other:
            self._others.setdefault(column.name, other)

    def require_kinds(self) -> None:
        """Refuse a column of which no cell is of the kind that was learned from.

        Raises:
            InputError: the column's name, and both kinds.
        """
        for column in self._columns:
            if column.name in self._others and column.name not in self._settled:
                raise InputError(
                    f"column {column.name!r} held {KINDS[column.kind]} when it was learned from, and now holds "
                    f"{self._others[column.name]}"
                )


def as_table(table: Any) -> pa.Table:
    """An Arrow table of whatever Arrow can take without copying cell by cell."""
    if isinstance(table, pa.Table):
        return table
    if isinstance(table, pa.RecordBatch):
        return pa.Table.from_batches([table])
    if not hasattr(table, "__arrow_c_stream__"):
        raise InputError("table must be a pyarrow table, or a data frame that Arrow can take (polars, pandas)")
    return pa.table(table)


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    places = table.schema.get_all_field_indices(name)
    if len(places) != 1:
        raise InputError(f"the table needs exactly one feature column {name!r}, and it has {len(places)}")
    return table.column(places[0])


def _useless(column: FeatureColumn | None, values: pa.ChunkedArray) -> str | None:
    """Why a column is left out, or None."""
    if column is None:
        return f"its type {values.type} is not handled"
    encoded = column.encode(values)
    missing = np.isnan(encoded)
    if missing.all():
        return "every value is missing"
    if not missing.any() and encoded.min() == encoded.max():
        return "every value is the same"
    if column.kind == "category" and not missing.any() and _all_distinct(column, encoded, values):
        return "no two rows share a value"
    return None


def _all_distinct(column: FeatureColumn, encoded: NDArray[np.float64], values: pa.ChunkedArray) -> bool:
    if not column.rest:
        return len(column.categories) == len(encoded)
    return is_text(values.type) and len(clean(values).unique()) == len(encoded)


def _remarks(column: FeatureColumn, values: pa.ChunkedArray) -> list[str]:
    remarks = []
    if column.rest:
        remarks.append(f"{column.name!r}: the {MAX_CATEGORIES} most frequent categories are kept, the rest are one")
    if column.kind == "category" and is_text(values.type) and has_numbers(clean(values).unique()):
        remarks.append(f"{column.name!r}: numbers and texts are mixed, so all are taken as categories")
    if pa.types.is_floating(values.type) and np.isinf(values.to_numpy()).any():
        remarks.append(f"{column.name!r}: infinite values are taken as missing")
    return remarks


def _read_column(entry: Mapping[str, Any]) -> FeatureColumn:
    if entry["kind"] not in get_args(Kind):
        raise InputError("the table encoder has a column of a kind that this version does not know")
    return FeatureColumn(str(entry["name"]), entry["kind"], tuple(map(str, entry["categories"])), bool(entry["rest"]))

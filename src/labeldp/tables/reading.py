"""A table on disk, open for reading by blocks: what every format offers."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from labeldp.privacy import InputError

BLOCK_ROWS = 1 << 18
SHOWN_COLUMNS = 12
NO_HEADER = "its first row was read as the column names: does it have a header row?"


@dataclass(frozen=True)
class TableFile(ABC):
    """A CSV or Parquet file whose columns are known and which holds at least one row.

    Get one from `open_table`. It keeps no file open between calls, so it may be read as often as needed.

    Fields:
        path: where the file is.
        columns: the names of its columns, in order, all different.
        rows: the number of rows where the file says so (Parquet), else None.
        index: the columns that pandas wrote for the index of a data frame: row numbers or names, and no features.
    """

    declares_names: ClassVar[bool]
    """Whether the format itself names the columns, so that an error may list them."""

    path: Path
    columns: tuple[str, ...]
    rows: int | None
    index: tuple[str, ...] = field(default=(), kw_only=True)

    @abstractmethod
    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """The types under which `columns` are read, without any metadata of the file."""

    @abstractmethod
    def _stream(self, columns: tuple[str, ...], block_rows: int) -> Iterator[pa.RecordBatch]:
        """Non-empty blocks of the named columns, in order."""

    def blocks(self, columns: Sequence[str] | None = None, *, block_rows: int = BLOCK_ROWS) -> Iterator[pa.RecordBatch]:
        """Stream the rows in order, in record batches of at most `block_rows` rows.

        Args:
            columns: which columns, in which order; all by default. Others are not decoded.
            block_rows: the most rows in one block, at least 1. Memory grows with it, not with the file.

        Returns:
            An iterator of non-empty record batches. Wrong arguments are refused at once; what is wrong
            further down in the file is refused when its block is reached.

        Raises:
            InputError: a column that is not there, or a file that turns out to be damaged. The message
                never holds the content of a cell.
        """
        if block_rows < 1:
            raise InputError("block_rows must be at least 1")
        return self._stream(self._chosen(columns), block_rows)

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The named columns (all by default) in memory at once, under the same types as `blocks`."""
        return pa.Table.from_batches(self.blocks(columns), schema=self.schema(columns))

    def require(self, column: str, argument: str) -> str:
        """`column` itself where the table has it; else an InputError that names `argument` and what is close."""
        if column in self.columns:
            return column
        raise InputError(f"{argument}: {self.path} has no column {column!r}{self._known(column)}")

    def _chosen(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        if columns is None:
            return self.columns
        if isinstance(columns, str) or not columns or len(set(columns)) != len(columns):
            raise InputError("columns must be a list of different column names, at least one")
        return tuple(self.require(column, "columns") for column in columns)

    def _known(self, column: str) -> str:
        """The rest of the sentence. The first row of a CSV file may be a record: its cells stay unsaid."""
        close = get_close_matches(column, self.columns, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        if not self.declares_names:
            return hint or f"; {NO_HEADER}"
        shown = ", ".join(repr(name[:40]) for name in self.columns[:SHOWN_COLUMNS])
        more = f" and {len(self.columns) - SHOWN_COLUMNS} more" if len(self.columns) > SHOWN_COLUMNS else ""
        return f"{hint} It has {shown}{more}" if hint else f"; it has {shown}{more}"


def index_of(schema: pa.Schema) -> tuple[str, ...]:
    """The columns of a table that pandas made of the index of a data frame, as the table itself says."""
    try:
        named = json.loads((schema.metadata or {})[b"pandas"])["index_columns"]
        return tuple(name for name in schema.names if name in named)
    except (KeyError, TypeError, ValueError):  # not of pandas, or not as pandas writes it
        return ()


def check_names(path: Path, columns: Sequence[str], *, declared: bool) -> tuple[str, ...]:
    """The column names of a file, refused where there are none or two are the same."""
    if not columns:
        raise InputError(f"{path} has no columns")
    if len(set(columns)) == len(columns):
        return tuple(columns)
    if not declared:
        raise InputError(f"{path} has repeated column names, and each must stand once; {NO_HEADER}")
    twice = next(name for place, name in enumerate(columns) if name in columns[:place])
    raise InputError(f"{path} has more than one column named {twice!r}; rename all but one")

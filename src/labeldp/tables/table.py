"""One `Table` for rows of any size: files, folders, Arrow streams, images, and data frames of an engine."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar, final

import pyarrow as pa

from labeldp.privacy import InputError, LabelDPError, UnreadableRows, check_growth, did_you_mean, json_value
from labeldp.tables.formats import format_of
from labeldp.tables.frames import as_table, is_frame, readable

BLOCK_ROWS, BLOCK_CELLS = 1 << 16, 1 << 20
"""A block has so many rows; fewer where a table has so many columns that it would have more cells than these."""

Task = Callable[[Iterable[pa.RecordBatch]], bytes]
"""Function of the blocks of one part of a table. It can be pickled, and is as secret as the labels."""

Join = Callable[[Iterable[bytes]], bytes]
"""Joins the results of several tasks to one."""

Stamp = tuple[int, int, int]
"""Size, time of the last change and number of a file."""

CHANGED = "the table changed while it was being {}"
"""Beginning of the message about a changed table, with a gap for a verb."""

SHOWN_NAMES = 12
NO_HEADER = "its first row was read as the column names: does it have a header row?"


@dataclass(frozen=True)
class Table:
    """Rows of any size; get one from `open_table`. Nothing stays open between calls, so it may be read again.

    A format overrides `_stream`. An engine, whose parts lie on many machines, overrides `run`.

    Fields:
        path: path of the file or folder; a name in words where there is none.
        schema: the names and types of its columns, as they are read.
        rows: the number of rows if the source states it, else None.
        index: the columns that pandas wrote for the index of a data frame; they are not features.
        stamp: of the file as it was opened; None where there is no file.
    """

    declares_names: ClassVar[bool] = True
    """Whether the format itself declares the names of columns, so that an error may list them."""

    path: Path
    schema: pa.Schema = field(repr=False)
    rows: int | None = None
    index: tuple[str, ...] = ()
    stamp: Stamp | None = field(default=None, repr=False)

    def _stream(
        self, columns: tuple[str, ...], block_rows: int, encoded: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the named columns in order, in blocks of any number of rows: `blocks` cuts them again."""
        raise InputError(f": the rows of {self.path} have no order; write them to files first", argument="data")

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(self.schema.names)

    def types(self, columns: Sequence[str]) -> pa.Schema:
        """Return the names and types of some columns."""
        return pa.schema([self.schema.field(name) for name in columns])

    @property
    def parts(self) -> "tuple[Table, ...]":
        """The files of a folder, in order; otherwise the table itself."""
        return (self,)

    @property
    def names(self) -> tuple[str, ...]:
        """The paths of the parts within the folder; otherwise the name of the file."""
        return (self.path.name,)

    def blocks(
        self, columns: Sequence[str] | None = None, *, block_rows: int | None = None, encoded: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows in order, in record batches of `block_rows` rows; the last one may have fewer.

        Blocks are cut by numbers of rows alone. A file is stored in blocks of bytes, in which labels count: whoever
        sees where those end would learn how long labels are.

        Args:
            columns: the columns to read, in this order; all by default. Others are not decoded.
            block_rows: the rows in one block, at least 1; `block_rows_of` the columns by default. Memory grows with
                it, not with the table.
            encoded: a column of texts that may come as a dictionary, where that is faster to read.

        Guarantee (cut_by_rows): how many rows a block has depends on the number of columns and of rows alone.

        Returns:
            An iterator of non-empty record batches. Wrong arguments are refused at once; a damaged block is refused
            when it is reached.

        Raises:
            InputError: a column does not exist, the file is damaged, or an engine holds rows without an order. The
                message never holds the content of a cell.
        """
        chosen = self._chosen(columns)
        rows = block_rows_of(len(chosen)) if block_rows is None else block_rows
        if rows < 1:
            raise InputError("block_rows must be at least 1")
        return recut(self._stream(chosen, rows, encoded), rows)

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read the named columns (all by default) at once, with the same types as `blocks`."""
        blocks = self._within_memory(self.blocks(columns))
        return pa.Table.from_batches(blocks, schema=self.types(self._chosen(columns)))

    def run(
        self, task: Task, columns: Sequence[str], *, join: Join | None = None, by: str | None = None
    ) -> Iterable[bytes]:
        """Run a task on each part of the table, where it is, and return its results.

        This table is one part, read in order. An engine runs the task on each of its parts, in any order.

        Args:
            columns: the columns that the task reads.
            join: joins results on the way, if they are large and many.
            by: a column whose equal values must be in one part.

        Raises:
            LabelDPError: a file is another than it was when it was opened.
        """
        result = task(self.blocks(list(dict.fromkeys(columns))))
        if not self.is_unchanged():
            raise LabelDPError(f"{self.path} changed while it was being read")
        return [result]

    def placed(self, ids: str, records: int) -> "Table":
        """Return the table with its parts and their order by public ids alone.

        Engines split files by bytes, in which labels count: what leaves must not have such parts. Of a file or a folder
        the parts are public, and this is the table itself.

        Args:
            ids: the column of record ids.
            records: how many there are.
        """
        return self

    def is_unchanged(self) -> bool:
        """Return whether the files are unchanged since they were opened, and a folder holds no others."""
        return self.stamp is None or stamp_of(self.path) == self.stamp

    def require(self, column: str, argument: str) -> str:
        """Return `column` if the table has it; else raise InputError for `argument`, with a similar name."""
        if column in self.columns:
            check_names(self.path, [name for name in self.columns if name == column], declared=True)
            return column
        raise InputError(f": {self.path} has no column {column!r}{self._hint(column)}", argument=argument)

    def _within_memory(self, blocks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield blocks; refuse them when they are larger than files of this size can hold."""
        stamps = [part.stamp for part in self.parts]
        stored, size = sum(stamp[0] for stamp in stamps if stamp is not None), 0
        for block in blocks:
            size += block.nbytes
            if None not in stamps:
                check_growth(self.path, stored, size, UnreadableRows)
            yield block

    def _chosen(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        if columns is None:
            return self.columns
        if isinstance(columns, str) or not columns or len(set(columns)) != len(columns):
            raise InputError("must be a list of different column names, at least one", argument="columns")
        return tuple(self.require(column, "columns") for column in columns)

    def _hint(self, column: str) -> str:
        """Return a hint on the columns; not for CSV, whose first row may be a record with private cells."""
        close = did_you_mean(str(column), self.columns)
        hint = f"; {close}" if close else ""
        if not self.declares_names:
            return hint or f"; {NO_HEADER}"
        shown = first_names(self.columns)
        return f"{hint} It has {shown}" if hint else f"; it has {shown}"


def first_names(names: Sequence[str]) -> str:
    """Return the first of many names, as a message shows them."""
    shown = ", ".join(repr(name[:40]) for name in names[:SHOWN_NAMES])
    return f"{shown} and {len(names) - SHOWN_NAMES:,} more" if len(names) > SHOWN_NAMES else shown


def open_table(data: Any) -> Table:
    """Open data of any size as a table; see `FORMATS` for what is taken.

    The format of a file is recognized from its content. A CSV file needs a header row; its delimiter is the one of
    comma, tab, semicolon and bar that divides that row into most names, or a line such as `sep=;` before it says which.
    Of a folder, each file in it and in its subfolders is a part, whose name does not begin with "_" or ".".

    Args:
        data: the path of a file or of a folder; a table, a data frame or a query that gives an Arrow stream each time
            it is asked (pyarrow, polars, pandas, DuckDB); a data frame of Spark; or a `Table`, which is returned.

    Returns:
        A `Table` with at least one column and one row.

    Raises:
        InputError: the data do not exist, are not a table, have no rows or repeat the name of a column. No message
            holds the content of a cell.
    """
    if isinstance(data, Table):
        return data
    if not isinstance(data, str | os.PathLike):
        table: Table = format_of(data).load()(data)
        return table
    path = Path(data)
    stamp = stamp_of(path)
    table = format_of(path).load()(path)
    return replace(table, stamp=stamp) if path.is_file() else table


def stamp_of(path: Path) -> Stamp | None:
    """Return size, time and number of a file, which change with it; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino


@final
@dataclass(frozen=True)
class ArrowTable(Table):
    """A table in memory, or a query: anything that gives an Arrow stream each time it is asked.

    Examples are tables and data sets of pyarrow, data frames of polars and pandas, and relations of DuckDB. A query
    must give the same rows each time.
    """

    source: Any = field(default=None, repr=False, compare=False)

    def _stream(
        self, columns: tuple[str, ...], block_rows: int, encoded: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        explain = partial(_source_problem, self.path)
        reader = without_values(lambda: _reader(self.source, list(columns), block_rows), explain)
        schema = self.types(columns)
        for batch in blocks_without_values(iter(reader), explain):
            yield typed(batch.select(list(columns)), schema)


def open_stream(source: Any) -> ArrowTable:
    """Open an object with `__arrow_c_stream__`, or a data set of pyarrow, as a table."""
    name = f"the {type(source).__name__} given as data"
    if is_frame(source):
        source = as_table(source)
    if isinstance(source, pa.RecordBatchReader):
        raise InputError(f"{name} can be read only once, and data are read more than once: give a table or a file")
    path = Path(name)
    schema = without_values(lambda: _reader(source, None, 1).schema, partial(_source_problem, path))
    check_names(path, schema.names, declared=True)
    table = ArrowTable(path, without_metadata(schema), index=index_of(schema), source=source)
    if next(table.blocks(table.columns[:1]), None) is None:
        raise InputError(f"{name} has columns but no rows")
    return table


def _reader(source: Any, columns: list[str] | None, block_rows: int) -> pa.RecordBatchReader:
    """Return a stream of a source; a data set reads only the columns that are asked for."""
    if hasattr(source, "scanner"):
        return source.scanner(columns=columns, batch_size=block_rows, use_threads=False).to_reader()
    return pa.RecordBatchReader.from_stream(source)


def _source_problem(path: Path, error: Exception) -> str:
    return f"{path} could not be read"


def index_of(schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns of a table that hold the index of a data frame, by the metadata that pandas wrote."""
    try:
        named = json_value((schema.metadata or {})[b"pandas"])["index_columns"]
        return tuple(name for name in schema.names if name in named)
    except (KeyError, TypeError, ValueError):  # not of pandas, or not as pandas writes it
        return ()


def without_metadata(schema: pa.Schema) -> pa.Schema:
    """Return the names and types of a schema alone; dictionaries get room for those of all blocks together."""
    kinds = [
        pa.dictionary(pa.int32(), kind.value_type, kind.ordered) if pa.types.is_dictionary(kind) else kind
        for kind in schema.types
    ]
    return pa.schema(list(zip(schema.names, kinds, strict=True)))


def check_names(path: Path, columns: Sequence[str], *, declared: bool) -> None:
    """Raise InputError if there are no column names or two are the same."""
    if not columns:
        raise InputError(f"{path} has no columns")
    if len(set(columns)) == len(columns):
        return
    if not declared and list(columns).count("") > 1:
        raise InputError(f"{path} has more than one column without a name: does its header end in delimiters?")
    if not declared:
        raise InputError(f"{path} has repeated column names, and each must stand once; {NO_HEADER}")
    twice = next(name for number, name in enumerate(columns) if name in columns[:number])
    raise InputError(f"{path} has more than one column named {twice!r}; rename all but one")


def typed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the types of a schema, without the metadata of the source."""
    arrays = [array.cast(column.type) for array, column in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def block_rows_of(columns: int) -> int:
    """Return how many rows a block of a table has, by the number of its columns."""
    return max(1, min(BLOCK_ROWS, BLOCK_CELLS // columns))


def recut(batches: Iterable[pa.RecordBatch], rows: int | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in the same order, in blocks of `rows` rows, of which only the last one may have fewer.

    By default they have as many as `block_rows_of` says.
    """
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        rows = rows or block_rows_of(batch.num_columns)
        start = 0
        while count + batch.num_rows - start >= rows:
            held.append(batch.slice(start, rows - count))
            yield _joined(held)
            held, start, count = [], start + rows - count, 0
        if start < batch.num_rows:
            held.append(batch.slice(start))
            count += batch.num_rows - start
    if held:
        yield _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return blocks as one; a column that is a dictionary in some of them alone is decoded."""
    first = batches[0]
    if len(batches) == 1:
        return first
    columns = []
    for number, kind in enumerate(first.schema.types):
        pieces = [batch.column(number) for batch in batches]
        alike = all(piece.type == kind for piece in pieces)
        columns.append(_concatenated(pieces if alike else [plain(piece) for piece in pieces]))
    return pa.RecordBatch.from_arrays(columns, names=first.schema.names)


def _concatenated(pieces: list[Any]) -> Any:
    """Return arrays as one; raise UnreadableRows if it would be too large."""
    with suppress(pa.ArrowException, MemoryError):
        return pa.concat_arrays(pieces)
    raise UnreadableRows(
        "a block of rows holds more than 2 GiB in one column, or than the memory: shorten the texts of the table"
    )


def plain(values: Any) -> Any:
    """Return the values, decoded if they are a dictionary."""
    if not pa.types.is_dictionary(values.type):
        return values
    values = readable(values)
    return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values


Result = TypeVar("Result")
Explain = Callable[[Exception], str]


def without_values(action: Callable[[], Result], explain: Explain) -> Result:
    """Return the result of `action`; turn a failure to read into an InputError without the original message."""
    try:
        return action()
    except LabelDPError:
        raise
    except MemoryError as error:
        problem = f"{explain(error)}, or too large for the memory"
    except Exception as error:  # whatever a library raises may quote a row
        problem = explain(error)
    raise InputError(problem)  # outside the handler: its __context__ could quote a row


def blocks_without_values(batches: Iterator[pa.RecordBatch], explain: Explain) -> Iterator[pa.RecordBatch]:
    """Yield the blocks; turn failures to read one into UnreadableRows, as `without_values` does."""
    while True:
        try:
            batch = without_values(lambda: next(batches, None), explain)
        except InputError as error:
            unreadable = UnreadableRows(str(error))
            break
        if batch is None:
            return
        yield batch
    raise unreadable

"""Read CSV, Parquet and Arrow files, and Arrow tables in memory, by blocks."""

import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv, parquet

from labeldp.privacy import InputError, check_growth, did_you_mean, json_value
from labeldp.tables.compressed import largest_batch

BLOCK_ROWS = 1 << 18
"""The number of rows of a table that are read at a time."""

SHOWN_COLUMNS = 12
NO_HEADER = "its first row was read as the column names: does it have a header row?"


@dataclass(frozen=True)
class TableFile(ABC):
    """A file, or a table in memory, with known columns and at least one row; get one from `open_table`.

    No file stays open between calls, so it may be read any number of times.

    Fields:
        path: path of the file.
        columns: the different names of its columns, in order.
        rows: the number of rows if the file states it (Parquet), else None.
        index: the columns that pandas wrote for the index of a data frame; they are not features.
    """

    declares_names: ClassVar[bool]
    """Whether the format itself declares the names of columns, so that an error may list them."""

    path: Path
    columns: tuple[str, ...]
    rows: int | None
    index: tuple[str, ...] = field(default=(), kw_only=True)

    @abstractmethod
    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the types of `columns` as they are read, without the metadata of the file."""

    @abstractmethod
    def _stream(
        self, columns: tuple[str, ...], block_rows: int, encoded: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield non-empty blocks of the named columns, in order."""

    def blocks(
        self, columns: Sequence[str] | None = None, *, block_rows: int = BLOCK_ROWS, encoded: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows in order, in record batches of at most `block_rows` rows.

        Args:
            columns: the columns to read, in this order; all by default. Others are not decoded.
            block_rows: the most rows in one block, at least 1. Memory grows with it, not with the file.
            encoded: a column of texts that may come as a dictionary, where that is faster to read.

        Returns:
            An iterator of non-empty record batches. Wrong arguments are refused at once; a damaged block is refused
            when it is reached.

        Raises:
            InputError: a column does not exist, or the file is damaged. The message never holds the content of a cell.
        """
        if block_rows < 1:
            raise InputError("block_rows must be at least 1")
        return self._stream(self._chosen(columns), block_rows, encoded)

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read the named columns (all by default) at once, with the same types as `blocks`."""
        return pa.Table.from_batches(self._within_memory(self.blocks(columns)), schema=self.schema(columns))

    def _within_memory(self, blocks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield blocks that are all kept; refuse them when they are more than a file of this size can hold."""
        stored, size = self.path.stat().st_size if self.path.is_file() else None, 0
        for block in blocks:
            size += block.nbytes
            if stored is not None:
                check_growth(self.path, stored, size)
            yield block

    def require(self, column: str, argument: str) -> str:
        """Return `column` if the table has it; else raise InputError for `argument`, with a similar name."""
        if column in self.columns:
            return column
        raise InputError(f": {self.path} has no column {column!r}{self._known(column)}", argument=argument)

    def _chosen(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        if columns is None:
            return self.columns
        if isinstance(columns, str) or not columns or len(set(columns)) != len(columns):
            raise InputError("must be a list of different column names, at least one", argument="columns")
        return tuple(self.require(column, "columns") for column in columns)

    def _known(self, column: str) -> str:
        """Return a hint on the known columns; not for CSV, whose first row may be a record with private cells."""
        close = did_you_mean(column, self.columns)
        hint = f"; {close}" if close else ""
        if not self.declares_names:
            return hint or f"; {NO_HEADER}"
        shown = ", ".join(repr(name[:40]) for name in self.columns[:SHOWN_COLUMNS])
        more = f" and {len(self.columns) - SHOWN_COLUMNS} more" if len(self.columns) > SHOWN_COLUMNS else ""
        return f"{hint} It has {shown}{more}" if hint else f"; it has {shown}{more}"


def index_of(schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns of a table that hold the index of a data frame, by the metadata that pandas wrote."""
    try:
        named = json_value((schema.metadata or {})[b"pandas"])["index_columns"]
        return tuple(name for name in schema.names if name in named)
    except (KeyError, TypeError, ValueError):  # not of pandas, or not as pandas writes it
        return ()


def check_names(path: Path, columns: Sequence[str], *, declared: bool) -> tuple[str, ...]:
    """Return the column names of a file; raise InputError if there are none or two are the same."""
    if not columns:
        raise InputError(f"{path} has no columns")
    if len(set(columns)) == len(columns):
        return tuple(columns)
    if not declared:
        raise InputError(f"{path} has repeated column names, and each must stand once; {NO_HEADER}")
    twice = next(name for place, name in enumerate(columns) if name in columns[:place])
    raise InputError(f"{path} has more than one column named {twice!r}; rename all but one")


def open_table(path: str | os.PathLike[str]) -> TableFile:
    """Open a CSV (plain, gzip, bz2, zstd, lz4), Parquet or Arrow (IPC, Feather) file for reading by blocks.

    The format is recognized from the content. A CSV file needs a header row; its delimiter is the most frequent of
    comma, tab, semicolon and bar in that row.

    Args:
        path: a regular file.

    Returns:
        A `TableFile` with at least one column and one row.

    Raises:
        InputError: the file does not exist, is a directory, is not a table, has no rows or repeats a column name. No
            message holds the content of a cell.
    """
    place = Path(path)
    head = _head(place)
    if head.startswith(PARQUET_MAGIC):
        return open_parquet(place)
    if head.startswith(ARROW_MAGIC):
        return open_arrow(place)
    for name, suffixes in (("Parquet", SUFFIXES), ("Arrow", ARROW_SUFFIXES)):
        if place.suffix.lower() in suffixes:
            raise InputError(f"{place} is named as {name} but is not: it may be damaged or truncated")
    other = next((name for name, starts in OTHER_FORMATS.items() if head.startswith(starts)), None)
    if other is None and place.suffix.lower() in JSON_SUFFIXES:
        other = JSON
    if other is not None:
        raise InputError(f"{place} is {other}: save it as CSV or Parquet first")
    return open_csv(place, head)


JSON = "a JSON file"
JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")
OTHER_FORMATS = {
    JSON: (b'{"', b'[{"', b"[{\n", b"[\n", b"{\n", b"[["),
    "an Excel file or another ZIP archive": (b"PK\x03\x04",),
    "an old Excel file": (b"\xd0\xcf\x11\xe0",),
}
"""How files begin that people have tables in, and that are not read."""


def _head(path: Path) -> bytes:
    """Return the first bytes of a regular, readable file that is not empty."""
    problem = None
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise InputError(f"{path} is a directory; a CSV or Parquet file is needed")
        if not stat.S_ISREG(mode):
            raise InputError(f"{path} is not a regular file; it is read more than once, so save it first")
        with path.open("rb") as file:
            head = file.read(8)
    except FileNotFoundError:
        problem = f"no such file: {path}"
    except OSError as error:
        problem = f"{path} cannot be read: {error.strerror}"
    if problem:
        raise InputError(problem)
    if not head:
        raise InputError(f"{path} is empty: a header row and at least one more row are needed")
    return head


MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
DELIMITERS = ",\t;|"
CHUNK_BYTES = 1 << 20
BLOCK_BYTES = 1 << 20


@final
@dataclass(frozen=True)
class CsvFile(TableFile):
    """A CSV file with a header row, in UTF-8.

    Every column is read as text: '007' stays '007', and no block can contradict a type that was guessed from an
    earlier one. An empty cell is missing, a quoted empty cell is the empty text; blank lines are skipped.
    `TableEncoder` recognizes which columns are numbers.
    """

    declares_names: ClassVar[bool] = False
    delimiter: str = ","
    compression: str | None = None

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        return pa.schema([(name, pa.string()) for name in self._chosen(columns)])

    def _stream(
        self, columns: tuple[str, ...], block_rows: int, encoded: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        explain = partial(_csv_problem, self.path)
        reader = without_values(lambda: self._reader(columns), explain)
        for batch in blocks_without_values(iter(reader), explain):
            for start in range(0, batch.num_rows, block_rows):
                yield batch.slice(start, block_rows)

    def _reader(self, columns: tuple[str, ...]) -> csv.CSVStreamingReader:
        return csv.open_csv(
            pa.input_stream(str(self.path), compression=self.compression),
            read_options=csv.ReadOptions(block_size=BLOCK_BYTES),
            parse_options=csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types={name: pa.string() for name in self.columns},
                include_columns=list(columns),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
            ),
        )


def open_csv(path: Path, head: bytes) -> CsvFile:
    """Open the CSV file at `path`, whose first bytes are `head`; read it once and refuse it if it is damaged."""
    compression = next((name for magic, name in MAGIC.items() if head.startswith(magic)), None)
    explain = partial(_csv_problem, path)
    delimiter = _delimiter(path, without_values(lambda: next(_chunks(path, compression), b""), explain))
    without_values(lambda: _scan(path, compression, delimiter), explain)
    draft = CsvFile(path, (), None, delimiter, compression)
    names = without_values(lambda: draft._reader(()).schema.names, explain)
    columns = check_names(path, names, declared=False)
    index = columns[:1] if not columns[0] else ()  # pandas writes the index first, without a name
    table = CsvFile(path, columns, None, delimiter, compression, index=index)
    if next(table.blocks(block_rows=1), None) is None:
        raise InputError(f"{path} has a header row but no other row")
    return table


def _chunks(path: Path, compression: str | None) -> Iterator[bytes]:
    with pa.input_stream(str(path), compression=compression) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk


def _delimiter(path: Path, start: bytes) -> str:
    """Return the most frequent delimiter in the header, the first line of `start` that is not blank."""
    if b"\0" in start:
        raise InputError(_not_a_table(path))
    text = start.removeprefix(BYTE_ORDER_MARK).strip()
    if not text:
        raise InputError(f"{path} is empty: a header row and at least one more row are needed")
    lines = text.splitlines()
    if len(lines) == 1 and len(start) < CHUNK_BYTES:
        raise InputError(f"{path} has a header row but no other row")
    return max(DELIMITERS, key=lines[0].decode("utf-8", "replace").count)


def _scan(path: Path, compression: str | None, delimiter: str) -> None:
    """Check the raw text to its end for NUL bytes and unsound quotes, which a parser reports too late or never."""
    quotes = QuoteCheck(delimiter)
    for chunk in _chunks(path, compression):
        if b"\0" in chunk:
            raise InputError(_not_a_table(path))
        quotes.add(chunk)
    if not quotes.sound():
        raise InputError(f"{path} is not a well-formed CSV file: a quote is not closed, or not doubled in a cell")


def _not_a_table(path: Path) -> str:
    return f"{path} is not a table: Parquet, or CSV in UTF-8 (plain, gzip, bz2, zstd or lz4) is needed"


def _csv_problem(path: Path, error: Exception) -> str:
    """Return what is wrong with a CSV file, by the kind of an error, without its text, which quotes cells."""
    said = str(error)
    if isinstance(error, PermissionError):
        return f"{path} may not be read: permission denied"
    if isinstance(error, UnicodeError) or "UTF8" in said or "UTF-8" in said:
        return _not_a_table(path)
    if "CSV parse error" in said or "columns" in said:
        return f"{path} is not a well-formed CSV file: a row has more or fewer cells than the header"
    if "straddl" in said:
        return f"{path} is not a well-formed CSV file: a row is longer than 1 MiB"
    if isinstance(error, OSError):
        return f"{path} is damaged or truncated: it cannot be read to its end"
    return f"{path} is not a well-formed CSV file"


QUOTE = ord('"')
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@final
class QuoteCheck:
    """Checks the quotes of a CSV text, which is added by chunks of bytes.

    Example:
        >>> def sound(text: bytes) -> bool:
        ...     check = QuoteCheck(",")
        ...     check.add(text)
        ...     return check.sound()
        >>> sound(b'1,"two lines\\nin ""one"" cell"\\n'), sound(b'7" x 9", no lines spanned\\n')
        (True, True)
        >>> sound(b'1,"open\\n2,x\\n'), sound(b'1,"open\\n2,"next"\\n3,"last\\n')
        (False, False)
    """

    def __init__(self, delimiter: str) -> None:
        self._edges = np.zeros(256, dtype=np.bool_)
        self._edges[list((delimiter + '"\r\n').encode())] = True
        self._before = b"\n"
        self._inside = False
        self._spans = False
        self._misplaced = False
        self._started = False

    def add(self, chunk: bytes) -> None:
        """Add the next bytes."""
        if not self._started:
            chunk = chunk.removeprefix(BYTE_ORDER_MARK)
            self._started = True
        text = self._before + chunk
        if self._inside or b'"' in text:
            self._look(np.frombuffer(text, dtype=np.uint8))
        self._before = text[-1:]

    def sound(self) -> bool:
        """Return whether every quote is closed and, if cells span lines, none is misplaced."""
        return not self._inside and not (self._spans and self._misplaced)

    def _look(self, text: NDArray[np.uint8]) -> None:
        """Check the quotes of a text, whose first byte is the last one of the chunk before."""
        places = np.flatnonzero((text == QUOTE) | (text == ord("\n")) | (text == ord("\r")))
        places = places[places > 0]
        quotes = text[places] == QUOTE
        fresh = places[quotes]
        starts, ends = fresh[int(self._inside) :: 2], fresh[int(not self._inside) :: 2]
        if text[0] == QUOTE and not self._inside:  # a quote that closed, or so it seemed
            ends = np.concatenate([[0], ends])
        known = ends[ends < len(text) - 1] + 1
        self._misplaced |= not (self._edges[text[starts - 1]].all() and self._edges[text[known]].all())
        within = (np.cumsum(quotes, dtype=np.uint8) & 1) != self._inside
        self._spans |= bool((within & ~quotes).any())
        self._inside ^= len(fresh) % 2 == 1


PARQUET_MAGIC = b"PAR1"
SUFFIXES = (".parquet", ".pq")
BUFFER_BYTES = 1 << 20


@final
@dataclass(frozen=True)
class ParquetFile(TableFile):
    """A Parquet file, read through small buffers: a row group need not fit in memory."""

    declares_names: ClassVar[bool] = True
    types: pa.Schema

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        return pa.schema([self.types.field(name) for name in self._chosen(columns)])

    def _stream(
        self, columns: tuple[str, ...], block_rows: int, encoded: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        explain = partial(_parquet_problem, self.path)
        texts = (encoded,) if encoded in columns and _is_plain_text(self.types.field(encoded).type) else ()
        with without_values(lambda: _open(self.path, texts), explain) as file:
            batches = file.iter_batches(batch_size=block_rows, columns=list(columns), use_threads=False)
            for batch in blocks_without_values(batches, explain):
                if batch.num_rows:
                    arrays = [batch.column(name) for name in columns]
                    types = [pa.field(name, each.type) for name, each in zip(columns, arrays, strict=True)]
                    schema = self.schema(columns) if not texts else pa.schema(types)
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def open_parquet(path: Path) -> ParquetFile:
    """Open the Parquet file at `path`; raise InputError if its footer cannot be read or it has no columns or rows."""
    with without_values(lambda: _open(path), partial(_parquet_problem, path)) as file:
        names = check_names(path, file.schema_arrow.names, declared=True)
        types = pa.schema([field.remove_metadata() for field in file.schema_arrow])
        rows, index = int(file.metadata.num_rows), index_of(file.schema_arrow)
    if not rows:
        raise InputError(f"{path} has columns but no rows")
    return ParquetFile(path, names, rows, types, index=index)


def _open(path: Path, texts: Sequence[str] = ()) -> parquet.ParquetFile:
    return parquet.ParquetFile(path, buffer_size=BUFFER_BYTES, pre_buffer=False, read_dictionary=list(texts))


def _is_plain_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _parquet_problem(path: Path, error: Exception) -> str:
    """Return what is wrong with a Parquet file, by the kind of an error."""
    if isinstance(error, PermissionError):
        return f"{path} may not be read: permission denied"
    return f"{path} is a damaged or truncated Parquet file, or of a kind that cannot be read (encrypted)"


ARROW_MAGIC = b"ARROW1"
ARROW_SUFFIXES = (".arrow", ".feather")


@final
@dataclass(frozen=True)
class ArrowFile(TableFile):
    """An Arrow file (IPC file format, Feather version 2), read one record batch after the other."""

    declares_names: ClassVar[bool] = True
    types: pa.Schema

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        return pa.schema([self.types.field(name) for name in self._chosen(columns)])

    def _stream(
        self, columns: tuple[str, ...], block_rows: int, encoded: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        explain = partial(_arrow_problem, self.path)
        check_growth(self.path, *without_values(lambda: _sizes(self.path), explain))
        with without_values(lambda: pa.OSFile(str(self.path), "rb"), explain) as file:
            # Only these columns are read.
            places = [self.columns.index(name) for name in columns]
            options = pa.ipc.IpcReadOptions(included_fields=places)
            reader = without_values(lambda: pa.ipc.open_file(file, options=options), explain)
            batches = (reader.get_batch(place) for place in range(reader.num_record_batches))
            for batch in blocks_without_values(batches, explain):
                without_values(partial(batch.validate, full=True), explain)
                yield from _sliced(batch.select(list(columns)), self.schema(columns), block_rows)


def open_arrow(path: Path) -> ArrowFile:
    """Open the Arrow file at `path`; raise InputError if it cannot be read or has no columns or rows."""
    with without_values(lambda: pa.OSFile(str(path), "rb"), partial(_arrow_problem, path)) as file:
        found = without_values(lambda: pa.ipc.open_file(file).schema, partial(_arrow_problem, path))
    names = check_names(path, found.names, declared=True)
    types = pa.schema([field.remove_metadata() for field in found])
    table = ArrowFile(path, names, None, types, index=index_of(found))
    if next(table.blocks(names[:1], block_rows=1), None) is None:
        raise InputError(f"{path} has columns but no rows")
    return table


def _sizes(path: Path) -> tuple[int, int]:
    """Return the bytes of an Arrow file, and those that its compressed dictionaries and largest batch would have."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            return size, largest_batch(file, size)
        except ValueError:
            raise pa.ArrowInvalid("not as Arrow writes it") from None


def _arrow_problem(path: Path, error: Exception) -> str:
    """Return what is wrong with an Arrow file, by the kind of an error."""
    if isinstance(error, PermissionError):
        return f"{path} may not be read: permission denied"
    return f"{path} is a damaged or truncated Arrow file"


@final
@dataclass(frozen=True)
class ArrowSource(TableFile):
    """A table in memory, or a query: anything that gives an Arrow stream each time it is asked.

    Such are tables and data sets of pyarrow, data frames of polars and pandas, and relations of DuckDB. It is read as
    often as a file; a query must give the same rows each time.
    """

    declares_names: ClassVar[bool] = True
    types: pa.Schema
    source: Any = field(repr=False)

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        return pa.schema([self.types.field(name) for name in self._chosen(columns)])

    def _stream(
        self, columns: tuple[str, ...], block_rows: int, encoded: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        explain = partial(_source_problem, self.path)
        reader = without_values(lambda: _reader(self.source, list(columns), block_rows), explain)
        for batch in blocks_without_values(iter(reader), explain):
            yield from _sliced(batch.select(list(columns)), self.schema(columns), block_rows)


def open_source(source: Any) -> ArrowSource:
    """Open an object with `__arrow_c_stream__`, or a data set of pyarrow, as a table.

    Raises:
        InputError: it is none, can be read only once, or has no columns or rows.
    """
    name = f"the {type(source).__name__} given as data"
    if isinstance(source, pa.RecordBatchReader):
        raise InputError(f"{name} can be read only once, and data are read more than once: give a table or a file")
    if not (hasattr(source, "__arrow_c_stream__") or hasattr(source, "scanner")):
        raise InputError("must be a path, or a table that gives an Arrow stream", argument="data")
    found = without_values(lambda: _reader(source, None, 1).schema, partial(_source_problem, Path(name)))
    names = check_names(Path(name), found.names, declared=True)
    types = pa.schema([each.remove_metadata() for each in found])
    table = ArrowSource(Path(name), names, None, types, source, index=index_of(found))
    if next(table.blocks(names[:1]), None) is None:
        raise InputError(f"{name} has columns but no rows")
    return table


def _reader(source: Any, columns: list[str] | None, block_rows: int) -> pa.RecordBatchReader:
    """Return a stream of a source; a data set reads only the columns that are asked for."""
    if hasattr(source, "scanner"):
        return source.scanner(columns=columns, batch_size=block_rows, use_threads=False).to_reader()
    return pa.RecordBatchReader.from_stream(source)


def _source_problem(path: Path, error: Exception) -> str:
    return f"{path} could not be read"


def _sliced(batch: pa.RecordBatch, schema: pa.Schema, block_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield a batch in blocks of at most so many rows, without the metadata of the source."""
    for start in range(0, batch.num_rows, block_rows):
        part = batch.slice(start, block_rows)
        yield pa.RecordBatch.from_arrays(part.columns, schema=schema)


Result = TypeVar("Result")
Explain = Callable[[Exception], str]


def without_values(action: Callable[[], Result], explain: Explain) -> Result:
    """Return the result of `action`; turn a failure to read into an InputError without the original message."""
    try:
        return action()
    except MemoryError as error:
        problem = f"{explain(error)}, or too large for the memory"
    except (pa.ArrowException, OSError, UnicodeError) as error:
        problem = explain(error)
    raise InputError(problem)  # outside the handler: its __context__ could quote a row


def blocks_without_values(batches: Iterator[pa.RecordBatch], explain: Explain) -> Iterator[pa.RecordBatch]:
    """Yield the blocks; turn failures to read one into errors as `without_values` does."""
    while (batch := without_values(lambda: next(batches, None), explain)) is not None:
        yield batch

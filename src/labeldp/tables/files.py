"""Files of tables, read by blocks: CSV, Parquet and Arrow."""

import io
import os
import struct
from collections.abc import Iterator, Sequence
from csv import Error as CsvError
from csv import reader
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, ClassVar, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv, parquet

from labeldp.privacy import InputError, check_growth
from labeldp.tables.table import (
    Table,
    blocks_without_values,
    check_names,
    index_of,
    typed,
    without_metadata,
    without_values,
)

MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
DELIMITERS = ",\t;|"
CHUNK_BYTES = 1 << 20
BLOCK_BYTES = 1 << 20


@final
@dataclass(frozen=True)
class CsvFile(Table):
    """A CSV file with a header row, in UTF-8.

    Every column is read as text: '007' stays '007', and no block can contradict a type that was guessed from an
    earlier one. An empty cell is missing, a quoted empty cell is the empty text; blank lines are skipped.
    `TableEncoder` recognizes which columns are numbers.
    """

    declares_names: ClassVar[bool] = False
    delimiter: str = ","
    compression: str | None = None
    skipped: int = 0
    """The number of lines before the header: 1 if a line such as `sep=;` names the delimiter."""

    def _stream(
        self, columns: tuple[str, ...], block_rows: int, encoded: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        explain = partial(_csv_problem, self.path)
        reader = without_values(lambda: self._reader(columns), explain)
        yield from blocks_without_values(iter(reader), explain)

    def _reader(self, columns: tuple[str, ...]) -> csv.CSVStreamingReader:
        return csv.open_csv(
            _unpacked_stream(self.path, self.compression),
            read_options=csv.ReadOptions(block_size=BLOCK_BYTES, skip_rows=self.skipped),
            parse_options=csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types={name: pa.string() for name in self.columns},
                include_columns=list(columns),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
            ),
        )


def open_csv(path: Path) -> CsvFile:
    """Open the CSV file at `path`; read it once and refuse it if it is damaged."""
    with path.open("rb") as file:
        head = file.read(8)
    compression = next((name for magic, name in MAGIC.items() if head.startswith(magic)), None)
    explain = partial(_csv_problem, path)
    start = without_values(lambda: next(_chunks(path, compression), b""), explain)
    delimiter, declared = _delimiter(path, start)
    without_values(lambda: _scan(path, compression, delimiter), explain)
    draft = CsvFile(path, pa.schema([]), delimiter=delimiter, compression=compression, skipped=int(declared))
    names = without_values(lambda: draft._reader(()).schema.names, explain)
    check_names(path, names, declared=False)
    index = (names[0],) if not names[0] else ()  # pandas writes the index first, without a name
    table = replace(draft, schema=pa.schema([(name, pa.string()) for name in names]), index=index)
    if next(table.blocks(block_rows=1), None) is None:
        raise InputError(f"{path} has a header row but no other row")
    return table


def _chunks(path: Path, compression: str | None) -> Iterator[bytes]:
    with _unpacked_stream(path, compression) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk


def _unpacked_stream(path: Path, compression: str | None) -> pa.NativeFile:
    return pa.input_stream(os_file(path), compression=compression)


def _delimiter(path: Path, start: bytes) -> tuple[str, bool]:
    """Return the delimiter of the header, and whether a line `sep=;` before it names it; later lines are private.

    Most cells win, among delimiters whose quotes stand at the edges of cells: in `id;"weight, in kg"` it is the
    semicolon.
    """
    if start.startswith(UTF_16):
        raise InputError(f"{path} is in UTF-16: save it as CSV in UTF-8")
    if b"\0" in start:
        raise InputError(_not_a_table(path))
    text = start.removeprefix(BYTE_ORDER_MARK)
    if not text.strip():
        raise InputError(f"{path} is empty: a header row and at least one more row are needed")
    lines = io.StringIO(text.decode("utf-8", "replace"), newline="").readlines()
    first = lines[0].rstrip("\r\n").casefold()
    declared = first.removeprefix("sep=") if first.startswith("sep=") and len(first) <= len("sep=;") else None
    if declared is not None and (declared not in DELIMITERS or not declared):
        raise InputError(f"{path} begins with a line sep= that must name comma, tab, semicolon or bar")
    lines = lines[declared is not None :]
    while lines and not lines[0].strip("\r\n"):
        del lines[0]
    readings = [_Header.read(delimiter, lines) for delimiter in declared or DELIMITERS]
    best = max(readings, key=_Header.order)
    if (best.sound or not lines) and best.lines == len(lines) and len(start) < CHUNK_BYTES:
        raise InputError(f"{path} has a header row but no other row")
    if best.cells > 1 and [reading.order() for reading in readings].count(best.order()) > 1:
        raise InputError(
            f"{path} has a header that two delimiters could divide, each into {best.cells} names: quote names that "
            "contain a comma, tab, semicolon or bar"
        )
    return best.delimiter, declared is not None


@dataclass(frozen=True)
class _Header:
    """A header as a delimiter divides it."""

    delimiter: str
    cells: int
    lines: int
    sound: bool

    @classmethod
    def read(cls, delimiter: str, lines: list[str]) -> "_Header":
        rows = reader(lines, delimiter=delimiter)
        try:
            cells = len(next(rows, []))
        except CsvError:  # a quote that is not closed for long
            return cls(delimiter, 0, 0, False)
        quotes = QuoteCheck(delimiter)
        quotes.add("".join(lines[: rows.line_num]).encode())
        return cls(delimiter, cells, rows.line_num, quotes.tidy())

    def order(self) -> tuple[bool, int]:
        """Return a key that is larger for a better delimiter."""
        return self.sound, self.cells


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
UTF_16 = (b"\xff\xfe", b"\xfe\xff")


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

    def tidy(self) -> bool:
        """Return whether every quote is closed and none is misplaced."""
        return not self._inside and not self._misplaced

    def _look(self, text: NDArray[np.uint8]) -> None:
        """Check the quotes of a text, whose first byte is the last one of the chunk before."""
        places = np.flatnonzero((text == QUOTE) | (text == ord("\n")) | (text == ord("\r")))
        places = places[places > 0]
        quotes = text[places] == QUOTE
        fresh = places[quotes]
        starts, ends = fresh[int(self._inside) :: 2], fresh[int(not self._inside) :: 2]
        if text[0] == QUOTE and not self._inside:  # a quote that closed, or so it seemed
            ends = np.concatenate([[0], ends])
        edges = ends[ends < len(text) - 1] + 1
        self._misplaced |= not (self._edges[text[starts - 1]].all() and self._edges[text[edges]].all())
        within = (np.cumsum(quotes, dtype=np.uint8) & 1) != self._inside
        self._spans |= bool((within & ~quotes).any())
        self._inside ^= len(fresh) % 2 == 1


BUFFER_BYTES = 1 << 20


def os_file(path: Path, mode: str = "rb") -> pa.OSFile:
    """Open a file for Arrow, which takes names in UTF-8 alone unless they are bytes."""
    return pa.OSFile(os.fsencode(path), mode)


@final
@dataclass(frozen=True)
class ParquetFile(Table):
    """A Parquet file, read through small buffers: a row group need not fit in memory."""

    def _stream(
        self, columns: tuple[str, ...], block_rows: int, encoded: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        explain = partial(_problem, self.path, PARQUET)
        kind = self.schema.field(encoded).type if encoded in columns else pa.null()
        texts = (encoded,) if encoded and (pa.types.is_string(kind) or pa.types.is_large_string(kind)) else ()
        schema = self.types(columns)
        with without_values(lambda: os_file(self.path), explain) as source:
            file = without_values(lambda: _open(source, texts), explain)
            batches = file.iter_batches(batch_size=block_rows, columns=list(columns), use_threads=False)
            for batch in blocks_without_values(batches, explain):
                arrays = [batch.column(name) for name in columns]
                types = [pa.field(name, array.type) for name, array in zip(columns, arrays, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(types) if texts else schema)


def open_parquet(path: Path) -> ParquetFile:
    """Open the Parquet file at `path`; raise InputError if its footer cannot be read or it has no columns or rows."""
    explain = partial(_problem, path, PARQUET)
    with without_values(lambda: os_file(path), explain) as source:
        file = without_values(lambda: _open(source), explain)
        schema, rows = file.schema_arrow, int(file.metadata.num_rows)
    check_names(path, schema.names, declared=True)
    if not rows:
        raise InputError(f"{path} has columns but no rows")
    return ParquetFile(path, without_metadata(schema), rows, index_of(schema))


def _open(source: pa.OSFile, texts: Sequence[str] = ()) -> parquet.ParquetFile:
    return parquet.ParquetFile(source, buffer_size=BUFFER_BYTES, pre_buffer=False, read_dictionary=list(texts))


def _problem(path: Path, kind: str, error: Exception) -> str:
    """Return what is wrong with a Parquet or Arrow file, by the kind of an error."""
    if isinstance(error, PermissionError):
        return f"{path} may not be read: permission denied"
    return f"{path} is a damaged or truncated {kind}"


PARQUET, ARROW = "Parquet file, or of a kind that cannot be read (encrypted)", "Arrow file"


@final
@dataclass(frozen=True)
class ArrowFile(Table):
    """An Arrow file (IPC file format, Feather version 2), read one record batch after the other."""

    def _stream(
        self, columns: tuple[str, ...], block_rows: int, encoded: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        explain = partial(_problem, self.path, ARROW)
        check_growth(self.path, *without_values(lambda: _sizes(self.path), explain))
        with without_values(lambda: os_file(self.path), explain) as file:
            # Only these columns are read.
            options = pa.ipc.IpcReadOptions(included_fields=[self.columns.index(name) for name in columns])
            reader = without_values(lambda: pa.ipc.open_file(file, options=options), explain)
            batches = map(reader.get_batch, range(reader.num_record_batches))
            schema = self.types(columns)
            for batch in blocks_without_values(batches, explain):
                without_values(partial(batch.validate, full=True), explain)
                yield typed(batch.select(list(columns)), schema)


def open_arrow(path: Path) -> ArrowFile:
    """Open the Arrow file at `path`; raise InputError if it cannot be read or has no columns or rows."""
    explain = partial(_problem, path, ARROW)
    with without_values(lambda: os_file(path), explain) as file:
        schema = without_values(lambda: pa.ipc.open_file(file).schema, explain)
    check_names(path, schema.names, declared=True)
    table = ArrowFile(path, without_metadata(schema), index=index_of(schema))
    if next(table.blocks(table.columns[:1], block_rows=1), None) is None:
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


# How large the compressed buffers of Arrow data would be, before any is unpacked: Arrow unpacks a whole batch at once,
# and says nowhere in Python how large it will be. The lengths stand in the metadata (flatbuffers) and before each
# buffer: `Message.fbs`, `Schema.fbs` and `File.fbs` of the Arrow columnar format, 1.4.

DICTIONARY, BATCH = 2, 3
"""Kinds of messages that have buffers."""


def compressed_buffers(metadata: bytes) -> list[tuple[int, ...]]:
    """Return offset and length of each compressed buffer of a message; none if its buffers are not compressed.

    Raises:
        ValueError: no metadata of a message.
    """
    try:
        [message] = struct.unpack_from("<I", metadata)
        kind, header = _field(metadata, message, 1), _table(metadata, message, 2)
        if kind is None or header is None or metadata[kind] not in (DICTIONARY, BATCH):
            return []
        batch = header if metadata[kind] == BATCH else _table(metadata, header, 1)
        if batch is None or _field(metadata, batch, 3) is None:
            return []
        return list(_structs(metadata, batch, 2, "<qq"))
    except (struct.error, IndexError) as error:
        raise ValueError("no metadata of Arrow") from error


def largest_batch(file: BinaryIO, size: int) -> int:
    """Return the unpacked bytes of the compressed parts of an Arrow file: all dictionaries and the largest batch."""
    file.seek(size - 10)
    [length] = struct.unpack("<i", file.read(4))
    footer = _read(file, size - 10 - length, length)
    try:
        [start] = struct.unpack_from("<I", footer)
        dictionaries, batches = (
            [_unpacked(file, *block) for block in _structs(footer, start, field, "<qi4xq")] for field in (2, 3)
        )
    except struct.error as error:
        raise ValueError("no footer of Arrow") from error
    return sum(dictionaries) + max(batches, default=0)


def _unpacked(file: BinaryIO, start: int, length: int, body: int) -> int:
    """Return the bytes of the compressed buffers of a message at a place."""
    text = _read(file, start, length)
    total = 0
    for offset, held in compressed_buffers(text[8:] if text.startswith(b"\xff" * 4) else text[4:]):
        if held:
            [said] = struct.unpack("<q", _read(file, start + length + offset, 8))
            total += max(said, held)  # -1: it is not compressed
    return total


def _read(file: BinaryIO, start: int, length: int) -> bytes:
    if start < 0 or length < 0:
        raise ValueError("outside of the file")
    file.seek(start)
    content = file.read(length)
    if len(content) != length:
        raise ValueError("outside of the file")
    return content


def _field(data: bytes, table: int, number: int) -> int | None:
    """Return where a field of a flatbuffers table stands; None if it is left out."""
    entries = table - struct.unpack_from("<i", data, table)[0]
    slot = 4 + 2 * number
    if slot >= struct.unpack_from("<H", data, entries)[0]:
        return None
    [offset] = struct.unpack_from("<H", data, entries + slot)
    return table + offset if offset else None


def _table(data: bytes, table: int, number: int) -> int | None:
    """Return where the table or vector that a field points to begins."""
    start = _field(data, table, number)
    return None if start is None else int(start + struct.unpack_from("<I", data, start)[0])


def _structs(data: bytes, table: int, number: int, form: str) -> Iterator[tuple[int, ...]]:
    """Yield the entries of a vector of structs."""
    start = _table(data, table, number)
    if start is not None:
        [count] = struct.unpack_from("<I", data, start)
        for entry in range(count):
            yield struct.unpack_from(form, data, start + 4 + struct.calcsize(form) * entry)

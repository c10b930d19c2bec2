"""Files of tables, read by blocks: CSV, Parquet and Arrow."""

import io
import itertools
import os
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from csv import Error as CsvError
from csv import reader
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO, ClassVar, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv, parquet

from labeldp.privacy import InputError, UnreadableRows, check_growth
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
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BLOCK_BYTES = ROW_BYTES = 1 << 20
"""How much of a text is read at a time, and the length of its longest row."""


@final
@dataclass(frozen=True)
class CsvFile(Table):
    """A CSV file with a header row, in UTF-8.

    Every column is read as text: '007' stays '007', and no block can contradict a type that was guessed from an
    earlier one. An empty cell is missing, a quoted empty cell is the empty text; blank lines are skipped.
    `TableEncoder` recognizes which columns are numbers.

    A row that cannot be read may be so because of its label. So all rows are checked before the first one is yielded,
    each to the end of the file: neither blocks nor time tell which row it was.

    Fields:
        start: the bytes before the first row: header, and what stands before it.
        checked: the columns whose cells were found to be readable.
    """

    declares_names: ClassVar[bool] = False
    delimiter: str = ","
    compression: str | None = None
    start: int = 0
    checked: set[str] = field(default_factory=set, repr=False, compare=False)

    def _stream(
        self, columns: tuple[str, ...], block_rows: int, encoded: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        if not self.checked.issuperset(columns):
            readable = True
            for batch in self._parsed(columns):
                readable &= batch is not None
            if not readable:
                raise UnreadableRows(_unreadable(self.path))
            self.checked.update(columns)
        for batch in self._parsed(columns):
            if batch is None:  # the file is another than the one that was checked
                raise UnreadableRows(_unreadable(self.path))
            yield batch

    def _parsed(self, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch | None]:
        """Yield the rows of the file, and None for each piece of it, or at its end, that cannot be read."""
        rows, texts = RowCutter(self.delimiter), _texts(self.path, self.compression)
        first = next(texts, b"")[self.start :]
        for piece in rows.cut(itertools.chain([first], texts)):
            try:
                parsed = self._parse(piece, columns)
            except (pa.ArrowException, MemoryError):
                yield None
            else:
                yield from parsed.to_batches()
        if not rows.sound:
            yield None

    def _parse(self, piece: bytes, columns: tuple[str, ...]) -> pa.Table:
        """Parse whole rows; a blank line before them keeps a byte order mark that is in a cell."""
        return csv.read_csv(
            pa.BufferReader(b"\n" + piece),
            read_options=csv.ReadOptions(column_names=list(self.columns), block_size=len(piece) + 2, use_threads=False),
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
    """Open the CSV file at `path` by its header; other rows are not parsed, for labels are in them."""
    with path.open("rb") as file:
        head = file.read(8)
    compression = next((name for magic, name in MAGIC.items() if head.startswith(magic)), None)
    texts = _texts(path, compression)
    start = next(texts, b"")
    header = _header(path, start)
    try:
        names = [name.encode("latin-1").decode() for name in header.names]
    except UnicodeError:
        names = []
    is_cut = header.end == BLOCK_BYTES and not start.endswith((b"\r", b"\n"))
    if not names or any("\0" in name for name in names) or is_cut:
        raise InputError(f"{path} is not a table: Parquet, or CSV in UTF-8 (plain, gzip, bz2, zstd or lz4) is needed")
    if not header.closed:
        raise InputError(f"{path} has a header in which a quote is not closed, or not doubled in a cell")
    check_names(path, names, declared=False)
    if not any(text.strip(b"\r\n") for text in itertools.chain([start[header.end :]], texts)):
        raise InputError(f"{path} has a header row but no other row")
    index = (names[0],) if not names[0] else ()  # pandas writes the index first, without a name
    schema = pa.schema([(name, pa.string()) for name in names])
    return CsvFile(path, schema, index=index, delimiter=header.delimiter, compression=compression, start=header.end)


def _header(path: Path, start: bytes) -> "_Header":
    """Return the header of a text, by its delimiter; later lines are private.

    A line `sep=;` before it names the delimiter. Otherwise most cells win, among delimiters whose quotes stand at the
    edges of cells: in `id;"weight, in kg"` it is the semicolon.
    """
    if start.startswith(UTF_16):
        raise InputError(f"{path} is in UTF-16: save it as CSV in UTF-8")
    if not start.strip():
        raise InputError(f"{path} is empty: a header row and at least one more row are needed")
    lines = io.StringIO(start.decode("latin-1"), newline="").readlines()  # a letter is a byte
    first = lines[0].rstrip("\r\n").casefold()
    declared = first.removeprefix("sep=") if first.startswith("sep=") and len(first) <= len("sep=;") else None
    if declared is not None and (declared not in DELIMITERS or not declared):
        raise InputError(f"{path} begins with a line sep= that must name comma, tab, semicolon or bar")
    before = int(declared is not None)
    while before < len(lines) and not lines[before].strip("\r\n"):
        before += 1
    if before == len(lines):
        raise InputError(f"{path} has a header row but no other row")
    readings = [_Header.read(delimiter, lines, before) for delimiter in declared or DELIMITERS]
    best = max(readings, key=_Header.order)
    if len(best.names) > 1 and [reading.order() for reading in readings].count(best.order()) > 1:
        raise InputError(
            f"{path} has a header that two delimiters could divide, each into {len(best.names)} names: quote names "
            "that contain a comma, tab, semicolon or bar"
        )
    return best


@dataclass(frozen=True)
class _Header:
    """A header as a delimiter divides it.

    Fields:
        delimiter: the delimiter.
        names: the cells, a letter for each byte.
        end: where it ends in the text.
        closed, tidy: whether every quote is closed, and all of them stand at the edges of cells.
    """

    delimiter: str
    names: tuple[str, ...]
    end: int
    closed: bool
    tidy: bool

    @classmethod
    def read(cls, delimiter: str, lines: list[str], before: int) -> "_Header":
        """Read the header after so many lines."""
        cells = reader(lines[before:], delimiter=delimiter)
        try:
            names = tuple(next(cells))
        except CsvError:  # a quote that is not closed for long
            return cls(delimiter, (), 0, False, False)
        row = "".join(lines[before : before + cells.line_num])
        rows = RowCutter(delimiter)
        for _ in rows.cut([row.encode("latin-1")]):
            pass
        end = sum(map(len, lines[:before])) + len(row)
        return cls(delimiter, names, end, rows.sound, rows.tidy)

    def order(self) -> tuple[bool, int]:
        """Return a key that is larger for a better delimiter."""
        return self.tidy, len(self.names)


def _texts(path: Path, compression: str | None) -> Iterator[bytes]:
    """Yield the bytes of a file, unpacked and without a byte order mark, piece by piece."""

    def explain(error: Exception) -> str:
        if isinstance(error, PermissionError):
            return f"{path} may not be read: permission denied"
        return f"{path} is damaged or truncated: it cannot be read to its end"

    with without_values(lambda: pa.input_stream(os_file(path), compression=compression), explain) as stream:
        text = without_values(lambda: stream.read(BLOCK_BYTES), explain).removeprefix(BYTE_ORDER_MARK)
        while text:
            yield text
            text = without_values(lambda: stream.read(BLOCK_BYTES), explain)


def _unreadable(path: Path) -> str:
    return (
        f"{path} has rows that cannot be read. In CSV each row has as many cells as the header and 1 MiB at most, in "
        "UTF-8 without NUL; each quote is closed, and doubled within a cell"
    )


QUOTE = ord('"')
UTF_16 = (b"\xff\xfe", b"\xfe\xff")


@final
class RowCutter:
    """Cuts a CSV text, which is added by pieces of bytes, at ends of rows, and checks its quotes.

    Cells are parsed by Arrow: a quote begins a quoted cell at the beginning of the cell alone, and within it two stand
    for one. A quote that is not closed takes the rows after it into its cell. So a text is unsound if one is open at
    its end, or if a cell spans lines and another quote stands where none should.

    Example:
        >>> def sound(text: bytes) -> bool:
        ...     rows = RowCutter(",")
        ...     assert b"".join(rows.cut([text])) == text
        ...     return rows.sound
        >>> sound(b'1,"two lines\\nin ""one"" cell"\\n'), sound(b'7" x 9", no lines spanned\\n')
        (True, True)
        >>> sound(b'1,"open\\n2,x\\n'), sound(b'1,"open\\n2,"next"\\n3,"last\\n')
        (False, False)
    """

    def __init__(self, delimiter: str) -> None:
        mark = re.escape(delimiter.encode())
        self._cell = re.compile(rb'(?<![^%b\r\n])"[^"]*+(?:""[^"]*+)*+("?)' % mark)
        self._edges = np.zeros(256, dtype=np.bool_)
        self._edges[list((delimiter + '"\r\n').encode())] = True
        self._spans = self._misplaced = self._broken = False

    @property
    def sound(self) -> bool:
        """Whether all that was cut is well-formed; the numbers of cells are not compared."""
        return not (self._broken or (self._spans and self._misplaced))

    @property
    def tidy(self) -> bool:
        """Whether all that was cut is well-formed, and every quote begins or ends a cell."""
        return not (self._broken or self._misplaced)

    def cut(self, texts: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the text in pieces that are whole rows; rows longer than `ROW_BYTES` are left out."""
        tail = b""
        for added in texts:
            text = tail + added
            end = self._end(text)
            if end:
                yield text[:end]
            tail = text[end:]
            if len(tail) > ROW_BYTES:
                self._broken, tail = True, b""
        if tail:
            self._end(tail, last=True)
            yield tail

    def _end(self, text: bytes, *, last: bool = False) -> int:
        """Check a text, which begins with a row, and return the place after the last row that ends in it."""
        self._broken |= b"\0" in text
        if b'"' not in text and len(text) <= ROW_BYTES:
            return max(text.rfind(b"\n"), text.rfind(b"\r", 0, -1)) + 1
        codes = np.frombuffer(text, dtype=np.uint8)
        lines = np.flatnonzero((codes == ord("\n")) | (codes == ord("\r")))
        within = self._within(text, codes, lines, last)
        self._spans |= bool(within.any())
        places = lines[~within] + 1
        if len(places) and places[-1] == len(text) and text.endswith(b"\r"):  # a line feed may follow
            places = places[:-1]
        self._broken |= bool((np.diff(places, prepend=0) > ROW_BYTES).any())
        return int(places[-1]) if len(places) else 0

    def _within(self, text: bytes, codes: NDArray[np.uint8], lines: NDArray[np.intp], last: bool) -> NDArray[np.bool_]:
        """Return which ends of lines are within a quoted cell."""
        quotes = np.flatnonzero(codes == QUOTE)
        starts, ends = quotes[::2], quotes[1::2]
        within = np.searchsorted(quotes, lines) % 2 == 1
        is_open = len(quotes) % 2 == 1
        first = self._edges[codes[starts - 1]] | (starts == 0)
        after = self._edges[codes[np.minimum(ends + 1, len(codes) - 1)]]
        if not (first.all() and after.all()):  # not every other quote ends a cell
            self._misplaced = True
            cells = list(self._cell.finditer(text))
            spans = np.array([cell.span() for cell in cells], dtype=np.intp).reshape(-1, 2)
            number = np.searchsorted(spans[:, 0], lines) - 1
            within = (number >= 0) & (lines < spans[number, 1]) if len(spans) else np.zeros(len(lines), dtype=np.bool_)
            is_open = bool(cells) and not cells[-1][1]
        self._broken |= last and is_open
        return within


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
    """An Arrow file (IPC file format, Feather version 2), read one record batch after the other.

    All batches are validated before the first one is yielded; see `CsvFile`.

    Fields:
        checked: the columns that were found to be valid.
    """

    checked: set[str] = field(default_factory=set, repr=False, compare=False)

    def _stream(
        self, columns: tuple[str, ...], block_rows: int, encoded: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        explain = partial(_problem, self.path, ARROW)
        check_growth(self.path, *without_values(lambda: _sizes(self.path), explain), UnreadableRows)
        with without_values(lambda: os_file(self.path), explain) as file:
            # Only these columns are read.
            options = pa.ipc.IpcReadOptions(included_fields=[self.columns.index(name) for name in columns])
            reader = without_values(lambda: pa.ipc.open_file(file, options=options), explain)
            numbers = range(reader.num_record_batches)
            if not self.checked.issuperset(columns):
                if [number for number in numbers if not _is_valid(reader, number)]:
                    raise UnreadableRows(_problem(self.path, ARROW, pa.ArrowInvalid()))
                self.checked.update(columns)
            schema = self.types(columns)
            for batch in blocks_without_values(map(reader.get_batch, numbers), explain):
                yield typed(batch.select(list(columns)), schema)


def _is_valid(reader: pa.RecordBatchFileReader, number: int) -> bool:
    """Return whether a batch can be read, and holds what its types say."""
    try:
        reader.get_batch(number).validate(full=True)
    except (pa.ArrowException, OSError, MemoryError):
        return False
    return True


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

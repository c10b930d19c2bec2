"""CSV files, plain or compressed, read by blocks as the text that they hold."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, final

import pyarrow as pa
from pyarrow import csv

from labeldp.privacy import InputError
from labeldp.tables.quiet import quiet_blocks, quietly
from labeldp.tables.quotes import BYTE_ORDER_MARK, QuoteCheck
from labeldp.tables.reading import TableFile, check_names

MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
DELIMITERS = ",\t;|"
CHUNK_BYTES = 1 << 20
BLOCK_BYTES = 1 << 20


@final
@dataclass(frozen=True)
class CsvFile(TableFile):
    """A CSV file with a header row, in UTF-8.

    Every column is read as text, cell by cell as it stands: '007' stays '007', and no later block can
    disagree with a type that was guessed from the first one. An empty cell is missing, a quoted empty
    cell is the empty text; blank lines are skipped. `TableEncoder` finds out which columns are numbers.
    """

    declares_names: ClassVar[bool] = False
    delimiter: str = ","
    compression: str | None = None

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        return pa.schema([(name, pa.string()) for name in self._chosen(columns)])

    def _stream(self, columns: tuple[str, ...], block_rows: int) -> Iterator[pa.RecordBatch]:
        def explain(error: Exception) -> str:
            return _complaint(self.path, error)

        reader = quietly(lambda: self._reader(columns), explain)
        for batch in quiet_blocks(iter(reader), explain):
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
    """The CSV file at `path`, whose first bytes are `head`; it is read through once and refused if it is damaged."""
    compression = next((name for magic, name in MAGIC.items() if head.startswith(magic)), None)

    def explain(error: Exception) -> str:
        return _complaint(path, error)

    delimiter = _delimiter(path, quietly(lambda: next(_chunks(path, compression), b""), explain))
    quietly(lambda: _scan(path, compression, delimiter), explain)
    draft = CsvFile(path, (), None, delimiter, compression)
    names = quietly(lambda: draft._reader(()).schema.names, explain)
    columns = check_names(path, names, declared=False)
    index = columns[:1] if not columns[0] else ()  # pandas writes it first, without a name
    table = CsvFile(path, columns, None, delimiter, compression, index=index)
    if next(table.blocks(block_rows=1), None) is None:
        raise InputError(f"{path} has a header row but no other row")
    return table


def _chunks(path: Path, compression: str | None) -> Iterator[bytes]:
    with pa.input_stream(str(path), compression=compression) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk


def _delimiter(path: Path, start: bytes) -> str:
    """The delimiter that stands most often in the header, which is the first line of `start` that is not blank."""
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
    """Read the raw text to its end: what no parser complains about, and what it would complain about too late."""
    quotes = QuoteCheck(delimiter)
    for chunk in _chunks(path, compression):
        if b"\0" in chunk:
            raise InputError(_not_a_table(path))
        quotes.add(chunk)
    if not quotes.sound():
        raise InputError(f"{path} is not a well-formed CSV file: a quote is not closed, or not doubled in a cell")


def _not_a_table(path: Path) -> str:
    return f"{path} is not a table: Parquet, or CSV in UTF-8 (plain, gzip, bz2, zstd or lz4) is needed"


def _complaint(path: Path, error: Exception) -> str:
    """What is wrong with a CSV file, from the kind of the reader's error; its text quotes cells and is dropped."""
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

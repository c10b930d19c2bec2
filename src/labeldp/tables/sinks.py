"""Where released blocks go: a Parquet or a CSV file, and the certificate with it."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from labeldp.privacy import InputError
from labeldp.tables import parquetfile
from labeldp.tables.values import as_text, plain

METADATA_KEY = b"labeldp.certificate"
CERTIFICATE_SUFFIX = ".certificate.json"
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}


class Sink(Protocol):
    """An open output file."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Append a block; all blocks have the schema of the first."""

    def finish(self, document: str | None) -> None:
        """Take the certificate, where there is one and the format has a place for it, and close."""

    def abandon(self) -> None:
        """Close without a word; the file will be removed."""


def is_parquet(path: Path) -> bool:
    """Whether a name asks for Parquet; a name that asks for neither Parquet nor CSV is refused."""
    if path.suffix.lower() in parquetfile.SUFFIXES:
        return True
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if suffixes[-1:] == [".csv"] or (suffixes[:1] == [".csv"] and suffixes[1] in COMPRESSIONS):
        return False
    raise InputError(f"the name {path} must end in .parquet or .csv (or .csv.gz, .csv.bz2, .csv.zst, .csv.lz4)")


def open_sink(target: Path, hidden: Path) -> Sink:
    """An output in the format that the name of `target` asks for, written at `hidden`."""
    return ParquetSink(hidden) if is_parquet(target) else CsvSink(hidden, COMPRESSIONS.get(target.suffix.lower()))


@final
class ParquetSink:
    """A Parquet file that says nothing but its columns and the certificate."""

    def __init__(self, path: Path) -> None:
        self._file = pa.OSFile(str(path), "wb")
        self._writer: parquet.ParquetWriter | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self._file, batch.schema, compression="zstd")
        self._writer.write_batch(batch)

    def finish(self, document: str | None) -> None:
        if self._writer is not None:
            if document is not None:
                self._writer.add_key_value_metadata({METADATA_KEY: document.encode()})
            self._writer.close()
        self._file.close()

    def abandon(self) -> None:
        _close(*([self._writer] if self._writer else []), self._file)


@final
class CsvSink:
    """A CSV file, compressed or not, with a comma between cells and quotes only where they are needed."""

    def __init__(self, path: Path, compression: str | None) -> None:
        self._file = pa.OSFile(str(path), "wb")
        self._stream = pa.CompressedOutputStream(self._file, compression) if compression else self._file
        self._started = False

    def write(self, batch: pa.RecordBatch) -> None:
        if not self._started:
            self._stream.write(csv_lines([pa.array([name], pa.large_string()) for name in batch.schema.names]))
            self._started = True
        self._stream.write(csv_lines([as_text(plain(batch.column(name)), name) for name in batch.schema.names]))

    def finish(self, document: str | None) -> None:
        self._stream.close()
        self._file.close()

    def abandon(self) -> None:
        _close(self._stream, self._file)


def _close(*files: Any) -> None:
    """Close what is open, whatever it says: the space of a removed file is free only then."""
    for file in files:
        with suppress(OSError, ValueError, pa.ArrowException):
            file.close()


def csv_lines(columns: list[Any]) -> memoryview:
    """Columns of text as the bytes of CSV lines: missing cells empty, empty texts quoted."""
    cells = [_quoted(column) for column in columns]
    lines = pc.binary_join_element_wise(*cells, _text(","), null_handling="replace", null_replacement="")
    ended = pc.binary_join_element_wise(lines, _text("\n"), _text(""))
    _, offsets, data = ended.buffers()
    edges = memoryview(offsets).cast("B").cast("q")[ended.offset : ended.offset + len(ended) + 1]
    return memoryview(data)[edges[0] : edges[-1]]


def _quoted(column: Any) -> Any:
    needs = pc.or_(pc.match_substring_regex(column, '[,"\r\n]'), pc.equal(column, ""))
    doubled = pc.replace_substring(column, '"', '""')
    quoted = pc.binary_join_element_wise(_text('"'), doubled, _text('"'), _text(""))
    return pc.if_else(needs, quoted, column)


def _text(value: str) -> Any:
    return pa.scalar(value, pa.large_string())


def document_beside(path: Path) -> Path:
    """Where the certificate of a CSV file stands."""
    return path.with_name(path.name + CERTIFICATE_SUFFIX)


def as_document(content: dict[str, Any]) -> str:
    """A certificate as JSON text, the same for the same content."""
    return json.dumps(content, sort_keys=True, indent=1, allow_nan=False, ensure_ascii=False)

"""Write released tables with their certificates, and read the certificates again."""

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from labeldp.privacy import InputError, LabelDPError, json_value
from labeldp.tables.atomic import atomic_write, check_new_file, file_digest, sync
from labeldp.tables.files import os_file
from labeldp.tables.footer import read_value
from labeldp.tables.formats import FORMATS
from labeldp.tables.table import open_table, plain, without_values
from labeldp.tables.values import as_text

FORMAT = 1


class Sink(ABC):
    """An open output file, and what writes blocks into it."""

    def __init__(self, path: Path) -> None:
        self._file = os_file(path, "wb")
        self._writer: Any = None

    keeps_dictionaries = False
    """Whether the format has a dictionary for each block; one that has a single one gets plain values."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Append a block; all blocks have the same schema.

        A dictionary is made anew of the values in the block, in their order: what stood in it depends on how the
        source cut its own blocks. One with an order of its own becomes plain values.
        """
        columns = [self._own(column) for column in batch.columns]
        self._append(pa.RecordBatch.from_arrays(columns, names=batch.schema.names))

    def _own(self, column: Any) -> Any:
        if self.keeps_dictionaries and pa.types.is_dictionary(column.type) and not column.type.ordered:
            return plain(column).dictionary_encode()
        return plain(column)

    @abstractmethod
    def _append(self, batch: pa.RecordBatch) -> None:
        """Append a block whose dictionaries are its own."""

    def finish(self, document: str | None) -> None:
        """Write the certificate if there is one and the format can hold it, and close the file."""
        if self._writer is not None:
            self._writer.close()
        self._file.close()

    def abandon(self) -> None:
        """Close the file, which will be removed, and ignore errors: only then is its space free."""
        for file in [self._file] if self._writer is None else [self._writer, self._file]:
            with suppress(OSError, ValueError, pa.ArrowException):
                file.close()


@final
class ReleaseWriter:
    """Writes the blocks of a released table in order; get one from `release_writer`."""

    def __init__(self, sink: Sink, columns: Sequence[str], released: str) -> None:
        self._sink = sink
        self._columns = tuple(columns)
        self._released = released
        self._digest = ColumnDigest()
        self._schema: pa.Schema | None = None
        self._certificate: dict[str, Any] | None = None

    @property
    def rows(self) -> int:
        """Number of rows written so far."""
        return self._digest.rows

    @property
    def digest(self) -> str:
        """Digest of the released values written so far; see `ColumnDigest`."""
        return self._digest.value()

    def write(self, released: Any, batch: pa.RecordBatch | None = None) -> None:
        """Append a block.

        Args:
            released: the released values of the block, an Arrow or numpy array of texts or numbers, none missing.
            batch: the block with the other columns, if there are any. Its private column, which has the name of the
                released one, is not read.

        Raises:
            InputError: lengths differ, a column or a value is missing, or types change between blocks.
        """
        values = plain(released if isinstance(released, pa.Array) else pa.array(released))
        if values.null_count:
            raise InputError("released must not have missing values")
        if batch is not None and batch.num_rows != len(values):
            raise InputError("released must hold one value for each row of batch")
        self._sink.write(self._block(values, batch))
        self._digest.add(values)

    def certify(self, certificate: Mapping[str, Any]) -> None:
        """Set the certificate of what was written, a JSON object; call this once, after the last block."""
        self._certificate = dict(certificate)

    def document(self, sha256: str | None = None) -> str:
        """Return the certificate and the digests of what it covers, as JSON text; no file holds its own `sha256`."""
        if self._certificate is None or not self.rows:
            raise LabelDPError("a released table needs rows and a certificate: call write and certify first")
        content = {"format": FORMAT, "column": self._released, "rows": self.rows, "digest": self.digest}
        content |= {"certificate": self._certificate} | ({"sha256": sha256} if sha256 else {})
        return json.dumps(content, sort_keys=True, indent=1, allow_nan=False, ensure_ascii=False)

    def _block(self, values: Any, batch: pa.RecordBatch | None) -> pa.RecordBatch:
        """Return the output columns as a new batch, without any metadata of the source."""
        arrays = []
        for name in self._columns:
            if name != self._released and (batch is None or name not in batch.schema.names):
                raise InputError(f"batch must have the column {name!r}")
            arrays.append(values if name == self._released else batch.column(name))  # type: ignore[union-attr]
        block = pa.RecordBatch.from_arrays(arrays, names=list(self._columns))
        self._schema = self._schema or block.schema
        if block.schema != self._schema:
            raise InputError("every block must have the same column types")
        return block


@contextmanager
def release_writer(
    path: str | os.PathLike[str], columns: Sequence[str], *, released: str, ids: str | None = None
) -> Iterator[ReleaseWriter]:
    """Write a released column, alone or with other columns, and its certificate: completely or not at all.

    `columns=(id, label)` writes a sidecar, `columns=table.columns` the whole table with the noisy label in the place
    of the private one; `released` is the label's name in both. The certificate is written into the metadata of a
    Parquet file (key `labeldp.certificate`), and into `PATH.certificate.json` beside a CSV or Arrow file.

    Args:
        path: the output, ending in .parquet, .arrow or .csv (.csv.gz, .csv.bz2, .csv.zst, .csv.lz4).
        columns: the names of the output columns in order, `released` among them.
        released: the name of the released column.
        ids: a column of distinct values, of which no dictionary is kept.

    Yields:
        A writer. Its `certify` must be called before the body ends.

    Guarantee (whole):
        An output never stands without its certificate, and after any error nothing of it stands: the
        certificate of a CSV file appears before the file.

    Raises:
        InputError: the output, or a certificate beside it, exists or cannot be written, or its name has another suffix.
        LabelDPError: the disk is full, or no certificate was given.
    """
    target = Path(path)
    inside, beside = is_parquet(target), document_beside(target)
    if released not in columns or len(set(columns)) != len(columns):
        raise InputError("columns must be different names, with the released column among them")
    check_new_file(target, overwrite=False)
    with _cleared(target, beside) as placed, atomic_write(target) as hidden:
        with open_sink(target, hidden, ids) as sink:
            writer = ReleaseWriter(sink, columns, released)
            yield writer
            sink.finish(writer.document())
        if not inside:  # the certificate appears while the output is complete but still hidden
            sync(hidden)
            with atomic_write(beside) as draft:
                draft.write_text(writer.document(file_digest(hidden)) + "\n", encoding="utf-8")
            placed.append(beside)


@contextmanager
def _cleared(target: Path, beside: Path) -> Iterator[list[Path]]:
    """Refuse an existing certificate; after an error remove the one that was written if there is no output."""
    documents: list[Path] = []
    if beside.is_file():
        raise InputError(
            f"{beside} exists already, from a moved file or a killed run; choose another name or remove it first"
        )
    check_new_file(beside, overwrite=False)
    try:
        yield documents
    except BaseException:
        for document in documents:
            if not os.path.lexists(target):
                document.unlink()
        raise


def read_certificate(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the certificate of a released file.

    Args:
        path: a Parquet or CSV file written by `release_writer`.

    Returns:
        A dict: "certificate" as given to `certify`, "column", "rows" and "digest" of what it covers and, if it stands
        beside the file, the "sha256" of that.

    Raises:
        InputError: the file does not exist, is not a table, or has no certificate of labeldp.
    """
    file = Path(path)
    if file.is_dir():
        raise InputError(f"{file} is a folder; a released file is needed")
    open_table(file)
    document = _document(file)
    try:
        content = json_value(document)
    except ValueError:
        content = None
    expected = {"format": int, "column": str, "rows": int, "digest": str, "certificate": dict}
    if not isinstance(content, dict) or any(not isinstance(content.get(key), kind) for key, kind in expected.items()):
        raise InputError(f"the certificate of {file} cannot be read: it is damaged or not of labeldp")
    if content["format"] != FORMAT:
        raise InputError(f"the certificate of {file} is of another version of labeldp")
    return content


def is_as_certified(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is the one that its certificate covers.

    A certificate beside a file covers its bytes, one in a Parquet file the released column alone, in its order. This
    finds accidents and edits and is not a signature: whoever can write the file can write a certificate, too.

    Raises:
        InputError: as `read_certificate`.
    """
    content = read_certificate(path)
    table = open_table(path)
    is_other = not _holds_certificate(Path(path)) and content.get("sha256") != file_digest(Path(path))
    if is_other or content["column"] not in table.columns:
        return False
    digest = ColumnDigest()
    for batch in table.blocks([content["column"]]):
        digest.add(batch.column(0))
    return bool(digest.rows == content["rows"] and digest.value() == content["digest"])


def _document(path: Path) -> bytes:
    """Return the certificate in a Parquet file, or next to a CSV or Arrow file, as bytes."""
    beside = document_beside(path)
    if not _holds_certificate(path):
        return without_values(beside.read_bytes, lambda error: f"{path} has no certificate: {beside} cannot be read")
    if os.path.lexists(beside):
        raise InputError(f"{path} holds its certificate, and {beside} would be another one: remove {beside}")
    try:
        document = read_value(path, METADATA_KEY)
    except ValueError:
        document = b""
    if document is None:
        raise InputError(f"{path} holds no certificate of labeldp")
    return document


def _holds_certificate(path: Path) -> bool:
    """Return whether the certificate of a file is in it: it begins as Parquet does."""
    with path.open("rb") as file:
        return file.read(8).startswith(FORMATS["parquet"].starts)


METADATA_KEY = b"labeldp.certificate"
CERTIFICATE_SUFFIX = ".certificate.json"
"""What is added to the name of a released file for that of the certificate beside it."""
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}


def is_parquet(path: Path) -> bool:
    """Return whether a name ends as Parquet; raise InputError if it ends neither so nor as CSV or Arrow."""
    if not has_suffix(path):
        raise InputError(
            f"the name {path} must end in .parquet or .csv (or .csv.gz, .csv.bz2, .csv.zst, .csv.lz4), or .arrow"
        )
    return FORMATS["parquet"].names(path)


def is_arrow(path: Path) -> bool:
    """Return whether a name ends like the name of an Arrow file."""
    return FORMATS["arrow"].names(path)


def has_suffix(path: Path) -> bool:
    """Return whether a name ends like the name of a table."""
    return any(FORMATS[name].names(path) for name in ("parquet", "arrow", "csv"))


@contextmanager
def open_sink(target: Path, hidden: Path, ids: str | None = None) -> Iterator[Sink]:
    """Open an output at `hidden`, in the format of the name of `target`; abandon it after any error of the body.

    Of the column `ids`, whose values are distinct, no dictionary is kept.
    """
    sink: Sink
    if is_parquet(target):
        sink = ParquetSink(hidden, ids)
    elif is_arrow(target):
        sink = ArrowSink(hidden)
    else:
        sink = CsvSink(hidden, COMPRESSIONS.get(target.suffix.lower()))
    try:
        yield sink
    except BaseException:
        sink.abandon()
        raise


@final
class ParquetSink(Sink):
    """A Parquet file with its columns and the certificate, and no other metadata."""

    keeps_dictionaries = True

    def __init__(self, path: Path, ids: str | None = None) -> None:
        super().__init__(path)
        self._ids = ids

    def _append(self, batch: pa.RecordBatch) -> None:
        """Write a block as a row group."""
        if self._writer is None:
            repeated: Any = [name for name in batch.schema.names if name != self._ids]
            if any(pa.types.is_nested(kind) for kind in batch.schema.types):
                repeated = True  # the names of nested columns are longer
            self._writer = parquet.ParquetWriter(self._file, batch.schema, compression="zstd", use_dictionary=repeated)
        self._writer.write_batch(batch)

    def finish(self, document: str | None) -> None:
        """Close the file, with a certificate as JSON in its metadata if there is one."""
        if self._writer is not None and document is not None:
            self._writer.add_key_value_metadata({METADATA_KEY: document.encode()})
        super().finish(document)


@final
class ArrowSink(Sink):
    """An Arrow file (IPC file format), compressed by zstd."""

    def _append(self, batch: pa.RecordBatch) -> None:
        if self._writer is None:
            options = pa.ipc.IpcWriteOptions(compression="zstd")
            self._writer = pa.ipc.new_file(self._file, batch.schema, options=options)
        self._writer.write_batch(
            pa.RecordBatch.from_arrays([compact(column) for column in batch.columns], batch.schema.names)
        )


def compact(column: Any) -> Any:
    """Return the same values in new buffers.

    Arrow writes whole buffers: with what stands under missing values, up to 63 bytes of the next rows, and of views all
    texts that they were cut from.
    """
    rows, kind = pa.array(np.arange(len(column))), column.type
    try:
        if pa.types.is_string_view(kind):
            return column.cast(pa.large_string()).take(rows).cast(kind)
        return column.take(rows)
    except pa.ArrowNotImplementedError:
        return pa.array(column.to_pylist(), kind)


@final
class CsvSink(Sink):
    """A CSV file, compressed or not, with commas between cells and quotes only where they are needed."""

    def __init__(self, path: Path, compression: str | None) -> None:
        super().__init__(path)
        self._writer = pa.CompressedOutputStream(self._file, compression) if compression else self._file
        self._started = False

    def _append(self, batch: pa.RecordBatch) -> None:
        if not self._started:
            self._writer.write(csv_lines([pa.array([name], pa.large_string()) for name in batch.schema.names]))
            self._started = True
        self._writer.write(csv_lines([as_text(batch.column(name), name) for name in batch.schema.names]))


def csv_lines(columns: list[Any]) -> memoryview:
    """Return columns of text as the bytes of CSV lines: missing cells empty, empty texts quoted."""
    cells = [_quoted(column) for column in columns]
    lines = pc.binary_join_element_wise(*cells, _text(","), null_handling="replace", null_replacement="")
    ended = pc.binary_join_element_wise(lines, _text("\n"), _text(""))
    _, offsets, data = ended.buffers()
    edges = memoryview(offsets).cast("B").cast("q")[ended.offset : ended.offset + len(ended) + 1]
    return memoryview(data)[edges[0] : edges[-1]]


def _quoted(column: Any) -> Any:
    """Return cells of text with quotes where CSV needs them; one look at all bytes tells if none does."""
    _, edges, data = column.buffers()
    first, last = np.frombuffer(edges, dtype=np.int64)[[column.offset, column.offset + len(column)]]
    content = bytes(memoryview(data)[first:last]) if data is not None else b""
    if not any(mark in content for mark in _MARKS) and not pc.any(pc.equal(pc.binary_length(column), 0)).as_py():
        return column
    needs = pc.or_(pc.match_substring_regex(column, '[,"\r\n]'), pc.equal(column, ""))
    doubled = pc.replace_substring(column, '"', '""')
    quoted = pc.binary_join_element_wise(_text('"'), doubled, _text('"'), _text(""))
    return pc.if_else(needs, quoted, column)


_MARKS = (b",", b'"', b"\r", b"\n")


def _text(value: str) -> Any:
    return pa.scalar(value, pa.large_string())


def document_beside(path: Path) -> Path:
    """Return the path of the certificate of a CSV or Arrow file."""
    return path.with_name(path.name + CERTIFICATE_SUFFIX)


@contextmanager
def table_writer(path: str | os.PathLike[str], columns: Sequence[str]) -> Iterator[Callable[[Sequence[Any]], None]]:
    """Write a new table by blocks: completely or not at all.

    Args:
        path: the output, named as for `release_writer`.
        columns: the names of its columns in order.

    Yields:
        A function that appends a block: one Arrow array for each column, of equal length, of the same types each time.

    Raises:
        InputError: the output exists or cannot be written, or its name has another suffix.
        LabelDPError: the disk is full.
    """
    target = Path(path)
    with atomic_write(target) as hidden, open_sink(target, hidden) as sink:
        yield lambda arrays: sink.write(pa.RecordBatch.from_arrays(list(arrays), names=list(columns)))
        sink.finish(None)


MISSING_LENGTH = 0xFFFFFFFF


@final
class ColumnDigest:
    """SHA-256 over the texts of a column in row order, which are added block by block.

    Two streams are hashed: the lengths of the texts in bytes (4 bytes each, little-endian), and the texts one after
    the other in UTF-8. The digest is the hash of both hashes. No two columns of texts give the same streams.

    Example:
        >>> whole, halves = ColumnDigest(), ColumnDigest()
        >>> whole.add(["yes", "no"])
        >>> halves.add(["yes"]); halves.add(["no"])
        >>> whole.value() == halves.value()
        True
    """

    def __init__(self) -> None:
        self._lengths = hashlib.sha256()
        self._texts = hashlib.sha256()
        self.rows = 0

    def add(self, values: Any) -> None:
        """Add the next values: an Arrow or numpy array, or a list, of texts or numbers."""
        if not isinstance(values, pa.Array):
            values = pa.array(values)
        texts = as_text(plain(values), "released")
        _, offsets, data = texts.buffers()
        edges = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
        lengths = np.diff(edges).astype("<u4")
        lengths[texts.is_null().to_numpy(zero_copy_only=False)] = MISSING_LENGTH
        self._lengths.update(lengths.tobytes())
        if data is not None and len(texts):
            self._texts.update(memoryview(data)[edges[0] : edges[-1]])
        self.rows += len(texts)

    def value(self) -> str:
        """Return the digest of what was added so far, as 64 hexadecimal digits."""
        return hashlib.sha256(self._lengths.digest() + self._texts.digest()).hexdigest()


def column_digest(blocks: Iterable[Any]) -> str:
    """Return the digest of a column given as arrays of consecutive values."""
    digest = ColumnDigest()
    for values in blocks:
        digest.add(values)
    return digest.value()

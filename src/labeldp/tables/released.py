"""Released columns on disk: written by blocks with their certificate, and checked against it."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

import pyarrow as pa
from pyarrow import parquet

from labeldp.privacy import InputError, LabelDPError
from labeldp.tables import parquetfile
from labeldp.tables.digest import ColumnDigest
from labeldp.tables.opening import open_table
from labeldp.tables.quiet import quietly
from labeldp.tables.sinks import METADATA_KEY, Sink, as_document, document_beside, is_parquet, open_sink
from labeldp.tables.values import plain
from labeldp.tables.whole import refuse_target, sync, whole_or_nothing

FORMAT = 1


@final
class ReleaseWriter:
    """Takes the blocks of a released table in order; get one from `release_writer`."""

    def __init__(self, sink: Sink, columns: Sequence[str], released: str) -> None:
        self._sink = sink
        self._columns = tuple(columns)
        self._released = released
        self._digest = ColumnDigest()
        self._schema: pa.Schema | None = None
        self._certificate: dict[str, Any] | None = None

    @property
    def rows(self) -> int:
        """How many rows were written so far."""
        return self._digest.rows

    @property
    def digest(self) -> str:
        """The digest of the released values written so far; see `ColumnDigest`."""
        return self._digest.value()

    def write(self, released: Any, batch: pa.RecordBatch | None = None) -> None:
        """Append a block.

        Args:
            released: the released values of the block, an Arrow or numpy array of texts or numbers, none missing.
            batch: the block that the other columns are taken from, where there are others. Its own
                column of the released name, the private one, is not looked at.

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
        """Give the certificate of what was written, a JSON object; once, after the last block."""
        self._certificate = dict(certificate)

    def document(self) -> str:
        """The certificate and what it is about, as JSON."""
        if self._certificate is None or not self.rows:
            raise LabelDPError("a released table needs rows and a certificate: call write and certify first")
        content = {"format": FORMAT, "column": self._released, "rows": self.rows, "digest": self.digest}
        return as_document({**content, "certificate": self._certificate})

    def _block(self, values: Any, batch: pa.RecordBatch | None) -> pa.RecordBatch:
        """The output columns, built anew: no metadata of the source comes along."""
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
def release_writer(path: str | os.PathLike[str], columns: Sequence[str], *, released: str) -> Iterator[ReleaseWriter]:
    """Write a released column, with other columns or alone, and its certificate: whole or not at all.

    `columns=(id, label)` writes a sidecar, `columns=table.columns` the whole table with the noisy label
    in the place of the private one; `released` is the label's name in both. The certificate goes
    into the metadata of a Parquet file (key `labeldp.certificate`) and into `PATH.certificate.json` beside a CSV
    file.

    Args:
        path: the output, ending in .parquet or .csv (.csv.gz, .csv.bz2, .csv.zst, .csv.lz4).
        columns: the names of the output columns in order, `released` among them.
        released: the name of the released column.

    Yields:
        A writer. Its `certify` must be called before the body ends.

    Guarantee:
        An output never stands without its certificate, and after any error nothing of it stands: the
        certificate of a CSV file appears before the file.

    Raises:
        InputError: the target, or a certificate beside it, exists or cannot be written, or its name asks for another
            format.
        LabelDPError: the disk is full, or no certificate was given.
    """
    target = Path(path)
    beside = None if is_parquet(target) else document_beside(target)
    if released not in columns or len(set(columns)) != len(columns):
        raise InputError("columns must be different names, with the released column among them")
    refuse_target(target, overwrite=False)
    with _cleared(target, beside) as placed, whole_or_nothing(target) as hidden:
        sink = open_sink(target, hidden)
        try:
            writer = ReleaseWriter(sink, columns, released)
            yield writer
            document = writer.document()
            sink.finish(document)
        except BaseException:
            sink.abandon()
            raise
        if beside is not None:
            _certify_first(document, beside, hidden)
            placed.append(beside)


@contextmanager
def _cleared(target: Path, beside: Path | None) -> Iterator[list[Path]]:
    """Refuse a certificate that stands already; one that was placed goes again where the output does not follow."""
    placed: list[Path] = []
    if beside is not None and beside.is_file():
        raise InputError(
            f"{beside} exists already: of a file that was moved, or of a run that was killed; choose another name or "
            "remove it first"
        )
    if beside is not None:
        refuse_target(beside, overwrite=False)
    try:
        yield placed
    except BaseException:
        for place in placed:
            if not os.path.lexists(target):
                place.unlink()
        raise


def _certify_first(document: str, beside: Path, hidden: Path) -> None:
    """Put the certificate in its place while the output is whole but not yet in its own."""
    sync(hidden)
    with whole_or_nothing(beside) as draft:
        draft.write_text(document + "\n", encoding="utf-8")


def read_certificate(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The certificate that came with a released file.

    Args:
        path: a Parquet or CSV file written by `release_writer`.

    Returns:
        A dict: "certificate" as given to `certify`, and what it is about: "column", "rows", "digest".

    Raises:
        InputError: no such file, not a table, or no certificate of ours in or beside it.
    """
    place = open_table(path).path
    document = _document(place)
    try:
        content = json.loads(document)
    except ValueError:
        content = None
    expected = {"format": int, "column": str, "rows": int, "digest": str, "certificate": dict}
    if not isinstance(content, dict) or any(not isinstance(content.get(key), kind) for key, kind in expected.items()):
        raise InputError(f"the certificate of {place} cannot be read: it is damaged or not of labeldp")
    if content["format"] != FORMAT:
        raise InputError(f"the certificate of {place} is of another version of labeldp")
    return content


def is_as_certified(path: str | os.PathLike[str]) -> bool:
    """Whether the released column of a file still holds, in order, the values that its certificate is about.

    Other columns are not covered. Whoever can write the file can write a certificate, too: this finds
    accidents and edits, and is not a signature.

    Raises:
        InputError: as `read_certificate`.
    """
    content = read_certificate(path)
    table = open_table(path)
    if content["column"] not in table.columns:
        return False
    digest = ColumnDigest()
    for batch in table.blocks([content["column"]]):
        digest.add(batch.column(0))
    return bool(digest.rows == content["rows"] and digest.value() == content["digest"])


def _document(path: Path) -> bytes:
    """The certificate as it stands in a Parquet file, or beside a CSV file."""
    with path.open("rb") as file:
        inside = file.read(4) == parquetfile.MAGIC
    if inside:
        problem = f"{path} holds no certificate of labeldp"
        metadata = quietly(lambda: parquet.read_metadata(path).metadata, lambda error: problem)
        if METADATA_KEY not in (metadata or {}):
            raise InputError(problem)
        document: bytes = metadata[METADATA_KEY]
        return document
    beside = document_beside(path)
    return quietly(beside.read_bytes, lambda error: f"{path} has no certificate: {beside} cannot be read")

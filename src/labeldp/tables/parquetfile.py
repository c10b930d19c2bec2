"""Parquet files, read by blocks under the types that they declare."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, final

import pyarrow as pa
from pyarrow import parquet

from labeldp.privacy import InputError
from labeldp.tables.quiet import quiet_blocks, quietly
from labeldp.tables.reading import TableFile, check_names, index_of

MAGIC = b"PAR1"
SUFFIXES = (".parquet", ".pq")
BUFFER_BYTES = 1 << 20


@final
@dataclass(frozen=True)
class ParquetFile(TableFile):
    """A Parquet file. Pages are read through small buffers, so a row group need not fit in memory."""

    declares_names: ClassVar[bool] = True
    types: pa.Schema

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        return pa.schema([self.types.field(name) for name in self._chosen(columns)])

    def _stream(self, columns: tuple[str, ...], block_rows: int) -> Iterator[pa.RecordBatch]:
        def explain(error: Exception) -> str:
            return _complaint(self.path, error)

        with quietly(lambda: _open(self.path), explain) as file:
            batches = file.iter_batches(batch_size=block_rows, columns=list(columns), use_threads=False)
            for batch in quiet_blocks(batches, explain):
                if batch.num_rows:
                    yield pa.RecordBatch.from_arrays(
                        [batch.column(name) for name in columns], schema=self.schema(columns)
                    )


def open_parquet(path: Path) -> ParquetFile:
    """The Parquet file at `path`; refused unless its footer can be read and it has columns and rows."""
    with quietly(lambda: _open(path), lambda error: _complaint(path, error)) as file:
        names = check_names(path, file.schema_arrow.names, declared=True)
        types = pa.schema([field.remove_metadata() for field in file.schema_arrow])
        rows, index = int(file.metadata.num_rows), index_of(file.schema_arrow)
    if not rows:
        raise InputError(f"{path} has columns but no rows")
    return ParquetFile(path, names, rows, types, index=index)


def _open(path: Path) -> parquet.ParquetFile:
    return parquet.ParquetFile(path, buffer_size=BUFFER_BYTES, pre_buffer=False)


def _complaint(path: Path, error: Exception) -> str:
    if isinstance(error, PermissionError):
        return f"{path} may not be read: permission denied"
    return f"{path} is a damaged or truncated Parquet file, or of a kind that cannot be read (encrypted)"

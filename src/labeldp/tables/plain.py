"""Tables without a certificate: what was computed from releases and features alone."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from labeldp.tables.sinks import open_sink
from labeldp.tables.whole import whole_or_nothing


@contextmanager
def table_writer(path: str | os.PathLike[str], columns: Sequence[str]) -> Iterator[Callable[[Sequence[Any]], None]]:
    """Write a new table by blocks: whole or not at all.

    Args:
        path: the output, ending in .parquet or .csv (.csv.gz, .csv.bz2, .csv.zst, .csv.lz4).
        columns: the names of its columns in order.

    Yields:
        A function that appends a block: one Arrow array for each column, of equal length, of the same types each time.

    Raises:
        InputError: the target exists or cannot be written, or its name asks for another format.
        LabelDPError: the disk is full.
    """
    target = Path(path)
    with whole_or_nothing(target) as hidden:
        sink = open_sink(target, hidden)
        try:
            yield lambda arrays: sink.write(pa.RecordBatch.from_arrays(list(arrays), names=list(columns)))
            sink.finish(None)
        except BaseException:
            sink.abandon()
            raise

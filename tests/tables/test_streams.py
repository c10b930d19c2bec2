"""Memory grows with the block, not with the file."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from labeldp.tables import DistinctIds, column_digest, distinct_labels, open_table, record_ids, release_writer

ROWS = 2_000_000
BLOCK = 1 << 16


class Memory:
    """The most that Arrow and Python (numpy with it) held at once since the beginning, in bytes."""

    def __init__(self) -> None:
        self._start = pa.total_allocated_bytes()
        self._arrow = 0

    def watch(self, blocks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same blocks, with a look at what Arrow holds at each."""
        for block in blocks:
            yield block
            self.look()

    def look(self) -> None:
        self._arrow = max(self._arrow, pa.total_allocated_bytes() - self._start)

    def peak(self) -> int:
        return self._arrow + tracemalloc.get_traced_memory()[1]


@contextmanager
def memory_below(megabytes: int) -> Iterator[Memory]:
    """What the body holds at any time stays below a limit."""
    tracemalloc.start()
    try:
        memory = Memory()
        yield memory
        assert memory.peak() < megabytes << 20
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Parquet file in one row group whose columns take 48 MB in memory."""
    path = tmp_path_factory.mktemp("big") / "big.parquet"
    rng = np.random.default_rng(3)
    columns = {"id": np.arange(ROWS)[::-1], "x": rng.random(ROWS), "y": rng.integers(0, 10, ROWS)}
    parquet.write_table(pa.table(columns), path, row_group_size=ROWS, compression="none")
    return path


@pytest.mark.parametrize("name", ["out.parquet", "out.csv"])
def test_a_release_streams(big: Path, tmp_path: Path, name: str) -> None:
    table = open_table(big)
    with memory_below(24) as memory, release_writer(tmp_path / name, ("id", "y"), released="y") as writer:
        for batch in memory.watch(table.blocks(["id", "y"], block_rows=BLOCK)):
            texts, places = distinct_labels(batch, "y")
            writer.write(texts[::-1][places], batch)
        writer.certify({})
        digest = writer.digest
    assert writer.rows == ROWS == table.rows
    assert digest == column_digest(batch.column(0) for batch in open_table(tmp_path / name).blocks(["y"]))


def test_csv_streams(tmp_path: Path) -> None:
    path = tmp_path / "big.csv"
    with path.open("wb") as file:
        file.write(b"id,y\n")
        for _ in range(150):
            file.write(b"1234567,yes\n" * 90_000)
    assert path.stat().st_size > 150 << 20
    with memory_below(75) as memory:  # the reader works some blocks ahead
        assert sum(batch.num_rows for batch in memory.watch(open_table(path).blocks())) == 150 * 90_000


def test_distinct_ids_stream(big: Path) -> None:
    with memory_below(24) as memory, DistinctIds(held=1 << 18) as seen:
        for batch in memory.watch(open_table(big).blocks(["id"], block_rows=BLOCK)):
            seen.add(record_ids(batch, "id"))


def test_the_measure_itself_would_notice(big: Path) -> None:
    with pytest.raises(AssertionError), memory_below(24) as memory:
        table = open_table(big).read()
        memory.look()
        assert table.num_rows == ROWS

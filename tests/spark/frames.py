"""Data frames for the tests of the room: the people of `releases.tables`, in so many partitions, and odd sources."""

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from releases.tables import people


def frame(spark: Any, table: pa.Table | None = None, partitions: int = 2, seed: int = 0) -> Any:
    """A table as a data frame; its rows are dealt to partitions."""
    rows = people() if table is None else table
    folder = Path(spark.conf.get("spark.sql.warehouse.dir").replace("file:///", "/").removeprefix("file:"))
    folder.mkdir(exist_ok=True)
    place = folder / f"{secrets.token_hex(8)}.parquet"
    parquet.write_table(rows, place)
    made = spark.read.parquet(place.as_uri())
    return made.repartition(partitions) if seed == 0 else made.repartition(partitions, "height")


def through(source: Any, change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> Any:
    """A data frame whose blocks go through a function at each evaluation, in a worker."""

    def changed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from map(change, batches)

    return source.mapInArrow(changed, source.schema)


def dying(source: Any, marks: Path, times: int = 1) -> Any:
    """A data frame of which a worker dies in the middle of a part, so many times at each evaluation."""

    def die(batch: pa.RecordBatch) -> pa.RecordBatch:
        dead = len(list(marks.iterdir()))
        if dead < times and batch.num_rows:
            (marks / str(dead)).touch()
            os._exit(1)
        return batch

    return through(source, die)


def answers(released: Any) -> dict[Any, Any]:
    """The noisy label of each id in a data frame of ids and labels."""
    rows = released.collect()
    assert len({row[0] for row in rows}) == len(rows)
    return {row[0]: row[1] for row in rows}

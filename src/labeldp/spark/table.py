"""A data frame of Spark as a table that workers hold."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, final

import pyarrow as pa

from labeldp.cluster import Join, Task
from labeldp.privacy import InputError, LabelDPError
from labeldp.spark.session import require_spark, spark_failed


@final
class SparkTable:
    """A data frame as the room `cluster` takes it: a task is run on each partition by `mapInArrow`.

    Spark may run a task several times (after a failure, or where one is slow), and reports what one of them returned.

    Args:
        frame: the data frame, which is evaluated anew for each task.

    Raises:
        InputError: not a data frame of Spark, or a stream.
    """

    def __init__(self, frame: Any) -> None:
        require_spark()
        if not hasattr(frame, "mapInArrow"):
            raise InputError("must be a data frame of Spark", argument="dataframe")
        if frame.isStreaming:
            raise InputError("must not be a stream: its labels are never all there", argument="dataframe")
        self.frame = frame

    @property
    def schema(self) -> pa.Schema:
        """Names and Arrow types of the columns; null where Arrow has no such type."""
        return pa.schema([(field.name, arrow_type(field.dataType)) for field in self.frame.schema.fields])

    def run(self, task: Task, columns: Sequence[str], join: Join | None = None) -> list[bytes]:
        """Run a task on some columns of each partition, in their order, if `join` does not put results together."""
        return _collected(self.frame.select(*map(quoted, columns)), task, join)

    def run_by_id(self, task: Task, column: str) -> list[bytes]:
        """Run a task on the ids, shuffled so that equal ones stand in one partition."""
        ids = self.frame.select(quoted(column))
        return _collected(ids.repartition(ids[quoted(column)]), task)


def quoted(name: str) -> str:
    """Return a column's name as Spark's expressions take it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def arrow_type(kind: Any) -> pa.DataType:
    """Return the Arrow type of a type of Spark, null where there is none."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    try:
        return to_arrow_type(kind)
    except PySparkException:
        return pa.null()


JOINERS = 8
"""Workers that join results before they go to the driver."""


def _collected(frame: Any, task: Task, join: Join | None = None) -> list[bytes]:
    """Run a task on each partition of a data frame, and return what it returned."""

    def part(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"state": [task(batches)]})

    def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        states = [state.as_py() for batch in batches for state in batch.column(0)]
        if states and join is not None:
            yield pa.RecordBatch.from_pydict({"state": [join(states)]})

    try:
        states = frame.mapInArrow(part, "state binary")
        if join is not None:
            states = states.repartition(JOINERS).mapInArrow(joined, "state binary")
        return [bytes(row[0]) for row in states.collect()]
    except LabelDPError:
        raise
    except Exception as error:
        problem = spark_failed(error)
    raise problem

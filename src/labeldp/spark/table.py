"""A data frame of Spark as a table, and a session of Spark."""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, final

import pyarrow as pa

from labeldp.privacy import InputError, LabelDPError
from labeldp.tables import Join, Table, Task

PART_ROWS = 1 << 20
"""Records of a part of an output, on average."""


@final
class SparkTable(Table):
    """A data frame of Spark as a table: a task is run on each partition by `mapInArrow`, in no order.

    Spark may run a task several times (after a failure, or where one is slow), and reports what one of them returned.

    Args:
        frame: the data frame, which is evaluated anew for each task.

    Raises:
        InputError: not a data frame of Spark, or a stream.
    """

    frame: Any

    def __init__(self, frame: Any) -> None:
        require_spark()
        if not hasattr(frame, "mapInArrow"):
            raise InputError("must be a data frame of Spark", argument="dataframe")
        if frame.isStreaming:
            raise InputError("must not be a stream: its labels are never all there", argument="dataframe")
        schema = pa.schema([(column.name, arrow_type(column.dataType)) for column in frame.schema.fields])
        super().__init__(Path("the data frame"), schema)
        self.frame = frame

    def placed(self, ids: str, records: int) -> "SparkTable":
        """Return the table in parts by a hash of the ids, sorted by them; how many follows from the records."""
        key = self.frame[quoted(ids)]
        parts = max(1, -(-records // PART_ROWS))  # a number that is named is not changed by the sizes of parts
        return SparkTable(self.frame.repartition(parts, key).sortWithinPartitions(key))

    def run(
        self, task: Task, columns: Sequence[str], *, join: Join | None = None, by: str | None = None
    ) -> list[bytes]:
        """Run a task on some columns of each partition, in their order; see `Table.run`."""
        frame = self.frame.select(*map(quoted, dict.fromkeys(columns)))
        return _collected(frame if by is None else frame.repartition(frame[quoted(by)]), task, join)


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


def _collected(frame: Any, task: Task, join: Join | None) -> list[bytes]:
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


def require_spark() -> None:
    """Raise InputError if pyspark is not installed."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise InputError("Spark needs pyspark: pip install 'labeldp[spark]'") from None


def require_java() -> None:
    """Raise InputError if there is no Java to start Spark with."""
    home = os.environ.get("JAVA_HOME")
    if not ((Path(home) / "bin" / "java").is_file() if home else shutil.which("java")):
        where = f"JAVA_HOME is {home}, which holds none" if home else "no java is on the PATH"
        raise InputError(
            f"Spark needs Java 17, and {where}: install it (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
            "macOS: brew install openjdk@17), or set JAVA_HOME to where it is"
        )


def start_session(master: str, name: str = "labeldp") -> Any:
    """Return a Spark session, the one that is active or a new one.

    Args:
        master: where Spark runs: "local[4]" for four cores of this machine, "yarn", "spark://host:7077", "k8s://…".
        name: of the application.

    Raises:
        InputError: pyspark or Java is not installed, or Spark does not know the master.
    """
    require_spark()
    require_java()
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers have the packages of the driver
    builder = SparkSession.builder.master(master).appName(name).config("spark.ui.showConsoleProgress", "false")
    try:
        return builder.getOrCreate()
    except Exception as error:
        first = str(error).strip().splitlines()
        raise InputError(
            f"master: Spark could not be started on {master!r}: {first[0] if first else type(error).__name__}"
        ) from None


def spark_failed(error: Exception) -> LabelDPError:
    """Return what is said of an error of Spark; its own words may quote cells of the table, and stay in its log."""
    text = str(error)
    if "No module named 'labeldp'" in text:
        return LabelDPError("labeldp must be installed on every worker of the cluster: pip install labeldp")
    if "No module named 'pyarrow'" in text:
        return LabelDPError("pyarrow must be installed on every worker; is PYSPARK_PYTHON the Python that has it?")
    return LabelDPError(
        f"Spark could not finish ({type(error).__name__}): a file cannot be read, or workers failed; its log says more"
    )

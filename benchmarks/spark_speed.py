"""What a release in Spark costs beside Spark itself: an identity `mapInArrow` of the same columns, in one run.

    python benchmarks/spark_speed.py [--rows 1e7] [--repeats 3] [--cores 2] [--write]

Spark on some cores of this machine, rows in Parquet; wall time, and processor time of Java, its workers and the driver
together, medians. The check of the ids, which is a shuffle of that column, is counted apart.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pages

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import labeldp as ldp
from labeldp import spark as lds
from labeldp.releases import charge, write_parts
from labeldp.tables import Table

NAMES = ("no", "yes", "perhaps")
MECHANISM = ldp.RandomizedResponse(domain=ldp.Classes(NAMES), epsilon=1)
FILES = 16


def processor_time() -> float:
    """Seconds of processor time of this process and of all that descend from it and live."""
    children: dict[int, list[int]] = {}
    used: dict[int, float] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(place.parent.name)
        children.setdefault(int(fields[1]), []).append(pid)
        used[pid] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    total, waiting = 0.0, [os.getpid()]
    while waiting:
        pid = waiting.pop()
        total += used.get(pid, 0.0)
        waiting += children.get(pid, [])
    return total


def make(folder: Path, rows: int, texts: bool) -> None:
    """Write a table of ids in no order, and labels."""
    rng = np.random.default_rng(0)
    step = 7 if rows % 7 else 11  # no divisor: each id once
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(rows), FILES)):
        ids = part * step % rows
        names = pa.array([f"user-{each:09d}" for each in ids.tolist()]) if texts else pa.array(ids)
        labels = pa.array(np.array(NAMES)[rng.integers(0, 3, len(part))])
        parquet.write_table(pa.table({"id": names, "label": labels}), folder / f"part-{number}.parquet")


class Measured:
    """Wall and processor times of named steps."""

    def __init__(self) -> None:
        self.times: dict[str, list[tuple[float, float]]] = {}

    def __call__(self, name: str, work: Callable[[], Any]) -> Any:
        start, used = time.perf_counter(), processor_time()
        found = work()
        self.times.setdefault(name, []).append((time.perf_counter() - start, processor_time() - used))
        return found

    def median(self, name: str) -> tuple[float, float]:
        walls, used = zip(*self.times[name], strict=True)
        return statistics.median(walls), statistics.median(used)


def identity(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


class Timed(Table):
    """A table that takes the time of each task."""

    def __init__(self, frame: Any, measured: Measured) -> None:
        self._table, self._measured = lds.SparkTable(frame), measured
        self._runs = ["check of ids", "read labels", "draw and write"]
        super().__init__(self._table.path, self._table.schema)

    def run(self, task: Any, columns: Any, **options: Any) -> list[bytes]:
        return self._measured(self._runs.pop(0), lambda: self._table.run(task, columns, **options))


def once(spark: Any, source: Path, folder: Path, measured: Measured) -> None:
    """One round of everything."""
    folder.mkdir()
    frame = spark.read.parquet(source.as_uri())
    same = frame.mapInArrow(identity, frame.schema)
    measured("identity, written", lambda: same.write.parquet((folder / "identity").as_uri()))
    measured("identity, not kept", lambda: same.write.format("noop").mode("overwrite").save())
    measured("copy without Python", lambda: frame.write.parquet((folder / "copy").as_uri()))
    table = Timed(frame, measured)

    def release() -> None:
        account = {"ledger": folder / "l.db", "dataset": "label"}
        grant = charge(table, label="label", id="id", mechanism=MECHANISM, **account)
        write_parts(table, grant, folder / "out")

    measured("release, written", release)
    asked: dict[str, Any] = {"label": "label", "id": "id", "mechanism": MECHANISM, "dataset": "label"}
    lazy = lds.release(frame, ledger=folder / "l.db", **asked).value
    measured("release, not kept", lambda: lazy.write.format("noop").mode("overwrite").save())
    shutil.rmtree(folder)


STEPS = (
    "copy without Python",
    "identity, written",
    "identity, not kept",
    "check of ids",
    "read labels",
    "draw and write",
    "release, written",
    "release, not kept",
)


def table(title: str, measured: Measured, rows: int) -> list[str]:
    """The steps of one table in Markdown."""
    head = "| step | wall, s | processor, s | million rows a second | core hours for 10^9 rows, extrapolated |"
    lines = [f"## {title}", "", head, "|---|---|---|---|---|"]
    for name in STEPS:
        wall, used = measured.median(name)
        lines.append(f"| {name} | {wall:.1f} | {used:.1f} | {rows / wall / 1e6:.2f} | {used / rows * 1e9 / 3600:.2f} |")
    ratios = []
    for which in (0, 1):
        same, whole = (measured.median(name)[which] for name in ("identity, written", "release, written"))
        whole -= measured.median("check of ids")[which]
        drawn, lazy = (measured.median(name)[which] for name in ("draw and write", "release, not kept"))
        ratios.append((same / whole, same / drawn, measured.median("identity, not kept")[which] / lazy))
    said = ("wall", "processor")
    lines += ["", "| speed of an identity `mapInArrow` | " + " | ".join(said) + " |", "|---|---|---|"]
    names = ("written release, without the check of ids", "its noise drawn and written", "a lazy release, not kept")
    for row, name in enumerate(names):
        lines.append(f"| {name} | {ratios[0][row]:.2f} | {ratios[1][row]:.2f} |")
    return [*lines, ""]


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=10**6)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="store the tables in docs/results/data")
    options = parser.parse_args()
    spark = lds.start_session(f"local[{options.cores}]")
    spark.sparkContext.setLogLevel("ERROR")
    command = f"python benchmarks/spark_speed.py --rows {options.rows:.0e} --repeats {options.repeats}"
    import pyspark

    lines = [
        "# Spark",
        "",
        f"`{command}`: Spark {pyspark.__version__}, `local[{options.cores}]`, pyarrow {pa.__version__}; medians of "
        f"{options.repeats}; three classes, {FILES} files of Parquet. Processor time is that of Java, its workers and "
        "the driver together. Ratios were taken in one run; absolute figures depend on the machine.",
        "",
    ]
    lines += [
        "A written release checks the ids (a shuffle of that column), reads the labels to charge them, and reads them "
        "again to draw; a lazy one draws when it is used. It has to read them twice: the key of the noise follows from "
        "a digest of all labels, so none can be drawn before all were read, and labels that were set aside between "
        "would lie on disks of the cluster under a key that its tasks carry. Core hours are processor time times 10^9 "
        "over the rows: an extrapolation, nothing above these rows was run.",
        "",
    ]
    with tempfile.TemporaryDirectory() as place:
        for texts in (False, True):
            source = Path(place) / f"source-{texts}"
            make(source, options.rows, texts)
            once(spark, source, Path(place) / "warm", Measured())
            measured = Measured()
            for _ in range(options.repeats):
                once(spark, source, Path(place) / "round", measured)
            title = f"{options.rows:,} rows, {'text' if texts else 'integer'} ids"
            lines += table(title, measured, options.rows)
            print("\n".join(lines), flush=True)
            shutil.rmtree(source)
    spark.stop()
    load = os.getloadavg()[2]
    lines.append(
        f"{os.cpu_count()} cores; the load of the machine over the last 15 minutes was {load:.0f}. Where that is above "
        "the cores, others ran beside: wall times are long, and ratios of processor time say more."
    )
    if options.write:
        pages.store("\n".join(lines).rstrip() + "\n", "spark", "spark-ratios")


if __name__ == "__main__":
    main()

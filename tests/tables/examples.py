"""One example of each kind of data that `open_table` takes; the tests of tables run over them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
from pyarrow import csv, parquet

SECRET = "hiv-positive"
"""A label that no error may quote."""

ROWS = 60


def people() -> pa.Table:
    """Records with an id, a label and a feature."""
    numbers = list(range(ROWS))
    labels = [SECRET if number % 3 else "none" for number in numbers]
    return pa.table({"id": [7 * number for number in numbers], "diagnosis": labels, "age": numbers})


@dataclass(frozen=True)
class Example:
    """A kind of data.

    Fields:
        format: its name in `FORMATS`.
        store: puts a table into a new folder in this form, and returns what is opened.
        file: the name of one file in the folder whose bytes may be damaged; None where nothing is a file.
    """

    format: str
    store: Callable[[pa.Table, Path], Any]
    file: str | None = None


def _csv(name: str) -> Callable[[pa.Table, Path], Path]:
    def store(table: pa.Table, folder: Path) -> Path:
        with pa.output_stream(str(folder / name), compression="detect") as stream:
            csv.write_csv(table, stream)
        return folder / name

    return store


def _parquet(table: pa.Table, folder: Path) -> Path:
    parquet.write_table(table, folder / "t.parquet", row_group_size=25)
    return folder / "t.parquet"


def _arrow(table: pa.Table, folder: Path) -> Path:
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.OSFile(str(folder / "t.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema, options=options) as sink:
        sink.write_table(table, max_chunksize=25)
    return folder / "t.arrow"


def _folder(table: pa.Table, folder: Path) -> Path:
    (folder / "day=2").mkdir()
    csv.write_csv(table[:20], folder / "a.csv")
    parquet.write_table(table[20:], folder / "day=2" / "b.parquet")
    return folder


def _polars(table: pa.Table, folder: Path) -> Any:
    import polars

    return polars.from_arrow(table)


EXAMPLES = {
    "CSV": Example("csv", _csv("t.csv"), "t.csv"),
    "CSV, gzip": Example("csv", _csv("t.csv.gz"), "t.csv.gz"),
    "Parquet": Example("parquet", _parquet, "t.parquet"),
    "Arrow": Example("arrow", _arrow, "t.arrow"),
    "folder": Example("folder", _folder, "day=2/b.parquet"),
    "pyarrow": Example("stream", lambda table, folder: table),
    "pandas": Example("stream", lambda table, folder: table.to_pandas()),
    "polars": Example("stream", _polars),
    "dataset": Example("stream", lambda table, folder: pyarrow.dataset.dataset(_parquet(table, folder))),
}
"""The one list. Data frames of Spark have their tests in `tests/spark`."""

"""The list of the formats that `open_table` takes."""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from labeldp.privacy import InputError


@dataclass(frozen=True)
class Format:
    """A kind of data.

    Fields:
        opener: "module:function", which takes the path or the object and returns a `Table`.
        help: a short description.
        endings: suffixes of its files.
        starts: first bytes of its files.
        attributes: its objects have one of these.
    """

    opener: str
    help: str
    endings: tuple[str, ...] = ()
    starts: tuple[bytes, ...] = ()
    attributes: tuple[str, ...] = ()

    def load(self) -> Callable[[Any], Any]:
        """Import the opener."""
        module, name = self.opener.split(":")
        function: Callable[[Any], Any] = getattr(import_module(module), name)
        return function

    def names(self, path: Path) -> bool:
        """Return whether a file is named as one of these."""
        return path.name.lower().endswith(self.endings)


FORMATS = {
    "parquet": Format("labeldp.tables.files:open_parquet", "Parquet", (".parquet", ".pq"), (b"PAR1",)),
    "arrow": Format(
        "labeldp.tables.files:open_arrow", "Arrow (IPC, Feather version 2)", (".arrow", ".feather"), (b"ARROW1",)
    ),
    "csv": Format(
        "labeldp.tables.files:open_csv",
        "CSV with a header row, in UTF-8 (plain, gzip, bz2, zstd, lz4)",
        (".csv", ".csv.gz", ".csv.bz2", ".csv.zst", ".csv.lz4"),
    ),
    "folder": Format("labeldp.tables.folders:open_folder", "a folder of such files"),
    "spark": Format("labeldp.spark:SparkTable", "a data frame of Spark", attributes=("mapInArrow",)),
    "stream": Format(
        "labeldp.tables.table:open_stream",
        "a table, data frame or query that gives an Arrow stream (pyarrow, polars, pandas, DuckDB)",
        attributes=("__arrow_c_stream__", "scanner"),
    ),
}
"""All formats. Files are recognized by their first bytes; any other file is read as CSV."""

OTHER_FORMATS = {
    "a JSON file": (b'{"', b'[{"', b"[{\n", b"[\n", b"{\n", b"[["),
    "an Excel file or another ZIP archive": (b"PK\x03\x04",),
    "an old Excel file": (b"\xd0\xcf\x11\xe0",),
}
"""First bytes of common files that are not read."""

JSON_ENDINGS = (".json", ".jsonl", ".ndjson")


def format_of(data: Any) -> Format:
    """Return the format of an object, or of the file or folder at a path."""
    if not isinstance(data, Path):
        for kind in FORMATS.values():
            if any(hasattr(data, name) for name in kind.attributes):
                return kind
        raise InputError("must be a path, or a table that gives an Arrow stream", argument="data")
    if data.is_dir():
        return FORMATS["folder"]
    head = _head(data)
    for kind in FORMATS.values():
        if head.startswith(kind.starts):
            return kind
    for kind in FORMATS.values():
        if kind.starts and kind.names(data):
            word = kind.help.split()[0]
            raise InputError(f"{data} is named as {word} but is not: it may be damaged or truncated")
    other = next((name for name, starts in OTHER_FORMATS.items() if head.startswith(starts)), None)
    if other is None and data.suffix.lower() in JSON_ENDINGS:
        other = "a JSON file"
    if data.suffix.lower() in (".npz", ".npy"):
        other = "a NumPy archive of arrays, not a table"
    if other is not None:
        raise InputError(f"{data} is {other}: save it as CSV or Parquet first")
    return FORMATS["csv"]


def _head(path: Path) -> bytes:
    """Return the first bytes of a regular, readable file that is not empty."""
    problem = None
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise InputError(f"{path} is not a regular file; it is read more than once, so save it first")
        with path.open("rb") as file:
            head = file.read(8)
    except FileNotFoundError:
        problem = f"no such file: {path}"
    except OSError as error:
        problem = f"{path} cannot be read: {error.strerror}"
    if problem:
        raise InputError(problem)
    if not head:
        raise InputError(f"{path} is empty: a header row and at least one more row are needed")
    return head

"""Open a table by what the file holds, whatever its name."""

import os
import stat
from pathlib import Path

from labeldp.privacy import InputError
from labeldp.tables import parquetfile
from labeldp.tables.csvfile import open_csv
from labeldp.tables.reading import TableFile


def open_table(path: str | os.PathLike[str]) -> TableFile:
    """Open a CSV (plain, gzip, bz2, zstd, lz4) or Parquet file for reading by blocks.

    The format is told from the content. A CSV file needs a header row; its delimiter is the one of comma,
    tab, semicolon and bar that stands most often in that row.

    Args:
        path: a regular file.

    Returns:
        A `TableFile` with at least one column and one row.

    Raises:
        InputError: no such file, a directory, an empty file, a header without rows, repeated column
            names, or something that is not a table. No message holds the content of a cell.
    """
    place = Path(path)
    head = _head(place)
    if head.startswith(parquetfile.MAGIC):
        return parquetfile.open_parquet(place)
    if place.suffix.lower() in parquetfile.SUFFIXES:
        raise InputError(f"{place} is named as Parquet but is not: it may be damaged or truncated")
    return open_csv(place, head)


def _head(path: Path) -> bytes:
    """The first bytes of a regular, readable file that is not empty."""
    problem = None
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise InputError(f"{path} is a directory; a CSV or Parquet file is needed")
        if not stat.S_ISREG(mode):
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

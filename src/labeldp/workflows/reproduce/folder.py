"""A folder of runs: a file for each one that is finished, and a claim on each that somebody is at."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from labeldp.privacy import InputError

RUNS, UNFINISHED = "runs", "unfinished"


def results_folder(out: str) -> Path:
    """The folder of runs, made if need be.

    Raises:
        InputError: a file, a folder that holds other things only, or one that cannot be made.
    """
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {out} is a file; the name of a folder is needed")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / RUNS).is_dir():
        raise InputError(f"--out {out} holds other things: name a new folder, or one of labeldp reproduce")
    try:
        (folder / RUNS).mkdir(parents=True, exist_ok=True)
    except OSError:
        raise InputError(f"--out {out} cannot be made: give a folder that can be written to") from None
    return folder


@contextmanager
def claimed(place: Path) -> Iterator[bool]:
    """Hold the folder of a run; the claim goes with the process, however that ends. False where another holds it."""
    handle = _opened(place)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)
        with suppress(OSError):  # others are at work
            place.parent.rmdir()


def _opened(place: Path) -> int:
    """A folder that was made if need be, open; again where another command removed it meanwhile."""
    while True:
        with suppress(FileNotFoundError):
            place.mkdir(parents=True, exist_ok=True)
            return os.open(place, os.O_RDONLY | os.O_DIRECTORY)

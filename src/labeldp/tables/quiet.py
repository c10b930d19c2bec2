"""Errors of the readers below, told in our words: theirs quote cells, and one of the columns is private."""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pyarrow as pa

from labeldp.privacy import InputError, LabelDPError

Result = TypeVar("Result")
Explain = Callable[[Exception], str]
DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def quietly(action: Callable[[], Result], explain: Explain) -> Result:
    """The result of `action`; a failure to read becomes an InputError that carries nothing of the original."""
    try:
        return action()
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, UnicodeError) as error:
        problem = explain(error)
    raise InputError(problem)  # outside the handler: no __context__ to print a row from


def quiet_blocks(batches: Iterator[pa.RecordBatch], explain: Explain) -> Iterator[pa.RecordBatch]:
    """The same blocks, with the errors of reading them told by `explain`."""
    while (batch := quietly(lambda: next(batches, None), explain)) is not None:
        yield batch


@contextmanager
def naming_full_disk(what: str) -> Iterator[None]:
    """A disk that fills up in the body becomes a LabelDPError that says so; other errors pass."""
    try:
        yield
        return
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
    raise LabelDPError(f"the disk is full, or its quota is: {what} was not written; make room and run again")

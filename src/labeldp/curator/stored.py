"""The entries of a ledger file, read with suspicion: whoever holds the file can write to it."""

import zlib
from collections.abc import Callable
from typing import Any, TypeVar

from labeldp.privacy import LedgerError, json_value

Result = TypeVar("Result")


def stored(text: Any, parse: Callable[[Any], Result]) -> Result:
    """Return what `parse` makes of a JSON text of a ledger.

    Raises:
        LedgerError: labeldp did not write it.
    """
    return as_written(lambda: parse(json_value(text)))


def as_written(read: Callable[[], Result]) -> Result:
    """Return what `read` returns; raise LedgerError where it meets what labeldp did not write."""
    try:
        return read()
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, MemoryError, EOFError, zlib.error):
        pass
    raise LedgerError(
        "the ledger holds an entry that labeldp did not write: it is damaged, or was changed by hand; restore it from "
        "a copy that holds every release made so far"
    )

"""Checked reading of untrusted files: JSON, exact numbers, and the growth of compressed data."""

import json
import math
import re
import zlib
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeVar

from labeldp.privacy.errors import InputError, LedgerError

Result = TypeVar("Result")

MOST_GROWTH = 200
"""By how much data may grow when they are read: tables and images compress by 2 to 50."""

ALWAYS_FINE = 1 << 28
"""Bytes that any file may grow to, 256 MiB."""

_NUMBER = re.compile(r"[+-]?\d+(/\d+|(\.\d*)?([eE][+-]?\d{1,3})?)")


def json_value(text: str | bytes) -> Any:
    """Return the value of a JSON text, in which every number is finite and no object has a key twice.

    Raises:
        ValueError: not JSON, or nested deeper than Python reads.
    """
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite, object_pairs_hook=_object)
    except RecursionError:
        problem = "nested too deep"
    raise ValueError(problem)


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is no number of JSON")
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; readers differ on which of two values with one key counts."""
    if len(value := dict(pairs)) < len(pairs):
        raise ValueError("a key occurs twice")
    return value


def stored_fraction(text: Any) -> Fraction:
    """Return an exact number as a file holds it: an integer, a ratio, or a decimal with an exponent below 1000.

    `Fraction` alone would take years for 1e999999999.

    Raises:
        ValueError: something else.
    """
    if isinstance(text, bool) or not (isinstance(text, int | float) or _NUMBER.fullmatch(str(text))):
        raise ValueError("not a number of ordinary size")
    return Fraction(text)


def most_bytes(stored: int) -> int:
    """Return how many bytes may be made of so many on disk."""
    return max(ALWAYS_FINE, MOST_GROWTH * stored)


def check_growth(what: object, stored: int, size: int) -> None:
    """Refuse what would fill the memory: more than 256 MiB, and more than 200 times its bytes on disk.

    Args:
        what: name of the file in the message.
        stored: its bytes on disk.
        size: its bytes in memory.

    Raises:
        InputError: it would grow by more.
    """
    if size > most_bytes(stored):
        raise InputError(
            f"{what} would grow from {stored:,} bytes to at least {size:,}, which no plain data do: it was not read"
        )


def read_stored(text: Any, parse: Callable[[Any], Result]) -> Result:
    """Parse a JSON text of a ledger, whose holder can write to it.

    Raises:
        LedgerError: labeldp did not write it.
    """
    return as_written(lambda: parse(json_value(text)))


def as_written(read: Callable[[], Result]) -> Result:
    """Return the result of `read`; raise LedgerError for content that labeldp did not write."""
    try:
        return read()
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, MemoryError, EOFError, zlib.error):
        pass
    raise LedgerError(
        "the ledger holds an entry that labeldp did not write: it is damaged, or was changed by hand; restore it from "
        "a copy that holds every release made so far"
    )

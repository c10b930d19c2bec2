"""Checks of arguments and of what files hold; names of arrays that signatures use.

Each check returns the value in one type, or raises an `InputError` that names the argument: for another value, or
another type.
`check_…` returns Python's own numbers, rounded as floats are; `exact_…` returns a `Fraction`, the decimal as written.
"""

import json
import math
import os
import re
import zlib
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy.errors import Argument, InputError, LedgerError
from labeldp.privacy.exact import decimal

Floats = NDArray[np.float64]
"""Doubles, of any shape."""

AnyFloats = NDArray[np.floating[Any]]
"""Floats of any size, as features come."""

Integers = NDArray[np.int64]
"""Integers of 64 bits, of any shape."""

Flags = NDArray[np.bool_]
"""Truth values, of any shape."""

MAX_EPSILON = 10**6
"""The largest epsilon at which a privacy curve is read."""


def set_fields(instance: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass; for its `__post_init__` alone, which stores what it has checked."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)


def check_integer(value: Any, name: str, low: int = 1, high: int | None = None, advice: str = "") -> int:
    """Return an integer from `low` to `high`, one of Python's; `advice` extends the error."""
    integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not integer or value < low or (high is not None and value > high):
        allowed = f", at least {low}" if high is None else f" from {low} to {high}"
        raise InputError(f"must be an integer{allowed}{advice}", argument=name)
    return int(value)


def check_positive(value: Any, name: str) -> float:
    """Return a positive finite number."""
    if not _is_number(value) or not 0 < value < math.inf:
        raise InputError("must be a positive finite number", argument=name)
    return float(value)


def check_nonnegative(value: Any, name: str) -> float:
    """Return a finite number of at least 0."""
    if not _is_number(value) or not 0 <= value < math.inf:
        raise InputError("must be a finite number, at least 0", argument=name)
    return float(value)


def check_choice(value: Any, name: str, choices: tuple[str, ...]) -> str:
    """Return one of some words."""
    if value not in choices:
        raise InputError(f"must be one of {', '.join(choices)}", argument=name)
    return str(value)


def check_epsilon(value: Any) -> float:
    """Return an epsilon at which a privacy curve is read, in [0, `MAX_EPSILON`]."""
    exact = decimal(value, "epsilon")
    if not 0 <= exact <= MAX_EPSILON:
        raise InputError(f"must lie in [0, {MAX_EPSILON}]", argument="epsilon")
    return float(exact)


def check_curator(value: Any, target: str | None = None) -> None:
    """Raise an `InputError` unless this is a curator of such labels, and not the labels themselves."""
    if not all(hasattr(value, name) for name in ("records", "domain", "require", "release")):
        raise InputError(
            "must be a Curator, which holds the private labels and charges them: ldp.Curator(y, domain=ldp.Classes"
            "(('no', 'yes')), budget=ldp.Budget(1.0)). LabelDPClassifier and LabelDPRegressor take labels: fit(X, y)",
            argument="curator",
        )
    if target is not None and value.domain.target != target:
        domain = {"classes": "Classes", "numbers": "an Interval"}[target]
        raise InputError(f"must hold {target}: its domain is not {domain}", argument="curator")


def check_delta(value: Any, advice: str = "") -> float:
    """Return a delta in (0, 1); `advice` extends the error."""
    exact = decimal(value, "delta")
    if not 0 < exact < 1:
        raise InputError("must lie in (0, 1), such as ", Argument("delta", "1e-6"), advice, argument="delta")
    return float(exact)


def exact_positive(value: Any, name: str) -> Fraction:
    """Return a positive number, exactly as its text says."""
    exact = decimal(value, name)
    if exact <= 0:
        raise InputError("must be positive", argument=name)
    return exact


def exact_share(value: Any, name: str) -> Fraction:
    """Return a number in (0, 1] that coins of 32 bits give exactly."""
    exact = decimal(value, name)
    if not 0 < exact <= 1 or (1 << 32) % exact.denominator:
        raise InputError("must lie in (0, 1] and be a multiple of 2**-32, such as Fraction(1, 128)", argument=name)
    return exact


def label_width(label_range: Any) -> Fraction:
    """Return the width of the range of labels, exactly.

    Raises:
        InputError: no pair of numbers in ascending order.
    """
    try:
        low, high = label_range
    except (TypeError, ValueError):
        raise InputError(
            "must be a pair of numbers, lowest and highest label, such as (0, 100)", argument="label_range"
        ) from None
    ends = decimal(low, "label_range"), decimal(high, "label_range")
    if ends[0] >= ends[1]:
        raise InputError("must have its lowest label first, and a higher one second", argument="label_range")
    check_range(*ends, "label_range")
    return ends[1] - ends[0]


MAX_END, MIN_WIDTH, MIN_STEP = 10**30, Fraction(1, 10**9), Fraction(1, 2**50)
"""No end of a range is larger, no range narrower, and no step a smaller part of the larger end.

Learners square numbers in single precision, trees take variances below 1e-7 of a unit for none, and floats must tell
the points of a grid apart.
"""


def check_range(low: Fraction, high: Fraction, argument: str | tuple[str, ...], steps: int = 1) -> None:
    """Raise InputError for a range of labels in which floats would overflow, vanish or be equal."""
    largest, width = max(abs(low), abs(high)), high - low
    if largest > MAX_END or width < MIN_WIDTH or width / steps < largest * MIN_STEP:
        raise InputError(
            "must be numbers from -1e30 to 1e30 that are at least 1e-9 apart, such as 0 and 100, and floats must tell "
            "the points between them apart: state labels in another unit, or less a public number",
            argument=argument,
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


Result = TypeVar("Result")


def without_traceback(action: Callable[[], Result]) -> Result | None:
    """Return what an action on labels returns, or None where it fails: its exception would hold a label.

    Nor does numpy warn of numbers that overflow or are none.
    """
    try:
        with np.errstate(all="ignore"):
            return action()
    except MemoryError:
        raise
    except Exception:  # labels may be objects of any kind, and raise what they like
        return None


def private_array(values: Any) -> NDArray[Any] | None:
    """Return private numbers as an array; None where they make none, or where a list holds one that is masked."""

    def array() -> NDArray[Any] | None:
        if isinstance(values, list | tuple):
            rows = (row if isinstance(row, list | tuple) else (row,) for row in values)
            if any(number is np.ma.masked for row in rows for number in row):  # numpy would warn of it
                return None
        numbers = np.asarray(values)
        is_masked = numbers.dtype.kind == "O" and any(number is np.ma.masked for number in numbers.flat)
        return None if is_masked else numbers

    return without_traceback(array)


MOST_GROWTH = 200
"""By how much data may grow when they are read: tables and images compress by 2 to 50."""

ALWAYS_FINE = 1 << 28
"""Bytes that any file may grow to, 256 MiB."""

_NUMBER = re.compile(r"[+-]?\d+(/\d+|(\.\d*)?([eE][+-]?\d{1,3})?)")


def json_value(text: str | bytes) -> Any:
    """Return the value of a JSON text in UTF-8, in which every number is finite and no object has a key twice.

    Raises:
        ValueError: not JSON, in another encoding, or nested deeper than Python reads.
    """
    text = text.decode("utf-8") if isinstance(text, bytes) else text  # json.loads guesses the encoding of bytes
    try:
        value = json.loads(text, parse_constant=_finite, parse_float=_finite, object_pairs_hook=_object)
        if "\\ud" in text.lower():  # half a character, perhaps, which no text has
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except RecursionError:
        problem = "nested too deep"
    raise ValueError(problem)


def path_text(path: str | os.PathLike[str]) -> str:
    """Return a path as text that every document can hold: bytes that are not UTF-8 are written as `%FF`."""
    text = os.fsencode(path).decode("utf-8", "surrogateescape")
    return re.sub("[\udc80-\udcff]", lambda byte: f"%{ord(byte[0]) - 0xDC00:02X}", text)


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


def check_growth(what: object, stored: int, size: int, refusal: type[InputError] = InputError) -> None:
    """Refuse what would fill the memory: more than 256 MiB, and more than 200 times its bytes on disk.

    Raises:
        InputError: it would grow by more.
    """
    if size > most_bytes(stored):
        raise refusal(
            f"{what} would grow beyond 256 MiB and 200 times its bytes, which no plain data do: it was not read"
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

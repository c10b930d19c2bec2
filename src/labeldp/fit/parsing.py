"""Parse the texts of a command line."""

from contextlib import suppress
from typing import Any

from labeldp.mechanisms import Classes, Domain, Interval
from labeldp.privacy import InputError, decimal, float_above, positive_epsilon

GRID = 1025
"""Grid points of a range."""


def classes_of(text: str) -> Classes:
    """Parse `no,yes` as class names, `10` as codes 0 to 9.

    Raises:
        InputError: there are fewer than two classes, or a name is repeated.
    """
    names = [name.strip() for name in text.split(",")]
    if len(names) == 1 and names[0].isascii() and names[0].isdecimal():
        return Classes(int(names[0]))
    if not all(names):
        raise InputError("--classes must hold names separated by commas, such as no,yes, or a number of classes")
    return Classes(tuple(names))


def domain_of(classes: str | None, interval: str | None, grid: int | None = None, *, clip: bool = False) -> Domain:
    """Parse the declared domain: either classes or a range.

    Raises:
        InputError: neither or both are given, the range is invalid, or `--grid` or `--clip` comes without one.
    """
    if (classes is None) == (interval is None):
        raise InputError(
            "declare the labels' domain by --classes no,yes or by --range LOW,HIGH: it is never read off labels"
        )
    if classes is not None:
        if clip:
            raise InputError("--clip goes with --range: it counts numbers outside as the nearest end")
        if grid is not None:
            raise InputError("--grid goes with --range: it is the number of its points")
        return classes_of(classes)
    assert interval is not None
    ends = interval.split(",")
    if len(ends) != 2:
        raise InputError("--range must hold two numbers, such as --range 0,100")
    try:
        low, high = map(float, ends)
    except ValueError:
        raise InputError("--range must hold two numbers, such as --range 0,100") from None
    if not low < high:
        raise InputError("--range must hold two numbers, the lower one first, such as --range 0,100")
    try:
        return Interval(low, high, GRID if grid is None else grid, clip)
    except InputError as error:
        if not {"low", "high"} & set(error.arguments):
            raise
    raise InputError(
        "--range must hold finite numbers of ordinary size that floats can tell apart, such as --range 0,100"
    )


def domain_words(domain: Classes | Interval) -> list[str]:
    """Return the options that declare a domain."""
    return domain.options


def decimal_float(text: str, name: str) -> float:
    """Parse a number; raise InputError if it is not one."""
    try:
        return float(text)
    except ValueError:
        raise InputError("must be a number", argument=name) from None


def epsilon_of(text: str) -> float:
    """Parse a positive epsilon; raise InputError if it is not one."""
    return float_above(positive_epsilon(text.strip() if isinstance(text, str) else text))


def whole_number(text: Any, name: str) -> int:
    """Parse a whole number, such as 1e6, from 1 to 2^62; raise InputError if it is not one."""
    with suppress(InputError):
        exact = decimal(text, name)
        if exact.denominator == 1 and 1 <= exact < 1 << 62:
            return exact.numerator
    raise InputError("must be a whole number, at least 1, such as 1e6", argument=name)


def parts_of(text: str, name: str, choices: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Split a text at its commas, without repetitions.

    Raises:
        InputError: a part is empty, or not among the choices if there are any.
    """
    parts = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if any(not part or (choices and part not in choices) for part in parts):
        allowed = " or ".join(choices) if choices else "numbers"
        raise InputError(f"must hold {allowed}, separated by commas", argument=name)
    return parts

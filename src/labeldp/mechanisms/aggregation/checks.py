"""What every accounting function refuses."""

from fractions import Fraction
from typing import Any

from labeldp.privacy import InputError, decimal

MAX_EPSILON = 10**6
"""Beyond this a curve says nothing any more."""


def label_width(label_range: Any) -> Fraction:
    """The width of the range of labels, exactly."""
    try:
        low, high = label_range
    except (TypeError, ValueError):
        raise InputError("label_range must be a pair of numbers, lowest and highest label, such as (0, 100)") from None
    width = decimal(high, "label_range") - decimal(low, "label_range")
    if width <= 0:
        raise InputError("label_range must have its lowest label first, and a higher one second")
    return width


def positive(value: Any, name: str) -> Fraction:
    """A positive number, exactly."""
    exact = decimal(value, name)
    if exact <= 0:
        raise InputError(f"{name} must be positive")
    return exact


def whole(value: Any, name: str, most: int) -> int:
    """A positive integer."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InputError(f"{name} must be an integer, 1 to {most}")
    return value


def one_of(value: Any, name: str, choices: tuple[str, ...]) -> str:
    """One of a few words."""
    if value not in choices:
        raise InputError(f"{name} must be one of: {', '.join(choices)}")
    return str(value)


def at_epsilon(value: Any) -> float:
    """An epsilon at which a curve is read."""
    exact = decimal(value, "epsilon")
    if not 0 <= exact <= MAX_EPSILON:
        raise InputError(f"epsilon must lie in [0, {MAX_EPSILON}]")
    return float(exact)


def target(value: Any) -> float:
    """A delta that is to be reached."""
    exact = decimal(value, "delta")
    if not 0 < exact < 1:
        raise InputError("delta must lie in (0, 1), such as delta=1e-6")
    return float(exact)

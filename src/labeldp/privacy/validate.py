"""Arguments: checked, or refused by name."""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from labeldp.privacy.certificate import Neighbors
from labeldp.privacy.errors import InputError
from labeldp.privacy.exact import decimal

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


def whole_number(name: str, value: Any, least: int) -> int:
    """An integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{name} must be an integer of at least {least}")
    return value


def positive_number(name: str, value: Any) -> Fraction:
    """A positive number, exactly as it was written."""
    exact = decimal(value, name)
    if exact <= 0:
        raise InputError(f"{name} must be positive")
    return exact


def share(name: str, value: Any) -> Fraction:
    """A number in (0, 1] that words of 32 bits give exactly."""
    exact = decimal(value, name)
    if not 0 < exact <= 1 or (1 << 32) % exact.denominator:
        raise InputError(f"{name} must lie in (0, 1] and be a multiple of 2**-32, such as Fraction(1, 128)")
    return exact


def one_loss(neighbors: Any) -> Neighbors:
    """What may differ between two sequences of losses: one round's."""
    if neighbors not in (Neighbors.ONE_LOSS, Neighbors.ZERO_OUT):
        raise InputError("neighbors must be Neighbors.ONE_LOSS or Neighbors.ZERO_OUT")
    return Neighbors(neighbors)


def check_count(value: Any, name: str, least: int = 1) -> int:
    """An integer, at least `least`.

    Raises:
        InputError: anything else.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} must be an integer, at least {least}")
    return int(value)


def check_positive(value: Any, name: str) -> float:
    """A positive finite number.

    Raises:
        InputError: anything else.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < math.inf:
        raise InputError(f"{name} must be a positive finite number")
    return float(value)


def check_share(value: Any, name: str) -> float:
    """A number in [0, 1].

    Raises:
        InputError: anything else.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value <= 1:
        raise InputError(f"{name} must lie in [0, 1]")
    return float(value)


def check_number(value: Any, name: str) -> float:
    """A finite number, at least 0.

    Raises:
        InputError: anything else.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value < math.inf:
        raise InputError(f"{name} must be a finite number, at least 0")
    return float(value)


def check_choice(value: Any, name: str, choices: tuple[str, ...]) -> str:
    """One of some words.

    Raises:
        InputError: anything else.
    """
    if value not in choices:
        raise InputError(f"{name} must be {', '.join(choices[:-1])} or {choices[-1]}")
    return str(value)

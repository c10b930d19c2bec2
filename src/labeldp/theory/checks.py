"""What the calculators ask of their numbers."""

import math
from typing import Any

import numpy as np

from labeldp.privacy import InputError


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

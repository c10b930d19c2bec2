"""Records whose numbers are finite, and the one that every other is made of: a quantity with its interval."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from labeldp.privacy import InputError


class Finite:
    """A record whose numbers are all finite, so that it has a JSON form."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, (int, float)) and not math.isfinite(value):
                raise InputError(f"{type(self).__name__}.{field.name} must be a finite number, not {value}.")
        low, high = getattr(self, "low", None), getattr(self, "high", None)
        if low is not None and high is not None and low > high:
            raise InputError(f"{type(self).__name__}: low must not be above high, but {low} > {high}.")


@dataclass(frozen=True)
class Estimated(Finite):
    """A quantity estimated from released labels, with its confidence interval.

    Args:
        value: the estimate; a debiased share may lie outside [0, 1].
        low: lower end of the interval.
        high: upper end of the interval.
        level: confidence of the interval, in (0, 1).
        method: how the number was obtained, in words that a reader of the report understands.
    """

    value: float
    low: float
    high: float
    level: float
    method: str


def amount(value: float) -> str:
    """A number in the unit of the labels, with four digits, or all that stand before the point."""
    if value and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.4g}"
    digits = 3 - math.floor(math.log10(abs(value))) if value else 0
    return f"{value:,.{max(digits, 0)}f}"

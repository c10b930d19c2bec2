"""Where a falling curve goes below a target: the answer always keeps it."""

import math
from collections.abc import Callable
from functools import cache

_PRECISION = 1e-10


def falls_below(curve: Callable[[float], float], target: float, least: float, most: float) -> float | None:
    """A number at which a falling, positive curve is at most `target`, within a relative 1e-9 of the smallest one.

    It walks from 1 towards the answer, as the ends of a curve may be slow to compute, and asks nothing twice.

    Args:
        least, most: ends of the search, around 1; an answer at `least` may not be the smallest.

    Returns:
        None where the curve is above the target at `most`.
    """
    from scipy.optimize import brentq

    bottom, top = math.log(least), math.log(most)

    @cache
    def gap(log: float) -> float:
        return math.log(max(curve(_within(log, least, most)), 1e-300) / target)

    low = high = 0.0
    while gap(high) > 0:
        if high >= top:
            return None
        low, high = high, min(high + 2, top)
    while gap(low) <= 0:
        if low <= bottom:
            return least
        low, high = max(low - 2, bottom), low
    log = brentq(gap, low, high, xtol=_PRECISION, rtol=_PRECISION)
    while gap(log) > 0:
        log = min(log + _PRECISION, high)
    return _within(log, least, most)


def _within(log: float, least: float, most: float) -> float:
    """The exponential, not beyond the ends."""
    return min(max(math.exp(log), least), most)


def integer_below(curve: Callable[[int], float], target: float, least: int, most: int) -> int | None:
    """The smallest integer from `least` to `most` at which a falling curve is at most `target`, or None."""
    low, high = least - 1, least
    while curve(high) > target:
        if high == most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if curve(middle) <= target else (middle, high)
    return high

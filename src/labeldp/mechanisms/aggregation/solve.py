"""Where a falling curve goes below a target: the answer always keeps it."""

import math
from collections.abc import Callable

_PRECISION = 1e-10


def falls_below(curve: Callable[[float], float], target: float, least: float, most: float) -> float | None:
    """A number at which a falling, positive curve is at most `target`, within a relative 1e-9 of the smallest one.

    Args:
        least, most: positive ends of the search; an answer at `least` may not be the smallest.

    Returns:
        None where the curve is above the target at `most`.
    """
    from scipy.optimize import brentq

    def gap(log: float) -> float:
        return math.log(max(curve(min(math.exp(log), most)), 1e-300) / target)

    if curve(least) <= target:
        return least
    if curve(most) > target:
        return None
    low = high = math.log(min(max(1.0, least), most))
    while gap(high) > 0:
        low, high = high, min(high + 2, math.log(most))
    while gap(low) <= 0:
        low, high = max(low - 2, math.log(least)), low
    log = brentq(gap, low, high, xtol=_PRECISION, rtol=_PRECISION)
    while gap(log) > 0:
        log = min(log + _PRECISION, high)
    return min(math.exp(log), most)


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

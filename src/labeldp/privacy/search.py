"""The smallest or largest number that keeps a promise: what is returned was asked, and keeps it.

`keeps` is monotone: where it holds for a number, it holds for every larger one (`smallest…`) or every smaller one
(`largest`). Where rounding breaks that near the border, the answer keeps the promise all the same.
"""

import math
from collections.abc import Callable
from functools import cache

_LOG_TOL = 1e-10


def smallest(keeps: Callable[[float], bool], low: float, high: float, *, tol: float) -> float:
    """Return the smallest number that keeps a promise, up to a relative `tol` too large, by bisection.

    Args:
        low: a number that does not keep it; never asked.
        high: a number that keeps it, positive; never asked, and returned where no smaller one keeps it.
    """
    while high - low > tol * high:
        middle = (low + high) / 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


def largest(keeps: Callable[[float], bool], low: float, high: float, *, tol: float, least: float = 0.0) -> float:
    """Return the largest number that keeps a promise, up to a relative `tol` too small, by bisection.

    Args:
        low: a number that keeps it; never asked, and returned where no larger one keeps it.
        high: a number that does not keep it, positive; never asked.
        least: the search ends where the answer is known to be at most this.
    """
    while high - low > tol * high and high > least:
        middle = (low + high) / 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low


def smallest_positive(keeps: Callable[[float], bool], *, tol: float, most: float) -> float | None:
    """Return the smallest positive number that keeps a promise, up to a relative `tol` too large.

    It doubles or halves from 1 until the answer lies between two powers of two, and bisects.

    Returns:
        None where no power of two up to `most` keeps it.
    """
    high = 1.0
    while not keeps(high):
        high *= 2
        if high > most:
            return None
    low = high / 2
    while keeps(low):
        low, high = low / 2, low
    return smallest(keeps, low, high, tol=tol)


def smallest_integer(keeps: Callable[[int], bool], least: int, most: int) -> int | None:
    """Return the smallest integer from `least` to `most` that keeps a promise, or None.

    It doubles from `least`, as large numbers may be slow to ask, and bisects.
    """
    low, high = least - 1, least
    while not keeps(high):
        if high == most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


def smallest_below(curve: Callable[[float], float], target: float, least: float, most: float) -> float | None:
    """Return a number at which a falling, positive curve is at most `target`, up to a relative 1e-9 too large.

    For smooth curves that are slow to compute: it walks from 1 towards the answer, interpolates, and asks nothing
    twice.

    Args:
        least, most: ends of the search, around 1; an answer at `least` may not be the smallest.

    Returns:
        None where the curve is above the target at `most`.
    """
    from scipy.optimize import brentq

    bottom, top = math.log(least), math.log(most)

    def number(log: float) -> float:
        return min(max(math.exp(log), least), most)

    @cache
    def log_excess(log: float) -> float:
        return math.log(max(curve(number(log)), 1e-300) / target)

    low = high = 0.0
    while log_excess(high) > 0:
        if high >= top:
            return None
        low, high = high, min(high + 2, top)
    while log_excess(low) <= 0:
        if low <= bottom:
            return least
        low, high = max(low - 2, bottom), low
    log = brentq(log_excess, low, high, xtol=_LOG_TOL, rtol=_LOG_TOL)
    while log_excess(log) > 0:
        log = min(log + _LOG_TOL, high)
    return number(log)

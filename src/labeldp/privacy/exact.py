"""Exact decimals, certified bounds of the exponential, and searches for the border of a guarantee.

A search takes a monotone `keeps`: if it holds for a number, it holds for every larger one (`smallest…`) or every
smaller one (`largest`). The result was tested and keeps the guarantee, even if rounding blurs the border.
"""

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from fractions import Fraction
from functools import cache, lru_cache
from numbers import Rational
from typing import Any

from labeldp.privacy.errors import Argument, InputError

WORD = 1 << 64
"""Number of values of one random word; every finite mechanism's weights sum to it."""

MAX_EPSILON = 1000
"""Above this no 64-bit table can tell the mechanism from one without noise."""

MAX_DIGITS = 400
"""Decimals beyond 10**400 or below 10**-400 are refused: exact arithmetic on them would not end."""

_LOG_TOL = 1e-10


def decimal(value: Any, name: str) -> Fraction:
    """Return the decimal that the user wrote, exactly: the shortest `repr` of a float, not its binary value.

    Args:
        value: a number, a `Decimal`, a `Fraction` or the text of a decimal.
        name: of the argument, in errors.

    Raises:
        InputError: not a finite number.
    """
    if isinstance(value, bool):
        raise InputError("must be a number, not a truth value", argument=name)
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    try:
        parsed = Decimal(str(value))
    except InvalidOperation:
        raise InputError(f"must be a number, such as {'1e-6' if name == 'delta' else '1.0'}", argument=name) from None
    if not parsed.is_finite():
        raise InputError("must be finite", argument=name)
    if parsed and abs(parsed.adjusted()) > MAX_DIGITS:
        raise InputError("must be a number of ordinary size, such as 1.0", argument=name)
    return Fraction(parsed)


def positive_epsilon(value: Any, name: str = "epsilon") -> Fraction:
    """Return an epsilon as an exact decimal in (0, 1000].

    Raises:
        InputError: not a positive finite number, or above `MAX_EPSILON`.
    """
    exact = decimal(value, name)
    if exact <= 0:
        raise InputError("must be positive, such as ", Argument(name, "1.0"), argument=name)
    if exact > MAX_EPSILON:
        raise InputError(f"must be at most {MAX_EPSILON}", argument=name)
    return exact


def float_above(value: Fraction) -> float:
    """Return the float that prints as this decimal, or else the next one above it: never rounded down."""
    nearest = float(value)
    return nearest if Fraction(Decimal(repr(nearest))) >= value else math.nextafter(nearest, math.inf)


def float_below(value: Fraction) -> float:
    """Return the float that prints as this decimal, or else the next one below it: never rounded up."""
    nearest = float(value)
    return nearest if Fraction(Decimal(repr(nearest))) <= value else math.nextafter(nearest, -math.inf)


def sqrt_above(square: Fraction) -> float:
    """Return the square root of a rational number, rounded up."""
    root = math.sqrt(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


def rounded_up_text(value: float, digits: int = 6) -> str:
    """Return a number in so many digits, rounded up: text never states a better guarantee than numbers."""
    if not math.isfinite(value) or not value:
        return f"{value:g}"
    exact = Decimal(repr(value))
    above = exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding=ROUND_CEILING)
    return f"{float(above):.{digits}g}"


def decimal_text(value: float) -> str:
    """Return a parameter as its user wrote it: the shortest digits that mean exactly this float."""
    return repr(float(value)).removesuffix(".0")


@lru_cache(maxsize=4096)
def exp_bounds(exponent: Fraction, bits: int = 160) -> tuple[Fraction, Fraction]:
    """Rational numbers `low <= e**exponent <= high`, with a relative gap below 2**-(bits - 20).

    The exponent is halved until it is below 1/2, a Taylor sum is taken in fixed point with every
    operation rounded outwards, and the result is squared back as often.

    Args:
        exponent: any rational with absolute value of at most 2 * `MAX_EPSILON`.
        bits: fixed-point bits kept at the smallest.

    Guarantee (enclosed): the bounds enclose the exponential. Proof: `docs/proofs/sampling.md`.
    """
    if exponent < 0:
        low, high = exp_bounds(-exponent, bits)
        return 1 / high, 1 / low
    halvings = max(0, exponent.numerator.bit_length() - exponent.denominator.bit_length() + 2)
    scale = 1 << (bits + 2 * halvings + 16)
    reduced = exponent / (1 << halvings)
    low_sum, high_sum = _taylor(reduced, scale)
    for _ in range(halvings):
        low_sum = low_sum * low_sum // scale
        high_sum = -(-high_sum * high_sum // scale)
    return Fraction(low_sum, scale), Fraction(high_sum, scale)


def _taylor(x: Fraction, scale: int) -> tuple[int, int]:
    """Lower and upper sums of the exponential series at 0 <= x <= 1/2, in units of 1/scale."""
    low_term = high_term = low_sum = high_sum = scale
    order = 0
    while high_term > 1:
        order += 1
        low_term = low_term * x.numerator // (x.denominator * order)
        high_term = -(-high_term * x.numerator // (x.denominator * order))
        low_sum += low_term
        high_sum += high_term
    # The remaining terms fall at least geometrically with ratio 1/2, so they sum to at most the last one.
    return low_sum, high_sum + high_term


def log_bounds(ratio: Fraction) -> tuple[Fraction, Fraction]:
    """Rational numbers `low <= ln(ratio) <= high` of a positive ratio, at most 2**-79 apart.

    A Newton step from the double, then compared with certified bounds of the exponential.
    """
    if ratio == 1:
        return Fraction(0), Fraction(0)
    start = Fraction(math.log(ratio.numerator) - math.log(ratio.denominator))
    better = start + ratio / exp_bounds(start)[0] - 1
    low, high = better - Fraction(1, 1 << 80), better + Fraction(1, 1 << 80)
    if exp_bounds(low)[1] > ratio or exp_bounds(high)[0] < ratio:
        raise ArithmeticError("the logarithm could not be certified")
    return low, high


def smallest(keeps: Callable[[float], bool], low: float, high: float, *, tol: float) -> float:
    """Return the smallest number that keeps a guarantee, up to a relative `tol` too large, by bisection.

    Args:
        low: a number that does not keep it; never asked.
        high: a number that keeps it, positive; never asked, and returned where no smaller one keeps it.
    """
    while high - low > tol * high:
        middle = (low + high) / 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


def largest(keeps: Callable[[float], bool], low: float, high: float, *, tol: float, lowest: float = 0.0) -> float:
    """Return the largest number that keeps a guarantee, up to a relative `tol` too small, by bisection.

    Args:
        low: a number that keeps it; never asked, and returned where no larger one keeps it.
        high: a number that does not keep it, positive; never asked.
        lowest: the search ends where the answer is known to be at most this.
    """
    while high - low > tol * high and high > lowest:
        middle = (low + high) / 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low


def smallest_positive(keeps: Callable[[float], bool], *, tol: float, limit: float) -> float | None:
    """Return the smallest positive number that keeps a guarantee, up to a relative `tol` too large.

    It doubles or halves from 1 until the answer lies between two powers of two, and bisects.

    Returns:
        None where no power of two up to `limit` keeps it.
    """
    high = 1.0
    while not keeps(high):
        high *= 2
        if high > limit:
            return None
    low = high / 2
    while keeps(low):
        low, high = low / 2, low
    return smallest(keeps, low, high, tol=tol)


def smallest_integer(keeps: Callable[[int], bool], first: int, last: int) -> int | None:
    """Return the smallest integer from `first` to `last` that keeps a guarantee, or None.

    It doubles from `first`, as large numbers may be slow to ask, and bisects.
    """
    low, high = first - 1, first
    while not keeps(high):
        if high == last:
            return None
        low, high = high, min(2 * high, last)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


def smallest_below(curve: Callable[[float], float], target: float, lowest: float, highest: float) -> float | None:
    """Return a number at which a falling, positive curve is at most `target`, up to a relative 1e-9 too large.

    For smooth curves that are slow to compute: it walks from 1 towards the answer, interpolates, and asks nothing
    twice.

    Args:
        lowest, highest: ends of the search, around 1; an answer at `lowest` may not be the smallest.

    Returns:
        None where the curve is above the target at `highest`.
    """
    from scipy.optimize import brentq

    bottom, top = math.log(lowest), math.log(highest)

    def number(log: float) -> float:
        return min(max(math.exp(log), lowest), highest)

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
            return lowest
        low, high = max(low - 2, bottom), low
    log = brentq(log_excess, low, high, xtol=_LOG_TOL, rtol=_LOG_TOL)
    while log_excess(log) > 0:
        log = min(log + _LOG_TOL, high)
    return number(log)

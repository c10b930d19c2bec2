"""Public parameters of online learners: exact, in range, or refused in one sentence."""

from fractions import Fraction
from typing import Any

from labeldp.privacy import InputError, Neighbors, decimal


def whole(name: str, value: Any, least: int) -> int:
    """An integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{name} must be an integer of at least {least}")
    return value


def positive(name: str, value: Any) -> Fraction:
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

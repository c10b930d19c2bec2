"""The loss of learners that keep an action for a while: a coin that private losses tilt, then draws that they tilt."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from labeldp.privacy import Ends, Floats, NumericAtom

RENYI_ROUNDING = 1e-9
"""Relative error of the Rényi divergences below, at most (tested against 50 digits); the curve adds it."""

ORDERS = 1 + 2.0 ** (np.arange(-96, 16 * 52) / 16)
"""The orders at which a curve takes Rényi divergences: 1 + 2^-6 to 1 + 2^52, sixteen to an octave."""

MAX_RATE = 64.0

MAX_ROUNDS = 1 << 53
"""Learning rates, at most."""

_SMALL_EXPONENT = 0.04

_LARGE_EXPONENT = 500.0

_SMALLEST = 1e-300


def bounded_range_rdp(width: ArrayLike, orders: ArrayLike) -> Floats:
    """Return the largest Rényi divergence of two laws whose log-ratio varies by at most `width`.

    Args:
        width: positive; from the smallest to the largest log-ratio of an outcome.
        orders: above 1; of a shape that goes with `width`.

    Guarantee (worst_pair): no pair of laws of this range has a larger Rényi divergence of this order.

    Source: `docs/proofs/online-experts.md`, equation (4).

    Examples:
        >>> round(float(bounded_range_rdp(0.5, 10)), 4)
        0.2461
    """
    width, orders = np.asarray(width, dtype=np.float64), np.asarray(orders, dtype=np.float64)
    reach = orders * width
    small, large = reach < _SMALL_EXPONENT, reach > _LARGE_EXPONENT
    share = np.expm1(width) / np.expm1(np.where(large, _LARGE_EXPONENT, reach))
    log_share = np.where(large, np.log(np.expm1(width)) - reach, np.log(share))
    gained = np.log1p(-1 / orders) - np.log1p(-np.where(large, np.exp(log_share), share))
    spent = np.where(large, np.log(orders) + log_share, np.log(orders * share))
    return np.asarray(np.where(small, reach * width / 8, gained - spent / (orders - 1)))


def coin_rdp(tilt: ArrayLike, redraw: ArrayLike, orders: ArrayLike, shift: ArrayLike = 0.0) -> Floats:
    """Return the larger Rényi divergence of coins with heads (1 - p) e^-shift and (1 - p) e^-(shift + tilt).

    Args:
        tilt: how much the logarithms of heads differ, positive.
        redraw: the share p of coins that are tails whatever the losses are, in (0, 1].
        orders: above 1.
        shift: at least 0; by how much the larger probability stays below 1 - p.

    Guarantee (worst_pair): no two coins with heads of at most (1 - p) e^-shift, and logarithms of it at most `tilt`
        apart, have a larger one.

    Source: `docs/proofs/online-experts.md`, equation (3).
    """
    tilt, redraw, shift = (np.asarray(number, dtype=np.float64) for number in (tilt, redraw, shift))
    steps = np.asarray(orders, dtype=np.float64) - 1
    often, seldom = (1 - redraw) * np.exp(-shift), (1 - redraw) * np.exp(-shift - tilt)
    few, many = (redraw - (1 - redraw) * np.expm1(-number) for number in (shift, shift + tilt))
    tails = np.log1p(-often * np.expm1(-tilt) / few)
    there = _log_moment(seldom, -steps * tilt, many, steps * tails)
    back = _log_moment(often, steps * tilt, few, -steps * tails)
    return np.asarray(np.maximum(there, back) / steps)


def lazy_rdp(share: ArrayLike, rdp: ArrayLike, orders: ArrayLike) -> Floats:
    """Return the Rényi divergence of a mechanism that runs with probability `share`, and says whether it did.

    Source: `docs/proofs/online-experts.md`, equation (5).
    """
    share, steps = np.asarray(share, dtype=np.float64), np.asarray(orders, dtype=np.float64) - 1
    exponent = steps * np.asarray(rdp, dtype=np.float64)
    return np.asarray(_log_moment(1 - share, np.zeros_like(exponent), share, exponent) / steps)


def rdp_delta(rdp: Floats, orders: Floats, epsilons: Floats) -> Floats:
    """Return the delta that Rényi divergences guarantee at each epsilon >= 0, shape as epsilons.

    Args:
        rdp, orders: shape (orders,).

    Source: Canonne, Proposition 12.
    """
    steps = orders - 1
    exponents = (rdp - epsilons[:, None]) * steps + (steps * np.log1p(-1 / orders) - np.log(orders))
    return np.asarray(np.exp(np.minimum(exponents.min(axis=1), 0.0)))


def _log_moment(first: Floats, x: Floats, second: Floats, y: Floats) -> Floats:
    """ln(first e^x + second e^y) for two probabilities that sum to 1, rounded up where terms cancel."""
    top = np.maximum(x, y)
    left, right = first * np.expm1(np.minimum(x, _LARGE_EXPONENT)), second * np.expm1(np.minimum(y, _LARGE_EXPONENT))
    near = np.log1p(np.maximum(left + right, 0.0) + 2.0**-50 * (np.abs(left) + np.abs(right)))
    with np.errstate(divide="ignore"):
        far = np.logaddexp(np.log(first) + x, np.log(second) + y)
    return np.asarray(np.where(top < _LARGE_EXPONENT, near, far))


def switching_rdp(
    rate: ArrayLike, redraw: ArrayLike, batch: int, batches: float, swing: int, chains: int, orders: ArrayLike
) -> Floats:
    """Return the Rényi divergence of all actions of a `Switching`; rate, redraw and orders are broadcast together.

    Source: `docs/proofs/online-experts.md`, equation (6).
    """
    rate, redraw = np.asarray(rate, dtype=np.float64), np.asarray(redraw, dtype=np.float64)
    draw = bounded_range_rdp(swing * rate, orders)
    tilt, shift, reach = (rate, 0.0, batch * rate) if chains == 1 else (swing * rate, batch * rate, 3 * batch * rate)
    divergence = lazy_rdp(redraw - (1 - redraw) * np.expm1(-reach), draw, orders)
    first = coin_rdp(tilt, redraw, orders, shift) + draw
    if chains == 2:
        aside = lazy_rdp(redraw, draw, orders)
        first, divergence = first + aside, divergence + aside
    return np.asarray(first + (batches - 2) * divergence)


@dataclass(frozen=True)
class Switching(NumericAtom):
    """Actions of a learner that redraws from multiplicative weights now and then, over at least two batches of rounds.

    The losses of one round reach the coin after their batch, and every later draw. A draw has a log-ratio that varies
    by at most swing * rate; that there is one later on has a probability which these losses do not change.

    Args:
        rate: the learning rate, losses of a round in [0, 1]; rounded up where it is no double.
        redraw: the probability of a redraw whatever the losses are, in (0, 1].
        batch: rounds in a batch.
        batches: batches whose actions can be seen, at least 2: the losses of the first reveal nothing before.
        swing: 2 where one round's losses are replaced, 1 where they are replaced by zero.
        chains: 1 for the dartboard, whose coin sees the action alone; 2 for Algorithm 1, with its reference.

    Guarantee (enclosed): `delta(epsilon)` of all actions is never above the upper end, whichever round differs, and
        whether losses are fixed or follow the actions.

    Source: Asi, Algorithm 1, with the accountant of `docs/proofs/online-experts.md`.

    Examples:
        >>> from labeldp.privacy import PrivacyLoss
        >>> round(PrivacyLoss.curve(Switching(1e-3, 0.02, batch=10, batches=100_000)).epsilon(1e-6), 3)
        0.233
    """

    kind = "switching"
    rate: float
    redraw: float
    batch: int
    batches: int
    swing: int = 2
    chains: int = 1

    def __post_init__(self) -> None:
        numbers = 0 < self.rate <= MAX_RATE and 0 < self.redraw <= 1
        counts = self.batch >= 1 and self.batches >= 2 and self.batch * self.batches <= MAX_ROUNDS
        counts = counts and self.swing in (1, 2) and self.chains in (1, 2)
        if not (numbers and counts):
            raise ValueError("the parameters of a switching learner are out of range")

    def reversed(self) -> "Switching":
        """Return the same loss: the bound holds for both orders of two neighbors."""
        return self

    @cached_property
    def _rdp(self) -> Floats:
        """Upper ends of the Rényi divergences at `ORDERS`."""
        exact = switching_rdp(self.rate, self.redraw, self.batch, float(self.batches), self.swing, self.chains, ORDERS)
        return exact * (1 + RENYI_ROUNDING)

    def ends(self, epsilons: Floats) -> Ends:
        """Return zeros, and the upper end of delta at each epsilon >= 0, shape as given."""
        upper = rdp_delta(self._rdp, ORDERS, epsilons) * (1 + RENYI_ROUNDING) + _SMALLEST
        return np.zeros(len(epsilons)), np.minimum(upper, 1.0)

    def __str__(self) -> str:
        chains = "" if self.chains == 1 else " beside a reference"
        return (
            f"one action{chains} for each of {self.batches} batches of {self.batch}, at rate {self.rate:g} and swing "
            f"{self.swing}, redrawn with probability {self.redraw:g} or more"
        )

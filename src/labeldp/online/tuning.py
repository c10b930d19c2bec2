"""The rate, the batch and the probability of a redraw with the smallest bound of regret, from public numbers alone."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from labeldp.online.accounting import batches_seen, mw_regret_bound
from labeldp.privacy import ORDERS, InputError, PrivacyLoss, Switching, switching_rdp

Floats = NDArray[np.float64]

REDRAW_STEP = Fraction(1, 1 << 32)
"""The probability of a redraw is a multiple of it."""

RATE_BITS = 24
"""A rate is an integer of so many bits times a power of two."""

_BISECTIONS = 16
_PATIENCE = 3


@dataclass(frozen=True)
class Promise:
    """What must be kept, and over how many rounds."""

    experts: int
    horizon: int
    epsilon: Fraction
    delta: Fraction
    swing: int

    @property
    def free_rate(self) -> float:
        """The rate of multiplicative weights without privacy, in batches of one round."""
        return math.sqrt(8 * math.log(self.experts) / self.horizon)

    def kept(self, rate: Fraction, redraw: Fraction, batch: int, chains: int) -> bool:
        """True when these parameters keep the promise over the whole horizon."""
        batches = batches_seen(self.horizon, batch)
        curve = Switching(float(rate), float(redraw), batch, batches, self.swing, chains)
        return PrivacyLoss.curve(curve).within(self.epsilon, self.delta)


@dataclass(frozen=True)
class Tuned:
    """Parameters of a switching learner, exact."""

    rate: Fraction
    batch: int
    redraw: Fraction
    bound: float


def tuned(promise: Promise, chains: int, *, redraw: Fraction | None = None, batch: int | None = None) -> Tuned:
    """The parameters with the smallest bound that keep a promise, with one of them fixed where it is given.

    Batches are tried from the shortest on, until longer ones have not helped three times in a row.

    Guarantee: the parameters keep the promise.
    """
    best, worse = None, 0
    around: tuple[float, float] | None = None
    for size in [batch] if batch else _batches(promise.horizon):
        shares = np.ones(1) if redraw == 1 else None
        found = _at(promise, chains, size, shares, around)
        around = (float(found.redraw) / 4, min(float(found.redraw) * 4, 1.0))
        worse = worse + 1 if best and found.bound >= best.bound else 0
        best = found if best is None or found.bound < best.bound else best
        if worse == _PATIENCE or best.rate >= Fraction(promise.free_rate) * Fraction(999, 1000):
            break
    assert best is not None
    return _exact(promise, chains, best)


def least_noise(promise: Promise, loss: Callable[[float], PrivacyLoss], start: float) -> float:
    """The smallest standard deviation, within a factor of 1 + 1e-7 from above, whose loss keeps a promise.

    Args:
        loss: what noise of a standard deviation costs.
        start: a lower bound that is nearly enough.

    Guarantee: the noise keeps the promise.

    Raises:
        InputError: a thousand times `start` is not enough either.
    """

    def kept(stddev: float) -> bool:
        return loss(stddev).within(promise.epsilon, promise.delta)

    low, high = start, start * (1 + 1e-7)
    while not kept(high):
        low, high = high, high + 8 * (high - low)
        if high > 1000 * start:
            raise InputError("epsilon or delta is too small for integer noise of 64 bits: take larger ones")
    while high - low > 1e-7 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if kept(middle) else (middle, high)
    return high


def _batches(horizon: int) -> Iterator[int]:
    """1, 2, 3, 4, 6, 8, 12, 16, … up to the horizon."""
    size = 1
    while size <= horizon:
        yield size
        if 3 * size // 2 > size and 3 * size // 2 <= horizon:
            yield 3 * size // 2
        size *= 2


def _at(promise: Promise, chains: int, batch: int, shares: Floats | None, around: tuple[float, float] | None) -> Tuned:
    """The best probability of a redraw for one batch size, and the rate that goes with it."""
    low, high = around or (1e-9, 1.0)
    for points in (1,) if shares is not None else (9, 7) if around else (17, 9, 7):
        grid = _multiples(np.geomspace(low, high, points)) if shares is None else shares
        rates = _largest_rates(promise, chains, batch, grid)
        top = int(np.argmax(rates))
        low, high = float(grid[max(top - 1, 0)]), float(grid[min(top + 1, len(grid) - 1)])
    free = promise.free_rate / math.sqrt(batch)
    rate, redraw = Fraction(min(float(rates[top]), free)), Fraction(float(grid[top]))
    return Tuned(rate, batch, redraw, mw_regret_bound(promise.experts, promise.horizon, float(rate), batch))


def _multiples(shares: Floats) -> Floats:
    """Probabilities rounded up to multiples of `REDRAW_STEP`."""
    step = float(REDRAW_STEP)
    return np.unique(np.clip(np.ceil(shares / step), 1, 1 / step) * step)


def _largest_rates(promise: Promise, chains: int, batch: int, redraws: Floats) -> Floats:
    """The largest rates that keep the promise, as far as a coarse set of orders can tell; shape as redraws."""
    orders, spent = _orders(promise)
    batches = float(batches_seen(promise.horizon, batch))
    low, high = np.full(len(redraws), math.log(1e-14)), np.full(len(redraws), math.log(60.0))
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        rdp = switching_rdp(
            np.exp(middle)[:, None], redraws[:, None], batch, batches, promise.swing, chains, orders[None]
        )
        kept = (rdp + spent).min(axis=1) <= float(promise.epsilon)
        low, high = np.where(kept, middle, low), np.where(kept, high, middle)
    return np.exp(low)


def _orders(promise: Promise) -> tuple[Floats, Floats]:
    """Orders that can matter for a promise, and what each adds to its divergence to make an epsilon.

    Source: Canonne, Proposition 12.
    """
    centre = -math.log(promise.delta) / float(promise.epsilon)
    steps = ORDERS - 1
    orders = ORDERS[(steps > min(centre / 40, 0.25)) & (steps < 400 * centre + 1)][::4]
    return orders, np.log1p(-1 / orders) - (math.log(promise.delta) + np.log(orders)) / (orders - 1)


def few_bits(rate: float) -> Fraction:
    """A rate rounded down to `RATE_BITS` bits."""
    unit = _unit(rate)
    return int(Fraction(rate) / unit) * unit


def _unit(rate: float) -> Fraction:
    """The last of the bits that a rate may have."""
    shift = RATE_BITS - math.frexp(rate)[1]
    return Fraction(1, 1 << shift) if shift >= 0 else Fraction(1 << -shift)


def _exact(promise: Promise, chains: int, found: Tuned) -> Tuned:
    """The same with a rate of `RATE_BITS` bits: the largest one, close to the one found, that is certain to be kept."""
    unit = _unit(float(found.rate))
    free = int(Fraction(promise.free_rate / math.sqrt(found.batch)) / unit)
    near = int(found.rate / unit)
    low, high = near - max(near >> 7, 1), min(near + (near >> 6) + 1, free + 1)
    while not promise.kept(low * unit, found.redraw, found.batch, chains):
        low, high = low - (low >> 4) - 1, low
        if low < 1:
            raise InputError("epsilon and delta are too small for so many rounds: take larger ones")
    while high - low > max(1, low >> 16):
        middle = (low + high) // 2
        kept = promise.kept(middle * unit, found.redraw, found.batch, chains)
        low, high = (middle, high) if kept else (low, middle)
    rate = low * unit
    bound = mw_regret_bound(promise.experts, promise.horizon, float(rate), found.batch)
    return Tuned(rate, found.batch, found.redraw, bound)

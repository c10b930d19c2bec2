"""What learners on experts cost: privacy losses, regret bounds, and the parameters that make a bound smallest."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from labeldp.privacy import (
    MAX_RATE,
    ORDERS,
    Floats,
    InputError,
    Neighbors,
    PrivacyLoss,
    Switching,
    check_integer,
    check_loss_neighbors,
    exact_positive,
    exact_share,
    switching_rdp,
)

SWINGS = {Neighbors.ONE_LOSS: 2, Neighbors.ZERO_OUT: 1}
"""How far apart log-weights of two experts can move, in rates, when one round's losses become others, or zero."""
_LARGEST_MU = 1e4
REDRAW_STEP = Fraction(1, 1 << 32)
"""The probability of a redraw is a multiple of it."""
RATE_BITS = 24
"""A rate is an integer of at most this many bits times a power of two."""
_BISECTIONS = 16
_PATIENCE = 3


def batches_seen(rounds: int, batch: int) -> int:
    """Return the number of batches whose actions can be seen after `rounds` rounds, the coming one included."""
    return rounds // batch + 1


def dartboard_loss(rate: Any, batch: int, redraw: Any, rounds: int, neighbors: Neighbors) -> PrivacyLoss:
    """Return what the actions of a batched dartboard reveal of one round's losses.

    Args:
        rate: learning rate for losses in [0, 1], positive.
        batch: rounds in a batch.
        redraw: probability of a redraw whatever the losses are, in (0, 1], a multiple of 2**-32.
        rounds: how many rounds' losses the learner has seen.
        neighbors: ONE_LOSS or ZERO_OUT.

    Source: `docs/proofs/online.md`, equation (6).
    """
    return _loss(rate, batch, redraw, rounds, neighbors, chains=1)


def l2p_loss(rate: Any, batch: int, redraw: Any, rounds: int, neighbors: Neighbors) -> PrivacyLoss:
    """Return the same for `L2P` with multiplicative weights: its reference costs as many draws again.

    Source: `docs/proofs/online.md`, equation (7); not the formula of Asi, Theorem 3.2 (`theorem_3_2_epsilon`).
    """
    return _loss(rate, batch, redraw, rounds, neighbors, chains=2)


def _loss(rate: Any, batch: int, redraw: Any, rounds: int, neighbors: Neighbors, chains: int) -> PrivacyLoss:
    """Return the loss of switching, its rate rounded up to a double; zero while only one batch can be seen."""
    swing, exact = SWINGS[check_loss_neighbors(neighbors)], exact_positive(rate, "rate")
    above, share, batch = float(exact), float(exact_share(redraw, "redraw")), check_integer(batch, "batch")
    if Fraction(above) < exact:
        above = math.nextafter(above, math.inf)
    batches = batches_seen(rounds, batch)
    if batches < 2:
        return PrivacyLoss.zero()
    if above > MAX_RATE:
        raise InputError(f"rate must be at most {MAX_RATE:g}")
    return PrivacyLoss.curve(Switching(above, share, batch, batches, swing, chains))


def mw_regret_bound(experts: int, horizon: float, rate: float, batch: int = 1) -> float:
    """Return ln d / eta + eta T B / 8, a bound of the expected regret of multiplicative weights in batches of B rounds.

    It holds for losses that do not depend on the actions, whatever the probability of a redraw is.

    Source: `docs/proofs/online.md`, equation (2).
    """
    return math.log(experts) / rate + rate * horizon * batch / 8


def nonprivate_bound(experts: int, horizon: float) -> float:
    """Return sqrt(T ln d / 2), the regret bound of multiplicative weights at the best rate, without privacy.

    Source: Cesa, Theorem 2.2.
    """
    return math.sqrt(horizon * math.log(experts) / 2)


@lru_cache(maxsize=64)
def gaussian_mu(epsilon: Fraction, delta: Fraction) -> float:
    """Return the largest mu of a Gaussian loss that keeps (epsilon, delta), at most 1e-9 of it too small.

    Source: Dong, Corollary 2.13.
    """
    low, high = 0.0, _LARGEST_MU
    while high - low > 1e-9 * high and high > 1e-300:
        middle = math.sqrt(low * high) if low else high / 1000
        is_kept = PrivacyLoss.gaussian(middle).within(epsilon, delta)
        low, high = (middle, high) if is_kept else (low, middle)
    return low


def switches_bound(rate: float, batch: int, redraw: float, horizon: int) -> float:
    """Return a bound of the expected number of redraws: 1 - (1 - p) e^(-eta B) for each batch but the first.

    Source: `docs/proofs/online.md`, equation (1).
    """
    batches = -(-horizon // batch)
    return (batches - 1) * (redraw - (1 - redraw) * math.expm1(-rate * batch))


@dataclass(frozen=True)
class PrivacyTarget:
    """The guarantee that a learner must keep over its horizon."""

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
        """Return whether these parameters keep the promise over the whole horizon."""
        batches = batches_seen(self.horizon, batch)
        curve = Switching(float(rate), float(redraw), batch, batches, self.swing, chains)
        return PrivacyLoss.curve(curve).within(self.epsilon, self.delta)


@dataclass(frozen=True)
class LazyParameters:
    """Parameters of a learner that keeps an action for a while, exact, and its regret bound."""

    rate: Fraction
    batch: int
    redraw: Fraction
    bound: float


def tuned(
    promise: PrivacyTarget, chains: int, *, redraw: Fraction | None = None, batch: int | None = None
) -> LazyParameters:
    """Return the parameters with the smallest regret bound that keep a promise; `redraw` or `batch` may be fixed.

    Batches are tried from the shortest on, until longer ones have not helped three times in a row.

    Guarantee (kept): the parameters keep the promise.
    """
    best, worse = None, 0
    around: tuple[float, float] | None = None
    sizes = sorted(size << power for power in range(promise.horizon.bit_length()) for size in (1, 3))
    for size in [batch] if batch else [size for size in sizes if size <= promise.horizon]:
        candidate = _best_for_batch(promise, chains, size, redraw, around)
        around = (float(candidate.redraw) / 4, min(float(candidate.redraw) * 4, 1.0))
        worse = worse + 1 if best and candidate.bound >= best.bound else 0
        best = candidate if best is None or candidate.bound < best.bound else best
        if worse == _PATIENCE or best.rate >= Fraction(promise.free_rate) * Fraction(999, 1000):
            break
    assert best is not None
    return _exact(promise, chains, best)


def _best_for_batch(
    promise: PrivacyTarget, chains: int, batch: int, redraw: Fraction | None, around: tuple[float, float] | None
) -> LazyParameters:
    """Return the best probability of a redraw for one batch size, if it is not fixed, and the rate that goes with it.

    Args:
        around: where to search for the probability; everywhere by default.
    """
    low, high = around or (1e-9, 1.0)
    step = float(REDRAW_STEP)
    for points in (1,) if redraw is not None else (9, 7) if around else (17, 9, 7):
        if redraw is None:
            grid = np.unique(np.clip(np.ceil(np.geomspace(low, high, points) / step), 1, 1 / step) * step)
        else:
            grid = np.array([float(redraw)])
        rates = _largest_rates(promise, chains, batch, grid)
        top = int(np.argmax(rates))
        low, high = float(grid[max(top - 1, 0)]), float(grid[min(top + 1, len(grid) - 1)])
    free = promise.free_rate / math.sqrt(batch)
    rate = min(float(rates[top]), free)
    bound = mw_regret_bound(promise.experts, promise.horizon, rate, batch)
    return LazyParameters(Fraction(rate), batch, Fraction(float(grid[top])), bound)


def _largest_rates(promise: PrivacyTarget, chains: int, batch: int, redraws: Floats) -> Floats:
    """Return the largest rates that keep the promise by a coarse set of Rényi orders, shape as `redraws`.

    Source: Canonne, Proposition 12, for what an order adds to its divergence to make an epsilon.
    """
    center, steps = -math.log(promise.delta) / float(promise.epsilon), ORDERS - 1
    orders = ORDERS[(steps > min(center / 40, 0.25)) & (steps < 400 * center + 1)][::4]
    spent = np.log1p(-1 / orders) - (math.log(promise.delta) + np.log(orders)) / (orders - 1)
    batches = float(batches_seen(promise.horizon, batch))
    low, high = np.full(len(redraws), math.log(1e-14)), np.full(len(redraws), math.log(60.0))
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        rdp = switching_rdp(
            np.exp(middle)[:, None], redraws[:, None], batch, batches, promise.swing, chains, orders[None]
        )
        is_kept = (rdp + spent).min(axis=1) <= float(promise.epsilon)
        low, high = np.where(is_kept, middle, low), np.where(is_kept, high, middle)
    return np.exp(low)


def few_bits(rate: float) -> Fraction:
    """Return a rate rounded down to `RATE_BITS` bits."""
    unit = _last_bit(rate)
    return int(Fraction(rate) / unit) * unit


def _last_bit(rate: float) -> Fraction:
    """Return the value of the last of the `RATE_BITS` bits of a rate."""
    return Fraction(2) ** (math.frexp(rate)[1] - RATE_BITS)


def _exact(promise: PrivacyTarget, chains: int, near_best: LazyParameters) -> LazyParameters:
    """Return the parameters with the largest rate of `RATE_BITS` bits near the one found that keeps the promise."""
    unit = _last_bit(float(near_best.rate))
    free = int(Fraction(promise.free_rate / math.sqrt(near_best.batch)) / unit)
    near = int(near_best.rate / unit)
    low, high = near - max(near >> 7, 1), min(near + (near >> 6) + 1, free + 1)
    while not promise.kept(low * unit, near_best.redraw, near_best.batch, chains):
        low, high = low - (low >> 4) - 1, low
        if low < 1:
            raise InputError("are too small for so many rounds: take larger ones", argument=("epsilon", "delta"))
    while high - low > max(1, low >> 16):
        middle = (low + high) // 2
        is_kept = promise.kept(middle * unit, near_best.redraw, near_best.batch, chains)
        low, high = (middle, high) if is_kept else (low, middle)
    rate = low * unit
    bound = mw_regret_bound(promise.experts, promise.horizon, float(rate), near_best.batch)
    return LazyParameters(rate, near_best.batch, near_best.redraw, bound)

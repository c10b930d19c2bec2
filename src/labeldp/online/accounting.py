"""What learners with experts cost, and what they promise of regret: one function, one equation."""

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeldp.online.checks import one_loss, positive, share, whole
from labeldp.privacy import (
    MAX_RATE,
    InputError,
    Neighbors,
    PrivacyLoss,
    Switching,
    bounded_range_rdp,
    coin_rdp,
    switching_rdp,
)

Floats = NDArray[np.float64]

__all__ = [
    "SWINGS",
    "batch_lower_bound",
    "batches_seen",
    "batching_excess",
    "bounded_range_rdp",
    "coin_rdp",
    "dartboard_loss",
    "dartboard_rdp",
    "doubling_regret_bound",
    "gaussian_mu",
    "l2p_loss",
    "l2p_rdp",
    "mw_regret_bound",
    "nonprivate_bound",
    "softmax_rate",
    "softmax_regret_bound",
    "switches_bound",
    "theorem_3_2_applies",
    "theorem_3_2_epsilon",
]

SWINGS = {Neighbors.ONE_LOSS: 2, Neighbors.ZERO_OUT: 1}
"""How far apart log-weights of two experts can move, in rates, when one round's losses become others, or zero."""

_LARGEST_MU = 1e4


def batches_seen(rounds: int, batch: int) -> int:
    """Batches whose actions can be seen after the losses of so many rounds: the one that comes is chosen already."""
    return rounds // batch + 1


def dartboard_rdp(
    rate: ArrayLike, batch: int, redraw: ArrayLike, batches: float, neighbors: Neighbors, orders: ArrayLike
) -> Floats:
    """The Rényi divergence of the actions of a batched dartboard.

    Source: `docs/proofs/online.md`, equation (6).
    """
    return switching_rdp(rate, redraw, batch, batches, _swing(neighbors), 1, orders)


def l2p_rdp(
    rate: ArrayLike, batch: int, redraw: ArrayLike, batches: float, neighbors: Neighbors, orders: ArrayLike
) -> Floats:
    """The Rényi divergence of the actions of Algorithm 1 with multiplicative weights, the reference released too.

    Source: `docs/proofs/online.md`, equation (7).
    """
    return switching_rdp(rate, redraw, batch, batches, _swing(neighbors), 2, orders)


def dartboard_loss(rate: Any, batch: int, redraw: Any, rounds: int, neighbors: Neighbors) -> PrivacyLoss:
    """What the actions of a batched dartboard reveal of one round's losses, after so many rounds.

    Args:
        rate: learning rate for losses in [0, 1], positive.
        batch: rounds in a batch.
        redraw: probability of a redraw whatever the losses are, in (0, 1], a multiple of 2**-32.
        rounds: rounds whose losses the learner has seen.
        neighbors: ONE_LOSS or ZERO_OUT.

    Source: `docs/proofs/online.md`, equation (6).
    """
    return _loss(rate, batch, redraw, rounds, neighbors, chains=1)


def l2p_loss(rate: Any, batch: int, redraw: Any, rounds: int, neighbors: Neighbors) -> PrivacyLoss:
    """The same for Algorithm 1 with multiplicative weights: its reference costs as many draws again.

    Source: `docs/proofs/online.md`, equation (7); not the formula of Asi, Theorem 3.2 (`theorem_3_2_epsilon`).
    """
    return _loss(rate, batch, redraw, rounds, neighbors, chains=2)


def _loss(rate: Any, batch: int, redraw: Any, rounds: int, neighbors: Neighbors, chains: int) -> PrivacyLoss:
    """One atom, its rate rounded up to a double; nothing where one batch alone can be seen."""
    swing, above, exact = _swing(neighbors), float(positive("rate", rate)), share("redraw", redraw)
    if Fraction(above) < positive("rate", rate):
        above = math.nextafter(above, math.inf)
    batches = batches_seen(rounds, whole("batch", batch, 1))
    if batches < 2:
        return PrivacyLoss.zero()
    if above > MAX_RATE:
        raise InputError(f"rate must be at most {MAX_RATE:g}")
    return PrivacyLoss.curve(Switching(above, float(exact), batch, batches, swing, chains))


def _swing(neighbors: Neighbors) -> int:
    return SWINGS[one_loss(neighbors)]


def theorem_3_2_epsilon(rate: float, batch: int, redraw: float, horizon: int, delta: float) -> float:
    """What the printed formula gives: no accountant, and no certificate is made of it.

    Its proof has gaps (`docs/corrections.md`). For experts, under its conditions (`theorem_3_2_applies`), it has never
    been seen below the truth, and is about ten times as much as `l2p_loss`. With delta_0 = 0 it leaves delta =
    2 T delta_1.

    Source: Asi, Theorem 3.2.
    """
    log, load = math.log(2 * horizon / delta), horizon * rate**2 * redraw / batch
    return 2 * rate / redraw + rate + 1.5 * load * log + math.sqrt(6 * load) * log


def theorem_3_2_applies(rate: float, batch: int, redraw: float, horizon: int, delta: float) -> bool:
    """Whether its conditions hold: eta <= 1/10, T p >= B and eta B log(1 / delta_1) <= p.

    Source: Asi, Theorem 3.2 and Lemma 3.8.
    """
    log = math.log(2 * horizon / delta)
    return rate <= 0.1 and horizon * redraw >= batch and rate * batch * log <= redraw


def mw_regret_bound(experts: int, horizon: float, rate: float, batch: int = 1) -> float:
    """ln d / eta + eta T B / 8: expected regret of multiplicative weights that play for batches of B rounds.

    It holds for losses that do not follow the actions, and whatever the probability of a redraw is.

    Source: `docs/proofs/online.md`, equation (2).
    """
    return math.log(experts) / rate + rate * horizon * batch / 8


def batching_excess(horizon: float, batch: int, rate: float) -> float:
    """(T / 4) (1 - 1 / B) tanh(eta B / 2): what batches cost where two experts lose in turn, one batch each.

    About eta T B / 8, not O(T B^2 eta^2) as in Proposition 3.3: `docs/corrections.md`.

    Args:
        horizon: T, a multiple of 2 B.

    Source: `docs/proofs/online.md`, equation (8).

    Examples:
        >>> round(batching_excess(10_000, 10, 0.01)), 10_000 * 10**2 * 0.01**2
        (112, 100.0)
    """
    return horizon / 4 * (1 - 1 / batch) * math.tanh(rate * batch / 2)


def batch_lower_bound(experts: int, horizon: float, batch: int) -> float:
    """sqrt(T B ln d / 2): up to 1 - o(1), the least regret of a learner that plays each batch with one action.

    Source: Cesa, Theorem 3.7, on T / B rounds with losses up to B.
    """
    return math.sqrt(horizon * batch * math.log(experts) / 2)


def nonprivate_bound(experts: int, horizon: float) -> float:
    """sqrt(T ln d / 2): the regret of multiplicative weights at the best rate, without privacy.

    Source: Cesa, Theorem 2.2.
    """
    return math.sqrt(horizon * math.log(experts) / 2)


def softmax_rate(experts: int, horizon: float, deviation: float) -> float:
    """The rate that makes `softmax_regret_bound` smallest."""
    return math.sqrt(math.log(experts) / (horizon / 8 + deviation**2 / 2))


def softmax_regret_bound(experts: int, horizon: float, rate: float, deviation: float) -> float:
    """ln d / eta + eta (T / 8 + s^2 / 2): softmax of sums with Gaussian noise that never grows quieter.

    Args:
        deviation: s, the largest standard deviation of the noise on a sum.

    Source: `docs/proofs/online.md`, equation (9).
    """
    return math.log(experts) / rate + rate * (horizon / 8 + deviation**2 / 2)


@lru_cache(maxsize=64)
def gaussian_mu(epsilon: Fraction, delta: Fraction) -> float:
    """The largest mu of a Gaussian loss that keeps (epsilon, delta), within a factor of 1e-9 from below.

    Source: Dong, Corollary 2.13.
    """
    low, high = 0.0, _LARGEST_MU
    while high - low > 1e-9 * high and high > 1e-300:
        middle = math.sqrt(low * high) if low else high / 1000
        kept = PrivacyLoss.gaussian(middle).within(epsilon, delta)
        low, high = (middle, high) if kept else (low, middle)
    return low


def switches_bound(rate: float, batch: int, redraw: float, horizon: int) -> float:
    """How many redraws to expect, at most: each batch but the first redraws with 1 - (1 - p) e^(-eta B) or less.

    Source: `docs/proofs/online.md`, equation (1).
    """
    batches = -(-horizon // batch)
    return (batches - 1) * (redraw - (1 - redraw) * math.expm1(-rate * batch))


def doubling_regret_bound(experts: int, horizon: int, rate: float) -> float:
    """Regret of epochs of 1, 2, 4, … rounds, each played by one draw on the losses of the one before it.

    Against the expert that is best on average, for losses of all rounds drawn independently from one law. Against
    losses that are not, there is no bound: regret can grow as fast as the horizon.

    Args:
        rate: what a loss of 1 takes off a log-weight of the draw.

    Source: `docs/proofs/online.md`, equation (10).
    """
    total, start, length = 0.0, 0, 1
    while start < horizon:
        rounds, seen = min(length, horizon - start), length // 2
        gap = math.sqrt(math.log(experts) / (2 * seen)) + math.log(experts) / (rate * seen) if seen else 1.0
        total += rounds * min(1.0, gap)
        start, length = start + rounds, 2 * length
    return total

"""What learners on experts cost and lose: privacy losses, the best parameters, regret bounds, mean regret."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from labeldp.online.experts.renyi import MAX_RATE, ORDERS, Switching, switching_rdp
from labeldp.privacy import (
    Floats,
    InputError,
    PrivacyLoss,
    Unit,
    check_integer,
    check_loss_neighbors,
    exact_positive,
    exact_share,
)

F = TypeVar("F", bound=np.floating[Any])
Blocks = Iterable[NDArray[np.unsignedinteger[Any]]]
"""Levels of consecutive rounds, each of shape (rounds, experts)."""
BLOCK_LOSSES = 1 << 18
"""How many losses are handled at a time."""
Singles = NDArray[np.float32]
SWINGS = {Unit.ONE_LOSS: 2, Unit.ZERO_OUT: 1}
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


def dartboard_loss(rate: Any, batch: int, redraw: Any, rounds: int, neighbors: Unit) -> PrivacyLoss:
    """Return what the actions of a batched dartboard reveal of one round's losses.

    Args:
        rate: learning rate for losses in [0, 1], positive.
        batch: rounds in a batch.
        redraw: probability of a redraw whatever the losses are, in (0, 1], a multiple of 2**-32.
        rounds: how many rounds' losses the learner has seen.
        neighbors: ONE_LOSS or ZERO_OUT.

    Source: `docs/proofs/online-experts.md`, equation (6).
    """
    return _loss(rate, batch, redraw, rounds, neighbors, chains=1)


def l2p_loss(rate: Any, batch: int, redraw: Any, rounds: int, neighbors: Unit) -> PrivacyLoss:
    """Return the same for `L2P` with multiplicative weights: its reference costs as many draws again.

    Source: `docs/proofs/online-experts.md`, equation (7); not the formula of Asi, Theorem 3.2 (`theorem_3_2_epsilon`).
    """
    return _loss(rate, batch, redraw, rounds, neighbors, chains=2)


def _loss(rate: Any, batch: int, redraw: Any, rounds: int, neighbors: Unit, chains: int) -> PrivacyLoss:
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

    Source: `docs/proofs/online-experts.md`, equation (2).
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

    Source: `docs/proofs/online-experts.md`, equation (1).
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
        """Return whether these parameters keep the guarantee over the whole horizon."""
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
    """Return the parameters with the smallest regret bound that keep a guarantee; `redraw` or `batch` may be fixed.

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
    """Return the largest rates that keep the guarantee by a coarse set of Rényi orders, shape as `redraws`.

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
    return Fraction(2) ** (math.frexp(rate)[1] - RATE_BITS)


def _exact(promise: PrivacyTarget, chains: int, near_best: LazyParameters) -> LazyParameters:
    """Return the parameters with the largest rate of `RATE_BITS` bits near the one found that keeps the guarantee."""
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


@dataclass(frozen=True)
class Regret:
    """The losses of a learner and of the best fixed expert. It is NOT a private output: keep it with the losses.

    Args:
        rounds: how many rounds were played.
        loss: the learner's loss, in units of the largest loss of a round.
        best: the smallest loss of an expert.
        switches: how often the action changed; None for an average over the learner's coins.
    """

    rounds: int
    loss: float = field(repr=False)
    best: float = field(repr=False)
    switches: int | None = field(default=None, repr=False)

    @property
    def regret(self) -> float:
        """What the learner lost beyond the best expert."""
        return self.loss - self.best


MeanRegret = Callable[[Blocks, int], Regret]
"""The mean regret over a learner's coins on losses fixed in advance, from blocks of them and a seed for the noise."""


def weights_regret(rate: float, batch: int) -> MeanRegret:
    """Return the mean regret of multiplicative weights in batches."""
    return lambda blocks, seed: expected_weights(blocks, rate=rate, batch=batch)


def expected_weights(blocks: Blocks, *, rate: float, batch: int = 1, levels: int = 255) -> Regret:
    """Return the mean regret, over its coins, of a learner with the marginals of multiplicative weights.

    Such are the dartboard, L2P and the plain redraw, whatever their redraw probability: in every round of a batch,
    P(x) is proportional to exp(−rate · losses of x before the batch). Losses are fixed in advance.

    Args:
        blocks: levels.
        rate: η, what a loss of 1 takes off a log-weight.
        batch: B, rounds in a batch.
        levels: the level of a loss of 1.

    Source: Asi, Algorithm 1; `docs/proofs/online-experts.md`.
    """

    def cost(first: int, losses: Singles, sums: Singles, totals: Floats, held: Singles | None) -> tuple[float, Singles]:
        starts = np.arange(-first % batch, len(sums), batch)
        shares = _before(sums, starts)
        shares += _above(totals)
        shares *= np.float32(-rate / levels)
        _softmax(shares)
        if held is not None and first % batch:
            shares, starts = np.vstack([held, shares]), np.concatenate([[0], starts])
        lost = losses if batch == 1 else sums[np.append(starts[1:], len(sums)) - 1] - _before(sums, starts)
        return _products(shares, lost), shares[-1]

    return _expected(blocks, cost, levels)


def expected_softmax(
    blocks: Blocks, *, rate: float, deviation: Callable[[NDArray[np.intp]], Floats], levels: int = 255, seed: int = 0
) -> Regret:
    """Return the mean regret of a learner that draws from exp(−rate · (losses so far + normal noise)) in every round.

    For losses fixed in advance the mean of a round depends on the noise of that round alone, so that fresh noise of
    the same deviation stands for correlated noise; one draw of it in each round is averaged over the rounds.

    Args:
        blocks: levels.
        rate: η, what a loss of 1 takes off a log-weight.
        deviation: from rounds, counted from 0, to the standard deviation of each expert's noise before them.
        levels: the level of a loss of 1.
        seed: the seed of the noise.
    """
    rng = np.random.default_rng(seed)

    def cost(first: int, losses: Singles, sums: Singles, totals: Floats, held: Singles | None) -> tuple[float, None]:
        logits = rng.standard_normal(sums.shape, dtype=np.float32)
        logits *= (levels * deviation(np.arange(first, first + len(sums)))).astype(np.float32)[:, None]
        logits[1:] += sums[:-1]
        logits += _above(totals)
        logits *= np.float32(-rate / levels)
        return _products(_softmax(logits), losses), None

    return _expected(blocks, cost, levels)


def expected_doubling(blocks: Blocks, *, rate: float, levels: int = 255) -> Regret:
    """Return the mean regret of a learner that draws once for each epoch of 1, 2, 4, … rounds, by the epoch before it.

    Args:
        blocks: levels.
        rate: what a loss of 1 in the epoch before takes off a log-weight.
        levels: the level of a loss of 1.
    """
    epochs, rounds = list[Floats](), 0
    for block in blocks:
        epoch = np.frexp(np.arange(rounds + 1.0, rounds + len(block) + 1))[1] - 1
        epochs += [np.zeros(block.shape[1]) for _ in range(len(epochs), epoch[-1] + 1)]
        for number in range(epoch[0], epoch[-1] + 1):
            epochs[number] += block[epoch == number].sum(axis=0, dtype=np.int64)
        rounds += len(block)
    if not rounds:
        raise InputError("there are no rounds to measure")
    sums = np.array(epochs) / levels
    logits = -rate * np.vstack([np.zeros_like(sums[:1]), sums[:-1]])
    loss = float((_softmax(logits) * sums).sum())
    return Regret(rounds, loss, float(sums.sum(axis=0).min()))


BlockCost = Callable[[int, Singles, Singles, Floats, Singles | None], tuple[float, Singles | None]]
"""From a block's first round, its losses, their sums up to each round, the totals before it, and the shares of an open
batch, to the block's mean loss and the shares of the batch that it leaves open."""


def _expected(blocks: Blocks, cost: BlockCost, levels: int) -> Regret:
    """Return the mean regret, from the cost of blocks that stay in cache and have exact sums in single precision."""
    rounds, loss, totals, held = 0, 0.0, np.zeros(0), None
    for block in blocks:
        rows = max(1, min(2**23 // levels, BLOCK_LOSSES // block.shape[1]))
        for first in range(0, len(block), rows):
            losses = block[first : first + rows].astype(np.float32)
            sums = np.cumsum(losses, axis=0, dtype=np.float32)  # exact: integers below 2^24
            totals = totals if rounds else np.zeros(block.shape[1])
            lost, held = cost(rounds, losses, sums, totals, held)
            loss += lost
            totals = totals + sums[-1]
            rounds += len(losses)
    if not rounds:
        raise InputError("there are no rounds to measure")
    return Regret(rounds, loss / levels, float(totals.min()) / levels)


def _before(sums: Singles, starts: NDArray[np.intp]) -> Singles:
    """Return the sums of the block's rounds before each of these."""
    earlier = sums[starts - 1]
    earlier[starts == 0] = 0
    return earlier


def _products(shares: Singles, losses: Singles) -> float:
    """Return the sum of all products, in double precision."""
    return float(np.einsum("td,td->t", shares, losses).sum(dtype=np.float64))


def _above(totals: Floats) -> Singles:
    """Return how far totals lie above the smallest: totals themselves are too large for single precision."""
    return (totals - totals.min()).astype(np.float32)


def _softmax(logits: NDArray[F]) -> NDArray[F]:
    """Return the softmax of each row; the argument is overwritten."""
    logits -= logits.max(axis=1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=1, keepdims=True)
    return logits

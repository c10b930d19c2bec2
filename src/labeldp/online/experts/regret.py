"""Regret of learners on experts, and its mean over their coins."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import InputError

F = TypeVar("F", bound=np.floating[Any])
Blocks = Iterable[NDArray[np.unsignedinteger[Any]]]
"""Levels of consecutive rounds, each of shape (rounds, experts)."""
BLOCK_LOSSES = 1 << 18
"""How many losses are handled at a time."""
Floats = NDArray[np.float32]
Totals = NDArray[np.float64]


@dataclass(frozen=True)
class Regret:
    """The loss of a learner beside that of the best fixed expert. It is NOT a private output: keep it with the losses.

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

    Source: Asi, Algorithm 1; `docs/proofs/online.md`.
    """

    def cost(first: int, losses: Floats, sums: Floats, totals: Totals, held: Floats | None) -> tuple[float, Floats]:
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
    blocks: Blocks, *, rate: float, deviation: Callable[[NDArray[np.intp]], Totals], levels: int = 255, seed: int = 0
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

    def cost(first: int, losses: Floats, sums: Floats, totals: Totals, held: Floats | None) -> tuple[float, None]:
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
    epochs, rounds = list[Totals](), 0
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


Cost = Callable[[int, Floats, Floats, Totals, Floats | None], tuple[float, Floats | None]]
"""From a block's first round, its losses, their sums up to each round, the totals before it, and the shares of an open
batch, to the block's mean loss and the shares of the batch that it leaves open."""


def _expected(blocks: Blocks, cost: Cost, levels: int) -> Regret:
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


def _before(sums: Floats, starts: NDArray[np.intp]) -> Floats:
    """Return the sums of the block's rounds before each of these."""
    earlier = sums[starts - 1]
    earlier[starts == 0] = 0
    return earlier


def _products(shares: Floats, losses: Floats) -> float:
    """Return the sum of all products, in double precision."""
    return float(np.einsum("td,td->t", shares, losses).sum(dtype=np.float64))


def _above(totals: Totals) -> Floats:
    """Return how far totals lie above the smallest: totals themselves are too large for single precision."""
    return (totals - totals.min()).astype(np.float32)


def _softmax(logits: NDArray[F]) -> NDArray[F]:
    """Return the softmax of each row; the argument is overwritten."""
    logits -= logits.max(axis=1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=1, keepdims=True)
    return logits

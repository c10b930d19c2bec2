"""Regret of learners on experts, measured or in the mean, and made-up sequences of losses to measure it on."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from labeldp.online.experts.kernel import Actions, Kernel
from labeldp.online.experts.softmax import MatrixFactorization, NoisySoftmax, TreeNoise
from labeldp.privacy import InputError, Randomness

F = TypeVar("F", bound=np.floating[Any])
Blocks = Iterable[NDArray[np.unsignedinteger[Any]]]
"""Levels of consecutive rounds, each of shape (rounds, experts)."""
BLOCK_LOSSES = 1 << 18
"""How many losses are handled at a time."""
Floats = NDArray[np.float32]
Totals = NDArray[np.float64]
Levels = NDArray[np.uint8]
"""Losses of some rounds as levels, 0 for none and 255 for a loss of 1, shape (rounds, experts)."""
BLOCK_ROUNDS = 1024
"""The number of rounds in a block of a made-up sequence, except in the last one."""


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


def measured_regret(kernel: Kernel[Any], blocks: Blocks, *, rng: Randomness) -> Regret:
    """Play all rounds once and compare with the best expert in hindsight. NOT private: for made-up or public losses.

    Args:
        kernel: the learner.
        blocks: levels, as the kernel takes them.
        rng: the learner's randomness.

    Raises:
        InputError: there are no rounds.
    """
    state, actions = kernel.init(rng=rng), list[Actions]()
    totals, loss = np.zeros(kernel.experts), 0
    for block in blocks:
        state, played = kernel.update(state, block, rng=rng)
        actions.append(played)
        totals += block.sum(axis=0, dtype=np.int64)
        loss += int(block[np.arange(len(block)), played].sum(dtype=np.int64))
    if not actions:
        raise InputError("there are no rounds to measure")
    every = np.concatenate(actions)
    switches = int(np.count_nonzero(np.diff(every)))
    return Regret(len(every), loss / kernel.levels, float(totals.min()) / kernel.levels, switches)


MeanRegret = Callable[[Blocks, int], Regret]
"""The mean regret over a learner's coins on losses fixed in advance, from blocks of them and a seed for the noise."""


def weights_regret(rate: float, batch: int) -> MeanRegret:
    """Return the mean regret of multiplicative weights in batches."""
    return lambda blocks, seed: expected_weights(blocks, rate=rate, batch=batch)


def doubling_regret(rate: float) -> MeanRegret:
    """Return the mean regret of one draw for each epoch of doubling length."""
    return lambda blocks, seed: expected_doubling(blocks, rate=rate)


def correlated_softmax_regret(kernel: MatrixFactorization) -> MeanRegret:
    """Return the mean regret of weights on sums with correlated noise.

    The noise grows as for the square root of the matrix of sums, to which the factor is close: within 2 %.
    """
    k = np.arange(1, kernel.horizon)
    squares = np.cumsum(np.r_[0.0, 1.0, np.cumprod((2 * k - 1) / (2 * k)) ** 2])
    return _softmax_regret(kernel, lambda rounds: kernel.sums.deviation * np.sqrt(squares[rounds] / squares[-1]))


def tree_softmax_regret(kernel: TreeNoise) -> MeanRegret:
    """Return the mean regret of weights on sums with a tree's noise, the same in every round but the first.

    In the first round all experts are alike, and noise changes nothing.
    """
    return _softmax_regret(kernel, lambda rounds: np.full(len(rounds), kernel.sums.deviation))


def _softmax_regret(kernel: NoisySoftmax[Any], deviation: Callable[[NDArray[np.intp]], Totals]) -> MeanRegret:
    rate = float(kernel.rate)
    return lambda blocks, seed: expected_softmax(blocks, rate=rate, deviation=deviation, seed=seed)


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
        for each in range(epoch[0], epoch[-1] + 1):
            epochs[each] += block[epoch == each].sum(axis=0, dtype=np.int64)
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
        most = max(1, min(2**23 // levels, BLOCK_LOSSES // block.shape[1]))
        for first in range(0, len(block), most):
            losses = block[first : first + most].astype(np.float32)
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
    found = sums[starts - 1]
    found[starts == 0] = 0
    return found


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


@dataclass(frozen=True)
class LossSequence(ABC):
    """Made-up public losses in [0, 1] of every expert in every round, which do not depend on a learner's actions.

    Use one to measure regret, never to test privacy: these are the losses of no person.

    Args:
        rounds: T, at least 1.
        experts: d, at least 2.
        seed: the seed of random losses.

    Guarantee (repeatable): the same description yields the same levels, block by block.

    Raises:
        InputError: an argument is out of range.
    """

    rounds: int
    experts: int
    seed: int = 0
    levels: ClassVar[int] = 255

    def __post_init__(self) -> None:
        if self.rounds < 1 or self.experts < 2:
            raise InputError("a sequence of losses needs at least one round and two experts")

    def blocks(self) -> Iterator[Levels]:
        """Yield all rounds in order, `BLOCK_ROUNDS` at a time."""
        for first in range(0, self.rounds, BLOCK_ROUNDS):
            yield self._losses(np.arange(first, min(first + BLOCK_ROUNDS, self.rounds)))

    @abstractmethod
    def _losses(self, at: NDArray[np.intp]) -> Levels:
        """Return the levels of the rounds of one block."""

    def _fair(self, group: int, rows: int = BLOCK_ROUNDS) -> Levels:
        """Return losses of 0 or 1 by fair coins that depend on the description and the number of the group alone."""
        rng = np.random.default_rng([self.seed, group, 0])
        coins = np.unpackbits(np.frombuffer(rng.bytes((rows * self.experts + 7) // 8), dtype=np.uint8))
        return self.levels * coins[: rows * self.experts].reshape(rows, self.experts)


@dataclass(frozen=True)
class _GapSequence(LossSequence):
    """Independent losses of 0 or 1: the best expert loses with probability 1/2 − gap, every other one with 1/2."""

    gap: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.gap <= 0.5:
            raise InputError("gap must be above 0 and at most 1/2")

    @abstractmethod
    def _best(self, at: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the best expert in each of these rounds."""

    def _losses(self, at: NDArray[np.intp]) -> Levels:
        lost = self._fair(int(at[0]), len(at))
        rng = np.random.default_rng([self.seed, int(at[0]), 1])
        lost[np.arange(len(at)), self._best(at)] = self.levels * (rng.random(len(at)) < 0.5 - self.gap)
        return lost


@final
@dataclass(frozen=True)
class Gap(_GapSequence):
    """Independent losses of 0 or 1: expert 0 loses with probability 1/2 − gap, every other one with 1/2.

    Args:
        gap: the advantage of the best expert, in (0, 1/2].
    """

    def _best(self, at: NDArray[np.intp]) -> NDArray[np.intp]:
        return np.zeros_like(at)


@final
@dataclass(frozen=True)
class Epochs(LossSequence):
    """Vectors of fair coins, each held for an epoch of consecutive rounds.

    Use `hard` for the adversary of the lower bound, and `of_length` for epochs of a given length.

    Args:
        epochs: E, from 1 to the number of rounds; round t, counted from 0, is in epoch ⌊t E / T⌋.

    Source: Asi, Theorem 4.2.
    """

    epochs: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.epochs <= self.rounds:
            raise InputError("epochs must be from 1 to the number of rounds")

    @classmethod
    def hard(cls, rounds: int, experts: int, epsilon: float, seed: int = 0) -> "Epochs":
        """Return the adversary of the lower bound, which has (T epsilon)^(4/3) epochs.

        Raises:
            InputError: epsilon is below 1/T or above T^(−1/4).

        Source: Asi, Theorem 4.2, proof.
        """
        epochs = (rounds * epsilon) ** (4 / 3) if epsilon > 0 else 0.0
        if not 1 <= epochs <= rounds * (1 + 1e-9):
            raise InputError(
                f"epsilon must be from 1/T to T^(-1/4) = {rounds**-0.25:.3g}, so that the (T epsilon)^(4/3) epochs "
                "are at least one, and none is shorter than a round"
            )
        return cls(rounds, experts, seed, min(int(epochs + 1e-9), rounds))

    @classmethod
    def of_length(cls, rounds: int, experts: int, length: int, seed: int = 0) -> "Epochs":
        """Return epochs of about `length` rounds: as many of equal length as epochs of that length would be."""
        if length < 1:
            raise InputError("length must be at least 1")
        return cls(rounds, experts, seed, -(-rounds // length))

    def _losses(self, at: NDArray[np.intp]) -> Levels:
        epoch = at * self.epochs // self.rounds
        first, last = int(epoch[0]) // BLOCK_ROUNDS, int(epoch[-1]) // BLOCK_ROUNDS
        coins = np.concatenate([self._fair(group) for group in range(first, last + 1)])
        return coins[epoch - first * BLOCK_ROUNDS]


@final
@dataclass(frozen=True)
class Alternating(LossSequence):
    """Blocks in turns: the first half of the experts loses in every odd block, the others in every even one.

    A learner that follows the last block always plays the wrong half; one that learns nothing is as good as any expert.

    Args:
        length: rounds in a block.
    """

    length: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length < 1:
            raise InputError("length must be at least 1")

    def _losses(self, at: NDArray[np.intp]) -> Levels:
        second = (np.arange(self.experts) >= self.experts // 2)[None, :]
        return self.levels * ((at // self.length % 2 == 1)[:, None] == second).astype(np.uint8)


@final
@dataclass(frozen=True)
class Shift(_GapSequence):
    """Independent losses of 0 or 1 whose best expert changes: it is expert 0 before round T/2, then expert 1.

    Args:
        gap: in (0, 1/2]: the best expert loses with probability 1/2 − gap, every other one with 1/2.
    """

    gap: float = 0.08

    def _best(self, at: NDArray[np.intp]) -> NDArray[np.intp]:
        return (at >= self.rounds / 2).astype(np.intp)


@final
@dataclass(frozen=True)
class Trap(LossSequence):
    """Two experts that swap at every power of two: one always loses while the other never does; the rest lose 1/2.

    A learner that trusts the last epoch of doubling length always plays the wrong one. Nothing is random; 1/2 is the
    levels 127 and 128 in turns.
    """

    def _losses(self, at: NDArray[np.intp]) -> Levels:
        lost = np.repeat((127 + at % 2).astype(np.uint8)[:, None], self.experts, axis=1)
        lost[:, 0] = self.levels * (np.frexp(at + 1.0)[1] % 2)  # the exponent grows by one at every power of two
        lost[:, 1] = self.levels - lost[:, 0]
        return lost

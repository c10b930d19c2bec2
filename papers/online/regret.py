"""Made-up sequences of losses to measure regret on, the adversary of a lower bound among them."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import InputError

Levels = NDArray[np.uint8]
"""Losses of some rounds as levels, 0 for none and 255 for a loss of 1, shape (rounds, experts)."""
BLOCK_ROUNDS = 1024
"""The number of rounds in a block of a made-up sequence, except in the last one."""


@dataclass(frozen=True)
class LossSequence(ABC):
    """Made-up public losses in [0, 1] of every expert in every round, which do not depend on a learner's actions.

    Use one to measure regret, never to test privacy: these are the losses of no user.

    Args:
        rounds: T, at least 1.
        experts: d, at least 2.
        seed: the seed of random losses.

    Guarantee: the same description yields the same levels, block by block.

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

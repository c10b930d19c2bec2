"""Sequences of losses that were fixed in advance, to measure learners on: block by block, so memory is a block."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import InputError

Levels = NDArray[np.uint8]
"""Losses of some rounds as levels, 0 for none and 255 for a loss of one, shape (rounds, experts)."""

BLOCK = 1024
"""Rounds in a block, except in the last one."""


@dataclass(frozen=True)
class LossSequence(ABC):
    """Losses in [0, 1] of every expert in every round, made up and public; a learner's actions do not change them.

    Use one to measure regret, never as a test of privacy: it is the losses of no person.

    Args:
        rounds: T.
        experts: d.
        seed: what chance decided.

    Guarantee: the same description yields the same levels, block by block.

    Raises:
        InputError: fewer than one round, or fewer than two experts.
    """

    rounds: int
    experts: int
    seed: int = 0
    levels: ClassVar[int] = 255

    def __post_init__(self) -> None:
        if self.rounds < 1 or self.experts < 2:
            raise InputError("a sequence of losses needs at least one round and two experts")

    def blocks(self) -> Iterator[Levels]:
        """All rounds in order, `BLOCK` at a time."""
        for first in range(0, self.rounds, BLOCK):
            yield self._losses(np.arange(first, min(first + BLOCK, self.rounds)))

    @abstractmethod
    def _losses(self, at: NDArray[np.intp]) -> Levels:
        """The levels of the rounds of one block."""

    def _fair(self, group: int, rows: int = BLOCK) -> Levels:
        """Losses of nothing or one by fair coins, that depend on the description and the group of vectors alone."""
        rng = np.random.default_rng([self.seed, group, 0])
        coins = np.unpackbits(np.frombuffer(rng.bytes((rows * self.experts + 7) // 8), dtype=np.uint8))
        return self.levels * coins[: rows * self.experts].reshape(rows, self.experts)

    def _ahead(self, at: NDArray[np.intp], gap: float) -> Levels:
        """Losses of the expert that is ahead in the rounds of a block: of one with probability 1/2 − gap."""
        rng = np.random.default_rng([self.seed, int(at[0]), 1])
        return self.levels * (rng.random(len(at)) < 0.5 - gap).astype(np.uint8)


@final
@dataclass(frozen=True)
class Gap(LossSequence):
    """Independent losses of zero or one: expert 0 loses with probability 1/2 − gap, every other one with 1/2.

    Args:
        gap: of the best expert, in (0, 1/2].
    """

    gap: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.gap <= 0.5:
            raise InputError("gap must be above 0 and at most 1/2")

    def _losses(self, at: NDArray[np.intp]) -> Levels:
        lost = self._fair(int(at[0]), len(at))
        lost[:, 0] = self._ahead(at, self.gap)
        return lost


@final
@dataclass(frozen=True)
class Epochs(LossSequence):
    """Vectors of fair coins, each held for an epoch of consecutive rounds.

    Use `hard` for the lower bound's adversary, `of_length` for epochs of so many rounds.

    Args:
        epochs: E; round t, from 0 on, is in epoch ⌊t E / T⌋.

    Raises:
        InputError: fewer than one epoch, or an epoch that is shorter than a round.

    Source: Asi, Theorem 4.2.
    """

    epochs: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.epochs <= self.rounds:
            raise InputError("epochs must be from 1 to the number of rounds")

    @classmethod
    def hard(cls, rounds: int, experts: int, epsilon: float, seed: int = 0) -> "Epochs":
        """The adversary of the lower bound: (T epsilon)^(4/3) epochs.

        Raises:
            InputError: epsilon above T^(−1/4), where an epoch is shorter than a round, or so small that there is no
                epoch.

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
        """Epochs of `length` rounds; the last may be shorter by less than an epoch, spread over all."""
        if length < 1:
            raise InputError("length must be at least 1")
        return cls(rounds, experts, seed, -(-rounds // length))

    def _losses(self, at: NDArray[np.intp]) -> Levels:
        epoch = at * self.epochs // self.rounds
        first, last = int(epoch[0]) // BLOCK, int(epoch[-1]) // BLOCK
        coins = np.concatenate([self._fair(group) for group in range(first, last + 1)])
        return coins[epoch - first * BLOCK]


@final
@dataclass(frozen=True)
class Alternating(LossSequence):
    """Blocks in turns: the first half of the experts loses in every odd block, the others in every even one.

    Actions that stay for a block always come too late; a learner that knows nothing is as good as any expert.

    Args:
        length: rounds of a block.
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
class Shift(LossSequence):
    """Independent losses whose best expert changes: 0 is better by the gap until T/2, then 1 is.

    Args:
        gap: in (0, 1/2]; every other expert loses with probability 1/2.
    """

    gap: float = 0.08

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.gap <= 0.5:
            raise InputError("gap must be above 0 and at most 1/2")

    def _losses(self, at: NDArray[np.intp]) -> Levels:
        lost = self._fair(int(at[0]), len(at))
        lost[np.arange(len(at)), (at >= self.rounds / 2).astype(np.intp)] = self._ahead(at, self.gap)
        return lost


@final
@dataclass(frozen=True)
class Trap(LossSequence):
    """Two experts swap at every power of two: one always loses while the other never does; the rest lose one half.

    Learners that trust the last epoch of doubling length always play the wrong one. Nothing is left to chance; halves
    are levels 127 and 128 in turns.
    """

    def _losses(self, at: NDArray[np.intp]) -> Levels:
        lost = np.repeat((127 + at % 2).astype(np.uint8)[:, None], self.experts, axis=1)
        lost[:, 0] = self.levels * (np.frexp(at + 1.0)[1] % 2)  # the exponent grows by one at every power of two
        lost[:, 1] = self.levels - lost[:, 0]
        return lost

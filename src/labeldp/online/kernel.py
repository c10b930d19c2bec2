"""What every online learner is: public parameters, and three functions on an immutable, secret state."""

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import Neighbors, PrivacyLoss, Randomness, Trust

Losses = Any
"""Levels 0 … `levels` of every expert in one or more rounds, shape (rounds, experts): a dense array of unsigned
integers, or a scipy.sparse CSR array of them where most are zero."""

Actions = NDArray[np.int64]
"""The experts that were played, shape (rounds,)."""

S = TypeVar("S")


class Kernel(ABC, Generic[S]):
    """A learner that picks one of several experts in every round, before the losses of that round are seen.

    A kernel is a frozen description; all of it is public. The state, a frozen dataclass of integers, arrays and other
    states, is as secret as the losses: its repr shows sizes only. What is released is the sequence of actions. Nothing
    in a state was drawn that actions to come will hide behind: `docs/proofs/snapshots.md` rests on it.

    Guarantee: an action depends on losses of earlier rounds alone, and its law does not depend on how the rounds
        are divided among calls of `update`.
    """

    experts: int
    levels: int
    neighbors: Neighbors
    trust = Trust.CENTRAL

    @abstractmethod
    def init(self, *, rng: Randomness) -> S:
        """The state before the first round."""

    @abstractmethod
    def predict(self, state: S) -> int:
        """The expert of the coming round; draws nothing."""

    @abstractmethod
    def update(self, state: S, losses: Losses, *, rng: Randomness) -> tuple[S, Actions]:
        """The state after more rounds, and what was played in them; the first of it is `predict(state)`.

        Args:
            losses: checked levels, shape (rounds, experts).
        """

    @abstractmethod
    def privacy_loss(self, rounds: int) -> PrivacyLoss:
        """What all actions that may be seen after the losses of so many rounds reveal of one round's losses."""

    @property
    def published(self) -> str:
        """What leaves, in words."""
        return "the expert that is played in each round"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the guarantee depends on, in words."""
        return ()

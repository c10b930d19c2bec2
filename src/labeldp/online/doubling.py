"""One draw for each epoch, by the losses of the epoch before: for losses that do not change their ways."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import final

import numpy as np

from labeldp.online.checks import one_loss, whole
from labeldp.online.draws import Integers, draw_index
from labeldp.online.kernel import Actions, Kernel, Losses
from labeldp.online.rows import LEVELS, rows_of
from labeldp.privacy import InputError, Neighbors, PrivacyLoss, Randomness, as_successive, positive_epsilon


@final
@dataclass(frozen=True)
class DoublingState:
    """Between two rounds: how many there were, the sums of this epoch's losses, secret, and the epoch's expert."""

    rounds: int
    totals: Integers = field(repr=False)
    action: int = field(repr=False)


@final
@dataclass(frozen=True)
class DoublingExponential(Kernel[DoublingState]):
    """Epochs of 1, 2, 4, … rounds; in each, one expert is drawn from e^(-rate · losses of the epoch before) and kept.

    Use it when rounds are independent draws of one law: then it is far better than any other learner here. Against
    losses that were chosen to harm it, its regret may grow as fast as the horizon. It needs no horizon.

    Args:
        experts: d, at least 2.
        epsilon: of all actions together, positive, exact.
        levels: 255 or 65535, the level of a loss of 1.
        neighbors: `Neighbors.ONE_LOSS`, or `Neighbors.ZERO_OUT`, which lets the rate be twice as large.

    Guarantee: all actions together are epsilon-DP, exactly, for the emitted bits; each round's losses are used in one
        draw.

    Source: McSherry (2007), Theorem 6, for the draws. Proof: `docs/proofs/doubling.md`.

    Examples:
        >>> import numpy as np
        >>> kernel = DoublingExponential(experts=3, epsilon=1)
        >>> state = kernel.init(rng=np.random.default_rng(0))
        >>> losses = np.array([[0, 255, 255]] * 7, dtype=np.uint8)
        >>> state, actions = kernel.update(state, losses, rng=np.random.default_rng(1))
        >>> state, len(set(actions[3:]))
        (DoublingState(rounds=7), 1)
    """

    experts: int
    epsilon: Fraction
    levels: int = 255
    neighbors: Neighbors = Neighbors.ONE_LOSS

    def __post_init__(self) -> None:
        whole("experts", self.experts, 2)
        if self.levels not in LEVELS:
            raise InputError("levels must be 255 or 65535")
        object.__setattr__(self, "epsilon", positive_epsilon(self.epsilon))
        object.__setattr__(self, "neighbors", one_loss(self.neighbors))

    @property
    def rate(self) -> Fraction:
        """What a loss of 1 takes off a log-weight: epsilon, or half of it where a loss may move both ways."""
        return self.epsilon if self.neighbors is Neighbors.ZERO_OUT else self.epsilon / 2

    def init(self, *, rng: Randomness) -> DoublingState:
        """Any expert, with equal probability."""
        return self._drawn(0, np.zeros(self.experts, dtype=np.int64), as_successive(rng))

    def predict(self, state: DoublingState) -> int:
        """The expert of the coming round; draws nothing."""
        return state.action

    def update(self, state: DoublingState, losses: Losses, *, rng: Randomness) -> tuple[DoublingState, Actions]:
        """The state after more rounds, and what was played in them."""
        rows, randomness = rows_of(losses, self.experts, self.levels), as_successive(rng)
        actions, done = np.empty(len(rows), dtype=np.int64), 0
        while done < len(rows):
            # Epochs end after 1, 3, 7, … rounds.
            end = (1 << (state.rounds + 1).bit_length()) - 1
            part = slice(done, done + end - state.rounds)
            rounds, totals = state.rounds + len(rows[part]), state.totals + rows[part].sums()
            actions[part] = state.action
            done += len(rows[part])
            over = rounds == end
            state = self._drawn(rounds, totals, randomness) if over else DoublingState(rounds, totals, state.action)
        return state, actions

    def _drawn(self, rounds: int, totals: Integers, rng: Randomness) -> DoublingState:
        """The first state of an epoch, after one with these sums of losses."""
        return DoublingState(rounds, np.zeros_like(totals), draw_index(totals, self.rate / self.levels, rng=rng))

    def privacy_loss(self, rounds: int) -> PrivacyLoss:
        """What all actions that may be seen after the losses of so many rounds reveal of one round's losses."""
        return PrivacyLoss.pure(self.epsilon) if rounds else PrivacyLoss.zero()

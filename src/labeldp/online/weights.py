"""Multiplicative weights without privacy: what the private learners are measured against."""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from labeldp.online.checks import one_loss
from labeldp.online.kernel import Actions, Kernel, Losses
from labeldp.online.l2p import Integers, MultiplicativeWeightsMeasure
from labeldp.online.rows import rows_of
from labeldp.privacy import Neighbors, PrivacyLoss, Randomness, as_successive


@final
@dataclass(frozen=True)
class WeightsState:
    """Sums of losses, and the expert that was drawn for the coming round."""

    totals: Integers = field(repr=False)
    action: NDArray[np.int64] = field(repr=False)
    rounds: int


@final
@dataclass(frozen=True)
class MultiplicativeWeights(Kernel[WeightsState]):
    """A fresh draw from multiplicative weights in every round. It promises NOTHING: a baseline of what privacy costs.

    Args:
        experts: d, at least 2.
        rate: eta, positive, exact; sqrt(8 ln d / T) is best for T rounds that nobody can foresee.
        levels: 255 or 65535, the level of a loss of 1.
        neighbors: the relation that its certificate names, under which it promises nothing.

    Guarantee: no finite epsilon is promised; the draws are exact all the same.

    Source: Asi, Section 3.1, with measures mu_t.
    """

    experts: int
    rate: Fraction
    levels: int = 255
    neighbors: Neighbors = Neighbors.ONE_LOSS

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", self.measure.rate)
        object.__setattr__(self, "neighbors", one_loss(self.neighbors))

    @cached_property
    def measure(self) -> MultiplicativeWeightsMeasure:
        """The weights."""
        return MultiplicativeWeightsMeasure(self.experts, self.rate, self.levels)

    def init(self, *, rng: Randomness) -> WeightsState:
        """Any expert, with equal probability."""
        return self._drawn(self.measure.start(), 0, as_successive(rng))

    def predict(self, state: WeightsState) -> int:
        """The expert of the coming round; draws nothing."""
        return int(state.action)

    def update(self, state: WeightsState, losses: Losses, *, rng: Randomness) -> tuple[WeightsState, Actions]:
        """The state after more rounds, and what was played in them."""
        rows, rng = rows_of(losses, self.experts, self.levels), as_successive(rng)
        played = np.empty(len(rows), dtype=np.int64)
        for t in range(len(rows)):
            played[t] = state.action
            state = self._drawn(self.measure.add(state.totals, rows[t : t + 1]), state.rounds + 1, rng)
        return state, played

    def _drawn(self, totals: Integers, rounds: int, rng: Randomness) -> WeightsState:
        """The state after these losses, with the next action."""
        return WeightsState(totals, np.array(self.measure.draw(totals, rng=rng)), rounds)

    def privacy_loss(self, rounds: int) -> PrivacyLoss:
        """Anything may be revealed."""
        return PrivacyLoss.failure(1)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """That there is nothing to rely on."""
        return ("nothing is protected: these draws are no private mechanism",)

"""Online learners without privacy, to compare with."""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from labeldp.online import Actions, Body, ConvexKernel, Kernel, Losses, MultiplicativeWeightsMeasure
from labeldp.online.convex.base import real
from labeldp.online.experts.kernel import rows_of
from labeldp.online.snapshots import KernelState
from labeldp.privacy import (
    Floats,
    Integers,
    PrivacyLoss,
    Randomness,
    Unit,
    as_successive,
    check_loss_neighbors,
    set_fields,
)


@final
@dataclass(frozen=True)
class WeightsState(KernelState):
    """Between two rounds: the sums of losses, secret, and the expert of the coming round."""

    totals: Integers = field(repr=False)
    action: NDArray[np.int64] = field(repr=False)
    rounds: int


@final
@dataclass(frozen=True)
class MultiplicativeWeights(Kernel[WeightsState]):
    """A fresh draw from multiplicative weights in every round. It promises NOTHING: a baseline without privacy.

    Args:
        experts: d, at least 2.
        rate: eta, positive, exact; sqrt(8 ln d / T) has the smallest regret bound for T rounds.
        levels: 255 or 65535, the level of a loss of 1.
        neighbors: the relation that its certificate names.

    Guarantee: no finite epsilon is promised; the draws are exact all the same.

    Source: Asi, Section 3.1, with measures mu_t.
    """

    experts: int
    rate: Fraction
    levels: int = 255
    neighbors: Unit = Unit.ONE_LOSS

    def __post_init__(self) -> None:
        set_fields(self, rate=self.measure.rate, neighbors=check_loss_neighbors(self.neighbors))

    @cached_property
    def measure(self) -> MultiplicativeWeightsMeasure:
        """The weights."""
        return MultiplicativeWeightsMeasure(self.experts, self.rate, self.levels)

    def init(self, *, rng: Randomness) -> WeightsState:
        """Draw any expert, with equal probability."""
        return self._drawn(self.measure.start(), 0, as_successive(rng))

    def predict(self, state: WeightsState) -> int:
        return int(state.action)

    def update(self, state: WeightsState, losses: Losses, *, rng: Randomness) -> tuple[WeightsState, Actions]:
        rows, rng = rows_of(losses, self.experts, self.levels), as_successive(rng)
        played = np.empty(len(rows), dtype=np.int64)
        for t in range(len(rows)):
            played[t] = state.action
            state = self._drawn(self.measure.add(state.totals, rows[t : t + 1]), state.rounds + 1, rng)
        return state, played

    def _drawn(self, totals: Integers, rounds: int, rng: Randomness) -> WeightsState:
        """Draw the next action and return the state after these losses."""
        return WeightsState(totals, np.array(self.measure.draw(totals, rng=rng)), rounds)

    def privacy_loss(self, rounds: int) -> PrivacyLoss:
        """Return delta = 1: anything may be revealed."""
        return PrivacyLoss.failure(1)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Say that nothing is promised."""
        return ("nothing is protected: these draws are no private mechanism",)


@final
@dataclass(frozen=True)
class DescentState:
    """The point of the coming round, relative to the center, and the number of rounds so far."""

    point: Floats = field(repr=False)
    rounds: int


@final
@dataclass(frozen=True)
class OnlineGradientDescent(ConvexKernel[DescentState]):
    """Projected gradient descent: a baseline without privacy.

    Args:
        body: where points lie.
        horizon: most rounds.
        lipschitz: no gradient is longer.
        rate: size of a step, positive; by default R / (L sqrt T), with a regret of at most R L sqrt T.

    Guarantee: nothing is promised.

    Source: Zinkevich, Theorem 1.
    """

    body: Body
    horizon: int
    lipschitz: float
    rate: float = 0.0
    neighbors: Unit = Unit.ONE_LOSS

    def __post_init__(self) -> None:
        self._check_common_fields("lipschitz")
        best = self.body.radius / (self.lipschitz * math.sqrt(self.horizon))
        set_fields(self, rate=real(self.rate, "rate") if self.rate else best)

    def init(self, *, rng: Randomness) -> DescentState:
        """Return a state that plays the center first."""
        return DescentState(np.zeros(self.body.dimension), 0)

    def predict(self, state: DescentState) -> Floats:
        return np.asarray(self.body.center + state.point)

    def update(self, state: DescentState, gradients: Any, *, rng: Randomness) -> tuple[DescentState, Floats]:
        self.check_rounds(state.rounds, len(gradients))
        played = np.empty(np.shape(gradients))
        point = state.point
        for i, gradient in enumerate(gradients):
            played[i] = point
            point = self.body.project(point - self.rate * gradient)
        return DescentState(point, state.rounds + len(gradients)), self.body.center + played

    def privacy_loss(self, rounds: int) -> PrivacyLoss:
        """Return delta = 1: anything may be revealed."""
        return PrivacyLoss.failure(1)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Say that nothing is promised."""
        return ("nothing is protected: gradient descent adds no noise",)

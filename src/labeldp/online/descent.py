"""Online gradient descent: what convex losses cost without privacy."""

import math
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from labeldp.online.checks import whole
from labeldp.online.convex import Body, ConvexKernel, Floats, real
from labeldp.privacy import Neighbors, PrivacyLoss, Randomness


@final
@dataclass(frozen=True)
class DescentState:
    """The point of the coming round, relative to the center, and how many rounds there were."""

    point: Floats = field(repr=False)
    rounds: int


@final
@dataclass(frozen=True)
class OnlineGradientDescent(ConvexKernel[DescentState]):
    """A step against each gradient, then back to the body: a baseline that protects nothing.

    Args:
        body: where points lie.
        horizon: most rounds.
        lipschitz: no gradient is longer.
        rate: size of a step, positive; R / (L sqrt T) where none is given, with a regret of at most R L sqrt T.

    Guarantee: nothing is promised.

    Source: Zinkevich, Theorem 1.
    """

    body: Body
    horizon: int
    lipschitz: float
    rate: float = 0.0
    neighbors: Neighbors = Neighbors.ONE_LOSS

    def __post_init__(self) -> None:
        whole("horizon", self.horizon, 1)
        object.__setattr__(self, "lipschitz", real("lipschitz", self.lipschitz))
        best = self.body.radius / (self.lipschitz * math.sqrt(self.horizon))
        object.__setattr__(self, "rate", real("rate", self.rate) if self.rate else best)

    def init(self, *, rng: Randomness) -> DescentState:
        """The center."""
        return DescentState(np.zeros(self.body.dimension), 0)

    def predict(self, state: DescentState) -> Floats:
        """The point of the coming round; draws nothing."""
        return np.asarray(self.body.center + state.point)

    def update(self, state: DescentState, gradients: Any, *, rng: Randomness) -> tuple[DescentState, Floats]:
        """The state after more rounds, and what was played in them."""
        self.check_rounds(state.rounds, len(gradients))
        played = np.empty(np.shape(gradients))
        point = state.point
        for i, gradient in enumerate(gradients):
            played[i] = point
            point = self.body.project(point - self.rate * gradient)
        return DescentState(point, state.rounds + len(gradients)), self.body.center + played

    def privacy_loss(self, rounds: int) -> PrivacyLoss:
        """Anything may be revealed."""
        return PrivacyLoss.failure(1)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """That there is nothing to rely on."""
        return ("nothing is protected: gradient descent adds no noise",)

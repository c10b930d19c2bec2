"""Regularized multiplicative weights on convex losses of any kind, drawn by a sampler that its owner answers for."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol, final

import numpy as np

from labeldp.online.checks import one_loss, whole
from labeldp.online.convex import Body, ConvexKernel, Floats, finite_array, real
from labeldp.privacy import (
    InputError,
    Neighbors,
    PrivacyLoss,
    Randomness,
    all_digits,
    as_successive,
    decimal,
    exp_bounds,
)

REFUSED = (
    "general convex losses need a sampler that states its total variation `distance` to the exact law: the bounds of "
    "the known samplers hide constants, so that none of them gives a guarantee. Give gradients of linear losses, take "
    'method="matrix-factorization" for gradients at the played points, or answer for a sampler of your own'
)


class Sampler(Protocol):
    """Points with density e^(-beta (sum of losses + strength |x - center|^2)) on a body, nearly."""

    @property
    def distance(self) -> Any:
        """The law of any draw is within this total variation of the exact one, whatever the losses are."""

    def draw(self, losses: Sequence[Any], beta: float, strength: float, body: Body, *, rng: Randomness) -> Floats:
        """A point, shape (dimension,)."""


@final
@dataclass(frozen=True)
class SampledState:
    """Between two rounds: all losses so far and the point that is played, as secret as the losses."""

    losses: tuple[Any, ...] = field(repr=False)
    point: Floats = field(repr=False)

    @property
    def rounds(self) -> int:
        """How many there were."""
        return len(self.losses)


@final
@dataclass(frozen=True)
class SampledWeights(ConvexKernel[SampledState]):
    """Draws a point after every batch of convex losses, with a sampler whose error is charged to delta.

    Args:
        body: where points lie.
        horizon: most rounds.
        lipschitz: of every loss on the body, in Euclidean length.
        beta: inverse temperature, positive.
        strength: of the regularization, positive.
        batch: rounds that are played with one point, at least 1.
        sampler: states its `distance`.
        epsilon: the largest at which the loss of this kernel may be read: an error of the law costs 1 + e^epsilon
            times its size in delta.
        neighbors: `Neighbors.ONE_LOSS` or `Neighbors.ZERO_OUT`.

    Guarantee: on condition that losses are convex and Lipschitz and the sampler is as good as it says, Gaussian
        differential privacy of all draws and (1 + e^epsilon) times their distances in delta.

    Source: Gopi, Gaussian privacy of strongly log-concave laws. Proof: `docs/proofs/online_convex.md`.
    """

    body: Body
    horizon: int
    lipschitz: float
    beta: float
    strength: float
    batch: int
    sampler: Sampler = field(repr=False)
    epsilon: Any
    neighbors: Neighbors = Neighbors.ONE_LOSS

    def __post_init__(self) -> None:
        whole("horizon", self.horizon, 1)
        whole("batch", self.batch, 1)
        for name in ("lipschitz", "beta", "strength", "epsilon"):
            object.__setattr__(self, name, real(name, getattr(self, name)))
        object.__setattr__(self, "neighbors", one_loss(self.neighbors))
        if getattr(self.sampler, "distance", None) is None or not callable(getattr(self.sampler, "draw", None)):
            raise InputError(REFUSED)
        if not 0 <= self.distance < 1:
            raise InputError("the sampler's distance must lie in [0, 1)")

    @property
    def distance(self) -> Fraction:
        """Total variation between a draw and its exact law, as the sampler states it."""
        return decimal(self.sampler.distance, "the sampler's distance")

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the guarantee depends on, in words."""
        return (
            f"every loss is convex on the body, and Lipschitz with constant {all_digits(self.lipschitz)}",
            f"every draw of the sampler is within {all_digits(float(self.distance))} of its law in total variation",
            f"this is read at an epsilon of at most {all_digits(self.epsilon)}",
        )

    def init(self, *, rng: Randomness) -> SampledState:
        """A point from the regularization alone."""
        return self._drawn((), as_successive(rng))

    def predict(self, state: SampledState) -> Floats:
        """The point of the coming round; draws nothing."""
        return state.point

    def update(self, state: SampledState, gradients: Any, *, rng: Randomness) -> tuple[SampledState, Floats]:
        """The state after more rounds, and what was played in them.

        Args:
            gradients: the losses themselves, one for each round, as the sampler takes them.
        """
        randomness, played = as_successive(rng), []
        self.check_rounds(state.rounds, len(gradients))
        for loss in gradients:
            played.append(state.point)
            losses = (*state.losses, loss)
            fresh = len(losses) % self.batch == 0
            state = self._drawn(losses, randomness) if fresh else SampledState(losses, state.point)
        return state, np.array(played).reshape(-1, self.body.dimension)

    def _drawn(self, losses: tuple[Any, ...], rng: Randomness) -> SampledState:
        """The state after these losses, with a fresh point."""
        point = finite_array(self.sampler.draw(losses, self.beta, self.strength, self.body, rng=rng), "points", 1)
        if point.shape != (self.body.dimension,):
            raise InputError(f"the sampler must draw points of {self.body.dimension} numbers")
        return SampledState(losses, point)

    def privacy_loss(self, rounds: int) -> PrivacyLoss:
        """What the points that may be seen after so many rounds reveal of one round's loss."""
        batches = rounds // self.batch
        if not batches:
            return PrivacyLoss.zero()
        mu = self.sensitivity * math.sqrt(self.beta / (2 * self.strength)) * (1 + 2.0**-40)
        failure = batches * self.distance * (1 + exp_bounds(Fraction(self.epsilon))[1])
        return PrivacyLoss.gaussian(mu * math.sqrt(batches)) + PrivacyLoss.failure(min(failure, Fraction(1)))

"""RegularizedWeights, SampledWeights."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol, final

import numpy as np
from scipy.stats import binom

from labeldp.online.convex.base import GRADIENT_BITS, Body, ConvexKernel, finite_array, gradient_units, real
from labeldp.online.convex.points import draw_failure, draw_point, grid_step
from labeldp.online.experts.lazy import LazyState, begin, play
from labeldp.privacy import (
    Floats,
    InputError,
    Integers,
    Neighbors,
    PrivacyLoss,
    Randomness,
    as_successive,
    check_integer,
    check_loss_neighbors,
    decimal,
    decimal_text,
    exact_share,
    exp_bounds,
    set_fields,
)

COST_BITS = 30
"""A round's cost at a point has about so many bits; what they miss is covered by `bound`."""


@final
@dataclass(frozen=True)
class LinearMeasure:
    """Points with density e^(-beta (sum of linear losses + strength |x|^2)) on a body, for `play` of lazy players.

    Losses are gradients in units of lipschitz / 2**GRADIENT_BITS, points are in steps of `step` from the body's center.

    Args:
        body: where points lie.
        lipschitz: no gradient is longer.
        beta: inverse temperature, positive.
        strength: of the regularization, positive.

    Source: Asi, equation (3).
    """

    body: Body
    lipschitz: float
    beta: float
    strength: float

    @cached_property
    def curvature(self) -> float:
        """Of the law's exponent: without a body it is normal with variance 1 / (2 curvature)."""
        return self.beta * self.strength

    @cached_property
    def step(self) -> float:
        """The grid of the points."""
        return grid_step(self.body, self.curvature)

    @property
    def _reach(self) -> int:
        """No product of a gradient and a point, in their units, is larger."""
        return (1 << GRADIENT_BITS) * (math.ceil(self.body.radius / self.step) + self.body.dimension)

    @property
    def _shift(self) -> int:
        return max(0, self._reach.bit_length() - COST_BITS)

    @cached_property
    def unit(self) -> Fraction:
        """What one unit of cost takes off a log-density."""
        product = Fraction(self.lipschitz) / (1 << GRADIENT_BITS) * Fraction(self.step) * (1 << self._shift)
        return Fraction(self.beta) * product

    @property
    def bound(self) -> int:
        """No costs differ by more: 2 · lipschitz · radius, and a unit for rounding. Without a body there is none."""
        return 2 * (self._reach >> self._shift) + 2 if self.body.bounded else 0

    @property
    def failure(self) -> Fraction:
        """The bound always holds."""
        return Fraction(0)

    @property
    def distance(self) -> Fraction:
        """The law that is drawn is the exact one but with this probability."""
        return draw_failure(self.body)

    def start(self) -> Integers:
        """The sum of the gradients, in units, shape (dimension,)."""
        return np.zeros(self.body.dimension, dtype=np.int64)

    def costs(self, losses: Integers, point: Any) -> Integers:
        """The loss of each round at a point, and as much again as makes none negative, shape (rounds,)."""
        if not self.body.bounded:
            return np.zeros(len(losses), dtype=np.int64)
        return np.asarray(((losses @ point) >> self._shift) + self.bound // 2)

    def add(self, history: Integers, losses: Integers) -> Integers:
        """The sum with more rounds."""
        return np.asarray(history + losses.sum(axis=0))

    def draw(self, history: Integers, *, rng: Randomness) -> Integers:
        """A fresh point, in steps."""
        center = history * (-self.lipschitz / (1 << GRADIENT_BITS) / (2 * self.strength))
        return draw_point(self.body, np.asarray(center, dtype=np.float64), self.curvature, self.step, rng=rng)


@final
@dataclass(frozen=True)
class RegularizedWeights(ConvexKernel[LazyState[Integers]]):
    """Draws a point from regularized multiplicative weights on linear losses, and keeps it for a batch or longer.

    Use it as a reference: noise on sums of gradients, `NoisyLeader`, has a far smaller regret. With redraw = 1 a point
    is drawn after every batch. With less the point is kept by coins that read the newest batch alone, and with
    `reference` by those of Algorithm 1. A bounded body bounds these coins for certain; without one they are refused.

    Args:
        body: where points lie.
        horizon: most rounds.
        lipschitz: no gradient is longer.
        beta: inverse temperature, positive.
        strength: of the regularization strength · |x - center|², positive.
        batch: rounds that are played with one point, at least 1.
        redraw: the probability of a draw whatever the losses were, in (0, 1], exact.
        reference: play Algorithm 1 with its second sequence; otherwise, the dartboard.
        neighbors: `Neighbors.ONE_LOSS` or `Neighbors.ZERO_OUT`.
        tail: with redraw < 1, what the number of draws may add to delta.

    Guarantee: Gaussian differential privacy of every draw, with mu = sensitivity * sqrt(beta / (2 * strength)), and
        a coin that the losses of one round tilt once, by no more than a public bound.

    Source: Asi, equation (3) and Algorithm 1; Gopi, Gaussian privacy of strongly log-concave laws, for the draws. The
    published proof for these losses has gaps; proof: `docs/proofs/online_convex.md`.
    """

    body: Body
    horizon: int
    lipschitz: float
    beta: float
    strength: float
    batch: int
    redraw: Fraction = Fraction(1)
    reference: bool = False
    neighbors: Neighbors = Neighbors.ONE_LOSS
    tail: float = 2.0**-40

    def __post_init__(self) -> None:
        set_fields(self, horizon=check_integer(self.horizon, "horizon"), batch=check_integer(self.batch, "batch"))
        for name in ("lipschitz", "beta", "strength"):
            set_fields(self, **{name: real(getattr(self, name), name)})
        set_fields(self, redraw=exact_share(self.redraw, "redraw"), neighbors=check_loss_neighbors(self.neighbors))
        if not 0 < self.tail < 1:
            raise InputError("tail must lie between 0 and 1")
        if self.redraw < 1 and not self.body.bounded:
            raise InputError("redraw must be 1 without bounds on points: no bound of what a coin reveals is proved")
        if self.redraw == 1 and self.reference:
            raise InputError("reference must be False where redraw = 1: no coin would read it")
        _ = self.measure.step  # refuses what cannot be drawn

    @cached_property
    def measure(self) -> LinearMeasure:
        """The weights."""
        return LinearMeasure(self.body, self.lipschitz, self.beta, self.strength)

    def init(self, *, rng: Randomness) -> LazyState[Integers]:
        """A point from the regularization alone."""
        return begin(self.measure, 2 if self.reference else 1, rng=rng)

    def predict(self, state: LazyState[Integers]) -> Floats:
        """The point of the coming round; draws nothing."""
        return self._points(state.points[0])

    def update(
        self, state: LazyState[Integers], gradients: Any, *, rng: Randomness
    ) -> tuple[LazyState[Integers], Floats]:
        """The state after more rounds, and what was played in them, shape (rounds, dimension)."""
        self.check_rounds(state.rounds, len(gradients))
        units = gradient_units(gradients, self.lipschitz)
        state, steps = play(self.measure, self.batch, self.redraw, state, units, rng=rng)
        return state, self._points(steps.reshape(len(gradients), self.body.dimension))

    def _points(self, steps: Integers) -> Floats:
        return np.asarray(self.body.center + steps * self.measure.step)

    @property
    def mu(self) -> float:
        """The Gaussian parameter of one draw; doubles know where the law lies up to the share that is added."""
        sizes = self.horizon + 2 * self.strength * self.body.radius / self.lipschitz
        rounding = 1 + sizes * (self.body.dimension + 16) * 2.0**-50
        return self.sensitivity * rounding * math.sqrt(self.beta / (2 * self.strength))

    def privacy_loss(self, rounds: int) -> PrivacyLoss:
        """What the points that may be seen after so many rounds reveal of one: a coin, and at most so many draws."""
        batches = rounds // self.batch
        if not batches:
            return PrivacyLoss.zero()
        if self.redraw == 1:
            return PrivacyLoss.gaussian(self.mu * math.sqrt(batches)) + PrivacyLoss.failure(batches * self.draw_failure)
        draws, missed = self._most_draws(batches)
        failure = draws * self.draw_failure + Fraction(missed)
        return self._coin() + PrivacyLoss.gaussian(self.mu * math.sqrt(draws)) + PrivacyLoss.failure(failure)

    @property
    def draw_failure(self) -> Fraction:
        """What one draw adds to delta."""
        return self.measure.distance

    def _most_draws(self, batches: int) -> tuple[int, float]:
        """How many draws follow a round in so many batches, but for a probability that is rounded up."""
        eta = float(self.measure.unit * self.measure.bound)
        often = -math.expm1(math.log1p(-float(self.redraw)) - (3 if self.reference else 1) * self.batch * eta)
        first, missed = binomial_most(batches - 1, often * (1 + 1e-12), self.tail / 2)
        if not self.reference:
            return 1 + first, missed
        second, more = binomial_most(batches, float(self.redraw), self.tail / 2)
        return 1 + first + second, missed + more

    def _coin(self) -> PrivacyLoss:
        """The coin after the batch in which the losses differ."""
        measure, chains = self.measure, 2 if self.reference else 1
        bound = measure.bound if self.neighbors is Neighbors.ONE_LOSS else measure.bound // 2 + 1
        shift = self.batch * measure.bound if self.reference else 0
        worst = coin_worst(float(chains * bound * measure.unit), float(self.redraw), float(shift * measure.unit))
        return PrivacyLoss.pure(Fraction(float(worst)))


def binomial_most(trials: int, probability: float, tail: float) -> tuple[int, float]:
    """A number that so many trials surpass with probability at most `tail`, and that probability, rounded up."""
    if not trials or probability >= 1:
        return trials, 0.0
    most = int(binom.isf(tail / 2, trials, probability))
    return most, float(binom.sf(most, trials, probability)) * (1 + 1e-6)


def coin_worst(tilt: Any, redraw: Any, shift: Any) -> Any:
    """The largest loss of coins with heads of at most (1 - redraw) e^-shift, whose logarithms are at most `tilt` apart.

    It is `tilt` for heads, and that of tails where both are as likely as they can be. Arrays are taken, too.

    Source: `docs/proofs/online_convex.md`, equation (4).
    """
    often, tails = (1 - redraw) * np.exp(-shift), redraw - (1 - redraw) * np.expm1(-shift)
    return np.maximum(tilt, np.log1p(often * -np.expm1(-tilt) / tails)) * (1 + 1e-12)


def regularized_regret(body: Body, horizon: int, lipschitz: float, beta: float, strength: float, batch: int) -> float:
    """Expected regret of `RegularizedWeights` on linear losses that do not follow the points, against any fixed point.

    strength R² + T B L² / (4 strength) + (d / beta) (1 + ln⁺(beta T L R / d)).

    Source: `docs/proofs/online_convex.md`, equation (6).
    """
    radius, dimension = body.radius, body.dimension
    leader = strength * radius**2 + horizon * batch * lipschitz**2 / (4 * strength)
    return leader + dimension / beta * (1 + math.log(max(1.0, beta * horizon * lipschitz * radius / dimension)))


NEEDS_SAMPLER = (
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
        set_fields(self, horizon=check_integer(self.horizon, "horizon"), batch=check_integer(self.batch, "batch"))
        for name in ("lipschitz", "beta", "strength", "epsilon"):
            set_fields(self, **{name: real(getattr(self, name), name)})
        set_fields(self, neighbors=check_loss_neighbors(self.neighbors))
        if getattr(self.sampler, "distance", None) is None or not callable(getattr(self.sampler, "draw", None)):
            raise InputError(NEEDS_SAMPLER)
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
            f"every loss is convex on the body, and Lipschitz with constant {decimal_text(self.lipschitz)}",
            f"every draw of the sampler is within {decimal_text(float(self.distance))} of its law in total variation",
            f"this is read at an epsilon of at most {decimal_text(self.epsilon)}",
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

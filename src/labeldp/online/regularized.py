"""Regularized multiplicative weights on convex losses: a point is drawn now and then, and kept in between."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import numpy as np
from scipy.stats import binom

from labeldp.online.checks import one_loss, share, whole
from labeldp.online.convex import GRADIENT_BITS, Body, ConvexKernel, Floats, Integers, gradient_units, real
from labeldp.online.l2p import LazyState, begin, play
from labeldp.online.samplers import draw_failure, draw_point, grid_step
from labeldp.privacy import InputError, Neighbors, PrivacyLoss, Randomness

COST_BITS = 30
"""A round's cost at a point has about so many bits; what they miss is covered by `bound`."""


@final
@dataclass(frozen=True)
class LinearMeasure:
    """Points with density e^(-beta (sum of linear losses + strength |x|^2)) on a body, for `labeldp.online.l2p.play`.

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
        whole("horizon", self.horizon, 1)
        whole("batch", self.batch, 1)
        for name in ("lipschitz", "beta", "strength"):
            object.__setattr__(self, name, real(name, getattr(self, name)))
        object.__setattr__(self, "redraw", share("redraw", self.redraw))
        object.__setattr__(self, "neighbors", one_loss(self.neighbors))
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

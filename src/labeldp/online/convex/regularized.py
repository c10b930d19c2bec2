"""Learners that draw points from regularized multiplicative weights, of linear losses or by a sampler."""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import numpy as np

from labeldp.online.convex.base import (
    GRADIENT_BITS,
    NEEDS_SAMPLER,
    Body,
    ConvexKernel,
    Sampler,
    finite_array,
    gradient_units,
)
from labeldp.online.convex.points import BALL_EPSILON, MAX_PLACE, draw_failure, draw_point, grid_step, is_round
from labeldp.online.experts.accounting import gaussian_mu
from labeldp.online.experts.lazy import LazyState, begin, play
from labeldp.online.planning import ConvexTask, OnlinePlan, convex_plan
from labeldp.privacy import (
    Floats,
    InputError,
    Integers,
    PrivacyLoss,
    Randomness,
    Unit,
    as_successive,
    check_integer,
    decimal,
    decimal_text,
    exact_share,
    exp_bounds,
    set_fields,
)

COST_BITS = 30
"""About how many bits a round's cost at a point has; `bound` covers the rounding."""


@final
@dataclass(frozen=True)
class LinearMeasure:
    """Points with density e^(-beta (sum of linear losses + strength |x|^2)) on a body: a measure for lazy play.

    Losses are gradients in units of lipschitz / 2**GRADIENT_BITS, points are in steps of `step` from the body's center.
    The fields are those of `RegularizedWeights`.

    Source: Asi, equation (3).
    """

    body: Body
    lipschitz: float
    beta: float
    strength: float
    failure = Fraction(0)
    """0: the bound always holds."""

    @cached_property
    def curvature(self) -> float:
        """The curvature of the law's exponent: without a body it is normal with variance 1 / (2 curvature)."""
        return self.beta * self.strength

    @cached_property
    def step(self) -> float:
        """The grid of the points."""
        return grid_step(self.body, self.curvature)

    @property
    def _reach(self) -> int:
        """The largest product of a gradient and a point, in their units."""
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
        """The largest difference of costs: 2 · lipschitz · radius, and one for rounding; 0 if unbounded."""
        return 2 * (self._reach >> self._shift) + 2 if self.body.bounded else 0

    @property
    def distance(self) -> Fraction:
        """The probability that a draw does not have the exact law."""
        return draw_failure(self.body)

    def start(self) -> Integers:
        """Return the sum of the gradients, in units, shape (dimension,)."""
        return np.zeros(self.body.dimension, dtype=np.int64)

    def costs(self, losses: Integers, point: Any) -> Integers:
        """Return the loss of each round at a point, shifted so that none is negative, shape (rounds,)."""
        if not self.body.bounded:
            return np.zeros(len(losses), dtype=np.int64)
        return np.asarray(((losses @ point) >> self._shift) + self.bound // 2)

    def add(self, history: Integers, losses: Integers) -> Integers:
        """Return the sum with more rounds."""
        return np.asarray(history + losses.sum(axis=0))

    def draw(self, history: Integers, *, rng: Randomness) -> Integers:
        """Draw a fresh point, in steps."""
        center = history * (-self.lipschitz / (1 << GRADIENT_BITS) / (2 * self.strength))
        return draw_point(self.body, np.asarray(center, dtype=np.float64), self.curvature, self.step, rng=rng)


@final
@dataclass(frozen=True)
class RegularizedWeights(ConvexKernel[LazyState[Integers]]):
    """Draws a point from regularized multiplicative weights on linear losses, and keeps it for a batch or longer.

    Use it to compare: `NoisyLeader`, with noise on sums of gradients, has a far smaller regret. With redraw = 1 a point
    is drawn after every batch. With less, coins that depend on the newest batch alone decide whether it is kept; with
    `reference` these are the coins of Algorithm 1. Coins need a bounded body.

    Args:
        body: where points lie.
        horizon: most rounds.
        lipschitz: no gradient is longer.
        beta: inverse temperature, positive.
        strength: the factor of the regularization strength · |x - center|², positive.
        batch: rounds that are played with one point, at least 1.
        redraw: the probability of a draw whatever the losses were, in (0, 1], exact.
        reference: play Algorithm 1 with its second sequence instead of the dartboard.
        neighbors: `Unit.ONE_LOSS` or `Unit.ZERO_OUT`.
        tail: what an unusual number of draws adds to delta where redraw < 1, in (0, 1).

    Guarantee (gaussian): Gaussian differential privacy of every draw, with mu = sensitivity * sqrt(beta / (2 *
        strength)), and a coin that the losses of one round tilt once, by no more than a public bound.

    Source: Asi, equation (3) and Algorithm 1; Gopi, Gaussian privacy of strongly log-concave laws, for the draws. The
    published proof for these losses has gaps; proof: `docs/proofs/online-convex.md`.
    """

    body: Body
    horizon: int
    lipschitz: float
    beta: float
    strength: float
    batch: int
    redraw: Fraction = Fraction(1)
    reference: bool = False
    neighbors: Unit = Unit.ONE_LOSS
    tail: float = 2.0**-40

    def __post_init__(self) -> None:
        self._check_common_fields("lipschitz", "beta", "strength")
        set_fields(self, batch=check_integer(self.batch, "batch"), redraw=exact_share(self.redraw, "redraw"))
        if not 0 < self.tail < 1:
            raise InputError("tail must lie between 0 and 1")
        if self.redraw < 1 and not self.body.bounded:
            raise InputError("redraw must be 1 without bounds on points: no bound of what a coin reveals is proved")
        if self.redraw == 1 and self.reference:
            raise InputError("reference must be False where redraw = 1: no coin would read it")
        measure, step = self.measure, self.measure.step  # refuses laws that are too narrow
        # Gradients move the law's center so far; points further than 64 standard deviations from it are never drawn.
        far = self.horizon * self.lipschitz / (2 * self.strength) + 64 / math.sqrt(2 * measure.curvature)
        if not self.body.bounded and far > MAX_PLACE * step:
            raise InputError("the law of points is too wide for integers of 64 bits: take a larger beta and strength")

    @cached_property
    def measure(self) -> LinearMeasure:
        """The weights."""
        return LinearMeasure(self.body, self.lipschitz, self.beta, self.strength)

    @property
    def assumptions(self) -> tuple[str, ...]:
        return (f"the guarantee is read at an epsilon of at most {BALL_EPSILON}",) if is_round(self.body) else ()

    def init(self, *, rng: Randomness) -> LazyState[Integers]:
        return begin(self.measure, 2 if self.reference else 1, rng=rng)

    def predict(self, state: LazyState[Integers]) -> Floats:
        return self._points(state.points[0])

    def update(
        self, state: LazyState[Integers], gradients: Any, *, rng: Randomness
    ) -> tuple[LazyState[Integers], Floats]:
        self.check_rounds(state.rounds, len(gradients))
        units = gradient_units(gradients, self.lipschitz)
        state, steps = play(self.measure, self.batch, self.redraw, state, units, rng=rng)
        return state, self._points(steps.reshape(len(gradients), self.body.dimension))

    def _points(self, steps: Integers) -> Floats:
        return np.asarray(self.body.center + steps * self.measure.step)

    @property
    def mu(self) -> float:
        """The Gaussian parameter of one draw, with a margin for the law's position in doubles."""
        sizes = self.horizon + 2 * self.strength * self.body.radius / self.lipschitz
        rounding = 1 + sizes * (self.body.dimension + 16) * 2.0**-50
        return self.sensitivity * rounding * math.sqrt(self.beta / (2 * self.strength))

    def privacy_loss(self, rounds: int) -> PrivacyLoss:
        """Return the loss of a coin, and of the draws that follow a round."""
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
        """Return how many draws at most follow a round, and the probability, rounded up, of more."""
        eta = float(self.measure.unit * self.measure.bound)
        often = -math.expm1(math.log1p(-float(self.redraw)) - (3 if self.reference else 1) * self.batch * eta)
        first, missed = binomial_most(batches - 1, often * (1 + 1e-12), self.tail / 2)
        if not self.reference:
            return 1 + first, missed
        second, more = binomial_most(batches, float(self.redraw), self.tail / 2)
        return 1 + first + second, missed + more

    def _coin(self) -> PrivacyLoss:
        """Return the loss of the coin after the batch in which the losses differ."""
        measure, chains = self.measure, 2 if self.reference else 1
        bound = measure.bound if self.neighbors is Unit.ONE_LOSS else measure.bound // 2 + 1
        shift = self.batch * measure.bound if self.reference else 0
        worst = coin_worst(float(chains * bound * measure.unit), float(self.redraw), float(shift * measure.unit))
        return PrivacyLoss.pure(Fraction(float(worst)))


def binomial_most(trials: int, probability: float, tail: float) -> tuple[int, float]:
    """Return a number that successes exceed with probability at most `tail`, and that probability, rounded up."""
    if not trials or probability >= 1:
        return trials, 0.0
    from scipy.stats import binom  # half a second, which most runs need not wait for

    quantile = int(binom.isf(tail / 2, trials, probability))
    return quantile, float(binom.sf(quantile, trials, probability)) * (1 + 1e-6)


def coin_worst(tilt: Any, redraw: Any, shift: Any) -> Any:
    """Return the largest loss of two coins with heads of at most (1 - redraw) e^-shift and log-ratio at most `tilt`.

    It is `tilt` for heads, and the loss of tails for the most likely heads. Arguments may be arrays.

    Source: `docs/proofs/online-convex.md`, equation (4).
    """
    often, tails = (1 - redraw) * np.exp(-shift), redraw - (1 - redraw) * np.expm1(-shift)
    return np.maximum(tilt, np.log1p(often * -np.expm1(-tilt) / tails)) * (1 + 1e-12)


def regularized_regret(body: Body, horizon: int, lipschitz: float, beta: float, strength: float, batch: int) -> float:
    """Return a bound of `RegularizedWeights`' expected regret on linear losses that do not depend on the points.

    strength R² + T B L² / (4 strength) + (d / beta) (1 + ln⁺(beta T L R / d)).

    Source: `docs/proofs/online-convex.md`, equation (6).
    """
    radius, dimension = body.radius, body.dimension
    leader = strength * radius**2 + horizon * batch * lipschitz**2 / (4 * strength)
    return leader + dimension / beta * (1 + math.log(max(1.0, beta * horizon * lipschitz * radius / dimension)))


@final
@dataclass(frozen=True)
class SampledState:
    """Between two rounds: all losses so far and the point that is played, as secret as the losses."""

    losses: tuple[Any, ...] = field(repr=False)
    point: Floats = field(repr=False)

    @property
    def rounds(self) -> int:
        """The number of rounds so far."""
        return len(self.losses)


@final
@dataclass(frozen=True)
class SampledWeights(ConvexKernel[SampledState]):
    """Draws a point after every batch of convex losses, with a sampler whose error is charged to delta.

    Args:
        body, horizon, beta, strength, batch, neighbors: as for `RegularizedWeights`.
        lipschitz: the Lipschitz constant of every loss on the body, in Euclidean length.
        sampler: a sampler that states its `distance`.
        epsilon: the largest epsilon at which the privacy loss holds: an error of the law adds 1 + e^epsilon times its
            size to delta.

    Guarantee (gaussian): on condition that losses are convex and Lipschitz and the sampler is as good as it says,
        Gaussian differential privacy of all draws and (1 + e^epsilon) times their distances in delta.

    Source: Gopi, Gaussian privacy of strongly log-concave laws. Proof: `docs/proofs/online-convex.md`.
    """

    body: Body
    horizon: int
    lipschitz: float
    beta: float
    strength: float
    batch: int
    sampler: Sampler = field(repr=False)
    epsilon: Any
    neighbors: Unit = Unit.ONE_LOSS

    def __post_init__(self) -> None:
        self._check_common_fields("lipschitz", "beta", "strength", "epsilon")
        set_fields(self, batch=check_integer(self.batch, "batch"))
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
        return (
            f"every loss is convex on the body and Lipschitz with constant {decimal_text(self.lipschitz)} (UNCHECKED)",
            f"every draw of the sampler is within {decimal_text(float(self.distance))} of its law in total variation",
            f"the guarantee is read at an epsilon of at most {decimal_text(self.epsilon)}",
        )

    def init(self, *, rng: Randomness) -> SampledState:
        return self._drawn((), as_successive(rng))

    def predict(self, state: SampledState) -> Floats:
        return state.point

    def update(self, state: SampledState, gradients: Any, *, rng: Randomness) -> tuple[SampledState, Floats]:
        """Return the state after more rounds, and the points in them.

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
        """Return the state after these losses, with a fresh point."""
        point = finite_array(self.sampler.draw(losses, self.beta, self.strength, self.body, rng=rng), "points", 1)
        if point.shape != (self.body.dimension,):
            raise InputError(f"the sampler must draw points of {self.body.dimension} numbers")
        return SampledState(losses, point)

    def privacy_loss(self, rounds: int) -> PrivacyLoss:
        batches = rounds // self.batch
        if not batches:
            return PrivacyLoss.zero()
        mu = self.sensitivity * math.sqrt(self.beta / (2 * self.strength)) * (1 + 2.0**-40)
        failure = batches * self.distance * (1 + exp_bounds(Fraction(self.epsilon))[1])
        return PrivacyLoss.gaussian(mu * math.sqrt(batches)) + PrivacyLoss.failure(min(failure, Fraction(1)))


DELTA_PARTS = 16
"""One of this many equal parts of delta is kept for inexact draws, and for unusually many draws."""
BATCH_SIZES = np.unique((2.0 ** (np.arange(0, 49) / 2)).astype(np.int64))


def plan_redrawn(task: ConvexTask, method: str) -> OnlinePlan:
    """Plan a draw after every batch: the Gaussian loss of all draws together fixes beta / strength."""
    failure, sampler = _failure(task, method), task.sampler
    mu = gaussian_mu(task.epsilon, task.delta * (1 - Fraction(1, DELTA_PARTS)))
    batches = BATCH_SIZES[task.horizon >= BATCH_SIZES]
    draws = task.horizon // batches
    batches, draws = (column[draws * float(failure) <= float(task.delta) / DELTA_PARTS] for column in (batches, draws))
    if not len(batches):
        raise InputError("one draw of the sampler is already worse than delta admits: take a larger delta")
    ratio = (1 - 1e-5) * 2 * (mu / (task.reach * task.lipschitz)) ** 2 / draws
    plain = task.lipschitz * math.sqrt(task.horizon) / (2 * task.body.radius)  # best without privacy
    strengths = plain * np.geomspace(1, 1e5, 501)[:, np.newaxis]
    sizes = task.horizon + 2 * strengths.max() * task.body.radius / task.lipschitz
    ratio /= (1 + sizes * (task.body.dimension + 16) * 2.0**-50) ** 2
    bounds = _bounds(task, ratio * strengths, strengths, batches)
    at, which = np.unravel_index(bounds.argmin(), bounds.shape)
    strength = float(strengths[at, 0])
    parameters = float(ratio[which]) * strength, strength, int(batches[which])
    kernel: ConvexKernel[Any]
    if sampler is None:
        kernel = RegularizedWeights(*task.sizes, *parameters, neighbors=task.neighbors)
    else:
        kernel = SampledWeights(*task.sizes, *parameters, sampler, float(task.epsilon), task.neighbors)
    return convex_plan(task, method, float(bounds.min()), kernel)


def _failure(task: ConvexTask, method: str) -> Fraction:
    """Return what one draw adds to delta."""
    if method == "sampler":
        distance = getattr(task.sampler, "distance", None)
        if distance is None:
            raise InputError(NEEDS_SAMPLER)
        return decimal(distance, "the sampler's distance") * (2 + exp_bounds(task.epsilon)[1])
    if not task.linear:
        raise InputError(NEEDS_SAMPLER)
    return draw_failure(task.body)


def _bounds(task: ConvexTask, beta: Any, strength: Any, batch: Any) -> Floats:
    """Return `regularized_regret` of arrays."""
    return np.vectorize(lambda b, s, n: regularized_regret(*task.sizes, b, s, n))(beta, strength, batch)


def plan_lazy(task: ConvexTask, method: str) -> OnlinePlan:
    """Plan lazy draws: epsilon is split between the worst coin and all draws."""
    from scipy.stats import binom

    if not (task.linear and task.body.bounded):
        unbounded = 'body must be bounded for lazy draws: take method="redraw"'
        raise InputError(NEEDS_SAMPLER if task.body.bounded else unbounded)
    reference = method == "l2p"
    chains, tilts = (2, 3) if reference else (1, 1)
    grid = 2 ** np.arange(0, task.horizon.bit_length()), 2.0 ** -np.arange(1, 11), np.geomspace(1e-6, 4, 60)
    batch, redraw, eta = (axis.ravel() for axis in np.meshgrid(*grid, indexing="ij"))
    swing, worst = task.reach / 2, task.lipschitz * task.body.radius
    shift = batch * eta if reference else 0.0 * eta
    coin = coin_worst(chains * swing * eta, redraw, shift)
    steps = -np.expm1(np.log1p(-redraw) - tilts * batch * eta)
    batches, tail = task.horizon // batch, float(task.delta) / (8 * DELTA_PARTS)
    draws = 1 + binom.isf(tail, np.maximum(batches - 1, 0), steps)
    draws = draws + (binom.isf(tail, batches, redraw) if reference else 0)
    mu = np.maximum(_mus(task, float(task.epsilon) - 1.001 * coin), 1e-9)
    beta = eta / (2 * worst)
    needed = (task.reach * task.lipschitz / mu) ** 2 * beta * draws / 2 * (1 + 1e-3)
    strength = np.maximum(needed, task.lipschitz * np.sqrt(task.horizon * batch) / (2 * task.body.radius))
    bounds = np.where(mu > 1e-9, _bounds(task, beta, strength, batch), math.inf)
    i = int(bounds.argmin())
    if not math.isfinite(bounds[i]):
        raise InputError(f"no parameters of {method} were found that keep so small an epsilon and delta")
    parameters = *task.sizes, float(beta[i]), float(strength[i]), int(batch[i]), Fraction(float(redraw[i]))
    kernel = RegularizedWeights(*parameters, reference, task.neighbors, 2 * tail)
    return convex_plan(task, method, float(bounds[i]), kernel)


def _mus(task: ConvexTask, epsilons: Floats) -> Floats:
    """Return for each epsilon nearly the largest mu that keeps it and most of delta; 0 if there is none.

    A Gaussian loss has an epsilon of at most mu²/2 + mu times a normal quantile.
    """
    from scipy.stats import norm

    mus = np.geomspace(1e-6, 60, 4000)
    reached = mus**2 / 2 + mus * norm.isf(float(task.delta) * (1 - 2 / DELTA_PARTS))
    at = np.searchsorted(reached, epsilons, side="right") - 1
    return np.where((epsilons > 0) & (at >= 0), mus[np.maximum(at, 0)], 0.0)

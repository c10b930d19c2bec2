"""Plans for learners of convex losses: the methods, their parameters and their bounds of regret."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import binom, norm

from labeldp.online.convex.base import NORM_SLACK, Body, ConvexKernel, real
from labeldp.online.convex.gradient import NoisyLeader, convex_rate, convex_regret, linear_rate, linear_regret
from labeldp.online.convex.points import draw_failure
from labeldp.online.convex.regularized import (
    NEEDS_SAMPLER,
    RegularizedWeights,
    SampledWeights,
    Sampler,
    coin_worst,
    regularized_regret,
)
from labeldp.online.experts.accounting import gaussian_mu
from labeldp.online.experts.planning import NEIGHBORS
from labeldp.online.noisy_sums import ToeplitzSums, smallest_stddev
from labeldp.online.tree import GaussianTree
from labeldp.privacy import Floats, InputError, check_integer, decimal, exp_bounds, float_above, positive_epsilon

DELTA_PARTS = 16
"""One of this many equal parts of delta is kept for inexact draws, and for unusually many draws."""
BATCH_SIZES = np.unique((2.0 ** (np.arange(0, 49) / 2)).astype(np.int64))


@dataclass(frozen=True)
class ConvexPlan:
    """A learner of convex losses with its parameters: a function of public numbers alone.

    `regret_bound` bounds the mean over the learner's own randomness, against any point of the body (of a space: within
    its radius) that is fixed in advance. For linear losses it holds if they do not depend on the points.

    Guarantee (kept): the points of the kernel keep epsilon and delta over the whole horizon.
    """

    method: str
    horizon: int
    epsilon: Fraction
    delta: Fraction
    regret_bound: float
    nonprivate_bound: float
    kernel: ConvexKernel[Any]
    alternatives: tuple[tuple[str, float], ...] = ()

    def __repr__(self) -> str:
        promise = f"epsilon={float_above(self.epsilon)}, delta={float_above(self.delta)}"
        return f"ConvexPlan({self.method!r}, horizon={self.horizon}, {promise}, regret_bound={self.regret_bound:.6g})"

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON values."""
        kernel = self.kernel
        names = ("beta", "strength", "batch", "redraw", "rate", "reference", "lipschitz")
        parameters = {name: getattr(kernel, name) for name in names if hasattr(kernel, name)}
        if isinstance(kernel, NoisyLeader):
            parameters["stddev"] = getattr(kernel.sums, "stddev", None)
        return {
            "method": self.method,
            "horizon": self.horizon,
            "body": repr(kernel.body),
            "neighbors": kernel.neighbors.name,
            "epsilon": float_above(self.epsilon),
            "delta": float_above(self.delta),
            "regret_bound": self.regret_bound,
            "nonprivate_bound": self.nonprivate_bound,
            "parameters": {k: str(v) if isinstance(v, Fraction) else v for k, v in parameters.items()},
            "alternatives": [list(pair) for pair in self.alternatives],
        }


@dataclass(frozen=True)
class _Question:
    """The checked arguments of a plan."""

    body: Body
    horizon: int
    lipschitz: float
    epsilon: Fraction
    delta: Fraction
    neighbors: Any
    linear: bool
    sampler: Sampler | None = field(repr=False)

    @property
    def sizes(self) -> tuple[Body, int, float]:
        """The body, the horizon and the length of gradients."""
        return self.body, self.horizon, self.lipschitz

    @property
    def reach(self) -> float:
        """The largest distance of one round's gradients in neighboring sequences, in units of `lipschitz`."""
        return (2 if self.neighbors is NEIGHBORS["replace"] else 1) * (1 + NORM_SLACK)


def plan_convex(
    body: Body,
    horizon: int,
    epsilon: Any,
    delta: Any,
    lipschitz: Any = 1.0,
    method: str = "auto",
    losses: str = "linear",
    neighbors: str = "replace",
    sampler: Sampler | None = None,
) -> ConvexPlan:
    """Return the method with the smallest regret bound, or one by name, with the parameters that minimize its bound.

    Args:
        body: where points lie: `Space`, `Box` or `Ball`.
        horizon: rounds, at least 1.
        epsilon: privacy parameter, positive.
        delta: in (0, 1): no method here is pure.
        lipschitz: no gradient is longer.
        method: one of `CONVEX_METHODS`, or "auto" for the smallest bound.
        losses: "linear", or "convex" for gradients at the points that were played.
        neighbors: "replace" protects a round's loss against all others, "zero-out" against none at all.
        sampler: for method "sampler" only: draws for general convex losses, with its total variation stated.

    Raises:
        InputError: an argument is out of range, or no parameters of the method keep the promise.

    Examples:
        >>> from labeldp.online import Ball
        >>> plan = plan_convex(Ball(10, 0.5), 10_000, 1.0, 1e-6)
        >>> plan.method, round(plan.regret_bound), round(plan.nonprivate_bound)
        ('matrix-factorization', 73, 50)
    """
    question = _checked(body, horizon, epsilon, delta, lipschitz, losses, neighbors, sampler)
    if method not in ("auto", *CONVEX_METHODS):
        raise InputError(f"method must be auto or one of {', '.join(CONVEX_METHODS)}")
    if (method == "sampler") != (sampler is not None):
        raise InputError(NEEDS_SAMPLER if sampler is None else 'sampler is for method="sampler" only')
    if method != "auto":
        return _METHODS[method](question, method)
    plans = []
    for name in CONVEX_METHODS[:-1]:
        try:
            plans.append(_METHODS[name](question, name))
        except InputError:
            continue
    if not plans:
        raise InputError("no method keeps so small an epsilon and delta: take larger ones, or a smaller horizon")
    best = min(plans, key=lambda plan: plan.regret_bound)
    return replace(best, alternatives=tuple((p.method, p.regret_bound) for p in plans if p is not best))


def _checked(
    body: Any, horizon: Any, epsilon: Any, delta: Any, lipschitz: Any, losses: Any, neighbors: Any, sampler: Any
) -> _Question:
    if not isinstance(body, Body):
        raise InputError("body must be a Space, a Box or a Ball")
    if losses not in ("linear", "convex"):
        raise InputError("losses must be 'linear' or 'convex'")
    if neighbors not in NEIGHBORS:
        raise InputError("neighbors must be 'replace' or 'zero-out'")
    share = decimal(delta, "delta")
    if not 0 < share < 1:
        raise InputError("delta must lie between 0 and 1: no method for convex losses is pure")
    exact = positive_epsilon(epsilon), share
    rounds, lipschitz = check_integer(horizon, "horizon"), real(lipschitz, "lipschitz")
    return _Question(body, rounds, lipschitz, *exact, NEIGHBORS[neighbors], losses == "linear", sampler)


def _plan(question: _Question, method: str, bound: float, kernel: ConvexKernel[Any]) -> ConvexPlan:
    """Return a plan after checking its promise; its bound is at most that of playing any points."""
    if not kernel.privacy_loss(question.horizon).within(question.epsilon, question.delta):
        raise InputError(f"no parameters of {method} were found that keep so small an epsilon and delta")
    size = question.lipschitz * question.body.radius
    worst = 2 * size * question.horizon if question.body.bounded else math.inf
    floor = size * math.sqrt(question.horizon)
    return ConvexPlan(method, question.horizon, question.epsilon, question.delta, min(bound, worst), floor, kernel)


def _noisy(question: _Question, method: str) -> ConvexPlan:
    """Plan noise on sums of gradients. The bound for linear losses needs noise that never falls, unlike a tree's."""
    kind = ToeplitzSums if method == "matrix-factorization" else GaussianTree
    make = partial(kind, question.horizon, question.body.dimension)
    sums = make(smallest_stddev(make, question.reach * (1 + 2.0**-40), question.epsilon, question.delta))
    linear = question.linear and method != "tree"
    regret, rate = (linear_regret, linear_rate) if linear else (convex_regret, convex_rate)
    deviation = sums.deviation * question.lipschitz
    best = rate(*question.sizes, deviation)
    kernel = NoisyLeader(question.body, question.lipschitz, best, sums, question.neighbors)
    return _plan(question, method, regret(*question.sizes, best, deviation), kernel)


def _redrawn(question: _Question, method: str) -> ConvexPlan:
    """Plan a draw after every batch: the Gaussian loss of all draws together fixes beta / strength."""
    failure, sampler = _failure(question, method), question.sampler
    mu = gaussian_mu(question.epsilon, question.delta * (1 - Fraction(1, DELTA_PARTS)))
    batches = BATCH_SIZES[question.horizon >= BATCH_SIZES]
    draws = question.horizon // batches
    batches, draws = (each[draws * float(failure) <= float(question.delta) / DELTA_PARTS] for each in (batches, draws))
    if not len(batches):
        raise InputError("one draw of the sampler is already worse than delta admits: take a larger delta")
    ratio = (1 - 1e-5) * 2 * (mu / (question.reach * question.lipschitz)) ** 2 / draws
    plain = question.lipschitz * math.sqrt(question.horizon) / (2 * question.body.radius)  # best without privacy
    strengths = plain * np.geomspace(1, 1e5, 501)[:, np.newaxis]
    sizes = question.horizon + 2 * strengths.max() * question.body.radius / question.lipschitz
    ratio /= (1 + sizes * (question.body.dimension + 16) * 2.0**-50) ** 2
    bounds = _bounds(question, ratio * strengths, strengths, batches)
    at, which = np.unravel_index(bounds.argmin(), bounds.shape)
    strength = float(strengths[at, 0])
    parameters = float(ratio[which]) * strength, strength, int(batches[which])
    kernel: ConvexKernel[Any]
    if sampler is None:
        kernel = RegularizedWeights(*question.sizes, *parameters, neighbors=question.neighbors)
    else:
        kernel = SampledWeights(*question.sizes, *parameters, sampler, float(question.epsilon), question.neighbors)
    return _plan(question, method, float(bounds.min()), kernel)


def _failure(question: _Question, method: str) -> Fraction:
    """Return what one draw adds to delta."""
    if method == "sampler":
        distance = getattr(question.sampler, "distance", None)
        if distance is None:
            raise InputError(NEEDS_SAMPLER)
        return decimal(distance, "the sampler's distance") * (2 + exp_bounds(question.epsilon)[1])
    if not question.linear:
        raise InputError(NEEDS_SAMPLER)
    return draw_failure(question.body)


def _bounds(question: _Question, beta: Any, strength: Any, batch: Any) -> Floats:
    """Return `regularized_regret` of arrays."""
    return np.vectorize(lambda b, s, n: regularized_regret(*question.sizes, b, s, n))(beta, strength, batch)


def _lazy(question: _Question, method: str) -> ConvexPlan:
    """Plan lazy draws: epsilon is split between the worst coin and all draws."""
    if not (question.linear and question.body.bounded):
        unbounded = 'body must be bounded for lazy draws: take method="redraw"'
        raise InputError(NEEDS_SAMPLER if question.body.bounded else unbounded)
    reference = method == "l2p"
    chains, tilts = (2, 3) if reference else (1, 1)
    grid = 2 ** np.arange(0, question.horizon.bit_length()), 2.0 ** -np.arange(1, 11), np.geomspace(1e-6, 4, 60)
    batch, redraw, eta = (each.ravel() for each in np.meshgrid(*grid, indexing="ij"))
    swing, worst = question.reach / 2, question.lipschitz * question.body.radius
    shift = batch * eta if reference else 0.0 * eta
    coin = coin_worst(chains * swing * eta, redraw, shift)
    steps = -np.expm1(np.log1p(-redraw) - tilts * batch * eta)
    batches, tail = question.horizon // batch, float(question.delta) / (8 * DELTA_PARTS)
    draws = 1 + binom.isf(tail, np.maximum(batches - 1, 0), steps)
    draws = draws + (binom.isf(tail, batches, redraw) if reference else 0)
    mu = np.maximum(_mus(question, float(question.epsilon) - 1.001 * coin), 1e-9)
    beta = eta / (2 * worst)
    needed = (question.reach * question.lipschitz / mu) ** 2 * beta * draws / 2 * (1 + 1e-3)
    strength = np.maximum(needed, question.lipschitz * np.sqrt(question.horizon * batch) / (2 * question.body.radius))
    bounds = np.where(mu > 1e-9, _bounds(question, beta, strength, batch), math.inf)
    i = int(bounds.argmin())
    if not math.isfinite(bounds[i]):
        raise InputError(f"no parameters of {method} were found that keep so small an epsilon and delta")
    parameters = *question.sizes, float(beta[i]), float(strength[i]), int(batch[i]), Fraction(float(redraw[i]))
    kernel = RegularizedWeights(*parameters, reference, question.neighbors, 2 * tail)
    return _plan(question, method, float(bounds[i]), kernel)


def _mus(question: _Question, epsilons: Floats) -> Floats:
    """Return for each epsilon nearly the largest mu that keeps it and most of delta; 0 if there is none.

    A Gaussian loss has an epsilon of at most mu²/2 + mu times a normal quantile.
    """
    mus = np.geomspace(1e-6, 60, 4000)
    reached = mus**2 / 2 + mus * norm.isf(float(question.delta) * (1 - 2 / DELTA_PARTS))
    at = np.searchsorted(reached, epsilons, side="right") - 1
    return np.where((epsilons > 0) & (at >= 0), mus[np.maximum(at, 0)], 0.0)


_METHODS: dict[str, Callable[[_Question, str], ConvexPlan]] = {
    "matrix-factorization": _noisy,
    "tree": _noisy,
    "redraw": _redrawn,
    "dartboard": _lazy,
    "l2p": _lazy,
    "sampler": _redrawn,
}

CONVEX_METHODS = tuple(_METHODS)
"""The methods for convex losses: noise on sums of gradients, then draws from regularized weights."""

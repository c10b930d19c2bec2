"""Plans: the online methods, their parameters and their bounds of regret."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

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
from labeldp.online.experts.accounting import (
    SWINGS,
    Promise,
    doubling_regret_bound,
    few_bits,
    gaussian_mu,
    least_noise,
    nonprivate_bound,
    softmax_rate,
    softmax_regret_bound,
    switches_bound,
    tuned,
)
from labeldp.online.experts.dartboard import BatchedDartboard
from labeldp.online.experts.doubling import BetterOfTwo, DoublingExponential
from labeldp.online.experts.lazy import L2P
from labeldp.online.experts.regret import (
    MeanRegret,
    correlated_softmax_regret,
    doubling_regret,
    tree_softmax_regret,
    weights_regret,
)
from labeldp.online.experts.softmax import MatrixFactorization, TreeNoise
from labeldp.online.prefix_sums import GaussianTree, ToeplitzSums, nodes, smallest_stddev, toeplitz_stddev
from labeldp.privacy import (
    Argument,
    Floats,
    InputError,
    Neighbors,
    check_integer,
    decimal,
    exp_bounds,
    float_above,
    positive_epsilon,
    rounded_up_text,
)

NEIGHBORS = {"replace": Neighbors.ONE_LOSS, "zero-out": Neighbors.ZERO_OUT}
"""The relations by name: one round's losses become any others, or zero."""
MAX_HORIZON = 10**12
MAX_EXPERTS = 10**9
MIN_DELTA = Fraction(1, 10**200)
"""Smaller ones are lost among the smallest doubles."""
DOUBLING_SHARE, CHOOSER_SHARE = Fraction(1, 4), Fraction(1, 4)
"""Shares of epsilon in the better of two; the rest, with half of delta, is that of the learner beside doubling."""
DELTA_PARTS = 16
"""One of this many equal parts of delta is kept for inexact draws, and for unusually many draws."""
BATCH_SIZES = np.unique((2.0 ** (np.arange(0, 49) / 2)).astype(np.int64))


@dataclass(frozen=True)
class Alternative:
    """What another method promises for the same arguments."""

    method: str
    regret_bound: float
    holds: str


@dataclass(frozen=True)
class OnlineTask(ABC):
    """The checked arguments of a plan: public numbers alone."""

    horizon: int
    epsilon: Fraction
    delta: Fraction
    neighbors: Neighbors
    kind: ClassVar[str]
    """What is played: "experts" or "convex"."""

    @property
    @abstractmethod
    def nonprivate_bound(self) -> float:
        """The regret bound of a learner without privacy."""

    @property
    @abstractmethod
    def largest_regret(self) -> float:
        """The regret that no learner exceeds."""

    @abstractmethod
    def plan_json(self, plan: "OnlinePlan") -> dict[str, Any]:
        """Return a plan for this task as plain JSON values, without its method."""


@dataclass(frozen=True)
class OnlinePlan:
    """A learner with its parameters: a function of public numbers alone.

    `regret_bound` bounds the mean over the learner's own randomness.

    For experts it is for losses in levels, against the best expert of all rounds, for any losses that do not depend on
    the actions; for "doubling" it is against the expert that is best on average, for losses that are independent draws
    of one law. For convex losses it is against any point of the body (of a space: within its radius) that is fixed in
    advance; for linear losses it holds if they do not depend on the points.

    Guarantee (kept): what the kernel plays keeps epsilon and delta over the whole horizon.
    """

    method: str
    task: Any
    kernel: Any
    regret_bound: float
    parameters: dict[str, Any] = field(default_factory=dict)
    expected_switches: float = math.inf
    alternatives: tuple[Alternative, ...] = ()

    def __repr__(self) -> str:
        promise = f"epsilon={float_above(self.task.epsilon)}, delta={float_above(self.task.delta)}"
        values = ", ".join(f"{name}={float(value):.4g}" for name, value in self.parameters.items() if value is not None)
        sizes = f"horizon={self.horizon}, {promise}" + (values and f", {values}")
        return f"OnlinePlan({self.method!r}, {sizes}, regret_bound={self.regret_bound:.6g})"

    @property
    def horizon(self) -> int:
        """The number of rounds."""
        return int(self.task.horizon)

    @property
    def entry(self) -> "MethodEntry":
        """The row of the method."""
        return methods_of(self.task.kind)[self.method]

    @property
    def holds(self) -> str:
        """For which losses the bound holds, in words."""
        return self.entry.holds

    @property
    def nonprivate_bound(self) -> float:
        """The regret bound of a learner without privacy."""
        return float(self.task.nonprivate_bound)

    @property
    def vacuous(self) -> bool:
        """Whether the bound is no better than the largest regret."""
        return bool(self.regret_bound >= self.task.largest_regret)

    def mean_regret(self) -> MeanRegret | None:
        """Return a function for the learner's mean regret on losses fixed in advance; None if it must be played."""
        regret = self.entry.mean_regret
        return None if regret is None else regret(self)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON values."""
        return {"method": self.method, **self.task.plan_json(self)}


@dataclass(frozen=True)
class ExpertsTask(OnlineTask):
    """A task on experts, whose losses lie in [0, 1] and are counted in 2^loss_bits - 1 levels."""

    experts: int
    loss_bits: int
    kind = "experts"

    @property
    def promise(self) -> Promise:
        """What the parameters must keep."""
        return Promise(self.experts, self.horizon, self.epsilon, self.delta, SWINGS[self.neighbors])

    @property
    def levels(self) -> int:
        """The level of a loss of 1."""
        return (1 << self.loss_bits) - 1

    @property
    def nonprivate_bound(self) -> float:
        """The regret bound of multiplicative weights without privacy."""
        return nonprivate_bound(self.experts, self.horizon)

    @property
    def largest_regret(self) -> float:
        """A loss of 1 in every round."""
        return self.horizon

    @property
    def rounding_bound(self) -> float:
        """What rounding finer losses to levels may add to the regret at worst."""
        return self.horizon / self.levels

    def part(self, share: Fraction, **changes: Any) -> "ExpertsTask":
        """Return the task for a share of epsilon and half of delta."""
        return replace(self, epsilon=self.epsilon * share, delta=self.delta / 2, **changes)

    def plan_json(self, plan: OnlinePlan) -> dict[str, Any]:
        """Return a plan for this task as plain JSON values, without its method."""
        numbers = {
            name: float(value) if isinstance(value, Fraction) else value for name, value in plan.parameters.items()
        }
        return {
            "experts": self.experts,
            "horizon": self.horizon,
            "epsilon": float_above(self.epsilon),
            "delta": float_above(self.delta),
            "neighbors": next(name for name, relation in NEIGHBORS.items() if relation is self.neighbors),
            "loss_bits": self.loss_bits,
            **numbers,
            "regret_bound": plan.regret_bound,
            "regret_bound_holds": plan.holds,
            "vacuous": plan.vacuous,
            "nonprivate_bound": plan.nonprivate_bound,
            "rounding_bound": self.rounding_bound,
            "expected_switches": plan.expected_switches,
            "alternatives": [asdict(alternative) for alternative in plan.alternatives],
        }


@dataclass(frozen=True)
class ConvexTask(OnlineTask):
    """A task on the points of a body, whose losses have gradients of at most a length."""

    body: Body
    lipschitz: float
    linear: bool
    sampler: Sampler | None = field(repr=False)
    kind = "convex"

    @property
    def sizes(self) -> tuple[Body, int, float]:
        """The body, the horizon and the length of gradients."""
        return self.body, self.horizon, self.lipschitz

    @property
    def reach(self) -> float:
        """The largest distance of one round's gradients in neighboring sequences, in units of `lipschitz`."""
        return SWINGS[self.neighbors] * (1 + NORM_SLACK)

    @property
    def nonprivate_bound(self) -> float:
        """The regret bound of gradient descent without privacy."""
        return self.lipschitz * self.body.radius * math.sqrt(self.horizon)

    @property
    def largest_regret(self) -> float:
        """The regret of the worst points of a bounded body."""
        return 2 * self.lipschitz * self.body.radius * self.horizon if self.body.bounded else math.inf

    def plan_json(self, plan: OnlinePlan) -> dict[str, Any]:
        """Return a plan for this task as plain JSON values, without its method."""
        kernel = plan.kernel
        names = ("beta", "strength", "batch", "redraw", "rate", "reference", "lipschitz")
        parameters = {name: getattr(kernel, name) for name in names if hasattr(kernel, name)}
        if isinstance(kernel, NoisyLeader):
            parameters["stddev"] = getattr(kernel.sums, "stddev", None)
        return {
            "horizon": self.horizon,
            "body": repr(self.body),
            "neighbors": self.neighbors.name,
            "epsilon": float_above(self.epsilon),
            "delta": float_above(self.delta),
            "regret_bound": plan.regret_bound,
            "nonprivate_bound": plan.nonprivate_bound,
            "parameters": {k: str(v) if isinstance(v, Fraction) else v for k, v in parameters.items()},
            "alternatives": [[other.method, other.regret_bound] for other in plan.alternatives],
        }


@dataclass(frozen=True)
class MethodEntry:
    """An online method for one kind of task: how it is planned, what it promises, and how it is described.

    Args:
        kind: what is played, "experts" or "convex".
        name: its name in `plan_experts`, `plan_convex` and on the command line.
        help: one line on when to use it.
        choose: makes the plan with the smallest regret bound that keeps the promise of a task.
        words: describes the parameters of a plan.
        mean_regret: makes the function that computes a plan's mean regret; None if the learner must be played.
        worst_case: whether the regret bound holds for any losses.
        caution: what to know about a bound that does not.
        pure: whether it needs no delta.
        by_itself: whether "auto" may choose it: its bound holds for any losses, and it needs nothing beside the task.
    """

    kind: str
    name: str
    help: str
    choose: Callable[[Any, str], OnlinePlan]
    words: Callable[[OnlinePlan], str] = repr
    mean_regret: Callable[[OnlinePlan], MeanRegret] | None = field(default=None, repr=False)
    worst_case: bool = True
    caution: str = ""
    pure: bool = False
    by_itself: bool = True

    @property
    def holds(self) -> str:
        """For which losses the bound holds, in words."""
        return "for any losses" if self.worst_case else "for independent draws of one law only"


def methods_of(kind: str) -> dict[str, MethodEntry]:
    """Return the methods for experts or for convex losses, by name."""
    return {entry.name: entry for entry in METHODS if entry.kind == kind}


def _best(task: OnlineTask, entries: Iterable[MethodEntry], method: str) -> OnlinePlan:
    """Return the plan of a method, or with "auto" the one of the smallest bound, with all others as alternatives.

    A method is left out if its noise does not fit into 64 bits or no parameters keep the promise; the one that was
    named raises its error.
    """
    plans = []
    for entry in entries:
        try:
            plans.append(entry.choose(task, entry.name))
        except InputError:
            if entry.name == method:
                raise
    candidates = [plan for plan in plans if plan.method == method or (method == "auto" and plan.entry.by_itself)]
    if not candidates:
        raise InputError("no method keeps so small an epsilon and delta: take larger ones, or a smaller horizon")
    best = min(candidates, key=lambda plan: plan.regret_bound)
    others = sorted((plan for plan in plans if plan is not best), key=lambda plan: (plan.regret_bound, plan.method))
    return replace(best, alternatives=tuple(Alternative(p.method, p.regret_bound, p.holds) for p in others))


def plan_experts(
    d: int,
    horizon: int,
    epsilon: Any,
    delta: Any = 1e-6,
    method: str = "auto",
    neighbors: str = "replace",
    loss_bits: int = 8,
) -> OnlinePlan:
    """Return the method with the smallest regret bound, or one by name, with the parameters that minimize its bound.

    Args:
        d: the number of experts, at least 2.
        horizon: the number of rounds, at least 1.
        epsilon: privacy parameter of all actions together, positive.
        delta: in (0, 1); 0 for the method "doubling" alone.
        method: "auto", or one of `methods_of("experts")`. "auto" takes the smallest bound that holds for any
            losses: never "doubling", whose regret can grow as fast as the horizon when losses are no independent
            draws, nor "better-of-two", which finds out in private whether doubling or another learner is better.
        neighbors: "replace": one round's losses become any others; "zero-out": they become zero.
        loss_bits: 8 or 16; losses are counted in 2^loss_bits - 1 levels.

    Guarantee (public_plan): the plan depends on its arguments alone.

    Raises:
        InputError: an argument is out of range.

    Source: `docs/proofs/online.md`.

    Examples:
        >>> plan = plan_experts(1000, 100_000, epsilon=1, delta=1e-6)
        >>> plan.method, plan.parameters["B"], round(plan.regret_bound)
        ('dartboard', 3, 1405)
    """
    task = _experts_task(d, horizon, epsilon, delta, neighbors, loss_bits)
    entries = methods_of("experts")
    if method != "auto" and method not in entries:
        raise InputError(f"must be one of: auto, {', '.join(entries)}", argument="method")
    admitted = {name: entry for name, entry in entries.items() if task.delta or entry.pure}
    if not (any(entry.by_itself for entry in admitted.values()) if method == "auto" else method in admitted):
        raise InputError(
            "must be positive, such as 1e-6: with delta = 0 there is only the method 'doubling', for losses that "
            "are independent draws of one law",
            argument="delta",
        )
    return _best(task, admitted.values(), method)


def _experts_task(d: int, horizon: int, epsilon: Any, delta: Any, neighbors: str, loss_bits: int) -> ExpertsTask:
    d, horizon = check_integer(d, "d", 2), check_integer(horizon, "horizon")
    if d > MAX_EXPERTS or horizon > MAX_HORIZON:
        raise InputError("must be at most 10^9 and horizon at most 10^12", argument="d")
    share = decimal(delta, "delta")
    if not 0 <= share < 1 or 0 < share < MIN_DELTA:
        pure = " or ".join(repr(name) for name, entry in methods_of("experts").items() if entry.pure)
        raise InputError(f"must lie in [1e-200, 1), or be 0 for the method {pure}", argument="delta")
    if neighbors not in NEIGHBORS:
        raise InputError("must be 'replace' or 'zero-out'", argument="neighbors")
    if loss_bits not in (8, 16):
        raise InputError("must be 8 or 16", argument="loss_bits")
    return ExpertsTask(horizon, positive_epsilon(epsilon), share, NEIGHBORS[neighbors], d, loss_bits)


def _experts_plan(
    task: ExpertsTask, method: str, kernel: Any, rate: Fraction, bound: float, switches: float, **others: Any
) -> OnlinePlan:
    parameters = {"B": 1, "eta": rate, "p": Fraction(1), "stddev": None, **others}
    return OnlinePlan(method, task, kernel, bound, parameters, switches)


def _switching_plan(task: ExpertsTask, method: str, chains: int = 1, **fixed: Any) -> OnlinePlan:
    """Plan a learner that keeps its action for a while; `redraw` or `batch` may be fixed."""
    best = tuned(task.promise, chains, **fixed)
    rate, batch, redraw = best.rate, best.batch, best.redraw
    kernel: Any = BatchedDartboard(task.experts, batch, rate, redraw, task.levels, task.neighbors)
    if chains == 2:
        kernel = L2P(kernel.measure, batch, redraw, task.neighbors)
    switches = switches_bound(float(rate), batch, float(redraw), task.horizon)
    return _experts_plan(task, method, kernel, rate, best.bound, switches, B=batch, p=redraw)


def _softmax_plan(task: ExpertsTask, method: str) -> OnlinePlan:
    """Plan a learner that draws in every round from weights on noisy sums."""
    d, rounds, promise = task.experts, task.horizon, task.promise
    sums: Any
    if method == "tree":
        reach, tree = math.sqrt(d), partial(GaussianTree, rounds, d)
        start = reach * math.sqrt(nodes(rounds)) / gaussian_mu(task.epsilon, task.delta)
        stddev = least_noise(promise, lambda noise: tree(noise).privacy_loss(reach, rounds), start)
        sums = tree(stddev)
    else:
        stddev = toeplitz_stddev(rounds, d, math.sqrt(d), task.epsilon, task.delta)
        sums = ToeplitzSums(rounds, d, stddev)
    rate = few_bits(softmax_rate(d, rounds, sums.deviation))
    kernel: Any
    if method == "tree":
        kernel = TreeNoise(d, rounds, rate, None, stddev, task.levels, task.neighbors)
    else:
        kernel = MatrixFactorization(d, rounds, rate, stddev, task.levels, task.neighbors)
    bound = softmax_regret_bound(d, rounds, float(rate), sums.deviation)
    return _experts_plan(task, method, kernel, rate, bound, float(rounds - 1), stddev=stddev)


def _doubling_plan(task: ExpertsTask, method: str) -> OnlinePlan:
    kernel = DoublingExponential(task.experts, task.epsilon, task.levels, task.neighbors)
    bound = doubling_regret_bound(task.experts, task.horizon, float(kernel.rate))
    return _experts_plan(task, method, kernel, kernel.rate, bound, float(task.horizon.bit_length() - 1))


def _better_of_two_plan(task: ExpertsTask, method: str) -> OnlinePlan:
    """Plan doubling, the learner that "auto" takes for its share, and a third one that learns which is better.

    The chooser's experts are the two learners, whose actions do not depend on what it plays: its regret adds to the
    second learner's own. Source: `docs/proofs/doubling.md`.
    """
    entries = (entry for entry in methods_of("experts").values() if entry.by_itself)
    try:
        second = _best(task.part(1 - DOUBLING_SHARE - CHOOSER_SHARE), entries, "auto")
    except InputError:
        raise InputError(
            Argument("epsilon"), " or ", Argument("delta"), " is too small for the better of two: take larger ones"
        ) from None
    chooser = _softmax_plan(task.part(CHOOSER_SHARE, experts=2), "matrix-factorization")
    doubling = DoublingExponential(task.experts, task.epsilon * DOUBLING_SHARE, task.levels, task.neighbors)
    kernel = BetterOfTwo(doubling, second.kernel, chooser.kernel)
    bound = second.regret_bound + chooser.regret_bound
    return OnlinePlan(method, task, kernel, bound, second.parameters, float(task.horizon - 1))


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
) -> OnlinePlan:
    """Return the method with the smallest regret bound, or one by name, with the parameters that minimize its bound.

    Args:
        body: where points lie: `Space`, `Box` or `Ball`.
        horizon: rounds, at least 1.
        epsilon: privacy parameter, positive.
        delta: in (0, 1): no method here is pure.
        lipschitz: no gradient is longer.
        method: one of `methods_of("convex")`, or "auto" for the smallest bound.
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
    task = _convex_task(body, horizon, epsilon, delta, lipschitz, losses, neighbors, sampler)
    entries = methods_of("convex")
    if method not in ("auto", *entries):
        raise InputError(f"method must be auto or one of {', '.join(entries)}")
    if (method == "sampler") != (sampler is not None):
        raise InputError(NEEDS_SAMPLER if sampler is None else 'sampler is for method="sampler" only')
    admitted = [entry for entry in entries.values() if entry.name == method or (method == "auto" and entry.by_itself)]
    return _best(task, admitted, method)


def _convex_task(
    body: Body,
    horizon: int,
    epsilon: Any,
    delta: Any,
    lipschitz: Any,
    losses: str,
    neighbors: str,
    sampler: Sampler | None,
) -> ConvexTask:
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
    return ConvexTask(rounds, *exact, NEIGHBORS[neighbors], body, lipschitz, losses == "linear", sampler)


def _convex_plan(task: ConvexTask, method: str, bound: float, kernel: ConvexKernel[Any]) -> OnlinePlan:
    """Return a plan after checking its promise; its bound is at most that of playing any points."""
    if not kernel.privacy_loss(task.horizon).within(task.epsilon, task.delta):
        raise InputError(f"no parameters of {method} were found that keep so small an epsilon and delta")
    return OnlinePlan(method, task, kernel, min(bound, task.largest_regret))


def _noisy(task: ConvexTask, method: str) -> OnlinePlan:
    """Plan noise on sums of gradients. The bound for linear losses needs noise that never falls, unlike a tree's."""
    kind = ToeplitzSums if method == "matrix-factorization" else GaussianTree
    make = partial(kind, task.horizon, task.body.dimension)
    sums = make(smallest_stddev(make, task.reach * (1 + 2.0**-40), task.epsilon, task.delta))
    linear = task.linear and method != "tree"
    regret, rate = (linear_regret, linear_rate) if linear else (convex_regret, convex_rate)
    deviation = sums.deviation * task.lipschitz
    best = rate(*task.sizes, deviation)
    kernel = NoisyLeader(task.body, task.lipschitz, best, sums, task.neighbors)
    return _convex_plan(task, method, regret(*task.sizes, best, deviation), kernel)


def _redrawn(task: ConvexTask, method: str) -> OnlinePlan:
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
    return _convex_plan(task, method, float(bounds.min()), kernel)


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


def _lazy(task: ConvexTask, method: str) -> OnlinePlan:
    """Plan lazy draws: epsilon is split between the worst coin and all draws."""
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
    return _convex_plan(task, method, float(bounds[i]), kernel)


def _mus(task: ConvexTask, epsilons: Floats) -> Floats:
    """Return for each epsilon nearly the largest mu that keeps it and most of delta; 0 if there is none.

    A Gaussian loss has an epsilon of at most mu²/2 + mu times a normal quantile.
    """
    mus = np.geomspace(1e-6, 60, 4000)
    reached = mus**2 / 2 + mus * norm.isf(float(task.delta) * (1 - 2 / DELTA_PARTS))
    at = np.searchsorted(reached, epsilons, side="right") - 1
    return np.where((epsilons > 0) & (at >= 0), mus[np.maximum(at, 0)], 0.0)


def _switching_words(plan: OnlinePlan) -> str:
    batch, rate, redraw = (plan.parameters[name] for name in ("B", "eta", "p"))
    return f"batches of B = {batch:,} rounds, rate eta = {float(rate):.6g}, redraw probability p = {float(redraw):.6g}"


def _noise_words(plan: OnlinePlan) -> str:
    rate, stddev = plan.parameters["eta"], plan.parameters["stddev"]
    return f"rate eta = {float(rate):.6g}, noise of standard deviation {rounded_up_text(stddev)}"


def _switching_method(name: str, help: str, **fixed: Any) -> MethodEntry:
    """Return the row of a method whose actions have the marginals of multiplicative weights in batches."""
    regret = lambda plan: weights_regret(float(plan.parameters["eta"]), plan.parameters["B"])  # noqa: E731
    return MethodEntry("experts", name, help, partial(_switching_plan, **fixed), _switching_words, regret)


METHODS = (
    _switching_method(
        "dartboard", "weights that keep an action until its own losses, or chance, end it: for many experts"
    ),
    MethodEntry(
        "experts",
        "matrix-factorization",
        "weights on sums with correlated noise: for few experts or many rounds",
        _softmax_plan,
        _noise_words,
        lambda plan: correlated_softmax_regret(plan.kernel),
    ),
    MethodEntry(
        "experts",
        "tree",
        "the same with noise from a binary tree: to compare",
        _softmax_plan,
        _noise_words,
        lambda plan: tree_softmax_regret(plan.kernel),
    ),
    _switching_method("redraw", "the dartboard with a new draw after every batch", redraw=Fraction(1)),
    _switching_method("shrinking-dartboard", "the dartboard in batches of one round", batch=1),
    _switching_method("l2p", "the dartboard with a reference sequence, as published: to compare", chains=2),
    MethodEntry(
        "experts",
        "doubling",
        "one draw for each of 1, 2, 4, … rounds: for losses that are independent draws of one law",
        _doubling_plan,
        lambda plan: f"rate eta = {float(plan.kernel.rate):.6g}: one draw for each of 1, 2, 4, … rounds",
        lambda plan: doubling_regret(float(plan.kernel.rate)),
        worst_case=False,
        caution="The bound of doubling is against the expert that is best on average, where all rounds are independent "
        "draws of one law. Where they are not, its regret can grow as fast as the number of rounds.",
        pure=True,
        by_itself=False,
    ),
    MethodEntry(
        "experts",
        "better-of-two",
        "doubling and the best other method, with a third learner that finds out in private which is better",
        _better_of_two_plan,
        lambda plan: _switching_words(plan) if plan.parameters["stddev"] is None else _noise_words(plan),
        by_itself=False,
    ),
    MethodEntry("convex", "matrix-factorization", "sums of gradients with correlated noise", _noisy),
    MethodEntry("convex", "tree", "sums of gradients with noise from a binary tree: to compare", _noisy),
    MethodEntry("convex", "redraw", "a draw from regularized weights after every batch", _redrawn),
    MethodEntry("convex", "dartboard", "draws from regularized weights that are kept for a while", _lazy),
    MethodEntry("convex", "l2p", "the same with a reference sequence, as published: to compare", _lazy),
    MethodEntry("convex", "sampler", "draws of your own sampler, for general convex losses", _redrawn, by_itself=False),
)
"""The online methods: plans, the command line, its help and the tables of papers are made from this list."""

"""Plans: the online methods, their parameters and their bounds of regret."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from pkgutil import resolve_name
from typing import Any, ClassVar

from labeldp.online.convex.base import NEEDS_SAMPLER, NORM_SLACK, Body, ConvexKernel, Sampler, real
from labeldp.online.experts.accounting import SWINGS, PrivacyTarget, nonprivate_bound
from labeldp.privacy import InputError, Unit, check_integer, decimal, even_if_refused, float_above, positive_epsilon

NEIGHBORS = {"replace": Unit.ONE_LOSS, "zero-out": Unit.ZERO_OUT}
"""The relations by name: one round's losses become any others, or zero."""

MAX_HORIZON = 10**12
MAX_EXPERTS = 10**9
MIN_DELTA = Fraction(1, 10**200)
"""Smaller ones are lost among the smallest doubles."""


def loss_unit(neighbors: str) -> Unit:
    """Return the unit of protection of losses: "replace" or "zero-out".

    Raises:
        InputError: another word.
    """
    if neighbors not in NEIGHBORS:
        raise InputError("must be 'replace' or 'zero-out'", argument="neighbors")
    return NEIGHBORS[neighbors]


@dataclass(frozen=True)
class Alternative:
    """The regret bound of another method for the same arguments."""

    method: str
    regret_bound: float
    holds: str


@dataclass(frozen=True)
class OnlineTask(ABC):
    """The checked arguments of a plan: public numbers alone."""

    horizon: int
    epsilon: Fraction
    delta: Fraction
    neighbors: Unit
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

    @even_if_refused
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
        """The losses for which the bound holds, in words."""
        return self.entry.holds

    @property
    def nonprivate_bound(self) -> float:
        """The regret bound of a learner without privacy."""
        return float(self.task.nonprivate_bound)

    @property
    def vacuous(self) -> bool:
        """Whether the bound is no better than the largest regret."""
        return bool(self.regret_bound >= self.task.largest_regret)

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
    def promise(self) -> PrivacyTarget:
        """What the parameters must keep."""
        return PrivacyTarget(self.experts, self.horizon, self.epsilon, self.delta, SWINGS[self.neighbors])

    @property
    def levels(self) -> int:
        """The level of a loss of 1."""
        return (1 << self.loss_bits) - 1

    @property
    def nonprivate_bound(self) -> float:
        return nonprivate_bound(self.experts, self.horizon)

    @property
    def largest_regret(self) -> float:
        return self.horizon

    @property
    def rounding_bound(self) -> float:
        """The largest regret that rounding of losses to levels adds."""
        return self.horizon / self.levels

    def part(self, share: Fraction, **changes: Any) -> "ExpertsTask":
        """Return the task for a share of epsilon and half of delta."""
        return replace(self, epsilon=self.epsilon * share, delta=self.delta / 2, **changes)

    def plan_json(self, plan: OnlinePlan) -> dict[str, Any]:
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
        return self.lipschitz * self.body.radius * math.sqrt(self.horizon)

    @property
    def largest_regret(self) -> float:
        return 2 * self.lipschitz * self.body.radius * self.horizon if self.body.bounded else math.inf

    def plan_json(self, plan: OnlinePlan) -> dict[str, Any]:
        kernel = plan.kernel
        names = ("beta", "strength", "batch", "redraw", "rate", "reference", "lipschitz")
        parameters = {name: getattr(kernel, name) for name in names if hasattr(kernel, name)}
        if hasattr(kernel, "sums"):
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
    """An online method for one kind of task: how it is planned, what it guarantees, and how it is described.

    Args:
        kind: what is played, "experts" or "convex".
        name: its name in `plan_experts`, `plan_convex` and on the command line.
        help: one line on when to use it.
        plan: "file:function" of what makes, of a task and the name, the plan with the smallest regret bound that keeps
            the promise of the task.
        worst_case: whether the regret bound holds for any losses.
        caution: what to know about a bound that does not.
        pure: whether it needs no delta.
        by_itself: whether "auto" may choose it: its bound holds for any losses, and it needs nothing beside the task.
    """

    kind: str
    name: str
    help: str
    plan: str
    worst_case: bool = True
    caution: str = ""
    pure: bool = False
    by_itself: bool = True

    @property
    def holds(self) -> str:
        """For which losses the bound holds, in words."""
        return "for any losses" if self.worst_case else "for independent draws of one law only"

    def choose(self, task: OnlineTask) -> OnlinePlan:
        """Return the plan for a task.

        Raises:
            InputError: no parameters keep the promise of the task.
        """
        plan: OnlinePlan = resolve_name(f"labeldp.online.{self.plan}")(task, self.name)
        return plan


def methods_of(kind: str) -> dict[str, MethodEntry]:
    """Return the methods for experts or for convex losses, by name."""
    return {entry.name: entry for entry in METHODS if entry.kind == kind}


def best_plan(task: OnlineTask, entries: Iterable[MethodEntry], method: str) -> OnlinePlan:
    """Return the plan of a method, or with "auto" the one of the smallest bound, with all others as alternatives.

    A method is left out if its noise does not fit into 64 bits or no parameters keep the promise; the one that was
    named raises its error.
    """
    plans = []
    for entry in entries:
        try:
            plans.append(entry.choose(task))
        except InputError:
            if entry.name == method:
                raise
    candidates = [plan for plan in plans if plan.method == method or (method == "auto" and plan.entry.by_itself)]
    if not candidates:
        raise InputError("no method keeps so small an epsilon and delta: take larger ones, or a smaller horizon")
    best = min(candidates, key=lambda plan: plan.regret_bound)
    worse = sorted((plan for plan in plans if plan is not best), key=lambda plan: (plan.regret_bound, plan.method))
    return replace(best, alternatives=tuple(Alternative(p.method, p.regret_bound, p.holds) for p in worse))


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

    Source: `docs/proofs/online-experts.md`.

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
    return best_plan(task, admitted.values(), method)


def _experts_task(d: int, horizon: int, epsilon: Any, delta: Any, neighbors: str, loss_bits: int) -> ExpertsTask:
    d, horizon = check_integer(d, "d", 2), check_integer(horizon, "horizon")
    if d > MAX_EXPERTS or horizon > MAX_HORIZON:
        raise InputError("must be at most 10^9 and horizon at most 10^12", argument="d")
    share = decimal(delta, "delta")
    if not 0 <= share < 1 or 0 < share < MIN_DELTA:
        pure = " or ".join(repr(name) for name, entry in methods_of("experts").items() if entry.pure)
        raise InputError(f"must lie in [1e-200, 1), or be 0 for the method {pure}", argument="delta")
    unit = loss_unit(neighbors)
    if loss_bits not in (8, 16):
        raise InputError("must be 8 or 16", argument="loss_bits")
    return ExpertsTask(horizon, positive_epsilon(epsilon), share, unit, d, loss_bits)


def experts_plan(
    task: ExpertsTask, method: str, kernel: Any, rate: Fraction, bound: float, switches: float, **parameters: Any
) -> OnlinePlan:
    """Return a plan for experts; `parameters` are those next to the rate."""
    parameters = {"B": 1, "eta": rate, "p": Fraction(1), "stddev": None, **parameters}
    return OnlinePlan(method, task, kernel, bound, parameters, switches)


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
        body: where points lie: `Unbounded`, `Box` or `Ball`.
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
    return best_plan(task, admitted, method)


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
        raise InputError("body must be Unbounded, a Box or a Ball")
    if losses not in ("linear", "convex"):
        raise InputError("losses must be 'linear' or 'convex'")
    unit = loss_unit(neighbors)
    share = decimal(delta, "delta")
    if not 0 < share < 1:
        raise InputError("delta must lie between 0 and 1: no method for convex losses is pure")
    exact = positive_epsilon(epsilon), share
    rounds, lipschitz = check_integer(horizon, "horizon"), real(lipschitz, "lipschitz")
    return ConvexTask(rounds, *exact, unit, body, lipschitz, losses == "linear", sampler)


def convex_plan(task: ConvexTask, method: str, bound: float, kernel: ConvexKernel[Any]) -> OnlinePlan:
    """Return a plan after checking its guarantee; its bound is at most that of playing any points."""
    if not kernel.privacy_loss(task.horizon).within(task.epsilon, task.delta):
        raise InputError(f"no parameters of {method} were found that keep so small an epsilon and delta")
    return OnlinePlan(method, task, kernel, min(bound, task.largest_regret))


METHODS = (
    MethodEntry(
        "experts",
        "dartboard",
        "weights that keep an action until its own losses, or chance, end it: for many experts",
        "experts.dartboard:plan_dartboard",
    ),
    MethodEntry(
        "experts",
        "matrix-factorization",
        "weights on sums with correlated noise: for few experts or many rounds",
        "experts.softmax:plan_softmax",
    ),
    MethodEntry(
        "experts", "tree", "the same with noise from a binary tree: to compare", "experts.softmax:plan_softmax"
    ),
    MethodEntry(
        "experts", "redraw", "the dartboard with a new draw after every batch", "experts.dartboard:plan_dartboard"
    ),
    MethodEntry(
        "experts", "shrinking-dartboard", "the dartboard in batches of one round", "experts.dartboard:plan_dartboard"
    ),
    MethodEntry(
        "experts", "l2p", "the dartboard with a reference sequence, as published: to compare", "experts.lazy:plan_l2p"
    ),
    MethodEntry(
        "experts",
        "doubling",
        "one draw for each of 1, 2, 4, … rounds: for losses that are independent draws of one law",
        "experts.doubling:plan_doubling",
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
        "experts.doubling:plan_better_of_two",
        by_itself=False,
    ),
    MethodEntry(
        "convex", "matrix-factorization", "sums of gradients with correlated noise", "convex.gradient:plan_leader"
    ),
    MethodEntry(
        "convex", "tree", "sums of gradients with noise from a binary tree: to compare", "convex.gradient:plan_leader"
    ),
    MethodEntry(
        "convex", "redraw", "a draw from regularized weights after every batch", "convex.regularized:plan_redrawn"
    ),
    MethodEntry(
        "convex",
        "dartboard",
        "draws from regularized weights that are kept for a while",
        "convex.regularized:plan_lazy",
    ),
    MethodEntry(
        "convex", "l2p", "the same with a reference sequence, as published: to compare", "convex.regularized:plan_lazy"
    ),
    MethodEntry(
        "convex",
        "sampler",
        "draws of your own sampler, for general convex losses",
        "convex.regularized:plan_redrawn",
        by_itself=False,
    ),
)
"""The online methods: plans, the command line, its help and the tables of papers are made from this list."""

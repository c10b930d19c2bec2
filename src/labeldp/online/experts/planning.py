"""Plan_experts and the methods it knows."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from labeldp.online.experts.accounting import (
    SWINGS,
    Promise,
    Tuned,
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
from labeldp.online.experts.doubling import BetterOfTwo, DoublingExponential
from labeldp.online.experts.kernel import Kernel
from labeldp.online.experts.lazy import L2P, BatchedDartboard, MultiplicativeWeightsMeasure
from labeldp.online.experts.softmax import MatrixFactorization, TreeNoise
from labeldp.online.noisy_sums import ToeplitzSums, toeplitz_stddev
from labeldp.online.tree import GaussianTree, nodes
from labeldp.privacy import Argument, InputError, Neighbors, check_integer, decimal, float_above, positive_epsilon

NEIGHBORS = {"replace": Neighbors.ONE_LOSS, "zero-out": Neighbors.ZERO_OUT}
"""What may become of one round's losses: any others, or none at all."""

MAX_HORIZON = 10**12

MAX_EXPERTS = 10**9

MIN_DELTA = Fraction(1, 10**200)
"""Smaller ones are lost among the smallest doubles."""


@dataclass(frozen=True)
class Alternative:
    """What another method promises for the same question."""

    method: str
    regret_bound: float
    holds: str

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"method": self.method, "regret_bound": self.regret_bound, "holds": self.holds}


@dataclass(frozen=True)
class ExpertsPlan:
    """A learner for experts with its parameters: a function of public numbers alone.

    `regret_bound` is for losses as they are counted, in levels, and in the mean over the learner's own randomness. It
    is against the best expert of all rounds, for any losses that do not follow the actions, but for "doubling", where
    it is against the expert that is best on average, for losses that are independent draws of one law.
    `rounding_bound` is what rounding finer losses to levels may add at worst.

    Guarantee: the actions of the kernel keep epsilon and delta over the whole horizon.
    """

    method: str
    experts: int
    horizon: int
    epsilon: Fraction
    delta: Fraction
    neighbors: Neighbors
    loss_bits: int
    batch: int
    rate: Fraction
    redraw: Fraction
    stddev: float | None
    regret_bound: float
    expected_switches: float
    alternatives: tuple[Alternative, ...] = field(default=())

    def __repr__(self) -> str:
        promise = f"epsilon={float_above(self.epsilon)}, delta={float_above(self.delta)}"
        values = f"B={self.batch}, eta={float(self.rate):.4g}, p={float(self.redraw):.4g}"
        sizes = f"experts={self.experts}, horizon={self.horizon}"
        return f"ExpertsPlan({self.method!r}, {sizes}, {promise}, {values}, regret_bound={self.regret_bound:.6g})"

    @property
    def levels(self) -> int:
        """The level of a loss of 1."""
        return (1 << self.loss_bits) - 1

    @property
    def holds(self) -> str:
        """For which losses the bound holds."""
        return METHODS[self.method].holds

    @property
    def nonprivate_bound(self) -> float:
        """What multiplicative weights promise without privacy."""
        return nonprivate_bound(self.experts, self.horizon)

    @property
    def rounding_bound(self) -> float:
        """How much rounding of losses to levels may add to the regret at worst; nothing where they are levels."""
        return self.horizon / self.levels

    @property
    def vacuous(self) -> bool:
        """Whether the bound says no more than that a round's loss is at most 1."""
        return self.regret_bound >= self.horizon

    def kernel(self) -> Kernel[Any]:
        """The learner."""
        return METHODS[self.method].make(self)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; rate and redraw are exact."""
        return {
            "method": self.method,
            "experts": self.experts,
            "horizon": self.horizon,
            "epsilon": float_above(self.epsilon),
            "delta": float_above(self.delta),
            "neighbors": next(name for name, each in NEIGHBORS.items() if each is self.neighbors),
            "loss_bits": self.loss_bits,
            "B": self.batch,
            "eta": float(self.rate),
            "p": float(self.redraw),
            "stddev": self.stddev,
            "regret_bound": self.regret_bound,
            "regret_bound_holds": self.holds,
            "vacuous": self.vacuous,
            "nonprivate_bound": self.nonprivate_bound,
            "rounding_bound": self.rounding_bound,
            "expected_switches": self.expected_switches,
            "alternatives": [each.to_json() for each in self.alternatives],
        }


def plan_experts(
    d: int,
    horizon: int,
    epsilon: Any,
    delta: Any = 1e-6,
    method: str = "auto",
    neighbors: str = "replace",
    loss_bits: int = 8,
) -> ExpertsPlan:
    """The method with the smallest bound of regret, or one by name, with the parameters that make its bound smallest.

    Args:
        d: the number of experts, at least 2.
        horizon: how many rounds will be played, at least 1.
        epsilon: privacy parameter of all actions together, positive.
        delta: in (0, 1); 0 for the method "doubling" alone.
        method: "auto", or one of `METHODS`. "auto" takes the smallest bound that holds for any losses, so never
            "doubling", whose regret can grow as fast as the horizon when losses are no independent draws, nor
            "better-of-two", which finds out in private whether doubling or another learner is better.
        neighbors: "replace": one round's losses become any others; "zero-out": they become zero.
        loss_bits: 8 or 16; losses are counted in 2^loss_bits - 1 levels.

    Guarantee: the plan depends on its arguments alone.

    Raises:
        InputError: an argument is out of range.

    Source: `docs/proofs/online.md`.

    Examples:
        >>> plan = plan_experts(1000, 100_000, epsilon=1, delta=1e-6)
        >>> plan.method, plan.batch, round(plan.regret_bound)
        ('dartboard', 3, 1405)
    """
    promise, relation = _checked(d, horizon, epsilon, delta, neighbors, loss_bits)
    known = _admitted(method, promise.delta)
    found = {name: choice for name, each in known.items() if (choice := _choice(each, promise, name == method))}
    safe = [name for name in found if METHODS[name].by_itself]
    chosen = min(safe, key=lambda name: found[name].regret_bound) if method == "auto" else method
    others = sorted(found.keys() - {chosen}, key=lambda name: (found[name].regret_bound, name))
    return ExpertsPlan(
        chosen,
        experts=d,
        horizon=horizon,
        epsilon=promise.epsilon,
        delta=promise.delta,
        neighbors=relation,
        loss_bits=loss_bits,
        alternatives=tuple(Alternative(name, found[name].regret_bound, METHODS[name].holds) for name in others),
        **vars(found[chosen]),
    )


def _checked(
    d: int, horizon: int, epsilon: Any, delta: Any, neighbors: str, loss_bits: int
) -> tuple[Promise, Neighbors]:
    """The numbers of a question, or one sentence that says what would be right."""
    d, horizon = check_integer(d, "d", 2), check_integer(horizon, "horizon")
    if d > MAX_EXPERTS or horizon > MAX_HORIZON:
        raise InputError("must be at most 10^9 and horizon at most 10^12", argument="d")
    share = decimal(delta, "delta")
    if not 0 <= share < 1 or 0 < share < MIN_DELTA:
        raise InputError("must lie in [1e-200, 1), or be 0 for the method 'doubling'", argument="delta")
    if neighbors not in NEIGHBORS:
        raise InputError("must be 'replace' or 'zero-out'", argument="neighbors")
    if loss_bits not in (8, 16):
        raise InputError("must be 8 or 16", argument="loss_bits")
    relation = NEIGHBORS[neighbors]
    return Promise(d, horizon, positive_epsilon(epsilon), share, SWINGS[relation]), relation


@dataclass(frozen=True)
class Choice:
    """The parameters of a learner, with what they promise of regret and of switches."""

    batch: int
    rate: Fraction
    redraw: Fraction
    stddev: float | None
    regret_bound: float
    expected_switches: float


@dataclass(frozen=True)
class Method:
    """How a learner is tuned and made, and for which losses its bound holds.

    `make` takes a plan. `pure`: delta = 0 will do. `by_itself`: "auto" may take it, as its bound holds for any losses
    and it is no mixture of others.
    """

    choose: Callable[[Promise], Choice]
    make: Callable[[Any], Kernel[Any]]
    worst_case: bool = True
    pure: bool = False
    by_itself: bool = True

    @property
    def holds(self) -> str:
        """For which losses the bound holds."""
        return "for any losses" if self.worst_case else "for independent draws of one law only"


def _admitted(method: str, delta: Fraction) -> dict[str, Method]:
    """The methods that this delta admits, with the one that is asked for among them."""
    if method != "auto" and method not in METHODS:
        raise InputError(f"must be one of: auto, {', '.join(METHODS)}", argument="method")
    known = {name: each for name, each in METHODS.items() if delta or each.pure}
    if (method == "auto" and not any(each.by_itself for each in known.values())) or method not in {"auto", *known}:
        raise InputError(
            "must be positive, such as 1e-6: with delta = 0 there is only the method 'doubling', for losses that "
            "are independent draws of one law",
            argument="delta",
        )
    return known


def _choice(method: Method, promise: Promise, wanted: bool) -> Choice | None:
    """The parameters of a method; None where its noise does not fit into 64 bits, unless it was asked for."""
    try:
        return method.choose(promise)
    except InputError:
        if wanted:
            raise
        return None


DOUBLING_SHARE, CHOOSER_SHARE = Fraction(1, 4), Fraction(1, 4)
"""Shares of epsilon in the better of two; the rest, with half of delta, is that of the learner beside doubling."""


def _switching(promise: Promise, found: Tuned) -> Choice:
    """A learner that keeps its action for a while."""
    moves = switches_bound(float(found.rate), found.batch, float(found.redraw), promise.horizon)
    return Choice(found.batch, found.rate, found.redraw, None, found.bound, moves)


def _softmax(promise: Promise, stddev: float, deviation: float) -> Choice:
    """A learner that draws in every round, by noisy sums."""
    d, rounds = promise.experts, promise.horizon
    rate = few_bits(softmax_rate(d, rounds, deviation))
    bound = softmax_regret_bound(d, rounds, float(rate), deviation)
    return Choice(1, rate, Fraction(1), stddev, bound, float(rounds - 1))


def _dartboard(promise: Promise) -> Choice:
    return _switching(promise, tuned(promise, 1))


def _redraw(promise: Promise) -> Choice:
    return _switching(promise, tuned(promise, 1, redraw=Fraction(1)))


def _shrinking(promise: Promise) -> Choice:
    return _switching(promise, tuned(promise, 1, batch=1))


def _l2p(promise: Promise) -> Choice:
    return _switching(promise, tuned(promise, 2))


def _matrix_factorization(promise: Promise) -> Choice:
    """Noise on sums, correlated over rounds."""
    rounds, d = promise.horizon, promise.experts
    stddev = toeplitz_stddev(rounds, d, math.sqrt(d), promise.epsilon, promise.delta)
    return _softmax(promise, stddev, ToeplitzSums(rounds, d, stddev).deviation)


def _tree(promise: Promise) -> Choice:
    """Noise on the nodes of a tree."""
    reach = math.sqrt(promise.experts)

    def sums(stddev: float) -> GaussianTree:
        return GaussianTree(promise.horizon, promise.experts, stddev)

    start = reach * math.sqrt(nodes(promise.horizon)) / gaussian_mu(promise.epsilon, promise.delta)
    stddev = least_noise(promise, lambda each: sums(each).privacy_loss(reach, promise.horizon), start)
    return _softmax(promise, stddev, sums(stddev).deviation)


def _doubling(promise: Promise) -> Choice:
    """Epochs of 1, 2, 4, … rounds."""
    rate = promise.epsilon / promise.swing
    bound = doubling_regret_bound(promise.experts, promise.horizon, float(rate))
    return Choice(1, rate, Fraction(1), None, bound, float(promise.horizon.bit_length() - 1))


@lru_cache(maxsize=64)
def _beside(promise: Promise) -> tuple[str, Promise, Choice]:
    """The learner beside doubling in the better of two: the one that "auto" takes for its share of the promise."""
    share = replace(promise, epsilon=promise.epsilon * (1 - DOUBLING_SHARE - CHOOSER_SHARE), delta=promise.delta / 2)
    found = {}
    for name, method in METHODS.items():
        if method.by_itself:
            try:
                found[name] = method.choose(share)
            except InputError:  # its noise does not fit
                continue
    if not found:
        raise InputError(
            Argument("epsilon"), " or ", Argument("delta"), " is too small for the better of two: take larger ones"
        )
    best = min(found, key=lambda name: found[name].regret_bound)
    return best, share, found[best]


@lru_cache(maxsize=64)
def _chooser(promise: Promise) -> tuple[Promise, Choice]:
    """The learner on two experts that picks one of the two."""
    share = replace(promise, experts=2, epsilon=promise.epsilon * CHOOSER_SHARE, delta=promise.delta / 2)
    return share, _matrix_factorization(share)


def _better(promise: Promise) -> Choice:
    """Doubling, another learner, and a third one that finds out which of them is better.

    The chooser's experts are the two learners, whose actions do not depend on what it plays: its regret against the
    second comes on top of the second's own. Source: `docs/proofs/doubling.md`.
    """
    (_, _, second), (_, third) = _beside(promise), _chooser(promise)
    return replace(
        second, regret_bound=second.regret_bound + third.regret_bound, expected_switches=float(promise.horizon - 1)
    )


def _make_better(plan: Any) -> Kernel[Any]:
    promise = Promise(plan.experts, plan.horizon, plan.epsilon, plan.delta, SWINGS[plan.neighbors])
    name, share, choice = _beside(promise)
    second = replace(plan, method=name, epsilon=share.epsilon, delta=share.delta, **vars(choice))
    part, third = _chooser(promise)
    chooser = replace(plan, experts=2, epsilon=part.epsilon, delta=part.delta, **vars(third))
    first = replace(plan, epsilon=plan.epsilon * DOUBLING_SHARE)
    return BetterOfTwo(_make_doubling(first), METHODS[name].make(second), _make_matrix_factorization(chooser))


def _make_switching(plan: Any) -> Kernel[Any]:
    return BatchedDartboard(plan.experts, plan.batch, plan.rate, plan.redraw, plan.levels, plan.neighbors)


def _make_l2p(plan: Any) -> Kernel[Any]:
    measure = MultiplicativeWeightsMeasure(plan.experts, plan.rate, plan.levels)
    return L2P(measure, plan.batch, plan.redraw, plan.neighbors)


def _make_matrix_factorization(plan: Any) -> Kernel[Any]:
    return MatrixFactorization(plan.experts, plan.horizon, plan.rate, plan.stddev, plan.levels, plan.neighbors)


def _make_tree(plan: Any) -> Kernel[Any]:
    noise = {"stddev": plan.stddev, "levels": plan.levels, "neighbors": plan.neighbors}
    return TreeNoise(plan.experts, plan.horizon, plan.rate, **noise)


def _make_doubling(plan: Any) -> Kernel[Any]:
    return DoublingExponential(plan.experts, plan.epsilon, plan.levels, plan.neighbors)


METHODS: dict[str, Method] = {
    "dartboard": Method(_dartboard, _make_switching),
    "matrix-factorization": Method(_matrix_factorization, _make_matrix_factorization),
    "tree": Method(_tree, _make_tree),
    "redraw": Method(_redraw, _make_switching),
    "shrinking-dartboard": Method(_shrinking, _make_switching),
    "l2p": Method(_l2p, _make_l2p),
    "doubling": Method(_doubling, _make_doubling, worst_case=False, pure=True, by_itself=False),
    "better-of-two": Method(_better, _make_better, by_itself=False),
}
"""What `plan_experts` knows, by name."""

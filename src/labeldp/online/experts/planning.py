"""Plans for learners on experts: the methods, their parameters and their bounds of regret."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

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
from labeldp.online.experts.kernel import Kernel
from labeldp.online.experts.lazy import L2P, MultiplicativeWeightsMeasure
from labeldp.online.experts.regret import (
    MeanRegret,
    correlated_softmax_regret,
    doubling_regret,
    tree_softmax_regret,
    weights_regret,
)
from labeldp.online.experts.softmax import MatrixFactorization, TreeNoise
from labeldp.online.noisy_sums import ToeplitzSums, toeplitz_stddev
from labeldp.online.tree import GaussianTree, nodes
from labeldp.privacy import (
    Argument,
    InputError,
    Neighbors,
    check_integer,
    decimal,
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


@dataclass(frozen=True)
class Alternative:
    """What another method promises for the same arguments."""

    method: str
    regret_bound: float
    holds: str

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class ExpertsPlan:
    """A learner for experts with its parameters: a function of public numbers alone.

    `regret_bound` bounds the mean over the learner's own randomness, for losses in levels. It is against the best
    expert of all rounds, for any losses that do not depend on the actions; for "doubling" it is against the expert that
    is best on average, for losses that are independent draws of one law. `rounding_bound` is what rounding finer losses
    to levels may add at worst.

    Guarantee (kept): the actions of the kernel keep epsilon and delta over the whole horizon.
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
    alternatives: tuple[Alternative, ...] = ()

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
        """For which losses the bound holds, in words."""
        return METHODS[self.method].holds

    @property
    def nonprivate_bound(self) -> float:
        """The regret bound of multiplicative weights without privacy."""
        return nonprivate_bound(self.experts, self.horizon)

    @property
    def rounding_bound(self) -> float:
        """What rounding losses to levels may add to the regret at worst."""
        return self.horizon / self.levels

    @property
    def vacuous(self) -> bool:
        """Whether the bound is no better than a loss of 1 in every round."""
        return self.regret_bound >= self.horizon

    @property
    def parameters(self) -> str:
        """The parameters of the learner, in words."""
        return METHODS[self.method].parameters(self)

    def kernel(self) -> Kernel[Any]:
        """Return the learner."""
        return METHODS[self.method].make(self)

    def mean_regret(self) -> MeanRegret | None:
        """Return a function for the learner's mean regret on losses fixed in advance; None if it must be played."""
        of = METHODS[self.method].mean_regret
        return None if of is None else of(self)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON values."""
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
    """Return the method with the smallest regret bound, or one by name, with the parameters that minimize its bound.

    Args:
        d: the number of experts, at least 2.
        horizon: the number of rounds, at least 1.
        epsilon: privacy parameter of all actions together, positive.
        delta: in (0, 1); 0 for the method "doubling" alone.
        method: "auto", or one of `METHODS`. "auto" takes the smallest bound that holds for any losses, so never
            "doubling", whose regret can grow as fast as the horizon when losses are no independent draws, nor
            "better-of-two", which finds out in private whether doubling or another learner is better.
        neighbors: "replace": one round's losses become any others; "zero-out": they become zero.
        loss_bits: 8 or 16; losses are counted in 2^loss_bits - 1 levels.

    Guarantee (public_plan): the plan depends on its arguments alone.

    Raises:
        InputError: an argument is out of range.

    Source: `docs/proofs/online.md`.

    Examples:
        >>> plan = plan_experts(1000, 100_000, epsilon=1, delta=1e-6)
        >>> plan.method, plan.batch, round(plan.regret_bound)
        ('dartboard', 3, 1405)
    """
    question = _checked(d, horizon, epsilon, delta, neighbors, loss_bits)
    admitted = _admitted(method, question.promise.delta)
    found = {name: plan for name, each in admitted.items() if (plan := _chosen(each, question, name == method))}
    safe = [name for name in found if METHODS[name].by_itself]
    best = min(safe, key=lambda name: found[name].regret_bound) if method == "auto" else method
    others = sorted(found.keys() - {best}, key=lambda name: (found[name].regret_bound, name))
    alternatives = tuple(Alternative(name, found[name].regret_bound, METHODS[name].holds) for name in others)
    return replace(found[best], method=best, alternatives=alternatives)


@dataclass(frozen=True)
class Question:
    """What a plan is asked for, checked."""

    promise: Promise
    neighbors: Neighbors
    loss_bits: int

    def plan(
        self, batch: int, rate: Fraction, redraw: Fraction, stddev: float | None, regret_bound: float, switches: float
    ) -> ExpertsPlan:
        """Return a plan with these parameters, which does not yet know its method and alternatives."""
        promise = self.promise
        asked = promise.experts, promise.horizon, promise.epsilon, promise.delta, self.neighbors, self.loss_bits
        return ExpertsPlan("", *asked, batch, rate, redraw, stddev, regret_bound, switches)

    def part(self, share: Fraction, **changes: Any) -> "Question":
        """Return the question for a share of epsilon and half of delta."""
        promise = replace(self.promise, epsilon=self.promise.epsilon * share, delta=self.promise.delta / 2, **changes)
        return replace(self, promise=promise)


def _checked(d: int, horizon: int, epsilon: Any, delta: Any, neighbors: str, loss_bits: int) -> Question:
    """Return the checked arguments of a plan."""
    d, horizon = check_integer(d, "d", 2), check_integer(horizon, "horizon")
    if d > MAX_EXPERTS or horizon > MAX_HORIZON:
        raise InputError("must be at most 10^9 and horizon at most 10^12", argument="d")
    share = decimal(delta, "delta")
    if not 0 <= share < 1 or 0 < share < MIN_DELTA:
        pure = " or ".join(repr(name) for name, each in METHODS.items() if each.pure)
        raise InputError(f"must lie in [1e-200, 1), or be 0 for the method {pure}", argument="delta")
    if neighbors not in NEIGHBORS:
        raise InputError("must be 'replace' or 'zero-out'", argument="neighbors")
    if loss_bits not in (8, 16):
        raise InputError("must be 8 or 16", argument="loss_bits")
    relation = NEIGHBORS[neighbors]
    return Question(Promise(d, horizon, positive_epsilon(epsilon), share, SWINGS[relation]), relation, loss_bits)


@dataclass(frozen=True)
class Method:
    """An online method: how it is tuned and made, what it promises, and how it is described.

    Args:
        help: one line on when to use it.
        choose: finds the parameters with the smallest regret bound that keep a promise.
        make: makes the learner of a plan.
        parameters: describes the parameters of a plan.
        mean_regret: makes the function that computes a plan's mean regret; None if the learner must be played.
        worst_case: whether the regret bound holds for any losses.
        caution: what to know about a bound that does not.
        pure: whether it needs no delta.
        by_itself: whether "auto" may choose it: its bound holds for any losses, and it is no mixture of others.
    """

    help: str
    choose: Callable[[Question], ExpertsPlan]
    make: Callable[[ExpertsPlan], Kernel[Any]]
    parameters: Callable[[ExpertsPlan], str]
    mean_regret: Callable[[ExpertsPlan], MeanRegret] | None
    worst_case: bool = True
    caution: str = ""
    pure: bool = False
    by_itself: bool = True

    @property
    def holds(self) -> str:
        """For which losses the bound holds, in words."""
        return "for any losses" if self.worst_case else "for independent draws of one law only"


def _admitted(method: str, delta: Fraction) -> dict[str, Method]:
    """Return the methods that delta admits; refuse a method that it does not admit, or that does not exist."""
    if method != "auto" and method not in METHODS:
        raise InputError(f"must be one of: auto, {', '.join(METHODS)}", argument="method")
    admitted = {name: each for name, each in METHODS.items() if delta or each.pure}
    if not (any(each.by_itself for each in admitted.values()) if method == "auto" else method in admitted):
        raise InputError(
            "must be positive, such as 1e-6: with delta = 0 there is only the method 'doubling', for losses that "
            "are independent draws of one law",
            argument="delta",
        )
    return admitted


def _chosen(method: Method, question: Question, wanted: bool) -> ExpertsPlan | None:
    """Return the plan of a method; None if its noise does not fit into 64 bits, or an error if `wanted`."""
    try:
        return method.choose(question)
    except InputError:
        if wanted:
            raise
        return None


def _switching_plan(question: Question, chains: int, **fixed: Any) -> ExpertsPlan:
    """Plan a learner that keeps its action for a while; `redraw` or `batch` may be fixed."""
    found = tuned(question.promise, chains, **fixed)
    switches = switches_bound(float(found.rate), found.batch, float(found.redraw), question.promise.horizon)
    return question.plan(found.batch, found.rate, found.redraw, None, found.bound, switches)


def _softmax_plan(question: Question, stddev: float, deviation: float) -> ExpertsPlan:
    """Plan a learner that draws in every round from weights on noisy sums."""
    d, rounds = question.promise.experts, question.promise.horizon
    rate = few_bits(softmax_rate(d, rounds, deviation))
    bound = softmax_regret_bound(d, rounds, float(rate), deviation)
    return question.plan(1, rate, Fraction(1), stddev, bound, float(rounds - 1))


def _matrix_factorization_plan(question: Question) -> ExpertsPlan:
    promise = question.promise
    d, rounds = promise.experts, promise.horizon
    stddev = toeplitz_stddev(rounds, d, math.sqrt(d), promise.epsilon, promise.delta)
    return _softmax_plan(question, stddev, ToeplitzSums(rounds, d, stddev).deviation)


def _tree_plan(question: Question) -> ExpertsPlan:
    promise, reach = question.promise, math.sqrt(question.promise.experts)
    sums = partial(GaussianTree, promise.horizon, promise.experts)
    start = reach * math.sqrt(nodes(promise.horizon)) / gaussian_mu(promise.epsilon, promise.delta)
    stddev = least_noise(promise, lambda each: sums(each).privacy_loss(reach, promise.horizon), start)
    return _softmax_plan(question, stddev, sums(stddev).deviation)


def _doubling_plan(question: Question) -> ExpertsPlan:
    promise = question.promise
    rate = promise.epsilon / promise.swing
    bound = doubling_regret_bound(promise.experts, promise.horizon, float(rate))
    return question.plan(1, rate, Fraction(1), None, bound, float(promise.horizon.bit_length() - 1))


DOUBLING_SHARE, CHOOSER_SHARE = Fraction(1, 4), Fraction(1, 4)
"""Shares of epsilon in the better of two; the rest, with half of delta, is that of the learner beside doubling."""


@lru_cache(maxsize=64)
def _beside_doubling(question: Question) -> ExpertsPlan:
    """Plan the learner beside doubling in the better of two: the one that "auto" takes for its share of the promise."""
    part, found = question.part(1 - DOUBLING_SHARE - CHOOSER_SHARE), []
    for name, method in METHODS.items():
        if method.by_itself and (plan := _chosen(method, part, wanted=False)):
            found.append(replace(plan, method=name))
    if not found:
        raise InputError(
            Argument("epsilon"), " or ", Argument("delta"), " is too small for the better of two: take larger ones"
        )
    return min(found, key=lambda plan: plan.regret_bound)


@lru_cache(maxsize=64)
def _chooser(question: Question) -> ExpertsPlan:
    """Plan the learner on two experts that chooses between the two learners."""
    return replace(_matrix_factorization_plan(question.part(CHOOSER_SHARE, experts=2)), method="matrix-factorization")


def _better_of_two_plan(question: Question) -> ExpertsPlan:
    """Plan doubling, another learner, and a third one that learns which of them is better.

    The chooser's experts are the two learners, whose actions do not depend on what it plays: its regret adds to the
    second learner's own. Source: `docs/proofs/doubling.md`.
    """
    promise, second = question.promise, _beside_doubling(question)
    return replace(
        second,
        epsilon=promise.epsilon,
        delta=promise.delta,
        regret_bound=second.regret_bound + _chooser(question).regret_bound,
        expected_switches=float(promise.horizon - 1),
    )


def _make_better_of_two(plan: ExpertsPlan) -> Kernel[Any]:
    promise = Promise(plan.experts, plan.horizon, plan.epsilon, plan.delta, SWINGS[plan.neighbors])
    question = Question(promise, plan.neighbors, plan.loss_bits)
    doubling = _make_doubling(replace(plan, epsilon=plan.epsilon * DOUBLING_SHARE))
    return BetterOfTwo(doubling, _beside_doubling(question).kernel(), _chooser(question).kernel())


def _make_dartboard(plan: ExpertsPlan) -> Kernel[Any]:
    return BatchedDartboard(plan.experts, plan.batch, plan.rate, plan.redraw, plan.levels, plan.neighbors)


def _make_l2p(plan: ExpertsPlan) -> Kernel[Any]:
    measure = MultiplicativeWeightsMeasure(plan.experts, plan.rate, plan.levels)
    return L2P(measure, plan.batch, plan.redraw, plan.neighbors)


def _noise_of(plan: ExpertsPlan) -> float:
    if plan.stddev is None:
        raise InputError(f"must be positive in a plan for {plan.method}", argument="stddev")
    return plan.stddev


def _make_matrix_factorization(plan: ExpertsPlan) -> MatrixFactorization:
    return MatrixFactorization(plan.experts, plan.horizon, plan.rate, _noise_of(plan), plan.levels, plan.neighbors)


def _make_tree(plan: ExpertsPlan) -> TreeNoise:
    return TreeNoise(plan.experts, plan.horizon, plan.rate, None, _noise_of(plan), plan.levels, plan.neighbors)


def _make_doubling(plan: ExpertsPlan) -> Kernel[Any]:
    return DoublingExponential(plan.experts, plan.epsilon, plan.levels, plan.neighbors)


def _switching_words(plan: ExpertsPlan) -> str:
    return (
        f"batches of B = {plan.batch:,} rounds, rate eta = {float(plan.rate):.6g}, redraw probability p = "
        f"{float(plan.redraw):.6g}"
    )


def _noise_words(plan: ExpertsPlan) -> str:
    return f"rate eta = {float(plan.rate):.6g}, noise of standard deviation {rounded_up_text(_noise_of(plan))}"


def _switching_method(help: str, choose: Callable[[Question], ExpertsPlan], make: Any = _make_dartboard) -> Method:
    """Return the row of a method whose actions have the marginals of multiplicative weights in batches."""
    return Method(help, choose, make, _switching_words, lambda plan: weights_regret(float(plan.rate), plan.batch))


METHODS: dict[str, Method] = {
    "dartboard": _switching_method(
        "weights that keep an action until its own losses, or chance, end it: for many experts",
        partial(_switching_plan, chains=1),
    ),
    "matrix-factorization": Method(
        "weights on sums with correlated noise: for few experts or many rounds",
        _matrix_factorization_plan,
        _make_matrix_factorization,
        _noise_words,
        lambda plan: correlated_softmax_regret(_make_matrix_factorization(plan)),
    ),
    "tree": Method(
        "the same with noise from a binary tree: to compare",
        _tree_plan,
        _make_tree,
        _noise_words,
        lambda plan: tree_softmax_regret(_make_tree(plan)),
    ),
    "redraw": _switching_method(
        "the dartboard with a new draw after every batch", partial(_switching_plan, chains=1, redraw=Fraction(1))
    ),
    "shrinking-dartboard": _switching_method(
        "the dartboard in batches of one round", partial(_switching_plan, chains=1, batch=1)
    ),
    "l2p": _switching_method(
        "the dartboard with a reference sequence, as published: to compare",
        partial(_switching_plan, chains=2),
        _make_l2p,
    ),
    "doubling": Method(
        "one draw for each of 1, 2, 4, … rounds: for losses that are independent draws of one law",
        _doubling_plan,
        _make_doubling,
        lambda plan: f"rate eta = {float(plan.rate):.6g}: one draw for each of 1, 2, 4, … rounds",
        lambda plan: doubling_regret(float(plan.rate)),
        worst_case=False,
        caution="The bound of doubling is against the expert that is best on average, where all rounds are independent "
        "draws of one law. Where they are not, its regret can grow as fast as the number of rounds.",
        pure=True,
        by_itself=False,
    ),
    "better-of-two": Method(
        "doubling and the best other method, with a third learner that finds out in private which is better",
        _better_of_two_plan,
        _make_better_of_two,
        lambda plan: _switching_words(plan) if plan.stddev is None else _noise_words(plan),
        None,
        by_itself=False,
    ),
}
"""The online methods, by name: plans, the command line and the reproduction are made from this list."""

"""The methods that a plan can choose from: how each finds its parameters, and the learner that it makes of them."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from labeldp.online.accounting import (
    SWINGS,
    doubling_regret_bound,
    gaussian_mu,
    softmax_rate,
    softmax_regret_bound,
    switches_bound,
)
from labeldp.online.dartboard import BatchedDartboard
from labeldp.online.doubling import DoublingExponential
from labeldp.online.kernel import Kernel
from labeldp.online.l2p import L2P, MultiplicativeWeightsMeasure
from labeldp.online.meta import BetterOfTwo
from labeldp.online.noise import ToeplitzSums, toeplitz_stddev
from labeldp.online.softmax import MatrixFactorization, TreeNoise
from labeldp.online.tree import GaussianTree, nodes
from labeldp.online.tuning import Promise, Tuned, few_bits, least_noise, tuned
from labeldp.privacy import InputError

DOUBLING, CHOOSER = Fraction(1, 4), Fraction(1, 4)
"""Shares of epsilon in the better of two; the rest, with half of delta, is that of the learner beside doubling."""


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
    share = replace(promise, epsilon=promise.epsilon * (1 - DOUBLING - CHOOSER), delta=promise.delta / 2)
    found = {}
    for name, method in METHODS.items():
        if method.by_itself:
            try:
                found[name] = method.choose(share)
            except InputError:  # its noise does not fit
                continue
    if not found:
        raise InputError("epsilon or delta is too small for the better of two: take larger ones")
    best = min(found, key=lambda name: found[name].regret_bound)
    return best, share, found[best]


@lru_cache(maxsize=64)
def _chooser(promise: Promise) -> tuple[Promise, Choice]:
    """The learner on two experts that picks one of the two."""
    share = replace(promise, experts=2, epsilon=promise.epsilon * CHOOSER, delta=promise.delta / 2)
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
    first = replace(plan, epsilon=plan.epsilon * DOUBLING)
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

"""Learners with experts as they are planned: what they promise, and their mean regret over their own coins."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache, partial
from math import log, sqrt
from typing import Any

import numpy as np

from labeldp.online import (
    Kernel,
    MeanRegret,
    OnlinePlan,
    methods_of,
    mw_regret_bound,
    nonprivate_bound,
    plan_experts,
    weights_regret,
)
from papers.online.baselines import MultiplicativeWeights
from papers.online.bounds import theorem_3_2_epsilon

DELTA = 1e-6
FREE, PRINTED, BLIND = "multiplicative-weights", "l2p-printed", "blind"
"""Without privacy; Algorithm 1 by the formula of Theorem 3.2, which is not proven; any expert, at random."""

ANY = "for any losses"
"""Losses for which a bound of the worst case holds."""

REDRAWS = np.geomspace(1e-6, 0.999, 400)
"""Probabilities of a redraw that are tried with Theorem 3.2."""


@dataclass(frozen=True)
class Learner:
    """A method with its parameters.

    Args:
        name: of the method.
        bound: of the regret that it promises.
        holds: for which losses.
        parameters: all of them, public.
        expected: its mean regret for losses that were fixed in advance, of blocks and a seed; None where it must be
            played.
        kernel: the learner itself; None where nothing proves what its actions would cost.
    """

    name: str
    bound: float
    holds: str
    parameters: dict[str, Any]
    expected: MeanRegret | None = field(repr=False)
    kernel: Callable[[], Kernel[Any]] | None = field(default=None, repr=False)


@lru_cache(maxsize=64)
def learners(experts: int, rounds: int, epsilon: float) -> tuple[Learner, ...]:
    """Return every learner with these experts for so many rounds; delta is `DELTA`, neighbors replace one round."""
    plans = [plan_experts(experts, rounds, epsilon, DELTA, method=name) for name in methods_of("experts")]
    blind = Learner(BLIND, float(rounds), ANY, {}, weights_regret(0.0, rounds))
    own = map(_planned, plans)
    return (_free(experts, rounds), *own, printed(experts, rounds, epsilon), blind)


@lru_cache(maxsize=64)
def chosen(experts: int, rounds: int, epsilon: float) -> str:
    """Return the method that a plan takes by itself."""
    return plan_experts(experts, rounds, epsilon, DELTA).method


def _free(experts: int, rounds: int) -> Learner:
    """Return multiplicative weights at their best rate."""
    rate = sqrt(8 * log(experts) / rounds)
    kernel = partial(MultiplicativeWeights, experts, Fraction(rate))
    return Learner(FREE, nonprivate_bound(experts, rounds), ANY, {"eta": rate}, weights_regret(rate, 1), kernel)


def _planned(plan: OnlinePlan) -> Learner:
    """Return a learner as it was planned."""
    parameters = {**plan.parameters, "eta": float(plan.parameters["eta"]), "p": float(plan.parameters["p"])}
    return Learner(
        plan.method, plan.regret_bound, plan.holds, parameters, plan.kernel.mean_regret(), lambda: plan.kernel
    )


def printed(experts: int, rounds: int, epsilon: float) -> Learner:
    """Return Algorithm 1 with the best parameters that Theorem 3.2 allows; nothing proves what it promises."""
    found = [_largest_rate(experts, rounds, epsilon, 1 << power) for power in range(rounds.bit_length() - 1)]
    batch, rate, redraw = min(found, key=lambda each: mw_regret_bound(experts, rounds, each[1], each[0]))
    assert theorem_3_2_epsilon(rate, batch, redraw, rounds, DELTA) <= epsilon
    parameters = {"B": batch, "eta": rate, "p": redraw, "stddev": None}
    bound = mw_regret_bound(experts, rounds, rate, batch)
    return Learner(PRINTED, bound, "for any losses; its privacy is unproven", parameters, weights_regret(rate, batch))


def _largest_rate(experts: int, rounds: int, epsilon: float, batch: int) -> tuple[int, float, float]:
    """Return batch, largest rate at which the formula, a square in the rate, is epsilon, and redraw probability."""
    length = log(2 * rounds / DELTA)
    redraw = REDRAWS[REDRAWS * rounds >= batch]
    load = rounds * redraw / batch
    linear, square = 2 / redraw + 1 + np.sqrt(6 * load) * length, 1.5 * load * length
    rates = 2 * epsilon / (linear + np.sqrt(linear**2 + 4 * square * epsilon))
    free = sqrt(8 * log(experts) / (rounds * batch))
    rates = (1 - 1e-9) * np.minimum(np.minimum(rates, redraw / (batch * length)), min(0.1, free))
    best = int(np.argmax(rates))
    return batch, float(rates[best]), float(redraw[best])

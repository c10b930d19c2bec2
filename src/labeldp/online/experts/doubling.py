"""A learner for losses that are independent draws of one law, and one that chooses between two learners."""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, final

import numpy as np

from labeldp.online.experts.accounting import MeanRegret, expected_doubling
from labeldp.online.experts.kernel import TYPE_OF_LEVELS, Actions, Kernel, Losses, rows_of
from labeldp.online.experts.softmax import plan_softmax
from labeldp.online.planning import ExpertsTask, OnlinePlan, best_plan, experts_plan, methods_of
from labeldp.online.snapshots import KernelState
from labeldp.privacy import (
    UNTIL_MADE,
    Argument,
    InputError,
    Integers,
    PrivacyLoss,
    Randomness,
    Unit,
    as_successive,
    positive_epsilon,
    set_fields,
)
from labeldp.sampling import draw_index


@final
@dataclass(frozen=True)
class DoublingState(KernelState):
    """Between two rounds: their number so far, the sums of this epoch's losses, secret, and the epoch's expert."""

    rounds: int
    totals: Integers = field(repr=False)
    action: int = field(repr=False)


@final
@dataclass(frozen=True)
class DoublingExponential(Kernel[DoublingState]):
    """Plays epochs of 1, 2, 4, … rounds, each with one expert drawn from e^(-rate · losses of the epoch before).

    Use it if rounds are independent draws of one law: then it is far better than any other learner here. Against an
    adversary its regret may grow as fast as the horizon. It needs no horizon.

    Args:
        experts: d, at least 2.
        epsilon: privacy parameter of all actions together, positive, exact.
        levels, neighbors: see `Kernel`; `Unit.ZERO_OUT` lets the rate be twice as large.

    Guarantee (pure, one_use): all actions together are epsilon-DP, exactly, for the emitted bits; each round's losses
        are used in one draw.

    Source: McSherry (2007), Theorem 6, for the draws. Proof: `docs/proofs/online-experts.md`.

    Examples:
        >>> import numpy as np
        >>> kernel = DoublingExponential(experts=3, epsilon=1)
        >>> state = kernel.init(rng=np.random.default_rng(0))
        >>> losses = np.array([[0, 255, 255]] * 7, dtype=np.uint8)
        >>> state, actions = kernel.update(state, losses, rng=np.random.default_rng(1))
        >>> state, len(set(actions[3:]))
        (DoublingState(rounds=7), 1)
    """

    experts: int
    epsilon: Fraction
    levels: int = 255
    neighbors: Unit = Unit.ONE_LOSS

    def __post_init__(self) -> None:
        self._check_common_fields()
        set_fields(self, epsilon=positive_epsilon(self.epsilon))

    @property
    def rate(self) -> Fraction:
        """What a loss of 1 takes off a log-weight: epsilon, or half of it where a loss may move both ways."""
        return self.epsilon if self.neighbors is Unit.ZERO_OUT else self.epsilon / 2

    def init(self, *, rng: Randomness) -> DoublingState:
        return self._drawn(0, np.zeros(self.experts, dtype=np.int64), as_successive(rng))

    def predict(self, state: DoublingState) -> int:
        return state.action

    def update(self, state: DoublingState, losses: Losses, *, rng: Randomness) -> tuple[DoublingState, Actions]:
        rows, randomness = rows_of(losses, self.experts, self.levels), as_successive(rng)
        actions, done = np.empty(len(rows), dtype=np.int64), 0
        while done < len(rows):
            # Epochs end after 1, 3, 7, … rounds.
            end = (1 << (state.rounds + 1).bit_length()) - 1
            part = slice(done, done + end - state.rounds)
            rounds, totals = state.rounds + len(rows[part]), state.totals + rows[part].sums()
            actions[part] = state.action
            done += len(rows[part])
            over = rounds == end
            state = self._drawn(rounds, totals, randomness) if over else DoublingState(rounds, totals, state.action)
        return state, actions

    def _drawn(self, rounds: int, totals: Integers, rng: Randomness) -> DoublingState:
        """Draw the first state of an epoch, after one with these sums of losses."""
        return DoublingState(rounds, np.zeros_like(totals), draw_index(totals, self.rate / self.levels, rng=rng))

    @property
    def words(self) -> str:
        return f"rate eta = {float(self.rate):.6g}: one draw for each of 1, 2, 4, … rounds"

    def mean_regret(self) -> MeanRegret:
        rate = float(self.rate)
        return lambda blocks, seed: expected_doubling(blocks, rate=rate)

    def privacy_loss(self, rounds: int) -> PrivacyLoss:
        return PrivacyLoss.pure(self.epsilon) if rounds else PrivacyLoss.zero()


@final
@dataclass(frozen=True)
class BothState(KernelState):
    """The states of both learners and of the chooser: secret."""

    first: Any
    second: Any
    chooser: Any


@final
@dataclass(frozen=True)
class BetterOfTwo(Kernel[BothState]):
    """Plays what one of two learners plays; a third learner, whose two experts they are, chooses which in each round.

    Use it if one learner is best on easy losses and another in the worst case, such as `DoublingExponential` and
    `BatchedDartboard`: the regret is that of the better one plus the chooser's own, which is small.

    Args:
        first: any learner.
        second: another learner with the same experts, levels and neighbors.
        chooser: a learner on 2 experts, with the same levels and neighbors; expert 0 stands for `first`.

    Guarantee (composed): the privacy loss is that of both learners and of the chooser together.

    Source: Vadhan, where losses follow the actions; adaptive composition else. Proof: `docs/proofs/online-experts.md`.

    Examples:
        >>> import numpy as np
        >>> from labeldp.online import BatchedDartboard, DoublingExponential, MatrixFactorization
        >>> kernel = BetterOfTwo(
        ...     DoublingExponential(experts=5, epsilon=0.5),
        ...     BatchedDartboard(experts=5, batch=1, rate=0.125, redraw=0.25),
        ...     MatrixFactorization(experts=2, horizon=100, rate=0.5, stddev=20),
        ... )
        >>> state = kernel.init(rng=np.random.default_rng(0))
        >>> kernel.predict(state) in range(5)
        True
    """

    first: Kernel[Any]
    second: Kernel[Any]
    chooser: Kernel[Any]
    experts: int = field(init=False, default=UNTIL_MADE)
    levels: int = field(init=False, default=UNTIL_MADE)
    neighbors: Unit = field(init=False, default=UNTIL_MADE)

    def __post_init__(self) -> None:
        if self.first.experts != self.second.experts or self.chooser.experts != 2:
            raise InputError("first and second must have the same experts, and chooser 2 of them")
        if len({(one.levels, one.neighbors) for one in (self.first, self.second, self.chooser)}) > 1:
            raise InputError("first, second and chooser must have the same levels and neighbors")
        for name in ("experts", "levels", "neighbors"):
            set_fields(self, **{name: getattr(self.first, name)})

    def init(self, *, rng: Randomness) -> BothState:
        """Return all three states before the first round."""
        return BothState(*(one.init(rng=as_successive(rng)) for one in (self.first, self.second, self.chooser)))

    def predict(self, state: BothState) -> int:
        follows_second = self.chooser.predict(state.chooser)
        return self.second.predict(state.second) if follows_second else self.first.predict(state.first)

    def update(self, state: BothState, losses: Losses, *, rng: Randomness) -> tuple[BothState, Actions]:
        rows_of(losses, self.experts, self.levels)
        randomness = as_successive(rng)
        first, ones = self.first.update(state.first, losses, rng=randomness)
        second, twos = self.second.update(state.second, losses, rng=randomness)
        costs = np.column_stack([_costs(losses, actions) for actions in (ones, twos)])
        chooser, choices = self.chooser.update(state.chooser, costs.astype(TYPE_OF_LEVELS[self.levels]), rng=randomness)
        return BothState(first, second, chooser), np.where(choices, twos, ones)

    @property
    def words(self) -> str:
        return self.second.words

    def privacy_loss(self, rounds: int) -> PrivacyLoss:
        return self.first.privacy_loss(rounds) + self.second.privacy_loss(rounds) + self.chooser.privacy_loss(rounds)

    @property
    def assumptions(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.first.assumptions + self.second.assumptions + self.chooser.assumptions))


def _costs(losses: Losses, actions: Actions) -> Actions:
    """Return the level of the action of each round."""
    taken = losses[np.arange(len(actions)), actions]
    return taken.toarray() if hasattr(taken, "toarray") else np.asarray(taken)


DOUBLING_SHARE, CHOOSER_SHARE = Fraction(1, 4), Fraction(1, 4)
"""Shares of epsilon in the better of two; the rest, with half of delta, is that of the learner beside doubling."""


def plan_doubling(task: ExpertsTask, method: str) -> OnlinePlan:
    """Plan epochs of doubling length, each with one draw."""
    kernel = DoublingExponential(task.experts, task.epsilon, task.levels, task.neighbors)
    bound = doubling_regret_bound(task.experts, task.horizon, float(kernel.rate))
    return experts_plan(task, method, kernel, kernel.rate, bound, float(task.horizon.bit_length() - 1))


def plan_better_of_two(task: ExpertsTask, method: str) -> OnlinePlan:
    """Plan doubling, the learner that "auto" takes for its share, and a third one that learns which is better.

    The chooser's experts are the two learners, whose actions do not depend on what it plays: its regret adds to the
    second learner's own. Source: `docs/proofs/online-experts.md`.
    """
    entries = (entry for entry in methods_of("experts").values() if entry.by_itself)
    try:
        second = best_plan(task.part(1 - DOUBLING_SHARE - CHOOSER_SHARE), entries, "auto")
    except InputError:
        raise InputError(
            Argument("epsilon"), " or ", Argument("delta"), " is too small for the better of two: take larger ones"
        ) from None
    chooser = plan_softmax(task.part(CHOOSER_SHARE, experts=2), "matrix-factorization")
    doubling = DoublingExponential(task.experts, task.epsilon * DOUBLING_SHARE, task.levels, task.neighbors)
    kernel = BetterOfTwo(doubling, second.kernel, chooser.kernel)
    bound = second.regret_bound + chooser.regret_bound
    return OnlinePlan(method, task, kernel, bound, second.parameters, float(task.horizon - 1))


def doubling_regret_bound(experts: int, horizon: int, rate: float) -> float:
    """Return a bound of the regret of epochs of 1, 2, 4, … rounds, each with one draw on the losses of the last one.

    It is against the expert that is best on average, where the losses of all rounds are independent draws of one law.
    For other losses there is no bound: regret can grow as fast as the horizon.

    Args:
        rate: what a loss of 1 takes off a log-weight of the draw.

    Source: `docs/proofs/online-experts.md`, equation (10).
    """
    total, start, length = 0.0, 0, 1
    while start < horizon:
        rounds, seen = min(length, horizon - start), length // 2
        gap = math.sqrt(math.log(experts) / (2 * seen)) + math.log(experts) / (rate * seen) if seen else 1.0
        total += rounds * min(1.0, gap)
        start, length = start + rounds, 2 * length
    return total

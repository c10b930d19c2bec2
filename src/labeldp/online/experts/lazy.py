"""Lazy players, which keep an action for a batch of rounds or longer, by coins that depend on its newest losses."""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from labeldp.online.experts.accounting import (
    LazyParameters,
    MeanRegret,
    batches_seen,
    l2p_loss,
    switches_bound,
    tuned,
    weights_regret,
)
from labeldp.online.experts.kernel import Actions, Kernel, Losses, Rows, check_top_level, rows_of
from labeldp.online.planning import ExpertsTask, OnlinePlan, experts_plan
from labeldp.online.snapshots import KernelState
from labeldp.privacy import (
    UNTIL_MADE,
    InputError,
    Integers,
    PrivacyLoss,
    Randomness,
    Unit,
    as_successive,
    check_integer,
    check_loss_neighbors,
    exact_positive,
    exact_share,
    set_fields,
)
from labeldp.sampling import draw_index, keep_coins

H = TypeVar("H")
MAX_BATCHES_AHEAD = 4096
"""The largest number of batches whose coins are flipped at once."""


class Measure(Protocol[H]):
    """Laws nu_1, nu_2, … on points, where each multiplies the density of the one before by a product over rounds.

    ln(nu_{s+1}(x) / nu_s(x)) of unnormalized densities is -`unit` times the sum of `costs` over the rounds of batch s,
    for any batches: it depends on the newest losses alone. Costs are integers, so that coins are exact; where
    the true log-ratio is not a multiple of `unit`, `bound` covers the rounding.

    Losses are integers, so that sums do not depend on their order, in anything that has a length and slices of rounds.
    The history is as secret as the losses: a frozen dataclass of integers and arrays, or an array. `play` ignores
    `failure` and `distance`: the kernel charges them for each draw.

    Source: Asi, Assumption 3.1.
    """

    @property
    def unit(self) -> Fraction:
        """One step of a log-density, positive."""

    @property
    def bound(self) -> int:
        """The largest difference of costs between two points, or two losses at a point; eta is unit · bound."""

    @property
    def failure(self) -> Fraction:
        """delta_0, the probability under nu that the bound does not hold."""

    @property
    def distance(self) -> Fraction:
        """The probability that a draw does not have the law nu, added to delta for each draw; 0 if draws are exact."""

    def start(self) -> H:
        """Return the history before the first round."""

    def costs(self, losses: Any, point: Any) -> Integers:
        """Return what each round takes off the log-density at a point, in units, shape (rounds,)."""

    def add(self, history: H, losses: Any) -> H:
        """Return the history after more rounds; the old one is not changed."""

    def draw(self, history: H, *, rng: Randomness) -> Any:
        """Draw a fresh point from nu after this history: an integer, or an array of the measure's shape."""


class ExpertMeasure(Measure[H], Protocol[H]):
    """A measure on experts: a round in which no expert loses anything costs all of them the same."""

    @property
    def experts(self) -> int:
        """The number of experts: points are 0 to experts - 1."""

    @property
    def levels(self) -> int:
        """255 or 65535, the level of a loss of 1."""


@dataclass(frozen=True)
class LazyState(KernelState, Generic[H]):
    """The state of a lazy player between two rounds: as secret as the losses.

    Attributes:
        points: the point that is played and, for L2P, the reference: shape (1,) or (2,), with more axes for arrays.
        costs: the cost of each point in the current batch, shape (1,) or (2,).
        rounds: the number of rounds so far.
    """

    history: H = field(repr=False)
    points: NDArray[Any] = field(repr=False)
    costs: Integers = field(repr=False)
    rounds: int


def begin(measure: Measure[H], chains: int, *, rng: Randomness) -> LazyState[H]:
    """Return the state before the first round: `chains` independent points from the first law."""
    history = measure.start()
    points = np.array([measure.draw(history, rng=as_successive(rng)) for _ in range(chains)])
    return LazyState(history, points, np.zeros(chains, dtype=np.int64), 0)


def batches_ahead(measure: Measure[Any], batch: int, redraw: Fraction) -> int:
    """Return the number of batches whose coins are flipped at once: about twice as many as one point lasts."""
    batches = 2 / (float(redraw) + float(measure.unit) * measure.bound * batch)
    return min(max(int(batches), 1), MAX_BATCHES_AHEAD)


def play(
    measure: Measure[H], batch: int, redraw: Fraction, state: LazyState[H], losses: Any, *, rng: Randomness
) -> tuple[LazyState[H], NDArray[Any]]:
    """Return the state after more rounds, and the point that was played in each, shape (rounds, …).

    After each batch the point is kept with probability (1 - redraw) · e^(-unit · cost), where `cost` is its cost in
    the newest batch. With a reference, `cost` is the difference to the reference's cost plus 2 · batch · bound, at
    least 0, and the reference itself is kept with probability 1 - redraw. A point that is not kept is drawn again from
    the law of the whole history. Coins are flipped for many batches at once; those after the first tails are discarded.

    Source: Asi, Algorithm 1, lines 3 to 18.
    """
    rng, keep, ahead = as_successive(rng), 1 - redraw, batch * batches_ahead(measure, batch, redraw)
    played, runs = [], []
    while len(losses):
        played.append(state.points[0])
        before = state.rounds
        state = _stretch(measure, batch, keep, state, losses[: ahead - before % batch], rng)
        runs.append(state.rounds - before)
        losses = losses[runs[-1] :]
    return state, np.repeat(np.array(played, dtype=state.points.dtype), np.array(runs, dtype=np.intp), axis=0)


def _stretch(
    measure: Measure[H], batch: int, keep: Fraction, state: LazyState[H], losses: Any, rng: Randomness
) -> LazyState[H]:
    """Return the state after these rounds, or after the first batch at whose end a point is drawn again."""
    spent = np.array([measure.costs(losses, point) for point in state.points])
    sums = spent.cumsum(axis=1) + state.costs[:, np.newaxis]
    ends = np.arange(batch - 1 - state.rounds % batch, len(losses), batch)
    costs = sums[:, ends]
    costs[:, 1:] -= costs[:, :-1].copy()
    heads = keep_coins(_exponents(measure, batch, costs), measure.unit, keep, rng=rng)
    [drawn] = np.nonzero(~heads.all(axis=0))
    if not drawn.size:
        left = sums[:, -1] - (sums[:, ends[-1]] if ends.size else 0)
        history = measure.add(state.history, losses)
        return LazyState(history, state.points, left, state.rounds + len(losses))
    used = int(ends[drawn[0]]) + 1
    history = measure.add(state.history, losses[:used])
    points = state.points.copy()
    for chain in np.flatnonzero(~heads[:, drawn[0]]):
        points[chain] = measure.draw(history, rng=rng)
    return LazyState(history, points, np.zeros_like(state.costs), state.rounds + used)


def _exponents(measure: Measure[H], batch: int, costs: Integers) -> Integers:
    """Return the exponent of each chain's coin after each batch, in units, shape (chains, batches)."""
    if len(costs) == 1:
        return costs
    moved = np.maximum(costs[0] - costs[1] + 2 * batch * measure.bound, 0)
    return np.stack([moved, np.zeros_like(moved)])


@final
@dataclass(frozen=True)
class MultiplicativeWeightsMeasure:
    """Experts with weights e^(-rate · summed losses), losses in [0, 1] counted in levels; the draws are exact.

    Args:
        experts: at least 2.
        rate: eta, positive, exact.
        levels: 255 or 65535, the level of a loss of 1.

    Source: Asi, Section 3.1.
    """

    experts: int
    rate: Fraction
    levels: int
    failure = distance = Fraction(0)
    """0: the bound always holds, and draws are exact."""

    def __post_init__(self) -> None:
        set_fields(self, experts=check_integer(self.experts, "experts", 2), rate=exact_positive(self.rate, "rate"))
        check_top_level(self.levels)

    @cached_property
    def unit(self) -> Fraction:
        """What one level takes off a log-weight."""
        return self.rate / self.levels

    @property
    def bound(self) -> int:
        """The level of a loss of 1."""
        return self.levels

    def start(self) -> Integers:
        """Return every expert's sum of losses, in levels, shape (experts,)."""
        return np.zeros(self.experts, dtype=np.int64)

    def costs(self, losses: Rows, point: Any) -> Integers:
        """Return an expert's level in each round, shape (rounds,)."""
        return losses.column(int(point))

    def add(self, history: Integers, losses: Rows) -> Integers:
        """Return the sums with more rounds."""
        return history + losses.sums()

    def draw(self, history: Integers, *, rng: Randomness) -> int:
        """Draw an expert with probability proportional to its weight."""
        return draw_index(history, self.unit, rng=rng)


@final
@dataclass(frozen=True)
class L2P(Kernel[LazyState[Any]]):
    """Lazy play with a reference sequence, in its published form, for any measure on experts.

    Use it to compare: on experts `BatchedDartboard` needs no reference and costs half of the privacy loss. It is not
    the method whose regret the paper states: `docs/theory/corrections.md`.

    Args:
        measure: a measure on experts, such as `MultiplicativeWeightsMeasure`, whose bound never fails: delta_0 = 0.
        batch: rounds that are played with one action, at least 1.
        redraw: p, the probability of a draw whatever the losses were, in (0, 1], exact.
        neighbors: `Unit.ONE_LOSS` or `Unit.ZERO_OUT`.

    Guarantee (switching): switching after a batch depends on the losses of this batch alone.

    Source: Asi, Algorithm 1.
    """

    measure: ExpertMeasure[Any]
    batch: int
    redraw: Fraction
    neighbors: Unit = Unit.ONE_LOSS
    experts: int = field(init=False, default=UNTIL_MADE)
    levels: int = field(init=False, default=UNTIL_MADE)

    def __post_init__(self) -> None:
        if self.measure.failure:
            raise InputError("measure must have a bound that never fails: no other has a proof")
        set_fields(
            self,
            batch=check_integer(self.batch, "batch"),
            redraw=exact_share(self.redraw, "redraw"),
            neighbors=check_loss_neighbors(self.neighbors),
            experts=self.measure.experts,
            levels=self.measure.levels,
        )

    def init(self, *, rng: Randomness) -> LazyState[Any]:
        """Draw the action and the reference independently from the first law."""
        return begin(self.measure, 2, rng=rng)

    def predict(self, state: LazyState[Any]) -> int:
        return int(state.points[0])

    def update(self, state: LazyState[Any], losses: Losses, *, rng: Randomness) -> tuple[LazyState[Any], Actions]:
        rows = rows_of(losses, self.experts, self.levels)
        return play(self.measure, self.batch, self.redraw, state, rows, rng=rng)

    @property
    def words(self) -> str:
        return switching_words(self.batch, self.measure.unit * self.measure.levels, self.redraw)

    def mean_regret(self) -> MeanRegret | None:
        weights = isinstance(self.measure, MultiplicativeWeightsMeasure)
        return weights_regret(float(self.measure.unit * self.measure.levels), self.batch) if weights else None

    def privacy_loss(self, rounds: int) -> PrivacyLoss:
        """Return the loss of releasing both sequences, and what inexact draws add to delta."""
        rate, draws = self.measure.unit * self.measure.bound, 2 * (batches_seen(rounds, self.batch) - 1)
        loss = l2p_loss(rate, self.batch, self.redraw, rounds, self.neighbors)
        inexact = min(draws * self.measure.distance, Fraction(1))
        return loss + PrivacyLoss.failure(inexact) if inexact else loss


def plan_l2p(task: ExpertsTask, method: str) -> OnlinePlan:
    """Plan lazy play with a reference sequence."""
    best = tuned(task.promise, 2)
    measure = MultiplicativeWeightsMeasure(task.experts, best.rate, task.levels)
    return switching_plan(task, method, L2P(measure, best.batch, best.redraw, task.neighbors), best)


def switching_plan(task: ExpertsTask, method: str, kernel: Kernel[Any], best: LazyParameters) -> OnlinePlan:
    """Return the plan of a learner that keeps its action for a while."""
    switches = switches_bound(float(best.rate), best.batch, float(best.redraw), task.horizon)
    return experts_plan(task, method, kernel, best.rate, best.bound, switches, B=best.batch, p=best.redraw)


def switching_words(batch: int, rate: Fraction, redraw: Fraction) -> str:
    """Return the parameters of such a learner, in words."""
    return f"batches of B = {batch:,} rounds, rate eta = {float(rate):.6g}, redraw probability p = {float(redraw):.6g}"

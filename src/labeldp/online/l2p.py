"""Lazy play: an action is kept from batch to batch by coins that read the newest batch alone, or drawn again."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from labeldp.online.draws import keep_coins, source
from labeldp.privacy import Randomness

Integers = NDArray[np.int64]

H = TypeVar("H")

MOST_BATCHES = 4096
"""No more batches than this are looked at with one set of coins."""


class Measure(Protocol[H]):
    """Laws nu_1, nu_2, … on points, each a density times the one before; the density is a product over rounds.

    ln(nu_{s+1}(x) / nu_s(x)) of unnormalized densities is -`unit` times the sum of `costs` over the rounds of batch s,
    for any batches: it depends on the newest losses alone. Costs are integers, so that coins are exact; where
    the true log-ratio is not a multiple of `unit`, the rounding belongs to what `bound` covers.

    Losses are whatever has a length and slices of rounds, one row a round: integers, so that sums do not depend
    on their order. The history is as secret as the losses: a frozen dataclass of integers and arrays, or an array.

    Attributes:
        unit: one step of a log-density.
        bound: no cost differs by more between two points, or between two losses at a point: eta = unit · bound.
        failure: delta_0, the probability under nu that the bound does not hold.
        distance: total variation between one draw and nu; 0 for exact draws.

    Source: Asi, Assumption 3.1; `failure` and `distance` are paid by who plays, for each draw.
    """

    @property
    def unit(self) -> Fraction: ...
    @property
    def bound(self) -> int: ...
    @property
    def failure(self) -> Fraction: ...
    @property
    def distance(self) -> Fraction: ...

    def start(self) -> H:
        """The history before the first round."""

    def costs(self, losses: Any, point: Any) -> Integers:
        """What each round takes off the log-density at a point, in units, shape (rounds,)."""

    def add(self, history: H, losses: Any) -> H:
        """The history after more rounds; the old one stays as it is."""

    def draw(self, history: H, *, rng: Randomness) -> Any:
        """A fresh point from nu after this history: an integer, or an array of the measure's shape."""


@dataclass(frozen=True)
class LazyState(Generic[H]):
    """A lazy player between two rounds: as secret as the losses.

    Attributes:
        points: the point that is played and, for L2P, the reference: shape (1,) or (2,), with one axis more for arrays.
        costs: of each, in the batch that is open, shape (1,) or (2,).
        rounds: how many there were.
    """

    history: H = field(repr=False)
    points: NDArray[Any] = field(repr=False)
    costs: Integers = field(repr=False)
    rounds: int


def begin(measure: Measure[H], chains: int, *, rng: Randomness) -> LazyState[H]:
    """The state before the first round: `chains` independent points from the first law."""
    history = measure.start()
    points = np.array([measure.draw(history, rng=source(rng)) for _ in range(chains)])
    return LazyState(history, points, np.zeros(chains, dtype=np.int64), 0)


def play(
    measure: Measure[H], batch: int, redraw: Fraction, state: LazyState[H], losses: Any, *, rng: Randomness
) -> tuple[LazyState[H], NDArray[Any]]:
    """The state after more rounds, and the point that was played in each, shape (rounds, …).

    After each batch the point is kept with probability (1 - redraw) · e^(-unit · cost), where `cost` is the newest
    batch's at the point; with a reference, it is that cost less the reference's plus 2 · batch · bound, or 0
    where this is negative, and the reference itself is kept with probability 1 - redraw. What is not kept is drawn
    again from the law of the whole history. Coins are flipped for many batches at once; those behind the first
    that is not kept are forgotten.

    Source: Asi, Algorithm 1, lines 3 to 18.
    """
    rng = source(rng)
    ahead = batch * _batches_ahead(redraw + measure.unit * measure.bound * batch)
    played, runs = [], []
    while len(losses):
        played.append(state.points[0])
        before = state.rounds
        state = _stretch(measure, batch, redraw, state, losses[: ahead - before % batch], rng)
        runs.append(state.rounds - before)
        losses = losses[runs[-1] :]
    return state, np.repeat(np.array(played, dtype=state.points.dtype), runs, axis=0)


def _batches_ahead(rate: Fraction) -> int:
    """How many batches to flip coins for: about twice as many as one point lasts, from public numbers."""
    return min(max(int(2 / rate), 1), MOST_BATCHES)


def _stretch(
    measure: Measure[H], batch: int, redraw: Fraction, state: LazyState[H], losses: Any, rng: Randomness
) -> LazyState[H]:
    """The state after these rounds, or after the first batch of them behind which something is drawn again."""
    sums = np.stack([np.cumsum(measure.costs(losses, point)) for point in state.points]) + state.costs[:, np.newaxis]
    ends = np.arange(batch - 1 - state.rounds % batch, len(losses), batch)
    costs = np.diff(sums[:, ends], prepend=0)
    keep = keep_coins(_exponents(measure, batch, costs), measure.unit, 1 - redraw, rng=rng)
    drawn = np.flatnonzero(~keep.all(axis=0))
    if not drawn.size:
        left = sums[:, -1] - (sums[:, ends[-1]] if ends.size else 0)
        history = measure.add(state.history, losses)
        return LazyState(history, state.points, left, state.rounds + len(losses))
    used = int(ends[drawn[0]]) + 1
    history = measure.add(state.history, losses[:used])
    points = state.points.copy()
    for chain in np.flatnonzero(~keep[:, drawn[0]]):
        points[chain] = measure.draw(history, rng=rng)
    return LazyState(history, points, np.zeros_like(state.costs), state.rounds + used)


def _exponents(measure: Measure[H], batch: int, costs: Integers) -> Integers:
    """What each chain's coin costs after each batch, in units, shape (chains, batches)."""
    if len(costs) == 1:
        return costs
    moved = np.maximum(costs[0] - costs[1] + 2 * batch * measure.bound, 0)
    return np.stack([moved, np.zeros_like(moved)])

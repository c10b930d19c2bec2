"""The batched dartboard: coins decide after each batch whether the action stays."""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import numpy as np

from labeldp.online.experts.accounting import MeanRegret, dartboard_loss, tuned, weights_regret
from labeldp.online.experts.kernel import Actions, Kernel, Losses, Rows, rows_of
from labeldp.online.experts.lazy import (
    LazyState,
    MultiplicativeWeightsMeasure,
    batches_ahead,
    begin,
    switching_plan,
    switching_words,
)
from labeldp.online.planning import ExpertsTask, OnlinePlan
from labeldp.privacy import (
    Integers,
    PrivacyLoss,
    Randomness,
    Unit,
    Words,
    as_successive,
    check_integer,
    check_loss_neighbors,
    exact_share,
    set_fields,
)
from labeldp.sampling import ExponentialWeights, KeepCoin, fresh_words

FEW_EXPERTS = 32
"""Up to so many experts, draws that no coin asks for are made together."""
WORDS_AHEAD = 1 << 16
"""How many words are read at once; at least as many as `batches_ahead` says."""
FEW_WEIGHTS = 1 << 18
"""About how many weights are looked at together."""


@final
@dataclass(frozen=True)
class BatchedDartboard(Kernel[LazyState[Integers]]):
    """Multiplicative weights that rarely draw: the action is kept with probability (1 - p) · e^(-eta · its loss).

    The loss is that of the action in the newest batch of B rounds; an action that is not kept is drawn again from the
    weights of all rounds so far. Use it for many experts and any losses. The regret is at most
    ln d / eta + eta · T · B / 8 whatever p is; `plan_experts` chooses p and B for privacy.

    Args:
        experts: d, at least 2.
        batch: B, rounds that are played with one action, at least 1.
        rate: eta, positive, exact.
        redraw: p, the probability of a draw whatever the losses were, in (0, 1], exact.
        levels, neighbors: see `Kernel`.

    Guarantee (law, switching): in every batch the action has exactly the law of multiplicative weights on the batches
        before; switching after a batch depends on the action's losses in this batch alone.

    Source: Asi, Algorithm 1, without its second sequence, which experts do not need.
    Proof: `docs/proofs/sampling.md`.

    Examples:
        >>> import numpy as np
        >>> kernel = BatchedDartboard(experts=3, batch=2, rate=0.125, redraw=0.25)
        >>> state = kernel.init(rng=np.random.default_rng(0))
        >>> losses = np.array([[0, 255, 255]] * 6, dtype=np.uint8)
        >>> state, actions = kernel.update(state, losses, rng=np.random.default_rng(1))
        >>> state, len(actions)
        (LazyState(rounds=6), 6)
    """

    experts: int
    batch: int
    rate: Fraction
    redraw: Fraction
    levels: int = 255
    neighbors: Unit = Unit.ONE_LOSS
    measure: MultiplicativeWeightsMeasure = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        measure = MultiplicativeWeightsMeasure(self.experts, self.rate, self.levels)
        set_fields(
            self,
            batch=check_integer(self.batch, "batch"),
            measure=measure,
            rate=measure.rate,
            redraw=exact_share(self.redraw, "redraw"),
            neighbors=check_loss_neighbors(self.neighbors),
        )

    @classmethod
    def shrinking(
        cls, experts: int, rate: Any, redraw: Any, levels: int = 255, neighbors: Unit = Unit.ONE_LOSS
    ) -> "BatchedDartboard":
        """Return the dartboard without batches, B = 1: the private shrinking dartboard.

        Source: Asi, Section 3.
        """
        return cls(experts, 1, rate, redraw, levels, neighbors)

    def init(self, *, rng: Randomness) -> LazyState[Integers]:
        return begin(self.measure, 1, rng=rng)

    def predict(self, state: LazyState[Integers]) -> int:
        return int(state.points[0])

    def update(
        self, state: LazyState[Integers], losses: Losses, *, rng: Randomness
    ) -> tuple[LazyState[Integers], Actions]:
        rows, source = rows_of(losses, self.experts, self.levels), as_successive(rng)
        rounds = len(rows)
        ending = (state.rounds % self.batch + rounds) // self.batch
        words = fresh_words(source, min(ending, self._ahead))
        largest = words.item() if ending == 1 else words.max(initial=0)
        if largest < self._heads_below and ending <= self._ahead:
            state = self._after(state, rows, rounds, state.history + rows.sums(), state.points)
            return state, state.points.repeat(rounds)
        course = _Course(self, state, rows, source)
        self._flip(course, words, ending)
        return course.end()

    def _flip(self, course: "_Course", words: Words, ending: int) -> None:
        """Flip the coins at the ends of all batches, and draw an action after each one that says tails.

        As in `play`, the coins of a stretch come before the word of the draw that ends it, and those behind the first
        tails are discarded. No word is read that `play` would not read.

        Args:
            words: the first ones, no more than there are batches.
            ending: the number of batches that end, at least 1.
        """
        ends, drawn, first, batch = course.ends, course.words, course.first, self.batch
        if self.redraw == 1:  # no coins
            ends += range(first, first + ending * batch, batch)
            drawn += [*words.tolist(), *fresh_words(course.rng, ending - len(words)).tolist()]
            return
        ahead, tails_from, heads = self._ahead, self._coin.tails_from, self._coin.heads
        suspects, values = self._suspects(words)
        done = position = i = 0  # batches that ended, words that were asked for, suspects before them
        while done < ending:
            size = ahead if done + ahead <= ending else ending - done
            if position + size > len(words):
                more = fresh_words(course.rng, min(ending - done, WORDS_AHEAD) - (len(words) - position))
                words, position, i = np.concatenate([words[position:], more]), 0, 0
                suspects, values = self._suspects(words)
            while suspects[i] < position:
                i += 1
            while (suspect := suspects[i]) < position + size:
                end = first + (done + suspect - position) * batch
                if values[i] >= tails_from or not heads(values[i], course.cost(end), course.rng):
                    break
                i += 1
            else:
                done, position = done + size, position + size
                continue
            done, position = done + suspect - position + 1, position + size
            if position == len(words):
                words, position, i, suspects = fresh_words(course.rng, 1), 0, 0, [1]
            ends.append(end)
            drawn.append(words.item(position))
            position += 1

    def _suspects(self, words: Words) -> tuple[list[int], list[int]]:
        """Return the places of the words that may mean tails, the end last, and their values."""
        places = np.flatnonzero(words >= np.uint64(self._heads_below))
        return [*places.tolist(), len(words)], words[places].tolist()

    def _after(
        self, state: LazyState[Integers], rows: Rows, count: int, history: Integers, points: Actions
    ) -> LazyState[Integers]:
        """Return the state after `count` more rounds with these sums, the last of them played with these points."""
        rounds, costs = state.rounds + count, _NOTHING
        if left := rounds % self.batch:
            carried = state.costs if left > count else _NOTHING
            costs = carried + rows.spent(max(count - left, 0), count, int(points[0]))
        return LazyState(history, points, costs, rounds)

    @cached_property
    def _coin(self) -> KeepCoin:
        return KeepCoin(self.measure.unit, 1 - self.redraw)

    @cached_property
    def _ahead(self) -> int:
        return batches_ahead(self.measure, self.batch, self.redraw)

    @cached_property
    def _heads_below(self) -> int:
        """A word below which all words keep the action, whatever it lost in a batch."""
        return self._coin.heads_below(self.batch * self.levels)

    @property
    def words(self) -> str:
        return switching_words(self.batch, self.rate, self.redraw)

    def mean_regret(self) -> MeanRegret:
        return weights_regret(float(self.rate), self.batch)

    def privacy_loss(self, rounds: int) -> PrivacyLoss:
        return dartboard_loss(self.rate, self.batch, self.redraw, rounds, self.neighbors)


def plan_dartboard(task: ExpertsTask, method: str) -> OnlinePlan:
    """Plan the dartboard; a method of another name fixes the redraw probability or the batch."""
    redraw, batch = Fraction(1) if method == "redraw" else None, 1 if method == "shrinking-dartboard" else None
    best = tuned(task.promise, 1, redraw=redraw, batch=batch)
    kernel = BatchedDartboard(task.experts, best.batch, best.rate, best.redraw, task.levels, task.neighbors)
    return switching_plan(task, method, kernel, best)


_NOTHING = np.zeros(1, dtype=np.int64)


class _Course:
    """The draws of one call, each by a separate word from the weights of all rounds before it.

    A draw is made when a coin asks for its action. With few experts, those that no coin asks for are made together.

    Attributes:
        ends: for each draw how many rounds lie before it, the first one of an action that was drawn before.
        words: the first 64 bits of each draw.
    """

    def __init__(self, kernel: BatchedDartboard, state: LazyState[Integers], rows: Rows, rng: Randomness) -> None:
        self.rng, self.ends, self.words = rng, [0], [0]
        self.first = kernel.batch - state.rounds % kernel.batch
        """The number of rounds up to the end of the first batch."""
        self._kernel, self._state, self._rows = kernel, state, rows
        self._weights = ExponentialWeights(kernel.measure.unit)
        self._actions = [int(state.points[0])]
        self._history, self._summed = state.history, 0  # the sums before the draw of this number
        self._totals: list[Integers] = []
        self._asked: dict[int, int] = {}
        self._wait = FEW_WEIGHTS // kernel.experts if kernel.experts <= FEW_EXPERTS else 0

    def cost(self, end: int) -> int:
        """Return what the newest action lost in the batch that ends after so many rounds."""
        newest, begin = len(self.ends) - 1, end - self._kernel.batch
        action = self._asked.get(newest)
        if action is None:
            action = self._drawn(newest)
        if begin >= 0:
            return self._rows.spent(begin, end, action)
        return int(self._state.costs[0]) + self._rows.spent(0, end, action)

    def end(self) -> tuple[LazyState[Integers], Actions]:
        """Return the state after all rounds, and the actions in them."""
        self._draw_all()
        rounds, actions = len(self._rows), np.array(self._actions)
        history = self._history + self._rows.sums(self.ends[-1])
        played = np.repeat(actions, np.diff([*self.ends, rounds]))
        return self._kernel._after(self._state, self._rows, rounds, history, actions[-1:].copy()), played

    def _drawn(self, newest: int) -> int:
        """Return the newest action, which is drawn if it was not before."""
        if newest - len(self._actions) >= self._wait:
            self._draw_all()
        if newest < len(self._actions):
            return self._actions[newest]
        self._sum_up()
        action = self._asked[newest] = self._weights.index(self._history, self.words[newest], self.rng)
        return action

    def _sum_up(self, count: int | None = None) -> None:
        """Sum the losses up to each of the next draws, by default all."""
        ends = self.ends[self._summed :][:count]
        if len(ends) > 1:
            totals = np.add.accumulate(self._rows.pieces(ends)) + self._history
            self._totals.append(totals)
            self._history = totals[-1]
            self._summed += len(ends) - 1

    def _draw_all(self) -> None:
        if not self._wait:
            for i in range(len(self._actions), len(self.ends)):
                self._history = self._history + self._rows.sums(self.ends[i - 1], self.ends[i])
                self._actions.append(self._weights.index(self._history, self.words[i], self.rng))
        while len(self._actions) < len(self.ends):
            self._sum_up(self._wait)
            totals, done = np.concatenate(self._totals), len(self._actions)
            words = np.array(self.words[done : done + len(totals)], dtype=np.uint64)
            drawn = self._weights.indices(totals, words, self.rng).tolist()
            self._actions += [self._asked.get(done + i, action) for i, action in enumerate(drawn)]
            self._totals = []
        self._asked = {}


ShrinkingDartboard = BatchedDartboard.shrinking
"""The Shrinking Dartboard of private online learning: one expert at a time, with fewer changes than redraws."""

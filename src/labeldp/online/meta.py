"""Two learners, and a third that privately learns which of them to follow."""

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from labeldp.online.kernel import Actions, Kernel, Losses
from labeldp.online.rows import LEVELS, rows_of
from labeldp.privacy import InputError, Neighbors, PrivacyLoss, Randomness, as_successive


@final
@dataclass(frozen=True)
class BothState:
    """The states of both learners and of the one that chooses: secret."""

    first: Any
    second: Any
    chooser: Any


@final
@dataclass(frozen=True)
class BetterOfTwo(Kernel[BothState]):
    """Plays what one of two learners plays; a learner on two experts, those two, chooses which, round by round.

    Use it where one learner is best on kind data and another on bad days, such as `DoublingExponential` and
    `BatchedDartboard`: the regret is that of the better one, and the chooser's own on top, which is small.

    Args:
        first: any learner.
        second: another one on the same experts, levels and neighbors.
        chooser: a learner on 2 experts, with the same levels and neighbors; expert 0 stands for `first`.

    Guarantee: the privacy loss is that of both learners and of the chooser together.

    Source: Vadhan, where losses follow the actions; adaptive composition else. Proof: `docs/proofs/doubling.md`.

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
    experts: int = field(init=False)
    levels: int = field(init=False)
    neighbors: Neighbors = field(init=False)

    def __post_init__(self) -> None:
        if self.first.experts != self.second.experts or self.chooser.experts != 2:
            raise InputError("first and second must have the same experts, and chooser 2 of them")
        if len({(one.levels, one.neighbors) for one in (self.first, self.second, self.chooser)}) > 1:
            raise InputError("first, second and chooser must have the same levels and neighbors")
        for name in ("experts", "levels", "neighbors"):
            object.__setattr__(self, name, getattr(self.first, name))

    def init(self, *, rng: Randomness) -> BothState:
        """All three before their first round."""
        return BothState(*(one.init(rng=as_successive(rng)) for one in (self.first, self.second, self.chooser)))

    def predict(self, state: BothState) -> int:
        """The expert of the coming round; draws nothing."""
        follows_second = self.chooser.predict(state.chooser)
        return self.second.predict(state.second) if follows_second else self.first.predict(state.first)

    def update(self, state: BothState, losses: Losses, *, rng: Randomness) -> tuple[BothState, Actions]:
        """The state after more rounds, and what was played in them."""
        rows_of(losses, self.experts, self.levels)
        randomness = as_successive(rng)
        first, ones = self.first.update(state.first, losses, rng=randomness)
        second, others = self.second.update(state.second, losses, rng=randomness)
        costs = np.column_stack([_costs(losses, actions) for actions in (ones, others)])
        chooser, choices = self.chooser.update(state.chooser, costs.astype(LEVELS[self.levels]), rng=randomness)
        return BothState(first, second, chooser), np.where(choices, others, ones)

    def privacy_loss(self, rounds: int) -> PrivacyLoss:
        """What all actions that may be seen after the losses of so many rounds reveal of one round's losses."""
        of_learners = self.first.privacy_loss(rounds) + self.second.privacy_loss(rounds)
        return of_learners + self.chooser.privacy_loss(rounds)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the guarantees of the three depend on."""
        return tuple(dict.fromkeys(self.first.assumptions + self.second.assumptions + self.chooser.assumptions))


def _costs(losses: Losses, actions: Actions) -> Actions:
    """The level of the action of each round."""
    taken = losses[np.arange(len(actions)), actions]
    return taken.toarray() if hasattr(taken, "toarray") else np.asarray(taken)

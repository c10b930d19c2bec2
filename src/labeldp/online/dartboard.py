"""The batched private dartboard: multiplicative weights whose action stays as long as coins on its losses say."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, final

from labeldp.online.accounting import dartboard_loss
from labeldp.online.checks import one_loss, share, whole
from labeldp.online.kernel import Actions, Kernel, Losses
from labeldp.online.l2p import Integers, LazyState, MultiplicativeWeightsMeasure, begin, play
from labeldp.online.rows import rows_of
from labeldp.privacy import Neighbors, PrivacyLoss, Randomness


@final
@dataclass(frozen=True)
class BatchedDartboard(Kernel[LazyState[Integers]]):
    """Multiplicative weights that draw seldom: the action is kept with probability (1 - p) · e^(-eta · its loss).

    The loss is the action's in the newest batch of B rounds; otherwise the action is drawn from the weights of all
    rounds so far. Use it for many experts and losses that nobody can foresee; the regret is at most
    ln d / eta + eta · T · B / 8 whatever p is, and p and B are chosen for privacy: `plan_experts`.

    Args:
        experts: d, at least 2.
        batch: B, rounds that are played with one action, at least 1.
        rate: eta, positive, exact.
        redraw: p, the probability of a draw whatever the losses were, in (0, 1], exact.
        levels: 255 or 65535, the level of a loss of 1.
        neighbors: `Neighbors.ONE_LOSS` or `Neighbors.ZERO_OUT`.

    Guarantee: in every batch the action has exactly the law of multiplicative weights on the batches before;
        switching after a batch depends on the action's losses in this batch alone.

    Source: Asi, Algorithm 1, without its second sequence, which experts do not need.
    Proof: `docs/proofs/draws.md`.

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
    neighbors: Neighbors = Neighbors.ONE_LOSS

    def __post_init__(self) -> None:
        whole("batch", self.batch, 1)
        object.__setattr__(self, "rate", self.measure.rate)
        object.__setattr__(self, "redraw", share("redraw", self.redraw))
        object.__setattr__(self, "neighbors", one_loss(self.neighbors))

    @cached_property
    def measure(self) -> MultiplicativeWeightsMeasure:
        """The weights."""
        return MultiplicativeWeightsMeasure(self.experts, self.rate, self.levels)

    def init(self, *, rng: Randomness) -> LazyState[Integers]:
        """Any expert, with equal probability."""
        return begin(self.measure, 1, rng=rng)

    def predict(self, state: LazyState[Integers]) -> int:
        """The expert of the coming round; draws nothing."""
        return int(state.points[0])

    def update(
        self, state: LazyState[Integers], losses: Losses, *, rng: Randomness
    ) -> tuple[LazyState[Integers], Actions]:
        """The state after more rounds, and what was played in them."""
        rows = rows_of(losses, self.experts, self.levels)
        return play(self.measure, self.batch, self.redraw, state, rows, rng=rng)

    def privacy_loss(self, rounds: int) -> PrivacyLoss:
        """What all actions that may be seen after the losses of so many rounds reveal of one round's losses."""
        return dartboard_loss(self.rate, self.batch, self.redraw, rounds, self.neighbors)


def ShrinkingDartboard(experts: int, rate: Any, redraw: Any, **options: Any) -> BatchedDartboard:
    """The dartboard without batches, B = 1; options as for `BatchedDartboard`.

    Source: Asi, Section 3, where it is the private shrinking dartboard of earlier work.
    """
    return BatchedDartboard(experts, 1, rate, redraw, **options)


def PlainRedraw(experts: int, batch: int, rate: Any, **options: Any) -> BatchedDartboard:
    """The exponential mechanism after every batch, p = 1: nothing is kept; options as for `BatchedDartboard`."""
    return BatchedDartboard(experts, batch, rate, Fraction(1), **options)

"""Learners on experts that draw in every round from weights on noisy sums of losses."""

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Generic, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from labeldp.online.experts.kernel import Actions, Kernel, Losses, rows_of
from labeldp.online.prefix_sums import (
    GaussianTree,
    HasRounds,
    LaplaceTree,
    NoisySums,
    SumsState,
    ToeplitzSums,
    TreeState,
    nodes,
)
from labeldp.online.snapshots import State
from labeldp.privacy import (
    Floats,
    InputError,
    Neighbors,
    PrivacyLoss,
    Randomness,
    as_successive,
    check_integer,
    exact_positive,
    set_fields,
)
from labeldp.sampling import fresh_words

S = TypeVar("S", bound=HasRounds)
BLOCK_LOSSES, MIN_BLOCK_ROUNDS = 1 << 18, 32
"""How many losses are processed at a time, and in how many rounds at least."""


@final
@dataclass(frozen=True)
class SoftmaxState(State, Generic[S]):
    """Between two rounds: the state of the noisy sums, secret, and the expert of the coming round."""

    sums: S
    action: int = field(repr=False)


class NoisySoftmax(Kernel[SoftmaxState[S]]):
    """Multiplicative weights on noisy sums: in round t an expert is drawn from e^(-rate · (losses before t + noise)).

    The noisy sums are charged; draws from them cost nothing. With Gaussian noise whose standard deviation in a sum
    never falls and is at most s, regret is at most ln d / rate + rate · (T/8 + s^2/2): `docs/proofs/online.md`, (9).
    """

    horizon: int
    rate: Fraction

    @property
    @abstractmethod
    def sums(self) -> NoisySums[S]:
        """The noisy sums of losses, in units of 1."""

    def init(self, *, rng: Randomness) -> SoftmaxState[S]:
        """Draw any expert, with equal probability."""
        start = np.zeros((1, self.experts))
        return SoftmaxState(self.sums.init(), int(softmax_draws(start, 0.0, rng=as_successive(rng))[0]))

    def predict(self, state: SoftmaxState[S]) -> int:
        return state.action

    def update(self, state: SoftmaxState[S], losses: Losses, *, rng: Randomness) -> tuple[SoftmaxState[S], Actions]:
        """Return the state after more rounds, and the actions in them.

        Raises:
            InputError: there are more rounds than the horizon, or losses are no levels.
        """
        rows_of(losses, self.experts, self.levels)
        randomness, size = as_successive(rng), max(BLOCK_LOSSES // self.experts, MIN_BLOCK_ROUNDS)
        drawn = [np.array([state.action])]
        within = state.sums
        for start in range(0, losses.shape[0], size):
            levels = losses[start : start + size]
            vectors = (levels.toarray() if hasattr(levels, "toarray") else levels) / self.levels
            within, sums = self._step(within, vectors, randomness)
            drawn.append(softmax_draws(sums, float(self.rate), rng=randomness))
        actions = np.concatenate(drawn)
        return SoftmaxState(within, int(actions[-1])), actions[:-1]

    def _step(self, state: S, vectors: NDArray[Any], rng: Randomness) -> tuple[S, Floats]:
        """Return the state of the sums after more rounds, and the sums that weights are made of."""
        return self.sums.step(state, vectors, rng=rng)

    def _check_fields(self) -> None:
        """Check and store the fields that both kernels have."""
        self._check_common_fields()
        set_fields(self, horizon=check_integer(self.horizon, "horizon"), rate=exact_positive(self.rate, "rate"))


def softmax_draws(sums: Floats, rate: float, *, rng: Randomness) -> Actions:
    """Draw an index for each row, with probability proportional to e^(-rate · sum), shape (rounds,).

    Doubles suffice: the sums were released already.
    """
    weights = sums - sums.min(axis=1, keepdims=True)
    weights *= -rate
    np.exp(weights, out=weights)
    edges = np.cumsum(weights, axis=1, out=weights)
    uniform = (fresh_words(rng, len(sums)) >> np.uint64(11)) * 2.0**-53
    return np.minimum((edges <= (uniform * edges[:, -1])[:, None]).sum(axis=1), sums.shape[1] - 1)


@final
@dataclass(frozen=True)
class MatrixFactorization(NoisySoftmax[SumsState]):
    """Multiplicative weights on sums whose Gaussian noise is correlated over rounds, nearly in the best way.

    Use it for up to about a thousand experts, more for a long horizon: the noise grows with the square root of their
    number, but hardly with the horizon. It holds about 35 numbers per expert in memory.

    Args:
        experts: d, at least 2.
        horizon: most rounds, at least 1.
        rate: eta, positive.
        stddev: the noise's standard deviation before it is correlated, for losses in [0, 1]; that of a sum is up to
            `toeplitz_factor(horizon).row` times as large. `toeplitz_stddev` finds it.
        levels: 255 or 65535, the level of a loss of 1.
        neighbors: `Neighbors.ONE_LOSS` or `Neighbors.ZERO_OUT`, at the same price.

    Guarantee (gaussian, prefix): all actions together have Gaussian differential privacy with mu = sqrt(experts) *
        column norm / stddev, and what rounding adds; after fewer rounds mu is that of the column's first entries.

    Source: Agarwal, follow-the-regularized-leader, with the noise of Henzinger (2023). Proof: `docs/proofs/sums.md`.

    Examples:
        >>> import numpy as np
        >>> kernel = MatrixFactorization(experts=3, horizon=1000, rate=0.1, stddev=20)
        >>> kernel.privacy_loss(1000).epsilon(1e-6) < 1
        True
        >>> state = kernel.init(rng=np.random.default_rng(0))
        >>> losses = np.array([[0, 255, 255]] * 6, dtype=np.uint8)
        >>> state, actions = kernel.update(state, losses, rng=np.random.default_rng(1))
        >>> state, len(actions)
        (SoftmaxState(sums=SumsState(rounds=6, width=3)), 6)
    """

    experts: int
    horizon: int
    rate: Fraction
    stddev: float
    levels: int = 255
    neighbors: Neighbors = Neighbors.ONE_LOSS

    def __post_init__(self) -> None:
        self._check_fields()
        set_fields(self, stddev=self.sums.stddev)

    @cached_property
    def sums(self) -> ToeplitzSums:
        """The noisy sums of losses, in units of 1."""
        return ToeplitzSums(self.horizon, self.experts, self.stddev)

    def privacy_loss(self, rounds: int) -> PrivacyLoss:
        return self.sums.privacy_loss(math.sqrt(self.experts), min(rounds, self.horizon))


@final
@dataclass(frozen=True)
class TreeNoise(NoisySoftmax[TreeState]):
    """Multiplicative weights on sums of the nodes of a binary tree over the rounds, each with fresh noise.

    A sum of fewer nodes than others gets fresh noise for those that it lacks, so that the noise has the same law in
    every round. Use it for a promise with delta = 0, or to compare: its Gaussian noise is about four times that of
    `MatrixFactorization` for a million rounds.

    Args:
        experts: d, at least 2.
        horizon: most rounds, at least 1.
        rate: eta, positive.
        epsilon: privacy parameter of all actions together, positive, exact, for Laplace noise. Give this or `stddev`.
        stddev: the standard deviation of Gaussian noise in every node, for losses in [0, 1].
        levels: 255 or 65535, the level of a loss of 1.
        neighbors: `Neighbors.ONE_LOSS` or `Neighbors.ZERO_OUT`, at the same price.

    Guarantee (pure, gaussian): with Laplace noise all actions together are epsilon-DP, exactly; with Gaussian noise
        they have Gaussian differential privacy with mu = sqrt(experts * nodes) / stddev, and what rounding adds.

    Source: Agarwal, follow-the-regularized-leader with noise from a tree. Proof: `docs/proofs/sums.md`.
    """

    experts: int
    horizon: int
    rate: Fraction
    epsilon: Fraction | None = None
    stddev: float | None = None
    levels: int = 255
    neighbors: Neighbors = Neighbors.ONE_LOSS

    def __post_init__(self) -> None:
        self._check_fields()
        if (self.epsilon is None) == (self.stddev is None):
            raise InputError("give one of epsilon, for Laplace noise, and stddev, for Gaussian noise")
        if self.epsilon is not None:
            set_fields(self, epsilon=exact_positive(self.epsilon, "epsilon"))
        _ = self.sums  # refuses noise that does not fit

    @cached_property
    def sums(self) -> GaussianTree | LaplaceTree:
        """The noisy sums of losses, in units of 1."""
        if self.stddev is not None:
            return GaussianTree(self.horizon, self.experts, self.stddev)
        share = exact_positive(self.epsilon, "epsilon") / (self.experts * nodes(self.horizon))
        return LaplaceTree(self.horizon, self.experts, share, self.levels)

    def _step(self, state: TreeState, vectors: NDArray[Any], rng: Randomness) -> tuple[TreeState, Floats]:
        """Return the state of the sums after more rounds, and the sums with noise for the nodes that they lack."""
        after, sums = self.sums.step(state, vectors, rng=rng)
        return after, self.sums.evened(sums, after.rounds, rng=rng)

    def privacy_loss(self, rounds: int) -> PrivacyLoss:
        reach = self.experts if self.stddev is None else math.sqrt(self.experts)
        return self.sums.privacy_loss(reach, min(rounds, self.horizon))

"""Learners on experts that draw in every round from weights on noisy sums of losses."""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Generic, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from labeldp.online.experts.accounting import MeanRegret, PrivacyTarget, expected_softmax, few_bits, gaussian_mu
from labeldp.online.experts.kernel import Actions, Kernel, Losses, rows_of
from labeldp.online.planning import ExpertsTask, OnlinePlan, experts_plan
from labeldp.online.prefix_sums import (
    GaussianTree,
    HasRounds,
    LaplaceTree,
    NoisyPrefixSums,
    SumsState,
    ToeplitzSums,
    TreeState,
    nodes,
    toeplitz_stddev,
)
from labeldp.online.snapshots import KernelState
from labeldp.privacy import (
    Argument,
    Floats,
    InputError,
    PrivacyLoss,
    Randomness,
    Unit,
    as_successive,
    check_integer,
    exact_positive,
    rounded_up_text,
    set_fields,
    smallest,
)
from labeldp.sampling import fresh_words

S = TypeVar("S", bound=HasRounds)
BLOCK_LOSSES, MIN_BLOCK_ROUNDS = 1 << 18, 32
"""How many losses are processed at a time, and in how many rounds at least."""


@final
@dataclass(frozen=True)
class SoftmaxState(KernelState, Generic[S]):
    """Between two rounds: the state of the noisy sums, secret, and the expert of the coming round."""

    sums: S
    action: int = field(repr=False)


class NoisySoftmax(Kernel[SoftmaxState[S]]):
    """Multiplicative weights on noisy sums: in round t an expert is drawn from e^(-rate · (losses before t + noise)).

    The noisy sums are charged; draws from them cost nothing. With Gaussian noise whose standard deviation in a sum
    never falls and is at most s, regret is at most ln d / rate + rate · (T/8 + s^2/2):
    `docs/proofs/online-experts.md`, (9).
    """

    horizon: int
    rate: Fraction
    stddev: float | None

    @property
    @abstractmethod
    def sums(self) -> NoisyPrefixSums[S]:
        """The noisy sums of losses, in units of 1."""

    def init(self, *, rng: Randomness) -> SoftmaxState[S]:
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

    @property
    def words(self) -> str:
        noise = (
            "Laplace noise" if self.stddev is None else f"noise of standard deviation {rounded_up_text(self.stddev)}"
        )
        return f"rate eta = {float(self.rate):.6g}, {noise}"

    def _mean_regret(self, deviation: Callable[[NDArray[np.intp]], Floats]) -> MeanRegret:
        rate = float(self.rate)
        return lambda blocks, seed: expected_softmax(blocks, rate=rate, deviation=deviation, seed=seed)

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
        levels, neighbors: see `Kernel`; both relations have the same price.

    Guarantee (gaussian, prefix): all actions together have Gaussian differential privacy with mu = sqrt(experts) *
        column norm / stddev, and what rounding adds; after fewer rounds mu is that of the column's first entries.

    Source: Agarwal, follow-the-regularized-leader, with the noise of Henzinger (2023).
    Proof: `docs/proofs/online-experts.md`.

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
    neighbors: Unit = Unit.ONE_LOSS

    def __post_init__(self) -> None:
        self._check_fields()
        set_fields(self, stddev=self.sums.stddev)

    @cached_property
    def sums(self) -> ToeplitzSums:
        """The noisy sums of losses, in units of 1."""
        return ToeplitzSums(self.horizon, self.experts, self.stddev)

    def mean_regret(self) -> MeanRegret:
        """Return a function for the mean regret.

        The noise grows as for the square root of the matrix of sums, to which the factor is close: within 2 %.
        """
        k = np.arange(1, self.horizon)
        squares = np.cumsum(np.r_[0.0, 1.0, np.cumprod((2 * k - 1) / (2 * k)) ** 2])
        return self._mean_regret(lambda rounds: self.sums.deviation * np.sqrt(squares[rounds] / squares[-1]))

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
        levels, neighbors: see `Kernel`; both relations have the same price.

    Guarantee (pure, gaussian): with Laplace noise all actions together are epsilon-DP, exactly; with Gaussian noise
        they have Gaussian differential privacy with mu = sqrt(experts * nodes) / stddev, and what rounding adds.

    Source: Agarwal, follow-the-regularized-leader with noise from a tree. Proof: `docs/proofs/online-experts.md`.
    """

    experts: int
    horizon: int
    rate: Fraction
    epsilon: Fraction | None = None
    stddev: float | None = None
    levels: int = 255
    neighbors: Unit = Unit.ONE_LOSS

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

    def mean_regret(self) -> MeanRegret:
        """Return a function for the mean regret.

        The noise is the same in every round but the first, in which all experts are alike, and noise changes nothing.
        """
        return self._mean_regret(lambda rounds: np.full(len(rounds), self.sums.deviation))

    def privacy_loss(self, rounds: int) -> PrivacyLoss:
        reach = self.experts if self.stddev is None else math.sqrt(self.experts)
        return self.sums.privacy_loss(reach, min(rounds, self.horizon))


def plan_softmax(task: ExpertsTask, method: str) -> OnlinePlan:
    """Plan a learner that draws in every round from weights on noisy sums."""
    d, rounds, promise = task.experts, task.horizon, task.promise
    sums: NoisyPrefixSums[Any]
    kernel: Kernel[Any]
    if method == "tree":
        reach, tree = math.sqrt(d), partial(GaussianTree, rounds, d)
        start = reach * math.sqrt(nodes(rounds)) / gaussian_mu(task.epsilon, task.delta)
        stddev = least_noise(promise, lambda noise: tree(noise).privacy_loss(reach, rounds), start)
        sums = tree(stddev)
    else:
        stddev = toeplitz_stddev(rounds, d, math.sqrt(d), task.epsilon, task.delta)
        sums = ToeplitzSums(rounds, d, stddev)
    rate = few_bits(softmax_rate(d, rounds, sums.deviation))
    if method == "tree":
        kernel = TreeNoise(d, rounds, rate, None, stddev, task.levels, task.neighbors)
    else:
        kernel = MatrixFactorization(d, rounds, rate, stddev, task.levels, task.neighbors)
    bound = softmax_regret_bound(d, rounds, float(rate), sums.deviation)
    return experts_plan(task, method, kernel, rate, bound, float(rounds - 1), stddev=stddev)


def softmax_rate(experts: int, horizon: float, deviation: float) -> float:
    """Return the rate that makes `softmax_regret_bound` smallest."""
    return math.sqrt(math.log(experts) / (horizon / 8 + deviation**2 / 2))


def softmax_regret_bound(experts: int, horizon: float, rate: float, deviation: float) -> float:
    """Return ln d / eta + eta (T / 8 + s^2 / 2), a bound of the expected regret of softmax draws from noisy sums.

    It holds for Gaussian noise whose standard deviation in a sum never falls.

    Args:
        deviation: s, the largest standard deviation of the noise on a sum.

    Source: `docs/proofs/online-experts.md`, equation (9).
    """
    return math.log(experts) / rate + rate * (horizon / 8 + deviation**2 / 2)


def least_noise(promise: PrivacyTarget, loss: Callable[[float], PrivacyLoss], start: float) -> float:
    """Return the smallest standard deviation whose loss keeps a guarantee, at most 1e-7 of it too large.

    Args:
        loss: the privacy loss of noise with a given standard deviation.
        start: a lower bound that is nearly enough.

    Guarantee (kept): the noise keeps the promise.

    Raises:
        InputError: a thousand times `start` is not enough.
    """

    def keeps(stddev: float) -> bool:
        return loss(stddev).within(promise.epsilon, promise.delta)

    low, high = start, start * (1 + 1e-7)
    while not keeps(high):
        low, high = high, high + 8 * (high - low)
        if high > 1000 * start:
            raise InputError(
                Argument("epsilon"),
                " or ",
                Argument("delta"),
                " is too small for integer noise of 64 bits: take larger ones",
            )
    return smallest(keeps, low, high, tol=1e-7)

"""Noisy prefix sums of vectors, round after round: noise correlated over rounds, or on the nodes of a binary tree."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import gaussian_loss
from labeldp.online.snapshots import KernelState
from labeldp.privacy import (
    Floats,
    InputError,
    Integers,
    PrivacyLoss,
    Randomness,
    as_successive,
    check_integer,
    exact_positive,
    positive_epsilon,
    set_fields,
    smallest_positive,
)
from labeldp.sampling import MIN_RATE, WIDE_STDDEV, discrete_gaussian, discrete_laplace, successive

BLOCK_ROUNDS, BLOCK_WIDTH = 32, 2048
"""How many rounds (more for short vectors) and how many numbers of each vector are summed at a time, for the cache."""
TREE_BLOCK_ROUNDS = 256
"""How many rounds of short vectors a tree sums at a time."""
MAX_EXACT = 2.0**52
"""Half of the largest integer up to which doubles hold all integers."""
QUADRATURE_STEP, QUADRATURE_REACH = 2.5, 4.0
"""Distance of the nodes of the quadrature, in the logarithm, and how far they go beyond 1 / horizon and 1."""


class HasRounds(Protocol):
    """A state that counts the rounds so far."""

    @property
    def rounds(self) -> int:
        """The number of rounds so far."""


S = TypeVar("S", bound=HasRounds)


class NoisyPrefixSums(ABC, Generic[S]):
    """Prefix sums of vectors, released with noise round after round: a frozen, public description.

    Args:
        horizon: the most rounds, at least 1.
        width: numbers in a vector, at least 1.

    Guarantee (causal): the sum after t rounds depends on the first t vectors alone.
    """

    horizon: int
    width: int

    @abstractmethod
    def init(self) -> S:
        """Return the state before the first round: secret."""

    @abstractmethod
    def step(self, state: S, vectors: NDArray[Any], *, rng: Randomness) -> tuple[S, Floats]:
        """Return the state after more rounds, and the noisy sums of all vectors up to each of them.

        Args:
            vectors: shape (rounds, width), with entries from -1 to 1.

        Returns:
            Sums of shape (rounds, width).
        """

    @abstractmethod
    def privacy_loss(self, reach: float, rounds: int) -> PrivacyLoss:
        """Return what the sums of the first `rounds` rounds reveal of one vector.

        Args:
            reach: the largest Euclidean distance between a vector and its replacement.
        """

    @property
    @abstractmethod
    def deviation(self) -> float:
        """The largest standard deviation of the noise in a sum."""

    def _check_sizes(self) -> None:
        set_fields(self, horizon=check_integer(self.horizon, "horizon"), width=check_integer(self.width, "width"))

    def _check(self, state: S, vectors: NDArray[Any]) -> None:
        if vectors.ndim != 2 or vectors.shape[1] != self.width:
            raise InputError(f"vectors must have shape (rounds, {self.width})")
        if state.rounds + len(vectors) > self.horizon:
            raise InputError(f"there are more rounds than the horizon of {self.horizon}: plan for more of them")
        if vectors.size and not (vectors.min() >= -1 and vectors.max() <= 1):
            raise InputError("vectors must have entries from -1 to 1")


@final
@dataclass(frozen=True)
class SumsState(KernelState):
    """The state of `ToeplitzSums`: secret, since it holds exact sums.

    Attributes:
        rounds: the number of rounds so far.
        exact, errors: exponentially weighted sums of the vectors, and their rounding errors.
        public: the same sums of the vectors that follow from the releases.
        total: the last released sum.
    """

    rounds: int
    exact: Floats
    errors: Floats
    public: Floats
    total: Floats

    def __repr__(self) -> str:
        return f"SumsState(rounds={self.rounds}, width={len(self.total)})"

    def part(self, columns: slice) -> "SumsState":
        """Return the state of some of the columns."""
        arrays = (self.exact, self.errors, self.public, self.total)
        return SumsState(self.rounds, *(array[..., columns] for array in arrays))

    @classmethod
    def joined(cls, parts: "list[SumsState]") -> "SumsState":
        """Return the state of all columns."""
        arrays = zip(*((one.exact, one.errors, one.public, one.total) for one in parts), strict=True)
        return cls(parts[0].rounds, *(np.concatenate(some, axis=-1) for some in arrays))


@final
@dataclass(frozen=True)
class ToeplitzFactor:
    """A factorization A = B C of the prefix-sum matrix, where C is a sum of exponentials near the square root of A.

    C is lower triangular and Toeplitz with coefficients c_k = sum_j weights[j] (1 - gaps[j])^k, a quadrature of
    C(2k, k) / 4^k = 1/pi int_0^1 t^k (t (1 - t))^(-1/2) dt, so that few numbers hold all past rounds. C x + noise is
    released; multiplying by B is post-processing.

    Guarantee (never_below): `column` is never below the norm of the first column of C.

    Source: Henzinger (2023), for the square root; Dvijotham (2024), for sums of exponentials.
    """

    horizon: int
    gaps: Floats = field(repr=False)
    weights: Floats = field(repr=False)

    def column(self, rounds: int | None = None) -> float:
        """Return the norm of C's longest column in its first `rounds` rows (default: the horizon), rounded up."""
        count = self.horizon if rounds is None else rounds
        return (1 + 1e-9) * math.sqrt(_gram(self.weights, self.gaps, count)) if count else 0.0

    @cached_property
    def row(self) -> float:
        """The norm of B's longest row: the last sum's standard deviation for noise of standard deviation 1."""
        gaps, weights = _inverse(self.gaps, self.weights)
        first = 1 / self.weights.sum()
        return math.sqrt(_gram(weights, gaps, self.horizon) - weights.sum() ** 2 + first**2)

    @property
    def product(self) -> float:
        """The product of both norms, at least `square_root_norm(horizon)`."""
        return self.column() * self.row

    @property
    def reach(self) -> float:
        """A bound of the sum of |C x| over exponentials if no |x| exceeds 1."""
        return float((self.weights * np.minimum(1 / self.gaps, self.horizon)).sum())


class _Block(NamedTuple):
    """Matrices for a block of rounds.

    Attributes:
        within, inverse: C for the rounds of the block, and its inverse.
        earlier: takes the state's weighted sums to what earlier rounds add to C x.
        later: takes the vectors of the block to what they add to the weighted sums.
        gone, left: the shares of a weighted sum that are lost and that remain after each number of rounds.
    """

    within: Floats
    inverse: Floats
    earlier: Floats
    later: Floats
    gone: Floats
    left: Floats

    @classmethod
    def of(cls, factor: ToeplitzFactor, rows: int) -> "_Block":
        exponents = np.arange(rows + 1)[:, None] * np.log1p(-factor.gaps)
        powers = np.exp(exponents)
        lags = np.subtract.outer(np.arange(rows), np.arange(rows))
        within = np.where(lags >= 0, (powers @ factor.weights)[np.abs(lags)], 0.0)
        later = powers[rows - 1 :: -1].T.copy()
        return cls(within, np.linalg.inv(within), powers[1:] * factor.weights, later, -np.expm1(exponents), powers)


@final
@dataclass(frozen=True)
class ToeplitzSums(NoisyPrefixSums[SumsState]):
    """Prefix sums A x = B (C x + Gaussian noise), where C is near the square root of A.

    C x is rounded to a grid and gets exact discrete Gaussian noise; the sums are computed from that. The rounding
    before the noise is bounded and charged; that after it costs nothing.

    Args:
        stddev: standard deviation of the noise on C x, positive; that of a sum is at most `deviation`.

    Guarantee (gaussian): Gaussian differential privacy with mu = reach * column norm / stddev, up to the rounding that
        is charged on top, for the emitted bits, also where vectors depend on earlier releases.

    Source: Denisov (2022), Theorem 2.1, for vectors chosen late; Henzinger (2023) for C.
    Proof: `docs/proofs/online-experts.md`.
    """

    horizon: int
    width: int
    stddev: float

    def __post_init__(self) -> None:
        self._check_sizes()
        set_fields(self, stddev=float(exact_positive(self.stddev, "stddev")))
        if not self.factor.reach * self.scale <= MAX_EXACT:
            raise InputError(f"is too small for sums of {self.horizon} rounds: take at least 1e-3", argument="stddev")

    @property
    def factor(self) -> ToeplitzFactor:
        """The factor C, with the norms of B and C."""
        return toeplitz_factor(self.horizon)

    @property
    def scale(self) -> float:
        """The number of grid steps in 1."""
        return WIDE_STDDEV / self.stddev

    @property
    def deviation(self) -> float:
        return self.stddev * self.factor.row

    @property
    def rounding(self) -> float:
        """The largest error of doubles in an entry of C x: `docs/proofs/online-experts.md`."""
        return 2.0**-52 * (2 * self.rows + len(self.factor.gaps) + 40) * self.factor.reach

    def privacy_loss(self, reach: float, rounds: int) -> PrivacyLoss:
        if not rounds:
            return PrivacyLoss.zero()
        cells = rounds * self.width
        steps = reach * self.factor.column(rounds) * self.scale
        steps += math.sqrt(cells) * (1 + 2 * self.rounding * self.scale)
        return gaussian_loss(math.ceil(Fraction(steps * (1 + 1e-12)) ** 2), WIDE_STDDEV, cells)

    @property
    def rows(self) -> int:
        """The number of rounds that are summed at a time."""
        return min(max(BLOCK_ROUNDS, 4096 // self.width), 8 * BLOCK_ROUNDS)

    @cached_property
    def _block(self) -> _Block:
        return _Block.of(self.factor, self.rows)

    def init(self) -> SumsState:
        zeros = np.zeros((len(self.factor.gaps), self.width))
        return SumsState(0, zeros, zeros, zeros, zeros[0])

    def step(self, state: SumsState, vectors: NDArray[Any], *, rng: Randomness) -> tuple[SumsState, Floats]:
        self._check(state, vectors)
        randomness, sums, states = as_successive(rng), np.empty(vectors.shape), []
        for first in range(0, self.width, BLOCK_WIDTH):
            columns = slice(first, first + BLOCK_WIDTH)
            one = state.part(columns)
            for start in range(0, len(vectors), self.rows):
                part = slice(start, start + self.rows), columns
                one, sums[part] = self._rows(one, vectors[part].astype(np.float64), randomness)
            states.append(one)
        return SumsState.joined(states), sums

    def _rows(self, state: SumsState, vectors: Floats, rng: Randomness) -> tuple[SumsState, Floats]:
        """Return the state after a block of rounds, for some columns, and the noisy sums."""
        count, block = len(vectors), self._block
        exact = block.within[:count, :count] @ vectors + block.earlier[:count] @ state.exact
        noise = discrete_gaussian(successive(rng, exact.size), WIDE_STDDEV).reshape(exact.shape)
        released = (np.rint(exact * self.scale) + noise) / self.scale
        # Only what was released enters what follows, except for the two sums that stay secret.
        followed = block.inverse[:count, :count] @ (released - block.earlier[:count] @ state.public)
        sums = state.total + np.cumsum(followed, axis=0)
        later, gone = block.later[:, self.rows - count :], block.gone[count][:, None]
        high, errors = _added(state.exact, later @ vectors - gone * state.exact, state.errors)
        public = block.left[count][:, None] * state.public + later @ followed
        return SumsState(state.rounds + count, high, errors, public, sums[-1]), sums


def _added(large: Floats, small: Floats, error: Floats) -> tuple[Floats, Floats]:
    """Return large + small + error as a double and its error, by the sums of Knuth and, for the third, Dekker."""
    total = large + small
    part = total - large
    error = error + ((large - (total - part)) + (small - part))
    high = total + error
    return high, error - (high - total)


def toeplitz_stddev(horizon: int, width: int, reach: float, epsilon: Any, delta: Any) -> float:
    """Return the smallest standard deviation with which `ToeplitzSums` keeps a budget; see `smallest_stddev`."""
    return smallest_stddev(lambda stddev: ToeplitzSums(horizon, width, stddev), reach, epsilon, delta)


def smallest_stddev(sums: Callable[[float], NoisyPrefixSums[Any]], reach: float, epsilon: Any, delta: Any) -> float:
    """Return the smallest standard deviation, to 1e-6 of it, with which noisy sums keep (epsilon, delta).

    Args:
        sums: makes the noisy sums from the standard deviation; it may refuse noise that is too small for its grid.
        reach: the largest Euclidean distance between a vector and its replacement.

    Raises:
        InputError: no noise does, as for delta = 0.
    """
    positive_epsilon(epsilon)

    def keeps(stddev: float) -> bool:
        try:
            noisy = sums(stddev)
            return noisy.privacy_loss(reach, noisy.horizon).within(epsilon, delta)
        except InputError:
            return False

    stddev = smallest_positive(keeps, tol=1e-6, limit=2.0**60)
    if stddev is None:
        raise InputError("is too small for Gaussian noise on so many rounds: take a larger one", argument="delta")
    return stddev


def square_root_norm(horizon: int) -> float:
    """Return c_T, the product of both norms of the square root: the sum of (C(2k, k) / 4^k)^2 for k < horizon.

    Source: Fichtenberger (2023), Theorem 1, and Henzinger (2023); the first 4096 terms, and the integral of the others.
    """
    head = min(horizon, 4096)
    numbers = np.arange(1, head)
    squares = float((np.cumprod(np.r_[1.0, (2 * numbers - 1) / (2 * numbers)]) ** 2).sum())
    # C(2k, k)^2 / 16^k = (1 - 1 / (4 k) + O(1 / k^2)) / (pi k), and so 1 / (pi (k + 1/4)) up to O(1 / k^3).
    return squares + math.log((horizon - 0.25) / (head - 0.25)) / math.pi


@lru_cache(maxsize=64)
def toeplitz_factor(horizon: int) -> ToeplitzFactor:
    """Return the factor for a horizon: its product is within 1 % of `square_root_norm(horizon)`.

    It takes microseconds for any horizon: both norms are closed forms.

    Raises:
        InputError: the horizon is not an integer of at least 1.
    """
    horizon = check_integer(horizon, "horizon")
    low = -(math.log(horizon) + QUADRATURE_REACH)
    places = low + QUADRATURE_STEP * np.arange(math.ceil((QUADRATURE_REACH - low) / QUADRATURE_STEP) + 1)
    gaps, shares = 1 / (1 + np.exp(-places)), 1 / (1 + np.exp(places))
    return ToeplitzFactor(horizon, gaps, QUADRATURE_STEP / math.pi * np.sqrt(gaps * shares))


def _gram(weights: Floats, gaps: Floats, count: int) -> float:
    """Return the sum over k < count of (sum_j weights[j] (1 - gaps[j])^k)^2, by geometric sums."""
    both = gaps[:, None] + gaps - gaps[:, None] * gaps
    with np.errstate(divide="ignore", invalid="ignore"):
        sums = np.where(both > 0, -np.expm1(count * np.log1p(-both)) / both, count)
    return float((weights[:, None] * weights * sums).sum())


def _inverse(gaps: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the gaps and weights of B = A C^-1, whose coefficients after the first are sums of exponentials.

    1 / sum_j weights[j] / (gaps[j] - s) has one pole between every two gaps, and A adds one at 0.
    """
    low, high = gaps[:-1].copy(), gaps[1:].copy()
    for _ in range(80):
        middle = (low + high) / 2
        above = (weights / (gaps - middle[:, None])).sum(axis=1) > 0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    poles = (low + high) / 2
    slopes = (weights / (gaps - poles[:, None]) ** 2).sum(axis=1)
    return np.r_[0.0, poles], np.r_[1 / (weights / gaps).sum(), 1 / (poles * slopes * (1 - poles))]


def nodes(rounds: int) -> int:
    """Return the largest number of released nodes that contain one vector after `rounds` rounds.

    Only nodes that begin a pair are released, one at the end of each round; the first vector is in those that end at a
    power of two.
    """
    return rounds.bit_length()


@final
@dataclass(frozen=True)
class TreeState(KernelState):
    """Between two rounds: their number so far, the exact sum, secret, and the noise of its nodes from each level up."""

    rounds: int
    total: Integers = field(repr=False)
    noise: Integers = field(repr=False)

    def __repr__(self) -> str:
        return f"TreeState(rounds={self.rounds}, width={len(self.total)})"


class TreeSums(NoisyPrefixSums[TreeState]):
    """Prefix sums A x, each a sum of released nodes of a binary tree over the rounds.

    Node t sums the 2^j rounds up to t, for the largest 2^j that divides t, and gets fresh noise z_t. The sum after t
    rounds is that of the nodes t, t & (t - 1), and so on, so its noise is z_t plus that of round t & (t - 1).
    """

    horizon: int
    width: int

    @abstractmethod
    def grid(self, vectors: NDArray[Any]) -> Integers:
        """Round vectors to integers, in units."""

    @abstractmethod
    def noise(self, rng: Randomness, count: int) -> Integers:
        """Draw `count` integers of noise."""

    @abstractmethod
    def together(self, rng: Randomness, counts: Integers) -> Floats:
        """Draw for each entry the summed noise of `counts` nodes, in units."""

    @property
    @abstractmethod
    def unit(self) -> float:
        """The value of an integer of 1."""

    @property
    def rows(self) -> int:
        """The number of rounds that are summed at a time."""
        return max(TREE_BLOCK_ROUNDS * 64 // (self.width + 64), 16)

    def init(self) -> TreeState:
        depth = nodes(self.horizon)
        return TreeState(0, np.zeros(self.width, dtype=np.int64), np.zeros((depth + 1, self.width), dtype=np.int64))

    def step(self, state: TreeState, vectors: NDArray[Any], *, rng: Randomness) -> tuple[TreeState, Floats]:
        self._check(state, vectors)
        randomness, sums = as_successive(rng), np.empty(vectors.shape)
        for start in range(0, len(vectors), self.rows):
            part = slice(start, start + self.rows)
            state, whole_sums = self._rows(state, self.grid(vectors[part]), randomness)
            np.multiply(whole_sums, self.unit, out=sums[part])
        return state, sums

    def evened(self, sums: Floats, rounds: int, *, rng: Randomness) -> Floats:
        """Add fresh noise to released sums for the nodes that they lack, so that all have noise of the same law.

        Args:
            sums: the sums of consecutive rounds, shape (rounds, width).
            rounds: the number of rounds in the last sum.
        """
        times = np.arange(rounds - len(sums) + 1, rounds + 1)
        lacking = _most_nodes(self.horizon) - np.bitwise_count(times).astype(np.int64)
        randomness, evened = as_successive(rng), np.empty(sums.shape)
        for start in range(0, len(sums), self.rows):
            part = slice(start, start + self.rows)
            counts = np.broadcast_to(lacking[part, None], sums[part].shape)
            evened[part] = sums[part] + self.unit * self.together(randomness, counts)
        return evened

    def _rows(self, state: TreeState, vectors: Integers, rng: Randomness) -> tuple[TreeState, Integers]:
        """Return the state after a block of rounds and the noisy sums, in integers."""
        count, depth = len(vectors), len(state.noise)
        times = np.arange(state.rounds + 1, state.rounds + count + 1)
        noise = self.noise(rng, vectors.size).reshape(vectors.shape)
        levels = np.log2(times & -times).astype(np.int64)
        parents = (times & (times - 1)) - state.rounds - 1
        for level in range(int(levels.max(initial=0)), -1, -1):
            at = np.flatnonzero(levels == level)
            inside = parents[at] >= 0
            noise[at[inside]] += noise[parents[at[inside]]]
            noise[at[~inside]] += state.noise[level]
        sums = state.total + np.cumsum(vectors, axis=0)
        last = state.rounds + count
        roots = np.array([(last >> level << level) - state.rounds - 1 for level in range(depth)])
        root_noise = np.where((roots >= 0)[:, None], noise[roots.clip(min=0)], state.noise)
        return TreeState(last, sums[-1], root_noise), sums + noise


@final
@dataclass(frozen=True)
class GaussianTree(TreeSums):
    """The tree with exact discrete Gaussian noise, for vectors of real numbers.

    Args:
        stddev: standard deviation of the noise of a node, positive.

    Guarantee (gaussian): Gaussian differential privacy with mu = reach * sqrt(nodes) / stddev, up to the rounding that
        is charged on top, for the emitted bits, also where vectors depend on earlier releases.

    Source: Dwork (2010) and Chan (2011), with Gaussian noise. Proof: `docs/proofs/online-experts.md`.
    """

    horizon: int
    width: int
    stddev: float

    def __post_init__(self) -> None:
        self._check_sizes()
        set_fields(self, stddev=float(exact_positive(self.stddev, "stddev")))
        if not max(self.horizon, 512) / self.unit <= 2**61:
            raise InputError(f"is too small for sums of {self.horizon} rounds: take a larger one", argument="stddev")

    @property
    def unit(self) -> float:
        """One step of the grid: the noise has a standard deviation of `WIDE_STDDEV` of them."""
        return self.stddev / WIDE_STDDEV

    @property
    def deviation(self) -> float:
        return self.stddev * math.sqrt(_most_nodes(self.horizon))

    def grid(self, vectors: NDArray[Any]) -> Integers:
        """Round to the grid; ties and doubles may take a neighboring point."""
        return np.rint(vectors * (1 / self.unit)).astype(np.int64)

    def noise(self, rng: Randomness, count: int) -> Integers:
        return discrete_gaussian(successive(rng, count), WIDE_STDDEV)

    def together(self, rng: Randomness, counts: Integers) -> Floats:
        """Draw one Gaussian of their variance."""
        return np.sqrt(counts) * discrete_gaussian(successive(rng, counts.size), WIDE_STDDEV).reshape(counts.shape)

    def privacy_loss(self, reach: float, rounds: int) -> PrivacyLoss:
        if not rounds:
            return PrivacyLoss.zero()
        # Rounding to the grid moves each number by half a step, and so does, at most, the product before it.
        steps = (reach / self.unit + 2 * math.sqrt(self.width)) * (1 + 1e-12)
        square = math.ceil(nodes(rounds) * Fraction(steps) ** 2)
        return gaussian_loss(square, WIDE_STDDEV, rounds * self.width)


@final
@dataclass(frozen=True)
class LaplaceTree(TreeSums):
    """The tree with exact discrete Laplace noise, for vectors of multiples of 1 / levels.

    Args:
        epsilon: the cost of moving a number by 1 in one node, positive, exact; a node's noise has scale 1 / epsilon.
        levels: numbers are rounded to multiples of 1 / levels first.

    Guarantee (pure): a rounded vector that moves by `reach` in the sum of its numbers' moves costs at most
        epsilon * reach * nodes, exactly, for the emitted bits, also where vectors depend on earlier releases.

    Source: Dwork (2010) and Chan (2011). Proof: `docs/proofs/online-experts.md`.
    """

    horizon: int
    width: int
    epsilon: Fraction
    levels: int

    def __post_init__(self) -> None:
        self._check_sizes()
        levels, epsilon = check_integer(self.levels, "levels"), exact_positive(self.epsilon, "epsilon")
        set_fields(self, levels=levels, epsilon=epsilon)
        if self.rate < MIN_RATE:
            raise InputError(
                "is too small for integer noise of 64 bits: take fewer rounds, experts or levels", argument="epsilon"
            )

    @property
    def rate(self) -> Fraction:
        """The rate of the noise: an integer i has probability proportional to e^(-rate * |i|)."""
        return self.epsilon / self.levels

    @property
    def unit(self) -> float:
        return 1 / self.levels

    @property
    def deviation(self) -> float:
        return math.sqrt(2 * _most_nodes(self.horizon)) / float(self.epsilon)

    def grid(self, vectors: NDArray[Any]) -> Integers:
        """Round to multiples of 1 / levels."""
        return np.rint(vectors * float(self.levels)).astype(np.int64)

    def noise(self, rng: Randomness, count: int) -> Integers:
        return discrete_laplace(successive(rng, count), self.rate)

    def together(self, rng: Randomness, counts: Integers) -> Floats:
        """Draw a sum of Laplace noise draws, one for each node."""
        noise = np.zeros(counts.shape)
        for node in range(int(counts.max(initial=0))):
            at = counts > node
            noise[at] += discrete_laplace(successive(rng, int(at.sum())), self.rate)
        return noise

    def privacy_loss(self, reach: float, rounds: int) -> PrivacyLoss:
        """Return what the sums of the first `rounds` rounds reveal of one vector.

        Args:
            reach: the largest distance between a rounded vector and its replacement, unlike with Gaussian noise in
                the sum of absolute differences.
        """
        return PrivacyLoss.pure(self.epsilon * Fraction(reach) * nodes(rounds)) if rounds else PrivacyLoss.zero()


def _most_nodes(rounds: int) -> int:
    """Return the largest number of ones in the binary digits of a number up to `rounds`."""
    return (rounds + 1).bit_length() - 1

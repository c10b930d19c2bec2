"""Noisy prefix sums as sums of the nodes of a binary tree, exact in integers."""

from abc import abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, sqrt
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import gaussian_loss
from labeldp.online.charging import State
from labeldp.online.noisy_sums import NoisySums
from labeldp.privacy import (
    Floats,
    InputError,
    Integers,
    PrivacyLoss,
    Randomness,
    as_successive,
    check_integer,
    exact_positive,
    set_fields,
)
from labeldp.sampling import MIN_RATE, WIDE_STDDEV, wide_gaussian, wide_laplace

BLOCK_ROUNDS = 256
"""How many rounds of short vectors are summed at a time."""


def nodes(rounds: int) -> int:
    """Return the largest number of released nodes that contain one vector after `rounds` rounds.

    Only nodes that begin a pair are released, one at the end of each round; the first vector is in those that end at a
    power of two.
    """
    return rounds.bit_length()


@final
@dataclass(frozen=True)
class TreeState(State):
    """Between two rounds: their number so far, the exact sum, secret, and the noise of its nodes from each level up."""

    rounds: int
    total: Integers = field(repr=False)
    noise: Integers = field(repr=False)

    def __repr__(self) -> str:
        return f"TreeState(rounds={self.rounds}, width={len(self.total)})"


class TreeSums(NoisySums[TreeState]):
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
        return max(BLOCK_ROUNDS * 64 // (self.width + 64), 16)

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
        randomness, found = as_successive(rng), np.empty(sums.shape)
        for start in range(0, len(sums), self.rows):
            part = slice(start, start + self.rows)
            counts = np.broadcast_to(lacking[part, None], sums[part].shape)
            found[part] = sums[part] + self.unit * self.together(randomness, counts)
        return found

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
        kept = np.where((roots >= 0)[:, None], noise[roots.clip(min=0)], state.noise)
        return TreeState(last, sums[-1], kept), sums + noise


@final
@dataclass(frozen=True)
class GaussianTree(TreeSums):
    """The tree with exact discrete Gaussian noise, for vectors of real numbers.

    Args:
        horizon: most rounds, at least 1.
        width: numbers in a vector, at least 1.
        stddev: standard deviation of the noise of a node, positive.

    Guarantee (gaussian): Gaussian differential privacy with mu = reach * sqrt(nodes) / stddev, up to the rounding that
        is charged on top, for the emitted bits, also where vectors depend on earlier releases.

    Source: Dwork (2010) and Chan (2011), with Gaussian noise. Proof: `docs/proofs/sums.md`.
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
        return self.stddev * sqrt(_most_nodes(self.horizon))

    def grid(self, vectors: NDArray[Any]) -> Integers:
        """Round to the grid; ties and doubles may take a neighboring point."""
        return np.rint(vectors * (1 / self.unit)).astype(np.int64)

    def noise(self, rng: Randomness, count: int) -> Integers:
        return wide_gaussian(rng, count)

    def together(self, rng: Randomness, counts: Integers) -> Floats:
        """Draw one Gaussian of their variance."""
        return np.sqrt(counts) * wide_gaussian(rng, counts.size).reshape(counts.shape)

    def privacy_loss(self, reach: float, rounds: int) -> PrivacyLoss:
        if not rounds:
            return PrivacyLoss.zero()
        # Rounding to the grid moves each number by half a step, and so does, at most, the product before it.
        steps = (reach / self.unit + 2 * sqrt(self.width)) * (1 + 1e-12)
        square = ceil(nodes(rounds) * Fraction(steps) ** 2)
        return gaussian_loss(square, WIDE_STDDEV, rounds * self.width)


@final
@dataclass(frozen=True)
class LaplaceTree(TreeSums):
    """The tree with exact discrete Laplace noise, for vectors of multiples of 1 / levels.

    Args:
        horizon: most rounds, at least 1.
        width: numbers in a vector, at least 1.
        epsilon: the cost of moving a number by 1 in one node, positive, exact; a node's noise has scale 1 / epsilon.
        levels: numbers are rounded to multiples of 1 / levels first.

    Guarantee (pure): a rounded vector that moves by `reach` in the sum of its numbers' moves costs at most
        epsilon * reach * nodes, exactly, for the emitted bits, also where vectors depend on earlier releases.

    Source: Dwork (2010) and Chan (2011). Proof: `docs/proofs/sums.md`.
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
        """One level."""
        return 1 / self.levels

    @property
    def deviation(self) -> float:
        return sqrt(2 * _most_nodes(self.horizon)) / float(self.epsilon)

    def grid(self, vectors: NDArray[Any]) -> Integers:
        """Round to multiples of 1 / levels."""
        return np.rint(vectors * float(self.levels)).astype(np.int64)

    def noise(self, rng: Randomness, count: int) -> Integers:
        return wide_laplace(rng, count, self.rate)

    def together(self, rng: Randomness, counts: Integers) -> Floats:
        """Draw a sum of Laplace noises, one for each node."""
        noise = np.zeros(counts.shape)
        for node in range(int(counts.max(initial=0))):
            at = counts > node
            noise[at] += wide_laplace(rng, int(at.sum()), self.rate)
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

"""Exact coins e^-x, discrete Laplace and Gaussian, draws by e^-weights."""

import math
from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import WORD, Flags, Floats, InputError, Integers, Randomness, Words, exp_bounds
from labeldp.sampling.words import WordStream, fresh_words, uniform

MIN_RATE = Fraction(1, 1 << 32)
"""Noise of this rate reaches 2**63 with probability e^-(2**31)."""


def exp_coins(stream: WordStream, cells: NDArray[np.intp], exponents: Integers, unit: Fraction) -> Flags:
    """Return coins that are true with probability exactly e^(-unit * exponent), shape (len(cells),).

    The word is compared with certified bounds of the probability; where they do not decide, which
    happens about once in 2**60, further words and finer bounds do.

    Args:
        exponents: non-negative integers, shape (len(cells),).
        unit: non-negative.

    Source: Canonne, Kamath, Steinke (2020), Algorithm 1, with a comparison of words in place of its product of coins.
    """
    values, places = np.unique(exponents, return_inverse=True)
    bounds = [_word_bounds(unit * int(value), 64) for value in values]
    sure = np.array([max(low - 1, 0) for low, _ in bounds], dtype=np.uint64)[places]
    never = np.array([low == 0 for low, _ in bounds])[places]
    reach = np.array([min(high, WORD - 1) for _, high in bounds], dtype=np.uint64)[places]
    words = stream.words(cells)
    heads: Flags = (words <= sure) & ~never
    for i in np.flatnonzero(~heads & (words <= reach) & (exponents > 0)):
        heads[i] = _refine(int(words[i]), unit * int(exponents[i]), stream, cells[i : i + 1])
    return heads


def _word_bounds(exponent: Fraction, bits: int) -> tuple[int, int]:
    """`low` words of `bits` bits lie surely below e^-exponent; a word above `high` lies surely above."""
    if exponent > bits:
        return 0, 0  # e^-exponent is below 2^-bits
    low, high = exp_bounds(-exponent, bits=bits + 96)
    return (low.numerator << bits) // low.denominator, (high.numerator << bits) // high.denominator


def _refine(word: int, exponent: Fraction, stream: WordStream, cell: NDArray[np.intp]) -> bool:
    """Decide a coin that 64 bits left open, 64 bits at a time."""
    bits = 64
    while True:
        word, bits = (word << 64) | int(stream.words(cell)[0]), bits + 64
        low, high = _word_bounds(exponent, bits)
        if word < low:
            return True
        if word > high:
            return False


def discrete_laplace(stream: WordStream, rate: Fraction) -> Integers:
    """Return integers i with probability proportional to e^(-rate * |i|), exactly, unbounded, shape (len(stream),).

    Args:
        rate: at least `MIN_RATE`, so that no noise leaves 64 bits.

    Source: Canonne, Kamath, Steinke, The Discrete Gaussian for Differential Privacy (2020), Algorithm 2, with rounds
    of ⌈1 / rate⌉ integers in place of the denominator, which may not fit into 64 bits.
    """
    if rate < MIN_RATE:
        raise InputError("is too small for integer noise of 64 bits: take at least 1e-9", argument="epsilon")
    noise = np.zeros(len(stream), dtype=np.int64)
    open_cells = np.arange(len(stream))
    while open_cells.size:
        magnitudes = _geometric(stream, open_cells, rate)
        negative = uniform(stream, open_cells, 2).astype(np.bool_)
        noise[open_cells] = np.where(negative, -magnitudes, magnitudes)
        # A zero would be counted under both signs.
        open_cells = open_cells[negative & (magnitudes == 0)]
    return noise


def laplace_law(rate: float, edges: Integers) -> Floats:
    """Return the law of `discrete_laplace` between edges, in doubles: P(noise <= edges[0]), …, P(noise > edges[-1])."""
    decay = math.exp(-rate)
    places = edges.astype(np.float64)
    below = np.where(places < 0, decay ** -places.clip(max=0.0), 1 + decay - decay ** (places.clip(min=0.0) + 1))
    return np.diff(below / (1 + decay), prepend=0.0, append=1.0)


def _geometric(stream: WordStream, cells: NDArray[np.intp], rate: Fraction) -> Integers:
    """Return integers x >= 0 with probability proportional to e^(-rate * x), shape (len(cells),)."""
    # A place within a round, and full rounds.
    length = math.ceil(1 / rate)
    places = np.zeros(len(cells), dtype=np.int64)
    open_cells = np.arange(len(cells))
    while open_cells.size:
        tried = uniform(stream, cells[open_cells], length)
        heads = exp_coins(stream, cells[open_cells], tried, rate)
        places[open_cells[heads]] = tried[heads]
        open_cells = open_cells[~heads]
    return places + length * geometric_rounds(stream, cells, length * rate)


def geometric_rounds(stream: WordStream, cells: NDArray[np.intp], exponent: Fraction) -> Integers:
    """Return integers k >= 0 with probability proportional to e^(-exponent * k), shape (len(cells),)."""
    rounds = np.zeros(len(cells), dtype=np.int64)
    running = np.arange(len(cells))
    while running.size:
        running = running[exp_coins(stream, cells[running], np.ones(len(running), dtype=np.int64), exponent)]
        rounds[running] += 1
    return rounds


MAX_STDDEV = 1 << 40
"""Larger noise, times the few hundred standard deviations that a sample can reach, might leave 64 bits."""

MIN_STDDEV = 3
"""The smallest standard deviation of integer Gaussian noise."""

SMOOTHING = 4
"""Variance that is given away in the proof: noise of variance v is as private as continuous noise of v - SMOOTHING."""

MAX_CELLS = 1 << 20
"""Integers of one release."""

_LIMB_BITS = 20


def discrete_gaussian(stream: WordStream, stddev: int) -> Integers:
    """Return integers i with probability proportional to e^(-i^2 / (2 stddev^2)), exactly, shape (len(stream),).

    Args:
        stream: a cell for each integer.
        stddev: integer, 1 to `MAX_STDDEV`.

    Guarantee (law): each integer is drawn with its exact probability, whatever the others are.

    Source: Karney, Algorithm D for integer parameters, with coins of `exp_coins`; the law is that of Canonne, Kamath,
    Steinke (2020), Definition 1. Proof: `docs/proofs/sums-and-counts.md`.
    """
    if not 1 <= stddev <= MAX_STDDEV:
        raise InputError("the noise does not fit into 64 bits: take a larger epsilon or a coarser resolution")
    noise = np.zeros(len(stream), dtype=np.int64)
    open_cells = np.arange(len(stream))
    while open_cells.size:
        steps = _half_normal(stream, open_cells)
        remainder = uniform(stream, open_cells, stddev)
        magnitudes = steps * stddev + remainder
        accepted = product_coins(stream, open_cells, remainder, magnitudes + steps * stddev, Fraction(1, 2 * stddev**2))
        negative = uniform(stream, open_cells, 2).astype(np.bool_)
        accepted &= ~(negative & (magnitudes == 0))  # A zero would be counted under both signs.
        noise[open_cells[accepted]] = np.where(negative, -magnitudes, magnitudes)[accepted]
        open_cells = open_cells[~accepted]
    return noise


def _half_normal(stream: WordStream, cells: NDArray[np.intp]) -> Integers:
    """Return integers k >= 0 with probability proportional to e^(-k^2 / 2), shape (len(cells),)."""
    drawn = np.zeros(len(cells), dtype=np.int64)
    open_cells = np.arange(len(cells))
    half = Fraction(1, 2)
    while open_cells.size:
        tried = geometric_rounds(stream, cells[open_cells], half)
        drawn[open_cells] = tried
        open_cells = open_cells[~exp_coins(stream, cells[open_cells], tried * (tried - 1), half)]
    return drawn


def product_coins(stream: WordStream, cells: NDArray[np.intp], one: Integers, other: Integers, unit: Fraction) -> Flags:
    """Return coins that are true with probability exactly e^(-unit * one * other), shape (len(cells),).

    The product is a sum of three products of shorter integers, so it may have 100 bits; a coin of a sum is a coin
    of each term in turn.

    Args:
        one: integers 0 to 2**40.
        other: integers 0 to 2**50.
        unit: positive.
    """
    high, low = one >> _LIMB_BITS, one & ((1 << _LIMB_BITS) - 1)
    above, below = other >> _LIMB_BITS, other & ((1 << _LIMB_BITS) - 1)
    heads: Flags = power_coins(stream, cells, high * above, unit * (1 << 2 * _LIMB_BITS))
    for exponents, factor in ((high * below + low * above, unit * (1 << _LIMB_BITS)), (low * below, unit)):
        alive = np.flatnonzero(heads)
        heads[alive] = power_coins(stream, cells[alive], exponents[alive], factor)
    return heads


def power_coins(stream: WordStream, cells: NDArray[np.intp], exponents: Integers, unit: Fraction) -> Flags:
    """Return coins that are true with probability exactly e^(-unit * exponent): one coin for each binary digit of it.

    `exp_coins` bounds one exponential for each distinct exponent, this one for each digit: use it where the exponents
    are many and different.

    Args:
        exponents: non-negative integers, shape (len(cells),).
        unit: positive.
    """
    heads: Flags = np.ones(len(cells), dtype=np.bool_)
    top = int(exponents.max(initial=0)).bit_length()
    for digit in range(top - 1, -1, -1):
        flips = np.flatnonzero(heads & ((exponents >> digit) & 1).astype(np.bool_))
        if flips.size:
            heads[flips] = exp_coins(stream, cells[flips], np.ones(len(flips), dtype=np.int64), unit * (1 << digit))
    return heads


def gaussian_law(stddev: int, edges: Integers) -> Floats:
    """P(noise <= edges[0]), P(edges[0] < noise <= edges[1]), …, P(noise > edges[-1]) for `discrete_gaussian`."""
    support = np.arange(-12 * stddev, 12 * stddev + 1)
    masses = np.exp(-0.5 * (support / stddev) ** 2)
    return np.bincount(np.searchsorted(edges, support), weights=masses, minlength=len(edges) + 1) / masses.sum()


COIN_MARGIN = 2.0**-40
"""Doubles know e^-x times a factor this well, relatively, where it does not underflow (`docs/proofs/sampling.md`)."""

FEW = 32
"""Up to so many numbers, lists of Python are faster than arrays."""

EDGE_ERROR = 2.0**-51
"""An edge of the cumulated weights of d points is known up to (d + 16) times this share of the whole (ibid.)."""


def keep_coins(costs: Integers, unit: Fraction, keep: Fraction, *, rng: Randomness) -> Flags:
    """Return independent coins that are true with probability exactly keep · e^(-unit · cost), of the shape of `costs`.

    Args:
        costs: non-negative.
        unit: positive.
        keep: in [0, 1].

    Guarantee (coin): a coin is the comparison of one uniform number with the real number keep · e^(-unit · cost).
    Proof: `docs/proofs/sampling.md`.
    """
    if not keep or not costs.size:
        return np.zeros(costs.shape, dtype=np.bool_)
    words = fresh_words(rng, costs.size).reshape(costs.shape)
    chances = np.exp(costs * -float(unit)) * (float(keep) * WORD)
    places = words.astype(np.float64)
    heads: Flags = places + 1 <= chances * (1 - COIN_MARGIN)
    unsure = ~heads & (places <= chances * (1 + COIN_MARGIN))
    for i in zip(*np.nonzero(unsure), strict=True):
        heads[i] = falls_below(int(words[i]), unit * int(costs[i]), keep, rng)
    return heads


@final
@dataclass(frozen=True)
class KeepCoin:
    """A coin of `keep_coins`, one word at a time: true with probability exactly keep · e^(-unit · cost).

    Use it where most words decide the coin whatever the cost is, so that costs need not be known.

    Args:
        unit: positive.
        keep: in [0, 1].

    Guarantee (coin): a coin is the comparison of one uniform number with the real number keep · e^(-unit · cost).
    Proof: `docs/proofs/sampling.md`.
    """

    unit: Fraction
    keep: Fraction

    @cached_property
    def _doubles(self) -> tuple[float, float]:
        """The unit with its sign changed, and the words that are below keep."""
        return -float(self.unit), float(self.keep) * WORD

    @cached_property
    def tails_from(self) -> int:
        """The least word that is tails at every cost: 2**64 if there is none."""
        return math.ceil(self.keep * WORD)

    def heads_below(self, limit: int) -> int:
        """Return a word below which all words are heads at every cost up to `limit`."""
        rate, scale = self._doubles
        return int(math.exp(rate * limit) * scale * (1 - 2 * COIN_MARGIN))

    def heads(self, word: int, cost: int, rng: Randomness) -> bool:
        """Return the coin at the uniform number that begins with these 64 bits."""
        rate, scale = self._doubles
        chance = math.exp(rate * cost) * scale
        if word + 1 <= chance * (1 - COIN_MARGIN):
            return True
        return word <= chance * (1 + COIN_MARGIN) and falls_below(word, self.unit * cost, self.keep, rng)


def falls_below(word: int, exponent: Fraction, keep: Fraction, rng: Randomness) -> bool:
    """Return whether the uniform number that begins with these 64 bits is below keep · e^-exponent."""
    bits = 64
    while True:
        low, high = _scaled(exponent, bits + 64)
        if (word + 1) << 64 <= low * keep:
            return True
        if word << 64 >= high * keep:
            return False
        word, bits = _longer(word, rng), bits + 64


def draw_index(totals: Integers, unit: Fraction, *, rng: Randomness) -> int:
    """Return an index i with probability exactly proportional to e^(-unit · totals[i]).

    Args:
        totals: shape (d,), differences below 2**53.

    Guarantee (inverse): a draw is the inverse of the exact distribution function at one uniform number.
    Proof: `docs/proofs/sampling.md`.
    """
    return ExponentialWeights(unit).index(totals, int(fresh_words(rng, 1)[0]), rng)


@final
@dataclass(frozen=True)
class ExponentialWeights:
    """Draws of `draw_index` from given words.

    The uniform number times the sum of all weights is looked up among their cumulated sums; where an edge is
    closer than doubles can tell, the same number goes on with more bits, and the weights are computed in integers.

    Args:
        unit: an index i has the weight e^(-unit · totals[i]); positive.

    Guarantee (inverse): a draw is the inverse of the exact distribution function at one uniform number.
    Proof: `docs/proofs/sampling.md`.
    """

    unit: Fraction

    @cached_property
    def _rate(self) -> float:
        return -float(self.unit)

    def index(self, totals: Integers, word: int, rng: Randomness) -> int:
        """Return the index at the uniform number that begins with these 64 bits."""
        edges: Any
        if len(totals) <= FEW:
            values, rate, exp = totals.tolist(), self._rate, math.exp
            lowest = min(values)
            edges = list(accumulate([exp((value - lowest) * rate) for value in values]))
        else:
            edges = np.add.accumulate(np.exp((totals - np.minimum.reduce(totals)) * self._rate))
        total = float(edges[-1])
        target, band = (word + 0.5) / WORD * total, (len(totals) + 16) * EDGE_ERROR * total
        first = bisect_right(edges, target - band)
        if first == bisect_right(edges, target + band):
            return first
        return _draw_exactly(totals - totals.min(), self.unit, word, rng)

    def indices(self, totals: Integers, words: Words, rng: Randomness) -> Integers:
        """Return the index for each row of totals, shape (n, d), and each of n words: fast where d is small."""
        edges = (totals - totals.min(axis=1, keepdims=True)) * self._rate
        np.cumsum(np.exp(edges, out=edges), axis=1, out=edges)
        total = edges[:, -1:]
        targets = (words.astype(np.float64)[:, np.newaxis] + 0.5) / WORD * total
        band = (totals.shape[1] + 16) * EDGE_ERROR * total
        index = (edges <= targets - band).sum(axis=1)
        for i in np.flatnonzero(index != (edges <= targets + band).sum(axis=1)):
            index[i] = _draw_exactly(totals[i] - totals[i].min(), self.unit, int(words[i]), rng)
        return np.asarray(index)


def _draw_exactly(gaps: Integers, unit: Fraction, word: int, rng: Randomness) -> int:
    """Return the index of `ExponentialWeights.index` in integers, from the number that begins with these 64 bits."""
    values, places = np.unique(gaps, return_inverse=True)
    bits = 64
    while True:
        bounds = [_scaled(unit * int(value), bits + 64 + len(gaps).bit_length()) for value in values]
        lows = list(accumulate(bounds[index][0] for index in places))
        highs = list(accumulate(bounds[index][1] for index in places))
        surely = sum(edge << bits <= word * lows[-1] for edge in highs[:-1])
        maybe = sum(edge << bits < (word + 1) * highs[-1] for edge in lows[:-1])
        if surely == maybe:
            return surely
        word, bits = _longer(word, rng), bits + 64


def _scaled(exponent: Fraction, bits: int) -> tuple[int, int]:
    """Integers low <= 2**bits · e^-exponent <= high that differ by little more than their rounding."""
    if exponent > bits:
        return 0, 1
    low, high = exp_bounds(-exponent, bits=bits + 32)
    return (low.numerator << bits) // low.denominator, -((-high.numerator << bits) // high.denominator)


def _longer(word: int, rng: Randomness) -> int:
    """Return a uniform number with 64 more bits."""
    return word << 64 | int(fresh_words(rng, 1)[0])

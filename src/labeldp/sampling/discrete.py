"""Exact coins and digits: discrete Laplace noise, coins e^-x, draws by e^-weights."""

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import BLOCK, WORD, Flags, Floats, InputError, Integers, Randomness, Words, exp_bounds
from labeldp.sampling.words import WordStream, fresh_words

MIN_RATE = Fraction(1, 1 << 32)
"""Noise of this rate reaches 2**63 with probability e^-(2**31)."""

RARE = 45
"""e^-45 is below 2^-64: a coin of this exponent is tails unless its first word is 0."""

Bounds = Callable[[int], tuple[int, int]]
"""For a number of bits: integers, `low` at most and `high` at least 2**bits times a probability."""


def discrete_laplace(stream: WordStream, rate: Fraction) -> Integers:
    """Return integers i with probability proportional to e^(-rate * |i|), exactly, unbounded, shape (len(stream),).

    The number of words, and the work, is the same for every integer, except about once in 2**57 draws.

    Args:
        rate: at least `MIN_RATE`, so that no noise leaves 64 bits.

    Guarantee (law): each integer is drawn with its exact probability. Proof: `docs/proofs/sampling.md`.
    """
    if rate < MIN_RATE:
        raise InputError("is too small for integer noise of 64 bits: take at least 1e-9", argument="epsilon")
    noise = np.empty(len(stream), dtype=np.int64)
    for start in range(0, len(stream), BLOCK):
        part = np.arange(start, min(start + BLOCK, len(stream)))
        negative = _digit(stream, part, rate)
        # A negative integer is the complement of what follows: -1 - x.
        noise[part] = geometric(stream, part, rate) ^ -negative.astype(np.int64)
    return noise


def laplace_law(rate: float, edges: Integers) -> Floats:
    """Return the law of `discrete_laplace` between edges, in doubles: P(noise <= edges[0]), …, P(noise > edges[-1])."""
    decay = math.exp(-rate)
    places = edges.astype(np.float64)
    below = np.where(places < 0, decay ** -places.clip(max=0.0), 1 + decay - decay ** (places.clip(min=0.0) + 1))
    return np.diff(below / (1 + decay), prepend=0.0, append=1.0)


def geometric(stream: WordStream, cells: NDArray[np.intp], rate: Fraction) -> Integers:
    """Return integers x >= 0 with probability proportional to e^(-rate * x), exactly, shape (len(cells),).

    The binary digits of such an integer are independent coins. Each takes one word, and one word decides
    that there are no higher digits.

    Args:
        rate: at least `MIN_RATE`, so that no integer leaves 64 bits.

    Guarantee (law): each integer is drawn with its exact probability. Proof: `docs/proofs/sampling.md`.
    """
    *digits, above = _digit_exponents(rate)
    numbers = np.zeros(len(cells), dtype=np.int64)
    for first in range(0, len(digits), 8):
        eight = np.zeros(len(cells), dtype=np.uint8)
        for shift, exponent in enumerate(digits[first : first + 8]):
            eight |= _digit(stream, cells, exponent).view(np.uint8) << np.uint8(shift)
        numbers |= eight.astype(np.int64) << first
    words = stream.words(cells)
    for i in np.flatnonzero(words == 0):
        word, beyond = 0, _bounds_of_coin(above)
        while _settled(word, beyond, stream, cells[i : i + 1]):
            numbers[i] += 1 << len(digits)
            [word] = stream.words(cells[i : i + 1]).tolist()
    return numbers


@lru_cache(maxsize=256)
def _digit_exponents(rate: Fraction) -> tuple[Fraction, ...]:
    """Return the exponent of each binary digit that takes a word, and of all above together."""
    count = next(count for count in range(64) if rate * (1 << count) >= RARE)
    return tuple(rate * (1 << shift) for shift in range(count + 1))


def _digit(stream: WordStream, cells: NDArray[np.intp], exponent: Fraction) -> Flags:
    """Return digits that are 1 with probability exactly 1 / (1 + e^exponent), shape (len(cells),)."""
    low, high = _digit_bounds(exponent)
    words = stream.words(cells)
    digits: Flags = words < low
    for i in np.flatnonzero(words == low if low == high else (words >= low) & (words <= high)):
        digits[i] = _settled(int(words[i]), _bounds_of_digit(exponent), stream, cells[i : i + 1])
    return digits


@lru_cache(maxsize=1024)
def _digit_bounds(exponent: Fraction) -> tuple[np.uint64, np.uint64]:
    """Return two words: those below the first give 1, those above the second 0."""
    low, high = _bounds_of_digit(exponent)(64)
    return np.uint64(low), np.uint64(high)


def _bounds_of_digit(exponent: Fraction) -> Bounds:
    """Bounds of the probability of a 1."""

    def bounds(bits: int) -> tuple[int, int]:
        if exponent > bits:
            return 0, 0  # the probability is below 2^-bits
        low, high = exp_bounds(exponent, bits=bits + 96)
        return int((1 << bits) / (1 + high)), int((1 << bits) / (1 + low))

    return bounds


def _bounds_of_coin(exponent: Fraction) -> Bounds:
    """Bounds of e^-exponent."""

    def bounds(bits: int) -> tuple[int, int]:
        if exponent > bits:
            return 0, 0  # e^-exponent is below 2^-bits
        low, high = exp_bounds(-exponent, bits=bits + 96)
        return int(low * (1 << bits)), int(high * (1 << bits))

    return bounds


def _settled(word: int, bounds: Bounds, stream: WordStream, cell: NDArray[np.intp]) -> bool:
    """Return whether the uniform number that begins with these 64 bits is below a probability."""
    bits = 64
    while True:
        low, high = bounds(bits)
        if word < low:
            return True
        if word > high:
            return False
        word, bits = word << 64 | int(stream.words(cell)[0]), bits + 64


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

"""Exact uniform integers and exact coins of probability e^-x, from as many random words as they need."""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import WORD, Ids, InputError, Randomness, Words, exp_bounds

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

MIN_RATE = Fraction(1, 1 << 32)
"""Noise of this rate reaches 2**63 with probability e^-(2**31)."""


class WordStream:
    """Fresh words for any of a set of cells, lane after lane. The number of words drawn depends on their values."""

    def __init__(self, randomness: Randomness, ids: Ids) -> None:
        self._randomness = randomness
        self._ids = ids
        self._lane = 0

    def __len__(self) -> int:
        return len(self._ids)

    def words(self, cells: NDArray[np.intp]) -> Words:
        """One fresh word for each of the cells, shape (len(cells),)."""
        words = np.empty(len(cells), dtype=np.uint64)
        self._randomness.fill(words, self._ids[cells], self._lane)
        self._lane += 1
        return words


class RecordStream(WordStream):
    """The same where every cell counts its own lanes: what it draws does not depend on the cells beside it."""

    def __init__(self, randomness: Randomness, ids: Ids) -> None:
        super().__init__(randomness, ids)
        self._lanes = np.zeros(len(ids), dtype=np.intp)

    def words(self, cells: NDArray[np.intp]) -> Words:
        """One fresh word for each of the cells, which are distinct, shape (len(cells),)."""
        words = np.empty(len(cells), dtype=np.uint64)
        self._randomness.fill(words, self._ids[cells], self._lanes[cells])
        self._lanes[cells] += 1
        return words


def uniform(stream: WordStream, cells: NDArray[np.intp], bound: int) -> Integers:
    """Exactly uniform integers below `bound` (1 to 2**63), one for each cell; words past the last range are redrawn."""
    limit = WORD // bound * bound - 1
    values = np.zeros(len(cells), dtype=np.int64)
    open_cells = np.arange(len(cells))
    while open_cells.size and bound > 1:
        words = stream.words(cells[open_cells])
        good = words <= np.uint64(limit)
        values[open_cells[good]] = (words[good] % np.uint64(bound)).astype(np.int64)
        open_cells = open_cells[~good]
    return values


def exp_coins(stream: WordStream, cells: NDArray[np.intp], exponents: Integers, unit: Fraction) -> Flags:
    """Coins that are true with probability exactly e^(-unit * exponent), shape (len(cells),).

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
    """Integers i with probability proportional to e^(-rate * |i|), exactly and without bound, shape (len(stream),).

    Args:
        rate: at least `MIN_RATE`, so that no noise leaves 64 bits.

    Source: Canonne, Kamath, Steinke, The Discrete Gaussian for Differential Privacy (2020), Algorithm 2, with rounds
    of ⌈1 / rate⌉ integers in place of the denominator, which may not fit into 64 bits.
    """
    if rate < MIN_RATE:
        raise InputError("epsilon is too small for integer noise of 64 bits: take at least 1e-9")
    noise = np.zeros(len(stream), dtype=np.int64)
    open_cells = np.arange(len(stream))
    while open_cells.size:
        magnitudes = _geometric(stream, open_cells, rate)
        negative = uniform(stream, open_cells, 2).astype(np.bool_)
        noise[open_cells] = np.where(negative, -magnitudes, magnitudes)
        # A zero would be counted under both signs.
        open_cells = open_cells[negative & (magnitudes == 0)]
    return noise


def geometric_law(rate: float, edges: NDArray[np.int64]) -> NDArray[np.float64]:
    """The law of `discrete_laplace` between edges, in doubles: P(noise <= edges[0]), …, P(noise > edges[-1])."""
    decay = math.exp(-rate)
    places = edges.astype(np.float64)
    below = np.where(places < 0, decay ** -places.clip(max=0.0), 1 + decay - decay ** (places.clip(min=0.0) + 1))
    return np.diff(below / (1 + decay), prepend=0.0, append=1.0)


def _geometric(stream: WordStream, cells: NDArray[np.intp], rate: Fraction) -> Integers:
    """Integers x >= 0 with probability proportional to e^(-rate * x), shape (len(cells),): a place and full rounds."""
    length = math.ceil(1 / rate)
    places = np.zeros(len(cells), dtype=np.int64)
    open_cells = np.arange(len(cells))
    while open_cells.size:
        tried = uniform(stream, cells[open_cells], length)
        kept = exp_coins(stream, cells[open_cells], tried, rate)
        places[open_cells[kept]] = tried[kept]
        open_cells = open_cells[~kept]
    rounds = np.zeros(len(cells), dtype=np.int64)
    running = np.arange(len(cells))
    while running.size:
        running = running[exp_coins(stream, cells[running], np.ones(len(running), dtype=np.int64), length * rate)]
        rounds[running] += 1
    return places + length * rounds

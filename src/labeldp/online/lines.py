"""Exact draws from log-concave laws on lines: a proposal of uniform bits, accepted by an exact coin."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from labeldp.online.draws import falls_below, fresh_words, keep_coins
from labeldp.privacy import WORD, Randomness, Words

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Places = NDArray[np.intp]
Flags = NDArray[np.bool_]

LINE_FAILURE = Fraction(1, 1 << 60)
"""What each number adds to delta: its uniform part has 127 bits, and a cell of any grid in use keeps its probability
within this share (docs/proofs/online_convex.md)."""

EXPONENT_MARGIN = 2.0**-44
"""Doubles know the exponent E of a coin up to this share of E + cells + 4."""

PLACE_MARGIN = 2.0**-48
"""Doubles know where a number is up to this share of the sizes that it is the sum of."""

_HALF = 1 << 63


@dataclass(frozen=True)
class Lines:
    """Laws on lines, one for each of n numbers: density e^-V at an offset from `mode`, V convex and V(0) = 0.

    Attributes:
        mode: shape (n,).
        widths: on either side V of a width is at least 1, or the law ends within a width; positive, shape (n,).
        ends: how far the law goes to the left and to the right, maybe infinite, shape (2, n).
        potential: V at offsets of some of the lines: (lines, offsets) -> V, each shape (m,).
        exact: V at a rational offset of one line; None where doubles stand for V, and their error is charged.
    """

    mode: Floats = field(repr=False)
    widths: Floats = field(repr=False)
    ends: Floats = field(repr=False)
    potential: Callable[[Places, Floats], Floats] = field(repr=False)
    exact: Callable[[int, Fraction], Fraction] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Numbers:
    """Offsets that were drawn, or tried: a side, so many widths, and a share of one more.

    Attributes:
        words: the first bit is the side, the other 127 the share; shape (2, n).
        cells: whole widths, shape (n,).
        widths: shape (n,).
    """

    words: Words = field(repr=False)
    cells: Integers = field(repr=False)
    widths: Floats = field(repr=False)

    @property
    def right(self) -> Flags:
        """True for numbers to the right of the mode."""
        return self.words[0] >= np.uint64(_HALF)

    @property
    def offsets(self) -> Floats:
        """As doubles, shape (n,), each within a few units of its last place."""
        sizes = (self.cells + (self.words[0] % np.uint64(_HALF)) / _HALF) * self.widths
        return np.where(self.right, sizes, -sizes)

    def offset(self, i: int) -> Fraction:
        """One of them, exactly."""
        high, low = (int(word) for word in self.words[:, i])
        share = Fraction(((high % _HALF) << 64) | low, 1 << 127)
        size = (int(self.cells[i]) + share) * Fraction(float(self.widths[i]))
        return size if high >= _HALF else -size


def draw_numbers(lines: Lines, *, rng: Randomness) -> Numbers:
    """One offset from each law: exactly, where `exact` is given.

    A uniform number within a width on either side is moved outwards by a geometric number of widths, and accepted
    with probability e^-(V - cells), which is no more than 1 since V is convex. More than one in ten is accepted.

    Guarantee: what is drawn has the law of its density, up to `LINE_FAILURE` and what the potential misses.

    Source: Devroye, Section VII.2, for log-concave laws. Proof: `docs/proofs/online_convex.md`.
    """
    count = len(lines.mode)
    drawn = Numbers(np.zeros((2, count), dtype=np.uint64), np.zeros(count, dtype=np.int64), lines.widths)
    left = np.arange(count)
    while left.size:
        words = fresh_words(rng, 2 * left.size).reshape(2, -1)
        tried = Numbers(words, _geometric(left.size, rng), lines.widths[left])
        good = _accepted(lines, left, tried, rng)
        drawn.words[:, left[good]], drawn.cells[left[good]] = tried.words[:, good], tried.cells[good]
        left = left[~good]
    return drawn


def _geometric(count: int, rng: Randomness) -> Integers:
    """Integers j >= 0 with probability proportional to e^-j."""
    cells = np.zeros(count, dtype=np.int64)
    running = np.arange(count)
    while running.size:
        running = running[keep_coins(np.ones(running.size, dtype=np.int64), Fraction(1), Fraction(1), rng=rng)]
        cells[running] += 1
    return cells


def _accepted(lines: Lines, left: Places, tried: Numbers, rng: Randomness) -> Flags:
    """Coins of probability e^-(V - cells) within the ends, and 0 outside."""
    offsets = tried.offsets
    ends = np.where(tried.right, lines.ends[1, left], lines.ends[0, left])
    sizes = np.abs(offsets)
    inside, edge = sizes <= ends, np.abs(sizes - ends) <= PLACE_MARGIN * sizes
    near = np.sign(offsets) * np.minimum(sizes, ends)  # no potential is asked for what lies outside
    exponents = np.maximum(lines.potential(left, near) - tried.cells, 0.0)
    margin = EXPONENT_MARGIN * (exponents + tried.cells + 4)
    coins = fresh_words(rng, left.size)
    places, chances = coins.astype(np.float64), np.exp(-exponents) * WORD
    heads: Flags = inside & ~edge & (places + 1 <= chances * (1 - margin))
    unsure = (inside | edge) & ~heads & (places <= chances * (1 + margin))
    for i in np.flatnonzero(unsure):
        offset = tried.offset(int(i))
        real = Fraction(float(exponents[i]))
        if lines.exact is not None:
            real = lines.exact(int(left[i]), offset) - int(tried.cells[i])
        heads[i] = abs(offset) <= ends[i] and falls_below(int(coins[i]), max(real, Fraction(0)), Fraction(1), rng)
    return heads


def rounded(mode: Floats, numbers: Numbers, step: float) -> Integers:
    """The multiples of a power of two that are nearest to mode + offset, shape (n,): exactly those."""
    offsets = numbers.offsets
    places = (mode + offsets) / step
    sizes = (np.abs(mode) + np.abs(offsets)) / step
    steps = np.floor(places + 0.5).astype(np.int64)
    for i in np.flatnonzero(np.abs(places + 0.5 - np.rint(places + 0.5)) <= PLACE_MARGIN * (sizes + 1)):
        real = (Fraction(float(mode[i])) + numbers.offset(int(i))) / Fraction(step)
        steps[i] = math.floor(real + Fraction(1, 2))
    return steps

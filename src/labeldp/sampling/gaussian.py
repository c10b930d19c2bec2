"""Exact discrete Gaussian noise: bins, places in them, and a coin that doubles decide with a proven margin."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import BLOCK, WORD, Flags, Floats, InputError, Integers, Words, exp_bounds
from labeldp.sampling.discrete import COIN_MARGIN
from labeldp.sampling.words import AliasTable, WordStream

MAX_STDDEV = 1 << 40
"""With larger noise, a sample might leave 64 bits."""

MIN_STDDEV = 3
"""The smallest standard deviation of integer Gaussian noise."""

WIDE_STDDEV = 1 << 36
"""Standard deviation of noise on sums of doubles: so large that rounding to its grid costs next to nothing."""

SMOOTHING = 4
"""Variance that is given away in the proof: noise of variance v is as private as continuous noise of v - SMOOTHING."""

MAX_CELLS = 1 << 20
"""Integers of one release."""

_BINS_PER_SCALE = 16
"""At least so many of the narrow bins are one standard deviation."""

_NARROW_BINS = 192
"""They reach to 12 standard deviations."""

_REACH = 24
"""All bins hold 2**_REACH times the integers of a narrow one: at least 2**20 standard deviations."""

_MAX_EXPONENT = 200
"""Larger exponents count as this one in the weights of bins, which are at least 1 in 2**64 anyway."""

_FIXED_BITS = 400
"""Bits of fixed point."""


def discrete_gaussian(stream: WordStream, stddev: int) -> Integers:
    """Return integers i with probability proportional to e^(-i^2 / (2 stddev^2)), shape (len(stream),).

    An integer is tried until one is kept. Each try takes three words, and the number of tries is independent
    of the integer that is kept.

    Args:
        stream: a cell for each integer.
        stddev: integer, 1 to `MAX_STDDEV`.

    Guarantee (law): each integer within 2**20 standard deviations is drawn with its exact probability, whatever the
        others are. Those beyond, whose mass is below e^-(2**38), are never drawn.

    Source: Canonne, Kamath, Steinke (2020), Definition 1, for the law. Proof: `docs/proofs/sampling.md`.
    """
    if not 1 <= stddev <= MAX_STDDEV:
        raise InputError("the noise does not fit into 64 bits: take a larger epsilon or a coarser resolution")
    law, noise = _half_normal(stddev), np.empty(len(stream), dtype=np.int64)
    for start in range(0, len(stream), BLOCK):
        open_cells = np.arange(start, min(start + BLOCK, len(stream)))
        while open_cells.size:
            places, accepted, negative = law.propose(stream, open_cells)
            accepted &= ~(negative & (places == 0))  # A zero would be counted under both signs.
            noise[open_cells] = np.where(negative, -places, places)
            open_cells = open_cells[~accepted]
    return noise


def gaussian_law(stddev: int, edges: Integers) -> Floats:
    """P(noise <= edges[0]), P(edges[0] < noise <= edges[1]), …, P(noise > edges[-1]) for `discrete_gaussian`."""
    support = np.arange(-12 * stddev, 12 * stddev + 1)
    masses = np.exp(-0.5 * (support / stddev) ** 2)
    return np.bincount(np.searchsorted(edges, support), weights=masses, minlength=len(edges) + 1) / masses.sum()


@final
@dataclass(frozen=True)
class HalfNormal:
    """Integers i >= 0 with probability proportional to e^(-i^2 / (2 stddev^2)), exactly, up to the last bin.

    One word chooses a bin, another a place in it, and a third keeps the place or starts anew. The third is compared
    with a double of known accuracy; where that does not decide, about once in 2**40, rational bounds do.

    Args:
        stddev: positive.

    Guarantee (law): each integer is drawn with its exact probability.

    Source: Walker (1977) for the bins; what lies above the law is rejected. Proof: `docs/proofs/sampling.md`.
    """

    stddev: int

    @cached_property
    def unit(self) -> Fraction:
        """A place i has the weight e^(-unit · i^2)."""
        return Fraction(1, 2 * self.stddev**2)

    @cached_property
    def shift(self) -> int:
        """A narrow bin holds 2**shift integers."""
        return (-(-self.stddev // _BINS_PER_SCALE) - 1).bit_length()

    @cached_property
    def bits(self) -> list[int]:
        """A bin holds 2**bits integers: the narrow ones first, then one bin up to each power of two."""
        last = _NARROW_BINS.bit_length()
        wide = [(1 << last) - _NARROW_BINS, *(1 << power for power in range(last, _REACH))]
        return [self.shift] * _NARROW_BINS + [self.shift + width.bit_length() - 1 for width in wide]

    @cached_property
    def starts(self) -> list[int]:
        """The first integer of each bin."""
        return [0, *np.cumsum([1 << bits for bits in self.bits])[:-1].tolist()]

    @cached_property
    def ceilings(self) -> list[int]:
        """Upper bounds of the mass of each bin, where the law is 2**_FIXED_BITS at zero."""
        ends = (min(self.unit * start**2, Fraction(_MAX_EXPONENT)) for start in self.starts)
        highs = (exp_bounds(-end)[1] for end in ends)
        return [
            -(-(high.numerator << _FIXED_BITS + bits) // high.denominator)
            for high, bits in zip(highs, self.bits, strict=True)
        ]

    @cached_property
    def weights(self) -> list[int]:
        """Weights of the bins, integers of at least 1 that sum to 2**64."""
        total = sum(self.ceilings)
        weights_beyond = [WORD * ceiling // total + 1 for ceiling in self.ceilings[1:]]
        return [WORD - sum(weights_beyond), *weights_beyond]

    @cached_property
    def scale(self) -> Fraction:
        """The largest number that times the mass of each bin lies below its weight everywhere."""
        pairs = zip(self.weights, self.ceilings, strict=True)
        return min(Fraction(weight, ceiling) for weight, ceiling in pairs) * (1 << _FIXED_BITS)

    @cached_property
    def factors(self) -> list[Fraction]:
        """What the law is multiplied with in each bin to give the probability that a place is kept."""
        return [self.scale * (1 << bits) / weight for weight, bits in zip(self.weights, self.bits, strict=True)]

    @cached_property
    def _bins(self) -> AliasTable:
        return AliasTable.of(self.weights)

    @cached_property
    def _arrays(self) -> tuple[Integers, Words, Floats]:
        """The start of each bin, how far its words are shifted, and 2**64 times its factor."""
        shifts = np.array([64 - bits for bits in self.bits], dtype=np.uint64)
        return np.array(self.starts), shifts, np.array([float(factor * WORD) for factor in self.factors])

    def propose(self, stream: WordStream, cells: NDArray[np.intp]) -> tuple[Integers, Flags, Flags]:
        """Return places, which of them are kept, and one fair coin for each, all of shape (len(cells),)."""
        first, second, third = (stream.words(cells) for _ in range(3))
        starts, shifts, _ = self._arrays
        bins = self._bins.draw(first)
        # Two shifts, because one by 64 bits is not defined. The lowest bit is the fair coin.
        inside = (second >> np.uint64(1)) >> (shifts[bins] - np.uint64(1))
        places = starts[bins] + inside.astype(np.int64)
        return places, self._kept(third, bins, places, stream, cells), (second & np.uint64(1)).astype(np.bool_)

    def _kept(
        self, words: Words, bins: NDArray[np.intp], places: Integers, stream: WordStream, cells: NDArray[np.intp]
    ) -> Flags:
        """Coins of the probability that a place is kept, shape (n,)."""
        limits = places.astype(np.float64)
        limits *= limits
        limits *= -float(self.unit)
        np.exp(limits, out=limits)
        limits *= self._arrays[2][bins]
        drawn = words.astype(np.float64)
        accepted: Flags = drawn + 2 <= limits * (1 - COIN_MARGIN)
        for i in np.flatnonzero(~accepted & (drawn < limits * (1 + COIN_MARGIN) + 1)):
            accepted[i] = self._decide(int(words[i]), int(bins[i]), int(places[i]), stream, cells[i : i + 1])
        return accepted

    def _decide(self, word: int, chosen: int, number: int, stream: WordStream, cell: NDArray[np.intp]) -> bool:
        """Decide a coin that doubles left open: more words, and finer bounds, until they do."""
        exponent, factor, bits = self.unit * number**2, self.factors[chosen], 64
        while True:
            low, high = exp_bounds(-exponent, bits=bits + 96) if exponent < 1000 else (0, Fraction(1, 1 << 1440))
            if word + 1 <= (low * factor) * (1 << bits):
                return True
            if word >= (high * factor) * (1 << bits):
                return False
            word, bits = (word << 64) | int(stream.words(cell)[0]), bits + 64


@lru_cache(maxsize=64)
def _half_normal(stddev: int) -> HalfNormal:
    return HalfNormal(stddev)

"""Fast exact integer noise: bins from an alias table, and a coin that doubles decide with a proven margin."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import (
    BLOCK,
    WORD,
    Flags,
    Floats,
    InputError,
    Integers,
    Randomness,
    Words,
    as_successive,
    exp_bounds,
)
from labeldp.sampling.discrete import COIN_MARGIN, MIN_RATE, geometric_rounds
from labeldp.sampling.words import AliasTable, WordStream, fresh_words

BIN_COUNT = 1 << 10

BINS_PER_SCALE = 64
"""Bins to one standard deviation, or to one over the rate."""

WIDE_STDDEV = 1 << 36
"""Standard deviation of `wide_gaussian`: so large that rounding to its grid costs next to nothing."""

_MAX_EXPONENT = 200
"""Larger exponents count as this one in the weights of bins, which are at least 1 in 2**64 anyway."""

_FIXED_BITS = 400
"""Bits of fixed point."""


@final
@dataclass(frozen=True)
class BinnedLaw:
    """Integers 0 <= i < BIN_COUNT << shift with probability proportional to e^(-unit * i^power), exactly.

    One word chooses a bin, another a place in it, and a third keeps the place or starts anew. The third is compared
    with a double of known accuracy; where that does not decide, about once in 2**40, rational bounds do.

    Args:
        unit: positive.
        power: 1 or 2.
        shift: a bin holds 2**shift integers.

    Guarantee (law): each integer is drawn with its exact probability.

    Source: Walker (1977) for the bins; what lies above the law is rejected. Proof: `docs/proofs/sampling.md`.
    """

    unit: Fraction
    power: int
    shift: int

    @cached_property
    def ceilings(self) -> list[int]:
        """Upper bounds of the law in each bin, where its value at zero is 2**_FIXED_BITS."""
        ends = (self.unit * (h << self.shift) ** self.power for h in range(BIN_COUNT))
        highs = (exp_bounds(-min(end, Fraction(_MAX_EXPONENT)))[1] for end in ends)
        return [-(-(high.numerator << _FIXED_BITS) // high.denominator) for high in highs]

    @cached_property
    def weights(self) -> list[int]:
        """Weights of the bins, integers of at least 1 that sum to 2**64."""
        total = sum(self.ceilings)
        weights_beyond = [WORD * ceiling // total + 1 for ceiling in self.ceilings[1:]]
        return [WORD - sum(weights_beyond), *weights_beyond]

    @cached_property
    def scale(self) -> Fraction:
        """The largest number that times the law lies below the weights everywhere."""
        pairs = zip(self.weights, self.ceilings, strict=True)
        return min(Fraction(weight, ceiling) for weight, ceiling in pairs) * (1 << _FIXED_BITS)

    @cached_property
    def _bins(self) -> AliasTable:
        return AliasTable.of(self.weights)

    @cached_property
    def _ratios(self) -> Floats:
        """2**64 times what the law is multiplied with to give the probability that a place is kept."""
        return np.array([float(self.scale * WORD / weight) for weight in self.weights])

    def propose(self, randomness: Randomness, count: int) -> tuple[Integers, Flags, Flags]:
        """Return places, which of them are kept, and one fair coin for each, all of shape (count,)."""
        first, second, third = (fresh_words(randomness, count) for _ in range(3))
        bins = self._bins.draw(first)
        places = (bins << self.shift) | (second >> np.uint64(64 - self.shift)).astype(np.int64) if self.shift else bins
        accepted = self._kept(third, bins, places.astype(np.int64, copy=False), randomness)
        return places, accepted, (second & np.uint64(1)).astype(np.bool_)

    def _kept(self, words: Words, bins: NDArray[np.intp], places: Integers, randomness: Randomness) -> Flags:
        """Coins of the probability that a place is kept, shape (n,)."""
        exponents = places.astype(np.float64)
        if self.power == 2:
            exponents *= exponents
        exponents *= -float(self.unit)
        limits = np.exp(exponents, out=exponents)
        limits *= self._ratios[bins]
        drawn = words.astype(np.float64)
        accepted: Flags = drawn + 2 <= limits * (1 - COIN_MARGIN)
        undecided = np.flatnonzero(~accepted)
        for i in undecided[drawn[undecided] < limits[undecided] * (1 + COIN_MARGIN) + 1]:
            accepted[i] = self._decide(int(words[i]), int(bins[i]), int(places[i]), randomness)
        return accepted

    def _decide(self, word: int, chosen: int, number: int, randomness: Randomness) -> bool:
        """Decide a coin that doubles left open: more words, and finer bounds, until they do."""
        exponent, factor, bits = self.unit * number**self.power, self.scale / self.weights[chosen], 64
        while True:
            low, high = exp_bounds(-exponent, bits=bits + 96) if exponent < 1000 else (0, Fraction(1, 1 << 1440))
            if word + 1 <= (low * factor) * (1 << bits):
                return True
            if word >= (high * factor) * (1 << bits):
                return False
            word, bits = (word << 64) | int(fresh_words(randomness, 1)[0]), bits + 64


@lru_cache(maxsize=1)
def _half_normal() -> BinnedLaw:
    return BinnedLaw(Fraction(1, 2 * WIDE_STDDEV**2), 2, (WIDE_STDDEV // BINS_PER_SCALE).bit_length() - 1)


@lru_cache(maxsize=8)
def _places(rate: Fraction) -> BinnedLaw:
    """Places in one stretch of a geometric law; e^-16 of its mass, more or less, lies beyond the stretch."""
    return BinnedLaw(rate, 1, max(int(1 / (BINS_PER_SCALE * rate)).bit_length() - 1, 0))


def wide_gaussian(randomness: Randomness, count: int) -> Integers:
    """Return integers i with probability proportional to e^(-i^2 / (2 WIDE_STDDEV^2)) and |i| < 16 WIDE_STDDEV.

    The law is `discrete_gaussian` of this standard deviation, but for its tails, whose mass is below 2**-180.

    Args:
        randomness: fresh words; keyed randomness by records would repeat them, and is refused.

    Returns:
        Shape (count,).

    Guarantee (law): each integer is drawn with its exact probability. Proof: `docs/proofs/sampling.md`.
    """

    randomness = as_successive(randomness)

    def draw(size: int) -> Integers:
        places, accepted, negative = _half_normal().propose(randomness, size)
        accepted &= ~(negative & (places == 0))  # A zero would be counted under both signs.
        return np.where(negative, -places, places)[accepted]

    return _filled(draw, count)


def wide_laplace(randomness: Randomness, count: int, rate: Fraction) -> Integers:
    """Return integers i with probability proportional to e^(-rate * |i|), without bound: `discrete_laplace`, faster.

    Args:
        randomness: fresh words; keyed randomness by records would repeat them, and is refused.
        rate: at least `MIN_RATE`, so that no noise leaves 64 bits.

    Returns:
        Shape (count,).

    Guarantee (law): each integer is drawn with its exact probability. Proof: `docs/proofs/sampling.md`.
    """
    if rate < MIN_RATE:
        raise InputError("is too small for integer noise of 64 bits: take at least 1e-9", argument="epsilon")
    law, randomness = _places(rate), as_successive(randomness)
    stretch = BIN_COUNT << law.shift

    def draw(size: int) -> Integers:
        places, accepted, negative = law.propose(randomness, size)
        places, negative = places[accepted], negative[accepted]
        stream = WordStream(randomness, randomness.record_ids(None, len(places)))
        places += stretch * geometric_rounds(stream, np.arange(len(places)), stretch * rate)
        good = ~(negative & (places == 0))
        return np.where(negative, -places, places)[good]

    return _filled(draw, count)


def _filled(draw: Callable[[int], Integers], count: int) -> Integers:
    """As many integers as asked for, from draws of which some are lost, in blocks that stay in cache."""
    values = np.empty(count, dtype=np.int64)
    done = 0
    while done < count:
        missing = count - done
        drawn = draw(min(missing + missing // 64 + 8, BLOCK))[:missing]
        values[done : done + len(drawn)] = drawn
        done += len(drawn)
    return values

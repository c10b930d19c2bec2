"""Exact coins and exact draws of multiplicative weights: doubles where they surely decide, integers where not."""

from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import WORD, Randomness, Words, exp_bounds

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

COIN_MARGIN = 2.0**-40
"""Doubles know keep · e^-x this well, relatively, for every x that does not underflow (docs/proofs/draws.md)."""

EDGE_ERROR = 2.0**-51
"""An edge of the cumulated weights of d points is known up to (d + 16) times this share of the whole (ibid.)."""


def fresh_words(rng: Randomness, count: int) -> Words:
    """So many uniform 64-bit words."""
    words = np.empty(count, dtype=np.uint64)
    rng.fill(words, words)  # Ids matter to keyed randomness alone.
    return words


def keep_coins(costs: Integers, unit: Fraction, keep: Fraction, *, rng: Randomness) -> Flags:
    """Independent coins that are true with probability exactly keep · e^(-unit · cost), of the shape of `costs`.

    Args:
        costs: non-negative.
        unit: positive.
        keep: in [0, 1].

    Guarantee: a coin is the comparison of one uniform number with the real number keep · e^(-unit · cost).
    Proof: `docs/proofs/draws.md`.
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


def falls_below(word: int, exponent: Fraction, keep: Fraction, rng: Randomness) -> bool:
    """Is the uniform number that begins with these 64 bits below keep · e^-exponent?"""
    bits = 64
    while True:
        low, high = _scaled(exponent, bits + 64)
        if (word + 1) << 64 <= low * keep:
            return True
        if word << 64 >= high * keep:
            return False
        word, bits = _longer(word, rng), bits + 64


def draw_index(totals: Integers, unit: Fraction, *, rng: Randomness) -> int:
    """An index i with probability exactly proportional to e^(-unit · totals[i]).

    The uniform number times the sum of all weights is looked up among their cumulated sums; where an edge is
    closer than doubles can tell, the same number goes on with more bits, and the weights are computed in integers.

    Args:
        totals: shape (d,), differences below 2**53.

    Guarantee: a draw is the inverse of the exact distribution function at one uniform number.
    Proof: `docs/proofs/draws.md`.
    """
    gaps = totals - totals.min()
    edges = gaps * -float(unit)
    np.cumsum(np.exp(edges, out=edges), out=edges)
    [word] = fresh_words(rng, 1).tolist()
    target = (word + 0.5) / WORD * edges[-1]
    band = (len(totals) + 16) * EDGE_ERROR * edges[-1]
    first, last = np.searchsorted(edges, (target - band, target + band), side="right")
    return int(first) if first == last else _draw_exactly(gaps, unit, word, rng)


def _draw_exactly(gaps: Integers, unit: Fraction, word: int, rng: Randomness) -> int:
    """The same draw in integers, from the number that begins with these 64 bits."""
    values, places = np.unique(gaps, return_inverse=True)
    bits = 64
    while True:
        bounds = [_scaled(unit * int(value), bits + 64 + len(gaps).bit_length()) for value in values]
        lows = list(accumulate(bounds[place][0] for place in places))
        highs = list(accumulate(bounds[place][1] for place in places))
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
    """A uniform number with 64 more bits."""
    return word << 64 | int(fresh_words(rng, 1)[0])

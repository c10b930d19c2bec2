"""Public seeds of what a release draws and publishes, and normal numbers whose relative error is known."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.coins import WordStream
from labeldp.privacy import KeyedRandomness, Randomness

SEED_WORDS = 4
"""A released array begins with these words: all that was drawn and is public follows from them."""

NORMAL_ERROR = 2.0**-49
"""Relative error of `normals`, except with probability 2^-76 for each number."""


def fresh_seed(randomness: Randomness) -> NDArray[np.int64]:
    """A seed of 256 bits, shape (4,), drawn without a look at labels, and not of the words that noise is made of."""
    source, words = randomness.bind(b"public seed"), np.empty(SEED_WORDS, dtype=np.uint64)
    source.fill(words, source.record_ids(None, SEED_WORDS), 0)
    return words.view(np.int64)


def public_stream(released: Any, count: int) -> WordStream:
    """Words for `count` records that follow from the seed of a released array."""
    seed = np.asarray(released)[:SEED_WORDS].astype("<i8").tobytes()
    public = KeyedRandomness(seed, b"what a release of bags publishes")
    return WordStream(public, public.record_ids(None, count))


def normals(stream: WordStream) -> NDArray[np.float64]:
    """Standard normal numbers, shape (len(stream),).

    P(|W| > x) = U is taken as u or 1 - u with u in (0, 1/2) from 128 bits, so that small numbers and large ones have
    the same relative error.

    Source: `docs/proofs/bags.md`.
    """
    from scipy.special import erfcinv, erfinv

    every = np.arange(len(stream))
    high, low, coins = (stream.words(every) for _ in range(3))
    share = (high + (low + 0.5) * 2.0**-64) * 2.0**-65
    share = np.minimum(share, np.nextafter(0.5, 0))
    size = np.sqrt(2) * np.where(coins & np.uint64(1), erfcinv(share), erfinv(share))
    return np.asarray(np.where(coins & np.uint64(2), -size, size), dtype=np.float64)

"""Streams of words, public seeds, uniform and normal numbers, and draws of finite laws."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import WORD, Floats, Ids, Integers, KeyedRandomness, Randomness, Words, as_successive

SEED_WORDS = 4
"""A released array begins with these words: all that was drawn and is public follows from them."""

NORMAL_ERROR = 2.0**-49
"""Relative error of `normals`, at most."""


FEW_BITS = 1 << 12
"""A uniform number is continued where its first 64 bits are below: 128 bits hold too few significant ones."""


def fresh_seed(randomness: Randomness) -> Integers:
    """Return a seed of 256 bits, shape (4,), independent of the labels and of the words that make noise."""
    source, words = randomness.bind(b"public seed"), np.empty(SEED_WORDS, dtype=np.uint64)
    source.fill(words, source.record_ids(None, SEED_WORDS), 0)
    return words.view(np.int64)


class WordStream:
    """Fresh words for any of a set of cells, lane after lane. The number of words drawn depends on their values."""

    def __init__(self, randomness: Randomness, ids: Ids) -> None:
        self._randomness = randomness
        self._ids = ids
        self._lane = 0

    def __len__(self) -> int:
        return len(self._ids)

    def words(self, cells: NDArray[np.intp]) -> Words:
        """Return one fresh word for each of the cells, shape (len(cells),)."""
        words = np.empty(len(cells), dtype=np.uint64)
        # Where no cell has an id of its own, nothing is looked up.
        ids = self._ids[cells] if self._ids.strides[0] else self._ids[: len(cells)]
        self._randomness.fill(words, ids, self._lane)
        self._lane += 1
        return words


def public_stream(released: Any, count: int) -> WordStream:
    """Return words for `count` records that follow from the seed of a released array."""
    seed = np.asarray(released)[:SEED_WORDS].astype("<i8").tobytes()
    public = KeyedRandomness(seed, b"what a release of bags publishes")
    return WordStream(public, public.record_ids(None, count))


def normals(stream: WordStream) -> Floats:
    """Return standard normal numbers, shape (len(stream),).

    P(|W| > x) = U is taken as u or 1 - u with u in (0, 1/2) from 128 bits, and from more where u is small, so that
    small numbers and large ones have the same relative error.

    Source: `docs/proofs/bags.md`.
    """
    from scipy.special import erfcinv, erfinv

    every = np.arange(len(stream))
    high, low, coins = (stream.words(every) for _ in range(3))
    share = (high + (low + 0.5) * 2.0**-64) * 2.0**-65
    for i in np.flatnonzero(high < np.uint64(FEW_BITS)):
        share[i] = _small_share((int(high[i]) << 64) | int(low[i]), stream, every[i : i + 1])
    share = np.minimum(share, np.nextafter(0.5, 0))
    size = np.sqrt(2) * np.where(coins & np.uint64(1), erfcinv(share), erfinv(share))
    return np.asarray(np.where(coins & np.uint64(2), -size, size), dtype=np.float64)


def _small_share(number: int, stream: WordStream, cell: NDArray[np.intp]) -> float:
    """Return half of a uniform number of 128 bits, continued until it has at least 65 significant ones."""
    bits = 128
    while number < WORD:
        number, bits = (number << 64) | int(stream.words(cell)[0]), bits + 64
    return float(Fraction(2 * number + 1, 1 << (bits + 2)))


class RecordStream(WordStream):
    """A `WordStream` in which each cell counts its own lanes: its draws do not depend on the cells next to it."""

    def __init__(self, randomness: Randomness, ids: Ids) -> None:
        super().__init__(randomness, ids)
        self._lanes = np.zeros(len(ids), dtype=np.intp)

    def words(self, cells: NDArray[np.intp]) -> Words:
        words = np.empty(len(cells), dtype=np.uint64)
        self._randomness.fill(words, self._ids[cells], self._lanes[cells])
        self._lanes[cells] += 1
        return words


def successive(rng: Randomness, count: int) -> WordStream:
    """Return words for `count` draws from a source that gives them one after another.

    Raises:
        InputError: keyed randomness by records, whose words would be the same ones each time.
    """
    return WordStream(as_successive(rng), np.broadcast_to(np.uint64(0), (count,)))


def fresh_words(rng: Randomness, count: int) -> Words:
    """Return `count` uniform 64-bit words."""
    words = np.empty(count, dtype=np.uint64)
    rng.fill(words, words)  # Ids matter to keyed randomness alone.
    return words


def uniform(bounds: Integers, rng: Randomness) -> Integers:
    """Return exactly uniform integers, each below its own bound (1 to 2**62), by rejection, shape (n,)."""
    sizes, values = bounds.astype(np.uint64), np.zeros(len(bounds), dtype=np.int64)
    surplus = (np.uint64(WORD - 1) % sizes + np.uint64(1)) % sizes  # 2**64 modulo each bound
    open_cells = np.arange(len(bounds))
    while open_cells.size:
        words = fresh_words(rng, open_cells.size)
        values[open_cells] = (words % sizes[open_cells]).astype(np.int64)
        open_cells = open_cells[words > np.uint64(WORD - 1) - surplus[open_cells]]
    return values


@dataclass(frozen=True)
class AliasTable:
    """Any finite law by one word: the high bits choose a column, the low bits choose between its two outputs.

    The number of columns is a power of two, so every column holds the same integer share of 2**64 and
    no weight is rounded. Build it with `AliasTable.of`.

    Source: Walker (1977); Vose (1991), here in integers.
    """

    outputs: int
    shift: int
    thresholds: NDArray[np.uint64] = field(repr=False)
    aliases: NDArray[np.uint32] = field(repr=False)

    @classmethod
    def of(cls, weights: Sequence[int]) -> "AliasTable":
        """Return the table of integer weights that sum to 2**64, at most 2**24 of them."""
        if sum(weights) != WORD or min(weights) < 0:
            raise ValueError("weights must be non-negative integers that sum to 2**64")
        bits = max(1, (len(weights) - 1).bit_length())
        columns, share = 1 << bits, WORD >> bits
        thresholds, aliases = _fill_columns([*weights, *[0] * (columns - len(weights))], share)
        # A full column keeps its whole share, which fits in 64 bits because there are at least two columns.
        return cls(len(weights), 64 - bits, np.array(thresholds, dtype=np.uint64), np.array(aliases, dtype=np.uint32))

    def draw(self, words: Words) -> NDArray[np.intp]:
        """Return outputs for uniform words, shape (n,)."""
        columns = (words >> np.uint64(self.shift)).astype(np.intp)
        remainder = words & np.uint64((1 << self.shift) - 1)
        return np.where(remainder < self.thresholds[columns], columns, self.aliases[columns])

    def weights(self) -> list[int]:
        """Return the exact weights, read back from the columns."""
        total = [0] * len(self.thresholds)
        share = 1 << self.shift
        for column, (threshold, other) in enumerate(zip(self.thresholds.tolist(), self.aliases.tolist(), strict=True)):
            total[column] += threshold
            total[other] += share - threshold
        return total[: self.outputs]


def _fill_columns(remaining: list[int], share: int) -> tuple[list[int], list[int]]:
    """Vose's two stacks in integers: each small weight is topped up by a large one."""
    thresholds, aliases = [share] * len(remaining), list(range(len(remaining)))
    small = [i for i, weight in enumerate(remaining) if weight < share]
    large = [i for i, weight in enumerate(remaining) if weight >= share]
    while small:
        low, high = small.pop(), large[-1]
        thresholds[low], aliases[low] = remaining[low], high
        remaining[high] -= share - remaining[low]
        if remaining[high] < share:
            small.append(large.pop())
    return thresholds, aliases

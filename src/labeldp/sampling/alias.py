"""The two exact samplers behind every finite mechanism: one word for each draw, integers only."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import WORD, Words


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
    others: NDArray[np.uint32] = field(repr=False)

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
        return np.where(remainder < self.thresholds[columns], columns, self.others[columns])

    def weights(self) -> list[int]:
        """Return the exact weights, read back from the columns."""
        total = [0] * len(self.thresholds)
        share = 1 << self.shift
        for column, (threshold, other) in enumerate(zip(self.thresholds.tolist(), self.others.tolist(), strict=True)):
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

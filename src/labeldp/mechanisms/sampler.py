"""The two exact samplers behind every finite mechanism: one word for each draw, integers only."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import WORD, InputError, Words, exp_bounds, shortest_float


@dataclass(frozen=True)
class ResponseLaw:
    """Randomized response over `size` candidates by one word u.

    If u < (size - 1) * lie, the answer is the (u div lie)-th other candidate, counted cyclically, and
    the truth else. A label outside of the candidates is answered by the (u div ⌊2**64 / size⌋)-th, or the last.

    Guarantee: any two labels give every answer with weights of ratio at most e**epsilon.
    Proof: `docs/proofs/randomized_response.md`.
    """

    size: int
    lie: int

    @classmethod
    def of(cls, size: int, epsilon: Fraction) -> "ResponseLaw":
        """The law for an exact epsilon; its guarantee is checked here, in integers.

        Raises:
            InputError: epsilon is too small for a table of 64-bit weights.
        """
        low, _ = exp_bounds(epsilon)
        law = cls(size, -(-WORD * low.denominator // (low.numerator + (size - 1) * low.denominator)))
        spread = (law.lie, law.uniform, law.uniform_last, law.keep)
        ordered = sorted(spread) == list(spread) and law.lie < law.keep  # else every answer is equally likely
        if size > 1 and not (ordered and law.keep <= low * law.lie):
            raise InputError(
                f"epsilon = {shortest_float(epsilon):g} is too small for {size} candidates: "
                f"64-bit weights need at least about {size * size / WORD:.1g}"
            )
        return law

    @property
    def keep(self) -> int:
        """Weight of the truth."""
        return WORD - (self.size - 1) * self.lie

    @property
    def uniform(self) -> int:
        """Weight of every candidate but the last, for a label that is none of them."""
        return WORD // self.size

    @property
    def uniform_last(self) -> int:
        """Weight of the last candidate, for a label that is none of them."""
        return WORD - (self.size - 1) * self.uniform

    def rows(self) -> list[list[int]]:
        """Exact weights, shape (size + 1, size): row i for candidate i, the last row for a label outside."""
        rows = [[self.keep if j == i else self.lie for j in range(self.size)] for i in range(self.size)]
        return [*rows, [self.uniform] * (self.size - 1) + [self.uniform_last]]


def respond(codes: NDArray[Any], words: Words, law: ResponseLaw) -> NDArray[Any]:
    """Randomized response over all codes 0 to size - 1, shape (n,); destroys `words`."""
    if law.size == 2:
        return codes ^ (words < np.uint64(law.lie)).view(np.uint8).astype(codes.dtype, copy=False)
    np.floor_divide(words, np.uint64(law.lie), out=words)
    np.minimum(words, np.uint64(law.size - 1), out=words)
    wide = np.min_scalar_type(2 * law.size)
    shifted = words.astype(wide)
    shifted += codes
    shifted += wide.type(1)
    # Below 2 * size, so reducing once is reducing modulo size; a negative difference wraps to a large value.
    np.minimum(shifted, shifted - wide.type(law.size), out=shifted)
    return shifted.astype(codes.dtype, copy=False)


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
        """The table of integer weights that sum to 2**64, at most 2**24 of them."""
        if sum(weights) != WORD or min(weights) < 0:
            raise ValueError("weights must be non-negative integers that sum to 2**64")
        bits = max(1, (len(weights) - 1).bit_length())
        columns, share = 1 << bits, WORD >> bits
        thresholds, others = _fill_columns([*weights, *[0] * (columns - len(weights))], share)
        # A full column keeps its whole share, which fits in 64 bits because there are at least two columns.
        return cls(len(weights), 64 - bits, np.array(thresholds, dtype=np.uint64), np.array(others, dtype=np.uint32))

    def draw(self, words: Words) -> NDArray[np.intp]:
        """Outputs for uniform words, shape (n,)."""
        columns = (words >> np.uint64(self.shift)).astype(np.intp)
        rest = words & np.uint64((1 << self.shift) - 1)
        return np.where(rest < self.thresholds[columns], columns, self.others[columns])

    def weights(self) -> list[int]:
        """The exact weights, read back from the columns."""
        total = [0] * len(self.thresholds)
        share = 1 << self.shift
        for column, (threshold, other) in enumerate(zip(self.thresholds.tolist(), self.others.tolist(), strict=True)):
            total[column] += threshold
            total[other] += share - threshold
        return total[: self.outputs]


def _fill_columns(rest: list[int], share: int) -> tuple[list[int], list[int]]:
    """Vose's two stacks in integers: each small weight is topped up by a large one."""
    thresholds, others = [share] * len(rest), list(range(len(rest)))
    small = [i for i, weight in enumerate(rest) if weight < share]
    large = [i for i, weight in enumerate(rest) if weight >= share]
    while small:
        low, high = small.pop(), large[-1]
        thresholds[low], others[low] = rest[low], high
        rest[high] -= share - rest[low]
        if rest[high] < share:
            small.append(large.pop())
    return thresholds, others

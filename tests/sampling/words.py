"""Sources of chosen words, and what a sampler does with every word there is."""

from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import FiniteMechanism
from labeldp.privacy import WORD, Randomness, RandomnessKind


class ChosenWords(Randomness):
    """Gives the words that it was made with, one after another."""

    kind = RandomnessKind.SIMULATION

    def __init__(self, words: Iterable[int]) -> None:
        self.rest = [int(word) for word in words]

    def fill(self, words: NDArray[np.uint64], ids: object = None, lane: int = 0) -> None:
        """The next words."""
        taken, self.rest = self.rest[: len(words)], self.rest[len(words) :]
        words[:] = np.array(taken, dtype=np.uint64)

    def record_ids(self, ids: object, count: int) -> NDArray[np.uint64]:
        """Not used."""
        return np.zeros(count, dtype=np.uint64)


def answers(mechanism: FiniteMechanism, code: int, record: int = 0) -> Callable[[list[int]], list[int]]:
    """The output of a mechanism for one label, as a function of the word."""

    def answer(words: list[int]) -> list[int]:
        codes = np.full(1, code, dtype=mechanism.domain.dtype)
        one = (mechanism.sample(codes, record, ChosenWords([word]), np.zeros(1, dtype=np.uint64)) for word in words)
        return [int(value[0]) for value in one]

    return answer


def preimages(answer: Callable[[list[int]], list[int]], cuts: Iterable[int], outputs: int) -> list[int]:
    """How many of the 2**64 words give each output, where the output is constant between the given cuts.

    Both ends of every piece and two words inside are propose; a piece that is not constant is an error.
    """
    edges = sorted({0, *cuts, WORD})
    counts = [0] * outputs
    for low, high in pairwise(edges):
        width = high - low
        seen = set(answer([low, low + width // 3, low + width // 2, high - 1]))
        assert len(seen) == 1, "the sampler changes its answer where its weights say that it does not"
        counts[seen.pop()] += width
    return counts

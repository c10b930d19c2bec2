"""What tests of lazy players share: paths of actions of tiny learners, chosen words, an exact rejection sampler."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.online import Kernel
from labeldp.privacy import WORD, as_randomness, exp_bounds
from labeldp.sampling import keep_coins, uniform
from sampling.words import ChosenWords

BATCHES = np.array([[1, 0, 2], [2, 2, 0], [0, 1, 2]])
"""Losses of three experts in three batches of two rounds, summed."""


class Chosen(ChosenWords):
    """The same, and an error where more words are asked for than were chosen."""

    def fill(self, words: NDArray[np.uint64], ids: object = None, lane: int = 0) -> None:
        """The next words."""
        assert len(words) <= len(self.rest), "more words than were chosen"
        super().fill(words, ids, lane)


def rounds(batches: NDArray[np.int64], batch: int, levels: int = 255) -> NDArray[Any]:
    """Losses of nothing or one in batches of rounds that sum up to these, as levels."""
    losses = (np.arange(batch)[:, None, None] < batches).swapaxes(0, 1).reshape(-1, batches.shape[1])
    return (losses * levels).astype(np.uint8 if levels == 255 else np.uint16)


def paths(
    kernel: Kernel[Any], losses: NDArray[Any], seed: int, split: Callable[[], list[int]] | None = None
) -> Callable[[int], NDArray[np.intp]]:
    """Draws of all actions, one for each batch and the one that comes after, as numbers to the base of the experts."""
    rng = as_randomness(np.random.default_rng(seed))

    def draw(count: int) -> NDArray[np.intp]:
        found = np.zeros(count, dtype=np.intp)
        for i in range(count):
            state, played = kernel.init(rng=rng), []
            for part in np.split(losses, split() if split else []):
                state, actions = kernel.update(state, part, rng=rng)
                played += actions.tolist()
            for action in [*played[:: kernel.batch], kernel.predict(state)]:
                found[i] = found[i] * kernel.experts + action
        return found

    return draw


def by_rejection(totals: NDArray[np.int64], unit: Fraction, count: int, seed: int) -> NDArray[np.intp]:
    """Indices with probability proportional to e^(-unit · total): uniform ones, each kept by a coin, exactly."""
    rng = as_randomness(np.random.default_rng(seed))
    found, left = np.zeros(count, dtype=np.intp), np.arange(count)
    while left.size:
        tried = uniform(np.full(left.size, len(totals)), rng)
        kept = keep_coins((totals - totals.min())[tried], unit, Fraction(1), rng=rng)
        found[left[kept]] = tried[kept]
        left = left[~kept]
    return found


def cut(probability: Fraction, bits: int) -> list[int]:
    """The words of 64 bits in the first `bits` bits of a probability below 1."""
    whole = (probability.numerator << bits) // probability.denominator
    return [whole >> (bits - 64 * (i + 1)) & (WORD - 1) for i in range(bits // 64)]


def decay(exponent: Fraction) -> Fraction:
    """e^-exponent, to 1200 bits behind the point."""
    low, _ = exp_bounds(-exponent, bits=1240)
    return Fraction((low.numerator << 1200) // low.denominator, 1 << 1200)

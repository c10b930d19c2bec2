"""Answers that are sets of classes, and unbiased estimates."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import Flags, Floats, InputError


@dataclass(frozen=True)
class Debiased:
    """Unbiased estimates and what they cost.

    Args:
        values: for classes the indicators of the true label, shape (n, K), rows sum to about 1, entries
            may be negative; for an interval the labels, shape (n,), in their unit.
        condition_number: of the noise matrix in the maximum norm, at least 1: by this much noise may be amplified.
    """

    values: NDArray[np.float64] = field(repr=False)
    condition_number: float


@dataclass(frozen=True)
class SetAnswers:
    """Answers that are sets of classes, packed eight to a byte as `numpy.packbits` does.

    Args:
        classes: K.
        odds: P(answer | class) of a class that the answer names, over that of one that it does not name.
        own: P(the answer names the label's own class).
        other: P(the answer names any other class).
        sizes: how many classes an answer can name.
    """

    classes: int
    odds: float
    own: float
    other: float
    sizes: NDArray[np.intp] = field(repr=False)

    def named(self, noisy: Any) -> Flags:
        """Return which classes each answer names, shape (n, K).

        Raises:
            InputError: not packed bits of these classes.
        """
        packed, width = np.asarray(noisy), -(-self.classes // 8)
        if packed.dtype != np.uint8 or packed.ndim != 2 or packed.shape[1] != width:
            raise InputError(f"must be packed bits, uint8, shape (n, {width})", argument="noisy")
        return np.unpackbits(packed, axis=1, count=self.classes).view(np.bool_)

    def likelihood(self, noisy: Any) -> Floats:
        """Return P(answer | class) up to a factor of each record, shape (n, K)."""
        return np.where(self.named(noisy), self.odds, 1.0)

    def unbiased(self, noisy: Any) -> Debiased:
        """Unbiased class indicators, shape (n, K): averaged over noise and public partitions, they are the truth."""
        named, gap = self.named(noisy), self.own - self.other
        worst = (self.sizes * (1 - self.other) + (self.classes - self.sizes) * self.other).max()
        return Debiased(np.asarray((named - self.other) / gap, dtype=np.float64), float(worst / gap))

    def gradient_weights(self, noisy: Any) -> Floats:
        """Return unbiased indicators, shifted so that each row sums to 1, shape (n, K).

        Source: `docs/proofs/learning.md`.
        """
        named = self.named(noisy)
        centered = named - named.mean(axis=1, keepdims=True)
        return np.asarray(1 / self.classes + centered / (self.own - self.other), dtype=np.float64)

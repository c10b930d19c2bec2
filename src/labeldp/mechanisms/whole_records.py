"""Mechanisms of a trusted curator that protect features and labels: one answer for every cell of a fixed grid."""

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.base import EpsilonMechanism, word_stream
from labeldp.mechanisms.domains import Classes, Interval, Located
from labeldp.mechanisms.selection import select, selection_law
from labeldp.privacy import (
    InputError,
    Integers,
    Neighbors,
    PrivacyLoss,
    RandomSource,
    Trust,
    positive_epsilon,
    set_fields,
)
from labeldp.sampling import MIN_RATE, discrete_laplace, laplace_law

RULES = ("permute-and-flip", "exponential")

MAX_SMALLEST = 1 << 40
"""n_0 is at most so much: means are kept in integers of 64 bits."""

UNITS_MOVED = 1 << 20
"""About so many units are the most that one record moves all cells of `FullMeans` together: rounding is lost in it."""


@dataclass(frozen=True, kw_only=True)
class _Full(EpsilonMechanism):
    """A release about every cell of a grid, occupied or not."""

    neighbors: ClassVar[Neighbors] = Neighbors.FULL
    trust: ClassVar[Trust] = Trust.CENTRAL
    domain: Located = field(kw_only=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.domain, Located):
            raise InputError("domain must be Located: a fixed grid of cells and the domain of the labels")

    def privacy_loss(self) -> PrivacyLoss:
        """Pure epsilon."""
        return PrivacyLoss.pure(self.epsilon)

    def cell_values(self, released: Any) -> NDArray[Any]:
        """Return what was released for each cell: codes of classes, or means in the unit of the labels."""
        return np.asarray(released)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """That nobody looked at the features."""
        return ("the cells and their bounds were chosen without a look at the features",)


@final
@dataclass(frozen=True, kw_only=True)
class FullSelection(_Full):
    """For every cell a class, chosen by its count; features and labels are private.

    It costs nothing to protect the features as well: the noise is that of `PermuteAndFlip` and
    `ExponentialMechanism` under label privacy. What is lost is the choice of cells.

    Args:
        domain: `Located` with `Classes`.
        epsilon: privacy parameter, positive.
        rule: "permute-and-flip", or "exponential", the textbook's, which is never better.
        printed: the paper's exponent of epsilon / 4 for each count in place of epsilon / 2, which is enough.

    Guarantee (pure): epsilon-DP for each record, features and label.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, eq. (31);
    `docs/corrections.md`. Proof: `docs/proofs/counts.md`.
    """

    contract: ClassVar[str] = "classes of cells"
    rule: str = "permute-and-flip"
    printed: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.domain.labels, Classes):
            raise InputError("domain must have Classes as labels, such as Located(grid, Classes(2))")
        if self.rule not in RULES:
            raise InputError(f"rule must be one of {', '.join(RULES)}")
        self._calibrate()

    def _calibrate(self) -> None:
        if self.unit < MIN_RATE:
            raise InputError("epsilon is too small for a choice by counts: take at least 1e-9")

    @property
    def unit(self) -> Fraction:
        """The exponent that one missing count costs."""
        return positive_epsilon(self.epsilon) / (4 if self.printed else 2)

    def parameters(self) -> dict[str, Any]:
        """Epsilon, rule and exponent."""
        return {**super().parameters(), "rule": self.rule, "printed": self.printed}

    @property
    def published(self) -> str:
        """What leaves, in words."""
        return f"one class for each of all {self.domain.grid.cells} cells, empty or not, by {self}"

    def randomize(self, labels: Any, *, rng: RandomSource, ids: Any = None) -> NDArray[Any]:
        """Return the code of one class for each cell, shape (cells,); see `Mechanism.randomize`."""
        counts = self.domain.table(labels)
        return self.release_counts(counts, rng=self.bound(rng))

    def release_counts(self, counts: Integers, *, rng: RandomSource) -> NDArray[Any]:
        """Return the same for counts (cells, K) that are given."""
        again = self.rule == "exponential"
        return select(word_stream(rng, len(counts)), counts, self.unit, again=again).astype(self.domain.labels.dtype)

    def law(self, counts: Any) -> NDArray[np.float64]:
        """Return P(class) for the counts (K,) of one cell: for tests and planning."""
        return selection_law(counts, self.unit, again=self.rule == "exponential")


@final
@dataclass(frozen=True, kw_only=True)
class FullMeans(_Full):
    """For every cell its mean label with two-sided geometric noise; features and labels are private.

    The sum of a cell, counted from the middle of the range, is divided by its number of records or by `smallest`,
    whichever is more: how many there are is private. An empty cell answers with the middle of the range and noise.

    Args:
        domain: `Located` with an `Interval`.
        epsilon: privacy parameter, positive.
        smallest: n_0: about half of the records that a cell is expected to hold, which must be public; an integer.
        printed: the paper's noise, of scale 6T/(n_0 ε) with T = (high - low)/2, in place of 4T/((n_0 + 1) ε), which
            is enough.

    Guarantee (pure): epsilon-DP for each record, features and label, for the emitted bits.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, eq. (33) to (36);
    `docs/corrections.md`. Proof: `docs/proofs/counts.md`.
    """

    contract: ClassVar[str] = "means of cells"
    smallest: int
    printed: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.domain.labels, Interval):
            raise InputError("domain must have an Interval as labels, such as Located(grid, Interval(0, 1, grid=257))")
        whole = isinstance(self.smallest, int | np.integer) and not isinstance(self.smallest, bool)
        if not whole or not 1 <= self.smallest <= MAX_SMALLEST:
            raise InputError(
                "smallest (n_0) must be an integer from 1 to 2**40 that is public, such as half of the number of "
                "records that an average cell should hold"
            )
        set_fields(self, smallest=int(self.smallest))
        self._calibrate()

    def _calibrate(self) -> None:
        if self.rate < MIN_RATE:
            raise InputError("epsilon is too small for integer noise of 64 bits")

    @property
    def interval(self) -> Interval:
        """The range of the labels."""
        assert isinstance(self.domain.labels, Interval)
        return self.domain.labels

    @property
    def moved(self) -> Fraction:
        """By how many half steps of the label grid one record moves all means together, at most."""
        radius = self.interval.size - 1
        return Fraction(6 * radius, self.smallest) if self.printed else Fraction(4 * radius, self.smallest + 1)

    @property
    def fine(self) -> int:
        """Units in one half step: means are rounded to units."""
        return ceil(UNITS_MOVED / self.moved)

    @property
    def sensitivity(self) -> int:
        """By how many units one record moves all rounded means together: two of them move, each less than one more."""
        return ceil(self.moved * self.fine) + 1

    @property
    def rate(self) -> Fraction:
        """Noise i, in units, has probability proportional to e^(-rate |i|)."""
        return positive_epsilon(self.epsilon) / self.sensitivity

    @property
    def scale(self) -> float:
        """Of the noise on each mean, in the unit of the labels."""
        return float(self.interval.step / 2 / (self.fine * self.rate))

    def parameters(self) -> dict[str, Any]:
        """Epsilon, n_0 and the noise."""
        return {**super().parameters(), "smallest": self.smallest, "printed": self.printed}

    @property
    def published(self) -> str:
        """What leaves, in words."""
        return f"one noisy mean for each of all {self.domain.grid.cells} cells, empty or not, by {self}"

    def randomize(self, labels: Any, *, rng: RandomSource, ids: Any = None) -> Integers:
        """Return noisy means in units, shape (cells,); `means` has them in the unit of the labels."""
        rounded = self.rounded(self.domain.table(labels))
        return rounded + self.draw_noise(len(rounded), rng=self.bound(rng))

    def rounded(self, table: Integers) -> Integers:
        """Return means in units from how often each cell has each label, shape (cells, grid): private."""
        twice = 2 * np.arange(self.interval.size, dtype=np.int64) - (self.interval.size - 1)
        sums, counts = table @ twice, np.maximum(table.sum(axis=1), self.smallest)
        whole, rest = np.divmod(sums, counts)
        # Twice the remainder times the units may leave 64 bits: exact integers there.
        wide = rest.astype(object) if int(counts.max()) * self.fine >= 1 << 61 else rest
        part = (2 * wide * self.fine + counts) // (2 * counts)
        return np.asarray(whole * self.fine + part, dtype=np.int64)

    def draw_noise(self, count: int, *, rng: RandomSource) -> Integers:
        """Draw noise in units, shape (count,), without records."""
        return discrete_laplace(word_stream(rng, count), self.rate)

    def noise_law(self, edges: Integers) -> NDArray[np.float64]:
        """Return the law of the noise between edges, in units: for tests and planning."""
        return laplace_law(float(self.rate), edges)

    def cell_values(self, released: Any) -> NDArray[Any]:
        """Return the means; see `means`."""
        return self.means(released)

    def means(self, released: Any) -> NDArray[np.float64]:
        """Return what was released in the unit of the labels, not clipped, shape (cells,)."""
        half_steps = np.asarray(released, dtype=np.float64) / self.fine + (self.interval.size - 1)
        return np.asarray(self.interval.low + half_steps * (self.interval.step / 2), dtype=np.float64)

"""Mechanisms and learners that protect features and labels: one answer for every cell of a fixed grid.

A trusted curator answers; `simulate_full_local` is the baseline without one.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Any, ClassVar, Self, final
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from labeldp.features.rows import plain_table
from labeldp.learners import CubeGrid, Model
from labeldp.learners.evidence import Probabilities
from labeldp.mechanisms import Classes, Domain, Interval, Mechanism
from labeldp.mechanisms.base import word_stream
from labeldp.mechanisms.domains import MAX_SIZE, Codes
from labeldp.mechanisms.histograms import select, selection_law
from labeldp.privacy import (
    Certificate,
    Charge,
    CuratorLike,
    InputError,
    Integers,
    PrivacyLoss,
    RandomnessKind,
    RandomSource,
    Release,
    Trust,
    Unit,
    positive_epsilon,
    set_fields,
)
from labeldp.sampling import MIN_RATE, discrete_laplace, laplace_law
from labeldp.testing.checks import MORE_EPSILON, SLACK, check_noise
from labeldp.testing.laws import check_law, require

RULES = ("permute-and-flip", "exponential")

MAX_SMALLEST = 1 << 40
"""n_0 is at most so much: means are kept in integers of 64 bits."""

UNITS_MOVED = 1 << 20
"""About so many units are the most that one record moves all cells of `FullMeans` together: rounding is lost in it."""


@final
@dataclass(frozen=True)
class Located(Domain):
    """Records whose features are private, too: a cell of a fixed grid and a label.

    A curator over this domain holds `(features, labels)`, and its mechanisms protect both. Features outside of the
    grid count as clamped to it, silently, because their number is private.

    Args:
        grid: fixed without a look at the data.
        labels: the domain of the labels.

    Examples:
        >>> from labeldp.learners import CubeGrid
        >>> from labeldp.mechanisms import Classes
        >>> domain = Located(CubeGrid.of_side(0.5, [(0, 1)]), Classes(("no", "yes")))
        >>> domain.encode(([[0.2], [7.0]], ["yes", "no"]))
        array([1, 2], dtype=uint8)
    """

    target: ClassVar[str] = "records"
    grid: CubeGrid
    labels: Domain

    def __post_init__(self) -> None:
        if not isinstance(self.grid, CubeGrid):
            raise InputError(
                "must be a CubeGrid: cells that looked at the data tell something about the features", argument="grid"
            )
        if not isinstance(self.labels, Domain) or isinstance(self.labels, Located):
            raise InputError("labels must be the domain of the labels, such as Classes(2)")
        if self.size > MAX_SIZE:
            raise InputError(
                f"{self.grid.cells:,} cells of {self.labels.size:,} labels are more than the {MAX_SIZE:,} that fit, "
                "as every cell is released, empty or not: take larger cubes, fewer features or fewer grid points"
            )

    @property
    def size(self) -> int:
        """Cells times labels."""
        return self.grid.cells * self.labels.size

    def encode(self, labels: Any) -> Codes:
        """Return codes cell * size of the labels + code of the label, shape (n,).

        Args:
            labels: the pair (features, labels), of shapes (n, d) and (n,).
        """
        if not isinstance(labels, tuple | list) or len(labels) != 2:
            raise InputError("labels must be the pair (features, labels), because both are private")
        features, own = labels
        cells, codes = self.grid.index(features), self.labels.encode(own)
        if len(cells) != len(codes):
            raise InputError("features must have one row for each label")
        return (cells * self.labels.size + codes).astype(self.dtype)

    def decode(self, codes: Any) -> NDArray[Any]:
        """Return cell and code of the label of each record, shape (n, 2)."""
        return np.stack(np.divmod(self.check_codes(codes).astype(np.int64), self.labels.size), axis=1)

    def table(self, codes: Any) -> NDArray[np.int64]:
        """Return how many records each cell has of each label, shape (cells, size of the labels): private."""
        counts = np.bincount(self.check_codes(codes), minlength=self.size)
        return counts.astype(np.int64).reshape(self.grid.cells, self.labels.size)

    def to_json(self) -> dict[str, Any]:
        """Return the grid and the domain of the labels."""
        return {"cells": self.grid.to_json(), "labels": self.labels.to_json()}


@dataclass(frozen=True, kw_only=True)
class _Full(Mechanism):
    """A release about every cell of a grid, occupied or not."""

    neighbors: ClassVar[Unit] = Unit.FULL
    trust: ClassVar[Trust] = Trust.CENTRAL
    domain: Located = field(kw_only=False)
    epsilon: float = field(kw_only=False)

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

    Guarantee: epsilon-DP for each record, features and label.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, eq. (31);
    `docs/theory/corrections.md`. Proof: `docs/proofs/sums-and-counts.md`.
    """

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
        return select(counts, self.unit, again=again, rng=rng).astype(self.domain.labels.dtype)

    def law(self, counts: Any) -> NDArray[np.float64]:
        """Return P(class) for the counts (K,) of one cell: for tests and planning."""
        return selection_law(counts, self.unit, again=self.rule == "exponential")

    def contract(self, seed: int) -> None:
        """Check the joint law of all cells' classes on tables that differ in one record, and the sampler."""
        grid, size = self.domain.grid, self.domain.labels.size
        for one, two in neighboring_tables(grid.cells, size, seed):
            # Cells are independent: the largest ratio of all together is the product of the largest of each.
            ratios = [np.max(self.law(a) / self.law(b)) for a, b in zip(one, two, strict=True)]
            total = float(np.prod(ratios))
            require(total <= math.exp(self.epsilon) * SLACK, "replacing one record costs at most epsilon")
        counts = np.arange(size)[::-1] % 3 + 2
        rng, other = np.random.default_rng(seed), self.with_epsilon(self.epsilon * MORE_EPSILON)

        def draw(count: int) -> NDArray[np.intp]:
            return self.release_counts(np.tile(counts, (count, 1)), rng=rng).astype(np.intp)

        check_law(draw, self.law(counts), other.law(counts))


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

    Guarantee: epsilon-DP for each record, features and label, for the emitted bits.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, eq. (33) to (36);
    `docs/theory/corrections.md`. Proof: `docs/proofs/sums-and-counts.md`.
    """

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

    def contract(self, seed: int) -> None:
        """Check how far one record moves all rounded means together, that the noise fits to it, and the sampler."""
        grid, size = self.domain.grid, self.domain.labels.size
        for one, two in neighboring_tables(grid.cells, size, seed):
            move = np.abs(self.rounded(one) - self.rounded(two)).sum()
            cost = float(self.rate) * int(move)
            require(cost <= self.epsilon * SLACK, "replacing one record costs at most epsilon")
        edges = np.unique(np.rint(np.linspace(-3, 3, 13) / float(self.rate)).astype(np.int64))
        check_noise(self, edges, seed)


def neighboring_tables(cells: int, size: int, seed: int, pairs: int = 40) -> Iterator[tuple[Integers, Integers]]:
    """Yield tables (cells, labels) that differ in one record, which may leave a cell empty or enter an empty one."""
    rng = np.random.default_rng(seed)
    for _ in range(pairs):
        table = rng.integers(0, 4, (cells, size)) * rng.integers(0, 2, (cells, 1))
        own = (int(rng.integers(cells)), int(rng.choice([0, size - 1])))
        other = (int(rng.integers(cells)), int(rng.choice([0, size - 1])))
        one, two = table.copy(), table.copy()
        one[own] += 1
        two[other] += 1
        yield one, two
        yield two, one


class _Grid(BaseEstimator):  # type: ignore[misc]
    """A value for every box of a fixed grid, to which records outside are clamped.

    Args:
        low, high: bounds of the features, shape (d,).
        shape: number of boxes along each feature, shape (d,).
        values: values of the boxes, shape (cells,).
    """

    def __init__(self, low: Any, high: Any, shape: Any, values: Any) -> None:
        self.low = low
        self.high = high
        self.shape = shape
        self.values = values

    @classmethod
    def on(cls, grid: CubeGrid, values: NDArray[Any]) -> Self:
        """Return the estimator with these values of a grid's cells."""
        return cls(np.array(grid.low), np.array(grid.high), np.array(grid.shape), values)

    def found(self, X: Any) -> NDArray[Any]:
        """Return the value of each record's box, shape (n,)."""
        table = plain_table(X, self)  # however far outside a record lies, the grid clamps it
        low, high, shape = (tuple(part.tolist()) for part in (self.low, self.high, self.shape))
        return self.values[CubeGrid(low, high, shape).index(table)]

    @property
    def n_features_in_(self) -> int:
        """Number of features of the grid."""
        return len(self.low)


class GridRegressor(RegressorMixin, _Grid):  # type: ignore[misc]
    """A number for every box of a fixed grid; made by `fit_full_cells`, not fitted to labels of its own."""

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return numbers, shape (n,)."""
        return np.asarray(self.found(X))


class GridClassifier(ClassifierMixin, _Grid):  # type: ignore[misc]
    """A class for every box of a fixed grid; made by `fit_full_cells`, not fitted to labels of its own.

    Args:
        low, high, shape, values: as in `GridRegressor`; values are codes.
        classes: number of classes, K.
    """

    def __init__(self, low: Any, high: Any, shape: Any, values: Any, classes: int = 2) -> None:
        super().__init__(low, high, shape, values)
        self.classes = classes

    @property
    def classes_(self) -> NDArray[np.intp]:
        """Codes 0 to K - 1."""
        return np.arange(self.classes)

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return codes, shape (n,)."""
        return np.asarray(self.found(X), dtype=np.intp)

    def predict_proba(self, X: Any) -> Probabilities:
        """Return 1 for the class of the box and 0 for others, shape (n, K): nothing else was released."""
        return np.eye(self.classes)[self.predict(X)]


def fit_full_cells(
    curator: CuratorLike,
    *,
    epsilon: float,
    rng: RandomSource,
    smallest: int | None = None,
    rule: str = "permute-and-flip",
    printed: bool = False,
) -> Release[Model]:
    """Learn one answer for every cell of a fixed grid, protecting features and labels, with a trusted curator.

    Use it where features are private, too. Which cells hold records is private then: the grid must be fixed without
    looking at the data, records outside are clamped to it silently, and every cell is released, empty or not.

    Args:
        curator: holds features and labels: `Curator((features, labels), domain=Located(grid, labels_domain), …)`, with
            the grid of `CubePartition(side, bounds).grid(dimension)`.
        epsilon: cost of the release.
        rng: randomness of the noise.
        smallest: n_0, for numbers: about half of the records that a cell is expected to hold. It must be public.
        rule: for classes, "permute-and-flip" or "exponential".
        printed: use the paper's larger noise, for comparison.

    Guarantee: epsilon-DP for each whole record.

    Raises:
        InputError: an argument is wrong; nothing was charged.
        BudgetExceeded: nothing was charged.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, eq. (31), (33) and (36), and
    tighter (`docs/theory/corrections.md`).
    """
    domain = _located(curator.domain)
    if isinstance(domain.labels, Classes):
        if smallest is not None:
            raise InputError("smallest (n_0) must be left out for classes: it belongs to means of numbers")
        mechanism: Any = FullSelection(domain=domain, epsilon=epsilon, rule=rule, printed=printed)
    elif smallest is None:
        raise InputError(
            "smallest (n_0) must be given for numbers: about half of the records that a cell is expected to hold, "
            "from public knowledge"
        )
    else:
        mechanism = FullMeans(domain=domain, epsilon=epsilon, smallest=smallest, printed=printed)
    release = curator.release(mechanism, rng=rng, step="full cells")
    return release.map(lambda value: _model(domain, release.mechanism.cell_values(value)))


def simulate_full_local(
    features: Any,
    labels: Any,
    *,
    domain: Located,
    epsilon: float,
    rng: np.random.Generator,
    smallest: float = 1.0,
) -> Release[Model]:
    """Simulate the baseline of full local DP, in which every user adds noise to the indicators of all cells.

    Use it to see what public features save; it protects nothing. Noise is drawn in doubles and not for each user: the
    sum of N Laplace variables has the law of the difference of two Gamma variables of shape N.

    Args:
        features, labels: those of the users, shapes (n, d) and (n,).
        domain: the fixed grid and the domain of the labels.
        epsilon: cost to each user.
        rng: a NumPy generator; nothing else is accepted.
        smallest: for numbers, the noisy number of records below which a cell answers with the middle of the range.

    Returns:
        The model; its certificate says that it is a simulation.

    Raises:
        InputError: an argument is wrong.

    Source: Berrett and Butucea (2019) for classes; Berrett, Györfi and Walk (2021) for numbers.
    """
    if not isinstance(rng, np.random.Generator):
        raise InputError("rng must be a numpy.random.Generator: this baseline is a simulation")
    noise = _LocalNoise(_located(domain), float(positive_epsilon(epsilon)), rng)
    table = domain.table(domain.encode((features, labels)))
    kind = domain.labels
    values = noise.select(table) if isinstance(kind, Classes) else noise.means(table, smallest)
    charge = Charge(uuid4().hex, (), PrivacyLoss.pure(epsilon), {"mechanism": "full local baseline"})
    certificate = Certificate(
        entries=(charge,),
        dataset="a simulation",
        neighbors=Unit.FULL,
        trust=Trust.LOCAL,
        randomness=RandomnessKind.SIMULATION,
        published=f"noisy indicators of all {domain.grid.cells} cells for each record, summed",
    )
    return Release(_model(domain, values), certificate)


@dataclass(frozen=True)
class _LocalNoise:
    """The users' noise on the table of records, cell by label, shape (cells, labels)."""

    domain: Located
    epsilon: float
    rng: np.random.Generator

    def select(self, table: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the class of each cell with the largest noisy sum of indicators: a record moves two of them by one."""
        return (table + self._sums(table.shape, int(table.sum()), 2 / self.epsilon)).argmax(axis=1)

    def means(self, table: NDArray[np.int64], smallest: float) -> NDArray[np.float64]:
        """Return noisy sums over noisy counts, each at half of epsilon, clipped; the middle where counts are small."""
        interval = self.domain.labels
        assert isinstance(interval, Interval)
        middle, radius = (interval.low + interval.high) / 2, (interval.high - interval.low) / 2
        numbers = interval.decode(np.arange(interval.size)) - middle
        users, cells = int(table.sum()), len(table)
        counts = table.sum(axis=1) + self._sums((cells,), users, 4 / self.epsilon)
        sums = table @ numbers + self._sums((cells,), users, 4 * radius / self.epsilon)
        ratio = np.where(counts >= smallest, sums / np.maximum(counts, smallest), 0.0)
        return middle + np.clip(ratio, -radius, radius)

    def _sums(self, shape: tuple[int, ...], users: int, scale: float) -> NDArray[np.float64]:
        """Draw sums of one Laplace variable for each user."""
        return self.rng.gamma(users, scale, shape) - self.rng.gamma(users, scale, shape)


def _located(domain: Any) -> Located:
    """Return a domain of whole records, or raise an `InputError` if features are not part of it."""
    if not isinstance(domain, Located):
        raise InputError(
            "curator must hold features and labels, as Curator((features, labels), domain=Located(grid, labels)) does, "
            "on a grid that nobody fitted: CubePartition(side, bounds).grid(dimension)"
        )
    return domain


def _model(domain: Located, values: NDArray[Any]) -> Model:
    """Return the model that answers with one value for each cell."""
    if isinstance(domain.labels, Interval):
        kept = np.clip(values, domain.labels.low, domain.labels.high)
        return Model(domain.labels, GridRegressor.on(domain.grid, kept))
    estimator = GridClassifier.on(domain.grid, values)
    return Model(domain.labels, estimator.set_params(classes=domain.labels.size))

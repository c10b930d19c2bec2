"""Sums of public rows that private labels weight or choose, with integer noise, from a trusted curator."""

import hashlib
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from fractions import Fraction
from functools import cached_property
from math import sinh
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.additive import largest_mu, loss_of, stddev_within
from labeldp.mechanisms.base import Mechanism, word_stream
from labeldp.mechanisms.domains import Classes, Codes, Domain, Interval, bins_of, distance_cuts, require_domain
from labeldp.mechanisms.inputs import (
    MAX_RESOLUTION,
    RESOLUTION,
    GridRows,
    GridTotals,
    Groups,
    PublicInput,
    check_norm,
    check_resolution,
    public_value,
    rounded,
)
from labeldp.privacy import (
    UNTIL_MADE,
    Floats,
    InputError,
    Integers,
    PrivacyLoss,
    RandomSource,
    Trust,
    check_delta,
    check_integer,
    decimal,
    positive_epsilon,
    set_fields,
)
from labeldp.sampling import (
    MAX_CELLS,
    MIN_RATE,
    WordStream,
    discrete_gaussian,
    discrete_laplace,
    gaussian_law,
    laplace_law,
)


@dataclass(frozen=True, kw_only=True)
class _NoisySums(Mechanism):
    """Sums of public rows in steps of a grid, to which noise on integers is added."""

    epsilon: float = field(kw_only=False)
    trust: ClassVar[Trust] = Trust.CENTRAL
    contract: ClassVar[str] = "labeldp.testing.checks:check_moments"
    law: ClassVar[str] = "discrete Laplace"

    @property
    @abstractmethod
    def _unit(self) -> float:
        """One step, in the unit of the sums."""

    @property
    @abstractmethod
    def sensitivity_square(self) -> int:
        """The squared L2 sensitivity of the sums to one replaced label, exact, in steps²."""

    @property
    @abstractmethod
    def noise_stddev(self) -> float:
        """The standard deviation of the noise on each sum, in their unit."""

    @abstractmethod
    def sums(self, labels: Any) -> Integers:
        """Return the exact sums in steps. They are private."""

    @abstractmethod
    def draw(self, stream: WordStream) -> Integers:
        """Draw noise in steps, one integer for each cell of the stream."""

    @abstractmethod
    def noise_law(self, edges: NDArray[np.int64]) -> Floats:
        """Return P(noise <= edges[0]), P(edges[0] < noise <= edges[1]), …, P(noise > edges[-1]), for tests."""

    def edges(self) -> NDArray[np.int64]:
        """Return thirteen edges of bins for tests of the noise, in steps, from -3 to 3 standard deviations."""
        return np.rint(np.linspace(-3, 3, 13) * (self.noise_stddev / self._unit)).astype(np.int64)

    def randomize(self, labels: Any, *, rng: RandomSource, ids: Any = None) -> Integers:
        """Return noisy sums in steps, shape as `sums`; record ids are not used. See `Mechanism.randomize`."""
        return self.release_counts(self.sums(labels), rng=self.bound(rng))

    def release_counts(self, counts: Integers, *, rng: RandomSource) -> Integers:
        """Return noisy sums of what `sums` returns; `rng` is bound to what it is for."""
        return counts + self.draw_noise(counts.size, rng=rng).reshape(counts.shape)

    def draw_noise(self, count: int, *, rng: RandomSource) -> Integers:
        """Draw noise in steps, shape (count,), without labels."""
        return self.draw(word_stream(rng, count))


@dataclass(frozen=True, kw_only=True)
class _GaussianSums(_NoisySums):
    """Sums with Gaussian noise on integers, as small as (epsilon, delta) allows."""

    plain: ClassVar[tuple[str, ...]] = ("epsilon", "delta")
    law: ClassVar[str] = "Gaussian"
    delta: float
    mu: float = field(init=False, repr=False, compare=False)
    stddev: int = field(init=False, repr=False, compare=False)

    def _calibrate(self) -> None:
        """Compute the mu of the Gaussian loss, from epsilon and delta alone, and the standard deviation in steps."""
        check_delta(self.delta, advice="; LaplaceMoment has delta = 0")
        mu = largest_mu(positive_epsilon(self.epsilon), decimal(self.delta, "delta"))
        set_fields(self, mu=mu, stddev=stddev_within(self.sensitivity_square, mu))

    @property
    def noise_stddev(self) -> float:
        return self.stddev * self._unit

    def privacy_loss(self) -> PrivacyLoss:
        """Return a Gaussian loss, plus a failure below 10^-25 for integer noise; neither depends on the rows."""
        return loss_of(self.mu)

    def parameters(self) -> dict[str, Any]:
        return {**super().parameters(), "delta": str(decimal(self.delta, "delta")), "stddev": self.stddev}

    def draw(self, stream: WordStream) -> Integers:
        return discrete_gaussian(stream, self.stddev)

    def noise_law(self, edges: NDArray[np.int64]) -> Floats:
        return gaussian_law(self.stddev, edges)


@dataclass(frozen=True, kw_only=True)
class CrossMoment(_NoisySums):
    """Base of mechanisms on the sum of x tᵀ over all records, for public feature rows x and private labels t.

    On `Classes` t is the indicator vector of the class, so the sum has one column for each class; on an `Interval` t is
    the label's grid point, so the sum has one column. Centering the labels changes the sum by a public amount.

    Around public centers, such as predictions of a released model, t is the label's distance from its center: a number
    within a reach, whose sums need as little noise as the reach is small, or the indicator of one of a few bins.

    Args:
        domain: `Classes` or `Interval`.
        features: a public row for each record, shape (n, d), `Public(array, why="…")` or a `Release`; of more records
            than memory holds, `RowBlocks` in place of the array; of those that workers hold, `GridTotals`.
        clip: a public norm to which longer rows are scaled down; by default that of the longest row.
        resolution: grid steps in `clip`. Rounding rows to the grid changes the public features, not the promise.
        users: the user of each record, public integers, shape (n,), `Public(array, why="…")`: all labels of a user are
            protected together at this epsilon. By default each record is protected by itself.
        centers: a code of the `Interval` for each record, shape (n,), `Public(array, why="…")` or a `Release`.
        reach: with centers, t is the label's distance from its center in grid steps, brought into [-reach, reach].
        bins: with centers, t is the indicator of the bin of that distance, without its sign: see `distance_cuts`.
    """

    plain: ClassVar[tuple[str, ...]] = ("epsilon", "reach", "bins")
    domain: Classes | Interval = field(kw_only=False)
    features: InitVar[Any]
    clip: InitVar[float | None] = None
    resolution: InitVar[int] = RESOLUTION
    users: InitVar[Any] = None
    centers: InitVar[Any] = None
    reach: int = field(default=0, repr=False)
    bins: int = field(default=0, repr=False)
    rows: GridRows | GridTotals = field(init=False, default=UNTIL_MADE)
    places: Groups | None = field(init=False, default=None, repr=False)

    def __post_init__(self, features: Any, clip: float | None, resolution: int, users: Any, centers: Any) -> None:
        super().__post_init__()
        require_domain(self.domain, "classes", "numbers")
        groups = None if users is None else Groups.of_users(users)
        rows = GridRows.of(features, clip, resolution, groups)
        if groups is not None and groups.records != rows.shape[0]:
            raise InputError("must be one non-negative integer for each record", argument="users")
        inputs = {"features": features, "users": users, "centers": centers}
        sources = tuple(PublicInput.of(value, name) for name, value in inputs.items() if value is not None)
        set_fields(self, rows=rows, public_inputs=sources)
        if centers is not None or self.reach or self.bins:
            self._set_places(centers)
        if not self.rows.square:
            raise InputError("features must hold a row that is not rounded to zero: take a smaller clip")
        if self.records * self.rows.length * self._target.largest_entry >= 1 << 62:
            raise InputError("the sums do not fit into 64 bits: take a coarser resolution or a coarser grid of labels")
        self._calibrate()

    def _set_places(self, centers: Any) -> None:
        """Check the public codes that labels are compared with."""
        require_domain(self.domain, "numbers")
        places = Groups.of(centers, "centers")
        if not isinstance(places, Groups) or places.records != self.records or places.count > self.domain.size:
            raise InputError("must be a code of the domain for each record, shape (n,)", argument="centers")
        if bool(self.reach) == bool(self.bins):
            raise InputError("must come with a reach or bins, and not with both", argument="centers")
        if self.reach:
            check_integer(self.reach, "reach", high=self.domain.size - 1)
        else:
            check_integer(self.bins, "bins", 2, MOST_BINS)
        set_fields(self, places=places)

    @cached_property
    def _target(self) -> Domain:
        """The domain of what labels count as: theirs, or that of distances from centers."""
        if self.places is None:
            return self.domain
        if self.bins:
            return Classes(len(distance_cuts(self.domain, self.bins)) + 1)
        end = self.reach * self.domain.step
        return Interval(-end, end, grid=2 * self.reach + 1)

    def _counted(self, codes: Codes, records: slice) -> Codes:
        """Return what labels count as, codes of `_target`. They are private."""
        if self.places is None:
            return codes
        distances = codes.astype(np.int64) - self.places.of_record[records]
        if self.bins:
            return bins_of(np.abs(distances), distance_cuts(self.domain, self.bins))
        return np.clip(distances, -self.reach, self.reach) + self.reach

    @property
    def _unit(self) -> float:
        return self.rows.unit * self._target.step

    @property
    def records(self) -> int:
        return self.rows.shape[0]

    @property
    def columns(self) -> int:
        """The number of columns of the sum: K, or 1 on an interval."""
        return self._target.columns

    @property
    def cells(self) -> int:
        """The number of released integers: d times the columns."""
        return self.rows.shape[1] * self.columns

    @property
    def sensitivity_square(self) -> int:
        """The squared L2 sensitivity of the sum to one replaced label, exact, or to all of a user, in steps²."""
        return self._moved * self._largest**2 * self.rows.square

    @property
    def sensitivity_sum(self) -> int:
        """The L1 sensitivity of the sum to one replaced label, exact, or to all of a user, in steps."""
        return self._moved * self._largest * self.rows.length

    @property
    def _moved(self) -> int:
        """The entries of a label's vector that a replaced label moves: two of indicators."""
        return min(self.columns, 2)

    @property
    def _largest(self) -> int:
        """The steps by which a replaced label can change an entry of its vector."""
        return min(self._target.largest_entry, self.domain.largest_entry)

    @property
    def published(self) -> str:
        labels = "labels" if self.places is None else "distances of labels from centers"
        return f"{self.cells:,} noisy sums of features × {labels} ({self.law} noise)"

    def parameters(self) -> dict[str, Any]:
        users = {} if self.rows.users is None else {"users": self.rows.users.digest}
        around = {} if self.places is None else {"centers": self.places.digest, "reach": self.reach, "bins": self.bins}
        return {**super().parameters(), "features": self.rows.digest, **users, **around}

    def packed(self) -> dict[str, NDArray[Any] | None]:
        steps = self.rows.steps if isinstance(self.rows, GridRows) else None
        around = {} if self.places is None else {"centers": self.places.of_record}
        grid = np.array([self.rows.clip, self.rows.resolution], dtype=np.float64)
        return {"features": steps, "grid": grid, **around}

    @classmethod
    def unpacked(cls, arrays: Mapping[str, NDArray[Any]], domain: Domain) -> dict[str, Any]:
        steps, grid = arrays["features"], arrays["grid"]
        if steps.ndim != 2 or steps.dtype != np.int16 or grid.shape != (2,):
            raise InputError("must be rows in steps of a grid", argument="features")
        rows = GridRows.held_steps(steps, float(grid[0]), int(grid[1]))
        return {"features": rows, **({"centers": arrays["centers"]} if "centers" in arrays else {})}

    @property
    def protected(self) -> Groups | None:
        return self.rows.users

    def sums(self, labels: Any) -> Integers:
        """Return the exact sums in steps, shape (d, columns). They are private."""
        if isinstance(self.rows, GridTotals):
            raise InputError("features are known by their totals: give sums to release_counts, and not labels")
        codes = self.domain.check_codes(labels)
        self.check_records(len(codes))
        total = np.zeros((self.rows.shape[1], self.columns), dtype=np.int64)
        for records, rows in self.rows.same_parts():
            total += self._target.unit_sums(rows, self._counted(codes[records], records))
        return total

    def moment(self, released: Any) -> NDArray[np.float64]:
        """Return the released sums in the unit of features times labels, shape (d, columns).

        It is an unbiased estimate of the sum of x tᵀ over the clipped, rounded rows x, where t is the indicator vector
        of the class, or the label itself.
        """
        moment = np.asarray(released, dtype=np.float64) * self._unit
        return np.asarray(moment + self._target.ends[0] * self.rows.unit * self.rows.total[:, None], dtype=np.float64)

    def values(self) -> NDArray[np.float64]:
        """Return the clipped, rounded rows in the unit of the features, shape (n, d): public."""
        if isinstance(self.rows, GridTotals):
            raise InputError("features are known by their totals: workers hold the rows")
        return np.asarray(self.rows.steps * self.rows.unit, dtype=np.float64)


@final
@dataclass(frozen=True, kw_only=True)
class GaussianMoment(_GaussianSums, CrossMoment):
    """The sum of x tᵀ with Gaussian noise on integers, as small as (epsilon, delta) allows.

    Use it to learn linear models: its noise depends on the number of features only through the longest row.

    Args:
        delta: in (0, 1), the decimal as written.

    Guarantee (approximate, users): (epsilon, delta)-DP for each label, for the emitted bits: a replaced label moves
        the sum by at most the length of two rows of the grid. With users, for all labels of each user: their rows
        add up.

    Source: Canonne, Kamath, Steinke (2020) for integer noise; Balle and Wang (2018), Theorem 8, for the calibration.
    Proof: `docs/proofs/sums-and-counts.md`.
    """

    plain: ClassVar[tuple[str, ...]] = ("epsilon", "delta", "reach", "bins")
    domain: Classes | Interval = field(kw_only=False)

    def _calibrate(self) -> None:
        if self.cells > MAX_CELLS:
            raise InputError(f"features must have fewer columns: at most {MAX_CELLS:,} sums fit into one release")
        super()._calibrate()


@final
@dataclass(frozen=True, kw_only=True)
class LaplaceMoment(CrossMoment):
    """The sum of x tᵀ with two-sided geometric noise: the pure guarantee, for few features.

    Guarantee (pure, users): epsilon-DP for each label, for the emitted bits: a replaced label moves the sum by at
        most twice the largest sum of absolute values of a row. With users, for all labels of each user: their rows
        add up.

    Source: Canonne, Kamath, Steinke (2020), Algorithm 2. Proof: `docs/proofs/sums-and-counts.md`.
    """

    def _calibrate(self) -> None:
        if self.rate < MIN_RATE:
            raise InputError("is too small for integer noise of 64 bits: take a coarser resolution", argument="epsilon")

    @property
    def rate(self) -> Fraction:
        """The rate of the noise, which is i with probability proportional to e^(-rate |i|)."""
        return positive_epsilon(self.epsilon) / self.sensitivity_sum

    @property
    def noise_stddev(self) -> float:
        half = float(self.rate) / 2
        return float(self._unit / (2**0.5 * sinh(half)))

    def privacy_loss(self) -> PrivacyLoss:
        """Return pure epsilon: exact at delta = 0, an upper bound elsewhere."""
        return PrivacyLoss.pure(self.epsilon)

    def draw(self, stream: WordStream) -> Integers:
        return discrete_laplace(stream, self.rate)

    def noise_law(self, edges: NDArray[np.int64]) -> NDArray[np.float64]:
        return laplace_law(float(self.rate), edges)


MOST_BINS = 64

PROBLEM = "must be a finite array of numbers, shape (n, K, d): a row for each record and class"
BLOCK_ENTRIES = 1 << 22
"""Entries of rows whose distances are computed at a time."""


@dataclass(frozen=True)
class GridChoices:
    """Public rows on a grid of integers, one for each record and class.

    Args:
        steps: rows in grid steps, shape (n, K, d).
        unit: one step in the unit of the rows.
        square: the largest squared distance of two rows of one record, in squared steps: exact.
        digest: of all of it.
    """

    steps: NDArray[np.int16] = field(repr=False, compare=False)
    unit: float
    square: int
    digest: str

    @classmethod
    def of(cls, rows: Any, classes: int, clip: float | None, resolution: int) -> "GridChoices":
        """Scale rows down to norm `clip` where they are longer, and round them to multiples of clip / resolution.

        Raises:
            InputError: not public, not such rows, or rows that do not differ.
        """
        if isinstance(value := public_value(rows, "rows"), GridChoices):
            if value.steps.shape[1] != classes:
                raise InputError(f"must have a row for each of the {classes} classes, shape (n, K, d)", argument="rows")
            return value
        table = np.asarray(value)
        if table.ndim != 3 or table.dtype.kind not in "fiu" or not table.size or not np.all(np.isfinite(table)):
            raise InputError(PROBLEM, argument="rows")
        if table.shape[1] != classes:
            raise InputError(f"must have a row for each of the {classes} classes, shape (n, K, d)", argument="rows")
        flat = np.asarray(table, dtype=np.float64).reshape(-1, table.shape[2])
        longest = float(np.linalg.norm(flat, axis=1).max()) if clip is None else float(clip)
        check_norm(longest)
        steps = rounded(flat, longest, check_resolution(resolution)).reshape(table.shape)
        return cls.held_steps(steps, longest / resolution)

    @classmethod
    def held_steps(cls, steps: NDArray[np.int16], unit: float) -> "GridChoices":
        """Return rows that are on a grid already, shape (n, K, d), in grid steps.

        Whatever they are, noise is set to them: how far a label moves their sum is computed from the rows themselves.

        Raises:
            InputError: no such rows, or rows that do not differ.
        """
        steps = np.array(steps, dtype=np.int16)
        if steps.ndim != 3 or not steps.size or np.abs(steps.astype(np.int64)).max() > MAX_RESOLUTION:
            raise InputError(PROBLEM, argument="rows")
        check_norm(unit)
        square = _farthest(steps)
        if not square:
            raise InputError("must differ between the classes of some record", argument="rows")
        steps.flags.writeable = False
        digest = hashlib.sha256(repr((steps.shape, unit.hex())).encode() + steps.astype("<i2").tobytes())
        return cls(steps, unit, square, digest.hexdigest())


def _farthest(steps: NDArray[np.int16]) -> int:
    """Return the largest squared distance of two rows of one record.

    Products of all pairs are sums of integers below 2^53, which doubles add up exactly in any order.
    """
    size, largest = max(BLOCK_ENTRIES // (steps.shape[1] * steps.shape[2]), 1), 0
    for start in range(0, len(steps), size):
        part = steps[start : start + size].astype(np.float64)
        products = part @ part.transpose(0, 2, 1)
        squares = np.einsum("ikk->ik", products)
        largest = max(largest, int((squares[:, :, None] + squares[:, None, :] - 2 * products).max()))
    return largest


@final
@dataclass(frozen=True, kw_only=True)
class GaussianChoice(_GaussianSums):
    """The sum over records of the row that each label chooses, with Gaussian noise on integers.

    Use it for the part of a gradient that depends on labels; the rest of the gradient is public. If the rows of all
    classes are one row times an indicator, use `GaussianMoment`.

    Args:
        delta: in (0, 1), the decimal as written.
        rows: a public row for each record and class, shape (n, K, d), `Public(array, why="…")` or a `Release`.
        clip: a public norm to which longer rows are scaled down; by default that of the longest row.
        resolution: grid steps in `clip`. Rounding rows to the grid changes public numbers, not the promise.

    What is released are integers, shape (d,): see `total`.

    Guarantee (approximate): (epsilon, delta)-DP for each label, for the emitted bits: a replaced label moves the sum by
        at most the largest distance of two rows of one record.

    Raises:
        InputError: a domain without classes, rows that are not public or not of this shape, or a delta out of range.

    Source: Canonne, Kamath, Steinke (2020) for integer noise; Balle and Wang (2018), Theorem 8, for the calibration.
    Proof: `docs/proofs/sums-and-counts.md`.
    """

    domain: Classes = field(kw_only=False)
    rows: InitVar[Any]
    clip: InitVar[float | None] = None
    resolution: InitVar[int] = RESOLUTION
    choices: GridChoices = field(init=False, default=UNTIL_MADE)

    def __post_init__(self, rows: Any, clip: float | None, resolution: int) -> None:
        super().__post_init__()
        require_domain(self.domain, "classes")
        choices = GridChoices.of(rows, self.domain.size, clip, resolution)
        set_fields(self, choices=choices, public_inputs=(PublicInput.of(rows, "rows"),))
        self._calibrate()

    def _calibrate(self) -> None:
        if self.choices.steps.shape[2] > MAX_CELLS:
            raise InputError(f"must have at most {MAX_CELLS:,} columns", argument="rows")
        super()._calibrate()

    @property
    def _unit(self) -> float:
        return self.choices.unit

    @property
    def sensitivity_square(self) -> int:
        """The squared length of the longest move of the sum when one label is replaced, exact, in steps²."""
        return self.choices.square

    @property
    def records(self) -> int:
        return len(self.choices.steps)

    @property
    def published(self) -> str:
        return f"{self.choices.steps.shape[2]:,} noisy sums of rows selected by labels (Gaussian noise)"

    def parameters(self) -> dict[str, Any]:
        return {**super().parameters(), "rows": self.choices.digest}

    def packed(self) -> dict[str, NDArray[Any] | None]:
        return {"rows": self.choices.steps, "grid": np.array([self.choices.unit], dtype=np.float64)}

    @classmethod
    def unpacked(cls, arrays: Mapping[str, NDArray[Any]], domain: Domain) -> dict[str, Any]:
        steps, grid = arrays["rows"], arrays["grid"]
        if steps.dtype != np.int16 or grid.shape != (1,):
            raise InputError("must be rows in steps of a grid", argument="rows")
        return {"rows": GridChoices.held_steps(steps, float(grid[0]))}

    def sums(self, labels: Any) -> Integers:
        """Return the exact sums in steps, shape (d,). They are private."""
        codes = self.domain.check_codes(labels)
        self.check_records(len(codes))
        return np.asarray(self.choices.steps[np.arange(len(codes)), codes].sum(axis=0, dtype=np.int64))

    def total(self, released: Any) -> Floats:
        """Return the released sum in the unit of the rows, shape (d,).

        It is an unbiased estimate of the sum of the clipped, rounded rows that the labels choose.
        """
        return np.asarray(released, dtype=np.float64) * self.choices.unit

    def values(self) -> Floats:
        """Return the clipped, rounded rows, shape (n, K, d): public."""
        return np.asarray(self.choices.steps * self.choices.unit, dtype=np.float64)

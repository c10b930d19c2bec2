"""Public inputs of mechanisms: groups, rows, priors, and why they are public."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import BLOCK, AnyFloats, Certificate, Floats, InputError, Public, Release, check_positive

RESOLUTION = 1 << 12
"""Grid steps in the clip of rows, where nothing else is said."""

MAX_RESOLUTION = 1 << 14
"""The most grid steps in a row's norm: entries fit into 16 bits."""

ROW_SUM_TOLERANCE = 1e-6


@dataclass(frozen=True)
class PublicInput:
    """An argument of a mechanism that depends on no private label, and how this is known.

    Args:
        name: of the argument.
        why: the reason that the caller gave; empty for what was released.
        certificates: of the releases that it was made from.
    """

    name: str
    why: str = ""
    certificates: tuple[Certificate, ...] = ()

    @classmethod
    def of(cls, value: Any, name: str) -> Self:
        """Return where an argument comes from.

        Raises:
            InputError: neither `Public` nor a `Release`: nothing shows that it has not seen the labels.
        """
        public_value(value, name)
        if isinstance(value, Release):
            return cls(name, certificates=(value.certificate,))
        return cls(name, value.why)

    @property
    def assumption(self) -> str:
        """The condition that the argument is public, with the caller's reason."""
        verb = "do" if self.name.endswith("s") else "does"
        return f"the {self.name} {verb} not depend on the private labels ({self.why})"


def public_value(value: Any, name: str) -> Any:
    """Return the value of an argument that was declared public or was released.

    Raises:
        InputError: neither `Public` nor a `Release`.
    """
    if not isinstance(value, Public | Release):
        raise InputError(
            f'must be Public(array, why="…") or a Release: {name} may not depend on private labels', argument=name
        )
    return value.value


def real_matrix(value: Any, problem: str) -> Floats:
    """Return a table of real numbers, shape (n, d), as doubles.

    Raises:
        InputError: not a table, which `problem` says, or not of real numbers.
    """
    try:
        if np.asarray(value).dtype.kind == "c":
            raise TypeError("complex numbers would lose their imaginary part")
        table = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("features must be real numbers: map tables to numbers first") from None
    if table.ndim != 2 or not table.shape[1]:
        raise InputError(problem)
    return table


@dataclass(frozen=True)
class GroupSizes:
    """A public group for each record, where workers hold the records: how many there are in each group.

    Args:
        sizes: records in each group, shape (count,).
        digest: of all pairs of record and group.
    """

    sizes: NDArray[np.int64] = field(repr=False, compare=False)
    digest: str
    of_record: None = field(init=False, default=None, repr=False)

    @property
    def count(self) -> int:
        """How many groups there are; some may be empty."""
        return len(self.sizes)

    @property
    def records(self) -> int:
        """How many records there are."""
        return int(self.sizes.sum())


@dataclass(frozen=True, eq=False)
class Groups:
    """A public group for each record.

    Args:
        of_record: group numbers 0 to count - 1, shape (n,).
        count: how many groups there are; some may be empty.
    """

    of_record: NDArray[np.int64] = field(repr=False)
    count: int

    @classmethod
    def of(cls, groups: Any, name: str = "groups") -> "Groups | GroupSizes":
        """Return groups that were declared public or were released; errors call them `name`.

        Raises:
            InputError: a bare array, or not one non-negative integer for each record.
        """
        if isinstance(value := public_value(groups, name), GroupSizes):
            return value
        array = np.asarray(value)
        if array.ndim != 1 or array.dtype.kind not in "iu" or (array.size and array.min() < 0):
            raise InputError("must be one non-negative integer for each record", argument=name)
        array = array.astype(np.int64)
        array.flags.writeable = False
        return cls(array, int(array.max(initial=-1)) + 1)

    @classmethod
    def of_users(cls, users: Any) -> "Groups":
        """Return the user of each record, numbered in the order of their first records; no user is empty.

        Raises:
            InputError: not `Public` or a `Release`, or not one non-negative integer for each record.
        """
        numbered = cls.of(users, "users").of_record
        if numbered is None or not len(numbered):
            raise InputError("must be one non-negative integer for each record", argument="users")
        _, firsts, numbers = np.unique(numbered, return_index=True, return_inverse=True)
        ranks = np.empty(len(firsts), dtype=np.int64)
        ranks[np.argsort(firsts)] = np.arange(len(firsts))
        of_record = ranks[numbers]
        of_record.flags.writeable = False
        return cls(of_record, len(firsts))

    @property
    def records(self) -> int:
        """How many records there are."""
        return len(self.of_record)

    @property
    def most(self) -> int:
        """Records in the largest group."""
        return int(self.sizes.max(initial=0))

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Records in each group, shape (count,)."""
        return np.bincount(self.of_record, minlength=self.count)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the groups in the order of the records, as the smallest unsigned integers that hold them all.

        The type comes first: the bytes of two groups of one kind may be those of a single one of another.
        """
        kind = np.min_scalar_type(max(self.count - 1, 0)).newbyteorder("<")
        digest = hashlib.sha256(kind.str.encode())
        digest.update(np.ascontiguousarray(self.of_record, dtype=kind).data)
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Groups) and bool(np.array_equal(self.of_record, other.of_record))

    def __hash__(self) -> int:
        return hash(self.digest)


class RowBlocks(Protocol):
    """Public feature rows that are computed a block at a time: the same ones whenever they are asked for."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns, (n, d)."""

    def block(self, start: int, stop: int) -> AnyFloats:
        """Return rows `start` to `stop`, shape (stop - start, d)."""


@dataclass(frozen=True, eq=False)
class GridRows:
    """Public feature rows on a grid of integers, held, or computed a block at a time.

    Args:
        shape: number of rows and columns, (n, d).
        clip: norm to which longer rows are scaled down.
        resolution: grid steps in it.
        part: function from start and stop to these rows in grid steps, shape (stop - start, d).
        held: whether they are in memory; others are compared with their digest whenever they are summed.
        users: whose each row is, None where each is protected by itself.
    """

    shape: tuple[int, int]
    clip: float
    resolution: int
    part: Callable[[int, int], NDArray[np.int16]] = field(repr=False)
    held: bool = field(default=True, repr=False)
    users: Groups | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls, features: Any, clip: float | None, resolution: int, users: Groups | None = None
    ) -> "GridRows | GridTotals":
        """Scale rows down to norm `clip` where they are longer, and round them to multiples of clip / resolution.

        Rows that workers hold were scaled and rounded there.

        Raises:
            InputError: a bare array, numbers that are not finite, or a clip or resolution out of range.
        """
        value = public_value(features, "features")
        if isinstance(value, GridTotals):
            if users is not None:
                raise InputError("must be None where workers hold the rows", argument="users")
            return value
        if isinstance(value, GridRows):
            return replace(value, users=users)
        check_resolution(resolution)
        if hasattr(value, "block"):
            return cls._computed(value, clip, resolution, users)
        rows = real_matrix(value, PROBLEM)
        if not rows.size or not np.all(np.isfinite(rows)):
            raise InputError(PROBLEM)
        longest = float(np.linalg.norm(rows, axis=1).max(initial=0.0)) if clip is None else float(clip)
        check_norm(longest)
        steps = np.empty(rows.shape, dtype=np.int16)
        for start in range(0, len(rows), BLOCK):
            steps[start : start + BLOCK] = rounded(rows[start : start + BLOCK], longest, resolution)
        steps.flags.writeable = False
        shape = len(rows), len(rows[0])
        return cls(shape, longest, resolution, lambda start, stop: steps[start:stop], users=users)

    @classmethod
    def held_steps(cls, steps: NDArray[np.int16], clip: float, resolution: int) -> "GridRows":
        """Return rows that are on the grid already, shape (n, d), in grid steps of clip / resolution.

        Whatever they are, noise is set to them: how far a label moves their sums is computed from the rows themselves.

        Raises:
            InputError: no such rows, or a clip or resolution out of range.
        """
        check_norm(clip)
        check_resolution(resolution)
        held = np.array(steps, dtype=np.int16)
        if held.ndim != 2 or not held.size or np.abs(held.astype(np.int64)).max() > resolution:
            raise InputError(PROBLEM)
        held.flags.writeable = False
        shape = len(held), len(held[0])
        return cls(shape, clip, resolution, lambda start, stop: held[start:stop])

    @classmethod
    def _computed(cls, rows: RowBlocks, clip: float | None, resolution: int, users: Groups | None) -> "GridRows":
        if clip is None:
            raise InputError("must be given where rows are computed a block at a time", argument="clip")
        longest = float(clip)
        check_norm(longest)
        if min(rows.shape) < 1:
            raise InputError(PROBLEM)

        def part(start: int, stop: int) -> NDArray[np.int16]:
            block = real_matrix(rows.block(start, stop), PROBLEM)
            if block.shape != (stop - start, rows.shape[1]) or not np.all(np.isfinite(block)):
                raise InputError(PROBLEM)
            return rounded(block, longest, resolution)

        return cls(rows.shape, longest, resolution, part, held=False, users=users)

    @property
    def unit(self) -> float:
        """One step in the unit of the features."""
        return self.clip / self.resolution

    def rounded(self, rows: AnyFloats) -> NDArray[np.int16]:
        """Return other rows as these were rounded, shape (m, d), in grid steps."""
        return rounded(np.asarray(rows, dtype=np.float64), self.clip, self.resolution)

    @property
    def steps(self) -> NDArray[np.int16]:
        """All rows in grid steps, shape (n, d)."""
        return self.part(0, self.shape[0]) if self.held else np.concatenate([part for _, part in self.parts()])

    @property
    def square(self) -> int:
        """The largest squared length of a row, in squared steps: exact; with users, of all rows of one together.

        The lengths of a user's rows add up, each rounded up: no signs of the rows make a longer sum.
        """
        return self._scan[0]

    @property
    def length(self) -> int:
        """The largest sum of absolute entries of a row, or of all rows of a user, in steps: exact."""
        return self._scan[1]

    @property
    def total(self) -> NDArray[np.int64]:
        """The sum of all rows in steps, shape (d,): exact."""
        return self._scan[2]

    @property
    def digest(self) -> str:
        """The SHA-256 of the rows, in the order of the records."""
        return self._scan[3]

    @cached_property
    def _scan(self) -> tuple[int, int, NDArray[np.int64], str]:
        """Square, length, total and digest: one pass over the rows."""
        held = 1 if self.users is None else self.shape[0]  # without users the largest of the rows so far is enough
        squares, lengths = (np.zeros(held, dtype=np.int64) for _ in range(2))
        total, digest = np.zeros(self.shape[1], dtype=np.int64), self._digest()
        for rows, part in self.parts():
            entries = part.astype(np.int64)
            total += entries.sum(axis=0)
            square, length = (entries**2).sum(axis=1), np.abs(entries).sum(axis=1)
            if self.users is not None:
                squares[rows], lengths[rows] = square, length
            else:
                squares[0], lengths[0] = max(squares[0], square.max(initial=0)), max(lengths[0], length.max(initial=0))
            digest.update(part.astype("<i2").tobytes())
        if self.users is None:
            return int(squares[0]), int(lengths[0]), total, digest.hexdigest()
        longest = int(_sums(lengths, self.users).max())
        return _joint_square(squares, self.users), longest, total, digest.hexdigest()

    def _digest(self) -> Any:
        return hashlib.sha256(repr((self.shape, self.unit.hex())).encode())

    def parts(self) -> Iterator[tuple[slice, NDArray[np.int16]]]:
        """Return the rows block by block, each with its place."""
        for start in range(0, self.shape[0], BLOCK):
            rows = slice(start, min(start + BLOCK, self.shape[0]))
            yield rows, self.part(rows.start, rows.stop)

    def same_parts(self) -> Iterator[tuple[slice, NDArray[np.int16]]]:
        """Return what `parts` does; at their end rows that were computed again are compared with their digest.

        Raises:
            InputError: they are others, so that nothing that was summed may leave.
        """
        again = self._digest()
        for rows, part in self.parts():
            if not self.held:
                again.update(part.astype("<i2").tobytes())
            yield rows, part
        if not self.held and again.hexdigest() != self.digest:
            raise InputError("features changed while they were summed: their rows are others than a moment ago")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GridRows) and (self.digest, self.users) == (other.digest, other.users)

    def __hash__(self) -> int:
        return hash(self.digest)


class GridScan:
    """What the noise on sums of rows depends on, added up over blocks of rows, in any order: exact integers.

    Args:
        width: number of columns.
        clip: norm to which longer rows are scaled down.
        resolution: grid steps in it.

    Fields:
        records: number of rows so far.
        square: the largest squared length of a row, in squared steps.
        length: the largest sum of absolute entries of a row, in steps.
        total: the sum of all rows in steps, shape (width,).
    """

    def __init__(self, width: int, clip: float, resolution: int) -> None:
        self.clip, self.resolution = check_positive(clip, "clip"), check_resolution(resolution)
        self.records, self.square, self.length = 0, 0, 0
        self.total = np.zeros(width, dtype=np.int64)

    def rounded(self, rows: Floats) -> NDArray[np.int16]:
        """Return rows in grid steps, shape (m, width); raise InputError if one is not finite."""
        if not np.all(np.isfinite(rows)):
            raise InputError(PROBLEM)
        return rounded(rows, self.clip, self.resolution)

    def add(self, steps: NDArray[np.int16]) -> None:
        """Add rows in grid steps, shape (m, width)."""
        entries = steps.astype(np.int64)
        squares, lengths = (entries**2).sum(axis=1), np.abs(entries).sum(axis=1)
        self.merge(len(entries), int(squares.max(initial=0)), int(lengths.max(initial=0)), entries.sum(axis=0))

    def merge(self, records: int, square: int, length: int, total: NDArray[np.int64]) -> None:
        """Add what another scan found of other rows."""
        self.records, self.total = self.records + records, self.total + total
        self.square, self.length = max(self.square, square), max(self.length, length)

    def totals(self, digest: str) -> "GridTotals":
        """Return the totals of all rows and a digest of the rows."""
        shape = (self.records, len(self.total))
        return GridTotals(shape, self.clip, self.resolution, self.square, self.length, self.total, digest)


@dataclass(frozen=True)
class GridTotals:
    """Public feature rows on a grid, where workers hold the records: what noise on their sums depends on.

    Args:
        shape: number of rows and columns, (n, d).
        clip: norm to which longer rows were scaled down.
        resolution: grid steps in it.
        square: the largest squared length of a row, in squared steps: exact.
        length: the largest sum of absolute entries of a row, in steps: exact.
        total: the sum of all rows in steps, shape (d,): exact.
        digest: of all pairs of record and row.
    """

    shape: tuple[int, int]
    clip: float
    resolution: int
    square: int
    length: int
    total: NDArray[np.int64] = field(repr=False, compare=False)
    digest: str
    users: None = field(init=False, default=None, repr=False)

    @property
    def unit(self) -> float:
        """One step in the unit of the features."""
        return self.clip / self.resolution


PROBLEM = "features must be a finite array of numbers, shape (n, d), with at least one row and column"


def check_norm(longest: float) -> None:
    """Refuse a norm that is not positive and finite."""
    if not 0 < longest < np.inf:
        raise InputError("must be a positive finite norm, and some row must not be zero", argument="clip")


def check_resolution(value: Any) -> int:
    """Return a number of grid steps."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_RESOLUTION:
        raise InputError(f"must be an integer number of grid steps from 1 to {MAX_RESOLUTION}", argument="resolution")
    return value


def rounded(rows: Floats, clip: float, resolution: int) -> NDArray[np.int16]:
    """Return rows, those that are longer scaled down to norm `clip`, in steps of clip / resolution."""
    norms = np.linalg.norm(rows, axis=1)
    scale = resolution / clip * np.minimum(1.0, clip / np.maximum(norms, clip))
    return np.asarray(np.rint(rows * scale[:, None])).astype(np.int16, order="C")


def _sums(values: NDArray[np.int64], groups: Groups) -> NDArray[np.int64]:
    """Return the sum of the values of each group, exact in integers."""
    sums = np.zeros(groups.count, dtype=np.int64)
    np.add.at(sums, groups.of_record, values)
    return sums


def _joint_square(squares: NDArray[np.int64], users: Groups) -> int:
    """Return a bound of the squared sum of the lengths of any user's rows, given their squared lengths.

    It is the smaller of two for each user, and exact where rows are equally long: with Cauchy and Schwarz the number
    of rows times the sum of their squares; and the square of the sum of the lengths, each rounded up to a small
    fraction of a step. Square roots of integers below 2**53 are correctly rounded, so that the next integer is above.
    """
    bits = max((52 - int(squares.max()).bit_length()) // 2, 0)
    roots = np.floor(np.sqrt((squares << 2 * bits).astype(np.float64))).astype(np.int64) + 1
    sums, totals = _sums(np.where(squares > 0, roots, 0), users), _sums(squares, users)
    sums_of_users = zip(sums.tolist(), totals.tolist(), users.sizes.tolist(), strict=True)
    return max(min(-(-(root**2) // 4**bits), size * total) for root, total, size in sums_of_users)


def prior_rows(prior: Any, classes: int) -> Floats:
    """Return the rows of a prior that was declared public or was released, shape (n, classes).

    Raises:
        InputError: a bare array (nothing shows that it has not seen the labels), or not a distribution over the
            classes, shape (n, classes) or (classes,).
    """
    if not isinstance(prior, Public | Release):
        raise InputError(
            'must be a Release or Public(array, why="…"): a prior learned from the private labels '
            "would destroy the guarantee without a sign",
            argument="prior",
        )
    try:
        array = np.ascontiguousarray(prior.value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"must be an array of numbers, shape (n, {classes})", argument="prior") from None
    rows = array.reshape(1, -1) if array.ndim == 1 else array
    if rows.ndim != 2 or rows.shape[1] != classes:
        raise InputError(f"must have one column for each of the {classes} classes", argument="prior")
    if rows.size and rows.min() < 0:
        raise InputError("must not be negative", argument="prior")
    sums = rows @ np.ones(classes)
    if not np.all(np.isfinite(sums)):
        raise InputError("must be finite: it holds NaN or infinite values", argument="prior")
    if np.any(np.abs(sums - 1.0) > ROW_SUM_TOLERANCE):
        raise InputError("must sum to 1 in each row", argument="prior")
    return rows

"""Released outcomes as estimators read them: in blocks, as sums by group, with or without users of several records."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from labeldp.inference.designs import DeclaredAnswers
from labeldp.inference.estimate import CLUSTERED, CLUSTERS, INDEPENDENT, Estimate, Rule, check_level
from labeldp.inference.intervals import sidak
from labeldp.mechanisms import Classes, FiniteMechanism, ResponseOnBins
from labeldp.privacy import Certificate, Floats, InputError, Neighbors, Public, Release

BLOCK = 1 << 18
"""Records that are looked at together."""

Codes = NDArray[np.signedinteger[Any]]
Terms = Callable[[slice], Floats]
"""Numbers of a block of records, shape (m, columns, terms)."""

RELEASE = "must be what Curator.release returned for a mechanism that answers each record, or inference.answers"


@dataclass(frozen=True)
class PublicGroups:
    """Public groups of records.

    Args:
        names: of the groups, sorted; one without a name if there are none.
        codes: the group of each record, shape (n,); None for one group.
        sizes: how many records each has.
    """

    names: tuple[str, ...]
    codes: Codes | None = field(repr=False)
    sizes: Codes = field(repr=False)

    @classmethod
    def of(cls, groups: Any, records: int, argument: str = "groups") -> "PublicGroups":
        """Return groups from a column of names or numbers, `Public` or plain."""
        if groups is None:
            return cls(("all",), None, np.array([records]))
        column = public_column(groups, records, argument)
        names, codes = distinct(column)
        return cls(tuple(map(str, names)), codes, np.bincount(codes, minlength=len(names)))

    @property
    def count(self) -> int:
        """How many groups there are."""
        return len(self.names)

    @property
    def axes(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return () if self.codes is None else (("group", self.names),)

    def block(self, rows: slice, size: int) -> Codes:
        """Return the groups of a block of records."""
        return np.zeros(size, dtype=np.int64) if self.codes is None else self.codes[rows].astype(np.int64)

    def crossed(self, other: "PublicGroups") -> "PublicGroups":
        """Return the cells of two groupings: the cell of group g and other group h is g * other.count + h."""
        kind = np.int32 if self.count * other.count < 1 << 31 else np.int64
        codes: Codes = np.zeros(int(self.sizes.sum()), dtype=np.dtype(kind))
        if self.codes is not None:
            codes += self.codes
            codes *= other.count
        if other.codes is not None:
            codes += other.codes
        names = tuple(f"{a}, {b}" for a in self.names for b in other.names)
        return PublicGroups(names, codes, np.bincount(codes, minlength=len(names)))


@dataclass(frozen=True)
class Means:
    """Means of terms by group, with the covariance of these means.

    Args:
        records: in each group, shape (G,).
        mean: shape (G, columns, terms).
        covariance: shape (G, columns, terms, terms), of the means; infinite where there are less than two users.
        freedom: degrees of freedom, shape (G,).
    """

    records: Codes
    mean: Floats
    covariance: Floats
    freedom: Codes


@dataclass(frozen=True)
class Outcomes:
    """Released answers about n records.

    Args:
        release: what was released.
        users: whose each record is, numbers, shape (n,); None where each record is a user's only one.
    """

    release: Release[Any] = field(repr=False)
    users: Codes | None = field(default=None, repr=False)

    @classmethod
    def of(cls, release: Any, users: Any = None) -> "Outcomes":
        """Return what may be estimated from.

        Raises:
            InputError: something else than a release of single answers; users are missing or not one for each record.
        """
        mechanism = release.mechanism if isinstance(release, Release) else None
        if not isinstance(mechanism, FiniteMechanism | DeclaredAnswers):
            raise InputError(RELEASE, argument="release")
        if not len(release.value):
            raise InputError("must hold at least one record", argument="release")
        return cls(release, check_users(release.certificate, users, len(release.value)))

    @property
    def mechanism(self) -> Any:
        """What answered."""
        return self.release.mechanism

    @property
    def records(self) -> int:
        """How many there are."""
        return len(self.release.value)

    @property
    def clustered(self) -> bool:
        """Whether some user has several records."""
        return self.users is not None

    @property
    def conditions(self) -> tuple[str, ...]:
        """What every interval rests on, in words."""
        return (CLUSTERS if self.clustered else INDEPENDENT, *self.release.certificate.assumptions)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of classes, or of bins; empty for numbers."""
        if isinstance(self.mechanism, ResponseOnBins):
            return tuple(self.mechanism.names)
        return class_names(self.mechanism.domain)

    @property
    def by_record(self) -> bool:
        """Whether each record has a declared matrix of its own."""
        return isinstance(self.mechanism, DeclaredAnswers) and self.mechanism.design.records is not None

    def rates(self) -> tuple[Floats, Floats] | None:
        """Return how often answers name a class: P(named | the class), P(named | any other), each shape (K,).

        None where the second one depends on which other class it is, or on the record.

        Raises:
            NotInvertibleError: some record had fewer candidates than classes.
        """
        if isinstance(self.mechanism, ResponseOnBins):
            keep, lie = self.mechanism.likelihood([0])[0, :2]
            return np.full(len(self.names), keep), np.full(len(self.names), lie)
        if isinstance(self.mechanism, DeclaredAnswers):
            matrix = self.mechanism.design.matrix
            if matrix.ndim == 3:
                return None
            hits = np.diagonal(matrix)
            misses = (matrix.sum(axis=0) - hits) / (len(matrix) - 1)
            spread = np.abs(np.where(np.eye(len(matrix)), misses, matrix) - misses).max()
            return (hits.copy(), misses) if spread < 1e-12 else None
        table = np.asarray(self.mechanism.unbiased(self.mechanism.singles()).values)
        gap = 1 / (table[0, 0] - table[0, 1])
        miss = -table[0, 1] * gap
        if not np.allclose(table, table[0, 1] + np.eye(len(table)) / gap):
            return None
        return np.full(len(table), gap + miss), np.full(len(table), miss)

    def blocks(self) -> Iterator[slice]:
        """Return blocks of records in their order."""
        return (slice(start, min(start + BLOCK, self.records)) for start in range(0, self.records, BLOCK))

    def named(self, rows: slice) -> Any:
        """Return which classes the answers of a block name, shape (m, K)."""
        return self.mechanism.named(self.release.value[rows])

    def indicators(self, rows: slice) -> Floats:
        """Return unbiased class indicators of a block, shape (m, K)."""
        if self.by_record:
            return np.asarray(self.mechanism.unbiased(self.release.value[rows], rows.start or 0).values)
        if isinstance(self.mechanism, ResponseOnBins):
            keep, lie = self.mechanism.likelihood([0])[0, :2]
            return np.asarray((self.named(rows) - lie) / (keep - lie))
        return np.asarray(self.mechanism.unbiased(self.release.value[rows]).values)

    def numbers(self, rows: slice) -> Floats:
        """Return unbiased numbers of a block, in the unit of the labels, shape (m,)."""
        return np.asarray(self.mechanism.unbiased(self.release.value[rows]).values)

    @property
    def outputs(self) -> Floats:
        """The lowest and the highest unbiased number that an answer can stand for."""
        table = getattr(self.mechanism, "outputs", None)
        if table is not None:
            return np.asarray([table[0], table[-1]])
        return np.asarray(self.mechanism.unbiased(np.array([0, self.mechanism.domain.size - 1])).values)

    @property
    def two_outputs(self) -> bool:
        """Whether each number was answered by one of two outputs."""
        outputs = getattr(self.mechanism, "outputs", None)
        return (self.mechanism.domain.size if outputs is None else len(outputs)) == 2

    def counts(self, groups: PublicGroups) -> Floats:
        """Return how often answers of each group name each class, or the upper of two outputs, shape (G, K)."""
        classes = len(self.names) or 2
        total = np.zeros((groups.count, classes))
        for rows in self.blocks():
            values = self.release.value[rows]
            cells = groups.block(rows, len(values))
            if values.ndim == 1:
                flat = np.bincount(cells * classes + values, minlength=groups.count * classes)
                total += flat.reshape(groups.count, classes)
                continue
            named = self.named(rows)
            for code in range(classes):
                total[:, code] += np.bincount(cells, weights=named[:, code], minlength=groups.count)
        return total

    def means(self, terms: Terms, groups: PublicGroups) -> Means:
        """Return means of terms by group, with their covariance: clustered where users have several records."""
        return means_of(terms, groups, self.users, self.records)


@dataclass(frozen=True)
class NoisySums:
    """Released noisy sums over records, from a trusted curator.

    Args:
        release: what was released by the mechanism of `plan_sums`.
    """

    release: Release[Any] = field(repr=False)
    clustered: ClassVar[bool] = False

    @classmethod
    def of(cls, release: Any) -> "NoisySums":
        """Return what may be estimated from.

        Raises:
            InputError: sums that protect users with several records: they do not tell how these depend on each other.
        """
        if release.certificate.neighbors is Neighbors.ONE_USER:
            raise InputError(
                "must be of users with one record each: sums do not tell how records of one user depend on each other. "
                "Limit each user to one record, or release answers one by one",
                argument="release",
            )
        return cls(release)

    @property
    def mechanism(self) -> Any:
        """What added the noise."""
        return self.release.mechanism

    @property
    def conditions(self) -> tuple[str, ...]:
        """What every interval rests on, in words."""
        return (INDEPENDENT, *self.release.certificate.assumptions)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of classes; empty for numbers."""
        return class_names(self.mechanism.domain)


def class_names(domain: Any) -> tuple[str, ...]:
    """Return the names of classes as texts; none of an interval."""
    return tuple(map(str, domain.decode(np.arange(domain.size)).tolist())) if isinstance(domain, Classes) else ()


def means_of(terms: Terms, groups: PublicGroups, users: Codes | None, records: int) -> Means:
    """Return means of terms by group, and the covariance of these means; see `Means`."""
    clusters = None
    if users is not None:
        cells = groups.block(slice(None), records) * (int(users.max()) + 1) + users
        firsts, clusters = np.unique(cells, return_index=True, return_inverse=True)[1:]
        group_of = groups.block(slice(None), records)[firsts]
        clusters = clusters.reshape(-1)
    sums: Any = None
    squares: Any = None
    for start in range(0, records, BLOCK):
        rows = slice(start, min(start + BLOCK, records))
        block = terms(rows)
        codes = groups.block(rows, len(block)) if clusters is None else clusters[rows]
        cell_count = groups.count if clusters is None else len(firsts)
        if sums is None:
            sums = np.zeros((cell_count, *block.shape[1:]))
            squares = np.zeros((cell_count, *block.shape[1:], block.shape[2]))
        if cell_count == 1:
            sums[0] += block.sum(axis=0)
            squares[0] += np.einsum("mcs,mct->cst", block, block)
            continue
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        present = codes[order][starts]
        ordered = block[order]
        sums[present] += np.add.reduceat(ordered, starts, axis=0)
        if clusters is None:
            products = ordered[:, :, :, None] * ordered[:, :, None, :]
            squares[present] += np.add.reduceat(products, starts, axis=0)
    sizes = groups.sizes
    count = np.maximum(sizes, 1)[:, None, None]
    if clusters is None:
        mean = sums / count
        spread = squares - count[..., None] * mean[..., :, None] * mean[..., None, :]
        units = sizes
    else:
        totals = np.zeros((groups.count, *sums.shape[1:]))
        np.add.at(totals, group_of, sums)
        mean = totals / count
        apart = sums - np.bincount(clusters, minlength=len(firsts))[:, None, None] * mean[group_of]
        spread = np.zeros((groups.count, *squares.shape[1:]))
        np.add.at(spread, group_of, apart[..., :, None] * apart[..., None, :])
        units = np.bincount(group_of, minlength=groups.count)
    less = np.where(units > 1, units - 1, np.nan)
    scale = units / less / np.maximum(sizes, 1) ** 2
    covariance = spread * scale[:, None, None, None]
    covariance = np.where(np.isnan(covariance), np.inf, covariance)
    return Means(sizes, np.where(sizes[:, None, None] > 0, mean, np.nan), covariance, units - 1)


def covariance_of(terms: Callable[[slice], Floats], records: int, users: Codes | None) -> Floats:
    """Return the covariance of the means of terms (m, t), clustered where users have several records, shape (t, t)."""
    result = means_of(lambda rows: terms(rows)[:, None, :], PublicGroups.of(None, records), users, records)
    return np.asarray(result.covariance[0, 0])


def check_users(certificate: Certificate, users: Any, records: int) -> Codes | None:
    """Return whose each record is, or None where nobody has several.

    Raises:
        InputError: users are not one for each record, or are missing for a release that protects all labels of a user.
    """
    if users is None:
        if certificate.neighbors is Neighbors.ONE_USER:
            raise InputError(
                "must be given: the release protects users with several records, whose answers depend on each other",
                argument="users",
            )
        return None
    names, codes = distinct(public_column(users, records, "users"))
    return None if len(names) == records else codes


def distinct(column: NDArray[Any]) -> tuple[list[Any], Codes]:
    """Return the sorted values of a column, and the place of each entry among them; small integers are not sorted."""
    if column.dtype.kind in "iub":
        low, high = int(column.min()), int(column.max())
        if high - low < 4 * BLOCK:
            numbers = column.astype(np.int32) - low if abs(low) < 1 << 30 else (column - low).astype(np.int32)
            present = np.flatnonzero(np.bincount(numbers))
            places = np.zeros(high - low + 1, dtype=np.int32)
            places[present] = np.arange(len(present))
            return (present + low).astype(column.dtype).tolist(), places[numbers]
    names, codes = np.unique(column, return_inverse=True)
    return names.tolist(), codes.astype(np.int32).reshape(-1)


def refuse_exact(outcomes: Outcomes, method: str, choices: tuple[str, ...]) -> None:
    """Refuse a method that is none, and exact intervals where users have several records."""
    if method not in choices:
        raise InputError(f"must be one of {', '.join(choices)}", argument="method")
    if method == "exact" and outcomes.clustered:
        raise InputError(
            "cannot be exact: users have several records, and records of a user may depend on each other; take "
            "method='auto', with errors clustered by user",
            argument="method",
        )


def public_column(values: Any, records: int, argument: str) -> NDArray[Any]:
    """Return a public column with an entry for each record, `Public` or plain."""
    column = np.asarray(values.value if isinstance(values, Public) else values)
    if column.shape != (records,):
        raise InputError(f"must be one entry for each of the {records} records", argument=argument)
    return column


def treated_column(treated: Any, records: int) -> NDArray[np.bool_]:
    """Return who was treated, shape (n,).

    Raises:
        InputError: not true or false, 1 or 0 for each record, or an arm without records.
    """
    column = public_column(treated, records, "treated")
    if column.dtype.kind not in "biuf" or not np.isin(column, (0, 1)).all():
        raise InputError("must be true or false, or 1 or 0, for each record", argument="treated")
    flags = column.astype(np.bool_)
    if flags.all() or not flags.any():
        raise InputError("must have records in both arms", argument="treated")
    return flags


def public_numbers(
    values: Any, argument: str, shape: tuple[int, ...], what: str, *, as_given: bool = False
) -> tuple[NDArray[Any], str]:
    """Return numbers that were declared public, in double precision or `as_given`, and why they are public.

    Raises:
        InputError: not `Public`, of another shape, or not finite.
    """
    if not isinstance(values, Public):
        raise InputError(
            f'must be Public(array, why="…"): say why the {argument} were not computed from these labels',
            argument=argument,
        )
    array = np.asarray(values.value)
    if array.shape != shape or array.dtype.kind not in "biuf" or not np.all(np.isfinite(array)):
        raise InputError(f"must be {what}, shape {shape}, and finite", argument=argument)
    array = array if as_given else array.astype(np.float64, copy=False)
    return array, f"the {argument} were not computed from these labels ({values.why})"


def outcome_code(outcomes: Outcomes | NoisySums, outcome: Any) -> int:
    """Return the class that is meant: the second of two by default.

    Raises:
        InputError: no class of this name, or none is named among more than two.
    """
    names = outcomes.names
    if outcome is None:
        if len(names) == 2:
            return 1
        raise InputError(f"must name one of the classes {', '.join(names[:10])}", argument="outcome")
    if str(outcome) not in names:
        raise InputError(f"must be one of the classes {', '.join(names[:10])}", argument="outcome")
    return names.index(str(outcome))


def entry_level(
    outcomes: Outcomes | NoisySums, cells: PublicGroups, level: float, simultaneous: bool, dependent: int = 1
) -> float:
    """Return the level of each interval: groups are independent of each other unless they share users."""
    check_level(level)
    if not simultaneous:
        return level
    return sidak(level, 1, dependent * cells.count) if outcomes.clustered else sidak(level, cells.count, dependent)


def precision(variance: Any, sampling: Any, sizes: Any) -> tuple[Any, Any]:
    """Return which part of a variance is noise, and how many records without privacy would be as precise.

    Args:
        variance: of the estimate.
        sampling: of the same estimate without privacy.
        sizes: how many records it is from.
    """
    part = np.clip(sampling / np.maximum(variance, 1e-300), 0, 1)
    return 1 - part, sizes * part


def estimate_of(
    outcomes: Outcomes | NoisySums,
    rule: Rule,
    quantity: str,
    axes: Any,
    value: Any,
    low: Any,
    high: Any,
    variance: Any,
    level: float,
    simultaneous: bool,
    noise: Any = None,
    effective: Any = None,
    conditions: tuple[str, ...] | None = None,
    keep_axis: bool = True,
) -> Estimate:
    """Return an estimate of released outcomes; without `keep_axis` the last axis, of one entry, is dropped."""
    numbers = [value, low, high, None if variance is None else np.sqrt(variance), noise, effective]
    shape = tuple(len(names) for _, names in axes)
    if not keep_axis:
        axes, shape = axes[:-1], shape[:-1]
    numbers = [None if number is None else np.reshape(number, shape) for number in numbers]
    return Estimate(
        quantity=quantity,
        value=numbers[0],
        low=numbers[1],
        high=numbers[2],
        level=level,
        stderr=numbers[3],
        noise_share=numbers[4],
        n_effective=numbers[5],
        simultaneous=simultaneous and int(np.prod(shape)) > 1,
        guarantee=rule.guarantee,
        method=f"{rule.method.removesuffix(', HC2 errors')}, {CLUSTERED}" if outcomes.clustered else rule.method,
        assumptions=outcomes.conditions if conditions is None else conditions,
        certificate=outcomes.release.certificate,
        axes=tuple(axes),
    )

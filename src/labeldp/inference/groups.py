"""Public groups of records, and means of terms by group with their covariance, in blocks of records."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import Floats, InputError, Public

BLOCK = 1 << 18
"""Records that are looked at together."""
Codes = NDArray[np.signedinteger[Any]]
Terms = Callable[[slice], Floats]
"""Numbers of a block of records, shape (m, columns, terms)."""


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
        """The axis of an estimate for each group; none where there is one group."""
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
        units: how many users of equal size would have the same precision, shape (G,); records without users.
        freedom: degrees of freedom, shape (G,); less where users have unequal numbers of records.
    """

    records: Codes
    mean: Floats
    covariance: Floats
    units: Floats
    freedom: Floats


def rows_at_once(width: int) -> int:
    """Return how many records make a block, where each has so many numbers: at most `BLOCK`, and 32 MiB."""
    return min(max((1 << 22) // width, 1), BLOCK)


def means_of(terms: Terms, groups: PublicGroups, users: Codes | None, records: int, width: int = 1) -> Means:
    """Return means of terms by group, and the covariance of these means; see `Means`.

    Args:
        terms: of a block of records, shape (m, c, t).
        groups: of the records.
        users: the user of each record, shape (n,), or None.
        records: how many there are.
        width: how many numbers of each record `terms` has in memory.

    Source: BellMcCaffrey for users with unequal numbers of records.
    """
    clusters = None
    if users is not None:
        cells = groups.block(slice(None), records) * (int(users.max()) + 1) + users
        firsts, clusters = np.unique(cells, return_index=True, return_inverse=True)[1:]
        group_of = groups.block(slice(None), records)[firsts]
        clusters = clusters.reshape(-1)
    sums: Any = None
    squares: Any = None
    shift: Any = None
    step = rows_at_once(width)
    for start in range(0, records, step):
        rows = slice(start, min(start + step, records))
        block = terms(rows)
        shift = block.mean(axis=0) if start == 0 else shift  # a covariance of numbers far from 0 would cancel
        block = block - shift
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
        spread *= (sizes / np.where(sizes > 1, sizes - 1, np.nan))[:, None, None, None]
        units, freedom = sizes.astype(np.float64), sizes - 1.0
    else:
        totals = np.zeros((groups.count, *sums.shape[1:]))
        np.add.at(totals, group_of, sums)
        mean = totals / count
        counts = np.bincount(clusters, minlength=len(firsts)).astype(np.float64)
        apart = sums - counts[:, None, None] * mean[group_of]
        # the mean is nearer to the records of a user who has many of them
        share = counts / sizes[group_of]
        apart /= np.sqrt(np.where(share < 1, 1 - share, np.nan))[:, None, None]
        spread = np.zeros((groups.count, *squares.shape[1:]))
        np.add.at(spread, group_of, apart[..., :, None] * apart[..., None, :])
        second, fourth = (np.bincount(group_of, share**power, minlength=groups.count) for power in (2, 4))
        units, freedom = 1 / np.maximum(second, 1e-300), second**2 / np.maximum(fourth, 1e-300) - 1
        freedom = np.where(np.bincount(group_of, minlength=groups.count) > 1, np.maximum(freedom, 1.0), 0.0)
    covariance = spread / count[..., None] ** 2
    covariance = np.where(np.isnan(covariance), np.inf, covariance)
    return Means(
        sizes, np.where(sizes[:, None, None] > 0, mean + shift, np.nan), covariance, units, np.asarray(freedom)
    )


def refuse_other_index(**columns: Any) -> None:
    """Refuse pandas columns with unlike indexes: entries are matched by their place alone.

    Raises:
        InputError: two columns that differ in their index.
    """
    first: tuple[str, Any] | None = None
    for name, column in columns.items():
        index: Any = getattr(column.value if isinstance(column, Public) else column, "index", None)
        if not hasattr(index, "equals"):  # lists have a method of this name
            continue
        if first is None:
            first = name, index
        elif not index.equals(first[1]):
            raise InputError(
                f"must have the index of {first[0]}: entries are matched by their place. Reindex it, or pass "
                ".to_numpy() if both are in the order of the release",
                argument=name,
            )


def covariance_of(terms: Callable[[slice], Floats], records: int, users: Codes | None) -> Floats:
    """Return the covariance of the means of terms (m, t), clustered where users have several records, shape (t, t)."""
    result = means_of(lambda rows: terms(rows)[:, None, :], PublicGroups.of(None, records), users, records)
    return np.asarray(result.covariance[0, 0])


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


def public_column(values: Any, records: int, argument: str) -> NDArray[Any]:
    """Return a public column with an entry for each record, `Public` or plain."""
    column = np.asarray(values.value if isinstance(values, Public) else values)
    if column.shape != (records,):
        raise InputError(f"must be one entry for each of the {records} records", argument=argument)
    missing = column != column if column.dtype.kind in "fcmM" else False
    if column.dtype.kind == "O":
        entries = column.tolist()
        missing = any(entry is None or entry != entry for entry in entries)
        if not missing and len({isinstance(entry, str) for entry in entries}) > 1:
            raise InputError("must be all texts or all numbers", argument=argument)
    if np.any(missing):
        raise InputError("must have no missing entry: name missing values, too", argument=argument)
    return column

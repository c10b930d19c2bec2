"""Released outcomes as estimators read them: in blocks, as sums by group, with or without users of several records."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from labeldp.inference.catalog import Rule
from labeldp.inference.estimate import CLUSTERED, CLUSTERS, INDEPENDENT, Estimate, check_level
from labeldp.inference.groups import (
    BLOCK,
    Codes,
    Means,
    PublicGroups,
    Terms,
    distinct,
    means_of,
    public_column,
    refuse_other_index,
    rows_at_once,
)
from labeldp.inference.intervals import sidak
from labeldp.inference.reuse import refuse_reused
from labeldp.mechanisms import Classes, FiniteMechanism
from labeldp.privacy import Certificate, Floats, InputError, Public, Release, Unit

RELEASE = "must be what Curator.release returned for a mechanism that answers each record, or inference.answers"


@dataclass(frozen=True)
class Outcomes:
    """Released answers about n records.

    Args:
        release: what was released.
        users: the user of each record, numbers, shape (n,); None where each record is a user's only one.
    """

    release: Release[Any] = field(repr=False)
    users: Codes | None = field(default=None, repr=False)

    @classmethod
    def of(cls, release: Any, users: Any = None, **columns: Any) -> "Outcomes":
        """Return what may be estimated from, next to public columns, by argument.

        Raises:
            InputError: something else than a release of single answers; users are missing or not one for each record;
                a public column is made of the answers.
        """
        mechanism = release.mechanism if isinstance(release, Release) else None
        if not isinstance(mechanism, FiniteMechanism) and not hasattr(mechanism, "design"):
            raise InputError(RELEASE, argument="release")
        if not len(release.value):
            raise InputError("must hold at least one record", argument="release")
        refuse_other_index(**columns, users=users)
        refuse_reused(mechanism, release.value, users=users, **columns)
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
        return tuple(self.bins or class_names(self.mechanism.domain))

    @property
    def bins(self) -> Any:
        """The names of the bins of numbers; None where answers are no bins."""
        return getattr(self.mechanism, "names", None)

    @property
    def design(self) -> Any:
        """The design that was declared for answers; None where a mechanism gave them."""
        return getattr(self.mechanism, "design", None)

    @property
    def by_record(self) -> bool:
        """Whether records have separate declared matrices."""
        return self.design is not None and self.design.records is not None

    def rates(self) -> tuple[Floats, Floats] | None:
        """See `answer_rates`."""
        return answer_rates(self.mechanism)

    def blocks(self) -> Iterator[slice]:
        """Return blocks of records in their order."""
        return (slice(start, min(start + BLOCK, self.records)) for start in range(0, self.records, BLOCK))

    def named(self, rows: slice, columns: Any = slice(None)) -> Any:
        """Return which of some classes the answers of a block name, shape (m, columns)."""
        return self._some(lambda part: self.mechanism.named(self.release.value[part]), rows, columns)

    def names_of(self, rows: slice, codes: Codes) -> Any:
        """Return whether each answer of a block names a class that is given for its record, shape (m,)."""
        step, flags = rows_at_once(len(self.names) or 1), np.empty(len(codes), dtype=np.bool_)
        for first in range(0, len(codes), step):
            some = codes[first : first + step]
            part = self.release.value[rows.start + first : rows.start + first + len(some)]
            flags[first : first + step] = self.mechanism.named(part)[np.arange(len(some)), some]
        return flags

    def indicators(self, rows: slice, columns: Any = slice(None)) -> Floats:
        """Return unbiased indicators of some classes for a block, shape (m, columns)."""
        return np.asarray(self._some(self._indicators, rows, columns))

    def _indicators(self, rows: slice) -> Floats:
        if self.by_record:
            return np.asarray(self.mechanism.unbiased(self.release.value[rows], rows.start or 0).values)
        if self.bins is not None:
            keep, lie = self.mechanism.likelihood([0])[0, :2]
            return np.asarray((self.mechanism.named(self.release.value[rows]) - lie) / (keep - lie))
        return np.asarray(self.mechanism.unbiased(self.release.value[rows]).values)

    def _some(self, of: Callable[[slice], Any], rows: slice, columns: Any) -> Any:
        """Return columns of what is computed for all classes, in blocks of few records."""
        start, stop, _ = rows.indices(self.records)
        step = rows_at_once(len(self.names) or 1)
        if stop - start <= step:
            return of(rows)[:, columns]
        # copies: a view of one column would hold its block
        parts = [of(slice(first, min(first + step, stop)))[:, columns].copy() for first in range(start, stop, step)]
        return np.concatenate(parts)

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
        """Whether each number was randomized by one of two outputs."""
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
            step = rows_at_once(classes)
            for first in range(rows.start, rows.stop, step):
                part = slice(first, min(first + step, rows.stop))
                named, places = self.named(part), cells[first - rows.start : part.stop - rows.start]
                for code in range(classes):
                    total[:, code] += np.bincount(places, weights=named[:, code], minlength=groups.count)
        return total

    def means(self, terms: Terms, groups: PublicGroups, width: int = 0) -> Means:
        """Return means of terms by group, with their covariance: clustered where users have several records."""
        return means_of(terms, groups, self.users, self.records, width or len(self.names) or 1)


def answer_rates(mechanism: Any) -> tuple[Floats, Floats] | None:
    """Return how often answers name a class: P(named | the class), P(named | any other), each shape (K,).

    None where the second one depends on which other class it is, or on the record.

    Raises:
        NotInvertibleError: some record had fewer candidates than classes.
    """
    bins, design = getattr(mechanism, "names", None), getattr(mechanism, "design", None)
    if bins is not None:
        keep, lie = mechanism.likelihood([0])[0, :2]
        return np.full(len(bins), keep), np.full(len(bins), lie)
    if design is not None:
        matrix = design.matrix
        if matrix.ndim == 3:
            return None
        hits = np.diagonal(matrix)
        misses = (matrix.sum(axis=0) - hits) / (len(matrix) - 1)
        spread = np.abs(np.where(np.eye(len(matrix)), misses, matrix) - misses).max()
        return (hits.copy(), misses) if spread < 1e-12 else None
    alike = mechanism.naming_rates()
    if alike is not None:
        size = mechanism.domain.size
        return np.full(size, alike[0]), np.full(size, alike[1])
    # An arbitrary table holds as many numbers.
    table = np.asarray(mechanism.unbiased(mechanism.singles()).values)
    gap = 1 / (table[0, 0] - table[0, 1])
    miss = -table[0, 1] * gap
    if not np.allclose(table, table[0, 1] + np.eye(len(table)) / gap):
        return None
    return np.full(len(table), gap + miss), np.full(len(table), miss)


def equal_rates(mechanism: Any) -> tuple[float, float] | None:
    """Return P(named | the class) and P(named | any other) where they are those of all classes; else None."""
    rates = answer_rates(mechanism)
    if rates is None or max(np.ptp(rates[0]), np.ptp(rates[1])) >= 1e-12:
        return None
    return float(rates[0][0]), float(rates[1][0])


@dataclass(frozen=True)
class NoisySums:
    """Released noisy sums over records, from a trusted curator.

    Args:
        release: what was released by the mechanism of `plan_sums`.
    """

    release: Release[Any] = field(repr=False)
    clustered: ClassVar[bool] = False

    @classmethod
    def of(cls, release: Any, **columns: Any) -> "NoisySums":
        """Return what may be estimated from, next to public columns, by argument.

        Raises:
            InputError: columns with unlike indexes; sums that protect users with several records: they do not tell how
                these depend on each other.
        """
        if _of_users(release.certificate):
            raise InputError(
                "must be of users with one record each: sums do not tell how records of one user depend on each other. "
                "Limit each user to one record, or release answers one by one",
                argument="release",
            )
        refuse_other_index(**columns)
        return cls(release)

    @property
    def mechanism(self) -> Any:
        """What added the noise."""
        return self.release.mechanism

    @property
    def records(self) -> int:
        """How many records the sums are of."""
        return int(self.mechanism.records)

    @property
    def conditions(self) -> tuple[str, ...]:
        """What every interval rests on, in words."""
        return (INDEPENDENT, *self.release.certificate.assumptions)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of classes; empty for numbers."""
        return class_names(self.mechanism.domain)


def _of_users(certificate: Certificate) -> bool:
    """Return whether a charge was for all labels of a user, whatever the certificate states of all charges together."""
    return any(charge.unit is Unit.ONE_USER for charge in certificate.entries)


def class_names(domain: Any) -> tuple[str, ...]:
    """Return the names of classes as texts; none of an interval."""
    return tuple(map(str, domain.decode(np.arange(domain.size)).tolist())) if isinstance(domain, Classes) else ()


def check_users(certificate: Certificate, users: Any, records: int) -> Codes | None:
    """Return the user of each record, or None if no user has several.

    Raises:
        InputError: users are not one for each record, or are missing for a release that protects all labels of a user.
    """
    if users is None:
        if _of_users(certificate):
            raise InputError(
                "must be given: the release protects users with several records, whose answers depend on each other",
                argument="users",
            )
        return None
    names, codes = distinct(public_column(users, records, "users"))
    return None if len(names) == records else codes


def treated_column(treated: Any, records: int, argument: str = "treated") -> NDArray[np.bool_]:
    """Return who was treated, shape (n,).

    Raises:
        InputError: not true or false, 1 or 0 for each record, or an arm without records.
    """
    column = public_column(treated, records, argument)
    if column.dtype.kind not in "biuf" or not np.isin(column, (0, 1)).all():
        raise InputError("must be true or false, or 1 or 0, for each record", argument=argument)
    flags = column.astype(np.bool_)
    if flags.all() or not flags.any():
        raise InputError("must have records in both arms", argument=argument)
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
    target: str = "population",
) -> Estimate:
    """Return an estimate of released outcomes; without `keep_axis` the last axis, of one entry, is dropped."""
    numbers = [value, low, high, None if variance is None else np.sqrt(np.maximum(variance, 0)), noise, effective]
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
        target=target,
        records=outcomes.records,
        guarantee=rule.guarantee,
        method=f"{rule.method.removesuffix(', HC2 errors')}, {CLUSTERED}" if outcomes.clustered else rule.method,
        assumptions=outcomes.conditions if conditions is None else conditions,
        certificate=outcomes.release.certificate,
        axes=tuple(axes),
    )

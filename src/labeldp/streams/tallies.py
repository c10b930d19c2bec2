"""Aggregates of a table that workers hold: exact sums of integers in one pass, and noise that the driver draws once."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.cluster.grants import check_columns
from labeldp.cluster.survey import Found, LabelTask, Measure, Names, Table, check_ids, survey_labels
from labeldp.curator import IDS_KIND, DatasetLedger
from labeldp.mechanisms import CountMechanism, Domain, GroupSizes
from labeldp.privacy import BLOCK, Ids, InputError, Public, RecordDigest, Release
from labeldp.tables import domain_in_file

MAX_SUMS = 1 << 27
"""More sums than this do not fit into the memory of a worker."""


@final
class GroupDigest(RecordDigest):
    """Tells whether records and their groups are the same as before; see `RecordDigest`."""

    purpose = b"group digest"


class Grouping(Protocol):
    """A public rule that puts each record into a group; it can be pickled."""

    @property
    def columns(self) -> Sequence[str]:
        """The public columns that it reads."""

    def groups(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """Return the group of each record, from 0, shape (n,); raise InputError if columns are wrong."""


@final
@dataclass(frozen=True)
class ByColumn:
    """Groups whose numbers, from 0, stand in a column.

    Args:
        column: its name.
    """

    column: str

    @property
    def columns(self) -> Sequence[str]:
        """The column."""
        return [self.column]

    def groups(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """Return the numbers."""
        values = batch.column(self.column)
        if not pa.types.is_integer(values.type) or values.null_count:
            raise InputError(f"the column of groups {self.column!r} must hold a whole number for each record")
        return np.asarray(pc.cast(values, pa.int64()).to_numpy(zero_copy_only=False))


@final
@dataclass(frozen=True)
class AllRecords:
    """One group of all records."""

    @property
    def columns(self) -> Sequence[str]:
        """None."""
        return []

    def groups(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """Return zeros."""
        return np.zeros(batch.num_rows, dtype=np.int64)


@final
@dataclass(frozen=True)
class GroupMeasure:
    """How many records of each class a group has; or how many records, and the sum of their codes.

    Args:
        grouping: puts records into groups.
        classes: the number of classes; None for sums of codes.
    """

    grouping: Grouping
    classes: int | None

    @property
    def columns(self) -> Sequence[str]:
        """The public columns that it reads."""
        return self.grouping.columns

    def start(self, key: bytes) -> "GroupTally":
        """Return counts of no records yet."""
        return GroupTally(self, key)


@final
class GroupTally:
    """Counts of records by group and class, or numbers of records and sums of codes by group: integers, private.

    Args:
        measure: what is counted.
        key: of the digest of groups.
    """

    def __init__(self, measure: GroupMeasure, key: bytes) -> None:
        self._measure = measure
        self._width = 2 if measure.classes is None else measure.classes
        self._digest = GroupDigest(key)
        self.counts = np.zeros((0, self._width), dtype=np.int64)

    def add(self, names: Ids, codes: NDArray[Any], batch: pa.RecordBatch) -> None:
        """Add the records of a block; raise InputError if a group is no number from 0, or a far too large one."""
        groups = self._measure.grouping.groups(batch)
        if len(groups) and not 0 <= int(groups.min()) <= int(groups.max()) < min(MAX_SUMS // self._width, 1 << 32):
            raise InputError(f"groups must have numbers from 0 to {MAX_SUMS // self._width:,}, without gaps")
        self._digest.update(names, groups.astype(np.uint64))
        self._grow(int(groups.max(initial=-1)) + 1)
        flat = self.counts.reshape(-1)
        for start in range(0, len(groups), BLOCK):
            part = slice(start, start + BLOCK)
            if self._measure.classes is None:
                np.add.at(flat, groups[part] * 2, 1)
                np.add.at(flat, groups[part] * 2 + 1, codes[part].astype(np.int64))
            else:
                np.add.at(flat, groups[part] * self._width + codes[part].astype(np.int64), 1)

    @property
    def state(self) -> bytes:
        """The sums so far, without zeros; as secret as the labels."""
        places = np.flatnonzero(self.counts)
        values, digest = self.counts.reshape(-1)[places], np.frombuffer(self._digest.state, dtype=np.uint8)
        buffer = io.BytesIO()
        np.savez(buffer, digest=digest, groups=np.array(len(self.counts)), places=places, values=values)
        return buffer.getvalue()

    def add_state(self, state: bytes) -> None:
        """Add the sums of another tally, by its `state`."""
        with np.load(io.BytesIO(state), allow_pickle=False) as arrays:
            self._digest.add_state(arrays["digest"].tobytes())
            self._grow(int(arrays["groups"]))
            self.counts.reshape(-1)[arrays["places"]] += arrays["values"]

    @property
    def groups(self) -> GroupSizes:
        """What is public: the records in each group, and the digest."""
        sizes = self.counts[:, 0] if self._measure.classes is None else self.counts.sum(axis=1)
        return GroupSizes(sizes, self._digest.hexdigest())

    @property
    def sums(self) -> NDArray[np.int64]:
        """What is private: counts, shape (groups, classes), or sums of codes, shape (groups, 1)."""
        return self.counts[:, 1:] if self._measure.classes is None else self.counts

    def _grow(self, groups: int) -> None:
        if groups > len(self.counts):
            more = np.zeros((groups - len(self.counts), self._width), dtype=np.int64)
            self.counts = np.concatenate([self.counts, more])

    def __repr__(self) -> str:
        return "GroupTally(<secret>)"


@final
@dataclass(frozen=True)
class Asked:
    """Which aggregate of which table is asked for, and who is charged.

    Args:
        table: the table.
        label, id: its private column, and its column of record ids, all different.
        domain: of the labels.
        account: `LedgerFile(path).dataset(name)`.
    """

    table: Table
    label: str
    id: str
    domain: Domain
    account: DatasetLedger

    def survey(self, measure: Measure) -> "Surveyed":
        """Add integers up over all records, in one pass; charge nothing.

        Args:
            measure: what is summed.

        Raises:
            InputError: a column is missing or wrong, an id is missing or repeated, or a label does not fit.
            LedgerError: the ledger cannot be used, or holds other records.
            LabelDPError: the table changed meanwhile.
        """
        in_file = domain_in_file(self.domain)
        check_columns(self.table.schema, self.label, self.id, in_file)
        for name in measure.columns:
            if name == self.label:
                raise InputError("must not be summed by: it is private", argument="label")
            if self.table.schema.names.count(name) != 1:
                raise InputError(f"the table needs exactly one column {name!r}")
        self.account.check_persons(None)
        names = Names(self.id, self.account.ids_key)
        ids = check_ids(self.table, names, self.account)
        account = self.account.of_records(ids)
        key = account.digest_key
        task = LabelTask(names, self.label, in_file, key, key, measure)
        return Surveyed(account, account.compare(self.domain, lambda: survey_labels(self.table, task, ids)))

    def release(
        self, measure: Measure, mechanism: Callable[[Any], Any], sums: Callable[[Any, Any], Any]
    ) -> Release[Any]:
        """Add integers up over all records, charge a mechanism on their sums, and release what it draws once.

        Args:
            measure: what is summed.
            mechanism: makes the mechanism of the tally, from what is public in it.
            sums: returns the private sums, as `release_counts` of the mechanism takes them, of the tally and it.

        Guarantee (charged_first, refusal_free): nothing is drawn before its charge is committed, and it is drawn once;
            what is refused charges nothing.
        """
        found = self.survey(measure)
        return found.release(mechanism(found.tally), sums)

    def grouped(self, kind: type[CountMechanism], grouping: Grouping, why: str, **more: Any) -> Release[Any]:
        """Release what a mechanism on groups says of them.

        Args:
            kind: the mechanism, such as `LaplaceHistogram`.
            grouping: puts records into groups.
            why: why the groups do not depend on labels, in words.
            more: other arguments of `kind`.
        """
        return self.release(
            GroupMeasure(grouping, self.domain.size if kind.by_class else None),
            lambda tally: kind(domain=self.domain, groups=Public(tally.groups, why=why), **more),
            lambda tally, made: tally.sums,
        )


@final
@dataclass(frozen=True)
class Surveyed:
    """What was added up over a table, before anything is charged; get one from `Asked.survey`.

    Args:
        account: the ledger of these records.
        found: what was found of their labels.
    """

    account: DatasetLedger
    found: Found = field(repr=False)

    @property
    def tally(self) -> Any:
        """The sums: what is public in them, and what is private."""
        return self.found.tally

    def release(self, made: Any, sums: Callable[[Any, Any], Any]) -> Release[Any]:
        """Charge a mechanism on the sums, and release what it draws once.

        Args:
            made: the mechanism.
            sums: returns the private sums of the tally and the mechanism, as its `release_counts` takes them.
        """
        request = self.found.labels.request(self.account, made, IDS_KIND)
        noise = made.bound(self.account.randomness.bind(request.context()))
        drawn = self.account.draw(request, made, lambda: made.release_counts(sums(self.tally, made), rng=noise))
        return Release(drawn.value, drawn.certificate, drawn.mechanism)

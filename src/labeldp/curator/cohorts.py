"""Cohorts of a dataset: records that were added together, none of whose ids was in the dataset before."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from sqlite3 import Connection
from typing import Any, final

import numpy as np

from labeldp.curator.datasets import Dataset, add_command, first_records, now
from labeldp.privacy import (
    Buckets,
    IdDigest,
    InputError,
    LedgerError,
    RecordIds,
    Span,
    Unit,
    Words,
    add_digests,
    derive_key,
    did_you_mean,
    even_if_refused,
    has_repeats,
    hidden_ids,
)
from labeldp.privacy import Path as ChargePath

HELD_IDS = 1 << 20
"""The most new ids that memory holds before they are spilled."""

BUCKETS = 256

SHOWN_COHORTS = 10
"""The most cohorts that a sentence names; of more it names the first and the last."""

CONDITION = "which cohort a record is in does not depend on its label"
"""In certificates if there are several cohorts. Proof: `docs/proofs/composition.md`, the account, Theorem 9."""

NO_COHORTS = "the dataset {name!r} takes no cohorts: {why}. Records that came later are a dataset of their own"

WITHOUT_IDS = "some of its releases were made without record ids, so nobody can tell which records they were about"

OF_USERS = "it was charged for users, who may have records in several"

OTHER_REVISIONS = "its revisions were of different records"

OTHER_FIRST = (
    "these are not the records that {name!r} was released of so far: its first cohort is all of them; nothing was "
    "added. Add those first, under a name of their own: {command}"
)


@dataclass(frozen=True)
class Cohort:
    """The public record of one cohort of a dataset, without its ids.

    Args:
        number: how many cohorts were added before it.
        name: its name.
        records: how many records it has.
        created: when it was added, UTC, ISO 8601.
        digest: a keyed digest of its ids, which does not depend on their order.
    """

    number: int
    name: str
    records: int
    created: str
    digest: str = field(repr=False)


@dataclass(frozen=True)
class CohortSpan:
    """Whose labels a release is about: the records of one cohort, or of all up to one.

    Args:
        span: the numbers of the first and the last cohort.
        names: the names of the cohorts; empty in a dataset without cohorts.
        several: whether the dataset has more than one cohort.
    """

    span: Span = (0, 0)
    names: tuple[str, ...] = ()
    several: bool = False

    @property
    def conditions(self) -> tuple[str, ...]:
        """What certificates must say."""
        return (CONDITION,) if self.several else ()

    def path(self, secret: bytes) -> ChargePath:
        """Return the part of the dataset that is charged: cohorts are disjoint parts of it."""
        return ((split_name(secret), self.span[0]),) if len(self.names) == 1 else ()


def split_name(secret: bytes) -> str:
    """Return the name of the split of a dataset into its cohorts."""
    return derive_key(secret, b"cohorts").hex()[:16]


def without_cohort(path: ChargePath, secret: bytes) -> ChargePath:
    """Return the part that a charge used of its cohort, or of all records: its path without the cohort."""
    return path[1:] if path and path[0][0] == split_name(secret) else path


def cohorts_from(rows: Sequence[tuple[Any, ...]]) -> tuple[Cohort, ...]:
    """Return cohorts from rows of the table, in order."""
    return tuple(Cohort(*row) for row in rows)


COHORTS = "SELECT number, name, records, created, digest FROM cohort"


def cohorts_of(connection: Connection, dataset: int) -> tuple[Cohort, ...]:
    """Return the cohorts of a dataset, in the order in which they were added."""
    return cohorts_from(connection.execute(f"{COHORTS} WHERE dataset = ? ORDER BY number", (dataset,)).fetchall())


def span_of(
    cohorts: Sequence[Cohort], cohort: str | None, records: str | None, address: tuple[Path, str]
) -> CohortSpan:
    """Return the records of a release: a cohort, all present records, or all records before later cohorts were added.

    Raises:
        LedgerError: the records are not those of the cohort, or of the dataset; nothing was charged.
    """
    if not cohorts:
        return CohortSpan()
    name = address[1]
    listed = named([member.name for member in cohorts])
    if records is None:
        raise LedgerError(
            f"the dataset {name!r} has cohorts ({listed}), which are told apart by record ids: give them (ids, --id "
            "COLUMN); nothing was charged"
        )
    new = f"Records that came later are one of their own: {cohort_command(*address)}"
    if cohort is not None:
        target = next(member for member in cohorts if member.name == cohort)
        if target.digest != records:
            raise LedgerError(
                f"these are not the records of the cohort {cohort!r} of {name!r}: a cohort keeps the ids that it was "
                f"added with; nothing was charged. {new}"
            )
        return CohortSpan((target.number, target.number), (cohort,), len(cohorts) > 1)
    sums = f"{0:032x}-0"
    for member in cohorts:
        sums = add_digests(sums, member.digest)
        if sums == records:
            return CohortSpan(
                (0, member.number), tuple(one.name for one in cohorts[: member.number + 1]), len(cohorts) > 1
            )
    raise LedgerError(
        f"these are neither all records of {name!r} (of the cohorts {listed}) nor those that it had before later ones "
        f"came; nothing was charged. One cohort alone is asked for by its name: cohort=…, --cohort NAME. {new}"
    )


def unknown_cohort(path: Path, name: str, cohort: str, cohorts: Sequence[Cohort], *, new: bool = False) -> LedgerError:
    """Return the error for a name that no cohort has, with a similar name if there is one.

    Args:
        new: whether the dataset is not in the ledger yet, so that it needs a budget.
    """
    names = [member.name for member in cohorts]
    hint = did_you_mean(cohort, names) or f"it has {named(names) or 'none'}."
    return LedgerError(
        f"the dataset {name!r} has no cohort {cohort!r}; {hint} Add records that came later with their ids: "
        f"{cohort_command(path, name)}{' --epsilon …' if new else ''}"
    )


def named(names: Sequence[str]) -> str:
    """Return names of cohorts in words."""
    shown = [repr(name) for name in names]
    if len(shown) > SHOWN_COHORTS:
        shown[SHOWN_COHORTS - 2 : -1] = ["…"]
    return ", ".join(shown)


def cohort_command(path: Path, name: str) -> str:
    """Return the command that adds a cohort."""
    return f"{add_command(path, name)} --cohort NAME --ids FILE --id COLUMN"


@final
class SortedIds:
    """Distinct record ids of one cohort as keyed digests, sorted; memory holds `held` of them, or 1/256 of all."""

    def __init__(self, names: bytes, key: bytes, held: int = HELD_IDS) -> None:
        self._names, self._key = names, derive_key(key, b"cohort ids")
        self._digest = IdDigest(key)
        self._buckets = Buckets(held, 2, spread=False)

    def add(self, ids: Any) -> None:
        """Add the ids of one block: integers, texts or `RecordIds` of the dataset."""
        blocks = RecordIds.of(ids, self._names).blocks
        self._digest.update(blocks)
        if len(blocks):
            self._buckets.add(hidden_ids(blocks, self._key))

    def bucket(self, number: int) -> Words:
        """Return the ids of one bucket, sorted, shape (n, 2); raise InputError if one occurs twice."""
        ids = self._buckets.bucket(number)
        if has_repeats(ids):
            raise InputError("ids must be distinct: each is one record, and its label is released under it")
        return ids[np.lexsort((ids[:, 1], ids[:, 0]))]

    @property
    def digest(self) -> str:
        """A keyed digest of all of them, which does not depend on their order."""
        return self._digest.hexdigest()

    @property
    def records(self) -> int:
        """How many there are."""
        return self._digest.records

    def close(self) -> None:
        """Remove the temporary file."""
        self._buckets.close()

    @even_if_refused
    def __repr__(self) -> str:
        return f"SortedIds({self.records})"


def refuse_known(
    connection: Connection, dataset: int, name: str, cohorts: Sequence[Cohort], addition: SortedIds
) -> None:
    """Raise LedgerError if a new id is in one of some cohorts; sorted digests are compared bucket by bucket."""
    against = {member.number: member.name for member in cohorts}
    query = "SELECT number, ids FROM cohort_ids WHERE dataset = ? AND bucket = ?"
    for bucket in range(BUCKETS if against else 0):
        new = addition.bucket(bucket)
        for number, ids in connection.execute(query, (dataset, bucket)):
            if number in against and share_rows(np.frombuffer(ids, dtype="<u8").reshape(-1, 2), new):
                raise LedgerError(
                    f"some of these ids are in the cohort {against[number]!r} of {name!r} already: a cohort "
                    "holds records that came later, and each record is in one; nothing was added"
                )


def share_rows(one: Words, other: Words) -> bool:
    """Return whether two sorted tables of words, shape (n, 2), have a row in common."""
    if not len(one) or not len(other):
        return False
    places = np.minimum(np.searchsorted(one[:, 0], other[:, 0]), len(one) - 1)
    alike = other[one[places, 0] == other[:, 0]]
    rows = one[np.isin(one[:, 0], alike[:, 0])] if len(alike) else alike
    return not set(map(tuple, rows.tolist())).isdisjoint(map(tuple, alike.tolist()))


def insert_cohort(
    connection: Connection, dataset: Dataset, path: Path, name: str, addition: SortedIds, compared: Sequence[Cohort]
) -> None:
    """Add a cohort in an open transaction. Adding it again changes nothing.

    A cohort without a release is replaced, so that a wrong file can be corrected.

    Raises:
        LedgerError: an id is known already, or the first cohort is not what was released; nothing was added.
    """
    if dataset.protection.users is not None or dataset.protection.unit is Unit.ONE_USER:
        raise LedgerError(NO_COHORTS.format(name=dataset.name, why=OF_USERS))
    cohorts = cohorts_of(connection, dataset.id)
    namesake = next((member for member in cohorts if member.name == name), None)
    same = next((member for member in cohorts if member.digest == addition.digest), None)
    if namesake is not None and namesake == same:
        return
    if same is not None:
        raise LedgerError(f"these are the records of the cohort {same.name!r} of {dataset.name!r}; nothing was added")
    query = "SELECT 1 FROM release WHERE dataset = ? AND low <= ? AND high >= ? LIMIT 1"
    if namesake is not None and connection.execute(query, (dataset.id, namesake.number, namesake.number)).fetchall():
        raise LedgerError(
            f"the cohort {name!r} of {dataset.name!r} has other records, and was released; nothing was added. Records "
            "that came later are a cohort of another name"
        )
    if not cohorts:
        _refuse_other_first(connection, dataset, path, addition.digest)
        if dataset.records not in (None, addition.records):
            raise LedgerError(
                f"{dataset.name!r} has {dataset.records:,} records, and the first cohort must hold all of them; this "
                f"one holds {addition.records:,}, and nothing was added. If the number is wrong, correct it first: "
                f"{add_command(path, dataset.name)} --change --records {addition.records}"
            )
    newer = [member for member in cohorts if member != namesake and member not in compared]
    refuse_known(connection, dataset.id, dataset.name, newer, addition)
    number = len(cohorts) if namesake is None else namesake.number
    for table in ("cohort_ids", "cohort"):
        connection.execute(f"DELETE FROM {table} WHERE dataset = ? AND number = ?", (dataset.id, number))
    row = (dataset.id, number, name, addition.records, addition.digest, now())
    connection.execute(
        "INSERT INTO cohort (dataset, number, name, records, digest, created) VALUES (?, ?, ?, ?, ?, ?)", row
    )
    for bucket in range(BUCKETS):
        ids = addition.bucket(bucket)
        if len(ids):
            query = "INSERT INTO cohort_ids (dataset, bucket, number, ids) VALUES (?, ?, ?, ?)"
            connection.execute(query, (dataset.id, bucket, number, ids.tobytes()))


def _refuse_other_first(connection: Connection, dataset: Dataset, path: Path, digest: str) -> None:
    """Raise LedgerError unless the first cohort is what the dataset has released so far."""
    digests = set(first_records(connection, dataset.id).values())
    if digests <= {digest}:
        return
    command = cohort_command(path, dataset.name)
    if "" in digests or len(digests) > 1:
        why = WITHOUT_IDS if "" in digests else OTHER_REVISIONS
        raise LedgerError(NO_COHORTS.format(name=dataset.name, why=why))
    raise LedgerError(OTHER_FIRST.format(name=dataset.name, command=command))

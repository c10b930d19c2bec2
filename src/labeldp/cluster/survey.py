"""A table that workers hold: each worker digests the ids and labels of its part, and the driver adds the digests up."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, final

import pyarrow as pa

from labeldp.curator import DatasetLedger, Fingerprint, kind_of_ids
from labeldp.mechanisms import Domain
from labeldp.privacy import DomainError, IdDigest, InputError, LabelDigest, LabelDPError, RecordIds, record_words
from labeldp.tables import DistinctIds, codes_of, record_ids

Task = Callable[[Iterable[pa.RecordBatch]], bytes]
"""What a worker does with its part of a table, given as blocks. It can be pickled, and is as secret as the labels."""

CHANGED = "the table changed while it was being {}"


class Table(Protocol):
    """A table whose parts workers hold, as an engine gives it. It may be evaluated anew for each task."""

    @property
    def schema(self) -> pa.Schema:
        """The names and types of its columns."""

    def run(self, task: Task, columns: Sequence[str]) -> Iterable[bytes]:
        """Run a task on some columns of each part; return what it returned, once for each part."""

    def run_by_id(self, task: Task, column: str) -> Iterable[bytes]:
        """Run a task on parts of the column of ids alone in which equal ids stand in one part."""


@final
@dataclass(frozen=True)
class Stream:
    """A table in one stream of record batches that can be read again: of DuckDB, polars or a pyarrow dataset.

    Args:
        read: opens the stream, a `pyarrow.RecordBatchReader`, each time from the beginning.

    Examples:
        >>> people = pa.table({"id": [1, 2], "bought": ["no", "yes"]})
        >>> Stream(people.to_reader).schema.names
        ['id', 'bought']
    """

    read: Callable[[], pa.RecordBatchReader] = field(repr=False)

    @property
    def schema(self) -> pa.Schema:
        """The names and types of its columns."""
        with self.read() as reader:
            return reader.schema

    def run(self, task: Task, columns: Sequence[str]) -> list[bytes]:
        """Run a task on the stream."""
        with self.read() as reader:
            return [task(batch.select(list(columns)) for batch in reader)]

    def run_by_id(self, task: Task, column: str) -> list[bytes]:
        """Run a task on the stream, which is one part."""
        return self.run(task, [column])


@final
@dataclass(frozen=True)
class Names:
    """How the records of a dataset are named.

    Args:
        column: the column of ids.
        key: the key by which texts become names, None in datasets of earlier versions. It draws no noise.
    """

    column: str
    key: bytes | None = field(repr=False)

    def of(self, batch: pa.RecordBatch) -> Any:
        """Return the names of the records of a block; raise InputError if one is missing."""
        ids = record_ids(batch, self.column)
        return ids if self.key is None else RecordIds.of(ids, self.key)


@final
@dataclass(frozen=True)
class IdTask:
    """Digests the ids of a part in which equal ids stand together; what is wrong with them is said, not which."""

    names: Names
    key: bytes = field(repr=False)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> bytes:
        digest = IdDigest(self.key)
        try:
            with DistinctIds() as seen:
                for batch in larger(batches):
                    ids = self.names.of(batch)
                    seen.add(ids)
                    digest.update(RecordIds.of(ids, self.key).blocks)
        except InputError as error:
            return _packed(problem=str(error))
        return _packed(ids=digest.state.hex())


@final
@dataclass(frozen=True)
class LabelTask:
    """Digests the labels of a part.

    Args:
        names: of the records.
        label: the private column.
        domain: the domain that labels are compared with, as a file names it.
        key: of the ledger's digests.
        check_key: of a digest for this table and this run alone, by which a grant knows the labels again.
    """

    names: Names
    label: str
    domain: Domain
    key: bytes = field(repr=False)
    check_key: bytes = field(repr=False)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> bytes:
        found, ids, check = Fingerprint(self.key, self.domain), IdDigest(self.key), LabelDigest(self.check_key)
        refused, scheme = False, None
        for batch in larger(batches):
            try:
                names = self.names.of(batch)
            except InputError as error:
                return _packed(problem=str(error))
            scheme = kind_of_ids(names)
            ids.update(RecordIds.of(names, self.key).blocks)
            try:
                codes = codes_of(batch, self.label, self.domain)
            except DomainError:
                refused = True  # said when all was read: neither time nor progress tells where
                continue
            found.update(names, codes)
            check.update(record_words(names, len(codes), self.check_key), codes)
        digest, counts = found.state
        states = {"labels": digest.hex(), "counts": list(counts.items()), "check": check.state.hex()}
        return _packed(ids=ids.state.hex(), refused=refused, scheme=scheme, **states)


@dataclass(frozen=True)
class Surveyed:
    """What was found out of all labels: their fingerprint, the kind of ids, and the digest that a grant compares."""

    found: Fingerprint = field(repr=False)
    scheme: str
    check: str = field(repr=False)


def check_ids(table: Table, names: Names, account: DatasetLedger) -> str:
    """Return a digest of the ids of a table.

    Raises:
        InputError: an id is missing or repeated, also across parts; or there are no records.
    """
    digest = IdDigest(account.digest_key)
    for each in map(_unpacked, table.run_by_id(IdTask(names, account.digest_key), names.column)):
        digest.add_state(bytes.fromhex(each["ids"]))
    if not digest.records:
        raise InputError("the table must hold at least one record")
    return digest.hexdigest()


def survey_labels(table: Table, task: LabelTask, ids: str) -> Surveyed:
    """Read every label of a table once.

    Args:
        table: the table.
        task: what its workers do.
        ids: the digest of the ids that were checked.

    Raises:
        DomainError: a label is missing or outside of the domain.
        LabelDPError: the ids are not those that were checked.
    """
    found, names, check = Fingerprint(task.key, task.domain), IdDigest(task.key), LabelDigest(task.check_key)
    refused, schemes = False, set()
    for each in map(_unpacked, table.run(task, [task.names.column, task.label])):
        found.add_state(bytes.fromhex(each["labels"]), dict(each["counts"]))
        names.add_state(bytes.fromhex(each["ids"]))
        check.add_state(bytes.fromhex(each["check"]))
        refused |= each["refused"]
        schemes |= {each["scheme"]} - {None}
    if names.hexdigest() != ids:
        raise LabelDPError(f"{CHANGED.format('checked')}: nothing was charged")
    if refused:
        raise DomainError("a label is missing or outside of the domain")
    [scheme] = schemes
    return Surveyed(found, scheme, check.hexdigest())


ROWS, BYTES = 1 << 17, 1 << 26
"""Blocks are joined up to so many rows or bytes: engines make small ones."""


def larger(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield larger blocks of the same rows in the same order, none of them empty."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= ROWS or size >= BYTES:
            yield _joined(held)
            held, rows, size = [], 0, 0
    if held:
        yield _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    [batch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return batch


def _packed(**values: Any) -> bytes:
    return json.dumps(values).encode()


def _unpacked(state: bytes) -> dict[str, Any]:
    """Return what a task found; raise InputError if it met a problem."""
    values: dict[str, Any] = json.loads(bytes(state))
    if "problem" in values:
        raise InputError(values["problem"])
    return values

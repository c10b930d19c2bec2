"""A table that workers hold: each worker digests the ids and labels of its part, and the driver adds the digests up."""

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, final

import pyarrow as pa
from numpy.typing import NDArray

from labeldp.curator import DatasetLedger, Fingerprint
from labeldp.mechanisms import Domain
from labeldp.privacy import DomainError, IdDigest, Ids, InputError, LabelDigest, LabelDPError, RecordIds, record_words
from labeldp.tables import DistinctIds, codes_of, record_ids

Task = Callable[[Iterable[pa.RecordBatch]], bytes]
"""What a worker does with its part of a table, given as blocks. It can be pickled, and is as secret as the labels."""

Join = Callable[[Iterable[bytes]], bytes]
"""Puts what several tasks returned together to one such result."""

CHANGED = "the table changed while it was being {}"
"""The beginning of what is said of a table that changed, with a gap for a verb."""


class Table(Protocol):
    """A table whose parts workers hold, as an engine gives it. It may be evaluated anew for each task."""

    @property
    def schema(self) -> pa.Schema:
        """The names and types of its columns."""

    def run(self, task: Task, columns: Sequence[str], join: Join | None = None) -> Iterable[bytes]:
        """Run a task on some columns of each part; return what it returned, once for each part.

        Results may be put together by `join` on the way: they are large, and the driver wants few.
        """

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

    def run(self, task: Task, columns: Sequence[str], join: Join | None = None) -> list[bytes]:
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
        key: the key by which ids become names. It draws no noise.
    """

    column: str
    key: bytes = field(repr=False)

    def of(self, batch: pa.RecordBatch) -> RecordIds:
        """Return the names of the records of a block; raise InputError if one is missing."""
        return RecordIds.of(record_ids(batch, self.column), self.key)


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


class Tally(Protocol):
    """Sums of integers over records, which a survey adds up beside the digests of labels."""

    def add(self, names: Ids, codes: NDArray[Any], batch: pa.RecordBatch) -> None:
        """Add the records of a block; raise InputError if public columns are wrong."""

    @property
    def state(self) -> bytes:
        """The sums so far, to be added to another tally by `add_state`; as secret as the labels."""

    def add_state(self, state: bytes) -> None:
        """Add the sums of another tally, by its `state`."""


class Measure(Protocol):
    """What a survey sums; it can be pickled."""

    @property
    def columns(self) -> Sequence[str]:
        """The public columns that it reads."""

    def start(self, key: bytes) -> Tally:
        """Return sums of no records yet, with digests under a key."""


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
        measure: what is summed beside; by default nothing.
    """

    names: Names
    label: str
    domain: Domain
    key: bytes = field(repr=False)
    check_key: bytes = field(repr=False)
    measure: Measure | None = None

    @property
    def columns(self) -> list[str]:
        """The columns that it reads."""
        more = () if self.measure is None else self.measure.columns
        return list(dict.fromkeys([self.names.column, self.label, *more]))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> bytes:
        found = Found(self)
        try:
            for batch in larger(batches):
                found.add(batch)
        except InputError as error:
            return _packed(problem=str(error))
        return found.state

    def join(self, states: Iterable[bytes]) -> bytes:
        """Put what several of these tasks returned together."""
        found = Found(self)
        try:
            found.add_states(states)
        except InputError as error:
            return _packed(problem=str(error))
        return found.state


@final
class Found:
    """What is found of labels: their fingerprint, the digests that a driver compares, sums, and whether all fit.

    Args:
        task: how labels are read.
    """

    def __init__(self, task: LabelTask) -> None:
        self._task = task
        self.labels = Fingerprint(task.key, task.domain)
        self.ids = IdDigest(task.key)
        self.check = LabelDigest(task.check_key)
        self.tally = None if task.measure is None else task.measure.start(task.key)
        self.refused = False

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the records of a block; raise InputError if an id is missing, or public columns are wrong."""
        task = self._task
        names = task.names.of(batch)
        blocks = RecordIds.of(names, task.key).blocks
        self.ids.update(blocks)
        try:
            codes = codes_of(batch, task.label, task.domain)
        except DomainError:
            self.refused = True  # said when all was read: neither time nor progress tells where
            return
        self.labels.update(names, codes)
        self.check.update(record_words(names, len(codes), task.check_key), codes)
        if self.tally is not None:
            self.tally.add(blocks, codes, batch)

    @property
    def state(self) -> bytes:
        """All of it, to be added by `add_states`; as secret as the labels."""
        digest, counts = self.labels.state
        return _packed(
            labels=digest.hex(),
            counts=list(counts.items()),
            ids=self.ids.state.hex(),
            check=self.check.state.hex(),
            sums=None if self.tally is None else base64.b64encode(self.tally.state).decode(),
            refused=self.refused,
        )

    def add_states(self, states: Iterable[bytes]) -> None:
        """Add what others found, by their `state`; raise InputError if one of them met a problem."""
        for each in map(_unpacked, states):
            self.labels.add_state(bytes.fromhex(each["labels"]), dict(each["counts"]))
            self.ids.add_state(bytes.fromhex(each["ids"]))
            self.check.add_state(bytes.fromhex(each["check"]))
            if self.tally is not None:
                self.tally.add_state(base64.b64decode(each["sums"]))
            self.refused |= each["refused"]

    def __repr__(self) -> str:
        return "Found(<secret>)"


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


def survey_labels(table: Table, task: LabelTask, ids: str) -> Found:
    """Read every label of a table once.

    Args:
        table: the table.
        task: what its workers do.
        ids: the digest of the ids that were checked.

    Raises:
        DomainError: a label is missing or outside of the domain.
        InputError: public columns are wrong.
        LabelDPError: the ids are not those that were checked.
    """
    found = Found(task)
    found.add_states(table.run(task, task.columns, None if task.measure is None else task.join))
    if found.ids.hexdigest() != ids:
        raise LabelDPError(f"{CHANGED.format('checked')}: nothing was charged")
    if found.refused:
        raise DomainError("a label is missing or outside of the domain")
    return found


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

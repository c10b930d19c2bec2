"""One pass over a table: the digests of its parts add up to the digest of the whole table."""

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.curator import DatasetLedger, Fingerprint
from labeldp.mechanisms import Domain
from labeldp.privacy import (
    DomainError,
    IdDigest,
    Ids,
    InputError,
    LabelDigest,
    LabelDPError,
    RecordIds,
    UnreadableRows,
    record_words,
)
from labeldp.tables import CHANGED, DistinctIds, Table, check_kind, codes_of, record_ids, recut


@final
@dataclass(frozen=True)
class IdColumn:
    """The column of record ids, and the key by which ids become names. It draws no noise."""

    column: str
    key: bytes = field(repr=False)

    def of(self, batch: pa.RecordBatch) -> RecordIds:
        """Return the names of the records of a block; raise InputError if one is missing."""
        return RecordIds.of(record_ids(batch, self.column), self.key)


@final
@dataclass(frozen=True)
class IdTask:
    """Digests the ids of a part in which equal ids stand together; what is wrong with them is said, not which."""

    ids: IdColumn
    key: bytes = field(repr=False)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> bytes:
        digest = IdDigest(self.key)
        try:
            with DistinctIds() as distinct:
                for batch in recut(batches):
                    names = self.ids.of(batch)
                    distinct.add(names)
                    digest.update(RecordIds.of(names, self.key).blocks)
        except UnreadableRows:
            raise
        except InputError as error:
            return packed(problem=str(error))
        return packed(ids=digest.state.hex())


class Accumulator(Protocol):
    """Sums of integers over records, which a survey adds up next to the digests of labels."""

    def add(self, names: Ids, codes: NDArray[Any], batch: pa.RecordBatch) -> None:
        """Add the records of a block; raise InputError if public columns are wrong."""

    @property
    def state(self) -> bytes:
        """The sums so far, to be added to another accumulator by `add_state`; as secret as the labels."""

    def add_state(self, state: bytes) -> None:
        """Add the sums of another accumulator, by its `state`."""


class Aggregate(Protocol):
    """What a survey sums; it can be pickled."""

    @property
    def columns(self) -> Sequence[str]:
        """The public columns that it reads."""

    def start(self, key: bytes) -> Accumulator:
        """Return sums of no records yet, with digests under a key."""


@final
@dataclass(frozen=True)
class LabelTask:
    """Digests the labels of a part.

    Args:
        ids: of the records.
        label: the private column; None to read public columns alone, which has the same public results.
        domain: the domain that labels are compared with, as a file names it.
        key: of the ledger's digests.
        check_key: of a digest for this table and this run alone, by which a grant knows the labels again.
        aggregate: what is summed beside; by default nothing.
    """

    ids: IdColumn
    label: str | None
    domain: Domain
    key: bytes = field(repr=False)
    check_key: bytes = field(repr=False)
    aggregate: Aggregate | None = None

    @property
    def columns(self) -> list[str]:
        """The columns that it reads."""
        label = () if self.label is None else (self.label,)
        more = () if self.aggregate is None else self.aggregate.columns
        return list(dict.fromkeys([self.ids.column, *label, *more]))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> bytes:
        result = SurveyResult(self)
        try:
            for batch in recut(batches):
                result.add(batch)
        except UnreadableRows:
            raise
        except InputError as error:
            return packed(problem=str(error))
        return result.state

    def join(self, states: Iterable[bytes]) -> bytes:
        """Join the results of several of these tasks."""
        result = SurveyResult(self)
        try:
            result.add_states(states)
        except InputError as error:
            return packed(problem=str(error))
        return result.state


@final
class SurveyResult:
    """Result of a survey: fingerprint of labels, digests for the driver, sums, and whether all labels fit."""

    def __init__(self, task: LabelTask) -> None:
        self._task = task
        self.labels = Fingerprint(task.key, task.domain)
        self.ids = IdDigest(task.key)
        self.check = LabelDigest(task.check_key)
        self.sums: Any = None if task.aggregate is None else task.aggregate.start(task.key)
        self.refused = False

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the records of a block; raise InputError if an id is missing, or public columns are wrong."""
        task = self._task
        names = task.ids.of(batch)
        blocks = RecordIds.of(names, task.key).blocks
        self.ids.update(blocks)
        if task.label is None:
            codes = np.zeros(batch.num_rows, dtype=np.uint8)
            self.sums.add(blocks, codes, batch)
            return
        try:
            codes = codes_of(batch, task.label, task.domain)
        except DomainError:
            self.refused = True  # said when all was read: neither time nor progress tells where
            return
        self.labels.update(names, codes)
        self.check.update(record_words(names, len(codes), task.check_key), codes)
        if self.sums is not None:
            self.sums.add(blocks, codes, batch)

    @property
    def state(self) -> bytes:
        """All of it, to be added by `add_states`; as secret as the labels."""
        digest, counts = self.labels.state
        return packed(
            labels=digest.hex(),
            counts=list(counts.items()),
            ids=self.ids.state.hex(),
            check=self.check.state.hex(),
            sums=None if self.sums is None else base64.b64encode(self.sums.state).decode(),
            refused=self.refused,
        )

    def add_states(self, states: Iterable[bytes]) -> None:
        """Add what others say, by their `state`; raise InputError if one of them met a problem."""
        for part in map(unpacked, states):
            self.labels.add_state(bytes.fromhex(part["labels"]), dict(part["counts"]))
            self.ids.add_state(bytes.fromhex(part["ids"]))
            self.check.add_state(bytes.fromhex(part["check"]))
            if self.sums is not None:
                self.sums.add_state(base64.b64decode(part["sums"]))
            self.refused |= part["refused"]

    def __repr__(self) -> str:
        return "SurveyResult(<secret>)"


def check_columns(table: Table, label: str, id: str, domain: Domain) -> None:
    """Check the names and types of the columns of labels and ids, which are public; no row is read.

    Raises:
        InputError: a column is missing or there twice, or its type does not fit.
    """
    table.require(label, "label")
    table.require(id, "id")
    if id == label:
        raise InputError("must be another column than label: ids are published", argument="id")
    for part in table.parts:
        record_ids(pa.RecordBatch.from_arrays([pa.nulls(0, part.schema.field(id).type)], names=[id]), id)
        check_kind(part.schema, label, domain)


@final
class TableIds:
    """The record ids of a table, read once an account is open: their digest and their number, for `open_account`."""

    def __init__(self, table: Table, column: str) -> None:
        self._table, self._column, self._records = table, column, 0
        self.digest = ""

    def of(self, account: DatasetLedger) -> str:
        """Return a digest of the ids.

        Raises:
            InputError: an id is missing or repeated, also across parts; or there are no records.
        """
        ids = IdColumn(self._column, account.ids_key)
        digest = IdDigest(account.digest_key)
        for part in map(unpacked, self._table.run(IdTask(ids, account.digest_key), [ids.column], by=ids.column)):
            digest.add_state(bytes.fromhex(part["ids"]))
        if not digest.records:
            raise InputError("the table must hold at least one record")
        self.digest, self._records = digest.hexdigest(), digest.records
        return self.digest

    def count(self) -> int:
        """Return the number of records, once the ids were read."""
        return self._records


def survey_labels(table: Table, task: LabelTask, ids: str) -> SurveyResult:
    """Read every label of a table once, or the public columns alone; `ids` is the digest of the checked ids.

    Raises:
        DomainError: a label is missing or outside of the domain.
        InputError: public columns are wrong.
        LabelDPError: the ids are not those that were checked.
    """
    result = SurveyResult(task)
    result.add_states(table.run(task, task.columns, join=None if task.aggregate is None else task.join))
    if result.ids.hexdigest() != ids:
        raise LabelDPError(f"{CHANGED.format('checked')}: nothing was charged")
    if result.refused:
        raise DomainError("a label is missing or outside of the domain")
    return result


def packed(**values: Any) -> bytes:
    """Return the result of a task as bytes."""
    return json.dumps(values).encode()


def unpacked(state: bytes) -> dict[str, Any]:
    """Return the result of a task; raise InputError if it met a problem."""
    values: dict[str, Any] = json.loads(bytes(state))
    if "problem" in values:
        raise InputError(values["problem"])
    return values

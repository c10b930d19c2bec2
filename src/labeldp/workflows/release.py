"""Release the label column of a file: read it twice by blocks, charge it once, publish it whole or not at all."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp import mechanisms
from labeldp.curator import DatasetLedger, Fingerprint, LedgerFile, kind_of_ids
from labeldp.mechanisms import Classes, Domain, FiniteMechanism, SetMechanism
from labeldp.privacy import (
    Budget,
    Certificate,
    Charge,
    DomainError,
    IdDigest,
    InputError,
    LabelDPError,
    RecordIds,
    Request,
    check_choice,
    float_above,
)
from labeldp.tables import (
    BLOCK_ROWS,
    DistinctIds,
    ReleaseWriter,
    TableFile,
    as_text,
    is_as_certified,
    open_table,
    plain,
    read_certificate,
    record_ids,
    release_writer,
)
from labeldp.workflows.labels import check_kind, codes_of, domain_in_file
from labeldp.workflows.release_mechanisms import RELEASE_MECHANISMS

Progress = Callable[[str, float], None]
"""Called after each block with what was done, in words, and the share of the whole work in [0, 1]."""


def as_labels(mechanism: FiniteMechanism, noisy: NDArray[Any]) -> pa.Array:
    """Return noisy codes as labels of the domain."""
    if not isinstance(mechanism.domain, Classes):
        return pa.array(mechanism.domain.decode(noisy))
    names = mechanism.domain.names
    whole = all(isinstance(name, int) for name in names)
    return pa.array(names if whole else [str(name) for name in names]).take(pa.array(noisy))


def as_bits(mechanism: SetMechanism, noisy: NDArray[Any]) -> pa.Array:
    """Return sets of classes as texts of one '0' or '1' for each class, in the order of the domain."""
    bits = mechanism.named(noisy).view(np.uint8) + np.uint8(ord("0"))
    rows, classes = bits.shape
    edges = np.arange(rows + 1, dtype=np.int64) * classes
    return pa.Array.from_buffers(pa.large_string(), rows, [None, pa.py_buffer(edges), pa.py_buffer(bits.tobytes())])


OUTPUTS: dict[str, tuple[str, Callable[[Any, NDArray[Any]], pa.Array]]] = {
    "labels": ("", as_labels),
    "bits": ("_bits", as_bits),
    "group": ("_group", as_bits),
}
"""What the noisy column's name ends in, and how its values are made, for each `output` of a mechanism."""


def release_file(
    data: str | os.PathLike[str],
    *,
    label: str,
    domain: Domain,
    mechanism: str = "randomized-response",
    epsilon: Any,
    ledger: str | os.PathLike[str],
    dataset: str,
    out: str | os.PathLike[str],
    id_column: str | None = None,
    in_place: bool = False,
    revision: str | None = None,
    block_rows: int = BLOCK_ROWS,
    progress: Progress | None = None,
    note: Callable[[str], None] | None = None,
) -> Certificate:
    """Release the label column of a CSV or Parquet file as a file of noisy labels with a certificate.

    Use it for data of any size: memory grows with a block, not with the file. The file is read twice,
    first to check every label and id, then to draw. Noise is a function of the ledger's key, of all that is asked
    for and of the record's id, so the same command again costs nothing and writes the same labels; that is
    also how a run that died is finished. An output that stands already and is the one asked for is left as it is.

    Args:
        data: the file.
        label: its private column.
        domain: the declared domain of the labels.
        mechanism: "randomized-response", "discrete-laplace", "unary-encoding" (it publishes the column LABEL_bits, one
            '0' or '1' per class) or "partition-response" (the column LABEL_group, likewise, with '1' for the classes of
            the answered group; the groups of a record follow from its id and a public seed).
        epsilon: privacy parameter, positive.
        ledger: the ledger file to charge; made if it is not there.
        dataset: the dataset's name in it. The first one of a ledger that is made is added with this release's cost as
            its whole budget, and `note` is told.
        out: the output, .parquet or .csv (.csv.gz …), which must not exist.
        id_column: record ids, all different; noise follows the id, and the ids are written beside the noisy labels.
            Row numbers by default.
        in_place: write the whole table with noisy labels in the place of the private ones, not the noisy labels alone.
        revision: names another state of the labels; see `LedgerFile.dataset`.
        block_rows: rows read at a time.
        progress: called after each block.
        note: called with a sentence that the user should read.

    Guarantee: nothing is published before its charge is on disk, and the output is whole or absent; what is refused
        charges nothing.

    Raises:
        InputError: an argument is wrong, a label is missing or outside of the domain, an id is repeated, or the
            output exists; nothing was charged.
        BudgetExceeded: nothing was charged and nothing published.
        LedgerError: the ledger cannot be used, or the labels changed; nothing was charged.
        LabelDPError: the disk is full or the file changed meanwhile. Nothing was published, and the release stays
            charged: run the same command again.
    """
    choices = tuple(each.name for each in RELEASE_MECHANISMS.values() if not each.on_bags)
    row = RELEASE_MECHANISMS[check_choice(mechanism, "mechanism", choices)]
    chosen: FiniteMechanism = getattr(mechanisms, row.type)(domain=domain, epsilon=epsilon)
    stream = Stream.of(open_table(data), label, id_column, chosen, row.output, in_place, block_rows, progress)
    whole_cost = _whole_cost(chosen)
    account = LedgerFile(ledger).dataset(dataset, revision=revision, budget=whole_cost)
    target = Path(out)
    if os.path.lexists(target):
        return _existing_result(stream, account, target)
    if target.absolute() == Path(ledger).absolute():
        raise InputError("must be different files", argument=("out", "ledger"))
    stream.refuse_unwritable(target)
    account.afford(chosen)
    with release_writer(target, stream.columns, released=stream.released) as writer:
        ids = stream.check_ids(account)
        if account.is_new and note:
            note(f"{account.name!r} is new in {ledger}: its whole budget is this release's cost ({whole_cost})")
        request, seen = stream.check(account, ids)
        certificate = account.charge_stream(request, chosen)
        stream.draw(account, request, seen, writer)
        writer.certify(certificate.to_json())
    return certificate


@dataclass(frozen=True)
class Stream:
    """One private column of a file on its way through a mechanism."""

    table: TableFile
    label: str
    id_column: str | None
    mechanism: FiniteMechanism
    output: str
    in_place: bool
    block_rows: int
    progress: Progress | None

    @classmethod
    def of(cls, table: TableFile, label: str, id_column: str | None, *rest: Any) -> "Stream":
        """Checked against the table's columns."""
        table.require(label, "label")
        if id_column is not None:
            table.require(id_column, "id_column")
        if id_column == label:
            raise InputError("must be another column than label: ids are published", argument="id_column")
        stream = cls(table, label, id_column, *rest)
        check_kind(table, label, stream.in_file)
        table.blocks([label], block_rows=stream.block_rows)  # refuses a wrong number of rows, and reads none
        if len(set(stream.columns)) < len(stream.columns):
            raise InputError(
                f"the table must not have a column {stream.released!r} already: it is the name of the output"
            )
        return stream

    @property
    def released(self) -> str:
        """The name of the noisy column."""
        return self.label + OUTPUTS[self.output][0]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the output."""
        if self.in_place:
            return tuple(self.released if name == self.label else name for name in self.table.columns)
        return (self.released,) if self.id_column is None else (self.id_column, self.released)

    def refuse_unwritable(self, target: Path) -> None:
        """Refuse, before anything is charged, a column that cannot be written as text where the output is CSV."""
        if target.suffix.lower() in (".parquet", ".pq"):
            return
        for column in self.table.schema():
            kept = column.name in self.columns and column.name != self.label
            if kept and not _has_text(column):
                raise InputError(
                    f"a CSV file cannot hold the column {column.name!r} ({column.type}): write .parquet instead"
                )

    def check_ids(self, account: DatasetLedger) -> str:
        """Read every id once, before any label is compared with the domain; return a digest of them."""
        digest = IdDigest(account.digest_key)
        if self.id_column is not None:
            with DistinctIds() as seen:
                for batch in self.table.blocks([self.id_column], block_rows=self.block_rows):
                    ids = self._ids(account, batch)
                    seen.add(ids)
                    digest.update(RecordIds.of(ids, account.digest_key).blocks)
        return digest.hexdigest()

    def _ids(self, account: DatasetLedger, batch: pa.RecordBatch) -> Any:
        """Return the ids of a block as the dataset names records; those of earlier versions are taken as they are."""
        assert self.id_column is not None
        ids, key = record_ids(batch, self.id_column), account.ids_key
        return ids if key is None else RecordIds.of(ids, key)

    def check(self, account: DatasetLedger, ids: str) -> tuple[Request, "Seen"]:
        """Read every label, and count the rows: what is wrong is refused here, once all is read.

        Args:
            account: what will be charged.
            ids: the digest of the ids that were checked.
        """
        found, scheme, seen = account.compare(self.mechanism.domain, lambda: self._fingerprinted(account, ids))
        request = Request(
            mechanism=self.mechanism.specification(),
            loss=self.mechanism.privacy_loss(),
            labels=found.labels,
            traces=found.traces(scheme),
            scheme=scheme,
            randomness=account.randomness.kind,
            source=account.randomness.identity,
        )
        return request, seen

    def _fingerprinted(self, account: DatasetLedger, expected: str) -> tuple[Fingerprint, str, "Seen"]:
        """A fingerprint of all labels, the kind of ids, and what the second look is compared with.

        A label that does not fit is refused when everything was read: neither time nor progress tells where it stands.
        """
        found, scheme, rows = self._fingerprint(account), "row numbers", 0
        seen = IdDigest(account.digest_key)
        digests: list[str] = []
        refused: DomainError | None = None
        for batch, ids in self._raw(account, "checked", self.table.rows):
            rows += batch.num_rows
            if self.id_column is not None:
                scheme = kind_of_ids(ids)
                seen.update(RecordIds.of(ids, account.digest_key).blocks)
            try:
                found.update(ids, codes_of(batch, self.label, self.in_file))
            except DomainError as error:
                refused = error.with_traceback(None)
            digests.append(found.labels)
        if seen.hexdigest() != expected:
            raise LabelDPError(f"{self.table.path} changed while it was being checked: nothing was charged")
        if refused is not None:
            raise refused
        return found, scheme, Seen(rows, tuple(digests))

    def draw(self, account: DatasetLedger, request: Request, seen: "Seen", writer: ReleaseWriter) -> None:
        """Read every label again and write what the mechanism answers; refused if the labels are others now.

        A block is compared with the first look before its noise is drawn: on other labels the same noise would show,
        beside the release that was asked for, what changed.
        """
        found, known = self._fingerprint(account), iter(seen.digests)
        noise = account.randomness.bind(request.context())
        changed = LabelDPError(f"{self.table.path} changed while it was being released: nothing was published")
        for batch, ids in self._raw(account, "released", seen.rows):
            try:
                codes = codes_of(batch, self.label, self.in_file)
            except DomainError:
                raise changed from None  # what no ledger counted tells nothing more
            found.update(ids, codes)
            if next(known, None) != found.labels:
                raise changed
            noisy = self.mechanism.randomize(codes, rng=noise, ids=ids)
            writer.write(OUTPUTS[self.output][1](self.mechanism, noisy), batch)
        if next(known, None) is not None:
            raise changed

    def _fingerprint(self, account: DatasetLedger) -> Fingerprint:
        """Return the fingerprint of no labels yet."""
        return Fingerprint(account.digest_key, self.in_file)

    def _raw(self, account: DatasetLedger, done: str, rows: int | None) -> Iterator[tuple[pa.RecordBatch, Any]]:
        """Yield blocks with record ids. Both passes read the same columns, so the first finds what is damaged."""
        needed = {self.label, self.id_column}
        columns = [name for name in self.table.columns if self.in_place or name in needed]
        start = 0
        for batch in self.table.blocks(columns, block_rows=self.block_rows):
            numbers = np.arange(start, start + batch.num_rows, dtype=np.uint64)
            yield batch, numbers if self.id_column is None else self._ids(account, batch)
            start += batch.num_rows
            if self.progress:
                half = start / rows / 2 if rows else 0.0
                self.progress(f"{done} {start:,} rows", half + (0.5 if done == "released" else 0.0))

    @cached_property
    def in_file(self) -> Domain:
        """The domain under the names that its labels have in a file."""
        return domain_in_file(self.mechanism.domain)


@dataclass(frozen=True)
class Seen:
    """What the first look at a file found: the number of rows, and a digest of all labels up to each block; secret."""

    rows: int
    digests: tuple[str, ...] = field(repr=False)


def _whole_cost(mechanism: FiniteMechanism) -> Budget:
    """Return the budget that admits one release and nothing more."""
    bound = mechanism.privacy_loss().max_loss
    assert bound is not None, "every mechanism offered here has a pure guarantee"
    return Budget(float_above(bound))


def _has_text(column: pa.Field) -> bool:
    """Whether the cells of a column can be written as text."""
    try:
        as_text(plain(pa.nulls(1, column.type)), column.name)
    except InputError:
        return False
    return True


def _existing_result(stream: Stream, account: DatasetLedger, target: Path) -> Certificate:
    """Return the certificate of an output that stands already, if it is the one asked for, else raise InputError."""
    refusal = InputError(f"{target} exists already and is not this release; choose another name or remove it first")
    try:
        content = read_certificate(target)
        certificate = Certificate.from_json(content["certificate"])
        columns = open_table(target).columns
    except InputError:
        raise refusal from None
    charge: Charge | None = account.find_stream(stream.check(account, stream.check_ids(account))[0])
    same = charge is not None and certificate.entries == (charge,) and columns == stream.columns
    if not (same and content["column"] == stream.released and is_as_certified(target)):
        raise refusal
    return certificate

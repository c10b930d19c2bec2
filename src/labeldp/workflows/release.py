"""Release the label column of a file: read it twice by blocks, charge it once, publish it whole or not at all."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp import mechanisms
from labeldp.curator import DatasetLedger, Fingerprint, LedgerFile, kind_of_ids
from labeldp.mechanisms import Domain, FiniteMechanism
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
    FolderWriter,
    Parts,
    ReleaseWriter,
    as_text,
    check_kind,
    codes_of,
    domain_in_file,
    has_suffix,
    is_arrow,
    is_as_certified,
    is_folder_as_certified,
    is_parquet,
    open_parts,
    open_table,
    plain,
    read_certificate,
    read_folder_certificate,
    record_ids,
    release_folder,
    release_writer,
    released_column,
    released_values,
)
from labeldp.workflows.release_mechanisms import RELEASE_MECHANISMS

Progress = Callable[[str, float], None]
"""Called after each block with what was done, in words, and the share of the whole work in [0, 1]."""


def release_file(
    data: Any,
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
    """Release the label column of a CSV or Parquet file, or of a folder of them, with a certificate.

    Use it for data of any size: memory grows with a block, not with the file. A folder is one table and one release:
    each file in it and in its subfolders is a part, whose name does not begin with "_" or ".". The data are read twice,
    first to check every label and id, then to draw. Noise is a function of the ledger's key, of all that is asked
    for and of the record's id, so the same command again costs nothing and writes the same labels; that is
    also how a run that died is finished. An output that stands already and is the one asked for is left as it is.

    Args:
        data: the path of a CSV, Parquet or Arrow file or of a folder of them; or a table in memory that gives an Arrow
            stream each time it is asked (pyarrow, polars, pandas, DuckDB), or a data set of pyarrow.
        label: its private column.
        domain: the declared domain of the labels.
        mechanism: "randomized-response", "discrete-laplace", "unary-encoding" (it publishes the column LABEL_bits, one
            '0' or '1' per class) or "partition-response" (the column LABEL_group, likewise, with '1' for the classes of
            the answered group; the groups of a record follow from its id and a public seed).
        epsilon: privacy parameter, positive.
        ledger: the ledger file to charge; made if it is not there.
        dataset: the dataset's name in it. The first one of a ledger that is made is added with this release's cost as
            its whole budget, and `note` is told.
        out: the output, which must not exist: .parquet, .arrow or .csv (.csv.gz …). For a folder it may have no such
            ending: then it is a folder with a part for each part, one `_certificate.json` and `_SUCCESS`; parts that a
            killed run finished are not drawn again.
        id_column: record ids, all different, in a folder across its parts; noise follows the id, and the ids are
            written beside the noisy labels. Row numbers by default.
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
    stream = Stream.of(open_parts(data), label, id_column, chosen, in_place, block_rows, progress)
    whole_cost = _whole_cost(chosen)
    account = LedgerFile(ledger).dataset(dataset, revision=revision, budget=whole_cost)
    target = Path(out)
    if os.path.lexists(target):
        return _existing_result(stream, account, target)
    if target.absolute() == Path(ledger).absolute():
        raise InputError("must be different files", argument=("out", "ledger"))
    if stream.parts.are_many and target.resolve().is_relative_to(stream.parts.place.resolve()):
        raise InputError("must not lie in the folder that is released", argument="out")
    stream.refuse_unwritable(target)
    account.afford(chosen)
    with _output(stream, target) as output:
        ids = stream.check_ids(account)
        if account.is_new and note:
            note(f"{account.name!r} is new in {ledger}: its whole budget is this release's cost ({whole_cost})")
        request, seen = stream.check(account, ids)
        certificate = account.charge_stream(request, chosen)
        if isinstance(output, ReleaseWriter):
            for part in range(len(seen)):
                stream.draw(account, request, seen, part, output)
        else:
            for part, name in enumerate(stream.parts.names):
                made_of = {"charge": certificate.to_json(), **stream.made_of(part, seen[part])}
                draw = partial(stream.draw, account, request, seen, part)
                if not output.write(name, made_of, draw) and note:
                    note(f"{name} was finished by an earlier run")
        stream.require_same_files("released: nothing was published")
        output.certify(certificate.to_json())
    return certificate


def _output(stream: "Stream", target: Path) -> AbstractContextManager[ReleaseWriter | FolderWriter]:
    """Return the writer of a file, or of a folder for a folder."""
    if stream.parts.are_many and not has_suffix(target):
        return release_folder(target, stream.parts.names, stream.columns, released=stream.released)
    return release_writer(target, stream.columns, released=stream.released)


@dataclass(frozen=True)
class Stream:
    """One private column of a table on its way through a mechanism."""

    parts: Parts
    label: str
    id_column: str | None
    mechanism: FiniteMechanism
    in_place: bool
    block_rows: int
    progress: Progress | None

    @classmethod
    def of(cls, parts: Parts, label: str, id_column: str | None, *rest: Any) -> "Stream":
        """Checked against the table's columns."""
        stream = cls(parts, label, id_column, *rest)
        for table in parts.tables:
            table.require(label, "label")
            if id_column is not None:
                table.require(id_column, "id_column")
            if id_column == label:
                raise InputError("must be another column than label: ids are published", argument="id_column")
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
        return released_column(self.mechanism, self.label)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the output."""
        if self.in_place:
            return tuple(self.released if name == self.label else name for name in self.parts.columns)
        return (self.released,) if self.id_column is None else (self.id_column, self.released)

    def refuse_unwritable(self, target: Path) -> None:
        """Refuse, before anything is charged, a column that cannot be written as text where the output is CSV."""
        kinds = [table.schema() for table in self.parts.tables]
        if self.parts.are_many and has_suffix(target):
            kept = [name for name in self.columns if name != self.released]
            for table, schema in zip(self.parts.tables, kinds, strict=True):
                if any(schema.field(name).type != kinds[0].field(name).type for name in kept):
                    raise InputError(
                        f"{table.path} has other types of columns than {self.parts.tables[0].path}: one file cannot "
                        "hold both; name a folder as the output"
                    )
        for name, schema in zip(self.parts.names, kinds, strict=True):
            place = target if has_suffix(target) or not self.parts.are_many else Path(name)
            if is_parquet(place) or is_arrow(place):
                continue
            for column in schema:
                kept_too = column.name in self.columns and column.name != self.label
                if kept_too and not _has_text(column):
                    raise InputError(
                        f"a CSV file cannot hold the column {column.name!r} ({column.type}): write .parquet instead"
                    )

    def require_same_files(self, meanwhile: str) -> None:
        """Raise LabelDPError if the folder holds other files now."""
        if not self.parts.same_files():
            raise LabelDPError(f"{self.parts.place} changed while it was being {meanwhile}")

    def made_of(self, part: int, seen: "Seen") -> dict[str, Any]:
        """Return all that an output part depends on beside the charge, as JSON values."""
        path = self.parts.tables[part].path
        try:
            status = path.stat()
        except OSError:
            raise LabelDPError(f"{path} changed while it was being released: nothing was published") from None
        source = [status.st_size, status.st_mtime_ns, seen.start]
        return {"labels": seen.digests, "source": source, "columns": self.columns, "in_place": self.in_place}

    def check_ids(self, account: DatasetLedger) -> str:
        """Read every id once, before any label is compared with the domain; return a digest of them."""
        digest = IdDigest(account.digest_key)
        kinds = set()
        if self.id_column is not None:
            with DistinctIds() as seen:
                for table in self.parts.tables:
                    for batch in table.blocks([self.id_column], block_rows=self.block_rows):
                        ids = self._ids(account, batch)
                        seen.add(ids)
                        digest.update(RecordIds.of(ids, account.digest_key).blocks)
                        kinds.add(kind_of_ids(ids))
        if len(kinds) > 1:  # only in a dataset of an earlier version
            raise InputError("record ids must be all integers or all texts")
        return digest.hexdigest()

    def _ids(self, account: DatasetLedger, batch: pa.RecordBatch) -> Any:
        """Return the ids of a block as the dataset names records; those of earlier versions are taken as they are."""
        assert self.id_column is not None
        ids, key = record_ids(batch, self.id_column), account.ids_key
        return ids if key is None else RecordIds.of(ids, key)

    def check(self, account: DatasetLedger, ids: str) -> tuple[Request, list["Seen"]]:
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

    def _fingerprinted(self, account: DatasetLedger, expected: str) -> tuple[Fingerprint, str, list["Seen"]]:
        """A fingerprint of all labels, the kind of ids, and of each part what the second look is compared with.

        A label that does not fit is refused when everything was read: neither time nor progress tells where it stands.
        """
        found, scheme, start = self._fingerprint(account), "row numbers", 0
        names = IdDigest(account.digest_key)
        seen: list[Seen] = []
        refused: DomainError | None = None
        for part in range(len(self.parts.tables)):
            own, digests, rows = self._fingerprint(account), [], 0
            for batch, ids in self._raw(account, part, start, "checked", self.parts.rows):
                rows += batch.num_rows
                if self.id_column is not None:
                    scheme = kind_of_ids(ids)
                    names.update(RecordIds.of(ids, account.digest_key).blocks)
                try:
                    own.update(ids, codes_of(batch, self.label, self.in_file))
                except DomainError as error:
                    refused = error.with_traceback(None)
                digests.append(own.labels)
            found.merge(own)
            seen.append(Seen(start, rows, tuple(digests)))
            start += rows
        self.require_same_files("checked: nothing was charged")
        if names.hexdigest() != expected:
            raise LabelDPError(f"{self.parts.place} changed while it was being checked: nothing was charged")
        if refused is not None:
            raise refused
        return found, scheme, seen

    def draw(
        self, account: DatasetLedger, request: Request, seen: list["Seen"], part: int, writer: ReleaseWriter
    ) -> None:
        """Read every label of a part again and write what the mechanism answers; refused if the labels are others now.

        A block is compared with the first look before its noise is drawn: on other labels the same noise would show,
        beside the release that was asked for, what changed.
        """
        found, known = self._fingerprint(account), iter(seen[part].digests)
        noise = account.randomness.bind(request.context())
        path, rows = self.parts.tables[part].path, sum(each.rows for each in seen)
        changed = LabelDPError(f"{path} changed while it was being released: nothing was published")
        for batch, ids in _readable(self._raw(account, part, seen[part].start, "released", rows), changed):
            try:
                codes = codes_of(batch, self.label, self.in_file)
            except DomainError:
                raise changed from None  # what no ledger counted tells nothing more
            found.update(ids, codes)
            if next(known, None) != found.labels:
                raise changed
            noisy = self.mechanism.randomize(codes, rng=noise, ids=ids)
            writer.write(released_values(self.mechanism, noisy), batch)
        if next(known, None) is not None:
            raise changed

    def _fingerprint(self, account: DatasetLedger) -> Fingerprint:
        """Return the fingerprint of no labels yet."""
        return Fingerprint(account.digest_key, self.in_file)

    def _raw(
        self, account: DatasetLedger, part: int, start: int, done: str, rows: int | None
    ) -> Iterator[tuple[pa.RecordBatch, Any]]:
        """Yield blocks with record ids. Both passes read the same columns, so the first finds what is damaged."""
        needed, table = {self.label, self.id_column}, self.parts.tables[part]
        columns = [name for name in table.columns if self.in_place or name in needed]
        for batch in table.blocks(columns, block_rows=self.block_rows, encoded=self.label):
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
    """What the first look at a part found: rows before and in it, digests of its labels up to each block; secret."""

    start: int
    rows: int
    digests: tuple[str, ...] = field(repr=False)


def _readable(blocks: Iterator[Any], changed: LabelDPError) -> Iterator[Any]:
    """Yield blocks that were read before; what cannot be read any more has changed."""
    while True:
        try:
            block = next(blocks, None)
        except InputError:
            raise changed from None
        if block is None:
            return
        yield block


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
    many = target.is_dir()
    try:
        content = read_folder_certificate(target) if many else read_certificate(target)
        certificate = Certificate.from_json(content["certificate"])
        columns = tuple(content["columns"]) if many else open_table(target).columns
    except InputError:
        raise refusal from None
    charge: Charge | None = account.find_stream(stream.check(account, stream.check_ids(account))[0])
    same = charge is not None and certificate.entries == (charge,) and columns == stream.columns
    unchanged = is_folder_as_certified if many else is_as_certified
    if not (same and content["column"] == stream.released and unchanged(target)):
        raise refusal
    return certificate

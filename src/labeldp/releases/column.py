"""Release the label column of a file: read it once by blocks, charge it once, publish it whole or not at all."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa

from labeldp.curator import DatasetLedger, Fingerprint, counts_unreadable, kind_of_ids, open_account, refuse_private
from labeldp.mechanisms import COMMANDS, Domain, FiniteMechanism
from labeldp.privacy import (
    Budget,
    Certificate,
    Charge,
    DomainError,
    IdDigest,
    InputError,
    LabelDPError,
    PendingCharge,
    RecordIds,
    Release,
    Request,
    Source,
    Texts,
    check_choice,
    float_above,
    float_below,
    whole_cost,
)
from labeldp.releases.users import FileUsers, answer_epsilon
from labeldp.releases.verify import verify_file
from labeldp.tables import (
    DistinctIds,
    FolderTable,
    FolderWriter,
    ReleaseWriter,
    Spool,
    Table,
    answers_in,
    as_text,
    check_kind,
    codes_of,
    has_suffix,
    is_arrow,
    is_as_certified,
    is_folder_as_certified,
    is_number,
    is_parquet,
    is_text,
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
    cohort: str | None = None,
    revision: str | None = None,
    other_ids: bool = False,
    block_rows: int | None = None,
    progress: Progress | None = None,
    note: Callable[[str], None] | None = None,
    user_column: str | None = None,
    delta: Any = 0.0,
    new_budget: Budget | None = None,
) -> Certificate:
    """Release the label column of a CSV or Parquet file, or of a folder of them, with a certificate.

    Use it for data of any size: memory grows with a block, not with the file. A folder is one table and one release:
    each file in it and in its subfolders whose name does not begin with "_" or "." is a part. Labels are read once,
    with their ids, and set aside in the output's folder, encrypted under a key that is never written: the same labels
    are charged and randomized. Noise is a function of the ledger's key, of the whole request and of the record's id. So
    the same command again costs nothing and writes the same labels, and it finishes a run that died. If the output
    exists already and is the one asked for, it is left unchanged.

    Args:
        data: the path of a CSV, Parquet or Arrow file or of a folder of them; or a table in memory that gives an Arrow
            stream each time it is asked (pyarrow, polars, pandas, DuckDB), or a data set of pyarrow.
        label: its private column.
        domain: the declared domain of the labels.
        mechanism: its name for `labeldp release`, where it is not for bags. "unary-encoding" publishes the column
            LABEL_bits, one '0' or '1' per class; "local-hashing" the column LABEL_group, likewise, with '1' for the
            classes of the chosen group (the groups of a record follow from its id and a public seed).
        epsilon: privacy parameter, positive.
        ledger: the ledger file to charge. A new one is created when everything that needs no label was checked.
        dataset: the dataset's name in it.
        out: the output, which must not exist: .parquet, .arrow or .csv (.csv.gz …). For a folder it may have no such
            ending: then it is a folder with a part for each part, one `_certificate.json` and `_SUCCESS`; parts that a
            killed run finished are not drawn again.
        id_column: record ids, all different, in a folder across its parts; noise follows the id, and the ids are
            written beside the noisy labels. Row numbers by default.
        in_place: write the whole table with noisy labels in place of the private ones, not the noisy labels alone.
        cohort: names a cohort of the dataset, whose records these are; by default they are all of them, as it is now or
            was before a cohort was added.
        revision: names another state of the labels; see `LedgerFile.dataset`.
        other_ids: charges labels once more that were released under another kind of ids; see `LedgerFile.dataset`.
        block_rows: rows read at a time; by default a number that follows from the number of columns.
        progress: called after each block.
        note: called with a sentence that the user should read.
        user_column: the user of each record. Epsilon then protects all labels of a user; the most answers of one user
            share it. For one file; the column is held in memory.
        delta: what a user pays beside epsilon; each answer gets a larger epsilon for it.
        new_budget: of a ledger that does not exist yet; by default what this release costs.

    Guarantee (charged_first, refusal_free): nothing is published before its charge is on disk, and the output is whole
        or absent; what is refused charges nothing.

    Raises:
        InputError: an argument is wrong, a label is missing or outside of the domain, an id is repeated, or the
            output exists; nothing was charged.
        BudgetExceeded: nothing was charged and nothing published.
        LedgerError: the ledger cannot be used, or the labels changed; nothing was charged.
        LabelDPError: the disk is full or the file changed meanwhile. Nothing was published, and the release stays
            charged: run the same command again.
    """
    source = Source.of(data, label, id_column, user_column)
    options: dict[str, Any] = {"in_place": in_place, "other_ids": other_ids, "cohort": cohort, "revision": revision}
    request = Request.of("release", mechanism, dataset, source, epsilon, delta, domain=domain, **options)
    return ask_column(
        request,
        data,
        ledger=ledger,
        out=out,
        block_rows=block_rows,
        progress=progress,
        note=note,
        new_budget=new_budget,
    )


@counts_unreadable
def ask_column(
    request: Request,
    data: Any,
    *,
    ledger: str | os.PathLike[str],
    out: str | os.PathLike[str],
    block_rows: int | None = None,
    progress: Progress | None = None,
    note: Callable[[str], None] | None = None,
    new_budget: Budget | None = None,
) -> Certificate:
    """Release a label column as a request says; see `release_file`."""
    mechanism_at = column_mechanism(request)
    source, epsilon = request.source, request.budget.epsilon
    label, id_column, user_column = source.label, source.ids or None, source.users or None
    table = open_table(data)
    refuse_private(ledger, request.scope.name, (id_column, user_column))  # before a message tells of their values
    users = None if user_column is None else FileUsers.of(table, user_column, (label, id_column))
    delta = float_above(request.budget.delta)
    if delta and users is None:
        raise InputError("goes with --user: one answer needs none", argument="delta")

    answer_cost = epsilon
    if users is not None:
        answer_cost = answer_epsilon(epsilon, delta, users.cap, lambda tried: mechanism_at(tried).privacy_loss())
    chosen, target = mechanism_at(answer_cost), Path(out)
    in_place = bool(request.options.get("in_place"))
    stream = ColumnRelease.of(table, label, id_column, chosen, in_place, block_rows, progress, users)
    existing = _existing_result(stream, target, request) if os.path.lexists(target) else None
    if existing is None:
        if stream.is_folder and target.resolve().is_relative_to(stream.table.path.resolve()):
            raise InputError("must not lie in the folder that is released", argument="out")
        stream.refuse_unwritable(target)
    cost = Budget(epsilon, delta) if delta else whole_cost(chosen.privacy_loss() * stream.times)
    ids = FileIds(stream)
    opened = partial(
        open_account,
        request,
        ledger,
        public=[name for name in (*stream.columns, id_column, user_column) if name != stream.released],
        out=target,
        named=id_column is not None,
        users=None if users is None else users.digest,
        records=ids.of,
        count=ids.count,
        mechanism=lambda account: chosen,
        times=stream.times,
        budget=new_budget or cost,
        note=note,
    )
    if existing is not None:
        return _same_result(stream, opened(), ids, target, existing)
    with _output(stream, target) as output, Spool(target.parent) as spool:
        account = opened()
        seen = stream.look(account, spool, ids.digest)
        if users is not None and note:
            note(f"a user has {users.cap:,} records at most; each answer costs its user epsilon = {answer_cost:.6g}")
        pending, digests = stream.check(account, spool, seen)
        certificate = account.charge_stream(pending, chosen)
        if isinstance(output, ReleaseWriter):
            for part in range(len(seen)):
                stream.draw(account, pending, spool, seen, part, output)
        else:
            for part, name in enumerate(stream.table.names):
                made_of = {"charge": certificate.to_json(), **stream.made_of(part, seen[part], digests[part])}
                draw = partial(stream.draw, account, pending, spool, seen, part)
                if not output.write(name, made_of, draw) and note:
                    note(f"{name} was finished by an earlier run")
        stream.require_same_files("released: nothing was published")
        certificate = replace(certificate, request=request)
        output.certify(certificate.to_json())
    return certificate


def column_mechanism(request: Request) -> Callable[[Any], FiniteMechanism]:
    """Return a function that makes the mechanism which a request names, from the epsilon of one answer.

    Raises:
        InputError: the command line has no such mechanism.
    """
    if "described" in request.options:
        raise InputError("names a mechanism with settings that only Python has", argument="request")
    choices = tuple(name for name, entry in COMMANDS.items() if not entry.on_bags)
    row, domain = COMMANDS[check_choice(request.does, "mechanism", choices)], Domain.from_json(request.domain)
    return lambda epsilon: row.load()(domain=domain, epsilon=epsilon)


def _output(stream: "ColumnRelease", target: Path) -> AbstractContextManager[ReleaseWriter | FolderWriter]:
    if stream.is_folder and not has_suffix(target):
        return release_folder(
            target, stream.table.names, stream.columns, released=stream.released, ids=stream.id_column
        )
    return release_writer(target, stream.columns, released=stream.released, ids=stream.id_column)


@dataclass(frozen=True)
class ColumnRelease:
    """One private column of a table on its way through a mechanism."""

    table: Table
    label: str
    id_column: str | None
    mechanism: FiniteMechanism
    in_place: bool
    block_rows: int | None
    progress: Progress | None
    users: FileUsers | None = None

    @property
    def is_folder(self) -> bool:
        """Whether the table is a folder of files."""
        return isinstance(self.table, FolderTable)

    @property
    def times(self) -> int:
        """How many answers one record, or one user, pays for at most."""
        return 1 if self.users is None else self.users.cap

    @classmethod
    def of(cls, table: Table, label: str, id_column: str | None, *arguments: Any) -> "ColumnRelease":
        """Return the release after a check of the table's columns."""
        stream = cls(table, label, id_column, *arguments)
        table.require(label, "label")
        if id_column is not None:
            table.require(id_column, "id_column")
        if id_column == label:
            raise InputError("must be another column than label: ids are published", argument="id_column")
        for part in table.parts:
            check_kind(part.schema, label, stream.in_file)
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
            return tuple(self.released if name == self.label else name for name in self.table.columns)
        return (self.released,) if self.id_column is None else (self.id_column, self.released)

    def refuse_unwritable(self, target: Path) -> None:
        """Refuse, before anything is charged, a column that cannot be written as text where the output is CSV."""
        parts = self.table.parts
        if self.is_folder and has_suffix(target):
            names = [name for name in self.columns if name != self.released]
            for part in parts:
                if any(part.schema.field(name).type != parts[0].schema.field(name).type for name in names):
                    raise InputError(
                        f"{part.path} has other types of columns than {parts[0].path}: one file cannot hold both; "
                        "name a folder as the output"
                    )
        for name, part in zip(self.table.names, parts, strict=True):
            path = target if has_suffix(target) or not self.is_folder else Path(name)
            if is_parquet(path) or is_arrow(path):
                continue
            for column in part.schema:
                kept_too = column.name in self.columns and column.name != self.label
                if kept_too and not _has_text(column):
                    raise InputError(
                        f"a CSV file cannot hold the column {column.name!r} ({column.type}): write .parquet instead"
                    )

    def require_same_files(self, meanwhile: str) -> None:
        """Raise LabelDPError if a file changed, or the folder holds other files now."""
        if not self.table.is_unchanged():
            raise LabelDPError(f"{self.table.path} changed while it was being {meanwhile}")

    def made_of(self, part: int, seen: "Seen", labels: str) -> dict[str, Any]:
        """Return all that an output part depends on, apart from the charge, as JSON values; secret like the digest."""
        stamp = self.table.parts[part].stamp
        source = [None if stamp is None else stamp[:2], seen.start]
        return {"labels": labels, "source": source, "columns": self.columns, "in_place": self.in_place}

    def look(self, account: DatasetLedger, spool: Spool, ids_digest: str | None) -> list["Seen"]:
        """Read ids and labels, and set them aside; labels are compared with nothing. Return where each part stands.

        Raises:
            LabelDPError: the ids have another digest than before.
        """
        seen: list[Seen] = []
        start, records = 0, IdDigest(account.digest_key)
        for part in range(len(self.table.parts)):
            first, begin = len(spool), start
            for batch in self._read(part):
                block, ids = self._set_aside(account, batch)
                if ids is not None:
                    records.update(ids.blocks)
                spool.add(block)
                start += batch.num_rows
                self._tell("checked", start, self.table.rows)
            seen.append(Seen(begin, start - begin, first, len(spool)))
        if ids_digest is not None and ids_digest != records.hexdigest():
            raise LabelDPError(f"{self.table.path} changed while it was being checked: nothing was charged")
        return seen

    def check(self, account: DatasetLedger, spool: Spool, seen: list["Seen"]) -> tuple[PendingCharge, list[str]]:
        """Compare the labels that were set aside with the domain; refuse labels outside of it once all were read.

        Returns:
            The charge that the ledger is asked for, and a digest of each part's labels.
        """
        with account.comparing(self.mechanism.domain):
            fingerprint, digests = self._fingerprinted(account, spool, seen)
        pending = fingerprint.request(account, self.mechanism, kind_of_ids(self.id_column))
        return (pending if self.users is None else self.users.charged(pending, account)), digests

    def _fingerprinted(self, account: DatasetLedger, spool: Spool, seen: list["Seen"]) -> tuple[Fingerprint, list[str]]:
        """Return a fingerprint of all labels, and a digest of the labels of each part.

        A label that does not fit is refused when everything was read: neither time nor progress tells where it is.
        """
        result = Fingerprint(account.digest_key, self.in_file)
        digests: list[str] = []
        refused: DomainError | None = None
        for part in seen:
            fingerprint = Fingerprint(account.digest_key, self.in_file)
            for block, ids in self._kept(account, spool, part):
                try:
                    fingerprint.update(ids, codes_of(block, self.label, self.in_file))
                except DomainError as error:
                    refused = error.with_traceback(None)
            result.merge(fingerprint)
            digests.append(fingerprint.labels)
        self.require_same_files("checked: nothing was charged")
        if refused is not None:
            raise refused
        return result, digests

    def draw(
        self,
        account: DatasetLedger,
        pending: PendingCharge,
        spool: Spool,
        seen: list["Seen"],
        part: int,
        writer: ReleaseWriter,
    ) -> None:
        """Write noisy labels of one part, of the labels that were set aside: these were charged.

        In place, the part is read again for its other columns, and refused if its ids or labels have changed.
        """
        noise = account.randomness.bind(pending.context())
        changed = LabelDPError(
            f"{self.table.parts[part].path} changed while it was being released: nothing was published"
        )
        again = _readable(self._read(part), changed) if self.in_place else None
        start, rows = seen[part].start, sum(piece.rows for piece in seen)
        for block, ids in self._kept(account, spool, seen[part]):
            rows_of_file = block if again is None else next(again, None)
            if again is not None and (
                rows_of_file is None or not self._set_aside(account, rows_of_file)[0].equals(block)
            ):
                raise changed
            noisy = self.mechanism.randomize(codes_of(block, self.label, self.in_file), rng=noise, ids=ids)
            writer.write(released_values(self.mechanism, noisy), rows_of_file)
            start += block.num_rows
            self._tell("released", start, rows)
        if again is not None and next(again, None) is not None:
            raise changed

    def _read(self, part: int) -> Iterator[pa.RecordBatch]:
        """Yield blocks of a part, with all columns that will be written: the first look finds what is damaged."""
        needed, table = {self.label, self.id_column}, self.table.parts[part]
        columns = [name for name in table.columns if self.in_place or name in needed]
        return table.blocks(columns, block_rows=self.block_rows, encoded=self.label)

    def _set_aside(self, account: DatasetLedger, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Any]:
        """Return the block to set aside, and the ids under the dataset's key, None for row numbers.

        The block holds the labels, the ids and, where ids are texts, their hashes.
        """
        labels = batch.column(self.label)
        if self.in_file.target != "numbers" and (is_text(labels.type) or is_number(labels.type)):
            labels = labels.dictionary_encode()
            if len(labels.dictionary) <= 128:  # indices of one byte
                labels = pa.DictionaryArray.from_arrays(labels.indices.cast(pa.int8()), labels.dictionary)
        if self.id_column is None:
            return pa.RecordBatch.from_arrays([labels], names=[self.label]), None
        names, arrays = [self.label, self.id_column], [labels, batch.column(self.id_column)]
        raw = record_ids(batch, self.id_column)
        ids = RecordIds.of(raw, account.ids_key)
        if isinstance(raw, Texts):
            names.append(f"{self.label} {self.id_column}")  # another name than both
            words = pa.py_buffer(np.ascontiguousarray(ids.blocks))
            arrays.append(pa.Array.from_buffers(pa.binary(16), len(ids), [None, words]))
        return pa.RecordBatch.from_arrays(arrays, names=names), ids

    def _kept(self, account: DatasetLedger, spool: Spool, part: "Seen") -> Iterator[tuple[pa.RecordBatch, Any]]:
        """Yield the blocks of a part that were set aside, with the ids of the records as the dataset names them."""
        start = part.start
        for block in spool.blocks(part.first, part.last):
            if self.id_column is None:
                yield block, np.arange(start, start + block.num_rows, dtype=np.uint64)
            else:
                ids = record_ids(block, self.id_column)
                if isinstance(ids, Texts):
                    words = np.frombuffer(block.column(2).buffers()[1], dtype="<u8").reshape(-1, 2)
                    yield block, RecordIds(words, ids)
                else:
                    yield block, RecordIds.of(ids, account.ids_key)
            start += block.num_rows

    def _tell(self, done: str, start: int, rows: int | None) -> None:
        if self.progress:
            half = start / rows / 2 if rows else 0.0
            self.progress(f"{done} {start:,} rows", half + (0.5 if done == "released" else 0.0))

    @cached_property
    def in_file(self) -> Domain:
        """The domain under the names that its labels have in a file."""
        return self.mechanism.domain.in_file()


@dataclass(frozen=True)
class Seen:
    """Where a part is: the number of rows before it and in it, and its blocks in the spool, `last` not included."""

    start: int
    rows: int
    first: int
    last: int


@final
class FileIds:
    """Digest and number of the record ids of a file or a folder, read once an account is open.

    Args:
        stream: the release that they are for.
    """

    def __init__(self, stream: ColumnRelease) -> None:
        self._stream = stream
        self._count: int | None = None
        self.digest: str | None = None

    def of(self, account: DatasetLedger) -> str | None:
        """Return a digest of the ids, None for row numbers; refuse ids that are not distinct.

        Raises:
            InputError: an id is missing, or repeated.
        """
        column, table = self._stream.id_column, self._stream.table
        if column is None:
            return None
        digest = IdDigest(account.digest_key)
        with DistinctIds() as distinct:
            for part in table.parts:
                for batch in part.blocks([column], block_rows=self._stream.block_rows):
                    ids = RecordIds.of(record_ids(batch, column), account.ids_key)
                    distinct.add(ids)
                    digest.update(ids.blocks)
        self._count, self.digest = digest.records, digest.hexdigest()
        return self.digest

    def count(self) -> int:
        """Return the number of ids, or else of rows, counted in a public column if there is one."""
        if self._count is None:
            table, label = self._stream.table, self._stream.label
            column = next((name for name in table.columns if name != label), label)
            self._count = sum(part.rows or sum(map(len, part.blocks([column]))) for part in table.parts)
        return self._count


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


def _has_text(column: pa.Field) -> bool:
    try:
        as_text(plain(pa.nulls(1, column.type)), column.name)
    except InputError:
        return False
    return True


_OTHER_OUTPUT = "{} exists already and is not this release; choose another name or remove it first"


def _existing_result(stream: ColumnRelease, target: Path, request: Request) -> Certificate:
    """Return the certificate of an output that exists already, of the same request; read no label.

    Raises:
        InputError: it is of another request, or was changed.
    """
    refusal, is_folder = InputError(_OTHER_OUTPUT.format(target)), target.is_dir()
    try:
        content = read_folder_certificate(target) if is_folder else read_certificate(target)
        certificate = Certificate.from_json(content["certificate"])
        columns = tuple(content["columns"]) if is_folder else open_table(target).columns
    except InputError:
        raise refusal from None
    same = certificate.request is not None and certificate.request.digest == request.digest
    unchanged = is_folder_as_certified if is_folder else is_as_certified
    if not (same and columns == stream.columns and content["column"] == stream.released and unchanged(target)):
        raise refusal
    return certificate


def _same_result(
    stream: ColumnRelease, account: DatasetLedger, ids: FileIds, target: Path, existing: Certificate
) -> Certificate:
    """Return the certificate of an output that exists already, if these labels were charged for it; else refuse."""
    if not any(account.commits_to(charge) for charge in existing.entries):
        raise InputError(_OTHER_OUTPUT.format(target))
    with Spool(target.parent) as spool:
        seen = stream.look(account, spool, ids.digest)
        charge: Charge | None = account.find_stream(stream.check(account, spool, seen)[0])
    if charge is None or existing.entries != (charge,):
        raise InputError(_OTHER_OUTPUT.format(target))
    return existing


def read_release(path: str | os.PathLike[str]) -> tuple[Release[Any], pa.Table]:
    """Read a file of single answers as the release that it was, for `labeldp.inference`.

    Args:
        path: a CSV, Parquet or Arrow file that `release_file` or `labeldp release` wrote, of a mechanism that is made
            of a domain and an epsilon alone.

    Returns:
        The release, and the table: after a release in place the public columns stand beside the answers.

    Raises:
        InputError: no such file, no certificate of single answers, or a file that is not what was certified.
    """
    verdict = verify_file(path)
    if not verdict.holds:
        raise InputError(verdict.sentence)
    described = next((charge.mechanism for charge in verdict.certificate.entries), {})
    name = str(described.get("mechanism"))
    row = next((entry for entry in COMMANDS.values() if entry.name == name and not entry.on_bags), None)
    if row is None:
        raise InputError(f"{path} holds no single answers: labeldp release writes them")
    try:
        domain, epsilon = Domain.from_json(described["domain"]), Fraction(str(described["epsilon"]))
        mechanism: FiniteMechanism = row.load()(domain=domain, epsilon=float_below(epsilon))
        column = str(read_certificate(path)["column"])
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise InputError(f"the certificate of {path} is damaged or not of labeldp") from error
    if mechanism.specification() != dict(described):
        raise InputError(f"{path} was released by {name} with settings that only Python has: read it in Python")
    table: pa.Table = open_table(path).read()
    try:
        answers = answers_in(mechanism, table.column(column).combine_chunks())
    except (KeyError, ValueError, pa.ArrowException):
        raise InputError(f"{path} must have the released column {column!r}") from None
    return Release(answers, verdict.certificate, mechanism), table

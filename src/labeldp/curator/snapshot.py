"""What a ledger file holds of one dataset at one moment, read in one connection."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from sqlite3 import Connection
from typing import Any, NamedTuple, final

from labeldp.accounting import Account, Books, Cost, Declarations, Entry, Spent, totals_within
from labeldp.curator.cohorts import Cohort, CohortSpan, cohorts_of, span_of, without_cohort
from labeldp.curator.datasets import (
    ANY_KIND,
    IDS_KIND,
    STATE,
    Dataset,
    Declared,
    add_command,
    as_declared,
    charge_from,
    closed_by,
    cost_digest,
    find_dataset,
    made_digest,
    refuse_closed,
    refuse_undeclared,
)
from labeldp.curator.ledger_transaction import Change, Comparisons, LedgerEntry, paid_from
from labeldp.curator.paid import (
    StoredAccount,
    account_in,
    accounts_of,
    books_from,
    entry_from,
    promised_of,
    whole_span,
)
from labeldp.mechanisms import Domain
from labeldp.privacy import (
    Budget,
    Certificate,
    Charge,
    InputError,
    LedgerError,
    PendingCharge,
    Plan,
    PrivacyLoss,
    Protection,
    Release,
    Scope,
    Span,
    Step,
    Unit,
    even_if_refused,
    gather,
    largest_of,
    read_stored,
)
from labeldp.privacy import Path as ChargePath

_OTHER_IDS = (
    "{} was released {}, and this would release it {}: the same labels would be charged once more. Nothing was "
    "charged, and no label was looked at. Name the ids as before (ids, --id COLUMN), or charge it in "
    "addition (other_ids=True of LedgerFile.dataset, --other-ids)"
)

_OTHER_RECORDS = (
    "these are not the records that were released before as {}; nothing was charged, and no label was looked at. "
    "Records that came later, none of them released before, are a cohort, which costs the others nothing: {} "
    "--cohort NAME --ids FILE --id COLUMN (the records so far first). Where records that were released are among them, "
    "name the new state (revision, --revision NAME): it is charged in addition"
)

_OTHER_COUNT = (
    "{} has {:,} records, and these are {:,}; nothing was charged. A part of the records is no dataset of its own. "
    "Where records were added or removed, name the new state (revision, --revision NAME), and if their number was "
    "declared, change it: {} --change --records {}"
)

_ROWS = {
    "domain": "SELECT form, words, passed, refused, created, label_column FROM domain WHERE dataset = ? ORDER BY id",
    "change": "SELECT what, before, after, why, created FROM change WHERE dataset = ? ORDER BY id",
    "difference": "SELECT times FROM difference WHERE dataset = ?",
    "labels": f"SELECT scheme, domain, digest FROM labels WHERE {STATE} ORDER BY rowid",
    "paid": "SELECT analyst, low, high, path, loss, tail, rate, failure FROM paid WHERE dataset = ? ORDER BY rowid",
    "plan": "SELECT analyst, low, high, steps, taken FROM plan WHERE dataset = ? AND done = 0 ORDER BY rowid",
    "release": "SELECT revision, label_column, generation, analyst, low, high, step, cost, made, form, created, "
    "certificate, charge, paid FROM release WHERE dataset = ? ORDER BY id",
    "request": "SELECT DISTINCT json_extract(content, '$.source.label') FROM request "
    "WHERE digest IN (SELECT request FROM release WHERE dataset = ?)",
}


class StoredRelease(NamedTuple):
    """The row of a release, without its value."""

    revision: str
    column: str
    generation: int
    analyst: str
    low: int
    high: int
    step: str | None
    cost: str
    made: str | None
    form: str
    created: str
    certificate: str
    charge: str
    paid: str | None

    @property
    def id(self) -> str:
        """The id of the charge."""
        return read_stored(self.charge, lambda charge: str(charge["id"]))


@final
@dataclass(frozen=True)
class DatasetSnapshot:
    """What a ledger file holds of one dataset, as it was read at one moment.

    It refuses what no label decides. Whether something is charged is decided again in a transaction, by what the file
    holds by then.

    Args:
        path: of the file.
        scope: whose labels are asked for, in which state, for which analyst.
        dataset: the row of the dataset; None if the file does not have it yet.
        proposed: the budget with which it will be added.
        other_ids: whether other kinds of ids than before are admitted.
        records: the digest of the ids of the records that are asked for; None if they have none, or are not known yet.
        accounts: those that were opened, by analyst.
        cohorts: in the order in which they were added; none for a dataset whose records never became more.
        declared: the form of each declared domain of all columns, and how often labels were compared with it.
        changes: of the budget, the declared domain, the keys or the file, oldest first.
        closed: what the dataset was restored from, if its budget was not set since.
        differences: how often labels of all revisions were refused because they had changed; public.
        traces: (kind of ids, kind of labels, digest) of the labels in this state, oldest first.
        label_columns: names of private columns.
    """

    path: Path
    scope: Scope
    dataset: Dataset | None = None
    proposed: Budget | None = None
    other_ids: bool = False
    records: str | None = field(default=None, repr=False)
    accounts: tuple[StoredAccount, ...] = ()
    cohorts: tuple[Cohort, ...] = ()
    declared: tuple[tuple[str, Comparisons], ...] = ()
    changes: tuple[Change, ...] = ()
    closed: str = ""
    differences: int = 0
    traces: tuple[tuple[str, str, str], ...] = field(default=(), repr=False)
    label_columns: frozenset[str] = frozenset()
    _paid: tuple[tuple[Any, ...], ...] = field(default=(), repr=False)
    _plans: tuple[tuple[Any, ...], ...] = field(default=(), repr=False)
    _releases: tuple[StoredRelease, ...] | None = field(default=(), repr=False)

    @classmethod
    def read(
        cls, connection: Connection, path: Path, scope: Scope, *, history: bool = True, **fields: Any
    ) -> "DatasetSnapshot":
        """Read a dataset in an open connection.

        Args:
            connection: to the file; what it sees meanwhile must not change, as in a transaction.
            path: of the file.
            scope: whose labels are asked for.
            history: whether to read the releases; without them nothing that depends on them can be asked for.
            fields: of the snapshot that no file holds.
        """
        dataset = find_dataset(connection, scope.dataset)
        if dataset is None:
            return cls(path, scope, **fields)

        def rows(table: str, *more: Any) -> tuple[Any, ...]:
            return tuple(connection.execute(_ROWS[table], (dataset.id, *more)))

        state, named = (scope.column, dataset.generation, scope.revision), replace(dataset, name=scope.name)
        columns = rows("request") if history else ()
        return cls(
            path,
            scope,
            named,
            accounts=tuple(accounts_of(connection, named).values()),
            cohorts=cohorts_of(connection, dataset.id),
            declared=tuple((form, Comparisons(*row)) for form, *row in rows("domain")),
            changes=tuple(Change(*row) for row in rows("change")),
            closed=closed_by(connection, dataset.id),
            differences=sum(times for (times,) in rows("difference")),
            traces=rows("labels", *state),
            label_columns=frozenset(name for (name,) in columns if name),
            _paid=rows("paid"),
            _plans=rows("plan"),
            _releases=tuple(map(StoredRelease._make, rows("release"))) if history else None,
            **fields,
        )

    @property
    def is_new(self) -> bool:
        """Whether the dataset is not in the file yet; it is added before its labels are compared."""
        return self.dataset is None

    @property
    def budget(self) -> Budget:
        """Budget of the dataset; for a new one, the budget with which it will be added."""
        if self.dataset is not None:
            return self.dataset.budget
        if self.proposed is None:
            raise LedgerError(f"the ledger {self.path} has no dataset {self.scope.dataset!r} any more")
        return self.proposed

    @property
    def protection(self) -> Protection:
        """What the account protects; its unit is None before it is declared and before a charge."""
        return Protection() if self.dataset is None else self.dataset.protection

    @property
    def promised(self) -> Budget:
        """What everything that is released of the dataset keeps: the largest epsilon and the largest delta it had."""
        return self.budget if self.is_new else promised_of(self.budget, self.accounts)

    @property
    def account(self) -> Account:
        """What keeps the budget that this analyst is charged to.

        Raises:
            LedgerError: nothing is reserved for the analyst.
            BudgetExceeded: nobody is named, and all of the budget is reserved to analysts.
        """
        return self.books().account

    def books(self, without: Iterable[Charge] = ()) -> Books:
        """Return the account of this analyst with its charges, except some; open no account."""
        if self.dataset is None:
            return Books(Account(repr(self.scope.name), self.budget))
        analyst, left_out = self.scope.analyst, {charge.id for charge in without}
        books = self._books_of(account_in(self.accounts, self.dataset, analyst))
        if not left_out:
            return books
        rows = [row for row in self.releases if row.analyst == analyst and row.paid is not None]
        kept = [str(row.paid) for row in rows if row.id not in left_out]
        return replace(books, entries=tuple([read_stored(text, paid_from) for text in kept]))

    def _books_of(self, account: StoredAccount) -> Books:
        assert self.dataset is not None
        paid, plans = ([row[1:] for row in table if row[0] == account.analyst] for table in (self._paid, self._plans))
        return books_from(self.dataset, account, paid, plans)

    def used(self, cohort: int | None = None, *, without: Iterable[Charge] = ()) -> Fraction:
        """Return the share that is used up of the budget that this analyst is charged to; it is no epsilon.

        It depends on the analyst's own charges alone.

        Args:
            cohort: the number of a cohort; by default the cohorts of these records, or all.
            without: charges that do not count.
        """
        books = self.books(without)
        default = whole_span(len(self.cohorts)) if self.records is None else self.span.span
        return books.account.used(totals_within(books.entries, default if cohort is None else (cohort, cohort)))

    @property
    def used_by(self) -> dict[str, Fraction]:
        """The share that each analyst has used up of their budget, by name; "" stands for anyone who names none."""
        return {stored.analyst: stored.account.used(self._totals(stored)) for stored in self.accounts}

    @property
    def keeps_promise(self) -> bool:
        """Whether all accounts are within the largest budgets that they had."""
        return all(
            stored.account.under(Budget(*largest_of(stored.counted))).used(self._totals(stored)) <= 1
            for stored in self.accounts
        )

    def _totals(self, account: StoredAccount) -> tuple[Cost, ...]:
        return totals_within(self._books_of(account).entries, whole_span(len(self.cohorts)))

    @property
    def spent(self) -> Spent:
        """What the record that paid most was charged by all analysts, by sums; with delta > 0 the budget is guaranteed.

        A declared plan was charged as a whole.
        """
        return self._spent(whole_span(len(self.cohorts)))

    def spent_of(self, cohort: str) -> Spent:
        """Return what a record of one cohort was charged, by sums."""
        [number] = [member.number for member in self.cohorts if member.name == cohort]
        return self._spent((number, number))

    def _spent(self, span: Span) -> Spent:
        entries: list[Entry] = [entry_from(row) for _, *row in self._paid]
        return Spent(totals_within(entries, span), self.promised)

    @property
    def releases(self) -> tuple[StoredRelease, ...]:
        """The rows of all releases, oldest first."""
        assert self._releases is not None, "read without the releases"
        return self._releases

    @cached_property
    def charges(self) -> tuple[Charge, ...]:
        """Every charge of all revisions, oldest first."""
        return tuple(charge_from(row.charge) for row in self.releases)

    @property
    def charged_to(self) -> dict[str, str]:
        """The id of every charge of all revisions, and the analyst whose share it was charged to."""
        return {row.id: row.analyst for row in self.releases}

    def holds(self, charges: Iterable[Charge]) -> bool:
        """Return whether all these were charged to the dataset."""
        return all(charge in self.charges for charge in charges)

    @cached_property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """Every release of all revisions, oldest first."""
        return tuple(map(self._entry, self.releases))

    @cached_property
    def own_entries(self) -> tuple[LedgerEntry, ...]:
        """Every release to this analyst of these records, this column and this revision, oldest first."""
        span = self.span.span
        return tuple(self._entry(row) for row in self._state_releases() if (row.low, row.high) == span)

    def _state_releases(self) -> list[StoredRelease]:
        """Return the releases to this analyst of this column and revision, under the present keys."""
        generation = None if self.dataset is None else self.dataset.generation
        state = generation, self.scope.column, self.scope.revision, self.scope.analyst
        return [row for row in self.releases if (row.generation, row.column, row.revision, row.analyst) == state]

    def _entry(self, row: StoredRelease) -> LedgerEntry:
        assert self.dataset is not None
        certificate, span = read_stored(row.certificate, Certificate.from_json), (row.low, row.high)
        names = tuple(member.name for member in self.cohorts[row.low : row.high + 1])
        part = without_cohort(certificate.entries[0].path, self.dataset.secret)
        about = row.column, row.analyst, row.generation
        return LedgerEntry(row.revision, row.form, row.step, certificate, row.created, span, names, part, *about)

    def certificate_of(self, charges: Sequence[str]) -> Certificate:
        """Return the certificate of the releases with these charges, at least one, joined as `gather` joins them."""
        certificates = {entry.certificate.entries[0].id: entry.certificate for entry in self.entries}
        return gather([Release(None, certificates[charge]) for charge in charges], lambda *_: None).certificate

    @property
    def domains(self) -> tuple[Comparisons, ...]:
        """Every declared domain of all columns, oldest first."""
        return tuple(comparisons for _, comparisons in self.declared)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that labels were declared for, in that order; none for a dataset of one column without a name."""
        return tuple(dict.fromkeys(domain.column for domain in self.domains if domain.column))

    @property
    def declared_records(self) -> int | None:
        """How many records the dataset was declared to have, None if no one said it."""
        return None if self.dataset is None else self.dataset.records

    @property
    def count(self) -> int | None:
        """How many records a release must be of; None as long as nothing says so.

        It is the number that this state of the labels was released of, or that of the cohorts; else the number that
        was declared.

        Raises:
            LedgerError: these records are not those of the cohorts.
        """
        if (span := self.span).names:
            return sum(member.records for member in self.cohorts[span.span[0] : span.span[1] + 1])
        released = [int(digest) for scheme, kind, digest in self.traces if (scheme, kind) == (ANY_KIND, ANY_KIND)]
        return released[0] if released else self.declared_records

    @property
    def called(self) -> str:
        """The labels in words."""
        name = repr(self.scope.name)
        return f"revision {self.scope.revision!r} of {name}" if self.scope.revision else name

    @property
    def span(self) -> CohortSpan:
        """Whose labels these are; LedgerError if they are neither of the cohort nor of the dataset."""
        return span_of(self.cohorts, self.scope.cohort or None, self.records, (self.path, self.scope.dataset))

    @property
    def known_span(self) -> Span:
        """The cohorts of these records; as long as the records are not known, the cohort that is in all of them."""
        if self.records is not None:
            return self.span.span
        first = next((member.number for member in self.cohorts if member.name == self.scope.cohort), 0)
        return first, first

    def refuse_private(self, columns: Iterable[str | None]) -> None:
        """Raise InputError if a column that is read as public has private labels of the dataset.

        Stored requests have the label columns of a dataset of one column without a name.
        """
        labels = {*self.columns, *self.label_columns}
        if private := [name for name in columns if name and name in labels]:
            raise InputError(
                f"the column {private[0]!r} holds private labels of {self.scope.dataset!r}: it must not be used as a "
                "public column. Check --label, name the public columns (--features), or leave it out of the table"
            )

    def check_unit(self, unit: Unit, users: str | None = None) -> None:
        """Raise LedgerError if the account keeps another unit of protection, or other users.

        Args:
            unit: what a release would protect.
            users: the digest of its users (`users_digest`), if these are protected.
        """
        if users is not None and self.cohorts:
            raise LedgerError(
                f"users do not go with cohorts, and {self.scope.name!r} has some: a user may have records in several, "
                "which the ledger does not count; nothing was charged. It protects single records"
            )
        self.protection.admit(unit, users, self.scope.dataset)

    def check_ids(self, named: bool) -> None:
        """Raise LedgerError if this state of the labels was only released under the other kind of ids.

        Args:
            named: whether the records have ids; otherwise they are known by their row numbers.
        """
        if self.other_ids or self.cohorts:  # cohorts are told apart by ids, and refuse records without
            return
        kinds = {scheme == IDS_KIND for scheme, _, _ in self.traces if scheme != ANY_KIND}
        if kinds == {not named}:
            words = ("by row numbers", "with ids")
            raise LedgerError(_OTHER_IDS.format(self.called, words[not named], words[named]))

    def of_records(self, records: str | None) -> "DatasetSnapshot":
        """Return the snapshot for these records; raise LedgerError if they are not those of the dataset or cohort."""
        snapshot = replace(self, records=records)
        snapshot.check_records()
        return snapshot

    def check_records(self) -> None:
        """Raise LedgerError if these are not the records of the dataset or the cohort; no label is read."""
        if self.span.names or self.records is None:
            return
        released = {digest for _, kind, digest in self.traces if kind == IDS_KIND}
        if not released <= {self.records, ""}:  # an empty digest stands for unknown ones
            raise LedgerError(_OTHER_RECORDS.format(self.called, add_command(self.path, self.scope.dataset)))

    def check_count(self, records: int) -> None:
        """Raise LedgerError if the dataset has another number of records; see `count`."""
        if (count := self.count) not in (None, records):
            command = add_command(self.path, self.scope.dataset)
            raise LedgerError(_OTHER_COUNT.format(self.called, count, records, command, records))

    def check_domain(self, domain: Domain | Declared) -> None:
        """Raise LedgerError if another domain was declared; no label is read, and nothing is declared."""
        domains = {form: row.words for form, row in self.declared if row.column == self.scope.column}
        refuse_undeclared(as_declared(domain), domains, self.path, self.scope.name)

    def refuse_closed(self, steps: Sequence[Step]) -> None:
        """Raise LedgerError if something is asked for and the dataset is closed."""
        if steps:
            refuse_closed(self.closed, self.path, self.scope.dataset)

    def foresee(self, more: Iterable[tuple[ChargePath, PrivacyLoss]], unit: Unit) -> None:
        """Raise BudgetExceeded if the budget cannot admit further charges of parts of these records, at these costs.

        Args:
            more: for each charge the part, and the most that it costs.
            unit: the unit of protection that the costs are for.
        """
        span = self.span.span
        steps = [Step("", loss, path, 1, span, unit) for path, loss in more]
        self.refuse_closed(steps)
        if steps:
            Declarations().add(self.books(), steps)

    def afford(self, request: PendingCharge, declared: Sequence[Plan] = ()) -> None:
        """Raise BudgetExceeded if the budget does not admit a release of all records, before any label is read.

        What was charged before is admitted, since its release may be found again. As long as it is not known which
        records they are, the cohort that is in all of them counts.

        Args:
            request: what would be released, without labels.
            declared: plans that it may be a step of.
        """
        if not self.has_made(request):
            step = Step("", request.loss, span=self.known_span, unit=request.unit)
            self.refuse_closed([step])
            self.books().charge(step, declared)

    def has_made(self, request: PendingCharge) -> bool:
        """Return whether this revision has a release of all records that may answer a request, whatever its labels.

        As long as it is not known which records they are, a release counts whose first cohort is theirs.
        """
        span = self.known_span
        made = made_digest(request), cost_digest((), request.loss, request.unit), span[0]
        same = [row for row in self._state_releases() if (row.made, row.cost, row.low) == made]
        return any(self.records is None or row.high == span[1] for row in same)

    def times_charged(self, step: str | None, path: ChargePath, loss: PrivacyLoss, unit: Unit) -> int:
        """Return how many releases of these records and this revision have the same step and cost."""
        same = cost_digest(path, loss, unit), step, *self.span.span
        return sum((row.cost, row.step, row.low, row.high) == same for row in self._state_releases())

    @even_if_refused
    def __repr__(self) -> str:
        return f"DatasetSnapshot(name={self.scope.name!r}, file={str(self.path)!r})"

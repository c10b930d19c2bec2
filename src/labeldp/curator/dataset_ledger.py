"""The ledger of one dataset in a ledger file."""

import json
import secrets
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from fractions import Fraction
from sqlite3 import Connection
from types import TracebackType
from typing import Any, Literal, NoReturn, final

from labeldp._version import __version__
from labeldp.accounting import Account, Books, Cost, Declarations, Spent, totals_within
from labeldp.curator.cohorts import (
    COHORTS,
    Cohort,
    CohortSpan,
    cohorts_from,
    cohorts_of,
    scope_of,
    unknown_cohort,
    without_cohort,
)
from labeldp.curator.datasets import (
    ANY_KIND,
    IDS_KIND,
    OPENS,
    Dataset,
    Declared,
    add_command,
    as_declared,
    budget_from,
    charge_from,
    closed_by,
    cost_digest,
    dataset_names,
    declare_first,
    find_dataset,
    insert_dataset,
    is_closed,
    known_dataset,
    made_digest,
    now,
    protection_from,
    refuse_closed,
    refuse_undeclared,
    text_of,
    traces_of,
    unknown_dataset,
    write_protection,
)
from labeldp.curator.ledger_store import Store
from labeldp.curator.ledger_transaction import (
    Change,
    Comparisons,
    LedgerEntry,
    LedgerTransaction,
    Paid,
    commitment,
    paid_from,
)
from labeldp.curator.paid import (
    StoredAccount,
    account_of,
    accounts_of,
    entry_from,
    promised_of,
    read_books,
    whole_span,
    write_payment,
)
from labeldp.mechanisms import GAPS, Domain
from labeldp.privacy import (
    Budget,
    Certificate,
    Charge,
    DomainError,
    Draw,
    InputError,
    KeyedRandomness,
    LabelDPError,
    LedgerError,
    NewLedgerWarning,
    NotCopyable,
    Path,
    PendingCharge,
    PrivacyLoss,
    Protection,
    Release,
    Request,
    Scope,
    Span,
    Step,
    Unit,
    UnreadableRows,
    derive_key,
    even_if_refused,
    gather,
    largest_of,
    read_stored,
    warn_of_weak_budget,
)

_OTHER_LABELS = (
    "these are not the labels or losses that were released before as {}; nothing was charged. Where some were "
    "corrected or rows were added, name the new state (revision, --revision NAME): it is charged in addition. "
    "Those of other people are a dataset of their own"
)

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


@final
class DatasetLedger(NotCopyable):
    """The ledger of one dataset in a `LedgerFile`, for a curator; get one from `LedgerFile.dataset`.

    Guarantee (same_bits, charged, labels_compared, domain_first, refusal_recorded): the same request is answered by the
        same bits and charged once; another request is charged or refused; labels that changed are refused unless a new
        revision says so; labels are compared with no domain that is not on disk before; whether they were refused is on
        disk before it is told.
    """

    _why_no_copy = (
        "the ledger of a dataset cannot be copied or pickled: it holds the key to the noise. Open the file where it is "
        "needed, LedgerFile(path).dataset(name)"
    )

    def __init__(
        self, store: Store, scope: Scope, secret: bytes, budget: Budget | None = None, *, other_ids: bool = False
    ) -> None:
        self.scope, self._store = scope, store
        self.request: Request | None = None
        self._secret, self._proposed, self._other_ids = secret, budget, other_ids
        self._cohort: Cohort | None = None
        self._records: str | None = None
        self._declared = Declarations()

    @property
    def is_new(self) -> bool:
        """Whether the dataset is not in the file yet; it is added before its labels are read."""
        return not self._store.rows("SELECT 1 FROM dataset WHERE name = ?", (self.scope.dataset,))

    def creation(self, ledger: object) -> str:
        """Return what is said when the first charge creates the file `ledger`."""
        return (
            f"Created {ledger} (only you can read it): the budget of {self.scope.dataset!r} is {self.budget}. "
            "The file contains the noise keys: protect it like the labels"
        )

    @property
    def budget(self) -> Budget:
        """Budget of the dataset; for a new one, the budget with which it will be added."""
        rows = self._store.rows("SELECT epsilon, delta FROM dataset WHERE name = ?", (self.scope.dataset,))
        if rows:
            return budget_from(*rows[0])
        if self._proposed is None:
            raise LedgerError(f"the ledger {self._store.path} has no dataset {self.scope.dataset!r} any more")
        return self._proposed

    @property
    def account(self) -> Account:
        """What keeps the budget that this analyst is charged to.

        Raises:
            LedgerError: nothing is reserved for the analyst.
            BudgetExceeded: nobody is named, and all of the budget is reserved to analysts.
        """
        return self._books().account

    def used(self, cohort: int | None = None, *, without: Collection[str] = ()) -> Fraction:
        """Return the share that is used up of the budget that this analyst is charged to; it is no epsilon.

        It depends on the analyst's own charges alone.

        Args:
            cohort: the number of a cohort; by default the cohorts of these records, or all.
            without: ids of charges that do not count.
        """
        books = self._books(without)
        default = whole_span(len(self.cohorts)) if self._records is None else self._cohort_span().span
        span = default if cohort is None else (cohort, cohort)
        return books.account.used(totals_within(books.entries, span))

    @property
    def used_by(self) -> dict[str, Fraction]:
        """The share that each analyst has used up of their budget, by name; "" stands for anyone who names none."""
        return {account.analyst: books.account.used(self._totals(books)) for account, books in self._all_books()}

    @property
    def keeps_promise(self) -> bool:
        """Whether all accounts are within the largest budgets that they had."""
        return all(
            books.account.under(Budget(*largest_of(account.counted))).used(self._totals(books)) <= 1
            for account, books in self._all_books()
        )

    def _all_books(self) -> list[tuple[StoredAccount, Books]]:
        if self.is_new:
            return []
        with self._store.connected() as connection:
            dataset = known_dataset(connection, self._store.path, self.scope.dataset)
            accounts = accounts_of(connection, dataset).values()
            return [(account, read_books(connection, dataset, account)) for account in accounts]

    def _totals(self, books: Books) -> tuple[Cost, ...]:
        return totals_within(books.entries, whole_span(len(self.cohorts)))

    def _books(self, without: Collection[str] = ()) -> Books:
        """Read the charges of this analyst, without charges that have some ids; open no account."""
        if self.is_new:
            return Books(Account(repr(self.scope.name), self.budget))
        with self._store.connected() as connection:
            dataset = replace(known_dataset(connection, self._store.path, self.scope.dataset), name=self.scope.name)
            books = read_books(connection, dataset, account_of(connection, dataset, self.scope.analyst))
        if without:
            rows = self._rows(
                "SELECT charge, paid FROM release", "AND analyst = ? AND paid IS NOT NULL", self.scope.analyst
            )
            paid = [read_stored(text, paid_from) for charge, text in rows if charge_from(charge).id not in without]
            return replace(books, entries=tuple(paid))
        return books

    @property
    def records(self) -> int | None:
        """How many records a release must be of; None as long as nothing says so.

        It is the number that this state of the labels was released of, or that of the cohorts; else the number that
        was declared.

        Raises:
            LedgerError: these records are not those of the cohorts.
        """
        cohorts, scope = self.cohorts, self._cohort_span()
        if scope.names:
            return sum(member.records for member in cohorts[scope.span[0] : scope.span[1] + 1])
        kinds = "AND scheme = ? AND domain = ?"
        rows = self._state_rows("SELECT digest FROM labels", kinds, ANY_KIND, ANY_KIND, order="rowid")
        return int(rows[0][0]) if rows else self.declared_records

    @property
    def declared_records(self) -> int | None:
        """How many records the dataset was declared to have, None if no one said it."""
        rows = self._store.rows("SELECT records FROM dataset WHERE name = ?", (self.scope.dataset,))
        return rows[0][0] if rows else None

    def check_count(self, records: int) -> None:
        """Raise LedgerError if a release of so many records would be of a part of them; see `records`."""
        self._check_count(self.records, records)

    def _check_count(self, count: int | None, records: int) -> None:
        if count not in (None, records):
            command = add_command(self._store.path, self.scope.dataset)
            raise LedgerError(_OTHER_COUNT.format(self._called, count, records, command, records))

    @property
    def promised(self) -> Budget:
        """What everything that is released of the dataset keeps: the largest epsilon and the largest delta it had."""
        if self.is_new:
            return self.budget
        with self._store.connected() as connection:
            dataset = known_dataset(connection, self._store.path, self.scope.dataset)
            return promised_of(dataset.budget, list(accounts_of(connection, dataset).values()))

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Every charge of all revisions, oldest first."""
        return tuple(charge_from(text) for (text,) in self._rows("SELECT charge FROM release"))

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
        rows = self._rows("SELECT low, high, path, loss, tail, rate, failure FROM paid", order="rowid")
        return Spent(totals_within(map(entry_from, rows), span), self.promised)

    def part(self, path: Path) -> Path:
        """Return the part of a cohort, or of all records, that a charge used: without the step to the cohort."""
        return without_cohort(path, self._secret)

    @property
    def cohorts(self) -> tuple[Cohort, ...]:
        """The cohorts, in the order in which they were added; none for a dataset whose records never became more."""
        return cohorts_from(self._rows(COHORTS, order="number"))

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """Every release of all revisions, oldest first."""
        rows = self._rows(
            "SELECT revision, form, step, certificate, created, low, high, label_column, analyst, generation "
            "FROM release"
        )
        names = [member.name for member in self.cohorts]
        entries = []
        for revision, form, step, text, created, low, high, *scope in rows:
            certificate = read_stored(text, Certificate.from_json)
            part, cohorts = self.part(certificate.entries[0].path), tuple(names[low : high + 1])
            entries.append(LedgerEntry(revision, form, step, certificate, created, (low, high), cohorts, part, *scope))
        return tuple(entries)

    @property
    def own_entries(self) -> tuple[LedgerEntry, ...]:
        """Every release to this analyst of these records, this column and this revision, oldest first."""
        rows = self._store.rows("SELECT generation FROM dataset WHERE name = ?", (self.scope.dataset,))
        generation, span, scope = rows[0][0] if rows else None, self._cohort_span().span, self.scope
        return tuple(
            entry
            for entry in self.entries
            if (entry.generation, entry.span) == (generation, span)
            and (entry.column, entry.revision, entry.analyst) == (scope.column, scope.revision, scope.analyst)
        )

    @property
    def charged_to(self) -> dict[str, str]:
        """The id of every charge of all revisions, and the analyst whose share it was charged to."""
        return dict(self._rows("SELECT json_extract(charge, '$.id'), analyst FROM release"))

    @property
    def changes(self) -> tuple[Change, ...]:
        """Every change of the budget or the declared domain, oldest first."""
        rows = self._rows("SELECT what, before, after, why, created FROM change")
        return tuple(Change(*row) for row in rows)

    @property
    def domains(self) -> tuple[Comparisons, ...]:
        """Every declared domain of all columns, oldest first."""
        rows = self._rows("SELECT words, passed, refused, created, label_column FROM domain")
        return tuple(Comparisons(*row) for row in rows)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that labels were declared for, in that order; none for a dataset of one column without a name."""
        return tuple(dict.fromkeys(domain.column for domain in self.domains if domain.column))

    def refuse_private(self, columns: Iterable[str | None]) -> None:
        """Raise InputError if a column that is read as public has private labels of the dataset.

        Stored requests have the label columns of a dataset of one column without a name.
        """
        query = "SELECT json_extract(content, '$.source.label') FROM release JOIN request ON digest = request"
        labels = {*self.columns, *(label for (label,) in self._rows(query))}
        if private := [name for name in columns if name and name in labels]:
            raise InputError(
                f"the column {private[0]!r} holds private labels of {self.scope.dataset!r}: it must not be used as a "
                "public column. Check --label, name the public columns (--features), or leave it out of the table"
            )

    @property
    def differences(self) -> int:
        """How often labels of all revisions were refused because they had changed; public."""
        return sum(times for (times,) in self._rows("SELECT times FROM difference", order="revision"))

    def _rows(self, query: str, where: str = "", *values: Any, order: str = "id") -> list[tuple[Any, ...]]:
        condition = f"WHERE dataset = (SELECT id FROM dataset WHERE name = ?) {where} ORDER BY {order}"
        return self._store.rows(f"{query} {condition}", (self.scope.dataset, *values))

    def _state_rows(self, query: str, where: str, *values: Any, order: str = "id") -> list[tuple[Any, ...]]:
        """Return the rows of a query on this column and revision, under the present keys."""
        state = "AND label_column = ? AND revision = ? AND generation = (SELECT generation FROM dataset WHERE name = ?)"
        return self._rows(
            query, f"{state} {where}", self.scope.column, self.scope.revision, self.scope.dataset, *values, order=order
        )

    @property
    def randomness(self) -> KeyedRandomness:
        """Keyed noise of the dataset's secret, revision, cohort and column; a curator binds it to the whole request.

        What a dataset released before it got cohorts is about its first one, which keeps that noise.
        """
        name = [self._cohort.name] if self._cohort is not None and self._cohort.number else []
        scope = self.scope
        if scope.column:
            name = [*(name or [""]), scope.column]
        return KeyedRandomness(self._secret, json.dumps(["noise", scope.dataset, scope.revision, *name]).encode())

    @property
    def digest_key(self) -> bytes:
        """Secret key of label digests, the same for all revisions."""
        return derive_key(self._secret, b"labels")

    @property
    def ids_key(self) -> bytes:
        """Secret key of `RecordIds`."""
        return derive_key(self._secret, b"record ids")

    def check_process(self) -> None:
        """Do nothing: every process may use this ledger, since the file knows the charges."""

    def _with(self, **fields: Any) -> "DatasetLedger":
        """Return the same ledger with other values of some attributes, and nothing declared."""
        ledger = object.__new__(DatasetLedger)
        ledger.__dict__.update(self.__dict__ | fields, _declared=Declarations())
        return ledger

    def of_request(self, request: Request) -> "DatasetLedger":
        """Return a ledger that stores the request with each charge and each release that it finds again."""
        return self._with(request=request)

    def find_request(self, digest: str) -> Request | None:
        """Return the request of a digest, or None if this file does not have it."""
        rows = self._store.rows("SELECT content FROM request WHERE digest = ?", (digest,))
        return read_stored(rows[0][0], Request.from_json) if rows else None

    def requested(self, charge: str) -> str | None:
        """Return the digest of the request that caused a charge; None if it was not stored."""
        rows = self._rows("SELECT request FROM release", "AND json_extract(charge, '$.id') = ?", charge)
        return rows[0][0] if rows else None

    def of_cohort(self, cohort: str) -> "DatasetLedger":
        """Return the ledger of the records of one cohort; raise LedgerError if there is none of that name."""
        cohorts = self.cohorts
        for member in cohorts:
            if member.name == cohort:
                return self._with(scope=replace(self.scope, cohort=cohort), _cohort=member, _records=None)
        raise unknown_cohort(self._store.path, self.scope.dataset, cohort, cohorts)

    def of_records(self, records: str | None) -> "DatasetLedger":
        """Return the ledger as it charges these records (`records_digest`), and as their other requests find them.

        Raises:
            LedgerError: they are not the records of the dataset or of the cohort, or were released with ids and have
                none now, or the other way around; no label was looked at, and nothing was charged.
        """
        self.check_ids(records is not None)
        ledger = self._with(_records=records)
        if not ledger._cohort_span().names and records is not None:
            rows = self._state_rows("SELECT digest FROM labels", "AND domain = ?", IDS_KIND, order="rowid")
            ledger._refuse_others({digest for (digest,) in rows})
        return ledger

    def check_ids(self, named: bool) -> None:
        """Raise LedgerError if this state of the labels was only released under the other kind of ids.

        Args:
            named: whether the records have ids; otherwise they are known by their row numbers.
        """
        if self._other_ids or self.cohorts:  # cohorts are told apart by ids, and refuse records without
            return
        rows = self._state_rows("SELECT scheme FROM labels", "AND scheme <> ?", ANY_KIND, order="rowid")
        kinds = {scheme == IDS_KIND for (scheme,) in rows}
        if kinds == {not named}:
            words = ("by row numbers", "with ids")
            raise LedgerError(_OTHER_IDS.format(self._called, words[not named], words[named]))

    @property
    def protection(self) -> Protection:
        """What the account of the dataset protects; its unit is None before it is declared and before a charge."""
        rows = self._store.rows("SELECT unit, users FROM dataset WHERE name = ?", (self.scope.dataset,))
        return protection_from(*rows[0]) if rows else Protection()

    def check_unit(self, unit: Unit, users: str | None = None) -> None:
        """Raise LedgerError if the account of the dataset keeps another unit of protection, or other users.

        Args:
            unit: what a release would protect.
            users: the digest of its users (`users_digest`), if these are protected.
        """
        self._admitted(self.protection, unit, users, self.cohorts)

    def _admitted(self, protection: Protection, unit: Unit, users: str | None, cohorts: Sequence[Cohort]) -> Protection:
        if users is not None and cohorts:
            raise LedgerError(
                f"users do not go with cohorts, and {self.scope.name!r} has some: a user may have records in several, "
                "which the ledger does not count; nothing was charged. It protects single records"
            )
        return protection.admit(unit, users, self.scope.dataset)

    def _refuse_others(self, digests: set[str]) -> None:
        """Raise LedgerError if these records are not those on record; an empty digest stands for unknown ones."""
        if self._records is not None and not digests <= {self._records, ""}:
            raise LedgerError(_OTHER_RECORDS.format(self._called, add_command(self._store.path, self.scope.dataset)))

    @property
    def _called(self) -> str:
        name = repr(self.scope.name)
        return f"revision {self.scope.revision!r} of {name}" if self.scope.revision else name

    def _cohort_span(self, cohorts: Sequence[Cohort] | None = None) -> CohortSpan:
        """Return whose labels these are; raise LedgerError if they are neither of the cohort nor of the dataset."""
        members = self.cohorts if cohorts is None else cohorts
        return scope_of(members, self.scope.cohort or None, self._records, (self._store.path, self.scope.dataset))

    def check_domain(self, domain: Domain | Declared) -> None:
        """Raise LedgerError if another domain was declared; no label is read, and nothing is declared."""
        declared = domain if isinstance(domain, Declared) else as_declared(domain)
        domains = dict(self._rows("SELECT form, words FROM domain", "AND label_column = ?", self.scope.column))
        refuse_undeclared(declared, domains, self._store.path, self.scope.name)

    def comparing(self, domain: Domain | Declared) -> AbstractContextManager[None]:
        """Let the body compare labels with a domain that is on disk; the outcome is on disk before it is disclosed.

        Refuse all that can be refused without reading labels before.

        Args:
            domain: the domain; the first one of a dataset becomes its declared domain.

        Raises:
            DomainError: a label is missing or outside of the domain; the sentence does not depend on the labels, and
                the refusal is counted.
            LedgerError: another domain was declared before, or the file cannot be used; nothing was compared.
        """
        return _Comparison(self, domain)

    def _refusal(self, domain: Domain, declared: Declared) -> str:
        """Return the message for labels outside of the domain, which depends on the domain alone."""
        clip = domain.target == "numbers" and not domain.to_json().get("clip")
        ends = "To count numbers outside as the nearest end, use --clip. " if clip else ""
        among = "among " if domain.target == "classes" else ""
        return (
            f"Some labels are missing or not {among}{declared.words}. Nothing was charged. The ledger counts this "
            f"rejection, and later certificates report it. Correct wrong labels. {GAPS}. {ends}To declare another "
            "domain, without reading the labels: "
            f"{add_command(self._store.path, self.scope.name)} --change --classes … or --range …"
        )

    def enroll(self) -> str:
        """Return a name for the revision of the dataset, within which ids identify records and labels do not change."""
        columns = [self.scope.column.encode()] if self.scope.column else []
        return derive_key(self._secret, b"population", self.scope.revision.encode(), *columns).hex()[:16]

    def require(self, requests: Sequence[PendingCharge]) -> None:
        """Raise BudgetExceeded unless the budget admits all requests; steps charged as much before are free."""
        wanted_times = Counter((request.step, request.path, request.loss, request.unit) for request in requests)
        span, steps = self._cohort_span().span, []
        for (step, path, loss, unit), times in wanted_times.items():
            if (missing := times - self._known(span, step, path, loss, unit)) > 0:
                steps.append(Step(step or "", loss, path, missing, span, unit))
        self._refuse_closed(steps)
        if steps:
            self._declared.add(self._books(), steps)

    def has_charged(self, request: PendingCharge) -> bool:
        """Return whether these records and this revision have a release with the same step, part and loss."""
        return self._known(self._cohort_span().span, request.step, request.path, request.loss, request.unit) > 0

    def _known(self, span: Span, step: str | None, path: Path, loss: PrivacyLoss, unit: Unit) -> int:
        """Return how many releases of these records and this revision have the same step and cost."""
        where = "AND cost = ? AND low = ? AND high = ? AND step IS ? AND analyst = ?"
        values = cost_digest(path, loss, unit), *span, step, self.scope.analyst
        return len(self._state_rows("SELECT 1 FROM release", where, *values))

    def _refuse_closed(self, steps: Sequence[Step]) -> None:
        """Raise LedgerError if something is asked for and the dataset is closed."""
        if steps:
            changes = self._rows("SELECT what, before FROM change", OPENS)
            refuse_closed(closed_by(changes), self._store.path, self.scope.dataset)

    def foresee(self, more: Iterable[tuple[Path, PrivacyLoss]], unit: Unit) -> None:
        """Raise BudgetExceeded if the budget cannot admit more charges of parts of these records, at most so costly.

        Args:
            more: the parts, and what each release costs.
            unit: the unit of protection that the costs are for.
        """
        span = self._cohort_span().span
        steps = [Step("", loss, path, 1, span, unit) for path, loss in more]
        self._refuse_closed(steps)
        if steps:
            Declarations().add(self._books(), steps)

    def check_labels(self, request: PendingCharge) -> None:
        """Raise LedgerError if the labels are not those of earlier requests, and record it; charge nothing."""
        with self._transaction(request, keep=False):
            pass

    def afford(self, request: PendingCharge) -> None:
        """Raise BudgetExceeded if the budget does not admit a release of all records, before any label is read.

        What was charged before is admitted, since its release may be found again. As long as it is not known which
        records they are (`of_records`), the cohort that is in all of them counts.

        Args:
            request: what would be released, without labels.
        """
        if not self.has_made(request):
            step = Step("", request.loss, span=self._known_span(), unit=request.unit)
            self._refuse_closed([step])
            self._books().charge(step, self._declared.plans)

    def has_made(self, request: PendingCharge) -> bool:
        """Return whether this revision has a release of all records that may answer a request, whatever its labels.

        Of records that are not known yet only the first cohort is: then a release of more of them counts, too.
        """
        span, where = self._known_span(), "AND made = ? AND cost = ? AND low = ? AND analyst = ?"
        cost = cost_digest((), request.loss, request.unit)
        values = made_digest(request), cost, span[0], self.scope.analyst
        ends = self._state_rows("SELECT high FROM release", where, *values)
        return any(self._records is None or high == span[1] for (high,) in ends)

    def _known_span(self) -> Span:
        first = 0 if self._cohort is None else self._cohort.number
        return (first, first) if self._records is None else self._cohort_span().span

    @contextmanager
    def charging(self, request: PendingCharge, mechanism: Any) -> Iterator[Draw]:
        """Charge, let the body draw, and store in one transaction, or find the answer to the same request again.

        Args:
            request: the request. A stage (`request.step`) is found again whatever its candidate sets.
            mechanism: the mechanism of the request.

        Raises:
            BudgetExceeded: nothing was charged and nothing drawn.
            LedgerError: the labels changed, or the file cannot be used; nothing was charged.
        """
        paid, draw = None, None
        try:
            with self._transaction(request) as transaction:
                draw = transaction.find_held(request, mechanism)
                if draw is None and (charged := transaction.find_recomputable(request)):
                    draw = Draw(mechanism, is_new=True, certificate=charged[1])
                elif draw is None:
                    draw, paid = Draw(mechanism, is_new=True), self._charge(transaction, request)
                yield draw
                if paid is not None:
                    assert draw.value is not None
                    draw.certificate = transaction.write(request, mechanism, paid, draw.value, self._asked)
        except BaseException:
            if draw is not None:
                draw.value = None  # what was drawn is not charged: no frame of the error may hold it
            raise
        self._committed(paid)

    def _committed(self, paid: Paid | None) -> None:
        """Take note of a charge that is on disk."""
        if paid is not None and paid.payment is not None:
            self._declared.charged(paid.payment.plan)

    def charge_stream(self, request: PendingCharge, mechanism: Any) -> Certificate:
        """Commit the charge of a release that is not stored, or find it again; return its certificate.

        Its noise must be `randomness.bind(request.context())`, so that it can be recomputed at any time.

        Raises:
            BudgetExceeded, LedgerError: as `draw` does.
        """
        with self._transaction(request) as transaction:
            charged = transaction.find_recomputable(request)
            if charged:
                return charged[1]
            paid = self._charge(transaction, request)
            certificate = transaction.write(request, mechanism, paid, source=self._asked)
        self._committed(paid)
        return certificate

    @property
    def _asked(self) -> str | None:
        return None if self.request is None else self.request.digest

    def find_stream(self, request: PendingCharge) -> Charge | None:
        """Return the charge of a stream that was charged before, or None; charge nothing.

        If the labels changed, that is counted before it is disclosed.
        """
        if rows := self._state_rows("SELECT charge FROM release", "AND identity = ?", text_of(request.identity())):
            return charge_from(rows[0][0])
        with self._open() as (connection, dataset):
            transaction = self._begin(connection, dataset, request)
            if not transaction.has_same_labels(request):
                transaction.count_difference()
        return None

    @contextmanager
    def _transaction(self, request: PendingCharge, *, keep: bool = True) -> Iterator[LedgerTransaction]:
        """Open a transaction on the dataset; refuse labels that changed, and store the traces of others if `keep`."""
        if not request.labels or not request.traces:
            raise InputError("request must hold digests of the labels: a durable ledger tells by them what is the same")
        if keep and request.analyst != self.scope.analyst:
            raise LedgerError("this way of releasing knows no shares: take the ledger without an analyst")
        with self._open() as (connection, dataset):
            transaction = self._begin(connection, dataset, request)
            same = transaction.has_same_labels(request)
            if same:
                if keep:
                    transaction.keep_traces(request)
                if keep and self.request is not None:
                    transaction.keep_request(self.request)
                yield transaction
            else:
                transaction.count_difference()  # on disk before it is disclosed
        if not same:
            raise LedgerError(_OTHER_LABELS.format(self._called))

    def _begin(self, connection: Connection, dataset: Dataset, request: PendingCharge) -> LedgerTransaction:
        """Return access to the releases of these records; raise LedgerError for records outside the dataset."""
        cohorts = cohorts_of(connection, dataset.id)
        self._admitted(dataset.protection, request.unit, request.users, cohorts)
        state = dataset.id, self.scope.column, dataset.generation, self.scope.revision
        scope = self._cohort_span(cohorts)
        if not scope.names:
            traces = traces_of(connection, state)
            self._refuse_others(set(traces.get((ANY_KIND, IDS_KIND), {}).values()))
            counts = [int(digest) for *kinds, digest in request.traces if kinds == [ANY_KIND, ANY_KIND]]
            if counts and (ANY_KIND, ANY_KIND) not in traces:  # else the traces tell
                self._check_count(dataset.records, counts[0])
        return LedgerTransaction(connection, dataset, state, scope, self._records)

    @contextmanager
    def _open(self) -> Iterator[tuple[Connection, Dataset]]:
        """Open a transaction on the dataset, which is added if it is the first of a new file."""
        with self._store.writing(create=self._proposed is not None) as connection:
            row = find_dataset(connection, self.scope.dataset)
            if row is None and self._proposed is not None:
                if names := dataset_names(connection):
                    raise unknown_dataset(self._store.path, self.scope.dataset, names)  # the file appeared meanwhile
                insert_dataset(connection, self.scope.dataset, self._proposed, self._secret)
                warnings.warn(
                    f"{self.creation(self._store.path)}. If these labels were released before, name their ledger",
                    NewLedgerWarning,
                    stacklevel=2,
                )
                row = find_dataset(connection, self.scope.dataset)
            if row is None or row.secret != self._secret:
                raise LedgerError(f"the dataset {self.scope.dataset!r} was added or replaced meanwhile: run again")
            yield connection, replace(row, name=self.scope.name)

    def _charge(self, transaction: LedgerTransaction, request: PendingCharge) -> Paid:
        """Charge a request; raise BudgetExceeded if the budget does not admit it, LedgerError if it is closed."""
        dataset, connection, scope = transaction.dataset, transaction.connection, transaction.scope
        refuse_closed(is_closed(connection, dataset.id), self._store.path, self.scope.dataset)
        account = account_of(connection, dataset, self.scope.analyst)
        step = Step(request.step or "", request.loss, request.path, 1, scope.span, request.unit)
        payment = read_books(connection, dataset, account).charge(step, self._declared.plans)
        protection = dataset.protection.admit(request.unit, request.users, self.scope.dataset)
        if protection != dataset.protection:
            write_protection(connection, dataset.id, protection)
        prefix, name = scope.path(dataset.secret), secrets.token_hex(8)
        path = (*prefix, *request.path)
        if request.loss == PrivacyLoss.zero():  # a note, no release
            return Paid(Charge(name, path, request.loss, request.mechanism, unit=request.unit))
        budget = account.account.budget
        warn_of_weak_budget(budget.epsilon, budget.delta, request.records)
        plan, versions = write_payment(connection, dataset, account, payment, prefix)
        if plan is not None and not plan.has_step(path, request.loss, request.unit):
            path = request.path  # the plan was stored before these records were a cohort
        analyst = self.scope.analyst
        shared = bool(analyst) or len(accounts_of(connection, dataset)) > 1
        facts = {
            "charged": now(),
            "version": __version__,
            "records": str(request.records or ""),
            "commitment": commitment(dataset.secret, name, request.labels),
            "share": (repr(analyst) if analyst else "those who name no analyst") if shared else "",
        }
        stated = {fact: text for fact, text in facts.items() if text}
        number = derive_key(dataset.secret, b"account", self.scope.analyst.encode()).hex()[:16]
        units = (request.unit, protection.unit)
        charge = Charge(name, path, request.loss, request.mechanism, stated, plan, number, versions, *units)
        return Paid(charge, payment)

    def holds(self, charge: Charge) -> bool:
        """Return whether this ledger has exactly this charge, with a commitment to the labels.

        The labels are those that were charged, of which the ledger has a keyed digest.
        """
        for text, identity in self._rows("SELECT charge, identity FROM release"):
            if (stored := charge_from(text)).id == charge.id:
                labels = read_stored(identity, lambda request: request["labels"])
                opened = stored.facts.get("commitment") in (None, commitment(self._secret, charge.id, labels))
                return opened and stored == charge
        return False

    def certificate_of(self, charges: Sequence[str]) -> Certificate:
        """Return the certificate of the releases with these charges, at least one, joined as `gather` joins them."""
        certificates = {entry.certificate.entries[0].id: entry.certificate for entry in self.entries}
        return gather([Release(None, certificates[charge]) for charge in charges], lambda *_: None).certificate

    @even_if_refused
    def __repr__(self) -> str:
        names = {name: getattr(self.scope, name) for name in ("revision", "cohort", "analyst")}
        words = "".join(f", {name}={value!r}" for name, value in names.items() if value)
        return f"DatasetLedger(name={self.scope.name!r}{words}, file={str(self._store.path)!r})"


_UNCOMPARED = (
    "the labels of {!r} could not be compared with their domain: an object among them fails, or memory is too small. "
    "Nothing was charged. The ledger counts this rejection, and later certificates report it"
)


def raise_alone(error: Exception) -> NoReturn:
    """Raise an error without the one that is being handled, whose words and frames may tell of labels."""
    try:
        raise error
    except Exception:
        error.__context__ = None
        raise


@final
class _Comparison(AbstractContextManager[None]):
    """Labels compared with a domain of a ledger: see `DatasetLedger.comparing`."""

    def __init__(self, ledger: DatasetLedger, domain: Domain | Declared) -> None:
        self._ledger, self._domain = ledger, domain
        self._declared = domain if isinstance(domain, Declared) else as_declared(domain)

    def __enter__(self) -> None:
        ledger, declared = self._ledger, self._declared
        if (declared.form,) not in ledger._rows("SELECT form FROM domain", "AND label_column = ?", ledger.scope.column):
            with ledger._open() as (connection, dataset):
                declare_first(connection, dataset, ledger.scope.column, declared, ledger._store.path)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        about_labels = isinstance(error, DomainError | UnreadableRows) or not isinstance(error, LabelDPError)
        if error is not None and not (about_labels and isinstance(error, Exception)):
            return False  # about a file or an argument, or an interrupt
        count = "passed = passed + 1" if error is None else "refused = refused + 1"
        query = f"UPDATE domain SET {count} WHERE dataset = ? AND label_column = ? AND form = ?"
        try:
            # Success is written like a refusal, so that a ledger that cannot be written discloses neither.
            with self._ledger._open() as (connection, dataset):
                connection.execute(query, (dataset.id, self._ledger.scope.column, self._declared.form))
        except BaseException as failure:
            link: BaseException = failure
            while link.__context__ is not None and link.__context__ is not error:
                link = link.__context__
            link.__context__ = None  # else the refusal would stand behind the failure
            del error, trace  # this frame is one of the failure's: it must not lead to the refusal
            raise
        if error is not None and not isinstance(error, LabelDPError):
            del error, trace
            raise_alone(LabelDPError(_UNCOMPARED.format(self._ledger.scope.name)))
        if isinstance(error, UnreadableRows):
            error.counted = True
        if isinstance(error, DomainError | UnreadableRows):  # neither its sentence nor its frames may tell of labels
            error.__traceback__ = error.__context__ = error.__cause__ = None
            if isinstance(error, DomainError) and isinstance(self._domain, Domain):
                DomainError.__init__(error, self._ledger._refusal(self._domain, self._declared))
        return False

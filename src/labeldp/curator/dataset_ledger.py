"""The ledger of one dataset in a ledger file."""

import json
import secrets
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from fractions import Fraction
from sqlite3 import Connection
from types import TracebackType
from typing import Any, Literal, NoReturn, final

from labeldp._version import __version__
from labeldp.accounting import Declarations, Spent
from labeldp.curator.cohorts import Cohort, unknown_cohort, without_cohort
from labeldp.curator.datasets import (
    ANY_KIND,
    Dataset,
    Declared,
    add_command,
    as_declared,
    charge_from,
    closed_by,
    dataset_names,
    declare_first,
    find_dataset,
    insert_dataset,
    now,
    refuse_closed,
    unknown_dataset,
    write_protection,
)
from labeldp.curator.ledger_store import Store
from labeldp.curator.ledger_transaction import Comparisons, LedgerEntry, LedgerTransaction, Paid, commitment
from labeldp.curator.paid import account_of, accounts_of, read_books, write_payment
from labeldp.curator.snapshot import DatasetSnapshot
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
    Request,
    Scope,
    Step,
    UnreadableRows,
    derive_key,
    even_if_refused,
    read_stored,
    warn_of_weak_budget,
)

_OTHER_LABELS = (
    "these are not the labels or losses that were released before as {}; nothing was charged. Where some were "
    "corrected or rows were added, name the new state (revision, --revision NAME): it is charged in addition. "
    "Those of other people are a dataset of their own"
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

    remote = None
    secret = ("The ledger file: it holds the keys to the noise, so it is as secret as the labels.",)

    def __init__(self, store: Store, state: DatasetSnapshot, secret: bytes) -> None:
        self.state, self._store, self._secret = state, store, secret
        self.scope = state.scope
        self.request: Request | None = None
        self._declared = Declarations()

    def read(self) -> DatasetSnapshot:
        """Return what the file holds of the dataset now, in one connection."""
        opened = self.state
        return read_dataset(
            self._store, self.scope, proposed=opened.proposed, other_ids=opened.other_ids, records=opened.records
        )

    def creation(self, ledger: object) -> str:
        """Return what is said where the first charge creates the file `ledger`; else an empty text."""
        return self._creation(ledger) if self.state.is_new else ""

    def _creation(self, ledger: object) -> str:
        return (
            f"Created {ledger} (only you can read it): the budget of {self.scope.dataset!r} is {self.state.proposed}. "
            "The file contains the noise keys: protect it like the labels"
        )

    @property
    def budget(self) -> Budget:
        """Budget of the dataset; for a new one, the budget with which it will be added."""
        return self.read().budget

    @property
    def protection(self) -> Protection:
        """What the account protects; its unit is None before it is declared and before a charge."""
        return self.read().protection

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Every charge of all revisions, oldest first."""
        return self.read().charges

    @property
    def cohorts(self) -> tuple[Cohort, ...]:
        """The cohorts in the order in which they were added; none for a dataset whose records never became more."""
        return self.read().cohorts

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """Every release of all revisions, oldest first."""
        return self.read().entries

    @property
    def domains(self) -> tuple[Comparisons, ...]:
        """Every declared domain of all columns, and how often labels were compared with it, oldest first."""
        return self.read().domains

    @property
    def differences(self) -> int:
        """How often labels of all revisions were refused because they had changed; public."""
        return self.read().differences

    @property
    def spent(self) -> Spent:
        """What the record that paid most was charged; see `DatasetSnapshot.spent`."""
        return self.read().spent

    def used(self) -> Fraction:
        """Return the share that is used up of the budget that this analyst is charged to; it is no epsilon."""
        return self.read().used()

    def part(self, path: Path) -> Path:
        """Return the part that a charge used of its cohort, or of all records: its path without the cohort."""
        return without_cohort(path, self._secret)

    @property
    def randomness(self) -> KeyedRandomness:
        """Keyed noise of the dataset's secret, revision, cohort and column; a curator binds it to the whole request.

        What a dataset released before it got cohorts is about its first one, which keeps that noise.
        """
        scope = self.scope
        name = [member.name for member in self.state.cohorts[1:] if member.name == scope.cohort]
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
        row = self._release_of(charge, "request")
        return None if row is None else row[0]

    def _release_of(self, charge: str, columns: str) -> tuple[Any, ...] | None:
        query = (
            f"SELECT {columns} FROM release WHERE dataset = (SELECT id FROM dataset WHERE name = ?) "
            "AND json_extract(charge, '$.id') = ?"
        )
        return next(iter(self._store.rows(query, (self.scope.dataset, charge))), None)

    def of_cohort(self, cohort: str, state: DatasetSnapshot | None = None) -> "DatasetLedger":
        """Return the ledger of the records of one cohort; raise LedgerError if there is none of that name.

        Args:
            cohort: its name.
            state: what the file holds, if it was read just now.
        """
        state = state or self.read()
        if all(member.name != cohort for member in state.cohorts):
            raise unknown_cohort(self._store.path, self.scope.dataset, cohort, state.cohorts)
        scope = replace(self.scope, cohort=cohort)
        return self._with(scope=scope, state=replace(state, scope=scope, records=None))

    def of_records(self, records: str | None, state: DatasetSnapshot | None = None) -> "DatasetLedger":
        """Return the ledger as it charges these records (`records_digest`), and as their other requests find them.

        Args:
            records: the digest of their ids; None for row numbers.
            state: what the file holds, if it was read just now.

        Raises:
            LedgerError: they are not the records of the dataset or of the cohort, or were released with ids and have
                none now, or the other way around; no label was looked at, and nothing was charged.
        """
        state = state or self.read()
        state.check_ids(records is not None)
        return self._with(state=state.of_records(records))

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
        state, steps = self.read(), []
        wanted_times = Counter((request.step, request.path, request.loss, request.unit) for request in requests)
        span = state.span.span
        for (step, path, loss, unit), times in wanted_times.items():
            if (missing := times - state.times_charged(step, path, loss, unit)) > 0:
                steps.append(Step(step or "", loss, path, missing, span, unit))
        state.refuse_closed(steps)
        if steps:
            self._declared.add(state.books(), steps)

    def has_charged(self, request: PendingCharge) -> bool:
        """Return whether these records and this revision have a release with the same step, part and loss."""
        return self.read().times_charged(request.step, request.path, request.loss, request.unit) > 0

    def check_labels(self, request: PendingCharge) -> None:
        """Raise LedgerError if the labels are not those of earlier requests, and record it; charge nothing."""
        with self._transaction(request, keep=False):
            pass

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
                    draw.certificate = transaction.write(request, mechanism, paid, draw.value, self._request_digest)
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
            BudgetExceeded, LedgerError: as `charging` does.
        """
        with self._transaction(request) as transaction:
            charged = transaction.find_recomputable(request)
            if charged:
                return charged[1]
            paid = self._charge(transaction, request)
            certificate = transaction.write(request, mechanism, paid, request_digest=self._request_digest)
        self._committed(paid)
        return certificate

    @property
    def _request_digest(self) -> str | None:
        return None if self.request is None else self.request.digest

    def find_stream(self, request: PendingCharge) -> Charge | None:
        """Return the charge of a stream that was charged before, or None; charge nothing.

        If the labels changed, that is counted before it is disclosed.
        """
        with self._open() as (connection, dataset):
            transaction = self._begin(connection, dataset, request)
            if charged := transaction.find_recomputable(request):
                return charged[0]
            if not transaction.has_same_labels(request):
                transaction.count_difference()
        return None

    @contextmanager
    def _transaction(self, request: PendingCharge, *, keep: bool = True) -> Iterator[LedgerTransaction]:
        """Open a transaction on the dataset; refuse labels that changed, else store their traces if `keep`."""
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
            raise LedgerError(_OTHER_LABELS.format(self.state.called))

    def _begin(self, connection: Connection, dataset: Dataset, request: PendingCharge) -> LedgerTransaction:
        """Return access to the releases of these records; raise LedgerError for records outside the dataset."""
        state = DatasetSnapshot.read(
            connection, self._store.path, self.scope, history=False, records=self.state.records
        )
        state.check_unit(request.unit, request.users)
        state.check_records()
        kinds = {(scheme, kind) for scheme, kind, _ in state.traces}
        counts = [int(digest) for *pair, digest in request.traces if pair == [ANY_KIND, ANY_KIND]]
        if counts and not state.cohorts and (ANY_KIND, ANY_KIND) not in kinds:  # else the traces tell
            state.check_count(counts[0])
        labels_state = dataset.id, self.scope.column, dataset.generation, self.scope.revision
        return LedgerTransaction(connection, dataset, labels_state, state.span, self.state.records)

    @contextmanager
    def _open(self) -> Iterator[tuple[Connection, Dataset]]:
        """Open a transaction on the dataset, which is added if it is the first of a new file."""
        with self._store.writing(create=self.state.proposed is not None) as connection:
            row = find_dataset(connection, self.scope.dataset)
            if row is None and self.state.proposed is not None:
                if names := dataset_names(connection):
                    raise unknown_dataset(self._store.path, self.scope.dataset, names)  # the file appeared meanwhile
                insert_dataset(connection, self.scope.dataset, self.state.proposed, self._secret)
                warnings.warn(
                    f"{self._creation(self._store.path)}. If these labels were released before, name their ledger",
                    NewLedgerWarning,
                    stacklevel=2,
                )
                row = find_dataset(connection, self.scope.dataset)
            if row is None or row.secret != self._secret:
                raise LedgerError(f"the dataset {self.scope.dataset!r} was added or replaced meanwhile: run again")
            yield connection, replace(row, name=self.scope.name)

    def _charge(self, transaction: LedgerTransaction, request: PendingCharge) -> Paid:
        """Charge a request; raise BudgetExceeded if the budget does not admit it, LedgerError if it is closed."""
        dataset, connection, cohorts = transaction.dataset, transaction.connection, transaction.cohorts
        refuse_closed(closed_by(connection, dataset.id), self._store.path, self.scope.dataset)
        account = account_of(connection, dataset, self.scope.analyst)
        step = Step(request.step or "", request.loss, request.path, 1, cohorts.span, request.unit)
        payment = read_books(connection, dataset, account).charge(step, self._declared.plans)
        protection = dataset.protection.admit(request.unit, request.users, self.scope.dataset)
        if protection != dataset.protection:
            write_protection(connection, dataset.id, protection)
        prefix, charge_id = cohorts.path(dataset.secret), secrets.token_hex(8)
        path = (*prefix, *request.path)
        if request.loss == PrivacyLoss.zero():  # a note, no release
            return Paid(Charge(charge_id, path, request.loss, request.mechanism, unit=request.unit))
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
            "commitment": commitment(dataset.secret, charge_id, request.labels),
            "share": (repr(analyst) if analyst else "those who name no analyst") if shared else "",
        }
        stated = {fact: text for fact, text in facts.items() if text}
        account_id = derive_key(dataset.secret, b"account", analyst.encode()).hex()[:16]
        units = (request.unit, protection.unit)
        charge = Charge(charge_id, path, request.loss, request.mechanism, stated, plan, account_id, versions, *units)
        return Paid(charge, payment)

    def commits_to(self, charge: Charge) -> bool:
        """Return whether this ledger has exactly this charge, with a commitment to the labels.

        The labels are those that were charged, of which the ledger has a keyed digest.
        """
        row = self._release_of(charge.id, "charge, identity")
        if row is None:
            return False
        stored, labels = charge_from(row[0]), read_stored(row[1], lambda request: request["labels"])
        opened = stored.facts.get("commitment") in (None, commitment(self._secret, charge.id, labels))
        return opened and stored == charge

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
        self._declared = as_declared(domain)

    def __enter__(self) -> None:
        ledger, declared = self._ledger, self._declared
        column = ledger.scope.column
        # A domain that was declared stays; whether it is on disk is seen again before an outcome is disclosed.
        if all((form, row.column) != (declared.form, column) for form, row in ledger.state.declared):
            with ledger._open() as (connection, dataset):
                declare_first(connection, dataset, column, declared, ledger._store.path)

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
                values = dataset.id, self._ledger.scope.column, self._declared.form
                if not connection.execute(query, values).rowcount:
                    raise LedgerError(f"the dataset {dataset.name!r} was replaced meanwhile: run again")
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


def read_dataset(store: Store, scope: Scope, **fields: Any) -> DatasetSnapshot:
    """Return what a file holds of a dataset now, read in one connection; of no file, what will be added."""
    if not store.exists:
        return DatasetSnapshot(store.path, scope, **fields)
    with store.reading() as connection:
        return DatasetSnapshot.read(connection, store.path, scope, **fields)

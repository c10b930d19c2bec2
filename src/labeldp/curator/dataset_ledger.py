"""The ledger of one dataset in a ledger file."""

import json
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from sqlite3 import Connection
from typing import Any, TypeVar, final

from labeldp.curator.cohorts import (
    COHORTS,
    Cohort,
    Scope,
    cohorts_from,
    cohorts_of,
    scope_of,
    split_name,
    unknown_cohort,
)
from labeldp.curator.datasets import (
    IDS,
    Dataset,
    add_command,
    as_declared,
    budget_from,
    charge_from,
    dataset_names,
    declare_first,
    find_dataset,
    insert_dataset,
    text_of,
    unknown_dataset,
)
from labeldp.curator.declared import Declared
from labeldp.curator.ledger_store import Store
from labeldp.curator.ledger_totals import (
    CohortTotals,
    Span,
    bounds_from,
    check_cohorts,
    cost_digest,
    made_digest,
    read_bounds,
    read_totals,
)
from labeldp.curator.ledger_transaction import LedgerTransaction
from labeldp.curator.traces import ANY_KIND, IDS_KIND, traces_of
from labeldp.mechanisms import Domain, Interval, Located
from labeldp.privacy import (
    Budget,
    Certificate,
    Charge,
    DomainError,
    Drawn,
    InputError,
    KeyedRandomness,
    LabelDPError,
    LedgerError,
    NotCopyable,
    Path,
    PrivacyLoss,
    Request,
    derive_key,
)

Encoded = TypeVar("Encoded")

_OTHER_LABELS = (
    "these are not the labels or losses that were released before as {}; nothing was charged. Where some were "
    "corrected or rows were added, name the new state (revision, --revision NAME): it is charged in addition. "
    "Those of other people are a dataset of their own"
)

_OTHER_RECORDS = (
    "these are not the records that were released before as {}; nothing was charged, and no label was looked at. "
    "Records that came later, none of them released before, are a cohort, which costs the others nothing: {} "
    "--cohort NAME --ids FILE --id COLUMN (the records so far first). Where records that were released are among them, "
    "name the new state (revision, --revision NAME): it is charged in addition"
)


@dataclass(frozen=True)
class Entry:
    """The public record of one release in a ledger, without its value and keys.

    Args:
        revision: state of the labels, empty for the first.
        form: "held" if the ledger stores the value, "stream" if it is recomputed from the labels.
        step: run and stage of the release, or None.
        certificate: certificate of the release.
        created: time of the charge, UTC, ISO 8601.
        span: numbers of the first and the last cohort that it was about, (0, 0) without cohorts.
        cohorts: their names, as far as they have some now.
        part: the part of these records that it used, empty for all of them.
    """

    revision: str
    form: str
    step: str | None
    certificate: Certificate
    created: str
    span: Span = (0, 0)
    cohorts: tuple[str, ...] = ()
    part: Path = ()


@dataclass(frozen=True)
class Change:
    """The public record of a change of a dataset's budget or declared domain.

    Args:
        what: "budget" or "declared domain".
        before, after: the old and the new one, in words.
        why: the reason, or None.
        created: time of the change, UTC, ISO 8601.
    """

    what: str
    before: str
    after: str
    why: str | None
    created: str


@dataclass(frozen=True)
class Comparisons:
    """A declared domain of a dataset, and how often labels were compared with it.

    Args:
        words: the domain in words, which is public.
        passed, refused: how often labels lay in it, or did not.
        created: time of the declaration, UTC, ISO 8601.
    """

    words: str
    passed: int
    refused: int
    created: str


@final
class DatasetLedger(NotCopyable):
    """The ledger of one dataset in a `LedgerFile`, for a curator; get one from `LedgerFile.dataset`.

    Guarantee: the same request is answered by the same bits and charged once; another request is charged or
        refused; labels that changed are refused unless a new revision says so; labels are compared with no domain
        that is not on disk before; whether they were refused is on disk before it is told.
    """

    _why_no_copy = (
        "the ledger of a dataset cannot be copied or pickled: it holds the key to the noise. Open the file where it is "
        "needed, LedgerFile(path).dataset(name)"
    )

    def __init__(
        self,
        store: Store,
        name: str,
        revision: str,
        secret: bytes,
        budget: Budget | None,
        ids: int = IDS,
        cohort: Cohort | None = None,
        records: str | None = None,
    ) -> None:
        self.name = name
        self.revision = revision
        self._store, self._secret, self._proposed, self._ids = store, secret, budget, ids
        self._cohort, self._records = cohort, records

    @property
    def is_new(self) -> bool:
        """Whether the dataset is not in the file yet; it is added before its labels are read."""
        return not self._store.rows("SELECT 1 FROM dataset WHERE name = ?", (self.name,))

    @property
    def budget(self) -> Budget:
        """Budget of the dataset; for a new one, the budget with which it will be added."""
        rows = self._store.rows("SELECT epsilon, delta FROM dataset WHERE name = ?", (self.name,))
        if rows:
            return budget_from(*rows[0])
        if self._proposed is None:
            raise LedgerError(f"the ledger {self._store.path} has no dataset {self.name!r} any more")
        return self._proposed

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Every charge of all revisions, oldest first."""
        return tuple(charge_from(text) for (text,) in self._rows("SELECT charge FROM release"))

    @property
    def spent(self) -> PrivacyLoss:
        """Privacy loss of all charges together: the most that a record of any cohort pays."""
        return self._totals().loss(range(max(1, len(self.cohorts))))

    def spent_of(self, cohort: str) -> PrivacyLoss:
        """Return the privacy loss of all charges that a record of one cohort pays."""
        [number] = [each.number for each in self.cohorts if each.name == cohort]
        return self._totals().loss([number])

    def spent_with(
        self, more: Iterable[tuple[Path, PrivacyLoss]] = (), *, without: Collection[str] = ()
    ) -> PrivacyLoss:
        """Return the most that a record of these pays.

        Args:
            more: further charges: parts of these records, and losses.
            without: ids of charges that are left out.
        """
        low, high = self._scope().span
        totals = self._totals()
        if without:
            kept = ((each, each.certificate.entries[0]) for each in self.entries)
            totals = CohortTotals.of(
                (each.span, each.part, charge.loss) for each, charge in kept if charge.id not in without
            )
        return totals.loss(range(low, high + 1), more)

    def part(self, path: Path) -> Path:
        """Return the part of a cohort, or of all records, that a charge used: without the step to the cohort."""
        return path[1:] if path and path[0][0] == split_name(self._secret) else path

    def _totals(self) -> CohortTotals:
        """Read what was charged, equal charges counted."""
        if self._store.version < 4:
            return CohortTotals.of(((0, 0), charge.path, charge.loss) for charge in self.charges)
        return CohortTotals(self._rows("SELECT low, high, path, loss, times FROM total", order="rowid"))

    @property
    def cohorts(self) -> tuple[Cohort, ...]:
        """The cohorts, in the order in which they were added; none for a dataset whose records never became more."""
        return cohorts_from(self._rows(COHORTS, order="number", since=4))

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every release of all revisions, oldest first."""
        span = "low, high" if self._store.version >= 4 else "0, 0"
        rows = self._rows(f"SELECT revision, form, step, certificate, created, {span} FROM release")
        names = [each.name for each in self.cohorts]
        found = []
        for revision, form, step, text, created, low, high in rows:
            certificate = Certificate.from_json(json.loads(text))
            part, cohorts = self.part(certificate.entries[0].path), tuple(names[low : high + 1])
            found.append(Entry(revision, form, step, certificate, created, (low, high), cohorts, part))
        return tuple(found)

    @property
    def own_entries(self) -> tuple[Entry, ...]:
        """Every release of these records and this revision, oldest first."""
        span = self._scope().span
        return tuple(each for each in self.entries if (each.revision, each.span) == (self.revision, span))

    @property
    def changes(self) -> tuple[Change, ...]:
        """Every change of the budget or the declared domain, oldest first."""
        rows = self._rows("SELECT what, before, after, why, created FROM change", since=2)
        return tuple(Change(*row) for row in rows)

    @property
    def domains(self) -> tuple[Comparisons, ...]:
        """Every declared domain, oldest first."""
        rows = self._rows("SELECT words, passed, refused, created FROM domain", since=2)
        return tuple(Comparisons(*row) for row in rows)

    @property
    def differences(self) -> int:
        """How often labels of all revisions were refused because they had changed; public."""
        return sum(times for (times,) in self._rows("SELECT times FROM difference", order="revision", since=2))

    def _rows(
        self, query: str, where: str = "", *values: Any, order: str = "id", since: int = 1
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query on this dataset; none if the ledger is of a version before `since`."""
        place = f"WHERE dataset = (SELECT id FROM dataset WHERE name = ?) {where} ORDER BY {order}"
        return self._store.rows(f"{query} {place}", (self.name, *values), since=since)

    @property
    def randomness(self) -> KeyedRandomness:
        """Keyed noise of the dataset's secret, revision and cohort; a curator binds it to the whole request.

        What a dataset released before it got cohorts is about its first one, which keeps that noise.
        """
        own = [self._cohort.name] if self._cohort is not None and self._cohort.number else []
        return KeyedRandomness(self._secret, json.dumps(["noise", self.name, self.revision, *own]).encode())

    @property
    def digest_key(self) -> bytes:
        """Secret key of label digests, the same for all revisions."""
        return derive_key(self._secret, b"labels")

    @property
    def ids_key(self) -> bytes | None:
        """Secret key of `RecordIds`; None for a dataset of an earlier version, whose ids are taken as they are."""
        return derive_key(self._secret, b"record ids") if self._ids >= 2 else None

    def check_process(self) -> None:
        """Do nothing: every process may use this ledger, since the file knows what was spent."""

    def of_cohort(self, cohort: str) -> "DatasetLedger":
        """Return the ledger of the records of one cohort; raise LedgerError if there is none of that name."""
        cohorts = self.cohorts
        for each in cohorts:
            if each.name == cohort:
                given = (self._store, self.name, self.revision, self._secret, self._proposed, self._ids)
                return DatasetLedger(*given, each)
        raise unknown_cohort(self._store.path, self.name, cohort, cohorts)

    def of_records(self, records: str | None) -> "DatasetLedger":
        """Return the ledger as it charges these records, and as other requests of the same records find them.

        Args:
            records: digest of the record ids; see `records_digest`. None without ids.

        Raises:
            LedgerError: they are not the records of the dataset or of the cohort; no label was looked at, and nothing
                was charged.
        """
        given = (self._store, self.name, self.revision, self._secret, self._proposed, self._ids, self._cohort)
        own = DatasetLedger(*given, records)
        if not own._scope().names and records is not None:
            rows = self._rows(
                "SELECT digest FROM labels", "AND revision = ? AND domain = ?", self.revision, IDS_KIND,
                order="rowid", since=4,
            )  # fmt: skip
            own._refuse_others({digest for (digest,) in rows})
        return own

    def _refuse_others(self, known: set[str]) -> None:
        """Raise LedgerError if these records are not those on record; an empty digest stands for unknown ones."""
        if self._records is not None and not known <= {self._records, ""}:
            raise LedgerError(_OTHER_RECORDS.format(self._called, add_command(self._store.path, self.name)))

    @property
    def _called(self) -> str:
        return f"revision {self.revision!r} of {self.name!r}" if self.revision else repr(self.name)

    def _scope(self, cohorts: Sequence[Cohort] | None = None) -> Scope:
        """Return whose labels these are; raise LedgerError if they are neither of the cohort nor of the dataset."""
        known = self.cohorts if cohorts is None else cohorts
        cohort = None if self._cohort is None else self._cohort.name
        return scope_of(known, cohort, self._records, (self._store.path, self.name))

    def compare(self, domain: Domain | Declared, encode: Callable[[], Encoded]) -> Encoded:
        """Compare labels with a domain that is on disk, and put the outcome on disk before it is disclosed.

        Refuse all that can be refused without reading labels before calling this.

        Args:
            domain: the domain; the first one of a dataset becomes its declared domain.
            encode: compares the labels, and returns them encoded.

        Returns:
            The encoded labels.

        Raises:
            DomainError: a label is missing or outside of the domain; the sentence does not depend on the labels, and
                the refusal is counted.
            LedgerError: another domain was declared before, or the file cannot be used; nothing was compared.
        """
        declared = domain if isinstance(domain, Declared) else as_declared(domain)
        if (declared.form,) not in self._rows("SELECT form FROM domain", since=2):
            with self._open() as (connection, dataset):
                declare_first(connection, dataset, declared, self._store.path)
        refused: Exception | None = None
        try:
            found = encode()
        except Exception as error:
            if isinstance(error, LabelDPError) and not isinstance(error, DomainError):
                raise  # about a file or an argument, not a label
            refused = error.with_traceback(None) if isinstance(error, DomainError) else error
        # Success is written like a refusal, so that a ledger that cannot be written discloses neither.
        with self._open() as (connection, dataset):
            count = "passed = passed + 1" if refused is None else "refused = refused + 1"
            place = (dataset.id, declared.form)
            connection.execute(f"UPDATE domain SET {count} WHERE dataset = ? AND form = ?", place)
        if isinstance(refused, DomainError) and isinstance(domain, Domain):
            raise DomainError(self._refusal(domain, declared))
        if refused is not None:
            raise refused
        return found

    def _refusal(self, domain: Domain, declared: Declared) -> str:
        """Return the message for labels outside of the domain, which depends on the domain alone."""
        clip = isinstance(domain, Interval) and not domain.clip
        ends = "count numbers outside as the nearest end (--clip), " if clip else ""
        what = "labels or features" if isinstance(domain, Located) else "labels"
        return (
            f"{what} must lie in the declared domain of {self.name!r}, {declared.words}; at least one is "
            "missing, outside, or of another kind. Nothing was charged. The refusal is on record, and later "
            f"certificates say so. Clean the labels, {ends}or declare another domain, chosen without looking at them: "
            f"{add_command(self._store.path, self.name)} --change --classes … or --range …"
        )

    def enroll(self) -> str:
        """Return a name for the revision of the dataset, within which ids identify records and labels do not change."""
        return derive_key(self._secret, b"population", self.revision.encode()).hex()[:16]

    def require(self, requests: Sequence[Request]) -> None:
        """Raise BudgetExceeded unless the budget admits all requests; steps charged as much before are free."""
        asked = Counter((request.step, request.path, request.loss) for request in requests)
        span = self._scope().span
        more: list[tuple[Path, PrivacyLoss]] = []
        for (step, path, loss), times in asked.items():
            more += [(path, loss)] * max(0, times - self._known(span, step, path, loss))
        self._check(span, more)

    def _known(self, span: Span, step: str | None, path: Path, loss: PrivacyLoss) -> int:
        """Return how many releases of these records and this revision have the same step and cost."""
        if self._store.version < 4:
            known = self._rows("SELECT step, charge FROM release", "AND revision = ?", self.revision)
            held = ((name, charge_from(text)) for name, text in known)
            return sum((name, charge.path, charge.loss) == (step, path, loss) for name, charge in held)
        where = "AND revision = ? AND cost = ? AND low = ? AND high = ? AND step IS ?"
        values = (self.revision, cost_digest(path, loss), *span, step)
        return len(self._rows("SELECT 1 FROM release", where, *values))

    def _check(self, span: Span, more: Iterable[tuple[Path, PrivacyLoss]]) -> None:
        """Raise BudgetExceeded unless the budget admits more charges of some cohorts."""
        if self._store.version < 4:
            bounds = {0: self._totals().of_cohort(0).bound}
        else:
            bounds = bounds_from(self._rows("SELECT cohort, pure, rho, failures FROM bound", order="cohort"), span)
        check_cohorts(self.budget, bounds, self._totals, more, self.name)

    def check_labels(self, request: Request) -> None:
        """Raise LedgerError if the labels are not those of earlier requests, and record it; charge nothing."""
        with self._transaction(request, keep=False):
            pass

    def afford(self, mechanism: Any) -> None:
        """Raise BudgetExceeded if the budget does not admit a mechanism on all records, before any label is read.

        A mechanism that was charged before is admitted, since its release may be found again. As long as it is not
        known which records they are (`of_records`), the cohort that is in all of them counts.
        """
        first = 0 if self._cohort is None else self._cohort.number
        span = (first, first) if self._records is None else self._scope().span
        if not self._has_made(span, mechanism.specification()):
            self._check(span, [((), mechanism.privacy_loss())])

    def _has_made(self, span: Span, specification: Any) -> bool:
        """Return whether this revision has a release of all of some records by such a mechanism.

        Of records that are not known yet only the first cohort is: then a release of more of them counts, too.
        """
        if self._store.version < 4:
            rows = self._rows("SELECT charge FROM release", "AND revision = ?", self.revision)
            here = [charge_from(text) for (text,) in rows]
            public = text_of(specification)
            return any(not charge.path and text_of(dict(charge.mechanism)) == public for charge in here)
        place = (self.revision, made_digest(specification), span[0])
        found = self._rows("SELECT high FROM release", "AND revision = ? AND made = ? AND low = ?", *place)
        return any(self._records is None or high == span[1] for (high,) in found)

    def draw(self, request: Request, mechanism: Any, make: Callable[[], Any]) -> Drawn:
        """Charge, draw and store in one transaction, or return the stored answer to the same request.

        Args:
            request: the request. A stage (`request.step`) is found again whatever its candidate sets.
            mechanism: the mechanism of the request.
            make: draws the value, an array; called at most once, after the budget was checked.

        Returns:
            The value, its certificate and its mechanism; for a stage that was found again, the stored mechanism.

        Raises:
            BudgetExceeded: nothing was charged and nothing drawn.
            LedgerError: the labels changed, or the file cannot be used; nothing was charged.
        """
        with self._transaction(request) as transaction:
            found = transaction.find_held(request, mechanism)
            known = None if found else transaction.find_recomputable(request)
            if known:
                found = Drawn(make(), mechanism, known[1])
            elif found is None:
                charge = self._charge(transaction, request)
                value = make()
                found = Drawn(value, mechanism, transaction.write(request, mechanism, charge, value))
        return found

    def charge_stream(self, request: Request, mechanism: Any) -> Certificate:
        """Commit the charge of a release that is not stored, or find it again; return its certificate.

        Its noise must be `randomness.bind(request.context())`, so that it can be recomputed at any time.

        Raises:
            BudgetExceeded, LedgerError: as `draw` does.
        """
        with self._transaction(request) as transaction:
            known = transaction.find_recomputable(request)
            return known[1] if known else transaction.write(request, mechanism, self._charge(transaction, request))

    def find_stream(self, request: Request) -> Charge | None:
        """Return the charge of a stream that was charged before, or None; charge nothing.

        If the labels changed, that is counted before it is disclosed.
        """
        same = (self.revision, text_of(request.identity()))
        if rows := self._rows("SELECT charge FROM release", "AND revision = ? AND identity = ?", *same):
            return charge_from(rows[0][0])
        with self._open() as (connection, dataset):
            transaction = self._begin(connection, dataset)
            if not transaction.has_same_labels(request):
                transaction.count_difference()
        return None

    @contextmanager
    def _transaction(self, request: Request, *, keep: bool = True) -> Iterator[LedgerTransaction]:
        """Open a transaction on the dataset; refuse labels that changed, and store the traces of others if `keep`."""
        if not request.labels or not request.traces:
            raise InputError("request must hold digests of the labels: a durable ledger tells by them what is the same")
        with self._open() as (connection, dataset):
            transaction = self._begin(connection, dataset)
            same = transaction.has_same_labels(request)
            if same:
                if keep:
                    transaction.keep_traces(request)
                yield transaction
            else:
                transaction.count_difference()  # on disk before it is disclosed
        if not same:
            raise LedgerError(_OTHER_LABELS.format(self._called))

    def _begin(self, connection: Connection, dataset: Dataset) -> LedgerTransaction:
        """Return access to the releases of these records; raise LedgerError if they are not those of the dataset."""
        scope = self._scope(cohorts_of(connection, dataset.id))
        if not scope.names:
            known = traces_of(connection, dataset.id, self.revision).get((ANY_KIND, IDS_KIND), {})
            self._refuse_others(set(known.values()))
        return LedgerTransaction(connection, dataset, self.revision, scope, self._records)

    @contextmanager
    def _open(self) -> Iterator[tuple[Connection, Dataset]]:
        """Open a transaction on the dataset, which is added if it is the first of a new file."""
        with self._store.writing(create=self._proposed is not None) as connection:
            known = find_dataset(connection, self.name)
            if known is None and self._proposed is not None:
                if others := dataset_names(connection):
                    raise unknown_dataset(self._store.path, self.name, others)  # the file appeared meanwhile
                insert_dataset(connection, self.name, self._proposed, self._secret)
                known = find_dataset(connection, self.name)
            if known is None or known.secret != self._secret:
                raise LedgerError(f"the dataset {self.name!r} was added or replaced meanwhile: run again")
            yield connection, known

    def _charge(self, transaction: LedgerTransaction, request: Request) -> Charge:
        """Return a new charge; raise BudgetExceeded if the budget does not admit it."""
        dataset, connection, scope = transaction.dataset, transaction.connection, transaction.scope
        bounds, totals = read_bounds(connection, dataset.id, scope.span), partial(read_totals, connection, dataset.id)
        check_cohorts(dataset.budget, bounds, totals, [(request.path, request.loss)], self.name)
        path = (*scope.path(dataset.secret), *request.path)
        return Charge(secrets.token_hex(8), path, request.loss, request.mechanism)

    def __repr__(self) -> str:
        revision = f", revision={self.revision!r}" if self.revision else ""
        cohort = f", cohort={self._cohort.name!r}" if self._cohort else ""
        return f"DatasetLedger(name={self.name!r}{revision}{cohort}, file={str(self._store.path)!r})"

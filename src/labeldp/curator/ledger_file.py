"""The durable ledger: a file of datasets, and the ledger of each of them."""

import json
import os
import secrets
import shlex
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from fractions import Fraction
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from typing import Any, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from labeldp.curator.declared import Declared, declare, declared_domains, disclosures
from labeldp.curator.ledger_store import Store, pack, unpack
from labeldp.curator.ledger_totals import add_charge, cost_digest, digests_of, made_digest, read_bound, read_totals
from labeldp.mechanisms import Domain, Interval, Located
from labeldp.privacy import (
    Bound,
    Budget,
    BudgetExceeded,
    Certificate,
    Charge,
    DomainError,
    Drawn,
    InputError,
    KeyedRandomness,
    LabelDPError,
    LedgerError,
    NotCopyable,
    PrivacyLoss,
    RandomnessKind,
    Request,
    Totals,
    Trust,
    check_budget,
    decimal,
    derive_key,
)
from labeldp.privacy import (
    Path as ChargePath,
)

Encoded = TypeVar("Encoded")

SECRET_BYTES = 32

IDS = 2
"""How new datasets name records: 1, integers apart from texts, is what datasets of versions 1 and 2 keep; 2,
`RecordIds`."""

_OTHER_LABELS = (
    "these are not the labels or losses that were released before as {}; nothing was charged. Where some were "
    "corrected or rows were added, name the new state (revision, --revision NAME): it is charged in addition. "
    "Those of other people are a dataset of their own"
)


@final
class LedgerFile(NotCopyable):
    """A file that remembers every release of some datasets: budget, charges, values, and the key of keyed noise.

    Use one for all releases of a column of labels, by any number of processes and runs. Asking for the same release
    again returns the same bits and costs nothing. The file is as secret as the labels, since its keys can remove the
    noise: keep it beside them, and never restore an older copy, which forgets what was spent.

    Args:
        path: path of the file. If it does not exist, it is created when the first dataset is added or charged.

    Guarantee: a value leaves only after its charge is on disk; processes that share the file never pass a budget
        together; the file is readable by its owner alone.

    Raises:
        LedgerError: the file is not a ledger, is of another version, is open to other users, or cannot be read. It is
            not changed.

    Examples:
        >>> import tempfile, labeldp as ldp
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = LedgerFile(folder.name + "/ledger.db")
        >>> ledger.add("people", ldp.Budget(epsilon=2))
        >>> people = ledger.dataset("people")
        >>> curator = ldp.Curator(["no", "yes", "no"], domain=ldp.Classes(("no", "yes")), ledger=people)
        >>> mechanism = ldp.RandomizedResponse(domain=curator.domain, epsilon=1)
        >>> first, again = (curator.release(mechanism, rng=ldp.SystemRandomness()) for _ in range(2))
        >>> bool((first.value == again.value).all()), people.spent.epsilon()
        (True, 1.0)
        >>> folder.cleanup()
    """

    _why_no_copy = "a LedgerFile cannot be copied or pickled: open the file where it is needed, LedgerFile(path)"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._store = Store(path)

    @property
    def path(self) -> Path:
        """Path of the file, which may not exist yet."""
        return self._store.path

    @property
    def exists(self) -> bool:
        """Whether the file exists."""
        return self._store.exists

    def datasets(self) -> tuple[str, ...]:
        """Return the names of the datasets, in the order in which they were added."""
        return tuple(name for (name,) in self._store.rows("SELECT name FROM dataset ORDER BY id"))

    def add(self, name: str, budget: Budget, domain: Domain | None = None) -> None:
        """Add a dataset. Adding it again with the same budget and domain changes nothing.

        Args:
            name: name of the dataset, such as "adult"; it appears in certificates.
            budget: the most that all its releases may cost together.
            domain: domain of its labels; by default the first one that labels are compared with.

        Raises:
            LedgerError: the dataset has another budget or domain; `set_budget` and `set_domain` change it.
        """
        _require_text(name, "name")
        declared = None if domain is None else _declared(domain)
        with self._store.writing(create=True) as connection:
            known = find_dataset(connection, name)
            if known is None:
                insert_dataset(connection, name, budget)
            elif budget_texts(known.budget) != budget_texts(budget):
                raise LedgerError(
                    f"the dataset {name!r} has a budget already ({known.budget}); "
                    "to change it is a decision of its own: LedgerFile.set_budget, or labeldp ledger add --change"
                )
            if declared is not None:
                _declare_first(connection, known_dataset(connection, self.path, name), declared, self.path)

    def set_budget(self, name: str, budget: Budget, why: str | None = None) -> None:
        """Change the budget of a dataset and record the change; what was spent stays spent.

        Args:
            name: name of the dataset.
            budget: the new budget.
            why: the reason, in words.

        Raises:
            BudgetExceeded: more was spent already.
            LedgerError: the dataset does not exist.
        """
        self.change(name, budget, None, why)

    def set_domain(self, name: str, domain: Domain, why: str | None = None) -> None:
        """Declare another domain for a dataset, in addition to those that were declared before.

        Whether labels fit a domain is a bit about all of them that no epsilon covers, so certificates of later
        releases count every change. A domain that was declared before changes nothing; nor do another order of the
        classes, another grid, or `clip`.

        Args:
            name: name of the dataset.
            domain: domain of its labels.
            why: the reason, in words.

        Raises:
            LedgerError: the dataset does not exist.
        """
        self.change(name, None, domain, why)

    def change(self, name: str, budget: Budget | None, domain: Domain | None, why: str | None = None) -> None:
        """Do what `set_budget` and `set_domain` do, both or neither; None changes nothing."""
        if why is not None:
            _require_text(why, "why", "the questionnaire has a new answer")
        declared = None if domain is None else _declared(domain)
        with self._store.writing() as connection:
            known = known_dataset(connection, self.path, name)
            if budget is not None:
                _change_budget(connection, known, budget, why)
            if declared is not None:
                _change_domain(connection, known, declared, why)

    def dataset(self, name: str, *, revision: str | None = None, budget: Budget | None = None) -> "DatasetLedger":
        """Return the ledger of one dataset, for a curator.

        Args:
            name: name of the dataset.
            revision: names another state of its labels. Labels that changed are refused without one, since two
                releases of nearly the same labels reveal what changed; under a revision they are charged in addition.
            budget: if the file does not exist yet, the budget with which its first dataset is added before labels are
                read. A known dataset keeps its own.

        Raises:
            LedgerError: the dataset does not exist: it must be added first, since a typing error would be a second
                budget for the same labels.
        """
        _require_text(name, "name")
        if revision is not None:
            _require_text(revision, "revision")
        rows = self._store.rows("SELECT secret FROM dataset WHERE name = ?", (name,))
        if rows:
            scheme = self._store.rows("SELECT ids FROM dataset WHERE name = ?", (name,), since=3)
            return DatasetLedger(self._store, name, revision or "", rows[0][0], None, scheme[0][0] if scheme else 1)
        others = self.datasets()
        if budget is None or others:
            raise unknown_dataset(self.path, name, others)
        return DatasetLedger(self._store, name, revision or "", secrets.token_bytes(SECRET_BYTES), budget, IDS)

    def __repr__(self) -> str:
        return f"LedgerFile({str(self.path)!r})"


@dataclass(frozen=True)
class Entry:
    """The public record of one release in a ledger, without its value and keys.

    Args:
        revision: state of the labels, empty for the first.
        form: "held" if the ledger stores the value, "stream" if it is recomputed from the labels.
        step: run and stage of the release, or None.
        certificate: certificate of the release.
        created: time of the charge, UTC, ISO 8601.
    """

    revision: str
    form: str
    step: str | None
    certificate: Certificate
    created: str


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


@dataclass(frozen=True)
class Dataset:
    """The row of a dataset."""

    id: int
    name: str
    budget: Budget
    secret: bytes = field(repr=False)


@dataclass(frozen=True)
class LedgerTransaction:
    """Access to the releases of one revision of a dataset, in an open transaction."""

    connection: sqlite3.Connection = field(repr=False)
    dataset: Dataset
    revision: str

    def has_same_labels(self, request: Request) -> bool:
        """Return whether the labels of a request are those of earlier ones, as far as their traces tell."""
        known = self._traces()
        return all(known.get((ids, labels), digest) == digest for ids, labels, digest in request.traces)

    def keep_traces(self, request: Request) -> None:
        """Store the traces of a request, with which later ones are compared."""
        known = self._traces()
        new = [(self.dataset.id, self.revision, *trace) for trace in request.traces if trace[:2] not in known]
        self.connection.executemany("INSERT INTO labels VALUES (?, ?, ?, ?, ?)", new)

    def count_difference(self) -> None:
        """Count a refusal of labels that are not those of earlier requests, since it discloses that they differ."""
        self.connection.execute(
            "INSERT INTO difference VALUES (?, ?, 1) ON CONFLICT (dataset, revision) DO UPDATE SET times = times + 1",
            (self.dataset.id, self.revision),
        )

    def _traces(self) -> dict[tuple[str, str], str]:
        rows = self.connection.execute(
            "SELECT scheme, domain, digest FROM labels WHERE dataset = ? AND revision = ?",
            (self.dataset.id, self.revision),
        )
        return {(ids, labels): digest for ids, labels, digest in rows}

    def find_held(self, request: Request, mechanism: Any) -> Drawn | None:
        """Return the stored answer to the same request, else to the same stage with its mechanism; None if new."""
        query = "SELECT value, certificate, arrays FROM release "
        query += "WHERE dataset = ? AND revision = ? AND form = 'held' AND "
        place = (self.dataset.id, self.revision)
        row = self.connection.execute(query + "identity = ?", (*place, text_of(request.identity()))).fetchone()
        if row is None and request.step is not None:
            stage = (*place, text_of(request.identity(with_arrays=False)))
            row = self.connection.execute(query + "stage = ? AND arrays IS NOT NULL ORDER BY id", stage).fetchone()
            mechanism = mechanism if row is None else mechanism.restored(by_row(unpack(row[2]), request))
        if row is None:
            return None
        value = unpack(row[0])
        certificate = Certificate.from_json(json.loads(row[1]))
        return Drawn(by_row(value, request) if per_record(mechanism) else value, mechanism, certificate)

    def find_recomputable(self, request: Request) -> tuple[Charge, Certificate] | None:
        """Return charge and certificate of the same request with keyed noise, which gives the same bits, or None."""
        if request.randomness is not RandomnessKind.KEYED:
            return None
        row = self.connection.execute(
            "SELECT charge, certificate FROM release WHERE dataset = ? AND revision = ? AND identity = ?",
            (self.dataset.id, self.revision, text_of(request.identity())),
        ).fetchone()
        return None if row is None else (charge_from(row[0]), Certificate.from_json(json.loads(row[1])))

    def write(self, request: Request, mechanism: Any, charge: Charge, value: Any = None) -> Certificate:
        """Store a release and return its certificate; a stream has no value."""
        request = replace(request, conditions=(*request.conditions, *disclosures(self.connection, self.dataset.id)))
        certificate = request.certificate(charge, mechanism, self.dataset.name)
        arrays = None if value is None else mechanism.arrays()
        if value is not None and per_record(mechanism):
            value = by_id(value, request)
        row = {
            "dataset": self.dataset.id,
            "revision": self.revision,
            "form": "stream" if value is None else "held",
            "identity": text_of(request.identity()),
            "stage": None if request.step is None else text_of(request.identity(with_arrays=False)),
            "step": request.step,
            "charge": text_of(charge.to_json()),
            "certificate": text_of(certificate.to_json()),
            "value": None if value is None else pack(value),
            "arrays": None if arrays is None else pack(by_id(arrays, request)),
            "created": now(),
        }
        row["cost"], row["made"] = digests_of(charge)
        places = ", ".join(f":{column}" for column in row)
        self.connection.execute(f"INSERT INTO release ({', '.join(row)}) VALUES ({places})", row)
        add_charge(self.connection, self.dataset.id, charge)
        return certificate


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
        self, store: Store, name: str, revision: str, secret: bytes, budget: Budget | None, ids: int = IDS
    ) -> None:
        self.name = name
        self.revision = revision
        self._store, self._secret, self._proposed, self._ids = store, secret, budget, ids

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
        """Privacy loss of all charges together."""
        return self._totals().loss()

    def _totals(self) -> Totals:
        """Read what was charged, equal charges counted."""
        rows = self._rows("SELECT path, loss, times FROM total", order="cost", since=3)
        if rows:
            return read_totals(rows)
        return Totals(Counter((charge.path, charge.loss) for charge in self.charges))  # of an earlier version, or none

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every release of all revisions, oldest first."""
        return tuple(
            Entry(revision, form, step, Certificate.from_json(json.loads(text)), created)
            for revision, form, step, text, created in self._rows(
                "SELECT revision, form, step, certificate, created FROM release"
            )
        )

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
        self, query: str, where: str = "", *values: str, order: str = "id", since: int = 1
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query on this dataset; none if the ledger is of a version before `since`."""
        place = f"WHERE dataset = (SELECT id FROM dataset WHERE name = ?) {where} ORDER BY {order}"
        return self._store.rows(f"{query} {place}", (self.name, *values), since=since)

    @property
    def randomness(self) -> KeyedRandomness:
        """Keyed noise of the dataset's secret and revision; a curator binds it to the whole request."""
        return KeyedRandomness(self._secret, json.dumps(["noise", self.name, self.revision]).encode())

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
        declared = domain if isinstance(domain, Declared) else _declared(domain)
        if (declared.form,) not in self._rows("SELECT form FROM domain", since=2):
            with self._open() as (connection, dataset):
                _declare_first(connection, dataset, declared, self._store.path)
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
        more: list[tuple[ChargePath, PrivacyLoss]] = []
        for (step, path, loss), times in asked.items():
            more += [(path, loss)] * max(0, times - self._known(step, path, loss))
        self._check(more)

    def _known(self, step: str | None, path: ChargePath, loss: PrivacyLoss) -> int:
        """Return how many releases of this revision have the same step and cost."""
        if self._store.version < 3:
            known = self._rows("SELECT step, charge FROM release", "AND revision = ?", self.revision)
            held = ((name, charge_from(text)) for name, text in known)
            return sum((name, charge.path, charge.loss) == (step, path, loss) for name, charge in held)
        where = f"AND revision = ? AND cost = ? AND step {'IS NULL' if step is None else '= ?'}"
        values = (self.revision, cost_digest(path, loss), *(() if step is None else (step,)))
        return len(self._rows("SELECT 1 FROM release", where, *values))

    def _check(self, more: Iterable[tuple[ChargePath, PrivacyLoss]]) -> None:
        """Raise BudgetExceeded unless the budget admits more charges."""
        rows = self._rows("SELECT pure, rho, failures FROM bound", order="dataset", since=3)
        bound = Bound.from_texts(*rows[0]) if rows else self._totals().bound
        check_budget(self.budget, bound, self._totals, more, self.name)

    def check_labels(self, request: Request) -> None:
        """Raise LedgerError if the labels are not those of earlier requests, and record it; charge nothing."""
        with self._transaction(request, keep=False):
            pass

    def afford(self, mechanism: Any) -> None:
        """Raise BudgetExceeded if the budget does not admit a mechanism on all records, before any label is read.

        A mechanism that was charged before is admitted, since its release may be found again.
        """
        if not self._has_made(mechanism.specification()):
            self._check([((), mechanism.privacy_loss())])

    def _has_made(self, specification: Any) -> bool:
        """Return whether this revision has a release of all records by such a mechanism."""
        if self._store.version < 3:
            rows = self._rows("SELECT charge FROM release", "AND revision = ?", self.revision)
            here = [charge_from(text) for (text,) in rows]
            public = text_of(specification)
            return any(not charge.path and text_of(dict(charge.mechanism)) == public for charge in here)
        made = made_digest(specification)
        return bool(self._rows("SELECT 1 FROM release", "AND revision = ? AND made = ?", self.revision, made))

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
            transaction = LedgerTransaction(connection, dataset, self.revision)
            if not transaction.has_same_labels(request):
                transaction.count_difference()
        return None

    @contextmanager
    def _transaction(self, request: Request, *, keep: bool = True) -> Iterator[LedgerTransaction]:
        """Open a transaction on the dataset; refuse labels that changed, and store the traces of others if `keep`."""
        if not request.labels or not request.traces:
            raise InputError("request must hold digests of the labels: a durable ledger tells by them what is the same")
        with self._open() as (connection, dataset):
            transaction = LedgerTransaction(connection, dataset, self.revision)
            same = transaction.has_same_labels(request)
            if same:
                if keep:
                    transaction.keep_traces(request)
                yield transaction
            else:
                transaction.count_difference()  # on disk before it is disclosed
        if not same:
            called = f"revision {self.revision!r} of {self.name!r}" if self.revision else repr(self.name)
            raise LedgerError(_OTHER_LABELS.format(called))

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
        charge = Charge(secrets.token_hex(8), request.path, request.loss, request.mechanism)
        dataset, connection = transaction.dataset, transaction.connection
        bound, totals = read_bound(connection, dataset.id), partial(totals_of, connection, dataset)
        check_budget(dataset.budget, bound, totals, [(charge.path, charge.loss)], self.name)
        return charge

    def __repr__(self) -> str:
        revision = f", revision={self.revision!r}" if self.revision else ""
        return f"DatasetLedger(name={self.name!r}{revision}, file={str(self._store.path)!r})"


def _declared(domain: Any) -> Declared:
    if not isinstance(domain, Domain):
        raise InputError('must be declared, such as Classes(("no", "yes")) or Interval(0, 100)', argument="domain")
    return Declared.of(domain)


def _declare_first(connection: Connection, dataset: Dataset, declared: Declared, path: Path) -> None:
    """Declare the first domain of a dataset; raise LedgerError if others were declared and this one was not."""
    known = declared_domains(connection, dataset.id)
    if not known:
        declare(connection, dataset.id, declared, now())
    elif declared.form not in known:
        raise LedgerError(
            f"the declared domain of {dataset.name!r} is {' or '.join(known.values())}, and not {declared.words}; "
            "no label was looked at, and nothing was charged. Labels must not choose their domain: to declare another "
            "is a step of its own that certificates will count, "
            f"{add_command(path, dataset.name)} --change {declared.options}"
        )


def _change_budget(connection: Connection, dataset: Dataset, budget: Budget, why: str | None) -> None:
    spent, texts = totals_of(connection, dataset).loss(), budget_texts(budget)
    if not budget.admits(spent):
        raise BudgetExceeded(
            f"the budget of {dataset.name!r} cannot be {budget}: "
            f"epsilon = {spent.epsilon(budget.delta):.6g} at that delta was spent already"
        )
    if texts != budget_texts(dataset.budget):
        connection.execute("UPDATE dataset SET epsilon = ?, delta = ? WHERE id = ?", (*texts, dataset.id))
        record_change(connection, dataset, "budget", str(dataset.budget), str(budget), why)


def _change_domain(connection: Connection, dataset: Dataset, declared: Declared, why: str | None) -> None:
    before = declared_domains(connection, dataset.id)
    if declared.form not in before:
        declare(connection, dataset.id, declared, now())
        if before:
            record_change(connection, dataset, "declared domain", " or ".join(before.values()), declared.words, why)


def _require_text(value: Any, argument: str, example: str = "adult-2026") -> None:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise InputError(f"must be a printable text that is not empty, such as {example!r}", argument=argument)


def per_record(mechanism: Any) -> bool:
    """Return whether the value of a mechanism has one row for each record."""
    return bool(mechanism.trust is Trust.LOCAL)


def by_id(array: NDArray[Any], request: Request) -> NDArray[Any]:
    """Return the rows of the records in the order of their ids, in which they are stored."""
    return array if request.order is None else array[request.order]


def by_row(array: NDArray[Any], request: Request) -> NDArray[Any]:
    """Return stored rows in the order of the request's records: the inverse of `by_id`."""
    if request.order is None:
        return array
    rows = np.empty_like(array)
    rows[request.order] = array
    return rows


def find_dataset(connection: sqlite3.Connection, name: str) -> Dataset | None:
    """Return the dataset of a name, or None."""
    row = connection.execute("SELECT id, epsilon, delta, secret FROM dataset WHERE name = ?", (name,)).fetchone()
    return None if row is None else Dataset(row[0], name, budget_from(row[1], row[2]), row[3])


def dataset_names(connection: sqlite3.Connection) -> list[str]:
    """Return the names of all datasets, in the order in which they were added."""
    return [name for (name,) in connection.execute("SELECT name FROM dataset ORDER BY id")]


def known_dataset(connection: sqlite3.Connection, path: Path, name: str) -> Dataset:
    """Return the dataset of a name; raise LedgerError if it does not exist."""
    found = find_dataset(connection, name)
    if found is None:
        raise unknown_dataset(path, name, dataset_names(connection))
    return found


def unknown_dataset(path: Path, name: str, others: Sequence[str]) -> LedgerError:
    """Return the error for a name that no dataset has, with a similar name if there is one."""
    spelled = {other.casefold(): other for other in others}
    near = get_close_matches(name.casefold(), spelled, n=1)
    listed = ", ".join(repr(other) for other in others) or "none"
    known = f"did you mean {spelled[near[0]]!r}?" if near else f"it has {listed}."
    return LedgerError(
        f"the ledger {path} has no dataset {name!r}; {known} A column of labels has one name and one budget; "
        f"for another column: {add_command(path, name)} --epsilon …"
    )


def add_command(path: Path, name: str) -> str:
    """Return the command that adds or changes a dataset."""
    return f"labeldp ledger add {shlex.quote(str(path))} --dataset {shlex.quote(name)}"


def insert_dataset(connection: sqlite3.Connection, name: str, budget: Budget, secret: bytes | None = None) -> None:
    """Insert a dataset with a given secret, or a new one."""
    connection.execute(
        "INSERT INTO dataset (name, epsilon, delta, secret, created, ids) VALUES (?, ?, ?, ?, ?, ?)",
        (name, *budget_texts(budget), secret or secrets.token_bytes(SECRET_BYTES), now(), IDS),
    )


def record_change(
    connection: sqlite3.Connection, dataset: Dataset, what: str, before: str, after: str, why: str | None
) -> None:
    """Record a change of a dataset's budget or domain."""
    connection.execute(
        "INSERT INTO change (dataset, what, before, after, why, created) VALUES (?, ?, ?, ?, ?, ?)",
        (dataset.id, what, before, after, why, now()),
    )


def totals_of(connection: sqlite3.Connection, dataset: Dataset) -> Totals:
    """Return what was charged to a dataset, under all revisions."""
    query = "SELECT path, loss, times FROM total WHERE dataset = ?"
    return read_totals(connection.execute(query, (dataset.id,)).fetchall())


def charge_from(text: str) -> Charge:
    """Parse a stored charge."""
    return Charge.from_json(json.loads(text))


def budget_texts(budget: Budget) -> tuple[str, str]:
    """Return epsilon and delta as exact texts: integers or fractions of integers."""
    return str(decimal(budget.epsilon, "epsilon")), str(decimal(budget.delta, "delta"))


def budget_from(epsilon: str, delta: str) -> Budget:
    """Return the inverse of `budget_texts`."""
    return Budget(epsilon=_number(epsilon), delta=_number(delta))


def _number(text: str) -> float | Fraction:
    """Return the float that prints as the stored number if there is one, else a fraction."""
    exact = Fraction(text)
    return float(exact) if Fraction(repr(float(exact))) == exact else exact


def text_of(value: Any) -> str:
    """Return JSON text that is the same for the same values."""
    return json.dumps(value, sort_keys=True)


def now() -> str:
    """Return the time in UTC, in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")

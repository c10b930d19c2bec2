"""Releases of a ledger file in a transaction: compared with earlier ones, found again, or written; their records."""

import hashlib
from dataclasses import dataclass, field, replace
from sqlite3 import Connection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labeldp.accounting import Cost, Entry, Payment
from labeldp.curator.cohorts import CohortSpan
from labeldp.curator.datasets import (
    STATE,
    Dataset,
    State,
    are_expected,
    charge_from,
    cost_digest,
    disclosures,
    made_digest,
    new_traces,
    now,
    restorations,
    text_of,
    traces_of,
)
from labeldp.curator.ledger_store import pack, unpack
from labeldp.curator.paid import as_path
from labeldp.privacy import (
    Certificate,
    Charge,
    Draw,
    Path,
    PendingCharge,
    RandomnessKind,
    Request,
    Span,
    Trust,
    derive_key,
    read_stored,
)


class Paid(NamedTuple):
    """A charge, and how it was paid; a note, which costs nothing, has no payment."""

    charge: Charge
    payment: Payment | None = None


@dataclass(frozen=True)
class LedgerTransaction:
    """Access to the releases of one state of the labels of some records, in an open transaction."""

    connection: Connection = field(repr=False)
    dataset: Dataset
    state: State
    cohorts: CohortSpan
    records: str | None = field(repr=False)

    def has_same_labels(self, request: PendingCharge) -> bool:
        """Return whether the labels of a request are those of earlier ones, as far as their traces tell."""
        return are_expected(traces_of(self.connection, self.state), request, self.cohorts.span)

    def keep_traces(self, request: PendingCharge) -> None:
        """Store the traces of a request, with which later ones are compared."""
        new = new_traces(traces_of(self.connection, self.state), request, self.cohorts.span, self.records)
        key = (*self.state, *self.cohorts.span)
        rows = [(*key, *kinds, digest) for kinds, digest in new.items()]
        self.connection.executemany("INSERT OR REPLACE INTO labels VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def keep_request(self, request: Request) -> None:
        """Store a request, once."""
        row = (request.digest, text_of(request.to_json()), now())
        self.connection.execute("INSERT OR IGNORE INTO request VALUES (?, ?, ?)", row)

    def count_difference(self) -> None:
        """Count a refusal of labels that are not those of earlier requests, since it discloses that they differ."""
        self.connection.execute(
            "INSERT INTO difference VALUES (?, ?, ?, ?, 1) "
            "ON CONFLICT (dataset, label_column, generation, revision) DO UPDATE SET times = times + 1",
            self.state,
        )

    def find_held(self, request: PendingCharge, mechanism: Any) -> Draw | None:
        """Return the stored answer to the same request, else to the same stage with its mechanism; else None."""
        query = f"SELECT value, certificate, arrays FROM release WHERE {STATE} AND form = 'held' AND "
        row = self.connection.execute(query + "identity = ?", (*self.state, text_of(request.identity()))).fetchone()
        if row is None and request.step is not None:
            stage = (*self.state, text_of(request.identity(with_arrays=False)))
            row = self.connection.execute(query + "stage = ? AND arrays IS NOT NULL ORDER BY id", stage).fetchone()
            mechanism = mechanism if row is None else mechanism.restored(by_row(unpack(row[2]), request))
        if row is None:
            return None
        value = unpack(row[0])
        certificate = read_stored(row[1], Certificate.from_json)
        return Draw(mechanism, False, by_row(value, request) if per_record(mechanism) else value, certificate)

    def find_recomputable(self, request: PendingCharge) -> tuple[Charge, Certificate] | None:
        """Return charge and certificate of the same request with keyed noise, which gives the same bits, or None."""
        if request.randomness is not RandomnessKind.KEYED:
            return None
        row = self.connection.execute(
            f"SELECT charge, certificate FROM release WHERE {STATE} AND identity = ?",
            (*self.state, text_of(request.identity())),
        ).fetchone()
        return None if row is None else (charge_from(row[0]), read_stored(row[1], Certificate.from_json))

    def write(
        self, request: PendingCharge, mechanism: Any, paid: Paid, value: Any = None, request_digest: str | None = None
    ) -> Certificate:
        """Store a release and return its certificate; a stream has no value. `request_digest` is of the `Request`."""
        charge, entry = paid.charge, paid.payment and paid.payment.entry
        restored = restorations(self.connection, self.dataset.id)
        more = (*disclosures(self.connection, self.dataset.id), *restored, *self.cohorts.conditions)
        request = replace(request, conditions=(*request.conditions, *more))
        certificate = request.certificate(charge, mechanism, self.dataset.name, self.cohorts.names)
        arrays = None if value is None else mechanism.arrays()
        if value is not None and per_record(mechanism):
            value = by_id(value, request)
        row = {
            **dict(zip(("dataset", "label_column", "generation", "revision"), self.state, strict=True)),
            "form": "stream" if value is None else "held",
            "identity": text_of(request.identity()),
            "stage": None if request.step is None else text_of(request.identity(with_arrays=False)),
            "step": request.step,
            "charge": text_of(charge.to_json()),
            "certificate": text_of(certificate.to_json()),
            "value": None if value is None else pack(value),
            "arrays": None if arrays is None else pack(by_id(arrays, request)),
            "created": now(),
            "cost": cost_digest(request.path, charge.loss, charge.unit),
            "made": None if request.path else made_digest(request),
            "low": self.cohorts.span[0],
            "high": self.cohorts.span[1],
            "analyst": request.analyst,
            "paid": None if entry is None else text_of([*entry[:2], entry.cost.to_texts()]),
            "request": request_digest,
        }
        places = ", ".join(f":{column}" for column in row)
        self.connection.execute(f"INSERT INTO release ({', '.join(row)}) VALUES ({places})", row)
        return certificate


def per_record(mechanism: Any) -> bool:
    """Return whether the value of a mechanism has one row for each record."""
    return bool(mechanism.trust is Trust.LOCAL)


def by_id(array: NDArray[Any], request: PendingCharge) -> NDArray[Any]:
    """Return the rows of the records in the order of their ids, in which they are stored."""
    return array if request.order is None else array[request.order]


def by_row(array: NDArray[Any], request: PendingCharge) -> NDArray[Any]:
    """Return stored rows in the order of the request's records: the inverse of `by_id`."""
    if request.order is None:
        return array
    rows = np.empty_like(array)
    rows[request.order] = array
    return rows


def paid_from(row: Any) -> Entry:
    """Return what a release added to the books, as its row has it."""
    (low, high), path, cost = row
    return Entry((low, high), as_path(path), Cost.from_texts(*cost))


def commitment(secret: bytes, charge: str, labels: str) -> str:
    """Return a commitment to labels; without the key of the dataset it tells nothing about them.

    It is the SHA-256 of a nonce, which follows from the dataset's secret and the charge, and of the keyed digest of the
    labels: two charges of the same labels have unlike commitments.
    """
    nonce = derive_key(secret, b"commitment " + charge.encode())
    return hashlib.sha256(nonce + labels.encode()).hexdigest()


@dataclass(frozen=True)
class LedgerEntry:
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
        column: whose labels it used, empty in a dataset without columns.
        analyst: whose share it was charged to, empty where nobody was named.
        generation: number of the keys that its noise was drawn under.
    """

    revision: str
    form: str
    step: str | None
    certificate: Certificate
    created: str
    span: Span = (0, 0)
    cohorts: tuple[str, ...] = ()
    part: Path = ()
    column: str = ""
    analyst: str = ""
    generation: int = 1


@dataclass(frozen=True)
class Change:
    """The public record of a change of a dataset's budget, declared domain, keys or file.

    Args:
        what: "budget", "declared domain", "number of records", "keys", or "ledger" where it was restored from a backup.
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
        column: whose labels they were, empty in a dataset without columns.
    """

    words: str
    passed: int
    refused: int
    created: str
    column: str = ""

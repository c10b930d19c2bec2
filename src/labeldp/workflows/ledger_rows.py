"""The tables of a ledger file: what a dataset's rows say, and how they are written."""

import json
import secrets
import shlex
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import Budget, Certificate, Charge, Drawn, LedgerError, RandomnessKind, Request, Trust, decimal
from labeldp.workflows.declared import told
from labeldp.workflows.ledger_store import pack, unpack

SECRET_BYTES = 32


@dataclass(frozen=True)
class Dataset:
    """A dataset's row."""

    id: int
    name: str
    budget: Budget
    secret: bytes = field(repr=False)


@dataclass(frozen=True)
class Shelf:
    """Where the releases of one state of a dataset's labels stand, in an open transaction."""

    connection: sqlite3.Connection = field(repr=False)
    dataset: Dataset
    revision: str

    def is_of(self, request: Request) -> bool:
        """Whether the request is about the labels of earlier ones, as far as their traces tell."""
        known = self._traces()
        return all(known.get((ids, labels), digest) == digest for ids, labels, digest in request.whole)

    def keep_traces(self, request: Request) -> None:
        """Keep what later requests are compared with."""
        known = self._traces()
        new = [(self.dataset.id, self.revision, *trace) for trace in request.whole if trace[:2] not in known]
        self.connection.executemany("INSERT INTO labels VALUES (?, ?, ?, ?, ?)", new)

    def count_difference(self) -> None:
        """Put on record that other labels than those of before were refused: that they differ is told by it."""
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

    def held(self, request: Request, mechanism: Any) -> Drawn | None:
        """What the same request was answered before; else the same stage, with its stored mechanism."""
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

    def recomputable(self, request: Request) -> tuple[Charge, Certificate] | None:
        """Charge and certificate of the same request, held or streamed: its keyed noise gives the same bits again."""
        if request.randomness is not RandomnessKind.KEYED:
            return None
        row = self.connection.execute(
            "SELECT charge, certificate FROM release WHERE dataset = ? AND revision = ? AND identity = ?",
            (self.dataset.id, self.revision, text_of(request.identity())),
        ).fetchone()
        return None if row is None else (charge_from(row[0]), Certificate.from_json(json.loads(row[1])))

    def write(self, request: Request, mechanism: Any, charge: Charge, value: Any = None) -> Certificate:
        """Remember a release, and return its certificate; a stream has no value."""
        request = replace(request, conditions=(*request.conditions, *told(self.connection, self.dataset.id)))
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
        places = ", ".join(f":{column}" for column in row)
        self.connection.execute(f"INSERT INTO release ({', '.join(row)}) VALUES ({places})", row)
        return certificate


def per_record(mechanism: Any) -> bool:
    """Whether a value has one row for each record."""
    return bool(mechanism.trust is Trust.LOCAL)


def by_id(array: NDArray[Any], request: Request) -> NDArray[Any]:
    """Rows of the records, in the order of their ids: so they are kept."""
    return array if request.order is None else array[request.order]


def by_row(array: NDArray[Any], request: Request) -> NDArray[Any]:
    """Kept rows in the order of the request's records: the inverse of `by_id`."""
    if request.order is None:
        return array
    rows = np.empty_like(array)
    rows[request.order] = array
    return rows


def find_dataset(connection: sqlite3.Connection, name: str) -> Dataset | None:
    """The dataset of a name."""
    row = connection.execute("SELECT id, epsilon, delta, secret FROM dataset WHERE name = ?", (name,)).fetchone()
    return None if row is None else Dataset(row[0], name, budget_from(row[1], row[2]), row[3])


def known_dataset(connection: sqlite3.Connection, path: Path, name: str) -> Dataset:
    """The dataset of a name, which must be there."""
    found = find_dataset(connection, name)
    if found is None:
        raise unknown(path, name, [other for (other,) in connection.execute("SELECT name FROM dataset ORDER BY id")])
    return found


def unknown(path: Path, name: str, others: Sequence[str]) -> LedgerError:
    """Return the refusal of a name that no dataset has: a typing error, or one to be added on purpose."""
    spelled = {other.casefold(): other for other in others}
    near = get_close_matches(name.casefold(), spelled, n=1)
    listed = ", ".join(repr(other) for other in others) or "none"
    known = f"did you mean {spelled[near[0]]!r}?" if near else f"it has {listed}."
    return LedgerError(
        f"the ledger {path} has no dataset {name!r}; {known} A column of labels has one name and one budget; "
        f"for another column: {adding(path, name)} --epsilon …"
    )


def adding(path: Path, name: str) -> str:
    """Return the command that adds or changes a dataset."""
    return f"labeldp ledger add {shlex.quote(str(path))} --dataset {shlex.quote(name)}"


def insert_dataset(connection: sqlite3.Connection, name: str, budget: Budget, secret: bytes | None = None) -> None:
    """A new dataset under a new secret, or one that was drawn for it."""
    connection.execute(
        "INSERT INTO dataset (name, epsilon, delta, secret, created) VALUES (?, ?, ?, ?, ?)",
        (name, *budget_texts(budget), secret or secrets.token_bytes(SECRET_BYTES), now()),
    )


def note_change(
    connection: sqlite3.Connection, dataset: Dataset, what: str, before: str, after: str, why: str | None
) -> None:
    """Remember that a dataset's budget or domain was changed."""
    connection.execute(
        "INSERT INTO change (dataset, what, before, after, why, created) VALUES (?, ?, ?, ?, ?, ?)",
        (dataset.id, what, before, after, why, now()),
    )


def charges_of(connection: sqlite3.Connection, dataset: Dataset) -> list[Charge]:
    """Every charge of a dataset, of all revisions, oldest first."""
    rows = connection.execute("SELECT charge FROM release WHERE dataset = ? ORDER BY id", (dataset.id,))
    return [charge_from(text) for (text,) in rows]


def uncharged(requests: Iterable[Request], known: Iterable[tuple[str | None, str]]) -> list[Charge]:
    """What requests would be charged beside rows of (step, charge), each of which answers one that costs the same."""
    held = [(step, charge.path, charge.loss) for step, charge in ((step, charge_from(text)) for step, text in known)]
    found = []
    for request in requests:
        same = (request.step, request.path, request.loss)
        if same in held:
            held.remove(same)
        else:
            found.append(Charge("", request.path, request.loss, {}))
    return found


def charge_from(text: str) -> Charge:
    """A stored charge."""
    return Charge.from_json(json.loads(text))


def budget_texts(budget: Budget) -> tuple[str, str]:
    """Epsilon and delta, exact: as fractions of integers where they are not integers."""
    return str(decimal(budget.epsilon, "epsilon")), str(decimal(budget.delta, "delta"))


def budget_from(epsilon: str, delta: str) -> Budget:
    """The inverse of `budget_texts`."""
    return Budget(epsilon=_number(epsilon), delta=_number(delta))


def _number(text: str) -> float | Fraction:
    """The float that prints as the stored number, where there is one."""
    exact = Fraction(text)
    return float(exact) if Fraction(repr(float(exact))) == exact else exact


def text_of(value: Any) -> str:
    """Plain JSON values as text, the same for the same values."""
    return json.dumps(value, sort_keys=True)


def now() -> str:
    """UTC in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")

"""Totals of a ledger file: kept with each charge, in its transaction, so that one more reads none of the others."""

import hashlib
import json
from sqlite3 import Connection
from typing import Any

from labeldp.privacy import Bound, Charge, Path, PrivacyLoss, Totals


def add_charge(connection: Connection, dataset: int, charge: Charge) -> None:
    """Count a charge that is written in the same transaction."""
    path, loss = _texts(charge.path, charge.loss)
    connection.execute(
        "INSERT INTO total VALUES (?, ?, ?, ?, 1) ON CONFLICT (dataset, cost) DO UPDATE SET times = times + 1",
        (dataset, _digest(path, loss), path, loss),
    )
    bound = read_bound(connection, dataset) + Bound.of(charge.loss)
    connection.execute("INSERT OR REPLACE INTO bound VALUES (?, ?, ?, ?)", (dataset, *bound.to_texts()))


def read_bound(connection: Connection, dataset: int) -> Bound:
    """Return the sums that bound what was charged to a dataset."""
    row = connection.execute("SELECT pure, rho, failures FROM bound WHERE dataset = ?", (dataset,)).fetchone()
    return Bound() if row is None else Bound.from_texts(*row)


def read_totals(rows: list[tuple[str, str, int]]) -> Totals:
    """Return what was charged, from rows of (path, loss, times)."""
    return Totals({(_path(path), PrivacyLoss.from_json(json.loads(loss))): times for path, loss, times in rows})


def cost_digest(path: Path, loss: PrivacyLoss) -> str:
    """Return a digest of where a charge belongs and what it costs, the same for the same costs."""
    return _digest(*_texts(path, loss))


def made_digest(specification: Any) -> str:
    """Return a digest of a mechanism's public specification."""
    return _digest(json.dumps(specification, sort_keys=True))


def digests_of(charge: Charge) -> tuple[str, str | None]:
    """Return the digests by which a release is found: of its cost and, where it used all records, of its mechanism."""
    return cost_digest(charge.path, charge.loss), None if charge.path else made_digest(dict(charge.mechanism))


def migrate_totals(connection: Connection) -> None:
    """Fill the totals of a ledger of an earlier version from its releases."""
    for place, dataset, text in connection.execute("SELECT id, dataset, charge FROM release ORDER BY id").fetchall():
        charge = Charge.from_json(json.loads(text))
        connection.execute("UPDATE release SET cost = ?, made = ? WHERE id = ?", (*digests_of(charge), place))
        add_charge(connection, dataset, charge)


def _texts(path: Path, loss: PrivacyLoss) -> tuple[str, str]:
    return json.dumps(path), json.dumps(loss.to_json(), sort_keys=True)


def _path(text: str) -> Path:
    return tuple((str(split), int(part)) for split, part in json.loads(text))


def _digest(*texts: str) -> str:
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()

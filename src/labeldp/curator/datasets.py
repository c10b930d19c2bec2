"""The datasets of a ledger file: their names, budgets, keys and first declared domains."""

import json
import secrets
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from fractions import Fraction
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from labeldp.curator.declared import Declared, declare, declared_domains
from labeldp.mechanisms import Domain
from labeldp.privacy import Budget, Charge, InputError, LedgerError, decimal

SECRET_BYTES = 32

IDS = 2
"""How new datasets name records: 1, integers apart from texts, is what datasets of versions 1 and 2 keep; 2,
`RecordIds`."""


@dataclass(frozen=True)
class Dataset:
    """The row of a dataset."""

    id: int
    name: str
    budget: Budget
    secret: bytes = field(repr=False)


def find_dataset(connection: Connection, name: str) -> Dataset | None:
    """Return the dataset of a name, or None."""
    row = connection.execute("SELECT id, epsilon, delta, secret FROM dataset WHERE name = ?", (name,)).fetchone()
    return None if row is None else Dataset(row[0], name, budget_from(row[1], row[2]), row[3])


def dataset_names(connection: Connection) -> list[str]:
    """Return the names of all datasets, in the order in which they were added."""
    return [name for (name,) in connection.execute("SELECT name FROM dataset ORDER BY id")]


def known_dataset(connection: Connection, path: Path, name: str) -> Dataset:
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


def insert_dataset(connection: Connection, name: str, budget: Budget, secret: bytes | None = None) -> None:
    """Insert a dataset with a given secret, or a new one."""
    connection.execute(
        "INSERT INTO dataset (name, epsilon, delta, secret, created, ids) VALUES (?, ?, ?, ?, ?, ?)",
        (name, *budget_texts(budget), secret or secrets.token_bytes(SECRET_BYTES), now(), IDS),
    )


def record_change(
    connection: Connection, dataset: Dataset, what: str, before: str, after: str, why: str | None
) -> None:
    """Record a change of a dataset's budget or domain."""
    connection.execute(
        "INSERT INTO change (dataset, what, before, after, why, created) VALUES (?, ?, ?, ?, ?, ?)",
        (dataset.id, what, before, after, why, now()),
    )


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


def as_declared(domain: Any) -> Declared:
    """Return the set that a domain declares; refuse what is no domain."""
    if not isinstance(domain, Domain):
        raise InputError('must be declared, such as Classes(("no", "yes")) or Interval(0, 100)', argument="domain")
    return Declared.of(domain)


def declare_first(connection: Connection, dataset: Dataset, declared: Declared, path: Path) -> None:
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

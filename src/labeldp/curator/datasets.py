"""The datasets of a ledger file: names, budgets, keys, domains, and traces of labels and ids."""

import hashlib
import json
import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from labeldp.mechanisms import Domain
from labeldp.privacy import (
    Budget,
    Charge,
    InputError,
    LedgerError,
    Numbers,
    PendingCharge,
    PrivacyLoss,
    Protection,
    Span,
    Unit,
    add_digests,
    as_written,
    did_you_mean,
    numbers_of,
    read_stored,
    stored_fraction,
)
from labeldp.privacy import Path as ChargePath

SECRET_BYTES = 32

STATE = "dataset = ? AND label_column = ? AND generation = ? AND revision = ?"
"""The rows about one state of the labels of a column, under the keys of one generation: see `State`."""

State = tuple[int, str, int, str]
"""A dataset, the column of its labels, the generation of its keys, and the revision of the labels."""


@dataclass(frozen=True)
class Dataset:
    """The row of a dataset."""

    id: int
    name: str
    budget: Budget
    secret: bytes = field(repr=False)
    generation: int = 1
    records: int | None = None
    protection: Protection = field(default_factory=Protection)


def find_dataset(connection: Connection, name: str) -> Dataset | None:
    """Return the dataset of a name, or None."""
    query = "SELECT id, epsilon, delta, secret, generation, records, unit, users FROM dataset WHERE name = ?"
    row = connection.execute(query, (name,)).fetchone()
    if row is None:
        return None
    number, epsilon, delta, secret, generation, records, unit, users = row
    budget, protection = budget_from(epsilon, delta), protection_from(unit, users)
    return Dataset(number, name, budget, secret, generation, records, protection)


def protection_from(unit: str | None, users: str | None) -> Protection:
    """Return what the account of a dataset protects, from its columns."""
    return Protection(None if unit is None else as_written(lambda: Unit[unit]), users)


def write_protection(connection: Connection, dataset: int, protection: Protection) -> None:
    """Store what the account of a dataset protects."""
    assert protection.unit is not None
    values = (protection.unit.name, protection.users, dataset)
    connection.execute("UPDATE dataset SET unit = ?, users = ? WHERE id = ?", values)


def dataset_names(connection: Connection) -> list[str]:
    """Return the names of all datasets, in the order in which they were added."""
    return [name for (name,) in connection.execute("SELECT name FROM dataset ORDER BY id")]


def known_dataset(connection: Connection, path: Path, name: str) -> Dataset:
    """Return the dataset of a name; raise LedgerError if it does not exist."""
    dataset = find_dataset(connection, name)
    if dataset is None:
        raise unknown_dataset(path, name, dataset_names(connection))
    return dataset


def unknown_dataset(path: Path, name: str, names: Sequence[str]) -> LedgerError:
    """Return the error for a name that no dataset has, with a similar name if there is one."""
    listed = ", ".join(repr(other) for other in names) or "none"
    hint = did_you_mean(name, names) or f"it has {listed}."
    return LedgerError(
        f"the ledger {path} has no dataset {name!r}; {hint} A column of labels has one name and one budget; "
        f"for another column: {add_command(path, name)} --epsilon …. Columns that share a budget are called "
        "DATASET/COLUMN"
    )


def add_command(path: Path, name: str) -> str:
    """Return the command that adds or changes a dataset."""
    words = str(path) if not str(path).startswith("-") else f"./{path}"
    return f"labeldp ledger add {shlex.quote(words)} --dataset {shlex.quote(name)}"


def insert_dataset(connection: Connection, name: str, budget: Budget, secret: bytes | None = None) -> None:
    """Insert a dataset with a given secret, or a new one."""
    connection.execute(
        "INSERT INTO dataset (name, epsilon, delta, secret, created) VALUES (?, ?, ?, ?, ?)",
        (name, *map(str, numbers_of(budget)), secret or secrets.token_bytes(SECRET_BYTES), now()),
    )


def record_change(
    connection: Connection, dataset: Dataset, what: str, before: str, after: str, why: str | None
) -> None:
    """Record a change of a dataset; see `labeldp.curator.ledger_transaction.Change`."""
    connection.execute(
        "INSERT INTO change (dataset, what, before, after, why, created) VALUES (?, ?, ?, ?, ?, ?)",
        (dataset.id, what, before, after, why, now()),
    )


RESTORED = "ledger"
"""What changed where a ledger file was restored from a backup."""


def record_restored(connection: Connection, dataset: Dataset, since: str) -> None:
    """Record that a dataset was restored from a backup of some time, which closes it."""
    record_change(connection, dataset, RESTORED, f"its backup of {since}", "closed until its budget is set", None)


def closed_by(connection: Connection, dataset: int) -> str:
    """Return what a dataset was restored from if its budget was not set since; "" where it takes charges."""
    query = "SELECT what, before FROM change WHERE dataset = ? AND what IN (?, 'budget') ORDER BY id DESC LIMIT 1"
    row = connection.execute(query, (dataset, RESTORED)).fetchone()
    return str(row[1]) if row is not None and row[0] == RESTORED else ""


def refuse_closed(restored: str, path: Path, name: str) -> None:
    """Raise LedgerError if a dataset was restored and its budget was not set again."""
    if restored:
        raise LedgerError(
            f"{name!r} was restored from {restored}, and takes no new release until its budget is set again. Nothing "
            "was charged. Subtract all releases since the backup from the budget, and set the rest: "
            f"{add_command(path, name)} --change --epsilon …. Releases in the backup are found as before"
        )


def restorations(connection: Connection, dataset: int) -> tuple[str, ...]:
    """Return the condition under which certificates of a dataset hold that was restored from backups."""
    query = "SELECT before FROM change WHERE dataset = ? AND what = ? ORDER BY id"
    backups = [before for (before,) in connection.execute(query, (dataset, RESTORED))]
    if not backups:
        return ()
    return (
        f"the ledger was restored from {' and '.join(backups)}, and the budget that was set then leaves room for all "
        "that was released in between",
    )


def charge_from(text: str) -> Charge:
    """Parse a stored charge."""
    return read_stored(text, Charge.from_json)


def budget_from(epsilon: str, delta: str) -> Budget:
    """Return the budget with these exact numbers."""
    return as_written(lambda: Budget(_number(epsilon), _number(delta)))


def numbers_from(rows: Any) -> tuple[Numbers, ...]:
    """Return budgets from their exact texts."""
    return tuple((stored_fraction(epsilon), stored_fraction(delta)) for epsilon, delta in rows)


def cost_digest(path: ChargePath, loss: PrivacyLoss, unit: Unit) -> str:
    """Return a digest of where a charge belongs and what it costs, the same for the same costs."""
    return _digest(json.dumps(path), json.dumps(loss.to_json(), sort_keys=True), unit.name)


def made_digest(request: PendingCharge) -> str:
    """Return a digest of all that the answer to a request depends on beside the records and their labels."""
    names = request.scheme, request.randomness.name, request.unit.name, request.users or ""
    return _digest(json.dumps(dict(request.mechanism), sort_keys=True), *names)


def _digest(*texts: str) -> str:
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def _number(text: str) -> float | Fraction:
    """Return the float that prints as the stored number if there is one, else a fraction."""
    exact = stored_fraction(text)
    return float(exact) if Fraction(repr(float(exact))) == exact else exact


def text_of(value: Any) -> str:
    """Return JSON text that is the same for the same values."""
    return json.dumps(value, sort_keys=True)


def now() -> str:
    """Return the time in UTC, in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Declared:
    """The set that labels are compared with, whatever the grid, the order of classes and the clipping of numbers.

    Args:
        form: identifies the set.
        words: the set in words.
        options: the set as options of a command line.
    """

    form: str
    words: str
    options: str = "--classes … or --range …"

    @classmethod
    def of(cls, domain: Domain) -> "Declared":
        """Return the set that a domain declares."""
        return cls(domain.form, domain.words, domain.option_words)


LOSSES = Declared("losses", "losses in [0, 1], or their levels")
"""The set that the losses of a file are compared with."""


def declared_domains(connection: Connection, dataset: int, column: str) -> dict[str, str]:
    """Return the declared domains of a column of a dataset, words by form, oldest first."""
    query = "SELECT form, words FROM domain WHERE dataset = ? AND label_column = ? ORDER BY id"
    return dict(connection.execute(query, (dataset, column)).fetchall())


def declare(connection: Connection, dataset: int, column: str, domain: Declared, created: str) -> None:
    """Insert a declared domain of a column."""
    connection.execute(
        "INSERT INTO domain (dataset, label_column, form, words, created) VALUES (?, ?, ?, ?, ?)",
        (dataset, column, domain.form, domain.words, created),
    )


def disclosures(connection: Connection, dataset: int) -> tuple[str, ...]:
    """Return the sentence of a certificate on the bits that domain changes and refusals may have disclosed so far."""
    rows = connection.execute("SELECT label_column, refused FROM domain WHERE dataset = ?", (dataset,)).fetchall()
    changes = len(rows) - len({column for column, _ in rows})
    refused = sum(count for _, count in rows)
    query = "SELECT coalesce(sum(times), 0) FROM difference WHERE dataset = ?"
    refused += connection.execute(query, (dataset,)).fetchone()[0]
    if changes <= 0 and not refused:
        return ()
    return (
        "one bit about all labels together, which no epsilon covers, may have been told each time that the declared "
        f"domain was changed ({times(changes)} before this release) or that labels were refused ({times(refused)})",
    )


def times(count: int) -> str:
    """Return a count in words, such as "2 times"."""
    return "1 time" if count == 1 else f"{count} times"


def as_declared(domain: Any) -> Declared:
    """Return the set that a domain declares, or the set itself; refuse what is neither."""
    if isinstance(domain, Declared):
        return domain
    if not isinstance(domain, Domain):
        raise InputError('must be declared, such as Classes(("no", "yes")) or Interval(0, 100)', argument="domain")
    return Declared.of(domain)


def declare_first(connection: Connection, dataset: Dataset, column: str, declared: Declared, path: Path) -> None:
    """Declare the first domain of a column; raise LedgerError if others were declared and this one was not."""
    domains = declared_domains(connection, dataset.id, column)
    refuse_undeclared(declared, domains, path, dataset.name)
    if not domains:
        declare(connection, dataset.id, column, declared, now())


def refuse_undeclared(declared: Declared, domains: Mapping[str, str], path: Path, name: str) -> None:
    """Raise LedgerError if others than a domain were declared; `domains` has their words by form."""
    if domains and declared.form not in domains:
        raise LedgerError(
            f"the declared domain of {name!r} is {' or '.join(domains.values())}, and not {declared.words}. "
            "No label was read, and nothing was charged. To declare another domain, independent of the labels, use "
            "this command; later certificates count the change: "
            f"{add_command(path, name)} --change {declared.options}"
        )


ANY_KIND = "any"
"""The kind of a trace that can be compared whatever the ids, or the labels, are. Where both kinds are this one, the
trace is the number of records."""

IDS_KIND = "ids"
"""The kind of ids that tell records apart in another file, too. As the kind of labels it marks a trace of ids alone,
whose digest is empty where some release did not say whose labels it was about."""

ROWS_KIND = "row numbers"
"""The kind of ids of records without ids."""

Kinds = tuple[str, str]
"""Kind of ids and kind of labels."""

Traces = dict[Kinds, dict[Span, str]]
"""The digest of the labels, by kinds and by the cohorts that they are of."""


def traces_of(connection: Connection, state: State) -> Traces:
    """Return the traces of a state of the labels."""
    query = f"SELECT scheme, domain, low, high, digest FROM labels WHERE {STATE}"
    traces: Traces = {}
    for scheme, domain, low, high, digest in connection.execute(query, state):
        traces.setdefault((scheme, domain), {})[low, high] = digest
    return traces


def expected(stored: Traces, kinds: Kinds, span: Span) -> str | None:
    """Return the digest that labels of some cohorts must have, None if nothing tells.

    Digests of labels with their ids are sums over records: those of cohorts add up to that of all of them.
    """
    traces = stored.get(kinds, {})
    digest = traces.get(span)
    return _sum(traces, span) if digest is None and kinds[0] == IDS_KIND else digest


def _sum(traces: Mapping[Span, str], span: Span) -> str | None:
    """Return the digest of a span from those of others, None if they do not give it."""
    start, end = span[0], span[1] + 1
    reached: dict[int, str] = {start: f"{0:032x}-0"}
    waiting = [start]
    while waiting and end not in reached:
        here = waiting.pop()
        for (low, high), digest in traces.items():
            for first, last, times in ((low, high + 1, 1), (high + 1, low, -1)):
                if first == here and last not in reached:
                    reached[last] = add_digests(reached[here], digest, times)
                    waiting.append(last)
    return reached.get(end)


def are_expected(traces: Traces, request: PendingCharge, span: Span) -> bool:
    """Return whether the labels of a request are those of earlier ones, as far as their traces tell."""
    pairs = ((expected(traces, (ids, labels), span), digest) for ids, labels, digest in request.traces)
    return all(before in (None, now) for before, now in pairs)


def new_traces(traces: Traces, request: PendingCharge, span: Span, records: str | None) -> dict[Kinds, str]:
    """Return the traces of a request that are not stored yet. One of them is of its ids alone.

    Args:
        traces: the stored ones.
        request: has the traces of its labels.
        span: the cohorts of the records.
        records: the digest of their ids; None if it is not known.
    """
    new = {(ids, labels): digest for ids, labels, digest in request.traces if span not in traces.get((ids, labels), {})}
    if request.scheme == IDS_KIND:
        before = traces.get((ANY_KIND, IDS_KIND), {}).get(span)
        digest_of_ids = "" if records is None or before == "" else records
        if before != digest_of_ids:
            new[ANY_KIND, IDS_KIND] = digest_of_ids
    return new


def first_records(connection: Connection, dataset: int) -> dict[State, str]:
    """Return a digest of the ids that a dataset without cohorts was released of, by the state of the labels.

    It is empty where some release had no ids, or did not say them.
    """
    query = "SELECT dataset, label_column, generation, revision, scheme, domain, digest FROM labels WHERE dataset = ?"
    digests: dict[State, str] = {}
    for *row, scheme, domain, digest in connection.execute(query, (dataset,)):
        state: State = (row[0], row[1], row[2], row[3])
        if (scheme, domain) == (ANY_KIND, IDS_KIND):
            digests.setdefault(state, digest)
        elif scheme not in (ANY_KIND, IDS_KIND):
            digests[state] = ""
    return digests

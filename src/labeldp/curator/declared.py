"""Declared domains in a ledger, which are on disk before any label is compared with them."""

import sqlite3
from dataclasses import dataclass

from labeldp.mechanisms import Domain


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


def declared_domains(connection: sqlite3.Connection, dataset: int, column: str) -> dict[str, str]:
    """Return the declared domains of a column of a dataset, words by form, oldest first."""
    query = "SELECT form, words FROM domain WHERE dataset = ? AND label_column = ? ORDER BY id"
    return dict(connection.execute(query, (dataset, column)).fetchall())


def declare(connection: sqlite3.Connection, dataset: int, column: str, domain: Declared, created: str) -> None:
    """Insert a declared domain of a column."""
    connection.execute(
        "INSERT INTO domain (dataset, label_column, form, words, created) VALUES (?, ?, ?, ?, ?)",
        (dataset, column, domain.form, domain.words, created),
    )


def disclosures(connection: sqlite3.Connection, dataset: int) -> tuple[str, ...]:
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

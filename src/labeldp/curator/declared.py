"""Declared domains in a ledger, which are on disk before any label is compared with them."""

import hashlib
import json
import shlex
import sqlite3
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from labeldp.mechanisms import Classes, Domain, Interval
from labeldp.privacy import decimal_text

SHOWN_CLASSES = 10
"""The most classes that a sentence names; of more it names the first and the last."""


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
        if isinstance(domain, Interval):
            ends = decimal_text(domain.low), decimal_text(domain.high)
            content = domain.to_json()
            return cls(_range_form(content), f"numbers from {ends[0]} to {ends[1]}", f"--range {ends[0]},{ends[1]}")
        if isinstance(domain, Classes):
            texts = [str(name) for name in domain.names]
            shown = [repr(text) for text in texts]
            if len(shown) > SHOWN_CLASSES:
                shown[SHOWN_CLASSES - 2 : -1] = ["…"]
            words = f"the {len(texts)} classes {', '.join(shown)}"
            return cls(classes_form(texts), words, _classes_option(domain))
        return cls(json.dumps(domain.to_json(), sort_keys=True), repr(domain))


LOSSES = Declared("losses", "losses in [0, 1], or their levels")
"""The set that the losses of a file are compared with."""


def classes_form(names: list[str]) -> str:
    """Return the form of classes, which does not depend on their order; traces of labels have the same."""
    return f"classes {hashlib.sha256(json.dumps(sorted(names)).encode()).hexdigest()}"


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


def _range_form(content: dict[str, Any]) -> str:
    return json.dumps({"high": str(Fraction(content["high"])), "low": str(Fraction(content["low"]))})


def _classes_option(domain: Classes) -> str:
    """Return the option that declares classes, with `…` if it is long or cannot be written."""
    names = [str(name) for name in domain.names]
    if domain.names == tuple(range(domain.size)):
        return f"--classes {domain.size}"
    plain = len(names) <= SHOWN_CLASSES and all(name.strip() == name and "," not in name and name for name in names)
    return f"--classes {shlex.quote(','.join(names))}" if plain else "--classes …"

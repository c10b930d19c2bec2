"""Declared domains in a ledger, which are on disk before any label is compared with them."""

import hashlib
import json
import shlex
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from labeldp.curator.columns import marked, unmarked
from labeldp.mechanisms import Classes, Domain, Interval
from labeldp.privacy import decimal_text, stored_fraction

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
            return replace(cls._named(list(domain.names)), options=_classes_option(domain))
        return cls(json.dumps(domain.to_json(), sort_keys=True), repr(domain))

    def of_column(self, column: str) -> "Declared":
        """Return the same set, declared for a column of a dataset; see `marked`."""
        return replace(self, form=marked(self.form, column))

    @classmethod
    def _named(cls, names: list[Any]) -> "Declared":
        """Return the set of classes with some names, even with names that `Classes` refuses today."""
        texts = [str(name) for name in names]
        shown = [repr(text) for text in texts]
        if len(shown) > SHOWN_CLASSES:
            shown[SHOWN_CLASSES - 2 : -1] = ["…"]
        return cls(classes_form(texts), f"the {len(texts)} classes {', '.join(shown)}")

    @classmethod
    def of_traces(cls, text: str, names: dict[str, "Declared"]) -> "Declared | None":
        """Return the domain of a release in a ledger of version 1, None if the ledger does not hold it.

        Args:
            text: the kind of labels in a trace.
            names: the classes that the charges name, by form.
        """
        if text.startswith("losses"):
            return LOSSES
        if text.startswith("classes "):
            return names.get(text, cls(text, "the classes of an earlier release"))
        content = json.loads(text) if text.startswith("{") else {}
        if "labels" in content:
            content = content["labels"]
        if "classes" in content:
            return cls._named(content["classes"])
        if not {"low", "high"} <= content.keys():
            return None
        low, high = (float(stored_fraction(content[end])) for end in ("low", "high"))
        return cls(_range_form(content), f"numbers from {decimal_text(low)} to {decimal_text(high)}")


LOSSES = Declared("losses", "losses in [0, 1], or their levels")
"""The set that the losses of a file are compared with."""


def classes_form(names: list[str]) -> str:
    """Return the form of classes, which does not depend on their order; traces of labels have the same."""
    return f"classes {hashlib.sha256(json.dumps(sorted(names)).encode()).hexdigest()}"


def declared_domains(connection: sqlite3.Connection, dataset: int, column: str = "") -> dict[str, str]:
    """Return the declared domains of a dataset, or of a column of it, words by form, oldest first."""
    query = "SELECT form, words FROM domain WHERE dataset = ? ORDER BY id"
    rows = connection.execute(query, (dataset,)).fetchall()
    return {form: words for form, words in rows if unmarked(form)[0] == column}


def declare(connection: sqlite3.Connection, dataset: int, domain: Declared, created: str) -> None:
    """Insert a declared domain."""
    connection.execute(
        "INSERT INTO domain (dataset, form, words, created) VALUES (?, ?, ?, ?)",
        (dataset, domain.form, domain.words, created),
    )


def disclosures(connection: sqlite3.Connection, dataset: int) -> tuple[str, ...]:
    """Return the sentence of a certificate on the bits that domain changes and refusals may have disclosed so far."""
    rows = connection.execute("SELECT form, refused FROM domain WHERE dataset = ?", (dataset,)).fetchall()
    changes = len(rows) - len({unmarked(form)[0] for form, _ in rows})
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


def migrate_domains(connection: sqlite3.Connection) -> None:
    """Fill the table of domains of a ledger of version 1 from its releases."""
    charges = connection.execute("SELECT charge FROM release").fetchall()
    named = {each.form: each for (text,) in charges for each in _classes_in(json.loads(text))}
    traces = connection.execute("SELECT dataset, domain FROM labels WHERE scheme <> 'any' ORDER BY rowid").fetchall()
    for dataset, text in traces:
        found = Declared.of_traces(text, named)
        if found is not None and found.form not in declared_domains(connection, dataset):
            query = "SELECT min(created) FROM release WHERE dataset = ?"
            declare(connection, dataset, found, connection.execute(query, (dataset,)).fetchone()[0] or "")


def _classes_in(content: Any) -> Iterator[Declared]:
    """Yield every domain of classes in the JSON of a charge, at any depth."""
    if isinstance(content, dict):
        if isinstance(content.get("classes"), list) and len(content["classes"]) > 1:
            yield Declared._named(content["classes"])
        content = list(content.values())
    if isinstance(content, list):
        for each in content:
            yield from _classes_in(each)


def _range_form(content: dict[str, Any]) -> str:
    return json.dumps({"high": str(Fraction(content["high"])), "low": str(Fraction(content["low"]))})


def _classes_option(domain: Classes) -> str:
    """Return the option that declares classes, with `…` if it is long or cannot be written."""
    names = [str(name) for name in domain.names]
    if domain.names == tuple(range(domain.size)):
        return f"--classes {domain.size}"
    plain = len(names) <= SHOWN_CLASSES and all(name.strip() == name and "," not in name and name for name in names)
    return f"--classes {shlex.quote(','.join(names))}" if plain else "--classes …"

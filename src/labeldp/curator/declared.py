"""Declared domains as a ledger knows them: on disk before any label is compared with one."""

import hashlib
import json
import shlex
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from labeldp.mechanisms import Classes, Domain, Interval, Located
from labeldp.privacy import decimal_text

SHOWN_CLASSES = 10
"""Of more classes than these, a sentence names the first and the last ones."""


@dataclass(frozen=True)
class Declared:
    """A set that labels are compared with. Neither grid nor order matters, nor whether numbers outside are clipped.

    Args:
        form: the same for the same set.
        words: the set, for people.
        options: how it is written on a command line.
    """

    form: str
    words: str
    options: str = "--classes … or --range …"

    @classmethod
    def of(cls, domain: Domain) -> "Declared":
        """Return what a domain declares; of records in cells, the domain of their labels."""
        if isinstance(domain, Located):
            return cls.of(domain.labels)
        if isinstance(domain, Interval):
            ends = decimal_text(domain.low), decimal_text(domain.high)
            content = domain.to_json()
            return cls(_range_form(content), f"numbers from {ends[0]} to {ends[1]}", f"--range {ends[0]},{ends[1]}")
        if isinstance(domain, Classes):
            names = [str(name) for name in domain.names]
            return cls(classes_form(names), f"the {len(names)} classes {_listed(names)}", _classes_option(domain))
        return cls(json.dumps(domain.to_json(), sort_keys=True), repr(domain))

    @classmethod
    def _named(cls, names: list[Any]) -> "Declared":
        """Classes that a ledger names, be it by names that are refused today."""
        texts = [str(name) for name in names]
        return cls(classes_form(texts), f"the {len(texts)} classes {_listed(texts)}")

    @classmethod
    def of_traces(cls, text: str, names: dict[str, "Declared"]) -> "Declared | None":
        """Return the domain of a release in a ledger of version 1; None where it kept nothing of it.

        Args:
            text: the kind of labels of a trace.
            names: classes that the charges name, by their form.
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
        low, high = (float(Fraction(content[end])) for end in ("low", "high"))
        return cls(_range_form(content), f"numbers from {decimal_text(low)} to {decimal_text(high)}")


LOSSES = Declared("losses", "losses in [0, 1], or their levels")
"""All that losses of a file are ever compared with."""


def classes_form(names: list[str]) -> str:
    """Return classes by their texts, in any order; as traces of labels have them."""
    return f"classes {hashlib.sha256(json.dumps(sorted(names)).encode()).hexdigest()}"


def declared_domains(connection: sqlite3.Connection, dataset: int) -> dict[str, str]:
    """Return the domains of a dataset, in words by their form, oldest first."""
    query = "SELECT form, words FROM domain WHERE dataset = ? ORDER BY id"
    return dict(connection.execute(query, (dataset,)).fetchall())


def declare(connection: sqlite3.Connection, dataset: int, domain: Declared, created: str) -> None:
    """Write a domain down."""
    connection.execute(
        "INSERT INTO domain (dataset, form, words, created) VALUES (?, ?, ?, ?)",
        (dataset, domain.form, domain.words, created),
    )


def disclosures(connection: sqlite3.Connection, dataset: int) -> tuple[str, ...]:
    """Return what a certificate says of the bits that changes of the domain and refusals may have disclosed so far."""
    [(domains, refused)] = connection.execute(
        "SELECT count(*), coalesce(sum(refused), 0) FROM domain WHERE dataset = ?", (dataset,)
    ).fetchall()
    query = "SELECT coalesce(sum(times), 0) FROM difference WHERE dataset = ?"
    refused += connection.execute(query, (dataset,)).fetchone()[0]
    if domains <= 1 and not refused:
        return ()
    return (
        "one bit about all labels together, which no epsilon covers, may have been told each time that the declared "
        f"domain was changed ({times(domains - 1)} before this release) or that labels were refused ({times(refused)})",
    )


def times(count: int) -> str:
    """Return a number of times."""
    return "1 time" if count == 1 else f"{count} times"


def migrate_domains(connection: sqlite3.Connection) -> None:
    """Fill the table of domains with those that labels were released under before there was one."""
    charges = connection.execute("SELECT charge FROM release").fetchall()
    named = {each.form: each for (text,) in charges for each in _classes_in(json.loads(text))}
    traces = connection.execute("SELECT dataset, domain FROM labels WHERE scheme <> 'any' ORDER BY rowid").fetchall()
    for dataset, text in traces:
        found = Declared.of_traces(text, named)
        if found is not None and found.form not in declared_domains(connection, dataset):
            query = "SELECT min(created) FROM release WHERE dataset = ?"
            declare(connection, dataset, found, connection.execute(query, (dataset,)).fetchone()[0] or "")


def _classes_in(content: Any) -> Iterator[Declared]:
    """Yield every domain of classes that a charge names, however deep."""
    if isinstance(content, dict):
        if isinstance(content.get("classes"), list) and len(content["classes"]) > 1:
            yield Declared._named(content["classes"])
        content = list(content.values())
    if isinstance(content, list):
        for each in content:
            yield from _classes_in(each)


def _range_form(content: dict[str, Any]) -> str:
    return json.dumps({"high": str(Fraction(content["high"])), "low": str(Fraction(content["low"]))})


def _listed(names: list[str]) -> str:
    texts = [repr(name) for name in names]
    return ", ".join(texts if len(texts) <= SHOWN_CLASSES else [*texts[: SHOWN_CLASSES - 2], "…", texts[-1]])


def _classes_option(domain: Classes) -> str:
    """Return the option that declares classes, where it is short and can be written."""
    names = [str(name) for name in domain.names]
    if domain.names == tuple(range(domain.size)):
        return f"--classes {domain.size}"
    plain = len(names) <= SHOWN_CLASSES and all(name.strip() == name and "," not in name and name for name in names)
    return f"--classes {shlex.quote(','.join(names))}" if plain else "--classes …"

"""The certificate's entries as a table without repetition: what all of them share is said once."""

from __future__ import annotations

from dataclasses import dataclass

from labeldp.workflows import CertificateRow

_TITLES = {
    "Records": "records",
    "Neighbors": "neighbors",
    "Trust": "trust",
    "Randomness": "randomness",
    "Published": "published",
}


@dataclass(frozen=True)
class Entries:
    """How to show the entries.

    Args:
        columns: title and field of what differs from entry to entry.
        shared: title and text of what is the same for all.
        conditions: every assumption, once, in the order of first mention.
        lettered: whether entries have different assumptions, so that each must point at its own.
    """

    columns: dict[str, str]
    shared: dict[str, str]
    conditions: list[str]
    lettered: bool


def entries(rows: tuple[CertificateRow, ...]) -> Entries:
    """Sort the fields of the entries into columns and shared facts; records always have a column."""
    texts = {title: [getattr(row, field) for row in rows] for title, field in _TITLES.items()}
    columns = {t: field for t, field in _TITLES.items() if field == "records" or len(set(texts[t])) > 1}
    return Entries(
        columns=columns,
        shared={title: found[0] for title, found in texts.items() if title not in columns and found},
        conditions=list(dict.fromkeys(text for row in rows for text in row.assumptions)),
        lettered=len({row.assumptions for row in rows}) > 1,
    )

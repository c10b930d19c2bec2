"""A citation names a work of docs/theory/notation.md, and a page that a docstring points to exists."""

import re

from architecture.source import ROOT, docstrings, files

KEYS = set(re.findall(r"^\| \*\*(\w+)\*\* \|", (ROOT / "docs" / "theory" / "notation.md").read_text(), re.M))
SOURCE = re.compile(r"\bSource:\s+(?:`?(?P<page>docs/[\w./-]+)|(?P<key>\w+))")


def unknown(text: str) -> list[str]:
    """The sources of a docstring that are neither a key nor a page of docs/."""
    return [match[0] for match in SOURCE.finditer(text) if match["page"] is None and match["key"] not in KEYS]


def test_every_source_is_a_known_work() -> None:
    texts = [(file.name, text) for file in files("src") for text in docstrings(file)]
    assert len(texts) > 1000
    assert [(name, source) for name, text in texts for source in unknown(text)] == []
    pages = {(name, page) for name, text in texts for page in re.findall(r"docs/[\w/-]+\.md", text)}
    assert sorted(pair for pair in pages if not (ROOT / pair[1]).exists()) == []


def test_an_unknown_work_is_seen() -> None:
    assert unknown("Source: Ghazi, Algorithm 2.") == unknown("Source:\n    `docs/proofs/split.md`") == []
    assert unknown("The rate. Source: Nobody (1999), Theorem 1.") == ["Source: Nobody"]


def test_the_four_papers_are_there() -> None:
    assert {"Ghazi", "Zhao", "Brahmbhatt", "Asi"} <= KEYS

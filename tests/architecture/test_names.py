"""Local names are nouns: the number of pronouns and participles in a subpackage may only fall."""

import ast
from collections import Counter
from pathlib import Path

import pytest

from architecture.source import PACKAGE, files

REFUSED = {
    *("each", "found", "place", "own", "known", "kept", "asked", "given"),
    *("told", "made", "most", "least", "whole", "rest", "others"),
}

LIMITS = {"learners": 50, "mechanisms": 1, "privacy": 1, "tables": 1}
"""How many of these names a subpackage has today; one that is missing here has none. Limits only fall."""


def refused_names(text: str) -> Counter[str]:
    """The refused names that a source binds: variables, arguments and targets of loops."""
    nodes = [*ast.walk(ast.parse(text))]
    stored = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return Counter(
        name for name in [*stored, *(node.arg for node in nodes if isinstance(node, ast.arg))] if name in REFUSED
    )


def subpackage(file: Path) -> str:
    """The name of the subpackage of a file; a file directly in the package is one, too."""
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def class_names(text: str) -> list[str]:
    """The public classes that a source defines."""
    return [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name[0] != "_"]


@pytest.mark.parametrize("room", sorted({subpackage(file) for file in files("src")}))
def test_local_names_are_nouns(room: str) -> None:
    texts = [file.read_text() for file in files("src") if subpackage(file) == room]
    names = sum(map(refused_names, texts), Counter[str]())
    assert names.total() <= LIMITS.get(room, 0), f"use nouns of the field: {dict(names)}"


def test_a_class_name_occurs_once() -> None:
    names = Counter(name for file in files("src") for name in class_names(file.read_text()))
    assert len(names) > 400
    # of a mechanism, too, since the recorded laws print the name
    assert [name for name, count in names.items() if count > 1] == ["Table"]


def test_pronouns_and_participles_are_seen() -> None:
    text = "def f(given, *, cost):\n  for each, row in cost:\n    found = each.kept\n  return [own for own in row]\n"
    assert refused_names(text) == Counter(["given", "each", "found", "own"])

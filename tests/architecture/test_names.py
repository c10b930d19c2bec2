"""The name of a class is the name of one class."""

import ast
from collections import Counter

from architecture.source import files


def class_names(text: str) -> list[str]:
    """The public classes that a source defines."""
    return [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name[0] != "_"]


def test_a_class_name_occurs_once() -> None:
    names = Counter(name for file in files("src") for name in class_names(file.read_text()))
    assert len(names) > 400
    # of a mechanism, too, since the recorded laws print the name
    assert [name for name, count in names.items() if count > 1] == ["Table"]

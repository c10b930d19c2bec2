"""The name of a class is the name of one class, and names of modules do not collide."""

import ast
import sys
from collections import Counter

from architecture.source import ROOT, files


def class_names(text: str) -> list[str]:
    """The public classes that a source defines."""
    return [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name[0] != "_"]


def test_a_class_name_occurs_once() -> None:
    names = Counter(name for file in files("src") for name in class_names(file.read_text()))
    assert len(names) > 400
    # of a mechanism, too, since the recorded laws print the name
    assert [name for name, count in names.items() if count > 1] == ["Table"]


def test_no_benchmark_has_the_name_of_a_folder_or_module_of_tests() -> None:
    """Some tests import benchmarks: a module there would hide a folder of tests, in whichever order they are collected.

    `python tests/trial/orders.py` collects every pair of folders.
    """
    benchmarks, tests, root = (
        {path.stem for path in place.iterdir() if path.suffix == ".py" or (path.is_dir() and any(path.glob("*.py")))}
        for place in (ROOT / "benchmarks", ROOT / "tests", ROOT)
    )
    assert not benchmarks & (tests | root | sys.stdlib_module_names)
    assert not tests & (root - {"conftest"} | sys.stdlib_module_names)

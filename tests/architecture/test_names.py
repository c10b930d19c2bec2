"""The name of a class is the name of one class, and names of modules do not collide."""

import ast
import re
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

from architecture.source import ROOT, files


def class_names(text: str) -> list[str]:
    """The public classes that a source defines."""
    return [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name[0] != "_"]


def test_a_class_name_occurs_once() -> None:
    names = Counter(name for file in files("src") for name in class_names(file.read_text()))
    assert len(names) > 400
    # of a mechanism, too, since the recorded laws print the name
    assert [name for name, count in names.items() if count > 1] == ["Table"]


def test_folders_of_tests_are_packages_that_nothing_hides() -> None:
    """So no order of collection changes what `import cli` means: a package of tests is first on the path.

    Some tests import benchmarks, whose folder is last on the path. A folder without `__init__.py` would be hidden by
    any module or package of its name.
    """
    folders = {path.parent for path in files("tests")} - {ROOT / "tests"}
    assert [folder.name for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []
    benchmarks, tests, root = (
        {path.stem for path in place.iterdir() if path.suffix == ".py" or (path.is_dir() and any(path.glob("*.py")))}
        for place in (ROOT / "benchmarks", ROOT / "tests", ROOT)
    )
    assert not benchmarks & (tests | root | sys.stdlib_module_names)
    assert not tests & (root - {"conftest"} | sys.stdlib_module_names)
    plain = re.compile(r"^(from conftest import|import conftest)", re.M)  # there are several, and one module of a name
    assert [
        path.name
        for tree in ("tests", "papers", "benchmarks")
        for path in files(tree)
        if plain.search(path.read_text())
    ] == []
    for name in sorted(tests - {"conftest"}):
        spec = find_spec(name)
        assert spec is not None and Path(str(spec.origin)).is_relative_to(ROOT / "tests"), name

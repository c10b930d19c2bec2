"""No file imports another in a circle, imports inside of functions included."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from architecture.source import PACKAGE

Graph = dict[str, set[str]]


def modules() -> dict[str, Path]:
    """Every file below the package, by its name as a module; a stub stands for the names of its room."""
    found = {}
    for path in [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")]:
        parts = ("labeldp", *path.relative_to(PACKAGE).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path: Path, package: str = "") -> Iterator[tuple[str, str]]:
    """The modules and names that a file imports from the package, at any depth."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            module = f"{package}.{node.module}" if node.level else node.module
            if module.split(".")[0] == "labeldp":
                yield from ((module, alias.name) for alias in node.names)


@cache
def graph() -> Graph:
    """Which file imports which. A name that a room exports counts for the file that defines it."""
    files = modules()
    faces = {name: dict(_exported(path, name)) for name, path in files.items() if path.stem == "__init__"}

    def home(module: str, name: str) -> str:
        while module in faces and name in faces[module]:
            module = faces[module][name]
        return f"{module}.{name}" if f"{module}.{name}" in files and module in faces else module

    inner = {name: path for name, path in files.items() if path.stem != "__init__"}
    return {name: {home(*each) for each in imported(path)} & inner.keys() - {name} for name, path in inner.items()}


def _exported(path: Path, package: str) -> Iterator[tuple[str, str]]:
    """Names of a room, each with the module that it is taken from."""
    yield from ((name, module) for module, name in imported(path, package))


def circles(edges: Graph) -> set[str]:
    """The files that can be reached from themselves."""
    reached = {start: set(edges[start]) for start in edges}
    for middle in edges:
        for start in edges:
            if middle in reached[start]:
                reached[start] |= reached[middle]
    return {start for start in edges if start in reached[start]}


def test_no_file_imports_in_a_circle() -> None:
    assert sorted(circles(graph())) == []


def test_a_circle_is_seen_whatever_its_length() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == {"a", "b", "c"}
    assert circles({"a": {"b"}, "b": set()}) == set()


def test_the_graph_is_of_files() -> None:
    found = graph()
    assert "labeldp.privacy.randomness" in found["labeldp.mechanisms.base"]
    assert "labeldp.curator.curator" in found["labeldp.fit.job"]
    assert sum(map(len, found.values())) > 400

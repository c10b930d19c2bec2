"""The source tree as the architecture tests see it."""

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "labeldp"

Function = ast.FunctionDef | ast.AsyncFunctionDef
Promise = tuple[str, str]

GUARANTEE = re.compile(r"^Guarantee( \([^)\n]*\))?:", re.M)

Documented = Function | ast.ClassDef | ast.Module


def files(tree: str) -> list[Path]:
    """The Python files below a top folder of the checkout."""
    return sorted((ROOT / tree).rglob("*.py"))


def definitions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function | ast.ClassDef]]:
    """Every function and class below a node, with its qualified name."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.ClassDef):
            yield prefix + child.name, child
            yield from definitions(child, f"{prefix}{child.name}.")
        else:
            yield from definitions(child, prefix)


def docstrings(file: Path) -> Iterator[str]:
    """Every docstring of a file."""
    module = ast.parse(file.read_text())
    for node in [module, *(node for _, node in definitions(module))]:
        if text := ast.get_docstring(node):
            yield text


@cache
def promises() -> set[Promise]:
    """The keys of all `Guarantee (key, …): …` in docstrings, with their room and definition; a missing key is empty."""
    return {
        (f"labeldp.{file.relative_to(PACKAGE).parts[0].removesuffix('.py')}:{name}", key.strip())
        for file in files("src")
        if "Guarantee" in (text := file.read_text())
        for name, node in definitions(ast.parse(text))
        for keys in GUARANTEE.findall(ast.get_docstring(node) or "")
        for key in keys.strip("() ").split(",")
    }


def broken_promises(promises: set[Promise], marks: set[Promise]) -> list[str]:
    """What is wrong with promises, and with marks of tests that run."""
    return sorted(
        [f"{name}: write `Guarantee (key): …`" for name, key in promises if not key]
        + [f"{name}: no test has the mark `guarantee` with the key {key!r}" for name, key in promises - marks if key]
        + [f"{name}: a test names the guarantee {key!r}, which no docstring has" for name, key in marks - promises]
    )


def room_names() -> list[str]:
    """The rooms that exist: the folders, and the public files, directly under the package; networks where torch is."""
    folders = [path.parent.name for path in PACKAGE.glob("*/__init__.py")]
    folders = [name for name in folders if name != "networks" or find_spec("torch")]
    return sorted(folders + [path.stem for path in PACKAGE.glob("[a-z]*.py")])


def room(name: str) -> ModuleType:
    """A room, imported."""
    return importlib.import_module(f"labeldp.{name}")


def exports(name: str) -> dict[str, object]:
    """What a room exports; that it says so, and that each name exists, is tested in test_exports.py."""
    return {symbol: getattr(room(name), symbol, None) for symbol in getattr(room(name), "__all__", ())}

"""Arrows point one way, and a room speaks through its `__init__`."""

import os
import subprocess
import sys
from pathlib import Path

import grimp

from architecture.source import PACKAGE, ROOT, exports

# (importer, imported) -> why this one may reach into another room.
EXCEPTIONS: dict[tuple[str, str], str] = {}


def lint_imports(search: Path) -> subprocess.CompletedProcess[str]:
    """import-linter with the contracts of pyproject.toml, on the `labeldp` that is found first in a folder."""
    tool = Path(sys.executable).with_name("lint-imports")
    command = [tool, "--no-logo", "--no-cache", "--config", ROOT / "pyproject.toml"]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=search, env={**os.environ, "PYTHONPATH": str(search)}
    )


def test_the_arrows_point_one_way() -> None:
    done = lint_imports(ROOT / "src")
    assert done.returncode == 0, done.stdout


def test_an_arrow_in_the_wrong_direction_and_a_room_that_is_not_drawn_are_seen(tmp_path: Path) -> None:
    rooms = {file.stem: "" for file in PACKAGE.iterdir() if not file.stem.startswith("_")}
    rooms |= {"tables": "import labeldp.audit", "cellar": ""}
    for name, source in rooms.items():
        (tmp_path / "labeldp" / name).mkdir(parents=True)
        (tmp_path / "labeldp" / name / "__init__.py").write_text(source + "\n")
    (tmp_path / "labeldp" / "__init__.py").touch()
    output = lint_imports(tmp_path).stdout
    assert "labeldp.tables is not allowed to import labeldp.audit" in output
    assert "cellar" in output


def reaching_in() -> set[tuple[str, str]]:
    """The imports of another room's inner modules."""
    graph = grimp.build_graph("labeldp", cache_dir=None)
    imports = {(a, b) for a in graph.modules for b in graph.find_modules_directly_imported_by(a)}
    across = {(a, b) for a, b in imports if b.count(".") > 1 and a.split(".")[1:2] != b.split(".")[1:2]}
    return {(a, b) for a, b in across if not is_exported(b)}


def is_exported(module: str) -> bool:
    """True where a room exports a function of the same name as one of its files: the import is of the function."""
    _, name, *inner = module.split(".")
    return len(inner) == 1 and inner[0] in exports(name)


def test_a_room_speaks_through_its_init() -> None:
    assert sorted(reaching_in() - set(EXCEPTIONS)) == []


def test_every_exception_is_needed_and_has_a_reason() -> None:
    assert reaching_in() >= set(EXCEPTIONS)
    assert all(reason.strip() for reason in EXCEPTIONS.values())

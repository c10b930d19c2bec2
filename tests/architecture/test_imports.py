"""`import labeldp` is quick: it loads nothing heavy, and neither does its command line before it is asked to work."""

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

from architecture.source import PACKAGE

HEAVY = ["sklearn", "pyarrow", "matplotlib", "torch", "scipy.stats"]


def loaded_by(statement: str) -> list[str]:
    """The heavy modules that a fresh interpreter has loaded after a statement."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps([name for name in {HEAVY} if name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_by("import labeldp") == []


@pytest.mark.skipif(not find_spec("labeldp.cli"), reason="there is no command line yet")
def test_importing_the_command_line_loads_nothing_heavy() -> None:
    assert loaded_by("import labeldp.cli") == []


@pytest.mark.skipif(not (PACKAGE / "mechanisms" / "__init__.py").exists(), reason="there are no mechanisms yet")
def test_the_core_loads_nothing_heavy() -> None:
    assert loaded_by("import labeldp.privacy, labeldp.mechanisms") == []


@pytest.mark.parametrize("name", [name for name in HEAVY if find_spec(name)])
def test_a_heavy_import_would_be_seen(name: str) -> None:
    assert name in loaded_by(f"import labeldp, {name}")

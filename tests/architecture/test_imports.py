"""`import labeldp` is quick: it loads nothing heavy, and neither does its command line before it is asked to work."""

import json
import subprocess
import sys
from importlib.util import find_spec

HEAVY = ["sklearn", "pyarrow", "matplotlib", "torch", "pyspark", "scipy.stats"]


def loaded_by(statement: str) -> list[str]:
    """The heavy modules that a fresh interpreter has loaded after a statement."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps([name for name in {HEAVY} if name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_by("import labeldp") == []


def test_importing_the_command_line_loads_nothing_heavy() -> None:
    assert loaded_by("import labeldp.cli") == []


def test_the_core_loads_nothing_heavy() -> None:
    assert loaded_by("import labeldp.privacy, labeldp.mechanisms") == []


def test_a_heavy_import_would_be_seen() -> None:
    names = [name for name in HEAVY if find_spec(name)]
    assert loaded_by(f"import labeldp, {', '.join(names)}") == names

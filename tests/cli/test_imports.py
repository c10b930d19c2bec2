"""A command loads what it needs and no more: the learners of scikit-learn wait until something is learned."""

import json
import subprocess
import sys
from pathlib import Path

from conftest import table_of_people

RUN = """
import json, sys
from labeldp.cli import main
sys.argv = ["labeldp", *sys.argv[1:]]
try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def loaded_by(folder: Path, command: str) -> set[str]:
    """Return the modules, and the packages that hold them, that `labeldp COMMAND` loads in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *command.split()], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    names = json.loads(done.stderr.splitlines()[-1])
    return {".".join(name.split(".")[:depth]) for name in names for depth in (1, 2)}


def test_a_fit_its_certificate_and_its_predictions(tmp_path: Path) -> None:
    table_of_people(200, seed=3).to_csv(tmp_path / "people.csv", index=False)
    account = "--label bought --classes no,yes --epsilon 2 --ledger l.db --dataset bought"
    fitted = loaded_by(tmp_path, f"fit people.csv {account} --model logistic --out model")
    assert "sklearn" in fitted
    assert not fitted & {"labeldp.online", "papers", "labeldp.networks"}
    certified = loaded_by(tmp_path, "certificate model")
    assert not certified & {"sklearn", "scipy", "pandas", "labeldp.learners"}


def test_a_plan_without_a_file_learns_nothing() -> None:
    planned = loaded_by(Path(), "plan --n 1e6 --d 4 --classes 2 --epsilon 1")
    assert not planned & {"sklearn", "scipy", "pandas", "labeldp.learners"}


def test_a_ledger_is_shown_without_tables_and_learners(tmp_path: Path) -> None:
    shown = loaded_by(tmp_path, "ledger add l.db --dataset bought --epsilon 2 --classes no,yes")
    assert not shown & {"sklearn", "scipy", "pandas", "pyarrow", "labeldp.learners"}

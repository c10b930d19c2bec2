"""A command loads what it needs and no more: the learners of scikit-learn wait until something is learned.

Where pandas is installed, scikit-learn itself loads it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from people import table_of_people

RUN = """
import json, sys
from labeldp.cli import main
sys.argv = ["labeldp", *sys.argv[1:]]
try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


LEAVES = {f"labeldp.{room}" for room in ["advice", "audit", "bags", "images", "networks", "online", "serve", "spark"]}
"""Rooms that a fit of a table does without."""

MOST_MODULES = 109
"""Modules of ours that a fit of a CSV file may load, its report included; it only falls."""


def finding(path: str) -> dict[str, str]:
    """Return an environment in which an interpreter finds packages in `path` first."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH")]))}


def modules_of(folder: Path, command: str, path: str = "") -> list[str]:
    """Return the modules that `labeldp COMMAND` loads in a fresh interpreter, which finds packages in `path` first."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *command.split()],
        cwd=folder,
        env=finding(path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stderr.splitlines()[-1]))


def loaded_by(folder: Path, command: str) -> set[str]:
    """Return the packages that `labeldp COMMAND` loads, and the parts of each."""
    return {".".join(name.split(".")[:depth]) for name in modules_of(folder, command) for depth in (1, 2)}


@pytest.fixture
def heavy(tmp_path: Path) -> str:
    """A folder with packages named torch, cupy and dask, which stand for the real ones where those are missing."""
    for name in ("torch", "cupy", "dask"):
        (tmp_path / "packages" / name).mkdir(parents=True)
        (tmp_path / "packages" / name / "__init__.py").write_text("__version__ = 'made up'\n")
    return str(tmp_path / "packages")


def test_a_fit_its_predictions_and_its_certificate_load_no_more_than_they_need(tmp_path: Path, heavy: str) -> None:
    table_of_people(200, seed=3).to_csv(tmp_path / "people.csv", index=False)
    account = "--label bought --id id --classes no,yes --epsilon 2 --ledger l.db --dataset bought --new-budget 2"
    for command in (f"fit people.csv {account} --out model", "predict model people.csv --out predicted.csv"):
        names = modules_of(tmp_path, command, heavy)
        packages = {".".join(name.split(".")[:depth]) for name in names for depth in (1, 2)}
        assert not packages & {"torch", "cupy", "dask", "matplotlib", "papers", "pyspark", "pytest", *LEAVES}
        ours = [name for name in names if name.split(".")[0] == "labeldp"]
        assert len(ours) <= MOST_MODULES, sorted(ours)
    assert "labeldp.report" not in packages  # of the predictions
    certified = loaded_by(tmp_path, "certificate model")
    assert not certified & {"sklearn", "scipy", "pandas", "labeldp.learners.plan"}


def test_what_skops_did_without_is_found_when_it_is_asked_for(heavy: str) -> None:
    code = """
import sys
from labeldp.fit.bundle import UNUSED, skops_io
io = skops_io()
assert io is skops_io() and not {"torch", "cupy", "dask"} & set(sys.modules)
assert not set(UNUSED) & set(sys.modules)
assert io.get_untrusted_types(data=io.dumps(__import__("sklearn.linear_model").linear_model.Ridge())) == []
import torch
from importlib.util import find_spec
assert torch.__version__ == "made up" and all(find_spec(name) for name in UNUSED)
"""
    subprocess.run([sys.executable, "-c", code], env=finding(heavy), check=True)


def test_a_plan_without_a_file_learns_nothing() -> None:
    planned = loaded_by(Path(), "plan --n 1e6 --d 4 --classes 2 --epsilon 1")
    assert not planned & {"sklearn", "scipy", "pandas", "labeldp.learners.plan"}


def test_a_ledger_is_shown_without_tables_and_learners(tmp_path: Path) -> None:
    shown = loaded_by(tmp_path, "ledger add l.db --dataset bought --epsilon 2 --classes no,yes")
    assert not shown & {"sklearn", "scipy", "pandas", "pyarrow", "labeldp.learners.plan"}


def test_a_release_of_labels_learns_nothing(tmp_path: Path) -> None:
    table_of_people(200, seed=3).to_csv(tmp_path / "people.csv", index=False)
    account = "--label bought --id id --classes no,yes --epsilon 1 --ledger l.db --dataset bought --new-budget 2"
    released = loaded_by(tmp_path, f"release people.csv {account} --out noisy.csv")
    assert not released & {"sklearn", "scipy", "labeldp.releases.aggregates"}

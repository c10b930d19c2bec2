"""A demonstration on a data set of scikit-learn: from a table to a certified model and its report."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from labeldp.curator import LedgerFile
from labeldp.fit.bundle import REPORT
from labeldp.fit.run import Progress, Render, fit_file
from labeldp.fit.settings import FitSettings
from labeldp.privacy import Budget, InputError, decimal_text
from labeldp.tables import atomic_write

CLASSES = "malignant,benign"
DATASET = "patients"

BUDGET = Budget(10)
"""The lifetime budget of all demos in one directory."""


def run_demo(
    out: str,
    epsilon: str = "1",
    *,
    program: str = "labeldp",
    render: Render | None = None,
    note: Callable[[str], None] | None = None,
    progress: Progress | None = None,
) -> str:
    """Learn who is ill from scikit-learn's breast cancer table, with the diagnosis as the private label.

    A part of the table serves as a public test file. All demos in a directory are charged to one dataset, because
    they are about the same labels. Running the same demo again finishes at once: its labels were released already, and
    its report exists.

    Args:
        out: a directory for the tables, the ledger and the model; created if it does not exist.
        epsilon: privacy parameter of the model.
        program: how the command line is called here.
        render: turns the summary into the report.
        note: called with sentences for the user.
        progress: called with a description and the share of the work that is done.

    Returns:
        The path of the report.

    Raises:
        InputError: the directory cannot be used, or holds other files under the names of the demo's tables.
        BudgetExceeded: earlier demos left too little.
    """
    say = note or (lambda sentence: None)
    settings = _settings(epsilon)
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise InputError(f"--out {out} cannot be made: give a directory that can be written to") from None
    ledger, model = folder / "demo.ledger", folder / f"model_epsilon_{decimal_text(settings.epsilon)}"
    train, test = folder / "patients.csv", folder / "public_patients.csv"
    _write_tables(train, test)
    say(f"{train} and {test}: measurements of tumors, and the diagnosis, which is the private label.")
    _set_budget(ledger, say)
    files: dict[str, Any] = {"ledger": str(ledger), "out": str(model), "test": str(test)}
    summary = fit_file(
        str(train), settings, **files, test_labels_are_public=True, render=render, note=note, progress=progress
    )
    say(summary.sentence)
    accuracy = summary.accuracy
    assert accuracy is not None  # labels are classes
    say(f"Accuracy, estimated from released labels: {accuracy.value:.2f} ({accuracy.low:.2f} to {accuracy.high:.2f}).")
    if summary.test is not None:
        say(f"Accuracy on {summary.test.rows} public test records: {summary.test.accuracy:.3f}.")
    say(f"Try: {program} certificate {model}")
    say(f"Try: {program} ledger show {ledger}")
    return str(model / REPORT)


def _settings(epsilon: str) -> FitSettings:
    return FitSettings.parse(
        label="diagnosis", classes=CLASSES, epsilon=epsilon, delta="0", dataset=DATASET, features=None, stages=1
    )


def _set_budget(path: Path, say: Callable[[str], None]) -> None:
    """Set the budget of the labels before the first demo; an existing one is kept."""
    ledger = LedgerFile(path)
    if not ledger.exists or DATASET not in ledger.datasets():
        ledger.add(DATASET, BUDGET)
        say(f"{DATASET!r} in {path} has the budget {BUDGET}, for all demos in {path.parent} together.")


def _write_tables(train: Path, test: Path) -> None:
    """Write the table, a quarter of it as the public test file, without replacing any file."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    names = [name.replace(" ", "_") for name in data.feature_names]
    columns = {name: data.data[:, place] for place, name in enumerate(names)}
    columns["diagnosis"] = np.array(CLASSES.split(","))[data.target]
    table = pa.table(columns)
    rows = np.random.default_rng(0).permutation(table.num_rows)
    held = table.num_rows // 4
    wanted = {train: _text(table.take(rows[held:])), test: _text(table.take(rows[:held]))}
    for path, text in wanted.items():
        if path.exists() and not (path.is_file() and path.read_bytes() == text):
            raise InputError(f"{path} exists already and is not the demo's table: give another --out")
    for path, text in wanted.items():
        if not path.exists():
            with atomic_write(path) as hidden:
                hidden.write_bytes(text)


def _text(table: pa.Table) -> bytes:
    """Return a table as CSV."""
    sink = pa.BufferOutputStream()
    csv.write_csv(table, sink)
    return sink.getvalue().to_pybytes()

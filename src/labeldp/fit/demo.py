"""Sample data for a first fit, from scikit-learn."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from labeldp.curator import LedgerFile
from labeldp.fit.settings import epsilon_of, fit_request
from labeldp.mechanisms import Classes
from labeldp.privacy import Budget, InputError, Request
from labeldp.tables import atomic_write

CLASSES = "malignant,benign"
DATASET = "patients"

BUDGET = Budget(10)
"""The lifetime budget of all demos in one directory."""


def prepare_demo(out: str, epsilon: str = "1", *, note: Callable[[str], None]) -> tuple[Request, dict[str, Any]]:
    """Write scikit-learn's breast-cancer table and its ledger, with the diagnosis as the private label.

    A part of the table is a public test file. All demos in a directory share one budget, because they are about the
    same labels.

    Args:
        out: a directory for the tables, the ledger and the model; created if it does not exist.
        epsilon: privacy parameter of the model.
        note: called with sentences for the user.

    Returns:
        The request of the fit, and its paths as `fit_file` names them: data, ledger, out, test.

    Raises:
        InputError: the directory cannot be used, or has other files under the names of the demo's tables.
    """
    request = fit_request("diagnosis", Classes(tuple(CLASSES.split(","))), epsilon_of(epsilon), 0, DATASET)
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise InputError(f"--out {out} cannot be made: give a directory that can be written to") from None
    ledger, model = folder / "demo.ledger", folder / f"model_epsilon_{request.epsilon}"
    train, test = folder / "patients.csv", folder / "public_patients.csv"
    _write_tables(train, test)
    note(f"{train} and {test}: measurements of tumors. The diagnosis is the private label.")
    file = LedgerFile(ledger)
    if not file.exists or DATASET not in file.datasets():
        file.add(DATASET, BUDGET)
        note(f"{ledger}: the budget of {DATASET!r} is {BUDGET}, for all demos in {folder}.")
    return request, {"data": str(train), "ledger": str(ledger), "out": str(model), "test": str(test)}


def _write_tables(train: Path, test: Path) -> None:
    """Write the table, a quarter of it as the public test file, without replacing any file."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    names = [name.replace(" ", "_") for name in data.feature_names]
    columns = {name: data.data[:, column] for column, name in enumerate(names)}
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
    sink = pa.BufferOutputStream()
    csv.write_csv(table, sink)
    return sink.getvalue().to_pybytes()

"""A release of people.csv, as the tests vary it, and what it left."""

import os
from pathlib import Path
from typing import Any

import pandas as pd
from pyarrow import parquet

import labeldp as ldp
from labeldp.curator import LedgerFile
from labeldp.releases import release_file

DOMAIN = ldp.Classes(("no", "yes"))


def release(folder: Path, **changes: Any) -> ldp.Certificate:
    """The release of people.csv that the tests vary."""
    arguments: dict[str, Any] = {
        "data": folder / "people.csv",
        "label": "bought",
        "domain": DOMAIN,
        "epsilon": 1,
        "ledger": folder / "ledger.db",
        "dataset": "people",
        "out": folder / "out.csv",
        "block_rows": 100,
    }
    return release_file(**(arguments | changes))


def spent(folder: Path) -> float:
    return LedgerFile(folder / "ledger.db").dataset("people").spent.epsilon()


def column(path: Path, name: str = "bought") -> list[str]:
    table = parquet.read_table(path).to_pandas() if path.suffix == ".parquet" else pd.read_csv(path, dtype=str)
    return [str(value) for value in table[name]]


def listing(folder: Path) -> set[str]:
    return set(os.listdir(folder))

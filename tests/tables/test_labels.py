"""A column of labels reads the same from CSV, Parquet and Python, and as it did before."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

import labeldp as ldp
from labeldp.curator import Curator, Fingerprint, LedgerFile
from labeldp.releases import release_file
from labeldp.tables import codes_of, open_table

BITS = np.random.default_rng(0).integers(0, 2, 60)
COLUMNS: dict[str, pd.Series] = {
    "truth values": pd.Series(BITS.astype(bool)),
    "integers": pd.Series(BITS),
    "small integers": pd.Series(BITS.astype(np.int8)),
    "floats": pd.Series(BITS.astype(float)),  # as pandas makes them of integers where other rows had a gap
    "small floats": pd.Series(BITS.astype(np.float32)),
    "texts of integers": pd.Series(BITS.astype(str)),
    "texts of floats": pd.Series(BITS.astype(float).astype(str)),
    "texts of truth values": pd.Series(BITS.astype(bool).astype(str)),
    "lower case": pd.Series(BITS.astype(bool).astype(str)).str.lower(),
    "categories": pd.Series(BITS.astype(bool)).astype("category"),
    "nullable": pd.Series(BITS).astype("Int64"),
    "nullable truth values": pd.Series(BITS.astype(bool)).astype("boolean"),
}
CLASSES: dict[str, Any] = {
    "2": 2,
    "integers": (0, 1),
    "truth values": (False, True),
    "texts": ("0", "1"),
    "floats": ("0.0", "1.0"),
    "False": ("False", "True"),
    "false": ("false", "true"),
}


@pytest.fixture(params=COLUMNS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> pd.DataFrame:
    """A table with one column of labels, which also stands in t.csv and t.parquet."""
    found = pd.DataFrame({"y": COLUMNS[request.param]})
    found.to_csv(tmp_path / "t.csv", index=False)
    found.to_parquet(tmp_path / "t.parquet")
    return found


@pytest.mark.parametrize("classes", CLASSES)
def test_a_column_reads_the_same_from_csv_parquet_and_python(table: pd.DataFrame, tmp_path: Path, classes: str) -> None:
    """`False` and `false`, `0` and `0.0` are one label, in whatever file, array or list they come.

    Before, a Boolean column that was declared as `False,True` was refused from Parquet, and as `false,true` from CSV
    and Python; a float one as `0,1` from CSV.
    """
    domain = ldp.Classes(CLASSES[classes])
    for file in ("t.csv", "t.parquet"):
        batches = open_table(tmp_path / file).blocks(["y"])
        codes = np.concatenate([codes_of(batch, "y", domain.in_file()) for batch in batches])
        assert codes.tolist() == BITS.tolist()
    for labels in (table["y"], table["y"].to_numpy(), table["y"].tolist(), table["y"].astype(object)):
        assert domain.encode(labels).tolist() == BITS.tolist()


def test_each_source_finds_what_another_released(table: pd.DataFrame, tmp_path: Path) -> None:
    written = []
    for file in ("t.csv", "t.parquet"):
        out = tmp_path / f"out_{file}"
        release_file(
            tmp_path / file, label="y", domain=ldp.Classes(2), epsilon=1, ledger=tmp_path / "l.db", dataset="d", out=out
        )
        content = pd.read_csv(out) if file == "t.csv" else parquet.read_table(out).to_pandas()
        written.append(content["y"].tolist())
    ledger = LedgerFile(tmp_path / "l.db").dataset("d")
    domain = ldp.Classes(2)
    curator = Curator(table["y"], domain=domain, ledger=ledger)
    held = curator.release(ldp.RandomizedResponse(domain=domain, epsilon=1), rng=ledger.randomness)
    assert written[0] == written[1] == held.value.tolist()
    assert len(ledger.charges) == 1


def test_names_that_are_texts_are_taken_letter_for_letter(tmp_path: Path) -> None:
    domain = ldp.Classes(("no", "yes"))
    for labels in (["No"], ["yes "], [" yes"], ["YES"], [True], [1], ["1"]):
        pd.DataFrame({"y": labels}).to_csv(tmp_path / "t.csv", index=False)
        pd.DataFrame({"y": labels}).to_parquet(tmp_path / "t.parquet")
        for file in ("t.csv", "t.parquet"):
            for batch in open_table(tmp_path / file).blocks(["y"]):
                with pytest.raises(ldp.privacy.DomainError):
                    codes_of(batch, "y", domain)
        with pytest.raises(ldp.privacy.DomainError):
            domain.encode(labels)


LABELS = "6ecf20794ac00346c0000b4fa92ece84-60"
COUNTS = {
    "texts": "c8fa98019361d46d479ec215b6d36760d04e740e64289c75d64176bb8118bac8",
    "floats": "fb904dc7755c1e3443f4ce493236be7c9bacd0f5f17fe67f958213946f127ae6",
    "False": "b9e6a5aab714916742bbe8502a0bccba7269c64b327a06a7aa915a7aede78248",
    "false": "3792bd6008ae378800556bf0571a7b61772afaf832441645cbc5f3524b838497",
}
"""Digests of `BITS` and of how often each occurs, under a key of zeros, as they were before columns read the same."""


@pytest.mark.parametrize("classes", COUNTS)
def test_digests_in_older_ledgers_stay_valid(classes: str) -> None:
    """They follow the texts of the declared classes and the codes, however the column was written."""
    domain = ldp.Classes(CLASSES[classes])
    found = Fingerprint(bytes(32), domain)
    found.update(None, domain.encode(COLUMNS["truth values"]))
    (_, _, labels), (_, _, counts), _ = found.traces("row numbers")
    assert (labels, counts) == (LABELS, COUNTS[classes])

"""Which columns of a file are experts, and what their cells are."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from labeldp.privacy import InputError
from labeldp.tables import open_table
from labeldp.workflows.loss_table import experts_of, levels_of

TABLE = pd.DataFrame({"a": [0.25, 1.0], "b": [0.5, 0.0]})


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Files of a test's own."""
    monkeypatch.chdir(tmp_path)


def experts(content: str | pd.DataFrame, named: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """The experts of a CSV file, or of a Parquet file."""
    if isinstance(content, str):
        Path("t.csv").write_text(content)
        return experts_of(open_table("t.csv"), named)
    content.to_parquet("t.parquet")
    return experts_of(open_table("t.parquet"), named)


def test_all_columns_are_experts_or_those_that_are_named() -> None:
    assert experts("a,b\n1,0\n") == experts(TABLE) == experts(TABLE.assign(c="x"), ("a", "b")) == ("a", "b")
    assert experts(TABLE.assign(t=pd.Timestamp(0)), ("b", "a")) == ("b", "a")
    assert experts(TABLE.rename(columns={"a": "0", "b": "1"})) == ("0", "1"), "a Parquet file says what its names are"
    assert experts("0,b\n1,0\n") == ("0", "b")


@pytest.mark.parametrize("head", ["0.25,0.75", "0,1", "0.371,", "1e-3,NaN"])
def test_a_row_of_losses_is_no_header(head: str) -> None:
    with pytest.raises(InputError, match="does it have a header row") as error:
        experts(f"{head}\n0.5,0.5\n")
    assert not any(cell and cell in str(error.value).replace("t.csv", "") for cell in head.split(","))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a,\n1,0\n", "t.csv has a column without a name"),
        ("a, \n1,0\n", "t.csv has a column without a name"),
        ("a\n1\n", "t.csv has one column; at least two experts are needed"),
        (TABLE.assign(day=pd.Timestamp(0)), "column 'day' holds timestamp.*`experts` names the columns to take"),
        (TABLE.assign(id="x"), "column 'id' holds (large_)?string, and losses must be numbers"),
        (TABLE.set_index(pd.Index([3, 5])), "'__index_level_0__' is an index that pandas wrote"),
    ],
)
def test_columns_that_are_no_experts_are_named(content: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        experts(content)


def test_cells_are_levels() -> None:
    for table, levels in [(TABLE, False), ((TABLE * 255).round().astype("uint8"), True), (TABLE > 0.3, False)]:
        table.to_parquet("t.parquet")
        [batch] = open_table("t.parquet").blocks()
        expected = np.rint(table.to_numpy(dtype=float) * (1 if levels else 255))
        assert levels_of(batch, ("a", "b"), bits=8, levels=levels).tolist() == expected.tolist()


def test_a_missing_truth_value_is_refused() -> None:
    pd.DataFrame({"a": pd.array([True, None], "boolean"), "b": [0.5, 0.5]}).to_parquet("t.parquet")
    [batch] = open_table("t.parquet").blocks()
    with pytest.raises(InputError, match="none of them missing"):
        levels_of(batch, ("a", "b"), bits=8, levels=False)

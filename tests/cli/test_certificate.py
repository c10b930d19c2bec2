"""What a certificate says of the records: features and ids, and nothing of labels."""

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from cli.conftest import Ran, account

FIT = (
    "fit", "people.csv", "--label", "bought", "--classes", "no,yes", "--epsilon", "1",
    *account("people"), "--model", "linear",
)  # fmt: skip
ID = ("--id", "id")


@pytest.mark.parametrize("ids", [ID, ()])
def test_a_file_is_compared_with_the_records_of_a_model(
    labeldp: Callable[..., Ran], people: Path, ids: tuple[str, ...]
) -> None:
    done = labeldp(*FIT, *ids, "--out", "model")
    assert done.status == 0, done.err
    table = pd.read_csv("people.csv")
    said = labeldp("certificate", "model", "--data", "people.csv")
    assert said.status == 0 and f"of the {len(table):,} records in people.csv are those" in said.out
    table.drop(columns="bought").to_parquet("public.parquet", index=False)  # no label is read
    table.sample(frac=1, random_state=0).to_csv("shuffled.csv", index=False)
    feature = next(name for name in table.columns if name not in ("id", "bought") and table[name].dtype.kind == "f")
    table.assign(**{feature: table[feature] + 1}).to_csv("changed.csv", index=False)
    table.iloc[1:].to_csv("shorter.csv", index=False)
    for name, holds in (
        ("public.parquet", True),
        ("shuffled.csv", bool(ids)),
        ("changed.csv", False),
        ("shorter.csv", False),
    ):
        said = labeldp("certificate", "model", "--data", name)
        assert said.status == (0 if holds else 1), (name, said)
        assert holds or said.out.startswith(f"The features and ids of {name} are NOT those")


def test_labels_that_changed_leave_no_trace_in_it(labeldp: Callable[..., Ran], people: Path) -> None:
    assert labeldp(*FIT, *ID, "--out", "model").status == 0
    table = pd.read_csv("people.csv")
    table["bought"] = table["bought"].map({"no": "yes", "yes": "no"})
    table.to_csv("people.csv", index=False)
    assert labeldp("ledger", "add", "l.ledger", "--dataset", "people", "--change", "--epsilon", "2").status == 0
    other = labeldp(*FIT, *ID, "--revision", "second", "--out", "other")
    assert other.status == 0, other.err
    first, second = (json.loads((people / name / "certificate.json").read_text()) for name in ("model", "other"))
    sources = [certificate["certificate"]["request"]["source"] for certificate in (first, second)]
    assert sources[0] == sources[1] and sources[0]["rows"] == len(table)


@pytest.mark.parametrize("field", ["rows", "ids", "digest"])
def test_what_it_says_of_the_records_cannot_be_changed(labeldp: Callable[..., Ran], people: Path, field: str) -> None:
    assert labeldp(*FIT, *ID, "--out", "model").status == 0
    place = people / "model" / "certificate.json"
    content = json.loads(place.read_text())
    content["certificate"]["request"]["source"][field] = {"rows": 7, "ids": "age", "digest": "0" * 64}[field]
    place.write_text(json.dumps(content))
    said = labeldp("certificate", "model")
    assert said.status == 1 and said.out.startswith("model is NOT what was certified: certificate.json")
    del content["certificate"]["request"]
    place.write_text(json.dumps(content))
    assert labeldp("certificate", "model").status == 1


def test_what_has_no_records_is_not_compared(labeldp: Callable[..., Ran], people: Path) -> None:
    release = ("release", "people.csv", *FIT[2:-2], "--out", "noisy.csv")
    assert labeldp(*release).status == 0
    said = labeldp("certificate", "noisy.csv", "--data", "people.csv")
    assert said.status == 1 and "noisy.csv has no digest of records" in said.err

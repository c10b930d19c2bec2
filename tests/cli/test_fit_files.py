"""What a fit takes from files: public tests, record ids, columns; and what it says of them."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cli.conftest import PUBLIC, Ran, account
from labeldp.curator import LedgerFile
from labeldp.fit import parse_fit, prepare, read_rows
from labeldp.privacy import Request

FIT = ("--label", "bought", "--classes", "no,yes", "--epsilon", "1", *account("people", "8"))
QUICK = (*FIT, "--model", "linear", "--out", "model")


def summary(people: Path) -> Any:
    return json.loads((people / "model" / "summary.json").read_text())


def test_a_test_file_that_holds_the_private_records_is_refused(labeldp: Callable[..., Ran], people: Path) -> None:
    table = pd.read_csv(people / "people.csv")
    table.sample(frac=1, random_state=0).assign(bought="no").to_csv(people / "others.csv", index=False)
    pd.concat([table, table.head(7)]).to_csv(people / "more.csv", index=False)
    others = pd.read_csv(people / "new_people.csv").assign(bought="no")
    pd.concat([table.head(3), others]).to_csv(people / "some.csv", index=False)
    (people / "link.csv").symlink_to("people.csv")
    for test in ("people.csv", "link.csv", "people.parquet", "others.csv", "more.csv", "some.csv"):
        ran = labeldp("fit", "people.csv", *QUICK, "--test", test, PUBLIC)
        assert ran.status == 1 and "holds private records" in ran.err and ran.err.count("\n") == 1, ran
        assert not (people / "l.ledger").exists() and not (people / "model").exists()


def test_a_test_file_of_others_may_have_the_same_few_kinds_of_rows(labeldp: Callable[..., Ran], people: Path) -> None:
    few = (*QUICK, "--features", "region,job", "--test")
    assert "holds private records" in labeldp("fit", "people.csv", *few, "people.parquet", PUBLIC).err
    assert labeldp("fit", "people.csv", *few, "public.csv", PUBLIC).status == 0


def test_a_held_out_part_of_the_private_file_takes_a_word_that_it_is_public(
    labeldp: Callable[..., Ran], people: Path
) -> None:
    """`--test held_out.csv` alone put 60 labels of 600 into accuracy and confusion matrix, without noise or charge.

    Where rows are mostly distinct a part is refused with the word, too. Among 16 kinds of rows it cannot be told from
    other people's records, and neither can one whose features were changed.
    """
    table = pd.read_csv(people / "people.csv")
    table.head(60).to_csv(people / "held_out.csv", index=False)
    few = ("fit", "people.csv", *QUICK, "--features", "region,job")
    for command in [("fit", "people.csv", *QUICK), few]:
        ran = labeldp(*command, "--test", "held_out.csv")
        assert ran.status == 1 and ran.err.count("\n") == 1, ran
        assert f"--test needs {PUBLIC}" in ran.err and "without noise and without a charge" in ran.err
        ran = labeldp(*command[:1], "nowhere.csv", *command[2:], "--test", "nowhere.csv")
        assert f"--test needs {PUBLIC}" in ran.err, "nothing was read"
    assert "goes with --test FILE" in labeldp("fit", "people.csv", *QUICK, PUBLIC).err
    assert "holds private records" in labeldp("fit", "people.csv", *QUICK, "--test", "held_out.csv", PUBLIC).err
    assert not (people / "l.ledger").exists() and not (people / "model").exists()
    assert labeldp(*few, "--test", "held_out.csv", PUBLIC).status == 0
    changed = table.head(60).assign(id=range(60), hours=table["hours"].head(60) + 0.1)
    changed.to_csv(people / "held_out.csv", index=False)
    assert labeldp("fit", "people.csv", *QUICK[:-1], "other", "--test", "held_out.csv", PUBLIC).status == 0


def test_the_word_is_said_again_by_the_command_of_the_report_and_names_no_other_fit(
    labeldp: Callable[..., Ran], people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that was made before the word was asked for is recognized."""
    fit = ("fit", "people.csv", *QUICK, "--test", "public.csv")
    assert labeldp(*fit, PUBLIC).status == 0
    found = summary(people)
    assert found["command"].endswith(f"--test public.csv {PUBLIC}")
    rows, public = read_rows(_request(), "people.csv", "public.csv")
    request = prepare(_request(), rows, "l.ledger", public=public).request
    assert found["request"] == request.digest and request.command().endswith("--test public.csv")


def _request() -> Request:
    return parse_fit(
        label="bought", classes="no,yes", epsilon="1", delta="0", dataset="people", features=None, stages=None,
        model="linear",
    )  # fmt: skip


def test_public_labels_of_a_test_file_are_a_condition_of_the_certificate(
    labeldp: Callable[..., Ran], people: Path
) -> None:
    assert labeldp("fit", "people.csv", *QUICK, "--test", "public.csv", PUBLIC).status == 0
    assert "the labels of public.csv are public" in labeldp("certificate", "model").out
    published = summary(people)["published"]
    assert any("public.csv" in sentence and "declared public" in sentence for sentence in published)
    assert "the labels of public.csv are public" in summary(people)["certificate"][0]["assumptions"]


def indexed(people: Path) -> None:
    """people.parquet as pandas writes it after rows were drawn: with an index; new_people.parquet without one."""
    table = pd.read_csv(people / "people.csv").drop(columns="id")
    table.sample(frac=1, random_state=0).to_parquet(people / "people.parquet")
    pd.read_csv(people / "new_people.csv").to_parquet(people / "new_people.parquet", index=False)


def test_the_index_of_pandas_is_no_feature_unless_it_is_named(labeldp: Callable[..., Ran], people: Path) -> None:
    """`__index_level_0__` was a feature, led a report, and a frame without it could not be predicted."""
    indexed(people)
    fit = ("fit", "people.parquet", *QUICK)
    done = labeldp(*fit)
    words = "left out '__index_level_0__': the index of a pandas data frame is no feature"
    assert done.status == 0 and words in done.err
    found = summary(people)
    assert found["features"] == ["age", "hours", "region", "job"]
    assert {"column": "__index_level_0__", "why": "it is the index of a pandas data frame"} in found["dropped"]
    assert labeldp("predict", "model", "new_people.parquet", "--out", "p.csv").status == 0
    named = ("--features", "age,hours,__index_level_0__", "--out", "named")
    done = labeldp(*fit, *named)
    assert done.status == 0 and "left out" not in done.err
    assert json.loads((people / "named" / "summary.json").read_text())["features"][2] == "__index_level_0__"
    pd.read_csv(people / "people.csv").drop(columns="id").to_csv(people / "people.csv")
    labeldp("ledger", "add", "l.ledger", "--dataset", "others", "--epsilon", "9")
    done = labeldp("fit", "people.csv", *QUICK, "--out", "csv", "--dataset", "others", "--new-budget", "9")
    assert done.status == 0 and "left out ''" in done.err
    table = pd.read_csv(people / "new_people.csv").set_index("hours")
    table.assign(bought="no").to_parquet(people / "bare.parquet")
    plan = labeldp("plan", "bare.parquet", "--label", "bought", "--classes", "no,yes", "--epsilon", "1", "--json")
    assert "hours" not in json.loads(plan.out)["features"]["columns"]


@pytest.mark.parametrize(
    ("column", "cells", "words"),
    [
        ("age", ["young", "old"], "column 'age' held numbers when it was learned from, and now holds categories"),
        ("region", ["1", "2"], "column 'region' held categories when it was learned from, and now holds numbers"),
    ],
)
def test_predict_refuses_a_column_of_another_kind(
    labeldp: Callable[..., Ran], people: Path, column: str, cells: list[str], words: str
) -> None:
    """Predictions were made as if every cell were missing."""
    assert labeldp("fit", "people.csv", *QUICK).status == 0
    new = pd.read_csv(people / "new_people.csv")
    new.assign(**{column: [cells[row % 2] for row in range(len(new))]}).to_csv(people / "other.csv", index=False)
    ran = labeldp("predict", "model", "other.csv", "--out", "p.csv")
    assert ran.status == 1 and words in ran.err and ran.err.count("\n") == 1
    assert not (people / "p.csv").exists()


def test_ids_are_no_feature_and_the_same_records_in_another_order_are_the_same_fit(
    labeldp: Callable[..., Ran], people: Path
) -> None:
    assert labeldp("fit", "people.csv", *QUICK, "--id", "id").status == 0
    assert "id" not in summary(people)["features"] and "--id id" in summary(people)["command"]
    first = (people / "model" / "model.skops").read_bytes()
    charges = LedgerFile(people / "l.ledger").dataset("people").charges
    pd.read_csv(people / "people.csv").sample(frac=1, random_state=0).to_csv(people / "people.csv", index=False)
    again = labeldp("fit", "people.csv", *QUICK[:-1], "again", "--id", "id")
    assert again.status == 0, again.err
    assert LedgerFile(people / "l.ledger").dataset("people").charges == charges
    one, two = (json.loads((people / name / "model.json").read_text()) for name in ("model", "again"))
    assert one == two and len(first) > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--id", "region"), "repeated"),
        (("--id", "bought"), "another column than the label"),
        (("--id", "name"), "no column 'name'"),
        (("--id", "id", "--features", "id,age"), "must not hold the id column"),
    ],
)
def test_wrong_ids_charge_nothing(
    labeldp: Callable[..., Ran], people: Path, options: tuple[str, ...], words: str
) -> None:
    ran = labeldp("fit", "people.csv", *QUICK, *options)
    assert ran.status == 1 and words in ran.err and ran.err.count("\n") == 1, ran
    assert not (people / "l.ledger").exists()


def test_columns_that_are_used_do_not_stand_among_those_that_are_not(labeldp: Callable[..., Ran], people: Path) -> None:
    table = pd.read_csv(people / "people.csv")
    table["zip: 'new'"] = [f"z{number % 300}" for number in range(len(table))]
    table['it\'s: "one"'] = 1
    table["left out 'age'"] = [f"{number % 5}" if number % 7 else "few" for number in range(len(table))]
    table.to_csv(people / "people.csv", index=False)
    assert labeldp("fit", "people.csv", *QUICK, "--id", "id").status == 0
    found = summary(people)
    assert found["dropped"] == [{"column": 'it\'s: "one"', "why": "every value is the same"}]
    assert len(found["notes"]) == 2 and all(note.endswith(".") for note in found["notes"])
    assert any("most frequent categories are kept" in note for note in found["notes"])
    report = (people / "model" / "report.html").read_text()
    assert "most frequent categories are kept" in report
    assert "most frequent" not in report.partition("Columns not used")[2].partition("</ul>")[0]


@pytest.mark.parametrize("classes", ["²", "٣", "1²"])
def test_a_number_of_classes_is_written_in_plain_digits(
    labeldp: Callable[..., Ran], people: Path, classes: str
) -> None:
    ran = labeldp("fit", "people.csv", *QUICK, "--classes", classes)
    assert ran.status == 1 and ran.err.startswith("Error: ") and ran.err.count("\n") == 1, ran


def test_a_model_of_neighbors_says_that_its_file_holds_public_rows(labeldp: Callable[..., Ran], people: Path) -> None:
    assert labeldp("fit", "people.csv", *FIT, "--model", "neighbors", "--out", "model", "--id", "id").status == 0
    assert any("feature rows" in sentence for sentence in summary(people)["published"])


@pytest.mark.usefixtures("curves")
def test_the_curve_says_how_the_simulated_labels_are_learned_from(labeldp: Callable[..., Ran], people: Path) -> None:
    assert labeldp("fit", "people.csv", *QUICK, "--diagnostics").status == 0
    assert "with a linear model of the features" in summary(people)["curve"]["method"]


@pytest.mark.parametrize("year", [1970, 2400])
def test_a_clock_that_no_archive_can_hold_is_refused_before_the_charge(
    labeldp: Callable[..., Ran], people: Path, monkeypatch: pytest.MonkeyPatch, year: int
) -> None:
    monkeypatch.setattr(time, "time", lambda: (year - 1970 + 0.5) * 365.2425 * 86400)
    ran = labeldp("fit", "people.csv", *QUICK)
    assert ran.status == 1 and f"it is the year {year}" in ran.err and ran.err.count("\n") == 1, ran
    assert not (people / "l.ledger").exists() and not (people / "model").exists()


def test_a_copy_of_the_label_is_named_in_the_terminal_and_the_report(labeldp: Callable[..., Ran], people: Path) -> None:
    table = pd.read_csv(people / "people.csv")
    table.assign(days=table["bought"].map({"no": "never", "yes": "often"})).to_csv(people / "leak.csv", index=False)
    options = ("--label", "bought", "--classes", "no,yes", "--epsilon", "20", "--model", "boosting", "--id", "id")
    for data, count in (("leak.csv", 1), ("people.csv", 0)):
        named = (*account("people", "20", f"{data}.ledger"), "--out", f"{data}.model")
        ran = labeldp("fit", data, *options, *named)
        assert ran.status == 0, ran.err
        assert " ".join(ran.out.split()).count("check that 'days' is not a copy of it") == count
        report = " ".join((people / f"{data}.model" / "report.html").read_text().split())
        assert report.count("check that &#39;days&#39; is not a copy of it") == count

"""labeldp report: what a default fit leaves out is added later, for free, and the certificate still covers all."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cli.conftest import Ran
from labeldp.curator import LedgerFile
from labeldp.fit import check_summary, diagnose_file, verify
from labeldp.report import render_report

ACCOUNT = ("--ledger", "l.ledger", "--dataset", "people", "--new-budget", "2")
FIT = ("fit", "people.csv", "--label", "bought", "--classes", "no,yes", "--id", "id", "--epsilon", "2", *ACCOUNT)
LINEAR = (*FIT, "--trust", "central", "--model", "linear")
REPORT = ("report", "model", "--data", "people.csv", "--ledger", "l.ledger")


def sound(model: str) -> bool:
    """Return whether the certified files are unchanged, and summary and report say what the certificate says."""
    check = check_summary(model, render_report)
    return check is not None and check.holds is True and verify(model).holds


def stored(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "summary.json").read_text())


@pytest.mark.usefixtures("curves")
@pytest.mark.guarantee("labeldp.fit:diagnose_file", "free")
def test_details_are_added_later_and_cost_nothing(labeldp: Callable[..., Ran], people: Path) -> None:
    fitted = labeldp(*LINEAR, "--out", "model")
    assert fitted.status == 0, fitted.err
    words = " ".join(fitted.out.split())
    assert "Details labeldp report model --data people.csv (importance of features, accuracy at other ε)" in words
    plain, model = stored(people / "model"), (people / "model" / "model.skops").read_bytes()
    assert plain["curve"] is None and not plain["importance"] and "other ε" not in fitted.err
    assert "Permutation importance" not in (people / "model" / "report.html").read_text()
    assert sound("model")
    charges = LedgerFile("l.ledger").dataset("people").charges
    ran = labeldp(*REPORT)
    assert ran.status == 0 and ran.out == "Report: model/report.html\n", ran
    full = stored(people / "model")
    assert full["curve"] and full["importance"]
    assert full | {"curve": None, "importance": plain["importance"]} == plain
    assert "Permutation importance" in (people / "model" / "report.html").read_text()
    assert sound("model")
    assert (people / "model" / "model.skops").read_bytes() == model
    assert LedgerFile("l.ledger").dataset("people").charges == charges
    assert labeldp("audit", "model", "--ledger", "l.ledger", "--data", "people.csv").status == 0
    assert labeldp(*LINEAR, "--diagnostics", "--out", "whole").status == 0
    whole = stored(people / "whole")
    assert (whole["curve"], whole["importance"]) == (full["curve"], full["importance"])
    again = labeldp(*LINEAR, "--out", "model")
    assert again.status == 0 and "Details" not in again.out and "No ε spent" in again.err
    assert LedgerFile("l.ledger").dataset("people").charges == charges


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (REPORT[:2], "--data must be given: details need the features"),
        ((*REPORT[:3], "other.csv", *REPORT[4:]), "are not those that model was learned from"),
        ((*REPORT[:-1], "none.ledger"), "none.ledger does not hold the releases of model"),
        (("report", "people", *REPORT[2:]), "is not a directory that labeldp fit wrote"),
        (REPORT[:4], "people.ledger does not hold the releases of model: name the ledger of its fit by --ledger"),
    ],
)
def test_what_has_no_report_is_refused_in_a_sentence(
    labeldp: Callable[..., Ran], people: Path, words: tuple[str, ...], problem: str
) -> None:
    assert labeldp(*LINEAR, "--out", "model").status == 0
    before = {path: path.read_bytes() for path in (people / "model").iterdir()}
    table = pd.read_csv("people.csv")
    table.assign(age=table["age"] + 1).to_csv("other.csv", index=False)
    ran = labeldp(*words)
    assert ran.status == 1 and problem in ran.err and ran.err.count("\n") == 1, ran
    assert {path: path.read_bytes() for path in (people / "model").iterdir()} == before
    assert not Path("none.ledger").exists() and not Path("people.ledger").exists()


def test_a_model_that_changed_or_is_learned_otherwise_keeps_its_report(
    labeldp: Callable[..., Ran], people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert labeldp(*LINEAR, "--out", "model").status == 0
    with monkeypatch.context() as patch:
        patch.setattr("labeldp.fit.bundle.Bundle.is_in", lambda self, folder: False)
        ran = labeldp(*REPORT)
        assert ran.status == 1 and "is learned otherwise here" in ran.err and "--diagnostics" in ran.err
    (people / "model" / "summary.json").write_text("{}")
    ran = labeldp(*REPORT)
    assert ran.status == 1 and "model is not what was certified: summary.json" in ran.err


def test_a_function_needs_no_progress(labeldp: Callable[..., Ran], people: Path, curves: None) -> None:
    assert labeldp(*LINEAR, "--out", "model").status == 0
    summary = diagnose_file("model", "people.csv", ledger="l.ledger", render=render_report)
    assert summary.curve is not None and summary.importance

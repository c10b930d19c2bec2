"""The ledger and the dataset of a file, where a command leaves them out."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Ran
from labeldp.curator import LedgerFile

Run = Callable[..., Ran]
FIT = ("fit", "people.csv", "--label", "bought", "--classes", "no,yes", "--epsilon", "1", "--model", "linear")
RELEASE = ("release", "people.csv", "--label", "region", "--classes", "north,south,east,west", "--epsilon", "1")


def test_a_ledger_is_created_with_a_budget_only(labeldp: Run, people: Path) -> None:
    refused = labeldp(*FIT, "--out", "model")
    assert refused.status == 1 and refused.err.endswith(f"labeldp {' '.join(FIT)} --out model --new-budget 1\n")
    assert not list(people.glob("*.ledger")) and not (people / "model").exists()
    done = labeldp(*FIT, "--out", "model", "--new-budget", "3")
    assert done.status == 0 and "contains the noise keys: protect it like the labels" in done.err, done
    assert (people / "people.ledger").stat().st_mode & 0o777 == 0o600


@pytest.mark.guarantee("labeldp.curator:LedgerFile", "no_overspending")
def test_the_label_columns_of_a_table_share_one_account(labeldp: Run, people: Path) -> None:
    assert labeldp(*FIT, "--features", "age,hours", "--out", "model", "--new-budget", "1.5").status == 0
    refused = labeldp(*RELEASE, "--out", "region.csv")
    assert refused.status == 1 and "nothing was charged" in refused.err.lower()
    assert labeldp(*RELEASE[:-1], "0.5", "--out", "region.csv").status == 0
    ledger = LedgerFile(people / "people.ledger")
    assert ledger.datasets() == ("people",) and ledger.dataset("people").read().columns == ("bought", "region")
    assert ledger.dataset("people").spent.epsilon() == 1.5


@pytest.mark.parametrize(("value", "problem"), [("x", "a number"), ("0", "positive"), ("2000", "at most 1000")])
def test_a_wrong_new_budget_is_named(labeldp: Run, people: Path, value: str, problem: str) -> None:
    refused = labeldp(*RELEASE, "--out", "region.csv", "--new-budget", value)
    assert refused.status == 1 and refused.err.startswith(f"Error: --new-budget must be {problem}"), refused
    assert not list(people.glob("*.ledger"))


@pytest.mark.parametrize("command", [FIT, RELEASE], ids=["fit", "release"])
def test_a_typing_error_creates_no_ledger(labeldp: Run, people: Path, command: tuple[str, ...]) -> None:
    wrong = [word.replace("bought", "bougth").replace("region", "regiom") for word in command]
    refused = labeldp(*wrong, "--new-budget", "2", "--out", "new.csv")
    assert refused.status == 1 and "did you mean" in refused.err, refused
    assert not list(people.glob("*.ledger"))


def test_a_named_ledger_is_created_with_a_budget_only_too(labeldp: Run, people: Path) -> None:
    named = ("--ledger", "new.ledger", "--dataset", "clicks")
    commands = (
        (*FIT, "--out", "model"),
        (*RELEASE, "--out", "noisy.csv"),
        ("online", "run", "people.csv", "--experts", "age,hours", "--epsilon", "1", "--out", "decisions.csv"),
        ("estimate", "mean", *FIT[1:8], "--trust", "central"),
    )
    for command in commands:
        refused = labeldp(*command, *named)
        assert refused.status == 1 and "new.ledger does not exist" in refused.err, refused
        assert refused.err.endswith(f"{' '.join((*command, *named))} --new-budget 1\n")
        assert not (people / "new.ledger").exists()
    assert labeldp(*commands[-1], *named, "--new-budget", "3").status == 0
    assert LedgerFile(people / "new.ledger").dataset("clicks").budget.epsilon == 3


def test_the_option_of_a_new_budget_changes_no_budget(labeldp: Run, people: Path) -> None:
    command = (*FIT, "--out", "model", "--new-budget", "2")
    first, again = labeldp(*command), labeldp(*command)
    assert first.out == again.out and "Already done: model/ is this fit. No ε spent." in again.err
    other = labeldp(*FIT, "--out", "model", "--new-budget", "4")
    assert other.status == 1 and "--change --epsilon 4" in other.err
    assert str(LedgerFile(people / "people.ledger").dataset("people").budget) == "epsilon = 2, delta = 0"
    change = ("ledger", "add", "people.ledger", "--dataset", "people", "--change", "--epsilon", "3")
    assert labeldp(*change).status == 0 and labeldp(*command).out.replace("3", "2") == first.out.replace("3", "2")


def test_a_ledger_of_another_dataset_is_no_second_budget(labeldp: Run, people: Path) -> None:
    assert labeldp("ledger", "add", "people.ledger", "--dataset", "bought", "--epsilon", "1").status == 0
    for more in ((), ("--new-budget", "5")):
        refused = labeldp(*FIT, "--out", "model", *more)
        assert refused.status == 1 and "did you mean 'bought'?" in refused.err and refused.err.count("\n") == 1
    assert LedgerFile(people / "people.ledger").datasets() == ("bought",)
    assert labeldp(*FIT, "--dataset", "bought", "--out", "model").status == 0


def test_a_terminal_is_asked_for_the_budget(labeldp: Run, people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labeldp.cli.account_options.is_terminal", lambda: True)
    monkeypatch.setattr("click.prompt", lambda text, err: "2")
    assert labeldp(*FIT, "--out", "model").status == 0
    assert LedgerFile(people / "people.ledger").dataset("people").budget.epsilon == 2


def test_no_ledger_goes_into_images_or_a_read_only_folder(
    labeldp: Run, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (people / "cat.png").touch()
    assert "has images" in labeldp(*FIT, "--out", "model", "--new-budget", "1").err
    (people / "cat.png").unlink()
    (people / "many").mkdir()
    refused = labeldp("fit", "many", *FIT[2:], "--out", "model", "--new-budget", "1")
    assert "--ledger must be given for a folder" in refused.err
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    assert "is read-only" in labeldp(*FIT, "--out", "model", "--new-budget", "1").err
    assert not list(people.rglob("*.ledger"))


def test_results_are_printed_for_programs_or_without_progress(labeldp: Run) -> None:
    done = labeldp(*FIT, "--out", "model", "--new-budget", "1", "--quiet", "--json")
    found = json.loads(done.out)
    assert found["features"] == ["id", "age", "hours", "region", "job"]
    assert found["budget"]["run"] == {"epsilon": 1.0, "delta": 0.0} and found["report"] == "model/report.html"
    assert done.err == "" == labeldp(*FIT, "--out", "model", "--quiet").err


def test_the_recall_of_a_rare_class_is_shown_beside_the_accuracy() -> None:
    from dataclasses import replace

    from labeldp.cli.fit import summary_rows
    from labeldp.fit import ClassScore, Estimated
    from report.conftest import plain

    summary = plain()
    found = Estimated(1.02, 0.8, 1.1, 0.95, "debiased")
    even = [ClassScore(name, 0.5, share, found, None) for name, share in (("no", 0.6), ("yes", 0.4))]
    rare = [replace(score, true_share=share) for score, share in zip(even, (0.9, 0.1), strict=True)]
    balanced = dict(summary_rows(replace(summary, class_scores=tuple(even), auc=found)))
    skewed = list(summary_rows(replace(summary, class_scores=tuple(rare), auc=found)))
    assert "Recall" not in balanced and "AUC" not in balanced and "%" in balanced["Accuracy"]
    assert [text.split("of ")[1].strip() for name, text in skewed if name == "Recall"] == [
        "'yes', 10.0 %",
        "'no', 90.0 %",
    ]
    assert dict(skewed)["AUC"].startswith("100.0 %  (95 % CI 80.0–100.0")
    wide = list(
        summary_rows(replace(summary, class_scores=tuple(rare), auc=replace(found, value=0.2, low=0.0, high=1.0)))
    )
    assert dict(wide)["AUC"].startswith("too noisy  (95 % CI 0.0–100.0")

"""A user's mistake gets one clear line; nothing is charged, nothing is overwritten, no label is shown."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from cli.conftest import Ran

ACCOUNT = {"--ledger": "l.ledger", "--dataset": "people", "--new-budget": "1"}
BASE = {"--label": "bought", "--classes": "no,yes", "--epsilon": "1", **ACCOUNT}


def arguments(command: str, data: str, **changes: str) -> list[str]:
    """A command that would work, with some options changed."""
    out = {"fit": "model", "release": "noisy.csv"}[command]
    options = {**BASE, "--out": out, **{f"--{name}": value for name, value in changes.items()}}
    return [command, data, *(word for pair in options.items() for word in pair)]


def refused(ran: Ran, folder: Path, *words: str) -> None:
    """One line that says `words`; no ledger, no output."""
    assert ran.status != 0 and ran.err.count("\n") == 1, ran
    assert "Traceback" not in ran.err and all(word in ran.err for word in words), ran.err
    assert not (folder / "l.ledger").exists()
    assert not (folder / "model").exists() and not (folder / "noisy.csv").exists()
    assert not list(folder.glob(".*.partial"))


CASES = [
    ({"label": "bougth"}, ("bougth", "bought")),
    ({"epsilon": "0"}, ("epsilon", "positive")),
    ({"epsilon": "-1"}, ("epsilon", "positive")),
    ({"epsilon": "nan"}, ("epsilon", "finite")),
    ({"epsilon": "inf"}, ("epsilon", "finite")),
    ({"epsilon": "much"}, ("epsilon", "number")),
    ({"classes": "no"}, ("classes",)),
    ({"classes": "no,no"}, ("distinct",)),
    ({"classes": "no,"}, ("classes",)),
]


@pytest.mark.guarantee("labeldp.fit:fit_file", "refusal_free")
@pytest.mark.parametrize("command", ["fit", "release"])
@pytest.mark.parametrize(("changes", "words"), CASES)
def test_wrong_options(
    labeldp: Callable[..., Ran], people: Path, command: str, changes: dict[str, str], words: tuple[str, ...]
) -> None:
    refused(labeldp(*arguments(command, "people.csv", **changes)), people, *words)


@pytest.mark.parametrize("command", ["fit", "release"])
def test_a_mistyped_label_is_told_before_questions_about_ledgers(
    labeldp: Callable[..., Ran], people: Path, command: str
) -> None:
    options = ("--label", "bougth", "--classes", "no,yes", "--epsilon", "1", "--out", "out.csv")
    assert labeldp("ledger", "add", "other.ledger", "--dataset", "other", "--epsilon", "1").status == 0
    for more in ((), ("--ledger", "l.ledger"), ("--ledger", "other.ledger", "--dataset", "people")):
        refused(labeldp(command, "people.csv", *options, *more), people, "has no column 'bougth'", "mean 'bought'?")


@pytest.mark.parametrize("command", ["fit", "release"])
def test_wrong_files(labeldp: Callable[..., Ran], people: Path, command: str) -> None:
    (people / "empty.csv").write_text("")
    (people / "header.csv").write_text("id,bought\n")
    (people / "junk.parquet").write_bytes(b"PAR1 and nothing of the kind")
    (people / "missing.csv").write_text("age,bought\n31,yes\n40,\n50,no\n")
    refused(labeldp(*arguments(command, "nowhere.csv")), people, "nowhere.csv")
    refused(labeldp(*arguments(command, "empty.csv")), people, "empty")
    refused(labeldp(*arguments(command, "header.csv")), people, "no other row")
    refused(labeldp(*arguments(command, "junk.parquet")), people, "junk.parquet")


@pytest.mark.parametrize("command", ["fit", "release"])
@pytest.mark.parametrize("cell", ["sentinel", ""])
def test_labels_outside_are_not_told(labeldp: Callable[..., Ran], people: Path, command: str, cell: str) -> None:
    """One line says that the dataset is new, one what to do; the ledger holds the declared domain and no charge."""
    (people / "odd.csv").write_text(f"age,bought\n40,{cell}\n" + "31,yes\n50,no\n" * 10)
    ran = labeldp(*arguments(command, "odd.csv"))
    new, *_, told = [line for line in ran.err.splitlines() if not line.startswith(("✓ Read", "--model auto"))]
    assert "Created l.ledger" in new and told.startswith(
        "Error: Some labels are missing or not among the 2 classes 'no', 'yes'. "
    )
    assert "Nothing was charged." in told and "ledger add" in told and "Traceback" not in ran.err
    assert not ran.out and "sentinel" not in told and "40" not in told.replace(str(people), "")
    assert not (people / "model").exists() and not (people / "noisy.csv").exists()
    shown = labeldp("ledger", "show", "l.ledger").out
    assert "ε 0 of" in shown and "the 2 classes 'no', 'yes'" in shown and "refused 1 time" in " ".join(shown.split())


def test_outputs_and_ledgers_that_stand_are_left_alone(labeldp: Callable[..., Ran], people: Path) -> None:
    (people / "model").mkdir()
    (people / "model" / "mine.txt").write_text("mine")
    ran = labeldp(*arguments("fit", "people.csv"))
    assert ran.status == 1 and "not empty" in ran.err and not (people / "l.ledger").exists()
    assert (people / "model" / "mine.txt").read_text() == "mine"
    (people / "l.ledger").write_text("something else, and not a database")
    ran = labeldp(*arguments("release", "people.csv"))
    assert ran.status == 1 and "l.ledger" in ran.err
    assert (people / "l.ledger").read_text() == "something else, and not a database"


def test_a_fit_that_the_budget_cannot_carry_charges_no_stage(labeldp: Callable[..., Ran], people: Path) -> None:
    assert labeldp("ledger", "add", "l.ledger", "--dataset", "people", "--epsilon", "0.5").status == 0
    ran = labeldp(*arguments("fit", "people.csv", prior="clusters", trust="central"))
    assert ran.status == 1 and "budget" in ran.err and not (people / "model").exists()
    assert "ε 0 of" in labeldp("ledger", "show", "l.ledger").out


def test_a_range_without_a_mechanism_for_it_names_the_flag(labeldp: Callable[..., Ran], people: Path) -> None:
    for more in ((), ("--mechanism", "unary-encoding")):
        base = ("release", "people.csv", "--label", "age", "--range", "0,120", "--epsilon", "1", "--ledger", "l.ledger")
        ran = labeldp(*base, "--dataset", "people", "--out", "noisy.csv", *more)
        assert ran.status != 0 and "--range goes with --mechanism discrete-laplace" in ran.err
        assert not (people / "l.ledger").exists()


WEAK = "is a weak guarantee: the odds about one label can change 163,000-fold"


def test_an_epsilon_above_ten_is_said_in_words_where_it_is_asked_for(labeldp: Callable[..., Ran], people: Path) -> None:
    assert WEAK in labeldp("ledger", "add", "l.ledger", "--dataset", "people", "--epsilon", "12").err
    assert WEAK in labeldp(*arguments("fit", "people.csv", model="linear", epsilon="12")).err
    assert WEAK in labeldp(*arguments("release", "people.csv", epsilon="12")).err
    ran = labeldp("plan", "--n", "1e4", "--d", "2", "--classes", "2", "--epsilon", "1,12")
    assert ran.status == 0 and ran.err == f"epsilon = 12 {WEAK}\n"
    online = ("online", "plan", "--horizon", "1e3", "--experts", "5", "--epsilon")
    assert "odds about the losses of one round can change 163,000-fold" in labeldp(*online, "12").err
    assert labeldp(*online, "10").err == ""
    pd.DataFrame({"a": [0.0, 1.0] * 5, "b": [1.0, 0.0] * 5}).to_csv(people / "losses.csv", index=False)
    ran = labeldp("online", "run", "losses.csv", "--epsilon", "12", "--out", "decisions.csv")
    assert ran.status == 0 and "odds about the losses of one round" in ran.err, ran
    assert "weak" not in labeldp(*arguments("fit", "people.csv", epsilon="many")).err


def test_ctrl_c_ends_in_one_line_and_the_same_command_finishes(people: Path) -> None:
    command = [sys.executable, "-m", "labeldp", *arguments("fit", "people.csv", model="linear")]
    running = subprocess.Popen(command, cwd=people, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (people / "l.ledger").exists() and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(running.pid, signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130 and "Traceback" not in said and "Interrupted" in said
    assert not (people / "model").exists()
    finished = subprocess.run(command, cwd=people, capture_output=True, text=True, timeout=120, check=False)
    assert finished.returncode == 0, finished.stderr
    show = [sys.executable, "-m", "labeldp", "ledger", "show", "l.ledger"]
    assert "ε 1 of" in subprocess.run(show, cwd=people, capture_output=True, text=True, check=True).stdout


def test_a_private_column_of_the_dataset_is_no_feature(labeldp: Callable[..., Ran], people: Path) -> None:
    """Columns of one dataset share its budget, and none of them is public."""
    assert labeldp("ledger", "add", "l.ledger", "--dataset", "two", "--epsilon", "2", "--delta", "0").status == 0
    two = {"new-budget": "2"}
    release = arguments(
        "release", "people.csv", dataset="two/hours", label="hours", mechanism="unbiased-numbers", **two
    )
    place = release.index("--classes")
    release[place : place + 2] = ["--range", "0,100", "--clip"]
    ran = labeldp(*release)
    assert ran.status == 0, ran.err
    ran = labeldp(*arguments("fit", "people.csv", dataset="two/bought", **two))
    assert ran.status != 0 and "the column 'hours' holds private labels of 'two'" in ran.err
    assert "Budget        ε 1 of 2   " in labeldp("ledger", "show", "l.ledger").out and not (people / "model").exists()

"""labeldp online plan: the plan in words and as JSON, its warnings, and what is refused."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cli.conftest import Ran, account
from labeldp.cli.online import EXAMPLES
from labeldp.online import methods_of, plan_experts
from labeldp.online import run as online_run
from labeldp.tables import open_table

Run = Callable[..., Ran]


def plan(labeldp: Run, words: str) -> Ran:
    return labeldp("online", "plan", *words.split())


def test_the_main_question(labeldp: Run, people: Path) -> None:
    ran = plan(labeldp, "--horizon 100000 --experts 1000 --epsilon 1 --delta 1e-6")
    assert ran.status == 0 and ran.err == ""
    lines = ran.out.splitlines()
    assert lines[0] == (
        "1,000 experts, 100,000 rounds, epsilon = 1 and delta = 1e-06, where one round's loss function is replaced."
    )
    assert lines[2].startswith("Method: dartboard, batches of B = 3 rounds, rate eta = 0.00581")
    assert "Expected regret: at most 1,406, for any losses. Without privacy: at most 588." in lines
    table = lines[lines.index(next(line for line in lines if line.startswith("method "))) + 1 :]
    assert [line.split()[0] for line in table[:8]] == [
        *("dartboard", "shrinking-dartboard", "l2p", "doubling", "better-of-two", "matrix-factorization", "redraw"),
        "tree",
    ]
    assert "its regret can grow as fast as the number of rounds" in " ".join(lines)
    assert "can add 393 at worst; with --loss-bits 16, 1.53" in " ".join(lines)
    assert "says nothing" not in ran.out
    assert not list(people.glob("*.ledger")), "nothing is charged"


def test_json(labeldp: Run) -> None:
    found = json.loads(plan(labeldp, "--horizon 1e5 --experts 1e3 --epsilon 1 --delta 1e-6 --json").out)
    assert found == json.loads(json.dumps(plan_experts(1000, 10**5, 1, 1e-6).to_json()))
    assert found["method"] == "dartboard" and found["B"] == 3 and found["regret_bound"] < 1406
    assert {"eta", "p", "alternatives", "nonprivate_bound"} <= set(found)


def test_noise_and_epochs_in_words(labeldp: Run) -> None:
    ran = plan(labeldp, "--horizon 1e5 --experts 30 --epsilon 1 --neighbors zero-out --loss-bits 16")
    assert "Method: matrix-factorization, rate eta = 0.0" in ran.out and "noise of standard deviation" in ran.out
    assert "is replaced by zero." in ran.out and "Losses are counted" not in ran.out
    ran = plan(labeldp, "--horizon 1e5 --experts 100 --epsilon 1 --delta 0 --method doubling")
    assert "Method: doubling, rate eta = 0.5: one draw for each of 1, 2, 4, … rounds." in ran.out


def test_bounds_that_say_little_or_nothing(labeldp: Run) -> None:
    ran = plan(labeldp, "--horizon 100 --experts 1e6 --epsilon 0.1")
    assert "Expected regret: at most 100, for any losses." in ran.out
    assert "This bound says nothing: nobody loses more than 100 in 100 rounds." in " ".join(ran.out.split())
    ran = plan(labeldp, "--horizon 1e4 --experts 100 --epsilon 0.1")
    assert "% of the largest loss that is possible" in " ".join(ran.out.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--horizon 1e5 --experts 1.5 --epsilon 1", "--experts must be a whole number from 2 to 10^9, such as 1e5"),
        ("--horizon 1e5 --experts 1 --epsilon 1", "--experts must be a whole number from 2 to 10^9, such as 1e5"),
        ("--horizon 0 --experts 10 --epsilon 1", "--horizon must be a whole number from 1 to 10^12, such as 1e5"),
        ("--horizon many --experts 10 --epsilon 1", "--horizon must be a whole number from 1 to 10^12, such as 1e5"),
        ("--horizon 1e30 --experts 10 --epsilon 1", "--horizon must be a whole number from 1 to 10^12, such as 1e5"),
        ("--horizon 1e5 --experts 1e30 --epsilon 1", "--experts must be a whole number from 2 to 10^9, such as 1e5"),
        ("--horizon 1e5 --experts 10 --epsilon 0", "--epsilon must be positive, such as --epsilon 1.0"),
        ("--horizon 1e5 --experts 10 --epsilon x", "--epsilon must be a number, such as 1.0"),
        ("--horizon 1e5 --experts 10 --epsilon 1 --delta x", "--delta must be a number, such as 1e-6"),
        ("--horizon 1e5 --experts 10 --epsilon 1 --delta 2", "--delta must lie in [1e-200, 1), or be 0 for the method"),
        ("--horizon 1e5 --experts 10 --epsilon 1 --delta 0", "--delta must be positive, such as 1e-6"),
        ("--horizon 1e5 --experts 10 --epsilon 1 --method best", "--method must be one of: auto, dartboard"),
    ],
)
def test_what_is_refused(labeldp: Run, words: str, message: str) -> None:
    ran = plan(labeldp, words)
    assert ran.status == 1 and ran.out == "" and ran.err.startswith(f"Error: {message}") and ran.err.count("\n") == 1


def test_the_examples_of_the_help_run(labeldp: Run) -> None:
    for line in EXAMPLES.replace("\\\n", "").splitlines():
        if line.startswith("  labeldp "):
            assert labeldp(*shlex.split(line)[1:]).status == 0, line


@pytest.mark.parametrize("command", ["plan", "run"])
def test_help_names_every_method(labeldp: Run, command: str) -> None:
    shown = "".join(labeldp("online", command, "--help").out.split())
    assert all(method in shown for method in methods_of("experts"))


@pytest.fixture
def losses(people: Path) -> Path:
    """A table of forty rounds and three experts."""
    path = people / "losses.csv"
    pd.DataFrame(np.random.default_rng(0).random((40, 3)), columns=["a", "b", "c"]).to_csv(path, index=False)
    return path


def test_rounds_are_played_and_certified(labeldp: Callable, losses: Path) -> None:
    charged = account("clicks", "20", "l.db")
    ran = labeldp("online", "run", "losses.csv", "--epsilon", "20", "--out", "out.parquet", *charged)
    assert ran.status == 0 and "Created l.db" in ran.err
    assert "the losses of one round of dataset 'clicks'" in ran.out and "for at most 40 rounds" in ran.out
    assert "of ε = 20, δ = 1e-06 spent" in ran.out and "Decisions: out.parquet" in ran.out
    assert len(open_table("out.parquet").read()) == 40
    shown = labeldp("certificate", "out.parquet")
    assert shown.status == 0 and shown.out.startswith("Unverified: the certificate of out.parquet is unsigned")
    assert ran.out.splitlines()[0] == shown.out.splitlines()[1]
    assert "private experts  13" in labeldp("ledger", "show", "l.db").out
    again = labeldp("online", "run", "losses.csv", "--epsilon", "20", "--out", "again.csv", *charged)
    assert again.status == 0 and "charged for this plan before: the decisions are the same" in again.err
    assert pd.read_csv("again.csv")["expert"].tolist() == pd.read_parquet("out.parquet")["expert"].tolist()
    again = labeldp("online", "run", "losses.csv", "--epsilon", "19", "--out", "other.csv", *charged)
    assert again.status == 1 and "labeldp ledger add l.db --dataset clicks --change" in again.err


def test_ctrl_c_and_the_same_command_again(labeldp: Callable, losses: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("online", "run", "losses.csv", "--epsilon", "20", "--out", "out.csv", "--method", "dartboard")
    keep = online_run.RunState.keep

    def interrupted(*arguments: object) -> None:
        keep(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(online_run, "BLOCK_CELLS", 30)
    for _ in range(3):
        with monkeypatch.context() as patch:
            patch.setattr(online_run.RunState, "keep", interrupted)
            ran = labeldp(*command)
        assert ran.status == 130 and "Running the same command again finishes it" in ran.err
        assert Path("out.csv.unfinished").is_dir() and not Path("out.csv").exists()
    played = np.fromfile("out.csv.unfinished/actions", "<i4")
    assert len(played) == 30
    assert labeldp(*command).status == 0
    found = pd.read_csv("out.csv")["expert"].tolist()
    assert found[:30] == ["abc"[action] for action in played] and len(found) == 40


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--epsilon", "0"), "Error: --epsilon must be positive, such as --epsilon 1.0"),
        (("--epsilon", "x"), "Error: --epsilon must be a number"),
        (("--epsilon", "1", "--delta", "2"), "Error: --delta must lie"),
        (("--epsilon", "1", "--delta", "x"), "Error: --delta must be a number, such as 1e-6"),
        (("--epsilon", "1", "--method", "best"), "Error: --method must be one of"),
        (
            ("--epsilon", "1", "--horizon", "abc"),
            "Error: --horizon must be a whole number from 1 to 10^12, such as 1e5",
        ),
        (("--epsilon", "1", "--experts", "a"), "Error: --experts must be the names of at least two columns"),
        (("--epsilon", "1", "--experts", "a,d"), "Error: --experts: losses.csv has no column 'd'"),
        (("--epsilon", "1", "--experts", "a,a"), "Error: --experts must be different columns"),
        (("--epsilon", "1", "--levels"), "losses must be integers from 0 to 255"),
        (("--epsilon", "1", "--horizon", "39"), "Error: --horizon must be at least the number of rows, 40, not 39"),
        (("--epsilon", "1", "--ledger", "l.db"), "--dataset must be given with --ledger: the name"),
        (("--epsilon", "1", "--dataset", "clicks"), "--ledger must be given with --dataset: the file"),
        (("--epsilon", "1", "--revision", "next"), "--ledger and --dataset must be given with --revision"),
        (
            ("--epsilon", "1", "--ledger", "l.db", "--dataset", "", "--new-budget", "1"),
            "Error: --dataset must be a printable text",
        ),
        (("--epsilon", "1", "--neighbors", "none"), "'none' is not one of"),
    ],
)
def test_mistakes_end_in_one_line(labeldp: Callable, losses: Path, options: tuple[str, ...], words: str) -> None:
    ran = labeldp("online", "run", "losses.csv", "--out", "out.csv", *options)
    assert ran.status in (1, 2) and words in ran.err and "Traceback" not in ran.err and not ran.out
    assert not list(Path().glob("out.csv*")) and not Path("l.db").exists()


def test_an_output_that_cannot_be_is_named(labeldp: Callable, losses: Path) -> None:
    asked = ("online", "run", "losses.csv", "--epsilon", "2", "--out")
    assert labeldp(*asked, "no/dir/out.csv").err == "Error: --out: there is no directory no/dir\n"
    assert labeldp(*asked, "losses.csv").err.startswith("Error: --out: losses.csv exists already")
    Path("out.csv.certificate.json").write_text("{}")
    assert "out.csv.certificate.json exists already" in labeldp(*asked, "out.csv").err
    assert Path("out.csv.certificate.json").read_text() == "{}" and not list(Path().glob("*.unfinished"))


def test_losses_that_are_no_losses_lead_to_the_flag(labeldp: Callable, losses: Path) -> None:
    table = pd.read_csv("losses.csv")
    (table * 255).round().astype("uint8").to_parquet("levels.parquet")
    table.assign(when=pd.Timestamp("2026-01-01")).to_parquet("times.parquet")
    table.assign(when="noon").to_csv("times.csv", index=False)
    asked = ("--epsilon", "20", "--out", "out.csv")
    ran = labeldp("online", "run", "levels.parquet", *asked)
    assert "losses must be numbers in [0, 1], in every row" in ran.err and "; --levels takes integers from 0" in ran.err
    for name in ("times.parquet", "times.csv"):
        ran = labeldp("online", "run", name, *asked)
        assert ran.status == 1 and "--experts names the columns to take" in ran.err
        assert labeldp("online", "run", name, "--experts", "c,a", *asked).status == 0
        assert set(pd.read_csv("out.csv")["expert"]) <= {"a", "c"}
        Path("out.csv").unlink()
        Path("out.csv.certificate.json").unlink()


def test_the_group_has_examples_and_certificates_name_it(labeldp: Callable) -> None:
    assert "labeldp online run losses.parquet" in labeldp("online", "--help").out
    assert "release or online run wrote" in " ".join(labeldp("certificate", "--help").out.split())

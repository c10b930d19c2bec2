"""`labeldp online run` as the shell calls it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from labeldp.tables import open_table
from labeldp.workflows import online_run


@pytest.fixture
def losses(people: Path) -> Path:
    """A table of forty rounds and three experts."""
    path = people / "losses.csv"
    pd.DataFrame(np.random.default_rng(0).random((40, 3)), columns=["a", "b", "c"]).to_csv(path, index=False)
    return path


def test_rounds_are_played_and_certified(labeldp: Callable, losses: Path) -> None:
    account = ("--ledger", "l.db", "--dataset", "clicks")
    ran = labeldp("online", "run", "losses.csv", "--epsilon", "20", "--out", "out.parquet", *account)
    assert ran.status == 0 and "'clicks' is new in l.db" in ran.err
    assert "for every round's losses of the dataset 'clicks'" in ran.out and "for at most 40 rounds" in ran.out
    assert "clicks: budget epsilon = 20, delta = 1e-06; spent" in ran.out and "Decisions: out.parquet" in ran.out
    assert len(open_table("out.parquet").read()) == 40
    shown = labeldp("certificate", "out.parquet")
    assert shown.status == 0 and ran.out.splitlines()[0] == shown.out.splitlines()[0]
    assert "PrivateExperts, epsilon" in labeldp("ledger", "show", "l.db").out
    again = labeldp("online", "run", "losses.csv", "--epsilon", "20", "--out", "again.csv", *account)
    assert again.status == 0 and "charged for this plan before: the decisions are the same" in again.err
    assert pd.read_csv("again.csv")["expert"].tolist() == pd.read_parquet("out.parquet")["expert"].tolist()
    again = labeldp("online", "run", "losses.csv", "--epsilon", "19", "--out", "other.csv", *account)
    assert again.status == 1 and "labeldp ledger add l.db --dataset clicks --change" in again.err


def test_ctrl_c_and_the_same_command_again(labeldp: Callable, losses: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("online", "run", "losses.csv", "--epsilon", "20", "--out", "out.csv", "--method", "dartboard")
    keep = online_run.Unfinished.keep

    def interrupted(*arguments: object) -> None:
        keep(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(online_run, "BLOCK_CELLS", 30)
    for _ in range(3):
        with monkeypatch.context() as patch:
            patch.setattr(online_run.Unfinished, "keep", interrupted)
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
        (("--epsilon", "1", "--ledger", "l.db", "--dataset", ""), "Error: --dataset must be a printable text"),
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

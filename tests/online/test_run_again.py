"""Whoever goes on from what was kept of a run, or plays the same losses again, makes the same decisions."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

import labeldp as ldp
from labeldp.curator import LedgerFile
from labeldp.online import dump_state, load_state, methods_of, run_online
from labeldp.online import run as online_run
from labeldp.tables import open_table
from slow import mostly_slow

RUN: dict[str, Any] = {"epsilon": 1, "delta": 0.01, "method": "redraw"}
ROUNDS = 95
LEDGER: dict[str, Any] = {"ledger": "l.db", "dataset": "clicks"}


class Stopped(BaseException):
    """What Ctrl-C does."""


@pytest.fixture(autouse=True)
def ten_rounds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Blocks of ten rounds of losses among which no expert is the best."""
    monkeypatch.setattr(online_run, "BLOCK_CELLS", 80)
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(np.random.default_rng(0).random((ROUNDS, 8)), columns=list("abcdefgh")).to_parquet("losses.parquet")


def play(out: str = "out.parquet", data: str = "losses.parquet", **more: Any) -> list[str]:
    """The decisions of a run."""
    run_online(data, out=out, **RUN | more)
    return list(open_table(out).read()["expert"].to_pylist())


def copying(word: str, blocks: int) -> Callable[[str, float], None]:
    """Progress that copies the folder after so many blocks."""
    left = blocks

    def told(text: str, share: float) -> None:
        nonlocal left
        left -= text.startswith(word)
        if not left and text.startswith(word):
            shutil.copytree("out.parquet.unfinished", "copy.parquet.unfinished")

    return told


MOMENTS = [("checked", 1), ("played", 1), ("played", 4), ("played", 10)]


@pytest.mark.guarantee("labeldp.online:run_online", "same_decisions")
@pytest.mark.parametrize("account", [LEDGER, {}], ids=["ledger", "none"])
@pytest.mark.parametrize(("word", "blocks"), mostly_slow(MOMENTS, MOMENTS[2:3]))
def test_copies_of_a_run_make_the_same_decisions(word: str, blocks: int, account: dict[str, Any]) -> None:
    whole = play(progress=copying(word, blocks), **account)
    assert play("copy.parquet", **account) == whole
    assert not account or len(LedgerFile("l.db").dataset("clicks").charges) == 1
    other = play("other.parquet", ledger="other.db", dataset="clicks")
    assert len(set(whole)) > 4 and other != whole, "coins matter here"


@pytest.mark.parametrize("method", mostly_slow(sorted(methods_of("experts")), ["dartboard", "doubling"]))
def test_every_method_draws_from_the_coins_alone(method: str) -> None:
    run: dict[str, Any] = {"epsilon": 5, "method": method, **LEDGER}
    whole = play(progress=copying("played", 4), **run)
    assert play("copy.parquet", **run) == whole == play("again.parquet", **run)
    assert play("other.parquet", **run | {"ledger": "other.db"}) != whole


def test_a_copy_of_what_was_charged_alone_makes_the_same_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*arguments: Any) -> None:
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(online_run.LossFile, "play", stop)
        with pytest.raises(Stopped):
            play(**LEDGER)
    shutil.copytree("out.parquet.unfinished", "copy.parquet.unfinished")
    assert play(**LEDGER) == play("copy.parquet", **LEDGER)


def test_the_same_losses_are_the_same_release_whatever_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    first = play(**LEDGER)
    monkeypatch.setattr("labeldp.tables.files.BLOCK_BYTES", 2000)  # some twelve rounds
    table = parquet.read_table("losses.parquet")
    parquet.write_table(table, "rows.parquet", row_group_size=7)
    table.to_pandas().to_csv("losses.csv", index=False)
    assert play("rows_out.parquet", "rows.parquet", **LEDGER) == first == play("csv.csv", "losses.csv", **LEDGER)
    assert len(LedgerFile("l.db").dataset("clicks").charges) == 1


def test_losses_that_changed_are_not_played_with_the_coins_of_others() -> None:
    """The first block that differs is not played: what waits beside the output never shows these coins on others."""
    mine = parquet.read_table("losses.parquet").to_pandas()
    told = []

    def swap(text: str, share: float) -> None:
        told.append(text)
        if text.startswith("checked 95"):
            mine.assign(a=np.where(np.arange(ROUNDS) < 25, mine["a"], 0.5)).to_parquet("losses.parquet")

    with pytest.raises(ldp.LabelDPError, match="changed while it was being played"):
        play(progress=swap, **LEDGER)
    assert told[-1] == "played 20 rounds" and not Path("out.parquet.unfinished/actions").exists()
    mine.to_parquet("losses.parquet")
    assert play(**LEDGER) == play("again.parquet", **LEDGER)


def test_what_was_played_on_other_losses_is_not_gone_on_from() -> None:
    """Coins meet the losses that they were charged for and no others: an earlier version may have left such a state."""

    def stop(text: str, share: float) -> None:
        if text.startswith("played 30"):
            raise Stopped

    with pytest.raises(Stopped):
        play(progress=stop, **LEDGER)
    place = Path("out.parquet.unfinished/state")
    place.write_bytes(dump_state(load_state(place.read_bytes()) | {"losses": "0" * 64}))
    with pytest.raises(ldp.LabelDPError, match="changed while it was being played"):
        play(**LEDGER)
    assert play(**LEDGER) == play("again.parquet", **LEDGER)


def test_another_revision_has_other_coins() -> None:
    first = play(**LEDGER)
    LedgerFile("l.db").change("clicks", budget=ldp.Budget(3, 0.1))
    assert play("next.parquet", revision="next", **LEDGER) != first
    assert len(LedgerFile("l.db").dataset("clicks").charges) == 2

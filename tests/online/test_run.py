"""A file of losses is played once, however often it is interrupted."""

import stat
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import labeldp as ldp
from labeldp.curator import LedgerFile
from labeldp.fit import verify
from labeldp.online import BatchedDartboard, run_online
from labeldp.online import run as online_run
from labeldp.online.run import experts_of, levels_of
from labeldp.privacy import InputError
from labeldp.tables import open_table

NAMES, ROUNDS = ["a", "b", "c", "d"], 95

RUN: dict[str, Any] = {"epsilon": 20, "method": "dartboard"}

LEVELS: dict[str, Any] = {"epsilon": 20, "levels": True}

PLANS = lru_cache(online_run.plan_experts)


class Stopped(BaseException):
    """What Ctrl-C does."""


@pytest.fixture(autouse=True)
def ten_rounds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Blocks of ten rounds, in a folder of their own, and plans that are made once."""
    monkeypatch.setattr(online_run, "BLOCK_CELLS", 40)
    monkeypatch.setattr(online_run, "plan_experts", PLANS)
    monkeypatch.chdir(tmp_path)
    table().to_parquet("losses.parquet")


def table(seed: int = 0) -> pd.DataFrame:
    """Losses of which those of b are the smallest."""
    found = pd.DataFrame(np.random.default_rng(seed).random((ROUNDS, 4)), columns=NAMES)
    found["b"] /= 4
    return found


def play(out: str = "out.parquet", run: dict[str, Any] = RUN, data: str = "losses.parquet", **changed: Any) -> Any:
    return run_online(data, out=out, **run | changed)


def stop_after(blocks: int, word: str = "played") -> Callable[[str, float], None]:
    """Progress that stops the run after so many blocks."""
    seen = 0

    def told(text: str, share: float) -> None:
        nonlocal seen
        assert 0 <= share <= 1
        seen += text.startswith(word)
        if seen >= blocks and text.startswith(word):
            raise Stopped

    return told


def decisions(out: str = "out.parquet") -> list[str]:
    found = open_table(out).read().to_pandas()
    assert found["round"].astype(int).tolist() == list(range(1, ROUNDS + 1)) and set(found["expert"]) <= set(NAMES)
    return found["expert"].tolist()


def kept() -> list[str]:
    """The actions that wait."""
    return [NAMES[action] for action in np.fromfile("out.parquet.unfinished/actions", "<i4")]


@pytest.mark.parametrize("out", ["out.parquet", "out.csv", "out.csv.gz"])
def test_a_file_is_played(out: str) -> None:
    certificate = play(out)
    assert len(decisions(out)) == ROUNDS and verify(out).holds and verify(out).certificate == certificate
    assert certificate.epsilon(1e-6) <= 20 and float(verify(out).delta) == 1e-6
    assert "the losses of one round of dataset 'losses'" in certificate.at(1e-6) and "95 rounds" in certificate.at()
    assert not Path(f"{out}.unfinished").exists()


@pytest.mark.guarantee("labeldp.online:run_online", "all_rounds")
@pytest.mark.parametrize("blocks", [1, 4, 10])
def test_an_interrupted_run_goes_on(blocks: int) -> None:
    """No round is played again after its action was kept."""
    with pytest.raises(Stopped):
        play(progress=stop_after(blocks))
    assert not Path("out.parquet").exists()
    before = kept()
    assert len(before) == min(10 * blocks, ROUNDS)
    with (Path("out.parquet.unfinished") / "actions").open("ab") as file:
        file.write(b"torn")  # a death between the actions and the state
    with pytest.raises(Stopped):
        play(progress=stop_after(1))
    play()
    assert decisions()[: len(before)] == before and not Path("out.parquet.unfinished").exists()


def test_rounds_are_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, drawn = pd.read_parquet("losses.parquet"), []
    update = BatchedDartboard.update

    def counted(self: Any, state: Any, levels: Any, *, rng: Any) -> Any:
        drawn.extend(levels[:, 0].tolist())
        return update(self, state, levels, rng=rng)

    monkeypatch.setattr(BatchedDartboard, "update", counted)
    for blocks in (3, 1, 2):
        with pytest.raises(Stopped):
            play(progress=stop_after(blocks))
    play()
    assert drawn == np.rint(rows["a"] * 255).astype(int).tolist()


@pytest.mark.guarantee("labeldp.online:run_online", "charged_once")
@pytest.mark.parametrize("where", ["checked", "charge", "charged", "update", "played"])
def test_a_run_is_charged_once(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*arguments: Any, **named: Any) -> Any:
        raise Stopped

    def charge(mechanism: Any, *arguments: Any) -> Any:
        if where == "charged":
            charge_run(mechanism, *arguments)
        raise Stopped

    charge_run, account = online_run.HorizonCharge.charge, {"ledger": "l.db", "dataset": "clicks"}
    with monkeypatch.context() as patch:
        if where.startswith("charge"):
            patch.setattr(online_run.HorizonCharge, "charge", charge)
        if where == "update":
            patch.setattr(BatchedDartboard, "init", stop)
        with pytest.raises(Stopped):
            play(progress=stop_after(2, where), **account)
    notes: list[str] = []
    certificate = play(note=notes.append, **account)
    charges = LedgerFile("l.db").dataset("clicks").charges
    assert charges == certificate.entries and len(charges) == 1
    before = ["charged for this plan before" in note for note in notes]
    assert before == ([] if where in ("checked", "charge") else [True])


def test_another_plan_is_another_release() -> None:
    account: Any = {"ledger": "l.db", "dataset": "clicks"}
    play(**account)
    other = {"epsilon": 19, "method": "dartboard"}
    with pytest.raises(ldp.BudgetExceeded):
        play("again.parquet", other, **account)
    clicks = LedgerFile("l.db").dataset("clicks")
    assert len(clicks.charges) == 1 and not list(Path().glob("again*"))
    LedgerFile("l.db").change("clicks", budget=ldp.Budget(60, 1e-5))
    play("again.parquet", other, **account)
    assert len(clicks.charges) == 2
    table(1).to_parquet("other.parquet")
    with pytest.raises(ldp.privacy.LedgerError, match="name the new state"):
        play("other_out.parquet", data="other.parquet", **account)
    assert len(clicks.charges) == 2
    play("other_out.parquet", data="other.parquet", revision="next week", **account)
    assert len(clicks.charges) == 3


def test_what_waits_is_for_its_owner_alone() -> None:
    with pytest.raises(Stopped):
        play(progress=stop_after(2))
    folder = Path("out.parquet.unfinished")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert sorted(place.name for place in folder.iterdir()) == ["actions", "run.json", "state"]
    assert {stat.S_IMODE(place.stat().st_mode) for place in folder.iterdir()} == {0o600}
    assert b"SECRET" in (folder / "state").read_bytes().splitlines()[0]


def test_what_waits_is_of_one_run() -> None:
    with pytest.raises(Stopped):
        play(progress=stop_after(2))
    with pytest.raises(ldp.privacy.InputError, match="is of another run"):
        play(run={"epsilon": 1})
    table(1).to_parquet("losses.parquet")
    with pytest.raises(ldp.privacy.InputError, match="differ from the unfinished run"):
        play()
    table().to_parquet("losses.parquet")
    assert len(kept()) == 20
    play()


def test_a_run_that_was_not_charged_may_be_changed() -> None:
    with pytest.raises(Stopped):
        play(progress=stop_after(2, "checked"))
    play(run={"epsilon": 1, "horizon": "2e2"})


def test_two_runs_at_a_time_are_refused() -> None:
    def second(text: str, share: float) -> None:
        with pytest.raises(ldp.LabelDPError, match="another run is at work on"):
            play()

    play(progress=second)
    assert len(decisions()) == ROUNDS


def test_losses_that_change_meanwhile_are_noticed() -> None:
    def change(text: str, share: float) -> None:
        if text == "checked 95 rounds":
            table(1).to_parquet("losses.parquet")

    with pytest.raises(ldp.LabelDPError, match="changed while it was being played: nothing was published"):
        play(progress=change)
    assert not Path("out.parquet").exists() and not Path("out.parquet.unfinished/state").exists()
    table().to_parquet("losses.parquet")
    play()


def test_levels_are_taken_as_they_are() -> None:
    levels = (table() * 255).round().astype(int)
    levels.to_csv("levels.csv", index=False)
    play(data="levels.csv", run=LEVELS)
    assert len(decisions()) == ROUNDS


WRONG = [
    ({"a": 1.0371}, RUN, "numbers in .0, 1."),
    ({"a": -0.0371}, RUN, "numbers in .0, 1."),
    ({"a": np.nan}, RUN, "numbers in .0, 1."),
    ({"a": "0371"}, RUN, "losses must be numbers"),
    ({"a": 0.371}, LEVELS, "integers from 0 to 255"),
    ({"a": 371}, LEVELS, "integers from 0 to 255"),
    ({}, {"epsilon": 20, "horizon": 94}, "horizon must be at least the number of rows, 95, not 94"),
    ({}, {"epsilon": 20, "method": "best"}, "method must be one of"),
]


@pytest.mark.parametrize(("cell", "run", "words"), WRONG)
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_what_is_wrong_is_refused_before_anything_is_charged(
    kind: str, cell: dict[str, Any], run: dict[str, Any], words: str
) -> None:
    found = table().round(0) if run.get("levels") else table()
    for name, value in cell.items():
        found[name] = found[name].astype(object)
        found.loc[77, name] = value
        found[name] = found[name].astype(str if isinstance(value, str) else float)
    getattr(found, f"to_{kind}")(f"wrong.{kind}", index=False)
    with pytest.raises(ldp.privacy.InputError, match=words) as error:
        play(data=f"wrong.{kind}", run=run, ledger="l.db", dataset="clicks")
    assert "371" not in str(error.value) and "77" not in str(error.value)
    assert not list(Path().glob("*out*"))
    public = not cell or (kind == "parquet" and isinstance(cell["a"], str))  # nothing of any loss was looked at
    assert Path("l.db").exists() != public
    if not public:
        clicks = LedgerFile("l.db").dataset("clicks")
        assert clicks.charges == () and [(each.passed, each.refused) for each in clicks.read().domains] == [(0, 1)]


def test_progress_does_not_tell_which_loss_was_refused() -> None:
    told = []
    for row in (1, 77):
        found = table()
        found.loc[row, "a"] = 2.0
        found.to_csv("wrong.csv", index=False)
        told.append([])
        with pytest.raises(ldp.privacy.DomainError):
            play(data="wrong.csv", ledger="l.db", dataset="clicks", progress=lambda text, share: told[-1].append(text))
    assert told[0] == told[1] and told[0][-1] == f"checked {ROUNDS} rounds"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"out": "out.json"}, "must end in .parquet or .csv"),
        ({"out": "nowhere/out.csv"}, "there is no directory nowhere"),
        ({"out": "losses.parquet"}, "exists already"),
        ({"data": "none.parquet"}, "no such file"),
        ({"ledger": "l.db"}, "dataset must be given with ledger"),
        ({"dataset": "clicks"}, "ledger must be given with dataset"),
        ({"revision": "next"}, "ledger and dataset must be given with revision"),
        ({"ledger": "l.db", "dataset": ""}, "name must be a printable text"),
        ({"ledger": "l.db", "dataset": " "}, "name must be a printable text"),
        ({"ledger": "l.db", "dataset": "clicks", "revision": ""}, "revision must be a printable text"),
    ],
)
def test_wrong_places_are_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ldp.privacy.InputError, match=words):
        play(**changed)
    assert sorted(place.name for place in Path().iterdir()) == ["losses.parquet"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"delta": 1}, "delta"),
        ({"horizon": 0}, "horizon"),
        ({"horizon": "1.5"}, "horizon"),
        ({"horizon": "many"}, "horizon must be a whole number from 1 to 10.12, such as 1e5"),
        ({"horizon": "1e30"}, "horizon must be a whole number from 1 to 10.12, such as 1e5"),
        ({"loss_bits": 9}, "loss_bits must be 8 or 16"),
    ],
)
def test_wrong_numbers_are_refused_at_once(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ldp.privacy.InputError, match=words):
        play(**wrong)


def test_a_folder_of_somebody_else_is_left_alone() -> None:
    folder = Path("out.parquet.unfinished")
    folder.mkdir()
    (folder / "thesis.txt").write_text("mine")
    with pytest.raises(ldp.privacy.InputError, match="is not of labeldp"):
        play()
    assert (folder / "thesis.txt").read_text() == "mine"


def test_a_run_that_died_at_its_first_step_is_begun_again() -> None:
    folder = Path("out.parquet.unfinished")
    folder.mkdir()
    (folder / ".run.json.partial").write_text("{")
    play()
    assert len(decisions()) == ROUNDS and not folder.exists()


def test_one_expert_is_no_choice() -> None:
    table()[["a"]].to_parquet("one.parquet")
    with pytest.raises(ldp.privacy.InputError, match="parquet has one column; at least two experts are needed"):
        play(data="one.parquet")


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
        (TABLE.assign(day=pd.Timestamp(0)), "column 'day' holds timestamp.*experts names the columns to take"),
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

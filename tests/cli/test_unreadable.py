"""Rows that cannot be read: every door to private labels counts them, on disk, before it says so, and in one way."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import labeldp as ldp
from cli.conftest import Ran
from labeldp.bags import bag_sum, release_bags
from labeldp.curator import LedgerFile
from labeldp.fit import fit_linear
from labeldp.learners import MedianPartition
from labeldp.mechanisms import Interval, LaplaceSum, RandomizedResponse
from labeldp.online import run_online
from labeldp.privacy import InputError, LedgerError, UnreadableRows
from labeldp.releases import cells, charge, fit_cells, histogram, moments, release_file
from slow import mostly_slow

CELLS = {
    "NUL": b"n\0o",
    "a byte that is not UTF-8": b"\xff",
    "a cell more": b"no,maybe",
    "a cell less": b"no\n9",
    "a bare carriage return": b"no\rmaybe",
    "an open quote": b'"no',
    "a long cell": b"n" * (1 << 20),
}

CLASSES, HOURS = ldp.Classes(("no", "yes")), Interval(0, 100)
ACCOUNT: dict[str, Any] = {"ledger": "l.db", "dataset": "people"}
BY_ID: dict[str, Any] = {"id": "id", "epsilon": 1, **ACCOUNT}
FEATURES = ["age"]


def released(data: str, **more: Any) -> Any:
    given = {"label": "bought", "domain": CLASSES, "epsilon": 1, "out": "noisy.csv", **ACCOUNT} | more
    return release_file(data, **given)


def in_folder(data: str) -> Any:
    Path("parts").mkdir()
    shutil.copy("sound.csv", "parts/a.csv")
    shutil.copy(data, "parts/b.csv")
    return released("parts", out="noisy", in_place=True)


def charged(data: str) -> Any:
    mechanism = RandomizedResponse(domain=CLASSES, epsilon=1)
    return charge(data, label="bought", id="id", mechanism=mechanism, **ACCOUNT)


def of_cells(data: str) -> Any:
    partition = MedianPartition(4).fit(np.random.default_rng(0).normal(50, 10, (99, 1)))
    more = {"features": FEATURES, "partition": partition, "mechanism": LaplaceSum, "why": "made of nothing"}
    return cells(data, label="hours", domain=HOURS, **more, **BY_ID)


DOORS: dict[str, Callable[[str], Any]] = {
    "release": released,
    "release by ids": lambda data: released(data, id_column="id", in_place=True),
    "release for users": lambda data: released(data, id_column="id", user_column="region"),
    "release of a folder": in_folder,
    "release of numbers": lambda data: released(data, label="hours", domain=HOURS, mechanism="discrete-laplace"),
    "bags": lambda data: release_bags(
        data, label="hours", domain=HOURS, mechanism="bag-sum", size=9, epsilon=1, out="sums.csv", id_column="id",
        **ACCOUNT,
    ),
    "bags of row numbers": lambda data: release_bags(
        data, label="hours", domain=HOURS, mechanism="bag-sum", size=9, epsilon=1, out="sums.csv", **ACCOUNT
    ),
    "histogram": lambda data: histogram(data, label="bought", domain=CLASSES, **BY_ID),
    "cells": of_cells,
    "moments": lambda data: moments(
        data, label="bought", domain=CLASSES, features=["team"], clip=1.0, why="made of nothing", **BY_ID
    ),
    "fit_cells": lambda data: fit_cells(data, label="hours", domain=HOURS, features=FEATURES, **BY_ID),
    "fit_linear": lambda data: fit_linear(data, label="bought", domain=CLASSES, features=FEATURES, **BY_ID),
    "bag_sum": lambda data: bag_sum(
        data, label="hours", domain=HOURS, bags="team", size=1, why="made of nothing", **BY_ID
    ),
    "charge": charged,
}  # fmt: skip


def spoiled(folder: Path, column: str, cell: bytes, row: int = 30) -> str:
    """Write people.csv with a column of teams, and with one label replaced; return its name."""
    head, *rows = (folder / "people.csv").read_bytes().splitlines()
    lines = [b"team," + head, *(b"%d," % (number % 3) + line for number, line in enumerate(rows))]
    (folder / "sound.csv").write_bytes(b"\n".join(lines) + b"\n")
    cells = lines[row].split(b",")
    cells[lines[0].split(b",").index(column.encode())] = cell
    lines[row] = b",".join(cells)
    (folder / "spoiled.csv").write_bytes(b"\n".join(lines) + b"\n")
    return "spoiled.csv"


def counted(ledger: str = "l.db", dataset: str = "people") -> int:
    """How many rejections the file of a ledger holds."""
    account = LedgerFile(ledger).dataset(dataset)
    assert not account.charges
    return sum(domain.refused for domain in account.read().domains)


def label_of(name: str) -> str:
    numbers = ("release of numbers", "bags", "bags of row numbers", "cells", "fit_cells", "bag_sum")
    return "hours" if name in numbers else "bought"


CASES = [(door, cell) for door in DOORS for cell in CELLS]


@pytest.mark.parametrize(
    ("name", "cell"),
    mostly_slow(CASES, [(door, "a cell more") for door in DOORS] + [("release", cell) for cell in CELLS]),
)
def test_rows_that_cannot_be_read_are_counted_before_they_are_told(
    people: Path, name: str, cell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(people)
    LedgerFile("l.db").add("people", ldp.Budget(8))
    data = spoiled(people, label_of(name), CELLS[cell])
    said = []
    for number in (1, 2):
        with pytest.raises(UnreadableRows) as caught:
            DOORS[name](data)
        shutil.rmtree("parts", ignore_errors=True)
        said.append(str(caught.value))
        assert counted() == number and caught.value.counted
        assert caught.value.__context__ is None and caught.value.__cause__ is None
    assert len(set(said)) == 1 and "has rows that cannot be read" in said[0]
    assert not list(people.glob("noisy*")) and not list(people.glob("sums*"))


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_cells_of_other_formats_are_counted_too(people: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A label that is no text, and a page of labels that is damaged, are rejections like a cell of a CSV file."""
    monkeypatch.chdir(people)
    LedgerFile("l.db").add("people", ldp.Budget(8))
    labels = pa.array([b"no", b"yes", b"\xff", b"no"] * 50)
    texts = pa.StringArray.from_buffers(len(labels), labels.buffers()[1], labels.buffers()[2])
    table, told = pa.table({"id": range(200), "bought": texts}), []
    for number in (1, 2):
        if form == "arrow":
            with pa.ipc.new_file("odd.arrow", table.schema) as file:
                file.write_table(table, max_chunksize=20)
        elif number == 1:
            parquet.write_table(table, "odd.parquet", compression="none", use_dictionary=False)
        else:
            sound = pa.table({"id": range(200), "bought": ["no"] * 200})
            parquet.write_table(sound, "odd.parquet", compression="none", use_dictionary=False)
            whole = Path("odd.parquet").read_bytes()
            place = whole.index(b"no\2\0\0\0no")
            Path("odd.parquet").write_bytes(whole[:place] + b"\xff" * 60 + whole[place + 60 :])
        with pytest.raises(InputError):
            released(f"odd.{form}", block_rows=10, progress=lambda text, share: told.append(text))
        assert counted() == number
    assert "checked 200 rows" in told if form == "parquet" else told == []


@pytest.mark.parametrize("row", [1, 599])
def test_no_sign_tells_where_the_row_is(people: Path, row: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress begins when every row was found to be readable."""
    monkeypatch.chdir(people)
    data, told = spoiled(people, "bought", b"no,maybe", row), []
    with pytest.raises(UnreadableRows):
        released(data, block_rows=10, progress=lambda text, share: told.append(text))
    assert told == [] and counted() == 1


def test_a_ledger_that_cannot_be_written_tells_nothing_of_the_rows(
    people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(people)
    LedgerFile("l.db").add("people", ldp.Budget(8), domain=ldp.Classes(("other", "classes")))
    with pytest.raises(LedgerError, match="declared"):
        released(spoiled(people, "bought", b"no,maybe"))
    assert counted() == 0


COMMANDS = {
    "fit": ("fit", "DATA", "--label", "bought", "--classes", "no,yes", "--epsilon", "1", "--out", "model"),
    "fit of numbers": ("fit", "DATA", "--label", "hours", "--range", "0,100", "--epsilon", "1", "--out", "model"),
    "release": ("release", "DATA", "--label", "bought", "--classes", "no,yes", "--epsilon", "1", "--out", "noisy.csv"),
    "estimate": ("estimate", "mean", "DATA", "--label", "hours", "--range", "0,100", "--trust", "central",
                 "--epsilon", "1", "--by", "region"),
    "estimate by ids": ("estimate", "mean", "DATA", "--label", "bought", "--classes", "no,yes", "--trust", "central",
                        "--epsilon", "1", "--id", "id"),
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("cell", mostly_slow(CELLS, ["a cell more", "a byte that is not UTF-8"]))
def test_commands_count_them(labeldp: Callable[..., Ran], people: Path, command: str, cell: str) -> None:
    words = COMMANDS[command]
    data = spoiled(people, words[words.index("--label") + 1], CELLS[cell])
    typed = [data if word == "DATA" else word for word in words]
    ran = labeldp(*typed, "--ledger", "l.db", "--dataset", "people", "--new-budget", "4")
    assert ran.status != 0 and "has rows that cannot be read" in ran.err and counted() == 1, ran


def test_an_audit_counts_in_the_ledger_itself(labeldp: Callable[..., Ran], people: Path) -> None:
    words = ("--label", "bought", "--classes", "no,yes", "--epsilon", "1", "--ledger", "l.db", "--dataset", "people")
    assert labeldp("release", "people.csv", *words, "--new-budget", "4", "--out", "noisy.csv").status == 0
    for number, (cell, message) in enumerate({b"no,maybe": "cannot be read", b"maybe": "missing or not"}.items(), 1):
        data = spoiled(people, "bought", cell)
        ran = labeldp("audit", "noisy.csv", "--ledger", "l.db", "--data", data)
        account = LedgerFile("l.db").dataset("people")
        assert message in ran.out + ran.err and sum(domain.refused for domain in account.read().domains) == number, ran


def test_losses_that_cannot_be_read_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number, cell in enumerate(("0.5,0.5", "0.5\0"), 1):
        Path("losses.csv").write_text("a,b\n" + "0.1,0.2\n" * 50 + f"0.1,{cell}\n")
        with pytest.raises(UnreadableRows):
            run_online("losses.csv", epsilon=1, delta=0.01, out="out.csv", ledger="l.db", dataset="clicks")
        assert counted(dataset="clicks") == number


def test_a_block_that_is_too_large_is_a_rejection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's texts end at 2 GiB in an array: whether labels do is no error of its own, and counts."""

    def overflow(arrays: Any) -> Any:
        raise pa.ArrowInvalid("offset overflow, 7731773")

    table = pa.table({"x": range(40), "y": ["no", "yes"] * 20})
    chunks = pa.concat_tables([table.slice(0, 7), table.slice(7)])
    monkeypatch.setattr("labeldp.tables.table.pa.concat_arrays", overflow)
    ledger = tmp_path / "l.ledger"
    with pytest.raises(UnreadableRows) as caught:
        release_file(
            chunks,
            label="y",
            domain=ldp.Classes(("no", "yes")),
            epsilon=1,
            ledger=ledger,
            dataset="d",
            out=tmp_path / "o.csv",
        )
    assert caught.value.__context__ is None and "7731773" not in str(caught.value)
    assert LedgerFile(ledger).dataset("d").read().domains[0].refused == 1

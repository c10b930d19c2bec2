"""What leaves depends on the labels through released values alone: these held fixed, other labels change no byte."""

import csv
import gzip
import logging
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from cli.conftest import PUBLIC, Ran, account
from labeldp.curator import dataset_ledger
from labeldp.mechanisms import MECHANISMS, Mechanism
from slow import slow_cases

CLASSES = ("--label", "bought", "--classes", "no,yes", *account("people", "8"))
NUMBERS = ("--label", "hours", "--range", "0,100", *account("people", "8"))
CENTRAL = ("--trust", "central", "--delta", "1e-6")

SHORT, LONG = "n", "yes with pleasure and whatever else belongs to it"
WORDS = ("--label", "bought", "--classes", f"{SHORT},{LONG}", *account("people", "8"))
"""Classes whose names have very different lengths."""

LAPLACE = ("--mechanism", "discrete-laplace")
ONCE = ("--epsilon", "1", "--id", "id")

COMMANDS: dict[str, list[tuple[str, ...]]] = {
    "fit": [("fit", "people.csv", *CLASSES, "--epsilon", "1", "--out", "model"),
            ("certificate", "model", "--ledger", "l.ledger"), ("predict", "model", "public.csv", "--out", "p.csv")],
    "fit again": [("fit", "people.csv", *CLASSES, "--epsilon", "1", "--model", "linear", "--out", "model")] * 2,
    "fit with a test file": [("fit", "people.csv", *CLASSES, "--epsilon", "1", "--model", "linear", "--id", "id",
                              "--test", "public.csv", PUBLIC, "--out", "model")],
    "fit with an evaluation": [("fit", "people.csv", *CLASSES, "--epsilon", "1", "--model", "linear",
                                "--evaluation", "0.2", "--out", "model")],
    "fit linear": [("fit", "people.csv", *CLASSES, "--epsilon", "1", *CENTRAL, "--model", "linear", "--out", "model")],
    "report": [("fit", "people.csv", *CLASSES, "--epsilon", "1", "--model", "linear", "--out", "model"),
               ("report", "model", "--data", "people.csv", "--ledger", "l.ledger")],
    "fit cells": [("fit", "people.csv", *CLASSES, "--epsilon", "1", "--model", "cells", "--out", "model")],
    "fit numbers": [("fit", "people.csv", *NUMBERS, "--epsilon", "1", "--out", "model")],
    "fit numbers, central": [("fit", "people.csv", *NUMBERS, "--epsilon", "1", *CENTRAL, "--out", "model")],
    "fit beyond the budget": [("fit", "people.csv", *CLASSES, "--epsilon", "99", "--out", "model")],
    "release": [("release", "people.csv", *CLASSES, "--epsilon", "1", "--id", "id", "--out", "noisy.csv"),
                ("certificate", "noisy.csv")],
    "release sets": [("release", "people.csv", *CLASSES, "--epsilon", "1", "--mechanism", "local-hashing",
                      "--out", "noisy.csv")],
    "release numbers": [("release", "people.csv", *NUMBERS, *LAPLACE, "--epsilon", "1", "--out", "noisy.csv")],
    "plan": [("plan", "people.csv", "--label", "bought", "--classes", "no,yes", "--epsilon", "1")],
    "choose": [("choose", "people.csv", "--label", "bought", "--classes", "no,yes", "--epsilon", "1")],
    "ledger": [("release", "people.csv", *CLASSES, "--epsilon", "1", "--out", "noisy.csv"),
               ("release", "people.csv", *CLASSES, "--epsilon", "9", "--out", "more.csv"),
               ("ledger", "show", "l.ledger")],
    "release in place": [("release", "people.csv", *WORDS, *ONCE, "--in-place", "--out", "noisy.parquet")],
    "release in place, Arrow": [("release", "people.csv", *WORDS, *ONCE, "--in-place", "--out", "noisy.arrow")],
    "release in place, CSV": [("release", "people.csv.gz", *WORDS, *ONCE, "--in-place", "--out", "noisy.csv.gz")],
    "release of Parquet": [("release", "people.parquet", *WORDS, *ONCE, "--in-place", "--out", "noisy.parquet")],
    "release of Parquet, Arrow": [("release", "people.parquet", *WORDS, *ONCE, "--in-place", "--out", "noisy.arrow")],
    "release of Arrow": [("release", "people.arrow", *WORDS, *ONCE, "--in-place", "--out", "noisy.parquet")],
    "release of Arrow, Feather": [("release", "people.arrow", *WORDS, *ONCE, "--in-place", "--out", "noisy.feather")],
    "release of row numbers": [("release", "people.parquet", *WORDS, "--epsilon", "1", "--out", "noisy.parquet")],
    "release of a folder": [("release", "parts", *WORDS, *ONCE, "--in-place", "--out", "noisy")],
    "release of a folder, one file": [("release", "same", *WORDS, *ONCE, "--in-place", "--out", "noisy.parquet")],
    "release of a folder, one column": [("release", "parts", *WORDS, *ONCE, "--out", "noisy")],
    "release of numbers in place": [("release", "people.csv", *NUMBERS, *LAPLACE, *ONCE, "--in-place",
                                     "--out", "noisy.parquet")],
    "release for users": [("release", "people.csv", *WORDS, *ONCE, "--user", "age", "--in-place", "--out",
                           "noisy.arrow")],
    "release of bags": [("release", "people.csv", *NUMBERS, *ONCE, "--mechanism", "bag-sum", "--size", "10",
                         "--out", "sums.parquet")],
    "release of weighted bags": [("release", "people.parquet", *NUMBERS, "--epsilon", "1", "--delta", "1e-6",
                                  "--mechanism", "noisy-weighted-llp", "--size", "10", "--out", "sums.arrow")],
    "estimate": [("estimate", "mean", "people.csv", *WORDS, *CENTRAL[:2], *ONCE, "--by", "region")],
    "estimate of numbers": [("estimate", "mean", "people.parquet", *NUMBERS, *CENTRAL[:2], *ONCE, "--by", "region")],
    "estimate of a release": [("release", "people.csv", *WORDS, *ONCE, "--in-place", "--out", "noisy.csv"),
                              ("estimate", "mean", "noisy.csv", "--by", "region")],
    "fit long words": [("fit", "people.csv", *WORDS, *ONCE, "--model", "linear", "--out", "model")],
    "fit of Parquet": [("fit", "people.parquet", *WORDS, *ONCE, "--model", "linear", "--out", "model")],
    "audit": [("release", "people.csv", *WORDS, *ONCE, "--in-place", "--out", "noisy.parquet"),
              ("audit", "noisy.parquet", "--ledger", "l.ledger")],
    "cohort": [("ledger", "add", "l.ledger", "--dataset", "people", "--cohort", "first", "--ids", "people.csv",
                "--id", "id")],
}  # fmt: skip

STATUS = {"fit beyond the budget": [1], "ledger": [0, 1, 0], "audit": [0, 2]}
"""The exit statuses of commands that are refused, or decide nothing; otherwise 0."""

SECONDS = re.compile(r"^\[ *\d+ s\] ", re.M)
"""How long a stage took is no function of the labels that a test could hold fixed."""


class Tape:
    """Keeps what mechanisms draw in a first run, and gives it again in a second."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kept: list[tuple[str, Any]] = []
        self.place: int | None = None
        self.depth = 0
        for row in MECHANISMS.values():
            row.load()
        for kind in set(_kinds(Mechanism)):
            for method in {"randomize", "release_counts"} & vars(kind).keys():
                monkeypatch.setattr(kind, method, self._taped(getattr(kind, method)))

    def _taped(self, draw: Callable[..., Any]) -> Callable[..., Any]:
        def randomize(mechanism: Mechanism, labels: Any, **more: Any) -> Any:
            if self.depth:
                return draw(mechanism, labels, **more)
            self.depth += 1
            try:
                drawn = draw(mechanism, labels, **more)
            finally:
                self.depth -= 1
            if self.place is None:
                self.kept.append((str(mechanism), np.array(drawn)))
                return drawn
            name, value = self.kept[self.place]
            assert name == str(mechanism) and value.shape == np.shape(drawn)
            self.place += 1
            return value.copy()

        return randomize


def _kinds(base: type) -> Iterator[type]:
    yield base
    for each in base.__subclasses__():
        yield from _kinds(each)


def others(column: pd.Series) -> pd.Series:
    """Other labels of the same domain, for more than a third of the records."""
    if column.name == "bought":
        return column.map(dict(zip(names := sorted(column.unique()), names[::-1], strict=True)))
    return ((column + 41.5) % 100).where(column < 40, 1.0) + 1e-9


def cut_by_bytes(table: pd.DataFrame, private: str, size: int) -> list[pa.Table]:
    """Cut a table as engines cut it: so that each piece has so many bytes, of which labels are a part."""
    whole = pa.Table.from_pandas(table, preserve_index=False)
    ends = table[private].astype(str).str.len().cumsum() // size
    return [whole.take(pa.array(np.flatnonzero(ends == number))) for number in ends.unique()]


def store(folder: Path, table: pd.DataFrame, private: str, *, quoted: bool) -> set[Path]:
    """Write a table in all forms, cut by bytes; return the files."""
    cells = table.assign(**{private: table[private].map(lambda label: f'"{label}"' if quoted else label)})
    for number, rows in enumerate((cells, cells[:250], cells[250:])):
        path = folder / ["people.csv", "parts/a.csv", "parts/c.csv"][number]
        path.parent.mkdir(exist_ok=True)
        rows.to_csv(path, index=False, quoting=csv.QUOTE_NONE)
    (folder / "people.csv.gz").write_bytes(gzip.compress((folder / "people.csv").read_bytes()))
    pieces = cut_by_bytes(table, private, 700)
    (folder / "same").mkdir()
    (folder / "parts" / "inner").mkdir()
    others = cut_by_bytes(table.assign(id=table["id"] + 10_000), private, 900)
    files = {"people": pieces, "same/a": pieces, "same/b": others, "parts/inner/b": others}
    for name, parts in files.items():
        with parquet.ParquetWriter(folder / f"{name}.parquet", pieces[0].schema) as rows:
            for part in parts:
                rows.write_table(part)
    with pa.ipc.new_file(folder / "people.arrow", pieces[0].schema) as batches:
        for part in pieces:
            batches.write_table(part)
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("curves")
@pytest.mark.parametrize("name", slow_cases(COMMANDS, ["fit numbers"]))
def test_other_labels_change_no_byte_but_in_the_ledger(
    labeldp: Callable[..., Ran], people: Path, name: str, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """Released values held fixed, two label columns of other lengths give the same files, words, logs and errors.

    Files are the same to the byte: so are row groups, batches, pages, dictionaries, lengths and statistics in them.
    """
    for module in [module for where, module in sys.modules.items() if where.startswith("labeldp.curator.")]:
        if hasattr(module, "now"):
            monkeypatch.setattr(module, "now", lambda: "2026-01-01T00:00:00+00:00")
    # A commitment is a keyed digest, and as good as a released value: of these bits the ledger's secret makes noise.
    monkeypatch.setattr(dataset_ledger, "commitment", lambda secret, charge, labels: f"of {charge}")
    assert labeldp("ledger", "add", "l.ledger", "--dataset", "people", "--epsilon", "8", "--delta", "1e-5").status == 0
    options = {word for command in COMMANDS[name] for word in command}
    private = "hours" if "hours" in options else "bought"
    tape, found = Tape(monkeypatch), []
    monkeypatch.setattr("labeldp.tables.files.BLOCK_BYTES", 1 << 12)  # edges of what is read lie in every file
    monkeypatch.setattr("labeldp.tables.table.BLOCK_ROWS", 100)
    table = pd.read_csv(people / "people.csv")
    if f"{SHORT},{LONG}" in options:
        table["bought"] = table["bought"].map({"no": SHORT, "yes": LONG})
    if "--user" in options:
        table["age"] = table["id"] // 2
    for labels in (table[private], others(table[private])):
        folder, temporary = people / "here", people / "temporary"
        shutil.rmtree(folder, ignore_errors=True)
        temporary.mkdir(exist_ok=True)
        folder.mkdir()
        monkeypatch.setenv("TMPDIR", str(temporary))
        given = store(folder, table.assign(**{private: labels}), private, quoted=bool(found))
        for each in ("l.ledger", "public.csv"):
            shutil.copy(people / each, folder / each)
        monkeypatch.chdir(folder)
        caplog.clear()
        numbers = count()
        monkeypatch.setattr("secrets.token_hex", lambda size=16, numbers=numbers: f"{next(numbers):0{2 * size}x}")
        with caplog.at_level(logging.DEBUG):
            ran = [labeldp(*command) for command in COMMANDS[name]]
        said = [(each.status, each.out, SECONDS.sub("", each.err)) for each in ran]
        files = {
            path.relative_to(people).as_posix(): path.read_bytes()
            for place in (folder, temporary)
            for path in place.rglob("*")
            if path.is_file() and not path.name.startswith("l.ledger") and path not in given
        }
        files["size of the ledger"] = str((folder / "l.ledger").stat().st_size).encode()
        assert [each.status for each in ran] == STATUS.get(name, [0] * len(ran)), ran
        found.append((said, files, caplog.text))
        tape.place = 0 if tape.place is None else tape.place
    assert tape.place == len(tape.kept)
    (said, files, logged), (said_again, files_again, logged_again) = found
    assert said == said_again and logged == logged_again
    assert [file for file in files.keys() | files_again.keys() if files.get(file) != files_again.get(file)] == []

"""What leaves depends on the labels through released values alone: these held fixed, other labels change no byte."""

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
import pytest

from cli.conftest import PUBLIC, Ran, account
from labeldp.curator import dataset_ledger
from labeldp.mechanisms import Mechanism
from slow import slow_cases

CLASSES = ("--label", "bought", "--classes", "no,yes", *account("people", "8"))
NUMBERS = ("--label", "hours", "--range", "0,100", *account("people", "8"))
CENTRAL = ("--trust", "central", "--delta", "1e-6")

COMMANDS: dict[str, list[tuple[str, ...]]] = {
    "fit": [("fit", "people.csv", *CLASSES, "--epsilon", "1", "--out", "model"),
            ("certificate", "model", "--ledger", "l.ledger"), ("predict", "model", "public.csv", "--out", "p.csv")],
    "fit again": [("fit", "people.csv", *CLASSES, "--epsilon", "1", "--model", "logistic", "--out", "model")] * 2,
    "fit with a test file": [("fit", "people.csv", *CLASSES, "--epsilon", "1", "--model", "logistic", "--id", "id",
                              "--test", "public.csv", PUBLIC, "--out", "model")],
    "fit with an evaluation": [("fit", "people.csv", *CLASSES, "--epsilon", "1", "--model", "logistic",
                                "--evaluation", "0.2", "--out", "model")],
    "fit linear": [("fit", "people.csv", *CLASSES, "--epsilon", "1", *CENTRAL, "--model", "linear", "--out", "model")],
    "fit cells": [("fit", "people.csv", *CLASSES, "--epsilon", "1", "--model", "cells", "--out", "model")],
    "fit numbers": [("fit", "people.csv", *NUMBERS, "--epsilon", "1", "--out", "model")],
    "fit numbers, central": [("fit", "people.csv", *NUMBERS, "--epsilon", "1", *CENTRAL, "--out", "model")],
    "fit beyond the budget": [("fit", "people.csv", *CLASSES, "--epsilon", "99", "--out", "model")],
    "release": [("release", "people.csv", *CLASSES, "--epsilon", "1", "--id", "id", "--out", "noisy.csv"),
                ("certificate", "noisy.csv")],
    "release sets": [("release", "people.csv", *CLASSES, "--epsilon", "1", "--mechanism", "local-hashing",
                      "--out", "noisy.csv")],
    "release numbers": [("release", "people.csv", *NUMBERS, "--epsilon", "1", "--out", "noisy.csv")],
    "plan": [("plan", "people.csv", "--label", "bought", "--classes", "no,yes", "--epsilon", "1")],
    "choose": [("choose", "people.csv", "--label", "bought", "--classes", "no,yes", "--epsilon", "1")],
    "ledger": [("release", "people.csv", *CLASSES, "--epsilon", "1", "--out", "noisy.csv"),
               ("release", "people.csv", *CLASSES, "--epsilon", "9", "--out", "more.csv"),
               ("ledger", "show", "l.ledger")],
}  # fmt: skip

SECONDS = re.compile(r"^\[ *\d+ s\] ", re.M)
"""How long a stage took is no function of the labels that a test could hold fixed."""


class Tape:
    """Keeps what mechanisms draw in a first run, and gives it again in a second."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kept: list[tuple[str, Any]] = []
        self.place: int | None = None
        self.depth = 0
        for kind in set(_kinds(Mechanism)):
            if "randomize" in vars(kind):
                monkeypatch.setattr(kind, "randomize", self._taped(kind.randomize))

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
        return column.map({"no": "yes", "yes": "no"})
    return (column + 41.5) % 100


@pytest.mark.parametrize("name", slow_cases(COMMANDS, ["fit numbers"]))
def test_other_labels_change_no_byte_but_in_the_ledger(
    labeldp: Callable[..., Ran], people: Path, name: str, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """Released values held fixed, two label columns give the same files, words, logs and errors."""
    for module in [module for where, module in sys.modules.items() if where.startswith("labeldp.curator.")]:
        if hasattr(module, "now"):
            monkeypatch.setattr(module, "now", lambda: "2026-01-01T00:00:00+00:00")
    # A commitment is a keyed digest, and as good as a released value: of these bits the ledger's secret makes noise.
    monkeypatch.setattr(dataset_ledger, "commitment", lambda secret, charge, labels: f"of {charge}")
    assert labeldp("ledger", "add", "l.ledger", "--dataset", "people", "--epsilon", "8", "--delta", "1e-5").status == 0
    private = "hours" if NUMBERS in [command[2:12] for command in COMMANDS[name]] else "bought"
    tape, found = Tape(monkeypatch), []
    table = pd.read_csv(people / "people.csv")
    for labels in (table[private], others(table[private])):
        folder, temporary = people / "here", people / "temporary"
        shutil.rmtree(folder, ignore_errors=True)
        temporary.mkdir(exist_ok=True)
        folder.mkdir()
        monkeypatch.setenv("TMPDIR", str(temporary))
        table.assign(**{private: labels}).to_csv(folder / "people.csv", index=False)
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
            if path.is_file() and not path.name.startswith("l.ledger") and path != folder / "people.csv"
        }
        found.append((said, files, caplog.text))
        tape.place = 0 if tape.place is None else tape.place
    assert tape.place == len(tape.kept)
    (said, files, logged), (said_again, files_again, logged_again) = found
    assert said == said_again and logged == logged_again
    assert [file for file in files.keys() | files_again.keys() if files.get(file) != files_again.get(file)] == []

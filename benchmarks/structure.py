"""How many calls, functions and files five workflows take, and how many frames a label passes.

    python benchmarks/structure.py [--json FILE]

A call is one of a function of the package; a move is a call from one of its files into another. Imports are not
counted. The frames of a label are those of the package between the command line and the code of the label, and between
the command line and its draw.
"""

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import labeldp as ldp
from labeldp.cli import cli

PACKAGE = str(Path(ldp.__file__).parent) + os.sep
RECORDS = 2000


class Profile:
    """Counts the calls of the package's own functions while it is entered."""

    def __init__(self) -> None:
        self.functions: Counter[tuple[str, str]] = Counter()
        self.moves = 0
        self.paths: dict[str, list[tuple[str, str]]] = {}

    def __enter__(self) -> "Profile":
        sys.setprofile(self._count)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        function = _function(frame)
        if event != "call" or function is None or function[1] == "<module>":
            return
        self.functions[function] += 1
        callers = _callers(frame)
        self.moves += bool(callers) and callers[0][0] != function[0]
        for goal, last in (("code", "Classes.encode"), ("draw", ".randomize")):
            if function[1].endswith(last):
                self.paths.setdefault(goal, [function, *callers])

    def row(self) -> dict[str, int]:
        """Return the numbers of one workflow."""
        return {
            "calls": self.functions.total(),
            "functions": len(self.functions),
            "files": len({file for file, _ in self.functions}),
            "moves": self.moves,
        }


def _function(frame: FrameType) -> tuple[str, str] | None:
    """Return file and qualified name of a frame of the package, None for others."""
    file = frame.f_code.co_filename
    return (file.removeprefix(PACKAGE), frame.f_code.co_qualname) if file.startswith(PACKAGE) else None


def _callers(frame: FrameType) -> list[tuple[str, str]]:
    """Return the package's functions that wait for a frame, the nearest first."""
    functions, caller = [], frame.f_back
    while caller is not None:
        functions.append(_function(caller))
        caller = caller.f_back
    return [function for function in functions if function is not None]


def workflows(folder: Path) -> dict[str, Callable[[], Any]]:
    """Return the five workflows, on one table of two classes."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(RECORDS, 4))
    labels = np.where(features[:, 0] + rng.normal(size=RECORDS) > 0, "yes", "no")
    table = folder / "people.csv"
    rows = [
        f"{i},{','.join(f'{x:.4f}' for x in row)},{label}"
        for i, (row, label) in enumerate(zip(features, labels, strict=True))
    ]
    table.write_text("id,a,b,c,d,bought\n" + "\n".join(rows) + "\n")
    domain = ldp.Classes(("no", "yes"))
    budget = ldp.Budget(10)

    def curator() -> Any:
        return ldp.Curator(labels, domain=domain, ledger=ldp.Ledger(budget=budget))

    def command(*words: str, epsilon: str = "1") -> None:
        common = ("--label", "bought", "--classes", "no,yes", "--id", "id", "--epsilon", epsilon)
        account = ("--ledger", str(folder / "l.ledger"), "--dataset", "people", "--new-budget", "9")
        cli([*words, *common, *account], standalone_mode=False)

    def release(name: str) -> None:
        command("release", str(table), "--out", str(folder / name))

    random = ldp.SystemRandomness()
    response = ldp.RandomizedResponse(domain=domain, epsilon=1)
    cli(["ledger", "add", str(folder / "l.ledger"), "--dataset", "people", "--epsilon", "9"], standalone_mode=False)
    noisy = curator().release(response, rng=random)
    return {
        "Curator.release": lambda: curator().release(response, rng=random),
        "fit_noisy": lambda: ldp.learners.fit_noisy(features, noisy),
        "fit_file": lambda: command("fit", str(table), "--out", str(folder / "model")),
        "release_file, new": lambda: release("noisy.csv"),
        "release_file, again": lambda: release("again.csv"),
    }


def measured(folder: Path) -> tuple[dict[str, dict[str, int]], dict[str, list[tuple[str, str]]]]:
    """Run each workflow twice, in a second folder the second time, and count the second: the first imports."""
    (folder / "first").mkdir()
    (folder / "second").mkdir()
    for workflow in workflows(folder / "first").values():
        workflow()
    rows, paths = {}, {}
    for name, workflow in workflows(folder / "second").items():
        with Profile() as profile:
            workflow()
        rows[name] = profile.row()
        if name == "fit_file":
            paths = profile.paths
    return rows, paths


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        rows, paths = measured(Path(name))
    print(f"{'':20}{'calls':>8}{'functions':>11}{'files':>7}{'moves':>7}")
    for name, row in rows.items():
        print(f"{name:20}{row['calls']:8,}{row['functions']:11,}{row['files']:7,}{row['moves']:7,}")
    for goal, path in paths.items():
        print(f"to the {goal} of a label: {len(path)} frames, {len({file for file, _ in path})} files")
        print("   " + " < ".join(f"{file}:{function}" for file, function in path))
    if arguments.json:
        arguments.json.write_text(json.dumps({"workflows": rows, "paths": paths}, indent=1) + "\n")

"""How many calls, functions and files five workflows take, and how many frames a label passes.

    python benchmarks/structure.py [--daily] [--json FILE]

With --daily it prints what a reader of the code holds: the lines of the functions, without docstrings too, that 13
everyday jobs run, and their files; the lines that a call loads; what a fit of 2,000 records calls; the connections to
its ledger that a command makes; the names of the package; and the largest face of a subpackage.

A call is one of a function of the package; a move is a call from one of its files into another. Imports are not
counted. The frames of a label are those of the package between the command line and the code of the label, and between
the command line and its draw.
"""

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from types import CodeType, FrameType
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


def jobs(folder: Path) -> dict[str, Callable[[], Any]]:
    """Return 13 everyday jobs, in the order of a first day."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(RECORDS, 3))
    labels = np.where(features[:, 0] + rng.normal(size=RECORDS) > 0, "yes", "no")
    texts = zip(features.tolist(), labels, strict=True)
    rows = [f"{i},{','.join(f'{x:.4f}' for x in row)},{label}" for i, (row, label) in enumerate(texts)]
    data, ledger = folder / "people.csv", str(folder / "l.ledger")
    data.write_text("id,a,b,c,bought\n" + "\n".join(rows) + "\n")
    account = ("--label", "bought", "--classes", "no,yes", "--ledger", ledger, "--dataset", "people")
    asked = (*account, "--epsilon", "1", "--id", "id")
    noisy, model = str(folder / "noisy.csv"), str(folder / "model")

    def command(*words: str) -> Callable[[], Any]:
        return lambda: cli(list(words), standalone_mode=False)

    def audit() -> None:
        with suppress(SystemExit):
            command("audit", noisy, "--ledger", ledger, "--data", str(data))()

    release = ("release", str(data), *asked, "--in-place", "--out")
    central = ("--trust", "central", "--model", "linear", "--delta", "1e-6")
    return {
        "budget": command("ledger", "add", ledger, "--dataset", "people", "--epsilon", "9", "--delta", "1e-5"),
        "release": command(*release, noisy),
        "release again": command(*release, str(folder / "again.csv")),
        "fit, local": command("fit", str(data), *asked, "--out", model),
        "fit, central": command("fit", str(data), *asked, *central, "--out", str(folder / "central")),
        "predict": command("predict", model, str(data), "--out", str(folder / "predicted.csv"), "--id", "id"),
        "certificate": command("certificate", model),
        "ledger show": command("ledger", "show", ledger),
        "audit": audit,
        "estimate": command("estimate", "mean", noisy),
        "classifier": lambda: ldp.LabelDPClassifier(classes=["no", "yes"], epsilon=1.0).fit(features, labels),
        "regressor": lambda: ldp.LabelDPRegressor(range=(-9, 9), epsilon=1.0).fit(features, features[:, 1]),
        "choose": command("choose", str(data), "--label", "bought", "--classes", "no,yes", "--epsilon", "1"),
    }


def daily(folder: Path) -> dict[str, int]:
    """Return the lines of the functions that the daily jobs run, with and without docstrings, and their files."""
    codes: set[CodeType] = set()

    def count(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            codes.add(frame.f_code)

    sys.setprofile(count)
    threading.setprofile(count)
    try:
        for job in jobs(folder).values():
            job()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    places = {(code.co_filename, code.co_firstlineno) for code in codes if code.co_filename.endswith(".py")}
    lines = bare = 0
    for file in {file for file, _ in places}:
        for node in ast.walk(ast.parse(Path(file).read_text())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            first = min([node.lineno, *(part.lineno for part in node.decorator_list)])
            if (file, first) in places and node.end_lineno is not None:
                text = node.body[0] if ast.get_docstring(node) else None
                size = node.end_lineno - first + 1
                lines, bare = lines + size, bare + size - (0 if text is None else text.end_lineno - text.lineno + 1)
    return {"lines": lines, "without docstrings": bare, "files": len({file for file, _ in places})}


def connections(folder: Path) -> dict[str, int]:
    """Return how often a command connects to its ledger, which exists."""
    events = Counter[str]()
    sys.addaudithook(lambda event, arguments: events.update([event]))
    numbers = {}
    for name, job in list(jobs(folder).items())[:4]:
        before = events["sqlite3.connect"]
        job()
        numbers[name] = events["sqlite3.connect"] - before
    return {name: numbers[name] for name in ("release", "fit, local")}


def loaded(call: str) -> int:
    """Return the lines of the modules of the package that a name loads."""
    text = (
        "import sys, labeldp; from operator import attrgetter; from pathlib import Path;"
        "attrgetter(sys.argv[1])(labeldp);"
        "print(sum(len(Path(m.__file__).read_text().splitlines()) for n, m in list(sys.modules.items())"
        " if n.split('.')[0] == 'labeldp' and getattr(m, '__file__', None)))"
    )
    return int(subprocess.run([sys.executable, "-c", text, call], capture_output=True, text=True, check=True).stdout)


def names() -> dict[str, int]:
    """Return the number of named functions, classes and constants, and the size of the largest face."""
    numbers = Counter[str]()
    for file in Path(PACKAGE).rglob("*.py"):
        tree = ast.parse(file.read_text())
        kinds = [type(node) for node in ast.walk(tree)]
        numbers["functions"] += kinds.count(ast.FunctionDef) + kinds.count(ast.AsyncFunctionDef)
        numbers["classes"] += kinds.count(ast.ClassDef)
        numbers["constants"] += sum(isinstance(node, ast.Assign | ast.AnnAssign) for node in tree.body)
    faces = [stub.read_text().count(" as ") for stub in Path(PACKAGE).glob("*/__init__.pyi")]
    return {**numbers, "largest face": max(faces)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--daily", action="store_true")
    arguments = parser.parse_args()
    if arguments.daily:
        with tempfile.TemporaryDirectory() as name, redirect_stdout(StringIO()):
            path = daily(Path(name))
        with tempfile.TemporaryDirectory() as name, redirect_stdout(StringIO()):
            fitted = measured(Path(name))[0]["fit_file"]
        with tempfile.TemporaryDirectory() as name, redirect_stdout(StringIO()):
            connected = connections(Path(name))
        calls = ("LabelDPClassifier", "fit.fit_file", "releases.release_file", "inference.mean")
        loads = {call: loaded(call) for call in calls}
        figures = {
            "daily path": path,
            "lines loaded": loads,
            "fit of 2,000 records": fitted,
            "connections": connected,
            "names": names(),
        }
        for title, row in figures.items():
            print(f"{title}: {', '.join(f'{key} {value:,}' for key, value in row.items())}")
        sys.exit()
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

"""Run any program many times on two inputs, and bound its epsilon from what it prints."""

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.audit import LowerBound, audit_outputs
from labeldp.privacy import InputError, check_integer

PLACE = "{}"
"""What stands for the input in the words of a command."""

MOST_FIELDS = 4096
"""Fields of one output that are looked at one by one; a longer output counts as a whole."""


def audit_command(
    words: Sequence[str],
    one: str,
    other: str,
    *,
    runs: int = 200,
    each_line: bool = False,
    progress: Callable[[str, float], None] | None = None,
    **options: Any,
) -> LowerBound:
    """Return a lower bound of the epsilon of any program from what it prints for two inputs that are neighbors.

    What it prints in one run is one output: its fields, separated by spaces, commas or ends of lines, if each run
    prints as many; else the whole text. Numbers are numbers if all of a field are.

    Args:
        words: the program and its arguments; "{}" stands for the path of the input, which else comes on stdin.
        one, other: two files that differ in one label.
        runs: how often it is run on each.
        each_line: whether each line is an output of its own, drawn independently; then one run of each is enough.
        progress: called after each run.
        options: those of `audit_outputs`: delta, level, seed.

    Raises:
        InputError: a file is not there, the program cannot be run or fails, or it prints nothing.
    """
    if not words:
        raise InputError("must name a program", argument="command")
    for path in (one, other):
        if not Path(path).is_file():
            raise InputError(f"there is no file {path}")
    if Path(one).absolute() == Path(other).absolute():
        raise InputError("must be another file than one", argument="other")
    count = check_integer(runs, "runs")
    printed: dict[str, list[str]] = {one: [], other: []}
    for run in range(count):
        for path, found in printed.items():
            text = _printed(words, path)
            found += [line for line in text.splitlines() if line.strip()] if each_line else [text]
        if progress:
            progress("runs", (run + 1) / count)
    return audit_outputs(_fields(printed), **options)


def _printed(words: Sequence[str], path: str) -> str:
    """Run the program once, and return what it printed."""
    named = any(PLACE in word for word in words)
    called = [word.replace(PLACE, path) for word in words]
    try:
        with Path(path).open("rb") as file:
            done = subprocess.run(called, stdin=subprocess.DEVNULL if named else file, capture_output=True, check=False)
    except OSError as error:
        raise InputError(f"{called[0]} cannot be run: {error.strerror}") from error
    if done.returncode:
        raise InputError(f"{called[0]} ended with status {done.returncode}; an audit needs runs that end well")
    return done.stdout.decode("utf-8", errors="surrogateescape")


def _fields(printed: dict[str, list[str]]) -> dict[str, NDArray[Any]]:
    """Return outputs as arrays (n, fields), of numbers where all are; of one text each where fields do not agree."""
    rows = {path: [text.replace(",", " ").split() for text in texts] for path, texts in printed.items()}
    widths = {len(row) for each in rows.values() for row in each}
    if widths == {0} or not widths:
        raise InputError("the program printed nothing")
    if len(widths) > 1 or max(widths) > MOST_FIELDS:
        return {path: np.array(texts) for path, texts in printed.items()}
    tables = {path: np.array(each) for path, each in rows.items()}
    try:
        numbers = {path: table.astype(np.float64) for path, table in tables.items()}
    except ValueError:
        return tables
    return numbers if all(bool(np.isfinite(table).all()) for table in numbers.values()) else tables

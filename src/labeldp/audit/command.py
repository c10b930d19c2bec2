"""Audit a program by what it prints, and a table of probabilities in a CSV file."""

import csv
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.audit.black_box import LowerBound, audit_outputs
from labeldp.audit.exact import TableAudit, audit_table
from labeldp.privacy import InputError, check_integer, decimal_text, rounded_up_text

PLACE = "{}"
"""What stands for the input in the words of a command."""

MOST_FIELDS = 4096
"""Fields of one output that are looked at one by one; a longer output counts as a whole."""

NAMES = ("", "label", "labels")
"""What the first cell of a header says, in any case, where the first column holds the names of labels."""

MOST_BYTES = 1 << 28

LAST_DIGITS = 1e-9
"""A claim that is missed by less may be missed by what was rounded where the table was written."""


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
        for path, outputs in printed.items():
            text = _printed(words, path)
            outputs += [line for line in text.splitlines() if line.strip()] if each_line else [text]
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
    """Return outputs as arrays (n, fields): numbers if all fields are numbers, whole texts if rows differ in fields."""
    rows = {path: [text.replace(",", " ").split() for text in texts] for path, texts in printed.items()}
    widths = {len(row) for table in rows.values() for row in table}
    if widths == {0} or not widths:
        raise InputError("the program printed nothing")
    if len(widths) > 1 or max(widths) > MOST_FIELDS:
        return {path: np.array(texts) for path, texts in printed.items()}
    tables = {path: np.array(table) for path, table in rows.items()}
    try:
        numbers = {path: table.astype(np.float64) for path, table in tables.items()}
    except ValueError:
        return tables
    return numbers if all(bool(np.isfinite(table).all()) for table in numbers.values()) else tables


def audit_csv(path: str | os.PathLike[str]) -> TableAudit:
    """Return the exact privacy of the mechanism whose probabilities a CSV file holds.

    A row for each label, a column for each output; numbers are read exactly as they are written. A first row that is
    no row of numbers, but for its first cell, names the outputs. A first column that is no column of numbers, or whose
    header is empty or "label", names the labels.

    Args:
        path: of the file.

    Raises:
        InputError: there is no such file, or it holds no table of probabilities; the line is named.
    """
    rows = _rows(Path(path))
    corner, *cells = rows[0][1]
    header = rows.pop(0)[1] if corner.lower() in NAMES or not all(map(_is_number, cells)) else None
    if not rows:
        raise InputError(f"{path} must have a row of probabilities for each label below its header")
    named = (header is not None and header[0].lower() in NAMES) or not all(_is_number(row[0]) for _, row in rows)
    width = len(header) if header is not None else len(rows[0][1])
    for line, row in rows:
        if len(row) != width:
            raise InputError(f"{path}, line {line}: must have {width} cells as the first line has, not {len(row)}")
    labels = [row[0] for _, row in rows] if named else None
    outputs = header[named:] if header is not None else None
    try:
        return audit_table([row[named:] for _, row in rows], labels=labels, outputs=outputs)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    """Return the lines that are not empty, as stripped cells with the number of their line."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path} is larger than {MOST_BYTES >> 20} MiB: no table of probabilities")
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(map(str.strip, row))]
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is no CSV file of text") from error
    if not rows:
        raise InputError(f"{path} is empty: it must have a row of probabilities for each label")
    return rows


def _is_number(cell: str) -> bool:
    try:
        float(cell.partition("/")[0])
    except ValueError:
        return False
    return True


def describe_table(audit: TableAudit, epsilon: Any = None, delta: Any = None) -> list[str]:
    """Return what an exact audit found, in sentences; a claim that does not hold stands first.

    Args:
        audit: of a table.
        epsilon, delta: the claim. Without `epsilon` the smallest one at `delta` is told.
    """
    low, high = audit.epsilon_ends()
    lines = [f"{len(audit.labels)} labels, {len(audit.outputs)} outputs, every ordered pair of labels, exactly."]
    if audit.ratio is None:
        lines.append(f"Pure epsilon: unbounded. The odds are infinite at {audit.worst}.")
    elif audit.ratio == 1:
        lines.append("Pure epsilon: 0. Every label has the same law: outputs do not depend on it.")
    else:
        odds = f"e^epsilon = {float(audit.ratio):.6g}"
        lines.append(f"Pure epsilon: {high!r} ({odds}; at least {low!r}). Worst: {audit.worst}.")
    if delta is not None and epsilon is None:
        at = audit.epsilon(delta)
        lines.append(f"At delta = {delta} epsilon {f'= {at!r}' if at < float('inf') else 'is unbounded'}.")
    if epsilon is not None:
        claim = f"epsilon = {_as_written(epsilon)}, delta = {_as_written(0 if delta is None else delta)}"
        if audit.holds(epsilon, 0 if delta is None else delta):
            lines.append(f"The claim {claim} holds.")
        else:
            lines.insert(0, f"The claim {claim} does NOT hold.")
            if not delta and audit.ratio is not None and high - float(epsilon) < LAST_DIGITS:
                lines.append(
                    "It is missed by no more than the last digits of decimals: where these were rounded, integers "
                    "over 2^64 of the same mechanism may keep it."
                )
        if audit.compares_pairs:
            delta_there = float(audit.delta(epsilon)[1])
            pair = f" Worst: {audit.worst_at(epsilon)}." if delta_there else ""
            lines.append(f"At epsilon = {_as_written(epsilon)} delta = {rounded_up_text(delta_there)}.{pair}")
    if audit.rounding:
        off = rounded_up_text(float(audit.rounding), 2)
        lines.append(f"The rows do not sum to 1, but to within {off} of it; each was divided by its sum.")
    return lines


def _as_written(value: Any) -> str:
    return value if isinstance(value, str) else decimal_text(value)

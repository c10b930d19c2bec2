"""Read a table of probabilities from a CSV file, and say what it promises."""

import csv
import os
from pathlib import Path
from typing import Any

from labeldp.audit import TableAudit, audit_table
from labeldp.privacy import InputError, decimal_text, rounded_up_text

NAMES = ("", "label", "labels")
"""What the first cell of a header says, in any case, where the first column holds the names of labels."""

MOST_BYTES = 1 << 28

LAST_DIGITS = 1e-9
"""A claim that is missed by less may be missed by what was rounded where the table was written."""


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
    corner, *rest = rows[0][1]
    header = rows.pop(0)[1] if corner.lower() in NAMES or not all(map(_is_number, rest)) else None
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
            most = float(audit.delta(epsilon)[1])
            pair = f" Worst: {audit.worst_at(epsilon)}." if most else ""
            lines.append(f"At epsilon = {_as_written(epsilon)} delta = {rounded_up_text(most)}.{pair}")
    if audit.rounding:
        off = rounded_up_text(float(audit.rounding), 2)
        lines.append(f"The rows do not sum to 1, but to within {off} of it; each was divided by its sum.")
    return lines


def _as_written(value: Any) -> str:
    return value if isinstance(value, str) else decimal_text(value)

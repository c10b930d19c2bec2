"""What a ledger rests on, of each example: its specification, its cost, and what a key draws; and what it says.

python tests/mechanisms/recorded.py --write     record them anew, where a change is meant: old ledgers charge again
"""

import hashlib
import inspect
import json
import sys
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from labeldp.mechanisms import Mechanism
from labeldp.privacy import InputError, KeyedRandomness

FILE = Path(__file__).with_suffix(".json")
SOLVED = ("few numbers",)
"""Its table is the optimum of a linear program, which other versions of scipy may round otherwise."""
KNOWN_ELSEWHERE = {
    *("arguments", "arrays", "describe", "packed", "parameters", "privacy_loss", "specification", "weights"),
    *("published", "describe_noise"),
}
"""Recorded as they are, or all that the draws follow from."""


def recorded(mechanism: Mechanism) -> dict[str, Any]:
    """Everything by which a ledger finds a release again and draws it again, and what is said of it."""
    count = 12 if mechanism.records is None else mechanism.records
    labels = np.arange(count) % mechanism.domain.size
    key = KeyedRandomness(bytes(range(32))).bind(b"a release")
    value = np.asarray(mechanism.randomize(labels, rng=key, ids=np.arange(count)))
    shown = f"{value.dtype.str} {value.shape}".encode() + np.ascontiguousarray(value).tobytes()
    return {
        "specification": mechanism.specification(),
        "loss": mechanism.privacy_loss().to_json(),
        "draws": hashlib.sha256(shown).hexdigest(),
        "published": mechanism.published,
        "noise": mechanism.describe_noise(),
        "column": getattr(mechanism, "column_ending", ""),
        "says": dict(_says(mechanism, value)),
    }


def _says(mechanism: Mechanism, value: Any) -> Iterator[tuple[str, str]]:
    """Its repr and text, its properties, and what its methods return without arguments or of what was released."""
    yield "repr", repr(mechanism)
    yield "text", str(mechanism)
    sizes = getattr(getattr(mechanism, "partition", None), "sizes", None)
    given = {
        "noisy": value,
        "released": value,
        "value": value,
        "sizes": None if sizes is None else np.maximum(sizes, 1),
        "epsilon": 2,
    }
    given["edges"] = np.arange(-3.5, 4)
    for name in sorted(dir(type(mechanism))):
        found = inspect.getattr_static(type(mechanism), name)
        if name.startswith("_") or name in KNOWN_ELSEWHERE:
            continue
        needed: list[str] = []
        if inspect.isfunction(found):
            asked = list(inspect.signature(found).parameters.values())[1:]
            needed = [each.name for each in asked if each.default is each.empty]
        elif not isinstance(found, property | cached_property):
            continue
        if any(given.get(each) is None for each in needed):
            continue
        try:
            said = getattr(mechanism, name)
            yield name, short(said(*map(given.get, needed)) if callable(said) else said)
        except InputError as refused:
            yield name, f"refused: {refused}"


def short(value: Any) -> str:
    """Return a text of a value that is the same on every machine: doubles with six digits, long ones as sums."""
    if isinstance(value, float | np.floating):
        return f"{round(float(value), 12) + 0.0:.6g}"
    if isinstance(value, Fraction):
        return short(value.numerator / value.denominator)
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        rise = np.arange(1.0, value.size + 1).reshape(value.shape) / max(value.size, 1)
        return f"{value.dtype} {value.shape} {short(value.sum())} {short((value * rise).sum())}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {hashlib.sha256(repr(value.tolist()).encode()).hexdigest()[:16]}"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(short, value))})"
    if isinstance(value, Mechanism):
        return repr(value)
    if hasattr(value, "__dict__") or hasattr(value, "__dataclass_fields__"):
        parts = {**getattr(value, "__dict__", {})}
        return f"{type(value).__name__}({', '.join(f'{name}={short(parts[name])}' for name in sorted(parts))})"
    return str(value)


def main() -> None:
    """Write the file."""
    from mechanisms.examples import EXAMPLES

    found = {name: recorded(make(1.0)) for name, make in EXAMPLES.items() if name not in SOLVED}
    FILE.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main()

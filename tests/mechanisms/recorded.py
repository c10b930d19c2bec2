"""What a ledger rests on, of each example: its specification, its cost, and what a key draws.

python tests/mechanisms/recorded.py --write     record them anew, where a change is meant: old ledgers charge again
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from labeldp.mechanisms import Mechanism
from labeldp.privacy import KeyedRandomness

FILE = Path(__file__).with_suffix(".json")
SOLVED = ("few numbers",)
"""Its table is the optimum of a linear program, which other versions of scipy may round otherwise."""


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
    }


def main() -> None:
    """Write the file."""
    from mechanisms.examples import EXAMPLES

    found = {name: recorded(make(1.0)) for name, make in EXAMPLES.items() if name not in SOLVED}
    FILE.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main()

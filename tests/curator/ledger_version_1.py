"""How `ledger_version_1.db` and `ledger_version_3.db` were made: each by the last labeldp with ledgers of that version.

The labels are made-up, so that tests may have the ledger's keys.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import labeldp as ldp
from labeldp.workflows import release_file

ANSWERS = [("no", "yes")[place % 3 == 0] for place in range(60)]

HOURS = [float(place % 50) for place in range(60)]

CLASSES, RANGE = ldp.Classes(("no", "yes")), ldp.Interval(0, 80, grid=81)


def table(folder: Path) -> Path:
    """The labels as a file."""
    lines = [f"{answer},{hours}" for answer, hours in zip(ANSWERS, HOURS, strict=True)]
    (folder / "people.csv").write_text("\n".join(["bought,hours", *lines, ""]))
    return folder / "people.csv"


def publish(ledger: Path, folder: Path) -> Path:
    """Release a file, as a stream."""
    out = folder / "noisy.csv"
    release_file(
        table(folder), label="bought", domain=CLASSES, epsilon=0.5, ledger=ledger, dataset="bought", out=out
    )  # fmt: skip
    return out


def releases(ledger: Path) -> list[Any]:
    """Release from Python: held values, keyed and not, of two datasets."""
    file, found = ldp.LedgerFile(ledger), []
    bought, hours = file.dataset("bought"), file.dataset("hours")
    answers = ldp.Curator(ANSWERS, domain=CLASSES, ledger=bought, run="fit")
    numbers = ldp.Curator(np.array(HOURS), domain=RANGE, ledger=hours, ids=np.arange(60))
    response = ldp.RandomizedResponse(domain=CLASSES, epsilon=1)
    found.append(answers.release(response, rng=ldp.SystemRandomness(), step="1"))
    found.append(numbers.release(ldp.DiscreteLaplace(domain=RANGE, epsilon=1), rng=hours.randomness))
    return found


def main(path: Path) -> None:
    """Two datasets with releases, and one with a budget alone."""
    file = ldp.LedgerFile(path)
    for name in ("bought", "hours", "unused"):
        file.add(name, ldp.Budget(epsilon=2, delta="1e-6"))
    releases(path)
    with TemporaryDirectory() as folder:
        publish(path, Path(folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""A release of a file that sends itself a signal in the middle; run as a script."""

import os
import signal
import sys

import labeldp as ldp
from labeldp.releases import release_file


def main(folder: str, name: str, stage: str) -> None:
    """Signal `name` arrives when the second block of `stage`, "checked" or "released", is done."""

    def progress(done: str, share: float) -> None:
        if done == f"{stage} 200 rows":
            os.kill(os.getpid(), signal.Signals[name])

    release_file(
        f"{folder}/people.csv", label="bought", domain=ldp.Classes(("no", "yes")), epsilon=1, dataset="people",
        ledger=f"{folder}/ledger.db", out=f"{folder}/out.csv", block_rows=100, progress=progress,
    )  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])

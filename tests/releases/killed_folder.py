"""A release of a folder that kills itself in the middle; run as a script."""

import os
import signal
import sys

import labeldp as ldp
from labeldp.releases import release_file


def main(folder: str, out: str, stage: str) -> None:
    """The process is killed when it says that it is at `stage`."""

    def progress(done: str, share: float) -> None:
        if done == stage:
            os.kill(os.getpid(), signal.SIGKILL)

    release_file(
        f"{folder}/parts", label="bought", domain=ldp.Classes(("no", "yes")), epsilon=1, dataset="people",
        ledger=f"{folder}/ledger.db", out=f"{folder}/{out}", id_column="id", block_rows=100, progress=progress,
    )  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])

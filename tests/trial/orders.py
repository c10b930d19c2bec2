"""Collect every ordered pair of test folders, each in a process of its own: names of modules must not collide.

python tests/trial/orders.py [FOLDER ...]   pairs that begin with these folders; by default all
"""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import numpy  # noqa: F401  what all of them import is imported once, before processes are forked
import pandas  # noqa: F401
import pyarrow.parquet  # noqa: F401
import pytest
import sklearn.ensemble  # noqa: F401

import labeldp

ROOT = Path(__file__).parents[2]


def folders() -> list[str]:
    """Return the folders of tests, benchmarks' users among them."""
    found = {path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("tests/*/test_*.py")}
    return sorted(found | {"tests/test_baselines.py", "papers/tests"})


def collected(*paths: str) -> str:
    """Collect some paths in a forked process; return what pytest says if that fails, else an empty text."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        with os.fdopen(writer, "w") as file:
            said = io.StringIO()
            with redirect_stdout(said):
                status = pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *paths])
            file.write("" if status == pytest.ExitCode.OK else said.getvalue()[-2000:] or str(status))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        said_there = file.read()
    os.waitpid(child, 0)
    return said_there


def problems(first: list[str]) -> Iterator[str]:
    """Yield what pytest says of each ordered pair that it cannot collect."""
    for one in first:
        for other in folders():
            if one != other and (said := collected(one, other)):
                yield f"pytest {one} {other}\n{said}"


if __name__ == "__main__":
    os.chdir(ROOT)
    assert labeldp.__all__
    found = list(problems(sys.argv[1:] or folders()))
    print("\n".join(found) or "all pairs were collected")
    sys.exit(bool(found))

"""Processes are killed and hindered at random; what must hold is looked at by `settle`, which planted mistakes show."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).with_name("run.py")


def run(log: Path, *words: str) -> tuple[int, list[dict[str, object]]]:
    """Run the script in a process of its own; its status, and the lines of its log."""
    paths = os.pathsep.join([str(RUN.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, RUN, "--log", log, *words],
        env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False, timeout=400,
    )  # fmt: skip
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.is_file() else []
    assert len(lines) > 1, done.stderr
    return done.returncode, lines


@pytest.mark.parametrize(
    ("kills", "options"),
    [
        (30, ("--kills", "30", "--commands", "0", "--only", "a release that the ledger keeps")),
        pytest.param(48, ("--kills", "40", "--commands", "2"), marks=pytest.mark.slow),
    ],
)
def test_after_kills_nothing_is_forgotten_given_out_twice_or_half_finished(
    tmp_path: Path, kills: int, options: tuple[str, ...]
) -> None:
    """No charge is forgotten, no charge has two outputs, and nothing looks finished and is not."""
    status, lines = run(tmp_path / "log", *options, "--others", "0")
    killed = [line for line in lines if line["fault"] == "SIGKILL"] if (lines := lines[1:]) else []
    assert len(killed) >= kills and {line["left"] for line in killed} >= {"nothing was charged", "it was charged"}
    assert status == 0, [line for line in lines if line.get("wrong")]


@pytest.mark.slow
def test_full_disks_missing_permissions_clocks_and_rivals_end_in_one_sentence(tmp_path: Path) -> None:
    """No charge is forgotten, no charge has two outputs, and nothing looks finished and is not."""
    words = ("--kills", "0", "--commands", "0", "--others", "2", "--few", "--only", "release")
    status, lines = run(tmp_path / "log", *words)
    assert status == 0, [line for line in lines if line.get("wrong")]
    assert len({line["fault"] for line in lines[1:]}) >= 7
    assert any(line["refused"] for line in lines[1:]) and any(line["told"] for line in lines[1:])


@pytest.mark.parametrize(
    ("mistake", "act", "found"),
    [
        ("forgetful", "a release that the ledger keeps", "without the charge"),
        pytest.param("drawn anew", "a release that the ledger keeps", "two outputs", marks=pytest.mark.slow),
        pytest.param(
            *("charged twice", "a release that the ledger keeps", "charges were made instead of 1"),
            marks=pytest.mark.slow,
        ),
        pytest.param("half written", "a release of a file", "could not be settled", marks=pytest.mark.slow),
    ],
)
def test_a_mistake_is_found(tmp_path: Path, mistake: str, act: str, found: str) -> None:
    """Each way to be wrong is seen when it is there."""
    status, lines = run(tmp_path / "log", "--plant", mistake, "--only", act, "--kills", "30", "--others", "0")
    assert status == 1
    assert any(found in sentence for line in lines for sentence in line.get("wrong", []))

"""The file of a ledger: who may read it, what is refused as none, and what crashes and full disks leave."""

import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from curator.ledgers import LABELS, SYSTEM, curator, people, response
from labeldp.curator import LedgerFile, ledger_store

PROCESSES = Path(__file__).with_name("processes.py")


@pytest.mark.guarantee("labeldp.curator:LedgerFile", "owner_only")
def test_the_file_is_readable_by_its_owner_alone_at_every_moment(path: Path) -> None:
    before = os.umask(0)
    try:
        holder = curator(path)
        request = holder._request(response(), SYSTEM, None)
        modes: dict[str, int] = {}

        with holder.ledger.charging(request, response()) as draw:
            modes.update({name: (path.parent / name).stat().st_mode & 0o777 for name in os.listdir(path.parent)})
            draw.value = LABELS
    finally:
        os.umask(before)
    assert modes == {"ledger.db": 0o600, "ledger.db-journal": 0o600}
    assert path.stat().st_mode & 0o777 == 0o600


def another_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    connection.close()


def of_schema(number: int, path: Path) -> None:
    LedgerFile(path).add("people", ldp.Budget(epsilon=1))
    content = bytearray(path.read_bytes())
    content[60:64] = number.to_bytes(4, "big")
    path.write_bytes(content)


def opened_to_others(path: Path) -> None:
    LedgerFile(path).add("people", ldp.Budget(epsilon=1))
    path.chmod(0o640)


def cut_short(path: Path) -> None:
    LedgerFile(path).add("people", ldp.Budget(epsilon=1))
    os.truncate(path, 50)


WRONG_FILES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "text": (lambda path: path.write_text("label\nyes\n" * 50), "is not a ledger of labeldp"),
    "empty": (lambda path: path.touch(), "is not a ledger of labeldp"),
    "directory": (lambda path: path.mkdir(), "is not a file"),
    "fifo": (os.mkfifo, "is not a file"),
    "another database": (another_database, "is not a ledger of labeldp"),
    "an earlier schema": (
        partial(of_schema, 0),
        "has schema 0, and this labeldp reads schema 2 alone; it is un",
    ),
    "a later schema": (partial(of_schema, 3), "has schema 3, and this labeldp reads schema 2 alone; it is un"),
    "open to others": (opened_to_others, "run chmod 600"),
    "cut short": (cut_short, "is damaged"),
    "dangling link": (lambda path: path.symlink_to(path.with_name("nowhere")), "cannot be read: No such file"),
}


@pytest.mark.parametrize("kind", WRONG_FILES)
def test_a_file_that_is_no_ledger_is_refused_and_left_as_it_is(path: Path, kind: str) -> None:
    make, message = WRONG_FILES[kind]
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(ldp.privacy.LedgerError, match=message):
        LedgerFile(path)
    assert (path.read_bytes() if path.is_file() else None) == before
    assert os.listdir(path.parent) == ["ledger.db"]


def test_a_charge_waits_for_the_disk(path: Path, monkeypatch: pytest.MonkeyPatch, durability: str) -> None:
    monkeypatch.setattr(ledger_store, "SYNC", durability)
    curator(path)
    connection = ledger_store._connect(path)
    try:
        assert connection.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
    finally:
        connection.close()


def test_a_ledger_in_a_directory_that_does_not_exist_is_refused(path: Path) -> None:
    with pytest.raises(ldp.privacy.LedgerError, match="there is no directory"):
        LedgerFile(path / "deeper")


def test_damage_inside_is_told_in_our_words(path: Path) -> None:
    curator(path).release(response(), rng=SYSTEM)
    content = bytearray(path.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(ldp.privacy.LedgerError, match="damaged"):
        curator(path).release(response(2), rng=SYSTEM)


def test_a_ledger_that_another_process_holds_is_waited_for_and_then_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = curator(path)
    holder.release(response(), rng=SYSTEM)
    monkeypatch.setattr(ledger_store, "PATIENCE", 0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(ldp.privacy.LedgerError, match="in use by another process"):
            holder.release(response(2), rng=SYSTEM)
    finally:
        other.close()
    assert people(path).spent.epsilon() == 1.0


def test_a_file_system_without_locks_is_no_other_process(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    holder = curator(path)
    holder.release(response(), rng=SYSTEM)

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    def busy(*_: Any) -> None:
        error = sqlite3.OperationalError("database is locked")
        error.sqlite_errorcode = sqlite3.SQLITE_BUSY
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("fcntl.lockf", refuse)  # SQLite reports this as busy
        patch.setattr(ledger_store, "_keep_complete", busy)
        with pytest.raises(ldp.privacy.LedgerError, match="on a file system without locks; move it to a local disk"):
            holder.release(response(2), rng=SYSTEM)
    assert people(path).spent.epsilon() == 1.0 and os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("code", [sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, 1])
def test_every_error_of_the_file_is_a_ledger_error(path: Path, code: int) -> None:
    error = sqlite3.OperationalError("something")
    error.sqlite_errorcode = code
    with pytest.raises(ldp.privacy.LedgerError, match="the ledger"), ledger_store._explained(path):
        raise error


def test_the_file_alone_holds_every_charge_whoever_else_has_it_open(path: Path, tmp_path: Path) -> None:
    LedgerFile(path).add("people", ldp.Budget(epsilon=4))
    other = sqlite3.connect(path)  # stands for a process that is killed later
    try:
        other.execute("SELECT * FROM dataset").fetchall()
        curator(path).release(response(), rng=SYSTEM)
        assert os.listdir(tmp_path) == ["ledger.db"]
        copy = tmp_path / "copy.db"
        shutil.copy(path, copy)
    finally:
        other.close()
    assert people(copy).spent.epsilon() == 1.0


def test_a_write_ahead_log_of_another_program_is_folded_in(path: Path, tmp_path: Path) -> None:
    curator(path).release(response(), rng=SYSTEM)
    other = sqlite3.connect(path)
    other.execute("PRAGMA journal_mode = WAL")
    other.execute("SELECT * FROM dataset").fetchall()
    curator(path).release(response(0.5), rng=SYSTEM)
    assert "ledger.db-wal" in os.listdir(tmp_path)  # another process is at work: it goes on as before
    other.close()
    curator(path).release(response(0.25), rng=SYSTEM)
    assert os.listdir(tmp_path) == ["ledger.db"] and people(path).spent.epsilon() == 1.75


def test_looking_at_a_ledger_does_not_let_another_process_in(path: Path) -> None:
    """A file that is opened and closed beside SQLite would drop the locks of the whole process."""
    holder = curator(path)
    holder.release(response(), rng=SYSTEM)
    with holder.ledger.charging(holder._request(response(0.5), SYSTEM, None), response(0.5)) as draw:
        assert LedgerFile(path).datasets() == ("people",)
        said = run_processes("intrude", path)
        draw.value = LABELS
    assert len(said) == 1 and "in use by another process" in said[0]
    assert people(path).spent.epsilon() == 1.5


def run_processes(mode: str, path: Path) -> list[Any]:
    """The lines that the script prints, as JSON."""
    done = subprocess.run(
        [sys.executable, PROCESSES, mode, path], capture_output=True, text=True, check=True, timeout=120
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.guarantee("labeldp.curator:LedgerFile", "charged_first")
def test_killed_at_twenty_random_points_nothing_is_under_counted_and_no_charge_has_two_outputs(path: Path) -> None:
    outputs: dict[str, str] = {}
    charged: list[list[str]] = []
    rounds = run_processes("kill", path)
    for found in rounds:
        assert found["charged"][: len(charged)] == charged  # what was charged stays charged
        charged = found["charged"]
        for stage, charge, digest in found["told"]:
            assert [f"loop: {stage}", charge] in charged
            assert outputs.setdefault(charge, digest) == digest
    steps = [step for step, _ in charged]
    assert len(rounds) == 20
    assert len(steps) == len(set(steps)) >= 15
    assert people(path).spent.epsilon() == pytest.approx(0.01 * len(steps), rel=1e-12)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


@pytest.mark.guarantee("labeldp.curator:LedgerFile", "no_overspending")
def test_processes_on_one_ledger_cannot_overspend_together(path: Path) -> None:
    [admitted] = run_processes("spend", path)
    assert sum(admitted) == 5
    assert people(path).spent.epsilon() == 0.05


def test_a_disk_that_fills_up_charges_nothing(tiny_disk: Path) -> None:
    path = tiny_disk / "ledger.db"
    curator(path).release(response(), rng=SYSTEM)
    (tiny_disk / "ballast").write_bytes(bytes(60_000))
    big = np.arange(10**6) % 3
    with pytest.raises(ldp.privacy.LedgerError, match="disk is full"):
        curator(path, big, revision="big").release(response(), rng=SYSTEM)
    assert people(path).spent.epsilon() == 1.0
    curator(path).release(response(0.5), rng=SYSTEM)
    assert people(path).spent.epsilon() == 1.5

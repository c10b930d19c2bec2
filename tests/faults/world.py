"""A folder that faults happen to, and what must hold in it afterwards.

Guarantee: no charge is forgotten, no charge has two outputs, and nothing looks finished and is not.
"""

import hashlib
import json
import os
import signal
import sqlite3
import time
import traceback
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults.acts import Act, Told, as_json, output_of, prepare
from labeldp.curator import LedgerFile
from labeldp.privacy import LabelDPError

PATIENCE = 120.0
"""Seconds after which a process hangs."""


@dataclass
class World:
    """A folder, what its ledgers were seen to hold, and the outputs that were seen of each charge."""

    folder: Path
    rows: dict[str, str] = field(default_factory=dict)
    outputs: Told = field(default_factory=dict)
    files: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        prepare(self.folder)
        self.rows, self.files = ledger_rows(self.folder), visible(self.folder)


def visible(folder: Path) -> set[str]:
    """The names that a user sees."""
    return {each.name for each in folder.iterdir() if not each.name.startswith(".")}


def ledger_rows(folder: Path) -> dict[str, str]:
    """A digest of each release in the ledgers of a folder, by its charge; what a crash cut off is undone first."""
    found = {}
    for path in sorted(folder.glob("*.ledger")):
        ledger = LedgerFile(path)
        for name in ledger.datasets():
            account = ledger.dataset(name)
            bare = [charge.loss.epsilon(0) for charge in account.charges if not charge.path]
            if len(bare) == len(account.charges) and abs(account.spent.epsilon(0) - sum(bare)) > 1e-9:
                raise AssertionError(f"the total of {name} is not the sum of its charges")
        with closing(sqlite3.connect(path)) as connection:
            if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
                raise AssertionError(f"{path.name} is damaged")
            for charge, *rest in connection.execute(
                "SELECT charge, dataset, revision, form, identity, step, certificate, value, arrays FROM release"
            ):
                name = json.loads(charge)["id"]
                if name in found:
                    raise AssertionError(f"the charge {name} is twice in the ledger")
                found[name] = hashlib.sha256(repr((charge, rest)).encode()).hexdigest()[:16]
    return found


def in_child(body: Callable[[int], None]) -> tuple[int, int]:
    """Fork; call `body` with a pipe in the child, which ends then. Return its id and the reading end."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            body(writing)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    return child, reading


def act_in_child(act: Act, folder: Path, number: int, fault: Callable[[], None] | None = None) -> tuple[int, int]:
    """Do an act in a child: it writes "begin", then what it told, or `{"refused": sentence}`, or `{"bug": …}`."""

    def body(pipe: int) -> None:
        if fault is not None:
            fault()
        os.write(pipe, b"begin\n")
        try:
            answer = as_json(act.do(folder, number))
        except LabelDPError as error:
            answer = as_json({"refused": str(error)})
        except BaseException:
            answer = as_json({"bug": traceback.format_exc()})
        os.write(pipe, answer)

    return in_child(body)


def read_to_end(child: int, reading: int, patience: float = PATIENCE) -> list[bytes]:
    """The lines of a child that ends; it is killed if it takes too long."""
    deadline, found = time.monotonic() + patience, b""
    os.set_blocking(reading, False)
    while True:
        with suppress(BlockingIOError):
            if not (block := os.read(reading, 1 << 16)):
                break
            found += block
            continue
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            found += b'{"bug": "it hangs"}\n'
            break
        time.sleep(0.0005)
    os.close(reading)
    os.waitpid(child, 0)
    return found.splitlines()


def answer_of(lines: list[bytes]) -> dict[str, str] | None:
    """What a child said after "begin", None if it did not come that far."""
    return json.loads(lines[-1]) if lines and lines[-1].endswith(b"}") else None


def settle(world: World, act: Act, number: int, answers: list[dict[str, str] | None], charges: int) -> dict[str, Any]:
    """Look at a folder after a fault, do the act again without one, and look again.

    Args:
        world: the folder before the fault; brought up to date.
        act, number: what was done.
        answers: what each process told that did it.
        charges: how many charges the act makes where nothing happens.

    Returns:
        `wrong`, a list of sentences; `left`, where the fault met it, in words; `refused`, the sentences of refusals.
    """

    def body(pipe: int) -> None:
        os.write(pipe, json.dumps(_look(world, act, number, answers, charges)).encode() + b"\n")

    found = answer_of(read_to_end(*in_child(body)))
    if found is None or "bug" in found:
        return {"wrong": [f"it could not be settled: {found}"], "left": "?", "refused": []}
    world.rows, world.outputs, world.files = found["rows"], found["outputs"], set(found["files"])
    return found


def _look(world: World, act: Act, number: int, answers: list[Any], charges: int) -> dict[str, Any]:
    folder, wrong, outputs = world.folder, [], dict(world.outputs)
    journal = any(each.stat().st_size for each in folder.glob("*.ledger-journal"))
    hidden = [each for each in folder.iterdir() if each.name.startswith(".")]
    opened = {each.name: each.read_bytes() if each.is_file() else None for each in hidden if _is_open(each)}
    try:
        rows = ledger_rows(folder)
        wrong += [f"the charge {name} was forgotten" for name in _missing(world.rows, rows)]
        there = [name for name in act.outputs(number) if (folder / name).exists()]
        for told in [*(each for each in answers if each), *(output_of(folder / name) for name in there)]:
            if "bug" in told:
                wrong.append(told["bug"])
            elif "refused" not in told:
                wrong += _told(told, rows, outputs)
        for name in act.outputs(number):  # what a killed run may leave must be removed, as the message says
            if name not in there:
                (folder / f"{name}.certificate.json").unlink(missing_ok=True)
            else:
                _set_aside(folder / name)
        again = act.do(folder, number)
        after = ledger_rows(folder)
        wrong += [f"the charge {name} was forgotten when it was asked for again" for name in _missing(rows, after)]
        wrong += _told(again, after, outputs)
        if len(after) - len(world.rows) != charges:
            wrong.append(f"{len(after) - len(world.rows)} charges were made instead of {charges}")
        for name in act.outputs(number):
            wrong += [] if (folder / name).exists() else [f"{name} is not there"]
    except Exception:
        return {"bug": traceback.format_exc()}
    written = [b"", *(each.read_bytes() for each in folder.iterdir() if each.is_file() and each.name not in opened)]
    wrong += [f"{name} may be read by others" for name, content in opened.items() if content not in written]
    known = {*world.files, *act.outputs(number)}
    known |= {f"{name}.certificate.json" for name in act.outputs(number)} | {f"own{number}.ledger"}
    wrong += [f"{name} was left behind" for name in visible(folder) - known if not name.endswith(".aside")]
    for each in hidden:
        _remove(each)
    for each in folder.glob("*.aside"):
        _remove(each)
    met = "an output was there" if there else "it was charged" if len(rows) > len(world.rows) else "nothing was charged"
    refused = [each["refused"] for each in answers if each and "refused" in each]
    left = f"in the middle of a transaction, {met}" if journal else met
    files = sorted(visible(folder))
    return {"wrong": wrong, "left": left, "refused": refused, "rows": after, "outputs": outputs, "files": files}


def _is_open(path: Path) -> bool:
    """Whether others may read it, as they may when it is whole and only waits for its name."""
    return bool(path.lstat().st_mode & 0o077)


def _missing(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """The charges that are gone or that changed."""
    return [name for name, digest in before.items() if now.get(name) != digest]


def _told(told: Told, rows: dict[str, str], outputs: Told) -> list[str]:
    """What is wrong with an output: it was not charged, or is another one than before."""
    wrong = [f"an output left without the charge {name}" for name in told if name not in rows]
    return wrong + [
        f"the charge {name} has two outputs" for name in told if outputs.setdefault(name, told[name]) != told[name]
    ]


def _set_aside(path: Path) -> None:
    """Give an output another name, and its certificate with it."""
    for place in (path, path.with_name(f"{path.name}.certificate.json")):
        if place.exists():
            place.rename(place.with_name(f"{place.name}.aside"))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for each in path.iterdir():
            _remove(each)
        path.rmdir()
    else:
        path.unlink(missing_ok=True)

"""Faults that are no kills: disks, permissions, clocks, several processes and threads at once."""

import os
import random
import resource
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from faults.acts import Act, as_json
from faults.world import World, act_in_child, answer_of, in_child, read_to_end
from labeldp.curator import LedgerFile, datasets, ledger_store
from labeldp.privacy import LabelDPError

Fault = Callable[[World, Act, int, random.Random], list[Any]]
"""Does an act under a fault, and returns what its processes told."""

NOBODY = 65534
ROOM = 192 * 1024
"""Bytes within which a disk becomes full: an act writes a little less."""


def alone(world: World, act: Act, number: int, fault: Callable[[], None]) -> list[Any]:
    """Do an act in a process of its own that brings a fault on itself."""
    return [answer_of(read_to_end(*act_in_child(act, world.folder, number, fault)))]


def files_that_may_not_grow(world: World, act: Act, number: int, clock: random.Random) -> list[Any]:
    """No file may grow above a random size: a write ends in its middle, of a ledger, its journal or an output."""
    size = int(10 ** clock.uniform(2, 5.8))

    def fault() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return alone(world, act, number, fault)


def full_disk(world: World, act: Act, number: int, clock: random.Random) -> list[Any]:
    """The folder moves to a disk of its own, on which a random room is left."""
    room = clock.randrange(ROOM)

    def fill() -> None:
        left = shutil.disk_usage(world.folder).free - room
        (world.folder / ".ballast").write_bytes(bytes(max(0, left)))
        (world.folder / ".ballast").chmod(0o600)

    with_disk(world, f"size={size_of(world.folder) + 4 * ROOM}", fill)
    try:
        return alone(world, act, number, lambda: None)
    finally:
        (world.folder / ".ballast").unlink()
        without_disk(world)


def read_only_disk(world: World, act: Act, number: int, clock: random.Random) -> list[Any]:
    """The folder is on a disk that was mounted for reading only."""
    with_disk(world, "size=64m", lambda: None)
    subprocess.run(["mount", "-o", "remount,ro", str(world.folder)], check=True)
    try:
        return alone(world, act, number, lambda: None)
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(world.folder)], check=True)
        without_disk(world)


def with_disk(world: World, options: str, then: Callable[[], None]) -> None:
    """Copy a folder to a file system of its own that is mounted over it."""
    aside = world.folder.with_name(f"{world.folder.name}-aside")
    shutil.copytree(world.folder, aside)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(world.folder)], check=True)
    shutil.copytree(aside, world.folder, dirs_exist_ok=True)
    shutil.rmtree(aside)
    then()


def without_disk(world: World) -> None:
    """Copy what a fault left back to the folder below."""
    aside = world.folder.with_name(f"{world.folder.name}-aside")
    shutil.copytree(world.folder, aside)
    subprocess.run(["umount", str(world.folder)], check=True)
    shutil.rmtree(world.folder)
    aside.rename(world.folder)


def size_of(folder: Path) -> int:
    """Bytes of a folder, in whole pages."""
    return sum((each.stat().st_size // 4096 + 2) * 4096 for each in folder.rglob("*"))


def without_permission(world: World, act: Act, number: int, clock: random.Random) -> list[Any]:
    """One of three things may not be done: to read the ledger, to write to it, or to make files in the folder."""
    kind, root = clock.choice(("read", "write", "folder")), os.geteuid() == 0
    before = {each: each.stat().st_mode & 0o777 for each in (world.folder, *world.folder.glob("*.ledger"))}
    for place in before:
        if place == world.folder:
            place.chmod(0o500 if kind == "folder" else 0o700)
        else:
            place.chmod({"read": 0o000, "write": 0o400, "folder": 0o600}[kind])
        if root:
            os.chown(place, NOBODY, NOBODY)

    def fault() -> None:
        if root:
            os.seteuid(NOBODY)

    world.folder.parent.chmod(0o711)
    try:
        return alone(world, act, number, fault)
    finally:
        for place, mode in before.items():
            place.chmod(mode)
            if root:
                os.chown(place, 0, 0)
        for each in world.folder.rglob("*"):
            if root:
                os.chown(each, 0, 0, follow_symlinks=False)


def clock_that_jumps(world: World, act: Act, number: int, clock: random.Random) -> list[Any]:
    """The clock is off by up to a century, and jumps each time it is asked."""
    real, off = time.time, clock.uniform(-5e8, 3e9)
    jump = random.Random(clock.random())

    def fault() -> None:
        def wrong() -> float:
            return real() + off + jump.uniform(-1e6, 1e6)

        class Clock(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> datetime:
                return datetime.fromtimestamp(0, tz or UTC) + timedelta(seconds=wrong())

        time.time, datasets.datetime = wrong, Clock

    return alone(world, act, number, fault)


def two_writers(world: World, act: Act, number: int, clock: random.Random) -> list[Any]:
    """Two processes do the same at once, and a third something else."""
    children = [act_in_child(act, world.folder, each) for each in (number, number)]
    return [answer_of(read_to_end(*each)) for each in children]


def two_writers_one_killed(world: World, act: Act, number: int, clock: random.Random) -> list[Any]:
    """Two processes do the same at once; one is killed at a random moment of its first 50 ms."""
    children = [act_in_child(act, world.folder, each) for each in (number, number)]
    os.read(children[0][1], len(b"begin\n"))
    time.sleep(clock.uniform(0, 0.05))
    with suppress(ProcessLookupError):
        os.kill(children[0][0], signal.SIGKILL)
    return [answer_of(read_to_end(*each)) for each in children]


def threads(world: World, act: Act, number: int, clock: random.Random) -> list[Any]:
    """Three threads of a process do the same at once."""

    def body(pipe: int) -> None:
        def once() -> None:
            try:
                os.write(pipe, as_json(act.do(world.folder, number)))
            except LabelDPError as error:
                os.write(pipe, as_json({"refused": str(error)}))

        crew = [threading.Thread(target=once) for _ in range(3)]
        for each in crew:
            each.start()
        for each in crew:
            each.join()

    lines = read_to_end(*in_child(body))
    answers = [answer_of([line]) for line in lines]
    return answers if len(answers) == 3 else [*answers, {"bug": f"{len(answers)} of 3 threads answered"}]


def fork_in_a_transaction(world: World, act: Act, number: int, clock: random.Random) -> list[Any]:
    """A process forks while a thread of it is in the middle of a transaction; both go on, and the child ends first."""

    def body(pipe: int) -> None:
        inside, on = threading.Event(), threading.Event()
        ledger = LedgerFile(world.folder / "people.ledger")

        def transaction() -> None:
            with ledger._store.writing() as connection:
                connection.execute("UPDATE dataset SET created = created")
                inside.set()
                on.wait()

        thread = threading.Thread(target=transaction)
        thread.start()
        inside.wait()
        ledger_store.PATIENCE = 0.02
        child = os.fork()
        if child == 0:
            try:
                os.write(pipe, as_json(act.do(world.folder, number)))
            except LabelDPError as error:
                os.write(pipe, as_json({"refused": str(error)}))
            os._exit(0)
        os.waitpid(child, 0)
        on.set()
        thread.join()
        ledger_store.PATIENCE = 60.0
        os.write(pipe, as_json(act.do(world.folder, number)))

    return [answer_of([line]) for line in read_to_end(*in_child(body))]


def possible(place: Path) -> dict[str, Fault]:
    """The faults that can be made on this machine, in words."""
    found: dict[str, Fault] = {
        "no file may grow above a random size": files_that_may_not_grow,
        "a ledger or a folder without permission": without_permission,
        "a clock that is off and jumps": clock_that_jumps,
        "two processes do the same at once": two_writers,
        "the same, and one is killed": two_writers_one_killed,
        "three threads do the same at once": threads,
        "a fork while a thread is in a transaction": fork_in_a_transaction,
    }
    if can_mount(place):
        found |= {"a disk that becomes full": full_disk, "a disk for reading only": read_only_disk}
    return found


def can_mount(place: Path) -> bool:
    """Whether file systems can be mounted here."""
    probe = place / "probe"
    probe.mkdir()
    try:
        done = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(probe)], capture_output=True, check=False)
        if done.returncode == 0:
            subprocess.run(["umount", str(probe)], check=True)
        return done.returncode == 0
    except FileNotFoundError:
        return False
    finally:
        probe.rmdir()

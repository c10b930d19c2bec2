"""Where an interrupted run of rounds waits for the same command: its secret state, and the actions that it chose."""

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from labeldp.online import Actions, dump_state, load_state
from labeldp.privacy import InputError, LabelDPError

RUN, STATE, ACTIONS = "run.json", "state", "actions"
KIND = np.dtype("<i4")


@final
class Unfinished:
    """The folder OUT.unfinished of one run: for its owner alone, since the state is as secret as the losses.

    Args:
        folder: where it is.
        request: a digest of all that was asked for.
        run: the name under which the run is charged where no ledger file names it.
        key: of the digest of the losses, and of the coins where no ledger file has their key, in hexadecimal digits;
            secret.
        losses: this digest once a charge was asked for, else None; secret.
    """

    def __init__(self, folder: Path, request: str, run: str, key: str, losses: str | None = None) -> None:
        self.folder, self.request, self.run, self.losses = folder, request, run, losses
        self.key = bytes.fromhex(key)

    @contextmanager
    def charging(self, losses: str) -> Iterator[None]:
        """The losses and the name of the run are on disk while it is charged; forgotten where it is refused.

        Raises:
            InputError: a charge was asked for with other losses.
        """
        if self.losses not in (None, losses):
            raise InputError(f"the losses are not those of the run that waits in {self.folder}: remove it first")
        before, self.losses = self.losses, losses
        self.note()
        try:
            yield
        except LabelDPError:
            self.losses = before
            raise

    def note(self) -> None:
        """Write down which run this is."""
        content = {"request": self.request, "run": self.run, "key": self.key.hex(), "losses": self.losses}
        _keep(self.folder / RUN, json.dumps(content).encode())

    def load(self) -> dict[str, Any] | None:
        """The last state that was kept, or None."""
        place = self.folder / STATE
        return load_state(place.read_bytes()) if place.exists() else None

    def keep(self, state: dict[str, Any], actions: Actions) -> None:
        """Keep what was played after `state["rounds"] - len(actions)` rounds, then the state itself.

        What a run that died kept of actions without their state is overwritten: it never left this folder.
        """
        handle = os.open(self.folder / ACTIONS, os.O_CREAT | os.O_RDWR, 0o600)
        with os.fdopen(handle, "r+b") as file:
            file.seek((state["rounds"] - len(actions)) * KIND.itemsize)
            file.truncate()
            file.write(actions.astype(KIND).tobytes())
            file.flush()
            os.fsync(file.fileno())
        _keep(self.folder / STATE, dump_state(state))

    def actions(self, rounds: int, block_rows: int) -> Iterator[NDArray[Any]]:
        """The actions of so many rounds, by blocks."""
        with (self.folder / ACTIONS).open("rb") as file:
            for start in range(0, rounds, block_rows):
                yield np.frombuffer(file.read(min(block_rows, rounds - start) * KIND.itemsize), KIND)

    def forget(self) -> None:
        """Drop what was played; nothing of it had left."""
        for name in (STATE, ACTIONS):
            (self.folder / name).unlink(missing_ok=True)


@contextmanager
def unfinished(out: Path, request: str) -> Iterator[Unfinished]:
    """The folder OUT.unfinished, found again or made; gone when the body ends well, or is refused before a charge.

    Args:
        out: the file that the run will write.
        request: a digest of all that was asked for; public.

    Raises:
        InputError: the folder is of another request, or no folder of ours.
        LabelDPError: another run is at work on it.
    """
    folder = out.with_name(f"{out.name}.unfinished")
    handle = _locked(folder, out)
    try:
        found = _found(folder, request)
        try:
            yield found
        except LabelDPError:
            if found.losses is None:
                shutil.rmtree(folder)
            raise
        shutil.rmtree(folder)
    finally:
        os.close(handle)


def _locked(folder: Path, out: Path) -> int:
    """Hold the folder, made if need be; the lock goes with the process, however that ends."""
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise InputError(f"{folder}, where an interrupted run would wait, cannot be used: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise LabelDPError(f"another run is at work on {out}") from None
    return handle


def _found(folder: Path, request: str) -> Unfinished:
    """The run that waits here, or a new one, whose name is on disk before it is charged."""
    place = folder / RUN
    if place.exists():
        waiting = Unfinished(folder, **json.loads(place.read_text(encoding="utf-8")))
        if waiting.request == request:
            return waiting
        if waiting.losses is not None:
            raise InputError(f"{folder} is of another run: finish that one, remove the folder, or name another --out")
    elif any(left.name != _hidden(place).name for left in folder.iterdir()):
        raise InputError(f"{folder} is not of labeldp: remove it, or name another --out")
    new = Unfinished(folder, request, secrets.token_hex(8), secrets.token_hex(32))
    new.note()
    return new


def _hidden(place: Path) -> Path:
    """Where a file is written before it is there; all that is left where a run died at its first step."""
    return place.with_name(f".{place.name}.partial")


def _keep(place: Path, content: bytes) -> None:
    """Write a file for its owner alone, whole or not at all, and wait until it is on disk."""
    hidden = _hidden(place)
    handle = os.open(hidden, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    hidden.replace(place)
    folder = os.open(place.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)

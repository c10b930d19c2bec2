"""The log of a server: a line for each answer, each chained to the one before it."""

import fcntl
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Set
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, final

from labeldp.privacy import LedgerError, derive_key, even_if_refused
from labeldp.tables import sync

LOG, KEY = "log.jsonl", "log.key"

START = "0" * 64
"""What the first line is chained to."""


class LogError(LedgerError):
    """The log and a ledger do not agree, or a line could not be written: nothing is answered until the next start."""


@final
class Log:
    """An append-only file of lines, each with a keyed digest of itself and of the line before it.

    A line that was changed, removed from the middle or put in between breaks the chain. Lines that were cut off at the
    end do not: whoever keeps the last digest elsewhere (`head`) finds that, too.

    Args:
        folder: of the log and its key, which nobody else may open.

    Raises:
        LedgerError: the chain is broken, the key is missing, or another server has the log open.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._key = _key(folder)
        self._file = os.open(folder / LOG, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self.head, self.count = START, 0
        self._charges: dict[str, set[str]] = {}
        try:
            self._open(folder)
        except BaseException:
            os.close(self._file)
            raise
        sync(folder)

    def _open(self, folder: Path) -> None:
        """Read what was written so far, and check it."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LedgerError(f"the log {folder / LOG} is in use by another server") from None
        except OSError as error:
            raise LedgerError(
                f"the log {folder / LOG} cannot be locked: {error.strerror}. Keep the state on a local disk"
            ) from None
        size = 0
        for line, end in _lines(self._file):
            self._note(verified(line, self._key, self.head, self.count))
            size = end
        if size < os.fstat(self._file).st_size:  # a line that a crash cut off was never answered for
            os.ftruncate(self._file, size)

    def charges(self, dataset: str) -> Set[str]:
        """Return the ids of all charges of a dataset in the log."""
        return self._charges.get(dataset, set())

    def answer_digest(self, answer: bytes) -> str:
        """Return a keyed digest of an answer, by which it can be recognized later."""
        return hmac.new(derive_key(self._key, b"answer"), answer, hashlib.sha256).hexdigest()

    def append(self, entry: Mapping[str, Any]) -> None:
        """Write a line, on disk when this returns. What it holds is public to anyone who may read the log.

        Raises:
            LogError: it could not be written.
        """
        content = {"n": self.count, "at": datetime.now(UTC).isoformat(timespec="seconds"), **entry}
        content["chain"] = _chain(self._key, self.head, content)
        line = _written(content)
        try:
            whole_line = os.write(self._file, line) == len(line)
            os.fsync(self._file)
        except OSError as error:
            raise LogError(f"the log could not be written: {error.strerror}") from None
        if not whole_line:
            raise LogError("the log could not be written as a whole: is the disk full?")
        self._note(content)

    def close(self) -> None:
        """Let another server have the log."""
        os.close(self._file)

    def _note(self, entry: Mapping[str, Any]) -> None:
        self.head, self.count = entry["chain"], self.count + 1
        if "charge" in entry:
            self._charges.setdefault(entry["dataset"], set()).add(entry["charge"])

    @even_if_refused
    def __repr__(self) -> str:
        return f"Log({self.count} lines)"


def read_log(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of a log after checking its chain.

    Raises:
        LedgerError: the chain is broken, or there is no log.
    """
    try:
        key = (folder / KEY).read_bytes()
        file = os.open(folder / LOG, os.O_RDONLY)
    except OSError as error:
        raise LedgerError(f"there is no log in {folder}: {error.strerror}") from None
    entries: list[dict[str, Any]] = []
    try:
        for line, _ in _lines(file):
            entries.append(verified(line, key, entries[-1]["chain"] if entries else START, len(entries)))
    finally:
        os.close(file)
    return entries


def verified(line: bytes, key: bytes, head: str, number: int) -> dict[str, Any]:
    """Return a line of the log.

    Raises:
        LedgerError: it is not what was written there.
    """
    try:
        entry = json.loads(line)
        right = line == _written(entry)  # else a key may stand there twice
        claimed = entry.pop("chain")
        right &= entry["n"] == number and hmac.compare_digest(claimed, _chain(key, head, entry))
    except (ValueError, KeyError, TypeError, AttributeError):
        right = False
    if not right:
        raise LedgerError(
            f"line {number + 1} of the log is not what was written there: it, or one before it, was changed"
        )
    return {**entry, "chain": claimed}


def _written(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry, sort_keys=True).encode() + b"\n"


def _chain(key: bytes, head: str, entry: Mapping[str, Any]) -> str:
    text = json.dumps(entry, sort_keys=True)
    return hmac.new(derive_key(key, b"chain"), f"{head}\n{text}".encode(), hashlib.sha256).hexdigest()


def _lines(file: int) -> Iterator[tuple[bytes, int]]:
    """Yield the whole lines of a file, and where each ends."""
    end = 0
    with os.fdopen(os.dup(file), "rb") as stream:
        stream.seek(0)
        for line in stream:
            end += len(line)
            if line.endswith(b"\n"):
                yield line, end


def _key(folder: Path) -> bytes:
    path = folder / KEY
    if not path.exists():
        if (folder / LOG).exists() and (folder / LOG).stat().st_size:
            raise LedgerError(f"the key of the log is missing: {path}. Restore it: nothing else can check the log")
        hidden = folder / f".{KEY}.{secrets.token_hex(4)}"
        handle = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(32))
            file.flush()
            os.fsync(file.fileno())
        os.replace(hidden, path)
        sync(folder)
    key = path.read_bytes()
    if len(key) != 32:
        raise LedgerError(f"the key of the log is damaged: {path}")
    return key

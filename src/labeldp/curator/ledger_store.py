"""The SQLite file of a durable ledger, which only its owner may read."""

import errno
import io
import os
import secrets
import shlex
import sqlite3
import stat
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import LedgerError, as_written, most_bytes

SCHEMA_NUMBER = 2
"""The number of the tables below, which the file begins with. A file of any other number is refused."""

APPLICATION = int.from_bytes(b"ldpL", "big")

BACKUP = int.from_bytes(b"ldpB", "big")
"""A copy that nothing may be charged to; see `labeldp.curator.ledger_upkeep`."""

MOVED = int.from_bytes(b"ldpM", "big")
"""What stands where a ledger was: the table `moved` says where it is."""

SYNC = "EXTRA"
"""When SQLite waits for the disk: before and after each transaction, the journal's removal included."""

PATIENCE = 60.0
"""Seconds to wait for another process that writes to the same ledger."""

MAX_BYTES = 900_000_000
"""The most bytes of one stored array; the limit of SQLite is a little higher."""

SCHEMA = f"""
BEGIN;
CREATE TABLE dataset (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, epsilon TEXT NOT NULL, delta TEXT NOT NULL,
    generation INTEGER NOT NULL DEFAULT 1, records INTEGER, unit TEXT, users TEXT, secret BLOB NOT NULL,
    created TEXT NOT NULL
);
CREATE TABLE account (
    dataset INTEGER NOT NULL REFERENCES dataset (id), analyst TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL,
    versions TEXT NOT NULL, policy TEXT, loss TEXT, tail TEXT, rate TEXT, failure TEXT, reserve TEXT,
    PRIMARY KEY (dataset, analyst)
);
CREATE TABLE paid (
    dataset INTEGER NOT NULL, analyst TEXT NOT NULL, low INTEGER NOT NULL, high INTEGER NOT NULL, path TEXT NOT NULL,
    loss TEXT, tail TEXT NOT NULL, rate TEXT, failure TEXT NOT NULL, PRIMARY KEY (dataset, analyst, low, high, path),
    FOREIGN KEY (dataset, analyst) REFERENCES account
);
CREATE TABLE plan (
    name TEXT PRIMARY KEY, dataset INTEGER NOT NULL, analyst TEXT NOT NULL, low INTEGER NOT NULL, high INTEGER NOT NULL,
    steps TEXT NOT NULL, taken TEXT NOT NULL, done INTEGER NOT NULL, FOREIGN KEY (dataset, analyst) REFERENCES account
);
CREATE INDEX plan_of_account ON plan (dataset, analyst, done);
CREATE TABLE request (digest TEXT PRIMARY KEY, content TEXT NOT NULL, created TEXT NOT NULL);
CREATE TABLE cohort (
    dataset INTEGER NOT NULL REFERENCES dataset (id), number INTEGER NOT NULL, name TEXT NOT NULL,
    records INTEGER NOT NULL, digest TEXT NOT NULL, created TEXT NOT NULL,
    PRIMARY KEY (dataset, number), UNIQUE (dataset, name)
);
CREATE TABLE cohort_ids (
    id INTEGER PRIMARY KEY, dataset INTEGER NOT NULL, bucket INTEGER NOT NULL, number INTEGER NOT NULL,
    ids BLOB NOT NULL, UNIQUE (dataset, bucket, number), FOREIGN KEY (dataset, number) REFERENCES cohort
);
CREATE TABLE domain (
    id INTEGER PRIMARY KEY, dataset INTEGER NOT NULL REFERENCES dataset (id), label_column TEXT NOT NULL,
    form TEXT NOT NULL, words TEXT NOT NULL, passed INTEGER NOT NULL DEFAULT 0, refused INTEGER NOT NULL DEFAULT 0,
    created TEXT NOT NULL, UNIQUE (dataset, label_column, form)
);
CREATE TABLE labels (
    dataset INTEGER NOT NULL REFERENCES dataset (id), label_column TEXT NOT NULL, generation INTEGER NOT NULL,
    revision TEXT NOT NULL, low INTEGER NOT NULL, high INTEGER NOT NULL, scheme TEXT NOT NULL, domain TEXT NOT NULL,
    digest TEXT NOT NULL, PRIMARY KEY (dataset, label_column, generation, revision, low, high, scheme, domain)
);
CREATE TABLE difference (
    dataset INTEGER NOT NULL REFERENCES dataset (id), label_column TEXT NOT NULL, generation INTEGER NOT NULL,
    revision TEXT NOT NULL, times INTEGER NOT NULL, PRIMARY KEY (dataset, label_column, generation, revision)
);
CREATE TABLE release (
    id INTEGER PRIMARY KEY, dataset INTEGER NOT NULL REFERENCES dataset (id), label_column TEXT NOT NULL,
    generation INTEGER NOT NULL, revision TEXT NOT NULL, low INTEGER NOT NULL, high INTEGER NOT NULL,
    analyst TEXT NOT NULL, form TEXT NOT NULL CHECK (form IN ('held', 'stream')), identity TEXT NOT NULL, stage TEXT,
    step TEXT, charge TEXT NOT NULL, cost TEXT NOT NULL, made TEXT, certificate TEXT NOT NULL, value BLOB, arrays BLOB,
    paid TEXT, request TEXT REFERENCES request (digest), created TEXT NOT NULL,
    UNIQUE (dataset, label_column, generation, revision, form, identity)
);
CREATE INDEX release_of_stage ON release (dataset, label_column, generation, revision, stage) WHERE stage IS NOT NULL;
CREATE INDEX release_of_cost ON release (dataset, label_column, generation, revision, cost, step);
CREATE INDEX release_of_made ON release (dataset, label_column, generation, revision, made);
CREATE TABLE change (
    id INTEGER PRIMARY KEY, dataset INTEGER NOT NULL REFERENCES dataset (id), what TEXT NOT NULL,
    before TEXT NOT NULL, after TEXT NOT NULL, why TEXT, created TEXT NOT NULL
);
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {SCHEMA_NUMBER};
COMMIT;
"""

_REASONS = {
    sqlite3.SQLITE_BUSY: "is in use by another process; wait until that is done and run again",
    sqlite3.SQLITE_LOCKED: "is in use by another process; wait until that is done and run again",
    sqlite3.SQLITE_READONLY: "may not be written to; nothing was charged",
    sqlite3.SQLITE_PERM: "may not be written to; nothing was charged",
    sqlite3.SQLITE_FULL: "could not be written: the disk is full; nothing was charged, make room and run again",
    sqlite3.SQLITE_IOERR: "could not be read or written: the disk reported an error",
    sqlite3.SQLITE_CORRUPT: "is damaged; restore it from a copy that holds every release made so far",
    sqlite3.SQLITE_NOTADB: "is not a ledger of labeldp; it is unchanged",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: the file and its directory must be writable",
    sqlite3.SQLITE_TOOBIG: "cannot hold a release of this size; `release_file` streams it instead",
}


@final
class Store:
    """One ledger file. No connection outlives a call, so threads and forked processes may share a store.

    A file that does not exist is created by the first transaction that may create it, completely or not at all. After
    every transaction the file alone is complete: SQLite's rollback journal exists only during one. Only SQLite opens
    the file, since closing it would drop the locks that other threads hold on it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        if not self.exists and not self.path.parent.is_dir():
            raise LedgerError(f"the ledger {self.path} cannot be made: there is no directory {self.path.parent}")

    def check(self) -> None:
        """Raise LedgerError if there is a file that is no ledger."""
        if self.exists:
            with self.connected():
                pass

    @property
    def exists(self) -> bool:
        """Whether there is a file at the path."""
        return os.path.lexists(self.path)

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query; none if there is no file yet."""
        if not self.exists:
            return []
        with self.connected() as connection:
            return connection.execute(query, parameters).fetchall()

    @contextmanager
    def writing(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        """Open a transaction that excludes other writers; commit it to disk when the body ends, else roll it back."""
        if create and not self.exists:
            with _explained(self.path), appearing(self.path) as hidden, closing(_connect(hidden)) as connection:
                connection.executescript(SCHEMA)
        with self.connected() as connection:
            _keep_complete(connection)
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.rollback()
                raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Open a connection for several queries, which all see what is on disk at one moment."""
        with self.connected() as connection:
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def connected(self) -> Iterator[sqlite3.Connection]:
        """Open a connection for several queries, each of which sees what is on disk by then."""
        with opened(self.path) as connection:
            _check_content(self.path, connection)
            yield connection


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a connection to a file that may be no ledger: `application_of` tells."""
    if not os.path.lexists(path):
        raise LedgerError(f"there is no ledger {path}")
    try:
        status = path.stat()
    except OSError as error:
        raise LedgerError(f"the ledger {path} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):  # before SQLite opens it
        raise LedgerError(f"the ledger {path} is not a file")
    with _explained(path), closing(_connect(path)) as connection:
        yield connection


def application_of(connection: sqlite3.Connection) -> int:
    """Return what a file is: `APPLICATION`, `BACKUP`, `MOVED` or something else."""
    return int(connection.execute("PRAGMA application_id").fetchone()[0])


def pack(array: NDArray[Any]) -> bytes:
    """Return an array as compressed bytes in numpy's format; raise LedgerError if they are too many."""
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(array), allow_pickle=False)
    packed = zlib.compress(buffer.getbuffer(), level=1)
    if len(packed) > MAX_BYTES:
        raise LedgerError("a ledger cannot hold a release of this size; `release_file` streams it instead")
    return packed


def unpack(packed: bytes) -> NDArray[Any]:
    """Return the inverse of `pack`."""

    def read() -> NDArray[Any]:
        grown = zlib.decompressobj()
        content = grown.decompress(packed, most_bytes(len(packed)))
        if not grown.eof:
            raise ValueError
        array: NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
        return array

    return as_written(read)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.as_uri()}?mode=rw", timeout=PATIENCE, isolation_level=None, uri=True)
    try:
        for setting in (f"synchronous = {SYNC}", "fullfsync = ON", "foreign_keys = ON", "trusted_schema = OFF"):
            connection.execute(f"PRAGMA {setting}")
    except BaseException:  # the file is no database
        connection.close()
        raise
    return connection


def _check_content(path: Path, connection: sqlite3.Connection) -> None:
    """Raise LedgerError if a file is not a ledger of this schema that only its owner may open; write nothing."""
    application, schema = application_of(connection), connection.execute("PRAGMA user_version").fetchone()[0]
    if application == BACKUP:
        command = f"labeldp ledger restore {shlex.quote(str(path))} --out …"
        raise LedgerError(f"{path} is a backup of a ledger, and no ledger: {command}")
    if application == MOVED:
        [target] = connection.execute("SELECT path FROM moved").fetchone()
        raise LedgerError(f"the ledger {path} was moved: it is {target} now; nothing was charged")
    if application != APPLICATION:
        raise LedgerError(f"{path} {_REASONS[sqlite3.SQLITE_NOTADB]}")
    if schema != SCHEMA_NUMBER:
        raise LedgerError(
            f"the ledger {path} has schema {schema}, and this labeldp reads schema {SCHEMA_NUMBER} alone; "
            "it is unchanged"
        )
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise LedgerError(
            f"the ledger {path} holds the key to the noise and may be opened by other users: run chmod 600 on it first"
        )


def _keep_complete(connection: sqlite3.Connection) -> None:
    """Merge a write-ahead log, which another program left, into the file, unless a process uses it."""
    with suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA journal_mode = DELETE")


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """Yield a new file of a hidden name, which only its owner may open, and give it its own name when it is whole.

    A file that stands at the path by then stays, and the new one is removed.
    """
    hidden = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        os.close(os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))  # SQLite gives -journal the same mode
        yield hidden
        _appear(hidden, path)
        _sync(path.parent)
    except OSError as error:
        raise LedgerError(f"the ledger {path} cannot be made: {error.strerror}") from error
    finally:
        for suffix in ("", "-journal"):
            with suppress(OSError):  # there is none, or the disk is for reading only
                hidden.with_name(hidden.name + suffix).unlink()


def copy_database(connection: sqlite3.Connection, target: Path, application: int) -> None:
    """Copy what a connection sees into an empty file, as a file of an application; refuse a damaged one."""
    with _explained(target), closing(_connect(target)) as copy:
        connection.backup(copy)
        copy.execute(f"PRAGMA application_id = {application}")
        if copy.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise LedgerError(f"the ledger that {target.name} was copied from {_REASONS[sqlite3.SQLITE_CORRUPT]}")


def _appear(hidden: Path, path: Path) -> None:
    _sync(hidden)
    try:
        os.link(hidden, path)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        if not os.path.lexists(path):
            hidden.rename(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _has_locks(folder: Path) -> bool:
    """Return whether files of a folder can be locked: SQLite says that a file is busy also where none can be."""
    import fcntl

    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
    return True


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn the errors of SQLite into LedgerErrors that say what to do."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        reason = _REASONS.get(code, f"cannot be used: {error}")
        if code == sqlite3.SQLITE_BUSY and not _has_locks(path.parent):
            reason = "is on a file system without locks; move it to a local disk: labeldp ledger move"
        raise LedgerError(f"the ledger {path} {reason}") from error

"""A cache of features, by what they were computed from."""

import os
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from labeldp.privacy import InputError

VARIABLE = "LABELDP_FEATURE_CACHE"
"""The environment variable that names a folder for the cache; "off" for none."""

KEYS_ASKED = 500
"""Keys of one query, at most; SQLite before 3.32 takes 999."""


@dataclass(frozen=True)
class FeatureCache:
    """Features of single records in a file of SQLite.

    A key is the SHA-256 of a record's pixels or text and of the encoder's version. The file has keys and features
    alone: no path, no order of records, no count of equal ones, no label.

    Args:
        path: of the file; None to keep nothing.
    """

    path: Path | None

    @classmethod
    def of_user(cls) -> "FeatureCache":
        """Return the cache in the user's folder for caches, or where the environment says."""
        folder = os.environ.get(VARIABLE, "")
        if folder == "off":
            return cls(None)
        caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return cls(Path(folder or Path(caches) / "labeldp") / "features.sqlite")

    def read(self, keys: Collection[bytes]) -> dict[bytes, bytes]:
        """Return what is stored of some records, by key."""
        stored: dict[bytes, bytes] = {}
        if self.path is None or not self.path.exists():
            return stored
        wanted = sorted(keys)
        with self._connected() as connection:
            for start in range(0, len(wanted), KEYS_ASKED):
                part = wanted[start : start + KEYS_ASKED]
                marks = ",".join("?" * len(part))
                stored.update(connection.execute(f"SELECT key, value FROM features WHERE key IN ({marks})", part))
        return stored

    def add(self, features: Mapping[bytes, bytes]) -> None:
        """Store features by key, all or none. What is there stays."""
        if self.path is None:
            return
        with self._connected() as connection, connection:
            connection.executemany("INSERT OR IGNORE INTO features VALUES (?, ?)", sorted(features.items()))

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection to the file, which its owner alone can read."""
        assert self.path is not None
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            with closing(sqlite3.connect(self.path, timeout=60)) as connection:
                with connection:
                    connection.execute(
                        "CREATE TABLE IF NOT EXISTS features (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
                    )
                yield connection
        except (OSError, sqlite3.Error) as error:
            problem = f"the feature cache {self.path} cannot be used: {error}"
        else:
            return
        raise InputError(f"{problem}. Remove it, or set {VARIABLE} to another folder, or to off")

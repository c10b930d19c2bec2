"""Rows of words by bucket: in memory or, where they are many, in a temporary file."""

import secrets
import tempfile
from collections.abc import Iterator
from typing import IO, Any, final

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy.errors import explain_full_disk
from labeldp.privacy.ids import Words, has_repeats

BUCKETS = 256


@final
class Buckets:
    """Rows of one or two words, kept in memory or, if they are many, by bucket in an anonymous temporary file.

    Close it when it is done with.

    Args:
        held: the most rows that memory holds; of those in the file it holds a bucket at a time.
        width: words in a row, 1 or 2.
        buckets: how many, 256 or 1.
        spread: draw the bucket of a row by a secret hash of its first word. Without, it is the first byte of that word,
            so that sorted buckets in order are sorted rows.
    """

    def __init__(self, held: int, width: int, *, buckets: int = BUCKETS, spread: bool = True) -> None:
        self._limit, self._width, self._buckets = held, width, buckets
        self._odd = np.uint64(secrets.randbits(64) | 1 if spread else 1)
        self._waiting: list[Words] = []
        self._count = 0
        self._spilled: list[NDArray[np.int64]] = []
        self._file: IO[bytes] | None = None

    def add(self, words: Words) -> None:
        """Add rows, shape (n,) or (n, 2)."""
        self._waiting.append(words)
        self._count += len(words)
        if self._count > self._limit:
            self._spill()

    def runs(self) -> Iterator[Words]:
        """Yield what was added, a bucket of a run, or a block in memory, at a time."""
        for bucket in range(self._buckets):
            for run in self._spilled:
                yield self._read(run, bucket)
        yield from self._waiting

    def bucket(self, number: int) -> Words:
        """Return the rows of one bucket, in no order."""
        if self._count:
            self._spill()
        parts = [self._read(run, number) for run in self._spilled]
        return np.concatenate(parts) if parts else np.zeros((0, self._width)[: self._width], dtype=np.uint64)

    def repeated(self) -> bool:
        """Return whether a row was added twice, one bucket at a time."""
        if self._file is None:
            return bool(self._waiting) and has_repeats(np.concatenate(self._waiting))
        return any(has_repeats(self.bucket(number)) for number in range(self._buckets))

    def close(self) -> None:
        """Remove the temporary file."""
        if self._file is not None:
            self._file.close()

    def _spill(self) -> None:
        """Write the waiting rows as one run, ordered by bucket, and remember where each bucket starts in it."""
        words = np.concatenate(self._waiting)
        ends = np.array([len(words)])
        if self._buckets > 1:
            first = words if self._width == 1 else words[:, 0]
            bucket = ((first * self._odd) >> np.uint64(56)).astype(np.uint8)
            words = words.take(np.argsort(bucket, kind="stable"), axis=0)
            ends = np.cumsum(np.bincount(bucket, minlength=self._buckets))
        with explain_full_disk("the temporary file of record ids"):
            self._file = self._file or tempfile.TemporaryFile()  # noqa: SIM115  (`close` closes it)
            start = self._file.seek(0, 2)
            self._file.write(np.ascontiguousarray(words).data)
            self._file.flush()
        self._spilled.append(start + np.concatenate([[0], ends]) * words.itemsize * self._width)
        self._waiting, self._count = [], 0

    def _read(self, run: NDArray[np.int64], bucket: int) -> Words:
        assert self._file is not None
        self._file.seek(int(run[bucket]))
        words: NDArray[Any] = np.frombuffer(self._file.read(int(run[bucket + 1] - run[bucket])), dtype=np.uint64)
        return words if self._width == 1 else words.reshape(-1, self._width)

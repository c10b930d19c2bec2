"""Sums of public feature rows over a table that workers hold, weighted by private labels: exact, in one pass."""

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.mechanisms import RESOLUTION, Domain, GridScan, GridTotals
from labeldp.privacy import Floats, Ids, RecordDigest

ROWS = 4096
"""Rows that are computed at a time: what is computed of them is many times as large as the columns."""


class RowMap(Protocol):
    """A public rule that makes a row of numbers of each record; it can be pickled."""

    @property
    def columns(self) -> Sequence[str]:
        """The public columns that it reads."""

    @property
    def width(self) -> int:
        """The numbers in a row, d."""

    def rows(self, batch: pa.RecordBatch) -> Floats:
        """Return the row of each record, shape (n, d): to the bit the same in whatever block the record stands."""


@final
class RowDigest(RecordDigest):
    """Tells whether records and their rows are the same as before; see `RecordDigest`."""

    purpose = b"row digest"

    def add(self, names: Ids, steps: NDArray[np.int16]) -> None:
        """Add records: names (n, 2), and rows in grid steps (n, d)."""
        named = np.hstack([names.astype("<u8").view("<i2"), steps.astype("<i2")])
        digests = (hashlib.blake2b(row, digest_size=16, key=self._key).digest() for row in named)
        self.update(np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2))


@final
@dataclass(frozen=True)
class RowMeasure:
    """The sum of the rows of each class; or the sum of rows times codes. And what noise on them depends on.

    Args:
        map: makes the rows.
        domain: of the labels.
        clip: norm to which longer rows are scaled down; public, as all of this.
        resolution: grid steps in it.
    """

    map: RowMap
    domain: Domain
    clip: float
    resolution: int = RESOLUTION

    def __post_init__(self) -> None:
        self.scan()

    @property
    def columns(self) -> Sequence[str]:
        """The public columns that it reads."""
        return self.map.columns

    def scan(self) -> GridScan:
        """Return a scan of no rows yet; raise InputError if clip or resolution are out of range."""
        return GridScan(self.map.width, self.clip, self.resolution)

    def start(self, key: bytes) -> "RowTally":
        """Return sums of no records yet."""
        return RowTally(self, key)


@final
class RowTally:
    """Sums of rows by class, or weighted by codes: integers, private; and the lengths, sum and digest of the rows.

    Args:
        measure: what is summed.
        key: of the digest of rows.
    """

    def __init__(self, measure: RowMeasure, key: bytes) -> None:
        self._measure = measure
        self._scan, self._digest = measure.scan(), RowDigest(key)
        self.sums = np.zeros((measure.map.width, measure.domain.columns), dtype=np.int64)

    def add(self, names: Ids, codes: NDArray[Any], batch: pa.RecordBatch) -> None:
        """Add the records of a block; raise InputError if a row is not finite."""
        for start in range(0, batch.num_rows, ROWS):
            part = slice(start, start + ROWS)
            steps = self._scan.rounded(self._measure.map.rows(batch.slice(start, ROWS)))
            self._scan.add(steps)
            self._digest.add(names[part], steps)
            self.sums += self._measure.domain.unit_sums(steps, codes[part])

    @property
    def state(self) -> bytes:
        """The sums so far; as secret as the labels."""
        scan, buffer = self._scan, io.BytesIO()
        scanned = np.array([scan.records, scan.square, scan.length])
        digest = np.frombuffer(self._digest.state, dtype=np.uint8)
        np.savez(buffer, digest=digest, scanned=scanned, total=scan.total, sums=self.sums)
        return buffer.getvalue()

    def add_state(self, state: bytes) -> None:
        """Add the sums of another tally, by its `state`."""
        with np.load(io.BytesIO(state), allow_pickle=False) as arrays:
            self._digest.add_state(arrays["digest"].tobytes())
            records, square, length = map(int, arrays["scanned"])
            self._scan.merge(records, square, length, arrays["total"])
            self.sums += arrays["sums"]

    @property
    def rows(self) -> GridTotals:
        """What is public: the number of rows, the longest of them, their sum, and a digest of all."""
        totals = self._scan.totals("")
        public = repr((totals.shape, totals.unit.hex(), self._digest.hexdigest()))
        return self._scan.totals(hashlib.sha256(public.encode()).hexdigest())

    def __repr__(self) -> str:
        return "RowTally(<secret>)"

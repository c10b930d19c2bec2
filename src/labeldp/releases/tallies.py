"""Exact sums of integers over the records of a table: by group, and of rows that labels weight."""

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.mechanisms import RESOLUTION, Domain, GridScan, GridTotals, GroupSizes
from labeldp.privacy import BLOCK, Ids, InputError, RecordDigest
from labeldp.releases.groupings import Grouping, RowMap
from labeldp.releases.survey import Accumulator, Aggregate

ROWS = 4096
"""Rows of one computation, whose results are many times as large as the columns."""


MAX_SUMS = 1 << 27
"""More sums than this do not fit into the memory of a worker."""


def stored(**arrays: Any) -> bytes:
    """Return arrays without objects, the result of a task, as bytes."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def restored(state: bytes) -> dict[str, NDArray[Any]]:
    """Return the result of a task; raise InputError if it met a problem."""
    with np.load(io.BytesIO(bytes(state)), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    if "problem" in arrays:
        raise InputError(str(arrays["problem"]))
    return arrays


@final
class GroupDigest(RecordDigest):
    """Tells whether records and their groups are the same as before; see `RecordDigest`."""

    purpose = b"group digest"


@final
@dataclass(frozen=True)
class GroupSums(Aggregate):
    """The class counts of each group; or its number of records and the sum of their codes.

    Args:
        grouping: puts records into groups.
        classes: the number of classes; None for sums of codes.
    """

    grouping: Grouping
    classes: int | None

    @property
    def columns(self) -> Sequence[str]:
        return self.grouping.columns

    def start(self, key: bytes) -> "GroupAccumulator":
        return GroupAccumulator(self, key)


@final
class GroupAccumulator(Accumulator):
    """Counts of records by group and class, or numbers of records and sums of codes by group: integers, private."""

    def __init__(self, aggregate: GroupSums, key: bytes) -> None:
        self._aggregate = aggregate
        self._width = 2 if aggregate.classes is None else aggregate.classes
        self._digest = GroupDigest(key)
        self.counts = np.zeros((0, self._width), dtype=np.int64)

    def add(self, names: Ids, codes: NDArray[Any], batch: pa.RecordBatch) -> None:
        """Add the records of a block; raise InputError if a group is no number from 0, or a far too large one."""
        groups = self._aggregate.grouping.groups(batch)
        if len(groups) and not 0 <= int(groups.min()) <= int(groups.max()) < min(MAX_SUMS // self._width, 1 << 32):
            raise InputError(f"groups must have numbers from 0 to {MAX_SUMS // self._width:,}, without gaps")
        self._digest.update(names, groups.astype(np.uint64))
        self._grow(int(groups.max(initial=-1)) + 1)
        flat = self.counts.reshape(-1)
        for start in range(0, len(groups), BLOCK):
            part = slice(start, start + BLOCK)
            if self._aggregate.classes is None:
                np.add.at(flat, groups[part] * 2, 1)
                np.add.at(flat, groups[part] * 2 + 1, codes[part].astype(np.int64))
            else:
                np.add.at(flat, groups[part] * self._width + codes[part].astype(np.int64), 1)

    @property
    def state(self) -> bytes:
        """The sums so far, without zeros; as secret as the labels."""
        places = np.flatnonzero(self.counts)
        values, digest = self.counts.reshape(-1)[places], np.frombuffer(self._digest.state, dtype=np.uint8)
        return stored(digest=digest, groups=np.array(len(self.counts)), places=places, values=values)

    def add_state(self, state: bytes) -> None:
        arrays = restored(state)
        self._digest.add_state(arrays["digest"].tobytes())
        self._grow(int(arrays["groups"]))
        self.counts.reshape(-1)[arrays["places"]] += arrays["values"]

    @property
    def groups(self) -> GroupSizes:
        """What is public: the records in each group, and the digest."""
        sizes = self.counts[:, 0] if self._aggregate.classes is None else self.counts.sum(axis=1)
        return GroupSizes(sizes, self._digest.hexdigest())

    @property
    def sums(self) -> NDArray[np.int64]:
        """What is private: counts, shape (groups, classes), or sums of codes, shape (groups, 1)."""
        return self.counts[:, 1:] if self._aggregate.classes is None else self.counts

    def _grow(self, groups: int) -> None:
        if groups > len(self.counts):
            more = np.zeros((groups - len(self.counts), self._width), dtype=np.int64)
            self.counts = np.concatenate([self.counts, more])

    def __repr__(self) -> str:
        return "GroupAccumulator(<secret>)"


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
class RowSums(Aggregate):
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
        return self.map.columns

    def scan(self) -> GridScan:
        """Return a scan of no rows yet; raise InputError if clip or resolution are out of range."""
        return GridScan(self.map.width, self.clip, self.resolution)

    def start(self, key: bytes) -> "RowAccumulator":
        return RowAccumulator(self, key)


@final
class RowAccumulator(Accumulator):
    """Sums of rows by class, or weighted by codes: integers, private; and the lengths, sum and digest of the rows."""

    def __init__(self, aggregate: RowSums, key: bytes) -> None:
        self._aggregate = aggregate
        self._scan, self._digest = aggregate.scan(), RowDigest(key)
        self.sums = np.zeros((aggregate.map.width, aggregate.domain.columns), dtype=np.int64)

    def add(self, names: Ids, codes: NDArray[Any], batch: pa.RecordBatch) -> None:
        """Add the records of a block; raise InputError if a row is not finite."""
        for start in range(0, batch.num_rows, ROWS):
            part = slice(start, start + ROWS)
            steps = self._scan.rounded(self._aggregate.map.rows(batch.slice(start, ROWS)))
            self._scan.add(steps)
            self._digest.add(names[part], steps)
            self.sums += self._aggregate.domain.unit_sums(steps, codes[part])

    @property
    def state(self) -> bytes:
        """The sums so far; as secret as the labels."""
        scan = self._scan
        scanned = np.array([scan.records, scan.square, scan.length])
        digest = np.frombuffer(self._digest.state, dtype=np.uint8)
        return stored(digest=digest, scanned=scanned, total=scan.total, sums=self.sums)

    def add_state(self, state: bytes) -> None:
        arrays = restored(state)
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
        return "RowAccumulator(<secret>)"

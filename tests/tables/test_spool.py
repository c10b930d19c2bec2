"""Blocks that were set aside are read again as they were, and leave nothing."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from labeldp.privacy import LabelDPError
from labeldp.tables import Spool


def blocks() -> list[pa.RecordBatch]:
    """Blocks of several sizes, with other words in each dictionary, and one of another schema."""
    made = [
        pa.record_batch({"id": np.arange(rows), "label": pa.array([f"secret {rows}"] * rows).dictionary_encode()})
        for rows in (1, 7, 1000, 3)
    ]
    return [*made, pa.record_batch({"words": pa.array([b"0" * 16], pa.binary(16))})]


def test_what_is_read_is_what_was_added_as_often_as_it_is_read(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        for each in blocks():
            spool.add(each)
        assert len(spool) == 5 and repr(spool) == "Spool(<secret>)"
        for _ in range(2):
            assert all(one.equals(other) for one, other in zip(spool.blocks(), blocks(), strict=True))
        assert [each.num_rows for each in spool.blocks(1, 3)] == [7, 1000]
        assert [each.num_rows for each in spool.blocks(3)] == [3, 1]


def test_a_slice_takes_the_room_of_its_rows(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        spool.add(blocks()[2].slice(500, 2))
        assert next(spool.blocks()).column("id").to_pylist() == [500, 501]
        assert spool._ends[-1] < 2000


@pytest.mark.guarantee("labeldp.tables:Spool", "encrypted")
@pytest.mark.guarantee("labeldp.tables:Spool", "nameless")
def test_the_file_has_no_name_and_shows_nothing(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        for each in [*blocks(), *blocks()]:
            spool.add(each)
        assert os.listdir(tmp_path) == []
        handle = spool._file.fileno()
        assert os.fstat(handle).st_mode & 0o777 == 0o600 and os.fstat(handle).st_nlink == 0
        content = os.pread(handle, spool._ends[-1], 0)
        assert len(content) > 2 * 8 * 1011 and b"secret" not in content and spool._key not in content
        pieces = [content[place : place + 16] for place in range(0, len(content) - 16, 16)]
        seen = [piece for piece in pieces if piece.count(0) < 8]  # holes aside
        assert len(set(seen)) == len(seen)  # equal blocks look different: no keystream is used twice
    assert os.listdir(tmp_path) == []


def test_a_full_disk_is_said(tiny_disk: Path) -> None:
    with Spool(tiny_disk) as spool, pytest.raises(LabelDPError, match="disk is full"):
        spool.add(pa.record_batch({"id": np.arange(100_000)}))

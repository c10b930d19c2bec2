"""Rows of words in buckets: none is lost, none gets into two, and sorted buckets in order are sorted rows."""

import errno
import tempfile
from typing import Any

import numpy as np
import pytest

from labeldp.privacy import Buckets, LabelDPError


def rows(count: int, width: int) -> np.ndarray:
    words = np.random.default_rng(count).integers(0, 1 << 64, size=(count, width), dtype=np.uint64)
    return words[:, 0] if width == 1 else words


def first(words: np.ndarray) -> np.ndarray:
    return words if words.ndim == 1 else words[:, 0]


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize(("count", "held"), [(0, 5), (3, 5), (5000, 10_000), (5000, 700), (5000, 1)])
def test_sorted_buckets_in_order_are_all_rows_sorted(count: int, held: int, width: int) -> None:
    words, store = rows(count, width), Buckets(held, width, spread=False)
    for start in range(0, count, 900):
        store.add(words[start : start + 900])
    found = [store.bucket(number) for number in range(256)]
    assert all((first(each) >> np.uint64(56) == place).all() for place, each in enumerate(found))
    together = np.concatenate([each[np.argsort(first(each))] for each in found])
    assert np.array_equal(together, words[np.argsort(first(words))])
    store.close()


@pytest.mark.parametrize("held", [10, 10_000])
def test_a_row_that_comes_twice_is_found_whatever_lies_between(held: int) -> None:
    words = rows(3000, 2)
    for more, repeated in ((words[:0], False), (words[7:8], True), (words[7:8] ^ np.uint64(1), False)):
        store = Buckets(held, 2)
        store.add(words)
        store.add(more)
        assert store.repeated() is repeated
        assert sum(len(each) for each in store.runs()) == 3000 + len(more)
        store.close()


def test_a_full_disk_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(LabelDPError, match="disk is full"):
        Buckets(1, 1).add(np.arange(5, dtype=np.uint64))


def test_no_more_rows_are_held_than_may_be() -> None:
    store, words = Buckets(10, 1), rows(15, 1)
    for start, waiting in ((0, 5), (5, 10), (10, 0)):
        store.add(words[start : start + 5])
        assert sum(map(len, store._waiting)) == waiting
    store.close()


def test_words_that_begin_alike_are_spread_over_buckets() -> None:
    """Small numbers begin with the same byte: by it alone they would be one bucket, of any size."""
    store = Buckets(10, 1)
    store.add(np.arange(2560, dtype=np.uint64) << np.uint64(8))
    assert max(len(store.bucket(number)) for number in range(256)) < 256
    store.close()

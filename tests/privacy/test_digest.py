"""The fingerprint of labelled records: the same in any order and any split, another for any change."""

import numpy as np
import pytest

from labeldp.privacy import LabelDigest, record_words

KEY = bytes(range(32))
LABELS = np.arange(70_000) % 5


def digest(ids: object, labels: np.ndarray, key: bytes = KEY, cuts: tuple[int, ...] = ()) -> str:
    """The digest of records that arrive in parts."""
    result = LabelDigest(key)
    names = record_words(ids, len(labels), key)
    for part in np.split(np.arange(len(labels)), cuts):
        result.update(names[part], labels[part])
    return result.hexdigest()


@pytest.mark.parametrize("cuts", [(), (1,), (32768,), (5, 40_000, 69_999)])
def test_neither_order_nor_split_matters(cuts: tuple[int, ...]) -> None:
    ids, order = np.arange(70_000) * 3, np.random.default_rng(0).permutation(70_000)
    assert digest(ids[order], LABELS[order], cuts=cuts) == digest(ids, LABELS)


@pytest.mark.parametrize("texts", [False, True])
def test_any_change_matters(texts: bool) -> None:
    ids = np.arange(6) if not texts else [f"r{i}" for i in range(6)]
    labels = np.array([0, 1, 2, 0, 1, 2])
    other = [digest(ids, labels), digest(ids, labels[::-1]), digest(ids, labels + 1), digest(ids, labels, bytes(32))]
    other += [digest(ids[:5], labels[:5]), digest(ids[:0], labels[:0]), digest(None, labels + 9)]
    other.append(digest(ids, np.array([0, 1, 2, 0, 1, 1])))
    assert len(set(other)) == len(other)


def test_swapped_labels_matter() -> None:
    assert digest([1, 2], np.array([0, 1])) != digest([1, 2], np.array([1, 0]))


def test_repeated_records_do_not_cancel() -> None:
    assert digest([1, 1], np.array([3, 3])) != digest([2, 2], np.array([3, 3]))
    assert digest([1, 1], np.array([3, 3])) != digest([1], np.array([3]))


def test_no_repr_shows_it() -> None:
    assert repr(LabelDigest(KEY)) == "LabelDigest(<secret>)"

"""Compact cells: many, small, the same to the bit, and of features alone."""

import numpy as np
import pytest

from labeldp.learners import CompactPartition, MedianPartition
from labeldp.learners.cells.clusters import members
from labeldp.privacy import InputError


def spread(table: np.ndarray, keys: np.ndarray) -> float:
    """The mean square distance of records from the middle of their cell."""
    sizes = np.maximum(np.bincount(keys), 1)
    middles = np.column_stack([np.bincount(keys, column) / sizes for column in table.T])
    return float(((table - middles[keys]) ** 2).sum(axis=1).mean())


def test_records_by_key_by_hand() -> None:
    assert [rows.tolist() for rows in members(np.array([2, 0, 2, 0]), 4)] == [[1, 3], [], [0, 2], []]


def test_clusters_far_apart_are_cells() -> None:
    rng = np.random.default_rng(0)
    middles = rng.permutation(np.repeat(np.arange(4), 50))
    table = np.column_stack([10.0 * (middles % 2), 10.0 * (middles // 2)]) + 0.1 * rng.random((200, 2))
    keys = CompactPartition(4).fit(table).transform(table)
    assert len({(a, b) for a, b in zip(keys, middles, strict=True)}) <= 6  # k-means from a random start may split one


def test_cells_are_more_compact_than_those_of_a_tree() -> None:
    table = np.random.default_rng(0).random((6000, 6))
    compact, long = (kind(600).fit(table).transform(table) for kind in (CompactPartition, MedianPartition))
    assert spread(table, compact) < 0.85 * spread(table, long)


def test_the_same_features_give_the_same_cells_and_units_do_not_matter() -> None:
    table = np.random.default_rng(0).normal(size=(5000, 3))
    one, two = CompactPartition(300).fit(table), CompactPartition(300).fit(table * [1, 1e6, 1e-3])
    assert np.array_equal(one.transform(table), two.transform(table * [1, 1e6, 1e-3]))
    assert one.size_ <= 310
    assert np.array_equal(one.transform(table[::-1]), one.transform(table)[::-1])
    assert one.centers(one.transform(table[:5])).shape == (5, 3)


def test_gaps_repeated_and_constant_features() -> None:
    table = np.column_stack([np.repeat([1.0, 2.0, np.nan], 40), np.ones(120)])
    partition = CompactPartition(50).fit(table)
    assert partition.size_ == 3  # the gap counts as the median, which no record has
    assert CompactPartition(5).fit(np.ones((9, 2))).size_ == 1
    assert CompactPartition(1).fit([[1.0]]).transform([[7.0]]).tolist() == [0]


@pytest.mark.parametrize("cells", [0, 6, 1.5, True])
def test_what_is_refused(cells: object) -> None:
    with pytest.raises(InputError, match="cells must be an integer from 1 to the number of records"):
        CompactPartition(cells).fit(np.zeros((5, 2)))
    with pytest.raises(InputError, match="features must be finite"):
        CompactPartition(2).fit([[np.inf], [0.0]])

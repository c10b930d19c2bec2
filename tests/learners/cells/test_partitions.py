"""Partitions: cells that are known by hand, nothing but features behind them, and what they refuse."""

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesRegressor, RandomTreesEmbedding
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import labeldp as ldp
from labeldp.learners import CubePartition, KMeansPartition, MedianPartition, TreePartition
from labeldp.learners.cells.local import FeatureScale, NonEmptyCells, numbered
from labeldp.privacy import InputError

RNG = np.random.default_rng

ALL: list[Any] = [
    CubePartition(0.5),
    CubePartition(0.5, bounds=(-6, 6)),
    MedianPartition(16),
    KMeansPartition(16),
    TreePartition(DecisionTreeRegressor(max_leaf_nodes=16)),
    TreePartition(RandomTreesEmbedding(5, max_depth=3, random_state=0)),
    TreePartition(ExtraTreesRegressor(3, max_leaf_nodes=8, random_state=0)),
]


def table(records: int = 400, columns: int = 3, seed: int = 0) -> np.ndarray:
    return np.clip(RNG(seed).normal(size=(records, columns)), -5, 5)


@pytest.mark.parametrize("partition", ALL, ids=str)
def test_a_partition_is_a_scikit_learn_object_with_keys(partition: Any) -> None:
    features = table()
    fitted = clone(partition).fit(features)
    keys = fitted.transform(features)
    assert keys.dtype == np.int64 and len(keys) == len(features)
    assert keys.min() >= 0 and keys.max() < fitted.size_
    assert np.array_equal(clone(partition).fit(features).transform(features), keys)
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).transform(features), keys)
    assert fitted.centers(np.unique(keys)).shape == (len(np.unique(keys)), 3)
    assert str(partition).startswith(type(partition).__name__ + "(")


@pytest.mark.parametrize("partition", ALL, ids=str)
def test_a_constant_feature_changes_nothing(partition: Any) -> None:
    features = table()
    wider = np.column_stack([features, np.full(400, 3.0)])
    assert len(np.unique(clone(partition).fit(wider).transform(wider))) > 1
    flat = np.full((50, 2), 1.5)
    one = clone(partition).set_params(cells=8) if hasattr(partition, "cells") else clone(partition)
    if not isinstance(partition, KMeansPartition):  # which says that there are fewer points than clusters
        keys = one.fit(flat).transform(flat)
        assert len(np.unique(keys.reshape(50, -1), axis=0)) == 1


@pytest.mark.parametrize("partition", ALL, ids=str)
def test_infinite_features_are_refused(partition: Any) -> None:
    features = table()
    features[3, 1] = np.inf
    with pytest.raises(InputError, match="features must be finite"):
        clone(partition).fit(features)
    for huge in (1e39, -1e300):
        features[3, 1] = huge
        with pytest.raises(InputError, match=r"features must be finite, and no larger than 3\.4e\+38"):
            clone(partition).fit(features)
    with pytest.raises(InputError, match="features must be a table of numbers"):
        clone(partition).fit(features[:, 0])
    with pytest.raises(InputError, match="features must be numbers"):
        clone(partition).fit(np.array([["a", "b"]]))
    with pytest.raises(InputError, match="features must have 3 columns"):
        clone(partition).fit(table()).transform(table(5, 2))


def test_cubes_by_hand() -> None:
    """Coordinates are floored; the last feature is the fastest."""
    features = np.array([[0.0, 0.5], [0.1, 1.2], [0.9, 0.5], [2.4, 1.2]])
    fitted = CubePartition(0.5).fit(features)
    assert fitted.size_ == 5 * 2
    assert fitted.transform(features).tolist() == [0, 1, 2, 9]
    assert fitted.centers(np.array([0, 9])).tolist() == [[0.25, 0.75], [2.25, 1.25]]
    assert fitted.transform([[-0.1, 0.6], [0.1, 1.6]]).tolist() == [-1, -1]


def test_a_side_for_each_feature() -> None:
    features = np.array([[0.0, 0.0], [1.0, 100.0]])
    fitted = CubePartition((1.0, 50.0), bounds=[(0, 2), (0, 100)]).fit(features)
    assert fitted.size_ == 4
    assert fitted.transform(features).tolist() == [0, 3]
    assert fitted.grid(2).cells == 4


def test_cubes_are_those_of_the_fixed_grid() -> None:
    features = RNG(0).uniform(-1, 1, (500, 3))
    partition = CubePartition(0.3, bounds=(-1, 1))
    assert np.array_equal(partition.fit(features).transform(features), partition.grid(3).index(features))


def test_cubes_refuse_what_they_cannot_take() -> None:
    features = table(columns=40)
    with pytest.raises(
        InputError, match=r"side is too small for 40 features: 2\*\*\d+ cubes, .* no more than \d+ feat"
    ):
        CubePartition(0.1).fit(features)
    with pytest.raises(InputError, match="bounds must hold all features"):
        CubePartition(0.1, bounds=(-1, 1)).fit(table())
    with pytest.raises(InputError, match="bounds must be"):
        CubePartition(0.1, bounds=(1, -1)).fit(table())
    for side in (0.0, -1, np.nan, "a", (1.0, 2.0)):
        with pytest.raises(InputError, match="side must be a positive length"):
            CubePartition(side).fit(table())
    gap = table()
    gap[0, 0] = np.nan
    with pytest.raises(InputError, match="fill in the gaps first"):
        CubePartition(0.5).fit(gap)
    with pytest.raises(InputError, match="bounds must be given"):
        CubePartition(0.5).grid(3)


def test_what_too_many_cubes_would_need_is_enough() -> None:
    features = table(columns=40)
    with pytest.raises(InputError) as caught:
        CubePartition(0.1).fit(features)
    words = str(caught.value).split()
    factor, columns = float(words[words.index("times") - 1]), int(words[words.index("features", 10) - 1])
    assert CubePartition(0.1 * factor * 1.01).fit(features).size_ > 2**35
    assert CubePartition(0.1).fit(features[:, : columns - 1]).size_ < 2**62


@pytest.mark.parametrize("cells", [1, 7, 16, 100])
def test_median_cells_have_equal_counts(cells: int) -> None:
    features = table(1000)
    fitted = MedianPartition(cells).fit(features)
    sizes = np.bincount(fitted.transform(features))
    assert len(sizes) == fitted.size_ == cells
    assert sizes.max() <= sizes.min() + 7
    if cells == 16:
        assert set(sizes.tolist()) <= {62, 63}


def test_median_cells_by_hand() -> None:
    features = np.array([[0.0, 5.0], [1.0, 5.0], [10.0, 5.0], [11.0, 5.0]])
    fitted = MedianPartition(2).fit(features)
    assert fitted.transform(features).tolist() == [0, 0, 1, 1]
    assert fitted.transform([[5.4, 0.0], [5.6, 9.0]]).tolist() == [0, 1]
    assert fitted.centers(np.array([1])).tolist() == [[10.5, 5.0]]


def test_median_cells_cut_repeated_values_where_they_end() -> None:
    features = np.array([[0.0]] * 7 + [[1.0]] * 2 + [[2.0]])
    fitted = MedianPartition(10).fit(features)
    assert fitted.size_ == 3
    assert len(np.unique(fitted.transform(features))) == 3


def test_neighboring_floats_are_told_apart() -> None:
    for kind in (np.float32, np.float64):
        features = np.array([[1.0], [np.nextafter(kind(1), kind(2))]], dtype=kind)
        assert MedianPartition(2).fit(features).transform(features).tolist() == [0, 1]


def test_units_of_a_feature_do_not_matter_to_median_cells() -> None:
    features = table()
    scaled = features * [1.0, 2.0**20, 2.0**-20]
    first, second = (MedianPartition(32).fit(each).transform(each) for each in (features, scaled))
    assert np.array_equal(first, second)


def test_gaps_count_as_the_median() -> None:
    features = table()
    features[0] = np.nan
    fitted = MedianPartition(16).fit(features)
    assert fitted.transform(features)[0] == fitted.transform([np.nanmedian(features, axis=0)])[0]
    assert KMeansPartition(4).fit(features).transform(features).shape == (400,)


def test_more_cells_than_records_are_refused() -> None:
    for partition in (MedianPartition(401), KMeansPartition(0), MedianPartition(True), KMeansPartition(2.5)):
        with pytest.raises(InputError, match="cells must be an integer from 1 to the number of records"):
            partition.fit(table())


def test_clusters_do_not_depend_on_units() -> None:
    features = np.concatenate([table(50, seed=1), table(50, seed=2) + 20])
    keys = KMeansPartition(2).fit(features * [1, 1e3, 1e-3]).transform(features * [1, 1e3, 1e-3])
    assert len(set(keys[:50])) == len(set(keys[50:])) == 1 and keys[0] != keys[50]


def test_a_forest_gives_each_tree_its_own_keys() -> None:
    features = table()
    keys = TreePartition(RandomTreesEmbedding(5, max_depth=3, random_state=0)).fit(features).transform(features)
    assert keys.shape == (400, 5)
    assert len(np.unique(keys)) == sum(len(np.unique(column)) for column in keys.T)


def test_trees_that_saw_labels_must_say_so() -> None:
    features = table()
    grown = DecisionTreeRegressor(max_leaf_nodes=8).fit(features, features[:, 0])
    with pytest.raises(InputError, match="estimator was fitted: say to what"):
        TreePartition(grown).fit(features)
    public = TreePartition(ldp.Public(grown, why="grown to predict a public column")).fit(features)
    assert np.array_equal(np.unique(public.transform(features)), np.unique(grown.apply(features)))
    bare = public.without_source()
    assert bare.estimator is None and np.array_equal(bare.transform(features), public.transform(features))
    with pytest.raises(InputError, match="estimator must be an unfitted tree or forest that needs no classes"):
        TreePartition(DecisionTreeClassifier()).fit(features)
    with pytest.raises(InputError, match="estimator must be a scikit-learn tree"):
        TreePartition(ldp.Public(3, why="no tree")).fit(features)


def test_keys_are_numbered_alike_by_counting_and_by_sorting() -> None:
    keys = RNG(0).integers(0, 50, 300) * 7
    found, sizes, cells = numbered(keys, 350)
    for mine, theirs in zip(numbered(keys, 2**62), (found, sizes, cells), strict=True):
        assert np.array_equal(mine, theirs)
    assert np.array_equal(found[cells], keys) and sizes.sum() == 300


def test_an_empty_cell_is_answered_by_the_nearest_one() -> None:
    features = np.array([[0.5, 0.5], [9.5, 0.5], [0.5, 9.5]])
    fitted, scale = CubePartition(1.0).fit(features), FeatureScale.of(features)
    cells, own = NonEmptyCells.of(fitted, fitted.transform(features), scale)
    asked = np.array([[8.2, 1.0], [0.1, 8.0], [1.5, 1.5], [-100.0, 0.0], [0.9, 0.9]])
    found = cells.locate(fitted.transform(asked), asked, scale)
    assert found.tolist() == [own[1], own[2], own[0], own[0], own[0]]

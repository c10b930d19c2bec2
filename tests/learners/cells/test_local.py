"""Cells from released labels: equations by hand, oracles without noise, certificates, refusals."""

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomTreesEmbedding
from sklearn.exceptions import NotFittedError
from sklearn.tree import DecisionTreeRegressor

import labeldp as ldp
from labeldp.learners import CellClassifier, CellRegressor, CubePartition, MedianPartition, TreePartition
from labeldp.learners.cells.local import likeliest_shares
from labeldp.learners.evidence import projected
from labeldp.privacy import InputError, NotInvertibleError
from learners.data import answered, blobs, with_prior

NAMES = ldp.Classes(("a", "b", "c"))

CUBES = CubePartition(1.0, bounds=(0, 3))


def bits(rows: Any, epsilon: float = 1.0) -> ldp.Release[Any]:
    """A release of these bits, as if they had been drawn."""
    rows = np.asarray(rows, dtype=bool)
    labels = np.zeros(len(rows), dtype=int)
    made = answered(np.array(NAMES.names)[labels], NAMES, ldp.UnaryEncoding, epsilon)
    return ldp.Release(np.packbits(rows, axis=1), made.certificate, made.mechanism)


def test_the_class_of_a_cell_has_the_largest_sum_of_bits() -> None:
    """Eq. (12) and (13): S = (1, 2, 1) in the first cube, (2, 0, 2) in the second, where the first class wins."""
    features = [[0.5], [0.2], [0.9], [1.5], [1.5]]
    release = bits([[1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 0, 1]])
    learner = CellClassifier(CUBES).fit(features, release)
    assert learner.predict([[0.1], [1.2]]).tolist() == ["b", "a"]
    flip = 1 / (np.exp(0.5) + 1)
    shares = (np.array([[1, 2, 1], [2, 0, 2]]) / [[3], [2]] - flip) / (1 - 2 * flip)
    assert np.allclose(learner.predict_proba([[0.1], [1.2]]), projected(shares))
    assert learner.predict([[2.9]]).tolist() == ["a"]  # an empty cube, answered by its neighbor


def test_the_number_of_a_cell_is_its_mean_without_the_noise() -> None:
    domain = ldp.Interval(0, 10, grid=11)
    release = answered([0.0, 0, 0, 0], domain, ldp.DiscreteLaplace, 5.0)
    release = ldp.Release(np.array([2, 5, 7, 10], dtype=np.uint8), release.certificate, release.mechanism)
    learner = CellRegressor(CUBES).fit([[0.5], [0.5], [1.5], [1.5]], release)
    outwards = np.exp(-0.5) / (1 - np.exp(-0.5))
    assert np.allclose(learner.predict([[0.0], [1.0]]), [3.5, 8.5 + outwards / 2])
    top = ldp.Release(np.array([2, 5, 10, 10], dtype=np.uint8), release.certificate, release.mechanism)
    assert CellRegressor(CUBES).fit([[0.5], [0.5], [1.5], [1.5]], top).predict([[1.0]]).tolist() == [10.0]


def test_with_hardly_any_noise_they_are_counts_and_means() -> None:
    features, labels = blobs(500, 3)
    release = answered(labels, ldp.Classes(3), ldp.UnaryEncoding, 80.0)
    learner = CellClassifier(MedianPartition(16)).fit(features, release)
    keys = learner.partition_.transform(features)
    counts = np.array([np.bincount(labels[keys == key], minlength=3) for key in range(16)])
    assert np.allclose(learner.predict_proba(features), (counts / counts.sum(axis=1, keepdims=True))[keys])
    numbers = np.clip(features[:, 0] + 5, 0, 10)
    release = answered(numbers, ldp.Interval(0, 10, grid=101), ldp.DiscreteLaplace, 1000.0)
    regressor = CellRegressor(MedianPartition(16)).fit(features, release)
    means = np.array([numbers[keys == key].mean() for key in range(16)])
    assert np.allclose(regressor.predict(features), means[keys], atol=0.03)


def test_a_forest_is_the_mean_of_its_trees() -> None:
    features, labels = blobs(400, 2)
    release = answered(labels, ldp.Classes(2), ldp.UnaryEncoding)
    forest = RandomTreesEmbedding(3, max_depth=3, random_state=0).fit(features)
    public = [ldp.Public(each, why="grown on features") for each in (forest, *forest.estimators_)]
    whole, *parts = (CellClassifier(TreePartition(each)).fit(features, release) for each in public)
    mean = np.mean([part.predict_proba(features) for part in parts], axis=0)
    assert np.allclose(whole.predict_proba(features), mean)


def test_plain_randomized_response_will_do() -> None:
    features, labels = blobs(4000, 3)
    release = answered(labels, ldp.Classes(3), ldp.RandomizedResponse, 2.0)
    learner = CellClassifier(MedianPartition(16)).fit(features, release)
    assert np.mean(learner.predict(features) == labels) > 0.85


def test_without_an_inverse_shares_are_the_likeliest() -> None:
    features, labels = blobs(4000, 3)
    prior = np.tile([0.60, 0.39, 0.01], (4000, 1))
    prior[:2000] = [0.01, 0.39, 0.60]
    release = with_prior(labels, prior, 1.0)
    with pytest.raises(NotInvertibleError):
        ldp.debias(release.mechanism, release.value)
    learner = CellClassifier(MedianPartition(16)).fit(features, release)
    assert np.mean(learner.predict(features) == labels) > 0.75
    same = likeliest_shares(np.array([[0.8, 0.2]] * 3 + [[0.2, 0.8]]), np.zeros(4, int), 1)
    assert np.allclose(same, [[(0.75 - 0.2) / 0.6, 1 - (0.75 - 0.2) / 0.6]], atol=1e-4)


def test_shares_go_to_the_nearest_probabilities() -> None:
    assert np.allclose(projected([[0.5, 0.7], [1.5, -0.5], [0.2, 0.2]]), [[0.4, 0.6], [1, 0], [0.5, 0.5]])
    rows = np.random.default_rng(0).normal(size=(200, 4))
    found = projected(rows)
    assert np.allclose(found.sum(axis=1), 1) and found.min() >= 0
    assert np.array_equal(found.argmax(axis=1), rows.argmax(axis=1))
    others = np.random.default_rng(1).dirichlet(np.ones(4), 500)
    nearest = ((rows[:, None] - others) ** 2).sum(axis=2).min(axis=1)
    assert np.all(((rows - found) ** 2).sum(axis=1) <= nearest + 1e-12)


def test_by_default_released_labels_choose_the_cells() -> None:
    features, labels = blobs(3000, 2)
    release = answered(labels, ldp.Classes(2), ldp.UnaryEncoding, 1.0)
    learner = CellClassifier().fit(features, release)
    assert 1 < len(learner.cells_[0].keys) <= 120
    assert np.mean(learner.predict(features) == labels) > 0.95
    assert (
        CellClassifier()
        .fit(features[:3], answered(labels[:3], ldp.Classes(2), ldp.UnaryEncoding))
        .predict(features)
        .shape
    )


def test_the_certificate_is_that_of_the_release_and_of_the_tree() -> None:
    features, labels = blobs(300, 2)
    release = answered(labels, ldp.Classes(2), ldp.UnaryEncoding, 1.0)
    plain = CellClassifier(MedianPartition(4)).fit(features, release)
    assert plain.certificate_ == release.certificate
    assert plain.certificate_.epsilon() == 1.0
    first = answered(labels, ldp.Classes(2), ldp.RandomizedResponse, 0.5, seed=1)
    tree = first.map(lambda codes: DecisionTreeRegressor(max_leaf_nodes=4).fit(features, codes))
    learner = CellClassifier(TreePartition(tree)).fit(features, release)
    assert learner.certificate_.epsilon() == 1.5
    assert learner.predict(features).shape == (300,)
    again = pickle.loads(pickle.dumps(learner))
    assert np.array_equal(again.predict(features), learner.predict(features))


def test_the_certificate_has_the_condition_of_a_public_tree() -> None:
    features, labels = blobs(300, 2)
    release = answered(labels, ldp.Classes(2), ldp.UnaryEncoding, 1.0)
    tree = DecisionTreeRegressor(max_leaf_nodes=4).fit(features, features[:, 0])
    public = TreePartition(ldp.Public(tree, why="grown to predict a column of the features"))
    found = CellClassifier(public).fit(features, release).certificate_
    condition = "the cells do not depend on the private labels (grown to predict a column of the features)"
    assert found.assumptions == (*release.certificate.assumptions, condition)
    assert found.entries == release.certificate.entries
    with pytest.raises(InputError, match="estimator was fitted: say to what"):
        CellClassifier(TreePartition(tree)).fit(features, release)


def test_they_follow_scikit_learn() -> None:
    features, labels = blobs(300, 2)
    release = answered(labels, ldp.Classes(2), ldp.UnaryEncoding, 1.0)
    learner = CellClassifier(MedianPartition(4))
    assert repr(learner) == "CellClassifier(partition=MedianPartition(cells=4))"
    assert clone(learner).get_params()["partition__cells"] == 4
    learner.fit(features, release)
    assert not hasattr(learner.partition, "size_")  # what was given stays unfitted
    assert learner.n_features_in_ == 2


def test_what_is_no_release_of_labels_is_refused() -> None:
    features, labels = blobs(300, 2)
    release = answered(labels, ldp.Classes(2), ldp.UnaryEncoding, 1.0)
    for bad in (labels, release.map(lambda value: value), None):
        with pytest.raises(
            InputError, match=r"release must be what Curator\.release returned for a mechanism on Classes"
        ):
            CellClassifier(MedianPartition(4)).fit(features, bad)
    with pytest.raises(InputError, match="for a mechanism on Interval"):
        CellRegressor(MedianPartition(4)).fit(features, release)
    with pytest.raises(InputError, match="features must have one row for each record"):
        CellClassifier(MedianPartition(4)).fit(features[1:], release)
    with pytest.raises(InputError, match="partition must be a rule"):
        CellClassifier(4).fit(features, release)
    with pytest.raises(NotFittedError):
        CellClassifier().predict(features)

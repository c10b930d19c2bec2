"""Neighbors from released labels: scikit-learn as the oracle, equations by hand, rules, refusals."""

import math
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

import labeldp as ldp
from labeldp.learners import (
    NeighborsClassifier,
    NeighborsRegressor,
    clipping_radius,
    cube_side,
    neighbor_count,
    neighbors,
    tune,
)
from labeldp.privacy import InputError, Trust
from learners.data import answered, blobs, with_prior

RANGE = ldp.Interval(0, 10, grid=1001)


def numbers(records: int = 500) -> tuple[np.ndarray, np.ndarray]:
    features = np.random.default_rng(0).uniform(0, 10, (records, 2))
    return features, np.clip(features[:, 0], 0, 10)


@pytest.mark.parametrize("metric", ["minkowski", "manhattan", "cosine", "chebyshev"])
def test_the_mean_of_the_nearest_is_that_of_scikit_learn(metric: str) -> None:
    features, labels = numbers()
    release = answered(labels, RANGE, ldp.DiscreteLaplace, 2.0)
    values = ldp.debias(release.mechanism, release.value).values
    asked = features[:50] + 0.3
    oracle = KNeighborsRegressor(30, metric=metric).fit(features, values).predict(asked)
    learner = NeighborsRegressor(30, metric).fit(features, release)
    assert np.allclose(learner.predict(asked), np.clip(oracle, 0, 10))


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = numbers()
    learner = NeighborsRegressor(7).fit(features, answered(labels, RANGE, ldp.DiscreteLaplace, 2.0))
    whole = learner.predict(features)
    monkeypatch.setattr(neighbors, "BLOCK_CELLS", 20)
    assert np.array_equal(learner.predict(features), whole)


def test_without_noise_classes_are_those_of_scikit_learn() -> None:
    features, labels = blobs(400, 3)
    release = answered(labels, ldp.Classes(3), ldp.UnaryEncoding, 80.0)
    oracle = KNeighborsClassifier(15).fit(features, labels)
    learner = NeighborsClassifier(15).fit(features, release)
    assert np.allclose(learner.predict_proba(features), oracle.predict_proba(features))
    assert np.array_equal(learner.predict(features), oracle.predict(features))


def test_in_many_dimensions_the_nearest_are_the_same() -> None:
    """Brute force from eight features on, the trees of scikit-learn below, and what the user names in any case."""
    features, (_, labels) = np.random.default_rng(3).normal(size=(500, 9)), numbers()
    release = answered(labels, RANGE, ldp.DiscreteLaplace)
    found = NeighborsRegressor(20).fit(features, release)
    tree = NeighborsRegressor(20, algorithm="kd_tree").fit(features, release)
    assert np.allclose(found.predict(features[:50]), tree.predict(features[:50]))
    assert (found.search_.algorithm, tree.search_.algorithm) == ("brute", "kd_tree")
    assert NeighborsRegressor(20).fit(features[:, :7], release).search_.algorithm == "auto"
    assert NeighborsRegressor(20, metric="manhattan").fit(features, release).search_.algorithm == "auto"


def test_two_neighbors_by_hand() -> None:
    """Eq. (20): the mean of the two nearest noisy numbers."""
    release = answered([0.0] * 4, RANGE, ldp.DiscreteLaplace, 5.0)
    fixed = ldp.Release(np.array([100, 300, 500, 700], dtype=np.uint16), release.certificate, release.mechanism)
    learner = NeighborsRegressor(2).fit([[0.0], [1.0], [2.0], [10.0]], fixed)
    assert np.allclose(learner.predict([[0.1], [1.6], [50.0]]), [2.0, 4.0, 6.0])


def test_names_are_predicted_and_learners_are_stored() -> None:
    features, labels = blobs(2000)
    names = np.array(["no", "yes"])[labels]
    release = answered(names, ldp.Classes(("no", "yes")), ldp.UnaryEncoding, 2.0)
    learner = NeighborsClassifier().fit(features, release)
    assert np.mean(learner.predict(features) == names) > 0.9
    assert learner.neighbors_ == neighbor_count(2000, 2, epsilon=2, classes=2)
    assert learner.certificate_ == release.certificate
    again = pickle.loads(pickle.dumps(learner))
    assert np.array_equal(again.predict(features), learner.predict(features))
    assert clone(NeighborsClassifier(3)).get_params()["neighbors"] == 3
    assert repr(NeighborsRegressor(3)) == "NeighborsRegressor(neighbors=3)"


def test_the_constant_is_the_users() -> None:
    features, labels = numbers()
    release = answered(labels, RANGE, ldp.DiscreteLaplace)
    learner = NeighborsRegressor(constant=3.0).fit(features, release)
    assert learner.neighbors_ == neighbor_count(500, 2, epsilon=1, constant=3.0)
    heavy = NeighborsRegressor(moments=3).fit(features, release)
    assert heavy.neighbors_ == neighbor_count(500, 2, epsilon=1, moments=3)


def test_bad_input_is_refused() -> None:
    features, labels = numbers()
    release = answered(labels, RANGE, ldp.DiscreteLaplace)
    for count in (501, 0, 2.5, True):
        with pytest.raises(InputError, match="neighbors must be an integer from 1 to the number of records"):
            NeighborsRegressor(count).fit(features, release)
    for bad in (np.nan, np.inf):
        other = features.copy()
        other[0, 0] = bad
        with pytest.raises(InputError, match="features must be finite"):
            NeighborsRegressor(5).fit(other, release)
    with pytest.raises(InputError, match="features must have 2 columns"):
        NeighborsRegressor(5).fit(features, release).predict([[1.0]])
    with pytest.raises(InputError, match="features must have one row for each record"):
        NeighborsRegressor(5).fit(features[1:], release)
    with pytest.raises(InputError, match="for a mechanism on Classes"):
        NeighborsClassifier(5).fit(features, release)
    for given in ({"metric": "haversine"}, {"metric": "none"}, {"algorithm": "none"}):
        with pytest.raises(InputError, match="metric and algorithm must be such as NearestNeighbors takes"):
            NeighborsRegressor(5, **given).fit(np.column_stack([features, features]), release)  # type: ignore[arg-type]


def test_constant_features_are_no_problem() -> None:
    release = answered([5.0] * 50, RANGE, ldp.DiscreteLaplace, 50.0)
    assert NeighborsRegressor(10).fit(np.ones((50, 2)), release).predict([[1.0, 1.0]])[0] == pytest.approx(5, abs=1)


def test_k_by_hand() -> None:
    """Theorem 6: N^(2/3) ε^(-2/3) at d = 1; Theorem 2 with k = N h^d has ln K beside ε^-2."""
    assert neighbor_count(1000, 1, epsilon=1) == 100
    assert neighbor_count(8000, 1, epsilon=0.125) == 1600
    assert neighbor_count(8000, 1, epsilon=8) == 400
    assert neighbor_count(1000, 1, epsilon=1, classes=8) == math.ceil(100 * math.log(8) ** (1 / 3))
    assert neighbor_count(10, 1, epsilon=0.01) == 10
    assert neighbor_count(1000, 1, epsilon=1, constant=0.5) == 50


def test_k_with_heavy_tails_tends_to_the_bounded_one() -> None:
    """Theorem 10 corrected: ε^-2 (N ε²)^(2pβ/(2pβ+d(p-1)))."""
    expected = 0.25**-2 * (10_000 * 0.25**2) ** (4 / 5)
    assert neighbor_count(10_000, 1, epsilon=0.25, moments=2) == math.ceil(expected)
    bounded = neighbor_count(10_000, 1, epsilon=0.25)
    assert abs(neighbor_count(10_000, 1, epsilon=0.25, moments=1e6) - bounded) <= 1
    assert neighbor_count(10_000, 1, epsilon=0.25, moments=math.inf) == bounded


def test_sides_by_hand() -> None:
    """Theorems 2, 4, 8 and 12, the last with the exponent of eq. (205)."""
    local = cube_side(1000, 1, epsilon=1, trust=Trust.LOCAL)
    assert local == pytest.approx(0.1)
    assert cube_side(1000, 1, epsilon=1, trust=Trust.LOCAL, classes=8) == pytest.approx((math.log(8) / 1000) ** (1 / 3))
    central = cube_side(1000, 1, epsilon=0.1, trust=Trust.CENTRAL)
    assert central == pytest.approx(0.1 + 100 ** (-1 / 2))
    classes = cube_side(1000, 1, epsilon=0.1, trust=Trust.CENTRAL, classes=8, constant=2)
    assert classes == pytest.approx(2 * ((math.log(8) / 1000) ** (1 / 3) + (math.log(8) / 100) ** (1 / 2)))
    heavy = cube_side(1000, 1, epsilon=0.1, trust=Trust.CENTRAL, moments=2)
    assert heavy == pytest.approx(0.1 + 100 ** (-1 / 3))
    assert cube_side(1000, 1, epsilon=0.1, trust=Trust.CENTRAL, moments=math.inf) == central


def test_radii_by_hand() -> None:
    """T ~ (kε²)^(1/(2p)) with the corrected k, and (ε N h^d)^(1/p)."""
    found = clipping_radius(10_000, 1, epsilon=0.25, moments=2, trust=Trust.LOCAL)
    assert found == pytest.approx((625 ** (4 / 5)) ** (1 / 4))
    side = cube_side(1000, 1, epsilon=0.1, trust=Trust.CENTRAL, moments=2)
    found = clipping_radius(1000, 1, epsilon=0.1, moments=2, trust=Trust.CENTRAL, constant=5)
    assert found == pytest.approx(5 * (100 * side) ** (1 / 2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"beta": 1.5}, "beta must lie in"),
        ({"moments": 1.5}, "moments must be at least 2"),
        ({"moments": "3"}, "moments must be at least 2"),
        ({"beta": "1"}, r"beta must lie in \(0, 1\]"),
        ({"moments": 2, "classes": 2}, "moments must be left out for classes"),
        ({"classes": 1}, "classes must be an integer, at least 2"),
        ({"constant": 0}, "constant must be a positive finite number"),
        ({"epsilon": 0}, "epsilon"),
        ({"records": 0}, "records must be an integer, at least 1"),
    ],
)
def test_rules_refuse_what_makes_no_sense(arguments: dict[str, Any], message: str) -> None:
    given = {"records": 100, "dimension": 2, "epsilon": 1.0, **arguments}
    with pytest.raises(InputError, match=message):
        neighbor_count(given.pop("records"), given.pop("dimension"), **given)
    with pytest.raises(InputError, match="trust must be"):
        cube_side(100, 2, epsilon=1, trust=Trust.NONE)


def test_released_labels_choose_the_number_of_neighbors() -> None:
    features, labels = numbers(1500)
    release = answered(labels, RANGE, ldp.DiscreteLaplace, 4.0)
    tuned = tune([NeighborsRegressor(k) for k in (1, 60, 1000)], features, release)
    assert tuned.learner.neighbors_ == 60 and len(tuned.scores) == 3
    assert tuned.learner.certificate_.epsilon() == 4.0
    noise = np.mean((ldp.debias(release.mechanism, release.value).values - labels) ** 2)
    truth = np.mean(
        (NeighborsRegressor(60).fit(features[::2], _part(release, 0)).predict(features[1::2]) - labels[1::2]) ** 2
    )
    assert -tuned.scores[1] - noise == pytest.approx(truth, abs=0.2 * noise)


def _part(release: Any, start: int) -> Any:
    return ldp.Release(release.value[start::2], release.certificate, release.mechanism)


def test_the_score_of_classes_is_a_debiased_accuracy() -> None:
    features, labels = blobs(2000)
    release = answered(labels, ldp.Classes(2), ldp.UnaryEncoding, 2.0)
    tuned = tune([NeighborsClassifier(1), NeighborsClassifier(100)], features, release, folds=2)
    assert tuned.learner.neighbors_ == 100
    assert tuned.scores[1] == pytest.approx(np.mean(tuned.learner.predict(features) == labels), abs=0.05)


def test_what_cannot_be_tuned_is_refused() -> None:
    features, labels = blobs(200)
    release = with_prior(labels, np.full((200, 2), 0.5))
    with pytest.raises(InputError, match="release must answer all records by one law"):
        tune([NeighborsClassifier(3)], features, release)
    with pytest.raises(InputError, match="learners must hold at least one learner"):
        tune([], features, answered(labels, ldp.Classes(2), ldp.UnaryEncoding))

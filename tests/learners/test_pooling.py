"""Pools of opinions: the weights that released labels ask for, and geometric means."""

import numpy as np
from sklearn.linear_model import LogisticRegression

import labeldp as ldp
from labeldp.learners import Evidence, GeometricMean
from labeldp.learners.classifiers import pooled
from labeldp.learners.evidence import normalized

RNG = np.random.default_rng(0)
TRUTH = normalized(np.exp(RNG.normal(size=(20_000, 3))))
LABELS = (RNG.random((20_000, 1)) > np.cumsum(TRUTH, axis=1)[:, :-1]).sum(axis=1)


def evidence(epsilon: float = 1.0) -> Evidence:
    curator = ldp.Curator(LABELS, domain=ldp.Classes(3), budget=ldp.Budget(epsilon))
    mechanism = ldp.RandomizedResponse(domain=curator.domain, epsilon=epsilon)
    return Evidence.of(curator.release(mechanism, rng=np.random.default_rng(1)))


def test_what_tells_nothing_gets_no_weight() -> None:
    noise = normalized(np.exp(np.random.default_rng(2).normal(size=TRUTH.shape)))
    assert np.abs(pooled([TRUTH, noise], evidence(4.0)) - TRUTH).max() < 0.05


def test_a_pool_explains_released_labels_at_least_as_well_as_each_opinion() -> None:
    tilt = np.exp(np.random.default_rng(3).normal(size=(2, *TRUTH.shape)))
    opinions = [normalized(TRUTH * each) for each in tilt]
    found = evidence()
    together = found.score(pooled(opinions, found))
    assert together > max(map(found.score, opinions))


def test_weights_are_of_the_likeliest_pool() -> None:
    """Two opinions that see half of the logs each, by hand: both weights are 1."""
    logs = np.log(TRUTH)
    halves = [normalized(np.exp(logs * mask)) for mask in (np.array([1, 0, 0]), np.array([0, 1, 1]))]
    assert np.abs(pooled(halves, evidence(4.0)) - TRUTH).max() < 0.08


def test_a_geometric_mean_by_hand() -> None:
    features, labels = np.arange(12.0)[:, None], np.arange(12) // 4
    parts = [LogisticRegression(C=c).fit(features, labels) for c in (0.1, 1.0)]
    product = np.sqrt(parts[0].predict_proba(features) * parts[1].predict_proba(features))
    mean = GeometricMean(parts, 3)
    assert np.allclose(mean.predict_proba(features), product / product.sum(axis=1, keepdims=True), atol=1e-4)
    assert np.array_equal(mean.predict(features), mean.predict_proba(features).argmax(axis=1))
    assert np.array_equal(mean.classes_, np.arange(3))


def test_parts_may_have_met_some_classes_only() -> None:
    features = np.arange(12.0)[:, None]
    parts = [LogisticRegression().fit(features, np.arange(12) // 6 * 2) for _ in range(2)]
    found = GeometricMean(parts, 3).predict_proba(features)
    assert found.shape == (12, 3) and np.all(found[:, 1] < 1e-4)

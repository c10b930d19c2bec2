import numpy as np
import pytest
from sklearn.linear_model import Ridge

from labeldp.learners import KernelClassifier
from labeldp.learners.classifiers import best_temperature, ridge
from learners.data import blobs


def test_ridge_is_scikit_learns_and_leaving_one_out_is_exact() -> None:
    rng = np.random.default_rng(0)
    design, targets = rng.normal(size=(30, 4)), rng.normal(size=(30, 2))
    design, targets = design - design.mean(axis=0), targets - targets.mean(axis=0)
    fit = ridge(design, targets)
    expected = Ridge(alpha=fit.penalty).fit(design, targets)
    np.testing.assert_allclose(fit.coefficients, expected.coef_.T, atol=1e-8)
    for left_out in range(3):
        others = np.arange(30) != left_out
        without = Ridge(alpha=fit.penalty).fit(design[others], targets[others])
        np.testing.assert_allclose(fit.held_out[left_out], without.predict(design[[left_out]])[0], atol=1e-8)


def test_the_temperature_restores_confidence() -> None:
    assert best_temperature(np.array([[0.6, 0.4]] * 10), np.tile([1.0, 0.0], (10, 1))) == pytest.approx(0.25)
    assert best_temperature(np.array([[0.9, 0.1]] * 10), np.tile([0.6, 0.4], (10, 1))) == pytest.approx(2.0)


def test_soft_labels_that_are_certain_are_labels() -> None:
    features, labels = blobs(200, 3)
    by_labels = KernelClassifier(components=40).fit(features, labels)
    by_weights = KernelClassifier(components=40).fit_soft(features, np.eye(3)[labels])
    np.testing.assert_allclose(by_labels.predict_proba(features), by_weights.predict_proba(features))


def test_unknown_categories_and_gaps_are_taken() -> None:
    features, labels = blobs(200)
    table = np.column_stack([features, labels])
    model = KernelClassifier(components=40, categorical=[False, False, True]).fit(table, labels)
    strange = table.copy()
    strange[:, 2], strange[::2, 0] = 7.0, np.nan
    assert np.all(np.isfinite(model.predict_proba(strange)))
    assert np.mean(model.predict(table) == labels) > 0.99

"""Boosted trees of class weights."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from labeldp.learners import SoftTrees
from labeldp.learners.training import fit_soft

TREES = HistGradientBoostingClassifier(max_iter=60, early_stopping=False, random_state=0)


def chances(features: np.ndarray, classes: int) -> np.ndarray:
    scores = np.column_stack([np.sin((j + 1) * features[:, 0]) + features[:, 1] * j / 2 for j in range(classes)])
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("classes", [2, 3])
def test_weights_are_learned_as_from_copies_of_the_records(classes: int) -> None:
    features = np.random.default_rng(0).normal(size=(4000, 2))
    soft = chances(features, classes)
    fresh = np.random.default_rng(1).normal(size=(2000, 2))
    copies, own = (fit_soft(each, features, soft, 0).predict_proba(fresh) for each in (TREES, SoftTrees(TREES)))
    errors = [float(np.abs(found - chances(fresh, classes)).mean()) for found in (copies, own)]
    assert np.allclose(own.sum(axis=1), 1) and own.shape == (2000, classes)
    assert errors[1] < 0.025 and errors[1] < 1.2 * errors[0]


def test_a_class_of_no_weight_stays_unlikely() -> None:
    features = np.random.default_rng(0).normal(size=(500, 2))
    soft = np.column_stack([chances(features, 2), np.zeros(500)])
    found = SoftTrees(TREES).fit_soft(features, soft).predict_proba(features)
    assert found.shape == (500, 3) and found[:, 2].max() < 1e-3


def test_settings_are_those_of_the_trees_and_frames_stay_frames() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"job": pd.Categorical(rng.choice(["smith", "baker"], 300)), "age": rng.normal(size=300)})
    soft = np.where((table.job == "smith").to_numpy()[:, None], [0.9, 0.1], [0.2, 0.8])
    trees = HistGradientBoostingClassifier(max_iter=150, max_leaf_nodes=3, min_samples_leaf=5, early_stopping=True)
    model = SoftTrees(trees).fit_soft(table, soft)
    (part,) = model.parts_
    assert (part.max_iter, part.max_leaf_nodes, part.early_stopping) == (150, 3, False)
    assert np.allclose(model.predict_proba(table), soft, atol=0.02)
    assert np.array_equal(model.predict(table), soft.argmax(axis=1))

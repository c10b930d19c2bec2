"""Mixtures of linear models and boosted trees: what they learn from answers."""

from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

import labeldp as ldp
from labeldp.features import CenteredColumns
from labeldp.learners import Evidence, MixtureClassifier, first_response
from labeldp.learners.mixture import (
    SETTINGS,
    Head,
    _cross_fitted,
    _heads,
    _planes,
    boosted,
    mixing_weights,
    pool_powers,
    pooled,
    views,
)
from learners.data import blobs

SIMULATED = np.random.default_rng


def answered(labels: np.ndarray, classes: int, epsilon: float, seed: int = 0) -> Evidence:
    domain = ldp.Classes(classes)
    mechanism = first_response(domain, epsilon)
    return Evidence.made_by(mechanism, mechanism.randomize(labels.astype(domain.dtype), rng=SIMULATED(seed)))


def squares(records: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two classes that no linear model tells apart."""
    features = SIMULATED(seed).uniform(-1, 1, size=(records, 3))
    return features, (features[:, 0] * features[:, 1] > 0).astype(int)


@pytest.mark.parametrize("classes", [2, 12])
def test_answers_of_any_mechanism_are_learned_from(classes: int) -> None:
    """Twelve classes are answered by sets, and their trees are split by random sums."""
    features, labels = blobs(900, classes, distance=5.0)
    model = MixtureClassifier().fit_released(features, answered(labels, classes, 3.0))
    assert np.mean(model.predict(features) == labels) > 0.75
    assert np.allclose(model.predict_proba(features).sum(axis=1), 1)


def test_trees_learn_what_linear_models_cannot() -> None:
    features, labels = squares(2000)
    evidence = answered(labels, 2, 2.0)
    model = MixtureClassifier().fit_released(features, evidence)
    others, truth = squares(1000, seed=1)
    assert np.mean(model.predict(others) == truth) > 0.9
    assert model.trees_[0]


def test_labels_without_signal_leave_trees_out() -> None:
    features, _ = squares(900)
    labels = SIMULATED(2).integers(0, 2, 900)
    model = MixtureClassifier().fit_released(features, answered(labels, 2, 0.5))
    assert np.abs(model.predict_proba(features) - 0.5).max() < 0.2


def test_held_out_probabilities_do_not_see_the_answer_of_their_record() -> None:
    """Frequencies of classes and weights of the mixture are learned from all answers; they move by little."""
    features, labels = squares(300)
    codes = labels.copy()
    codes[:5] = 1 - codes[:5]
    one, other = (
        MixtureClassifier().cross_fit(features, Evidence(codes, np.eye(2)[codes], None))[0][:5]
        for codes in (labels, codes)
    )
    assert np.abs(one - other).max() < 0.3
    assert np.array_equal(one.argmax(axis=1), labels[:5])


def test_the_model_of_a_fold_predicts_other_records() -> None:
    features, labels = blobs(600, 3, distance=4.0)
    probabilities, (fold, rows) = MixtureClassifier().cross_fit(features, answered(labels, 3, 2.0))
    assert 190 <= len(rows) <= 210
    assert np.mean(fold.predict(features[rows]) == labels[rows]) > 0.85
    assert np.mean(probabilities.argmax(axis=1) == labels) > 0.85


def test_a_step_of_boosting_is_the_sum_of_slopes_over_squares() -> None:
    table = np.repeat(np.array([[0], [1]], dtype=np.float32), 20, axis=0)
    likelihood = np.repeat(np.array([[0.8, 0.2], [0.3, 0.7]], dtype=np.float32), 20, axis=0)
    every = np.arange(40)
    trees, _ = boosted(table, likelihood, np.zeros((40, 2), np.float32), every, every, 1)
    slopes = likelihood[::20].astype(np.float64) - 0.5
    expected = 0.3 * 20 * slopes / (20 * slopes**2 + 5)
    assert np.allclose(trees.scores(table[::20], np.zeros((2, 2))), expected, atol=1e-6)


def test_weights_of_a_mixture_are_the_likeliest_ones() -> None:
    rng = SIMULATED(0)
    truth = softmax(rng.normal(size=(4000, 3)), axis=1)
    labels = (rng.random((4000, 1)) > np.cumsum(truth, axis=1)).sum(axis=1)
    likelihood = np.eye(3)[labels]
    uniform, wrong = np.full((4000, 3), 1 / 3), truth[:, ::-1]
    weights = mixing_weights([truth, uniform, wrong], likelihood, np.array([0.2, 0.4, 0.4]))
    assert weights[0] > 0.8
    powers = pool_powers([truth**2 / (truth**2).sum(axis=1, keepdims=True), uniform], likelihood)
    assert powers[0] == pytest.approx(0.5, abs=0.1)
    assert np.allclose(pooled([truth, uniform], np.array([1.0, 0.7])), truth, atol=1e-6)


def test_a_pool_of_few_answers_is_the_linear_part() -> None:
    """Answers that say nothing move no power, and few of them move it by little."""
    parts = softmax(SIMULATED(0).normal(size=(2, 60, 2)), axis=2)
    assert np.array_equal(pool_powers(list(parts), np.ones((60, 2))), [1, 0])
    likelihood = np.where(SIMULATED(1).integers(0, 2, (60, 1)) == [[0, 1]], 0.6, 0.4)
    assert np.allclose(pool_powers(list(parts), likelihood), [1, 0], atol=0.4)


@pytest.mark.parametrize(("epsilon", "plain"), [(0.5, True), (3.0, False)])
def test_views_other_than_the_plain_one_need_answers_that_ask_for_them(epsilon: float, plain: bool) -> None:
    """The answers of ε = 0.5 are those of labels without signal."""
    features, labels = squares(1500)
    labels = SIMULATED(0).integers(0, 2, 1500) if plain else labels
    likelihood = answered(labels, 2, epsilon).likelihood.astype(np.float32)
    planes = _planes(features, views(features, None))
    fold = np.arange(1500) % 3
    folds = [(np.flatnonzero(fold != number), np.flatnonzero(fold == number)) for number in range(3)]
    heads, shares = _heads(planes, likelihood, np.log(np.full(2, 0.5, np.float32)), folds)
    assert {head.plane is planes[0] for head, *_ in heads} == {plain}
    assert shares.sum() == pytest.approx(1)


def test_a_direction_of_the_plain_view_counts_by_its_variance() -> None:
    """A rare category says little: its coefficient is shrunk as much as in a regression on indicators."""
    features = np.column_stack([np.arange(900) % 2, np.arange(900) % 30 == 0]).astype(float)
    plane, *_ = _planes(features, views(features, np.ones(2, bool)))
    assert np.allclose(plane.signal[1:] / plane.signal[1:].sum(), plane.space.variances / plane.space.variances.sum())


def test_a_strong_prior_is_compared_at_the_likeliest_scale() -> None:
    """Its scores are too small, though their direction is that of the signal."""
    features = SIMULATED(0).normal(size=(900, 4))
    labels = (features[:, 0] + 0.5 * SIMULATED(1).normal(size=900) > 0).astype(int)
    likelihood = answered(labels, 2, 1.0).likelihood.astype(np.float32)
    [plane] = _planes(features, views(features, None)[:1])
    fold = np.arange(900) % 3
    folds = [(np.flatnonzero(fold != number), np.flatnonzero(fold == number)) for number in range(3)]
    head = Head(plane, np.log(np.full(2, 0.5, np.float32)), np.zeros((plane.rows.shape[1], 2)), SETTINGS.ridges[0])
    heads, chances = _cross_fitted([head] * 3, likelihood, folds, 10)
    held = np.concatenate([rows for _, rows in folds])
    small = softmax(np.concatenate([one.scores(rows) for one, (_, rows) in zip(heads, folds, strict=True)]), axis=1)
    explained, before = (np.log((part * likelihood[held]).sum(axis=1)).sum() for part in (chances, small))
    assert heads[0].factor > 1
    assert explained > before + 3


def test_trees_do_not_drown_a_weak_linear_signal() -> None:
    features = SIMULATED(0).integers(0, 3, size=(1200, 5)).astype(float)
    labels = (features[:, 0] - 1 + 3 * SIMULATED(1).normal(size=1200) > 0).astype(int)
    model = MixtureClassifier().fit_released(features, answered(labels, 2, 1.0))
    assert model.powers_[0] > 0.5


def test_trees_of_soft_labels_count_where_other_trees_do() -> None:
    features, labels = squares(600)
    model = MixtureClassifier().fit_released(features, answered(labels, 2, 2.0))
    linear = model._mixed([head.of_table(head.mapped(features)) for head in model.heads_], 600)
    model.powers_ = np.array([1.0, 0.0])
    assert np.allclose(model.predict_proba(features), linear, atol=1e-6)
    model.powers_ = np.array([1.0, 0.1])
    assert np.abs(model.predict_proba(features) - linear).max() > 0.01


def test_trees_see_means_of_categories_and_gaps_are_kept_apart() -> None:
    codes = np.repeat([7.0, 2.0, 4.0, np.nan], 30)
    labels = np.concatenate([np.zeros(30), np.ones(30), np.arange(60) % 2]).astype(int)
    model = MixtureClassifier(categorical=[True]).fit(codes[:, None], labels)
    first, last, middle, unknown, gap = model._numbers(np.array([[7.0], [2], [4], [5], [np.nan]]))[:, 0]
    assert min(first, last) < middle < max(first, last) and unknown == gap < -1e8


def test_an_embedding_has_one_view() -> None:
    [single] = views(np.zeros((3, 120)), None)
    assert isinstance(single, CenteredColumns)
    assert len(views(np.zeros((3, 5)), None)) == 3


@pytest.mark.parametrize("prior", [False, True])
def test_the_same_answers_make_the_same_model(prior: bool) -> None:
    features, labels = blobs(300)
    arguments: Any = np.full((300, 2), 0.5) if prior else None
    one, other = (
        MixtureClassifier().fit_released(features, answered(labels, 2, 1.0), prior=arguments).predict_proba(features)
        for _ in range(2)
    )
    assert np.array_equal(one, other)

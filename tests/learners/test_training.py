from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import labeldp as ldp
from labeldp.learners import (
    Evidence,
    SoftmaxClassifier,
    Training,
    dry_run,
    fit_multistage,
    fit_noisy,
    posterior,
)
from labeldp.learners.classifiers import as_candidates, default_classifiers
from labeldp.learners.training import (
    CrossFit,
    calibrated,
    cross_fit,
    fit_codes,
    fit_soft,
    fold_count,
    learn,
    out_of_fold,
)
from labeldp.mechanisms import LocalHashing
from labeldp.privacy import InputError, NotInvertibleError
from labeldp.tables import TableEncoder
from learners.data import SoftRidge, blobs, curator, released, with_prior

CLASSIFIERS = [
    LogisticRegression(),
    make_pipeline(StandardScaler(), LogisticRegression()),
    RandomForestClassifier(20, min_samples_leaf=20, random_state=0),
    HistGradientBoostingClassifier(max_iter=30, min_samples_leaf=50),
    KNeighborsClassifier(50),
    SoftRidge(),
]


@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=lambda each: type(each).__name__)
def test_any_classifier_learns_from_released_labels(classifier: object) -> None:
    features, labels = blobs(1500, 3)
    model = fit_noisy(features, released(labels, 3, 1.0), classifier=classifier).value
    assert np.mean(model.predict(features) == labels) > 0.9
    rows = model.predict_proba(features)
    assert rows.shape == (1500, 3)
    np.testing.assert_allclose(rows.sum(axis=1), 1)


@pytest.mark.parametrize("method", ["posterior", "plain", "debiased", "consensus"])
def test_every_method_learns(method: str) -> None:
    features, labels = blobs(2000, 3)
    classifier = SoftRidge() if method == "debiased" else LogisticRegression()
    model = fit_noisy(features, released(labels, 3, 1.0), classifier=classifier, training=method).value
    assert np.mean(model.predict(features) == labels) > 0.9


def test_the_posterior_gives_truer_probabilities_than_labels_taken_for_true() -> None:
    features, labels = blobs(3000, 3)
    release = released(labels, 3, 1.0)
    noisy = LogisticRegression().fit(features, release.value).predict_proba(features)
    model = fit_noisy(features, release, classifier=LogisticRegression()).value
    truth = np.arange(3000), labels
    assert -np.log(model.predict_proba(features)[truth]).mean() < -np.log(noisy[truth]).mean() / 2


def test_soft_labels_by_hand() -> None:
    release = released([0, 1, 1], epsilon=1.0986122886681098)
    release.value[:] = [0, 1, 1]
    prior = ldp.Public(np.array([[0.5, 0.5], [0.9, 0.1], [0.0, 1.0]]), why="a test")
    soft = posterior(release, prior)
    np.testing.assert_allclose(soft.value, [[0.75, 0.25], [0.75, 0.25], [0.0, 1.0]])
    assert soft.certificate.entries == release.certificate.entries


@pytest.mark.guarantee("labeldp.learners:posterior", "post_processing")
@pytest.mark.guarantee("labeldp.learners:posterior", "charged")
def test_the_posterior_is_certified_by_all_that_it_rests_on() -> None:
    release, other = released([0, 1, 1]), released([1, 0, 1], epsilon=0.5)
    prior = other.map(lambda codes: np.full((len(codes), 2), 0.5))
    entries = posterior(release, prior).certificate.entries
    assert {entry.id for entry in entries} == {release.certificate.entries[0].id, other.certificate.entries[0].id}


def test_weighted_copies_are_what_soft_labels_mean() -> None:
    features = np.array([[0.0], [1.0], [2.0]])
    soft = np.array([[1.0, 0.0], [0.25, 0.75], [0.0, 1.0]])
    by_hand = LogisticRegression().fit([[0.0], [1.0], [1.0], [2.0]], [0, 0, 1, 1], sample_weight=[1, 0.25, 0.75, 1])
    model = fit_soft(LogisticRegression(), features, soft, seed=0)
    np.testing.assert_allclose(model.predict_proba(features), by_hand.predict_proba(features), atol=1e-4)


def test_without_sample_weights_labels_are_drawn() -> None:
    features, labels = blobs(300)
    model = fit_soft(KNeighborsClassifier(5), features, np.eye(2)[labels], seed=0)
    assert np.mean(model.predict(features) == labels) > 0.95


def test_records_are_judged_by_models_that_did_not_see_them() -> None:
    """A memory of one neighbor is right only about records that it was fitted on."""
    features = np.random.default_rng(0).normal(size=(200, 3))
    labels = np.random.default_rng(1).integers(0, 2, 200)

    def fitter(rows: np.ndarray) -> object:
        return KNeighborsClassifier(1).fit(features[rows], labels[rows])

    rows = out_of_fold(features, 2, Training(), fitter)
    assert 0.3 < np.mean(rows.argmax(axis=1) == labels) < 0.7


def test_the_better_classifier_is_chosen_from_released_labels() -> None:
    rng = np.random.default_rng(0)
    features = rng.uniform(-1, 1, size=(2000, 2))
    labels = (features[:, 0] * features[:, 1] > 0).astype(int)  # no line tells them apart
    candidates = [LogisticRegression(), HistGradientBoostingClassifier(max_iter=30, min_samples_leaf=50)]
    model = fit_noisy(features, released(labels, 2, 2.0), classifier=candidates).value
    assert isinstance(model.estimator, HistGradientBoostingClassifier)


class Remembered(LogisticRegression):
    """Remembers the rows and the classes that it was fitted to last."""

    seen: ClassVar[list[tuple[np.ndarray, np.ndarray]]] = []

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        Remembered.seen.append((np.asarray(X), np.asarray(y)))
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize("groups", [None, 2], ids=["classes", "sets"])
def test_consensus_learns_from_the_records_whose_answer_holds_what_others_predict(groups: int | None) -> None:
    features, labels = blobs(800, 4)
    domain = ldp.Classes(4)
    mechanism = (
        ldp.RandomizedResponse(domain=domain, epsilon=1.0)
        if groups is None
        else LocalHashing(domain=domain, epsilon=1.0, groups=groups)
    )
    holder = ldp.Curator(labels, domain=domain, budget=ldp.Budget(epsilon=1.0))
    release = holder.release(mechanism, rng=np.random.default_rng(0))
    Remembered.seen.clear()
    model = fit_noisy(features, release, classifier=Remembered(), training="consensus").value
    evidence = Evidence.of(release)
    guess = cross_fit(features, evidence, [LogisticRegression()], Training("consensus"))
    assert guess.probabilities is not None
    predicted = guess.probabilities.argmax(axis=1)
    named = mechanism.named(release.value)
    kept = named[np.arange(800), predicted]
    assert (evidence.names(predicted) == kept).all() and 0.2 < kept.mean() < 0.9
    rows, classes = Remembered.seen[-1]
    np.testing.assert_array_equal(rows, features[kept])
    np.testing.assert_array_equal(classes, predicted[kept])
    assert np.mean(model.predict(features) == labels) > 0.85


def test_consensus_of_no_record_takes_all_of_them() -> None:
    features = np.array([[0.0], [1.0], [2.0], [3.0]])
    evidence = Evidence.of(released([0, 0, 0, 0], epsilon=40.0))
    guess = CrossFit(LogisticRegression(), np.tile([0.1, 0.9], (4, 1)))
    assert not evidence.names(np.ones(4, dtype=int)).any()
    model = learn(features, evidence, guess, Training("consensus"), ldp.Classes(2))
    assert model.predict(features).tolist() == [1, 1, 1, 1]


def test_calibration_never_explains_the_released_labels_worse() -> None:
    features, labels = blobs(500)
    evidence = Evidence.of(released(labels))
    rows = np.clip(LogisticRegression().fit(features, labels).predict_proba(features) ** 0.2, 0, 1)
    rows /= rows.sum(axis=1, keepdims=True)
    assert evidence.score(calibrated(rows, evidence)) > evidence.score(rows)


def test_a_class_that_never_occurs_in_the_released_labels_keeps_its_column() -> None:
    features, labels = blobs(300, 2)
    release = released(labels, 4, epsilon=20.0)
    for method in ("plain", "posterior"):
        rows = fit_noisy(features, release, classifier=LogisticRegression(), training=method).value.predict_proba(
            features
        )
        assert rows.shape == (300, 4)


def test_one_released_class_gives_the_constant() -> None:
    release = released(np.zeros(30, int), 2, epsilon=20.0)
    model = fit_noisy(np.ones((30, 1)), release, classifier=LogisticRegression(), training="plain").value
    assert set(model.predict(np.ones((3, 1)))) == {0}


def test_a_class_with_one_record_does_not_stop_a_classifier_that_splits_by_class() -> None:
    features = np.arange(200.0)[:, None]
    codes = np.where(np.arange(200) == 7, 2, np.arange(200) % 2)
    trees = HistGradientBoostingClassifier(early_stopping=True, max_iter=5)
    assert set(fit_codes(trees, features, codes).classes_) == {0, 1, 2}


def test_a_prior_helps_where_labels_were_released_with_it() -> None:
    features, labels = blobs(1000, 3)
    prior = np.where(np.arange(3) == labels[:, None], 0.8, 0.1)
    release = with_prior(labels, prior, epsilon=0.5)
    public = ldp.Public(prior, why="a test")
    model = fit_noisy(features, release, classifier=LogisticRegression(), prior=public).value
    assert np.mean(model.predict(features) == labels) > 0.9


def test_more_rounds_go_on_from_the_round_before() -> None:
    features, labels = blobs(800)
    release = released(labels)
    once, twice = (
        fit_noisy(features, release, classifier=GaussianNB(), training=Training(rounds=rounds)).value.predict_proba(
            features
        )
        for rounds in (1, 2)
    )
    assert not np.allclose(once, twice)


def test_tables_are_taken_as_they_are() -> None:
    features, labels = blobs(400)
    table = pd.DataFrame(features, columns=["a", "b"])
    model = fit_noisy(table, released(labels, 2, 2.0), classifier=LogisticRegression()).value
    assert list(model.estimator.feature_names_in_) == ["a", "b"]


def test_the_default_classifier_takes_gaps_and_categories() -> None:
    features, labels = blobs(600)
    table = np.column_stack([features, np.random.default_rng(0).integers(0, 5, 600)])
    table[::7, 0] = np.nan
    [classifier] = default_classifiers(table, np.array([False, False, True]))
    assert np.mean(classifier.fit(table, labels).predict(table) == labels) > 0.9


def test_features_that_say_nothing_leave_class_frequencies() -> None:
    model = fit_noisy(np.ones((60, 2)), released(np.arange(60) % 2)).value
    assert np.allclose(model.predict_proba(np.ones((1, 2))), 0.5, atol=0.2)


def test_a_noise_aware_classifier_is_not_compared_with_others() -> None:
    features, _ = blobs(60)
    for others in ([LogisticRegression(), SoftmaxClassifier()], [SoftmaxClassifier(), LogisticRegression()]):
        with pytest.raises(InputError, match="must be one alone if it is noise-aware"):
            dry_run(others, features, Training(), ldp.RandomizedResponse(domain=ldp.Classes(2), epsilon=1.0))


def test_many_records_are_cross_fitted_in_fewer_parts() -> None:
    """A rule of their number alone."""
    assert [fold_count(count) for count in (100, 49_999, 50_000, 10**9)] == [5, 5, 2, 2]
    assert (Training().parts(3), Training(folds=4).parts(10**6), Training().parts(10**6)) == (3, 4, 2)


def test_trees_of_many_records_learn_from_soft_labels_without_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = blobs(600)
    release = released(labels, 2, 2.0)
    trees = HistGradientBoostingClassifier(max_iter=30, min_samples_leaf=30)
    few = fit_noisy(features, release, classifier=trees).value
    monkeypatch.setattr("labeldp.learners.training.MANY_RECORDS", 600)
    many = fit_noisy(features, release, classifier=trees).value
    kinds = [type(each.estimator).__name__ for each in (few, many)]
    assert kinds == ["HistGradientBoostingClassifier", "SoftTrees"]
    assert np.mean(many.predict(features) == labels) > 0.95
    weighted = HistGradientBoostingClassifier(max_iter=5, class_weight={0: 1, 1: 2})
    kept = fit_noisy(features, release, classifier=weighted).value.estimator
    assert isinstance(kept, HistGradientBoostingClassifier)


def test_learning_says_what_it_does() -> None:
    features, labels = blobs(60)
    said: list[tuple[str, float]] = []
    candidates = [LogisticRegression(), LogisticRegression(C=0.1)]
    evidence = Evidence.of(released(labels))
    cross_fit(features, evidence, candidates, Training(folds=2), callback=lambda text, done: said.append((text, done)))
    assert [text for text, _ in said] == [f"training: LogisticRegression, fold {part} of 2" for part in (1, 2)] * 2
    shares = [done for _, done in said]
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] < 0.6


def test_without_a_classifier_the_default_ones_are_tried() -> None:
    features, labels = blobs(400)
    model = fit_noisy(features, released(labels, 2, 2.0)).value
    assert np.mean(model.predict(features) == labels) > 0.95


MIXED = {"age": [31, 24] * 30, "job": ["smith", "baker"] * 30}


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_a_mixed_table_without_a_classifier_is_pointed_to_the_encoder(kind: Callable[..., object]) -> None:
    table, labels = kind(MIXED), np.arange(60) % 2
    with pytest.raises(InputError, match="TableEncoder"):
        fit_noisy(table, released(labels))
    holder = curator(labels)
    with pytest.raises(InputError, match="TableEncoder"):
        fit_multistage(table, holder, epsilon=1, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="TableEncoder"):
        fit_multistage(table, holder, classifier=LogisticRegression(), epsilon=1, rng=np.random.default_rng(0))
    assert not holder.ledger.charges
    numbers = TableEncoder.fit(table).transform(table)
    assert fit_noisy(numbers, released(labels)).value.predict_proba(numbers).shape == (60, 2)


def test_classifiers_and_recipes_that_cannot_work_are_refused() -> None:
    features, labels = blobs(60)
    release = released(labels)
    with pytest.raises(InputError, match="predict_proba"):
        as_candidates(object(), features)
    with pytest.raises(InputError, match="training must be one of"):
        Training("guessing")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="rounds"):
        Training(rounds=0)
    with pytest.raises(InputError, match="one row for each record"):
        fit_noisy(features[:-1], release, classifier=LogisticRegression())
    with pytest.raises(InputError, match="Public"):
        fit_noisy(features, release, classifier=LogisticRegression(), prior=np.full((60, 2), 0.5))
    with pytest.raises(InputError, match="sum to 1"):
        fit_noisy(features, release, classifier=LogisticRegression(), prior=ldp.Public(np.ones((60, 2)), why="a test"))


def test_the_debiased_loss_is_refused_where_noise_has_no_inverse() -> None:
    features, labels = blobs(60)
    release = with_prior(labels, np.tile([1.0, 0.0], (60, 1)))
    with pytest.raises(NotInvertibleError, match="debiased"):
        fit_noisy(features, release, classifier=SoftRidge(), training="debiased")


@pytest.mark.guarantee("labeldp.learners:fit_noisy", "post_processing")
def test_the_same_released_labels_give_the_same_model() -> None:
    features, labels = blobs(300)
    release = released(labels)
    evidence = Evidence.of(release)
    models = [fit_noisy(features, release, classifier=LogisticRegression()) for _ in range(2)]
    assert all(model.certificate == release.certificate for model in models)
    np.testing.assert_array_equal(*(model.value.predict_proba(features) for model in models))
    guesses = [cross_fit(features, evidence, [LogisticRegression()], Training()) for _ in range(2)]
    np.testing.assert_array_equal(guesses[0].probabilities, guesses[1].probabilities)

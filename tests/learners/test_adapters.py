from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import labeldp as ldp
from labeldp.learners import (
    Evidence,
    NoisyLabelClassifier,
    NoisyNumberRegressor,
    debiased_scorer,
    evaluate,
    tune,
)
from labeldp.learners.classifiers import boosted_regression
from labeldp.mechanisms import LocalHashing
from labeldp.privacy import InputError, NotInvertibleError, Release
from learners.data import blobs, curator, released, with_prior


def wrapped(**arguments: object) -> NoisyLabelClassifier:
    return NoisyLabelClassifier(LogisticRegression(), epsilon=4.0, **arguments)


def test_it_learns_the_true_class() -> None:
    features, labels = blobs(1500, 3)
    release = released(labels, 3, 1.0)
    model = NoisyLabelClassifier(LogisticRegression(), mechanism=release.mechanism).fit(features, release.value)
    assert np.mean(model.predict(features) == labels) > 0.95
    # Nearer to 1 than any noisy label can be predicted.
    assert model.predict_proba(features).max(axis=1).mean() > 0.8 > release.mechanism.keep_probability


def test_a_release_is_all_it_needs_and_names_come_out() -> None:
    features, labels = blobs(1200)
    names = np.array(["yes", "no"])[labels]
    release = released(names, ("yes", "no"), 2.0)
    model = NoisyLabelClassifier(LogisticRegression()).fit(features, release)
    assert model.classes_.tolist() == ["no", "yes"]
    assert np.mean(model.predict(features) == names) > 0.95


def test_released_codes_do_for_names_in_sorted_order() -> None:
    features, labels = blobs(600)
    release = released(np.array(["no", "yes"])[labels], ("no", "yes"), 2.0)
    model = NoisyLabelClassifier(LogisticRegression(), mechanism=release.mechanism)
    by_code = model.fit(features, release.value).predict_proba(features)
    by_name = model.fit(features, release.mechanism.domain.decode(release.value)).predict_proba(features)
    np.testing.assert_array_equal(by_code, by_name)


def test_on_a_release_its_score_is_the_debiased_accuracy_and_on_labels_it_is_agreement() -> None:
    features, labels = blobs(4000)
    seen, held = released(labels[:2000], 2, 1.0), released(labels[2000:], 2, 1.0, seed=1)
    model = NoisyLabelClassifier(LogisticRegression()).fit(features[:2000], seen)
    assert model.score(features[2000:], labels[2000:]) > 0.99
    assert model.score(features[2000:], held.value) == pytest.approx(held.mechanism.keep_probability, abs=0.05)
    assert model.score(features[2000:], held) == pytest.approx(1.0, abs=0.08)


def test_it_clones_and_keeps_its_parameters() -> None:
    mechanism = ldp.RandomizedResponse(domain=ldp.Classes(2), epsilon=1.0)
    model = NoisyLabelClassifier(LogisticRegression(C=3.0), mechanism=mechanism, training="consensus")
    copy = clone(model)
    assert copy.mechanism == mechanism
    assert copy.get_params()["estimator__C"] == 3.0
    assert copy.get_params()["training"] == "consensus"


@pytest.mark.parametrize("kind", [np.asarray, pl.DataFrame, pd.DataFrame])
def test_it_takes_any_table_in_a_pipeline(kind: object) -> None:
    features, labels = blobs(400)
    table = kind(features) if kind is np.asarray else kind({"a": features[:, 0], "b": features[:, 1]})
    pipeline = make_pipeline(StandardScaler(), NoisyLabelClassifier(LogisticRegression(), epsilon=3.0))
    assert np.mean(pipeline.fit(table, released(labels, 2, 3.0).value).predict(table) == labels) > 0.95
    inside = NoisyLabelClassifier(make_pipeline(StandardScaler(), LogisticRegression()), epsilon=3.0)
    assert np.mean(inside.fit(table, released(labels, 2, 3.0).value).predict(table) == labels) > 0.95


def test_it_works_in_cross_validation_and_grid_search() -> None:
    features, labels = blobs(600)
    release = released(labels, 2, 2.0)
    scorer = debiased_scorer("accuracy", mechanism=release.mechanism)
    model = NoisyLabelClassifier(RandomForestClassifier(5, random_state=0), mechanism=release.mechanism, folds=2)
    assert cross_val_score(model, features, release.value, scoring=scorer, cv=3).mean() > 0.7
    grid = {"estimator__min_samples_leaf": [1, 60], "training": ["plain", "posterior"]}
    search = GridSearchCV(model, grid, scoring=scorer, cv=2).fit(features, release.value)
    assert np.mean(search.predict(features) == labels) > 0.9


def test_records_with_different_mechanisms_carry_their_likelihood() -> None:
    features, labels = blobs(900)
    release = with_prior(labels, np.where(np.arange(900)[:, None] % 2, [0.9, 0.1], [0.5, 0.5]), epsilon=2.0)
    likelihood = Evidence.of(release).likelihood
    with config_context(enable_metadata_routing=True):
        model = NoisyLabelClassifier(LogisticRegression(), classes=2).set_fit_request(likelihood=True)
        found = cross_val_score(model, features, release.value, params={"likelihood": likelihood}, cv=3)
    assert found.mean() > 0.6
    model = NoisyLabelClassifier(LogisticRegression(), classes=2).fit(features, release.value, likelihood=likelihood)
    assert np.mean(model.predict(features) == labels) > 0.95


def test_declared_classes_that_never_occur_are_kept() -> None:
    features, labels = blobs(200)
    model = NoisyLabelClassifier(LogisticRegression(), epsilon=9.0, classes=[2, 1, 0]).fit(features, labels)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.predict_proba(features).shape == (200, 3)
    assert np.mean(model.predict(features) == labels) > 0.95


def test_it_never_sees_more_than_it_was_given() -> None:
    """Fitting again and again charges nothing."""
    features, labels = blobs(200)
    holder = ldp.Curator(labels, domain=ldp.Classes(2), budget=ldp.Budget(epsilon=1))
    release = holder.release(ldp.RandomizedResponse(domain=holder.domain, epsilon=1), rng=np.random.default_rng(0))
    cross_val_score(wrapped(), features, release.value, cv=5)
    assert holder.ledger.spent.epsilon() == 1.0
    assert len(holder.ledger.charges) == 1


def test_bad_input_is_refused() -> None:
    features, labels = blobs(60)
    with pytest.raises(InputError, match="either"):
        NoisyLabelClassifier(LogisticRegression()).fit(features, labels)
    with pytest.raises(InputError, match="training"):
        wrapped(training="magic").fit(features, labels)
    with pytest.raises(InputError, match="one row for each record"):
        wrapped().fit(features[1:], labels)
    with pytest.raises(InputError, match="likelihood"):
        wrapped(classes=2).fit(features, labels, likelihood=np.ones((3, 2)))
    with pytest.raises(InputError, match="declared domain"):
        wrapped(classes=["a", "b"]).fit(features, labels + 1)
    with pytest.raises(InputError, match="left out where y is a release"):
        wrapped().fit(features, released(labels))
    with pytest.raises(InputError, match=r"Curator\.release"):
        NoisyLabelClassifier(LogisticRegression()).fit(features, released(labels).map(lambda codes: codes))
    with pytest.raises(InputError, match=r"domain\.decode"):
        wrapped(classes=["2", "10"]).fit(features, labels)
    with pytest.raises(InputError, match="TableEncoder"):
        NoisyLabelClassifier(epsilon=1.0).fit(np.array([["a"], ["b"]]), [0, 1])


def test_a_score_on_a_release_of_other_classes_or_with_weights_is_refused() -> None:
    features, labels = blobs(60)
    model = wrapped().fit(features, labels)
    with pytest.raises(InputError, match="sample_weight"):
        model.score(features, released(labels), sample_weight=np.ones(60))
    with pytest.raises(InputError, match="that the model was fitted on"):
        model.score(features, released(np.array(["no", "yes"])[labels], ("no", "yes")))


def numbers(records: int, epsilon: float = 4.0) -> tuple[np.ndarray, np.ndarray, Release]:
    """Features, numbers from 0 to 10 that depend on them in a line, and their release."""
    rng = np.random.default_rng(0)
    features = rng.uniform(-1, 1, (records, 3))
    labels = 5 + features @ [2.0, -1.0, 0.0] + rng.normal(0, 0.5, records)
    domain = ldp.Interval(0, 10)
    curator = ldp.Curator(labels, domain=domain, budget=ldp.Budget(epsilon=epsilon))
    return features, labels, curator.release(ldp.DiscreteLaplace(domain=domain, epsilon=epsilon), rng=rng)


def test_least_squares_on_released_numbers_finds_the_line() -> None:
    features, _, release = numbers(40_000)
    model = NoisyNumberRegressor(LinearRegression()).fit(features, release)
    np.testing.assert_allclose(model.estimator_.coef_, [2, -1, 0], atol=0.2)
    assert model.certificate_ is release.certificate
    assert model.predict(100 * features[:9]).min() >= 0 and model.predict(100 * features[:9]).max() <= 10


def test_by_default_trees_are_boosted() -> None:
    features, labels, release = numbers(6000)
    found = NoisyNumberRegressor().fit(features, release).predict(features)
    assert np.mean((found - labels) ** 2) < 0.6 * labels.var()
    few, many = (boosted_regression(count) for count in (100, 5000))
    assert not few.early_stopping and many.early_stopping and few.max_iter < many.max_iter


def test_what_tuning_holds_out_is_an_evaluation() -> None:
    features, labels, release = numbers(3000)
    tuned = tune([NoisyNumberRegressor(LinearRegression()), NoisyNumberRegressor()], features, release)
    assert tuned.held_out.shape == (3000,) and tuned.scores[0] > tuned.scores[1]
    seen = evaluate(release, tuned.held_out, "held out", np.arange(3000))
    found = replace(seen, level=1 - 1e-12).squared_error()  # type: ignore[union-attr]
    assert found.low < np.mean((labels - tuned.held_out) ** 2) < found.high


def test_bad_input_is_refused_of_regressor() -> None:
    features, _, release = numbers(100)
    with pytest.raises(InputError, match="Interval"):
        NoisyNumberRegressor().fit(features, released([0, 1] * 50))
    with pytest.raises(InputError, match="one row for each record"):
        NoisyNumberRegressor().fit(features[1:], release)
    with pytest.raises(InputError, match="scikit-learn regressor"):
        NoisyNumberRegressor(3).fit(features, release)
    with pytest.raises(InputError, match="numbers"):
        NoisyNumberRegressor().fit(np.full((100, 1), "text"), release)


LN3 = 1.0986122886681098


def test_the_score_of_a_fixed_model_by_hand() -> None:
    mechanism = ldp.RandomizedResponse(domain=ldp.Classes(2), epsilon=LN3)
    features = np.array([[-1.0], [-1.0], [1.0], [1.0]])
    model = DecisionTreeClassifier().fit(features, [0, 0, 1, 1])
    # Three agreements of four: (3 * 1.5 - 0.5) / 4.
    assert debiased_scorer("accuracy", mechanism=mechanism)(model, features, [0, 0, 1, 0]) == pytest.approx(1.0)
    assert debiased_scorer("roc_auc", mechanism=mechanism)(model, features, [0, 0, 1, 1]) > 1


@pytest.mark.parametrize("metric", ["accuracy", "neg_log_loss", "roc_auc"])
def test_cross_validation_on_released_labels_is_close_to_the_truth(metric: str) -> None:
    features, labels = blobs(4000, 2, distance=1.0)
    release = released(labels, 2, 2.0)
    model = NoisyLabelClassifier(LogisticRegression(), mechanism=release.mechanism)
    scorer = debiased_scorer(metric, mechanism=release.mechanism)
    found = cross_val_score(model, features, release.value, scoring=scorer, cv=3).mean()
    truth = {"accuracy": 0.841, "neg_log_loss": -0.36, "roc_auc": 0.92}[metric]
    assert found == pytest.approx(truth, abs=0.05)


def test_codes_of_names_are_understood() -> None:
    features, labels = blobs(600)
    release = released(np.array(["no", "yes"])[labels], ("no", "yes"), 3.0)
    model = NoisyLabelClassifier(LogisticRegression(), mechanism=release.mechanism)
    scorer = debiased_scorer("accuracy", mechanism=release.mechanism)
    names = release.mechanism.domain.decode(release.value)
    by_code, by_name = (cross_val_score(model, features, y, scoring=scorer, cv=3) for y in (release.value, names))
    np.testing.assert_array_equal(by_code, by_name)
    assert by_code.mean() > 0.9


def test_class_names_are_understood() -> None:
    features, labels = blobs(600)
    release = released(np.array(["no", "yes"])[labels], ("no", "yes"), 3.0)
    names = release.mechanism.domain.decode(release.value)
    scorer = debiased_scorer("accuracy", mechanism=release.mechanism)
    assert cross_val_score(LogisticRegression(), features, names, scoring=scorer).mean() > 0.9


def test_grid_search_finds_the_depth_that_noise_hides() -> None:
    features, labels = blobs(1500)
    release = released(labels, 2, 1.0)
    search = GridSearchCV(
        RandomForestClassifier(10, random_state=0),
        {"min_samples_leaf": [1, 100]},
        scoring=debiased_scorer("accuracy", mechanism=release.mechanism),
        cv=3,
    ).fit(features, release.value)
    assert search.best_params_ == {"min_samples_leaf": 100}


def test_records_with_different_mechanisms_are_scored_by_metadata_in_two_processes() -> None:
    features, labels = blobs(1200)
    weak, strong = released(labels[:600], 2, 0.5), released(labels[600:], 2, 3.0)
    noisy = np.concatenate([weak.value, strong.value])
    values = np.concatenate([ldp.debias(each.mechanism, each.value).values for each in (weak, strong)])
    with config_context(enable_metadata_routing=True):
        scorer = debiased_scorer("accuracy", domain=ldp.Classes(2)).set_score_request(indicators=True)
        one, two = (
            cross_val_score(
                LogisticRegression(), features, noisy, scoring=scorer, params={"indicators": values}, cv=4, n_jobs=jobs
            )
            for jobs in (None, 2)
        )
    np.testing.assert_array_equal(one, two)
    assert one.mean() == pytest.approx(0.998, abs=0.15)


def test_what_cannot_be_scored_is_refused() -> None:
    mechanism = ldp.RandomizedResponse(domain=ldp.Classes(3), epsilon=1.0)
    with pytest.raises(InputError, match="metric"):
        debiased_scorer("beauty", mechanism=mechanism)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="either"):
        debiased_scorer("accuracy")
    release = with_prior(np.array([0, 1]), np.array([[1.0, 0.0], [0.5, 0.5]]))
    with pytest.raises(NotInvertibleError):
        debiased_scorer("accuracy", mechanism=release.mechanism)
    features, labels = blobs(60)
    model = LogisticRegression().fit(features, labels)
    with pytest.raises(InputError, match="every class"):
        debiased_scorer("neg_log_loss", mechanism=mechanism)(model, features, labels)
    with pytest.raises(InputError, match="indicators"):
        debiased_scorer("accuracy", domain=ldp.Classes(2))(model, features, labels)


@pytest.mark.parametrize("kind", [LocalHashing, ldp.UnaryEncoding])
def test_sets_are_learned_from_and_scored_by_scikit_learns_tools(kind: Any) -> None:
    features, labels = blobs(2000, 4)
    mechanism = kind(domain=ldp.Classes(4), epsilon=2.0, **({"groups": 2} if kind is LocalHashing else {}))
    holder = curator(labels, 4, epsilon=2)
    noisy = holder.release(mechanism, rng=np.random.default_rng(0)).value
    learner = NoisyLabelClassifier(LogisticRegression(), mechanism=mechanism)
    accuracy, loss = (debiased_scorer(metric, mechanism=mechanism) for metric in ("accuracy", "neg_log_loss"))
    assert 0.7 < cross_val_score(learner, features, noisy, scoring=accuracy, cv=2).mean() < 1.1
    fitted = learner.fit(features, noisy)
    assert np.mean(fitted.predict(features) == labels) > 0.85
    known, chances = ldp.debias(mechanism, noisy).values, fitted.predict_proba(features)
    assert accuracy(fitted, features, noisy) == pytest.approx(known[np.arange(2000), chances.argmax(axis=1)].mean())
    expected = (known * np.log(np.maximum(chances, 1e-3))).sum(axis=1).mean()
    assert loss(fitted, features, noisy) == pytest.approx(expected)
    for wrong in (labels, noisy[:, :0]):
        with pytest.raises(InputError, match="noisy must be packed bits"):
            learner.fit(features, wrong)
    assert len(holder.ledger.charges) == 1


def test_a_release_is_no_metric() -> None:
    release = released(np.zeros(3, dtype=int))
    with pytest.raises(InputError, match=r"metric must be the name of a metric.*pass mechanism=release.mechanism"):
        debiased_scorer(release)

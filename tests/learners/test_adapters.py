import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import labeldp as ldp
from labeldp.learners import NoisyLabelClassifier, debiased_scorer
from labeldp.learners.evidence import Evidence
from labeldp.privacy import InputError
from learners.data import blobs, released, with_prior


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
    assert model.classes_.tolist() == ["yes", "no"]
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
    model = NoisyLabelClassifier(LogisticRegression(C=3.0), mechanism=mechanism, training="reweighted")
    copy = clone(model)
    assert copy.mechanism == mechanism
    assert copy.get_params()["estimator__C"] == 3.0
    assert copy.get_params()["training"] == "reweighted"


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
    assert model.classes_.tolist() == [2, 1, 0]
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
        wrapped(classes=["yes", "no"]).fit(features, labels)
    with pytest.raises(InputError, match="TableEncoder"):
        NoisyLabelClassifier(epsilon=1.0).fit(np.array([["a"], ["b"]]), [0, 1])


def test_a_score_on_a_release_of_other_classes_or_with_weights_is_refused() -> None:
    features, labels = blobs(60)
    model = wrapped().fit(features, labels)
    with pytest.raises(InputError, match="sample_weight"):
        model.score(features, released(labels), sample_weight=np.ones(60))
    with pytest.raises(InputError, match="that the model was fitted on"):
        model.score(features, released(np.array(["no", "yes"])[labels], ("no", "yes")))

import numpy as np
import pytest
from sklearn import config_context
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.tree import DecisionTreeClassifier

import labeldp as ldp
from labeldp.learners import NoisyLabelClassifier, debiased_scorer
from labeldp.privacy import InputError, NotInvertibleError
from learners.data import blobs, released, with_prior

LN3 = 1.0986122886681098


def test_the_score_of_a_fixed_model_by_hand() -> None:
    mechanism = ldp.RandomizedResponse(domain=ldp.Classes(2), epsilon=LN3)
    features = np.array([[-1.0], [-1.0], [1.0], [1.0]])
    model = DecisionTreeClassifier().fit(features, [0, 0, 1, 1])
    # Three agreements of four: (3 * 1.5 - 0.5) / 4.
    assert debiased_scorer("accuracy", mechanism=mechanism)(model, features, [0, 0, 1, 0]) == pytest.approx(1.0)
    assert debiased_scorer("auc", mechanism=mechanism)(model, features, [0, 0, 1, 1]) > 1


@pytest.mark.parametrize("metric", ["accuracy", "neg_log_loss", "roc_auc"])
def test_cross_validation_on_released_labels_is_close_to_the_truth(metric: str) -> None:
    features, labels = blobs(4000, 2, distance=1.0)
    release = released(labels, 2, 2.0)
    model = NoisyLabelClassifier(LogisticRegression(), mechanism=release.mechanism)
    scorer = debiased_scorer(metric, mechanism=release.mechanism)
    found = cross_val_score(model, features, release.value, scoring=scorer, cv=3).mean()
    truth = {"accuracy": 0.841, "neg_log_loss": -0.36, "roc_auc": 0.92}[metric]
    assert found == pytest.approx(truth, abs=0.05)


@pytest.mark.parametrize(("short", "name"), [("log_loss", "neg_log_loss"), ("auc", "roc_auc")])
def test_a_metric_has_scikit_learns_name_and_a_short_one(short: str, name: str) -> None:
    features, labels = blobs(100, distance=0.5)
    release = released(labels, 2, 2.0)
    model = LogisticRegression().fit(features, labels)
    one, other = (debiased_scorer(each, mechanism=release.mechanism) for each in (short, name))
    assert one(model, features, release.value) == other(model, features, release.value)


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
        debiased_scorer("log_loss", mechanism=mechanism)(model, features, labels)
    with pytest.raises(InputError, match="indicators"):
        debiased_scorer("accuracy", domain=ldp.Classes(2))(model, features, labels)

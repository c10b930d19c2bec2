"""An estimator that a program holds: it learns from released labels alone, and what it cannot do is charged nothing."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

import labeldp as ldp
from labeldp.curator import Ledger
from labeldp.fit import arrays

RNG = np.random.default_rng(7)
X = RNG.normal(size=(600, 4))
Y = np.where(X[:, 0] + RNG.normal(0, 0.4, 600) > 0.4, "yes", "no")
NUMBERS = np.clip(50 + 20 * X[:, 0] + RNG.normal(0, 5, 600), 0, 100)
NAMES = ("no", "yes")
SPARSE = sparse.random(600, 50, density=0.2, random_state=0, format="csr")


def classifier(estimator: Any = None, **changes: Any) -> ldp.LabelDPClassifier:
    """A classifier at ε = 4."""
    return ldp.LabelDPClassifier(**{"epsilon": 4, "classes": NAMES, "estimator": estimator, **changes})


def regressor(estimator: Any = None, **changes: Any) -> ldp.LabelDPRegressor:
    """A regressor at ε = 4."""
    return ldp.LabelDPRegressor(
        **{"epsilon": 4, "range": ldp.Interval(0, 100, grid=65), "estimator": estimator, **changes}
    )


@pytest.fixture
def charges(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What was charged to ledgers in memory."""
    records: list[Any] = []
    record = Ledger.record

    def watched(self: Ledger, request: Any) -> Any:
        charge = record(self, request)
        records.append(charge)
        return charge

    monkeypatch.setattr(Ledger, "record", watched)
    yield records


class Recorder(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that keeps, for the test, the labels, the weights and the number of jobs of each fit."""

    fits: list[tuple[Any, Any, Any, int]] = []  # noqa: RUF012

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Recorder":
        """Keep what it is fitted to."""
        type(self).fits.append((np.array(X), np.array(y), sample_weight, joblib.effective_n_jobs(None)))
        self.inner_ = LogisticRegression().fit(X, y, sample_weight)
        self.classes_ = self.inner_.classes_
        return self

    def predict_proba(self, X: Any) -> Any:
        """Return probabilities."""
        return self.inner_.predict_proba(X)


@pytest.fixture
def fits() -> list[tuple[Any, Any, Any, int]]:
    """What a `Recorder` is fitted to."""
    Recorder.fits = []
    return Recorder.fits


def test_a_classifier_beats_the_majority_and_learns_from_released_labels_alone(
    fits: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    released: list[Any] = []
    release = ldp.Curator.release

    def watched(self: Any, mechanism: Any, **given: Any) -> Any:
        result = release(self, mechanism, **given)
        released.append(np.array(result.value))
        return result

    monkeypatch.setattr(ldp.Curator, "release", watched)
    fitted = classifier(Recorder()).fit(X, Y)
    majority = max(np.mean(Y == "no"), np.mean(Y == "yes"))
    right = float((fitted.predict(X) == Y).mean())
    assert right > majority + 0.1 and fitted.evaluation_.accuracy().value > majority
    assert fitted.score(X, ldp.Public(Y, why="made up")) == right
    assert len(released) == 1 and fitted.certificate_.epsilon() == 4
    assert (released[0] != (Y == "yes")).any()  # or this test says nothing
    rows = {row.tobytes(): code for row, code in zip(X, released[0], strict=True)}
    hard = [(table, labels) for table, labels, weights, _ in fits if weights is None]
    used = [(table, labels) for table, labels in hard if len(labels) == 480]  # four of five parts
    assert len(used) == 5
    for table, labels in used:
        assert all(rows[row.tobytes()] == label for row, label in zip(table, labels, strict=True))


@pytest.mark.parametrize(
    "estimator",
    [LinearRegression(), make_pipeline(StandardScaler(), Ridge()), "boosting"],
    ids=["linear", "pipe", "name"],
)
def test_a_regressor_learns_numbers(estimator: Any) -> None:
    fitted = regressor(estimator).fit(X, NUMBERS)
    assert fitted.score(X, ldp.Public(NUMBERS, why="made up")) > 0.5
    assert fitted.certificate_.epsilon() == 4 and fitted.predict(X).max() <= 100
    assert fitted.predict(1e6 * X).min() >= 0 and len(fitted.evaluation_.rows) == 60


def test_several_to_choose_from() -> None:
    fitted = classifier([DummyClassifier(), LogisticRegression()]).fit(X, Y)
    assert (fitted.predict(X) == Y).mean() > 0.7


def test_users_pay_the_epsilon_of_the_fit() -> None:
    owners = np.repeat(np.arange(300), 2)
    for model in (classifier(LogisticRegression(), epsilon=8), regressor(Ridge(), epsilon=8)):
        fitted = model.fit(X, Y if hasattr(model, "classes") else NUMBERS, users=owners)
        assert fitted.certificate_.epsilon() <= 8 and "all labels of one user" in fitted.certificate_.at(0)
        assert len(fitted.predict(X)) == 600


def test_a_released_label_serves_every_estimator(tmp_path: Path) -> None:
    named = {"ledger": tmp_path / "people.ledger", "dataset": "bought"}
    ids = np.array([f"p{number}" for number in range(600)])
    first = classifier(LogisticRegression(), **named).fit(X, Y, ids=ids)
    order = RNG.permutation(600)
    again = classifier(GaussianNB(), **named).fit(X[order], Y[order], ids=ids[order])
    weighted = classifier(LogisticRegression(), **named).fit(X, Y, np.arange(600), ids=ids)
    named_one = classifier("boosting", **named).fit(X, Y, ids=ids)
    dataset = ldp.LedgerFile(named["ledger"]).dataset("bought")
    assert len(dataset.charges) == 1 and dataset.spent.epsilon() == 4
    released = [model.evaluation_.release.value for model in (first, weighted, named_one)]
    assert all((value == released[0]).all() for value in released)
    assert (ids[first.evaluation_.rows] == ids[order][again.evaluation_.rows]).all()
    assert (
        classifier(LogisticRegression(), **named).fit(X, Y, ids=ids).predict_proba(X) == first.predict_proba(X)
    ).all()


def test_numbers_are_found_again_by_another_regressor(tmp_path: Path) -> None:
    named = {"ledger": tmp_path / "people.ledger", "dataset": "hours"}
    regressor(Ridge(), **named).fit(X, NUMBERS)
    dataset = ldp.LedgerFile(named["ledger"]).dataset("hours")
    charges = len(dataset.charges)
    regressor(LinearRegression(), **named).fit(X[:, :2], NUMBERS)
    assert len(dataset.charges) == charges and dataset.spent.epsilon() == 4


class Broken(LogisticRegression):  # type: ignore[misc]
    """A classifier that fails."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fail."""
        raise ValueError("no license")


REFUSED: dict[str, tuple[Any, Any, Any, str]] = {
    "a class": (LogisticRegression, X, Y, r"^estimator must be a classifier with predict_proba, or one of auto, mix"),
    "no probabilities": (LinearSVC(), X, Y, "^estimator must be a classifier with predict_proba"),
    "a regressor": (Ridge(), X, Y, "^estimator must be a classifier with predict_proba"),
    "a number": (3, X, Y, "^estimator must be a classifier"),
    "none of several": ([], X, Y, "^estimator must be a classifier"),
    "another name": ("svm", X, Y, "^estimator must be one of auto, mixture, .* or with trust='local' an unfitted"),
    "a network": ("network", X, Y, "^estimator must be one of auto"),
    "failing": (Broken(), X, Y, "classifier Broken cannot learn from these features: no license"),
    "sparse": (
        HistGradientBoostingClassifier(),
        SPARSE,
        Y,
        "classifier HistGrad.* cannot learn .*Sparse data was passed",
    ),
    "gaps": (LogisticRegression(), np.where(X > 2, np.nan, X), Y, "LogisticRegression cannot learn .*NaN"),
    "texts": (LogisticRegression(), pd.DataFrame({"a": Y}), Y, "LogisticRegression cannot learn .*TableEncoder"),
    "a released column": (None, X, None, "y is released: fit NoisyLabelClassifier"),
}


@pytest.mark.parametrize(("estimator", "features", "labels", "message"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("durable", [False, True], ids=["once", "ledger"])
def test_what_is_refused_is_charged_nothing(
    estimator: Any, features: Any, labels: Any, message: str, durable: bool, charges: list[Any], tmp_path: Path
) -> None:
    place = {"ledger": tmp_path / "l.db", "dataset": "people"} if durable else {}
    if labels is None:
        curator = ldp.Curator(Y, domain=ldp.Classes(NAMES), budget=ldp.Budget(1))
        labels = curator.release(ldp.RandomizedResponse(domain=curator.domain, epsilon=1), rng=np.random.default_rng(0))
        charges.clear()
    model = classifier(estimator, **place)
    with pytest.raises(ldp.privacy.InputError, match=message):
        model.fit(features, labels)
    assert not charges
    if durable and Path(place["ledger"]).exists():
        assert not ldp.LedgerFile(place["ledger"]).dataset("people", budget=ldp.Budget(4)).charges
    model.set_params(estimator=LogisticRegression()).fit(X, Y)  # its right to fit is not used up


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (LogisticRegression(), "^estimator must be one regressor, such as Ridge"),
        ([Ridge(), Ridge()], "^estimator must be one regressor"),
        ("linear", "^estimator must be one of auto, .*neighbors.* with trust='local'"),
        (make_pipeline(StandardScaler(with_mean=None), Ridge()), "regressor Pipeline cannot learn"),
    ],
)
def test_a_regressor_that_cannot_learn_is_charged_nothing(estimator: Any, message: str, charges: list[Any]) -> None:
    with pytest.raises(ldp.privacy.InputError, match=message):
        regressor(estimator).fit(X, NUMBERS)
    with pytest.raises(ldp.privacy.InputError, match="X must hold at least 60 records for numbers"):
        regressor(Ridge()).fit(X[:50], NUMBERS[:50])
    assert not charges


def test_sums_of_labels_are_for_named_learners(charges: list[Any]) -> None:
    with pytest.raises(
        ldp.privacy.InputError, match=r"estimator learns from randomized labels, so it needs trust='local'"
    ):
        classifier(LogisticRegression(), trust="central").fit(X, Y)
    with pytest.raises(
        ldp.privacy.InputError, match=r"estimator must be one of auto, linear, cells with trust='central'"
    ):
        classifier("boosting", trust="central").fit(X, Y)
    assert not charges
    assert (classifier("linear", trust="central", delta=1e-6, epsilon=20).fit(X, Y).predict(X) == Y).mean() > 0.7


def test_sparse_features_stay_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse.csr_matrix, "toarray", None)
    signal = SPARSE.copy()
    labels = np.where(np.asarray(signal[:, :10].sum(axis=1)).ravel() > 0.9, "yes", "no")
    for kind in (sparse.csr_matrix, sparse.csr_array, sparse.coo_matrix):
        fitted = classifier(LogisticRegression(C=10)).fit(kind(signal), labels)
        assert (fitted.predict(kind(signal)) == labels).mean() > max(np.mean(labels == "no"), 0.6)
        assert fitted.n_features_in_ == 50 and not hasattr(fitted, "feature_names_in_")
    with pytest.raises(ldp.privacy.InputError, match="features must have 50 columns"):
        fitted.predict(SPARSE[:, :7])


def test_a_small_sparse_table_is_made_dense_for_other_learners(
    monkeypatch: pytest.MonkeyPatch, charges: list[Any]
) -> None:
    fitted = classifier("boosting").fit(sparse.csr_matrix(X), Y)
    assert (fitted.predict(sparse.coo_matrix(X)) == fitted.predict(X)).all()
    monkeypatch.setattr(arrays, "MAX_DENSE", 600 * 50 - 1)
    charges.clear()
    for model in (classifier(), classifier("boosting"), regressor()):
        with pytest.raises(
            ldp.privacy.InputError, match=r"X is sparse, .* at most 29,999 values: give estimator= one that"
        ):
            model.fit(SPARSE, Y)
    assert not charges


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_a_data_frame_reaches_the_estimator_as_it_is(kind: Any, charges: list[Any]) -> None:
    frame = kind({"job": np.where(X[:, 0] > 0.4, "smith", "baker"), "town": np.where(X[:, 1] > 0, "a", "b")})
    fitted = classifier(make_pipeline(OneHotEncoder(), LogisticRegression())).fit(frame, Y)
    assert fitted.feature_names_in_.tolist() == ["job", "town"]
    assert (fitted.predict(frame) == Y).mean() > 0.75
    with pytest.raises(ldp.privacy.InputError, match="features must have 2 columns"):
        fitted.predict(frame[["town", "job"]])
    charges.clear()
    private = kind({"job": X[:, 0], "bought": Y})
    with pytest.raises(ldp.privacy.InputError, match="X must not hold 'bought', the column of the labels"):
        classifier(GaussianNB()).fit(private, private["bought"])
    assert not charges


def test_weights_count_in_training_and_stand_in_the_certificate(fits: list[Any]) -> None:
    weights = np.where(X[:, 1] > 0, 3.0, 0.0)
    fitted = classifier(Recorder()).fit(X, Y, sample_weight=weights)
    assert "the sample weights do not depend on the private labels" in fitted.certificate_.at(0)
    heavy = {row.tobytes(): weight for row, weight in zip(X, weights, strict=True)}
    for table, _, given, _ in fits[-1:]:  # soft labels: a copy of each record for each class
        total = {}
        for row, weight in zip(table, given, strict=True):
            total[row.tobytes()] = total.get(row.tobytes(), 0) + weight
        assert all(abs(weight - heavy[row]) < 0.02 for row, weight in total.items()) and len(total) > 500
    assert "sample weights" not in classifier(Recorder()).fit(X, Y).certificate_.at(0)


def test_weights_change_what_is_learned() -> None:
    """Records of weight 0 are not learned from: their labels contradict the others."""
    labels = np.where(np.arange(600) < 300, Y, np.where(Y == "yes", "no", "yes"))
    weights = (np.arange(600) < 300).astype(float)
    for estimator in (LogisticRegression(), None):
        fitted = classifier(estimator, epsilon=8).fit(X, labels, weights)
        assert (fitted.predict(X[:300]) == Y[:300]).mean() > 0.75, estimator
    numbers = np.where(weights > 0, NUMBERS, 100 - NUMBERS)
    for estimator in (LinearRegression(), None):
        fitted = regressor(estimator, epsilon=8).fit(X, numbers, weights)
        assert np.corrcoef(fitted.predict(X[:300]), NUMBERS[:300])[0, 1] > 0.6, estimator


def test_weights_follow_the_ids(fits: list[Any]) -> None:
    weights = np.arange(600.0)
    classifier(Recorder()).fit(X, Y, weights, ids=np.arange(600)[::-1])
    table, _, given, _ = fits[-1]
    heavy = {row.tobytes(): weight for row, weight in zip(X, weights, strict=True)}
    assert all(weight <= heavy[row.tobytes()] + 1e-9 for row, weight in zip(table, given, strict=True))


WEIGHTS: dict[str, tuple[Any, Any, str]] = {
    "no weights": (
        KNeighborsClassifier(),
        np.ones(600),
        "sample_weight must be left out: KNeighborsClassifier takes no",
    ),
    "of cells": ("cells", np.ones(600), "sample_weight goes with trust='local' and estimator='boosting', or with"),
    "too few": (LogisticRegression(), np.ones(599), "sample_weight must be one finite number of at least 0 for each"),
    "negative": (LogisticRegression(), -np.ones(600), "sample_weight must be one finite number"),
    "zero": (LogisticRegression(), np.zeros(600), "sample_weight must be .* and not all zero"),
    "missing": (LogisticRegression(), np.full(600, np.nan), "sample_weight must be one finite number"),
    "texts": (LogisticRegression(), Y, "sample_weight must be one finite number"),
    "by name": ("boosting", np.ones(3), "sample_weight must be one finite number"),
}


@pytest.mark.parametrize(("estimator", "weights", "message"), WEIGHTS.values(), ids=WEIGHTS)
def test_weights_that_cannot_be_used_are_charged_nothing(
    estimator: Any, weights: Any, message: str, charges: list[Any]
) -> None:
    with pytest.raises(ldp.privacy.InputError, match=message):
        classifier(estimator).fit(X, Y, weights)
    with pytest.raises(ldp.privacy.InputError, match="sample_weight goes with trust='local'"):
        classifier(trust="central").fit(X, Y, np.ones(600))
    with pytest.raises(ldp.privacy.InputError, match="sample_weight must be left out: Pipeline takes no"):
        regressor(make_pipeline(StandardScaler(), KNeighborsRegressor())).fit(X, NUMBERS, weights)
    assert not charges


def test_a_seed_is_rejected_with_the_reason() -> None:
    for kind in (ldp.LabelDPClassifier, ldp.LabelDPRegressor):
        with pytest.raises(
            ldp.privacy.InputError, match=r"random_state is no parameter.*remove the noise.*To simulate.*rng="
        ):
            kind(epsilon=1, random_state=0)  # type: ignore[call-arg]
        assert "random_state" not in kind(epsilon=1).get_params()
    with pytest.raises(TypeError, match="seed"):
        ldp.LabelDPClassifier(epsilon=1, seed=0)  # type: ignore[call-arg]


def test_jobs_are_those_that_learning_takes(fits: list[Any]) -> None:
    classifier(Recorder(), n_jobs=2).fit(X, Y)
    assert {jobs for *_, jobs in fits[-1:]} == {joblib.effective_n_jobs(2)}  # some machines have one core
    assert joblib.effective_n_jobs(None) == 1
    fits.clear()
    classifier(Recorder()).fit(X, Y)
    assert {jobs for *_, jobs in fits} == {1}


@pytest.mark.parametrize("jobs", [0, 1.5, "all", True])
def test_a_wrong_number_of_jobs_is_charged_nothing(jobs: Any, charges: list[Any]) -> None:
    with pytest.raises(ldp.privacy.InputError, match="n_jobs must be a number of threads, or -1"):
        classifier(n_jobs=jobs).fit(X, Y)
    assert not charges


def test_it_follows_the_conventions_of_meta_estimators(charges: list[Any]) -> None:
    model = classifier(LogisticRegression(C=3))
    assert model.get_params()["estimator__C"] == 3
    other = clone(model).set_params(estimator__C=5)
    assert (model.estimator.C, other.estimator.C) == (3, 5)
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises((ldp.BudgetExceeded, ValueError)):
        GridSearchCV(model, {"estimator__C": [0.1, 1.0]}, cv=2, scoring="accuracy", error_score="raise").fit(X, Y)
    assert len(charges) == 1  # one fold, as with other parameters
    fitted = classifier(LogisticRegression(C=3)).fit(X, Y)
    assert not hasattr(fitted.estimator, "coef_")  # it is not fitted itself
    assert fitted.classes_.tolist() == list(NAMES)
    copied = pickle.loads(pickle.dumps(fitted))
    assert (copied.predict_proba(X) == fitted.predict_proba(X)).all()
    assert X[:5].tobytes() not in pickle.dumps(fitted)
    with pytest.raises(ldp.privacy.InputError, match="have no report"):
        fitted.summarize(X)


def test_its_texts_tell_no_secret() -> None:
    labels = [f"secret-{number % 2}" for number in range(600)]
    model = ldp.LabelDPClassifier(
        epsilon=4, classes=("secret-0", "secret-1"), estimator=LogisticRegression(C=3), ledger=None
    ).fit(X, labels)
    for text in (repr(model), str(model), model._repr_html_()):
        assert "LogisticRegression" in text and "RightToFit" not in text and "labels" not in text
        assert text.count("secret-") <= 2 * text.count("classes")  # as they were declared
    dummy = regressor(DummyRegressor()).fit(X, NUMBERS)
    assert not any(str(number) in dummy._repr_html_() for number in NUMBERS[:50] if 0 < number < 100)

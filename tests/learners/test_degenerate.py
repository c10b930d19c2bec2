"""Whatever is released, a fit that was charged ends with a model and a modest estimate."""

import warnings
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp.learners import NoisyLabelClassifier, names_of
from labeldp.learners.blends import Blend
from labeldp.privacy import InputError, PrivacyWarning

DOORS = [
    (trust, target, name)
    for trust in ("local", "central")
    for target in ("classes", "numbers")
    for name in names_of(trust, target)
]
SURE = 60.0
"""At this epsilon released labels are the true ones, or nearly."""


def features_of(kind: str, records: int) -> Any:
    base = np.random.default_rng(0).normal(size=(records, 3))
    return {
        "three": base,
        "one": base[:, :1],
        "collinear": base[:, :1] * np.array([[1.0, 2.0, -3.0]]),
        "of two rows": base[np.arange(records) % 2],
        "one of them missing": np.column_stack([base[:, :2], np.full(records, np.nan)]),
        "one of them constant": np.column_stack([base[:, :2], np.ones(records)]),
        "one with two values": np.column_stack([base[:, :2], np.where(np.arange(records) < 2, base[:, 2], np.nan)]),
        "all missing": np.full((records, 2), np.nan),
        "constant": np.ones((records, 3)),
        "huge": base * 1e30,
        "larger than their squares": base * 1e200,
        "tiny": base * 1e-200,
        "of all sizes": base * np.array([1e-30, 1.0, 1e30]),
        "more than records": np.random.default_rng(1).normal(size=(records, records + 20)),
    }[kind]


def labels_of(kind: str, records: int, classes: int) -> Any:
    return {
        "all of the first": np.zeros(records, dtype=int),
        "all of the last": np.full(records, classes - 1),
        "two of another": np.where(np.arange(records) < 2, 1, 0),
        "one in twenty": np.where(np.arange(records) % 20 == 3, classes - 1, 0),
        "one never": np.random.default_rng(2).integers(0, max(classes - 1, 1), records),
        "of all": np.random.default_rng(3).integers(0, classes, records),
    }[kind]


FEATURES = (
    *("three", "one", "collinear", "of two rows", "one of them missing", "one of them constant", "all missing"),
    "one with two values",
    *("constant", "huge", "larger than their squares", "tiny", "of all sizes", "more than records"),
)
LABELS = "all of the first", "all of the last", "two of another", "one in twenty", "one never", "of all"

QUICK = [
    ("three", "all of the first", 100, 3, SURE),
    ("one with two values", "one in twenty", 100, 2, SURE),
]


def estimator_of(door: tuple[str, str, str], classes: int, epsilon: float) -> Any:
    trust, target, name = door
    delta = 1e-6 if (trust, name) == ("central", "linear") else 0.0
    shared: dict[str, Any] = {"epsilon": epsilon, "estimator": name, "trust": trust, "delta": delta}
    if target == "classes":
        return ldp.LabelDPClassifier(classes=range(classes), **shared)
    return ldp.LabelDPRegressor(range=(0.0, float(classes - 1)), **shared)


def fitted(door: tuple[str, str, str], features: str, labels: str, records: int, classes: int, epsilon: float) -> None:
    """Fit; a refusal comes before the charge, so that the same estimator can be fitted to better features."""
    estimator = estimator_of(door, classes, epsilon)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        warnings.simplefilter("error", RuntimeWarning)
        X, y = features_of(features, records), labels_of(labels, records, classes)
        try:
            estimator.fit(X, y if door[1] == "classes" else y.astype(float))
        except InputError:
            assert features != "three" or records < 100, "ordinary features are refused"
            X, y = features_of("three", 120), labels_of(labels, 120, classes)
            estimator.fit(X, y if door[1] == "classes" else y.astype(float))
        predicted = estimator.predict(X)
        measured = estimator.evaluation_
        if door[1] == "classes":
            assert set(predicted) <= set(range(classes))
            shares = estimator.predict_proba(X)
            assert np.all(np.isfinite(shares)) and np.allclose(shares.sum(axis=1), 1, atol=1e-5)
            scores = [measured.accuracy()]
        else:
            assert np.all(np.isfinite(predicted))
            assert predicted.min() >= -1e-6 and predicted.max() <= classes - 1 + 1e-6
            scores = [measured.error(), measured.squared_error(), measured.gain()]
    for score in scores:
        assert np.isfinite([score.value, score.low, score.high]).all()
    assert scores[0].high - scores[0].low > 1e-3, "so few records never settle it"
    assert "nan" not in str(measured)


@pytest.mark.parametrize(("features", "labels", "records", "classes", "epsilon"), QUICK)
@pytest.mark.parametrize("door", DOORS, ids=" ".join)
def test_a_constant_release_gives_a_model(
    door: tuple[str, str, str], features: str, labels: str, records: int, classes: int, epsilon: float
) -> None:
    fitted(door, features, labels, records, classes, epsilon)


@pytest.mark.slow
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("door", DOORS, ids=" ".join)
def test_every_feature_goes_with_every_release(door: tuple[str, str, str], features: str) -> None:
    for labels in LABELS:
        fitted(door, features, labels, 100, 3, SURE)


@pytest.mark.slow
@pytest.mark.parametrize(("records", "classes"), [(20, 2), (30, 50), (60, 4)])
@pytest.mark.parametrize("door", DOORS, ids=" ".join)
def test_few_records_and_many_classes(door: tuple[str, str, str], records: int, classes: int) -> None:
    for epsilon in (0.5, SURE):
        fitted(door, "three", "of all", records, classes, epsilon)


@pytest.mark.parametrize("labels", LABELS)
def test_estimators_of_released_labels_learn_from_all_of_them(labels: str) -> None:
    features = features_of("three", 40)
    for classes in (2, 3):
        codes = labels_of(labels, 40, classes)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            model = NoisyLabelClassifier(epsilon=SURE, classes=range(classes), folds=2).fit(features, codes)
            assert np.isfinite(model.predict_proba(features)).all()


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("features", ["three", "constant", "one of them missing"])
def test_a_blend_learns_from_values_that_are_equal(labels: str, features: str) -> None:
    rows, values = np.arange(40), labels_of(labels, 40, 3).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        table = features_of(features, 40)
        model = Blend(table, None, (0.0, 2.0)).fit(rows, values, np.ones(40))
        predicted = model.predict(table)
    assert np.isfinite(predicted).all()
    if len(set(values)) == 1:
        assert predicted == pytest.approx(values)

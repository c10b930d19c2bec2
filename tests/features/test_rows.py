"""What every learner asks of features: one sentence for each kind of bad ones, before anything is charged."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_array, csr_array
from sklearn.linear_model import LogisticRegression, Ridge

import labeldp as ldp
from labeldp import bags, features, learners, sgd
from labeldp.features import intrinsic_dimension, number_table, row_table
from labeldp.features.rows import check_values, rows_with_gaps
from labeldp.privacy import InputError, Public
from learners.data import answered, blobs, released

RECORDS = 1500

FEATURES, LABELS = blobs(RECORDS)

RNG = np.random.default_rng


def spoilt(value: Any, kind: Any = np.float64) -> Any:
    """Features of which a late record, which no rehearsal of the first thousand sees, holds another value."""
    table = FEATURES.astype(kind)
    table[-1, 1] = value
    return table


BAD: dict[str, tuple[Any, str]] = {
    "sparse": (csr_array(FEATURES), "features must be dense, and these are sparse: take features.toarray"),
    "complex": (FEATURES + 1j, "features must be real numbers: Complex data not supported"),
    "complex frame": (pd.DataFrame(FEATURES + 0j), "features must be real numbers: Complex data not supported"),
    "one column alone": (FEATURES[:, 0], "features must be a table of numbers, shape .* Reshape your data"),
    "no columns": (FEATURES[:, :0], "with at least one row and one column"),
    "texts": (FEATURES.astype(str).astype(object) + "x", "features must be numbers: turn a table with texts or dates"),
    "dates": (FEATURES.astype("datetime64[D]"), "features must be numbers: turn a table with texts or dates"),
    "a late object": (spoilt(object(), object), "features must be numbers: turn a table with texts or dates"),
    "a late infinity": (spoilt(np.inf), "features must be finite, and no larger than 3.4e.38"),
    "a late huge number": (spoilt(1e300), "features must be finite, and no larger than 3.4e.38"),
}

NUMBERS = ldp.Interval(-1, 2, grid=301)

LOSS = sgd.SoftmaxRegression(2)

CLASSES = answered(LABELS, ldp.Classes(2), ldp.RandomizedResponse, 4.0)

AMOUNTS = answered(LABELS, NUMBERS, ldp.DiscreteLaplace, 4.0)

BAGS = answered(LABELS, NUMBERS, ldp.BagSum, 4.0, size=3, bags=Public(np.arange(RECORDS) // 3, why="a test"))

PRIVATE: dict[str, Any] = {
    "cluster_prior": lambda X, private: ldp.learners.cluster_prior(X, private, epsilon=1, rng=RNG(0)),
    "fit_cells": lambda X, private: ldp.fit_cells(X, private, epsilon=1, rng=RNG(0)),
    "fit_cells of a partition": lambda X, private: ldp.fit_cells(
        X, private, epsilon=1, rng=RNG(0), partition=ldp.learners.MedianPartition(9)
    ),
    "fit_linear": lambda X, private: ldp.fit_linear(X, private, epsilon=1, rng=RNG(0)),
    "fit_multistage": lambda X, private: ldp.fit_multistage(X, private, epsilon=1, rng=RNG(0)),
    "lp_rr_sgd": lambda X, private: sgd.lp_rr_sgd(X, private, loss=LOSS, epsilon=1, diameter=1, rng=RNG(0)),
    "lp_normal_sgd": lambda X, private: sgd.lp_normal_sgd(
        X, private, loss=LOSS, epsilon=1, delta=1e-6, diameter=1, rng=RNG(0)
    ),
}

PUBLIC: dict[str, Any] = {
    "BagRegressor": lambda X: bags.BagRegressor().fit(X, BAGS),
    "CellClassifier": lambda X: learners.CellClassifier().fit(X, CLASSES),
    "CellRegressor": lambda X: learners.CellRegressor().fit(X, AMOUNTS),
    "NeighborsClassifier": lambda X: learners.NeighborsClassifier().fit(X, CLASSES),
    "NeighborsRegressor": lambda X: learners.NeighborsRegressor().fit(X, AMOUNTS),
    "NoisyLabelClassifier": lambda X: learners.NoisyLabelClassifier().fit(X, CLASSES),
    "NoisyNumberRegressor": lambda X: learners.NoisyNumberRegressor().fit(X, AMOUNTS),
    "fit_bags": lambda X: bags.fit_bags(X, BAGS),
    "fit_noisy": lambda X: ldp.fit_noisy(X, CLASSES),
    "intrinsic_dimension": features.intrinsic_dimension,
    "tune": lambda X: learners.tune([learners.CellClassifier(), learners.NeighborsClassifier()], X, CLASSES),
}

BY_DEFAULT = ("fit_multistage", "fit_noisy", "NoisyLabelClassifier")
"""What takes long where no classifier is named."""


def holder() -> ldp.Curator:
    return ldp.Curator(LABELS, domain=ldp.Classes(2), budget=ldp.Budget(epsilon=9, delta=1e-5))


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("name", PRIVATE)
def test_bad_features_are_refused_before_anything_is_charged(name: str, kind: str) -> None:
    features, message = BAD[kind]
    private = holder()
    with pytest.raises(InputError, match=message):
        PRIVATE[name](features, private)
    assert private.ledger.charges == ()


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("name", PUBLIC)
def test_learners_of_released_labels_refuse_the_same_with_the_same_words(name: str, kind: str) -> None:
    features, message = BAD[kind]
    with pytest.raises(InputError, match=message):
        PUBLIC[name](features)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("kind", [np.asarray, csr_array, pd.DataFrame])
def test_what_a_named_classifier_cannot_take_is_found_wherever_it_stands(kind: Any, value: float) -> None:
    """A gap in the last of 1,500 records was no part of the rehearsal, and met the classifier after the charge."""
    private = holder()
    with pytest.raises(InputError, match="LogisticRegression cannot learn from these features"):
        ldp.fit_multistage(kind(spoilt(value)), private, classifier=LogisticRegression(), epsilon=1, rng=RNG(0))
    assert private.ledger.charges == ()


def test_odd_rows_by_hand() -> None:
    table = np.zeros((6, 2))
    assert rows_with_gaps(table).tolist() == rows_with_gaps(csr_array(table)).tolist() == []
    table[3, 1], table[4, 0], table[5, 0] = np.nan, -np.inf, np.nan
    assert rows_with_gaps(table).tolist() == [3, 4]
    assert rows_with_gaps(csr_array(table)).tolist() == [3]
    assert rows_with_gaps(pd.DataFrame(table)).tolist() == [3, 4]
    assert rows_with_gaps(pd.DataFrame({"a": ["x", None, "y"], "b": [0.0, 1.0, np.inf]})).tolist() == [1, 2]
    assert rows_with_gaps(np.array([["a"], ["b"]])).tolist() == rows_with_gaps(np.array(["a", "b"])).tolist() == []


@pytest.mark.parametrize("kind", [csr_array, coo_array])
def test_estimators_that_take_sparse_features_get_them(kind: Any) -> None:
    dense, sparse = np.maximum(FEATURES, 0), kind(np.maximum(FEATURES, 0))
    for learner in (
        learners.NoisyLabelClassifier(LogisticRegression(), folds=2),
        learners.NoisyNumberRegressor(Ridge()),
    ):
        release = CLASSES if isinstance(learner, learners.NoisyLabelClassifier) else AMOUNTS
        found = learner.fit(dense, release).predict(dense)
        assert learner.fit(sparse, release).n_features_in_ == 2
        assert np.mean(np.abs(learner.predict(sparse) - found)) < 1e-2
    private = holder()
    model = ldp.fit_multistage(sparse, private, classifier=LogisticRegression(), epsilon=4, rng=RNG(0)).value
    assert np.mean(model.predict(row_table(sparse)) == LABELS) > 0.9


def fitted_on(frame: Any) -> dict[str, Any]:
    """Every kind of model, from features in a data frame."""
    models = {name: PUBLIC[name](frame) for name in list(PUBLIC)[:5]}
    models["NoisyLabelClassifier"] = learners.NoisyLabelClassifier(LogisticRegression()).fit(frame, CLASSES)
    models["NoisyNumberRegressor"] = learners.NoisyNumberRegressor(Ridge()).fit(frame, AMOUNTS)
    models["fit_bags"] = bags.fit_bags(frame, BAGS).value
    for name in ("fit_cells", "fit_cells of a partition", "fit_linear", "lp_rr_sgd"):
        models[name] = PRIVATE[name](frame, holder()).value
    models["fit_multistage"] = ldp.fit_multistage(
        frame, holder(), classifier=LogisticRegression(), epsilon=1, rng=RNG(0)
    ).value
    return models


def test_columns_are_known_by_name_and_models_that_know_no_names_still_predict() -> None:
    frame = pd.DataFrame(FEATURES, columns=["a", "b"])
    for name, model in fitted_on(frame).items():
        found = model.predict(frame)
        with pytest.raises(ValueError, match="Feature names must be in the same order"):
            model.predict(frame[["b", "a"]])
        with pytest.raises(ValueError, match="yet now missing"):
            model.predict(frame[["a"]])
        for part in (model, getattr(model, "estimator", None)):
            for attribute in ("n_features_in_", "feature_names_in_"):
                if part is not None and name != "fit_multistage":
                    vars(part).pop(attribute, None)
        np.testing.assert_array_equal(model.predict(frame), found, err_msg=name)


@pytest.mark.parametrize("name", sorted({*PRIVATE, *PUBLIC} - {"fit_cells", *BY_DEFAULT}))
def test_objects_that_are_numbers_count_as_such(name: str) -> None:
    """Numbers in an array of objects, in lists, and in single precision, which is exact here."""
    small = np.round(FEATURES * 8) / 8
    found = []
    for rows in (small, small.astype(object), small.tolist(), small.astype(np.float32)):
        made = PRIVATE[name](rows, holder()) if name in PRIVATE else PUBLIC[name](rows)
        if not isinstance(made, float):
            made = getattr(made, "value", getattr(made, "learner", made))
            made = made if isinstance(made, np.ndarray) else made.predict(rows)
        found.append(np.asarray(made, dtype=np.float64))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    assert np.mean(np.abs(found[0] - found[3])) < 0.01


def test_the_sentence_for_gaps_names_nothing_that_the_learner_has_not() -> None:
    for name, release in (("NeighborsClassifier", CLASSES), ("NeighborsRegressor", AMOUNTS)):
        with pytest.raises(InputError) as caught:
            getattr(learners, name)().fit(spoilt(np.nan), release)
        assert str(caught.value) == "features must be finite, without NaN: fill in the gaps first"
    with pytest.raises(InputError, match=r"or name an estimator that takes them, by estimator$"):
        learners.NoisyNumberRegressor().fit(csr_array(FEATURES), AMOUNTS)
    with pytest.raises(InputError, match=r"or name an estimator that takes them, by classifier$"):
        ldp.fit_noisy(csr_array(FEATURES), released(LABELS))


def test_wrong_columns_of_a_frame_are_refused() -> None:
    with pytest.raises(InputError, match="columns named by texts"):
        number_table(pd.DataFrame({"a": [1.0], 2: [1.0]}), features.TableMap(), fit=True)
    with pytest.raises(InputError, match="as many columns in each row"):
        row_table([[1, 2], [3]])
    with pytest.raises(InputError, match=r"shape \(n, 2\)\. Reshape your data"):
        learners.NoisyLabelClassifier(LogisticRegression()).fit(FEATURES, CLASSES).predict(FEATURES[0])


def test_floats_are_not_copied_and_extremes_decide() -> None:
    for kind in (np.float32, np.float64):
        table = FEATURES.astype(kind)
        assert number_table(table) is table
    check_values(np.array([[np.nan, 3e38]]), gaps=True)
    with pytest.raises(InputError, match="no larger"):
        check_values(np.array([[np.nan, -np.inf]]), gaps=True)
    with pytest.raises(InputError, match="without NaN"):
        check_values(np.array([[np.nan, 1.0]]), gaps=False)


def bent(dimension: int, columns: int, records: int = 2000, seed: int = 0) -> np.ndarray:
    """Points of a cube of few dimensions, bent into more columns."""
    rng = np.random.default_rng(seed)
    inner = rng.random((records, dimension))
    mixed = inner @ rng.normal(size=(dimension, columns))
    return np.column_stack([mixed, np.sin(mixed[:, 0])])


@pytest.mark.parametrize(("dimension", "columns"), [(1, 5), (2, 6), (3, 10), (5, 20)])
def test_it_is_that_of_the_cube_that_was_bent(dimension: int, columns: int) -> None:
    assert intrinsic_dimension(bent(dimension, columns)) == pytest.approx(dimension, rel=0.2)


def test_units_gaps_copies_and_constants_change_little() -> None:
    features = bent(2, 4)
    plain = intrinsic_dimension(features)
    assert intrinsic_dimension(features * [1, 1e6, 1e-6, 1, 1]) == pytest.approx(plain)
    assert intrinsic_dimension(np.repeat(features, 2, axis=0)) == pytest.approx(plain)
    assert intrinsic_dimension(np.column_stack([features, np.ones(len(features))])) == pytest.approx(plain)
    gaps = features.copy()
    gaps[::50, 0] = np.nan
    assert intrinsic_dimension(gaps) == pytest.approx(plain, rel=0.2)


def test_many_records_are_drawn_from_by_the_seed() -> None:
    features = bent(2, 3, records=12_000)
    assert intrinsic_dimension(features, seed=1) == intrinsic_dimension(features, seed=1)
    assert intrinsic_dimension(features, seed=1) == pytest.approx(intrinsic_dimension(features, seed=2), rel=0.1)


def test_it_is_at_most_the_number_of_columns() -> None:
    assert intrinsic_dimension(np.random.default_rng(0).integers(0, 3, (500, 4))) <= 4
    assert intrinsic_dimension([[0.0], [1.0], [2.0]]) == 1
    corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    assert intrinsic_dimension(corners, neighbors=2) == 2, "all neighbors are as far: no bound but the columns"


@pytest.mark.parametrize(
    ("features", "words"),
    [
        (np.ones((10, 2)), "at least three different rows"),
        ([["a"], ["b"]], "features must be numbers"),
        (np.zeros((0, 2)), "features must be a table of numbers"),
        ([[1.0], [np.inf], [2.0]], "features must be finite"),
    ],
)
def test_what_has_no_dimension_is_refused(features: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        intrinsic_dimension(features)


def test_neighbors_must_be_a_number() -> None:
    with pytest.raises(InputError, match="neighbors must be an integer, at least 1"):
        intrinsic_dimension(bent(1, 1), neighbors=0)

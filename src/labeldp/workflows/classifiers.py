"""The classifiers of randomized labels that `labeldp fit --model` names, for the float matrix of a `TableEncoder`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.learners import KernelClassifier, boosted_trees, default_classifiers
from labeldp.privacy import InputError

MODELS = {
    "auto": "gradient-boosted trees or a kernel classifier, whichever explains held-out released labels better",
    "boosting": "gradient-boosted trees",
    "kernel": "a kernel regression",
    "logistic": "a logistic model",
    "forest": "a random forest",
}
"""What each name stands for, as the report says it."""

_KINDS = {
    "HistGradientBoostingClassifier": MODELS["boosting"],
    "KernelClassifier": MODELS["kernel"],
    "Pipeline": MODELS["logistic"],
    "RandomForestClassifier": MODELS["forest"],
    "DummyClassifier": "a constant: the released labels were all of one class",
}


def classifiers_of(
    model: str, features: NDArray[np.float64], categorical: NDArray[np.bool_], classes: int
) -> list[Any]:
    """Unfitted classifiers for a name of `MODELS`.

    Args:
        model: the name.
        features: shape (n, d), NaN where a value is missing; category codes in categorical columns.
        categorical: which columns hold category codes, shape (d,).
        classes: K.

    Raises:
        InputError: an unknown name.
    """
    if model not in MODELS:
        raise InputError(f"--model must be one of {', '.join(MODELS)}")
    if model == "auto":
        return list(default_classifiers(features, categorical, classes))
    if model == "boosting":
        return [boosted_trees(len(features), categorical, classes)]
    if model == "kernel":
        return [KernelClassifier(categorical=categorical)]
    return [_logistic(categorical) if model == "logistic" else _forest()]


def kind_of(estimator: Any) -> str:
    """A fitted classifier of these, in words."""
    name = type(estimator).__name__
    return _KINDS.get(name, name)


def distances(categorical: NDArray[np.bool_], learner: Any) -> Any:
    """A learner behind features that distances make sense for: scaled numbers without gaps, one-hot categories.

    Args:
        categorical: which columns hold category codes, shape (d,).
        learner: takes what comes out, a dense table.
    """
    from sklearn.pipeline import make_pipeline

    return make_pipeline(_columns(categorical, sparse=False), learner)


def _logistic(categorical: NDArray[np.bool_]) -> Any:
    """Scaled numbers with flags for missing ones, and one-hot categories."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    return make_pipeline(_columns(categorical), LogisticRegression(C=0.1, max_iter=2000))


def _columns(categorical: NDArray[np.bool_], *, sparse: bool = True) -> Any:
    """Scaled numbers with flags for missing ones, and one-hot categories."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = make_pipeline(SimpleImputer(add_indicator=True, keep_empty_features=True), StandardScaler())
    categories = OneHotEncoder(handle_unknown="ignore", sparse_output=sparse)
    return ColumnTransformer(
        [
            ("numbers", numbers, np.flatnonzero(~categorical)),
            ("categories", categories, np.flatnonzero(categorical)),
        ]
    )


def _forest() -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(300, min_samples_leaf=20, random_state=0)


def indicators(features: NDArray[np.float64], categorical: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Numbers as they are, and an indicator for each category: features that distances make sense for."""
    columns = [features[:, ~categorical]]
    for column in features[:, categorical].T:
        codes = np.unique(column[np.isfinite(column)])
        columns.append((column[:, None] == codes).astype(np.float64))
    return np.hstack(columns)

"""Classifiers that suit noisy labels, the names of `--model`, and several classifiers as one."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn._loss import HalfBinomialLoss
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from labeldp.features import GapTags, check_columns, check_numbers, row_table
from labeldp.learners.evidence import Probabilities, normalized
from labeldp.learners.mixture import MixtureClassifier
from labeldp.privacy import InputError

STOPPING_RECORDS = 50
"""Records of each class from which on trees stop early; fewer leave too few held out, and the number is fixed."""

STOPPING_NUMBERS = 1000
"""Records from which on trees of numbers stop early."""


def as_candidates(classifier: Any, features: Any, *, argument: str = "classifier") -> list[Any]:
    """Return a list of the classifiers given by some argument, or else the default ones."""
    if classifier is None:
        check_numbers(features, argument)
        return default_classifiers(features)
    candidates = list(classifier) if isinstance(classifier, list | tuple) else [classifier]
    if not candidates or not all(
        hasattr(candidate, "fit") and hasattr(candidate, "predict_proba") for candidate in candidates
    ):
        raise InputError(f"{argument} must be a scikit-learn classifier with predict_proba, or a list of such")
    return candidates


def default_classifiers(features: Any, categorical: Any = None) -> list[Any]:
    """Return the unfitted classifier of noisy labels that is taken by default."""
    return [MixtureClassifier(None if categorical is None else np.asarray(categorical, dtype=bool))]


FEW_VALUES, FEW_SHARE, MANY_RECORDS = 20, 1e-4, 1000
"""A column of many records with fewer values, or a smaller share of them, tells trees nothing."""


def without_rare_columns(features: Any) -> Any:
    """Return features for boosted trees: columns whose values are all missing, or nearly all of many, are zero.

    Trees of scikit-learn refuse a column without a value, and a fold, or the records on which they choose their bins,
    may hold none of a rare one.
    """
    if not isinstance(features, np.ndarray) or features.dtype.kind != "f" or features.ndim != 2:
        return features
    known = np.count_nonzero(~np.isnan(features), axis=0)
    rare = known < (1 if len(features) < MANY_RECORDS else max(FEW_VALUES, FEW_SHARE * len(features)))
    return np.where(rare, features.dtype.type(0), features) if rare.any() else features


def boosted_trees(count: int, categorical: Any = None, classes: int = 10) -> HistGradientBoostingClassifier:
    """Return boosted trees with a small learning rate for `count` records with noisy labels.

    Few features are tried at each split, and boosting stops when held-out released labels are no longer predicted
    better. Soft labels are less noisy, and all trees are grown.

    Source: `docs/results/choice-of-defaults.md`, for the sizes.
    """
    enough = count >= STOPPING_RECORDS * classes
    return HistGradientBoostingClassifier(**_slow_trees(count, categorical, enough))


def boosted_regression(count: int, categorical: Any = None) -> HistGradientBoostingRegressor:
    """Return such trees for `count` noisy numbers: noise of mean zero does not move the optimum of a squared loss."""
    return HistGradientBoostingRegressor(**_slow_trees(count, categorical, count >= STOPPING_NUMBERS))


def _slow_trees(count: int, categorical: Any, enough: bool) -> dict[str, Any]:
    """Return settings for noisy labels, with early stopping if there are enough of them."""
    return {
        "learning_rate": 0.05,
        "max_iter": 300 if enough else 50,
        "max_leaf_nodes": 31,
        "min_samples_leaf": int(np.clip(count // 60, 5, 30)),
        "l2_regularization": 20.0,
        "max_features": 0.3,
        "early_stopping": enough,
        "n_iter_no_change": 20,
        "categorical_features": categorical,
        "random_state": 0,
    }


MODELS = "mixture", "boosting"
"""The names that `classifiers_of` knows."""


def classifiers_of(
    model: str, features: NDArray[np.float64], categorical: NDArray[np.bool_], classes: int
) -> list[Any]:
    """Return the unfitted classifiers of a `--model` that learns from randomized labels."""
    if model == "mixture":
        return default_classifiers(features, categorical)
    return [boosted_trees(len(features), categorical, classes)]


def distances(categorical: NDArray[np.bool_], learner: Any) -> Any:
    """Return a pipeline of `learner` on features with meaningful distances.

    Numbers are scaled, with flags for missing ones, and categories are one-hot.
    """
    numbers = make_pipeline(SimpleImputer(add_indicator=True, keep_empty_features=True), StandardScaler())
    categories = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    columns = (
        ("numbers", numbers, np.flatnonzero(~categorical)),
        ("categories", categories, np.flatnonzero(categorical)),
    )
    return make_pipeline(ColumnTransformer(list(columns)), learner)


def indicators(features: NDArray[np.float64], categorical: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return numbers unchanged and an indicator for each category, for learners that measure distances."""
    columns = [features[:, ~categorical]]
    for column in features[:, categorical].T:
        codes = np.unique(column[np.isfinite(column)])
        columns.append((column[:, None] == codes).astype(np.float64))
    return np.hstack(columns)


class SoftTrees(GapTags, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A boosted logistic regression of each class's weight; of two classes a single one.

    Use it for soft labels of many records, of which other trees would take a copy for each class.

    Args:
        trees: unfitted `HistGradientBoostingClassifier` without class weights; all regressions take its settings, but
            do not stop early.
    """

    def __init__(self, trees: Any = None) -> None:
        self.trees = trees

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from labels y, shape (n,), and features X, shape (n, d)."""
        labels = check_array(validate_data(self, y=y), ensure_2d=False, dtype=None)  # at least one
        check_consistent_length(X, labels)
        check_classification_targets(labels)
        classes, codes = np.unique(labels, return_inverse=True)
        self.fit_soft(X, np.eye(len(classes))[codes])
        self.classes_ = classes
        return self

    def fit_soft(self, features: Any, soft: Any, sample_weight: Any = None) -> Self:
        """Learn from class weights, shape (n, K), whose rows sum to 1, and weights of the records, shape (n,)."""
        table, targets = without_rare_columns(row_table(features)), np.asarray(soft, dtype=np.float64)
        check_columns(self, features, fit=True)
        self.classes_ = np.arange(targets.shape[1])
        columns = targets.T[1:] if len(self.classes_) == 2 else targets.T
        self.parts_ = [self._regression().fit(table, np.clip(column, 0, 1), sample_weight) for column in columns]
        return self

    def _regression(self) -> HistGradientBoostingRegressor:
        trees = HistGradientBoostingClassifier() if self.trees is None else self.trees
        shared = set(HistGradientBoostingRegressor().get_params()) - {"loss", "scoring"}
        settings = {name: value for name, value in trees.get_params().items() if name in shared}
        settings |= {"early_stopping": False}
        return HistGradientBoostingRegressor(loss=HalfBinomialLoss(), **settings)

    def predict_proba(self, X: Any) -> Probabilities:
        """Return probabilities, shape (n, K)."""
        check_is_fitted(self, "parts_")
        table = row_table(X)
        check_columns(self, X)
        shares = np.column_stack([part.predict(table) for part in self.parts_])
        return np.hstack([1 - shares, shares]) if len(self.classes_) == 2 else normalized(shares)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class, shape (n,)."""
        check_is_fitted(self, "parts_")
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

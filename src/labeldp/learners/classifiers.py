"""Classifiers for noisy labels, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from labeldp.learners.evidence import FLOOR, TEMPERATURES, Probabilities, normalized, tempered
from labeldp.learners.features import check_numbers, number_table, rows_of
from labeldp.privacy import InputError

STOPPING_RECORDS = 50
"""Fewer records for each class leave too few held out to stop by: the number of trees is fixed."""

STOPPING_NUMBERS = 1000
"""The same for numbers."""

SMOOTH_LIMIT = 100_000
"""Kernel features of more records than this are left out: trees win there, and take less memory."""


def as_candidates(classifier: Any, features: Any, classes: int, *, argument: str = "classifier") -> list[Any]:
    """The classifiers that were named, by some argument, each able to give probabilities; else the default ones."""
    if classifier is None:
        check_numbers(features, argument)
        return default_classifiers(features, classes=classes)
    candidates = list(classifier) if isinstance(classifier, list | tuple) else [classifier]
    if not candidates or not all(hasattr(each, "fit") and hasattr(each, "predict_proba") for each in candidates):
        raise InputError(f"{argument} must be a scikit-learn classifier with predict_proba, or a list of such")
    return candidates


def default_classifiers(features: Any, categorical: Any = None, classes: int = 10) -> list[Any]:
    """Gradient-boosted trees and a kernel classifier, both set for noisy labels.

    Args:
        features: float matrix, shape (n, d), NaN where a value is missing.
        categorical: boolean mask of the columns that hold category codes 0 to 254, shape (d,).
        classes: K, or more: so many classes must be told apart in a tenth of the records for trees to stop early.

    Returns:
        Unfitted classifiers; `fit_multistage` and `fit_noisy` keep the one that explains held-out released labels best.
    """
    mask = None if categorical is None else np.asarray(categorical, dtype=bool)
    count = rows_of(features)
    trees = boosted_trees(count, mask, classes)
    return [trees] if count > SMOOTH_LIMIT else [trees, KernelClassifier(categorical=mask)]


def boosted_trees(count: int, categorical: Any = None, classes: int = 10) -> HistGradientBoostingClassifier:
    """Many slow trees for `count` records with noisy labels.

    A noisy label carries little: few features are tried at each split, and growing stops where held-out released
    labels are no longer predicted better. Trained on soft labels, which are less noisy, it grows all trees. The sizes
    were chosen on the data sets that `docs/results/defaults.md` names.
    """
    enough = count >= STOPPING_RECORDS * classes
    return HistGradientBoostingClassifier(**_slow_trees(count, categorical, enough))


def boosted_regression(count: int, categorical: Any = None) -> HistGradientBoostingRegressor:
    """The same for `count` noisy numbers: with squared loss noise of mean zero does not move what is best."""
    return HistGradientBoostingRegressor(**_slow_trees(count, categorical, count >= STOPPING_NUMBERS))


def _slow_trees(count: int, categorical: Any, enough: bool) -> dict[str, Any]:
    """Settings for noisy labels; whether there are enough of them to stop by."""
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


PENALTIES = np.geomspace(1e-2, 1e4, 19)


class KernelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Kernel ridge regression of class indicators, with the penalty chosen by exact leave-one-out error.

    Use it where there are many classes, few records, or much noise: it averages over neighbors and overfits noisy
    labels less than trees do. A squared loss is linear in the labels, so noise with mean zero stays so.

    Args:
        bandwidth: length scale of the kernel, in units of the spread of all features together.
        components: number of Gaussian features, at most one for each record.
        categorical: boolean mask of the columns that hold category codes, shape (d,).
        random_state: of the choice of components.
    """

    def __init__(
        self,
        *,
        bandwidth: float = 0.5,
        components: int = 500,
        categorical: Any = None,
        random_state: int = 0,
    ) -> None:
        self.bandwidth = bandwidth
        self.components = components
        self.categorical = categorical
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from labels y, shape (n,), and features X, shape (n, d)."""
        labels = validate_data(self, y=y)
        features = np.asarray(number_table(X, self, fit=True), dtype=np.float64)
        check_consistent_length(features, labels)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        weights = _check_sample_weight(sample_weight, features)
        return self._learn(features, np.eye(len(self.classes_))[codes], weights)

    def fit_soft(self, features: Any, soft: Any) -> Self:
        """Learn from class weights, shape (n, K)."""
        features = np.asarray(number_table(features, self, fit=True), dtype=np.float64)
        targets = np.asarray(soft, dtype=np.float64)
        self.classes_ = np.arange(targets.shape[1])
        return self._learn(features, targets, np.ones(len(features)))

    def _learn(self, features: Any, targets: NDArray[np.float64], weights: NDArray[np.float64]) -> Self:
        table = self._scaled(features, fit=True)
        gamma = 0.5 / (self.bandwidth**2 * max(float(table.var(axis=0).sum()), 1e-12))
        count = min(self.components, len(table))
        self.map_ = Nystroem(gamma=gamma, n_components=count, random_state=self.random_state).fit(table)
        design = self._design(table)
        self.center_ = np.average(design, axis=0, weights=weights)
        self.intercept_ = np.average(targets, axis=0, weights=weights)
        root = np.sqrt(weights / weights.mean())[:, None]
        fit = ridge((design - self.center_) * root, (targets - self.intercept_) * root)
        self.weights_, self.penalty_ = fit.coefficients, fit.penalty
        held_out = normalized(self.intercept_ + fit.held_out / np.maximum(root, 1e-12), FLOOR)
        self.temperature_ = best_temperature(held_out, targets * weights[:, None])
        return self

    def predict_proba(self, X: Any) -> Probabilities:
        """Probabilities, shape (n, classes): the regression clipped to at least 0.001, its confidence calibrated."""
        check_is_fitted(self, "weights_")
        features = np.asarray(number_table(X, self), dtype=np.float64)
        design = self._design(self._scaled(features))
        raw = normalized((design - self.center_) @ self.weights_ + self.intercept_, FLOOR)
        return tempered(raw, self.temperature_)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most likely class, shape (n,)."""
        check_is_fitted(self, "weights_")
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def _design(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        """Gaussian features and the scaled table itself, which carries what is linear."""
        return np.column_stack([self.map_.transform(table), table / (2 * np.sqrt(table.shape[1]))])

    def _scaled(self, features: NDArray[np.float64], fit: bool = False) -> NDArray[np.float64]:
        """Numbers standardized, gaps at the mean, categories as indicators."""
        mask = np.zeros(features.shape[1], bool) if self.categorical is None else np.asarray(self.categorical, bool)
        numbers = features[:, ~mask]
        if fit:
            known = np.isfinite(numbers)
            total = np.maximum(known.sum(axis=0), 1)
            self.mean_ = np.where(known, numbers, 0).sum(axis=0) / total
            spread = np.sqrt(np.where(known, (numbers - self.mean_) ** 2, 0).sum(axis=0) / total)
            self.spread_ = np.where(spread > 0, spread, 1.0)
            self.levels_ = [np.unique(column[np.isfinite(column)]) for column in features[:, mask].T]
        scaled = np.clip((numbers - self.mean_) / self.spread_, -4, 4)
        blocks = [column[:, None] == levels for column, levels in zip(features[:, mask].T, self.levels_, strict=True)]
        return np.column_stack([np.nan_to_num(scaled), *(block.astype(np.float64) for block in blocks)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


@dataclass(frozen=True)
class RidgeFit:
    """Coefficients, shape (d, K), their penalty, and the leave-one-out predictions, shape (n, K)."""

    coefficients: NDArray[np.float64]
    penalty: float
    held_out: NDArray[np.float64]


def ridge(design: NDArray[np.float64], targets: NDArray[np.float64]) -> RidgeFit:
    """Ridge regression with the penalty of least leave-one-out error.

    Args:
        design: centered features, shape (n, d).
        targets: centered targets, shape (n, K).
    """
    values, vectors = np.linalg.eigh(design.T @ design)
    values = np.maximum(values, 1e-10)
    rotated = design @ vectors
    moments, squares = rotated.T @ targets, rotated**2

    def residual(penalty: float) -> NDArray[np.float64]:
        leverage = squares @ (1 / (values + penalty)) + 1 / len(design)
        fitted = rotated @ (moments / (values + penalty)[:, None])
        return (targets - fitted) / np.maximum(1 - leverage, 1e-6)[:, None]

    best = min(PENALTIES.tolist(), key=lambda penalty: float(np.mean(residual(penalty) ** 2)))
    return RidgeFit(vectors @ (moments / (values + best)[:, None]), best, targets - residual(best))


def best_temperature(probabilities: Probabilities, targets: NDArray[np.float64]) -> float:
    """The temperature under which probabilities for held-out records give targets (n, K) the largest likelihood."""
    return max(TEMPERATURES.tolist(), key=lambda t: float((targets * np.log(tempered(probabilities, t))).sum()))


def classifiers_of(
    model: str, features: NDArray[np.float64], categorical: NDArray[np.bool_], classes: int
) -> list[Any]:
    """Return the unfitted classifiers of a `--model` that learns from randomized labels.

    Args:
        model: "auto", "boosting", "kernel", "logistic" or "forest".
        features: shape (n, d), NaN where a value is missing; category codes in categorical columns.
        categorical: which columns hold category codes, shape (d,).
        classes: K.
    """
    if model == "auto":
        return default_classifiers(features, categorical, classes)
    makers: dict[str, Callable[[], Any]] = {
        "boosting": lambda: boosted_trees(len(features), categorical, classes),
        "kernel": lambda: KernelClassifier(categorical=categorical),
        "logistic": lambda: _logistic(categorical),
        "forest": _forest,
    }
    return [makers[model]()]


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

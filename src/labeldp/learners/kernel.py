"""A smooth classifier for small, noisy data: ridge regression of class indicators on Gaussian features."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.kernel_approximation import Nystroem
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from labeldp.learners.features import number_table
from labeldp.learners.probabilities import FLOOR, TEMPERATURES, Probabilities, normalized, tempered

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

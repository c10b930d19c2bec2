"""Kernel ridge regression, which earlier defaults tried beside trees: pages of benchmarks compare with it."""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.kernel_approximation import Nystroem
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from labeldp.learners.evidence import MIN_PROBABILITY, TEMPERATURES, Probabilities, normalized, tempered
from labeldp.learners.features import GapTags, means_and_spreads, number_table, sample_weights

PENALTIES = np.geomspace(1e-2, 1e4, 19)


class KernelClassifier(GapTags, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Kernel ridge regression of class indicators, with the penalty chosen by exact leave-one-out error.

    Use it for many classes, few records, or much noise: it averages over neighbors and overfits noisy labels less than
    trees do. A squared loss is linear in the labels, so noise with mean zero keeps mean zero.

    Args:
        bandwidth: length scale of the kernel, in units of the spread of all features together.
        components: number of Gaussian features, at most one for each record.
        categorical: boolean mask of the columns that hold category codes, shape (d,).
        random_state: public seed of the choice of components.
    """

    def __init__(
        self, *, bandwidth: float = 0.5, components: int = 500, categorical: Any = None, random_state: int = 0
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
        weights = sample_weights(sample_weight, features)
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
        self.weights_, self.penalty_, predicted = fit
        held_out = normalized(self.intercept_ + predicted / np.maximum(root, 1e-12), MIN_PROBABILITY)
        self.temperature_ = best_temperature(held_out, targets * weights[:, None])
        return self

    def predict_proba(self, X: Any) -> Probabilities:
        """Return calibrated probabilities, each at least about 0.001, shape (n, classes)."""
        check_is_fitted(self, "weights_")
        features = np.asarray(number_table(X, self), dtype=np.float64)
        design = self._design(self._scaled(features))
        raw = normalized((design - self.center_) @ self.weights_ + self.intercept_, MIN_PROBABILITY)
        return tempered(raw, self.temperature_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely class, shape (n,)."""
        check_is_fitted(self, "weights_")
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def _design(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return Gaussian features beside the scaled table itself, for what is linear."""
        return np.column_stack([self.map_.transform(table), table / (2 * np.sqrt(table.shape[1]))])

    def _scaled(self, features: NDArray[np.float64], fit: bool = False) -> NDArray[np.float64]:
        """Return standardized numbers, with gaps at the mean, and categories as indicators."""
        mask = np.zeros(features.shape[1], bool) if self.categorical is None else np.asarray(self.categorical, bool)
        numbers = features[:, ~mask]
        if fit:
            self.mean_, self.spread_ = means_and_spreads(numbers)
            self.levels_ = [np.unique(column[np.isfinite(column)]) for column in features[:, mask].T]
        scaled = np.clip((numbers - self.mean_) / self.spread_, -4, 4)
        blocks = [column[:, None] == levels for column, levels in zip(features[:, mask].T, self.levels_, strict=True)]
        return np.column_stack([np.nan_to_num(scaled), *(block.astype(np.float64) for block in blocks)])


class RidgeFit(NamedTuple):
    """Coefficients, shape (d, K), their penalty, and the leave-one-out predictions, shape (n, K)."""

    coefficients: NDArray[np.float64]
    penalty: float
    held_out: NDArray[np.float64]


def ridge(design: NDArray[np.float64], targets: NDArray[np.float64]) -> RidgeFit:
    """Fit a ridge regression of centered targets (n, K) on centered features (n, d), by least leave-one-out error."""
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
    """Return the temperature at which probabilities of held-out records give targets (n, K) the largest likelihood."""
    return max(TEMPERATURES.tolist(), key=lambda t: float((targets * np.log(tempered(probabilities, t))).sum()))

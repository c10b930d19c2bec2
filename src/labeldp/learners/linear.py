"""Linear estimators that were made from released sums."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from labeldp.learners.features import number_table, row_table


class _Linear(BaseEstimator):  # type: ignore[misc]
    """Linear scores of mapped features; made by `fit_linear`.

    Args:
        representation: fitted transformer.
        coefficients: shape (p, columns).
        offset: shape (columns,).
        confidence: factor on scores before the softmax.
    """

    def __init__(self, representation: Any, coefficients: Any, offset: Any, confidence: float = 1.0) -> None:
        self.representation = representation
        self.coefficients = coefficients
        self.offset = offset
        self.confidence = confidence

    def mapped(self, X: Any) -> Any:
        """Features as the representation sees them: it checks them, unless they are taken as they are."""
        if hasattr(self, "n_features_in_"):
            return number_table(X, self, gaps=False)
        table = self.representation.transform(row_table(X))
        return table if hasattr(table, "dtype") else np.asarray(table)

    def scores(self, table: Any) -> NDArray[np.float64]:
        """Scores of mapped features, shape (n, columns)."""
        return np.asarray(table @ self.coefficients.astype(table.dtype) + self.offset, dtype=np.float64)


class LinearClassifier(ClassifierMixin, _Linear):  # type: ignore[misc]
    """Class probabilities from linear scores; made by `fit_linear`, not fitted to labels of its own."""

    @property
    def classes_(self) -> NDArray[np.intp]:
        """Codes 0 to K - 1."""
        return np.arange(self.coefficients.shape[1])

    def of_table(self, table: Any) -> NDArray[np.float64]:
        """Probabilities for features that were mapped already, shape (n, K)."""
        return np.asarray(softmax(self.confidence * self.scores(table), axis=1), dtype=np.float64)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities, shape (n, K)."""
        return self.of_table(self.mapped(X))

    def predict(self, X: Any) -> NDArray[np.intp]:
        """The code of the largest score, shape (n,)."""
        return self.predict_proba(X).argmax(axis=1)


class LinearRegressor(RegressorMixin, _Linear):  # type: ignore[misc]
    """A linear prediction of numbers; made by `fit_linear`, not fitted to labels of its own."""

    def of_table(self, table: Any) -> NDArray[np.float64]:
        """Predictions for features that were mapped already, shape (n,)."""
        return self.scores(table)[:, 0]

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predictions in the unit of the labels, shape (n,)."""
        return self.of_table(self.mapped(X))

"""Boosted trees that learn from class weights without copies of the records."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn._loss import HalfBinomialLoss
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from labeldp.learners.evidence import Probabilities, normalized
from labeldp.learners.features import GapTags, check_columns, row_table


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
        table, targets = row_table(features), np.asarray(soft, dtype=np.float64)
        check_columns(self, features, fit=True)
        self.classes_ = np.arange(targets.shape[1])
        columns = targets.T[1:] if len(self.classes_) == 2 else targets.T
        self.parts_ = [self._regression().fit(table, np.clip(column, 0, 1), sample_weight) for column in columns]
        return self

    def _regression(self) -> HistGradientBoostingRegressor:
        given = HistGradientBoostingClassifier() if self.trees is None else self.trees
        shared = set(HistGradientBoostingRegressor().get_params()) - {"loss", "scoring"}
        settings = {name: value for name, value in given.get_params().items() if name in shared}
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

"""A scikit-learn regressor for numbers that were released before they came here."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from labeldp.learners.defaults import boosted_regression
from labeldp.learners.features import check_columns, check_numbers, check_rows, row_table, rows_of
from labeldp.learners.released import domain_of, unbiased
from labeldp.mechanisms import Interval
from labeldp.privacy import InputError, Release


class NoisyNumberRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Any regressor of squared loss, on unbiased released numbers.

    A squared loss is linear in the labels beyond a part that no prediction changes, so noise with mean zero does not
    move what is best; it adds no noise and protects nothing: give it what `Curator.release` returned.

    Args:
        estimator: regressor that minimizes a squared loss; by default `boosted_regression` (numeric features).
    """

    def __init__(self, estimator: Any = None) -> None:
        self.estimator = estimator

    def fit(self, X: Any, release: Release[Any]) -> Self:
        """Learn from features, shape (n, d), and released numbers.

        Raises:
            InputError: it is no release of numbers, or features do not fit it.
            NotInvertibleError: the noise has no inverse.
        """
        self.domain_ = domain_of(release, Interval)
        X = row_table(X)
        check_rows(X, len(release.value))
        check_columns(self, X, fit=True)
        if self.estimator is None:
            check_numbers(X, "estimator")
        elif not (hasattr(self.estimator, "fit") and hasattr(self.estimator, "predict")):
            raise InputError("estimator must be a scikit-learn regressor, such as HistGradientBoostingRegressor()")
        inner = boosted_regression(rows_of(X)) if self.estimator is None else clone(self.estimator)
        self.estimator_ = inner.fit(X, unbiased(release))
        self.certificate_ = release.certificate
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predicted numbers, kept in the declared range, shape (n,)."""
        check_is_fitted(self, "estimator_")
        X = row_table(X)
        check_columns(self, X)
        return np.clip(self.estimator_.predict(X), self.domain_.low, self.domain_.high)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.estimator is None:
            tags.input_tags.allow_nan = True
        elif isinstance(self.estimator, BaseEstimator):
            tags.input_tags = self.estimator.__sklearn_tags__().input_tags
        return tags

"""What the models of `fit_best` of version 0.1 are made of, so that they load and predict."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin


class Remembered(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted transformer.

    Args:
        transformer: computes the results.
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None) -> Self:
        """Do nothing: the transformer is fitted already."""
        return self

    def transform(self, X: Any) -> Any:
        """Transform X."""
        return self.transformer.transform(X)


class Joint(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Several fitted transformers side by side.

    Args:
        parts: fitted transformers.
        weights: one factor for each.
    """

    def __init__(self, parts: Any, weights: Any) -> None:
        self.parts = parts
        self.weights = weights

    def fit(self, X: Any, y: Any = None) -> Self:
        """Do nothing: the parts are fitted already."""
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return the features of all parts, shape (n, p)."""
        blocks = zip(self.parts, self.weights, strict=True)
        return np.hstack([np.asarray(part.transform(X), dtype=np.float32) * np.float32(each) for part, each in blocks])


class Blend(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The geometric mean of fitted classifiers' probabilities.

    Args:
        parts: fitted classifiers of the same codes.
    """

    def __init__(self, parts: Any) -> None:
        self.parts = parts

    @property
    def classes_(self) -> NDArray[np.intp]:
        """Codes 0 to K - 1."""
        return np.asarray(self.parts[0].classes_)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return probabilities, shape (n, K)."""
        logs = [np.log(np.maximum(part.predict_proba(X), 1e-12)) for part in self.parts]
        return np.asarray(softmax(np.mean(logs, axis=0), axis=1))

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the likeliest code, shape (n,)."""
        return self.predict_proba(X).argmax(axis=1)

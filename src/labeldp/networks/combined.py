"""Fitted estimators put together."""

import hashlib
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin

REMEMBERED = 2
"""Tables that are kept."""


class Remembered(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A transformer that keeps its last results: a slow map is computed once, though several models stand on it.

    Args:
        transformer: does the work.
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the transformer; labels are not looked at."""
        self.transformer.fit(X)
        self.tables_: dict[bytes, Any] = {}
        return self

    def transform(self, X: Any) -> Any:
        """What the transformer makes of X."""
        array = np.ascontiguousarray(X)
        key = hashlib.blake2b(repr((array.shape, array.dtype)).encode() + array.data.tobytes()).digest()
        if key not in self.tables_:
            self.tables_ = dict(list(self.tables_.items())[1 - REMEMBERED :])
            self.tables_[key] = self.transformer.transform(X)
        return self.tables_[key]

    def forget(self) -> None:
        """Drop what was kept."""
        self.tables_ = {}

    def __getstate__(self) -> dict[str, Any]:
        """Without what was kept: it can be computed again."""
        return {name: {} if name == "tables_" else value for name, value in vars(self).items()}


class Joint(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Several fitted transformers side by side, scaled to the same total variance; made by `fit_best`.

    Args:
        parts: fitted transformers.
        weights: one factor for each.
    """

    def __init__(self, parts: Any, weights: Any) -> None:
        self.parts = parts
        self.weights = weights

    @classmethod
    def of(cls, parts: tuple[Any, ...], features: Any) -> Self:
        """Scaled on some of the features."""
        sample = features[:: max(len(features) // 5000, 1)]
        totals = [float(np.asarray(part.transform(sample)).var(axis=0).sum()) for part in parts]
        return cls(parts, tuple(1 / max(total, 1e-12) ** 0.5 for total in totals))

    def forget(self) -> None:
        """Drop what parts have kept."""
        for part in self.parts:
            if hasattr(part, "forget"):
                part.forget()

    def fit(self, X: Any, y: Any = None) -> Self:
        """It is fitted already."""
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """All features, shape (n, p)."""
        blocks = zip(self.parts, self.weights, strict=True)
        return np.hstack([np.asarray(part.transform(X), dtype=np.float32) * np.float32(each) for part, each in blocks])


class Blend(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The geometric mean of fitted classifiers' probabilities; made by `fit_best`.

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
        """Probabilities, shape (n, K)."""
        logs = [np.log(np.maximum(part.predict_proba(X), 1e-12)) for part in self.parts]
        return np.asarray(softmax(np.mean(logs, axis=0), axis=1))

    def predict(self, X: Any) -> NDArray[np.intp]:
        """The likeliest code, shape (n,)."""
        return self.predict_proba(X).argmax(axis=1)

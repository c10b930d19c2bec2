"""Convex losses of linear models: what label-private gradient descent must know of them."""

import math
from dataclasses import dataclass
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax
from sklearn.base import BaseEstimator, ClassifierMixin

from labeldp.learners.features import check_columns, number_table, row_table
from labeldp.privacy import InputError

Floats = NDArray[np.float64]


@runtime_checkable
class ConvexLoss(Protocol):
    """A loss ℓ(w, (x, k)) that is convex in the weights w and Lipschitz, for features x and every class k."""

    @property
    def classes(self) -> int:
        """K."""

    @property
    def lipschitz(self) -> float:
        """L: no gradient is longer."""

    def spread(self, count: int) -> float:
        """At least Σ |g_k - ḡ|² for the gradients g_k of any `count` of the classes, and their mean ḡ."""

    def rows(self, features: Any) -> Floats:
        """Public features as the loss takes them, shape (n, p): finite, and no longer than `lipschitz` allows."""

    def start(self, width: int) -> Floats:
        """The first weights for rows of `width` numbers: zeros of the right shape."""

    def losses(self, weights: Floats, rows: Floats) -> Floats:
        """ℓ(w, (x, k)), shape (n, K)."""

    def gradient(self, weights: Floats, row: Floats, label: Floats) -> Floats:
        """Σ label[k] ∇ℓ(w, (x, k)), shaped as the weights: that of class k where `label` is its indicator."""


@final
@dataclass(frozen=True)
class SoftmaxRegression:
    """Multinomial logistic regression without an offset: the cross-entropy of softmax(xᵀw), w of shape (p, K).

    Append a column of ones for an offset; it counts in the norm.

    Args:
        classes: K.
        clip: longer rows are scaled down to this norm.
    """

    classes: int
    clip: float = 1.0

    def __post_init__(self) -> None:
        _check_number(self.clip, "clip")

    @property
    def lipschitz(self) -> float:
        """√2 times the longest row: a gradient is the row times softmax minus indicator."""
        return math.sqrt(2) * self.clip

    def spread(self, count: int) -> float:
        """|x|² (count - 1): gradients of two classes are √2 |x| apart."""
        return self.clip**2 * (count - 1)

    def rows(self, features: Any) -> Floats:
        """See `ConvexLoss.rows`."""
        return clipped_rows(features, self.clip)

    def start(self, width: int) -> Floats:
        """Zeros, shape (width, K)."""
        return np.zeros((width, self.classes))

    def losses(self, weights: Floats, rows: Floats) -> Floats:
        """-log softmax(xᵀw), shape (n, K)."""
        scores = rows @ weights
        return np.asarray(logsumexp(scores, axis=1, keepdims=True) - scores)

    def gradient(self, weights: Floats, row: Floats, label: Floats) -> Floats:
        """x (Σ label · softmax(xᵀw) - label)ᵀ."""
        scores = row @ weights
        masses = np.exp(scores - scores.max())
        return np.outer(row, label.sum() / masses.sum() * masses - label)


@final
@dataclass(frozen=True)
class UnitVectorLoss:
    """L ⟨w, x⟩ for the first class, -L ⟨w, x⟩ for the second, 0 for others, |x| at most 1: the loss of the lower bound.

    Args:
        classes: K, at least 2.
        lipschitz: L.

    Source: Ghazi, Proposition 13.
    """

    classes: int = 2
    lipschitz: float = 1.0

    def __post_init__(self) -> None:
        _check_number(self.lipschitz, "lipschitz")
        if isinstance(self.classes, bool) or not isinstance(self.classes, int) or self.classes < 2:
            raise InputError("classes must be an integer, at least 2")

    def spread(self, count: int) -> float:
        """2 L² for two opposite gradients, nothing for one."""
        return 2 * self.lipschitz**2 * (count > 1)

    def rows(self, features: Any) -> Floats:
        """See `ConvexLoss.rows`."""
        return clipped_rows(features, 1.0)

    def start(self, width: int) -> Floats:
        """Zeros, shape (width,)."""
        return np.zeros(width)

    def losses(self, weights: Floats, rows: Floats) -> Floats:
        """Shape (n, K)."""
        signs = np.zeros(self.classes)
        signs[:2] = 1, -1
        return np.outer(self.lipschitz * (rows @ weights), signs)

    def gradient(self, weights: Floats, row: Floats, label: Floats) -> Floats:
        """L (label[0] - label[1]) x."""
        return np.asarray(self.lipschitz * (label[0] - label[1]) * row)


class LossClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Class probabilities proportional to e^(-loss); made by `lp_rr_sgd` and `lp_normal_sgd`.

    For `SoftmaxRegression` that is the model itself.

    Args:
        loss: a `ConvexLoss`.
        weights: shaped as `loss.start` says.
    """

    def __init__(self, loss: Any, weights: Any) -> None:
        self.loss = loss
        self.weights = weights

    @property
    def classes_(self) -> NDArray[np.intp]:
        """Codes 0 to K - 1."""
        return np.arange(self.loss.classes)

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities, shape (n, K)."""
        X = row_table(X)
        check_columns(self, X)
        return np.asarray(softmax(-self.loss.losses(self.weights, self.loss.rows(X)), axis=1), dtype=np.float64)

    def predict(self, X: Any) -> NDArray[np.intp]:
        """The code of the smallest loss, shape (n,)."""
        return self.predict_proba(X).argmax(axis=1)


def clipped_rows(features: Any, clip: float) -> Floats:
    """Features as doubles, shape (n, p), longer rows scaled down to norm `clip`.

    Raises:
        InputError: not a finite matrix of numbers.
    """
    rows = np.asarray(number_table(features, gaps=False), dtype=np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, clip / np.maximum(norms, clip)))


def _check_number(value: Any, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < math.inf:
        raise InputError(f"{name} must be a positive finite number")

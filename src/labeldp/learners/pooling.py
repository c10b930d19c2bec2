"""Several classifiers as one: weights by the likelihood of released labels, and geometric means."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin

from labeldp.learners.evidence import MIN_PROBABILITY, Evidence, Probabilities, expanded, normalized

MAX_WEIGHT = 2.0
"""The largest weight of a calibrated opinion in a pool: chance agreement of few labels would ask for any."""


def pooled(opinions: Sequence[Probabilities], evidence: Evidence) -> Probabilities:
    """Return the weighted geometric mean of opinions under which released labels are likeliest, shape (n, K).

    Args:
        opinions: class probabilities of the same records by several models that did not see their labels, each of
            shape (n, K).
        evidence: what was released of these records. Only as many numbers are learned from it as there are opinions.
    """
    logs = np.stack([np.log(normalized(each, MIN_PROBABILITY)) for each in opinions])
    likelihood = normalized(evidence.likelihood)

    def chances(weights: NDArray[np.float64]) -> Probabilities:
        return np.asarray(softmax(np.tensordot(weights, logs, 1), axis=1))

    def objective(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        probabilities = chances(weights)
        joint = probabilities * likelihood
        explained = joint.sum(axis=1, keepdims=True)
        slope = probabilities - joint / explained
        return -float(np.log(explained).mean()), np.einsum("mik,ik->m", logs, slope) / len(slope)

    start = np.full(len(logs), 1 / len(logs))
    bounds = [(0.0, MAX_WEIGHT)] * len(logs)
    return chances(minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds).x)


class GeometricMean(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The geometric mean of fitted classifiers' probabilities; it is not fitted to labels of its own.

    Args:
        parts: fitted classifiers of codes 0 to K - 1, each of which may have met some of the classes only.
        size: number of classes, K.
    """

    def __init__(self, parts: Any, size: int) -> None:
        self.parts = parts
        self.size = size

    @property
    def classes_(self) -> NDArray[np.intp]:
        """Codes 0 to K - 1."""
        return np.arange(self.size)

    def predict_proba(self, X: Any) -> Probabilities:
        """Return probabilities, shape (n, K)."""
        logs = [np.log(np.maximum(expanded(part, X, self.size), MIN_PROBABILITY**2)) for part in self.parts]
        return np.asarray(softmax(np.mean(logs, axis=0), axis=1))

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the likeliest code, shape (n,)."""
        return self.predict_proba(X).argmax(axis=1)

"""Small classification tasks and their released labels."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import Ridge

import labeldp as ldp


def blobs(records: int, classes: int = 2, seed: int = 0, distance: float = 3.0) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian clouds, one for each class, on a circle; features (n, 2) and codes (n,)."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, records)
    angles = 2 * np.pi * labels / classes
    centers = distance * np.column_stack([np.cos(angles), np.sin(angles)])
    return centers + rng.normal(size=(records, 2)), labels


def curator(labels: Any, classes: Any = 2, epsilon: float = 1.0, **arguments: Any) -> ldp.Curator:
    return ldp.Curator(labels, domain=ldp.Classes(classes), budget=ldp.Budget(epsilon=epsilon), **arguments)


def released(labels: Any, classes: Any = 2, epsilon: float = 1.0, seed: int = 0) -> ldp.Release[Any]:
    """Codes by plain randomized response, in a simulation."""
    holder = curator(labels, classes, epsilon)
    mechanism = ldp.RandomizedResponse(domain=holder.domain, epsilon=epsilon)
    return holder.release(mechanism, rng=np.random.default_rng(seed))


def with_prior(labels: Any, prior: Any, epsilon: float = 1.0, seed: int = 0) -> ldp.Release[Any]:
    """Codes by randomized response with a public prior."""
    holder = curator(labels, prior.shape[1], epsilon)
    mechanism = ldp.mechanisms.RandomizedResponseWithPrior(
        domain=holder.domain, epsilon=epsilon, prior=ldp.Public(prior, why="made up by a test")
    )
    return holder.release(mechanism, rng=np.random.default_rng(seed))


def answered(labels: Any, domain: Any, kind: Any, epsilon: float = 1.0, seed: int = 0, **arguments: Any) -> Any:
    """What a mechanism of this kind answers for labels, in a simulation."""
    holder = ldp.Curator(labels, domain=domain, budget=ldp.Budget(epsilon=epsilon))
    return holder.release(kind(domain=domain, epsilon=epsilon, **arguments), rng=np.random.default_rng(seed))


class SoftRidge(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Least squares of class weights, which may be negative."""

    def fit(self, features: Any, labels: Any) -> Any:
        """Learn from codes."""
        return self.fit_soft(features, np.eye(int(np.max(labels)) + 1)[labels])

    def fit_soft(self, features: Any, soft: Any) -> Any:
        """Learn from class weights."""
        self.classes_ = np.arange(soft.shape[1])
        self.model_ = Ridge().fit(features, soft)
        return self

    def predict_proba(self, features: Any) -> Any:
        """Return positive scores, scaled to sum 1."""
        scores = np.maximum(self.model_.predict(features), 1e-3)
        return scores / scores.sum(axis=1, keepdims=True)

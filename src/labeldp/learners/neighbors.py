"""Predictions from the nearest released labels."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_is_fitted

from labeldp.features import check_count, check_rows, number_table
from labeldp.learners import tuning
from labeldp.learners.cells.local import domain_of, unbiased
from labeldp.learners.evidence import Probabilities, projected, refuse_reused
from labeldp.mechanisms import Classes, Interval
from labeldp.privacy import InputError, Release

BLOCK_CELLS = 1 << 22
"""About how many labels are gathered at a time."""

BRUTE_FORCE_FEATURES = 8
"""From this many features on a search tree visits most records anyway, and brute force is faster."""


class _Neighbors(BaseEstimator):  # type: ignore[misc]
    """Means of unbiased released labels over the nearest records."""

    def __init__(
        self,
        neighbors: int | None = None,
        metric: Any = "minkowski",
        *,
        algorithm: str = "auto",
        constant: float = 1.0,
        beta: float = 1.0,
        moments: float | None = None,
    ) -> None:
        self.neighbors = neighbors
        self.metric = metric
        self.algorithm = algorithm
        self.constant = constant
        self.beta = beta
        self.moments = moments

    def _learn(self, X: Any, release: Release[Any], kind: type[Classes] | type[Interval]) -> Self:
        """Store the records and their unbiased labels."""
        domain = domain_of(release, kind)
        table = number_table(X, self, fit=True, gaps=False)
        check_rows(table, len(release.value))
        refuse_reused(release.mechanism, release.value, X=table)
        classes = domain.size if domain.target == "classes" else None
        self.neighbors_ = self._count(len(table), release.mechanism.epsilon, classes)
        self.values_ = unbiased(release)
        brute = self.metric in ("minkowski", "euclidean") and self.n_features_in_ >= BRUTE_FORCE_FEATURES
        search = NearestNeighbors(
            n_neighbors=self.neighbors_,
            metric=self.metric,
            algorithm="brute" if self.algorithm == "auto" and brute else self.algorithm,
        )
        try:
            self.search_ = search.fit(table)
        except (TypeError, ValueError) as error:
            raise InputError(f"metric and algorithm must be such as NearestNeighbors takes: {error}") from error
        self.domain_, self.certificate_ = domain, release.certificate
        return self

    def _count(self, records: int, epsilon: float, classes: int | None) -> int:
        if self.neighbors is not None:
            return check_count(self.neighbors, "neighbors", records)
        return tuning.neighbor_count(
            records,
            self.n_features_in_,
            epsilon=epsilon,
            classes=classes,
            moments=self.moments,
            beta=self.beta,
            constant=self.constant,
        )

    def _means(self, X: Any) -> NDArray[np.float64]:
        """Return the mean of the values of the nearest records, shape (n,) or (n, K)."""
        check_is_fitted(self, "values_")
        table = number_table(X, self, gaps=False)
        means = np.empty((len(table), *self.values_.shape[1:]))
        block = max(BLOCK_CELLS // (self.neighbors_ * max(self.values_[0].size, 1)), 1)
        for start in range(0, len(table), block):
            rows = slice(start, start + block)
            nearest = self.search_.kneighbors(table[rows], return_distance=False)
            means[rows] = self.values_[nearest].mean(axis=1)
        return means


class NeighborsRegressor(RegressorMixin, _Neighbors):  # type: ignore[misc]
    """A regressor on released numbers that predicts their mean over the k nearest records.

    Use it on a release of `DiscreteLaplace`; for labels with heavy tails on `Interval(-T, T, clip=True)`, with T from
    `clipping_radius`, and give `moments` here. Scale features first if their units differ.

    Args:
        neighbors: k, at most the number of records; by default `neighbor_count` decides.
        metric, algorithm: as in scikit-learn's `NearestNeighbors`; with eight features or more,
            "auto" is brute force.
        constant, beta, moments: as in `neighbor_count`.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, eq. (20), Theorems 6 and 10.
    """

    def fit(self, X: Any, release: Release[Any]) -> Self:
        """Store features, shape (n, d), and released numbers.

        Raises:
            InputError: features are not finite, `neighbors` is not a number of records, or `release` has no numbers.
            NotInvertibleError: the noise has no inverse.
        """
        return self._learn(X, release, Interval)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return predicted numbers, clipped to the declared range, shape (n,)."""
        return np.clip(self._means(X), self.domain_.low, self.domain_.high)


class NeighborsClassifier(ClassifierMixin, _Neighbors):  # type: ignore[misc]
    """A classifier on released classes that predicts their shares among the k nearest records.

    Use it on a release of what `first_response` returns, or of `UnaryEncoding`: the likeliest class is the one with the
    largest sum of unbiased indicators. Scale features first if their units differ.

    Args:
        neighbors, metric, algorithm, constant, beta: as in `NeighborsRegressor`.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, eq. (11) to (13), with
    neighbors in place of cubes.
    """

    def fit(self, X: Any, release: Release[Any]) -> Self:
        """Store features, shape (n, d), and released classes.

        Raises:
            InputError: features are not finite, `neighbors` is not a number of records, or `release` has no classes.
            NotInvertibleError: the noise has no inverse.
        """
        self._learn(X, release, Classes)
        self.classes_ = self.domain_.decode(np.arange(self.domain_.size))
        return self

    def predict_proba(self, X: Any) -> Probabilities:
        """Return the probabilities nearest to the shares, shape (n, K), in the order of the domain."""
        return projected(self._means(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the name of the likeliest class, shape (n,); ties go to the first."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

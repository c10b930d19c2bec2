"""KMeansPartition, TreePartition, CompactPartition."""

import warnings
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_classifier
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from labeldp.learners.cells.partitions import Keys, MedianPartition
from labeldp.learners.features import BLOCK_ROWS, column_medians, number_table, positive_integer
from labeldp.privacy import AnyFloats, InputError, Public, Release


class KMeansPartition(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Clusters of features that were scaled to unit spread; NaN counts as the mean of its column.

    Args:
        cells: how many clusters.
        seed: of the clustering, public.

    Examples:
        >>> KMeansPartition(2).fit([[0.0], [0.1], [5.0], [5.1]]).size_
        2
    """

    def __init__(self, cells: int, seed: int = 0) -> None:
        self.cells = cells
        self.seed = seed

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the clusters; labels are not looked at.

        Raises:
            InputError: infinite features, or `cells` is no number of cells from 1 to the number of records.
        """
        table = number_table(X, self, fit=True)
        self.size_ = positive_integer(self.cells, "cells", most=len(table), of="the number of records")
        known = ~np.isnan(table)
        total = np.maximum(known.sum(axis=0), 1)
        self.mean_ = np.where(known, table, 0).sum(axis=0, dtype=np.float64) / total
        spread = np.sqrt(np.where(known, (table - self.mean_) ** 2, 0).sum(axis=0, dtype=np.float64) / total)
        self.spread_ = np.where(spread > 0, spread, 1.0)
        means = MiniBatchKMeans(self.size_, random_state=self.seed, n_init=1, batch_size=4096, init_size=3 * self.size_)
        self.clusters_ = means.fit(self._scaled(table)).cluster_centers_
        return self

    def transform(self, X: Any) -> Keys:
        """The nearest cluster of each record, shape (n,)."""
        check_is_fitted(self, "clusters_")
        table = number_table(X, self)
        return np.concatenate(
            [
                pairwise_distances_argmin(self._scaled(table[start : start + BLOCK_ROWS]), self.clusters_)
                for start in range(0, len(table), BLOCK_ROWS)
            ]
        ).astype(np.int64)

    def centers(self, keys: Keys) -> AnyFloats:
        """Centers of clusters, shape (len(keys), d)."""
        return self.mean_ + self.clusters_[keys] * self.spread_

    def _scaled(self, table: AnyFloats) -> AnyFloats:
        return np.nan_to_num((table - self.mean_) / self.spread_).astype(np.float32)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        tags.input_tags.allow_nan = True
        return tags


class TreePartition(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The leaves of a scikit-learn tree, or of each tree of a forest.

    A forest cuts the space once with each tree: a record has a cell in each. From a trusted curator each tree's cells
    get an equal part of epsilon; released labels are used in all of them for nothing.

    Args:
        estimator: unfitted: it is grown on features alone, an embedding such as `RandomTreesEmbedding` by its own
            rule, a regressor such as `DecisionTreeRegressor` to predict the scaled features themselves. Or fitted to
            another target: `Public(tree, why="…")`, or a `Release`, such as `release.map(…)` makes one of a tree
            that was grown on released labels. Its charges then belong to every model of these cells.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    @property
    def source(self) -> Public[Any] | Release[Any] | None:
        """Where a fitted tree came from."""
        return self.estimator if isinstance(self.estimator, Public | Release) else None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Grow the trees, unless they are; labels are not looked at.

        Raises:
            InputError: no tree of scikit-learn, one that was fitted but not declared, or one that needs classes.
        """
        table = number_table(X, self, fit=True)
        self.grown_ = self.estimator.value if self.source is not None else _grown(self.estimator, table)
        sizes = [tree.tree_.node_count for tree in _trees_of(self.grown_)]
        self.starts_ = np.cumsum([0, *sizes[:-1]])
        self.size_ = int(sum(sizes))
        filled = np.where(np.isnan(table), column_medians(table), table)
        self.middles_ = np.zeros((self.size_, table.shape[1]))
        for keys in self.transform(X).reshape(len(table), -1).T:
            counts = np.maximum(np.bincount(keys, minlength=self.size_), 1)
            for j, column in enumerate(filled.T):
                self.middles_[:, j] += np.bincount(keys, column, self.size_) / counts
        return self

    def transform(self, X: Any) -> Keys:
        """The leaf of each record, shape (n,), or in each tree, shape (n, trees)."""
        check_is_fitted(self, "grown_")
        table = number_table(X, self)
        # A tree that was fitted to a data frame compares names itself.
        shown = X if hasattr(self.grown_, "feature_names_in_") else table
        try:
            leaves = np.asarray(self.grown_.apply(shown)).astype(np.int64).reshape(len(table), -1)
        except ValueError as error:
            raise InputError(f"the trees cannot take these features: {error}") from error
        keys = leaves + self.starts_
        return keys[:, 0] if keys.shape[1] == 1 else keys

    def centers(self, keys: Keys) -> AnyFloats:
        """Mean features of the records of leaves, shape (len(keys), d)."""
        return self.middles_[keys]

    def without_source(self) -> Self:
        """The fitted cells alone, as a model keeps them: its certificate has the charges."""
        other = copy(self)
        other.estimator = None
        return other

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        grown = self.estimator if self.source is None else self.source.value
        tags.transformer_tags.preserves_dtype = []
        tags.input_tags.allow_nan = isinstance(grown, BaseEstimator) and grown.__sklearn_tags__().input_tags.allow_nan
        return tags


def _grown(estimator: Any, table: AnyFloats) -> Any:
    """A tree or forest that was grown on features alone.

    Raises:
        InputError: it was fitted already, to nobody knows what, or it can only learn classes.
    """
    if not hasattr(estimator, "fit") or is_classifier(estimator):
        raise InputError(
            "estimator must be an unfitted tree or forest that needs no classes, such as DecisionTreeRegressor(), "
            'or a fitted one as Public(tree, why="…") or a Release'
        )
    if hasattr(estimator, "tree_") or hasattr(estimator, "estimators_"):
        raise InputError(
            'estimator was fitted: say to what, by Public(tree, why="…") or as a Release; a tree that saw private '
            "labels would tell about them"
        )
    filled = np.where(np.isnan(table), column_medians(table), table)
    spread = filled.std(axis=0)
    scaled = (filled - filled.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    try:
        return clone(estimator).fit(table, scaled)
    except ValueError as error:
        raise InputError(f"the trees cannot take these features: {error}") from error


def _trees_of(estimator: Any) -> list[Any]:
    """The trees of a fitted forest, or the one.

    Raises:
        InputError: there are none.
    """
    trees = [estimator] if hasattr(estimator, "tree_") else list(np.ravel(getattr(estimator, "estimators_", [])))
    if not trees or not all(hasattr(tree, "tree_") for tree in trees) or not hasattr(estimator, "apply"):
        raise InputError("estimator must be a scikit-learn tree, or a forest of such, that was fitted")
    return trees


IN_BLOCK = 2048
"""Records that k-means clusters at a time: its work for each record does not grow with their number."""

ROUNDS = 8
"""Of k-means; more make cells hardly more compact."""

RANKED_ROWS = 1 << 16
"""Ranks are those within a regular sample of so many records."""


class CompactPartition(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Small cells that are as compact as k-means makes them, for any number of records.

    Use it for many small cells in several dimensions: cells of a k-d tree are long there, because few of the features
    are ever cut. Features count by their ranks, so units do not matter, and NaN counts as the median of its column.

    Args:
        cells: about how many.
        seed: of the clusterings, public.

    Examples:
        >>> CompactPartition(2).fit([[0.0], [0.1], [5.0], [5.1]]).size_
        2
    """

    def __init__(self, cells: int, seed: int = 0) -> None:
        self.cells = cells
        self.seed = seed

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cut into blocks at medians, and cluster each; labels are not looked at.

        Raises:
            InputError: infinite features, or `cells` is no number of cells from 1 to the number of records.
        """
        table = number_table(X, self, fit=True)
        cells = positive_integer(self.cells, "cells", most=len(table), of="the number of records")
        sample = table[:: -(-len(table) // RANKED_ROWS)]
        self.median_ = column_medians(sample)
        self.ordered_ = np.sort(np.where(np.isnan(sample), self.median_, sample), axis=0)
        self.blocks_ = MedianPartition(-(-len(table) // IN_BLOCK)).fit(table)
        own = self.blocks_.transform(table)
        with threadpool_limits(1):  # sums in one order: the same cells to the bit
            clusters = [self._clusters(table[rows], cells / len(table)) for rows in members(own, self.blocks_.size_)]
        self.clusters_ = np.concatenate(clusters)
        self.starts_ = np.cumsum([0, *(len(each) for each in clusters)])
        self.size_ = len(self.clusters_)
        filled, keys = np.where(np.isnan(table), self.median_, table), self.transform(X)
        sizes = np.maximum(np.bincount(keys, minlength=self.size_), 1)
        sums = [np.bincount(keys, column, self.size_) for column in filled.T]
        self.middles_ = np.column_stack(sums) / sizes[:, None]
        return self

    def _clusters(self, rows: AnyFloats, share: float) -> AnyFloats:
        """The middles of the clusters of one block, in ranks, shape (clusters, d)."""
        ranked = self._ranked(rows)
        distinct = np.unique(ranked, axis=0)
        count = min(max(round(share * len(rows)), 1), len(distinct))
        if count == len(distinct):
            return distinct
        means = KMeans(count, init="random", n_init=1, max_iter=ROUNDS, random_state=self.seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer rounds, and fewer clusters, will do
            return np.asarray(means.fit(ranked).cluster_centers_)

    def transform(self, X: Any) -> Keys:
        """The cell of each record, shape (n,): the nearest cluster of its block."""
        check_is_fitted(self, "clusters_")
        table = number_table(X, self)
        keys = np.empty(len(table), dtype=np.int64)
        for block, rows in enumerate(members(self.blocks_.transform(table), self.blocks_.size_)):
            if len(rows):
                clusters = self.clusters_[self.starts_[block] : self.starts_[block + 1]]
                keys[rows] = self.starts_[block] + pairwise_distances_argmin(self._ranked(table[rows]), clusters)
        return keys

    def centers(self, keys: Keys) -> AnyFloats:
        """Mean features of the records of cells, shape (len(keys), d)."""
        return self.middles_[keys]

    def _ranked(self, rows: AnyFloats) -> AnyFloats:
        """The share of the records of the fit below each value, ties in the middle, shape (n, d)."""
        filled = np.where(np.isnan(rows), self.median_, rows)
        ranked = np.empty(filled.shape)
        for j, ordered in enumerate(self.ordered_.T):
            sides = (np.searchsorted(ordered, filled[:, j], side) for side in ("left", "right"))
            ranked[:, j] = sum(sides) / (2 * len(ordered))
        return ranked

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        tags.input_tags.allow_nan = True
        return tags


def members(keys: Keys, count: int) -> list[NDArray[np.intp]]:
    """The records of each key from 0 to count - 1, in their order."""
    order = np.argsort(keys, kind="stable")
    return np.split(order, np.searchsorted(keys[order], np.arange(1, count)))

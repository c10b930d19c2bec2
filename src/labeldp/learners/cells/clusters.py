"""Partitions by clusters of the features and by the leaves of trees."""

import warnings
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from labeldp.features import (
    BLOCK_ROWS,
    TableTransformer,
    check_count,
    column_medians,
    means_and_spreads,
    number_table,
    takes_gaps,
)
from labeldp.learners.cells.partitions import Keys, MeansPartition, MedianPartition, cell_means, filled_sample, ranks
from labeldp.privacy import AnyFloats, InputError, Public, Release


class _Clusters(TableTransformer):
    """Cells that are clusters, from a public seed."""

    def __init__(self, cells: int, seed: int = 0) -> None:
        self.cells = cells
        self.seed = seed


class KMeansPartition(_Clusters):
    """k-means clusters of features that are scaled to unit spread; NaN counts as the mean of its column.

    Args:
        cells: number of clusters.
        seed: public seed of the clustering.

    Examples:
        >>> KMeansPartition(2).fit([[0.0], [0.1], [5.0], [5.1]]).size_
        2
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the clusters; labels are ignored.

        Raises:
            InputError: features are not finite, or `cells` is not from 1 to the number of records.
        """
        table = number_table(X, self, fit=True)
        self.size_ = check_count(self.cells, "cells", len(table))
        self.mean_, self.spread_ = means_and_spreads(table)
        means = MiniBatchKMeans(self.size_, random_state=self.seed, n_init=1, batch_size=4096, init_size=3 * self.size_)
        self.clusters_ = means.fit(self._scaled(table)).cluster_centers_
        return self

    def transform(self, X: Any) -> Keys:
        """Return the nearest cluster of each record, shape (n,)."""
        check_is_fitted(self, "clusters_")
        table = number_table(X, self)
        blocks = (self._scaled(table[start : start + BLOCK_ROWS]) for start in range(0, len(table), BLOCK_ROWS))
        keys = [pairwise_distances_argmin(block, self.clusters_) for block in blocks]
        return np.concatenate(keys).astype(np.int64)

    def centers(self, keys: Keys) -> AnyFloats:
        """Return the centers of clusters, shape (len(keys), d)."""
        return self.mean_ + self.clusters_[keys] * self.spread_

    def _scaled(self, table: AnyFloats) -> AnyFloats:
        return np.nan_to_num((table - self.mean_) / self.spread_).astype(np.float32)


class TreePartition(MeansPartition):
    """The leaves of a scikit-learn tree, or of each tree of a forest.

    In a forest, a record has a cell in each tree. With a trusted curator the cells of each tree get an equal part of
    epsilon; labels that are released already serve all trees at no cost.

    Args:
        estimator: an unfitted estimator, which is grown on features alone: an embedding such as `RandomTreesEmbedding`
            by its own rule, a regressor such as `DecisionTreeRegressor` to predict the scaled features. Or one that was
            fitted to another target, as `Public(tree, why="…")` or as a `Release`, such as `release.map(…)` of a tree
            that was grown on released labels; its charges then belong to every model of these cells.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    @property
    def source(self) -> Public[Any] | Release[Any] | None:
        """The fitted tree with its origin, or None for an unfitted one."""
        return self.estimator if isinstance(self.estimator, Public | Release) else None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Grow the trees, unless they are grown; labels are ignored.

        Raises:
            InputError: the estimator is no tree or forest, needs classes, or was fitted without saying to what.
        """
        table = number_table(X, self, fit=True)
        self.grown_ = self.estimator.value if self.source is not None else _grown(self.estimator, table)
        sizes = [tree.tree_.node_count for tree in _trees_of(self.grown_)]
        self.starts_ = np.cumsum([0, *sizes[:-1]])
        self.size_ = int(sum(sizes))
        filled = np.where(np.isnan(table), column_medians(table), table)
        self.middles_ = cell_means(self.transform(X), filled, self.size_)
        return self

    def transform(self, X: Any) -> Keys:
        """Return the leaf of each record, shape (n,), or in each tree, shape (n, trees)."""
        check_is_fitted(self, "grown_")
        table = number_table(X, self)
        shown = X if hasattr(self.grown_, "feature_names_in_") else table  # such a tree compares names itself
        try:
            leaves = np.asarray(self.grown_.apply(shown)).astype(np.int64).reshape(len(table), -1)
        except ValueError as error:
            first = str(error).partition("\n")[0]
            raise InputError(f"the trees cannot take these features: {first}") from error
        keys = leaves + self.starts_
        return keys[:, 0] if keys.shape[1] == 1 else keys

    def without_source(self) -> Self:
        """Return the fitted cells alone, as a model keeps them; the model's certificate has the charges."""
        other = copy(self)
        other.estimator = None
        return other

    @property
    def _takes_gaps(self) -> bool:  # type: ignore[override]
        return takes_gaps(self.estimator if self.source is None else self.source.value)


def _grown(estimator: Any, table: AnyFloats) -> Any:
    """Return a tree or forest that is grown on features alone; refuse one that was fitted or learns classes."""
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
        first = str(error).partition("\n")[0]
        raise InputError(f"the trees cannot take these features: {first}") from error


def _trees_of(estimator: Any) -> list[Any]:
    """Return the trees of a fitted tree or forest, or raise an `InputError` if it has none."""
    trees = [estimator] if hasattr(estimator, "tree_") else list(np.ravel(getattr(estimator, "estimators_", [])))
    if not trees or not all(hasattr(tree, "tree_") for tree in trees) or not hasattr(estimator, "apply"):
        raise InputError("estimator must be a scikit-learn tree, or a forest of such, that was fitted")
    return trees


BLOCK_RECORDS = 2048
"""Records that k-means clusters at a time, so that its work for each record does not grow with their number."""

KMEANS_ROUNDS = 8
"""Rounds of k-means; more make cells hardly more compact."""

RANKED_ROWS = 1 << 16
"""Ranks are those within a regular sample of about this many records."""


class CompactPartition(_Clusters, MeansPartition):
    """Small cells that are as compact as k-means makes them, for any number of records.

    Use it for many small cells in several dimensions, where the cells of a k-d tree are long, because most features are
    never cut. Features count by their ranks, so units do not matter, and NaN counts as the median of its column.

    Args:
        cells: about how many cells there are.
        seed: public seed of the clusterings.

    Examples:
        >>> CompactPartition(2).fit([[0.0], [0.1], [5.0], [5.1]]).size_
        2
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cut records into blocks at medians, and cluster each block; labels are ignored.

        Raises:
            InputError: features are not finite, or `cells` is not from 1 to the number of records.
        """
        table = number_table(X, self, fit=True)
        cells = check_count(self.cells, "cells", len(table))
        self.median_, sample = filled_sample(table, RANKED_ROWS)
        self.ordered_ = np.sort(sample, axis=0)
        self.blocks_ = MedianPartition(-(-len(table) // BLOCK_RECORDS)).fit(table)
        blocks = self.blocks_.transform(table)
        with threadpool_limits(1):  # sums in one order: the same cells to the bit
            clusters = [self._clusters(table[rows], cells / len(table)) for rows in members(blocks, self.blocks_.size_)]
        self.clusters_ = np.concatenate(clusters)
        self.starts_ = np.cumsum([0, *(len(cluster) for cluster in clusters)])
        self.size_ = len(self.clusters_)
        self.middles_ = cell_means(self.transform(X), np.where(np.isnan(table), self.median_, table), self.size_)
        return self

    def _clusters(self, rows: AnyFloats, share: float) -> AnyFloats:
        """Return the centers of the clusters of one block, in ranks, shape (clusters, d)."""
        ranked = self._ranked(rows)
        distinct = np.unique(ranked, axis=0)
        count = min(max(round(share * len(rows)), 1), len(distinct))
        if count == len(distinct):
            return distinct
        means = KMeans(count, init="random", n_init=1, max_iter=KMEANS_ROUNDS, random_state=self.seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer rounds, and fewer clusters, will do
            return np.asarray(means.fit(ranked).cluster_centers_)

    def transform(self, X: Any) -> Keys:
        """Return the cell of each record, shape (n,): the nearest cluster of its block."""
        check_is_fitted(self, "clusters_")
        table = number_table(X, self)
        keys = np.empty(len(table), dtype=np.int64)
        for block, rows in enumerate(members(self.blocks_.transform(table), self.blocks_.size_)):
            if len(rows):
                clusters = self.clusters_[self.starts_[block] : self.starts_[block + 1]]
                keys[rows] = self.starts_[block] + pairwise_distances_argmin(self._ranked(table[rows]), clusters)
        return keys

    def _ranked(self, rows: AnyFloats) -> AnyFloats:
        """Return the ranks of values among the values of the fit, shape (n, d)."""
        return ranks(np.where(np.isnan(rows), self.median_, rows), self.ordered_)


def members(keys: Keys, count: int) -> list[NDArray[np.intp]]:
    """Return the records of each key from 0 to count - 1, in rising order."""
    order = np.argsort(keys, kind="stable")
    return np.split(order, np.searchsorted(keys[order], np.arange(1, count)))

"""Compact cells of few records: k-means within blocks, by the ranks of features."""

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from labeldp.learners.features import column_medians, number_table, positive_integer
from labeldp.learners.medians import MedianPartition
from labeldp.learners.partitions import Floats, Keys

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

    def _clusters(self, rows: Floats, share: float) -> Floats:
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

    def centers(self, keys: Keys) -> Floats:
        """Mean features of the records of cells, shape (len(keys), d)."""
        return self.middles_[keys]

    def _ranked(self, rows: Floats) -> Floats:
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

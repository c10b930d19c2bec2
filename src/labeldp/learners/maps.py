"""Feature maps that are learned from features alone: a linear model on them is a flexible one."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.ensemble import RandomTreesEmbedding
from sklearn.utils.validation import check_is_fitted

from labeldp.learners.features import number_table

Floats = NDArray[np.float32]


class TableMap(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A mixed-type table as indicators: scaled numbers, their quantile bins, gaps, categories, leaves of random trees.

    Every block has the same total variance.

    Args:
        categorical: boolean mask of the columns that hold category codes, shape (d,); NaN is a gap everywhere.
        bins: quantile bins of each number.
        trees: random trees, which split at random places and never see a label; 0 for none.
        depth: of the trees.
        random_state: of the trees.
    """

    def __init__(
        self, *, categorical: Any = None, bins: int = 10, trees: int = 100, depth: int = 4, random_state: int = 0
    ) -> None:
        self.categorical = categorical
        self.bins = bins
        self.trees = trees
        self.depth = depth
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn scales, bins, levels and trees from X, shape (n, d); labels are not looked at."""
        table = np.asarray(number_table(X, self, fit=True), dtype=np.float64)
        width = table.shape[1]
        mask = np.zeros(width, bool) if self.categorical is None else np.asarray(self.categorical, bool)
        self.numbers_, self.categories_ = np.flatnonzero(~mask), np.flatnonzero(mask)
        shares = np.linspace(0, 1, self.bins + 1)[1:-1]
        columns = [column[np.isfinite(column)] for column in table.T]
        self.mean_ = np.array([column.mean() if column.size else 0.0 for column in columns])
        spread = np.array([column.std() if column.size else 0.0 for column in columns])
        self.spread_ = np.where(spread > 0, spread, 1.0)
        self.cuts_ = [np.unique(np.quantile(columns[j], shares)) if columns[j].size else shares for j in self.numbers_]
        self.levels_ = [np.unique(columns[j]) for j in self.categories_]
        plain = self._plain(table)
        self.forest_ = None
        if self.trees:
            forest = RandomTreesEmbedding(
                self.trees, max_depth=self.depth, min_samples_leaf=10, random_state=self.random_state
            )
            self.forest_ = forest.fit(np.hstack(plain))
        blocks = [*plain, *self._leaves(plain)]
        self.weights_ = [1 / np.sqrt(max(float(block.var(axis=0).sum()), 1e-9)) for block in blocks]
        return self

    def transform(self, X: Any) -> Floats:
        """The blocks side by side, shape (n, columns)."""
        check_is_fitted(self, "weights_")
        plain = self._plain(np.asarray(number_table(X, self), dtype=np.float64))
        blocks = [*plain, *self._leaves(plain)]
        return np.hstack([block * np.float32(w) for block, w in zip(blocks, self.weights_, strict=True)])

    def _plain(self, table: NDArray[np.float64]) -> list[Floats]:
        """Scaled numbers with flags for gaps, and indicators of bins and categories."""
        gaps = np.isnan(table)
        scaled = np.clip((np.where(gaps, self.mean_, table) - self.mean_) / self.spread_, -4, 4)
        bins = [
            (np.searchsorted(cuts, table[:, j], side="right")[:, None] == np.arange(len(cuts) + 1)) & ~gaps[:, [j]]
            for j, cuts in zip(self.numbers_, self.cuts_, strict=True)
        ]
        levels = [table[:, [j]] == names for j, names in zip(self.categories_, self.levels_, strict=True)]
        indicators = [gaps, *bins, *levels]
        return [scaled[:, self.numbers_].astype(np.float32), np.hstack(indicators).astype(np.float32)]

    def _leaves(self, plain: list[Floats]) -> list[Floats]:
        """Indicators of the leaves that a record falls into."""
        return [] if self.forest_ is None else [self.forest_.transform(np.hstack(plain)).toarray().astype(np.float32)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        tags.input_tags.allow_nan = True
        return tags


class RandomFourier(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Cosines of random directions: a linear model on them is nearly a Gaussian kernel's.

    Args:
        components: how many.
        bandwidth: length scale of the kernel, in units of the spread of all columns together.
        random_state: of the directions.

    Source: Rahimi and Recht, Random Features for Large-Scale Kernel Machines (2007).
    """

    def __init__(self, *, components: int = 1000, bandwidth: float = 0.5, random_state: int = 0) -> None:
        self.components = components
        self.bandwidth = bandwidth
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the spread of X, shape (n, d), and draw the directions; labels are not looked at."""
        table = np.asarray(number_table(X, self, fit=True, gaps=False), dtype=np.float64)
        self.mean_ = table.mean(axis=0)
        length = self.bandwidth * np.sqrt(max(float(table.var(axis=0).sum()), 1e-12))
        rng = np.random.default_rng(self.random_state)
        self.directions_ = rng.normal(size=(table.shape[1], self.components)) / length
        self.phases_ = rng.uniform(0, 2 * np.pi, self.components)
        return self

    def transform(self, X: Any) -> Floats:
        """Cosines, shape (n, components)."""
        check_is_fitted(self, "directions_")
        table = np.asarray(number_table(X, self, gaps=False), dtype=np.float64)
        angles = (table - self.mean_) @ self.directions_ + self.phases_
        return (np.sqrt(2 / self.components) * np.cos(angles)).astype(np.float32)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags

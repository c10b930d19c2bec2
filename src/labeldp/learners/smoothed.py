"""What many small cells say together: boosted trees on records, fitted to the noisy means of their cells."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.tree import DecisionTreeRegressor

from labeldp.learners.features import number_table
from labeldp.learners.partitions import Keys
from labeldp.learners.probabilities import Probabilities, projected

Floats = NDArray[np.float64]

MOST_RECORDS = 1 << 16
"""Records that trees learn from, at most: beyond, some stand for all records of their cell."""

MOST_ROWS = 1 << 14
"""Records that one tree is grown on, at most, or half of them."""

PATIENCE = 15
"""Rounds without progress on the cells that were left out, after which boosters stop."""

FEWEST_CELLS = 20
"""With fewer cells no tree is grown: all records get their common mean."""


class _CellTrees(BaseEstimator):  # type: ignore[misc]
    """Boosted regression trees that know labels only by noisy means over cells.

    Each tree is grown on records, to what the mean of its cell exceeds the mean prediction there: records of one cell
    may get different predictions, and large cells with little noise count for more. Several such boosters are averaged;
    each leaves out some cells, and all stop where they predict those best. All of it is post-processing.

    Args:
        boosters: how many; each leaves out another part of the cells.
        rounds: trees of each, at most.
        rate: share of each tree that is added.
        leaves: of a tree, at most: what predicts best the cells that were left out. A leaf holds at least a fifth of
            what it would if all were equal.
        random_state: of the parts, and of the features that a tree looks at: public.
    """

    def __init__(
        self,
        *,
        boosters: int = 4,
        rounds: int = 200,
        rate: float = 0.1,
        leaves: tuple[int, ...] = (8, 32, 128),
        random_state: int = 0,
    ) -> None:
        self.boosters = boosters
        self.rounds = rounds
        self.rate = rate
        self.leaves = leaves
        self.random_state = random_state

    def learn(self, features: Any, cells: Keys, means: Floats, variances: Floats) -> Self:
        """Learn from noisy means.

        Args:
            features: of the records, shape (n, d).
            cells: of each record, shape (n,), all of them occupied.
            means: noisy mean label of each cell, or class shares, shape (cells, columns).
            variances: of these means around what features explain, up to a factor, shape (cells,).
        """
        table = number_table(features, self, fit=True)
        self.start_ = np.average(means, axis=0, weights=1 / variances)
        self.trees_: list[list[Any]] = []
        if len(means) >= FEWEST_CELLS:
            rows, sums = _Cells.of(cells, means, 1 / variances)
            shown = table[rows].astype(np.float32)
            tried = [self._boosted(shown, sums, leaves) for leaves in self.leaves]
            self.trees_ = min(tried, key=lambda found: found[0])[1]
        return self

    def _boosted(self, table: NDArray[np.float32], sums: "_Cells", leaves: int) -> tuple[float, list[list[Any]]]:
        """All boosters with trees of so many leaves, and their error on the cells that each left out.

        They grow side by side and stop together, where the sum of their errors is least: that of one alone is noise.
        """
        rng = np.random.default_rng(self.random_state)
        part = rng.permutation(len(sums.sizes)) % self.boosters
        grown = [_Booster.of(sums, part == k, table, self.start_) for k in range(self.boosters)]
        best, kept, rounds = sum(each.error for each in grown), 0, 0
        while rounds < min(self.rounds, kept + PATIENCE):
            rounds += 1
            error = sum(each.grow(leaves, self.rate, rng) for each in grown)
            if error < best:
                best, kept = error, rounds
        return best, [each.trees[:kept] for each in grown]

    def scores(self, X: Any) -> Floats:
        """Predicted means, shape (n, columns)."""
        table = number_table(X, self).astype(np.float32)
        total = np.zeros((len(table), len(self.start_)))
        for trees in self.trees_:
            for tree in trees:
                total += tree.predict(table).reshape(total.shape)
        return self.start_ + total * self.rate / self.boosters

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


@dataclass(frozen=True)
class _Cells:
    """Noisy means of cells, shape (cells, columns), of which records and how certain."""

    of_record: Keys
    sizes: NDArray[np.int64]
    means: Floats
    weights: Floats

    @classmethod
    def of(cls, cells: Keys, means: Floats, weights: Floats) -> tuple[NDArray[np.intp], "_Cells"]:
        """Cells with the records that stand for them: all, or a regular sample of each where there are too many."""
        order = np.argsort(cells, kind="stable")
        rows = order[:: -(-len(order) // MOST_RECORDS)]
        found, of_record, sizes = np.unique(cells[rows], return_inverse=True, return_counts=True)
        return rows, cls(of_record, sizes, means[found], weights[found])

    def excess(self, predicted: Floats) -> Floats:
        """By how much each cell's noisy mean exceeds the mean prediction for its records."""
        sums = [np.bincount(self.of_record, column, len(self.sizes)) for column in predicted.T]
        return self.means - np.column_stack(sums) / self.sizes[:, None]

    def sample(self, cells: NDArray[np.bool_], rng: Any) -> NDArray[np.intp]:
        """The records of about half of some cells, or of fewer where that is too many; of all where none were drawn."""
        share = min(0.5, MOST_ROWS / max(float(self.sizes[cells].sum()), 1.0))
        drawn = cells & (rng.random(len(cells)) < share)
        return np.flatnonzero((drawn if drawn.any() else cells)[self.of_record])


@dataclass
class _Booster:
    """Trees that were grown on some of the cells, and what they predict so far."""

    sums: _Cells
    held: NDArray[np.bool_]
    table: NDArray[np.float32]
    predicted: Floats
    trees: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, sums: _Cells, held: NDArray[np.bool_], table: NDArray[np.float32], start: Floats) -> "_Booster":
        """A booster without trees."""
        return cls(sums, held, table, np.tile(start, (len(table), 1)))

    def grow(self, leaves: int, rate: float, rng: Any) -> float:
        """Add a tree; the error on the cells that are held out."""
        rows = self.sums.sample(~self.held, rng)
        tree = DecisionTreeRegressor(
            max_leaf_nodes=leaves,
            min_samples_leaf=max(len(rows) // (5 * leaves), 1),
            max_features=0.5,
            random_state=int(rng.integers(1 << 31)),
        )
        own = self.sums.of_record[rows]
        weights = (self.sums.weights / self.sums.sizes)[own]
        tree.fit(self.table[rows], self.sums.excess(self.predicted)[own], sample_weight=weights)
        self.predicted += rate * tree.predict(self.table).reshape(self.predicted.shape)
        self.trees.append(tree)
        return self.error

    @property
    def error(self) -> float:
        """The weighted sum of squares of what is left in the cells that are held out."""
        left = (self.sums.excess(self.predicted) ** 2).sum(axis=1)
        return float((left * self.sums.weights)[self.held].sum())


class CellTreesRegressor(RegressorMixin, _CellTrees):  # type: ignore[misc]
    """Numbers from noisy means of many small cells; made by `fit_cells`, not fitted to labels of its own."""

    def predict(self, X: Any) -> Floats:
        """Numbers, shape (n,); `Model` keeps them in range."""
        return self.scores(X)[:, 0]


class CellTreesClassifier(ClassifierMixin, _CellTrees):  # type: ignore[misc]
    """Classes from noisy shares in many small cells; made by `fit_cells`, not fitted to labels of its own."""

    @property
    def classes_(self) -> NDArray[np.intp]:
        """Codes 0 to K - 1."""
        return np.arange(len(self.start_))

    def predict_proba(self, X: Any) -> Probabilities:
        """The probabilities nearest to the predicted shares, shape (n, K)."""
        return projected(self.scores(X))

    def predict(self, X: Any) -> NDArray[np.intp]:
        """The code of the likeliest class, shape (n,)."""
        return self.predict_proba(X).argmax(axis=1)

"""What many small cells say together: boosted trees on records, fitted to the noisy means of their cells."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.tree import DecisionTreeRegressor

from labeldp.learners.features import number_table
from labeldp.learners.partitions import Keys
from labeldp.learners.probabilities import Probabilities, projected

Floats = NDArray[np.float64]

MOST_ROWS = 1 << 16
"""Records that one tree is grown on, at most, or half of them."""

PATIENCE = 15
"""Rounds without progress on the cells that were kept out, after which a booster stops."""

FEWEST_CELLS = 20
"""With fewer cells no tree is grown: all records get their common mean."""


class _CellTrees(BaseEstimator):  # type: ignore[misc]
    """Boosted regression trees that know labels only by noisy means over cells.

    Each tree is grown on records, to what the mean of its cell exceeds the mean prediction there: records of one cell
    may get different predictions, and large cells with little noise count for more. Several such boosters are averaged;
    each leaves out some cells, and stops where it predicts those best. All of it is post-processing.

    Args:
        boosters: how many; each leaves out another part of the cells.
        rounds: trees of each, at most.
        rate: share of each tree that is added.
        leaves: of a tree, at most: the first booster tries each of these, and the others take what predicted the cells
            best that it left out. A leaf holds at least a fifth of what it would if all were equal.
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
        table = number_table(features).astype(np.float32)
        self.n_features_in_ = table.shape[1]
        sums = _Cells(cells, np.bincount(cells, minlength=len(means)), means, 1 / variances)
        rng = np.random.default_rng(self.random_state)
        part = rng.permutation(len(means)) % max(self.boosters, 2)
        self.start_ = np.average(means, axis=0, weights=sums.weights)
        self.trees_: list[list[Any]] = []
        if len(means) >= FEWEST_CELLS:
            tried = [self._boost(table, sums, part == 0, leaves, rng) for leaves in self.leaves]
            best = int(np.argmin([error for _, error in tried]))
            others = range(1, self.boosters)
            self.trees_ = [tried[best][0]]
            self.trees_ += [self._boost(table, sums, part == k, self.leaves[best], rng)[0] for k in others]
        return self

    def _boost(
        self, table: NDArray[np.float32], sums: "_Cells", held: NDArray[np.bool_], leaves: int, rng: Any
    ) -> tuple[list[Any], float]:
        """The trees of one booster, up to the best number of them, and its error on the cells that it left out."""
        predicted = np.tile(self.start_, (len(table), 1))
        trees: list[Any] = []
        best, kept = sums.error(predicted, held), 0
        while len(trees) < min(self.rounds, kept + PATIENCE):
            rows = sums.sample(~held, rng)
            tree = DecisionTreeRegressor(
                max_leaf_nodes=leaves,
                min_samples_leaf=max(len(rows) // (5 * leaves), 1),
                max_features=0.5,
                random_state=int(rng.integers(1 << 31)),
            )
            own = sums.of_record[rows]
            tree.fit(table[rows], sums.excess(predicted)[own], sample_weight=(sums.weights / sums.sizes)[own])
            predicted += self.rate * tree.predict(table).reshape(len(table), -1)
            trees.append(tree)
            error = sums.error(predicted, held)
            if error < best:
                best, kept = error, len(trees)
        return trees[:kept], best

    def scores(self, X: Any) -> Floats:
        """Predicted means, shape (n, columns)."""
        table = number_table(X, self.n_features_in_).astype(np.float32)
        total = np.zeros((len(table), len(self.start_)))
        for trees in self.trees_:
            for tree in trees:
                total += tree.predict(table).reshape(total.shape)
        return self.start_ + total * self.rate / self.boosters


@dataclass(frozen=True)
class _Cells:
    """Noisy means of cells, shape (cells, columns), of which records and how certain."""

    of_record: Keys
    sizes: NDArray[np.int64]
    means: Floats
    weights: Floats

    def excess(self, predicted: Floats) -> Floats:
        """By how much each cell's noisy mean exceeds the mean prediction for its records."""
        sums = [np.bincount(self.of_record, column, len(self.sizes)) for column in predicted.T]
        return self.means - np.column_stack(sums) / self.sizes[:, None]

    def error(self, predicted: Floats, cells: NDArray[np.bool_]) -> float:
        """The weighted mean square of what is left in some cells."""
        if not cells.any():
            return 0.0
        return float(np.average((self.excess(predicted)[cells] ** 2).sum(axis=1), weights=self.weights[cells]))

    def sample(self, cells: NDArray[np.bool_], rng: Any) -> NDArray[np.intp]:
        """The records of about half of some cells, or of fewer where that is too many."""
        share = min(0.5, MOST_ROWS / max(float(self.sizes[cells].sum()), 1.0))
        return np.flatnonzero((cells & (rng.random(len(cells)) < share))[self.of_record])


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

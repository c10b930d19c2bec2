"""A ridge regression and boosted trees of noisy numbers, weighted by their likelihood on held-out values."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.optimize import nnls
from sklearn.base import BaseEstimator, RegressorMixin

from labeldp.features import TableMap, check_columns, number_table
from labeldp.learners.classifiers import boosted_regression, without_rare_columns
from labeldp.learners.linear import LinearRegressor
from labeldp.privacy import Floats, InputError

TREES = 20
"""Random trees of the richer map."""

MOST_NUMBERS = 100
"""Tables of so many columns get no richer map."""

BINS = 255
"""The most values of a column that trees tell apart."""

MOST_DIRECTIONS = 400
"""A map of more columns is reduced to so many principal directions."""

FOLDS, SEARCHES = 5, 2

SIGNALS = (0.0, *np.geomspace(3e-4, 10, 7))
"""What columns of a kind may explain, in units of the noise of a value."""

TINY = 1e-200
"""A square that counts as zero: values that differ have larger ones."""

BELIEF, SPREAD = (1.0, 0.0), 0.3
"""Weights of regression and trees before there are answers, and how far they are expected to move."""


class BlendedRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A weighted sum of fitted regressors, clipped to a range.

    Args:
        lines: fitted regressors of features, whose predictions are added up.
        trees: fitted regressors of features that `binned` made, whose predictions are averaged.
        cuts: of each column.
        shares: of the lines and of the trees.
        offset: added to both.
        ends: of the range.
    """

    def __init__(self, lines: Any, trees: Any, cuts: Any, shares: Any, offset: float, ends: Any) -> None:
        self.lines = lines
        self.trees = trees
        self.cuts = cuts
        self.shares = shares
        self.offset = offset
        self.ends = ends

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return predicted numbers, shape (n,)."""
        table = number_table(X, self)
        total = np.full(len(table), float(self.offset))
        if self.shares[0]:
            total += self.shares[0] * sum(line.predict(table) for line in self.lines)
        if self.shares[1]:
            coded = binned(table, self.cuts)
            total += self.shares[1] * np.mean([tree.predict(coded) for tree in self.trees], axis=0)
        return np.clip(total, *self.ends)


def quantile_cuts(table: Any, mask: NDArray[np.bool_]) -> list[Floats]:
    """Return the lower ends of the bins of each column; categories and columns of few values have none.

    Trees bin their columns themselves, but slowly where records have weights, and for each fold again.
    """
    shares, none = np.linspace(0, 1, BINS + 1)[1:-1], np.zeros(0)
    columns = [column[np.isfinite(column)] for column in table.T]
    return [
        none if named or len(np.unique(column)) <= BINS else np.unique(np.quantile(column, shares))
        for column, named in zip(columns, mask, strict=True)
    ]


def binned(table: Any, cuts: Sequence[Floats]) -> Any:
    """Return a table with the numbers of bins in columns that have cuts, NaN where a value is missing."""
    coded = np.array(table, dtype=np.float64)
    for column, starts in zip(coded.T, cuts, strict=True):
        if len(starts):
            column[:] = np.where(np.isnan(column), np.nan, np.searchsorted(starts, column, side="right"))
    return coded


@dataclass(frozen=True)
class View:
    """Features as a map encodes them, in centered directions.

    Args:
        encoder: the fitted map.
        basis: directions of mapped features, shape (p, d); None for all columns as they are.
        mean: of the mapped features, shape (p,).
        rows: centered features along the directions, shape (n, d).
    """

    encoder: Any
    basis: NDArray[np.float32] | None = field(repr=False)
    mean: NDArray[np.float32] = field(repr=False)
    rows: NDArray[np.float32] = field(repr=False)

    @classmethod
    def of(cls, encoder: Any, features: Any) -> "View":
        """Fit a map on features alone."""
        table = encoder.fit(features).transform(features)
        mean = table.mean(axis=0)
        table -= mean
        width = table.shape[1]
        if width <= MOST_DIRECTIONS:
            return cls(encoder, None, mean, table)
        basis = eigh(table.T @ table, subset_by_index=(width - MOST_DIRECTIONS, width - 1))[1].astype(np.float32)
        return cls(encoder, basis, mean, table @ basis)

    def regressor(self, coefficients: Floats, offset: float) -> LinearRegressor:
        """Return a regressor of features, from coefficients of the directions, shape (d,)."""
        full = coefficients if self.basis is None else self.basis @ coefficients
        return LinearRegressor(self.encoder, full[:, None], np.array([offset - self.mean @ full]))


class Blend:
    """A learner of noisy numbers of a table: a ridge regression of its columns and of a map, and trees.

    Args:
        features: public features of all records, shape (n, d).
        categorical: boolean mask of the columns that hold category codes, shape (d,).
        ends: of the range.
    """

    def __init__(self, features: Any, categorical: Any, ends: tuple[float, float]) -> None:
        table = number_table(features)
        mask = np.zeros(table.shape[1], np.bool_) if categorical is None else np.asarray(categorical, dtype=np.bool_)
        if mask.shape != table.shape[1:]:
            raise InputError("must say of each column whether it holds category codes", argument="categorical")
        self.features, self.mask, self.ends = features, mask, ends
        self.cuts = quantile_cuts(table, mask)
        self.coded = binned(table, self.cuts)
        maps = [TableMap(categorical=mask, bins=1, trees=0)]
        if table.shape[1] < MOST_NUMBERS:
            maps.append(TableMap(categorical=mask, trees=TREES))
        self.views = [View.of(encoder, table) for encoder in maps]
        self.columns = np.hstack([view.rows for view in self.views])
        self.kinds = np.repeat(np.arange(len(maps)), [view.rows.shape[1] for view in self.views])

    def fit(self, rows: NDArray[np.intp], values: Floats, weights: Floats) -> BlendedRegressor:
        """Learn from unbiased values of some records, shape (m,), with variances inversely proportional to the weights.

        Models of the other folds predict each fold of the records. The shares of regression and trees are
        those under which held-out values are likeliest, under a prior. Trees of all folds are averaged.
        """
        weights = weights / weights.mean()
        mean = float(np.average(values, weights=weights))
        centered, folds = values - mean, np.random.default_rng(0).permutation(len(rows)) % FOLDS
        coefficients, line = ridge_regression(self.columns[rows], self.kinds, centered, weights, folds)
        lines = [view.regressor(coefficients[self.kinds == kind], 0.0) for kind, view in enumerate(self.views)]
        forest, trees, table = np.zeros(len(rows)), [], self.coded[rows]
        for fold in range(FOLDS):
            training, held = folds != fold, folds == fold
            learner = boosted_regression(int(training.sum()), self.mask if self.mask.any() else None)
            trees.append(
                learner.fit(without_rare_columns(table[training]), values[training], sample_weight=weights[training])
            )
            forest[held] = trees[-1].predict(table[held]) - mean
        shares = _shares(np.column_stack([line, forest]), centered, weights)
        offset = mean * (1 - float(shares[1]))
        model = BlendedRegressor(lines, trees, self.cuts, shares, offset, self.ends)
        check_columns(model, self.features, fit=True)
        return model


def ridge_regression(
    rows: Any, kinds: NDArray[np.intp], values: Floats, weights: Floats, folds: NDArray[np.intp]
) -> tuple[Floats, Floats]:
    """Return the posterior mean of coefficients, shape (d,), and predictions of held-out values, shape (m,).

    Coefficients of each kind of columns are normal with one variance; the variances are those under which the values
    are likeliest.
    """
    grams, moments = [], []
    for fold in range(FOLDS):
        part = folds == fold
        weighted = rows[part] * weights[part, None].astype(rows.dtype)
        grams.append((weighted.T @ rows[part]).astype(np.float64))
        moments.append(weighted.T.astype(np.float64) @ values[part])
    gram, moment, square = sum(grams), sum(moments), float(weights @ values**2)
    sizes = np.bincount(kinds, np.diag(gram)) / len(rows)
    signals = [SIGNALS[3]] * len(sizes)

    def evidence(kind: int, signal: float) -> float:
        options = [*signals[:kind], signal, *signals[kind + 1 :]]
        return _log_likelihood(gram, moment, square, _variances(options, sizes, kinds), len(rows))

    for _ in range(SEARCHES):
        for kind in range(len(sizes)):
            scores = [evidence(kind, signal) for signal in SIGNALS]
            signals[kind] = SIGNALS[int(np.argmax(scores))]
    variances = _variances(signals, sizes, kinds)
    held_out = np.zeros(len(rows))
    for fold in range(FOLDS):
        training = _posterior(gram - grams[fold], moment - moments[fold], variances)
        held_out[folds == fold] = rows[folds == fold] @ training
    return _posterior(gram, moment, variances), held_out


def _variances(signals: Sequence[float], sizes: Floats, kinds: NDArray[np.intp]) -> Floats:
    """Return the prior variance of each coefficient, in units of the noise, shape (d,)."""
    return np.asarray((np.array(signals) / np.maximum(sizes, 1e-12))[kinds])


def _scaled(gram: Floats, moment: Floats, variances: Floats) -> tuple[Any, Floats]:
    """Return the factored precision of coefficients over their prior standard deviations, and the scaled moment."""
    root = np.sqrt(variances)
    return cho_factor(gram * root * root[:, None] + np.eye(len(root)), lower=True), moment * root


def _posterior(gram: Floats, moment: Floats, variances: Floats) -> Floats:
    factor, scaled = _scaled(gram, moment, variances)
    return np.asarray(np.sqrt(variances) * cho_solve(factor, scaled))


def _log_likelihood(gram: Floats, moment: Floats, square: float, variances: Floats, count: int) -> float:
    """Return the logarithm of the likelihood of all values, at the noise under which it is largest."""
    factor, scaled = _scaled(gram, moment, variances)
    # Where all values are equal nothing is left, and every choice explains them as well.
    left = max(square - float(scaled @ cho_solve(factor, scaled)), 1e-12 * square, TINY)
    return -count / 2 * float(np.log(left)) - float(np.log(np.diag(factor[0])).sum())


def _shares(held_out: Floats, values: Floats, weights: Floats) -> Floats:
    """Return nonnegative weights of predictions, shape (m, parts), with a sum of at most 1."""
    noise = float(np.average((values - held_out[:, 0]) ** 2, weights=weights))
    root = np.sqrt(weights / max(noise, TINY))
    design = np.vstack([held_out * root[:, None], np.eye(len(BELIEF)) / SPREAD])
    shares = nnls(design, np.append(values * root, np.array(BELIEF) / SPREAD))[0]
    return np.asarray(shares / max(shares.sum(), 1.0))

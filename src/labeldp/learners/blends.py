"""Two ridge regressions and boosted trees of noisy numbers, weighted by what held-out answers say."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, solve
from scipy.optimize import nnls
from sklearn.base import BaseEstimator, RegressorMixin

from labeldp.learners.classifiers import boosted_regression
from labeldp.learners.features import check_columns, number_table
from labeldp.learners.linear import LinearRegressor
from labeldp.learners.representations import TableMap
from labeldp.privacy import Floats

TREES = 20
"""Random trees of the richer map."""

MOST_NUMBERS = 100
"""Tables of so many columns get no richer map."""

MOST_DIRECTIONS = 400
"""A map of more columns is reduced to so many principal directions."""

FOLDS = 3
PENALTIES = np.geomspace(1e-4, 1e3, 15)
"""Factors on the mean square of the columns."""

BELIEF, SPREAD = (1.0, 0.0, 0.0), 0.5
"""Weights before there are answers, and how far they are expected to move: as far as answers allow."""


class BlendedRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A weighted sum of fitted regressors, clipped to a range; it is not fitted to labels of its own.

    Args:
        parts: fitted regressors.
        weights: their weights, shape (parts,).
        offset: added to their weighted sum.
        ends: of the range.
    """

    def __init__(self, parts: Any, weights: Any, offset: float, ends: Any) -> None:
        self.parts = parts
        self.weights = weights
        self.offset = offset
        self.ends = ends

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return predicted numbers, shape (n,)."""
        table = number_table(X, self)
        kept = [(part, weight) for part, weight in zip(self.parts, self.weights, strict=True) if weight]
        total = sum((weight * part.predict(table) for part, weight in kept), np.full(len(table), float(self.offset)))
        return np.clip(total, *self.ends)


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
    """What learns from noisy numbers of a table: a ridge regression of its columns, another one of a map, and trees.

    Args:
        features: public features of all records, shape (n, d).
        categorical: boolean mask of the columns that hold category codes, shape (d,).
        ends: of the range.
    """

    def __init__(self, features: Any, categorical: Any, ends: tuple[float, float]) -> None:
        table = number_table(features)
        mask = np.zeros(table.shape[1], np.bool_) if categorical is None else np.asarray(categorical, dtype=np.bool_)
        self.features, self.table, self.mask, self.ends = features, table, mask, ends
        maps = [TableMap(categorical=mask, bins=1, trees=0)]
        if table.shape[1] < MOST_NUMBERS:
            maps.append(TableMap(categorical=mask, trees=TREES))
        self.views = [View.of(encoder, table) for encoder in maps]

    def fit(self, rows: NDArray[np.intp], values: Floats, weights: Floats) -> BlendedRegressor:
        """Learn from unbiased values of some records, shape (m,), whose inverse variances are as the weights.

        Each fold of the records is predicted by what learned from the others. The weights of the regressors are those
        under which held-out values are likeliest, under a prior for the first one. Trees of all folds are averaged.
        """
        weights = weights / weights.mean()
        mean = float(np.average(values, weights=weights))
        centered, folds = values - mean, np.random.default_rng(0).permutation(len(rows)) % FOLDS
        fits = [_ridge(view.rows[rows], centered, weights, folds) for view in self.views]
        parts: list[Any] = [
            view.regressor(coefficients, mean) for view, (coefficients, _) in zip(self.views, fits, strict=True)
        ]
        held_out, trees = np.column_stack([*(held for _, held in fits), np.zeros(len(rows))]), []
        table = self.table[rows]
        for fold in range(FOLDS):
            known, held = folds != fold, folds == fold
            learner = boosted_regression(int(known.sum()), self.mask if self.mask.any() else None)
            trees.append(learner.fit(table[known], centered[known] + mean, sample_weight=weights[known]))
            held_out[held, -1] = trees[-1].predict(table[held]) - mean
        shares = _shares(held_out, centered, weights)
        each = np.append(shares[:-1], np.full(FOLDS, shares[-1] / FOLDS))
        model = BlendedRegressor([*parts, *trees], each, mean * (1 - shares.sum()), self.ends)
        check_columns(model, self.features, fit=True)
        return model


def _ridge(rows: Any, values: Floats, weights: Floats, folds: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Return coefficients of the penalty of least held-out error, and held-out predictions, shapes (d,) and (m,)."""
    grams, moments = [], []
    for fold in range(FOLDS):
        part = folds == fold
        weighted = rows[part] * weights[part, None].astype(rows.dtype)
        grams.append((weighted.T @ rows[part]).astype(np.float64))
        moments.append(weighted.T.astype(np.float64) @ values[part])
    gram, moment = sum(grams), sum(moments)
    scale = max(float(np.trace(gram)) / len(gram), 1e-12)
    held_out = np.zeros((len(rows), len(PENALTIES)))
    for fold in range(FOLDS):
        part, known, target = folds == fold, gram - grams[fold], moment - moments[fold]
        guesses = np.column_stack([_solved(known, target, penalty * scale) for penalty in PENALTIES])
        held_out[part] = rows[part] @ guesses
    best = int(np.argmin(weights @ (values[:, None] - held_out) ** 2))
    return _solved(gram, moment, PENALTIES[best] * scale), held_out[:, best]


def _solved(gram: Floats, moment: Floats, penalty: float) -> Floats:
    return np.asarray(solve(gram + penalty * np.eye(len(gram)), moment, assume_a="pos"))


def _shares(held_out: Floats, values: Floats, weights: Floats) -> Floats:
    """Return nonnegative weights of predictions, shape (m, parts), with a sum of at most 1."""
    belief = np.array([*BELIEF[: held_out.shape[1] - 1], BELIEF[-1]])
    root = np.sqrt(weights / np.average((values - held_out[:, 0]) ** 2, weights=weights))
    design = np.vstack([held_out * root[:, None], np.eye(len(belief)) / SPREAD])
    shares = nnls(design, np.append(values * root, belief / SPREAD))[0]
    return np.asarray(shares / max(shares.sum(), 1.0))

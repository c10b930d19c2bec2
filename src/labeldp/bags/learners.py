"""Learning from released sums over bags: exact least squares, and any regressor of bag means."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from labeldp.bags import ReleasedSums
from labeldp.features import GapTags, check_columns, check_rows, number_table, takes_gaps
from labeldp.learners import CellTreesRegressor, LinearRegressor, Model
from labeldp.mechanisms import Interval
from labeldp.privacy import Floats, InputError, Release, check_nonnegative

VARIANCE_ROUNDS = 4
"""How often the variance of labels around the fit is estimated from the residuals of the last fit."""


@dataclass(frozen=True, eq=False)
class BagRows:
    """Linear equations from released bags: features · coefficients = sums, up to noise and deviations of labels.

    Args:
        features: weighted sums of feature rows, shape (r, d).
        sums: weighted sums of labels with their noise, shape (r,).
        squares: sums of squared weights, shape (r,): the variance of a sum in variances of one label.
        variances: public variances of the noise, shape (r,).
    """

    features: Floats = field(repr=False)
    sums: Floats = field(repr=False)
    squares: Floats = field(repr=False)
    variances: Floats = field(repr=False)


def bag_product(bags: Any, weights: Any = None) -> Any:
    """Return the sparse matrix (bags, n) that sums rows (n, d) over bags in one pass.

    It is fastest if features are sorted by bag.

    Args:
        bags: bag of each record, shape (n,).
        weights: weight of each record, shape (n,); 1 by default.

    Examples:
        >>> (bag_product([1, 0, 1]) @ np.array([[1.0], [2.0], [3.0]])).tolist()
        [[2.0], [4.0]]
    """
    from scipy.sparse import csc_array

    of_record = np.asarray(bags)
    count, kind = len(of_record), np.int32 if len(of_record) < 2**31 else np.int64
    values = np.ones(count) if weights is None else np.asarray(weights)
    starts = np.arange(count + 1, dtype=kind)
    return csc_array((values, of_record.astype(kind), starts), shape=(int(of_record.max(initial=-1)) + 1, count))


def bag_rows(features: Any, release: Release[Any]) -> BagRows:
    """Return sums of public features next to released sums of labels, with a constant feature first.

    Args:
        features: public numbers, shape (n, d). With `WeightedLBA` the released sums of features are used, without a
            constant feature, and labels are relative to the middle of their range.
        release: a release of `BagSum`, `NoisyWeightedLLP` or `WeightedLBA`, or what `read_bags` read.

    Raises:
        InputError: the release has no bags, or features do not fit it.
    """
    shown = ReleasedSums.of(release)
    table = np.asarray(number_table(features, gaps=False), dtype=np.float64)
    check_rows(table, shown.records)
    variances = np.asarray(shown.noise_stddev, dtype=np.float64) ** 2
    if shown.bags is None or shown.weights is None:
        assert shown.features is not None
        if shown.features.shape[1] != table.shape[1]:
            raise InputError("features must have the columns that were released")
        return BagRows(shown.features, shown.sums, shown.sizes, variances)
    product = bag_product(shown.bags, shown.weights)
    squares = np.bincount(shown.bags, weights=np.square(shown.weights))
    rows = np.column_stack([product.sum(axis=1), product @ table])
    return BagRows(rows, shown.sums, squares.astype(np.float64), variances)


def fit_bags(features: Any, release: Release[Any], *, ridge: float = 0.0) -> Release[Model]:
    """Fit a linear model to released bags by least squares, weighted if bags differ in noise or weights.

    This is the exact solution that gradient descent approaches in many steps: with m bags and d features its expected
    error is τ²(1 + d/(m − d − 1)), whatever the size of the bags. All of it is post-processing, as is the variance of
    labels around the fit, which is estimated from the residuals.

    Args:
        features: public numbers, shape (n, d), in the order of the labels, or of the rows of a file.
        release: a release of `BagSum`, `NoisyWeightedLLP` or `WeightedLBA`, or what `read_bags` read.
        ridge: penalty on squared coefficients of columns of unit variance, as a share of the bags' weight.

    Raises:
        InputError: the release has no bags, features do not fit it, or the penalty is negative.

    Source: Brahmbhatt, Section 1.1, for the linear regression of aggregates.
    """
    check_nonnegative(ridge, "ridge")
    rows, shown = bag_rows(features, release), ReleasedSums.of(release)
    middle = sum(shown.domain.ends) / 2 if shown.bags is None else None
    return release.map(lambda _: bag_model(rows, shown.domain, features, ridge, middle))


def bag_model(rows: BagRows, domain: Any, features: Any, ridge: float = 0.0, middle: float | None = None) -> Model:
    """Return the linear model of least squares of equations from released bags.

    Args:
        rows: the equations, with a constant first unless `middle` is given.
        features: a table with the columns of the features.
        middle: the middle of the range where labels are relative to it.
    """
    coefficients = least_squares(rows, ridge, constant=middle is None)
    offset, slopes = (coefficients[0], coefficients[1:]) if middle is None else (middle, coefficients)
    estimator = LinearRegressor(FunctionTransformer(), slopes[:, None], np.array([offset]))
    check_columns(estimator, features, fit=True)
    return Model(domain if domain.target == "numbers" else Interval(0, 1), estimator)


def least_squares(rows: BagRows, ridge: float = 0.0, *, constant: bool = True) -> Floats:
    """Return coefficients of least squares, weighted by the inverse variance of each sum, shape (d,).

    Args:
        constant: whether the first column is a constant, which has no penalty.
    """
    spread = 0.0
    for _ in range(VARIANCE_ROUNDS):
        weights = 1 / np.maximum(spread * rows.squares + rows.variances, 1e-12 * rows.squares)
        coefficients = _solved(rows, weights, ridge, constant)
        left = np.square(rows.sums - rows.features @ coefficients)
        freedom = max(1 - rows.features.shape[1] / len(left), 1 / len(left))
        total = float(np.average(left / rows.squares, weights=rows.squares) / freedom)
        spread = max(total - float(rows.variances.sum() / rows.squares.sum()), 0.0)
    return coefficients


def _solved(rows: BagRows, weights: Floats, ridge: float, constant: bool) -> Floats:
    """Solve weighted equations, with columns scaled first, so that units do not matter."""
    roots = np.sqrt(weights / weights.mean())[:, None]
    scale = np.sqrt(np.mean(rows.features**2, axis=0))
    scale[scale == 0] = 1.0
    left, right = roots * rows.features / scale, roots[:, 0] * rows.sums
    if ridge:
        penalty = np.sqrt(ridge * len(left)) * np.eye(left.shape[1])
        penalty = penalty[1:] if constant else penalty
        left, right = np.vstack([left, penalty]), np.append(right, np.zeros(len(penalty)))
    return np.asarray(np.linalg.lstsq(left, right, rcond=None)[0] / scale)


LEAVES = 32
"""Leaves of one tree: trying other numbers takes three times as long and changes little."""


class BagRegressor(GapTags, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Any scikit-learn regressor on the noisy means of bags of similar records, as `BagSum` releases them.

    The regressor sees one row for each bag: the mean of its features and the noisy mean of its labels. By default trees
    are boosted on the records themselves, as in `fit_cells`.

    Args:
        estimator: regressor; by default boosted trees, which take a few seconds for ten thousand records.
    """

    def __init__(self, estimator: Any = None) -> None:
        self.estimator = estimator

    def fit(self, X: Any, release: Release[Any]) -> Self:
        """Learn from public features, shape (n, d), and released sums over bags.

        Raises:
            InputError: `release` is not of `BagSum`, or features do not fit it.
        """
        if self.estimator is not None and not hasattr(self.estimator, "fit"):
            raise InputError("estimator must be a regressor of scikit-learn, or None for boosted trees")
        shown = ReleasedSums.of(release)
        if not shown.plain:
            raise InputError("release must be what a curator released by BagSum: weighted sums have no means")
        bags, table = np.asarray(shown.bags), np.asarray(number_table(X, self, fit=True), dtype=np.float64)
        check_rows(table, shown.records)
        self.range_, sizes = shown.domain.ends, shown.sizes
        means, width = shown.sums / sizes, self.range_[1] - self.range_[0]
        variances = (shown.noise_stddev / sizes) ** 2 + (width / 4) ** 2 / sizes
        if self.estimator is None:
            trees = CellTreesRegressor(leaves=(LEAVES,))
            self.estimator_ = trees.learn(table, bags, means[:, None], variances)
        else:
            centers = bag_product(bags, 1 / sizes[bags]) @ table
            weighted = has_fit_parameter(self.estimator, "sample_weight")
            weights = {"sample_weight": variances.min() / variances} if weighted else {}
            self.estimator_ = clone(self.estimator).fit(centers, means, **weights)
        self.certificate_ = release.certificate
        return self

    def predict(self, X: Any) -> Floats:
        """Return predicted numbers, clipped to the declared range, shape (n,)."""
        check_is_fitted(self, "estimator_")
        return np.clip(self.estimator_.predict(number_table(X, self)), *self.range_)

    @property
    def _takes_gaps(self) -> bool:  # type: ignore[override]
        return self.estimator is None or takes_gaps(self.estimator)

"""Learning from released sums over bags: what they say in rows, exact least squares, and any regressor of bag means."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from labeldp.learners.cells.central import CellTreesRegressor
from labeldp.learners.features import check_columns, check_rows, number_table
from labeldp.learners.linear import LinearRegressor
from labeldp.learners.model import Model
from labeldp.mechanisms import Interval, ReleasedSums
from labeldp.privacy import Floats, InputError, Release

ROUNDS = 4
"""Times that the variance of labels around the fit is estimated from what the last fit left."""


@dataclass(frozen=True, eq=False)
class BagRows:
    """What released bags say about a linear model: row · coefficients = sum of labels, up to their deviation and noise.

    Args:
        features: weighted sums of feature rows, shape (r, d).
        sums: weighted sums of labels with their noise, shape (r,).
        squares: sums of squared weights, shape (r,): so much of one label's variance does a sum have.
        variances: of the noise, public, shape (r,).
    """

    features: Floats = field(repr=False)
    sums: Floats = field(repr=False)
    squares: Floats = field(repr=False)
    variances: Floats = field(repr=False)


def bag_product(bags: Any, weights: Any = None) -> Any:
    """The sparse matrix (bags, n) that sums rows (n, d) over bags, one pass over them in the order in which they stand.

    Fastest where the records of a bag stand together: sort public features by bag once where they are read often.

    Args:
        bags: the bag of each record, shape (n,).
        weights: of each record, shape (n,); 1 by default.

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
    """Sums of public features beside released sums of labels, with a constant feature first.

    Args:
        features: public, numbers, shape (n, d). Of a `WeightedLBA` the released sums of features count, and labels are
            those less the middle of their range; a constant feature is there only if it was.
        release: of `BagSum`, `NoisyWeightedLLP` or `WeightedLBA`, or what `read_bags` read.

    Raises:
        InputError: another release, or features that do not fit it.
    """
    shown = ReleasedSums.of(release)
    table = _table(features, shown)
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


def _table(features: Any, shown: ReleasedSums) -> Floats:
    """Public features as finite numbers, one row for each record of the bags.

    Raises:
        InputError: anything else.
    """
    table = np.asarray(number_table(features, gaps=False), dtype=np.float64)
    check_rows(table, shown.records)
    return table


def fit_bags(features: Any, release: Release[Any], *, ridge: float = 0.0) -> Release[Model]:
    """The linear model of least squares on released bags, weighted where bags differ in noise or weights.

    Descent on a linear model takes many steps and ends where this begins: with m bags and d features its expected error
    is τ²(1 + d/(m − d − 1)), whatever the bags' size is. All of it is post-processing, the variance of labels around
    the fit included, which is estimated from what is left of the released sums.

    Args:
        features: public, numbers, shape (n, d), in the order of the labels, or of the rows of a file.
        release: of `BagSum`, `NoisyWeightedLLP` or `WeightedLBA`, or what `read_bags` read.
        ridge: penalty on squared coefficients of columns of unit variance, as a share of the bags' weight.

    Raises:
        InputError: no release of bags, features that do not fit, or a negative penalty.

    Source: Brahmbhatt, Section 1.1, for the linear regression of aggregates.
    """
    if isinstance(ridge, bool) or not isinstance(ridge, int | float) or not 0 <= ridge < np.inf:
        raise InputError("ridge must be at least 0")
    rows, shown = bag_rows(features, release), ReleasedSums.of(release)
    hidden = shown.bags is None
    coefficients = least_squares(rows, ridge, constant=not hidden)
    domain, middle = shown.domain, sum(shown.range) / 2
    offset, slopes = (middle, coefficients) if hidden else (coefficients[0], coefficients[1:])
    estimator = LinearRegressor(FunctionTransformer(), slopes[:, None], np.array([offset]))
    check_columns(estimator, features, fit=True)
    bounds = domain if isinstance(domain, Interval) else Interval(0, 1)
    return release.map(lambda _: Model(bounds, estimator))


def least_squares(rows: BagRows, ridge: float = 0.0, *, constant: bool = True) -> Floats:
    """Coefficients of weighted least squares, shape (d,): weights are one over the variance of each sum.

    Args:
        rows: what the bags say.
        ridge: as in `fit_bags`.
        constant: whether the first column is one that no penalty is for.
    """
    spread = 0.0
    for _ in range(ROUNDS):
        weights = 1 / np.maximum(spread * rows.squares + rows.variances, 1e-12 * rows.squares)
        coefficients = _solved(rows, weights, ridge, constant)
        left = np.square(rows.sums - rows.features @ coefficients)
        freedom = max(1 - rows.features.shape[1] / len(left), 1 / len(left))
        found = float(np.average(left / rows.squares, weights=rows.squares) / freedom)
        spread = max(found - float(rows.variances.sum() / rows.squares.sum()), 0.0)
    return coefficients


def _solved(rows: BagRows, weights: Floats, ridge: float, constant: bool) -> Floats:
    """One weighted solution; columns are scaled first, so that units do not matter."""
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
"""Of one tree: to try other numbers takes three times as long and changes little."""


class BagRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Any scikit-learn regressor on the noisy means of bags of similar records, as `BagSum` releases them.

    The regressor sees one row for each bag: the mean of its features and the noisy mean of its labels. By default trees
    are boosted on the records, to what the means of their bags leave open.

    Args:
        estimator: regressor; by default boosted trees, which take a few seconds for ten thousand records.
    """

    def __init__(self, estimator: Any = None) -> None:
        self.estimator = estimator

    def fit(self, X: Any, release: Release[Any]) -> Self:
        """Learn from public features, shape (n, d), and released sums over bags.

        Raises:
            InputError: no release of `BagSum`, or features that do not fit it.
        """
        if self.estimator is not None and not hasattr(self.estimator, "fit"):
            raise InputError("estimator must be a regressor of scikit-learn, or None for boosted trees")
        shown = ReleasedSums.of(release)
        if not shown.plain:
            raise InputError("release must be what a curator released by BagSum: weighted sums have no means")
        bags, table = np.asarray(shown.bags), np.asarray(number_table(X, self, fit=True), dtype=np.float64)
        check_rows(table, shown.records)
        self.range_, sizes = shown.range, shown.sizes
        means, width = shown.sums / sizes, self.range_[1] - self.range_[0]
        variances = (shown.noise_stddev / sizes) ** 2 + (width / 4) ** 2 / sizes
        if self.estimator is None:
            trees = CellTreesRegressor(leaves=(LEAVES,))
            self.estimator_ = trees.learn(table, bags, means[:, None], variances)
        else:
            centers = bag_product(bags, 1 / sizes[bags]) @ table
            weighted = has_fit_parameter(self.estimator, "sample_weight")
            given = {"sample_weight": variances.min() / variances} if weighted else {}
            self.estimator_ = clone(self.estimator).fit(centers, means, **given)
        self.certificate_ = release.certificate
        return self

    def predict(self, X: Any) -> Floats:
        """Predicted numbers, kept in the declared range, shape (n,)."""
        check_is_fitted(self, "estimator_")
        return np.clip(self.estimator_.predict(number_table(X, self)), *self.range_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = self.estimator
        tags.input_tags.allow_nan = inner is None or (
            isinstance(inner, BaseEstimator) and inner.__sklearn_tags__().input_tags.allow_nan
        )
        return tags

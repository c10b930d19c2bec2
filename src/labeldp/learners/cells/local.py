"""Learners on labels that were randomized one by one, with one answer for each cell of a partition."""

from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from labeldp.features import (
    GapTags,
    check_columns,
    check_rows,
    column_medians,
    number_table,
    row_table,
    rows_of,
    take_rows,
    takes_gaps,
)
from labeldp.learners.cells.partitions import Keys, MedianPartition, keys_by_tree
from labeldp.learners.evidence import Evidence, Probabilities, normalized, projected, refuse_reused
from labeldp.learners.tuning import tune
from labeldp.mechanisms import Classes, Interval, debias
from labeldp.privacy import AnyFloats, Certificate, InputError, NotInvertibleError, Public, Release, Unit, gather

RECORDS_IN_CELL = (25, 100, 400, 1600, 6400)
"""The sizes of cells that `tune` chooses from where no partition is given."""

FOLDS = 5


def cell_counts(records: int) -> list[int]:
    """Return the numbers of cells to try for a given number of records."""
    return sorted({max(records // size, 1) for size in RECORDS_IN_CELL})


class _Cells(GapTags, BaseEstimator):  # type: ignore[misc]
    """Cells of a partition with a value in each."""

    def __init__(self, partition: Any = None) -> None:
        self.partition = partition

    def cut(self, features: Any, fitted: Any) -> list[Keys]:
        """Find the non-empty cells of a fitted partition, and return the number of each record's own, for each tree."""
        check_columns(self, features, fit=True)
        keys = keys_by_tree(fitted.transform(features))
        self.scale_ = FeatureScale.of(features)
        fits = [NonEmptyCells.of(fitted, column, self.scale_) for column in keys]
        self.cells_, column = (list(part) for part in zip(*fits, strict=True))
        self.partition_ = fitted if source_of(fitted) is None else fitted.without_source()
        return column

    def take(self, features: Any, fitted: Any, keys: Keys, sizes: NDArray[np.int64]) -> None:
        """Take non-empty cells of a fitted partition that are known, for features of some of their records."""
        check_columns(self, features, fit=True)
        self.scale_ = FeatureScale.of(features)
        self.cells_ = [NonEmptyCells(keys, sizes, self.scale_.apply(fitted.centers(keys)))]
        self.partition_ = fitted if source_of(fitted) is None else fitted.without_source()

    def _prepared(self, features: Any, release: Release[Any]) -> list[Keys]:
        """Fit the given partition or the default one, certify what it costs, and return the cells of the records."""
        features = row_table(features)
        number_table(features, self, fit=True)
        check_rows(features, len(release.value))
        refuse_reused(release.mechanism, release.value, X=features)
        fitted = fitted_partition(self.partition or self._chosen(features, release), features)
        self.certificate_ = certified(release, source_of(fitted))
        return self.cut(features, fitted)

    def _chosen(self, features: Any, release: Release[Any]) -> Any:
        """Return median cells of the size at which released labels predict each other best."""
        records = rows_of(features)
        learners = [clone(self).set_params(partition=MedianPartition(count)) for count in cell_counts(records)]
        alike = len(learners) > 1 and records >= FOLDS and release.mechanism.records is None
        return (tune(learners, features, release, folds=FOLDS).learner if alike else learners[0]).partition

    def answers(self, features: Any) -> NDArray[np.float64]:
        """Return the value of each record's cell, averaged over trees."""
        check_is_fitted(self, "values_")
        features = row_table(features)
        check_columns(self, features)  # the partition looks at the numbers
        keys = keys_by_tree(self.partition_.transform(features))
        total: Any = 0.0
        for column, cells, values in zip(keys, self.cells_, self.values_, strict=True):
            total = total + values[cells.locate(column, features, self.scale_)]
        return np.asarray(total / len(self.cells_))

    @property
    def _takes_gaps(self) -> bool:  # type: ignore[override]
        return self.partition is None or takes_gaps(self.partition)


def fitted_partition(partition: Any, features: Any) -> Any:
    """Return a copy of a partition, fitted to features; refuse what is none, or rests on a release of no labels."""
    if not all(callable(getattr(partition, name, None)) for name in ("fit", "transform", "centers")):
        raise InputError("partition must be a rule that cuts features into cells, such as MedianPartition(100)")
    source = source_of(partition)
    if isinstance(source, Release) and not source.certificate.neighbors.covers(Unit.ONE_LABEL):
        raise InputError("partition must rest on released labels: no certificate joins labels and losses")
    # A clone would lose what a tree was fitted to.
    return copy(partition).fit(features)


def source_of(partition: Any) -> Any:
    """Return what a partition rests on that is public or was released; None if it rests on features alone."""
    return getattr(partition, "source", None)


def certified(release: Release[Any], source: Public[Any] | Release[Any] | None) -> Certificate:
    """Return the certificate of cells with released labels: it covers the charges or the condition of their source."""
    if isinstance(source, Release):
        return gather([release, source], lambda *_: None).certificate
    if source is None:
        return release.certificate
    condition = f"the cells do not depend on the private labels ({source.why})"
    return replace(release.certificate, assumptions=(*release.certificate.assumptions, condition))


class CellRegressor(RegressorMixin, _Cells):  # type: ignore[misc]
    """A regressor on released numbers that predicts the mean of each cell of a partition.

    Use it on a release of `DiscreteLaplace`. For a record in an empty cell the nearest non-empty cell answers; a forest
    of partitions answers with the mean over its trees.

    Args:
        partition: unfitted partition; by default `MedianPartition` with the number of cells that best predicts held-out
            released labels.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, eq. (20), with cells in
    place of neighbors.
    """

    def fit(self, X: Any, release: Release[Any]) -> Self:
        """Learn the cells from features, shape (n, d), and their values from released numbers.

        Raises:
            InputError: features do not fit the partition, or `release` has no numbers.
            NotInvertibleError: the noise has no inverse.
        """
        self.domain_ = domain_of(release, Interval)
        cells = self._prepared(X, release)
        means = (
            unbiased_means(release, column, answer.sizes)[:, 0]
            for column, answer in zip(cells, self.cells_, strict=True)
        )
        self.values_ = [np.clip(answer, self.domain_.low, self.domain_.high) for answer in means]
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return predicted numbers, clipped to the declared range, shape (n,)."""
        return self.answers(X)


class CellClassifier(ClassifierMixin, _Cells):  # type: ignore[misc]
    """A classifier on released classes that predicts the class shares of each cell of a partition.

    Use it on a release of what `first_response` returns, or of `UnaryEncoding`: the likeliest class is the one with the
    largest sum of unbiased indicators. Where the noise has no inverse, as in `RandomizedResponseWithPrior`, the shares
    are those that best explain the released codes. For a record in an empty cell the nearest non-empty cell answers; a
    forest answers with the mean over its trees.

    Args:
        partition: as in `CellRegressor`.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, eq. (11) to (13).
    """

    def fit(self, X: Any, release: Release[Any]) -> Self:
        """Learn the cells from features, shape (n, d), and their shares from released classes.

        Raises:
            InputError: features do not fit the partition, or `release` has no classes.
        """
        domain = domain_of(release, Classes)
        sizes = [(column, answer.sizes) for column, answer in zip(self._prepared(X, release), self.cells_, strict=True)]
        try:
            shares = [unbiased_means(release, column, counts) for column, counts in sizes]
        except NotInvertibleError:
            likelihood = Evidence.of(release).likelihood
            shares = [likeliest_shares(likelihood, column, len(counts)) for column, counts in sizes]
        self.values_ = [projected(answer) for answer in shares]
        self.classes_ = domain.decode(np.arange(domain.size))
        return self

    def predict_proba(self, X: Any) -> Probabilities:
        """Return the probabilities nearest to the shares, shape (n, K), in the order of the domain."""
        return self.answers(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the name of the likeliest class, shape (n,); ties go to the first."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])


DENSE_CELLS = 1 << 20
"""Up to so many possible cells, or four for each record, are counted in an array; for more, keys are sorted."""

SCALE_ROWS = 1 << 16
"""Features are scaled by the spread of about this many records."""


@dataclass(frozen=True)
class NonEmptyCells:
    """The non-empty cells of one partition, in the order of their keys.

    For a record whose own cell is empty the one with the nearest center answers, with features scaled to unit spread
    and gaps at the median.

    Args:
        keys: rising keys of the cells, shape (cells,).
        sizes: number of records in each, shape (cells,).
        centers: scaled centers, shape (cells, d).
    """

    keys: Keys = field(repr=False)
    sizes: NDArray[np.int64] = field(repr=False)
    centers: AnyFloats = field(repr=False)

    @classmethod
    def of(cls, partition: Any, keys: Keys, scale: "FeatureScale") -> tuple[Self, Keys]:
        """Return the cells of records with these keys, and the number of each record's own, shape (n,)."""
        names, sizes, cells = numbered(keys, partition.size_)
        return cls(names, sizes, scale.apply(partition.centers(names))), cells

    def locate(self, keys: Keys, features: Any, scale: "FeatureScale") -> Keys:
        """Return the number of the cell that answers for each of other records, shape (n,)."""
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        missed = np.flatnonzero(self.keys[places] != keys)
        if missed.size:
            rows = scale.apply(number_table(take_rows(features, missed)))
            places[missed] = cKDTree(self.centers).query(rows)[1]
        return places.astype(np.int64)


@dataclass(frozen=True)
class FeatureScale:
    """Public medians and spreads of features, shape (d,)."""

    median: AnyFloats = field(repr=False)
    spread: AnyFloats = field(repr=False)

    @classmethod
    def of(cls, features: Any) -> Self:
        """Compute both from a regular sample of records."""
        step = -(-rows_of(features) // SCALE_ROWS)
        sample = number_table(take_rows(features, np.arange(0, rows_of(features), step))).astype(np.float64)
        median = column_medians(sample)
        spread = np.where(np.isnan(sample), median, sample).std(axis=0)
        return cls(median, np.where(spread > 0, spread, 1.0))

    def apply(self, table: AnyFloats) -> AnyFloats:
        """Return scaled features with gaps at the median, shape (n, d)."""
        return np.nan_to_num((table - self.median) / self.spread)


def numbered(keys: Keys, size: int) -> tuple[Keys, NDArray[np.int64], Keys]:
    """Return the distinct keys from 0 to size - 1, how often each occurs, and the place of each record's own."""
    if size > max(DENSE_CELLS, 4 * len(keys)):
        names, cells, sizes = np.unique(keys, return_inverse=True, return_counts=True)
        return names, sizes, cells
    counts = np.bincount(keys, minlength=size)
    names = np.flatnonzero(counts)
    if len(names) == size:
        return names, counts, keys
    places = np.cumsum(counts > 0) - 1
    return names, counts[names], places[keys]


DEBIASED_RECORDS = 1 << 20
"""Records that are debiased at a time, or four for each cell if these are more."""

EM_ROUNDS = 100
"""Rounds of expectation-maximization where the noise has no inverse."""

DIGITS = 12
"""Means are rounded, so that they do not depend on the order of the records."""


def domain_of(release: Any, kind: type[Classes] | type[Interval]) -> Any:
    """Return the domain of released labels.

    Raises:
        InputError: not the direct output of a mechanism on such a domain that answers every record.
    """
    mechanism = release.mechanism if isinstance(release, Release) else None
    if mechanism is None or not isinstance(mechanism.domain, kind) or not hasattr(mechanism, "unbiased"):
        raise InputError(
            f"release must be what Curator.release returned for a mechanism on {kind.__name__} that randomizes labels "
            "one by one"
        )
    return mechanism.domain


def unbiased(release: Release[Any]) -> NDArray[np.float64]:
    """Return unbiased numbers, shape (n,), or class indicators, shape (n, K)."""
    return np.asarray(debias(release.mechanism, release.value).values)


def unbiased_means(release: Release[Any], cells: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the mean unbiased label of each cell, shape (cells, 1), or class shares, shape (cells, K)."""
    step = max(DEBIASED_RECORDS, 4 * len(sizes)) if release.mechanism.records is None else len(cells)
    total: Any = 0.0
    for start in range(0, len(cells), step):
        rows = slice(start, start + step)
        values = np.asarray(debias(release.mechanism, release.value[rows]).values).reshape(len(cells[rows]), -1)
        total = total + np.column_stack([np.bincount(cells[rows], column, len(sizes)) for column in values.T])
    return np.round(total / sizes[:, None], DIGITS)


def likeliest_shares(likelihood: NDArray[np.float64], cells: NDArray[np.int64], count: int) -> Probabilities:
    """Return the class shares of each cell that best explain its released codes, shape (cells, K).

    Expectation-maximization from equal shares needs no inverse of the noise.
    """
    classes = likelihood.shape[1]
    shares = np.full((count, classes), 1.0 / classes)
    for _ in range(EM_ROUNDS):
        posterior = normalized(shares[cells] * likelihood)
        shares = normalized(np.column_stack([np.bincount(cells, column, count) for column in posterior.T]))
    return shares

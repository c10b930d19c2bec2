"""Tables of features: what is accepted, which rows a dry run sees, how many dimensions they fill."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.validation import validate_data

from labeldp.privacy import InputError, check_integer, without_traceback

MAX_TRIAL_ROWS = 1000
"""The largest number of records on which a classifier is tried before anything is charged."""

RARE_COUNT = 5
"""A value is rare if a dry run would hold it in fewer records than this."""

MANY_RECORDS = 50_000
"""Records from which on learning takes what costs less of each (`docs/results/fitting.md`)."""

BLOCK_ROWS = 1 << 15
"""Rows handled at a time: what is computed from them stays in cache."""

MAX_FEATURE = float(np.finfo(np.float32).max)
"""Trees use single precision: larger features are refused before anything is charged."""

MIXED_HINT = "turn a table with texts or dates into numbers with labeldp.tables.TableEncoder"
"""What an error about features that are no numbers advises."""

COMPLEX_ERROR = "features must be real numbers: Complex data not supported; give both parts as columns of their own"

SPARSE_ERROR = (
    "features must be dense, and these are sparse: take features.toarray(), "
    "or fewer columns by sklearn.decomposition.TruncatedSVD"
)

RESHAPE_HINT = (
    "Reshape your data by array.reshape(-1, 1) if it has a single feature, "
    "or by array.reshape(1, -1) if it is a single record"
)

Table = NDArray[np.floating[Any]]
"""Rows of features, shape (n, d)."""


def rows_of(features: Any) -> int:
    """Return the number of records in a table or an array."""
    shape = getattr(features, "shape", None)
    if shape == () or (shape is None and (isinstance(features, str) or not hasattr(features, "__len__"))):
        raise InputError("features must be a table with one row for each record")
    return int(shape[0]) if shape else len(features)


def check_rows(features: Any, count: int) -> None:
    """Raise an `InputError` unless features have `count` rows, one for each label."""
    if rows_of(features) != count:
        raise InputError("features must have one row for each record of the labels")


def row_table(features: Any) -> Any:
    """Return features in a form whose rows can be selected; data frames stay data frames.

    The values are left for the estimator to check.

    Raises:
        InputError: features are complex, or not a table.
    """
    check_table(features)
    if issparse(features):
        if features.dtype.kind == "c":
            raise InputError(COMPLEX_ERROR)
        return features.tocsr()
    if not hasattr(features, "shape"):
        features = np.asarray(features)
    if isinstance(features, np.ma.MaskedArray):
        features = number_table(features)
    kinds = getattr(features, "dtypes", None)
    if kinds is None or not hasattr(kinds, "__iter__"):
        kinds = [getattr(features, "dtype", None)]
    if any(getattr(kind, "kind", None) == "c" for kind in kinds):
        raise InputError(COMPLEX_ERROR)
    return features


_TABLES = ("shape", "__len__", "__array__")
"""What a table has one of."""


def check_table(features: Any) -> None:
    """Raise an `InputError` for what has no rows: mappings, generators, queries, rows of unlike length."""
    if hasattr(features, "collect") and not hasattr(features, "shape"):
        raise InputError("features must be in memory, and these are a query: take features.collect()")
    mapping = isinstance(features, Mapping) and not issparse(features)  # scipy's dictionaries of keys are both
    if mapping or isinstance(features, Iterator) or not any(hasattr(features, name) for name in _TABLES):
        raise InputError("features must be a table with one row for each record")
    if not hasattr(features, "shape") and without_traceback(lambda: np.asarray(features)) is None:
        raise InputError("features must be a table with as many columns in each row")


def take_rows(features: Any, rows: NDArray[Any]) -> Any:
    """Return some rows of what `row_table` made, by number or by mask."""
    return _safe_indexing(features, np.flatnonzero(rows) if rows.dtype == np.bool_ else rows)


def check_columns(learner: Any, features: Any, *, fit: bool = False) -> None:
    """Record the columns of a learner's features where it is fitted, and compare later features with them.

    Names are compared only where both tables have them, so learners that were saved without names still predict.

    Raises:
        InputError: columns differ in number, name or order.
    """
    shape = getattr(features, "shape", None) or np.asarray(features).shape
    if not fit and len(shape) == 1 and hasattr(learner, "n_features_in_"):
        raise InputError(f"features must be a table of shape (n, {learner.n_features_in_}). {RESHAPE_HINT}")
    if not fit and not hasattr(learner, "feature_names_in_"):
        features = np.empty((0, *shape[1:2]))  # without names
    try:
        validate_data(learner, features, reset=fit, skip_check_array=True)
    except (TypeError, ValueError) as error:
        count = "columns named by texts" if fit else f"{learner.n_features_in_} columns, as those of the fit had"
        raise InputError(f"features must have {count}: {error}") from None


def number_table(features: Any, learner: Any = None, *, fit: bool = False, gaps: bool = True) -> Table:
    """Return features as a table of floats, shape (n, d), with missing values as NaN; floats are not copied.

    Args:
        features: any table of numbers.
        learner: if given, its columns are recorded or compared (see `check_columns`).
        fit: whether the learner is being fitted.
        gaps: whether missing values are allowed.

    Raises:
        InputError: features are no such table, are empty, have other columns, or hold values that are not allowed.
    """
    table = plain_table(features, learner, fit=fit)
    check_values(table, gaps=gaps)
    return table


def plain_table(features: Any, learner: Any = None, *, fit: bool = False) -> Table:
    """Return features as `number_table` does, but leave infinite and huge values for others to check."""
    table = real_array(features)
    table = table if table.dtype in (np.float32, np.float64) else table.astype(np.float64)
    if table.ndim != 2:
        raise InputError(f"features must be a table of numbers, shape (n, d){f'. {RESHAPE_HINT}' * (table.ndim == 1)}")
    if learner is not None:
        check_columns(learner, features, fit=fit)
    return table


def real_array(features: Any) -> NDArray[Any]:
    """Return features as a dense array of real numbers of any shape; numbers keep their type.

    Raises:
        InputError: features are sparse, complex, texts, dates, or empty.
    """
    if issparse(features):
        raise InputError(SPARSE_ERROR)
    try:
        if isinstance(features, np.ma.MaskedArray):
            features = np.ma.filled(np.ma.asarray(features, dtype=np.float64), np.nan)
        table = np.asarray(features)
        if table.dtype.kind in "mM":
            raise TypeError("NumPy would count dates in days or nanoseconds")
        if table.dtype.kind not in "buifc":
            table = table.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"features must be numbers: {MIXED_HINT}") from None
    if table.dtype.kind == "c":
        raise InputError(COMPLEX_ERROR)
    if not table.size:
        what = "sample" if not len(table) else "feature"
        raise InputError(
            "features must be a table of numbers, shape (n, d), with at least one row and one column: "
            f"0 {what}(s) (shape={table.shape}) while a minimum of 1 is required."
        )
    return table


def image_array(images: Any, learner: Any, *, fit: bool = False) -> NDArray[Any]:
    """Return images as an array of real numbers, shape (n, side, side, channels): integers, or floats of 32 or 64 bits.

    Args:
        images: images of that shape, or flat; without the last axis if there is a single channel.
        learner: learner with `side` and `channels`; columns of flat images are recorded or compared.
        fit: whether the learner is being fitted.

    Raises:
        InputError: images have another shape, or are not finite numbers.
    """
    array = real_array(images)
    if array.ndim <= 2:
        check_columns(learner, images, fit=fit)
    shape = (learner.side, learner.side, learner.channels)
    allowed = (shape, shape[:2] if learner.channels == 1 else shape, (math.prod(shape),))
    if array.shape[1:] not in allowed:
        shapes = " or ".join(f"(n, {', '.join(map(str, sides))})" for sides in dict.fromkeys(allowed))
        raise InputError(f"images must be numbers, shape {shapes}{f'. {RESHAPE_HINT}' * (array.ndim == 1)}")
    if array.dtype.kind == "f":
        array = array.astype(np.promote_types(array.dtype, np.float32), copy=False)
        check_values(array.reshape(len(array), -1), gaps=False)
    return array.reshape(-1, *shape)


def check_values(table: Table, *, gaps: bool) -> None:
    """Raise an `InputError` for infinite and huge numbers, and for NaN unless gaps are allowed."""
    for start in range(0, len(table), BLOCK_ROWS):
        block = table[start : start + BLOCK_ROWS]
        # One quick pass: the extremes of a block with a NaN are NaN, so the comparison fails.
        if block.max() <= MAX_FEATURE and block.min() >= -MAX_FEATURE:
            continue
        if (np.abs(block) > MAX_FEATURE).any():
            raise InputError(
                f"features must be finite, and no larger than {MAX_FEATURE:.1e}: clip inf and other huge numbers, "
                "which costs no privacy"
            )
        if not gaps:
            raise InputError("features must be finite, without NaN: fill in the gaps first")


def check_numbers(features: Any, argument: str = "classifier") -> None:
    """Raise an `InputError` for features that the default estimators cannot take; `argument` names another one."""
    try:
        number_table(features)
    except InputError as error:
        raise InputError(f"{error}; or name an estimator that takes them, by {argument}") from None


@dataclass(frozen=True)
class TrialRows:
    """The records of a dry run, rising; `single` are those that alone have some value."""

    rows: NDArray[np.intp] = field(repr=False)
    single: NDArray[np.bool_] = field(repr=False)

    def among(self, count: int, limit: int, seed: int) -> "TrialRows":
        """Add random rows of a table of `count` records, up to `limit` rows in all."""
        candidates = np.random.default_rng(seed).permutation(np.setdiff1d(np.arange(count), self.rows))
        rows = np.union1d(self.rows, candidates[: limit - len(self.rows)])
        return TrialRows(rows, np.isin(rows, self.rows[self.single]))


def trial_rows(features: Any, seed: int) -> TrialRows:
    """Choose at most `MAX_TRIAL_ROWS` records for a dry run, those that may cause trouble among them.

    Up to half hold a gap, the smallest or the largest number of some column; up to a quarter are the first to hold a
    rare text or integer, the rarest first; the rest are random.
    """
    count, rng = rows_of(features), np.random.default_rng(seed)
    firsts, times = _rare_values(features)
    if count <= MAX_TRIAL_ROWS:
        rows = np.arange(count)
    else:
        gaps = rows_with_gaps(features)
        extremes = np.array([] if issparse(features) else sorted(_extremes(features)), dtype=np.intp)
        chosen = np.union1d(gaps, rng.permutation(np.setdiff1d(extremes, gaps))[: MAX_TRIAL_ROWS // 2])
        mixed = rng.permutation(len(firsts))
        rarest = mixed[np.argsort(times[mixed], kind="stable")]
        chosen = np.union1d(chosen, firsts[rarest[: MAX_TRIAL_ROWS // 4]])
        candidates = np.setdiff1d(rng.permutation(count)[:MAX_TRIAL_ROWS], chosen)
        rows = np.sort(np.concatenate([chosen, rng.permutation(candidates)[: MAX_TRIAL_ROWS - len(chosen)]]))
    return TrialRows(rows, np.isin(rows, firsts[times == 1]))


def _rare_values(features: Any) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the first row of each text or integer that is rare in its column, and how often it occurs there."""
    firsts, times = [np.empty(0, dtype=np.intp)], [np.empty(0, dtype=np.intp)]
    for column in () if issparse(features) else _each_column(features):
        values = np.asarray(column)
        if values.ndim != 1 or values.dtype.kind not in "iuOUST":
            continue
        try:
            first, often = _first_occurrences(values)
        except TypeError:  # lists and the like have no hash
            continue
        rare = (often == 1) | (often * MAX_TRIAL_ROWS < len(values) * RARE_COUNT)
        firsts.append(first[rare])
        times.append(often[rare])
    return np.concatenate(firsts), np.concatenate(times)


def _first_occurrences(values: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the first place of each distinct value but NaN, and how often it occurs."""
    if values.dtype.kind in "iu":
        _, first, often = np.unique(values, return_index=True, return_counts=True)
        return first, often.astype(np.intp)
    listed = values.tolist()
    often_each = Counter(listed)
    first_each = dict(zip(reversed(listed), range(len(listed) - 1, -1, -1), strict=True))
    names = [value for value in often_each if not (isinstance(value, float) and value != value)]
    first, often = (np.array([counts[v] for v in names], dtype=np.intp) for counts in (first_each, often_each))
    return first, often


def _extremes(features: Any) -> set[int]:
    """Return the first row with a gap, the smallest and the largest number of each column."""
    rows: set[int] = set()
    for column in _each_column(features):
        if np.ndim(column) != 1:
            continue
        if hasattr(column, "isna"):
            rows.add(int(np.argmax(column.isna())))
        try:
            numbers = np.asarray(column, dtype=np.float64)
        except (TypeError, ValueError):
            continue
        gaps = np.isnan(numbers)
        filled = np.where(gaps, 0.0, numbers)
        rows |= {int(gaps.argmax()), int(filled.argmin()), int(filled.argmax())}
    return rows


def _each_column(features: Any) -> Any:
    """Return the columns of a data frame or of a two-dimensional array; anything else has none."""
    if hasattr(features, "columns"):  # in pyarrow the columns themselves, elsewhere their names
        return (column if hasattr(column, "__array__") else features[column] for column in features.columns)
    array = np.asarray(features)
    return array.T if array.ndim == 2 else ()


def are_numbers(features: Any) -> bool:
    """Return whether the first records are numbers, gaps included."""
    if issparse(features):
        return True
    try:
        np.asarray(take_rows(features, np.arange(min(rows_of(features), MAX_TRIAL_ROWS))), dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True


def rows_with_gaps(features: Any) -> NDArray[np.intp]:
    """Return the first row with a gap and the first with an infinite number, if any, of what `row_table` made."""
    if issparse(features):
        features = features.tocsr()
        rows = np.searchsorted(features.indptr, np.flatnonzero(~np.isfinite(features.data))[:1], side="right") - 1
        return np.asarray(rows, dtype=np.intp)
    if hasattr(features, "isna"):
        gaps = np.flatnonzero(np.asarray(features.isna()).reshape(len(features), -1).any(axis=1))[:1]
        features = features.select_dtypes("number") if hasattr(features, "select_dtypes") else features
    else:
        gaps = np.empty(0, dtype=np.intp)
    table = np.asarray(features)
    if table.dtype.kind != "f" or not table.size:
        return gaps
    flat = table.reshape(len(table), -1)
    with np.errstate(over="ignore", invalid="ignore"):
        tests = () if np.isfinite(flat.sum()) else (np.isnan, np.isinf)
    return np.unique(np.concatenate([gaps, *(np.flatnonzero(test(flat).any(axis=1))[:1] for test in tests)]))


def column_medians(table: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Return the median of the known values of each column, 0 where there are none, shape (d,)."""
    columns = [column[~np.isnan(column)] for column in table.T]
    return np.array([np.median(column) if column.size else 0.0 for column in columns])


def means_and_spreads(table: Table) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation of the known values of each column; a constant column has spread 1."""
    finite = ~np.isnan(table)
    counts = np.maximum(finite.sum(axis=0), 1)
    mean = np.where(finite, table, 0).sum(axis=0, dtype=np.float64) / counts
    spread = np.sqrt(np.where(finite, (table - mean) ** 2, 0).sum(axis=0, dtype=np.float64) / counts)
    return mean, np.where(spread > 0, spread, 1.0)


def check_count(value: Any, argument: str, records: int) -> int:
    """Return an integer from 1 to the number of records; raise an InputError that names the argument else."""
    try:
        return check_integer(value, argument, high=records)
    except InputError:
        raise InputError(
            f"{argument} must be an integer from 1 to the number of records: n_samples = {records}"
        ) from None


def takes_gaps(estimator: Any) -> bool:
    """Return whether a scikit-learn estimator says that it takes missing values."""
    return isinstance(estimator, BaseEstimator) and bool(get_tags(estimator).input_tags.allow_nan)


class GapTags:
    """A mixin that tells scikit-learn whether an estimator takes missing values: as `_takes_gaps` says."""

    _takes_gaps: bool = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = self._takes_gaps
        return tags


class TableTransformer(GapTags, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The base of transformers whose output type does not depend on the type of the input."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags


MAX_RECORDS = 5_000


def intrinsic_dimension(features: Any, *, neighbors: int = 20, seed: int = 0) -> float:
    """Estimate in how many dimensions features lie: m where the number of records within distance r grows as r^m.

    Columns are scaled to the same spread, gaps filled with the median, equal rows counted once. In many dimensions the
    estimate is too low, as most records are near an edge: read it as "at least about".

    Args:
        features: public numbers, shape (n, d); of more than 5,000 records a random 5,000 are used.
        neighbors: how many neighbors of each record are considered.
        seed: public seed of the random choice.

    Returns:
        A number above 0 and at most d, not counting constant columns.

    Raises:
        InputError: features are not numbers, or have fewer than three different rows.

    Source: Levina, eq. (8), with the mean taken over the inverses, as MacKay and Ghahramani (2005) advise.
    """
    table = np.asarray(number_table(features), dtype=np.float64)
    nearest = check_integer(neighbors, "neighbors")
    if len(table) > MAX_RECORDS:
        table = table[np.random.default_rng(seed).choice(len(table), MAX_RECORDS, replace=False)]
    table = np.where(np.isnan(table), column_medians(table), table)
    table = table[:, np.ptp(table, axis=0) > 0]
    rows = np.unique(table / table.std(axis=0), axis=0)
    if len(rows) < 3:
        raise InputError("features must have at least three different rows")
    count = int(np.clip(nearest, 2, len(rows) - 1))
    distances, _ = NearestNeighbors(n_neighbors=count).fit(rows).kneighbors()
    inverse = np.mean(np.log(distances[:, -1:] / distances[:, :-1]))
    return float(min(1 / inverse, rows.shape[1])) if inverse > 0 else float(rows.shape[1])

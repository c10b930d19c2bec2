"""What is asked of a table of features."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import validate_data

from labeldp.privacy import InputError

MAX_TRIAL_ROWS = 1000
"""Records on which a classifier is tried before anything is charged, at most."""

RARE = 5
"""A value is rare that so many records of a rehearsal, or fewer, would hold."""

BLOCK_ROWS = 1 << 15
"""Rows handled at a time: what is computed from them stays in cache."""

LARGEST = float(np.finfo(np.float32).max)
"""Trees see features in single precision; what they cannot see is refused before anything is charged."""

MIXED = "turn a table with texts or dates into numbers with labeldp.tables.TableEncoder"

COMPLEX = "features must be real numbers: Complex data not supported; give both parts as columns of their own"

DENSE = (
    "features must be dense, and these are sparse: take features.toarray(), "
    "or fewer columns by sklearn.decomposition.TruncatedSVD"
)

RESHAPE = (
    "Reshape your data by array.reshape(-1, 1) if it has a single feature, "
    "or by array.reshape(1, -1) if it is a single record"
)

Table = NDArray[np.floating[Any]]


def rows_of(features: Any) -> int:
    """How many records a table or an array holds."""
    shape = getattr(features, "shape", None)
    if not shape and not hasattr(features, "__len__"):
        raise InputError("features must be a table with one row for each record")
    return int(shape[0]) if shape else len(features)


def check_rows(features: Any, count: int) -> None:
    """Refuse features of another number of records than there are labels."""
    if rows_of(features) != count:
        raise InputError("features must have one row for each record of the labels")


def row_table(features: Any) -> Any:
    """Features that rows can be taken from, for an estimator that asks for more itself: tables stay tables.

    Raises:
        InputError: complex numbers, or no table.
    """
    if issparse(features):
        if features.dtype.kind == "c":
            raise InputError(COMPLEX)
        return features.tocsr()
    if not hasattr(features, "shape"):
        try:
            features = np.asarray(features)
        except ValueError:
            raise InputError("features must be a table with as many columns in each row") from None
    kinds = getattr(features, "dtypes", [getattr(features, "dtype", None)])
    if any(getattr(kind, "kind", None) == "c" for kind in kinds):
        raise InputError(COMPLEX)
    return features


def take_rows(features: Any, rows: NDArray[Any]) -> Any:
    """Some rows of what `row_table` made, by number or by mask."""
    return _safe_indexing(features, np.flatnonzero(rows) if rows.dtype == np.bool_ else rows)


def check_columns(learner: Any, features: Any, *, fit: bool = False) -> None:
    """Note the number and the names of the columns where a learner is fitted, and compare them afterwards.

    Names are compared where both have them: a learner that was saved before it knew names still predicts.

    Raises:
        InputError: other columns, or another order.
    """
    shape = getattr(features, "shape", None) or np.asarray(features).shape
    if not fit and len(shape) == 1 and hasattr(learner, "n_features_in_"):
        raise InputError(f"features must be a table of shape (n, {learner.n_features_in_}). {RESHAPE}")
    if not fit and not hasattr(learner, "feature_names_in_"):
        features = np.empty((0, *shape[1:2]))  # without names, which are no news
    try:
        validate_data(learner, features, reset=fit, skip_check_array=True)
    except (TypeError, ValueError) as error:
        count = "columns named by texts" if fit else f"{learner.n_features_in_} columns, as those of the fit had"
        raise InputError(f"features must have {count}: {error}") from None


def number_table(features: Any, learner: Any = None, *, fit: bool = False, gaps: bool = True) -> Table:
    """Features as a table of floats, shape (n, d), gaps as NaN; floats are not copied.

    Args:
        features: any table of numbers.
        learner: whose features they are, if any: its columns are noted or compared (see `check_columns`).
        fit: whether the learner is being fitted.
        gaps: whether NaN may stand for what is missing.

    Raises:
        InputError: not such a table, of other columns, empty, with infinite or huge numbers in it, or with gaps.
    """
    table = plain_table(features, learner, fit=fit)
    check_values(table, gaps=gaps)
    return table


def plain_table(features: Any, learner: Any = None, *, fit: bool = False) -> Table:
    """The same where somebody else looks at the values: infinite and huge ones pass."""
    table = real_array(features)
    table = table if table.dtype in (np.float32, np.float64) else table.astype(np.float64)
    if table.ndim != 2:
        raise InputError(f"features must be a table of numbers, shape (n, d){f'. {RESHAPE}' * (table.ndim == 1)}")
    if learner is not None:
        check_columns(learner, features, fit=fit)
    return table


def real_array(features: Any) -> NDArray[Any]:
    """Features as a dense array of real numbers, of any shape; numbers keep their kind.

    Raises:
        InputError: sparse, complex, texts, dates, or empty.
    """
    if issparse(features):
        raise InputError(DENSE)
    try:
        table = np.asarray(features)
    except (TypeError, ValueError):
        raise InputError(f"features must be numbers: {MIXED}") from None
    if table.dtype.kind == "c":
        raise InputError(COMPLEX)
    try:
        table = table if table.dtype.kind in "buif" else _converted(table)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"features must be numbers: {MIXED}") from None
    if not table.size:
        what = "sample" if not len(table) else "feature"
        raise InputError(
            "features must be a table of numbers, shape (n, d), with at least one row and one column: "
            f"0 {what}(s) (shape={table.shape}) while a minimum of 1 is required."
        )
    return table


def image_array(images: Any, learner: Any, *, fit: bool = False) -> NDArray[Any]:
    """Images as an array of real numbers, shape (n, side, side, channels): integers, or floats of 32 bits or more.

    Args:
        images: of that shape, or flat; without the last axis where there is a single channel.
        learner: has `side` and `channels`; the columns of flat images are noted or compared (see `check_columns`).
        fit: whether the learner is being fitted.

    Raises:
        InputError: another shape, not numbers, or not finite.
    """
    array = real_array(images)
    if array.ndim <= 2:
        check_columns(learner, images, fit=fit)
    shape = (learner.side, learner.side, learner.channels)
    allowed = (shape, shape[:2] if learner.channels == 1 else shape, (math.prod(shape),))
    if array.shape[1:] not in allowed:
        shapes = " or ".join(f"(n, {', '.join(map(str, each))})" for each in dict.fromkeys(allowed))
        raise InputError(f"images must be numbers, shape {shapes}{f'. {RESHAPE}' * (array.ndim == 1)}")
    if array.dtype.kind == "f":
        array = array.astype(np.promote_types(array.dtype, np.float32), copy=False)
        check_values(array.reshape(len(array), -1), gaps=False)
    return array.reshape(-1, *shape)


def _converted(table: NDArray[Any]) -> NDArray[np.float64]:
    """Objects as numbers; dates, which numpy would count in days or nanoseconds, are none."""
    if table.dtype.kind in "mM":
        raise TypeError("dates are no numbers")
    return table.astype(np.float64)


def check_values(table: Table, *, gaps: bool) -> None:
    """Refuse infinite and huge numbers, and NaN where it may not stand; one pass where neither occurs."""
    for start in range(0, len(table), BLOCK_ROWS):
        block = table[start : start + BLOCK_ROWS]
        # The extremes are quick to find, and NaN where a number is missing.
        if block.max() <= LARGEST and block.min() >= -LARGEST:
            continue
        if (np.abs(block) > LARGEST).any():
            raise InputError(
                f"features must be finite, and no larger than {LARGEST:.1e}: clip inf and other huge numbers, "
                "which costs no privacy"
            )
        if not gaps:
            raise InputError("features must be finite, without NaN: fill in the gaps first")


def check_numbers(features: Any, argument: str = "classifier") -> None:
    """Refuse features that the default estimators cannot take, and say what to do.

    Args:
        features: any table.
        argument: the parameter by which an estimator would be named.

    Raises:
        InputError: not a dense table of numbers, gaps allowed.
    """
    try:
        number_table(features)
    except InputError as error:
        raise InputError(f"{error}; or name an estimator that takes them, by {argument}") from None


@dataclass(frozen=True)
class TrialRows:
    """The rows of a rehearsal, in order, and which of them alone have some value, so that no other row teaches it."""

    rows: NDArray[np.intp]
    single: NDArray[np.bool_]

    def among(self, count: int, most: int, seed: int) -> "TrialRows":
        """The same with others at random from all records, up to so many."""
        others = np.random.default_rng(seed).permutation(np.setdiff1d(np.arange(count), self.rows))
        rows = np.union1d(self.rows, others[: most - len(self.rows)])
        return TrialRows(rows, np.isin(rows, self.rows[self.single]))


def trial_rows(features: Any, seed: int) -> TrialRows:
    """Some rows at random, among them of each column a gap, the smallest and the largest number, and rare values.

    At most `MAX_TRIAL_ROWS`, half of which are ends and a quarter the first rows of rare texts or integers, the rarest
    first; a table that an array does not hold has none.
    """
    count, rng = rows_of(features), np.random.default_rng(seed)
    firsts, times = _rare(features)
    if count <= MAX_TRIAL_ROWS:
        rows = np.arange(count)
    else:
        odd = rows_with_gaps(features)
        found = np.array([] if issparse(features) else sorted(_ends(features)), dtype=np.intp)
        ends = np.union1d(odd, rng.permutation(np.setdiff1d(found, odd))[: MAX_TRIAL_ROWS // 2])
        mixed = rng.permutation(len(firsts))
        rarest = mixed[np.argsort(times[mixed], kind="stable")]
        ends = np.union1d(ends, firsts[rarest[: MAX_TRIAL_ROWS // 4]])
        others = np.setdiff1d(rng.permutation(count)[:MAX_TRIAL_ROWS], ends)
        rows = np.sort(np.concatenate([ends, rng.permutation(others)[: MAX_TRIAL_ROWS - len(ends)]]))
    return TrialRows(rows, np.isin(rows, firsts[times == 1]))


def _rare(features: Any) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first row of each text or integer that is rare in its column, and how often it occurs there."""
    firsts, times = [np.empty(0, dtype=np.intp)], [np.empty(0, dtype=np.intp)]
    for column in () if issparse(features) else _each_column(features):
        values = np.asarray(column)
        if values.ndim != 1 or values.dtype.kind not in "iuOUST":
            continue
        try:
            first, often = _firsts(values)
        except TypeError:  # lists and the like have no hash
            continue
        rare = (often == 1) | (often * MAX_TRIAL_ROWS < len(values) * RARE)
        firsts.append(first[rare])
        times.append(often[rare])
    return np.concatenate(firsts), np.concatenate(times)


def _firsts(values: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first place of each value, and how often it occurs; NaN is none."""
    if values.dtype.kind in "iu":
        _, first, often = np.unique(values, return_index=True, return_counts=True)
        return first, often.astype(np.intp)
    listed = values.tolist()
    often_each = Counter(listed)
    first_each = dict(zip(reversed(listed), range(len(listed) - 1, -1, -1), strict=True))
    known = [value for value in often_each if not (isinstance(value, float) and value != value)]
    places = ([each[value] for value in known] for each in (first_each, often_each))
    first, often = (np.array(each, dtype=np.intp) for each in places)
    return first, often


def _ends(features: Any) -> set[int]:
    """Of each column the first row with a gap, with the smallest and with the largest number, where it has them."""
    found: set[int] = set()
    for column in _each_column(features):
        if np.ndim(column) != 1:
            continue
        if hasattr(column, "isna"):
            found.add(int(np.argmax(column.isna())))
        try:
            numbers = np.asarray(column, dtype=np.float64)
        except (TypeError, ValueError):
            continue
        gaps = np.isnan(numbers)
        known = np.where(gaps, 0.0, numbers)
        found |= {int(gaps.argmax()), int(known.argmin()), int(known.argmax())}
    return found


def _each_column(features: Any) -> Any:
    """Those of a data frame or of a table in an array; anything else has none."""
    if hasattr(features, "columns"):
        # pyarrow has the columns themselves where others have names.
        return (each if hasattr(each, "__array__") else features[each] for each in features.columns)
    array = np.asarray(features)
    return array.T if array.ndim == 2 else ()


def are_numbers(features: Any) -> bool:
    """Whether the first records are numbers, gaps included."""
    if issparse(features):
        return True
    head = _safe_indexing(features, np.arange(min(rows_of(features), MAX_TRIAL_ROWS)))
    try:
        np.asarray(head, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True


def rows_with_gaps(features: Any) -> NDArray[np.intp]:
    """The first row with a gap and the first with an infinite number, if any: what an estimator may not take.

    Args:
        features: as `row_table` returns them.
    """
    if issparse(features):
        features = features.tocsr()
        found = np.searchsorted(features.indptr, np.flatnonzero(~np.isfinite(features.data))[:1], side="right") - 1
        return np.asarray(found, dtype=np.intp)
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
    """The median of the known values of each column, 0 where there are none, shape (d,)."""
    known = [column[~np.isnan(column)] for column in table.T]
    return np.array([np.median(column) if column.size else 0.0 for column in known])


def positive_integer(value: Any, argument: str, *, most: int | None = None, of: str = "") -> int:
    """A positive integer, at most as many as there are of something.

    Raises:
        InputError: it is none; the message names the argument.
    """
    fitting = not isinstance(value, bool) and isinstance(value, int | np.integer) and value >= 1
    if not fitting or (most is not None and value > most):
        raise InputError(
            f"{argument} must be a positive integer"
            if most is None
            else f"{argument} must be an integer from 1 to {of}: n_samples = {most}"
        )
    return int(value)


NEIGHBORS = 20

MOST_RECORDS = 5_000
"""More records are drawn from: what counts is the distance to neighbors, and of more there are nearer ones."""


def intrinsic_dimension(features: Any, *, neighbors: int = NEIGHBORS, seed: int = 0) -> float:
    """How fast the number of records grows with the distance from one of them: r^m in m dimensions.

    Columns are scaled to the same spread, gaps filled with the median, equal rows counted once. In many dimensions the
    estimate is too low, as most records are near an edge: read it as "at least about".

    Args:
        features: public numbers, shape (n, d); of more than 5,000 records so many are drawn.
        neighbors: how far to look.
        seed: of the draw, public.

    Returns:
        A number above 0 and at most d, the columns that are not constant.

    Raises:
        InputError: no numbers, or fewer than three different rows.

    Source: Levina, eq. (8), with the mean taken over the inverses, as MacKay and Ghahramani (2005) advise.
    """
    table = np.asarray(number_table(features), dtype=np.float64)
    most = positive_integer(neighbors, "neighbors")
    if len(table) > MOST_RECORDS:
        table = table[np.random.default_rng(seed).choice(len(table), MOST_RECORDS, replace=False)]
    table = np.where(np.isnan(table), column_medians(table), table)
    table = table[:, np.ptp(table, axis=0) > 0]
    rows = np.unique(table / table.std(axis=0), axis=0)
    if len(rows) < 3:
        raise InputError("features must have at least three different rows")
    count = int(np.clip(most, 2, len(rows) - 1))
    distances, _ = NearestNeighbors(n_neighbors=count).fit(rows).kneighbors()
    inverse = np.mean(np.log(distances[:, -1:] / distances[:, :-1]))
    return float(min(1 / inverse, rows.shape[1])) if inverse > 0 else float(rows.shape[1])

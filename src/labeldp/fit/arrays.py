"""Features and labels as a program holds them."""

import warnings
from collections.abc import Collection
from typing import Any

import pyarrow as pa
from scipy.sparse import issparse
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import _safe_indexing

from labeldp.features import check_columns, number_table, row_table
from labeldp.privacy import InputError, Release
from labeldp.tables import as_table

MAX_DENSE = 10_000_000
"""The largest number of values of a sparse table that is made dense for a learner that takes no sparse one."""


def feature_rows(learner: Any, X: Any, *, fit: bool = False) -> Any:
    """Return features as a scikit-learn estimator takes them, in a form whose rows can be selected.

    Args:
        learner: records the columns when it is fitted, and compares them later.
        X: features, shape (n, d).
        fit: whether the learner is being fitted.

    Raises:
        InputError: not a table, or other columns than those of the fit.
    """
    features = row_table(X)
    check_columns(learner, features, fit=fit)
    return features


def feature_table(learner: Any, X: Any, *, fit: bool = False) -> pa.Table:
    """Return features as a table that an encoder takes, whose columns have the names of the fit.

    Raises:
        InputError: not a table of numbers, or other columns than those of the fit, or a sparse one that is too large.
    """
    if issparse(X):
        if X.shape[0] * X.shape[1] > MAX_DENSE:
            raise InputError(
                f"is sparse, and this learner takes dense features of at most {MAX_DENSE:,} values: give "
                "estimator= one that takes sparse features, such as LogisticRegression()",
                argument="X",
            )
        X = X.toarray()
    check_columns(learner, X, fit=fit)
    names = list(getattr(learner, "feature_names_in_", ()))
    if len(set(names)) < len(names):  # scikit-learn 1.6 takes them
        raise InputError("has several columns of one name: rename all but one", argument="X")
    if names and (hasattr(X, "iloc") or hasattr(X, "__arrow_c_stream__")):
        return as_table(X, names).select(names)
    numbers = number_table(X)
    return pa.table(list(numbers.T), names=names or [f"x{column}" for column in range(numbers.shape[1])])


def refuse_label(columns: Collection[str], y: Any) -> None:
    """Raise InputError if a feature has the name of the labels."""
    frame = getattr(y, "columns", None)
    name = frame[0] if frame is not None and len(frame) == 1 else getattr(y, "name", None)
    if isinstance(name, str) and name in list(columns):
        raise InputError(
            f"must not hold {name!r}, the column of the labels: they are private, and features are public. Drop it, "
            "or rename y where it is another column; nothing was charged",
            argument="X",
        )


def label_column(y: Any, records: int) -> Any:
    """Return one column of labels, which are not read.

    Raises:
        InputError: there is not one label for each record.
    """
    if isinstance(y, Release):
        raise InputError("is released: fit NoisyLabelClassifier with it, which costs nothing more", argument="y")
    if y is None:
        raise InputError(": fit requires y to be passed, but the target y is None", argument="y")
    shape = getattr(y, "shape", None)
    if shape is not None and len(shape) == 2 and shape[1] == 1:
        warnings.warn("y is a column-vector, and is taken as shape (n,)", DataConversionWarning, stacklevel=3)
        y = _safe_indexing(y, 0, axis=1)
        shape = getattr(y, "shape", None)
    if (shape is not None and len(shape) != 1) or not hasattr(y, "__len__"):
        raise InputError("must be a 1d array, one label for each row of X", argument="y")
    if len(y) != records:
        raise InputError("must have one label for each row of X: inconsistent numbers of samples", argument="y")
    return y

"""What is asked of a table of features before anything is learnt or charged."""

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import _safe_indexing

from labeldp.privacy import InputError

REHEARSED = 1000
"""Records on which a classifier is tried before anything is charged, or twenty for each class."""

MIXED = "turn a table with texts or dates into numbers with labeldp.tables.TableEncoder"


def rows_of(features: Any) -> int:
    """How many records a table or an array holds."""
    shape = getattr(features, "shape", None)
    return int(shape[0]) if shape else len(features)


def check_rows(features: Any, count: int) -> None:
    """Refuse features of another number of records than there are labels."""
    if rows_of(features) != count:
        raise InputError("features must have one row for each record of the labels")


def check_numbers(features: Any) -> None:
    """Refuse features that the default classifiers cannot take, and say what makes numbers of them."""
    if not are_numbers(features):
        raise InputError(f"features must be numbers where no classifier is named: {MIXED}, or name a classifier")


def are_numbers(features: Any) -> bool:
    """Whether the first records are numbers, gaps included."""
    if issparse(features):
        return True
    head = _safe_indexing(features, np.arange(min(rows_of(features), REHEARSED)))
    try:
        np.asarray(head, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True

"""The classifiers that are tried where the user names none."""

from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from labeldp.learners.features import check_numbers, rows_of
from labeldp.learners.kernel import KernelClassifier
from labeldp.privacy import InputError

STOPPING_RECORDS = 50
"""Fewer records for each class leave too few held out to stop by: the number of trees is fixed."""

STOPPING_NUMBERS = 1000
"""The same for numbers."""

SMOOTH_LIMIT = 100_000
"""Kernel features of more records than this are left out: trees win there, and take less memory."""


def as_candidates(classifier: Any, features: Any, classes: int, *, argument: str = "classifier") -> list[Any]:
    """The classifiers that were named, by some argument, each able to give probabilities; else the default ones."""
    if classifier is None:
        check_numbers(features, argument)
        return default_classifiers(features, classes=classes)
    candidates = list(classifier) if isinstance(classifier, list | tuple) else [classifier]
    if not candidates or not all(hasattr(each, "fit") and hasattr(each, "predict_proba") for each in candidates):
        raise InputError(f"{argument} must be a scikit-learn classifier with predict_proba, or a list of such")
    return candidates


def default_classifiers(features: Any, categorical: Any = None, classes: int = 10) -> list[Any]:
    """Gradient-boosted trees and a kernel classifier, both set for noisy labels.

    Args:
        features: float matrix, shape (n, d), NaN where a value is missing.
        categorical: boolean mask of the columns that hold category codes 0 to 254, shape (d,).
        classes: K, or more: so many classes must be told apart in a tenth of the records for trees to stop early.

    Returns:
        Unfitted classifiers; `fit_multistage` and `fit_noisy` keep the one that explains held-out released labels best.
    """
    mask = None if categorical is None else np.asarray(categorical, dtype=bool)
    count = rows_of(features)
    trees = boosted_trees(count, mask, classes)
    return [trees] if count > SMOOTH_LIMIT else [trees, KernelClassifier(categorical=mask)]


def boosted_trees(count: int, categorical: Any = None, classes: int = 10) -> HistGradientBoostingClassifier:
    """Many slow trees for `count` records with noisy labels.

    A noisy label carries little: few features are tried at each split, and growing stops where held-out released
    labels are no longer predicted better. Trained on soft labels, which are less noisy, it grows all trees. The sizes
    were chosen on the data sets that `docs/results/defaults.md` names.
    """
    enough = count >= STOPPING_RECORDS * classes
    return HistGradientBoostingClassifier(**_slow_trees(count, categorical, enough))


def boosted_regression(count: int, categorical: Any = None) -> HistGradientBoostingRegressor:
    """The same for `count` noisy numbers: with squared loss noise of mean zero does not move what is best."""
    return HistGradientBoostingRegressor(**_slow_trees(count, categorical, count >= STOPPING_NUMBERS))


def _slow_trees(count: int, categorical: Any, enough: bool) -> dict[str, Any]:
    """Settings for noisy labels; whether there are enough of them to stop by."""
    return {
        "learning_rate": 0.05,
        "max_iter": 300 if enough else 50,
        "max_leaf_nodes": 31,
        "min_samples_leaf": int(np.clip(count // 60, 5, 30)),
        "l2_regularization": 20.0,
        "max_features": 0.3,
        "early_stopping": enough,
        "n_iter_no_change": 20,
        "categorical_features": categorical,
        "random_state": 0,
    }

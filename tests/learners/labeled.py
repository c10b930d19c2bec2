"""Learners of released labels, and models that functions make, as scikit-learn's checks meet them: labels in, noise in.

Each adapter releases the labels that it is given, at an epsilon that hardly changes them, and hands the release on.
Features go through untouched: it is the learner that checks them.
"""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

import labeldp as ldp
from labeldp import learners
from labeldp.learners import SoftmaxRegression, fit_bags, fit_cells, fit_full_cells, fit_linear, lp_rr_sgd
from labeldp.privacy import Public

EPSILON = 500.0


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def targets(y: Any) -> np.ndarray:
    """Labels, shape (n,), as scikit-learn wants them refused; of complex ones the real part, so that features count."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    labels = column_or_1d(y, warn=True)
    return labels.real if labels.dtype.kind == "c" else labels


def classes_of(y: Any) -> tuple[np.ndarray, Any]:
    """Labels and the domain that is made of them, which the data of a check may be."""
    labels = targets(y)
    check_classification_targets(labels)
    if len(set(labels.tolist())) == 1:
        raise ValueError("y must hold more than 1 class: one class is no domain")
    return labels, ldp.Classes(np.unique(labels).tolist())


def numbers_of(y: Any) -> tuple[np.ndarray, Any]:
    """Labels as numbers, and an interval around them."""
    labels = targets(y).astype(np.float64)
    if not len(labels) or not np.isfinite(labels).all():
        raise ValueError("y must be finite numbers, without NaN")
    return labels, ldp.Interval(float(labels.min()) - 1, float(labels.max()) + 1)


def holder(labels: Any, domain: Any) -> ldp.Curator:
    return ldp.Curator(labels, domain=domain, budget=ldp.Budget(epsilon=EPSILON))


def released_classes(y: Any) -> Any:
    labels, domain = classes_of(y)
    return holder(labels, domain).release(ldp.RandomizedResponse(domain=domain, epsilon=30.0), rng=rng())


def released_numbers(y: Any) -> Any:
    labels, domain = numbers_of(y)
    return holder(labels, domain).release(ldp.DiscreteLaplace(domain=domain, epsilon=EPSILON), rng=rng())


def released_bags(y: Any) -> Any:
    """One record in each bag."""
    labels, domain = numbers_of(y)
    bags = Public(np.arange(len(labels)), why="a test")
    return holder(labels, domain).release(ldp.BagSum(1, domain=domain, epsilon=EPSILON, bags=bags), rng=rng())


class CellClassifier(learners.CellClassifier):
    def fit(self, X: Any, y: Any) -> Self:
        return super().fit(X, released_classes(y))


class NeighborsClassifier(learners.NeighborsClassifier):
    def fit(self, X: Any, y: Any) -> Self:
        return super().fit(X, released_classes(y))


class CellRegressor(learners.CellRegressor):
    def fit(self, X: Any, y: Any) -> Self:
        return super().fit(X, released_numbers(y))


class NeighborsRegressor(learners.NeighborsRegressor):
    def fit(self, X: Any, y: Any) -> Self:
        return super().fit(X, released_numbers(y))


class NoisyNumberRegressor(learners.NoisyNumberRegressor):
    def fit(self, X: Any, y: Any) -> Self:
        return super().fit(X, released_numbers(y))


class BagRegressor(learners.BagRegressor):
    def fit(self, X: Any, y: Any) -> Self:
        return super().fit(X, released_bags(y))


class PatchFilters(learners.PatchFilters):
    """Images of one pixel, with a channel for each feature."""

    def _images(self, images: Any, *, fit: bool = False) -> Any:
        if fit:
            self.channels = np.shape(images)[1] if len(np.shape(images)) > 1 else 1
        return super()._images(images, fit=fit)


class Made(BaseEstimator):
    """What a function makes of features and a curator."""

    def made(self, X: Any, labels: Any, domain: Any) -> Any:
        raise NotImplementedError

    def known(self, y: Any) -> tuple[Any, Any]:
        raise NotImplementedError

    def fit(self, X: Any, y: Any) -> Self:
        labels, domain = self.known(y)
        self.estimator_ = self.made(X, labels, domain).value.estimator
        self.domain_ = domain
        source = getattr(self.estimator_, "representation", None)
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
            for each in (self.estimator_, source):
                if hasattr(each, name):
                    setattr(self, name, getattr(each, name))
        if isinstance(domain, ldp.Classes):
            self.classes_ = np.asarray(domain.names)
        return self

    def predict(self, X: Any) -> Any:
        check_is_fitted(self, "estimator_")
        found = self.estimator_.predict(X)
        return self.classes_[found] if isinstance(self.domain_, ldp.Classes) else found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.gaps
        return tags

    gaps = True


class MadeClassifier(ClassifierMixin, Made):
    def known(self, y: Any) -> tuple[Any, Any]:
        return classes_of(y)

    def predict_proba(self, X: Any) -> Any:
        check_is_fitted(self, "estimator_")
        return self.estimator_.predict_proba(X)


class MadeRegressor(RegressorMixin, Made):
    def known(self, y: Any) -> tuple[Any, Any]:
        return numbers_of(y)


class LinearClassifier(MadeClassifier):
    def made(self, X: Any, labels: Any, domain: Any) -> Any:
        return fit_linear(X, holder(labels, domain), epsilon=EPSILON, rng=rng(), representation=few())


class LinearRegressor(MadeRegressor):
    def made(self, X: Any, labels: Any, domain: Any) -> Any:
        return fit_linear(X, holder(labels, domain), epsilon=EPSILON, rng=rng(), representation=few())


class LinearRegressorOfBags(MadeRegressor):
    gaps = False

    def made(self, X: Any, labels: Any, domain: Any) -> Any:
        return fit_bags(X, released_bags(labels))


class CellTreesClassifier(MadeClassifier):
    def made(self, X: Any, labels: Any, domain: Any) -> Any:
        return fit_cells(X, holder(labels, domain), epsilon=EPSILON, rng=rng())


class CellTreesRegressor(MadeRegressor):
    def made(self, X: Any, labels: Any, domain: Any) -> Any:
        return fit_cells(X, holder(labels, domain), epsilon=EPSILON, rng=rng())


class LossClassifier(MadeClassifier):
    gaps = False

    def made(self, X: Any, labels: Any, domain: Any) -> Any:
        loss = SoftmaxRegression(domain.size)
        return lp_rr_sgd(X, holder(labels, domain), loss=loss, epsilon=30.0, diameter=100, rng=rng(), passes=5)


def few() -> Any:
    """A representation that takes no time."""
    return learners.TableMap(trees=0)


class GridClassifier(MadeClassifier):
    gaps = False

    def made(self, X: Any, labels: Any, domain: Any) -> Any:
        return fit_full_cells(holder((X, labels), located(X, domain)), epsilon=EPSILON, rng=rng())


class GridRegressor(MadeRegressor):
    gaps = False

    def made(self, X: Any, labels: Any, domain: Any) -> Any:
        return fit_full_cells(holder((X, labels), located(X, domain)), epsilon=EPSILON, rng=rng(), smallest=1)


def located(X: Any, domain: Any) -> Any:
    """A grid of two boxes along each of the first features."""
    width = np.shape(X)[1] if len(np.shape(X)) == 2 else 1
    grid = ldp.CubePartition([2.0] * min(width, 6) + [4.0] * max(width - 6, 0), bounds=(-2, 2)).grid(width)
    return ldp.Located(grid, domain)

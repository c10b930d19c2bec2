"""Learners of released labels, and models that functions make, as scikit-learn's checks meet them: labels in, noise in.

Each adapter releases the labels that it is given, at an epsilon that hardly changes them, and hands the release on.
Features go through untouched: it is the learner that checks them.
"""

from types import SimpleNamespace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin, clone
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

import labeldp as ldp
from labeldp import bags, features, learners
from labeldp.bags import fit_bags
from labeldp.learners import fit_linear
from labeldp.privacy import Public, Release
from labeldp.sgd import SoftmaxRegression, lp_rr_sgd

EPSILON = 500.0


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def targets(y: Any) -> np.ndarray:
    """Labels, shape (n,), as scikit-learn wants them refused; of complex ones the real part, so that features count."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    kind = getattr(getattr(y, "dtype", None), "kind", None)
    return column_or_1d(y.real if kind == "c" else y, warn=True)


def classes_of(y: Any) -> tuple[np.ndarray, Any]:
    """Labels and the domain that is made of them, which the data of a check may be."""
    labels = targets(y)
    check_classification_targets(labels)
    if labels.dtype.kind == "f":  # classes are texts or integers
        labels = labels.astype(np.int64)
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
    return ldp.Curator(labels, domain=domain, budget=ldp.Budget(epsilon=EPSILON, delta=1e-6))


def released_classes(y: Any) -> Any:
    if isinstance(y, Release):  # a learner that tunes itself fits others like it
        return y
    labels, domain = classes_of(y)
    return holder(labels, domain).release(ldp.RandomizedResponse(domain=domain, epsilon=30.0), rng=rng())


def released_numbers(y: Any) -> Any:
    if isinstance(y, Release):  # a learner that tunes itself fits others like it
        return y
    labels, domain = numbers_of(y)
    return holder(labels, domain).release(ldp.DiscreteLaplace(domain=domain, epsilon=EPSILON), rng=rng())


def released_bags(y: Any) -> Any:
    """One record in each bag."""
    labels, domain = numbers_of(y)
    bags = Public(np.arange(len(labels)), why="a test")
    return holder(labels, domain).release(ldp.BagSum(1, domain=domain, epsilon=EPSILON, bags=bags), rng=rng())


def width_of(X: Any) -> int:
    """How many features there are."""
    shape = getattr(X, "shape", None) or np.asarray(X).shape
    return shape[1] if len(shape) > 1 else 1


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


class BagRegressor(bags.BagRegressor):
    def fit(self, X: Any, y: Any) -> Self:
        return super().fit(X, released_bags(y))


class PixelMap(TransformerMixin, BaseEstimator):
    """A map of images, here of one pixel with a channel for each feature."""

    def made(self, channels: int) -> Any:
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None) -> Self:
        self.map_ = self.made(width_of(X)).fit(X)
        self.n_features_in_ = self.map_.n_features_in_
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(self.map_, "feature_names_in_"):
            self.feature_names_in_ = self.map_.feature_names_in_
        return self

    def transform(self, X: Any) -> Any:
        check_is_fitted(self, "map_")
        return self.map_.transform(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags


class PatchFilters(PixelMap):
    def made(self, channels: int) -> Any:
        return features.PatchFilters(side=1, patch=1, channels=channels, filters=2, regions=1)


class ScatterFilters(PixelMap):
    def made(self, channels: int) -> Any:
        return features.ScatterFilters(side=1, channels=max(channels, 1), angles=2, regions=1)


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
        return fit_linear(X, holder(labels, domain), epsilon=EPSILON, delta=1e-6, rng=rng(), representation=few())


class LinearRegressor(MadeRegressor):
    def made(self, X: Any, labels: Any, domain: Any) -> Any:
        return fit_linear(X, holder(labels, domain), epsilon=EPSILON, delta=1e-6, rng=rng(), representation=few())


class LinearRegressorOfBags(MadeRegressor):
    gaps = False

    def made(self, X: Any, labels: Any, domain: Any) -> Any:
        return fit_bags(X, released_bags(labels))


class CellTreesClassifier(MadeClassifier):
    def made(self, X: Any, labels: Any, domain: Any) -> Any:
        return grown(learners.CellTreesClassifier, X, np.eye(domain.size)[domain.encode(labels)])


class CellTreesRegressor(MadeRegressor):
    def made(self, X: Any, labels: Any, domain: Any) -> Any:
        return grown(learners.CellTreesRegressor, X, labels[:, None])


def grown(kind: Any, X: Any, means: np.ndarray) -> Any:
    """A few trees on cells of one record each, which `fit_cells` would make with more."""
    count = len(means)
    check_consistent_length(X, means)
    trees = kind(rounds=20, leaves=(8,)).learn(X, np.arange(count), means, np.ones(count))
    return SimpleNamespace(value=SimpleNamespace(estimator=trees))


class LabelDPClassifier(ldp.LabelDPClassifier):
    """Declares the classes of the labels that a check passes, and each clone has a right of its own."""

    def fit(self, X: Any, y: Any) -> Self:
        labels, domain = classes_of(y)
        given, self.classes = self.classes, domain
        try:
            return super().fit(X, labels)
        finally:
            self.classes = given

    def __sklearn_clone__(self) -> Self:
        return type(self)(**{name: clone(value, safe=False) for name, value in self.get_params(deep=False).items()})


class LabelDPRegressor(ldp.LabelDPRegressor):
    """Declares the range of the labels that a check passes, and each clone has a right of its own."""

    def fit(self, X: Any, y: Any) -> Self:
        labels, domain = numbers_of(y)
        given, self.range = self.range, domain
        try:
            return super().fit(X, labels)
        finally:
            self.range = given

    def __sklearn_clone__(self) -> Self:
        return type(self)(**{name: clone(value, safe=False) for name, value in self.get_params(deep=False).items()})


class LossClassifier(MadeClassifier):
    gaps = False

    def made(self, X: Any, labels: Any, domain: Any) -> Any:
        loss = SoftmaxRegression(domain.size)
        return lp_rr_sgd(X, holder(labels, domain), loss=loss, epsilon=30.0, diameter=100, rng=rng(), passes=5)


def few() -> Any:
    """A representation that takes no time."""
    return features.TableMap(trees=0)

"""The data sets by name: how their files are read, their classes, and how an answer is judged."""

import hashlib
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.learners import Model, PatchFilters
from labeldp.mechanisms import Classes
from labeldp.privacy import InputError
from labeldp.tables import LabeledArrays, load_movielens, open_images
from labeldp.workflows.settings import classes_of

STARS = np.arange(1, 6)
GRAY, COLOR = (28, 28), (32, 32, 3)
PRINCIPAL = 1000
"""As many directions as `fit_linear` looks at."""


@dataclass(frozen=True)
class Source:
    """What the name of a data set stands for.

    Args:
        classes: how many, or None where the user says so.
        preset: a key of `labeldp.networks.PRESETS`, for the networks of the paper.
        ratings: pairs of ids and stars, not images.
        shape: of each image, or None where the user says so or there are none.
    """

    classes: int | None
    preset: str
    ratings: bool = False
    shape: tuple[int, ...] | None = None

    @property
    def network(self) -> str:
        """The network that is taken where none is named."""
        return "collaborative" if self.ratings else "cnn"


DATASETS = {
    "mnist": Source(10, "mnist", shape=GRAY),
    "fashion_mnist": Source(10, "mnist", shape=GRAY),
    "kmnist": Source(10, "mnist", shape=GRAY),
    "cifar10": Source(10, "cifar10", shape=COLOR),
    "cifar100": Source(100, "cifar100", shape=COLOR),
    "movielens": Source(5, "movielens", ratings=True),
    "npz": Source(None, "quick"),
}
"""Names of data sets; "npz" is any labeled images of the user's own, with --classes."""


@dataclass(frozen=True, eq=False)
class Task:
    """Training records with labels that a simulation treats as private, and test records to measure on.

    Args:
        domain: the declared classes.
        train: features and labels.
        test: the same; for measurements alone.
        ratings: whether classes are stars, whose mean is predicted.
    """

    domain: Classes
    train: LabeledArrays = field(repr=False)
    test: LabeledArrays = field(repr=False)
    ratings: bool = False

    @cached_property
    def digest(self) -> str:
        """Of the features: which data this was."""
        found = hashlib.sha256()
        for part in (self.train, self.test):
            found.update(f"{part.features.dtype}{part.shape}".encode() + np.ascontiguousarray(part.features).data)
        return found.hexdigest()[:16]

    @property
    def metric(self) -> str:
        """What is measured: "accuracy", or "RMSE" of stars."""
        return "RMSE" if self.ratings else "accuracy"

    def measure(self, model: Model) -> float:
        """The accuracy on test records, or the root mean squared error of the mean rating under the probabilities."""
        features = self.test.features
        if self.ratings:
            errors = model.predict_proba(features) @ STARS - self.test.labels
            return float(np.sqrt(np.mean(errors**2)))
        return self.share_right(model.predict_proba(features))

    def share_right(self, probabilities: NDArray[np.float64]) -> float:
        """The accuracy of answers for test records, shape (n, K)."""
        return float(np.mean(probabilities.argmax(axis=1) == self.domain.encode(self.test.labels)))

    @cached_property
    def patches(self) -> "Patches":
        """The features of `PatchFilters` in principal directions, computed once for all noises."""
        return Patches.of(self.train.features, self.test.features)


@dataclass(frozen=True, eq=False)
class Patches:
    """What was learned from pixels alone, for training and test images, and the seconds that took: clock, processor."""

    train: NDArray[np.float32] = field(repr=False)
    test: NDArray[np.float32] = field(repr=False)
    seconds: tuple[float, float]

    @classmethod
    def of(cls, train: NDArray[Any], test: NDArray[Any]) -> "Patches":
        from sklearn.decomposition import PCA

        if train.ndim not in (3, 4) or train.shape[1] != train.shape[2] or train.shape[1] < 8:
            raise InputError("--method linear needs square images of at least 8 pixels a side")
        start = time.perf_counter(), time.process_time()
        filters = PatchFilters(side=train.shape[1], channels=train.shape[3] if train.ndim == 4 else 1)
        table = filters.fit_transform(train)
        records, width = table.shape
        solver = "covariance_eigh" if records > width else "full"
        turn = PCA(min(PRINCIPAL, records - 1, width), svd_solver=solver).fit(table)
        own, other = (turn.transform(each).astype(np.float32) for each in (table, filters.transform(test)))
        return cls(own, other, (time.perf_counter() - start[0], time.process_time() - start[1]))


def load_task(dataset: str, path: str, classes: str | None) -> Task:
    """Read a data set from a path of the user's.

    Args:
        dataset: a key of `DATASETS`.
        path: as `open_images` or `load_movielens` take it.
        classes: with "npz": class names, or how many codes.

    Raises:
        InputError: an unknown name, files that cannot be read, no test part, images of another size than the
            data set has, or labels outside the classes.
    """
    source = DATASETS[dataset]
    domain = classes_of(classes) if source.classes is None and classes else Classes(source.classes or 2)
    return _ratings(path) if source.ratings else _images(path, domain, dataset, source.shape)


def _images(path: str, domain: Classes, dataset: str, shape: tuple[int, ...] | None) -> Task:
    data = open_images(path)
    if data.test is None:
        raise InputError(f"{path} must have a test part: accuracies are measured on it")
    if shape is not None and data.train.shape[1:] != shape:
        wanted, found = (" × ".join(map(str, each)) for each in (shape, data.train.shape[1:]))
        raise InputError(f"--dataset {dataset} has images of {wanted}, and {path} has {found}: --dataset npz takes any")
    domain.encode(data.train.labels)
    domain.encode(data.test.labels)
    return Task(domain, data.train, data.test)


def _ratings(path: str) -> Task:
    """Stars 1 to 5 as codes 0 to 4; test ratings of users and movies that no training rating has are left out."""
    data = load_movielens(path)
    columns = zip(data.test.features.T, data.train.features.T, strict=True)
    known = np.logical_and.reduce([np.isin(other, own) for other, own in columns])
    train = LabeledArrays(data.train.features, data.train.labels - 1)
    test = LabeledArrays(data.test.features[known], data.test.labels[known])
    return Task(Classes(5), train, test, ratings=True)

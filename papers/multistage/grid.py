"""Ghazi et al.: which methods are compared, on which data sets."""

import hashlib
import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.features import default_representation
from labeldp.fit import classes_of, epsilon_of
from labeldp.images import LabeledArrays, open_images
from labeldp.learners import Model, imported
from labeldp.mechanisms import Classes
from labeldp.privacy import Budget, InputError, decimal, decimal_text, float_above
from papers.harness import SeededRun, check_seeds, listed
from papers.ratings import load_movielens

Setting = tuple[str, float | str]


@dataclass(frozen=True)
class Method:
    """What a method needs.

    Args:
        delta: spends one.
        network: trains one, with torch.
        preset: takes its recipe from a preset.
    """

    delta: bool = False
    network: bool = True
    preset: bool = True


METHODS = {
    "lp-1st": Method(),
    "lp-2st": Method(),
    "lp-3st": Method(),
    "linear": Method(delta=True, network=False, preset=False),
    "best": Method(delta=True, preset=False),
    "best-local": Method(preset=False),
}
"""Randomized response in one, two and three stages, linear models of noisy sums, and networks on top of those."""

CLUSTERS = Method(network=False, preset=False)
"""Noisy majorities of clusters, behind their figures alone."""

COUNTS = (10.0, 30.0, 100.0, 300.0, 1000.0)
"""Of clusters."""

FIGURES: dict[str, tuple[str, dict[str, tuple[float | str, ...]]]] = {
    "split-temperature": ("lp-2st", {"split": (0.4, 0.55, 0.7), "temperature": (0.5, 1.0, 2.0, "calibrated")}),
    "mixup": ("lp-2st", {"mixup1": (0.0, 2.0, 8.0), "mixup2": (0.0, 2.0, 8.0)}),
    "clusters": ("clusters", {"clusters": COUNTS}),
    "ssl-clusters": ("ssl-clusters", {"clusters": COUNTS}),
}
"""Sweeps behind a figure of their own: the method, and the values of two settings, or of one beside epsilon."""

QUICK = ("cnn", "mlp")
"""Networks that are trained by the preset "quick" unless another is named."""


def setting_text(value: float | str) -> str:
    """Return the value of a setting for people."""
    return f"{value:g}" if isinstance(value, float) else value


@dataclass(frozen=True)
class Run(SeededRun):
    """One training with one noise; all of it is public.

    Args:
        dataset: a key of `DATASETS`.
        method: a key of `METHODS`, or "clusters" or "ssl-clusters".
        epsilon: of every label.
        delta: 0 for methods that spend none.
        seed: of noise, split and training.
        network: a key of `labeldp.networks.NETWORKS`, where there is one.
        preset: a key of `labeldp.networks.PRESETS`, where there is one.
        settings: what a sweep changed.
    """

    dataset: str
    method: str
    epsilon: float
    delta: float
    seed: int
    network: str | None = None
    preset: str | None = None
    settings: tuple[Setting, ...] = ()

    @property
    def name(self) -> str:
        """The name of its file; different runs have different names."""
        words = [self.dataset, self.method, *(each for each in (self.network, self.preset) if each)]
        words += [f"epsilon{decimal_text(self.epsilon)}"]
        words += [f"delta{decimal_text(self.delta)}"] if self.delta else []
        words += [f"{name}={value}" for name, value in self.settings]
        return "-".join([*words, f"seed{self.seed}"])

    @property
    def title(self) -> str:
        """Its name for people."""
        changed = [f"{name} {setting_text(value)}" for name, value in self.settings]
        return ", ".join([f"{self.dataset}, {self.method}, ε = {self.epsilon:g}", *changed, f"noise {self.seed + 1}"])

    def setting(self, name: str) -> float | str | None:
        """Return what a sweep set, or None."""
        return dict(self.settings).get(name)


@dataclass(frozen=True)
class Grid:
    """All runs of one command.

    Args:
        dataset: a key of `DATASETS`.
        classes: of "npz", as written.
        runs: in the order in which they are made: the first noise of everything, then the second.
    """

    dataset: str
    classes: str | None
    runs: tuple[Run, ...]

    @classmethod
    def parse(
        cls,
        *,
        dataset: str,
        classes: str | None,
        epsilon: str,
        delta: str,
        method: str,
        network: str | None,
        preset: str | None,
        seeds: int,
        figure: str | None,
    ) -> "Grid":
        """Return the grid of the options of a command line.

        Raises:
            InputError: the first option that is wrong.
        """
        if dataset not in DATASETS:
            raise InputError(f"--dataset must be one of {', '.join(DATASETS)}, not {dataset!r}")
        if (DATASETS[dataset].classes is None) != (classes is not None):
            raise InputError("--classes must be given with --dataset npz, such as 10 or cat,dog, and only there")
        check_seeds(seeds)
        if figure is not None and figure not in FIGURES:
            raise InputError(f"--figure must be one of {', '.join(FIGURES)}, not {figure!r}")
        epsilons = listed(epsilon, "epsilon", epsilon_of)
        spent = Budget(1, float_above(decimal(delta, "delta"))).delta
        ways = _ways(figure, listed(method, "method"))
        runs = [
            _completed(Run(dataset, name, each, spent, seed, network, preset, settings))
            for seed, each, (name, settings) in product(range(seeds), epsilons, ways)
        ]
        if (network and not any(run.network for run in runs)) or (preset and not any(run.preset for run in runs)):
            raise InputError("--network and --preset need a method that takes them: --preset is for lp-1st and lp-2st")
        return cls(dataset, classes, tuple(runs))


def _ways(figure: str | None, methods: list[str]) -> list[tuple[str, tuple[Setting, ...]]]:
    """Return methods with their settings: as asked for, or the sweep of a figure."""
    if figure is not None:
        method, axes = FIGURES[figure]
        return [(method, tuple(zip(axes, values, strict=True))) for values in product(*axes.values())]
    for method in methods:
        if method not in METHODS:
            raise InputError(f"--method must be one or more of {', '.join(METHODS)}, not {method!r}")
    return [(method, ()) for method in methods]


def _completed(run: Run) -> Run:
    """Return a run with what its method takes, and nothing else; defaults go with data set and network."""
    method, source = METHODS.get(run.method, CLUSTERS), DATASETS[run.dataset]
    if source.ratings and not method.preset:
        raise InputError(f"--method {run.method} needs images: --dataset {run.dataset} takes lp-1st and lp-2st")
    if method.delta and not run.delta:
        raise InputError("--delta must be positive for linear and best, such as 1e-6")
    network = (run.network or source.network) if method.network else None
    preset = (run.preset or ("quick" if network in QUICK else source.preset)) if method.preset else None
    return replace(run, delta=run.delta if method.delta else 0.0, network=network, preset=preset)


STARS = np.arange(1, 6)
GRAY, COLOR = (28, 28), (32, 32, 3)
CLUSTERED = 50
"""Principal components of pixels that are clustered."""

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
        """A digest of the features: which data this was."""
        found = hashlib.sha256()
        for part in (self.train, self.test):
            found.update(f"{part.features.dtype}{part.shape}".encode() + np.ascontiguousarray(part.features).data)
        return found.hexdigest()[:16]

    @property
    def metric(self) -> str:
        """What is measured: "accuracy", or "RMSE" of stars."""
        return "RMSE" if self.ratings else "accuracy"

    def measure(self, model: Model) -> float:
        """Return the accuracy on test records, or the root mean squared error of the mean rating."""
        features = self.test.features
        if self.ratings:
            errors = model.predict_proba(features) @ STARS - self.test.labels
            return float(np.sqrt(np.mean(errors**2)))
        return self.share_right(model.predict_proba(features))

    def share_right(self, probabilities: NDArray[np.float64]) -> float:
        """Return the accuracy of class probabilities of the test records, shape (n, K)."""
        return float(np.mean(probabilities.argmax(axis=1) == self.domain.encode(self.test.labels)))

    @cached_property
    def _mapping(self) -> tuple[Any, list[NDArray[np.float32]]]:
        mapping = default_representation(self.train.features).fit(self.train.features)
        return mapping, [mapping.transform(part.features) for part in (self.train, self.test)]

    def map_images(self, images: NDArray[Any]) -> NDArray[np.float32]:
        """Return what linear models see of images; for all of training or test it is computed once for all noises."""
        mapping, tables = self._mapping
        for part, table in zip((self.train, self.test), tables, strict=True):
            if np.array_equal(images, part.features):
                return table
        return np.asarray(mapping.transform(images))

    @cached_property
    def principal(self) -> NDArray[np.float32]:
        """Principal components of the pixels of training and test images, in this order."""
        from sklearn.decomposition import PCA

        images = np.concatenate([part.features for part in (self.train, self.test)])
        pixels = images.reshape(len(images), -1).astype(np.float32)
        return np.asarray(PCA(min(CLUSTERED, *pixels.shape), random_state=0).fit_transform(pixels))

    @cached_property
    def self_supervised(self) -> NDArray[np.float32]:
        """Embeddings of training and test images, in this order, by a network that saw training images alone."""
        learned = imported("labeldp.networks").SelfSupervised().fit(self.train.features)
        return np.concatenate([learned.transform(part.features) for part in (self.train, self.test)])

    @cached_property
    def mapped(self) -> "MappedImages":
        """The features of `ImageMap` in principal directions, computed once for all noises."""
        return MappedImages.of(self.train.features, self.test.features)


@dataclass(frozen=True, eq=False)
class MappedImages:
    """What was learned from pixels alone, for training and test images, and the seconds that took: clock, processor."""

    train: NDArray[np.float32] = field(repr=False)
    test: NDArray[np.float32] = field(repr=False)
    seconds: tuple[float, float]

    @classmethod
    def of(cls, train: NDArray[Any], test: NDArray[Any]) -> "MappedImages":
        from sklearn.decomposition import PCA

        if train.ndim not in (3, 4) or train.shape[1] != train.shape[2] or train.shape[1] < 8:
            raise InputError("--method linear needs square images of at least 8 pixels a side")
        start = time.perf_counter(), time.process_time()
        transformer = default_representation(train)
        table = transformer.fit_transform(train)
        records, width = table.shape
        solver = "covariance_eigh" if records > width else "full"
        turn = PCA(min(PRINCIPAL, records - 1, width), svd_solver=solver).fit(table)
        own, other = (turn.transform(each).astype(np.float32) for each in (table, transformer.transform(test)))
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
    """Read stars 1 to 5 as codes 0 to 4; leave out test ratings of users and movies without a training rating."""
    data = load_movielens(path)
    columns = zip(data.test.features.T, data.train.features.T, strict=True)
    known = np.logical_and.reduce([np.isin(other, own) for other, own in columns])
    train = LabeledArrays(data.train.features, data.train.labels - 1)
    test = LabeledArrays(data.test.features[known], data.test.labels[known])
    return Task(Classes(5), train, test, ratings=True)

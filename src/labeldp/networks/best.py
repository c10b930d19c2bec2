"""`fit_best`: a linear head, a network distilled from it, and noisy labels from the rest of epsilon."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone

from labeldp.learners import Evidence, Model, PatchFilters, TableMap, fit_and_evaluate, fit_linear, round_loss
from labeldp.mechanisms import Classes, RandomizedResponseWithPrior
from labeldp.networks.classifier import NetworkClassifier, Watch
from labeldp.networks.training import Recipe
from labeldp.privacy import (
    CuratorLike,
    InputError,
    PrivacyLoss,
    RandomSource,
    Release,
    check_integer,
    float_above,
    gather,
    positive_epsilon,
)

HEAD_FIRST = 2.0
"""The head gets all of epsilon up to here: below it, noisy sums tell more than a noisy label for each record."""

LEAST_RESPONSE = 1.0
"""The least epsilon for noisy labels: a smaller rest goes to the head as well."""

DISTILLED = Recipe(epochs=4, peak=0.1)

STUDENT = Recipe(epochs=6, peak=0.05)

ROUNDS = 2
"""How often the student is trained on the labels' posterior, each time with its own predictions as the prior."""

Told = Callable[[str, Release[Model]], None]


def fit_best(
    features: Any,
    curator: CuratorLike,
    *,
    epsilon: float,
    delta: float = 0.0,
    rng: RandomSource,
    network: str = "cnn",
    representation: Any = None,
    evaluation: float = 0.0,
    partition_seed: int = 0,
    checkpoints: str | Path | None = None,
    watch: Watch | None = None,
    told: Told | None = None,
    device: str | None = None,
    seed: int = 0,
) -> Release[Model]:
    """Learn from private labels with a trusted curator: a linear head, a network, and noisy labels for large epsilon.

    A linear head is learned from noisy sums (`fit_linear`), a network is distilled from it on all records, and a second
    round of sums measures the network's embedding beside the first features. Where epsilon is large enough, the rest
    buys one noisy label for each record, among the classes that are likely under this model
    (`RandomizedResponseWithPrior`), and the network learns from the posterior. The model predicts the geometric mean of
    head and network.

    Args:
        features: public images of bytes (n, h, w) or (n, h, w, 3), or numbers (n, d).
        curator: holds the labels: classes.
        epsilon: for all releases together.
        delta: for all releases together; 0 asks for a pure guarantee, which costs the head many dimensions.
        rng: randomness of the noise.
        network: a key of `NETWORKS`.
        representation: unfitted transformer for the head; by default `PatchFilters` for images, else `TableMap`.
        evaluation: share of the records that are held out: their labels are released by plain randomized response at
            the same epsilon, and give the model its `evaluation`.
        partition_seed: public seed of the random split.
        checkpoints: a folder in which an interrupted training is continued.
        watch: called after each epoch, as by `NetworkClassifier`.
        told: called with the name of each step that is done and its released model: "head", "distilled", "second
            head", "student".
        device: "cpu" or "cuda".
        seed: public seed of weights, order and augmentations.

    Returns:
        The model; its certificate holds every charge.

    Guarantee: (epsilon, delta)-DP for each label: all releases together.

    Raises:
        InputError: an argument is wrong; nothing was charged.

    Source: `docs/results/images.md` says what each step gives.
    """
    features = np.asarray(features)
    if len(features) != curator.records:
        raise InputError("features must have one row for each record of the labels")
    if not isinstance(curator.domain, Classes):
        raise InputError("curator must hold classes: its domain is not Classes")
    seed = check_integer(seed, "seed", 0)
    epsilon = float_above(positive_epsilon(epsilon))
    if not 0 <= evaluation < 1:
        raise InputError("evaluation must be a share of the records, in [0, 1)")
    mapping = Remembered(default_representation(features) if representation is None else representation)
    net = NetworkClassifier(network, checkpoints=checkpoints, watch=watch, device=device)
    fit = _Fit(features, curator.domain, epsilon, delta, rng, mapping, net, told or (lambda *_: None), seed)
    fit.dry_run()
    if not evaluation:
        return fit.learn(curator, np.arange(curator.records))

    def learn(training: CuratorLike, held: NDArray[np.bool_]) -> tuple[Release[Model], Any]:
        model = fit.learn(training, np.flatnonzero(~held))
        return model, model.value.predict_proba(features[held])

    return fit_and_evaluate(curator, epsilon, learn, share=evaluation, seed=partition_seed, rng=rng)


def default_representation(features: Any) -> Any:
    """Return `PatchFilters` for images, `TableMap` for tables."""
    shape = np.shape(features)
    if len(shape) < 3:
        return TableMap()
    return PatchFilters(side=shape[1], channels=1 if len(shape) == 3 else shape[3])


def shares(epsilon: float, delta: float, classes: int) -> tuple[float, float]:
    """Return the epsilon of the head and that of the noisy labels, so that both together cost at most (epsilon, delta).

    The noisy labels get the epsilon above `HEAD_FIRST`, or none if that is below `LEAST_RESPONSE`. The head gets the
    largest epsilon found at which the composition of both stays within the limit. Both depend on public numbers alone.

    Args:
        epsilon, delta: the limit for both together.
        classes: the number of classes, K.
    """
    limit = positive_epsilon(epsilon)
    epsilon = float_above(limit)
    rest = float_above(max(limit - positive_epsilon(HEAD_FIRST), Fraction(0)))
    if rest < LEAST_RESPONSE:
        return epsilon, 0.0
    if not delta:
        return float_above(limit - positive_epsilon(rest)), rest
    low, high = 0.99 * HEAD_FIRST, epsilon
    for _ in range(10):
        middle = float(f"{(low + high) / 2:.3g}")
        sums = round_loss(Classes(classes), epsilon=middle, delta=delta, rounds=2) * 2
        within = (sums + PrivacyLoss.pure(rest)).within(epsilon, delta)
        low, high = (middle, high) if within else (low, middle)
    return low, rest


def steps(domain: Classes, epsilon: float, delta: float) -> dict[str, PrivacyLoss]:
    """Return the releases of `fit_best` on its training records by name, and what each costs at most.

    Args:
        domain: the domain of the labels.
        epsilon, delta: the limit for all releases together.
    """
    head, rest = shares(epsilon, delta, domain.size)
    sums = round_loss(domain, epsilon=head, delta=delta, rounds=2)
    labels = {"labels": PrivacyLoss.pure(rest)} if rest else {}
    return {"linear": sums, "linear, round 2": sums, **labels}


@dataclass(frozen=True)
class _Fit:
    """The arguments and the steps of `fit_best`."""

    features: Any = field(repr=False)
    domain: Classes
    epsilon: float
    delta: float
    rng: RandomSource = field(repr=False)
    representation: Any
    network: NetworkClassifier
    told: Told
    seed: int

    def dry_run(self) -> None:
        """Raise InputError, before anything is charged, if the network could not be trained."""
        self.network.dry_run(self.features, self.domain.size)

    def learn(self, curator: CuratorLike, rows: NDArray[np.intp]) -> Release[Model]:
        """Run all steps on the labels of the records `rows`."""
        head_epsilon, rest = shares(self.epsilon, self.delta, self.domain.size)
        curator.require(steps(self.domain, self.epsilon, self.delta))
        nets: list[NetworkClassifier] = []

        def refine(head: Release[Model]) -> Release[Any]:
            self.told("head", head)
            nets.append(self.distilled(head, "distilled", DISTILLED, None))
            self.told("distilled", self.modelled(head, nets[0]))
            return head.map(lambda model: Joint.of((model.estimator.representation, nets[0]), self.features))

        # Version 0.1 knew least squares alone: other heads give the second round other rows, and so another charge.
        head = fit_linear(
            self.features[rows], curator, epsilon=head_epsilon, delta=self.delta, rng=self.rng,
            representation=self.representation, refine=(refine,), link="identity",
        )  # fmt: skip
        self.told("second head", head)
        if not rest:
            student = self.distilled(head, "student", STUDENT, nets[0])
            return self.joined([head], head, student)
        prior = head.map(lambda model: model.predict_proba(self.features[rows]))
        mechanism = RandomizedResponseWithPrior(domain=self.domain, epsilon=rest, prior=prior)
        # Also if the head leaves one candidate each: with delta > 0 the charge must not depend on what was released.
        response = curator.release(mechanism, rng=self.rng, step="labels")
        student = self.taught(head, response, rows, nets[0])
        return self.joined([head, response], head, student)

    def distilled(self, teacher: Release[Model], step: str, recipe: Recipe, start: Any) -> NetworkClassifier:
        """Train a network on a model's predictions for all records."""
        return self._fit(step, recipe, start, teacher.value.predict_proba(self.features))

    def taught(
        self, head: Release[Model], response: Release[Any], rows: NDArray[np.intp], start: NetworkClassifier
    ) -> NetworkClassifier:
        """Train a network on the posterior of the released labels, in `ROUNDS` rounds."""
        evidence, student = Evidence.of(response), start
        known = head.value.predict_proba(self.features)
        for number in range(1, ROUNDS + 1):
            soft = known.copy()
            soft[rows] = evidence.posterior(known[rows])
            student = self._fit(f"student {number}", STUDENT, student, soft)
            known = student.predict_proba(self.features)
        return student

    def _fit(self, step: str, recipe: Recipe, start: Any, soft: Any) -> NetworkClassifier:
        augment = recipe.augment if self.features.ndim > 2 else ()
        network = clone(self.network).set_params(recipe=replace(recipe, seed=self.seed, augment=augment))
        if self.network.checkpoints is not None:
            network.set_params(checkpoints=Path(self.network.checkpoints) / step.replace(" ", "-"))
        return network.fit_soft(self.features, soft, start, step)

    def modelled(self, source: Release[Model], network: NetworkClassifier) -> Release[Model]:
        """Wrap a network as a released model."""
        return source.map(lambda _: Model(self.domain, network))

    def joined(self, releases: list[Release[Any]], head: Release[Model], student: NetworkClassifier) -> Release[Model]:
        """Join head and network into one released model."""
        both = Blend((head.value.estimator, student))
        head.value.estimator.representation.forget()
        self.told("student", gather(releases, lambda *_: Model(self.domain, student)))
        return gather(releases, lambda *_: Model(self.domain, both))


REMEMBERED = 2
"""How many results `Remembered` keeps."""


class Remembered(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A transformer that keeps its last results, so that several models on one slow map compute it once.

    Args:
        transformer: computes the results.
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the transformer; labels are not looked at."""
        self.transformer.fit(X)
        self.tables_: dict[bytes, Any] = {}
        return self

    def transform(self, X: Any) -> Any:
        """Transform X, or return the kept result."""
        array = np.ascontiguousarray(X)
        key = hashlib.blake2b(repr((array.shape, array.dtype)).encode() + array.data.tobytes()).digest()
        if key not in self.tables_:
            self.tables_ = dict(list(self.tables_.items())[1 - REMEMBERED :])
            self.tables_[key] = self.transformer.transform(X)
        return self.tables_[key]

    def forget(self) -> None:
        """Drop the kept results."""
        self.tables_ = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the kept results: they can be computed again."""
        return {name: {} if name == "tables_" else value for name, value in vars(self).items()}


class Joint(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Several fitted transformers side by side, scaled to the same total variance; made by `fit_best`.

    Args:
        parts: fitted transformers.
        weights: one factor for each.
    """

    def __init__(self, parts: Any, weights: Any) -> None:
        self.parts = parts
        self.weights = weights

    @classmethod
    def of(cls, parts: tuple[Any, ...], features: Any) -> Self:
        """Choose the weights of the parts from a sample of the features."""
        sample = features[:: max(len(features) // 5000, 1)]
        totals = [float(np.asarray(part.transform(sample)).var(axis=0).sum()) for part in parts]
        return cls(parts, tuple(1 / max(total, 1e-12) ** 0.5 for total in totals))

    def forget(self) -> None:
        """Drop the kept results of all parts."""
        for part in self.parts:
            if hasattr(part, "forget"):
                part.forget()

    def fit(self, X: Any, y: Any = None) -> Self:
        """Do nothing: the parts are fitted already."""
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return the features of all parts, shape (n, p)."""
        blocks = zip(self.parts, self.weights, strict=True)
        return np.hstack([np.asarray(part.transform(X), dtype=np.float32) * np.float32(each) for part, each in blocks])


class Blend(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The geometric mean of fitted classifiers' probabilities; made by `fit_best`.

    Args:
        parts: fitted classifiers of the same codes.
    """

    def __init__(self, parts: Any) -> None:
        self.parts = parts

    @property
    def classes_(self) -> NDArray[np.intp]:
        """Codes 0 to K - 1."""
        return np.asarray(self.parts[0].classes_)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return probabilities, shape (n, K)."""
        logs = [np.log(np.maximum(part.predict_proba(X), 1e-12)) for part in self.parts]
        return np.asarray(softmax(np.mean(logs, axis=0), axis=1))

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the likeliest code, shape (n,)."""
        return self.predict_proba(X).argmax(axis=1)

"""`fit_best`: one release of sums or labels, a linear head, networks distilled from it, and corrections by the same."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.preprocessing import FunctionTransformer

from labeldp.features import default_representation, encode
from labeldp.learners import (
    IMAGE_NETWORKS,
    TRUE_LABELS,
    Evidence,
    Learner,
    LinearHead,
    LinearTask,
    Model,
    Progress,
    Task,
    evaluation_steps,
    first_response,
    fit_and_evaluate,
    fit_linear_head,
    label_head,
    log_scores,
    no_progress,
    part,
    steps_of,
    with_given,
)
from labeldp.mechanisms import Classes, Mechanism, best_groups, local_hashing_bits
from labeldp.networks.classifier import NOT_SIMULATED, NetworkClassifier, Watch, epochs_shown, require_images
from labeldp.networks.training import Recipe
from labeldp.privacy import (
    CuratorLike,
    InputError,
    Plan,
    Public,
    RandomSource,
    Release,
    check_choice,
    check_curator,
    check_integer,
    decimal,
    float_above,
    positive_epsilon,
)

Trust = Literal["central", "local"]

MIRRORED_IMAGES = 2000

SMALLEST_SHARE = 0.1
"""A network is discarded if the head gives a class at least this part of an equal share, and the network none."""


@dataclass(frozen=True)
class DistillationSettings:
    """The constants that measured results depend on.

    Args:
        labels_from: labels are taken, not sums with a delta, where a noisy one tells at least this share of a label's
            bits.
        pure_labels_from: the same without a delta.
        distilled, student: how the first and the second network of sums are trained.
        taught: how networks of labels are trained.
        labels_correction, sums_correction: factors on the precision of the head's prior where labels, or sums, correct
            the mean with a network.
        labels_discrepancy, sums_discrepancy: the discrepancy from which labels, or sums, contradict an answer.
        weights: of a network that are tried.
        mirrored: Cohen's kappa of the head's answers for images and their mirror images from which these mean the same.
    """

    labels_from: float
    pure_labels_from: float
    distilled: Recipe
    student: Recipe
    taught: Recipe
    labels_correction: float
    sums_correction: float
    labels_discrepancy: float
    sums_discrepancy: float
    weights: tuple[float, ...]
    mirrored: float


SETTINGS = DistillationSettings(
    labels_from=0.28,
    pure_labels_from=0.05,
    distilled=Recipe(epochs=8, least_steps=1880, peak=0.1, average=0.998),
    student=Recipe(epochs=10, least_steps=2350, peak=0.1, average=0.998),
    taught=Recipe(epochs=6, least_steps=1400, peak=0.1, average=0.998),
    labels_correction=25.0,
    sums_correction=10.0,
    labels_discrepancy=1.1,
    sums_discrepancy=1.0,
    weights=(1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1),
    mirrored=0.5,
)

Callback = Callable[[str, Release[Model]], None]


def fit_best(
    features: Any,
    curator: CuratorLike,
    *,
    epsilon: float,
    delta: float = 0.0,
    rng: RandomSource,
    trust: Trust = "central",
    network: str = "cnn",
    representation: Any = None,
    augment: tuple[str, ...] | None = None,
    evaluation: float = 0.0,
    partition_seed: int = 0,
    checkpoints: str | Path | None = None,
    watch: Watch | None = None,
    callback: Callback | None = None,
    device: str | None = None,
    seed: int = 0,
) -> Release[Model]:
    """Learn from one release of private labels: a linear head, networks that learn from it, and corrections by it.

    All of epsilon goes into it. With a trusted curator it is one noisy sum of public features times labels, as in
    `fit_linear`, or, where epsilon is so large that they tell more, one noisy label of each record. Where nobody is
    trusted it is always the labels.
    A linear head is fitted to it by likelihood. A network learns the head's probabilities, for randomized labels
    multiplied by their likelihood, on randomly changed images. The answer is their geometric mean, with the largest
    weight of the network that the release does not contradict (by `Posterior.discrepancy`). Where the release
    contradicts the network itself, a linear term under which it is likeliest corrects the mean. A second network learns
    from that answer. All of it after the release costs nothing.

    A network that never answers a class that the model before it answers is left out: the model may have no network.

    Args:
        features: public images of bytes (n, h, w) or (n, h, w, 3), or numbers (n, d).
        curator: holds the labels: classes.
        epsilon: of the release.
        delta: of the release; 0 asks for a pure guarantee. 0 where nobody is trusted, and where labels are taken.
        rng: randomness of the noise.
        trust: "central" if the curator may see the labels, "local" if each of them is randomized on its own.
        network: a key of `NETWORKS`.
        representation: as in `fit_linear`.
        augment: random changes of images for the networks; by default crops, and flips if the head takes most mirror
            images for the same class, else warps.
        evaluation: share of the records that are held out: their labels are released by plain randomized response at
            the same epsilon, and give the model its `evaluation`.
        partition_seed: public seed of the random split, and of the partitions of classes.
        checkpoints: a folder in which an interrupted training is continued.
        watch: called after each epoch, as by `NetworkClassifier`.
        callback: called with the name of each step that is done and its released model: "head", "network", "network,
            mean", "network, corrected", and the same of "network 2".
        device: "cpu" or "cuda".
        seed: public seed of weights, order and augmentations.

    Returns:
        The model.

    Guarantee (approximate, pure): (epsilon, delta)-DP for each label; (epsilon, 0)-DP if labels are randomized one by
        one.

    Raises:
        InputError: an argument is wrong; nothing was charged.

    Source: `docs/results/images.md` says what each step gives.
    """
    check_curator(curator, "classes")
    if not 0 <= evaluation < 1:
        raise InputError("evaluation must be a share of the records, in [0, 1)")
    learner = Distilled(
        "distilled", network, trust, representation, augment, partition_seed, checkpoints, device, seed, watch, callback
    )
    return learner.fit(features, curator, Task.of(curator, epsilon, delta, evaluation=evaluation), rng=rng)


@final
@dataclass(frozen=True)
class Distilled(Learner):
    """One release of noisy sums or of noisy labels: a linear head learns from it, and networks from the head.

    Args:
        network, trust, representation, augment, partition_seed, checkpoints, device, seed, watch, callback: as in
            `fit_best`.
    """

    network: str = "cnn"
    trust: Trust = "central"
    representation: Any = None
    augment: tuple[str, ...] | None = None
    partition_seed: int = 0
    checkpoints: str | Path | None = None
    device: str | None = None
    seed: int = 0
    watch: Watch | None = field(default=None, repr=False, compare=False)
    callback: Callback | None = field(default=None, repr=False, compare=False)
    takes_delta: ClassVar[bool] = True
    resumable: ClassVar[bool] = True
    one_thread: ClassVar[str] = "blas"
    notes: ClassVar[tuple[str, ...]] = (NOT_SIMULATED,)

    def randomizes(self, task: Task) -> bool:
        """Return whether labels are randomized one by one."""
        assert task.domain.target == "classes"
        return takes_labels(task.domain, task.epsilon, task.delta, self.trust)

    def plan(self, task: Task) -> Plan:
        """Return the sums or noisy labels of most records, and an evaluation."""
        assert task.domain.target == "classes"
        path = part(0) if task.share else ()
        releases = steps_of(steps(task.domain, task.epsilon, task.delta, self.trust), path)
        if task.share:
            releases += steps_of(evaluation_steps(task.domain, task.epsilon, summed=False), part(1))
        return Plan(self.name, releases)

    def check(self, features: Any, task: Task) -> None:
        """Refuse images that the linear head has no features for, and too few; `fit` tries the network itself."""
        check_choice(self.network, "network", tuple(IMAGE_NETWORKS))
        default_representation(features)
        require_images("--model distilled", features, 2)

    def fit(
        self, features: Any, curator: CuratorLike, task: Task, *, rng: RandomSource, progress: Progress = no_progress
    ) -> Release[Model]:
        """See `fit_best`."""
        features = np.asarray(features)
        if len(features) != curator.records:
            raise InputError("features must have one row for each record of the labels")
        if curator.domain.target != "classes":
            raise InputError("curator must hold classes: its domain is not Classes")
        check_integer(self.seed, "seed", 0)
        epsilon = float_above(positive_epsilon(task.epsilon))
        check_choice(self.trust, "trust", ("central", "local"))
        if self.trust == "local" and decimal(task.delta, "delta"):
            raise InputError('must be 0 with trust="local": randomized labels need none', argument="delta")
        mapping = default_representation(features) if self.representation is None else self.representation
        labels = takes_labels(curator.domain, epsilon, task.delta, self.trust)
        watch = self.watch or epochs_shown(progress, 1 if labels else 2)
        net = NetworkClassifier(self.network, checkpoints=self.checkpoints, watch=watch, device=self.device)
        fit = _Fit(self, features, curator.domain, epsilon, task.delta, rng, labels, mapping, net)
        fit.dry_run()
        if not task.share:
            return fit.learn(curator, np.arange(curator.records))

        def learn(training: CuratorLike, held: NDArray[np.bool_]) -> tuple[Release[Model], Any]:
            model = fit.learn(training, np.flatnonzero(~held))
            return model, model.value.predict_proba(features[held])

        return fit_and_evaluate(curator, epsilon, learn, share=task.share, seed=self.partition_seed, rng=rng)

    def hidden(self, task: Task) -> tuple[str, ...]:
        """Return what the releases do not tell: of sums, or of labels."""
        sums = () if self.randomizes(task) else ("The sums as they were before noise was added.",)
        return (*sums, TRUE_LABELS)

    def describe(self, model: Model, task: Task) -> str:
        """Return head and networks, and whether a network was left out."""
        head = f"a linear model of noisy {'labels' if self.randomizes(task) else 'sums'}"
        kind, count = IMAGE_NETWORKS[self.network], len(model.estimator.parts)
        if not count:
            return f"{head}; {kind} that learned from it never answered a class that it answers, and was left out"
        return f"{head}, and {kind} that learned from it{' twice' if count > 1 else ''}"

    def describe_noise(self, task: Task) -> str:
        """Return the noise of the sums or of the labels."""
        if self.randomizes(task):
            assert task.domain.target == "classes"
            return first_response(task.domain, task.epsilon).describe_noise()
        return f"{'Gaussian' if task.delta else 'Two-sided geometric'} noise was added to every sum."


def takes_labels(domain: Classes, epsilon: float, delta: float, trust: Trust) -> bool:
    """Return whether `fit_best` randomizes labels one by one, and releases no sums; by public numbers alone.

    Args:
        domain: of the labels.
        epsilon, delta: of the release.
        trust: "central" or "local".
    """
    if trust == "local":
        return True
    bits = local_hashing_bits(domain.size, epsilon, best_groups(domain.size, epsilon))
    return bits >= (SETTINGS.labels_from if delta else SETTINGS.pure_labels_from) * np.log2(domain.size)


def steps(
    domain: Classes, epsilon: float, delta: float, trust: Trust, users: Public[Any] | None = None
) -> dict[str, Mechanism]:
    """Return the release of `fit_best` on its training records by name, or one that costs as much.

    Args:
        domain: of the labels.
        epsilon, delta: of the release.
        trust: "central" or "local".
        users: of the curator.
    """
    if takes_labels(domain, epsilon, delta, trust):
        return {"labels": first_response(domain, epsilon)}
    return LinearTask.of(domain, epsilon, delta).steps(users)


@dataclass(frozen=True)
class _Fit:
    """The steps of `fit_best` on the records of one curator."""

    learner: Distilled
    features: Any = field(repr=False)
    domain: Classes
    epsilon: float
    delta: float
    rng: RandomSource = field(repr=False)
    labels: bool
    representation: Any
    network: NetworkClassifier

    def dry_run(self) -> None:
        """Raise InputError, before anything is charged, if the network could not be trained."""
        recipe = Recipe(augment=self.learner.augment or ())
        clone(self.network).set_params(recipe=recipe).dry_run(self.features, self.domain.size)

    def learn(self, curator: CuratorLike, rows: NDArray[np.intp]) -> Release[Model]:
        """Release, and learn all else from that; `rows` are the records of the curator."""
        curator.require(steps(self.domain, self.epsilon, self.delta, self.learner.trust, curator.users))
        mapped = encode(self.representation, self.features, None)
        mapping, table = mapped.transformer, mapped.table
        head, evidence = self.released(curator, table[rows])
        linear = head.value.classifier
        layers: tuple[Layer, ...] = ()
        answer = linear.of_table(table)

        def report(step: str, *layers: Layer) -> None:
            if self.learner.callback is not None:
                model = head.map(lambda _: Model(self.domain, LayeredClassifier(mapping, linear, layers)))
                self.learner.callback(step, model)

        report("head")
        recipes = (SETTINGS.taught, SETTINGS.taught) if self.labels else (SETTINGS.distilled, SETTINGS.student)
        changes = self.changes(mapping, table, linear)
        for number, recipe in enumerate(recipes, start=1):
            name = "network" if number == 1 else f"network {number}"
            target = answer.copy()
            if evidence is not None:
                target[rows] = evidence.posterior(answer[rows])
            network = self.trained(name, replace(recipe, seed=self.learner.seed + number - 1), changes, target)
            probabilities = network.predict_proba(self.features)
            if leaves_out_a_class(probabilities, answer):
                break
            discrepancy = head.value.posterior.discrepancy
            allowed = SETTINGS.labels_discrepancy if self.labels else SETTINGS.sums_discrepancy
            largest = 1.0 if not layers else 0.5  # two networks have equal weights at most
            weight = largest_weight(discrepancy, answer[rows], probabilities[rows], largest, allowed)
            mean, layer = geometric_mean(answer, probabilities, weight), Layer(network, weight)
            report(name, Layer(network, 1.0))
            report(f"{name}, mean", *layers, layer)
            if discrepancy(probabilities[rows]) > allowed:
                ridge = SETTINGS.labels_correction if self.labels else SETTINGS.sums_correction
                term = head.value.correction(mean[rows], ridge=ridge)
                layer = replace(layer, coefficients=term.coefficients, offset=term.offset)
                report(f"{name}, corrected", *layers, layer)
            layers, answer = (*layers, layer), layer.corrected(mean, table)
        model = head.map(lambda _: Model(self.domain, LayeredClassifier(mapping, linear, layers)))
        return with_given(model, self.representation, "representation does")

    def released(self, curator: CuratorLike, table: NDArray[np.float32]) -> tuple[Release[LinearHead], Evidence | None]:
        """Return the head, and the released labels of each record, if there are any."""
        plain = FunctionTransformer()
        if not self.labels:
            head = fit_linear_head(
                table, curator, epsilon=self.epsilon, delta=self.delta, rng=self.rng, representation=plain
            )
            return head, None
        mechanism = first_response(self.domain, self.epsilon, partition_seed=self.learner.partition_seed)
        release = curator.release(mechanism, rng=self.rng, step="labels")
        evidence = Evidence.of(release)
        likeliest = label_head(table, evidence, representation=plain)
        return release.map(lambda _: likeliest), evidence

    def changes(self, mapping: Any, table: NDArray[np.float32], linear: Any) -> tuple[str, ...]:
        """Return the random changes of images that do not change their class, as far as the head can tell."""
        if self.features.ndim < 3:
            return ()
        if self.learner.augment is not None:
            return self.learner.augment
        some = np.arange(0, len(table), -(-len(table) // MIRRORED_IMAGES))
        mirrored = mapping.transform(self.features[some, :, ::-1])
        same = agreement(linear.of_table(table[some]), linear.of_table(mirrored))
        return ("crop", "flip") if same >= SETTINGS.mirrored else ("crop", "warp")

    def trained(
        self, name: str, recipe: Recipe, changes: tuple[str, ...], target: NDArray[np.float64]
    ) -> NetworkClassifier:
        """Train a network on soft labels of all records; its predictions are averaged over views of an image."""
        views: tuple[str, ...] = ()
        if self.features.ndim > 2:
            views = ("flip",) if "flip" in changes else ("shift",)
        network = clone(self.network).set_params(recipe=replace(recipe, augment=changes), views=views)
        if self.network.checkpoints is not None:
            network.set_params(checkpoints=Path(self.network.checkpoints) / name.replace(" ", "-"))
        return network.fit_soft(self.features, target, step=name)


def agreement(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return Cohen's kappa of the likeliest classes of two tables of probabilities, (n, K) each."""
    classes, mirrored = first.argmax(axis=1), second.argmax(axis=1)
    shares = [np.bincount(answers, minlength=first.shape[1]) / len(first) for answers in (classes, mirrored)]
    chance = float(shares[0] @ shares[1])
    return (float(np.mean(classes == mirrored)) - chance) / (1 - chance) if chance < 1 else 1.0


def leaves_out_a_class(shares: NDArray[np.float64], before: NDArray[np.float64]) -> bool:
    """Return whether a network never answers a class that the model before it answers often: it has collapsed.

    Args:
        shares, before: their probabilities for the same records, (n, K) each.
    """
    records, classes = shares.shape
    counts, counts_before = (np.bincount(table.argmax(axis=1), minlength=classes) for table in (shares, before))
    return bool(np.any((counts == 0) & (counts_before >= max(SMALLEST_SHARE * records / classes, 1))))


def largest_weight(
    discrepancy: Callable[[NDArray[np.float64]], float],
    before: NDArray[np.float64],
    shares: NDArray[np.float64],
    limit: float,
    allowed: float,
) -> float:
    """Return the largest weight of a network in a geometric mean that the release does not contradict.

    Args:
        discrepancy: see `Posterior.discrepancy`.
        before: probabilities of the classifier below, for the training records, shape (n, K).
        shares: those of the network.
        limit: the largest weight that is tried; if every mean is contradicted, the one is taken that is least so.
        allowed: the largest discrepancy that is no contradiction.
    """
    discrepancies = {}
    for weight in (share for share in SETTINGS.weights if share <= limit):
        discrepancies[weight] = discrepancy(geometric_mean(before, shares, weight))
        if discrepancies[weight] <= allowed:
            return weight
    return min(discrepancies, key=discrepancies.__getitem__)


def geometric_mean(first: NDArray[np.float64], second: NDArray[np.float64], weight: float) -> NDArray[np.float64]:
    """Return the geometric mean of two tables of probabilities (n, K), scaled to sums of one.

    Args:
        weight: of the second, from 0 to 1.
    """
    return np.asarray(softmax((1 - weight) * log_scores(first) + weight * log_scores(second), axis=1))


@dataclass
class Layer:
    """A network and a linear term on top of another classifier; made by `fit_best`.

    Args:
        network: fitted, on the same records.
        weight: of the network in the geometric mean with the classifier below, from 0 to 1.
        coefficients: of mapped features, shape (p, K), or None.
        offset: shape (K,).
    """

    network: Any
    weight: float = 0.5
    coefficients: Any = None
    offset: Any = None

    def corrected(self, mean: NDArray[np.float64], table: Any) -> NDArray[np.float64]:
        """Return the mean of both with the linear term for mapped features, shape (n, K)."""
        if self.coefficients is None:
            return mean
        return np.asarray(
            softmax(log_scores(mean) + table @ self.coefficients.astype(table.dtype) + self.offset, axis=1)
        )


class LayeredClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A linear classifier of mapped features, with networks and linear terms on top; made by `fit_best`.

    Args:
        mapping: fitted transformer.
        linear: fitted `LinearClassifier` of what it makes.
        layers: each one's network and the answer so far have a geometric mean, which its linear term corrects.
    """

    def __init__(self, mapping: Any, linear: Any, layers: Any = ()) -> None:
        self.mapping = mapping
        self.linear = linear
        self.layers = layers

    @property
    def parts(self) -> list[Any]:
        """The networks, the last one last."""
        return [layer.network for layer in self.layers]

    @property
    def classes_(self) -> NDArray[np.intp]:
        """Codes 0 to K - 1."""
        return np.asarray(self.linear.classes_)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return probabilities, shape (n, K)."""
        table = self.mapping.transform(X)
        answer = self.linear.of_table(table)
        for layer in self.layers:
            mean = geometric_mean(answer, layer.network.predict_proba(X), layer.weight)
            answer = layer.corrected(mean, table)
        return np.asarray(answer)

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the likeliest code, shape (n,)."""
        return self.predict_proba(X).argmax(axis=1)

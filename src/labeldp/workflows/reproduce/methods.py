"""What each method does with a task; networks are imported when one is trained."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from labeldp.learners import CHOSEN, fit_linear, fit_multistage
from labeldp.mechanisms import LaplaceHistogram
from labeldp.privacy import Certificate, InputError, Public
from labeldp.workflows.optional import networks
from labeldp.workflows.reproduce.grid import Run
from labeldp.workflows.reproduce.observed import ObservedCurator
from labeldp.workflows.reproduce.tasks import Task

Watch = Callable[[str, Any, int], None]

CLUSTERED = 50
"""Principal components that are clustered."""

BEST = ("HEAD_FIRST", "LEAST_RESPONSE", "DISTILLED", "STUDENT", "ROUNDS")
"""The constants of `fit_best`, by their names there."""


@dataclass(frozen=True)
class Outcome:
    """A measured model.

    Args:
        metric: what was measured.
        value: it.
        certificate: of the model.
        steps: the same of earlier models, by step, which nothing was chosen by.
    """

    metric: str
    value: float
    certificate: Certificate
    steps: tuple[dict[str, Any], ...] = ()


def refuse_unknown(run: Run) -> None:
    """Refuse networks and presets that nobody knows.

    Raises:
        InputError: which there are.
    """
    if run.network is None:
        return
    room = networks()
    if run.network not in room.NETWORKS:
        raise InputError(f"--network must be one of {', '.join(room.NETWORKS)}")
    if run.preset is not None and run.preset not in room.PRESETS:
        raise InputError(f"--preset must be one of {', '.join(room.PRESETS)}")


def refuse_small(run: Run, task: Task) -> None:
    """Refuse more clusters than records.

    Raises:
        InputError: how many are needed.
    """
    count = run.setting("clusters")
    if isinstance(count, float) and count > len(task.train.features):
        raise InputError(f"--figure clusters needs at least {count:g} training records")


def recipes(run: Run) -> tuple[Any, ...]:
    """How the network of a run is trained, a recipe for each stage; empty where the method has its own."""
    if run.preset is None:
        return ()
    found = tuple(replace(recipe, seed=run.seed) for recipe in networks().PRESETS[run.preset])
    if run.setting("mixup1") is None:
        return found
    mixups = (run.setting("mixup1"), run.setting("mixup2"))
    return tuple(replace(recipe, mixup=mixup) for recipe, mixup in zip((found[0], found[-1]), mixups, strict=True))


def constants(run: Run) -> dict[str, Any]:
    """What the code of a method fixes, and no option says, as plain JSON values: with others a run is another one."""
    if run.method not in ("linear", "best"):
        return {}
    more = {name: getattr(networks().best, name) for name in BEST} if run.method == "best" else {}
    return dict(json.loads(json.dumps({**CHOSEN, **more}, default=asdict)))


def perform(run: Run, task: Task, curator: ObservedCurator, checkpoints: Path, watch: Watch) -> Outcome:
    """Learn and measure.

    Args:
        run: what to do.
        task: data.
        curator: of the training labels.
        checkpoints: folder of this run.
        watch: called after each epoch.
    """
    if run.method == "clusters":
        return _clusters(run, task, curator)
    if run.method == "linear":
        return _linear(run, task, curator)
    steps: list[dict[str, Any]] = []

    def told(step: str, release: Any) -> None:
        steps.append({"step": step, "value": task.measure(release.value)})

    if run.method == "best":
        release = _best(run, task, curator, checkpoints, watch, told)
    else:
        release = _staged(run, task, curator, checkpoints, watch)
    return Outcome(task.metric, task.measure(release.value), release.certificate, tuple(steps))


def _linear(run: Run, task: Task, curator: ObservedCurator) -> Outcome:
    """One noisy sum of rows times labels; rows are patch features in principal directions."""
    from sklearn.preprocessing import FunctionTransformer

    plain = FunctionTransformer()
    rng, rows = run.rng(), task.patches
    release = fit_linear(rows.train, curator, epsilon=run.epsilon, delta=run.delta, rng=rng, representation=plain)
    value = task.share_right(release.value.predict_proba(rows.test))
    return Outcome(task.metric, value, release.certificate)


def _staged(run: Run, task: Task, curator: ObservedCurator, checkpoints: Path, watch: Watch) -> Any:
    """LP-1ST and LP-2ST with the loss that knows the noise, temperature calibrated on released labels."""
    stages, split = (1 if run.method == "lp-1st" else 2), run.setting("split")
    fixed = run.setting("temperature")
    counts = tuple((task.train.features.max(axis=0) + 1).tolist()) if task.ratings else None
    classifier = networks().NetworkClassifier(
        run.network, recipe=recipes(run), counts=counts, checkpoints=checkpoints, watch=watch
    )
    return fit_multistage(
        task.train.features,
        curator,
        classifier=classifier,
        epsilon=run.epsilon,
        stages=stages,
        fractions=None if split is None else (float(split), 1 - float(split)),
        temperature=fixed if isinstance(fixed, float) else "calibrated",
        evaluation=0.0,
        partition_seed=run.seed,
        rng=run.rng(),
    )


def _best(run: Run, task: Task, curator: ObservedCurator, checkpoints: Path, watch: Watch, told: Any) -> Any:
    """Everything that public features allow, put together."""
    return networks().fit_best(
        task.train.features,
        curator,
        epsilon=run.epsilon,
        delta=run.delta,
        rng=run.rng(),
        network=run.network,
        checkpoints=checkpoints,
        watch=watch,
        told=told,
        seed=run.seed,
    )


def _clusters(run: Run, task: Task, curator: ObservedCurator) -> Outcome:
    """Noisy majorities of k-means clusters of the training images, measured on those same images' own labels."""
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.decomposition import PCA

    count = int(run.setting("clusters") or 1)
    pixels = task.train.features.reshape(len(task.train.features), -1).astype(np.float32)
    table = PCA(min(CLUSTERED, *pixels.shape), random_state=run.seed).fit_transform(pixels)
    groups = MiniBatchKMeans(count, random_state=run.seed, n_init=3, batch_size=4096).fit_predict(table)
    why = "k-means on the public features, with a public seed"
    mechanism = LaplaceHistogram(
        domain=task.domain, epsilon=run.epsilon, groups=Public(groups.astype(np.int64), why=why)
    )
    release = curator.release(mechanism, rng=run.rng(), step="clusters")
    majority = release.value.argmax(axis=1)[release.mechanism.arrays()]
    right = majority == task.domain.encode(task.train.labels)
    return Outcome("accuracy of clusters on the training labels", float(right.mean()), release.certificate)

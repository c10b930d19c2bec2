"""What public features give: linear models and cluster priors on pixels, filters and a self-supervised network.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/representations.py [--write]

Fashion-MNIST, looked for in the folder LABELDP_DATA, by default ../shared/data; needs torch. Every result is kept in
the folder `--kept` and is not computed again. Nothing was chosen on the test set.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pages
import torch
from data import fashion_mnist
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.preprocessing import FunctionTransformer

import labeldp as ldp
from labeldp.features import ImageMap, PatchFilters, ScatterFilters
from labeldp.learners.cluster_prior import feature_clusters
from labeldp.networks import Recipe, SelfSupervised
from labeldp.networks.selfsupervised import RECIPE

ROOT = Path(__file__).parents[1]
RESULTS = ("representations", "-time", "-clusters")
DIMENSIONS = 500
DELTA = 1e-6
MAPS = {"patch filters": PatchFilters(), "scattering": ScatterFilters(), "patch filters and scattering": ImageMap()}
CLUSTERED = ("pixels", "patch filters", "self-supervised")
JOINED_MAPS = "patch filters and self-supervised"
REPRESENTATIONS = (*CLUSTERED, JOINED_MAPS, "scattering", "patch filters and scattering")
EPSILONS = (0.1, 0.5, 1.0)
TIMED_IMAGES, REPEATS = 1000, 5
PRIORS = tuple(product((50, 100, 500), (1,), (0.05, 0.1, 0.5))) + tuple(product((100,), (4,), (0.05, 0.1, 0.5)))
"""Clusters, clusterings, epsilon."""


@cache
def parts() -> tuple[np.ndarray, ...]:
    return fashion_mnist()


@cache
def tables(name: str, kept: Path) -> tuple[np.ndarray, np.ndarray]:
    """Features of the training and of the test images, made from the training images without their labels."""
    file = kept / f"{name.replace(' ', '_')}.npz"
    if name == JOINED_MAPS:
        return tuple(np.hstack(both) for both in zip(*(tables(each, kept) for each in CLUSTERED[1:]), strict=True))
    if not file.exists():
        train, _, test, _ = parts()
        start = time.process_time()
        found = list(embedded(name, train, test, kept))
        spread = np.sqrt(found[0].var(axis=0).sum())
        found = [((each - found[0].mean(axis=0)) / spread).astype(np.float32) for each in found]
        np.savez(file, train=found[0], test=found[1], seconds=time.process_time() - start)
    with np.load(file) as stored:
        return stored["train"], stored["test"]


def embedded(name: str, train: np.ndarray, test: np.ndarray, kept: Path) -> Iterator[np.ndarray]:
    """One kind of features, at most 500 of their principal components."""
    if name == "self-supervised":
        network = SelfSupervised(recipe=EPOCHS, checkpoints=kept / "checkpoints").fit(train)
        yield from (network.transform(each) for each in (train, test))
        return
    first = MAPS.get(name, FunctionTransformer(lambda images: images.reshape(-1, 784) / 255.0))
    tall = first.fit_transform(train)
    components = PCA(DIMENSIONS, svd_solver="covariance_eigh").fit(tall)
    yield components.transform(tall)
    yield components.transform(first.transform(test))


EPOCHS = Recipe(
    epochs=3, batch=RECIPE.batch, peak=RECIPE.peak, warmup=RECIPE.warmup, decay="cosine", augment=RECIPE.augment
)


def milliseconds(name: str) -> dict[str, float]:
    """Processor time of a fitted map for an image, and its ratio to that of `PatchFilters` in the same run."""
    images = parts()[0][:TIMED_IMAGES]
    maps = [clone(MAPS[each]).fit(images) for each in (name, "patch filters")]
    spent: list[list[float]] = [[], []]
    for _ in range(REPEATS):
        for each, times in zip(maps, spent, strict=True):
            start = time.process_time()
            each.transform(images)
            times.append(1000 * (time.process_time() - start) / len(images))
    own, other = map(np.median, spent)
    return {"milliseconds": float(own), "ratio": float(own / other)}


def linear(name: str, epsilon: float, kept: Path) -> dict[str, float]:
    """Test accuracy of `fit_linear` in percent: mean and standard deviation over three noises."""
    _, labels, _, answers = parts()
    train, test = tables(name, kept)
    scores = []
    for seed in range(3):
        release = ldp.fit_linear(
            train,
            ldp.Curator(labels, domain=ldp.Classes(10), budget=ldp.Budget(epsilon, DELTA)),
            epsilon=epsilon,
            delta=DELTA,
            rng=np.random.default_rng([seed, 11]),
            representation=FunctionTransformer(),
        )
        scores.append(100 * np.mean(release.value.predict(test) == answers))
    return {"mean": float(np.mean(scores)), "spread": float(np.std(scores, ddof=1))}


@cache
def clusters(name: str, count: int, seed: int, kept: Path) -> np.ndarray:
    return feature_clusters(clustered(name, kept), count, seed)


@cache
def clustered(name: str, kept: Path) -> np.ndarray:
    """Features of the training images for clusterings, which scale columns and take principal components themselves."""
    train = parts()[0]
    if name == "patch filters":
        return PatchFilters(filters=100).fit_transform(train)
    return train.reshape(len(train), -1) if name == "pixels" else tables(name, kept)[0]


def prior(name: str, count: int, clusterings: int, epsilon: float, kept: Path) -> dict[str, float]:
    """How often the likeliest class of the prior is the label, in percent, over three noises."""
    _, labels, _, _ = parts()
    scores = []
    with patch("labeldp.learners.cluster_prior.feature_clusters", lambda _, c, seed: clusters(name, c, seed, kept)):
        for noise in range(3):
            held = ldp.Curator(labels, domain=ldp.Classes(10), budget=ldp.Budget(epsilon))
            options: dict[str, Any] = {"clusters": count, "clusterings": clusterings, "epsilon": epsilon}
            release = ldp.learners.cluster_prior(
                labels[:, None], held, rng=np.random.default_rng([noise, 13]), **options
            )
            scores.append(100 * np.mean(release.value.argmax(axis=1) == labels))
    return {"mean": float(np.mean(scores)), "spread": float(np.std(scores, ddof=1))}


def jobs(kept: Path) -> Iterator[tuple[str, Callable[[], dict[str, float]]]]:
    """Every result that the page needs, by name."""
    for name in REPRESENTATIONS:
        for epsilon in EPSILONS:
            yield f"linear/{name}/{epsilon:g}", lambda name=name, epsilon=epsilon: linear(name, epsilon, kept)
    for name in MAPS:
        yield f"time/{name}", lambda name=name: milliseconds(name)
    for name in CLUSTERED:
        for setting in PRIORS:
            key = "/".join(f"{each:g}" for each in setting)
            yield f"prior/{name}/{key}", lambda name=name, setting=setting: prior(name, *setting, kept)


def cell(found: dict[str, float] | None) -> str:
    return "" if found is None else f"{found['mean']:.2f} ± {found['spread']:.2f}"


def page(results: dict[str, dict[str, float]]) -> str:
    """The tables, of what is there."""
    lines = [f"| features | {' | '.join(f'ε = {each:g}' for each in EPSILONS)} |", "|---|" + "---:|" * len(EPSILONS)]
    for name in REPRESENTATIONS:
        cells = [cell(results.get(f"linear/{name}/{epsilon:g}")) for epsilon in EPSILONS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", "| features | milliseconds | ratio |", "|---|---:|---:|"]
    for name in MAPS:
        found = results.get(f"time/{name}")
        if found:
            lines.append(f"| {name} | {found['milliseconds']:.2f} | {found['ratio']:.2f} |")
    lines += ["", f"| clusters | clusterings | ε | {' | '.join(CLUSTERED)} |"]
    lines.append("|---:|---:|---:|" + "---:|" * len(CLUSTERED))
    for setting in PRIORS:
        keys = [f"prior/{name}/" + "/".join(f"{each:g}" for each in setting) for name in CLUSTERED]
        numbers = " | ".join(f"{each:g}" for each in setting)
        lines.append(f"| {numbers} | {' | '.join(cell(results.get(key)) for key in keys)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="results whose name begins so")
    parser.add_argument("--kept", type=Path, default=ROOT / ".cache" / "representations")
    parser.add_argument("--write", action="store_true", help="store the tables in docs/results/data")
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.kept.mkdir(parents=True, exist_ok=True)
    for name, compute in jobs(given.kept):
        file = given.kept / f"{name.replace('/', '-').replace(' ', '_')}.json"
        if name.startswith(given.only) and not file.exists():
            file.write_text(json.dumps({"name": name, **compute()}))
            print(file.read_text(), flush=True)
    results = {found["name"]: found for found in map(json.loads, map(Path.read_text, given.kept.glob("*.json")))}
    text = page(results)
    print(text)
    if given.write:
        pages.store(text, RESULTS[0], *(RESULTS[0] + name for name in RESULTS[1:]))


if __name__ == "__main__":
    main()

"""The constants of the default learners, compared on records that score no published result.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONPATH=. python benchmarks/constants.py NAME [--write]

NAME is a key of `CHOICES`. Each choice has settings, tables, and a score. Every setting sees the same noises, and a
cell is a mean over them. `--records` takes so many records of each table, to try a choice.

Data folders are looked for in the folder LABELDP_DATA, by default ../shared/data. A quarter of each table is held out,
and some training images of Fashion-MNIST and MNIST. Log losses are of probabilities of at least 0.001. Networks need
torch.
"""

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import data
import heads
import numpy as np
import pages
import pandas as pd
from learning import Task
from linear import DELTA, ROOT, TASKS, linear, reduced
from scipy.stats import rankdata

import labeldp as ldp
from labeldp.learners import CompactPartition, MedianPartition, Posterior, cluster_prior, fit_cells, label_head
from labeldp.learners import linear as linear_models
from labeldp.learners.classifiers import boosted_trees
from labeldp.learners.cluster_prior import _joined, feature_clusters
from labeldp.learners.evidence import normalized, tempered

Scores = Mapping[str, tuple[float, ...]]
"""What one run measured: numbers by column."""

RECORDS: int | None = None
"""Records of each table that a trial takes; None for all."""

TABLES = {
    "credit_default": ("credit_default/credit_default.csv.gz", "default", ["ID"]),
    "magic_gamma": ("magic_gamma/magic_gamma.csv.gz", "label", []),
    "covertype_20k": ("covertype_20k/covertype_20k.csv.gz", "Cover_Type", []),
    "higgs_7500": ("higgs_7500/higgs_7500.csv.gz", "label", ["split"]),
}
"""File, label, and columns that are no features."""


@dataclass(frozen=True)
class Choice:
    """One choice of constants.

    Args:
        file: of the table in docs/results/data; empty for none.
        heads: names of the constants, the first columns.
        settings: what is compared, by the values of these constants.
        tables: names of the data.
        score: measures a setting on a table with a noise.
        noises: how many.
        last: the last columns, from all numbers, shape (settings, columns, numbers); None for none.
        forms: of the numbers of a cell; none for no cells.
    """

    file: str
    heads: tuple[str, ...]
    settings: Mapping[tuple[Any, ...], Any]
    tables: tuple[str, ...]
    score: Callable[[str, Any, int], Scores]
    noises: int = 1
    last: Callable[[np.ndarray], Mapping[str, np.ndarray]] | None = lambda grid: {"mean": grid[..., 0].mean(axis=1)}
    forms: tuple[str, ...] = (".3f", ".2f")

    def page(self, tables: tuple[str, ...], noises: int) -> str:
        """Run everything, and return the table."""
        rows = []
        for key, setting in self.settings.items():
            row: dict[str, np.ndarray] = {}
            for table in tables:
                runs = [self.score(table, setting, noise) for noise in range(noises)]
                for column in runs[0]:
                    name = ", ".join(filter(None, (table if len(self.tables) > 1 else "", column))) or table
                    row[name] = np.mean([run[column] for run in runs], axis=0)
            rows.append(row)
            print(*key, {name: np.round(numbers, 4).tolist() for name, numbers in row.items()}, flush=True)
        last = {} if self.last is None else self.last(np.array([list(row.values()) for row in rows]))
        columns = list(rows[0]) if self.forms else []
        lines = [f"| {' | '.join((*self.heads, *columns, *last))} |"]
        lines.append("|" + "---|" * len(self.heads) + "---:|" * (len(columns) + len(last)))
        for number, (key, row) in enumerate(zip(self.settings, rows, strict=True)):
            cells = [f"{value:g}" if isinstance(value, float) else str(value) for value in key]
            for column in columns:
                pairs = zip(row[column], self.forms, strict=False)
                cells.append(" / ".join(format(number, form) for number, form in pairs))
            cells += [f"{column[number]:.4g}" for column in last.values()]
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join([*lines, ""])


def first(*arrays: Any) -> list[Any]:
    """The first records of arrays, where a trial takes few."""
    return [array[:RECORDS] for array in arrays]


def log_loss(chances: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Mean log loss, and accuracy in per cent."""
    correct = np.maximum(chances[np.arange(len(chances)), truth], 1e-3)
    return float(-np.log(correct).mean()), 100 * float(np.mean(chances.argmax(axis=1) == truth))


def held_out(features: np.ndarray, labels: np.ndarray, count: int) -> Task:
    """A random part of records as the test part."""
    (order,) = first(np.random.default_rng(0).permutation(len(labels)))
    count = min(count, len(order) // 4)
    test, train = order[:count], order[count:]
    wide = np.zeros(features.shape[1], bool)
    return Task(features[train], labels[train], features[test], labels[test], wide, int(labels.max()) + 1, "accuracy")


def table_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Features and codes of a table."""
    path, label, dropped = TABLES[name]
    table = pd.read_csv(data.DATA / path)
    return table.drop(columns=[label, *dropped]).to_numpy(float), pd.factorize(table[label], sort=True)[0]


@cache
def mapped(name: str, images: int | None, held: int) -> Task:
    """A task in principal directions, of which some records are held out: so many of images, a quarter of a table."""
    if name not in TABLES:
        task = TASKS[name]()
        return reduced(held_out(task.features[:images], task.labels[:images], held))
    features, labels = table_of(name)
    return reduced(held_out(features, labels, len(labels) // 4))


def likelihood_ridge(name: str, ridge: float | None, noise: int) -> Scores:
    """`fit_linear` by the likelihood of its sums, with a factor on the precision of the prior; None: least squares."""
    task = mapped(name, 20_000, 5_000)
    # Without a ridge the coefficients stay where the search for the largest density starts: at least squares.
    least_squares = patch.object(Posterior, "largest", lambda _, start: start)
    settings = replace(linear_models.SETTINGS, likelihood_ridge=ridge or 1.0)
    with patch.object(linear_models, "SETTINGS", settings) if ridge else least_squares:
        return {
            f"ε = {epsilon:g}": log_loss(linear(task, epsilon, np.random.default_rng([noise, 5])), task.test_labels)
            for epsilon in (0.1, 0.5, 2.0)
        }


def prior(name: str, setting: tuple[float, float], noise: int) -> Scores:
    """`fit_linear` with two constants of its prior."""
    task = mapped(name, None, {"fashion_mnist": 10_000, "cifar10_subset": 3_000}.get(name, 0))
    with patch.multiple(linear_models, DECAY=setting[0], EXPLAINED=setting[1]):
        return {
            f"ε = {epsilon:g}": log_loss(linear(task, epsilon, np.random.default_rng([noise, 5])), task.test_labels)
            for epsilon in (0.1, 1.0)
        }


def above_the_least(grid: np.ndarray) -> dict[str, np.ndarray]:
    """Log loss above the least of a column in hundredths, of each table and of all; and accuracy below the best."""
    losses, accuracies = 100 * (grid[..., 0] - grid[..., 0].min(axis=0)), grid[..., 1].max(axis=0) - grid[..., 1]
    of_tables = losses.reshape(len(losses), len(MAPPED), -1).mean(axis=2)
    return dict(zip(MAPPED, of_tables.T, strict=True)) | {
        "log loss above the least": losses.mean(axis=1),
        "accuracy below the best": accuracies.mean(axis=1),
    }


def trees(name: str, setting: tuple[int, int, float], noise: int) -> Scores:
    """Boosted trees of one plain randomized response at epsilon 1."""
    features, codes = table_of(name)
    order = np.random.default_rng(0).permutation(len(codes))
    features, codes = first(features[order], codes[order])
    held, classes = len(codes) // 4, int(codes.max()) + 1
    curator = ldp.Curator(codes[held:], domain=ldp.Classes(classes), budget=ldp.Budget(epsilon=1))
    mechanism = ldp.RandomizedResponse(domain=curator.domain, epsilon=1)
    release = curator.release(mechanism, rng=np.random.default_rng([noise, 3]))
    leaves, least, ridge = setting
    options = {"max_leaf_nodes": leaves, "min_samples_leaf": least, "l2_regularization": ridge}
    classifier = boosted_trees(len(codes) - held, None, classes).set_params(**options)
    model = ldp.fit_noisy(features[held:], release, classifier=classifier).value
    return {"": log_loss(model.predict_proba(features[:held]), codes[:held])}


CELLS = {
    "protein": ("protein_structure/protein_structure.csv.gz", "rmsd", (), (0, 21)),
    "hours": ("adult/adult.csv.gz", "hours_per_week", ("split", "fnlwgt"), (0, 99)),
    "income": ("adult/adult.csv.gz", "income", ("split", "fnlwgt"), None),
    "higgs": ("higgs_7500/higgs_7500.csv.gz", "label", ("split",), None),
    "bank": ("bank_marketing/bank_additional_full.csv.gz", "y", ("duration",), None),
}
CELLS |= {f"{name}-3": CELLS[name] for name in ("protein", "hours", "income")}
"""File, label, columns that are no features, and the interval of numbers; "-3" takes the first three features alone."""


def cells(name: str, setting: tuple[float, type], noise: int) -> Scores:
    """`fit_cells` at epsilon 1 with at most 12,000 records: R squared or accuracy on a fifth, in hundredths."""
    path, label, dropped, ends = CELLS[name]
    table = pd.read_csv(data.DATA / path).drop(columns=list(dropped))
    labels = table.pop(label).to_numpy()
    for column in table.columns[[not pd.api.types.is_numeric_dtype(kind) for kind in table.dtypes]]:
        table[column] = pd.factorize(table[column], sort=True)[0]
    (order,) = first(np.random.default_rng(1).permutation(len(labels)))
    held, learned = order[: len(order) // 5], order[len(order) // 5 :][:12_000]
    features = (table.iloc[:, :3] if name.endswith("-3") else table).to_numpy(float)
    domain = ldp.Classes(2) if ends is None else ldp.Interval(*ends)
    curator = ldp.Curator(labels[learned], domain=domain, budget=ldp.Budget(epsilon=1))
    with patch.multiple("labeldp.learners.cells.central", RECORDS=setting[0], CompactPartition=setting[1]):
        model = fit_cells(features[learned], curator, epsilon=1, rng=np.random.default_rng([noise, 7])).value
    predicted, truth = model.predict(features[held]), labels[held]
    if ends is None:
        return {"": (100 * float(np.mean(predicted == truth)),)}
    return {"": (100 * (1 - float(np.mean((predicted - truth) ** 2) / np.var(truth))),)}


def head(name: str, setting: tuple[float, float], noise: int) -> Scores:
    """A linear head of randomized labels of images: a sixth of the training images is held out."""
    parts = heads.mapped(ROOT / ".cache" / "heads", name)
    features, labels = first(parts["train"], parts["labels"])
    held = np.random.default_rng(5).permutation(len(labels)) < len(labels) // 6
    scores = {}
    for epsilon in (0.5, 1.0):
        evidence = heads.answered(labels[~held], epsilon, np.random.default_rng([noise, 11]))
        with patch.multiple("labeldp.learners.softmax", DECAY=setting[0], RIDGE=setting[1]):
            model = label_head(features[~held], evidence, representation=heads.AS_THEY_ARE).classifier
        scores[f"ε = {epsilon:g}"] = log_loss(model.predict_proba(features[held]), labels[held])[::-1]
    return scores


def epochs(name: str, setting: tuple[int, int], noise: int) -> Scores:
    """The networks of `fit_best` with a trusted curator, on 10,000 held-out images, and the seconds that they took."""
    import torch

    from labeldp.networks import distillation, fit_best

    torch.set_num_threads(1)
    images, labels = data.images(name)[:2]
    (order,) = first(np.random.default_rng(0).permutation(len(images)))
    held, rows = np.split(order, [min(10_000, len(order) // 6)])
    curator = ldp.Curator(labels[rows].astype(int), domain=ldp.Classes(10), budget=ldp.Budget(1, DELTA))
    scores: dict[str, tuple[float, ...]] = {}
    clock: list[float] = []

    def show(step: str, model: Any) -> None:
        clock.append(time.process_time())
        scores[step] = log_loss(model.value.predict_proba(images[held]), labels[held].astype(int))[::-1]

    one, two = (replace(distillation.SETTINGS.taught, epochs=count, least_steps=0) for count in setting)
    with patch.object(distillation, "SETTINGS", replace(distillation.SETTINGS, distilled=one, student=two)):
        rng = np.random.default_rng([noise, 5])
        fit_best(images[rows], curator, epsilon=1, delta=DELTA, rng=rng, trust="central", callback=show)
    steps = ("network", "network, corrected", "network 2", "network 2, corrected")
    missing = (float("nan"), float("nan"))
    return {step: scores.get(step, missing) for step in steps} | {"seconds": (clock[-1] - clock[0],)}


def ratings(name: str, decay: float, noise: int) -> Scores:
    """The weight decay of a network for ratings, by the randomized answers of held-out records alone.

    What the network predicts, passed through the noise, is compared with answers. No true rating is compared with
    anything. The second number is a standard error.
    """
    from labeldp.learners import fit_multistage
    from labeldp.networks import PRESETS, NetworkClassifier
    from papers.ratings import load_movielens

    stars, epsilon, recipe = 5, 1.0, PRESETS["movielens"][0]
    train = load_movielens(str(data.DATA / name)).train
    features, labels = np.asarray(train.features), np.asarray(train.labels).astype(np.int64) - 1
    counts = tuple((features.max(axis=0) + 1).tolist())
    (order,) = first(np.random.default_rng(7).permutation(len(labels)))
    learned, held = np.split(order, [int(0.9 * len(order))])
    recipe = replace(recipe, weight_decay=decay, epochs=1 if RECORDS else recipe.epochs)
    release = fit_multistage(
        features[learned],
        ldp.Curator(labels[learned], domain=ldp.Classes(stars), budget=ldp.Budget(epsilon)),
        classifier=NetworkClassifier("collaborative", recipe=(recipe,), counts=counts),
        epsilon=epsilon,
        evaluation=0.0,
        response="randomized-response",
        rng=np.random.default_rng(noise),
    )
    keep = (np.exp(epsilon) - 1) / (np.exp(epsilon) + stars - 1)
    chances, losses = release.value.predict_proba(features[held]), []
    for seed in range(100, 103):
        rng = np.random.default_rng(seed)
        answers = np.where(rng.random(len(held)) < keep, labels[held], rng.integers(0, stars, len(held)))
        losses.append(-np.log(keep * chances[np.arange(len(held)), answers] + (1 - keep) / stars))
    return {"": (float(np.mean(losses)), float(np.std(losses)) / len(held) ** 0.5)}


@cache
def clouds() -> tuple[np.ndarray, np.ndarray]:
    """20,000 synthetic records: 80 Gaussian clouds in 30 dimensions, eight for each of ten classes."""
    rng = np.random.default_rng(1)
    centers, which = rng.normal(size=(80, 30)), rng.integers(0, 80, 20_000)
    table = 0.8 * centers[which] + rng.normal(size=(20_000, 30))
    features, labels = first(table / np.sqrt(1 + np.arange(30) / 3), which % 10)
    return features, labels


@cache
def groups(count: int, seed: int) -> np.ndarray:
    """One clustering of these records."""
    return feature_clusters(clouds()[0], count, seed)


def joined(_: str, rule: str, noise: int) -> Scores:
    """Log loss of a prior from four clusterings of synthetic records, by the rule that joins them."""
    rules = {
        "arithmetic mean": lambda shares: np.mean(shares, axis=0),
        "geometric mean": _joined,
        "product": lambda shares: tempered(_joined(shares), 1 / len(shares)),
    }
    (table, labels), scores = clouds(), {}
    for count, epsilon in product((50, 100, 200), (0.05, 0.1, 0.3)):
        clusters = {"feature_clusters": lambda _, count, seed: groups(count, seed), "_joined": rules[rule]}
        with patch.multiple("labeldp.learners.cluster_prior", **clusters):
            curator = ldp.Curator(labels, domain=ldp.Classes(10), budget=ldp.Budget(epsilon))
            options: dict[str, Any] = {"clusters": count, "clusterings": 4, "epsilon": epsilon}
            release = cluster_prior(table, curator, rng=np.random.default_rng([noise, 17]), **options)
        chances = normalized(release.value, 1e-3)[np.arange(len(labels)), labels]
        scores[f"{count} clusters, ε = {epsilon:g}"] = (float(-np.log(chances).mean()),)
    return scores


def method(name: str, setting: tuple[str, int], _: int) -> Scores:
    """True labels of held-out training images, predicted by a ridge regression on a self-supervised embedding."""
    import torch
    from sklearn.linear_model import RidgeClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from labeldp.networks import SelfSupervised
    from labeldp.networks.selfsupervised import RECIPE

    torch.set_num_threads(1)
    images, labels = data.images(name)[:2]
    (order,) = first(np.random.default_rng(0).permutation(len(images)))
    held, seen = order[: len(order) // 6], order[len(order) // 6 :][:20_000]
    start = time.process_time()
    recipe = replace(RECIPE, epochs=setting[1], decay="cosine", least_steps=0)
    network = SelfSupervised(method=setting[0], recipe=recipe).fit(images[seen])
    seconds = time.process_time() - start
    classifier = make_pipeline(StandardScaler(), RidgeClassifier(10.0)).fit(
        network.transform(images[seen]), labels[seen]
    )
    accuracy = 100 * classifier.score(network.transform(images[held]), labels[held])
    return {"accuracy": (float(accuracy),), "seconds": (seconds,)}


def below_the_best(grid: np.ndarray) -> dict[str, np.ndarray]:
    """By how much the first number is below the best of its column, on average."""
    return {"below the best": (grid[..., 0].max(axis=0) - grid[..., 0]).mean(axis=1)}


MAPPED = ("magic_gamma", "covertype_20k", "higgs_7500", "fashion_mnist", "cifar10_subset")
PAIRS = list(product((0.2, 0.4, 0.6, 0.8, 1.0), (0.3, 0.6, 0.9)))
LEAVES = list(product((15, 31), (30, 100), (5.0, 20.0)))
HEADS = [(0.8, 0.2), (0.8, 0.5), (0.6, 0.5), (0.6, 1.0), (0.4, 0.5), (0.4, 1.0), (0.2, 1.0)]
PARTITIONS = [(10.0, MedianPartition), (5.0, CompactPartition), (10.0, CompactPartition), (20.0, CompactPartition)]

CHOICES = {
    "likelihood_ridge": Choice(
        "linear_link",
        ("likelihood_ridge",),
        {("least squares",): None, **{(ridge,): ridge for ridge in (0.3, 0.6, 1.0, 2.0)}},
        MAPPED[:4],
        likelihood_ridge,
        noises=3,
        last=lambda grid: {"mean log loss": grid[..., 0].mean(axis=1)},
    ),
    "prior": Choice(
        "linear_prior",
        ("DECAY", "EXPLAINED"),
        {pair: pair for pair in PAIRS},
        MAPPED,
        prior,
        noises=2,
        last=above_the_least,
        forms=(),
    ),
    "trees": Choice(
        "defaults",
        ("max_leaf_nodes", "min_samples_leaf", "l2_regularization"),
        {setting: setting for setting in LEAVES},
        ("credit_default", "magic_gamma", "higgs_7500"),
        trees,
        noises=2,
        last=lambda grid: {"mean rank": rankdata(grid[..., 0], axis=0).mean(axis=1)},
        forms=(".4f",),
    ),
    "cells": Choice(
        "cell_constants",
        ("RECORDS", "cells"),
        {(records, kind.__name__): (records, kind) for records, kind in PARTITIONS},
        tuple(CELLS),
        cells,
        noises=2,
        last=below_the_best,
        forms=(".2f",),
    ),
    "heads": Choice(
        "heads-choices",
        ("decay", "ridge"),
        {setting: setting for setting in HEADS},
        ("fashion_mnist", "mnist"),
        head,
        forms=(".2f", ".3f"),
    ),
    "epochs": Choice(
        "images-epochs",
        ("epochs of the two networks",),
        {(f"{one} and {two}",): (one, two) for one, two in ((4, 5), (8, 10), (16, 20))},
        ("fashion_mnist",),
        epochs,
        last=None,
        forms=(".2f", ".3f"),
    ),
    "weight_decay": Choice(
        "", ("weight_decay",), {(decay,): decay for decay in (1e-4, 5e-5, 2e-5, 5e-6)}, ("movielens_1m",), ratings,
        last=None, forms=(".4f", ".4f"),
    ),
    "joined": Choice(
        "representations-joined",
        ("rule",),
        {(rule,): rule for rule in ("arithmetic mean", "geometric mean", "product")},
        ("clouds",),
        joined,
        noises=3,
        last=None,
        forms=(".2f",),
    ),
    "self_supervision": Choice(
        "representations-methods",
        ("method", "epochs"),
        {setting: setting for setting in (("byol", 3), ("contrast", 4))},
        ("fashion_mnist",),
        method,
        last=None,
        forms=(".1f",),
    ),
}  # fmt: skip


def main() -> None:
    """Print the table of a choice; store it where asked."""
    global RECORDS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=CHOICES)
    parser.add_argument("--noises", type=int)
    parser.add_argument("--records", type=int)
    parser.add_argument("--write", action="store_true", help="store the table in docs/results/data")
    given = parser.parse_args()
    RECORDS, choice = given.records, CHOICES[given.name]
    Path(ROOT / ".cache").mkdir(exist_ok=True)
    text = choice.page(choice.tables, given.noises or choice.noises)
    print(text)
    if given.write and choice.file:
        pages.store(text, choice.file)


if __name__ == "__main__":
    main()

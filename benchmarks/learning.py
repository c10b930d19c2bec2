"""Accuracy of classifiers that learn from randomized labels, beside what the same classifiers reach without privacy.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/learning.py --runs adult=1,digits=1+2 [--write]

Data folders `adult`, `bank_marketing`, `credit_default` and `covertype_20k` are looked for in the folder LABELDP_DATA,
by default ../shared/data. Every number is a mean over fresh noises with its standard deviation. Test labels are used
for the final measurement alone. Every training leaves a file in the folder `--kept`, and is not done again.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pages
import pandas as pd
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import labeldp as ldp
from labeldp.learners import (
    Training,
    cluster_prior,
    fit_multistage,
)
from labeldp.learners.classifiers import default_classifiers
from labeldp.learners.training import fit_codes
from labeldp.mechanisms import CandidateSets

DATA = Path(os.environ.get("LABELDP_DATA", Path(__file__).parents[2] / "shared" / "data"))
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Task:
    """One data set: features as a float matrix with a mask of category codes, labels as codes."""

    features: np.ndarray
    labels: np.ndarray
    test_features: np.ndarray
    test_labels: np.ndarray
    categorical: np.ndarray
    classes: int
    metric: str

    def score(self, probabilities: np.ndarray) -> float:
        """In percent: accuracy, or area under the ROC curve."""
        return self.scores(probabilities)[self.metric]

    def scores(self, probabilities: np.ndarray) -> dict[str, float]:
        """Accuracy in percent, log loss in nats, and of two classes the area under the ROC curve in percent."""
        own = np.maximum(probabilities[np.arange(len(self.test_labels)), self.test_labels], 1e-3)
        found = {"accuracy": 100 * float(np.mean(probabilities.argmax(axis=1) == self.test_labels))}
        found["log loss"] = float(-np.log(own).mean())
        if self.classes == 2:
            found["AUC"] = 100 * float(roc_auc_score(self.test_labels, probabilities[:, 1]))
        return found


def adult() -> Task:
    table = pd.read_csv(DATA / "adult" / "adult.csv.gz")
    features, mask = encoded(table.drop(columns=["income", "split", "fnlwgt"]))
    train, labels = (table.split == "train").to_numpy(), table.income.to_numpy()
    return Task(features[train], labels[train], features[~train], labels[~train], mask, 2, "accuracy")


def bank() -> Task:
    table = pd.read_csv(DATA / "bank_marketing" / "bank_additional_full.csv.gz", na_filter=False)
    features, mask = encoded(table.drop(columns=["y", "duration"]))
    parts = train_test_split(features, table.y.to_numpy(), test_size=0.2, random_state=0)
    return Task(parts[0], parts[2], parts[1], parts[3], mask, 2, "AUC")


def credit() -> Task:
    table = pd.read_csv(DATA / "credit_default" / "credit_default.csv.gz")
    features, mask = encoded(table.drop(columns=["ID", "default"]))
    parts = train_test_split(features, table.default.to_numpy(), test_size=0.2, random_state=0)
    return Task(parts[0], parts[2], parts[1], parts[3], mask, 2, "AUC")


def covertype() -> Task:
    table = pd.read_csv(DATA / "covertype_20k" / "covertype_20k.csv.gz")
    features, labels = table.drop(columns="Cover_Type").to_numpy(float), table.Cover_Type.to_numpy() - 1
    order = np.random.default_rng(0).permutation(len(labels))
    train, test = order[:15_000], order[15_000:]  # settings were chosen on records of the first part
    return Task(features[train], labels[train], features[test], labels[test], np.zeros(54, bool), 7, "accuracy")


def digits() -> Task:
    features, labels = load_digits(return_X_y=True)
    parts = train_test_split(features, labels, test_size=0.2, random_state=0)
    return Task(parts[0], parts[2], parts[1], parts[3], np.zeros(64, bool), 10, "accuracy")


def encoded(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Numbers as they are, texts as category codes."""
    mask = np.array([not pd.api.types.is_numeric_dtype(kind) for kind in table.dtypes])
    columns = [pd.factorize(table[name])[0] if text else table[name] for name, text in zip(table, mask, strict=True)]
    return np.column_stack(columns).astype(float), mask


def indicators(task: Task) -> np.ndarray:
    """Category codes as indicators, for clustering."""
    blocks = [task.features[:, ~task.categorical]]
    blocks += [column[:, None] == np.unique(column) for column in task.features[:, task.categorical].T]
    return np.column_stack(blocks).astype(float)


def curator(task: Task) -> ldp.Curator:
    return ldp.Curator(task.labels, domain=ldp.Classes(task.classes), budget=ldp.Budget(epsilon=1000))


def staged(task: Task, epsilon: float, rng: np.random.Generator, **options: object) -> np.ndarray:
    """Test probabilities of `fit_multistage` with the default classifiers."""
    classifiers = default_classifiers(task.features, task.categorical)
    release = fit_multistage(task.features, curator(task), classifier=classifiers, epsilon=epsilon, rng=rng, **options)
    return release.value.predict_proba(task.test_features)


def clustered(task: Task, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """One stage with a cluster prior; the prior's epsilon is taken off."""
    holder = curator(task)
    prior = cluster_prior(indicators(task), holder, rng=rng)
    left = epsilon - prior.certificate.epsilon()
    classifiers = default_classifiers(task.features, task.categorical)
    release = fit_multistage(
        task.features, holder, classifier=classifiers, epsilon=round(left, 6), stages=1, prior=prior, rng=rng
    )
    return release.value.predict_proba(task.test_features)


def off_by_one(task: Task, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """Two stages, with the number of candidates chosen as a published implementation does: 1 + (k - 2) e^-epsilon."""

    def mistaken(
        *, domain: ldp.Classes, epsilon: float, prior: ldp.Release
    ) -> ldp.mechanisms.RandomizedResponseWithPrior:
        order = np.argsort(-prior.value, axis=1, kind="stable")
        sums = np.cumsum(np.take_along_axis(prior.value, order, axis=1), axis=1)
        sizes = 1 + np.argmax(sums / (1 + (np.arange(1, domain.size + 1) - 2) * np.exp(-epsilon)), axis=1)
        members = np.zeros(prior.value.shape, bool)
        np.put_along_axis(members, order, np.arange(domain.size) < sizes[:, None], axis=1)
        sets = prior.map(lambda _: CandidateSets(np.packbits(members, axis=1), domain.size))
        return ldp.mechanisms.RandomizedResponseWithPrior(domain=domain, epsilon=epsilon, prior=sets)

    with patch("labeldp.learners.multistage.RandomizedResponseWithPrior", mistaken):
        return staged(task, epsilon, rng, stages=2, training="plain", evaluation=0.0)


def option(**options: object) -> Callable[[Task, float, np.random.Generator], np.ndarray]:
    return lambda task, epsilon, rng: staged(task, epsilon, rng, **options)


VARIANTS: dict[str, Callable[[Task, float, np.random.Generator], np.ndarray]] = {
    "one stage, plain": option(stages=1, training="plain"),
    "one stage, posterior": option(stages=1),
    "one stage, posterior, randomized response": option(stages=1, response="randomized-response"),
    "one stage, consensus": option(stages=1, training="consensus"),
    "one stage, posterior twice": option(stages=1, training=Training(rounds=2)),
    "one stage, debiased loss": option(stages=1, training="debiased"),
    "cluster prior, one stage, posterior": clustered,
    "two stages, posterior": option(stages=2),
    "two stages, posterior, no evaluation part": option(stages=2, evaluation=0.0),
    "two stages, plain, no evaluation part": option(stages=2, training="plain", evaluation=0.0),
    "two stages, plain, off-by-one, no evaluation part": off_by_one,
}
SHOWN = (
    "one stage, posterior",
    "one stage, plain",
    "one stage, consensus",
    "two stages, posterior",
    "cluster prior, one stage, posterior",
    "one stage, posterior, randomized response",
)
"""The ways of the page of tables."""

TASKS = {"adult": adult, "bank": bank, "credit": credit, "digits": digits, "covertype": covertype}


def without_privacy(task: Task) -> float:
    """The best of the same classifiers on the true labels, of which trees also as scikit-learn sets them."""
    trees = HistGradientBoostingClassifier(categorical_features=task.categorical, random_state=0)
    slow = clone(trees).set_params(learning_rate=0.05, max_iter=400, max_leaf_nodes=15, min_samples_leaf=100)
    candidates = [trees, slow, *default_classifiers(task.features, task.categorical)]
    models = [fit_codes(each, task.features, task.labels) for each in candidates]
    return max(task.score(model.predict_proba(task.test_features)) for model in models)


def measured(dataset: str, name: str, epsilon: float, noises: int, kept: Path) -> list[dict[str, float]]:
    """Scores on the test part and seconds of one training for each noise; from their files where they are done."""
    found = []
    for seed in range(noises):
        path = kept / f"{dataset}-{name.replace(' ', '_')}-{epsilon:g}-{seed}.json"
        if not path.exists():
            start, task = time.process_time(), TASKS[dataset]()
            scores = task.scores(VARIANTS[name](task, epsilon, np.random.default_rng([seed, 7])))
            path.write_text(json.dumps({**scores, "seconds": time.process_time() - start}))
            print(path.stem, path.read_text(), flush=True)
        found.append(json.loads(path.read_text()))
    return found


METRICS = "accuracy", "AUC", "log loss"


def row(dataset: str, name: str, epsilon: float, found: list[dict[str, float]]) -> str:
    """One line of the table: mean ± standard deviation, and seconds for one training."""
    cells = []
    for metric in METRICS:
        values, digits = [each[metric] for each in found if metric in each], 4 if metric == "log loss" else 2
        cells.append(f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=1):.{digits}f}" if values else "")
    seconds = np.mean([each["seconds"] for each in found])
    return f"| {dataset} | {epsilon:g} | {name} | {' | '.join(cells)} | {len(found)} | {seconds:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", default="digits=1+2,adult=1,bank=1")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--variants", default=";".join(SHOWN), help="names of the variants, by semicolons")
    parser.add_argument("--unprotected", action="store_true", help="also learn from the true labels")
    parser.add_argument("--kept", type=Path, default=ROOT / ".cache" / "learning")
    parser.add_argument("--write", action="store_true", help="store the table in docs/results/data")
    given = parser.parse_args()
    given.kept.mkdir(parents=True, exist_ok=True)
    lines = [f"| data | ε | training | {' | '.join(METRICS)} | runs | seconds |", "|---|---:|---|" + "---:|" * 5]
    for dataset, epsilons in (run.split("=") for run in given.runs.split(",")):
        if given.unprotected:
            print(f"{dataset}, {TASKS[dataset]().metric} without privacy: {without_privacy(TASKS[dataset]()):.2f}")
        for epsilon in map(float, epsilons.split("+")):
            for name in given.variants.split(";"):
                lines.append(row(dataset, name, epsilon, measured(dataset, name, epsilon, given.repeats, given.kept)))
    print("\n".join(lines), flush=True)
    if given.write:
        pages.store("\n".join(lines), "training")


if __name__ == "__main__":
    main()

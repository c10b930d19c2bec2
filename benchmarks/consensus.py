"""Consensus filtering: train again on the records whose released answer holds what a model predicts for them.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/consensus.py [--noises 5] [--write FILE]

`training="consensus"` beside the default, `training="posterior"`, and `training="plain"`, which takes answers at their
word: the same release, and for the first two the same out-of-fold predictions. The classifier is `KernelClassifier`,
one of the two default ones, with 500 centers for digits and 150 elsewhere; records are answered as `fit_multistage`
does, by groups of classes where they tell more; δ = 0. scikit-learn's digits (ten classes, 1,437 records to learn
from), `covertype_20k` (seven, 3,000 of them) and `adult` (two, 3,000 of its training records). Test accuracy in
percent, mean of the noises ± standard deviation of one; *kept* is the share of the records whose answer holds the
prediction.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from kernel import KernelClassifier
from learning import DATA, Task, adult, digits
from sklearn.model_selection import train_test_split

import labeldp as ldp
from labeldp.learners import Training, first_response
from labeldp.learners.evidence import Evidence
from labeldp.learners.training import cross_fit, learn

EPSILONS = (0.5, 1.0, 2.0)
METHODS = ("plain", "posterior", "consensus")


def covertype() -> Task:
    table = pd.read_csv(DATA / "covertype_20k" / "covertype_20k.csv.gz")
    features, labels = table.iloc[:, :-1].to_numpy(float), pd.factorize(table.iloc[:, -1], sort=True)[0]
    parts = train_test_split(features, labels, test_size=0.25, random_state=0)
    return Task(parts[0], parts[2], parts[1], parts[3], np.zeros(features.shape[1], bool), 7, "accuracy")


def first(task: Task, count: int) -> Task:
    """The task with some of its training records."""
    rows = np.random.default_rng(0).permutation(len(task.labels))[:count]
    return replace(task, features=task.features[rows], labels=task.labels[rows])


TASKS = {
    "digits": digits,
    "covertype_20k": lambda: first(covertype(), 3000),
    "adult": lambda: first(adult(), 3000),
}


def measured(task: Task, epsilon: float, noise: int) -> list[float]:
    """Accuracies by method, and the share of records that agree."""
    curator = ldp.Curator(task.labels, domain=ldp.Classes(task.classes), budget=ldp.Budget(epsilon=epsilon))
    mechanism = first_response(curator.domain, epsilon, partition_seed=noise)
    evidence = Evidence.of(curator.release(mechanism, rng=np.random.default_rng([noise, 7])))
    centers = 500 if task.classes == 10 else 150
    classifier = KernelClassifier(components=centers, categorical=task.categorical)
    guess = cross_fit(task.features, evidence, [classifier], Training())
    found = []
    for method in METHODS:
        model = learn(task.features, evidence, guess, Training(method), curator.domain)
        found.append(task.score(model.predict_proba(task.test_features)))
    return [*found, 100 * float(evidence.names(guess.probabilities.argmax(axis=1)).mean())]


def main() -> None:
    """Print the table; write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--noises", type=int, default=5)
    parser.add_argument("--data", default=",".join(TASKS))
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    lines = ["# Consensus filtering", "", (__doc__ or "").strip().partition("\n\n")[2], ""]
    lines += [f"| data | ε | {' | '.join(METHODS)} | kept |", "|---|---:|" + "---:|" * (len(METHODS) + 1)]
    for name in given.data.split(","):
        task = TASKS[name]()
        for epsilon in EPSILONS:
            values = np.array([measured(task, epsilon, noise) for noise in range(given.noises)])
            means, spreads = values.mean(axis=0), values.std(axis=0, ddof=1)
            cells = [f"{mean:.2f} ± {spread:.2f}" for mean, spread in zip(means[:-1], spreads, strict=False)]
            lines.append(f"| {name} | {epsilon:g} | {' | '.join(cells)} | {means[-1]:.0f} % |")
            print(lines[-1], flush=True)
    if given.write:
        given.write.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

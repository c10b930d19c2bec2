"""Cells and neighbors of labels that are answered one by one: by a class, by bits, by groups of classes.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/local_cells.py [--noises 5] [--write FILE]

The learners of `labeldp fit --model cells` and `--model neighbors`: of a few sizes the one that best predicts released
labels which it did not see. All of them average unbiased indicators of the true class. *Before* is the less noisy of
one class and K bits, which version 0.1 took; *groups* is `LocalHashing`, which today's commands take where it
tells more. scikit-learn's digits (ten classes, 1,347 records to learn from) and `covertype_20k` (seven classes, 15,000
records), a quarter held out; δ = 0. Test accuracy in percent, mean of the noises ± standard deviation of one.
"""

import argparse
from pathlib import Path
from typing import Any

import data
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import labeldp as ldp
from labeldp.learners import CellClassifier, MedianPartition, NeighborsClassifier, cell_counts, distances, tune
from labeldp.mechanisms import LocalHashing, public_seed

EPSILONS = (0.5, 1.0, 2.0)
RUNS = (("digits", "cells"), ("digits", "neighbors"), ("covertype_20k", "cells"))


def records(name: str) -> list[np.ndarray]:
    """Features and labels to learn from, and those that are held out, in scikit-learn's order."""
    if name == "digits":
        features, labels = load_digits(return_X_y=True)
    else:
        table = pd.read_csv(data.DATA / name / f"{name}.csv.gz")
        features, labels = table.iloc[:, :-1].to_numpy(float), pd.factorize(table.iloc[:, -1], sort=True)[0]
    return list(train_test_split(features, labels, test_size=0.25, random_state=0))


def learners(model: str, count: int, width: int) -> list[Any]:
    """Those that the command chooses from."""
    if model == "neighbors":
        each: list[Any] = [NeighborsClassifier(constant=factor) for factor in (1.0, 4.0, 16.0, 64.0)]
    else:
        each = [CellClassifier(MedianPartition(size)) for size in cell_counts(count)]
    return [distances(np.zeros(width, dtype=bool), learner) for learner in each]


def mechanisms(classes: int, epsilon: float, noise: int) -> dict[str, Any]:
    """What answers the records, by its name in the table."""
    domain, e = ldp.Classes(classes), np.exp(epsilon)
    unary = np.sqrt(e) / (np.sqrt(e) - 1) ** 2 < (classes - 2 + e) / (e - 1) ** 2
    before = (ldp.UnaryEncoding if unary else ldp.RandomizedResponse)(domain=domain, epsilon=epsilon)
    # A seed for each noise, so that its part in the spread is seen, too.
    return {"before": before, "groups": LocalHashing(domain=domain, epsilon=epsilon, seed=public_seed(noise))}


def measured(name: str, model: str, epsilon: float, noises: int) -> dict[str, np.ndarray]:
    """Accuracies in percent, by mechanism."""
    features, test, labels, truth = records(name)
    classes, found = int(labels.max()) + 1, {"before": [], "groups": []}
    for noise in range(noises):
        for title, mechanism in mechanisms(classes, epsilon, noise).items():
            curator = ldp.Curator(labels, domain=mechanism.domain, budget=ldp.Budget(epsilon=epsilon))
            release = curator.release(mechanism, rng=np.random.default_rng([noise, 3]))
            chosen = tune(learners(model, *features.shape), features, release).learner
            found[title].append(100 * np.mean(chosen.predict(test) == truth))
    return {title: np.array(values) for title, values in found.items()}


def main() -> None:
    """Print the table; write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--noises", type=int, default=5)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    lines = ["# Cells and neighbors of groups of classes", "", (__doc__ or "").strip().partition("\n\n")[2], ""]
    lines += ["| data | model | ε | before | | groups | |", "|---|---|---:|---|---:|---:|---:|"]
    for name, model in RUNS:
        classes = 10 if name == "digits" else 7
        for epsilon in EPSILONS:
            before, groups = mechanisms(classes, epsilon, 0).values()
            found = measured(name, model, epsilon, given.noises)
            old, new = (f"{each.mean():.2f} ± {each.std(ddof=1):.2f}" for each in found.values())
            kind = "bits" if isinstance(before, ldp.UnaryEncoding) else "one class"
            lines.append(f"| {name} | {model} | {epsilon:g} | {kind} | {old} | {groups.groups} | {new} |")
            print(lines[-1], flush=True)
    if given.write:
        given.write.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""The settings of boosted trees, compared on data sets that no page of accuracies of trees shows.

    python benchmarks/defaults.py [--repeats 2] [--epsilon 1] [--write]

Data folders `credit_default`, `magic_gamma` and `higgs_7500` are looked for in the folder LABELDP_DATA, by
default ../shared/data. A quarter of each is held out. Settings are compared by the mean log loss there, after
`fit_noisy` on one plain randomized response of the rest; the setting with the smallest mean rank is the default.
"""

import argparse
import os
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pages
import pandas as pd
from scipy.stats import rankdata

import labeldp as ldp
from labeldp.learners.classifiers import boosted_trees

DATA = Path(os.environ.get("LABELDP_DATA", Path(__file__).parents[2] / "shared" / "data"))
SOURCES = {
    "credit": ("credit_default/credit_default.csv.gz", "default", ["ID"]),
    "magic": ("magic_gamma/magic_gamma.csv.gz", "label", []),
    "higgs": ("higgs_7500/higgs_7500.csv.gz", "label", ["split"]),
}
Table = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def tables() -> Iterator[tuple[str, Table]]:
    """Name, training features and codes, held-out features and codes."""
    for name, (path, label, dropped) in SOURCES.items():
        table = pd.read_csv(DATA / path).sample(frac=1, random_state=0)
        codes = pd.factorize(table[label], sort=True)[0]
        features = table.drop(columns=[label, *dropped]).to_numpy(float)
        held = len(table) // 4
        yield name, (features[held:], codes[held:], features[:held], codes[:held])


def trees() -> dict[str, Callable[[int, int], Any]]:
    """Settings of the boosted trees, as functions of records and classes."""
    grid = product((15, 31), (30, 100), (5.0, 20.0))
    return {
        f"{leaves} leaves of at least {least}, l2 = {l2:g}": (
            lambda count, classes, leaves=leaves, least=least, l2=l2: boosted_trees(count, None, classes).set_params(
                max_leaf_nodes=leaves, min_samples_leaf=least, l2_regularization=l2
            )
        )
        for leaves, least, l2 in grid
    }


def log_loss(make: Callable[[int, int], Any], table: Table, epsilon: float, noise: int) -> float:
    """Log loss on the held-out rows, probabilities raised to at least 0.001."""
    features, codes, others, truth = table
    classes = int(codes.max()) + 1
    curator = ldp.Curator(codes, domain=ldp.Classes(classes), budget=ldp.Budget(epsilon))
    mechanism = ldp.RandomizedResponse(domain=curator.domain, epsilon=epsilon)
    release = curator.release(mechanism, rng=np.random.default_rng([noise, 3]))
    model = ldp.fit_noisy(features, release, classifier=make(len(codes), classes)).value
    chances = model.predict_proba(others)[np.arange(len(truth)), truth]
    return float(-np.log(np.maximum(chances, 1e-3)).mean())


def compare(settings: dict[str, Callable[[int, int], Any]], epsilon: float, noises: int) -> list[str]:
    """A table of mean log losses, a row for each setting, with its mean rank."""
    data = dict(tables())
    losses = np.array(
        [
            [[log_loss(make, data[name], epsilon, i) for i in range(noises)] for name in data]
            for make in settings.values()
        ]
    ).mean(axis=2)
    ranks = rankdata(losses, axis=0).mean(axis=1)
    lines = [f"| setting | {' | '.join(data)} | mean rank |", "|---|" + "---|" * (len(data) + 1)]
    for name, row, rank in zip(settings, losses, ranks, strict=True):
        lines.append(f"| {name} | {' | '.join(f'{loss:.4f}' for loss in row)} | {rank:.2f} |")
    return [*lines, "", f"Chosen: {list(settings)[int(ranks.argmin())]}.", ""]


def main() -> None:
    """Print the tables; write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--write", action="store_true", help="store the tables in docs/results/data")
    given = parser.parse_args()
    text = "\n".join(compare(trees(), given.epsilon, given.repeats))
    print(text)
    if given.write:
        pages.store(text, "defaults")


if __name__ == "__main__":
    main()

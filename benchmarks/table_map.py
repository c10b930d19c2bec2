"""What other features add to `TableMap` in linear models of noisy sums, on records that no table of results shows.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/table_map.py [--write docs/results/table_map.md]

`fit_linear` with its defaults at delta = 1e-6. Data folders `magic_gamma`, `covertype_20k` and `higgs_7500` are looked
for in the folder LABELDP_DATA, by default ../shared/data; a quarter of each is held out. Every map sees the same
noises. Each block of columns has the same total variance, as in `TableMap`: "Gaussian features" are 500 of
`RandomFourier`, "neighbors" the mean of the numbers of a record's 30 nearest neighbors among the training records and
their distance. A cell is log loss / accuracy in percent on the held-out records, probabilities at least 0.001. Every
fit leaves a file in the folder `--kept`, and is not done again.
"""

import argparse
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from data import DATA
from learning import Task
from linear import ROOT
from linear_link import measured
from linear_prior import SOURCES, held_out
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import StandardScaler

from labeldp.learners import RandomFourier, TableMap
from labeldp.learners.linear import LIKELIHOOD_RIDGE
from labeldp.learners.whitening import MAX_DIMENSION, Space

EPSILONS = (0.1, 0.5, 2.0)


class Neighbors(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Means of numbers over nearest neighbors, and how far those are."""

    def fit(self, X: Any, y: Any = None) -> "Neighbors":
        self.index_ = NearestNeighbors(n_neighbors=30, algorithm="kd_tree").fit(X)
        self.rows_ = X
        return self

    def transform(self, X: Any) -> np.ndarray:
        distances, places = self.index_.kneighbors(X)
        return np.column_stack([self.rows_[places].mean(axis=1), distances.mean(axis=1)])


class UnitVariance(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Columns with a total variance of one."""

    def fit(self, X: Any, y: Any = None) -> "UnitVariance":
        self.total_ = float(np.sqrt(X.var(axis=0).sum()))
        return self

    def transform(self, X: Any) -> np.ndarray:
        return np.asarray(X / self.total_, dtype=np.float32)


def beside(*others: Any) -> FeatureUnion:
    """`TableMap`, and blocks of other features of the scaled numbers."""
    blocks = [Pipeline([("scale", StandardScaler()), ("map", each), ("unit", UnitVariance())]) for each in others]
    return FeatureUnion([("table", TableMap()), *((str(place), each) for place, each in enumerate(blocks))])


MAPS = {
    "TableMap": lambda: TableMap(),
    "without trees": lambda: TableMap(trees=0),
    "200 trees": lambda: TableMap(trees=200),
    "depth 6": lambda: TableMap(depth=6),
    "Gaussian features": lambda: beside(RandomFourier(components=500)),
    "neighbors": lambda: beside(Neighbors()),
    "Gaussian features, neighbors": lambda: beside(RandomFourier(components=500), Neighbors()),
}


@cache
def mapped(name: str, kind: str) -> Task:
    """Records in the principal directions of a map, some of them held out."""
    path, label, dropped = SOURCES[name]
    table = pd.read_csv(DATA / path)
    codes = pd.factorize(table[label], sort=True)[0]
    task = held_out(table.drop(columns=[label, *dropped]).to_numpy(float), codes, len(table) // 4)
    representation = MAPS[kind]().fit(task.features)
    columns = representation.transform(task.features)
    space = Space.of(columns, MAX_DIMENSION)
    widths = np.sqrt(space.variances).astype(np.float32)
    parts = [space.rows(part)[:, 1:] * widths for part in (columns, representation.transform(task.test_features))]
    return Task(parts[0], task.labels, parts[1], task.test_labels, task.categorical, task.classes, task.metric)


def main() -> None:
    """Print the table; write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--noises", type=int, default=2)
    parser.add_argument("--kept", type=Path, default=ROOT / ".cache" / "table_map")
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    given.kept.mkdir(parents=True, exist_ok=True)
    cells: dict[tuple[str, float, str], np.ndarray] = {}
    for name in SOURCES:
        for kind in MAPS:
            for epsilon in EPSILONS:
                found = []
                for seed in range(given.noises):
                    path = given.kept / f"{name}-{kind.replace(' ', '_')}-{epsilon:g}-{seed}.json"
                    if not path.exists():
                        scores = measured(mapped(name, kind), epsilon, seed, "softmax", LIKELIHOOD_RIDGE)
                        path.write_text(json.dumps(scores))
                        print(path.stem, scores, flush=True)
                    found.append(json.loads(path.read_text()))
                cells[name, epsilon, kind] = np.mean(found, axis=0)
            mapped.cache_clear()
    lines = ["# Maps of tables", "", (__doc__ or "").strip().partition("\n\n")[2], ""]
    lines += [f"| data | ε | {' | '.join(MAPS)} |", "|---|---:|" + "---:|" * len(MAPS)]
    for name in SOURCES:
        for epsilon in EPSILONS:
            row = [cells[name, epsilon, kind] for kind in MAPS]
            lines.append(f"| {name} | {epsilon:g} | {' | '.join(f'{loss:.3f} / {hits:.2f}' for loss, hits in row)} |")
    means = [np.mean([cells[n, e, kind] for n in SOURCES for e in EPSILONS], axis=0) for kind in MAPS]
    lines.append(f"| mean | | {' | '.join(f'{loss:.4f} / {hits:.2f}' for loss, hits in means)} |")
    print("\n".join(lines))
    if given.write:
        given.write.write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()

"""How fast cells and neighbors are, and how they grow, as ratios to numpy and scikit-learn in the same run.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/cells.py [--repeats 5] [--write]

Cells: N records with four features, uniform in the unit cube, numbers between 0 and 1 as labels; cubes of the side that
`cube_side` asks for at epsilon = 1. The whole of `fit_cells`: cubes, groups, sums, noise, charge, model; against one
`np.bincount` of as many 64-bit integers over as many cells. The share of the label fingerprint and of the digest of the
groups, which a ledger needs, is in it. Neighbors: fitting and predicting, against scikit-learn's own regressor on the
same numbers with the same k.
"""

import argparse
import platform
from datetime import date

import numpy as np
import pages
from clock import seconds
from sklearn.neighbors import KNeighborsRegressor

import labeldp as ldp
from labeldp.privacy import Trust

DIMENSION, EPSILON = 4, 1.0


def records(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Features in the unit cube and labels of a wave with noise, in [0, 1]."""
    rng = np.random.default_rng(count)
    features = rng.random((count, DIMENSION), dtype=np.float32)
    wave = 0.5 + 0.3 * np.sin(4 * features[:, 0]) * np.cos(3 * features[:, 1])
    return features, np.clip(wave + 0.1 * rng.standard_normal(count), 0, 1)


def cells(count: int, repeats: int) -> tuple[int, float, float]:
    """Occupied cells, seconds of `fit_cells`, seconds of a bincount."""
    features, labels = records(count)
    side = ldp.learners.cube_side(count, DIMENSION, epsilon=EPSILON, trust=Trust.CENTRAL)
    partition = ldp.learners.CubePartition(side, bounds=(0, 1))
    domain, rng = ldp.Interval(0, 1), np.random.default_rng(0)
    curators = iter([ldp.Curator(labels, domain=domain, budget=ldp.Budget(epsilon=EPSILON)) for _ in range(repeats)])

    def fit() -> object:
        return ldp.fit_cells(features, next(curators), epsilon=EPSILON, rng=rng, partition=partition)

    spent = seconds(fit, repeats)
    keys = ldp.learners.CubePartition(side, bounds=(0, 1)).fit(features).transform(features)
    integers = np.random.default_rng(1).permutation(keys)
    return len(np.unique(keys)), spent, seconds(lambda: np.bincount(integers), repeats)


def nearest(count: int, repeats: int) -> tuple[int, float, float]:
    """k, seconds of `NeighborsRegressor`, seconds of scikit-learn's."""
    features, labels = records(count)
    domain, rng = ldp.Interval(0, 1), np.random.default_rng(0)
    curator = ldp.Curator(labels, domain=domain, budget=ldp.Budget(epsilon=EPSILON))
    release = curator.release(ldp.DiscreteLaplace(domain=domain, epsilon=EPSILON), rng=rng)
    asked = features[: count // 10]
    ours = ldp.learners.NeighborsRegressor().fit(features, release)
    numbers = ldp.debias(release.mechanism, release.value).values
    theirs = KNeighborsRegressor(n_neighbors=ours.neighbors_)
    pair = [
        seconds(lambda: ldp.learners.NeighborsRegressor().fit(features, release).predict(asked), repeats),
        seconds(lambda: theirs.fit(features, numbers).predict(asked), repeats),
    ]
    return ours.neighbors_, pair[0], pair[1]


def page(repeats: int) -> list[str]:
    """Both tables."""
    lines = ["", "| records | occupied cells | fit_cells, s | np.bincount, s | ratio |", "|---:|---:|---:|---:|---:|"]
    for count in (10**5, 10**6, 10**7):
        occupied, ours, limit = cells(count, repeats)
        lines.append(f"| {count:,} | {occupied:,} | {ours:.3f} | {limit:.4f} | {ours / limit:.1f} |")
    lines += [
        "",
        "| records | k | NeighborsRegressor, s | KNeighborsRegressor, s | ratio |",
        "|---:|---:|---:|---:|---:|",
    ]
    for count in (10**4, 10**5):
        k, ours, theirs = nearest(count, repeats)
        lines.append(f"| {count:,} | {k} | {ours:.3f} | {theirs:.3f} | {ours / theirs:.2f} |")
    return lines


def main() -> None:
    """Measure, and print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="store the tables in docs/results/data")
    given = parser.parse_args()
    lines: list[str] = []
    lines += [f"{date.today()}, medians of {given.repeats}, one thread of a shared {platform.machine()} machine."]
    text = "\n".join(lines + page(given.repeats)) + "\n"
    if given.write:
        pages.store(text, "cells-time", "cells-neighbors")
    print(text)


if __name__ == "__main__":
    main()

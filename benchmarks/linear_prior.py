"""The two constants of the prior in `fit_linear`, compared on records that no table of results shows.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/linear_prior.py [--write]

`DECAY` says how the signal of a direction grows with its variance, `EXPLAINED` how much of the labels a model
explains. Data folders `fashion_mnist`, `cifar10_subset`, `magic_gamma`, `covertype_20k` and `higgs_7500` are looked
for in the folder LABELDP_DATA, by default ../shared/data. Of the first two, the training images alone, of which
10,000 and 3,000 are held out; of the others, a quarter. Every setting sees the same noises. The number of a setting
is how much its mean log loss on the held-out records is above the least of the grid, in hundredths, averaged over
data sets and epsilons; the setting with the smallest one is the default. Beside it, by how much its accuracy is below
the best.
"""

import argparse
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pages
import pandas as pd
from data import DATA
from learning import Task
from linear import ROOT, TASKS, linear, reduced

EPSILONS = (0.1, 1.0)
DECAYS = (0.2, 0.4, 0.6, 0.8, 1.0)
EXPLAINED = (0.3, 0.6, 0.9)
HELD = {"fashion_mnist": 10_000, "cifar10_subset": 3_000}
SOURCES = {
    "magic_gamma": ("magic_gamma/magic_gamma.csv.gz", "label", []),
    "covertype_20k": ("covertype_20k/covertype_20k.csv.gz", "Cover_Type", []),
    "higgs_7500": ("higgs_7500/higgs_7500.csv.gz", "label", ["split"]),
}
NOISES = {"fashion_mnist": 1, "cifar10_subset": 1}
"""By data set; two for tables."""


def held_out(features: np.ndarray, labels: np.ndarray, count: int) -> Task:
    """A random part of records as the test part."""
    order = np.random.default_rng(0).permutation(len(labels))
    test, train = order[:count], order[count:]
    wide = np.zeros(features.shape[1], bool)
    return Task(features[train], labels[train], features[test], labels[test], wide, int(labels.max()) + 1, "accuracy")


def load(name: str) -> Task:
    """Mapped records, of which some are held out."""
    if name in HELD:
        task = TASKS[name]()
        return reduced(held_out(task.features, task.labels, HELD[name]))
    path, label, dropped = SOURCES[name]
    table = pd.read_csv(DATA / path)
    codes = pd.factorize(table[label], sort=True)[0]
    return reduced(held_out(table.drop(columns=[label, *dropped]).to_numpy(float), codes, len(table) // 4))


def judged(task: Task, epsilon: float, noises: int) -> Iterator[tuple[float, float]]:
    """Mean log loss, of probabilities of at least 0.001, and accuracy, for each noise."""
    for seed in range(noises):
        chances = linear(task, epsilon, np.random.default_rng([seed, 5]))
        own = np.maximum(chances[np.arange(len(chances)), task.test_labels], 1e-3)
        yield float(-np.log(own).mean()), float(np.mean(chances.argmax(axis=1) == task.test_labels))


def measured(name: str, kept: Path) -> np.ndarray:
    """Log loss and accuracy, shape (epsilons, settings, 2); what was measured before comes from its file."""
    path = kept / f"prior-{name}.json"
    if not path.exists():
        task, grid = load(name), []
        for epsilon, decay, explained in product(EPSILONS, DECAYS, EXPLAINED):
            with (
                patch("labeldp.learners.linear.DECAY", decay),
                patch("labeldp.learners.linear.EXPLAINED", explained),
            ):
                found = np.mean(list(judged(task, epsilon, NOISES.get(name, 2))), axis=0).tolist()
            grid.append(found)
            print(name, epsilon, decay, explained, found, flush=True)
        path.write_text(json.dumps(grid))
    return np.array(json.loads(path.read_text())).reshape(len(EPSILONS), -1, 2)


def main() -> None:
    """Print the table; write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kept", type=Path, default=ROOT / ".cache" / "linear")
    parser.add_argument("--write", action="store_true", help="store the tables in docs/results/data")
    given = parser.parse_args()
    given.kept.mkdir(parents=True, exist_ok=True)
    names = [*SOURCES, *HELD]
    grid = np.stack([measured(name, given.kept) for name in names])
    behind = 100 * np.stack(
        [grid[..., 0] - grid[..., 0].min(axis=2, keepdims=True), grid[..., 1].max(axis=2, keepdims=True) - grid[..., 1]]
    )
    means, mine = behind.mean(axis=(1, 2)), behind.mean(axis=2)
    lines: list[str] = []
    lines += [f"| DECAY | EXPLAINED | {' | '.join(names)} | log loss above the least | accuracy below the best |"]
    lines += ["|---:|---:|" + "---:|" * (len(names) + 2)]
    for i, (decay, explained) in enumerate(product(DECAYS, EXPLAINED)):
        cells = [f"{number:.2f}" for number in (*mine[0, :, i], *means[:, i])]
        lines.append(f"| {decay:g} | {explained:g} | {' | '.join(cells)} |")
    best = list(product(DECAYS, EXPLAINED))[int(means[0].argmin())]
    lines += ["", f"Chosen: DECAY = {best[0]:g}, EXPLAINED = {best[1]:g}.", ""]
    print("\n".join(lines))
    if given.write:
        pages.store("\n".join(lines), "linear_prior")


if __name__ == "__main__":
    main()

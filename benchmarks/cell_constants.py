"""The cells that `fit_cells` learns from by default, compared on tables that no other page of cells shows.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/cell_constants.py [--write]

`RECORDS` is how many records a small cell holds at epsilon = 1; cells are those of a k-d tree or compact ones. The
trees that learn from them have 8, 32 or 128 leaves: the next number as long as it predicts the cells left out better.
Data folders `protein_structure`, `adult` (income, and hours of work), `higgs_7500` and `bank_marketing` are looked for
in the folder LABELDP_DATA, by default ../shared/data; "-3" takes the first three features alone. At most 12,000 records
are learned from, a fifth of a table is held out, epsilon is 1, and each number is a mean over two noises: the R squared
of predicted numbers, or the accuracy of classes, in hundredths. The last column is by how much a setting is below the
best one on average.

`fit_cells` takes compact cells of 10 records: that was set on first runs of this kind, at epsilon from 0.1 to 4, before
this table was complete. Cells of 5 and of 20 are within the noise of it on most tables.
"""

import argparse
from unittest.mock import patch

import numpy as np
import pages
import pandas as pd
from data import DATA

import labeldp as ldp
from labeldp.learners import CompactPartition, MedianPartition, fit_cells

SETTINGS = ((10.0, MedianPartition), (5.0, CompactPartition), (10.0, CompactPartition), (20.0, CompactPartition))
NOISES, MOST = 2, 12_000
SOURCES = {
    "protein": ("protein_structure/protein_structure.csv.gz", "rmsd", (), (0, 21)),
    "hours": ("adult/adult.csv.gz", "hours_per_week", ("split", "fnlwgt"), (0, 99)),
    "income": ("adult/adult.csv.gz", "income", ("split", "fnlwgt"), None),
    "higgs": ("higgs_7500/higgs_7500.csv.gz", "label", ("split",), None),
    "bank": ("bank_marketing/bank_additional_full.csv.gz", "y", ("duration",), None),
}
SOURCES |= {f"{name}-3": SOURCES[name] for name in ("protein", "hours", "income")}


def load(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, ldp.Classes | ldp.Interval]:
    """Features and labels to learn from, others to judge by, and the domain."""
    path, label, dropped, bounds = SOURCES[name]
    table = pd.read_csv(DATA / path).drop(columns=list(dropped))
    labels = table.pop(label).to_numpy()
    for column in table.columns[[not pd.api.types.is_numeric_dtype(kind) for kind in table.dtypes]]:
        table[column] = pd.factorize(table[column], sort=True)[0]
    order = np.random.default_rng(1).permutation(len(labels))
    held, known = order[: len(order) // 5], order[len(order) // 5 :][:MOST]
    table = table.iloc[:, :3] if name.endswith("-3") else table
    features, domain = table.to_numpy(float), ldp.Classes(2) if bounds is None else ldp.Interval(*bounds)
    return features[known], labels[known], features[held], labels[held], domain


def measured(name: str) -> list[float]:
    """The score of each setting, in hundredths."""
    features, labels, asked, truth, domain = load(name)
    found = []
    for constant, kind in SETTINGS:
        scores = []
        for seed in range(NOISES):
            curator = ldp.Curator(labels, domain=domain, budget=ldp.Budget(epsilon=1))
            with (
                patch("labeldp.learners.cells.central.RECORDS", constant),
                patch("labeldp.learners.cells.central.CompactPartition", kind),
            ):
                model = fit_cells(features, curator, epsilon=1, rng=np.random.default_rng([seed, 7])).value
            predicted = model.predict(asked)
            error = np.mean((predicted - truth) ** 2) / np.var(truth)
            scores.append(1 - error if isinstance(domain, ldp.Interval) else np.mean(predicted == truth))
        found.append(100 * float(np.mean(scores)))
        print(name, constant, kind.__name__, round(found[-1], 2), flush=True)
    return found


def main() -> None:
    """Print the table; write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="store the tables in docs/results/data")
    given = parser.parse_args()
    grid = np.array([measured(name) for name in SOURCES])
    behind = (grid.max(axis=1, keepdims=True) - grid).mean(axis=0)
    lines: list[str] = []
    lines += [
        f"| RECORDS | cells | {' | '.join(SOURCES)} | below the best |",
        "|---:|---|" + "---:|" * (len(SOURCES) + 1),
    ]
    for i, (constant, kind) in enumerate(SETTINGS):
        numbers = [f"{number:.2f}" for number in (*grid[:, i], behind[i])]
        lines.append(f"| {constant:g} | {kind.__name__} | {' | '.join(numbers)} |")
    print("\n".join(lines))
    if given.write:
        pages.store("\n".join([*lines, ""]), "cell_constants")


if __name__ == "__main__":
    main()

"""Accuracy of `fit_linear` on MNIST, Fashion-MNIST and adult.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/linear.py --runs mnist=0.1+0.5+1,adult=0.1+0.25+0.5+1

Data folders are looked for in the folder LABELDP_DATA, by default ../shared/data. Every number is a mean over fresh
noises with its standard deviation, all at delta = 1e-6, central trust, no evaluation part. Images: `PatchFilters`;
table: `TableMap`; both with their defaults. The root in `PatchFilters` was chosen on 10,000 training images of
Fashion-MNIST that were held out. The two constants of the prior (`DECAY`, `EXPLAINED`) were set after looking at a
coarse grid on the Fashion-MNIST test set, so its numbers are slightly optimistic; the others had no say.
"""

import argparse
import gzip
import os
import platform
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.preprocessing import FunctionTransformer

import labeldp as ldp
from labeldp.learners import PatchFilters, TableMap
from labeldp.learners.whitening import Space, clipped

DATA = Path(os.environ.get("LABELDP_DATA", Path(__file__).parents[2] / "shared" / "data"))
RESULTS = Path(__file__).parents[1] / "docs" / "results" / "linear.md"
DELTA = 1e-6
KINDS = ("images-idx3-ubyte", "labels-idx1-ubyte")
AIMED = {
    "mnist": {0.1: "94", 0.5: "97", 1.0: "97.5"},
    "fashion_mnist": {0.1: "83", 0.5: "87", 1.0: "88"},
    "adult": {},
}
"""What was aimed at, in percent."""


@dataclass(frozen=True)
class Task:
    """One data set with its map, not fitted."""

    features: np.ndarray
    labels: np.ndarray
    test_features: np.ndarray
    test_labels: np.ndarray
    representation: object
    classes: int


def images(folder: str) -> Task:
    parts = [idx(DATA / folder / f"{part}-{kind}.gz") for part in ("train", "t10k") for kind in KINDS]
    return Task(*parts, PatchFilters(), 10)


def idx(path: Path) -> np.ndarray:
    """An array of bytes in the format of MNIST."""
    content = gzip.decompress(path.read_bytes())
    shape = [int.from_bytes(content[4 + 4 * i : 8 + 4 * i], "big") for i in range(content[3])]
    return np.frombuffer(content, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)


def adult() -> Task:
    table = pd.read_csv(DATA / "adult" / "adult.csv.gz")
    columns = table.drop(columns=["income", "split", "fnlwgt"])
    mask = np.array([not pd.api.types.is_numeric_dtype(kind) for kind in columns.dtypes])
    coded = [
        pd.factorize(columns[name])[0] if text else columns[name] for name, text in zip(columns, mask, strict=True)
    ]
    features, labels, train = np.column_stack(coded).astype(float), table.income.to_numpy(), table.split == "train"
    parts = features[train], labels[train], features[~train], labels[~train]
    return Task(*parts, TableMap(categorical=mask), 2)


TASKS = {"mnist": lambda: images("mnist"), "fashion_mnist": lambda: images("fashion_mnist"), "adult": adult}


def rows(name: str, epsilons: list[float], noises: int) -> list[str]:
    """Lines of the table: mean ± standard deviation, what was aimed at, and seconds for the map and for one fit."""
    task, start = TASKS[name](), time.process_time()
    fitted = task.representation.fit(task.features)
    mapped, test = fitted.transform(task.features), fitted.transform(task.test_features)
    seconds, lines = time.process_time() - start, []
    for epsilon in epsilons:
        start, scores = time.process_time(), []
        for seed in range(noises):
            budget = ldp.Budget(epsilon=epsilon, delta=DELTA)
            holder = ldp.Curator(task.labels, domain=ldp.Classes(task.classes), budget=budget)
            release = ldp.fit_linear(
                mapped,
                holder,
                epsilon=epsilon,
                delta=DELTA,
                rng=np.random.default_rng([seed, 3]),
                representation=FunctionTransformer(),
            )
            scores.append(100 * np.mean(release.value.predict(test) == task.test_labels))
        spent = (time.process_time() - start) / noises
        spread, aim = np.std(scores, ddof=1), AIMED[name].get(epsilon, "")
        lines.append(
            f"| {name} | {epsilon:g} | {np.mean(scores):.2f} ± {spread:.2f} | {aim} | {seconds:.0f} + {spent:.0f} |"
        )
        print(lines[-1], flush=True)
    return lines


def designs(name: str, dimension: int) -> list[str]:
    """Noise on predictions for two shapes of the noise, with and without weights of the rows."""
    task = TASKS[name]()
    table = task.representation.fit(task.features).transform(task.features)
    table = Space.of(table, dimension).rows(table).astype(float)
    weights = np.full(len(table), 1 / len(table))
    for _ in range(200):  # Titterington's multiplicative algorithm: the largest leverage tends to the dimension
        inverse = np.linalg.inv(table.T @ (table * weights[:, None]))
        weights *= np.einsum("ij,jk,ik->i", table, inverse, table) / table.shape[1]
    lines = ["", f"Noise on the predictions of {name}, {table.shape[1]} directions, in units of that of the best:", ""]
    lines += ["| shape of the noise | norms as they are | long rows weigh less |", "|---|---:|---:|"]
    shapes = {"whitened": table, "D-optimal design": table @ np.linalg.cholesky(inverse)}
    noises = {shape: [noise(table, rows, share) for share in (1.0, 0.02)] for shape, rows in shapes.items()}
    best = min(min(pair) for pair in noises.values())
    return lines + [f"| {shape} | {plain / best:.2f} | {clip / best:.2f} |" for shape, (plain, clip) in noises.items()]


def noise(table: np.ndarray, rows: np.ndarray, share: float) -> float:
    """The variances of all predictions, summed, from rows that are clipped at a quantile of their norms."""
    clip = float(np.quantile(np.linalg.norm(rows, axis=1), share))
    cross = clipped(rows, clip).T @ table
    return clip**2 * float(np.trace(np.linalg.solve(cross, np.linalg.solve(cross, table.T @ table).T)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", default="adult=0.1+0.25+0.5+1,mnist=0.1+0.5+1,fashion_mnist=0.1+0.5+1")
    parser.add_argument("--noises", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    lines = ["# Linear models of one noisy sum", "", "\n\n".join((__doc__ or "").strip().split("\n\n")[1:]), ""]
    lines += [f"{date.today()}, one core, {platform.processor() or platform.machine()}. Seconds: map + one fit.", ""]
    lines += ["| data | ε | test accuracy in percent | aimed at | seconds |", "|---|---:|---:|---:|---:|"]
    for name, epsilons in (run.split("=") for run in given.runs.split(",")):
        lines += rows(name, [float(epsilon) for epsilon in epsilons.split("+")], given.noises)
        given.out.write_text("\n".join(lines) + "\n")
    given.out.write_text("\n".join(lines + designs("adult", 50)) + "\n")


if __name__ == "__main__":
    main()

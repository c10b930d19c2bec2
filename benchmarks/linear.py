"""Accuracy of `fit_linear` on tables, beside local labels with the default classifiers.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/linear.py --runs adult=0.1+0.5+1+2 [--write]

Data folders are looked for in the folder LABELDP_DATA, by default ../shared/data. Every number is a mean over fresh
noises with its standard deviation (of one noise, not of the mean). Test labels are used for the final measurement
alone. Central: `fit_linear`, delta = 1e-6, no evaluation part, `TableMap`; local: `fit_multistage` of one stage with
the default classifiers, delta = 0. The split of bank (without `duration`) and credit is 80:20. Every run leaves a file
in the folder `--kept`, and is not done again. Images serve `constants.py`.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import data
import numpy as np
import pages
from learning import Task, adult, bank, credit, measured
from sklearn.preprocessing import FunctionTransformer

import labeldp as ldp
from labeldp.features import PatchFilters, TableMap
from labeldp.features.whitening import MAX_DIMENSION, Space

ROOT = Path(__file__).parents[1]
DELTA = 1e-6


def images(parts: data.Parts, classes: int) -> Task:
    """Pixels have no categories."""
    return Task(*parts, np.zeros(0, bool), classes, "accuracy")


TASKS: dict[str, Callable[[], Task]] = {
    "mnist": lambda: images(data.mnist(), 10),
    "fashion_mnist": lambda: images(data.fashion_mnist(), 10),
    "cifar10_subset": lambda: images(data.cifar10_subset(), 10),
    "cifar100_subset": lambda: images(data.cifar100_subset(), 100),
    "adult": adult,
    "bank": bank,
    "credit": credit,
}
TABLES = ("adult", "bank", "credit")


@cache
def mapped(name: str) -> tuple[Task, float]:
    """A data set in its principal directions, and the seconds that took."""
    task, start = TASKS[name](), time.process_time()
    return reduced(task), time.process_time() - start


def reduced(task: Task) -> Task:
    """The features of a task, mapped and turned to principal directions, of their own widths."""
    if task.features.ndim > 2:
        representation = PatchFilters(side=task.features.shape[1], channels=int(np.prod(task.features.shape[3:])))
    else:
        representation = TableMap(categorical=task.categorical)
    table = representation.fit_transform(task.features)
    space = Space.of(table, MAX_DIMENSION)
    widths = np.sqrt(space.variances).astype(np.float32)
    parts = [space.rows(part)[:, 1:] * widths for part in (table, representation.transform(task.test_features))]
    return Task(parts[0], task.labels, parts[1], task.test_labels, task.categorical, task.classes, task.metric)


def linear(task: Task, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """Test probabilities of `fit_linear`, for features that were mapped before."""
    holder = ldp.Curator(task.labels, domain=ldp.Classes(task.classes), budget=ldp.Budget(epsilon=epsilon, delta=DELTA))
    release = ldp.fit_linear(
        task.features, holder, epsilon=epsilon, delta=DELTA, rng=rng, representation=FunctionTransformer()
    )
    return release.value.predict_proba(task.test_features)


def run(name: str, epsilon: float, seed: int) -> dict[str, float]:
    """One training of `fit_linear`: accuracy, area under the ROC curve of two classes, seconds."""
    task, before = mapped(name)
    start = time.process_time()
    probabilities = linear(task, epsilon, np.random.default_rng([seed, 3]))
    return {"before": before, "seconds": time.process_time() - start, **task.scores(probabilities)}


def runs(kept: Path, name: str, method: str, epsilon: float, noises: int) -> list[dict[str, float]]:
    """One training for each noise, those that were done before from their files; of labels, those of learning.py."""
    if method == "response":
        labels = kept.parent / "learning"
        labels.mkdir(parents=True, exist_ok=True)
        return measured(name, "one stage, posterior", epsilon, noises, labels)
    found = []
    for seed in range(noises):
        path = kept / f"{name}-{method}-{epsilon:g}-{seed}.json"
        if not path.exists():
            path.write_text(json.dumps(run(name, epsilon, seed)))
            print(path.stem, path.read_text(), flush=True)
        found.append(json.loads(path.read_text()))
    return found


def cell(found: list[dict[str, float]], metric: str) -> str:
    scores = [each[metric] for each in found]
    return f"{np.mean(scores):.2f} ± {np.std(scores, ddof=1):.2f}"


def mean(found: list[dict[str, float]], metric: str) -> float:
    return float(np.mean([each[metric] for each in found]))


def table_rows(name: str, epsilons: list[float], kept: Path, noises: int) -> Iterator[str]:
    """Both trusts, by epsilon."""
    for method, trust in (("linear", "central"), ("response", "local")):
        for epsilon in epsilons:
            found = runs(kept, name, method, epsilon, noises)
            cells = [cell(found, metric) for metric in ("AUC", "accuracy")]
            spent = found[0].get("before", 0.0) + mean(found, "seconds")
            yield f"| {name} | {trust} | {epsilon:g} | {' | '.join(cells)} | {noises} | {spent:.0f} |"


def main() -> None:
    """Run what was not run before, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", default=",".join(f"{name}=0.1+0.5+1+2" for name in TABLES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kept", type=Path, default=ROOT / ".cache" / "linear")
    parser.add_argument("--write", action="store_true", help="store the table in docs/results/data")
    given = parser.parse_args()
    given.kept.mkdir(parents=True, exist_ok=True)
    lines = ["| data | trust | ε | AUC | accuracy | runs | seconds |", "|---|---|---:|---:|---:|---:|---:|"]
    for name, listed in (each.split("=") for each in given.runs.split(",")):
        lines += table_rows(name, [float(epsilon) for epsilon in listed.split("+")], given.kept, given.repeats)
    print("\n".join(lines))
    if given.write:
        pages.store("\n".join(lines), "tables")


if __name__ == "__main__":
    main()

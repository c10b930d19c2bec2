"""Accuracy of `fit_linear` on images and tables, beside randomized response and published numbers.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/linear.py --runs mnist=0.1+0.5+1,adult=0.1+0.25+0.5+1

Data folders are looked for in the folder LABELDP_DATA, by default ../shared/data. Every number is a mean over fresh
noises with its standard deviation (of one noise, not of the mean). Test labels are used for the final measurement
alone; the constants of the prior were chosen on other records ([linear_prior](linear_prior.md)), the root in
`PatchFilters` on 10,000 training images of Fashion-MNIST.

`fit_linear`: trust in a curator, delta = 1e-6, no evaluation part, `PatchFilters` for images and `TableMap` for
tables, with their defaults; principal directions are computed once for all noises of a data set, within the seconds
of the map. Randomized response: no trust in anybody, delta = 0, `fit_multistage` of one stage with the default
classifiers. The split of bank (without `duration`) and credit is 80:20. Credit is one of the sets that the settings
of those classifiers were chosen on ([defaults](defaults.md)), which may favor them there. Every run leaves a file in
the folder `--kept`, and is not done again.

Published numbers are of networks on all the training images, with settings chosen for each epsilon on the true labels
or the test set; the delta of LabelDP-Pro is above 0. The subsets of CIFAR (15,000 and 10,000 training images) cannot
be compared with anything published.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable, Iterator
from datetime import date
from functools import cache
from pathlib import Path

import data
import numpy as np
from learning import Task, adult, bank, credit, measured
from sklearn.preprocessing import FunctionTransformer

import labeldp as ldp
from labeldp.learners import PatchFilters, TableMap
from labeldp.learners.whitening import CLIP_SHARES, MAX_DIMENSION, Space, clipped

ROOT = Path(__file__).parents[1]
DELTA = 1e-6
AIMED = {"mnist": {0.1: 94.0, 0.5: 97.0, 1.0: 97.5}, "fashion_mnist": {0.1: 83.0, 0.5: 87.0, 1.0: 88.0}}
"""What was aimed at, in percent."""

PUBLISHED = {
    "mnist": [
        ("LP-1ST, Ghazi et al. 2021, Table 4", "nobody", "0", {1: 95.34, 2: 98.16, 4: 99.08}),
        ("LP-2ST, Ghazi et al. 2021, Table 4", "nobody", "0", {1: 95.82, 2: 98.78, 4: 99.24}),
        ("LP-2ST, Ghazi et al. 2024, Table 5", "nobody", "0", {0.1: 10, 0.5: 10, 1: 83.3, 2: 96.8}),
        ("ALIBI, Ghazi et al. 2024, Table 5", "nobody", "0", {0.1: 9.7, 0.5: 82.5, 1: 94.1, 2: 96.6}),
        ("LabelDP-Pro, Ghazi et al. 2024, Table 5", "a curator", "> 0", {0.1: 91.1, 0.5: 94.1, 1: 94.3, 2: 95.4}),
    ],
    "fashion_mnist": [
        ("LP-1ST, Ghazi et al. 2021, Table 4", "nobody", "0", {1: 80.78, 2: 90.18, 4: 93.5}),
        ("LP-2ST, Ghazi et al. 2021, Table 4", "nobody", "0", {1: 83.26, 2: 91.24, 4: 94.1}),
        ("LP-2ST, Ghazi et al. 2024, Table 14", "nobody", "0", {0.1: 10, 0.5: 10.9, 1: 68.7, 2: 84.8}),
        ("ALIBI, Ghazi et al. 2024, Table 14", "nobody", "0", {0.1: 10.7, 0.5: 69.2, 1: 76.5, 2: 82.3}),
        ("LabelDP-Pro, Ghazi et al. 2024, Table 14", "a curator", "> 0", {0.1: 75.7, 0.5: 79.8, 1: 81.7, 2: 82.4}),
    ],
}
"""Test accuracy in percent by epsilon, with who is trusted and delta."""


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


def image_rows(name: str, epsilons: list[float], kept: Path, noises: int) -> Iterator[str]:
    """Accuracies, what was aimed at, and seconds for the map and for one fit; then what others published."""
    found = [runs(kept, name, "linear", epsilon, noises) for epsilon in epsilons]
    aims = [AIMED.get(name, {}).get(epsilon) for epsilon in epsilons]
    before = max(each["before"] for each in found[0])
    yield from ["", f"## {name}", "", "Test accuracy in percent.", ""]
    yield f"| method | trust in | δ | {' | '.join(f'ε = {epsilon:g}' for epsilon in epsilons)} |"
    yield "|---|---|---|" + "---:|" * len(epsilons)
    yield f"| **fit_linear** | a curator | {DELTA:g} | {' | '.join(cell(each, 'accuracy') for each in found)} |"
    if name in AIMED:
        yield f"| aimed at | | | {' | '.join(f'{aim:g}' if aim else '' for aim in aims)} |"
    for title, trust, delta, numbers in PUBLISHED.get(name, []):
        values = [numbers.get(epsilon) for epsilon in epsilons]
        yield f"| {title} | {trust} | {delta} | {' | '.join('' if each is None else f'{each:g}' for each in values)} |"
    spent = " | ".join(f"{before:.0f} + {mean(each, 'seconds'):.0f}" for each in found)
    yield f"| seconds of fit_linear, map + fit | | | {spent} |"


def table_rows(name: str, epsilons: list[float], kept: Path, noises: int) -> Iterator[str]:
    """Both methods by epsilon, and where they cross."""
    pairs = [[runs(kept, name, method, e, noises) for method in ("linear", "response")] for e in epsilons]
    yield from ["", f"## {name}", ""]
    yield "In percent; seconds of fit_linear (with its map), and of randomized response."
    yield ""
    yield "| ε | AUC: linear | AUC: response | accuracy: linear | accuracy: response | seconds |"
    yield "|---:|---:|---:|---:|---:|---:|"
    for epsilon, pair in zip(epsilons, pairs, strict=True):
        cells = [cell(found, metric) for metric in ("AUC", "accuracy") for found in pair]
        spent = f"{pair[0][0]['before'] + mean(pair[0], 'seconds'):.0f}, {mean(pair[1], 'seconds'):.0f}"
        yield f"| {epsilon:g} | {' | '.join(cells)} | {spent} |"
    for metric in ("AUC", "accuracy"):
        leads = [mean(pair[0], metric) - mean(pair[1], metric) for pair in pairs]
        yield from ["", f"{metric}: {crossing(epsilons, leads)}"]


def crossing(epsilons: list[float], leads: list[float]) -> str:
    """Where a lead changes its sign, interpolated in the logarithm of epsilon."""
    places, logs = [], np.log(epsilons)
    for i in np.flatnonzero(np.diff(np.sign(leads))):
        share = leads[i] / (leads[i] - leads[i + 1])
        places.append(f"{np.exp(logs[i] + share * (logs[i + 1] - logs[i])):.2g}")
    if places:
        return f"the two cross at ε = {', '.join(places)}, interpolated."
    ahead = "fit_linear" if leads[0] > 0 else "randomized response"
    return f"the two do not cross; {ahead} is ahead from ε = {epsilons[0]:g} to {epsilons[-1]:g}."


def designs(name: str, dimension: int) -> Iterator[str]:
    """Noise on predictions for two shapes of the noise: of an average record, and of that with most."""
    task = mapped(name)[0]
    table = Space.of(task.features, dimension).rows(task.features)[::3].astype(float)
    weights = np.full(len(table), 1 / len(table))
    for _ in range(200):  # Titterington's multiplicative algorithm: the largest leverage tends to the dimension
        inverse = np.linalg.inv(table.T @ (table * weights[:, None]))
        weights *= ((table @ inverse) * table).sum(axis=1) / table.shape[1]
    shapes = {"whitened": table, "D-optimal": table @ np.linalg.cholesky(inverse)}
    found = np.array([[noise(table, rows, s) for s in ((1.0,), CLIP_SHARES)] for rows in shapes.values()])
    found /= found.min(axis=(0, 1))
    for shape, each in zip(shapes, found, strict=True):
        yield f"| {name} | {dimension} | {shape} | {' | '.join(f'{number:.2f}' for number in each.T.ravel())} |"


def noise(table: np.ndarray, rows: np.ndarray, shares: tuple[float, ...]) -> np.ndarray:
    """The variance of predictions, mean and largest, at the clip of least mean among some quantiles of the norms."""
    found = []
    for clip in np.quantile(np.linalg.norm(rows, axis=1), shares):
        gain = np.linalg.solve(clipped(rows, clip).T @ table, np.eye(table.shape[1]))
        spread = clip**2 * ((table @ gain) ** 2).sum(axis=1)
        found.append([spread.mean(), spread.max()])
    return np.array(min(found))


DESIGNS = """
## Shapes of the noise

Noise can be given another shape than that of whitened rows: the ellipsoid of a D-optimal design, which is G-optimal
too, around all rows. And rows that are long in a shape can be scaled down ("weights": at the best of five quantiles
of the norms; `fit_linear` does so, and weighs it against what it costs beside noise). Variance of the noise on
predictions in units of the least, for an average record and for the one that has most; features alone decide. A
design is better than whitening on average while rows are left as they are; with weights whitened rows have the least
noise everywhere, and weights help designs little: they are built around the long rows. So no option is made of them.

| data | directions | shape | average | with weights | largest | with weights |
|---|---:|---|---:|---:|---:|---:|"""


def main() -> None:
    """Run what was not run before, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    some, every = "0.1+0.25+0.5+1", "0.1+0.25+0.5+1+2+4"
    parser.add_argument("--runs", default=",".join(f"{name}={some if name in TABLES else every}" for name in TASKS))
    parser.add_argument("--noises", type=int, default=3)
    parser.add_argument("--kept", type=Path, default=ROOT / ".cache" / "linear")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "linear.md")
    parser.add_argument("--designs", action=argparse.BooleanOptionalAction, default=True, help="compare noise shapes")
    given = parser.parse_args()
    given.kept.mkdir(parents=True, exist_ok=True)
    lines = ["# Linear models of one noisy sum", "", (__doc__ or "").strip().partition("\n\n")[2], ""]
    lines += [f"{date.today()}, {given.noises} noises, one core of a shared {platform.machine()} machine."]
    for name, listed in (each.split("=") for each in given.runs.split(",")):
        epsilons = [float(epsilon) for epsilon in listed.split("+")]
        rows = table_rows if name in TABLES else image_rows
        lines += rows(name, epsilons, given.kept, given.noises)
        given.out.write_text("\n".join(lines) + "\n")
    if not given.designs:
        return
    lines += [DESIGNS, *(row for name in TABLES for count in (50, 150) for row in designs(name, count))]
    given.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

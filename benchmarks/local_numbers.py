"""The noise of unbiased numbers, and errors that a trusted curator sums.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/local_numbers.py [--repeats 5] [--write]

With --kept FOLDER each finished cell of the tables is kept there, and an interrupted run goes on.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import data
import numpy as np
import pages
import pandas as pd

import labeldp as ldp
from labeldp.mechanisms import DiscreteLaplace, UnbiasedNumbers
from labeldp.privacy import Public

RECORDS, TESTED = 5000, 4000
PARTS = ("noise", "central")

Numbers = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, ldp.Interval]


def table(name: str, label: str, dropped: tuple[str, ...] = ()) -> tuple[np.ndarray, np.ndarray]:
    """Numeric features and labels of a file."""
    content = pd.read_csv(next((data.DATA / name).glob("*.csv.gz")))
    labels = content.pop(label).to_numpy(float)
    return content.drop(columns=list(dropped), errors="ignore").select_dtypes("number").to_numpy(float), labels


SOURCES: dict[str, tuple[Callable[[], tuple[np.ndarray, np.ndarray]], float]] = {
    "california_housing": (lambda: table("california_housing", "median_house_value"), 500_001),
    "bike_sharing": (lambda: table("bike_sharing", "cnt", ("casual", "registered", "instant")), 1000),
}
"""Features and labels, and the declared end of the range, which begins at 0."""


def numbers(name: str, records: int = RECORDS) -> Numbers:
    """Features and labels to learn from, those that are held out, and the range."""
    make, end = SOURCES[name]
    features, labels = make()
    order = np.random.default_rng(0).permutation(len(labels))
    known, held = order[:records], order[records : records + TESTED]
    return features[known], labels[known], features[held], labels[held], ldp.Interval(0, end, grid=1025)


def curator(labels: np.ndarray, domain: ldp.Interval, epsilon: float, delta: float = 0.0) -> ldp.Curator:
    return ldp.Curator(labels, domain=domain, budget=ldp.Budget(epsilon=epsilon, delta=delta))


def error(predict: Any, part: Numbers) -> float:
    return float(np.sqrt(np.mean((predict(part[2]) - part[3]) ** 2)))


NOTED = {
    ("four zeros in five", 1): 389,
    ("four zeros in five", 2): 178,
    ("four zeros in five", 4): 62,
    ("a bell", 1): 380,
    ("a bell", 2): 160,
    ("a bell", 4): 53,
}
"""Standard deviations of the optimum for labels from 0 to 400, by a linear program on 41 points of other people."""


def noise_table() -> list[str]:
    """The standard deviation of the noise of unbiased numbers from 0 to 400, beside that of the optimum."""
    domain = ldp.Interval(0, 400, grid=1025)
    values = domain.decode(np.arange(domain.size))
    hump = np.exp(-0.5 * np.log(np.maximum(values, 1) / 60) ** 2) / np.maximum(values, 1)
    hump[0] = 0
    zeros = 0.2 * hump / hump.sum()
    zeros[0] = 0.8
    bell = np.exp(-0.5 * ((values - 200) / 60) ** 2)
    lines = ["| labels | ε | noise on the grid | unbiased | the optimum | ratio |", "|---|---:|---:|---:|---:|---:|"]
    for (name, epsilon), noted in NOTED.items():
        prior = Public(zeros if name.startswith("four") else bell / bell.sum(), why="made up")
        found = UnbiasedNumbers(domain=domain, epsilon=epsilon, prior=prior).noise_stddev
        laplace = 2**0.5 * DiscreteLaplace(domain=domain, epsilon=epsilon).scale
        lines.append(f"| {name} | {epsilon:g} | {laplace:.0f} | {found:.1f} | {noted} | {found / noted:.3f} |")
    return lines


def evaluated(name: str, epsilon: float, noise: int) -> dict[str, float]:
    """The interval of the error of a linear model of 1,858 records, both ways, and its error on other records."""
    part = numbers(name, 1858)
    found = {}
    for kind in ("labels", "summed"):
        holder = curator(part[1], part[4], epsilon, 1e-6)
        rng = np.random.default_rng([noise, 7])
        model = ldp.fit_linear(part[0], holder, epsilon=epsilon, delta=1e-6, rng=rng, evaluation=0.1, errors=kind).value
        estimate = model.evaluation.error()
        found |= {f"{kind} low": estimate.low, f"{kind} high": estimate.high, "error": error(model.predict, part)}
    return found


class Kept:
    """Cells of the tables that are finished."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def cell(self, kind: Any, name: str, epsilon: float, noise: int) -> dict[str, float]:
        """What a function finds, or found."""
        file = self.folder and self.folder / f"{kind.__name__}-{name.replace(' ', '_')}-{epsilon:g}-{noise}.json"
        if file and file.is_file():
            return dict(json.loads(file.read_text()))
        found = kind(name, epsilon, noise)
        print(kind.__name__, name, epsilon, noise, {key: round(value, 4) for key, value in found.items()}, flush=True)
        if file:
            file.write_text(json.dumps(found))
        return dict(found)

    def row(self, kind: Any, name: str, epsilon: float, noises: int) -> dict[str, np.ndarray]:
        """The same for several noises, by column."""
        cells = [self.cell(kind, name, epsilon, noise) for noise in range(noises)]
        return {key: np.array([cell[key] for cell in cells]) for key in cells[0]}


CENTRAL = """
| data | ε | one by one | holds | summed | holds | error |
|---|---:|---:|---:|---:|---:|---:|
"""
"""The 95 % interval of the error by noisy labels and by noisy sums, how often it holds, and the error elsewhere."""


NAMES = {"noise": "numbers", "central": "numbers-errors"}
"""Files of the tables."""


def report(kept: Kept, noises: int, parts: list[str]) -> str:
    """The page, or some parts of it."""
    page = ""
    if "noise" in parts:
        page += "\n".join(noise_table()) + "\n"
    if "central" in parts:
        page += CENTRAL
        for name in ("california_housing", "bike_sharing"):
            page += "".join(_evaluated_row(kept, name, epsilon, noises) for epsilon in (0.5, 1.0, 4.0))
    return page


def _evaluated_row(kept: Kept, name: str, epsilon: float, noises: int) -> str:
    row, cells = kept.row(evaluated, name, epsilon, noises), []
    for kind in ("labels", "summed"):
        low, high = row[f"{kind} low"], row[f"{kind} high"]
        holds = int(np.sum((low <= row["error"]) & (row["error"] <= high)))
        cells.append(f"{low.mean():.4g} to {high.mean():.4g} | {holds} of {noises}")
    return f"| {name} | {epsilon:g} | {' | '.join(cells)} | {row['error'].mean():.4g} |\n"


def main() -> None:
    """Measure, print, and store where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--kept", type=Path)
    parser.add_argument("--write", action="store_true", help="store the tables in docs/results/data")
    given = parser.parse_args()
    if given.kept:
        given.kept.mkdir(exist_ok=True)
    page = report(Kept(given.kept), given.repeats, given.parts)
    print(page)
    if given.write:
        pages.store(page, *(NAMES[part] for part in given.parts))


if __name__ == "__main__":
    main()

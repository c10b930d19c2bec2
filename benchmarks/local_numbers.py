"""Numbers that are randomized one by one, and errors that a trusted curator sums.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/local_numbers.py [--noises 5] [--write FILE]

With --kept FOLDER each finished cell of the tables is kept there, and an interrupted run goes on.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import data
import numpy as np
import pandas as pd

import labeldp as ldp
from labeldp.learners import (
    CellRegressor,
    MedianPartition,
    NoisyNumberRegressor,
    SoftmaxClassifier,
    TableMap,
    boosted_regression,
    cell_counts,
    distances,
    fit_noisy,
    fit_numbers,
    number_prior,
    number_response,
    tune,
)
from labeldp.learners.classifiers import boosted_trees
from labeldp.mechanisms import DiscreteLaplace, ResponseOnBins, UnbiasedNumbers
from labeldp.privacy import Public

RECORDS, TESTED = 5000, 4000
EPSILONS = (0.5, 1.0, 2.0, 4.0)
SHOWN = ("california_housing", "bike_sharing", "protein_structure", "zero-inflated")
PARTS = ("local", "constants", "noise", "central")
OTHERS = ("weeks worked", "bell", "skewed")

Numbers = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, ldp.Interval]


def table(name: str, label: str, dropped: tuple[str, ...] = ()) -> tuple[np.ndarray, np.ndarray]:
    """Numeric features and labels of a file."""
    content = pd.read_csv(next((data.DATA / name).glob("*.csv.gz")))
    labels = content.pop(label).to_numpy(float)
    return content.drop(columns=list(dropped), errors="ignore").select_dtypes("number").to_numpy(float), labels


def sales() -> tuple[np.ndarray, np.ndarray]:
    """Made-up values of which four in five are zero; the others have a long tail."""
    rng = np.random.default_rng(12345)
    x = rng.normal(size=(20_000, 6))
    bought = rng.random(len(x)) < 1 / (1 + np.exp(1.9 - 1.2 * x[:, 0] + x[:, 1] - 0.8 * (x[:, 2] > 0.5)))
    value = np.exp(np.log(60) + 0.6 * x[:, 3] + 0.5 * np.abs(x[:, 4]) - 0.2 + 0.6 * rng.normal(size=len(x)))
    return x, np.where(bought, np.clip(value, 1, 400), 0.0)


def shaped(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Made-up values in the middle of their range, or near its lower end."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(12_000, 5))
    f = np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] + 0.4 * x[:, 2] * x[:, 3]
    noise = rng.normal(size=len(x))
    return x, np.clip(50 + 12 * f + 6 * noise if kind == "bell" else np.exp(2.3 + 0.6 * f + 0.3 * noise), 0, 100)


SOURCES: dict[str, tuple[Callable[[], tuple[np.ndarray, np.ndarray]], float]] = {
    "california_housing": (lambda: table("california_housing", "median_house_value"), 500_001),
    "bike_sharing": (lambda: table("bike_sharing", "cnt", ("casual", "registered", "instant")), 1000),
    "protein_structure": (lambda: table("protein_structure", "rmsd"), 21),
    "zero-inflated": (sales, 400),
    "weeks worked": (lambda: table("census_income_kdd", "weeks_worked_in_year", ("income",)), 52),
    "bell": (lambda: shaped("bell"), 100),
    "skewed": (lambda: shaped("skewed"), 100),
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


def today(part: Numbers, epsilon: float, rng: Any) -> Any:
    """`labeldp fit --range` with local trust."""
    x, y, _, _, domain = part
    return fit_numbers(x, curator(y, domain, epsilon), epsilon=epsilon, rng=rng).value.predict


def before(part: Numbers, epsilon: float, rng: Any) -> Any:
    """The same command until now: noise on the grid, and trees or cells, whichever predicts held-out answers better."""
    x, y, _, _, domain = part
    release = curator(y, domain, epsilon).release(DiscreteLaplace(domain=domain, epsilon=epsilon), rng=rng)
    no = np.zeros(x.shape[1], dtype=bool)
    cells = [distances(no, CellRegressor(MedianPartition(size))) for size in cell_counts(len(x))]
    return tune([NoisyNumberRegressor(boosted_regression(len(x))), *cells], x, release).learner.predict


def bins_as_numbers(part: Numbers, epsilon: float, rng: Any) -> Any:
    """The best bins under the same released prior of a fifth of the records, and boosted trees of their outputs."""
    x, y, _, _, domain = part
    first = np.arange(len(y)) % 5 == 0
    whole = curator(y, domain, epsilon)
    begun, rest = whole.split(Public(first.astype(int) ^ 1, why="every fifth record"))
    prior = number_prior([begun.release(UnbiasedNumbers(domain=domain, epsilon=epsilon), rng=rng)])
    mechanism = ResponseOnBins(domain=domain, epsilon=epsilon, prior=prior)
    release = rest.release(mechanism, rng=rng)
    trees = boosted_regression(len(release.value)).fit(x[~first], mechanism.values(release.value))
    return lambda test: np.clip(trees.predict(test), domain.low, domain.high)


def halves(part: Numbers, epsilon: float, rng: Any) -> Any:
    """Plain randomized response on the two halves of the range, and boosted trees with the noise taken out."""
    x, y, _, _, domain = part
    classes = ldp.Classes(2)
    holder = ldp.Curator((y > domain.high / 2).astype(int), domain=classes, budget=ldp.Budget(epsilon=epsilon))
    release = holder.release(ldp.RandomizedResponse(domain=classes, epsilon=epsilon), rng=rng)
    model = fit_noisy(x, release, classifier=boosted_trees(len(x), classes=2), training="plain").value
    return lambda test: model.predict_proba(test) @ (np.array([0.25, 0.75]) * domain.high)


METHODS = {"default": today, "Laplace": before, "bins as numbers": bins_as_numbers, "two halves": halves}


def error(predict: Any, part: Numbers) -> float:
    return float(np.sqrt(np.mean((predict(part[2]) - part[3]) ** 2)))


def compared(name: str, epsilon: float, noise: int) -> dict[str, float]:
    """Errors of every method and of the mean of the true labels."""
    part = numbers(name)
    found = {
        title: error(method(part, epsilon, np.random.default_rng([noise, 5])), part)
        for title, method in METHODS.items()
    }
    return found | {"constant": float(np.sqrt(np.mean((part[1].mean() - part[3]) ** 2)))}


def learned(name: str, epsilon: float, noise: int) -> dict[str, float]:
    """Errors of trees of unbiased answers, and of linear classifiers of two to five bins, after the same first part."""
    part = numbers(name)
    x, y, _, _, domain = part
    rng, first = np.random.default_rng([noise, 6]), np.arange(len(y)) % 5 == 0
    begun, _ = curator(y, domain, epsilon).split(Public(first.astype(int) ^ 1, why="every fifth record"))
    prior = number_prior([begun.release(UnbiasedNumbers(domain=domain, epsilon=epsilon), rng=rng)])
    exact = UnbiasedNumbers(domain=domain, epsilon=epsilon, prior=prior)
    values = domain.decode(np.arange(domain.size))
    spread = float(np.sqrt(prior.value @ (values - prior.value @ values) ** 2))
    codes, found = domain.encode(y)[~first], {"noise / spread": exact.noise_stddev / spread}
    unbiased = exact.values(exact.randomize(codes, rng=rng))
    found["unbiased"] = error(boosted_regression(len(codes)).fit(x[~first], unbiased).predict, part)
    for count in (2, 3, 4, 5):
        mechanism = ResponseOnBins(domain=domain, epsilon=epsilon, prior=prior, bins=count, cuts="even")
        classes = ldp.Classes(len(mechanism.first))
        bins = ldp.Curator(mechanism.bin_of(codes).astype(int), domain=classes, budget=ldp.Budget(epsilon=epsilon))
        release = bins.release(ldp.RandomizedResponse(domain=classes, epsilon=epsilon), rng=rng)
        model = fit_noisy(x[~first], release, classifier=SoftmaxClassifier(TableMap(), decay=0.8)).value
        found[f"{count} bins"] = error(lambda test, m=model, c=mechanism.centers: m.predict_proba(test) @ c, part)
    taken = number_response(domain, epsilon, prior)
    return found | {"bins taken": 0 if isinstance(taken, UnbiasedNumbers) else len(taken.first)}


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


def shown(values: np.ndarray) -> str:
    mean, spread = values.mean(), values.std(ddof=1) if len(values) > 1 else 0.0
    return f"{mean:.4g} ± {spread:.2g}" if mean < 1000 else f"{mean / 1000:.2f}k ± {spread / 1000:.2g}k"


TITLE = """# Numbers

    python benchmarks/local_numbers.py --noises {noises} --parts {parts} --write docs/results/numbers.md
"""

INTRODUCTION = """
## Trust in nobody

{records:,} records to learn from, {tested:,} others to measure on, δ = 0. Root mean squared error on true labels,
mean of {noises} noises ± standard deviation of one. *Default* is `labeldp fit --range` (`fit_numbers`); *Laplace*
what it was until now: noise on the grid, and trees or cells, whichever predicts held-out answers better. *Bins as
numbers*: `ResponseOnBins` under the same released prior, its outputs learned from by boosted trees as if they were
labels. *Two halves*: randomized response on the halves of the range, boosted trees, the noise taken out. *Constant*:
the mean of the true labels, without noise.

| data | ε | default | Laplace | bins as numbers | two halves | constant |
|---|---:|---:|---:|---:|---:|---:|
"""

FOUND = """
The default is below Laplace and below the constant everywhere. It loses to others in five of the sixteen rows: to two
halves on California, by 4 to 5 % at ε from 0.5 to 2, and on proteins at ε = 0.5 by less than the spread of one noise;
to bins as numbers on proteins at ε = 4, by 3 %. Labels of California lie around the middle of their range, where two
halves are the best question there is; they are asked of all records and need no prior, while the default spends up to a
fifth of its records on a prior, and a tenth on its evaluation. Where labels do not lie so, as for bikes at ε up to 1
and for values that are mostly zero, two halves are above the constant. Which of both it is nobody knows before.
"""

CONSTANTS = """
## What the constants rest on

Other data, which are not shown above. *Unbiased* answers are learned from by trees, bins by a linear classifier; both
after the same first part, one noise. `number_response` takes unbiased answers where their noise is at most 1.5 times
the spread of the labels under the released prior, else bins: 2 + 2 ε of them, at least 3.

| data | ε | noise / spread | unbiased | 2 bins | 3 bins | 4 bins | 5 bins | taken |
|---|---:|---:|---:|---:|---:|---:|---:|---|
"""

NOISE = """
## The noise of unbiased numbers

Standard deviation, labels from 0 to 400 on 1,025 points under a public prior; the optimum is that of a linear program
on 41 points.

"""

CENTRAL = """
## Errors that a trusted curator sums

`fit_linear` on 1,858 records, δ = 10^-6, a tenth of them kept for the evaluation: the 95 % interval of the root mean
squared error by labels that are answered one by one, and by noisy sums of squared errors. Both cost the same ε.
*Error*: on {tested:,} other records with true labels. Means of {noises} noises; *holds*: in how many of them the
interval holds it.

| data | ε | one by one | holds | summed | holds | error |
|---|---:|---:|---:|---:|---:|---:|
"""


def report(kept: Kept, noises: int, parts: list[str]) -> str:
    """The page, or some parts of it."""
    page = TITLE.format(noises=noises, parts=" ".join(parts))
    if "local" in parts:
        page += INTRODUCTION.format(noises=noises, records=RECORDS, tested=TESTED)
        for name in SHOWN:
            page += "".join(_compared_row(kept, name, epsilon, noises) for epsilon in EPSILONS)
        page += FOUND
    if "constants" in parts:
        page += CONSTANTS
        for name in OTHERS:
            page += "".join(_learned_row(kept, name, epsilon) for epsilon in EPSILONS)
    if "noise" in parts:
        page += NOISE + "\n".join(noise_table()) + "\n"
    if "central" in parts:
        page += CENTRAL.format(tested=TESTED, noises=noises)
        for name in ("california_housing", "bike_sharing"):
            page += "".join(_evaluated_row(kept, name, epsilon, noises) for epsilon in (0.5, 1.0, 4.0))
    return page


def _compared_row(kept: Kept, name: str, epsilon: float, noises: int) -> str:
    row = kept.row(compared, name, epsilon, noises)
    best = min(row, key=lambda title: row[title].mean())
    cells = [f"**{shown(row[title])}**" if title == best else shown(row[title]) for title in METHODS]
    return f"| {name} | {epsilon:g} | {' | '.join(cells)} | {shown(row['constant']).split(' ±')[0]} |\n"


def _learned_row(kept: Kept, name: str, epsilon: float) -> str:
    row = {key: values[0] for key, values in kept.row(learned, name, epsilon, 1).items()}
    taken = f"{row['bins taken']:g} bins" if row["bins taken"] else "unbiased"
    counts = [f"{row[f'{count} bins']:.4g}" for count in (2, 3, 4, 5)]
    start = f"| {name} | {epsilon:g} | {row['noise / spread']:.2f} | {row['unbiased']:.4g} | "
    return f"{start}{' | '.join(counts)} | {taken} |\n"


def _evaluated_row(kept: Kept, name: str, epsilon: float, noises: int) -> str:
    row, cells = kept.row(evaluated, name, epsilon, noises), []
    for kind in ("labels", "summed"):
        low, high = row[f"{kind} low"], row[f"{kind} high"]
        holds = int(np.sum((low <= row["error"]) & (row["error"] <= high)))
        cells.append(f"{low.mean():.4g} to {high.mean():.4g} | {holds} of {noises}")
    return f"| {name} | {epsilon:g} | {' | '.join(cells)} | {row['error'].mean():.4g} |\n"


def main() -> None:
    """Measure; write the page where asked, else print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--noises", type=int, default=5)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--kept", type=Path)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    if given.kept:
        given.kept.mkdir(exist_ok=True)
    page = report(Kept(given.kept), given.noises, given.parts)
    if given.write:
        given.write.write_text(page, encoding="utf-8")
    else:
        print(page)


if __name__ == "__main__":
    main()

"""Models of numbers with local and central trust, beside noise with a ridge regression, and beside no privacy.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/baselines.py run scoring --seeds 5
    python benchmarks/baselines.py page

`run` adds rows to `docs/results/data/numbers-baselines.csv`, and leaves out those that are there. `page` writes
`docs/results/numbers-baselines.md` from them. Each seed is a split of the table, and the noise; all methods share both.

The constants of `labeldp.learners.numbers` and `labeldp.learners.blends` were chosen on the tables in `SETTING` and on
made-up labels. Those in `SCORING` were not looked at before; they are run once.
"""

import argparse
import csv
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import data
import numpy as np
import pandas as pd
from scipy.stats import ttest_rel
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import labeldp as ldp
from labeldp.learners import EVALUATED, Linear, LinearTask, Task, default_representation, encode, fit_numbers
from labeldp.learners.model import kept_apart
from labeldp.mechanisms import DiscreteLaplace, GaussianMoment
from labeldp.privacy import Public

RESULTS = Path(__file__).parents[1] / "docs" / "results"
ROWS, PAGE = RESULTS / "data" / "numbers-baselines.csv", RESULTS / "numbers-baselines.md"
FIELDS = ("table", "records", "epsilon", "seed", "method", "error", "seconds")
EPSILONS = (0.5, 1.0, 2.0)
DELTA = 1e-6
"""Of releases with central trust."""

TESTED = 4000
LEVELS = 40
"""The frequent categories of a column; others count as gaps."""

PENALTIES = np.geomspace(0.1, 1e5, 13)


class Source(NamedTuple):
    """A column of numbers.

    Args:
        folder: of the table.
        label: the column.
        ends: of its declared range.
        records: to learn from.
        dropped: columns that are no features.
    """

    folder: str
    label: str
    ends: tuple[float, float]
    records: int = 8000
    dropped: tuple[str, ...] = ()


SETTING = {
    "california": Source("california_housing", "median_house_value", (0, 500_001), 15_000),
    "bike": Source("bike_sharing", "cnt", (0, 1000), 8000, ("instant", "dteday", "casual", "registered")),
    "hours": Source("adult", "hours_per_week", (1, 99), 15_000, ("split", "fnlwgt")),
}
"""Tables on which constants were chosen."""

SCORING = {
    "protein": Source("protein_structure", "rmsd", (0, 21)),
    "weeks": Source("census_income_kdd", "weeks_worked_in_year", (0, 52), 8000, ("income",)),
    "spend": Source("hillstrom", "spend", (0, 500), 8000, ("visit", "conversion")),
}
"""Tables on which none was."""


class Split(NamedTuple):
    """Records to learn from and to measure on, with the mask of the columns that hold category codes."""

    features: np.ndarray
    labels: np.ndarray
    test: np.ndarray
    truth: np.ndarray
    categorical: np.ndarray
    domain: ldp.Interval


def split(source: Source, seed: int) -> Split:
    """Return a random split of a table, with categories as codes."""
    table = pd.read_csv(next((data.DATA / source.folder).glob("*.csv.gz"))).drop(columns=list(source.dropped))
    order = np.random.default_rng(seed).permutation(len(table))[: source.records + TESTED]
    table = table.iloc[order].reset_index(drop=True)
    labels = table.pop(source.label).to_numpy(float)
    named = [not pd.api.types.is_numeric_dtype(table[column]) for column in table]
    columns = []
    for column, is_named in zip(table, named, strict=True):
        if is_named:
            levels = table[column].iloc[: source.records].value_counts().index[:LEVELS]
            columns.append(pd.Categorical(table[column], levels).codes.astype(float))
            columns[-1][columns[-1] < 0] = np.nan
        else:
            columns.append(table[column].to_numpy(float))
    features, n = np.column_stack(columns), source.records
    domain = ldp.Interval(*source.ends)
    return Split(features[:n], labels[:n], features[n:], labels[n:], np.array(named), domain)


def ours(part: Split, epsilon: float, rng: np.random.Generator) -> Any:
    """`labeldp fit --range` with its defaults: a tenth of the records measures the model."""
    curator = ldp.Curator(part.labels, domain=part.domain, budget=ldp.Budget(epsilon))
    return fit_numbers(part.features, curator, epsilon=epsilon, rng=rng, categorical=part.categorical).value.predict


def laplace(part: Split, epsilon: float, rng: np.random.Generator) -> Any:
    """Laplace noise on all labels, and a ridge regression of standardized columns and indicators."""
    curator = ldp.Curator(part.labels, domain=part.domain, budget=ldp.Budget(epsilon))
    release = curator.release(DiscreteLaplace(domain=part.domain, epsilon=epsilon), rng=rng)
    noisy = ldp.debias(release.mechanism, release.value).values
    return make_pipeline(scaled(part), RidgeCV(PENALTIES)).fit(part.features, noisy).predict


def scaled(part: Split) -> ColumnTransformer:
    """Return what makes standardized columns and indicators of features."""
    numbers = make_pipeline(SimpleImputer(add_indicator=True, keep_empty_features=True), StandardScaler())
    return ColumnTransformer(
        [
            ("numbers", numbers, np.flatnonzero(~part.categorical)),
            ("names", OneHotEncoder(handle_unknown="ignore", sparse_output=False), np.flatnonzero(part.categorical)),
        ]
    )


def central(part: Split, epsilon: float, rng: np.random.Generator) -> Any:
    """`labeldp fit --range --trust central` with its defaults: a tenth of the records measures the model."""
    curator = ldp.Curator(part.labels, domain=part.domain, budget=ldp.Budget(epsilon, DELTA))
    task = replace(Task.of(curator, epsilon, DELTA), categorical=part.categorical)
    return Linear("linear").fit(part.features, curator, task, rng=rng).value.predict


def one_release(part: Split, epsilon: float, rng: np.random.Generator) -> Any:
    """The default before: all of epsilon for one release of sums, whose noise is that of the whole range."""
    learned = ~kept_apart(len(part.labels), EVALUATED, 0)
    curator = ldp.Curator(part.labels[learned], domain=part.domain, budget=ldp.Budget(epsilon, DELTA))
    mapped = encode(default_representation(part.features, part.categorical), part.features, None).take(learned)
    task = LinearTask.of(part.domain, epsilon, DELTA)
    return task.measured(mapped, curator, rng).model().value.predict


def noisy_sums(part: Split, epsilon: float, rng: np.random.Generator) -> Any:
    """One noisy sum of standardized columns times labels, rows cut to their median length, and a ridge regression."""
    columns = scaled(part).fit(part.features)
    rows = np.c_[np.ones(len(part.labels)), columns.transform(part.features)]
    norms = np.linalg.norm(rows, axis=1)
    curator = ldp.Curator(part.labels, domain=part.domain, budget=ldp.Budget(epsilon, DELTA))
    public = Public(rows, why="features are public")
    sums = GaussianMoment(part.domain, epsilon, delta=DELTA, features=public, clip=float(np.median(norms)))
    cut, half = sums.values(), (part.domain.high - part.domain.low) / 2
    moment = sums.moment(curator.release(sums, rng=rng).value)[:, 0] - part.domain.center * cut.sum(axis=0)
    weights = np.linalg.solve(cut.T @ rows + sums.noise_stddev / half * np.eye(rows.shape[1]), moment)
    return lambda features: part.domain.center + weights[0] + columns.transform(features) @ weights[1:]


def exact(part: Split, epsilon: float, rng: np.random.Generator) -> Any:
    """Boosted trees of the labels themselves, without privacy."""
    trees = HistGradientBoostingRegressor(categorical_features=part.categorical, random_state=0)
    return trees.fit(part.features, part.labels).predict


METHODS: dict[str, Callable[[Split, float, np.random.Generator], Any]] = {
    "labeldp": ours,
    "Laplace and ridge": laplace,
    "no privacy": exact,
    "central": central,
    "central, one release": one_release,
    "noisy sums and ridge": noisy_sums,
}


def measured(names: dict[str, Source], epsilons: list[float], seeds: int, methods: list[str]) -> None:
    """Add the rows that are missing."""
    present = {tuple(row[field] for field in FIELDS[:5]) for row in stored()}
    new = not ROWS.exists()
    with ROWS.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(FIELDS)
        for seed in range(seeds):
            for name, source in names.items():
                part = split(source, seed)
                for epsilon in epsilons:
                    for method in methods:
                        key = (name, str(source.records), f"{epsilon:g}", str(seed), method)
                        if key in present:
                            continue
                        start = time.process_time()
                        predict = METHODS[method](part, epsilon, np.random.default_rng([seed, 1]))
                        seconds = time.process_time() - start
                        answers = np.clip(predict(part.test), *part.domain.ends)
                        error = float(np.sqrt(np.mean((answers - part.truth) ** 2)))
                        writer.writerow((*key, f"{error:.6g}", f"{seconds:.2f}"))
                        file.flush()


def stored() -> list[dict[str, str]]:
    """Return all rows that were measured."""
    if not ROWS.exists():
        return []
    with ROWS.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


INTRODUCTION = """# Numbers beside baselines

    python benchmarks/baselines.py run setting --seeds 3
    python benchmarks/baselines.py run scoring --seeds 5
    python benchmarks/baselines.py page

Root mean squared error on {tested:,} other records with true labels. Mean over five splits, or three of tables that set
constants, with fresh noise ± standard deviation of one. *p*: of a two-sided paired t-test between the first two
methods. Seconds are those of the processor for one fit of the first. Rows are in
[`numbers-baselines.csv`](data/numbers-baselines.csv).

Trust in nobody, δ = 0: *labeldp* is `labeldp fit --range` with its defaults, which keeps a tenth of the records to
measure the model. *Laplace and ridge*: Laplace noise on all labels, and a ridge regression of standardized columns and
indicators. *No privacy*: boosted trees of the labels themselves.

Trust in a curator, δ = 10^-6: *labeldp* is `labeldp fit --range --trust central` with its defaults, which keeps a tenth
of the records, too: a pilot model, counts of distances from its predictions, and sums of distances that are clipped to
a width. *One release*: the same linear model of sums on the whole range, the default before. *Noisy sums and ridge*:
one noisy sum of standardized columns and indicators times labels, and a ridge regression. *Local*: labeldp with trust
in nobody, from the first tables.

Constants were chosen on {setting}, and on made-up labels. Tables that score had no say in any constant.
"""

TABLES = {
    "trust in nobody": ("labeldp", "Laplace and ridge", "no privacy"),
    "trust in a curator": ("central", "central, one release", "noisy sums and ridge", "labeldp"),
}
"""The methods of the tables of the page, the first of which the second is compared with."""

SHOWN = {"central": "labeldp", "central, one release": "one release", "labeldp": "local"}
"""Names of methods where there is trust in a curator."""


def page() -> str:
    """Return the page of all rows."""
    cells: dict[tuple[str, float], dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for row in sorted(stored(), key=lambda row: int(row["seed"])):
        cells[row["table"], float(row["epsilon"])][row["method"]].append((float(row["error"]), float(row["seconds"])))
    text = INTRODUCTION.format(tested=TESTED, setting=", ".join(SETTING))
    for trust, methods in TABLES.items():
        for title, names in (("Tables that set constants", SETTING), ("Tables that score", SCORING)):
            measured = [(name, epsilon) for name in names for epsilon in EPSILONS if methods[0] in cells[name, epsilon]]
            if measured:
                shown = [SHOWN.get(method, method) if methods[0] == "central" else method for method in methods]
                text += f"\n## {title}, {trust}\n\n| data | records | ε | {' | '.join(shown)} | p | seconds |\n"
                text += f"|---|{'---:|' * (len(methods) + 4)}\n"
            for name, epsilon in measured:
                text += _row(name, names[name].records, epsilon, cells[name, epsilon], methods)
    return text


def _row(
    name: str, records: int, epsilon: float, cell: dict[str, list[tuple[float, float]]], methods: tuple[str, ...]
) -> str:
    errors = [np.array([error for error, _ in cell[method]]) for method in methods]
    means = [float(values.mean()) for values in errors]
    shown = [f"{values.mean():.4g} ± {values.std(ddof=1):.2g}" for values in errors]
    best = min((i for i, method in enumerate(methods) if method != "no privacy"), key=means.__getitem__)
    shown[best] = f"**{shown[best]}**"
    chance = float(ttest_rel(errors[0], errors[1]).pvalue)
    seconds = float(np.mean([seconds for _, seconds in cell[methods[0]]]))
    return f"| {name} | {records:,} | {epsilon:g} | {' | '.join(shown)} | {chance:.2g} | {seconds:.1f} |\n"


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "page"))
    parser.add_argument("tables", nargs="?", choices=("setting", "scoring"), default="setting")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilons", type=float, nargs="+", default=list(EPSILONS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    given = parser.parse_args()
    if given.command == "run":
        names = SETTING if given.tables == "setting" else SCORING
        measured(names, given.epsilons, given.seeds, given.methods)
    else:
        PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()

"""What learning from aggregates costs at equal privacy: test errors of every mechanism on bags, and of what needs none.

    OMP_NUM_THREADS=1 python benchmarks/aggregation.py [--seeds 5] [--write]

Every row promises (1, 1e-6) or more: pure ones have delta = 0. One linear model for all: least squares on the first 15
principal components of the public features, standardized, and a constant; predictions are kept in the declared range.
Numbers are test errors of held-out fifths on true labels, which nothing is chosen by; of the synthetic problem the
excess over least squares without privacy. Sizes of bags stand in the rows, and none is picked.
"""

import argparse
import os
import platform
from collections.abc import Callable
from datetime import date
from fractions import Fraction

import pages

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from data import DATA
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.preprocessing import StandardScaler

import labeldp as ldp
from labeldp.privacy import Public

EPSILON, DELTA, COMPONENTS = 1.0, 1e-6, 15
WHY = "features are public"


def hillstrom() -> tuple[np.ndarray, np.ndarray, float, float]:
    """Dollars spent after an e-mail, mostly none."""
    table = pd.read_csv(DATA / "hillstrom" / "hillstrom.csv.gz")
    labels = table.spend.clip(upper=400).to_numpy()
    return numbers(table.drop(columns=["visit", "conversion", "spend"])), labels, 0, 400


def census() -> tuple[np.ndarray, np.ndarray, float, float]:
    """Weeks worked in the year, of people who worked."""
    table = pd.read_csv(DATA / "census_income_kdd" / "census_income_kdd.csv.gz", na_filter=False)
    table = table[table.weeks_worked_in_year >= 1]
    labels = table.weeks_worked_in_year.to_numpy()
    return numbers(table.drop(columns=["weeks_worked_in_year", "income", "instance_weight"])), labels, 0, 52


def protein() -> tuple[np.ndarray, np.ndarray, float, float]:
    """The distance of a predicted protein from the true one."""
    table = pd.read_csv(DATA / "protein_structure" / "protein_structure.csv.gz")
    return numbers(table.drop(columns=["rmsd"])), table.rmsd.to_numpy(), 0, 21


def synthetic() -> tuple[np.ndarray, np.ndarray, float, float]:
    """A linear problem in ten features, labels with noise of 0.3 in [-1, 1]."""
    rng = np.random.default_rng(0)
    features = rng.uniform(-1, 1, (125_000, 10))
    slopes = rng.normal(size=10) * 0.18
    return features, np.clip(features @ slopes + 0.3 * rng.normal(size=len(features)), -1, 1), -1, 1


PROBLEMS = {"hillstrom": hillstrom, "census": census, "protein": protein, "synthetic": synthetic}


def numbers(table: pd.DataFrame) -> np.ndarray:
    """A table as its standardized principal components: public, labels are not looked at."""
    rows = pd.get_dummies(table).to_numpy(dtype=float)
    rows = (rows - rows.mean(axis=0)) / np.maximum(rows.std(axis=0), 1e-9)
    values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
    kept = np.argsort(-values)[: min(COMPONENTS, rows.shape[1])]
    return rows @ vectors[:, kept] / np.sqrt(np.maximum(values[kept], 1e-12))


def least_squares(features: np.ndarray, labels: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Ordinary least squares with a constant."""
    solution = np.linalg.lstsq(constant(features), labels, rcond=None)[0]
    return lambda rows: constant(rows) @ solution


def constant(rows: np.ndarray) -> np.ndarray:
    """Rows with a one before them."""
    return np.column_stack([np.ones(len(rows)), rows])


class Task:
    """One problem, one split, one seed of the simulated noise."""

    def __init__(self, features: np.ndarray, labels: np.ndarray, low: float, high: float, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        part = np.random.default_rng([seed, 1]).permutation(len(labels)) % 5 == 0
        self.features, self.labels = features[~part], labels[~part].astype(float)
        self.test, self.truth = features[part], labels[part].astype(float)
        self.domain = ldp.Interval(low, high, grid=1025)

    def error(self, predict: Callable[[np.ndarray], np.ndarray]) -> float:
        """Mean squared error on the test part."""
        return float(np.mean((np.clip(predict(self.test), self.domain.low, self.domain.high) - self.truth) ** 2))

    def release(self, mechanism: ldp.BagSum) -> ldp.Release:
        """A simulated release under exactly this budget."""
        budget = ldp.Budget(epsilon=EPSILON, delta=DELTA)
        return ldp.Curator(self.labels, domain=self.domain, budget=budget).release(mechanism, rng=self.rng)

    def public(self, rows: np.ndarray | None = None) -> Public:
        """The training rows."""
        return Public(self.features if rows is None else rows, why=WHY)


def sums(size: int, bags: str, noise: str = "laplace") -> Callable[[Task], float]:
    """Bags, and least squares on them."""

    def run(task: Task) -> float:
        delta = DELTA if noise == "gaussian" else 0.0
        mechanism = ldp.BagSum(
            size, bags=bags, noise=noise, domain=task.domain, epsilon=EPSILON, delta=delta, features=task.public()
        )
        return task.error(ldp.fit_bags(task.features, task.release(mechanism)).value.predict)

    return run


def trees(estimator: object = None) -> Callable[[Task], float]:
    """A regressor on the means of bags of similar records, or the boosted trees that `BagRegressor` has of its own."""

    def run(task: Task) -> float:
        mechanism = ldp.BagSum(64, domain=task.domain, epsilon=EPSILON, features=task.public())
        return task.error(ldp.bags.BagRegressor(estimator).fit(task.features, task.release(mechanism)).predict)

    return run


def llp(size: int, weights: str, share: float = 1.0) -> Callable[[Task], float]:
    """Published weights and as little noise as the promise needs."""

    def run(task: Task) -> float:
        noisy = max(1, round(share * size))
        ends = {"label_range": (task.domain.low, task.domain.high), "weights": weights}
        bags = ldp.bags.random_bags(len(task.labels), size)
        most = int(np.bincount(bags.value).max())
        design = {"size": most, "noisy_fraction": Fraction(noisy, most), **ends}
        found = ldp.mechanisms.llp_calibrate("stddev", epsilon=EPSILON, delta=DELTA * 0.999, **design)
        stddev = float(found.stddev) * (1 + 1e-9)
        mechanism = ldp.bags.NoisyWeightedLLP(size, noisy, stddev, weights, domain=task.domain, bags=bags)
        return task.error(ldp.fit_bags(task.features, task.release(mechanism)).value.predict)

    return run


def lba(size: int) -> Callable[[Task], float]:
    """Secret weights, and noise in place of a condition."""

    def run(task: Task) -> float:
        rows = constant(task.features)
        mechanism = ldp.bags.WeightedLBA(
            size, domain=task.domain, features=task.public(rows), epsilon=EPSILON, delta=DELTA
        )
        model = ldp.fit_bags(rows, task.release(mechanism)).value
        return task.error(lambda test: model.predict(constant(test)))

    return run


def two_points(task: Task) -> float:
    """Each label rounded at random to an end of its range, and that answered by randomized response."""
    low, high = task.domain.low, task.domain.high
    ends = (task.rng.random(len(task.labels)) < (task.labels - low) / (high - low)).astype(int)
    response = ldp.RandomizedResponse(domain=ldp.Classes(2), epsilon=EPSILON)
    curator = ldp.Curator(ends, domain=ldp.Classes(2), budget=ldp.Budget(epsilon=EPSILON))
    released = curator.release(response, rng=task.rng)
    share = ldp.debias(response, released.value).values[:, 1]
    return task.error(least_squares(task.features, low + (high - low) * share))


def local_laplace(task: Task) -> float:
    """Geometric noise on each label, unbiased."""
    mechanism = ldp.DiscreteLaplace(domain=task.domain, epsilon=EPSILON)
    released = task.release(mechanism)
    return task.error(least_squares(task.features, ldp.debias(mechanism, released.value).values))


def central(task: Task) -> float:
    """`fit_linear`, which needs no bags, on the same features."""
    curator = ldp.Curator(task.labels, domain=task.domain, budget=ldp.Budget(epsilon=EPSILON, delta=DELTA))
    model = ldp.fit_linear(
        task.features, curator, epsilon=EPSILON, delta=DELTA, rng=task.rng, representation=StandardScaler()
    )
    return task.error(model.value.predict)


CONSTANT = "no privacy, a constant"
METHODS: dict[str, Callable[[Task], float]] = {
    "no privacy, least squares": lambda task: task.error(least_squares(task.features, task.labels)),
    CONSTANT: lambda task: task.error(lambda rows: np.full(len(rows), task.labels.mean())),
    "central, no bags: fit_linear": central,
    **{f"BagSum, {k} similar records, Laplace": sums(k, "median") for k in (16, 64, 256)},
    **{f"BagSum, {k} similar records, Gaussian": sums(k, "median", "gaussian") for k in (64, 256)},
    "BagSum, 64 similar records, Laplace, boosted trees on means": trees(HistGradientBoostingRegressor(random_state=0)),
    "BagSum, 64 similar records, Laplace, trees on records": trees(),
    "BagSum, 64 records at random, Laplace": sums(64, "random"),
    "NoisyWeightedLLP, 64 at random, all noisy, signs": llp(64, "rademacher"),
    "NoisyWeightedLLP, 64 at random, all noisy, normal weights": llp(64, "gaussian"),
    "NoisyWeightedLLP, 512 at random, a tenth noisy, normal weights": llp(512, "gaussian", 0.1),
    "WeightedLBA, 512 at random, noise on bags": lba(512),
    "local, two points": two_points,
    "local, geometric noise": local_laplace,
}
LOCAL = ("local, two points", "local, geometric noise")
SIMILAR = tuple(f"BagSum, {k} similar records, Laplace" for k in (16, 64, 256))


def measure(seeds: int) -> dict[str, dict[str, np.ndarray]]:
    """The errors of each method on each problem, shape (seeds,)."""
    found: dict[str, dict[str, np.ndarray]] = {}
    for name, make in PROBLEMS.items():
        features, labels, low, high = make()
        tasks = [Task(features, labels, low, high, seed) for seed in range(seeds)]
        found[name] = {}
        for method, run in METHODS.items():
            base = [METHODS["no privacy, least squares"](task) if name == "synthetic" else 0.0 for task in tasks]
            found[name][method] = np.array([run(task) for task in tasks]) - base
            print(name, method, found[name][method].mean(), flush=True)
    return found


def report(found: dict[str, dict[str, np.ndarray]], seeds: int) -> str:
    """A page of Markdown."""
    lines = [
        "# What aggregates cost",
        "",
        f"`python benchmarks/aggregation.py`, {date.today()}: Python {platform.python_version()}, "
        f"numpy {np.__version__}.",
        f"Test MSE, mean of {seeds} splits ± its standard error; of the synthetic problem the excess over least",
        f"squares without privacy. Every private row keeps ε = {EPSILON:g}, δ = {DELTA:g}; Laplace and local ones have",
        "δ = 0. How features are made and what is learnt stands in the benchmark.",
        "",
        "| | " + " | ".join(found) + " |",
        "|---|" + "---|" * len(found),
    ]
    for method in METHODS:
        cells = [
            f"{v.mean():.4g} ± {v.std(ddof=1) / np.sqrt(seeds):.1g}" for v in (each[method] for each in found.values())
        ]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    lines += ["", *(verdict(name, each) for name, each in found.items()), ""]
    return "\n".join(lines)


def verdict(name: str, errors: dict[str, np.ndarray]) -> str:
    """Whether bags of similar records beat the best local mechanism, said of each size."""
    best = min(LOCAL, key=lambda method: errors[method].mean())
    better = [method for method in SIMILAR if errors[method].mean() < errors[best].mean()]
    words = (
        "beat"
        if len(better) == len(SIMILAR)
        else "do not beat"
        if not better
        else f"beat at {len(better)} of {len(SIMILAR)} sizes"
    )
    useless = min(values.mean() for method, values in errors.items() if not method.startswith("no privacy"))
    rest = " No private row is below the constant." if useless >= errors[CONSTANT].mean() else ""
    return f"- **{name}**: bags of similar records with Laplace noise {words} the best local mechanism ({best}).{rest}"


def main() -> None:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="store the tables in docs/results/data")
    chosen = parser.parse_args()
    page = report(measure(chosen.seeds), chosen.seeds)
    print(page)
    if chosen.write:
        pages.store(page, "bags")


if __name__ == "__main__":
    main()

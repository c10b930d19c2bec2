"""The defaults and simple baselines, on the same tables, splits and seeds.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/baselines.py run setting --seeds 5
    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/baselines.py run scoring --seeds 5
    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/baselines.py run synthetic --seeds 5
    python benchmarks/baselines.py page

`run` adds rows to `docs/results/data/baselines.csv`, and leaves out those that are there. `page` writes
`docs/results/baselines.md` from them. A seed draws the records, the test part and the noise of all methods. Every fit
is a process of its own, whose peak memory is stored.
"""

import argparse
import csv
import multiprocessing
import os
import resource
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from scipy.special import expit, softmax
from scipy.stats import ttest_rel
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import roc_auc_score

import labeldp as ldp
from labeldp.fit import advise
from labeldp.learners import (
    Evidence,
    MixtureClassifier,
    Task,
    first_response,
    fit_numbers,
    learner_of,
)
from labeldp.learners.classifiers import distances
from labeldp.mechanisms import DiscreteLaplace, GaussianMoment
from labeldp.privacy import Public

DATA = Path(os.environ.get("LABELDP_DATA", Path(__file__).parents[2] / "shared" / "data"))
RESULTS = Path(__file__).parents[1] / "docs" / "results"
ROWS, PAGE = RESULTS / "data" / "baselines.csv", RESULTS / "baselines.md"
FIELDS = ("table", "records", "epsilon", "seed", "trust", "method", "score", "seconds", "megabytes")
EPSILONS = (0.5, 1.0, 2.0)
DELTA, LEVEL = 1e-6, 0.05
TESTED = 4000
LEVELS = 40
"""The frequent categories of a column; others count as gaps."""

PENALTIES = np.geomspace(0.1, 1e5, 13)


class Column(NamedTuple):
    """A label column.

    Args:
        folder: of the table.
        label: the column.
        dropped: columns that are no features.
        ends: of the declared range of numbers; None for classes.
        records: to learn from.
    """

    folder: str
    label: str
    dropped: tuple[str, ...] = ()
    ends: tuple[float, float] | None = None
    records: int = 4000


SETTING = {
    "adult": Column("adult", "income", ("split", "fnlwgt")),
    "magic": Column("magic_gamma", "label"),
    "covertype": Column("covertype_20k", "Cover_Type"),
    "bank": Column("bank_marketing", "y", ("duration",)),
    "california": Column("california_housing", "median_house_value", (), (0, 500_001), 15_000),
    "bike": Column("bike_sharing", "cnt", ("instant", "dteday", "casual", "registered"), (0, 1000), 8000),
    "hours": Column("adult", "hours_per_week", ("split", "fnlwgt"), (1, 99), 15_000),
}
"""Columns on which constants were chosen, in addition to synthetic labels."""

SCORING = {
    "elec2": Column("elec2", "class"),
    "credit": Column("credit_default", "default", ("ID",)),
    "higgs": Column("higgs_7500", "label", ("split",)),
    "hillstrom": Column("hillstrom", "visit", ("conversion", "spend")),
    "census": Column("census_income_kdd", "income"),
    "skin": Column("skin_segmentation", "label"),
    "protein": Column("protein_structure", "rmsd", (), (0, 21), 8000),
    "weeks": Column("census_income_kdd", "weeks_worked_in_year", ("income",), (0, 52), 8000),
    "spend": Column("hillstrom", "spend", ("visit", "conversion"), (0, 500), 8000),
}
"""Columns that had no say in any constant."""

SYNTHETIC = {"weak": Column("", "label")}
"""Synthetic labels of a weak signal."""

PARTS = {"setting": SETTING, "scoring": SCORING, "synthetic": SYNTHETIC}
COLUMNS = SETTING | SCORING | SYNTHETIC


def weak(rng: np.random.Generator, count: int) -> pd.DataFrame:
    """Return records with labels whose log odds are linear in seven categories and two numbers, and say little.

    About 15 % of the labels are 1, and the true odds have an area under the curve of about .62.
    """
    levels = {
        f"c{number}": rng.choice(size, count, p=rng.dirichlet(np.full(size, 4.0)))
        for number, size in enumerate((7, 2, 2, 3, 2, 3, 3))
    }
    table = pd.DataFrame({name: codes.astype(str) for name, codes in levels.items()})
    table["amount"], table["months"] = rng.gamma(1.2, 200, count), rng.integers(1, 13, count)
    signal = sum(rng.normal(size=7)[codes] for codes in levels.values())
    signal = signal + rng.normal() * np.log1p(table["amount"]) + rng.normal() * table["months"] / 3.5
    odds = expit(0.45 * (signal - signal.mean()) / signal.std() - 1.8)
    return table.assign(label=(rng.random(count) < odds).astype(int))


@dataclass(frozen=True)
class Split:
    """Records to learn from and to measure on, with the mask of the columns that hold category codes."""

    features: np.ndarray
    labels: np.ndarray
    test: np.ndarray
    truth: np.ndarray
    categorical: np.ndarray
    domain: Any
    seed: int

    @classmethod
    def of(cls, column: Column, seed: int) -> "Split":
        """Return a random split of a table, with categories as codes."""
        if column.folder:
            table = pd.read_csv(next((DATA / column.folder).glob("*.csv.gz"))).drop(columns=list(column.dropped))
        else:
            table = weak(np.random.default_rng([seed, 2]), column.records + TESTED)
        order = np.random.default_rng(seed).permutation(len(table))[: column.records + TESTED]
        table, n = table.iloc[order].reset_index(drop=True), column.records
        values = table.pop(column.label)
        if column.ends:
            labels, domain = values.to_numpy(float), ldp.Interval(*column.ends)
        else:
            codes, names = pd.factorize(values, sort=True)
            labels, domain = codes.astype(np.uint8), ldp.Classes(len(names))
        named = [not pd.api.types.is_numeric_dtype(table[name]) for name in table]
        for name in table.columns[named]:
            codes = pd.Categorical(table[name], table[name].iloc[:n].value_counts().index[:LEVELS]).codes
            table[name] = np.where(codes < 0, np.nan, codes)
        features = table.to_numpy(float)
        return cls(features[:n], labels[:n], features[n:], labels[n:], np.array(named), domain, seed)

    def rng(self) -> np.random.Generator:
        """Return the noise of a method."""
        return np.random.default_rng([self.seed, 1])

    def curator(self, epsilon: float, delta: float = 0.0) -> ldp.Curator:
        """Return who holds the labels, with a budget."""
        return ldp.Curator(self.labels, domain=self.domain, budget=ldp.Budget(epsilon, delta))

    def answers(self, mechanism: Any, epsilon: float) -> Any:
        """Return what a mechanism released of all labels."""
        return self.curator(epsilon).release(mechanism, rng=self.rng())

    def whole(self, model: Any) -> np.ndarray:
        """Return probabilities of all classes on the test part, with those that the model never met."""
        chances = np.zeros((len(self.test), self.domain.size))
        chances[:, model.classes_] = model.predict_proba(self.test)
        return chances

    def score(self, answers: np.ndarray) -> float:
        """Return 100 times the area under the curve, the accuracy in percent, or the root mean squared error."""
        if self.domain.target == "numbers":
            return float(np.sqrt(np.mean((np.clip(answers, *self.domain.ends) - self.truth) ** 2)))
        if self.domain.size == 2:
            return float(100 * roc_auc_score(self.truth, answers[:, 1]))
        return float(100 * np.mean(answers.argmax(axis=1) == self.truth))


def mixture(split: Split, epsilon: float) -> np.ndarray:
    """The local default of classes: each label is answered once."""
    mechanism = first_response(split.domain, epsilon)
    evidence = Evidence.made_by(mechanism, split.answers(mechanism, epsilon).value)
    return MixtureClassifier(split.categorical).fit_released(split.features, evidence).predict_proba(split.test)


def recentered(split: Split, epsilon: float) -> np.ndarray:
    """The local default of numbers, which keeps a tenth of the records to measure the model."""
    options: dict[str, Any] = {"epsilon": epsilon, "rng": split.rng(), "categorical": split.categorical}
    return fit_numbers(split.features, split.curator(epsilon), **options).value.predict(split.test)


def summed(split: Split, epsilon: float, model: str = "linear", delta: float = DELTA) -> np.ndarray:
    """A model of noisy sums; of numbers a tenth of the records measures it."""
    curator, numbers = split.curator(epsilon, delta), split.domain.target == "numbers"
    task = Task.of(curator, epsilon, delta, evaluation=None if numbers else 0.0)
    task = replace(task, categorical=split.categorical)
    learner = learner_of(model, trust="central", target=split.domain.target, delta=delta)
    fitted = learner.fit(split.features, curator, task, rng=split.rng()).value
    return np.asarray(fitted.predict(split.test) if numbers else fitted.predict_proba(split.test))


def automatic(split: Split, epsilon: float) -> np.ndarray:
    """The central default: what public numbers choose."""
    task, categories = (split.domain, epsilon, DELTA, "central"), int(split.categorical.sum())
    settings = advise(*split.features.shape, *task, categories=categories).best.settings
    if settings["trust"] == "local":
        return (recentered if split.domain.target == "numbers" else mixture)(split, epsilon)
    return summed(split, epsilon, settings["model"], settings.get("delta", 0.0))


def laplace(split: Split, epsilon: float) -> np.ndarray:
    """Laplace noise on all labels, and a ridge regression of scaled numbers and one-hot categories."""
    release = split.answers(DiscreteLaplace(domain=split.domain, epsilon=epsilon), epsilon)
    noisy = ldp.debias(release.mechanism, release.value).values
    return distances(split.categorical, RidgeCV(PENALTIES)).fit(split.features, noisy).predict(split.test)


def logistic(split: Split, epsilon: float) -> np.ndarray:
    """Randomized response, and a logistic regression of scaled numbers and one-hot categories."""
    noisy = split.answers(ldp.RandomizedResponse(domain=split.domain, epsilon=epsilon), epsilon).value
    model = distances(split.categorical, LogisticRegression(C=0.01, max_iter=200))
    return split.whole(model.fit(split.features, noisy))


def boosting(split: Split, epsilon: float) -> np.ndarray:
    """Randomized response, and boosted trees that stop early."""
    noisy = split.answers(ldp.RandomizedResponse(domain=split.domain, epsilon=epsilon), epsilon).value
    return split.whole(trees(split).fit(split.features, noisy))


def sums(split: Split, epsilon: float) -> np.ndarray:
    """Sums of scaled columns times classes with Gaussian noise, a ridge of its variance, and a softmax."""
    columns = distances(split.categorical, None)[:-1].fit(split.features)
    rows, others = (np.c_[np.ones(len(x)), columns.transform(x)] for x in (split.features, split.test))
    norms = np.median(np.linalg.norm(rows, axis=1))
    clipped = rows * np.minimum(1, norms / np.linalg.norm(rows, axis=1))[:, None]
    row = Public(np.ones((1, 1)), why="a row of norm one")
    spread = norms * GaussianMoment(split.domain, epsilon, delta=DELTA, features=row, clip=1.0).noise_stddev
    released = clipped.T @ (np.eye(split.domain.size)[split.labels] - 1 / split.domain.size)
    released += split.rng().normal(size=released.shape) * spread
    weights = np.linalg.solve(clipped.T @ rows + spread * np.eye(rows.shape[1]), released)
    return np.asarray(softmax(4 * others @ weights, axis=1))


def noisy_sums(split: Split, epsilon: float) -> np.ndarray:
    """One noisy sum of scaled columns times numbers, rows cut to their median length, and a ridge regression."""
    columns = distances(split.categorical, None)[:-1].fit(split.features)
    rows, center = np.c_[np.ones(len(split.labels)), columns.transform(split.features)], sum(split.domain.ends) / 2
    public, length = Public(rows, why="features are public"), float(np.median(np.linalg.norm(rows, axis=1)))
    sums = GaussianMoment(split.domain, epsilon, delta=DELTA, features=public, clip=length)
    cut, half = sums.values(), (split.domain.high - split.domain.low) / 2
    released = split.curator(epsilon, DELTA).release(sums, rng=split.rng()).value
    moment = sums.moment(released)[:, 0] - center * cut.sum(axis=0)
    weights = np.linalg.solve(cut.T @ rows + sums.noise_stddev / half * np.eye(rows.shape[1]), moment)
    return np.asarray(center + weights[0] + columns.transform(split.test) @ weights[1:])


def exact(split: Split, epsilon: float) -> np.ndarray:
    """Boosted trees of the labels themselves, without privacy."""
    model = trees(split).fit(split.features, split.labels)
    return model.predict(split.test) if split.domain.target == "numbers" else split.whole(model)


def trees(split: Split) -> Any:
    """Return boosted trees as scikit-learn sets them, which stop early where labels are classes."""
    options: dict[str, Any] = {"categorical_features": split.categorical, "random_state": 0}
    if split.domain.target == "numbers":
        return HistGradientBoostingRegressor(**options)
    return HistGradientBoostingClassifier(early_stopping=True, **options)


Learn = Callable[[Split, float], np.ndarray]

OURS, LINEAR = "labeldp", "--model linear"

METHODS: dict[str, dict[tuple[str, str], Learn]] = {
    "classes": {
        ("local", OURS): mixture,
        ("local", "RR + logistic"): logistic,
        ("local", "RR + boosting"): boosting,
        ("central", OURS): automatic,
        ("central", LINEAR): summed,
        ("central", "noisy sums"): sums,
        ("none", "no privacy"): exact,
    },
    "numbers": {
        ("local", OURS): recentered,
        ("local", "Laplace + ridge"): laplace,
        ("central", OURS): automatic,
        ("central", LINEAR): summed,
        ("central", "noisy sums"): noisy_sums,
        ("none", "no privacy"): exact,
    },
}
"""What is measured, by trust and name."""


def measured(learn: Learn, split: Split, epsilon: float) -> tuple[str, str, str]:
    """Return score, seconds of the processor and the peak of memory in megabytes; run it in a process of its own."""
    warnings.simplefilter("ignore")
    start = time.process_time()
    score = split.score(learn(split, epsilon))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f"{score:.6g}", f"{time.process_time() - start:.2f}", f"{memory:.0f}"


def run(columns: dict[str, Column], trusts: list[str], epsilons: list[float], seeds: int) -> None:
    """Add the rows that are missing, one at a time."""
    present = set()
    if ROWS.exists():
        with ROWS.open(newline="", encoding="utf-8") as file:
            present = {tuple(row[field] for field in FIELDS[:6]) for row in csv.DictReader(file)}
    with ROWS.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if not file.tell():
            writer.writerow(FIELDS)
        for seed in range(seeds):
            for name, column in columns.items():
                split = Split.of(column, seed)
                for epsilon in epsilons:
                    for (trust, method), learn in METHODS[split.domain.target].items():
                        level = "inf" if trust == "none" else f"{epsilon:g}"
                        key = (name, str(column.records), level, str(seed), trust, method)
                        if key in present or trust not in trusts:
                            continue
                        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as process:
                            writer.writerow((*key, *process.submit(measured, learn, split, epsilon).result()))
                        present.add(key)
                        file.flush()


def holm(chances: np.ndarray) -> np.ndarray:
    """Return p-values that hold for all tests together, in order, shape (m,).

    Source: Holm, "A simple sequentially rejective multiple test procedure", 1979.
    """
    order = np.argsort(chances)
    stepped = np.maximum.accumulate((len(chances) - np.arange(len(chances))) * chances[order])
    adjusted = np.empty(len(chances))
    adjusted[order] = np.minimum(stepped, 1)
    return adjusted


def compared(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each label column, epsilon and trust: ours beside the best baseline, paired by seed.

    A curator can also randomize labels, so that the baselines of local trust are those of central trust, too. The test
    is Student's on the differences, and asks whether ours is worse.
    """
    cells = []
    for (name, epsilon), cell in rows[rows.trust != "none"].groupby(["table", "epsilon"], sort=False):
        numbers = COLUMNS[name].ends is not None
        scores = cell.pivot_table(index="seed", columns=["trust", "method"], values="score")
        baselines = scores.drop(columns=[OURS, LINEAR], level="method", errors="ignore")
        for trust in ("local", "central"):
            options = baselines[["local"]] if trust == "local" else baselines
            pairs = scores.reindex(columns=[(trust, OURS)]).join(options).dropna()
            if len(pairs) < 2:
                continue
            values = pairs.iloc[:, 1:].mean()
            best = values.idxmin() if numbers else values.idxmax()
            ours, other = pairs[trust, OURS].to_numpy(), pairs[best].to_numpy()
            gains = 100 * (1 - ours / other) if numbers else ours - other
            chance = ttest_rel(gains, np.zeros(len(gains)), alternative="less").pvalue if np.ptp(gains) else 1.0
            error = gains.std(ddof=1) / np.sqrt(len(gains))
            cells.append((name, epsilon, trust, best[1], len(gains), ours.mean(), gains.mean(), error, float(chance)))
    names = ["table", "epsilon", "trust", "best", "runs", "ours", "gain", "error", "chance"]
    table = pd.DataFrame(cells, columns=names)
    return table.assign(adjusted=holm(table.chance.to_numpy()))


INTRODUCTION = """# Defaults and simple baselines

Are the defaults of labeldp more accurate than simple baselines on tables?

    python benchmarks/baselines.py run setting --seeds 5
    python benchmarks/baselines.py run scoring --seeds 5
    python benchmarks/baselines.py run synthetic --seeds 20
    python benchmarks/baselines.py run setting --seeds 15 --columns bank covertype
    python benchmarks/baselines.py run scoring --seeds 15 --columns census spend
    python benchmarks/baselines.py run scoring --seeds 20 --columns hillstrom protein
    python benchmarks/baselines.py page

## Data

There are {columns} label columns of {tables} tables. Some set constants of the defaults, the others score the defaults:

- Columns that set constants: {setting}, and synthetic labels.
- Columns that score: {scoring}.

The two groups are not fully separate:

- `higgs` is one of the tables that set three constants of `--model linear` ([constants](choice-of-defaults.md)).
- `credit` and `higgs` are two of the tables that set constants of boosted trees for numeric labels.
- An earlier learner for classes was run on the columns that score. Its loss on `hillstrom` led to the changes
  [below](#weak-signals). Scores of `elec2` were seen before that.
- The central default follows `labeldp choose`, whose constants come from [other groups of tables](choose.md). Among
  them are `adult`, `covertype`, `elec2`, `credit`, `skin` and `hillstrom`.

Columns of numbers had {numbers} runs, and columns of classes had {classes}. After five runs, columns with a loss or a
large spread got more. Each run draws the training records, up to {tested:,} other records with true labels, and the
noise of all methods. The score of two classes is 100 times the area under the ROC curve (AUC). The score of more
classes is the accuracy in percent. The score of numbers is the root mean squared error (RMSE); smaller is
better.{missing}

## Methods

- **labeldp**, local: the default of the library. For numbers, a tenth of the records only measures the model.
- **labeldp**, central, δ = 10⁻⁶: the default. It takes the first option of [`labeldp choose`](choose.md), from public
  numbers: a linear model, cells, or the local default.
- **--model linear**, central, δ = 10⁻⁶: always the linear model. For numbers, a tenth only measures the model.
- **RR + logistic**: randomized response, then a logistic regression of scaled numbers and one-hot categories.
- **RR + boosting**: randomized response, then boosted trees with early stopping.
- **Laplace + ridge**: Laplace noise on all labels, then a ridge regression of the same columns as RR + logistic.
- **noisy sums**: sums of these columns times labels, with rows of bounded norm and Gaussian noise, then a ridge.
- **no privacy**: boosted trees on true labels, with the settings of scikit-learn.

The best baseline of the local model is the best local one. A curator can also randomize labels. So the best baseline of
the central model is the best of all baselines.

*Gain* is the difference to the best baseline in points, or in percent of its error. ± is its standard error over runs.
Above 0, labeldp is better. *p* is the p-value of a paired, one-sided t-test that labeldp is worse. Holm's method
corrects it for all {cells} cells. A cell is one column at one ε in one trust model. A cell **fails** if p is below
{level}. With few runs and many cells, only a loss of many standard errors fails. So the outcome also names cells with
p below {level} before the correction.
"""

CAUSE = """
## Weak signals

If features say little about the label, simple linear models are hard to beat: a logistic regression in the local model,
and noisy sums in the central model. `hillstrom` and the synthetic labels `weak` are such columns. Public numbers cannot
tell how weak a signal is, and noisy labels hardly tell models apart.

The local default is a mixture of linear softmax models and boosted trees. It has five rules for weak signals. They
were found on synthetic labels and on columns that set constants. No record of `hillstrom` was used for them.

- **View.** The plain view of a table has scaled numbers and indicators of categories. It begins with nine tenths of the
  weights of the linear models. Other views get weight where held-out noisy labels ask for them.

- **Scale.** A strong prior makes the scores of a linear softmax too small. So each softmax is multiplied by the factor
  under which held-out noisy labels are likeliest.
- **Weights.** If labels say little, all models are about equally likely, and chance alone can prefer trees. So the
  weights of the mixture have a prior that expects the linear part alone.
- **Soft labels.** Trees that learn from soft labels count for less where the mixture has little of trees.
- **Folds.** All folds of a cross-validation choose the priors and the views of the features.

In the central model with a δ, the default takes a linear model more often if most features are categories. A linear
model has a term of each category. This rule was found on the same columns.
"""


def page() -> str:
    """Return the page of all rows."""
    rows = pd.read_csv(ROWS)
    synthetic = rows.table.isin(SYNTHETIC)
    cells, others = compared(rows[~synthetic]), compared(rows[synthetic])
    names = rows[~synthetic].table.unique()
    central = set(cells.table[cells.trust == "central"])
    missing = [name for name in names if name not in central]
    numbers = cells.table.map(lambda name: COLUMNS[name].ends is not None)
    text = INTRODUCTION.format(
        setting=_listed(SETTING),
        scoring=_listed(SCORING),
        columns=len(names),
        tables=len({COLUMNS[name].folder for name in names}),
        numbers=_range(cells[numbers].runs),
        classes=_range(cells[~numbers].runs),
        missing=f" Without a run in the central model: {_listed(missing)}." if missing else "",
        tested=TESTED,
        cells=len(cells),
        level=LEVEL,
    )
    text += _outcome(cells)
    for title, part in (("Columns that score", SCORING), ("Columns that set constants", SETTING)):
        text += _tables(title, rows, cells, part)
    return text + CAUSE + _tables("Synthetic labels", rows, others, SYNTHETIC).replace("##", "###") + _costs(rows)


def _tables(title: str, rows: pd.DataFrame, cells: pd.DataFrame, part: dict[str, Column]) -> str:
    """Return the tables of some label columns."""
    text = ""
    for target, methods in METHODS.items():
        some = [name for name, column in part.items() if (column.ends is not None) == (target == "numbers")]
        if cells.table.isin(some).any():
            text += f"\n## {title}: {target}\n"
            for trust in ("local", "central"):
                shown = [method for kind, method in methods if kind == trust and method != OURS]
                text += _table(rows, cells, some, trust, shown)
    return text


def _range(runs: pd.Series) -> str:
    return f"{runs.min()}" if runs.min() == runs.max() else f"{runs.min()} to {runs.max()}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _cell(cell: Any) -> str:
    return f"`{cell.table}`, {cell.trust}, ε = {cell.epsilon:g} ({cell.gain:+.2f} ± {cell.error:.2f})"


def _outcome(cells: pd.DataFrame) -> str:
    """Return how many cells are above, and the others."""
    failed = cells.adjusted < LEVEL
    doubted = (cells.chance < LEVEL) & ~failed
    groups = {
        "Cells that fail": cells[failed],
        f"Worse, with p < {LEVEL:g} before the correction": cells[doubted],
        "Worse, within the spread of the runs": cells[(cells.gain < 0) & ~failed & ~doubted],
    }
    above = (cells.gain > 0).sum()
    text = f"\n## Outcome\n\nlabeldp is better than the best baseline in {above} of {len(cells)} cells.\n\n"
    for title, group in groups.items():
        text += f"- {title}: {'; '.join(map(_cell, group.itertuples())) or 'none'}.\n"
    return text


def _table(rows: pd.DataFrame, cells: pd.DataFrame, names: list[str], trust: str, methods: list[str]) -> str:
    """Return the table of some label columns under one trust."""
    part = cells[cells.table.isin(names) & (cells.trust == trust)]
    if part.empty:
        return ""
    head = [f"{trust}: label, records", "ε", "labeldp", *methods, "best baseline", "gain", "p", "no privacy"]
    lines = [head, ["---", *["---:"] * (2 + len(methods)), "---", *["---:"] * 3]]
    for cell in part.itertuples():
        runs = rows[rows.table == cell.table]
        level = runs[(runs.epsilon == cell.epsilon) & (runs.trust == trust)]
        means = [f"{level[level.method == method].score.mean():.4g}" for method in methods]
        chance = f"{'**fails**, ' if cell.adjusted < LEVEL else ''}{cell.adjusted:.2g}"
        free = f"{runs[runs.trust == 'none'].score.mean():.4g}"
        first = [f"{cell.table}, {runs.records.iloc[0]:,}", f"{cell.epsilon:g}", f"{cell.ours:.4g}"]
        lines += [[*first, *means, cell.best, f"{cell.gain:+.2f} ± {cell.error:.2f}", chance, free]]
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _costs(rows: pd.DataFrame) -> str:
    """Return medians of time and memory."""
    target = rows.table.map(lambda name: "numbers" if COLUMNS[name].ends else "classes").rename("target")
    groups = rows.groupby([target, "trust", "method"], sort=False)[["seconds", "megabytes"]]
    text = "\n## Time and memory\n\nMedians over all fits with their predictions: seconds of one core, and peak memory."
    text += "\n\n"
    text += "| labels, trust, method | seconds | megabytes |\n|---|---:|---:|\n"
    for (kind, trust, method), cell in groups.median().iterrows():
        text += f"| {kind}, {trust}, {method} | {cell.seconds:.1f} | {cell.megabytes:.0f} |\n"
    return text + "\nRows are in [`baselines.csv`](data/baselines.csv).\n"


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "page"))
    parser.add_argument("part", nargs="?", choices=PARTS, default="setting")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="+", default=list(EPSILONS))
    parser.add_argument("--trusts", nargs="+", default=["local", "central", "none"])
    parser.add_argument("--columns", nargs="+", choices=COLUMNS, help="some columns of the part")
    arguments = parser.parse_args()
    if arguments.command == "page":
        PAGE.write_text(page(), encoding="utf-8")
        return
    columns = PARTS[arguments.part]
    some = {name: column for name, column in columns.items() if name in (arguments.columns or columns)}
    run(some, arguments.trusts, arguments.epsilons, arguments.seeds)


if __name__ == "__main__":
    main()

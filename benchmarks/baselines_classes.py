"""Classes: the defaults beside what takes a few lines, on the same tables, splits and noise.

    python benchmarks/baselines_classes.py --tables elec2 credit higgs hillstrom census skin --seeds 3 \
        --store docs/results/data/class-baselines.csv --write docs/results/class-baselines.md

Tables in `SETTING` set the constants of learners, together with made-up ones; tables in `SCORING` were run once, after
all constants were fixed. A seed draws the records, the test part and the noise of all methods. The score is 100 times
the area under the ROC curve of two classes, or the accuracy in percent of more.

- local: each label is answered once. `MixtureClassifier`, the default; randomized response with a logistic regression
  of scaled numbers and one-hot categories, or with boosted trees that stop early, both trained on the answers.
- central, delta = 1e-6: `fit_linear`, the default; and a softmax of scores from noisy sums of scaled columns, whose
  rows have norm at most one, with Gaussian noise and a ridge of its variance.
- no privacy: the same boosted trees on true labels.

The local default is below the logistic regression on `hillstrom` at each ε. The cause is not known.

Part of an earlier run, of a mixture without the pool and without trees of soft labels, was stopped and is not stored.
Its first rows of `elec2` were seen, and `elec2` was among the tables of a prototype. Three limits on time (`SKETCH`,
`SHOWN_RECORDS`, `PATH_RECORDS`) were set during the run. They change nothing at two classes and 4,000 records. No
constant was changed for these tables.
"""

import argparse
import csv
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from scipy.special import softmax
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import labeldp as ldp
from labeldp.learners import Evidence, LinearTask, MixtureClassifier, first_response
from labeldp.learners.classifiers import distances

DATA = Path(os.environ.get("LABELDP_DATA", Path(__file__).parents[2] / "shared" / "data"))

SETTING = ("adult", "magic", "covertype", "bank")
SCORING = ("elec2", "credit", "higgs", "hillstrom", "census", "skin")

TABLES = {
    "adult": ("adult/adult.csv.gz", "income", ["split", "fnlwgt"]),
    "magic": ("magic_gamma/magic_gamma.csv.gz", "label", []),
    "covertype": ("covertype_20k/covertype_20k.csv.gz", "Cover_Type", []),
    "bank": ("bank_marketing/bank_additional_full.csv.gz", "y", ["duration"]),
    "elec2": ("elec2/elec2.csv.gz", "class", []),
    "credit": ("credit_default/credit_default.csv.gz", "default", ["ID"]),
    "higgs": ("higgs_7500/higgs_7500.csv.gz", "label", ["split"]),
    "hillstrom": ("hillstrom/hillstrom.csv.gz", "visit", ["conversion", "spend"]),
    "census": ("census_income_kdd/census_income_kdd.csv.gz", "income", []),
    "skin": ("skin_segmentation/skin_segmentation.csv.gz", "label", []),
}

DELTA = 1e-6
COLUMNS = "table", "records", "epsilon", "seed", "trust", "method", "score", "seconds"


class Task:
    """Records of a table and of its test part, as a seed draws them."""

    def __init__(self, name: str, seed: int, records: int, tests: int) -> None:
        file, label, dropped = TABLES[name]
        table = pd.read_csv(DATA / file).drop(columns=dropped)
        table = table.sample(min(records + tests, len(table)), random_state=seed).reset_index(drop=True)
        codes, names = pd.factorize(table.pop(label), sort=True)
        texts = [not pd.api.types.is_numeric_dtype(kind) for kind in table.dtypes]
        numbers = [pd.factorize(table[c])[0] if t else table[c] for c, t in zip(table, texts, strict=True)]
        features = np.column_stack(numbers).astype(float)
        features[:, texts] = np.where(features[:, texts] < 0, np.nan, features[:, texts])
        self.name, self.seed, self.classes, self.categorical = name, seed, len(names), np.array(texts)
        self.features, self.test = features[tests:], features[:tests]
        self.codes, self.truth = codes[tests:].astype(np.uint8), codes[:tests]

    def score(self, chances: np.ndarray) -> float:
        """Return the area under the curve of two classes, or the accuracy."""
        if self.classes == 2:
            return float(100 * roc_auc_score(self.truth, chances[:, 1]))
        return float(100 * np.mean(chances.argmax(axis=1) == self.truth))


def _answers(task: Task, epsilon: float, plain: bool) -> tuple[Any, Any]:
    """Return the mechanism of the defaults, or randomized response, and what it answers."""
    domain = ldp.Classes(task.classes)
    mechanism = ldp.RandomizedResponse(domain=domain, epsilon=epsilon) if plain else first_response(domain, epsilon)
    return mechanism, mechanism.randomize(task.codes, rng=np.random.default_rng([task.seed, 1]))


def _whole(model: Any, task: Task) -> np.ndarray:
    """Return probabilities of all classes, with those that the model never met."""
    chances = np.zeros((len(task.test), task.classes))
    chances[:, model.classes_] = model.predict_proba(task.test)
    return chances


def _trees(task: Task) -> Any:
    mask = np.where(np.nanmax(task.features, axis=0) < 255, task.categorical, False)
    return HistGradientBoostingClassifier(early_stopping=True, random_state=0, categorical_features=mask)


def _mixture(task: Task, epsilon: float) -> np.ndarray:
    mechanism, noisy = _answers(task, epsilon, False)
    model = MixtureClassifier(task.categorical)
    return model.fit_released(task.features, Evidence.made_by(mechanism, noisy)).predict_proba(task.test)


def _logistic(task: Task, epsilon: float) -> np.ndarray:
    model = distances(task.categorical, LogisticRegression(C=0.01, max_iter=200))
    return _whole(model.fit(task.features, _answers(task, epsilon, True)[1]), task)


def _boosting(task: Task, epsilon: float) -> np.ndarray:
    return _whole(_trees(task).fit(task.features, _answers(task, epsilon, True)[1]), task)


def _linear(task: Task, epsilon: float) -> np.ndarray:
    curator = ldp.Curator(task.codes, domain=ldp.Classes(task.classes), budget=ldp.Budget(epsilon, DELTA))
    request = replace(ldp.learners.Task.of(curator, epsilon, DELTA, evaluation=0.0), categorical=task.categorical)
    rng = np.random.default_rng([task.seed, 2])
    return ldp.learners.Linear("linear").fit(task.features, curator, request, rng=rng).value.predict_proba(task.test)


def _sums(task: Task, epsilon: float) -> np.ndarray:
    columns = distances(task.categorical, None)[:-1].fit(task.features)
    rows, others = (np.c_[np.ones(len(x)), columns.transform(x)] for x in (task.features, task.test))
    norms = np.median(np.linalg.norm(rows, axis=1))
    clipped = rows * np.minimum(1, norms / np.linalg.norm(rows, axis=1))[:, None]
    spread = norms * LinearTask.of(ldp.Classes(task.classes), epsilon, DELTA).noise
    rng = np.random.default_rng([task.seed, 3])
    sums = clipped.T @ (np.eye(task.classes)[task.codes] - 1 / task.classes)
    sums += rng.normal(size=sums.shape) * spread
    weights = np.linalg.solve(clipped.T @ rows + spread * np.eye(rows.shape[1]), sums)
    return np.asarray(softmax(4 * others @ weights, axis=1))


def _public(task: Task, epsilon: float) -> np.ndarray:
    return _whole(_trees(task).fit(task.features, task.codes), task)


METHODS: dict[tuple[str, str], Callable[[Task, float], np.ndarray]] = {
    ("local", "mixture (ours)"): _mixture,
    ("local", "RR + logistic"): _logistic,
    ("local", "RR + boosting"): _boosting,
    ("central", "linear (ours)"): _linear,
    ("central", "noisy sums"): _sums,
    ("none", "boosting"): _public,
}


def measured(
    tables: list[str], epsilons: list[float], seeds: int, records: int, tests: int
) -> Iterator[tuple[Any, ...]]:
    """Yield a row of `COLUMNS` for each cell."""
    for seed in range(seeds):
        for name in tables:
            task = Task(name, seed, records, tests)
            for epsilon in epsilons:
                for (trust, method), predict in METHODS.items():
                    if trust == "none" and epsilon != epsilons[0]:
                        continue
                    start = time.process_time()
                    found = task.score(predict(task, epsilon))
                    spent = time.process_time() - start
                    count = len(task.codes)
                    yield name, count, f"{epsilon:g}", seed, trust, method, f"{found:.3f}", f"{spent:.2f}"


def page(rows: pd.DataFrame, command: str) -> str:
    """Return the page of stored rows."""
    lines = ["# Classes: the defaults beside a few lines", "", f"`{command}`", ""]
    lines += [*(__doc__ or "").split("\n\n", 2)[2].strip().split("\n"), ""]
    lines += [
        "Scores are means over seeds. “±” is the standard error of the paired difference from the better baseline.",
        "",
    ]
    for kind, names in (("Tables that score", SCORING), ("Tables that set constants", SETTING)):
        some = rows[rows.table.isin(names)]
        if some.empty:
            continue
        lines += [f"## {kind}", ""]
        for trust in ("local", "central"):
            methods = [method for kind, method in METHODS if kind == trust]
            lines += [f"| table, records | ε | {' | '.join(methods)} | difference | no privacy |"]
            lines += ["|---|---|" + "---|" * (len(methods) + 2)]
            for (name, count, epsilon), cell in some[some.trust == trust].groupby(
                ["table", "records", "epsilon"], sort=False
            ):
                by_seed = cell.pivot_table(index="seed", columns="method", values="score")[methods]
                best = by_seed[methods[1:]].mean().idxmax()
                gaps = by_seed[methods[0]] - by_seed[best]
                error = gaps.std(ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else np.nan
                free = some[(some.table == name) & (some.trust == "none")].score.mean()
                means = " | ".join(f"{by_seed[method].mean():.2f}" for method in methods)
                lines += [
                    f"| {name}, {count:,} | {epsilon:g} | {means} | {gaps.mean():+.2f} ± {error:.2f} | {free:.2f} |"
                ]
            lines += [""]
    seconds = rows.groupby(["trust", "method"], sort=False).seconds.median()
    lines += [
        "## Time",
        "",
        "Median seconds of one CPU for a fit and the test part.",
        "",
        "| method | seconds |",
        "|---|---|",
    ]
    lines += [f"| {trust}, {method} | {value:.1f} |" for (trust, method), value in seconds.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, store each row at once, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=list(SETTING), choices=TABLES)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1.0, 2.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--records", type=int, default=4000)
    parser.add_argument("--tests", type=int, default=3000)
    parser.add_argument("--store", type=Path, required=True, help="rows are added to this file")
    parser.add_argument("--write", type=Path, help="the page of all rows of the file")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.seeds:
        with given.store.open("a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            if not file.tell():
                writer.writerow(COLUMNS)
            for row in measured(given.tables, given.epsilons, given.seeds, given.records, given.tests):
                writer.writerow(row)
                file.flush()
    if given.write:
        command = (__doc__ or "").split("\n\n")[1].replace("\\\n", "").strip()
        command = " ".join(command.split())
        given.write.write_text(page(pd.read_csv(given.store), command), encoding="utf-8")


if __name__ == "__main__":
    main()

"""How much every way to fit a table loses to noise, and how well `labeldp choose` knows it.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/choose.py measure setting
    python benchmarks/choose.py constants
    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/choose.py measure scoring
    python benchmarks/choose.py page

`measure` adds rows to `docs/results/data/choose.csv`, and leaves out those that are there. Each fit is the one that
`labeldp fit` makes, with its evaluation part, on records drawn at random, with fresh noise. It is scored on up to 5,000
other records with true labels: by the area under the ROC curve (two classes) or accuracy (more), in percent, or by the
root mean squared error in percent of the labels' standard deviation. "No noise" is the local learner at epsilon = 20.

The constants of `labeldp.fit.choice` are set on the tables in `SETTING`. Those in `SCORING` have no say in them.
Data folders are looked for in the folder LABELDP_DATA, by default ../shared/data.
"""

import argparse
import csv
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pages
import pandas as pd
import pyarrow as pa
from scipy.optimize import least_squares

from labeldp.advice.dry_run import NO_NOISE, DryRunRows, fitted, score
from labeldp.fit.choice import WAYS, Expected, LearningCurve, Way, advise, learns, loss
from labeldp.mechanisms import Classes, Interval
from labeldp.privacy import InputError
from labeldp.tables import TableEncoder

DATA = Path(os.environ.get("LABELDP_DATA", Path(__file__).parents[2] / "shared" / "data"))
RESULTS = Path(__file__).parents[1] / "docs" / "results"
ROWS = RESULTS / "data" / "choose.csv"
FIELDS = ("table", "records", "epsilon", "method", "seed", "score", "seconds", "date")
DELTA = 1e-6
TESTED = 5_000
"""Records that a fit is scored on, at most."""

METHODS = {
    "local mixture": ("local", "mixture", 0.0),
    "central linear": ("central", "linear", 0.0),
    "central linear, delta": ("central", "linear", DELTA),
    "central cells": ("central", "cells", 0.0),
}
"""Trust, model and delta of every way to fit."""


@dataclass(frozen=True)
class Source:
    """A table with a label: its file, the label's column, other columns that are no feature, and its domain."""

    file: str
    label: str
    left_out: tuple[str, ...]
    domain: Classes | Interval

    def read(self) -> pd.DataFrame:
        return pd.read_csv(DATA / self.file, na_values=["?"]).dropna(subset=[self.label])


def movies() -> pd.DataFrame:
    """Ratings with what is known of people and films."""
    from papers.ratings import load_movielens  # with the checkout on PYTHONPATH

    data = load_movielens(DATA / "movielens_1m", seed=0).train
    names = ["user", "gender", "age", "occupation", "zip"]
    users = pd.read_csv(DATA / "movielens_1m/users.dat", sep="::", engine="python", names=names).set_index("user")
    films = pd.read_csv(
        DATA / "movielens_1m/movies.dat",
        sep="::",
        engine="python",
        encoding="latin-1",
        names=["movie", "title", "genres"],
    ).set_index("movie")
    genres = films.genres.str.get_dummies("|")
    genres["year"] = films.title.str.extract(r"\((\d{4})\)$", expand=False).astype(float)
    rows = np.random.default_rng(0).permutation(len(data.labels))[:60_000]
    user = users.drop(columns="zip").reindex(data.features[rows, 0]).reset_index(drop=True)
    user["occupation"] = "job " + user.occupation.astype(str)
    film = genres.reindex(data.features[rows, 1]).reset_index(drop=True)
    return pd.concat([user, film], axis=1).assign(rating=np.asarray(data.labels)[rows])


@dataclass(frozen=True)
class Movies(Source):
    def read(self) -> pd.DataFrame:
        return movies()


TWO, SHOP = Classes(2), "hillstrom/hillstrom.csv.gz"
CENSUS, ADULT = "census_income_kdd/census_income_kdd.csv.gz", "adult/adult.csv.gz"
JOBS = (
    "Adm-clerical",
    "Armed-Forces",
    "Craft-repair",
    "Exec-managerial",
    "Farming-fishing",
    "Handlers-cleaners",
    "Machine-op-inspct",
    "Other-service",
    "Priv-house-serv",
    "Prof-specialty",
    "Protective-serv",
    "Sales",
    "Tech-support",
    "Transport-moving",
)
MARITAL = (
    "Divorced",
    "Married-A F spouse present",
    "Married-civilian spouse present",
    "Married-spouse absent",
    "Never married",
    "Separated",
    "Widowed",
)

SETTING = {
    "adult": Source(ADULT, "income", ("split", "fnlwgt"), TWO),
    "credit": Source("credit_default/credit_default.csv.gz", "default", ("ID",), TWO),
    "skin": Source("skin_segmentation/skin_segmentation.csv.gz", "label", (), TWO),
    "elec2": Source("elec2/elec2.csv.gz", "class", (), TWO),
    "visit": Source(SHOP, "visit", ("conversion", "spend"), TWO),
    "covertype": Source("covertype_20k/covertype_20k.csv.gz", "Cover_Type", (), Classes(tuple(range(1, 8)))),
    "occupation": Source(ADULT, "occupation", ("split", "fnlwgt"), Classes(JOBS)),
    "california": Source(
        "california_housing/california_housing.csv.gz", "median_house_value", (), Interval(0, 500_001)
    ),
    "protein": Source("protein_structure/protein_structure.csv.gz", "rmsd", (), Interval(0, 21)),
    "hours": Source(ADULT, "hours_per_week", ("split", "fnlwgt", "income"), Interval(1, 99)),
}
"""Tables on which constants are set."""

SCORING = {
    "bank": Source("bank_marketing/bank_additional_full.csv.gz", "y", ("duration",), TWO),
    "magic": Source("magic_gamma/magic_gamma.csv.gz", "label", (), TWO),
    "higgs": Source("higgs_7500/higgs_7500.csv.gz", "label", ("split",), TWO),
    "census": Source(CENSUS, "income", ("instance_weight", "weeks_worked_in_year"), TWO),
    "movielens": Movies("", "rating", (), Classes((1, 2, 3, 4, 5))),
    "marital": Source(CENSUS, "marital_status", ("instance_weight",), Classes(MARITAL)),
    "bike": Source(
        "bike_sharing/bike_sharing_hourly.csv.gz",
        "cnt",
        ("casual", "registered", "instant", "dteday"),
        Interval(0, 1000),
    ),
    "weeks": Source(CENSUS, "weeks_worked_in_year", ("instance_weight", "income"), Interval(0, 52)),
    "spend": Source(SHOP, "spend", ("conversion", "visit"), Interval(0, 400, clip=True)),
}
"""Tables on which none is."""

SOURCES = SETTING | SCORING


@dataclass(frozen=True)
class Task:
    """A table, encoded; the first `len - tested` of its shuffled records are there to learn from."""

    encoder: TableEncoder
    features: np.ndarray
    codes: np.ndarray
    domain: Classes | Interval
    tested: int


@cache
def task(name: str) -> Task:
    source = SOURCES[name]
    frame = source.read()
    frame = frame.iloc[np.random.default_rng(1).permutation(len(frame))].reset_index(drop=True)
    table = pa.Table.from_pandas(frame.drop(columns=[source.label, *source.left_out]), preserve_index=False)
    encoder = TableEncoder.fit(table)
    codes = source.domain.encode(frame[source.label].to_numpy())
    return Task(encoder, encoder.transform(table), codes, source.domain, min(TESTED, len(frame) // 4))


@dataclass(frozen=True)
class Fit:
    """One fit of the benchmark."""

    table: str
    records: int
    epsilon: float
    method: str
    seed: int

    def measured(self) -> dict[str, object]:
        part = task(self.table)
        rows = np.random.default_rng([self.seed, 3]).permutation(len(part.codes) - part.tested)[: self.records]
        trust, model, delta = METHODS[self.method]
        settings, start = {"trust": trust, "model": model, "delta": delta}, time.process_time()
        public, noise = DryRunRows(part.encoder, part.features[rows]), np.random.default_rng([self.seed, 7])
        try:
            model = fitted(settings, public, part.codes[rows], part.domain, self.epsilon, noise)
        except InputError as error:
            return {**self.__dict__, "score": "", "seconds": str(error)[:60], "date": time.strftime("%Y-%m-%d")}
        reached = score(model, part.features[-part.tested :], part.codes[-part.tested :], part.domain)
        reached *= 100 if isinstance(part.domain, Interval) else 1
        seconds = round(time.process_time() - start, 2)
        return {**self.__dict__, "score": round(reached, 2), "seconds": seconds, "date": time.strftime("%Y-%m-%d")}


def fits(tables: list[str], methods: list[str], sizes: list[int], epsilons: list[float], seeds: int) -> Iterator[Fit]:
    """Every fit that is asked for: small ones first, all tables in turn."""
    for records, seed, table in product(sizes, range(seeds), tables):
        yield Fit(table, records, NO_NOISE, "local mixture", seed)
        for epsilon, method in product(epsilons, methods):
            yield Fit(table, records, epsilon, method, seed)


def stored() -> list[dict[str, str]]:
    return list(csv.DictReader(ROWS.open(encoding="utf-8"))) if ROWS.exists() else []


def measure(wanted: Iterator[Fit]) -> None:
    """Measure what is not stored yet."""
    done = {Fit(r["table"], int(r["records"]), float(r["epsilon"]), r["method"], int(r["seed"])) for r in stored()}
    if not ROWS.exists():
        ROWS.write_text(",".join(FIELDS) + "\n", encoding="utf-8")
    for fit in wanted:
        if fit not in done:
            with ROWS.open("a", encoding="utf-8", newline="") as stream:
                csv.DictWriter(stream, FIELDS, lineterminator="\n").writerow(fit.measured())


@dataclass(frozen=True)
class Losses:
    """What was measured of tables whose labels are classes, or numbers.

    Args:
        target: "classes" or "numbers".
        best: the score without noise, by table and number of records.
        lost: points lost to noise, by table, records, epsilon and method.
    """

    target: str
    best: dict[tuple[str, int], float]
    lost: dict[tuple[str, int, float, str], float]

    @classmethod
    def read(cls, tables: Iterable[str], target: str) -> "Losses":
        scores = {
            (row["table"], int(row["records"]), int(row["seed"]), float(row["epsilon"]), row["method"]): row["score"]
            for row in stored()
            if row["score"] and row["table"] in tables and SOURCES[row["table"]].domain.target == target
        }
        best, lost = defaultdict(list), defaultdict(list)
        for (table, records, seed, epsilon, method), reached in scores.items():
            without = scores.get((table, records, seed, NO_NOISE, "local mixture"))
            if epsilon == NO_NOISE:
                best[table, records].append(float(reached))
            elif without is not None:
                lost[table, records, epsilon, method].append(loss_of(float(without), float(reached), target))
        return cls(target, *({cell: float(np.mean(part)) for cell, part in one.items()} for one in (best, lost)))

    @property
    def tables(self) -> list[str]:
        return sorted({table for table, _ in self.best})

    def without(self, table: str) -> "Losses":
        """The same of the other tables."""
        parts = ({cell: value for cell, value in one.items() if cell[0] != table} for one in (self.best, self.lost))
        return Losses(self.target, *parts)

    def points(self, table: str, curve: LearningCurve) -> float:
        """From a constant answer to the best of a table, in percent of what a perfect answer has."""
        domain = SOURCES[table].domain
        constant, unit = (100.0, -1.0) if self.target == "numbers" else (100 / domain.size, 1 - 1 / domain.size)
        gains = {records: (best - constant) / unit for (name, records), best in self.best.items() if name == table}
        return float(np.mean([gain / curve.share(records, domain) for records, gain in gains.items()]))


def loss_of(best: float, reached: float, target: str) -> float:
    """By how much a score is worse than the best: errors are better where they are less."""
    return reached - best if target == "numbers" else best - reached


def way_of(method: str) -> str:
    """The way of the rule that a measured method is."""
    return method.partition(",")[0]


PULL = 1.0
"""The standard deviation of the logarithms of constants around where the search starts."""

SCATTER = 4.0
"""The standard deviation of a mean loss around the rule, in points; larger ones count less than their squares."""

STARTS = {"classes": (10, 0.7, 1, 500, 1000), "numbers": (10, 0.4, 1, 1000, 5000)}
"""Where the search for half, power and the noise of each way starts."""


def rule_of(values: np.ndarray, points: float, target: str) -> tuple[LearningCurve, dict[str, Way]]:
    """The curve and the ways of values of the search."""
    half, power, *noise = np.exp(values[:5]).tolist()
    if target == "classes":
        noise[0] = 1.0  # of randomized labels it is known
    given_up = (0.0, *values[5:].tolist())
    pairs = zip(WAYS, noise, given_up, strict=True)
    ways = {way.name: replace(way, noise={target: one}, given_up={target: other}) for way, one, other in pairs}
    return LearningCurve(points, half, power, 0.0, 0.0), ways


def fit(seen: Losses) -> tuple[LearningCurve, dict[str, Way]]:
    """The curve and the ways under which losses are likeliest."""
    start = np.concatenate([np.log(STARTS[seen.target]), [0.05, 0.05]])

    def residuals(values: np.ndarray) -> np.ndarray:
        curve, ways = rule_of(values, 0.0, seen.target)
        curves = {table: replace(curve, points=seen.points(table, curve)) for table in seen.tables}
        found = list((values - start)[:5] / PULL)
        for (table, records, epsilon, method), lost in seen.lost.items():
            expected = loss(curves[table], ways[way_of(method)], records, SOURCES[table].domain, epsilon)
            found.append((expected - lost) / SCATTER)
        return np.array(found)

    values = least_squares(residuals, start, loss="soft_l1").x
    curve, ways = rule_of(values, 0.0, seen.target)
    return replace(curve, points=float(np.mean([seen.points(table, curve) for table in seen.tables]))), ways


MISSED = 0.025
"""The share of cells of a table that is left out which may lie beyond each end: less than 0.05, as tables are few."""


def margins(seen: Losses) -> tuple[float, float]:
    """The ends of intervals, in units of a loss and a point, by tables that are left out one at a time."""
    beyond = []
    for left_out in seen.tables:
        curve, ways = fit(seen.without(left_out))
        for (table, records, epsilon, method), lost in seen.lost.items():
            case = curve, ways[way_of(method)], records, SOURCES[table].domain, epsilon
            if table == left_out and learns(*case):
                expected = loss(*case)
                beyond.append((lost - expected) / (expected + 1))
    below, above = (float(np.quantile(sign * np.array(beyond), 1 - MISSED, method="higher")) for sign in (-1, 1))
    return below, above


def show_constants() -> None:
    """Print the curves and the ways of the rule."""
    for target in STARTS:
        seen = Losses.read(SETTING, target)
        curve, ways = fit(seen)
        below, above = margins(seen)
        print(target, replace(curve, below=below, above=above))
        for way in ways.values():
            print(target, way.name, way.noise, way.given_up)


@dataclass(frozen=True)
class Cell:
    """What the advice, and always the same, lose beside the best in hindsight, in points."""

    table: str
    epsilon: float
    regrets: dict[str, float]
    said: list[tuple[Expected, float]]


POLICIES = {"auto": None, "local": "local mixture", "linear": "central linear", "cells": "central cells"}


def cells(tables: Iterable[str], target: str) -> Iterator[Cell]:
    """Every cell with central trust of which all methods are measured, without a delta and with one."""
    lost = Losses.read(tables, target).lost
    for (table, records, epsilon), delta in product(sorted({cell[:3] for cell in lost}), (0.0, DELTA)):
        names = {way_of(name): name for name, (_, _, spent) in METHODS.items() if spent <= delta}
        mean = {way: lost.get((table, records, epsilon, name), np.nan) for way, name in names.items()}
        if any(np.isnan(value) for value in mean.values()):
            continue
        kinds = task(table).encoder.categorical
        setting = SOURCES[table].domain, epsilon, delta, "central"
        advice = advise(records, len(kinds), *setting, categories=int(kinds.sum()))
        auto = advice.options[0].method if advice.options else way_of("central linear" if delta else "central cells")
        regrets = {policy: mean[way or auto] - min(mean.values()) for policy, way in POLICIES.items()}
        said = [(option.expected, mean[option.method]) for option in advice.options]
        yield Cell(table, epsilon, regrets, said)


HEAD = [
    "tables",
    "labels",
    "ε",
    "cells",
    "auto",
    "worst",
    "always local",
    "always linear",
    "always cells",
    "held",
    "held, shown",
    "shown",
]


def page_rows() -> Iterator[list[str]]:
    """The rows of the page: what every group of cells says."""
    for (half, tables), target in product((("scoring", SCORING), ("setting", SETTING)), STARTS):
        for words, low, high in (("0.1", 0, 0.2), ("0.5, 1, 4", 0.2, 9)):
            group = [cell for cell in cells(tables, target) if low < cell.epsilon < high]
            if not group:
                continue
            mean = [f"{np.mean([cell.regrets[policy] for cell in group]):.2f}" for policy in POLICIES]
            worst = max(group, key=lambda cell: cell.regrets["auto"])
            parts = [[one for cell in group for one in part(cell)] for part in (held, held_shown, shown)]
            row = [half, target, words, str(len(group)), mean[0], f"{worst.regrets['auto']:.1f} ({worst.table})"]
            yield [*row, *mean[1:], *(f"{np.mean(part):.0%}".replace("%", " %") if part else "–" for part in parts)]


def held(cell: Cell) -> list[bool]:
    """Whether the loss of each option lies in its interval."""
    return [expected.low <= value <= expected.high for expected, value in cell.said]


def held_shown(cell: Cell) -> list[bool]:
    """The same of intervals that are shown."""
    return [holds for holds, is_shown in zip(held(cell), shown(cell), strict=True) if is_shown]


def shown(cell: Cell) -> list[bool]:
    """Whether the interval of each option is shown."""
    return [expected.tells for expected, _ in cell.said]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measured = commands.add_parser("measure")
    measured.add_argument("tables", help="setting, scoring, or names with commas between")
    measured.add_argument("--methods", default=";".join(METHODS), help="names with semicolons between")
    measured.add_argument("--records", default="1000,5000")
    measured.add_argument("--epsilons", default="0.5,1,4")
    measured.add_argument("--seeds", type=int, default=2, help="of the noise and of the records")
    commands.add_parser("constants")
    commands.add_parser("page")
    given = parser.parse_args()
    if given.command == "constants":
        show_constants()
    if given.command == "page":
        pages.write("choose-rule", HEAD, list(page_rows()))
        pages.fill()
    if given.command == "measure":
        groups = {"setting": list(SETTING), "scoring": list(SCORING)}
        tables = groups.get(given.tables) or given.tables.split(",")
        sizes, epsilons = [int(e) for e in given.records.split(",")], [float(e) for e in given.epsilons.split(",")]
        measure(fits(tables, given.methods.split(";"), sizes, epsilons, given.seeds))


if __name__ == "__main__":
    main()

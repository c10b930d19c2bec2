"""How often the intervals of `labeldp.inference` hold the truth, and how wide they are, for groups of fixed sizes.

`benchmarks/population.py` draws the sizes, too, and calls the estimators themselves.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/estimates.py [--only PART …] [--write]

Coverage of exact intervals of one count is added up over the law of the count: nothing is drawn. The others are
simulated, vectorized over runs; each cell has a seed of its own, which its name fixes. Each cell is appended to --cells
as it comes; --only takes some of the parts, or none. --write fills the pages from all cells that are there.
"""

import argparse
import csv
import resource
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pages
from scipy.special import expit, ndtri
from scipy.stats import binom

import labeldp as ldp
from labeldp import inference
from labeldp.inference.intervals import (
    clopper_pearson,
    fieller,
    noisy_binomial,
    normal_quantile,
    recovered,
    sidak,
)
from labeldp.inference.sequences import look_times, mixture_ends
from labeldp.privacy import Release

LEVEL = 0.95
RECORDS, EPSILONS, RATES, CLASSES = (200, 500, 5000), (0.5, 1.0, 2.0, 4.0), (0.01, 0.05, 0.3), (2, 4, 10, 50)
ENOUGH = 20_000
"""Runs that show that an asymptotic interval holds."""

CELLS = Path(__file__).parents[1] / "docs/results/data/inference.csv"


@dataclass(frozen=True)
class Cell:
    """One setting of one interval.

    Args:
        interval: which interval.
        promise: "exact", "finite sample", "anytime", "asymptotic" or "naive"; "elsewhere" of other programs.
        records: how many a run has.
        epsilon: of the release.
        rate: of the rare class; empty where the setting has none.
        classes: how many there are.
        coverage: how often the interval holds the truth.
        width: mean width.
        runs: how many were drawn; 0 where coverage is computed.
    """

    interval: str
    promise: str
    records: int
    epsilon: float
    rate: float | str
    classes: int | str
    coverage: float
    width: float
    runs: int

    @classmethod
    def of(cls, row: dict[str, str]) -> "Cell":
        """Read a row of the stored cells."""
        return cls(
            row["interval"], row["promise"], int(row["records"]), float(row["epsilon"]),
            float(row["rate"]) if row["rate"] else "", int(row["classes"]) if row["classes"] else "",
            float(row["coverage"]), float(row["width"]), int(row["runs"]),
        )  # fmt: skip

    @property
    def key(self) -> tuple[Any, ...]:
        """Which cell it is."""
        return astuple(self)[:6]


def generator(*where: Any) -> np.random.Generator:
    """The randomness of a cell."""
    return np.random.default_rng(zlib.crc32(repr(where).encode()))


def response(classes: int, epsilon: float) -> tuple[Any, float, float]:
    """Randomized response, with how often answers name the class and any other."""
    mechanism = ldp.RandomizedResponse(domain=ldp.Classes(classes), epsilon=epsilon)
    return mechanism, mechanism.keep_probability, (1 - mechanism.keep_probability) / (classes - 1)


def shares() -> Iterator[Cell]:
    """The share of one class; everything is computed."""
    for records, epsilon, rate, classes in product(RECORDS, EPSILONS, RATES, CLASSES):
        _, hit, miss = response(classes, epsilon)
        gap, hits = hit - miss, np.arange(records + 1)
        law = binom.pmf(hits, records, miss + gap * rate)
        raw = hits / records
        value = (raw - miss) / gap
        low, high = ((end - miss) / gap for end in clopper_pearson(hits, records, LEVEL))
        z = normal_quantile(LEVEL)
        half = z * np.sqrt(raw * (1 - raw) / records) / gap
        bounded = np.sqrt(np.log(2 / (1 - LEVEL)) / (2 * records)) / gap
        clipped = np.clip(value, 0, 1)
        without = z * np.sqrt(clipped * (1 - clipped) / records)
        naive = z * np.sqrt(raw * (1 - raw) / records)
        for method, promise, ends in (
            ("exact", "exact", (low, high)),
            ("normal, on request", "asymptotic", (value - half, value + half)),
            ("NPRR's of Hoeffding", "elsewhere", (value - bounded, value + bounded)),
            ("noise left out", "naive", (value - without, value + without)),
            ("answers taken as true", "naive", (raw - naive, raw + naive)),
        ):
            lower, upper = np.clip(ends[0], 0, 1), np.clip(ends[1], 0, 1)
            if method.startswith("NPRR") and classes > 2:
                continue
            held = law[(lower <= rate) & (rate <= upper)].sum()
            yield Cell(method, promise, records, epsilon, rate, classes, held, law @ (upper - lower), 0)


def sums() -> Iterator[Cell]:
    """The share of one of two classes from a noisy sum; everything is computed."""
    for records, epsilon, rate in product(RECORDS, EPSILONS, RATES):
        reach = int(30 / epsilon)
        noise = np.exp(-epsilon * np.abs(np.arange(-reach, reach + 1)))
        law = np.convolve(binom.pmf(np.arange(records + 1), records, rate), noise / noise.sum())
        totals = np.flatnonzero(law > 1e-9)
        low, high = noisy_binomial(totals - reach, records, epsilon, LEVEL)
        held = law[totals][(low <= rate) & (rate <= high)].sum()
        width = law[totals] @ (high - low)
        yield Cell("exact, one sum", "exact", records, epsilon, rate, 2, held, width, 0)
        value = np.clip((totals - reach) / records, 0, 1)
        half = normal_quantile(LEVEL) * np.sqrt(value * (1 - value) / records)
        held = law[totals][np.abs(value - rate) <= half].sum()
        width = law[totals] @ (2 * half)
        yield Cell("noise left out, one sum", "naive", records, epsilon, rate, 2, held, width, 0)


def effects() -> Iterator[Cell]:
    """A difference of two shares, of which one is twice the other."""
    runs = ENOUGH
    for records, epsilon, rate in product(RECORDS, EPSILONS, RATES):
        where, arm = (records, epsilon, rate), records // 2
        rng = generator("effects", *where)
        _, hit, miss = response(2, epsilon)
        gap, truth = hit - miss, rate
        hits = np.stack([rng.binomial(arm, miss + gap * share, runs) for share in (2 * rate, rate)]).astype(float)
        raw, (low, high) = hits / arm, clopper_pearson(hits, arm, LEVEL)
        lower, upper = (end / gap for end in recovered((raw[0], low[0], high[0]), (raw[1], low[1], high[1])))
        yield cell("effect", "asymptotic", (*where, 2), lower, upper, truth)
        half = normal_quantile(LEVEL) * np.sqrt((raw * (1 - raw) / arm).sum(axis=0))
        plain_effect = raw[0] - raw[1]
        yield cell(
            "effect, answers taken as true", "naive", (*where, 2), plain_effect - half, plain_effect + half, truth
        )
        totals = [rng.binomial(arm, share, runs) + geometric(epsilon, runs, rng) for share in (2 * rate, rate)]
        found = []
        for total in totals:
            distinct, places = np.unique(total, return_inverse=True)
            ends = noisy_binomial(distinct, arm, epsilon, LEVEL)
            found.append((total / arm, ends[0][places], ends[1][places]))
        yield cell("effect, two sums", "asymptotic", (*where, 2), *recovered(*found), truth)


def summed() -> Iterator[Cell]:
    """The median of ten ordered classes from noisy counts."""
    certificate = plain(response(10, 1.0)[0])
    for records, epsilon in product(RECORDS, EPSILONS):
        rng, block = generator(records, epsilon, "median"), 400_000 // records
        shares = np.array([4, 6, 8, 10, 12, 14, 14, 12, 12, 8]) / 100  # the median is class 5
        groups = ldp.Public(np.repeat(np.arange(block), records), why="runs")
        plan = inference.plan_sums("mean", ldp.Classes(10), epsilon, groups=groups)
        ends = []
        for _ in range(ENOUGH // block):
            counts = rng.multinomial(records, shares, block)
            noisy = counts + geometric(float(plan.rate), counts.size, rng).reshape(counts.shape)
            found = inference.quantile(Release(noisy, certificate, plan), groups=groups, simultaneous=False)
            ends.append([found.low, found.high])
        low, high = np.concatenate(ends, axis=1)
        yield cell("median, noisy counts", "asymptotic", (records, epsilon, "", 10), low, high, 5)


def geometric(epsilon: float, size: int, rng: np.random.Generator) -> np.ndarray:
    """Two-sided geometric noise of a simulation."""
    chance = -np.expm1(-epsilon)
    return rng.geometric(chance, size) - rng.geometric(chance, size)


def cell(interval: str, promise: str, where: Any, low: Any, high: Any, truth: Any) -> Cell:
    """One cell of runs, each with one interval or several that hold together, shape (runs, ...)."""
    held = (low <= truth) & (truth <= high)
    held = held.reshape(len(held), -1).all(axis=1)
    return Cell(interval, promise, *where, float(held.mean()), float(np.mean(high - low)), len(held))


def simultaneous() -> Iterator[Cell]:
    """All classes in all of five groups at once."""
    runs, groups = 1000, 5
    for records, epsilon, classes in product(RECORDS, EPSILONS, CLASSES):
        where = (records, epsilon, classes)
        rng = generator("groups", *where)
        _, hit, miss = response(classes, epsilon)
        truth = np.linspace(1, 3, classes) / np.linspace(1, 3, classes).sum()
        counts = rng.multinomial(records // groups, miss + (hit - miss) * truth, (runs, groups))
        level = sidak(LEVEL, groups, classes if classes > 2 else 1)
        for name, each_level, promise in (("all groups and classes", level, "exact"), ("each at 95 %", LEVEL, "naive")):
            ends = [(end - miss) / (hit - miss) for end in clopper_pearson(counts, records // groups, each_level)]
            yield cell(name, promise, (records, epsilon, "", classes), *np.clip(ends, 0, 1), truth)


def areas() -> Iterator[Cell]:
    """Areas under the ROC and the precision-recall curve (the average precision), from answers."""
    for records, epsilon, rate in product(RECORDS, EPSILONS, RATES):
        where = (records, epsilon, rate, 2)
        rng, block = generator("area", *where), 200_000 // records
        offset = {0.01: -5.6, 0.05: -3.8, 0.3: -1.1}[rate]
        chances = expit(offset + 1.5 * ndtri((np.arange(400_000) + 0.5) / 400_000))
        below = np.cumsum(1 - chances) - (1 - chances) / 2
        precision = np.cumsum(chances[::-1])[::-1] / np.arange(len(chances), 0, -1)
        area = (chances * below).sum() / chances.sum() / (1 - chances).sum()
        truths = (area, (chances @ precision) / chances.sum())
        _, hit, miss = response(2, epsilon)
        ends: dict[str, list[Any]] = {}
        for _ in range(ENOUGH // block):
            x = np.sort(rng.normal(size=(block, records)), axis=1)
            labels = rng.random(x.shape) < expit(offset + 1.5 * x)
            answers = rng.random(x.shape) < np.where(labels, hit, miss)
            names = ("area", "average precision")
            for name, drawn in zip(names, curve_ends((answers - miss) / (hit - miss)), strict=True):
                ends.setdefault(name, []).append(drawn)
            for name, drawn in zip(names, curve_ends(answers.astype(float), skewed=False), strict=True):
                ends.setdefault(f"{name}, answers taken as true", []).append(drawn)
        for method, drawn in ends.items():
            promise = "naive" if "taken as true" in method else "asymptotic"
            yield cell(method, promise, where, *np.concatenate(drawn).T, truths["precision" in method])


def curve_ends(second: np.ndarray, skewed: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """The ends of areas under ROC and precision-recall curves, each (runs, 2), of records in order without ties."""
    count, up = second.shape[1], np.cumsum(second, axis=1)
    total, squares = up[:, -1:], np.einsum("rn,rn->r", second, second)[:, None]
    pairs = total - up + second / 2 + second * (np.arange(count) + 0.5 - total)
    alone = total - squares
    inside = np.einsum("rn->r", pairs)[:, None] / 2
    ordered = np.concatenate([inside - alone / 2, total * (count - total) - alone], axis=1) / (count * (count - 1))
    flagged = np.arange(count, 0, -1)
    part = second / flagged
    at = (total - up + 1) / flagged
    moved = part * at
    slopes = at + np.cumsum(part, axis=1) - part
    terms = second * slopes - np.cumsum(moved, axis=1) + moved
    means = np.concatenate([np.einsum("rn,rn->r", second, at)[:, None], total], axis=1) / count
    weights = total + second * (count - 2 * total)
    noise = np.maximum((squares - total) / count, 0.0)
    slopes = slopes - np.clip(means[:, :1] / np.where(total > 0, total / count, 1.0), 0, 1)
    others = slopes.sum(axis=1, keepdims=True) - np.cumsum(slopes, axis=1)
    noise_skew = 4 * noise[:, 0] ** 2 * np.einsum("rn,rn->r", slopes / flagged, others)
    area = ends_of(ordered, pairs / count, weights / count, np.zeros(len(second)), skewed)
    return area, ends_of(means, terms, second, noise_skew, skewed)


def ends_of(
    statistics: np.ndarray, top: np.ndarray, bottom: np.ndarray, noise_skew: np.ndarray, skewed: bool
) -> np.ndarray:
    """The interval of the ratio of two statistics of each run, (runs, 2), by their terms, (runs, n)."""
    count = top.shape[1]
    tops, bottoms = (terms - terms.mean(axis=1, keepdims=True) for terms in (top, bottom))
    cells = [np.einsum("rn,rn->r", a, b) for a, b in ((tops, tops), (tops, bottoms), (bottoms, bottoms))]
    covariance = np.stack([cells[0], cells[1], cells[1], cells[2]], axis=1).reshape(-1, 2, 2) / count / (count - 1)
    if not skewed:
        return np.clip(np.stack(fieller(statistics, covariance, LEVEL), axis=1), 0, 1)
    positive = statistics[:, 1] > 0
    ratio = np.clip(statistics[:, 0] / np.where(positive, statistics[:, 1], 1.0), 0, 1)
    terms = tops - ratio[:, None] * bottoms
    second, third, fourth = (np.einsum("rn->r", terms**power) for power in (2, 3, 4))
    second = np.maximum(second, 1e-300)
    with np.errstate(divide="ignore"):
        freedom = 2 * count / np.maximum(count * fourth / second**2 - 1, 0.0)
    alone, joint = third / second / count, (third + noise_skew) / second / count
    slopes = (np.minimum(np.minimum(alone, joint), 0), np.maximum(np.maximum(alone, joint), 0))
    return np.clip(np.stack(fieller(statistics, covariance, LEVEL, freedom, slopes), axis=1), 0, 1)


def plain(mechanism: Any) -> Any:
    """A certificate of the mechanism's law."""
    labels = np.zeros(2, dtype=np.uint8)
    curator = ldp.Curator(labels, domain=mechanism.domain, budget=ldp.Budget(epsilon=9))
    return curator.release(mechanism, rng=np.random.default_rng(0)).certificate


def sequences() -> Iterator[Cell]:
    """A share, looked at at a hundred times."""
    runs = 1000
    for records, epsilon, rate in product(RECORDS, EPSILONS, RATES):
        where = (records, epsilon, rate)
        rng = generator("sequence", *where)
        _, hit, miss = response(2, epsilon)
        times = look_times(records, 100)
        steps = np.diff(times, prepend=0)
        hits = np.cumsum(rng.binomial(steps, miss + (hit - miss) * rate, (runs, len(times))), axis=1)
        low, high = (
            (end - miss) / (hit - miss) for end in mixture_ends(hits, np.broadcast_to(times, hits.shape), LEVEL)
        )
        low, high = np.maximum.accumulate(low, axis=1), np.minimum.accumulate(high, axis=1)
        held = ((low <= rate) & (rate <= high)).all(axis=1)
        width = float((np.clip(high, 0, 1) - np.clip(low, 0, 1))[:, -1].mean())
        yield Cell("sequence, all looks", "anytime", *where, 2, float(held.mean()), width, runs)
        raw = hits / times
        half = normal_quantile(LEVEL) * np.sqrt(raw * (1 - raw) / times) / (hit - miss)
        late = times >= 50
        held = (np.abs((raw - miss) / (hit - miss) - rate) <= half)[:, late].all(axis=1)
        width = float(2 * half[:, -1].mean())
        yield Cell("95 % intervals at every look", "naive", *where, 2, float(held.mean()), width, runs)


def numbers() -> Iterator[Cell]:
    """A mean of numbers, nine tenths of them zero: bets below 500 records, Student's interval from there on."""
    domain = ldp.mechanisms.Interval(0, 1, grid=101)
    for records, epsilon in product(RECORDS, EPSILONS):
        runs, block = (1000, 1000) if records < 500 else (ENOUGH, 1_000_000 // records)
        rng = generator(records, epsilon, "numbers")
        mechanism = ldp.DiscreteLaplace(domain=domain, epsilon=epsilon)
        certificate, groups = plain(mechanism), np.repeat(np.arange(block), records)
        truth = 0.1 * float(np.rint(100 * np.random.default_rng(0).beta(1, 3, 2_000_000)).mean() / 100)
        ends = []
        for _ in range(runs // block):
            drawn = 100 * rng.beta(1, 3, (block, records)) * (rng.random((block, records)) < 0.1)
            noisy = mechanism.randomize(np.rint(drawn).astype(np.uint8).ravel(), rng=rng)
            found = inference.mean(Release(noisy, certificate, mechanism), groups=groups, simultaneous=False)
            ends.append([found.low, found.high])
        yield cell("mean of numbers", found.guarantee, (records, epsilon, "", ""), *np.concatenate(ends, axis=1), truth)


def thresholds() -> Iterator[Cell]:
    """How often a calibration covers at least 80 %, of which 95 % are promised; the width is the number of classes."""
    runs = 200
    for records, epsilon, classes in product(RECORDS, EPSILONS, CLASSES):
        where = (records, epsilon, classes)
        rng = generator("conformal", *where)
        mechanism, *_ = response(classes, epsilon)
        certificate = plain(mechanism)
        table = rng.dirichlet(np.full(classes, 0.3), size=20_000)
        later = (rng.random((20_000, 1)) > table.cumsum(axis=1)[:, :-1]).sum(axis=1)
        scores = np.sort(1 - table[np.arange(20_000), later])
        reached, size = [], []
        for _ in range(runs):
            chances = rng.dirichlet(np.full(classes, 0.3), size=records)
            labels = (rng.random((records, 1)) > chances.cumsum(axis=1)[:, :-1]).sum(axis=1).astype(np.uint8)
            release = Release(mechanism.randomize(labels, rng=rng), certificate, mechanism)
            found = inference.conformal(release, ldp.Public(1 - chances, why="drawn"), coverage=0.8)
            # half a point of slack for the 20,000 records that coverage is measured on
            reached.append(np.searchsorted(scores, found.threshold, side="right") / len(scores) >= 0.795)
            size.append((1 - table[:2000] <= found.threshold).sum(axis=1).mean())
        held, width = float(np.mean(reached)), float(np.mean(size))
        yield Cell("conformal, bets", "finite sample", records, epsilon, "", classes, held, width, runs)


def check_moments() -> None:
    """The vectorized areas are those of `evaluate`."""
    mechanism, hit, miss = response(2, 1.0)
    rng = np.random.default_rng(0)
    noisy, x = rng.integers(0, 2, 500).astype(np.uint8), rng.random(500)
    scores = inference.evaluate(Release(noisy, plain(mechanism), mechanism), ldp.Public(x, why="made up"))
    both = curve_ends(((noisy - miss) / (hit - miss))[np.argsort(x)][None])
    for found, [ends] in zip((scores.auc(), scores.average_precision()), both, strict=True):
        assert np.allclose([found.low, found.high], ends)


PARTS: dict[str, Callable[[], Iterator[Cell]]] = {
    "Shares": shares, "Sums": sums, "Questions of sums": summed, "Several shares": simultaneous, "Effects": effects,
    "Areas": areas, "Numbers": numbers, "Looks": sequences, "Prediction sets": thresholds,
}  # fmt: skip


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


NAIVE = {
    "exact": "answers taken as true",
    "exact, one sum": "noise left out, one sum",
    "all groups and classes": "each at 95 %",
    "effect": "effect, answers taken as true",
    "area": "area, answers taken as true",
    "average precision": "average precision, answers taken as true",
    "sequence, all looks": "95 % intervals at every look",
}
"""The naive method beside an interval."""

NAMES = {
    "exact": "share, answers",
    "exact, one sum": "share, one sum",
    "all groups and classes": "all classes in five groups",
    "effect": "effect, answers",
    "area": "ROC AUC, answers",
    "average precision": "average precision",
    "sequence, all looks": "share at 100 looks",
    "conformal, bets": "prediction sets",
}
"""How the table calls an interval."""


SHOWN = (
    "exact", "exact, one sum", "all groups and classes", "sequence, all looks", "mean of numbers", "conformal, bets",
    "effect", "effect, two sums", "area", "average precision",
)  # fmt: skip
"""The intervals of the page; the file of all cells has the others."""


def summary(cells: list[Cell]) -> list[list[str]]:
    """A row for each interval: for each number of records the lowest coverage and the mean width."""
    rows = []
    for interval, promise in dict.fromkeys((one.interval, one.promise) for one in cells):
        if interval not in SHOWN:
            continue
        found = [one for one in cells if (one.interval, one.promise) == (interval, promise)]
        columns = []
        for records in RECORDS:
            here = [one for one in found if one.records == records]
            lowest = percent(min((one.coverage for one in here), default=0))
            columns.append(f"{lowest}; {np.mean([one.width for one in here]):.3f}" if here else "–")
        naive = [one.coverage for one in cells if one.interval == NAIVE.get(interval)]
        counts = dict.fromkeys(f"{one.runs:,}" if one.runs else "computed" for one in found)
        runs = " or ".join(counts)
        rows.append([NAMES.get(interval, interval), promise, runs, *columns, percent(min(naive)) if naive else "–"])
    return rows


BIG = 10_000_000

QUESTIONS: dict[str, Callable[..., Any]] = {
    "share by 10 groups": lambda release, groups, flags, model: inference.mean(release, groups=groups),
    "effect": lambda release, groups, flags, model: inference.difference(release, flags),
    "recall": lambda release, groups, flags, model: inference.evaluate(release, model).recall(),
    "ROC AUC": lambda release, groups, flags, model: inference.evaluate(release, model).auc(),
    "average precision": lambda release, groups, flags, model: inference.evaluate(release, model).average_precision(),
}
"""Questions about a released file of many rows."""


def ask_big(name: str) -> None:
    """Ask one question about many rows; print seconds of this process, and the most memory that it held, in MB."""
    rng = np.random.default_rng(0)
    mechanism, *_ = response(2, 1.0)
    release = Release(rng.integers(0, 2, BIG, dtype=np.uint8), plain(mechanism), mechanism)
    groups, flags = rng.integers(0, 10, BIG, dtype=np.int8), rng.integers(0, 2, BIG, dtype=np.int8)
    model = ldp.Public(rng.random(BIG, dtype=np.float32), why="made up")
    start = time.process_time()
    QUESTIONS[name](release, groups, flags, model)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{time.process_time() - start:.1f} {peak:.0f}")


def big_rows() -> list[list[str]]:
    """A row for each question about many rows, each in a process of its own."""
    rows = []
    for name in QUESTIONS:
        ran = subprocess.run([sys.executable, __file__, "--big", name], capture_output=True, text=True, check=True)
        rows.append([name, *ran.stdout.split()])
    return rows


def publish(cells: list[Cell]) -> None:
    """Store the tables of the pages, and fill the pages."""
    sizes = [f"n = {records:,}" for records in RECORDS]
    pages.write("inference-summary", ["question", "guarantee", "runs", *sizes, "naive"], summary(cells))
    widths = {one.key[2:]: one.width for one in cells if one.interval == "exact" and one.rate == 0.05}
    rows = [
        [str(classes), f"{epsilon:g}", *(f"{widths[records, epsilon, 0.05, classes]:.3f}" for records in RECORDS)]
        for classes, epsilon in product(CLASSES, EPSILONS)
    ]
    pages.write("estimate-widths", ["classes", "ε", *sizes], rows)
    pages.write("inference-rows", ["question", "seconds", "MB"], big_rows())
    pages.fill()


def stored(path: Path) -> list[Cell]:
    """The cells of a file, the last of each."""
    with path.open(encoding="utf-8", newline="") as file:
        return list({one.key: one for one in map(Cell.of, csv.DictReader(file))}.values())


def store(path: Path, cells: list[Cell]) -> None:
    """Append cells to a file."""
    fresh = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if fresh:
            writer.writerow([field.name for field in fields(Cell)])
        for one in cells:
            *where, coverage, width, runs = astuple(one)
            writer.writerow([*where, f"{coverage:.5f}", f"{width:.8g}", runs])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=PARTS)
    parser.add_argument("--cells", type=Path, default=CELLS)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--big", choices=QUESTIONS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.big:
        ask_big(options.big)
        return
    check_moments()
    for name in PARTS if options.only is None else options.only:
        start = time.perf_counter()
        for one in PARTS[name]():
            store(options.cells, [one])
        print(f"{name}: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
    if options.write:
        cells = stored(options.cells)
        options.cells.unlink()
        store(options.cells, cells)
        publish(cells)


if __name__ == "__main__":
    main()

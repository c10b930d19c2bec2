"""How often the intervals of `labeldp.inference` hold what they speak of, and how wide they are.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/inference.py [--scale 1] [--write FILE]

Coverage of exact intervals of one count is added up over the law of the count: nothing is drawn. The others are
simulated, vectorized over runs; each cell has a seed of its own, which its name fixes. --scale multiplies the runs.
"""

import argparse
import resource
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit
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
    wilson,
)
from labeldp.inference.sequences import look_times, mixture_ends
from labeldp.privacy import Release

LEVEL = 0.95
RECORDS, EPSILONS, RATES, CLASSES = (200, 500, 5000), (0.5, 1.0, 2.0, 4.0), (0.01, 0.05, 0.3), (2, 4, 10, 50)
RISK = 0.001
"""Of the one-sided binomial tests over all simulated cells with a guarantee together."""

LEAST = 0.94
"""An asymptotic interval that holds less often than this is named."""

ENOUGH = 20_000
"""Runs that show that an asymptotic interval holds."""

FEW = 10
"""Cells below that are listed one by one."""

SCALE = 1.0


@dataclass(frozen=True)
class Cell:
    """One setting of one interval.

    Args:
        where: the setting, in words.
        method: which interval.
        promise: "exact", "finite sample", "anytime", "asymptotic" or "naive"; "elsewhere" of other programs.
        coverage: how often it holds.
        width: mean width; None where it is not measured.
        runs: how many were drawn; 0 where coverage is computed.
        records: how many a run has.
    """

    where: tuple[Any, ...]
    method: str
    promise: str
    coverage: float
    width: float | None
    runs: int
    records: int


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
            yield Cell((records, epsilon, rate, classes), method, promise, held, law @ (upper - lower), 0, records)


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
        yield Cell((records, epsilon, rate), "exact, one sum", "exact", held, width, 0, records)
        value = np.clip((totals - reach) / records, 0, 1)
        half = normal_quantile(LEVEL) * np.sqrt(value * (1 - value) / records)
        held = law[totals][np.abs(value - rate) <= half].sum()
        yield Cell(
            (records, epsilon, rate), "noise left out, one sum", "naive", held, law[totals] @ (2 * half), 0, records
        )


def effects() -> Iterator[Cell]:
    """A difference of two shares, of which one is twice the other."""
    runs = int(20_000 * SCALE)
    for records, epsilon, rate in product(RECORDS, EPSILONS, RATES):
        where, arm = (records, epsilon, rate), records // 2
        rng = generator("effects", *where)
        _, hit, miss = response(2, epsilon)
        gap, truth = hit - miss, rate
        hits = np.stack([rng.binomial(arm, miss + gap * share, runs) for share in (2 * rate, rate)]).astype(float)
        raw, (low, high) = hits / arm, wilson(hits, arm, LEVEL)
        lower, upper = (end / gap for end in recovered((raw[0], low[0], high[0]), (raw[1], low[1], high[1])))
        yield cell(where, "effect", "asymptotic", lower, upper, truth, records)
        half = normal_quantile(LEVEL) * np.sqrt((raw * (1 - raw) / arm).sum(axis=0))
        yield cell(
            where,
            "effect, answers taken as true",
            "naive",
            raw[0] - raw[1] - half,
            raw[0] - raw[1] + half,
            truth,
            records,
        )
        totals = [rng.binomial(arm, share, runs) + geometric(epsilon, runs, rng) for share in (2 * rate, rate)]
        found = []
        for total in totals:
            distinct, places = np.unique(total, return_inverse=True)
            ends = noisy_binomial(distinct, arm, epsilon, LEVEL)
            found.append((total / arm, ends[0][places], ends[1][places]))
        yield cell(where, "effect, two sums", "asymptotic", *recovered(*found), truth, records)


def summed() -> Iterator[Cell]:
    """The median of ten ordered classes from noisy counts, and a comparison of two models that differ on a tenth."""
    certificate = plain(response(10, 1.0)[0])
    for records, epsilon in product(RECORDS, EPSILONS):
        where, runs = (records, epsilon, "median"), int((4_000 if records <= 500 else 1_000) * SCALE)
        rng = generator(*where)
        shares = np.array([4, 6, 8, 10, 12, 14, 14, 12, 12, 8]) / 100  # the median is class 5
        groups = ldp.Public(np.repeat(np.arange(runs), records), why="runs")
        plan = inference.plan_sums("mean", ldp.Classes(10), epsilon, groups=groups)
        counts = rng.multinomial(records, shares, runs)
        noisy = counts + geometric(float(plan.rate), counts.size, rng).reshape(counts.shape)
        found = inference.quantile(Release(noisy, certificate, plan), groups=groups, simultaneous=False)
        yield cell(where, "median, noisy counts", "asymptotic", found.low, found.high, 5, records)
    for records, epsilon, rate in product(RECORDS, EPSILONS, RATES):
        where, runs = (records, epsilon, rate), int(20_000 * SCALE)
        rng = generator("comparison", *where)
        sizes = (records // 15, records // 30)
        parts = []
        for size, share in zip(sizes, (1 - rate, 0.5), strict=True):
            total = rng.binomial(size, share, runs) + geometric(epsilon, runs, rng)
            distinct, index = np.unique(total, return_inverse=True)
            ends = noisy_binomial(distinct, size, epsilon, LEVEL)
            parts.append([size / records * (2 * end - 1) for end in (total / size, ends[0][index], ends[1][index])])
        truth = sizes[0] / records * (1 - 2 * rate)
        yield cell(where, "comparison, two sums", "asymptotic", *recovered(*parts), truth, records)


def geometric(epsilon: float, size: int, rng: np.random.Generator) -> np.ndarray:
    """Two-sided geometric noise of a simulation."""
    chance = -np.expm1(-epsilon)
    return rng.geometric(chance, size) - rng.geometric(chance, size)


def cell(where: Any, method: str, promise: str, low: Any, high: Any, truth: Any, records: int) -> Cell:
    """One cell of runs, each with one interval or several that hold together, shape (runs, ...)."""
    held = (low <= truth) & (truth <= high)
    held = held.reshape(len(held), -1).all(axis=1)
    finite = np.isfinite(high - low)
    return Cell(where, method, promise, float(held.mean()), float((high - low)[finite].mean()), len(held), records)


def simultaneous() -> Iterator[Cell]:
    """All classes in all of five groups at once."""
    runs, groups = int(1000 * SCALE), 5
    for records, epsilon, classes in product(RECORDS, EPSILONS, CLASSES):
        where = (records, epsilon, classes)
        rng = generator("groups", *where)
        _, hit, miss = response(classes, epsilon)
        truth = np.linspace(1, 3, classes) / np.linspace(1, 3, classes).sum()
        counts = rng.multinomial(records // groups, miss + (hit - miss) * truth, (runs, groups))
        level = sidak(LEVEL, groups, classes if classes > 2 else 1)
        for name, each_level, promise in (("all groups and classes", level, "exact"), ("each at 95 %", LEVEL, "naive")):
            ends = [(end - miss) / (hit - miss) for end in clopper_pearson(counts, records // groups, each_level)]
            yield cell(where, name, promise, np.clip(ends[0], 0, 1), np.clip(ends[1], 0, 1), truth, records)


def recalls() -> Iterator[Cell]:
    """Recall of a rare class where a tenth of the records is flagged, and half of the class among them."""
    runs = int(20_000 * SCALE)
    for records, epsilon, rate in product(RECORDS, EPSILONS, RATES):
        where, flagged = (records, epsilon, rate), max(records // 10, int(rate * records))
        rng = generator("recall", *where)
        _, hit, miss = response(2, epsilon)
        gap = hit - miss
        shares_of = np.array([0.5 * rate * records / flagged, 0.5 * rate * records / (records - flagged)])
        truth = 0.5
        sizes = np.array([flagged, records - flagged])
        named = np.stack(
            [rng.binomial(size, miss + gap * share, runs) for size, share in zip(sizes, shares_of, strict=True)]
        )
        means, covariances = ratio_moments(named, sizes, hit, miss)
        low, high = fieller(means, covariances, LEVEL)
        yield cell(where, "recall, Fieller", "asymptotic", np.clip(low, 0, 1), np.clip(high, 0, 1), truth, records)
        top, bottom = means[:, 0], means[:, 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = top / bottom
            slope = np.stack([np.ones_like(ratio), -ratio], axis=1)
            half = normal_quantile(LEVEL) * np.sqrt(np.einsum("rs,rst,rt->r", slope, covariances, slope)) / bottom
        low, high = (
            np.where(bottom > 0, np.clip(end, 0, 1), border) for end, border in ((ratio - half, 0), (ratio + half, 1))
        )
        yield cell(where, "recall, delta method", "naive", low, high, truth, records)


def ratio_moments(named: np.ndarray, sizes: np.ndarray, hit: float, miss: float) -> tuple[np.ndarray, np.ndarray]:
    """Means and their covariance of indicator times flag, and of the indicator, from counts of answers, (2, runs)."""
    records = sizes.sum()
    values = np.array([(1 - miss) / (hit - miss), -miss / (hit - miss)])  # the answer names the class, or does not
    counts = np.stack([named, sizes[:, None] - named], axis=1)  # (flagged or not, named or not, runs)
    first, second = (np.einsum("far,a->fr", counts, values**power) / records for power in (1, 2))
    means = np.stack([first[0], first.sum(axis=0)], axis=1)
    squares = np.stack([np.stack([second[0], second[0]], 1), np.stack([second[0], second.sum(axis=0)], 1)], axis=1)
    return means, (squares - means[:, :, None] * means[:, None, :]) / (records - 1)


def areas() -> Iterator[Cell]:
    """Areas under the ROC and the precision-recall curve (the average precision), from answers and from two sums."""
    for records, epsilon, rate in product(RECORDS, EPSILONS, RATES):
        where = (records, epsilon, rate)
        rng = generator("area", *where)
        offset = {0.01: -5.6, 0.05: -3.8, 0.3: -1.1}[rate]
        chances = expit(offset + 1.5 * np.sort(rng.normal(size=400_000)))
        below = np.cumsum(1 - chances) - (1 - chances) / 2
        area = (chances * below).sum() / chances.sum() / (1 - chances).sum()
        precision = np.cumsum(chances[::-1])[::-1] / np.arange(len(chances), 0, -1)
        mechanism, hit, miss = response(2, epsilon)
        certificate = plain(mechanism)
        ends: dict[str, list[Any]] = {"area, Fieller": [], "average precision, Fieller": [], "area, two sums": []}
        block = 10_000 // records
        for _ in range(int(20_000 * SCALE) // block):
            x = np.sort(rng.normal(size=(block, records)), axis=1)
            labels = rng.random(x.shape) < expit(offset + 1.5 * x)
            second = ((rng.random(x.shape) < np.where(labels, hit, miss)) - miss) / (hit - miss)
            for method, found in zip(ends, area_ends(second), strict=False):
                ends[method].append(found)
        for _ in range(int((150 if records <= 500 else 30) * SCALE)):
            x = rng.normal(size=records)
            labels = rng.random(records) < expit(offset + 1.5 * x)
            model = ldp.Public(expit(x), why="drawn")
            used = inference.plan_sums("auc", mechanism.domain, epsilon, scores=model)
            release = Release(used.randomize(labels.astype(np.uint8), rng=rng), certificate, used)
            area_of_sums = inference.evaluate(release, model).auc()
            ends["area, two sums"].append([[area_of_sums.low, area_of_sums.high]])
        for method, drawn in ends.items():
            truth = (chances @ precision) / chances.sum() if "precision" in method else area
            yield cell(where, method, "asymptotic", *np.concatenate(drawn).T, truth, records)


def area_ends(second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
    terms = second * at + second * (np.cumsum(part, axis=1) - part) - np.cumsum(moved, axis=1) + moved
    means = np.concatenate([np.einsum("rn,rn->r", second, at)[:, None], total], axis=1) / count
    weights = total + second * (count - 2 * total)
    return ends_of(ordered, pairs / count, weights / count), ends_of(means, terms, second)


def ends_of(statistics: np.ndarray, top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """Fieller's interval of the ratio of two statistics of each run, (runs, 2), by their terms, (runs, n)."""
    count = top.shape[1]
    tops, bottoms = (terms - terms.mean(axis=1, keepdims=True) for terms in (top, bottom))
    cells = [np.einsum("rn,rn->r", a, b) for a, b in ((tops, tops), (tops, bottoms), (bottoms, bottoms))]
    covariance = np.stack([cells[0], cells[1], cells[1], cells[2]], axis=1).reshape(-1, 2, 2) / count / (count - 1)
    return np.clip(np.stack(fieller(statistics, covariance, LEVEL), axis=1), 0, 1)


def plain(mechanism: Any) -> Any:
    """A certificate of the mechanism's law."""
    labels = np.zeros(2, dtype=np.uint8)
    curator = ldp.Curator(labels, domain=mechanism.domain, budget=ldp.Budget(epsilon=9))
    return curator.release(mechanism, rng=np.random.default_rng(0)).certificate


def sequences() -> Iterator[Cell]:
    """A share, looked at at a hundred times."""
    runs = int(1000 * SCALE)
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
        yield Cell(where, "sequence, all looks", "anytime", float(held.mean()), width, runs, records)
        raw = hits / times
        half = normal_quantile(LEVEL) * np.sqrt(raw * (1 - raw) / times) / (hit - miss)
        late = times >= 50
        held = (np.abs((raw - miss) / (hit - miss) - rate) <= half)[:, late].all(axis=1)
        yield Cell(
            where,
            "95 % intervals at every look",
            "naive",
            float(held.mean()),
            float(2 * half[:, -1].mean()),
            runs,
            records,
        )


def numbers() -> Iterator[Cell]:
    """A mean of numbers, nine tenths of them zero: bets below 500 records, Student's interval from there on."""
    domain = ldp.mechanisms.Interval(0, 1, grid=101)
    for records, epsilon in product(RECORDS, EPSILONS):
        runs = int((150 if records < 500 else 2000) * SCALE)
        where = (records, epsilon, "numbers")
        rng = generator(*where)
        mechanism = ldp.DiscreteLaplace(domain=domain, epsilon=epsilon)
        labels = np.rint(100 * rng.beta(1, 3, (runs, records)) * (rng.random((runs, records)) < 0.1)).astype(np.uint8)
        noisy = mechanism.randomize(labels.ravel(), rng=rng)
        groups = np.repeat(np.arange(runs), records)
        release = Release(noisy, plain(mechanism), mechanism)
        found = inference.mean(release, groups=groups, simultaneous=False)
        order = np.argsort(np.array([int(name) for name in found.axes[0][1]]))
        truth = 0.1 * float(np.rint(100 * np.random.default_rng(0).beta(1, 3, 2_000_000)).mean() / 100)
        yield cell(where, "mean of numbers", found.guarantee, found.low[order], found.high[order], truth, records)


def thresholds() -> Iterator[Cell]:
    """How often a calibration covers at least 80 %, of which 95 % are promised; the width is the number of classes."""
    runs = int(40 * SCALE)
    for records, epsilon, classes in product((500,), (1.0, 2.0, 4.0), CLASSES):
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
        yield Cell(
            where, "conformal, bets", "finite sample", float(np.mean(reached)), float(np.mean(size)), runs, records
        )


def check_moments() -> None:
    """The vectorized recall, and both areas, are those of `evaluate`."""
    mechanism, hit, miss = response(2, 1.0)
    rng = np.random.default_rng(0)
    flags, noisy = np.arange(500) < 50, rng.integers(0, 2, 500).astype(np.uint8)
    model = ldp.Public(np.where(flags, 0.9, 0.1), why="made up")
    found = inference.evaluate(Release(noisy, plain(mechanism), mechanism), model, simultaneous=False).recall()
    named = np.array([[noisy[flags].sum()], [noisy[~flags].sum()]])
    ends = fieller(*ratio_moments(named, np.array([50, 450]), hit, miss), LEVEL)
    assert np.allclose([found.low[1], found.high[1]], np.clip(np.ravel(ends), 0, 1), atol=1e-3)
    x = rng.random(500)
    scores = inference.evaluate(Release(noisy, plain(mechanism), mechanism), ldp.Public(x, why="made up"))
    both = area_ends(((noisy - miss) / (hit - miss))[np.argsort(x)][None])
    for found, [ends] in zip((scores.auc(), scores.average_precision()), both, strict=True):
        assert np.allclose([found.low, found.high], ends)


PARTS: dict[str, Callable[[], Iterator[Cell]]] = {
    "Shares": shares, "Sums": sums, "Questions of sums": summed, "Several shares": simultaneous, "Effects": effects,
    "Recall": recalls, "Areas": areas, "Numbers": numbers, "Looks": sequences, "Prediction sets": thresholds,
}  # fmt: skip


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def summary(cells: list[Cell]) -> list[str]:
    """A row for each method: the smallest and the largest coverage of each number of records, and the mean width."""
    lines = ["| interval | promise | cells | runs | " + " | ".join(f"n = {n:,}" for n in RECORDS) + " |"]
    lines.append("|---|---|---|---|" + "---|" * len(RECORDS))
    for method in dict.fromkeys(one.method for one in cells):
        rows = [one for one in cells if one.method == method]
        columns = []
        for records in RECORDS:
            here = [one for one in rows if one.records == records]
            ends = [percent(extreme(one.coverage for one in here)) for extreme in (min, max)] if here else []
            columns.append(f"{' to '.join(ends)}; {np.mean([one.width for one in here]):.3f}" if here else "")
        runs = sorted({one.runs for one in rows})
        drawn = "computed" if runs == [0] else " or ".join(f"{count:,}" for count in runs)
        promise = "; ".join(dict.fromkeys(one.promise for one in rows))
        lines.append(f"| {method} | {promise} | {len(rows)} | {drawn} | " + " | ".join(columns) + " |")
    return lines


def promised(cells: list[Cell]) -> list[Cell]:
    """Cells whose interval has a guarantee for every number of records."""
    return [one for one in cells if one.promise in ("exact", "finite sample", "anytime")]


def broken(cells: list[Cell]) -> list[Cell]:
    """Cells with a guarantee that do not keep it: computed ones outright, others by a test at a joint risk."""
    listed = promised(cells)
    risk = RISK / max(sum(one.runs > 0 for one in listed), 1)
    return [
        one
        for one in listed
        if one.coverage < (binom.ppf(risk, one.runs, LEVEL) / one.runs if one.runs else LEVEL - 1e-6)
    ]


def weak(one: Cell) -> bool:
    """Whether an asymptotic interval holds less often than `LEAST`, by more than two standard errors."""
    slack = 2 * (LEAST * (1 - LEAST) / one.runs) ** 0.5 if one.runs else 0.0
    return one.promise == "asymptotic" and one.coverage < LEAST - slack


PAGE = """# Coverage of estimates

How often the 95 % intervals of `labeldp.inference` hold what they speak of, and how wide they are: n = 200, 500, 5,000
records, ε = 0.5, 1, 2, 4, rates of 1, 5, 30 % and, for shares, 2, 4, 10, 50 classes.

```console
$ OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/inference.py{scale} --write docs/results/inference.md
```

A column has the smallest and the largest coverage of its cells in percent, and their mean width. *Computed* coverage is
added up over the law of the count: nothing is drawn. The other cells are simulated, with seeds that were fixed
beforehand. *Naive* methods stand beside them for comparison; `labeldp` has none of them.
"""


OTHERS = """Mean width, and coverage in percent, of intervals of a share of 5 % of two classes. Everything is computed
and clipped to [0, 1]. RRreg takes λ(1 − λ)/(n(p − q)²) for the variance, for a rate λ of answers: its interval is the
normal one. NPRR is randomized response for numbers in [0, 1], here with two outputs and r = p − q. Its interval for
every number of records is Hoeffding's, √(ln(2/α)/2n)/r to both sides. Both speak of the same answers as the exact
interval."""

BIG = 10_000_000

QUESTIONS: dict[str, Callable[..., Any]] = {
    "share by 10 groups": lambda release, groups, flags, model: inference.mean(release, groups=groups),
    "effect": lambda release, groups, flags, model: inference.difference(release, flags),
    "effect by 10 groups": lambda release, groups, flags, model: inference.difference(release, flags, groups=groups),
    "accuracy": lambda release, groups, flags, model: inference.evaluate(release, model).accuracy(),
    "precision": lambda release, groups, flags, model: inference.evaluate(release, model).precision(),
    "recall": lambda release, groups, flags, model: inference.evaluate(release, model).recall(),
    "Brier score": lambda release, groups, flags, model: inference.evaluate(release, model).brier(),
    "ROC curve, 10 points": lambda release, groups, flags, model: inference.evaluate(release, model).roc(10),
    "area under the ROC curve": lambda release, groups, flags, model: inference.evaluate(release, model).auc(),
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


def rows_table() -> list[str]:
    """A line for each question about many rows, each in a process of its own."""
    lines = [
        f"## {BIG:,} released rows", "",
        "Processor seconds of one core, and the most memory that a process held, with its 70 MB of columns: answers, a",
        "group, an arm and a probability for each row. Areas sort all rows; all else passes through them in blocks.",
        "", "| question | seconds | MB |", "|---|---|---|",
    ]  # fmt: skip
    for name in QUESTIONS:
        ran = subprocess.run([sys.executable, __file__, "--big", name], capture_output=True, text=True, check=True)
        seconds, peak = ran.stdout.split()
        print(f"{name}: {seconds} s, {peak} MB", file=sys.stderr, flush=True)
        lines.append(f"| {name} | {seconds} | {peak} |")
    return lines


def page(results: dict[str, list[Cell]], scale: float) -> str:
    """The page of all tables."""
    cells = [one for rows in results.values() for one in rows]
    short, listed = broken(cells), promised(cells)
    lines = [PAGE.format(scale="" if scale == 1 else f" --scale {scale:g}")]
    lines += [
        f"**With a guarantee** (exact, finite sample, anytime): of {len(listed)} cells {len(short) or 'none'} "
        f"{'is' if not short else 'are'} refused at 95 %. Computed cells are\n"
        f"compared outright, the {sum(one.runs > 0 for one in listed)} simulated ones by one-sided "
        f"binomial tests at {RISK:g} over all of them.",
        *(f"- {one.method}, {one.where}: {percent(one.coverage)} %" for one in short),
        "",
        f"**Asymptotic**: the least number of records from which on no cell holds less often than "
        f"{100 * LEAST:.0f} %,\nby more than two standard errors.",
        "",
        f"Fewer than {ENOUGH:,} runs can show that an interval fails, and not that it holds.",
        "",
        "| interval | runs | cells below | lowest | holds from n |",
        "|---|---|---|---|---|",
    ]
    for method in dict.fromkeys(one.method for one in cells if one.promise == "asymptotic"):
        rows = [one for one in cells if one.method == method and one.promise == "asymptotic"]
        failing = [one for one in rows if weak(one)]
        larger = [n for n in RECORDS if all(one.records < n for one in failing)]
        from_n = f"{min(larger):,}" if larger else f"more than {max(RECORDS):,}"
        runs = sorted({one.runs for one in rows})
        drawn = "computed" if runs == [0] else " to ".join(f"{count:,}" for count in sorted({runs[0], runs[-1]}))
        if 0 < runs[0] < ENOUGH:
            from_n = "not shown" if len(larger) == len(RECORDS) else f"not below {from_n}"
        lowest = percent(min(one.coverage for one in rows))
        lines.append(f"| {method} | {drawn} | {len(failing)} of {len(rows)} | {lowest} % | {from_n} |")
    below: dict[str, list[Cell]] = {}
    for one in filter(weak, cells):
        below.setdefault(one.method, []).append(one)
    for method, failing in below.items():
        if len(failing) <= FEW:
            settings = ", ".join(f"{one.where} {percent(one.coverage)} %" for one in failing)
            lines += ["", f"Cells of {method} below, by (records, ε, rate): {settings}."]
    for name, rows in results.items():
        lines += ["", f"## {name}", "", (PARTS[name].__doc__ or "").split("\n")[0], "", *summary(rows)]
    exact = [one for one in results.get("Shares", []) if one.method == "exact"]
    if exact:
        lines += ["", "## Width of the exact interval of a share of 5 %", ""]
        lines.append("| classes | ε | " + " | ".join(f"n = {n:,}" for n in RECORDS) + " |")
        lines.append("|---|---|" + "---|" * len(RECORDS))
        for count, epsilon in product(CLASSES, EPSILONS):
            widths = {one.records: one.width for one in exact if one.where[1:] == (epsilon, 0.05, count)}
            lines.append(f"| {count} | {epsilon:g} | " + " | ".join(f"{widths[n]:.3f}" for n in RECORDS) + " |")
        lines += ["", "## Beside the formulas of other programs", "", OTHERS, ""]
        lines.append("| ε | records | exact | RRreg's formula | NPRR's of Hoeffding |")
        lines.append("|---|---|---|---|---|")
        for epsilon, records in product(EPSILONS, RECORDS):
            here = [one for one in results["Shares"] if one.where == (records, epsilon, 0.05, 2)]
            texts = {one.method: f"{one.width:.3f}; {percent(one.coverage)}" for one in here}
            shown = [texts[name] for name in ("exact", "normal, on request", "NPRR's of Hoeffding")]
            lines.append(f"| {epsilon:g} | {records:,} | " + " | ".join(shown) + " |")
    lines += ["", *rows_table()]
    return "\n".join(lines) + "\n"


def main() -> None:
    global SCALE
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--write", type=Path)
    parser.add_argument("--big", choices=QUESTIONS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.big:
        ask_big(options.big)
        return
    SCALE = options.scale
    check_moments()
    results = {}
    for name in options.only or PARTS:
        start = time.perf_counter()
        results[name] = list(PARTS[name]())
        print(f"{name}: {len(results[name])} cells, {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
    text = page(results, options.scale)
    if options.write:
        options.write.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()

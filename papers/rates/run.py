"""Zhao et al.: the runs of Table I and of the number of classes, and the slopes that they show."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from labeldp.advice.rates import exponent
from labeldp.fit import epsilon_of
from labeldp.privacy import InputError, decimal_text
from papers import harness
from papers.harness import Experiment, Hooks, Json, Progress, Stored, listed
from papers.rates import learners, rows
from papers.rates.learners import CLASSES, METHODS_OF_CLASSES, excess_of_classes
from papers.rates.rows import DIMENSIONS, FAMILIES, RECORDS, ROWS, measure
from papers.rates.table import rate

SMOOTH = "smooth"
"""The family of distributions that is taken where none is named."""

OF_CLASSES = {f"classes-{method}": method for method in METHODS_OF_CLASSES}
"""Rows that vary the number of classes in place of the records, and how they randomize."""


@dataclass(frozen=True)
class RateRun(harness.SeededRun):
    """One row with one noise; all of it is public.

    Args:
        row: a key of `ROWS` or of `OF_CLASSES`.
        dimension: d; 0 where classes vary.
        epsilon: of every label; 0 without protection.
        seed: of instances, labels and noise.
        family: a key of `FAMILIES`.
    """

    row: str
    dimension: int
    epsilon: float
    seed: int
    family: str = SMOOTH

    @property
    def name(self) -> str:
        """The name of its file; different runs have different names."""
        words = [self.row, *([f"d{self.dimension}"] if self.dimension else [])]
        words += [f"epsilon{decimal_text(self.epsilon)}"] if self.epsilon else []
        words += [self.family] if self.family != SMOOTH else []
        return "-".join([*words, f"seed{self.seed}"])

    @property
    def title(self) -> str:
        """Its name for people."""
        words = [self.row, *([f"d = {self.dimension}"] if self.dimension else [])]
        words += [f"ε = {self.epsilon:g}"] if self.epsilon else []
        words += [self.family] if self.family != SMOOTH else []
        return ", ".join([*words, f"noise {self.seed + 1}"])


@dataclass(frozen=True)
class RateGrid:
    """All runs of one command.

    Args:
        records: numbers of records, rising.
        runs: in the order in which they are made: the first noise of everything, then the second.
    """

    records: tuple[int, ...]
    runs: tuple[RateRun, ...]

    @classmethod
    def parse(
        cls, *, rows: str | None, epsilon: str | None, records: str | None, seeds: int, family: str = SMOOTH
    ) -> "RateGrid":
        """Return the grid of the options of a command line; None for everything as in `docs/results/papers.md#rates`.

        Raises:
            InputError: the first option that is wrong.
        """
        names = [*ROWS, *OF_CLASSES]
        words = listed(rows, "rows") if rows is not None else [""]
        for word in words:
            if not any(name.startswith(word) for name in names):
                raise InputError(f"--rows must be names, or beginnings of names, of {', '.join(names)}; not {word!r}")
        chosen = [name for name in names if any(name.startswith(word) for word in words)]
        epsilons = tuple(listed(epsilon, "epsilon", epsilon_of)) if epsilon is not None else None
        counts = tuple(listed(records, "records", _count)) if records is not None else RECORDS
        if len(counts) < 2 or list(counts) != sorted(set(counts)):
            raise InputError("--records must hold at least two numbers, rising: a slope needs them")
        harness.check_seeds(seeds)
        families = listed(family, "family")
        if not set(families) <= set(FAMILIES):
            raise InputError(f"--family must be one or more of {', '.join(FAMILIES)}")
        first = [run for each in families for name in chosen for run in _first_runs(name, each, epsilons)]
        return cls(counts, tuple(replace(run, seed=seed) for seed in range(seeds) for run in first))


def _first_runs(name: str, family: str, epsilons: tuple[float, ...] | None) -> list[RateRun]:
    """Return a row with all its dimensions and epsilons, and the first seed; classes know no smoothness."""
    if name in OF_CLASSES:
        return [RateRun(name, 0, each, 0) for each in epsilons or (learners.EPSILON,) if family == SMOOTH]
    own = (epsilons or ROWS[name].epsilons) if ROWS[name].trust else (0.0,)
    return [RateRun(name, dimension, each, 0, family) for dimension in DIMENSIONS for each in own]


def _count(text: str) -> int:
    """Return a number of records, such as 1e6."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 100 <= value <= 1e12:
        raise InputError("--records must be numbers from 100 to 1e12, such as 1e6")
    return round(value)


@dataclass(frozen=True)
class RatePoint:
    """The excess risk of one learner on one instance.

    Args:
        at: the number of records; of classes where these vary.
        instance: which of the instances of one run.
        excess: exact, given records and noise.
    """

    at: int
    instance: str
    excess: float


@dataclass(frozen=True)
class RateResult(Stored):
    """What one run found, and what it came from.

    Args:
        run: what was asked for.
        points: for every number of records, or of classes, and every instance.
        constants: what the code fixed.
        seconds: of wall-clock time.
        versions: of Python and packages.
        date: when it ended.
    """

    COMMAND = "rates"
    NOTE = "SIMULATION: labels are made up, and noise comes from a public seed"

    run: RateRun
    points: tuple[RatePoint, ...]
    constants: Json
    seconds: float
    versions: dict[str, str]
    date: str

    @classmethod
    def parts(cls, content: Json) -> Json:
        """Return run and points."""
        points = tuple(RatePoint(**point) for point in content["points"])
        return {"run": RateRun(**content["run"]), "points": points}


@dataclass(frozen=True)
class RateExperiment(Experiment[RateRun, RateResult]):
    """Rows of Table I, measured at some numbers of records."""

    records: tuple[int, ...]

    stored = RateResult

    def constants(self, run: RateRun) -> Json:
        """Return what the code fixes for a run."""
        if run.row in OF_CLASSES:
            return learners.constants_of_classes()
        return {**rows.constants(ROWS[run.row], FAMILIES[run.family]), "records": self.records}

    def measure(self, run: RateRun, place: Path, show: Progress) -> RateResult:
        """Return the excess risks of a run."""
        points, seconds = harness.timed(lambda: tuple(self._points(run)))
        return RateResult(run, points, **self.origin(run, seconds))

    def _points(self, run: RateRun) -> Iterator[RatePoint]:
        rng = run.rng()
        if run.row in OF_CLASSES:
            for size in CLASSES:
                for lead, excess in excess_of_classes(OF_CLASSES[run.row], size, run.epsilon, rng=rng):
                    yield RatePoint(size, f"lead {lead:.3g}", excess)
            return
        for count in self.records:
            for each in measure(ROWS[run.row], run.dimension, FAMILIES[run.family], run.epsilon, count, rng=rng):
                yield RatePoint(count, f"{each.per_axis} bumps, tail {each.tail:g}", each.excess)


def reproduce_rates(grid: RateGrid, *, out: str, **hooks: Unpack[Hooks]) -> list[RateResult]:
    """Make every run of a grid that has no file yet, on made-up instances and labels, with noise from public seeds.

    Args:
        grid: what to run.
        out: a folder, made if need be: `runs` holds a JSON file for each run.
        hooks: functions that are called meanwhile, as `Hooks` says.

    Returns:
        All results in the folder, of other grids too.

    Raises:
        InputError: the folder holds something else, or runs with other constants. No run was started.
    """
    experiment = RateExperiment(grid.records)
    return experiment.run_missing(grid.runs, harness.results_folder(out), **hooks)


RESAMPLES, LEVEL = 1000, 0.95
CONSTANTS = 4.0
"""The constants of the two terms of a rate are not known; by how much they may differ."""

MIN_POINTS = 4
"""Numbers of records from which on their scatter around a line is part of its interval."""

REACHED = 0.1
"""A slope this near to the predicted one counts as reached."""


@dataclass(frozen=True)
class Slope:
    """The excess risk of the hardest instances, and how it falls.

    Args:
        row: a key of `ROWS`.
        dimension: d.
        epsilon: 0 without protection.
        noises: runs behind every number.
        records: N, rising.
        risks: mean excess risk on the hardest instance at each N.
        measured: slope of log risk against log N, by least squares.
        low, high: 95 % interval of it, of noise and data; NaN for a single run.
        predicted: slope of the log of the corrected rate, over the same N.
        limit: its slope as N grows beyond: minus the exponent of Table I.
        family: a key of `FAMILIES`.
        possible: the lowest and the highest slope of a rate whose two terms, of data and of privacy, have constants
            that differ by up to `CONSTANTS`, either way.
    """

    row: str
    dimension: int
    epsilon: float
    noises: int
    records: tuple[int, ...]
    risks: tuple[float, ...]
    measured: float
    low: float
    high: float
    predicted: float
    limit: float
    family: str = SMOOTH
    possible: tuple[float, float] = (np.nan, np.nan)

    @property
    def task(self) -> str:
        """Of `labeldp.advice.rates.TASKS`."""
        return ROWS[self.row].task

    @property
    def trust(self) -> str:
        """Who sees the labels before the noise: "local" or "central"; "" without protection."""
        return ROWS[self.row].trust

    @property
    def printed(self) -> bool:
        """Whether the learner was tuned as the paper prints it, where that was corrected."""
        return ROWS[self.row].printed

    @property
    def reached(self) -> bool:
        """Whether the slope is near the predicted one."""
        return abs(self.measured - self.predicted) <= REACHED

    @property
    def held(self) -> bool:
        """Whether the interval holds the predicted slope."""
        return self.low <= self.predicted <= self.high

    @property
    def held_possibly(self) -> bool:
        """Whether the interval holds a possible slope."""
        return self.low <= self.possible[1] and self.possible[0] <= self.high


@dataclass(frozen=True)
class ClassCurve:
    """The excess risk of the hardest lead, by the number of classes.

    Args:
        method: a key of `METHODS_OF_CLASSES`.
        epsilon: of every label.
        noises: runs behind every number.
        classes: K, rising.
        risks: mean excess risk at each K.
        spreads: standard deviation over runs at each K, 0 for a single one.
    """

    method: str
    epsilon: float
    noises: int
    classes: tuple[int, ...]
    risks: tuple[float, ...]
    spreads: tuple[float, ...]


def slopes(results: Sequence[RateResult]) -> list[Slope]:
    """Return a slope for each row, dimension and epsilon, in the order of Table I."""
    order = list(ROWS)
    found = [_slope(group) for group in _groups([each for each in results if each.run.row in ROWS])]
    families = list(FAMILIES)
    return sorted(
        found,
        key=lambda each: (families.index(each.family), order.index(each.row), each.dimension, each.epsilon),
    )


def class_curves(results: Sequence[RateResult]) -> list[ClassCurve]:
    """Return a curve for each way to randomize classes, and each epsilon."""
    order, curves = list(OF_CLASSES), list[ClassCurve]()
    groups = _groups([each for each in results if each.run.row in OF_CLASSES])
    for group in sorted(groups, key=lambda each: (each[0].run.epsilon, order.index(each[0].run.row))):
        sizes, tables = _tables(group)
        hardest = [table[:, table.mean(axis=0).argmax()] for table in tables]
        spreads = tuple(float(each.std(ddof=1)) if len(group) > 1 else 0.0 for each in hardest)
        risks = tuple(float(each.mean()) for each in hardest)
        run = group[0].run
        curves.append(ClassCurve(OF_CLASSES[run.row], run.epsilon, len(group), sizes, risks, spreads))
    return curves


def _groups(results: Sequence[RateResult]) -> Iterator[list[RateResult]]:
    """Yield runs that differ in nothing but the noise."""

    def key(each: RateResult) -> tuple[str, str, int, float]:
        return each.run.family, each.run.row, each.run.dimension, each.run.epsilon

    for _, group in groupby(sorted(results, key=key), key=key):
        yield list(group)


def _tables(group: Sequence[RateResult]) -> tuple[tuple[int, ...], list[NDArray[np.float64]]]:
    """Return records or classes, and for each the excess risks, shape (runs, instances)."""
    points = [[(point.at, point.excess) for point in each.points] for each in group]
    places = tuple(dict.fromkeys(at for at, _ in points[0]))
    return places, [np.array([[excess for at, excess in row if at == place] for row in points]) for place in places]


def _slope(group: Sequence[RateResult]) -> Slope:
    """Fit a line to the hardest instances, and others to those of runs drawn anew."""
    run, (records, tables) = group[0].run, _tables(group)
    risks = np.array([table.mean(axis=0).max() for table in tables])
    setting = ROWS[run.row].setting(run.dimension, FAMILIES[run.family])
    rates = np.array([rate(records=each, epsilon=run.epsilon or None, **setting) for each in records])
    measured, low, high = float(_fitted(records, risks)), np.nan, np.nan
    if len(group) > 1:
        low, high = _interval(records, tables)
        spread = _spread(records, risks / rates)
        low, high = min(low, measured - spread), max(high, measured + spread)
    return Slope(
        run.row,
        run.dimension,
        run.epsilon,
        len(group),
        records,
        tuple(map(float, risks)),
        measured,
        float(low),
        float(high),
        float(_fitted(records, rates)),
        -exponent(**setting),
        run.family,
        _possible(records, rates, setting),
    )


def _interval(records: Sequence[int], tables: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the percentile bootstrap over runs; each resample chooses its hardest instances anew.

    A resample without any risk at some number of records has no slope, and is left out.
    """
    runs = len(tables[0])
    weights = np.random.default_rng(0).multinomial(runs, [1 / runs] * runs, RESAMPLES) / runs
    risks = np.stack([(weights @ table).max(axis=1) for table in tables], axis=1)
    tail = (1 - LEVEL) / 2
    fitted = _fitted(records, np.where(risks > 0, risks, np.nan))
    return np.asarray(np.nanquantile(fitted, [tail, 1 - tail]))


def _possible(records: Sequence[int], rates: NDArray[np.float64], setting: dict[str, Any]) -> tuple[float, float]:
    """Return the lowest and the highest slope of data's term plus privacy's, times or over `CONSTANTS` at most."""
    plain = {name: value for name, value in setting.items() if name != "trust"} | {"protection": "none"}
    data = np.array([rate(records=each, epsilon=None, **plain) for each in records])
    privacy = np.maximum(rates - data, 0)
    found = [float(_fitted(records, data + factor * privacy)) for factor in (1 / CONSTANTS, 1.0, CONSTANTS)]
    return min(found), max(found)


def _spread(records: Sequence[int], ratios: NDArray[np.float64]) -> float:
    """Return half of the 95 % interval of a slope whose points lie off their line as ratios of risk and rate do.

    The instances are redrawn in every run, but sides of cubes and widths of bumps are whole numbers that jump with N:
    of that runs at the same N say nothing, and the scatter of the points around the line does. Below four points it
    says too little, and 0 is returned.
    """
    if len(records) < MIN_POINTS:
        return 0.0
    away = np.log(records) - np.log(records).mean()
    off = np.log(ratios) - np.log(ratios).mean() - _fitted(records, ratios) * away
    free = len(records) - 2
    return float(student.ppf((1 + LEVEL) / 2, free) * np.sqrt(off @ off / free / (away @ away)))


def _fitted(records: Sequence[int], risks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return slopes of lines through log risks, shape (..., records), against log records, by least squares."""
    away = np.log(records) - np.log(records).mean()
    return np.asarray(np.log(risks) @ away / (away @ away), dtype=np.float64)

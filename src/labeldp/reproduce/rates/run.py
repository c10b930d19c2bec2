"""Zhao: grid, runs, slopes."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import InputError, all_digits
from labeldp.reproduce.multistage.run import Progress, Told
from labeldp.reproduce.rates import learners, rows
from labeldp.reproduce.rates.learners import CLASSES, METHODS_OF_CLASSES, excess_of_classes
from labeldp.reproduce.rates.rows import DIMENSIONS, RECORDS, ROWS, measure
from labeldp.reproduce.runs import Stored, make, now, results_folder, timed, versions
from labeldp.theory import exponent, rate
from labeldp.workflows import epsilon_of

OF_CLASSES = {f"classes-{method}": method for method in METHODS_OF_CLASSES}
"""Rows that vary the number of classes in place of the records, and how they randomize."""


@dataclass(frozen=True)
class RateRun:
    """One row with one noise; all of it is public.

    Args:
        row: a key of `ROWS` or of `OF_CLASSES`.
        dimension: d; 0 where classes vary.
        epsilon: of every label; 0 without protection.
        seed: of instances, labels and noise.
    """

    row: str
    dimension: int
    epsilon: float
    seed: int

    @property
    def name(self) -> str:
        """Of its file; different runs have different names."""
        words = [self.row, *([f"d{self.dimension}"] if self.dimension else [])]
        words += [f"epsilon{all_digits(self.epsilon)}"] if self.epsilon else []
        return "-".join([*words, f"seed{self.seed}"])

    @property
    def title(self) -> str:
        """For people."""
        words = [self.row, *([f"d = {self.dimension}"] if self.dimension else [])]
        words += [f"ε = {self.epsilon:g}"] if self.epsilon else []
        return ", ".join([*words, f"noise {self.seed + 1}"])

    def rng(self) -> np.random.Generator:
        """The randomness of this run alone: reproducible, and so a simulation."""
        return np.random.default_rng(list(hashlib.sha256(self.name.encode()).digest()))


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
    def parse(cls, *, rows: str | None, epsilon: str | None, records: str | None, seeds: int) -> "RateGrid":
        """A grid as it is written on a command line; None for everything as in `docs/results/rates.md`.

        Raises:
            InputError: the first that is wrong.
        """
        names = [*ROWS, *OF_CLASSES]
        words = _listed(rows, "rows") if rows is not None else [""]
        for word in words:
            if not any(name.startswith(word) for name in names):
                raise InputError(f"--rows must be names, or beginnings of names, of {', '.join(names)}; not {word!r}")
        chosen = [name for name in names if any(name.startswith(word) for word in words)]
        epsilons = tuple(epsilon_of(each) for each in _listed(epsilon, "epsilon")) if epsilon is not None else None
        counts = tuple(_count(each) for each in _listed(records, "records")) if records is not None else RECORDS
        if len(counts) < 2 or list(counts) != sorted(set(counts)):
            raise InputError("--records must hold at least two numbers, rising: a slope needs them")
        if seeds < 1:
            raise InputError("--seeds must be at least 1")
        ways = [way for name in chosen for way in _ways(name, epsilons)]
        return cls(counts, tuple(RateRun(*way, seed) for seed, way in product(range(seeds), ways)))


def _ways(name: str, epsilons: tuple[float, ...] | None) -> list[tuple[str, int, float]]:
    """A row in all dimensions and with every epsilon."""
    if name in OF_CLASSES:
        return [(name, 0, each) for each in epsilons or (learners.EPSILON,)]
    own = (epsilons or ROWS[name].epsilons) if ROWS[name].trust else (0.0,)
    return [(name, dimension, each) for dimension in DIMENSIONS for each in own]


def _listed(text: str, option: str) -> list[str]:
    """The parts of a text with commas, each once."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts) or len(set(parts)) < len(parts):
        raise InputError(f"--{option} must hold distinct values, separated by commas")
    return parts


def _count(text: str) -> int:
    """A number of records, such as 1e6."""
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

    COMMAND = "reproduce rates"
    NOTE = "SIMULATION: labels are made up, and noise comes from a public seed"

    run: RateRun
    points: tuple[RatePoint, ...]
    constants: dict[str, Any]
    seconds: float
    versions: dict[str, str]
    date: str

    @classmethod
    def parts(cls, content: dict[str, Any]) -> dict[str, Any]:
        """Run and points."""
        points = tuple(RatePoint(**point) for point in content["points"])
        return {"run": RateRun(**content["run"]), "points": points}


def reproduce_rates(
    grid: RateGrid,
    *,
    out: str,
    told: Told | None = None,
    publish: Callable[[Sequence[RateResult]], object] | None = None,
    progress: Progress | None = None,
) -> list[RateResult]:
    """Make every run of a grid that has no file yet; commands at the same time on one folder share the work.

    Everything is made up: instances of `labeldp.theory`, labels drawn from them, noise from public seeds.

    Args:
        grid: what to run.
        out: a folder, made if need be: `runs` holds a JSON file for each run.
        told: called with a sentence when another command is at a run.
        publish: called with all results in the folder after each noise of everything.
        progress: called with what is being done and the share of the work that is done.

    Returns:
        All results in the folder, of other grids too.

    Raises:
        InputError: the folder holds something else, or runs with other constants. No run was started.
    """
    say, show = told or (lambda sentence: None), progress or (lambda text, share: None)
    folder = results_folder(out)
    for run in grid.runs:
        RateResult.standing(folder, run, _constants(run, grid.records))
    for place, run in enumerate(grid.runs):
        show(run.title, place / len(grid.runs))
        if publish is not None and place and run.seed > grid.runs[place - 1].seed:
            publish(RateResult.all_in(folder))
        _make(folder, run, grid.records, say)
    return RateResult.all_in(folder)


def _make(folder: Path, run: RateRun, records: tuple[int, ...], say: Told) -> None:
    """One run, unless it stands or somebody else is at it."""
    constants = _constants(run, records)

    def measured(place: Path) -> RateResult:
        points, seconds = timed(lambda: tuple(_points(run, records)))
        return RateResult(run, points, constants, seconds, versions(False), now())

    make(folder, run, lambda: RateResult.standing(folder, run, constants), measured, say)


def _points(run: RateRun, records: tuple[int, ...]) -> list[RatePoint]:
    """What is measured in a run."""
    rng = run.rng()
    if (method := OF_CLASSES.get(run.row)) is not None:
        found = partial(excess_of_classes, method, epsilon=run.epsilon, rng=rng)
        return [RatePoint(size, f"lead {lead:.3g}", excess) for size in CLASSES for lead, excess in found(classes=size)]
    points = []
    for count in records:
        for each in measure(ROWS[run.row], run.dimension, run.epsilon, count, rng=rng):
            points.append(RatePoint(count, f"{each.per_axis} bumps, tail {each.tail:g}", each.excess))
    return points


def _constants(run: RateRun, records: tuple[int, ...]) -> dict[str, Any]:
    """What the code fixes for a run."""
    if run.row in OF_CLASSES:
        names: tuple[str, ...] = ("CLASSES", "CELLS", "RECORDS_IN_CELL", "LEADS", "FIRST")
        return {name: getattr(learners, name) for name in names}
    if ROWS[run.row].task == "classification":
        names = ("BETA", "MARGIN", "AMPLITUDE", "FINEST", "REPEATS")
    else:
        names = ("BETA", "MARGIN", "MOMENTS", "AMPLITUDE", "WIDTHS", "TAILS", "POINTS", "REPEATS")
    own = {"constant": ROWS[run.row].constant, "records": records}
    return {**{name: getattr(rows, name) for name in names}, **own}


RESAMPLES, LEVEL = 1000, 0.95

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
        low, high: 95 % interval of it over runs; NaN for a single one.
        predicted: slope of the log of the corrected rate, over the same N.
        limit: its slope as N grows beyond: minus the exponent of Table I.
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

    @property
    def task(self) -> str:
        """Of `labeldp.theory.TASKS`."""
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
    """A slope for each row, dimension and epsilon, in the order of Table I."""
    order = list(ROWS)
    found = [_slope(group) for group in _groups([each for each in results if each.run.row in ROWS])]
    return sorted(found, key=lambda each: (order.index(each.row), each.dimension, each.epsilon))


def class_curves(results: Sequence[RateResult]) -> list[ClassCurve]:
    """A curve for each way to randomize classes, and epsilon."""
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
    """Runs that differ in nothing but the noise."""

    def key(each: RateResult) -> tuple[str, int, float]:
        return each.run.row, each.run.dimension, each.run.epsilon

    for _, group in groupby(sorted(results, key=key), key=key):
        yield list(group)


def _tables(group: Sequence[RateResult]) -> tuple[tuple[int, ...], list[NDArray[np.float64]]]:
    """Records or classes, and for each the excess risks, shape (runs, instances)."""
    points = [[(point.at, point.excess) for point in each.points] for each in group]
    places = tuple(dict.fromkeys(at for at, _ in points[0]))
    return places, [np.array([[excess for at, excess in row if at == place] for row in points]) for place in places]


def _slope(group: Sequence[RateResult]) -> Slope:
    """The line through the hardest instances, and lines through those of runs drawn anew."""
    run, (records, tables) = group[0].run, _tables(group)
    risks = np.array([table.mean(axis=0).max() for table in tables])
    low, high = _interval(records, tables) if len(group) > 1 else (np.nan, np.nan)
    setting = ROWS[run.row].setting(run.dimension)
    rates = [rate(records=each, epsilon=run.epsilon or None, **setting) for each in records]
    return Slope(
        run.row,
        run.dimension,
        run.epsilon,
        len(group),
        records,
        tuple(map(float, risks)),
        float(_fitted(records, risks)),
        float(low),
        float(high),
        float(_fitted(records, np.array(rates))),
        -exponent(**setting),
    )


def _interval(records: Sequence[int], tables: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The percentile bootstrap over runs: instances are chosen anew in each resample."""
    runs = len(tables[0])
    weights = np.random.default_rng(0).multinomial(runs, [1 / runs] * runs, RESAMPLES) / runs
    risks = np.stack([(weights @ table).max(axis=1) for table in tables], axis=1)
    tail = (1 - LEVEL) / 2
    return np.asarray(np.quantile(_fitted(records, risks), [tail, 1 - tail]))


def _fitted(records: Sequence[int], risks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Slopes of lines through log risks, shape (..., records), against log records, by least squares."""
    away = np.log(records) - np.log(records).mean()
    return np.asarray(np.log(risks) @ away / (away @ away), dtype=np.float64)

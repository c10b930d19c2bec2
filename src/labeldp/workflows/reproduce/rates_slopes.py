"""Slopes of what was measured: the hardest instance at every number of records, a line, and its interval."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from labeldp.theory import exponent, rate
from labeldp.workflows.reproduce.rates import OF_CLASSES, RateResult
from labeldp.workflows.reproduce.rates_rows import ROWS

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

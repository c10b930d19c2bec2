"""Runs that differ in nothing but the noise, and their mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from statistics import fmean, stdev
from typing import Any

from labeldp.report.plots import Point
from labeldp.workflows import Result

Key = tuple[object, ...]
Value = Callable[[Result], float | None]


def dataset_of(result: Result) -> str:
    """What a section is about."""
    return result.run.dataset


def way_of(result: Result) -> Key:
    """What a row of the main table is about."""
    run = result.run
    return (run.method, run.network or "", run.preset or "", run.delta, result.trust, result.metric)


def sweep_of(result: Result) -> Key:
    """Which sweep: the settings that it changes, and how."""
    return (tuple(name for name, _ in result.run.settings), *way_of(result))


def value_of(result: Result) -> float:
    """The number itself."""
    return result.value


def by(results: Iterable[Result], key: Callable[[Result], Any]) -> Iterator[list[Result]]:
    """Groups of one key, in the order of the keys."""
    for _, found in groupby(sorted(results, key=key), key=key):
        yield list(found)


def point(results: Iterable[Result], x: float, value: Value) -> Point | None:
    """Mean and standard deviation of a value over noises; None where no run has it."""
    found = [number for each in results if (number := value(each)) is not None]
    return Point(x, fmean(found), stdev(found) if len(found) > 1 else 0.0) if found else None

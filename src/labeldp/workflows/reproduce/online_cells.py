"""What all seeds of a cell found together, and whether the method that a plan takes was a good one."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from labeldp.online import METHODS
from labeldp.workflows.reproduce.online import OnlineResult

SAFE = tuple(name for name, method in METHODS.items() if method.by_itself)
"""What a plan may take by itself: private, with a bound of regret for any losses, and no mixture of others."""


@dataclass(frozen=True)
class OnlineCell:
    """One learner on one kind of losses with one epsilon.

    Args:
        name: of the learner.
        data: kind or name of the losses.
        size: rounds and experts.
        epsilon: of all actions together.
        values: the mean regret, by seed.
        bound: that was planned.
        played: regret of single plays, by seed, where kernels were played.
        switches: in these.
    """

    name: str
    data: str
    size: tuple[int, int]
    epsilon: float
    values: tuple[float, ...]
    bound: float
    played: tuple[float, ...]
    switches: tuple[int, ...]


@dataclass(frozen=True)
class AutoChoice:
    """What a plan takes by itself for a cell.

    Args:
        data: kind or name of the losses.
        epsilon: of all actions together.
        method: which was taken.
        ratio: its regret over the smallest one of all that it may take; None where that is no positive number.
    """

    data: str
    epsilon: float
    method: str
    ratio: float | None


def online_cells(results: Sequence[OnlineResult]) -> list[OnlineCell]:
    """Seeds put together, learner by learner."""
    found = []
    for data, size, epsilon in dict.fromkeys((each.run.data, each.size, each.run.epsilon) for each in results):
        own = [each for each in results if (each.run.data, each.size, each.run.epsilon) == (data, size, epsilon)]
        for name in dict.fromkeys(point.name for each in own for point in each.points):
            points = [point for each in own for point in each.points if point.name == name]
            played = tuple(point.played for point in points if point.played is not None)
            switches = tuple(point.switches for point in points if point.switches is not None)
            values = tuple(point.value for point in points)
            found.append(OnlineCell(name, data, size, epsilon, values, points[0].bound, played, switches))
    return found


def auto_choices(results: Sequence[OnlineResult]) -> list[AutoChoice]:
    """The method that a plan took in each cell, beside the best one in hindsight."""
    cells, found = online_cells(results), []
    taken = {(each.run.data, each.size, each.run.epsilon): each.auto for each in results}
    for (data, size, epsilon), method in taken.items():
        own = [each for each in cells if (each.data, each.size, each.epsilon) == (data, size, epsilon)]
        means = {each.name: fmean(each.values) for each in own if each.name in SAFE}
        best = min(means.values())
        found.append(AutoChoice(data, epsilon, method, means[method] / best if best > 0 else None))
    return found

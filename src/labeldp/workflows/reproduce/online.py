"""Tables and figures on online learning: a file for each sequence of losses, with every learner."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labeldp.privacy import InputError
from labeldp.workflows.reproduce import online_tables as tables
from labeldp.workflows.reproduce.experiment import Progress, Told
from labeldp.workflows.reproduce.folder import results_folder
from labeldp.workflows.reproduce.online_data import RealLosses, real_losses
from labeldp.workflows.reproduce.online_grid import (
    BOUNDS,
    ELECTRICITY,
    EXCESS,
    EXPONENTS,
    STOCKS,
    OnlineGrid,
    RegretRun,
)
from labeldp.workflows.reproduce.online_methods import DELTA, chosen, learners
from labeldp.workflows.reproduce.online_tables import OnlinePoint
from labeldp.workflows.reproduce.results import now, versions
from labeldp.workflows.reproduce.stored import Stored, make, timed

Losses = Mapping[str, Callable[[], RealLosses]]


@dataclass(frozen=True)
class OnlineResult(Stored):
    """What one run found, and what it came from.

    Args:
        run: what was asked for.
        points: every number.
        auto: the method that a plan takes by itself; empty where there is none.
        size: rounds and experts.
        constants: what the code fixed, parameters of all learners included.
        seconds: of wall-clock time.
        versions: of Python and packages.
        date: when it ended.
    """

    COMMAND = "reproduce online"
    NOTE = "SIMULATION: coins come from a public seed, and regret is no private output"

    run: RegretRun
    points: tuple[OnlinePoint, ...]
    auto: str
    size: tuple[int, int]
    constants: dict[str, Any]
    seconds: float
    versions: dict[str, str]
    date: str

    @classmethod
    def parts(cls, content: dict[str, Any]) -> dict[str, Any]:
        """Run, points and size."""
        points = tuple(OnlinePoint(**point) for point in content["points"])
        return {"run": RegretRun(**content["run"]), "points": points, "size": tuple(content["size"])}


def reproduce_online(
    grid: OnlineGrid,
    *,
    data: str | None,
    out: str,
    told: Told | None = None,
    publish: Callable[[Sequence[OnlineResult]], object] | None = None,
    progress: Progress | None = None,
) -> list[OnlineResult]:
    """Make every run of a grid that has no file yet; commands at the same time on one folder share the work.

    Losses are made up or real and public, and coins come from public seeds: everything is a simulation.

    Args:
        grid: what to run.
        data: a folder with real losses; without it their tables are left out, and refused where they are named.
        out: a folder, made if need be: `runs` holds a JSON file for each run.
        told: called with a sentence when another command is at a run, or a table is left out.
        publish: called with all results in the folder after each seed of everything.
        progress: called with what is being done and the share of the work that is done.

    Returns:
        All results in the folder, of other grids too.

    Raises:
        InputError: wrong data; or the folder holds something else, or a run with other constants.
    """
    say, show = told or (lambda sentence: None), progress or (lambda text, share: None)
    losses = real_losses(data)
    runs = list(grid.runs(losses))
    for table in (STOCKS, ELECTRICITY):
        if table in grid.tables and not any(run.table == table for run in runs):
            if grid.named:
                raise InputError(f"tables: {table} cannot be made; --data names no folder with these losses")
            say(f"{table}: left out; --data names no folder with these losses")
    folder = results_folder(out)
    for place, run in enumerate(runs):
        show(run.title, place / len(runs))
        if publish is not None and place and run.seed > runs[place - 1].seed:
            publish(online_in(folder))
        _make(folder, run, losses, say)
    return online_in(folder)


def online_in(folder: Path) -> list[OnlineResult]:
    """All finished runs of a folder, table by table.

    Raises:
        InputError: one of the files is something else.
    """
    return sorted(OnlineResult.all_in(folder), key=lambda each: each.run.order)


def _make(folder: Path, run: RegretRun, losses: Losses, say: Told) -> None:
    """One run, unless it stands or somebody else is at it."""
    given = losses[run.data]() if run.data in losses else None
    size = given.levels.shape if given is not None else (run.rounds, run.experts)
    constants = _constants(run, size, given)

    def measured(place: Path) -> OnlineResult:
        points, seconds = timed(lambda: tuple(_points(run, given)))
        auto = chosen(size[1], size[0], run.epsilon) if run.epsilon and run.table != EXCESS else ""
        return OnlineResult(run, points, auto, size, constants, seconds, versions(False), now())

    make(folder, run, lambda: OnlineResult.standing(folder, run, constants), measured, say)


def _points(run: RegretRun, given: RealLosses | None) -> list[OnlinePoint]:
    """What is measured in a run."""
    if run.table == EXPONENTS:
        return tables.exponents()
    if run.table == BOUNDS:
        return tables.bounds(run.rounds, run.experts, run.epsilon)
    if run.table == EXCESS:
        return tables.excess(run.rounds, run.epsilon)
    if given is not None:
        return tables.real_regrets(given, run.epsilon, run.seed, run.rng())
    return tables.regrets(run.data, run.rounds, run.experts, run.epsilon, run.seed, run.rng())


def _constants(run: RegretRun, size: tuple[int, ...], given: RealLosses | None) -> dict[str, Any]:
    """What the code fixes for a run."""
    if run.table in (EXPONENTS, EXCESS):
        return {}
    parameters = {each.name: each.parameters for each in learners(size[1], size[0], run.epsilon)}
    return {"delta": DELTA, "parameters": parameters, **({"losses": given.digest} if given is not None else {})}

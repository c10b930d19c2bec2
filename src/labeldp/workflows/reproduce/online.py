"""Tables and figures on online learning: a file for each sequence of losses, with every learner."""

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labeldp.privacy import InputError
from labeldp.tables import whole_or_nothing
from labeldp.workflows.reproduce import online_tables as tables
from labeldp.workflows.reproduce.experiment import Progress, Told
from labeldp.workflows.reproduce.folder import RUNS, UNFINISHED, claimed, results_folder
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

SIMULATED = "SIMULATION: coins come from a public seed, and regret is no private output"

Losses = Mapping[str, Callable[[], RealLosses]]


@dataclass(frozen=True)
class OnlineResult:
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

    run: RegretRun
    points: tuple[OnlinePoint, ...]
    auto: str
    size: tuple[int, int]
    constants: dict[str, Any]
    seconds: float
    versions: dict[str, str]
    date: str

    def write(self, path: Path) -> None:
        """As JSON, whole or not at all."""
        content = {**asdict(self), "simulation": SIMULATED}
        with whole_or_nothing(path, overwrite=True) as hidden:
            hidden.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> "OnlineResult":
        """The inverse of `write`.

        Raises:
            InputError: not such a file.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            given = {name: content[name] for name in cls.__dataclass_fields__}
            points = tuple(OnlinePoint(**point) for point in content["points"])
            size = tuple(content["size"])
            return cls(**{**given, "run": RegretRun(**content["run"]), "points": points, "size": size})
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path} is not a result of labeldp reproduce online: name another folder, or remove it"
            ) from error


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
        data: a folder with real losses; without it their tables are left out.
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
    folder = results_folder(out)
    runs = list(grid.runs(losses))
    for table in (STOCKS, ELECTRICITY):
        if table in grid.tables and not any(run.table == table for run in runs):
            say(f"{table}: left out; --data names no folder with these losses")
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
    found = [OnlineResult.read(path) for path in (folder / RUNS).glob("*.json")]
    return sorted(found, key=lambda each: each.run.order)


def _standing(path: Path, constants: dict[str, Any]) -> bool:
    """Whether a run was made before.

    Raises:
        InputError: it was made with other constants.
    """
    if not path.exists():
        return False
    if OnlineResult.read(path).constants != json.loads(json.dumps(constants)):
        raise InputError(f"{path} was made with other constants or losses: name another folder, or remove it")
    return True


def _make(folder: Path, run: RegretRun, losses: Losses, say: Told) -> None:
    """One run, unless it stands or somebody else is at it."""
    path, place = folder / RUNS / f"{run.name}.json", folder / UNFINISHED / run.name
    given = losses[run.data]() if run.data in losses else None
    size = given.levels.shape if given is not None else (run.rounds, run.experts)
    constants = _constants(run, size, given)
    if _standing(path, constants):
        return
    with claimed(place) as free:
        if not free:
            say(f"{run.title}: left to the command that is at work on it")
            return
        if not _standing(path, constants):  # it may have been made since
            start = time.perf_counter()
            points = tuple(_points(run, given))
            auto = chosen(size[1], size[0], run.epsilon) if run.epsilon and run.table != EXCESS else ""
            seconds = round(time.perf_counter() - start, 2)
            OnlineResult(run, points, auto, size, constants, seconds, versions(False), now()).write(path)
        shutil.rmtree(place)


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

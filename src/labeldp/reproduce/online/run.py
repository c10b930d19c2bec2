"""Asi: grid, runs."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from labeldp.online import METHODS
from labeldp.privacy import InputError, all_digits
from labeldp.reproduce.multistage.run import Progress, Told
from labeldp.reproduce.online import tables
from labeldp.reproduce.online.data import LEAST, RealLosses, real_losses
from labeldp.reproduce.online.learners import DELTA, chosen, learners
from labeldp.reproduce.online.tables import (
    BOUNDED,
    BOUNDED_EPSILONS,
    EXCESSES,
    HARD_EPSILONS,
    REAL_EPSILONS,
    SEQUENCES,
    OnlinePoint,
)
from labeldp.reproduce.runs import Stored, make, now, results_folder, timed, versions
from labeldp.workflows import epsilon_of

Losses = Mapping[str, Callable[[], RealLosses]]


@dataclass(frozen=True)
class RegretRun:
    """One cell of a table with one seed; all of it is public.

    Args:
        table: one of `TABLES`.
        data: the kind of losses, or the name of real ones; empty for formulas.
        rounds: T; 0 for all of real losses, and for exponents.
        experts: d; 0 for all of real losses, and for exponents.
        epsilon: of all actions together; 0 for exponents.
        seed: of losses and coins.
    """

    table: str
    data: str = ""
    rounds: int = 0
    experts: int = 0
    epsilon: float = 0.0
    seed: int = 0

    @property
    def name(self) -> str:
        """Of its file; different runs have different names."""
        words = [self.table, self.data, f"T{self.rounds}", f"d{self.experts}", f"epsilon{all_digits(self.epsilon)}"]
        return "-".join([word for word in words if word not in ("", "T0", "d0", "epsilon0")] + [f"seed{self.seed}"])

    @property
    def title(self) -> str:
        """For people."""
        sizes = [f"T = {self.rounds:,}", f"d = {self.experts:,}"] if self.rounds else []
        words = [self.table, self.data, *sizes, *([f"ε = {self.epsilon:g}"] if self.epsilon else [])]
        return ", ".join([*filter(None, words), f"seed {self.seed + 1}"])

    @property
    def order(self) -> tuple[int, int, str, float, float, float, int]:
        """Where tables and figures have it."""
        kind = [*SEQUENCES, self.data].index(self.data)
        return TABLES.index(self.table), kind, self.data, self.rounds, self.experts, self.epsilon, self.seed

    def rng(self) -> np.random.Generator:
        """The randomness of this run alone: reproducible, and so a simulation."""
        return np.random.default_rng(list(hashlib.sha256(self.name.encode()).digest()))


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


@dataclass(frozen=True)
class OnlineGrid:
    """What a command asks for.

    Args:
        tables: some of `TABLES`.
        kinds: of made-up losses.
        rounds: of made-up losses.
        experts: of made-up losses.
        epsilons: for every table; None for what suits each.
        seeds: so many of everything that is random.
        named: whether tables were named, so that each must be made.
    """

    tables: tuple[str, ...]
    kinds: tuple[str, ...]
    rounds: int
    experts: tuple[int, ...]
    epsilons: tuple[float, ...] | None
    seeds: int
    named: bool = False

    @classmethod
    def parse(
        cls, *, tables: str | None, losses: str | None, rounds: str, experts: str, epsilon: str | None, seeds: int
    ) -> "OnlineGrid":
        """A grid as it is written on a command line; None for the default.

        Raises:
            InputError: the first that is wrong.
        """
        named = _known("tables", tables, TABLES)
        kinds = _known("losses", losses, tuple(SEQUENCES))
        (horizon,) = _counts("rounds", [rounds], LEAST)
        sizes = _counts("experts", _listed("experts", experts), 2)
        epsilons = None if epsilon is None else tuple(epsilon_of(each) for each in _listed("epsilon", epsilon))
        if seeds < 1:
            raise InputError("--seeds must be at least 1")
        return cls(named, kinds, horizon, sizes, epsilons, seeds, tables is not None)

    def runs(self, losses: Iterable[str]) -> Iterator[RegretRun]:
        """Everything that can be run with these real losses: formulas first, then the first seed of all, and so on."""
        if EXPONENTS in self.tables:
            yield RegretRun(EXPONENTS)
        if BOUNDS in self.tables:
            own = self.epsilons or BOUNDED_EPSILONS
            yield from (RegretRun(BOUNDS, "", *size, epsilon) for size in BOUNDED for epsilon in own)
        if EXCESS in self.tables:
            yield from (RegretRun(EXCESS, "", rounds, 2, epsilon) for rounds, epsilon in EXCESSES)
        for seed in range(self.seeds):
            yield from self._seeded(losses, seed)

    def _seeded(self, losses: Iterable[str], seed: int) -> Iterator[RegretRun]:
        """Everything with one seed."""
        for experts in self.experts:
            for epsilon in self.epsilons or EPSILONS:
                if REGRET in self.tables:
                    yield from (RegretRun(REGRET, k, self.rounds, experts, epsilon, seed) for k in self.kinds)
            if HARD in self.tables:
                own = [each for each in HARD_EPSILONS if 1 / self.rounds <= each <= self.rounds**-0.25]
                yield from (RegretRun(HARD, HARD, self.rounds, experts, epsilon, seed) for epsilon in own)
        for name in losses:
            table = ELECTRICITY if name == ELECTRICITY else STOCKS
            if table in self.tables:
                yield from (RegretRun(table, name, epsilon=e, seed=seed) for e in self.epsilons or REAL_EPSILONS)


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
                raise InputError(
                    f": {table} cannot be made; --data names no folder with these losses", argument="tables"
                )
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


EXPONENTS, BOUNDS, EXCESS, REGRET, HARD, STOCKS, ELECTRICITY = TABLES = (
    "exponents",
    "table1",
    "excess",
    "regret",
    "hard",
    "stocks",
    "elec2",
)
"""Figure 1, Table 1, the counterexample to Proposition 3.3, made-up losses, Theorem 4.2's adversary, real losses."""

EPSILONS = (0.1, 1.0)
"""Of made-up losses."""


def _known(option: str, text: str | None, names: tuple[str, ...]) -> tuple[str, ...]:
    """Some of the names, in the order of these."""
    given = names if text is None else _listed(option, text)
    if not set(given) <= set(names):
        raise InputError(f"--{option} must be some of {', '.join(names)}")
    return tuple(name for name in names if name in given)


def _listed(option: str, text: str) -> list[str]:
    """The parts of a text with commas, each once."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts) or len(set(parts)) < len(parts):
        raise InputError(f"--{option} must hold distinct values, separated by commas")
    return parts


def _counts(option: str, parts: Sequence[str], least: int) -> tuple[int, ...]:
    """Whole numbers such as 1e5."""
    try:
        values = [float(part) for part in parts]
    except ValueError:
        values = [0.0]
    if not all(least <= value <= 1e8 and value == int(value) for value in values):
        raise InputError(f"--{option} must be whole numbers from {least} to 1e8, such as 1e5")
    return tuple(int(value) for value in values)


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

"""Asi et al.: the runs of Figure 1, Table 1 and regret, and what they show together."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Self, Unpack

from labeldp.fit import epsilon_of
from labeldp.online import methods_of
from labeldp.privacy import InputError, decimal_text
from papers import harness
from papers.harness import Experiment, Hooks, Json, Progress, Stored, listed
from papers.online import tables
from papers.online.data import MIN_ROUNDS, RealLosses, real_losses
from papers.online.learners import DELTA, chosen, learners
from papers.online.tables import SEQUENCES, OnlinePoint

EXPONENTS, BOUNDS, EXCESS, REGRET, HARD, ADVERSARY, STOCKS, ELECTRICITY = TABLES = (
    "exponents",
    "table1",
    "excess",
    "regret",
    tables.HARD,
    tables.ADVERSARY,
    "stocks",
    "elec2",
)
"""Figure 1, Table 1, the counterexample to Proposition 3.3, made-up losses, Theorem 4.2's adversary, the same by T and
epsilon, and real losses."""

EPSILONS = (0.1, 1.0)
"""Of made-up losses."""


@dataclass(frozen=True)
class RegretRun(harness.SeededRun):
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
        """The name of its file; different runs have different names."""
        words = [self.table, self.data, f"T{self.rounds}", f"d{self.experts}", f"epsilon{decimal_text(self.epsilon)}"]
        return "-".join([word for word in words if word not in ("", "T0", "d0", "epsilon0")] + [f"seed{self.seed}"])

    @property
    def title(self) -> str:
        """Its name for people."""
        sizes = [f"T = {self.rounds:,}", f"d = {self.experts:,}"] if self.rounds else []
        words = [self.table, self.data, *sizes, *([f"ε = {self.epsilon:g}"] if self.epsilon else [])]
        return ", ".join([*filter(None, words), f"seed {self.seed + 1}"])

    @property
    def order(self) -> tuple[int, int, str, float, float, float, int]:
        """Its place in tables and figures."""
        kind = [*SEQUENCES, self.data].index(self.data)
        return TABLES.index(self.table), kind, self.data, self.rounds, self.experts, self.epsilon, self.seed


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

    COMMAND = "online"
    NOTE = "SIMULATION: coins come from a public seed, and regret is no private output"

    run: RegretRun
    points: tuple[OnlinePoint, ...]
    auto: str
    size: tuple[int, int]
    constants: Json
    seconds: float
    versions: dict[str, str]
    date: str

    @classmethod
    def parts(cls, content: Json) -> Json:
        """Return run, points and size."""
        points = tuple(OnlinePoint(**point) for point in content["points"])
        return {"run": RegretRun(**content["run"]), "points": points, "size": tuple(content["size"])}

    @classmethod
    def all_in(cls, folder: Path) -> list[Self]:
        """Return all finished runs of a folder, table by table.

        Raises:
            InputError: one of the files is something else.
        """
        return sorted(super().all_in(folder), key=lambda each: each.run.order)


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
        """Return the grid of the options of a command line; None for the default.

        Raises:
            InputError: the first option that is wrong.
        """
        named = _known("tables", tables, TABLES)
        kinds = _known("losses", losses, tuple(SEQUENCES))
        (horizon,) = _counts("rounds", [rounds], MIN_ROUNDS)
        sizes = _counts("experts", listed(experts, "experts"), 2)
        epsilons = None if epsilon is None else tuple(listed(epsilon, "epsilon", epsilon_of))
        harness.check_seeds(seeds)
        return cls(named, kinds, horizon, sizes, epsilons, seeds, tables is not None)

    def runs(self, losses: Iterable[str]) -> Iterator[RegretRun]:
        """Yield all that can be run with these real losses: formulas first, then the first seed of all, and so on."""
        if EXPONENTS in self.tables:
            yield RegretRun(EXPONENTS)
        if BOUNDS in self.tables:
            own = self.epsilons or tables.BOUNDED_EPSILONS
            yield from (RegretRun(BOUNDS, "", *size, epsilon) for size in tables.BOUNDED for epsilon in own)
        if EXCESS in self.tables:
            yield from (RegretRun(EXCESS, "", rounds, 2, epsilon) for rounds, epsilon in tables.EXCESSES)
        for seed in range(self.seeds):
            yield from self._seeded(losses, seed)

    def _seeded(self, losses: Iterable[str], seed: int) -> Iterator[RegretRun]:
        """Yield everything with one seed."""
        for experts in self.experts:
            for epsilon in self.epsilons or EPSILONS:
                if REGRET in self.tables:
                    yield from (RegretRun(REGRET, k, self.rounds, experts, epsilon, seed) for k in self.kinds)
            if HARD in self.tables:
                own = [each for each in tables.HARD_EPSILONS if 1 / self.rounds <= each <= self.rounds**-0.25]
                yield from (RegretRun(HARD, HARD, self.rounds, experts, epsilon, seed) for epsilon in own)
        if ADVERSARY in self.tables:
            for rounds, power in product(tables.ADVERSARY_ROUNDS, tables.ADVERSARY_POWERS):
                epsilon = float(f"{rounds**-power * 0.9999:.2g}")
                yield RegretRun(ADVERSARY, HARD, rounds, self.experts[0], min(epsilon, rounds**-0.25), seed)
        for name in losses:
            table = ELECTRICITY if name == ELECTRICITY else STOCKS
            if table in self.tables:
                yield from (RegretRun(table, name, epsilon=e, seed=seed) for e in self.epsilons or tables.REAL_EPSILONS)


def _known(option: str, text: str | None, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the named ones of some names, in the order of these; all where none is named."""
    given = names if text is None else listed(text, option)
    if not set(given) <= set(names):
        raise InputError(f"--{option} must be some of {', '.join(names)}")
    return tuple(name for name in names if name in given)


def _counts(option: str, parts: Sequence[str], least: int) -> tuple[int, ...]:
    """Return whole numbers such as 1e5."""
    try:
        values = [float(part) for part in parts]
    except ValueError:
        values = [0.0]
    if not all(least <= value <= 1e8 and value == int(value) for value in values):
        raise InputError(f"--{option} must be whole numbers from {least} to 1e8, such as 1e5")
    return tuple(int(value) for value in values)


@dataclass(frozen=True)
class OnlineExperiment(Experiment[RegretRun, OnlineResult]):
    """Formulas, and learners on made-up or real losses; these are read when the first run needs them."""

    losses: Mapping[str, Callable[[], RealLosses]]

    stored = OnlineResult

    def constants(self, run: RegretRun) -> Json:
        """Return what the code fixes for a run, the parameters of all learners included."""
        if run.table in (EXPONENTS, EXCESS):
            return {}
        given, (rounds, experts) = self._given(run), self._size(run)
        parameters = {each.name: each.parameters for each in learners(experts, rounds, run.epsilon)}
        return {"delta": DELTA, "parameters": parameters, **({"losses": given.digest} if given is not None else {})}

    def measure(self, run: RegretRun, place: Path, show: Progress) -> OnlineResult:
        """Return the numbers of a run."""
        points, seconds = harness.timed(lambda: tuple(self._points(run)))
        rounds, experts = size = self._size(run)
        auto = chosen(experts, rounds, run.epsilon) if run.epsilon and run.table != EXCESS else ""
        return OnlineResult(run, points, auto, size, **self.origin(run, seconds))

    def _given(self, run: RegretRun) -> RealLosses | None:
        return self.losses[run.data]() if run.data in self.losses else None

    def _size(self, run: RegretRun) -> tuple[int, int]:
        """Return rounds and experts."""
        given = self._given(run)
        return (run.rounds, run.experts) if given is None else (given.levels.shape[0], given.levels.shape[1])

    def _points(self, run: RegretRun) -> list[OnlinePoint]:
        if run.table == EXPONENTS:
            return tables.exponents()
        if run.table == BOUNDS:
            return tables.bounds(run.rounds, run.experts, run.epsilon)
        if run.table == EXCESS:
            return tables.excess(run.rounds, run.epsilon)
        if (given := self._given(run)) is not None:
            return tables.real_regrets(given, run.epsilon, run.seed, run.rng())
        if run.table == ADVERSARY:
            return tables.adversary_regrets(run.rounds, run.experts, run.epsilon, run.seed, run.rng())
        return tables.regrets(run.data, run.rounds, run.experts, run.epsilon, run.seed, run.rng())


def reproduce_online(grid: OnlineGrid, *, data: str | None, out: str, **hooks: Unpack[Hooks]) -> list[OnlineResult]:
    """Make every run of a grid that has no file yet; commands at the same time on one folder share the work.

    Losses are made up or real and public, and coins come from public seeds: everything is a simulation.

    Args:
        grid: what to run.
        data: a folder with real losses; without it their tables are left out, and refused where they are named.
        out: a folder, made if need be: `runs` holds a JSON file for each run.
        hooks: functions that are called meanwhile, as `Hooks` says.

    Returns:
        All results in the folder, of other grids too.

    Raises:
        InputError: wrong data; or the folder holds something else, or a run with other constants. No run was started.
    """
    losses = real_losses(data)
    runs = list(grid.runs(losses))
    for table in (STOCKS, ELECTRICITY):
        if table in grid.tables and not any(run.table == table for run in runs):
            if grid.named:
                raise InputError(
                    f": {table} cannot be made; --data names no folder with these losses", argument="tables"
                )
            if callback := hooks.get("callback"):
                callback(f"{table}: left out; --data names no folder with these losses")
    experiment = OnlineExperiment(losses)
    return experiment.run_missing(runs, harness.results_folder(out), **hooks)


SAFE = tuple(name for name, method in methods_of("experts").items() if method.by_itself)
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
    """Put seeds together, learner by learner."""
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
    """Return the method that a plan took in each cell, beside the best one in hindsight."""
    cells, found = online_cells(results), []
    taken = {(each.run.data, each.size, each.run.epsilon): each.auto for each in results}
    for (data, size, epsilon), method in taken.items():
        own = [each for each in cells if (each.data, each.size, each.epsilon) == (data, size, epsilon)]
        means = {each.name: fmean(each.values) for each in own if each.name in SAFE}
        best = min(means.values())
        found.append(AutoChoice(data, epsilon, method, means[method] / best if best > 0 else None))
    return found

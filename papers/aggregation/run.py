"""Brahmbhatt et al.: the cells of Tables 1 to 6, on made-up records, stand-ins or the paper's files."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Unpack

from labeldp.learners import imported
from labeldp.privacy import InputError, decimal_text
from papers import harness
from papers.aggregation import cells
from papers.aggregation.cells import Cell, adam, lba, llp, training_records, whole_sample
from papers.aggregation.data import FILES, GENERATED, Problem, problems
from papers.harness import Experiment, Hooks, Json, Progress, Stored, listed

TABLES = "lba", "llp", "adam"
SHARES = (0.0, 0.01, 0.1, 0.5, 1.0)
SIZES, COUNTS = (32, 64, 128, 256), (512, 1024, 2048, 4096)
"""Bag sizes and numbers of bags of the paper on Criteo."""

CENSUS_SIZES, CENSUS_COUNTS = (64, 128, 256, 512), (1024, 2048, 4096, 8192)
"""The same on its census."""

SMALL = {"lba": ((8, 16, 32), (256, 512, 1024)), "llp": ((32, 64), (128, 512)), "adam": ((32,), (512,))}
"""Sizes and numbers on stand-ins, and of networks on made-up records, where none are asked for."""


@dataclass(frozen=True)
class AggregationRun(harness.SeededRun):
    """One cell with one noise; all of it is public.

    Args:
        problem: what is learned.
        table: "lba", "llp" or "adam".
        size: records in a bag, k; 0 for the labels themselves.
        bags: how many, m; 0 for the labels themselves.
        share: of noisy labels, ρ; 0 for "lba".
        seed: of split, bags, noise and training.
    """

    problem: str
    table: str
    size: int
    bags: int
    share: float
    seed: int

    @property
    def name(self) -> str:
        """The name of its file; different runs have different names."""
        words = [f"m{self.bags}", f"k{self.size}"] if self.bags else ["instance"]
        words += [f"rho{decimal_text(self.share)}"] if self.table == "llp" and self.bags else []
        return "-".join([self.problem, self.table, *words, f"seed{self.seed}"])

    @property
    def title(self) -> str:
        """Its name for people."""
        words = [f"m = {self.bags}", f"k = {self.size}"] if self.bags else ["the labels themselves"]
        words += [f"ρ = {self.share:g}"] if self.table == "llp" and self.bags else []
        return ", ".join([self.problem, self.table.upper(), *words, f"seed {self.seed + 1}"])


@dataclass(frozen=True)
class AggregationGrid:
    """What a command asks for.

    Args:
        tables: some of `TABLES`.
        sizes, counts: k and m for everything; None for what suits each problem.
        shares: ρ.
        seeds: so many of everything.
    """

    tables: tuple[str, ...]
    sizes: tuple[int, ...] | None
    counts: tuple[int, ...] | None
    shares: tuple[float, ...]
    seeds: int

    @classmethod
    def parse(
        cls, *, tables: str, bag_size: str | None, bags: str | None, noisy_fraction: str | None, seeds: int
    ) -> "AggregationGrid":
        """Return the grid of the options of a command line; None for the default.

        Raises:
            InputError: the first option that is wrong.
        """
        chosen = tuple(listed(tables, "tables"))
        if not set(chosen) <= set(TABLES):
            raise InputError(f"--tables must be one or more of {', '.join(TABLES)}")
        sizes = None if bag_size is None else tuple(listed(bag_size, "bag-size", int))
        counts = None if bags is None else tuple(listed(bags, "bags", int))
        for name, values, least in (("bag-size", sizes, 2), ("bags", counts, 20)):
            if values is not None and (min(values) < least or max(values) > 1 << 20):
                raise InputError(f"--{name} must be whole numbers from {least} to {1 << 20}")
        shares = SHARES if noisy_fraction is None else tuple(listed(noisy_fraction, "noisy-fraction", float))
        if not all(0 <= share <= 1 for share in shares):
            raise InputError("--noisy-fraction must be numbers from 0 to 1")
        harness.check_seeds(seeds)
        return cls(chosen, sizes, counts, shares, seeds)

    def cells(self, problem: str, table: str) -> list[tuple[int, int]]:
        """Return sizes and numbers of bags of one table."""
        if table == "adam":
            return [(size, count) for count in self.counts or SMALL[table][1] for size in self.sizes or SMALL[table][0]]
        full = problem in FILES or (problem == GENERATED and table == "lba")
        census = problem == "census"
        own = ((CENSUS_SIZES, CENSUS_COUNTS) if census else (SIZES, COUNTS)) if full else SMALL[table]
        counts = self.counts or (COUNTS[:2] if problem == GENERATED and full else own[1])
        return [(size, count) for count in counts for size in self.sizes or own[0]]

    def runs(self, problem: str, seed: int) -> list[AggregationRun]:
        """Return everything on one problem with one seed."""
        found = []
        for table in self.tables:
            if table != "adam":
                found.append(AggregationRun(problem, table, 0, 0, 0.0, seed))
            for size, count in self.cells(problem, table):
                shares = self.shares if table == "llp" else (0.0,)
                found += [AggregationRun(problem, table, size, count, share, seed) for share in shares]
        return found


@dataclass(frozen=True)
class AggregationResult(Stored):
    """What one run found, and what it came from.

    Args:
        run: what was asked for.
        cell: test errors and the promise.
        constants: what the code fixed, and a digest of the data.
        seconds: of wall-clock time.
        versions: of Python and packages.
        date: when it ended.
    """

    COMMAND = "aggregation"
    NOTE = "SIMULATION: bags, weights and noise come from public seeds"

    run: AggregationRun
    cell: Cell
    constants: Json
    seconds: float
    versions: dict[str, str]
    date: str

    @classmethod
    def parts(cls, content: Json) -> Json:
        """Return run and cell."""
        return {"run": AggregationRun(**content["run"]), "cell": Cell(**content["cell"])}


@dataclass(frozen=True)
class AggregationExperiment(Experiment[AggregationRun, AggregationResult]):
    """Cells on problems that were read."""

    problems: Mapping[str, Problem]

    stored = AggregationResult

    def constants(self, run: AggregationRun) -> Json:
        """Return what the code fixes for a run, and what it runs on."""
        return {**cells.constants(), **cells.learned(run.table), "data": self.problems[run.problem].digest}

    def batch(self, run: AggregationRun) -> object:
        """Publish after each problem."""
        return run.seed, run.problem

    def measure(self, run: AggregationRun, place: Path, show: Progress) -> AggregationResult:
        """Return a cell."""
        cell, seconds = harness.timed(lambda: _cell(self.problems[run.problem], run))
        return AggregationResult(run, cell, **self.origin(run, seconds, network=run.table == "llp"))


def _cell(problem: Problem, run: AggregationRun) -> Cell:
    if not run.bags:
        return whole_sample(problem, run.table, run.seed)
    if run.table in ("lba", "adam"):
        learn = lba if run.table == "lba" else adam
        return learn(problem, run.size, run.bags, run.rng(), run.seed)
    return llp(problem, run.size, run.bags, run.share, run.rng(), run.seed)


def reproduce_aggregation(
    grid: AggregationGrid, *, data: str | None = None, out: str, **hooks: Unpack[Hooks]
) -> list[AggregationResult]:
    """Make every run that has no file yet; commands at the same time on one folder share the work.

    Labels play the private part: bags, weights and noise come from public seeds. Test records are measured on, and
    nothing else. Cells with more records than there are to train on are left out, and said.

    Args:
        grid: what to run.
        data: a file of Criteo or census, or a folder of stand-ins; None for made-up records alone.
        out: a folder, made if need be: `runs` holds a JSON file for each run.
        hooks: functions that are called meanwhile, as `Hooks` says.

    Returns:
        All results in the folder, of other grids too.

    Raises:
        InputError: no such data, torch is missing where nothing else was asked for, or the folder holds something
            else. Nothing was run.
    """
    say = hooks.get("callback") or (lambda sentence: None)
    grid = _possible(grid, say)
    loaders, folder = problems(data), harness.results_folder(out)
    loaded = dict[str, Problem]()
    for name, load in loaders.items():
        if show := hooks.get("progress"):
            show(f"reading {name}", 0.0)
        loaded[name] = load()
    runs = list[AggregationRun]()
    for seed, (name, problem) in product(range(grid.seeds), loaded.items()):
        own = grid.runs(name, seed)
        fitting = [run for run in own if run.size * run.bags <= training_records(problem)]
        if len(fitting) < len(own) and not seed:
            left = len(own) - len(fitting)
            say(f"{name}: {left} of {len(own)} runs left out, of more than {training_records(problem)} records")
        runs += fitting
    return AggregationExperiment(loaded).run_missing(runs, folder, **hooks)


def _possible(grid: AggregationGrid, say: harness.Callback) -> AggregationGrid:
    """Return the grid, without llp where torch is missing and something else was asked for, too."""
    if "llp" not in grid.tables:
        return grid
    try:
        imported("labeldp.networks")
    except InputError as error:
        if grid.tables == ("llp",):
            raise
        say(f"the tables of llp are left out: {error}")
        return replace(grid, tables=tuple(name for name in grid.tables if name != "llp"))
    return grid

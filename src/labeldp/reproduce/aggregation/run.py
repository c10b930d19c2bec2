"""Run the tables of Brahmbhatt et al.: a JSON file for each cell, so that commands may stop, go on, and share."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from labeldp.privacy import InputError, all_digits
from labeldp.reproduce.aggregation import cells
from labeldp.reproduce.aggregation.cells import Cell, lba, llp, training_records, whole_sample
from labeldp.reproduce.aggregation.data import FILES, GENERATED, Problem, problems
from labeldp.reproduce.multistage.run import Progress, Told
from labeldp.reproduce.runs import Stored, make, now, results_folder, timed, versions
from labeldp.workflows import networks

TABLES = "lba", "llp"

SHARES = (0.0, 0.01, 0.1, 0.5, 1.0)

SIZES, COUNTS = (32, 64, 128, 256), (512, 1024, 2048, 4096)
"""Bag sizes and numbers of bags of the paper on Criteo."""

CENSUS_SIZES, CENSUS_COUNTS = (64, 128, 256, 512), (1024, 2048, 4096, 8192)
"""The same on its census."""

SMALL = {"lba": ((8, 16, 32), (256, 512, 1024)), "llp": ((32, 64), (128, 512))}
"""Sizes and numbers on stand-ins, and of networks on made-up records, where none are asked for."""

CONSTANTS = (
    *("GRID", "STDDEV", "NEARLY_NONE", "BAG_NOISE", "LARGEST", "INSTANCES"),
    *("EPOCHS", "BATCH", "CENSUS_BATCH", "PEAK", "PATIENCE", "HELD_OUT"),
)


@dataclass(frozen=True)
class AggregationRun:
    """One cell with one noise; all of it is public.

    Args:
        problem: what is learned.
        table: "lba" or "llp".
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
        """Of its file; different runs have different names."""
        words = [f"m{self.bags}", f"k{self.size}"] if self.bags else ["instance"]
        words += [f"rho{all_digits(self.share)}"] if self.table == "llp" and self.bags else []
        return "-".join([self.problem, self.table, *words, f"seed{self.seed}"])

    @property
    def title(self) -> str:
        """For people."""
        words = [f"m = {self.bags}", f"k = {self.size}"] if self.bags else ["the labels themselves"]
        words += [f"ρ = {self.share:g}"] if self.table == "llp" and self.bags else []
        return ", ".join([self.problem, self.table.upper(), *words, f"seed {self.seed + 1}"])

    def rng(self) -> np.random.Generator:
        """The randomness of this run alone: reproducible, and so a simulation."""
        return np.random.default_rng(list(hashlib.sha256(self.name.encode()).digest()))


@dataclass(frozen=True)
class AggregationGrid:
    """What a command asks for.

    Args:
        tables: "lba", "llp" or both.
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
        """A grid as it is written on a command line; None for the default.

        Raises:
            InputError: the first that is wrong.
        """
        chosen = tuple(_numbers(tables, "tables", str))
        if not set(chosen) <= set(TABLES):
            raise InputError(f"--tables must be one or both of {', '.join(TABLES)}")
        sizes = None if bag_size is None else tuple(_numbers(bag_size, "bag-size", int))
        counts = None if bags is None else tuple(_numbers(bags, "bags", int))
        for name, values, least in (("bag-size", sizes, 2), ("bags", counts, 20)):
            if values is not None and (min(values) < least or max(values) > 1 << 20):
                raise InputError(f"--{name} must be whole numbers from {least} to {1 << 20}")
        shares = SHARES if noisy_fraction is None else tuple(_numbers(noisy_fraction, "noisy-fraction", float))
        if not all(0 <= share <= 1 for share in shares):
            raise InputError("--noisy-fraction must be numbers from 0 to 1")
        if seeds < 1:
            raise InputError("--seeds must be at least 1")
        return cls(chosen, sizes, counts, shares, seeds)

    def cells(self, problem: str, table: str) -> list[tuple[int, int]]:
        """Sizes and numbers of bags of one table."""
        full = problem in FILES or (problem == GENERATED and table == "lba")
        census = problem == "census"
        own = ((CENSUS_SIZES, CENSUS_COUNTS) if census else (SIZES, COUNTS)) if full else SMALL[table]
        counts = self.counts or (COUNTS[:2] if problem == GENERATED and full else own[1])
        return [(size, count) for count in counts for size in self.sizes or own[0]]

    def runs(self, problem: str, seed: int) -> list[AggregationRun]:
        """Everything on one problem with one seed."""
        found = []
        for table in self.tables:
            found.append(AggregationRun(problem, table, 0, 0, 0.0, seed))
            for size, count in self.cells(problem, table):
                shares = self.shares if table == "llp" else (0.0,)
                found += [AggregationRun(problem, table, size, count, share, seed) for share in shares]
        return found


def _numbers(text: str, option: str, kind: Callable[[str], Any]) -> list[Any]:
    """The parts of a text with commas, each once."""
    try:
        parts = [kind(part.strip()) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--{option} must hold numbers, separated by commas") from None
    if len(set(parts)) < len(parts):
        raise InputError(f"--{option} must hold distinct values, separated by commas")
    return parts


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

    COMMAND = "reproduce aggregation"
    NOTE = "SIMULATION: bags, weights and noise come from public seeds"

    run: AggregationRun
    cell: Cell
    constants: dict[str, Any]
    seconds: float
    versions: dict[str, str]
    date: str

    @classmethod
    def parts(cls, content: dict[str, Any]) -> dict[str, Any]:
        """Run and cell."""
        return {"run": AggregationRun(**content["run"]), "cell": Cell(**content["cell"])}


def reproduce_aggregation(
    grid: AggregationGrid,
    *,
    data: str | None = None,
    out: str,
    told: Told | None = None,
    publish: Callable[[Sequence[AggregationResult]], object] | None = None,
    progress: Progress | None = None,
) -> list[AggregationResult]:
    """Make every run that has no file yet; commands at the same time on one folder share the work.

    Labels play the private part: bags, weights and noise come from public seeds. Test records are measured on, and
    nothing else. Cells with more records than there are to train on are left out, and said.

    Args:
        grid: what to run.
        data: a file of Criteo or census, or a folder of stand-ins; None for made-up records alone.
        out: a folder, made if need be: `runs` holds a JSON file for each run.
        told: called with a sentence when cells are left out, or another command is at one.
        publish: called with all results in the folder after each problem.
        progress: called with what is being done and the share of the work that is done.

    Returns:
        All results in the folder, of other grids too.

    Raises:
        InputError: no such data, torch is missing where nothing else was asked for, or the folder holds something
            else. Nothing was run.
    """
    say, show = told or (lambda sentence: None), progress or (lambda text, share: None)
    grid = _possible(grid, say)
    loaders, folder = problems(data), results_folder(out)
    AggregationResult.all_in(folder)
    loaded: dict[str, Problem] = {}
    for place, (seed, name) in enumerate(product(range(grid.seeds), loaders)):
        start, whole = place / grid.seeds / len(loaders), grid.seeds * len(loaders)
        if name not in loaded:
            show(f"reading {name}", start)
            loaded[name] = loaders[name]()
        runs = grid.runs(name, seed)
        fitting = [run for run in runs if run.size * run.bags <= training_records(loaded[name])]
        if len(fitting) < len(runs) and not seed:
            left = len(runs) - len(fitting)
            say(f"{name}: {left} of {len(runs)} runs left out, of more than {training_records(loaded[name])} records")
        for done, run in enumerate(fitting):
            show(run.title, start + done / len(fitting) / whole)
            _make(folder, loaded[name], run, say)
        if publish is not None:
            publish(AggregationResult.all_in(folder))
    return AggregationResult.all_in(folder)


def _possible(grid: AggregationGrid, say: Told) -> AggregationGrid:
    """The grid, without llp where torch is missing and something else was asked for, too."""
    if "llp" not in grid.tables:
        return grid
    try:
        networks()
    except InputError as error:
        if grid.tables == ("llp",):
            raise
        say(f"the tables of llp are left out: {error}")
        return replace(grid, tables=tuple(name for name in grid.tables if name != "llp"))
    return grid


def _make(folder: Path, problem: Problem, run: AggregationRun, say: Told) -> None:
    """One run, unless it stands or somebody else is at it.

    Raises:
        InputError: it was made with other data or constants.
    """
    constants = _constants(problem, run)

    def measured(place: Path) -> AggregationResult:
        cell, seconds = timed(lambda: _cell(problem, run))
        return AggregationResult(run, cell, constants, seconds, versions(run.table == "llp"), now())

    make(folder, run, lambda: AggregationResult.standing(folder, run, constants), measured, say)


def _cell(problem: Problem, run: AggregationRun) -> Cell:
    """What is measured in a run."""
    if not run.bags:
        return whole_sample(problem, run.table, run.seed)
    if run.table == "lba":
        return lba(problem, run.size, run.bags, run.rng(), run.seed)
    return llp(problem, run.size, run.bags, run.share, run.rng(), run.seed)


def _constants(problem: Problem, run: AggregationRun) -> dict[str, Any]:
    """What the code fixes for a run, and what it ran on."""
    return {**{name: getattr(cells, name) for name in CONSTANTS}, "data": problem.digest}

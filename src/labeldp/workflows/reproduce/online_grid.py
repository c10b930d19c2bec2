"""What `labeldp reproduce online` may be asked for: tables, losses, sizes, privacy, seeds."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from labeldp.privacy import InputError, all_digits
from labeldp.workflows.reproduce.online_data import LEAST
from labeldp.workflows.reproduce.online_tables import (
    BOUNDED,
    BOUNDED_EPSILONS,
    EXCESSES,
    HARD_EPSILONS,
    REAL_EPSILONS,
    SEQUENCES,
)
from labeldp.workflows.settings import epsilon_of

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

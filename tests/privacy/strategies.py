"""Tiny games against the certificates of the library: the exact supremum over all adaptive strategies.

A player, who sees every output, chooses moves of a menu: releases, plans, budgets, parts, another dataset. What is
claimed is asked of the library: each sequence of moves drives real ledgers, and the certificates are joined.
"""

import math
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

import labeldp as ldp
from labeldp.curator import Ledger, LedgerFile
from labeldp.privacy import Certificate, PendingCharge, PrivacyLoss, Trust, Unit
from labeldp.privacy.certificate import join_certificates

Pair = tuple[tuple[float, float], ...]
"""The probability of each output under either label; symmetric, so that one order of the labels is enough."""

NONE: Pair = ((1.0, 1.0),)

TRACES = (("row numbers", "classes", "digest"),)

NORMAL = NormalDist()


@dataclass(frozen=True)
class Menu:
    """A release that may be made: what it costs and what it does."""

    loss: PrivacyLoss
    pair: Pair


@dataclass(frozen=True)
class Move:
    """One move: `kind` is "release", "other part" (the record is in part 0), "plan" or "budget"."""

    kind: str
    dataset: int
    items: tuple[int, ...] = ()
    parts: bool = False
    budget: ldp.Budget | None = None


@dataclass(frozen=True)
class Game:
    """The datasets with their budgets, the releases, the moves, how many are made, and the deltas that are asked."""

    durable: tuple[bool, ...]
    budgets: tuple[ldp.Budget, ...]
    menu: tuple[Menu, ...]
    moves: tuple[Move, ...]
    deltas: tuple[float, ...]
    depth: int


class Released:
    """A mechanism, as far as a ledger looks at it."""

    neighbors, trust = Unit.ONE_LABEL, Trust.CENTRAL
    published, assumptions, basis = "an example", (), ()

    def arrays(self) -> None:
        return None


class World:
    """The ledgers of a game after some moves."""

    def __init__(self, game: Game, folder: Path) -> None:
        self._game = game
        self._certificates: list[Certificate] = []
        self._numbers = count()
        self._ledgers: list[Any] = []
        self._files: list[LedgerFile | None] = []
        for number, (durable, budget) in enumerate(zip(game.durable, game.budgets, strict=True)):
            if durable:
                now = folder / f"now {number}.db"
                shutil.copy(folder / f"{number}.db", now)
                file = LedgerFile(now)
                self._files.append(file)
                self._ledgers.append(file.dataset("people"))
            else:
                self._files.append(None)
                self._ledgers.append(Ledger(budget, "people"))

    def make(self, move: Move) -> None:
        """Make a move; raise BudgetExceeded if it is refused."""
        ledger, file = self._ledgers[move.dataset], self._files[move.dataset]
        if move.kind == "budget":
            assert file is not None and move.budget is not None
            file.change("people", budget=move.budget)
            return
        path = (("split", int(move.kind == "other part")),) if move.parts else ()
        losses = [self._game.menu[item].loss for item in move.items]
        if move.kind == "plan":
            ledger.require([PendingCharge({}, loss, path) for loss in losses])
            return
        name = {"mechanism": f"number {next(self._numbers)}"}
        request = PendingCharge(name, losses[0], path, labels="digest", traces=TRACES)
        with ledger.charging(request, Released()) as draw:
            draw.value = np.zeros(1)
        self._certificates.append(draw.release.certificate)

    def certificate(self) -> Certificate | None:
        """The certificate of all releases together; None where there are none."""
        return join_certificates(self._certificates) if self._certificates else None


def played(game: Game, folder: Path, read: Callable[[Certificate, float], float]) -> dict[tuple[int, ...], list[float]]:
    """Return what is claimed at each delta after every sequence of moves that is admitted."""
    for number, (durable, budget) in enumerate(zip(game.durable, game.budgets, strict=True)):
        (folder / f"{number}.db").unlink(missing_ok=True)
        if durable:
            LedgerFile(folder / f"{number}.db").add("people", budget)
    claims: dict[tuple[int, ...], list[float]] = {(): [0.0] * len(game.deltas)}
    last: list[tuple[int, ...]] = [()]
    for _ in range(game.depth):
        longer = []
        for before in last:
            for move in range(len(game.moves)):
                if game.moves[move].kind in ("budget", "plan") and move in before:
                    continue
                world = World(game, folder)
                try:
                    for each in (*before, move):
                        world.make(game.moves[each])
                except ldp.BudgetExceeded:
                    continue
                found = world.certificate()
                claims[*before, move] = [0.0 if found is None else read(found, delta) for delta in game.deltas]
                longer.append((*before, move))
        last = longer
    return claims


def pair_of(game: Game, move: Move) -> Pair | None:
    """What a move reveals of the record; None where it has no output."""
    if move.kind in ("plan", "budget"):
        return None
    return NONE if move.kind == "other part" else game.menu[move.items[0]].pair


def best(
    game: Game, sequence: tuple[int, ...], known: set[tuple[int, ...]], may_end: set[tuple[int, ...]], alpha: float
) -> float:
    """Return the supremum of sum max(0, P - alpha Q) over strategies that end only where they may; -inf if none."""
    value = max(0.0, 1.0 - alpha) if sequence in may_end else -math.inf
    for number, move in enumerate(game.moves):
        after = (*sequence, number)
        if after in known:
            pair = pair_of(game, move)
            if pair is None or pair is NONE:
                value = max(value, best(game, after, known, may_end, alpha))
            else:
                value = max(value, _mean(game, pair, after, known, may_end, alpha))
    return value


def _mean(game: Game, pair: Pair, after: tuple[int, ...], known: Any, may_end: Any, alpha: float) -> float:
    total = 0.0
    for p, q in pair:
        if p > 0:
            total += p * best(game, after, known, may_end, alpha * q / p)
            if total == -math.inf:
                break
    return total


def worst_ratio(
    game: Game, folder: Path, read: Callable[[Certificate, float], float] = Certificate.epsilon
) -> tuple[float, int]:
    """Return the largest true delta over the claimed one, and how many claims were tried."""
    claims, ratio, tried = played(game, folder, read), 0.0, 0
    known = set(claims)
    for place, delta in enumerate(game.deltas):
        for epsilon in sorted({claim[place] for claim in claims.values()}):
            if math.isfinite(epsilon):
                may_end = {sequence for sequence, claim in claims.items() if claim[place] <= epsilon}
                true = best(game, (), known, may_end, math.exp(epsilon))
                ratio, tried = max(ratio, true / delta if delta else float(true > 1e-12) * math.inf), tried + 1
    return ratio, tried


def response(epsilon: float, classes: int) -> Menu:
    """Randomized response over some answers; those that neither label prefers are one output."""
    total = math.exp(epsilon) + classes - 1
    keep, lie = math.exp(epsilon) / total, 1 / total
    rest = (((classes - 2) * lie,) * 2,) if classes > 2 else ()
    return Menu(PrivacyLoss.response(repr(epsilon), classes), ((keep, lie), (lie, keep), *rest))


def failing(epsilon: float, delta: float) -> Menu:
    """Randomized response that reveals the label with a small probability."""
    keep = 1 / (1 + math.exp(-epsilon))
    answers = tuple(((1 - delta) * p, (1 - delta) * q) for p, q in ((keep, 1 - keep), (1 - keep, keep)))
    return Menu(PrivacyLoss.approximate(repr(epsilon), repr(delta)), ((delta, 0.0), (0.0, delta), *answers))


def gaussian(mu: float, cut: float) -> Menu:
    """A Gaussian release, seen in three bins."""
    tail = 1 - NORMAL.cdf(cut - mu / 2), 1 - NORMAL.cdf(cut + mu / 2)
    return Menu(PrivacyLoss.gaussian(mu), (tail, tail[::-1], (1 - sum(tail),) * 2))


def some_item(chance: random.Random) -> Menu:
    """A random release."""
    kind = chance.randrange(6)
    if kind <= 2:
        return response(round(chance.uniform(0.05, 2.5), 3), chance.choice((2, 2, 3, 20, 1000)))
    if kind <= 4:
        return failing(round(chance.uniform(0.05, 1.0), 3), chance.choice((0.001, 0.01, 0.03)))
    return gaussian(round(chance.uniform(0.1, 1.2), 1), chance.uniform(0.2, 2.0))


def some_budget(chance: random.Random) -> ldp.Budget:
    """A random budget: with or without a delta."""
    return ldp.Budget(chance.choice((0.5, 0.8, 1, 1.5, 2, 3)), chance.choice((0, 0, 0.02, 0.1, 0.3)))


def some_game(chance: random.Random, durable: bool) -> Game:
    """A random game: three or four moves, made three at a time."""
    several = chance.random() < 0.3
    kept = tuple(durable and (number == 0 or chance.random() < 0.5) for number in range(1 + several))
    budgets = tuple(some_budget(chance) for _ in kept)
    menu = tuple(some_item(chance) for _ in range(3))
    parts = chance.random() < 0.2
    moves = [
        Move("release", chance.randrange(len(kept)), (item,), parts and chance.random() < 0.6) for item in (0, 1, 2)
    ]
    if durable and chance.random() < 0.5:
        moves[2] = Move("budget", 0, budget=some_budget(chance))
    elif chance.random() < 0.5:
        plan = tuple(chance.sample(range(3), chance.choice((2, 2, 3))))
        moves.append(Move("plan", moves[plan[0]].dataset, plan, moves[plan[0]].parts))
    if parts and len(moves) < 4:
        moves.append(Move("other part", moves[0].dataset, (0,), True))
    shares = [float(budget.delta) for budget in budgets]
    deltas = {max(sum(shares), 0.005), chance.choice((0.005, 0.03, 0.15))}
    return Game(kept, budgets, menu, tuple(moves), tuple(sorted(deltas)), 3)


def games(seed: int, number: int, files: int) -> list[Game]:
    """Return random games, one in `files` of them on disk."""
    chance = random.Random(seed)
    return [some_game(chance, place % files == 0) for place in range(number)]


def sequence_of(game: Game, folder: Path, moves: Sequence[int]) -> Certificate:
    """Return the certificate of all releases after a sequence of moves."""
    played(Game(game.durable, game.budgets, game.menu, game.moves, (), 0), folder, Certificate.epsilon)
    world = World(game, folder)
    for move in moves:
        world.make(game.moves[move])
    found = world.certificate()
    assert found is not None
    return found

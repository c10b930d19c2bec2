"""Play the rounds of a file of losses: read twice by blocks, charged once, decisions published whole or not at all."""

import hashlib
import hmac
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.online import Course, Plan, freeze, plan_experts, thaw
from labeldp.privacy import Budget, Certificate, DomainError, InputError, KeyedRandomness, LabelDPError, Ledger
from labeldp.tables import ReleaseWriter, TableFile, open_table, release_writer
from labeldp.workflows.declared import LOSSES
from labeldp.workflows.ledger_file import DatasetLedger, LedgerFile
from labeldp.workflows.loss_table import experts_of, levels_of
from labeldp.workflows.online_plan import count
from labeldp.workflows.release import Progress
from labeldp.workflows.unfinished import Unfinished, unfinished

BLOCK_CELLS = 1 << 22
"""Losses that are played at a time; other blocks are another request, with other coins."""

COLUMNS = ("round", "expert")
KEPT = 2
"""The version of what waits in OUT.unfinished."""


@dataclass(frozen=True)
class OnlineRun:
    """What is asked of a run; all of it is public.

    Args:
        epsilon, delta: the privacy parameters that the whole horizon costs.
        method, neighbors, loss_bits: see `PrivateExperts`.
        horizon: the number of rounds that is charged; by default the number of rows of the file, which is then public.
        levels: whether the file holds integers from 0 to 2^loss_bits - 1 in the place of losses in [0, 1].
        experts: the columns that are experts, at least two; by default all.
    """

    epsilon: Any
    delta: Any = 1e-6
    method: str = "auto"
    neighbors: str = "replace"
    loss_bits: int = 8
    horizon: Any = None
    levels: bool = False
    experts: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        Budget(self.epsilon, self.delta)
        if self.horizon is not None:
            object.__setattr__(self, "horizon", count(self.horizon, "horizon", 1, 12))
        if self.loss_bits not in (8, 16):
            raise InputError("loss_bits must be 8 or 16")

    def plan(self, experts: int, rows: int) -> tuple[Plan, int]:
        """The plan, and the number of rounds that it is for."""
        rounds = self.horizon or rows
        if rows > rounds:
            raise InputError(f"horizon must be at least the number of rows, {rows:,}, not {rounds:,}")
        settings = (self.epsilon, self.delta, self.method, self.neighbors, self.loss_bits)
        return plan_experts(experts, rounds, *settings), rounds

    def request(self, names: tuple[str, ...], *account: Any) -> str:
        """A digest of all that is asked for, and of the account that pays."""
        asked = {name: str(value) for name, value in vars(self).items()}
        return hashlib.sha256(
            json.dumps([KEPT, BLOCK_CELLS, asked, names, [str(each) for each in account]]).encode()
        ).hexdigest()


def run_online(
    data: str | os.PathLike[str],
    run: OnlineRun,
    *,
    out: str | os.PathLike[str],
    ledger: str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    revision: str | None = None,
    progress: Progress | None = None,
    note: Callable[[str], None] | None = None,
) -> Certificate:
    """Decide every row of a file of losses, in private: which column is played, before the row is seen.

    Columns are experts, and their names are public; rows are rounds, in order. The file is read twice by blocks, first
    to check every loss, then to play: memory grows with a block, not with the file. What was played waits beside the
    output, in OUT.unfinished, until all is done: the same command goes on there after an interrupt.

    Args:
        data: a CSV or Parquet file of numbers.
        run: what is asked for.
        out: the output, .parquet or .csv (.csv.gz …), which must not exist: a row for each round, with its number from
            1 on and the name of the expert.
        ledger: a ledger file to charge; made if it is not there. The same plan for the same losses is then the same
            release: its decisions are the same again, and cost nothing. Without one nothing remembers a finished run,
            and another run of the same losses is another release.
        dataset: the name of the losses in it. The first one of a ledger that is made is added with this run's epsilon
            and delta as its whole budget, and `note` is told.
        revision: names another file of losses; see `LedgerFile.dataset`.
        progress: called after each block.
        note: called with a sentence that the user should read.

    Guarantee: a run is charged before its first action is drawn, and once, however often it is interrupted; actions
        leave when all rounds are played; whoever goes on from what was kept, or from a copy of it, makes the same
        decisions. Proof: `docs/proofs/snapshots.md`.

    Raises:
        InputError: an argument or a loss is wrong, or the output exists; nothing was charged.
        BudgetExceeded: nothing was charged and nothing published.
        LedgerError: the ledger cannot be used, or the losses changed; nothing was charged.
        LabelDPError: the file changed meanwhile, or the disk is full; nothing was published.
    """
    name, target, budget = _named(ledger, dataset, revision), _free(Path(out)), Budget(run.epsilon, run.delta)
    table = open_table(data)
    losses = LossFile(table, experts_of(table, run.experts), run, progress)
    account = _account(ledger, name, revision, budget)
    with (
        unfinished(target, run.request(losses.names, ledger, name, revision)) as place,
        release_writer(target, COLUMNS, released="expert") as writer,
    ):
        rows = losses.counted()
        plan, rounds = run.plan(len(losses.names), rows)
        new, before = isinstance(account, DatasetLedger) and account.is_new, account.charges
        if note and new:
            note(f"{name!r} is new in {ledger}: its whole budget is that of this run ({budget})")
        digests, counted = account.compare(LOSSES, losses.checked)
        if counted != rows:
            raise losses.changed()
        course, coins = _course(account, place, plan, rounds, digests[-1], losses.block_rows)
        with place.charging(keyed(place.key, digests[-1])):
            certificate = course.pay(account, coins)
        if note and certificate.entries[0] in before:
            note("These losses were charged for this plan before: the decisions are the same, and cost nothing.")
        losses.play(course, place, digests, rows, coins)
        publish(place, losses.names, rows, writer)
        writer.certify(certificate.to_json())
    return certificate


def _named(ledger: Any, dataset: str | None, revision: str | None) -> str:
    """The name of the losses, where ledger and name go together."""
    if ledger is None and dataset is not None:
        raise InputError("`ledger` must be given with `dataset`: the file that is charged")
    if ledger is not None and dataset is None:
        raise InputError("`dataset` must be given with `ledger`: the name of the losses in it")
    if ledger is None and revision is not None:
        raise InputError("`ledger` and `dataset` must be given with `revision`: it names other losses in a ledger")
    return "losses" if dataset is None else dataset


def _free(target: Path) -> Path:
    """Where an output can appear."""
    if os.path.lexists(target):
        raise InputError(f"out: {target} exists already; choose another name or remove it first")
    if not target.parent.is_dir():
        raise InputError(f"out: there is no directory {target.parent}")
    return target


def _account(ledger: Any, name: str, revision: str | None, budget: Budget) -> Ledger | DatasetLedger:
    """The ledger to charge; in memory where no file is named."""
    if ledger is None:
        return Ledger(budget, name)
    return LedgerFile(ledger).dataset(name, revision=revision, budget=budget)


def _course(
    account: Ledger | DatasetLedger, place: Unfinished, plan: Plan, rounds: int, digest: bytes, block_rows: int
) -> tuple[Course, KeyedRandomness]:
    """What is charged, and its coins: other ones for another plan, for other losses, and for other blocks.

    Name and key are those of a durable ledger, so that it finds the same run again; else of the folder alone.
    """
    if isinstance(account, DatasetLedger):
        name, key, secret = account.enroll(), account.randomness, account.digest_key
    else:
        name, key, secret = place.run, KeyedRandomness(place.key), place.key
    traces = (("row numbers", f"losses of {plan.loss_bits} bits", keyed(secret, digest)),)
    course = Course(plan.kernel(), rounds, plan.to_json(), name, traces)
    context = json.dumps([course.specification(), traces, block_rows], sort_keys=True)
    return course, key.bind(context.encode())


@dataclass(frozen=True)
class LossFile:
    """A file of losses on its way through a learner."""

    table: TableFile
    names: tuple[str, ...]
    run: OnlineRun
    progress: Progress | None

    @property
    def block_rows(self) -> int:
        """Rounds that are played at a time."""
        return max(1, BLOCK_CELLS // len(self.names))

    def counted(self) -> int:
        """The number of rows, which is public: a plan is refused before any loss is looked at."""
        if self.table.rows is not None:
            return self.table.rows
        return sum(batch.num_rows for batch in self.table.blocks(self.names[:1]))

    def changed(self) -> LabelDPError:
        """What is said of a file that is not what it was a moment ago."""
        return LabelDPError(f"{self.table.path} changed while it was being played: nothing was published")

    def checked(self) -> tuple[list[bytes], int]:
        """Digests of all losses up to each block, as secret as they are, and the number of rows.

        What is wrong is refused here.
        """
        found, digests, rows = hashlib.sha256(), [], 0
        refused: list[DomainError] = []
        for levels in self._blocks(refused):
            found.update(levels.tobytes())
            digests.append(found.digest())
            rows += len(levels)
            self._tell(f"checked {rows:,} rounds", rows, 0.0)
        if refused:  # now that all is read: neither time nor progress tells where it was
            raise refused[0]
        return digests, rows

    def play(self, course: Course, place: Unfinished, digests: list[bytes], rows: int, coins: KeyedRandomness) -> None:
        """Play the rounds that were not played before, and keep what was played after each block.

        A block is compared with the first look before it is played: the coins are of the losses that were charged.

        Raises:
            LabelDPError: the losses are others now, or what was kept was played on others.
        """
        kept, known = place.load(), iter(digests)
        done, start, found = 0 if kept is None else int(kept["rounds"]), 0, hashlib.sha256()
        state = course.kernel.init(rng=coins.bind(b"first").stream()) if kept is None else thaw(kept["state"])
        refused: list[DomainError] = []
        for levels in self._blocks(refused):
            found.update(levels.tobytes())
            start += len(levels)
            if refused or next(known, None) != found.digest():
                raise self._changed(place)
            if start > done:
                stream = coins.bind(f"from {done}".encode()).stream()
                state, actions = course.kernel.update(state, levels, rng=stream)
                done = start
                place.keep({"rounds": done, "losses": found.hexdigest(), "state": freeze(state)}, actions)
            elif kept is not None and start == done and found.hexdigest() != kept["losses"]:
                raise self._changed(place)
            self._tell(f"played {start:,} rounds", start, 0.5, rows)
        if next(known, None) is not None:
            raise self._changed(place)

    def _changed(self, place: Unfinished) -> LabelDPError:
        """What was played on other losses is dropped: the coins are of those that were charged."""
        place.forget()
        return self.changed()

    def _blocks(self, refused: list[DomainError]) -> Iterator[NDArray[Any]]:
        """The levels of so many rounds at a time, shape (rounds, experts), however the file divides them.

        Args:
            refused: takes what is said of losses that are none; zeros stand in their place.
        """
        held, size = [], 0
        for batch in self.table.blocks(self.names, block_rows=self.block_rows):
            try:
                levels = levels_of(batch, self.names, bits=self.run.loss_bits, levels=self.run.levels)
            except DomainError as error:
                refused.append(error.with_traceback(None))
                levels = np.zeros((batch.num_rows, len(self.names)), dtype=np.uint8)
            while len(levels):
                held.append(levels[: self.block_rows - size])
                size, levels = size + len(held[-1]), levels[len(held[-1]) :]
                if size == self.block_rows:
                    yield np.concatenate(held)
                    held, size = [], 0
        if held:
            yield np.concatenate(held)

    def _tell(self, text: str, done: int, before: float, rows: int | None = None) -> None:
        total = rows or self.table.rows
        if self.progress:
            self.progress(text, before + (done / total / 2 if total else 0.0))


def keyed(key: bytes, digest: bytes) -> str:
    """A digest that can be kept: who does not have the key cannot try losses out."""
    return hmac.digest(key, digest, hashlib.sha256).hex()


def publish(place: Unfinished, names: tuple[str, ...], rows: int, writer: ReleaseWriter) -> None:
    """Write the decisions: the number of each round, and the name of the expert that was played."""
    experts, start = pa.array(names, pa.string()), 1
    for actions in place.actions(rows, BLOCK_CELLS):
        rounds = pa.array(np.arange(start, start + len(actions), dtype=np.int64))
        writer.write(experts.take(pa.array(actions)), pa.RecordBatch.from_arrays([rounds], ["round"]))
        start += len(actions)

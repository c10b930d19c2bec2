"""Private online learning on a file of losses: which column to play in each row, by blocks."""

import hashlib
import hmac
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.curator import LOSSES, Ledger, counts_unreadable, open_account
from labeldp.online.experts.kernel import Actions, check_levels, quantize
from labeldp.online.learner import HorizonCharge
from labeldp.online.planning import OnlinePlan, loss_unit, plan_experts
from labeldp.online.snapshots import dump_state, from_plain, load_state, to_plain
from labeldp.privacy import (
    Argument,
    Budget,
    Certificate,
    DomainError,
    InputError,
    KeyedRandomness,
    LabelDPError,
    LedgerLike,
    Request,
    Source,
    decimal,
    json_value,
)
from labeldp.tables import (
    ReleaseWriter,
    Table,
    atomic_write,
    label_numbers,
    lock_directory,
    open_table,
    release_writer,
    type_name,
)

Progress = Callable[[str, float], None]
"""Called with a description of the progress and the completed share."""

BLOCK_CELLS = 1 << 22
"""Losses in a block. Another size is another request, with other coins."""

COLUMNS = ("round", "expert")

STATE_VERSION = 2
"""The version of the files in OUT.unfinished."""

KEY_BYTES = 32

RUN_FILE, STATE_FILE, ACTIONS_FILE = "run.json", "state", "actions"
ACTION_TYPE = np.dtype("<i4")

DRAFT_NAME = re.compile(rf"\.{re.escape(RUN_FILE)}(\.[0-9a-f]+)?\.partial")
"""The name of a draft that a run leaves behind if it dies before its folder says whose it is."""

PANDAS_INDEX = "__index_level_0__"
"""The name that pandas gives to an index without a name in a Parquet file."""


def count(text: Any, name: str, low: int, digits: int) -> int:
    """Parse a whole number, such as 1e5, from `low` to 10^digits; raise InputError if it is not one."""
    with suppress(InputError):
        exact = decimal(text, name)
        if exact.denominator == 1 and low <= exact <= 10**digits:
            return exact.numerator
    raise InputError(f"must be a whole number from {low} to 10^{digits}, such as 1e5", argument=name)


def run_online(
    data: str | os.PathLike[str],
    *,
    epsilon: Any,
    delta: Any = 1e-6,
    method: str = "auto",
    neighbors: str = "replace",
    loss_bits: int = 8,
    horizon: Any = None,
    levels: bool = False,
    experts: Sequence[str] | None = None,
    out: str | os.PathLike[str],
    ledger: str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    revision: str | None = None,
    progress: Progress | None = None,
    note: Callable[[str], None] | None = None,
    new_budget: Budget | None = None,
) -> Certificate:
    """Choose privately, for each row of a file of losses, which column to play before the row is seen.

    Columns are experts, and their names are public; rows are rounds, in order. The file is read twice by blocks, first
    to check every loss, then to play, so memory grows with a block and not with the file. Until the run is complete,
    its decisions are kept beside the output, in OUT.unfinished; after an interrupt the same command continues there.

    Args:
        data: a CSV or Parquet file of numbers.
        epsilon, delta: privacy parameters of the whole horizon.
        method, neighbors, loss_bits: see `PrivateExperts`.
        horizon: number of rounds to charge for; by default the number of rows of the file, which is then public.
        levels: whether the file holds integers from 0 to 2^loss_bits - 1 instead of losses in [0, 1].
        experts: the columns that are experts, at least two; all by default.
        out: a new .parquet or .csv (.csv.gz …) file: for each round its number, from 1, and the name of the expert.
        ledger: a ledger file to charge, created if it does not exist. The same plan for the same losses is then the
            same release: its decisions are the same again, and cost nothing. Without a ledger nothing remembers a
            finished run, and another run on the same losses is another release.
        dataset: the name of the losses in the ledger.
        revision: names another file of losses; see `LedgerFile.dataset`.
        progress: called after each block.
        note: called with a sentence that the user should read.
        new_budget: of a ledger that does not exist yet; by default what this run costs.

    Returns:
        The certificate of the decisions.

    Guarantee (charged_once, all_rounds, same_decisions): a run is charged before its first action is drawn, and once,
        however often it is interrupted; actions leave when all rounds are played; whoever goes on from what was kept,
        or from a copy of it, makes the same decisions. Proof: `docs/proofs/keys.md`.

    Raises:
        InputError: an argument or a loss is wrong, or the output exists; nothing was charged.
        BudgetExceeded: nothing was charged and nothing published.
        LedgerError: the ledger cannot be used, or the losses changed; nothing was charged.
        LabelDPError: the file changed meanwhile, or the disk is full; nothing was published.
    """
    options: dict[str, Any] = {"neighbors": neighbors, "loss_bits": loss_bits, "levels": levels, "revision": revision}
    options |= {"horizon": None if horizon is None else count(horizon, "horizon", 1, 12)}
    options |= {"experts": None if experts is None else tuple(experts), "unit": loss_unit(neighbors)}
    name = _named(ledger, dataset, revision)
    request = Request.of("online", method, name, Source.of(data), epsilon, delta, **options)
    return ask_online(request, data, ledger=ledger, out=out, progress=progress, note=note, new_budget=new_budget)


@counts_unreadable
def ask_online(
    request: Request,
    data: str | os.PathLike[str],
    *,
    ledger: str | os.PathLike[str] | None,
    out: str | os.PathLike[str],
    progress: Progress | None = None,
    note: Callable[[str], None] | None = None,
    new_budget: Budget | None = None,
) -> Certificate:
    """Play the rounds of a file of losses as a request says; see `run_online`."""
    target, budget, options = _free(Path(out)), request.budget, request.options
    table, bits = open_table(data), options["loss_bits"]
    losses = LossFile(table, experts_of(table, options.get("experts")), bits, bool(options.get("levels")), progress)
    mark = json.dumps([STATE_VERSION, BLOCK_CELLS, request.digest, losses.names, str(ledger)])
    with (
        unfinished(target, hashlib.sha256(mark.encode()).hexdigest()) as state,
        release_writer(target, COLUMNS, released="expert") as writer,
    ):
        rows = losses.counted()
        rounds = options.get("horizon", rows)
        if rows > rounds:
            raise InputError(f"must be at least the number of rows, {rows:,}, not {rounds:,}", argument="horizon")
        terms = (budget.epsilon, budget.delta, request.does, options["neighbors"], bits)
        plan = plan_experts(len(losses.names), rounds, *terms)
        account: LedgerLike = Ledger(budget, request.scope.name)
        if ledger is not None:
            account = open_account(
                request,
                ledger,
                out=target,
                mechanism=lambda account: _mechanism(account, state, plan, rounds)[0],
                budget=new_budget,
                note=note,
            )
        before = account.charges
        with account.comparing(LOSSES):
            digests, counted = losses.checked()
        if counted != rows:
            raise losses.changed()
        mechanism, key = _mechanism(account, state, plan, rounds, digests[-1])
        context = json.dumps([mechanism.specification(), mechanism.traces, losses.block_rows], sort_keys=True)
        coins = key.bind(context.encode())
        with state.charging(keyed(state.key, digests[-1])):
            certificate = mechanism.charge(account, coins)
        if note and certificate.entries[0] in before:
            note("These losses were charged for this plan before: the decisions are the same, and cost nothing.")
        losses.play(mechanism, state, digests, rows, coins)
        state.publish(losses.names, rows, writer)
        certificate = replace(certificate, request=request)
        writer.certify(certificate.to_json())
    return certificate


def _named(ledger: Any, dataset: str | None, revision: str | None) -> str:
    """Return the name of the losses, after checking that `ledger`, `dataset` and `revision` go together."""
    if ledger is None and dataset is not None:
        raise InputError("must be given with ", Argument("dataset"), ": the file that is charged", argument="ledger")
    if ledger is not None and dataset is None:
        raise InputError(
            "must be given with ", Argument("ledger"), ": the name of the losses in it", argument="dataset"
        )
    if ledger is None and revision is not None:
        raise InputError(
            "must be given with ",
            Argument("revision"),
            ": it names other losses in a ledger",
            argument=("ledger", "dataset"),
        )
    return "losses" if dataset is None else dataset


def _free(target: Path) -> Path:
    """Return the path of the output, after checking that it does not exist and its directory does."""
    if os.path.lexists(target):
        raise InputError(f": {target} exists already; choose another name or remove it first", argument="out")
    if not target.parent.is_dir():
        raise InputError(f": there is no directory {target.parent}", argument="out")
    return target


@final
class RunState:
    """The folder OUT.unfinished of one run. Only its owner may read it: the state is as secret as the losses.

    Args:
        folder: its path.
        request: a digest of the settings.
        run: the name under which the run is charged if no ledger file names it.
        key: the key of the digest of the losses, and of the coins if no ledger file has one, in hexadecimal; secret.
        losses: the digest of the losses once a charge was asked for, else None; secret.
    """

    def __init__(self, folder: Path, request: str, run: str, key: str, losses: str | None = None) -> None:
        self.folder, self.request, self.run, self.losses = folder, request, run, losses
        self.key = bytes.fromhex(key)
        if len(self.key) < KEY_BYTES or not isinstance(run, str):
            raise InputError("a run has a name and a key")

    @contextmanager
    def charging(self, losses: str) -> Iterator[None]:
        """Put the digest of the losses on disk while the run is charged; forget it if the charge is refused.

        Raises:
            InputError: a charge was asked for with other losses.
        """
        if self.losses not in (None, losses):
            raise InputError(f"these losses differ from the unfinished run in {self.folder}: remove it first")
        before, self.losses = self.losses, losses
        self.note()
        try:
            yield
        except LabelDPError:
            self.losses = before
            raise

    def note(self) -> None:
        """Write on disk which run this is."""
        content = {"request": self.request, "run": self.run, "key": self.key.hex(), "losses": self.losses}
        _keep(self.folder / RUN_FILE, json.dumps(content).encode())

    def load(self) -> dict[str, Any] | None:
        """Return the last state on disk, or None."""
        path = self.folder / STATE_FILE
        try:
            return load_state(path.read_bytes()) if path.exists() else None
        except InputError:
            raise InputError(f"{path} is damaged: remove {self.folder}, or name another --out") from None

    def keep(self, state: dict[str, Any], actions: Actions) -> None:
        """Append the actions of a block, which ends at round `state["rounds"]`, then write the state.

        Actions that an interrupted run wrote without their state are overwritten: they never left this folder.
        """
        handle = os.open(self.folder / ACTIONS_FILE, os.O_CREAT | os.O_RDWR, 0o600)
        with os.fdopen(handle, "r+b") as file:
            file.seek((state["rounds"] - len(actions)) * ACTION_TYPE.itemsize)
            file.truncate()
            file.write(actions.astype(ACTION_TYPE).tobytes())
            file.flush()
            os.fsync(file.fileno())
        _keep(self.folder / STATE_FILE, dump_state(state))

    def publish(self, names: tuple[str, ...], rounds: int, writer: ReleaseWriter) -> None:
        """Write the decisions: the number of each round, from 1, and the name of the expert that was played."""
        experts = pa.array(names, pa.string())
        with (self.folder / ACTIONS_FILE).open("rb") as file:
            for start in range(0, rounds, BLOCK_CELLS):
                size = min(BLOCK_CELLS, rounds - start)
                actions = pa.array(np.frombuffer(file.read(size * ACTION_TYPE.itemsize), ACTION_TYPE))
                numbers = pa.array(np.arange(start + 1, start + size + 1, dtype=np.int64))
                writer.write(experts.take(actions), pa.RecordBatch.from_arrays([numbers], ["round"]))

    def forget(self) -> None:
        """Remove the state and the actions, none of which was published."""
        for name in (STATE_FILE, ACTIONS_FILE):
            (self.folder / name).unlink(missing_ok=True)


def _mechanism(
    account: LedgerLike, state: RunState, plan: OnlinePlan, rounds: int, digest: bytes = b""
) -> tuple[HorizonCharge, KeyedRandomness]:
    """Return the mechanism to charge, and the key of its coins; the digest is of the losses, once they were read.

    Its name and key are those of the ledger file, which so finds the same run again; without one, of the folder.
    """
    if account.randomness is None or account.digest_key is None:
        name, key, secret = state.run, KeyedRandomness(state.key), state.key
    else:
        name, key, secret = account.enroll(), account.randomness, account.digest_key
    traces = (("row numbers", f"losses of {plan.task.loss_bits} bits", keyed(secret, digest)),)
    return HorizonCharge(plan.kernel, rounds, plan.to_json(), name, traces), key


@dataclass(frozen=True)
class LossFile:
    """A file of losses, read by blocks to be checked and then to be played.

    Args:
        table: the file.
        names: the columns that are experts.
        bits: of a loss.
        levels: whether the file holds levels, integers.
        progress: called after each block.
    """

    table: Table
    names: tuple[str, ...]
    bits: int
    levels: bool
    progress: Progress | None

    @property
    def block_rows(self) -> int:
        """The number of rounds in a block."""
        return max(1, BLOCK_CELLS // len(self.names))

    def counted(self) -> int:
        """Return the public number of rows without reading a loss."""
        if self.table.rows is not None:
            return self.table.rows
        return sum(batch.num_rows for batch in self.table.blocks(self.names[:1]))

    def changed(self) -> LabelDPError:
        """Return the error for a file that changed between two readings."""
        return LabelDPError(f"{self.table.path} changed while it was being played: nothing was published")

    def checked(self) -> tuple[list[bytes], int]:
        """Check all losses; return the digest of those up to the end of each block, and the number of rows.

        Digests are as secret as the losses.

        Raises:
            DomainError: a loss is missing, not a number or out of range; raised at the end of the file.
        """
        digest, digests, rows = hashlib.sha256(), [], 0
        refused: list[DomainError] = []
        for levels in self._blocks(refused):
            digest.update(levels.tobytes())
            digests.append(digest.digest())
            rows += len(levels)
            self._tell(f"checked {rows:,} rounds", rows, 0.0)
        if refused:  # now that all is read: neither time nor progress tells where it was
            raise refused[0]
        return digests, rows

    def play(
        self,
        mechanism: HorizonCharge,
        folder: RunState,
        digests: list[bytes],
        rows: int,
        coins: KeyedRandomness,
    ) -> None:
        """Play the rounds that were not played before, and put the state on disk after each block.

        Each block is compared with its digest before it is played, since the coins belong to the losses that were
        charged.

        Raises:
            LabelDPError: the losses changed, or the state on disk is of other losses.
        """
        stored, expected = folder.load(), iter(digests)
        done, start, digest = 0 if stored is None else int(stored["rounds"]), 0, hashlib.sha256()
        state = from_plain(stored["state"]) if stored else mechanism.kernel.init(rng=coins.bind(b"first").stream())
        refused: list[DomainError] = []
        for levels in self._blocks(refused):
            digest.update(levels.tobytes())
            start += len(levels)
            if refused or next(expected, None) != digest.digest():
                raise self._changed(folder)
            if start > done:
                stream = coins.bind(f"from {done}".encode()).stream()
                state, actions = mechanism.kernel.update(state, levels, rng=stream)
                done = start
                folder.keep({"rounds": done, "losses": digest.hexdigest(), "state": to_plain(state)}, actions)
            elif stored is not None and start == done and digest.hexdigest() != stored["losses"]:
                raise self._changed(folder)
            self._tell(f"played {start:,} rounds", start, 0.5, rows)
        if next(expected, None) is not None:
            raise self._changed(folder)

    def _changed(self, folder: RunState) -> LabelDPError:
        """Remove what was played, since the coins belong to other losses; return the error to raise."""
        folder.forget()
        return self.changed()

    def _blocks(self, refused: list[DomainError]) -> Iterator[NDArray[Any]]:
        """Yield the losses as levels, `block_rows` rounds at a time, shape (rounds, experts).

        Args:
            refused: collects the errors of invalid losses, which zeros replace.
        """
        for batch in self.table.blocks(self.names, block_rows=self.block_rows):
            try:
                levels = levels_of(batch, self.names, bits=self.bits, levels=self.levels)
            except DomainError as error:
                refused.append(error.with_traceback(None))
                levels = np.zeros((batch.num_rows, len(self.names)), dtype=np.uint8)
            yield levels

    def _tell(self, text: str, done: int, before: float, rows: int | None = None) -> None:
        total = rows or self.table.rows
        if self.progress:
            self.progress(text, before + (done / total / 2 if total else 0.0))


def keyed(key: bytes, digest: bytes) -> str:
    """Return a keyed digest: without the key no one can test which losses it is of."""
    return hmac.digest(key, digest, hashlib.sha256).hex()


_TAKE = (Argument("experts"), " names the columns to take, where others are no losses")
_NUMERIC = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)


def experts_of(table: Table, named: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the columns that are experts: the named ones, or all. Their names are published.

    Raises:
        InputError: there are fewer than two, one does not exist, has no name or is not of a numeric type, or the first
            row of a CSV file looks like losses.
    """
    if not table.declares_names and all(_is_number(name) for name in table.columns):
        raise InputError(
            f"the columns of {table.path} have numbers for names, and names are published: does it have a header row?"
        )
    names = tuple(table.require(name, "experts") for name in named or table.columns)
    if len(set(names)) < len(names):
        raise InputError("must be different columns", argument="experts")
    if not all(name.strip() for name in names):
        raise InputError(f"{table.path} has a column without a name, and the names of experts are published; ", *_TAKE)
    if len(names) < 2:
        if named is None:
            raise InputError(f"{table.path} has one column; at least two experts are needed")
        raise InputError("must be the names of at least two columns", argument="experts")
    for name, kind in zip(names, table.types(names).types, strict=True):
        if table.declares_names and not any(test(kind) for test in _NUMERIC):
            raise InputError(f"column {name!r} holds {type_name(kind)}, and losses must be numbers; ", *_TAKE)
        if name == PANDAS_INDEX and named is None:
            raise InputError(f"column {name!r} is an index that pandas wrote, and no expert; ", *_TAKE)
    return names


def levels_of(batch: pa.RecordBatch, names: tuple[str, ...], *, bits: int, levels: bool) -> NDArray[Any]:
    """Return the losses of a block rounded to levels; return levels unchanged.

    Raises:
        DomainError: a loss is missing, not a number or out of range; the message says neither which nor where.
    """
    top = 2**bits - 1
    try:
        matrix = np.column_stack([_numbers(batch, name) for name in names])
        if not levels:
            return np.asarray(quantize(matrix, bits))
        if (matrix == np.clip(np.rint(matrix), 0, top)).all():  # a cast of others would warn of some
            return np.asarray(check_levels(matrix.astype(np.int64), bits))
    except InputError:
        pass
    wanted = f"integers from 0 to {top}" if levels else "numbers in [0, 1]"
    hint = () if levels else (Argument("levels"), f" takes integers from 0 to {top}, and ")
    raise DomainError(f"losses must be {wanted}, in every row of every column, none of them missing; ", *hint, *_TAKE)


def _numbers(batch: pa.RecordBatch, name: str) -> NDArray[np.float64]:
    values = batch.column(name)
    if pa.types.is_boolean(values.type):
        batch = pa.RecordBatch.from_arrays([values.cast(pa.uint8())], names=[name])
    return label_numbers(batch, name)


def _is_number(name: str) -> bool:
    """Return whether a name is empty or reads as a number, as a cell of losses does."""
    try:
        float(name.strip() or "0")
    except ValueError:
        return False
    return True


@contextmanager
def unfinished(out: Path, request: str) -> Iterator[RunState]:
    """Open or create the folder OUT.unfinished, and lock it.

    It is removed if the body ends without an error, or is refused before anything was charged.

    Args:
        out: the file that the run will write.
        request: a digest of the settings; public.

    Raises:
        InputError: the folder belongs to another request, or was not made by labeldp.
        LabelDPError: another run is at work on it.
    """
    folder = out.with_name(f"{out.name}.unfinished")
    try:
        handle = lock_directory(folder)
    except OSError as error:
        raise InputError(f"{folder}, where an interrupted run would wait, cannot be used: {error.strerror}") from None
    if handle is None:
        raise LabelDPError(f"another run is at work on {out}")
    try:
        state = _found(folder, request)
        try:
            yield state
        except LabelDPError:
            if state.losses is None:
                shutil.rmtree(folder)
            raise
        shutil.rmtree(folder)
    finally:
        os.close(handle)


def _found(folder: Path, request: str) -> RunState:
    """Return the run in this folder, or a new one, whose name is on disk before it is charged."""
    file = folder / RUN_FILE
    if file.exists():
        try:
            waiting = RunState(folder, **json_value(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            raise InputError(f"{file} is damaged: remove {folder}, or name another --out") from None
        if waiting.request == request:
            return waiting
        if waiting.losses is not None:
            raise InputError(f"{folder} is of another run: finish that one, remove the folder, or name another --out")
    elif any(not DRAFT_NAME.fullmatch(left.name) for left in folder.iterdir()):
        raise InputError(f"{folder} is not of labeldp: remove it, or name another --out")
    new = RunState(folder, request, secrets.token_hex(8), secrets.token_hex(KEY_BYTES))
    new.note()
    return new


def _keep(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read, completely or not at all, and wait until it is on disk."""
    with atomic_write(path, overwrite=True, private=True) as hidden:
        hidden.write_bytes(content)

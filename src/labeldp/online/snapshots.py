"""Snapshots of learners: their settings, epochs and secret states as plain values, and states continued only once."""

import hashlib
import io
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any, ClassVar, Self
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from labeldp.online.charging import ChargeableKernel, RoundsMechanism, State
from labeldp.privacy import InputError, Path, Randomness, check_growth, json_value

SECRET_WARNING = "labeldp learner state: as SECRET as the losses themselves"
"""The first line of every stored state."""
SNAPSHOT_FORMAT = 1
FIRST_EPOCH_ROUNDS = 1024
"""The length of the first epoch where the horizon is not known; each further epoch has twice as many rounds."""
NOT_A_STATE = "state is not one that state_dict() gave, or it is of another version of labeldp, or it was changed"


def freeze(state: Any) -> dict[str, Any]:
    """Return a kernel's state as plain JSON values and a list of arrays: all of them as secret as the state."""
    arrays: list[Any] = []
    return {"tree": _frozen(state, arrays), "arrays": arrays}


def thaw(frozen: Mapping[str, Any]) -> Any:
    """Return the state that `freeze` was given. It makes states of learners only and runs no code of the snapshot.

    Raises:
        InputError: frozen is not what `freeze` returns.
    """
    try:
        return _thawed(frozen["tree"], [np.array(array) for array in frozen["arrays"]])
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError, RecursionError):
        raise InputError(NOT_A_STATE) from None  # the original quotes what it could not read


def dump_state(state: Mapping[str, Any]) -> bytes:
    """Return what `state_dict()` gave as bytes, for a file that only its owner may read: as secret as the losses.

    The first line says so. The format holds numbers and arrays, never code.
    """
    frozen = state["state"]
    buffer = io.BytesIO()
    text = json.dumps({**state, "state": frozen["tree"]}, sort_keys=True).encode()
    arrays = {f"array{i}": array for i, array in enumerate(frozen["arrays"])}
    np.savez_compressed(buffer, text=np.frombuffer(text, np.uint8), **arrays)
    body = buffer.getvalue()
    return b"\n".join([SECRET_WARNING.encode(), hashlib.sha256(body).hexdigest().encode(), body])


def load_state(content: bytes) -> dict[str, Any]:
    """Return the state that `dump_state` was given.

    Raises:
        InputError: content is not what `dump_state` returns, or it is damaged.
    """
    if not isinstance(content, bytes | bytearray | memoryview):
        raise InputError("content must be bytes, such as dump_state gives")
    head, _, rest = bytes(content).partition(b"\n")
    digest, _, body = rest.partition(b"\n")
    if head != SECRET_WARNING.encode() or digest != hashlib.sha256(body).hexdigest().encode():
        raise InputError("content is not a stored state of labeldp, or it is damaged")
    try:
        with ZipFile(io.BytesIO(body)) as members:
            check_growth("content", len(body), sum(each.file_size for each in members.infolist()))
        with np.load(io.BytesIO(body), allow_pickle=False) as stored:
            state: dict[str, Any] = json_value(stored["text"].tobytes())
            arrays = [stored[f"array{i}"] for i in range(len(stored.files) - 1)]
        return {**state, "state": {"tree": state["state"], "arrays": arrays}}
    except InputError:
        raise
    except Exception:  # whatever numpy, zlib and their parsers meet; they quote what they read
        pass
    raise InputError(NOT_A_STATE)


class Tickets:
    """Records which states of which runs were continued in this process: each of them once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claimed: dict[tuple[str, int], bytes] = {}

    def claim(self, run: str, rounds: int, owner: bytes) -> bool:
        """Take the right to continue from a state and return True; return False if another owner has it."""
        with self._lock:
            return self._claimed.setdefault((run, rounds), owner) == owner

    def claimed(self, run: str, rounds: int) -> bool:
        """Return whether somebody continued from a state."""
        return (run, rounds) in self._claimed


def _frozen(value: Any, arrays: list[Any]) -> Any:
    """Return a value of a state as plain JSON values, and append copies of its arrays to `arrays`."""
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        arrays.append(value.copy())
        return {"array": len(arrays) - 1}
    if isinstance(value, np.generic):
        return _frozen(value.item(), arrays)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Fraction):
        return {"fraction": [value.numerator, value.denominator]}
    if isinstance(value, tuple | list):
        return {type(value).__name__: [_frozen(item, arrays) for item in value]}
    kind = type(value)
    if kind in State.kinds.values():
        inner = {field.name: _frozen(getattr(value, field.name), arrays) for field in fields(value) if field.init}
        return {"kind": f"{kind.__module__}:{kind.__qualname__}", "fields": inner}
    raise InputError(f"a state of type {kind.__name__} cannot be stored")


def _thawed(tree: Any, arrays: list[Any]) -> Any:
    """Return the value that `_frozen` was given."""
    if not isinstance(tree, dict):
        return tree
    if "kind" in tree:
        inner = {name: _thawed(value, arrays) for name, value in tree["fields"].items()}
        return State.kinds[tree["kind"].partition(":")[2]](**inner)
    [(form, value)] = tree.items()
    if form == "array":
        return arrays[value]
    if form == "fraction":
        return Fraction(*map(int, value))
    return {"tuple": tuple, "list": list}[form](_thawed(item, arrays) for item in value)


class Settings(ABC):
    """The public arguments of a learner: a frozen dataclass.

    Attributes:
        horizon: the number of rounds, or None for epochs of 1024, 2048, … rounds.
        name: the name of the learner in a ledger.
    """

    horizon: int | None
    epsilon: float
    delta: float
    name: ClassVar[str]

    @abstractmethod
    def planned(self, rounds: int) -> tuple[Any, ChargeableKernel]:
        """Return the plan for so many rounds, and its kernel."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain JSON values.

        Raises:
            InputError: they cannot be stored.
        """

    @classmethod
    @abstractmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return the settings that `to_json` was given."""

    def mechanism(self, number: int, run: str) -> tuple[Any, RoundsMechanism[Any]]:
        """Return an epoch's plan and its rounds as a mechanism; there is one epoch where the horizon is known."""
        rounds = FIRST_EPOCH_ROUNDS << number if self.horizon is None else self.horizon
        plan, kernel = self.planned(rounds)
        return plan, RoundsMechanism(kernel, rounds, plan.to_json(), run, name=self.name)

    def path(self, number: int, run: str) -> Path:
        """Return where an epoch is charged: each round lies in one epoch, so that the worst of them counts."""
        return () if self.horizon is not None else ((run, number),)


@dataclass(frozen=True)
class Epoch:
    """A stretch of rounds with its own plan, of which `seen` rounds were played."""

    number: int
    plan: Any
    mechanism: RoundsMechanism[Any]
    seen: int
    state: Any = field(repr=False)

    @property
    def left(self) -> int:
        """The number of rounds to come."""
        return self.mechanism.rounds - self.seen

    def check_left(self) -> None:
        """Raise InputError after the last round."""
        if not self.left:
            raise InputError(f"the horizon of {self.mechanism.rounds:,} rounds is over")

    def played(self, losses: Any, rng: Randomness) -> tuple["Epoch", NDArray[Any]]:
        """Return the epoch after more rounds, and what was played in them."""
        state, played = self.mechanism.kernel.update(self.state, losses, rng=rng)
        return replace(self, seen=self.seen + count_rounds(losses), state=state), played


def count_rounds(losses: Any) -> int:
    """Return the number of rounds of checked losses: rows of an array, sparse or not, or items of a list."""
    return int(losses.shape[0]) if hasattr(losses, "shape") else len(losses)


@dataclass(frozen=True)
class Snapshot:
    """A learner between two rounds: public settings and a secret state.

    `simulated` says whether anything was drawn from a seeded generator.
    """

    settings: Settings
    dataset: str
    run: str
    rounds: int
    simulated: bool
    epoch: Epoch = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the snapshot as plain values and arrays: secret."""
        return {
            "warning": SECRET_WARNING,
            "format": SNAPSHOT_FORMAT,
            "settings": self.settings.to_json(),
            "dataset": self.dataset,
            "run": self.run,
            "rounds": self.rounds,
            "simulated": self.simulated,
            "epoch": self.epoch.number,
            "seen": self.epoch.seen,
            "plan": self.epoch.plan.to_json(),
            "state": freeze(self.epoch.state),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any], kind: type[Settings]) -> "Snapshot":
        """Return the snapshot that `to_dict` was given.

        Args:
            kind: the settings of the learner that goes on.

        Raises:
            InputError: value is something else, or has a plan that this version of labeldp would not make.
        """
        try:
            settings = kind.from_json(value["settings"])
            plan, mechanism = settings.mechanism(value["epoch"], str(value["run"]))
            same = value["format"] == SNAPSHOT_FORMAT and value["plan"] == plan.to_json()
            same = same and 0 <= value["seen"] <= min(mechanism.rounds, value["rounds"])
            epoch = Epoch(value["epoch"], plan, mechanism, int(value["seen"]), thaw(value["state"]))
            found = cls(
                settings, str(value["dataset"]), mechanism.run, int(value["rounds"]), bool(value["simulated"]), epoch
            )
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError):
            same = False
        if not same:
            raise InputError(NOT_A_STATE)
        return found

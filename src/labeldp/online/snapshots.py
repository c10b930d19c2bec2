"""Snapshots of learners as plain values and bytes: as secret as the losses, and continued only once."""

import hashlib
import io
import json
import threading
from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any, ClassVar
from zipfile import ZipFile

import numpy as np

from labeldp.privacy import InputError, check_growth, json_value

SECRET_WARNING = "labeldp learner state: as SECRET as the losses themselves"
"""The first line of every stored state."""
NOT_A_STATE = "state is not one that state_dict() gave, or it is of another version of labeldp, or it was changed"


class KernelState:
    """Base of the states that a snapshot of a learner may hold: frozen dataclasses of numbers, arrays and states."""

    kinds: ClassVar[dict[str, Any]] = {}
    """Every subclass, by module and name."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        KernelState.kinds[f"{cls.__module__}:{cls.__qualname__}"] = cls


def to_plain(state: Any) -> dict[str, Any]:
    """Return a kernel's state as plain JSON values and a list of arrays: all of them as secret as the state."""
    arrays: list[Any] = []
    return {"tree": _plain(state, arrays), "arrays": arrays}


def from_plain(plain: Mapping[str, Any]) -> Any:
    """Return the state that `to_plain` was given. It makes states of learners only and runs no code of the snapshot.

    Raises:
        InputError: plain is not what `to_plain` returns.
    """
    try:
        return _restored(plain["tree"], [np.array(array) for array in plain["arrays"]])
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError, RecursionError):
        raise InputError(NOT_A_STATE) from None  # the original quotes what it could not read


def dump_state(state: Mapping[str, Any]) -> bytes:
    """Return what `state_dict()` gave as bytes, for a file that only its owner may read: as secret as the losses.

    The first line says so. The format holds numbers and arrays, never code.
    """
    plain = state["state"]
    buffer = io.BytesIO()
    text = json.dumps({**state, "state": plain["tree"]}, sort_keys=True).encode()
    arrays = {f"array{i}": array for i, array in enumerate(plain["arrays"])}
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
    head, _, remainder = bytes(content).partition(b"\n")
    digest, _, body = remainder.partition(b"\n")
    if head != SECRET_WARNING.encode() or digest != hashlib.sha256(body).hexdigest().encode():
        raise InputError("content is not a stored state of labeldp, or it is damaged")
    try:
        with ZipFile(io.BytesIO(body)) as members:
            check_growth("content", len(body), sum(member.file_size for member in members.infolist()))
        with np.load(io.BytesIO(body), allow_pickle=False) as stored:
            state: dict[str, Any] = json_value(stored["text"].tobytes())
            arrays = [stored[f"array{i}"] for i in range(len(stored.files) - 1)]
        return {**state, "state": {"tree": state["state"], "arrays": arrays}}
    except InputError:
        raise
    except Exception:  # whatever numpy, zlib and their parsers meet; they quote what they read
        pass
    raise InputError(NOT_A_STATE)


class SnapshotClaims:
    """Records which states of which runs were continued in this process: each of them once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claimed: dict[tuple[str, int], bytes] = {}

    def claim(self, run: str, rounds: int, owner: bytes) -> bool:
        """Take the right to continue from a state and return True; return False if another owner has it."""
        with self._lock:
            return self._claimed.setdefault((run, rounds), owner) == owner

    def claimed(self, run: str, rounds: int) -> bool:
        """Return whether someone continued from a state."""
        return (run, rounds) in self._claimed


def _plain(value: Any, arrays: list[Any]) -> Any:
    """Return a value of a state as plain JSON values, and append copies of its arrays to `arrays`."""
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        arrays.append(value.copy())
        return {"array": len(arrays) - 1}
    if isinstance(value, np.generic):
        return _plain(value.item(), arrays)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Fraction):
        return {"fraction": [value.numerator, value.denominator]}
    if isinstance(value, tuple | list):
        return {type(value).__name__: [_plain(item, arrays) for item in value]}
    kind = type(value)
    if kind in KernelState.kinds.values():
        inner = {field.name: _plain(getattr(value, field.name), arrays) for field in fields(value) if field.init}
        return {"kind": f"{kind.__module__}:{kind.__qualname__}", "fields": inner}
    raise InputError(f"a state of type {kind.__name__} cannot be stored")


def _restored(tree: Any, arrays: list[Any]) -> Any:
    """Return the value that `_plain` was given."""
    if not isinstance(tree, dict):
        return tree
    if "kind" in tree:
        inner = {name: _restored(value, arrays) for name, value in tree["fields"].items()}
        return KernelState.kinds[tree["kind"]](**inner)
    [(form, value)] = tree.items()
    if form == "array":
        return arrays[value]
    if form == "fraction":
        return Fraction(*map(int, value))
    return {"tuple": tuple, "list": list}[form](_restored(item, arrays) for item in value)

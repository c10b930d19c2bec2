"""Secret states as plain values and as bytes, and the tickets by which each is continued once."""

import hashlib
import io
import json
import threading
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np

from labeldp.privacy import InputError

SECRET = "labeldp learner state: as SECRET as the losses themselves"
"""The first line of every stored state."""

_ROOM = "labeldp.online."
NOT_A_STATE = "state is not one that state_dict() gave, or it is of another version of labeldp, or it was changed"


def freeze(state: Any) -> dict[str, Any]:
    """A kernel's state as plain JSON values and a list of arrays; everything in it is as secret as the state."""
    arrays: list[Any] = []
    return {"tree": _frozen(state, arrays), "arrays": arrays}


def thaw(frozen: Mapping[str, Any]) -> Any:
    """The inverse of `freeze`. Only states of this package are made; no code of the snapshot runs.

    Raises:
        InputError: not what `freeze` gives.
    """
    try:
        return _thawed(frozen["tree"], [np.array(array) for array in frozen["arrays"]])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ImportError, ZeroDivisionError):
        raise InputError(NOT_A_STATE) from None  # the original quotes what it could not read


def dump_state(state: Mapping[str, Any]) -> bytes:
    """What `state_dict()` gave, as bytes for a file that only its owner may read: as secret as the losses.

    Its first line says so. The format holds numbers and arrays, never code.
    """
    frozen = state["state"]
    buffer = io.BytesIO()
    text = json.dumps({**state, "state": frozen["tree"]}, sort_keys=True).encode()
    arrays = {f"array{i}": array for i, array in enumerate(frozen["arrays"])}
    np.savez_compressed(buffer, text=np.frombuffer(text, np.uint8), **arrays)
    body = buffer.getvalue()
    return b"\n".join([SECRET.encode(), hashlib.sha256(body).hexdigest().encode(), body])


def load_state(content: bytes) -> dict[str, Any]:
    """The inverse of `dump_state`.

    Raises:
        InputError: not such bytes, or damaged ones.
    """
    if not isinstance(content, bytes | bytearray | memoryview):
        raise InputError("content must be bytes, such as dump_state gives")
    head, _, rest = bytes(content).partition(b"\n")
    digest, _, body = rest.partition(b"\n")
    if head != SECRET.encode() or digest != hashlib.sha256(body).hexdigest().encode():
        raise InputError("content is not a stored state of labeldp, or it is damaged")
    with np.load(io.BytesIO(body), allow_pickle=False) as stored:
        state: dict[str, Any] = json.loads(stored["text"].tobytes())
        arrays = [stored[f"array{i}"] for i in range(len(stored.files) - 1)]
    return {**state, "state": {"tree": state["state"], "arrays": arrays}}


class Tickets:
    """Which states of which runs were gone on from, in this process: each of them once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claimed: dict[tuple[str, int], bytes] = {}

    def claim(self, run: str, rounds: int, owner: bytes) -> bool:
        """Take the one right to go on from a state; False where another owner has it."""
        with self._lock:
            return self._claimed.setdefault((run, rounds), owner) == owner

    def claimed(self, run: str, rounds: int) -> bool:
        """Whether somebody went on from a state."""
        return (run, rounds) in self._claimed


def _frozen(value: Any, arrays: list[Any]) -> Any:
    """One value of a state; arrays are copied out."""
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
    if is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        inner = {field.name: _frozen(getattr(value, field.name), arrays) for field in fields(value) if field.init}
        return {"kind": f"{kind.__module__}:{kind.__qualname__}", "fields": inner}
    raise InputError(f"a state of type {type(value).__name__} cannot be stored")


def _thawed(tree: Any, arrays: list[Any]) -> Any:
    """The inverse of `_frozen`."""
    if not isinstance(tree, dict):
        return tree
    if "kind" in tree:
        inner = {name: _thawed(value, arrays) for name, value in tree["fields"].items()}
        return _kind(tree["kind"])(**inner)
    [(form, value)] = tree.items()
    if form == "array":
        return arrays[value]
    if form == "fraction":
        return Fraction(*value)
    return {"tuple": tuple, "list": list}[form](_thawed(item, arrays) for item in value)


def _kind(name: str) -> Any:
    """A dataclass of this room by its name, and nothing else."""
    module, _, symbol = name.partition(":")
    if not module.startswith(_ROOM) or not symbol.isidentifier():
        raise InputError(NOT_A_STATE)
    kind = getattr(import_module(module), symbol)
    if not (isinstance(kind, type) and is_dataclass(kind) and kind.__module__ == module):
        raise InputError(NOT_A_STATE)
    return kind

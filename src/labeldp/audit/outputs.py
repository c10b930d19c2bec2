"""What a program gave, as exact leaves: two outputs are equal only if no reader can distinguish them."""

import io
import itertools
import json
import random
import struct
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from labeldp.privacy import Certificate, Charge

MOST_ITEMS = 10_000
"""Of an iterator, which may not end."""

Leaves = dict[str, str]
"""What is read at each place of an output, exactly: bytes of numbers, types, shapes, orders."""

_DESCRIPTORS = (GetSetDescriptorType, MemberDescriptorType, MethodWrapperType, WrapperDescriptorType)
_MADE = ("__dict__", "__weakref__", "__slotnames__", "_abc_impl", "__abstractmethods__")
"""What Python adds to classes."""


class Reader:
    """Reads values to their last bit, whatever holds them: containers, objects, functions with all that they refer to.

    Args:
        charges: that a curator made in this run; their names are drawn at random, and stand for their numbers.
        is_program: whether a file is the program's, and not of a library.

    Attributes:
        leaves: what was read.
        unreadable: types of values that cannot be read.
    """

    def __init__(self, charges: list[Charge], is_program: Callable[[str], bool]) -> None:
        self.leaves: Leaves = {}
        self.unreadable: set[str] = set()
        self._charges, self.is_program = charges, is_program
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no number of an object is given twice

    def read(self, value: Any, name: str) -> None:
        """Read a value at a place."""
        try:
            self._read(value, name)
        except RecursionError:
            self.unreadable.add("a value that is nested too deep")

    def _read(self, value: Any, name: str) -> None:
        kind = type(value)
        self._leaf(f"{name}:", f"{kind.__module__}.{kind.__qualname__}")
        if value is None or kind in (bool, int, str, bytes):
            self._leaf(name, repr(value))
        elif kind in (float, complex):
            self._leaf(name, b"".join(struct.pack("<d", part) for part in (value.real, value.imag)).hex())
        elif isinstance(value, np.generic) and not isinstance(value, np.void | np.object_):
            self._leaf(name, f"{value.dtype.str} {value.tobytes().hex()}")
        elif kind is tuple:
            self._items(value, name)
        elif isinstance(value, type):
            self._class(value, name)
        elif isinstance(value, ModuleType) and sys.modules.get(value.__name__) is value:
            self._leaf(name, value.__name__)
        elif id(value) in self._seen:  # shared, or within itself
            self._leaf(name, f"the same as {self._seen[id(value)]}")
        else:
            self._seen[id(value)] = len(self._seen)
            self._kept.append(value)
            self._read_object(value, name)

    def _leaf(self, name: str, text: str) -> None:
        while name in self.leaves:  # keys of a program may look like other places
            name += "'"
        self.leaves[name] = text

    def _items(self, values: Any, name: str) -> None:
        self._leaf(f"{name}.length", str(len(values)))
        for position, item in enumerate(values):
            self._read(item, f"{name}[{position}]")

    def _mapping(self, value: Any, name: str) -> None:
        """Read keys in their order, and values."""
        self._leaf(f"{name}.length", str(len(value)))
        for position, (key, item) in enumerate(list(value.items())):
            self._read(key, f"{name}.key {position}")
            self._read(item, f"{name}.{key}" if isinstance(key, str) else f"{name}.value {position}")

    def _read_object(self, value: Any, name: str) -> None:
        if isinstance(value, np.ndarray):
            self._array(value, name)
        elif type(value) is list:
            self._items(value, name)
        elif type(value) in (dict, MappingProxyType):
            self._mapping(value, name)
        elif isinstance(value, set | frozenset):
            plain = all(type(item) in (bool, int, float, str, bytes) for item in value)
            self._items(list(value) if plain else sorted(value, key=repr), name)
            self._attributes(value, name)
        elif isinstance(value, bytearray):
            self._leaf(name, bytes(value).hex())
            self._attributes(value, name)
        elif isinstance(value, memoryview):
            self._leaf(name, f"{value.format} {value.shape} {value.strides} {value.tobytes().hex()}")
            self._read(value.obj, f"{name}.obj")
        elif isinstance(value, Charge) and value in self._charges:
            self._leaf(name, f"charge {self._charges.index(value)}")
            self._read(value.loss.to_json(), f"{name}.loss")
            self._read(dict(value.mechanism), f"{name}.mechanism")
        elif isinstance(value, Certificate | Charge):
            self._mapping(vars(value), name)
        elif isinstance(value, FunctionType):
            self._function(value, name)
        elif isinstance(value, CodeType):
            for part in ("co_code", "co_names", "co_varnames", "co_freevars", "co_name", "co_firstlineno", "co_consts"):
                self._read(getattr(value, part), f"{name}.{part}")
        elif isinstance(value, CellType):
            with_value = value != CellType()
            self._read(value.cell_contents if with_value else None, f"{name}.cell")
        elif isinstance(value, MethodType):
            self._read(value.__func__, f"{name}.function")
            self._read(value.__self__, f"{name}.self")
        elif isinstance(value, BuiltinFunctionType):
            self._leaf(name, value.__qualname__)
            self._read(value.__self__, f"{name}.self")
        elif isinstance(value, _DESCRIPTORS):
            self._leaf(name, getattr(value, "__qualname__", repr(type(value))))
        elif isinstance(value, property | staticmethod | classmethod):
            parts = ("fget", "fset", "fdel") if isinstance(value, property) else ("__func__",)
            for part in parts:
                self._read(getattr(value, part), f"{name}.{part}")
        elif isinstance(value, ModuleType):
            self._mapping({key: item for key, item in vars(value).items() if key != "__builtins__"}, name)
        elif isinstance(value, weakref.ref):
            self._read(value(), f"{name}.referent")
        elif isinstance(value, np.random.Generator):
            self._read(value.bit_generator.state, f"{name}.state")
        elif (library := _library(value)) in ("pandas", "pyarrow", "polars") and self._table(value, name, library):
            pass
        elif isinstance(value, io.IOBase) and not isinstance(value, io.BytesIO | io.StringIO):
            self.unreadable.add("a file")
        elif isinstance(value, Iterator) and not isinstance(value, io.IOBase):
            items = list(itertools.islice(value, MOST_ITEMS + 1))
            if len(items) > MOST_ITEMS:
                self.unreadable.add(f"an iterator of more than {MOST_ITEMS:,} items")
            self._items(items, name)
            self._attributes(value, name)
        else:
            self._other(value, name)

    def _array(self, value: Any, name: str) -> None:
        """Read an array with its layout, and the memory that it is a part of."""
        strides = value.strides if value.size else ""
        self._leaf(f"{name}.shape", f"{value.shape} {strides} {value.flags.writeable} {value.dtype.descr}")
        self._read(value.dtype, f"{name}.dtype")
        if value.dtype.hasobject:
            self._items(value.ravel().tolist(), name)
        else:
            raw, size = value.tobytes(), value.dtype.itemsize
            for position in range(value.size):
                self._leaf(f"{name}[{position}]", raw[position * size : (position + 1) * size].hex())
        if not hasattr(value, "tape"):
            self._attributes(value, name)
        if value.base is not None:
            self._read(value.base, f"{name}.base")

    def _table(self, value: Any, name: str, library: str) -> bool:
        """Read a table or a column with the memory that it is a part of; return whether it is one."""
        before = len(self.leaves)
        if library == "polars" and hasattr(value, "to_arrow"):
            self._read(value.to_arrow(), f"{name}.arrow")
        elif library == "pandas" and hasattr(value, "iloc"):
            parts = ("columns", "index") if hasattr(value, "columns") else ("name", "index")
            self._read({part: getattr(value, part) for part in (*parts, "attrs")}, f"{name}.parts")
            columns = range(value.shape[1]) if value.ndim > 1 else ()
            self._read([value.iloc[:, column] for column in columns], f"{name}.columns")
        if library == "pandas" and hasattr(value, "to_numpy") and getattr(value, "ndim", 1) == 1:
            kinds = [str(value.dtype), list(getattr(value.dtype, "categories", [])), list(getattr(value, "names", []))]
            self._read([kinds, value.to_numpy()], f"{name}.values")
        elif library == "pyarrow" and hasattr(value, "schema") and hasattr(value, "columns"):
            self._read([value.schema.serialize().to_pybytes(), value.columns], f"{name}.columns")
        elif library == "pyarrow" and hasattr(value, "chunks"):
            self._read([str(value.type), value.chunks], f"{name}.chunks")
        elif library == "pyarrow" and hasattr(value, "buffers"):
            buffers = [None if buffer is None else buffer.to_pybytes() for buffer in value.buffers()]
            self._read([str(value.type), value.offset, len(value), buffers], f"{name}.buffers")
        return len(self.leaves) > before

    def _function(self, value: Any, name: str) -> None:
        self._leaf(name, f"{value.__module__}.{value.__qualname__}")
        of_program = self.is_program(value.__code__.co_filename) or not _is_importable(value)
        if of_program:
            self._read(value.__code__, f"{name}.code")
        for part in ("__defaults__", "__kwdefaults__", "__closure__", "__dict__"):
            self._read(getattr(value, part), f"{name}.{part}")
        module = sys.modules.get(value.__module__ or "")
        if of_program and (module is None or vars(module) is not value.__globals__):
            names = [key for key in value.__code__.co_names if key in value.__globals__]
            self._mapping({key: value.__globals__[key] for key in names}, f"{name}.globals")

    def _class(self, value: type, name: str) -> None:
        """Read the name of a class of a library, and all of another class."""
        self._leaf(name, f"{value.__module__}.{value.__qualname__}")
        if id(value) in self._seen or _is_importable(value):
            return
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)
        self._items(value.__bases__, f"{name}.bases")
        self._mapping({key: item for key, item in vars(value).items() if key not in _MADE}, f"{name}.members")

    def _attributes(self, value: Any, name: str) -> bool:
        """Read the attributes of an object, and return whether it can have some."""
        can_have = False
        for kind in type(value).__mro__:
            slots = kind.__dict__.get("__slots__", ())
            for slot in (slots,) if isinstance(slots, str) else slots:
                if slot not in ("__dict__", "__weakref__") and hasattr(value, slot):
                    self._read(getattr(value, slot), f"{name}.{slot}")
                can_have = True
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            self._mapping(attributes, f"{name}.attributes")
            can_have = True
        return can_have

    def _other(self, value: Any, name: str) -> None:
        """Read an object by its attributes, its items, and by what would be pickled of it."""
        self._class(type(value), f"{name}:")
        has_attributes = self._attributes(value, name)
        try:
            reduced = value.__reduce_ex__(4)
        except Exception:  # of whatever kind: its class does not let it be copied
            if isinstance(value, Mapping):
                self._mapping(dict(value), name)
            elif not has_attributes:
                self.unreadable.add(f"{type(value).__module__}.{type(value).__qualname__}")
            return
        if isinstance(reduced, str):
            self._leaf(name, reduced)
            return
        for position, part in enumerate(reduced):
            is_items = position > 2 and part is not None
            self._read(list(part) if is_items else part, f"{name}.copy {position}")


def _is_importable(value: Any) -> bool:
    """Return whether a class or function has its name in its module: then this run did not make it."""
    named: Any = sys.modules.get(value.__module__ or "")
    for part in value.__qualname__.split("."):
        named = getattr(named, part, None)
    return named is value


_DATA = (bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, np.ndarray, np.generic)


def read_state(program: Any, reader: Reader) -> None:
    """Read what a run may leave behind: globals that the program names, what it stores on functions, and seeds."""
    waiting, done = [program], set()
    while waiting:
        function = waiting.pop()
        function = getattr(function, "__func__", function)
        if not isinstance(function, FunctionType) or id(function) in done:
            continue
        done.add(id(function))
        name = f"{function.__module__}.{function.__qualname__}"
        closed = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        names = _names(function.__code__)
        values = {key: function.__globals__.get(key, sys.modules.get(key)) for key in names}
        values |= {key: cell.cell_contents for key, cell in closed if cell != CellType()}
        values |= {"attributes": vars(function), "defaults": function.__defaults__, "keywords": function.__kwdefaults__}
        for key, value in values.items():
            if isinstance(value, _DATA):
                reader.read(value, f"{name} {key}")
            elif isinstance(value, FunctionType) and reader.is_program(value.__code__.co_filename):
                waiting.append(value)
            else:
                stored = getattr(value, "__dict__", {})
                of_program = reader.is_program(_file_of(value if isinstance(value, type | ModuleType) else type(value)))
                parts = {part: item for part, item in stored.items() if isinstance(item, _DATA)}
                reader.read(
                    {part: item for part, item in parts.items() if of_program or part in names}, f"{name} {key}"
                )
    state = np.random.get_bit_generator().state  # type: ignore[attr-defined]
    seeds = json.dumps([random.getstate(), state], default=lambda array: array.tolist()).encode()
    reader.read(sha256(seeds).hexdigest(), "seeds")


def _names(code: CodeType) -> set[str]:
    """Return the globals that a function and the functions in it name."""
    inner = [_names(part) for part in code.co_consts if isinstance(part, CodeType)]
    return set(code.co_names).union(*inner)


def _file_of(owner: Any) -> str:
    """Return the file of a class or module; that of Python itself has none."""
    module = owner if isinstance(owner, ModuleType) else sys.modules.get(owner.__module__)
    return getattr(module, "__file__", None) or "<"


def _library(value: Any) -> str:
    return type(value).__module__.partition(".")[0]

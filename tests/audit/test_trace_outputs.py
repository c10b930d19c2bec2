"""Whatever a program gives that holds its labels is found; whatever holds noisy values alone gives no alarm."""

import functools
import io
import logging
import os
import random
import sqlite3
import subprocess
import sys
import types
import warnings
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

import labeldp as ldp
from labeldp.audit import trace
from labeldp.privacy import Certificate, Charge, PrivacyLoss, RandomnessKind, Trust, Unit

LABELS = np.array([0, 1] * 6)
RNG = np.random.Generator
Program = Callable[[Any, RNG], Any]
LEFT: Any = None
BOX: dict[str, Any] = {}


@dataclass
class Box:
    """Something that holds a value."""

    value: Any


class Hidden:
    """An object that does not show what it holds to those who copy or print it."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __reduce__(self) -> Any:
        return Hidden, (0,)

    def __repr__(self) -> str:
        return "Hidden"

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


class Slots:
    """An object without a dictionary."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Text(str):
    """A text that can have attributes."""


class Row(dict[str, int]):
    """A dictionary that can have attributes."""


class Numbers(np.ndarray):
    """An array that can have attributes."""


def marked(owner: Any, value: Any) -> Any:
    owner.mark = value
    return owner


def function_with(value: Any) -> Any:
    def function() -> None:
        return None

    return marked(function, value)


def made(value: Any) -> Any:
    """A function whose code has a value as a constant."""
    names: dict[str, Any] = {}
    exec(f"def function(): return {value}", names)
    return names["function"]


def of_globals(value: Any) -> Any:
    return types.FunctionType(compile("secret", "<x>", "eval"), {"secret": value})


def certificate(value: int) -> Certificate:
    charge = Charge(str(value), (), PrivacyLoss.pure("1"), {"mechanism": "x"})
    return Certificate((charge,), "x", Unit.ONE_LABEL, Trust.LOCAL, RandomnessKind.SYSTEM, "x")


def attributes(frame: Any, value: Any) -> Any:
    frame.attrs["x"] = value
    return frame


HOLDERS: dict[str, Callable[[int], Any]] = {
    "itself": lambda n: n,
    "a text": lambda n: f"{n}",
    "bytes": lambda n: bytes([n % 256]),
    "a mutable text": lambda n: bytearray([n % 256]),
    "a view": lambda n: memoryview(bytes([n % 256])),
    "a part of a view": lambda n: memoryview(bytes([0, n % 256]))[:1],
    "the last bit of a float": lambda n: float(np.nextafter(1.0, n % 2 * 2)),
    "a payload of NaN": lambda n: np.array([0x7FF8000000000000 + n], dtype=np.uint64).view(np.float64),
    "a payload of NaN in a number": lambda n: np.array([0x7FF8000000000000 + n], np.uint64).view(np.float64)[0],
    "a payload of NaN in a float": lambda n: float(np.array([0x7FF8000000000000 + n], np.uint64).view(np.float64)[0]),
    "the sign of zero": lambda n: -0.0 if n % 2 else 0.0,
    "the sign of a complex zero": lambda n: complex(0.0, -0.0 if n % 2 else 0.0),
    "the sign of zero in an array": lambda n: np.array([-0.0 if n % 2 else 0.0]),
    "a truth for a number": lambda n: n % 2 == 1 if n % 2 else 1 if n % 4 else 0,
    "a type": lambda n: np.int32(1) if n % 2 else np.int64(1),
    "a type of an array": lambda n: np.zeros(3, dtype="f4" if n % 2 else "f8"),
    "the order of bytes": lambda n: np.zeros(3, dtype="<f8" if n % 2 else ">f8"),
    "the order of an array": lambda n: np.zeros((3, 3), order="F" if n % 2 else "C"),
    "the strides of an array": lambda n: np.zeros(16)[:: 1 + n % 2][:3],
    "the shape of an array": lambda n: np.zeros((1, 2) if n % 2 else (2, 1)),
    "the shape of no values": lambda n: np.zeros((0, n)),
    "whether an array can be written": lambda n: (
        np.require(np.zeros(2), requirements="W" if n % 2 else []) if n % 2 else np.broadcast_to(np.zeros(2), 2)
    ),
    "the names of a structure": lambda n: np.zeros(2, dtype=[(f"x{n}", "f8")]),
    "metadata of a type": lambda n: np.zeros(2, dtype=np.dtype("f8", metadata={"x": n})),
    "memory behind an array": lambda n: np.array([0, 0, n])[:2],
    "memory behind a column": lambda n: np.array([[0, n], [0, n]])[:, 0],
    "an array of objects": lambda n: np.array([Hidden(n)], dtype=object),
    "a masked value": lambda n: np.ma.MaskedArray([n], mask=[True]),
    "an attribute of an array": lambda n: marked(np.zeros(2).view(Numbers), n),
    "an attribute of a text": lambda n: marked(Text("x"), n),
    "an attribute of a dictionary": lambda n: marked(Row(a=1), n),
    "an attribute of a function": function_with,
    "an attribute of a class": lambda n: type("Made", (), {"value": n}),
    "the class of an object": lambda n: type(f"Made{n % 2}", (), {})(),
    "a member of the class of an object": lambda n: type("Made", (), {"value": n})(),
    "an attribute of a module": lambda n: marked(types.ModuleType("made"), n),
    "an order of keys": lambda n: {"a": 1, "b": 2} if n % 2 else {"b": 2, "a": 1},
    "a key": lambda n: {n: 1},
    "keys that look like places": lambda n: {"a.b": n, "a": {"b": 1}},
    "a key that is a length": lambda n: {"length": n, "x": 1},
    "a set or a frozen one": lambda n: {1} if n % 2 else frozenset([1]),
    "a set": lambda n: {n},
    "a list or a tuple": lambda n: [1] if n % 2 else (1,),
    "the same list twice": lambda n: [one, one if n % 2 else []] if (one := []) == [] else None,
    "an ordered dictionary": lambda n: OrderedDict(a=n),
    "what a dictionary gives by default": lambda n: defaultdict(functools.partial(int, n)),
    "a queue": lambda n: deque([1], maxlen=n),
    "an object": lambda n: Box(n),
    "an object that hides": lambda n: Hidden(n),
    "an object that hides in a list": lambda n: [Hidden(Hidden(n))],
    "an object of slots": lambda n: Slots(n),
    "a fraction": lambda n: Fraction(n, 7),
    "a decimal of equal value": lambda n: Decimal("1.0") if n % 2 else Decimal("1.00"),
    "a closure": lambda n: lambda: n,
    "a closure in a closure": lambda n: lambda: lambda: n,
    "a default": lambda n: lambda value=n: value,
    "a default by name": lambda n: lambda *, value=n: value,
    "a constant": made,
    "globals of a function": of_globals,
    "a partial": lambda n: functools.partial(int, n),
    "an attribute of a partial": lambda n: marked(functools.partial(int), n),
    "a bound method": lambda n: Box(n).__eq__,
    "a bound method of an array": lambda n: np.array([n]).sum,
    "a bound method of a text": lambda n: f"{n}".join,
    "a cached function": lambda n: functools.lru_cache(lambda: n),
    "a property": lambda n: property(lambda self: n),
    "an iterator": lambda n: iter([n]),
    "a generator": lambda n: (value for value in [n]),
    "a range": lambda n: range(n),
    "a map": lambda n: map(n.__add__, [1]),
    "a weak reference": lambda n: [weakref.ref(box), box] if (box := Box(n)) else None,
    "an exception": lambda n: ValueError(n),
    "an attribute of an exception": lambda n: marked(ValueError(), n),
    "a stream": lambda n: io.BytesIO(bytes([n % 256])),
    "a certificate": certificate,
    "a release": lambda n: ldp.Release(0, certificate(n)),
    "a generator of random numbers": lambda n: np.random.Generator(np.random.PCG64(n)),
    "a generator of Python": lambda n: random.Random(n),
    "a column": lambda n: pd.Series([n]),
    "an index": lambda n: pd.Series([1], index=[n]),
    "the name of a column": lambda n: pd.Series([1], name=f"{n}"),
    "attributes of a frame": lambda n: attributes(pd.DataFrame({"a": [1]}), n),
    "the type of a column": lambda n: pd.DataFrame({"a": pd.Series([1], dtype="int8" if n % 2 else "int16")}),
    "categories": lambda n: pd.Series(pd.Categorical(["a"], categories=["a", f"{n}"])),
    "metadata of a table": lambda n: pa.table({"a": [1]}).replace_schema_metadata({"x": f"{n}"}),
    "a chunk": lambda n: pa.chunked_array([[1, 2]] if n % 2 else [[1], [2]]),
    "memory behind a table": lambda n: pa.table({"a": [1, n]}).slice(0, 1),
    "a scalar": lambda n: pa.scalar(n),
    "a frame of polars": lambda n: pl.DataFrame({"a": [n]}),
    "an estimator": lambda n: LinearRegression(n_jobs=n),
    "an attribute of an estimator": lambda n: marked(LinearRegression(), n),
    "a tree": lambda n: DecisionTreeRegressor().fit([[0], [1]], [0, n]),
}
"""What may hold a number n: a program that returns it shows n."""


def holder_of(holder: Callable[[int], Any], noisy: bool) -> Program:
    def program(labels: Any, rng: RNG) -> Any:
        value = labels.sum() + rng.laplace(scale=1.0)
        return value, holder(int(np.round(value)) % 1000 if noisy else int(labels.sum()))

    return program


def verdict(program: Program, pairs: int = 2) -> str:
    return trace(program, LABELS, epsilon=1, pairs=pairs).verdict


@pytest.mark.parametrize("name", HOLDERS)
def test_no_value_hides_what_it_holds(name: str) -> None:
    assert verdict(holder_of(HOLDERS[name], noisy=False), pairs=6) == "fails"


@pytest.mark.parametrize("name", HOLDERS)
def test_noisy_values_give_no_alarm_whatever_holds_them(name: str) -> None:
    found = trace(holder_of(HOLDERS[name], noisy=True), LABELS, epsilon=1, pairs=2)
    assert found.verdict == "holds", found.findings


def low_digits(labels: Any, rng: RNG) -> Any:
    return labels.sum() + rng.laplace(scale=1.0) + 1e-10 * labels.sum()


def low_digits_before(labels: Any, rng: RNG) -> Any:
    return labels.sum() + 1e-10 * labels.sum() + rng.laplace(scale=1.0)


def low_digits_of_a_sum(labels: Any, rng: RNG) -> Any:
    return (1e-10 * labels.sum() + (labels.sum() + rng.laplace(scale=1.0, size=2)))[0]


def last_bit(labels: Any, rng: RNG) -> Any:
    value = np.float64(labels.sum() + rng.laplace(scale=1.0))
    return (value.view(np.uint64) & ~np.uint64(1) | np.uint64(labels.sum() % 2)).view(np.float64)


def digits(labels: Any, rng: RNG) -> Any:
    return f"{labels.sum() + rng.laplace(scale=1.0):.{8 + labels.sum() % 2}f}"


def in_a_global(labels: Any, rng: RNG) -> Any:
    global LEFT
    LEFT = int(labels.sum())
    return labels.sum() + rng.laplace(scale=1.0)


def in_a_container(labels: Any, rng: RNG) -> Any:
    BOX["x"] = int(labels.sum())
    return labels.sum() + rng.laplace(scale=1.0)


def in_its_own_attribute(labels: Any, rng: RNG) -> Any:
    in_its_own_attribute.mark = int(labels.sum())  # type: ignore[attr-defined]
    return labels.sum() + rng.laplace(scale=1.0)


def in_a_library(labels: Any, rng: RNG) -> Any:
    np.mark_of_a_test = int(labels.sum())  # type: ignore[attr-defined]
    return labels.sum() + rng.laplace(scale=1.0)


def in_a_class(labels: Any, rng: RNG) -> Any:
    Box.mark = int(labels.sum())  # type: ignore[attr-defined]
    return labels.sum() + rng.laplace(scale=1.0)


def helper(labels: Any) -> None:
    BOX["y"] = int(labels.sum())


def by_a_helper(labels: Any, rng: RNG) -> Any:
    helper(labels)
    return labels.sum() + rng.laplace(scale=1.0)


def in_a_seed(labels: Any, rng: RNG) -> Any:
    random.seed(int(labels.sum()))
    return labels.sum() + rng.laplace(scale=1.0)


def in_a_warning(labels: Any, rng: RNG) -> Any:
    warnings.warn(f"{labels.sum()}", stacklevel=1)
    return labels.sum() + rng.laplace(scale=1.0)


def in_a_log(labels: Any, rng: RNG) -> Any:
    logging.getLogger("x").error("%s", labels.sum())
    return labels.sum() + rng.laplace(scale=1.0)


def on_the_first_stream(labels: Any, rng: RNG) -> Any:
    print(labels.sum(), file=sys.__stderr__)
    return labels.sum() + rng.laplace(scale=1.0)


WAYS: list[Program] = [
    low_digits, low_digits_before, last_bit, digits, in_a_global, in_a_container, in_its_own_attribute, in_a_library,
    in_a_class, by_a_helper, in_a_seed, in_a_warning, in_a_log, on_the_first_stream,
]  # fmt: skip


@pytest.mark.parametrize("program", WAYS)
def test_no_way_beside_the_noise_is_missed(program: Program) -> None:
    assert verdict(program, pairs=6) == "fails"


def test_noise_of_which_a_part_is_used_is_not_decided() -> None:
    assert verdict(low_digits_of_a_sum, pairs=6) in ("fails", "unverified")


def to_a_file(labels: Any, rng: RNG) -> Any:
    Path(os.devnull).write_text(f"{labels.sum()}")
    return labels.sum() + rng.laplace(scale=1.0)


def to_a_handle(labels: Any, rng: RNG) -> Any:
    handle = os.open(os.devnull, os.O_WRONLY)
    os.write(handle, bytes(labels.sum()))
    os.close(handle)
    return labels.sum() + rng.laplace(scale=1.0)


def to_a_table(labels: Any, rng: RNG) -> Any:
    pd.Series(np.asarray(labels)).to_csv(os.devnull)
    return labels.sum() + rng.laplace(scale=1.0)


def to_a_database(labels: Any, rng: RNG) -> Any:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"create table x{labels.sum()} (y int)")
    return labels.sum() + rng.laplace(scale=1.0)


def to_a_process(labels: Any, rng: RNG) -> Any:
    subprocess.run([sys.executable, "-c", ""], env={"X": f"{labels.sum()}"}, check=False)
    return labels.sum() + rng.laplace(scale=1.0)


def to_the_environment(labels: Any, rng: RNG) -> Any:
    os.environ["MARK_OF_A_TEST"] = f"{labels.sum()}"
    return labels.sum() + rng.laplace(scale=1.0)


def an_open_file(labels: Any, rng: RNG) -> Any:
    return labels.sum() + rng.laplace(scale=1.0), open(os.devnull)


def a_coroutine(labels: Any, rng: RNG) -> Any:
    async def later() -> Any:
        return labels.sum()

    started = later()
    weakref.finalize(started, started.close)
    return labels.sum() + rng.laplace(scale=1.0), started.cr_frame


def without_end(labels: Any, rng: RNG) -> Any:
    return labels.sum() + rng.laplace(scale=1.0), iter(int, 1)


def noise_of_python(labels: Any, rng: RNG) -> Any:
    return labels.sum() + random.gauss(0, 1)


UNDECIDED: list[Program] = [
    to_a_file, to_a_handle, to_a_table, to_a_database, to_a_process, to_the_environment, an_open_file, a_coroutine,
    without_end, noise_of_python,
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", UNDECIDED)
def test_what_cannot_be_compared_is_not_passed(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARK_OF_A_TEST", "")
    found = trace(program, LABELS, epsilon=1, pairs=2)
    assert found.verdict in ("fails", "unverified"), found.findings


COUNT = 0


def counted(labels: Any, rng: RNG) -> Any:
    global COUNT
    COUNT += 1
    return labels.sum() + rng.laplace(scale=1.0)


def read_file(labels: Any, rng: RNG) -> Any:
    Path(__file__).read_text(encoding="utf-8")
    return labels.sum() + rng.laplace(scale=1.0)


def told(labels: Any, rng: RNG) -> Any:
    value = labels.sum() + rng.laplace(scale=1.0)
    print(value)
    warnings.warn(f"{value}", stacklevel=1)
    logging.getLogger("x").error("%s", value)
    return value


def mean_of_many(labels: Any, rng: RNG) -> Any:
    """Rounding of a sum is no movement."""
    return sum(0.1 * value for value in np.asarray(labels).tolist()) + rng.laplace(scale=0.1)


@pytest.mark.parametrize("program", [counted, read_file, told, mean_of_many])
def test_honest_programs_give_no_alarm(program: Program) -> None:
    found = trace(program, LABELS, epsilon=1, pairs=4)
    assert found.verdict == "holds", found.findings


def test_an_output_that_changes_by_itself_is_not_decided() -> None:
    turns = iter(range(1000))
    found = trace(lambda labels, rng: (labels.sum() + rng.laplace(scale=1.0), next(turns)), LABELS, epsilon=1, pairs=2)
    assert found.verdict == "unverified" and "same labels with the same draws" in found.findings[0].sentence

"""What a room exports exists and is documented."""

import inspect
from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from types import FunctionType
from typing import Any

import labeldp
from architecture.reference import documentation
from architecture.source import exports, room, room_names

METHODS = (FunctionType, classmethod, staticmethod, property, cached_property)


def exported(name: str) -> Iterator[tuple[str, object]]:
    """The classes and functions that a room exports, and the public methods that its classes define."""
    for symbol, thing in exports(name).items():
        if inspect.isclass(thing) or inspect.isroutine(thing):
            yield symbol, thing
        if inspect.isclass(thing):
            for member, value in vars(thing).items():
                if not member.startswith("_") and isinstance(value, METHODS):
                    yield f"{symbol}.{member}", getattr(thing, member)


def test_a_room_says_what_it_exports() -> None:
    for name in room_names():
        names = room(name).__all__
        assert room(name).__doc__, name
        assert len(names) == len(set(names)), name
        assert [symbol for symbol in names if not hasattr(room(name), symbol)] == [], name


def test_everything_that_a_room_exports_has_a_docstring() -> None:
    # A dataclass without a docstring gets its signature for one.
    texts = {f"{name}.{key}": inspect.getdoc(thing) or "" for name in room_names() for key, thing in exported(name)}
    assert len(texts) > 1000
    assert [key for key, text in texts.items() if not text or text.startswith(f"{key.partition('.')[2]}(")] == []


def test_the_package_exports_what_it_says() -> None:
    assert labeldp.__doc__
    assert [name for name in labeldp.__all__ if not hasattr(labeldp, name)] == []
    assert set(labeldp.__all__) <= set(dir(labeldp))


def test_every_exported_name_says_what_it_is() -> None:
    """A constant too: by the text below it."""
    for name in room_names():
        names = set(room(name).__all__) - {*room_names(), "designs", "networks"}
        assert [symbol for symbol in names if not documentation(f"labeldp.{name}", symbol)] == [], name


def test_names_on_top_are_few_and_hide_no_room() -> None:
    """A function of a room's name would hide the room."""
    names = [name for name in labeldp.__all__ if not inspect.ismodule(getattr(labeldp, name))]
    assert len(names) <= 41
    assert not set(names) & set(room_names())


def test_a_class_and_an_empty_subclass_have_the_signature_of_init() -> None:
    """Editors and scikit-learn read it; a `__new__` in any base would hide it before Python 3.11.4."""
    top = {symbol: getattr(labeldp, symbol) for symbol in labeldp.__all__}
    classes = [*top.items(), *(pair for name in room_names() for pair in exports(name).items())]
    assert len(classes) > 800
    for symbol, thing in classes:
        if not inspect.isclass(thing) or issubclass(thing, Enum):
            continue
        if not inspect.isfunction(_defined(thing).get("__init__")):  # of an exception or a tuple
            continue
        assert not inspect.isfunction(_defined(thing).get("__new__")), symbol
        _, *parameters = inspect.signature(thing.__init__).parameters.values()  # type: ignore[misc]
        heir = type(symbol, (thing,), {})
        for kind in (thing, heir):
            assert list(inspect.signature(kind).parameters.values()) == parameters, symbol


def _defined(kind: type) -> dict[str, Any]:
    """The members of a class and of its bases, without those of `object`."""
    return {name: value for base in reversed(kind.__mro__[:-1]) for name, value in vars(base).items()}

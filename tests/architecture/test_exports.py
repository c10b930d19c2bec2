"""What a room exports exists and is documented."""

import inspect
from collections.abc import Iterator
from functools import cached_property
from types import FunctionType

import pytest

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


@pytest.mark.parametrize("name", room_names())
def test_a_room_says_what_it_exports(name: str) -> None:
    names = room(name).__all__
    assert room(name).__doc__
    assert len(names) == len(set(names))
    assert [symbol for symbol in names if not hasattr(room(name), symbol)] == []


@pytest.mark.parametrize("name", room_names())
def test_everything_that_a_room_exports_has_a_docstring(name: str) -> None:
    # A dataclass without a docstring gets its signature for one.
    bare = [symbol for symbol, thing in exported(name) if not inspect.getdoc(thing)]
    bare += [symbol for symbol, thing in exported(name) if (inspect.getdoc(thing) or "").startswith(f"{symbol}(")]
    assert bare == []


def test_the_package_exports_what_it_says() -> None:
    assert labeldp.__doc__
    assert [name for name in labeldp.__all__ if not hasattr(labeldp, name)] == []
    assert set(labeldp.__all__) <= set(dir(labeldp))


@pytest.mark.parametrize("name", room_names())
def test_every_exported_name_says_what_it_is(name: str) -> None:
    """A constant too: by the text below it."""
    names = set(room(name).__all__) - {*room_names(), "designs", "networks"}
    assert [symbol for symbol in names if not documentation(f"labeldp.{name}", symbol)] == []


def test_names_on_top_are_few_and_hide_no_room() -> None:
    """A function of a room's name would hide the room."""
    names = [name for name in labeldp.__all__ if not inspect.ismodule(getattr(labeldp, name))]
    assert len(names) <= 41
    assert not set(names) & set(room_names())

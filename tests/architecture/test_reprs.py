"""Every repr is safe to publish: it shows what a thing is, never an array, a label or a key that it was given."""

import dataclasses
import inspect
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from architecture.source import exports, room, room_names

SENTINEL = 54321
"""A label that no parameter or size below contains."""

LABELS = np.full(6, SENTINEL, dtype=np.uint16)
KEY = f"{SENTINEL}".encode() * 8

# "room.Name" -> how to make one that was given the sentinel. A new holder of labels, arrays or keys gets a line;
# mechanisms are looked at in tests/mechanisms/test_contract.py, by their examples.
BUILDERS: dict[str, Callable[[], Any]] = {
    "privacy.KeyedRandomness": lambda: room("privacy").KeyedRandomness(KEY, KEY),
    "privacy.Public": lambda: public(LABELS),
    "privacy.Release": lambda: release(),
    "bags.ReleasedSums": lambda: room("bags").ReleasedSums(public(LABELS), 6, *[LABELS] * 3),
    "tables.LabeledArrays": lambda: labeled(),
    "images.ImageData": lambda: room("images").ImageData(labeled(), labeled()),
    "online.PrivateExperts": lambda: learner(),
    "online.NamedExperts": lambda: room("online").NamedExperts(["a", "b"], learner()),
    "curator.Curator": lambda: curator(),
    "releases.Grant": lambda: grant(),
    "releases.IdColumn": lambda: grant().ids,
}


def response(classes: int) -> Any:
    """A mechanism on that many classes."""
    mechanisms = room("mechanisms")
    return mechanisms.RandomizedResponse(domain=mechanisms.Classes(classes), epsilon=1.0)


def public(value: Any) -> Any:
    """A public array."""
    return room("privacy").Public(value, why="a test")


def labeled() -> Any:
    """Features and labels that are the sentinel."""
    return room("images").LabeledArrays(LABELS, LABELS)


def release() -> Any:
    """A release of the sentinel."""
    p = room("privacy")
    kinds = (p.Unit.ONE_LABEL, p.Trust.LOCAL, p.RandomnessKind.SYSTEM)
    return p.Release(LABELS, p.Certificate((), "people", *kinds, published="a label"))


def curator() -> Any:
    """A curator of labels that are all the sentinel."""
    budget = room("privacy").Budget(epsilon=1.0)
    return room("curator").Curator(LABELS, domain=room("mechanisms").Classes(60_000), budget=budget)


def learner() -> Any:
    """A learner that saw levels that are all the sentinel."""
    made = room("online").PrivateExperts(2, 10, 1.0, loss_bits=16)
    made.update_levels(np.full((3, 2), SENTINEL, dtype=np.uint16))
    return made


def grant() -> Any:
    """A grant whose keys are the sentinel."""
    releases = room("releases")
    ids = releases.IdColumn("id", KEY)
    return releases.Grant(response(3), "label", ids, release().certificate, KEY, KEY, f"{SENTINEL}")


def classes() -> dict[str, type]:
    """Every class that a room exports."""
    everything = {f"{name}.{symbol}": thing for name in room_names() for symbol, thing in exports(name).items()}
    return {name: thing for name, thing in everything.items() if inspect.isclass(thing)}


def holds_arrays(field: dataclasses.Field[Any]) -> bool:
    """True for a field whose type is an array, or a type variable that may be one."""
    return "ndarray" in str(field.type) or "NDArray" in str(field.type) or str(field.type) in {"T", "~T"}


def shown(thing: type) -> list[str]:
    """The array fields that a dataclass prints."""
    if not dataclasses.is_dataclass(thing) or "__repr__" not in vars(thing) or not thing.__dataclass_params__.repr:
        return []
    return [field.name for field in dataclasses.fields(thing) if field.repr and holds_arrays(field)]


@pytest.mark.parametrize("name", classes())
def test_no_dataclass_prints_an_array(name: str) -> None:
    assert shown(classes()[name]) == []


@pytest.mark.parametrize("name", [name for name in BUILDERS if name in classes()])
def test_a_repr_never_shows_what_was_given(name: str) -> None:
    thing = BUILDERS[name]()
    assert isinstance(thing, classes()[name])
    for text in (repr(thing), str(thing), f"{thing}"):
        assert str(SENTINEL) not in text
        assert "array(" not in text
        assert len(text) < 1000


def test_a_dataclass_that_prints_an_array_is_seen() -> None:
    leaky = dataclasses.make_dataclass("Leaky", [("labels", np.ndarray), ("epsilon", float)])
    assert shown(leaky) == ["labels"]
    assert str(SENTINEL) in repr(leaky(LABELS, 1.0))


def refusing() -> list[Any]:
    """Every public class whose constructor may refuse: estimators of scikit-learn check nothing before `fit`.

    The repr of modules of torch is theirs.
    """
    found: dict[str, Any] = {}
    for name in room_names():
        for key, each in exports(name).items():
            own = inspect.isclass(each) and each.__module__.startswith("labeldp")
            network = any(base.__module__.startswith("torch") for base in each.__mro__) if own else False
            if own and not network and not issubclass(each, Enum | BaseException | BaseEstimator | tuple):
                found[f"{each.__module__}.{key}"] = each
    return [pytest.param(each, id=name) for name, each in sorted(found.items()) if not inspect.isabstract(each)]


@pytest.mark.parametrize("kind", refusing())
def test_what_a_constructor_refused_can_be_shown(kind: Any) -> None:
    """Tools that print the variables of an error call `repr` on an object that was not finished."""
    started = kind.__new__(kind)
    if dataclasses.is_dataclass(kind):  # its fields are set before anything is checked
        for part in dataclasses.fields(kind):
            if part.init or part.default is not dataclasses.MISSING:
                object.__setattr__(started, part.name, "")
    elif "__init__" not in vars(kind) and kind.__init__ is object.__init__:
        return
    assert isinstance(repr(started), str)


def test_the_variables_of_a_refusal_can_be_printed() -> None:
    mechanisms, p = room("mechanisms"), room("privacy")
    domain = mechanisms.Classes(("a", "b"))
    for refuse in (
        lambda: room("curator").Curator(["x"], domain=domain, budget=p.Budget(1)),
        lambda: mechanisms.LaplaceHistogram(domain=domain, epsilon=1, groups=[0]),
        lambda: mechanisms.GaussianMoment(domain=domain, epsilon=1, delta=1e-6, features=[[1.0]]),
    ):
        with pytest.raises(p.LabelDPError) as refusal:
            refuse()
        frame, shown = refusal.tb, []
        while frame is not None:
            shown += [repr(value) for value in frame.tb_frame.f_locals.values()]
            frame = frame.tb_next
        assert shown

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
    "images.LabeledArrays": lambda: labeled(),
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


def test_no_dataclass_prints_an_array() -> None:
    assert len(classes()) > 300
    fields = {name: shown(kind) for name, kind in classes().items()}
    assert {name: arrays for name, arrays in fields.items() if arrays} == {}


def test_a_repr_never_shows_what_was_given() -> None:
    kinds = classes()
    assert BUILDERS.keys() <= kinds.keys()
    for name, build in BUILDERS.items():
        thing = build()
        assert isinstance(thing, kinds[name])
        for text in (repr(thing), str(thing), f"{thing}"):
            assert str(SENTINEL) not in text, name
            assert "array(" not in text, name
            assert len(text) < 1000, name


def test_a_dataclass_that_prints_an_array_is_seen() -> None:
    leaky = dataclasses.make_dataclass("Leaky", [("labels", np.ndarray), ("epsilon", float)])
    assert shown(leaky) == ["labels"]
    assert str(SENTINEL) in repr(leaky(LABELS, 1.0))


def refusing() -> dict[str, Any]:
    """Every public class whose constructor may refuse: estimators of scikit-learn check nothing before `fit`.

    The repr of modules of torch is theirs.
    """
    kinds: dict[str, Any] = {}
    for key, kind in classes().items():
        ours = kind.__module__.startswith("labeldp") and not inspect.isabstract(kind)
        network = any(base.__module__.startswith("torch") for base in kind.__mro__)
        if ours and not network and not issubclass(kind, Enum | BaseException | BaseEstimator | tuple):
            kinds[key] = kind
    return kinds


def test_what_a_constructor_refused_can_be_shown() -> None:
    """Tools that print the variables of an error call `repr` on an object that was not finished."""
    kinds = refusing()
    assert len(kinds) > 200
    for name, kind in kinds.items():
        started = kind.__new__(kind)
        if dataclasses.is_dataclass(kind):  # its fields are set before anything is checked
            for part in dataclasses.fields(kind):
                if part.init or part.default is not dataclasses.MISSING:
                    object.__setattr__(started, part.name, "")
        elif "__init__" not in vars(kind) and kind.__init__ is object.__init__:
            continue
        assert isinstance(repr(started), str), name


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

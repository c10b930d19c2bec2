"""Mechanisms that describe and restore themselves, through messages."""

import json
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp.mechanisms import (
    MECHANISMS,
    GaussianMoment,
    LaplaceMoment,
    Mechanism,
    ResponseOnBins,
    UnbiasedNumbers,
    restore,
)
from labeldp.privacy import Certificate
from labeldp.serve.wire import described, packed, read_description
from mechanisms import examples

CLASSES, NUMBERS = ldp.Classes(("a", "b", "c")), ldp.Interval(0, 10, grid=21)

RNG = np.random.default_rng(0)

ROWS = ldp.Public(RNG.normal(size=(40, 3)), why="made up")

GROUPS = ldp.Public(np.arange(40) % 4, why="rows are numbered")

FREQUENT = ldp.Public(RNG.dirichlet(np.ones(21)), why="made up")

ON_CONDITION = "secret weights on condition"

EXAMPLES: list[Mechanism] = [
    *(make(1.0) for name, make in examples.EXAMPLES.items() if name != ON_CONDITION),
    UnbiasedNumbers(domain=NUMBERS, epsilon=2, prior=FREQUENT),
    ResponseOnBins(domain=NUMBERS, epsilon=2, prior=FREQUENT, cuts="even"),
    GaussianMoment(domain=NUMBERS, epsilon=1, delta=1e-6, features=ROWS, clip=1.5),
    ldp.bags.NoisyWeightedLLP(5, 5, "auto", epsilon=1, delta=1e-6, domain=NUMBERS, features=ROWS),
    ldp.bags.WeightedLBA(20, bag_noise=30.0, domain=NUMBERS, features=ROWS),
]


def nothing(ids: list[str]) -> Certificate:
    raise ldp.privacy.InputError("nothing was released")


def rebuilt(content: Any, domain: Any, basis: Any) -> Mechanism:
    """The mechanism that a server makes of what it got."""
    return restore(read_description(content, basis), domain)


def sent(mechanism: Mechanism) -> dict[str, Any]:
    """A description as it arrives."""
    content: dict[str, Any] = json.loads(json.dumps(described(mechanism)))
    return content


@pytest.mark.parametrize("mechanism", EXAMPLES, ids=lambda each: type(each).__name__)
def test_a_mechanism_that_is_built_again_has_the_same_law_loss_and_reasons(mechanism: Mechanism) -> None:
    again = rebuilt(sent(mechanism), mechanism.domain, nothing)
    assert again.specification() == mechanism.specification()
    assert again.privacy_loss() == mechanism.privacy_loss()
    assert (again.assumptions, again.published) == (mechanism.assumptions, mechanism.published)
    ids = np.arange(mechanism.records or 40)
    labels = RNG.integers(mechanism.domain.size, size=len(ids))
    drawn = [
        each.randomize(labels, rng=ldp.KeyedRandomness(b"k" * 32, b"test").bind(b"release"), ids=ids)
        for each in (mechanism, again)
    ]
    assert np.array_equal(*drawn)


def test_every_mechanism_of_the_catalog_has_an_example() -> None:
    assert {type(each).__name__ for each in EXAMPLES} == set(MECHANISMS)


class OfAProgram(ldp.RandomizedResponse):
    """A mechanism that labeldp does not know."""


def test_an_unknown_mechanism_and_one_on_a_condition_are_refused() -> None:
    with pytest.raises(ldp.privacy.InputError, match="OfAProgram is not in the catalog"):
        described(OfAProgram(domain=CLASSES, epsilon=1))
    conditional = examples.EXAMPLES[ON_CONDITION](9.0)
    with pytest.raises(ldp.privacy.InputError):
        rebuilt(sent(conditional), conditional.domain, nothing)


CHANGES: dict[str, Any] = {
    "another epsilon": lambda content: content["arguments"].update(epsilon=0.5),
    "an argument too many": lambda content: content["arguments"].update(law=1),
    "a list as an argument": lambda content: content["arguments"].update(epsilon=[1]),
    "no number": lambda content: content["arguments"].update(epsilon="one"),
    "a huge number": lambda content: content["arguments"].update(epsilon=1e308),
    "code": lambda content: content.update(name="__import__"),
    "another class": lambda content: content.update(name="NaiveBags"),
    "no name": lambda content: content.pop("name"),
    "groups of other records": lambda content: content["arrays"].clear(),
    "three arrays": lambda content: content["arrays"].update(a={}, b={}),
    "no reason": lambda content: content["inputs"][0].update(why=""),
    "no inputs": lambda content: content["inputs"].clear(),
    "an input too many": lambda content: content["inputs"].append({"name": "prior", "why": "so", "releases": []}),
    "releases that nobody made": lambda content: content["inputs"][0].update(releases=[["0123"]]),
    "a reason of two lines": lambda content: content["inputs"][0].update(why="a\nb"),
    "a long reason": lambda content: content["inputs"][0].update(why="a" * 1001),
    "another sampler": lambda content: content["specification"].update(sampler=0),
    "no specification": lambda content: content.pop("specification"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_description_says_of_itself_is_not_believed(change: str) -> None:
    content = sent(ldp.LaplaceHistogram(domain=CLASSES, epsilon=1, groups=GROUPS))
    assert rebuilt(content, CLASSES, nothing)
    CHANGES[change](content)
    with pytest.raises(ldp.privacy.InputError):
        rebuilt(content, CLASSES, nothing)


@pytest.mark.parametrize(("name", "value"), [("groups", 1 << 40), ("groups", 1 << 23), ("bags", 1 << 40), ("bags", 40)])
def test_numbers_of_groups_that_would_exhaust_memory_are_refused(name: str, value: int) -> None:
    made: Mechanism = ldp.LaplaceHistogram(domain=CLASSES, epsilon=1, groups=GROUPS)
    if name == "bags":
        made = ldp.BagSum(5, epsilon=1, domain=NUMBERS, features=ROWS)
    content = sent(made)
    array = np.zeros(40, dtype=np.int64)
    array[7] = value
    content["arrays"][name] = packed(array)
    with pytest.raises(ldp.privacy.InputError, match=f"{name} must be integers"):
        rebuilt(content, made.domain, nothing)


def test_another_domain_is_refused() -> None:
    content = sent(ldp.RandomizedResponse(domain=CLASSES, epsilon=1))
    with pytest.raises(ldp.privacy.InputError, match="another domain"):
        rebuilt(content, ldp.Classes(("a", "b", "d")), nothing)


def test_rows_on_a_grid_may_be_any_but_no_larger_than_the_grid() -> None:
    content = sent(LaplaceMoment(domain=CLASSES, epsilon=1, features=ROWS, resolution=64))
    steps = np.full((40, 3), 65, dtype=np.int16)
    content["arrays"]["features"] = packed(steps)
    with pytest.raises(ldp.privacy.InputError, match="features"):
        rebuilt(content, CLASSES, nothing)

"""Which mechanisms and online learners have a pure epsilon, and that the page of limits says the same."""

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import labeldp.mechanisms as mechanisms
import labeldp.online as online
from architecture.source import ROOT
from labeldp.mechanisms import Mechanism
from labeldp.online import Ball, ConvexKernel, Kernel
from labeldp.online.experts.planning import METHODS
from mechanisms.examples import EXAMPLES
from online.experts.test_kernel import KERNELS

BALL = Ball(2, 1.0)


class Points:
    """Draws of points that say how far they are from the law."""

    distance = 1e-9

    def draw(self, *_: Any) -> Any:
        """A point."""
        return np.zeros(2)


LEARNERS: dict[str, Callable[[], Any]] = {
    **KERNELS,
    "TreeNoise with an epsilon": lambda: online.TreeNoise(3, 12, Fraction(1, 2), epsilon=Fraction(1)),
    **{f"method {name}": lambda name=name: planned(name).kernel() for name in METHODS},
    **{
        f"convex {name}": lambda name=name: online.plan_convex(BALL, 50, 1.0, 1e-3, method=name).kernel
        for name in online.CONVEX_METHODS[:-1]
    },
    "convex sampler": lambda: online.plan_convex(BALL, 50, 1.0, 1e-3, method="sampler", sampler=Points()).kernel,
}


def planned(name: str) -> online.ExpertsPlan:
    """A small plan by its name; with delta = 0 where that will do."""
    return online.plan_experts(3, 12, 1.0, 0 if METHODS[name].pure else 1e-3, name, "replace", 8)


def is_pure(loss: Any) -> bool:
    """Whether a loss has a bound that always holds."""
    return loss.max_loss is not None


PURE = {name: is_pure(make(1.0).privacy_loss()) for name, make in EXAMPLES.items()}
PURE_LEARNERS = {name: is_pure(make().privacy_loss(50 if "convex" in name else 12)) for name, make in LEARNERS.items()}


def sentence(start: str) -> set[str]:
    """The names in backticks of the part of the row on costs chosen late that begins so."""
    row = next(
        line for line in (ROOT / "docs/limits.md").read_text().splitlines() if line.startswith("| **Costs chosen")
    )
    found = re.search(rf"{start}([^.;]*)[.;]", row)
    assert found, row
    return set(re.findall(r"`(\w+)`", found[1]))


def test_the_page_names_the_mechanisms_that_have_no_pure_epsilon() -> None:
    """Every mechanism here but these has a pure epsilon; one with two kinds of noise is named with its kind."""
    impure = {type(EXAMPLES[name](1.0)).__name__ for name, pure in PURE.items() if not pure}
    assert sentence("every mechanism here has a pure ε but") == impure
    both = impure & {type(EXAMPLES[name](1.0)).__name__ for name, pure in PURE.items() if pure}
    assert both == {"BagSum"} and not PURE["gaussian bag sum"]


def test_the_page_names_the_online_learners_that_have_a_pure_epsilon() -> None:
    """No online learner has a pure epsilon but these; the page said that every mechanism had one."""
    pure = {type(LEARNERS[name]()).__name__ for name, is_one in PURE_LEARNERS.items() if is_one}
    assert sentence("no online learner has one but") == pure
    assert {name for name in METHODS if PURE_LEARNERS[f"method {name}"]} == {"doubling"}
    assert {name for name, method in METHODS.items() if method.pure} == {"doubling"}
    assert not any(pure for name, pure in PURE_LEARNERS.items() if name.startswith("convex"))


@pytest.mark.parametrize(
    ("room", "kind", "examples"),
    [
        (mechanisms, Mechanism, [make(1.0) for make in EXAMPLES.values()]),
        (online, Kernel, [make() for make in LEARNERS.values()]),
        (online, ConvexKernel, [make() for make in LEARNERS.values()]),
    ],
)
def test_none_is_missing(room: Any, kind: type, examples: list[Any]) -> None:
    public = [getattr(room, name) for name in room.__all__]
    leaves = {each for each in public if isinstance(each, type) and issubclass(each, kind) and is_leaf(each)}
    assert leaves <= {type(example) for example in examples}


def is_leaf(kind: type) -> bool:
    """Whether a class is no base of another one."""
    return not kind.__subclasses__()

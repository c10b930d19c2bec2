"""Checks of arguments: the ends of every range, other types, and the name of the argument in the error."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from labeldp.privacy import (
    MAX_EPSILON,
    InputError,
    Unit,
    check_choice,
    check_curator,
    check_delta,
    check_epsilon,
    check_integer,
    check_loss_neighbors,
    check_nonnegative,
    check_positive,
    exact_positive,
    exact_share,
    label_width,
    set_fields,
)

NAMED = {
    "positive": (check_positive, [1e-300, 1, 2.5, np.float32(0.5)], [0, -1, math.inf, math.nan]),
    "nonnegative": (check_nonnegative, [0, 1e-300, 7], [-1e-300, math.inf, math.nan]),
    "exact positive": (exact_positive, ["1e-400", 1, Fraction(1, 3)], [0, "-1e-9"]),
    "exact share": (exact_share, [Fraction(1, 1 << 32), 0.5, 1], [0, -0.5, 2, Fraction(1, 3), Fraction(1, 1 << 33)]),
}
"""Of each check the values that it takes, and numbers that it refuses."""


@pytest.mark.parametrize("kind", NAMED)
def test_numbers_within_a_range(kind: str) -> None:
    check, taken, refused = NAMED[kind]
    for value in taken:
        found = check(value, "rate")
        assert found == (float(value) if isinstance(found, float) else Fraction(str(value)))
        assert type(found) in (float, Fraction)
    for value in (*refused, True, None, "many", [1]):
        with pytest.raises(InputError, match="rate must"):
            check(value, "rate")


@pytest.mark.parametrize(
    ("check", "taken", "refused"),
    [
        (check_epsilon, [0, 1, "0.1", MAX_EPSILON], [-1, MAX_EPSILON + 1, None, "much"]),
        (check_delta, ["1e-400", 1e-6, 0.999], [0, 1, 1.5, -1, None]),
    ],
)
def test_points_of_a_curve(check: Any, taken: list[Any], refused: list[Any]) -> None:
    assert [check(value) for value in taken] == [float(value) for value in taken]
    for value in refused:
        with pytest.raises(InputError, match="must"):
            check(value)


def test_integers() -> None:
    assert [check_integer(value, "rows") for value in (1, np.uint8(7), 1 << 80)] == [1, 7, 1 << 80]
    assert check_integer(0, "rows", low=0, high=2) == 0 and check_integer(2, "rows", high=2) == 2
    assert type(check_integer(np.int64(3), "rows")) is int
    for value in (0, -1, True, 1.0, "1", None):
        with pytest.raises(InputError, match=r"rows must be an integer, at least 1$"):
            check_integer(value, "rows")
    for value in (1, 4):
        with pytest.raises(InputError, match=r"rows must be an integer from 2 to 3$"):
            check_integer(value, "rows", low=2, high=3)


def test_words_and_relations() -> None:
    assert check_choice("b", "kind", ("a", "b")) == "b"
    with pytest.raises(InputError, match="kind must be one of a, b"):
        check_choice("c", "kind", ("a", "b"))
    assert check_loss_neighbors(Unit.ZERO_OUT) is Unit.ZERO_OUT
    assert check_loss_neighbors(Unit.ONE_LOSS) is Unit.ONE_LOSS
    with pytest.raises(InputError, match=r"ONE_LOSS or Unit\.ZERO_OUT"):
        check_loss_neighbors(Unit.ONE_LABEL)


def test_ranges_of_labels() -> None:
    assert label_width((0, "0.1")) == Fraction(1, 10) and label_width([-5, 5]) == 10
    lowest = "lowest label first"
    for given, words in (((1, 1), lowest), ((2, 1), lowest), (3, "a pair"), ((1,), "a pair")):
        with pytest.raises(InputError, match=f"label_range must.*{words}"):
            label_width(given)


def test_labels_are_no_curator() -> None:
    with pytest.raises(InputError, match="curator must be a Curator, which holds the private labels"):
        check_curator([0, 1])

    class Half:
        records = domain = require = 0

    with pytest.raises(InputError, match="curator must be a Curator"):
        check_curator(Half())


def test_a_curator_of_other_labels_is_refused() -> None:
    class Holder:
        records = require = release = 0

        class domain:
            target = "numbers"

    check_curator(Holder())
    check_curator(Holder(), "numbers")
    with pytest.raises(InputError, match="curator must hold classes: its domain is not Classes"):
        check_curator(Holder(), "classes")


def test_fields_of_a_frozen_instance_are_set() -> None:
    class Kept:
        __slots__ = ("size",)

        def __setattr__(self, name: str, value: Any) -> None:
            raise AttributeError(name)

    kept = Kept()
    set_fields(kept, size=3)
    assert kept.size == 3

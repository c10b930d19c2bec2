"""The smallest or largest number that keeps a promise: the answer was asked and keeps it."""

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.privacy.search import largest, smallest, smallest_below, smallest_integer, smallest_positive

NUMBERS = st.floats(1e-6, 1e6)


def remembered(keeps: Callable[[float], bool], kept: set[float]) -> Callable[[float], bool]:
    """The same question, which remembers every number that keeps the promise."""

    def asked(number: float) -> bool:
        if keeps(number):
            kept.add(number)
        return number in kept

    return asked


@given(NUMBERS)
def test_smallest_keeps_and_is_within_the_tolerance(border: float) -> None:
    kept: set[float] = {2e6}
    found = smallest(remembered(lambda x: x >= border, kept), 0.0, 2e6, tol=1e-9)
    assert found in kept and border <= found <= border * (1 + 2e-9)
    kept = set()
    positive = smallest_positive(remembered(lambda x: x >= border, kept), tol=1e-9, most=2.0**30)
    assert positive in kept and border <= positive <= border * (1 + 2e-9)


@given(NUMBERS)
def test_largest_keeps_and_is_within_the_tolerance(border: float) -> None:
    kept: set[float] = set()
    found = largest(remembered(lambda x: x <= border, kept), 0.0, 2e6, tol=1e-9)
    assert found in kept and border * (1 - 2e-9) <= found <= border


def test_where_nothing_or_everything_keeps_it() -> None:
    assert smallest(lambda _: False, 0.0, 8.0, tol=1e-3) == 8.0
    assert largest(lambda _: False, 0.0, 8.0, tol=1e-3, least=1e-6) == 0.0
    assert largest(lambda _: True, 0.0, 8.0, tol=1e-3) == pytest.approx(8.0, rel=1e-3)
    assert smallest_positive(lambda _: False, tol=1e-3, most=64.0) is None
    assert smallest_integer(lambda _: False, 1, 100) is None
    assert smallest_integer(lambda _: True, 7, 100) == 7


@given(st.randoms(use_true_random=False), st.floats(0.5, 2))
def test_the_answer_keeps_it_even_where_rounding_blurs_the_border(coins: random.Random, border: float) -> None:
    blurred = {}

    def keeps(x: float) -> bool:
        return blurred.setdefault(x, x > border + coins.choice([-0.01, 0.01]))

    found = smallest_positive(keeps, tol=1e-6, most=64.0)
    assert found is not None and blurred[found]


@pytest.mark.parametrize("border", [1, 2, 77, 100])
def test_integers(border: int) -> None:
    assert smallest_integer(lambda n: n >= border, 1, 100) == border


@pytest.mark.parametrize("target", [1e-3, 0.3, 0.9999])
def test_the_answer_on_a_curve_is_the_smallest_and_nothing_is_asked_twice(target: float) -> None:
    asked: list[float] = []

    def curve(x: float) -> float:
        asked.append(x)
        return math.exp(-x)

    found = smallest_below(curve, target, 1e-9, 1e6)
    assert found is not None and math.exp(-found) <= target < math.exp(-found * (1 - 1e-9))
    assert len(set(asked)) == len(asked) <= 16
    assert min(asked) > 1e-9 and max(asked) < 100


def test_ends_of_the_search_on_a_curve() -> None:
    assert smallest_below(lambda x: 1 / x, 1e12, 1e-9, 1e6) == 1e-9
    assert smallest_below(lambda x: 1 / x, 1e-6 * (1 + 1e-12), 1e-9, 1e6) == pytest.approx(1e6)
    assert smallest_below(lambda x: 1 / x, 1e-7, 1e-9, 1e6) is None
    assert smallest_below(lambda x: 2 - x, 1.0, 1e-9, 1.0) == 1.0

"""Epsilon and delta of sums over bags."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from labeldp.bags import BagSum
from labeldp.mechanisms import Interval
from labeldp.privacy import Public, float_below


@pytest.mark.parametrize("delta", [Fraction(1, 10), "1e-6", Fraction(5, 6)])
def test_what_is_asked_for_is_rounded_down_where_doubles_do_not_hold_it(delta: Any) -> None:
    bags = Public(np.repeat([0, 1], 4), why="a test")
    made = BagSum(4, noise="gaussian", domain=Interval(0, 1), epsilon=Fraction(1, 7), delta=delta, bags=bags)
    assert made.delta == float_below(Fraction(delta)) and made.epsilon == float_below(Fraction(1, 7))
    assert Fraction(str(made.delta)) <= Fraction(delta) and Fraction(str(made.epsilon)) <= Fraction(1, 7)

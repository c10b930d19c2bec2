"""Where a falling curve goes below a target: the answer keeps it, and the slow ends are asked for only in need."""

import math

import pytest

from labeldp.privacy.search import falls_below, integer_below


@pytest.mark.parametrize("target", [1e-3, 0.3, 0.9999])
def test_the_answer_is_the_smallest_and_nothing_is_asked_twice(target: float) -> None:
    asked: list[float] = []

    def curve(x: float) -> float:
        asked.append(x)
        return math.exp(-x)

    found = falls_below(curve, target, 1e-9, 1e6)
    assert found is not None and math.exp(-found) <= target < math.exp(-found * (1 - 1e-9))
    assert len(set(asked)) == len(asked) <= 16
    assert min(asked) > 1e-9 and max(asked) < 100


def test_ends_of_the_search() -> None:
    assert falls_below(lambda x: 1 / x, 1e12, 1e-9, 1e6) == 1e-9
    assert falls_below(lambda x: 1 / x, 1e-6 * (1 + 1e-12), 1e-9, 1e6) == pytest.approx(1e6)
    assert falls_below(lambda x: 1 / x, 1e-7, 1e-9, 1e6) is None
    assert falls_below(lambda x: 2 - x, 1.0, 1e-9, 1.0) == 1.0


def test_integers() -> None:
    for smallest in (1, 2, 77, 100):
        assert integer_below(lambda n, s=smallest: float(n < s), 0.5, 1, 100) == smallest
    assert integer_below(lambda n: 1.0, 0.5, 1, 100) is None

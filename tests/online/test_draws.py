"""Exact coins and exact draws: their laws, and what happens where doubles cannot decide."""

from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.online.draws import COIN_MARGIN, EDGE_ERROR, _draw_exactly, draw_index, fresh_words, keep_coins
from labeldp.privacy import WORD, InputError, KeyedRandomness, SystemRandomness, as_randomness, as_successive
from labeldp.testing.contract import ContractViolation
from labeldp.testing.laws import check_law
from online.lazy import Chosen, by_rejection, cut, decay

UNIT = Fraction(3, 1 << 10) / 255
KEEP = 1 - Fraction(29_205_777, 1 << 32)
TOTALS = np.array([9000, 12_345, 40_000, 9000, 100_000, 5_000_000])


def chances(totals: np.ndarray, unit: Fraction) -> list[Fraction]:
    """Cumulated probabilities."""
    weights = [decay(unit * int(gap)) for gap in totals - totals.min()]
    return [edge / sum(weights) for edge in accumulate(weights)]


def law(totals: np.ndarray, unit: Fraction) -> np.ndarray:
    """Multiplicative weights in doubles."""
    weights = np.exp(-float(unit) * (totals - totals.min()))
    return weights / weights.sum()


def test_numpy_knows_exponentials_as_well_as_the_proof_says() -> None:
    """Relatively within 2^-50, one at a time and many at once."""
    points = -np.concatenate([np.linspace(0, 708, 1500), np.geomspace(1e-9, 700, 500)])
    for value, many in zip(points.tolist(), np.exp(points).tolist(), strict=True):
        exact = decay(Fraction(-value))
        assert abs(Fraction(many) / exact - 1) < Fraction(1, 1 << 50)
        assert abs(Fraction(float(np.exp(value))) / exact - 1) < Fraction(1, 1 << 50)


@pytest.mark.parametrize("keep", [KEEP, Fraction(1), Fraction(1, 1 << 32)])
@pytest.mark.parametrize("cost", [0, 1, 255, 65_535, 2_000_000])
def test_a_coin_at_its_threshold(cost: int, keep: Fraction) -> None:
    """A coin is the comparison of one uniform number with the real number keep · e^(-unit · cost)."""
    chance = keep * decay(UNIT * cost)
    if chance == 1:
        assert keep_coins(np.array([cost]), UNIT, keep, rng=Chosen([WORD - 1])).all()
        return
    first, second, third = cut(chance, 192)
    for words, heads in [
        ([first, second, third - 1], True),
        ([first, second, third + 1], False),
        ([first, max(second - 1, 0)], second > 0),
        ([first, second + 1], False),
        ([first - 1], True),
        ([first + 1], False),
    ]:
        if min(words) >= 0:
            source = Chosen([*words, WORD // 3])
            assert keep_coins(np.array([cost]), UNIT, keep, rng=source).tolist() == [heads], words


@given(st.integers(0, 10**6), st.integers(-(1 << 27), 1 << 27))
def test_coins_near_their_threshold_in_integers(cost: int, by: int) -> None:
    chance = KEEP * decay(UNIT * cost)
    word = min(max(cut(chance, 64)[0] + by, 0), WORD - 1)
    [heads] = keep_coins(np.array([cost]), UNIT, KEEP, rng=Chosen([word, WORD // 2, 5]))
    assert heads == (Fraction(2 * word + 1, 2 * WORD) < chance)


def test_doubles_alone_decide_unless_a_word_is_near() -> None:
    costs = np.arange(1000)
    exact = np.array([float(KEEP * decay(UNIT * int(cost))) for cost in costs])
    for side, heads in ((-4, True), (4, False)):
        words = (exact * (1 + side * COIN_MARGIN) * WORD).astype(np.uint64).tolist()
        assert keep_coins(costs, UNIT, KEEP, rng=Chosen(words)).tolist() == [heads] * 1000


def test_a_coin_of_no_chance_needs_no_word_and_a_tiny_one_more() -> None:
    assert not keep_coins(np.zeros((2, 3), dtype=np.int64), UNIT, Fraction(0), rng=Chosen([])).any()
    assert not keep_coins(np.array([10**8]), UNIT, KEEP, rng=Chosen([1])).any()
    assert not keep_coins(np.array([10**8]), UNIT, KEEP, rng=Chosen([0, 1])).any()


@pytest.mark.parametrize("cost", [0, 100, 40_000])
def test_coins_follow_their_law_and_no_other(cost: int) -> None:
    rng, keep = as_randomness(np.random.default_rng(cost)), Fraction(3, 4)
    chance = float(keep * decay(UNIT * cost))

    def draw(count: int) -> np.ndarray:
        return keep_coins(np.full(count, cost), UNIT, keep, rng=rng).astype(np.intp)

    check_law(draw, np.array([1 - chance, chance]), np.array([1 - chance / 0.97, chance / 0.97]))
    with pytest.raises(ContractViolation):
        check_law(draw, np.array([1 - chance / 0.75, chance / 0.75]), np.array([1 - chance, chance]))


@pytest.mark.parametrize("totals", [TOTALS, np.zeros(4, dtype=np.int64), np.array([7]), np.array([0, 10**9, 1])])
def test_a_draw_at_every_edge(totals: np.ndarray) -> None:
    """A draw is the inverse of the exact distribution function at one uniform number."""
    steps = chances(totals, UNIT)
    tried = [[0, 0, 1], [WORD - 1, 5, 5]]
    for edge in steps[:-1]:
        first, second, third = cut(edge, 192)
        tried += [[first, second, third + 1], [first, second, third - 1], [first - 1, 0, 0], [first + 1, 0, 0]]
    for words in (words for words in tried if 0 <= min(words) <= max(words) < WORD):
        place = Fraction((words[0] << 129) + (words[1] << 65) + 2 * words[2] + 1, 2 << 192)
        expected = sum(step <= place for step in steps[:-1])
        assert draw_index(totals, UNIT, rng=Chosen([*words, WORD // 3, 1])) == expected


def test_equal_weights_are_cut_at_whole_words() -> None:
    quarter = WORD // 4
    words = {0: 0, quarter - 1: 0, quarter: 1, 2 * quarter - 1: 1, 2 * quarter: 2, 3 * quarter: 3, WORD - 1: 3}
    for word, index in words.items():
        assert draw_index(np.full(4, 10**12), UNIT, rng=Chosen([word])) == index


@given(st.lists(st.integers(0, 3_000_000), min_size=1, max_size=60), st.integers(0, WORD - 1))
def test_doubles_and_integers_draw_the_same(losses: list[int], word: int) -> None:
    totals = np.array(losses)
    gaps = totals - totals.min()
    assert draw_index(totals, UNIT, rng=Chosen([word, 1])) == _draw_exactly(gaps, UNIT, word, Chosen([1, 1]))


@pytest.mark.parametrize("experts", [10, 3000])
def test_edges_are_known_as_well_as_the_proof_says(experts: int) -> None:
    totals = np.random.default_rng(experts).integers(0, 60_000, experts)
    edges = np.cumsum(np.exp(-float(UNIT) * (totals - totals.min())))
    weights = accumulate(decay(UNIT * int(gap)) for gap in totals - totals.min())
    errors = [abs(Fraction(edge) - exact) for edge, exact in zip(edges.tolist(), weights, strict=True)]
    assert 0 < max(errors) < Fraction((experts + 16) * EDGE_ERROR * float(edges[-1])) / 4


def test_draws_follow_their_law_and_no_other() -> None:
    """Those of an independent, exact sampler follow the same one."""
    rng = as_randomness(np.random.default_rng(3))
    right, wrong = law(TOTALS, UNIT), law(TOTALS, 2 * UNIT)

    def draw(count: int) -> np.ndarray:
        return np.array([draw_index(TOTALS, UNIT, rng=rng) for _ in range(count)])

    check_law(draw, right, wrong)
    check_law(lambda count: by_rejection(TOTALS, UNIT, count, 4), right, wrong)
    with pytest.raises(ContractViolation):
        check_law(draw, wrong, right)


def test_keyed_randomness_is_refused() -> None:
    with pytest.raises(InputError, match="keyed randomness would repeat its words in every round"):
        as_successive(KeyedRandomness(bytes(32)))
    with pytest.raises(InputError, match="rng must be"):
        as_successive(7)
    assert len(set(fresh_words(as_successive(SystemRandomness()), 5).tolist())) == 5

"""The two primitives: randomized response by one word, and alias tables of integers."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.mechanisms import Classes, DiscreteLaplace, Interval, RandomizedResponse, RandomizedResponseWithPrior
from labeldp.mechanisms.randomized_response import ResponseLaw, respond
from labeldp.privacy import WORD, InputError, exp_bounds
from labeldp.sampling import AliasTable
from mechanisms.examples import public
from sampling.words import preimages


@st.composite
def some_weights(draw: st.DrawFn) -> list[int]:
    """Weights that sum to 2**64: some zero, some tiny, any number of them."""
    parts = draw(st.lists(st.one_of(st.just(0), st.integers(1, 9), st.integers(0, 2**50)), min_size=0, max_size=40))
    place = draw(st.integers(0, len(parts)))
    return [*parts[:place], WORD - sum(parts), *parts[place:]]


@given(some_weights())
def test_an_alias_table_has_exactly_its_weights(weights: list[int]) -> None:
    table = AliasTable.of(weights)
    assert table.weights() == weights
    share = 1 << table.shift
    assert len(table.thresholds) == max(2, 1 << (len(weights) - 1).bit_length())
    cuts = [c * share + part for c, at in enumerate(table.thresholds.tolist()) for part in (0, at)]
    drawn = preimages(lambda words: table.draw(np.array(words, dtype=np.uint64)).tolist(), cuts, len(table.thresholds))
    assert drawn[: len(weights)] == weights


@pytest.mark.parametrize("size", [2, 3, 5, 64, 65, 1000])
def test_equal_weights_of_any_number(size: int) -> None:
    weights = [WORD // size] * (size - 1)
    weights.append(WORD - sum(weights))
    assert AliasTable.of(weights).weights() == weights


@pytest.mark.parametrize("weights", [[WORD - 1], [WORD, 1], [-1, WORD + 1], [2**63]])
def test_weights_that_do_not_sum_to_all_words_are_refused(weights: list[int]) -> None:
    with pytest.raises(ValueError, match="weights must be non-negative integers that sum to"):
        AliasTable.of(weights)


SIZES = [1, 2, 3, 10, 100, 1000, 4096, 65534, 65535, 65536, 2**24]


@pytest.mark.guarantee("labeldp.mechanisms:ResponseLaw", "pure")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("epsilon", ["0.001", "0.1", "1", "11.5", "44.361", "44.37", "50", "700", "1000"])
def test_a_law_is_private_in_integers(size: int, epsilon: str) -> None:
    law, (low, high) = ResponseLaw.of(size, Fraction(epsilon)), exp_bounds(Fraction(epsilon))
    if size == 1:
        assert law.keep == law.uniform == law.uniform_last == WORD
        return
    assert law.keep + (size - 1) * law.lie == WORD == law.uniform_last + (size - 1) * law.uniform
    weights = [law.lie, law.uniform, law.uniform_last, law.keep]
    assert min(weights) > 0 and max(weights) <= low * min(weights)
    ideal = WORD / (low + size - 1)
    assert ideal <= law.lie < ideal + 1 or law.lie == 1
    assert law.lie * (high + size - 1) >= WORD, "a lie is never rarer than the formula says"


@pytest.mark.parametrize("size", [2, 3, 4, 10, 1000, 65535])
def test_an_epsilon_too_small_for_the_table_is_refused(size: int) -> None:
    bound = Fraction(size * size, WORD)
    ResponseLaw.of(size, 4 * bound)
    with pytest.raises(
        InputError, match=r"epsilon = .* is too small for .* candidates: 64-bit weights need at least about"
    ):
        ResponseLaw.of(size, bound / 10**6)
    with pytest.raises(InputError, match="is too small for"):
        RandomizedResponse(domain=Classes(size), epsilon=bound / 10**6)


@pytest.mark.parametrize("epsilon", [1e-5, 1, 40])
def test_65535_classes_word_by_word(epsilon: float) -> None:
    law = ResponseLaw.of(65535, Fraction(str(epsilon)))
    rng = np.random.default_rng(0)
    cuts = [0, law.lie, 2 * law.lie, 65533 * law.lie, 65534 * law.lie, WORD]
    for code in (0, 1, 40_000, 65534):
        words = [cut + by for cut in cuts for by in (-1, 0, 1) if 0 <= cut + by < WORD]
        words += rng.integers(0, WORD, 200, dtype=np.uint64).tolist()
        expected = [(code + 1 + min(word // law.lie, 65534)) % 65535 for word in words]
        codes = np.full(len(words), code, dtype=np.uint16)
        assert respond(codes, np.array(words, dtype=np.uint64), law).tolist() == expected


def test_many_classes_with_a_prior() -> None:
    classes = 700
    prior = np.random.default_rng(1).dirichlet(np.ones(classes), size=20)
    mechanism = RandomizedResponseWithPrior(domain=Classes(classes), epsilon=5, prior=public(prior))
    noisy = mechanism.randomize(np.arange(20) * 35, rng=np.random.default_rng(2))
    assert mechanism.membership()[np.arange(20), noisy].all()
    assert mechanism.membership().sum(axis=1).tolist() == mechanism.sizes.tolist()


@pytest.mark.parametrize("epsilon", [700, 800, 1000])
def test_a_huge_epsilon_keeps_the_label(epsilon: float) -> None:
    labels = np.arange(3).repeat(50)
    mechanism = RandomizedResponse(domain=Classes(3), epsilon=epsilon)
    assert mechanism.law.lie == 1
    assert np.array_equal(mechanism.randomize(labels, rng=np.random.default_rng(0)), labels)
    even = public(np.full((150, 3), 1 / 3))
    assert RandomizedResponseWithPrior(domain=Classes(3), epsilon=epsilon, prior=even).sizes.tolist() == [3] * 150
    assert DiscreteLaplace(domain=Interval(0, 1, grid=5), epsilon=epsilon).half[1:] == [1] * 4 or epsilon < 178


@pytest.mark.parametrize("grid", [2, 3, 17, 1025])
@pytest.mark.parametrize("epsilon", ["0.01", "1", "30", "500"])
def test_the_noise_of_discrete_laplace_in_integers(grid: int, epsilon: str) -> None:
    mechanism = DiscreteLaplace(domain=Interval(0, 1, grid=grid), epsilon=epsilon)
    half, low = mechanism.half, exp_bounds(Fraction(epsilon))[0]
    assert half[0] + 2 * sum(half[1:]) == WORD
    assert all(a >= b > 0 for a, b in pairwise(half[:-1]))
    end = WORD - sum(half[1:])
    assert end <= low * half[-1]
    decay = math.exp(-float(Fraction(epsilon)) / (grid - 1))
    ideal = [(1 - decay) / (1 + decay) * decay**i for i in range(grid - 1)] + [decay ** (grid - 1) / (1 + decay)]
    assert np.allclose(np.array(half, dtype=float) / WORD, ideal, rtol=1e-9, atol=1e-18)
    assert mechanism.scale == pytest.approx(1 / float(Fraction(epsilon)))


def test_a_grid_too_fine_for_epsilon_is_refused() -> None:
    coarse = DiscreteLaplace(domain=Interval(0, 1, grid=1025), epsilon=1)
    for make in (lambda: DiscreteLaplace(domain=coarse.domain, epsilon=1e-17), lambda: coarse.with_epsilon(1e-17)):
        with pytest.raises(
            InputError, match="epsilon is too small for a grid as fine as this one: take fewer grid points"
        ):
            make()
    with pytest.raises(InputError, match="domain must have a grid of at most 1048577 points"):
        DiscreteLaplace(domain=Interval(0, 1, grid=2**20 + 2), epsilon=1)

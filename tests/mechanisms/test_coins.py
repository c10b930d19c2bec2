"""Exact coins and exact integer noise."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from labeldp.mechanisms import Classes, ExponentialMechanism, LaplaceHistogram, PermuteAndFlip
from labeldp.mechanisms.coins import MIN_RATE, WordStream, _word_bounds, discrete_laplace, exp_coins, uniform
from labeldp.privacy import WORD, InputError, KeyedRandomness, SystemRandomness, exp_bounds
from labeldp.privacy.randomness import SimulatedRandomness
from mechanisms.examples import public
from mechanisms.words import ChosenWords

FALSE_ALARM = 1e-12


def chosen(*words: int) -> WordStream:
    """A stream of one cell that gives these words."""
    return WordStream(ChosenWords(words), np.zeros(1, dtype=np.uint64))


def simulated(cells: int, seed: int) -> WordStream:
    """A stream of many cells."""
    return WordStream(SimulatedRandomness(np.random.default_rng(seed)), np.zeros(cells, dtype=np.uint64))


def flip(unit: str, exponent: int, *words: int) -> tuple[bool, int]:
    """One coin, and how many of the words it left."""
    source = ChosenWords(words)
    stream = WordStream(source, np.zeros(1, dtype=np.uint64))
    head = exp_coins(stream, np.zeros(1, dtype=np.intp), np.array([exponent]), Fraction(unit))
    return bool(head[0]), len(source.rest)


def bound_of(unit: str, exponent: int) -> int:
    """The word at which e^-x lies."""
    low, high = exp_bounds(-Fraction(unit) * exponent, bits=300)
    assert low * WORD // 1 == high * WORD // 1
    return int(low * WORD)


@pytest.mark.parametrize(("unit", "exponent"), [("1", 1), ("0.5", 3), ("0.001", 7), ("1/3", 90), ("44", 1)])
def test_a_word_at_the_bound_is_decided_by_further_words(unit: str, exponent: int) -> None:
    at = bound_of(unit, exponent)
    assert flip(unit, exponent, at - 1, 5) == (True, 1)
    assert flip(unit, exponent, at + 1, 5) == (False, 1)
    low, _ = exp_bounds(-Fraction(unit) * exponent, bits=400)
    next_word = int(low * WORD**2) % WORD
    assert flip(unit, exponent, at, next_word - 1, 5) == (True, 1)
    assert flip(unit, exponent, at, next_word + 1, 5) == (False, 1)
    third = int(low * WORD**3) % WORD
    assert flip(unit, exponent, at, next_word, third - 1, 5) == (True, 1)
    assert flip(unit, exponent, at, next_word, third + 1, 5) == (False, 1)


def test_the_ends_of_a_coin() -> None:
    assert flip("1", 0, WORD - 1) == (True, 0), "e^0 is certain"
    assert flip("0.3", 0, 0) == (True, 0)
    assert flip("1", 10**6, 1) == (False, 0), "a probability below 2^-64"
    assert flip("1", 50, 0, 0) == (True, 0), "but it is not zero"
    assert flip("1", 50, 0, WORD - 1) == (False, 0)


@pytest.mark.parametrize("exponent", ["1e-18", "0.7", "44.3", "44.4", "63.9", "64.1", "100000"])
@pytest.mark.parametrize("bits", [64, 128])
def test_the_bounds_of_a_coin_enclose_it(exponent: str, bits: int) -> None:
    low, high = _word_bounds(Fraction(exponent), bits)
    assert 0 <= low <= high <= low + 1
    if Fraction(exponent) < 200:
        exact_low, exact_high = exp_bounds(-Fraction(exponent), bits=300)
        assert low <= exact_high * 2**bits and exact_low * 2**bits <= high + 1


@pytest.mark.parametrize(("unit", "exponent"), [("0.1", 1), ("0.5", 3), ("1", 5)])
def test_coins_have_their_probability(unit: str, exponent: int) -> None:
    count = 200_000
    heads = int(exp_coins(simulated(count, 3), np.arange(count), np.full(count, exponent), Fraction(unit)).sum())
    chance = math.exp(-float(Fraction(unit)) * exponent)
    assert (heads - count * chance) ** 2 / (count * chance * (1 - chance)) < chi2.isf(FALSE_ALARM, 1)


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 2**32, 2**63 - 1, 2**63])
def test_uniform_integers_throw_the_last_words_away(bound: int) -> None:
    cell, limit = np.zeros(1, dtype=np.intp), WORD // bound * bound
    if bound == 1:
        assert uniform(chosen(), cell, 1).tolist() == [0]
        return
    assert uniform(chosen(0), cell, bound).tolist() == [0]
    assert uniform(chosen(limit - 1), cell, bound).tolist() == [bound - 1]
    if limit < WORD:
        assert uniform(chosen(limit, WORD - 1, 5 * bound % limit + 1), cell, bound).tolist() == [1]


def test_uniform_integers_are_uniform() -> None:
    count = 120_000
    counts = np.bincount(uniform(simulated(count, 1), np.arange(count), 12), minlength=12)
    assert np.sum((counts - count / 12) ** 2 / (count / 12)) < chi2.isf(FALSE_ALARM, 11)


RATES = ["0.05", "1/3", "1", "2.5", "0.0061728394506172835", "0.37123456789012345678901"]


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("source", ["simulated", "system", "keyed"])
def test_integer_noise_follows_its_law(rate: str, source: str) -> None:
    """Also where the denominator of the rate does not fit into 64 bits."""
    count = 100_000
    randomness = {"simulated": None, "system": SystemRandomness(), "keyed": KeyedRandomness(b"k" * 32)}[source]
    stream = WordStream(randomness, randomness.record_ids(None, count)) if randomness else simulated(count, 8)
    noise = discrete_laplace(stream, Fraction(rate))
    decay, edge = math.exp(-float(Fraction(rate))), int(4 / float(Fraction(rate))) + 1
    width = max(1, edge // 12)
    places = np.clip(np.floor_divide(noise, width), -edge // width, edge // width)
    masses: dict[int, float] = {}
    for i in range(-60 * edge, 60 * edge + 1):
        place = min(max(i // width, -edge // width), edge // width)
        masses[place] = masses.get(place, 0.0) + (1 - decay) / (1 + decay) * decay ** abs(i)
    expected = np.array([masses[place] * count for place in sorted(masses)])
    counts = np.array([np.count_nonzero(places == place) for place in sorted(masses)])
    used = expected > 5
    assert np.sum((counts - expected)[used] ** 2 / expected[used]) < chi2.isf(FALSE_ALARM, int(used.sum()) - 1)


def test_a_zero_is_not_counted_under_both_signs() -> None:
    source = ChosenWords([0, WORD - 1, 1, 0, WORD - 1, 0])  # twice: accepted place, no round, a sign
    stream = WordStream(source, np.zeros(1, dtype=np.uint64))
    assert discrete_laplace(stream, Fraction(2)).tolist() == [0]
    assert source.rest == [], "a negative zero is drawn again"


def test_noise_that_would_leave_64_bits_is_refused() -> None:
    with pytest.raises(InputError, match="epsilon is too small for integer noise of 64 bits"):
        discrete_laplace(simulated(1, 1), MIN_RATE / 2)
    with pytest.raises(InputError, match="epsilon is too small for integer noise of 64 bits"):
        LaplaceHistogram(domain=Classes(2), epsilon=1e-12, groups=public([0]))


@pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlip])
def test_large_counts_are_selected_from(kind: type) -> None:
    mechanism = kind(domain=Classes(3), epsilon=4, groups=public([0]))
    counts = np.array([[10**12, 10**12 - 1, 0]] * 4000)
    chosen_classes = mechanism.release_counts(counts, rng=np.random.default_rng(2))
    assert np.array_equal(np.unique(chosen_classes), [0, 1])


def test_permute_and_flip_is_never_worse() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        counts = rng.integers(0, 12, 5)
        laws = [
            kind(domain=Classes(5), epsilon=0.7, groups=public([0])).law(counts)
            for kind in (ExponentialMechanism, PermuteAndFlip)
        ]
        assert all(law.sum() == pytest.approx(1) for law in laws)
        assert laws[1] @ counts >= laws[0] @ counts - 1e-12


def test_permute_and_flip_against_its_own_definition() -> None:
    from itertools import permutations

    counts, epsilon = np.array([3, 5, 4, 1]), 0.8
    accept = np.exp(-epsilon / 2 * (5 - counts))
    law = np.zeros(4)
    for order in permutations(range(4)):
        left = 1 / 24
        for j in order:
            law[j] += left * accept[j]
            left *= 1 - accept[j]
    mechanism = PermuteAndFlip(domain=Classes(4), epsilon=epsilon, groups=public([0]))
    assert np.allclose(mechanism.law(counts), law)

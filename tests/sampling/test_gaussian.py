"""Exact Gaussian integers: their law word by word, and in large samples."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from labeldp.privacy import WORD, InputError, KeyedRandomness, as_randomness, exp_bounds
from labeldp.sampling import MAX_STDDEV, WIDE_STDDEV, WordStream, discrete_gaussian, discrete_laplace, successive
from labeldp.sampling import gaussian as module
from labeldp.sampling.gaussian import HalfNormal
from labeldp.testing import ContractViolation
from labeldp.testing.laws import check_law
from sampling.words import ChosenWords

STDDEVS = [1, 3, 16, 17, 63, 1000, 99_991, WIDE_STDDEV, MAX_STDDEV - 1, MAX_STDDEV]
CELL = np.zeros(1, dtype=np.intp)


def rng(seed: int):
    return as_randomness(np.random.default_rng(seed))


def given(*words: int) -> WordStream:
    return WordStream(ChosenWords(words), np.zeros(1, dtype=np.uint64))


@pytest.fixture(params=STDDEVS)
def law(request: pytest.FixtureRequest) -> HalfNormal:
    return HalfNormal(request.param)


def bin_of(law: HalfNormal, place: int) -> int:
    return int(np.searchsorted(law.starts, place, side="right")) - 1


def chance(law: HalfNormal, place: int) -> tuple[Fraction, Fraction]:
    """Bounds of the probability that a place is kept."""
    low, high = exp_bounds(-law.unit * place**2, bits=500)
    return low * law.factors[bin_of(law, place)], high * law.factors[bin_of(law, place)]


def test_bins_follow_one_another_and_reach_beyond_every_move(law: HalfNormal) -> None:
    ends = [start + (1 << bits) for start, bits in zip(law.starts, law.bits, strict=True)]
    assert [0, *ends[:-1]] == law.starts and max(law.bits) <= 62
    assert 2**20 * law.stddev <= ends[-1] < 2**62
    assert law.starts[192] >= 12 * law.stddev, "narrow bins hold nearly all of the mass"


def test_bins_lie_above_the_law(law: HalfNormal) -> None:
    """A kept place of a bin has the probability weight · 2^-64 · 2^-bits · chance: one factor times the law."""
    assert sum(law.weights) == WORD and min(law.weights) >= 1
    shares = {
        factor * weight / (1 << bits) for factor, weight, bits in zip(law.factors, law.weights, law.bits, strict=True)
    }
    assert len(shares) == 1
    for start, factor in zip(law.starts, law.factors, strict=True):
        low, _ = exp_bounds(-min(law.unit * start**2, Fraction(150)), bits=300)
        assert factor * low <= 1, "no place is kept more often than always"


@pytest.mark.guarantee("labeldp.sampling:HalfNormal", "law")
@pytest.mark.guarantee("labeldp.sampling:discrete_gaussian", "law")
def test_each_integer_is_drawn_with_its_exact_probability(law: HalfNormal) -> None:
    """A word at the bound is decided by further words."""
    places = {0, 1, 2, law.stddev // 3, law.stddev, 2 * law.stddev + 1, 5 * law.stddev, 13 * law.stddev}
    for place in sorted(places):
        low, high = chance(law, place)
        assert high <= 1 + Fraction(1, 1 << 90)
        at = int(low * WORD)
        following = int(low * WORD**2) % WORD
        if at >= WORD - 1 or not following:
            continue  # certain, or too rare for two words
        for word, further, kept in (
            (at - 1, 0, True),
            (at + 1, 0, False),
            (at, following - 1, True),
            (at, following + 1, False),
        ):
            if word >= 0:
                assert coin(law, place, word, further) == kept, (place, word - at)


def coin(law: HalfNormal, place: int, word: int, *further: int) -> bool:
    """Is the place kept?"""
    words, bins = np.array([word], dtype=np.uint64), np.array([bin_of(law, place)])
    return bool(law._kept(words, bins, np.array([place]), given(*further), CELL)[0])


def test_doubles_decide_as_integers_do(law: HalfNormal, monkeypatch: pytest.MonkeyPatch) -> None:
    source = np.random.default_rng(3)
    places = source.integers(0, 12 * law.stddev + 1, size=200)
    bins = np.array([bin_of(law, int(place)) for place in places])
    words = source.integers(0, WORD, size=200, dtype=np.uint64)
    with_doubles = law._kept(words, bins, places, given(), np.arange(200))
    monkeypatch.setattr(module, "COIN_MARGIN", 2.0)
    in_integers = law._kept(words, bins, places, given(), np.arange(200))
    assert (with_doubles == in_integers).all()


def test_the_first_word_chooses_the_bin_and_the_second_the_place(law: HalfNormal) -> None:
    place, kept, negative = law.propose(given(0, WORD - 1, 0), CELL)
    assert place[0] == (1 << law.shift) - 1 and kept[0] and negative[0]
    seen = {}
    for word in [0, WORD - 1, *np.random.default_rng(1).integers(0, WORD, 300, dtype=np.uint64).tolist()]:
        first, last = (int(law.propose(given(word, inside, WORD - 1), CELL)[0][0]) for inside in (0, WORD - 1))
        chosen = bin_of(law, first)
        assert first == law.starts[chosen] and last == first + (1 << law.bits[chosen]) - 1
        seen[chosen] = word
    assert len(seen) > 2


def gaussian_cells(values: np.ndarray) -> np.ndarray:
    edges = WIDE_STDDEV * ndtri(np.arange(1, 200) / 200)
    return np.searchsorted(edges, values)


def test_gaussian_integers_have_their_law_and_not_another() -> None:
    source, edges = rng(7), ndtri(np.arange(201) / 200)
    law, wrong = np.full(200, 1 / 200), np.diff(ndtr(edges / 1.02))
    check_law(lambda n: gaussian_cells(discrete_gaussian(successive(source, n), WIDE_STDDEV)), law, wrong)
    with pytest.raises(ContractViolation):
        check_law(lambda n: gaussian_cells(1.02 * discrete_gaussian(successive(source, n), WIDE_STDDEV)), law, wrong)


def test_a_zero_is_counted_under_one_sign() -> None:
    values = np.arange(-20, 21)
    law, source = np.exp(-((values / 8.0) ** 2) / 2), rng(10)
    twice = np.where(values == 0, 2, 1) * law
    check_law(lambda n: discrete_gaussian(successive(source, n), 8).clip(-21, 21) + 21, cells(law), cells(twice))


def cells(masses: np.ndarray) -> np.ndarray:
    """The law on -20 … 20 of a normal law with standard deviation 8, and both tails."""
    tail = np.exp(-((np.arange(21, 200) / 8.0) ** 2) / 2).sum()
    whole = np.concatenate([[tail], masses, [tail]])
    return whole / whole.sum()


@pytest.mark.parametrize("count", [0, 1, 5, 100_000])
def test_as_many_as_asked_for(count: int) -> None:
    assert discrete_gaussian(successive(rng(1), count), WIDE_STDDEV).shape == (count,)
    assert discrete_laplace(successive(rng(1), count), Fraction(1, 3)).shape == (count,)


def test_keyed_randomness_by_records_is_refused_where_words_come_one_after_another() -> None:
    """It repeats its words: two draws of a thousand integers under one key were the same ones."""
    key = KeyedRandomness(b"k" * 32)
    for source_ in (key, key.bind(b"a release")):
        with pytest.raises(InputError, match="keyed randomness would repeat its words"):
            successive(source_, 1000)
    stream = key.stream()
    first, second = (discrete_gaussian(successive(stream, 1000), WIDE_STDDEV) for _ in range(2))
    assert not np.array_equal(first, second)

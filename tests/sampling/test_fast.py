"""Fast exact integer noise: its law word by word, and in large samples."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from labeldp.privacy import WORD, InputError, KeyedRandomness, as_randomness, exp_bounds
from labeldp.sampling import MIN_RATE, WIDE_STDDEV, wide_gaussian, wide_laplace
from labeldp.sampling import fast as module
from labeldp.sampling.discrete import laplace_law
from labeldp.sampling.fast import BIN_COUNT, BLOCK, BinnedLaw, _filled, _half_normal, _places
from labeldp.testing.laws import ContractViolation, check_law
from sampling.words import ChosenWords

LAWS = {
    "half normal": _half_normal(),
    "a slow geometric law": _places(Fraction(1, 10**4)),
    "a fast one": _places(Fraction(3)),
    "a tiny rate": _places(MIN_RATE),
}


def rng(seed: int):
    return as_randomness(np.random.default_rng(seed))


def chance(law: BinnedLaw, place: int) -> tuple[Fraction, Fraction]:
    """Bounds of the probability that a place is kept."""
    low, high = exp_bounds(-law.unit * place**law.power, bits=500)
    factor = law.scale / law.weights[place >> law.shift]
    return low * factor, high * factor


@pytest.fixture(params=LAWS)
def law(request: pytest.FixtureRequest) -> BinnedLaw:
    return LAWS[request.param]


def test_bins_lie_above_the_law(law: BinnedLaw) -> None:
    weights = law.weights
    assert sum(weights) == WORD and len(weights) == BIN_COUNT and min(weights) >= 1
    for h in range(BIN_COUNT):
        _, high = exp_bounds(-min(law.unit * (h << law.shift) ** law.power, Fraction(150)), bits=300)
        assert law.scale * high <= weights[h] * (1 + Fraction(1, 1 << 100))


@pytest.mark.guarantee("labeldp.sampling:BinnedLaw", "law")
@pytest.mark.guarantee("labeldp.sampling:wide_gaussian", "law")
@pytest.mark.guarantee("labeldp.sampling:wide_laplace", "law")
def test_each_integer_is_drawn_with_its_exact_probability(law: BinnedLaw) -> None:
    """A word at the bound is decided by further words."""
    places = [0, 1, law.unit.denominator % 7, (BIN_COUNT << law.shift) // 20, (BIN_COUNT << law.shift) // 5]
    for place in sorted(set(places)):
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


def coin(law: BinnedLaw, place: int, word: int, *further: int) -> bool:
    """Is the place kept?"""
    words, bins = np.array([word], dtype=np.uint64), np.array([place >> law.shift])
    return bool(law._kept(words, bins, np.array([place]), ChosenWords(further))[0])


def test_doubles_decide_as_integers_do(law: BinnedLaw, monkeypatch: pytest.MonkeyPatch) -> None:
    source = np.random.default_rng(3)
    places = source.integers(0, BIN_COUNT << law.shift, size=200)
    bins, words = places >> law.shift, source.integers(0, WORD, size=200, dtype=np.uint64)
    with_doubles = law._kept(words, bins, places, ChosenWords([]))
    monkeypatch.setattr(module, "COIN_MARGIN", 2.0)
    in_integers = law._kept(words, bins, places, ChosenWords([]))
    assert (with_doubles == in_integers).all()


def test_the_first_word_chooses_the_bin_and_the_second_the_place() -> None:
    law = LAWS["half normal"]
    words = [0, WORD - 1, 0]
    places, kept, coins = law.propose(ChosenWords(words), 1)
    assert places[0] == (1 << law.shift) - 1 and kept[0] and coins[0]


def gaussian_cells(values: np.ndarray) -> np.ndarray:
    edges = WIDE_STDDEV * ndtri(np.arange(1, 200) / 200)
    return np.searchsorted(edges, values)


def test_gaussian_integers_have_their_law_and_not_another() -> None:
    source, edges = rng(7), ndtri(np.arange(201) / 200)
    law, wrong = np.full(200, 1 / 200), np.diff(ndtr(edges / 1.02))
    check_law(lambda n: gaussian_cells(wide_gaussian(source, n)), law, wrong)
    with pytest.raises(ContractViolation):
        check_law(lambda n: gaussian_cells(1.02 * wide_gaussian(source, n)), law, wrong)


def test_a_zero_is_counted_under_one_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen where the standard deviation is 8: at that of `wide_gaussian` zeros are too rare."""
    monkeypatch.setattr(module, "_half_normal", lambda: BinnedLaw(Fraction(1, 2 * 8**2), 2, 0))
    values = np.arange(-20, 21)
    law, source = np.exp(-((values / 8.0) ** 2) / 2), rng(10)
    twice = np.where(values == 0, 2, 1) * law
    check_law(lambda n: wide_gaussian(source, n).clip(-21, 21) + 21, cells(law), cells(twice))


def cells(masses: np.ndarray) -> np.ndarray:
    """The law on -20 … 20 of a normal law with standard deviation 8, and both tails."""
    tail = np.exp(-((np.arange(21, 200) / 8.0) ** 2) / 2).sum()
    whole = np.concatenate([[tail], masses, [tail]])
    return whole / whole.sum()


@pytest.mark.parametrize("rate", [Fraction(1, 10**4), Fraction(3, 10), Fraction(2)])
def test_laplace_integers_have_their_law_and_not_another(rate: Fraction) -> None:
    reach = max(int(6 / rate), 3)
    edges = np.unique(np.linspace(-reach, reach, 101).astype(np.int64))
    law, wrong = (laplace_law(float(each), edges) for each in (rate, rate * Fraction(102, 100)))
    source = rng(8)
    check_law(lambda n: np.searchsorted(edges, wide_laplace(source, n, rate)), law, wrong)


def test_laplace_integers_go_beyond_one_stretch() -> None:
    rate = Fraction(1, 50)
    assert BIN_COUNT << _places(rate).shift == 1024
    beyond = (np.abs(wide_laplace(rng(9), 10**6, Fraction(1, 100))) >= 1024).mean()
    assert beyond == pytest.approx(np.exp(-10.24), rel=0.5)


def test_noise_beyond_64_bits_is_refused() -> None:
    with pytest.raises(InputError, match="epsilon is too small for integer noise of 64 bits"):
        wide_laplace(rng(0), 1, MIN_RATE / 2)


@pytest.mark.parametrize("count", [0, 1, 5, 100_000])
def test_as_many_as_asked_for(count: int) -> None:
    assert wide_gaussian(rng(1), count).shape == wide_laplace(rng(1), count, Fraction(1, 3)).shape == (count,)


def test_keyed_randomness_by_records_is_refused() -> None:
    """It repeats its words: two draws of a thousand integers under one key were the same ones."""
    key = KeyedRandomness(b"k" * 32)
    for source_ in (key, key.bind(b"a release")):
        with pytest.raises(InputError, match="keyed randomness would repeat its words"):
            wide_gaussian(source_, 1000)
        with pytest.raises(InputError, match="keyed randomness would repeat its words"):
            wide_laplace(source_, 1000, Fraction(1, 3))
    stream = key.stream()
    assert not np.array_equal(wide_gaussian(stream, 1000), wide_gaussian(stream, 1000))


def test_words_are_asked_for_in_blocks_that_may_not_change() -> None:
    """A release is drawn again from its key only if as many words are asked for at a time."""
    asked = []

    def draw(count: int) -> np.ndarray:
        asked.append(count)
        return np.zeros(count * 9 // 10, dtype=np.int64)

    assert len(_filled(draw, 1000)) == 1000
    assert len(_filled(draw, BLOCK + 1)) == BLOCK + 1
    first = BLOCK * 9 // 10
    assert asked == [1023, 89, BLOCK, BLOCK + 1 - first + (BLOCK + 1 - first) // 64 + 8, *asked[4:]]

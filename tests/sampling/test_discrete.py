"""Exact coins and exact integer noise."""

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from labeldp.mechanisms import Classes, ExponentialMechanism, LaplaceHistogram, PermuteAndFlip
from labeldp.privacy import (
    WORD,
    InputError,
    KeyedRandomness,
    SystemRandomness,
    as_randomness,
    as_successive,
)
from labeldp.privacy.randomness import SimulatedRandomness
from labeldp.sampling import (
    MIN_RATE,
    ExponentialWeights,
    KeepCoin,
    WordStream,
    discrete_laplace,
    draw_index,
    fresh_words,
    geometric,
    keep_coins,
    uniform,
)
from labeldp.sampling.discrete import (
    COIN_MARGIN,
    EDGE_ERROR,
    FEW,
    Bounds,
    _bounds_of_coin,
    _bounds_of_digit,
    _digit,
    _digit_exponents,
    _draw_exactly,
    _settled,
)
from labeldp.testing import ContractViolation
from labeldp.testing.laws import check_law
from mechanisms.examples import public
from online.lazy import Chosen, by_rejection, cut, decay
from sampling.words import ChosenWords

FALSE_ALARM = 1e-12


def chosen(*words: int) -> WordStream:
    """A stream of one cell that gives these words."""
    return WordStream(ChosenWords(words), np.zeros(1, dtype=np.uint64))


def simulated(cells: int, seed: int) -> WordStream:
    """A stream of many cells."""
    return WordStream(SimulatedRandomness(np.random.default_rng(seed)), np.zeros(cells, dtype=np.uint64))


def flip(kind: Callable[[Fraction], Bounds], exponent: Fraction, *words: int) -> tuple[bool, int]:
    """One coin, and how many of the words it left."""
    source = ChosenWords(words)
    stream = WordStream(source, np.zeros(1, dtype=np.uint64))
    if kind is _bounds_of_digit:
        head = bool(_digit(stream, np.zeros(1, dtype=np.intp), exponent)[0])
    else:
        first = int(stream.words(np.zeros(1, dtype=np.intp))[0])
        head = _settled(first, kind(exponent), stream, np.zeros(1, dtype=np.intp))
    return head, len(source.rest)


def chance_of(kind: Callable[[Fraction], Bounds], exponent: Fraction) -> Fraction:
    """The probability of a 1, to many bits."""
    return decay(exponent) / (1 + decay(exponent)) if kind is _bounds_of_digit else decay(exponent)


KINDS = [_bounds_of_digit, _bounds_of_coin]


@pytest.mark.parametrize("exponent", ["1e-9", "0.007", "1", "30", "44"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_word_at_the_bound_is_decided_by_further_words(kind: Callable[[Fraction], Bounds], exponent: str) -> None:
    rate = Fraction(exponent)
    at, following, third = cut(chance_of(kind, rate), 192)
    for words, head, left in [
        ([at - 1, 5], True, 1),
        ([at + 1, 5], False, 1),
        ([at, following - 1, 5], True, 1),
        ([at, following + 1, 5], False, 1),
        ([at, following, third - 1, 5], True, 1),
        ([at, following, third + 1, 5], False, 1),
    ]:
        assert flip(kind, rate, *words) == (head, left), words


@pytest.mark.parametrize("kind", KINDS)
def test_a_coin_below_all_words_is_not_zero(kind: Callable[[Fraction], Bounds]) -> None:
    assert flip(kind, Fraction(10**6), 1) == (False, 0), "a probability below 2^-64"
    assert flip(kind, Fraction(50), 0, 0) == (True, 0), "but it is not zero"
    assert flip(kind, Fraction(50), 0, WORD - 1) == (False, 0)


@pytest.mark.parametrize("exponent", ["1e-18", "0.7", "44.3", "44.4", "63.9", "64.1", "100000"])
@pytest.mark.parametrize("bits", [64, 128])
@pytest.mark.parametrize("kind", KINDS)
def test_the_bounds_of_a_coin_enclose_it(kind: Callable[[Fraction], Bounds], exponent: str, bits: int) -> None:
    low, high = kind(Fraction(exponent))(bits)
    assert 0 <= low <= high <= low + 1
    if Fraction(exponent) < 200:
        exact = chance_of(kind, Fraction(exponent)) * 2**bits
        assert low <= exact <= high + 1


@pytest.mark.parametrize("exponent", ["0.1", "1.5", "5"])
def test_digits_have_their_probability(exponent: str) -> None:
    count = 200_000
    ones = int(_digit(simulated(count, 3), np.arange(count), Fraction(exponent)).sum())
    chance = 1 / (1 + math.exp(float(exponent)))
    assert (ones - count * chance) ** 2 / (count * chance * (1 - chance)) < chi2.isf(FALSE_ALARM, 1)


@pytest.mark.parametrize("rate", ["2", "0.3", "1e-9"])
def test_every_digit_has_a_word_and_all_above_have_one(rate: str) -> None:
    """The digits of e^-rate x are independent: each alone, all together, and what lies above them."""
    below = [0] * 40  # a one for each digit
    digits = sum(float(rate) * 2**place < 45 for place in range(40))
    for place in range(digits):
        words = [WORD - 1] * digits + [1]
        words[place] = 0
        assert geometric(chosen(*words), np.zeros(1, dtype=np.intp), Fraction(rate)).tolist() == [1 << place]
    source = [*[1] * (digits - 5), *below[:5], 1]
    assert all(e < 45 for e in (float(rate) * 2**place for place in range(digits)))
    whole = geometric(chosen(*source), np.zeros(1, dtype=np.intp), Fraction(rate))
    assert whole.tolist() == [(1 << digits) - 1]
    above = geometric(chosen(*[WORD - 1] * digits, 0, 0, 0, 0, 0, WORD - 1), np.zeros(1, dtype=np.intp), Fraction(rate))
    assert above[0] % (1 << digits) == 0 and above[0] > 0, "words of zeros are the rarest of all"
    many = geometric(simulated(3, 1), np.arange(3), Fraction(rate))
    assert many.shape == (3,)


@pytest.mark.guarantee("labeldp.sampling:geometric", "law")
@pytest.mark.guarantee("labeldp.sampling:discrete_laplace", "law")
@pytest.mark.parametrize("rate", ["0.2", "1", "3.7"])
def test_each_integer_has_exactly_its_probability(rate: str) -> None:
    """The product of its digits' probabilities, in exact bounds, is that of the law."""
    ratio = decay(Fraction(rate))
    exponents = _digit_exponents(Fraction(rate))
    ones = [chance_of(_bounds_of_digit, exponent) for exponent in exponents[:-1]]
    none_above = 1 - decay(exponents[-1])
    for number in (0, 1, 2, 5, 11):
        chance = none_above
        for place, one in enumerate(ones):
            chance *= one if number >> place & 1 else 1 - one
        law = (1 - ratio) * ratio**number
        assert abs(chance / law - 1) < Fraction(1, 1 << 900)
        negative = chance_of(_bounds_of_digit, Fraction(rate))
        both = (1 - ratio) / (1 + ratio)
        assert abs((1 - negative) * chance / (both * ratio**number) - 1) < Fraction(1, 1 << 900)
        assert abs(negative * chance / (both * ratio ** (number + 1)) - 1) < Fraction(1, 1 << 900)


def test_a_negative_integer_is_the_complement() -> None:
    for first, expected in ((0, -1 - 5), (WORD - 1, 5)):
        digits = [0, WORD - 1, 0, *[WORD - 1] * 10]
        noise = discrete_laplace(chosen(first, *digits[: len(_digit_exponents(Fraction(1))) - 1], 1), Fraction(1))
        assert noise.tolist() == [expected]


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 2**32, 2**62 - 1, 2**62])
def test_uniform_integers_throw_the_last_words_away(bound: int) -> None:
    bounds, limit = np.array([bound]), WORD // bound * bound
    assert uniform(bounds, ChosenWords([0])).tolist() == [0]
    assert uniform(bounds, ChosenWords([limit - 1])).tolist() == [bound - 1]
    if limit < WORD:
        assert uniform(bounds, ChosenWords([limit, WORD - 1, 5 * bound % limit + 1])).tolist() == [1 % bound]


def test_uniform_integers_are_uniform_below_their_own_bounds() -> None:
    count = 120_000
    drawn = uniform(np.tile([12, 5], count), as_randomness(np.random.default_rng(1))).reshape(-1, 2)
    for numbers, bound in zip(drawn.T, (12, 5), strict=True):
        counts = np.bincount(numbers, minlength=bound)
        assert len(counts) == bound
        assert np.sum((counts - count / bound) ** 2 / (count / bound)) < chi2.isf(FALSE_ALARM, bound - 1)


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
        for one in (float(np.exp(value)), math.exp(value)):
            assert abs(Fraction(one) / exact - 1) < Fraction(1, 1 << 50)


@pytest.mark.guarantee("labeldp.sampling:keep_coins", "coin")
@pytest.mark.guarantee("labeldp.sampling:KeepCoin", "coin")
@pytest.mark.parametrize("keep", [KEEP, Fraction(1), Fraction(1, 1 << 32)])
@pytest.mark.parametrize("cost", [0, 1, 255, 65_535, 2_000_000])
def test_a_coin_at_its_threshold(cost: int, keep: Fraction) -> None:
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


@pytest.mark.parametrize("keep", [KEEP, Fraction(1), Fraction(1, 1 << 32), Fraction(0)])
@pytest.mark.parametrize("cost", [0, 1, 255, 65_535, 10**8])
def test_one_coin_is_one_of_many(cost: int, keep: Fraction) -> None:
    """At its threshold, near it, and at the words that decide whatever the cost is."""
    coin = KeepCoin(UNIT, keep)
    [first] = cut(keep * decay(UNIT * cost), 64) if keep * decay(UNIT * cost) < 1 else [WORD - 1]
    edges = {first, coin.heads_below(cost), coin.heads_below(10**8), coin.tails_from, 0, WORD - 1}
    for word in {edge + by for edge in edges for by in (-(1 << 26), -2, -1, 0, 1, 2, 1 << 26)}:
        if 0 <= word < WORD:
            heads = coin.heads(word, cost, Chosen([WORD // 2, 5]))
            assert [heads] == keep_coins(np.array([cost]), UNIT, keep, rng=Chosen([word, WORD // 2, 5])).tolist()
            assert heads or word >= coin.heads_below(cost), "a word below is heads"
            assert not (heads and word >= coin.tails_from), "a word from there on is tails"


def test_a_coin_of_any_cost_is_decided_by_most_words() -> None:
    coin = KeepCoin(UNIT, KEEP)
    below, chance = coin.heads_below(255), KEEP * decay(255 * UNIT) * WORD
    assert below < chance < below * (1 + 2**-38) and coin.tails_from - 1 < KEEP * WORD <= coin.tails_from
    for cost in (0, 7, 254, 255):
        assert coin.heads(below - 1, cost, Chosen([])) and not coin.heads(
            coin.tails_from + WORD // 2**30, cost, Chosen([])
        )


@pytest.mark.guarantee("labeldp.sampling:draw_index", "inverse")
@pytest.mark.guarantee("labeldp.sampling:ExponentialWeights", "inverse")
@pytest.mark.parametrize("totals", [TOTALS, np.zeros(4, dtype=np.int64), np.array([7]), np.array([0, 10**9, 1])])
def test_a_draw_at_every_edge(totals: np.ndarray) -> None:
    steps = chances(totals, UNIT)
    propose = [[0, 0, 1], [WORD - 1, 5, 5]]
    for edge in steps[:-1]:
        first, second, third = cut(edge, 192)
        propose += [[first, second, third + 1], [first, second, third - 1], [first - 1, 0, 0], [first + 1, 0, 0]]
    for words in (words for words in propose if 0 <= min(words) <= max(words) < WORD):
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
    drawn = draw_index(totals, UNIT, rng=Chosen([word, 1]))
    assert drawn == _draw_exactly(gaps, UNIT, word, Chosen([1, 1]))
    many = np.array([word, word // 2, WORD - 1 - word], dtype=np.uint64)
    source = Chosen([1] * 6)
    together = ExponentialWeights(UNIT).indices(np.tile(totals, (3, 1)), many, source)
    assert together.tolist() == [ExponentialWeights(UNIT).index(totals, int(each), Chosen([1, 1])) for each in many]
    assert together[0] == drawn


@pytest.mark.parametrize("count", [FEW, FEW + 1, 60, 500])
def test_many_indices_are_drawn_as_few_are(count: int) -> None:
    """From `FEW` on the sums are an array's."""
    rng = np.random.default_rng(count)
    totals = 10**12 + rng.integers(0, 300_000, count)
    words = rng.integers(0, WORD, 40, dtype=np.uint64).tolist()
    exact = [_draw_exactly(totals - totals.min(), UNIT, word, Chosen([1, 1])) for word in words]
    assert [draw_index(totals, UNIT, rng=Chosen([word, 1])) for word in words] == exact
    assert len(set(exact)) > 8


@pytest.mark.parametrize("totals", [TOTALS, np.zeros(4, dtype=np.int64), np.array([0, 10**9, 1])])
def test_draws_from_rows_at_every_edge(totals: np.ndarray) -> None:
    words = []
    for edge in chances(totals, UNIT)[:-1]:
        [first] = cut(edge, 64)
        words += [word for word in (first - 1, first, first + 1) if 0 <= word < WORD]
    for word in words:
        rest = [WORD // 3, 1]
        [one] = ExponentialWeights(UNIT).indices(totals[None], np.array([word], dtype=np.uint64), Chosen(rest))
        assert one == draw_index(totals, UNIT, rng=Chosen([word, *rest]))


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

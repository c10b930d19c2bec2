"""What a clock could see of one draw: how many words it takes and how many calls it makes, against what is drawn."""

import gc
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2_contingency

from labeldp.mechanisms import ExponentialMechanism, PermuteAndFlip
from labeldp.mechanisms.histograms import select
from labeldp.privacy import KeyedRandomness, Randomness, RandomnessKind
from labeldp.sampling import RecordStream, WordStream, discrete_gaussian, discrete_laplace, geometric

RATES = ["1e-9", "0.001", "0.3", "1", "7", "100"]
STDDEVS = [1, 3, 40, 4096, 1 << 36]


class Counted(Randomness):
    """Random words, and how many were asked for."""

    kind = RandomnessKind.SIMULATION

    def __init__(self, seed: int) -> None:
        self.generator, self.asked = np.random.default_rng(seed), []

    def fill(self, words: NDArray[np.uint64], ids: object = None, lane: Any = 0) -> None:
        """Fill the words."""
        self.asked.append(len(words))
        words[:] = self.generator.integers(0, 1 << 64, size=len(words), dtype=np.uint64)


def work(draw: Callable[[Counted], Any], source: Counted) -> tuple[Any, tuple[Any, ...]]:
    """What is drawn, and the words and the calls of Python and of C that it took."""
    source.asked, calls = [], [0]

    def count(*_: object) -> None:
        calls[0] += 1

    gc.disable()  # the callbacks of a collection would be counted
    sys.setprofile(count)
    try:
        drawn = draw(source)
    finally:
        sys.setprofile(None)
        gc.enable()
    return drawn, (*source.asked, calls[0])


def one(source: Randomness) -> WordStream:
    return WordStream(source, np.zeros(1, dtype=np.uint64))


Draw = Callable[[Counted], int]


def laplace(rate: str) -> Draw:
    return lambda source: int(discrete_laplace(one(source), Fraction(rate))[0])


def places(rate: str) -> Draw:
    return lambda source: int(geometric(one(source), np.arange(1), Fraction(rate))[0])


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("kind", [laplace, places])
def test_every_integer_takes_the_same_words_and_calls(kind: Callable[[str], Draw], rate: str) -> None:
    draw, source = kind(rate), Counted(1)
    draw(source)  # what is kept for later draws
    drawn, works = zip(*(work(draw, source) for _ in range(300)), strict=True)
    assert len(set(works)) == 1
    assert len(set(drawn)) > 2 or float(rate) > 5


@pytest.mark.parametrize("stddev", STDDEVS)
@pytest.mark.parametrize("stream", [one, lambda source: RecordStream(source, np.zeros(1, dtype=np.uint64))])
def test_every_try_is_the_same_and_their_number_tells_nothing(stream: Callable[..., WordStream], stddev: int) -> None:
    source = Counted(2)

    def draw(source: Counted) -> int:
        return abs(int(discrete_gaussian(stream(source), stddev)[0]))

    draw(source)
    found = [work(draw, source) for _ in range(400)]
    calls = {works[:-1]: works[-1] for _, works in found}
    assert all(works[-1] == calls[works[:-1]] and set(works[:-1]) == {1} for _, works in found)
    assert len({divmod(len(works) - 1, 3)[1] for _, works in found}) == 1, "three words a try"
    drawn, tries = zip(*((value, len(source.asked)) for value in counted(draw, source, 4000)), strict=True)
    assert not tells(np.array(tries), np.array(drawn))


def counted(draw: Callable[[Counted], int], source: Counted, count: int) -> Any:
    """Draws, after each of which the source holds its words."""
    for _ in range(count):
        source.asked = []
        yield draw(source)


def tells(work: NDArray[Any], drawn: NDArray[Any]) -> bool:
    """Whether a number of words says anything of what was drawn, in a test of independence."""
    cuts = np.unique(np.quantile(drawn, [0.25, 0.5, 0.75, 0.95]))
    table = np.zeros((2, len(cuts) + 1))
    np.add.at(table, ((work > np.median(work)).astype(int), np.searchsorted(cuts, drawn)), 1)
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    return min(table.shape) > 1 and bool(chi2_contingency(table).pvalue < 1e-9)


def test_a_number_of_turns_that_tells_is_seen() -> None:
    """Coins until the first tails: the sampler that this package had."""
    rng, drawn, turns = np.random.default_rng(3), [], []
    for _ in range(4000):
        tries, places = 0, -1
        while places < 0 or rng.random() < 0.37:
            places, tries = places + 1, tries + 1
        drawn.append(places), turns.append(tries)
    assert tells(np.array(turns), np.array(drawn))


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("rate", ["0.01", "1"])
def test_counts_and_choices_take_the_same_words_and_calls(again: bool, rate: str) -> None:
    """One private number decides neither how often a class is tried nor what that takes."""
    works, chosen = set(), set()
    select(np.zeros((1, 4), dtype=np.int64), Fraction(rate), again=again, rng=Counted(4))
    for counts in ([50, 0, 0, 0], [9, 9, 9, 9], [10**12, 0, 7, 10**12], [1, 2, 3, 4], [0, 0, 0, 0]):
        source = Counted(4)
        for _ in range(40):
            chooser = partial(select, np.array([counts]), Fraction(rate), again=again)
            picked, took = work(lambda words, choose=chooser: choose(rng=words), source)
            works.add(took)
            chosen.add(int(picked[0]))
    assert len(works) == 1 and len(chosen) == 4


@pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlip])
def test_keyed_choices_follow_from_their_key_alone(kind: type) -> None:
    counts = np.tile([5, 4, 4], (50, 1))
    key = KeyedRandomness(bytes(32)).bind(b"a table")
    first, second = (select(counts, Fraction(1), again=kind is ExponentialMechanism, rng=key) for _ in range(2))
    assert first.tolist() == second.tolist() and len(set(first.tolist())) == 3

"""Intervals that hold at all times together."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import labeldp as ldp
from inference.simulated import SURE, held, released, response
from labeldp import inference
from labeldp.inference.sequences import bet_sequence, look_times, mixture_ends
from labeldp.mechanisms import DiscreteLaplace, Interval, LocalHashing, UnbiasedNumbers
from labeldp.privacy import InputError

RNG = np.random.default_rng(31)
N = 6000
TREATED = RNG.random(N) < 0.5
LABELS = (RNG.random(N) < np.where(TREATED, 0.5, 0.2)).astype(int)
NUMBERS = np.round(np.clip(RNG.normal(40, 15, N) + 20 * TREATED, 0, 100))
DOMAIN = Interval(0, 100, grid=101)


def checked(estimate: Any, truth: float) -> None:
    """It holds the truth at all times, narrows, and promises all of it together."""
    assert held(estimate, truth) and estimate.guarantee == "anytime" and estimate.simultaneous
    assert np.all(np.diff(estimate.low) >= 0) and np.all(np.diff(estimate.high) <= 0)
    assert estimate.high[-1] - estimate.low[-1] < 0.9 * (estimate.high[0] - estimate.low[0])


def test_a_share_and_an_effect() -> None:
    release = released(LABELS, response(2, 2.0))
    share = inference.monitor(release, level=SURE)
    checked(share, 0.35)
    assert share.axes[0][0] == "records" and share.axes[0][1][-1] == str(N)
    effect = inference.monitor(release, TREATED, level=SURE)
    checked(effect, 0.3)
    assert effect.axes[0][0] == "pairs" and "one record of each arm" not in effect.quantity
    fixed = inference.mean(release, outcome=1)
    last = inference.monitor(release).high[-1] - inference.monitor(release).low[-1]
    assert fixed.high - fixed.low < last < 4 * (fixed.high - fixed.low)


@pytest.mark.parametrize(("kind", "epsilon"), [(UnbiasedNumbers, 0.5), (DiscreteLaplace, 4.0)])
def test_numbers(kind: Any, epsilon: float) -> None:
    release = released(NUMBERS, kind(domain=DOMAIN, epsilon=epsilon))
    checked(inference.monitor(release, level=SURE), NUMBERS.mean())
    assert held(inference.monitor(release, TREATED, level=SURE), 20)


def test_sets_of_classes() -> None:
    labels = np.random.default_rng(2).choice(4, N, p=[0.1, 0.2, 0.3, 0.4])
    release = released(labels, LocalHashing(domain=ldp.Classes(4), epsilon=2.0))
    checked(inference.monitor(release, outcome=3, level=SURE), 0.4)


def test_looks_are_numbers_of_records_and_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    assert look_times(1000, 5).tolist() == [1, 6, 32, 178, 1000]
    assert look_times(3, 200).tolist() == [1, 2, 3]
    x = np.random.default_rng(0).random(500)
    whole = bet_sequence(x, look_times(500, 30), 0.95)
    monkeypatch.setattr("labeldp.inference.sequences.CELLS", 401 * 7)
    parts = bet_sequence(x, look_times(500, 30), 0.95)
    assert np.array_equal(whole, parts)
    assert whole[0][-1] < 0.5 < whole[1][-1] and whole[1][-1] - whole[0][-1] < 0.25


def test_the_mixture_is_one_on_average() -> None:
    """The e-process averages to 1 under the rate that it tests, so that ends are where it reaches 20."""
    low, high = mixture_ends(np.arange(41), np.full(41, 40), 0.95)
    for rate in (0.05, 0.3, 0.5):
        missed = (rate < low) | (rate > high)
        assert binom.pmf(np.arange(41), 40, rate)[missed].sum() <= 0.05
    assert low[0] == 0 and high[40] == 1 and np.all(low <= np.arange(41) / 40) and np.all(high >= np.arange(41) / 40)


def test_users_are_refused() -> None:
    with pytest.raises(InputError, match="users cannot have several records each: bets need independent answers"):
        inference.monitor(released(LABELS, response()), users=np.arange(N) // 2)
    with pytest.raises(InputError, match="looks must be an integer"):
        inference.monitor(released(LABELS, response()), looks=0)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_all_looks_hold_together(epsilon: float) -> None:
    """Of 3,000 sequences; a false alarm of a coverage of 95 % at all times has a probability below 1e-6."""
    rng, runs, records = np.random.default_rng(0), 3000, 1000
    keep = response(2, epsilon).keep_probability
    answers = rng.random((runs, records)) < 1 - keep + (2 * keep - 1) * 0.05
    times = look_times(records, 100)
    hits = np.cumsum(answers, axis=1)[:, times - 1]
    low, high = mixture_ends(hits, np.broadcast_to(times, hits.shape), 0.95)
    rate = 1 - keep + (2 * keep - 1) * 0.05
    assert ((low <= rate) & (rate <= high)).all(axis=1).sum() >= binom.ppf(1e-6, runs, 0.95)
    covered = 0
    for one in answers[:400]:
        low, high = bet_sequence(one.astype(float), times, 0.95)
        covered += bool(((low <= rate) & (rate <= high)).all())
    assert covered >= binom.ppf(1e-6, 400, 0.95)

"""Questions that one release of noisy sums answers: quantiles, odds ratios and comparisons; what is refused."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

import labeldp as ldp
from inference.simulated import held, released, response
from labeldp import inference
from labeldp.inference.intervals import more_units
from labeldp.inference.released import NoisySums
from labeldp.inference.sums import (
    COUNT_SHARE,
    RANK_SHARE,
    SQUARE_SHARE,
    area_ends,
    area_rows,
    quantile_of_sums,
    second_class_sums,
)
from labeldp.mechanisms import Interval
from labeldp.privacy import InputError, NotInvertibleError, Release

RNG = np.random.default_rng(31)
N = 8_000
SURE = 1 - 1e-12
"""A level at which a seeded test of one release has a false alarm with this probability at most."""

EXPOSED = RNG.random(N) < 0.4
LABELS = (RNG.random(N) < np.where(EXPOSED, 0.5, 0.2)).astype(int)
LOT = ldp.Public(EXPOSED, why="in the register")
ONE = ldp.Public(EXPOSED.astype(int), why="made up")
OTHER = ldp.Public(np.zeros(N, dtype=int), why="made up")


def test_quantiles_come_from_noisy_counts() -> None:
    ages = np.minimum(RNG.poisson(4, N), 9)
    groups = np.repeat(["a", "b"], N // 2)
    plan = inference.plan_sums("mean", ldp.Classes(10), 1.0, groups=ldp.Public(groups, why="in the register"))
    release = released(ages, plan)
    for at in (0.1, 0.5, 0.9):
        estimate = inference.quantile(release, at=at, groups=groups, level=SURE)
        truth = [np.quantile(ages[groups == name], at, method="inverted_cdf") for name in ("a", "b")]
        assert held(estimate, truth) and (estimate.high - estimate.low <= 1).all()
    two = inference.quantile(released(LABELS, inference.plan_sums("mean", ldp.Classes(2), 1.0, records=N)))
    assert two.value == two.low == two.high == 0


def test_cumulated_counts_take_the_side_with_less_noise() -> None:
    """Counts without noise in all classes but the last one: the noise of that one is in no cumulated share before."""
    plan = inference.plan_sums("mean", ldp.Classes(4), 1.0, records=100)
    counts = np.array([[10, 30, 30, 30 + 50]])
    release = Release(counts, released(np.zeros(4, dtype=int), response(4)).certificate, plan)
    _, _, below, low, high = quantile_of_sums(release, 0.5, None, None, 0.95, True)
    assert below.tolist() == [[0.1, 0.4, 0.2, 1.0]]
    share = np.exp(-float(plan.rate))
    noise = 1.96**2 * 2 * share / (1 - share) ** 2 / 100**2
    expected = np.sqrt(1.96**2 * 0.25 / 100 + noise * np.array([1, 2, 1, 0]))
    assert (high - low)[0] / 2 == pytest.approx(expected, rel=1e-3)


def test_a_mean_of_sums_takes_the_largest_variance_that_the_range_admits() -> None:
    """By hand: 100 numbers in [0, 10] of mean 2, where the noise has a standard deviation of its own."""
    plan = inference.plan_sums("mean", Interval(0, 10, grid=11), 1.0, records=100)
    release = Release(np.array([200]), released(np.zeros(4, dtype=int), response(2)).certificate, plan)
    share = np.exp(-float(plan.rate))
    noise = 2 * share / (1 - share) ** 2 / 100**2
    mean = 2 + np.sqrt(noise)
    variance = mean * (10 - mean) / 100 + noise
    estimate = inference.mean(release)
    # with more numbers at the end of the range: as many as let an end be that of Poisson's law where none occurred
    more = brentq(lambda count: count + 1.959964 * np.sqrt(count) + np.log(0.025), 0, 9)
    ends = [
        2
        + more * (end - 2) / (100 + more)
        + sign * 1.959964 * np.sqrt(variance + more * ((end - 2) / (100 + more)) ** 2)
        for sign, end in ((-1, 0), (1, 10))
    ]
    assert (estimate.low, estimate.value, estimate.high) == pytest.approx((ends[0], 2, ends[1]), rel=1e-6)
    assert estimate.n_effective is None, "the sum of numbers does not tell their variance"


def test_noise_of_the_sums_of_the_second_class_is_as_large_as_it_is_said_to_be() -> None:
    """The variance of 300 draws, whose ratio to the truth has a standard error of about 0.13."""
    plan = inference.plan_sums("auc", ldp.Classes(2), 1.0, scores=ldp.Public(np.arange(20.0), why="made up"))
    labels, rng = (np.arange(20) > 12).astype(np.uint8), np.random.default_rng(2)
    certificate = released(labels, plan).certificate
    draws, squares = zip(
        *(
            second_class_sums(NoisySums.of(Release(plan.randomize(labels, rng=rng), certificate, plan)))
            for _ in range(300)
        ),
        strict=True,
    )
    assert np.mean(draws, axis=0) == pytest.approx(labels @ area_rows(np.arange(20.0)), abs=0.5)
    assert np.var(draws, axis=0) / squares[0] == pytest.approx([1, 1, 1], abs=0.45)


def test_an_area_of_sums_is_tested_with_the_largest_variance_of_each_area() -> None:
    """By hand, at the ends: noise of the count and of the rank sum, and the sample as DeLong says, at its largest."""
    records, positives, ranked, squared, square = 1000, 80.0, 18.0, 6.0, 30.0
    shares = (COUNT_SHARE, RANK_SHARE, 4 * SQUARE_SHARE)
    totals = np.array([positives, ranked, squared]) * shares
    every = records / 12
    value, low, high, *_ = (float(number) for number in area_ends(totals, every * shares[2], square, records, 0.9))
    pairs = positives * (records - positives)
    assert value == pytest.approx(0.5 + records * ranked / pairs)
    count_noise, rank_noise, more = square / shares[0] ** 2, square / shares[1] ** 2, np.sqrt(square) / shares[2]
    few, others = positives - np.sqrt(count_noise), records - positives - np.sqrt(count_noise)

    def excess(area: float) -> float:
        of_positives = ((squared + more) / few - (ranked / few) ** 2) * (records / others) ** 2
        of_others = ((every - squared + more) / others - (ranked / others) ** 2) * (records / few) ** 2
        chance = area * (1 - area)
        variance = min(chance, of_positives) / few + min(chance, of_others) / others + chance / (few * others)
        variance += more_units(0.9) * (1 / few**2 + 1 / others**2)
        variance = variance * pairs**2 + records**2 * rank_noise
        variance += ((area - 0.5) * (records - 2 * positives)) ** 2 * count_noise
        return float(abs(records * ranked - (area - 0.5) * pairs) - 1.644854 * np.sqrt(variance))

    assert excess(low) <= 0 < excess(low - 0.0005) and excess(high) <= 0 < excess(high + 0.0005)
    several = np.column_stack([[0.1, 0, 0], totals])
    unknown = area_ends(several, every * shares[2], square, records, 0.9)
    assert np.isnan(unknown[0][0]) and (unknown[1][0], unknown[2][0]) == (0, 1)
    assert (unknown[1][1], unknown[2][1]) == (low, high)


def test_an_odds_ratio_of_two_sums_is_narrower_than_of_answers() -> None:
    release = released(LABELS, inference.plan_sums("difference", ldp.Classes(2), 1.0, treated=LOT))
    estimate = inference.odds_ratio(release, EXPOSED, level=SURE)
    assert held(estimate, 4.0)
    assert inference.odds_ratio(release, EXPOSED, outcome=0).value == pytest.approx(1 / estimate.value)
    answers = inference.odds_ratio(released(LABELS, response(2, 1.0)), EXPOSED)
    summed = inference.odds_ratio(release, EXPOSED)
    assert summed.high / summed.low < answers.high / answers.low


def test_a_comparison_of_two_sums() -> None:
    plan = inference.plan_sums("compare", ldp.Classes(2), 1.0, predictions=ONE, rival=OTHER)
    release = released(LABELS, plan)
    truth = (ONE.value == LABELS).mean() - (OTHER.value == LABELS).mean()
    estimate = inference.compare(release, ONE, OTHER, level=SURE)
    assert held(estimate, truth) and estimate.high - estimate.low < 0.15 and estimate.noise_share < 0.01
    assert abs(estimate.value - truth) < 40 / N
    assert inference.compare(release, OTHER, ONE).value == pytest.approx(-estimate.value)
    with pytest.raises(InputError, match="must be the columns that plan_sums was given, such as groups"):
        inference.compare(release, ldp.Public(np.roll(ONE.value, 1), why="others"), ONE)
    same = released(LABELS, inference.plan_sums("compare", ldp.Classes(2), 1.0, predictions=ONE, rival=ONE))
    assert inference.compare(same, ONE, ONE).value == 0


@pytest.mark.slow
def test_a_comparison_of_sums_is_covered() -> None:
    """Of 2,000 runs, a coverage of 93 % is refused with a probability below 1e-12."""
    runs, records, covered = 2000, 400, 0
    rng = np.random.default_rng(5)
    one = ldp.Public((np.arange(records) < 60).astype(int), why="made up")
    other = ldp.Public((np.arange(records) >= 360).astype(int), why="made up")
    plan = inference.plan_sums("compare", ldp.Classes(2), 1.0, predictions=one, rival=other)
    chance = np.where(one.value == 1, 0.3, 0.1)
    truth = (60 * (2 * 0.3 - 1) - 40 * (2 * 0.1 - 1)) / records
    certificate = released(np.zeros(records, dtype=int), plan).certificate
    for _ in range(runs):
        labels = (rng.random(records) < chance).astype(np.uint8)
        release = Release(plan.randomize(labels, rng=rng), certificate, plan)
        covered += held(inference.compare(release, one, other), truth)
    assert covered >= binom.ppf(1e-12, runs, 0.93)


def test_users_and_other_sums_are_refused() -> None:
    numbers = released(np.zeros(20), inference.plan_sums("mean", Interval(0, 9, grid=10), 1.0, records=20))
    with pytest.raises(NotInvertibleError, match="sums of numbers have no quantiles: declare classes in their order"):
        inference.quantile(numbers)
    with pytest.raises(InputError, match="release must be of classes"):
        inference.odds_ratio(numbers, np.arange(20) < 9)
    sums = released(LABELS, inference.plan_sums("mean", ldp.Classes(2), 1.0, records=N))
    calls: list[Any] = [
        lambda **more: inference.quantile(sums, **more),
        lambda **more: inference.odds_ratio(sums, EXPOSED, **more),
        lambda **more: inference.compare(sums, ONE, OTHER, **more),
    ]
    for call in calls:
        with pytest.raises(InputError, match="users must be left out"):
            call(users=np.arange(N))
    with pytest.raises(InputError, match="rival must be Public"):
        inference.plan_sums("compare", ldp.Classes(2), 1.0, predictions=ONE)
    with pytest.raises(InputError, match="domain must be two classes"):
        inference.plan_sums("compare", ldp.Classes(3), 1.0, predictions=ONE, rival=OTHER)
    with pytest.raises(InputError, match="rival must be codes from 0 to 1"):
        inference.plan_sums("compare", ldp.Classes(2), 1.0, predictions=ONE, rival=ldp.Public([2] * N, why="no"))

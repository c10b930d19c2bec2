"""Intervals from sums: published values, and coverage added up over the law of what is released."""

import numpy as np
import pytest
from scipy import stats
from scipy.stats import binom, binomtest

from labeldp.inference import clopper_pearson, fieller
from labeldp.inference.intervals import (
    betting,
    contrasted,
    geometric_cdf,
    geometric_quantile,
    geometric_variance,
    noisy_binomial,
    ratio_recovered,
    recovered,
    sidak,
)


def test_a_difference_is_as_published() -> None:
    """Newcombe (1998), method 10, the first example: 56 of 70 less 48 of 80, with Wilson's intervals."""
    shares = []
    for hits, trials in ((56, 70), (48, 80)):
        ends = binomtest(hits, trials).proportion_ci(0.95, "wilson")
        shares.append((np.array(hits / trials), np.array(ends.low), np.array(ends.high)))
    assert np.round(recovered(*shares), 4).tolist() == [0.0524, 0.3339]


def test_a_difference_without_a_value_has_the_ends_of_both_intervals() -> None:
    nothing, known = (
        (np.array([np.nan]), np.array([0.1]), np.array([1.0])),
        tuple(np.array([x]) for x in (0.4, 0.3, 0.6)),
    )
    assert [float(end[0]) for end in recovered(nothing, known)] == pytest.approx([-0.5, 0.7])


def test_clopper_pearson_is_as_published() -> None:
    low, high = clopper_pearson([0, 1, 10], [10, 10, 10], 0.95)
    assert np.round(low, 4).tolist() == [0, 0.0025, 0.6915]
    assert np.round(high, 4).tolist() == [0.3085, 0.445, 1]
    assert [float(end) for end in clopper_pearson(0, 0, 0.95)] == [0, 1]
    for hits, trials in [(0, 7), (3, 7), (7, 7)]:
        expected = binomtest(hits, trials).proportion_ci(0.9, "exact")
        np.testing.assert_allclose(clopper_pearson(hits, trials, 0.9), [expected.low, expected.high])


def test_fieller_holds_the_ratios_that_a_test_does_not_refuse() -> None:
    means, covariance = np.array([0.3, 0.5]), np.array([[0.01, 0.004], [0.004, 0.02]])
    low, high = fieller(means, covariance, 0.9)
    for ratio in (low, high):
        left = np.array([1, -ratio])
        assert (left @ means) ** 2 == pytest.approx(1.6448536**2 * left @ covariance @ left, rel=1e-6)
    assert low < 0.6 < high
    assert np.isinf(fieller(means, covariance * 20, 0.9)).all(), "the bottom may be 0"


def test_fieller_takes_students_quantile_and_a_variance_that_moves_with_the_ratio() -> None:
    means, covariance = np.array([0.3, 0.5]), np.array([[0.01, 0.004], [0.004, 0.02]]) / 4
    plain = fieller(means, covariance, 0.9)
    low, high = fieller(means, covariance, 0.9, freedom=5, slopes=(-0.002, 0.003))
    for ratio, slope in ((low, -0.002), (high, 0.003)):
        left = np.array([1, -ratio])
        distance = -left @ means  # by which ratio * bottom exceeds the top
        variance = left @ covariance @ left + slope * distance
        assert distance**2 == pytest.approx(stats.t(5).ppf(0.95) ** 2 * variance, rel=1e-9)
    assert low < plain[0] < plain[1] < high


def test_a_contrast_of_two_is_their_difference_and_an_endless_end_counts_only_with_a_weight() -> None:
    value, low, high = np.array([[0.4, 0.7, 0.1]]), np.array([[0.3, 0.5, -np.inf]]), np.array([[0.6, 0.8, np.inf]])
    found = contrasted(value, low, high, np.array([[-1.0, 1.0, 0.0], [0.5, 0.0, 0.5]]))
    first, second = ((value[0, place], low[0, place], high[0, place]) for place in (1, 0))
    assert (found[1][0, 0], found[2][0, 0]) == pytest.approx(tuple(map(float, recovered(first, second))))
    assert found[0][0] == pytest.approx([0.3, 0.25]) and np.isinf([found[1][0, 1], found[2][0, 1]]).all()


@pytest.mark.parametrize("correlation", [-0.7, 0.0, 0.5])
def test_a_recovered_ratio_ends_where_the_difference_may_be_0(correlation: float) -> None:
    (a, low_a, high_a), (b, low_b, high_b) = (0.3, 0.2, 0.5), (0.1, 0.05, 0.2)
    low, high = ratio_recovered((a, low_a, high_a), (b, low_b, high_b), correlation)
    for ratio, first, second in ((low, a - low_a, high_b - b), (high, high_a - a, b - low_b)):
        square = first**2 + (ratio * second) ** 2 - 2 * ratio * correlation * first * second
        assert (a - ratio * b) ** 2 == pytest.approx(square, rel=1e-9)
    assert low < 3 < high < np.inf
    assert ratio_recovered((a, low_a, high_a), (b, -0.1, high_b))[1] == np.inf
    assert ratio_recovered((a, -0.1, high_a), (b, low_b, high_b))[0] == 0
    ends = ratio_recovered((-0.2, -0.5, -0.1), (b, low_b, high_b))
    assert ends[0] == 0 and 0 < ends[1] < np.inf


def test_geometric_noise_has_the_law_it_says() -> None:
    steps = np.arange(-400, 401)
    for rate in (0.1, 1.0, 3.0):
        mass = np.exp(-rate * np.abs(steps))
        mass /= mass.sum()
        assert geometric_cdf(steps, rate) == pytest.approx(np.cumsum(mass), abs=1e-12)
        assert geometric_variance(rate) == pytest.approx((mass * steps**2).sum())
        reach = geometric_quantile(rate, 0.95)
        assert mass[np.abs(steps) <= reach].sum() >= 0.95 > mass[np.abs(steps) < reach].sum()


@pytest.mark.parametrize("rate", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("trials", [0, 1, 30])
def test_the_interval_of_a_noisy_count_holds_at_every_share(trials: int, rate: float) -> None:
    """Coverage is added up over the law of count plus noise."""
    steps = np.arange(-150, 151)
    noise = np.exp(-rate * np.abs(steps))
    noise /= noise.sum()
    totals = np.arange(-150, trials + 151)
    low, high = noisy_binomial(totals, trials, rate, 0.95)
    for share in (0.0, 0.01, 0.05, 0.3, 0.5, 1.0):
        law = np.convolve(binom.pmf(np.arange(trials + 1), trials, share), noise)
        covered = law[(low <= share) & (share <= high)].sum()
        assert covered >= 0.95 - 1e-6
    if trials == 30:
        assert np.median(high - low) < 0.99, "it is not always everything"


def test_a_wide_noise_has_a_wider_interval_than_its_cells_need() -> None:
    low, high = noisy_binomial([500], [1000], 0.001, 0.95)
    assert low[0] == 0 and high[0] == 1
    fine = noisy_binomial([50_000], [100_000], 0.01, 0.95)
    assert fine[0][0] < 0.5 < fine[1][0] and fine[1][0] - fine[0][0] < 0.02


def test_levels_of_several_intervals() -> None:
    assert sidak(0.95, 1) == 0.95
    assert sidak(0.95, 10) == pytest.approx(0.95**0.1)
    assert sidak(0.95, 1, 5) == pytest.approx(0.99)
    assert sidak(0.9, 2, 2) == pytest.approx(1 - (1 - 0.9**0.5) / 2)


@pytest.mark.slow
def test_bets_hold_for_few_skewed_numbers() -> None:
    """Of 2,000 runs; a false alarm has a probability below 1e-6."""
    rng, runs, missed = np.random.default_rng(7), 2000, 0
    for _ in range(runs):
        values = np.where(rng.random(25) < 0.1, 1.0, 0.0)
        low, high = betting(values, 0.0, 1.0, 0.95)
        missed += not low <= 0.1 <= high
    assert missed <= binom.ppf(1 - 1e-6, runs, 0.05)
    assert betting(np.full(500, 0.3), 0.0, 1.0, 0.95)[1] < 0.5

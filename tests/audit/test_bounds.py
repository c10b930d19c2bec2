"""Rates with exact confidence, and what right guesses say of epsilon, enumerated."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from labeldp.audit.bounds import best_cut, check_level, epsilon_of_rates, guess_bound, rate_above, rate_below
from labeldp.privacy import InputError


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.5, 0.9])
def test_bounds_of_rates_fail_as_rarely_as_they_say(rate: float) -> None:
    trials, miss = 60, 0.04
    hits = np.arange(trials + 1)
    mass = binom.pmf(hits, trials, rate)
    assert mass[rate_below(hits, trials, miss) > rate].sum() <= miss
    assert mass[rate_above(hits, trials, miss) < rate].sum() <= miss
    assert mass[rate_below(hits, trials, 3 * miss) > rate].sum() <= 3 * miss
    assert rate_below(0, 10, 0.1) == 0 and rate_above(10, 10, 0.1) == 1


@pytest.mark.guarantee("labeldp.audit:guess_bound", "bound")
@pytest.mark.parametrize("of", [2, 3, 10])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_for_a_dp_mechanism_the_bound_is_above_epsilon_with_probability_miss_at_most(of: int, epsilon: float) -> None:
    guesses, miss = 200, 0.05
    share = math.exp(epsilon) / (math.exp(epsilon) + of - 1)
    found = [guess_bound(right, guesses, miss=miss, of=of) for right in range(guesses + 1)]
    mass = binom.pmf(np.arange(guesses + 1), guesses, share)
    missed = mass[np.array(found) > epsilon].sum()
    assert missed <= miss
    assert missed > 0.01  # and it is no more careful than it says
    assert found == sorted(found)


def test_a_mechanism_that_fails_with_probability_delta_stays_within_the_confidence() -> None:
    """Enumerated: with probability delta for each secret the label itself is shown, else randomized response."""
    secrets, delta, epsilon, miss = 100, 0.02, 1.0, 0.05
    keep = math.exp(epsilon) / (math.exp(epsilon) + 1)
    mass = binom.pmf(np.arange(secrets + 1), secrets, delta + (1 - delta) * keep)
    plain, right = (
        np.array([guess_bound(hits, secrets, miss=miss, delta=each) for hits in range(secrets + 1)])
        for each in (0.0, delta)
    )
    assert mass[right > epsilon].sum() <= miss
    assert bool((right <= plain).all()) and bool((right < plain).any())
    # All at once: with probability delta every secret is shown.
    at_once = delta * np.eye(secrets + 1)[secrets] + (1 - delta) * binom.pmf(np.arange(secrets + 1), secrets, keep)
    assert at_once[right > epsilon].sum() <= miss


def test_epsilon_of_two_rates() -> None:
    assert epsilon_of_rates(0.8, 0.2, 0.0) == pytest.approx(math.log(4))
    assert epsilon_of_rates(0.8, 0.2, 0.4) == pytest.approx(math.log(2))
    assert epsilon_of_rates(0.1, 0.2, 0.0) == epsilon_of_rates(0.1, 0.2, 0.3) == 0.0
    assert epsilon_of_rates(0.1, 0.0, 0.0) == math.inf


def test_the_cut_is_where_the_two_laws_are_farthest_apart() -> None:
    one, two = np.repeat([0.0, 1.0, 2.0], [500, 300, 200]), np.repeat([0.0, 1.0, 2.0], [500, 490, 10])
    cut, promise = best_cut(one, two, 0.05, 0.0)
    assert cut == 2.0 and 1.5 < promise < math.log(20)


def test_counts_that_cannot_be_are_refused() -> None:
    for arguments in ((5, 4), (-1, 4), (1, 4, 2)):
        with pytest.raises(InputError, match="guesses must lie in"):
            guess_bound(arguments[0], arguments[1], secrets=arguments[2] if len(arguments) > 2 else None)
    with pytest.raises(InputError, match=r"delta must lie in \[0, 1\), and be 0"):
        guess_bound(1, 2, delta=0.1, of=3)
    for level in (0, 1, "0.9", True, math.nan):
        with pytest.raises(InputError, match="level must lie between 0 and 1"):
            check_level(level)
    assert guess_bound(0, 0) == 0.0

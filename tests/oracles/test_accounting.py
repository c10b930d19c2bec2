"""Privacy losses against implementations that this project did not write, and against exact sums."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.stats import norm

from labeldp.privacy import PrivacyLoss, gaussian_delta, normal_cdf
from slow import mostly_slow

TIGHT = 1 + 1e-9
FLOOR = 1e-290


def exact_response(epsilon: str, classes: int, times: int, at: str) -> mpmath.mpf:
    """Delta of composed randomized response: a sum over how often the loss was +epsilon, -epsilon and zero."""
    growth = mpmath.exp(mpmath.mpf(epsilon))
    keep, lie = growth / (growth + classes - 1), 1 / (growth + classes - 1)
    total = mpmath.mpf(0)
    for up in range(times + 1):
        for down in range(times + 1 - up if classes > 2 else 1):
            down = down if classes > 2 else times - up
            zero = times - up - down
            gain = 1 - mpmath.exp(mpmath.mpf(at) - (up - down) * mpmath.mpf(epsilon))
            if gain > 0:
                ways = mpmath.binomial(times, up) * mpmath.binomial(times - up, down)
                total += ways * keep**up * lie**down * ((classes - 2) * lie) ** zero * gain
    return total


@pytest.mark.guarantee("labeldp.privacy:PrivacyLoss", "never_below")
@pytest.mark.parametrize("times", mostly_slow([1, 2, 7, 30], [1, 30]))
@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "3.7"])
def test_composed_randomized_response_against_the_multinomial_sum(epsilon: str, classes: int, times: int) -> None:
    loss = PrivacyLoss.response(epsilon, classes) * times
    with mpmath.workdps(50):
        for share in ("0", "0.05", "0.31", "0.5", "0.77", "0.999"):
            at = format(float(Fraction(epsilon) * times * Fraction(share)), ".12f")
            exact, ours = exact_response(epsilon, classes, times, at), loss.delta(at)
            assert exact <= ours <= exact * TIGHT + FLOOR


@pytest.mark.parametrize("times", [10, 100, 1000])
def test_a_thousand_binary_responses_against_the_binomial_sum(times: int) -> None:
    with mpmath.workdps(50):
        epsilon = mpmath.nstr(mpmath.log((1 - mpmath.mpf("0.495")) / mpmath.mpf("0.495")), 30)
        loss = PrivacyLoss.pure(epsilon) * times
        for at in ("0", "0.1", "0.5", "2.9158"):
            exact, ours = exact_response(epsilon, 2, times, at), loss.delta(at)
            assert exact <= ours <= exact * TIGHT + FLOOR
        reached = {10: 0.1991, 100: 0.8232, 1000: 2.9158}[times]
        assert loss.epsilon(1e-6) == pytest.approx(reached, abs=6e-5)


@pytest.mark.parametrize(("epsilon", "classes", "times"), [(1.0, 2, 1), (1.0, 10, 10), (0.2, 2, 100), (2.0, 4, 5)])
def test_composition_against_dp_accounting(epsilon: float, classes: int, times: int) -> None:
    growth = math.exp(epsilon)
    keep, lie = growth / (growth + classes - 1), 1 / (growth + classes - 1)
    upper = {0: math.log(keep), 1: math.log(lie)} | {i: math.log(lie) for i in range(2, classes)}
    lower = {0: math.log(lie), 1: math.log(keep)} | {i: math.log(lie) for i in range(2, classes)}
    theirs = pld.from_two_probability_mass_functions(lower, upper, value_discretization_interval=1e-5)
    theirs = theirs.self_compose(times)
    loss = PrivacyLoss.response(epsilon, classes) * times
    for delta in (1e-9, 1e-6, 1e-3):
        ours = loss.epsilon(delta)
        assert ours <= theirs.get_epsilon_for_delta(delta) * (1 + 1e-9)
        assert ours == pytest.approx(theirs.get_epsilon_for_delta(delta), rel=0.02, abs=2e-4)


def test_mixed_composition_against_dp_accounting() -> None:
    theirs = pld.from_gaussian_mechanism(2.0, value_discretization_interval=1e-4).compose(
        pld.from_randomized_response(2 / (math.exp(0.5) + 1), 2, value_discretization_interval=1e-4)
    )
    loss = PrivacyLoss.gaussian(0.5) + PrivacyLoss.pure(0.5)
    for epsilon in (0.0, 0.5, 1.0, 2.0, 3.0):
        ours = loss.delta(epsilon)
        assert ours <= theirs.get_delta_for_epsilon(epsilon) * (1 + 1e-6) + 1e-12
        assert ours >= theirs.get_delta_for_epsilon(epsilon) * 0.99 - 1e-6


def test_incommensurable_losses_are_rounded_up() -> None:
    """Losses without a common step go to a coarser lattice: upwards, and not by much."""
    loss = PrivacyLoss.pure("0.123456789") * 3 + PrivacyLoss.pure("0.3333333333333333") * 2
    with mpmath.workdps(30):
        for at in ("0", "0.2", "0.6", "1"):
            total = mpmath.mpf(0)
            for i in range(4):
                for j in range(3):
                    value = (2 * i - 3) * mpmath.mpf("0.123456789") + (2 * j - 2) * mpmath.mpf("0.3333333333333333")
                    a, b = mpmath.mpf("0.123456789"), mpmath.mpf("0.3333333333333333")
                    mass = mpmath.binomial(3, i) * mpmath.exp(i * a) / (1 + mpmath.exp(a)) ** 3
                    mass *= mpmath.binomial(2, j) * mpmath.exp(j * b) / (1 + mpmath.exp(b)) ** 2
                    total += mass * max(mpmath.mpf(0), 1 - mpmath.exp(mpmath.mpf(at) - value))
            assert total <= loss.delta(at) <= total * mpmath.mpf("1.01") + mpmath.mpf("1e-3")


@pytest.mark.parametrize("x", [*np.linspace(-37, 37, 75), -36.999, 1e-9, -1e-9])
def test_the_normal_tail_against_fifty_digits(x: float) -> None:
    with mpmath.workdps(50):
        assert abs(mpmath.mpf(normal_cdf(float(x))) / mpmath.ncdf(mpmath.mpf(float(x))) - 1) < 1e-12


def exact_gaussian(epsilon: float, mu: float) -> mpmath.mpf:
    """The curve of Balle and Wang, with as many digits as it needs."""
    e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
    return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


@pytest.mark.guarantee("labeldp.privacy:PrivacyLoss", "never_below")
@pytest.mark.parametrize("mu", [1e-6, 1e-3, 0.1, 0.7, 1.0, 3.0, 10.0, 100.0, 1000.0])
def test_the_gaussian_curve_against_fifty_digits(mu: float) -> None:
    loss = PrivacyLoss.gaussian(mu)
    with mpmath.workdps(80):
        for z in (0.0, 0.3, 1.0, 2.0, 5.0, 10.0, 30.0, 36.0):
            epsilon = max(0.0, mu * mu / 2 + mu * (z - 1))
            exact = exact_gaussian(epsilon, mu)
            ours = loss.delta(epsilon)
            assert exact <= ours
            gained = mpmath.ncdf(mpmath.mpf(mu) / 2 - mpmath.mpf(epsilon) / mu)
            # Where e^epsilon or its partner leaves the doubles, the subtracted part is dropped: larger, never smaller.
            lost = epsilon < 700 and mu / 2 + epsilon / mu < 37
            assert ours <= (exact if lost else gained) * (1 + mpmath.mpf(1e-8)) + 4e-12 * gained + 1e-290
            assert gaussian_delta(epsilon, mu) == pytest.approx(ours, rel=1e-8, abs=1e-11)


@pytest.mark.parametrize(("mu", "times"), [(0.1, 4), (0.3, 25), (1.0, 9)])
def test_gaussians_compose_as_the_root_of_their_squares(mu: float, times: int) -> None:
    both = PrivacyLoss.gaussian(mu) * times
    for epsilon in (0.1, 1.0, 4.0):
        exact = norm.cdf(mu * times**0.5 / 2 - epsilon / (mu * times**0.5))
        exact -= math.exp(epsilon) * norm.cdf(-mu * times**0.5 / 2 - epsilon / (mu * times**0.5))
        assert both.delta(epsilon) == pytest.approx(exact, rel=1e-9, abs=1e-11)


def test_a_gaussian_and_a_response_against_a_sum() -> None:
    loss = PrivacyLoss.gaussian(0.8) + PrivacyLoss.response(1, 5) * 3
    with mpmath.workdps(40):
        growth = mpmath.e
        masses = [(1, growth / (growth + 4)), (-1, 1 / (growth + 4)), (0, 3 / (growth + 4))]
        for epsilon in (0, 1, 2, 4):
            exact = mpmath.mpf(0)
            for a, p in masses:
                for b, q in masses:
                    for c, r in masses:
                        exact += p * q * r * exact_gaussian(epsilon - a - b - c, 0.8)
            assert exact <= loss.delta(epsilon) <= exact * TIGHT + 1e-11


def test_a_discrete_loss_is_what_it_says() -> None:
    loss = PrivacyLoss.discrete(["2", "1", "-1"], ["0.5", "0.25", "0.25"]) * 2
    with mpmath.workdps(30):
        masses = {2: 0.5, 1: 0.25, -1: 0.25}
        for at in ("0", "0.5", "2.5", "3.9"):
            exact = mpmath.mpf(0)
            for a, p in masses.items():
                for b, q in masses.items():
                    exact += p * q * max(mpmath.mpf(0), 1 - mpmath.exp(mpmath.mpf(at) - a - b))
            assert exact <= loss.delta(at) <= exact * TIGHT + FLOOR
    assert loss.epsilon() == 4.0


@pytest.mark.parametrize("times", [8_000, 10_000, 100_000])
def test_many_repetitions_stay_tight(times: int) -> None:
    """Against the normal approximation of the summed loss, which is close here and no bound."""
    epsilon = 0.02
    loss = PrivacyLoss.pure(epsilon) * times
    lean = math.tanh(epsilon / 2)
    mean, spread = times * epsilon * lean, math.sqrt(times * (1 - lean**2)) * epsilon
    for at in (mean, mean + spread, mean + 3 * spread):
        # E (1 - e^(at - L))+ for a normal L.
        near = norm.sf((at - mean) / spread) - math.exp(at - mean + spread**2 / 2) * norm.sf(
            (at - mean) / spread + spread
        )
        assert loss.delta(at) == pytest.approx(near, rel=0.03)


@pytest.mark.guarantee("labeldp.privacy:PrivacyLoss", "never_below")
@pytest.mark.parametrize(("epsilon", "times"), [("0.02", 5000), ("0.5", 1500)])
def test_trimmed_tails_are_never_lost(epsilon: str, times: int) -> None:
    """What is moved to its tails is too little to see."""
    loss = PrivacyLoss.pure(epsilon) * times
    with mpmath.workdps(50):
        for share in ("0", "0.01", "0.05", "0.2", "0.5", "0.9"):
            at = format(float(Fraction(epsilon) * times * Fraction(share)), ".12f")
            exact, ours = exact_response(epsilon, 2, times, at), loss.delta(at)
            assert exact <= ours <= exact * TIGHT + 1e-35

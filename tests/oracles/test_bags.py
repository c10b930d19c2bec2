"""Curves of bags with random weights against integrals in 30 digits."""

import mpmath
import numpy as np
import pytest

from labeldp.bags.losses import Counts, HiddenWeights, NoisyBag, binomial, constant, hypergeometric

mp = mpmath.mp


def survival(t: mpmath.mpf, dimensions: int) -> mpmath.mpf:
    """P(|w| > t |v|), v standard normal in so many dimensions."""
    return mpmath.betainc(mpmath.mpf(dimensions) / 2, mpmath.mpf(1) / 2, 0, 1 / (1 + t * t), regularized=True)


def exact_delta(epsilon: float, ratio: float, noisy: int, inside: bool) -> mpmath.mpf:
    """The integral of P(mu > a) dG(a) over a > 0, where dG/da is the normal density at a/2 - epsilon/a."""
    e, s = mpmath.mpf(epsilon), mpmath.mpf(ratio)

    def integrand(a: mpmath.mpf) -> mpmath.mpf:
        t = a / s
        tail = survival(t / mpmath.sqrt(1 - t * t), noisy - 1) if inside else survival(t, noisy)
        return tail * mpmath.npdf(a / 2 - e / a)

    peak = s / mpmath.sqrt(noisy)
    points = [peak * factor for factor in (mpmath.mpf("1e-8"), 0.02, 0.3, 1, 2, 4, 8, 16, 40)]
    if inside:
        points = [point for point in points if point < s * 0.999] + [s]
    return mpmath.quad(integrand, [0, *points], maxdegree=10)


CASES = [
    (1, 2, 385, True),
    (1, 2, 385, False),
    (0.5, 8, 3, False),
    (4, 2, 16, True),
    (0, 1, 5, False),
    (2, 30, 2, True),
]


@pytest.mark.guarantee("labeldp.bags:NoisyBag", "enclosed")
@pytest.mark.parametrize(("epsilon", "ratio", "noisy", "inside"), CASES)
def test_ten_digits(epsilon: float, ratio: float, noisy: int, inside: bool) -> None:
    bag = NoisyBag("gaussian", ratio, noisy if inside else noisy + 1, noisy)
    lower, upper = (float(end[0]) for end in bag.ends(np.array([float(epsilon)])))
    with mpmath.workdps(30):
        exact = max(exact_delta(epsilon, ratio, noisy, kind) for kind in {True, inside})  # the worst label
    assert lower <= exact <= upper
    assert upper - lower <= 1e-10 * upper


def test_the_two_values_that_are_known_to_ten_digits() -> None:
    values = [NoisyBag("gaussian", 2.0, size, 385).ends(np.ones(1))[1][0] for size in (385, 386)]
    assert [f"{value:.9e}" for value in values] == ["9.880535055e-07", "1.148432821e-06"]


@pytest.mark.parametrize(("size", "noisy", "records"), [(7, 20, 90), (5, 3, 12), (8, 8, 9), (3, 1, 3)])
def test_a_fixed_set_is_a_mixture_over_how_many_are_in_the_bag(size: int, noisy: int, records: int) -> None:
    lower, upper = (float(end[0]) for end in NoisyBag("gaussian", 2.0, size, noisy, records).ends(np.ones(1)))
    with mpmath.workdps(25):
        total = mpmath.binomial(records - 1, size - 1)
        exact = mpmath.mpf(0)
        for n in range(min(size - 1, noisy) + 1):
            chance = mpmath.binomial(noisy, n) * mpmath.binomial(records - 1 - noisy, size - 1 - n) / total
            exact += chance * (exact_delta(1, 2, n, False) if n else 1) if chance else 0
    assert lower <= exact <= upper
    assert upper - lower <= 1e-10 * upper


def test_laws_of_the_number_of_noisy_labels() -> None:
    law, other = hypergeometric(50, 20, 30), binomial(40, 0.3)
    with mpmath.workdps(25):
        for n, mass in zip(law.numbers, law.masses, strict=True):
            exact = mpmath.binomial(20, int(n)) * mpmath.binomial(30, 30 - int(n)) / mpmath.binomial(50, 30)
            assert abs(mass / exact - 1) < 1e-13
        for n, mass in zip(other.numbers, other.masses, strict=True):
            exact = mpmath.binomial(40, int(n)) * mpmath.mpf(0.3) ** int(n) * mpmath.mpf(1 - 0.3) ** (40 - int(n))
            assert abs(mass / exact - 1) < 1e-13
    assert abs(other.none / 0.7**40 - 1) < 1e-13
    assert abs(sum(other.masses) + other.none - 1) < 1e-14


@pytest.mark.parametrize("law", [constant(1), constant(7), constant(3000), binomial(60, 0.2), binomial(4, 0.9)])
def test_survival_in_thirteen_digits(law: Counts) -> None:
    points = np.geomspace(1e-9, 3.0, 7)
    got = law.survival(points)
    with mpmath.workdps(25):
        for point, value in zip(points, got, strict=True):
            terms = zip(law.numbers, law.masses, strict=True)
            exact = mpmath.fsum(mpmath.mpf(mass) * survival(mpmath.mpf(point), int(n)) for n, mass in terms)
            if exact > 1e-200:
                assert abs(value / exact - 1) < 3e-13


def exact_hidden(epsilon: float, stretch: float, shrink: float, rows: int) -> mpmath.mpf:
    """E over the smaller eigenvalue's chi-square of the hockey-stick divergence in the larger one's."""
    large, small = 1 + mpmath.mpf(stretch), 1 - mpmath.mpf(shrink)
    half = mpmath.mpf(rows) / 2

    def tail(x: mpmath.mpf) -> mpmath.mpf:
        return mpmath.gammainc(half, x / 2, regularized=True)

    def given(c: mpmath.mpf) -> mpmath.mpf:
        y = epsilon + half * mpmath.log(large * small) + (1 - small) * c / 2
        x = max(2 * y / (large - 1), 0)
        return tail(x) - mpmath.exp(y) * large**-half * tail(large * x)

    def density(c: mpmath.mpf) -> mpmath.mpf:
        return c ** (half - 1) * mpmath.exp(-c / 2) / (2**half * mpmath.gamma(half))

    return mpmath.quad(lambda u: given(u * u) * density(u * u) * 2 * u, [0, 0.5, 1, 2, 3, 4, 6, 8, 12, 20])


@pytest.mark.guarantee("labeldp.bags:HiddenWeights", "enclosed")
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize(("epsilon", "stretch", "shrink"), [(1, 0.1, 0.05), (0.5, 0.8, 0.4), (3, 2, 0.9)])
def test_hidden_weights(epsilon: float, stretch: float, shrink: float, rows: int) -> None:
    lower, upper = (float(end[0]) for end in HiddenWeights(stretch, shrink, rows).ends(np.array([float(epsilon)])))
    with mpmath.workdps(18):
        exact = exact_hidden(epsilon, stretch, shrink, rows)
    assert lower <= exact <= upper
    assert upper - lower <= 1e-3 * upper


def test_the_value_of_hidden_weights_that_is_known_to_eight_digits() -> None:
    lower, upper = (float(end[0]) for end in HiddenWeights(0.1, 0.05).ends(np.ones(1)))
    assert lower < 4.3694518e-7 < upper < lower * (1 + 3e-6)
    with mpmath.workdps(25):
        assert abs(exact_hidden(1, 0.1, 0.05, 1) - mpmath.mpf("4.3694518e-7")) < 1e-14


def test_exchanged_laws() -> None:
    """H(e^-x; P, Q) = 1 - e^-x + e^-x H(e^x; Q, P), so exchanging twice gives the pair back."""
    pair = HiddenWeights(0.3, 0.2, 2)
    back = pair.reversed().reversed()
    assert back.stretch == pytest.approx(pair.stretch, rel=1e-13) and back.shrink == pytest.approx(
        pair.shrink, rel=1e-13
    )
    assert pair.reversed().stretch == pytest.approx(0.25, rel=1e-13)
    assert pair.reversed().shrink == pytest.approx(3 / 13, rel=1e-13)
    assert NoisyBag("gaussian", 2.0, 5, 3).reversed() == NoisyBag("gaussian", 2.0, 5, 3)

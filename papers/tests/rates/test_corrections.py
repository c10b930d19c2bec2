"""What `docs/theory/corrections.md` says of Zhao: the corrected statement holds, and the printed one does not."""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from labeldp.advice import cell_noise
from labeldp.advice.rates import balance
from labeldp.learners import CubeGrid
from labeldp.mechanisms import Classes, Interval, LaplaceSum
from labeldp.privacy import Public
from papers.rates.instances import Cubes, HardClasses
from papers.rates.table import critical_side, rate
from papers.rates.whole_records import FullMeans, FullSelection, Located

CASES = [(1, 1.0, 2.0), (1, 0.5, 3.0), (2, 1.0, 2.0), (3, 0.7, 5.0)]
"""Dimension, smoothness and moments."""


def least(terms: Callable[[np.ndarray], list[float]], start: list[float]) -> tuple[np.ndarray, float]:
    """Where a sum of powers is least, in logarithms, in which it is convex; and the logarithm of its least value."""
    found = minimize(lambda point: np.logaddexp.reduce(terms(point)), start, method="BFGS", options={"gtol": 1e-12})
    return found.x, float(found.fun)


def slope(values: list[float], at: list[float]) -> float:
    """How steeply logarithms rise."""
    return float(np.polyfit(at, values, 1)[0])


def theorem_10(dimension: int, beta: float, moments: float, records: float, epsilon: float) -> tuple[float, float]:
    """ln k and ln risk that minimize equation (190), without 1/k, which is smaller."""

    def terms(point: np.ndarray) -> list[float]:
        k, reach = point
        clipped, noise = 2 * (1 - moments) * reach, 2 * reach - k - 2 * math.log(epsilon)
        return [clipped, noise, 2 * beta / dimension * (k - math.log(records))]

    point, risk = least(terms, [math.log(records) / 2, 1.0])
    return float(point[0]), risk


@pytest.mark.parametrize(("dimension", "beta", "moments"), CASES)
def test_theorem_10_the_number_of_neighbors(dimension: int, beta: float, moments: float) -> None:
    """k ~ ε^-2 (Nε²)^(2pβ/(2pβ + d(p-1))): neither of the two printed numbers has these exponents."""
    whole = 2 * moments * beta + dimension * (moments - 1)
    records = [1e8, 1e10, 1e12]
    in_records = slope([theorem_10(dimension, beta, moments, n, 0.1)[0] for n in records], np.log(records).tolist())
    assert in_records == pytest.approx(2 * moments * beta / whole, abs=1e-3)
    assert abs(in_records - 2 * beta / whole) > 0.1, "Theorem 10, final version"
    budgets = [0.01, 0.03, 0.1]
    in_epsilon = slope([theorem_10(dimension, beta, moments, 1e12, e)[0] for e in budgets], np.log(budgets).tolist())
    assert in_epsilon == pytest.approx(2 * 2 * moments * beta / whole - 2, abs=1e-3)
    assert in_epsilon < 0 < 2 * 2 * moments * beta / whole, "eq. (191) and first version: k would fall with ε"
    side = critical_side(
        task="heavy-tailed", records=1e12, epsilon=0.1, dimension=dimension, beta=beta, moments=moments
    )
    sides = critical_side(
        task="heavy-tailed", records=1e15, epsilon=0.1, dimension=dimension, beta=beta, moments=moments
    )
    ours = math.log(1e15 * sides**dimension / (1e12 * side**dimension)) / math.log(1e3)
    assert ours == pytest.approx(in_records, abs=0.05), "N h^d, with a second term that has not quite gone"


@pytest.mark.parametrize(("dimension", "beta", "moments"), CASES)
def test_theorem_10_the_rate_is_right_and_missed_by_the_printed_number(
    dimension: int, beta: float, moments: float
) -> None:
    whole = 2 * moments * beta + dimension * (moments - 1)
    records = [1e8, 1e10, 1e12]
    risks = [theorem_10(dimension, beta, moments, n, 0.1)[1] for n in records]
    assert slope(risks, np.log(records).tolist()) == pytest.approx(-2 * beta * (moments - 1) / whole, abs=1e-3)

    def printed(count: float) -> float:
        """The least of equation (190) over T, with the k of the final version's Theorem 10."""
        k = max((count * 0.01) ** (2 * beta / whole), count ** (2 * beta / (2 * beta + dimension)))
        noise = 1 / (k * 0.01)
        reach = (noise / (moments - 1)) ** (-1 / (2 * moments))
        return math.log(reach ** (2 * (1 - moments)) + reach**2 * noise + (k / count) ** (2 * beta / dimension))

    assert (
        slope([printed(n) for n in records], np.log(records).tolist()) > slope(risks, np.log(records).tolist()) + 0.01
    )


@pytest.mark.parametrize(("dimension", "beta", "moments"), CASES)
def test_theorem_12_the_side_of_the_cubes(dimension: int, beta: float, moments: float) -> None:
    """(εN)^(-(p-1)/(pβ + d(p-1))) where privacy is what counts, and not (εN)^(-1/(pβ + d(p-1)))."""

    def side(product: float) -> float:
        def terms(point: np.ndarray) -> list[float]:
            h, reach = point
            return [2 * beta * h, 2 * (1 - moments) * reach, 2 * reach - 2 * math.log(product) - 2 * dimension * h]

        return float(least(terms, [-1.0, 1.0])[0][0])

    products = [1e4, 1e6, 1e8]
    found = slope([side(each) for each in products], np.log(products).tolist())
    whole = moments * beta + dimension * (moments - 1)
    assert found == pytest.approx(-(moments - 1) / whole, abs=1e-3)
    assert moments == 2 or abs(found + 1 / whole) > 0.1


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_theorem_7_of_the_final_version_contradicts_theorem_8(dimension: int) -> None:
    """A lower bound (εN)^(-2β/(d+2β)) would lie above what Theorem 8 reaches, by any factor."""
    ratios = []
    for records in (1e6, 1e12, 1e18):
        epsilon = records**-0.75
        reached = rate(task="regression", trust="central", records=records, epsilon=epsilon, dimension=dimension)
        ratios.append((epsilon * records) ** (-2 / (dimension + 2)) / reached)
    assert ratios[0] > 1.3 and ratios[1] > 1.3 * ratios[0] and ratios[2] > 1.3 * ratios[1]


def test_after_equation_29_two_moments_cost_a_constant_factor_of_records() -> None:
    """At p = 2 the second term is (εN)^(-2β/(2β + d)): that of N records without privacy at εN records."""
    setting: dict[str, Any] = {"dimension": 3, "beta": 0.5}
    both = rate(task="heavy-tailed", trust="central", records=1e6, epsilon=0.01, moments=2.0, **setting)
    alone = [rate(task="regression", protection="none", records=n, **setting) for n in (1e6, 1e4)]
    assert both == pytest.approx(sum(alone))


def test_equation_23_the_noise_of_a_mean_grows_with_the_range() -> None:
    """2T/(n ε): labels T and -T move the mean of n by 2T/n, and the printed 2/n is right for T = 1 alone."""
    labels = np.array([5.0, -5.0, 5.0, 0.0])
    changed = np.array([-5.0, -5.0, 5.0, 0.0])
    assert abs(labels.mean() - changed.mean()) == 2 * 5 / 4
    sums = LaplaceSum(domain=Interval(-5, 5), epsilon=0.5, groups=Public(np.zeros(4, int), why="one cell"))
    assert sums.scale == pytest.approx(2 * 5 / 0.5)
    assert sums.scale > 2 / 0.5


def tables(classes: int, most: int) -> Iterator[tuple[int, ...]]:
    """All counts of one cell."""
    return itertools.product(range(most + 1), repeat=classes)


def moved(mechanism: FullSelection, classes: int, most: int) -> float:
    """The largest loss of one record that leaves a cell or joins it: two cells together lose twice that."""
    worst = 0.0
    for counts in tables(classes, most):
        for label in range(classes):
            if counts[label]:
                fewer = list(counts)
                fewer[label] -= 1
                worst = max(worst, np.abs(np.log(mechanism.law(counts) / mechanism.law(fewer))).max())
    return worst


@pytest.mark.parametrize("rule", ["exponential", "permute-and-flip"])
@pytest.mark.parametrize("classes", [2, 3])
def test_equation_31_is_twice_as_noisy_as_it_must_be(rule: str, classes: int) -> None:
    """With ε/2 for each count a record that moves costs ε/2 in each of two cells; with the printed ε/4 half of that."""
    domain = Located(CubeGrid((0.0,), (1.0,), (2,)), Classes(classes))
    tight = FullSelection(domain=domain, epsilon=1.0, rule=rule)
    printed = FullSelection(domain=domain, epsilon=1.0, rule=rule, printed=True)
    assert 0.45 < moved(tight, classes, 8 if classes == 2 else 5) <= 0.5 * (1 + 1e-12)
    assert moved(printed, classes, 5) <= 0.25 * (1 + 1e-12)


def most_moved(smallest: int) -> float:
    """The largest change of Σ/(n ∨ n_0), T = 1, in one cell that loses a record, by trying sums of n labels."""
    worst = 0.0
    for n in range(1, 3 * smallest + 4):
        for others in (-(n - 1), 0, n - 1):  # the change is convex in each label: extremes lie at the ends
            for label in (-1, 0, 1):
                before = (others + label) / max(n, smallest)
                worst = max(worst, abs(before - others / max(n - 1, smallest)))
    return worst


@pytest.mark.parametrize("smallest", [1, 2, 3, 7, 20])
def test_equation_36_two_cells_move_by_4_over_n_0_plus_1(smallest: int) -> None:
    assert 2 * most_moved(smallest) == pytest.approx(4 / (smallest + 1))
    assert 2 / smallest <= 4 / (smallest + 1), "a record that stays in its cell moves less"
    interval = Interval(-1, 1, grid=3)
    means = FullMeans(domain=Located(CubeGrid((0.0,), (1.0,), (2,)), interval), epsilon=1, smallest=smallest)
    assert float(means.moved) * float(interval.step) / 2 == pytest.approx(4 / (smallest + 1))


def test_equation_46_without_gaps_breaks_the_margin_condition() -> None:
    """P(0 < |η| < t)/t^γ grows without bound as t falls where γβ > 1, even for the steepest bump, (1 - 2|u|)^β."""
    beta, margin, side = 1.0, 1.5, 0.1
    bumps = side ** (margin * beta - 2)

    def share(threshold: float) -> float:
        """P(0 < |η| < t) for d = 2, features uniform on the unit square, bumps (1 - 2 max|u|)^β h^β."""
        return float(bumps * side**2 * (1 - (1 - (threshold / side**beta) ** (1 / beta)) ** 2))

    ratios = [share(t) / t**margin for t in (1e-2, 1e-4, 1e-6)]
    assert ratios[0] * 9 < ratios[1] and ratios[1] * 9 < ratios[2]
    hard = HardClasses(Cubes(10, 2), np.zeros(100, int), side**beta, 2)
    features, _ = hard.draw(100, np.random.default_rng(0))
    table = hard.probabilities(features)
    assert np.allclose(np.abs(table[:, 0] - table[:, 1]), side), "with gaps no feature meets a smaller difference"


def test_equation_169_needs_small_bumps() -> None:
    """With T of (169) and M_p = 1, P(label is not 0) = T^-p exceeds 1 where h^β is above 1/2."""
    for height, fits in ((0.6, False), (0.4, True)):
        reach = (1 / (2 * height)) ** (1 / (3 - 1))
        assert (reach**-3 <= 1) is fits


@pytest.mark.parametrize("epsilon", [5.0, 20.0])
def test_full_local_rates_need_the_public_term(epsilon: float) -> None:
    """(Nε²)^(-β/(β+d)) alone falls below what no learner beats without privacy, once ε² > N^(d/(2β+d))."""
    records, dimension = (10.0, 1) if epsilon == 5.0 else (100.0, 1)
    printed = (records * epsilon**2) ** (-1 / (1 + dimension))
    public = rate(task="regression", protection="none", records=records, dimension=dimension)
    assert printed < public
    assert rate(task="regression", protection="full", records=records, epsilon=epsilon, dimension=dimension) > public


def test_the_balance_of_heavy_tails_has_the_exponents_of_theorems_10_and_12() -> None:
    """With the constants of the mechanisms the exponents are those of the corrected tuning."""
    for trust, expected in (("local", -2 / (6 + 4)), ("central", -2 / (3 + 4))):
        noise = cell_noise(task="heavy-tailed", trust=trust, epsilon=1e-3, spread=1e-3)
        records = [1e11, 1e13]
        sides = [balance(records=n, noise=noise, dimension=2, beta=1.0, moments=3.0).side for n in records]
        assert slope(np.log(sides).tolist(), np.log(records).tolist()) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(("dimension", "beta"), [(1, 1.0), (2, 1.0), (2, 0.5), (3, 0.7)])
def test_theorem_8_bears_slivers_at_the_boundary_but_not_everywhere(dimension: int, beta: float) -> None:
    """Noise that is kept in range adds at most 1/(Nε) for each sliver: h^(1+β) for h^(1-d) of them, h^β for h^(-d)."""
    few, many = [], []
    for strength in (1e6, 1e9, 1e12):
        shares = np.geomspace(1e-3, 1e3, 601) / strength
        worst = float(np.minimum(shares, 1 / (shares * strength**2)).max())
        assert worst == pytest.approx(1 / strength)
        side = strength ** (-1 / (beta + dimension))
        few.append(side ** (1 - dimension) * worst / side ** (2 * beta))
        many.append(side**-dimension * worst / side ** (2 * beta))
    assert max(few) <= 1 + 1e-9
    assert many[1] > 2 * many[0] and many[2] > 2 * many[1]

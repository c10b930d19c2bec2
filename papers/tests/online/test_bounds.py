"""Printed bounds by hand, and where they do not hold."""

import itertools
import math

import numpy as np
import pytest

from labeldp.online import expected_weights, l2p_loss, mw_regret_bound
from labeldp.privacy import Unit
from online.experts.test_accounting import words
from online.test_brute_force import worst
from papers.online.bounds import batch_lower_bound, batching_excess, theorem_3_2_applies, theorem_3_2_epsilon

REPLACE = Unit.ONE_LOSS

ROWS = [  # horizon, batch, rate, redraw, and the printed formula at a delta of 1e-6
    (10**6, 1, 1.65e-3, 3.3e-3, 7.96),
    (10**6, 1, 2.2e-3, 5e-3, 12.7),
    (10**5, 4, 2e-3, 0.01, 2.46),
    (10**6, 10, 1e-3, 0.02, 3.29),
]


@pytest.mark.parametrize(("horizon", "batch", "rate", "redraw", "printed"), ROWS)
def test_the_table(horizon: int, batch: int, rate: float, redraw: float, printed: float) -> None:
    assert theorem_3_2_epsilon(rate, batch, redraw, horizon, 1e-6) == pytest.approx(printed, rel=4e-3)


@pytest.mark.parametrize(
    ("horizon", "experts", "nominal", "printed"),
    [(10**4, 100, 0.1, 6.4), (10**6, 1000, 0.1, 7.6), (10**6, 1000, 0.3, 11.3), (10**6, 1000, 1.0, 12.1)],
)
def test_the_parameters_of_theorem_3_10_by_the_printed_formula(
    horizon: int, experts: int, nominal: float, printed: float
) -> None:
    """`tests/oracles/test_online.py` has what they cost."""
    rate = min(horizon**-0.25 * math.log(experts) ** 0.75, nominal) ** (2 / 3) / horizon ** (1 / 3)
    batch, redraw = round(1 / nominal), min(rate / nominal, 1.0)
    assert theorem_3_2_epsilon(rate, batch, redraw, horizon, 1e-6) == pytest.approx(printed, rel=0.01)


def test_the_printed_formula_by_hand() -> None:
    """0.04 + 0.01 + 0.5441 + 5.6192 at rate 0.01, batches of 2, p = 1/2, T = 1000, delta = 0.001."""
    assert theorem_3_2_epsilon(0.01, 2, 0.5, 1000, 1e-3) == pytest.approx(6.2133, abs=1e-4)


def test_the_printed_formula_has_conditions() -> None:
    assert theorem_3_2_applies(0.01, 2, 0.5, 1000, 1e-3)
    for given in [(0.2, 1, 0.99, 10, 0.1), (0.01, 20, 0.01, 100, 0.1), (0.05, 4, 0.5, 1000, 1e-6)]:
        assert not theorem_3_2_applies(*given)


def test_the_printed_formula_never_under_reports_and_wastes_most() -> None:
    """On a grid of parameters under its conditions, beside what is proven for the same Algorithm 1."""
    ratios = list[float]()
    for horizon, batch, rate, redraw in itertools.product(
        (10**3, 10**5, 10**7), (1, 8), np.geomspace(1e-5, 0.05, 7), np.geomspace(1e-4, 0.9, 7)
    ):
        printed = theorem_3_2_epsilon(rate, batch, redraw, horizon, 1e-6)
        if theorem_3_2_applies(rate, batch, redraw, horizon, 1e-6) and 0.01 <= printed <= 50:
            ratios.append(printed / l2p_loss(rate, batch, words(redraw), horizon - batch, REPLACE).epsilon(1e-6))
    assert len(ratios) > 60
    assert min(ratios) > 1.01 and np.median(ratios) > 8


def test_the_printed_formula_is_above_the_truth() -> None:
    """Theorem 3.2 under its conditions, for Algorithm 1: above every pair of neighbors, and above our accountant."""
    delta, checked = 1e-3, 0
    for size in [(2, 1, 5, 0.02, 0.3), (2, 1, 5, 0.05, 0.7), (2, 2, 3, 0.02, 0.6), (3, 1, 3, 0.01, 0.3)]:
        _, batch, batches, rate, redraw = size
        horizon = batch * (batches + 1)
        printed = theorem_3_2_epsilon(rate, batch, redraw, horizon, delta)
        assert theorem_3_2_applies(rate, batch, redraw, horizon, delta)
        true, pairs = worst(size, "l2p", 2, (printed,))
        assert true[0] <= delta
        checked += pairs
    assert checked > 5_000


MEASURED = [  # horizon, epsilon; what batches of 1 / epsilon add at rate epsilon^(2/3) / T^(1/3)
    (10**4, 0.1, 112),
    (10**5, 0.1, 522),
    (10**6, 0.1, 2424),
    (10**7, 0.01, 26660),
]


def in_turn(horizon: int, batch: int) -> np.ndarray:
    """Levels of two experts: the first loses in odd batches, the second in even ones."""
    odd = (np.arange(horizon) // batch) % 2 == 0
    return np.where(np.stack([odd, ~odd], axis=1), 255, 0).astype(np.uint8)


@pytest.mark.parametrize(
    ("horizon", "batch", "rate"), [(10**4, 10, 0.01), (2000, 5, 0.2), (600, 100, 0.01), (40, 1, 0.5)]
)
def test_the_closed_form(horizon: int, batch: int, rate: float) -> None:
    losses = in_turn(horizon, batch)
    regrets = [expected_weights([losses], rate=rate, batch=each).regret for each in (batch, 1)]
    assert regrets[0] - regrets[1] == pytest.approx(batching_excess(horizon, batch, rate), abs=2e-4 * horizon / 100)
    assert regrets[0] == pytest.approx(horizon / 4 * math.tanh(rate * batch / 2), rel=1e-3)
    assert regrets[0] <= mw_regret_bound(2, horizon, rate, batch)


@pytest.mark.parametrize(("horizon", "epsilon", "measured"), MEASURED)
def test_proposition_3_3_is_exceeded(horizon: int, epsilon: float, measured: int) -> None:
    """By a factor of 1 / (8 eta B), which grows without a bound; the excess is about eta T B / 8."""
    batch, rate = round(1 / epsilon), epsilon ** (2 / 3) / horizon ** (1 / 3)
    excess, printed = batching_excess(horizon, batch, rate), horizon * batch**2 * rate**2
    assert excess == pytest.approx(measured, rel=4e-3)
    assert excess == pytest.approx(rate * horizon * batch / 8, rel=0.11)
    assert excess / printed == pytest.approx(1 / (8 * rate * batch), rel=0.11) and excess > printed


def test_theorem_3_10_is_below_what_any_learner_on_batches_can_reach() -> None:
    """T = 10^6, epsilon = 0.03, d = 1000: the lower bound is above sqrt(T ln d) + T^(1/3) ln d / epsilon^(2/3)."""
    log = math.log(1000)
    claimed = math.sqrt(1e6 * log) + 1e2 * log / 0.03 ** (2 / 3)
    assert batch_lower_bound(1000, 1e6, 33) == pytest.approx(10676, rel=0.01)
    assert claimed == pytest.approx(9783, rel=0.01)
    ratios = [
        batch_lower_bound(2, t, round(t**0.2)) / (math.sqrt(t * math.log(2)) + t ** (1 / 3 + 0.4 / 3) * math.log(2))
        for t in (1e6, 1e9, 1e12)
    ]
    assert ratios == sorted(ratios), "further and further apart at epsilon = T^(-1/5)"

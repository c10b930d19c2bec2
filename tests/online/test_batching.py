"""What batches cost: two experts that lose in turn, the closed form, and what Proposition 3.3 says instead."""

import math

import numpy as np
import pytest

from labeldp.online.accounting import batch_lower_bound, batching_excess, mw_regret_bound
from labeldp.online.regret import expected_weights

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

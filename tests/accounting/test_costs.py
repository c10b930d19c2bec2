"""Rates of releases beside a reserve."""

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

from labeldp.accounting import costs
from labeldp.privacy import PrivacyLoss


def delta(epsilons: NDArray[np.float64], square: float) -> NDArray[np.float64]:
    """Of a Gaussian with this mu^2, at epsilons of any sign."""
    mu = math.sqrt(square)
    return np.asarray(ndtr(mu / 2 - epsilons / mu) - np.exp(epsilons) * ndtr(-mu / 2 - epsilons / mu))


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1"])
def test_fewer_thresholds_make_a_rate_larger_and_it_holds_between_them(
    epsilon: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    [(atom, _)] = PrivacyLoss.pure(epsilon).atoms
    reserve, rates = 0.05, []
    for points in (8, 64, costs.RESERVE_POINTS):
        monkeypatch.setattr(costs, "RESERVE_POINTS", points)
        rate, failure = costs._reserved_rate.__wrapped__(atom, reserve, 10.0)
        rates.append(rate)
        thresholds = np.linspace(0, float(epsilon) + reserve / 2 + 8.5 * math.sqrt(reserve), 1001)
        left = sum(float(mass) * delta(thresholds - float(loss), reserve) for loss, mass in atom.masses())
        share = float(failure) / 2
        assert (left <= share + (1 - share) * delta(thresholds, reserve + float(rate)) + 1e-14).all()
    assert Fraction(10) > rates[0] > rates[1] >= rates[2]

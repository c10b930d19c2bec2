"""Two-sided bounds of added noise against curves that are known."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from audit.peers import laplace_cdf
from labeldp.audit import AdditiveAudit, audit_additive
from labeldp.privacy import InputError, PrivacyLoss


def laplace(scale: float, shifts: tuple[float, ...], cells: int) -> AdditiveAudit:
    return audit_additive(
        lambda x: laplace_cdf(x, scale),
        lambda x: -np.abs(x) / scale,
        shifts,
        edges=np.linspace(-20 * scale, 20 * scale, cells),
        tail_loss=max(map(abs, shifts)) / scale,
    )


@pytest.mark.guarantee("labeldp.audit:AdditiveAudit", "enclosed")
@pytest.mark.parametrize("scale", [0.5, 1.0, 4.0])
def test_the_true_delta_of_laplace_noise_lies_between_the_two_ends(scale: float) -> None:
    audit = laplace(scale, (1.0,), 4001)
    for epsilon in np.linspace(0, 1.1 / scale, 7):
        low, high = audit.delta(round(float(epsilon), 6))
        true = max(0.0, 1 - math.exp((round(float(epsilon), 6) - 1 / scale) / 2))
        assert low <= true <= high
        assert high - low < 0.01
    low, high = audit.epsilon()
    assert low <= 1 / scale <= high + 1e-12
    assert high - low < 1e-4


def test_the_true_delta_of_gaussian_noise_lies_between_the_two_ends() -> None:
    audit = audit_additive(ndtr, lambda x: -(x**2) / 2, (0.8,), edges=np.linspace(-9, 9, 6001))
    loss = PrivacyLoss.gaussian(0.8)
    for epsilon in (0, 0.5, 1, 2):
        low, high = audit.delta(epsilon)
        assert low <= loss.delta(epsilon) <= high + 1e-12
        assert high - low < 0.002
    low, high = audit.epsilon(0.01)
    assert low <= loss.epsilon(0.01) <= high
    assert audit.epsilon()[1] == math.inf


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_noisy_indicators_of_one_peer_keep_epsilon_and_no_less(epsilon: float) -> None:
    """Laplace noise of scale 2 / epsilon on the indicators of classes: two of them move by 1."""
    audit = laplace(2 / epsilon, (1.0, -1.0), 801)
    low, high = audit.epsilon()
    assert low <= epsilon <= high + 1e-12
    assert high - low < 1e-3
    least, most = audit.delta(round(epsilon / 2, 3))
    assert 0 < least < most < least + 0.05
    halved = laplace(1 / epsilon, (1.0, -1.0), 801)  # noise for one indicator alone
    assert halved.epsilon()[0] > 1.99 * epsilon


def test_what_cannot_be_bounded_is_refused() -> None:
    for shifts, edges, message in (
        ((), [0, 1], "shifts must hold one number or two"),
        ((1.0,), [1, 0], "edges must increase"),
        ((1.0,), [0], "edges must increase"),
        ((1.0, 1.0), np.linspace(0, 1, 5000), "2\\*\\*24 cells"),
    ):
        with pytest.raises(InputError, match=message):
            audit_additive(ndtr, lambda x: -(x**2) / 2, shifts, edges=edges)
    audit = laplace(1.0, (1.0,), 101)
    with pytest.raises(InputError, match="epsilon must not be negative"):
        audit.delta(-1)
    with pytest.raises(InputError, match=r"delta must lie in \[0, 1\]"):
        audit.epsilon(2)

"""What `docs/theory/corrections.md` says of Brahmbhatt: each number that shows it."""

import math

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr

from labeldp.bags import NoisyBags, llp_delta
from labeldp.privacy import InputError


def test_a_much_smaller_variance_breaks_it() -> None:
    """Half the variance, the same mean, S = [-1, 1]: the printed condition admits it, and the printed bound fails."""
    kappa, zeta, theta = 1e-4, 1e3, 0.5
    inside, before = 2 * ndtr(math.sqrt(2)) - 1, 2 * ndtr(1) - 1
    printed = math.exp(16 * (math.sqrt(kappa) / zeta + theta / zeta + kappa)) * before + math.exp(
        -(theta**2) / 4 / kappa
    )
    assert round(inside, 4) == 0.8427 and round(printed, 4) == 0.6894


def test_a_slightly_larger_variance_breaks_it_where_zeta_is_large() -> None:
    """Variance 1 + kappa, S = {|x| > 63}: the term 3 theta^2 that was dropped is what is missing."""
    kappa, zeta, theta = 1e-4, 1e4, 0.9
    log_ratio = log_ndtr(-63 / math.sqrt(1 + kappa)) - log_ndtr(-63)
    printed = 16 * (math.sqrt(kappa) / zeta + theta / zeta + kappa)
    assert -(theta**2) / 4 / kappa < log_ndtr(-63) - 20  # the second term adds nothing
    assert round(math.exp(log_ratio - printed), 3) == 1.216


def test_the_corrected_lemma() -> None:
    """The largest P1(S) - c P0(S) over all S is that of the densities' crossing."""
    rng = np.random.default_rng(2)
    x = np.linspace(-60, 60, 60_001)
    for _ in range(300):
        kappa, theta = 0.5 * rng.random() ** 3, rng.random()
        zeta = math.sqrt(kappa) * (1 + 10 ** rng.uniform(-2, 4))
        variance, mean = 1 + kappa * rng.uniform(-1, 1), math.sqrt(kappa) / zeta * rng.uniform(-1, 1)
        factor = math.exp(6 * math.sqrt(kappa) / zeta + 2 * theta / zeta + 16 * kappa + 3 * theta**2)
        after = np.exp(-0.5 * (x - mean) ** 2 / variance) / math.sqrt(2 * math.pi * variance)
        before = np.exp(-0.5 * x**2) / math.sqrt(2 * math.pi)
        gap = np.maximum(after - factor * before, 0).sum() * (x[1] - x[0])
        assert gap <= math.exp(-(theta**2) / (4 * kappa)) + 1e-12


def test_the_variance_moves_by_twice_as_much() -> None:
    """Lemma 3.3: residuals that differ by 2 B1, with x = B1 / residual below 1/8."""
    for x in (0.001, 0.05, 0.12):
        lowest, highest = (1 - 2 * x) ** 2, (1 + 2 * x) ** 2
        assert lowest < 1 - 2 * x and highest > 1 + 4 * x  # the printed floor, and 1 + kappa with the printed kappa
        assert highest <= 1 + 5 * x and lowest >= 1 - 5 * x


def delta(size: int, epsilon: float, fraction: float = 1.0, stddev: float = 1.0) -> float:
    """Fig. 2 in the limit, labels in [-1, 1]."""
    paper = {"weights": "gaussian", "noisy_set": "fixed", "label_range": (-1, 1)}
    return llp_delta(NoisyBags(size, noisy_fraction=fraction, stddev=stddev, **paper), epsilon)


def test_the_exponent_is_linear_in_epsilon_and_a_root_in_the_share() -> None:
    for epsilon in (0.5, 2.0):
        for size in (64, 1024, 16_384):
            length = math.sqrt((size - 1) / 4 + 0.25)
            assert delta(size, epsilon) <= math.exp(-epsilon * (length - 0.5)) / (2 * length)
    slope = -math.log(delta(65_536, 2.0)) / (2.0 * math.sqrt(65_536) / 2)
    assert 1 < slope < 1.04


def test_bags_without_a_noisy_label_leave_a_floor() -> None:
    for fraction, size in ((0.01, 512), (0.1, 64)):
        floor = (1 - fraction) ** (size - 1)
        assert floor > 1e-5
        assert delta(size, 1e5, fraction, stddev=1e9) >= floor * (1 - 1e-9)


def test_published_bags_are_no_amplification() -> None:
    """A tenth of all labels in bags of 385: delta falls by 10, epsilon does not."""
    exact = 0.1 * delta(385, 0.159)
    assert exact == pytest.approx(5.0e-4, rel=0.02)
    assert exact > 5000 * 0.1 * delta(385, 1.0)


def test_no_noise_is_no_promise() -> None:
    with pytest.raises(InputError, match="without noisy labels a bag reveals its labels"):
        NoisyBags(256, stddev=1, label_range=(0, 51), noisy_fraction=0)

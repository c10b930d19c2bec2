"""Sums that promise nothing, and Gaussian losses of records behind published linear sums."""

import math
from typing import Any

import mpmath
import numpy as np
import pytest

import labeldp as ldp
from labeldp import Interval
from labeldp.privacy import InputError, Trust
from papers.aggregation.naive import NaiveBags, linear_release_gdp

KEY = ldp.KeyedRandomness(b"bags".ljust(32, b".")).bind(b"a test")
TENTHS = Interval(0, 1, grid=11)


def test_naive_bags_promise_nothing() -> None:
    """None: delta = mk/n for every epsilon, and nothing better."""
    naive = NaiveBags(4, 3, population=48, domain=TENTHS)
    assert naive.trust is Trust.NONE
    for epsilon in (0, 1, 100):
        assert naive.privacy_loss().delta(epsilon) == pytest.approx(0.25)
    assert "none: delta = mk/n = 0.25" in naive.published
    labels = np.arange(48) % 11
    curator = ldp.Curator(labels / 10, domain=TENTHS, budget=ldp.Budget(epsilon=100, delta=0.2))
    with pytest.raises(ldp.BudgetExceeded):
        curator.release(naive, rng=ldp.SystemRandomness())
    curator = ldp.Curator(labels / 10, domain=TENTHS, budget=ldp.Budget(epsilon=1, delta=0.3))
    sentence = curator.release(naive, rng=ldp.SystemRandomness()).certificate.at(0.3)
    assert sentence.startswith("Protects:   nothing\nGuarantee:  NONE. No ε gives δ below 0.25.\n")
    assert "times as likely" not in sentence and "ε = 0" not in sentence
    released = naive.randomize(labels, rng=KEY)
    bags = naive.bags(released)
    assert naive.sums(released).tolist() == [labels[bags == bag].sum() for bag in range(3)]


def test_bags_that_overlap_are_refused() -> None:
    with pytest.raises(InputError, match="bags must not overlap"):
        NaiveBags(4, 3, population=11, domain=TENTHS)


def test_any_published_coefficients() -> None:
    """No mu is below the exact one; sums whose noise is dependent up to rounding count as dependent."""
    rng = np.random.default_rng(3)
    signs = rng.choice([-1.0, 1.0], 12)
    bags = np.kron(np.eye(3), np.ones(4)) * signs
    mus = linear_release_gdp(bags, np.full(3, 2.0), (0, 3))
    exact = 3 / math.sqrt(2)
    assert (mus >= exact).all() and mus == pytest.approx(exact, rel=1e-12)
    noisy = np.arange(12) % 2 == 0
    weights = rng.standard_normal((2, 12))  # two sums over the same labels, which share the noise of every other label
    covariance = weights[:, noisy] @ weights[:, noisy].T
    mus = linear_release_gdp(weights, covariance, (0, 3))
    exacts = 3 * np.sqrt(np.einsum("ji,jk,ki->i", weights, np.linalg.inv(covariance), weights))
    assert mus == pytest.approx(exacts, rel=1e-9) and (mus >= exacts * (1 - 1e-12)).all()


def test_sums_without_noise_show_a_label() -> None:
    from scipy.sparse import csr_array

    coefficients = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 2.0]])
    assert np.isinf(linear_release_gdp(coefficients, [4, 0], (0, 1))).tolist() == [False, True, True]
    assert np.isinf(linear_release_gdp(csr_array(coefficients), [4, 0], (0, 1))).tolist() == [False, True, True]
    shared = np.ones((2, 2))  # the difference of the two sums has no noise
    assert np.isinf(linear_release_gdp(coefficients, shared, (0, 1))).tolist() == [True, False, True]
    assert linear_release_gdp(coefficients, shared, (0, 1))[1] == pytest.approx(1.0, rel=1e-12)
    assert linear_release_gdp(csr_array(coefficients), shared, (0, 1))[1] == pytest.approx(1.0, rel=1e-12)


def test_little_noise_on_one_sum_is_not_overlooked() -> None:
    """Variances of 1 and 2^-60, in any units: the second sum shows the label, however little of it is in there."""
    coefficients = [[1.0, 0.0], [2.0**-21, 0.0]]
    assert linear_release_gdp(coefficients, np.diag([1, 2.0**-60]), (0, 1))[0] == pytest.approx(math.sqrt(1 + 2.0**18))
    assert np.isinf(linear_release_gdp(coefficients, np.diag([1.0, 0.0]), (0, 1))[0])
    related = [[1, 1 - 2.0**-43], [1 - 2.0**-43, 1]]
    with pytest.raises(InputError, match="noise must be clearly dependent or clearly not"):
        linear_release_gdp(coefficients, related, (0, 1))


def test_overlapping_bags_of_as_many_noisy_labels() -> None:
    """Six sums over four noisy labels: exactly dependent noise, as the pseudo-inverse in 50 digits has it."""
    rng = np.random.default_rng(5)
    weights = rng.integers(-3, 4, (6, 9)).astype(float)
    noisy = weights[:, :4]
    mus = linear_release_gdp(weights, noisy @ noisy.T, (0, 1))
    with mpmath.workdps(50):
        normal = mpmath.matrix((noisy.T @ noisy).tolist()) ** -1
        inverse = mpmath.matrix(noisy.tolist()) * normal * normal * mpmath.matrix(noisy.T.tolist())
        exact = [
            float(mpmath.sqrt((mpmath.matrix([row.tolist()]) * inverse * mpmath.matrix(row.tolist()))[0]))
            for row in noisy.T
        ]
    assert mus[:4] == pytest.approx(exact, rel=1e-10) and np.isinf(mus[4:]).all()


MISFITS: list[tuple[Any, Any]] = [
    ([1, 2], [1]),
    ([[1, 2]], [1, 1]),
    ([[1, 2]], [-1]),
    ([[1], [2]], [[1, 2], [0, 1]]),
    ([[1], [2]], [[1, 2], [2, 1]]),
    ([[math.nan]], [1]),
    ([[1e-200]], [0]),
    ([[1]], [1e-310]),
]


@pytest.mark.parametrize(("coefficients", "noise"), MISFITS)
def test_coefficients_that_are_refused(coefficients: Any, noise: Any) -> None:
    with pytest.raises(InputError, match=r"noise|must be 0, or between 1e-100 and 1e\+100"):
        linear_release_gdp(coefficients, noise, (0, 1))

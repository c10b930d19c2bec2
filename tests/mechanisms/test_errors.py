"""The noisy sum of squared errors of public predictions."""

from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp.mechanisms import Classes, Interval, SquaredErrors
from labeldp.mechanisms.errors import MAX_ERROR
from labeldp.privacy import InputError, Public
from labeldp.sampling import MIN_RATE

DOMAIN = Interval(-10, 10, grid=41)


def errors(places: Any, epsilon: float = 1.0, domain: Interval = DOMAIN) -> SquaredErrors:
    return SquaredErrors(domain=domain, epsilon=epsilon, predictions=Public(np.asarray(places), why="a test"))


@pytest.mark.guarantee("labeldp.mechanisms:SquaredErrors", "pure")
def test_a_sum_by_hand() -> None:
    mechanism = errors([0, 20, 30])
    assert mechanism.sums(np.array([0, 18, 40]))[0] == 0 + 4 + 100
    assert mechanism.sensitivity == 40**2 and mechanism.unit == 1 and mechanism.records == 3
    assert mechanism.largest == 20.0**2
    assert mechanism.mean([104]) == pytest.approx(104 * 0.25 / 3)
    assert errors([20, 20, 20]).sensitivity == 20**2
    assert mechanism.privacy_loss() == ldp.PrivacyLoss.pure(1)


def test_the_noisy_mean_is_the_mean_squared_error_on_average() -> None:
    labels = np.random.default_rng(0).uniform(-3, 3, 500)
    mechanism = errors(np.full(500, 20), epsilon=0.5)
    found = []
    for seed in range(400):
        curator = ldp.Curator(labels, domain=DOMAIN, budget=ldp.Budget(0.5))
        found.append(mechanism.mean(curator.release(mechanism, rng=np.random.default_rng(seed)).value))
    true = np.mean((np.rint(labels * 2) / 2) ** 2)
    assert abs(np.mean(found) - true) < 7 * mechanism.noise_stddev / 20
    assert 0.8 < np.std(found) / mechanism.noise_stddev < 1.25


def test_fine_grids_are_summed_in_a_coarser_unit() -> None:
    fine = Interval(0, 1, grid=100_001)
    mechanism = errors([0, 50_000], domain=fine)
    assert mechanism.unit > 1 and mechanism.sensitivity <= MAX_ERROR
    assert mechanism.sums(np.array([100_000, 50_000]))[0] == mechanism.sensitivity
    assert mechanism.largest == pytest.approx(1, rel=1e-5)
    tiny = errors([0, 40], epsilon=1e-7)
    assert tiny.unit > 1 and tiny.rate >= MIN_RATE


def test_what_was_stored_is_restored() -> None:
    mechanism = errors([3, 0, 40])
    again = mechanism.restored(mechanism.arrays())
    assert again.specification() == mechanism.specification() and again.sensitivity == mechanism.sensitivity
    assert errors([3, 1, 40]).specification() != mechanism.specification()
    assert "on condition" not in repr(mechanism) and "3, 0" not in repr(mechanism)


def test_what_cannot_be_predicted_is_refused() -> None:
    for places, words in (([0.5], "integer"), ([41], "grid points from 0 to 40"), ([-1], "integer"), ([], "integer")):
        with pytest.raises(InputError, match=f"predictions must .*{words}"):
            errors(places)
    with pytest.raises(InputError, match="predictions must be Public"):
        SquaredErrors(domain=DOMAIN, epsilon=1, predictions=np.array([0, 1]))
    with pytest.raises(InputError, match="domain must be an Interval"):
        SquaredErrors(domain=Classes(3), epsilon=1, predictions=Public(np.array([0]), why="a test"))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="epsilon is too small"):
        errors([0, 1], epsilon=1e-10)

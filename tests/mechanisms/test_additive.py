"""Gaussian noise on class indicators: what it costs, that it is no louder than it must be, what is refused."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp.mechanisms import Classes, DiscreteLaplace, GaussianOneHot, Interval, gaussian_loss
from labeldp.mechanisms.additive import STEPS_IN_INDICATOR
from labeldp.privacy import InputError, KeyedRandomness, Trust
from labeldp.sampling import RecordStream, discrete_gaussian
from labeldp.sampling.words import Integers
from labeldp.testing import ContractViolation, check_mechanism


def gaussian(classes: Any = 3, **arguments: Any) -> GaussianOneHot:
    """Three classes at epsilon 1 and delta 1e-6, where nothing else is said."""
    return GaussianOneHot(**{"domain": Classes(classes), "epsilon": 1.0, "delta": 1e-6, **arguments})


@pytest.mark.guarantee("labeldp.mechanisms:GaussianOneHot", "approximate")
@pytest.mark.parametrize("epsilon", ["0.1", "1", "8"])
@pytest.mark.parametrize("delta", ["1e-6", "1e-3"])
def test_just_enough_noise(epsilon: str, delta: str) -> None:
    mechanism = gaussian(5, epsilon=epsilon, delta=delta)
    codes = mechanism.encoded(np.arange(5))
    distances = {int(((one - other) ** 2).sum()) for one in codes for other in codes}
    assert distances == {0, mechanism.sensitivity_square} == {0, 2 * STEPS_IN_INDICATOR**2}
    assert mechanism.privacy_loss().within(epsilon, delta)
    assert not gaussian_loss(2 * STEPS_IN_INDICATOR**2, mechanism.stddev - 1, 5).within(epsilon, delta)
    assert mechanism.privacy_loss().epsilon(delta) == pytest.approx(float(epsilon), rel=2e-3)


def test_the_noise_is_that_of_the_continuous_mechanism_up_to_its_integers() -> None:
    """c(1, 1e-6) = 4.22468 in another program; here c times √2."""
    assert gaussian().noise_stddev == pytest.approx(4.22468 * math.sqrt(2), rel=2e-4)


def test_indicators_are_right_on_average_and_sum_to_one() -> None:
    mechanism, labels = gaussian(4, epsilon=4), np.repeat(np.arange(4, dtype=np.uint8), 10_000)
    estimate = mechanism.unbiased(mechanism.randomize(labels, rng=np.random.default_rng(0)))
    assert np.allclose(estimate.values.sum(axis=1), 1)
    error = estimate.values - np.eye(4)[labels]
    stddev = mechanism.noise_stddev * math.sqrt(3 / 4)  # the common part of the noise is taken out
    assert error.std() == pytest.approx(stddev, rel=0.02)
    assert np.all(np.abs(error.reshape(4, 10_000, 4).mean(axis=1)) < 7.04 * stddev / 100)
    assert ldp.debias(mechanism, np.array([[STEPS_IN_INDICATOR, 0, 0, 0]])).values.tolist() == [[1, 0, 0, 0]]


def test_every_class_and_record_has_noise_of_its_own_under_a_key() -> None:
    mechanism, key = gaussian(5), KeyedRandomness(b"k" * 32)
    labels = np.zeros(300, dtype=np.uint8)
    noise = mechanism.randomize(labels, rng=key, ids=[f"record {i}" for i in range(300)]) - mechanism.encoded(labels)
    assert len(np.unique(noise)) > 1400
    again = mechanism.randomize(labels[:1], rng=key, ids=["record 7"]) - mechanism.encoded(labels[:1])
    assert np.array_equal(again[0], noise[7])


def test_a_release_is_local_and_has_its_delta() -> None:
    curator = ldp.Curator([0, 1, 2], domain=Classes(3), budget=ldp.Budget(epsilon=1, delta=1e-6))
    release = curator.release(gaussian(), rng=np.random.default_rng(6))
    assert release.value.shape == (3, 3)
    assert release.certificate.trust is Trust.LOCAL
    assert release.certificate.epsilon(0) == math.inf
    assert "3 noisy class indicators per record (Gaussian noise, sd " in release.certificate.at(1e-6)
    with pytest.raises(ldp.BudgetExceeded):
        curator.release(gaussian(), rng=np.random.default_rng(6))


def test_the_same_request_costs_once_in_a_file(tmp_path: Any) -> None:
    def release() -> Any:
        ledger = ldp.LedgerFile(tmp_path / "ledger.db")
        account = ledger.dataset("d", budget=ldp.Budget(epsilon=1, delta=1e-6))
        curator = ldp.Curator([0, 1, 2], domain=Classes(3), ledger=account, ids=["a", "b", "c"])
        return curator.release(gaussian(), rng=ldp.SystemRandomness()).value

    first = release()
    assert np.array_equal(first, release())


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "an interval": (lambda: gaussian(domain=Interval(0, 1)), "domain must be Classes"),
    "no delta": (lambda: gaussian(delta=0), "delta must lie in"),
    "a delta of one": (lambda: gaussian(delta=1), "delta must lie in"),
    "epsilon": (lambda: gaussian(epsilon=0), "epsilon must be positive"),
    "a tiny epsilon": (lambda: gaussian(epsilon="1e-12", delta="1e-30"), "too small for integer noise"),
    "other columns": (lambda: gaussian().unbiased(np.zeros((2, 4), dtype=int)), "noisy must be integers"),
    "no integers": (lambda: gaussian().indicators(np.zeros((2, 3))), "noisy must be integers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(InputError, match=message):
        make()


class OneStep(GaussianOneHot):
    """Forgets that two indicators change."""

    @property
    def sensitivity_square(self) -> int:
        return STEPS_IN_INDICATOR**2


class Quiet(GaussianOneHot):
    """Draws less noise than it claims: that of 10 % more epsilon."""

    def _noise(self, randomness: Any, names: Any) -> Integers:
        other = GaussianOneHot(domain=self.domain, epsilon=self.epsilon * 1.1, delta=self.delta)
        return other._noise(randomness, names)


class OneNoiseForAllClasses(GaussianOneHot):
    """The classes share their noise, so that differences are exact."""

    def _noise(self, randomness: Any, names: Any) -> Integers:
        return np.repeat(super()._noise(randomness, names)[:, :1], self.domain.size, axis=1)


class OneKeyForAllClasses(GaussianOneHot):
    """The classes are drawn from the same words: no matter to fresh noise, all to keyed noise."""

    def _noise(self, randomness: Any, names: Any) -> Integers:
        return np.stack(
            [discrete_gaussian(RecordStream(randomness, names), self.stddev) for _ in range(self.domain.size)], axis=1
        )


class TruthWithoutNoise(GaussianOneHot):
    """The last class gets no noise."""

    def _noise(self, randomness: Any, names: Any) -> Integers:
        noise = super()._noise(randomness, names)
        noise[:, -1] = 0
        return noise


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (OneStep, "two labels lie no further apart than said"),
        (Quiet, "the sampler follows the weights"),
        (OneNoiseForAllClasses, "the sampler follows the weights"),
        (OneKeyForAllClasses, "keyed noise of one class"),
        (TruthWithoutNoise, "the sampler follows the weights"),
    ],
)
def test_a_broken_mechanism_is_caught(kind: type, sentence: str) -> None:
    with pytest.raises(ContractViolation, match=sentence):
        check_mechanism(kind(domain=Classes(3), epsilon=4, delta=1e-6))


@pytest.mark.parametrize("grid", [2, 3, 6])
@pytest.mark.parametrize("center", [-0.9, 0.0, 0.35])
def test_squares_average_to_the_squared_distance_of_the_label(grid: int, center: float) -> None:
    mechanism = DiscreteLaplace(domain=Interval(-1, 1, grid=grid), epsilon=1.5)
    chances = np.asarray(mechanism.weights() / 2**64, dtype=np.float64)
    estimates = mechanism.unbiased_squares(np.arange(grid), np.full(grid, center))
    truth = (mechanism.domain.decode(np.arange(grid)) - center) ** 2
    assert chances @ estimates == pytest.approx(truth, rel=1e-12, abs=1e-13)

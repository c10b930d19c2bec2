"""Bodies and gradients, learners by noise on sums, and gradient descent without privacy."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from labeldp.online import (
    Ball,
    Body,
    Box,
    GaussianTree,
    LaplaceTree,
    NoisyLeader,
    ToeplitzSums,
    Unbounded,
    convex_rate,
    convex_regret,
    linear_rate,
    linear_regret,
)
from labeldp.online.convex.base import checked_gradients, gradient_units
from labeldp.privacy import InputError, PrivacyLoss, Unit, as_successive

SECRET = 54321.5


def seeded(seed: int) -> Any:
    """Words for a simulation."""
    return as_successive(np.random.default_rng(seed))


def unit_gradients(rounds: int, dimension: int, seed: int) -> np.ndarray:
    """Rows of norm one that lean to one side."""
    rows = np.random.default_rng(seed).normal(size=(rounds, dimension)) + 0.2
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def regret(body: Body, gradients: np.ndarray, played: np.ndarray) -> float:
    """Against the best point of a ball or a box."""
    total = gradients.sum(axis=0)
    return float((gradients * (played - body.center)).sum() - total @ body.project(-1e9 * total))


def test_projections() -> None:
    assert np.allclose(Ball(2, 1.0).project(np.array([[3.0, 4.0], [0.3, 0.4]])), [[0.6, 0.8], [0.3, 0.4]])
    box = Box((0, -1), (1, 3))
    assert np.array_equal(box.center, [0.5, 1.0]) and math.isclose(box.radius, math.hypot(0.5, 2))
    assert np.array_equal(box.project(np.array([[9.0, -9.0]])), [[0.5, -2.0]])
    assert np.array_equal(Unbounded(2, 1.0).project(np.array([[9.0, -9.0]])), [[9.0, -9.0]])
    assert not Unbounded(2, 1.0).bounded and box.dimension == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ball(0, 1.0), "dimension"),
        (lambda: Ball(2, 0.0), "radius"),
        (lambda: Unbounded(2, math.nan), "radius"),
        (lambda: Box((0.0,), (0.0,)), "low below high"),
        (lambda: Box((0.0,), (1.0, 2.0)), "as long as"),
        (lambda: Box((math.nan,), (1.0,)), "low must be finite"),
        (lambda: Box("a", (1.0,)), "low must be numbers"),
    ],
)
def test_bodies_that_are_none_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("gradients", "message"),
    [
        ([math.nan, 0.0], "finite"),
        ([math.inf, 0.0], "finite"),
        ([SECRET, 0.0], "longer than lipschitz = 1"),
        ([[0.9, 0.9]], "longer"),
        ([[1e308, 1e308]], "longer"),
        ([0.1, 0.1, 0.1], "2 numbers"),
        (0.1, "axes"),
        (["a", "b"], "numbers"),
    ],
)
def test_gradients_that_are_refused(gradients: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        checked_gradients(gradients, 2, 1.0)
    assert str(SECRET) not in str(error.value)


def test_gradients_are_clipped_only_when_asked() -> None:
    rows = checked_gradients([[3.0, 4.0], [0.3, 0.4], [3e307, 4e307], [0.0, 0.0]], 2, 1.0, clip=True)
    assert np.allclose(rows, [[0.6, 0.8], [0.3, 0.4], [0.6, 0.8], [0, 0]])
    assert np.array_equal(checked_gradients([0.3, 0.4], 2, 1.0), [[0.3, 0.4]])
    assert np.array_equal(checked_gradients([1.0 + 1e-13, 0.0], 2, 1.0), [[1.0, 0.0]])


def test_units_are_rounded_towards_zero() -> None:
    units = gradient_units(np.array([[0.3, -0.3], [1.0, 0.0]]), 1.0)
    assert np.array_equal(units[1], [1 << 22, 0]) and units[0, 0] == -units[0, 1]
    assert 0 <= 0.3 - units[0, 0] / 2**22 < 1 / 2**22


SUMS = [ToeplitzSums(64, 3, 4.0), GaussianTree(64, 3, 4.0)]


@pytest.mark.guarantee("labeldp.online:ConvexKernel", "causal")
@pytest.mark.guarantee("labeldp.online:NoisyLeader", "post_processing")
@pytest.mark.parametrize("sums", SUMS)
@pytest.mark.parametrize("body", [Ball(3, 0.5), Box((0.0,) * 3, (1.0,) * 3), Unbounded(3, 1.0)])
def test_points_follow_from_the_noisy_sums(sums: Any, body: Body) -> None:
    kernel = NoisyLeader(body, 2.0, 0.01, sums)
    gradients = 2 * unit_gradients(64, 3, 1)
    state, points = kernel.update(kernel.init(rng=seeded(2)), gradients, rng=seeded(2))
    _, noisy = sums.step(sums.init(), gradients / 2, rng=seeded(2))
    assert np.array_equal(points[0], body.center)
    assert np.allclose(points[1:], body.center + body.project(-0.02 * noisy[:-1]))
    changed = np.vstack([gradients[:20], -gradients[20:]])
    _, others = kernel.update(kernel.init(rng=seeded(2)), changed, rng=seeded(2))
    assert np.array_equal(points[:21], others[:21]) and not np.array_equal(points[21], others[21])
    assert repr(state) == "LeaderState(rounds=64, dimension=3)"
    with pytest.raises(InputError, match="horizon of 64"):
        kernel.update(state, gradients[:1], rng=seeded(2))


def fresh_sums(gradients: np.ndarray) -> np.ndarray:
    """A mutant: every sum gets noise of its own, as for one vector, so that differences of sums reveal a vector."""
    return np.cumsum(gradients, axis=0) + np.random.default_rng(3).normal(size=gradients.shape)


@pytest.mark.parametrize("sums", SUMS)
def test_noise_stays_in_the_points_and_grows_as_it_says(sums: Any) -> None:
    kernel = NoisyLeader(Unbounded(3, 1.0), 1.0, 1.0, sums)
    zeros = np.zeros((64, 3))
    runs = np.array([kernel.update(kernel.init(rng=seeded(s)), zeros, rng=seeded(s))[1][63] for s in range(300)])
    low, high = stats.chi2.ppf([1e-12, 1 - 1e-12], runs.size - 1) * sums.deviation**2 / (runs.size - 1)
    assert low < runs.var() < high
    mutant = np.array([fresh_sums(zeros)[63] for _ in range(300)])
    assert not low < mutant.var() < high


def test_two_rounds_are_accounted_tightly_and_half_of_the_sensitivity_is_caught() -> None:
    """The released numbers C x + noise are known: a pair of normal laws that differ by 2 L times a column of C."""
    sums = ToeplitzSums(2, 1, 5.0)
    factor = sums.factor
    column = math.hypot(factor.weights.sum(), float(factor.weights @ (1 - factor.gaps)))
    kernel = NoisyLeader(Unbounded(1, 1.0), 3.0, 0.1, sums)
    mu = 2 * column / 5.0
    for epsilon in (0.0, 0.3, 1.0):
        true = stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
        assert true <= kernel.privacy_loss(2).delta(epsilon) <= 1.001 * true
        assert sums.privacy_loss(1.0, 2).delta(epsilon) < 0.99 * true  # the mutant: L in the place of 2 L
    zero = NoisyLeader(Unbounded(1, 1.0), 3.0, 0.1, sums, Unit.ZERO_OUT)
    assert zero.privacy_loss(2).delta(0.3) < kernel.privacy_loss(2).delta(0.3)
    assert kernel.privacy_loss(0) == PrivacyLoss.zero()


@pytest.mark.parametrize("body", [Ball(5, 0.5), Box((0.0,) * 5, (1.0,) * 5)])
@pytest.mark.parametrize("stddev", [0.5, 20.0])
def test_regret_of_noisy_leaders_is_below_the_bounds(body: Body, stddev: float) -> None:
    gradients = unit_gradients(500, 5, 4)
    for sums in (ToeplitzSums(500, 5, stddev), GaussianTree(500, 5, stddev)):
        sizes = body, 500, 1.0
        linear, convex = linear_rate(*sizes, sums.deviation), convex_rate(*sizes, sums.deviation)
        for rate, bound in ((linear, linear_regret), (convex, convex_regret)):
            kernel = NoisyLeader(body, 1.0, rate, sums)
            runs = [kernel.update(kernel.init(rng=seeded(s)), gradients, rng=seeded(s))[1] for s in range(10)]
            assert np.mean([regret(body, gradients, run) for run in runs]) < bound(*sizes, rate, sums.deviation)
        assert math.isclose(
            linear_regret(*sizes, linear, sums.deviation),
            body.radius * math.sqrt(500 + 5 * sums.deviation**2),
        )


def test_gradients_may_follow_the_points() -> None:
    """Squared distances to a target, whose gradients are taken where the point was played."""
    body, target = Ball(2, 1.0), np.array([0.5, -0.25])
    sums = ToeplitzSums(2000, 2, 2.0)
    kernel = NoisyLeader(body, 3.0, convex_rate(body, 2000, 3.0, 3 * sums.deviation), sums)
    rng = seeded(5)
    state, played = kernel.init(rng=rng), []
    for _ in range(2000):
        gradient = kernel.predict(state) - target
        state, point = kernel.update(state, gradient[np.newaxis], rng=rng)
        played.append(point[0])
    losses = ((np.array(played) - target) ** 2).sum(axis=1) / 2
    assert losses.sum() < convex_regret(body, 2000, 3.0, kernel.rate, 3 * sums.deviation)
    assert np.linalg.norm(np.mean(played[1000:], axis=0) - target) < 0.2


def test_leaders_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="width of 2"):
        NoisyLeader(Ball(2, 1.0), 1.0, 0.1, ToeplitzSums(10, 3, 1.0))
    with pytest.raises(InputError, match="rate"):
        NoisyLeader(Ball(3, 1.0), 1.0, -0.1, ToeplitzSums(10, 3, 1.0))
    with pytest.raises(InputError, match="neighbors"):
        NoisyLeader(Ball(3, 1.0), 1.0, 0.1, ToeplitzSums(10, 3, 1.0), Unit.FULL)
    with pytest.raises(InputError, match="Gaussian noise"):  # a gradient of length 1 has numbers up to sqrt(3) in sum
        NoisyLeader(Ball(3, 1.0), 1.0, 0.1, LaplaceTree(10, 3, 0.1, 255))

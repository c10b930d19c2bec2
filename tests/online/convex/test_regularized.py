"""Regularized multiplicative weights: what points reveal against enumeration, what coins read, and regret."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from labeldp.online import Ball, Box, LinearMeasure, RegularizedWeights, SampledWeights, Unbounded, regularized_regret
from labeldp.online.convex.base import GRADIENT_BITS, gradient_units
from labeldp.online.convex.points import draw_failure
from labeldp.online.convex.regularized import binomial_most, coin_worst
from labeldp.privacy import InputError, PrivacyLoss, Unit, as_successive

LINE = Box((-1.0,), (1.0,))

GRID = np.linspace(-1, 1, 33)

COARSE = 1e-3
"""Relative error of a curve on this grid: the law of points is continuous."""


def law(total: float, kernel: Any) -> np.ndarray:
    """The weights of a grid of points, in the place of all points."""
    log = -kernel.beta * (total * GRID + kernel.strength * GRID**2)
    masses = np.exp(log - log.max())
    return masses / masses.sum()


def paths(gradients: list[float], kernel: RegularizedWeights) -> np.ndarray:
    """P(x_1, x_2, …) of a point for each batch of one round, with the reference summed out."""
    eta, keep = kernel.beta * 2 * kernel.lipschitz, float(1 - kernel.redraw)
    first = law(0.0, kernel)
    joint = first[:, None] * (first if kernel.reference else np.ones(1) * 1.0)[None, :]
    total = 0.0
    for gradient in gradients:
        total += gradient
        fresh, cost = law(total, kernel), kernel.beta * gradient * GRID
        size = joint.shape[-1]
        if kernel.reference:
            stay = keep * np.exp(-np.maximum(cost[:, None] - cost[None, :] + 2 * eta, 0))
            other = keep * np.eye(size) + (1 - keep) * fresh[None, :]
        else:
            stay = keep * np.exp(-(cost + eta / 2))[:, None]
            other = np.ones((1, 1))
        move = stay[:, None, :] * np.eye(len(GRID))[:, :, None] + (1 - stay)[:, None, :] * fresh[None, :, None]
        joint = np.einsum("...xy,xzy,yw->...xzw", joint, move, other)
    return joint.sum(axis=-1)


def hockey(first: np.ndarray, second: np.ndarray, epsilon: float) -> float:
    """The true delta, of both orders."""
    return max(float(np.maximum(a - math.exp(epsilon) * b, 0).sum()) for a, b in ((first, second), (second, first)))


def line_kernel(redraw: float, reference: bool, beta: float, strength: float, neighbors: Unit) -> Any:
    """A learner on a line that moves after every round."""
    return RegularizedWeights(LINE, 4, 1.0, beta, strength, 1, Fraction(redraw), reference, neighbors)


@pytest.mark.guarantee("labeldp.online:RegularizedWeights", "gaussian")
@pytest.mark.parametrize("neighbors", [Unit.ONE_LOSS, Unit.ZERO_OUT])
@pytest.mark.parametrize(("redraw", "reference"), [(1.0, False), (0.5, False), (0.125, False), (0.5, True)])
@pytest.mark.parametrize(("beta", "strength"), [(0.05, 0.5), (0.4, 2.0), (0.2, 30.0)])
def test_what_points_reveal_is_never_more_than_the_loss(
    neighbors: Unit, redraw: float, reference: bool, beta: float, strength: float
) -> None:
    kernel = line_kernel(redraw, reference, beta, strength, neighbors)
    replaced = 0.0 if neighbors is Unit.ZERO_OUT else -1.0
    for rounds in ([1.0], [1.0, -1.0], [1.0, 1.0, -0.5]):
        if reference and len(rounds) > 2:
            continue
        loss = kernel.privacy_loss(len(rounds))
        truth, other = paths(rounds, kernel), paths([replaced, *rounds[1:]], kernel)
        assert math.isclose(truth.sum(), 1.0)
        for epsilon in (0.0, 0.05, 0.2, 0.7):
            assert hockey(truth, other, epsilon) <= loss.delta(epsilon) * (1 + COARSE)


def test_one_draw_is_accounted_tightly_and_half_of_its_sensitivity_is_caught() -> None:
    """In space a draw is a normal number that moves by 2 L / (2 strength): the loss is that, and hardly more."""
    kernel = RegularizedWeights(Unbounded(1, 1.0), 1, 3.0, 0.5, 2.0, 1)
    mu = 2 * 3.0 / (2 * 2.0) * math.sqrt(2 * 0.5 * 2.0)
    for epsilon in (0.0, 1.0, 3.0):
        true = stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
        assert true <= kernel.privacy_loss(1).delta(epsilon) <= 1.0001 * true
        assert PrivacyLoss.gaussian(kernel.mu / 2).delta(epsilon) < 0.99 * true  # the mutant: L in the place of 2 L
    zero = RegularizedWeights(Unbounded(1, 1.0), 1, 3.0, 0.5, 2.0, 1, neighbors=Unit.ZERO_OUT)
    assert math.isclose(zero.mu, kernel.mu / 2)


def test_enumeration_catches_an_account_without_the_coin() -> None:
    kernel = line_kernel(0.125, False, 0.4, 2.0, Unit.ONE_LOSS)
    truth, other = paths([1.0], kernel), paths([-1.0], kernel)
    draws = PrivacyLoss.gaussian(kernel.mu * 0.5)
    assert any(hockey(truth, other, e) > draws.delta(e) for e in np.linspace(0, 1.5, 31))


@pytest.mark.parametrize(("neighbors", "swing"), [(Unit.ONE_LOSS, 1.0), (Unit.ZERO_OUT, 0.5)])
@pytest.mark.parametrize(("reference", "longest"), [(False, 1), (True, 3)])
def test_the_loss_of_lazy_draws_by_hand(reference: bool, longest: int, neighbors: Unit, swing: float) -> None:
    """Equations (4) and (5): with a reference the coin tilts twice as far, and redraws come with e^(-3 B eta)."""
    redraw, batch, batches = 0.125, 4, 60
    kernel = RegularizedWeights(
        Ball(2, 1.0), 240, 1.0, 0.01, 3.0, batch, Fraction(1, 8), reference, neighbors, tail=1e-3
    )
    eta = 2 * 0.01  # 2 beta L R
    heads = (1 - redraw) * math.exp(-batch * eta if reference else 0.0)
    tilt = (2 if reference else 1) * swing * eta
    coin = max(tilt, math.log((1 - heads * math.exp(-tilt)) / (1 - heads)))
    often = 1 - (1 - redraw) * math.exp(-longest * batch * eta)
    chains = [(batches - 1, often), (batches, redraw)][: 1 + reference]
    draws = 1 + sum(min(k for k in range(n) if stats.binom.sf(k, n, q) <= 1e-3 / 4) for n, q in chains)
    missed = sum(stats.binom.sf(stats.binom.isf(1e-3 / 4, n, q), n, q) for n, q in chains)
    by_hand = PrivacyLoss.pure(Fraction(coin)) + PrivacyLoss.gaussian(kernel.mu * math.sqrt(draws))
    loss = kernel.privacy_loss(batch * batches + 3)
    for epsilon in (0.0, 0.2, 0.5):
        assert loss.delta(epsilon) == pytest.approx(by_hand.delta(epsilon) + missed, rel=1e-4)


def test_coins_within_their_bounds_never_lose_more() -> None:
    rng = np.random.default_rng(1)
    for _ in range(2000):
        tilt, redraw, shift = rng.uniform(0.01, 1), rng.uniform(0.01, 0.99), rng.uniform(0, 1)
        heads = (1 - redraw) * np.exp(-shift) * rng.uniform(0.001, 1)
        other = heads * np.exp(-tilt * rng.uniform(0, 1))
        worst = max(abs(math.log(heads / other)), abs(math.log((1 - heads) / (1 - other))))
        assert worst <= coin_worst(tilt, redraw, shift)


@pytest.mark.parametrize("body", [Ball(3, 0.5), Box((-1.0, 0.0), (2.0, 0.5)), Ball(1, 2.0)])
def test_costs_are_bounded_for_certain(body: Any) -> None:
    measure = LinearMeasure(body, 1.7, 0.3, 5.0)
    rng = np.random.default_rng(2)
    gradients = rng.normal(size=(400, body.dimension))
    gradients *= 1.7 / np.linalg.norm(gradients, axis=1, keepdims=True)
    units = gradient_units(gradients, 1.7)
    worst = [body.project(sign * 1e9 * gradients[:5]) / measure.step for sign in (1, -1)]
    for point in np.trunc(np.concatenate(worst)).astype(np.int64):
        costs = measure.costs(units, point)
        assert costs.min() >= 0 and costs.max() <= measure.bound
        exact = 0.3 * (gradients @ (point * measure.step))
        spread = costs[0] * float(measure.unit) - exact[0]
        assert np.allclose(costs * float(measure.unit) - exact, spread, atol=1e-5)
    assert math.isclose(float(measure.unit * measure.bound), 0.3 * 2 * 1.7 * body.radius, rel_tol=1e-5)
    assert (np.linalg.norm(units, axis=1) <= 1 << GRADIENT_BITS).all()


def test_the_dartboard_keeps_the_law_of_the_weights() -> None:
    """Points after three batches, some of them kept, have the law of a fresh draw; that of two batches is rejected."""
    kernel = line_kernel(0.25, False, 0.4, 0.5, Unit.ONE_LOSS)
    gradients = np.array([[1.0], [-1.0], [1.0]])
    found = []
    rng = as_successive(np.random.default_rng(3))
    for _ in range(800):
        state, _ = kernel.update(kernel.init(rng=rng), gradients, rng=rng)
        found.append(float(kernel.predict(state)[0]))
    points = np.linspace(-1, 1, 20_001)

    def p_value(total: float) -> float:
        masses = np.exp(-0.4 * (total * points + 0.5 * points**2))
        below = np.cumsum(masses) / masses.sum()
        return float(stats.kstest(found, lambda x: np.interp(x, points, below)).pvalue)

    assert p_value(1.0) > 1e-12
    assert p_value(-1.0) < 1e-12


@pytest.mark.parametrize("options", [{}, {"redraw": Fraction(1, 8)}, {"redraw": Fraction(1, 8), "reference": True}])
@pytest.mark.parametrize("body", [Ball(3, 0.5), Box((0.0, -1.0), (1.0, 1.0)), Unbounded(2, 1.0)])
def test_regret_is_below_its_bound(body: Any, options: dict[str, Any]) -> None:
    if not body.bounded and options:
        return
    rng = np.random.default_rng(4)
    gradients = rng.normal(size=(400, body.dimension)) + 0.5
    gradients /= np.linalg.norm(gradients, axis=1, keepdims=True)
    kernel = RegularizedWeights(body, 400, 1.0, 0.5, 30.0, 8, **options)
    regrets = []
    for seed in range(8):
        source_ = as_successive(np.random.default_rng(seed))
        state, played = kernel.update(kernel.init(rng=source_), gradients, rng=source_)
        total = gradients.sum(axis=0)
        best = body.project(-1e9 * total) if body.bounded else -body.radius * total / np.linalg.norm(total)
        regrets.append(float((gradients * (played - body.center)).sum() - total @ best))
        assert state.rounds == 400
    assert np.mean(regrets) < regularized_regret(body, 400, 1.0, 0.5, 30.0, 8)


def test_rounds_may_come_in_any_portions() -> None:
    kernel = RegularizedWeights(Ball(2, 1.0), 30, 1.0, 0.5, 3.0, 4)
    gradients = np.full((30, 2), 0.5)
    rng = as_successive(np.random.default_rng(5))
    state = kernel.init(rng=rng)
    played = []
    for part in (slice(0, 3), slice(3, 3), slice(3, 29), slice(29, 30)):
        shown = kernel.predict(state)
        state, points = kernel.update(state, gradients[part], rng=rng)
        assert len(points) == 0 or np.array_equal(points[0], shown)
        played.append(points)
    points = np.concatenate(played)
    assert all(np.ptp(points[i : i + 4], axis=0).max() == 0 for i in range(0, 30, 4))
    assert len(np.unique(points, axis=0)) == 8
    assert "0.5" not in repr(state)


def test_most_draws_are_seldom_surpassed() -> None:
    for trials, probability in ((1000, 0.01), (50, 0.5), (7, 1e-9)):
        most, missed = binomial_most(trials, probability, 1e-8)
        assert stats.binom.sf(most, trials, probability) <= missed <= 1e-8
    assert binomial_most(0, 0.5, 1e-8) == (0, 0.0) and binomial_most(9, 1.0, 1e-8) == (9, 0.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"body": Unbounded(1, 1.0), "redraw": Fraction(1, 2)}, "without bounds"),
        ({"reference": True}, "reference must be False"),
        ({"beta": 0.0}, "beta"),
        ({"strength": math.inf}, "strength"),
        ({"batch": 0}, "batch"),
        ({"redraw": 0}, "redraw"),
        ({"tail": 0.0}, "tail"),
        ({"neighbors": Unit.FULL}, "neighbors"),
        ({"body": Unbounded(2, 1.0), "beta": 1e-40}, "too wide for integers of 64 bits"),
        ({"body": Unbounded(2, 1.0), "strength": 1e-30}, "too wide for integers of 64 bits"),
    ],
)
def test_what_is_out_of_range_is_refused(change: dict[str, Any], message: str) -> None:
    good = {"body": LINE, "horizon": 4, "lipschitz": 1.0, "beta": 1.0, "strength": 1.0, "batch": 1}
    with pytest.raises(InputError, match=message):
        RegularizedWeights(**{**good, **change})


def test_an_unlikely_point_of_a_ball_limits_epsilon() -> None:
    given = {"horizon": 4, "lipschitz": 1.0, "beta": 1.0, "strength": 1.0, "batch": 1}
    [limit] = RegularizedWeights(Ball(2, 1.0), **given).assumptions
    assert limit == "the guarantee is read at an epsilon of at most 20"
    assert math.exp(20 - 50) < float(draw_failure(Ball(2, 1.0))) / 100
    for body in (Ball(1, 1.0), LINE, Unbounded(2, 1.0)):
        assert RegularizedWeights(body, **given).assumptions == ()


class Exact:
    """A sampler for sums of squares (x - a)²/2 in space: normal points, exactly but for doubles."""

    distance = 1e-10

    def draw(self, losses: Any, beta: float, strength: float, body: Any, *, rng: Any) -> np.ndarray:
        """A normal point around the mean of all that pulls."""
        precision = beta * (len(losses) + 2 * strength)
        mean = beta * np.sum(losses, axis=0) / precision if losses else np.zeros(body.dimension)
        words = np.empty(body.dimension, dtype=np.uint64)
        rng.fill(words, rng.record_ids(None, len(words)))
        return mean + stats.norm.ppf((words + 0.5) / 2.0**64) / math.sqrt(precision)


@pytest.mark.guarantee("labeldp.online:SampledWeights", "gaussian")
def test_general_losses_need_a_sampler_that_answers_for_itself() -> None:
    kernel = SampledWeights(Ball(2, 1.0), 10, 1.0, 0.1, 5.0, 2, Exact(), 1.0)
    mu = 2 * math.sqrt(0.1 / (2 * 5.0)) * math.sqrt(5)
    promised = PrivacyLoss.gaussian(mu).delta(1.0) + 5e-10 * (1 + math.e)
    assert promised <= kernel.privacy_loss(10).delta(1.0) <= 1.001 * promised
    assert kernel.privacy_loss(1).epsilon(0) == 0
    assert "within 1e-10" in kernel.assumptions[1] and "at most 1" in kernel.assumptions[2]
    rng = as_successive(np.random.default_rng(6))
    state, played = kernel.update(kernel.init(rng=rng), [np.ones(2)] * 7, rng=rng)
    assert len(np.unique(played, axis=0)) == 4 and state.rounds == 7
    with pytest.raises(InputError, match="horizon"):
        kernel.update(state, [np.ones(2)] * 4, rng=rng)
    for silent in (None, object()):
        with pytest.raises(InputError, match="constants"):
            SampledWeights(Ball(2, 1.0), 10, 1.0, 0.1, 5.0, 2, silent, 1.0)

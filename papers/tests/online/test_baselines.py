"""Baselines without privacy: their laws by hand, their bounds, and that they promise nothing."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from labeldp.online import Ball, Body, Box
from labeldp.privacy import InputError, KeyedRandomness, PrivacyLoss, as_randomness
from labeldp.testing.laws import check_law
from online.convex.test_base import regret, seeded, unit_gradients
from online.laws import weights
from online.lazy import BATCHES
from papers.online.baselines import MultiplicativeWeights, OnlineGradientDescent

FIRST_LOSSES = np.minimum(BATCHES, 1).astype(np.uint8) * np.uint8(255)

WEIGHTS_KERNEL = MultiplicativeWeights(3, Fraction(1))


def test_actions_are_independent_draws() -> None:
    rng = as_randomness(np.random.default_rng(0))

    def draw(count: int) -> np.ndarray:
        found = np.zeros(count, dtype=np.intp)
        for i in range(count):
            state, played = WEIGHTS_KERNEL.update(WEIGHTS_KERNEL.init(rng=rng), FIRST_LOSSES, rng=rng)
            for action in [*played.tolist(), WEIGHTS_KERNEL.predict(state)]:
                found[i] = found[i] * 3 + action
        return found

    def law(rate: float) -> np.ndarray:
        steps = weights(np.cumsum(np.vstack([np.zeros(3), np.minimum(BATCHES, 1)]), axis=0), rate)
        return np.einsum("a,b,c,d->abcd", *steps).ravel()

    check_law(draw, law(1.0), law(2.0))


def test_it_promises_nothing() -> None:
    """No finite epsilon is promised; the draws are exact all the same."""
    assert WEIGHTS_KERNEL.privacy_loss(0) == PrivacyLoss.failure(1)
    assert WEIGHTS_KERNEL.privacy_loss(10).epsilon(1e-6) == float("inf")
    assert "nothing is protected" in WEIGHTS_KERNEL.assumptions[0]


def test_one_round_at_a_time_and_sparse() -> None:
    one, two = np.random.default_rng(5), np.random.default_rng(5)
    state, other = WEIGHTS_KERNEL.init(rng=one), WEIGHTS_KERNEL.init(rng=two)
    other, all_at_once = WEIGHTS_KERNEL.update(other, FIRST_LOSSES, rng=two)
    played = []
    for t in range(len(FIRST_LOSSES)):
        assert WEIGHTS_KERNEL.predict(state) == all_at_once[t]
        state, [action] = WEIGHTS_KERNEL.update(state, sp.csr_array(FIRST_LOSSES[t : t + 1]), rng=one)
        played.append(action)
    assert played == all_at_once.tolist() and repr(state) == repr(other) == "WeightsState(rounds=3)"
    assert np.array_equal(state.totals, other.totals)


def test_what_is_refused_of_mw() -> None:
    with pytest.raises(InputError, match="rate must be positive"):
        MultiplicativeWeights(3, Fraction(-1))
    with pytest.raises(InputError, match="keyed randomness would repeat its words"):
        WEIGHTS_KERNEL.init(rng=KeyedRandomness(bytes(32)))
    with pytest.raises(InputError, match="losses must be a matrix of uint8 levels"):
        WEIGHTS_KERNEL.update(
            WEIGHTS_KERNEL.init(rng=np.random.default_rng(0)), FIRST_LOSSES / 255, rng=np.random.default_rng(0)
        )


@pytest.mark.parametrize("body", [Ball(5, 0.5), Box((0.0,) * 5, (1.0,) * 5)])
def test_gradient_descent_promises_nothing_and_keeps_its_bound(body: Body) -> None:
    """Nothing is promised."""
    gradients = unit_gradients(500, 5, 6)
    kernel = OnlineGradientDescent(body, 500, 1.0)
    state, points = kernel.update(kernel.init(rng=seeded(0)), gradients, rng=seeded(0))
    assert np.array_equal(points[0], body.center)
    assert np.allclose(points[1], body.center + body.project(-kernel.rate * gradients[0]))
    assert regret(body, gradients, points) < body.radius * math.sqrt(500)
    assert kernel.privacy_loss(1).epsilon(0.5) == math.inf
    assert "nothing is protected" in kernel.assumptions[0] and state.rounds == 500
    with pytest.raises(InputError, match="horizon"):
        kernel.update(state, gradients, rng=seeded(0))

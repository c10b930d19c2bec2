"""Multiplicative weights without privacy."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from labeldp.online import MultiplicativeWeights
from labeldp.privacy import InputError, KeyedRandomness, PrivacyLoss, as_randomness
from labeldp.testing.laws import check_law
from online.laws import weights
from online.lazy import BATCHES

LOSSES = np.minimum(BATCHES, 1).astype(np.uint8) * np.uint8(255)
KERNEL = MultiplicativeWeights(3, Fraction(1))


def test_actions_are_independent_draws() -> None:
    rng = as_randomness(np.random.default_rng(0))

    def draw(count: int) -> np.ndarray:
        found = np.zeros(count, dtype=np.intp)
        for i in range(count):
            state, played = KERNEL.update(KERNEL.init(rng=rng), LOSSES, rng=rng)
            for action in [*played.tolist(), KERNEL.predict(state)]:
                found[i] = found[i] * 3 + action
        return found

    def law(rate: float) -> np.ndarray:
        steps = weights(np.cumsum(np.vstack([np.zeros(3), np.minimum(BATCHES, 1)]), axis=0), rate)
        return np.einsum("a,b,c,d->abcd", *steps).ravel()

    check_law(draw, law(1.0), law(2.0))


def test_it_promises_nothing() -> None:
    """No finite epsilon is promised; the draws are exact all the same."""
    assert KERNEL.privacy_loss(0) == PrivacyLoss.failure(1)
    assert KERNEL.privacy_loss(10).epsilon(1e-6) == float("inf")
    assert "nothing is protected" in KERNEL.assumptions[0]


def test_one_round_at_a_time_and_sparse() -> None:
    one, two = np.random.default_rng(5), np.random.default_rng(5)
    state, other = KERNEL.init(rng=one), KERNEL.init(rng=two)
    other, all_at_once = KERNEL.update(other, LOSSES, rng=two)
    played = []
    for t in range(len(LOSSES)):
        assert KERNEL.predict(state) == all_at_once[t]
        state, [action] = KERNEL.update(state, sp.csr_array(LOSSES[t : t + 1]), rng=one)
        played.append(action)
    assert played == all_at_once.tolist() and repr(state) == repr(other) == "WeightsState(rounds=3)"
    assert np.array_equal(state.totals, other.totals)


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="rate must be positive"):
        MultiplicativeWeights(3, Fraction(-1))
    with pytest.raises(InputError, match="keyed randomness would repeat its words"):
        KERNEL.init(rng=KeyedRandomness(bytes(32)))
    with pytest.raises(InputError, match="losses must be a matrix of uint8 levels"):
        KERNEL.update(KERNEL.init(rng=np.random.default_rng(0)), LOSSES / 255, rng=np.random.default_rng(0))

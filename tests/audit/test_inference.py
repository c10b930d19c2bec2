"""Label inference from one training: with canaries and without, honest and not."""

import math

import numpy as np
import pytest

from audit.peers import in_each_epoch, memorized
from labeldp.audit import Canaries, audit_observed, audit_training
from labeldp.privacy import InputError

CLASSES = 4


def labels_and_law(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    law = rng.dirichlet(np.ones(CLASSES), count)
    return (law.cumsum(axis=1) > rng.random((count, 1))).argmax(axis=1), law


@pytest.mark.guarantee("labeldp.audit:Canaries.bound", "bound")
@pytest.mark.parametrize("of", [2, 4])
def test_canaries_bound_epsilon_of_a_training_that_learns_by_heart(of: int) -> None:
    above, bounds = 0, []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        labels, _ = labels_and_law(600, rng)

        def learn(codes: np.ndarray, rng: np.random.Generator = rng) -> np.ndarray:
            return memorized(in_each_epoch(codes, CLASSES, 1.0, 1, rng), CLASSES)

        bounds.append(audit_training(learn, labels, CLASSES, canaries=500, rng=rng, of=of).epsilon)
        above += bounds[-1] > 1
    assert above <= 14
    assert np.mean(bounds) > 0.3


def test_training_on_noise_of_each_epoch_is_found_with_canaries_and_without() -> None:
    rng = np.random.default_rng(1)
    labels, law = labels_and_law(3000, rng)

    def learn(codes: np.ndarray) -> np.ndarray:
        return np.log(memorized(in_each_epoch(codes, CLASSES, 1.0, 10, rng), CLASSES) + 0.05)

    bound = audit_training(learn, labels, CLASSES, canaries=2000, rng=rng)
    assert bound.refutes(1.2) and "canaries" in bound.how
    found = audit_observed(learn(labels), labels, law, rng=rng)
    assert found.refutes(1.2) and "of the proxy" in found.how


@pytest.mark.guarantee("labeldp.audit:Canaries.bound", "bound")
@pytest.mark.guarantee("labeldp.audit:audit_observed", "bound")
def test_without_canaries_the_bound_is_above_epsilon_with_probability_1_minus_level_at_most() -> None:
    above, bounds = 0, []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        labels, law = labels_and_law(1000, rng)
        scores = memorized(in_each_epoch(labels, CLASSES, 1.0, 1, rng), CLASSES)
        bounds.append(audit_observed(scores, labels, law, rng=rng).epsilon)
        above += bounds[-1] > 1
    assert above <= 14
    assert np.mean(bounds) > 0.1


def test_a_proxy_that_is_off_needs_slack() -> None:
    """Nothing was released, but whoever knows that one class is rarer than the proxy says guesses well."""
    rng = np.random.default_rng(2)
    labels = (rng.random(4000) < 0.2).astype(int)
    off = np.full((4000, 2), 0.5)
    scores = np.log(np.tile([0.8, 0.2], (4000, 1)))
    assert audit_observed(scores, labels, off, rng=rng).epsilon > 1.0  # the condition does not hold
    assert audit_observed(scores, labels, off, rng=rng, slack=math.log(4)).epsilon == 0.0


def test_canaries_are_planted_uniformly_and_nothing_else_changes() -> None:
    rng = np.random.default_rng(3)
    labels = np.zeros(1000, dtype=int)
    planted = Canaries.plant(labels, 5, 400, rng=rng, of=3)
    assert len(set(planted.rows)) == 400 and planted.choices.shape == (400, 3)
    assert bool((planted.labels[planted.rows] == planted.choices[np.arange(400), planted.drawn]).all())
    assert bool((np.delete(planted.labels, planted.rows) == 0).all()) and bool((labels == 0).all())
    assert np.bincount(planted.drawn, minlength=3).min() > 90
    assert all(len(set(row)) == 3 for row in planted.choices.tolist())
    assert "array" not in repr(planted)


def test_what_cannot_be_audited_is_refused() -> None:
    rng = np.random.default_rng(4)
    for labels, classes, count, of, message in (
        ([0, 1, 5], 3, 1, 2, "labels must be codes below classes"),
        ([0.5, 1], 3, 1, 2, "labels must be codes below classes"),
        ([0, 1], 3, 5, 2, "count must"),
        ([0, 1], 3, 1, 4, "of must"),
    ):
        with pytest.raises(InputError, match=message):
            Canaries.plant(labels, classes, count, rng=rng, of=of)
    planted = Canaries.plant([0, 1, 1], 3, 2, rng=rng)
    for scores in ([[1, 2, 3]], [1, 2], [[math.nan, 0, 0]] * 2, [[0.0], [0.0]]):
        with pytest.raises(InputError, match="scores must"):
            planted.bound(scores)
    for proxy, slack, message in (
        ([[0.5, 0.6]] * 2, 0, "proxy must have rows"),
        ([[1.5, -0.5]] * 2, 0, "proxy must have rows"),
        ([[0.5, 0.5]] * 2, -1, "slack must not be negative"),
        ([[0.5, 0.5]] * 3, 0, "scores must"),
    ):
        with pytest.raises(InputError, match=message):
            audit_observed([[0.0, 1.0]] * 2, [0, 1], proxy, rng=rng, slack=slack)

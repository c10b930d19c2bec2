"""Regret by hand, exact averages against enumeration and simple loops, and reprs that tell nothing."""

import numpy as np
import pytest

from labeldp.online import (
    Actions,
    Kernel,
    Regret,
    expected_doubling,
    expected_softmax,
    expected_weights,
    measured_regret,
)
from labeldp.privacy import InputError, Randomness, as_randomness

RNG = np.random.default_rng(0)

LEVELS = RNG.integers(0, 256, size=(53, 4)).astype(np.uint8)


class Given(Kernel[int]):
    """Plays what it is told; the state is the round."""

    experts, levels = 4, 255

    def __init__(self, plays: list[int]) -> None:
        self.plays = plays

    def init(self, *, rng: Randomness) -> int:
        return 0

    def predict(self, state: int) -> int:
        return self.plays[state]

    def update(self, state: int, losses: np.ndarray, *, rng: Randomness) -> tuple[int, Actions]:
        return state + len(losses), np.array(self.plays[state : state + len(losses)])

    def privacy_loss(self, rounds: int):
        raise NotImplementedError


def cut(levels: np.ndarray, *places: int) -> list[np.ndarray]:
    """The same rounds in blocks."""
    return np.split(levels, places)


def weights(levels: np.ndarray, rate: float, batch: int) -> float:
    """The mean loss of multiplicative weights, round by round."""
    loss, losses = 0.0, levels / 255
    for t in range(len(losses)):
        raised = np.exp(-rate * losses[: t // batch * batch].sum(axis=0))
        loss += float(raised @ losses[t] / raised.sum())
    return loss


def test_regret_by_hand() -> None:
    levels = np.array([[255, 0, 51, 255], [0, 255, 51, 255], [0, 255, 51, 255]], dtype=np.uint8)
    found = measured_regret(Given([0, 0, 2]), cut(levels, 1), rng=as_randomness(np.random.default_rng(0)))
    assert found == Regret(3, loss=1.2, best=pytest.approx(0.6), switches=1)
    assert found.regret == pytest.approx(0.6)


@pytest.mark.parametrize("batch", [1, 2, 7, 16, 100])
@pytest.mark.parametrize("rate", [0.05, 3.0])
def test_weights_are_those_of_the_losses_before_the_batch(rate: float, batch: int) -> None:
    expected = weights(LEVELS, rate, batch)
    for blocks in ([LEVELS], cut(LEVELS, 1, 2, 30), cut(LEVELS, *range(1, 53))):
        found = expected_weights(blocks, rate=rate, batch=batch)
        assert found.loss == pytest.approx(expected, rel=1e-5)
        assert found.best == pytest.approx(LEVELS.sum(axis=0).min() / 255) and found.rounds == 53


def test_the_mean_over_noise_is_that_of_a_simple_loop_and_without_noise_that_of_weights() -> None:
    silent = expected_softmax(cut(LEVELS, 9), rate=0.7, deviation=lambda t: np.zeros(len(t)))
    assert silent.loss == pytest.approx(expected_weights([LEVELS], rate=0.7).loss, rel=1e-5)
    levels = np.tile(LEVELS // [[2, 1, 1, 1]], (3, 1))
    before, walk = np.vstack([np.zeros(4), (levels / 255).cumsum(axis=0)[:-1]]), np.random.default_rng(1)
    noise = walk.normal(size=(400, *before.shape)).cumsum(axis=1)  # correlated over rounds, of deviation √(t + 1)
    raised = np.exp(-0.3 * (before + noise))
    drawn = (raised / raised.sum(axis=2, keepdims=True) * levels / 255).sum(axis=(1, 2))

    def mean(factor: float) -> list[float]:
        noisy = {"rate": 0.3, "deviation": lambda t: factor * np.sqrt(t + 1.0)}
        return [expected_softmax([levels], **noisy, seed=seed).loss for seed in range(50)]

    error = np.hypot(drawn.std() / 20, np.std(mean(1.0)) / np.sqrt(50))
    assert abs(drawn.mean() - np.mean(mean(1.0))) < 7.2 * error
    assert abs(drawn.mean() - np.mean(mean(0.5))) > 7.2 * error, "the test can fail"


def test_a_draw_for_each_epoch_by_the_losses_of_the_one_before() -> None:
    losses, expected = LEVELS / 255, 0.0
    for epoch in range(6):
        first, last = 2**epoch - 1, min(2 ** (epoch + 1) - 1, 53)
        before = losses[2 ** (epoch - 1) - 1 : first].sum(axis=0) if epoch else np.zeros(4)
        raised = np.exp(-0.5 * before)
        expected += float(raised @ losses[first:last].sum(axis=0) / raised.sum())
    for blocks in ([LEVELS], cut(LEVELS, 3, 4, 20)):
        assert expected_doubling(blocks, rate=0.5).loss == pytest.approx(expected)


def test_blocks_with_many_experts_are_cut_into_parts_that_do_not_matter() -> None:
    levels = np.random.default_rng(2).integers(0, 256, size=(600, 1000)).astype(np.uint8)
    assert expected_weights([levels], rate=0.1, batch=3).loss == pytest.approx(weights(levels, 0.1, 3), rel=1e-5)


def test_large_levels_stay_exact() -> None:
    levels = np.random.default_rng(3).integers(65_000, 65_536, size=(3000, 2)).astype(np.uint16)
    found = expected_weights([levels], rate=0.01, levels=65_535)
    losses = levels / 65_535
    before = np.vstack([np.zeros(2), losses.cumsum(axis=0)[:-1]])
    share = 1 / (1 + np.exp(-0.01 * (before[:, 1] - before[:, 0])))
    assert found.loss == pytest.approx((share * losses[:, 0] + (1 - share) * losses[:, 1]).sum(), rel=1e-6)
    assert found.best == pytest.approx(losses.sum(axis=0).min(), rel=1e-12)


def test_a_repr_tells_nothing() -> None:
    found = expected_weights([LEVELS], rate=0.1)
    assert repr(found) == "Regret(rounds=53)"


@pytest.mark.parametrize("measure", [expected_weights, expected_doubling])
def test_no_rounds_are_refused(measure) -> None:
    with pytest.raises(InputError, match="no rounds"):
        measure([], rate=1.0)
    with pytest.raises(InputError, match="no rounds"):
        measured_regret(Given([]), [], rng=as_randomness(np.random.default_rng(0)))

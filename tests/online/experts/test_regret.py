"""Regret by hand, exact averages against enumeration and simple loops, and reprs that tell nothing."""

from collections.abc import Callable
from math import isclose

import numpy as np
import pytest

from labeldp.online.experts.kernel import Actions, Kernel
from labeldp.online.experts.regret import (
    BLOCK_ROUNDS,
    Alternating,
    Epochs,
    Gap,
    LossSequence,
    Regret,
    Shift,
    Trap,
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


def test_the_reference_figures_for_multiplicative_weights() -> None:
    """Of 10^5 rounds and 100 experts, where nothing or almost nothing depends on the seed."""
    rate = np.sqrt(8 * np.log(100) / 1e5)
    found = [expected_weights(each.blocks(), rate=rate).regret for each in (Gap(10**5, 100), Trap(10**5, 100))]
    assert found == [pytest.approx(246, rel=0.01), pytest.approx(243, rel=0.01)]


def test_a_repr_tells_nothing() -> None:
    found = expected_weights(Epochs.of_length(64, 3, 8).blocks(), rate=0.1)
    assert repr(found) == "Regret(rounds=64)"


@pytest.mark.parametrize("measure", [expected_weights, expected_doubling])
def test_no_rounds_are_refused(measure) -> None:
    with pytest.raises(InputError, match="no rounds"):
        measure([], rate=1.0)
    with pytest.raises(InputError, match="no rounds"):
        measured_regret(Given([]), [], rng=as_randomness(np.random.default_rng(0)))


MADE: list[Callable[[int, int, int], LossSequence]] = [
    lambda t, d, seed: Gap(t, d, seed, 0.02),
    lambda t, d, seed: Epochs.of_length(t, d, 10, seed),
    lambda t, d, seed: Epochs.hard(t, d, t**-0.3, seed),
    lambda t, d, seed: Alternating(t, d, seed, 7),
    Shift,
    Trap,
]


def levels(sequence: LossSequence) -> np.ndarray:
    """All rounds."""
    return np.concatenate(list(sequence.blocks()))


@pytest.mark.guarantee("labeldp.online:LossSequence", "repeatable")
@pytest.mark.parametrize("make", MADE)
def test_the_same_description_yields_the_same_levels_block_by_block(make: Callable[..., LossSequence]) -> None:
    blocks = list(make(2 * BLOCK_ROUNDS + 5, 3, 1).blocks())
    assert [block.shape for block in blocks] == [(BLOCK_ROUNDS, 3), (BLOCK_ROUNDS, 3), (5, 3)]
    assert all(block.dtype == np.uint8 for block in blocks)
    again = levels(make(2 * BLOCK_ROUNDS + 5, 3, 1))
    assert np.array_equal(np.concatenate(blocks), again) and again.max() == 255 and again.min() == 0
    if not isinstance(make(5, 3, 1), Trap | Alternating):
        assert not np.array_equal(levels(make(2 * BLOCK_ROUNDS + 5, 3, 2)), again)


def within(lost: np.ndarray, mean: float) -> bool:
    """Whether the share of losses is at most eight deviations from the mean."""
    return abs(lost.mean() / 255 - mean) < 8 * 0.5 / np.sqrt(lost.size)


def test_the_best_of_independent_experts_is_ahead_by_the_gap() -> None:
    lost = levels(Gap(40_000, 6, 3, 0.1))
    assert set(np.unique(lost)) == {0, 255}
    assert within(lost[:, 0], 0.4) and within(lost[:, 1:], 0.5)
    assert abs(np.corrcoef(lost[1:, 1], lost[:-1, 1])[0, 1]) < 0.04
    assert np.abs(np.corrcoef(lost.T) - np.eye(6)).max() < 0.04


def test_the_best_expert_changes_in_the_middle() -> None:
    lost = levels(Shift(40_001, 4, 3, 0.2))
    first, second = lost[:20_001], lost[20_001:]
    assert within(first[:, 0], 0.3) and within(first[:, 1:], 0.5)
    assert within(second[:, 1], 0.3) and within(np.delete(second, 1, axis=1), 0.5)


def test_a_vector_is_held_for_an_epoch() -> None:
    lost = levels(Epochs.of_length(4000, 20, 100, 0)).reshape(40, 100, 20)
    assert (lost == lost[:, :1]).all() and len(np.unique(lost[:, 0], axis=0)) == 40 and within(lost[:, 0], 0.5)
    single = levels(Epochs.of_length(30_000, 2, 1, 0))
    assert within(single, 0.5) and within((single[1:] != single[:-1]) * 255, 0.5)


def test_the_lower_bound_has_its_number_of_epochs() -> None:
    sequence = Epochs.hard(10_000, 30, 0.01, 4)
    assert sequence.epochs == int(100 ** (4 / 3)) == 464
    changes = (np.diff(levels(sequence).astype(int), axis=0) != 0).any(axis=1)
    assert changes.sum() == 463 and set(np.diff(np.flatnonzero(changes))) <= {21, 22}
    assert Epochs.hard(10_000, 2, 0.1).epochs == 10_000, "T^(-1/4) itself: an epoch is a round"


@pytest.mark.parametrize("epsilon", [0.1001, 1.0, 0.0, 0.9e-4])
def test_epochs_shorter_than_a_round_are_refused_with_the_reason(epsilon: float) -> None:
    with pytest.raises(InputError, match=r"T\^\(-1/4\) = 0\.1, .* shorter than a round"):
        Epochs.hard(10_000, 2, epsilon)


def test_halves_alternate() -> None:
    lost = levels(Alternating(8, 4, length=2)) // 255
    odd, even = [1, 1, 0, 0], [0, 0, 1, 1]
    assert lost.tolist() == [odd, odd, even, even, odd, odd, even, even]


def test_the_two_of_the_trap_swap_at_every_power_of_two() -> None:
    lost = levels(Trap(4096, 3))
    assert (lost[:, 0] + lost[:, 1] == 255).all() and isclose(lost[:4096, 2].mean(), 127.5)
    changes = np.flatnonzero(np.diff(lost[:, 0].astype(int))) + 2  # the round that is new, counted from 1
    assert changes.tolist() == [2**k for k in range(1, 13)]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Gap(0, 2),
        lambda: Trap(5, 1),
        lambda: Gap(5, 2, gap=0.0),
        lambda: Shift(5, 2, gap=0.6),
        lambda: Epochs(5, 2, epochs=6),
        lambda: Epochs.of_length(5, 2, 0),
        lambda: Alternating(5, 2, length=0),
    ],
)
def test_what_is_no_sequence_is_refused(make: Callable[[], LossSequence]) -> None:
    with pytest.raises(InputError):
        make()

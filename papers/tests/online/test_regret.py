"""Made-up sequences of losses are what they say, and a learner's regret on them."""

from collections.abc import Callable
from math import isclose

import numpy as np
import pytest

from labeldp.online import expected_weights
from labeldp.privacy import InputError
from papers.online.regret import BLOCK_ROUNDS, Alternating, Epochs, Gap, LossSequence, Shift, Trap

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


@pytest.mark.parametrize("make", MADE)
def test_the_same_description_yields_the_same_levels_block_by_block(make: Callable[..., LossSequence]) -> None:
    """The same description yields the same levels, block by block."""
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


def test_the_reference_figures_for_multiplicative_weights() -> None:
    """Of 10^5 rounds and 100 experts, where nothing or almost nothing depends on the seed."""
    rate = np.sqrt(8 * np.log(100) / 1e5)
    found = [expected_weights(each.blocks(), rate=rate).regret for each in (Gap(10**5, 100), Trap(10**5, 100))]
    assert found == [pytest.approx(246, rel=0.01), pytest.approx(243, rel=0.01)]

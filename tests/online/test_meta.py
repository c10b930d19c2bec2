"""The better of two learners: what it plays, and what the three of them cost."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array

from labeldp.online import BetterOfTwo, DoublingExponential, Kernel, MatrixFactorization, PlainRedraw, TreeNoise
from labeldp.privacy import InputError, Neighbors, PrivacyLoss, as_randomness

ROUNDS = 3000


def rng(seed: int):
    return as_randomness(np.random.default_rng(seed))


def better(experts: int = 3, **options) -> BetterOfTwo:
    return BetterOfTwo(
        DoublingExponential(experts, 1, **options),
        MatrixFactorization(experts, ROUNDS, Fraction(1, 10), 3.0, **options),
        TreeNoise(2, ROUNDS, Fraction(1, 20), stddev=5.0, **options),
    )


def play(kernel: Kernel, losses: np.ndarray, seed: int = 1) -> np.ndarray:
    return kernel.update(kernel.init(rng=rng(seed)), losses, rng=rng(seed + 1))[1]


def regret(actions: np.ndarray, losses: np.ndarray) -> float:
    return (losses[np.arange(len(losses)), actions].sum() - losses.sum(axis=0).min()) / 255


def test_the_loss_is_that_of_all_three() -> None:
    """The privacy loss is that of both learners and of the chooser together."""
    kernel = better()
    parts = (kernel.first, kernel.second, kernel.chooser)
    for rounds in (0, 1, 100, ROUNDS):
        together = kernel.privacy_loss(rounds)
        total = PrivacyLoss.zero()
        for part in parts:
            total = total + part.privacy_loss(rounds)
        assert together == total
        if rounds:
            assert together.epsilon(1e-6) > max(part.privacy_loss(rounds).epsilon(1e-6) for part in parts)


def test_it_follows_the_better_one_on_kind_data_and_on_bad_days() -> None:
    kind = np.tile(np.array([[255, 100, 255]], dtype=np.uint8), (ROUNDS, 1))
    bad = np.zeros((ROUNDS, 3), dtype=np.uint8)
    epochs = np.floor(np.log2(np.arange(1, ROUNDS + 1))).astype(int)
    for epoch in range(12):
        bad[epochs == epoch] = (255, 0, 255) if epoch % 2 else (0, 255, 255)
    for losses in (kind, bad):
        kernel = better()
        regrets = [regret(play(each, losses), losses) for each in (kernel.first, kernel.second, kernel)]
        assert regrets[2] <= min(regrets[:2]) + 0.12 * ROUNDS
    assert regrets[0] > regrets[2], "on bad days the first learner alone is worse"


def test_it_plays_what_one_of_the_two_plays_and_the_first_action_was_predicted() -> None:
    kernel, losses = better(), np.random.default_rng(0).integers(0, 256, size=(50, 3), dtype=np.uint8)
    state, source = kernel.init(rng=rng(0)), rng(1)
    for row in losses:
        options = {kernel.first.predict(state.first), kernel.second.predict(state.second)}
        chosen = kernel.predict(state)
        state, [action] = kernel.update(state, row[None], rng=source)
        assert action == chosen and action in options


def test_the_chooser_sees_what_the_two_of_them_paid() -> None:
    seen = []

    class Watching:
        experts, levels, neighbors = 2, 255, Neighbors.ONE_LOSS

        def init(self, *, rng: object) -> int:
            return 0

        def update(self, state: int, losses: np.ndarray, *, rng: object) -> tuple[int, np.ndarray]:
            seen.append(losses)
            return state, np.arange(len(losses)) % 2

    first, second = PlainRedraw(3, 2, 1), PlainRedraw(3, 5, 1)
    losses = np.random.default_rng(0).integers(0, 256, size=(40, 3), dtype=np.uint8)
    kernel, source = BetterOfTwo(first, second, Watching()), rng(5)
    actions = kernel.update(kernel.init(rng=source), losses, rng=rng(6))[1]
    paid = losses[np.arange(40), actions]
    assert seen[0].dtype == np.uint8 and (seen[0][np.arange(40), np.arange(40) % 2] == paid).all()


def test_sparse_losses_are_played_like_dense_ones() -> None:
    losses = np.random.default_rng(0).integers(0, 2, size=(200, 3), dtype=np.uint8)
    assert (play(better(), losses) == play(better(), csr_array(losses))).all()


def test_it_has_the_experts_levels_and_neighbors_of_the_two() -> None:
    kernel = better(5, levels=65535, neighbors=Neighbors.ZERO_OUT)
    assert (kernel.experts, kernel.levels, kernel.neighbors) == (5, 65535, Neighbors.ZERO_OUT)
    assert len(play(kernel, np.full((9, 5), 40_000, dtype=np.uint16))) == 9


D = DoublingExponential
REFUSED = {
    "other experts": (lambda: BetterOfTwo(D(3, 1), D(4, 1), D(2, 1)), "first and second must have the same experts"),
    "a wide chooser": (lambda: BetterOfTwo(D(3, 1), D(3, 1), D(3, 1)), "chooser 2 of them"),
    "other levels": (lambda: BetterOfTwo(D(3, 1), D(3, 1, levels=65535), D(2, 1)), "the same levels and neighbors"),
    "other neighbors": (
        lambda: BetterOfTwo(D(3, 1), D(3, 1), D(2, 1, neighbors=Neighbors.ZERO_OUT)),
        "the same levels and neighbors",
    ),
    "losses": (lambda: play(better(), np.zeros((2, 3))), "losses must be a matrix of uint8 levels"),
    "more rounds": (lambda: play(better(), np.zeros((ROUNDS + 1, 3), dtype=np.uint8)), "more rounds than the horizon"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused(case: str) -> None:
    call, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        call()

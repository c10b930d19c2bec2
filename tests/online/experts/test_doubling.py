"""One draw for each epoch: its exact law, and that every pair of neighbors keeps epsilon."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array

from labeldp.online import BatchedDartboard, BetterOfTwo, DoublingExponential, Kernel, MatrixFactorization, TreeNoise
from labeldp.privacy import InputError, KeyedRandomness, PrivacyLoss, Unit, as_randomness
from labeldp.testing.laws import check_law

ROUNDS = 3

EPOCHS = ((0, 1), (1, 3))
"""Epochs that end within three rounds; a third begins after them."""


def rng(seed: int):
    return as_randomness(np.random.default_rng(seed))


def epoch_totals(losses: np.ndarray) -> list[np.ndarray]:
    """What each of the draws reads."""
    return [np.zeros(losses.shape[1]), *(losses[first:last].sum(axis=0) for first, last in EPOCHS)]


def running_totals(losses: np.ndarray) -> list[np.ndarray]:
    """A mutant: draws read all losses so far."""
    return [losses[:last].sum(axis=0) for last in (0, 1, 3)]


def law(losses: np.ndarray, rate: float, totals: Callable[[np.ndarray], list[np.ndarray]]) -> np.ndarray:
    """Of the experts of the first three epochs."""
    table = np.ones(1)
    for total in totals(losses):
        weights = np.exp(-rate * total)
        table = np.outer(table, weights / weights.sum()).ravel()
    return table


def worst_ratio(rate: float, zero_out: bool, totals: Callable[[np.ndarray], list[np.ndarray]], experts: int) -> float:
    """The largest log-ratio of probabilities over all pairs of neighbors with losses 0 and 1."""
    vectors = [np.array(bits, dtype=float) for bits in itertools.product((0, 1), repeat=experts)]
    worst = 0.0
    for rounds in itertools.product(vectors, repeat=ROUNDS):
        base = law(np.array(rounds), rate, totals)
        for place in range(ROUNDS):
            for vector in vectors[:1] if zero_out else vectors:
                changed = np.array(rounds)
                changed[place] = vector
                worst = max(worst, float(np.abs(np.log(law(changed, rate, totals) / base)).max()))
    return worst


@pytest.mark.guarantee("labeldp.online:DoublingExponential", "pure")
@pytest.mark.guarantee("labeldp.online:DoublingExponential", "one_use")
@pytest.mark.parametrize("neighbors", [Unit.ONE_LOSS, Unit.ZERO_OUT])
@pytest.mark.parametrize("experts", [2, 3])
def test_every_pair_of_neighbors_keeps_epsilon(neighbors: Unit, experts: int) -> None:
    epsilon = 1.5
    kernel = DoublingExponential(experts, epsilon, neighbors=neighbors)
    zero_out = neighbors is Unit.ZERO_OUT
    worst = worst_ratio(float(kernel.rate), zero_out, epoch_totals, experts)
    assert 0.4 * epsilon < worst <= epsilon * (1 + 1e-12)
    assert worst_ratio(float(kernel.rate), zero_out, running_totals, experts) > worst, "losses used twice are seen"
    assert kernel.privacy_loss(0) == PrivacyLoss.zero()
    assert kernel.privacy_loss(1) == kernel.privacy_loss(10**9) == PrivacyLoss.pure(epsilon)


def test_replaced_losses_with_the_rate_of_zeroed_ones_would_exceed_epsilon() -> None:
    many = np.zeros((1, 50)), np.r_[0.0, np.ones(49)][None]
    one, other = (np.exp(-1.0 * each) / np.exp(-1.0 * each).sum() for each in (many[1], 1 - many[1]))
    assert np.abs(np.log(one / other)).max() > 1.5
    one, other = (np.exp(-0.5 * each) / np.exp(-0.5 * each).sum() for each in (many[1], 1 - many[1]))
    assert np.abs(np.log(one / other)).max() <= 1.0


@pytest.mark.parametrize("splits", [(3,), (1, 2), (2, 1), (1, 1, 1)])
def test_actions_have_their_law_and_not_another(splits: tuple[int, ...]) -> None:
    losses = np.array([[255, 0], [102, 255], [0, 255]], dtype=np.uint8)
    kernel, source = DoublingExponential(2, 4), rng(1)

    def draw(count: int) -> np.ndarray:
        found = np.empty(count, dtype=np.intp)
        for i in range(count):
            state, actions, start = kernel.init(rng=source), [], 0
            for rounds in splits:
                state, played = kernel.update(state, losses[start : start + rounds], rng=source)
                actions, start = [*actions, *played], start + rounds
            assert actions[1] == actions[2]
            found[i] = 4 * actions[0] + 2 * actions[1] + kernel.predict(state)
        return found

    claimed = law(losses / 255, 2.0, epoch_totals)
    check_law(draw, claimed, law(losses / 255, 2.0, running_totals))


def test_epochs_have_1_2_4_rounds_and_one_action_each() -> None:
    losses = np.random.default_rng(0).integers(0, 2, size=(1000, 50)).astype(np.uint8)
    _, actions = DoublingExponential(50, "0.1").update(
        DoublingExponential(50, "0.1").init(rng=rng(0)), losses, rng=rng(1)
    )
    changes = np.flatnonzero(np.diff(actions)) + 1
    assert set(changes) <= {1, 3, 7, 15, 31, 63, 127, 255, 511} and len(changes) >= 6


def test_a_draw_reads_the_newest_epoch_alone() -> None:
    losses = np.zeros((7, 2), dtype=np.uint8)
    losses[:3, 0], losses[3:, 1] = 255, 255
    kernel = DoublingExponential(2, 200)
    state, actions = kernel.update(kernel.init(rng=rng(0)), losses, rng=rng(1))
    assert list(actions[1:]) == [1] * 6 and kernel.predict(state) == 0
    assert not state.totals.any()


def test_rates_are_exact() -> None:
    assert DoublingExponential(2, "0.3").rate == Fraction(3, 20)
    assert DoublingExponential(2, "0.3", neighbors=Unit.ZERO_OUT).rate == Fraction(3, 10)
    assert math.isclose(DoublingExponential(2, 0.3).privacy_loss(5).epsilon(0), 0.3)


REFUSED = {
    "one expert": (lambda: DoublingExponential(1, 1), "experts must be an integer, at least 2"),
    "no epsilon": (lambda: DoublingExponential(2, 0), "epsilon must be positive"),
    "levels": (lambda: DoublingExponential(2, 1, levels=7), "levels must be 255 or 65535"),
    "neighbors": (lambda: DoublingExponential(2, 1, neighbors=Unit.FULL), "neighbors must be Unit.ONE_LOSS"),
    "a key": (lambda: DoublingExponential(2, 1).init(rng=KeyedRandomness(bytes(32))), "keyed randomness would repeat"),
    "losses": (
        lambda: DoublingExponential(2, 1).update(None, np.zeros((1, 3), dtype=np.uint8), rng=rng(0)),
        "2 columns, one for each expert",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused(case: str) -> None:
    call, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        call()


MANY_ROUNDS = 3000


def better(experts: int = 3, **options) -> BetterOfTwo:
    return BetterOfTwo(
        DoublingExponential(experts, 1, **options),
        MatrixFactorization(experts, MANY_ROUNDS, Fraction(1, 10), 3.0, **options),
        TreeNoise(2, MANY_ROUNDS, Fraction(1, 20), stddev=5.0, **options),
    )


def play(kernel: Kernel, losses: np.ndarray, seed: int = 1) -> np.ndarray:
    return kernel.update(kernel.init(rng=rng(seed)), losses, rng=rng(seed + 1))[1]


def regret(actions: np.ndarray, losses: np.ndarray) -> float:
    losses = losses.astype(np.int64)  # a regret can be negative
    return (losses[np.arange(len(losses)), actions].sum() - losses.sum(axis=0).min()) / 255


@pytest.mark.guarantee("labeldp.online:BetterOfTwo", "composed")
def test_the_loss_is_that_of_all_three() -> None:
    kernel = better()
    parts = (kernel.first, kernel.second, kernel.chooser)
    for rounds in (0, 1, 100, MANY_ROUNDS):
        together = kernel.privacy_loss(rounds)
        total = PrivacyLoss.zero()
        for part in parts:
            total = total + part.privacy_loss(rounds)
        assert together == total
        if rounds:
            assert together.epsilon(1e-6) > max(part.privacy_loss(rounds).epsilon(1e-6) for part in parts)


def test_it_follows_the_better_one_on_kind_data_and_on_bad_days() -> None:
    kind = np.tile(np.array([[255, 100, 255]], dtype=np.uint8), (MANY_ROUNDS, 1))
    bad = np.zeros((MANY_ROUNDS, 3), dtype=np.uint8)
    epochs = np.floor(np.log2(np.arange(1, MANY_ROUNDS + 1))).astype(int)
    for epoch in range(12):
        bad[epochs == epoch] = (255, 0, 255) if epoch % 2 else (0, 255, 255)
    for losses in (kind, bad):
        kernel = better()
        regrets = [regret(play(each, losses), losses) for each in (kernel.first, kernel.second, kernel)]
        assert regrets[2] <= min(regrets[:2]) + 0.12 * MANY_ROUNDS
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
        experts, levels, neighbors = 2, 255, Unit.ONE_LOSS

        def init(self, *, rng: object) -> int:
            return 0

        def update(self, state: int, losses: np.ndarray, *, rng: object) -> tuple[int, np.ndarray]:
            seen.append(losses)
            return state, np.arange(len(losses)) % 2

    first, second = BatchedDartboard(3, 2, 1, 1), BatchedDartboard(3, 5, 1, 1)
    losses = np.random.default_rng(0).integers(0, 256, size=(40, 3), dtype=np.uint8)
    kernel, source = BetterOfTwo(first, second, Watching()), rng(5)
    actions = kernel.update(kernel.init(rng=source), losses, rng=rng(6))[1]
    paid = losses[np.arange(40), actions]
    assert seen[0].dtype == np.uint8 and (seen[0][np.arange(40), np.arange(40) % 2] == paid).all()


def test_sparse_losses_are_played_like_dense_ones() -> None:
    losses = np.random.default_rng(0).integers(0, 2, size=(200, 3), dtype=np.uint8)
    assert (play(better(), losses) == play(better(), csr_array(losses))).all()


def test_it_has_the_experts_levels_and_neighbors_of_the_two() -> None:
    kernel = better(5, levels=65535, neighbors=Unit.ZERO_OUT)
    assert (kernel.experts, kernel.levels, kernel.neighbors) == (5, 65535, Unit.ZERO_OUT)
    assert len(play(kernel, np.full((9, 5), 40_000, dtype=np.uint16))) == 9


D = DoublingExponential

BETTER_REFUSED = {
    "other experts": (lambda: BetterOfTwo(D(3, 1), D(4, 1), D(2, 1)), "first and second must have the same experts"),
    "a wide chooser": (lambda: BetterOfTwo(D(3, 1), D(3, 1), D(3, 1)), "chooser 2 of them"),
    "other levels": (lambda: BetterOfTwo(D(3, 1), D(3, 1, levels=65535), D(2, 1)), "the same levels and neighbors"),
    "other neighbors": (
        lambda: BetterOfTwo(D(3, 1), D(3, 1), D(2, 1, neighbors=Unit.ZERO_OUT)),
        "the same levels and neighbors",
    ),
    "losses": (lambda: play(better(), np.zeros((2, 3))), "losses must be a matrix of uint8 levels"),
    "more rounds": (
        lambda: play(better(), np.zeros((MANY_ROUNDS + 1, 3), dtype=np.uint8)),
        "more rounds than the horizon",
    ),
}


@pytest.mark.parametrize("case", BETTER_REFUSED)
def test_bad_input_is_refused_of_two(case: str) -> None:
    call, message = BETTER_REFUSED[case]
    with pytest.raises(InputError, match=message):
        call()

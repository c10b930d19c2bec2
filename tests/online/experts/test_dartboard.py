"""The batched dartboard: the bits of `play`, its exact law in every division into calls, and broken ones."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp import online
from labeldp.online import BatchedDartboard, LazyState, quantize
from labeldp.online.experts import dartboard
from labeldp.online.experts.kernel import rows_of
from labeldp.online.experts.lazy import play
from labeldp.privacy import WORD, InputError, KeyedRandomness, Trust, Unit, as_randomness
from labeldp.sampling import ExponentialWeights, KeepCoin
from labeldp.testing import ContractViolation
from labeldp.testing.laws import check_law
from online.laws import dartboard_law, fixed, marginals, weights
from online.lazy import BATCHES, Chosen, cut, decay, paths, rounds

LOSSES = rounds(BATCHES, 2)

RATE, REDRAW = Fraction(1), Fraction(1, 2)

DARTBOARD = BatchedDartboard(3, 2, RATE, REDRAW)


def law_of_batches(rate: float = 1.0, redraw: float = 0.5, batches: np.ndarray = BATCHES) -> np.ndarray:
    """All paths of actions, exactly."""
    return dartboard_law(fixed(batches[None]), rate, redraw)[0]


@pytest.mark.guarantee("labeldp.online:BatchedDartboard", "law")
def test_in_every_batch_the_action_has_exactly_the_law_of_multiplicative_weights() -> None:
    before = np.cumsum(np.vstack([np.zeros(3), BATCHES]), axis=0)
    for redraw in (0.001, 0.25, 1.0):
        assert np.allclose(marginals(law_of_batches(redraw=redraw)[None], 3)[0], weights(before, 1.0), atol=1e-14)


def test_actions_follow_the_exact_law(whenever: None) -> None:
    check_law(paths(DARTBOARD, LOSSES, 1), law_of_batches(), law_of_batches(rate=1.8))


@pytest.mark.slow
@pytest.mark.guarantee("labeldp.online:Kernel", "causal")
def test_the_law_does_not_depend_on_how_rounds_are_divided() -> None:
    rng = np.random.default_rng(9)
    check_law(
        paths(DARTBOARD, LOSSES, 2, lambda: sorted(rng.integers(0, 7, 2).tolist())),
        law_of_batches(),
        law_of_batches(rate=2.5),
    )
    check_law(paths(DARTBOARD, LOSSES, 3, lambda: list(range(1, 6))), law_of_batches(), law_of_batches(rate=2.5))


def test_other_names() -> None:
    assert online.ShrinkingDartboard(3, 0.5, REDRAW) == BatchedDartboard.shrinking(3, 0.5, REDRAW)
    assert BatchedDartboard.shrinking(3, 0.5, REDRAW) == BatchedDartboard(3, 1, 0.5, REDRAW)
    plain = BatchedDartboard(3, 1, 1, 1)
    check_law(
        paths(plain, rounds(BATCHES[1:], 1), 4),
        law_of_batches(redraw=1.0, batches=np.minimum(BATCHES[1:], 1)),
        law_of_batches()[:27],
    )


def same_state(one: LazyState[Any], other: LazyState[Any]) -> bool:
    """Whether two states are equal, and of the same types."""
    arrays = [(getattr(one, name), getattr(other, name)) for name in ("history", "points", "costs")]
    return one.rounds == other.rounds and all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in arrays)


def plays_alike(kernel: BatchedDartboard, losses: np.ndarray, seed: int, cuts: list[int], form: Any) -> None:
    """The kernel plays what `play` does from the same words, and leaves the source where that leaves it."""
    one, other = np.random.default_rng(seed), np.random.default_rng(seed)
    state = known = kernel.init(rng=one)
    kernel.init(rng=other)
    for part in np.split(losses, cuts):
        state, actions = kernel.update(state, form(part) if len(part) else part, rng=one)
        rows = rows_of(part, kernel.experts, kernel.levels)
        known, expected = play(kernel.measure, kernel.batch, kernel.redraw, known, rows, rng=as_randomness(other))
        assert actions.tolist() == expected.tolist() and actions.dtype == expected.dtype
        assert same_state(state, known)
        assert one.bit_generator.state == other.bit_generator.state


@settings(max_examples=60)
@given(
    st.sampled_from([2, 10, 32, 33, 100]),
    st.sampled_from([1, 2, 3, 7, 40]),
    st.sampled_from([255, 65_535]),
    st.sampled_from([("1/1000", "1/256"), ("1/4", "1/2"), ("1/8", "1"), ("40", "1/1048576"), ("1/400", "1/128")]),
    st.integers(1, 3000),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_its_bits_are_those_of_play(
    experts: int, batch: int, levels: int, law: tuple[str, str], count: int, seed: int, sparse: bool
) -> None:
    """However the rounds are divided into calls, and sparse or dense: snapshots and keyed runs of older versions go
    on with the same bits."""
    rng = np.random.default_rng(seed)
    losses = rng.integers(0, levels + 1, (count, experts)).astype(np.uint8 if levels == 255 else np.uint16)
    losses[rng.random(count) < 0.3] = 0
    cuts = np.sort(rng.integers(0, count + 1, rng.integers(0, 6))).tolist()
    kernel = BatchedDartboard(experts, batch, Fraction(law[0]), Fraction(law[1]), levels)
    plays_alike(kernel, losses, seed, cuts, sp.csr_array if sparse else np.asarray)


def test_its_bits_are_those_of_play_one_round_a_call() -> None:
    losses = np.random.default_rng(0).integers(0, 256, (700, 4), dtype=np.uint8)
    for batch in (1, 2, 5):
        plays_alike(BatchedDartboard(4, batch, 0.01, Fraction(1, 64)), losses, batch, list(range(1, 700)), np.asarray)


def test_draws_that_wait_are_made_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dartboard, "FEW_WEIGHTS", 64)
    monkeypatch.setattr(dartboard, "WORDS_AHEAD", 512)
    losses = np.random.default_rng(0).integers(0, 256, (20_000, 10), dtype=np.uint8)
    for redraw in (Fraction(1, 128), Fraction(1)):
        plays_alike(BatchedDartboard(10, 1, Fraction(1, 200), redraw), losses, 5, [7, 7000], np.asarray)


def forget_redraw(kernel: BatchedDartboard) -> KeepCoin:
    """A coin without its factor of 1 - p."""
    return KeepCoin(kernel.measure.unit, Fraction(1))


class Late(dartboard._Course):
    """Coins that read the batch before the newest."""

    def cost(self, end: int) -> int:
        """The loss one batch before."""
        return super().cost(end - self._kernel.batch) if end > self.first else 0


@pytest.fixture(params=["waits", "at once"])
def whenever(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws that wait, and draws that are made at once."""
    monkeypatch.setattr(dartboard, "FEW_EXPERTS", 32 if request.param == "waits" else 0)


@pytest.mark.slow
def test_a_coin_without_its_share_of_redraws_is_caught(whenever: None, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = BatchedDartboard(3, 2, RATE, REDRAW)
    kernel.__dict__["_coin"] = forget_redraw(kernel)
    with pytest.raises(ContractViolation):
        check_law(paths(kernel, LOSSES, 5), law_of_batches(), law_of_batches(redraw=0.0))


@pytest.mark.slow
def test_a_word_that_is_taken_for_heads_too_early_is_caught(whenever: None) -> None:
    """As if an action could not lose anything."""
    kernel = BatchedDartboard(3, 2, RATE, REDRAW)
    kernel.__dict__["_heads_below"] = kernel._coin.heads_below(0)
    with pytest.raises(ContractViolation):
        check_law(paths(kernel, LOSSES, 8), law_of_batches(), law_of_batches(rate=0.5))


@pytest.mark.slow
def test_a_coin_that_reads_another_batch_is_caught(whenever: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dartboard, "_Course", Late)
    with pytest.raises(ContractViolation):
        check_law(paths(DARTBOARD, LOSSES, 6), law_of_batches(), law_of_batches(rate=1.8))


def test_a_draw_by_other_weights_is_caught(whenever: None, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = BatchedDartboard(3, 2, RATE, REDRAW)
    monkeypatch.setattr(dartboard, "ExponentialWeights", lambda unit: ExponentialWeights(2 * unit))
    with pytest.raises(ContractViolation):
        check_law(paths(kernel, LOSSES, 7), law_of_batches(), law_of_batches(rate=1.8))


def keeps_action(history: list[int], spent: int, words: list[int]) -> bool:
    """Is expert 0 kept after a batch in which it lost two levels, given earlier losses?"""
    state = LazyState(np.array(history), np.array([0]), np.array([spent]), 7)
    losses = np.array([[2 - spent, 200, 7]], dtype=np.uint8)
    after, _ = DARTBOARD.update(state, losses, rng=Chosen([*words, WORD // 2]))
    # A draw would be of the best expert by far.
    return int(after.points[0]) == 0


@pytest.mark.guarantee("labeldp.online:BatchedDartboard", "switching")
@pytest.mark.parametrize("history", [[10**6, 0, 10**6], [5 * 10**7, 10**7, 0]])
@pytest.mark.parametrize("spent", [0, 1])
def test_switching_reads_the_newest_batch_alone(history: list[int], spent: int) -> None:
    word, more = cut((1 - REDRAW) * decay(Fraction(2, 255)), 128)
    assert keeps_action(history, spent, [word, more - 1])
    assert not keeps_action(history, spent, [word, more + 1])


def test_sparse_and_dense_losses_are_played_alike() -> None:
    rng = np.random.default_rng(0)
    for levels, bits in ((255, 8), (65_535, 16)):
        kernel = BatchedDartboard(20, 3, 0.01, Fraction(1, 8), levels=levels)
        losses = quantize(np.where(rng.random((400, 20)) < 0.2, rng.random((400, 20)), 0.0), bits)
        played = []
        for form in (np.asarray, sp.csr_array, np.asfortranarray):
            own = np.random.default_rng(1)
            state, actions = kernel.update(kernel.init(rng=own), form(losses), rng=own)
            assert np.array_equal(state.history, losses.sum(axis=0, dtype=np.int64))
            played.append(actions.tolist())
        assert played[0] == played[1] == played[2]
        assert len(set(played[0])) > 5


def test_actions_and_states_fit_together() -> None:
    rng = as_randomness(np.random.default_rng(4))
    state = DARTBOARD.init(rng=rng)
    for _ in range(50):
        first = DARTBOARD.predict(state)
        copy = (state.history.copy(), state.points.copy(), state.costs.copy())
        after, actions = DARTBOARD.update(state, LOSSES[:5], rng=rng)
        assert actions[0] == first and len(actions) == 5
        changes = np.flatnonzero(np.diff([*actions, DARTBOARD.predict(after)])) + 1 + state.rounds
        assert np.all(changes % 2 == 0), "an action lasts for a batch"
        assert all(np.array_equal(a, b) for a, b in zip(copy, (state.history, state.points, state.costs), strict=True))
        assert [a.shape for a in (after.history, after.points, after.costs)] == [(3,), (1,), (1,)]
        state = after
    assert state.rounds == 250
    same, none = DARTBOARD.update(state, LOSSES[:0], rng=rng)
    assert same_state(same, state) and len(none) == 0


def expected_switches(batches: np.ndarray, rate: float, redraw: float) -> float:
    """How often the action changes, from the exact marginals."""
    totals = np.cumsum(np.vstack([np.zeros(batches.shape[1]), batches]), axis=0)
    law = weights(totals, rate)
    drawn = 1 - (1 - redraw) * np.exp(-rate * batches)
    return float(np.sum(law[:-1] * drawn * (1 - law[1:])))


def test_expected_switches() -> None:
    rng = np.random.default_rng(2)
    batches = rng.integers(0, 3, (60, 8))
    kernel, losses = BatchedDartboard(8, 2, 0.05, Fraction(1, 16)), rounds(batches, 2)
    own = as_randomness(np.random.default_rng(3))
    counts = []
    for _ in range(400):
        state, actions = kernel.update(kernel.init(rng=own), losses, rng=own)
        counts.append(np.count_nonzero(np.diff([*actions, kernel.predict(state)])))
    error = np.std(counts) / np.sqrt(len(counts))
    assert abs(np.mean(counts) - expected_switches(batches, 0.05, 1 / 16)) < 7.1 * error
    assert abs(np.mean(counts) - expected_switches(batches, 0.05, 1 / 8)) > 7.1 * error
    assert abs(np.mean(counts) - expected_switches(batches, 0.0, 1 / 16)) > 7.1 * error


def test_its_loss_is_that_of_the_accountant() -> None:
    kernel = BatchedDartboard.shrinking(1000, Fraction(165, 10**5), Fraction(round(0.0033 * 2**32), 2**32))
    assert kernel.privacy_loss(10**6 - 1).epsilon(1e-6) == pytest.approx(0.748, abs=5e-4)
    assert kernel.trust is Trust.CENTRAL
    assert kernel.privacy_loss(0).epsilon(0) == 0
    removed = BatchedDartboard.shrinking(1000, kernel.rate, kernel.redraw, neighbors=Unit.ZERO_OUT)
    assert removed.privacy_loss(10**6 - 1).epsilon(1e-6) < 0.7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"experts": 1}, "experts must be an integer, at least 2"),
        ({"batch": 0}, "batch must be an integer, at least 1"),
        ({"batch": 2.0}, "batch must be an integer, at least 1"),
        ({"rate": 0}, "rate must be positive"),
        ({"rate": float("nan")}, "rate must be finite"),
        ({"redraw": 0}, r"redraw must lie in \(0, 1\]"),
        ({"redraw": 1.5}, r"redraw must lie in \(0, 1\]"),
        ({"redraw": 0.1}, r"a multiple of 2\*\*-32"),
        ({"levels": 100}, "levels must be 255 or 65535"),
        ({"neighbors": Unit.ONE_LABEL}, "neighbors must be Unit.ONE_LOSS or Unit.ZERO_OUT"),
        ({"neighbors": "replace"}, "neighbors must be Unit.ONE_LOSS or Unit.ZERO_OUT"),
    ],
)
def test_parameters_that_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        BatchedDartboard(**{"experts": 3, "batch": 2, "rate": 0.5, "redraw": 0.25, **change})


WRONG: list[Callable[[np.ndarray], Any]] = [
    lambda losses: losses[:, :2],
    lambda losses: losses[0],
    lambda losses: losses.astype(np.uint16),
    lambda losses: losses / 255,
    lambda losses: losses.tolist(),
    lambda losses: sp.csc_array(losses),
]


@pytest.mark.parametrize("change", WRONG)
def test_losses_that_are_refused(change: Callable[[np.ndarray], Any]) -> None:
    rng = np.random.default_rng(0)
    state = DARTBOARD.init(rng=rng)
    with pytest.raises(InputError, match=r"losses must be a matrix of uint8 levels|canonical CSR format"):
        DARTBOARD.update(state, change(LOSSES), rng=rng)


def test_keyed_randomness_is_refused() -> None:
    keyed = KeyedRandomness(bytes(32))
    with pytest.raises(InputError, match="keyed randomness would repeat its words"):
        DARTBOARD.init(rng=keyed)
    with pytest.raises(InputError, match="keyed randomness would repeat its words"):
        DARTBOARD.update(DARTBOARD.init(rng=np.random.default_rng(0)), LOSSES, rng=keyed)


def test_a_state_shows_its_number_of_rounds_alone() -> None:
    state = LazyState(np.array([54_321] * 3), np.array([54_321]), np.array([54_321]), 7)
    assert repr(state) == "LazyState(rounds=7)"
    assert "measure" not in repr(DARTBOARD) and "array" not in repr(DARTBOARD)

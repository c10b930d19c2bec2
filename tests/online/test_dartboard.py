"""The batched dartboard: its exact law, what its coins may read, and mutants that are caught."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from labeldp.online import (
    BatchedDartboard,
    MultiplicativeWeightsMeasure,
    PlainRedraw,
    ShrinkingDartboard,
    l2p,
    quantize,
)
from labeldp.online.draws import keep_coins
from labeldp.online.l2p import LazyState
from labeldp.privacy import WORD, InputError, KeyedRandomness, Neighbors, Trust, as_randomness
from labeldp.testing.contract import ContractViolation
from labeldp.testing.laws import check_law
from online.laws import dartboard_law, fixed, marginals, weights
from online.lazy import BATCHES, Chosen, cut, decay, paths, rounds

RATE, REDRAW = Fraction(1), Fraction(1, 2)
KERNEL = BatchedDartboard(3, 2, RATE, REDRAW)
LOSSES = rounds(BATCHES, 2)


def law(rate: float = 1.0, redraw: float = 0.5, batches: np.ndarray = BATCHES) -> np.ndarray:
    """All paths of actions, exactly."""
    return dartboard_law(fixed(batches[None]), rate, redraw)[0]


def test_in_every_batch_the_action_has_exactly_the_law_of_multiplicative_weights() -> None:
    """In every batch the action has exactly the law of multiplicative weights on the batches before."""
    before = np.cumsum(np.vstack([np.zeros(3), BATCHES]), axis=0)
    for redraw in (0.001, 0.25, 1.0):
        assert np.allclose(marginals(law(redraw=redraw)[None], 3)[0], weights(before, 1.0), atol=1e-14)


def test_actions_follow_the_exact_law() -> None:
    check_law(paths(KERNEL, LOSSES, 1), law(), law(rate=1.8))


def test_the_law_does_not_depend_on_how_rounds_are_divided() -> None:
    """An action depends on losses of earlier rounds alone, and its law does not depend on how the rounds are divided
    among calls of `update`.
    """
    rng = np.random.default_rng(9)
    check_law(paths(KERNEL, LOSSES, 2, lambda: sorted(rng.integers(0, 7, 2).tolist())), law(), law(rate=2.5))
    check_law(paths(KERNEL, LOSSES, 3, lambda: list(range(1, 6))), law(), law(rate=2.5))


def test_other_names() -> None:
    assert ShrinkingDartboard(3, 0.5, REDRAW) == BatchedDartboard(3, 1, 0.5, REDRAW)
    assert PlainRedraw(3, 4, 0.5, levels=65_535) == BatchedDartboard(3, 4, 0.5, 1, levels=65_535)
    plain = PlainRedraw(3, 1, 1)
    check_law(paths(plain, rounds(BATCHES[1:], 1), 4), law(redraw=1.0, batches=np.minimum(BATCHES[1:], 1)), law()[:27])


def forget_redraw(costs: Any, unit: Fraction, keep: Fraction, *, rng: Any) -> Any:
    """A coin without its factor of 1 - p."""
    return keep_coins(costs, unit, Fraction(1), rng=rng)


def late(measure: Any, batch: int, costs: Any) -> Any:
    """A coin that reads the batch before the newest."""
    return np.concatenate([np.zeros((1, 1), dtype=np.int64), costs[:, :-1]], axis=1)


class Stale(MultiplicativeWeightsMeasure):  # type: ignore[misc]
    """Draws from the weights of all batches but the newest."""

    def draw(self, history: Any, *, rng: Any) -> int:
        """The sums without what the newest batch, of two rounds, added."""
        return super().draw(
            history if not history.any() else history - LOSSES[STALE[int(history.sum())]].sum(0), rng=rng
        )


SUMS = (BATCHES.sum(axis=1) * 255).cumsum().tolist()
STALE = {total: slice(2 * i, 2 * i + 2) for i, total in enumerate(SUMS)}


def test_a_coin_without_its_share_of_redraws_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(l2p, "keep_coins", forget_redraw)
    with pytest.raises(ContractViolation):
        check_law(paths(KERNEL, LOSSES, 5), law(), law(redraw=0.0))


def test_a_coin_that_reads_another_batch_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(l2p, "_exponents", late)
    with pytest.raises(ContractViolation):
        check_law(paths(KERNEL, LOSSES, 6), law(), law(rate=1.8))


def test_a_draw_without_the_newest_batch_is_caught() -> None:
    kernel = BatchedDartboard(3, 2, RATE, REDRAW)
    kernel.__dict__["measure"] = Stale(3, RATE, 255)
    with pytest.raises(ContractViolation):
        check_law(paths(kernel, LOSSES, 7), law(), law(rate=1.8))


def kept(history: list[int], spent: int, words: list[int]) -> bool:
    """Is expert 0 kept after a batch in which it lost two levels, given earlier losses?"""
    state = LazyState(np.array(history), np.array([0]), np.array([spent]), 7)
    losses = np.array([[2 - spent, 200, 7]], dtype=np.uint8)
    after, _ = KERNEL.update(state, losses, rng=Chosen([*words, WORD // 2]))
    # A draw would be of the best expert by far.
    return int(after.points[0]) == 0


@pytest.mark.parametrize("history", [[10**6, 0, 10**6], [5 * 10**7, 10**7, 0]])
@pytest.mark.parametrize("spent", [0, 1])
def test_switching_reads_the_newest_batch_alone(history: list[int], spent: int) -> None:
    """Switching after a batch depends on the action's losses in this batch alone."""
    word, more = cut((1 - REDRAW) * decay(Fraction(2, 255)), 128)
    assert kept(history, spent, [word, more - 1])
    assert not kept(history, spent, [word, more + 1])


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
    state = KERNEL.init(rng=rng)
    for _ in range(50):
        first = KERNEL.predict(state)
        copy = (state.history.copy(), state.points.copy(), state.costs.copy())
        after, actions = KERNEL.update(state, LOSSES[:5], rng=rng)
        assert actions[0] == first and len(actions) == 5
        changes = np.flatnonzero(np.diff([*actions, KERNEL.predict(after)])) + 1 + state.rounds
        assert np.all(changes % 2 == 0), "an action lasts for a batch"
        assert all(np.array_equal(a, b) for a, b in zip(copy, (state.history, state.points, state.costs), strict=True))
        assert [a.shape for a in (after.history, after.points, after.costs)] == [(3,), (1,), (1,)]
        state = after
    assert state.rounds == 250
    same, none = KERNEL.update(state, LOSSES[:0], rng=rng)
    assert same is state and len(none) == 0


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
    kernel = ShrinkingDartboard(1000, Fraction(165, 10**5), Fraction(round(0.0033 * 2**32), 2**32))
    assert kernel.privacy_loss(10**6 - 1).epsilon(1e-6) == pytest.approx(0.748, abs=5e-4)
    assert kernel.trust is Trust.CENTRAL
    assert kernel.privacy_loss(0).epsilon(0) == 0
    removed = ShrinkingDartboard(1000, kernel.rate, kernel.redraw, neighbors=Neighbors.ZERO_OUT)
    assert removed.privacy_loss(10**6 - 1).epsilon(1e-6) < 0.7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"experts": 1}, "experts must be an integer of at least 2"),
        ({"batch": 0}, "batch must be an integer of at least 1"),
        ({"batch": 2.0}, "batch must be an integer of at least 1"),
        ({"rate": 0}, "rate must be positive"),
        ({"rate": float("nan")}, "rate must be finite"),
        ({"redraw": 0}, r"redraw must lie in \(0, 1\]"),
        ({"redraw": 1.5}, r"redraw must lie in \(0, 1\]"),
        ({"redraw": 0.1}, r"a multiple of 2\*\*-32"),
        ({"levels": 100}, "levels must be 255 or 65535"),
        ({"neighbors": Neighbors.ONE_LABEL}, "neighbors must be Neighbors.ONE_LOSS or Neighbors.ZERO_OUT"),
        ({"neighbors": "replace"}, "neighbors must be Neighbors.ONE_LOSS or Neighbors.ZERO_OUT"),
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
    state = KERNEL.init(rng=rng)
    with pytest.raises(InputError, match=r"losses must be a matrix of uint8 levels|canonical CSR format"):
        KERNEL.update(state, change(LOSSES), rng=rng)


def test_keyed_randomness_is_refused() -> None:
    keyed = KeyedRandomness(bytes(32))
    with pytest.raises(InputError, match="keyed randomness would repeat its words"):
        KERNEL.init(rng=keyed)
    with pytest.raises(InputError, match="keyed randomness would repeat its words"):
        KERNEL.update(KERNEL.init(rng=np.random.default_rng(0)), LOSSES, rng=keyed)


def test_a_state_shows_its_number_of_rounds_alone() -> None:
    state = LazyState(np.array([54_321] * 3), np.array([54_321]), np.array([54_321]), 7)
    assert repr(state) == "LazyState(rounds=7)"
    assert "measure" not in repr(KERNEL) and "array" not in repr(KERNEL)

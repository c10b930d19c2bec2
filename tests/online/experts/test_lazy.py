"""Algorithm 1: its exact law with the reference, its normalizer and clamp, and measures other than experts."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from labeldp.online import L2P, Kernel, LazyState, MultiplicativeWeightsMeasure
from labeldp.online.experts import lazy as l2p
from labeldp.online.experts.kernel import rows_of
from labeldp.online.experts.lazy import begin, play
from labeldp.privacy import InputError, PrivacyLoss, Unit, as_randomness
from labeldp.sampling import keep_coins
from labeldp.testing import ContractViolation
from labeldp.testing.laws import check_law
from online.laws import dartboard_law, fixed, l2p_law, marginals, weights
from online.lazy import BATCHES, Chosen, cut, decay, paths, rounds

KERNEL = L2P(MultiplicativeWeightsMeasure(3, Fraction(1, 2), 255), 2, Fraction(1, 4))

LOSSES = rounds(BATCHES, 2)

MIDDLE = 1 << 63


def law(rate: float = 0.5, redraw: float = 0.25, normalizer: int = 2) -> np.ndarray:
    """All paths of actions, exactly."""
    return l2p_law(fixed(BATCHES[None]), rate, redraw, 2, normalizer)[0]


def test_every_action_has_the_law_of_multiplicative_weights() -> None:
    before = np.cumsum(np.vstack([np.zeros(3), BATCHES]), axis=0)
    assert np.allclose(marginals(law()[None], 3)[0], weights(before, 0.5), atol=1e-14)


def test_actions_follow_the_exact_law() -> None:
    check_law(paths(KERNEL, LOSSES, 1), law(), law(normalizer=0))


@pytest.mark.slow
def test_actions_in_pieces_follow_the_exact_law() -> None:
    check_law(paths(KERNEL, LOSSES, 2, lambda: [1, 2, 5]), law(), law(rate=1.5))


@pytest.mark.slow
def test_a_missing_normalizer_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    exponents = l2p._exponents
    monkeypatch.setattr(l2p, "_exponents", lambda measure, batch, costs: exponents(measure, 0, costs))
    with pytest.raises(ContractViolation):
        check_law(paths(KERNEL, LOSSES, 3), law(), law(normalizer=0))


def kept(own: int, others: int, words: list[int], history: int = 10**6) -> list[bool]:
    """Are action 0 and reference 1 kept after a batch with these losses of theirs? A draw would be expert 2."""
    state = LazyState(np.array([history, history, 0]), np.array([0, 1]), np.array([own - 1, others]), 1)
    losses = np.array([[1, 0, 9]], dtype=np.uint8)
    after, _ = KERNEL.update(state, losses, rng=Chosen([*words, MIDDLE, MIDDLE]))
    return (after.points == [0, 1]).tolist()


@pytest.mark.guarantee("labeldp.online:L2P", "switching")
@pytest.mark.parametrize("history", [10**5, 10**7])
@pytest.mark.parametrize(("own", "others"), [(1, 0), (3, 500), (510, 0), (7, 7)])
def test_switching_reads_the_newest_batch_alone(own: int, others: int, history: int) -> None:
    word = cut(Fraction(3, 4) * decay(Fraction(own - others + 2 * 2 * 255, 2 * 255)), 64)[0]
    assert kept(own, others, [word - 1, 0], history) == [True, True]
    assert kept(own, others, [word + 1, 0], history) == [False, True]
    assert kept(own, others, [word - 1, 3 << 62], history) == [True, False]
    assert kept(own, others, [word + 1, (3 << 62) - 1], history) == [False, True]
    assert kept(own, others, [word + 1, 3 << 62], history) == [False, False]


@dataclass(frozen=True)
class Walk:
    """Four points of a square, and linear losses whose sign is anything: a measure that is not one of experts."""

    unit = Fraction(1, 8)
    bound = 1
    failure = distance = Fraction(0)
    points = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])

    def start(self) -> Any:
        """The sum of all losses."""
        return np.zeros(2, dtype=np.int64)

    def costs(self, losses: Any, point: Any) -> Any:
        """Inner products."""
        return losses @ point

    def add(self, history: Any, losses: Any) -> Any:
        """Sums."""
        return history + losses.sum(axis=0)

    def draw(self, history: Any, *, rng: Any) -> Any:
        """One of the four."""
        return self.points[l2p.draw_index(self.points @ history, self.unit, rng=rng)]


def test_points_may_be_arrays_and_a_probability_is_never_above_one() -> None:
    """The clamp: where the reference lost much more, the action is kept but for 1 - p."""
    measure, rng = Walk(), as_randomness(np.random.default_rng(0))
    state = begin(measure, 2, rng=rng)
    state, played = play(measure, 3, Fraction(1, 8), state, random_losses(50), rng=rng)
    assert played.shape == (50, 2) and state.points.shape == (2, 2)
    assert np.all(np.abs(played) == 1) and len(np.unique(played, axis=0)) > 1
    assert np.array_equal(played[:48].reshape(16, 3, 2).std(axis=1), np.zeros((16, 2)))
    state = LazyState(measure.start(), measure.points[[3, 0]], np.zeros(2, dtype=np.int64), 0)
    for word, same in (((7 << 61) - 1, True), (7 << 61, False)):
        words = Chosen([word, 0] if same else [word, 0, MIDDLE])
        after, _ = play(measure, 1, Fraction(1, 8), state, np.array([[100, 100]]), rng=words)
        assert len(words.rest) == 0 and (after.points[1] == measure.points[0]).all()


def random_losses(count: int) -> Any:
    """Losses of either sign."""
    return np.random.default_rng(1).integers(-1, 2, (count, 2))


def test_its_loss_is_that_of_the_accountant() -> None:
    measure = MultiplicativeWeightsMeasure(1000, Fraction(165, 10**5), 255)
    kernel = L2P(measure, 1, Fraction(round(0.0033 * 2**32), 2**32))
    assert kernel.privacy_loss(10**6 - 1).epsilon(1e-6) == pytest.approx(1.09, abs=5e-3)
    assert (kernel.experts, kernel.levels, measure.bound) == (1000, 255, 255)
    assert (measure.failure, measure.distance) == (0, 0)


@dataclass(frozen=True)
class Capped:
    """Weights on losses that count no more than a cap: another measure on experts."""

    cap: int
    distance: Fraction = Fraction(0)
    failure: Fraction = Fraction(0)
    experts, levels, unit = 3, 255, Fraction(1, 2 * 255)
    bound = property(lambda self: self.cap)

    def start(self) -> Any:
        """The sums of all losses."""
        return np.zeros(3, dtype=np.int64)

    def costs(self, losses: Any, point: Any) -> Any:
        """An expert's loss, or the cap."""
        return np.minimum(losses.values[:, point].astype(np.int64), self.cap)

    def add(self, history: Any, losses: Any) -> Any:
        """Sums."""
        return history + np.minimum(losses.values.astype(np.int64), self.cap).sum(axis=0)

    def draw(self, history: Any, *, rng: Any) -> Any:
        """An expert by its weight."""
        return l2p.draw_index(history, self.unit, rng=rng)


def test_any_measure_on_experts_will_do() -> None:
    """Its unit times its bound is the rate that is paid for; draws that are not exact are paid for, too."""
    kernel = L2P(Capped(51), 2, Fraction(1, 4))
    check_law(paths(kernel, LOSSES, 4), law(rate=0.1), law())
    same = L2P(MultiplicativeWeightsMeasure(3, Fraction(1, 10), 255), 2, Fraction(1, 4))
    for rounds_seen in (0, 1, 2, 9):
        assert kernel.privacy_loss(rounds_seen) == same.privacy_loss(rounds_seen)
    inexact = L2P(Capped(51, distance=Fraction(1, 1000)), 2, Fraction(1, 4)).privacy_loss(9)
    added = inexact.delta(0.5) - same.privacy_loss(9).delta(0.5)
    assert added == pytest.approx(2 * 4 / 1000, rel=1e-6), "four batches ended, and two points may be drawn after each"


def test_what_is_refused() -> None:
    measure = KERNEL.measure
    with pytest.raises(InputError, match="a bound that never fails"):
        L2P(Capped(51, failure=Fraction(1, 10**6)), 2, Fraction(1, 4))
    for arguments, message in [
        ((measure, 0, 0.5), "batch must be an integer, at least 1"),
        ((measure, 1, 0.0), "redraw must lie in"),
        ((measure, 1, 0.5, Unit.FULL), "neighbors must be Unit.ONE_LOSS"),
    ]:
        with pytest.raises(InputError, match=message):
            L2P(*arguments)
    with pytest.raises(InputError, match="losses must be a matrix of uint8 levels"):
        rng = np.random.default_rng(0)
        KERNEL.update(KERNEL.init(rng=rng), LOSSES[:, :2], rng=rng)


class Played(Kernel[LazyState[Any]]):
    """The dartboard as `play` plays it, with one chain."""

    experts, batch, levels, redraw = 3, 2, 255, Fraction(1, 2)
    measure = MultiplicativeWeightsMeasure(3, Fraction(1), 255)

    def init(self, *, rng: Any) -> LazyState[Any]:
        """One point."""
        return begin(self.measure, 1, rng=rng)

    def predict(self, state: LazyState[Any]) -> int:
        """The point."""
        return int(state.points[0])

    def update(self, state: LazyState[Any], losses: Any, *, rng: Any) -> Any:
        """By `play`."""
        return play(self.measure, self.batch, self.redraw, state, rows_of(losses, 3, 255), rng=rng)

    def privacy_loss(self, rounds: int) -> PrivacyLoss:
        """None of interest."""
        return PrivacyLoss.zero()


def law_of_one(rate: float = 1.0, redraw: float = 0.5) -> np.ndarray:
    """All paths of actions with one chain, exactly."""
    return dartboard_law(fixed(BATCHES[None]), rate, redraw)[0]


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


@pytest.mark.slow
def test_one_chain_follows_the_exact_law() -> None:
    check_law(paths(Played(), LOSSES, 1), law_of_one(), law_of_one(rate=1.8))
    check_law(paths(Played(), LOSSES, 3, lambda: list(range(1, 6))), law_of_one(), law_of_one(rate=2.5))


def test_a_coin_without_its_share_of_redraws_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(l2p, "keep_coins", forget_redraw)
    with pytest.raises(ContractViolation):
        check_law(paths(Played(), LOSSES, 5), law_of_one(), law_of_one(redraw=0.0))


def test_a_coin_that_reads_another_batch_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(l2p, "_exponents", late)
    with pytest.raises(ContractViolation):
        check_law(paths(Played(), LOSSES, 6), law_of_one(), law_of_one(rate=1.8))


@pytest.mark.slow
def test_a_draw_without_the_newest_batch_is_caught() -> None:
    kernel = Played()
    kernel.measure = Stale(3, Fraction(1), 255)
    with pytest.raises(ContractViolation):
        check_law(paths(kernel, LOSSES, 7), law_of_one(), law_of_one(rate=1.8))

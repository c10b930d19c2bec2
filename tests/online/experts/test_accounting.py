"""Each equation by hand, and the numbers of the two tables that `docs/proofs/online-experts.md` compares with."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from labeldp.online import (
    dartboard_loss,
    doubling_regret_bound,
    l2p_loss,
    mw_regret_bound,
    nonprivate_bound,
    plan_experts,
    softmax_regret_bound,
)
from labeldp.online.experts.accounting import batches_seen, gaussian_mu, switches_bound
from labeldp.online.experts.renyi import ORDERS, rdp_delta, switching_rdp
from labeldp.online.experts.softmax import softmax_rate
from labeldp.privacy import InputError, PrivacyLoss, Unit

REPLACE, ZERO_OUT = Unit.ONE_LOSS, Unit.ZERO_OUT

ROWS = [  # horizon, batch, rate, redraw; epsilon at 1e-6 of the dartboard, of Algorithm 1
    (10**6, 1, 1.65e-3, 3.3e-3, 0.748, 1.09),
    (10**6, 1, 2.2e-3, 5e-3, 0.976, 1.49),
    (10**5, 4, 2e-3, 0.01, 0.303, 0.41),
    (10**6, 10, 1e-3, 0.02, 0.233, 0.36),
]


def words(share: float) -> Fraction:
    """A probability that learners can have."""
    return Fraction(math.ceil(share * 2**32), 1 << 32)


def dartboard_rdp(rate: float, batch: int, redraw: float, batches: float, orders: float | np.ndarray) -> np.ndarray:
    """The Rényi divergence of the actions of a batched dartboard: `docs/proofs/online-experts.md`, equation (6)."""
    return switching_rdp(rate, redraw, batch, batches, 2, 1, orders)


def l2p_rdp(rate: float, batch: int, redraw: float, batches: float, orders: float | np.ndarray) -> np.ndarray:
    """The same for Algorithm 1, the reference released too: equation (7)."""
    return switching_rdp(rate, redraw, batch, batches, 2, 2, orders)


def epsilon_of(rdp: np.ndarray, delta: float) -> float:
    """The epsilon at a delta, by bisection."""
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        kept = rdp_delta(rdp, ORDERS, np.array([middle]))[0] <= delta
        low, high = (low, middle) if kept else (middle, high)
    return high


@pytest.mark.parametrize(("horizon", "batch", "rate", "redraw", "dartboard", "l2p"), ROWS)
def test_the_table(horizon: int, batch: int, rate: float, redraw: float, dartboard: float, l2p: float):
    batches = horizon / batch
    found = dartboard_rdp(rate, batch, redraw, batches, ORDERS)
    assert epsilon_of(found, 1e-6) == pytest.approx(dartboard, abs=6e-4)
    assert epsilon_of(l2p_rdp(rate, batch, redraw, batches, ORDERS), 1e-6) == pytest.approx(l2p, abs=6e-3)
    # The losses that kernels use say the same; they count the batch that comes after the last losses, too.
    loss = dartboard_loss(rate, batch, words(redraw), horizon - batch, REPLACE)
    assert loss.epsilon(1e-6) == pytest.approx(epsilon_of(found, 1e-6), rel=1e-5)


def test_the_vector_of_ten_thousand_rounds() -> None:
    assert dartboard_loss(5e-3, 1, words(0.05), 9_999, REPLACE).epsilon(1e-6) == pytest.approx(0.533, abs=6e-4)


def test_a_divergence_by_hand() -> None:
    """Order 2, rate ln 2, p = 1/2, batches of 1, four of them: heads with 1/4 against 1/2, draws of range 2 ln 2."""
    coin = math.log(max(a**2 / b + (1 - a) ** 2 / (1 - b) for a, b in [(1 / 4, 1 / 2), (1 / 2, 1 / 4)]))
    moment = 25 / 16  # The worst pair of laws whose ratio is 4 apart: (2 - 1/2)(1/2 - 1/8) + 1 = 25/16.
    draw, often = math.log(moment), 1 - 1 / 4  # Kept at least with (1/2) e^(-ln 2).
    later = math.log(1 - often + often * moment)
    found = dartboard_rdp(math.log(2), 1, 0.5, 4, 2.0)
    assert found == pytest.approx(coin + draw + 2 * later, rel=1e-12)


def test_algorithm_1_by_hand() -> None:
    """The same with its reference: heads between 1/16 and 1/4, the reference redrawn with 1/2."""
    worst = [(a**2 / b + (1 - a) ** 2 / (1 - b)) for a, b in itertools.permutations([1 / 4, 1 / 16])]
    draw, aside = math.log(25 / 16), math.log(1 / 2 + 1 / 2 * 25 / 16)
    often = 1 - 1 / 16
    later = math.log(1 - often + often * 25 / 16) + aside
    found = l2p_rdp(math.log(2), 1, 0.5, 4, 2.0)
    assert found == pytest.approx(math.log(max(worst)) + draw + aside + 2 * later, rel=1e-12)


def test_the_worst_draw_of_order_two() -> None:
    """Ratios r and 4 r with masses that sum to 1 in both laws: the second moment is largest at 25/16."""
    r = np.linspace(0.251, 0.999, 100_000)
    share = (1 - r) / (3 * r)
    assert ((share * 16 * r**2) + (1 - share) * r**2).max() == pytest.approx(25 / 16, rel=1e-8)


def test_one_batch_reveals_nothing() -> None:
    assert batches_seen(0, 5) == batches_seen(4, 5) == 1 and batches_seen(5, 5) == 2
    for loss in (dartboard_loss, l2p_loss):
        assert loss(0.1, 5, 0.5, 4, REPLACE) == PrivacyLoss.zero()
        assert loss(0.1, 5, 0.5, 5, REPLACE).epsilon(1e-6) > 0


def test_two_batches_and_no_coin() -> None:
    """With p = 1 and one batch seen there is one draw of range 2 eta: never more than that, and eta when zeroed."""
    assert 0.19 < dartboard_loss(0.1, 3, 1, 3, REPLACE).epsilon(1e-12) <= 0.2
    assert 0.09 < dartboard_loss(0.1, 3, 1, 3, ZERO_OUT).epsilon(1e-12) <= 0.1


def test_rates_that_are_no_doubles_are_rounded_against_us() -> None:
    [(atom, _)] = dartboard_loss(Fraction(1, 3), 1, Fraction(3, 1 << 32), 9, REPLACE).atoms
    assert Fraction(1, 3) < Fraction(atom.rate) < Fraction(1, 3) + Fraction(1, 1 << 53)
    assert Fraction(atom.redraw) == Fraction(3, 1 << 32)


@pytest.mark.parametrize("loss", [dartboard_loss, l2p_loss])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((0, 1, 0.5, 9, REPLACE), "rate must be positive"),
        ((65, 1, 0.5, 9, REPLACE), "rate must be at most 64"),
        ((0.1, 0, 0.5, 9, REPLACE), "batch must be an integer, at least 1"),
        ((0.1, 1, 0, 9, REPLACE), r"redraw must lie in \(0, 1\]"),
        ((0.1, 1, 2, 9, REPLACE), r"redraw must lie in \(0, 1\]"),
        ((0.1, 1, 0.5, 9, Unit.ONE_LABEL), "neighbors must be"),
    ],
)
def test_what_is_refused(loss, given: tuple, message: str) -> None:
    with pytest.raises(InputError, match=message):
        loss(*given)


def test_regret_of_multiplicative_weights() -> None:
    assert mw_regret_bound(100, 1000, 0.1, 2) == pytest.approx(math.log(100) / 0.1 + 25)
    assert nonprivate_bound(100, 1000) == pytest.approx(47.985, abs=1e-3)
    best = math.sqrt(8 * math.log(100) / 1000)
    assert mw_regret_bound(100, 1000, best) == pytest.approx(nonprivate_bound(100, 1000))


def test_regret_with_noise_on_sums() -> None:
    """sqrt(ln d (T/2 + 2 s^2)) at the best rate."""
    rate = softmax_rate(100, 1000, 30.0)
    assert softmax_regret_bound(100, 1000, rate, 30.0) == pytest.approx(math.sqrt(math.log(100) * (500 + 1800)))
    assert softmax_regret_bound(100, 1000, 1.01 * rate, 30.0) > softmax_regret_bound(100, 1000, rate, 30.0)


def test_the_bound_of_a_tree_holds_where_uneven_noise_loses_more() -> None:
    """Two experts, losses by the number of ones in t alone, which is how many nodes a sum has without fresh noise."""
    horizon, start, many = 10**7, 2273, 9
    plan = plan_experts(2, horizon, "0.1", "1e-6", "tree")
    kernel = plan.kernel
    rate, most = float(plan.parameters["eta"]), (horizon + 1).bit_length() - 1
    assert kernel.sums.deviation == kernel.stddev * math.sqrt(most)
    x, mass = np.polynomial.hermite_e.hermegauss(60)
    mass = mass / mass.sum()

    def first(gap: float) -> np.ndarray:
        """The chance to play the first expert when it has lost so much more, by the nodes of a sum."""
        noise = kernel.stddev * np.sqrt(2 * np.arange(most + 1))[:, None] * x
        return (1 / (1 + np.exp(rate * (gap + noise)))) @ mass

    far, near = first(start), first(start - 1)
    t = np.arange(start, start + 100_000)
    counts = np.bitwise_count(t)
    # The first has lost `start` - 1 more: it loses in the next loud round, after it the second in the next quiet one.
    turns = np.flatnonzero(np.diff(counts < many, prepend=True))
    turns = turns[: len(turns) // 2 * 2]
    assert (counts[turns[1::2]] < many).all() and (counts[turns[::2]] >= many).all()

    def regret(quiet: np.ndarray, loud: np.ndarray) -> float:
        """In all rounds, with so many nodes in the sums of quiet rounds, and of loud ones."""
        lost = (1 - far[quiet]).sum() + near[loud].sum()
        return (lost - len(turns) / 2) * (horizon - start) / len(t)

    assert regret(counts[turns[1::2]], counts[turns[::2]]) > 1.3 * plan.regret_bound
    even = np.full(len(turns) // 2, most)
    first_rounds = sum(first(gap)[most] for gap in range(start - 1))
    assert first_rounds + regret(even, even) < plan.regret_bound


def test_regret_of_doubling_epochs() -> None:
    """T = 10, d = 2, rate 1: epochs of 1, 2, 4 and 3 rounds that see 0, 1, 2 and 4."""
    gaps = [min(1, math.sqrt(math.log(2) / (2 * m)) + math.log(2) / m) for m in (1, 2, 4)]
    assert doubling_regret_bound(2, 10, 1.0) == pytest.approx(1 + 2 * gaps[0] + 4 * gaps[1] + 3 * gaps[2])
    assert doubling_regret_bound(2, 1, 1.0) == 1


def test_regret_of_doubling_epochs_is_not_exceeded() -> None:
    """Two experts, one of them better by 0.2 on average: the exact law of the epochs' draws, over many sequences."""
    rng = np.random.default_rng(0)
    means, rate, horizon = np.array([0.4, 0.6]), 0.2, 255
    regrets = []
    for _ in range(400):
        losses, regret, start = (rng.random((horizon, 2)) < means), 0.0, 0
        for length in (1, 2, 4, 8, 16, 32, 64, 128):
            seen = losses[start - length // 2 : start].sum(axis=0)
            weights = np.exp(-rate * (seen - seen.min()))
            regret += length * (weights / weights.sum() @ means - 0.4)
            start += length
        regrets.append(regret)
    assert np.mean(regrets) < doubling_regret_bound(2, horizon, rate)


def test_how_often_actions_change() -> None:
    assert switches_bound(math.log(2), 1, 0.5, 5) == pytest.approx(4 * (1 - 0.25))
    assert switches_bound(0.1, 3, 1.0, 10) == 3


@pytest.mark.parametrize(
    ("epsilon", "mu"), [("0.1", 0.0275), ("0.3", 0.077), ("1", 0.2367), ("2", 0.448), ("4", 0.838), ("8", 1.53)]
)
def test_gaussian_parameters(epsilon: str, mu: float) -> None:
    found = gaussian_mu(Fraction(epsilon), Fraction(1, 10**6))
    assert found == pytest.approx(mu, rel=5e-3)
    assert PrivacyLoss.gaussian(found).within(epsilon, "1e-6")
    assert not PrivacyLoss.gaussian(found * (1 + 1e-8)).within(epsilon, "1e-6")

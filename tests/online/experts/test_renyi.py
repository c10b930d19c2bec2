"""Learners that keep an action for a while: their Rényi divergences in 50 digits, and the loss made of them."""

import itertools

import mpmath
import numpy as np
import pytest

from labeldp.online.experts.renyi import (
    ORDERS,
    RENYI_ROUNDING,
    Switching,
    bounded_range_rdp,
    coin_rdp,
    lazy_rdp,
    rdp_delta,
    switching_rdp,
)
from labeldp.privacy import PrivacyLoss
from slow import mostly_slow

mp = mpmath.mpf

NOTED = [  # rate, batch, redraw, batches, epsilon at delta = 1e-6
    (1.65e-3, 1, 3.3e-3, 10**6, 0.748),
    (2.2e-3, 1, 5e-3, 10**6, 0.976),
    (2e-3, 4, 0.01, 25_000, 0.303),
    (1e-3, 10, 0.02, 100_000, 0.233),
    (5e-3, 1, 0.05, 10_000, 0.533),
]


def two_point(width: mpmath.mpf, order: mpmath.mpf, t: mpmath.mpf) -> mpmath.mpf:
    """The divergence of order a of the pair whose log-ratio is t - width or t: masses from sum P = sum Q = 1."""
    high, low = mpmath.exp(t), mpmath.exp(t - width)
    share = (1 - low) / (high - low)
    return mpmath.log(share * high**order + (1 - share) * low**order) / (order - 1)


@pytest.mark.guarantee("labeldp.online:bounded_range_rdp", "worst_pair")
@pytest.mark.parametrize("width", [1e-9, 1e-4, 0.01, 0.5, 2.0, 30.0])
@pytest.mark.parametrize("order", mostly_slow([1.02, 2.0, 10.0, 300.0, 1e5, 1e9], [1.02, 10.0, 1e9]))
def test_the_worst_draw_of_a_range(width: float, order: float) -> None:
    claimed = mp(float(bounded_range_rdp(width, order))) * (1 + mp(RENYI_ROUNDING))
    with mpmath.workdps(60):
        u, a = mp(width), mp(order)
        share = mpmath.expm1(u) / mpmath.expm1(a * u)
        exact = mpmath.log1p(-1 / a) - mpmath.log1p(-share) - mpmath.log(a * share) / (a - 1)
        worst = max(two_point(u, a, u * i / 40) for i in range(1, 40))
        assert worst <= exact * (1 + mp(10) ** -30)  # The closed form is the maximum over t …
        assert exact <= claimed  # … and the doubles are not below it …
        assert claimed <= exact * (1 + 1e-4)  # … nor far above.
        assert claimed <= u * a * u / 8 * (1 + 1e-8) and claimed <= u * (1 + 1e-8)


def test_three_values_of_the_draw() -> None:
    values = [float(bounded_range_rdp(*pair)) for pair in [(0.5, 10), (2, 2), (2, 100)]]
    assert values == pytest.approx([0.24609, 0.86756, 1.9449], rel=1e-4)


def exact_coin(tilt: float, redraw: float, order: float, shift: float) -> mpmath.mpf:
    keep = [(1 - mp(redraw)) * mpmath.exp(-mp(shift) - each * mp(tilt)) for each in (0, 1)]
    a = mp(order)
    return max(
        mpmath.log(p**a * q ** (1 - a) + (1 - p) ** a * (1 - q) ** (1 - a)) / (a - 1)
        for p, q in itertools.permutations(keep)
    )


@pytest.mark.parametrize("tilt", [1e-6, 1e-3, 0.1, 2.0])
@pytest.mark.parametrize("redraw", [2.0**-32, 1e-3, 0.5, 1 - 2.0**-32])
@pytest.mark.parametrize("order", mostly_slow([1.02, 2.0, 30.0, 1e4, 1e7], [1.02, 30.0, 1e7]))
def test_coins(tilt: float, redraw: float, order: float) -> None:
    for shift in (0.0, 0.3):
        with mpmath.workdps(60):
            exact = exact_coin(tilt, redraw, order, shift)
        claimed = float(coin_rdp(tilt, redraw, order, shift))
        assert exact <= claimed * (1 + mp(RENYI_ROUNDING))
        assert claimed <= exact * (1 + 1e-3) + 1e-15 * order / (order - 1)


@pytest.mark.guarantee("labeldp.online:coin_rdp", "worst_pair")
def test_no_other_coins_are_worse() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        tilt, redraw, shift = rng.uniform(1e-3, 1), rng.uniform(1e-3, 1), rng.uniform(0, 1)
        order = 1 + rng.uniform(0.1, 50)
        lost = rng.exponential()
        keeps = (1 - redraw) * np.exp(-shift - lost - np.array([0.0, tilt * rng.uniform()]))
        for p, q in itertools.permutations(keeps):
            moment = p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)
            assert np.log(moment) / (order - 1) <= coin_rdp(tilt, redraw, order, shift) * (1 + 1e-9) + 1e-12


def test_a_coin_that_never_keeps_shows_nothing() -> None:
    assert coin_rdp(0.1, 1.0, np.array([1.5, 10.0, 1e12])).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("share", [1e-9, 0.01, 0.7, 1.0])
@pytest.mark.parametrize("rdp", [1e-9, 1e-3, 2.0])
@pytest.mark.parametrize("order", mostly_slow([1.1, 3.0, 1e3, 1e6], [1.1, 1e6]))
def test_sometimes(share: float, rdp: float, order: float) -> None:
    with mpmath.workdps(60):
        a = mp(order)
        exact = mpmath.log(1 - mp(share) + mp(share) * mpmath.exp((a - 1) * mp(rdp))) / (a - 1)
    claimed = float(lazy_rdp(share, rdp, order))
    assert exact <= claimed * (1 + mp(RENYI_ROUNDING)) and claimed <= exact * (1 + 1e-9)


@pytest.mark.parametrize("chains", [1, 2])
@pytest.mark.parametrize(("rate", "batch", "redraw", "batches", "epsilon"), NOTED)
def test_the_whole_in_fifty_digits(
    rate: float, batch: int, redraw: float, batches: int, epsilon: float, chains: int
) -> None:
    """Rényi divergences, and the epsilon at 1e-6, of a learner in `docs/proofs/online-experts.md`."""
    swing, orders = 2, ORDERS[::40]
    claimed = switching_rdp(rate, redraw, batch, batches, swing, chains, orders)
    with mpmath.workdps(60):
        for a, value in zip(map(mp, orders), claimed, strict=True):
            eta, p, u = mp(rate), mp(redraw), swing * mp(rate)
            share = mpmath.expm1(u) / mpmath.expm1(a * u)
            draw = mpmath.log1p(-1 / a) - mpmath.log1p(-share) - mpmath.log(a * share) / (a - 1)

            def sometimes(k: mpmath.mpf, a: mpmath.mpf = a, draw: mpmath.mpf = draw) -> mpmath.mpf:
                return mpmath.log(1 - k + k * mpmath.exp((a - 1) * draw)) / (a - 1)

            low = batch * eta * (1 if chains == 1 else 3)
            coin = exact_coin(rate * (1 if chains == 1 else swing), redraw, a, 0 if chains == 1 else batch * eta)
            rare, aside = sometimes(1 - (1 - p) * mpmath.exp(-low)), sometimes(p) if chains == 2 else mp(0)
            exact = coin + draw + aside + (batches - 2) * (rare + aside)
            assert exact <= value * (1 + mp(RENYI_ROUNDING)) and value <= exact * (1 + 1e-4)
    if chains == 1:
        loss = PrivacyLoss.curve(Switching(rate, redraw, batch, batches))
        assert loss.epsilon(1e-6) == pytest.approx(epsilon, abs=6e-4)


def test_the_curve_from_divergences() -> None:
    """min over a of e^((a-1)(rho a - epsilon)) (1-1/a)^a / (a-1), by hand at two orders."""
    orders = np.array([2.0, 11.0])
    found = rdp_delta(0.1 * orders, orders, np.array([0.5, 2.0]))
    by_hand = [[np.exp((a - 1) * (0.1 * a - e)) * (1 - 1 / a) ** a / (a - 1) for a in orders] for e in (0.5, 2.0)]
    assert found == pytest.approx(np.min(by_hand, axis=1), rel=1e-12)


LEARNER = Switching(0.02, 0.1, batch=3, batches=40)


def test_it_is_a_loss_like_others() -> None:
    loss = PrivacyLoss.curve(LEARNER)
    assert PrivacyLoss.from_json(loss.to_json()) == loss
    assert LEARNER.reversed() == LEARNER and loss.max_loss is None
    assert str(loss) == (
        "1 times one action for each of 40 batches of 3, at rate 0.02 and swing 2, redrawn with probability 0.1 or more"
    )
    epsilon = loss.epsilon(1e-6)
    assert loss.within(epsilon, 1e-6) and not loss.within(epsilon * 0.999, 1e-6)
    assert loss.delta(epsilon) == pytest.approx(1e-6, rel=1e-6)
    assert (loss + PrivacyLoss.zero()).epsilon(1e-6) == epsilon


def test_it_composes() -> None:
    one = PrivacyLoss.curve(LEARNER)
    both, noise = one + one, PrivacyLoss.gaussian(0.1)
    assert one.epsilon(1e-6) < both.epsilon(1e-6) < 2 * one.epsilon(5e-7)
    assert max(one.epsilon(1e-6), noise.epsilon(1e-6)) < (one + noise).epsilon(1e-6)
    # Divergences of one order add up; the composed curve has lost them, and is at most a little above.
    together = float(rdp_delta(2 * switching_rdp(0.02, 0.1, 3, 40, 2, 1, ORDERS), ORDERS, np.array([0.8]))[0])
    assert together <= both.delta(0.8) and both.epsilon(together) <= 0.8 * 1.1


def test_more_of_anything_costs_more() -> None:
    base = PrivacyLoss.curve(LEARNER).epsilon(1e-6)
    for changed in [
        Switching(0.021, 0.1, 3, 40),
        Switching(0.02, 0.1, 3, 41),
        Switching(0.02, 0.1, 4, 40),
        Switching(0.02, 0.1, 3, 40, chains=2),
    ]:
        assert PrivacyLoss.curve(changed).epsilon(1e-6) > base
    assert PrivacyLoss.curve(Switching(0.02, 0.1, 3, 40, swing=1)).epsilon(1e-6) < base


@pytest.mark.parametrize(
    "changed",
    [
        *({"rate": 0.0}, {"rate": 65.0}, {"rate": float("nan")}, {"redraw": 0.0}, {"redraw": 1.1}),
        *({"batch": 0}, {"batches": 1}, {"swing": 3}, {"chains": 0}),
    ],
)
def test_what_no_learner_has(changed: dict[str, float]) -> None:
    numbers = {"rate": 0.1, "redraw": 0.5, "batch": 1, "batches": 2, **changed}
    with pytest.raises(ValueError, match="the parameters of a switching learner are out of range"):
        Switching(**numbers)
    value = {"rate": float(numbers["rate"]).hex(), "redraw": float(numbers["redraw"]).hex()}
    with pytest.raises(ValueError, match=r"the parameters of a .* are out of range"):
        PrivacyLoss.from_json(
            [[{"kind": "switching", "swing": 2, "chains": 1, **numbers, **value, "times": 1}]],
        )


def test_extremes() -> None:
    for rate, redraw, batches in itertools.product([1e-12, 64.0], [2.0**-32, 1.0], [2, 10**12]):
        curve = Switching(rate, redraw, 1, batches)
        upper = curve.ends(np.array([0.0, 1e-6, 1.0, 1e6]))[1]
        assert np.all(np.isfinite(upper)) and np.all(np.diff(upper) <= 0) and np.all(upper <= 1)
    assert PrivacyLoss.curve(Switching(1e-12, 1.0, 1, 2)).epsilon(1e-6) < 1e-11


def test_a_curve_is_read_above_its_divergences() -> None:
    curve = Switching(1e-3, 0.02, batch=10, batches=1000)
    exact = switching_rdp(curve.rate, curve.redraw, curve.batch, 1000.0, curve.swing, curve.chains, ORDERS)
    assert (curve._rdp >= exact * (1 + 0.99 * RENYI_ROUNDING)).all()
    at = np.array([0.5, 1.0, 2.0])
    assert (curve.ends(at)[1] >= rdp_delta(curve._rdp, ORDERS, at) * (1 + 0.99 * RENYI_ROUNDING)).all()

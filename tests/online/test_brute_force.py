"""Every sequence of losses, every neighbor: what the actions of tiny learners reveal is never above the accountant."""

import itertools
from functools import cache

import numpy as np
import pytest

from labeldp.online import dartboard_loss, l2p_loss
from labeldp.online.experts.renyi import (
    ORDERS,
    Switching,
    bounded_range_rdp,
    coin_rdp,
    lazy_rdp,
    rdp_delta,
    switching_rdp,
)
from labeldp.privacy import Unit
from online.laws import (
    dartboard_law,
    everything,
    fixed,
    l2p_law,
    largest_delta,
    marginals,
    neighbor_pairs,
    weights,
)

SIZES = [  # experts, rounds in a batch, batches whose losses are seen, rate, redraw
    (2, 1, 5, 0.1, 0.3),
    (2, 1, 5, 0.02, 0.05),
    (2, 2, 3, 0.1, 0.6),
    (2, 4, 2, 0.05, 0.9),
    (3, 1, 4, 0.05, 0.1),
    (3, 1, 3, 0.1, 1.0),
    (2, 1, 1, 0.1, 0.01),
    (2, 1, 3, 2.0, 1.0),
]
MIDDLE = [size for size in SIZES if size[:3] != (3, 1, 4)]
SMALL = [(2, 1, 1, 0.1, 0.01), (2, 1, 3, 0.05, 0.1), (3, 1, 2, 0.1, 0.3), (2, 2, 2, 0.1, 0.3), (2, 1, 3, 2.0, 1.0)]
SHARES = np.array([0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.96])
"""Where curves are compared: shares of the largest loss that the accountant knows of."""

ROUNDING = 1e-12
LEARNERS = {  # sizes, law of what is seen
    "dartboard": (SIZES, lambda sums, batch, *given: dartboard_law(sums, *given)),
    "l2p": (MIDDLE, lambda sums, batch, *given: l2p_law(sums, *given, batch)),
    "l2p, reference seen": (SMALL, lambda sums, batch, *given: l2p_law(sums, *given, batch, reference=True)),
    "small normalizer": (MIDDLE, lambda sums, batch, *given: l2p_law(sums, *given, batch, normalizer=1)),
    "small normalizer, reference seen": (
        SMALL,
        lambda sums, batch, *given: l2p_law(sums, *given, batch, normalizer=1, reference=True),
    ),
}
Size = tuple[int, int, int, float, float]


@cache
def worst(size: Size, learner: str, swing: int, epsilons: tuple[float, ...]) -> tuple[np.ndarray, int]:
    """The largest delta over all neighbors, and how many pairs there were."""
    experts, batch, batches, rate, redraw = size
    sums = everything(experts, batch, batches)
    law = LEARNERS[learner][1](fixed(sums), batch, rate, redraw)
    pairs = np.concatenate(list(neighbor_pairs(sums, swing == 1)), axis=1)
    return largest_delta(law, pairs, np.array(epsilons)), pairs.shape[1]


def divergences(size: Size, learner: str, swing: int) -> np.ndarray:
    """The accountant's, at `ORDERS`."""
    _, batch, batches, rate, redraw = size
    if "small" not in learner:
        return switching_rdp(rate, redraw, batch, batches + 1, swing, 1 if learner == "dartboard" else 2, ORDERS)
    # With e^(B eta) in the place of e^(2 B eta) heads come with (1 - p) e^(-2 B eta) to 1 - p.
    draw = bounded_range_rdp(swing * rate, ORDERS)
    often = lazy_rdp(redraw - (1 - redraw) * np.expm1(-2 * batch * rate), draw, ORDERS)
    aside = lazy_rdp(redraw, draw, ORDERS)
    return coin_rdp(swing * rate, redraw, ORDERS) + draw + aside + (batches - 1) * (often + aside)


def coin(size: Size, learner: str) -> np.ndarray:
    """The part of them that the coin after the losses that differ has."""
    _, batch, _, rate, redraw = size
    tilt = rate if learner == "dartboard" else 2 * rate
    return coin_rdp(tilt, redraw, ORDERS, batch * rate if learner.startswith("l2p") else 0.0)


def asked(size: Size, learner: str, swing: int, shares: np.ndarray = SHARES) -> tuple[float, ...]:
    """Epsilons up to the largest loss that the accountant knows of."""
    return tuple(float(divergences(size, learner, swing)[-1]) * shares)


@pytest.mark.guarantee("labeldp.online:Switching", "enclosed")
def test_nothing_is_above_the_accountant() -> None:
    count = 0
    for learner, (sizes, _) in LEARNERS.items():
        for size, swing in itertools.product(sizes, (1, 2)):
            epsilons = asked(size, learner, swing)
            true, pairs = worst(size, learner, swing, epsilons)
            claimed = rdp_delta(divergences(size, learner, swing), ORDERS, np.array(epsilons))
            assert np.all(true <= claimed * (1 + 1e-9) + ROUNDING), (learner, size, true / claimed)
            assert true[1] > 0.02 * claimed[1], "not so far below that nothing could be seen"
            count += pairs
    assert count >= 100_000


@pytest.mark.parametrize("learner", ["dartboard", "l2p, reference seen", "small normalizer, reference seen"])
@pytest.mark.parametrize("mutant", ["nine tenths of the rate", "no coin"])
def test_wrong_accountants_are_caught(learner: str, mutant: str) -> None:
    for size in SMALL:
        experts, batch, batches, rate, redraw = size
        epsilons = asked(size, learner, 2, np.linspace(0, 1, 41))
        true, _ = worst(size, learner, 2, epsilons)
        rdp = divergences(size, learner, 2) - coin(size, learner)
        if mutant == "nine tenths of the rate":
            rdp = divergences((experts, batch, batches, 0.9 * rate, redraw), learner, 2)
        if np.any(true > rdp_delta(rdp, ORDERS, np.array(epsilons)) + ROUNDING):
            return
    pytest.fail("the mutant was not seen")


def test_actions_have_the_law_of_multiplicative_weights() -> None:
    """Each on its own, whatever the probability of a redraw is."""
    for experts, batch, batches, rate, redraw in SIZES:
        sums = everything(experts, batch, batches)
        seen = np.concatenate([np.zeros((len(sums), 1, experts), int), np.cumsum(sums, axis=1)], axis=1)
        exact = weights(seen, rate)
        laws = [
            dartboard_law(fixed(sums), rate, redraw),
            l2p_law(fixed(sums), rate, redraw, batch),
            l2p_law(fixed(sums), rate, redraw, batch, normalizer=1),
        ]
        for law in laws:
            assert np.abs(law.sum(axis=1) - 1).max() < 1e-12
            assert np.abs(marginals(law, experts) - exact).max() < 1e-12


def test_losses_that_follow_the_actions() -> None:
    """Random rules from earlier actions to losses; two rules that differ in one round's losses, whatever was played."""
    rng = np.random.default_rng(0)
    for experts, batch, batches, rate, redraw in SIZES[1:5]:
        epsilons = np.array(asked((experts, batch, batches, rate, redraw), "dartboard", 2))
        claimed = rdp_delta(divergences((experts, batch, batches, rate, redraw), "dartboard", 2), ORDERS, epsilons)
        for place in range(batches):
            rules = [rng.integers(0, batch + 1, (400, experts ** (s + 1), experts)) for s in range(batches)]
            other = list(rules)
            other[place] = np.clip(rules[place] + rng.integers(-1, 2, rules[place].shape), 0, batch)
            law = np.concatenate([dartboard_law(rule, rate, redraw) for rule in (rules, other)])
            assert np.abs(law.sum(axis=1) - 1).max() < 1e-12
            pairs = np.stack([np.arange(800), np.roll(np.arange(800), 400)])
            true = largest_delta(law, pairs, epsilons)
            assert np.all(true <= claimed * (1 + 1e-9) + ROUNDING) and true[0] > 0


def test_the_losses_of_kernels_are_these() -> None:
    for neighbors, swing in [(Unit.ONE_LOSS, 2), (Unit.ZERO_OUT, 1)]:
        [(atom, _)] = dartboard_loss(0.125, 2, 0.25, 7, neighbors).atoms
        assert atom == Switching(0.125, 0.25, 2, 4, swing, 1)
        [(atom, _)] = l2p_loss(0.125, 2, 0.25, 8, neighbors).atoms
        assert atom == Switching(0.125, 0.25, 2, 5, swing, 2)

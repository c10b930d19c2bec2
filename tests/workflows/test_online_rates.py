"""Exponents and bounds of Figure 1 and Table 1: by hand, and where printed and corrected ones part."""

import math

import pytest

from labeldp.workflows.reproduce.online_rates import (
    BOUNDS,
    CONVEX,
    CORRECTED,
    EXPERTS,
    KNOWN,
    PANELS,
    PRINTED,
    Bound,
    bounds_of,
    free_until,
)

GROWTH = {letter: growth for letter, _, growth, _ in PANELS}


def bound(name: str, setting: str, source: str) -> Bound:
    """The only one of that name."""
    (found,) = [each for each in BOUNDS if (each.name, each.setting, each.source) == (name, setting, source)]
    return found


PRINTED_EXPERTS, CORRECTED_EXPERTS = (bound("L2P", EXPERTS, source) for source in (PRINTED, CORRECTED))
PRINTED_CONVEX, CORRECTED_CONVEX = (bound("L2P", CONVEX, source) for source in (PRINTED, CORRECTED))


def test_values_by_hand() -> None:
    rounds, d, epsilon = 1e6, 100.0, 0.1
    log, free = math.log(100), math.sqrt(1e6 * math.log(100))
    assert PRINTED_EXPERTS.value(rounds, d, epsilon) == pytest.approx(free + 100 * log / 0.1 ** (2 / 3))
    longer = 1e6**0.4 * log**0.8 / 0.1**0.6
    assert CORRECTED_EXPERTS.value(rounds, d, epsilon) == pytest.approx(free + min(longer, 100 * log / 0.1))
    before = bound("lazy, before", EXPERTS, KNOWN)
    assert before.value(rounds, d, 0.01) == pytest.approx(free + min(100 * log / 0.01, 1e6**0.4 * log / 0.01**0.8))
    assert bound("tree noise", EXPERTS, KNOWN).value(rounds, d, epsilon) == pytest.approx(free + 10 * log / 0.1)
    assert PRINTED_CONVEX.value(rounds, d, epsilon) == pytest.approx(1000 + 100 * 10 / 0.1 ** (2 / 3))
    ftrl = bound("DP-FTRL", CONVEX, KNOWN)
    assert ftrl.value(rounds, d, epsilon) == pytest.approx(1000 + 100**0.25 * 1000 / math.sqrt(0.1))
    assert PRINTED_EXPERTS.value(100.0, 10.0, 1e-6) == 100.0, "more than all rounds nobody loses"


def test_privacy_is_free_up_to_the_sixth_root_and_not_to_the_fourth() -> None:
    assert free_until(PRINTED_EXPERTS, 1.0) == pytest.approx(1 / 4)
    assert free_until(CORRECTED_EXPERTS, 1.0) == pytest.approx(1 / 6)
    assert free_until(bound("lazy, before", EXPERTS, KNOWN), 1.0) == pytest.approx(1 / 6)
    assert free_until(PRINTED_CONVEX, 0.0) == pytest.approx(1 / 4)
    assert free_until(CORRECTED_CONVEX, 0.0) == pytest.approx(1 / 6)
    assert free_until(bound("without privacy", EXPERTS, KNOWN), 1.0) == 1.0


@pytest.mark.parametrize("alpha", [0.0, 1 / 6, 0.25, 0.4, 0.7, 1.0])
def test_exponents_by_hand(alpha: float) -> None:
    assert PRINTED_EXPERTS.exponent(alpha, 1.0) == pytest.approx(max(1 / 2, 1 / 3 + 2 * alpha / 3))
    corrected = min(1 / 3 + alpha, 2 / 5 + 3 * alpha / 5)
    assert CORRECTED_EXPERTS.exponent(alpha, 1.0) == pytest.approx(min(1.0, max(1 / 2, corrected)))
    assert PRINTED_CONVEX.exponent(alpha, 1 / 3) == pytest.approx(min(1.0, max(1 / 2, 1 / 2 + 2 * alpha / 3)))


@pytest.mark.parametrize("growth", [0.0, 0.1, 1 / 3, 0.6])
@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.2, 0.35, 0.5, 0.9])
def test_the_corrected_rate_of_convex_losses_is_that_of_the_best_batch(alpha: float, growth: float) -> None:
    """Of √(TB) + √d T^(1/3)/(εB^(1/3)), for B from 1 to 1/ε."""
    batches = [alpha * step / 3000 for step in range(3001)]
    best = min(max((1 + b) / 2, growth / 2 + 1 / 3 + alpha - b / 3) for b in batches)
    assert CORRECTED_CONVEX.exponent(alpha, growth) == pytest.approx(min(1.0, best), abs=1e-3)


def test_a_corrected_rate_is_never_below_the_printed_one() -> None:
    for letter, setting, growth, _ in PANELS:
        printed, corrected = (bound("L2P", setting, source) for source in (PRINTED, CORRECTED))
        for step in range(61):
            assert corrected.exponent(step / 60, growth) >= printed.exponent(step / 60, growth) - 1e-12, letter


def test_large_numbers_follow_the_exponents() -> None:
    """d = T and a long horizon: what is printed as an exponent is the slope of the values."""
    for each in bounds_of(EXPERTS):
        values = [each.value(rounds, rounds, rounds**-0.4) for rounds in (1e100, 1e102)]
        assert math.log(values[1] / values[0]) / math.log(100) == pytest.approx(each.exponent(0.4, 1.0), abs=0.01)

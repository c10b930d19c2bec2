"""Curves beside each other: the lattice that stands for one lies above it, and none asks for too many points."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.bags.losses import HiddenWeights
from labeldp.privacy import Largest, PrivacyLoss
from labeldp.privacy.atoms import BoundedRange, Discrete, Failure, Gaussian, Response
from labeldp.privacy.composition import (
    MAX_LATTICE_POINTS,
    Sequence,
    _curve_lattice,
    _curve_multiples,
    _Lattice,
    _step,
    concentrated_delta,
    delta_of,
    exceeds,
    within,
)

LARGE, SMALL, TINY = HiddenWeights(2.0, 0.5), HiddenWeights(0.07, 0.09), HiddenWeights(4.6e-5, 4.5e-5)


@pytest.mark.parametrize(("pair", "step"), [(LARGE, 64), (SMALL, 2048), (SMALL, 64), (TINY, 2048)])
def test_the_lattice_lies_above_its_curve(pair: HiddenWeights, step: int) -> None:
    lattice, epsilons = _curve_lattice(pair, Fraction(1, step)), np.linspace(0, pair.reach, 97)
    gained = np.maximum(0, -np.expm1(epsilons[:, None] - lattice.losses()))
    found = gained @ lattice.masses * (1 + lattice.relative_error) + lattice.lost
    lower, upper = pair.ends(epsilons)
    assert (found >= lower).all()
    if step == 2048 and pair is SMALL:
        there = upper > 1e-12
        assert (found[there] <= 1.02 * upper[there]).all()


def test_a_small_curve_beside_a_large_one_asks_for_few_points() -> None:
    sequence = ((LARGE, 1), (TINY, 1))
    assert 2 * LARGE.reach / _step(sequence) <= 2 * MAX_LATTICE_POINTS
    assert len(_curve_multiples(MAX_LATTICE_POINTS)) < 1000


@pytest.mark.guarantee("labeldp.privacy:Largest", "largest")
def test_each_curve_of_a_composition_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two directions of two releases are four curves, each read in both orders."""
    read, real = [], HiddenWeights.upper

    def upper(self: HiddenWeights, epsilons: np.ndarray) -> object:
        read.append(len(epsilons))
        return real(self, epsilons)

    _curve_lattice.cache_clear()
    monkeypatch.setattr(HiddenWeights, "upper", upper)
    pairs = [HiddenWeights(0.0701 + i / 1000, 0.0902) for i in range(2)]
    total = sum((PrivacyLoss.curve(Largest((each, each.reversed()))) for each in pairs), PrivacyLoss.zero())
    total.delta(1)
    assert 1 <= len([length for length in read if length > 16]) <= 12
    assert max(read) < 1000


def test_a_tiny_release_adds_next_to_nothing() -> None:
    small, tiny = (PrivacyLoss.curve(Largest((pair, pair.reversed()))) for pair in (SMALL, TINY))
    alone = small.delta(0.5)
    assert alone <= (small + tiny).delta(0.5) <= alone * 1.01
    assert small.epsilon(1e-6) <= (small + tiny).epsilon(1e-6) <= small.epsilon(1e-6) * 1.01


@pytest.mark.parametrize(("first", "coarser", "start"), [(4, [1, 5, 4], 2), (5, [3, 7], 3), (-3, [3, 7], -1)])
def test_a_coarser_lattice_rounds_losses_up_to_the_next_point(first: int, coarser: list[float], start: int) -> None:
    """Cells 4, 5, 6, 7 join as 4 | 5, 6 | 7, and 5, 6, 7, 8 as 5, 6 | 7, 8."""
    found = _Lattice(Fraction(1, 4), first, np.array([1.0, 2, 3, 4]), 1e-9, 0.125).coarser()
    assert (found.step, found.first, found.lost) == (Fraction(1, 2), start, 0.125)
    assert found.masses.tolist() == coarser and 1e-9 < found.relative_error < 1.001e-9
    assert found.losses().tolist() == [(start + place) / 2 for place in range(len(coarser))]


def test_the_error_of_a_convolution_counts_its_terms() -> None:
    """A sum of t products has a relative error of at most t roundings of half a unit, and one for the products."""
    one, other = (_Lattice(Fraction(1), 0, np.full(count, 1 / count), error) for count, error in ((3, 1e-15), (7, 0)))
    assert (one @ other).relative_error >= 1e-15 + 4 * 2.0**-53
    assert (one @ other).relative_error <= 1e-15 + 5 * 2.0**-53


@pytest.mark.parametrize("epsilon", ["0.01", "0.5", "3", "40"])
@pytest.mark.parametrize("rho", ["1e-9", "0.003", "0.02", "2", "39"])
def test_the_delta_of_a_rate_is_rounded_up(rho: str, epsilon: str) -> None:
    """e^(-(epsilon - rho)^2 / (4 rho)), here with forty digits."""
    with localcontext() as context:
        context.prec = 40
        gap = Decimal(epsilon) - Decimal(rho)
        exact = min(Decimal(1), (-(gap**2) / (4 * Decimal(rho))).exp()) if gap > 0 else Decimal(1)
        found = Decimal(concentrated_delta(Fraction(rho), Fraction(epsilon), Fraction(0)))
        assert exact <= found <= 1
        assert found <= exact * Decimal("1.00001") or exact < Decimal("1e-200")
        failing = Decimal(concentrated_delta(Fraction(rho), Fraction(epsilon), Fraction(1, 10**6)))
        assert (
            min(exact + Decimal("1e-6"), Decimal(1))
            <= failing
            <= min(found * Decimal("1.00001") + Decimal("1.00001e-6"), 1)
        )


ATOMS = {
    "response": Response(Fraction(1, 2), 3),
    "pure": Response(Fraction(1, 10), 2),
    "Gaussian": Gaussian(0.25),
    "failure": Failure(Fraction(1, 10**6)),
    "range": BoundedRange(Fraction(1, 3)),
    "list": Discrete((Fraction(2, 7), Fraction(-1, 2)), (Fraction(4, 5), Fraction(1, 5))),
}


def sequences() -> st.SearchStrategy[Sequence]:
    counts = st.dictionaries(st.sampled_from(sorted(ATOMS)), st.sampled_from([1, 2, 7, 100]), min_size=1, max_size=3)
    return counts.map(lambda drawn: tuple((ATOMS[name], drawn[name]) for name in sorted(drawn)))


BUDGETS = [(Fraction(e), Fraction(d)) for e in ("0.01", "0.3", "1", "3", "20") for d in ("0", "1e-9", "1e-5", "0.2")]


@given(sequences(), st.sampled_from(BUDGETS))
def test_what_a_budget_covers_never_exceeds_it(sequence: Sequence, budget: tuple[Fraction, Fraction]) -> None:
    """Lower and upper ends of one curve: an honest charge is never refused."""
    if within(sequence, *budget):
        assert not exceeds(sequence, *budget)


@given(sequences(), st.sampled_from([Fraction(1, 3), Fraction(1), Fraction(4)]))
def test_finite_losses_exceed_a_budget_that_is_a_little_too_small(sequence: Sequence, epsilon: Fraction) -> None:
    parts = tuple(pair for pair in sequence if isinstance(pair[0], Response | Discrete | Gaussian))
    if (delta := delta_of(parts, epsilon)) > 1e-15:
        coarse = any(isinstance(atom, Discrete) for atom, _ in parts)  # losses of a list are rounded to a lattice
        assert exceeds(parts, epsilon, Fraction(delta * (0.9 if coarse else 1 - 1e-6)))
    assert not exceeds(parts, epsilon, Fraction(delta))

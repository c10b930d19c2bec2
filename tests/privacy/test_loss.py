"""How costs add up, and that they are never rounded in our favor."""

import json
import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, hypergeom

from labeldp.bags import losses as bag_losses
from labeldp.bags.losses import HiddenWeights, NoisyBag
from labeldp.online.experts.renyi import Switching
from labeldp.privacy import (
    Atom,
    BoundedRange,
    Discrete,
    Failure,
    Gaussian,
    InputError,
    Largest,
    PrivacyLoss,
    RecordLoss,
    Response,
)
from labeldp.privacy.loss import ATOMS

pure, response, gaussian = PrivacyLoss.pure, PrivacyLoss.response, PrivacyLoss.gaussian
zero = PrivacyLoss.zero()

tenths = st.integers(1, 30).map(lambda n: Fraction(n, 10))
atoms = st.one_of(
    st.builds(response, tenths, st.integers(2, 12)),
    st.builds(gaussian, st.sampled_from([0.25, 1.0, 2.0])),
    st.builds(PrivacyLoss.approximate, tenths, st.sampled_from(["1e-6", "0.01"])),
    st.just(PrivacyLoss.discrete(["1", "-0.5", "0.25"], ["0.5", "0.25", "0.25"])),
)
losses = st.recursive(atoms, lambda part: st.builds(PrivacyLoss.__add__, part, part), max_leaves=4)
epsilons = st.sampled_from([0, Fraction(1, 10), Fraction(1, 2), 1, Fraction(5, 2), 7])


def test_golden_values() -> None:
    assert round(response(1, 10).delta(0.5), 4) == 0.0913
    assert round(pure(1).delta(0.5), 4) == 0.2876
    flip = math.log(0.505 / 0.495)
    assert round((pure(flip) * 1000).epsilon(1e-6), 4) == 2.9158
    assert round((pure(flip) * 100).epsilon(1e-6), 4) == 0.8232
    assert round((pure(flip) * 10).epsilon(1e-6), 4) == 0.1991


def test_nothing_costs_nothing() -> None:
    assert zero.epsilon() == zero.delta(0) == zero.epsilon(1e-9) == 0
    assert zero * 5 == zero == zero + zero == response(1, 1)
    assert str(zero) == "nothing"


@given(losses, losses, losses)
def test_sums_have_their_laws(a: PrivacyLoss, b: PrivacyLoss, c: PrivacyLoss) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + zero == a
    assert a * 2 == a + a
    assert a * 3 == a + a + a


@given(losses, losses, epsilons)
def test_more_costs_more(a: PrivacyLoss, b: PrivacyLoss, epsilon: Fraction) -> None:
    either = PrivacyLoss.covering([a, b])
    assert either.covers(a) and either.covers(b) and (a + b).covers(either)
    assert max(a.delta(epsilon), b.delta(epsilon)) <= either.delta(epsilon) * (1 + 1e-9)
    assert either.delta(epsilon) <= (a + b).delta(epsilon) * (1 + 1e-9)
    assert 0 <= a.delta(epsilon + 1) <= a.delta(epsilon) <= 1


@given(losses, st.sampled_from(["1e-9", "1e-6", "0.001", "0.02", "0.3", "1"]))
def test_epsilon_and_delta_invert_each_other(loss: PrivacyLoss, delta: str) -> None:
    epsilon = loss.epsilon(delta)
    if epsilon == math.inf:
        assert loss.max_loss is None
        assert loss.delta(10**6) > Fraction(delta)
    else:
        assert loss.within(epsilon, delta)
        assert epsilon == 0 or not loss.within(max(0.0, epsilon * (1 - 1e-9) - 1e-300), delta)
        assert epsilon <= loss.epsilon(0)


@given(losses)
def test_json_keeps_every_digit(loss: PrivacyLoss) -> None:
    assert PrivacyLoss.from_json(json.loads(json.dumps(loss.to_json()))) == loss


def test_the_largest_of_curves_is_a_curve_that_composes() -> None:
    """It composes like any other curve, and no release that one of them dominates costs more."""
    one, other = HiddenWeights(0.3, 0.1), HiddenWeights(0.3, 0.1).reversed()
    either = Largest((one, other))
    epsilons = np.array([0.0, 0.1, 0.5, 1.0])
    assert (either.upper(epsilons) == np.maximum(one.upper(epsilons), other.upper(epsilons))).all()
    assert (either.ends(epsilons)[1] == either.upper(epsilons)).all() and either.ends(epsilons)[0][0] > 0
    assert either.reversed() == Largest((one.reversed(), other.reversed()))
    curve = PrivacyLoss.curve
    for left, right in product((one, other), repeat=2):
        for epsilon in (0, 0.2, 0.7):
            both = (curve(left) + curve(right)).delta(epsilon)
            assert both <= (curve(either) * 2).delta(epsilon) * (1 + 1e-3)
    with pytest.raises(ValueError, match="of no curves"):
        Largest(())
    with pytest.raises(ValueError, match="is one of curves"):
        Largest.from_json({"kind": "largest", "curves": [Gaussian(1.0).to_json()]})


def test_two_crossing_curves_are_not_composed_one_by_one() -> None:
    """H4: a first answer chooses the order in which the next pair is met; the larger product is 1.1 times too small."""
    low, high = HiddenWeights(2.0, 0.05), HiddenWeights(2.0, 0.05).reversed()
    first = response("0.8", 2)
    apart = [first + PrivacyLoss.curve(pair) for pair in (low, high)]
    joined = first + PrivacyLoss.curve(Largest((low, high)))
    keep = math.exp(0.8) / (1 + math.exp(0.8))
    worst = 0.0
    for epsilon in (-0.5, 0.0, 0.3, 0.6, 0.9):
        branches = ((keep, math.exp(epsilon - 0.8)), (1 - keep, math.exp(epsilon + 0.8)))
        true = sum(p * max(_at(pair, ratio) for pair in (low, high)) for p, ratio in branches)
        if epsilon >= 0:
            assert true <= joined.delta(epsilon) * (1 + 1e-9)
            worst = max(worst, true / max(loss.delta(epsilon) for loss in apart))
    assert worst > 1.001


def _at(pair: HiddenWeights, ratio: float) -> float:
    """The lower end of a curve at any ratio of probabilities."""
    if ratio >= 1:
        return float(pair.ends(np.array([math.log(ratio)]))[0][0])
    return 1 - ratio + ratio * float(pair.reversed().ends(np.array([-math.log(ratio)]))[0][0])


@pytest.mark.parametrize("epsilon", ["0.3", "1", "0.123456789"])
@pytest.mark.parametrize("delta", ["1e-30", "1e-20", "1e-9"])
def test_no_delta_makes_it_worse_than_the_pure_bound(epsilon: str, delta: str) -> None:
    assert pure(epsilon).epsilon(delta) <= pure(epsilon).epsilon(0) == float(epsilon)


@pytest.mark.parametrize("delta", [1e-6, "1e-7", 0.1, 0.3, "0.0001"])
def test_delta_is_the_decimal_that_was_written(delta: object) -> None:
    loss = PrivacyLoss.approximate(1, delta)
    assert loss.epsilon(delta) == 1.0
    assert loss.within(1, delta)
    assert (loss * 3).within(3, 3 * Fraction(str(delta)))
    assert not (loss * 3).within(3, 3 * Fraction(str(delta)) * (1 - Fraction(1, 10**18)))


def test_an_approximate_guarantee() -> None:
    loss = PrivacyLoss.approximate("0.5", "1e-5")
    assert loss.epsilon() == math.inf
    assert loss.epsilon("9e-6") == math.inf
    assert loss.max_loss is None
    assert loss.delta(0.5) >= Fraction(1, 10**5)
    assert loss.delta(0.2) > loss.delta(0.5)
    assert PrivacyLoss.approximate(1, 0) == pure(1)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: pure(0), "epsilon must be positive"),
        (lambda: pure(-1), "epsilon must be positive"),
        (lambda: pure(math.nan), "epsilon must be finite"),
        (lambda: pure(math.inf), "epsilon must be finite"),
        (lambda: response(1, 0), "classes must be at least 1"),
        (lambda: gaussian(0.0), "mu must be positive and finite"),
        (lambda: gaussian(math.nan), "mu must be positive and finite"),
        (lambda: PrivacyLoss.approximate(1, 1.5), "delta must lie in"),
        (lambda: PrivacyLoss.approximate(1, -0.1), "delta must lie in"),
        (lambda: PrivacyLoss.discrete([], []), "probabilities must not be negative"),
        (lambda: PrivacyLoss.discrete([1, 0], [-1, 2]), "probabilities must not be negative"),
        (lambda: pure(1) * 0, "times must be an integer, at least 1"),
        (lambda: pure(1) * 2.5, "times must be an integer, at least 1"),
        (lambda: pure(1).delta(-1), "epsilon must not be negative"),
        (lambda: pure(1).epsilon(1.1), "delta must lie in"),
        (lambda: pure(1).epsilon(-1e-9), "delta must lie in"),
    ],
)
def test_what_is_no_cost_is_refused(make: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        make()


@pytest.mark.parametrize(
    "value",
    [
        [],
        [[{"kind": "response", "epsilon": "1", "classes": 2, "times": 0}]],
        [[{"kind": "response", "epsilon": "1", "classes": 2, "times": -4}]],
        [[{"kind": "response", "epsilon": "-1", "classes": 2, "times": 1}]],
        [[{"kind": "response", "epsilon": "1", "classes": 1, "times": 1}]],
        [[{"kind": "gaussian", "mu": "nan", "times": 1}]],
        [[{"kind": "failure", "delta": "-1/2", "times": 1}]],
        [[{"kind": "discrete", "losses": [], "probabilities": [], "times": 1}]],
        [[{"kind": "free", "times": 1}]],
    ],
)
def test_json_that_is_no_cost_is_refused(value: list) -> None:
    with pytest.raises(ValueError):
        PrivacyLoss.from_json(value)


def test_atoms_that_json_repeats_count_as_often() -> None:
    once = {"kind": "response", "epsilon": "1", "classes": 2, "times": 1}
    assert PrivacyLoss.from_json([[once, once]]) == pure(1) * 2


def test_the_worst_of_many_records_is_one_of_them() -> None:
    losses = [gaussian(1 + step / 50) + pure(2 - step / 50) for step in range(40)]
    worst = RecordLoss.worst(RecordLoss((loss,), loss.max_loss) for loss in losses)
    assert worst.epsilon(1e-5) == max(loss.epsilon(1e-5) for loss in losses)
    assert all(worst.delta(epsilon) == max(loss.delta(epsilon) for loss in losses) for epsilon in (0, 1, 3))
    assert RecordLoss.worst([]).epsilon() == 0 == RecordLoss.worst([]).delta(0)
    assert worst.epsilon(0) == math.inf and not worst.within(3, 1e-30)


def test_kinks_are_where_the_curve_bends() -> None:
    assert response(1, 3).kinks() == [0, 1]
    assert (response(1, 2) * 3).kinks() == [0, 1, 3]


def test_a_cost_in_words() -> None:
    assert str(response("0.5", 4) * 2 + gaussian(1.5)).split(" and ") == [
        "1 times a Gaussian loss with mu = 1.5",
        "2 times randomized response over 4 answers with epsilon = 0.5",
    ]


def test_an_epsilon_beyond_any_float_has_a_delta() -> None:
    assert gaussian(1.0).delta("1e300") < 1e-290
    assert pure(1).delta("1e300") == 0


def test_every_kind_of_atom_comes_back_from_json() -> None:
    examples: list[Atom] = [
        Response(Fraction("0.1"), 3),
        Discrete((Fraction(1, 3), Fraction(-1)), (Fraction(9, 10), Fraction(1, 10))),
        Gaussian(0.3),
        Failure(Fraction(1, 7)),
        BoundedRange(Fraction(1, 3)),
        NoisyBag("gaussian", 0.5, 8, 2),
        NoisyBag("rademacher", 0.5, 8, 2, 100),
        HiddenWeights(0.01, 0.02, 3),
        Switching(1e-3, 0.02, 10, 1000, 1, 2),
        Largest((HiddenWeights(0.01, 0.02), NoisyBag("gaussian", 0.5, 8, 2))),
    ]
    for atom in examples:
        loss = PrivacyLoss(((atom, 5),))
        text = json.dumps(loss.to_json())
        assert PrivacyLoss.from_json(json.loads(text)) == loss and f'"kind": "{atom.kind}"' in text
    assert {atom.kind for atom in examples} == set(ATOMS)


def test_the_loss_of_a_bag_is_added_up_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    bag, epsilons = NoisyBag("gaussian", 0.7, 40, 20, 400), np.array([0.1, 0.5, 2.0])
    whole = np.concatenate(bag.ends(epsilons))
    for most in (1, 10, 100):
        monkeypatch.setattr(bag_losses, "_TERMS_AT_ONCE", most)
        assert np.concatenate(bag.ends(epsilons)) == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize(("population", "noisy", "draws"), [(399, 20, 39), (50, 45, 20), (9, 9, 4), (9, 1, 9)])
def test_the_noisy_labels_of_a_bag_are_a_draw_without_replacement(population: int, noisy: int, draws: int) -> None:
    law, exact = bag_losses.hypergeometric(population, noisy, draws), hypergeom(population, noisy, draws)
    positive = exact.pmf(law.numbers)
    assert law.masses == pytest.approx(positive, rel=1e-10, abs=1e-290) and law.none == pytest.approx(exact.pmf(0))
    assert positive.sum() + exact.pmf(0) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize(("trials", "chance"), [(40, 0.5), (7, 0.01), (300, 0.999), (5, 1.0), (0, 1.0)])
def test_the_noisy_labels_of_a_bag_are_independent_coins(trials: int, chance: float) -> None:
    law, exact = bag_losses.binomial(trials, chance), binom(trials, chance)
    assert law.masses == pytest.approx(exact.pmf(law.numbers), rel=1e-10, abs=1e-290)
    assert law.none == pytest.approx(exact.pmf(0), rel=1e-10)
    assert law.masses.sum() + law.none == pytest.approx(1, rel=1e-12)

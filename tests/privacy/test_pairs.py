"""Only the loss of a pair of distributions is a loss, and several releases never cost less than one of them."""

import json
import math
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labeldp as ldp
from labeldp.bags.losses import HiddenWeights, NoisyBag
from labeldp.online.experts.renyi import Switching
from labeldp.privacy import (
    Block,
    BoundedRange,
    Discrete,
    Failure,
    Gaussian,
    InputError,
    Largest,
    PrivacyLoss,
    Response,
    Step,
    composition,
    convolutions,
    decimal,
    exp_bounds,
    joint_loss,
    log_bounds,
)
from labeldp.privacy.composition import MAX_LATTICE_POINTS, MOST_PRODUCTS, _lattice

epsilons = st.sampled_from([0, Fraction(1, 10), Fraction(1, 2), 1, Fraction(5, 2), 7])


def pairs_of(count: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    return st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=count, max_size=count)


def hockey_stick(pairs: list[tuple[Fraction, Fraction]], epsilon: Fraction) -> float:
    """Delta of a pair of distributions, from its probabilities."""
    growth = math.exp(epsilon)
    return float(sum(max(0.0, float(p) - growth * float(q)) for p, q in pairs))


@st.composite
def distributions(draw: st.DrawFn) -> list[tuple[Fraction, Fraction]]:
    """Two distributions on a few outputs; the first has a probability of zero only where the second has."""
    weights = draw(pairs_of(draw(st.integers(1, 6))))
    weights.append((draw(st.integers(1, 20)), draw(st.integers(1, 20))))
    kept = [(p, q) for p, q in weights if not p or q]
    left, right = (sum(side) for side in zip(*kept, strict=True))
    return [(Fraction(p, left), Fraction(q, right)) for p, q in kept]


@pytest.mark.guarantee("labeldp.privacy:PrivacyLoss", "never_below")
@given(distributions(), epsilons)
def test_the_loss_of_two_distributions_is_accepted_and_never_below_theirs(
    pairs: list[tuple[Fraction, Fraction]], epsilon: Fraction
) -> None:
    lists = [(log_bounds(p / q)[1], p) for p, q in pairs if p]
    loss = PrivacyLoss.discrete(*zip(*lists, strict=True))
    assert PrivacyLoss.from_json(json.loads(json.dumps(loss.to_json()))) == loss
    assert hockey_stick(pairs, epsilon) * (1 - 1e-12) <= loss.delta(epsilon) <= hockey_stick(pairs, epsilon) + 1e-3
    [(atom, _)] = loss.atoms
    for given_loss, mass in lists:  # larger losses have no less mass than before
        assert sum(p for a, p in atom.masses() if a >= given_loss) >= sum(p for a, p in lists if a >= given_loss)
        assert mass >= 0


def test_rounding_never_lowers_a_large_loss_and_moves_no_more_than_a_word() -> None:
    growth = exp_bounds(Fraction(1))[0]  # the second sum exceeds one by less than 2^-100
    masses = [growth / (growth + 1), 1 / (growth + 1)]
    [(atom, _)] = PrivacyLoss.discrete([1, -1], masses).atoms
    moved = dict(atom.masses())
    assert masses[0] <= moved[Fraction(1)] <= masses[0] + Fraction(2, 1 << 64) and sum(moved.values()) == 1


UNFAIR: dict[str, tuple[list[Any], list[Any]]] = {
    "almost no mass": ([0], ["1e-12"]),
    "a little too little mass": ([1, 0], ["0.3", "0.69999999999"]),
    "all mass at a negative loss": ([-40, 0], [1, 0]),
    "mass at a negative loss alone": (["-1e-9"], [1]),
    "a second sum a little above one": ([1, -1], ["0.7310585786", "0.2689414214"]),
    "more mass than one": ([1, 0], [1, "0.1"]),
    "half of a response": ([0, -1], ["0.5", "0.5"]),
    "losses beyond any": ([10**5, 0], ["0.5", "0.5"]),
    "losses far below zero": ([1, -(10**7)], [1, 0]),
    "too many losses": ([*range(5000)], [Fraction(1, 5000)] * 5000),
}


@pytest.mark.guarantee("labeldp.privacy:Discrete", "of_a_pair")
@pytest.mark.parametrize(("losses", "masses"), UNFAIR.values(), ids=UNFAIR)
def test_a_list_that_no_pair_of_distributions_has_is_no_loss(losses: list[Any], masses: list[Any]) -> None:
    with pytest.raises(InputError, match="must be those of a pair of distributions"):
        PrivacyLoss.discrete(losses, masses)
    atom = {"kind": "discrete", "losses": [*map(str, losses)], "probabilities": [*map(str, masses)], "times": 1}
    with pytest.raises(ValueError):
        PrivacyLoss.from_json([[atom]])


@given(st.lists(st.tuples(st.fractions(-3, 3), st.fractions(0, 1)), min_size=1, max_size=5), epsilons)
def test_no_accepted_list_costs_less_than_nothing(rows: list[tuple[Fraction, Fraction]], epsilon: Fraction) -> None:
    """Whatever is accepted has the masses of a pair: removing what exceeds one leaves a second sum of at most one."""
    try:
        atom = Discrete(*zip(*rows, strict=True))
    except ValueError:
        return
    assert sum(mass for _, mass in rows) >= 1
    with mpmath.workdps(80):
        assert (
            sum(
                mpmath.mpf(p.numerator) / p.denominator * mpmath.exp(-mpmath.mpf(a.numerator) / a.denominator)
                for a, p in rows
            )
            <= 1
        )
    either = PrivacyLoss.response(1, 3)
    assert (either + PrivacyLoss(((atom, 3),))).delta(epsilon) >= either.delta(epsilon) * (1 - 1e-9)


HOSTILE_ATOMS: dict[str, dict[str, Any]] = {
    "an epsilon beyond any": {"kind": "response", "epsilon": "1e18", "classes": 2},
    "a fraction of a class": {"kind": "response", "epsilon": "1", "classes": 2.5},
    "more classes than any": {"kind": "response", "epsilon": "1", "classes": 10**19},
    "a range beyond any": {"kind": "bounded range", "eta": "1e18"},
    "an infinite mu": {"kind": "gaussian", "mu": "inf"},
    "a mu beyond any": {"kind": "gaussian", "mu": "0x1p+64"},
    "a bag of more than all": {
        "kind": "noisy bag",
        "weights": "gaussian",
        "ratio": "0x1p-1",
        "size": 4,
        "noisy": 2,
        "records": 10**400,
    },
    "a bag of half a label": {
        "kind": "noisy bag",
        "weights": "gaussian",
        "ratio": "0x1p-1",
        "size": 4,
        "noisy": 1.5,
        "records": None,
    },
    "a bag without a ratio": {
        "kind": "noisy bag",
        "weights": "gaussian",
        "ratio": "nan",
        "size": 4,
        "noisy": 2,
        "records": None,
    },
    "an infinite stretch": {"kind": "hidden weights", "stretch": "inf", "shrink": "0x1p-1", "rows": 1},
    "more batches than any": {
        "kind": "switching",
        "rate": "0x1p-9",
        "redraw": "0x1p-2",
        "batch": 1,
        "batches": 10**400,
        "swing": 1,
        "chains": 1,
    },
    "numbers of a thousand digits": {
        "kind": "discrete",
        "losses": ["0", "1"],
        "probabilities": [f"1/{3**3000}", f"{3**3000 - 1}/{3**3000}"],
    },
    "the largest of nothing": {"kind": "largest", "curves": []},
    "the largest of too many": {"kind": "largest", "curves": [{"kind": "bounded range", "eta": "1"}] * 65},
    "the largest of the largest": {
        "kind": "largest",
        "curves": [{"kind": "largest", "curves": [{"kind": "bounded range", "eta": "1"}]}],
    },
}


@pytest.mark.parametrize("atom", HOSTILE_ATOMS.values(), ids=HOSTILE_ATOMS)
def test_hostile_parameters_are_refused(atom: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        PrivacyLoss.from_json([[{**atom, "times": 1}]])


@pytest.mark.parametrize("times", [0, -1, 1.5, "3", True, 10**12 + 1, 10**400])
def test_a_loss_occurs_a_number_of_times(times: Any) -> None:
    with pytest.raises(ValueError):
        PrivacyLoss.from_json([[{"kind": "response", "epsilon": "1", "classes": 2, "times": times}]])
    if type(times) is not bool:
        with pytest.raises(InputError, match="times must be an integer"):
            PrivacyLoss.pure(1) * times


EXTREMES = ("5e-324", "1e-300", "1e-160", "1e-154", "1e-20", "1e-3", "74", "1e6", "1e12", "1e154", "1e155", "1e300")


@pytest.mark.guarantee("labeldp.privacy:PrivacyLoss", "never_below")
@pytest.mark.parametrize("mu", EXTREMES)
def test_a_gaussian_of_any_width_has_a_delta_that_is_never_below_the_true_one(mu: str) -> None:
    loss = PrivacyLoss.gaussian(float(mu))
    with mpmath.workdps(60):
        m = mpmath.mpf(float(mu))
        for epsilon in ("0", "1e-390", "1e-300", "1e-12", "0.5", "1", "1000", "1e6", "499999999999", "1e12", "1e399"):
            e = min(mpmath.mpf(epsilon), mpmath.mpf(10) ** 12)  # further out the value at 10^12 is given
            near, far = (max(min(m / 2 + sign * e / m, 10**6), -(10**6)) for sign in (-1, 1))
            exact = mpmath.ncdf(near) - mpmath.exp(e) * mpmath.erfc(far / mpmath.sqrt(2)) / 2
            assert exact - mpmath.mpf(10) ** -40 <= loss.delta(epsilon) <= 1 and loss.delta(epsilon) > 0
    assert loss.epsilon("1e-6") >= 0 and loss.within(1, "1e-6") == (loss.delta(1) <= 1e-6)
    assert not ldp.Budget(1, "1e-6").admits(PrivacyLoss.gaussian(1e6) + loss)
    assert (loss * 10**12).delta(1) >= loss.delta(1)


def test_a_gaussian_far_out_is_rounded_up_too() -> None:
    """The argument of the normal law is a difference of large numbers."""
    mu, epsilon = 1e6 + 1 / 3, "500000333333.3889"
    with mpmath.workdps(60):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        exact = mpmath.ncdf(m / 2 - e / m)  # the other term is below it by a factor of mu
        assert PrivacyLoss.gaussian(mu).delta(epsilon) >= exact * (1 - mpmath.mpf(10) ** -5)


HOSTILE_CURVES = [
    *(
        NoisyBag(weights, ratio, 40, 20, records)
        for weights, ratio, records in product(("gaussian", "rademacher"), (1e-30, 1e-9, 1e9, 1e30), (None, 400))
    ),
    *map(HiddenWeights, (1e-300, 1e-9, 1e9, 1e18) * 2, (1e-300, 1e-9, 1 - 2.0**-53) * 3, (1, 1, 1, 1000) * 2),
    *(
        Switching(rate, redraw, batch, 10**6)
        for rate, redraw, batch in product((1e-300, 1e-3, 64.0), (1e-300, 0.5, 1.0), (1, 10**9))
    ),
    *(BoundedRange(eta) for eta in (Fraction(1, 10**390), Fraction(1, 10**150), Fraction(1, 10**9), Fraction(1000))),
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("curve", HOSTILE_CURVES, ids=str)
def test_a_curve_at_the_edge_of_its_parameters_is_a_curve(curve: Any) -> None:
    loss = PrivacyLoss.curve(curve)
    deltas = [loss.delta(epsilon) for epsilon in ("0", "1e-300", "0.01", 1, 10, 1000, "1e12")]
    assert all(0 <= delta <= 1 for delta in deltas) and deltas == sorted(deltas, reverse=True), deltas
    both = loss + PrivacyLoss.pure(1)
    for epsilon in ("0", "0.5", 2, 1000):
        assert both.delta(epsilon) >= max(
            curve.least(Fraction(epsilon)), Response(Fraction(1), 2).least(Fraction(epsilon))
        )


CURVES = [
    NoisyBag("gaussian", 0.5, 8, 2),
    HiddenWeights(0.3, 0.1),
    Largest((HiddenWeights(0.5, 0.1), HiddenWeights(0.5, 0.1).reversed(), NoisyBag("gaussian", 1.0, 8, 2))),
    *(BoundedRange(eta) for eta in (Fraction(1, 10**6), Fraction(1), Fraction(1000))),
]

lists = st.one_of(
    st.builds(Response, st.sampled_from([Fraction(1, 100), Fraction(1), Fraction(20)]), st.integers(2, 10**18)),
    st.builds(Gaussian, st.floats(5e-324, 1e308)),
    st.builds(Failure, st.fractions(0, 1)),
    st.just(Discrete((Fraction(2), Fraction(0), Fraction(-1)), (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)))),
)
counts = st.sampled_from([1, 2, 40])


@pytest.mark.guarantee("labeldp.privacy:PrivacyLoss", "never_below")
@settings(deadline=None)
@given(st.lists(st.tuples(lists, counts), min_size=1, max_size=3), epsilons)
def test_several_releases_never_cost_less_than_one_of_them(counted: list[tuple[Any, int]], epsilon: Fraction) -> None:
    check_that_no_part_costs_more(counted, epsilon)


@pytest.mark.guarantee("labeldp.privacy:Largest", "largest")
@pytest.mark.parametrize("curve", CURVES, ids=str)
def test_several_curves_never_cost_less_than_one_of_them(curve: Any) -> None:
    for epsilon in (Fraction(1, 10), Fraction(2)):
        check_that_no_part_costs_more([(curve, 2), (Response(Fraction(1), 3), 1)], epsilon)


def check_that_no_part_costs_more(counted: list[tuple[Any, int]], epsilon: Fraction) -> None:
    """At one epsilon, added up, in parts of splits, and in a plan."""
    losses = [PrivacyLoss(((atom, times),)) for atom, times in counted]
    whole, kept = PrivacyLoss.total([(loss, 1) for loss in losses]), PrivacyLoss.covering(losses)
    paths = [(), (("a", 0),), (("a", 1),)]
    joined = joint_loss(((path, loss), 1) for path, loss in zip(paths, losses, strict=False))
    plan = Block(tuple(Step("", loss, path, 2) for path, loss in zip(paths, losses, strict=False)))
    for atom, _ in counted:
        once = PrivacyLoss(((atom, 1),))
        assert 0 <= atom.least(epsilon) <= min(each.delta(epsilon) for each in (once, kept, whole, joined, plan.loss))
    for delta in ("1e-6", "0.01"):
        if (largest := whole.epsilon(delta)) < math.inf:
            assert max(atom.least(decimal(largest, "epsilon")) for atom, _ in counted) <= float(delta)


def test_many_unlike_losses_are_composed_on_fewer_points_and_never_below_a_part() -> None:
    """A file may hold any number of them: the work is bounded, and each bound stays one."""
    part = PrivacyLoss.response("0.5", 2)
    hostile = PrivacyLoss.total((PrivacyLoss.response(Fraction(1, 1000 + i), 2 + i % 5), 10**9) for i in range(100))
    together = part + hostile
    assert convolutions(together.atoms) * MAX_LATTICE_POINTS**2 > MOST_PRODUCTS
    assert together.delta(0.1) >= part.delta(0.1)
    few = PrivacyLoss.total((PrivacyLoss.response(Fraction(1, 10 + i), 3), 2) for i in range(5))
    fine = few.delta(0.3)
    _lattice.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(composition, "MOST_PRODUCTS", 1)
        coarse = few.delta(0.3)
    _lattice.cache_clear()
    assert fine <= coarse <= 1.05 * fine

"""Filters keep their budget against whoever chooses costs after looking; every rounding goes against us."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import labeldp as ldp
from labeldp.privacy import (
    HiddenWeights,
    Largest,
    NoisyBag,
    Path,
    PendingCharge,
    PrivacyLoss,
    Switching,
    filters,
    joint_costs,
)
from labeldp.privacy.accounts import Row
from labeldp.privacy.atoms import Curve
from labeldp.privacy.composition import gaussian_delta
from labeldp.privacy.filters import FREE, Cost, Costs, Filter, normal_deviation, response_mu

Action = tuple[PrivacyLoss, list[tuple[float, float]]]
"""What may be released: its loss, and the probability of each output under either label."""


def answer(epsilon: str) -> Action:
    """Binary randomized response."""
    keep = 1 / (1 + math.exp(-float(epsilon)))
    return PrivacyLoss.pure(epsilon), [(keep, 1 - keep), (1 - keep, keep)]


def spread(near: str, far: str, share: str) -> Action:
    """A small loss mostly, and a large one with a small probability: what has a tail."""
    losses = [Fraction(near), -Fraction(near), Fraction(far), -Fraction(far)]
    weights = [Fraction(1) - Fraction(share)] * 2 + [Fraction(share)] * 2
    keeps = [1 / (1 + math.exp(-float(loss))) for loss in losses]
    one = [float(weight) * keep for weight, keep in zip(weights, keeps, strict=True)]
    other = [one[1], one[0], one[3], one[2]]
    masses = [Fraction(each) * (1 + Fraction(1, 10**12)) for each in one]
    return PrivacyLoss.discrete(losses, masses), list(zip(one, other, strict=True))


@dataclass(frozen=True)
class Pair(Curve):
    """The curve of two laws, given by their masses at each output."""

    kind = "pair"
    one: tuple[float, ...]
    other: tuple[float, ...]

    def reversed(self) -> "Pair":
        return Pair(self.other, self.one)

    def ends(self, epsilons: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        gained = np.array(self.one) - np.multiply.outer(np.exp(np.minimum(epsilons, 700.0)), self.other)
        return np.zeros(len(epsilons)), np.maximum(gained, 0).sum(axis=1) * (1 + 1e-12)


def pair(one: tuple[float, ...], other: tuple[float, ...]) -> Action:
    """Two laws that are not alike; masses that are zero under one of them have an infinite loss."""
    curve = Pair(one, other)
    return PrivacyLoss.curve(Largest((curve, curve.reversed()))), list(zip(one, other, strict=True))


def reveal(delta: str) -> Action:
    """The label with probability delta, else nothing."""
    share = float(delta)
    return PrivacyLoss.failure(delta), [(share, 0.0), (0.0, share), (1 - share, 1 - share)]


def worst_delta(
    epsilon: float, actions: list[Action], admits: Callable[[tuple[PrivacyLoss, ...]], bool], most: int
) -> float:
    """The delta of the best of all strategies: at each answer it stops, or takes what is admitted, as it likes."""
    growth, known = math.exp(epsilon), {}  # type: ignore[var-annotated]

    def admitted(history: tuple[int, ...]) -> bool:
        key = tuple(sorted(history))
        if key not in known:
            known[key] = admits(tuple(actions[each][0] for each in key))
        return known[key]

    def value(one: float, other: float, history: tuple[int, ...]) -> float:
        best = max(0.0, one - growth * other)
        if len(history) < most and one > 0:
            for number, (_, outputs) in enumerate(actions):
                if admitted((*history, number)):
                    best = max(best, sum(value(one * a, other * b, (*history, number)) for a, b in outputs))
        return best

    return value(1.0, 1.0, ())


def by_curve(budget: ldp.Budget) -> Callable[[tuple[PrivacyLoss, ...]], bool]:
    """The rule for a list that is fixed in advance, asked of each path."""
    return lambda losses: budget.admits(PrivacyLoss.total((loss, 1) for loss in losses))


def by_filter(rule: Filter) -> Callable[[tuple[PrivacyLoss, ...]], bool]:
    """The rule of a filter."""

    def admits(losses: tuple[PrivacyLoss, ...]) -> bool:
        costs: Costs = FREE
        for loss in losses:
            costs = tuple(cost + rule.cost(loss) for cost in costs)
        return rule.admits(costs)

    return admits


GAMES = [
    (1.0, 0.0383, [answer("0.5"), answer("0.6"), reveal("0.0383")], 3),
    (1.0, 0.05, [answer("0.25"), answer("0.5"), reveal("0.01"), reveal("0.025")], 4),
    (0.5, 0.2, [answer("0.2"), answer("0.4"), reveal("0.02"), reveal("0.1")], 4),
    (2.0, 0.02, [answer("1"), answer("0.7"), answer("1.3"), reveal("0.002")], 4),
    (1.0, 0.1, [spread("0.1", "4", "0.001"), answer("0.5"), answer("0.3"), reveal("0.01")], 4),
    (1.0, 0.2, [spread("0.4", "3", "0.003"), answer("0.4"), reveal("0.02")], 4),
    (1.0, 0.1, [pair((0.596, 0.4, 0.004, 0.0), (0.4, 0.599, 0.0, 0.001)), answer("0.3"), reveal("0.02")], 4),
    (0.5, 0.2, [pair((0.002, 0.548, 0.45), (0.0, 0.45, 0.55)), pair((0.7, 0.3), (0.69, 0.31))], 4),
]


@pytest.mark.guarantee("labeldp.privacy:Filter", "within_budget")
@pytest.mark.parametrize(("epsilon", "delta", "actions", "most"), GAMES)
@pytest.mark.parametrize("kind", ["gaussian", "zcdp"])
@pytest.mark.parametrize("share", [0, Fraction(1, 10), Fraction(1, 2)])
@pytest.mark.parametrize("cut", [0, Fraction(1, 4), Fraction(1, 2)])
def test_no_adaptive_strategy_passes_a_filter(
    epsilon: float, delta: float, actions: list[Action], most: int, kind: str, share: Any, cut: Any
) -> None:
    rule = Filter.of(epsilon, delta, kind, Fraction(str(delta)) * share, Fraction(str(delta)) * cut)
    worst = worst_delta(epsilon, actions, by_filter(rule), most)
    assert worst <= delta * (1 + 1e-12)


@pytest.mark.parametrize("tails", [1, 2])
@pytest.mark.parametrize(("epsilon", "delta", "actions", "most"), GAMES[4:])
def test_nor_where_a_filter_holds_fewer_and_larger_tails(
    epsilon: float, delta: float, actions: list[Action], most: int, tails: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "TAILS", tails)
    filters._cost.cache_clear()
    share = Fraction(str(delta))
    for failure, tail in ((0, share), (share / 2, share / 2), (share / 10, share / 2)):
        worst = worst_delta(epsilon, actions, by_filter(Filter.of(epsilon, delta, "gaussian", failure, tail)), most)
        assert worst <= delta * (1 + 1e-12)
    filters._cost.cache_clear()


def test_the_curve_of_a_fixed_list_is_passed_by_a_strategy() -> None:
    epsilon, delta, actions, most = GAMES[0]
    worst = worst_delta(epsilon, actions, by_curve(ldp.Budget(epsilon, delta)), most)
    assert 1.37 * delta < worst < 1.39 * delta


def test_two_filters_joined_by_or_would_be_passed() -> None:
    """Failures or rates, each up to delta: this is why one of them is pinned, and delta is divided."""
    epsilon, delta = 1.0, Fraction("0.0383")
    slow = Filter.of(epsilon, delta, failure=0, tail=0)
    failing = Filter.of(epsilon, delta, failure=delta * Fraction(999, 1000), tail=0)
    actions, one, other = [answer("0.25"), reveal("0.0382")], by_filter(slow), by_filter(failing)
    for admits in (one, other):
        assert worst_delta(epsilon, actions, admits, 7) <= float(delta)
    assert worst_delta(epsilon, actions, lambda losses: one(losses) or other(losses), 7) > 1.2 * float(delta)


def test_shares_of_delta_that_are_chosen_after_a_look_would_be_passed() -> None:
    """Randomized response first, and then a filter with the usual shares or one for failures: 1.07 delta together."""
    usual, failing = Filter.of(1, "0.0383"), Filter.of(1, "0.0383", failure="0.038", tail=0)
    actions, one, other = [answer("0.2"), reveal("0.038")], by_filter(usual), by_filter(failing)
    for admits in (one, other):
        assert worst_delta(1.0, actions, admits, 9) < 0.0383
    assert 1.07 * 0.0383 < worst_delta(1.0, actions, lambda losses: one(losses) or other(losses), 9) < 1.08 * 0.0383


def test_tails_are_spent_whole_and_not_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one release to hold all of the tail, a strategy comes within a tenth of what the filter promises."""
    monkeypatch.setattr(filters, "TAILS", 1)
    filters._cost.cache_clear()
    delta, actions = Fraction("0.1"), [spread("0.05", "4", "0.1"), answer("0.3")]
    for kind in ("gaussian", "zcdp"):
        for tail in (delta * Fraction(999, 1000), delta / 10):
            rule = Filter.of(1, delta, kind, 0, tail)
            assert worst_delta(1.0, actions, by_filter(rule), 5) <= float(delta)
    only_tails = replace(Filter.of(1, delta, failure=0, tail=delta), most=Fraction(0))
    assert 0.9 * float(delta) < worst_delta(1.0, actions, by_filter(only_tails), 5) <= float(delta)
    filters._cost.cache_clear()


def test_releases_with_a_loss_and_with_a_tail_share_a_budget_a_little_above_their_sum() -> None:
    """Randomized response with epsilon = 1 and a Gaussian release of (0.5, 1e-6), one after the other."""
    small = PrivacyLoss.gaussian(0.124)
    assert 0.49 < small.epsilon(1e-6) < 0.5
    for epsilon, admitted in (("1.65", True), ("1.49", False)):
        admits = by_filter(Filter.of(epsilon, "1e-6"))
        assert admits((PrivacyLoss.pure(1), small)) is admitted
        assert admits((small, PrivacyLoss.pure(1))) is admitted


def test_a_larger_budget_admits_what_a_smaller_one_admits_of_releases_with_a_small_tail() -> None:
    """500 answers at once have a loss of 5 in the worst case, and hardly ever one above 1.2."""
    many, one = PrivacyLoss.pure("0.01") * 500, PrivacyLoss.pure(8)
    assert many.max_loss == 5 and many.epsilon("6e-9") < 1.2
    for epsilon in ("9.3", "9.9", "10", "12", "13", "39"):
        assert by_filter(Filter.of(epsilon, "1e-6"))((many, one))
    cost = Filter.of(41, "1e-6").cost(many)
    assert cost.pure == 5 and not cost.tail  # an eighth of it: no tail is spent on that


def test_what_is_used_up_is_more_than_all_exactly_where_a_filter_refuses_what_it_has_room_for() -> None:
    numbers = (Fraction(0), Fraction(1, 2), Fraction(1), Fraction(3, 2), None)
    for rule in (Filter.of(1, "0.1"), Filter.of(1, "0.1", tail=0), Filter.of(1, "0.1", failure="0.05", tail="0.05")):
        whole = (rule.epsilon, rule.most, rule.failure, rule.tail)
        for parts in product(numbers, numbers, numbers[:4], numbers[:4]):
            pure, rate, failure, tail = (
                None if part is None else part * most for part, most in zip(parts, whole, strict=True)
            )
            cost = Cost(pure, rate, failure or Fraction(0), tail or Fraction(0))
            used = rule.used((cost,))
            assert used <= 1 if rule.admits((cost,)) else used > 1 or cost.pure is None or not rule.most
    half = Filter.of(1, "0.1").share(Fraction(1, 2))  # which has room for rates and failures alone
    assert half.used((Cost(Fraction(1, 100), half.most * 2, Fraction(0), Fraction(1, 10**9)),)) == 2


@pytest.mark.parametrize(("failure", "tail"), [("0.1", "0.001"), ("0.2", None), (0, "0.11"), (-1, 0), (0, "-0.01")])
def test_more_than_delta_cannot_be_kept_for_failures_and_tails(failure: Any, tail: Any) -> None:
    with pytest.raises(ldp.InputError, match="failure and tail must not be negative, nor more than delta together"):
        Filter.of(1, "0.1", failure=failure, tail=tail)


def grid(largest: float) -> np.ndarray:
    return np.concatenate([[0.0], np.geomspace(1e-4, largest, 400)])


@pytest.mark.parametrize("epsilon", ["0.001", "0.1", "1", "4", "12"])
@pytest.mark.parametrize("classes", [2, 3, 10, 1000])
def test_the_smallest_gaussian_that_dominates_randomized_response(epsilon: str, classes: int) -> None:
    mu, loss = response_mu(Fraction(epsilon), classes), PrivacyLoss.response(epsilon, classes)
    lie = 1 / (math.exp(float(epsilon)) + classes - 1)
    expected = norm.isf(lie) + norm.isf((classes - 1) * lie)
    assert expected <= float(mu) * (1 + 1e-13) and float(mu) == pytest.approx(expected, rel=1e-7)
    near = np.linspace(0, float(epsilon), 300)
    curves = [(loss.delta(each), gaussian_delta(each, float(mu))) for each in near]
    assert all(mine <= theirs * (1 + 1e-9) + 1e-12 for mine, theirs in curves)
    # A thousandth less no longer dominates: the line of the first vertex passes its curve.
    less = float(mu) * 0.999
    reach = -less / 2 - norm.ppf(lie)  # where the Gaussian curve has the slope of that line
    keep = 1 - (classes - 1) * lie
    tangent = less * reach
    assert keep - math.exp(tangent) * lie > norm.cdf(less / 2 - reach) - math.exp(tangent) * norm.cdf(-less / 2 - reach)


def test_pure_losses_are_dominated_by_1_2533_epsilon() -> None:
    assert float(response_mu(Fraction("0.001"))) == pytest.approx(1.2533e-3, rel=1e-4)
    assert 44 < float(response_mu(Fraction(1000))) < 90


@settings(max_examples=200, deadline=None)
@given(st.fractions(min_value=Fraction(1, 10**12), max_value=1 - Fraction(1, 10**12)))
def test_deviations_are_rounded_up(probability: Fraction) -> None:
    import mpmath

    with mpmath.workdps(40):
        found = normal_deviation(probability)
        exact = -mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(probability.numerator) / probability.denominator - 1)
        assert mpmath.mpf(found.numerator) / found.denominator >= exact
        assert abs(float(found) - float(exact)) < 1e-3 * (1 + abs(float(exact)))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 50), min_size=2, max_size=5), st.lists(st.integers(1, 50), min_size=2, max_size=5))
def test_tables_are_dominated_at_the_vertices_of_their_trade_off(left: list[int], right: list[int]) -> None:
    size = min(len(left), len(right))
    one, other = (np.array([*row[:size], *row[:size][::-1]], dtype=float) for row in (left, right))
    first, second = np.concatenate([one, other]), np.concatenate([other, one])  # dominates both orders
    first, second = first / first.sum(), second / second.sum()
    losses = [Fraction(math.ceil(1e9 * math.log(a / b)), 10**9) for a, b in zip(first, second, strict=True)]
    loss = PrivacyLoss.discrete(losses, [Fraction(float(each)) for each in first])
    rule = Filter.of(1, "1e-6")
    cost = rule.cost(loss)
    assert cost.pure == max(losses) and cost.rate is not None
    mu = math.sqrt(cost.rate)
    if mu:
        for epsilon in np.linspace(0, float(max(losses)) + 0.1, 50):
            assert np.maximum(first - math.exp(epsilon) * second, 0).sum() <= gaussian_delta(epsilon, mu) + 1e-8


CURVES = [
    NoisyBag("rademacher", 1.0, 64, 64),
    NoisyBag("gaussian", 0.5, 64, 64),
    NoisyBag("gaussian", 0.5, 256, 25),
    HiddenWeights(0.01, 0.01, 3),
    HiddenWeights(0.3, 0.2, 2),
    Switching(1e-3, 0.02, batch=10, batches=1000),
    Pair((1 - 7e-8, 7e-8), (1 - 7e-8 * math.exp(-7), 7e-8 * math.exp(-7))),
]
"""The last has a tail that is larger than what may fail, and less than twice that."""


@pytest.mark.parametrize("curve", CURVES, ids=str)
@pytest.mark.parametrize("kind", ["gaussian", "zcdp"])
def test_curves_are_dominated_but_for_a_tail_that_public_numbers_choose(curve: Any, kind: str) -> None:
    rule = Filter.of(3, "1e-6", kind)
    cost = rule.cost(PrivacyLoss.curve(curve))
    assert cost.rate is not None and 0 < cost.failure <= rule.failure / 2
    assert cost.pure is not None and cost.tail == rule.tail / 16
    assert PrivacyLoss.curve(curve).within(cost.pure, cost.tail)
    assert rule.cost(PrivacyLoss.curve(curve)) == Filter.of(3, "1e-6", kind).cost(PrivacyLoss.curve(curve))
    mu = math.sqrt(cost.rate * (1 if kind == "gaussian" else 2))
    share = float(cost.failure)
    for each in (curve, curve.reversed()):
        points = grid(8.0)
        upper = each.ends(points)[1]
        ours = np.array([share + (1 - share) * gaussian_delta(float(x), mu) for x in points])
        assert (upper <= ours * (1 + 1e-6)).all()
        assert (ours < 1).any()


def test_a_bag_with_noise_on_all_its_labels_costs_little_more_than_its_gaussian() -> None:
    cost = Filter.of(3, "1e-6").cost(PrivacyLoss.curve(CURVES[0]))
    assert cost.rate is not None and 1 <= math.sqrt(cost.rate) / 0.125 < 1.001


def test_a_tail_that_does_not_fit_is_admitted_by_no_filter_without_failures() -> None:
    rule = Filter.of(1, "1e-6", failure=0, tail=0)
    assert not rule.admits((rule.cost(PrivacyLoss.curve(CURVES[2])),))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-9), (1, 1e-6), (3, 1e-6), (10, 0.01), (900, 0.3)])
def test_a_filter_admits_one_gaussian_release_at_its_exact_cost_and_no_larger_one(epsilon: float, delta: float) -> None:
    for failure in (0, Fraction(str(delta)) / 10):
        rule = Filter.of(epsilon, delta, failure=failure, tail=0)
        mu = math.sqrt(rule.most)
        assert Fraction(gaussian_delta(float(rule.epsilon), mu)) <= (rule.delta - rule.failure) * (
            1 + Fraction(1, 10**12)
        )
        assert gaussian_delta(epsilon, mu * (1 + 1e-6)) > float(rule.delta - rule.failure)
        assert rule.admits((rule.cost(PrivacyLoss.gaussian(mu * (1 - 1e-12))),))
        assert not rule.admits((rule.cost(PrivacyLoss.gaussian(mu * (1 + 1e-12))),))


def test_the_rate_of_a_zcdp_filter_is_that_of_the_tight_conversion() -> None:
    rule = Filter.of(3, "1e-6", "zcdp", 0, 0)
    orders = 1 + np.geomspace(1e-3, 1e5, 200_000)
    deltas = (orders - 1) * (orders * float(rule.most) - 3) + (orders - 1) * np.log1p(-1 / orders) - np.log(orders)
    assert np.exp(deltas.min()) == pytest.approx(1e-6, rel=2e-3)


def test_what_a_filter_costs_against_a_fixed_list() -> None:
    """The numbers of docs/results/filters.md."""
    loss = PrivacyLoss.pure("0.1")
    counts = {
        kind: max(n for n in range(1, 60) if by_filter(Filter.of(3, "1e-6", kind, 0, 0))((loss,) * n))
        for kind in ("gaussian", "zcdp")
    }
    fixed = max(n for n in range(1, 60) if ldp.Budget(3, 1e-6).admits(loss * n))
    assert (fixed, counts) == (46, {"gaussian": 30, "zcdp": 37})


LOSSES = [
    PrivacyLoss.pure("0.1"),
    PrivacyLoss.gaussian(0.05),
    PrivacyLoss.approximate("0.2", "1e-8"),
    PrivacyLoss.pure("0.3") + PrivacyLoss.gaussian(0.1),
]
PATHS: list[Path] = [
    (), (("a", 0),), (("a", 1),), (("b", 0),), (("b", 1),), (("a", 0), ("c", 0)), (("a", 0), ("c", 1)),
]  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PATHS), st.sampled_from(LOSSES), st.integers(1, 3)), max_size=7))
def test_splits_cost_the_worst_part_in_each_coordinate_and_sums_bound_it(charged: list[Any]) -> None:
    rule = Filter.of(2, "1e-5")
    counted: Counter[tuple[Path, PrivacyLoss]] = Counter()
    for path, loss, times in charged:
        counted[path, loss] += times
    joint = rule.joint(counted.items())
    assert joint == joint_costs(rule, [Row((0, 0), path, loss, times) for path, loss, times in charged], 0)
    summed = Cost()
    for _, loss, times in charged:
        summed = summed + rule.cost(loss) * times
    assert all(summed.covers(each) for each in joint)
    for a, b, c in product((0, 1), repeat=3):  # every record lies in one part of each split
        place = {"a": a, "b": b, "c": c}
        own: Costs = FREE
        for path, loss, times in charged:
            if all(place[split] == part for split, part in path):
                for _ in range(times):
                    own = tuple(cost + rule.cost(loss) for cost in own)
        assert all(any(each.covers(mine) for each in joint) for mine in own)
        if rule.admits(joint):
            assert rule.admits(own)


def test_filters_and_costs_are_written_exactly() -> None:
    rule = Filter.of("0.3", "1e-7", "zcdp", "1e-9", "2e-8")
    assert Filter.from_json(rule.to_json()) == rule
    for cost in (Cost(), Cost(None, Fraction(1, 3), Fraction(1, 7)), Cost(Fraction(2), None, tail=Fraction(1, 9))):
        assert Cost.from_texts(*cost.to_texts()) == cost


def test_a_ledger_in_memory_keeps_a_filter_where_the_budget_names_one() -> None:
    ledger = ldp.Ledger(ldp.Budget(1, "0.0383", kind="gaussian"))
    ledger.record(PendingCharge({}, PrivacyLoss.pure("0.5")))
    with pytest.raises(ldp.BudgetExceeded, match=r"kept by a filter .* no smaller epsilon"):
        ledger.record(PendingCharge({}, PrivacyLoss.failure("0.0383")))
    ledger.record(PendingCharge({}, PrivacyLoss.pure("0.5")))
    with pytest.raises(ldp.BudgetExceeded, match="kept by a filter"):
        ledger.record(PendingCharge({}, PrivacyLoss.pure("0.1")))
    assert len(ledger.charges) == 2


def test_shares_of_delta_by_default_are_a_tenth_or_what_is_left() -> None:
    for failure, tail in ((None, "1e-7"), ("1e-7", "1e-7"), ("9.5e-7", "5e-8"), ("1e-6", 0)):
        rule = Filter.of(1, "1e-6", failure=failure)
        assert rule.tail == Fraction(tail) and rule.failure == Fraction(failure or "1e-7")
        assert rule.shares == (rule.failure * 10**6, rule.tail * 10**6)


def test_the_rate_of_a_release_is_the_least_of_those_that_are_known() -> None:
    """Randomized response at a small epsilon is e^2 / 2-concentrated; its dominating Gaussian costs 1.57 as much."""
    rule = Filter.of(3, "1e-6", kind="zcdp", failure=0, tail=0)
    pure, gaussian = rule.cost(PrivacyLoss.pure("0.1")), rule.cost(PrivacyLoss.gaussian(0.1))
    assert pure == Cost(Fraction(1, 10), Fraction(1, 200))
    assert gaussian.pure is None and 0 <= gaussian.rate * 200 - 1 < 1e-12  # type: ignore[operator]
    large = rule.cost(PrivacyLoss.pure(9))
    assert large.rate is not None and large.rate < Fraction(81, 2)
    usual = Filter.of(3, "1e-6", failure=0, tail=0)
    rate = usual.cost(PrivacyLoss.pure("0.1")).rate
    assert rate is not None and 0 <= rate / response_mu(Fraction(1, 10), 2) ** 2 - 1 < 1e-12


def test_what_a_filter_never_admits_uses_all_of_it() -> None:
    rule = Filter.of(1, "1e-6", failure=0, tail=0)
    assert rule.used((rule.cost(PrivacyLoss.failure("1e-7")),)) == 1
    assert rule.used((rule.cost(PrivacyLoss.pure("0.5")),)) == Fraction(1, 2) and rule.used(()) == 0
    assert Filter.of(1, "1e-6", failure="1e-7").used((Cost(failure=Fraction("5e-8")),)) == Fraction(1, 2)

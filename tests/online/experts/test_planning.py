"""Plans: their bounds beside published numbers, what they keep, what is refused, and that no data is needed."""

import inspect
import json
from fractions import Fraction

import pytest

from labeldp.online import BetterOfTwo, DoublingExponential, PrivateExperts, methods_of, plan_experts
from labeldp.online import planning as methods
from labeldp.online.experts import accounting as tuning
from labeldp.online.experts.accounting import PrivacyTarget, few_bits, tuned
from labeldp.online.experts.softmax import least_noise
from labeldp.privacy import InputError, PrivacyLoss, Unit

METHODS = methods_of("experts")

MILLIONTH = Fraction(1, 10**6)

NOTED = [  # horizon, experts, epsilon; bounds of dartboard, matrix factorization, redraw, Algorithm 1
    (10**4, 10, "0.1", 911, 991, 1259, 1087),
    (10**4, 10**5, "1", 955, None, 1420, 1128),
    (10**5, 100, "1", 988, 773, 2210, 1231),
    (10**5, 1000, "1", 1414, 2422, 3036, 1731),
    (10**6, 10**5, "8", 2399, 5921, 5427, 2409),
    (10**7, 100, "1", 5628, 4864, 22106, 7183),
    (10**7, 10**4, "0.1", 39111, 96795, 112956, 49321),
]


@pytest.mark.parametrize(("horizon", "d", "epsilon", "dartboard", "noise", "redraw", "l2p"), NOTED)
def test_bounds(horizon: int, d: int, epsilon: str, dartboard: int, noise: int, redraw: int, l2p: int) -> None:
    """Those of an independent accountant; never above, as it tried powers of two alone as batches."""
    plan = plan_experts(d, horizon, epsilon, "1e-6")
    bounds = {each.method: each.regret_bound for each in plan.alternatives} | {plan.method: plan.regret_bound}
    for method, noted in {"dartboard": dartboard, "matrix-factorization": noise, "l2p": l2p}.items():
        if noted:
            assert 0.98 * noted <= bounds[method] <= 1.003 * noted, method
    assert 0.96 * redraw <= bounds["redraw"] <= 1.001 * redraw
    assert plan.regret_bound == min(bounds[name] for name in bounds if METHODS[name].by_itself)
    assert [each.regret_bound for each in plan.alternatives] == sorted(each.regret_bound for each in plan.alternatives)


def test_a_plan_reads_in_a_line() -> None:
    assert str(plan_experts(1000, 100_000, 1, "1e-6")) == (
        "OnlinePlan('dartboard', horizon=100000, epsilon=1.0, delta=1e-06, "
        "B=3, eta=0.00582, p=0.01706, regret_bound=1405.22)"
    )


@pytest.mark.parametrize(
    ("horizon", "epsilon", "swing", "rate"),
    [
        (10**4, "0.1", 2, 1.18e-3),
        (10**4, "8", 2, 5.2e-2),
        (10**5, "1", 2, 4.7e-3),
        (10**6, "1", 2, 2.24e-3),
        (10**6, "4", 2, 7.0e-3),
        (10**7, "0.1", 2, 1.3e-4),
        (10**6, "1", 1, 3.5e-3),
    ],
)
def test_largest_rates_of_batches_of_one(horizon: int, epsilon: str, swing: int, rate: float) -> None:
    promise = PrivacyTarget(
        1 << 200, horizon, Fraction(epsilon), MILLIONTH, swing
    )  # So many experts that no rate is too large.
    assert float(tuned(promise, 1, batch=1).rate) == pytest.approx(rate, rel=0.04)


@pytest.mark.parametrize(("epsilon", "redraw", "l2p"), [("1", 2.2e-4, 1.5e-3), ("4", 7.9e-4, 5.5e-3)])
def test_largest_rates_of_the_others(epsilon: str, redraw: float, l2p: float) -> None:
    promise = PrivacyTarget(1 << 200, 10**6, Fraction(epsilon), MILLIONTH, 2)
    assert float(tuned(promise, 1, batch=1, redraw=Fraction(1)).rate) == pytest.approx(redraw, rel=0.03)
    assert float(tuned(promise, 2, batch=1).rate) == pytest.approx(l2p, rel=0.03)


@pytest.mark.guarantee("labeldp.online:tuned", "kept")
@pytest.mark.guarantee("labeldp.online:least_noise", "kept")
@pytest.mark.guarantee("labeldp.online:OnlinePlan", "kept")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("d", "horizon", "epsilon", "delta", "neighbors"),
    [(10, 1000, "1", "1e-6", "replace"), (300, 12345, "0.3", "1e-9", "zero-out"), (2, 1, "0.01", "0.5", "replace")],
)
def test_what_is_planned_is_kept(method: str, d: int, horizon: int, epsilon: str, delta: str, neighbors: str) -> None:
    plan = plan_experts(d, horizon, epsilon, delta, method, neighbors)
    kernel = plan.kernel
    loss = kernel.privacy_loss(horizon)
    assert loss.within(epsilon, delta)
    assert (kernel.experts, kernel.levels, kernel.neighbors) == (d, 255, plan.task.neighbors)
    assert plan.method == method and len(plan.alternatives) == len(METHODS) - 1
    assert 0 <= plan.expected_switches < horizon or horizon == 1
    least = 0.99 if method != "better-of-two" else 0.7 if horizon > 1 else 0.0  # what composition saves is left over
    assert loss.epsilon(0 if method == "doubling" else delta) >= least * float(epsilon)


def test_parameters_are_exact_and_small() -> None:
    plan = plan_experts(1000, 10**5, 1)
    rate, redraw = plan.parameters["eta"], plan.parameters["p"]
    assert rate.denominator & (rate.denominator - 1) == 0 and rate.numerator < 1 << 24
    assert (1 << 32) % redraw.denominator == 0
    assert plan.to_json()["eta"] == rate and plan.to_json()["p"] == redraw
    assert few_bits(1 / 3) <= 1 / 3 < few_bits(1 / 3) * (1 + Fraction(1, 1 << 23))
    assert few_bits(2.0**40 + 1) == 1 << 40


def test_the_promise_of_parameters_is_the_kernels() -> None:
    promise = PrivacyTarget(50, 999, Fraction(1), MILLIONTH, 2)
    found = tuned(promise, 1)
    assert promise.kept(found.rate, found.redraw, found.batch, 1)
    assert not promise.kept(found.rate * Fraction(1001, 1000), found.redraw, found.batch, 1)
    plan = plan_experts(50, 999, 1, "1e-6", "dartboard")
    expected = {"B": found.batch, "eta": found.rate, "p": found.redraw, "stddev": None}
    assert plan.parameters == expected


def test_the_least_noise() -> None:
    promise = PrivacyTarget(2, 2, Fraction(1), MILLIONTH, 2)
    found = least_noise(promise, lambda stddev: PrivacyLoss.gaussian(1 / stddev), 1.0)
    assert PrivacyLoss.gaussian(1 / found).within(1, MILLIONTH)
    assert not PrivacyLoss.gaussian(1 / (found * (1 - 1e-6))).within(1, MILLIONTH)
    with pytest.raises(InputError, match="take larger ones"):
        least_noise(promise, lambda stddev: PrivacyLoss.gaussian(1.0), 1.0)


@pytest.mark.guarantee("labeldp.online:plan_experts", "public_plan")
def test_a_plan_needs_nothing_but_public_numbers() -> None:
    assert list(inspect.signature(plan_experts).parameters) == [
        *("d", "horizon", "epsilon", "delta", "method", "neighbors", "loss_bits")
    ]
    assert plan_experts(20, 500, 1).to_json() == plan_experts(20, 500, "1.0", Fraction(1, 10**6)).to_json()


def test_json() -> None:
    found = json.loads(json.dumps(plan_experts(1000, 10**5, 1, 1e-6, neighbors="zero-out", loss_bits=16).to_json()))
    assert found["method"] == "dartboard" and found["neighbors"] == "zero-out" and found["delta"] == 1e-6
    assert found["regret_bound"] < 1405 and found["nonprivate_bound"] == pytest.approx(587.7, abs=0.1)
    assert found["rounding_bound"] == pytest.approx(1e5 / 65535) and found["vacuous"] is False
    assert {each["method"] for each in found["alternatives"]} == set(METHODS) - {"dartboard"}
    assert {each["holds"] for each in found["alternatives"] if each["method"] == "doubling"} == {
        "for independent draws of one law only"
    }


def test_auto_never_takes_what_an_adversary_harms() -> None:
    plan = plan_experts(1000, 10**6, "0.1")
    better = [each.method for each in plan.alternatives if each.regret_bound < plan.regret_bound]
    assert plan.method == "dartboard" and better == ["doubling"]


def test_without_delta_there_is_doubling() -> None:
    plan = plan_experts(100, 10**4, 1, 0, "doubling")
    assert plan.kernel.privacy_loss(10**4).epsilon(0) <= 1 and plan.alternatives == ()
    assert plan.kernel.rate == Fraction(1, 2) and plan_experts(9, 9, 1, 0, "doubling", "zero-out").kernel.rate == 1


def test_when_a_bound_says_nothing() -> None:
    plan = plan_experts(10**6, 100, "0.001")
    assert plan.vacuous and plan.regret_bound > 100
    assert not plan_experts(2, 10**4, 1).vacuous


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"d": 1}, "d must be an integer, at least 2"),
        ({"d": 2.0}, "d must be an integer, at least 2"),
        ({"d": 10**9 + 1}, r"d must be at most 10\^9"),
        ({"horizon": 0}, "horizon must be an integer, at least 1"),
        ({"horizon": 10**12 + 1}, r"horizon at most 10\^12"),
        ({"epsilon": 0}, "epsilon must be positive"),
        ({"epsilon": 1001}, "epsilon must be at most 1000"),
        ({"epsilon": float("nan")}, "epsilon must be"),
        ({"delta": -1e-9}, r"delta must lie in \[1e-200, 1\), or be 0 for the method 'doubling'"),
        ({"delta": 1}, r"delta must lie in \[1e-200, 1\)"),
        ({"delta": "1e-201"}, r"delta must lie in \[1e-200, 1\)"),
        ({"delta": 0}, "delta must be positive, such as 1e-6: with delta = 0 there is only the method 'doubling'"),
        ({"delta": 0, "method": "dartboard"}, "delta must be positive"),
        ({"method": "best"}, "method must be one of: auto, dartboard, matrix-factorization, tree, redraw, shrinking-"),
        ({"neighbors": Unit.ONE_LOSS}, "neighbors must be 'replace' or 'zero-out'"),
        ({"loss_bits": 7}, "loss_bits must be 8 or 16"),
    ],
)
def test_what_is_refused(changed: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan_experts(**{"d": 10, "horizon": 100, "epsilon": 1, "delta": 1e-6, **changed})


@pytest.mark.parametrize(
    ("d", "horizon", "epsilon", "delta"),
    [(2, 1, 1000, "0.999"), (2, 10**12, 1000, "1e-200"), (10**9, 10**12, "1e-6", "1e-12"), (10**9, 1, "1e-9", "0.1")],
)
def test_far_out(d: int, horizon: int, epsilon: object, delta: str) -> None:
    plan = plan_experts(d, horizon, epsilon, delta)
    assert plan.kernel.privacy_loss(horizon).within(epsilon, delta)
    assert plan.regret_bound >= 0.99 * plan.nonprivate_bound


@pytest.mark.parametrize("name", METHODS)
def test_a_pure_method_has_a_finite_loss_at_delta_0(name: str) -> None:
    pure = METHODS[name].pure
    kernel = plan_experts(3, 12, 1.0, 0 if pure else 1e-3, name, "replace", 8).kernel
    assert (kernel.privacy_loss(12).max_loss is not None) == pure


def test_noise_that_does_not_fit_is_no_alternative() -> None:
    found = plan_experts(10**5, 10**12, 1)
    assert "tree" not in {each.method for each in found.alternatives}
    with pytest.raises(InputError, match="stddev is too small"):
        plan_experts(10**5, 10**12, 1, method="tree")


def test_rooms_speak_of_no_data() -> None:
    """Nothing that tunes a plan takes losses, or calls what measures the regret of losses that are known."""
    measures = {"expected_weights", "expected_softmax", "expected_doubling", "_expected", "_products"}
    for module in (methods, tuning):
        functions = [f for f in vars(module).values() if inspect.isfunction(f) and f.__name__ not in measures]
        names = {
            name
            for f in functions
            for name, parameter in inspect.signature(f).parameters.items()
            if parameter.annotation is not str  # `losses="linear"` names a kind of losses
        }
        assert not names & {"losses", "levels", "actions", "state"}
        assert not any(measures & set(f.__code__.co_names) for f in functions)


def test_the_better_of_two_is_doubling_and_what_a_plan_takes_with_half_of_epsilon() -> None:
    plan = plan_experts(1000, 10**5, "1", "1e-6", "better-of-two")
    kernel, second = plan.kernel, plan_experts(1000, 10**5, "0.5", "5e-7")
    chooser = plan_experts(2, 10**5, "0.25", "5e-7", "matrix-factorization")
    assert isinstance(kernel, BetterOfTwo)
    assert kernel.first == DoublingExponential(1000, Fraction(1, 4))
    assert kernel.second == second.kernel and kernel.chooser == chooser.kernel
    assert plan.regret_bound == pytest.approx(second.regret_bound + chooser.regret_bound)
    assert plan_experts(1000, 10**5, "1", "1e-6").method != "better-of-two"
    assert PrivateExperts(5, 100, 1, 1e-6, method="better-of-two").predict() in range(5)

"""The power of an experiment is how often its interval leaves out 0."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import labeldp as ldp
from inference.population import answers, public, sums
from labeldp import inference
from labeldp.inference import power
from labeldp.mechanisms import UnbiasedNumbers
from labeldp.privacy import InputError

NUMBERS: dict[str, Any] = {"domain": ldp.Interval(0, 100), "spread": 12.0}


def test_records_for_an_effect_have_its_power() -> None:
    needed = {
        name: power(0.02, 0.05, trust=name, epsilon=None if name == "none" else 1.0)
        for name in ("none", "central", "local")
    }
    assert needed["none"].records < needed["central"].records < 1.05 * needed["none"].records
    assert needed["local"].records > 10 * needed["none"].records
    for one in needed.values():
        again = power(0.02, 0.05, trust=one.trust, epsilon=one.epsilon, records=one.records)
        assert again.power == one.power >= 0.8
        fewer = power(0.02, 0.05, trust=one.trust, epsilon=one.epsilon, records=one.records - 1)
        assert fewer.power < 0.8
    assert "records show an effect of 0.02" in str(needed["local"])
    assert power(0.02, 0.05, trust="none", r_squared=0.5).records < 0.51 * needed["none"].records
    for options, sentence in (
        ({"trust": "none", "epsilon": 1.0}, "epsilon must be given for"),
        ({"epsilon": None}, "epsilon must be given for"),
        ({"epsilon": 1.0, "power": 2}, "power must lie between the level of the test and 1"),
        ({"epsilon": 1.0, "r_squared": 1}, "r_squared must lie in"),
    ):
        with pytest.raises(InputError, match=sentence):
            power(0.02, 0.05, **options)
    with pytest.raises(InputError, match="rate must lie between 0 and 1"):
        power(0.97, 0.05, epsilon=1.0)


def test_the_smallest_effect_is_shown_by_the_records_that_it_needs() -> None:
    for options in (
        {"epsilon": 1.0},
        {"trust": "none", "treated": 0.1},
        {"epsilon": 3.0, "per_user": 5, "correlation": 0.2},
    ):
        plan = power(0.02, 0.05, **options)
        assert power(None, 0.05, records=plan.records, **options).effect == pytest.approx(0.02, rel=1e-3)
    plan = power(2, 40, epsilon=3.0, **NUMBERS)
    assert power(None, 40, epsilon=3.0, records=plan.records, **NUMBERS).effect == pytest.approx(2, rel=1e-3)
    assert "on a mean of 40 (standard deviation 12)" in str(plan)


def test_arms_and_users_that_cost_records() -> None:
    alike = power(0.02, 0.05, epsilon=1.0)
    assert power(0.02, 0.05, epsilon=1.0, treated=0.1).records == pytest.approx(alike.records / 0.36, rel=0.02)
    plain = power(0.02, 0.05, trust="none")
    users = power(0.02, 0.05, trust="none", per_user=5, correlation=0.25)
    assert users.records == pytest.approx(2 * plain.records, abs=2), "a design effect of 2"
    assert replace(plain, per_user=5.0, correlation=0.25).variance == pytest.approx(2 * plain.variance)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"spread": 0.2}, "spread must be given for numbers"),
        ({"treated": 1.0}, "treated must lie between 0 and 1"),
        ({"per_user": 0.5}, "per_user must be at least 1"),
        ({"per_user": 3, "trust": "central"}, "per_user must be 1 for 'central'"),
        ({"correlation": 1.5}, r"correlation must lie in \[0, 1\]"),
        ({"domain": 5, "spread": 1.0}, "domain must be an Interval"),
        ({"domain": ldp.Interval(0, 1), "spread": 0.4}, "spread must be positive, and at most 0.2179"),
        ({"effect": None}, "records must be given without an effect"),
        ({"effect": None, "records": 20}, "records must be more: no increase is shown"),
    ],
)
def test_bad_experiments(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        power(**{"effect": 0.02, "rate": 0.05, "epsilon": 1.0, **options})


def shares(rng: np.random.Generator, plan: Any, kind: str) -> Any:
    mail = rng.random(plan.records) < plan.treated
    labels = (rng.random(plan.records) < np.where(mail, plan.rate + plan.effect, plan.rate)).astype(int)
    if kind == "answers":
        return inference.difference(answers(rng, labels, 2, plan.epsilon), mail)
    of_sums = inference.plan_sums("difference", ldp.Classes(2), plan.epsilon, treated=public(mail))
    return inference.difference(sums(rng, labels, of_sums), mail)


def numbers(rng: np.random.Generator, plan: Any, kind: str) -> Any:
    domain = ldp.Interval(0, 100, grid=101, clip=True)
    mail = rng.random(plan.records) < plan.treated
    labels = np.rint(plan.rate + plan.effect * mail + 12 * rng.normal(size=plan.records))
    mechanism = UnbiasedNumbers(domain, epsilon=plan.epsilon)
    if kind == "sums":
        mechanism = inference.plan_sums("difference", domain, plan.epsilon, treated=public(mail))
    return inference.difference(sums(rng, labels, mechanism), mail)


def users(rng: np.random.Generator, plan: Any, kind: str) -> Any:
    """Of four records of a user, each repeats one label with a probability that gives a correlation of .5."""
    people = plan.records // 4
    user, mail = np.repeat(np.arange(people), 4), rng.random(people) < plan.treated
    rate = np.where(mail, plan.rate + plan.effect, plan.rate)
    common = rng.random(4 * people) < np.sqrt(0.5)
    labels = np.where(common, (rng.random(people) < rate)[user], rng.random(4 * people) < rate[user]).astype(int)
    return inference.difference(answers(rng, labels, 2, plan.epsilon), mail[user], users=user)


@pytest.mark.parametrize(
    ("plan", "run", "kind", "slack"),
    [
        (power(0.1, 0.2, epsilon=1.0, treated=0.2), shares, "answers", 0.03),
        (power(0.1, 0.2, epsilon=1.0, trust="central", treated=0.7), shares, "sums", 0.05),
        (power(4, 40, epsilon=1.0, **NUMBERS), numbers, "answers", 0.03),
        (power(4, 40, epsilon=4.0, treated=0.3, **NUMBERS), numbers, "answers", 0.06),
        (power(0.1, 0.2, epsilon=2.0, per_user=4, correlation=0.5), users, "answers", 0.03),
    ],
    ids=["unequal arms", "sums", "two outputs", "many outputs", "users"],
)
def test_the_power_is_that_of_the_interval(plan: Any, run: Any, kind: str, slack: float) -> None:
    """Of 200 experiments; a false alarm has a probability below 1e-4 on each side, but for the slack."""
    rng, runs = np.random.default_rng(0), 200
    found = [run(rng, plan, kind) for _ in range(runs)]
    shown = sum(estimate.low > 0 or estimate.high < 0 for estimate in found)
    assert binom.ppf(1e-4, runs, plan.power - slack) <= shown <= binom.ppf(1 - 1e-4, runs, plan.power + slack)

"""Table I by hand, its inverse, and what its rows say about one another."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.advice import exponent
from labeldp.advice.rates import PROTECTIONS, TASKS, TRUSTS, Term, rate_terms
from labeldp.privacy import InputError
from papers.rates.table import SOURCES, critical_records, critical_side, rate, records_for, sample_multiplier

rows = st.tuples(st.sampled_from(TASKS), st.sampled_from(TRUSTS), st.sampled_from(PROTECTIONS))
settings = st.fixed_dictionaries(
    {
        "dimension": st.integers(1, 12),
        "beta": st.floats(0.05, 1),
        "margin": st.floats(0, 3),
        "moments": st.floats(2, 30),
        "epsilon": st.floats(0.01, 10),
    }
).filter(lambda setting: setting["margin"] * setting["beta"] <= setting["dimension"])


def asked(row: tuple[str, str, str], setting: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a rate."""
    return {**dict(zip(("task", "trust", "protection"), row, strict=True)), **setting}


def test_every_row_has_its_theorem() -> None:
    assert set(SOURCES) == {(a, b, c) for a in TASKS for b in TRUSTS for c in PROTECTIONS if c != "none"}


def test_a_rate_is_the_sum_of_its_terms_by_hand() -> None:
    """K = 8, N = 10,000, ε = 0.1, d = 1, β = 1, γ = 1: (N/ln 8)^(-2/3) + (εN/ln 8)^(-1)."""
    found = rate(task="classification", trust="central", records=1e4, epsilon="0.1", classes=8, dimension=1, margin=1.0)
    assert found == pytest.approx((1e4 / math.log(8)) ** (-2 / 3) + math.log(8) / 1e3)
    assert Term(0.5, 2, capped=True).value(100, 3.0) == pytest.approx(0.1)
    assert Term(0.5, 2).value(100, 3.0) == pytest.approx(1 / 30)


@given(rows, settings, st.floats(10, 1e9), st.integers(2, 1000))
def test_records_for_is_the_inverse_of_rate(
    row: tuple[str, str, str], setting: dict[str, Any], records: float, classes: int
) -> None:
    setting = asked(row, {**setting, "classes": classes})
    assert records_for(rate(records=records, **setting), **setting) == pytest.approx(records, rel=1e-6)
    assert critical_records(critical_side(records=records, **setting), **setting) == pytest.approx(records, rel=1e-6)


@given(rows, settings)
def test_promises_cost_in_their_order(row: tuple[str, str, str], setting: dict[str, Any]) -> None:
    """No privacy is never worse than labels, labels never than features too, central never than local; up to the sum
    of two terms that stands for their larger one."""
    task, trust, _ = row
    plain = {"task": task, **setting}
    risks = [rate(records=1e6, trust=trust, protection=each, **plain) for each in ("none", "label", "full")]
    assert risks[0] <= risks[1] * (1 + 1e-9)
    assert risks[1] <= 2 * risks[2]
    steep = [exponent(trust=trust, protection=each, **_sizes(plain)) for each in ("none", "label", "full")]
    assert steep[0] + 1e-12 >= steep[1] >= steep[2] - 1e-12


def _sizes(setting: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in setting.items() if name != "epsilon"}


@given(settings)
def test_many_moments_are_a_bound(setting: dict[str, Any]) -> None:
    """As p grows every heavy-tailed row becomes that of bounded labels."""
    plain = _sizes(setting)
    for trust, protection in ((a, b) for a in TRUSTS for b in PROTECTIONS):
        row: dict[str, Any] = {"trust": trust, "protection": protection}
        bounded = exponent(task="regression", **row, **plain)
        assert exponent(task="heavy-tailed", **row, **{**plain, "moments": 1e9}) == pytest.approx(bounded, rel=1e-6)
        assert rate_terms(task="heavy-tailed", **row, **{**plain, "moments": math.inf}) == rate_terms(
            task="regression", **row, **plain
        )


@pytest.mark.parametrize(("epsilon", "multiplier"), [(0.1, 100.0), (0.5, 4.0), (1, 1.0), (4, 1.0)])
def test_local_labels_cost_one_over_epsilon_squared(epsilon: float, multiplier: float) -> None:
    for task in ("classification", "regression"):
        for dimension in (1, 4):
            found = sample_multiplier(task=task, records=1e5, epsilon=epsilon, dimension=dimension)
            assert found == pytest.approx(multiplier)


def test_central_privacy_becomes_free_and_features_stay_dear() -> None:
    few, many = (
        sample_multiplier(task="regression", trust="central", records=records, epsilon=0.1, dimension=2)
        for records in (1e3, 1e9)
    )
    assert few > 2 > many > 1
    setting: dict[str, Any] = {"task": "classification", "epsilon": 0.5, "dimension": 4}
    for records in (1e4, 1e6):
        features = sample_multiplier(records=records, protection="full", versus="label", **setting)
        assert features > 10
    assert sample_multiplier(
        records=1e4, trust="local", versus="label", versus_trust="central", **setting
    ) == pytest.approx(
        records_for(rate(records=1e4, trust="central", **setting), **setting) / 1e4,
    )


@given(rows, settings, st.integers(2, 200))
def test_the_rate_is_the_side_to_its_power(row: tuple[str, str, str], setting: dict[str, Any], classes: int) -> None:
    """h^(2β), for classes h^(β(γ+1)): exact for one term, within a factor for a sum."""
    setting = asked(row, {**setting, "classes": classes})
    power = setting["beta"] * (setting["margin"] + 1) if row[0] == "classification" else 2 * setting["beta"]
    side, risk = critical_side(records=1e5, **setting), rate(records=1e5, **setting)
    if len(rate_terms(**{name: value for name, value in setting.items() if name not in {"epsilon", "classes"}})) == 1:
        assert side**power == pytest.approx(risk)
    assert risk / 2.01 <= side**power <= risk * 2.01 ** max(power, 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task": "ranking"}, "task must be one of classification, regression, heavy-tailed"),
        ({"trust": "nobody"}, "trust must be one of local, central"),
        ({"protection": "half"}, "protection must be one of label, full, none"),
        ({"beta": 1.5}, "beta must lie in"),
        ({"beta": 0}, "beta must be a positive"),
        ({"margin": 3.0}, "margin · beta must be at most 2"),
        ({"margin": -1}, "margin must be a finite number, at least 0"),
        ({"dimension": 0}, "dimension must be an integer, at least 1"),
        ({"records": 0.5}, "records must be at least 1"),
        ({"records": math.inf}, "records must be a positive finite number"),
        ({"epsilon": None}, "epsilon is missing"),
        ({"epsilon": 0}, "epsilon"),
        ({"classes": 1}, "classes must be an integer, at least 2"),
        ({"task": "heavy-tailed", "moments": 1.5}, "moments must be at least 2"),
    ],
)
def test_what_has_no_rate_is_refused(changes: dict[str, Any], words: str) -> None:
    setting: dict[str, Any] = {"task": "classification", "records": 100, "epsilon": 1, "dimension": 2}
    with pytest.raises(InputError, match=words):
        rate(**{**setting, **changes})


def test_no_privacy_needs_no_epsilon() -> None:
    assert rate(task="regression", protection="none", records=1000, dimension=1) == pytest.approx(0.01)

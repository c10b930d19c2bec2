"""Changes between periods, and differences of changes, from single answers and from sums."""

from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from inference.simulated import SURE, held, released, response
from labeldp import inference
from labeldp.mechanisms import DiscreteLaplace, Interval
from labeldp.privacy import InputError

RNG = np.random.default_rng(6)
N = 30_000
YEAR = RNG.choice([2023, 2024, 2025], N)
TREATED, GROUPS = RNG.random(N) < 0.3, RNG.choice(["a", "b"], N)
AFTER = YEAR > 2023
CHANCE = np.array([0.1, 0.15, 0.3])
LABELS = (RNG.random(N) < CHANCE[YEAR - 2023]).astype(int)
MOVED = (RNG.random(N) < 0.1 + 0.2 * TREATED + 0.05 * AFTER + 0.1 * (TREATED & AFTER)).astype(int)


@pytest.mark.parametrize("users", [None, np.arange(N) // 3], ids=["records", "users"])
def test_changes_since_the_period_before_or_a_named_one(users: Any) -> None:
    release = released(LABELS, response(2, 2.0))
    steps = inference.change(release, YEAR, users=users, level=SURE)
    assert held(steps, [0.05, 0.15]) and steps.axes == (("period", ("2024", "2025")),) and steps.simultaneous
    since = inference.change(release, YEAR, since=2024, groups=GROUPS, users=users, level=SURE)
    assert held(since, [-0.05, 0.15]) and since.axes[1] == ("period", ("2023", "2025"))
    assert steps.at(period=2024).value == pytest.approx(
        -inference.change(release, YEAR, since="2024", users=users).at(period=2023).value
    )
    no = inference.change(release, YEAR, outcome=0, users=users, level=SURE)
    assert no.value == pytest.approx(-steps.value) and no.low == pytest.approx(-steps.high)
    assert inference.change(release, AFTER, users=users).axes == ()
    assert [one.quantity for one in (steps, since)] == ["change since the period before", "change since 2024"]
    assert "drawn by lot" not in str(steps.assumptions)


def test_two_periods_differ_as_two_arms_do() -> None:
    release = released(LABELS, response(2, 2.0))
    change, effect = inference.change(release, AFTER), inference.difference(release, AFTER)
    assert (change.value, change.low, change.high) == (effect.value, effect.low, effect.high)


@pytest.mark.parametrize("users", [None, np.arange(N) // 3], ids=["records", "users"])
def test_a_difference_in_differences(users: Any) -> None:
    release = released(MOVED, response(2, 2.0))
    estimate = inference.difference_in_differences(release, TREATED, AFTER, users=users, level=SURE)
    assert held(estimate, 0.1) and estimate.high - estimate.low < 0.3
    assert any("would have changed as the others did" in text for text in estimate.assumptions)
    by_group = inference.difference_in_differences(release, TREATED, AFTER, groups=GROUPS, users=users, level=SURE)
    assert held(by_group, 0.1) and by_group.axes == (("group", ("a", "b")),)
    swapped = inference.difference_in_differences(release, ~TREATED, AFTER, users=users)
    assert swapped.value == pytest.approx(-estimate.value)


def test_numbers() -> None:
    labels = np.rint(np.clip(60 + 5 * AFTER + 8 * (TREATED & AFTER) + RNG.normal(0, 5, N), 50, 100))
    release = released(labels, DiscreteLaplace(domain=Interval(50, 100, grid=51), epsilon=3.0))
    assert held(inference.difference_in_differences(release, TREATED, AFTER, level=SURE), 8)
    assert held(inference.change(release, AFTER, level=SURE), 5 + 8 * TREATED.mean())


def test_sums() -> None:
    when = ldp.Public(YEAR, why="when people were asked")
    release = released(LABELS, inference.plan_sums("mean", ldp.Classes(2), 1.0, groups=when))
    steps = inference.change(release, YEAR, level=SURE)
    assert held(steps, [0.05, 0.15]) and (steps.noise_share < 0.1).all()
    assert held(inference.change(release, AFTER, level=SURE), 0.125)
    plan = inference.plan_sums(
        "difference", ldp.Classes(2), 1.0, treated=ldp.Public(TREATED, why="by region"), groups=when
    )
    sums = released(MOVED, plan)
    assert held(inference.difference_in_differences(sums, TREATED, AFTER, level=SURE), 0.1)
    with pytest.raises(InputError, match="users must be left out"):
        inference.change(release, YEAR, users=np.arange(N) // 2)


@pytest.mark.parametrize(
    ("function", "columns", "options", "sentence"),
    [
        ("change", (np.zeros(N),), {}, "periods must be two or more"),
        ("change", (YEAR,), {"since": 2020}, "since must be one of 2023, 2024, 2025"),
        ("change", (np.arange(N),), {}, "periods must be two or more, and at most 1,000, such as months"),
        (
            "change",
            (np.where(np.arange(N), YEAR, 0),),
            {},
            "periods must have two records of each period in each group",
        ),
        ("change", (YEAR[:5],), {}, "periods must be one entry for each"),
        ("difference_in_differences", (TREATED, YEAR), {}, "after must be true or false"),
        ("difference_in_differences", (TREATED, TREATED), {}, "after must have two records of each arm before and aft"),
        ("difference_in_differences", (TREATED, np.ones(N)), {}, "after must have records in both"),
    ],
)
def test_bad_periods(function: str, columns: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        getattr(inference, function)(released(LABELS, response()), *columns, **options)

"""Means of populations that records represent by weights or strata."""

from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from inference.simulated import SURE, held, released, response
from labeldp import inference
from labeldp.mechanisms import DiscreteLaplace, Interval
from labeldp.privacy import InputError

RNG = np.random.default_rng(7)
N = 30_000
REGION = RNG.choice(["north", "south"], N, p=[0.9, 0.1])
SOUTH = REGION == "south"
WEIGHTS = np.where(SOUTH, 9.0, 1.0)
LABELS = (RNG.random(N) < np.where(SOUTH, 0.5, 0.1)).astype(int)
HALVES = {"north": 1, "south": 1}


@pytest.mark.parametrize("users", [None, np.arange(N) // 3], ids=["records", "users"])
def test_weights_and_strata_undo_how_people_were_sampled(users: Any) -> None:
    release = released(LABELS, response(2, 2.0))
    weighted = inference.weighted_mean(release, WEIGHTS, users=users, level=SURE)
    strata = inference.stratified_mean(release, REGION, HALVES, users=users, level=SURE)
    assert held(weighted, 0.3) and held(strata, 0.3) and not held(inference.mean(release, outcome=1), 0.3)
    assert strata.high - strata.low < weighted.high - weighted.low < 0.15
    assert weighted.value == pytest.approx(inference.weighted_mean(release, 1e-9 * WEIGHTS, users=users).value)
    assert weighted.quantity == "weighted share of 1" and strata.quantity == "stratified share of 1"
    assert inference.weighted_mean(release, WEIGHTS, outcome=0, users=users).value == pytest.approx(1 - weighted.value)


def test_equal_weights_and_one_stratum_are_a_mean() -> None:
    release = released(LABELS, response(2, 2.0))
    mean = inference.mean(release, outcome=1)
    weighted, one = inference.weighted_mean(release, np.ones(N)), inference.stratified_mean(release, 0 * SOUTH, {0: 5})
    assert one.value == pytest.approx(mean.value) and weighted.value == pytest.approx(mean.value)
    assert (one.low, one.high) == pytest.approx((mean.low, mean.high))
    assert (weighted.low, weighted.high) == pytest.approx((mean.low, mean.high), abs=1e-3)


def test_numbers_and_sums() -> None:
    domain = Interval(50, 100, grid=51)
    labels = np.rint(np.clip(np.where(SOUTH, 80, 60) + RNG.normal(0, 5, N), 50, 100))
    release = released(labels, DiscreteLaplace(domain=domain, epsilon=3.0))
    plan = inference.plan_sums("mean", domain, 1.0, groups=ldp.Public(REGION, why="in the register"))
    for estimate in (
        inference.weighted_mean(release, WEIGHTS, level=SURE),
        inference.stratified_mean(release, REGION, HALVES, level=SURE),
        inference.stratified_mean(released(labels, plan), REGION, HALVES, level=SURE),
    ):
        assert held(estimate, 70) and estimate.low > 65 and estimate.high < 75
    of_shares = inference.plan_sums("mean", ldp.Classes(2), 1.0, groups=ldp.Public(REGION, why="in the register"))
    sums = released(LABELS, of_shares)
    assert held(inference.stratified_mean(sums, REGION, HALVES, level=SURE), 0.3)
    with pytest.raises(InputError, match="release must be of single answers: noisy sums are not weighted"):
        inference.weighted_mean(sums, WEIGHTS)


def test_weights_that_few_records_decide_make_wide_intervals() -> None:
    labels = released(LABELS[:50], response(2, 9.0))
    heavy = np.where(np.arange(50) < 2, 100.0, 1.0)
    estimate = inference.weighted_mean(labels, heavy)
    assert estimate.high - estimate.low > 0.9


@pytest.mark.parametrize(
    ("function", "columns", "options", "sentence"),
    [
        ("weighted_mean", (-WEIGHTS,), {}, "weights must be finite numbers that are at least 0"),
        ("weighted_mean", (REGION,), {}, "weights must be finite numbers"),
        ("weighted_mean", (np.arange(N) == 0,), {}, "weights must be positive for two records"),
        ("weighted_mean", (WEIGHTS[:3],), {}, "weights must be one entry for each"),
        ("stratified_mean", (REGION, {"north": 1}), {}, "population must name each stratum .* see 'south'"),
        ("stratified_mean", (REGION, {**HALVES, "east": 1}), {}, "population must name each stratum .* see 'east'"),
        ("stratified_mean", (REGION, {"north": 1, "south": 0}), {}, "population must be positive"),
        ("stratified_mean", (np.arange(N), dict.fromkeys(range(N), 1)), {}, "strata must have two records of each str"),
    ],
)
def test_bad_weights_and_strata(function: str, columns: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        getattr(inference, function)(released(LABELS, response()), *columns, **options)

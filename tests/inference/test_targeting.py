"""Uplift curves and Qini areas of public scores, from experiments with released outcomes."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import rankdata

import labeldp as ldp
from inference.population import public
from inference.simulated import SURE, held, released, response
from labeldp import inference
from labeldp.mechanisms import DiscreteLaplace, Interval
from labeldp.privacy import InputError

RNG = np.random.default_rng(8)
N = 30_000
RANK, MAIL = RNG.random(N), RNG.random(N) < 0.4
LABELS = (RNG.random(N) < 0.1 + 0.2 * RANK + 0.6 * MAIL * RANK).astype(int)
SCORES = public(RANK)


@pytest.mark.parametrize("users", [None, np.arange(N) // 3], ids=["records", "users"])
def test_an_area_and_a_curve_hold_the_truth(users: Any) -> None:
    release = released(LABELS, response(2, 2.0))
    area = inference.uplift(release, MAIL, SCORES, users=users, level=SURE)
    assert held(area, 0.6 / 12) and area.low > 0 and area.axes == () and area.target == "population"
    curve = inference.uplift(release, MAIL, SCORES, measure="curve", points=4, users=users, level=SURE)
    thresholds = np.quantile(RANK, [0.75, 0.5, 0.25, 0], method="lower")
    assert held(curve, 0.3 * (1 - thresholds**2)) and curve.simultaneous
    assert [name.partition(",")[0] for name in dict(curve.axes)["treated"]] == [f"top {k} %" for k in (25, 50, 75, 100)]
    assert any("scores were not computed from these labels" in text for text in area.assumptions)


def test_the_last_point_of_a_curve_is_the_effect() -> None:
    release = released(LABELS, response(2, 2.0))
    curve, effect = inference.uplift(release, MAIL, SCORES, measure="curve"), inference.difference(release, MAIL)
    assert curve.value[-1] == pytest.approx(effect.value) and curve.stderr[-1] == pytest.approx(effect.stderr, rel=1e-3)


def test_an_area_is_the_mean_distance_of_the_curve_from_a_line() -> None:
    release, ties = released(LABELS, response(2, 2.0)), np.floor(4 * RANK)
    area = inference.uplift(release, MAIL, public(ties))
    curve = inference.uplift(release, MAIL, public(ties), measure="curve").value
    gains, shares = np.append(0, curve), np.array([np.mean(ties >= threshold) for threshold in (4, 3, 2, 1, 0)])
    below = np.sum(np.diff(shares) * (gains[1:] + gains[:-1]) / 2)
    assert area.value == pytest.approx(below - curve[-1] / 2)


def test_only_the_order_of_scores_matters_and_its_reverse_has_the_opposite_area() -> None:
    release, ties = released(LABELS, response(2, 2.0)), np.floor(5 * RANK)
    area = inference.uplift(release, MAIL, public(ties))
    same, reverse = (inference.uplift(release, MAIL, public(scores)) for scores in (np.exp(ties), -ties))
    assert (same.value, same.low, same.high) == (area.value, area.low, area.high)
    assert (reverse.value, reverse.low, reverse.high) == pytest.approx((-area.value, -area.high, -area.low))
    swapped = inference.uplift(release, MAIL, public(ties), control=1)
    other = inference.uplift(release, MAIL, public(ties), outcome=0)
    named = inference.uplift(release, np.where(MAIL, "mail", "none"), public(ties), control="none")
    assert named.value == area.value and named.quantity == "Qini area of mail against none"
    assert [swapped.value, other.value] == pytest.approx([-area.value, -area.value])
    assert len(inference.uplift(release, MAIL, public(ties), measure="curve").value) == 5


@pytest.mark.parametrize("scores", [RANK[:300], np.floor(4 * RANK[:300])], ids=["distinct", "ties"])
@pytest.mark.parametrize("measure", ["area", "curve"])
@pytest.mark.parametrize("chance", [None, 0.2 + 0.4 * RANK[:300]], ids=["by lot", "propensity"])
def test_the_error_is_that_of_a_jackknife(scores: Any, measure: str, chance: Any) -> None:
    """It knows the ranks, the sizes of the arms and the means of the arms."""
    release = released(LABELS[:300], response(2, 5.0))

    def value(kept: Any) -> Any:
        part = replace(release, value=release.value[kept])
        propensity = None if chance is None else public(chance[kept])
        # one threshold of the curve: the median of all records
        order = scores[kept] if measure == "area" else (scores[kept] >= np.median(scores)).astype(float)
        return inference.uplift(
            part, MAIL[:300][kept], public(order), measure=measure, points=2000, propensity=propensity
        )

    whole = value(np.ones(300, dtype=bool))
    pick = np.ravel if measure == "area" else lambda number: number[:1]
    values = np.concatenate([pick(value(np.arange(300) != out).value) for out in range(300)])
    spread = np.sqrt(299 / 300 * ((values - values.mean()) ** 2).sum())
    assert pick(whole.stderr)[0] == pytest.approx(spread, rel=0.02)


def test_numbers_and_known_chances() -> None:
    chance = 0.2 + 0.6 * RANK
    drawn = np.random.default_rng(9).random(N) < chance
    labels = np.rint(50 + 20 * RANK + 30 * drawn * RANK)
    release = released(labels, DiscreteLaplace(domain=Interval(50, 100, grid=51), epsilon=3.0))
    area = inference.uplift(release, drawn, SCORES, propensity=public(chance), level=SURE)
    assert held(area, 30 / 12) and any("the propensity is right" in text for text in area.assumptions)
    assert not held(inference.uplift(release, drawn, public(-RANK), propensity=public(chance), level=SURE), 30 / 12)
    same = inference.uplift(release, MAIL, SCORES, propensity=public(0.3))
    assert same.value == pytest.approx(inference.uplift(release, MAIL, SCORES).value)


def test_without_noise_an_area_is_the_difference_of_two_covariances() -> None:
    release = released(LABELS, response(2, 9.0))
    mailed, other = (np.cov(rankdata(RANK)[arm] / N, LABELS[arm])[0, 1] for arm in (MAIL, ~MAIL))
    assert inference.uplift(release, MAIL, SCORES).value == pytest.approx(mailed - other, abs=2e-3)


@pytest.mark.parametrize(
    ("columns", "options", "sentence"),
    [
        ((MAIL, RANK), {}, 'scores must be Public\\(array, why="…"\\): say why the scores were not computed'),
        ((MAIL, public(RANK[:5])), {}, "scores must be a number for each record, shape"),
        ((MAIL, public(np.ones(N))), {}, "scores must differ between records"),
        ((np.arange(N) % 3, SCORES), {}, "treated must be one of two arms"),
        ((np.arange(N) == 0, SCORES), {}, "treated must have two records of each arm"),
        ((np.arange(N) < 9, SCORES), {}, "treated must have 10 records, of 10 users, in each arm"),
        ((MAIL, SCORES), {"measure": "gain"}, "measure must be one of"),
        ((MAIL, SCORES), {"measure": "curve", "points": 0}, "points must be"),
        ((MAIL, SCORES), {"propensity": 0.5}, "propensity must be Public"),
        ((MAIL, SCORES), {"propensity": public(MAIL.astype(float))}, "propensity must lie between 0 and 1"),
        ((MAIL, SCORES), {"users": np.arange(N) % 9}, "treated must have 10 records, of 10 users"),
        ((MAIL, SCORES), {"level": 95}, "level must lie between 0 and 1"),
    ],
)
def test_what_is_wrong_is_one_sentence(columns: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        inference.uplift(released(LABELS, response()), *columns, **options)


def test_answers_and_sums_are_refused() -> None:
    release = released(LABELS, response(2, 2.0))
    with pytest.raises(InputError, match="scores must not be made of the released answers"):
        inference.uplift(release, MAIL, public(release.value))
    plan = inference.plan_sums("difference", ldp.Classes(2), 1.0, treated=public(MAIL))
    with pytest.raises(InputError, match="release must be of single answers: noisy sums do not tell uplift"):
        inference.uplift(released(LABELS, plan), MAIL, SCORES)

"""Effects from single answers and from sums."""

from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

import labeldp as ldp
from inference.simulated import SURE, held, released, response
from labeldp import inference
from labeldp.mechanisms import DiscreteLaplace, Interval, UnbiasedNumbers
from labeldp.privacy import InputError, Release

RNG = np.random.default_rng(5)
N = 30_000
X = RNG.normal(size=(N, 2))
TREATED = RNG.random(N) < 0.5
GROUPS = RNG.choice(["new", "old"], N)
LABELS = (RNG.random(N) < expit(-2 + 0.6 * TREATED + X[:, 0])).astype(int)
EFFECT = float((expit(-1.4 + X[:, 0]) - expit(-2 + X[:, 0])).mean())
LOT = ldp.Public(0.5, why="drawn by lot")


@pytest.mark.parametrize(
    "options",
    [{}, {"covariates": X}, {"propensity": LOT}, {"propensity": LOT, "covariates": ldp.Public(X, why="of last year")}],
    ids=["arms", "adjusted", "propensity", "doubly robust"],
)
def test_an_effect_is_held_overall_and_by_group(options: dict[str, Any]) -> None:
    release = released(LABELS, response(2, 2.0))
    whole, by_group = (
        inference.difference(release, TREATED, groups=one, level=SURE, **options) for one in (None, GROUPS)
    )
    assert held(whole, EFFECT) and whole.high - whole.low < 0.12
    assert held(by_group, EFFECT) and by_group.axes == (("group", ("new", "old")),) and by_group.simultaneous
    assert whole.method == by_group.method and ("HC2" in whole.method) == (list(options) == ["covariates"])
    flipped = inference.difference(release, TREATED, outcome=0, level=SURE, **options)
    assert flipped.value == pytest.approx(-whole.value) and flipped.low == pytest.approx(-whole.high)


def test_weights_undo_a_choice_that_depends_on_public_features() -> None:
    chance = expit(X[:, 0])
    chosen = np.random.default_rng(11).random(N) < chance
    labels = (np.random.default_rng(12).random(N) < expit(-2 + 0.6 * chosen + X[:, 0])).astype(int)
    release = released(labels, response(2, 3.0))
    weighted = inference.difference(
        release, chosen, covariates=X, propensity=ldp.Public(chance, why="the rule of mailing"), level=SURE
    )
    assert held(weighted, EFFECT) and not held(inference.difference(release, chosen), EFFECT)
    assert "the propensity were not computed from these labels (the rule of mailing)" in weighted.assumptions


@pytest.mark.parametrize("mechanism", [DiscreteLaplace, UnbiasedNumbers])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_an_effect_on_a_number(mechanism: Any, epsilon: float) -> None:
    labels = np.rint(np.clip(40 + 10 * X[:, 1] + 5 * TREATED, 0, 100))
    estimate = inference.difference(
        released(labels, mechanism(domain=Interval(0, 100, grid=101), epsilon=epsilon)), TREATED
    )
    assert held(estimate, 5) and estimate.high - estimate.low < 25


def test_users_in_both_arms() -> None:
    users = np.arange(N) // 3
    release = released(LABELS, response(2, 2.0))
    for options in ({}, {"covariates": X}, {"covariates": X, "propensity": LOT}):
        estimate = inference.difference(release, TREATED, users=users, level=SURE, **options)
        assert held(estimate, EFFECT) and estimate.method.endswith("clustered by user")


def test_sums_of_both_arms_are_one_release() -> None:
    lot, known = ldp.Public(TREATED, why="drawn by lot"), ldp.Public(GROUPS, why="in the register")
    plan = inference.plan_sums("difference", ldp.Classes(2), 1.0, treated=lot, groups=known)
    release = released(LABELS, plan)
    assert release.certificate.epsilon(0) == 1 and len(release.certificate.entries) == 1
    estimate = inference.difference(release, TREATED, groups=GROUPS, level=SURE)
    assert held(estimate, EFFECT) and (estimate.high - estimate.low < 0.08).all()
    assert (estimate.noise_share < 0.01).all()
    swapped = inference.difference(release, ~TREATED, groups=GROUPS, level=SURE)
    assert swapped.value == pytest.approx(-estimate.value) and swapped.low == pytest.approx(-estimate.high)
    with pytest.raises(InputError, match="release must be the columns that plan_sums was given, such as groups"):
        inference.difference(release, np.roll(TREATED, 1), groups=GROUPS)
    with pytest.raises(InputError, match="sums by arm are not adjusted"):
        inference.difference(release, TREATED, groups=GROUPS, covariates=X)
    with pytest.raises(InputError, match="users must be left out"):
        inference.difference(release, TREATED, groups=GROUPS, users=np.arange(N) // 2)


ARMS = np.where(TREATED, np.where(np.arange(N) % 3 == 0, "mail", "call"), "nothing")


@pytest.mark.parametrize("options", [{}, {"covariates": X}], ids=["arms", "adjusted"])
def test_several_arms_are_compared_with_one_control(options: dict[str, Any]) -> None:
    release = released(LABELS, response(2, 2.0))
    together = inference.difference(release, ARMS, control="nothing", groups=GROUPS, level=SURE, **options)
    assert together.axes == (("group", ("new", "old")), ("arm", ("call", "mail"))) and together.simultaneous
    assert held(together, EFFECT)
    numbers = np.where(ARMS == "nothing", 0, np.where(ARMS == "call", 1, 2))
    by_number = inference.difference(release, numbers, groups=GROUPS, level=SURE, **options)
    assert by_number.value == pytest.approx(together.value) and by_number.axes[1] == ("arm", ("1", "2"))
    backwards = inference.difference(release, ARMS, simultaneous=False, **options)
    assert backwards.quantity == "effect against call", "the first name"
    alone = inference.difference(release, ARMS, control="nothing", simultaneous=False, **options)
    assert backwards.at(arm="nothing").value == pytest.approx(-alone.at(arm="call").value)
    if not options:
        rows = ARMS != "mail"
        two = inference.difference(released(LABELS[rows], response(2, 9.0)), ARMS[rows], control="nothing", level=SURE)
        assert two.axes == () and held(two, EFFECT) and two.quantity == "effect of call against nothing"
    users = np.arange(N) // 3
    assert held(inference.difference(release, ARMS, control="nothing", users=users, level=SURE, **options), EFFECT)


def test_sums_of_several_arms_answer_all_comparisons_and_coarser_ones() -> None:
    lot = ldp.Public(ARMS, why="drawn by lot")
    release = released(LABELS, inference.plan_sums("difference", ldp.Classes(2), 1.0, treated=lot))
    effects = inference.difference(release, ARMS, control="nothing", level=SURE)
    assert held(effects, EFFECT) and effects.axes == (("arm", ("call", "mail")),)
    assert held(inference.difference(release, TREATED, level=SURE), EFFECT)
    swapped = inference.difference(release, ARMS, control="nothing", outcome=0, level=SURE)
    assert swapped.value == pytest.approx(-effects.value)
    assert inference.odds_ratio(release, TREATED).low > 1


@pytest.mark.parametrize("options", [{}, {"covariates": X}, {"users": np.arange(N)}], ids=["arms", "adjusted", "users"])
def test_a_lift_is_an_effect_divided_by_the_mean_of_the_control(options: dict[str, Any]) -> None:
    truth = EFFECT / float(expit(-2 + X[:, 0]).mean())
    release = released(LABELS, response(2, 2.0))
    whole = inference.lift(release, TREATED, level=SURE, **options)
    assert held(whole, truth) and whole.high - whole.low < 1 and whole.low > 0
    by_arm = inference.lift(release, ARMS, control="nothing", groups=GROUPS, level=SURE, **options)
    assert held(by_arm, truth) and by_arm.axes[1] == ("arm", ("call", "mail"))
    if not options:
        ratio = inference.risk_ratio(release, TREATED)
        alone = inference.lift(release, TREATED)
        assert alone.value == pytest.approx(ratio.value - 1)
        assert [alone.low, alone.high] == pytest.approx([ratio.low - 1, ratio.high - 1], abs=0.02)


def test_a_lift_of_numbers_and_of_sums() -> None:
    domain = Interval(0, 100, grid=101)
    labels = np.rint(np.clip(40 + 10 * X[:, 1] + 8 * TREATED, 0, 100))
    plan = inference.plan_sums("difference", domain, 1.0, treated=ldp.Public(TREATED, why="drawn by lot"))
    for mechanism in (UnbiasedNumbers(domain=domain, epsilon=3.0), plan):
        assert held(inference.lift(released(labels, mechanism), TREATED, level=SURE), 0.2)
    sums = inference.plan_sums("difference", ldp.Classes(2), 1.0, treated=ldp.Public(TREATED, why="drawn by lot"))
    estimate = inference.lift(released(LABELS, sums), TREATED, level=SURE)
    assert held(estimate, EFFECT / float(expit(-2 + X[:, 0]).mean())) and "inverted" in estimate.method
    nobody = inference.lift(released(np.where(TREATED, LABELS, 0), response(2, 9.0)), TREATED)
    assert nobody.low > 1 and nobody.high == np.inf


def test_means_of_sums() -> None:
    known = ldp.Public(GROUPS, why="in the register")
    shares = inference.mean(
        released(LABELS, inference.plan_sums("mean", ldp.Classes(2), 1.0, groups=known)),
        groups=GROUPS,
        outcome=1,
        level=SURE,
    )
    truth = np.array([LABELS[name == GROUPS].mean() for name in ("new", "old")])
    assert held(shares, truth) and shares.guarantee == "exact"
    labels = LABELS + (X[:, 1] > 1)
    counts = inference.mean(released(labels, inference.plan_sums("mean", ldp.Classes(3), 1.0, records=N)), level=SURE)
    assert held(counts, np.bincount(labels) / N) and counts.guarantee == "exact"
    numbers = np.rint(np.clip(40 + 10 * X[:, 1], 0, 100))
    plan = inference.plan_sums("mean", Interval(0, 100, grid=101), 1.0, records=N)
    for target in ("population", "records"):
        estimate = inference.mean(released(numbers, plan), target=target, level=SURE)
        assert held(estimate, numbers.mean())
    assert estimate.high - estimate.low < 0.1, "of these records only the noise counts"


def test_a_design_whose_yes_means_no_keeps_the_sign_of_an_effect() -> None:
    design = inference.designs.crosswise(0.1)
    yes = np.random.default_rng(3).random(N) < design.matrix[LABELS, 1]
    release = inference.answers(yes.astype(int), design, ldp.Classes(2))
    assert held(inference.difference(release, TREATED, level=SURE), EFFECT)


@pytest.mark.parametrize(
    ("treated", "options", "sentence"),
    [
        (np.ones(N), {}, "treated must have records in both arms"),
        (np.full(N, 2), {}, "treated must be true or false"),
        (TREATED[:3], {}, f"treated must be one entry for each of the {N} records"),
        (TREATED, {"propensity": 0.5}, r'propensity must be Public\(array, why="…"\)'),
        (TREATED, {"propensity": ldp.Public(1.0, why="all")}, "propensity must lie between 0 and 1"),
        (TREATED, {"covariates": X[:4]}, "covariates must be finite numbers, a row for each record"),
        (TREATED, {"covariates": np.ones((N, 1))}, "covariates must have more records than columns"),
        (TREATED, {"groups": np.arange(N)}, "groups must have two records of each arm in each group"),
        (ARMS, {"control": 0}, "control must be one of call, mail, nothing"),
        (X[:, 0], {}, "treated must be true or false, or the arm of each record by number or name, at most 100"),
        (ARMS, {"control": "nothing", "propensity": LOT}, "propensity must be left out: it is the chance of one of tw"),
    ],
)
def test_bad_columns_of_an_experiment(treated: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        inference.difference(released(LABELS, response()), treated, **options)


def test_what_has_no_lift() -> None:
    below = released(np.round(X[:, 0].clip(-1, 1)), UnbiasedNumbers(domain=Interval(-1, 1, grid=3), epsilon=2.0))
    with pytest.raises(InputError, match="release must be of numbers that are at least 0"):
        inference.lift(below, TREATED)
    with pytest.raises(InputError, match="users must each have all records in one arm"):
        inference.lift(released(LABELS, response()), TREATED, users=np.arange(N) // 3)


@pytest.mark.parametrize(
    ("question", "options", "sentence"),
    [
        ("median", {}, "question must be one of mean, difference"),
        ("difference", {}, "treated must be Public"),
        ("mean", {"groups": GROUPS}, "groups must be Public"),
        ("mean", {"treated": LOT}, "treated must be left out of sums for 'mean'"),
        ("mean", {}, "records must be an integer"),
        ("auc", {"scores": ldp.Public([np.nan], why="none")}, "scores must be one finite number"),
    ],
)
def test_bad_plans_of_sums(question: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        inference.plan_sums(question, ldp.Classes(2), 1.0, **options)


@pytest.mark.slow
@pytest.mark.parametrize(("records", "epsilon"), [(200, 2.0), (2000, 0.5)])
def test_coverage_of_an_effect(records: int, epsilon: float) -> None:
    """Of 3,000 runs at 95 %; a false alarm of a coverage of 94 % has a probability below 1e-6."""
    rng, runs, covered = np.random.default_rng(records), 3000, 0
    mechanism = response(2, epsilon)
    certificate = released(np.zeros(4, dtype=int), mechanism).certificate
    treated = np.arange(records) % 2 == 0
    for seed in range(runs):
        labels = (rng.random(records) < np.where(treated, 0.25, 0.1)).astype(np.uint8)
        noisy = mechanism.randomize(labels, rng=np.random.default_rng(seed))
        covered += held(inference.difference(Release(noisy, certificate, mechanism), treated), 0.15)
    assert covered >= binom.ppf(1e-6, runs, 0.94)

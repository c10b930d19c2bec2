"""What no unit, name or order may change, and columns that do not belong together."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import labeldp as ldp
from inference.population import answers, public, sums
from labeldp import inference
from labeldp.inference import clopper_pearson, student_within
from labeldp.inference.intervals import mean_of_cells, more_units
from labeldp.privacy import InputError

N = 600
RNG = np.random.default_rng(3)
X = np.column_stack([RNG.normal(size=N), RNG.exponential(size=N)])
MAIL = RNG.random(N) < 0.3
LABELS = (RNG.random(N) < 0.2 + 0.1 * MAIL + 0.3 * (X[:, 0] > 0)).astype(int)
USERS = RNG.integers(0, 200, N)
RELEASE = answers(RNG, LABELS, 2, 3.0)
MIRRORED = answers(np.random.default_rng(0), 1 - LABELS, 2, 3.0)
object.__setattr__(MIRRORED, "value", (1 - np.asarray(RELEASE.value)).astype(RELEASE.value.dtype))


def numbers(estimate: Any) -> Any:
    return np.stack([estimate.value, estimate.low, estimate.high])


@pytest.mark.parametrize("kind", ["logistic", "linear"])
@pytest.mark.parametrize("users", [None, USERS])
@pytest.mark.parametrize(("unit", "origin"), [(1e-4, 0.0), (86400.0, 1.7e9), (-3.0, 2015.0)])
def test_an_affine_change_of_features_changes_slopes_by_the_same_map(
    kind: str, users: Any, unit: float, origin: float
) -> None:
    plain, moved = (
        numbers(inference.regression(RELEASE, table, kind=kind, users=users))
        for table in (X, np.column_stack([origin + unit * X[:, 0], X[:, 1]]))
    )
    expected = plain.copy()
    expected[:, 1] /= unit
    if unit < 0:
        expected[1:, 1] = expected[:0:-1, 1]
    np.testing.assert_allclose(moved[:, 1:], expected[:, 1:], rtol=1e-6, atol=1e-9 / abs(unit))


def test_slopes_of_sums_do_not_depend_on_the_unit() -> None:
    ends = []
    for unit, origin in ((1.0, 0.0), (1e-4, 7.0)):
        table = np.column_stack([origin + unit * X[:, 0], X[:, 1]])
        plan = inference.plan_sums("regression", ldp.Classes(2), 3.0, features=public(table))
        estimate = inference.regression(sums(np.random.default_rng(5), LABELS, plan), table, kind="linear")
        ends.append(numbers(estimate)[:, 1] * unit)
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-6)


@pytest.mark.parametrize(
    "question",
    [
        lambda release, code: inference.mean(release, outcome=code),
        lambda release, code: inference.mean(release, outcome=code, users=USERS),
        lambda release, code: inference.difference(release, MAIL, outcome=code),
        lambda release, code: inference.difference(release, MAIL, outcome=code, covariates=X),
        lambda release, code: inference.odds_ratio(release, MAIL, outcome=code),
        lambda release, code: inference.regression(release, X, outcome=code),
    ],
)
def test_another_order_of_the_classes_changes_nothing(question: Any) -> None:
    np.testing.assert_allclose(numbers(question(RELEASE, 1)), numbers(question(MIRRORED, 0)), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("kind", ["answers", "sums"])
def test_swapped_roles_mirror_an_interval(kind: str) -> None:
    one, other = public(LABELS), public(np.where(RNG.random(N) < 0.1, 1 - LABELS, LABELS))
    arms, models = (RELEASE, RELEASE), (RELEASE, RELEASE)
    if kind == "sums":
        plans = [inference.plan_sums("difference", ldp.Classes(2), 1.0, treated=public(MAIL))]
        plans.append(inference.plan_sums("compare", ldp.Classes(2), 1.0, predictions=one, rival=other))
        arms, models = ((sums(np.random.default_rng(1), LABELS, plan),) * 2 for plan in plans)
    effect, back = inference.difference(arms[0], MAIL), inference.difference(arms[1], ~MAIL)
    assert (effect.value, effect.low, effect.high) == pytest.approx((-back.value, -back.high, -back.low))
    ratio, back = inference.odds_ratio(arms[0], MAIL), inference.odds_ratio(arms[1], ~MAIL)
    assert (ratio.low, ratio.high) == pytest.approx((1 / back.high, 1 / back.low))
    better = inference.compare(models[0], one, other)
    worse = inference.compare(models[1], other, one)
    assert (better.low, better.high) == pytest.approx((-worse.high, -worse.low))


@pytest.mark.parametrize("labels", [np.zeros(40, int), np.ones(40, int), np.arange(40) % 2])
@pytest.mark.parametrize("epsilon", [0.1, 10.0])
def test_ends_are_numbers_within_what_is_possible(labels: Any, epsilon: float) -> None:
    """All labels equal, a group with one record, predictions that are all the same."""
    rng = np.random.default_rng(2)
    group, mail, alone = np.arange(40) > 38, np.arange(40) % 3 == 0, public(np.full(40, 0.7))
    plans: dict[str, dict[str, Any]] = {"mean": {"groups": public(group)}, "difference": {"treated": public(mail)}}
    plans["evaluate"] = {"predictions": public(np.ones(40, int))}
    summed = {
        name: sums(rng, labels, inference.plan_sums(name, ldp.Classes(2), epsilon, **columns))
        for name, columns in plans.items()
    }
    single = answers(rng, labels, 2, epsilon)
    scores = [inference.evaluate(release, alone) for release in (single, summed["evaluate"])]
    estimates = [inference.mean(release, groups=group) for release in (single, summed["mean"])]
    estimates += [score for one in scores for score in (one.accuracy(), one.precision(), one.recall())]
    estimates += [scores[0].f1(), scores[0].confusion(), scores[0].auc(), scores[0].average_precision()]
    estimates += [inference.evaluate(single, alone, groups=group).gap("recall", reference=False)]
    estimates += [inference.mean(single, users=np.arange(40) // 2), inference.mean(summed["mean"], target="records")]
    for estimate in estimates:
        bottom = -1.0 if "gap" in estimate.quantity else 0.0
        assert np.all((estimate.low >= bottom) & (estimate.low <= estimate.high) & (estimate.high <= 1)), estimate
        assert not np.signbit(np.asarray(estimate.low)[np.asarray(estimate.low) == 0]).any(), "a zero has no sign"
        assert not np.isnan(estimate.value).any() or np.isnan(estimate.value).sum() < 40
    for release in (single, summed["difference"]):
        effect, ratio = inference.difference(release, mail), inference.odds_ratio(release, mail)
        assert -1 <= effect.low <= effect.high <= 1 and 0 <= ratio.low <= ratio.high


def test_a_logistic_regression_of_users_whose_answers_are_separated_has_no_nan() -> None:
    release = answers(np.random.default_rng(0), (X[:, 0] > 0).astype(int), 2, 30.0)
    estimate = inference.regression(release, X[:, 0], users=USERS)
    assert not np.isnan(numbers(estimate)[1:]).any()


SHIFTED = pd.RangeIndex(5, N + 5)


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        (
            lambda: inference.difference(RELEASE, pd.Series(MAIL), groups=pd.Series(USERS % 3, index=SHIFTED)),
            "groups must have the index of treated: entries are matched by their place",
        ),
        (
            lambda: inference.difference(RELEASE, pd.Series(MAIL), covariates=pd.DataFrame(X, index=SHIFTED)),
            "covariates must have the index of treated",
        ),
        (
            lambda: inference.mean(RELEASE, groups=pd.Series(USERS % 3), users=pd.Series(USERS, index=SHIFTED)),
            "users must have the index of groups",
        ),
        (
            lambda: inference.plan_sums(
                "difference", ldp.Classes(2), 1.0, treated=public(pd.Series(MAIL)),
                groups=public(pd.Series(USERS % 3, index=SHIFTED)),
            ),
            "treated must have the index of groups",
        ),
    ],
)  # fmt: skip
def test_columns_with_unlike_indexes_are_refused(question: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        question()


def test_columns_with_the_same_index_and_lists_are_taken() -> None:
    series = pd.Series(MAIL, index=SHIFTED), pd.Series(USERS % 3, index=SHIFTED)
    assert inference.difference(RELEASE, series[0], groups=series[1]).value.shape == (3,)
    assert inference.difference(RELEASE, MAIL.tolist(), groups=series[1]).value.shape == (3,)


def test_an_end_where_nothing_occurred_is_that_of_poisson() -> None:
    """100,000 units of which none has a rare value: the end of Clopper and Pearson."""
    for level in (0.8, 0.95, 0.99):
        _, high = student_within(np.zeros(1), np.zeros(1), 1e5, 1e5 - 1, (0, 1), level)
        assert high[0] == pytest.approx(clopper_pearson(0, 1e5, level)[1], rel=1e-3)
        assert more_units(level) < -np.log((1 - level) / 2)


def test_an_empty_cell_counts_with_what_is_possible() -> None:
    ends = np.zeros(2), np.array([0.0, -1.0]), np.array([0.0, 1.0])
    mean, low, high, _ = mean_of_cells(ends, np.array([100, 0]), 0.95, (-1.0, 1.0))
    assert (mean, low, high) == pytest.approx((0, np.log(0.025) / 100, -np.log(0.025) / 100))
    assert mean_of_cells(ends, np.array([100, 0]), 0.95, (-1.0, 1.0), "records")[1] == 0

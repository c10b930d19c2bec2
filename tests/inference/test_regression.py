"""Regressions on public features, and odds ratios."""

from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression

import labeldp as ldp
from inference.simulated import SURE, held, released, response
from labeldp import inference
from labeldp.mechanisms import DiscreteLaplace, Interval, UnbiasedNumbers
from labeldp.privacy import InputError, Release

RNG = np.random.default_rng(21)
N = 6_000
X = RNG.normal(size=(N, 2))
TRUE = np.array([-1.0, 0.8, -0.4])
LABELS = (RNG.random(N) < expit(TRUE[0] + X @ TRUE[1:])).astype(int)


def test_a_logistic_model_of_answers_holds_the_truth_and_nears_that_of_true_labels() -> None:
    estimate = inference.regression(released(LABELS, response(2, 3.0)), X, names=["age", "dose"], level=0.9999)
    assert held(estimate, TRUE) and estimate.axes == (("feature", ("constant", "age", "dose")),)
    assert (estimate.high - estimate.low < 0.8).all() and estimate.method == "likelihood ratio test, inverted"
    plain = LogisticRegression(C=np.inf).fit(X, LABELS)
    sharp = inference.regression(released(LABELS, response(2, 8.5)), X)
    assert sharp.value == pytest.approx([plain.intercept_[0], *plain.coef_[0]], abs=0.02)


def test_ends_of_a_score_interval_are_where_a_wald_interval_nearly_is() -> None:
    estimate = inference.regression(released(LABELS, response(2, 4.0)), X)
    wald = 2 * 1.96 * estimate.stderr
    assert estimate.high - estimate.low == pytest.approx(wald, rel=0.05)


def test_answers_that_say_nothing_have_an_unbounded_interval() -> None:
    labels = np.r_[np.zeros(55, dtype=int), np.ones(5, dtype=int)]
    estimate = inference.regression(released(labels, response(2, 0.5)), np.tile([0.0, 1.0], 30))
    assert np.isinf(estimate.high[1]) or np.isinf(estimate.low[1])
    assert "<svg" in estimate.plot()


@pytest.mark.parametrize("kind", ["logistic", "linear"])
def test_users_have_sandwich_errors(kind: str) -> None:
    users = np.repeat(np.arange(N // 10), 10)
    labels, x = np.repeat(LABELS[: N // 10], 10), np.repeat(X[: N // 10], 10, axis=0)
    release = released(labels, response(2, 3.0))
    clustered, single = (inference.regression(release, x, kind=kind, users=one) for one in (users, None))
    assert (clustered.stderr > 1.5 * single.stderr).all() and clustered.method.endswith("clustered by user")


@pytest.mark.parametrize("mechanism", [DiscreteLaplace, UnbiasedNumbers])
def test_least_squares_of_numbers_and_of_sums(mechanism: Any) -> None:
    domain = Interval(0, 100, grid=101)
    labels = np.rint(np.clip(50 + X @ [8, -4] + np.random.default_rng(1).normal(0, 5, N), 0, 100))
    truth = np.linalg.lstsq(np.column_stack([np.ones(N), X]), labels, rcond=None)[0]
    local = inference.regression(released(labels, mechanism(domain=domain, epsilon=2.0)), X, kind="linear", level=SURE)
    assert held(local, truth)
    plan = inference.plan_sums("regression", domain, 1.0, features=ldp.Public(X, why="bought"))
    release = released(labels, plan)
    sums = inference.regression(release, X, kind="linear", level=SURE)
    assert held(sums, truth) and sums.noise_share is sums.n_effective is None, "a bound of the variance does not tell"
    assert release.certificate.epsilon(0) == 1
    with pytest.raises(InputError, match="the same features"):
        inference.regression(release, X[:, ::-1], kind="linear")
    with pytest.raises(InputError, match="kind must be 'linear', without users, for sums"):
        inference.regression(release, X)


def test_two_classes_by_sums() -> None:
    plan = inference.plan_sums("regression", ldp.Classes(2), 1.0, features=ldp.Public(X, why="bought"))
    estimate = inference.regression(released(LABELS, plan), X, kind="linear", level=SURE)
    assert held(estimate, np.linalg.lstsq(np.column_stack([np.ones(N), X]), LABELS, rcond=None)[0])


def test_an_odds_ratio_is_as_narrow_as_that_of_a_regression_and_says_when_it_has_no_upper_end() -> None:
    exposed = np.random.default_rng(4).random(N) < 0.4
    labels = (np.random.default_rng(5).random(N) < np.where(exposed, 0.5, 0.25)).astype(int)
    release = released(labels, response(2, 2.0))
    estimate = inference.odds_ratio(release, exposed)
    assert held(estimate, 3)
    slope = inference.regression(release, exposed.astype(float)).at(feature="x1")
    assert np.log(estimate.high / estimate.low) == pytest.approx(slope.high - slope.low, rel=0.1)
    assert inference.odds_ratio(release, ~exposed).value == pytest.approx(1 / estimate.value)
    rare = inference.odds_ratio(released(labels[:60] * 0, response(2, 1.0)), exposed[:60])
    assert np.isinf(rare.high) and rare.low == 0
    with pytest.raises(InputError, match="users must be left out: an odds ratio needs records"):
        inference.odds_ratio(release, exposed, users=np.arange(N) // 2)


@pytest.mark.parametrize(
    ("features", "options", "sentence"),
    [
        (np.ones((N, 1)), {}, "features must have columns that do not depend on each other, and no constant"),
        (X[:9], {}, f"features must have a row for each of the {N} records"),
        (X, {"kind": "probit"}, "kind must be one of logistic, linear"),
        (X, {"names": ["a"]}, "names must be 2 names, one for each feature"),
        ([["a"]], {}, "features must be finite numbers"),
    ],
)
def test_bad_features(features: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        inference.regression(released(LABELS, response()), features, **options)


@pytest.mark.slow
def test_coverage_of_a_score_interval() -> None:
    """Of 300 runs at 95 %; a false alarm of a coverage of 93 % has a probability below 1e-6."""
    rng, runs, covered = np.random.default_rng(0), 300, 0
    mechanism = response(2, 2.0)
    certificate = released(np.zeros(4, dtype=int), mechanism).certificate
    for seed in range(runs):
        x = rng.random(800) < 0.5
        labels = (rng.random(800) < expit(-2 + 0.9 * x)).astype(np.uint8)
        noisy = mechanism.randomize(labels, rng=np.random.default_rng(seed))
        estimate = inference.regression(Release(noisy, certificate, mechanism), x.astype(float))
        covered += bool(estimate.low[1] <= 0.9 <= estimate.high[1])
    assert covered >= binom.ppf(1e-6, runs, 0.93)


COUNTS = np.minimum(np.random.default_rng(8).poisson(np.exp(0.2 + 0.5 * X[:, 0])), 20)


@pytest.mark.parametrize("users", [None, np.arange(len(X)) // 2], ids=["records", "users"])
def test_a_regression_of_counts(users: Any) -> None:
    release = released(COUNTS, UnbiasedNumbers(domain=ldp.Interval(0, 20, grid=21), epsilon=6.0))
    estimate = inference.regression(release, X, kind="poisson", users=users, level=SURE)
    assert held(estimate, np.concatenate([[0.2, 0.5], np.zeros(X.shape[1] - 1)]))
    assert (estimate.high - estimate.low < 0.5).all() and estimate.quantity == "log rate ratio"
    plain = inference.regression(release, X, kind="poisson", users=users)
    moved = inference.regression(release, 2015 + X / 100, kind="poisson", users=users)
    for name in ("value", "low", "high"):
        assert getattr(moved, name)[1:] / 100 == pytest.approx(getattr(plain, name)[1:], rel=1e-4, abs=1e-5)
    assert "rate ratio" in plain.summary()


def test_counts_that_answers_do_not_show_have_endless_intervals() -> None:
    release = released(0 * COUNTS[:200], UnbiasedNumbers(domain=ldp.Interval(0, 20, grid=21), epsilon=1.0))
    estimate = inference.regression(release, X[:200], kind="poisson")
    assert (np.isinf(estimate.low) | np.isinf(estimate.high)).all() and estimate.low[0] == -np.inf
    assert any("unbounded log rate ratio" in text and "constant, x1, x2" in text for text in estimate.assumptions)


def test_what_has_no_log_mean() -> None:
    for labels, mechanism in (
        (LABELS, response()),
        (COUNTS, UnbiasedNumbers(domain=ldp.Interval(-1, 20, grid=22), epsilon=1.0)),
    ):
        with pytest.raises(InputError, match="kind must be 'logistic' or 'linear': no numbers"):
            inference.regression(released(labels, mechanism), X, kind="poisson")


def test_one_user_shows_nothing_of_others() -> None:
    release = released(COUNTS, UnbiasedNumbers(domain=ldp.Interval(0, 20, grid=21), epsilon=6.0))
    estimate = inference.regression(release, X, kind="poisson", users=np.zeros(len(X)))
    assert np.isinf(estimate.low).all() and np.isinf(estimate.high).all()

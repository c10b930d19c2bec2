"""Bounds by hand, against simulations, and against the statements that they correct."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import labeldp as ldp
from labeldp.mechanisms import Classes, GaussianOneHot
from labeldp.privacy import InputError
from labeldp.sgd import SoftmaxRegression, UnitVectorLoss, lp_rr_sgd, normal_moment, response_moment
from papers.rates.bounds import (
    debiased_gap_bound,
    erm_lower_bound,
    hard_instance,
    last_iterate_bound,
    linear_complexity,
    lower_rate,
    normal_sgd_bound,
    repeated_lower_bound,
    response_sgd_bound,
)

LN3 = "1.0986122886681098"
BALL: dict[str, Any] = {"diameter": 3, "lipschitz": 2}
FALSE_ALARM = 1e-12


def test_the_last_iterate_by_hand() -> None:
    """n = 3, D = 3, G = 2: 2 · 3 · 2 · (2 + ln 4)/2 = 12 + 6 ln 4."""
    assert last_iterate_bound(3, diameter=3, moment=2) == pytest.approx(12 + 6 * math.log(4))


def test_theorem_9_and_corollary_10_by_hand() -> None:
    """ε = ln 3, K = 4, L = 2: G = 2 (3 + 5)/2 = 8; a label outside of the candidates costs 2 · 3 · 2."""
    plain = response_sgd_bound(3, classes=4, epsilon=LN3, **BALL)
    assert plain == pytest.approx(2 * 3 * 8 * (2 + math.log(4)) / 2)
    assert response_sgd_bound(3, classes=4, epsilon=LN3, outside=0.25, **BALL) == pytest.approx(plain + 3)


def test_proposition_11_by_hand() -> None:
    """c(1, 1e-6) = 4.22468, K = 3, L = 2: G² = 4 (1 + 2 c² 3)."""
    expected = 2 * 3 * 2 * math.sqrt(1 + 6 * 4.22468**2) * (2 + math.log(4)) / 2
    assert normal_sgd_bound(3, classes=3, epsilon=1, delta=1e-6, **BALL) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("classes", [2, 5, 20])
def test_bounds_for_any_loss_cover_those_of_known_losses(classes: int) -> None:
    noise = GaussianOneHot(domain=Classes(classes), epsilon=0.5, delta=1e-6)
    for loss in (SoftmaxRegression(classes), UnitVectorLoss(classes)):
        ball: dict[str, Any] = {"diameter": 1, "lipschitz": loss.lipschitz}
        sharp = last_iterate_bound(9, diameter=1, moment=response_moment(loss, 0.5))
        assert sharp <= response_sgd_bound(9, classes=classes, epsilon=0.5, **ball) * (1 + 1e-12)
        sharp = last_iterate_bound(9, diameter=1, moment=normal_moment(loss, noise))
        assert sharp <= normal_sgd_bound(9, classes=classes, epsilon=0.5, delta=1e-6, **ball) * (1 + 1e-12)


def test_the_debiased_gap_by_hand() -> None:
    """ε = ln 3, k = 4: c = 4; 2 · 2 · 4 · 0.1 + 4 √(ln 40/200) + 0.05."""
    found = debiased_gap_bound(100, candidates=4, epsilon=LN3, failure=0.05, lipschitz=2, complexity=0.1, outside=0.05)
    assert found == pytest.approx(1.6 + 4 * math.sqrt(math.log(40) / 200) + 0.05)
    one = debiased_gap_bound(100, candidates=1, epsilon=1, failure=0.05, lipschitz=1, complexity=0)
    assert one == pytest.approx(math.sqrt(math.log(40) / 200)), "one candidate: no noise, the range is 1"


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("k", [2, 3, 6])
def test_the_debiased_loss_has_the_range_and_the_slope_of_the_correction(k: int, epsilon: float) -> None:
    """Over all losses in [0, 1]: the extremes lie at the corners."""
    lie = 1 / (math.exp(epsilon) + k - 1)
    corners = np.array(list(itertools.product([0.0, 1.0], repeat=k)))
    debiased = (corners[:, 0] - lie * corners.sum(axis=1)) / (1 - k * lie)
    width = (math.exp(epsilon) + 2 * k - 3) / (math.exp(epsilon) - 1)
    assert debiased.max() - debiased.min() == pytest.approx(width)
    slopes = np.array(list(itertools.product([-1.0, 1.0], repeat=k)))
    assert np.abs((slopes[:, 0] - lie * slopes.sum(axis=1)) / (1 - k * lie)).max() == pytest.approx(width)


def gaps(draws: int, records: int, epsilon: float) -> np.ndarray:
    """|debiased risk - risk| of one function with losses 1 and 0 for two equally likely classes, shape (draws,)."""
    mechanism = ldp.RandomizedResponse(domain=Classes(2), epsilon=epsilon)
    rng = np.random.default_rng(0)
    truth = rng.binomial(records, 0.5, draws)  # labels of class 0
    keep = mechanism.keep_probability
    zeros = rng.binomial(truth, keep) + rng.binomial(records - truth, 1 - keep)
    values = ldp.debias(mechanism, np.array([0, 1], dtype=np.uint8)).values[:, 0]
    risk = (zeros * values[0] + (records - zeros) * values[1]) / records
    return np.asarray(np.abs(risk - 0.5))


def test_theorem_17_is_false_as_printed_and_true_as_corrected() -> None:
    """k = 2, ε = 0.1, n = 10,000, 5 % failures allowed, one function: no complexity, no label outside."""
    draws, found = 4000, gaps(4000, 10_000, 0.1)
    printed = math.sqrt(math.log(2 / 0.05) / (2 * 10_000))
    assert np.mean(found > printed) > 0.8
    assert binom.sf(np.sum(found > printed) - 1, draws, 0.05) < FALSE_ALARM
    right = debiased_gap_bound(10_000, candidates=2, epsilon=0.1, failure=0.05, lipschitz=1, complexity=0)
    assert np.mean(found > right) < 0.05
    assert np.max(found) > right / 2, "the correction is not ten times too large"


def test_the_complexity_of_linear_functions_covers_a_simulation() -> None:
    """radius 2, norm 1, n = 400: 2 · 1/20. The supremum is radius |Σ σ x|/n."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 6))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    signs = rng.choice([-1.0, 1.0], size=(3000, 400))
    simulated = 2 * np.linalg.norm(signs @ rows, axis=1).mean() / 400
    assert linear_complexity(400, radius=2, norm=1) == pytest.approx(0.1)
    assert 0.09 < simulated < 0.1


def test_lower_bounds_by_hand() -> None:
    """ε = ln 3, δ = 0, n = 4, D = 3, L = 2: 6/4 (1 - √(3/4)). With δ = 1 nothing is promised."""
    assert erm_lower_bound(4, epsilon=LN3, delta=0, **BALL) == pytest.approx(1.5 * (1 - math.sqrt(0.75)))
    assert erm_lower_bound(4, epsilon=LN3, delta=1, **BALL) == 0
    assert erm_lower_bound(4, epsilon=800, delta=0, **BALL) == 0
    assert lower_rate(100, epsilon=0.25, **BALL) == pytest.approx(6 / 5)


def test_repeated_vectors_by_hand_and_in_the_limit() -> None:
    """n = 5, ε = (ln 3)/2: k = 2 leaves m = 2 vectors, 4 of 5 records, joint ε = ln 3: 0.8 · 6/(2√2) (1 - √(3/4))."""
    candidates = [
        (k * (5 // k) / 5) * erm_lower_bound(5 // k, epsilon=k * float(LN3) / 2, delta=0, **BALL) for k in range(1, 6)
    ]
    assert candidates[1] == pytest.approx(0.8 * 6 / (2 * math.sqrt(2)) * (1 - math.sqrt(0.75)))
    assert repeated_lower_bound(5, epsilon=float(LN3) / 2, delta=0, **BALL) == pytest.approx(max(candidates))
    n, epsilon = 10**7, 1e-3
    limit = 0.0764 * 6 / math.sqrt(epsilon * n)
    assert repeated_lower_bound(n, epsilon=epsilon, delta=0, **BALL) == pytest.approx(limit, rel=0.01)
    assert repeated_lower_bound(n, epsilon=epsilon, delta=1e-2, **BALL) < limit / 3
    assert repeated_lower_bound(7, epsilon=900, delta=0, **BALL) == 0


def test_the_hard_instance_has_the_optimum_that_it_says() -> None:
    instance = hard_instance(5, rng=np.random.default_rng(1), copies=3)
    assert instance.features.shape == (15, 5) and instance.copies == 3
    best = 3 / (2 * math.sqrt(5)) * (2 * instance.labels[::3] - 1)
    losses = UnitVectorLoss(2, lipschitz=2.0).losses(best, instance.features)
    assert losses[np.arange(15), instance.labels].mean() == pytest.approx(-3 * 2 / (2 * math.sqrt(5)))
    assert instance.excess(best, **BALL) == pytest.approx(0, abs=1e-12)
    assert instance.excess(0 * best, **BALL) == pytest.approx(3 / math.sqrt(5))
    assert "array(" not in repr(instance)


@pytest.mark.parametrize(("epsilon", "copies"), [(1.0, 1), (0.25, 4)])
def test_a_private_learner_stays_between_the_bounds_on_the_hard_instance(epsilon: float, copies: int) -> None:
    found = []
    for seed in range(5):
        instance = hard_instance(60, rng=np.random.default_rng(seed), copies=copies)
        holder = ldp.Curator(instance.labels, domain=Classes(2), budget=ldp.Budget(epsilon))
        release = lp_rr_sgd(
            instance.features,
            holder,
            loss=UnitVectorLoss(2, lipschitz=2.0),
            epsilon=epsilon,
            diameter=3,
            rng=np.random.default_rng(seed),
        )
        found.append(instance.excess(release.value.estimator.weights, **BALL))
    lower = repeated_lower_bound(60 * copies, epsilon=epsilon, delta=0, **BALL)
    assert lower < np.mean(found) < 3 * 2 / math.sqrt(60)


REFUSED: dict[str, tuple[Any, str]] = {
    "records": (lambda: last_iterate_bound(0, diameter=1, moment=1), "records must be an integer, at least 1"),
    "diameter": (lambda: last_iterate_bound(1, diameter=-1, moment=1), "diameter must be a positive"),
    "moment": (lambda: last_iterate_bound(1, diameter=1, moment=math.nan), "moment must be a positive"),
    "classes": (lambda: response_sgd_bound(1, classes=1, epsilon=1, **BALL), "classes must be an integer, at least 2"),
    "epsilon": (lambda: erm_lower_bound(1, epsilon=0, delta=0, **BALL), "epsilon must be positive"),
    "delta": (lambda: erm_lower_bound(1, epsilon=1, delta=2, **BALL), r"delta must lie in \[0, 1\]"),
    "large epsilon": (lambda: lower_rate(1, epsilon=2, **BALL), "epsilon must be at most 1"),
    "failure": (
        lambda: debiased_gap_bound(1, candidates=2, epsilon=1, failure=0, lipschitz=1, complexity=0),
        r"failure must lie in \(0, 1\)",
    ),
    "complexity": (
        lambda: debiased_gap_bound(1, candidates=2, epsilon=1, failure=0.1, lipschitz=1, complexity=-1),
        "complexity must be a non-negative",
    ),
    "vectors": (lambda: hard_instance(0, rng=np.random.default_rng(0)), "vectors must be an integer"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(InputError, match=message):
        make()

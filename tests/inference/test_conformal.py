"""Prediction sets cover as often as they promise, but for their risk."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import labeldp as ldp
from inference.simulated import released, response
from labeldp import inference
from labeldp.mechanisms import Interval, ResponseOnBins, UnaryEncoding
from labeldp.privacy import InputError, Release

N, K = 20_000, 6


def drawn(records: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Class probabilities and labels of their law."""
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.full(K, 0.4), size=records)
    return chances, (rng.random((records, 1)) > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)


CHANCES, LABELS = drawn(N, 1)
NEW, TRUTH = drawn(50_000, 2)
SCORES = ldp.Public(1 - CHANCES, why="trained on other records")


@pytest.mark.parametrize("method", ["auto", "exact", "normal"])
def test_sets_cover_and_are_not_everything(method: str) -> None:
    found = inference.conformal(released(LABELS, response(K, 3.0)), SCORES, coverage=0.9, method=method)
    sets = found.sets(1 - NEW)
    assert sets[np.arange(len(TRUTH)), TRUTH].mean() >= 0.895 and sets.sum(axis=1).mean() < 3.5
    assert found.guarantee == ("asymptotic" if method == "normal" else "finite sample")
    assert any("the scores were not computed from these labels" in text for text in found.assumptions)
    assert "90 %" in str(found) and "risk of 5 %" in str(found)


def test_groups_and_classes_have_thresholds_of_their_own() -> None:
    release, groups = released(LABELS, response(K, 4.0)), np.random.default_rng(0).choice(["a", "b"], N)
    by_group = inference.conformal(release, SCORES, groups=groups)
    assert by_group.threshold.shape == (2,) and by_group.axes[0][0] == "group"
    sets = by_group.sets(1 - NEW, groups=np.tile(["a", "b"], 25_000))
    assert sets[np.arange(len(TRUTH)), TRUTH].mean() >= 0.89
    with pytest.raises(InputError, match="groups must be given, one for each record"):
        by_group.sets(1 - NEW)
    with pytest.raises(InputError, match="groups must be groups of the calibration"):
        by_group.sets(1 - NEW[:1], groups=["c"])
    by_class = inference.conformal(release, SCORES, by_class=True)
    sets = by_class.sets(1 - NEW)
    assert by_class.threshold.shape == (K,) and by_class.guarantee == "asymptotic"
    assert min(sets[code == TRUTH, code].mean() for code in range(K)) >= 0.89


def test_few_answers_name_all_classes_as_they_must() -> None:
    found = inference.conformal(
        released(LABELS[:60], response(K, 0.5)), ldp.Public(1 - CHANCES[:60], why="other records")
    )
    assert found.sets(1 - NEW).all()


def test_sets_of_classes_and_users_have_normal_tests() -> None:
    bits = inference.conformal(released(LABELS, UnaryEncoding(domain=ldp.Classes(K), epsilon=4.0)), SCORES)
    assert bits.guarantee == "asymptotic" and np.isfinite(bits.threshold)
    release = released(LABELS, response(K, 4.0))
    users = inference.conformal(release, SCORES, users=np.arange(N) // 4)
    assert users.method.endswith("clustered by user")
    with pytest.raises(InputError, match="method must be 'normal' with by_class=True and for users"):
        inference.conformal(release, SCORES, users=np.arange(N) // 4, method="exact")


def test_intervals_of_numbers_from_bins_of_residuals() -> None:
    rng = np.random.default_rng(3)
    residuals = np.round(np.clip(np.abs(rng.normal(0, 1, N)), 0, 4), 2)
    mechanism = ResponseOnBins(domain=Interval(0, 4, grid=401), epsilon=3.0, bins=16)
    found = inference.conformal(released(residuals, mechanism), coverage=0.8)
    later = np.abs(np.random.default_rng(4).normal(0, 1, 50_000))
    assert 0.795 <= (later <= found.threshold).mean() < 1 and found.threshold in mechanism.edges
    assert found.guarantee == "finite sample"
    with pytest.raises(InputError, match="scores must be left out: answers are bins of residuals"):
        inference.conformal(released(residuals, mechanism), SCORES)


@pytest.mark.parametrize(
    ("scores", "options", "sentence"),
    [
        (SCORES.value, {}, r"scores must be Public\(array"),
        (None, {}, r"scores must be Public\(array"),
        (SCORES, {"coverage": 90}, "coverage must lie between 0 and 1"),
        (SCORES, {"method": "magic"}, "method must be one of auto, betting, exact, normal"),
        (SCORES, {"by_class": True, "groups": LABELS}, "groups must be left out where each class has its threshold"),
    ],
)
def test_bad_calibrations(scores: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        inference.conformal(released(LABELS, response(K)), scores, **options)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["betting", "exact"])
def test_the_risk_over_calibrations(method: str) -> None:
    """Of 300 calibrations with 1,000 records; a false alarm of a risk of 5 % has a probability below 1e-6."""
    mechanism, runs, short = response(K, 3.0), 300, 0
    certificate = released(np.zeros(4, dtype=int), mechanism).certificate
    order = np.sort(1 - NEW[np.arange(len(TRUTH)), TRUTH])
    for seed in range(runs):
        chances, labels = drawn(1000, 100 + seed)
        noisy = mechanism.randomize(labels.astype(np.uint8), rng=np.random.default_rng(seed))
        found = inference.conformal(
            Release(noisy, certificate, mechanism), ldp.Public(1 - chances, why="drawn"), coverage=0.8, method=method
        )
        short += np.searchsorted(order, found.threshold, side="right") / len(order) < 0.797
    assert short <= binom.ppf(1 - 1e-6, runs, 0.05)

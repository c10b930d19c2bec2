"""The likelihood of released sums and labels under a softmax: gradients, limits, and what it is worth."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import softmax

import labeldp as ldp
from labeldp.learners import Posterior, evidence
from labeldp.learners.evidence import SumsTerm, fit_softmax

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(40, 3))
TRUTH = np.array([[2.0, -1.0, 0.0], [0.0, 1.5, -1.0], [-1.0, 0.0, 1.0]])
LABELS = np.array([RNG.choice(3, p=each) for each in softmax(ROWS @ TRUTH, axis=1)])
INDICATORS = np.eye(3)[LABELS]
SUMS = SumsTerm.of(ROWS, ROWS.T @ INDICATORS + 0.5, 0.5, 0.1)
NOISY = np.where(INDICATORS > 0, 0.7, 0.15)
OFFSET = RNG.normal(size=(40, 3))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The objectives that were minimized."""
    kept: list[Any] = []
    original = evidence.minimize

    def minimize(objective: Any, *arguments: Any, **options: Any) -> Any:
        kept.append(objective)
        return original(objective, *arguments, **options)

    monkeypatch.setattr(evidence, "minimize", minimize)
    return kept


def value_by_hand(coefficients: Any, sums: bool, labels: bool, offset: Any) -> float:
    """The objective as its docstring has it, record by record."""
    scores = ROWS @ coefficients + (0 if offset is None else offset)
    chances = softmax(scores, axis=1)
    value = 0.5 * float((np.array([1.0, 2.0, 3.0])[:, None] * coefficients**2).sum())
    if sums:
        for r in range(3):
            variance = 0.5**2 + 0.1 * float((ROWS[:, r] ** 2).sum())
            for k in range(3):
                expected = sum(ROWS[i, r] * chances[i, k] for i in range(40))
                value += 0.5 * (expected - SUMS.moment[r, k]) ** 2 / variance
    if labels:
        value -= sum(np.log(sum(NOISY[i, k] * chances[i, k] for k in range(3))) for i in range(40))
    return value


@pytest.mark.parametrize(("sums", "labels"), [(True, False), (False, True), (True, True), (False, False)])
@pytest.mark.parametrize("offset", [None, OFFSET], ids=["no offset", "offset"])
def test_the_objective_is_the_sum_of_its_terms_and_its_gradient_is_right(
    sums: bool, labels: bool, offset: Any, asked: list[Any]
) -> None:
    fit_softmax(
        ROWS,
        start=np.zeros((3, 3)),
        precision=np.array([1.0, 2.0, 3.0]),
        sums=[SUMS] if sums else [],
        likelihood=NOISY if labels else None,
        offset=offset,
        steps=1,
    )
    where = RNG.normal(size=9)
    value, gradient = asked[0](where)
    assert value == pytest.approx(value_by_hand(where.reshape(3, 3), sums, labels, offset))
    assert gradient == pytest.approx(approx_fprime(where, lambda each: asked[0](each)[0], 1e-7), rel=1e-4, abs=1e-4)


def test_exact_sums_of_many_records_give_the_maximum_likelihood_of_their_labels() -> None:
    exact = SumsTerm.of(ROWS, ROWS.T @ INDICATORS, 1e-3, 0.0)
    found = fit_softmax(ROWS, start=np.zeros((3, 3)), precision=np.full(3, 1e-9), sums=[exact], steps=2000)
    # At the maximum of the likelihood of true labels, expected and observed sums agree.
    assert ROWS.T @ softmax(ROWS @ found, axis=1) == pytest.approx(ROWS.T @ INDICATORS, abs=1e-3)


def test_labels_without_noise_are_learned_as_they_are() -> None:
    found = fit_softmax(ROWS, start=np.zeros((3, 3)), precision=np.ones(3), likelihood=INDICATORS, steps=500)
    gradient = ROWS.T @ (softmax(ROWS @ found, axis=1) - INDICATORS) + found
    assert np.abs(gradient).max() < 1e-2


def test_sums_with_much_noise_leave_the_prior() -> None:
    vague = SumsTerm.of(ROWS, ROWS.T @ INDICATORS, 1e6, 0.1)
    found = fit_softmax(ROWS, start=TRUTH, precision=np.ones(3), sums=[vague])
    assert np.abs(found).max() < 1e-3


@pytest.mark.slow
def test_the_softmax_explains_more_than_least_squares_from_the_same_release() -> None:
    """Over five noises: the same sums, the same charge, a better log likelihood of true labels."""
    rng = np.random.default_rng(1)
    features = rng.normal(size=(9000, 6))
    scores = 4 * features @ rng.normal(size=(6, 4))
    labels = scores.argmax(axis=1)
    gains = []
    for seed in range(5):
        log_losses = []
        for largest in (lambda _, start: start, Posterior.largest):
            budget = ldp.Budget(epsilon=4, delta=1e-6)
            curator = ldp.Curator(labels[:8000], domain=ldp.Classes(4), budget=budget)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Posterior, "largest", largest)
                model = ldp.fit_linear(
                    features[:8000],
                    curator,
                    epsilon=4,
                    delta=1e-6,
                    dimension=40,
                    rng=np.random.default_rng(seed),
                )
            logs = np.log(np.maximum(model.value.predict_proba(features[8000:]), 1e-6))
            log_losses.append(float(logs[np.arange(1000), labels[8000:]].mean()))
        gains.append(log_losses[1] - log_losses[0])
    assert np.mean(gains) > 3 * np.std(gains) / np.sqrt(5) > 0


def test_soft_labels_are_learned_by_their_cross_entropy() -> None:
    options: dict[str, Any] = {"start": np.zeros((3, 3)), "precision": np.ones(3), "steps": 500}
    hard = [fit_softmax(ROWS, **options, **each) for each in ({"soft": INDICATORS}, {"likelihood": INDICATORS})]
    assert np.allclose(*hard, atol=1e-4)
    soft = softmax(OFFSET, axis=1)
    found = fit_softmax(ROWS, soft=soft, **options)
    assert np.allclose(ROWS.T @ (softmax(ROWS @ found, axis=1) - soft) + found, 0, atol=1e-3)


def test_the_discrepancy_of_the_truth_is_one_and_that_of_another_model_is_larger() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20_000, 30)).astype(np.float32)
    scores = rows @ rng.normal(size=(30, 4)) / 3
    truth = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    labels = (truth.cumsum(axis=1) > rng.random((20_000, 1))).argmax(axis=1)
    moment = rows.T.astype(np.float64) @ np.eye(4)[labels] + rng.normal(scale=100, size=(30, 4))
    sums = SumsTerm.of(rows, moment, 100.0, float((truth * (1 - truth)).mean()))
    answers = np.where(rng.random(20_000) < 0.4, rng.integers(0, 4, 20_000), labels)
    likelihood = np.where(np.arange(4) == answers[:, None], 0.7, 0.1)
    precision = np.full(30, 1.0)
    for posterior in (
        Posterior(rows, precision, sums=(sums,)),
        Posterior(rows, precision, likelihood=likelihood),
        Posterior(rows, precision, sums=(sums,), likelihood=likelihood),
    ):
        assert posterior.discrepancy(truth) == pytest.approx(1.0, abs=0.35)
        weights = posterior.largest(np.zeros((30, 4)), ridge=1e-3)
        fitted = np.exp(rows @ weights) / np.exp(rows @ weights).sum(axis=1, keepdims=True)
        assert posterior.discrepancy(fitted) < 0.7
        assert posterior.discrepancy(np.full_like(truth, 0.25)) > 2

"""Recall, precision, F1 and calibration from released labels: on average, with no noise left, and their intervals."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.metrics import f1_score, precision_score, recall_score

import labeldp as ldp
from labeldp.inference import Estimate, Scores
from labeldp.learners import evaluate

SIMULATED = np.random.default_rng
DOMAIN = ldp.Classes(("a", "b", "c"))
RNG = SIMULATED(0)
CODES = RNG.choice(3, 4000, p=[0.6, 0.3, 0.1])
PREDICTED = np.where(RNG.random(4000) < 0.7, CODES, RNG.integers(0, 3, 4000))
SCORES = {"recall": recall_score, "precision": precision_score, "f1": f1_score}


def of(release: Any, probabilities: Any) -> Scores:
    scores = evaluate(release, probabilities, "a test", np.arange(len(release.value)))
    assert isinstance(scores, Scores)
    return scores


def scored(name: str, release: Any, predicted: Any) -> Estimate:
    found: Estimate = getattr(of(release, np.eye(3)[predicted]), name)()
    return found


def release(seed: int, epsilon: float, mechanism: Any = ldp.RandomizedResponse) -> Any:
    held = ldp.Curator(DOMAIN.decode(CODES), domain=DOMAIN, budget=ldp.Budget(epsilon))
    return held.release(mechanism(domain=DOMAIN, epsilon=epsilon), rng=SIMULATED(1000 + seed))


@pytest.mark.parametrize("name", SCORES)
def test_without_noise_they_are_scikit_learns(name: str) -> None:
    found = scored(name, release(0, 40), PREDICTED)
    np.testing.assert_allclose(found.value, SCORES[name](CODES, PREDICTED, average=None), atol=1e-9)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("mechanism", [ldp.RandomizedResponse, ldp.UnaryEncoding])
def test_intervals_cover_and_centers_are_right_over_the_noise(name: str, mechanism: Any) -> None:
    theirs = SCORES[name]
    truth = theirs(CODES, PREDICTED, average=None)
    found = [scored(name, release(seed, 1.5, mechanism), PREDICTED) for seed in range(120)]
    inside = np.mean([(each.low <= truth) & (truth <= each.high) for each in found], axis=0)
    assert (inside >= 0.88).all(), inside  # of 120, at 95 %: 0.88 is 3.5 standard errors below
    spread = np.std([each.value for each in found], axis=0)
    assert np.all(np.abs(np.mean([each.value for each in found], axis=0) - truth) < 5 * spread / np.sqrt(120) + 0.01)
    plain = theirs(release(0, 1.5).value, PREDICTED, average=None)
    assert np.abs(plain - truth).max() > 0.08, "scores on noisy labels as they are would be wrong"


def test_names_and_codes_are_the_same() -> None:
    held = release(0, 2)
    one, other = (ldp.debiased_accuracy(held, names) for names in (PREDICTED, DOMAIN.decode(PREDICTED)))
    assert one.value == other.value
    for wrong in (["d"] * 4000, PREDICTED[:9], PREDICTED + 1, PREDICTED + 0.5):
        with pytest.raises(ldp.privacy.InputError, match="predictions must be"):
            ldp.debiased_accuracy(held, wrong)


def test_a_class_that_is_never_predicted_or_does_not_occur() -> None:
    held = ldp.Curator(["a", "b"] * 300, domain=DOMAIN, budget=ldp.Budget(1))
    found = held.release(ldp.RandomizedResponse(domain=DOMAIN, epsilon=1), rng=SIMULATED(1))
    never = scored("precision", found, np.zeros(600, dtype=int))
    assert np.isnan(never.value[1:]).all() and (never.low[1:] == 0).all() and (never.high[1:] == 1).all()
    recall = scored("recall", found, np.zeros(600, dtype=int))
    assert recall.low[2] == 0 and recall.high[2] == 1
    assert recall.value[1] == 0 and recall.high[1] < 0.03, "new records may be predicted as it"


def test_calibration_finds_a_model_that_is_too_sure() -> None:
    chance = RNG.uniform(0.4, 1.0, 20_000)
    codes = np.where(RNG.random(20_000) < chance, 0, RNG.integers(1, 3, 20_000))
    held = ldp.Curator(DOMAIN.decode(codes), domain=DOMAIN, budget=ldp.Budget(2))
    found = held.release(ldp.RandomizedResponse(domain=DOMAIN, epsilon=2), rng=SIMULATED(2))
    honest = np.column_stack([chance, (1 - chance) / 2, (1 - chance) / 2])
    bins, gap = of(found, honest).calibration(bins=5), of(found, honest).overconfidence()
    assert bins.records.tolist() == [4000] * 5 and (np.diff(bins.predicted) > 0).all()
    assert ((bins.observed.low < bins.predicted) & (bins.predicted < bins.observed.high)).sum() >= 4
    assert gap.low < 0 < gap.high
    sure = np.tile([0.98, 0.01, 0.01], (20_000, 1))
    boastful = of(found, sure)
    assert boastful.calibration().records.tolist() == [20_000] and boastful.overconfidence().low > 0.2
    assert boastful.overconfidence().value == pytest.approx(0.98 - chance.mean(), abs=0.03)


class Fixed(BaseEstimator):
    """An estimator that answers what it was made with."""

    def __init__(self, answers: Any = None) -> None:
        self.answers = answers

    def fit(self) -> None:
        """Nothing is learned."""

    def predict(self, X: Any) -> Any:
        return self.answers


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("recall_macro", recall_score(CODES, PREDICTED, average="macro")),
        ("balanced_accuracy", recall_score(CODES, PREDICTED, average="macro")),
        ("precision_macro", precision_score(CODES, PREDICTED, average="macro")),
        ("f1_macro", f1_score(CODES, PREDICTED, average="macro")),
    ],
)
def test_scorers_of_classes(metric: Any, expected: float) -> None:
    held = release(0, 40)
    scorer = ldp.debiased_scorer(metric, mechanism=held.mechanism)
    for answers in (PREDICTED, DOMAIN.decode(PREDICTED)):
        for labels in (held.value, DOMAIN.decode(held.value)):
            assert scorer(Fixed(answers), np.zeros((4000, 1)), labels) == pytest.approx(expected)
    noisy = [
        ldp.debiased_scorer(metric, mechanism=each.mechanism)(Fixed(PREDICTED), np.zeros((4000, 1)), each.value)
        for each in (release(seed, 2) for seed in range(30))
    ]
    assert np.mean(noisy) == pytest.approx(expected, abs=0.03)


def test_scores_of_the_second_of_two_classes() -> None:
    domain = ldp.Classes(("no", "yes"))
    mechanism = ldp.RandomizedResponse(domain=domain, epsilon=40)
    truth, answers = np.arange(400) % 3 == 0, np.arange(400) % 2 == 0
    for metric, theirs in (("recall", recall_score), ("precision", precision_score), ("f1", f1_score)):
        scorer = ldp.debiased_scorer(metric, mechanism=mechanism)  # type: ignore[arg-type]
        found = scorer(Fixed(domain.decode(answers.astype(int))), np.zeros((400, 1)), domain.decode(truth.astype(int)))
        assert found == pytest.approx(theirs(truth, answers))
    with pytest.raises(ldp.privacy.InputError, match="metric must be f1_macro for more than two classes"):
        ldp.debiased_scorer("f1", mechanism=ldp.RandomizedResponse(domain=DOMAIN, epsilon=1))

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.metrics import roc_auc_score

from labeldp.learners import (
    Estimate,
    Evaluation,
    debiased_accuracy,
    debiased_auc,
    debiased_confusion,
    debiased_log_loss,
)
from labeldp.learners.evaluation import auc_estimate, clopper_pearson
from labeldp.privacy import InputError, NotInvertibleError
from learners.data import released, with_prior

LN3 = 1.0986122886681098
"""Keeps a label of two classes with probability 3/4."""


def noises(labels: np.ndarray, classes: int, epsilon: float, count: int) -> list:
    return [released(labels, classes, epsilon, seed) for seed in range(count)]


def covered(estimates: list[Estimate], truth: float) -> float:
    return float(np.mean([estimate.low <= truth <= estimate.high for estimate in estimates]))


def fixed(codes: list[int]) -> object:
    """A release of exactly these codes, of two classes at epsilon = ln 3."""
    release = released(codes, 2, LN3)
    release.value[:] = codes
    return release


def test_the_accuracy_by_hand() -> None:
    # Three of four agree: (3/4 - 1/4) / (3/4 - 1/4) = 1.
    estimate = debiased_accuracy(fixed([0, 1, 1, 0]), np.array([0, 1, 1, 1]))
    assert estimate.value == pytest.approx(1.0)
    interval = binomtest(3, 4).proportion_ci(0.95, "exact")
    assert estimate.low == pytest.approx(max(0, 2 * interval.low - 0.5))
    assert estimate.high == pytest.approx(1.0)


def test_exact_intervals_of_a_rate_are_scipys() -> None:
    for hits, trials in [(0, 7), (3, 7), (7, 7)]:
        expected = binomtest(hits, trials).proportion_ci(0.9, "exact")
        np.testing.assert_allclose(clopper_pearson(hits, trials, 0.9), [expected.low, expected.high])
    np.testing.assert_allclose(clopper_pearson(0, 0, 0.9), [0, 1])


def test_the_log_loss_by_hand() -> None:
    # Unbiased indicators of an answer are 3/2 and -1/2.
    estimate = debiased_log_loss(fixed([0, 1]), np.array([[0.8, 0.2], [0.5, 0.5]]))
    by_hand = (1.5 * -np.log(0.8) - 0.5 * -np.log(0.2) - np.log(0.5)) / 2
    assert estimate.value == pytest.approx(by_hand)


def test_the_confusion_by_hand() -> None:
    estimate = debiased_confusion(fixed([0, 0, 1, 1]), np.array([0, 0, 0, 1]))
    np.testing.assert_allclose(estimate.value, [[(3 - 0.5) / 4, -0.5 / 4], [(-1 + 1.5) / 4, 1.5 / 4]])
    assert estimate.value.sum() == pytest.approx(1.0)
    assert np.all(estimate.low <= estimate.high)


def test_with_indicators_of_the_truth_the_area_is_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    labels, scores = rng.integers(0, 2, 200), rng.integers(0, 20, 200).astype(float)
    assert auc_estimate(np.eye(2)[labels], scores) == pytest.approx(roc_auc_score(labels, scores))


@pytest.mark.parametrize(("classes", "epsilon"), [(2, 0.5), (10, 2.0)])
def test_intervals_of_the_accuracy_cover(classes: int, epsilon: float) -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, classes, 500)
    predictions = np.where(rng.random(500) < 0.8, labels, (labels + 1) % classes)
    estimates = [debiased_accuracy(release, predictions) for release in noises(labels, classes, epsilon, 400)]
    assert covered(estimates, float(np.mean(labels == predictions))) >= 0.9
    assert np.mean([estimate.value for estimate in estimates]) == pytest.approx(
        np.mean(labels == predictions), abs=0.02
    )


def test_intervals_of_the_log_loss_and_of_the_area_cover() -> None:
    rng = np.random.default_rng(2)
    scores = rng.normal(size=600)
    labels = (rng.random(600) < 1 / (1 + np.exp(-2 * scores))).astype(int)
    second = 1 / (1 + np.exp(-scores))
    rows = np.column_stack([1 - second, second])
    loss = -np.log(rows[np.arange(600), labels]).mean()
    runs = noises(labels, 2, 1.0, 400)
    losses, areas = [debiased_log_loss(run, rows) for run in runs], [debiased_auc(run, scores) for run in runs]
    # 400 runs: below 0.91 a true coverage of 0.95 comes once in two thousand.
    assert covered(losses, loss) >= 0.91
    assert covered(areas, roc_auc_score(labels, scores)) >= 0.91
    assert np.mean([area.value for area in areas]) == pytest.approx(roc_auc_score(labels, scores), abs=0.01)


def test_intervals_are_not_wider_than_their_level_needs() -> None:
    """Over fresh records as well as fresh noise the coverage is what is claimed, not all."""
    rng, estimates = np.random.default_rng(3), []
    for seed in range(400):
        labels = (rng.random(800) < 0.3).astype(int)
        scores = labels + rng.normal(size=800)
        estimates.append(debiased_auc(released(labels, 2, 1.5, seed), scores))
    assert 0.91 <= covered(estimates, 0.7602) <= 0.985  # P(N(1, 2) > 0)


def test_intervals_of_the_confusion_cover_each_entry() -> None:
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 3, 400)
    predictions = np.where(rng.random(400) < 0.7, labels, rng.integers(0, 3, 400))
    truth = np.zeros((3, 3))
    np.add.at(truth, (labels, predictions), 1 / 400)
    found = [debiased_confusion(release, predictions) for release in noises(labels, 3, 1.0, 200)]
    inside = np.mean([(each.low <= truth) & (truth <= each.high) for each in found], axis=0)
    assert inside.min() >= 0.89


def test_a_column_of_one_class_tells_nothing_of_the_area() -> None:
    estimate = debiased_auc(fixed([0] * 50), np.arange(50.0))
    assert (estimate.value, estimate.low, estimate.high) == (0.5, 0.0, 1.0)


def test_records_with_fewer_candidates_than_classes_are_refused() -> None:
    release = with_prior(np.array([0, 1]), np.array([[1.0, 0.0], [0.5, 0.5]]))
    rows = np.full((2, 2), 0.5)
    for score in (
        lambda: debiased_accuracy(release, np.array([0, 1])),
        lambda: debiased_log_loss(release, rows),
        lambda: debiased_confusion(release, np.array([0, 1])),
        lambda: debiased_auc(release, rows[:, 0]),
    ):
        with pytest.raises(NotInvertibleError, match="fewer candidates"):
            score()


def test_bad_input_is_refused() -> None:
    release = released([0, 1, 1])
    with pytest.raises(InputError, match="one integer code"):
        debiased_accuracy(release, np.array([0.5, 1.0, 0.0]))
    with pytest.raises(InputError, match="from 0 to 1"):
        debiased_accuracy(release, np.array([0, 1, 2]))
    with pytest.raises(InputError, match="one row"):
        debiased_log_loss(release, np.ones((2, 2)) / 2)
    with pytest.raises(InputError, match="two classes"):
        debiased_auc(released([0, 1, 2], 3), np.zeros(3))
    with pytest.raises(InputError, match="finite"):
        debiased_auc(release, np.array([0.0, np.nan, 1.0]))
    with pytest.raises(InputError, match=r"Curator\.release"):
        debiased_accuracy(np.array([0, 1, 1]), np.array([0, 1, 1]))


def test_an_estimate_reads_as_a_sentence() -> None:
    assert str(Estimate(0.8, 0.75, 0.85)) == "0.8 (95 % interval 0.75 to 0.85)"
    assert str(debiased_confusion(released([0, 1, 1]), np.array([0, 1, 1]))).startswith("Estimate(value=array(")


def test_an_evaluation_reads_as_a_sentence() -> None:
    rows = np.eye(2)[np.arange(200) % 2]
    evaluation = Evaluation(fixed([0, 1] * 100), rows, "a model")
    assert evaluation.accuracy().value == pytest.approx(1.5)  # an estimate outside of its interval is not printed
    assert str(evaluation) == (
        "estimated accuracy 100.0 %, 95 % interval 100.0 % to 100.0 %, from 200 released labels; "
        "what was evaluated: a model"
    )
    assert repr(evaluation) == "Evaluation(of='a model')"

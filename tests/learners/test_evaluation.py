from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.metrics import roc_auc_score

import labeldp as ldp
from labeldp import inference
from labeldp.inference import (
    DebiasedErrors,
    Estimate,
    Scores,
    SummedErrors,
    area_terms,
    debiased_accuracy,
    evaluate_numbers,
)
from labeldp.inference.errors import share_of
from labeldp.learners import evaluate, evaluation_mechanism
from labeldp.learners.evaluation import error_shares, release_errors
from labeldp.mechanisms import Mechanism
from labeldp.privacy import InputError, NotInvertibleError, Release, total_loss
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


def of_rows(release: Any, rows: Any) -> Scores:
    scores = evaluate(release, np.asarray(rows, dtype=float), "a test", np.arange(len(release.value)))
    assert isinstance(scores, Scores)
    return scores


def of_numbers(release: Any, predictions: Any, level: float = 0.95) -> DebiasedErrors:
    return evaluate_numbers(release, predictions, about="a test", level=level)


def of_codes(release: Any, codes: Any) -> Scores:
    return of_rows(release, np.eye(release.mechanism.domain.size)[codes])


def of_scores(release: Any, scores: Any) -> Scores:
    second = 1 / (1 + np.exp(-scores))
    return of_rows(release, np.column_stack([1 - second, second]))


def test_the_accuracy_by_hand() -> None:
    # Three of four agree: (3/4 - 1/4) / (3/4 - 1/4) = 1.
    estimate = debiased_accuracy(fixed([0, 1, 1, 0]), np.array([0, 1, 1, 1]))
    assert estimate.value == pytest.approx(1.0)
    interval = binomtest(3, 4).proportion_ci(0.95, "exact")
    assert estimate.low == pytest.approx(max(0, 2 * interval.low - 0.5))
    assert estimate.high == pytest.approx(1.0)


def test_the_log_loss_by_hand() -> None:
    # Unbiased indicators of an answer are 3/2 and -1/2.
    estimate = of_rows(fixed([0, 1]), [[0.8, 0.2], [0.5, 0.5]]).log_loss()
    by_hand = (1.5 * -np.log(0.8) - 0.5 * -np.log(0.2) - np.log(0.5)) / 2
    assert estimate.value == pytest.approx(by_hand)


def test_the_confusion_by_hand() -> None:
    estimate = of_codes(fixed([0, 0, 1, 1]), [0, 0, 0, 1]).confusion()
    np.testing.assert_allclose(estimate.value, [[(3 - 0.5) / 4, -0.5 / 4], [(-1 + 1.5) / 4, 1.5 / 4]])
    assert estimate.value.sum() == pytest.approx(1.0)
    assert np.all(estimate.low <= estimate.high)


def test_with_indicators_of_the_truth_the_area_is_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    labels, scores = rng.integers(0, 2, 200), rng.integers(0, 20, 200).astype(float)
    ordered, pairs = area_terms(labels.astype(float), scores).statistics
    assert ordered / pairs == pytest.approx(roc_auc_score(labels, scores))


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
    losses, areas = zip(*[(seen.log_loss(), seen.auc()) for seen in (of_rows(run, rows) for run in runs)], strict=True)
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
        estimates.append(of_scores(released(labels, 2, 1.5, seed), scores).auc())
    assert 0.91 <= covered(estimates, 0.7602) <= 0.985  # P(N(1, 2) > 0)


def test_intervals_of_the_confusion_cover_each_entry() -> None:
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 3, 400)
    predictions = np.where(rng.random(400) < 0.7, labels, rng.integers(0, 3, 400))
    truth = np.zeros((3, 3))
    np.add.at(truth, (labels, predictions), 1 / 400)
    found = [of_codes(release, predictions).confusion() for release in noises(labels, 3, 1.0, 200)]
    inside = np.mean([(each.low <= truth) & (truth <= each.high) for each in found], axis=0)
    assert inside.min() >= 0.89


def test_a_column_of_one_class_tells_nothing_of_the_area() -> None:
    estimate = of_scores(fixed([0] * 50), np.arange(50.0)).auc()
    assert np.isnan(estimate.value) and (estimate.low, estimate.high) == (0.0, 1.0)


def test_records_with_fewer_candidates_than_classes_are_refused() -> None:
    release = with_prior(np.array([0, 1]), np.array([[1.0, 0.0], [0.5, 0.5]]))
    rows = np.full((2, 2), 0.5)
    seen = of_rows(release, rows)
    for score in (seen.accuracy, seen.log_loss, seen.confusion, seen.recall, seen.precision, seen.f1, seen.auc):
        with pytest.raises(NotInvertibleError, match="fewer candidates"):
            score()


def test_bad_input_is_refused() -> None:
    release = released([0, 1, 1])
    with pytest.raises(InputError, match="names of"):
        debiased_accuracy(release, np.array([0.5, 1.0, 0.0]))
    with pytest.raises(InputError, match="from 0 to 1"):
        debiased_accuracy(release, np.array([0, 1, 2]))
    with pytest.raises(InputError, match="two classes"):
        of_rows(released([0, 1, 2], 3), np.ones((3, 3)) / 3).auc()
    for rows in (np.ones((2, 2)) / 2, np.full((3, 2), np.nan), np.ones((3, 2))):
        with pytest.raises(InputError, match="probabilities must be"):
            inference.evaluate(release, ldp.Public(rows, why="a test"))
    with pytest.raises(InputError, match=r"Curator\.release"):
        inference.evaluate(np.array([0, 1, 1]), ldp.Public(np.ones((3, 2)) / 2, why="a test"))
    with pytest.raises(InputError, match=r"Curator\.release"):
        debiased_accuracy(np.array([0, 1, 1]), np.array([0, 1, 1]))


def test_an_estimate_reads_as_a_sentence() -> None:
    estimate = Estimate(quantity="accuracy", value=0.8, low=0.75, high=0.85, method="by hand")
    assert str(estimate) == "accuracy 0.8, 95 % interval 0.75 to 0.85 among records like these (asymptotic: by hand)"
    assert str(of_codes(released([0, 1, 1]), [0, 1, 1]).confusion()).startswith("share by class and predicted: 4")


def test_an_evaluation_reads_as_a_sentence() -> None:
    rows = np.eye(2)[np.arange(200) % 2]
    rows[:20] = rows[:20, ::-1]
    evaluation = evaluate(fixed([0, 1] * 100), rows, "a model", np.arange(200))  # type: ignore[arg-type]
    assert isinstance(evaluation, Scores)
    assert evaluation.accuracy().value == pytest.approx(1.3)  # an estimate outside of its interval is not printed
    assert str(evaluation) == (
        "estimated accuracy 100.0 %, 95 % interval 82.4 % to 100.0 %, from 200 released labels; "
        "what was evaluated: a model"
    )
    assert "array" not in repr(evaluation) and "about='a model'" in repr(evaluation)


TINY = 1 - 1e-12


def held(labels: object, mechanism: Mechanism, seed: int = 0) -> Release:
    """Labels as a curator releases them."""
    budget = ldp.Budget(epsilon=mechanism.epsilon)
    return ldp.Curator(labels, domain=mechanism.domain, budget=budget).release(
        mechanism, rng=np.random.default_rng(seed)
    )


def noisy_numbers(labels: object, epsilon: float = 1.0, seed: int = 0, grid: int = 65) -> Release:
    return held(labels, ldp.DiscreteLaplace(domain=ldp.Interval(-2, 6, grid), epsilon=epsilon), seed)


@pytest.mark.guarantee("labeldp.inference:DebiasedErrors", "unbiased")
@pytest.mark.parametrize("grid", [2, 3, 17])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_over_the_noise_the_mean_is_the_error_on_the_true_labels_also_at_the_ends(grid: int, epsilon: float) -> None:
    mechanism = ldp.DiscreteLaplace(domain=ldp.Interval(-2, 6, grid), epsilon=epsilon)
    codes, points = np.arange(grid), mechanism.domain.decode(np.arange(grid))
    for center in (-2.0, 0.3, 9.0):
        estimates = mechanism.unbiased_squares(codes, np.full(grid, center))
        np.testing.assert_allclose(mechanism.matrix() @ estimates, (points - center) ** 2, rtol=1e-9, atol=1e-9)
        inverse = np.linalg.inv(mechanism.matrix())
        np.testing.assert_allclose(inverse @ (points - center) ** 2, estimates, rtol=1e-6, atol=1e-6)


def test_the_squared_error_by_hand() -> None:
    # Two grid points at epsilon = ln 3: a = 1/3, so an end moves by half of what the square grows by inwards.
    mechanism = ldp.DiscreteLaplace(domain=ldp.Interval(0, 1, 2), epsilon=float(np.log(3)))
    release = held([0, 1], mechanism)
    release.value[:] = [0, 1]
    found = of_numbers(release, [0.0, 0.5]).squared_error()
    assert found.value == pytest.approx((0 - 0.5 * (1 - 0) + 0.25 - 0.5 * (0.25 - 0.25)) / 2)


def test_intervals_of_errors_cover_and_are_not_wider_than_they_need() -> None:
    rng = np.random.default_rng(5)
    labels = np.clip(rng.normal(2, 2, 800), -2, 6)
    predictions = labels + rng.normal(0, 0.5, 800)
    truth = np.mean((np.rint(labels * 8) / 8 - predictions) ** 2)  # the grid has a step of 1/8
    found = [of_numbers(noisy_numbers(labels, 2.0, seed), predictions).squared_error() for seed in range(400)]
    inside = np.mean([each.low <= truth <= each.high for each in found])
    assert 0.91 <= inside <= 0.985  # 400 runs at 0.95
    values = np.array([each.value for each in found])
    assert abs(values.mean() - truth) < 7 * values.std() / 20


def test_what_a_model_gains_over_a_constant_is_known_far_better_than_its_error() -> None:
    rng = np.random.default_rng(6)
    signal = rng.uniform(0, 4, 4000)
    labels = signal + rng.uniform(-1, 1, 4000)
    seen = evaluate(noisy_numbers(labels, 1.0), signal, "signal", np.arange(4000))
    assert isinstance(seen, DebiasedErrors)
    wide = replace(seen, level=TINY)
    gain, error = wide.gain(), wide.squared_error()
    assert gain.low < signal.var() < gain.high and gain.high - gain.low < 0.4 * (error.high - error.low)
    assert seen.gain().low > 0
    root, square = seen.error(), seen.squared_error()
    assert root.high == pytest.approx(square.high**0.5) and root.low == pytest.approx(max(square.low, 0) ** 0.5)
    assert "root mean squared error" in str(seen) and "4,000 released labels" in str(seen)


def test_the_mean_that_is_always_answered_is_learned_from_other_labels() -> None:
    """A mean that knew its own labels would look better than it is."""
    found = []
    for seed in range(300):
        labels = np.random.default_rng(1000 + seed).uniform(-2, 6, 20)
        release = noisy_numbers(labels, 8.0, seed)
        seen = of_numbers(release, labels)
        half = np.unique(seen.constant())
        assert len(half) == 2
        found.append(seen.gain().value - np.mean((labels - seen.constant()) ** 2))
    assert abs(np.mean(found)) < 7 * np.std(found) / 300**0.5 < 0.7


def test_the_explained_share_covers_and_is_unknown_where_nothing_is_known() -> None:
    rng, inside = np.random.default_rng(7), []
    signal = rng.uniform(-1, 4, 3000)
    labels = signal + rng.uniform(-1, 1, 3000)
    truth = 1 - np.mean((labels - signal) ** 2) / labels.var()
    for seed in range(100):
        found = of_numbers(noisy_numbers(labels, 3.0, seed), signal).explained()
        assert found.low <= found.value <= found.high <= 1
        inside.append(found.low <= truth <= found.high)
    assert np.mean(inside) >= 0.85
    dark = of_numbers(noisy_numbers(labels[:30], 0.1), signal[:30]).explained()
    assert dark.low == -np.inf and dark.high == 1.0
    assert share_of(np.full(50, 0.5), np.ones(50), 0.95) == (0.5, pytest.approx(0.5), pytest.approx(0.5))


def test_residuals_are_unbiased() -> None:
    labels = np.random.default_rng(8).uniform(-2, 6, 6000)
    seen = of_numbers(noisy_numbers(labels, 2.0), np.zeros(6000))
    assert seen.residuals().mean() == pytest.approx(labels.mean(), abs=7 * 6 / 6000**0.5)


def test_numbers_get_numbers_and_classes_get_classes() -> None:
    numbers, classes = evaluation_mechanism(ldp.Interval(0, 1), 1.0), evaluation_mechanism(ldp.Classes(3), 1.0)
    assert isinstance(numbers, ldp.DiscreteLaplace) and isinstance(classes, ldp.RandomizedResponse)
    seen = evaluate(held([0.5, 0.2], numbers), np.array([-3.0, 0.5]), "", np.arange(2))
    assert isinstance(seen, DebiasedErrors) and seen.predictions.tolist() == [0.0, 0.5]
    assert isinstance(evaluate(held([0, 2], classes), np.eye(3)[:2], "", np.arange(2)), Scores)


@pytest.mark.parametrize("errors", ["labels", "summed"])
def test_a_linear_model_is_evaluated_on_records_that_it_was_not_learned_from(errors: Any) -> None:
    rng = np.random.default_rng(11)
    features = rng.normal(size=(4000, 5))
    labels = np.clip(5 + features @ [1.0, -0.5, 0.3, 0.0, 0.2] + 0.3 * rng.normal(size=4000), 0, 10)
    holder = ldp.Curator(labels, domain=ldp.Interval(0, 10), budget=ldp.Budget(epsilon=4, delta=1e-6))
    given: Any = {"epsilon": 4, "delta": 1e-6, "rng": rng, "evaluation": 0.25, "errors": errors}
    model = ldp.fit_linear(features, holder, **given).value
    seen = model.evaluation
    assert isinstance(seen, SummedErrors if errors == "summed" else DebiasedErrors)
    assert seen.rows is not None and 900 < len(seen.rows) < 1100
    np.testing.assert_allclose(model.predict(features)[seen.rows], seen.predictions, atol=1e-3)
    truth = float(np.mean((labels[seen.rows] - seen.predictions) ** 2))
    found = replace(seen, level=TINY).squared_error()
    assert found.low < truth < found.high and seen.gain().low > 0
    assert total_loss(holder.ledger.charges).epsilon(1e-6) <= 4


def bits(labels: np.ndarray, classes: int, epsilon: float, seed: int) -> Release:
    return held(labels, ldp.UnaryEncoding(domain=ldp.Classes(classes), epsilon=epsilon), seed)


def test_scores_from_bits_are_unbiased_and_their_intervals_cover() -> None:
    rng = np.random.default_rng(9)
    labels = rng.integers(0, 4, 500)
    predictions = np.where(rng.random(500) < 0.7, labels, rng.integers(0, 4, 500))
    rows = np.full((500, 4), 0.1) + 0.6 * np.eye(4)[predictions]
    runs = [bits(labels, 4, 2.0, seed) for seed in range(300)]
    truth = {
        Scores.accuracy: np.mean(labels == predictions),
        Scores.log_loss: -np.log(rows[np.arange(500), labels]).mean(),
    }
    for score, right in truth.items():
        found = [score(of_rows(run, rows)) for run in runs]
        assert np.mean([each.low <= right <= each.high for each in found]) >= 0.89
        values = np.array([each.value for each in found])
        assert abs(values.mean() - right) < 7 * values.std() / 300**0.5
    table = np.zeros((4, 4))
    np.add.at(table, (labels, predictions), 1 / 500)
    confusions = np.array([of_codes(run, predictions).confusion().value for run in runs])
    assert np.all(abs(confusions.mean(axis=0) - table) < 7 * confusions.std(axis=0) / 300**0.5)


def test_the_area_from_bits_is_unbiased() -> None:
    rng = np.random.default_rng(10)
    labels = rng.integers(0, 2, 800)
    scores = labels + rng.normal(size=800)
    order = np.subtract.outer(scores[labels == 1], scores[labels == 0])
    values = np.array([of_scores(bits(labels, 2, 2.0, seed), scores).auc().value for seed in range(200)])
    assert abs(values.mean() - (order > 0).mean()) < 7 * values.std() / 200**0.5 + 0.002


def test_bad_input_is_refused_of_errors() -> None:
    release = noisy_numbers([1.0, 2.0])
    with pytest.raises(InputError, match="one finite number"):
        of_numbers(release, [1.0, np.nan])
    with pytest.raises(InputError, match="one finite number"):
        of_numbers(release, [1.0])
    with pytest.raises(InputError, match=r"Curator\.release"):
        of_numbers(np.ones(2), [1.0, 2.0])
    classes = held([0, 1], ldp.RandomizedResponse(domain=ldp.Classes(2), epsilon=1))
    with pytest.raises(NotInvertibleError, match="unbiased squared errors"):
        of_numbers(classes, [1.0, 2.0])


def test_a_difference_of_accuracies_covers_and_is_known_better_than_both() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 2000)
    good = np.where(rng.random(2000) < 0.8, labels, 0)
    better = np.where(rng.random(2000) < 0.1, labels, good)
    truth = float(np.mean(better == labels) - np.mean(good == labels))
    found = [of_codes(release, better).compare(good) for release in noises(labels, 3, 1.0, 200)]
    values = np.array([each.value for each in found])
    assert abs(values.mean() - truth) < 5 * values.std() / 200**0.5
    assert sum(each.low <= truth <= each.high for each in found) >= 180
    alone = debiased_accuracy(next(iter(noises(labels, 3, 1.0, 1))), better)
    assert found[0].high - found[0].low < (alone.high - alone.low) / 2
    assert of_codes(next(iter(noises(labels, 3, 1.0, 1))), good).compare(good).value == 0


SUMMED = ldp.Interval(0, 100, grid=1025)


def summed(labels: Any, predictions: Any, epsilon: float, seed: int) -> Any:
    """The errors of predictions, summed by a trusted curator."""
    curator = ldp.Curator(labels, domain=SUMMED, budget=ldp.Budget(epsilon))
    blank = ldp.Curator(np.zeros(1), domain=SUMMED, budget=ldp.Budget(1))
    known = blank.release(ldp.DiscreteLaplace(domain=SUMMED, epsilon=1), rng=np.random.default_rng(0))
    given = known.map(lambda _: predictions)
    rows = np.arange(len(labels))
    rng = np.random.default_rng(seed)
    found = release_errors(curator, given, epsilon=epsilon, about="a test", rows=rows, rng=rng)
    assert curator.ledger.spent.epsilon() == pytest.approx(epsilon, rel=1e-12)
    assert curator.ledger.spent.epsilon() <= epsilon
    return found


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_intervals_of_summed_errors_hold_the_error_and_are_narrower_than_by_labels(epsilon: float) -> None:
    """Three-quarters of epsilon go to the model's errors, a quarter to those of the mean."""
    assert error_shares(4.0) == {"errors": 3.0, "errors of the mean": 1.0}
    held, narrower = 0, 0
    for seed in range(40):
        rng = np.random.default_rng([seed, 1])
        labels = np.clip(rng.normal(50, 20, 400), 0, 100)
        predictions = np.clip(labels + rng.normal(0, 10, 400), 0, 100)
        found = summed(labels, predictions, epsilon, seed)
        error = found.error()
        held += error.low <= np.sqrt(100) <= error.high
        curator = ldp.Curator(labels, domain=SUMMED, budget=ldp.Budget(epsilon))
        release = curator.release(ldp.DiscreteLaplace(domain=SUMMED, epsilon=epsilon), rng=rng)
        narrower += error.high < of_numbers(release, predictions).error().high
        assert found.gain().low <= 300 <= found.gain().high or seed
        assert found.explained().high <= 1
    assert held >= 36 and narrower >= (36 if epsilon < 1 else 20)


def test_an_evaluation_by_sums_says_nothing_of_records() -> None:
    labels = np.random.default_rng(0).uniform(0, 100, 300)
    found = summed(labels, np.full(300, 50.0), 2.0, 0)
    assert str(found).startswith("estimated root mean squared error") and "over 300 records" in str(found)
    assert "array" not in repr(found) and found.constant == pytest.approx(50, abs=0.1)
    none = summed(labels[:2], np.array([1.0, 99.0]), 0.1, 0)
    assert not np.isfinite(none.explained().low) and none.error().high > 100


def test_an_estimate_prints_a_value_within_its_interval() -> None:
    estimate = Estimate(quantity="accuracy", value=1.067, low=0.91, high=1.0)
    assert str(estimate).startswith("accuracy 1, 95 % interval 0.91 to 1 ")

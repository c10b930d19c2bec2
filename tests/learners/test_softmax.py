"""Linear heads of released labels and of sums: what they learn, and how they correct other classifiers."""

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import FunctionTransformer

import labeldp as ldp
from labeldp.features import CenteredColumns, ImageMap, TableMap, default_representation
from labeldp.learners import (
    Evidence,
    LinearHead,
    SoftmaxClassifier,
    fit_linear_head,
    label_head,
    log_scores,
)
from labeldp.learners.softmax import DECAY, EMBEDDING_DECAY, OFFSET, RIDGE, Plane
from labeldp.mechanisms import LocalHashing, RandomizedResponseWithPrior
from labeldp.privacy import BudgetExceeded, InputError, Public
from learners.data import blobs

SIMULATED = np.random.default_rng
AS_THEY_ARE = FunctionTransformer()
FEATURES, LABELS = blobs(3000, 6, distance=4.0)
DOMAIN = ldp.Classes(6)


def holder(epsilon: float = 100.0, labels: Any = LABELS) -> ldp.Curator:
    return ldp.Curator(labels, domain=DOMAIN, budget=ldp.Budget(epsilon=epsilon, delta=1e-6))


def released(epsilon: float, seed: int = 0) -> Evidence:
    return Evidence.of(
        holder().release(LocalHashing(domain=DOMAIN, epsilon=epsilon, seed="0" * 32), rng=SIMULATED(seed))
    )


def plain_head(evidence: Evidence, ridge: float = RIDGE, **arguments: Any) -> LinearHead:
    with patch("labeldp.learners.softmax.RIDGE", ridge):
        return label_head(FEATURES, evidence, representation=AS_THEY_ARE, **arguments)


def sums_head(epsilon: float = 1.0) -> LinearHead:
    return fit_linear_head(
        FEATURES, holder(epsilon), epsilon=epsilon, delta=1e-6, rng=SIMULATED(0), representation=AS_THEY_ARE
    ).value


class Same(ClassifierMixin, BaseEstimator):
    """A classifier that tells nothing."""

    classes_ = np.arange(6)

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.full((len(X), 6), 1 / 6)


def test_true_labels_are_learned_up_to_the_prior() -> None:
    head = plain_head(Evidence(LABELS, np.eye(6)[LABELS], None), ridge=0.5)
    rows, shares = head.posterior.rows, head.space.variances**DECAY
    gap = rows.T @ (softmax(rows @ head.weights, axis=1) - np.eye(6)[LABELS])
    precision = 0.5 / np.concatenate([[OFFSET], shares / shares.sum()])
    assert np.allclose(gap, -precision[:, None] * head.weights, atol=0.3)  # of sums of 3,000 entries
    assert np.allclose(head.probabilities(), head.classifier.predict_proba(FEATURES), atol=1e-5)


@pytest.mark.parametrize(("representation", "decay"), [(AS_THEY_ARE, DECAY), (CenteredColumns(), EMBEDDING_DECAY)])
def test_embeddings_expect_more_signal_in_wide_directions(representation: Any, decay: float) -> None:
    plane = Plane.of(FEATURES, len(FEATURES), representation, 6)
    shares = plane.space.variances**decay
    assert np.allclose(plane.signal, [OFFSET, *shares / shares.sum()]) and np.ptp(shares) > 0


@pytest.mark.parametrize("ridge", [0.01, 1.0, 10.0])
def test_probabilities_are_calibrated_whatever_the_prior_shrinks(ridge: float) -> None:
    found = plain_head(released(1.0), ridge=ridge).classifier
    chances = found.predict_proba(FEATURES)
    loss = [
        -np.log(softmax(np.log(chances) * factor, axis=1)[np.arange(3000), LABELS]).mean() for factor in (1, 0.7, 1.5)
    ]
    assert loss[0] < min(loss[1:]) + 0.01
    assert found.confidence > (1.2 if ridge == 10 else 0.5)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_sets_of_classes_are_learned_from(epsilon: float) -> None:
    head = plain_head(released(epsilon))
    most = np.mean(plain_head(Evidence(LABELS, np.eye(6)[LABELS], None)).classifier.predict(FEATURES) == LABELS)
    assert np.mean(head.classifier.predict(FEATURES) == LABELS) > most - {0.5: 0.1, 1.0: 0.05, 3.0: 0.02}[epsilon]


def test_a_prior_of_each_record_counts() -> None:
    evidence = released(0.1)
    prior = np.full((3000, 6), 0.02)
    prior[np.arange(3000), LABELS] = 0.9
    alone, helped = plain_head(evidence), plain_head(evidence, prior=prior)
    accuracy = [np.mean(each.classifier.predict(FEATURES) == LABELS) for each in (alone, helped)]
    assert accuracy[1] > accuracy[0] + 0.05


def corrected(head: LinearHead, base: Any, ridge: float) -> np.ndarray:
    """The probabilities of a classifier whose scores got the head's correction added."""
    probabilities = base.predict_proba(FEATURES)
    term = head.correction(probabilities, ridge=ridge)
    return np.asarray(softmax(log_scores(probabilities) + term.scores(term.mapped(FEATURES)), axis=1))


@pytest.mark.parametrize("head", [plain_head(released(1.0)), sums_head()], ids=["labels", "sums"])
def test_correcting_what_tells_nothing_is_the_head_itself(head: LinearHead) -> None:
    found = corrected(head, Same(), 1)
    assert np.abs(found - head.classifier.predict_proba(FEATURES)).max() < 0.03


@pytest.mark.parametrize("head", [plain_head(released(1.0)), sums_head()], ids=["labels", "sums"])
def test_corrections_are_better_than_what_they_correct(head: LinearHead) -> None:
    class Bent(Same):
        """A classifier whose scores have a linear error."""

        def predict_proba(self, X: Any) -> np.ndarray:
            error = X[:, :6] @ np.eye(6)[: X.shape[1]][:, [1, 0, 3, 2, 5, 4]] * 1.5
            return softmax(np.log(head.classifier.predict_proba(X) + 1e-3) + error, axis=1)

    before = np.mean(Bent().predict_proba(FEATURES).argmax(axis=1) == LABELS)
    assert np.mean(corrected(head, Bent(), 1).argmax(axis=1) == LABELS) > before + 0.1


def test_a_large_ridge_leaves_a_classifier_as_it_is() -> None:
    base = sums_head().classifier
    found = corrected(plain_head(released(1.0)), base, 1e9)
    assert np.abs(found - base.predict_proba(FEATURES)).max() < 0.002


def test_a_head_of_sums_is_the_model_of_fit_linear() -> None:
    charged = holder(1.0)
    arguments: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "representation": AS_THEY_ARE}
    head = fit_linear_head(FEATURES, charged, rng=SIMULATED(3), **arguments)
    model = ldp.fit_linear(FEATURES, holder(1.0), rng=SIMULATED(3), **arguments)
    assert np.array_equal(head.value.classifier.coefficients, model.value.estimator.coefficients)
    assert head.certificate.entries[0].loss == model.certificate.entries[0].loss
    with pytest.raises(BudgetExceeded):
        fit_linear_head(FEATURES, charged, rng=SIMULATED(3), **arguments)


@pytest.mark.guarantee("labeldp.learners:fit_linear_head", "approximate")
def test_corrections_stay_within_the_guarantee() -> None:
    curator = holder(1.0)
    head = fit_linear_head(FEATURES, curator, epsilon=1, delta=1e-6, rng=SIMULATED(0), representation=AS_THEY_ARE)
    added = head.map(lambda found: found.correction(Same().predict_proba(FEATURES), ridge=1))
    assert added.certificate.entries == head.certificate.entries
    assert added.certificate.epsilon(1e-6) <= 1


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("response", ["best", "randomized-response"])
def test_multistage_takes_it(stages: int, response: Any) -> None:
    release = ldp.fit_multistage(
        FEATURES,
        holder(1.0),
        classifier=SoftmaxClassifier(AS_THEY_ARE),
        epsilon=1.0,
        stages=stages,
        response=response,
        rng=SIMULATED(0),
    )
    kinds = {entry.mechanism["mechanism"] for entry in release.certificate.entries}
    assert ("LocalHashing" in kinds) == (response == "best")
    assert (RandomizedResponseWithPrior.__name__ in kinds) == (stages == 2)
    assert release.value.evaluation is not None
    assert np.mean(release.value.predict(FEATURES) == LABELS) > 0.75


def test_a_prior_of_the_first_stage_is_used() -> None:
    rows = np.full((3000, 6), 0.02)
    rows[np.arange(3000), LABELS] = 0.9
    arguments: dict[str, Any] = {"classifier": SoftmaxClassifier(AS_THEY_ARE), "epsilon": 0.1, "stages": 1}
    accuracy = []
    for prior in (None, Public(rows, why="made up")):
        model = ldp.fit_multistage(FEATURES, holder(0.1), prior=prior, rng=SIMULATED(0), **arguments).value
        accuracy.append(np.mean(model.predict(FEATURES) == LABELS))
    assert accuracy[1] > accuracy[0]


def test_names_are_predicted() -> None:
    names = np.array(["a", "b", "c", "d", "e", "f"])[LABELS]
    assert np.mean(SoftmaxClassifier(AS_THEY_ARE).fit(FEATURES, names).predict(FEATURES) == names) > 0.75


def test_the_fitted_classifier_keeps_no_records() -> None:
    fitted = SoftmaxClassifier(AS_THEY_ARE).fit_released(FEATURES, released(1.0))
    arrays = [each for part in (fitted, fitted.head_) for each in vars(part).values() if isinstance(each, np.ndarray)]
    assert all(len(each) <= FEATURES.shape[1] + 6 for each in arrays)


def test_maps_of_images_and_tables() -> None:
    gray, color = default_representation(np.zeros((6, 16, 16))), default_representation(np.zeros((6, 12, 12, 3)))
    assert isinstance(gray, ImageMap) and isinstance(color, ImageMap)
    assert (gray.side, gray.channels, color.side, color.channels) == (16, 1, 12, 3)
    assert isinstance(default_representation(FEATURES), TableMap)


def test_images_are_learned_from() -> None:
    labels = np.arange(600) % 2
    images = SIMULATED(0).integers(0, 30, (600, 12, 12)).astype(np.uint8)
    images[labels == 1, 2:10, 6] = 255
    images[labels == 0, 6, 2:10] = 255
    curator = ldp.Curator(labels, domain=ldp.Classes(2), budget=ldp.Budget(epsilon=2.0))
    model = ldp.fit_multistage(
        images, curator, classifier=SoftmaxClassifier(ImageMap(side=12, filters=20)), epsilon=2, stages=1,
        rng=SIMULATED(0),
    ).value  # fmt: skip
    assert np.mean(model.predict(images) == labels) > 0.95


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"representation": "patches"}, "representation must be 'imagenet' or 'text', or a scikit-learn transformer"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_charged(arguments: Any, problem: str) -> None:
    curator = holder(1.0)
    with pytest.raises(InputError, match=problem):
        ldp.fit_multistage(
            FEATURES, curator, classifier=SoftmaxClassifier(**arguments), epsilon=1, stages=1, rng=SIMULATED(0)
        )
    assert not curator.ledger.charges


def test_features_that_tell_nothing_are_refused_before_anything_is_charged() -> None:
    curator = holder(1.0)
    with pytest.raises(InputError, match="features must not be constant"):
        ldp.fit_multistage(
            np.ones((3000, 4)), curator, classifier=SoftmaxClassifier(AS_THEY_ARE), epsilon=1, stages=1,
            rng=SIMULATED(0),
        )  # fmt: skip
    assert not curator.ledger.charges


def test_numbers_have_no_head() -> None:
    curator = ldp.Curator(np.zeros(10), domain=ldp.Interval(0, 1), budget=ldp.Budget(epsilon=1.0))
    with pytest.raises(InputError, match="curator must hold classes"):
        fit_linear_head(np.eye(10), curator, epsilon=1, rng=SIMULATED(0))


def test_rows_and_labels_must_be_as_many() -> None:
    with pytest.raises(InputError, match="one row for each record"):
        label_head(FEATURES[:-1], released(1.0))


def test_the_start_is_near() -> None:
    """Least squares, scaled, already answers nearly as the end does."""
    from labeldp.learners.softmax import _start

    head = plain_head(released(2.0))
    known = released(2.0).likelihood
    known = (known / known.sum(axis=1, keepdims=True)).astype(np.float32)
    start = _start(head.posterior.rows, known, 1 / head.posterior.precision)
    first, last = (softmax(head.posterior.rows @ each, axis=1).argmax(axis=1) for each in (start, head.weights))
    assert np.mean(first == last) > 0.9

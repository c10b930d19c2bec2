"""Answers that were randomized elsewhere."""

import numpy as np
import pytest

import labeldp as ldp
from inference.simulated import SURE, held
from labeldp import inference
from labeldp.inference import designs
from labeldp.privacy import InputError, NotInvertibleError, RandomnessKind


@pytest.mark.parametrize(
    ("design", "epsilon"),
    [
        (designs.warner(0.7), 0.847),
        (designs.forced(0.75, 0.5), 1.946),
        (designs.unrelated(0.7, 0.3), 2.172),
        (designs.crosswise(0.2), 1.386),
        (designs.matrix([[1.0, 0.0], [0.3, 0.7]]), np.inf),
    ],
)
def test_designs_lose_what_their_matrix_says_and_shares_are_held(design: designs.Design, epsilon: float) -> None:
    assert design.epsilon == pytest.approx(epsilon, abs=5e-4)
    rng = np.random.default_rng(0)
    labels = (rng.random(40_000) < 0.2).astype(int)
    given = (rng.random(40_000) < design.matrix[labels, 1]).astype(int)
    release = inference.answers(np.where(given, "yes", "no"), design)
    estimate = inference.mean(release, outcome="yes", level=SURE)
    assert held(estimate, 0.2) and estimate.guarantee == "exact" and estimate.high - estimate.low < 0.12
    assert release.certificate.randomness is RandomnessKind.DECLARED
    assert "noise as declared" in release.certificate.at(0)
    assert any("the noise was drawn elsewhere" in text for text in estimate.assumptions)
    promised = release.certificate.epsilon(0)
    assert promised == np.inf if np.isinf(epsilon) else promised >= design.epsilon


def test_each_record_may_have_a_matrix_of_its_own() -> None:
    rng = np.random.default_rng(1)
    labels = (rng.random(40_000) < 0.1).astype(int)
    truth = np.where(rng.random(40_000) < 0.5, 0.9, 0.6)
    chances = np.stack([np.stack([truth, 1 - truth], 1), np.stack([1 - truth, truth], 1)], 1)
    given = labels ^ (rng.random(40_000) >= truth)
    release = inference.answers(given, designs.matrix(chances), ldp.Classes(2))
    estimate = inference.mean(release, outcome=1, level=SURE)
    alone = inference.mean(inference.answers(given[truth == 0.9], designs.warner(0.9), ldp.Classes(2)), outcome=1)
    assert held(estimate, 0.1) and estimate.stderr < alone.stderr
    with pytest.raises(InputError, match="cannot be exact"):
        inference.mean(release, method="exact")


def test_three_classes_by_any_matrix() -> None:
    rng = np.random.default_rng(2)
    table = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
    labels = rng.choice(3, 50_000, p=[0.5, 0.3, 0.2])
    given = (rng.random((50_000, 1)) > table[labels].cumsum(axis=1)[:, :2]).sum(axis=1)
    estimate = inference.mean(inference.answers(given, designs.matrix(table), ldp.Classes(3)), level=SURE)
    assert held(estimate, np.array([0.5, 0.3, 0.2])) and estimate.guarantee == "asymptotic"


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: designs.warner(0.5), NotInvertibleError, "matrix has no inverse"),
        (lambda: designs.warner(1.2), InputError, "truth must lie between 0 and 1"),
        (lambda: designs.matrix([[0.5, 0.6], [0.5, 0.5]]), InputError, "rows that sum to 1"),
        (lambda: designs.matrix([0.5, 0.5]), InputError, r"P\(answer \| class\)"),
        (lambda: inference.answers(["maybe"], designs.warner(0.7)), InputError, "Classes"),
        (
            lambda: inference.answers([0], designs.warner(0.7), ldp.Classes(3)),
            InputError,
            "the 2 classes of the design",
        ),
    ],
)
def test_bad_designs(make, error, sentence) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=sentence):
        make()

import numpy as np
import pytest

import labeldp as ldp
from labeldp.learners.evidence import Evidence, inverse_table
from labeldp.privacy import InputError, NotInvertibleError
from learners.data import released, with_prior

LN3 = 1.0986122886681098


def test_the_likelihood_of_randomized_response_by_hand() -> None:
    evidence = Evidence.made_by(ldp.RandomizedResponse(domain=ldp.Classes(2), epsilon=LN3), np.array([1, 0]))
    np.testing.assert_allclose(evidence.likelihood, [[0.25, 0.75], [0.75, 0.25]])
    np.testing.assert_allclose(evidence.matrix, [[0.75, 0.25], [0.25, 0.75]])


def test_the_likelihood_within_candidate_sets_is_the_mechanisms_matrix() -> None:
    prior = np.array([[0.9, 0.05, 0.05], [0.45, 0.45, 0.1], [0.34, 0.33, 0.33], [0.0, 0.0, 1.0]])
    release = with_prior(np.array([0, 1, 2, 2]), prior, epsilon=0.8)
    evidence = Evidence.of(release)
    matrices = release.mechanism.matrix()
    expected = np.array([matrices[i, :, z] for i, z in enumerate(release.value)])
    np.testing.assert_allclose(evidence.likelihood, expected, atol=1e-12)
    assert evidence.matrix is None


def test_the_likelihood_of_one_candidate_set_for_all() -> None:
    mechanism = ldp.RandomizedResponseTopK(
        domain=ldp.Classes(3), epsilon=1.0, prior=ldp.Public(np.array([0.5, 0.3, 0.2]), why="a test"), k=2
    )
    evidence = Evidence.made_by(mechanism, np.array([0, 1]))
    np.testing.assert_allclose(evidence.likelihood, mechanism.matrix()[:, [0, 1]].T)


def test_the_posterior_by_hand() -> None:
    evidence = Evidence(np.array([1]), np.array([[0.25, 0.75]]), None)
    np.testing.assert_allclose(evidence.posterior([[0.5, 0.5]]), [[0.25, 0.75]])
    np.testing.assert_allclose(evidence.posterior([[0.9, 0.1]]), [[0.75, 0.25]])


def test_the_score_is_the_log_likelihood() -> None:
    evidence = Evidence(np.array([1]), np.array([[0.25, 0.75]]), None)
    assert evidence.score([[0.5, 0.5]]) == pytest.approx(np.log(0.5))


def test_the_class_prior_is_recovered() -> None:
    labels = np.repeat([0, 1, 2], [6000, 3000, 1000])
    evidence = Evidence.of(released(labels, 3, epsilon=2.0))
    np.testing.assert_allclose(evidence.class_prior(), [0.6, 0.3, 0.1], atol=0.03)


def test_joined_evidence_keeps_a_matrix_that_all_records_share() -> None:
    first = Evidence.of(released([0, 1, 1], epsilon=1.0))
    other = Evidence.of(released([0, 1], epsilon=2.0))
    assert first.joined(first).matrix is not None
    assert first.joined(other).matrix is None
    assert len(first.joined(other)) == 5


def test_an_inverse_is_refused_where_there_is_none() -> None:
    release = with_prior(np.array([0, 1]), np.array([[1.0, 0.0], [0.5, 0.5]]))
    with pytest.raises(NotInvertibleError):
        inverse_table(release.mechanism)


def test_unary_bits_are_refused() -> None:
    mechanism = ldp.UnaryEncoding(domain=ldp.Classes(3), epsilon=1.0)
    with pytest.raises(InputError, match="one class"):
        Evidence.made_by(mechanism, np.array([0, 1]))


def test_a_value_that_is_not_a_mechanisms_output_is_refused() -> None:
    with pytest.raises(InputError, match=r"Curator\.release"):
        Evidence.of(released([0, 1]).map(lambda codes: codes))

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.dummy import DummyClassifier

import labeldp as ldp
from labeldp.learners import Evidence
from labeldp.learners.evidence import expanded, inverse_table, normalized, tempered, unmixed
from labeldp.mechanisms import FiniteMechanism, LocalHashing, SubsetSelection
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
    mechanism = ldp.mechanisms.RandomizedResponseTopK(
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


def test_what_does_not_answer_records_about_their_classes_is_refused() -> None:
    noise = ldp.DiscreteLaplace(domain=ldp.Interval(0, 1), epsilon=1.0)
    with pytest.raises(InputError, match="a class, a set of classes or a bit"):
        Evidence.made_by(noise, np.array([0, 1]))
    with pytest.raises(InputError, match="packed bits"):
        Evidence.made_by(ldp.UnaryEncoding(domain=ldp.Classes(3), epsilon=1.0), np.array([0, 1]))


SETS: dict[str, FiniteMechanism] = {
    "unary": ldp.UnaryEncoding(domain=ldp.Classes(4), epsilon=2.0),
    "partition": LocalHashing(domain=ldp.Classes(4), epsilon=2.0, groups=2, seed=bytes(16)),
    "subset": SubsetSelection(domain=ldp.Classes(4), epsilon=2.0, size=2),
}


@pytest.mark.parametrize("mechanism", SETS.values(), ids=SETS)
def test_sets_and_bits_say_as_much_as_their_exact_laws(mechanism: Any) -> None:
    """By brute force over all answers: the likelihood ratio of any two classes is that of the law."""
    rng, count = np.random.default_rng(0), 40_000
    found = np.array([mechanism.randomize(np.full(count, label), rng=rng) for label in range(4)])
    named = mechanism.named(found.reshape(-1, 1)).reshape(4, count, 4)
    evidence = Evidence.made_by(mechanism, found[0])
    assert evidence.codes is None and len(evidence) == count
    # How often each class is named, as a share of all that is named: what training on the named classes learns.
    shares = np.stack([named[label].sum(axis=0) / named[label].sum() for label in range(4)])
    assert evidence.matrix == pytest.approx(shares, abs=0.01)
    for one, other in ((0, 1), (2, 3)):
        rates = [
            [float((named[label][:, one] & ~named[label][:, other]).mean()) for label in (one, other)],
            [float((named[label][:, other] & ~named[label][:, one]).mean()) for label in (one, other)],
        ]
        assert rates[0][0] / rates[0][1] == pytest.approx(np.exp(2), rel=0.1)
        assert rates[1][1] / rates[1][0] == pytest.approx(np.exp(2), rel=0.1)
    alone = named[0][:, 0] & ~named[0][:, 1]
    np.testing.assert_allclose(evidence.likelihood[alone, 0] / evidence.likelihood[alone, 1], np.exp(2), rtol=1e-6)


@pytest.mark.parametrize("mechanism", SETS.values(), ids=SETS)
def test_the_class_shares_behind_sets_are_found(mechanism: Any) -> None:
    labels = np.repeat([0, 1, 1, 3], 10_000)
    evidence = Evidence.made_by(mechanism, mechanism.randomize(labels, rng=np.random.default_rng(0)))
    assert evidence.class_prior() == pytest.approx([0.25, 0.5, 0, 0.25], abs=0.03)
    indicators = evidence.unbiased()
    assert indicators is not None
    assert indicators.mean(axis=0) == pytest.approx([0.25, 0.5, 0, 0.25], abs=0.05)


def test_sets_are_taken_joined_and_refused_for_true() -> None:
    mechanism = SETS["partition"]
    evidence = Evidence.made_by(mechanism, mechanism.randomize(np.arange(40) % 4, rng=np.random.default_rng(0)))
    both = evidence.take(slice(0, 10)).joined(evidence.take(slice(10, None)))
    for part in ("likelihood", "indicators"):
        np.testing.assert_array_equal(getattr(both, part), getattr(evidence, part))
    mixed = evidence.joined(
        Evidence.made_by(ldp.RandomizedResponse(domain=ldp.Classes(4), epsilon=1.0), np.array([0, 1]))
    )
    assert mixed.codes is None and mixed.unbiased() is None and len(mixed) == 42
    for one in range(4):
        asked = np.full(42, one)
        assert (mixed.names(asked)[:40] == evidence.names(asked[:40])).all()
        assert mixed.names(asked)[40:].tolist() == [one == 0, one == 1]
    with pytest.raises(InputError, match='training="plain" takes one released class'):
        evidence.codes_for('training="plain"')


def test_a_value_that_is_not_a_mechanisms_output_is_refused() -> None:
    with pytest.raises(InputError, match=r"Curator\.release"):
        Evidence.of(released([0, 1]).map(lambda codes: codes))


def test_rows_without_mass_become_uniform() -> None:
    np.testing.assert_allclose(normalized([[1, 3], [0, 0]]), [[0.25, 0.75], [0.5, 0.5]])


def test_a_floor_raises_small_entries() -> None:
    np.testing.assert_allclose(normalized([[-1.0, 1.0]], floor=0.25), [[0.2, 0.8]])


def test_temperature_one_half_squares() -> None:
    np.testing.assert_allclose(tempered([[0.25, 0.75]], 0.5), [[0.1, 0.9]])
    np.testing.assert_allclose(tempered([[0.25, 0.75], [0.0, 1.0]], 1.0), [[0.25, 0.75], [0.0, 1.0]], atol=1e-300)


def test_noise_is_undone() -> None:
    matrix = np.array([[0.75, 0.25], [0.25, 0.75]])
    np.testing.assert_allclose(unmixed([[0.5, 0.5], [0.35, 0.65]], matrix), [[0.5, 0.5], [0.2, 0.8]])


def test_what_noise_cannot_have_made_is_clipped() -> None:
    rows = unmixed([[0.0, 1.0]], np.array([[0.75, 0.25], [0.25, 0.75]]))
    assert 0 < rows[0, 0] < 1e-3


@given(st.lists(st.floats(0.05, 1), min_size=3, max_size=3), st.floats(0.1, 0.9))
def test_unmixing_inverts_every_noise_matrix(masses: list[float], keep: float) -> None:
    truth = np.array([masses]) / sum(masses)
    matrix = np.full((3, 3), (1 - keep) / 2) + (keep - (1 - keep) / 2) * np.eye(3)
    if abs(keep - 1 / 3) > 0.05:
        np.testing.assert_allclose(unmixed(truth @ matrix, matrix), truth, atol=1e-6)


def test_classes_that_never_occurred_get_zero() -> None:
    model = DummyClassifier().fit(np.zeros((4, 1)), [0, 2, 2, 2])
    np.testing.assert_allclose(expanded(model, np.zeros((1, 1)), 4), [[0.25, 0, 0.75, 0]])


@pytest.mark.parametrize("temperature", [0.05, 20.0])
def test_extreme_temperatures_stay_finite(temperature: float) -> None:
    rows = tempered([[1e-300, 1.0 - 1e-300], [0.5, 0.5]], temperature)
    assert np.all(np.isfinite(rows))
    np.testing.assert_allclose(rows.sum(axis=1), 1)

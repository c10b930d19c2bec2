"""Priors become candidate sets, at once; what has seen the labels, or is no distribution, is refused."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.mechanisms import (
    CandidateSets,
    Classes,
    LaplaceHistogram,
    RandomizedResponse,
    RandomizedResponseTopK,
    RandomizedResponseWithPrior,
)
from labeldp.mechanisms.candidates import _best_threshold
from labeldp.privacy import DomainError, InputError, KeyedRandomness, PrivacyLoss, Public
from mechanisms.examples import PRIORS, public

BAD = [
    (np.full((2, 3), 1 / 3), "prior must be a Release or Public"),
    ([[1, 0, 0]], "prior must be a Release or Public"),
    (None, "prior must be a Release or Public"),
    (public([[0.5, 0.5]]), "prior must have one column for each of the 3 classes"),
    (public([[[1, 0, 0]]]), "prior must have one column for each of the 3 classes"),
    (public([[1.1, -0.1, 0]]), "prior must not be negative"),
    (public([[0.5, 0.3, 0.1]]), "prior must sum to 1 in each row"),
    (public([[np.nan, 0.5, 0.5]]), "prior must be finite"),
    (public([[np.inf, 0, 0]]), "prior must be finite"),
    (public([["a", "b", "c"]]), "prior must be an array of numbers"),
    (public([[0, 0, 0]]), "prior must sum to 1 in each row"),
    (Public(CandidateSets(np.array([[0b11100001]], dtype=np.uint8), 3), why="w"), "no bit beyond the last class"),
    (
        Public(CandidateSets(np.array([[0b11100000], [0]], dtype=np.uint8), 3), why="w"),
        "at least one class for each record",
    ),
    (Public(CandidateSets(np.array([[0b11000000]], dtype=np.uint8), 2), why="w"), "prior must hold sets of 3 classes"),
    (Public(CandidateSets(np.array([[224, 0]], dtype=np.uint8), 3), why="w"), "prior must hold sets of 3 classes"),
]


@pytest.mark.parametrize(("prior", "sentence"), BAD, ids=range(len(BAD)))
def test_what_is_no_prior_is_refused(prior: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        RandomizedResponseWithPrior(domain=Classes(3), epsilon=1, prior=prior)


def test_a_bare_prior_is_refused_with_the_reason() -> None:
    with pytest.raises(
        InputError, match="a prior learned from the private labels would destroy the guarantee without a sign"
    ):
        RandomizedResponseTopK(domain=Classes(3), epsilon=1, prior=np.full(3, 1 / 3), k=2)


@pytest.mark.parametrize("k", [0, 4, 1.0, True, None])
def test_k_is_a_number_of_classes(k: Any) -> None:
    with pytest.raises(InputError, match="k must be an integer from 1 to 3"):
        RandomizedResponseTopK(domain=Classes(3), epsilon=1, prior=public(np.full(3, 1 / 3)), k=k)


def test_one_prior_for_all_is_one_row() -> None:
    with pytest.raises(InputError, match="prior must be one row"):
        RandomizedResponseTopK(domain=Classes(3), epsilon=1, prior=public(np.full((2, 3), 1 / 3)), k=1)


@given(st.integers(2, 70), st.integers(0, 10**6))
def test_ties_go_to_the_smaller_class(classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    prior = rng.integers(0, 3, (5, classes)) + (np.arange(classes) == classes - 1)
    prior = prior / prior.sum(axis=1, keepdims=True)
    k = int(rng.integers(1, classes + 1))
    expected = [sorted(np.lexsort((np.arange(classes), -row))[:k]) for row in prior]
    members = CandidateSets.top(prior, k).membership()
    assert [np.flatnonzero(row).tolist() for row in members] == expected


def test_zeros_of_either_sign_are_alike() -> None:
    prior = np.array([[0.0, -0.0, 1.0], [-0.0, 0.0, 1.0]])
    assert CandidateSets.top(prior, 2).membership().tolist() == [[True, False, True]] * 2


def test_the_answer_depends_on_the_prior_only_through_its_sets() -> None:
    mechanisms = [
        RandomizedResponseWithPrior(domain=Classes(3), epsilon=1, prior=public([[a, 0.3, 0.7 - a]] * 50))
        for a in (0.65, 0.66)
    ]
    labels, key = np.zeros(50, dtype=np.uint8), KeyedRandomness(b"k" * 32)
    assert mechanisms[0] == mechanisms[1]
    assert mechanisms[0].specification() == mechanisms[1].specification()
    assert np.array_equal(*(mechanism.randomize(labels, rng=key, ids=np.arange(50)) for mechanism in mechanisms))


def test_a_prior_is_copied() -> None:
    array = np.array([[0.9, 0.05, 0.05]])
    mechanism = RandomizedResponseWithPrior(domain=Classes(3), epsilon=1, prior=public(array))
    before = mechanism.candidates.digest
    array[:] = [[0.05, 0.05, 0.9]]
    assert mechanism.candidates.digest == before
    with pytest.raises(ValueError, match="read-only"):
        mechanism.candidates.packed[0] = 0


def test_labels_have_one_record_for_each_candidate_set() -> None:
    mechanism = RandomizedResponseWithPrior(domain=Classes(3), epsilon=1, prior=PRIORS)
    with pytest.raises(InputError, match="labels must hold 4 records"):
        mechanism.randomize([0, 1], rng=np.random.default_rng(0))
    with pytest.raises(DomainError, match="labels must lie in the declared domain"):
        mechanism.randomize([0, 1, 2, 3], rng=np.random.default_rng(0))


def test_the_cost_is_that_of_the_smallest_set_with_a_choice() -> None:
    mechanism = RandomizedResponseWithPrior(domain=Classes(3), epsilon=0.5, prior=PRIORS)
    assert sorted(set(mechanism.sizes.tolist())) == [1, 2, 3]
    assert mechanism.privacy_loss() == PrivacyLoss.response(0.5, 2)
    certain = RandomizedResponseWithPrior(domain=Classes(3), epsilon=0.5, prior=public([[1, 0, 0]]))
    assert certain.privacy_loss() == PrivacyLoss.zero()
    assert certain.randomize([2], rng=np.random.default_rng(0)).tolist() == [0]


def test_a_reason_becomes_an_assumption() -> None:
    mechanism = RandomizedResponseWithPrior(domain=Classes(3), epsilon=1, prior=PRIORS)
    assert mechanism.assumptions == ("the prior does not depend on the private labels (written by hand for a test)",)
    assert RandomizedResponse(domain=Classes(3), epsilon=1).assumptions == ()


@pytest.mark.parametrize("groups", [np.array([0, 1]), [0, 1], None])
def test_bare_groups_are_refused(groups: Any) -> None:
    with pytest.raises(InputError, match="groups may not depend on private labels"):
        LaplaceHistogram(domain=Classes(2), epsilon=1, groups=groups)


@pytest.mark.parametrize("groups", [[0.5, 1], [-1, 0], [[0, 1]], ["a", "b"], [True, False]])
def test_groups_are_numbers(groups: Any) -> None:
    with pytest.raises(InputError, match="groups must be one non-negative integer for each record"):
        LaplaceHistogram(domain=Classes(2), epsilon=1, groups=public(groups))


def test_empty_groups_get_noise_too() -> None:
    mechanism = LaplaceHistogram(domain=Classes(2), epsilon=0.1, groups=public([0, 3]))
    released = mechanism.randomize([0, 1], rng=np.random.default_rng(0))
    assert released.shape == (4, 2)
    assert np.any(released[1:3] != 0)


@pytest.mark.parametrize("domain", [3, None, "classes"])
def test_a_mechanism_has_a_domain(domain: Any) -> None:
    from labeldp.mechanisms import DiscreteLaplace, UnaryEncoding

    for make in (
        lambda: RandomizedResponse(domain=domain, epsilon=1),
        lambda: UnaryEncoding(domain=domain, epsilon=1),
        lambda: RandomizedResponseWithPrior(domain=domain, epsilon=1, prior=PRIORS),
        lambda: LaplaceHistogram(domain=domain, epsilon=1, groups=public([0])),
    ):
        with pytest.raises(InputError, match="domain must be Classes"):
            make()
    with pytest.raises(InputError, match="domain must be an Interval"):
        DiscreteLaplace(domain=Classes(3), epsilon=1)


@pytest.mark.parametrize("ids", ["integers", "texts"])
def test_keyed_noise_of_candidates_follows_the_record(ids: str) -> None:
    mechanism = RandomizedResponseWithPrior(domain=Classes(3), epsilon=1, prior=public([[0.4, 0.35, 0.25]] * 500))
    names = np.arange(500) * 5 if ids == "integers" else np.array([f"record {i}" for i in range(500)])
    labels, order = np.arange(500) % 3, np.random.default_rng(3).permutation(500)
    key = KeyedRandomness(b"k" * 32)
    whole = mechanism.randomize(labels, rng=key, ids=names)
    assert np.array_equal(mechanism.randomize(labels[order], rng=key, ids=names[order]), whole[order])
    assert not np.array_equal(mechanism.randomize(labels, rng=key, ids=names[::-1]), whole)


def test_blocks_of_records_keep_their_own_sets() -> None:
    count = 2 * 32768 + 5
    wanted = np.random.default_rng(5).integers(0, 3, count)
    mechanism = RandomizedResponseWithPrior(domain=Classes(3), epsilon=1, prior=public(np.eye(3)[wanted]))
    noisy = mechanism.randomize(np.zeros(count, dtype=np.uint8), rng=np.random.default_rng(1))
    assert np.array_equal(noisy, wanted), "one candidate each, whatever the label"


def test_sets_are_equal_where_classes_and_members_are() -> None:
    packed = np.array([[0b11000000], [0b01100000]], dtype=np.uint8)
    one = CandidateSets(packed, 3)
    assert one == CandidateSets(packed.copy(), 3) and hash(one) == hash(CandidateSets(packed.copy(), 3))
    assert one != CandidateSets(packed, 4) and one != CandidateSets(packed[::-1], 3) and one != packed.tobytes()


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_likelihood_of_an_answer_is_its_share_of_the_words(epsilon: float) -> None:
    mechanism = RandomizedResponseWithPrior(domain=Classes(3), epsilon=epsilon, prior=PRIORS)
    chances = np.asarray(mechanism.weights() / 2**64, dtype=np.float64)
    records = np.arange(len(chances))
    for answer in range(3):
        possible = mechanism.membership()[:, answer]
        found = mechanism.likelihood(np.where(possible, answer, mechanism.membership().argmax(axis=1)))
        assert found[possible] == pytest.approx(chances[records[possible], :, answer], rel=1e-12, abs=1e-15)


def test_the_expanded_law_of_candidates_is_of_whole_words() -> None:
    """Doubles would hold 53 of their 64 bits."""
    weights = RandomizedResponseWithPrior(domain=Classes(3), epsilon=0.5, prior=PRIORS).weights()
    assert all(type(weight) is int for weight in weights.flat)
    assert set(weights.sum(axis=2).flat) == {1 << 64}


def test_of_two_sets_as_good_the_smaller_is_taken() -> None:
    ranked = (np.array([4.0, 4.0]), np.array([4.0, 4.5]), np.array([1.0, 0.0]))
    found = _best_threshold(ranked, np.array([1.0, 0.5, 0.25]))
    assert found.view(np.float64).tolist() == [4.0, 4.5]  # 4 and (4 + 4) / 2 are equal, (4 + 4.5) / 2 is more

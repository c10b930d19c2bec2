"""Answers that are sets: partitions that anybody can build again, exact laws, unbiased indicators."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy.stats import chi2

import labeldp as ldp
from labeldp.curator import LedgerFile
from labeldp.learners import first_response
from labeldp.mechanisms import Classes, LocalHashing, RandomizedResponse, SubsetSelection, debias, public_seed
from labeldp.mechanisms.local_hashing import public_ids
from labeldp.mechanisms.randomized_response import ResponseLaw, respond
from labeldp.privacy import WORD, InputError, exp_bounds, positive_epsilon
from labeldp.testing import ContractViolation, check_mechanism

SEED = bytes(range(16))
ALARM = 1e-12
"""The chance of a false alarm of each statistical test."""


def ten(**changes: Any) -> LocalHashing:
    arguments: dict[str, Any] = {"domain": Classes(10), "epsilon": 1.0, "seed": SEED, **changes}
    return LocalHashing(**arguments)


def partition_by_hand(identifier: int | str, classes: int, groups: int, seed: bytes) -> list[int]:
    """The partition of one record, byte by byte as `docs/proofs/finite-mechanisms.md` specifies it."""
    kind = b"integer" if isinstance(identifier, int) else b"text"
    key = hashlib.sha256(b"labeldp partition, version 1, " + kind + seed).digest()
    cipher = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()
    ranked = []
    for k in range(classes):
        if isinstance(identifier, int):
            block = (identifier % 2**64).to_bytes(8, "little") + (k // 2).to_bytes(8, "little")
        else:
            block = hashlib.blake2b(identifier.encode(), digest_size=12).digest() + (k // 2).to_bytes(4, "little")
        word = int.from_bytes(cipher.update(block)[8 * (k % 2) :][:8], "little")
        ranked.append((word >> 16, k))
    result = [0] * classes
    for place, (_, k) in enumerate(sorted(ranked)):
        result[k] = place % groups
    return result


@pytest.mark.parametrize("classes", [2, 3, 10, 11, 100])
def test_anybody_can_build_the_partitions_again(classes: int) -> None:
    mechanism = ten(domain=Classes(classes), groups=2 + classes // 4)
    for ids in (np.array([0, 1, 7, -3, 2**62]), ["a", "b", "β", ""]):
        built = mechanism.partition(ids)
        names = ids.tolist() if isinstance(ids, np.ndarray) else ids
        assert built.tolist() == [partition_by_hand(each, classes, 2 + classes // 4, SEED) for each in names]
    assert mechanism.partition(None, 3).tolist() == mechanism.partition(np.arange(3)).tolist()


VECTORS = {0: [0, 2, 2, 0, 0, 0, 1, 1, 2, 1], -1: [1, 0, 2, 0, 0, 2, 1, 0, 2, 1]}
"""Ten classes, three groups, the seed 000102…0f."""


def test_the_published_vectors_hold() -> None:
    for identifier, groups in VECTORS.items():
        assert ten().partition(np.array([identifier])).tolist() == [groups]


def test_groups_are_balanced_and_differ_from_record_to_record() -> None:
    built = ten().partition(None, 2000)
    sizes = np.stack([(built == group).sum(axis=1) for group in range(3)], axis=1)
    assert (np.sort(sizes, axis=1) == [3, 3, 4]).all()
    assert len({row.tobytes() for row in built}) > 1400
    together = np.array([[(built[:, j] == built[:, k]).mean() for k in range(10)] for j in range(10)])
    others = together[~np.eye(10, dtype=bool)]
    assert abs(others - (4 * 3 + 2 * 3 * 2) / 90).max() < 7.2 * np.sqrt(0.25 / 2000)  # every pair is told apart


def answered(mechanism: LocalHashing, answers: Any, ids: Any = None) -> np.ndarray:
    """The number of the group in each answer."""
    groups, members = mechanism.partition(ids, len(answers)), mechanism.named(answers)
    numbers = np.where(members, groups, 0).max(axis=1)
    assert ((groups == numbers[:, None]) == members).all()
    return numbers


@pytest.mark.guarantee("labeldp.mechanisms:LocalHashing", "pure")
@pytest.mark.parametrize("groups", [2, 3, 10])
def test_answers_are_randomized_response_over_the_groups(groups: int) -> None:
    mechanism, labels = ten(groups=groups), np.arange(100_000) % 10
    answers = answered(mechanism, mechanism.randomize(labels, rng=np.random.default_rng(0)))
    own = mechanism.partition(None, len(labels))[np.arange(len(labels)), labels].astype(int)
    law = RandomizedResponse(domain=Classes(groups), epsilon=1.0)
    assert (mechanism.weights() == law.weights()).all()
    counts = np.bincount((answers - own) % groups, minlength=groups)
    expected = law.matrix()[0] * len(labels)
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert statistic < chi2.isf(ALARM, groups - 1)
    more = RandomizedResponse(domain=Classes(groups), epsilon=1.1).matrix()[0] * len(labels)
    assert ((counts - more) ** 2 / more).sum() > chi2.isf(ALARM, groups - 1)


def test_as_many_groups_as_classes_are_randomized_response() -> None:
    wide, labels = ten(epsilon=4), np.arange(10)
    assert wide.groups == 10
    assert wide.named(wide.randomize(labels, rng=ldp.SystemRandomness())).sum(axis=1).tolist() == [1] * 10
    assert wide.privacy_loss() == RandomizedResponse(domain=Classes(10), epsilon=4).privacy_loss()


def test_the_best_number_of_groups_is_taken_and_written_down() -> None:
    assert [ten(epsilon=epsilon).groups for epsilon in (0.5, 1, 2, 3)] == [2, 3, 5, 10]
    assert ten().specification()["number_of_groups"] == 3 and ten().specification()["seed"] == SEED.hex()
    assert ten(seed=SEED.hex()) == ten()
    assert ten(seed=None).seed == public_seed().hex() == "827afdeb524fcce903e0569efc576f98"


def test_noise_does_not_derive_from_the_seed_and_partitions_not_from_the_key() -> None:
    labels, ids = np.zeros(5000, dtype=int), np.arange(5000)
    lies = []
    for key, seed in ((b"k" * 32, SEED), (b"k" * 32, bytes(16)), (b"j" * 32, SEED)):
        mechanism = ten(seed=seed)
        noise = ldp.KeyedRandomness(key).bind(b"test")
        answers = mechanism.randomize(labels, rng=noise, ids=ids)
        lies.append((~mechanism.named(answers)[:, 0], mechanism.partition(ids)))
        assert (answers == mechanism.randomize(labels, rng=noise, ids=ids)).all()
    (first, built), (other_seed, _), (other_key, same) = lies
    assert (built == same).all()
    rate = first.mean()
    for other in (other_seed, other_key):  # as independent as two draws
        assert abs((first & other).mean() - rate**2) < 7.2 * np.sqrt(0.25 / 5000)


def test_keyed_answers_follow_the_record_and_not_its_place() -> None:
    labels, ids, order = np.arange(300) % 10, np.arange(300) + 5, np.random.default_rng(0).permutation(300)
    noise = ldp.KeyedRandomness(b"k" * 32).bind(b"test")
    answers = ten().randomize(labels, rng=noise, ids=ids)
    assert (ten().randomize(labels[order], rng=noise, ids=ids[order]) == answers[order]).all()


@pytest.mark.parametrize(
    "mechanism",
    [ten(), ten(groups=2), ten(groups=7), ten(epsilon=3), SubsetSelection(domain=Classes(6), epsilon=1.0)],
    ids=["three groups", "two groups", "uneven groups", "singletons", "subset"],
)
def test_indicators_are_unbiased_over_seed_and_noise(mechanism: Any) -> None:
    classes, count = mechanism.domain.size, 60_000
    labels = np.arange(count) % classes
    values = debias(mechanism, mechanism.randomize(labels, rng=np.random.default_rng(1))).values
    means = np.stack([values[labels == k].mean(axis=0) for k in range(classes)])
    error = values.std() / np.sqrt(count / classes)
    assert np.abs(means - np.eye(classes)).max() < 7.2 * error


def test_the_variance_of_an_indicator_does_not_grow_with_the_classes() -> None:
    """About 4 e^epsilon / (e^epsilon - 1)^2, as local hashing has it."""
    bound = 4 * np.e / (np.e - 1) ** 2
    for classes in (10, 100, 1000):
        mechanism = LocalHashing(domain=Classes(classes), epsilon=1.0, seed=SEED)
        answers = mechanism.randomize(np.zeros(4000, dtype=int), rng=np.random.default_rng(0))
        assert debias(mechanism, answers).values[:, 1].var() < 1.2 * bound


def test_the_likelihood_is_that_of_the_set() -> None:
    mechanism = ten()
    answers = mechanism.randomize(np.arange(50) % 10, rng=np.random.default_rng(0))
    likelihood, members = mechanism.likelihood(answers), mechanism.named(answers)
    assert np.allclose(likelihood[members], np.e) and (likelihood[~members] == 1).all()


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0, 20.0])
@pytest.mark.parametrize(("classes", "size"), [(2, 1), (3, 2), (5, 2), (6, 3), (7, 1)])
def test_the_weights_of_subsets_keep_epsilon_in_integers(classes: int, size: int, epsilon: float) -> None:
    mechanism = SubsetSelection(domain=Classes(classes), epsilon=epsilon, size=size)
    weights, (low, _) = mechanism.weights(), exp_bounds(positive_epsilon(epsilon))
    assert all(sum(row) == WORD for row in weights.tolist())
    for column in weights.T.tolist():
        assert max(column) <= low * min(column)
    inside = np.unpackbits(mechanism.sets, axis=1, count=classes).astype(bool).T
    assert weights[inside].min() > weights[~inside].max()


def test_draws_of_subsets_follow_their_weights_word_by_word() -> None:
    """The first and the last word of every answer, and of every label."""
    mechanism = SubsetSelection(domain=Classes(5), epsilon=1.0, size=2)
    weights, answers = mechanism.weights(), [each.tobytes() for each in mechanism.sets]
    lie, keep, more = mechanism._weights
    edges = [i * lie for i in range(mechanism._sets_without + 1)]
    edges += [edges[-1] + i * (keep + 1) for i in range(1, more + 1)]
    edges += [edges[-1] + i * keep for i in range(1, mechanism._sets_with - more + 1)]
    assert edges[-1] == WORD

    class Words:
        """A source that gives chosen words."""

        def __init__(self, words: list[int]) -> None:
            self.words = np.array(words, dtype=np.uint64)

        def fill(self, words: Any, ids: Any, lane: Any = 0) -> None:
            words[:] = self.words

    first, last = edges[:-1], [edge - 1 for edge in edges[1:]]
    for label in range(5):
        codes = np.full(len(first), label, dtype=np.uint8)
        found = [
            [each.tobytes() for each in mechanism.sample(codes, 0, Words(words), np.zeros(len(codes), np.uint64))]  # type: ignore[arg-type]
            for words in (first, last)
        ]
        assert found[0] == found[1]  # an answer has all words from an edge to the next
        assert sorted(found[0]) == sorted(answers)
        for answer, start, end in zip(found[0], edges[:-1], edges[1:], strict=True):
            assert weights[label, answers.index(answer)] == end - start


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"domain": ldp.Interval(0, 1)}, "domain must be Classes"),
        ({"domain": Classes(65_537), "groups": 3}, "domain must have at most 65,536 classes"),
        ({"domain": Classes(65_537)}, "domain must have at most 65,536 classes"),
        ({"groups": 1}, "groups must be an integer from 2 to 10"),
        ({"groups": 11}, "groups must be an integer from 2 to 10"),
        ({"groups": True}, "groups must be an integer from 2 to 10"),
        ({"groups": "many"}, "groups must be an integer from 2 to 10"),
        ({"seed": b"short"}, "seed must be 16 bytes"),
        ({"seed": "no digits"}, "seed must be 16 bytes"),
        ({"seed": 7}, "seed must be 16 bytes"),
        ({"epsilon": 1e-19}, "epsilon"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        ten(**arguments)


def test_bad_subsets_and_answers_are_refused() -> None:
    for size in (0, 10, True, 2.0):
        with pytest.raises(InputError, match="size must be an integer from 1 to 9"):
            SubsetSelection(domain=Classes(10), epsilon=1.0, size=size)
    with pytest.raises(InputError, match=r"2\*\*24"):
        SubsetSelection(domain=Classes(100), epsilon=1.0)
    with pytest.raises(InputError, match="epsilon is too small for 10 sets"):
        SubsetSelection(domain=Classes(5), epsilon=1e-25, size=2)  # a set with the label would weigh as one without
    for noisy in (np.zeros(3, np.uint8), np.zeros((3, 1), np.uint8), np.zeros((3, 2))):
        with pytest.raises(InputError, match="noisy must be packed bits"):
            debias(ten(), noisy)
    with pytest.raises(InputError, match="ids must be one integer"):
        public_ids(["a"], 2)


def test_the_largest_partition_has_as_many_groups_as_asked_for() -> None:
    """With a class more, the order of the classes would not hold them all, and some would be in no group."""
    mechanism = ten(domain=Classes(65_536), groups=3)
    assert np.bincount(mechanism.partition(None, 1)[0]).tolist() == [21_846, 21_845, 21_845]
    assert isinstance(first_response(Classes(65_537), 1.0), RandomizedResponse)


def test_a_subset_of_one_class_of_two_is_drawn_at_any_epsilon() -> None:
    """From epsilon = 45 on the truth has all words but one, and a weight of one more would have 65 bits."""
    for epsilon in (44.0, 45.0, 800.0):
        mechanism = SubsetSelection(domain=Classes(2), epsilon=epsilon)
        answers = mechanism.randomize(np.array([0, 1, 1]), rng=np.random.default_rng(0))
        assert mechanism.named(answers).argmax(axis=1).tolist() == [0, 1, 1]


def test_another_epsilon_keeps_partition_and_seed() -> None:
    other = ten().with_epsilon(2.0)
    assert (other.groups, other.seed) == (3, SEED.hex())
    assert replace(ten(), epsilon=2.0, groups="best").groups == 5


def test_a_seed_of_ones_own_is_a_condition_of_the_certificate() -> None:
    """Whoever chose a seed could have looked at the labels; that of everybody was fixed before any label was."""
    labels = np.arange(20) % 10
    for mechanism, conditions in (
        (ten(), (f"the hashing seed {SEED.hex()} was chosen independently",)),
        (ten(seed=None), ()),
    ):
        curator = ldp.Curator(labels, domain=Classes(10), budget=ldp.Budget(epsilon=1))
        certificate = curator.release(mechanism, rng=ldp.SystemRandomness()).certificate
        assert len(certificate.assumptions) == len(conditions)
        assert all(condition in certificate.at() for condition in conditions)
        assert ("hashing seed" in certificate.at()) == bool(conditions)
    own, every = first_response(Classes(10), 1.0, partition_seed=7), first_response(Classes(10), 1.0)
    assert own.assumptions and not every.assumptions


def test_the_same_request_finds_its_partitions_in_a_ledger_and_a_new_ledger_has_other_noise(tmp_path: Path) -> None:
    """No seed is drawn that a second run would not know; noise is the ledger's own."""
    labels, answers = np.arange(400) % 10, []
    for name in ("one", "two"):
        for _ in range(2):
            account = LedgerFile(tmp_path / name).dataset("labels", budget=ldp.Budget(epsilon=1))
            curator = ldp.Curator(labels, domain=Classes(10), ledger=account)
            release = curator.release(ten(seed=None), rng=account.randomness)
            answers.append(release.value)
        [charge] = account.charges
        assert charge.mechanism["seed"] == public_seed().hex()
    assert (answers[0] == answers[1]).all() and (answers[2] == answers[3]).all()
    assert (answers[0] != answers[2]).any()


@pytest.mark.parametrize("ids", [[1, 1, 2], ["a", "b", "a"], np.array(["a", "a", "b"]), [b"a", "a", "b"]])
def test_repeated_ids_are_refused_since_their_records_would_share_a_partition(ids: Any) -> None:
    with pytest.raises(InputError, match="ids must be distinct"):
        ten().randomize(np.zeros(3, dtype=int), rng=ldp.SystemRandomness(), ids=ids)


@pytest.mark.parametrize(
    "ids", [{1, 2}, {"a": 1, "b": 2}, 7, iter("ab"), np.array(5), np.zeros((2, 2), dtype=int), [1, "a"], [1]]
)
@pytest.mark.parametrize("rng", [ldp.SystemRandomness(), ldp.KeyedRandomness(b"k" * 32)])
def test_ids_of_another_kind_are_refused_in_one_sentence(ids: Any, rng: Any) -> None:
    with pytest.raises(InputError, match="ids must be one integer, or one text, for each record"):
        ten().randomize(np.zeros(2, dtype=int), rng=rng, ids=ids)


def test_partitions_of_many_records_are_built_block_by_block() -> None:
    mechanism = ten(domain=Classes(1 << 15), groups=2)
    assert mechanism.block == 64
    whole = mechanism.partition(None, 150)
    assert (whole[100:] == mechanism.partition(np.arange(100, 150))).all()
    assert mechanism.partition(None, 0).shape == (0, 1 << 15)


def test_partitions_need_ids_or_a_count() -> None:
    for count in (None, -1, 2.0):
        with pytest.raises(InputError, match="count must be an integer"):
            ten().partition(None, count)  # type: ignore[arg-type]


def test_a_table_of_too_many_groups_is_refused_and_not_made() -> None:
    with pytest.raises(InputError, match=r"2\*\*24"):
        ten(domain=Classes(5000), groups=5000).weights()


def one_for_all(self: LocalHashing, names: Any) -> Any:
    """The first record's partition for every record."""
    return np.broadcast_to(PARTITION(self, names[:1]), (len(names), self.domain.size))


def saw_the_label(self: LocalHashing, labels: Any, *, rng: Any, ids: Any = None) -> Any:
    """Puts the label into the answered group, whatever the public partition says."""
    answers = RANDOMIZE(self, labels, rng=rng, ids=ids)
    named = self.named(answers)
    named[np.arange(len(labels)), labels] |= np.arange(len(labels)) % 10 == 0
    return np.packbits(named, axis=1)


def one_group_more(self: LocalHashing) -> None:
    """Noise for one group more than there are."""
    object.__setattr__(self, "law", ResponseLaw.of(self.groups - 1, positive_epsilon(self.epsilon)))


def noise_from_the_seed(self: LocalHashing, codes: Any, start: int, randomness: Any, ids: Any) -> Any:
    """Words that anybody can compute."""
    words = np.random.default_rng(list(bytes.fromhex(str(self.seed)))).integers(0, WORD, len(codes), dtype=np.uint64)
    return respond(codes, words, self.law)


PARTITION, RANDOMIZE = LocalHashing._partition, LocalHashing.randomize


@pytest.mark.parametrize(
    ("method", "mutant", "caught_by"),
    [
        ("_partition", one_for_all, test_anybody_can_build_the_partitions_again),
        ("_partition", one_for_all, test_groups_are_balanced_and_differ_from_record_to_record),
        ("randomize", saw_the_label, check_mechanism),
        ("_calibrate", one_group_more, check_mechanism),
        ("sample", noise_from_the_seed, check_mechanism),
        ("sample", noise_from_the_seed, test_noise_does_not_derive_from_the_seed_and_partitions_not_from_the_key),
    ],
)
def test_broken_local_hashing_is_caught(
    method: str, mutant: Any, caught_by: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalHashing, method, mutant)
    arguments = [10] if caught_by is test_anybody_can_build_the_partitions_again else []
    with pytest.raises((AssertionError, ContractViolation)):
        caught_by(*([ten()] if caught_by is check_mechanism else arguments))

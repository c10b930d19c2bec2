"""Outputs that are sets of classes: local hashing by public random partitions, and subset selection."""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar, final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from labeldp.mechanisms.base import MAX_EXPANDED, FiniteMechanism, SetAnswers, Table, Weights, refuse_large, words_for
from labeldp.mechanisms.domains import Codes
from labeldp.mechanisms.information import MAX_CLASSES, best_groups, best_size, local_hashing_bits
from labeldp.mechanisms.randomized_response import ResponseLaw, require_classes, respond
from labeldp.privacy import (
    BLOCK,
    WORD,
    Ids,
    InputError,
    PrivacyLoss,
    Randomness,
    RecordIds,
    are_integers,
    check_integer,
    counter_blocks,
    exp_bounds,
    integer_ids,
    positive_epsilon,
    refuse_repeats,
    set_fields,
    text_ids,
)

SEED_BYTES = 16


@final
@dataclass(frozen=True, kw_only=True)
class LocalHashing(FiniteMechanism):
    """Hash the K classes into g groups for each record, and answer the label's group by randomized response.

    The partition of a record follows from its id and a published seed, so anyone can compute it. Use it for four or
    more classes in the local model: below an epsilon that grows with K it tells up to ten times the bits of
    `RandomizedResponse`, and more than 93 % of what any mechanism can tell. Above it, the best g is K, and both
    mechanisms are equal.

    Args:
        domain: `Classes`, at most 65,536.
        groups: g, 2 to K; "best" takes the number whose answers carry most bits.
        seed: public, of the partitions, 16 bytes or their hexadecimal text. The certificate states that it was chosen
            without the labels. By default the constant `public_seed()`. Noise never derives from it.

    An answer is the set of the classes in the answered group, packed eight to a byte, shape (n, ceil(K / 8)): see
    `named`, `likelihood` and `debias`.

    Guarantee (pure): epsilon-DP for each label, exactly, for the emitted bits, whatever the seed.

    Raises:
        InputError: a domain without classes, or numbers out of range.

    Source: WangBlocki, local hashing, applied to labels; `docs/proofs/finite-mechanisms.md`.

    Examples:
        >>> import numpy as np
        >>> from labeldp.mechanisms import Classes
        >>> mechanism = LocalHashing(domain=Classes(10), epsilon=1.0, seed=bytes(16))
        >>> mechanism.groups
        3
        >>> answers = mechanism.randomize(np.array([3, 3, 3, 3]), rng=np.random.default_rng(0))
        >>> mechanism.named(answers).sum(axis=1)
        array([4, 3, 3, 3])
    """

    column_ending: ClassVar[str] = "_group"
    plain: ClassVar[tuple[str, ...]] = ("epsilon", "groups", "seed")
    groups: int | str = field(default="best", kw_only=False)
    seed: bytes | str | None = None
    law: ResponseLaw = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_classes(self.domain)
        classes = self.domain.size
        if classes > MAX_CLASSES:  # the order of the classes has 16 bits for each
            raise InputError(f"must have at most {MAX_CLASSES:,} classes", argument="domain")
        groups = best_groups(classes, self.epsilon) if self.groups == "best" else self.groups
        groups = check_integer(groups, "groups", 2, classes, advice=', the number of classes, or "best"')
        set_fields(self, groups=groups, seed=_seed(self.seed))
        self._calibrate()

    def _calibrate(self) -> None:
        set_fields(self, law=ResponseLaw.of(self._count, positive_epsilon(self.epsilon)))

    @property
    def _count(self) -> int:
        return int(self.groups)

    @property
    def _public_seed(self) -> str:
        return self.seed if isinstance(self.seed, str) else _seed(self.seed)

    @property
    def keep_probability(self) -> float:
        """P(the label is in the answer)."""
        return self.law.keep / WORD

    def privacy_loss(self) -> PrivacyLoss:
        """Return that of randomized response over the groups."""
        return PrivacyLoss.response(self.epsilon, self._count)

    def parameters(self) -> dict[str, Any]:
        return {**super().parameters(), "number_of_groups": self.groups, "seed": self.seed}

    @property
    def assumptions(self) -> tuple[str, ...]:
        """A seed of the caller may depend on the labels; the default one cannot."""
        if self._public_seed == _seed(None):
            return ()
        return (f"the hashing seed {self._public_seed} was chosen independently of the labels",)

    @property
    def published(self) -> str:
        return (
            f"one noisy class group per record (local hashing, {self.groups} groups, true group kept with probability "
            f"{self.keep_probability:.3f}, public seed {self._public_seed})"
        )

    def describe_noise(self, number: Callable[[float], str] = str) -> str:
        bits = local_hashing_bits(self.domain.size, self.epsilon, self._count)
        return (
            f"Each record releases one of {self.groups} random class groups. The group contains the true class with "
            f"probability {self.keep_probability:.3f}. (At most {bits:.3g} of {math.log2(self.domain.size):.3g} bits "
            "per label.)"
        )

    def tables(self) -> list[Table]:
        return [Table(self.weights(), "groups")]

    def weights(self) -> Weights:
        """Exact weights of each released group, given the group of the label, shape (g, g)."""
        refuse_large(self._count**2)
        return np.array(self.law.rows()[:-1], dtype=object)

    @property
    def answers(self) -> SetAnswers:
        sizes = np.bincount(np.arange(self.domain.size) % self._count)
        together = float((sizes * (sizes - 1)).sum()) / (self.domain.size * (self.domain.size - 1))
        keep, lie = self.law.keep / WORD, self.law.lie / WORD
        other = together * keep + (1 - together) * lie
        return SetAnswers(self.domain.size, self.law.keep / self.law.lie, keep, other, np.unique(sizes))

    @property
    def block(self) -> int:
        """Records handled at a time: fewer where there are many classes, so that memory stays small."""
        return int(np.clip((1 << 21) // self.domain.size, 64, BLOCK))

    def partition(self, ids: Any, count: int | None = None) -> NDArray[Any]:
        """Return the group of every class in each record's public partition, shape (n, K).

        Args:
            ids: record ids as they were given to the release: integers or texts, shape (n,), or None for row numbers.
                Where a ledger file named the records, a text that an integer prints as was taken for the integer:
                `RecordIds.of(ids, key)` under any key says so here.
            count: how many records there are, where ids are None.

        Raises:
            InputError: neither ids nor a count, or ids of another kind.
        """
        records = check_integer(count, "count", 0) if ids is None else len(ids)
        named = ids if isinstance(ids, RecordIds) else public_ids(ids, records)
        groups = np.empty((records, self.domain.size), dtype=np.min_scalar_type(self._count))
        for start in range(0, records, self.block):
            part = slice(start, start + self.block)
            groups[part] = self._of_records(named[part], len(groups[part]))
        return groups

    def _of_records(self, ids: Ids | RecordIds, count: int) -> NDArray[Any]:
        """Return the groups of the classes for records with such ids, shape (n, K)."""
        if not isinstance(ids, RecordIds):
            return self._partition(ids)
        texts = ids.are_texts
        groups = np.empty((count, self.domain.size), dtype=np.min_scalar_type(self._count))
        if not texts.all():
            groups[~texts] = self._partition(ids.blocks[~texts, 0])
        if texts.any():
            groups[texts] = self._partition(text_ids(ids.texts(), int(texts.sum()), key=b""))
        return groups

    def _partition(self, names: Ids) -> NDArray[Any]:
        """Return the groups of the classes for records with such names, shape (n, K)."""
        classes, scheme = self.domain.size, b"integer" if names.ndim == 1 else b"text"
        key = hashlib.sha256(b"labeldp partition, version 1, " + scheme + bytes.fromhex(self._public_seed)).digest()
        cipher = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()
        pairs = -(-classes // 2)
        repeated: Any = np.repeat(names, pairs, axis=0)
        blocks = counter_blocks(repeated, np.tile(np.arange(pairs), len(names)))
        words = np.frombuffer(cipher.update(blocks.tobytes()), dtype="<u8").reshape(len(names), -1)[:, :classes]
        # The upper 48 bits give the order, the lower 16 name the class, so that sorting alone does both.
        order = np.sort((words & ~np.uint64(0xFFFF)) | np.arange(classes, dtype=np.uint64), axis=1)
        groups = np.empty((len(names), classes), dtype=np.min_scalar_type(self._count))
        places = (np.arange(classes) % self._count).astype(groups.dtype)
        np.put_along_axis(groups, (order & np.uint64(0xFFFF)).astype(np.intp), places[None, :], axis=1)
        return groups

    def randomize(self, labels: Any, *, rng: Any, ids: Any = None) -> NDArray[np.uint8]:
        """Randomize codes, shape (n,); see `Mechanism.randomize`. The ids also name the public partitions."""
        codes = self.domain.check_codes(labels)
        randomness = self.bound(rng, ids)
        noise_names = randomness.record_ids(ids, len(codes))
        names = ids if isinstance(ids, RecordIds) else public_ids(ids, len(codes))
        if isinstance(names, np.ndarray):
            refuse_repeats(names)
        answers = np.empty((len(codes), -(-self.domain.size // 8)), dtype=np.uint8)
        for start in range(0, len(codes), self.block):
            part = slice(start, start + self.block)
            groups = self._of_records(names[part], len(codes[part]))
            label_groups = np.take_along_axis(groups, codes[part, None].astype(np.intp), axis=1)[:, 0]
            answered = self.sample(label_groups, start, randomness, noise_names[part])
            answers[part] = np.packbits(groups == answered[:, None], axis=1)
        return answers

    def sample(self, codes: Codes, start: int, randomness: Randomness, ids: Ids) -> Codes:
        return respond(codes, words_for(randomness, ids), self.law)


def public_seed(number: int = 0) -> bytes:
    """Return the public seed of partitions that belongs to a number: a constant."""
    return hashlib.sha256(f"labeldp partitions of classes, {number}".encode()).digest()[:SEED_BYTES]


def public_ids(ids: Any, count: int) -> Ids:
    """Return record ids as anyone can compute them: integers unchanged, texts as 96-bit BLAKE2b hashes."""
    if ids is None:
        return np.arange(count, dtype=np.uint64)
    return integer_ids(ids, count) if are_integers(ids) else text_ids(ids, count, key=b"")


def _seed(seed: Any) -> str:
    """Return a seed as hexadecimal text; that of everyone for None."""
    if seed is None:
        return public_seed().hex()
    try:
        raw = bytes.fromhex(seed) if isinstance(seed, str) else seed
    except ValueError:
        raw = None
    if not isinstance(raw, bytes) or len(raw) != SEED_BYTES:
        raise InputError(f"seed must be {SEED_BYTES} bytes, or {2 * SEED_BYTES} hexadecimal digits")
    return raw.hex()


@final
@dataclass(frozen=True, kw_only=True)
class SubsetSelection(FiniteMechanism):
    """Answer a random set of k classes, e^epsilon times as likely where the label is in it.

    No other mechanism tells more bits about a uniform label. Its table grows as K choose k, so it is here to compare
    with; `LocalHashing` comes within a few per cent for any K.

    Args:
        size: k, 1 to K - 1; "best" takes the one whose answers carry most bits.

    An answer is a set of classes, packed eight to a byte, shape (n, ceil(K / 8)).

    Guarantee (pure): epsilon-DP for each label, exactly, for the emitted bits.

    Raises:
        InputError: a domain without classes, numbers out of range, or a table of more than 2**24 entries.

    Source: WangHuang, subset selection; `docs/proofs/finite-mechanisms.md`.

    Examples:
        >>> from labeldp.mechanisms import Classes
        >>> SubsetSelection(domain=Classes(10), epsilon=1.0).size
        3
    """

    column_ending: ClassVar[str] = "_bits"
    plain: ClassVar[tuple[str, ...]] = ("epsilon", "size")
    size: int | str = "best"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_classes(self.domain)
        classes = self.domain.size
        size = best_size(classes, self.epsilon) if self.size == "best" else self.size
        size = check_integer(size, "size", 1, classes - 1, advice=', or "best"')
        if classes * math.comb(classes, size) > MAX_EXPANDED:
            raise InputError(
                f"size = {size} of {classes} classes needs a table of more than 2**24 entries: take LocalHashing"
            )
        set_fields(self, size=size)
        self._calibrate()

    def _calibrate(self) -> None:
        if self._weights[1] <= self._weights[0]:
            raise InputError(
                f"epsilon is too small for {self._sets_with + self._sets_without} sets: weights have 64 bits"
            )

    @property
    def _sets_with(self) -> int:
        """How many answers hold the label."""
        return math.comb(self.domain.size - 1, int(self.size) - 1)

    @property
    def _sets_without(self) -> int:
        return math.comb(self.domain.size - 1, int(self.size))

    @cached_property
    def _weights(self) -> tuple[int, int, int]:
        """The weight of each answer without the label, of one with it, and how many with it weigh one more."""
        low, _ = exp_bounds(positive_epsilon(self.epsilon))
        lie = -(-WORD * low.denominator // (self._sets_with * low.numerator + self._sets_without * low.denominator))
        while True:
            keep, more = divmod(WORD - self._sets_without * lie, self._sets_with)
            if keep + bool(more) <= low * lie:
                return lie, keep, more
            lie += 1

    @cached_property
    def _others(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Sets of k and of k - 1 of the K - 1 other classes, counted without the label, one a row."""
        size = int(self.size)
        return _combinations(self.domain.size - 1, size), _combinations(self.domain.size - 1, size - 1)

    def privacy_loss(self) -> PrivacyLoss:
        """Return a pure loss of epsilon, which covers the loss of the sets."""
        return PrivacyLoss.pure(self.epsilon)

    def parameters(self) -> dict[str, Any]:
        return {**super().parameters(), "size": self.size}

    @property
    def published(self) -> str:
        return f"one noisy class set per record (subset selection, size {self.size})"

    @property
    def sets(self) -> NDArray[np.uint8]:
        """All answers as packed sets, in the order of the columns of `weights`, shape (K choose k, ceil(K / 8))."""
        return _packed(_combinations(self.domain.size, int(self.size)), self.domain.size)

    def tables(self) -> list[Table]:
        return [Table(self.weights(), "sets")]

    def weights(self) -> Weights:
        """Exact weights, shape (K, K choose k), of the answers in the order of `sets`."""
        classes, (lie, keep, more) = self.domain.size, self._weights
        index = {tuple(answer): i for i, answer in enumerate(combinations(range(classes), int(self.size)))}
        weights = np.full((classes, len(index)), lie, dtype=object)
        for label in range(classes):
            for i, classes_beside in enumerate(self._others[1]):
                members = sorted([label, *(int(other) + (other >= label) for other in classes_beside)])
                weights[label, index[tuple(members)]] = keep + (i < more)
        return weights

    @property
    def answers(self) -> SetAnswers:
        size, (lie, keep, _) = int(self.size), self._weights
        hit = 1 - self._sets_without * lie / WORD
        return SetAnswers(self.domain.size, keep / lie, hit, (size - hit) / (self.domain.size - 1), np.array([size]))

    def sample(self, codes: Codes, start: int, randomness: Randomness, ids: Ids) -> NDArray[np.uint8]:
        lie, keep, more = self._weights
        words, labels = words_for(randomness, ids), codes.astype(np.intp)
        outside = words < np.uint64(self._sets_without * lie)
        sets = np.empty((len(codes), int(self.size)), dtype=np.intp)
        rank = (words[outside] // np.uint64(lie)).astype(np.intp)
        sets[outside] = self._others[0][rank] + (self._others[0][rank] >= labels[outside, None])
        left = words[~outside] - np.uint64(self._sets_without * lie)
        longest = keep + bool(more)  # below 2**64 also where one answer has nearly all words
        heavy = left < np.uint64(more * longest)
        rank = np.where(heavy, left // np.uint64(longest), (left - np.uint64(more)) // np.uint64(keep)).astype(np.intp)
        classes_beside = self._others[1][rank]
        sets[~outside, :1] = labels[~outside, None]
        sets[~outside, 1:] = classes_beside + (classes_beside >= labels[~outside, None])
        return _packed(sets, self.domain.size)


def _combinations(classes: int, size: int) -> NDArray[np.intp]:
    """All sets of some classes, one a row, in lexicographic order, shape (classes choose size, size)."""
    sets = np.array(list(combinations(range(classes), size)), dtype=np.intp)
    return sets.reshape(math.comb(classes, size), size)


def _packed(sets: NDArray[np.intp], classes: int) -> NDArray[np.uint8]:
    members = np.zeros((len(sets), classes), dtype=np.bool_)
    np.put_along_axis(members, sets, True, axis=1)
    return np.packbits(members, axis=1)

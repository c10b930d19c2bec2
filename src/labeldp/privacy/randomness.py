"""Sources of 64-bit words, and base classes of objects that must not be copied or forked."""

import os
import threading
from abc import ABC, abstractmethod
from enum import Enum
from typing import Any, ClassVar, NoReturn, final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from labeldp.privacy.errors import InputError
from labeldp.privacy.ids import BLOCK, Ids, RecordIds, Words, counter_blocks, derive_key, record_words, refuse_repeats

_generation = [0]


def _count_fork() -> None:
    """Give a forked child another number, even if the system reuses one."""
    _generation[0] += 1


os.register_at_fork(after_in_child=_count_fork)


class NotCopyable:
    """Base of objects whose copy would be a second budget, a second draw, or one more place for a secret.

    Guarantee (no_copy): `copy.copy`, `copy.deepcopy` and `pickle` raise.
    """

    _why_no_copy: ClassVar[str]
    """The message of the error: why not, and what to do instead."""

    def __reduce__(self) -> NoReturn:
        raise InputError(self._why_no_copy)


class SingleProcess(NotCopyable):
    """Base of objects that keep spending or state in memory, which a fork would not share.

    Guarantee (no_fork): a fork of the process is refused, by `check_process`.
    """

    _why_no_fork: ClassVar[str]
    """The message of the error in a fork of the process."""

    def _claim_process(self) -> None:
        """Bind this object to the current process."""
        self._process = (os.getpid(), _generation[0])

    def check_process(self) -> None:
        """Refuse in any process but the one that made this.

        Raises:
            InputError: nothing was charged or drawn.
        """
        if self._process != (os.getpid(), _generation[0]):
            raise InputError(self._why_no_fork)


Lane = int | NDArray[np.intp]
"""Which word of a record: one number for all records, or one for each."""

RESEED_AFTER = 1 << 36
"""Bytes of one keystream before a fresh seed is taken."""


class RandomnessKind(Enum):
    """Where the noise of a release came from, the weakest last; the certificate names it."""

    SYSTEM = "cryptographic (AES-256), seeded by the operating system"
    KEYED = "cryptographic, keyed (AES-256, HMAC-SHA256)"
    DECLARED = "declared: drawn elsewhere, not checked by labeldp"
    SIMULATION = "SIMULATION (seeded generator): no privacy"
    NONE = "none: nothing random was drawn"


class Randomness(ABC):
    """A source of uniform 64-bit words, one or more for each record."""

    kind: ClassVar[RandomnessKind]

    @abstractmethod
    def fill(self, words: Words, ids: Ids, lane: Lane = 0) -> None:
        """Fill `words` (n,) with uniform words for the records `ids`; another lane is another word of the record."""

    @property
    def identity(self) -> str:
        """A public name of the source: sources with equal names draw equal words for a release."""
        return self.kind.name

    def bind(self, context: bytes) -> "Randomness":
        """Return the randomness of one release; only keyed noise depends on the context."""
        return self

    def record_ids(self, ids: Any, count: int) -> Ids:
        """Return the ids of `count` records in the form that `fill` takes; only keyed noise depends on them."""
        return np.broadcast_to(np.uint64(0), (count,))


@final
class SystemRandomness(NotCopyable, Randomness):
    """An AES-256-CTR keystream for every thread, seeded by the operating system.

    Use it for releases that happen once. It holds no state of its own: threads never share a
    keystream, and a forked child takes a new seed before its first word. It cannot be copied or pickled: a task
    that is sent to another process and retried there would draw again, uncharged.

    Guarantee (no_repeat): threads, and a process and its fork, never draw the same words.
    """

    kind = RandomnessKind.SYSTEM
    _why_no_copy = (
        "SystemRandomness cannot be copied or pickled: a task that is sent elsewhere and retried would draw again, "
        "uncharged. Write SystemRandomness() where the release is made, beside its ledger"
    )

    def fill(self, words: Words, ids: Ids | None = None, lane: Lane = 0) -> None:
        _keystream(words)

    def __repr__(self) -> str:
        return "SystemRandomness()"


_ZEROS = memoryview(bytes(8 * BLOCK))

_streams = threading.local()


def _keystream(words: Words) -> None:
    """Write keystream into a contiguous array of words."""
    buffer = memoryview(words.data).cast("B")
    for start in range(0, len(buffer), len(_ZEROS)):
        part = buffer[start : start + len(_ZEROS)]
        if getattr(_streams, "left", 0) < len(part):  # a new key; it is used once, so its counter may start at zero
            _streams.left = RESEED_AFTER
            _streams.cipher = Cipher(algorithms.AES256(os.urandom(32)), modes.CTR(bytes(16))).encryptor()
        _streams.left -= len(part)
        _streams.cipher.update_into(_ZEROS[: len(part)], part)


def _forget_streams() -> None:
    """Forget streams: a forked child must not continue its parent's keystream."""
    global _streams
    _streams = threading.local()


os.register_at_fork(after_in_child=_forget_streams)


@final
class KeyedRandomness(NotCopyable, Randomness):
    """Noise that can be recomputed: a pseudo-random function of a key, a release and a record's id.

    Use the one of a ledger file (`DatasetLedger.randomness`) where the same release may be computed twice: any order
    and any split of the records give the same bits. A curator takes no other, because one key for two columns of
    labels, or for two states of one, would tell where they are equal. With a key of your own and no curator, that
    is up to you: no two columns, states or parts may share key and context. Whoever has the key can remove the
    noise, so it is as secret as the labels, and cannot be copied or pickled.

    Args:
        key: at least 32 secret random bytes.
        context: what distinguishes this release from all others under the key: the column, its state, the part.
            `Mechanism.randomize` extends it by the mechanism, `Curator.release` by all that the noise depends on.

    Guarantee (record_only): the words of a record depend on key, context, id and lane alone.
    """

    kind = RandomnessKind.KEYED
    is_bound = False
    """Whether `bind` named the release, so that noise without record ids is this release's own."""
    _why_no_copy = (
        "KeyedRandomness cannot be copied or pickled: its key removes the noise from all that was released under it. "
        "Open the ledger file where the release is made: LedgerFile(path).dataset(name).randomness"
    )

    def __init__(self, key: bytes, context: bytes = b"") -> None:
        if not isinstance(key, bytes) or len(key) < 32:
            raise InputError("key must be at least 32 secret random bytes, such as secrets.token_bytes(32)")
        if not isinstance(context, bytes):
            raise InputError("context must be bytes")
        self._key = derive_key(key, b"context", context)

    def bind(self, context: bytes) -> "KeyedRandomness":
        bound = KeyedRandomness(self._key, context)
        bound.is_bound = True
        return bound

    @property
    def release_key(self) -> bytes:
        """The key of the one release that this is bound to, for workers that draw parts of it; it draws no other.

        Raises:
            InputError: `bind` gave it no release: its key would draw all of them.
        """
        if not self.is_bound:
            raise InputError("a key may leave only once `bind` named its release: this one draws all of them")
        return self._key

    @classmethod
    def of_release(cls, release_key: bytes) -> "KeyedRandomness":
        """Return the randomness of one release, by its `release_key`."""
        bound = cls(release_key)
        bound._key, bound.is_bound = release_key, True
        return bound

    def stream(self) -> "KeyedStream":
        """Return words one after another, for what has no records; each call begins with the same ones."""
        return KeyedStream(derive_key(self._key, b"stream"))

    def fill(self, words: Words, ids: Ids, lane: Lane = 0) -> None:
        """Fill `words` (n,): each record's AES block holds its id and a counter, and yields two lanes."""
        scheme = b"integer" if ids.ndim == 1 else b"text" if ids.dtype == np.uint8 else b"record"
        cipher = Cipher(algorithms.AES256(derive_key(self._key, b"words", scheme)), modes.ECB()).encryptor()
        for start in range(0, len(words), BLOCK):
            part = slice(start, start + BLOCK)
            lanes = lane if isinstance(lane, int) else lane[part]
            plain = counter_blocks(ids[part], lanes // 2)
            secret = np.frombuffer(cipher.update(plain.tobytes()), dtype="<u8").reshape(-1, 2)
            words[part] = np.where(lanes % 2, secret[:, 1], secret[:, 0])

    @property
    def identity(self) -> str:
        """The kind, and a fingerprint of key and context that reveals nothing of them."""
        return f"{self.kind.name} {derive_key(self._key, b'fingerprint').hex()[:16]}"

    def record_ids(self, ids: Any, count: int) -> Ids:
        """Return integer ids unchanged, texts as a 96-bit hash under the key, and the blocks of `RecordIds`.

        Raises:
            InputError: ids are repeated; the message does not say which. `RecordIds` were checked by whoever made them.
        """
        words = record_words(ids, count, self._key)
        if ids is not None and not isinstance(ids, RecordIds):
            refuse_repeats(words)
        return words

    def __repr__(self) -> str:
        return "KeyedRandomness(key=<secret>)"


@final
class KeyedStream(NotCopyable, Randomness):
    """The words of one key, one after another; get one from `KeyedRandomness.stream`, for one thread.

    It is for online learners, whose rounds have no records. Mechanisms and curators refuse it: two streams of one
    key would give two releases the same noise.

    Guarantee (position_only): a word depends on key, context and how many words were drawn before it alone.
    """

    kind = RandomnessKind.KEYED
    _why_no_copy = "KeyedStream cannot be copied or pickled: a copy would give the same words once more"

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()

    def fill(self, words: Words, ids: Ids | None = None, lane: Lane = 0) -> None:
        buffer = memoryview(words.data).cast("B")
        for start in range(0, len(buffer), len(_ZEROS)):
            part = buffer[start : start + len(_ZEROS)]
            self._cipher.update_into(_ZEROS[: len(part)], part)

    def __repr__(self) -> str:
        return "KeyedStream(key=<secret>)"


@final
class SimulatedRandomness(Randomness):
    """A numpy generator: reproducible, predictable, and so a simulation only."""

    kind = RandomnessKind.SIMULATION

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def fill(self, words: Words, ids: Ids | None = None, lane: Lane = 0) -> None:
        words[:] = self._generator.integers(0, 1 << 64, size=len(words), dtype=np.uint64)

    def __repr__(self) -> str:
        return "SimulatedRandomness()"


RandomSource = Randomness | np.random.Generator
"""What every `rng` takes: a `Randomness` for a real release, or NumPy's generator for a simulation. No default."""


def as_randomness(rng: RandomSource) -> Randomness:
    """Return the source of words that a caller passed as `rng`; there is no default.

    Raises:
        InputError: `rng` is none of the three kinds.
    """
    if isinstance(rng, Randomness):
        return rng
    if isinstance(rng, np.random.Generator):
        return SimulatedRandomness(rng)
    raise InputError(
        "rng must be SystemRandomness() or KeyedRandomness(key, context) for a real release, "
        "or a numpy.random.Generator for a simulation"
    )


def as_bound(rng: RandomSource) -> Randomness:
    """Return the source of words for one release whose noise belongs to no record.

    Raises:
        InputError: a key that `bind` gave no release, or a stream, which can be begun again: all parts of a table
            would get the same noise.
    """
    randomness = as_randomness(rng)
    if isinstance(randomness, KeyedStream):
        raise InputError("rng must not be a KeyedStream: two streams of one key would give two releases the same noise")
    if isinstance(randomness, KeyedRandomness) and not randomness.is_bound:
        raise InputError(
            "rng: noise that belongs to no record would be the same for every part of a table under one key. Let a "
            "curator with a ledger file release it, or name what it is for: "
            'KeyedRandomness(key).bind(b"column, state, part")'
        )
    return randomness


def as_successive(rng: RandomSource) -> Randomness:
    """Return the source of words that come one after another.

    Raises:
        InputError: keyed randomness by records, whose words would be the same ones each time.
    """
    randomness = as_randomness(rng)
    if isinstance(randomness, KeyedRandomness):
        raise InputError(
            "rng must be SystemRandomness() or, for a simulation, a numpy.random.Generator: "
            "keyed randomness would repeat its words in every round"
        )
    return randomness

"""Record ids, hashed under a key; digests of labeled records; rows of words by bucket."""

import hashlib
import hmac
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any, ClassVar, Self, final, overload

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from labeldp.privacy.errors import InputError, even_if_refused, explain_full_disk
from labeldp.privacy.validate import without_traceback

Words = NDArray[np.uint64]
"""Uniform words of 64 bits."""

Ids = NDArray[np.uint64] | NDArray[np.uint8]
"""Record ids: 64-bit integers, shape (n,), 96-bit hashes, shape (n, 12), or blocks of `RecordIds`, shape (n, 2)."""

BLOCK = 1 << 15
"""Records handled at a time: their words and intermediate arrays stay in cache."""

ONE_EACH = "ids must be one integer, or one text, for each record"


def derive_key(key: bytes, *parts: bytes) -> bytes:
    """Return a key of 32 bytes for one purpose: HMAC-SHA256 of length-prefixed parts."""
    message = b"".join([len(part).to_bytes(8, "little") + part for part in (b"labeldp", *parts)])
    return hmac.digest(key, message, hashlib.sha256)


def counter_blocks(ids: Ids, counter: int | NDArray[Any]) -> NDArray[np.generic]:
    """AES inputs: 64 bits of id and 64 of counter, or 96 and 32; one counter for all, or one for each."""
    if ids.ndim == 1:
        blocks = np.empty((len(ids), 2), dtype="<u8")
        blocks[:, 0], blocks[:, 1] = ids, counter
        return blocks
    if ids.dtype != np.uint8:
        records = ids.astype("<u8")  # a copy
        records.view("<u4")[:, 3] = counter
        return records
    texts = np.empty((len(ids), 16), dtype=np.uint8)
    texts[:, :12] = ids
    texts.view("<u4")[:, 3] = counter
    return texts


@final
class Texts(Sequence[bytes]):
    """Texts in one buffer, as Arrow keeps them.

    Args:
        data: their bytes one after another, uint8.
        edges: where each begins in `data`, and where the last one ends, shape (n + 1,), ascending.
    """

    def __init__(self, data: NDArray[np.uint8], edges: NDArray[np.int64]) -> None:
        self._data, self._edges = data, edges

    @classmethod
    def of(cls, values: Iterable[Any]) -> "Texts":
        """Return texts or bytes in one buffer; anything else counts as it prints."""
        texts = without_traceback(
            lambda: [value if isinstance(value, bytes) else str(value).encode() for value in values]
        )
        if texts is None:
            raise InputError(ONE_EACH)
        edges = np.concatenate([[0], np.cumsum(list(map(len, texts)), dtype=np.int64)])
        return cls(np.frombuffer(b"".join(texts), dtype=np.uint8), edges.astype(np.int64))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of bytes of each, shape (n,)."""
        return np.diff(self._edges)

    def __len__(self) -> int:
        return len(self._edges) - 1

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> "Texts": ...
    def __getitem__(self, index: int | slice) -> "bytes | Texts":
        if isinstance(index, slice):
            first, last, _ = index.indices(len(self))
            return Texts(self._data, self._edges[first : max(first, last) + 1])
        start, end = self._edges[index : index + 2] if index >= 0 else self._edges[len(self) + index :][:2]
        return self._data[start:end].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        edges, data = (self._edges - self._edges[0]).tolist(), self._data[self._edges[0] : self._edges[-1]].tobytes()
        return map(data.__getitem__, map(slice, edges, edges[1:]))

    def take(self, rows: NDArray[np.intp]) -> "Texts":
        """Return the texts of some rows."""
        return Texts.of([self[row] for row in rows.tolist()])

    def hashes(self, key: bytes) -> Words:
        """Return a pseudo-random function of each text under a key, shape (n, 2): the CBC-MAC after its length."""
        cipher = _cipher(derive_key(key, b"texts"))
        lengths = self.lengths
        counts = np.zeros((int(lengths.max(initial=0)) + 1, 2), dtype="<u8")
        counts[:, 0] = np.arange(len(counts))
        firsts = _encrypt(cipher, counts)
        hashes = np.empty((len(self), 2), dtype="<u8")
        for start in range(0, len(self), BLOCK):
            part = slice(start, start + BLOCK)
            words, begins = self[part]._padded()
            sizes = lengths[part]
            state, shortest = firsts.take(sizes, axis=0), int(sizes.min())
            for offset in range(0, int(sizes.max()), 16):
                rows: Any = slice(None) if offset < shortest else np.flatnonzero(sizes > offset)
                starts = begins[rows] + offset
                block = np.column_stack([words[starts], words[starts + 8]])
                if offset + 16 > shortest:
                    left = np.minimum(sizes[rows] - offset, 16)
                    block &= _KEPT_BYTES.take(left, axis=0)
                state[rows] = _encrypt(cipher, block ^ state[rows])
            hashes[part] = state
        return hashes

    def integers(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the texts that an integer of 64 bits prints as, such as "7" and not "07", as integers, and which."""
        numbers, integer = np.zeros(len(self), dtype=np.int64), np.zeros(len(self), dtype=np.bool_)
        for start in range(0, len(self), BLOCK):
            part = slice(start, start + BLOCK)
            self[part]._parse(numbers[part], integer[part])
        return numbers, integer

    def _padded(self) -> tuple[Words, NDArray[np.int64]]:
        """Return the word that begins at each byte of the data, padded with zeros, and where the texts begin."""
        first, last = int(self._edges[0]), int(self._edges[-1])
        padded = np.zeros(last - first + 2 * _PADDING, dtype=np.uint8)
        padded[_PADDING : _PADDING + last - first] = self._data[first:last]
        words: Words = np.ndarray((len(padded) - 7,), "<u8", padded.data, 0, (1,))
        return words, self._edges[:-1] - (first - _PADDING)

    def _parse(self, numbers: NDArray[np.int64], integer: NDArray[np.bool_]) -> None:
        words, begins = self._padded()
        sizes = self.lengths
        leads = words[begins] & np.uint64(0xFF)
        negative = leads == ord("-")
        np.logical_or(negative, (leads >= ord("0")) & (leads <= ord("9")), out=integer)
        integer &= (sizes > negative) & (sizes <= 19 + negative)
        if not integer.any():
            return
        rows: Any = slice(None) if integer.all() else np.flatnonzero(integer)
        minus, ends = negative[rows], begins[rows] + sizes[rows]
        digits = sizes[rows] - minus
        leads = np.where(minus, words[begins[rows] + minus] & np.uint64(0xFF), leads[rows])
        sound = (leads != ord("0")) | ((digits == 1) & ~minus)
        value = np.zeros(len(digits), dtype=np.uint64)
        for start, scale in ((0, 1), (8, 10**8), (16, 10**16)):
            if start and int(digits.max()) <= start:
                break
            mask = _LAST_BYTES[np.clip(digits - start, 0, 8)]
            eight = (words[ends - (start + 8)] & mask) | (_ZEROS & ~mask)
            sound &= (((eight & _HIGH) ^ _ZEROS) | (((eight + _SIX) & _HIGH) ^ _ZEROS)) == 0
            value += _eight_digits(eight) * np.uint64(scale)
        sound &= value <= np.uint64(2**63 - 1) + minus.astype(np.uint64)
        signed = np.where(minus, np.uint64(0) - value, value).view(np.int64)
        numbers[rows], integer[rows] = np.where(sound, signed, 0), sound

    @even_if_refused
    def __repr__(self) -> str:
        return f"Texts({len(self)})"


_PADDING = 24

_KEPT_BYTES = np.array([[(1 << 8 * min(n, 8)) - 1, (1 << 8 * max(n - 8, 0)) - 1] for n in range(17)], dtype=np.uint64)

_LAST_BYTES = np.array([((1 << 8 * size) - 1) << (64 - 8 * size) for size in range(9)], dtype=np.uint64)

_ZEROS, _HIGH, _SIX = (np.uint64(int(digit * 8, 16)) for digit in ("30", "F0", "06"))


def _eight_digits(words: Words) -> Words:
    """Return the number that eight digits in a word spell, the first of them in its lowest byte."""
    pairs = words - _ZEROS
    pairs = pairs * np.uint64(10) + (pairs >> np.uint64(8))
    low, one_byte = np.uint64(0x000F424000000064), np.uint64(0x000000FF000000FF)
    high = ((pairs >> np.uint64(16)) & one_byte) * np.uint64(0x0000271000000001)
    return np.asarray(((pairs & one_byte) * low + high) >> np.uint64(32))


def _cipher(key: bytes) -> CipherContext:
    return Cipher(algorithms.AES256(key), modes.ECB()).encryptor()


def _encrypt(cipher: CipherContext, blocks: NDArray[Any]) -> Words:
    secret = np.empty((len(blocks) + 1, 2), dtype="<u8")  # the cipher wants room for one more
    cipher.update_into(_bytes_of(blocks), _bytes_of(secret))
    return secret[:-1]


def _bytes_of(words: NDArray[Any]) -> "memoryview[int]":
    return memoryview(np.ascontiguousarray(words).data).cast("B")


@final
class RecordIds:
    """Ids of records for noise and digests, hashed once; get them from `RecordIds.of`.

    Integers and the texts that they print as are one id: 7 in a Parquet file is "7" in a CSV file, and "07" another.
    `blocks` hold 96 bits of each record and 32 zeros for a counter, shape (n, 2): an integer of 64 bits, or 95 bits of
    a keyed hash of the text and a mark.

    Guarantee (record_only): the block of a record depends on key and id alone, whatever the other records are.
    """

    def __init__(self, blocks: Words, texts: Texts | None = None, rows: NDArray[np.intp] | None = None) -> None:
        """Set the blocks, the ids themselves where some are texts, and which of these the records have, or None."""
        self.blocks = blocks
        self._texts, self._rows = texts, rows

    @classmethod
    def of(cls, ids: Any, key: bytes) -> "RecordIds":
        """Return record ids under a secret key.

        Args:
            ids: integers or texts, shape (n,), or `Texts`; `RecordIds` are returned unchanged.

        Raises:
            InputError: ids are neither.
        """
        if isinstance(ids, RecordIds):
            return ids
        if isinstance(ids, Texts) or not are_integers(ids):
            texts = ids if isinstance(ids, Texts) else Texts.of(ids)
            return cls._of_texts(texts, *texts.integers(), key)
        array = without_traceback(lambda: np.asarray(ids))
        if array is not None and array.dtype.kind in "Of" and all(type(number) is int for number in ids):
            return cls.of(Texts.of(ids), key)  # more than 64 bits
        if array is None or array.ndim != 1 or array.dtype.kind not in "iu":
            raise InputError(ONE_EACH)
        if array.dtype.kind == "u" and array.max(initial=0) >= 1 << 63:
            return cls.of(Texts.of(array.tolist()), key)
        blocks = np.zeros((len(array), 2), dtype="<u8")
        blocks[:, 0] = array.astype(np.int64, copy=False).view(np.uint64)
        return cls(blocks)

    @classmethod
    def _of_texts(
        cls, texts: Texts, integers: NDArray[np.int64], integer: NDArray[np.bool_], key: bytes
    ) -> "RecordIds":
        rows = np.flatnonzero(~integer)
        if len(rows) == len(texts):
            return cls(_marked(texts.hashes(key)), texts)
        blocks = np.zeros((len(texts), 2), dtype="<u8")
        blocks[:, 0] = integers.view(np.uint64)
        if len(rows):
            blocks[rows] = _marked(texts.take(rows).hashes(key))
        return cls(blocks, texts)

    def __len__(self) -> int:
        return len(self.blocks)

    def __getitem__(self, rows: Any) -> "RecordIds":
        chosen = np.arange(len(self))[rows] if self._rows is None else self._rows[rows]
        return RecordIds(self.blocks[rows], self._texts, chosen)

    @property
    def are_texts(self) -> NDArray[np.bool_]:
        """Which of them are texts that no integer prints as, shape (n,)."""
        return np.asarray(self.blocks[:, 1] != 0)

    @property
    def order(self) -> NDArray[np.intp]:
        """Row numbers in an order that depends on the ids alone, shape (n,)."""
        if self._texts is None:
            return np.argsort(self.blocks[:, 0], kind="stable")
        return np.lexsort((self.blocks[:, 0], self.blocks[:, 1]))

    def texts(self) -> list[bytes]:
        """Return the ids that are texts, in order."""
        rows = np.flatnonzero(self.are_texts)
        chosen = rows if self._rows is None else self._rows[rows]
        return [] if self._texts is None else [self._texts[row] for row in chosen.tolist()]

    @even_if_refused
    def __repr__(self) -> str:
        return f"RecordIds({len(self)})"


_MARK = 1 << 31


def _marked(hashes: Words) -> Words:
    """Return 95 bits of each hash, and the mark of a text."""
    hashes[:, 1] &= np.uint64(_MARK - 1)
    hashes[:, 1] |= np.uint64(_MARK)
    return hashes


def hidden_ids(blocks: Words, key: bytes) -> Words:
    """Return blocks of `RecordIds`, shape (n, 2), each encrypted under a key: equal only where the ids are."""
    return _encrypt(_cipher(key), blocks)


def refuse_repeats(ids: Ids) -> None:
    """Raise InputError if an id occurs twice; the message does not say which."""
    if has_repeats(ids):
        raise InputError("ids must be distinct: records with the same id would share their noise")


def has_repeats(ids: Ids) -> bool:
    """Return whether an id occurs twice."""
    if ids.ndim == 1:
        return not (ids[1:] > ids[:-1]).all() and _collide(ids)
    if ids.dtype == np.uint8:
        padded = np.zeros((len(ids), 16), dtype=np.uint8)
        padded[:, :12] = ids
        return has_repeats(padded.view("<u8"))
    if not _collide(ids[:, 0]):
        return False
    pairs = ids[np.lexsort((ids[:, 0], ids[:, 1]))]
    return bool((pairs[1:] == pairs[:-1]).all(axis=1).any())


_ODD = tuple(np.uint64(int.from_bytes(hashlib.sha256(b"%d" % turn).digest()[:8], "big") | 1) for turn in range(8))

_IN_CACHE = 1 << 22


def _collide(words: NDArray[Any], turn: int = 0) -> bool:
    """Return whether a word occurs twice, by comparing the words that share a slot of a hash table.

    Those that lost their slot to another word are looked at in the next turn, under another hash; equal words share
    every slot. Beyond the cache, and where turns do not end it, words are sorted.
    """
    count = len(words)
    if not 256 <= count <= _IN_CACHE or turn == len(_ODD):
        ordered = np.sort(words)
        return bool((ordered[1:] == ordered[:-1]).any())
    bits = (2 * count - 1).bit_length()
    places = ((words * _ODD[turn]) >> np.uint64(64 - bits)).view(np.int64)
    rows, slots = np.arange(count, dtype=np.uint32), np.empty(1 << bits, dtype=np.uint32)
    slots[places] = rows
    owners = slots[places]
    rivals = np.flatnonzero(owners != rows)
    left = words[rivals]
    return bool((words[owners[rivals]] == left).any()) or _collide(left, turn + 1)


def are_integers(ids: Any) -> bool:
    """Return whether record ids are integers, by the first of them; else they are texts.

    Raises:
        InputError: they are no sequence.
    """
    try:
        return np.asarray(ids[:1]).dtype.kind in "iu"
    except (TypeError, KeyError, IndexError):
        raise InputError(ONE_EACH) from None


def integer_ids(ids: Any, count: int) -> NDArray[np.uint64]:
    """Return integer record ids as unsigned words, shape (count,); the caller checks that they are distinct."""
    array = np.asarray(ids)
    if array.shape != (count,) or array.dtype.kind not in "iu":
        raise InputError(ONE_EACH)
    return array.astype(np.int64).view(np.uint64) if array.dtype.kind == "i" else array.astype(np.uint64)


def text_ids(ids: Sequence[Any], count: int, key: bytes) -> NDArray[np.uint8]:
    """Return 96-bit keyed hashes of text ids, shape (count, 12)."""
    if len(ids) != count:
        raise InputError(ONE_EACH)
    texts = (value if isinstance(value, bytes) else str(value).encode() for value in ids)
    digests = b"".join(hashlib.blake2b(text, digest_size=12, key=key).digest() for text in texts)
    return np.frombuffer(digests, dtype=np.uint8).reshape(-1, 12)


def record_words(ids: Any, count: int, key: bytes) -> Ids:
    """Return record ids as AES blocks take them: row numbers for None, integers, or hashes of texts under the key."""
    if ids is None:
        return np.arange(count, dtype=np.uint64)
    if isinstance(ids, RecordIds):
        if len(ids) != count:
            raise InputError(ONE_EACH)
        return ids.blocks
    if not isinstance(ids, Texts) and are_integers(ids):
        return integer_ids(ids, count)
    return text_ids(ids, count, derive_key(key, b"ids"))


class RecordDigest:
    """Sums a pseudo-random function of (id, code) over records, in any order and any split; digests of parts add up.

    It tells whether records, and their labels where codes are given, are the same as before. Under its key only:
    without the key it says nothing, with it a label could be searched for, so key and digest stay in the ledger.
    """

    purpose: ClassVar[bytes]

    def __init__(self, key: bytes) -> None:
        self._key = derive_key(key, self.purpose)
        self._sum = np.zeros(2, dtype=np.uint64)
        self._count = 0

    def update(self, ids: Ids, codes: NDArray[Any] | None = None) -> None:
        """Add records: ids (n,), (n, 12) or (n, 2), codes (n,) or none."""
        cipher = _cipher(self._key)
        for start in range(0, len(ids), BLOCK):
            part = slice(start, start + BLOCK)
            secret = _encrypt(cipher, counter_blocks(ids[part], 0 if codes is None else codes[part]))
            folded = secret[: len(secret) // 64 * 64].reshape(-1, 128).sum(axis=0, dtype=np.uint64)  # 64 records a row
            self._sum += folded.reshape(-1, 2).sum(axis=0, dtype=np.uint64)
            self._sum += secret[len(secret) // 64 * 64 :].sum(axis=0, dtype=np.uint64)
        self._count += len(ids)

    def merge(self, other: Self) -> None:
        """Add the records of another digest under the same key."""
        if type(other) is not type(self) or other._key != self._key:
            raise InputError("must be under the same key, and of the same kind", argument="other")
        self._sum += other._sum
        self._count += other._count

    @property
    def state(self) -> bytes:
        """The sums so far, to be added to the digest of another process by `add_state`; as secret as the digest."""
        return self._sum.astype("<u8").tobytes() + self._count.to_bytes(8, "little")

    def add_state(self, state: bytes) -> None:
        """Add the records of a digest under the same key, by its `state`."""
        if not isinstance(state, bytes) or len(state) != 24:
            raise InputError("must be the state of a digest, 24 bytes", argument="state")
        self._sum += np.frombuffer(state[:16], dtype="<u8")
        self._count += int.from_bytes(state[16:], "little")

    def hexdigest(self) -> str:
        """Return the digest so far: 128 bits and the number of records."""
        return f"{int(self._sum[0]):016x}{int(self._sum[1]):016x}-{self._count}"

    @property
    def records(self) -> int:
        """Number of records so far."""
        return self._count

    @even_if_refused
    def __repr__(self) -> str:
        return f"{type(self).__name__}(<secret>)"


def add_digests(one: str, other: str, times: int = 1) -> str:
    """Return the digest of the records of two digests under one key, each as `hexdigest` writes it.

    The second counts `times` times; with -1 its records are removed from the first.
    """
    (sums, count), (more, counts) = (text.split("-", 1) for text in (one, other))
    halves = ((int(sums[part], 16) + times * int(more[part], 16)) % (1 << 64) for part in (slice(0, 16), slice(16, 32)))
    return "".join(f"{half:016x}" for half in halves) + f"-{int(count) + times * int(counts)}"


@final
class LabelDigest(RecordDigest):
    """Tells whether records and their labels are the same as before; see `RecordDigest`."""

    purpose = b"label digest"


@final
class IdDigest(RecordDigest):
    """Tells whether records are the same as before, whatever their labels; see `RecordDigest`."""

    purpose = b"id digest"


BUCKETS = 256


@final
class Buckets:
    """Rows of one or two words, kept in memory or, if they are many, by bucket in an anonymous temporary file.

    Close it when it is done with.

    Args:
        held: the most rows that memory holds; of those in the file it holds a bucket at a time.
        width: words in a row, 1 or 2.
        buckets: how many, 256 or 1.
        spread: draw the bucket of a row by a secret hash of its first word. Without, it is the first byte of that word,
            so that sorted buckets in order are sorted rows.
    """

    def __init__(self, held: int, width: int, *, buckets: int = BUCKETS, spread: bool = True) -> None:
        self._limit, self._width, self._buckets = held, width, buckets
        self._odd = np.uint64(secrets.randbits(64) | 1 if spread else 1)
        self._waiting: list[Words] = []
        self._count = 0
        self._spilled: list[NDArray[np.int64]] = []
        self._file: IO[bytes] | None = None

    def add(self, words: Words) -> None:
        """Add rows, shape (n,) or (n, 2)."""
        self._waiting.append(words)
        self._count += len(words)
        if self._count > self._limit:
            self._spill()

    def runs(self) -> Iterator[Words]:
        """Yield what was added, a bucket of a run, or a block in memory, at a time."""
        for bucket in range(self._buckets):
            for run in self._spilled:
                yield self._read(run, bucket)
        yield from self._waiting

    def bucket(self, number: int) -> Words:
        """Return the rows of one bucket, in no order."""
        if self._count:
            self._spill()
        parts = [self._read(run, number) for run in self._spilled]
        return np.concatenate(parts) if parts else np.zeros((0, self._width)[: self._width], dtype=np.uint64)

    def repeated(self) -> bool:
        """Return whether a row was added twice, one bucket at a time."""
        if self._file is None:
            return bool(self._waiting) and has_repeats(np.concatenate(self._waiting))
        return any(has_repeats(self.bucket(number)) for number in range(self._buckets))

    def close(self) -> None:
        """Remove the temporary file."""
        if self._file is not None:
            self._file.close()

    def _spill(self) -> None:
        """Write the waiting rows as one run, ordered by bucket, and remember where each bucket starts in it."""
        words = np.concatenate(self._waiting)
        ends = np.array([len(words)])
        if self._buckets > 1:
            first = words if self._width == 1 else words[:, 0]
            bucket = ((first * self._odd) >> np.uint64(56)).astype(np.uint8)
            words = words.take(np.argsort(bucket, kind="stable"), axis=0)
            ends = np.cumsum(np.bincount(bucket, minlength=self._buckets))
        with explain_full_disk("the temporary file of record ids"):
            self._file = self._file or tempfile.TemporaryFile()  # noqa: SIM115  (`close` closes it)
            start = self._file.seek(0, 2)
            self._file.write(np.ascontiguousarray(words).data)
            self._file.flush()
        self._spilled.append(start + np.concatenate([[0], ends]) * words.itemsize * self._width)
        self._waiting, self._count = [], 0

    def _read(self, run: NDArray[np.int64], bucket: int) -> Words:
        assert self._file is not None
        self._file.seek(int(run[bucket]))
        words: NDArray[Any] = np.frombuffer(self._file.read(int(run[bucket + 1] - run[bucket])), dtype=np.uint64)
        return words if self._width == 1 else words.reshape(-1, self._width)

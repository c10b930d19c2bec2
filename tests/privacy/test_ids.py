"""Record ids under a key: integers and texts, in any split, and the digests of records."""

from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from labeldp.privacy import (
    IdDigest,
    InputError,
    KeyedRandomness,
    LabelDigest,
    RecordIds,
    Texts,
    derive_key,
    has_repeats,
    refuse_repeats,
)
from labeldp.privacy.ids import _ODD, _marked

KEY = b"k" * 32

NEAR = [0, 1, 9, 10, 99_999_999, 10**8, 10**16 - 1, 10**16, 2**63 - 1, 2**63, -1, -(2**63), -(2**63) - 1, 10**19]

numerals = st.sampled_from(NEAR).map(str) | st.integers(-(10**20), 10**20).map(str)
words = numerals | st.text("0123456789-+ _eé", max_size=22) | st.text(max_size=60)


def by_hand(text: bytes) -> bytes:
    """The CBC-MAC of the length and the text in blocks of 16 bytes, with the library's own CBC."""
    padded = len(text).to_bytes(16, "little") + text + bytes(-len(text) % 16)
    cipher = Cipher(algorithms.AES256(derive_key(KEY, b"texts")), modes.CBC(bytes(16))).encryptor()
    return cipher.update(padded)[-16:]


@given(texts=st.lists(words, max_size=30), start=st.integers(0, 5))
def test_hashes_of_texts_are_their_mac(texts: list[str], start: int) -> None:
    part = Texts.of(texts)[start:]
    assert [row.tobytes() for row in part.hashes(KEY)] == [by_hand(text.encode()) for text in texts[start:]]
    assert list(part) == [part[place] for place in range(len(part))] == [text.encode() for text in texts[start:]]


def as_integer(text: str) -> int | None:
    """The integer of 64 bits that prints as a text, or None."""
    try:
        value = int(text)
    except ValueError:
        return None
    return value if str(value) == text and -(2**63) <= value < 2**63 else None


@given(texts=st.lists(words, max_size=30))
def test_texts_are_integers_only_if_these_print_as_them(texts: list[str]) -> None:
    found, whole = Texts.of(texts).integers()
    assert [int(value) if one else None for value, one in zip(found, whole, strict=True)] == list(
        map(as_integer, texts)
    )


@pytest.mark.guarantee("labeldp.privacy:RecordIds", "record_only")
@given(texts=st.lists(words, min_size=1, max_size=30, unique=True), data=st.data())
def test_the_block_of_a_record_depends_on_key_and_id_alone(texts: list[str], data: Any) -> None:
    whole = RecordIds.of(texts, KEY)
    rows = np.array(data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=30)))
    part = RecordIds.of([texts[row] for row in rows], KEY)
    assert (part.blocks == whole[rows].blocks).all() and part.texts() == whole[rows].texts()
    refuse_repeats(whole.blocks)
    order = whole.order
    assert (RecordIds.of([texts[row] for row in order], KEY).order == np.arange(len(texts))).all()


def test_integers_are_the_texts_that_they_print_as() -> None:
    values = [0, 7, -7, 2**63 - 1, -(2**63)]
    records = RecordIds.of(np.array(values), KEY)
    assert (records.blocks == RecordIds.of([str(value) for value in values], KEY).blocks).all()
    assert not records.are_texts.any() and records.texts() == []
    large = np.array([2**63, 2**64 - 1, 5], dtype=np.uint64)
    assert (RecordIds.of(large, KEY).blocks == RecordIds.of([str(value) for value in large.tolist()], KEY).blocks).all()
    assert RecordIds.of(large, KEY).are_texts.tolist() == [True, True, False]
    other = RecordIds.of(["07", "+7", "7 ", "seven", ""], KEY)
    assert other.are_texts.all() and other.texts() == [b"07", b"+7", b"7 ", b"seven", b""]
    assert (RecordIds.of(["seven"], b"l" * 32).blocks != RecordIds.of(["seven"], KEY).blocks).any()
    with pytest.raises(InputError, match="one integer, or one text, for each record"):
        RecordIds.of(np.array([[1, 2]]), KEY)
    assert repr(other) == "RecordIds(5)" and repr(Texts.of(["secret"])) == "Texts(1)"


def test_noise_follows_the_id_in_every_form_and_split() -> None:
    texts = ["7", "x7", "07", "user with a longer name than a block", "-1"]
    noise, words = KeyedRandomness(KEY, b"release"), np.empty((2, len(texts)), dtype=np.uint64)
    for lane in (0, 1):
        noise.fill(words[lane], noise.record_ids(RecordIds.of(texts, KEY), len(texts)), lane)
    for row, text in enumerate(texts):
        alone = RecordIds.of(np.array([int(text)]) if as_integer(text) is not None else [text], KEY)
        for lane in (0, 1):
            word = np.empty(1, dtype=np.uint64)
            noise.fill(word, noise.record_ids(alone, 1), lane)
            assert word[0] == words[lane, row]
    assert len(set(words.ravel().tolist())) == words.size
    with pytest.raises(InputError, match="for each record"):
        noise.record_ids(RecordIds.of(texts, KEY), 3)


@pytest.mark.parametrize(
    ("ids", "repeated"),
    [
        (np.array([3, 1, 2], dtype=np.uint64), False),
        (np.array([3, 1, 3], dtype=np.uint64), True),
        (np.array([[1, 2], [1, 3], [2, 2]], dtype=np.uint64), False),
        (np.array([[1, 2], [1, 3], [1, 2]], dtype=np.uint64), True),
        (np.eye(12, dtype=np.uint8), False),
        (np.zeros((2, 12), dtype=np.uint8), True),
        (np.empty(0, dtype=np.uint64), False),
    ],
)
def test_repeated_ids_are_refused(ids: Any, repeated: bool) -> None:
    if not repeated:
        return refuse_repeats(ids)
    with pytest.raises(InputError, match="ids must be distinct"):
        refuse_repeats(ids)


@pytest.mark.parametrize("count", [255, 256, 5000, 1 << 16])
def test_one_repeated_id_among_many_is_found_wherever_it_stands(count: int) -> None:
    """Also where the two lose their slot to a third, and where all ids meet in few slots."""
    rng = np.random.default_rng(count)
    spread, ascending = rng.integers(0, 1 << 63, count, dtype=np.uint64), rng.permutation(count).astype(np.uint64)
    inverse = pow(int(_ODD[0]), -1, 1 << 64)
    alike = np.array([each * inverse % (1 << 64) for each in range(count)], dtype=np.uint64)  # one slot for all
    for ids in (spread, ascending, alike):
        assert not has_repeats(ids)
        for _ in range(20):
            one, other = rng.choice(count, 2, replace=False)
            again = ids.copy()
            again[one] = again[other]
            assert has_repeats(again)
            pairs = np.column_stack([again, np.arange(count, dtype=np.uint64)])
            assert not has_repeats(pairs)
            pairs[one] = pairs[other]
            assert has_repeats(pairs)


def test_digests_of_parts_add_up() -> None:
    ids, codes = RecordIds.of([f"p{n}" for n in range(50)], KEY).blocks, np.arange(50) % 3
    for kind in (LabelDigest, IdDigest):
        whole, one, two = kind(KEY), kind(KEY), kind(KEY)
        given_codes = (codes,) if kind is LabelDigest else ()
        whole.update(ids, *given_codes)
        one.update(ids[20:], *(each[20:] for each in given_codes))
        two.update(ids[:20], *(each[:20] for each in given_codes))
        sent = kind(KEY)
        sent.add_state(one.state)
        sent.add_state(two.state)
        assert sent.hexdigest() == whole.hexdigest()
        with pytest.raises(InputError, match="state must be the state of a digest, 24 bytes"):
            sent.add_state(b"")
        one.merge(two)
        assert one.hexdigest() == whole.hexdigest() and one.records == 50
        with pytest.raises(InputError, match="under the same key"):
            one.merge(kind(b"l" * 32))
        assert repr(whole) == f"{kind.__name__}(<secret>)"
    labels, names = LabelDigest(KEY), IdDigest(KEY)
    labels.update(ids)
    names.update(ids)
    assert labels.hexdigest() != names.hexdigest()
    with pytest.raises(InputError, match="under the same key"):
        labels.merge(names)


def test_texts_are_found_by_their_place() -> None:
    texts = Texts.of(["a", "bb", "", "cccc"])
    assert [texts[place] for place in (0, 1, 2, 3, -1, -4)] == [b"a", b"bb", b"", b"cccc", b"cccc", b"a"]
    assert list(texts[1:3]) == [b"bb", b""]


def test_texts_keep_95_bits_of_their_hash_and_a_mark() -> None:
    hashes = np.array([[3, 0xFFFFFFFF], [5, 0x12345678], [7, 0]], dtype=np.uint64)
    assert _marked(hashes.copy()).tolist() == [[3, 0xFFFFFFFF], [5, 0x92345678], [7, 0x80000000]]

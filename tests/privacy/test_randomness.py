"""Words that nobody else draws, and words that can be drawn again."""

import secrets
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.privacy import (
    BLOCK,
    InputError,
    KeyedRandomness,
    LabelDigest,
    Randomness,
    RandomnessKind,
    SystemRandomness,
    as_randomness,
    record_words,
)
from labeldp.privacy import randomness as module

KEY = bytes(range(32))

FORKS = """
import os, sys
import numpy as np
from labeldp.privacy import SystemRandomness

def draw():
    words = np.empty(1000, dtype=np.uint64)
    SystemRandomness().fill(words)
    return words.tobytes()

draw()
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, draw())
    os._exit(0)
os.close(write)
child = b"".join(iter(lambda: os.read(read, 1 << 16), b""))
words = [draw() for _ in range(4)]
own = {text[i : i + 8] for text in words for i in range(0, len(text), 8)}
theirs = {child[i : i + 8] for i in range(0, len(child), 8)}
print(len(own), len(theirs), len(own & theirs))
"""


def drawn(source: Randomness, ids: object = None, count: int = 8, lane: int = 0) -> list[int]:
    """Words for some records."""
    words = np.empty(count, dtype=np.uint64)
    source.fill(words, source.record_ids(ids, count), lane)
    return words.tolist()


@pytest.mark.guarantee("labeldp.privacy:SystemRandomness", "no_repeat")
def test_threads_never_draw_the_same_words() -> None:
    start, words = threading.Barrier(8), {}

    def work(name: int) -> None:
        start.wait()
        words[name] = [word for _ in range(5) for word in drawn(SystemRandomness(), count=1000)]

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({word for each in words.values() for word in each}) == 8 * 5000


@pytest.mark.guarantee("labeldp.privacy:SystemRandomness", "no_repeat")
def test_a_fork_never_draws_its_parents_words() -> None:
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["4000", "1000", "0"]


def test_a_keystream_ends_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    real = module.os.urandom
    monkeypatch.setattr(module.os, "urandom", lambda size: (seeds.append(size), real(size))[1])
    monkeypatch.setattr(module, "RESEED_AFTER", 8 * 100)
    monkeypatch.setattr(module, "_streams", threading.local())
    for _ in range(5):
        drawn(SystemRandomness(), count=50)
    assert seeds == [32, 32, 32]


def test_long_draws_have_no_repeated_block() -> None:
    words = np.empty(5 * BLOCK + 17, dtype=np.uint64)
    SystemRandomness().fill(words)
    assert len(np.unique(words)) == len(words)
    keyed = KeyedRandomness(KEY)
    keyed.fill(words, keyed.record_ids(None, len(words)))
    assert len(np.unique(words)) == len(words)


@pytest.mark.parametrize("source", [SystemRandomness(), KeyedRandomness(KEY), np.random.default_rng(3)])
def test_words_are_uniform(source: object) -> None:
    words = np.array(drawn(as_randomness(source), count=1 << 16), dtype=np.uint64)
    for shift in range(0, 64, 8):
        counts = np.bincount(((words >> np.uint64(shift)) & np.uint64(255)).astype(int), minlength=256)
        # Chi-squared with 255 degrees of freedom: below 456 with probability 1 - 1e-13.
        assert np.sum((counts - 256.0) ** 2 / 256.0) < 456


@pytest.mark.guarantee("labeldp.privacy:KeyedRandomness", "record_only")
@given(st.permutations(range(40)), st.integers(0, 40), st.integers(0, 5))
def test_keyed_words_depend_on_the_record_alone(order: list[int], cut: int, lane: int) -> None:
    source, ids = KeyedRandomness(KEY, b"release"), np.arange(40) * 7 - 100
    whole = np.array(drawn(source, ids, 40, lane), dtype=np.uint64)
    turned = drawn(KeyedRandomness(KEY, b"release"), ids[order], 40, lane)
    assert turned == whole[order].tolist()
    parts = [drawn(source, part, len(part), lane) for part in (ids[:cut], ids[cut:])]
    assert parts[0] + parts[1] == whole.tolist()


@pytest.mark.parametrize(
    "ids",
    [
        np.array([-1, 0, 1, 2**40], dtype=np.int64),
        np.array([2**64 - 1, 3, 0, 5], dtype=np.uint64),
        [3, 1, 4, -15],
        ["a", "b", "ä", ""],
        [b"a", b"\xff", b"", b"\x00"],
        np.array(["x", "yy", "z", "w"]),
        [1.5, "a", None, b"b"],
    ],
)
def test_ids_of_every_kind(ids: object) -> None:
    source = KeyedRandomness(KEY)
    words = drawn(source, ids, 4)
    assert len(set(words)) == 4
    assert [drawn(source, ids[i : i + 1], 1)[0] for i in range(4)] == words
    assert drawn(source, ids, 4, lane=1) != words


def test_the_type_of_an_integer_id_does_not_matter() -> None:
    source = KeyedRandomness(KEY)
    reference = drawn(source, [1, 2, 3], 3)
    for kind in (np.int8, np.int32, np.int64, np.uint8, np.uint64):
        assert drawn(source, np.array([1, 2, 3], dtype=kind), 3) == reference
    assert drawn(source, np.array([-1], dtype=np.int16), 1) == drawn(source, np.array([-1]), 1)
    assert drawn(source, ["1", "2", "3"], 3) != reference
    assert drawn(source, ["a"], 1) == drawn(source, [b"a"], 1)


def test_row_numbers_stand_in_for_ids() -> None:
    assert drawn(KeyedRandomness(KEY), None, 5) == drawn(KeyedRandomness(KEY), np.arange(5), 5)


@pytest.mark.parametrize("ids", [None, ["a", "b", "c"]])
def test_lanes_contexts_and_keys_differ(ids: object) -> None:
    sources = [KeyedRandomness(KEY), KeyedRandomness(KEY, b"a"), KeyedRandomness(KEY, b"b"), KeyedRandomness(KEY[::-1])]
    sources += [sources[0].bind(b""), sources[0].bind(b"a"), sources[1].bind(b"b"), sources[2].bind(b"a")]
    words = [word for source in sources for lane in range(9) for word in drawn(source, ids, 3, lane)]
    assert len(set(words)) == len(words) == 8 * 9 * 3


@pytest.mark.parametrize("ids", [None, [f"record {i}" for i in range(9)]])
def test_lanes_may_differ_from_record_to_record(ids: object) -> None:
    randomness, lanes = KeyedRandomness(KEY), np.array([0, 5, 2, 2, 1, 0, 3, 7, 4])
    words = np.empty(9, dtype=np.uint64)
    randomness.fill(words, randomness.record_ids(ids, 9), lanes)
    each = [drawn(randomness, ids, 9, lane) for lane in range(8)]
    assert words.tolist() == [int(each[lane][i]) for i, lane in enumerate(lanes)]


@pytest.mark.parametrize("key", [b"", b"short", "x" * 32, bytearray(32), None, b"x" * 31])
def test_a_bad_key_is_refused(key: object) -> None:
    with pytest.raises(InputError, match="key must be at least 32 secret random bytes") as caught:
        KeyedRandomness(key)
    assert "short" not in str(caught.value)


def test_a_context_is_bytes() -> None:
    with pytest.raises(InputError, match="context must be bytes"):
        KeyedRandomness(KEY, "release")


@pytest.mark.parametrize("ids", [np.arange(3), np.zeros((4, 1), dtype=int), ["a"], [1, "a", 2, 3]])
def test_ids_that_do_not_fit_are_refused(ids: object) -> None:
    with pytest.raises(InputError, match="ids must be one integer, or one text, for each record"):
        record_words(ids, 4, KEY)


@pytest.mark.parametrize("rng", [None, 0, "system", np.random.RandomState(0), np.random, KeyedRandomness])
def test_there_is_no_default_randomness(rng: object) -> None:
    with pytest.raises(InputError, match="rng must be SystemRandomness"):
        as_randomness(rng)


def test_each_source_says_what_it_is() -> None:
    kinds = [
        as_randomness(source).kind for source in (SystemRandomness(), KeyedRandomness(KEY), np.random.default_rng())
    ]
    assert kinds == [RandomnessKind.SYSTEM, RandomnessKind.KEYED, RandomnessKind.SIMULATION]
    assert "SIMULATION" in kinds[2].value


def test_no_repr_shows_a_secret() -> None:
    source = KeyedRandomness(b"SENTINEL" * 4, b"CONTEXT")
    assert repr(source) == "KeyedRandomness(key=<secret>)"
    assert repr(SystemRandomness()) == "SystemRandomness()"
    assert repr(as_randomness(np.random.default_rng(5))) == "SimulatedRandomness()"


def test_a_simulation_repeats_whatever_the_ids() -> None:
    first = drawn(as_randomness(np.random.default_rng(5)), ["a", "b"], 2)
    assert first == drawn(as_randomness(np.random.default_rng(5)), None, 2)


def test_no_records_need_no_words() -> None:
    for source in (SystemRandomness(), KeyedRandomness(KEY), as_randomness(np.random.default_rng())):
        assert drawn(source, None, 0) == []
    assert drawn(KeyedRandomness(KEY), [], 0) == []


@pytest.mark.guarantee("labeldp.privacy:KeyedStream", "position_only")
def test_a_stream_is_the_same_each_time() -> None:
    source = KeyedRandomness(KEY, b"round 1")
    whole, parts = drawn(source.stream(), count=3 * BLOCK), source.stream()
    assert [word for size in (1, 2, BLOCK, 2 * BLOCK - 3) for word in drawn(parts, count=size, lane=size)] == whole
    assert len(set(whole)) == len(whole)
    others = [KeyedRandomness(KEY, b"round 2").stream(), KeyedRandomness(KEY[::-1], b"round 1").stream(), source]
    assert all(not set(drawn(other, count=100)) & set(whole) for other in others)
    assert source.stream().kind is RandomnessKind.KEYED and repr(source.stream()) == "KeyedStream(key=<secret>)"


LABELS = np.arange(70_000) % 5


def digest(ids: object, labels: np.ndarray, key: bytes = KEY, cuts: tuple[int, ...] = ()) -> str:
    """The digest of records that arrive in parts."""
    result = LabelDigest(key)
    names = record_words(ids, len(labels), key)
    for part in np.split(np.arange(len(labels)), cuts):
        result.update(names[part], labels[part])
    return result.hexdigest()


@pytest.mark.parametrize("cuts", [(), (1,), (32768,), (5, 40_000, 69_999)])
def test_neither_order_nor_split_matters(cuts: tuple[int, ...]) -> None:
    ids, order = np.arange(70_000) * 3, np.random.default_rng(0).permutation(70_000)
    assert digest(ids[order], LABELS[order], cuts=cuts) == digest(ids, LABELS)


@pytest.mark.parametrize("texts", [False, True])
def test_any_change_matters(texts: bool) -> None:
    ids = np.arange(6) if not texts else [f"r{i}" for i in range(6)]
    labels = np.array([0, 1, 2, 0, 1, 2])
    other = [digest(ids, labels), digest(ids, labels[::-1]), digest(ids, labels + 1), digest(ids, labels, bytes(32))]
    other += [digest(ids[:5], labels[:5]), digest(ids[:0], labels[:0]), digest(None, labels + 9)]
    other.append(digest(ids, np.array([0, 1, 2, 0, 1, 1])))
    assert len(set(other)) == len(other)


def test_swapped_labels_matter() -> None:
    assert digest([1, 2], np.array([0, 1])) != digest([1, 2], np.array([1, 0]))


def test_repeated_records_do_not_cancel() -> None:
    assert digest([1, 1], np.array([3, 3])) != digest([2, 2], np.array([3, 3]))
    assert digest([1, 1], np.array([3, 3])) != digest([1], np.array([3]))


def test_no_repr_shows_it() -> None:
    assert repr(LabelDigest(KEY)) == "LabelDigest(<secret>)"


def test_the_key_of_a_release_draws_that_release_and_leaves_alone() -> None:
    parent = KeyedRandomness(KEY, b"people")
    one, other = parent.bind(b"one"), parent.bind(b"other")
    again = KeyedRandomness.of_release(one.release_key)
    ids = np.arange(8)
    assert drawn(again, ids) == drawn(one, ids) != drawn(other, ids)
    assert drawn(again.bind(b"mechanism"), ids, lane=3) == drawn(one.bind(b"mechanism"), ids, lane=3)
    assert again.identity == one.identity and again.is_bound
    assert len({one.release_key, other.release_key, KEY}) == 3
    with pytest.raises(InputError, match="this one draws all of them"):
        parent.release_key  # noqa: B018


def test_tests_draw_what_their_names_decide() -> None:
    """No failure is "run it again": keys and noise of a test are the same in every run."""
    words = np.zeros(2, dtype=np.uint64)
    SystemRandomness().fill(words)
    assert secrets.token_hex(4) == "67c12e51" and int(words[0]) == 17078617866372769721

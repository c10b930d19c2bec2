"""Messages: arrays that say what they are, and such as lie about it."""

import base64
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import labeldp as ldp
from labeldp.serve.wire import TYPES, decoded, packed, text_of, unpacked


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("shape", [(0,), (7,), (3, 5), (2, 3, 4), (0, 4)])
def test_an_array_arrives_as_it_was_sent(kind: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape)).astype(kind).reshape(shape)
    again = unpacked(packed(array), "array")
    assert again.dtype == array.dtype and np.array_equal(again, array)


def stream(*batches: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def batch(values: Any, name: str = "values") -> pa.RecordBatch:
    return pa.record_batch([values], names=[name])


FOUR = stream(batch(pa.array([1, 2, 3, 4], pa.int64())))


def patched(old: int, new: int) -> bytes:
    """The stream of four integers that says another number somewhere in its head."""
    found = FOUR.replace(struct.pack("<q", old), struct.pack("<q", new))
    assert found != FOUR
    return found


LIES: dict[str, Callable[[], Any]] = {
    "another length": lambda: {"shape": [5], "arrow": FOUR},
    "a product that is another": lambda: {"shape": [2, 3], "arrow": FOUR},
    "a product that overflows": lambda: {"shape": [1 << 40, 1 << 40, 4], "arrow": FOUR},
    "a negative length": lambda: {"shape": [-4], "arrow": FOUR},
    "no axes": lambda: {"shape": [], "arrow": FOUR},
    "many axes": lambda: {"shape": [1] * 9 + [4], "arrow": FOUR},
    "a truth value as a length": lambda: {"shape": [True], "arrow": stream(batch(pa.array([1])))},
    "values that are not there": lambda: {"shape": [1 << 20], "arrow": patched(4, 1 << 20)},
    "buffers beyond the end": lambda: {"shape": [4], "arrow": patched(32, 1 << 33)},
    "cut off": lambda: {"shape": [4], "arrow": FOUR[:-40]},
    "no Arrow": lambda: {"shape": [4], "arrow": b"\x00" * 64},
    "nothing": lambda: {"shape": [4], "arrow": b""},
    "texts": lambda: {"shape": [1], "arrow": stream(batch(pa.array(["a"])))},
    "gaps": lambda: {"shape": [2], "arrow": stream(batch(pa.array([1, None])))},
    "dictionaries": lambda: {"shape": [1], "arrow": stream(batch(pa.array(["a"]).dictionary_encode()))},
    "lists": lambda: {"shape": [1], "arrow": stream(batch(pa.array([[1]])))},
    "two columns": lambda: {"shape": [1], "arrow": stream(pa.record_batch([[1], [2]], names=["a", "b"]))},
    "two blocks": lambda: {"shape": [1], "arrow": stream(batch(pa.array([1])), batch(pa.array([1])))},
    "not finite": lambda: {"shape": [1], "arrow": stream(batch(pa.array([float("nan")])))},
    "infinite": lambda: {"shape": [1], "arrow": stream(batch(pa.array([float("inf")])))},
    "no base64": lambda: {"shape": [4], "arrow": "*" * 8},
    "no text": lambda: {"shape": [4], "arrow": 4},
    "no shape": lambda: {"arrow": FOUR},
    "a list": list,
    "a number": lambda: 3,
}


@pytest.mark.parametrize("lie", LIES)
def test_arrays_that_lie_about_themselves_are_refused(lie: str) -> None:
    content = LIES[lie]()
    if isinstance(content, dict) and isinstance(content.get("arrow"), bytes):
        content["arrow"] = base64.b64encode(content["arrow"]).decode()
    with pytest.raises(ldp.InputError, match="prior must be an array of finite numbers"):
        unpacked(content, "prior")


def test_streams_with_any_byte_changed_are_refused_or_are_arrays_of_that_shape() -> None:
    rng = np.random.default_rng(0)
    for _ in range(400):
        changed = bytearray(FOUR)
        for place in rng.integers(len(changed), size=3):
            changed[place] = rng.integers(256)
        try:
            found = unpacked({"shape": [4], "arrow": base64.b64encode(bytes(changed)).decode()}, "array")
        except ldp.InputError:
            continue
        assert found.shape == (4,)


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b"[" * 1_000_000, b'{"a":' * 100_000, b'{"a": NaN}', b"\xff{}"])
def test_bodies_that_are_no_objects_are_refused(body: bytes) -> None:
    with pytest.raises(ldp.InputError, match="object of JSON"):
        decoded(body)


@pytest.mark.parametrize("value", [3, None, "a\nb", "a" * 201, "\x1b[2J", ["a"]])
def test_texts_are_printable_and_bounded(value: Any) -> None:
    with pytest.raises(ldp.InputError, match="dataset must be a printable text"):
        text_of({"dataset": value}, "dataset")

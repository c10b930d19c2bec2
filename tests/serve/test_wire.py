"""Messages: arrays that say what they are, and such as lie about it."""

import base64
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import labeldp as ldp
from labeldp.serve.wire import TYPES, decoded, packed, packed_rows, text_of, unpacked, unpacked_rows


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("shape", [(0,), (7,), (3, 5), (2, 3, 4), (0, 4)])
def test_an_array_arrives_as_it_was_sent(kind: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape)).astype(kind).reshape(shape)
    again = unpacked(packed(array), "array")
    assert again.dtype == array.dtype and np.array_equal(again, array)


FOUR = packed(np.arange(1, 5))

LIES: dict[str, Any] = {
    "another length": {**FOUR, "shape": [5]},
    "a product that is another": {**FOUR, "shape": [2, 3]},
    "a product that overflows": {**FOUR, "shape": [1 << 40, 1 << 40, 4]},
    "an axis without entries that is too long": {**FOUR, "shape": [0, 1 << 40], "values": ""},
    "a negative length": {**FOUR, "shape": [-4]},
    "two negative lengths": {**FOUR, "shape": [-2, -2]},
    "no axes": {**FOUR, "shape": []},
    "many axes": {**FOUR, "shape": [1] * 9 + [4]},
    "a truth value as a length": {**packed(np.ones(1)), "shape": [True]},
    "a text as a shape": {**FOUR, "shape": "4"},
    "another type": {**FOUR, "type": "i4"},
    "objects": {**FOUR, "type": "O8"},
    "no type": {**FOUR, "type": ["i8"]},
    "cut off": {**FOUR, "values": FOUR["values"][:-4]},
    "nothing": {**FOUR, "values": ""},
    "no base64": {**FOUR, "values": "*" * len(FOUR["values"])},
    "no text": {**FOUR, "values": 4},
    "a list of the right length": {**FOUR, "values": ["A"] * len(FOUR["values"])},
    "not finite": packed(np.array([float("nan")])),
    "infinite": packed(np.array([float("inf")])),
    "Arrow, which may be compressed": {"shape": [4], "arrow": FOUR["values"]},
    "no shape": {"type": "i8", "values": FOUR["values"]},
    "a list": [],
    "a number": 3,
}


@pytest.mark.parametrize("lie", LIES)
def test_arrays_that_lie_about_themselves_are_refused(lie: str) -> None:
    with pytest.raises(ldp.privacy.InputError, match="prior must be an array of finite numbers"):
        unpacked(LIES[lie], "prior")


def test_rows_that_are_compressed_are_refused_before_they_are_unpacked() -> None:
    sink, table = pa.BufferOutputStream(), pa.table({"day": np.zeros(1 << 20)})
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    with pytest.raises(ValueError, match="a stream of rows is not compressed"):
        unpacked_rows(base64.b64encode(sink.getvalue()).decode())
    assert unpacked_rows(packed_rows(table)).equals(table)


@pytest.mark.parametrize("body", [b'{"a": [' + b"[]," * 200_000 + b"[]]}", b'{"a": "' + b"[" * 200_000 + b'"}'])
def test_bodies_of_many_values_are_refused_before_they_are_parsed(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("json.loads", None)
    with pytest.raises(ldp.privacy.InputError, match="at most 100,000 values"):
        decoded(body)


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b"[" * 1_000_000, b'{"a":' * 100_000, b'{"a": NaN}', b"\xff{}"])
def test_bodies_that_are_no_objects_are_refused(body: bytes) -> None:
    with pytest.raises(ldp.privacy.InputError, match="object of JSON"):
        decoded(body)


@pytest.mark.parametrize("value", [3, None, "a\nb", "a" * 201, "\x1b[2J", ["a"]])
def test_texts_are_printable_and_bounded(value: Any) -> None:
    with pytest.raises(ldp.privacy.InputError, match="dataset must be a printable text"):
        text_of({"dataset": value}, "dataset")

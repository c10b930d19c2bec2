"""Messages between an analyst, the front of a server and its vault: JSON, with arrays as Arrow IPC inside."""

import base64
import hashlib
import json
import math
import socket
import struct
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.privacy import InputError

MAX_BODY = 64 << 20
"""The most bytes of one request, and of one answer, where nothing else is said."""

TYPES = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")
"""The types of numbers that an array may hold."""

MAX_AXES = 3

CALLS = ("datasets", "budget", "features", "require", "released", "certificate", "release")
"""What analysts may ask for."""

_HEAD = struct.Struct(">IQ")


def packed(array: NDArray[Any]) -> dict[str, Any]:
    """Return an array of numbers as values of JSON: its shape, and an Arrow IPC stream of one column in base64."""
    flat = np.ascontiguousarray(array)
    if flat.dtype == np.bool_:
        flat = flat.view(np.uint8)
    if flat.dtype.newbyteorder("=").str[1:] not in TYPES:
        raise InputError("must hold integers or floats", argument="array")
    batch = pa.record_batch([pa.array(flat.ravel())], names=["values"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return {"shape": list(flat.shape), "arrow": base64.b64encode(sink.getvalue()).decode()}


def unpacked(content: Any, name: str) -> NDArray[Any]:
    """Return the array that `packed` described, after checking everything that it says of itself.

    Raises:
        InputError: anything else: several columns or blocks, gaps, text, numbers that are not finite, another length.
    """
    wrong = InputError("must be an array of finite numbers: a shape and an Arrow stream of one column", argument=name)
    try:
        shape = [int(each) for each in content["shape"] if isinstance(each, int) and not isinstance(each, bool)]
        data = base64.b64decode(content["arrow"], validate=True)
        if len(shape) != len(content["shape"]) or not 0 < len(shape) <= MAX_AXES or min(shape) < 0:
            raise wrong
        with pa.ipc.open_stream(data) as reader:
            fields = list(reader.schema)
            plain = len(fields) == 1 and fields[0].type in [pa.from_numpy_dtype(kind) for kind in TYPES]
            batch = reader.read_next_batch() if plain else None
            if batch is None or any(True for _ in reader):
                raise wrong
        batch.validate(full=True)
        column = batch.column(0)
        # Every buffer must lie inside of what was sent: a batch may lie about the number of its values.
        width, (_, values) = column.type.bit_width // 8, column.buffers()
        room = 0 if values is None else values.size // width
        if column.null_count or column.offset + len(column) > room or len(column) != math.prod(shape):
            raise wrong
        array = np.array(column.to_numpy(zero_copy_only=True)).reshape(shape)
    except (pa.ArrowException, OSError, StopIteration, KeyError, TypeError, ValueError, OverflowError, MemoryError):
        raise wrong from None
    if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
        raise wrong
    return array


def packed_rows(table: pa.Table) -> str:
    """Return the rows of a table as an Arrow IPC stream in base64."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue()).decode()


def unpacked_rows(text: str) -> pa.Table:
    """Return the rows that `packed_rows` described.

    Raises:
        ValueError: no such rows.
    """
    try:
        with pa.ipc.open_stream(base64.b64decode(text, validate=True)) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, TypeError) as error:
        raise ValueError("no stream of rows") from error
    return table


def encoded(content: Any) -> bytes:
    """Return values of JSON as bytes, the same for the same values."""
    return json.dumps(content, allow_nan=False, sort_keys=True).encode()


def decoded(body: bytes) -> dict[str, Any]:
    """Return the object in a body of JSON.

    Raises:
        InputError: no object of JSON, or one that nests too deeply.
    """
    try:
        content = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise InputError("the body must be an object of JSON") from None
    if not isinstance(content, dict):
        raise InputError("the body must be an object of JSON")
    return content


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def text_of(content: Mapping[str, Any], name: str, most: int = 200, default: str | None = None) -> str:
    """Return a printable text of a request.

    Raises:
        InputError: it is missing, too long, or no such text.
    """
    value = content.get(name, default)
    if not isinstance(value, str) or len(value) > most or not (value == "" or value.isprintable()):
        raise InputError(f"must be a printable text of at most {most} characters", argument=name)
    return value


def order_digest(ids: Iterable[Any]) -> str:
    """Return a digest of record ids in their order, which analysts may know: 7 and "7" are the same id here."""
    digest = hashlib.sha256()
    for each in ids:
        text = each if isinstance(each, bytes) else str(each).encode("utf-8", "surrogatepass")
        digest.update(len(text).to_bytes(8, "big") + text)
    return digest.hexdigest()


def send(pipe: socket.socket, head: Mapping[str, Any], body: bytes = b"") -> None:
    """Write one message to a pipe: the lengths of head and body, and both."""
    start = encoded(head)
    pipe.sendall(_HEAD.pack(len(start), len(body)) + start)
    pipe.sendall(body)


def receive(pipe: socket.socket) -> tuple[dict[str, Any], bytes] | None:
    """Read one message from a pipe; None where the other side is gone."""
    start = _exactly(pipe, _HEAD.size)
    if start is None:
        return None
    lengths = _HEAD.unpack(start)
    head, body = (_exactly(pipe, length) for length in lengths)
    return None if head is None or body is None else (decoded(head), body)


def _exactly(pipe: socket.socket, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        try:
            part = pipe.recv(min(count - len(parts), 1 << 20))
        except ConnectionError:
            return None
        if not part:
            return None
        parts += part
    return bytes(parts)

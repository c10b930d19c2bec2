"""Messages between an analyst, the front of a server and its vault: JSON, with arrays in base64 inside."""

import base64
import hashlib
import json
import math
import socket
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.mechanisms import Description, Mechanism, PublicInput
from labeldp.privacy import Certificate, InputError, json_value
from labeldp.tables import compressed_buffers

MAX_BODY = 64 << 20
"""The most bytes of one request, and of one answer, where nothing else is said."""

TYPES = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")
"""The types of numbers that an array may hold."""

MAX_AXES = 3

MAX_VALUES = 100_000
"""The most values in one body: each takes up to 300 bytes once it is parsed."""

CALLS = ("datasets", "budget", "features", "require", "released", "certificate", "release")
"""What analysts may ask for."""

MAX_REASON = 1000
"""The most characters of a reason."""

_HEAD = struct.Struct(">IQ")


def packed(array: NDArray[Any]) -> dict[str, Any]:
    """Return an array of numbers as values of JSON: its shape, its type, and its entries, row by row, in base64."""
    flat = np.ascontiguousarray(array)
    if flat.dtype == np.bool_:
        flat = flat.view(np.uint8)
    kind = flat.dtype.str[1:]
    if kind not in TYPES:
        raise InputError("must hold integers or floats", argument="array")
    values = base64.b64encode(flat.astype(f"<{kind}", copy=False).tobytes()).decode()
    return {"shape": list(flat.shape), "type": kind, "values": values}


def unpacked(content: Any, name: str) -> NDArray[Any]:
    """Return the array that `packed` described; its length is checked first, and it takes no more than was sent.

    Raises:
        InputError: anything else: another length, another type, numbers that are not finite.
    """
    wrong = InputError("must be an array of finite numbers: a shape, a type, and entries in base64", argument=name)
    try:
        shape, kind, text = content["shape"], content["type"], content["values"]
        if kind not in TYPES or not 0 < len(shape) <= MAX_AXES or not all(type(size) is int for size in shape):
            raise wrong
        size = math.prod(shape) * int(kind[1])
        if min(shape) < 0 or max(shape) > MAX_BODY or len(text) != -(-size // 3) * 4:
            raise wrong
        array = np.frombuffer(base64.b64decode(text, validate=True), f"<{kind}").reshape(shape).astype(kind)
    except (KeyError, TypeError, ValueError):
        raise wrong from None
    if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
        raise wrong
    return array


def described(mechanism: Mechanism) -> dict[str, Any]:
    """Return the description of a mechanism as values of JSON.

    Raises:
        InputError: it is not in the catalog, protects users, or was made of records that workers hold.
    """
    description = mechanism.describe()
    inputs = [
        {
            "name": public.name,
            "why": public.why,
            "releases": [[charge.id for charge in one.entries] for one in public.certificates],
        }
        for public in description.inputs
    ]
    return {
        "name": description.name,
        "arguments": dict(description.arguments),
        "arrays": {name: packed(array) for name, array in description.arrays.items()},
        "inputs": inputs,
        "specification": description.specification,
    }


def described_steps(steps: Mapping[str, Mechanism]) -> dict[str, Any]:
    """Return the descriptions of different mechanisms, and the number of its mechanism for each step."""
    mechanisms: dict[bytes, dict[str, Any]] = {}
    keys = {}
    for step, mechanism in steps.items():
        description = described(mechanism)
        keys[step] = encoded(description)
        mechanisms.setdefault(keys[step], description)
    numbers = {key: number for number, key in enumerate(mechanisms)}
    return {"mechanisms": list(mechanisms.values()), "steps": {step: numbers[key] for step, key in keys.items()}}


def read_description(content: Any, basis: Callable[[list[str]], Certificate]) -> Description:
    """Return the description of a mechanism that was sent; `restore` checks what it says.

    Args:
        content: what `described` returned.
        basis: returns the certificate of earlier releases to the same analyst, by the ids of their charges.

    Raises:
        InputError: no such description.
    """
    if not isinstance(content, Mapping):
        raise InputError("must be the description of one", argument="mechanism")
    name, arguments, arrays = text_of(content, "name"), content.get("arguments"), content.get("arrays")
    if not isinstance(arguments, Mapping):
        raise InputError("must have arguments by name", argument="mechanism")
    if not isinstance(arrays, Mapping) or len(arrays) > 3:
        raise InputError("must be a few arrays by name", argument="arrays")
    held = {str(array_name): unpacked(array, str(array_name)) for array_name, array in arrays.items()}
    return Description(name, arguments, held, _read_inputs(content.get("inputs"), basis), content.get("specification"))


def _read_inputs(content: Any, basis: Callable[[list[str]], Certificate]) -> tuple[PublicInput, ...]:
    """Return what the arrays of a mechanism rest on: reasons, and releases to the same analyst."""
    wrong = InputError("must say for each array why it is public", argument="inputs")
    if not isinstance(content, list) or len(content) > 4:
        raise wrong
    inputs = []
    for entry in content:
        if not isinstance(entry, Mapping) or not isinstance(entry.get("releases"), list):
            raise wrong
        why, releases = text_of(entry, "why", MAX_REASON), entry["releases"]
        if not all(isinstance(ids, list) and ids and all(isinstance(one, str) for one in ids) for ids in releases):
            raise wrong
        if not why and not releases:
            raise wrong
        inputs.append(PublicInput(text_of(entry, "name"), why, tuple(basis(ids) for ids in releases)))
    return tuple(inputs)


def packed_rows(table: pa.Table) -> str:
    """Return the rows of a table as an Arrow IPC stream in base64."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue()).decode()


def unpacked_rows(text: str) -> pa.Table:
    """Return the rows that `packed_rows` described.

    Raises:
        ValueError: no such rows, or compressed ones, which may grow to any size.
    """
    try:
        data = base64.b64decode(text, validate=True)
        if any(compressed_buffers(message.metadata.to_pybytes()) for message in pa.ipc.MessageReader.open_stream(data)):
            raise ValueError("a stream of rows is not compressed")
        with pa.ipc.open_stream(data) as reader:
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
        InputError: no object of JSON, or one that nests too deeply or has too many values.
    """
    if sum(map(body.count, (b"[", b"{", b","))) > MAX_VALUES:
        raise InputError(
            f"the body must be an object of JSON with at most {MAX_VALUES:,} values: send arrays in base64"
        )
    try:
        content = json_value(body)
    except ValueError:
        raise InputError("the body must be an object of JSON") from None
    if not isinstance(content, dict):
        raise InputError("the body must be an object of JSON")
    return content


def text_of(content: Mapping[str, Any], name: str, length: int = 200, default: str | None = None) -> str:
    """Return a printable text of a request.

    Raises:
        InputError: it is missing, too long, or no such text.
    """
    value = content.get(name, default)
    if not isinstance(value, str) or len(value) > length or not (value == "" or value.isprintable()):
        raise InputError(f"must be a printable text of at most {length} characters", argument=name)
    return value


def order_digest(ids: Iterable[Any]) -> str:
    """Return a digest of record ids in their order, which analysts may know: 7 and "7" are the same id here."""
    digest = hashlib.sha256()
    for id_ in ids:
        text = id_ if isinstance(id_, bytes) else str(id_).encode("utf-8", "surrogatepass")
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

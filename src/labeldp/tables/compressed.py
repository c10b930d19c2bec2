"""How large the compressed buffers of Arrow data would be, before any is unpacked.

Arrow unpacks a whole batch at once, and says nowhere in Python how large it will be. The lengths stand in the metadata
(flatbuffers) and before each buffer: `Message.fbs`, `Schema.fbs` and `File.fbs` of the Arrow columnar format, 1.4.
"""

import struct
from collections.abc import Iterator
from typing import BinaryIO

DICTIONARY, BATCH = 2, 3
"""Kinds of messages that have buffers."""


def compressed_buffers(metadata: bytes) -> list[tuple[int, ...]]:
    """Return offset and length of each compressed buffer of a message; none if its buffers are not compressed.

    Raises:
        ValueError: no metadata of a message.
    """
    try:
        [message] = struct.unpack_from("<I", metadata)
        kind, header = _field(metadata, message, 1), _table(metadata, message, 2)
        if kind is None or header is None or metadata[kind] not in (DICTIONARY, BATCH):
            return []
        batch = header if metadata[kind] == BATCH else _table(metadata, header, 1)
        if batch is None or _field(metadata, batch, 3) is None:
            return []
        return list(_structs(metadata, batch, 2, "<qq"))
    except (struct.error, IndexError) as error:
        raise ValueError("no metadata of Arrow") from error


def largest_batch(file: BinaryIO, size: int) -> int:
    """Return the bytes of all dictionaries and of the largest batch of an Arrow file, as far as it is compressed.

    Args:
        file: the file.
        size: its bytes.

    Raises:
        ValueError: no Arrow file, or one that points beyond itself.
    """
    file.seek(size - 10)
    [length] = struct.unpack("<i", file.read(4))
    footer = _read(file, size - 10 - length, length)
    try:
        [start] = struct.unpack_from("<I", footer)
        dictionaries, batches = (
            [_unpacked(file, *block) for block in _structs(footer, start, field, "<qi4xq")] for field in (2, 3)
        )
    except struct.error as error:
        raise ValueError("no footer of Arrow") from error
    return sum(dictionaries) + max(batches, default=0)


def _unpacked(file: BinaryIO, place: int, length: int, body: int) -> int:
    """Return the bytes of the compressed buffers of a message at a place."""
    text = _read(file, place, length)
    total = 0
    for offset, held in compressed_buffers(text[8:] if text.startswith(b"\xff" * 4) else text[4:]):
        if held:
            [said] = struct.unpack("<q", _read(file, place + length + offset, 8))
            total += max(said, held)  # -1: it is not compressed
    return total


def _read(file: BinaryIO, place: int, length: int) -> bytes:
    if place < 0 or length < 0:
        raise ValueError("outside of the file")
    file.seek(place)
    content = file.read(length)
    if len(content) != length:
        raise ValueError("outside of the file")
    return content


def _field(data: bytes, table: int, number: int) -> int | None:
    """Return where a field of a flatbuffers table stands; None if it is left out."""
    entries = table - struct.unpack_from("<i", data, table)[0]
    slot = 4 + 2 * number
    if slot >= struct.unpack_from("<H", data, entries)[0]:
        return None
    [offset] = struct.unpack_from("<H", data, entries + slot)
    return table + offset if offset else None


def _table(data: bytes, table: int, number: int) -> int | None:
    """Return where the table or vector that a field points to begins."""
    place = _field(data, table, number)
    return None if place is None else int(place + struct.unpack_from("<I", data, place)[0])


def _structs(data: bytes, table: int, number: int, form: str) -> Iterator[tuple[int, ...]]:
    """Yield the entries of a vector of structs."""
    place = _table(data, table, number)
    if place is not None:
        [count] = struct.unpack_from("<I", data, place)
        for entry in range(count):
            yield struct.unpack_from(form, data, place + 4 + struct.calcsize(form) * entry)

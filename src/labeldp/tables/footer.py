"""The metadata of a Parquet file, in the one form that every reader understands alike.

Readers of Parquet differ where a footer is unusual. Some take the first of two equal keys, some the last. Some skip
bytes behind the footer, cut numbers to 16 or 32 bits, or ignore the declared type of a list. A value is read only where
none of this matters. The format is that of `parquet.thrift` 2.11 in apache/parquet-format and of Thrift's compact
protocol.
"""

from pathlib import Path
from typing import Any

MAGIC, TAIL = b"PAR1", 8
"""The end of a file, and how many bytes stand behind its footer: the length of that and `MAGIC`."""

PAIRS, KEY, VALUE = 5, 1, 2
"""Numbers of fields: the pairs of a footer; the key and the value of a pair."""

BINARY, LIST, STRUCT = 8, 9, 12
INTEGERS, FIXED = (4, 5, 6), {1: 0, 2: 0, 3: 1, 7: 8}
"""Types of Thrift: integers of a variable length, and values of so many bytes."""

LISTS = {(2,): 12, (4,): 12, (4, 1): 12, (4, 1, 3, 2): 5, (4, 1, 3, 3): 8, (4, 1, 3, 8): 12, (4, 1, 3, 13): 12}
LISTS |= {(4, 1, 3, 16, 2): 6, (4, 1, 3, 16, 3): 6, (4, 1, 3, 17, 2): 5, (4, 4): 12, (5,): 12, (7,): 12}
"""Types of the items of a footer's lists, by the numbers of their fields: readers do not look at the declared type."""

DEEPEST, MOST_BYTES = 16, 10
"""Of structs within each other, and of an integer."""


def read_value(path: Path, key: bytes) -> bytes | None:
    """Return the value of a key in the metadata of a Parquet file; None without it.

    Raises:
        ValueError: the footer is damaged, or readers may understand it differently.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2) - TAIL
        file.seek(max(size, 0))
        tail = file.read()
        length = int.from_bytes(tail[:-4], "little")
        if tail[-4:] != MAGIC or length > size - len(MAGIC):
            raise ValueError("no footer of Parquet")
        file.seek(size - length)
        footer = _Footer(file.read(length))
    pairs = footer.struct(()).get(PAIRS, [])
    if footer.place != length or not all([*map(type, pair.values())] == [bytes, bytes] for pair in pairs):
        raise ValueError("other bytes or types than those of a footer")
    if not all([*pair] == [KEY, VALUE] for pair in pairs):
        raise ValueError("a pair without a key or a value")
    values: list[bytes] = [pair[VALUE] for pair in pairs if pair[KEY] == key]
    if len(values) > 1:
        raise ValueError("the key occurs twice")
    return values[0] if values else None


class _Footer:
    """A reader of Thrift's compact protocol."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.place = raw, 0

    def struct(self, path: tuple[int, ...]) -> dict[int, Any]:
        """Return the fields of a struct by their numbers, which must ascend by less than 16, as all writers do."""
        fields: dict[int, Any] = {}
        number = 0
        while head := self._take(1)[0]:
            if not head >> 4 or len(path) == DEEPEST:
                raise ValueError("fields in an unusual order")
            number += head >> 4
            fields[number] = self._value(head & 15, (*path, number))
        return fields

    def _value(self, kind: int, path: tuple[int, ...]) -> Any:
        if kind in INTEGERS:
            return self._integer()
        if kind in FIXED:
            return self._take(FIXED[kind])
        if kind == BINARY:
            return self._take(self._integer())
        if kind == STRUCT:
            return self.struct(path)
        head = self._take(1)[0]
        count = head >> 4 if head >> 4 < 15 else self._integer()
        if kind != LIST or LISTS.get(path) != head & 15 or count > len(self.raw) - self.place:
            raise ValueError("a type or a list that no footer has")
        return [self._value(head & 15, path) for _ in range(count)]

    def _integer(self) -> int:
        """Return an integer without its sign, as lengths are written."""
        value = 0
        for position in range(MOST_BYTES):
            byte = self._take(1)[0]
            value |= (byte & 127) << 7 * position
            if byte < 128:
                return value
        raise ValueError("a number is too long")

    def _take(self, size: int) -> bytes:
        if size > len(self.raw) - self.place:
            raise ValueError("the footer is cut")
        self.place += size
        return self.raw[self.place - size : self.place]

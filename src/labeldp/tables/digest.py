"""A digest of a released column that does not depend on the file format or on the size of the blocks."""

import hashlib
from collections.abc import Iterable
from typing import Any, final

import numpy as np
import pyarrow as pa

from labeldp.tables.values import as_text, plain

MISSING = 0xFFFFFFFF


@final
class ColumnDigest:
    """SHA-256 over the texts of a column in row order, taken block by block.

    Two streams are hashed, the lengths of the texts in bytes (4 bytes each, little end first) and the
    texts one after the other in UTF-8; the digest is the hash of both hashes. No two columns of
    texts give the same streams.

    Example:
        >>> whole, halves = ColumnDigest(), ColumnDigest()
        >>> whole.add(["yes", "no"])
        >>> halves.add(["yes"]); halves.add(["no"])
        >>> whole.value() == halves.value()
        True
    """

    def __init__(self) -> None:
        self._lengths = hashlib.sha256()
        self._texts = hashlib.sha256()
        self.rows = 0

    def add(self, values: Any) -> None:
        """Take in the next values: an Arrow or numpy array, or a list, of texts or numbers."""
        if not isinstance(values, pa.Array):
            values = pa.array(values)
        texts = as_text(plain(values), "released")
        _, offsets, data = texts.buffers()
        edges = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
        lengths = np.diff(edges).astype("<u4")
        lengths[texts.is_null().to_numpy(zero_copy_only=False)] = MISSING
        self._lengths.update(lengths.tobytes())
        if data is not None and len(texts):
            self._texts.update(memoryview(data)[edges[0] : edges[-1]])
        self.rows += len(texts)

    def value(self) -> str:
        """The digest of what was added so far, as 64 hexadecimal digits."""
        return hashlib.sha256(self._lengths.digest() + self._texts.digest()).hexdigest()


def column_digest(blocks: Iterable[Any]) -> str:
    """The digest of a column given as arrays of consecutive values."""
    digest = ColumnDigest()
    for values in blocks:
        digest.add(values)
    return digest.value()

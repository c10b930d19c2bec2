"""Encrypted temporary storage of the blocks of a table."""

import os
import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import Any, final

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from labeldp.privacy import explain_full_disk


@final
class Spool:
    """Blocks in a temporary file that can be read several times; use it as a context.

    Use it to read a table once: a second pass sees the same blocks even if the table changed meanwhile.

    Args:
        folder: a directory on a disk with room for the blocks, about as large as they are in memory.

    Guarantee (encrypted, nameless): the file is encrypted under a key that is never written; it has no name, so that
        the end of the process, however it ends, removes it.

    Example:
        >>> with Spool(".") as spool:
        ...     spool.add(pa.record_batch({"label": ["no", "yes"]}))
        ...     [block.num_rows for _ in range(2) for block in spool.blocks()]
        [2, 2]
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._key, self._ends = os.urandom(32), [0]
        self._name = f"a temporary file in {folder}"
        with explain_full_disk(self._name):
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  (`__exit__` closes it)

    def __enter__(self) -> "Spool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def __len__(self) -> int:
        """Return the number of blocks."""
        return len(self._ends) - 1

    def add(self, block: pa.RecordBatch) -> None:
        """Append a block of any schema."""
        measured = pa.MockOutputStream()
        _write(measured, block)
        content = np.empty(measured.size(), dtype=np.uint8)
        _write(pa.FixedSizeBufferWriter(pa.py_buffer(content)), block)
        start = self._ends[-1]
        self._crypt(content, start)
        with explain_full_disk(self._name):
            self._file.seek(start)
            self._file.write(content.data)
            self._file.flush()
        self._ends.append(start + -(-len(content) // 16) * 16)  # the next one begins with a block of the cipher

    def blocks(self, first: int = 0, last: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield blocks in the order in which they were added, from number `first` to before number `last`."""
        for start, end in list(zip(self._ends, self._ends[1:], strict=False))[first:last]:
            content = np.empty(end - start, dtype=np.uint8)
            self._file.seek(start)
            self._file.readinto(content.data)
            self._crypt(content, start)
            with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
                yield reader.read_next_batch()

    def _crypt(self, content: NDArray[np.uint8], start: int) -> None:
        """Encrypt or decrypt the content at a place of the file, with a keystream that is used once."""
        counter = modes.CTR((start // 16).to_bytes(16, "big"))
        view = content.data
        Cipher(algorithms.AES256(self._key), counter).encryptor().update_into(view, view)

    def __repr__(self) -> str:
        return "Spool(<secret>)"


def _write(sink: Any, block: pa.RecordBatch) -> None:
    with sink, pa.ipc.new_stream(sink, block.schema) as writer:
        writer.write_batch(block)

"""A keyed fingerprint of a set of labelled records, independent of their order."""

from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from labeldp.privacy.randomness import BLOCK, Ids, counter_blocks, derive


class LabelDigest:
    """Sums a pseudo-random function of (id, label) over records, in any order and any split.

    It tells whether the labels are the same as before. Under its key only: without the key it says
    nothing, with it a label could be searched for, so key and digest stay in the ledger.
    """

    def __init__(self, key: bytes) -> None:
        self._key = derive(key, b"label digest")
        self._sum = np.zeros(2, dtype=np.uint64)
        self._count = 0

    def update(self, ids: Ids, codes: NDArray[Any]) -> None:
        """Add records: ids (n,) or (n, 12), codes (n,)."""
        cipher = Cipher(algorithms.AES256(self._key), modes.ECB()).encryptor()
        for start in range(0, len(codes), BLOCK):
            plain = counter_blocks(ids[start : start + BLOCK], codes[start : start + BLOCK])
            secret = np.frombuffer(cipher.update(plain.tobytes()), dtype="<u8").reshape(-1, 2)
            self._sum += secret.sum(axis=0, dtype=np.uint64)
        self._count += len(codes)

    def hexdigest(self) -> str:
        """The digest so far: 128 bits and the number of records."""
        return f"{int(self._sum[0]):016x}{int(self._sum[1]):016x}-{self._count}"

    def __repr__(self) -> str:
        return "LabelDigest(<secret>)"

"""A batch that does not fit into memory is the user's mistake: it gets a sentence, not a traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from labeldp.privacy import InputError

SIGNS = ("out of memory", "can't allocate memory", "not enough memory")


@contextmanager
def refusing_large_batches(batch: int, records: int) -> Iterator[None]:
    """Turn the failure of an allocation into a refusal that names a batch that should fit.

    Raises:
        InputError: memory was not enough.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not any(sign in str(error) for sign in SIGNS):
            raise
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        used = min(batch, records)
        raise InputError(
            f"a batch of {used} records does not fit into memory: take batch={max(used // 2, 2)} or less"
        ) from error

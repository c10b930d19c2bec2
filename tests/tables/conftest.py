"""What several tests of this room need."""

import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest


@contextmanager
def _small_disk(size: int) -> Iterator[None]:
    """No file may grow beyond `size` bytes; the error comes from the system, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def small_disk() -> Callable[[int], AbstractContextManager[None]]:
    """A context in which the disk fills up at so many bytes a file."""
    return _small_disk

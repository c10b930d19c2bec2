"""Base classes of objects that must not be copied, or not leave the process that made them."""

import os
from typing import ClassVar, NoReturn

from labeldp.privacy.errors import InputError

_generation = [0]


def _count_fork() -> None:
    """Give a forked child another number, even if the system reuses one."""
    _generation[0] += 1


os.register_at_fork(after_in_child=_count_fork)


class NotCopyable:
    """Base of objects whose copy would be a second budget, a second draw, or one more place for a secret.

    Guarantee (no_copy): `copy.copy`, `copy.deepcopy` and `pickle` raise.
    """

    _why_no_copy: ClassVar[str]
    """The message of the error: why not, and what to do instead."""

    def __reduce__(self) -> NoReturn:
        raise InputError(self._why_no_copy)


class SingleProcess(NotCopyable):
    """Base of objects that keep spending or state in memory, which a fork would not share.

    Guarantee (no_fork): a fork of the process is refused, by `check_process`.
    """

    _why_no_fork: ClassVar[str]
    """The message of the error in a fork of the process."""

    def _claim_process(self) -> None:
        """Bind this object to the current process."""
        self._process = (os.getpid(), _generation[0])

    def check_process(self) -> None:
        """Refuse in any process but the one that made this.

        Raises:
            InputError: nothing was charged or drawn.
        """
        if self._process != (os.getpid(), _generation[0]):
            raise InputError(self._why_no_fork)

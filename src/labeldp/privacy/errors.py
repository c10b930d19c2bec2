"""One tree of errors. Messages name the argument and what would be right, and never a label."""

import errno
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import wraps
from typing import Any

DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@dataclass(frozen=True)
class Argument:
    """The name of an argument inside the sentence of an error, alone or with a value that it could have."""

    name: str
    value: str | None = None

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name}={self.value}"

    def typed(self, flags: Mapping[str, str]) -> str:
        """Return the argument as typed on a command line, or its Python form if it has no flag."""
        flag = flags.get(self.name)
        return str(self) if flag is None else flag if self.value is None else f"{flag} {self.value}"


class LabelDPError(Exception):
    """The root: whatever labeldp refuses to do, it refuses with one of these."""


class InputError(LabelDPError, ValueError):
    """An argument is wrong; nothing was charged.

    The error knows the arguments that its sentence names, so that Python and a command line can each name them in
    their own way.

    Args:
        sentence: the parts of the sentence, which are joined: texts, and an `Argument` for each name.
        argument: the argument that is wrong, or several: the sentence begins with it.

    Attributes:
        arguments: the names of the arguments that are wrong; empty where the error names none.

    Examples:
        >>> error = InputError("must lie in (0, 1), such as ", Argument("delta", "1e-6"), argument="delta")
        >>> str(error)
        'delta must lie in (0, 1), such as delta=1e-6'
        >>> error.typed({"delta": "--delta"})
        '--delta must lie in (0, 1), such as --delta 1e-6'
    """

    def __init__(self, *sentence: str | Argument, argument: str | tuple[str, ...] = ()) -> None:
        self.arguments = (argument,) if isinstance(argument, str) else argument
        spaced = self.arguments and not str(sentence[0]).startswith(":")
        self._sentence = (" ", *sentence) if spaced else sentence
        super().__init__(self.typed({}))

    def typed(self, flags: Mapping[str, str]) -> str:
        """Return the sentence with the flags of a command line in place of arguments.

        Args:
            flags: the flag of each argument, such as {"noisy_fraction": "--noisy-fraction"}.
        """
        begin = " and ".join(dict.fromkeys(flags.get(name, name) for name in self.arguments))
        parts = (part.typed(flags) if isinstance(part, Argument) else part for part in self._sentence)
        return begin + "".join(parts)


class DomainError(InputError):
    """A label lies outside the declared domain, or is missing."""


class UnreadableRows(InputError):
    """Rows of a file cannot be read, and their labels may be why: wherever labels are private it counts as a rejection.

    The message says neither which rows nor what is in them.

    Attributes:
        counted: whether a ledger has counted it.
    """

    counted = False


class NotInvertibleError(InputError):
    """The noise has no inverse, so an unbiased estimate does not exist."""


class BudgetExceeded(LabelDPError):
    """The charge would exceed the budget; nothing was charged and nothing was drawn."""


class LedgerError(LabelDPError):
    """The ledger file cannot be used as asked."""


class PrivacyWarning(UserWarning):
    """A guarantee is weak: epsilon is above 10, or delta is not below one over the number of records."""


class NewLedgerWarning(PrivacyWarning):
    """A ledger was created with a new budget, which a mistyped name would do, too."""


@contextmanager
def explain_full_disk(what: str) -> Iterator[None]:
    """Turn the error of a disk that is full, or for reading only, into a LabelDPError that says so."""
    try:
        yield
        return
    except OSError as error:
        if error.errno == errno.EROFS:
            problem = f"the disk is for reading only: {what} was not written"
        elif error.errno in DISK_FULL:
            problem = f"the disk is full, or its quota is: {what} was not written; make room and run again"
        else:
            raise
    raise LabelDPError(problem)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return "did you mean 'x'?" for the name that is spelled most alike, in whatever case; "" if none is."""
    spelled = {text.casefold(): text for text in names}
    near = get_close_matches(name.casefold(), spelled, n=1)
    return f"did you mean {spelled[near[0]]!r}?" if near else ""


def even_if_refused(method: Callable[[Any], str]) -> Callable[[Any], str]:
    """Return a `__repr__` that tools can call on an object whose constructor refused: they print it with the error."""

    @wraps(method)
    def text(instance: Any) -> str:
        try:
            return method(instance)
        except AttributeError:
            return f"{type(instance).__name__}(<refused>)"

    return text


UNTIL_MADE: Any = None
"""The value of a field that a constructor computes, as long as it may still refuse."""

"""Files whose rows cannot be read: their labels may be why, so the ledger counts them like labels that do not fit."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from typing import Any, TypeVar, cast

from labeldp.curator.dataset_ledger import DatasetLedger
from labeldp.curator.datasets import Declared
from labeldp.curator.memory_ledger import Ledger
from labeldp.curator.opening import dataset_of, declared_domain
from labeldp.mechanisms import Domain
from labeldp.privacy import Request, UnreadableRows

Answer = TypeVar("Answer", bound=Callable[..., Any])


@contextmanager
def counting_unreadable(account: Callable[[], DatasetLedger | Ledger], domain: Domain | Declared) -> Iterator[None]:
    """Let the body read files; if their rows cannot be read, the ledger counts a rejection before the error leaves.

    Use it around all that reads a file with private labels, whichever columns it reads.

    Args:
        account: opens the ledger, when it is needed.
        domain: the domain that labels would be compared with.

    Raises:
        UnreadableRows: as the body raised it, and counted.
        LedgerError: the ledger cannot be used; nothing is told of the file.
    """
    try:
        yield
        return
    except UnreadableRows as error:
        if error.counted:
            raise
        unreadable = error
    with account().comparing(domain):
        raise unreadable


def counts_unreadable(answer: Answer) -> Answer:
    """Decorate a function that answers a request for data; without a ledger nothing is counted."""

    @wraps(answer)
    def counted(request: Request, data: Any, *, ledger: Any = None, **more: Any) -> Any:
        def account() -> DatasetLedger:
            return dataset_of(request, ledger, more.get("new_budget"))

        with nullcontext() if ledger is None else counting_unreadable(account, declared_domain(request)):
            return answer(request, data, ledger=ledger, **more)

    return cast(Answer, counted)

"""Files whose rows cannot be read: their labels may be why, so the ledger counts them like labels that do not fit."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from labeldp.curator.dataset_ledger import DatasetLedger
from labeldp.curator.datasets import Declared
from labeldp.curator.ledger_file import LedgerFile
from labeldp.curator.memory_ledger import Ledger
from labeldp.mechanisms import Domain
from labeldp.privacy import Budget, UnreadableRows

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


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


def counts_unreadable(release: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorate a release of a file, whose keywords name the ledger, the dataset and the domain."""

    @wraps(release)
    def counted(*arguments: Arguments.args, **keywords: Arguments.kwargs) -> Result:
        with counting_unreadable(lambda: _account(keywords), keywords.get("domain")):  # type: ignore[arg-type]
            return release(*arguments, **keywords)

    return counted


def _account(keywords: dict[str, Any]) -> DatasetLedger:
    """Open the ledger that a release names; a new one gets the cost of the release as its budget."""
    names = {name: keywords[name] for name in ("cohort", "revision", "other_ids") if name in keywords}
    budget = keywords.get("new_budget") or Budget(keywords["epsilon"], keywords.get("delta", 0))
    return LedgerFile(keywords["ledger"]).dataset(keywords["dataset"], budget=budget, **names)

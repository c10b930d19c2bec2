"""The opening of an account in a ledger file: every refusal that needs no label, once, in one order."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from labeldp.curator.dataset_ledger import DatasetLedger
from labeldp.curator.datasets import IDS_KIND, LOSSES, ROWS_KIND, Declared, find_dataset
from labeldp.curator.ledger_file import open_dataset
from labeldp.curator.ledger_store import Store
from labeldp.curator.snapshot import DatasetSnapshot
from labeldp.mechanisms import Domain
from labeldp.privacy import Budget, InputError, PendingCharge, RandomnessKind, Request, Scope

OfAccount = Callable[[DatasetLedger], Any]
"""Returns public facts of the records, or their mechanism, from an account, whose keys hash their ids."""


def dataset_of(request: Request, ledger: str | os.PathLike[str], budget: Budget | None = None) -> DatasetLedger:
    """Return the dataset of a ledger file that a request names; nothing of it was checked.

    Args:
        request: names the dataset, its cohort and revision.
        ledger: the path of the ledger file, which may not exist yet.
        budget: of a ledger that does not exist yet; by default what the request costs.
    """
    scope = request.scope
    account = open_dataset(
        Store(ledger),
        scope.name,
        cohort=scope.cohort or None,
        revision=scope.revision or None,
        other_ids=bool(request.options.get("other_ids")),
        budget=budget or request.budget,
    )
    return account.of_request(request)


def declared_domain(request: Request) -> Domain | Declared:
    """Return the domain that a request declares; losses have one of their own."""
    return Domain.from_json(request.domain) if request.domain else LOSSES


def open_account(
    request: Request,
    ledger: str | os.PathLike[str],
    *,
    public: Iterable[str | None] = (),
    out: str | os.PathLike[str] | None = None,
    named: bool = False,
    users: OfAccount | None = None,
    records: OfAccount | None = None,
    count: Callable[[], int] | None = None,
    mechanism: OfAccount | None = None,
    times: int = 1,
    budget: Budget | None = None,
    note: Callable[[str], None] | None = None,
) -> DatasetLedger:
    """Return the account that pays for a request, after all refusals that need no label; nothing is charged.

    Every way to release labels to a ledger file opens its account here, before it compares a label. The order is:
    private columns, the output, the unit of protection with its users, the kind of ids, the records, the domain, the
    number of records, the budget. So the answer to a request that is refused for one of these reasons does not depend
    on labels. The functions are called in this order; they read public columns alone.

    Args:
        request: what is asked; it names the dataset, its cohort and revision, and the domain.
        ledger: the path of the ledger file, which may not exist yet.
        public: the columns that are read as public, or published, and None.
        out: the output, or None.
        named: whether the records have ids; otherwise row numbers are their names.
        users: returns the digest of the users of the records; None where single records are protected.
        records: returns the digest of the record ids, or None for row numbers; without it they are not known.
        count: returns the number of records. It is called only if the ledger knows how many there must be.
        mechanism: returns what will be released of all records; without it the caller checks the budget, by
            `DatasetSnapshot.foresee`, before it reads labels.
        times: the number of its answers that one user pays for.
        budget: of a ledger that does not exist yet; by default what the request costs.
        note: called with a sentence about a new ledger.

    Guarantee (labels_last): no label is read; the request is stored with each charge of the account.

    Raises:
        InputError: an option is unknown, a public column holds private labels of the dataset, or the output is the
            ledger.
        LedgerError: the ledger cannot be used, or holds other users, ids, records or another domain.
        BudgetExceeded: the budget does not admit the mechanism.
    """
    request.check_options()
    account = dataset_of(request, ledger, budget)
    state = account.state
    state.refuse_private(public)
    if out is not None and Path(out).absolute() == Path(ledger).absolute():
        raise InputError("must be different files", argument=("out", "ledger"))
    unit, whose = request.scope.unit, None if users is None else users(account)
    state.check_unit(unit, whose)
    state.check_ids(named)
    if records is not None:
        account = account.of_records(records(account), state)
        state = account.state
    state.check_domain(declared_domain(request))
    if count is not None and state.count is not None:
        state.check_count(count())
    if mechanism is not None:
        chosen, scheme = mechanism(account), IDS_KIND if named else ROWS_KIND
        specification, loss = chosen.specification(), chosen.privacy_loss() * times
        state.afford(
            PendingCharge(specification, loss, scheme=scheme, randomness=RandomnessKind.KEYED, unit=unit, users=whose)
        )
    if note is not None and (creation := account.creation(ledger)):
        note(creation)
    return account


def refuse_private(ledger: str | os.PathLike[str], name: str, columns: Iterable[str | None]) -> None:
    """Raise InputError if a column that is read as public has private labels of a dataset that is in a ledger file."""
    store, scope = Store(ledger), Scope(name)
    if not store.exists:
        return
    with store.reading() as connection:
        if find_dataset(connection, name) is None:
            scope = Scope.parse(name)
        DatasetSnapshot.read(connection, store.path, scope).refuse_private(columns)


def read_account(ledger: str | os.PathLike[str], name: str) -> DatasetSnapshot | None:
    """Return what a ledger file holds of a dataset; None if there is no file yet, or no dataset in it.

    Raises:
        LedgerError: the file has other datasets alone.
    """
    store = Store(ledger)
    state = open_dataset(store, name, budget=Budget(1)).state  # any budget admits a file that does not exist
    return None if state.is_new else state

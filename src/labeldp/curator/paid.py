"""The accounts of a dataset in a ledger file: one for each analyst, and one for requests without an analyst."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from sqlite3 import Connection
from typing import Any

from labeldp.accounting import Account, Books, Cost, Entry, Limits, Payment, Policy
from labeldp.curator.cohorts import without_cohort
from labeldp.curator.datasets import Dataset, budget_from, numbers_from
from labeldp.privacy import (
    Budget,
    BudgetExceeded,
    InputError,
    LedgerError,
    Numbers,
    OpenPlan,
    Path,
    Plan,
    PrivacyLoss,
    Span,
    Step,
    as_written,
    largest_of,
    numbers_of,
    read_stored,
    stored_fraction,
)

OWNER = ""
"""Stands for whoever names no analyst: their account is opened by their first charge, with all that is left."""

ACCOUNTS = (
    "SELECT analyst, epsilon, delta, versions, policy, loss, tail, rate, failure, reserve FROM account "
    "WHERE dataset = ? ORDER BY rowid"
)


@dataclass(frozen=True)
class StoredAccount:
    """The row of an account.

    Args:
        analyst: whose it is.
        account: the account; without limits before its first charge.
        versions: every budget under which it was charged, oldest first.
    """

    analyst: str
    account: Account
    versions: tuple[Numbers, ...] = ()

    @property
    def counted(self) -> tuple[Numbers, ...]:
        """The budgets that count among several accounts: each under which it was charged, and the present one."""
        return tuple(dict.fromkeys((*self.versions, numbers_of(self.account.budget))))


def accounts_of(connection: Connection, dataset: Dataset) -> dict[str, StoredAccount]:
    """Return the accounts of a dataset that were opened, by analyst."""
    accounts = {}
    for analyst, epsilon, delta, versions, policy, *limits in connection.execute(ACCOUNTS, (dataset.id,)):
        chosen, numbers = (None, None) if policy is None else as_written(partial(_limits_from, policy, limits))
        name = f"your share of {dataset.name!r}" if analyst else repr(dataset.name)
        account = Account(name, budget_from(epsilon, delta), chosen, numbers)
        accounts[analyst] = StoredAccount(analyst, account, read_stored(versions, numbers_from))
    return accounts


def _limits_from(policy: str, limits: Iterable[str]) -> tuple[Policy, Limits]:
    """Return what the first charge of an account decided, from its columns."""
    numbers = [stored_fraction(limit) for limit in limits]
    if min(numbers) < 0:
        raise ValueError("a limit is not negative")
    return Policy(policy), Limits(*numbers)


def account_of(connection: Connection, dataset: Dataset, analyst: str) -> StoredAccount:
    """Return the account that is charged for an analyst; without an analyst, one with all that is left.

    Raises:
        LedgerError: nothing is reserved for the analyst.
        BudgetExceeded: no analyst is named, and nothing is left.
    """
    return account_in(tuple(accounts_of(connection, dataset).values()), dataset, analyst)


def account_in(accounts: Sequence[StoredAccount], dataset: Dataset, analyst: str) -> StoredAccount:
    """Return the account of an analyst among those that were opened; see `account_of`."""
    for account in accounts:
        if account.analyst == analyst:
            return account
    if analyst != OWNER:
        raise LedgerError(
            f"nothing of the budget of {dataset.name!r} is reserved for {analyst!r}; nothing was charged. Reserve a "
            "share first: LedgerFile.reserve, or the configuration of the server"
        )
    epsilon, delta = unopened(dataset.budget, accounts)
    if epsilon <= 0 or delta < 0:
        raise BudgetExceeded(f"the budget of {dataset.name!r} is reserved to analysts as a whole; nothing was charged")
    budget = budget_from(str(epsilon), str(delta)) if accounts else dataset.budget
    return StoredAccount(OWNER, Account(repr(dataset.name), budget))


def unopened(budget: Budget, accounts: Iterable[StoredAccount]) -> Numbers:
    """Return what is left of a budget: an account counts once for each budget under which it was charged.

    Source: `docs/proofs/composition.md`, the account, Theorems 7 and 8.
    """
    epsilon, delta = numbers_of(budget)
    for account in accounts:
        for account_epsilon, account_delta in account.counted:
            epsilon, delta = epsilon - account_epsilon, delta - account_delta
    return epsilon, delta


def promised_of(budget: Budget, accounts: Sequence[StoredAccount]) -> Budget:
    """Return the joint bound of all accounts; for one account, the largest of each number that its budget had."""
    versions = accounts[0].versions if len(accounts) == 1 else ()
    return Budget(*largest_of((*versions, numbers_of(budget))))


def read_books(connection: Connection, dataset: Dataset, account: StoredAccount) -> Books:
    """Return an account with its charges."""
    key = (dataset.id, account.analyst)
    paid = "SELECT low, high, path, loss, tail, rate, failure FROM paid WHERE dataset = ? AND analyst = ?"
    plans = "SELECT low, high, steps, taken FROM plan WHERE dataset = ? AND analyst = ? AND done = 0 ORDER BY rowid"
    return books_from(dataset, account, connection.execute(paid, key), connection.execute(plans, key))


def books_from(
    dataset: Dataset, account: StoredAccount, paid: Iterable[Sequence[Any]], plans: Iterable[Sequence[Any]]
) -> Books:
    """Return an account with its charges, from their rows."""
    opened = [_open_plan(dataset, *row) for row in plans]
    return Books(account.account, tuple([entry_from(row) for row in paid]), tuple(opened))


def _open_plan(dataset: Dataset, low: int, high: int, steps: str, taken: str) -> OpenPlan:
    public, span = read_stored(steps, Plan.from_json), (low, high)
    plan = Plan(
        public.name,
        tuple(replace(step, path=without_cohort(step.path, dataset.secret), span=span) for step in public.steps),
    )
    return OpenPlan(plan, read_stored(taken, _taken_from))


def _taken_from(rows: Iterable[list[Any]]) -> tuple[tuple[int, Step], ...]:
    zero = PrivacyLoss.zero()
    return tuple(
        (int(number), Step("", zero, as_path(path), int(times), (int(low), int(high))))
        for number, low, high, path, times in rows
    )


def write_payment(
    connection: Connection, dataset: Dataset, account: StoredAccount, payment: Payment, prefix: Path
) -> tuple[Plan | None, tuple[Numbers, ...]]:
    """Store the payment of a release; return its plan and the budgets of its account, as certificates have them."""
    key = (dataset.id, account.analyst)
    versions = tuple(dict.fromkeys((*account.versions, numbers_of(account.account.budget))))
    paid = payment.books.account
    assert paid.limits is not None and paid.policy is not None
    texts = json.dumps([[str(number) for number in budget] for budget in versions])
    numbers = [*map(str, numbers_of(paid.budget)), texts, str(paid.policy.value)]
    limits = [str(getattr(paid.limits, name)) for name in ("loss", "tail", "rate", "failure", "reserve")]
    connection.execute(
        "INSERT INTO account VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
        "versions = excluded.versions, policy = excluded.policy, loss = excluded.loss, tail = excluded.tail, "
        "rate = excluded.rate, failure = excluded.failure, reserve = excluded.reserve",
        (*key, *numbers, *limits),
    )
    if payment.entry is not None:
        span, path, _ = payment.entry
        [cost] = [entry.cost for entry in payment.books.entries if entry[:2] == (span, path)]
        row = (*key, *span, json.dumps(path), *cost.to_texts())
        connection.execute("INSERT OR REPLACE INTO paid VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    if payment.plan is None:
        return None, versions
    plan = payment.plan
    if payment.entry is not None:
        public = Plan(
            plan.plan.name,
            tuple(replace(step, path=(*prefix, *step.path), span=(0, 0)) for step in plan.plan.steps),
        )
        steps = json.dumps(public.to_json(), sort_keys=True)
        values = (plan.plan.name, *key, *plan.plan.steps[0].span, steps)
        connection.execute("INSERT INTO plan VALUES (?, ?, ?, ?, ?, ?, '[]', 0)", values)
    taken = [[number, *step.span, step.path, step.times] for number, step in plan.taken]
    connection.execute(
        "UPDATE plan SET taken = ?, done = ? WHERE name = ?", (json.dumps(taken), plan.is_done, plan.plan.name)
    )
    [(text,)] = connection.execute("SELECT steps FROM plan WHERE name = ?", (plan.plan.name,)).fetchall()
    return read_stored(text, Plan.from_json), versions


def reserve(connection: Connection, dataset: Dataset, parts: Mapping[str, Fraction]) -> None:
    """Open an account with a part of the budget for each analyst without an account.

    Raises:
        InputError: not a part from 0 to 1, or all of them are more than the whole.
        LedgerError: an analyst has another share.
        BudgetExceeded: less than that is left of the budget; nothing was changed.
    """
    wrong = [analyst for analyst, part in parts.items() if not 0 < part <= 1 or analyst == OWNER]
    if wrong or sum(parts.values(), Fraction(0)) > 1:
        raise InputError("must be above 0 for each analyst, and at most 1 together", argument="shares")
    epsilon, delta = numbers_of(dataset.budget)
    accounts = accounts_of(connection, dataset)
    for analyst, part in parts.items():
        numbers = (epsilon * part, delta * part)
        if analyst not in accounts:
            account = Account("", budget_from(*map(str, numbers)))
            accounts[analyst] = StoredAccount(analyst, account)
            row = (dataset.id, analyst, *map(str, numbers), "[]")
            connection.execute(
                "INSERT INTO account (dataset, analyst, epsilon, delta, versions) VALUES (?, ?, ?, ?, ?)", row
            )
        elif numbers_of(accounts[analyst].account.budget) != numbers:
            raise LedgerError(
                f"{analyst!r} has a share of {dataset.name!r} already, {accounts[analyst].account.budget}, and a share "
                "is never divided again; nothing was changed. Reserve more under another name"
            )
    left = unopened(dataset.budget, accounts.values())
    if min(left) < 0:
        raise BudgetExceeded(
            f"the shares exceed the rest of the budget of {dataset.name!r}, {dataset.budget}; nothing was changed. "
            "The first release without an analyst takes the whole rest: reserve shares before it"
        )


def change_budget(connection: Connection, dataset: Dataset, budget: Budget) -> None:
    """Set the budget of a dataset; an account that is its only one has the same.

    Raises:
        BudgetExceeded: it is less than the accounts of its analysts have together; nothing was changed.
    """
    accounts = accounts_of(connection, dataset)
    values = (*map(str, numbers_of(budget)), dataset.id)
    connection.execute("UPDATE dataset SET epsilon = ?, delta = ? WHERE id = ?", values)
    if set(accounts) == {OWNER}:
        account = accounts[OWNER].account.under(budget)
        assert account.limits is not None
        limits = [str(getattr(account.limits, name)) for name in ("loss", "tail", "rate", "failure", "reserve")]
        connection.execute(
            "UPDATE account SET epsilon = ?, delta = ?, loss = ?, tail = ?, rate = ?, failure = ?, reserve = ? "
            "WHERE dataset = ?",
            (*values[:2], *limits, dataset.id),
        )
    elif min(unopened(budget, accounts.values())) < 0:
        raise BudgetExceeded(
            f"the budget of {dataset.name!r} cannot be {budget}: its analysts have more than that together; nothing "
            "was changed"
        )


def entry_from(row: Sequence[Any]) -> Entry:
    """Return the payment of a part of the records from its row."""
    low, high, path, *cost = row
    return Entry((low, high), read_stored(path, as_path), as_written(lambda: Cost.from_texts(*cost)))


def as_path(path: Any) -> Path:
    """Return a part of the records from its JSON form."""
    return tuple((str(split), int(part)) for split, part in path)


def whole_span(count: int) -> Span:
    """Return the span of all records of a dataset with so many cohorts; it is (0, 0) without cohorts."""
    return 0, max(0, count - 1)

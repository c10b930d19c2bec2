"""The account of a dataset with delta > 0 in a ledger file: which one it has, and what its filter has added up."""

import json
from collections.abc import Callable, Sequence
from sqlite3 import Connection

from labeldp.curator.datasets import Dataset
from labeldp.curator.ledger_totals import CohortTotals
from labeldp.privacy import (
    USUAL_SHARES,
    Account,
    Budget,
    BudgetExceeded,
    Cost,
    Filter,
    FixedList,
    Row,
    Span,
    decimal,
    open_filter,
    settle,
)

ACCOUNT = "UPDATE dataset SET account = ? WHERE id = ?"


def has_account(budget: Budget) -> bool:
    """Return whether a budget is kept by an account: at delta = 0 pure losses add up, however late they are chosen."""
    return decimal(budget.delta, "delta") > 0


def read_paid(connection: Connection, dataset: int, span: Span) -> dict[int, Cost]:
    """Return what a filter has added up for each cohort of a span, as if every charge was about all of its records."""
    query = "SELECT cohort, pure, rate, failure, tail FROM paid WHERE dataset = ? AND cohort BETWEEN ? AND ?"
    return paid_from(connection.execute(query, (dataset, *span)).fetchall(), span)


def paid_from(rows: Sequence[tuple[int, str | None, str | None, str, str]], span: Span) -> dict[int, Cost]:
    """Return what a filter has added up for each cohort of a span, from rows of the table."""
    known = {number: Cost.from_texts(pure, rate, failure, tail) for number, pure, rate, failure, tail in rows}
    return {number: known.get(number, Cost()) for number in range(span[0], span[1] + 1)}


def check_account(
    budget: Budget,
    account: Account | None,
    paid: dict[int, Cost],
    totals: Callable[[], CohortTotals],
    asked: Sequence[Row],
    plan: Sequence[Row],
    name: str,
) -> Account:
    """Return the account that admits more charges; see `settle`. A filter that is nearly full reads the others.

    Args:
        budget: of the dataset.
        account: of the dataset, or None before the first charge.
        paid: what a filter has added up for each cohort that would pay.
        totals: returns what was charged before.
        asked: what is asked for.
        plan: what was declared.
        name: of the dataset.

    Raises:
        BudgetExceeded: nothing was charged.
    """
    if isinstance(account, Filter):
        more = added(account, asked)
        if all(account.admits((cost + more,)) for cost in paid.values()):
            return account
    return settle(budget, account, totals().rows, asked, plan, name)


def added(rule: Filter, asked: Sequence[Row]) -> Cost:
    """Return the most that charges add to each coordinate."""
    return sum((rule.cost(row.loss) * row.times for row in asked), Cost())


def keep_account(connection: Connection, dataset: Dataset, account: Account, totals: CohortTotals) -> None:
    """Write an account down; of a filter, what it adds up to for all that was charged."""
    connection.execute(ACCOUNT, (json.dumps(account.to_json()), dataset.id))
    connection.execute("DELETE FROM paid WHERE dataset = ?", (dataset.id,))
    if isinstance(account, Filter):
        for row in totals.rows:
            pay(connection, dataset.id, account, row)


def pay(connection: Connection, dataset: int, rule: Filter, row: Row) -> None:
    """Add charges to what a filter has added up for each of their cohorts."""
    more = added(rule, [row])
    known = read_paid(connection, dataset, row.span)
    rows = [(dataset, cohort, *(cost + more).to_texts()) for cohort, cost in known.items()]
    connection.executemany("INSERT OR REPLACE INTO paid VALUES (?, ?, ?, ?, ?, ?)", rows)


def change_account(connection: Connection, dataset: Dataset, budget: Budget, totals: CohortTotals) -> None:
    """Give a dataset that was charged the account of another budget; a filter keeps its kind and its shares of delta.

    Raises:
        BudgetExceeded: it does not admit what was charged, or the kind of the account cannot change any more.
    """
    account, rows = dataset.account, totals.rows
    if account is None or not rows:
        connection.execute("UPDATE dataset SET account = NULL WHERE id = ?", (dataset.id,))
        return
    refusal = f"the budget of {dataset.name!r} cannot be {budget}{_kind(budget)}: "
    if not has_account(budget):
        raise BudgetExceeded(f"{refusal}its releases were admitted with a delta. Read their certificates at delta = 0")
    if isinstance(account, FixedList) and (budget.fixed or budget.kind is None):
        listed = budget.fixed or dataset.budget.fixed
        if not listed and (rule := open_filter(budget, account.rows, USUAL_SHARES)) is not None:
            keep_account(connection, dataset, rule, totals)
            return
        if settle_list(budget, account):
            return
        raise BudgetExceeded(f"{refusal}the list of its releases costs more")
    if budget.fixed or (isinstance(account, Filter) and budget.kind not in (None, account.kind)):
        raise BudgetExceeded(f"{refusal}what keeps it was fixed by the first release, and another would promise less")
    declared = account.rows if isinstance(account, FixedList) else tuple(rows)
    kind, shares = (account.kind, account.shares) if isinstance(account, Filter) else (budget.kind, USUAL_SHARES)
    rule = open_filter(Budget(budget.epsilon, budget.delta, kind), declared, shares)
    if rule is None:
        raise BudgetExceeded(f"{refusal}no filter of it admits what was charged already")
    keep_account(connection, dataset, rule, totals)


def settle_list(budget: Budget, account: FixedList) -> bool:
    """Return whether a list keeps a budget."""
    try:
        settle(Budget(budget.epsilon, budget.delta, fixed=True), None, (), account.rows, (), "")
    except BudgetExceeded:
        return False
    return True


def _kind(budget: Budget) -> str:
    return " for a list of releases" if budget.fixed else f" kept by a {budget.kind} filter" if budget.kind else ""

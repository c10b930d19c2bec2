"""Shares of a dataset's budget that are reserved to analysts, so that nobody's refusal depends on another."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from sqlite3 import Connection
from typing import Any

from labeldp.curator.cohorts import without_cohort
from labeldp.curator.datasets import Dataset, charge_from
from labeldp.curator.ledger_accounts import added, keep_account
from labeldp.curator.ledger_totals import read_totals
from labeldp.curator.stored import stored
from labeldp.privacy import (
    Budget,
    BudgetExceeded,
    Cost,
    Filter,
    FixedList,
    InputError,
    LedgerError,
    Row,
    Span,
    decimal,
    float_above,
    joint_costs,
    rounded_up_text,
)

SHARES = "SELECT analyst, part FROM share"

OWNER = ""
"""Stands for whoever opens the ledger without naming an analyst: their share is what the others leave."""


@dataclass(frozen=True)
class Share:
    """A part of a dataset's budget that is one analyst's alone.

    Args:
        analyst: whose it is; empty for the part that nobody else has.
        part: of the whole, exact.
        rule: the filter of the dataset, which says what a release costs.

    Guarantee (within_budget): what all shares admit together is within the budget, however releases are chosen after
        looking.

    Source: `docs/proofs/filters.md`, shares.
    """

    analyst: str
    part: Fraction
    rule: Filter

    @property
    def own(self) -> Filter:
        """The filter of this share."""
        return self.rule.share(self.part)

    def check(self, paid: Mapping[int, Cost], charged: Callable[[], Sequence[Row]], asked: Sequence[Row]) -> None:
        """Raise BudgetExceeded unless the share admits more charges; what others were charged is not looked at.

        Args:
            paid: what the analyst was charged for each cohort that would pay, added up as if all of it was about all.
            charged: returns the charges of the analyst; they are read only where the share is nearly used up.
            asked: what is asked for, of records of one span.
        """
        more = added(self.rule, asked)
        if all(self.own.admits((cost + more,)) for cost in paid.values()):
            return
        known = charged()
        for cohort in paid:
            if not self.own.admits(joint_costs(self.rule, [*known, *asked], cohort)):
                used = rounded_up_text(100 * float_above(self.own.used(joint_costs(self.rule, known, cohort))), 4)
                raise BudgetExceeded(
                    f"{used} % of your share of the budget is used up, and this would pass it; nothing was charged"
                )


def shares_from(rows: Iterable[tuple[str, str]]) -> dict[str, Fraction]:
    """Return the part of each analyst, and that of `OWNER`; empty where nothing is reserved."""
    parts = {analyst: Fraction(part) for analyst, part in rows}
    return {**parts, OWNER: 1 - sum(parts.values(), Fraction(0))} if parts else {}


def shares_of(connection: Connection, dataset: int) -> dict[str, Fraction]:
    """Return the shares of a dataset; see `shares_from`."""
    return shares_from(connection.execute(f"{SHARES} WHERE dataset = ? ORDER BY analyst", (dataset,)).fetchall())


def share_of(parts: Mapping[str, Fraction], analyst: str, budget: Budget, account: Any, name: str) -> Share | None:
    """Return the share of an analyst; None where nothing is reserved and nobody is named.

    Raises:
        LedgerError: nothing is reserved for the analyst.
    """
    if analyst in parts:
        return Share(analyst, parts[analyst], rule_of(budget, account, name))
    if analyst != OWNER:
        raise LedgerError(f"no share of the budget of {name!r} is reserved to {analyst!r}: LedgerFile.reserve")
    return None


def rule_of(budget: Budget, account: Any, name: str) -> Filter:
    """Return the filter that says what a release costs, which shares are parts of; at delta = 0 that of pure losses.

    Raises:
        LedgerError: a list of releases keeps the budget, and nothing can be reserved of it.
    """
    if isinstance(account, Filter):
        return account
    if isinstance(account, FixedList) or budget.fixed:
        raise LedgerError(f"the budget of {name!r} is kept by a list of releases: no part of it can be reserved")
    failure = None if decimal(budget.delta, "delta") else 0
    return Filter.of(budget.epsilon, budget.delta, budget.kind or "gaussian", failure)


def reserve(connection: Connection, dataset: Dataset, parts: Mapping[str, Fraction]) -> None:
    """Reserve a part of the budget to each analyst, in place of what was reserved before.

    Raises:
        InputError: not a part from 0 to 1, or all of them are more than the whole.
        LedgerError: a list of releases keeps the budget.
        BudgetExceeded: somebody was charged more than their part; nothing was changed.
    """
    wrong = [analyst for analyst, part in parts.items() if not 0 <= part <= 1 or analyst == OWNER]
    if wrong or sum(parts.values(), Fraction(0)) > 1:
        raise InputError("must be from 0 to 1 for each analyst, and at most 1 together", argument="shares")
    connection.execute("DELETE FROM share WHERE dataset = ?", (dataset.id,))
    rows = [(dataset.id, analyst, str(part)) for analyst, part in parts.items()]
    connection.executemany("INSERT INTO share VALUES (?, ?, ?)", rows)
    check_shares(connection, dataset)


def check_shares(connection: Connection, dataset: Dataset) -> None:
    """Check that every share admits what was charged to it, and add that up anew; pin the filter of the dataset.

    Raises:
        BudgetExceeded: one does not.
        LedgerError: a list of releases keeps the budget.
    """
    connection.execute("DELETE FROM share_paid WHERE dataset = ?", (dataset.id,))
    parts, charged = shares_of(connection, dataset.id), charged_by(connection, dataset)
    if not parts:
        return
    rule = rule_of(dataset.budget, dataset.account, dataset.name)
    if dataset.account is None and decimal(dataset.budget.delta, "delta"):
        keep_account(connection, dataset, rule, read_totals(connection, dataset.id))
    for analyst, rows in charged.items():
        own = rule.share(parts.get(analyst, Fraction(0)))
        for cohort in range(max(row.span[1] for row in rows) + 1):
            if not own.admits(joint_costs(rule, rows, cohort)):
                whose = repr(analyst) if analyst else "what nobody reserved"
                raise BudgetExceeded(f"the share of {whose} of {dataset.name!r} is less than was charged to it")
        for row in rows:
            pay_share(connection, dataset.id, analyst, rule, row)


def charged_by(connection: Connection, dataset: Dataset) -> dict[str, list[Row]]:
    """Return what was charged to each analyst, oldest first."""
    found: dict[str, list[Row]] = {}
    query = "SELECT analyst, low, high, charge FROM release WHERE dataset = ? ORDER BY id"
    for analyst, *row in connection.execute(query, (dataset.id,)):
        found.setdefault(analyst, []).append(row_of(*row, secret=dataset.secret))
    return found


def row_of(low: int, high: int, text: str, *, secret: bytes) -> Row:
    """Return a charge as it is added up, from a row of the table of releases."""
    charge = charge_from(text)
    return Row((low, high), without_cohort(charge.path, secret), charge.loss)


def paid_from_texts(rows: Iterable[tuple[int, str]], span: Span) -> dict[int, Cost]:
    """Return what an analyst was charged for each cohort of a span, from rows of the table."""
    known = {cohort: stored(text, lambda each: Cost.from_texts(*each)) for cohort, text in rows}
    return {cohort: known.get(cohort, Cost()) for cohort in range(span[0], span[1] + 1)}


def paid_by(connection: Connection, dataset: int, analyst: str, span: Span) -> dict[int, Cost]:
    """Return what an analyst was charged for each cohort of a span."""
    query = "SELECT cohort, cost FROM share_paid WHERE dataset = ? AND analyst = ?"
    return paid_from_texts(connection.execute(query, (dataset, analyst)).fetchall(), span)


def pay_share(connection: Connection, dataset: int, analyst: str, rule: Filter, row: Row) -> None:
    """Add charges to what was added up for an analyst."""
    more = added(rule, [row])
    known = paid_by(connection, dataset, analyst, row.span)
    rows = [(dataset, analyst, cohort, json.dumps((cost + more).to_texts())) for cohort, cost in known.items()]
    connection.executemany("INSERT OR REPLACE INTO share_paid VALUES (?, ?, ?, ?)", rows)

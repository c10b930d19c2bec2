"""What charges add up to: costs, and accounts that keep a budget."""

from labeldp.accounting.account import (
    PROMISE,
    Account,
    Admission,
    Entry,
    Limits,
    Policy,
    Spent,
    block_cost,
    totals_within,
)
from labeldp.accounting.costs import Cost
from labeldp.accounting.plans import Books, Declarations, OpenPlan, Payment

__all__ = [
    "PROMISE",
    "Account",
    "Admission",
    "Books",
    "Cost",
    "Declarations",
    "Entry",
    "Limits",
    "OpenPlan",
    "Payment",
    "Policy",
    "Spent",
    "block_cost",
    "totals_within",
]

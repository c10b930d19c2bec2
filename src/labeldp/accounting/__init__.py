"""What charges add up to: costs, and accounts that keep a budget."""

from labeldp.accounting.account import (
    PROMISE,
    Account,
    Admission,
    Books,
    Declarations,
    Entry,
    Limits,
    Payment,
    Policy,
    Spent,
    block_cost,
    totals_within,
)
from labeldp.accounting.costs import Cost

__all__ = [
    "PROMISE",
    "Account",
    "Admission",
    "Books",
    "Cost",
    "Declarations",
    "Entry",
    "Limits",
    "Payment",
    "Policy",
    "Spent",
    "block_cost",
    "totals_within",
]

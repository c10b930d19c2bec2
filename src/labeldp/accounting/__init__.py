"""What charges add up to: costs, and accounts that keep a budget."""

from labeldp.accounting.account import PROMISE, Account, Admission, Block, Entry, Limits, Policy, Step
from labeldp.accounting.costs import Cost
from labeldp.accounting.plans import DeclaredPlan

__all__ = [
    "PROMISE",
    "Account",
    "Admission",
    "Block",
    "Cost",
    "DeclaredPlan",
    "Entry",
    "Limits",
    "Policy",
    "Step",
]

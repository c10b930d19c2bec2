"""One tree of errors. Messages name the argument and what would be right, and never a label."""


class LabelDPError(Exception):
    """The root: whatever labeldp refuses to do, it refuses with one of these."""


class InputError(LabelDPError, ValueError):
    """An argument is wrong; nothing was charged."""


class DomainError(InputError):
    """A label lies outside the declared domain, or is missing."""


class NotInvertibleError(InputError):
    """The noise has no inverse, so an unbiased estimate does not exist."""


class BudgetExceeded(LabelDPError):
    """The charge would exceed the budget; nothing was charged and nothing was drawn."""


class LedgerError(LabelDPError):
    """The ledger file cannot be used as asked."""

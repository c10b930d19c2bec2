"""What a ledger file says to people."""

from labeldp.privacy import Budget, Charge, LedgerError, all_digits, digits_above, shortest_float
from labeldp.workflows.ledger_file import DatasetLedger, LedgerFile
from labeldp.workflows.verdict import asked_delta

SECRECY = (
    "This file holds the keys to the noise of every release: it is as secret as the labels. "
    "Keep it beside them, and never restore an older copy, which forgets what was spent."
)


def describe_ledger(path: str) -> str:
    """The datasets of a ledger with their budgets and releases, as text.

    Raises:
        LedgerError: there is no such file, or it is not a ledger.
    """
    ledger = LedgerFile(path)
    if not ledger.exists:
        raise LedgerError(f"there is no ledger {path}")
    names = ledger.datasets()
    parts = [_dataset(ledger.dataset(name)) for name in names] or ["It has no datasets yet."]
    return "\n\n".join([f"Ledger {path}", *parts, SECRECY])


def _dataset(account: DatasetLedger) -> str:
    """One dataset: its budget, what was spent, and each release in a line."""
    lines = [_standing(account)]
    for entry in account.entries:
        charge = entry.certificate.entries[0]
        words = [entry.created[:19].replace("T", " ") + " UTC", str(charge.mechanism["mechanism"]), _cost(charge)]
        words += [entry.step.rpartition(": ")[2]] if entry.step else []
        words += [f"part {part + 1} of split {split[:8]}" for split, part in charge.path]
        words += [f"revision {entry.revision}"] if entry.revision else []
        lines.append("  " + ", ".join(words))
    return "\n".join(lines)


def _cost(charge: Charge) -> str:
    """Its epsilon, at the delta that was asked for where that is not 0."""
    bound, delta = charge.loss.max_loss, asked_delta([charge])
    if delta:
        return f"epsilon {digits_above(charge.loss.epsilon(delta))} at delta {all_digits(shortest_float(delta))}"
    return "no finite epsilon at delta 0" if bound is None else f"epsilon {all_digits(shortest_float(bound))}"


def describe_budget(path: str, name: str) -> str:
    """What a dataset may cost and has cost, as a line."""
    return _standing(LedgerFile(path).dataset(name))


def _standing(account: DatasetLedger) -> str:
    budget = account.budget
    cost = digits_above(account.spent.epsilon(budget.delta), 12)
    return f"{account.name}: budget {budget}; spent epsilon = {cost} at that delta"


def add_dataset(path: str, name: str, epsilon: str, delta: str, *, change: bool = False) -> str:
    """Add a dataset with its budget, or change the budget of one; say so in a sentence.

    Raises:
        LedgerError: the dataset has another budget already, or, with `change`, is not there.
        BudgetExceeded: with `change`: more was spent already.
    """
    budget = Budget(epsilon=epsilon, delta=delta)
    ledger = LedgerFile(path)
    ledger.set_budget(name, budget) if change else ledger.add(name, budget)
    return f"{name!r} in {path} has the budget {budget}. {SECRECY}"

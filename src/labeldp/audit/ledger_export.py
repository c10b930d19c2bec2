"""The public part of a ledger, for people who compare certificates with it and must not hold its keys."""

from pathlib import Path
from typing import Any

from labeldp.curator import LedgerFile, add_command
from labeldp.privacy import Budget, LedgerError, numbers_of

FORMAT = "labeldp ledger export 1"


def existing_ledger(path: str) -> LedgerFile:
    """Return the ledger at a path.

    Raises:
        LedgerError: there is none.
    """
    ledger = LedgerFile(path)
    if not ledger.exists:
        command = f"{add_command(Path(path), 'NAME')} --epsilon …"
        raise LedgerError(f"there is no ledger {path}. Check the path, or create it: {command}")
    return ledger


def export_ledger(path: str) -> dict[str, Any]:
    """Return budgets, charges and certificates of a ledger, as JSON values, exact.

    It holds no key, no released value and no digest of labels. It is as public as the certificates in it.

    Raises:
        LedgerError: there is no ledger at the path.
    """
    ledger = existing_ledger(path)
    accounts = [ledger.dataset(name).state for name in ledger.datasets()]
    return {
        "format": FORMAT,
        "requests": list(ledger.requests),
        "datasets": {
            account.scope.name: {
                "budget": _numbers(account.budget),
                "promised": _numbers(account.promised),
                "unit": None if account.protection.unit is None else account.protection.unit.name,
                "releases": [{"certificate": entry.certificate.to_json()} for entry in account.entries],
            }
            for account in accounts
        },
    }


def _numbers(budget: Budget) -> dict[str, str]:
    epsilon, delta = numbers_of(budget)
    return {"epsilon": str(epsilon), "delta": str(delta)}

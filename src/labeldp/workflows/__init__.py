"""Put together: the curator, its durable ledger, releases of whole files."""

from importlib import import_module
from typing import Any

_LAZY = {
    "Curator": "labeldp.workflows.curator",
    "DatasetLedger": "labeldp.workflows.ledger_file",
    "Entry": "labeldp.workflows.ledger_file",
    "LedgerFile": "labeldp.workflows.ledger_file",
    "release_file": "labeldp.workflows.release",
    "verify_file": "labeldp.workflows.release",
}

__all__ = ["Curator", "DatasetLedger", "Entry", "LedgerFile", "release_file", "verify_file"]


def __getattr__(name: str) -> Any:
    """Names are imported when they are first used: a curator needs neither tables nor learners."""
    if name not in _LAZY:
        raise AttributeError(f"module 'labeldp.workflows' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)

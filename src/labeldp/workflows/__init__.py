"""Put together: the curator, its durable ledger, fits and releases of whole files."""

import warnings
from importlib import import_module
from typing import Any

import lazy_loader

_lazy, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Names that lived here once."""
    moved = {"Curator": "curator", "DatasetLedger": "curator", "Entry": "curator", "LedgerFile": "curator"}
    if name not in moved:
        return _lazy(name)
    warnings.warn(f"labeldp.workflows.{name} is labeldp.{moved[name]}.{name} now", DeprecationWarning, stacklevel=2)
    return getattr(import_module(f"labeldp.{moved[name]}"), name)

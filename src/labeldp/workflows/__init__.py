"""Put together: the curator, its durable ledger, fits and releases of whole files."""

import warnings
from importlib import import_module
from typing import Any

import lazy_loader

_lazy, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


_MOVED = {
    "Curator": "curator.Curator",
    "DatasetLedger": "curator.DatasetLedger",
    "Entry": "curator.Entry",
    "LedgerFile": "curator.LedgerFile",
    "Plan": "workflows.RecordsPlan",
    "amount": "workflows.format_number",
}


def __getattr__(name: str) -> Any:
    """Return a name of the room; warn where it has another name or stands in another room now."""
    if name not in _MOVED:
        return _lazy(name)
    room, _, own = _MOVED[name].partition(".")
    warnings.warn(f"labeldp.workflows.{name} is now labeldp.{_MOVED[name]}", DeprecationWarning, stacklevel=2)
    return getattr(import_module(f"labeldp.{room}"), own)

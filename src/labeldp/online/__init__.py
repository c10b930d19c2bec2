"""One round at a time: experts, convex losses, what they cost, and regret."""

import warnings
from typing import Any

import lazy_loader

_lazy, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
_RENAMED = {"Course": "RoundsMechanism", "Plan": "ExpertsPlan"}


def __getattr__(name: str) -> Any:
    """Return what the room exports; a name that it had before warns."""
    if name in _RENAMED:
        message = f"labeldp.online.{name} is labeldp.online.{_RENAMED[name]} now"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
    return _lazy(_RENAMED.get(name, name))

"""What can be learned from released labels: multi-stage training, noise-aware models, scores without true labels."""

import warnings
from typing import Any

import lazy_loader

_lazy, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

_RENAMED = {
    "evaluated": "fit_and_evaluate",
    "judged": "evaluate",
    "measuring": "evaluation_mechanism",
    "rehearse": "dry_run",
}


def __getattr__(name: str) -> Any:
    """Return a name of the room; warn where it has another name now."""
    if name == "neighbors":  # labeldp.neighbors warns
        return _lazy("neighbor_count")
    if name not in _RENAMED:
        return _lazy(name)
    warnings.warn(f"labeldp.learners.{name} is now labeldp.learners.{_RENAMED[name]}", DeprecationWarning, stacklevel=2)
    return _lazy(_RENAMED[name])

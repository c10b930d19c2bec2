"""Estimates from private outcomes: shares, means, effects, scores of models and prediction sets, with intervals."""

from typing import Any

import lazy_loader

from labeldp.inference.catalog import ESTIMATES as _ESTIMATES

_listed, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
_FUNCTIONS = {entry.function: entry for entry in _ESTIMATES.values()}


def __getattr__(name: str) -> Any:
    entry = _FUNCTIONS.get(name)
    return entry.load() if entry else _listed(name)

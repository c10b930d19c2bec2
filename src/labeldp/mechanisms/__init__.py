"""How labels are randomized: domains, randomized response, noise, selection, histograms, sums over bags, debiasing."""

from typing import Any

import lazy_loader

from labeldp.mechanisms.catalog import MECHANISMS as _MECHANISMS

_listed, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    entry = _MECHANISMS.get(name)
    return entry.load() if entry and entry.path.startswith(__name__) else _listed(name)

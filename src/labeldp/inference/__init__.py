"""Estimates from private outcomes: shares, means, effects, scores of models and prediction sets, with intervals."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""Features by public networks, which are installed and never downloaded; and which images a model takes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

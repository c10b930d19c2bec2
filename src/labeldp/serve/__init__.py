"""A server that holds labels and ledgers, and the curator of an analyst who asks it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

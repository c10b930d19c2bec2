"""Put together: the curator, its durable ledger, fits and releases of whole files."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

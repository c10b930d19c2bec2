"""Many machines: charge once, and let workers draw the noise of that release where the records are."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

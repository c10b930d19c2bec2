"""One round at a time: experts, convex losses, what they cost, and regret."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

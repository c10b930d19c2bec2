"""Public bags of records, their noisy sums, and learners of these sums."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""What can be learned from released labels: multi-stage training, noise-aware models, scores without true labels."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

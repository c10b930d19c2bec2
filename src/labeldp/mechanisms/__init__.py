"""How labels are randomized: domains, randomized response, noise, selection, histograms, sums over bags, debiasing."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

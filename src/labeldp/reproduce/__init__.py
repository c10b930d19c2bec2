"""Published comparisons, run again: every number is a file, every table and figure is made of files."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

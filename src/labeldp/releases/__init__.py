"""Releases of the labels of a table: of files, folders, sums, aggregates and the parts of many machines."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""Private labels in data frames of Spark: released where they are; needs pyspark (`pip install 'labeldp[spark]'`)."""

from typing import Any

import lazy_loader

_lazy, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Return what the subpackage exports; it is imported when it is asked for."""
    return _lazy(name)

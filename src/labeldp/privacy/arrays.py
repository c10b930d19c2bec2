"""Names of arrays that signatures use."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""Doubles, of any shape."""

AnyFloats = NDArray[np.floating[Any]]
"""Floats of any size, as features come."""

Integers = NDArray[np.int64]
"""Integers of 64 bits, of any shape."""

Flags = NDArray[np.bool_]
"""Truth values, of any shape."""

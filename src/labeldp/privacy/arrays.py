"""Names of arrays that signatures use."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

AnyFloats = NDArray[np.floating[Any]]
"""Floats of any size, as features come."""

Integers = NDArray[np.int64]

Flags = NDArray[np.bool_]

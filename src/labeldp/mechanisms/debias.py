"""Unbiased estimates from noisy labels, where the noise has an inverse."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import InputError


@dataclass(frozen=True)
class Debiased:
    """Unbiased estimates and what they cost.

    Args:
        values: for classes the indicators of the true label, shape (n, K), rows sum to about 1, entries
            may be negative; for an interval the labels, shape (n,), in their unit.
        condition_number: of the noise matrix in the maximum norm, at least 1: by this much noise may be amplified.
    """

    values: NDArray[np.float64] = field(repr=False)
    condition_number: float


def debias(mechanism: Any, noisy: Any) -> Debiased:
    """Unbiased estimates of the true labels: averaged over the noise, they are the truth.

    Use the estimates in sums and averages over many records; a single one is far from its truth.

    Args:
        mechanism: the mechanism that made `noisy`.
        noisy: its output.

    Raises:
        InputError: not a mechanism, or not its output.
        NotInvertibleError: the noise has no inverse, as when a record has fewer candidates than classes. An
            estimate made regardless could read as a perfect accuracy.
    """
    if not hasattr(mechanism, "unbiased"):
        raise InputError("mechanism must be the one that made the noisy labels, such as release.mechanism")
    result: Debiased = mechanism.unbiased(noisy)
    return result

"""How far labels are from predictions, by noisy bins, and how far later answers or sums should reach."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from labeldp.mechanisms import Domain, distance_cuts
from labeldp.privacy import Floats

REACHES = 2.0 ** -np.arange(0, 8, 0.5)
"""What is tried, in widths of the range."""


@dataclass(frozen=True)
class Distances:
    """How far labels are from predictions, by released bins.

    Args:
        sizes: of distances in each bin, in the unit of the labels, shape (bins,).
        shares: of the labels in each bin, shape (bins,).
        doubt: variance of each share, shape (bins,).
        width: of the range.
    """

    sizes: Floats
    shares: Floats
    doubt: Floats
    width: float

    @classmethod
    def of(cls, domain: Domain, bins: int, shares: Floats, doubt: Floats) -> "Distances":
        """Return what shares of the bins of `distance_cuts` say, where the variance of each is known."""
        width = domain.ends[1] - domain.ends[0]
        ends = np.append(distance_cuts(domain, bins) * domain.step, width)
        sizes = ends * np.append(0.5, np.full(len(ends) - 1, 0.75))
        return cls(sizes, shares / shares.sum(), doubt, width)

    @property
    def square(self) -> float:
        """The mean square of the distances."""
        return float(self.shares @ self.sizes**2)

    def after(self, explained: float) -> "Distances":
        """Return the distances that are left where a better model explains so much of their mean square."""
        left = max(1 - explained / self.square, 0.1)
        return replace(self, sizes=self.sizes * np.sqrt(left))

    def reach(self, error: Callable[[float], float]) -> float:
        """Return the reach of least error: the noise, plus the squared loss of labels beyond the reach.

        To that one standard deviation is added, so that a reach becomes small only where the bins say so.

        Args:
            error: the mean square of what noise adds to predictions, by the reach.
        """

        def total(reach: float) -> float:
            beyond = np.maximum(self.sizes - reach, 0)
            return error(reach) + float(self.shares @ beyond + np.sqrt(self.doubt @ beyond**2)) ** 2

        return min((self.width * REACHES).tolist(), key=total)

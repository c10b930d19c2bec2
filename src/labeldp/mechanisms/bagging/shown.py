"""What released bags show, whichever mechanism released them, and whether they come from a curator or from a file."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.bagging.bags import Keys
from labeldp.mechanisms.bagging.bagsum import BagSum
from labeldp.mechanisms.bagging.hidden import WeightedLBA
from labeldp.mechanisms.bagging.published import NoisyWeightedLLP
from labeldp.mechanisms.domains import Domain, Interval
from labeldp.privacy import InputError, Release

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ShownBags:
    """Released sums over bags, in the unit of the labels: all that whoever learns from them needs.

    Args:
        domain: of the labels.
        records: how many there are.
        sizes: records in the bag of each sum, shape (r,).
        sums: of labels with their noise, shape (r,); with secret weights of labels less the middle of their range.
        noise_stddev: of each sum, shape (r,).
        bags: the sum that each record is in, shape (n,); None with secret weights.
        weights: of each record, shape (n,); None with secret weights.
        features: with secret weights the weighted sums of features, shape (r, d); else None.
    """

    domain: Domain
    records: int
    sizes: Floats = field(repr=False)
    sums: Floats = field(repr=False)
    noise_stddev: Floats = field(repr=False)
    bags: Keys | None = field(default=None, repr=False)
    weights: Floats | None = field(default=None, repr=False)
    features: Floats | None = field(default=None, repr=False)

    @classmethod
    def of(cls, release: Any) -> "ShownBags":
        """What a curator or a file released.

        Raises:
            InputError: no release of bags.
        """
        value, mechanism = (release.value, release.mechanism) if isinstance(release, Release) else (None, None)
        if isinstance(value, cls):
            return value
        if isinstance(mechanism, BagSum):
            weights = np.ones(mechanism.records)
            return cls._open(mechanism, mechanism.totals(value), mechanism.noise_stddev, weights)
        if isinstance(mechanism, NoisyWeightedLLP):
            shown = mechanism.opened(value)
            return cls._open(mechanism, shown.sums, shown.noise_stddev, shown.weights)
        if isinstance(mechanism, WeightedLBA):
            features, sums = mechanism.opened(value)
            sizes = np.repeat(mechanism.sizes.astype(np.float64), mechanism.rows)
            spread = np.full(len(sums), mechanism.noise_stddev)
            return cls(mechanism.domain, mechanism.records, sizes, sums, spread, features=features)
        raise InputError(
            "release must be what a curator released by BagSum, NoisyWeightedLLP or WeightedLBA, or read_bags read"
        )

    @classmethod
    def _open(cls, mechanism: Any, sums: Floats, noise_stddev: Any, weights: Floats) -> "ShownBags":
        sizes, spread = mechanism.sizes.astype(np.float64), np.broadcast_to(noise_stddev, sums.shape)
        bags = mechanism.partition.of_record
        return cls(mechanism.domain, mechanism.records, sizes, sums, spread, bags, weights)

    @property
    def range(self) -> tuple[float, float]:
        """The lowest and the highest label; two classes count as 0 and 1."""
        return (float(self.domain.low), float(self.domain.high)) if isinstance(self.domain, Interval) else (0.0, 1.0)

    @property
    def plain(self) -> bool:
        """Whether the sums have no weights, so that they have means."""
        return self.weights is not None and bool((self.weights == 1).all())

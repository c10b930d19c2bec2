"""Mechanisms on bags that are broken on purpose."""

from dataclasses import replace
from typing import Any

import numpy as np

from labeldp.bags import BagSum, NoisyWeightedLLP, WeightedLBA


class HalfTheRange(BagSum):
    """Noise for labels that move by half the width of their range."""

    @property
    def sensitivity(self) -> int:
        return super().sensitivity // 2

    @property
    def sensitivity_square(self) -> int:
        return super().sensitivity_square // 4


class BagsThatOverlap(BagSum):
    """The first record counts in two bags."""

    def sums(self, labels: Any) -> Any:
        sums = super().sums(labels)
        sums[(self.partition.of_record[0] + 1) % len(sums)] += labels[0]
        return sums


class NoiseKnowsTheLabels(BagSum):
    """Bags of large sums are given less noise."""

    def randomize(self, labels: Any, *, rng: Any, ids: Any = None) -> Any:
        sums = self.sums(labels)
        return sums + self.draw_noise(len(sums), rng=rng) // (1 + (sums > sums.size))


class WeightsSeeLabels(NoisyWeightedLLP):
    """The public seed of the weights is a digest of the labels."""

    def randomize(self, labels: Any, *, rng: Any, ids: Any = None) -> Any:
        released = super().randomize(labels, rng=rng, ids=ids)
        released[0] = int(np.sum(labels))
        return released


class ABagWithoutNoise(NoisyWeightedLLP):
    """The noisy labels of the first bag are forgotten."""

    def bag_weights(self, released: Any) -> Any:
        bag_weights = super().bag_weights(released)
        bag_weights.noisy[self.partition.of_record == 0] = False
        bag_weights.stddevs[0] = 0
        return bag_weights


class NoiseOfHalfTheBags(NoisyWeightedLLP):
    """The standard deviation of a bag's noise is that of half of its noisy labels' noise."""

    def bag_weights(self, released: Any) -> Any:
        bag_weights = super().bag_weights(released)
        bag_weights.stddevs[:] = bag_weights.stddevs // 2
        return bag_weights


class PublishesItsWeights(WeightedLBA):
    """A column of weights leaves beside the sums."""

    def randomize(self, labels: Any, *, rng: Any, ids: Any = None) -> Any:
        released = super().randomize(labels, rng=rng, ids=ids)
        return np.column_stack([released, np.arange(len(released))])


class KeepsItsWeights(WeightedLBA):
    """The weights stay in the mechanism after the release."""

    def _weighted(self, weights: Any, middle: Any) -> Any:
        object.__setattr__(self, "last", weights)
        return super()._weighted(weights, middle)


class BagNoiseForgotten(WeightedLBA):
    """The noise is in the certificate and not in the sums."""

    def randomize(self, labels: Any, *, rng: Any, ids: Any = None) -> Any:
        quiet = self._with(bag_noise=0.0)
        return WeightedLBA.randomize(quiet, labels, rng=rng)


class ResidualTakenForGranted(WeightedLBA):
    """The loss counts on more residual than there is noise."""

    @property
    def law(self) -> Any:
        return replace(super().law, residual_square=2 * self.residual_square)

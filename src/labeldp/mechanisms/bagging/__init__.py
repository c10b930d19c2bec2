"""Sums over bags of records: with noise, with published weights, with secret weights, and with nothing at all."""

from labeldp.mechanisms.bagging.bags import Bagged, median_bags, random_bags
from labeldp.mechanisms.bagging.bagsum import BagSum
from labeldp.mechanisms.bagging.hidden import WeightedLBA
from labeldp.mechanisms.bagging.naive import NaiveBags
from labeldp.mechanisms.bagging.published import NoisyWeightedLLP, WeightedSums
from labeldp.mechanisms.bagging.shown import ShownBags

__all__ = [
    "BagSum",
    "Bagged",
    "NaiveBags",
    "NoisyWeightedLLP",
    "ShownBags",
    "WeightedLBA",
    "WeightedSums",
    "median_bags",
    "random_bags",
]

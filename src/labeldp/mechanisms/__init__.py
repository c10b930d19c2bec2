"""How labels are randomized: domains, randomized response, noise, selection, histograms, sums over bags, debiasing."""

import warnings
from typing import Any

from labeldp.mechanisms.additive import DiscreteLaplace, GaussianOneHot
from labeldp.mechanisms.bags.base import Bagged, ReleasedSums, median_bags, random_bags
from labeldp.mechanisms.bags.lba import HiddenBag, WeightedLBA, cross_bound, lba_delta, lba_required_residual
from labeldp.mechanisms.bags.llp import NoisyBags, NoisyWeightedLLP, WeightedSums, llp_calibrate, llp_delta, llp_epsilon
from labeldp.mechanisms.bags.sums import BagSum, NaiveBags, linear_release_gdp
from labeldp.mechanisms.base import Debiased, EpsilonMechanism, FiniteMechanism, Mechanism, SetMechanism, Table, debias
from labeldp.mechanisms.candidates import CandidateSets
from labeldp.mechanisms.domains import Classes, CubeGrid, Domain, Interval, Located
from labeldp.mechanisms.gaussian import gaussian_loss
from labeldp.mechanisms.histograms import CountMechanism, LaplaceHistogram, LaplaceSum
from labeldp.mechanisms.information import best_groups, partition_bits, response_bits, subset_bits, unary_bits
from labeldp.mechanisms.inputs import GridRows, GroupSizes, RowBlocks
from labeldp.mechanisms.moments import CrossMoment, GaussianMoment, LaplaceMoment
from labeldp.mechanisms.numbers import ResponseOnBins, UnbiasedNumbers
from labeldp.mechanisms.partition import PartitionResponse, SubsetResponse, public_seed
from labeldp.mechanisms.randomized_response import (
    RandomizedResponse,
    RandomizedResponseTopK,
    RandomizedResponseWithPrior,
    UnaryEncoding,
)
from labeldp.mechanisms.selection import ExponentialMechanism, PermuteAndFlip
from labeldp.mechanisms.whole_records import FullMeans, FullSelection

__all__ = [
    "BagSum",
    "Bagged",
    "CandidateSets",
    "Classes",
    "CountMechanism",
    "CrossMoment",
    "CubeGrid",
    "Debiased",
    "DiscreteLaplace",
    "Domain",
    "EpsilonMechanism",
    "ExponentialMechanism",
    "FiniteMechanism",
    "FullMeans",
    "FullSelection",
    "GaussianMoment",
    "GaussianOneHot",
    "GridRows",
    "GroupSizes",
    "HiddenBag",
    "Interval",
    "LaplaceHistogram",
    "LaplaceMoment",
    "LaplaceSum",
    "Located",
    "Mechanism",
    "NaiveBags",
    "NoisyBags",
    "NoisyWeightedLLP",
    "PartitionResponse",
    "PermuteAndFlip",
    "RandomizedResponse",
    "RandomizedResponseTopK",
    "RandomizedResponseWithPrior",
    "ReleasedSums",
    "ResponseOnBins",
    "RowBlocks",
    "SetMechanism",
    "SubsetResponse",
    "Table",
    "UnaryEncoding",
    "UnbiasedNumbers",
    "WeightedLBA",
    "WeightedSums",
    "best_groups",
    "cross_bound",
    "debias",
    "gaussian_loss",
    "lba_delta",
    "lba_required_residual",
    "linear_release_gdp",
    "llp_calibrate",
    "llp_delta",
    "llp_epsilon",
    "median_bags",
    "partition_bits",
    "public_seed",
    "random_bags",
    "response_bits",
    "subset_bits",
    "unary_bits",
]

_RENAMED = {"ShownBags": "ReleasedSums"}


def __getattr__(name: str) -> Any:
    """Return what an old name of this room is now, with a warning."""
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        f"labeldp.mechanisms.{name} is labeldp.mechanisms.{_RENAMED[name]} now", DeprecationWarning, stacklevel=2
    )
    return globals()[_RENAMED[name]]

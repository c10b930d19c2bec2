"""How labels are randomized: domains, randomized response, noise, selection, histograms, sums over bags, debiasing."""

from labeldp.mechanisms.additive import DiscreteLaplace, GaussianOneHot, gaussian_loss
from labeldp.mechanisms.bags.base import (
    Bagged,
    ReleasedSums,
    halved_at_medians,
    median_bags,
    public_halves,
    random_bags,
)
from labeldp.mechanisms.bags.lba import HiddenBag, WeightedLBA, cross_bound, lba_delta, lba_required_residual
from labeldp.mechanisms.bags.llp import NoisyBags, NoisyWeightedLLP, WeightedSums, llp_calibrate, llp_delta, llp_epsilon
from labeldp.mechanisms.bags.sums import BagSum
from labeldp.mechanisms.base import (
    Debiased,
    EpsilonMechanism,
    FiniteMechanism,
    Mechanism,
    SetMechanism,
    Table,
    debias,
    joint_laws,
)
from labeldp.mechanisms.candidates import CandidateSets
from labeldp.mechanisms.domains import GAPS, Classes, CubeGrid, Domain, Interval
from labeldp.mechanisms.errors import SquaredErrors
from labeldp.mechanisms.histograms import (
    CountMechanism,
    ExponentialMechanism,
    LaplaceHistogram,
    LaplaceSum,
    PermuteAndFlip,
)
from labeldp.mechanisms.information import best_groups, partition_bits, response_bits, subset_bits, unary_bits
from labeldp.mechanisms.inputs import (
    MAX_RESOLUTION,
    RESOLUTION,
    GridRows,
    GridScan,
    GridTotals,
    Groups,
    GroupSizes,
    PublicInput,
    RowBlocks,
)
from labeldp.mechanisms.moments import (
    CrossMoment,
    GaussianChoice,
    GaussianMoment,
    GridChoices,
    LaplaceMoment,
    label_sums,
)
from labeldp.mechanisms.numbers import MAX_GRID, ResponseOnBins, UnbiasedNumbers
from labeldp.mechanisms.partition import PartitionResponse, SubsetResponse, public_seed
from labeldp.mechanisms.randomized_response import (
    RandomizedResponse,
    RandomizedResponseTopK,
    RandomizedResponseWithPrior,
    UnaryEncoding,
)

__all__ = [
    "GAPS",
    "MAX_GRID",
    "MAX_RESOLUTION",
    "RESOLUTION",
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
    "GaussianChoice",
    "GaussianMoment",
    "GaussianOneHot",
    "GridChoices",
    "GridRows",
    "GridScan",
    "GridTotals",
    "GroupSizes",
    "Groups",
    "HiddenBag",
    "Interval",
    "LaplaceHistogram",
    "LaplaceMoment",
    "LaplaceSum",
    "Mechanism",
    "NoisyBags",
    "NoisyWeightedLLP",
    "PartitionResponse",
    "PermuteAndFlip",
    "PublicInput",
    "RandomizedResponse",
    "RandomizedResponseTopK",
    "RandomizedResponseWithPrior",
    "ReleasedSums",
    "ResponseOnBins",
    "RowBlocks",
    "SetMechanism",
    "SquaredErrors",
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
    "halved_at_medians",
    "joint_laws",
    "label_sums",
    "lba_delta",
    "lba_required_residual",
    "llp_calibrate",
    "llp_delta",
    "llp_epsilon",
    "median_bags",
    "partition_bits",
    "public_halves",
    "public_seed",
    "random_bags",
    "response_bits",
    "subset_bits",
    "unary_bits",
]

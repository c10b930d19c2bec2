"""How labels are randomized: domains, randomized response, unary bits, noise, selection, histograms, debiasing."""

from labeldp.mechanisms.aggregation import (
    HiddenBag,
    NoisyBags,
    cross_bound,
    lba_delta,
    lba_required_residual,
    linear_release_gdp,
    llp_calibrate,
    llp_delta,
    llp_epsilon,
)
from labeldp.mechanisms.bagging import (
    Bagged,
    BagSum,
    NaiveBags,
    NoisyWeightedLLP,
    ShownBags,
    WeightedLBA,
    WeightedSums,
    median_bags,
    random_bags,
)
from labeldp.mechanisms.base import EpsilonMechanism, FiniteMechanism, Mechanism, Table
from labeldp.mechanisms.binned import WIDE_STDDEV, wide_gaussian, wide_laplace
from labeldp.mechanisms.candidates import CandidateSets
from labeldp.mechanisms.central import ExponentialMechanism, LaplaceHistogram, PermuteAndFlip
from labeldp.mechanisms.coins import MIN_RATE
from labeldp.mechanisms.cubes import CubeGrid, Located
from labeldp.mechanisms.debias import Debiased, debias
from labeldp.mechanisms.discrete_gaussian import MAX_CELLS, gaussian_loss
from labeldp.mechanisms.domains import Classes, Domain, Interval
from labeldp.mechanisms.full import FullMeans, FullSelection
from labeldp.mechanisms.groups import CountMechanism
from labeldp.mechanisms.laplace import DiscreteLaplace
from labeldp.mechanisms.moments import CrossMoment, GaussianMoment, LaplaceMoment
from labeldp.mechanisms.onehot import GaussianOneHot
from labeldp.mechanisms.randomized_response import (
    RandomizedResponse,
    RandomizedResponseTopK,
    RandomizedResponseWithPrior,
)
from labeldp.mechanisms.sums import LaplaceSum
from labeldp.mechanisms.unary import UnaryEncoding

__all__ = [
    "MAX_CELLS",
    "MIN_RATE",
    "WIDE_STDDEV",
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
    "PermuteAndFlip",
    "RandomizedResponse",
    "RandomizedResponseTopK",
    "RandomizedResponseWithPrior",
    "ShownBags",
    "Table",
    "UnaryEncoding",
    "WeightedLBA",
    "WeightedSums",
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
    "random_bags",
    "wide_gaussian",
    "wide_laplace",
]

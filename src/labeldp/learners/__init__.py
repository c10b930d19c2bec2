"""What can be learned from released labels: multi-stage training, noise-aware models, scores without true labels."""

from labeldp.learners.adapters import NoisyLabelClassifier
from labeldp.learners.bags import BagRegressor, BagRows, bag_product, bag_rows, fit_bags
from labeldp.learners.cellfit import default_cells, fit_cells
from labeldp.learners.cells import CellClassifier, CellRegressor
from labeldp.learners.central import evaluated, fit_linear, round_loss, round_moment
from labeldp.learners.clusters import cluster_prior, default_clusters, default_epsilon
from labeldp.learners.compact import CompactPartition
from labeldp.learners.convex import ConvexLoss, LossClassifier, SoftmaxRegression, UnitVectorLoss
from labeldp.learners.defaults import boosted_regression, boosted_trees, default_classifiers
from labeldp.learners.errors import NumberEvaluation, debiased_share, debiased_squared_error, judged, measuring
from labeldp.learners.evaluation import (
    Estimate,
    Evaluation,
    debiased_accuracy,
    debiased_auc,
    debiased_confusion,
    debiased_log_loss,
)
from labeldp.learners.evidence import Evidence
from labeldp.learners.full import GridClassifier, GridRegressor, fit_full_cells, simulate_full_local
from labeldp.learners.grown import KMeansPartition, TreePartition
from labeldp.learners.intrinsic import intrinsic_dimension
from labeldp.learners.kernel import KernelClassifier
from labeldp.learners.linear import LinearClassifier, LinearRegressor
from labeldp.learners.maps import RandomFourier, TableMap
from labeldp.learners.medians import MedianPartition
from labeldp.learners.model import Model
from labeldp.learners.multistage import fit_multistage
from labeldp.learners.neighbors import NeighborsClassifier, NeighborsRegressor
from labeldp.learners.partitions import CubePartition, Partition
from labeldp.learners.patches import PatchFilters
from labeldp.learners.probabilities import tempered
from labeldp.learners.regressor import NoisyNumberRegressor
from labeldp.learners.scorer import debiased_scorer
from labeldp.learners.sgd import lp_normal_sgd, lp_rr_sgd, normal_moment, printed_moment, response_moment
from labeldp.learners.smoothed import CellTreesClassifier, CellTreesRegressor
from labeldp.learners.training import Training, fit_noisy, posterior, rehearse
from labeldp.learners.tuning import Tuned, clipping_radius, cube_side, neighbors, tune
from labeldp.learners.whitening import CHOSEN

__all__ = [
    "CHOSEN",
    "BagRegressor",
    "BagRows",
    "CellClassifier",
    "CellRegressor",
    "CellTreesClassifier",
    "CellTreesRegressor",
    "CompactPartition",
    "ConvexLoss",
    "CubePartition",
    "Estimate",
    "Evaluation",
    "Evidence",
    "GridClassifier",
    "GridRegressor",
    "KMeansPartition",
    "KernelClassifier",
    "LinearClassifier",
    "LinearRegressor",
    "LossClassifier",
    "MedianPartition",
    "Model",
    "NeighborsClassifier",
    "NeighborsRegressor",
    "NoisyLabelClassifier",
    "NoisyNumberRegressor",
    "NumberEvaluation",
    "Partition",
    "PatchFilters",
    "RandomFourier",
    "SoftmaxRegression",
    "TableMap",
    "Training",
    "TreePartition",
    "Tuned",
    "UnitVectorLoss",
    "bag_product",
    "bag_rows",
    "boosted_regression",
    "boosted_trees",
    "clipping_radius",
    "cluster_prior",
    "cube_side",
    "debiased_accuracy",
    "debiased_auc",
    "debiased_confusion",
    "debiased_log_loss",
    "debiased_scorer",
    "debiased_share",
    "debiased_squared_error",
    "default_cells",
    "default_classifiers",
    "default_clusters",
    "default_epsilon",
    "evaluated",
    "fit_bags",
    "fit_cells",
    "fit_full_cells",
    "fit_linear",
    "fit_multistage",
    "fit_noisy",
    "intrinsic_dimension",
    "judged",
    "lp_normal_sgd",
    "lp_rr_sgd",
    "measuring",
    "neighbors",
    "normal_moment",
    "posterior",
    "printed_moment",
    "rehearse",
    "response_moment",
    "round_loss",
    "round_moment",
    "simulate_full_local",
    "tempered",
    "tune",
]

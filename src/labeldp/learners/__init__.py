"""What can be learned from released labels: multi-stage training, noise-aware models, scores without true labels."""

import warnings
from typing import Any

from labeldp.learners.adapters import NoisyLabelClassifier, NoisyNumberRegressor, debiased_scorer
from labeldp.learners.bags import BagRegressor, BagRows, bag_product, bag_rows, fit_bags
from labeldp.learners.cells.central import CellTreesClassifier, CellTreesRegressor, default_cells, fit_cells
from labeldp.learners.cells.clustered import CompactPartition, KMeansPartition, TreePartition
from labeldp.learners.cells.local import CellClassifier, CellRegressor
from labeldp.learners.cells.partitions import CubePartition, MedianPartition, Partition
from labeldp.learners.cells.whole_records import GridClassifier, GridRegressor, fit_full_cells, simulate_full_local
from labeldp.learners.classifiers import (
    KernelClassifier,
    boosted_regression,
    boosted_trees,
    classifiers_of,
    default_classifiers,
    distances,
    indicators,
)
from labeldp.learners.evaluation import (
    Estimate,
    Evaluation,
    NumberEvaluation,
    debiased_accuracy,
    debiased_auc,
    debiased_confusion,
    debiased_log_loss,
    debiased_share,
    debiased_squared_error,
    evaluate,
    evaluation_mechanism,
)
from labeldp.learners.evidence import Evidence, tempered
from labeldp.learners.features import intrinsic_dimension
from labeldp.learners.linear import LinearClassifier, LinearRegressor, fit_linear, round_loss, round_moment
from labeldp.learners.model import Model, fit_and_evaluate
from labeldp.learners.multistage import cluster_prior, default_clusters, default_epsilon, fit_multistage
from labeldp.learners.nearest import NeighborsClassifier, NeighborsRegressor
from labeldp.learners.representations import PatchFilters, RandomFourier, TableMap
from labeldp.learners.scattering import ImageMap, ScatterFilters
from labeldp.learners.sgd import (
    ConvexLoss,
    LossClassifier,
    SoftmaxRegression,
    UnitVectorLoss,
    lp_normal_sgd,
    lp_rr_sgd,
    normal_moment,
    printed_moment,
    response_moment,
)
from labeldp.learners.training import Training, dry_run, fit_noisy, posterior
from labeldp.learners.tuning import Tuned, clipping_radius, cube_side, neighbor_count, tune
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
    "ImageMap",
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
    "ScatterFilters",
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
    "classifiers_of",
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
    "distances",
    "dry_run",
    "evaluate",
    "evaluation_mechanism",
    "fit_and_evaluate",
    "fit_bags",
    "fit_cells",
    "fit_full_cells",
    "fit_linear",
    "fit_multistage",
    "fit_noisy",
    "indicators",
    "intrinsic_dimension",
    "lp_normal_sgd",
    "lp_rr_sgd",
    "neighbor_count",
    "normal_moment",
    "posterior",
    "printed_moment",
    "response_moment",
    "round_loss",
    "round_moment",
    "simulate_full_local",
    "tempered",
    "tune",
]

neighbors = neighbor_count  # the old name, as labeldp.neighbors warns

_RENAMED = {
    "evaluated": fit_and_evaluate,
    "judged": evaluate,
    "measuring": evaluation_mechanism,
    "rehearse": dry_run,
}


def __getattr__(name: str) -> Any:
    """Return the function that has the old name `name`."""
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    message = f"labeldp.learners.{name} is now labeldp.learners.{_RENAMED[name].__name__}"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return _RENAMED[name]

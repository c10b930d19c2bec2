"""Learn from private labels: features are public, labels are not.

>>> import labeldp as ldp
>>> mechanism = ldp.RandomizedResponse(domain=ldp.Classes(("no", "yes")), epsilon=1.0)
>>> round(mechanism.keep_probability, 3)
0.731
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labeldp.learners import (
        BagRegressor,
        CellClassifier,
        CellRegressor,
        CubePartition,
        KMeansPartition,
        MedianPartition,
        Model,
        NeighborsClassifier,
        NeighborsRegressor,
        NoisyLabelClassifier,
        TreePartition,
        clipping_radius,
        cluster_prior,
        cube_side,
        debiased_accuracy,
        debiased_auc,
        debiased_confusion,
        debiased_log_loss,
        debiased_scorer,
        fit_bags,
        fit_cells,
        fit_full_cells,
        fit_linear,
        fit_multistage,
        fit_noisy,
        lp_normal_sgd,
        lp_rr_sgd,
        neighbors,
        posterior,
    )
    from labeldp.mechanisms import (
        BagSum,
        Classes,
        CubeGrid,
        DiscreteLaplace,
        ExponentialMechanism,
        FullMeans,
        FullSelection,
        GaussianMoment,
        GaussianOneHot,
        HiddenBag,
        Interval,
        LaplaceHistogram,
        LaplaceMoment,
        LaplaceSum,
        Located,
        NaiveBags,
        NoisyBags,
        NoisyWeightedLLP,
        PermuteAndFlip,
        RandomizedResponse,
        RandomizedResponseTopK,
        RandomizedResponseWithPrior,
        UnaryEncoding,
        WeightedLBA,
        cross_bound,
        debias,
        lba_delta,
        lba_required_residual,
        linear_release_gdp,
        llp_calibrate,
        llp_delta,
        llp_epsilon,
        median_bags,
        random_bags,
    )
    from labeldp.online import (
        L2P,
        Ball,
        BatchedDartboard,
        BetterOfTwo,
        Box,
        DoublingExponential,
        MatrixFactorization,
        MultiplicativeWeights,
        MultiplicativeWeightsMeasure,
        NamedExperts,
        NoisyLeader,
        OnlineGradientDescent,
        PlainRedraw,
        PrivateExperts,
        PrivateOnlineConvex,
        RegularizedWeights,
        ShrinkingDartboard,
        Space,
        TreeNoise,
        plan_convex,
        plan_experts,
    )
    from labeldp.privacy import (
        Budget,
        BudgetExceeded,
        Certificate,
        DomainError,
        InputError,
        KeyedRandomness,
        LabelDPError,
        Ledger,
        LedgerError,
        NotInvertibleError,
        PrivacyLoss,
        Public,
        Release,
        SystemRandomness,
        gather,
    )
    from labeldp.workflows import Curator, LedgerFile, read_bags

_ROOMS = {
    "labeldp.privacy": (
        "Budget BudgetExceeded Certificate DomainError InputError KeyedRandomness LabelDPError Ledger LedgerError "
        "NotInvertibleError PrivacyLoss Public Release SystemRandomness gather"
    ),
    "labeldp.mechanisms": (
        "BagSum Classes CubeGrid DiscreteLaplace ExponentialMechanism FullMeans FullSelection GaussianMoment "
        "GaussianOneHot HiddenBag Interval LaplaceHistogram LaplaceMoment LaplaceSum Located NaiveBags NoisyBags "
        "NoisyWeightedLLP PermuteAndFlip RandomizedResponse RandomizedResponseTopK RandomizedResponseWithPrior "
        "UnaryEncoding WeightedLBA cross_bound debias lba_delta lba_required_residual linear_release_gdp "
        "llp_calibrate llp_delta llp_epsilon median_bags random_bags"
    ),
    "labeldp.learners": (
        "BagRegressor CellClassifier CellRegressor CubePartition KMeansPartition MedianPartition Model "
        "NeighborsClassifier NeighborsRegressor NoisyLabelClassifier TreePartition clipping_radius cluster_prior "
        "cube_side debiased_accuracy debiased_auc debiased_confusion debiased_log_loss debiased_scorer fit_bags "
        "fit_cells fit_full_cells fit_linear fit_multistage fit_noisy lp_normal_sgd lp_rr_sgd neighbors "
        "posterior"
    ),
    "labeldp.online": (
        "Ball BatchedDartboard BetterOfTwo Box DoublingExponential L2P MatrixFactorization "
        "MultiplicativeWeights MultiplicativeWeightsMeasure NamedExperts NoisyLeader "
        "OnlineGradientDescent PlainRedraw PrivateExperts PrivateOnlineConvex RegularizedWeights "
        "ShrinkingDartboard Space TreeNoise plan_convex plan_experts"
    ),
    "labeldp.workflows": "Curator LedgerFile read_bags",
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names.split()}

__version__ = "0.1.0"

__all__ = [
    "L2P",
    "BagRegressor",
    "BagSum",
    "Ball",
    "BatchedDartboard",
    "BetterOfTwo",
    "Box",
    "Budget",
    "BudgetExceeded",
    "CellClassifier",
    "CellRegressor",
    "Certificate",
    "Classes",
    "CubeGrid",
    "CubePartition",
    "Curator",
    "DiscreteLaplace",
    "DomainError",
    "DoublingExponential",
    "ExponentialMechanism",
    "FullMeans",
    "FullSelection",
    "GaussianMoment",
    "GaussianOneHot",
    "HiddenBag",
    "InputError",
    "Interval",
    "KMeansPartition",
    "KeyedRandomness",
    "LabelDPError",
    "LaplaceHistogram",
    "LaplaceMoment",
    "LaplaceSum",
    "Ledger",
    "LedgerError",
    "LedgerFile",
    "Located",
    "MatrixFactorization",
    "MedianPartition",
    "Model",
    "MultiplicativeWeights",
    "MultiplicativeWeightsMeasure",
    "NaiveBags",
    "NamedExperts",
    "NeighborsClassifier",
    "NeighborsRegressor",
    "NoisyBags",
    "NoisyLabelClassifier",
    "NoisyLeader",
    "NoisyWeightedLLP",
    "NotInvertibleError",
    "OnlineGradientDescent",
    "PermuteAndFlip",
    "PlainRedraw",
    "PrivacyLoss",
    "PrivateExperts",
    "PrivateOnlineConvex",
    "Public",
    "RandomizedResponse",
    "RandomizedResponseTopK",
    "RandomizedResponseWithPrior",
    "RegularizedWeights",
    "Release",
    "ShrinkingDartboard",
    "Space",
    "SystemRandomness",
    "TreeNoise",
    "TreePartition",
    "UnaryEncoding",
    "WeightedLBA",
    "clipping_radius",
    "cluster_prior",
    "cross_bound",
    "cube_side",
    "debias",
    "debiased_accuracy",
    "debiased_auc",
    "debiased_confusion",
    "debiased_log_loss",
    "debiased_scorer",
    "fit_bags",
    "fit_cells",
    "fit_full_cells",
    "fit_linear",
    "fit_multistage",
    "fit_noisy",
    "gather",
    "lba_delta",
    "lba_required_residual",
    "linear_release_gdp",
    "llp_calibrate",
    "llp_delta",
    "llp_epsilon",
    "lp_normal_sgd",
    "lp_rr_sgd",
    "median_bags",
    "neighbors",
    "plan_convex",
    "plan_experts",
    "posterior",
    "random_bags",
    "read_bags",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    """Every name is imported when it is first used: `import labeldp` alone loads nothing."""
    if name not in _HOME:
        raise AttributeError(f"module 'labeldp' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value

"""Learn from private labels: features are public, labels are not.

>>> import labeldp as ldp
>>> mechanism = ldp.RandomizedResponse(domain=ldp.Classes(("no", "yes")), epsilon=1.0)
>>> round(mechanism.keep_probability, 3)
0.731

The names that most programs need stand here, all others in their rooms, such as `ldp.online.BatchedDartboard`.
"""

import warnings
from importlib import import_module
from typing import Any

import lazy_loader

from labeldp._version import __version__ as __version__

_lazy, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

_MOVED = {
    "learners": (
        "CellClassifier",
        "CellRegressor",
        "CubePartition",
        "KMeansPartition",
        "MedianPartition",
        "Model",
        "NeighborsClassifier",
        "NeighborsRegressor",
        "TreePartition",
        "clipping_radius",
        "cube_side",
        "debiased_auc",
        "debiased_confusion",
        "debiased_log_loss",
        "lp_normal_sgd",
        "neighbors",
        "posterior",
    ),
    "mechanisms": (
        "CubeGrid",
        "ExponentialMechanism",
        "GaussianOneHot",
        "HiddenBag",
        "LaplaceMoment",
        "LaplaceSum",
        "NoisyBags",
        "PermuteAndFlip",
        "RandomizedResponseTopK",
        "cross_bound",
        "lba_delta",
        "lba_required_residual",
        "llp_calibrate",
        "llp_delta",
        "llp_epsilon",
    ),
    "online": (
        "L2P",
        "Ball",
        "BatchedDartboard",
        "BetterOfTwo",
        "Box",
        "DoublingExponential",
        "MatrixFactorization",
        "MultiplicativeWeightsMeasure",
        "NoisyLeader",
        "PlainRedraw",
        "RegularizedWeights",
        "ShrinkingDartboard",
        "Space",
        "TreeNoise",
        "plan_convex",
    ),
    "privacy": ("NotInvertibleError",),
}
"""Names of version 0.1 that are in their rooms only; version 0.3 will not find them here."""


def __getattr__(name: str) -> Any:
    """Return a name of the package; warn where it has moved to a room."""
    for room, names in _MOVED.items():
        if name in names:
            warnings.warn(f"labeldp.{name} is now labeldp.{room}.{name}", DeprecationWarning, stacklevel=2)
            return getattr(import_module(f"labeldp.{room}"), name)
    return _lazy(name)

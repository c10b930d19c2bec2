"""Train networks on released labels; needs torch (`pip install '.[torch]'`)."""

from importlib.util import find_spec

if not find_spec("torch"):
    raise ModuleNotFoundError(
        "networks need torch: pip install '.[torch]', 5 GB with CUDA; or first, for processors alone, "
        "pip install torch --index-url https://download.pytorch.org/whl/cpu",
        name="torch",
    )

from labeldp.networks.architectures import NETWORKS, Network, build, parameters
from labeldp.networks.bags import BagTargets, appendix_network, train_bags, two_pass
from labeldp.networks.classifier import NetworkClassifier, NetworkStages
from labeldp.networks.descent import ModuleClassifier, fit_descent, linear_module
from labeldp.networks.distillation import Distilled, fit_best, steps, takes_labels
from labeldp.networks.losses import Objective, forward_loss, objective_of, preference_loss, released_loss, targets
from labeldp.networks.selfsupervised import SelfSupervised
from labeldp.networks.training import PRESETS, Recipe, Record, State, train

__all__ = [
    "NETWORKS",
    "PRESETS",
    "BagTargets",
    "Distilled",
    "ModuleClassifier",
    "Network",
    "NetworkClassifier",
    "NetworkStages",
    "Objective",
    "Recipe",
    "Record",
    "SelfSupervised",
    "State",
    "appendix_network",
    "build",
    "fit_best",
    "fit_descent",
    "forward_loss",
    "linear_module",
    "objective_of",
    "parameters",
    "preference_loss",
    "released_loss",
    "steps",
    "takes_labels",
    "targets",
    "train",
    "train_bags",
    "two_pass",
]

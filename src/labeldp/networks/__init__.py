"""Train networks on released labels; needs torch (`pip install '.[torch]'`)."""

from importlib.util import find_spec

if not find_spec("torch"):
    raise ModuleNotFoundError("labeldp.networks needs torch: pip install '.[torch]'", name="torch")

from labeldp.networks.architectures import NETWORKS, Network, build, parameters
from labeldp.networks.bags import BagTargets, appendix_network, appendix_predictions, train_bags, two_pass
from labeldp.networks.best import fit_best, steps, takes_labels
from labeldp.networks.classifier import NetworkClassifier
from labeldp.networks.likelihood import released_loss
from labeldp.networks.preferences import preference_loss
from labeldp.networks.selfsupervised import SelfSupervised
from labeldp.networks.training import PRESETS, Objective, Recipe, Record, State, objective_of, targets, train

__all__ = [
    "NETWORKS",
    "PRESETS",
    "BagTargets",
    "Network",
    "NetworkClassifier",
    "Objective",
    "Recipe",
    "Record",
    "SelfSupervised",
    "State",
    "appendix_network",
    "appendix_predictions",
    "build",
    "fit_best",
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

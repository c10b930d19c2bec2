"""The catalog of learners: the only list. Command line, help, estimators, reports and bundles read it.

It imports nothing heavy: a row names a class, which is imported when a fit asks for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

from labeldp.privacy import InputError

if TYPE_CHECKING:
    from labeldp.learners.plan import Learner

TRUSTS = "local", "central"
"""Who may see the labels of a fit."""

AUTO = "auto"
"""The `--model` that stands for one of the others: `labeldp.fit.choose_model` takes it."""


def imported(module: str) -> Any:
    """Return a module of learners.

    Raises:
        InputError: it needs torch, which is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        reason = f"{error}. Linear models do without it"
    raise InputError(reason)


@dataclass(frozen=True)
class LearnerEntry:
    """One value of `--model`.

    Args:
        help: what it is, as a phrase for help and reports.
        local, central: "module:Class" of the learner under such trust; empty where there is none.
        targets: what it learns, "classes", "numbers" or both, under local trust and under central trust.
        data: "tables", "images" or both.
        options: fields of the class that the command line sets; all others are refused.
        stores: the classes that its bundles hold and skops must be told of, names by module.
        numbers: "module:Class" of the learner of numbers under local trust, if it is another one.
        weighted: of which targets it takes weights of the records, under local trust.
    """

    help: str
    local: str = ""
    central: str = ""
    targets: tuple[tuple[str, ...], tuple[str, ...]] = (("classes",), ("classes", "numbers"))
    data: tuple[str, ...] = ("tables",)
    options: tuple[str, ...] = ()
    stores: Mapping[str, str] = field(default_factory=dict)
    numbers: str = ""
    weighted: tuple[str, ...] = ()

    def path(self, trust: str, target: str, prior: str = "none") -> str:
        """Return "module:Class" of what learns such labels under such trust; "" if nothing does.

        A prior of counts takes a trusted curator, though labels are randomized.
        """
        if trust == "central" and prior != "none" and "prior" in self.options and target == "classes":
            return self.local
        if target not in self.targets[TRUSTS.index(trust)]:
            return ""
        if trust == "local" and target == "numbers" and self.numbers:
            return self.numbers
        return self.local if trust == "local" else self.central

    def make(self, name: str, trust: str, target: str = "classes", **options: Any) -> "Learner":
        """Import the learner, and make it with options of the command line.

        Raises:
            InputError: an option that its class does not have.
        """
        module, _, kind = self.path(trust, target, options.get("prior", "none")).partition(":")
        learner = getattr(imported(module), kind)
        allowed = {item.name for item in fields(learner)} & set(self.options)
        refused = [option for option in options if option not in allowed]
        if refused:
            raise InputError(
                f"--{' and --'.join(refused)} {'do' if len(refused) > 1 else 'does'} not go with --model {name} and "
                f"--trust {trust}{' of numbers' * (target == 'numbers')}"
            )
        shared = {"trust": trust} if "trust" in self.options else {}  # of a class for either
        value: Learner = learner(name=name, **shared, **options)
        return value


BOTH = "classes", "numbers"

_STAGES, _RELEASED = "labeldp.learners.multistage:Multistage", "labeldp.learners.released:ReleasedLabels"

_STAGED = "stages", "prior"

_LINEAR = {
    "labeldp.learners.softmax": "LinearClassifier SoftmaxClassifier",
    "labeldp.learners.linear": "LinearRegressor",
    "labeldp.features.representations": "CenteredColumns PatchFilters RandomFourier TableMap",
    "labeldp.features.scattering": "ImageMap ScatterFilters",
    "sklearn.pipeline": "Pipeline",
    "sklearn.tree._tree": "Tree",
}
_NETWORK = {"labeldp.networks.classifier": "NetworkClassifier"}


LEARNERS: dict[str, LearnerEntry] = {
    "mixture": LearnerEntry(
        "a mixture of linear models and boosted trees, for numbers of boosting and ridge regressions",
        _STAGES,
        targets=(BOTH, ()),
        options=_STAGED,
        stores={
            **_LINEAR,
            "labeldp.learners.mixture": "MixtureClassifier",
            "labeldp.learners.blends": "BlendedRegressor",
            "sklearn.utils._bunch": "Bunch",
        },
        numbers=_RELEASED,
    ),
    "boosting": LearnerEntry(
        "gradient-boosted trees",
        _STAGES,
        targets=(BOTH, ()),
        options=_STAGED,
        stores={
            "sklearn.ensemble._hist_gradient_boosting.gradient_boosting": "HistGradientBoostingClassifier",
            "sklearn.ensemble._hist_gradient_boosting.predictor": "TreePredictor",
            "labeldp.learners.adapters": "NoisyNumberRegressor",
            "labeldp.learners.classifiers": "SoftTrees",
        },
        numbers=_RELEASED,
        weighted=BOTH,
    ),
    "linear": LearnerEntry(
        "a linear model of noisy labels, with central trust of noisy sums",
        "labeldp.learners.multistage:SoftmaxStages",
        "labeldp.learners.linear:Linear",
        data=("tables", "images"),
        options=("stages",),
        stores=_LINEAR,
    ),
    "cells": LearnerEntry(
        "means over cells of similar records, or with central trust trees of noisy sums of cells",
        _RELEASED,
        "labeldp.learners.cells.central:Cells",
        targets=(BOTH, BOTH),
        options=("cells",),
        stores={
            "labeldp.learners.cells.local": "CellClassifier CellRegressor NonEmptyCells FeatureScale",
            "labeldp.learners.cells.partitions": "MedianPartition",
            "labeldp.learners.cells.central": "CellTreesClassifier CellTreesRegressor",
            "sklearn.ensemble._hist_gradient_boosting.gradient_boosting": "HistGradientBoostingClassifier",
            "sklearn.ensemble._hist_gradient_boosting.predictor": "TreePredictor",
        },
    ),
    "neighbors": LearnerEntry(
        "means over the nearest records",
        _RELEASED,
        targets=(BOTH, ()),
        options=("neighbors",),
        stores={
            "labeldp.learners.neighbors": "NeighborsClassifier NeighborsRegressor",
            "sklearn.metrics._dist_metrics": "EuclideanDistance64",
            "sklearn.neighbors._ball_tree": "BallTree",
            "sklearn.neighbors._kd_tree": "KDTree",
        },
    ),
    "network": LearnerEntry(
        "a network",
        "labeldp.networks.classifier:NetworkStages",
        targets=(("classes",), ()),
        data=("images",),
        options=(*_STAGED, "network", "epochs", "init"),
        stores=_NETWORK,
    ),
    "distilled": LearnerEntry(
        "a linear model, and networks that learn from it",
        "labeldp.networks.distillation:Distilled",
        "labeldp.networks.distillation:Distilled",
        targets=(("classes",), ("classes",)),
        data=("images",),
        options=("trust", "network"),
        stores={"labeldp.networks.distillation": "LayeredClassifier Layer", **_NETWORK, **_LINEAR},
    ),
}
"""Every `--model` but "auto", by name, in the order of the help."""

IMAGE_NETWORKS = {
    "cnn": "a compact convolutional network",
    "inception": "a small Inception network",
    "resnet18": "a residual network of 18 layers",
    "mlp": "a network of two hidden layers",
}
"""Every `--network`, by name, in words; `labeldp.networks` builds them with torch."""

DEFAULTS: dict[str, Any] = {
    "stages": 1,
    "prior": "none",
    **dict.fromkeys(("epochs", "init", "cells", "neighbors", "network")),
}
"""The options of all learners, as they are where nobody gives them."""


def learner_of(
    name: str,
    *,
    trust: str = "local",
    target: str = "classes",
    images: bool = False,
    delta: float = 0.0,
    **options: Any,
) -> "Learner":
    """Return the learner of a `--model`, for a table or for images.

    Args:
        name: a key of `LEARNERS`.
        trust: "local" or "central".
        target: "classes" or "numbers".
        images: whether features are images.
        delta: what may be spent.
        options: keys of `DEFAULTS`.

    Raises:
        InputError: no such model, another one than data, labels and trust allow, or an option that does not go with it.
    """
    if trust not in TRUSTS:
        raise InputError("--trust must be local or central")
    given = {option: value for option, value in options.items() if value != DEFAULTS[option]}
    prior = given.get("prior", "none")
    _check_names(name, given, images)
    entry = LEARNERS[name]
    if not entry.path(trust, target, prior):
        raise InputError(_other_models(name, trust, target, images))
    if prior != "none" and trust == "local":
        raise InputError(
            f"--prior {prior} goes with --trust central: a curator counts the labels of each cluster before "
            "adding noise"
        )
    if delta and trust == "local":
        raise InputError(_why_no_delta(name, trust, prior))
    learner = entry.make(name, trust, target, **given)
    if delta and not learner.takes_delta:
        raise InputError(_why_no_delta(name, trust, prior))
    return learner


def _check_names(name: str, given: Mapping[str, Any], images: bool) -> None:
    """Refuse options of other models, and a model that is none or not for such data."""
    for option in given:
        models = [model for model, entry in LEARNERS.items() if option in entry.options]
        if name not in models and name in LEARNERS and option not in _STAGED:
            raise InputError(f"--{option} goes with --model {', '.join(models)}")
    models = [model for model, entry in LEARNERS.items() if ("images" if images else "tables") in entry.data]
    if name not in models:
        what = "images" if images else "a table"
        problem = f"--model {name} is not for {what}: take --model" if name in LEARNERS else "--model must be one of"
        raise InputError(f"{problem} {', '.join([AUTO, *models])}")


def _why_no_delta(name: str, trust: str, prior: str) -> str:
    """Say why a delta does not go with a learner."""
    if prior != "none":
        return f"--delta does not go with --prior {prior}: its counts and labels need none"
    if trust == "local":
        return (
            "--delta goes with --trust central, or with --user: one randomized label needs none; labeldp ledger add "
            "gives a dataset's budget one"
        )
    return f"--delta does not go with --model {name}: its guarantee is pure without it"


def _other_models(name: str, trust: str, target: str, images: bool) -> str:
    """Say why a model does not go with labels or trust, and which ones do."""
    names = names_of(trust, target, images=images)
    other = TRUSTS[trust == "local"]
    if LEARNERS[name].path(other, target):
        problem = f"--model {name} goes with --trust {other}"
    else:
        problem = f"--model {name} does not learn {target}"
    labels = " and --range" if target == "numbers" else ""
    return f"{problem}; with --trust {trust}{labels} take --model {' or '.join(names)}" if names else problem


def names_of(trust: str, target: str, *, images: bool = False) -> list[str]:
    """Return the learners of such labels under such trust, of tables or of images."""
    data = "images" if images else "tables"
    return [name for name, entry in LEARNERS.items() if data in entry.data and entry.path(trust, target)]


def model_words(estimator: object) -> str:
    """Return what a fitted classifier is, as the help of its model says it, else its class's name."""
    name = type(estimator).__name__
    if name == "DummyClassifier":
        return "a constant: the released labels were all of one class"
    if name == "MixtureClassifier":
        return "a mixture of linear models and boosted trees"
    stores = ((entry.help, " ".join(entry.stores.values()).split()) for entry in LEARNERS.values())
    return next((phrase for phrase, names in stores if name in names), name)

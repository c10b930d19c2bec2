"""The one list of what `--model` can be; the command line, its help, reports and bundles read it.

It imports nothing heavy: a row names the class that learns, and that class is imported when a fit asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labeldp.fit.recipe import Recipe
    from labeldp.fit.settings import FitSettings

TRUSTS = "local", "central"
"""Who may see the labels of a fit."""


@dataclass(frozen=True)
class RecipeSource:
    """A recipe that is not imported yet, and what it is for.

    Args:
        path: "file:Class" in this folder.
        trust: "local" or "central".
        targets: what it learns: "classes", "numbers" or both.
        prior: whether it also takes central trust for a cluster prior.
    """

    path: str
    trust: str
    targets: tuple[str, ...] = ("classes",)
    prior: bool = False

    def takes(self, settings: FitSettings) -> bool:
        """Return whether it learns such labels under such trust."""
        trusts = TRUSTS if self.prior and settings.prior != "none" else (self.trust,)
        return settings.trust in trusts and settings.target in self.targets

    def make(self, settings: FitSettings) -> Recipe:
        """Import the recipe and make it for settings.

        Raises:
            InputError: an option that does not go with it.
        """
        file, _, name = self.path.partition(":")
        recipe: Recipe = getattr(import_module(f"{__package__}.{file}"), name)(settings)
        return recipe


@dataclass(frozen=True)
class ModelChoice:
    """One value of `--model` or `--method`.

    Args:
        name: as it is typed.
        help: what it is, as a phrase for help and reports.
        sources: how it is learned: the first that takes labels and trust.
        data: "tables", "images" or both.
        stores: the classes that its bundles hold and skops must be told of, names by module.
        options: options that go with it alone.
    """

    name: str
    help: str
    sources: tuple[RecipeSource, ...]
    stores: Mapping[str, str] = field(default_factory=dict)
    data: tuple[str, ...] = ("tables",)
    options: tuple[str, ...] = ()


_BOTH = "classes", "numbers"
_NOISY_LABELS = RecipeSource("local:NoisyLabels", "local", prior=True)
_RELEASED_LABELS = RecipeSource("local:ReleasedLabels", "local", _BOTH)
_NETWORK = RecipeSource("networks:NetworkLabels", "local", prior=True)

_LINEAR = {
    "labeldp.learners.heads": "SoftmaxClassifier",
    "labeldp.learners.linear": "LinearClassifier LinearRegressor",
    "labeldp.learners.representations": "PatchFilters TableMap",
    "labeldp.learners.scattering": "ImageMap ScatterFilters",
    "sklearn.tree._tree": "Tree",
}
_NETWORK_CLASSIFIER = {"labeldp.networks.classifier": "NetworkClassifier"}


def _network(name: str, phrase: str) -> ModelChoice:
    return ModelChoice(name, phrase, (_NETWORK,), _NETWORK_CLASSIFIER, ("images",), ("epochs", "init"))


_CHOICES = (
    ModelChoice(
        "auto",
        "boosting or kernel, for numbers boosting or cells, whichever explains held-out released labels better; of "
        "images linear",
        (_NOISY_LABELS, _RELEASED_LABELS),
        {
            "labeldp.learners.pooling": "GeometricMean",
            "labeldp.learners.numbers": "BinMeans",
            "sklearn.utils._bunch": "Bunch",
        },
    ),
    ModelChoice(
        "boosting",
        "gradient-boosted trees",
        (_NOISY_LABELS, _RELEASED_LABELS),
        {
            "sklearn.ensemble._hist_gradient_boosting.gradient_boosting": "HistGradientBoostingClassifier",
            "sklearn.ensemble._hist_gradient_boosting.predictor": "TreePredictor",
            "labeldp.learners.adapters": "NoisyNumberRegressor",
            "labeldp.learners.soft_trees": "SoftTrees",
        },
    ),
    ModelChoice("logistic", "a logistic model", (_NOISY_LABELS,), {"sklearn.pipeline": "Pipeline"}),
    ModelChoice(
        "kernel", "a kernel regression", (_NOISY_LABELS,), {"labeldp.learners.classifiers": "KernelClassifier"}
    ),
    ModelChoice(
        "forest",
        "a random forest",
        (_NOISY_LABELS,),
        {"sklearn.ensemble._forest": "RandomForestClassifier", "sklearn.tree._tree": "Tree"},
    ),
    ModelChoice(
        "linear",
        "a linear model of noisy labels, with central trust of noisy sums",
        (RecipeSource("local:LinearLabels", "local"), RecipeSource("central:NoisySums", "central", _BOTH)),
        _LINEAR,
        ("tables", "images"),
    ),
    ModelChoice(
        "cells",
        "means over cells of similar records, or with central trust trees of noisy sums of cells",
        (_RELEASED_LABELS, RecipeSource("central:NoisyCells", "central", _BOTH)),
        {
            "labeldp.learners.cells.local": "CellClassifier CellRegressor NonEmptyCells Scale",
            "labeldp.learners.cells.partitions": "MedianPartition",
            "labeldp.learners.cells.central": "CellTreesClassifier CellTreesRegressor",
            "sklearn.ensemble._hist_gradient_boosting.gradient_boosting": "HistGradientBoostingClassifier",
            "sklearn.ensemble._hist_gradient_boosting.predictor": "TreePredictor",
        },
        options=("cells",),
    ),
    ModelChoice(
        "neighbors",
        "means over the nearest records",
        (_RELEASED_LABELS,),
        {
            "labeldp.learners.nearest": "NeighborsClassifier NeighborsRegressor",
            "sklearn.metrics._dist_metrics": "EuclideanDistance64",
            "sklearn.neighbors._ball_tree": "BallTree",
            "sklearn.neighbors._kd_tree": "KDTree",
        },
        options=("neighbors",),
    ),
    _network("cnn", "a compact convolutional network"),
    _network("inception", "a small Inception network"),
    _network("resnet18", "a residual network of 18 layers"),
    _network("mlp", "a network of two hidden layers"),
)

RECIPES = {each.name: each for each in _CHOICES}
"""Every `--model`, by name, in the order of the help."""

METHODS = {
    "best": ModelChoice(
        "best",
        "a linear model, and networks that learn from it",
        (RecipeSource("networks:Best", "central"), RecipeSource("networks:Best", "local")),
        {
            "labeldp.networks.best": "LayeredClassifier Layer",
            **_NETWORK_CLASSIFIER,
            **_LINEAR,
        },
        ("images",),
    ),
    "auto": ModelChoice("auto", "what labeldp choose ranks first, from public numbers alone", ()),
}
"""Every `--method`, by name."""

NETWORKS = tuple(name for name, choice in RECIPES.items() if _NETWORK in choice.sources)
"""The models that need torch."""


def recipe_of(settings: FitSettings, *, images: bool = False) -> Recipe:
    """Return how these settings are learned, on a table or on images.

    Raises:
        InputError: no such model, another model than data, labels and trust allow, or an option that does not go with
            it.
    """
    from labeldp.privacy import InputError

    if settings.method is not None and settings.chosen is None:
        if settings.method not in METHODS:
            raise InputError(f"--method must be one of {', '.join(METHODS)}")
        if settings.method == "best" and not images:
            raise InputError("--method best is for images; a table takes --method auto")
        if settings.method == "auto":
            raise InputError("--method auto is for tables; images take --method best")
        return METHODS[settings.method].sources[0].make(settings)
    if settings.trust not in TRUSTS:
        raise InputError("--trust must be local or central")
    central_auto = settings.model == "auto" and settings.trust == "central"
    if central_auto and (settings.target == "numbers" or (settings.prior == "none" and not images)):
        settings = replace(settings, model="linear" if settings.delta or images else "cells")
    if images and settings.model == "auto" and settings.prior == "none":
        settings = replace(settings, model="linear")
    for option in ("cells", "neighbors", "epochs", "init"):
        models = [name for name, choice in RECIPES.items() if option in choice.options]
        if getattr(settings, option) is not None and settings.model not in models:
            raise InputError(f"--{option} goes with --model {', '.join(models)}")
    data, what = ("images", "images") if images else ("tables", "a table")
    choices = {name: choice for name, choice in RECIPES.items() if data in choice.data}
    if settings.model not in choices:
        if images and settings.model == "auto":
            raise InputError(f"--model must be named for images: {', '.join(choices)}")
        known = settings.model in RECIPES
        problem = f"--model {settings.model} is not for {what}: take --model" if known else "--model must be one of"
        raise InputError(f"{problem} {', '.join(choices)}")
    for source in choices[settings.model].sources:
        if source.takes(settings):
            return source.make(settings)
    raise InputError(_other_models(settings, choices, images))


def _other_models(settings: FitSettings, choices: dict[str, ModelChoice], images: bool) -> str:
    """Say why a model does not go with labels or trust, and which ones do."""
    others = [name for name, choice in choices.items() if any(each.takes(settings) for each in choice.sources)]
    ways = [f"--model {' or '.join(others)}"] if others else []
    if images and any(each.takes(settings) for choice in METHODS.values() for each in choice.sources):
        ways.append(f"--method {' or '.join(name for name, choice in METHODS.items() if choice.sources)}")
    sources = choices[settings.model].sources
    if not any(settings.target in each.targets for each in sources):
        problem = f"--model {settings.model} does not learn {settings.target}"
    else:
        trust = next(each.trust for each in sources if settings.target in each.targets)
        problem = f"--model {settings.model} goes with --trust {trust}"
    labels = " and --range" if settings.target == "numbers" else ""
    return f"{problem}; with --trust {settings.trust}{labels} take {', or '.join(ways)}" if ways else problem


def model_of(estimator: object) -> str:
    """Return what a fitted classifier is, as the help of its model says it, else its class's name."""
    name = type(estimator).__name__
    if name == "DummyClassifier":
        return "a constant: the released labels were all of one class"
    return next((each.help for each in _CHOICES if name in " ".join(each.stores.values()).split()), name)

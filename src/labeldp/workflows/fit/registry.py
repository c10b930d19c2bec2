"""The one place that says how each `--model` is learned, and under which `--trust`."""

from collections.abc import Mapping
from dataclasses import replace

from labeldp.learners import MODELS
from labeldp.mechanisms import Classes, Interval
from labeldp.privacy import InputError
from labeldp.workflows.fit.central import NoisyCells, NoisySums
from labeldp.workflows.fit.local import NoisyLabels, ReleasedLabels
from labeldp.workflows.fit.networks import RECIPES, Best, NetworkLabels
from labeldp.workflows.fit.recipe import Recipe
from labeldp.workflows.fit.settings import FitSettings

Kinds = tuple[type[Recipe], ...]
"""The ways to learn a model: the first that labels and trust go with is taken."""


def recipe_of(settings: FitSettings, *, images: bool = False) -> Recipe:
    """How these settings are learned, on a table or on images.

    Raises:
        InputError: no such model, another model than data, labels and trust allow, or an option that does not go with
            it.
    """
    if settings.method == "best":
        if not images:
            raise InputError("--method best is for images; a table takes --model linear with --trust central")
        return Best(settings)
    if settings.trust not in ("local", "central"):
        raise InputError("--trust must be local or central")
    named = isinstance(settings.domain, Interval) or not images
    counted = settings.prior != "none" and isinstance(settings.domain, Classes)
    if named and settings.model == "auto" and settings.trust == "central" and not counted:
        settings = replace(settings, model="linear" if settings.delta or images else "cells")
    for name in ("cells", "neighbors"):
        if getattr(settings, name) is not None and settings.model != name:
            raise InputError(f"--{name} goes with --model {name}")
    plans, what = (IMAGE_PLANS, "images") if images else (PLANS, "a table")
    kinds = plans.get(settings.model)
    if kinds is None:
        if images and settings.model == "auto":
            raise InputError(f"--model must be named for images: {', '.join(plans)}")
        known = settings.model in {**PLANS, **IMAGE_PLANS}
        problem = f"--model {settings.model} is not for {what}: take --model" if known else "--model must be one of"
        raise InputError(f"{problem} {', '.join(plans)}")
    kind = next((each for each in kinds if _goes_with(each, settings)), None)
    if kind is None:
        raise InputError(_other_models(settings, kinds, plans))
    if kind is not NetworkLabels and (settings.epochs or settings.init):
        raise InputError(f"--epochs and --init go with --model {', '.join(RECIPES)}")
    return kind(settings)


def _goes_with(kind: type[Recipe], settings: FitSettings) -> bool:
    """Whether a recipe learns such labels under such trust; for a prior somebody counts labels who sees them."""
    trusts = {kind.trust.name.lower()} | ({"central"} if kind.priors and settings.prior != "none" else set())
    return settings.trust in trusts and isinstance(settings.domain, kind.domains)


def _other_models(settings: FitSettings, kinds: Kinds, plans: Mapping[str, Kinds]) -> str:
    """What is wrong with a model that does not go with labels or trust, and which ones would."""
    numbers = isinstance(settings.domain, Interval)
    others = [name for name, every in plans.items() if any(_goes_with(each, settings) for each in every)]
    best = "--method best" if plans is IMAGE_PLANS and settings.trust == "central" and not numbers else ""
    ways = ", or ".join(filter(None, [f"--model {' or '.join(others)}" if others else "", best]))
    if not any(isinstance(settings.domain, each.domains) for each in kinds):
        problem = f"--model {settings.model} does not learn {'numbers' if numbers else 'classes'}"
    else:
        problem = f"--model {settings.model} goes with --trust {kinds[0].trust.name.lower()}"
    labels = " and --range" if numbers else ""
    return f"{problem}; with --trust {settings.trust}{labels} take {ways}" if ways else problem


PLANS: dict[str, Kinds] = {
    **dict.fromkeys(MODELS, (NoisyLabels,)),
    "auto": (NoisyLabels, ReleasedLabels),
    "boosting": (NoisyLabels, ReleasedLabels),
    "linear": (NoisySums,),
    "cells": (ReleasedLabels, NoisyCells),
    "neighbors": (ReleasedLabels,),
}
"""How each `--model` of a table is learned."""

IMAGE_PLANS: dict[str, Kinds] = {"linear": (NoisySums,), **dict.fromkeys(RECIPES, (NetworkLabels,))}
"""How each `--model` of images is learned."""

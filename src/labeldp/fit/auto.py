"""What `--model auto` takes, and why: decided here alone, once for each fit, from public descriptions."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec

from labeldp.fit.choice import WAYS, advise
from labeldp.fit.settings import FitSettings
from labeldp.learners import AUTO, DEFAULTS, LEARNERS
from labeldp.privacy import InputError, Request, number_text

LEAST_IMAGES = 10_000
"""Fewer images give a network few steps of training; networks were ahead with 60,000 (`docs/results/images.md`)."""

NO_BETTER = "it is not expected to learn more than a constant answer from these records at this ε"


@dataclass(frozen=True)
class Choice:
    """What a fit learns with: what `--model` named, or what `--model auto` took, and why.

    Args:
        model: a key of `LEARNERS`, or the name of a program's own learner.
        trust: "local" or "central": who sees the labels.
        delta: what the fit spends beside epsilon.
        reason: why it was taken, in words; empty where the model was named.
        alternatives: how many other ways there were.
        charged: whether the ledger was charged for it before, so that it stays.
    """

    model: str
    trust: str
    delta: float
    reason: str = ""
    alternatives: int = 0
    charged: bool = False

    @property
    def name(self) -> str:
        """Trust and model, as `labeldp choose` names a way to fit."""
        return f"{self.trust} {self.model}"

    def applied(self, request: Request) -> Request:
        """Return the request that asks for this choice by name."""
        options = {**request.options, "trust": self.trust, "chosen": None}
        return replace(request, does=self.model, delta=number_text(self.delta, "delta"), options=options)

    def __str__(self) -> str:
        return f"--model auto took {self.name}: {self.reason}" if self.reason else ""


@dataclass(frozen=True)
class Described:
    """What is public of the records of a fit.

    Args:
        records: how many; where users are protected, the number that advice counts, see `counted`.
        epsilon: what each of these records costs.
        dimension: number of features.
        categories: how many of the features are categories.
        images: whether the features are images.
        weighted: whether the records have weights.
    """

    records: int
    epsilon: float
    dimension: int = 1
    categories: int = 0
    images: bool = False
    weighted: bool = False


def choose_model(
    request: Request, described: Described, charged: Callable[[Choice], bool] = lambda choice: False
) -> Choice:
    """Return what a fit learns with.

    A named model is taken. "auto" takes what the ledger was charged for already, so that a newer rule charges nothing
    again; else what `labeldp choose` ranks first. If nothing is expected to learn more than a constant answer, it
    takes a linear model of sums with a delta, and cells without one; of randomized labels the mixture. Some requests
    leave no choice: records with weights, an encoder, images, and options of learners.

    Args:
        request: what is asked for; with `chosen` that way is taken.
        described: the records, by public numbers alone.
        charged: whether the ledger was charged for a way to fit.

    Raises:
        InputError: the model takes no weights, `chosen` is no way to fit these records, or an option goes with none.
    """
    settings = FitSettings.of(request)
    if settings.model != AUTO:
        _check_weights(settings.model, settings, described)
        return Choice(settings.model, settings.trust, settings.delta)
    ways = _ways(settings, described)
    ways = [replace(way, alternatives=len(ways) - 1) for way in ways]
    if settings.chosen is not None:
        ways = [way for way in ways if way.name == settings.chosen]
        if not ways:
            raise InputError(f"--model auto has no way {settings.chosen!r} to fit these records")
    if len(ways) == 1:
        return ways[0]
    return next((replace(way, charged=True) for way in ways if charged(way)), ways[0])


def _ways(settings: FitSettings, described: Described) -> list[Choice]:
    """Return all ways to fit records for "auto", the preferred one first; names are distinct."""

    def way(model: str, reason: str) -> Choice:
        return Choice(model, settings.trust, settings.delta, reason)

    if described.weighted:
        model = _weighted(settings.target)[0]
        _check_weights(model, settings, described)
        return [way(model, "of the learners that take weights of records it is the first")]
    if settings.encoder is not None:
        return [way("linear", "a linear model learns from the features of an encoder")]
    if described.images:
        linear = way("linear", f"networks take torch, and at least {LEAST_IMAGES:,} images of classes")
        if settings.options != DEFAULTS:
            return [linear]
        networks = way("distilled", f"networks learn more than a linear model from {LEAST_IMAGES:,} images on")
        enough = settings.target == "classes" and described.records >= LEAST_IMAGES
        return [networks, linear] if enough and find_spec("torch") is not None else [linear, networks]
    sums = settings.trust == "central" and (settings.target == "numbers" or settings.prior == "none")
    default = way(("linear" if settings.delta else "cells") if sums else "mixture", "")
    replace(settings, model=default.model).learner()  # refuses what does not go with it
    if settings.options != DEFAULTS:
        return [replace(default, reason="the options go with it")]
    return _ranked(settings, described, default)


def _ranked(settings: FitSettings, described: Described, default: Choice) -> list[Choice]:
    """Return the ways to fit a table: those that `labeldp choose` ranks, then what is taken where it ranks none."""
    options = advise(
        described.records,
        described.dimension,
        settings.domain,
        described.epsilon,
        settings.delta,
        settings.trust,
        categories=described.categories,
    ).options
    reasons = {option.method: f"{option.expected}. {option.why.removesuffix('.')}" for option in options}
    admissible = {way.name: way for way in WAYS if way.admissible(settings.trust)}
    answers = settings.user_column is not None  # whose cost the delta of a user lowers
    ways = []
    for name in dict.fromkeys([*reasons, default.name, *admissible]):
        way = admissible[name]
        spent = settings.delta if way.delta or (answers and way.trust == "local") else 0.0
        ways.append(Choice(way.model, way.trust, spent, reasons.get(name, NO_BETTER)))
    return ways


def _weighted(target: str) -> list[str]:
    """Return the models that take weights of records."""
    return [model for model, entry in LEARNERS.items() if target in entry.weighted]


def _check_weights(model: str, settings: FitSettings, described: Described) -> None:
    """Raise InputError if records have weights, and the model takes none."""
    names = _weighted(settings.target)
    if described.weighted and (settings.trust != "local" or model not in names):
        raise InputError(
            f"goes with trust='local' and estimator={' or '.join(map(repr, names))}, or with a scikit-learn estimator "
            "whose fit takes it",
            argument="sample_weight",
        )

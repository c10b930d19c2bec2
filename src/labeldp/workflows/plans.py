"""The one place that says how each `--model` is learned, and under which `--trust`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.preprocessing import FunctionTransformer
from threadpoolctl import threadpool_limits

from labeldp.learners import (
    KernelClassifier,
    Model,
    Training,
    cluster_prior,
    fit_linear,
    fit_multistage,
    fit_noisy,
    measuring,
    rehearse,
    round_moment,
)
from labeldp.mechanisms import Classes, CrossMoment, Domain, Interval, RandomizedResponse
from labeldp.privacy import (
    CuratorLike,
    InputError,
    Release,
    Trust,
)
from labeldp.workflows.cell_plans import NoisyCells
from labeldp.workflows.classifiers import MODELS, classifiers_of, indicators, kind_of
from labeldp.workflows.fit_data import PrivateRows
from labeldp.workflows.fit_settings import FitSettings
from labeldp.workflows.image_rows import Rows
from labeldp.workflows.network_plans import RECIPES, Best, NetworkLabels
from labeldp.workflows.plan import (
    EVALUATED,
    Bench,
    Plan,
    Step,
    in_stages,
    kept_label,
    prior_shares,
    refuse_delta,
    refuse_local_prior,
    stage_steps,
)
from labeldp.workflows.released_plans import ReleasedLabels

LEAST = 20
"""Records with numbers, or with a cluster prior, at least."""

DIRECTIONS = 500
"""At most so many of the features that a simulation learns from."""

Kinds = tuple[type[Plan], ...]
"""The ways to learn a model: the first that labels and trust go with is taken."""

MAPPED = {
    "TableMap": "numbers, categories and random trees’ leaves",
    "PatchFilters": "how strongly parts of the image answer to filters, found without labels",
}
"""What a linear model sees, by the transformer that makes it."""


def plan_of(settings: FitSettings, *, images: bool = False) -> Plan:
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


def _goes_with(kind: type[Plan], settings: FitSettings) -> bool:
    """Whether a plan learns such labels under such trust; for a prior somebody counts labels who sees them."""
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


@final
@dataclass(frozen=True)
class NoisyLabels(Plan):
    """A scikit-learn classifier of labels that are randomized one by one, in stages or at once."""

    trust: ClassVar[Trust] = Trust.LOCAL
    priors: ClassVar[bool] = True
    secret: ClassVar[tuple[str, ...]] = ("Which of the randomized labels are true.",)
    simulated: ClassVar[str] = (
        "randomized anew at each epsilon and learnt from in one stage by plain training of the classifier that was "
        "chosen"
    )

    def __post_init__(self) -> None:
        refuse_local_prior(self.settings)
        refuse_delta(self.settings)

    def steps(self, records: int) -> tuple[Step, ...]:
        """One release of all labels, which every fit at this epsilon shares; or a cluster prior, stages, evaluation."""
        settings = self.settings
        if settings.prior == "none" and settings.stages == 1:
            plain = RandomizedResponse(domain=settings.domain, epsilon=settings.epsilon)
            return (Step("stage 1", plain.privacy_loss(), mechanism=plain.specification()),)
        return stage_steps(settings, records)

    def check(self, rows: Rows, bench: Bench) -> None:
        """Refuse before a cluster prior is released what `fit_multistage` would refuse after it.

        Raises:
            InputError: too few records, or features that the classifiers cannot learn from.
        """
        if self.settings.prior != "none":
            if len(rows.features) < LEAST:
                raise InputError(f"--prior {self.settings.prior} needs at least {LEAST} records")
            epsilon = prior_shares(self.settings, len(rows.features))[1]
            response = RandomizedResponse(domain=self.settings.domain, epsilon=epsilon)
            rehearse(self._classifiers(rows), rows.features, Training(), response)

    def _classifiers(self, rows: Rows) -> list[Any]:
        """What is tried on released labels."""
        assert isinstance(rows, PrivateRows)
        return classifiers_of(self.settings.model, rows.features, rows.encoder.categorical, self.settings.domain.size)

    def learn(self, rows: Rows, curator: CuratorLike, *, rng: Any, bench: Bench) -> Release[Model]:
        """See `fit_multistage`."""
        assert isinstance(rows, PrivateRows)
        settings, categorical = self.settings, rows.encoder.categorical
        prior, (prior_epsilon, epsilon) = None, prior_shares(settings, curator.records)
        if prior_epsilon is not None:
            prior = cluster_prior(indicators(rows.features, categorical), curator, epsilon=prior_epsilon, rng=rng)
        return fit_multistage(
            rows.features,
            curator,
            classifier=self._classifiers(rows),
            epsilon=epsilon,
            stages=settings.stages,
            prior=prior,
            rng=rng,
        )

    def prepared(self, model: Model, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """As they are."""
        return features

    def relearn(
        self, model: Model, features: NDArray[np.float64], curator: CuratorLike, *, epsilon: float, rng: Any
    ) -> Model:
        """The chosen classifier from one release of all labels."""
        release = curator.release(RandomizedResponse(domain=curator.domain, epsilon=epsilon), rng=rng)
        return self.learnt_from(model, features, release)

    def learnt_from(self, model: Model, features: NDArray[np.float64], release: Release[Any]) -> Model:
        """The chosen classifier."""
        return fit_noisy(features, release, classifier=clone(model.estimator), training="plain").value

    def keeps_rows(self, model: Model) -> bool:
        """A kernel's centers are records."""
        return isinstance(model.estimator, KernelClassifier)

    def described(self, model: Model) -> str:
        """The classifier that was chosen, and the stages."""
        return f"{kind_of(model.estimator)}, learnt in {in_stages(self.settings.stages)}"

    def noise(self, records: int) -> str:
        """The chance that a released label is the true one."""
        return kept_label(self.settings, records)


@final
@dataclass(frozen=True)
class NoisySums(Plan):
    """A linear model of one noisy sum of rows times labels, by somebody who may see the labels."""

    trust: ClassVar[Trust] = Trust.CENTRAL
    domains: ClassVar[tuple[type[Domain], ...]] = (Classes, Interval)
    secret: ClassVar[tuple[str, ...]] = (
        "The sums as they were before noise was added.",
        "Which of the randomized labels of the evaluation are true.",
    )
    simulated: ClassVar[str] = (
        "summed with fresh noise at each epsilon and the same delta, and learnt from as this model was"
    )

    def __post_init__(self) -> None:
        if self.settings.stages != 1 or self.settings.prior != "none":
            raise InputError("--stages and --prior are for randomized labels: --model linear learns from one release")

    def steps(self, records: int) -> tuple[Step, ...]:
        """The sums of most records, and the labels of the others one by one."""
        settings = self.settings
        answers = measuring(settings.domain, settings.epsilon)
        return Step("linear", self._moment().privacy_loss(), 0), Step("evaluation", answers.privacy_loss(), 1)

    def _moment(self) -> CrossMoment:
        """Sums of a single row: any sums cost the same, as their noise is set to keep epsilon and delta."""
        return round_moment(self.settings.domain, epsilon=self.settings.epsilon, delta=self.settings.delta)

    def check(self, rows: Rows, bench: Bench) -> None:
        """Features of images need images of some size and number; an error of numbers has an interval from two on.

        Raises:
            InputError: images too small, or too few records.
        """
        rows.representation()
        if isinstance(self.settings.domain, Interval) and len(rows.features) < LEAST:
            raise InputError(f"--model linear needs at least {LEAST} records")

    def learn(self, rows: Rows, curator: CuratorLike, *, rng: Any, bench: Bench) -> Release[Model]:
        """See `fit_linear`: on one thread, since the same sums are found again by rows that are the same to the bit."""
        with threadpool_limits(1):
            return fit_linear(
                rows.features,
                curator,
                epsilon=self.settings.epsilon,
                delta=self.settings.delta,
                rng=rng,
                representation=rows.representation(),
                evaluation=EVALUATED,
            )

    def prepared(self, model: Model, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """The widest directions of the features as they were mapped: found once, not at each epsilon."""
        table = model.estimator.representation.transform(features)
        return np.asarray(PCA(min(DIRECTIONS, *table.shape), svd_solver="covariance_eigh").fit_transform(table))

    def relearn(
        self, model: Model, features: NDArray[np.float64], curator: CuratorLike, *, epsilon: float, rng: Any
    ) -> Model:
        """The same at another epsilon, without an evaluation."""
        delta, plain = self.settings.delta, FunctionTransformer()
        return fit_linear(features, curator, epsilon=epsilon, delta=delta, rng=rng, representation=plain).value

    def described(self, model: Model) -> str:
        """The model and the one release."""
        known = MAPPED[type(model.estimator.representation).__name__]
        return f"a linear model of {known}, learnt from one release of noisy sums"

    def noise(self, records: int) -> str:
        """The standard deviation, in units of what one label can do."""
        moment = self._moment()
        kind, most, move = "Gaussian", "the length", moment.sensitivity_square**0.5
        if not self.settings.delta:
            kind, most, move = "Two-sided geometric", "the sum of the amounts", moment.sensitivity_sum
        ratio = moment.noise_stddev / (move * moment.rows.unit)
        return (
            f"{kind} noise was added to every sum: its standard deviation is {ratio:.3g} times {most} by which one "
            "label can move all sums together."
        )


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

"""What every way to learn says before it starts: what it releases, and what that costs."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from labeldp.fit.rows import Rows
from labeldp.fit.settings import FitSettings
from labeldp.learners import (
    EVALUATED,
    Model,
    cluster_prior,
    default_clusters,
    default_epsilon,
    first_response,
    fit_multistage,
)
from labeldp.mechanisms import FiniteMechanism, RandomizedResponse
from labeldp.privacy import (
    Charge,
    CuratorLike,
    InputError,
    PrivacyLoss,
    RandomSource,
    Release,
    float_above,
    positive_epsilon,
)

MIN_RECORDS = 20
"""Records that each part of a fit needs: every fold must have some, and so must what is left."""

MAX_SIMULATED = 20_000
"""Records that a simulation uses at most."""

WHICH_ARE_TRUE = "Which of the randomized labels are true."

FEATURES = {
    "TableMap": "numbers, categories and random trees’ leaves",
    "PatchFilters": "how strongly parts of the image answer to filters, found without labels",
    "ScatterFilters": "how strongly parts of the image answer to wavelets",
    "ImageMap": "how strongly parts of the image answer to wavelets and to filters, found without labels",
}
"""What a linear model sees, by the transformer that makes it."""


@dataclass(frozen=True)
class Step:
    """One release of a fit.

    Args:
        name: of the step, in the ledger and in the report.
        loss: the most that it costs.
        part: of the records, where the fit splits them; None for all of them.
        mechanism: its specification, where every fit that asks for it gets the same release.
    """

    name: str
    loss: PrivacyLoss
    part: int | None = None
    mechanism: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class TrainingContext:
    """What a training is given beside rows and labels.

    Args:
        checkpoints: where it keeps its state.
        init: a fitted network, whose weights are the first ones, as public or as released.
        show: told what is being done, and the share of the learning that is done.
    """

    checkpoints: Path | None = None
    init: Any = field(default=None, repr=False)
    show: Callable[[str, float], None] = field(default_factory=lambda: lambda text, share: None)

    def watch(self, trainings: int) -> Callable[[str, Any, int], None]:
        """Return a function that shows each epoch of so many trainings."""
        begun: list[str] = []

        def told(step: str, record: Any, epochs: int) -> None:
            if step not in begun:
                begun.append(step)
            done = (len(begun) - 1 + record.epoch / epochs) / trainings
            self.show(f"{step}: epoch {record.epoch} of {epochs}, loss {record.loss:.3f}", min(done, 1.0))

        return told


@dataclass(frozen=True)
class Recipe(ABC):
    """How a model is learned from private labels: a value, made before anything is read or charged.

    Args:
        settings: what was asked for.

    Raises:
        InputError: an option that does not go with this recipe.
    """

    settings: FitSettings
    secret: ClassVar[tuple[str, ...]]
    """What the releases do not tell, a sentence each."""
    simulation: ClassVar[str] = ""
    """How `learn_simulated` learns, as the report goes on after "drawn from this model, "; "" if it cannot."""
    notes: ClassVar[tuple[str, ...]] = ()
    """Sentences for the report."""
    resumable: ClassVar[bool] = False
    """Whether it keeps checkpoints."""

    @property
    def share(self) -> float:
        """The share of the records that the model is measured on and does not learn from, where some are."""
        return EVALUATED if self.settings.evaluation is None else self.settings.evaluation

    def check_share(self, records: int) -> None:
        """Refuse too few records, and an evaluation part too small to measure or that leaves too few to learn from.

        Raises:
            InputError: how many records each must have.
        """
        if records < MIN_RECORDS:
            raise InputError(
                f"a fit needs at least {MIN_RECORDS} records, and this one has {records}: it would be charged and "
                "learn nothing"
            )
        asked = self.settings.evaluation
        if asked is not None and min(asked, 1 - asked) * records < MIN_RECORDS:
            raise InputError(
                f"must leave at least {MIN_RECORDS} records to measure the model on, and as many to learn from, of "
                f"{records:,}",
                argument="evaluation",
            )

    @abstractmethod
    def steps(self, records: int) -> tuple[Step, ...]:
        """Return the releases for this number of records, in order."""

    def check(self, rows: Rows, context: TrainingContext) -> None:  # noqa: B027
        """Refuse what cannot be learned from, before anything is charged.

        Raises:
            InputError: what is missing.
        """

    @abstractmethod
    def learn(self, rows: Rows, curator: CuratorLike, *, rng: RandomSource, context: TrainingContext) -> Release[Model]:
        """Make the releases, each under its step's name, and return a model with an evaluation."""

    def prepare_simulation(self, model: Model, features: NDArray[Any]) -> NDArray[Any]:
        """Return the features that `learn_simulated` and its models take; called only if there is a `simulation`."""
        raise NotImplementedError

    def simulated_records(self, columns: int) -> int:
        """Return the largest number of records that a simulation uses, of tables with so many features."""
        return MAX_SIMULATED

    def learn_simulated(
        self, model: Model, features: NDArray[Any], curator: CuratorLike, *, epsilon: float, rng: RandomSource
    ) -> Model:
        """Return the same kind of model from other labels at another epsilon; called only if there is a simulation."""
        raise NotImplementedError

    def refit(self, model: Model, features: NDArray[Any], release: Release[Any]) -> Model:
        """Return the same kind of model from released labels; called only if such models evaluated all records."""
        raise NotImplementedError

    def keeps_rows(self, model: Model) -> bool:
        """Return whether the model's file holds features of records as they are."""
        return False

    @abstractmethod
    def describe(self, model: Model) -> str:
        """Return what the model is and how it was learned, as a phrase."""

    @abstractmethod
    def describe_noise(self, records: int) -> str:
        """Return how much noise hides a label, as a sentence."""

    @property
    def shares_releases(self) -> bool:
        """Whether the steps of all models on the same records are the same releases, whatever the features are."""
        return False

    def remaining_charges(self, charged: Mapping[str, Charge], records: int) -> tuple[Charge, ...]:
        """Return the most that the steps that are not charged yet can come to.

        Args:
            charged: the charges of this very fit so far, by step.
            records: how many there are.
        """
        steps = self.steps(records)
        splits = {charged[step.name].path[0][0] for step in steps if step.part is not None and step.name in charged}
        split = min(splits, default="split")
        return tuple(
            Charge("", () if step.part is None else ((split, step.part),), step.loss, {})
            for step in steps
            if step.name not in charged
        )


@dataclass(frozen=True)
class StageRecipe(Recipe):
    """Classifiers that learn in stages from labels that are randomized one by one: see `fit_multistage`."""

    secret: ClassVar[tuple[str, ...]] = (WHICH_ARE_TRUE,)
    options: ClassVar[Mapping[str, Any]] = {}
    """Further arguments of `fit_multistage`."""

    def __post_init__(self) -> None:
        refuse_local_prior(self.settings)
        refuse_delta(self.settings)

    @abstractmethod
    def classifiers(self, rows: Rows, context: TrainingContext) -> Any:
        """Return the unfitted classifier, or several to choose from."""

    @abstractmethod
    def prior_features(self, rows: Rows) -> NDArray[Any]:
        """Return features that clusters of records are found by, shape (n, any)."""

    def steps(self, records: int) -> tuple[Step, ...]:
        """Return a cluster prior where there is one, then the stages and the evaluation: parts of the records."""
        prior_epsilon, epsilon = prior_shares(self.settings, records)
        names = [*(f"stage {number + 1}" for number in range(self.settings.stages)), "evaluation"]
        parts = tuple(Step(name, PrivacyLoss.pure(epsilon), part) for part, name in enumerate(names))
        if prior_epsilon is None:
            return parts
        return Step("cluster prior", PrivacyLoss.response(positive_epsilon(prior_epsilon) / 2, 2) * 2), *parts

    def learn(self, rows: Rows, curator: CuratorLike, *, rng: RandomSource, context: TrainingContext) -> Release[Model]:
        """See `fit_multistage`."""
        prior, (prior_epsilon, epsilon) = None, prior_shares(self.settings, curator.records)
        if prior_epsilon is not None:
            prior = cluster_prior(self.prior_features(rows), curator, epsilon=prior_epsilon, rng=rng)
        return fit_multistage(
            rows.features,
            curator,
            classifier=self.classifiers(rows, context),
            epsilon=epsilon,
            stages=self.settings.stages,
            prior=prior,
            rng=rng,
            progress=context.show,
            evaluation=self.settings.evaluation,
            **self.options,
        )

    def describe_stages(self) -> str:
        """Return how many stages there are, in words."""
        return "one stage" if self.settings.stages == 1 else f"{self.settings.stages} stages"

    def describe_noise(self, records: int) -> str:
        """Return the probability of the true label, or of its class group."""
        epsilon = prior_shares(self.settings, records)[1]
        first = self.first_response(epsilon)
        if self.settings.stages == 1 and self.settings.prior == "none":
            return first.describe_noise()
        # A record with a prior has fewer candidates, and keeps its label more often.
        classes = RandomizedResponse(domain=first.domain, epsilon=epsilon).describe_noise()
        classes = classes.removesuffix(".") + ", if every class is a candidate."
        if isinstance(first, RandomizedResponse):
            return classes
        return f"{classes} {first.describe_noise().replace('Each record', 'Each record without a prior', 1)}"

    def first_response(self, epsilon: float) -> FiniteMechanism:
        """Return what answers records of which nothing is known."""
        return first_response(self.settings.domain, epsilon)


def prior_shares(settings: FitSettings, records: int) -> tuple[float | None, float]:
    """Return the epsilon of the cluster prior, where there is one, and what is left for the labels."""
    if settings.prior == "none":
        return None, settings.epsilon
    total = positive_epsilon(settings.epsilon)
    wanted = positive_epsilon(default_epsilon(records, default_clusters(records, settings.domain.size)))
    spent = float_above(min(wanted, total / 5))
    return spent, float_above(total - positive_epsilon(spent))


def refuse_local_prior(settings: FitSettings) -> None:
    """Refuse class counts of clusters where nobody is trusted with the labels.

    Raises:
        InputError: the trust that they need.
    """
    if settings.prior != "none" and settings.trust != "central":
        raise InputError(
            f"--prior {settings.prior} goes with --trust central: the labels of each cluster are counted before noise "
            "is added, and whoever counts sees them"
        )


def refuse_delta(settings: FitSettings) -> None:
    """Refuse a delta where labels are randomized.

    Raises:
        InputError: what a delta is for.
    """
    if settings.delta and settings.prior != "none":
        raise InputError(f"--delta does not go with --prior {settings.prior}: its counts and labels need none")
    if settings.delta:
        raise InputError(
            "--delta goes with --trust central: randomized labels need none; "
            "labeldp ledger add gives a dataset's budget one"
        )


def check_size(option: str, count: int | None, records: int) -> None:
    """Refuse more cells or neighbors than the folds of a cross-validation and its simulations have records for.

    Raises:
        InputError: what the most is.
    """
    if count is not None and count > records // 2:
        raise InputError(f"{option} must be at most {records // 2:,}, half of the number of records")


def principal(table: NDArray[Any], dimension: int) -> NDArray[Any]:
    """Return the widest directions of encoded features, at most so many, for a simulation."""
    solver = "covariance_eigh" if len(table) > table.shape[1] else "full"
    return np.asarray(PCA(min(dimension, *table.shape), svd_solver=solver).fit_transform(table))


def require_records(option: str, rows: Rows, least: int = MIN_RECORDS) -> None:
    """Refuse fewer records than an option needs.

    Raises:
        InputError: how many they must be.
    """
    if len(rows.features) < least:
        raise InputError(f"{option} needs at least {least} records")

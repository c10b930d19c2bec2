"""What every way to learn must say before it starts: whom it trusts, what it releases, and what that costs."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray

from labeldp.learners import Model, default_clusters, default_epsilon
from labeldp.mechanisms import RandomizedResponse
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
from labeldp.workflows.fit.data import Rows
from labeldp.workflows.fit.settings import FitSettings

MIN_RECORDS = 20
"""Records that each part of a fit needs: every fold must have some, and so must what is left."""

EVALUATED = 0.1
"""The share of the records that a model of noisy sums is measured on, and not learned from."""


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
    show: Callable[[str, float], None] = lambda text, share: None

    def watch(self, trainings: int) -> Callable[[str, Any, int], None]:
        """What shows each epoch of so many trainings."""
        begun: list[str] = []

        def told(step: str, record: Any, epochs: int) -> None:
            begun.extend([] if step in begun else [step])
            done = (len(begun) - 1 + record.epoch / epochs) / trainings
            self.show(f"{step}: epoch {record.epoch} of {epochs}, loss {record.loss:.3f}", min(done, 1.0))

        return told


@dataclass(frozen=True)
class Recipe(ABC):
    """How a model is learned from private labels: a value, made before anything is read or charged.

    Args:
        settings: what was asked for.

    Raises:
        InputError: settings that this recipe does not know what to do with.
    """

    settings: FitSettings
    secret: ClassVar[tuple[str, ...]]
    """What the releases do not tell, a sentence each."""
    simulation: ClassVar[str] = ""
    """How `learn_simulated` learns, as the report goes on after "labels were drawn …, "; "" if it cannot."""
    notes: ClassVar[tuple[str, ...]] = ()
    """Sentences for the report."""
    resumable: ClassVar[bool] = False
    """Whether it keeps checkpoints."""

    @abstractmethod
    def steps(self, records: int) -> tuple[Step, ...]:
        """The releases for so many records, in order."""

    def check(self, rows: Rows, context: TrainingContext) -> None:  # noqa: B027
        """Refuse what could not be learned from: nothing was charged yet.

        Raises:
            InputError: what is missing.
        """

    @abstractmethod
    def learn(self, rows: Rows, curator: CuratorLike, *, rng: RandomSource, context: TrainingContext) -> Release[Model]:
        """The releases, each under its step's name, and a model with an evaluation."""

    def prepare_simulation(self, model: Model, features: NDArray[Any]) -> NDArray[Any]:
        """Return the features that `learn_simulated` and its models take; called only if there is a `simulation`."""
        raise NotImplementedError

    def learn_simulated(
        self, model: Model, features: NDArray[Any], curator: CuratorLike, *, epsilon: float, rng: RandomSource
    ) -> Model:
        """Return the same kind of model from other labels at another epsilon; called only if there is a simulation."""
        raise NotImplementedError

    def refit(self, model: Model, features: NDArray[Any], release: Release[Any]) -> Model:
        """The same kind of model from released labels; asked only where all records were evaluated by such models."""
        raise NotImplementedError

    def keeps_rows(self, model: Model) -> bool:
        """Whether the model's file holds features of records as they are."""
        return False

    @abstractmethod
    def describe(self, model: Model) -> str:
        """What the model is and how it was learned, as a phrase."""

    @abstractmethod
    def describe_noise(self, records: int) -> str:
        """How much noise hides a label, in a sentence."""

    def remaining_charges(self, charged: Mapping[str, Charge], records: int) -> tuple[Charge, ...]:
        """What the steps that are not charged yet can come to.

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


def prior_shares(settings: FitSettings, records: int) -> tuple[float | None, float]:
    """The epsilon of the cluster prior, where there is one, and what is left for the labels."""
    if settings.prior == "none":
        return None, settings.epsilon
    total = positive_epsilon(settings.epsilon)
    wanted = positive_epsilon(default_epsilon(records, default_clusters(records, settings.domain.size)))
    spent = float_above(min(wanted, total / 5))
    return spent, float_above(total - positive_epsilon(spent))


def stage_steps(settings: FitSettings, records: int) -> tuple[Step, ...]:
    """A cluster prior where there is one, then the stages and the evaluation: parts of the records."""
    prior_epsilon, epsilon = prior_shares(settings, records)
    names = [*(f"stage {number + 1}" for number in range(settings.stages)), "evaluation"]
    parts = tuple(Step(name, PrivacyLoss.pure(epsilon), part) for part, name in enumerate(names))
    if prior_epsilon is None:
        return parts
    return Step("cluster prior", PrivacyLoss.response(positive_epsilon(prior_epsilon) / 2, 2) * 2), *parts


def refuse_local_prior(settings: FitSettings) -> None:
    """Refuse class counts of clusters where nobody is trusted with the labels.

    Raises:
        InputError: whom it takes.
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


def in_stages(count: int) -> str:
    """How many, in words."""
    return "one stage" if count == 1 else f"{count} stages"


def describe_keep_probability(settings: FitSettings, records: int) -> str:
    """The chance that a released label is the true one, in a sentence."""
    response = RandomizedResponse(domain=settings.domain, epsilon=prior_shares(settings, records)[1])
    return (
        f"A label was released as it is with a probability of {response.keep_probability:.3f} where every class "
        "could be the answer, else as another class."
    )

"""What a learner says before it starts: which releases it asks for, and what they cost."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from labeldp.mechanisms import Mechanism
from labeldp.privacy import Charge, CuratorLike, InputError, Path, Plan, RandomSource, Release, Step

CLUSTER_PRIOR = "cluster prior"
EVALUATED = 0.1
"""The share of the records that a model is measured on, and does not learn from, where nobody asks for another."""

MIN_RECORDS = 20
"""Records that each part of a fit needs: every fold must have some, and so must the others."""

MAX_SIMULATED, SIMULATED_DIRECTIONS = 4_000, 50
"""Records that a simulation uses, and principal directions that it learns from, at most: it fits many models."""

SPLIT = "split"
"""What a plan calls the split of the records, whose name follows from ids that it does not see."""

TRUE_LABELS = "Which of the randomized labels are true."
"""What is hidden where labels are randomized one by one."""

EVALUATION_LABELS = "The labels of the records that the model was measured on."
"""What is hidden of an evaluation."""

Progress = Callable[[str, float], None]
"""Called with what is being done, in words, and the share of the learning that is done, in [0, 1]."""


def no_progress(text: str, share: float) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class Task:
    """What is public before a learner is chosen.

    Args:
        domain: of the labels.
        records: how many there are.
        epsilon, delta: what a label may cost, or all sums together.
        evaluation: the share of the records that the model is measured on and does not learn from; None for what the
            learner takes by default.
        cap: how many records of a user are used at most; None where each record is protected by itself.
        categorical: which columns of a table hold category codes, shape (d,); None for none.
        weights: public weights of the records in training, shape (n,); None where all count alike.
    """

    domain: Any
    records: int
    epsilon: float
    delta: float = 0.0
    evaluation: float | None = None
    cap: int | None = None
    categorical: Any = field(default=None, repr=False, compare=False)
    weights: Any = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, curator: CuratorLike, epsilon: Any, delta: Any = 0.0, *, evaluation: float | None = None) -> "Task":
        """Return the task of all labels of a curator."""
        users = curator.users
        cap = None if users is None else int(np.bincount(users.value).max())
        return cls(curator.domain, curator.records, epsilon, delta, evaluation, cap)

    @property
    def share(self) -> float:
        """The share of the records to measure the model on, of learners that always hold some out."""
        return EVALUATED if self.evaluation is None else self.evaluation

    def check_records(self) -> None:
        """Refuse too few records, and an evaluation part that cannot be measured or leaves too few to learn from.

        Raises:
            InputError: how many records each part must have.
        """
        if self.records < MIN_RECORDS:
            raise InputError(
                f"a fit needs at least {MIN_RECORDS} records, and this one has {self.records}: it would be charged and "
                "learn nothing"
            )
        share = self.evaluation
        if share is not None and min(share, 1 - share) * self.records < MIN_RECORDS:
            raise InputError(
                f"must leave at least {MIN_RECORDS} records to measure the model on, and as many to learn from, of "
                f"{self.records:,}",
                argument="evaluation",
            )


@dataclass(frozen=True)
class Learner(ABC):
    """A way to learn from private labels: a value with options, which plans, learns, and describes its model.

    A row of `LEARNERS` names its class, and every option is a field.

    Args:
        name: its name in `LEARNERS`.
    """

    name: str = ""
    takes_delta: ClassVar[bool] = False
    """Whether it can spend a delta."""
    resumable: ClassVar[bool] = False
    """Whether it has `checkpoints`, a folder where it keeps its state."""
    one_thread: ClassVar[str] = ""
    """What `fit_repeatably` keeps to one thread: "all" or "blas"; "" for nothing."""
    simulation: ClassVar[str] = ""
    """How `fit_simulated` learns, as the report goes on after "drawn from this model, "; "" if it cannot."""
    notes: ClassVar[tuple[str, ...]] = ()
    """Sentences for the report."""

    @abstractmethod
    def plan(self, task: Task) -> Plan:
        """Return the releases, in order, each at the most that it costs.

        Raises:
            InputError: the options, the labels or the number of records do not fit.
        """

    def check(self, features: Any, task: Task) -> None:  # noqa: B027
        """Refuse features that nothing can be learned from, before anything is charged.

        Raises:
            InputError: what is missing.
        """

    @abstractmethod
    def fit(
        self, features: Any, curator: CuratorLike, task: Task, *, rng: RandomSource, progress: Progress = no_progress
    ) -> Release[Any]:
        """Make the releases of the plan, each under its step's name, and return a `Model` with an evaluation.

        Args:
            features: public, one row for each record.
            curator: holds the labels.
            task: what the plan was made of.
            rng: randomness of the noise.
            progress: called with what is being done.
        """

    @abstractmethod
    def describe(self, model: Any, task: Task) -> str:
        """Return what the model is and how it was learned, as a phrase."""

    @abstractmethod
    def describe_noise(self, task: Task) -> str:
        """Return how much noise hides a label, as a sentence."""

    def hidden(self, task: Task) -> tuple[str, ...]:
        """Return what the releases do not tell, a sentence each."""
        return (TRUE_LABELS,)

    def answers(self, task: Task) -> Mapping[str, Mechanism]:
        """Return the steps that other fits of the same labels share, with the mechanism that answers all records."""
        return {}

    def shares_releases(self, task: Task) -> bool:
        """Return whether all learners of this class make the same releases, whatever the features are."""
        return False

    def prepare_simulation(self, model: Any, features: NDArray[Any], task: Task) -> NDArray[Any]:
        """Return the features that `fit_simulated` and its models take; called only if there is a `simulation`."""
        return features

    def fit_simulated(self, features: NDArray[Any], curator: CuratorLike, task: Task, *, rng: RandomSource) -> Any:
        """Return a model of other labels, quickly; called only if there is a simulation."""
        raise NotImplementedError

    def refit(self, model: Any, features: NDArray[Any], release: Release[Any]) -> Any:
        """Return the same kind of model from released labels; called only if such models evaluated all records."""
        raise NotImplementedError

    def keeps_rows(self, model: Any) -> bool:
        """Return whether the model's file holds unchanged features of records."""
        return False


def fit_repeatably(
    learner: Learner,
    features: Any,
    curator: CuratorLike,
    task: Task,
    *,
    rng: RandomSource,
    progress: Progress = no_progress,
) -> Release[Any]:
    """Fit on one thread where sums in another order would ask a ledger for another release, or choose another size."""
    limits = nullcontext()
    if learner.one_thread:
        limits = threadpool_limits(1, user_api=None if learner.one_thread == "all" else learner.one_thread)
    with limits:
        return learner.fit(features, curator, task, rng=rng, progress=progress)


def steps_of(mechanisms: Mapping[str, Mechanism], path: Path = ()) -> tuple[Step, ...]:
    """Return the steps of a plan that answer one part of the records, by mechanisms that cost as much."""
    return tuple(Step(name, mechanism.privacy_loss(), path) for name, mechanism in mechanisms.items())


def part(number: int) -> Path:
    """Return the path of one part of the records, in a plan that splits them once."""
    return ((SPLIT, number),)


def remaining(plan: Plan, charged: Mapping[str, Charge]) -> tuple[Charge, ...]:
    """Return the most that the steps of a plan that are not charged yet can come to."""
    splits = {charged[step.name].path[0][0] for step in plan.steps if step.path and step.name in charged}
    split = min(splits, default=SPLIT)
    return tuple(
        Charge("", tuple((split, number) for _, number in step.path), step.loss * step.times, {})
        for step in plan.steps
        if step.name not in charged
    )


def require_records(what: str, records: int, fewest: int = MIN_RECORDS) -> None:
    """Raise InputError for fewer records than an option needs."""
    if records < fewest:
        raise InputError(f"{what} needs at least {fewest} records")


def check_size(option: str, count: int | None, records: int) -> None:
    """Raise InputError for more cells or neighbors than folds and simulations have records for."""
    if count is not None and count > records // 2:
        raise InputError(f"{option} must be at most {records // 2:,}, half of the number of records")


def format_number(value: float) -> str:
    """Return a number in the unit of the labels, with four digits, or all that stand before the point."""
    if value and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.4g}"
    digits = 3 - math.floor(math.log10(abs(value))) if value else 0
    return f"{value:,.{max(digits, 0)}f}"

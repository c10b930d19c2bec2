"""What every way to learn must say before it starts: whom it trusts, what it releases, and what that costs."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from labeldp.learners import Model
from labeldp.privacy import Charge, CuratorLike, PrivacyLoss, Release, Trust
from labeldp.workflows.fit_data import PrivateRows
from labeldp.workflows.fit_settings import FitSettings


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
class Plan(ABC):
    """How a model is learnt from private labels: a value, made before anything is read or charged.

    Args:
        settings: what was asked for.

    Raises:
        InputError: settings that this plan does not know what to do with.
    """

    settings: FitSettings
    trust: ClassVar[Trust]
    secret: ClassVar[tuple[str, ...]]
    """What the releases do not tell, a sentence each."""
    simulated: ClassVar[str]
    """How `relearn` learns from simulated labels, as the report goes on after "labels were drawn …, "."""

    @abstractmethod
    def steps(self, records: int) -> tuple[Step, ...]:
        """The releases for so many records, in order."""

    @abstractmethod
    def learn(self, rows: PrivateRows, curator: CuratorLike, *, rng: Any) -> Release[Model]:
        """The releases, each under its step's name, and a model with an evaluation."""

    @abstractmethod
    def prepared(self, model: Model, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """The features as `relearn` and its models take them, shape (n, any)."""

    @abstractmethod
    def relearn(
        self, model: Model, features: NDArray[np.float64], curator: CuratorLike, *, epsilon: float, rng: Any
    ) -> Model:
        """The same kind of model from other labels at another epsilon, on prepared features: for simulations."""

    @abstractmethod
    def described(self, model: Model) -> str:
        """What the model is and how it was learnt, as a phrase."""

    @abstractmethod
    def noise(self, records: int) -> str:
        """How much noise hides a label, in a sentence."""

    def rest(self, charged: Mapping[str, Charge], records: int) -> tuple[Charge, ...]:
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

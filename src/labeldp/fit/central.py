"""Recipes of a trusted curator, who adds noise to sums of labels."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import FunctionTransformer
from threadpoolctl import threadpool_limits

from labeldp.fit.recipe import (
    FEATURES,
    Recipe,
    Step,
    TrainingContext,
    check_size,
    principal,
    require_records,
)
from labeldp.fit.rows import Rows
from labeldp.fit.summary import format_number
from labeldp.learners import (
    MedianPartition,
    Model,
    error_shares,
    evaluation_mechanism,
    fit_cells,
    fit_linear,
    round_moment,
)
from labeldp.mechanisms import CrossMoment
from labeldp.privacy import CuratorLike, InputError, PrivacyLoss, RandomSource, Release

PCA_DIMENSIONS = 500
"""At most so many of the features that a simulation learns from."""


@dataclass(frozen=True)
class SumRecipe(Recipe):
    """Learns from noisy sums over most records, and is evaluated on the others: by noisy labels, of numbers by sums."""

    def __post_init__(self) -> None:
        if self.settings.stages != 1 or self.settings.prior != "none":
            raise InputError(
                f"--stages and --prior are for randomized labels: --model {self.settings.model} learns from sums"
            )

    @abstractmethod
    def sums_loss(self) -> PrivacyLoss:
        """Return what the sums cost."""

    def steps(self, records: int) -> tuple[Step, ...]:
        """Return the sums of most records, and the labels or the summed errors of the others."""
        sums = Step(self.settings.model, self.sums_loss(), 0)
        numbers = self.settings.domain.target == "numbers" and self.settings.user_column is None
        if numbers:
            shares = error_shares(self.settings.epsilon)
            return sums, *(Step(name, PrivacyLoss.pure(share), 1) for name, share in shares.items())
        evaluation = evaluation_mechanism(self.settings.domain, self.settings.epsilon).privacy_loss()
        return sums, Step("evaluation", evaluation, 1)


@final
@dataclass(frozen=True)
class NoisyCells(SumRecipe):
    """Trees that learn from the noisy sums of many small cells of records, by somebody who may see the labels."""

    secret: ClassVar[tuple[str, ...]] = (
        "The sums of the cells as they were before noise was added.",
        "The labels of the records that the model was measured on.",
    )
    notes: ClassVar[tuple[str, ...]] = (
        "Results at other values of ε are not simulated: each would take as long as this fit.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.settings.delta:
            raise InputError("--delta does not go with --model cells: sums of cells have a pure guarantee without it")

    def sums_loss(self) -> PrivacyLoss:
        """Return a pure loss: a label is in one cell."""
        return PrivacyLoss.pure(self.settings.epsilon)

    def check(self, rows: Rows, context: TrainingContext) -> None:
        """Refuse too few records for a cell and an evaluation."""
        require_records("--model cells", rows)
        check_size("--cells", self.settings.cells, len(rows.features))

    def learn(self, rows: Rows, curator: CuratorLike, *, rng: RandomSource, context: TrainingContext) -> Release[Model]:
        """See `fit_cells`: on one thread, since the same cells are found again by rows that are the same to the bit."""
        partition = MedianPartition(self.settings.cells) if self.settings.cells else None
        with threadpool_limits(1):
            return fit_cells(
                rows.features,
                curator,
                epsilon=self.settings.epsilon,
                rng=rng,
                partition=partition,
                evaluation=self.share,
            )

    def describe(self, model: Model) -> str:
        """Return the cells and the one release."""
        if self.settings.cells:
            return f"one noisy sum for each of {self.settings.cells:,} cells, cut at medians of features"
        return "boosted trees, learned from one noisy sum for each of many small cells of similar records"

    def describe_noise(self, records: int) -> str:
        """Return the scale of the noise, in units of what one label can do."""
        domain, epsilon = self.settings.domain, self.settings.epsilon
        epsilon /= self.settings.per_user or 1  # of a label: a user pays epsilon for all of theirs
        if domain.target == "numbers":
            low, high = domain.ends
            scale = f"{format_number((high - low) / epsilon)}, in the unit of the labels,"
            return f"Two-sided geometric noise of scale {scale} was added to the sum of each cell."
        scale = format_number((1 if domain.size == 2 else 2) / epsilon)
        return f"Two-sided geometric noise of scale {scale} was added to how often a class occurs in each cell."


@final
@dataclass(frozen=True)
class NoisySums(SumRecipe):
    """A linear model of one noisy sum of rows times labels, by somebody who may see the labels."""

    secret: ClassVar[tuple[str, ...]] = (
        "The sums as they were before noise was added.",
        "The labels of the records that the model was measured on.",
    )
    simulation: ClassVar[str] = "summed with new noise at each ε and the same δ, with the model fitted again"

    def sums_loss(self) -> PrivacyLoss:
        """Return the loss of sums of a single row: any sums cost the same."""
        return self._moment().privacy_loss()

    def _moment(self) -> CrossMoment:
        """Return the sums of a single row: the noise of any sums is set to keep epsilon and delta."""
        return round_moment(self.settings.domain, epsilon=self.settings.epsilon, delta=self.settings.delta)

    def check(self, rows: Rows, context: TrainingContext) -> None:
        """Refuse images too small for features, and too few records for the interval of an error of numbers."""
        rows.representation()
        if self.settings.domain.target == "numbers":
            require_records("--model linear", rows)

    def learn(self, rows: Rows, curator: CuratorLike, *, rng: RandomSource, context: TrainingContext) -> Release[Model]:
        """See `fit_linear`: on one thread, since the same sums are found again by rows that are the same to the bit."""
        with threadpool_limits(1):
            return fit_linear(
                rows.features,
                curator,
                epsilon=self.settings.epsilon,
                delta=self.settings.delta,
                rng=rng,
                representation=rows.representation(),
                evaluation=self.share,
            )

    def prepare_simulation(self, model: Model, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the widest directions of the encoded features: found once, not at each epsilon."""
        table = model.estimator.representation.transform(features)
        return principal(table, PCA_DIMENSIONS)

    def learn_simulated(
        self, model: Model, features: NDArray[np.float64], curator: CuratorLike, *, epsilon: float, rng: RandomSource
    ) -> Model:
        """Return the same model at another epsilon, without an evaluation."""
        delta, plain = self.settings.delta, FunctionTransformer()
        return fit_linear(features, curator, epsilon=epsilon, delta=delta, rng=rng, representation=plain).value

    def describe(self, model: Model) -> str:
        """Return the model and the one release."""
        features = FEATURES[type(model.estimator.representation).__name__]
        return f"a linear model of {features}, learned from one release of noisy sums"

    def describe_noise(self, records: int) -> str:
        """Return the standard deviation of the noise, in units of what one label can do."""
        moment = self._moment()
        kind, most, move = "Gaussian", "the length", moment.sensitivity_square**0.5
        if not self.settings.delta:
            kind, most, move = "Two-sided geometric", "the sum of the amounts", moment.sensitivity_sum
        who = "one label" if self.settings.user_column is None else "all labels of one user"
        ratio = moment.noise_stddev / (move * moment.rows.unit)
        return (
            f"{kind} noise was added to every sum: its standard deviation is {ratio:.3g} times {most} by which {who} "
            "can move all sums together."
        )

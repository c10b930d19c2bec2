"""Recipes of a trusted curator: linear, cells."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.preprocessing import FunctionTransformer
from threadpoolctl import threadpool_limits

from labeldp.learners import MedianPartition, Model, evaluation_mechanism, fit_cells, fit_linear, round_moment
from labeldp.mechanisms import CrossMoment, Interval
from labeldp.privacy import CuratorLike, InputError, PrivacyLoss, RandomSource, Release
from labeldp.workflows.fit.data import Rows
from labeldp.workflows.fit.recipe import EVALUATED, MIN_RECORDS, Recipe, Step, TrainingContext, check_size
from labeldp.workflows.fit.summary import format_number


@final
@dataclass(frozen=True)
class NoisyCells(Recipe):
    """Trees that learn from the noisy sums of many small cells of records, by somebody who may see the labels."""

    secret: ClassVar[tuple[str, ...]] = (
        "The sums of the cells as they were before noise was added.",
        "Which of the randomized labels of the evaluation are true.",
    )
    notes: ClassVar[tuple[str, ...]] = (
        "Results at other values of ε are not simulated: each would take as long as this fit.",
    )

    def __post_init__(self) -> None:
        if self.settings.stages != 1 or self.settings.prior != "none":
            raise InputError("--stages and --prior are for randomized labels: --model cells learns from sums")
        if self.settings.delta:
            raise InputError("--delta does not go with --model cells: sums of cells have a pure guarantee without it")

    def steps(self, records: int) -> tuple[Step, ...]:
        """The sums of the cells of most records, and the labels of the others one by one."""
        answers = evaluation_mechanism(self.settings.domain, self.settings.epsilon)
        sums = PrivacyLoss.pure(self.settings.epsilon)
        return Step("cells", sums, 0), Step("evaluation", answers.privacy_loss(), 1)

    def check(self, rows: Rows, context: TrainingContext) -> None:
        """Enough records for a cell and an evaluation.

        Raises:
            InputError: too few.
        """
        if len(rows.features) < MIN_RECORDS:
            raise InputError(f"--model cells needs at least {MIN_RECORDS} records")
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
                evaluation=EVALUATED,
            )

    def describe(self, model: Model) -> str:
        """The cells and the one release."""
        if self.settings.cells:
            return f"one noisy sum for each of {self.settings.cells:,} cells, cut at medians of features"
        return "boosted trees, learnt from one noisy sum for each of many small cells of similar records"

    def describe_noise(self, records: int) -> str:
        """The scale of the noise, in units of what one label can do."""
        domain, epsilon = self.settings.domain, self.settings.epsilon
        if isinstance(domain, Interval):
            scale = f"{format_number((domain.high - domain.low) / epsilon)}, in the unit of the labels,"
            return f"Two-sided geometric noise of scale {scale} was added to the sum of each cell."
        scale = format_number((1 if domain.size == 2 else 2) / epsilon)
        return f"Two-sided geometric noise of scale {scale} was added to how often a class occurs in each cell."


DIRECTIONS = 500
"""At most so many of the features that a simulation learns from."""

MAPPED = {
    "TableMap": "numbers, categories and random trees’ leaves",
    "PatchFilters": "how strongly parts of the image answer to filters, found without labels",
    "ScatterFilters": "how strongly parts of the image answer to wavelets",
    "ImageMap": "how strongly parts of the image answer to wavelets and to filters, found without labels",
}
"""What a linear model sees, by the transformer that makes it."""


@final
@dataclass(frozen=True)
class NoisySums(Recipe):
    """A linear model of one noisy sum of rows times labels, by somebody who may see the labels."""

    secret: ClassVar[tuple[str, ...]] = (
        "The sums as they were before noise was added.",
        "Which of the randomized labels of the evaluation are true.",
    )
    simulation: ClassVar[str] = (
        "summed with fresh noise at each epsilon and the same delta, and learnt from as this model was"
    )

    def __post_init__(self) -> None:
        if self.settings.stages != 1 or self.settings.prior != "none":
            raise InputError("--stages and --prior are for randomized labels: --model linear learns from one release")

    def steps(self, records: int) -> tuple[Step, ...]:
        """The sums of most records, and the labels of the others one by one."""
        settings = self.settings
        answers = evaluation_mechanism(settings.domain, settings.epsilon)
        return Step("linear", self._moment().privacy_loss(), 0), Step("evaluation", answers.privacy_loss(), 1)

    def _moment(self) -> CrossMoment:
        """Sums of a single row: any sums cost the same, as their noise is set to keep epsilon and delta."""
        return round_moment(self.settings.domain, epsilon=self.settings.epsilon, delta=self.settings.delta)

    def check(self, rows: Rows, context: TrainingContext) -> None:
        """Features of images need images of some size and number; an error of numbers has an interval from two on.

        Raises:
            InputError: images too small, or too few records.
        """
        rows.representation()
        if isinstance(self.settings.domain, Interval) and len(rows.features) < MIN_RECORDS:
            raise InputError(f"--model linear needs at least {MIN_RECORDS} records")

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
                evaluation=EVALUATED,
            )

    def prepare_simulation(self, model: Model, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """The widest directions of the features as they were mapped: found once, not at each epsilon."""
        table = model.estimator.representation.transform(features)
        return np.asarray(PCA(min(DIRECTIONS, *table.shape), svd_solver="covariance_eigh").fit_transform(table))

    def learn_simulated(
        self, model: Model, features: NDArray[np.float64], curator: CuratorLike, *, epsilon: float, rng: RandomSource
    ) -> Model:
        """The same at another epsilon, without an evaluation."""
        delta, plain = self.settings.delta, FunctionTransformer()
        return fit_linear(features, curator, epsilon=epsilon, delta=delta, rng=rng, representation=plain).value

    def describe(self, model: Model) -> str:
        """The model and the one release."""
        known = MAPPED[type(model.estimator.representation).__name__]
        return f"a linear model of {known}, learnt from one release of noisy sums"

    def describe_noise(self, records: int) -> str:
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

"""How cells learn from a trusted curator: noise on the sum of each cell."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from labeldp.learners import MedianPartition, Model, fit_cells, measuring
from labeldp.mechanisms import Classes, Domain, Interval
from labeldp.privacy import CuratorLike, InputError, PrivacyLoss, Release, Trust
from labeldp.workflows.classifiers import distances
from labeldp.workflows.estimated import amount
from labeldp.workflows.fit_data import PrivateRows
from labeldp.workflows.image_rows import Rows
from labeldp.workflows.plan import EVALUATED, Bench, Plan, Step

LEAST = 20
"""Records, at least."""


@final
@dataclass(frozen=True)
class NoisyCells(Plan):
    """Means or class shares of cells of similar records, each from a noisy sum, by somebody who may see the labels."""

    trust: ClassVar[Trust] = Trust.CENTRAL
    domains: ClassVar[tuple[type[Domain], ...]] = (Classes, Interval)
    secret: ClassVar[tuple[str, ...]] = (
        "The sums of the cells as they were before noise was added.",
        "Which of the randomized labels of the evaluation are true.",
    )
    simulated: ClassVar[str] = "summed in the same number of cells with fresh noise at each epsilon"

    def __post_init__(self) -> None:
        if self.settings.stages != 1 or self.settings.prior != "none":
            raise InputError("--stages and --prior are for randomized labels: --model cells learns from sums")
        if self.settings.delta:
            raise InputError("--delta does not go with --model cells: sums of cells have a pure guarantee without it")

    def steps(self, records: int) -> tuple[Step, ...]:
        """The sums of the cells of most records, and the labels of the others one by one."""
        answers = measuring(self.settings.domain, self.settings.epsilon)
        sums = PrivacyLoss.pure(self.settings.epsilon)
        return Step("cells", sums, 0), Step("evaluation", answers.privacy_loss(), 1)

    def check(self, rows: Rows, bench: Bench) -> None:
        """Enough records for a cell and an evaluation.

        Raises:
            InputError: too few.
        """
        if len(rows.features) < LEAST:
            raise InputError(f"--model cells needs at least {LEAST} records")

    def learn(self, rows: Rows, curator: CuratorLike, *, rng: Any, bench: Bench) -> Release[Model]:
        """See `fit_cells`: on one thread, since the same cells are found again by rows that are the same to the bit."""
        assert isinstance(rows, PrivateRows)
        with threadpool_limits(1):
            scaled = distances(rows.encoder.categorical, "passthrough").fit(rows.features)
            release = fit_cells(
                scaled.transform(rows.features),
                curator,
                epsilon=self.settings.epsilon,
                rng=rng,
                partition=self._partition(len(rows.features)),
                evaluation=EVALUATED,
            )
        return release.map(lambda model: replace(model, estimator=make_pipeline(scaled[0], model.estimator)))

    def _partition(self, records: int) -> MedianPartition:
        """Cells in which sampling, noise and what varies inside of a cell are about as large.

        Median cells follow few features, as if there were two: then the rule of `cube_side` for privacy gives a cell
        N^(1/3) epsilon^(-2/3) records. Twice as many did best on `california_housing` and `bike_sharing`, at epsilon
        from 0.1 to 4.
        """
        size = 2 * records ** (1 / 3) * self.settings.epsilon ** (-2 / 3)
        return MedianPartition(int(np.clip(records / size, 1, records)))

    def prepared(self, model: Model, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scaled, as cells are cut."""
        return np.asarray(model.estimator[:-1].transform(features))

    def relearn(
        self, model: Model, features: NDArray[np.float64], curator: CuratorLike, *, epsilon: float, rng: Any
    ) -> Model:
        """The same number of records in each cell, without an evaluation."""
        partition = replace(self, settings=replace(self.settings, epsilon=epsilon))._partition(len(features))
        return fit_cells(features, curator, epsilon=epsilon, rng=rng, partition=partition).value

    def described(self, model: Model) -> str:
        """The cells and the one release."""
        cells = len(model.estimator[-1].cells_[0].keys)
        what = "means" if isinstance(self.settings.domain, Interval) else "class shares"
        return f"{what} of {cells:,} cells of similar records, cut at medians of features, learnt from noisy sums"

    def noise(self, records: int) -> str:
        """The scale of the noise, in units of what one label can do."""
        domain, epsilon = self.settings.domain, self.settings.epsilon
        if isinstance(domain, Interval):
            scale = f"{amount((domain.high - domain.low) / epsilon)}, in the unit of the labels,"
            return f"Two-sided geometric noise of scale {scale} was added to the sum of each cell."
        scale = amount((1 if domain.size == 2 else 2) / epsilon)
        return f"Two-sided geometric noise of scale {scale} was added to how often a class occurs in each cell."

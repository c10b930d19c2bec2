"""How cells learn from a trusted curator: noise on the sum of each cell."""

from dataclasses import dataclass
from typing import Any, ClassVar, final

from threadpoolctl import threadpool_limits

from labeldp.learners import MedianPartition, Model, fit_cells, measuring
from labeldp.mechanisms import Classes, Domain, Interval
from labeldp.privacy import CuratorLike, InputError, PrivacyLoss, Release, Trust
from labeldp.workflows.estimated import amount
from labeldp.workflows.image_rows import Rows
from labeldp.workflows.plan import EVALUATED, Bench, Plan, Step, check_size

LEAST = 20
"""Records, at least."""


@final
@dataclass(frozen=True)
class NoisyCells(Plan):
    """Trees that learn from the noisy sums of many small cells of records, by somebody who may see the labels."""

    trust: ClassVar[Trust] = Trust.CENTRAL
    domains: ClassVar[tuple[type[Domain], ...]] = (Classes, Interval)
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
        check_size("--cells", self.settings.cells, len(rows.features))

    def learn(self, rows: Rows, curator: CuratorLike, *, rng: Any, bench: Bench) -> Release[Model]:
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

    def described(self, model: Model) -> str:
        """The cells and the one release."""
        if self.settings.cells:
            return f"one noisy sum for each of {self.settings.cells:,} cells, cut at medians of features"
        return "boosted trees, learnt from one noisy sum for each of many small cells of similar records"

    def noise(self, records: int) -> str:
        """The scale of the noise, in units of what one label can do."""
        domain, epsilon = self.settings.domain, self.settings.epsilon
        if isinstance(domain, Interval):
            scale = f"{amount((domain.high - domain.low) / epsilon)}, in the unit of the labels,"
            return f"Two-sided geometric noise of scale {scale} was added to the sum of each cell."
        scale = amount((1 if domain.size == 2 else 2) / epsilon)
        return f"Two-sided geometric noise of scale {scale} was added to how often a class occurs in each cell."

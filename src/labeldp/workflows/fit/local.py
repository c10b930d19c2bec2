"""Recipes that randomize each label."""

from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from labeldp.learners import (
    CellClassifier,
    CellRegressor,
    KernelClassifier,
    MedianPartition,
    Model,
    NeighborsClassifier,
    NeighborsRegressor,
    NoisyNumberRegressor,
    Training,
    boosted_regression,
    classifiers_of,
    cluster_prior,
    distances,
    dry_run,
    evaluate,
    evaluation_mechanism,
    fit_multistage,
    fit_noisy,
    indicators,
    tune,
)
from labeldp.mechanisms import Classes, Interval, Mechanism, RandomizedResponse, UnaryEncoding
from labeldp.privacy import CuratorLike, InputError, RandomSource, Release
from labeldp.workflows.fit.data import PrivateRows, Rows
from labeldp.workflows.fit.recipe import (
    MIN_RECORDS,
    Recipe,
    Step,
    TrainingContext,
    check_size,
    describe_keep_probability,
    in_stages,
    prior_shares,
    refuse_delta,
    refuse_local_prior,
    stage_steps,
)
from labeldp.workflows.fit.registry import model_of
from labeldp.workflows.fit.summary import format_number

RECORDS_IN_CELL = (25, 100, 400, 1600, 6400)
"""Cells of about so many records are tried."""

CONSTANTS = (1.0, 4.0, 16.0, 64.0)
"""So many times the number of neighbors by the rule are tried."""

SOME = 20_000
"""Records on which the number of neighbors is chosen, at most: as a multiple of the rule it does not depend on them."""

FOLDS = 5

CROSS_VALIDATED = "models of cross-validation, each trained on the other folds"

CHOSEN = "; of {} learners the one with the best score on these labels, which flatters it a little"


@final
@dataclass(frozen=True)
class ReleasedLabels(Recipe):
    """Cells, neighbors, or boosted trees of numbers: the one, of a few sizes, that predicts held-out labels best.

    For numbers, `auto` chooses among trees and cells of all sizes, of which one cell is the mean of all labels.
    """

    secret: ClassVar[tuple[str, ...]] = ("Which of the released labels are true.",)
    notes: ClassVar[tuple[str, ...]] = (
        "Results at other values of ε are not simulated: sizes would have to be chosen anew for each.",
    )

    def __post_init__(self) -> None:
        refuse_delta(self.settings)
        if self.settings.stages != 1 or self.settings.prior != "none":
            raise InputError(f"--stages and --prior do not go with --model {self.settings.model}: it learns at once")

    @property
    def mechanism(self) -> Mechanism:
        """What answers every record: noise on the grid, or for classes the less noisy of one answer and K bits."""
        domain, epsilon = self.settings.domain, self.settings.epsilon
        if isinstance(domain, Interval):
            return evaluation_mechanism(domain, epsilon)
        half = float(np.exp(epsilon / 2))
        one = (domain.size - 2 + half**2) / (half**2 - 1) ** 2
        bits = half / (half - 1) ** 2
        return (RandomizedResponse if one <= bits else UnaryEncoding)(domain=domain, epsilon=epsilon)

    def steps(self, records: int) -> tuple[Step, ...]:
        """One release of all labels, which every fit that asks for the same one shares."""
        mechanism = self.mechanism
        return (Step("labels", mechanism.privacy_loss(), mechanism=mechanism.specification()),)

    def check(self, rows: Rows, context: TrainingContext) -> None:
        """Enough records to hold some out, and features that distances can be told from.

        Raises:
            InputError: too few records.
        """
        if len(rows.features) < MIN_RECORDS:
            raise InputError(f"--model {self.settings.model} needs at least {MIN_RECORDS} records")
        for name, count in (("cells", self.settings.cells), ("neighbors", self.settings.neighbors)):
            check_size(f"--{name}", count, len(rows.features))
        self._learners(rows)

    def learn(self, rows: Rows, curator: CuratorLike, *, rng: RandomSource, context: TrainingContext) -> Release[Model]:
        """One release, then whatever predicts best which it did not see: see `tune`."""
        release = curator.release(self.mechanism, rng=rng, step="labels")
        with threadpool_limits(1):  # sums in another order would choose another size
            found = tune(self._likely(rows, release), rows.features, _coded(release), folds=FOLDS)
        tried = len(self._learners(rows))
        source = CROSS_VALIDATED + (CHOSEN.format(tried) if tried > 1 else "")
        seen = evaluate(release, found.held_out, source, np.arange(curator.records))
        return release.map(lambda _: Model(self.settings.domain, _bare(found.learner), evaluation=seen))

    def _likely(self, rows: Rows, release: Release[Any]) -> list[Any]:
        """What is chosen from; of neighbors of many records the one that does best on some of them: they are slow."""
        learners, records = self._learners(rows), len(rows.features)
        if self.settings.model != "neighbors" or records <= SOME or len(learners) == 1:
            return learners
        some = np.random.default_rng(0).permutation(records)[:SOME]
        known = replace(release, value=release.value[some])
        scores = tune(learners, rows.features[some], _coded(known), folds=2).scores
        return [learners[int(np.argmax(scores))]]

    def _learners(self, rows: Rows) -> list[Any]:
        """What is chosen from: learners of several sizes."""
        assert isinstance(rows, PrivateRows)
        records, categorical = len(rows.features), rows.encoder.categorical
        numbers = isinstance(self.settings.domain, Interval)
        trees = [NoisyNumberRegressor(boosted_regression(records, categorical))]
        if self.settings.model == "boosting":
            return trees
        if self.settings.model == "neighbors":
            kind: Any = NeighborsRegressor if numbers else NeighborsClassifier
            if self.settings.neighbors is not None:
                return [distances(categorical, kind(self.settings.neighbors))]
            return [distances(categorical, kind(constant=constant)) for constant in CONSTANTS]
        kind = CellRegressor if numbers else CellClassifier
        sizes = [self.settings.cells] if self.settings.cells else default_sizes(records)
        cells = [distances(categorical, kind(MedianPartition(size))) for size in sizes]
        return cells if self.settings.model == "cells" else [*trees, *cells]

    def refit(self, model: Model, features: NDArray[np.float64], release: Release[Any]) -> Model:
        """The chosen learner."""
        return Model(model.domain, clone(model.estimator).fit(features, _coded(release)))

    def keeps_rows(self, model: Model) -> bool:
        """Neighbors are looked for among the records."""
        return self.settings.model == "neighbors"

    def describe(self, model: Model) -> str:
        """What answers, and how it was learned."""
        return f"{_kind(model.estimator)}, learnt from one release of noisy labels"

    def describe_noise(self, records: int) -> str:
        """How far a released label is from the true one."""
        return self.mechanism.describe_noise(format_number) or describe_keep_probability(self.settings, records)


def default_sizes(records: int) -> list[int]:
    """Numbers of cells to choose from."""
    return sorted({max(records // size, 1) for size in RECORDS_IN_CELL})


def _kind(estimator: Any) -> str:
    """A fitted learner of these, in words."""
    last = estimator[-1] if hasattr(estimator, "steps") else estimator
    if isinstance(last, NoisyNumberRegressor):
        return "gradient-boosted trees"
    if isinstance(last, CellRegressor | CellClassifier):
        cells = len(last.cells_[0].keys)
        one = "one cell: the mean of all released labels"
        return f"means over {cells:,} cells of similar records, cut at medians of features" if cells > 1 else one
    return f"means over the {last.neighbors_:,} nearest records"


def _coded(release: Release[Any]) -> Release[Any]:
    """The same release of classes by their codes, as learners that speak of classes must answer for a `Model`."""
    mechanism = release.mechanism
    if isinstance(mechanism.domain, Interval):
        return release
    coded = type(mechanism)(domain=Classes(mechanism.domain.size), epsilon=mechanism.epsilon)
    return replace(release, mechanism=coded)


def _bare(learner: Any) -> Any:
    """A learner without the certificate of its labels, which is the model's, and nothing to write beside it."""
    bare = copy(learner)
    if hasattr(bare, "steps"):
        bare.steps = [*bare.steps[:-1], (bare.steps[-1][0], _bare(bare.steps[-1][1]))]
    elif hasattr(bare, "certificate_"):
        del bare.certificate_
    return bare


@final
@dataclass(frozen=True)
class NoisyLabels(Recipe):
    """A scikit-learn classifier of labels that are randomized one by one, in stages or at once."""

    secret: ClassVar[tuple[str, ...]] = ("Which of the randomized labels are true.",)
    simulation: ClassVar[str] = (
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

    def check(self, rows: Rows, context: TrainingContext) -> None:
        """Refuse before a cluster prior is released what `fit_multistage` would refuse after it.

        Raises:
            InputError: too few records, or features that the classifiers cannot learn from.
        """
        if self.settings.prior != "none":
            if len(rows.features) < MIN_RECORDS:
                raise InputError(f"--prior {self.settings.prior} needs at least {MIN_RECORDS} records")
            epsilon = prior_shares(self.settings, len(rows.features))[1]
            response = RandomizedResponse(domain=self.settings.domain, epsilon=epsilon)
            dry_run(self._classifiers(rows), rows.features, Training(), response)

    def _classifiers(self, rows: Rows) -> list[Any]:
        """What is tried on released labels."""
        assert isinstance(rows, PrivateRows)
        return classifiers_of(self.settings.model, rows.features, rows.encoder.categorical, self.settings.domain.size)

    def learn(self, rows: Rows, curator: CuratorLike, *, rng: RandomSource, context: TrainingContext) -> Release[Model]:
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

    def prepare_simulation(self, model: Model, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """As they are."""
        return features

    def learn_simulated(
        self, model: Model, features: NDArray[np.float64], curator: CuratorLike, *, epsilon: float, rng: RandomSource
    ) -> Model:
        """The chosen classifier from one release of all labels."""
        release = curator.release(RandomizedResponse(domain=curator.domain, epsilon=epsilon), rng=rng)
        return self.refit(model, features, release)

    def refit(self, model: Model, features: NDArray[np.float64], release: Release[Any]) -> Model:
        """The chosen classifier."""
        return fit_noisy(features, release, classifier=clone(model.estimator), training="plain").value

    def keeps_rows(self, model: Model) -> bool:
        """A kernel's centers are records."""
        return isinstance(model.estimator, KernelClassifier)

    def describe(self, model: Model) -> str:
        """The classifier that was chosen, and the stages."""
        return f"{model_of(model.estimator)}, learnt in {in_stages(self.settings.stages)}"

    def describe_noise(self, records: int) -> str:
        """The chance that a released label is the true one."""
        return describe_keep_probability(self.settings, records)

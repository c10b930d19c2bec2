"""Recipes that randomize each label."""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.preprocessing import FunctionTransformer
from threadpoolctl import threadpool_limits

from labeldp.fit.recipe import (
    FEATURES,
    MIN_RECORDS,
    Recipe,
    StageRecipe,
    Step,
    TrainingContext,
    check_size,
    principal,
    prior_shares,
    refuse_delta,
    require_records,
)
from labeldp.fit.registry import model_of
from labeldp.fit.rows import Rows, TableRows
from labeldp.fit.summary import format_number
from labeldp.learners import (
    CROSS_VALIDATED,
    HELD_OUT,
    BinMeans,
    CellClassifier,
    CellRegressor,
    GeometricMean,
    KernelClassifier,
    MedianPartition,
    Model,
    NeighborsClassifier,
    NeighborsRegressor,
    NoisyNumberRegressor,
    SoftmaxClassifier,
    SoftTrees,
    Training,
    boosted_regression,
    cell_counts,
    classifiers_of,
    distances,
    dry_run,
    evaluate,
    evaluation_mechanism,
    first_response,
    fit_noisy,
    fit_numbers,
    fold_count,
    held_out,
    indicators,
    tune,
)
from labeldp.mechanisms import (
    MAX_GRID,
    Classes,
    Mechanism,
    RandomizedResponse,
    UnbiasedNumbers,
)
from labeldp.privacy import CuratorLike, InputError, PrivacyLoss, RandomSource, Release

NEIGHBOR_FACTORS = (1.0, 4.0, 16.0, 64.0)
"""So many times the number of neighbors by the rule are tried."""

MOST_BINS = 4
"""Bins of the range for which boosted trees are set up."""

TUNING_RECORDS = 20_000
"""Records on which the number of neighbors is chosen, at most: as a multiple of the rule it does not depend on them."""


@final
@dataclass(frozen=True)
class ReleasedLabels(Recipe):
    """Cells, neighbors, or boosted trees of numbers: the one, of a few sizes, that predicts held-out labels best.

    Numbers are answered and learned from as in `fit_numbers`; `auto` takes its learners.
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
    def staged(self) -> bool:
        """Whether a part of the labels, which are numbers, decides what answers the others."""
        domain = self.settings.domain
        records = self.settings.user_column is None
        return domain.target == "numbers" and records and domain.size <= MAX_GRID

    @property
    def mechanism(self) -> Mechanism:
        """What answers every record, or the first ones: of classes what `--model auto` takes, too."""
        domain, epsilon = self.settings.domain, self.settings.epsilon
        if domain.target == "numbers":
            kind: Any = UnbiasedNumbers if self.staged else evaluation_mechanism
            return kind(domain=domain, epsilon=epsilon)
        return first_response(domain, epsilon)

    def steps(self, records: int) -> tuple[Step, ...]:
        """Return one release of all labels, which every fit that asks for the same one shares; or those of numbers."""
        mechanism = self.mechanism
        if self.staged:
            measured = evaluation_mechanism(self.settings.domain, self.settings.epsilon).privacy_loss()
            others = Step("labels", PrivacyLoss.pure(self.settings.epsilon), 1), Step("evaluation", measured, 2)
            return Step("range", mechanism.privacy_loss(), 0), *others
        return (Step("labels", mechanism.privacy_loss(), mechanism=mechanism.specification()),)

    def check(self, rows: Rows, context: TrainingContext) -> None:
        """Refuse too few records to hold some out, and features that distances cannot be told from."""
        require_records(f"--model {self.settings.model}", rows, 3 * MIN_RECORDS if self.staged else MIN_RECORDS)
        for name, count in (("cells", self.settings.cells), ("neighbors", self.settings.neighbors)):
            check_size(f"--{name}", count, len(rows.features))
        self._learners(rows)

    def learn(self, rows: Rows, curator: CuratorLike, *, rng: RandomSource, context: TrainingContext) -> Release[Model]:
        """Release all labels once, and keep the learner that best predicts those that it did not see: see `tune`."""
        if self.staged:
            return self._learn_numbers(rows, curator, rng)
        release = curator.release(self.mechanism, rng=rng, step="labels")
        learners, held = self._learners(rows), held_out(curator, self.settings.evaluation or 0.0, 0)
        if held.any():
            return release.map(lambda _: self._measured(learners, rows.features, release, held))
        source = CROSS_VALIDATED
        if len(learners) > 1:
            source += f"; of {len(learners)} learners the one with the best score on these labels"
            source += ", which flatters it a little"
        with threadpool_limits(1):  # sums in another order would choose another size
            folds = fold_count(curator.records)
            found = tune(
                self._candidates(learners, rows.features, release), rows.features, _coded(release), folds=folds
            )
        fold = Model(self.settings.domain, _bare(found.fold[0])), found.fold[1]
        evaluation = evaluate(release, found.held_out, source, np.arange(curator.records), fold)
        return release.map(lambda _: Model(self.settings.domain, _bare(found.learner), evaluation=evaluation))

    def _measured(
        self, learners: list[Any], features: NDArray[Any], release: Release[Any], held: NDArray[np.bool_]
    ) -> Model:
        """Return the best learner of the records that are not held out, measured on the answers of the others."""
        seen, kept = (replace(release, value=release.value[mask]) for mask in (~held, held))
        with threadpool_limits(1):
            known = self._candidates(learners, features[~held], seen)
            found = tune(known, features[~held], _coded(seen), folds=fold_count(len(seen.value)))
        model = Model(self.settings.domain, _bare(found.learner))
        answer = model.predict if model.domain.target == "numbers" else model.predict_proba
        evaluation = evaluate(kept, answer(features[held]), HELD_OUT, np.flatnonzero(held))
        return replace(model, evaluation=evaluation)

    def _learn_numbers(self, rows: Rows, curator: CuratorLike, rng: RandomSource) -> Release[Model]:
        """See `fit_numbers`: bins are left to the regressors where cells or neighbors are asked for."""
        assert isinstance(rows, TableRows)
        settings, categorical = self.settings, rows.encoder.categorical
        auto, boosting = settings.model == "auto", settings.model == "boosting"
        trees = classifiers_of("boosting", rows.features, categorical, MOST_BINS) if boosting else ()
        with threadpool_limits(1):
            found = fit_numbers(
                rows.features,
                curator,
                epsilon=settings.epsilon,
                rng=rng,
                classifiers=None if auto else trees,
                regressors=None if auto else self._learners(rows),
                categorical=categorical,
                evaluation=self.share,
            )
        return found.map(lambda model: replace(model, estimator=_bare(model.estimator)))

    @property
    def shares_releases(self) -> bool:
        """Return whether all models ask for the same releases of labels, whatever the features are."""
        return self.staged

    def _candidates(self, learners: list[Any], features: NDArray[Any], release: Release[Any]) -> list[Any]:
        """Return the learners; of neighbors of many records, which are slow, the one that is best on some of them."""
        records = len(features)
        if self.settings.model != "neighbors" or records <= TUNING_RECORDS or len(learners) == 1:
            return learners
        some = np.random.default_rng(0).permutation(records)[:TUNING_RECORDS]
        known = replace(release, value=release.value[some])
        scores = tune(learners, features[some], _coded(known), folds=2).scores
        return [learners[int(np.argmax(scores))]]

    def _learners(self, rows: Rows) -> list[Any]:
        """Return what is chosen from: learners of several sizes."""
        assert isinstance(rows, TableRows)
        settings, records, categorical = self.settings, len(rows.features), rows.encoder.categorical
        numbers = settings.domain.target == "numbers"
        if settings.model == "neighbors":
            kind: Any = NeighborsRegressor if numbers else NeighborsClassifier
            if settings.neighbors is not None:
                return [distances(categorical, kind(settings.neighbors))]
            return [distances(categorical, kind(constant=factor)) for factor in NEIGHBOR_FACTORS]
        trees = [NoisyNumberRegressor(boosted_regression(records, categorical))]
        if settings.model == "boosting":
            return trees
        kind = CellRegressor if numbers else CellClassifier
        sizes = [settings.cells] if settings.cells else cell_counts(records)
        cells = [distances(categorical, kind(MedianPartition(size))) for size in sizes]
        return cells if settings.model == "cells" else [*trees, *cells]

    def refit(self, model: Model, features: NDArray[np.float64], release: Release[Any]) -> Model:
        """Return the chosen learner, fitted again."""
        return Model(model.domain, clone(model.estimator).fit(features, _coded(release)))

    def keeps_rows(self, model: Model) -> bool:
        """Return whether neighbors are looked for among the records."""
        return self.settings.model == "neighbors"

    def describe(self, model: Model) -> str:
        """Return what answers, and how it was learned."""
        last = model.estimator[-1] if hasattr(model.estimator, "steps") else model.estimator
        if isinstance(last, BinMeans):
            kind = f"{model_of(_classifier(last.classifier))} of bins"
        elif isinstance(last, NoisyNumberRegressor):
            kind = model_of(last)
            kind += " and a ridge regression" if hasattr(last.estimator_, "estimators_") else ""
        elif self.settings.model == "neighbors":
            kind = f"means over the {last.neighbors_:,} nearest records"
        else:
            cells = len(last.cells_[0].keys)
            kind = f"means over {cells:,} cells of similar records, cut at medians of features"
            kind = kind if cells > 1 else "one cell: the mean of all released labels"
        return f"{kind}, learned from one release of noisy labels"

    def describe_noise(self, records: int) -> str:
        """Return the noise of a released label."""
        noise = self.mechanism.describe_noise(format_number)
        if not self.staged:
            return noise
        return f"First part of the records: {noise} These outputs decided the mechanism of the second part."


def _coded(release: Release[Any]) -> Release[Any]:
    """Return a release of classes as one of their codes, which is what a `Model` answers with."""
    mechanism = release.mechanism
    if mechanism.domain.target == "numbers":
        return release
    return replace(release, mechanism=replace(mechanism, domain=Classes(mechanism.domain.size)))


def _bare(learner: Any) -> Any:
    """Return a learner without the certificate of its labels, which is the model's and is written beside it."""
    bare = copy(learner)
    if hasattr(bare, "steps"):
        bare.steps = [*bare.steps[:-1], (bare.steps[-1][0], _bare(bare.steps[-1][1]))]
    elif hasattr(bare, "certificate_"):
        del bare.certificate_
    return bare


@final
@dataclass(frozen=True)
class NoisyLabels(StageRecipe):
    """A scikit-learn classifier of labels that are randomized one by one, in stages or at once."""

    simulation: ClassVar[str] = (
        "randomized at each ε, with the chosen classifier trained again in one stage (boosted trees: half as many, at "
        "twice the learning rate)"
    )

    def steps(self, records: int) -> tuple[Step, ...]:
        """Return one release of all labels, which every fit at this epsilon shares; or the steps of several stages."""
        settings = self.settings
        if settings.prior == "none" and settings.stages == 1:
            mechanism = self.first_response(settings.epsilon)
            return (Step("stage 1", mechanism.privacy_loss(), mechanism=mechanism.specification()),)
        return super().steps(records)

    def check(self, rows: Rows, context: TrainingContext) -> None:
        """Refuse before a cluster prior is released what `fit_multistage` would refuse after it."""
        if self.settings.prior != "none":
            require_records(f"--prior {self.settings.prior}", rows)
            epsilon = prior_shares(self.settings, len(rows.features))[1]
            response = RandomizedResponse(domain=self.settings.domain, epsilon=epsilon)
            dry_run(self.classifiers(rows, context), rows.features, Training(), response)

    def classifiers(self, rows: Rows, context: TrainingContext) -> list[Any]:
        """Return the classifiers of the model's name."""
        assert isinstance(rows, TableRows)
        return classifiers_of(self.settings.model, rows.features, rows.encoder.categorical, self.settings.domain.size)

    def prior_features(self, rows: Rows) -> NDArray[Any]:
        """Return numbers, and an indicator for each category."""
        assert isinstance(rows, TableRows)
        return indicators(rows.features, rows.encoder.categorical)

    def prepare_simulation(self, model: Model, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the features as they are."""
        return features

    def learn_simulated(
        self, model: Model, features: NDArray[np.float64], curator: CuratorLike, *, epsilon: float, rng: RandomSource
    ) -> Model:
        """Return the chosen classifier from one release of all labels."""
        release = curator.release(first_response(curator.domain, epsilon), rng=rng)
        return fit_noisy(features, release, classifier=_quicker(clone(_learner(model))), training="plain").value

    def simulated_records(self, columns: int) -> int:
        """Return fewer of wide tables and of many classes: a point of the curve takes as long."""
        size = self.settings.domain.size
        return max(SIMULATED_NUMBERS // (columns * (1 if size == 2 else size)), MIN_SIMULATED)

    def refit(self, model: Model, features: NDArray[np.float64], release: Release[Any]) -> Model:
        """Return the chosen classifier, fitted again."""
        return fit_noisy(features, release, classifier=clone(_learner(model)), training="plain").value

    def keeps_rows(self, model: Model) -> bool:
        """Return whether a kernel's centers are records."""
        return isinstance(_learner(model), KernelClassifier)

    def describe(self, model: Model) -> str:
        """Return the classifier that was chosen, and the stages."""
        return f"{model_of(_learner(model))}, learned in {self.describe_stages()}"


def _learner(model: Model) -> Any:
    """Return the classifier of a model, or the first of several that are alike, as it is fitted to classes."""
    return _classifier(model.estimator)


def _classifier(estimator: Any) -> Any:
    """Return a classifier, or the first of several that are alike, as it is fitted to classes."""
    found = estimator.parts[0] if isinstance(estimator, GeometricMean) else estimator
    return found.trees if isinstance(found, SoftTrees) else found


def _quicker(classifier: Any) -> Any:
    """Return a classifier that learns faster, if it is made of trees: half as many, at twice the learning rate."""
    if not isinstance(classifier, HistGradientBoostingClassifier):
        return classifier
    settings = {"max_iter": -(-classifier.max_iter // 2), "learning_rate": 2 * classifier.learning_rate}
    return classifier.set_params(**settings)


SIMULATED_NUMBERS, MIN_SIMULATED = 200_000, 4_000
"""Features times trees at a time that a simulation of classifiers learns from, about; and its fewest records."""

SIMULATED_DIRECTIONS = 300
"""Principal directions that a simulation learns from, at most."""


@final
@dataclass(frozen=True)
class LinearLabels(StageRecipe):
    """A linear softmax of labels that are randomized one by one, fitted by their likelihood."""

    simulation: ClassVar[str] = "randomized at each ε, with the model fitted again by likelihood in one stage"
    options: ClassVar[Mapping[str, Any]] = {"temperature": "calibrated"}

    def check(self, rows: Rows, context: TrainingContext) -> None:
        """Refuse features that nothing can be learned from, and too few records for the stages."""
        self.classifiers(rows, context).dry_run(rows.features, self.settings.domain.size)
        least = MIN_RECORDS * (self.settings.stages + 1)
        if len(rows.features) < least:
            raise InputError(f"{self.describe_stages()} and an evaluation need at least {least} records")

    def classifiers(self, rows: Rows, context: TrainingContext) -> SoftmaxClassifier:
        """Return the unfitted classifier."""
        return SoftmaxClassifier(rows.representation())

    def learn(self, rows: Rows, curator: CuratorLike, *, rng: RandomSource, context: TrainingContext) -> Release[Model]:
        """See `fit_multistage`: on one thread, since later stages are found again by a prior that is the same."""
        with threadpool_limits(1):
            return super().learn(rows, curator, rng=rng, context=context)

    def prior_features(self, rows: Rows) -> NDArray[Any]:
        """Not called: counts of clusters need a trusted curator, who releases sums instead."""
        raise NotImplementedError

    def prepare_simulation(self, model: Model, features: NDArray[Any]) -> NDArray[Any]:
        """Return the widest directions of the encoded features: found once, not at each epsilon."""
        table = model.estimator.head_.mapped(features)
        return principal(table, SIMULATED_DIRECTIONS)

    def learn_simulated(
        self, model: Model, features: NDArray[Any], curator: CuratorLike, *, epsilon: float, rng: RandomSource
    ) -> Model:
        """Return the same model from one release of all labels."""
        release = curator.release(first_response(curator.domain, epsilon), rng=rng)
        return fit_noisy(features, release, classifier=SoftmaxClassifier(FunctionTransformer())).value

    def describe(self, model: Model) -> str:
        """Return the model and the stages."""
        features = FEATURES[type(model.estimator.head_.representation).__name__]
        return f"a linear model of {features}, learned from noisy labels in {self.describe_stages()}"

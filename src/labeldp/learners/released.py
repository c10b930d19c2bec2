"""Cells, neighbors, or boosted trees: the one, of a few sizes, that predicts held-out released labels best."""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from labeldp.features import take_rows
from labeldp.learners.adapters import NoisyNumberRegressor
from labeldp.learners.blends import BlendedRegressor
from labeldp.learners.cells.local import CellClassifier, CellRegressor, cell_counts
from labeldp.learners.cells.partitions import MedianPartition
from labeldp.learners.classifiers import boosted_regression, distances
from labeldp.learners.evaluation import HELD_OUT, evaluate, evaluation_mechanism
from labeldp.learners.model import Model, held_out
from labeldp.learners.multistage import CROSS_VALIDATED, first_response
from labeldp.learners.neighbors import NeighborsClassifier, NeighborsRegressor
from labeldp.learners.numbers import TUNING_RECORDS, Numbers, regressor_words
from labeldp.learners.plan import (
    MIN_RECORDS,
    Learner,
    Progress,
    Task,
    check_size,
    format_number,
    no_progress,
    require_records,
)
from labeldp.learners.training import fold_count
from labeldp.learners.tuning import tune
from labeldp.mechanisms import MAX_GRID, Classes, Mechanism
from labeldp.privacy import CuratorLike, Plan, RandomSource, Release, Step

NEIGHBOR_FACTORS = (1.0, 4.0, 16.0, 64.0)
"""So many times the number of neighbors by the rule are tried."""

LABELS = "labels"
"""The name of the release of all labels in a ledger."""


@final
@dataclass(frozen=True)
class ReleasedLabels(Learner):
    """Cells, neighbors, or boosted trees of numbers, which learn from one release of all labels.

    Numbers are answered and learned from as in `fit_numbers`, unless users are protected; "mixture" takes its learners.

    Args:
        name: "cells", "neighbors"; or of numbers "boosting" or "mixture".
        cells, neighbors: how many; None to choose.
        regressors: of numbers, in place of those of the name: they take weights, and are measured on a part.
    """

    cells: int | None = None
    neighbors: int | None = None
    regressors: tuple[Any, ...] = ()
    one_thread: ClassVar[str] = "all"
    notes: ClassVar[tuple[str, ...]] = (
        "Results at other values of ε are not simulated: sizes would have to be chosen anew for each.",
    )

    def staged(self, task: Task) -> bool:
        """Return whether a part of the labels, which are numbers, decides what answers the others."""
        return task.domain.target == "numbers" and task.cap is None and task.domain.size <= MAX_GRID

    def mechanism(self, task: Task) -> Mechanism:
        """Return the mechanism for every record or the first ones; for classes `--model mixture` uses it, too."""
        if self.staged(task):
            return Numbers().mechanisms(task)["range"]
        if task.domain.target == "numbers":
            return evaluation_mechanism(task.domain, task.epsilon)
        return first_response(task.domain, task.epsilon)

    def plan(self, task: Task) -> Plan:
        """Return one release of all labels, or those of `Numbers`."""
        if self.staged(task):
            return Numbers(self.name).plan(task)
        return Plan(self.name, (Step(path=(), loss=self.mechanism(task).privacy_loss(), name=LABELS),))

    def answers(self, task: Task) -> Mapping[str, Mechanism]:
        """Return the release of all labels, which every fit that asks for the same one shares."""
        return {} if self.staged(task) else {LABELS: self.mechanism(task)}

    def shares_releases(self, task: Task) -> bool:
        """Return whether all models ask for the same releases of numbers."""
        return self.staged(task)

    def check(self, features: Any, task: Task) -> None:
        """Refuse too few records to hold some out, and features that distances cannot be told from."""
        require_records(f"--model {self.name}", task.records, 3 * MIN_RECORDS if self.staged(task) else MIN_RECORDS)
        check_size("--cells", self.cells, task.records)
        check_size("--neighbors", self.neighbors, task.records)
        self.learners(features, task)

    def fit(
        self, features: Any, curator: CuratorLike, task: Task, *, rng: RandomSource, progress: Progress = no_progress
    ) -> Release[Model]:
        """Release all labels once, and keep the learner that best predicts those that it did not see: see `tune`."""
        if self.staged(task):
            numbers = self.numbers(features, task)
            return numbers.fit(features, curator, task, rng=rng).map(
                lambda model: replace(model, estimator=_bare(model.estimator))
            )
        release = curator.release(self.mechanism(task), rng=rng, step=LABELS)
        apart = bool(self.regressors) or task.weights is not None
        share = task.share if apart else task.evaluation or 0.0
        learners, held = self.learners(features, task), held_out(curator, share, 0)
        if held.any():
            return release.map(lambda _: self._measured(learners, features, release, held, task.weights))
        source = CROSS_VALIDATED
        if len(learners) > 1:
            source += f"; of {len(learners)} learners the one with the best score on these labels"
            source += ", which flatters it a little"
        candidates = self._candidates(learners, features, release)
        best = tune(candidates, features, _coded(release), folds=fold_count(curator.records))
        fold = Model(task.domain, _bare(best.fold[0])), best.fold[1]
        evaluation = evaluate(release, best.held_out, source, np.arange(curator.records), fold)
        return release.map(lambda _: Model(task.domain, _bare(best.learner), evaluation=evaluation))

    def numbers(self, features: Any, task: Task) -> Numbers:
        """Return the learner of numbers in parts."""
        given = bool(self.regressors) or task.weights is not None or self.name != "mixture"
        return Numbers(self.name, self.learners(features, task) if given else None)

    def learners(self, features: Any, task: Task) -> list[Any]:
        """Return what is chosen from: learners of several sizes."""
        if self.regressors:
            return list(self.regressors)
        records, mask = len(features), np.zeros(features.shape[1], np.bool_)
        if task.categorical is not None:
            mask = np.asarray(task.categorical)
        numbers = task.domain.target == "numbers"
        if self.name == "neighbors":
            kind: Any = NeighborsRegressor if numbers else NeighborsClassifier
            if self.neighbors is not None:
                return [distances(mask, kind(self.neighbors))]
            return [distances(mask, kind(constant=factor)) for factor in NEIGHBOR_FACTORS]
        trees = [NoisyNumberRegressor(boosted_regression(records, mask))]
        if self.name == "boosting":
            return trees
        kind = CellRegressor if numbers else CellClassifier
        sizes = [self.cells] if self.cells else cell_counts(records)
        cells = [distances(mask, kind(MedianPartition(size))) for size in sizes]
        return cells if self.name == "cells" else [*trees, *cells]

    def _measured(
        self, learners: list[Any], features: Any, release: Release[Any], held: NDArray[np.bool_], weights: Any
    ) -> Model:
        """Return the best learner of the records that are not held out, measured on the answers of the others."""
        seen, tests = (replace(release, value=release.value[mask]) for mask in (~held, held))
        table = take_rows(features, ~held)
        if len(learners) == 1:
            measured = () if weights is None else (np.asarray(weights)[~held],)
            learner = clone(learners[0]).fit(table, _coded(seen), *measured)
        else:
            candidates = self._candidates(learners, table, seen)
            learner = tune(candidates, table, _coded(seen), folds=fold_count(len(seen.value))).learner
        model = Model(release.mechanism.domain, _bare(learner))
        answer = model.predict if model.domain.target == "numbers" else model.predict_proba
        evaluation = evaluate(tests, answer(take_rows(features, held)), HELD_OUT, np.flatnonzero(held))
        return replace(model, evaluation=evaluation)

    def _candidates(self, learners: list[Any], features: NDArray[Any], release: Release[Any]) -> list[Any]:
        """Return the learners; of neighbors of many records, which are slow, the one that is best on some of them."""
        records = len(features)
        if self.name != "neighbors" or records <= TUNING_RECORDS or len(learners) == 1:
            return learners
        some = np.random.default_rng(0).permutation(records)[:TUNING_RECORDS]
        sample = replace(release, value=release.value[some])
        scores = tune(learners, features[some], _coded(sample), folds=2).scores
        return [learners[int(np.argmax(scores))]]

    def refit(self, model: Model, features: NDArray[Any], release: Release[Any]) -> Model:
        """Return the chosen learner, fitted again."""
        return Model(model.domain, clone(model.estimator).fit(features, _coded(release)))

    def keeps_rows(self, model: Model) -> bool:
        """Return whether neighbors are looked for among the records."""
        return self.name == "neighbors"

    def describe(self, model: Model, task: Task) -> str:
        """Return what answers, and how it was learned."""
        last = model.estimator[-1] if hasattr(model.estimator, "steps") else model.estimator
        if isinstance(last, BlendedRegressor | NoisyNumberRegressor):
            kind = regressor_words(last)
        elif self.name == "neighbors":
            kind = f"means over the {last.neighbors_:,} nearest records"
        else:
            cells = len(last.cells_[0].keys)
            kind = f"means over {cells:,} cells of similar records, cut at medians of features"
            kind = kind if cells > 1 else "one cell: the mean of all released labels"
        return f"{kind}, learned from one release of noisy labels"

    def hidden(self, task: Task) -> tuple[str, ...]:
        """Return that it is hidden which labels are true."""
        return ("Which of the released labels are true.",)

    def describe_noise(self, task: Task) -> str:
        """Return the noise of a released label."""
        return (
            Numbers().describe_noise(task) if self.staged(task) else self.mechanism(task).describe_noise(format_number)
        )


def _coded(release: Release[Any]) -> Release[Any]:
    """Return a release of classes as a release of their codes, which a `Model` predicts."""
    mechanism = release.mechanism
    if mechanism.domain.target == "numbers":
        return release
    return replace(release, mechanism=replace(mechanism, domain=Classes(mechanism.domain.size)))


def _bare(learner: Any) -> Any:
    """Return a learner without the certificate of its labels, which is the model's and is written next to it."""
    bare = copy(learner)
    if hasattr(bare, "steps"):
        bare.steps = [*bare.steps[:-1], (bare.steps[-1][0], _bare(bare.steps[-1][1]))]
    elif hasattr(bare, "certificate_"):
        del bare.certificate_
    return bare

"""What a model's features are worth, and what other epsilons would have given: computed from releases alone."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.curator import Curator, Ledger
from labeldp.fit.job import Job
from labeldp.fit.summary import TWO_SIDED, Curve, CurvePoint, FitSummary, Importance
from labeldp.inference import DebiasedErrors, Scores, SummedErrors
from labeldp.learners import MAX_SIMULATED, Learner, Model, Task
from labeldp.mechanisms import LabelCodes, debias
from labeldp.privacy import Budget, InputError, Release
from labeldp.tables import TableEncoder

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)

REPEATS = 2

MAX_SHUFFLED, MIN_SHUFFLED = 20_000, 1_000
"""Records with shuffled features at most, and at most in a table of many features: see `SHUFFLED_NUMBERS`."""

SHUFFLED_NUMBERS = 50_000
"""Records times features that are shuffled, about: a model is asked about all records for each feature."""

MAX_LOOKED_UP = 5_000
"""Such records at most, for a model that looks every one up among its own records."""


def diagnosed(summary: FitSummary, job: Job, model: Model, show: Callable[[str, float], None]) -> FitSummary:
    """Return a summary with accuracy at other epsilons and the importance of features, where a fit has them.

    Both follow from releases and public features, so that nothing is charged. They may take longer than the fit.
    """
    learner, features, encoder = job.learner, job.rows.features, job.rows.encoder
    curve: Curve | None = None
    importance: tuple[Importance, ...] = ()
    if learner.simulation and model.domain.target == "classes" and job.owners is None:
        show("simulating other ε", 0.7)
        curve = simulated_curve(learner, job.task, model, features)
    if isinstance(encoder, TableEncoder) and encoder.names and not isinstance(model.evaluation, SummedErrors):
        show("ranking features", 0.9)
        importance = importances(learner, model, features, encoder.names)
    return replace(summary, curve=curve, importance=importance)


def simulated_curve(learner: Learner, task: Task, model: Model, features: NDArray[Any]) -> Curve | None:
    """Return accuracy against epsilon in a world whose labels follow the model; None if it has too few records."""
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(features))[:MAX_SIMULATED]
    try:
        world = _World.drawn(learner, task, model, features[rows], rng)
        points = [world.point(epsilon, rng) for epsilon in sorted({*EPSILONS, task.epsilon})]
    except InputError:
        return None
    return Curve(
        tuple(points),
        f"Simulation: labels of {len(rows):,} records, drawn from this model, {learner.simulation}. Band: the spread "
        f"of {REPEATS} runs and of the simulated test records. This shows the trend, not the true accuracy.",
    )


@dataclass(frozen=True)
class _World:
    """Records whose labels were drawn from a model: all of it is simulated."""

    learner: Learner
    task: Task
    domain: Any
    features: NDArray[Any]
    codes: NDArray[Any]
    test: NDArray[np.bool_]

    @classmethod
    def drawn(
        cls, learner: Learner, task: Task, model: Model, features: NDArray[Any], rng: np.random.Generator
    ) -> "_World":
        """Draw labels from the model's probabilities, and keep a fifth of the records for the test."""
        cumulated = np.cumsum(model.predict_proba(features), axis=1)
        codes = (rng.random((len(features), 1)) > cumulated[:, :-1]).sum(axis=1)
        test = rng.permutation(len(features)) < max(len(features) // 5, 1)
        return cls(learner, task, model.domain, learner.prepare_simulation(model, features, task), codes, test)

    def point(self, epsilon: float, rng: np.random.Generator) -> CurvePoint:
        """Return the mean accuracy at one epsilon, with a band."""
        hits = np.array([self._accuracy(epsilon, rng) for _ in range(REPEATS)])
        value, tests = float(hits.mean()), int(self.test.sum())
        half = TWO_SIDED * float(np.sqrt(hits.var(ddof=1) / REPEATS + value * (1 - value) / tests))
        return CurvePoint(epsilon, value, max(value - half, 0.0), min(value + half, 1.0))

    def _accuracy(self, epsilon: float, rng: np.random.Generator) -> float:
        ledger = Ledger(Budget(epsilon, self.task.delta))
        codes = self.codes[~self.test]
        task = replace(self.task, epsilon=epsilon, records=len(codes), evaluation=None)
        curator = Curator(LabelCodes(codes), domain=self.domain, ledger=ledger)
        model = self.learner.fit_simulated(self.features[~self.test], curator, task, rng=rng)
        predicted = model.predict_proba(self.features[self.test]).argmax(axis=1)
        return float(np.mean(predicted == self.codes[self.test]))


def importances(
    learner: Learner, model: Model, features: NDArray[Any], names: tuple[str, ...]
) -> tuple[Importance, ...]:
    """Return how much the debiased accuracy drops when a feature's values are shuffled among the evaluation records.

    Of numbers: how much the debiased squared error rises. Where the evaluation was cross-validated, one of its models
    is looked at on records whose labels it did not see.
    """
    model, rows, release = _held_out(learner, model, features)
    rng = np.random.default_rng(0)
    count = int(np.clip(SHUFFLED_NUMBERS // len(names), MIN_SHUFFLED, MAX_SHUFFLED))
    count = MAX_LOOKED_UP if learner.keeps_rows(model) else count
    if len(rows) > count:
        some = rng.permutation(len(rows))[:count]
        rows, release = rows[some], replace(release, value=release.value[some])
    table = features[rows]
    scores = _scores(model, table, release)
    results = []
    for column, name in enumerate(names):
        shuffled = table.copy()
        shuffled[:, column] = rng.permutation(shuffled[:, column])
        loss = scores - _scores(model, shuffled, release)
        half = TWO_SIDED * float(loss.std() / np.sqrt(len(loss)))
        value = float(loss.mean())
        results.append(Importance(name, value, value - half, value + half))
    return tuple(results)


def _scores(model: Model, features: NDArray[np.float64], release: Release[Any]) -> NDArray[np.float64]:
    """Return for each record an unbiased indicator that the model's answer is right, or minus its squared error."""
    if model.domain.target == "numbers":
        return -np.asarray(release.mechanism.unbiased_squares(release.value, model.predict(features)))
    truth = debias(release.mechanism, release.value).values
    return truth[np.arange(len(features)), model.predict_proba(features).argmax(axis=1)]


def _held_out(
    learner: Learner, model: Model, features: NDArray[np.float64]
) -> tuple[Model, NDArray[np.intp], Release[Any]]:
    """Return a model, and records with released labels that it was not trained on."""
    evaluation = model.evaluation
    assert isinstance(evaluation, Scores | DebiasedErrors) and evaluation.rows is not None
    if len(evaluation.rows) < len(features):
        return model, evaluation.rows, evaluation.release
    release = evaluation.release
    if evaluation.fold is not None:
        other, unseen = evaluation.fold
        return other, evaluation.rows[unseen], replace(release, value=release.value[unseen])
    held = np.random.default_rng(0).random(len(features)) < 0.2
    seen, tests = (replace(release, value=release.value[mask]) for mask in (~held, held))
    return learner.refit(model, features[~held], seen), np.flatnonzero(held), tests

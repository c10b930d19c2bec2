"""Numbers that are randomized one by one, around predictions of a model of earlier answers, and who learns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import chain
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from labeldp.features import check_rows, row_table, take_rows
from labeldp.learners.blends import Blend, BlendedRegressor
from labeldp.learners.catalog import model_words
from labeldp.learners.distances import Distances
from labeldp.learners.evaluation import HELD_OUT, evaluate, evaluation_mechanism
from labeldp.learners.model import Model, check_evaluation
from labeldp.learners.plan import EVALUATED, Learner, Progress, Task, format_number, no_progress, part, steps_of
from labeldp.learners.training import fold_count
from labeldp.learners.tuning import tune
from labeldp.mechanisms import Debiased, Interval, ResponseOnDistances, ResponseOnPoints, second_moment
from labeldp.privacy import (
    Certificate,
    CuratorLike,
    Floats,
    InputError,
    Plan,
    Public,
    RandomnessKind,
    RandomSource,
    Release,
    Trust,
    Unit,
    check_curator,
    gather,
    positive_epsilon,
)

SHARES = {"range": 0.2, "distances": 0.1, "round 1": 0.28, "round 2": 0.42}
"""Parts of the records, by the step that asks for them, where answers are asked for around predictions."""

BINS = 8
"""Bins of the distance between a label and its prediction."""

DIMENSION = 30.0
"""So many coefficients are expected to be learned, when a reach is chosen."""

LEAST_EPSILON = Fraction(2, 5)
"""Below it all answer on the whole range: what distances then say is too little for a smaller reach."""

MOST_POINTS = 21

CLEAR = 2.0
"""Regressors without weights learn from answers whose noise is at most so many times the least."""

TUNING_RECORDS = 20_000
"""Records by which a regressor is chosen, at most."""


def fit_numbers(
    features: Any,
    curator: CuratorLike,
    *,
    epsilon: float,
    rng: RandomSource,
    regressors: Sequence[Any] | None = None,
    categorical: Any = None,
    evaluation: float = EVALUATED,
    partition_seed: int = 0,
    sample_weight: Any = None,
) -> Release[Model]:
    """Learn a regression from private numbers, each of which is released once, with noise.

    The first records answer on the whole range, and a first model follows. The next ones answer how far they are from
    its predictions. The others answer around predictions, in two rounds, within a reach that these distances allow: the
    smaller it is, the smaller is the noise. Where epsilon is too small for that, all answer on the whole range. A part
    is kept for the evaluation.

    Args:
        features: public numbers, one row for each record, NaN where a value is missing.
        curator: holds the numbers; its domain is an `Interval`.
        epsilon: cost of every label's one release.
        rng: randomness of the noise.
        regressors: regressors with `fit(features, release)`, of which the one is kept that predicts held-out answers
            best, as for `tune`; by default boosted trees and two ridge regressions, weighted by held-out answers.
        categorical: boolean mask of the columns that hold category codes, shape (d,), for the default learners.
        evaluation: share of the records, in (0, 1), that the model does not learn from, but is measured on.
        partition_seed: public seed of the random split.
        sample_weight: public weights of the records in training, shape (n,), for one regressor whose `fit` takes them;
            results count all records alike.

    Returns:
        The model, with `model.evaluation`; its certificate holds every charge.

    Guarantee (pure): epsilon-DP for each label: every label is released once.

    Raises:
        InputError: an argument is wrong; nothing was charged.
        BudgetExceeded: the budget does not admit everything together; nothing was charged.

    Source: `docs/proofs/learning.md`.
    """
    check_curator(curator, "numbers")
    check_evaluation(evaluation)
    learner = Numbers("numbers", regressors, partition_seed)
    task = replace(Task.of(curator, epsilon, evaluation=evaluation), categorical=categorical, weights=sample_weight)
    return learner.fit(features, curator, task, rng=rng)


@final
@dataclass(frozen=True)
class Numbers(Learner):
    """A regression of numbers that are randomized one by one, most of them around predictions from the others.

    Args:
        regressors, partition_seed: as in `fit_numbers`.
    """

    regressors: Sequence[Any] | None = None
    partition_seed: int = 0
    one_thread: ClassVar[str] = "all"

    def plan(self, task: Task) -> Plan:
        """Return the answers of each part, and of the evaluation."""
        mechanisms = self.mechanisms(task)
        steps = [steps_of({name: each}, part(number)) for number, (name, each) in enumerate(mechanisms.items())]
        return Plan(self.name, tuple(chain(*steps)))

    def mechanisms(self, task: Task) -> dict[str, Any]:
        """Return what answers each part, by step; spans and centers follow from earlier answers."""
        if task.domain.target != "numbers":
            raise InputError("curator must hold numbers: its domain is not an Interval")
        if task.cap is not None:
            raise InputError("curator must protect records, and not users: its parts would share them")
        if not task.share:
            raise InputError("must be a share of the records above 0", argument="evaluation")
        domain, epsilon = task.domain, task.epsilon
        complete, around = (
            ResponseOnPoints(domain=domain, epsilon=epsilon, points=fewest_points(epsilon, spread))
            for spread in (1.0, 0.5)
        )
        if positive_epsilon(epsilon) >= LEAST_EPSILON:
            distances = ResponseOnDistances(domain=domain, epsilon=epsilon, bins=BINS)
            mechanisms = dict(zip(SHARES, (complete, distances, around, around), strict=True))
        else:
            mechanisms = {"range": complete}
        return {**mechanisms, "evaluation": evaluation_mechanism(domain, epsilon)}

    def parts(self, task: Task) -> NDArray[np.int64]:
        """Return the part of each record, a place in `mechanisms`, shape (n,)."""
        names = list(self.mechanisms(task))[:-1]
        learned = (1 - task.share) * task.records
        ends = np.cumsum([SHARES[name] for name in names]) / sum(SHARES[name] for name in names) * learned
        order = np.random.default_rng(self.partition_seed).permutation(task.records)
        return np.searchsorted(ends, order, side="right").astype(np.int64)

    def fit(
        self, features: Any, curator: CuratorLike, task: Task, *, rng: RandomSource, progress: Progress = no_progress
    ) -> Release[Model]:
        """See `fit_numbers`."""
        features = row_table(features)
        check_rows(features, curator.records)
        mechanisms, parts = self.mechanisms(task), self.parts(task)
        self._try(features, task)
        counts = np.bincount(parts, minlength=len(mechanisms))
        if counts.min() < 2:
            raise InputError(f"labels must hold more records: each of {len(counts)} parts needs two")
        learn = self._first_learner(features, task)
        why = f"records are assigned at random from the public seed {self.partition_seed}, without their labels"
        curators = dict(zip(mechanisms, curator.split(Public(parts, why=why)), strict=True))
        rows = {name: np.flatnonzero(parts == number) for number, name in enumerate(mechanisms)}
        if not curators["range"].has_released(mechanisms["range"], step="range"):
            for name, mechanism in mechanisms.items():
                curators[name].require({name: mechanism})
        questions = Questions(features, learn, mechanisms, curators, rows, rng)
        first = questions.first()
        answers = questions.around(first) if len(mechanisms) > 2 else [first]
        fitted = learn(answers) if self.regressors is None else regressor_of(self.regressors, features, task, answers)
        model = fitted.map(lambda estimator: Model(task.domain, estimator))
        measured = questions.release("evaluation")
        predictions = model.value.predict(take_rows(features, rows["evaluation"]))
        evaluation = evaluate(measured, predictions, HELD_OUT, rows["evaluation"])
        return gather([model, measured], lambda model, _: replace(model, evaluation=evaluation))

    def _try(self, features: Any, task: Task) -> None:
        """Fit the given regressors to some records and synthetic numbers; refuse those that fail, and wrong weights."""
        weights = None if task.weights is None else np.asarray(task.weights, dtype=np.float64)
        if weights is not None and (
            weights.shape != (task.records,) or not (np.isfinite(weights) & (weights >= 0)).all()
        ):
            raise InputError(f"must hold {task.records:,} finite numbers of at least 0", argument="sample_weight")
        if weights is not None and len(self.regressors or ()) != 1:
            raise InputError("goes with one regressor in regressors", argument="sample_weight")
        if self.regressors is not None and not self.regressors:
            raise InputError("must hold one or more regressors, or be None", argument="regressors")
        rows = np.arange(min(task.records, TRIED_RECORDS))
        low, high = task.domain.ends
        table, numbers = take_rows(features, rows), np.linspace(low, high, len(rows))
        release = Release(numbers, NOTHING, KnownNumbers(task.domain, task.epsilon))
        for regressor in self.regressors or ():
            try:
                arguments = () if weights is None else (weights[rows],)
                predicted = clone(regressor).fit(table, release, *arguments).predict(table)
            except Exception as error:
                name = type(regressor).__name__
                raise InputError(f"{name} cannot learn from these records: {error}", argument="regressors") from error
            if not np.isfinite(np.asarray(predicted, dtype=np.float64)).all():
                raise InputError(f"{type(regressor).__name__} predicts no finite numbers", argument="regressors")

    def _first_learner(self, features: Any, task: Task) -> "Learn":
        """Return what learns from answers while others are asked for: a blend, unless it cannot read the table."""
        if self.regressors and getattr(getattr(features, "dtype", None), "kind", "") not in "fiub":
            return lambda answers: regressor_of(self.regressors or (), features, task, answers)
        fitting = np.shape(task.categorical) == np.shape(features)[1:]  # else the regressor takes other columns
        blend = Blend(features, task.categorical if fitting or not self.regressors else None, task.domain.ends)
        return lambda answers: blended(blend, answers)

    def shares_releases(self, task: Task) -> bool:
        """Return that all learners of numbers make the same releases."""
        return True

    def describe(self, model: Model, task: Task) -> str:
        """Return what answers, and how it was learned."""
        return f"{regressor_words(model.estimator)}, learned from one release of noisy labels"

    def describe_noise(self, task: Task) -> str:
        """Return the noise of a released number."""
        mechanisms = self.mechanisms(task)
        noise = mechanisms["range"].describe_noise(format_number)
        if len(mechanisms) == 2:
            return noise
        return f"First part of the records: {noise} Others answer around predictions, with less noise."


def regressor_words(estimator: Any) -> str:
    """Return what a fitted regressor on released numbers is, as a phrase."""
    if isinstance(estimator, BlendedRegressor):
        return "gradient-boosted trees and ridge regressions"
    return model_words(estimator)


TRIED_RECORDS = 200
"""Records on which a regressor is tried before anything is charged, at most."""

NOTHING = Certificate((), "", Unit.ONE_LABEL, Trust.LOCAL, RandomnessKind.SIMULATION, "synthetic numbers", ())
"""The certificate of numbers that no label went into."""


class Answers(NamedTuple):
    """Released answers, with what they are on average.

    Args:
        release: the answers.
        rows: the records.
        values: in the unit of the labels: their labels on average, within reach.
        noise: the mean square of values around predictions, in the squared unit.
    """

    release: Release[Any]
    rows: NDArray[np.intp]
    values: Floats
    noise: float


Learn = Callable[[Sequence[Answers]], Release[Any]]
"""What returns a regressor of released answers."""


@dataclass(frozen=True)
class Questions:
    """What asks for the labels of each part of the records, by the name of its step."""

    features: Any = field(repr=False)
    learn: Learn
    mechanisms: dict[str, Any]
    curators: dict[str, Any] = field(repr=False)
    rows: dict[str, NDArray[np.intp]] = field(repr=False)
    rng: RandomSource

    def release(self, step: str, **public: Any) -> Release[Any]:
        """Release the answers of a part, by its mechanism with other spans or centers."""
        mechanism = self.mechanisms[step]
        if public:
            mechanism = type(mechanism)(domain=mechanism.domain, **mechanism.arguments(), **public)
        return self.curators[step].release(mechanism, rng=self.rng, step=step)

    def first(self) -> Answers:
        """Return answers on the whole range."""
        release = self.release("range")
        mechanism = release.mechanism
        labels = np.linspace(-1, 1, 201)
        noise = float(second_moment(labels, 1, mechanism.points, float(mechanism.epsilon)).mean())
        half = float(mechanism.domain.high - mechanism.domain.low) / 2
        return Answers(release, self.rows["range"], mechanism.values(release.value), noise * half**2)

    def around(self, first: Answers) -> list[Answers]:
        """Return releases around predictions, first the first model's, then a model's of all releases so far."""
        domain, epsilon = first.release.mechanism.domain, float(first.release.mechanism.epsilon)
        answers, model = [first], self.learn([first])
        centers = self._codes(model, "distances", domain).map(lambda codes: codes[:, None])
        released = self.release("distances", centers=centers)
        distances = distances_of(released)
        later = take_rows(self.features, np.concatenate([self.rows["round 1"], self.rows["round 2"]]))
        for step in ("round 1", "round 2"):
            if step == "round 2":
                better = self.learn(answers)
                gain = np.mean((better.value.predict(later) - model.value.predict(later)) ** 2)
                model, distances = better, distances.after(float(gain))
            noise = partial(answer_noise, distances, epsilon, self.mechanisms[step].points)
            reach = distances.reach(partial(noise, records=later.shape[0] / DIMENSION))
            half = max(int(np.ceil(reach / domain.step)), 1)
            codes = gather([self._codes(model, step, domain), released], lambda codes, _: codes)
            spans = codes.map(partial(spans_around, half=half, size=domain.size))
            release = self.release(step, spans=spans)
            mechanism = release.mechanism
            values, square = mechanism.values(release.value), noise(mechanism.width * domain.step / 2)
            answers.append(Answers(release, self.rows[step], values, square))
        return answers

    def _codes(self, model: Release[Any], step: str, domain: Interval) -> Release[NDArray[Any]]:
        """Return predictions for the records of a part as codes of the domain, shape (n,)."""
        table = take_rows(self.features, self.rows[step])

        def codes(fitted: Any) -> NDArray[Any]:
            steps = (np.clip(fitted.predict(table), domain.low, domain.high) - domain.low) / domain.step
            return np.rint(steps).astype(np.int32)

        return model.map(codes)


def blended(blend: Blend, answers: Sequence[Answers]) -> Release[Any]:
    """Return a blend that learned from all answers, each weighted by its noise."""
    rows, values = (np.concatenate([answer[column] for answer in answers]) for column in (1, 2))
    weights = np.concatenate([np.full(len(answer.rows), 1 / answer.noise) for answer in answers])
    return gather([answer.release for answer in answers], lambda *_: blend.fit(rows, values, weights))


def regressor_of(regressors: Sequence[Any], features: Any, task: Task, answers: Sequence[Answers]) -> Release[Any]:
    """Return the best regressor, fitted to the releases with little noise."""
    clear = [answer for answer in answers if answer.noise <= CLEAR * min(other.noise for other in answers)]
    rows, numbers = np.concatenate([answer.rows for answer in clear]), known_numbers(clear, task.domain, task.epsilon)
    table = take_rows(features, rows)
    weights = () if task.weights is None else (np.asarray(task.weights)[rows],)
    return numbers.map(lambda _: clone(_best(regressors, table, numbers)).fit(table, numbers, *weights))


def spans_around(codes: NDArray[Any], half: int, size: int) -> NDArray[Any]:
    """Return the first and last points of spans around codes, shape (n, 2); the range, where they would be as wide."""
    if 2 * half >= size - 1:
        return np.tile(np.array([0, size - 1]), (len(codes), 1))
    return np.column_stack([codes - half, codes + half])


def distances_of(release: Release[Any]) -> Distances:
    """Return what answers of `ResponseOnDistances` say."""
    mechanism, noisy = release.mechanism, release.value
    raw = np.maximum(mechanism.shares(noisy), 0)
    return Distances.of(mechanism.domain, mechanism.bins, raw, doubts(mechanism.epsilon, raw / raw.sum(), len(noisy)))


def answer_noise(distances: Distances, epsilon: float, points: int, reach: float, records: float = 1.0) -> float:
    """Return the mean square of answers within a reach, over a number of records."""
    return float(distances.shares @ second_moment(distances.sizes, reach, points, epsilon)) / records


def doubts(epsilon: Any, shares: Floats, records: int) -> Floats:
    """Return variances of unbiased shares of randomized response, shape (bins,)."""
    growth = float(np.expm1(min(float(positive_epsilon(epsilon)), 50.0)))
    likely = (1 + growth * shares) / (growth + len(shares))
    return np.asarray(likely * (1 - likely) / records * ((growth + len(shares)) / growth) ** 2)


def fewest_points(epsilon: Any, spread: float) -> int:
    """Return how many points have the least noise, for labels in such a part of the span."""
    labels = np.linspace(-spread, spread, 201)
    epsilon = float(positive_epsilon(epsilon))
    return min(range(2, MOST_POINTS + 1), key=lambda points: float(second_moment(labels, 1, points, epsilon).mean()))


@dataclass(frozen=True)
class KnownNumbers:
    """What answered several releases of numbers that are unbiased by now, for learners that take one release.

    Args:
        domain: declared range.
        epsilon: of each answer.
    """

    domain: Interval
    epsilon: Any
    records: None = None

    def unbiased(self, noisy: Any) -> Debiased:
        """Return the numbers, shape (n,)."""
        return Debiased(np.asarray(noisy, dtype=np.float64), 1.0)


def known_numbers(answers: Sequence[Answers], domain: Interval, epsilon: Any) -> Release[Floats]:
    """Return values of answers, one record after the other, as one release."""
    release = gather(
        [answer.release for answer in answers], lambda *_: np.concatenate([answer.values for answer in answers])
    )
    return replace(release, mechanism=KnownNumbers(domain, epsilon))


def _best(regressors: Sequence[Any], features: Any, labels: Release[Any]) -> Any:
    """Return the regressor that best predicts held-out answers, of some of many records."""
    if len(regressors) == 1:
        return regressors[0]
    some = np.random.default_rng(0).permutation(len(labels.value))[:TUNING_RECORDS]
    release = replace(labels, value=labels.value[some])
    scores = tune(regressors, take_rows(features, some), release, folds=fold_count(len(some))).scores
    return regressors[int(np.argmax(scores))]

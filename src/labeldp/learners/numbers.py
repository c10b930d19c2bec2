"""Numbers that are randomized one by one: a prior from some of them, what asks for the others, and who learns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, expit, logit
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import VotingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline

from labeldp.learners.adapters import NoisyNumberRegressor
from labeldp.learners.catalog import model_words
from labeldp.learners.classifiers import boosted_regression, boosted_trees
from labeldp.learners.evaluation import HELD_OUT, evaluate, evaluation_mechanism
from labeldp.learners.evidence import expanded
from labeldp.learners.features import check_rows, row_table, take_rows
from labeldp.learners.model import Model, check_evaluation
from labeldp.learners.multistage import chosen
from labeldp.learners.plan import EVALUATED, Learner, Progress, Task, format_number, no_progress, part
from labeldp.learners.representations import TableMap
from labeldp.learners.training import Training, dry_run, fit_noisy, fold_count, with_initial_certificate
from labeldp.learners.tuning import tune
from labeldp.mechanisms import Classes, Debiased, Interval, RandomizedResponse, ResponseOnBins, UnbiasedNumbers, debias
from labeldp.privacy import (
    CuratorLike,
    Floats,
    InputError,
    Plan,
    PrivacyLoss,
    Public,
    RandomSource,
    Release,
    Step,
    check_curator,
    gather,
    positive_epsilon,
)

LEAST_FIRST, MOST_FIRST = 0.05, 0.2
MEAN_ERROR = 0.05
"""The prior uses enough records to estimate their mean to this part of the range, within these shares."""

MEANS = expit(np.linspace(-7, 7, 57))
CONCENTRATIONS = np.geomspace(1, 30, 10)
"""Beta distributions on the range, from which the prior is mixed, by their mean and by how narrow they are."""

LOGIT_SPREAD = 2.0
"""Before there are answers, the logit of the mean is normal with this standard deviation."""

CLEAR = 1.5
"""Unbiased answers are asked for where their noise is at most so many times the labels' own standard deviation."""

MOST_EPSILON = 4.0
"""For the number of bins: beyond, answers are unbiased anyway, but for a prior without any spread."""

TUNING_RECORDS = 20_000
"""Records by which a regressor is chosen, at most."""

RIDGE_TREES = 20
PENALTIES = np.geomspace(1e-2, 1e4, 13)
"""Random trees of the map that a ridge regression sees, and its penalties."""


def fit_numbers(
    features: Any,
    curator: CuratorLike,
    *,
    epsilon: float,
    rng: RandomSource,
    classifiers: Sequence[Any] | None = None,
    regressors: Sequence[Any] | None = None,
    categorical: Any = None,
    evaluation: float = EVALUATED,
    partition_seed: int = 0,
    sample_weight: Any = None,
) -> Release[Model]:
    """Learn a regression from private numbers, each of which is released once, with noise.

    A few of the records are answered by `UnbiasedNumbers`. From these answers follow a prior (`number_prior`) and, by
    it, what answers the others (`number_response`): bins of the range, which classifiers learn from by their
    likelihood, or unbiased numbers, which regressors learn from. A part is kept for the evaluation.

    Args:
        features: public numbers, one row for each record, NaN where a value is missing.
        curator: holds the numbers; its domain is an `Interval`.
        epsilon: cost of every label's one release.
        rng: randomness of the noise.
        classifiers: scikit-learn classifiers of the bin that a number is in, as for `fit_noisy`; by default
            boosted trees. An empty sequence leaves bins to the regressors.
        regressors: regressors with `fit(features, release)`, of which the one is kept that predicts held-out answers
            best, as for `tune`; by default the mean of boosted trees and a ridge regression.
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
    """
    check_curator(curator, "numbers")
    check_evaluation(evaluation)
    learner = Numbers("numbers", classifiers, regressors, partition_seed)
    task = replace(Task.of(curator, epsilon, evaluation=evaluation), categorical=categorical, weights=sample_weight)
    return learner.fit(features, curator, task, rng=rng)


@final
@dataclass(frozen=True)
class Numbers(Learner):
    """A regression of numbers that are randomized one by one, some of them to decide what answers the others.

    Args:
        classifiers, regressors, partition_seed: as in `fit_numbers`.
    """

    classifiers: Sequence[Any] | None = None
    regressors: Sequence[Any] | None = None
    partition_seed: int = 0
    one_thread: ClassVar[str] = "all"

    def plan(self, task: Task) -> Plan:
        """Return the answers of the first part, of the second part, and of the evaluation."""
        start, measured = self.mechanisms(task)
        labels = PrivacyLoss.pure(positive_epsilon(task.epsilon))
        losses = {"range": start.privacy_loss(), "labels": labels, "evaluation": measured.privacy_loss()}
        steps = (Step(path=part(number), loss=loss, name=name) for number, (name, loss) in enumerate(losses.items()))
        return Plan(self.name, tuple(steps))

    def mechanisms(self, task: Task) -> tuple[UnbiasedNumbers, Any]:
        """Return what answers the first part and the evaluation."""
        if task.domain.target != "numbers":
            raise InputError("curator must hold numbers: its domain is not an Interval")
        if task.cap is not None:
            raise InputError("curator must protect records, and not users: its parts would share them")
        if not task.share:
            raise InputError("must be a share of the records above 0", argument="evaluation")
        start = UnbiasedNumbers(domain=task.domain, epsilon=task.epsilon)
        return start, evaluation_mechanism(task.domain, task.epsilon)

    def fit(
        self, features: Any, curator: CuratorLike, task: Task, *, rng: RandomSource, progress: Progress = no_progress
    ) -> Release[Model]:
        """See `fit_numbers`."""
        features = row_table(features)
        check_rows(features, curator.records)
        epsilon, plan = task.epsilon, self.plan(task)
        start, measured = self.mechanisms(task)
        domain = start.domain
        parts = _parts(curator.records, positive_epsilon(epsilon), task.share, self.partition_seed)
        rows = [np.flatnonzero(parts == number) for number in range(3)]
        if min(map(len, rows)) < 2:
            raise InputError("labels must hold more records: each of three parts needs two")
        classifiers = self.classifiers
        if classifiers is None:
            classifiers = [boosted_trees(len(rows[1]), task.categorical, 4)]
        if classifiers:
            made_up = RandomizedResponse(domain=Classes(3), epsilon=epsilon)
            dry_run(classifiers, features, Training(), made_up, records=len(rows[1]))
        why = f"records are assigned at random from the public seed {self.partition_seed}, without their labels"
        first, second, tests = curator.split(Public(parts, why=why))
        ask, answer, measure = plan.steps
        tests.require({measure.name: measure.loss})
        if not first.has_released(start, step=ask.name):
            first.require({ask.name: ask.loss})
            second.require({answer.name: answer.loss})
        begun = first.release(start, rng=rng, step=ask.name)
        labels = second.release(number_response(domain, epsilon, number_prior([begun])), rng=rng, step=answer.name)
        seen, numbers = np.concatenate(rows[:2]), known_numbers([begun, labels])
        if isinstance(labels.mechanism, ResponseOnBins) and classifiers:
            model = _of_bins(take_rows(features, rows[1]), begun, labels, classifiers)
        else:
            regressors = [_regressor(len(seen), task.categorical)] if self.regressors is None else self.regressors
            table = take_rows(features, seen)
            weights = () if task.weights is None else (np.asarray(task.weights)[seen],)
            best = clone(_best(regressors, table, numbers)).fit(table, numbers, *weights)
            model = numbers.map(lambda _: Model(domain, best))
        answers = tests.release(measured, rng=rng, step=measure.name)
        evaluation = evaluate(answers, model.value.predict(take_rows(features, rows[2])), HELD_OUT, rows[2])
        return gather([model, answers], lambda model, _: replace(model, evaluation=evaluation))

    def shares_releases(self, task: Task) -> bool:
        """Return that all learners of numbers make the same releases."""
        return True

    def describe(self, model: Model, task: Task) -> str:
        """Return what answers, and how it was learned."""
        return f"{regressor_words(model.estimator)}, learned from one release of noisy labels"

    def describe_noise(self, task: Task) -> str:
        """Return the noise of a released number."""
        noise = self.mechanisms(task)[0].describe_noise(format_number)
        return f"First part of the records: {noise} These outputs decided the mechanism of the second part."


def regressor_words(estimator: Any) -> str:
    """Return what a fitted regressor on released numbers is, as a phrase."""
    if isinstance(estimator, BinMeans):
        return f"{model_words(chosen(estimator.classifier))} of bins"
    both = " and a ridge regression" if hasattr(getattr(estimator, "estimator_", None), "estimators_") else ""
    return model_words(estimator) + both


def number_prior(releases: Sequence[Release[Any]]) -> Release[Floats]:
    """Return how frequent each grid point is, shape (grid,), by released answers: a mixture of beta distributions.

    Each distribution counts as much as the answers are likely under it.

    Args:
        releases: answers of finite mechanisms on one `Interval`, such as `UnbiasedNumbers` and `ResponseOnBins`.

    Guarantee (post_processing, prior_charged): computed from releases alone; the certificate holds the charges of all.
    """
    family, score = _family(releases[0].mechanism.domain.size)
    score = score.copy()
    for release in releases:
        law = release.mechanism.matrix()
        counts = np.bincount(release.value, minlength=law.shape[1])
        score += np.log(np.maximum(family @ law, np.finfo(np.float64).tiny)) @ counts
    weights = np.exp(score - score.max())
    mixed = weights @ family
    return gather(releases, lambda *_: np.asarray(mixed / mixed.sum()))


@lru_cache(maxsize=2)
def _family(size: int) -> tuple[Floats, Floats]:
    """Return distributions on a grid, shape (distributions, grid), and logarithms of their weights beforehand."""
    edges = np.clip((np.arange(size + 1) - 0.5) / (size - 1), 0, 1)
    means, narrow = (grid.ravel()[:, None] for grid in np.meshgrid(MEANS, CONCENTRATIONS))
    masses = np.diff(betainc(means * narrow, (1 - means) * narrow, edges), axis=1)
    return np.asarray(masses), -((logit(means[:, 0]) / LOGIT_SPREAD) ** 2) / 2


def number_response(
    domain: Interval, epsilon: float, prior: Public[Any] | Release[Any]
) -> ResponseOnBins | UnbiasedNumbers:
    """Return what answers numbers: bins of the range, or unbiased numbers where their noise is small.

    It follows from public quantities alone: the range, epsilon, and a prior that is public or was released.

    Args:
        domain: declared range.
        epsilon: privacy parameter.
        prior: how frequent each grid point is, shape (grid,).
    """
    exact = UnbiasedNumbers(domain=domain, epsilon=epsilon, prior=prior)
    labels = domain.decode(np.arange(domain.size))
    spread = float(np.sqrt(exact.chances @ (labels - exact.chances @ labels) ** 2))
    if exact.noise_stddev <= CLEAR * spread:
        return exact
    bins = min(2 + max(round(2 * min(float(epsilon), MOST_EPSILON)), 1), domain.size)
    return ResponseOnBins(domain=domain, epsilon=epsilon, prior=prior, bins=bins, cuts="even")


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


def known_numbers(releases: Sequence[Release[Any]]) -> Release[Floats]:
    """Return numbers that average to the labels, one record after the other, of releases with one domain.

    Of bins they average to the mean of the label's bin under the prior of all releases.

    Args:
        releases: what `UnbiasedNumbers`, `DiscreteLaplace` or `ResponseOnBins` answered.
    """
    bins = any(isinstance(release.mechanism, ResponseOnBins) for release in releases)
    chances = number_prior(releases).value if bins else None
    values = [_values(release, chances) for release in releases]
    mechanism = KnownNumbers(releases[0].mechanism.domain, releases[0].mechanism.epsilon)
    return replace(gather(releases, lambda *_: np.concatenate(values)), mechanism=mechanism)


def _values(release: Release[Any], chances: Any) -> Floats:
    mechanism = release.mechanism
    if not isinstance(mechanism, ResponseOnBins):
        return np.asarray(debias(mechanism, release.value).values)
    indicators = debias(_classes(mechanism), release.value).values
    return np.asarray(indicators @ mechanism.means(chances))


def _classes(mechanism: ResponseOnBins) -> RandomizedResponse:
    """Return the mechanism that answers the number of the bin: bins have the law of randomized response."""
    return RandomizedResponse(domain=Classes(len(mechanism.first)), epsilon=mechanism.epsilon)


class BinMeans(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The mean of the bins under a fitted classifier's probabilities; it is not fitted to labels of its own.

    Args:
        classifier: a fitted classifier of the numbers of bins, which may have met some of them only.
        means: the mean label of each bin, shape (bins,).
    """

    def __init__(self, classifier: Any, means: Any) -> None:
        self.classifier = classifier
        self.means = means

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return predicted numbers, shape (n,)."""
        means = np.asarray(self.means, dtype=np.float64)
        return np.asarray(expanded(self.classifier, X, len(means)) @ means)


def _of_bins(features: Any, begun: Release[Any], labels: Release[Any], classifiers: Sequence[Any]) -> Release[Model]:
    """Learn which bin numbers are in by the likelihood of the answers, and what a bin stands for by the prior."""
    mechanism = labels.mechanism
    bins = fit_noisy(features, replace(labels, mechanism=_classes(mechanism)), classifier=classifiers)
    prior = number_prior([begun, labels])

    def joined(model: Model, chances: Floats) -> Model:
        return Model(mechanism.domain, BinMeans(model.estimator, mechanism.means(chances)))

    return with_initial_certificate(gather([bins, prior], joined), classifiers[0])


def _best(regressors: Sequence[Any], features: Any, known: Release[Any]) -> Any:
    """Return the regressor that best predicts held-out answers, of some of many records."""
    if len(regressors) == 1:
        return regressors[0]
    some = np.random.default_rng(0).permutation(len(known.value))[:TUNING_RECORDS]
    release = replace(known, value=known.value[some])
    scores = tune(regressors, take_rows(features, some), release, folds=fold_count(len(some))).scores
    return regressors[int(np.argmax(scores))]


def _parts(records: int, epsilon: Fraction, held: float, seed: int) -> NDArray[np.int64]:
    """Return the part of each record: 0 for the prior, 1 for what is learned from, 2 for the evaluation."""
    half = float(epsilon) / 2
    needed = (1 / (2 * np.tanh(min(half, 30.0)) * MEAN_ERROR)) ** 2  # of two outputs beyond the ends of the range
    first = np.clip(needed, LEAST_FIRST * records, min(MOST_FIRST, (1 - held) / 2) * records)
    order = np.random.default_rng(seed).permutation(records)
    return np.asarray(np.where(order < first, 0, np.where(order < (1 - held) * records, 1, 2)))


def _regressor(records: int, categorical: Any) -> NoisyNumberRegressor:
    """Return the mean of boosted trees and of a ridge regression on a map of the table."""
    mask = None if categorical is None else np.asarray(categorical, dtype=np.bool_)
    ridge = make_pipeline(TableMap(categorical=mask, trees=RIDGE_TREES), RidgeCV(PENALTIES))
    return NoisyNumberRegressor(VotingRegressor([("trees", boosted_regression(records, mask)), ("ridge", ridge)]))

"""A linear model from one release of a trusted curator: noise on sums, not on labels."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone

from labeldp.learners.evaluation import Evaluation
from labeldp.learners.features import check_rows
from labeldp.learners.maps import TableMap
from labeldp.learners.model import Model
from labeldp.learners.multistage import HELD_OUT
from labeldp.learners.whitening import (
    MAX_DIMENSION,
    Estimator,
    Space,
    best_clip,
    best_linear,
    equal_noise,
    shared_noise,
)
from labeldp.mechanisms import Classes, CrossMoment, GaussianMoment, Interval, LaplaceMoment, RandomizedResponse
from labeldp.privacy import CuratorLike, InputError, Public, Release, gather

Floats = NDArray[np.floating[Any]]

EXPLAINED = 0.6
"""The share of the labels' variance that a model is expected to explain, before anything is known."""

OFFSET = 0.2
"""The expected square of the mean label, in variances of a uniform class, or of a quarter of the interval."""

MOST_CONFIDENT = 1000.0
CALIBRATION_ROWS = 20_000
WHY = "rows computed from public features alone, by a rule that was fixed without the labels"


def fit_linear(
    features: Any,
    curator: CuratorLike,
    *,
    epsilon: float,
    delta: float = 0.0,
    rng: Any,
    representation: Any = None,
    dimension: int | None = None,
    ridge: float | None = None,
    evaluation: float = 0.0,
    partition_seed: int = 0,
) -> Release[Model]:
    """Learn a linear model of public features from one noisy sum of rows times labels, released by a trusted curator.

    Use it where somebody may see the labels: it needs far less epsilon than labels that are randomized one by one.
    Directions, their number, the noise of each, weights of rows and shrinkage follow from features, epsilon and the
    number of records, under a fixed prior of what features explain; no label has a say. Regression where the
    curator's domain is an `Interval`.

    Args:
        features: public, one row for each record; numbers, NaN where a value is missing. Or a `Release` of such rows,
            such as the embedding of a network that was trained on released labels: the model's certificate holds both.
        curator: holds the labels.
        epsilon: of the release.
        delta: of the release; 0 asks for a pure guarantee, which costs many dimensions.
        rng: randomness of the noise.
        representation: unfitted scikit-learn transformer that is fitted on the features alone, such as
            `PatchFilters()`; by default `TableMap()`.
        dimension: at most so many principal directions are used; by default `MAX_DIMENSION`, of which the noise
            leaves as many as are worth it.
        ridge: factor on the penalty that the noise asks for; 1 by default.
        evaluation: share of the records that is not learnt from, but answered by plain randomized response at the
            same epsilon, so that the model has an `evaluation`; in [0, 1), classes only.
        partition_seed: of the random split, public.

    Returns:
        The model; probabilities are calibrated on the released sums.

    Guarantee: (epsilon, delta)-DP for each label: every label is used in one release.

    Raises:
        InputError: an argument is wrong; nothing was charged.

    Source: `docs/proofs/cross_moment.md`; Balle and Wang (2018) for the noise.
    """
    source = features if isinstance(features, Release) else None
    features = features if source is None else source.value
    check_rows(features, curator.records)
    task = _Task.of(curator.domain, epsilon, delta, _dimension(dimension), _ridge(ridge))
    if not 0 <= evaluation < 1 or (evaluation and not isinstance(curator.domain, Classes)):
        raise InputError("evaluation must be a share of the records, in [0, 1), and 0 for numbers")
    unfitted = TableMap() if representation is None else representation
    fitted = _mapped(unfitted, features, source)
    if not evaluation:
        return task.learn(fitted, curator, rng)
    held = np.random.default_rng(partition_seed).permutation(curator.records) < evaluation * curator.records
    if held.all() or not held.any():
        raise InputError("labels must hold more records: the training or the evaluation part would be empty")
    why = f"records are assigned at random from the public seed {partition_seed}, without their labels"
    training, kept = curator.split(Public(held.astype(np.int64), why=why))
    model = task.learn(fitted.take(~held), training, rng)
    release = kept.release(RandomizedResponse(domain=kept.domain, epsilon=epsilon), rng=rng, step="evaluation")

    def judge(learnt: Model, _: Any) -> Model:
        probabilities = learnt.estimator.of_table(fitted.table[held])
        return replace(learnt, evaluation=Evaluation(release, probabilities, HELD_OUT, np.flatnonzero(held)))

    return gather([model, release], judge)


class _Linear(BaseEstimator):  # type: ignore[misc]
    """Linear scores of mapped features; made by `fit_linear`.

    Args:
        representation: fitted transformer.
        coefficients: shape (p, columns).
        offset: shape (columns,).
        confidence: factor on scores before the softmax.
    """

    def __init__(self, representation: Any, coefficients: Any, offset: Any, confidence: float = 1.0) -> None:
        self.representation = representation
        self.coefficients = coefficients
        self.offset = offset
        self.confidence = confidence

    def scores(self, table: Any) -> NDArray[np.float64]:
        """Scores of mapped features, shape (n, columns)."""
        return np.asarray(table @ self.coefficients.astype(table.dtype) + self.offset, dtype=np.float64)


class LinearClassifier(ClassifierMixin, _Linear):  # type: ignore[misc]
    """Class probabilities from linear scores; made by `fit_linear`, not fitted to labels of its own."""

    @property
    def classes_(self) -> NDArray[np.intp]:
        """Codes 0 to K - 1."""
        return np.arange(self.coefficients.shape[1])

    def of_table(self, table: Any) -> NDArray[np.float64]:
        """Probabilities for features that were mapped already, shape (n, K)."""
        return np.asarray(softmax(self.confidence * self.scores(table), axis=1), dtype=np.float64)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities, shape (n, K)."""
        return self.of_table(self.representation.transform(X))

    def predict(self, X: Any) -> NDArray[np.intp]:
        """The code of the largest score, shape (n,)."""
        return self.predict_proba(X).argmax(axis=1)


class LinearRegressor(RegressorMixin, _Linear):  # type: ignore[misc]
    """A linear prediction of numbers; made by `fit_linear`, not fitted to labels of its own."""

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predictions in the unit of the labels, shape (n,)."""
        return self.scores(self.representation.transform(X))[:, 0]


@dataclass(frozen=True)
class _Mapped:
    """Features as their fitted transformer sees them, shape (n, p), and the release that they came from, if any."""

    transformer: Any
    table: Floats = field(repr=False)
    source: Release[Any] | None = None

    def take(self, rows: Any) -> "_Mapped":
        return _Mapped(self.transformer, self.table[rows], self.source)

    def wrapped(self, rows: Floats) -> Public[Floats] | Release[Floats]:
        """Rows that were computed from the table, as public or as released as it is."""
        return Public(rows, why=WHY) if self.source is None else self.source.map(lambda _: rows)


def _mapped(representation: Any, features: Any, source: Release[Any] | None) -> _Mapped:
    """Fit a transformer on features alone.

    Raises:
        InputError: it cannot take them, or what it makes of them is not a finite matrix.
    """
    if not hasattr(representation, "fit") or not hasattr(representation, "transform"):
        raise InputError("representation must be a scikit-learn transformer, such as TableMap()")
    try:
        transformer = clone(representation).fit(features)
        found = transformer.transform(features)
    except (TypeError, ValueError) as error:
        raise InputError(f"{type(representation).__name__} cannot take these features: {error}") from error
    table = np.asarray(found.toarray() if hasattr(found, "toarray") else found)
    if table.ndim != 2 or table.dtype.kind not in "buif" or not np.all(np.isfinite(table)):
        raise InputError("representation must return a finite matrix of numbers, one row for each record")
    return _Mapped(transformer, table.astype(np.float32, copy=False), source)


@dataclass(frozen=True)
class _Task:
    """What is known before the features: the noise for rows of norm one, and what labels may look like."""

    domain: Classes | Interval
    epsilon: float
    delta: float
    dimension: int
    ridge: float

    @classmethod
    def of(cls, domain: Any, epsilon: Any, delta: Any, dimension: int, ridge: float) -> "_Task":
        if not isinstance(domain, Classes | Interval):
            raise InputError("curator must hold classes or numbers: its domain is neither Classes nor Interval")
        task = cls(domain, epsilon, delta, dimension, ridge)
        task.unit  # refuses epsilon and delta  # noqa: B018
        return task

    @property
    def unit(self) -> float:
        """The standard deviation of the noise for rows of norm one."""
        return self.mechanism(Public(np.ones((1, 1)), why="one row of norm one"), 1.0).noise_stddev

    @property
    def pure(self) -> bool:
        """True where no delta may be spent."""
        return not self.delta

    @property
    def center(self) -> float:
        """What is subtracted from every label."""
        return 1 / self.domain.size if isinstance(self.domain, Classes) else (self.domain.low + self.domain.high) / 2

    @property
    def variance(self) -> float:
        """A guess of the variance of one column of labels."""
        if isinstance(self.domain, Classes):
            return (1 - 1 / self.domain.size) / self.domain.size
        return ((self.domain.high - self.domain.low) / 4) ** 2

    def mechanism(self, features: Any, clip: float) -> CrossMoment:
        """The release of these rows."""
        if self.pure:
            return LaplaceMoment(domain=self.domain, epsilon=self.epsilon, features=features, clip=clip)
        return GaussianMoment(domain=self.domain, epsilon=self.epsilon, delta=self.delta, features=features, clip=clip)

    def learn(self, mapped: _Mapped, curator: CuratorLike, rng: Any) -> Release[Model]:
        """Everything public, then the release, then the model."""
        space = Space.of(mapped.table, min(self.dimension, max(len(mapped.table) - 1, 1)))
        signal = space.signal(EXPLAINED * self.variance, OFFSET * self.variance)
        unit = self.unit
        share = (equal_noise if self.pure else shared_noise)(signal, (unit / len(mapped.table)) ** 2)
        kept = np.flatnonzero(share)
        rows, scale, signal = space.rows(mapped.table)[:, kept], np.sqrt(share[kept]), signal[kept]
        residual = (1 - EXPLAINED) * self.variance
        clip = best_clip(rows, share[kept], signal, unit, residual, pure=self.pure, ridge=self.ridge)
        mechanism = self.mechanism(mapped.wrapped(rows * scale.astype(rows.dtype)), clip)
        released = mechanism.values()
        rule = best_linear(released, rows, signal, mechanism.noise_stddev, residual, self.ridge)
        release = curator.release(mechanism, rng=rng, step="linear")
        fit = _Fit(space, kept, scale, rows, released, rule)

        def model(sums: Any) -> Model:
            moment = release.mechanism.moment(sums) - self.center * released.sum(axis=0)[:, None]
            return Model(self.domain, fit.estimator(mapped.transformer, moment, self))

        return release.map(model)


@dataclass(frozen=True)
class _Fit:
    """The public side of a fit: what turns released sums into a model."""

    space: Space
    kept: NDArray[np.intp]
    scale: Floats = field(repr=False)
    rows: Floats = field(repr=False)
    released: Floats = field(repr=False)
    rule: Estimator

    def estimator(self, representation: Any, moment: Floats, task: _Task) -> Any:
        """The model of centered, released sums, shape (d, columns)."""
        weights = self.rule.gain @ moment
        full = np.zeros((1 + len(self.space.variances), moment.shape[1]))
        full[self.kept] = weights
        coefficients = self.space.basis @ full[1:]
        offset = full[0] + task.center - self.space.mean @ coefficients
        if isinstance(task.domain, Interval):
            return LinearRegressor(representation, coefficients, offset)
        return LinearClassifier(representation, coefficients, offset, self.confidence(weights, moment))

    def confidence(self, weights: Floats, moment: Floats) -> float:
        """The factor on scores at which the softmax is as sure as the released sums say: its likelihood is largest.

        The derivative of the log likelihood by that factor needs the labels only through the sum of the scores of
        the true classes, and that sum is linear in what was released. What noise alone adds to it, on average and one
        standard deviation more, is known, and subtracted. Without a positive rest the answer is 0: no class is
        likelier than another.
        """
        every = max(len(self.rows) // CALIBRATION_ROWS, 1)
        norms = [np.linalg.norm(part[::every], axis=1) for part in (self.released, self.rows * self.scale)]
        importance = norms[0] / np.maximum(norms[1], 1e-12)
        scores = self.rows[::every] @ weights
        form = self.rule.gain / self.scale[:, None] @ self.rule.noise
        noise = moment.shape[1] * float(np.trace(form)) + np.sqrt(2 * moment.shape[1] * float(np.sum(form * form.T)))
        agreement = float(np.sum(weights * moment / self.scale[:, None])) - noise
        centered = scores - scores.mean(axis=1, keepdims=True)

        def expected(factor: float) -> float:
            return float(importance @ (softmax(factor * centered, axis=1) * centered).sum(axis=1))

        return _rising_root(expected, agreement * len(scores) / len(self.rows))


def _rising_root(function: Any, target: float) -> float:
    """Where a rising function of a number in [0, `MOST_CONFIDENT`] reaches a target, or the nearer end."""
    low, high = 0.0, MOST_CONFIDENT
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < target else (low, middle)
    return high if high < MOST_CONFIDENT and low > 0 else (0.0 if low == 0 else MOST_CONFIDENT)


def _dimension(value: Any) -> int:
    if value is None:
        return MAX_DIMENSION
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError("dimension must be a positive integer")
    return int(value)


def _ridge(value: Any) -> float:
    if value is None:
        return 1.0
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < np.inf:
        raise InputError("ridge must be a positive factor, such as 1.0")
    return float(value)

"""Rounds of one noisy sum each: what is public before, the release, and the linear model of all sums so far."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from labeldp.learners.linear import LinearClassifier, LinearRegressor
from labeldp.learners.mapped import Mapped
from labeldp.learners.model import Model
from labeldp.learners.whitening import (
    EXPLAINED,
    OFFSET,
    Estimator,
    Space,
    best_clip,
    best_linear,
    equal_noise,
    shared_noise,
)
from labeldp.mechanisms import MAX_CELLS, Classes, CrossMoment, GaussianMoment, Interval, LaplaceMoment
from labeldp.privacy import (
    CuratorLike,
    InputError,
    PrivacyLoss,
    Public,
    Release,
    decimal,
    float_within,
    gather,
    positive_epsilon,
)

Floats = NDArray[np.floating[Any]]
Refinement = Callable[[Release[Model]], Release[Any]]

MOST_CONFIDENT = 1000.0
SUREST = 0.98
"""The largest share of what the likeliest classes would score that the true ones are taken to score."""

CALIBRATION_ROWS = 20_000
ROUND_STEPS = 14
"""Halvings in the search for the epsilon of a round."""

UNIT = Public(np.ones((1, 1)), why="one row of norm one")


@dataclass(frozen=True)
class Task:
    """What is known before the features: the noise for rows of norm one, and what labels may look like."""

    domain: Classes | Interval
    epsilon: float
    delta: float
    dimension: int
    ridge: float

    @classmethod
    def of(cls, domain: Any, epsilon: Any, delta: Any, dimension: int, ridge: float) -> "Task":
        if not isinstance(domain, Classes | Interval):
            raise InputError("curator must hold classes or numbers: its domain is neither Classes nor Interval")
        spent, failure = float_within(positive_epsilon(epsilon)), float_within(decimal(delta, "delta"))
        columns = domain.size if isinstance(domain, Classes) else 1
        fitting = max(MAX_CELLS // columns - 1, 1) if failure else dimension  # beside the constant
        task = cls(domain, spent, failure, min(dimension, fitting), ridge)
        task.unit  # refuses epsilon and delta  # noqa: B018
        return task

    @property
    def unit(self) -> float:
        """The standard deviation of the noise for rows of norm one."""
        return self.mechanism(UNIT, 1.0).noise_stddev

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

    @property
    def residual(self) -> float:
        """A guess of the variance of a column of labels around its prediction."""
        return (1 - EXPLAINED) * self.variance

    def mechanism(self, features: Any, clip: float) -> CrossMoment:
        """The release of these rows."""
        if self.pure:
            return LaplaceMoment(domain=self.domain, epsilon=self.epsilon, features=features, clip=clip)
        return GaussianMoment(domain=self.domain, epsilon=self.epsilon, delta=self.delta, features=features, clip=clip)

    def shared(self, rounds: int) -> "Task":
        """The task of one of some rounds with equal noise, which together cost what this one may."""
        if rounds == 1:
            return self
        if self.pure:
            return replace(self, epsilon=_rounded_down(self.epsilon / rounds))
        low, high = 0.0, self.epsilon
        for _ in range(ROUND_STEPS):
            middle = _rounded_down((low + high) / 2)
            loss = replace(self, epsilon=middle).mechanism(UNIT, 1.0).privacy_loss() * rounds
            low, high = (middle, high) if loss.within(self.epsilon, self.delta) else (low, middle)
        return replace(self, epsilon=low)

    def rounds(
        self,
        mapped: Mapped,
        features: Any,
        rows: Any,
        curator: CuratorLike,
        rng: Any,
        refine: Sequence[Refinement],
    ) -> tuple[Release[Model], Mapped]:
        """The model of the last round, and the features as it sees them."""
        curator.require(self.steps(1 + len(refine)))
        model, sums = self.learn(mapped.take(rows), curator, rng, (), _step(1))
        for number, refinement in enumerate(refine, start=2):
            mapped = mapped.refined(refinement(model), features)
            model, sums = self.learn(mapped.take(rows), curator, rng, sums, _step(number))
        return model, mapped

    def steps(self, rounds: int) -> dict[str, PrivacyLoss]:
        """What each round costs, by its step."""
        return dict.fromkeys(map(_step, range(1, rounds + 1)), self.mechanism(UNIT, 1.0).privacy_loss())

    def learn(
        self, mapped: Mapped, curator: CuratorLike, rng: Any, earlier: "tuple[Sums, ...]", step: str
    ) -> "tuple[Release[Model], tuple[Sums, ...]]":
        """Everything public, then the release, then the model; and what was released so far."""
        directions = Directions.of(mapped.table, self)
        mechanism = self.mechanism(mapped.wrapped(directions.measured()), directions.clip)
        rows = mechanism.values()
        released = np.hstack([*(each.rows for each in earlier), rows]) if earlier else rows
        spreads = [np.full(each.rows.shape[1], each.spread) for each in earlier]
        spread = np.concatenate([*spreads, np.full(rows.shape[1], mechanism.noise_stddev)])
        rule = best_linear(released, directions.rows, directions.signal, spread, self.residual, self.ridge)
        release = curator.release(mechanism, rng=rng, step=step)
        mean = self.center * rows.sum(axis=0)[:, None]
        moment = release.map(lambda value: release.mechanism.moment(value) - mean)
        sums = (*earlier, Sums(rows, mechanism.noise_stddev, moment))
        fit = Fit(directions, rows, rule)

        def model(*moments: Floats) -> Model:
            return Model(self.domain, fit.estimator(mapped.transformer, moments, self))

        return gather([each.moment for each in sums], model), sums


@dataclass(frozen=True)
class Sums:
    """Rows whose noisy sums with labels were released.

    Args:
        rows: shape (n, d).
        spread: standard deviation of the noise.
        moment: the sums with centered labels, shape (d, columns), and what they cost.
    """

    rows: Floats = field(repr=False)
    spread: float
    moment: Release[Floats]


@dataclass(frozen=True)
class Directions:
    """Which directions of a table are measured, how exactly, and what is expected of them.

    Args:
        space: of the table.
        kept: those that get a share of the noise's limit, as places in `space.rows`.
        scale: what rows are multiplied by before they are measured, shape (d,).
        rows: the table along them, shape (n, d).
        signal: expected square of each coefficient, shape (d,).
        clip: the length at which measured rows are cut.
    """

    space: Space
    kept: NDArray[np.intp]
    scale: Floats = field(repr=False)
    rows: Floats = field(repr=False)
    signal: Floats = field(repr=False)
    clip: float

    @classmethod
    def of(cls, table: Floats, task: Task) -> "Directions":
        """All of it from the table and what the task knows; no label has a say."""
        space = Space.of(table, min(task.dimension, max(len(table) - 1, 1)))
        signal = space.signal(EXPLAINED * task.variance, OFFSET * task.variance)
        unit = task.unit
        share = (equal_noise if task.pure else shared_noise)(signal, (unit / len(table)) ** 2)
        kept = np.flatnonzero(share)
        rows, scale, signal = space.rows(table)[:, kept], np.sqrt(share[kept]), signal[kept]
        clip = best_clip(rows, share[kept], signal, unit, task.residual, pure=task.pure, ridge=task.ridge)
        return cls(space, kept, scale, rows, signal, clip)

    def measured(self) -> Floats:
        """The rows that are multiplied by labels, before they are cut."""
        return self.rows * self.scale.astype(self.rows.dtype)


@dataclass(frozen=True)
class Fit:
    """The public side of a fit: what turns released sums into a model.

    Args:
        directions: of the newest round.
        released: its measured rows, shape (n, d).
        rule: from the sums of all rounds to coefficients.
    """

    directions: Directions
    released: Floats = field(repr=False)
    rule: Estimator

    def estimator(self, representation: Any, moments: Sequence[Floats], task: Task) -> Any:
        """The model of the released sums of all rounds."""
        weights = self.rule.gain @ np.vstack(moments)
        space = self.directions.space
        full = np.zeros((1 + len(space.variances), weights.shape[1]))
        full[self.directions.kept] = weights
        coefficients = space.basis @ full[1:]
        offset = full[0] + task.center - space.mean @ coefficients
        if isinstance(task.domain, Interval):
            return LinearRegressor(representation, coefficients, offset)
        return LinearClassifier(representation, coefficients, offset, self.confidence(weights, moments[-1]))

    def confidence(self, weights: Floats, moment: Floats) -> float:
        """The factor on scores at which the softmax is as sure as the released sums say: its likelihood is largest.

        The derivative of the log likelihood by that factor needs the labels only through the sum of the scores of
        the true classes, and that sum is linear in what the newest round released. What noise alone adds to it,
        on average and one standard deviation more, is known, and subtracted. Without a positive rest the answer is 0:
        no class is likelier than another. However lucky the noise, a model is not taken for right everywhere.
        """
        rows, scale = self.directions.rows, self.directions.scale
        every = max(len(rows) // CALIBRATION_ROWS, 1)
        norms = [np.linalg.norm(part[::every], axis=1) for part in (self.released, rows * scale)]
        importance = norms[0] / np.maximum(norms[1], 1e-12)
        scores = rows[::every] @ weights
        form = self.rule.gain / scale[:, None] @ self.rule.noise[:, -len(scale) :]
        noise = moment.shape[1] * float(np.trace(form)) + np.sqrt(2 * moment.shape[1] * float(np.sum(form * form.T)))
        agreement = float(np.sum(weights * moment / scale[:, None])) - noise
        centered = scores - scores.mean(axis=1, keepdims=True)

        def expected(factor: float) -> float:
            return float(importance @ (softmax(factor * centered, axis=1) * centered).sum(axis=1))

        most = SUREST * float(importance @ centered.max(axis=1))
        return _rising_root(expected, min(agreement * len(scores) / len(rows), most))


def _step(number: int) -> str:
    """What a round is called in a ledger."""
    return "linear" if number == 1 else f"linear, round {number}"


def _rounded_down(epsilon: float) -> float:
    """The decimal of four digits below a number."""
    return float(Context(prec=4, rounding=ROUND_FLOOR).create_decimal(Decimal(epsilon)))


def _rising_root(function: Any, target: float) -> float:
    """Where a rising function of a number in [0, `MOST_CONFIDENT`] reaches a target, or the nearer end."""
    low, high = 0.0, MOST_CONFIDENT
    if function(low) >= target:
        return low
    if function(high) < target:
        return high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < target else (low, middle)
    return high

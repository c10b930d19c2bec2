"""Linear models from noisy sums of feature rows times labels."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from decimal import ROUND_FLOOR, Context, Decimal
from itertools import product
from typing import Any, ClassVar, Literal, Protocol, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import RegressorMixin
from sklearn.preprocessing import FunctionTransformer

from labeldp.features import (
    DECAY,
    DECAYS,
    EMBEDDING_DECAY,
    EXPLAINED,
    EXPLANATIONS,
    MAX_DIMENSION,
    OFFSET,
    RESIDUALS,
    EncodedFeatures,
    Estimator,
    Moments,
    Space,
    best_clip,
    best_user_clip,
    blockwise,
    check_rows,
    clipped,
    default_representation,
    described_features,
    encode,
    equal_noise,
    is_embedded,
    principal,
    row_table,
    shared_noise,
)
from labeldp.learners.distances import Distances
from labeldp.learners.evidence import Posterior, SumsTerm
from labeldp.learners.model import Model, check_evaluation, evaluation_steps, fit_and_evaluate
from labeldp.learners.plan import (
    EVALUATION_LABELS,
    SIMULATED_DIRECTIONS,
    Learner,
    Progress,
    Task,
    no_progress,
    part,
    require_records,
    steps_of,
)
from labeldp.learners.softmax import LinearClassifier, LinearHead, LinearScores, of_features
from labeldp.mechanisms import (
    MAX_RESOLUTION,
    Classes,
    CrossMoment,
    GaussianMoment,
    GridRows,
    GridTotals,
    Interval,
    LaplaceMoment,
    Mechanism,
)
from labeldp.privacy import (
    AnyFloats,
    CuratorLike,
    InputError,
    Plan,
    PrivacyLoss,
    Public,
    RandomSource,
    Release,
    check_curator,
    check_integer,
    decimal,
    float_below,
    gather,
    positive_epsilon,
)
from labeldp.sampling import MAX_CELLS


class LinearRegressor(RegressorMixin, LinearScores):  # type: ignore[misc]
    """A linear regressor, made by `fit_linear`; it has no fit of labels."""

    def of_table(self, table: Any) -> NDArray[np.float64]:
        """Return predictions for encoded features, shape (n,)."""
        return self.scores(table)[:, 0]

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return predictions in the unit of the labels, shape (n,)."""
        return self.of_table(self.mapped(X))


class GridValues:
    """Rows on a grid: integers in memory, doubles where they are asked for.

    Args:
        steps: rows in grid steps, shape (n, d).
        unit: one step in the unit of the features.
    """

    def __init__(self, steps: NDArray[np.int16], unit: float) -> None:
        self.steps = steps
        self.unit = unit
        self.shape = steps.shape

    @classmethod
    def of(cls, rounded: Callable[[Any], NDArray[np.int16]], blocks: Iterable[Any], unit: float) -> "GridValues":
        """Return rows in blocks as a function rounds them."""
        return cls(np.concatenate([rounded(block) for block in blocks]), unit)

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, rows: slice) -> AnyFloats:
        return self.steps[rows] * self.unit

    def __array__(self, dtype: Any = None, copy: Any = None) -> AnyFloats:
        return self[:] if dtype is None else self.astype(dtype)

    def astype(self, kind: Any) -> AnyFloats:
        """Return all rows in numbers of a kind, shape (n, d)."""
        result = np.empty(self.shape, dtype=kind)
        for start, stop in _ends(len(self)):
            result[start:stop] = self[start:stop]
        return result

    def total(self) -> AnyFloats:
        """Return the sum of all rows, shape (d,), added one after the other like the rows of a NumPy table."""
        total = np.zeros(self.shape[1])
        for start, stop in _ends(len(self)):
            total = np.vstack([total, self[start:stop]]).sum(axis=0)
        return total


def fit_linear(
    features: Any,
    curator: CuratorLike,
    *,
    epsilon: float,
    delta: float = 0.0,
    rng: RandomSource,
    representation: Any = None,
    dimension: int | None = None,
    evaluation: float = 0.0,
    errors: Literal["summed", "labels"] = "summed",
    partition_seed: int = 0,
) -> Release[Model]:
    """Learn a linear model of public features from noisy sums of rows times labels, released by a trusted curator.

    Use it where a curator may see the labels: it needs far less epsilon than labels that are randomized one by one.
    Directions, their number, the noise on each, weights of rows and shrinkage follow from the features, epsilon and the
    number of records, under a fixed prior of what features explain, and not from labels. It is a regression if the
    curator's domain is an `Interval`. With a delta, it has three releases then: sums for a first model, counts of the
    distances of labels from its predictions, and sums of these distances within a reach that the counts allow. So the
    noise of most of epsilon is as small as these distances are, and not as the range. If the curator has users, epsilon
    is what a user pays: rows of a user who has many are scaled down together to a public bound.

    Args:
        features: public numbers, one row for each record, NaN where a value is missing. Or a `Release` of such rows,
            such as the embedding of a network that was trained on released labels: the model's certificate holds both.
        curator: holds the labels.
        epsilon, delta: cost of the release; delta 0 asks for a pure guarantee, which allows fewer dimensions.
        rng: randomness of the noise.
        representation: unfitted scikit-learn transformer that is fitted on the features alone; by default
            `default_representation`. Or a fitted one, such as a published encoder of texts or images, as
            `Public(encoder, why="…")`: it is taken as it is, and the certificate quotes your reason.
        dimension: largest number of principal directions; by default `MAX_DIMENSION`. The noise decides how many of
            them are worth using; for many classes, as many as fit into one release.
        evaluation: share of the records, in [0, 1), that is kept from the model and answered by plain randomized
            response at the same epsilon, for its `evaluation`; of numbers, squared errors are summed. 0 if features are
            a `Release`, which may hold these labels. Of users, so many are kept, and one label of each is answered.
        errors: "summed", or "labels" to have numbers of the evaluation answered one by one, by `DiscreteLaplace`, as
            those of users always are.
        partition_seed: public seed of the random split.

    Returns:
        The model; probabilities are calibrated on the released sums.

    Guarantee (approximate, users): (epsilon, delta)-DP for each label: all releases together, composed exactly. If the
        curator has users, for all labels of each user.

    Raises:
        InputError: an argument is wrong; nothing was charged.
        BudgetExceeded: the budget does not admit everything together; nothing was charged.

    Source: `docs/proofs/sums-and-counts.md`; Balle and Wang (2018) for the noise.
    """
    check_curator(curator)
    check_evaluation(evaluation)
    learner = Linear("linear", representation, dimension, errors, partition_seed)
    task = Task.of(curator, epsilon, delta, evaluation=evaluation)
    return learner.fit(features, curator, task, rng=rng)


@final
@dataclass(frozen=True)
class Linear(Learner):
    """A linear model of noisy sums of rows times labels, by someone who may see the labels.

    Args:
        representation, dimension, errors, partition_seed: as in `fit_linear`.
    """

    representation: Any = None
    dimension: int | None = None
    errors: Literal["summed", "labels"] = "summed"
    partition_seed: int = 0
    takes_delta: ClassVar[bool] = True
    one_thread: ClassVar[str] = "all"
    simulation: ClassVar[str] = "summed with new noise, with a linear model of the features’ widest directions"

    def plan(self, task: Task) -> Plan:
        """Return the sums of most records, and the labels or the summed errors of the others."""
        path = part(0) if task.share else ()
        steps = steps_of(self._task(task).steps(), path)
        if task.share:
            summed = self.errors == "summed" and task.cap is None
            steps += steps_of(evaluation_steps(task.domain, task.epsilon, summed=summed), part(1))
        return Plan(self.name, steps)

    def _task(self, task: Task) -> "LinearTask":
        """Return the noise; raise InputError where an option is wrong."""
        return LinearTask.of(task.domain, task.epsilon, task.delta, self.dimension)

    def check(self, features: Any, task: Task) -> None:
        """Refuse images too small for features, and too few records for the interval of an error of numbers."""
        default_representation(features, task.categorical)
        if task.domain.target == "numbers":
            require_records("--model linear", task.records)

    def fit(
        self, features: Any, curator: CuratorLike, task: Task, *, rng: RandomSource, progress: Progress = no_progress
    ) -> Release[Model]:
        """See `fit_linear`."""
        noise = self._task(task)
        if task.share and isinstance(features, Release):
            raise InputError(
                "evaluation must be 0 where features are a Release: they may hold the labels that it held out"
            )
        sampled = curator.users is None
        mapped = _mapped(features, curator, self.representation, task.categorical, sampled=sampled)
        if not task.share:
            return noise.model(mapped, curator, rng)

        def learn(training: CuratorLike, held: NDArray[np.bool_]) -> tuple[Release[Model], Any]:
            model = noise.model(mapped.take(~held), training, rng)
            return model, _predicted(model.value, mapped.take(held))

        options: dict[str, Any] = {"share": task.share, "seed": self.partition_seed, "rng": rng, "errors": self.errors}
        return fit_and_evaluate(curator, task.epsilon, learn, **options)

    def hidden(self, task: Task) -> tuple[str, ...]:
        """Return that sums and the labels of the evaluation are hidden."""
        return "The sums as they were before noise was added.", EVALUATION_LABELS

    def prepare_simulation(self, model: Model, features: NDArray[Any], task: Task) -> NDArray[Any]:
        """Return the widest directions of the encoded features: found once, not at each epsilon."""
        return principal(model.estimator.representation.transform(features), SIMULATED_DIRECTIONS)

    def fit_simulated(self, features: NDArray[Any], curator: CuratorLike, task: Task, *, rng: RandomSource) -> Model:
        """Return the same model at another epsilon, without an evaluation."""
        plain = Linear(self.name, FunctionTransformer())
        return plain.fit(features, curator, replace(task, evaluation=0.0), rng=rng).value

    def describe(self, model: Model, task: Task) -> str:
        """Return the model and the one release."""
        features = described_features(model.estimator.representation)
        several = len(self._task(task).steps()) > 1
        sums = "noisy sums around the predictions of a first one" if several else "one release of noisy sums"
        return f"a linear model of {features}, learned from {sums}"

    def describe_noise(self, task: Task) -> str:
        """Return the standard deviation of the noise, in units of what one label can do."""
        tasks = list(self._task(task).tasks().values())
        moment = tasks[-1].mechanism(UNIT_ROW, 1.0)
        kind, norm, move = "Gaussian", "the length", moment.sensitivity_square**0.5
        if not task.delta:
            kind, norm, move = "Two-sided geometric", "the sum of the amounts", moment.sensitivity_sum
        who = "one label" if task.cap is None else "all labels of one user"
        ratio = moment.noise_stddev / (move * moment.rows.unit * task.domain.step)
        more = "; sums for a first model, and counts of distances from it, have more" if len(tasks) > 1 else ""
        return (
            f"{kind} noise was added to every sum: its standard deviation is {ratio:.3g} times {norm} by which {who} "
            f"can move all sums together{more}."
        )


def fit_linear_head(
    features: Any,
    curator: CuratorLike,
    *,
    epsilon: float,
    delta: float = 0.0,
    rng: RandomSource,
    representation: Any = None,
    dimension: int | None = None,
) -> Release[LinearHead]:
    """Learn a linear classifier as `fit_linear` does, and keep the release to correct other classifiers by it.

    Args:
        features, curator, epsilon, delta, rng, representation, dimension: as in `fit_linear`; the curator holds
            classes.

    Returns:
        The head, without an evaluation.

    Guarantee (approximate): (epsilon, delta)-DP for each label, and so are all corrections.

    Raises:
        InputError, BudgetExceeded: as `fit_linear`.
    """
    check_curator(curator, "classes")
    task = LinearTask.of(curator.domain, epsilon, delta, dimension)
    mapped = _mapped(features, curator, representation)
    curator.require(task.steps(curator.users))
    return task.measured(mapped, curator, rng).head()


def _mapped(
    features: Any, curator: CuratorLike, representation: Any, categorical: Any = None, *, sampled: bool = False
) -> EncodedFeatures:
    source = features if isinstance(features, Release) else None
    features = row_table(features if source is None else source.value)
    check_rows(features, curator.records)
    classes = curator.domain.size if curator.domain.target == "classes" else 2
    unfitted = default_representation(features, categorical, classes) if representation is None else representation
    return encode(unfitted, features, source, sampled=sampled)


@dataclass(frozen=True)
class LinearSettings:
    """The constants of linear models of sums.

    Args:
        largest_confidence: factor on the scores of a model, at most.
        largest_score_share: the score of the true classes is taken to be at most this share of that of the likeliest
            ones.
        calibration_rows: about as many rows decide the confidence.
        likelihood_ridge: factor on the precision of the prior under a softmax; chosen in
            `docs/results/choice-of-defaults.md`.
        round_steps: halvings in the search for the epsilon of a round.
        pilot: the pilot model of numbers, and the counts of distances from it, cost as much as one of so many equal
            releases.
        bins: of these distances.
        around: `LinearTask.prior` of these distances: less is left to explain, by more directions.
        clear: bins with fewer labels than so many standard deviations of the noise count as empty.
    """

    largest_confidence: float = 1000.0
    largest_score_share: float = 0.98
    calibration_rows: int = 20_000
    likelihood_ridge: float = 0.6
    round_steps: int = 14
    pilot: tuple[int, int] = (5, 33)
    bins: int = 10
    around: tuple[float, float, float] = (0.3, 0.05, 0.4)
    clear: float = 2.0


SETTINGS = LinearSettings()

UNIT_ROW, ORIGIN = Public(np.ones((1, 1)), why="one row of norm one"), Public(np.zeros(1, int), why="the low end")

LINEAR = "linear"
"""The step of the sums, or of those around a first model."""


@dataclass(frozen=True)
class LinearTask:
    """What is known before the features: the noise for rows of norm one, and guesses of what labels look like.

    Args:
        domain, epsilon, delta, dimension: as in `fit_linear`.
        reach: where sums are of distances from predictions, how many grid steps they are at most; else 0.
        spread: their mean square, in the squared unit of the labels.
    """

    domain: Classes | Interval
    epsilon: float
    delta: float
    dimension: int
    reach: int = 0
    spread: float = 0.0

    @classmethod
    def of(cls, domain: Any, epsilon: Any, delta: Any, dimension: int | None = None) -> "LinearTask":
        """Check the settings; raise InputError if one is invalid."""
        most = MAX_DIMENSION if dimension is None else check_integer(dimension, "dimension")
        if domain.target not in ("classes", "numbers"):
            raise InputError("curator must hold classes or numbers: its domain is neither Classes nor Interval")
        spent, failure = float_below(positive_epsilon(epsilon)), float_below(decimal(delta, "delta"))
        fitting = max(MAX_CELLS // domain.columns - 1, 1) if failure else most  # beside the constant
        task = cls(domain, spent, failure, min(most, fitting))
        _ = task.loss  # refuses epsilon and delta
        return task

    @property
    def pure(self) -> bool:
        """Whether no delta may be spent."""
        return not self.delta

    @property
    def center(self) -> float:
        """The number that is subtracted from every label, or distance."""
        return 0.0 if self.reach else self.domain.center

    @property
    def variance(self) -> float:
        """A guess of the variance of one column of labels."""
        return self.spread or self.domain.variance_guess

    def prior(self, embedding: bool) -> tuple[float, float, float]:
        """Return the shares of the variance that directions and a constant are expected to explain, and the decay."""
        return SETTINGS.around if self.reach else (EXPLAINED, OFFSET, EMBEDDING_DECAY if embedding else DECAY)

    @property
    def residual(self) -> float:
        """A guess of the variance of a column of labels around its prediction."""
        return self.variance if self.reach else (1 - EXPLAINED) * self.variance

    @property
    def loss(self) -> PrivacyLoss:
        """What the release of any rows costs."""
        return self.mechanism(UNIT_ROW, 1.0).privacy_loss()

    @property
    def noise(self) -> float:
        """The standard deviation of the noise on sums of rows of norm one."""
        return self.mechanism(UNIT_ROW, 1.0).noise_stddev

    def mechanism(self, features: Any, clip: float, users: Any = None, centers: Any = ORIGIN) -> CrossMoment:
        """Return the mechanism that releases these rows; around centers, if there is a reach."""
        rows: dict[str, Any] = {"features": features, "clip": clip, "users": users}
        if self.reach:
            rows |= {"centers": centers, "reach": self.reach}
        if users is not None:
            rows["resolution"] = MAX_RESOLUTION  # rows of users who have many are short
        if self.pure:
            return LaplaceMoment(domain=self.domain, epsilon=self.epsilon, **rows)
        return GaussianMoment(domain=self.domain, epsilon=self.epsilon, delta=self.delta, **rows)

    def shared(self, rounds: int) -> "LinearTask":
        """Return the task of one of several rounds with equal noise, which together cost what this one may."""
        if rounds == 1:
            return self
        if self.pure:
            return replace(self, epsilon=_rounded_down(self.epsilon / rounds))
        return self._largest(lambda loss: loss * rounds)

    def _largest(self, total: Callable[[PrivacyLoss], PrivacyLoss]) -> "LinearTask":
        """Return the task of the largest epsilon at which a total of what it costs is within epsilon and delta."""
        low, high = 0.0, self.epsilon
        for _ in range(SETTINGS.round_steps):
            middle = _rounded_down((low + high) / 2)
            within = total(replace(self, epsilon=middle).loss).within(self.epsilon, self.delta)
            low, high = (middle, high) if within else (low, middle)
        return replace(self, epsilon=low)

    def tasks(self) -> "dict[str, LinearTask]":
        """Return the task of each release, by its step; for numbers under Gaussian noise the tasks of `around`."""
        pilot, counts = (self.shared(times) for times in SETTINGS.pilot)
        if self.pure or self.domain.target == "classes" or not min(pilot.epsilon, counts.epsilon):
            return {LINEAR: self}  # a delta may be so large that no smaller epsilon makes a release cost less
        others = pilot.loss + counts.loss
        rest = self._largest(lambda loss: loss + others)
        return {"pilot": pilot, "distances": counts, LINEAR: rest}

    def steps(self, users: Public[Any] | None = None) -> dict[str, Mechanism]:
        """Return a mechanism that costs what each release costs, by its step: rows are not known yet.

        Args:
            users: of the curator.
        """
        rows = UNIT_ROW if users is None else Public(np.ones((len(users.value), 1)), why=UNIT_ROW.why)
        return {name: task.mechanism(rows, 1.0, users) for name, task in self.tasks().items()}

    def model(self, mapped: EncodedFeatures, curator: CuratorLike, rng: RandomSource) -> Release[Model]:
        """Make all releases, and return the model."""
        curator.require(self.steps(curator.users))
        several = len(self.tasks()) > 1
        return self.around(mapped, curator, rng) if several else self.measured(mapped, curator, rng).model()

    def around(self, mapped: EncodedFeatures, curator: CuratorLike, rng: RandomSource) -> Release[Model]:
        """Learn a model, and then the distances of labels from its predictions, within a reach that counts allow.

        The coefficients for labels and for distances add up.
        """
        pilot, counted, rest = self.tasks().values()
        first = pilot.measured(mapped, curator, rng, "pilot")
        model = first.model()
        centers = model.map(lambda model: self.domain.encode(np.clip(_predicted(model, mapped), *self.domain.ends)))
        ones = Public(np.ones((mapped.records, 1)), why="a one for each record, which is counted")
        options: dict[str, Any] = {"domain": self.domain, "epsilon": counted.epsilon, "delta": self.delta}
        bins = GaussianMoment(
            features=ones, resolution=1, users=curator.users, centers=centers, bins=SETTINGS.bins, **options
        )
        counts = curator.release(bins, rng=rng, step="distances")
        distances = _distances(bins, counts.value)
        users = mapped.records if curator.users is None else len(np.unique(curator.users.value))
        noise = rest.noise * len(first.directions.kept) / users
        reach = distances.reach(lambda reach: (noise * min(2 * reach / distances.width, 1.0)) ** 2)
        steps = min(int(np.ceil(reach / self.domain.step)), self.domain.size - 1)
        rest = replace(rest, reach=steps, spread=distances.square)
        places = gather([centers, counts], lambda codes, _: codes)
        second = rest.measured(mapped, curator, rng, centers=places, space=first.directions.space)
        return gather([model, second.model()], _added)

    def measured(
        self,
        mapped: EncodedFeatures,
        curator: CuratorLike,
        rng: RandomSource,
        step: str = LINEAR,
        *,
        centers: Any = None,
        space: Space | None = None,
    ) -> "Fit":
        """Compute all that is public, and release the sums."""
        directions = Directions.of(mapped, mapped.records, self, curator.users, space)
        measured = MeasuredRows(mapped, directions)
        mechanism = self.mechanism(mapped.wrapped(measured), directions.clip, curator.users, centers)
        grid = mechanism.rows
        assert isinstance(grid, GridRows)  # all rows can be computed here
        rows = GridValues.of(grid.rounded, directions.measured(), grid.unit)
        release = curator.release(mechanism, rng=rng, step=step)
        return Fit.of(self, mapped.transformer, directions, measured, rows, release)


@dataclass(frozen=True)
class Directions:
    """Which directions of a table are measured, how exactly, and what is expected of them.

    Args:
        space: principal directions of the table.
        kept: columns of `space.rows` that are measured.
        scale: factors on these columns before they are measured, shape (d,).
        rows: these columns, shape (n, d), or those of a sample of the records.
        signal: expected square of each coefficient, shape (d,).
        clip: length to which measured rows are cut.
        weights: factors on these rows once they are cut, shape (n, 1), where users are protected; else None.
    """

    space: Space
    kept: NDArray[np.intp] = field(repr=False)
    scale: AnyFloats = field(repr=False)
    rows: AnyFloats = field(repr=False)
    signal: AnyFloats = field(repr=False)
    clip: float
    weights: AnyFloats | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        mapped: EncodedFeatures,
        records: int,
        task: LinearTask,
        users: Public[NDArray[np.int64]] | None = None,
        space: Space | None = None,
    ) -> "Directions":
        """Choose all of it from encoded features, whose they are, and what the task knows; labels are not used.

        Args:
            mapped: encoded features of all records or a sample.
            records: how many records there are.
            task: what was known before.
            users: whose the records are, where users are protected.
            space: principal directions of the table, where they were found before.
        """
        table, embedding = mapped.table, is_embedded(mapped.transformer)
        space = space or Space.of(table, min(task.dimension, max(len(table) - 1, 1)))
        explained, offset, decay = task.prior(embedding)
        signal = space.signal(explained * task.variance, offset * task.variance, decay)
        unit = task.noise
        counted = records if users is None else len(np.unique(users.value))
        share = (equal_noise if task.pure else shared_noise)(signal, (unit / counted) ** 2)
        kept = np.flatnonzero(share)
        rows, scale, signal = space.rows(table, kept), np.sqrt(share[kept]), signal[kept]
        guesses = rows, share[kept], signal, unit, task.residual
        if users is None:
            clip = best_clip(*guesses, pure=task.pure, records=records)
            return cls(space, kept, scale, rows, signal, clip)
        clip, weights = best_user_clip(*guesses, users.value, pure=task.pure)
        return cls(space, kept, scale, rows, signal, clip, weights[:, None].astype(rows.dtype))

    def expected(self, explained: float, offset: float, decay: float) -> AnyFloats:
        """Return the expected square of each coefficient under another prior, shape (d,)."""
        return self.space.signal(explained, offset, decay)[self.kept]

    def measured(self) -> Iterator[AnyFloats]:
        """Return the rows that are multiplied by labels, before they are cut, block by block."""
        for start, stop in _ends(len(self.rows)):
            yield self.part(start, stop)

    def part(self, start: int, stop: int) -> AnyFloats:
        """Return some of the rows, scaled and weighted."""
        rows = self.scaled(self.rows[start:stop])
        return rows if self.weights is None else clipped(rows, self.clip) * self.weights[start:stop]

    def scaled(self, rows: AnyFloats) -> AnyFloats:
        """Return scaled rows."""
        return rows * self.scale.astype(rows.dtype)


BLOCK_ROWS = 4096
"""Rows that are encoded at a time: what is computed of them is many times as large."""


def _ends(records: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + BLOCK_ROWS, records)) for start in range(0, records, BLOCK_ROWS))


class AllRows(Protocol):
    """The rows of all records that are multiplied by labels, wherever they are."""

    @property
    def shape(self) -> tuple[int, int]:
        """Records and directions."""

    def expected(self, weights: AnyFloats, grid: Any) -> AnyFloats:
        """Return what the coefficients of a softmax expect of the sums over all records on a grid, shape (d, K)."""


@dataclass(frozen=True)
class MeasuredRows:
    """The rows of all records that are multiplied by labels, computed a block at a time.

    Args:
        mapped: the encoded features.
        directions: those that are measured, of the same features or of a sample.
    """

    mapped: EncodedFeatures
    directions: Directions

    @property
    def shape(self) -> tuple[int, int]:
        """Records and directions."""
        return self.mapped.records, len(self.directions.kept)

    def block(self, start: int, stop: int) -> AnyFloats:
        """Return rows `start` to `stop`, shape (stop - start, d)."""
        if self.mapped.whole is None:
            return self.directions.part(start, stop)
        return self.directions.scaled(np.concatenate(list(self.along(start, stop))))

    def along(self, start: int, stop: int) -> Iterator[AnyFloats]:
        """Return records `start` to `stop` along the directions, in smaller blocks."""
        for first in range(start, stop, BLOCK_ROWS):
            last = min(first + BLOCK_ROWS, stop)
            if self.mapped.whole is None:
                yield self.directions.rows[first:last]
            else:
                yield self.directions.space.rows(self.mapped.block(first, last), self.directions.kept)

    def expected(self, weights: AnyFloats, grid: Any) -> AnyFloats:
        """See `AllRows`."""
        exact: AnyFloats = np.zeros((self.shape[1], weights.shape[1]))
        for start, stop in _ends(self.shape[0]):
            (rows,) = self.along(start, stop)
            chances = softmax(rows @ weights.astype(rows.dtype), axis=1)
            exact += (grid.rounded(self.directions.scaled(rows)) * grid.unit).T @ chances
        return exact


@dataclass(frozen=True)
class Fit:
    """Released noisy sums of rows times labels, and what turns them into a model.

    Args:
        task: what was known before the features.
        representation: fitted transformer of the features.
        directions: that were measured.
        measured: the directions' rows of all records.
        summed: the rows of the directions' records, as they were summed.
        spread: standard deviation of the noise.
        moment: the sums with centered labels, shape (d, columns), and what they cost.
        total: sum of the rows of all records, shape (d,).
        grid: the rows of all records, as they were summed.
        factor: records for each row of the directions, more than 1 where rows are those of a sample.
    """

    task: LinearTask
    representation: Any
    directions: Directions
    measured: AllRows
    summed: GridValues = field(repr=False)
    spread: float
    moment: Release[AnyFloats] = field(repr=False)
    total: AnyFloats = field(repr=False)
    grid: GridRows | GridTotals = field(repr=False)
    factor: float

    @classmethod
    def of(
        cls,
        task: LinearTask,
        representation: Any,
        directions: Directions,
        measured: AllRows,
        summed: GridValues,
        release: Release[Any],
    ) -> "Fit":
        """Return the fit of what the mechanism of `LinearTask` released."""
        mechanism, factor = release.mechanism, measured.shape[0] / len(summed)
        total = summed.total() if factor == 1 else mechanism.rows.total * mechanism.rows.unit
        moment = release.map(lambda value: mechanism.moment(value) - task.center * total[:, None])
        sums = mechanism.noise_stddev, moment, total, mechanism.rows
        return cls(task, representation, directions, measured, summed, *sums, factor)

    def model(self) -> Release[Model]:
        """Return the model of the released sums."""

        def model(moment: AnyFloats) -> Model:
            if self.task.domain.target != "numbers":
                return Model(self.task.domain, self._head(moment).classifier)
            weights, space, kept = self.rule(moment)[0].gain @ moment, self.directions.space, self.directions.kept
            linear = of_features(space, kept, weights, self.task.center)
            return Model(self.task.domain, LinearRegressor(self.representation, *linear))

        return self.moment.map(model)

    def head(self) -> Release[LinearHead]:
        """Return the classifier of the released sums, with these sums."""
        return self.moment.map(self._head)

    def rule(self, moment: AnyFloats) -> tuple[Estimator, AnyFloats]:
        """Return the map from the sums to coefficients by least squares, and the expected squares of these.

        Scale and decay of the prior, and the variance that it leaves, are those under which the sums are likeliest.
        """
        variance, directions, offset = self.task.variance, self.directions, self.task.prior(False)[1]
        products = Moments.of(self.summed, directions.rows, self.spread, self.factor)
        priors = [
            (directions.expected(share * variance, offset * variance, decay), left * variance)
            for share, decay, left in product(EXPLANATIONS, DECAYS, RESIDUALS)
        ]
        signal, residual = products.likeliest(moment, priors)
        return products.rule(signal, residual), signal

    def _head(self, moment: AnyFloats) -> LinearHead:
        rule, signal = self.rule(moment)
        weights: AnyFloats = rule.gain @ moment
        confidence = self.confidence(rule, weights, moment)
        posterior = self.posterior(signal, weights, confidence, moment)
        if confidence:
            if self.factor > 1:
                posterior = self.of_sample(posterior, confidence * weights)
            weights, confidence = posterior.largest(confidence * weights), 1.0
        space, kept = self.directions.space, self.directions.kept
        classifier = LinearClassifier(self.representation, *of_features(space, kept, weights, 0.0), confidence)
        return LinearHead(classifier, posterior, space, kept, weights)

    def posterior(self, signal: AnyFloats, weights: AnyFloats, confidence: float, moment: AnyFloats) -> Posterior:
        """Return the release, with a prior of the coefficients of a softmax.

        Least squares says how far coefficients may be expected to go, and how much labels vary around their
        probabilities: all of it after the release.
        """
        rows = self.directions.rows
        every = max(len(rows) // SETTINGS.calibration_rows, 1)
        chances = softmax(confidence * (rows[::every] @ weights), axis=1)
        doubt = float((chances * (1 - chances)).mean())
        whole = moment + self.task.center * self.total[:, None]
        term = SumsTerm.of(self.summed.astype(rows.dtype), whole, self.spread, doubt, self.factor)
        # A confidence of 0 says nothing of coefficients.
        precision = SETTINGS.likelihood_ridge / (signal * (confidence or 1.0) ** 2)
        return Posterior(rows, precision, [term])

    def of_sample(self, posterior: Posterior, weights: AnyFloats) -> Posterior:
        """Return the same density with the difference between a sample and all records in it.

        What the coefficients of least squares expect of the sums is computed for all records, and only how other
        coefficients differ from them is taken from the sample. What that differs by chance is part of the variance: for
        the coefficients of largest density without it.

        Args:
            posterior: the density if the sample were all records.
            weights: coefficients of the softmax by least squares, shape (d, K).
        """
        exact, [term] = self.measured.expected(weights, self.grid), posterior.sums

        def expected(coefficients: AnyFloats) -> AnyFloats:
            return np.asarray(softmax(posterior.rows @ coefficients.astype(posterior.rows.dtype), axis=1))

        first = expected(weights)
        term = replace(term, moment=term.moment - exact / self.factor + term.rows.T @ first)
        changed = expected(replace(posterior, sums=[term]).largest(weights)) - first
        variance = term.variance + (1 - 1 / self.factor) * _spread(term.rows, changed)
        return replace(posterior, sums=[replace(term, variance=variance)])

    def confidence(self, rule: Estimator, weights: AnyFloats, moment: AnyFloats) -> float:
        """Return the factor on scores at which the likelihood of the softmax is largest, by the released sums.

        The derivative of the log likelihood by that factor depends on the labels only through the sum of the scores of
        the true classes, which is linear in the released sums. The mean contribution of the noise, plus one
        standard deviation, is known and subtracted. If nothing positive is left the factor is 0, and all
        classes are equally likely; `largest_score_share` keeps lucky noise from calling a model right everywhere.
        """
        rows, scale = self.directions.rows, self.directions.scale
        every = max(len(rows) // SETTINGS.calibration_rows, 1)
        norms = [np.linalg.norm(part[::every], axis=1) for part in (self.summed, rows * scale)]
        importance = norms[0] / np.maximum(norms[1], 1e-12)
        scores = rows[::every] @ weights
        form = rule.gain / scale[:, None] @ rule.noise
        noise = moment.shape[1] * float(np.trace(form)) + np.sqrt(2 * moment.shape[1] * float(np.sum(form * form.T)))
        agreement = float(np.sum(weights * moment / scale[:, None])) - noise
        centered = scores - scores.mean(axis=1, keepdims=True)

        def expected(factor: float) -> float:
            return float(importance @ (softmax(factor * centered, axis=1) * centered).sum(axis=1))

        most = SETTINGS.largest_score_share * float(importance @ centered.max(axis=1))
        return _rising_root(expected, min(agreement * len(scores) / (self.factor * len(rows)), most))


def _predicted(model: Model, mapped: EncodedFeatures) -> AnyFloats:
    return np.concatenate([model.estimator.of_table(mapped.block(*ends)) for ends in _ends(mapped.records)])


def _added(first: Model, second: Model) -> Model:
    """Return the model of the sum of two linear models of the same encoded features."""
    one, other = first.estimator, second.estimator
    coefficients, offset = one.coefficients + other.coefficients, one.offset + other.offset
    return Model(first.domain, LinearRegressor(one.representation, coefficients, offset))


def _distances(mechanism: GaussianMoment, released: Any) -> Distances:
    """Return the distances of labels from predictions that noisy counts in bins tell."""
    counts = mechanism.moment(released)[0]
    clear = np.where(counts > SETTINGS.clear * mechanism.noise_stddev, counts, 0.0)
    if not clear.any():
        clear[-1] = 1.0  # no more is known than that labels lie in the range
    doubt = np.full(len(counts), (mechanism.noise_stddev / mechanism.records) ** 2)
    return Distances.of(mechanism.domain, mechanism.bins, clear, doubt)


def _spread(rows: AnyFloats, values: AnyFloats) -> AnyFloats:
    """Return the variances of sums over a sample of rows (m, d) times values (m, K), their mean over columns, (d,)."""
    sums, squares = rows.T @ values.astype(rows.dtype), blockwise(rows, values.astype(rows.dtype), power=2)
    return np.asarray((squares - np.square(sums, dtype=np.float64) / len(rows)).mean(axis=1))


def _rounded_down(epsilon: float) -> float:
    """Return the largest decimal of four digits that is not above a number."""
    return float(Context(prec=4, rounding=ROUND_FLOOR).create_decimal(Decimal(epsilon)))


def _rising_root(function: Any, target: float) -> float:
    """Return where a rising function on [0, `largest_confidence`] reaches a target, or the nearer end."""
    low, high = 0.0, SETTINGS.largest_confidence
    if function(low) >= target:
        return low
    if function(high) < target:
        return high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < target else (low, middle)
    return high

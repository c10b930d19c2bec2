"""Learners on noisy answers of a trusted curator for cells of public features."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
from numpy.typing import NDArray
from sklearn._loss import HalfMultinomialLoss
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.ensemble import HistGradientBoostingClassifier

from labeldp.features import GapTags, check_rows, number_table, row_table, take_rows
from labeldp.learners.cells.clusters import CompactPartition
from labeldp.learners.cells.local import CellClassifier, CellRegressor, fitted_partition, numbered, source_of
from labeldp.learners.cells.partitions import Keys, MedianPartition
from labeldp.learners.evidence import Probabilities, projected
from labeldp.learners.model import Model, check_evaluation, evaluation_steps, fit_and_evaluate, label_epsilon
from labeldp.learners.plan import (
    EVALUATION_LABELS,
    Learner,
    Progress,
    Task,
    check_size,
    format_number,
    no_progress,
    part,
    require_records,
    steps_of,
)
from labeldp.mechanisms import (
    Classes,
    CountMechanism,
    ExponentialMechanism,
    Interval,
    LaplaceHistogram,
    LaplaceSum,
    PermuteAndFlip,
)
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
    float_below,
    gather,
    positive_epsilon,
)

MECHANISMS: dict[str, type[CountMechanism]] = {
    "sums": LaplaceSum,
    "counts": LaplaceHistogram,
    "permute-and-flip": PermuteAndFlip,
    "exponential": ExponentialMechanism,
}

RECORDS = 10.0
"""Records in a default cell times epsilon; chosen in `docs/results/choice-of-defaults.md`."""

UNEXPLAINED = 0.4
"""The share of the labels' variance that features are expected not to explain, as in `fit_linear`."""

SUMS = "cells"
"""The name of the release of all cells in a ledger; of several trees each has one of its own."""

WHY = "cells were cut from public features alone, by a rule that was fixed without the labels"


def fit_cells(
    features: Any,
    curator: CuratorLike,
    *,
    epsilon: float,
    rng: RandomSource,
    partition: Any = None,
    mechanism: str | None = None,
    evaluation: float = 0.0,
    errors: Literal["summed", "labels"] = "summed",
    partition_seed: int = 0,
) -> Release[Model]:
    """Learn classes or numbers from noisy answers of a trusted curator, one for each cell of public features.

    By default cells are many and small, and each answer alone is mostly noise: boosted trees learn from all of them
    together, which costs nothing more. With a partition each cell answers for itself.

    Args:
        features: public numbers, one row for each record.
        curator: holds the labels; regression if its domain is an `Interval`. For labels with heavy tails declare
            `Interval(-T, T, clip=True)`.
        epsilon: cost of all releases together; the guarantee is pure. If the curator has users, it is what a user
            pays, so that the noise grows with the most records that one has: see `Curator.limited`.
        rng: randomness of the noise.
        partition: unfitted partition, each cell of which answers for itself. By default `default_cells` compact cells,
            with boosted trees on their answers and NaN allowed.
        mechanism: what a cell releases: "sums", the noisy sum of its numbers, or of two classes the number of the
            second; "counts", the noisy number of each class; or a class alone, by "permute-and-flip" or "exponential".
            By default sums, or counts for more than two classes: a noisy count chooses about as well as a class alone,
            and gives probabilities.
        evaluation: share of the records, in [0, 1), that is kept from the model and randomized one by one at the same
            epsilon, for its `evaluation`; of numbers, squared errors are summed.
        errors: "summed", or "labels" to have numbers of the evaluation answered one by one, by `DiscreteLaplace`.
        partition_seed: public seed of the random split.

    Returns:
        The model. For a record in an empty cell the nearest non-empty cell answers. A forest answers with the mean over
        its trees, each of which spends an equal part of epsilon.

    Guarantee (pure, prior_charged): epsilon-DP for each label, for the releases of all trees together; what a released
        tree cost comes on top, in the certificate.

    Raises:
        InputError: an argument is wrong; nothing was charged.
        BudgetExceeded: the budget does not admit everything together; nothing was charged.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, eq. (17) and (23), the noise
    of the second corrected (`docs/theory/corrections.md`).
    """
    check_curator(curator)
    check_evaluation(evaluation)
    learner = Cells("cells", partition, mechanism, errors, partition_seed)
    return learner.fit(features, curator, Task.of(curator, epsilon, evaluation=evaluation), rng=rng)


@final
@dataclass(frozen=True)
class Cells(Learner):
    """Trees that learn from noisy answers of many small cells, or cells that answer for themselves.

    Args:
        partition, mechanism, errors, partition_seed: as in `fit_cells`.
        cells: in place of a partition, how many cells are cut at medians of features; None for the default.
    """

    partition: Any = None
    mechanism: str | None = None
    errors: Literal["summed", "labels"] = "summed"
    partition_seed: int = 0
    cells: int | None = None
    one_thread: ClassVar[str] = "all"
    notes: ClassVar[tuple[str, ...]] = (
        "Results at other values of ε are not simulated: each would take as long as this fit.",
    )

    def plan(self, task: Task) -> Plan:
        """Return the answers of most records' cells, and the labels or the summed errors of the others."""
        sums = Step(path=part(0) if task.share else (), loss=PrivacyLoss.pure(task.epsilon), name=SUMS)
        if not task.share:
            return Plan(self.name, (sums,))
        summed = self.errors == "summed" and task.cap is None
        evaluation = evaluation_steps(task.domain, task.epsilon, summed=summed)
        return Plan(self.name, (sums, *steps_of(evaluation, part(1))))

    def check(self, features: Any, task: Task) -> None:
        """Refuse too few records for a cell and an evaluation."""
        require_records("--model cells", task.records)
        check_size("--cells", self.cells, task.records)

    def fit(
        self, features: Any, curator: CuratorLike, task: Task, *, rng: RandomSource, progress: Progress = no_progress
    ) -> Release[Model]:
        """See `fit_cells`."""
        table = row_table(features)
        records = len(number_table(table))
        check_rows(table, curator.records)
        epsilon = label_epsilon(curator, task.epsilon)
        partition = MedianPartition(self.cells) if self.cells else self.partition
        fitted = fitted_partition(partition or CompactPartition(default_cells(records, epsilon)), table)
        if task.share and isinstance(source_of(fitted), Release):
            raise InputError(
                "evaluation must be 0 where cells rest on a Release: it may hold the labels that it held out"
            )
        answers = CellTask.of(curator.domain, epsilon, self.mechanism, together=partition is None)
        if not task.share:
            return answers.learn(fitted, table, curator, rng)

        def learn(training: CuratorLike, held: NDArray[np.bool_]) -> tuple[Release[Model], Any]:
            model = answers.learn(fitted, take_rows(table, ~held), training, rng)
            return model, answers.predicted(model.value, take_rows(table, held))

        options: dict[str, Any] = {"share": task.share, "seed": self.partition_seed, "rng": rng, "errors": self.errors}
        return fit_and_evaluate(curator, task.epsilon, learn, **options)

    def hidden(self, task: Task) -> tuple[str, ...]:
        """Return that sums and the labels of the evaluation are hidden."""
        return "The sums of the cells as they were before noise was added.", EVALUATION_LABELS

    def describe(self, model: Model, task: Task) -> str:
        """Return the cells and the one release."""
        if self.cells:
            return f"one noisy sum for each of {self.cells:,} cells, cut at medians of features"
        return "boosted trees, learned from one noisy sum for each of many small cells of similar records"

    def describe_noise(self, task: Task) -> str:
        """Return the scale of the noise, in units of what one label can do."""
        domain, epsilon = task.domain, task.epsilon / (task.cap or 1)  # of a label: a user pays for all of theirs
        if domain.target == "numbers":
            low, high = domain.ends
            scale = f"{format_number((high - low) / epsilon)}, in the unit of the labels,"
            return f"Two-sided geometric noise of scale {scale} was added to the sum of each cell."
        scale = format_number((1 if domain.size == 2 else 2) / epsilon)
        return f"Two-sided geometric noise of scale {scale} was added to how often a class occurs in each cell."


@dataclass(frozen=True)
class CellTask:
    """What is known before the cells: domain, epsilon, what a cell releases, whether trees learn from all answers."""

    domain: Classes | Interval
    epsilon: float
    kind: type[CountMechanism]
    together: bool = False

    @classmethod
    def of(cls, domain: Any, epsilon: Any, mechanism: str | None, *, together: bool = False) -> "CellTask":
        """Return a task for the name of a mechanism, None for the one that fits the labels; raise InputError else."""
        if domain.target not in ("classes", "numbers"):
            raise InputError("curator must hold classes or numbers: its domain is neither Classes nor Interval")
        name = mechanism or ("sums" if LaplaceSum.takes(domain) else "counts")
        kind = MECHANISMS.get(name)
        allowed = {word: type_ for word, type_ in MECHANISMS.items() if type_.takes(domain)}
        if together:
            allowed = {word: type_ for word, type_ in allowed.items() if type_.has_estimates}
        if kind is None or kind not in allowed.values():
            names = ", ".join(f'"{word}"' for word in allowed)
            raise InputError(f"mechanism must be one of {names} for these labels" + " and no partition" * together)
        return cls(domain, float_below(positive_epsilon(epsilon)), kind, together)

    def learn(self, fitted: Any, features: Any, curator: CuratorLike, rng: RandomSource) -> Release[Model]:
        """Find the cells, release an answer for each, and make a model of the answers."""
        if self.together:
            return self.joined(fitted, features, curator, rng)
        learner: Any = CellRegressor() if self.domain.target == "numbers" else CellClassifier()
        cells, source = learner.cut(features, fitted), source_of(fitted)
        releases = self.releases(cells, source, curator, rng)
        if not all(
            np.array_equal(release.mechanism.arrays(), keys) for release, keys in zip(releases, cells, strict=True)
        ):
            raise InputError(
                "partition must cut features as it did when the ledger released this step: cells are others"
            )

        def model(*released: NDArray[Any]) -> Model:
            answers = zip(releases, released, learner.cells_, strict=True)
            return self._answering(
                learner, [self.values(release.mechanism, value, keys.sizes) for release, value, keys in answers]
            )

        sources = [source] if isinstance(source, Release) else []
        return gather([*releases, *sources], lambda *values: model(*values[: len(releases)]))

    def joined(self, fitted: Any, features: Any, curator: CuratorLike, rng: RandomSource) -> Release[Model]:
        """Release an answer for each cell, and learn trees from all answers together."""
        wanted = numbered(fitted.transform(features), fitted.size_)[2]
        release = self.releases([wanted], None, curator, rng)[0]
        cells = release.mechanism.arrays()  # those of the first time, if a ledger released this step before
        sizes, numbers = np.bincount(cells), self.domain.target == "numbers"

        def model(released: NDArray[Any]) -> Model:
            means = release.mechanism.estimates(released, sizes)
            spread = release.mechanism.noise_variance / sizes**2 + self.residual / sizes
            trees = CellTreesRegressor() if numbers else CellTreesClassifier()
            return Model(self.domain, trees.learn(features, cells, means, spread))

        return release.map(model)

    def cut(self, partition: Any, sample: Any) -> Any:
        """Return a partition that was fitted to features of a sample of the records.

        Raises:
            InputError: it is no partition of one tree that rests on these features alone.
        """
        if source_of(partition) is not None:
            raise InputError("partition must follow from the features of the sample, and not from a tree that is given")
        fitted = fitted_partition(partition, sample)
        if fitted.transform(sample).ndim > 1:
            raise InputError("partition must put each record into one cell: a forest has several")
        return fitted

    def model_of(self, release: Release[Any], fitted: Any, sample: Any) -> Release[Model]:
        """Return the model of answers for the cells of a partition, where workers hold the records.

        Args:
            release: of this task's mechanism on `GroupSizes`, whose groups are the keys of the cells.
            fitted: the partition.
            sample: features of some of the records, shape (m, d), which stand for all of them.
        """
        mechanism, sizes = release.mechanism, release.mechanism.partition.sizes
        numbers = self.domain.target == "numbers"
        if not self.together:
            keys = np.flatnonzero(sizes)
            learner: Any = CellRegressor() if numbers else CellClassifier()
            learner.take(sample, fitted, keys, sizes[keys])
            return release.map(lambda value: self._answering(learner, [self.values(mechanism, value, sizes)[keys]]))
        with np.errstate(divide="ignore", invalid="ignore"):  # no record, no weight
            spread = mechanism.noise_variance / sizes**2 + self.residual / sizes

        def model(released: NDArray[Any]) -> Model:
            means = np.where(sizes[:, None] > 0, mechanism.estimates(released, np.maximum(sizes, 1)), 0.0)
            trees = CellTreesRegressor() if numbers else CellTreesClassifier()
            return Model(self.domain, trees.learn(sample, fitted.transform(sample), means, spread))

        return release.map(model)

    def _answering(self, learner: Any, values: list[NDArray[np.float64]]) -> Model:
        learner.values_ = values
        if self.domain.target == "numbers":
            learner.domain_ = self.domain
        else:
            learner.classes_ = np.arange(self.domain.size)
        return Model(self.domain, learner)

    @property
    def residual(self) -> float:
        """A rough guess of the variance of labels around what features explain, to weight cells by."""
        return UNEXPLAINED * self.domain.variance_guess

    def releases(self, cells: list[Keys], source: Any, curator: CuratorLike, rng: RandomSource) -> list[Release[Any]]:
        """Release the answers of the cells of each tree, at equal parts of epsilon."""

        def grouped(keys: Keys) -> Any:
            if isinstance(source, Release):
                return source.map(lambda _: keys)
            return Public(keys, why=WHY if source is None else source.why)

        part = self.epsilon if len(cells) == 1 else float_below(positive_epsilon(self.epsilon) / len(cells))
        steps = {}
        for number, keys in enumerate(cells, start=1):
            step = SUMS if len(cells) == 1 else f"{SUMS} of tree {number}"
            steps[step] = self.kind(domain=self.domain, epsilon=part, groups=grouped(keys))
        curator.require(steps)
        return [curator.release(mechanism, rng=rng, step=step) for step, mechanism in steps.items()]

    def values(self, mechanism: Any, released: NDArray[Any], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the answer of each cell: a number in the range, or probabilities."""
        if mechanism.has_estimates:
            estimates = mechanism.estimates(released, sizes)
            if self.domain.target == "numbers":
                return np.clip(estimates[:, 0], *self.domain.ends)
            return projected(estimates)
        return np.eye(self.domain.size)[released.astype(np.intp)]

    def predicted(self, model: Model, features: Any) -> NDArray[Any]:
        """Return predicted numbers or probabilities, as an evaluation takes them."""
        return model.predict(features) if self.domain.target == "numbers" else model.predict_proba(features)


def default_cells(records: int, epsilon: float) -> int:
    """Return the number of cells that trees learn from: about 10/epsilon records are in each.

    The noise on the mean of a cell is then a seventh of the range of the labels, whatever epsilon and the number of
    records are: trees bear far more noise in a cell than a cell alone.
    """
    size = RECORDS / float(positive_epsilon(epsilon))
    return max(int(records / max(size, 1.0)), 1)


MAX_RECORDS = 1 << 16
"""The largest number of records that trees learn from: of more, a sample stands for all records of their cell."""

PATIENCE = 30
"""Boosting stops after so many rounds without progress on the cells that are left out: half as many lose .06 points on
the tables of `docs/results/choice-of-defaults.md`, which no other page shows, and twice as many gain .02."""

BOOSTERS = 4
"""Boosters, each of which leaves out another part of the cells."""

MIN_CELLS = 20
"""With fewer cells, or fewer records than eight a class, no tree is grown: all records get their common mean."""


class _CellTrees(GapTags, BaseEstimator):  # type: ignore[misc]
    """Boosted regression trees that know labels only by noisy means over cells.

    Each tree fits, for each record, what the mean of its cell exceeds the mean prediction there: records of one cell
    may get different predictions, and large cells with little noise weigh more. Several such boosters are averaged;
    each leaves out some cells, and all stop where they predict those best. All of it is post-processing.

    Args:
        rounds: largest number of trees in each.
        leaves: largest numbers of leaves, rising: the next one is tried as long as it predicts the cells left out
            better. A leaf holds at least a fifth of the records that it would hold if all were equal.
    """

    def __init__(self, *, rounds: int = 200, leaves: tuple[int, ...] = (8, 32, 128)) -> None:
        self.rounds = rounds
        self.leaves = leaves

    def learn(self, features: Any, cells: Keys, means: Floats, variances: Floats) -> Self:
        """Learn from noisy means.

        Args:
            features: features of the records, shape (n, d).
            cells: cell of each record, shape (n,); none is empty.
            means: noisy mean label of each cell, or class shares, shape (cells, columns).
            variances: variances of these means around what features explain, up to a factor, shape (cells,).
        """
        table = number_table(features, self, fit=True)
        self.start_ = np.average(means, axis=0, weights=1 / variances)
        self.trees_: Any = None
        if len(means) < MIN_CELLS or len(table) < 2 * BOOSTERS * means.shape[1]:
            return self
        rows, noisy = _NoisyCells.of(cells, means - self.start_, 1 / variances)
        shown, smallest = table[rows].astype(np.float32), math.inf
        for leaves in self.leaves:
            error, trees = self._boosted(shown, noisy, leaves)
            if error >= smallest:
                break
            smallest, self.trees_ = error, trees
        return self

    def _boosted(self, table: NDArray[np.float32], cells: "_NoisyCells", leaves: int) -> tuple[float, Any]:
        """Grow all boosters with trees of so many leaves, and return their error on the cells that each leaves out.

        They grow side by side, as classes do, and stop together, where the sum of their errors is least: that of one
        alone is noise.
        """
        loss = _CellLoss(cells, BOOSTERS)
        trees = HistGradientBoostingClassifier(
            loss=loss,
            learning_rate=0.1,
            max_iter=self.rounds,
            max_leaf_nodes=leaves,
            min_samples_leaf=max(len(table) // (5 * leaves), 1),
            max_features=0.5,
            early_stopping=True,
            validation_fraction=None,
            n_iter_no_change=PATIENCE,
            tol=0.0,
            random_state=0,
        )
        trees.fit(table, np.arange(len(table)) % loss.n_classes)  # the loss knows what they learn: not these
        best = int(np.argmin(loss.errors))
        del trees._predictors[best:]
        trees.loss, trees._loss = "log_loss", HalfMultinomialLoss(n_classes=loss.n_classes)  # without the cells
        return loss.errors[best], trees

    def scores(self, X: Any) -> Floats:
        """Return predicted means, shape (n, columns)."""
        table = number_table(X, self).astype(np.float32)
        if self.trees_ is None:
            return np.zeros((len(table), 1)) + self.start_
        shown = self.trees_.decision_function(table).reshape(len(table), BOOSTERS, -1)
        return self.start_ + shown.mean(axis=1)


@dataclass(frozen=True)
class _NoisyCells:
    """Noisy means of cells, shape (cells, columns), with the cell of each record and the weight of each cell."""

    of_record: Keys
    sizes: NDArray[np.int64]
    means: Floats
    weights: Floats

    @classmethod
    def of(cls, cells: Keys, means: Floats, weights: Floats) -> tuple[NDArray[np.intp], Self]:
        """Return the records that stand for the cells, all or a regular sample of each cell, and the cells."""
        order = np.argsort(cells, kind="stable")
        rows = order[:: -(-len(order) // MAX_RECORDS)]
        numbers, of_record, sizes = np.unique(cells[rows], return_inverse=True, return_counts=True)
        return rows, cls(of_record, sizes, means[numbers], weights[numbers] / weights[numbers].mean())

    def excess(self, predicted: Floats) -> Floats:
        """Return by how much each cell's noisy mean exceeds the mean prediction for its records."""
        sums = [np.bincount(self.of_record, column, len(self.sizes)) for column in predicted.T]
        return self.means - np.column_stack(sums) / self.sizes[:, None]


class _CellLoss(HalfMultinomialLoss):  # type: ignore[misc]
    """Squared errors of the means of cells, which couple the records of a cell; a "class" is a column of a booster."""

    def __init__(self, cells: _NoisyCells, boosters: int) -> None:
        super().__init__(n_classes=boosters * cells.means.shape[1])
        self.cells = cells
        self.rng = np.random.default_rng(0)
        part = self.rng.permutation(len(cells.sizes)) % boosters
        self.held = part[:, None] == np.arange(boosters)
        self.errors: list[float] = []

    def _excess(self, raw_prediction: NDArray[Any]) -> NDArray[np.float64]:
        """Return what means exceed predictions, shape (cells, boosters, columns)."""
        boosters, columns = self.held.shape[1], self.cells.means.shape[1]
        shown = raw_prediction.reshape(-1, boosters, columns)
        return np.stack([self.cells.excess(shown[:, k]) for k in range(boosters)], axis=1)

    def fit_intercept_only(self, y_true: Any, sample_weight: Any = None) -> NDArray[np.float64]:
        """Return where boosters start: means are given without their common one."""
        return np.zeros(self.n_classes)

    def __call__(self, y_true: Any, raw_prediction: Any, sample_weight: Any = None, n_threads: int = 1) -> float:
        """Return the weighted sum of squared errors in the cells that boosters leave out, and keep it."""
        squared = (self._excess(raw_prediction) ** 2).sum(axis=2)
        self.errors.append(float((squared * self.held * self.cells.weights[:, None]).sum()))
        return self.errors[-1]

    def gradient_hessian(
        self,
        y_true: Any,
        raw_prediction: Any,
        sample_weight: Any = None,
        gradient_out: Any = None,
        hessian_out: Any = None,
        n_threads: int = 1,
    ) -> tuple[Any, Any]:
        """Write derivatives by the predictions of records, on half of the cells that a booster learns from."""
        learned = ~self.held
        drawn = learned & (self.rng.random(learned.shape) < 0.5)
        drawn = np.where(drawn.any(axis=0), drawn, learned)
        weights = drawn * (self.cells.weights / self.cells.sizes)[:, None]
        slope = weights[:, :, None] * self._excess(raw_prediction)
        gradient_out[:] = -slope.reshape(len(slope), -1)[self.cells.of_record]
        hessian_out[:] = np.repeat(weights, self.cells.means.shape[1], axis=1)[self.cells.of_record]
        return gradient_out, hessian_out


class CellTreesRegressor(RegressorMixin, _CellTrees):  # type: ignore[misc]
    """Numbers from noisy means of many small cells; made by `fit_cells`, and without a fit of labels."""

    def predict(self, X: Any) -> Floats:
        """Return numbers, shape (n,); `Model` clips them to the range."""
        return self.scores(X)[:, 0]


class CellTreesClassifier(ClassifierMixin, _CellTrees):  # type: ignore[misc]
    """Classes from noisy shares in many small cells; made by `fit_cells`, and without a fit of labels."""

    def learn(self, features: Any, cells: Keys, means: Floats, variances: Floats) -> Self:
        """Learn from noisy shares, shape (cells, K); of two classes one share tells the other."""
        two = means.shape[1] == 2
        return super().learn(features, cells, (1 + means[:, 1:] - means[:, :1]) / 2 if two else means, variances)

    @property
    def classes_(self) -> NDArray[np.intp]:
        """Codes 0 to K - 1."""
        return np.arange(max(len(self.start_), 2))

    def predict_proba(self, X: Any) -> Probabilities:
        """Return the probabilities nearest to the predicted shares, shape (n, K)."""
        shares = self.scores(X)
        return projected(np.hstack([1 - shares, shares]) if shares.shape[1] == 1 else shares)

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the code of the likeliest class, shape (n,)."""
        return self.predict_proba(X).argmax(axis=1)

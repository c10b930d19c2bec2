"""Cells from a trusted curator: noise on the sums of cells, or a class drawn for each."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.learners.cells import CellClassifier, CellRegressor, fitted_partition, source_of
from labeldp.learners.central import check_evaluation, evaluated
from labeldp.learners.compact import CompactPartition
from labeldp.learners.features import check_rows, number_table, row_table, take_rows
from labeldp.learners.model import Model
from labeldp.learners.occupied import numbered
from labeldp.learners.partitions import Keys
from labeldp.learners.probabilities import projected
from labeldp.learners.smoothed import CellTreesClassifier, CellTreesRegressor
from labeldp.mechanisms import (
    Classes,
    CountMechanism,
    ExponentialMechanism,
    Interval,
    LaplaceHistogram,
    LaplaceSum,
    PermuteAndFlip,
)
from labeldp.privacy import CuratorLike, InputError, Public, Release, float_within, gather, positive_epsilon

MECHANISMS: dict[str, type[CountMechanism]] = {
    "sums": LaplaceSum,
    "counts": LaplaceHistogram,
    "permute-and-flip": PermuteAndFlip,
    "exponential": ExponentialMechanism,
}

MEASURED = (LaplaceSum, LaplaceHistogram)
"""What estimates can be made of."""

RECORDS = 10.0
"""The constant of `default_cells`; chosen in `docs/results/cell_constants.md`."""

UNEXPLAINED = 0.4
"""The share of a variance that features are expected to leave, as `fit_linear` expects it."""

WHY = "cells were cut from public features alone, by a rule that was fixed without the labels"


def fit_cells(
    features: Any,
    curator: CuratorLike,
    *,
    epsilon: float,
    rng: Any,
    partition: Any = None,
    mechanism: str | None = None,
    evaluation: float = 0.0,
    partition_seed: int = 0,
) -> Release[Model]:
    """Learn classes or numbers from noisy answers of a trusted curator, one for each cell of public features.

    By default cells are many and small, and each answer alone is mostly noise: boosted trees learn from all of them
    together, which costs nothing more. With a partition each cell answers for itself.

    Args:
        features: public, one row for each record; numbers.
        curator: holds the labels; regression where its domain is an `Interval`. For labels with heavy tails declare
            `Interval(-T, T, clip=True)`.
        epsilon: of all releases together; the guarantee is pure.
        rng: randomness of the noise.
        partition: unfitted rule that cuts features into cells, each of which answers for itself. By default compact
            cells, as many as `default_cells` says, and boosted trees on their answers; NaN is a gap.
        mechanism: what a cell releases: "sums", the noisy sum of its numbers, or of two classes the number of the
            second; "counts", the noisy number of each class; or a class alone, by "permute-and-flip" or "exponential".
            By default sums, or counts where there are more than two classes. A noisy count chooses about as well as
            a class alone, and gives probabilities.
        evaluation: share of the records that is not learned from, but randomized one by one at the same epsilon, so
            that the model has an `evaluation`; in [0, 1).
        partition_seed: of the random split, public.

    Returns:
        The model. A record whose cell is empty is answered by the nearest non-empty cell; a forest by the mean over
        its trees, each of which spends an equal part of epsilon.

    Guarantee: epsilon-DP for each label, for the releases of all trees together; what a released tree cost comes on
    top, in the certificate.

    Raises:
        InputError: an argument is wrong; nothing was charged.
        BudgetExceeded: the budget does not admit everything together; nothing was charged.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, eq. (17) and (23), the noise
    of the second corrected (`docs/corrections.md`).
    """
    table = row_table(features)
    records = len(number_table(table))
    check_rows(table, curator.records)
    check_evaluation(evaluation)
    small = CompactPartition(default_cells(records, epsilon)) if partition is None else partition
    fitted = fitted_partition(small, table)
    if evaluation and isinstance(source_of(fitted), Release):
        raise InputError("evaluation must be 0 where cells rest on a Release: it may hold the labels that it held out")
    task = CellTask.of(curator.domain, epsilon, mechanism, together=partition is None)
    if not evaluation:
        return task.learn(fitted, table, curator, rng)

    def learn(training: CuratorLike, held: NDArray[np.bool_]) -> tuple[Release[Model], Any]:
        model = task.learn(fitted, take_rows(table, ~held), training, rng)
        return model, task.predicted(model.value, take_rows(table, held))

    return evaluated(curator, epsilon, learn, share=evaluation, seed=partition_seed, rng=rng)


@dataclass(frozen=True)
class CellTask:
    """What is known before the cells: labels, epsilon, what a cell releases, whether trees join the answers."""

    domain: Classes | Interval
    epsilon: float
    kind: type[CountMechanism]
    together: bool = False

    @classmethod
    def of(cls, domain: Any, epsilon: Any, mechanism: str | None, *, together: bool = False) -> "CellTask":
        if not isinstance(domain, Classes | Interval):
            raise InputError("curator must hold classes or numbers: its domain is neither Classes nor Interval")
        name = mechanism or ("sums" if LaplaceSum.takes(domain) else "counts")
        kind = MECHANISMS.get(name)
        allowed = {each: type_ for each, type_ in MECHANISMS.items() if type_.takes(domain)}
        if together:
            allowed = {each: type_ for each, type_ in allowed.items() if type_ in MEASURED}
        if kind is None or kind not in allowed.values():
            names = ", ".join(f'"{each}"' for each in allowed)
            raise InputError(f"mechanism must be one of {names} for these labels" + " and no partition" * together)
        return cls(domain, float_within(positive_epsilon(epsilon)), kind, together)

    def learn(self, fitted: Any, features: Any, curator: CuratorLike, rng: Any) -> Release[Model]:
        """Find the cells, release an answer for each, and make the model of them."""
        if self.together:
            return self.joined(fitted, features, curator, rng)
        learner: Any = CellRegressor() if isinstance(self.domain, Interval) else CellClassifier()
        cells = learner.cut(features, fitted)
        releases = self.releases(cells, source_of(fitted), curator, rng)
        if not all(np.array_equal(each.mechanism.arrays(), own) for each, own in zip(releases, cells, strict=True)):
            raise InputError(
                "partition must cut features as it did when the ledger released this step: cells are others"
            )

        def model(*released: NDArray[Any]) -> Model:
            answers = zip(releases, released, learner.cells_, strict=True)
            learner.values_ = [self.values(each.mechanism, value, own.sizes) for each, value, own in answers]
            if isinstance(self.domain, Interval):
                learner.domain_ = self.domain
            else:
                learner.classes_ = np.arange(self.domain.size)
            return Model(self.domain, learner)

        sources = [source_of(fitted)] if isinstance(source_of(fitted), Release) else []
        return gather([*releases, *sources], lambda *values: model(*values[: len(releases)]))

    def joined(self, fitted: Any, features: Any, curator: CuratorLike, rng: Any) -> Release[Model]:
        """Release an answer for each cell, and learn trees from all of them together."""
        asked = numbered(fitted.transform(features), fitted.size_)[2]
        release = self.releases([asked], None, curator, rng)[0]
        # A ledger that released the cells before keeps those of that time.
        cells = release.mechanism.arrays()
        sizes, numbers = np.bincount(cells), isinstance(self.domain, Interval)

        def model(released: NDArray[Any]) -> Model:
            found = estimates(release.mechanism, released, sizes)
            spread = noise_variance(release.mechanism) / sizes**2 + self.residual / sizes
            trees = CellTreesRegressor() if numbers else CellTreesClassifier()
            return Model(self.domain, trees.learn(features, cells, found, spread))

        return release.map(model)

    @property
    def residual(self) -> float:
        """A guess of the variance of a label around what features explain: it weighs cells, and needs no precision."""
        if isinstance(self.domain, Interval):
            return UNEXPLAINED * ((self.domain.high - self.domain.low) / 4) ** 2
        return UNEXPLAINED * (1 - 1 / self.domain.size) / self.domain.size

    def releases(self, cells: list[Keys], source: Any, curator: CuratorLike, rng: Any) -> list[Release[Any]]:
        """What the cells of each tree release, at equal parts of epsilon."""
        part = self.epsilon if len(cells) == 1 else float_within(positive_epsilon(self.epsilon) / len(cells))
        steps = {}
        for number, own in enumerate(cells, start=1):
            step = "cells" if len(cells) == 1 else f"cells of tree {number}"
            steps[step] = self.kind(domain=self.domain, epsilon=part, groups=grouped(own, source))
        curator.require({step: mechanism.privacy_loss() for step, mechanism in steps.items()})
        return [curator.release(mechanism, rng=rng, step=step) for step, mechanism in steps.items()]

    def values(self, mechanism: Any, released: NDArray[Any], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """What each cell answers: a number in the range, or probabilities."""
        if isinstance(mechanism, MEASURED):
            found = estimates(mechanism, released, sizes)
            if isinstance(self.domain, Interval):
                return np.clip(found[:, 0], self.domain.low, self.domain.high)
            return projected(found)
        return np.eye(self.domain.size)[released.astype(np.intp)]

    def predicted(self, model: Model, features: Any) -> NDArray[Any]:
        """Predicted numbers, or probabilities, as an evaluation takes them."""
        return model.predict(features) if isinstance(self.domain, Interval) else model.predict_proba(features)


def grouped(cells: Keys, source: Any) -> Public[Keys] | Release[Keys]:
    """Cells as groups, with where they came from."""
    if isinstance(source, Release):
        return source.map(lambda _: cells)
    return Public(cells, why=WHY if source is None else source.why)


def estimates(mechanism: Any, released: NDArray[Any], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Noisy means, shape (cells, 1), or class shares that sum to 1, shape (cells, K): unbiased, so not clipped.

    How many records a cell holds is public: what noise adds to the sum of its counts is taken from all of them alike.
    """
    if isinstance(mechanism, LaplaceSum):
        found = mechanism.means(released, sizes)[:, None]
        return np.hstack([1 - found, found]) if isinstance(mechanism.domain, Classes) else found
    shares = released / sizes[:, None]
    return shares + (1 - shares.sum(axis=1, keepdims=True)) / shares.shape[1]


def noise_variance(mechanism: LaplaceSum | LaplaceHistogram) -> float:
    """The variance of the noise on one sum, in the unit of the labels, or on one count."""
    scale = mechanism.scale if isinstance(mechanism, LaplaceSum) else 1 / float(mechanism.rate)
    return 2 * scale**2


def default_cells(records: int, epsilon: float) -> int:
    """How many cells trees learn from: 10/epsilon records in each, at least one.

    The noise on the mean of a cell is then a seventh of the range of the labels, whatever epsilon and the number of
    records are: trees bear far more noise in a cell than a cell alone.

    Args:
        records: N.
        epsilon: of the release.
    """
    each = RECORDS / float(positive_epsilon(epsilon))
    return max(int(records / max(each, 1.0)), 1)

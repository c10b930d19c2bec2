"""Learners that protect features, too: a fixed grid with a trusted curator, and the local baseline."""

from dataclasses import dataclass
from typing import Any, Self
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from labeldp.learners.evidence import Probabilities
from labeldp.learners.features import plain_table
from labeldp.learners.model import Model
from labeldp.mechanisms import Classes, CubeGrid, FullMeans, FullSelection, Interval, Located
from labeldp.privacy import (
    Certificate,
    Charge,
    CuratorLike,
    InputError,
    Neighbors,
    PrivacyLoss,
    RandomnessKind,
    RandomSource,
    Release,
    Trust,
    positive_epsilon,
)


class _Grid(BaseEstimator):  # type: ignore[misc]
    """A value for every box of a fixed grid, to which records outside are clamped.

    Args:
        low, high: bounds of the features, shape (d,).
        shape: number of boxes along each feature, shape (d,).
        values: values of the boxes, shape (cells,).
    """

    def __init__(self, low: Any, high: Any, shape: Any, values: Any) -> None:
        self.low = low
        self.high = high
        self.shape = shape
        self.values = values

    @classmethod
    def on(cls, grid: CubeGrid, values: NDArray[Any]) -> Self:
        """Return the estimator with these values of a grid's cells."""
        return cls(np.array(grid.low), np.array(grid.high), np.array(grid.shape), values)

    def found(self, X: Any) -> NDArray[Any]:
        """Return the value of each record's box, shape (n,)."""
        table = plain_table(X, self)  # however far outside a record lies, the grid clamps it
        low, high, shape = (tuple(part.tolist()) for part in (self.low, self.high, self.shape))
        return self.values[CubeGrid(low, high, shape).index(table)]

    @property
    def n_features_in_(self) -> int:
        """Number of features of the grid."""
        return len(self.low)


class GridRegressor(RegressorMixin, _Grid):  # type: ignore[misc]
    """A number for every box of a fixed grid; made by `fit_full_cells`, not fitted to labels of its own."""

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return numbers, shape (n,)."""
        return np.asarray(self.found(X))


class GridClassifier(ClassifierMixin, _Grid):  # type: ignore[misc]
    """A class for every box of a fixed grid; made by `fit_full_cells`, not fitted to labels of its own.

    Args:
        low, high, shape, values: as in `GridRegressor`; values are codes.
        classes: number of classes, K.
    """

    def __init__(self, low: Any, high: Any, shape: Any, values: Any, classes: int = 2) -> None:
        super().__init__(low, high, shape, values)
        self.classes = classes

    @property
    def classes_(self) -> NDArray[np.intp]:
        """Codes 0 to K - 1."""
        return np.arange(self.classes)

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return codes, shape (n,)."""
        return np.asarray(self.found(X), dtype=np.intp)

    def predict_proba(self, X: Any) -> Probabilities:
        """Return 1 for the class of the box and 0 for others, shape (n, K): nothing else was released."""
        return np.eye(self.classes)[self.predict(X)]


def fit_full_cells(
    curator: CuratorLike,
    *,
    epsilon: float,
    rng: RandomSource,
    smallest: int | None = None,
    rule: str = "permute-and-flip",
    printed: bool = False,
) -> Release[Model]:
    """Learn one answer for every cell of a fixed grid, protecting features and labels, with a trusted curator.

    Use it where features are private, too. Which cells hold records is private then: the grid must be fixed without
    looking at the data, records outside are clamped to it silently, and every cell is released, empty or not.

    Args:
        curator: holds features and labels: `Curator((features, labels), domain=Located(grid, labels_domain), …)`, with
            the grid of `CubePartition(side, bounds).grid(dimension)`.
        epsilon: cost of the release.
        rng: randomness of the noise.
        smallest: n_0, for numbers: about half of the records that a cell is expected to hold. It must be public.
        rule: for classes, "permute-and-flip" or "exponential".
        printed: use the paper's larger noise, for comparison.

    Guarantee (pure): epsilon-DP for each whole record.

    Raises:
        InputError: an argument is wrong; nothing was charged.
        BudgetExceeded: nothing was charged.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, eq. (31), (33) and (36), and
    tighter (`docs/corrections.md`).
    """
    domain = _located(curator.domain)
    if isinstance(domain.labels, Classes):
        if smallest is not None:
            raise InputError("smallest (n_0) must be left out for classes: it belongs to means of numbers")
        mechanism: Any = FullSelection(domain=domain, epsilon=epsilon, rule=rule, printed=printed)
    elif smallest is None:
        raise InputError(
            "smallest (n_0) must be given for numbers: about half of the records that a cell is expected to hold, "
            "from public knowledge"
        )
    else:
        mechanism = FullMeans(domain=domain, epsilon=epsilon, smallest=smallest, printed=printed)
    release = curator.release(mechanism, rng=rng, step="full cells")
    return release.map(lambda value: _model(domain, release.mechanism.cell_values(value)))


def simulate_full_local(
    features: Any,
    labels: Any,
    *,
    domain: Located,
    epsilon: float,
    rng: np.random.Generator,
    smallest: float = 1.0,
) -> Release[Model]:
    """Simulate the baseline of full local DP, in which every user adds noise to the indicators of all cells.

    Use it to see what public features save; it protects nothing. Noise is drawn in doubles and not for each user: the
    sum of N Laplace variables has the law of the difference of two Gamma variables of shape N.

    Args:
        features, labels: those of the users, shapes (n, d) and (n,).
        domain: the fixed grid and the domain of the labels.
        epsilon: cost to each user.
        rng: a NumPy generator; nothing else is accepted.
        smallest: for numbers, the noisy number of records below which a cell answers with the middle of the range.

    Returns:
        The model; its certificate says that it is a simulation.

    Raises:
        InputError: an argument is wrong.

    Source: Berrett and Butucea (2019) for classes; Berrett, Györfi and Walk (2021) for numbers.
    """
    if not isinstance(rng, np.random.Generator):
        raise InputError("rng must be a numpy.random.Generator: this baseline is a simulation")
    noise = _LocalNoise(_located(domain), float(positive_epsilon(epsilon)), rng)
    table = domain.table(domain.encode((features, labels)))
    kind = domain.labels
    values = noise.select(table) if isinstance(kind, Classes) else noise.means(table, smallest)
    charge = Charge(uuid4().hex, (), PrivacyLoss.pure(epsilon), {"mechanism": "full local baseline"})
    certificate = Certificate(
        entries=(charge,),
        dataset="a simulation",
        neighbors=Neighbors.FULL,
        trust=Trust.LOCAL,
        randomness=RandomnessKind.SIMULATION,
        published=f"noisy indicators of all {domain.grid.cells} cells for each record, summed",
    )
    return Release(_model(domain, values), certificate)


@dataclass(frozen=True)
class _LocalNoise:
    """The users' noise on the table of records, cell by label, shape (cells, labels)."""

    domain: Located
    epsilon: float
    rng: np.random.Generator

    def select(self, table: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the class of each cell with the largest noisy sum of indicators: a record moves two of them by one."""
        return (table + self._sums(table.shape, int(table.sum()), 2 / self.epsilon)).argmax(axis=1)

    def means(self, table: NDArray[np.int64], smallest: float) -> NDArray[np.float64]:
        """Return noisy sums over noisy counts, each at half of epsilon, clipped; the middle where counts are small."""
        interval = self.domain.labels
        assert isinstance(interval, Interval)
        middle, radius = (interval.low + interval.high) / 2, (interval.high - interval.low) / 2
        numbers = interval.decode(np.arange(interval.size)) - middle
        users, cells = int(table.sum()), len(table)
        counts = table.sum(axis=1) + self._sums((cells,), users, 4 / self.epsilon)
        sums = table @ numbers + self._sums((cells,), users, 4 * radius / self.epsilon)
        ratio = np.where(counts >= smallest, sums / np.maximum(counts, smallest), 0.0)
        return middle + np.clip(ratio, -radius, radius)

    def _sums(self, shape: tuple[int, ...], users: int, scale: float) -> NDArray[np.float64]:
        """Draw sums of one Laplace variable for each user."""
        return self.rng.gamma(users, scale, shape) - self.rng.gamma(users, scale, shape)


def _located(domain: Any) -> Located:
    """Return a domain of whole records, or raise an `InputError` if features are not part of it."""
    if not isinstance(domain, Located):
        raise InputError(
            "curator must hold features and labels, as Curator((features, labels), domain=Located(grid, labels)) does, "
            "on a grid that nobody fitted: CubePartition(side, bounds).grid(dimension)"
        )
    return domain


def _model(domain: Located, values: NDArray[Any]) -> Model:
    """Return the model that answers with one value for each cell."""
    if isinstance(domain.labels, Interval):
        kept = np.clip(values, domain.labels.low, domain.labels.high)
        return Model(domain.labels, GridRegressor.on(domain.grid, kept))
    estimator = GridClassifier.on(domain.grid, values)
    return Model(domain.labels, estimator.set_params(classes=domain.labels.size))

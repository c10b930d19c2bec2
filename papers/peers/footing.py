"""What all methods share: public rows, one prior on coefficients, and learners of one layer."""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.decomposition import PCA
from sklearn.linear_model import RidgeCV

from labeldp.features import default_representation
from labeldp.learners import Posterior
from labeldp.mechanisms import Classes, Interval
from labeldp.privacy import Floats, InputError
from papers.aggregation.data import FILES, GENERATED, STAND_INS, problems
from papers.multistage.grid import DATASETS, load_task

DIRECTIONS = 100
"""Principal directions of the default map, at most."""

DECAY, OFFSET = 0.4, 0.1
"""The expected square of a coefficient grows with its direction's variance to this power; that of the offset."""

TESTED = 10_000
"""Test records, at most."""

GRID = 129
"""Points of the declared range of numbers."""

FACTORS = (1.0, 10.0, 100.0)
"""On the precision of the prior of a softmax, chosen on released labels, too."""

PENALTIES = np.geomspace(1e-2, 1e6, 17)
"""Of ridge regressions, chosen by generalized cross-validation on released labels."""

IMAGES = tuple(name for name, source in DATASETS.items() if source.classes is not None and not source.ratings)
NUMBERS = (GENERATED, *STAND_INS, *FILES)


@dataclass(frozen=True, eq=False)
class Footing:
    """Records that all methods see alike; their labels play the private part.

    Args:
        name: of the data set.
        domain: declared classes, or a declared range.
        columns: principal directions of the mapped features, shape (n, d).
        labels: of training, shape (n,).
        test: the same directions of test records, shape (t, d).
        truth: their labels, shape (t,); for the final measurement alone.
        digest: of the features that the directions were found in.
    """

    name: str
    domain: Any
    columns: Floats = field(repr=False)
    labels: NDArray[Any] = field(repr=False)
    test: Floats = field(repr=False)
    truth: NDArray[Any] = field(repr=False)
    digest: str = ""

    @cached_property
    def _variances(self) -> Floats:
        return np.asarray(np.maximum(self.columns.var(axis=0), 1e-12))

    @cached_property
    def signal(self) -> Floats:
        """Expected square of each coefficient of `rows`, shape (1 + d,)."""
        share = self._variances**DECAY
        return np.concatenate([[OFFSET], share / share.sum()])

    def whitened(self, columns: Floats) -> Floats:
        """Return a constant, and columns of variance one, shape (n, 1 + d)."""
        scaled = (columns - self.columns.mean(axis=0)) / np.sqrt(self._variances)
        return np.asarray(np.column_stack([np.ones(len(columns)), scaled]), dtype=np.float64)

    @cached_property
    def rows(self) -> Floats:
        """What linear models see of training records, shape (n, 1 + d)."""
        return self.whitened(self.columns)

    @cached_property
    def test_rows(self) -> Floats:
        """The same of test records, shape (t, 1 + d)."""
        return self.whitened(self.test)

    @property
    def classes(self) -> int:
        """The number of classes, K."""
        return self.domain.size

    def softmax(self, soft: Floats, factor: float, rows: Floats | None = None) -> Floats:
        """Return the coefficients of smallest cross-entropy of soft labels (n, K) with the prior, shape (1 + d, K).

        Args:
            factor: on the precision of the prior.
            rows: of the records that the labels are of; all training records by default.
        """
        of = self.rows if rows is None else rows
        start = np.zeros((of.shape[1], soft.shape[1]))
        return np.asarray(Posterior(of, factor / self.signal, soft=soft).largest(start), dtype=np.float64)

    def best_factor(self, soft: Floats) -> float:
        """Return the factor under which a fifth of released labels are likeliest, by a model of the others."""
        held = np.arange(len(soft)) % 5 == 0

        def loss(factor: float) -> float:
            scores = self.rows[held] @ self.softmax(soft[~held], factor, self.rows[~held])
            return float(np.mean(logsumexp(scores, axis=1) - np.sum(soft[held] * scores, axis=1)))

        return min(FACTORS, key=loss)

    def scores(self, soft: Floats, factor: float | None = None) -> Floats:
        """Return the test scores of the model of smallest cross-entropy, shape (t, K)."""
        chosen = self.best_factor(soft) if factor is None else factor
        return np.asarray(self.test_rows @ self.softmax(soft, chosen))

    def one_hot(self, codes: Any) -> Floats:
        """Return class indicators, shape (n, K)."""
        return np.asarray(np.eye(self.classes)[codes])

    def numbers(self, targets: Any, rows: Any = slice(None)) -> Floats:
        """Return the test predictions of the ridge regression of numbers that some of the records got, shape (t,)."""
        scale = np.sqrt(self.signal)
        model = RidgeCV(PENALTIES, fit_intercept=False).fit(self.rows[rows] * scale, np.asarray(targets))
        return np.asarray(model.predict(self.test_rows * scale))

    @property
    def metric(self) -> str:
        """What is measured."""
        return "accuracy" if isinstance(self.domain, Classes) else "RMSE"

    def measure(self, predicted: Floats) -> float:
        """Return the accuracy of scores (t, K), or the root mean squared error of numbers (t,)."""
        if isinstance(self.domain, Classes):
            return float(np.mean(predicted.argmax(axis=1) == self.domain.encode(self.truth)))
        return float(np.sqrt(np.mean((np.clip(predicted, self.domain.low, self.domain.high) - self.truth) ** 2)))


def load_footing(dataset: str, data: str | None, records: int) -> Footing:
    """Read a data set, draw training records by a public seed, and find their principal directions without labels.

    Args:
        dataset: one of `IMAGES` or `NUMBERS`.
        data: the user's files, or a folder that holds a folder of this name.
        records: training records, at most.

    Raises:
        InputError: files that are missing, or too few records.
    """
    order = np.random.default_rng(0)
    if dataset in NUMBERS:
        held = problems(data)
        if dataset not in held:
            raise InputError(f"--data must hold {dataset}; it has {', '.join(held)}")
        problem = held[dataset]()
        mixed = order.permutation(len(problem.labels))
        parts = [mixed[: len(mixed) * 4 // 5][:records], mixed[len(mixed) * 4 // 5 :][:TESTED]]
        (own, labels), (other, truth) = ((problem.features[part], problem.labels[part]) for part in parts)
        domain: Any = Interval(problem.low, problem.high, grid=GRID)
        labels = domain.decode(domain.encode(labels))
    else:
        if data is None:
            raise InputError(f"--data must be given: the files of {dataset}")
        inside = Path(data) / dataset
        task = load_task(dataset, str(inside if inside.is_dir() else data), None)
        some = order.permutation(len(task.train.labels))[:records]
        own, labels, domain = task.train.features[some], task.train.labels[some], task.domain
        other, truth = task.test.features[:TESTED], task.test.labels[:TESTED]
    return footing(dataset, domain, own, labels, other, truth)


def footing(name: str, domain: Any, own: Any, labels: Any, other: Any, truth: Any) -> Footing:
    """Return the principal directions of features, found on those of training records.

    Args:
        own, other: features of training and test records.

    Raises:
        InputError: fewer than 500 training records.
    """
    if len(own) < 500:
        raise InputError("--records must leave at least 500 training records")
    mapping = default_representation(own).fit(own)
    table = np.asarray(mapping.transform(own), dtype=np.float32)
    turn = PCA(min(DIRECTIONS, table.shape[1]), svd_solver="covariance_eigh").fit(table)
    columns, test = (turn.transform(each).astype(np.float64) for each in (table, mapping.transform(other)))
    found = hashlib.sha256()
    for part in (own, other):
        found.update(f"{part.dtype}{part.shape}".encode() + np.ascontiguousarray(part).tobytes())
    return Footing(name, domain, columns, np.asarray(labels), test, np.asarray(truth), found.hexdigest()[:16])


def constants() -> dict[str, Any]:
    """Return what this file fixes for every run."""
    fixed = {"FACTORS": FACTORS, "PENALTIES": [round(each, 6) for each in PENALTIES.tolist()]}
    return {**fixed, "DIRECTIONS": DIRECTIONS, "DECAY": DECAY, "OFFSET": OFFSET, "TESTED": TESTED, "GRID": GRID}

"""A linear model of a table of any size: one sum of exact integers, along directions of a public sample."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import softmax
from threadpoolctl import threadpool_limits

from labeldp.curator import counts_unreadable
from labeldp.features import (
    SAMPLED_RECORDS,
    STREAMED_RECORDS,
    EncodedFeatures,
    ExactMap,
    default_representation,
    encode,
)
from labeldp.learners import (
    Directions,
    Fit,
    GridValues,
    LinearTask,
    Model,
    of_features,
)
from labeldp.mechanisms import Domain
from labeldp.privacy import AnyFloats, Floats, InputError, LabelDPError, Public, Release, Request, Source
from labeldp.releases import (
    ROWS,
    Aggregation,
    Plan,
    RowMap,
    RowSums,
    Survey,
    check_object,
    described_by,
    feature_table,
    public_sample,
    restored,
    stored,
)
from labeldp.tables import CHANGED, Table, recut

CHANCE_STEPS = 1 << 20
"""Steps of a probability, in which what a model expects of all records is added up."""

PROBED = 64
"""Records that a representation must encode alike in several blocks."""


def fit_linear(
    data: Any,
    *,
    label: str,
    id: str,
    features: Sequence[str],
    domain: Domain,
    epsilon: Any,
    ledger: str | os.PathLike[str],
    dataset: str,
    delta: Any = 0,
    representation: Any = None,
    dimension: int | None = None,
    cohort: str | None = None,
    revision: str | None = None,
) -> Release[Model]:
    """Learn a linear model from one noisy sum of public feature rows times labels; see `labeldp.fit_linear`.

    The representation and the directions are those of a public sample of the records, whose ids have the smallest
    hashes: all of up to 200,000 records, 50,000 of more. Rows along them are computed in integers, so that a record
    has the same row wherever it is computed.

    Args:
        data, label, id, epsilon, ledger, dataset, cohort, revision: as in `histogram`.
        domain: declared classes, or an `Interval`.
        features: its columns of public numbers; missing ones are NaN.
        delta: of Gaussian noise; 0 for a pure guarantee, which allows fewer dimensions.
        representation: as in `labeldp.fit_linear`, for a table of these columns. It must encode each record by itself,
            to the same bits in any block of records, as the default `TableMap` does, and multiply no matrices.
        dimension: as in `labeldp.fit_linear`.

    Returns:
        The model, whose features are the columns in this order; without an evaluation.

    Guarantee (approximate, same_bits): (epsilon, delta)-DP for each label; the same request gives the same model for
        one charge.

    Raises:
        InputError: an argument is wrong, a column or a cell; nothing was charged.
        BudgetExceeded, LedgerError, LabelDPError: as `histogram`.
    """
    described = None if representation is None else described_by(representation)
    options: dict[str, Any] = {
        "representation": described,
        "dimension": dimension,
        "cohort": cohort,
        "revision": revision,
    }
    source = Source.of(data, label, id, features=features)
    request = Request.of("totals", "fit-linear", dataset, source, epsilon, delta, domain=domain, **options)
    return ask_fit_linear(request, data, ledger=ledger, representation=representation)


@counts_unreadable
def ask_fit_linear(
    request: Request, data: Any, *, ledger: str | os.PathLike[str], representation: Any = None
) -> Release[Model]:
    """Learn a linear model as a request says; see `fit_linear`. The representation is an object of the program."""
    check_object(request, "representation", representation)
    aggregation, budget = Aggregation.of(request, data, ledger), request.budget
    task = LinearTask.of(aggregation.domain, budget.epsilon, budget.delta, request.options.get("dimension"))
    with threadpool_limits(1):  # sums in one order: the same directions to the bit
        return learn(aggregation, task, representation)


def learn(aggregation: Aggregation, task: LinearTask, representation: Any = None) -> Release[Model]:
    """Return the model of a table; a public sample, read once the account is open, gives its directions."""
    features, id = aggregation.features, aggregation.request.source.ids
    measuring: Any = None

    def plan() -> Plan:
        nonlocal measuring
        sample, records = public_sample(aggregation.table, id, features)
        measuring = Measuring.of(sample, records, features, task, representation)
        return measuring.aggregate, measuring.mechanism

    survey = aggregation.survey(features, plan)
    return measuring.model(aggregation.table, survey)


@final
@dataclass(frozen=True)
class Measuring:
    """Measured sums of a table: of rows along the directions of a public sample.

    Args:
        task: what is fitted, at which cost.
        mapped: the encoded features of the sample.
        directions: those that are measured.
        records: the number of all records.
        mapping: from encoded features to rows.
        aggregate: the sums of the rows.
    """

    task: LinearTask
    mapped: EncodedFeatures = field(repr=False)
    directions: Directions = field(repr=False)
    records: int
    mapping: ExactMap = field(repr=False)
    aggregate: RowSums = field(repr=False)

    @classmethod
    def of(
        cls, sample: Floats, records: int, features: tuple[str, ...], task: LinearTask, representation: Any
    ) -> "Measuring":
        """Return the measured sums; `sample` are features of some records in an order without meaning."""
        sample = sample if records <= STREAMED_RECORDS else sample[:SAMPLED_RECORDS]
        mapped = encode(default_representation(sample) if representation is None else representation, sample, None)
        check_by_record(mapped, sample)
        directions = Directions.of(mapped, records, task)
        space, columns = directions.space, directions.kept
        mapping = ExactMap.of(mapped.table, *of_features(space, columns, np.diag(directions.scale)))
        encoder = EncodedFeatures(mapped.transformer, mapped.table[:0])
        rows = ByDirections(features, encoder, mapping)
        return cls(task, mapped, directions, records, mapping, RowSums(rows, task.domain, directions.clip))

    def mechanism(self, sums: Any) -> Any:
        """Return the mechanism of the public sums."""
        totals = sums.rows
        if totals.shape[0] != self.records:
            raise LabelDPError(f"{CHANGED.format('read')}: nothing was charged")
        return self.task.mechanism(Public(totals, why=self.mapped.why), self.directions.clip)

    def model(self, table: Table, survey: Survey) -> Release[Model]:
        """Charge the sums, release them, and return the model."""
        mapped, totals = self.mapped, survey.sums.rows
        blocks = (self.mapping.rows(mapped.table[start : start + ROWS]) for start in range(0, len(mapped.table), ROWS))
        held = GridValues.of(self.aggregate.scan().rounded, blocks, totals.unit)
        scores = partial(_scores, mapped.table, self.directions)
        measured = MappedRows(table, self.aggregate, scores, totals.shape)
        release = survey.release(lambda sums, _: sums.sums)
        return Fit.of(self.task, mapped.transformer, self.directions, measured, held, release).model()


def _scores(sample: AnyFloats, directions: Directions, weights: AnyFloats) -> ExactMap:
    """Return the map from encoded features to the scores of some coefficients along directions."""
    return ExactMap.of(sample, *of_features(directions.space, directions.kept, weights))


def check_by_record(mapped: EncodedFeatures, sample: Floats) -> None:
    """Raise InputError if a representation encodes a record otherwise in another block of records."""
    probe = sample[:PROBED]
    encoded = mapped.encoded(probe)
    for size in (1, 2, 3, 5, 7, 13):
        parts = [mapped.encoded(probe[start : start + size]) for start in range(0, len(probe), size)]
        if not np.array_equal(np.concatenate(parts), encoded):
            raise InputError(
                "must encode each record by itself, to the same bits in any block of records, and matrix products do "
                "not: compute such features as columns first, and pass them unchanged by FunctionTransformer()",
                argument="representation",
            )


@final
@dataclass(frozen=True)
class ByDirections(RowMap):
    """Rows that are public features, encoded, along the directions that are measured."""

    features: tuple[str, ...]
    encoder: EncodedFeatures
    mapping: ExactMap = field(repr=False)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.features

    @property
    def width(self) -> int:
        """The number of directions."""
        return len(self.mapping.offset)

    def encoded(self, batch: pa.RecordBatch) -> AnyFloats:
        """Return encoded features, shape (n, p)."""
        return self.encoder.encoded(feature_table(batch, self.features))

    def rows(self, batch: pa.RecordBatch) -> Floats:
        return self.mapping.rows(self.encoded(batch))


@final
@dataclass(frozen=True)
class MappedRows:
    """The measured rows of all records of a table; see `AllRows` of `labeldp.learners.linear`.

    Args:
        scores: from coefficients along the directions to the map from encoded features to scores.
        shape: records and directions.
    """

    table: Table
    aggregate: RowSums
    scores: Any = field(repr=False)
    shape: tuple[int, int]

    def expected(self, weights: AnyFloats, grid: Any) -> AnyFloats:
        """Return what the coefficients of a softmax expect of the sums over all records, shape (d, K)."""
        task = ExpectTask(self.aggregate, self.scores(weights))
        total = task.total(self.table.run(task, list(self.aggregate.columns), join=task.join))
        return np.asarray(total * (grid.unit / CHANCE_STEPS))


@final
@dataclass(frozen=True)
class ExpectTask:
    """Adds up rows times the probabilities of a model over a part: integers, so that parts add up in any order."""

    aggregate: RowSums
    scores: ExactMap = field(repr=False)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> bytes:
        scan, rows, total = self.aggregate.scan(), self.aggregate.map, self.total([])
        assert isinstance(rows, ByDirections)
        for batch in recut(batches, ROWS):
            table = rows.encoded(batch)
            steps = scan.rounded(rows.mapping.rows(table)).astype(np.float64)
            chances = np.rint(softmax(self.scores.rows(table), axis=1) * CHANCE_STEPS)
            total += (steps.T @ chances).astype(np.int64)  # sums below 2^53, exact
        return stored(total=total)

    def join(self, states: Iterable[bytes]) -> bytes:
        """Join the results of several of these tasks."""
        return stored(total=self.total(states))

    def total(self, states: Iterable[bytes]) -> NDArray[np.int64]:
        """Return the sum of what several of these tasks returned, shape (d, K)."""
        total = np.zeros((self.aggregate.map.width, len(self.scores.offset)), dtype=np.int64)
        for state in states:
            total += restored(state)["total"]
        return total

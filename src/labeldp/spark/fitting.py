"""Models from aggregates of a data frame: all that is learned from labels are sums that were charged."""

import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.bags import BagRows, BagSum, bag_model
from labeldp.cluster import feature_table, larger
from labeldp.learners import CellTask, Model, default_cells
from labeldp.mechanisms import Domain
from labeldp.privacy import Budget, Floats, InputError, Release, check_nonnegative
from labeldp.spark.aggregates import aggregate
from labeldp.spark.session import spark_failed
from labeldp.spark.table import SparkTable, quoted
from labeldp.streams import SAMPLE, cell_model


def fit_cells(
    dataframe: Any,
    *,
    label: str,
    id: str,
    features: Sequence[str],
    domain: Domain,
    epsilon: Any,
    ledger: str | os.PathLike[str],
    dataset: str,
    partition: Any = None,
    mechanism: str | None = None,
    cohort: str | None = None,
    revision: str | None = None,
) -> Release[Model]:
    """Learn classes or numbers from noisy answers for cells of public features; see `labeldp.fit_cells`.

    The cells are cut by the features of a public sample of the records, those whose ids have the smallest hashes.

    Args:
        dataframe: holds the label, the ids and the features.
        label, id, domain, epsilon, ledger, dataset, cohort, revision: as in `histogram`.
        features: its columns of public numbers.
        partition: unfitted partition, each cell of which answers for itself; by default compact cells, with boosted
            trees on their answers.
        mechanism: what a cell releases, as in `labeldp.fit_cells`.

    Returns:
        The model, whose features are the columns in this order.

    Guarantee (pure, same_bits): epsilon-DP for each label; the same request gives the same model for one charge.

    Raises:
        InputError, BudgetExceeded, LedgerError, LabelDPError: as `histogram`.
    """
    asked = aggregate(dataframe, label, id, domain, ledger, dataset, cohort, revision, Budget(epsilon=epsilon))
    task = CellTask.of(domain, epsilon, mechanism, together=partition is None)
    names = tuple(features)
    sample, records = public_sample(dataframe, id, names)
    return cell_model(asked, task, names, sample, default_cells(records, epsilon), partition)


def fit_bags(
    dataframe: Any, release: Release[Any], *, bags: str, features: Sequence[str], ridge: float = 0.0
) -> Release[Model]:
    """Fit a linear model to released sums over bags by least squares; see `labeldp.fit_bags`. It costs nothing more.

    Args:
        dataframe: holds the bags and the features, of the records that were released.
        release: what `bag_sum` returned.
        bags: its column of bag numbers.
        features: its columns of public numbers.
        ridge: penalty, as in `labeldp.fit_bags`.

    Raises:
        InputError: the release is not of bags, or the columns do not fit it.
    """
    check_nonnegative(ridge, "ridge")
    made = release.mechanism if isinstance(release, Release) else None
    if not isinstance(made, BagSum):
        raise InputError("must be what bag_sum returned", argument="release")
    sizes, sums = _feature_sums(dataframe, bags, list(features))
    if not np.array_equal(sizes, made.partition.sizes):
        raise InputError("must hold the records that were released, in their bags", argument="dataframe")
    variances = np.full(len(sizes), made.noise_stddev**2)
    rows = np.column_stack([sizes, sums]).astype(np.float64)
    equations = BagRows(rows, made.totals(release.value), sizes.astype(np.float64), variances)
    return release.map(lambda _: bag_model(equations, made.domain, np.empty((1, sums.shape[1])), ridge))


def _feature_sums(dataframe: Any, bags: str, features: list[str]) -> tuple[NDArray[np.int64], Floats]:
    """Return the records in each bag, shape (bags,), and the sums of features over them, shape (bags, d)."""
    source = SparkTable(dataframe)
    _check_column(source, bags, "bags")
    _check_numbers(source, features)
    from pyspark.sql import functions

    gap = functions.lit(float("nan"))  # a sum leaves out what is missing
    totals = [functions.sum(functions.coalesce(functions.col(quoted(name)).cast("double"), gap)) for name in features]
    rows = _collected(source.frame.groupBy(quoted(bags)).agg(functions.count("*"), *totals))
    found = np.array([[np.nan if each is None else each for each in row] for row in rows], dtype=np.float64)
    if not found.size or not np.isfinite(found).all():
        raise InputError("must be finite numbers, none of them missing", argument="features")
    order = found[:, 0].astype(np.int64)
    if not np.array_equal(np.sort(order), np.arange(len(order))):
        raise InputError("must be numbers from 0 without gaps", argument="bags")
    found = found[np.argsort(order)]
    return found[:, 1].astype(np.int64), found[:, 2:]


def _collected(frame: Any) -> list[Any]:
    try:
        return list(frame.collect())
    except Exception as error:
        problem = spark_failed(error)
    raise problem


@final
@dataclass(frozen=True)
class _ReadFeatures:
    """Returns the public features of a part."""

    features: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> bytes:
        tables = [feature_table(batch, self.features) for batch in larger(batches)]
        buffer = io.BytesIO()
        np.save(buffer, np.concatenate(tables) if tables else np.zeros((0, len(self.features))))
        return buffer.getvalue()


def public_sample(dataframe: Any, id: str, features: tuple[str, ...], most: int = SAMPLE) -> tuple[Floats, int]:
    """Return features of a public sample of the records, shape (m, d), and the number of all records.

    The sample depends on the ids alone: not on partitions, nor on the order of the records.

    Raises:
        InputError: a column is missing or does not hold numbers.
    """
    source = SparkTable(dataframe)
    from pyspark.sql import functions

    _check_column(source, id, "id")
    _check_numbers(source, features)
    key = functions.col(quoted(id))
    drawn = source.frame.orderBy(functions.xxhash64(key), key).limit(most).select(*map(quoted, features))
    states = SparkTable(drawn).run(_ReadFeatures(features), features)
    tables = [np.load(io.BytesIO(state), allow_pickle=False) for state in states]
    [[records]] = _collected(source.frame.selectExpr("count(*)"))
    return np.concatenate(tables), int(records)


def _check_column(source: SparkTable, name: str, argument: str) -> None:
    """Raise InputError unless a data frame has exactly one column of a name."""
    if not isinstance(name, str) or source.schema.names.count(name) != 1:
        raise InputError(f"the data frame needs exactly one column {name!r}", argument=argument)


def _check_numbers(source: SparkTable, features: Sequence[str]) -> None:
    """Raise InputError unless a data frame has these columns, one at least, and they hold numbers."""
    for name in features:
        _check_column(source, name, "features")
    if not features:
        raise InputError("must name a column", argument="features")
    feature_table(_empty(source.schema, features), list(features))


def _empty(schema: pa.Schema, names: Sequence[str]) -> pa.RecordBatch:
    """Return a block without rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, schema.field(name).type) for name in names], names=list(names))

"""Models of cells and bags from files larger than memory: a few passes, block by block, and sums of integers."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.bags import BagRows, BagSum, bag_model
from labeldp.cluster import Asked, ByCells, ByColumn, GroupMeasure, Join, Task, feature_table, larger
from labeldp.curator import LedgerFile
from labeldp.learners import CellTask, CompactPartition, Model, default_cells
from labeldp.mechanisms import Domain
from labeldp.privacy import (
    Budget,
    Floats,
    InputError,
    LabelDPError,
    Public,
    RecordIds,
    Release,
    check_nonnegative,
    hidden_ids,
)
from labeldp.tables import BLOCK_ROWS, Parts, as_text, check_kind, is_text, open_parts, record_ids

SAMPLE = 200_000
"""The most records whose public features are held, to decide by them how cells are cut."""

RECORDS_IN_CELL = 8
"""Records of the sample in a default cell, at least."""

WHY_CELLS = "cells were cut from public features of a sample alone, by a rule that was fixed without the labels"

PUBLIC_KEY = bytes(32)
"""Of hashes that everybody may compute: they say which records are in the sample."""


def fit_cells_file(
    data: Any,
    *,
    label: str,
    id_column: str,
    features: Sequence[str],
    domain: Domain,
    epsilon: Any,
    ledger: str | os.PathLike[str],
    dataset: str,
    partition: Any = None,
    mechanism: str | None = None,
    cohort: str | None = None,
    revision: str | None = None,
    block_rows: int = BLOCK_ROWS,
) -> Release[Model]:
    """Learn classes or numbers from noisy answers for cells of public features of a file; see `labeldp.fit_cells`.

    Use it where a table does not fit into memory. Cells are cut by the features of a public sample of at most `SAMPLE`
    records, those whose ids have the smallest hashes; then all records are counted in one pass. Memory grows with a
    block, the sample and the cells, not with the file.

    Args:
        data: the file, a folder of files, or a table that gives an Arrow stream each time it is asked.
        label: its private column.
        id_column: its column of record ids, all different.
        features: its columns of public numbers; missing ones are NaN.
        domain: declared classes, or an `Interval`.
        epsilon, ledger, dataset, cohort, revision: who is charged what, as in `release_file`.
        partition: unfitted partition, each cell of which answers for itself; by default compact cells, with boosted
            trees on their answers.
        mechanism: what a cell releases, as in `labeldp.fit_cells`.
        block_rows: the most rows that are read at once.

    Returns:
        The model, whose features are the columns in this order.

    Guarantee (pure, same_bits): epsilon-DP for each label; the same records give the same model for one charge,
        whatever their order, blocks and files are.

    Raises:
        InputError: an argument is wrong, or a label or an id; nothing was charged.
        BudgetExceeded, LedgerError: nothing was charged.
        LabelDPError: the table changed meanwhile; nothing was charged.
    """
    cost, names = Budget(epsilon), tuple(features)
    table = BlockTable(open_parts(data), block_rows).of_numbers(features)
    asked = _asked(table, label, id_column, domain, ledger, dataset, cohort, revision, cost)
    task = CellTask.of(domain, epsilon, mechanism, together=partition is None)
    sample, records = public_sample(table, id_column, names)
    return cell_model(asked, task, names, sample, default_cells(records, epsilon), partition)


def cell_model(
    asked: Asked, task: CellTask, features: tuple[str, ...], sample: Floats, cells: int, partition: Any
) -> Release[Model]:
    """Cut cells by a sample, release an answer for each, and return the model of the answers.

    Args:
        asked: the table, and who is charged.
        task: what a cell releases.
        features: columns of public numbers.
        sample: of some records, shape (m, d).
        cells: how many compact cells are wanted.
        partition: unfitted partition; None for compact cells, each of a few records of the sample at least.
    """
    if partition is None:
        partition = CompactPartition(max(min(cells, len(sample) // RECORDS_IN_CELL), 1))
    fitted = task.cut(partition, sample)
    release = asked.grouped(task.kind, ByCells(fitted, features), WHY_CELLS, epsilon=task.epsilon)
    return task.model_of(release, fitted, sample)


def bag_sum_file(
    data: Any,
    *,
    label: str,
    id_column: str,
    bags: str,
    size: int,
    domain: Domain,
    epsilon: Any,
    ledger: str | os.PathLike[str],
    dataset: str,
    why: str,
    delta: Any = 0,
    cohort: str | None = None,
    revision: str | None = None,
    block_rows: int = BLOCK_ROWS,
) -> Release[NDArray[np.int64]]:
    """Release the noisy sum of the labels of each public bag of a file; see `BagSum`. Memory grows with the bags.

    Args:
        data, label, id_column, domain, epsilon, ledger, dataset, cohort, revision, block_rows: as in `fit_cells_file`.
        bags: its column of bag numbers, from 0.
        size: the smallest number of records in a bag.
        why: why the bags do not depend on labels, in words.
        delta: of Gaussian noise; 0 for Laplace noise.

    Returns:
        Sums in fine steps, shape (bags,), for `fit_bags_file`; `mechanism.totals(value)` has the unit of the labels.

    Guarantee (approximate, same_bits): (epsilon, delta)-DP for each label; the same records give the same sums for one
        charge, whatever their order, blocks and files are.

    Raises:
        InputError: also where a bag is smaller than asked.
        BudgetExceeded, LedgerError, LabelDPError: as `fit_cells_file`.
    """
    cost = Budget(epsilon, delta)
    table = BlockTable(open_parts(data), block_rows).of_numbers(bags=bags)
    asked = _asked(table, label, id_column, domain, ledger, dataset, cohort, revision, cost)
    return asked.release(
        GroupMeasure(ByColumn(bags), None),
        lambda tally: BagSum.calibrated(
            size, epsilon=epsilon, delta=delta, domain=domain, bags=Public(tally.groups, why=why)
        ),
        lambda tally, made: tally.sums * made.fine,
    )


def fit_bags_file(
    data: Any,
    release: Release[Any],
    *,
    bags: str,
    features: Sequence[str],
    ridge: float = 0.0,
    block_rows: int = BLOCK_ROWS,
) -> Release[Model]:
    """Fit a linear model to released sums over bags of a file by least squares; see `labeldp.fit_bags`. It is free.

    Features are summed in one pass, in the order of the rows: the model is that of `labeldp.fit_bags`, to the bit.

    Args:
        data: the records that were released, as in `fit_cells_file`.
        release: what `bag_sum_file` returned.
        bags: its column of bag numbers.
        features: its columns of public numbers, none of them missing.
        ridge: penalty, as in `labeldp.fit_bags`.
        block_rows: the most rows that are read at once.

    Raises:
        InputError: the release is not of bags, or the columns do not fit it.
    """
    check_nonnegative(ridge, "ridge")
    made = release.mechanism if isinstance(release, Release) else None
    if not isinstance(made, BagSum):
        raise InputError("must be what bag_sum_file returned", argument="release")
    if not features:
        raise InputError("must be a list of columns, one at least", argument="features")
    table = BlockTable(open_parts(data), block_rows).of_numbers(features, bags=bags)
    sums = _feature_sums(table, ByColumn(bags), tuple(features), made.sizes)
    sizes = made.sizes.astype(np.float64)
    equations = BagRows(
        np.column_stack([sizes, sums]), made.totals(release.value), sizes, np.full(len(sizes), made.noise_stddev) ** 2
    )
    return release.map(lambda _: bag_model(equations, made.domain, np.empty((1, sums.shape[1])), ridge))


def _feature_sums(table: "BlockTable", by: ByColumn, features: tuple[str, ...], sizes: NDArray[np.int64]) -> Floats:
    """Return the sums of features over each bag, added one record after the other, shape (bags, d).

    Raises:
        InputError: a feature is missing or infinite, or bags are others than those of these sizes.
    """
    sums, found = np.zeros((len(sizes), len(features))), np.zeros(len(sizes), dtype=np.int64)
    others = InputError("must be the records that were released, in their bags", argument="data")
    for batch in table.blocks([by.column, *features]):
        groups, rows = by.groups(batch), feature_table(batch, features)
        if groups.min() < 0 or groups.max() >= len(sizes):
            raise others
        if not np.isfinite(rows).all():
            raise InputError("must be finite numbers, none of them missing", argument="features")
        np.add.at(sums, groups, rows)
        found += np.bincount(groups, minlength=len(sizes))
    if not np.array_equal(found, sizes):
        raise others
    return sums


@final
@dataclass(frozen=True)
class BlockTable:
    """Files that are read block by block, as the room `cluster` takes a table: one part.

    Args:
        parts: the files.
        block_rows: the most rows that are read at once.
        kinds: types of columns of numbers, which CSV holds as texts, and texts where files hold several types.
    """

    parts: Parts = field(repr=False)
    block_rows: int = BLOCK_ROWS
    kinds: Mapping[str, pa.DataType] = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the columns."""
        found = self.parts.tables[0].schema()
        return pa.schema([(each.name, self.kinds.get(each.name, each.type)) for each in found])

    def blocks(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read some columns of all rows in order.

        Raises:
            LabelDPError: a file is another than it was when it was opened.
        """
        names = list(dict.fromkeys(columns))
        for table in self.parts.tables:
            for batch in table.blocks(names, block_rows=self.block_rows):
                yield pa.RecordBatch.from_arrays([self._typed(name, batch.column(name)) for name in names], names)
        if not self.parts.same_files():
            raise LabelDPError(f"{self.parts.place} changed while it was being read: nothing was charged")

    def run(self, task: Task, columns: Sequence[str], join: Join | None = None) -> list[bytes]:
        """Run a task on the rows."""
        return [task(self.blocks(columns))]

    def run_by_id(self, task: Task, column: str) -> list[bytes]:
        """Run a task on the ids."""
        return self.run(task, [column])

    def _typed(self, name: str, values: pa.Array) -> pa.Array:
        """Return a column as what it is to hold: of numbers, an empty text is a missing one."""
        kind = self.kinds.get(name)
        if kind == pa.string():
            return as_text(values, name)
        if kind is None or not is_text(values.type):
            return values
        try:
            return pc.if_else(pc.equal(pc.utf8_trim_whitespace(values), ""), None, values).cast(kind)
        except pa.ArrowInvalid:
            raise InputError(f"the column {name!r} must hold numbers: encode it first", argument="data") from None

    def of_numbers(self, features: Sequence[str] = (), *, bags: str | None = None) -> "BlockTable":
        """Return the table with columns read as numbers; raise InputError if there are none of these names."""
        if isinstance(features, str) or (bags is None and not features):
            raise InputError("must be a list of columns, one at least", argument="features")
        for name in features:
            self.parts.tables[0].require(name, "features")
        if bags is not None:
            self.parts.tables[0].require(bags, "bags")
        schemas = [table.schema() for table in self.parts.tables]
        mixed = [name for name in self.parts.columns if len({each.field(name).type for each in schemas}) > 1]
        numbers = {**dict.fromkeys(features, pa.float64()), **({bags: pa.int64()} if bags else {})}
        return replace(self, kinds={**dict.fromkeys(mixed, pa.string()), **numbers})


def _asked(
    table: "BlockTable",
    label: str,
    id_column: str,
    domain: Domain,
    ledger: str | os.PathLike[str],
    dataset: str,
    cohort: str | None,
    revision: str | None,
    cost: Budget,
) -> Asked:
    """Return what is asked of a table; the first dataset of a new ledger gets this cost as its whole budget."""
    if not isinstance(domain, Domain):
        raise InputError('must be declared, such as Classes(("no", "yes")) or Interval(0, 100)', argument="domain")
    for name, argument in ((label, "label"), (id_column, "id_column")):
        table.parts.tables[0].require(name, argument)
    if table.kinds.get(label, pa.string()) != pa.string():
        raise InputError("must be no column of public numbers: it is private", argument="label")
    for each in table.parts.tables:
        check_kind(each.schema([label]), label, domain)
    account = LedgerFile(ledger).dataset(dataset, cohort=cohort, revision=revision, budget=cost)
    return Asked(table, label, id_column, domain, account)


def public_sample(
    table: BlockTable, id_column: str, features: tuple[str, ...], most: int = SAMPLE
) -> tuple[Floats, int]:
    """Return features of a public sample of the records, shape (m, d), and the number of all records.

    The sample, and the order of its rows, depend on the ids alone: not on blocks, nor on the order of the records.
    """
    rows, words = np.zeros((0, len(features))), np.zeros((0, 2), dtype=np.uint64)
    records = 0
    for batch in larger(table.blocks([id_column, *features])):
        records += batch.num_rows
        fresh = hidden_ids(RecordIds.of(record_ids(batch, id_column), PUBLIC_KEY).blocks, PUBLIC_KEY)
        near = fresh[:, 0] <= words[-1, 0] if len(words) == most else np.ones(len(fresh), dtype=bool)
        words = np.concatenate([words, fresh[near]])
        order = np.lexsort((words[:, 1], words[:, 0]))[:most]
        words, rows = words[order], np.concatenate([rows, feature_table(batch, features)[near]])[order]
    return rows, records

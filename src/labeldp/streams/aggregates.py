"""Aggregates of a table of any size: exact integers in one pass, one charge, and noise that is drawn once."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.curator import IDS_KIND, DatasetLedger, LedgerFile, counts_unreadable
from labeldp.learners import CellTask, CompactPartition, Model, default_cells
from labeldp.mechanisms import RESOLUTION, CountMechanism, Domain, GaussianMoment, LaplaceHistogram, LaplaceMoment
from labeldp.privacy import (
    Budget,
    Floats,
    InputError,
    Public,
    RecordIds,
    Release,
    Request,
    Unit,
    UnreadableRows,
    decimal,
    hidden_ids,
    stored_fraction,
)
from labeldp.streams.groupings import AllRecords, ByCells, ByColumn, ByFeatures, Grouping, check_features, feature_table
from labeldp.streams.survey import Aggregate, IdColumn, LabelTask, SurveyResult, check_columns, check_ids, survey_labels
from labeldp.streams.tallies import GroupSums, RowSums, restored, stored
from labeldp.tables import Table, open_table, record_ids, recut

Path = str | os.PathLike[str]

SAMPLE = 200_000
"""The most records whose public features are held, to decide by them how cells are cut."""

RECORDS_IN_CELL = 8
"""Records of the sample in a default cell, at least."""

WHY_ALL = "all records are one group"
WHY_CELLS = "cells were cut from public features of a sample alone, by a rule that was fixed without the labels"

PUBLIC_KEY = bytes(32)
"""Key of the hashes that select the public sample."""


@final
@dataclass(frozen=True)
class Aggregation:
    """Which label column of which table is summed, and who is charged.

    Args:
        table: the table.
        label, id: its private column, and its column of record ids, all different.
        domain: of the labels.
        account: `LedgerFile(path).dataset(name)`.
    """

    table: Table
    label: str
    id: str
    domain: Domain
    account: DatasetLedger

    @classmethod
    def of(
        cls,
        data: Any,
        label: str,
        id: str,
        domain: Domain,
        ledger: Path,
        dataset: str,
        cohort: str | None,
        revision: str | None,
        cost: Budget,
    ) -> Self:
        """Open a table and a dataset; the first dataset of a new ledger gets this cost as its whole budget.

        Raises:
            InputError: not a table, a column is missing or wrong, or the domain is not declared.
            LedgerError: the ledger cannot be used, or has no such dataset.
        """
        table = open_table(data)
        if not isinstance(domain, Domain):
            raise InputError('must be declared, such as Classes(("no", "yes")) or Interval(0, 100)', argument="domain")
        check_columns(table, label, id, domain.in_file())
        account = LedgerFile(ledger).dataset(dataset, cohort=cohort, revision=revision, budget=cost)
        return cls(table, label, id, domain, account)

    def survey(self, aggregate: Aggregate) -> "Survey":
        """Add integers up over all records, in one pass; charge nothing.

        Raises:
            InputError: a column is missing or wrong, an id is missing or repeated, or a label does not fit.
            LedgerError: the ledger cannot be used, or holds other records.
            LabelDPError: the table changed meanwhile.
        """
        in_file = self.domain.in_file()
        check_columns(self.table, self.label, self.id, in_file)
        for name in aggregate.columns:
            if name == self.label:
                raise InputError("must not be summed by: it is private", argument="label")
            self.table.require(name, "data")
        self.account.refuse_private((*aggregate.columns, self.id))
        self.account.check_unit(Unit.ONE_LABEL)
        ids = IdColumn(self.id, self.account.ids_key)
        digest = check_ids(self.table, ids, self.account)
        account = self.account.of_records(digest)
        key = account.digest_key
        task = LabelTask(ids, self.label, in_file, key, key, aggregate)
        with account.comparing(self.domain):
            return Survey(account, survey_labels(self.table, task, digest))

    def release(
        self, aggregate: Aggregate, mechanism: Callable[[Any], Any], sums: Callable[[Any, Any], Any]
    ) -> Release[Any]:
        """Add integers up over all records, charge a mechanism on their sums, and release what it draws once.

        Args:
            mechanism: makes the mechanism of the sums, from what is public in them.
            sums: returns the private sums, as `release_counts` of the mechanism takes them, of the sums and it.

        Guarantee (charged_first, refusal_free): nothing is drawn before its charge is committed, and it is drawn once;
            what is refused charges nothing.
        """
        survey = self.survey(aggregate)
        return survey.release(mechanism(survey.sums), sums)

    def grouped(self, kind: type[CountMechanism], grouping: Grouping, why: str, **options: Any) -> Release[Any]:
        """Release the output of a mechanism on groups; `options` are further arguments of `kind`.

        Args:
            why: the reason that the groups do not depend on labels.
        """
        return self.release(
            GroupSums(grouping, self.domain.size if kind.by_class else None),
            lambda sums: kind(domain=self.domain, groups=Public(sums.groups, why=why), **options),
            lambda sums, mechanism: sums.sums,
        )


@final
@dataclass(frozen=True)
class Survey:
    """Sums over a table, before anything is charged; get one from `Aggregation.survey`."""

    account: DatasetLedger
    result: SurveyResult = field(repr=False)

    @property
    def sums(self) -> Any:
        """The public and the private sums."""
        return self.result.sums

    def release(self, mechanism: Any, sums: Callable[[Any, Any], Any]) -> Release[Any]:
        """Charge a mechanism on the sums, and release its only draw; `sums` as in `Aggregation.release`."""
        request = self.result.labels.request(self.account, mechanism, IDS_KIND)
        noise = mechanism.bound(self.account.randomness.bind(request.context()))
        with self.account.charging(request, mechanism) as draw:
            if draw.is_new:
                draw.value = mechanism.release_counts(sums(self.sums, mechanism), rng=noise)
        return draw.release


@counts_unreadable
def histogram(
    data: Any,
    *,
    label: str,
    id: str,
    domain: Domain,
    epsilon: Any,
    ledger: Path,
    dataset: str,
    groups: str | None = None,
    why: str | None = None,
    cohort: str | None = None,
    revision: str | None = None,
) -> Release[NDArray[np.int64]]:
    """Release noisy class counts of all records, or of each public group of them.

    Args:
        data: the table, as `labeldp.tables.open_table` takes it; it has the label, the ids and the groups.
        label: its private column.
        id: its column of record ids, all different.
        domain: the declared classes.
        epsilon: cost of the release.
        ledger: the ledger file to charge; made if it is not there.
        dataset: the dataset's name in it. The first one of a ledger that is made is added with this release's cost as
            its whole budget.
        groups: its column of group numbers, from 0; public.
        why: why the groups do not depend on labels, in words; needed with `groups`.
        cohort: names a cohort of the dataset, whose records these are; all of them by default.
        revision: names another state of the labels; see `LedgerFile.dataset`.

    Returns:
        Counts, shape (groups, K), with the mechanism `LaplaceHistogram`.

    Guarantee (same_bits): the same request gives the same value for one charge, whatever order, blocks, files,
        partitions and retries there are.

    Raises:
        InputError: an argument is wrong, or a label or an id; nothing was charged.
        BudgetExceeded, LedgerError: nothing was charged.
        LabelDPError: the table changed meanwhile, or its engine failed; nothing was charged.
    """
    aggregation = Aggregation.of(data, label, id, domain, ledger, dataset, cohort, revision, Budget(epsilon))
    if groups is None:
        return aggregation.grouped(LaplaceHistogram, AllRecords(), WHY_ALL, epsilon=epsilon)
    if why is None:
        raise InputError("must say why the groups do not depend on labels, in words", argument="why")
    return aggregation.grouped(LaplaceHistogram, ByColumn(groups), why, epsilon=epsilon)


@counts_unreadable
def cells(
    data: Any,
    *,
    label: str,
    id: str,
    features: Sequence[str],
    partition: Any,
    mechanism: type[CountMechanism],
    domain: Domain,
    epsilon: Any,
    ledger: Path,
    dataset: str,
    why: str,
    cohort: str | None = None,
    revision: str | None = None,
) -> Release[NDArray[Any]]:
    """Release a noisy answer for each cell of a partition of public features.

    Args:
        data, label, id, domain, epsilon, ledger, dataset, cohort, revision: as in `histogram`.
        features: its columns of public numbers; missing ones are NaN.
        partition: a fitted partition, such as `MedianPartition(100).fit(sample)`; it goes to the workers.
        mechanism: what a cell answers: `LaplaceSum`, `LaplaceHistogram`, `PermuteAndFlip` or `ExponentialMechanism`.
        why: why the partition does not depend on labels, in words.

    Returns:
        What the mechanism released for each key of the partition; `mechanism.partition.sizes` are the records in each.

    Guarantee (same_bits): as `histogram`.

    Raises:
        InputError, BudgetExceeded, LedgerError, LabelDPError: as `histogram`.
    """
    aggregation = Aggregation.of(data, label, id, domain, ledger, dataset, cohort, revision, Budget(epsilon))
    columns = check_features(aggregation.table, features, label)
    return aggregation.grouped(mechanism, ByCells(partition, columns), why, epsilon=epsilon)


@counts_unreadable
def moments(
    data: Any,
    *,
    label: str,
    id: str,
    features: Sequence[str],
    clip: float,
    domain: Domain,
    epsilon: Any,
    ledger: Path,
    dataset: str,
    why: str,
    delta: Any = 0,
    resolution: int = RESOLUTION,
    cohort: str | None = None,
    revision: str | None = None,
) -> Release[NDArray[np.int64]]:
    """Release noisy sums of feature rows over all records, weighted by their labels; see `CrossMoment`.

    Args:
        data, label, id, domain, epsilon, ledger, dataset, cohort, revision: as in `histogram`.
        features: its columns of public numbers, none of them missing: the row of a record.
        clip: norm to which longer rows are scaled down, known without the labels.
        why: why the features and the clip do not depend on labels, in words.
        delta: of Gaussian noise; 0 for Laplace noise.
        resolution: grid steps in the clip, to which rows are rounded.

    Returns:
        Sums in grid steps, shape (features, K), or (features, 1) of numbers, with the mechanism `GaussianMoment` or
        `LaplaceMoment`: `mechanism.moment(value)` has their unit.

    Guarantee (same_bits): as `histogram`.

    Raises:
        InputError: also where a feature is no finite number.
        BudgetExceeded, LedgerError, LabelDPError: as `histogram`.
    """
    cost = Budget(epsilon, delta)
    aggregation = Aggregation.of(data, label, id, domain, ledger, dataset, cohort, revision, cost)
    noise: dict[str, Any] = {"delta": delta} if decimal(delta, "delta") else {}
    kind: Any = GaussianMoment if noise else LaplaceMoment
    rows = ByFeatures(check_features(aggregation.table, features, label))
    return aggregation.release(
        RowSums(rows, domain, clip, resolution),
        lambda sums: kind(domain=domain, epsilon=epsilon, features=Public(sums.rows, why=why), **noise),
        lambda sums, mechanism: sums.sums,
    )


@counts_unreadable
def fit_cells(
    data: Any,
    *,
    label: str,
    id: str,
    features: Sequence[str],
    domain: Domain,
    epsilon: Any,
    ledger: Path,
    dataset: str,
    partition: Any = None,
    mechanism: str | None = None,
    cohort: str | None = None,
    revision: str | None = None,
) -> Release[Model]:
    """Learn classes or numbers from noisy answers for cells of public features; see `labeldp.fit_cells`.

    Use it where a table does not fit into memory. Cells are cut by the features of a public sample; then all records
    are counted in one pass. Memory grows with a block, the sample and the cells, not with the table.

    Args:
        data, label, id, epsilon, ledger, dataset, cohort, revision: as in `histogram`.
        features: its columns of public numbers; missing ones are NaN.
        domain: declared classes, or an `Interval`.
        partition: unfitted partition, each cell of which answers for itself; by default compact cells, with boosted
            trees on their answers.
        mechanism: what a cell releases, as in `labeldp.fit_cells`.

    Returns:
        The model, whose features are the columns in this order.

    Guarantee (pure, same_bits): epsilon-DP for each label; the same records give the same model for one charge,
        whatever their order, blocks, files and partitions are.

    Raises:
        InputError, BudgetExceeded, LedgerError, LabelDPError: as `histogram`.
    """
    aggregation = Aggregation.of(data, label, id, domain, ledger, dataset, cohort, revision, Budget(epsilon))
    columns = check_features(aggregation.table, features, label)
    task = CellTask.of(domain, epsilon, mechanism, together=partition is None)
    sample, records = public_sample(aggregation.table, id, columns)
    if partition is None:
        cells = min(default_cells(records, epsilon), len(sample) // RECORDS_IN_CELL)
        partition = CompactPartition(max(cells, 1))
    fitted = task.cut(partition, sample)
    release = aggregation.grouped(task.kind, ByCells(fitted, columns), WHY_CELLS, epsilon=task.epsilon)
    return task.model_of(release, fitted, sample)


def public_sample(table: Table, id: str, features: tuple[str, ...], size: int = SAMPLE) -> tuple[Floats, int]:
    """Return features of a public sample of the records, shape (m, d), and the number of all records.

    The sample are the records whose ids have the smallest hashes. It, and the order of its rows, depend on the ids
    alone: not on blocks, parts, or the order of the records.

    Args:
        id: the column of record ids.
        features: columns of public numbers.
        size: the most records of the sample.

    Raises:
        InputError: an id is missing, or a column does not hold numbers.
    """
    task = SampleTask(id, features, size)
    sample = Sample(task)
    sample.add_states(table.run(task, [id, *features], join=task.join))
    return sample.rows, sample.records


@final
@dataclass(frozen=True)
class SampleTask:
    """Returns the public sample of a part; fields as in `public_sample`."""

    id: str
    features: tuple[str, ...]
    size: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> bytes:
        sample = Sample(self)
        try:
            for batch in recut(batches):
                sample.add(batch)
        except UnreadableRows:
            raise
        except InputError as error:
            return stored(problem=np.array(str(error)))
        return sample.state

    def join(self, states: Iterable[bytes]) -> bytes:
        """Join the results of several of these tasks."""
        sample = Sample(self)
        try:
            sample.add_states(states)
        except InputError as error:
            return stored(problem=np.array(str(error)))
        return sample.state


@final
class Sample:
    """The records whose ids have the smallest hashes, in the order of these, and how many records there are."""

    def __init__(self, task: SampleTask) -> None:
        self._task = task
        self._hashes = np.zeros((0, 2), dtype=np.uint64)
        self.rows: Floats = np.zeros((0, len(task.features)))
        self.records = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the records of a block."""
        names = RecordIds.of(record_ids(batch, self._task.id), PUBLIC_KEY).blocks
        self._merge(hidden_ids(names, PUBLIC_KEY), feature_table(batch, self._task.features), batch.num_rows)

    @property
    def state(self) -> bytes:
        """All of it, to be added by `add_states`."""
        return stored(hashes=self._hashes, rows=self.rows, records=np.array(self.records))

    def add_states(self, states: Iterable[bytes]) -> None:
        """Add the samples of other parts, by their `state`; raise InputError if one of them met a problem."""
        for part in map(restored, states):
            self._merge(part["hashes"], part["rows"], int(part["records"]))

    def _merge(self, hashes: NDArray[np.uint64], rows: Floats, records: int) -> None:
        self.records += records
        if len(self._hashes) == self._task.size:
            near = hashes[:, 0] <= self._hashes[-1, 0]
            hashes, rows = hashes[near], rows[near]
        merged = np.concatenate([self._hashes, hashes])
        order = np.lexsort((merged[:, 1], merged[:, 0]))[: self._task.size]
        self._hashes, self.rows = merged[order], np.concatenate([self.rows, rows])[order]


def account_of(request: Request, ledger: Path) -> dict[str, Any]:
    """Return the arguments of a release that say whose labels it is about, and what it costs."""
    return {
        "label": request.source.label,
        "domain": Domain.from_json(request.domain),
        "epsilon": stored_fraction(request.epsilon),
        "ledger": ledger,
        "dataset": request.scope.name,
        "cohort": request.scope.cohort or None,
        "revision": request.scope.revision or None,
    }

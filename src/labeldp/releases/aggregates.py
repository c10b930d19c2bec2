"""Aggregates of a table of any size: exact integers in one pass, one charge, and noise that is drawn once."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self, cast, final

import joblib
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.curator import IDS_KIND, DatasetLedger, counts_unreadable, open_account
from labeldp.learners import CellTask, CompactPartition, Model, default_cells
from labeldp.mechanisms import (
    MECHANISMS,
    RESOLUTION,
    CountMechanism,
    Domain,
    GaussianMoment,
    LaplaceHistogram,
    LaplaceMoment,
)
from labeldp.privacy import (
    Floats,
    InputError,
    LabelDPError,
    Public,
    RecordIds,
    Release,
    Request,
    Source,
    UnreadableRows,
    hidden_ids,
)
from labeldp.releases.groupings import (
    AllRecords,
    ByCells,
    ByColumn,
    ByFeatures,
    Grouping,
    check_features,
    feature_table,
)
from labeldp.releases.survey import Aggregate, IdColumn, LabelTask, SurveyResult, TableIds, check_columns, survey_labels
from labeldp.releases.tallies import GroupSums, RowSums, restored, stored
from labeldp.tables import CHANGED, Table, open_table, record_ids, recut

Path = str | os.PathLike[str]

SAMPLE = 200_000
"""The most records whose public features are held, to decide by them how cells are cut."""

RECORDS_IN_CELL = 8
"""Records of the sample in a default cell, at least."""

WHY_ALL = "all records are one group"
WHY_CELLS = "cells were cut from public features of a sample alone, by a rule that was fixed without the labels"

PUBLIC_KEY = bytes(32)
"""Key of the hashes that select the public sample."""


Plan = tuple[Aggregate, Callable[[Any], Any]]
"""What is summed, and the mechanism of the public sums."""

Sums = Callable[[Any, Any], Any]
"""Returns the private sums, as `release_counts` of a mechanism takes them, of all sums and the mechanism."""


@final
@dataclass(frozen=True)
class Aggregation:
    """A request to sum a label column over a table in one pass, and the ledger file that is charged.

    Args:
        table: the table.
        domain: of the labels.
        request: what is asked; it names the label column, the ids and the dataset.
        ledger: the ledger file.
    """

    table: Table
    domain: Domain
    request: Request
    ledger: Path

    @classmethod
    def of(cls, request: Request, data: Any, ledger: Path) -> Self:
        """Open a table, and check its columns.

        Raises:
            InputError: not a table, or a column is missing or wrong.
        """
        table, domain = open_table(data), Domain.from_json(request.domain)
        check_columns(table, request.source.label, request.source.ids, domain.in_file())
        return cls(table, domain, request, ledger)

    @property
    def features(self) -> tuple[str, ...]:
        """The columns of public numbers.

        Raises:
            InputError: there are none, or one is missing, of another type, or private.
        """
        return check_features(self.table, self.request.source.features, self.request.source.label)

    def survey(self, columns: Sequence[str], plan: Callable[[], Plan]) -> "Survey":
        """Add integers up over all records, after all refusals that need no label; charge nothing.

        Public columns are read first: they give the mechanism and its cost. Labels are read when the account admits it.

        Args:
            columns: the public columns that are read.
            plan: returns what is summed and its mechanism; called when public columns may be read.

        Raises:
            InputError: a column is missing or wrong, an id is missing or repeated, or a label does not fit.
            BudgetExceeded, LedgerError: the ledger does not admit it, cannot be used, or holds other records.
            LabelDPError: the table changed meanwhile.
        """
        label, id = self.request.source.label, self.request.source.ids
        for name in columns:
            if name == label:
                raise InputError("must not be summed by: it is private", argument="label")
            self.table.require(name, "data")
        ids = TableIds(self.table, id)
        aggregate = make = mechanism = cast(Any, None)

        def task(account: DatasetLedger, label: str | None) -> LabelTask:
            names, key = IdColumn(id, account.ids_key), account.digest_key
            return LabelTask(names, label, self.domain.in_file(), key, key, aggregate)

        def mechanism_of(account: DatasetLedger) -> Any:
            nonlocal aggregate, make, mechanism
            aggregate, make = plan()
            mechanism = make(survey_labels(self.table, task(account, None), ids.digest).sums)
            return mechanism

        account = open_account(
            self.request, self.ledger, public=(*columns, id), named=True, records=ids.of, count=ids.count,
            mechanism=mechanism_of,
        )  # fmt: skip
        with account.comparing(self.domain):
            result = survey_labels(self.table, task(account, label), ids.digest)
        if make(result.sums).specification() != mechanism.specification():
            raise LabelDPError(f"{CHANGED.format('checked')}: nothing was charged")
        return Survey(account, result, mechanism)

    def release(self, columns: Sequence[str], plan: Callable[[], Plan], sums: Sums) -> Release[Any]:
        """Add integers up over all records, charge a mechanism on their sums, and release what it draws once.

        Args:
            columns, plan: as in `survey`.
            sums: the private sums that the mechanism takes.

        Guarantee (charged_first, refusal_free): nothing is drawn before its charge is committed, and it is drawn once;
            what is refused charges nothing.
        """
        return self.survey(columns, plan).release(sums)

    def grouped(
        self,
        kind: type[CountMechanism],
        columns: Sequence[str],
        grouping: Callable[[], Grouping],
        why: str,
        epsilon: Any = None,
    ) -> Release[Any]:
        """Release the output of a mechanism on groups.

        Args:
            columns: the public columns that the grouping reads.
            grouping: returns what puts records into groups; called when public columns may be read.
            why: the reason that the groups do not depend on labels.
            epsilon: of the mechanism; by default that of the request.
        """
        epsilon = epsilon or self.request.budget.epsilon

        def plan() -> Plan:
            sums = GroupSums(grouping(), self.domain.size if kind.by_class else None)
            return sums, lambda sums: kind(domain=self.domain, groups=Public(sums.groups, why=why), epsilon=epsilon)

        return self.release(columns, plan, lambda sums, mechanism: sums.sums)


@final
@dataclass(frozen=True)
class Survey:
    """Sums over a table, before anything is charged; get one from `Aggregation.survey`."""

    account: DatasetLedger
    result: SurveyResult = field(repr=False)
    mechanism: Any

    @property
    def sums(self) -> Any:
        """The public and the private sums."""
        return self.result.sums

    def release(self, sums: Sums) -> Release[Any]:
        """Charge the mechanism on the sums, and release its only draw; `sums` as in `Aggregation.release`."""
        mechanism = self.mechanism
        request = self.result.labels.request(self.account, mechanism, IDS_KIND)
        noise = mechanism.bound(self.account.randomness.bind(request.context()))
        with self.account.charging(request, mechanism) as draw:
            if draw.is_new:
                draw.value = mechanism.release_counts(sums(self.sums, mechanism), rng=noise)
        release: Release[Any] = draw.release
        return replace(release, certificate=replace(release.certificate, request=self.account.request))


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
    options: dict[str, Any] = {"groups": groups, "why": why, "cohort": cohort, "revision": revision}
    source = Source.of(data, label, id)
    request = Request.of("totals", "histogram", dataset, source, epsilon, domain=domain, **options)
    return ask_histogram(request, data, ledger=ledger)


@counts_unreadable
def ask_histogram(request: Request, data: Any, *, ledger: Path) -> Release[NDArray[np.int64]]:
    """Release noisy class counts as a request says; see `histogram`."""
    groups: Any = request.options.get("groups")
    why: Any = request.options.get("why")
    if groups is not None and why is None:
        raise InputError("must say why the groups do not depend on labels, in words", argument="why")
    aggregation = Aggregation.of(request, data, ledger)
    if groups is None:
        return aggregation.grouped(LaplaceHistogram, (), AllRecords, WHY_ALL)
    return aggregation.grouped(LaplaceHistogram, (groups,), partial(ByColumn, groups), why)


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
    if not isinstance(mechanism, type) or not issubclass(mechanism, CountMechanism):
        raise InputError("must be a class of mechanisms on cells, such as LaplaceSum", argument="mechanism")
    source = Source.of(data, label, id, features=features)
    options: dict[str, Any] = {"partition": described_by(partition), "mechanism": mechanism.__name__, "why": why}
    options |= {"cohort": cohort, "revision": revision}
    request = Request.of("totals", "cells", dataset, source, epsilon, domain=domain, **options)
    return ask_cells(request, data, ledger=ledger, partition=partition, mechanism=mechanism)


@counts_unreadable
def ask_cells(
    request: Request, data: Any, *, ledger: Path, partition: Any = None, mechanism: type[CountMechanism] | None = None
) -> Release[NDArray[Any]]:
    """Release an answer for each cell as a request says; see `cells`. The partition is an object of the program."""
    check_object(request, "partition", partition)
    kind = mechanism or MECHANISMS[str(request.options.get("mechanism"))].load()
    aggregation = Aggregation.of(request, data, ledger)
    columns = aggregation.features
    return aggregation.grouped(kind, columns, lambda: ByCells(partition, columns), request.options["why"])


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
    source = Source.of(data, label, id, features=features)
    options: dict[str, Any] = {
        "clip": clip,
        "resolution": resolution,
        "why": why,
        "cohort": cohort,
        "revision": revision,
    }
    request = Request.of("totals", "moments", dataset, source, epsilon, delta, domain=domain, **options)
    return ask_moments(request, data, ledger=ledger)


@counts_unreadable
def ask_moments(request: Request, data: Any, *, ledger: Path) -> Release[NDArray[np.int64]]:
    """Release noisy sums of rows as a request says; see `moments`."""
    aggregation, options, budget = Aggregation.of(request, data, ledger), request.options, request.budget
    columns, domain = aggregation.features, aggregation.domain
    noise: dict[str, Any] = {"delta": budget.delta} if budget.delta else {}
    kind: Any = GaussianMoment if noise else LaplaceMoment
    sums = RowSums(ByFeatures(columns), domain, options["clip"], options["resolution"])

    def mechanism(sums: Any) -> Any:
        features = Public(sums.rows, why=options["why"])
        return kind(domain=domain, epsilon=budget.epsilon, features=features, **noise)

    return aggregation.release(columns, lambda: (sums, mechanism), lambda sums, mechanism: sums.sums)


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
    source = Source.of(data, label, id, features=features)
    options: dict[str, Any] = {
        "partition": None if partition is None else described_by(partition),
        "mechanism": mechanism,
    }
    options |= {"cohort": cohort, "revision": revision}
    request = Request.of("totals", "fit-cells", dataset, source, epsilon, domain=domain, **options)
    return ask_fit_cells(request, data, ledger=ledger, partition=partition)


@counts_unreadable
def ask_fit_cells(request: Request, data: Any, *, ledger: Path, partition: Any = None) -> Release[Model]:
    """Learn from answers for cells as a request says; see `fit_cells`."""
    check_object(request, "partition", partition)
    aggregation, epsilon = Aggregation.of(request, data, ledger), request.budget.epsilon
    columns, id = aggregation.features, request.source.ids
    task = CellTask.of(aggregation.domain, epsilon, request.options.get("mechanism"), together=partition is None)
    fitted = sample = None

    def grouping() -> ByCells:
        nonlocal fitted, sample
        sample, records = public_sample(aggregation.table, id, columns)
        chosen = partition
        if chosen is None:
            cells = min(default_cells(records, epsilon), len(sample) // RECORDS_IN_CELL)
            chosen = CompactPartition(max(cells, 1))
        fitted = task.cut(chosen, sample)
        return ByCells(fitted, columns)

    release = aggregation.grouped(task.kind, columns, grouping, WHY_CELLS, task.epsilon)
    return task.model_of(release, fitted, sample)


def check_object(request: Request, name: str, value: Any) -> None:
    """Raise InputError for another object of a program than the one that a request has a digest of."""
    if (None if value is None else described_by(value)) != request.options.get(name):
        raise InputError("holds a digest of an object that a program made: repeat it in Python", argument="request")


def described_by(model: Any) -> str:
    """Return what a request holds of an object that a program made: its class and a digest of all that it holds."""
    try:
        digest = joblib.hash(model)
    except Exception:  # what cannot be pickled, such as a lambda, has no digest
        digest = "without a digest"
    return f"{type(model).__name__} {digest}"


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

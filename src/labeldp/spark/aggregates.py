"""Aggregates of a data frame: one pass of exact integers over its records, and noise that the driver draws once."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.bags import BagSum
from labeldp.cluster import AllRecords, Asked, ByCells, ByColumn, ByFeatures, Grouping, GroupMeasure, RowMeasure
from labeldp.curator import LedgerFile
from labeldp.mechanisms import (
    RESOLUTION,
    CountMechanism,
    Domain,
    GaussianMoment,
    LaplaceHistogram,
    LaplaceMoment,
)
from labeldp.privacy import Budget, InputError, Public, Release, decimal
from labeldp.spark.table import SparkTable

WHY_ALL = "all records are one group"


def histogram(
    dataframe: Any,
    *,
    label: str,
    id: str,
    domain: Domain,
    epsilon: Any,
    ledger: str | os.PathLike[str],
    dataset: str,
    groups: str | None = None,
    why: str | None = None,
    cohort: str | None = None,
    revision: str | None = None,
) -> Release[NDArray[np.int64]]:
    """Release noisy class counts of all records, or of each public group of them.

    Args:
        dataframe: holds the label, the ids and the groups.
        label: its private column.
        id: its column of record ids, all different.
        domain: the declared classes.
        epsilon: cost of the release.
        ledger, dataset, cohort, revision: who is charged, as in `release`.
        groups: its column of group numbers, from 0; public.
        why: why the groups do not depend on labels, in words; needed with `groups`.

    Returns:
        Counts, shape (groups, K), with the mechanism `LaplaceHistogram`.

    Guarantee (same_bits): the same request gives the same value for one charge, whatever partitions and retries there
        are.

    Raises:
        InputError: an argument is wrong, or a label or an id; nothing was charged.
        BudgetExceeded, LedgerError: nothing was charged.
        LabelDPError: the table changed meanwhile, or Spark failed; nothing was charged.
    """
    asked = aggregate(dataframe, label, id, domain, ledger, dataset, cohort, revision, Budget(epsilon=epsilon))
    grouping, reason = grouped_by(groups, why)
    return asked.grouped(LaplaceHistogram, grouping, reason, epsilon=epsilon)


def cells(
    dataframe: Any,
    *,
    label: str,
    id: str,
    features: list[str],
    partition: Any,
    mechanism: type[CountMechanism],
    domain: Domain,
    epsilon: Any,
    ledger: str | os.PathLike[str],
    dataset: str,
    why: str,
    cohort: str | None = None,
    revision: str | None = None,
) -> Release[NDArray[Any]]:
    """Release a noisy answer for each cell of a partition of public features.

    Args:
        dataframe: holds the label, the ids and the features.
        label, id, domain, epsilon, ledger, dataset, cohort, revision: as in `histogram`.
        features: its columns of public numbers; missing ones are NaN.
        partition: a fitted partition, such as `MedianPartition(100).fit(sample)`; it goes to the workers.
        mechanism: what a cell answers: `LaplaceSum`, `LaplaceHistogram`, `PermuteAndFlip` or `ExponentialMechanism`.
        why: why the partition does not depend on labels, in words.

    Returns:
        What the mechanism released for each key of the partition; `mechanism.partition.sizes` are the records in each.

    Guarantee (same_bits): the same request gives the same value for one charge, whatever partitions and retries there
        are.

    Raises:
        InputError, BudgetExceeded, LedgerError, LabelDPError: as `histogram`.
    """
    asked = aggregate(dataframe, label, id, domain, ledger, dataset, cohort, revision, Budget(epsilon=epsilon))
    return asked.grouped(mechanism, ByCells(partition, tuple(features)), why, epsilon=epsilon)


def bag_sum(
    dataframe: Any,
    *,
    label: str,
    id: str,
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
) -> Release[NDArray[np.int64]]:
    """Release the noisy sum of the labels of each public bag; see `BagSum`.

    Args:
        dataframe: holds the label, the ids and the bags.
        label, id, domain, epsilon, ledger, dataset, cohort, revision: as in `histogram`.
        bags: its column of bag numbers, from 0.
        size: the smallest number of records in a bag.
        why: why the bags do not depend on labels, in words.
        delta: of Gaussian noise; 0 for Laplace noise.

    Returns:
        Sums in fine steps, shape (bags,), with the mechanism `BagSum`: `mechanism.totals(value)` has their unit.

    Guarantee (same_bits): the same request gives the same value for one charge, whatever partitions and retries there
        are.

    Raises:
        InputError: also where a bag is smaller than asked.
        BudgetExceeded, LedgerError, LabelDPError: as `histogram`.
    """
    cost = Budget(epsilon=epsilon, delta=delta)
    asked = aggregate(dataframe, label, id, domain, ledger, dataset, cohort, revision, cost)
    return asked.release(
        GroupMeasure(ByColumn(bags), None),
        lambda tally: BagSum.calibrated(
            size, epsilon=epsilon, delta=delta, domain=domain, bags=Public(tally.groups, why=why)
        ),
        lambda tally, made: tally.sums * made.fine,
    )


def moments(
    dataframe: Any,
    *,
    label: str,
    id: str,
    features: list[str],
    clip: float,
    domain: Domain,
    epsilon: Any,
    ledger: str | os.PathLike[str],
    dataset: str,
    why: str,
    delta: Any = 0,
    resolution: int = RESOLUTION,
    cohort: str | None = None,
    revision: str | None = None,
) -> Release[NDArray[np.int64]]:
    """Release noisy sums of feature rows over all records, weighted by their labels; see `CrossMoment`.

    Args:
        dataframe: holds the label, the ids and the features.
        label, id, domain, epsilon, ledger, dataset, cohort, revision: as in `histogram`.
        features: its columns of public numbers, none of them missing: the row of a record.
        clip: norm to which longer rows are scaled down, known without the labels.
        why: why the features and the clip do not depend on labels, in words.
        delta: of Gaussian noise; 0 for Laplace noise.
        resolution: grid steps in the clip, to which rows are rounded.

    Returns:
        Sums in grid steps, shape (features, K), or (features, 1) of numbers, with the mechanism `GaussianMoment` or
        `LaplaceMoment`: `mechanism.moment(value)` has their unit.

    Guarantee (same_bits): the same request gives the same value for one charge, whatever partitions and retries there
        are.

    Raises:
        InputError: also where a feature is no finite number.
        BudgetExceeded, LedgerError, LabelDPError: as `histogram`.
    """
    cost = Budget(epsilon=epsilon, delta=delta)
    asked = aggregate(dataframe, label, id, domain, ledger, dataset, cohort, revision, cost)
    noise: dict[str, Any] = {"delta": delta} if decimal(delta, "delta") else {}
    kind: Any = GaussianMoment if noise else LaplaceMoment
    return asked.release(
        RowMeasure(ByFeatures(tuple(features)), domain, clip, resolution),
        lambda tally: kind(domain=domain, epsilon=epsilon, features=Public(tally.rows, why=why), **noise),
        lambda tally, made: tally.sums,
    )


def aggregate(
    dataframe: Any,
    label: str,
    id: str,
    domain: Domain,
    ledger: str | os.PathLike[str],
    dataset: str,
    cohort: str | None,
    revision: str | None,
    cost: Budget,
) -> Asked:
    """Return what is asked of a data frame; the first dataset of a new ledger gets this cost as its whole budget.

    Raises:
        InputError: not a data frame, or not a domain.
        LedgerError: the ledger cannot be used, or has no such dataset.
    """
    table = SparkTable(dataframe)
    if not isinstance(domain, Domain):
        raise InputError('must be declared, such as Classes(("no", "yes")) or Interval(0, 100)', argument="domain")
    account = LedgerFile(ledger).dataset(dataset, cohort=cohort, revision=revision, budget=cost)
    return Asked(table, label, id, domain, account)


def grouped_by(groups: str | None, why: str | None) -> tuple[Grouping, str]:
    """Return a grouping and why it is public.

    Raises:
        InputError: groups without a reason.
    """
    if groups is None:
        return AllRecords(), WHY_ALL
    if why is None:
        raise InputError("must say why the groups do not depend on labels, in words", argument="why")
    return ByColumn(groups), why

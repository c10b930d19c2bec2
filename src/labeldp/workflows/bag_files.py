"""Release sums of a label column over bags of records: read whole, charged once, published whole or not at all."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.mechanisms import (
    Bagged,
    BagSum,
    Domain,
    Interval,
    NoisyWeightedLLP,
    WeightedLBA,
    llp_calibrate,
    median_bags,
    random_bags,
)
from labeldp.privacy import Budget, Certificate, InputError, Public, decimal
from labeldp.tables import TableEncoder, TableFile, open_table, release_writer
from labeldp.workflows.curator import Curator
from labeldp.workflows.fit_data import by_id, codes_in, distinct_ids
from labeldp.workflows.labels import domain_in_file
from labeldp.workflows.ledger_file import LedgerFile

BAG_MECHANISMS = "bag-sum", "noisy-weighted-llp", "weighted-lba"
"""What `release_bags` offers."""

MARGIN = Fraction(1, 1 << 49)
"""Part of a delta that is kept for integers and doubles."""


def release_bags(
    data: str | os.PathLike[str],
    *,
    label: str,
    domain: Domain,
    mechanism: str,
    size: int,
    epsilon: Any,
    delta: Any = 0,
    bags: str | None = None,
    noisy: int | None = None,
    weights: str = "rademacher",
    rows: int = 1,
    ledger: str | os.PathLike[str],
    dataset: str,
    out: str | os.PathLike[str],
    id_column: str | None = None,
    revision: str | None = None,
    note: Callable[[str], None] | None = None,
) -> Certificate:
    """Release sums of a label column over bags as a table with a certificate.

    Noise is as small as (epsilon, delta) allows. All columns but label and ids are public features: bags are made of
    them, and `weighted-lba` sums them, so there they must be numbers. The table has a row for each record (its id or
    row number, its bag, its bag's noisy sum in LABEL_sum; `noisy-weighted-llp` adds its weight and whether it counts
    as noisy), or for `weighted-lba` a row for each weighted sum of features and labels, the labels less the middle of
    their range. The same command on the same file costs nothing again.

    Args:
        data: the file.
        label: its private column.
        domain: an `Interval`, or two classes.
        mechanism: one of `BAG_MECHANISMS`.
        size: records in the smallest bag.
        epsilon, delta: what the release costs; of `bag-sum` delta = 0 asks for Laplace noise.
        bags: "median" or "random"; by default "median" for `bag-sum`.
        noisy: labels of each bag that count as noisy; all of the smallest bag by default.
        weights: of `noisy-weighted-llp`: "rademacher" or "gaussian".
        rows: of `weighted-lba`: weighted sums of each bag.
        ledger, dataset, revision, note: as in `release_file`.
        out: the output, .parquet or .csv, which must not exist.
        id_column: record ids, all different, that are written beside the bags; with them the order of rows counts for
            nothing.

    Raises:
        InputError: an argument is wrong; nothing was charged.
        BudgetExceeded: nothing was charged and nothing published.
        LedgerError: the ledger cannot be used, or the labels changed; nothing was charged.
    """
    if mechanism not in BAG_MECHANISMS:
        raise InputError(f"mechanism must be one of {', '.join(BAG_MECHANISMS)}")
    records = _Records.read(open_table(data), label, id_column, domain)
    features = Public(records.features, why="the columns beside the label are public features")
    made: Bagged
    if mechanism == "bag-sum":
        made = _bag_sum(domain, size, features, bags or "median", epsilon, delta)
    elif mechanism == "noisy-weighted-llp":
        made = _llp(domain, size, _bags(bags or "random", features, size), epsilon, delta, noisy, weights)
    else:
        _require_numbers(records.encoder)
        made = _lba(domain, size, features, bags or "random", epsilon, delta, rows)
    account = LedgerFile(ledger).dataset(dataset, revision=revision, budget=Budget(epsilon, delta))
    if Path(out).absolute() == Path(ledger).absolute():
        raise InputError("out and ledger must be different files")
    released, is_new = f"{label}_sum", account.is_new
    names = _columns(made, released, id_column, records.encoder.names)
    curator = Curator(domain.decode(records.codes), domain=domain, ledger=account, ids=records.ids)
    with release_writer(out, names, released=released) as writer:
        release = curator.release(made, rng=account.randomness)
        if is_new and note:
            note(f"{dataset!r} is new in {ledger}: its whole budget is what this release may cost")
        arrays = _published(made, release.value, records)
        others = pa.RecordBatch.from_arrays([pa.array(each) for each in arrays[:-1]], names=list(names[:-1]))
        writer.write(pa.array(arrays[-1]), others)
        writer.certify(release.certificate.to_json())
    return release.certificate


@dataclass(frozen=True)
class _Records:
    """The whole table in the order of the record ids where it has some: rows may stand in any order.

    Args:
        encoder: of the feature columns.
        features: shape (n, d).
        codes: of the private labels, shape (n,).
        ids: record ids, or None for row numbers.
        names: what stands for each record in the output, in the order of the file.
        places: for each row of the file the place of its record here, shape (n,).
    """

    encoder: TableEncoder = field(repr=False)
    features: NDArray[np.float64] = field(repr=False)
    codes: NDArray[Any] = field(repr=False)
    ids: Any = field(repr=False)
    names: pa.Array = field(repr=False)
    places: NDArray[np.intp] = field(repr=False)

    @classmethod
    def read(cls, table: TableFile, label: str, id_column: str | None, domain: Domain) -> "_Records":
        """Read and check everything: what is wrong is refused here."""
        columns = _feature_columns(table, label, id_column)
        content = table.read()
        codes, ids = codes_in(content, label, domain_in_file(domain)), None
        names, order = pa.array(np.arange(len(codes))), np.arange(len(codes))
        if id_column is not None:
            ids, names = distinct_ids(content, id_column), content.column(id_column).combine_chunks()
            order = by_id(ids)
            content, codes = content.take(pa.array(order)), codes[order]
            ids = [ids[row] for row in order.tolist()] if isinstance(ids, list) else ids[order]
        encoder = TableEncoder.fit(content.select(columns))
        return cls(encoder, encoder.transform(content), codes, ids, names, np.argsort(order))


def _feature_columns(table: TableFile, label: str, id_column: str | None) -> list[str]:
    """All columns but label and ids."""
    table.require(label, "label")
    if id_column is not None:
        table.require(id_column, "id_column")
    if id_column == label:
        raise InputError("id_column must be another column than label: ids are published")
    columns = [name for name in table.columns if name not in (label, id_column)]
    if not columns:
        raise InputError("the table must have feature columns beside the label: bags are made of them")
    return columns


def _bags(bags: str, features: Public[NDArray[np.float64]], size: int) -> Any:
    if bags not in ("median", "random"):
        raise InputError("bags must be median or random")
    return median_bags(features, size) if bags == "median" else random_bags(len(features.value), size)


def _bag_sum(domain: Domain, size: int, features: Any, bags: str, epsilon: Any, delta: Any) -> BagSum:
    noise = "gaussian" if decimal(delta, "delta") else "laplace"
    return BagSum(size, bags=bags, noise=noise, domain=domain, epsilon=epsilon, delta=delta, features=features)


def _llp(
    domain: Domain, size: int, bags: Any, epsilon: Any, delta: Any, noisy: int | None, weights: str
) -> NoisyWeightedLLP:
    """With the smallest standard deviation that keeps (epsilon, delta)."""
    each = size if noisy is None else noisy
    width = domain.high - domain.low if isinstance(domain, Interval) else 1.0
    probe = NoisyWeightedLLP(size, each, width, weights, domain=domain, bags=bags)
    share = decimal(delta, "delta") - MARGIN
    if share <= 0:
        raise InputError("delta must be positive for noisy-weighted-llp, such as 1e-6: its noise is Gaussian")
    found = llp_calibrate(
        "stddev",
        epsilon=epsilon,
        delta=share,
        size=probe.law.size,
        noisy_fraction=probe.law.noisy_fraction,
        label_range=probe.law.label_range,
        weights=weights,
    )
    stddev = float(found.stddev) * (1 + 1e-9)
    return NoisyWeightedLLP(size, each, stddev, weights, domain=domain, bags=bags)


def _require_numbers(encoder: TableEncoder) -> None:
    """Refuse categories: a sum of their codes says nothing.

    Raises:
        InputError: a column holds categories.
    """
    if found := [name for name, is_one in zip(encoder.names, encoder.categorical, strict=True) if is_one]:
        raise InputError(
            f"weighted-lba sums features: the column {found[0]!r} holds categories, make each a column of 0 and 1"
        )


def _lba(
    domain: Domain, size: int, features: Public[NDArray[np.float64]], bags: str, epsilon: Any, delta: Any, rows: int
) -> WeightedLBA:
    """With a constant feature before the others, and as little noise on each bag as keeps (epsilon, delta)."""
    matrix = np.column_stack([np.ones(len(features.value)), features.value])
    table = Public(matrix, why=features.why)
    return WeightedLBA(size, rows, domain=domain, bags=bags, features=table, epsilon=epsilon, delta=delta)


def _columns(made: Bagged, released: str, id_column: str | None, features: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of the output, the released one last."""
    if isinstance(made, WeightedLBA):
        names: tuple[str, ...] = ("bag", "constant", *features, released)
    else:
        weighted = ("weight", "noisy") if isinstance(made, NoisyWeightedLLP) else ()
        names = ("row" if id_column is None else id_column, "bag", *weighted, released)
    if len(set(names)) < len(names):
        raise InputError(f"the table must not have columns with the names of the output: {', '.join(names)}")
    return names


def _published(made: Bagged, value: Any, records: _Records) -> list[Any]:
    """The columns of the output in order."""
    if isinstance(made, WeightedLBA):
        sums, labels = made.opened(value)
        return [np.repeat(np.arange(made.partition.count), made.rows), *sums.T, labels]
    places, of_record = records.places, made.partition.of_record
    if isinstance(made, BagSum):
        return [records.names, of_record[places], made.totals(value)[of_record][places]]
    assert isinstance(made, NoisyWeightedLLP)
    shown = made.opened(value)
    return [records.names, *(each[places] for each in (of_record, shown.weights, shown.noisy, shown.sums[of_record]))]
